// SPDX-License-Identifier: Apache-2.0
// Statements of kernels, functions and serial ops. What is known is done now; the rest is emitted.
#include "lang/eval.h"

#include <string.h>

bool eval_stmts(Eval *e, Node *seq)
{
    Env *env = e->env;
    bool ok = true;
    if (seq->kind != N_SEQ) ok = eval_stmt(e, seq);
    else
        for (int i = 0; ok && i < NREST(seq) && !e->returning; i++) ok = eval_stmt(e, REST(seq)[i]);
    e->env = env;
    return ok;
}

static bool let(Eval *e, Node *n)
{
    Node *p = KID(n, LET, pattern);
    if (p->kind == N_INDEX) { // a tensor of the op's body, computed where it is read
        Tensor *t = NEW(e->arena, Tensor);
        t->name = KID(p, INDEX, base)->u.sym;
        t->let = n;
        t->env = e->env;
        eval_bind(e, t->name, (Value){.kind = V_TENSOR, .u.tensor = t});
        return true;
    }
    Value v;
    if (!eval_expr(e, KID(n, LET, value), &v)) return false;
    Node *type = KID(n, LET, type), *x;
    Value t;
    if (type && v.kind != V_TUPLE) {
        if (!eval_dtype(e, type, &t) || !eval_node_as(e, n->loc, v, t.u.dtype.type, &x))
            return false;
        v = value_expr(x);
    }
    if (p->kind == N_NAME) {
        eval_bind(e, p->u.sym, eval_pin(e, p->u.sym, v));
        return true;
    }
    if (v.kind != V_TUPLE || v.u.tuple.n != NREST(p))
        return eval_fail(e, n->loc, "the pattern names %d values, the right side is %s", NREST(p),
                         value_kind_name(v.kind));
    for (int i = 0; i < NREST(p); i++)
        eval_bind(e, REST(p)[i]->u.sym, eval_pin(e, REST(p)[i]->u.sym, v.u.tuple.at[i]));
    return true;
}

static Var *new_variable(Eval *e, Loc loc, Sym name, DType t, int lanes, Node *init)
{
    Var *v = kernel_var(e->kernel, name, t, true);
    v->lanes = (uint16_t)lanes;
    v->loc = loc;
    Node *d = node_new(e->arena, N_DECLARE, loc, 1);
    d->u.var = v;
    d->kid[0] = init;
    eval_emit(e, d);
    return v;
}

static bool ring(Eval *e, Node *n, Node *call)
{
    Value args;
    int64_t size;
    if (!eval_list(e, REST(call), NREST(call), &args)) return false;
    if (args.u.tuple.n != 1 ||
        !eval_int(e, n->loc, args.u.tuple.at[0], "the size of a ring", &size))
        return args.u.tuple.n == 1 ? false : eval_fail(e, n->loc, "ring(n) takes its size");
    Value v = {.kind = V_RING, .loc = n->loc};
    v.u.ring.n = size;
    v.u.ring.index =
        new_variable(e, n->loc, n->u.sym, DT_I64, 1, node_int(e->arena, n->loc, DT_I64, 0));
    v.u.ring.index->lo = 0;
    v.u.ring.index->hi = size - 1;
    v.u.ring.phase = new_variable(e, n->loc, eval_sym(e, "phase"), DT_I64, 1,
                                  node_int(e->arena, n->loc, DT_I64, 0));
    eval_bind(e, n->u.sym, v);
    return true;
}

static bool var(Eval *e, Node *n)
{
    Node *type = KID(n, VAR, type), *init = KID(n, VAR, init), *x = NULL;
    if (!e->out)
        return eval_fail(e, n->loc,
                         "var stands inside a kernel's stage, a function or a serial op");
    if (type && KID(type, TYPE, dtype) && KID(type, TYPE, dtype)->kind == N_CALL) {
        Node *callee = KID(KID(type, TYPE, dtype), CALL, callee);
        if (callee->kind == N_NAME && strcmp(callee->u.sym, "ring") == 0)
            return ring(e, n, KID(type, TYPE, dtype));
    }
    Value t, v;
    DType dt = DT_I64;
    if (type) {
        if (!eval_dtype(e, type, &t)) return false;
        dt = t.u.dtype.type;
    }
    if (init) {
        if (!eval_scalar(e, init, &v)) return false;
        if (v.kind == V_TUPLE) { // one variable for each component
            Value state = value_tuple(e->arena, v.u.tuple.n, NULL);
            for (int i = 0; i < v.u.tuple.n; i++) {
                if (!eval_node(e, n->loc, v.u.tuple.at[i], &x)) return false;
                Var *c = new_variable(e, n->loc, n->u.sym, (DType)x->type, x->lanes, x);
                state.u.tuple.at[i] = value_expr(node_var(e->arena, n->loc, c));
            }
            eval_bind(e, n->u.sym, state);
            return true;
        }
        if (type ? !eval_node_as(e, n->loc, v, dt, &x) : !eval_node(e, n->loc, v, &x)) return false;
    } else if (!type) return eval_fail(e, n->loc, "var '%s' needs a type or a value", n->u.sym);
    Var *made = new_variable(e, n->loc, n->u.sym, x ? (DType)x->type : dt, x ? x->lanes : 1, x);
    eval_bind(e, n->u.sym, value_none());
    e->env->var = made;
    return true;
}

static bool set(Eval *e, Loc loc, Var *v, Value value)
{
    Node *x, *s = node_new(e->arena, N_SET, loc, 1);
    if (!eval_node_as(e, loc, value, v->type, &x)) return false;
    s->u.var = v;
    s->kid[0] = x;
    eval_emit(e, s);
    return true;
}

static bool assign_to(Eval *e, Node *place, NodeKind op, Value v)
{
    Value base, index, old;
    if (!e->out) return eval_fail(e, place->loc, "an assignment stands inside a kernel's stage");
    if (place->kind == N_TUPLE) {
        if (v.kind != V_TUPLE || v.u.tuple.n != NREST(place))
            return eval_fail(e, place->loc, "%d places are assigned from %s", NREST(place),
                             value_kind_name(v.kind));
        v = eval_pin(e, "v", v);
        for (int i = 0; i < NREST(place); i++)
            if (!assign_to(e, REST(place)[i], op, v.u.tuple.at[i])) return false;
        return true;
    }
    if (place->kind == N_NAME) {
        Env *b = env_find(e->env, place->u.sym);
        if (b && !b->var && b->value.kind == V_TENSOR && b->value.u.tensor->rank == 0)
            return tensor_store(e, place->loc, b->value.u.tensor, 0, NULL, v);
        if (b && b->value.kind == V_TUPLE && v.kind == V_TUPLE &&
            b->value.u.tuple.n == v.u.tuple.n) {
            v = eval_pin(e, "v", v);
            for (int i = 0; i < v.u.tuple.n; i++) {
                Value c = b->value.u.tuple.at[i];
                if (c.kind != V_EXPR || c.u.expr->kind != N_VARREF || !c.u.expr->u.var->mutable)
                    return eval_fail(e, place->loc, "'%s' is not a variable", place->u.sym);
                if (!set(e, place->loc, c.u.expr->u.var, v.u.tuple.at[i])) return false;
            }
            return true;
        }
        if (!b || !b->var)
            return eval_fail(e, place->loc,
                             b ? "'%s' is not a variable: declare it with var"
                               : "unknown name '%s'",
                             place->u.sym);
        old = value_expr(node_var(e->arena, place->loc, b->var));
        if (op && !eval_binary(e, place->loc, op, old, v, &v)) return false;
        return set(e, place->loc, b->var, v);
    }
    if (place->kind != N_INDEX) return eval_fail(e, place->loc, "this is no place to assign to");
    if (!eval_expr(e, KID(place, INDEX, base), &base) || !eval_indices(e, place, base, &index))
        return false;
    int n = index.u.tuple.n;
    if (base.kind == V_TENSOR) {
        if (op)
            return eval_fail(
                e, place->loc,
                "a result is stored once, when its value is final: sum in a local or a workspace");
        return tensor_store(e, place->loc, base.u.tensor, n, index.u.tuple.at, v);
    }
    if (base.kind != V_MEMORY)
        return eval_fail(e, place->loc, "%s cannot be assigned to", value_kind_name(base.kind));
    if (op) {
        if (!memory_load(e, place->loc, base.u.mem, n, index.u.tuple.at, &old) ||
            !eval_binary(e, place->loc, op, old, v, &v))
            return false;
    }
    return memory_store(e, place->loc, base.u.mem, n, index.u.tuple.at, v);
}

static Sym loop_name(Node *v)
{
    return v->kind == N_SPREAD ? KID(v, SPREAD, pack)->u.sym : v->u.sym;
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
        bool ok = eval_stmts(e, KID(n, FOR, body));
        if (saved) eval_emit(e, eval_end(e, body, saved, n->loc));
        e->env = env;
        if (!ok) return false;
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
        bool ok = bind_loop_vars(e, s.n, s.index) && eval_stmts(e, KID(s.n, FOR, body));
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
    ok = ok && bind_loop_vars(e, n, index) && eval_stmts(e, KID(n, FOR, body));
    e->env = env;
    loop->kid[1] = eval_end(e, body, saved, n->loc);
    eval_emit(e, loop);
    return ok;
}

static bool for_(Eval *e, Node *n)
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

static bool arm(Eval *e, Node *body, Node **out, Loc loc)
{
    Stmts *s, *saved;
    if (!eval_begin(e, &s, &saved, loc)) return false;
    bool ok = eval_stmts(e, body);
    *out = eval_end(e, s, saved, loc);
    if (ok && e->returning)
        return eval_fail(e, loc,
                         "return under a condition that is only known at run time: give the value "
                         "of an if instead");
    return ok;
}

static bool if_(Eval *e, Node *n)
{
    Value c;
    Node *then = KID(n, IF, then), *other = KID(n, IF, other), *s, *cond;
    if (!eval_scalar(e, KID(n, IF, cond), &c)) return false;
    if (c.kind == V_BOOL) {
        Node *taken = c.u.i ? then : other;
        return !taken || eval_stmts(e, taken);
    }
    if (!eval_node(e, n->loc, c, &cond)) return false;
    if (cond->type != DT_BOOL)
        return eval_fail(e, n->loc, "the condition is %s, not a bool", dtypes[cond->type].name);
    s = node_new(e->arena, N_IF, n->loc, 3);
    s->kid[0] = cond;
    if (!arm(e, then, &s->kid[1], n->loc) || (other && !arm(e, other, &s->kid[2], n->loc)))
        return false;
    eval_emit(e, s);
    return true;
}

static bool while_(Eval *e, Node *n)
{
    // while c { body }  is  loop forever { if !c break; body }, since computing c may take statements
    Stmts *body, *saved;
    if (!eval_begin(e, &body, &saved, n->loc)) return false;
    Value c;
    Node *cond, *stop = node_new(e->arena, N_IF, n->loc, 3),
                *w = node_new(e->arena, N_WHILE, n->loc, 2);
    if (!eval_scalar(e, KID(n, WHILE, cond), &c) || !eval_node(e, n->loc, c, &cond)) return false;
    stop->kid[0] = node_fold(e->arena, node_unary(e->arena, N_NOT, cond));
    stop->kid[1] = node_new(e->arena, N_BREAK, n->loc, 0);
    eval_emit(e, stop);
    if (!eval_stmts(e, KID(n, WHILE, body))) return false;
    w->kid[0] = node_int(e->arena, n->loc, DT_BOOL, 1);
    w->kid[1] = eval_end(e, body, saved, n->loc);
    eval_emit(e, w);
    return true;
}

// The text of a message with {expr} replaced by values.
static const char *message(Eval *e, Node *n)
{
    if (!n) return "a requirement does not hold";
    Buf b;
    buf_init(&b, e->arena);
    for (const char *s = n->u.sym; *s; s++) {
        const char *end = *s == '{' ? strchr(s, '}') : NULL;
        if (!end) {
            buf_putc(&b, *s);
            continue;
        }
        char *text = arena_strndup(e->arena, s + 1, (size_t)(end - s - 1));
        Source *src = sources_add(e->lib->sources, "message", text, strlen(text));
        Diag quiet;
        diag_init(&quiet, e->arena, e->lib->sources);
        Node *x = src ? parse_expression(e->arena, e->lib->names, src, &quiet) : NULL;
        Diag *saved = e->diag;
        e->diag = &quiet;
        Value v;
        if (x && eval_scalar(e, x, &v)) value_print(&v, &b);
        else buf_append(&b, s, (size_t)(end - s + 1));
        e->diag = saved;
        s = end;
    }
    return buf_text(&b);
}

bool eval_require(Eval *e, Node *n)
{
    Value c;
    Node *m = KID(n, REQUIRE, message), *cond;
    Stmts *saved = e->out;
    e->out = NULL;
    bool ok = eval_scalar(e, KID(n, REQUIRE, cond), &c);
    e->out = saved;
    if (!ok) return false;
    if (c.kind == V_BOOL) return c.u.i || eval_fail(e, n->loc, "%s", message(e, m));
    if (!eval_node(e, n->loc, c, &cond)) return false;
    Requirement r = {.cond = cond, .message = arena_strdup(e->arena, message(e, m)), .loc = n->loc};
    VEC_PUSH(e->arena, &e->kernel->requirements, r);
    return true;
}

static bool launch_axis(Eval *e, Node *tuple, int max, Node **at, int *n)
{
    Value v;
    if (!eval_list(e, REST(tuple), NREST(tuple), &v)) return false;
    if (v.u.tuple.n > max) return eval_fail(e, tuple->loc, "at most %d extents here", max);
    *n = v.u.tuple.n;
    for (int i = 0; i < *n; i++)
        if (!eval_index(e, tuple->loc, v.u.tuple.at[i], &at[i])) return false;
    return true;
}

static bool launch(Eval *e, Node *n)
{
    if (!e->stage) return eval_fail(e, n->loc, "launch stands inside a stage here");
    Stmts *saved = e->out;
    e->out = NULL; // sizes of the launch are computed by the host
    Node *grid = KID(n, LAUNCH, grid), *block = KID(n, LAUNCH, block),
         *cluster = KID(n, LAUNCH, cluster), *at[KERNEL_MAX_GRID];
    int k;
    bool ok = !grid || launch_axis(e, grid, KERNEL_MAX_GRID, e->stage->grid, &e->stage->ngrid);
    if (ok && block) {
        Value total = value_int(1);
        ok = launch_axis(e, block, KERNEL_MAX_GRID, at, &k);
        for (int i = 0; ok && i < k; i++)
            ok = eval_binary(e, n->loc, N_MUL, total, value_expr(at[i]), &total);
        int64_t threads = 0;
        ok = ok && eval_int(e, n->loc, total, "the number of threads of a block", &threads);
        if (ok && (threads < 1 || threads > e->kernel->target.max_threads))
            ok = eval_fail(e, n->loc, "a block of %lld threads; the device allows 1 to %d",
                           (long long)threads, e->kernel->target.max_threads);
        e->stage->block = ok ? node_i64(e->arena, threads) : NULL;
        for (int i = 0; ok && i < k; i++) // thread.x, thread.y, thread.z
            e->block_dims[i] = at[i]->u.i;
        e->nblock_dims = k;
    }
    if (ok && cluster) ok = launch_axis(e, cluster, 1, &e->stage->cluster, &k);
    e->out = saved;
    return ok;
}

static bool stage(Eval *e, Node *n)
{
    Stmts *body = NEW(e->arena, Stmts), *saved = e->out;
    e->stage = NEW(e->arena, Stage);
    e->stage->name = n->u.sym;
    e->nblock_dims = 0;
    e->out = body;
    bool ok = eval_stmts(e, KID(n, STAGE, body));
    e->stage->body = eval_end(e, body, saved, n->loc);
    VEC_PUSH(e->arena, &e->kernel->stages, e->stage);
    e->stage = NULL;
    return ok;
}

static bool owner(Eval *e, Node *n, Buffer *b)
{
    Value over;
    if (!eval_expr(e, n, &over)) return false;
    if (over.kind != V_TASKS)
        return eval_fail(e, n->loc, "over names a mapping and its worker, as in map(thread)");
    b->over = over.u.tasks.map;
    b->over_worker = over.u.tasks.worker;
    if (b->over->rank != b->rank)
        return eval_fail(e, n->loc, "'%s' has %d axes, the mapping %d", b->name, b->rank,
                         b->over->rank);
    for (int i = 0; i < b->rank; i++)
        if (b->extent[i]->kind != N_INT || b->extent[i]->u.i != b->over->shape[i])
            return eval_fail(e, n->loc, "axis %d of '%s' and of the mapping differ in extent", i,
                             b->name);
    return true;
}

static bool memory_size(Eval *e, Node *n, const Buffer *b)
{
    int64_t size = 1;
    for (int i = 0; i < b->rank; i++) {
        if (b->extent[i]->kind != N_INT)
            return b->space == SPACE_WORKSPACE ||
                   eval_fail(e, n->loc, "axis %d of '%s' must be known at compile time", i,
                             b->name);
        if (b->extent[i]->u.i < 0 || !mul_i64(size, b->extent[i]->u.i, &size) ||
            size > INT64_C(1) << 40)
            return eval_fail(e, n->loc, "'%s' is too large", b->name);
    }
    return true;
}

static bool memory(Eval *e, Node *n)
{
    Node *type = KID(n, MEMORY, type), *when = KID(n, MEMORY, when), *init = KID(n, MEMORY, init);
    Value t, dims, v;
    if (when) {
        if (!eval_scalar(e, when, &v)) return false;
        if (v.kind == V_BOOL && !v.u.i) return true;
    }
    Space space = (Space)n->sub;
    if (space != SPACE_WORKSPACE && !e->stage)
        return eval_fail(e, n->loc, "%s memory is declared inside a stage", space_name[space]);
    if (!eval_dtype(e, type, &t) || !eval_list(e, REST(type), NREST(type), &dims)) return false;
    Node *extent[EVAL_MAX_RANK + 1];
    int rank = dims.u.tuple.n;
    if (rank > EVAL_MAX_RANK) return eval_fail(e, n->loc, "at most %d axes", EVAL_MAX_RANK);
    for (int i = 0; i < rank; i++)
        if (!eval_index(e, n->loc, dims.u.tuple.at[i], &extent[i])) return false;
    if (t.u.dtype.lanes > 1) { // a vector element: one more axis
        extent[rank++] = node_i64(e->arena, t.u.dtype.lanes);
    }
    Buffer *b = kernel_buffer(e->kernel, n->u.sym, space,
                              t.u.dtype.mbarrier ? DT_NONE : t.u.dtype.type, rank, extent);
    b->loc = n->loc;
    b->is_mbarrier = t.u.dtype.mbarrier;
    b->arrivals = t.u.dtype.arrivals;
    if (!memory_size(e, n, b)) return false;
    if (KID(n, MEMORY, layout)) {
        if (!eval_expr(e, KID(n, MEMORY, layout), &v)) return false;
        if (v.kind == V_FUNCTION) { // layout column_major: over the declared extents
            Value out;
            Node *call = node_new(e->arena, N_CALL, n->loc, 1 + rank);
            call->kid[0] = KID(n, MEMORY, layout);
            for (int i = 0; i < rank; i++)
                call->kid[1 + i] = node_int(e->arena, n->loc, DT_NONE,
                                            extent[i]->kind == N_INT ? extent[i]->u.i : -1);
            if (!builtin_call(e, call, v.u.str, &out)) return false;
            v = out;
        }
        if (v.kind != V_LAYOUT || v.u.layout->rank != rank)
            return eval_fail(e, n->loc, "the layout of '%s' must be a layout of %d axes", b->name,
                             rank);
        for (int i = 0; i < rank; i++)
            if (extent[i]->kind != N_INT || v.u.layout->shape[i] != extent[i]->u.i)
                return eval_fail(e, n->loc, "axis %d of '%s' and of its layout differ in extent", i,
                                 b->name);
        b->layout = v.u.layout;
    }
    if (KID(n, MEMORY, align) && (!eval_expr(e, KID(n, MEMORY, align), &v) ||
                                  !eval_int(e, n->loc, v, "an alignment", &b->align_bytes)))
        return false;
    if (KID(n, MEMORY, over) && !owner(e, KID(n, MEMORY, over), b)) return false;
    if (KID(n, MEMORY, alias)) {
        Env *other = env_find(e->env, KID(n, MEMORY, alias)->u.sym);
        if (!other || other->value.kind != V_MEMORY)
            return eval_fail(e, n->loc, "alias names a buffer declared before");
        b->alias = other->value.u.mem;
    }
    eval_bind(e, n->u.sym, (Value){.kind = V_MEMORY, .u.mem = b});
    if (space == SPACE_WORKSPACE) VEC_PUSH(e->arena, &e->kernel->workspace, b);
    else if (space != SPACE_LOCAL) VEC_PUSH(e->arena, &e->stage->memory, b);
    if (init && space != SPACE_LOCAL)
        return eval_fail(e, n->loc, "only local memory has an initial value");
    if (space == SPACE_LOCAL) {
        Node *a = node_new(e->arena, N_ALLOC, n->loc, 1);
        a->u.buf = b;
        if (init && (!eval_scalar(e, init, &v) || !eval_node_as(e, n->loc, v, b->type, &a->kid[0])))
            return false;
        eval_emit(e, a);
    }
    return true;
}

static bool tune(Eval *e, Node *n)
{
    for (int i = 0; i < NREST(n); i++) {
        Node *c = REST(n)[i], *first = KID(c, CHOICE, default);
        Value v = value_none();
        for (int k = 0; e->choices && k < e->choices->n; k++)
            if (e->choices->name[k] == c->u.sym) v = e->choices->value[k];
        if (v.kind == V_NONE) {
            if (NREST(first) < 1)
                return eval_fail(e, c->loc, "tune entry '%s' has no default", c->u.sym);
            if (!eval_expr(e, REST(first)[0], &v)) return false;
        }
        eval_bind(e, c->u.sym, v);
    }
    return true;
}

static bool effect(Eval *e, Node *n)
{
    Node *x = KID(n, EVAL, a);
    Value v;
    if (x->kind == N_NAME && !env_find(e->env, x->u.sym) &&
        intrinsic_find(x->u.sym, 0)) { // barrier;
        Node *call = node_new(e->arena, N_CALL, x->loc, 1);
        call->kid[0] = x;
        x = call;
    }
    return eval_expr(e, x, &v);
}

static bool scoped(Eval *e, Node *n) // role, one
{
    Value c;
    Node *s = node_new(e->arena, (NodeKind)n->kind, n->loc, (int)n->nkid);
    if (n->kind == N_ROLE &&
        (!eval_scalar(e, KID(n, ROLE, cond), &c) || !eval_node(e, n->loc, c, &s->kid[0])))
        return false;
    if (!arm(e, n->kid[n->nkid - 1], &s->kid[n->nkid - 1], n->loc)) return false;
    eval_emit(e, s);
    return true;
}

bool eval_stmt(Eval *e, Node *n)
{
    Value v;
    if (++e->steps > EVAL_MAX_STEPS)
        return eval_fail(e, n->loc, "gave up: this template unfolds to more than %d steps",
                         EVAL_MAX_STEPS);
    switch (n->kind) {
    case N_SEQ: return eval_stmts(e, n);
    case N_LET: return let(e, n);
    case N_VAR: return var(e, n);
    case N_ASSIGN:
        return eval_scalar(e, KID(n, ASSIGN, value), &v) &&
               assign_to(e, KID(n, ASSIGN, place), (NodeKind)n->sub, v);
    case N_FOR: return for_(e, n);
    case N_IF: return if_(e, n);
    case N_WHILE: return while_(e, n);
    case N_MEMORY: return memory(e, n);
    case N_LAUNCH: return launch(e, n);
    case N_STAGE: return stage(e, n);
    case N_TUNE: return tune(e, n);
    case N_REQUIRE: return eval_require(e, n);
    case N_ROLE:
    case N_ONE: return scoped(e, n);
    case N_EVAL: return effect(e, n);
    case N_RETURN:
        e->result = value_none();
        if (KID(n, RETURN, value) && !eval_scalar(e, KID(n, RETURN, value), &e->result))
            return false;
        e->returning = true;
        return true;
    case N_BREAK:
    case N_CONTINUE:
        if (!e->out)
            return eval_fail(e, n->loc, "'%s' stands inside a loop", node_info[n->kind].spelling);
        eval_emit(e, node_new(e->arena, (NodeKind)n->kind, n->loc, 0));
        return true;
    default: return eval_fail(e, n->loc, "'%s' does not stand here", node_info[n->kind].spelling);
    }
}
