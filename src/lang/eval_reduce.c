// SPDX-License-Identifier: Apache-2.0
// Loops that give a value: the binders of reductions and folds, their accumulators and states.
#include "lang/eval.h"

#include <string.h>

bool eval_range(Eval *e, Loc loc, Value v, Node **lo, Node **hi)
{
    if (v.kind == V_RANGE) {
        if (!eval_index(e, loc, *v.u.range.lo, lo)) return false;
        Value end = *v.u.range.hi;
        if (v.u.range.span && !eval_binary(e, loc, N_ADD, *v.u.range.lo, end, &end)) return false;
        return eval_index(e, loc, end, hi);
    }
    *lo = node_int(e->arena, loc, DT_I64, 0);
    return eval_index(e, loc, v, hi);
}

Node *eval_loop_open(Eval *e, Loc loc, const char *hint, Node *lo, Node *hi, Var **var)
{
    Var *v = kernel_var(e->kernel, hint, DT_I64, false);
    v->loc = loc;
    int64_t a, b, ignored;
    if (node_bounds(lo, &a, &ignored) && node_bounds(hi, &ignored, &b) && b > a)
        v->lo = a, v->hi = b - 1;
    Node *loop = node_new(e->arena, N_LOOP, loc, 3);
    loop->u.var = v;
    loop->kid[0] = lo;
    loop->kid[1] = hi;
    *var = v;
    return loop;
}

typedef struct Nest {
    Node *const *binder;
    int n, k;   // k: the binder being opened
    Value pack; // of the binder with a pack: its extents
    int axis;
    Value index;
    bool (*body)(Eval *, void *);
    void *user;
} Nest;

static bool nest(Eval *e, Nest s);

static bool nest_at(Eval *e, Nest s, Sym hint, Value index, bool of_pack)
{
    Env *env = e->env;
    if (of_pack) s.index.u.tuple.at[s.axis++] = index;
    else {
        eval_bind(e, hint, index);
        s.k++;
    }
    bool ok = nest(e, s);
    e->env = env;
    return ok;
}

// Where statements have nowhere to go, a range that is known is gone through now.
static bool nest_now(Eval *e, const Nest *s, Sym hint, const Node *lo, const Node *hi, bool of_pack)
{
    Loc loc = s->binder[s->k]->loc;
    if (lo->kind != N_INT || hi->kind != N_INT || hi->u.i - lo->u.i > EVAL_MAX_UNROLL)
        return eval_fail(e, loc, "this can only be computed inside a kernel");
    for (int64_t i = lo->u.i; i < hi->u.i; i++)
        if (!eval_step(e, loc) || !nest_at(e, *s, hint, value_int(i), of_pack)) return false;
    return true;
}

static bool nest_axis(Eval *e, Nest s, Sym hint, Value range, bool of_pack)
{
    Node *b = s.binder[s.k], *lo, *hi;
    if (!eval_range(e, b->loc, range, &lo, &hi)) return false;
    if (!e->out) return nest_now(e, &s, hint, lo, hi, of_pack);
    Stmts *inner, *saved;
    if (!eval_begin(e, &inner, &saved, b->loc)) return false;
    Var *v;
    Node *loop = eval_loop_open(e, b->loc, hint, lo, hi, &v);
    inner->first_id = v->id;
    bool ok = nest_at(e, s, hint, value_expr(node_var(e->arena, b->loc, v)), of_pack);
    loop->kid[2] = eval_end(e, inner, saved, b->loc);
    eval_emit(e, loop);
    return ok;
}

// Opens loops for the binders from s.k on, then the body.
static bool nest(Eval *e, Nest s)
{
    if (s.k == s.n) return s.body(e, s.user);
    Node *b = s.binder[s.k], *names = KID(b, BINDER, names), *range = KID(b, BINDER, range);
    Node *nm = names->kind == N_TUPLE && NREST(names) == 1 ? REST(names)[0] : names;
    if (nm->kind == N_NAME) {
        Value v;
        return eval_scalar(e, range, &v) && nest_axis(e, s, nm->u.sym, v, false);
    }
    if (nm->kind != N_SPREAD)
        return eval_fail(e, b->loc, "a binder here names one index or one pack");
    Sym pack = KID(nm, SPREAD, pack)->u.sym;
    if (s.pack.kind == V_NONE) {
        Node *r = range->kind == N_SPREAD ? KID(range, SPREAD, pack) : range;
        if (!eval_expr(e, r, &s.pack)) return false;
        if (s.pack.kind == V_INT || s.pack.kind == V_EXPR) // s[axis] of one axis
            s.pack = value_tuple(e->arena, 1, &s.pack);
        if (s.pack.kind != V_TUPLE)
            return eval_fail(e, range->loc, "a pack of extents is needed, found %s",
                             value_kind_name(s.pack.kind));
        s.index = value_tuple(e->arena, s.pack.u.tuple.n, NULL);
        s.axis = 0;
    }
    if (s.axis < s.pack.u.tuple.n) return nest_axis(e, s, pack, s.pack.u.tuple.at[s.axis], true);
    Env *env = e->env;
    eval_bind(e, pack, s.index);
    s.pack = value_none();
    s.k++;
    bool ok = nest(e, s);
    e->env = env;
    return ok;
}

bool eval_binders(Eval *e, Node *const *binder, int n, bool (*body)(Eval *, void *), void *user)
{
    Nest s = {.binder = binder, .n = n, .body = body, .user = user};
    s.pack = value_none();
    return nest(e, s);
}

typedef struct Reducer {
    const char *name;
    NodeKind op;
    double init; // as a real; bools: != 0
} Reducer;

static const Reducer reducers[] = {
    // name   op      starts from
    {"sum", N_ADD, 0},
    {"prod", N_MUL, 1},
    {"max", N_MAX, -__builtin_inf()},
    {"min", N_MIN, __builtin_inf()},
    {"any", N_LOR, 0},
    {"all", N_LAND, 1},
};

typedef struct Reduction {
    Node *n;
    const Reducer *r;
    Var *acc;
    Stmts *outer; // where the accumulator is declared; NULL: nowhere, and
    Value total;  //   this is what there is so far
} Reduction;

static bool reducer_init(Eval *e, Loc loc, const Reducer *r, DType t, Node **out)
{
    if (r->op == N_LOR || r->op == N_LAND) {
        *out = node_int(e->arena, loc, DT_BOOL, r->init != 0);
        return t == DT_BOOL || eval_fail(e, loc, "%s needs a bool", r->name);
    }
    if (t == DT_BOOL) return eval_fail(e, loc, "%s is not defined on bools", r->name);
    if (dtype_is_float(t) || (r->op != N_MAX && r->op != N_MIN)) {
        *out = dtype_is_float(t) ? node_float(e->arena, loc, t, r->init)
                                 : node_int(e->arena, loc, t, (int64_t)r->init);
        return true;
    }
    Value v;
    Sym f = eval_sym(e, r->op == N_MAX ? "lowest" : "highest");
    Node *call = node_new(e->arena, N_CALL, loc, 2);
    call->kid[0] = node_new(e->arena, N_NAME, loc, 0);
    call->kid[0]->u.sym = f;
    call->kid[1] = node_new(e->arena, N_NAME, loc, 0);
    call->kid[1]->u.sym = eval_sym(e, dtypes[t].name);
    return builtin_call(e, call, f, &v) && eval_node_as(e, loc, v, t, out);
}

static bool reduce_body(Eval *e, void *user)
{
    Reduction *r = user;
    Value v;
    Node *x, *init;
    e->reducing++;
    bool ok = eval_scalar(e, KID(r->n, REDUCE, body), &v);
    e->reducing--;
    if (ok && !e->out) {
        if (r->total.kind != V_NONE)
            return eval_binary(e, r->n->loc, r->r->op, r->total, v, &r->total);
        r->total = v;
        return true;
    }
    if (!ok || !eval_node(e, r->n->loc, v, &x)) return false;
    if (!r->acc) {
        if (!reducer_init(e, r->n->loc, r->r, (DType)x->type, &init)) return false;
        Stmts *saved = e->out;
        e->out = r->outer;
        r->acc = eval_declare(e, r->n->loc, r->r->name, (DType)x->type, x->lanes, init);
        e->out = saved;
    }
    Value sum, acc = value_expr(node_var(e->arena, r->n->loc, r->acc));
    if (!eval_binary(e, r->n->loc, r->r->op, acc, value_expr(x), &sum) ||
        !eval_node(e, r->n->loc, sum, &x))
        return false;
    eval_set(e, r->n->loc, r->acc, x);
    return true;
}

// ---- reductions over a row that a team has in common

typedef struct TeamReduction {
    Reduction r;
    Sym name;
    bool pack;
    Buffer *part;
} TeamReduction;

static bool team_element(Eval *e, Value index, const Value *task, void *user)
{
    TeamReduction *t = user;
    Node *body = KID(t->r.n, REDUCE, body), *x, *init;
    Loc loc = t->r.n->loc;
    Env *env = e->env;
    Value v, before;
    eval_bind(e, t->name, t->pack ? value_tuple(e->arena, 1, &index) : index);
    e->reducing++;
    bool ok = eval_scalar(e, body, &v) && eval_node(e, loc, v, &x);
    e->reducing--;
    e->env = env;
    if (!ok) return false;
    Stmts *inner = e->out;
    e->out = t->r.outer;
    bool first = task ? !t->part : !t->r.acc;
    ok = !first || reducer_init(e, loc, t->r.r, (DType)x->type, &init);
    if (ok && first && task) ok = (t->part = team_partials(e, loc, (DType)x->type, init)) != NULL;
    if (ok && first && !task)
        t->r.acc = eval_declare(e, loc, t->r.r->name, (DType)x->type, 1, init);
    e->out = inner;
    if (!ok) return false;
    if (task)
        return memory_load(e, loc, t->part, 1, task, &before) &&
               eval_binary(e, loc, t->r.r->op, before, value_expr(x), &v) &&
               memory_store(e, loc, t->part, 1, task, v);
    before = value_expr(node_var(e->arena, loc, t->r.acc));
    if (!eval_binary(e, loc, t->r.r->op, before, value_expr(x), &v) || !eval_node(e, loc, v, &x))
        return false;
    eval_set(e, loc, t->r.acc, x);
    return true;
}

static bool team_middle(Eval *e, void *user)
{
    TeamReduction *t = user;
    Loc loc = t->r.n->loc;
    Value part = {.kind = V_MEMORY, .u.mem = t->part}, total;
    Node *x;
    if (!t->part) part = value_expr(node_var(e->arena, loc, t->r.acc));
    if (!team_fold(e, loc, t->r.r->name, part, &total) || !eval_node(e, loc, total, &x))
        return false;
    if (t->part) t->r.acc = eval_declare(e, loc, t->r.r->name, (DType)x->type, 1, x);
    else eval_set(e, loc, t->r.acc, x);
    return true;
}

// The range of the reduction's only index, which may be a pack of one: at least as many elements as
// the team does at once. NULL name: it is done by one.
static bool team_range(Eval *e, TeamReduction *t, Value *lo, Value *hi)
{
    const Reduction *r = &t->r;
    Node *b = NREST(r->n) == 1 ? REST(r->n)[0] : NULL, *name = b ? KID(b, BINDER, names) : NULL;
    Node *range = b ? KID(b, BINDER, range) : NULL, *from, *to;
    Value v;
    if (!name || !team_at_hand(e) || r->r->op == N_LOR || r->r->op == N_LAND) return true;
    if (name->kind == N_TUPLE && NREST(name) == 1) name = REST(name)[0];
    t->pack = name->kind == N_SPREAD;
    if (t->pack) name = KID(name, SPREAD, pack);
    if (range->kind == N_SPREAD) range = KID(range, SPREAD, pack);
    if (name->kind != N_NAME) return true;
    if (!eval_scalar(e, range, &v)) return false;
    if (t->pack && v.kind == V_TUPLE && v.u.tuple.n == 1) v = v.u.tuple.at[0];
    if (v.kind == V_TUPLE) return true;
    if (!eval_range(e, b->loc, v, &from, &to)) return false;
    *lo = value_expr(from);
    *hi = value_expr(to);
    bool known = lo->kind == V_INT && hi->kind == V_INT;
    if (!known || hi->u.i - lo->u.i >= team_width(e)) t->name = name->u.sym;
    return true;
}

bool eval_reduce(Eval *e, Node *n, Value *out)
{
    Reduction r = {.n = n, .outer = e->out};
    Value lo, hi;
    for (size_t i = 0; i < COUNT(reducers); i++)
        if (strcmp(reducers[i].name, n->u.sym) == 0) r.r = &reducers[i];
    ASSERT(r.r);
    TeamReduction t = {.r = r};
    if (!team_range(e, &t, &lo, &hi)) return false;
    if (t.name) {
        if (!team_loop(e, n->loc, lo, hi, team_element, team_middle, &t)) return false;
        *out = value_expr(node_var(e->arena, n->loc, t.r.acc));
        return true;
    }
    if (!eval_binders(e, REST(n), NREST(n), reduce_body, &r)) return false;
    if (!e->out && r.total.kind == V_NONE)
        return eval_fail(e, n->loc, "this can only be computed inside a kernel");
    *out = e->out ? value_expr(node_var(e->arena, n->loc, r.acc)) : r.total;
    return true;
}

typedef struct Folding {
    Node *n;
    Value state; // V_EXPR of Vars, or a tuple of them
} Folding;

static bool fold_declare(Eval *e, Loc loc, Sym hint, Value init, Value *state)
{
    if (init.kind == V_TUPLE) {
        *state = value_tuple(e->arena, init.u.tuple.n, NULL);
        for (int i = 0; i < init.u.tuple.n; i++)
            if (!fold_declare(e, loc, hint, init.u.tuple.at[i], &state->u.tuple.at[i]))
                return false;
        return true;
    }
    Node *x;
    if (!eval_node(e, loc, init, &x)) return false;
    *state = value_expr(
        node_var(e->arena, loc, eval_declare(e, loc, hint, (DType)x->type, x->lanes, x)));
    return true;
}

static bool fold_assign(Eval *e, Loc loc, Value state, Value next)
{
    if (state.kind == V_TUPLE) {
        if (next.kind != V_TUPLE || next.u.tuple.n != state.u.tuple.n)
            return eval_fail(e, loc, "the fold's state is a tuple of %d, its block gives %s",
                             state.u.tuple.n, value_kind_name(next.kind));
        for (int i = 0; i < state.u.tuple.n; i++)
            if (!fold_assign(e, loc, state.u.tuple.at[i], next.u.tuple.at[i])) return false;
        return true;
    }
    Node *x;
    if (!eval_node_as(e, loc, next, (DType)state.u.expr->type, &x)) return false;
    eval_set(e, loc, state.u.expr->u.var, x);
    return true;
}

static bool fold_body(Eval *e, void *user)
{
    Folding *f = user;
    Env *env = e->env;
    eval_bind(e, f->n->u.sym, eval_pin(e, f->n->u.sym, f->state));
    Value v;
    LoopKind loop = e->loop;
    e->loop = LOOP_NOWHERE; // the block gives the next state, nothing else
    e->reducing++;
    bool ok = eval_block(e, KID(f->n, FOLD, body), &v);
    e->reducing--;
    e->loop = loop;
    e->env = env;
    return ok && fold_assign(e, f->n->loc, f->state, eval_pin(e, "next", v));
}

bool eval_fold(Eval *e, Node *n, Value *out)
{
    Folding f = {.n = n};
    Value init;
    if (!e->out) return eval_fail(e, n->loc, "a fold can only be computed inside a kernel");
    if (!eval_scalar(e, KID(n, FOLD, init), &init) ||
        !fold_declare(e, n->loc, n->u.sym, init, &f.state))
        return false;
    if (!eval_binders(e, REST(n), NREST(n), fold_body, &f)) return false;
    *out = f.state;
    return true;
}

// ---- scans: all states of a fold, the first one included

struct Scan {
    Node *n;
    Env *env; // where it was written
    bool kept;
    Value memory; // of kept ones: a buffer, or a tuple of them as the state is one
    Value lo;
};

bool eval_scan(Eval *e, Node *n, Value *out)
{
    Node *names = NREST(n) == 1 ? KID(REST(n)[0], BINDER, names) : NULL;
    if (names && names->kind == N_TUPLE && NREST(names) == 1) names = REST(names)[0];
    if (!names || names->kind != N_NAME) return eval_fail(e, n->loc, "a scan runs over one index");
    *out = (Value){.kind = V_SCAN, .loc = n->loc, .u.scan = NEW(e->arena, Scan)};
    *out->u.scan = (Scan){.n = n, .env = e->env};
    return true;
}

bool scan_kept(const Scan *s)
{
    return s->kept;
}

// Its bounds, as values.
static bool scan_range(Eval *e, const Scan *s, Node **lo, Node **hi)
{
    Value range;
    Node *b = REST(s->n)[0];
    return eval_scalar(e, KID(b, BINDER, range), &range) && eval_range(e, b->loc, range, lo, hi);
}

// Folds from lo to hi in the scan's scope.
static bool scan_fold(Eval *e, const Scan *s, Value lo, Value hi, Folding *f,
                      bool (*body)(Eval *, void *), void *user)
{
    Node *b = REST(s->n)[0], *names = KID(b, BINDER, names);
    Value init, range = {.kind = V_RANGE};
    if (names->kind == N_TUPLE) names = REST(names)[0];
    range.u.range.lo = arena_copy(e->arena, &lo, sizeof lo);
    range.u.range.hi = arena_copy(e->arena, &hi, sizeof hi);
    f->n = s->n;
    if (f->state.kind == V_NONE && (!eval_scalar(e, KID(s->n, FOLD, init), &init) ||
                                    !fold_declare(e, s->n->loc, s->n->u.sym, init, &f->state)))
        return false;
    Nest nest = {.binder = REST(s->n), .n = 1, .body = body, .user = user};
    nest.pack = value_none();
    return nest_axis(e, nest, names->u.sym, range, false);
}

// Where the state goes, a buffer for each part of it.
static bool scan_memory(Eval *e, Loc loc, Value state, int64_t count, int64_t *bytes, Value *out)
{
    if (state.kind == V_TUPLE) {
        *out = value_tuple(e->arena, state.u.tuple.n, NULL);
        for (int i = 0; i < state.u.tuple.n; i++)
            if (!scan_memory(e, loc, state.u.tuple.at[i], count, bytes, &out->u.tuple.at[i]))
                return false;
        return true;
    }
    const Var *v = state.u.expr->u.var;
    Node *extent[] = {node_i64(e->arena, count)};
    *bytes += dtype_bytes(v->type, count);
    *out = (Value){.kind = V_MEMORY, .loc = loc};
    out->u.mem = kernel_buffer(e->kernel, v->name, SPACE_LOCAL, v->type, 1, extent);
    out->u.mem->loc = loc;
    return v->lanes == 1 || eval_fail(e, loc, "the state of a scan holds no vectors");
}

static void scan_alloc(Eval *e, Loc loc, Value memory)
{
    if (memory.kind == V_TUPLE) {
        for (int i = 0; i < memory.u.tuple.n; i++) scan_alloc(e, loc, memory.u.tuple.at[i]);
        return;
    }
    Node *a = node_new(e->arena, N_ALLOC, loc, 1);
    a->u.buf = memory.u.mem;
    eval_emit(e, a);
}

static bool scan_store(Eval *e, Loc loc, Value memory, Value index, Value state)
{
    if (memory.kind == V_MEMORY) return memory_store(e, loc, memory.u.mem, 1, &index, state);
    for (int i = 0; i < memory.u.tuple.n; i++)
        if (!scan_store(e, loc, memory.u.tuple.at[i], index, state.u.tuple.at[i])) return false;
    return true;
}

static bool scan_load(Eval *e, Loc loc, Value memory, Value index, Value *out)
{
    if (memory.kind == V_MEMORY) return memory_load(e, loc, memory.u.mem, 1, &index, out);
    *out = value_tuple(e->arena, memory.u.tuple.n, NULL);
    for (int i = 0; i < memory.u.tuple.n; i++)
        if (!scan_load(e, loc, memory.u.tuple.at[i], index, &out->u.tuple.at[i])) return false;
    return true;
}

typedef struct Keeping {
    Folding f;
    const Scan *s;
} Keeping;

static bool keep_body(Eval *e, void *user)
{
    Keeping *k = user;
    Node *b = REST(k->s->n)[0], *names = KID(b, BINDER, names);
    Env *at = env_find(e->env, names->kind == N_TUPLE ? REST(names)[0]->u.sym : names->u.sym);
    Value step, after;
    return fold_body(e, &k->f) && eval_binary(e, b->loc, N_SUB, at->value, k->s->lo, &step) &&
           eval_binary(e, b->loc, N_ADD, step, value_int(1), &after) &&
           scan_store(e, b->loc, k->s->memory, after, k->f.state);
}

static bool keep_here(Eval *e, Scan *s)
{
    Node *lo, *hi;
    Value init;
    Loc loc = s->n->loc;
    int64_t count, bytes = 0;
    Keeping k = {.s = s};
    if (!scan_range(e, s, &lo, &hi)) return false;
    if (lo->kind != N_INT || hi->kind != N_INT || !sub_i64(hi->u.i, lo->u.i, &count) ||
        count >= EVAL_MAX_SCAN)
        return true;
    count = count < 0 ? 1 : count + 1;
    if (!eval_scalar(e, KID(s->n, FOLD, init), &init) ||
        !fold_declare(e, loc, s->n->u.sym, init, &k.f.state) ||
        !scan_memory(e, loc, k.f.state, count, &bytes, &s->memory))
        return false;
    if (bytes > EVAL_MAX_SCAN) return true;
    s->kept = true;
    s->lo = value_int(lo->u.i);
    scan_alloc(e, loc, s->memory);
    return scan_store(e, loc, s->memory, value_int(0), k.f.state) &&
           scan_fold(e, s, s->lo, value_int(hi->u.i), &k.f, keep_body, &k);
}

bool scan_keep(Eval *e, Scan *s)
{
    Env *env = e->env;
    if (s->kept) return true;
    e->env = s->env;
    bool ok = keep_here(e, s);
    e->env = env;
    return ok;
}

static bool state_here(Eval *e, Loc loc, const Scan *s, Value count, Value *out)
{
    Folding f = {0};
    Node *from, *to;
    Value lo, hi;
    if (!e->out) return eval_fail(e, loc, "a scan can only be computed inside a kernel");
    if (!scan_range(e, s, &from, &to)) return false;
    lo = value_expr(from);
    if (!eval_binary(e, loc, N_ADD, lo, count, &hi) || !scan_fold(e, s, lo, hi, &f, fold_body, &f))
        return false;
    *out = f.state;
    return true;
}

bool scan_state(Eval *e, Loc loc, Scan *s, Value index, Value *out)
{
    if (index.u.tuple.n != 1)
        return eval_fail(e, loc, "a scan has one axis, the index has %d parts", index.u.tuple.n);
    Value at = index.u.tuple.at[0];
    if (s->kept) return scan_load(e, loc, s->memory, at, out);
    Env *env = e->env;
    at = eval_pin(e, "k", at);
    e->env = s->env;
    bool ok = state_here(e, loc, s, at, out);
    e->env = env;
    return ok;
}
