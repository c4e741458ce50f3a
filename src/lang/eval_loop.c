// SPDX-License-Identifier: Apache-2.0
// Loops: over ranges, over the tasks of a mapping, and unrolled here.
#include "lang/eval.h"

static Sym loop_name(Node *v)
{
    return v->kind == N_SPREAD ? KID(v, SPREAD, pack)->u.sym : v->u.sym;
}

bool eval_loop_body(Eval *e, Loc loc, LoopKind kind, Node *body)
{
    LoopKind loop = e->loop;
    bool conditional = e->conditional;
    e->loop = kind;
    e->conditional = false;
    bool ok = eval_stmts(e, body);
    e->loop = loop;
    e->conditional = conditional;
    if (ok && e->returning && kind != LOOP_UNROLLED)
        return eval_fail(e, loc, "return out of a loop that runs in the kernel");
    return ok;
}

typedef struct Loops {
    Node *n;
    Value extents; // one range for each axis
    Value index;   // filled as loops open
    int axis;
    bool runs_now;
} Loops;

static bool bind_loop_vars(Eval *e, Node *n, Value index)
{
    Node *vars = KID(n, FOR, vars);
    int nv = NREST(vars), at = 0, total = index.u.tuple.n;
    for (int i = 0; i < nv; i++) {
        Node *v = REST(vars)[i];
        int take = v->kind == N_SPREAD ? total - (nv - 1) : 1;
        if (take < 0 || at + take > total) break;
        if (v->kind == N_SPREAD)
            eval_bind(e, loop_name(v), value_tuple(e->arena, take, index.u.tuple.at + at));
        else eval_bind(e, v->u.sym, index.u.tuple.at[at]);
        at += take;
        if (i == nv - 1 && at == total) return true;
    }
    return (nv == 0 && total == 0) ||
           eval_fail(e, n->loc, "the range has %d axes but the loop names %d", total, nv);
}

static bool body(Eval *e, Loops s)
{
    Env *env = e->env;
    LoopKind kind = s.runs_now ? LOOP_UNROLLED : s.extents.u.tuple.n == 1 ? LOOP_RUNS : LOOP_NEST;
    bool ok =
        bind_loop_vars(e, s.n, s.index) && eval_loop_body(e, s.n->loc, kind, KID(s.n, FOR, body));
    e->env = env;
    return ok;
}

typedef struct Axis {
    Node *lo, *hi;
    int64_t step;
} Axis;

static bool axis_of(Eval *e, Loc loc, Value range, Axis *a)
{
    a->step = 1;
    if (!eval_range(e, loc, range, &a->lo, &a->hi)) return false;
    if (range.kind == V_RANGE && !eval_int(e, loc, *range.u.range.step, "a step", &a->step))
        return false;
    return a->step >= 1 || eval_fail(e, loc, "a step is at least 1");
}

static bool loops(Eval *e, Loops s);

// A pass has a block of its own where it declares something.
static void emit_pass(Eval *e, Stmts *pass, Stmts *into, Loc loc)
{
    bool declares = false;
    for (int i = 0; i < pass->list.n; i++) {
        NodeKind k = (NodeKind)pass->list.at[i]->kind;
        declares = declares || k == N_DEFINE || k == N_DECLARE || k == N_ALLOC;
    }
    if (declares) eval_emit_to(e, into, eval_end(e, pass, into, loc));
    for (int i = 0; !declares && i < pass->list.n; i++) eval_emit_to(e, into, pass->list.at[i]);
    e->out = into;
}

// unroll for: the body once for each index, known in it.
static bool unrolled(Eval *e, Loops s, const Axis *a)
{
    int axis = s.axis++;
    for (int64_t i = a->lo->u.i; i < a->hi->u.i && !e->returning; i += a->step) {
        Stmts *pass, *saved;
        if (!eval_begin(e, &pass, &saved, s.n->loc)) return false;
        s.index.u.tuple.at[axis] = value_int(i);
        bool ok = loops(e, s);
        NodeKind left = e->leaving;
        e->leaving = N_NONE;
        emit_pass(e, pass, saved, s.n->loc);
        if (!ok) return false;
        if (left == N_BREAK && axis == s.extents.u.tuple.n - 1) break;
    }
    return true;
}

static bool loops(Eval *e, Loops s)
{
    if (s.axis == s.extents.u.tuple.n) return body(e, s);
    Node *vars = KID(s.n, FOR, vars);
    Loc loc = s.n->loc;
    Axis a;
    if (!axis_of(e, loc, s.extents.u.tuple.at[s.axis], &a)) return false;
    bool known = a.lo->kind == N_INT && a.hi->kind == N_INT;
    if (known && a.hi->u.i <= a.lo->u.i) return true;
    if (s.runs_now) return unrolled(e, s, &a);
    Sym hint = NREST(vars) > s.axis ? loop_name(REST(vars)[s.axis]) : eval_sym(e, "i");
    Value first = value_expr(a.lo), count, index;
    if (a.step > 1) { // count passes instead
        first = eval_pin(e, "first", first);
        if (!eval_binary(e, loc, N_SUB, value_expr(a.hi), first, &count) ||
            !eval_binary(e, loc, N_ADD, count, value_int(a.step - 1), &count) ||
            !eval_binary(e, loc, N_DIV, count, value_int(a.step), &count) ||
            !eval_index(e, loc, count, &a.hi))
            return false;
        a.lo = node_int(e->arena, loc, DT_I64, 0);
    }
    Var *v;
    Stmts *inner, *saved;
    Node *loop = eval_loop_open(e, loc, hint, a.lo, a.hi, &v);
    if (!eval_begin(e, &inner, &saved, loc)) return false;
    inner->first_id = v->id;
    loop->sub = s.n->sub;
    loop->flags = s.n->flags;
    index = value_expr(node_var(e->arena, loc, v));
    if (a.step > 1 && (!eval_binary(e, loc, N_MUL, index, value_int(a.step), &index) ||
                       !eval_binary(e, loc, N_ADD, first, index, &index)))
        return false;
    s.index.u.tuple.at[s.axis++] = index;
    bool ok = loops(e, s);
    loop->kid[2] = eval_end(e, inner, saved, loc);
    if (inner->list.n) eval_emit(e, loop);
    return ok;
}

// `unroll for` without a number: whether all bounds are known and the passes few.
static bool can_run_now(Eval *e, Node *n, Value extents, bool *now)
{
    int64_t passes = 1;
    *now = n->sub == LOOP_UNROLL && n->flags == 0;
    for (int i = 0; *now && i < extents.u.tuple.n; i++) {
        Axis a;
        if (!axis_of(e, n->loc, extents.u.tuple.at[i], &a)) return false;
        int64_t count = 0;
        *now = a.lo->kind == N_INT && a.hi->kind == N_INT &&
               sub_i64(a.hi->u.i, a.lo->u.i, &count) &&
               mul_i64(passes, max_i64(count, 0), &passes) && passes <= EVAL_MAX_UNROLL;
    }
    return true;
}

static bool mapped(Eval *e, Node *n, const Mapping *m, Node *worker)
{
    Node *vars = KID(n, FOR, vars);
    Value index = value_tuple(e->arena, m->rank, NULL);
    Node *loop = node_new(e->arena, N_MAPFOR, n->loc, 2 + m->rank);
    loop->u.map = m;
    loop->kid[0] = worker;
    for (int i = 0; i < m->rank; i++) {
        Sym hint = i < NREST(vars) ? loop_name(REST(vars)[i]) : eval_sym(e, "i");
        Var *v = kernel_var(e->kernel, hint, DT_I64, false);
        v->lo = 0;
        v->hi = m->shape[i] - 1;
        v->loc = n->loc;
        loop->kid[2 + i] = node_var(e->arena, n->loc, v);
        index.u.tuple.at[i] = value_expr(loop->kid[2 + i]);
    }
    Stmts *body, *saved;
    if (!eval_begin(e, &body, &saved, n->loc)) return false;
    if (m->rank) body->first_id = REST(loop)[0]->u.var->id;
    Env *env = e->env;
    int over_lanes = worker->kind == N_VARREF && worker->u.var->builtin == VAR_LANE;
    e->nlane += over_lanes;
    bool ok =
        NREST(vars) == m->rank || (NREST(vars) == 1 && REST(vars)[0]->kind == N_SPREAD) ||
        eval_fail(e, n->loc, "the mapping has %d axes but the loop names %d", m->rank, NREST(vars));
    ok = ok && bind_loop_vars(e, n, index) &&
         eval_loop_body(e, n->loc, LOOP_MAPPED, KID(n, FOR, body));
    e->env = env;
    e->nlane -= over_lanes;
    loop->kid[1] = eval_end(e, body, saved, n->loc);
    if (body->list.n) eval_emit(e, loop);
    return ok;
}

bool eval_for(Eval *e, Node *n)
{
    Value r;
    Node *range = KID(n, FOR, range);
    if (!eval_scalar(e, range->kind == N_SPREAD ? KID(range, SPREAD, pack) : range, &r))
        return false;
    if (r.kind == V_TASKS) return mapped(e, n, r.u.tasks.map, r.u.tasks.worker);
    if (r.kind == V_MAPPING) {
        if (r.u.map->nworker != 1)
            return eval_fail(e, n->loc,
                             "the mapping has %lld workers: say whose tasks, as in map(thread)",
                             (long long)r.u.map->nworker);
        return mapped(e, n, r.u.map, node_int(e->arena, n->loc, DT_I64, 0));
    }
    if (r.kind != V_TUPLE) r = value_tuple(e->arena, 1, &r);
    Loops s = {.n = n, .extents = r, .index = value_tuple(e->arena, r.u.tuple.n, NULL)};
    return can_run_now(e, n, r, &s.runs_now) && loops(e, s);
}
