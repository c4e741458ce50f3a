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

// unroll for: the body once for each index, known in it.
static bool unrolled(Eval *e, Node *n, Node *v, Value range)
{
    Node *lo, *hi;
    if (!eval_range(e, n->loc, range, &lo, &hi)) return false;
    if (lo->kind != N_INT || hi->kind != N_INT)
        return eval_fail(e, n->loc, "unroll needs bounds known at compile time");
    if (hi->u.i - lo->u.i > EVAL_MAX_UNROLL)
        return eval_fail(e, n->loc, "unroll of %lld passes; at most %d",
                         (long long)(hi->u.i - lo->u.i), EVAL_MAX_UNROLL);
    int64_t step = 1;
    if (range.kind == V_RANGE &&
        (!eval_int(e, n->loc, *range.u.range.step, "a step", &step) || step < 1))
        return step < 1 ? eval_fail(e, n->loc, "a step is at least 1") : false;
    for (int64_t i = lo->u.i; i < hi->u.i && !e->returning; i += step) {
        Env *env = e->env;
        eval_bind(e, v->u.sym, value_int(i));
        Stmts *body, *saved = e->out;
        if (saved) eval_begin(e, &body, &saved, n->loc);
        bool ok = eval_loop_body(e, n->loc, LOOP_UNROLLED, KID(n, FOR, body));
        NodeKind left = e->leaving;
        e->leaving = N_NONE;
        if (saved) eval_emit(e, eval_end(e, body, saved, n->loc));
        e->env = env;
        if (!ok) return false;
        if (left == N_BREAK) break;
    }
    return true;
}

typedef struct Loops {
    Node *n;
    Value extents; // one range for each axis
    Value index;   // filled as loops open
    int axis;
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

static bool loops(Eval *e, Loops s)
{
    if (s.axis == s.extents.u.tuple.n) {
        Env *env = e->env;
        bool ok = bind_loop_vars(e, s.n, s.index) &&
                  eval_loop_body(e, s.n->loc, LOOP_RUNS, KID(s.n, FOR, body));
        e->env = env;
        return ok;
    }
    Node *lo, *hi, *vars = KID(s.n, FOR, vars);
    Value range = s.extents.u.tuple.at[s.axis], index;
    int64_t step = 1;
    if (!eval_range(e, s.n->loc, range, &lo, &hi)) return false;
    if (range.kind == V_RANGE && !eval_int(e, s.n->loc, *range.u.range.step, "a step", &step))
        return false;
    if (step < 1) return eval_fail(e, s.n->loc, "a step is at least 1");
    Sym hint = NREST(vars) > s.axis ? loop_name(REST(vars)[s.axis]) : eval_sym(e, "i");
    Value first = value_expr(lo), count;
    if (step > 1) { // count passes instead
        if (!eval_binary(e, s.n->loc, N_SUB, value_expr(hi), first, &count) ||
            !eval_binary(e, s.n->loc, N_ADD, count, value_int(step - 1), &count) ||
            !eval_binary(e, s.n->loc, N_DIV, count, value_int(step), &count) ||
            !eval_index(e, s.n->loc, count, &hi))
            return false;
        lo = node_int(e->arena, s.n->loc, DT_I64, 0);
    }
    Var *v;
    Stmts *body, *saved;
    Node *loop = eval_loop_open(e, s.n->loc, hint, lo, hi, &v);
    if (!eval_begin(e, &body, &saved, s.n->loc)) return false;
    loop->sub = s.n->sub;
    index = value_expr(node_var(e->arena, s.n->loc, v));
    if (step > 1 && (!eval_binary(e, s.n->loc, N_MUL, index, value_int(step), &index) ||
                     !eval_binary(e, s.n->loc, N_ADD, first, index, &index)))
        return false;
    s.index.u.tuple.at[s.axis++] = index;
    bool ok = loops(e, s);
    loop->kid[2] = eval_end(e, body, saved, s.n->loc);
    eval_emit(e, loop);
    return ok;
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
    Env *env = e->env;
    bool ok =
        NREST(vars) == m->rank || (NREST(vars) == 1 && REST(vars)[0]->kind == N_SPREAD) ||
        eval_fail(e, n->loc, "the mapping has %d axes but the loop names %d", m->rank, NREST(vars));
    ok = ok && bind_loop_vars(e, n, index) &&
         eval_loop_body(e, n->loc, LOOP_MAPPED, KID(n, FOR, body));
    e->env = env;
    loop->kid[1] = eval_end(e, body, saved, n->loc);
    eval_emit(e, loop);
    return ok;
}

bool eval_for(Eval *e, Node *n)
{
    Value r;
    Node *vars = KID(n, FOR, vars), *range = KID(n, FOR, range);
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
    if (n->sub == LOOP_UNROLL_FULL) {
        if (NREST(vars) != 1 || REST(vars)[0]->kind != N_NAME || r.kind == V_TUPLE)
            return eval_fail(e, n->loc, "unroll names one index");
        return unrolled(e, n, REST(vars)[0], r);
    }
    if (r.kind != V_TUPLE) r = value_tuple(e->arena, 1, &r);
    Loops s = {.n = n, .extents = r, .index = value_tuple(e->arena, r.u.tuple.n, NULL)};
    return loops(e, s);
}
