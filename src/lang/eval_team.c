// SPDX-License-Identifier: Apache-2.0
// A row of an epilogue is the work of a team: the SIMD lanes of a core, or the threads of a warp.
// What goes over the row's elements is shared out among them, sums and maxima included. Elsewhere a
// row is gone through element by element.
#include "lang/eval.h"

enum { WIDE = 2, WARP = 32, KEPT = 8 }; // registers of partial results; threads; of a row each

static bool on_gpu(const Eval *e)
{
    return e->kernel->target.kind == TARGET_CUDA;
}

static Node *folder(Eval *e)
{
    return map_get(&e->lib->fns, eval_sym(e, on_gpu(e) ? "warp_fold" : "fold_wide"));
}

bool team_begin(Eval *e, Loc loc)
{
    e->team = folder(e) ? e->out : NULL;
    return e->team || !on_gpu(e) ||
           eval_fail(e, loc, "rows need the function 'warp_fold', which no loaded text declares");
}

bool team_at_hand(const Eval *e)
{
    return e->team && e->out == e->team;
}

static int lanes_of(const Eval *e)
{
    return (int)max_i64(1, e->kernel->target.vector_bytes / (int64_t)sizeof(float));
}

int team_width(const Eval *e)
{
    return on_gpu(e) ? WARP : WIDE * lanes_of(e);
}

// Which elements of a tile a lane has.
static const Mapping *tile_of(Eval *e)
{
    const int64_t wide[] = {WIDE}, lanes[] = {lanes_of(e)};
    const char *why = NULL;
    return mapping_compose(e->arena, mapping_repeat(e->arena, 1, wide, NULL, NULL, &why),
                           mapping_spatial(e->arena, 1, lanes, NULL, &why), &why);
}

static bool lane_of(Eval *e, Loc loc, Value *out)
{
    bool naming = e->naming_worker, found;
    e->naming_worker = true;
    bool ok = builtin_constant(e, eval_sym(e, "lane"), loc, out, &found);
    e->naming_worker = naming;
    return ok;
}

// One loop whose body is told the element; task: which of the core's partial results it goes into.
typedef struct Part {
    Loc loc;
    Value first; // of the elements
    int width;   // elements a pass
    TeamFn *body;
    void *user;
} Part;

static bool part_element(Eval *e, const Part *p, Value pass, Value within, Value *out)
{
    return eval_binary(e, p->loc, N_MUL, pass, value_int(p->width), out) &&
           eval_binary(e, p->loc, N_ADD, *out, within, out) &&
           eval_binary(e, p->loc, N_ADD, p->first, *out, out);
}

static bool tasks_of_lanes(Eval *e, const Part *p, Value pass)
{
    const Mapping *m = tile_of(e);
    Node *loop = node_new(e->arena, N_MAPFOR, p->loc, 3);
    Var *v = kernel_var(e->kernel, "e", DT_I64, false);
    Value worker, at, task;
    Stmts *body, *saved;
    v->lo = 0;
    v->hi = p->width - 1;
    v->loc = p->loc;
    loop->u.map = m;
    loop->kid[2] = node_var(e->arena, p->loc, v);
    task = value_expr(loop->kid[2]);
    if (!lane_of(e, p->loc, &worker) || !eval_node(e, p->loc, worker, &loop->kid[0]) ||
        !eval_begin(e, &body, &saved, p->loc))
        return false;
    body->first_id = v->id;
    e->nlane++;
    bool ok = part_element(e, p, pass, task, &at) && p->body(e, at, &task, p->user);
    e->nlane--;
    loop->kid[1] = eval_end(e, body, saved, p->loc);
    eval_emit(e, loop);
    return ok;
}

static bool thread_of_warp(Eval *e, const Part *p, Value pass, Value hi, bool whole)
{
    Value lane, at, in;
    if (!lane_of(e, p->loc, &lane) || !part_element(e, p, pass, lane, &at)) return false;
    if (whole) return p->body(e, at, NULL, p->user);
    Node *test = node_new(e->arena, N_IF, p->loc, 3);
    Stmts *then, *saved;
    if (!eval_binary(e, p->loc, N_LT, at, hi, &in) || !eval_node(e, p->loc, in, &test->kid[0]) ||
        !eval_begin(e, &then, &saved, p->loc))
        return false;
    then->conditional = true;
    bool ok = p->body(e, at, NULL, p->user);
    test->kid[1] = eval_end(e, then, saved, p->loc);
    eval_emit(e, test);
    return ok;
}

// passes times what the team does at once; hi: the end of the elements.
static bool passes(Eval *e, const Part *p, Value n, Value hi, bool whole)
{
    Node *lo = node_int(e->arena, p->loc, DT_I64, 0), *end;
    Stmts *body, *saved;
    Var *v;
    if (!eval_index(e, p->loc, n, &end) || !eval_begin(e, &body, &saved, p->loc)) return false;
    Node *loop = eval_loop_open(e, p->loc, "j", lo, end, &v);
    body->first_id = v->id;
    Value pass = value_expr(node_var(e->arena, p->loc, v));
    bool ok = on_gpu(e)      ? thread_of_warp(e, p, pass, hi, whole)
              : p->width > 1 ? tasks_of_lanes(e, p, pass)
                             : eval_binary(e, p->loc, N_ADD, p->first, pass, &pass) &&
                                   p->body(e, pass, NULL, p->user);
    loop->kid[2] = eval_end(e, body, saved, p->loc);
    eval_emit(e, loop);
    return ok;
}

// A short row of a warp, written out: what is computed of an element stays in a register.
static bool passes_now(Eval *e, const Part *p, int64_t count, Value hi)
{
    for (int64_t i = 0; i * WARP < count; i++)
        if (!thread_of_warp(e, p, value_int(i), hi, (i + 1) * WARP <= count)) return false;
    return true;
}

bool team_loop(Eval *e, Loc loc, Value lo, Value hi, TeamFn *body, TeamMid *middle, void *user)
{
    Part p = {.loc = loc, .first = lo, .body = body, .user = user};
    Value count, n, done;
    p.width = team_width(e);
    if (!eval_binary(e, loc, N_SUB, hi, lo, &count)) return false;
    bool known = count.kind == V_INT, whole = known && count.u.i % p.width == 0;
    if (on_gpu(e) && known && count.u.i <= KEPT * WARP)
        return passes_now(e, &p, count.u.i, hi) && (!middle || middle(e, user));
    if (on_gpu(e))
        return eval_binary(e, loc, N_ADD, count, value_int(WARP - 1), &n) &&
               eval_binary(e, loc, N_DIV, n, value_int(WARP), &n) && passes(e, &p, n, hi, whole) &&
               (!middle || middle(e, user));
    if (!eval_binary(e, loc, N_DIV, count, value_int(p.width), &n)) return false;
    n = eval_pin(e, "full", n);
    if (!(known && n.u.i <= 0) && !passes(e, &p, n, hi, true)) return false;
    if (middle && !middle(e, user)) return false;
    if (whole) return true;
    if (!eval_binary(e, loc, N_MUL, n, value_int(p.width), &done) ||
        !eval_binary(e, loc, N_ADD, lo, done, &p.first) ||
        !eval_binary(e, loc, N_SUB, count, done, &n))
        return false;
    p.width = 1;
    return passes(e, &p, n, hi, true);
}

bool team_fold(Eval *e, Loc loc, const char *how, Value part, Value *out)
{
    Value args[] = {value_str(eval_sym(e, how)), part, value_int(WIDE), value_int(lanes_of(e))};
    return eval_call_fn(e, loc, folder(e), on_gpu(e) ? 2 : 4, args, out);
}

Buffer *team_partials(Eval *e, Loc loc, DType type, Node *init)
{
    Node *extent[] = {node_i64(e->arena, team_width(e))};
    Buffer *b = kernel_buffer(e->kernel, "part", SPACE_LOCAL, type, 1, extent);
    Value worker;
    b->loc = loc;
    b->over = tile_of(e);
    if (!lane_of(e, loc, &worker) || !eval_node(e, loc, worker, &b->over_worker)) return NULL;
    Node *a = node_new(e->arena, N_ALLOC, loc, 1);
    a->u.buf = b;
    a->kid[0] = init;
    eval_emit(e, a);
    return b;
}

bool team_once(Eval *e, Loc loc, bool (*body)(Eval *, void *), void *user)
{
    if (!on_gpu(e) || !e->team) return body(e, user);
    Node *test = node_new(e->arena, N_IF, loc, 3);
    Stmts *then, *saved;
    Value lane, in;
    if (!lane_of(e, loc, &lane) || !eval_binary(e, loc, N_EQ, lane, value_int(0), &in) ||
        !eval_node(e, loc, in, &test->kid[0]) || !eval_begin(e, &then, &saved, loc))
        return false;
    then->conditional = true;
    bool ok = body(e, user);
    test->kid[1] = eval_end(e, then, saved, loc);
    eval_emit(e, test);
    return ok;
}
