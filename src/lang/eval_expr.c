// SPDX-License-Identifier: Apache-2.0
// Expressions: names, calls, conditionals, reductions and folds.
#include "lang/eval.h"

#include <string.h>

Sym eval_sym(Eval *e, const char *name)
{
    return intern(e->lib->names, name);
}

bool eval_fail(Eval *e, Loc loc, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    diag_report(e->diag, SEV_ERROR, loc, fmt, ap);
    va_end(ap);
    return false;
}

void eval_bind(Eval *e, Sym name, Value v)
{
    Env *env = NEW(e->arena, Env);
    *env = (Env){.name = name, .value = v, .next = e->env};
    e->env = env;
}

Env *env_find(Env *env, Sym name)
{
    while (env && env->name != name) env = env->next;
    return env;
}

void eval_emit(Eval *e, Node *stmt)
{
    VEC_PUSH(e->arena, &e->out->list, stmt);
}

bool eval_begin(Eval *e, Stmts **into, Stmts **saved, Loc loc)
{
    if (!e->out) return eval_fail(e, loc, "this can only be computed inside a kernel");
    *saved = e->out;
    *into = e->out = NEW(e->arena, Stmts);
    return true;
}

Node *eval_end(Eval *e, Stmts *from, Stmts *saved, Loc loc)
{
    e->out = saved;
    Node *seq = node_new(e->arena, N_SEQ, loc, from->list.n);
    if (from->list.n) memcpy(seq->kid, from->list.at, (size_t)from->list.n * sizeof(Node *));
    return seq;
}

static bool name(Eval *e, Node *n, Value *out)
{
    Env *b = env_find(e->env, n->u.sym);
    if (b) {
        *out = b->var ? value_expr(node_var(e->arena, n->loc, b->var)) : b->value;
        return true;
    }
    bool found;
    if (!builtin_constant(e, n->u.sym, n->loc, out, &found)) return false;
    if (found) return true;
    Node *constant = map_get(&e->lib->constants, n->u.sym);
    if (constant) {
        Env *env = e->env;
        e->env = NULL;
        bool ok = eval_expr(e, KID(constant, CONSTANT, value), out);
        e->env = env;
        return ok;
    }
    if (map_get(&e->lib->fns, n->u.sym) || builtin_exists(n->u.sym)) {
        *out = (Value){.kind = V_FUNCTION, .u.str = n->u.sym};
        return true;
    }
    return eval_fail(e, n->loc, "unknown name '%s'", n->u.sym);
}

bool eval_scalar(Eval *e, Node *n, Value *out)
{
    if (!eval_expr(e, n, out)) return false;
    if (out->kind == V_TENSOR && out->u.tensor->rank == 0)
        return tensor_load(e, n->loc, out->u.tensor, 0, NULL, out);
    return true;
}

bool eval_list(Eval *e, Node *const *at, int n, Value *out)
{
    VEC(Value) list = {0};
    for (int i = 0; i < n; i++) {
        Value v;
        if (at[i]->kind == N_ARG)
            return eval_fail(e, at[i]->loc, "no argument is called '%s' here", at[i]->u.sym);
        if (at[i]->kind != N_SPREAD) {
            if (!eval_expr(e, at[i], &v)) return false;
            VEC_PUSH(e->arena, &list, v);
            continue;
        }
        if (!eval_expr(e, KID(at[i], SPREAD, pack), &v)) return false;
        if (v.kind != V_TUPLE)
            return eval_fail(e, at[i]->loc, "... needs a pack, found %s", value_kind_name(v.kind));
        for (int k = 0; k < v.u.tuple.n; k++) VEC_PUSH(e->arena, &list, v.u.tuple.at[k]);
    }
    *out = value_tuple(e->arena, list.n, list.at);
    return true;
}

// Statements that may run although nobody asked: definitions that neither trap nor read unguarded memory.
static bool speculative(const Stmts *s)
{
    for (int i = 0; i < s->list.n; i++)
        if (s->list.at[i]->kind != N_DEFINE || !node_pure(s->list.at[i]->kid[0])) return false;
    return true;
}

static void move_stmts(Eval *e, const Stmts *from)
{
    for (int i = 0; i < from->list.n; i++) eval_emit(e, from->list.at[i]);
}

static Var *declare(Eval *e, Loc loc, const char *hint, Node *like, Node *init)
{
    Var *v = kernel_var(e->kernel, hint, (DType)like->type, true);
    v->lanes = like->lanes;
    v->loc = loc;
    Node *d = node_new(e->arena, N_DECLARE, loc, 1);
    d->u.var = v;
    d->kid[0] = init;
    eval_emit(e, d);
    return v;
}

static void set_var(Eval *e, Loc loc, Var *v, Node *value)
{
    Node *s = node_new(e->arena, N_SET, loc, 1);
    s->u.var = v;
    s->kid[0] = value;
    eval_emit(e, s);
}

static void set_var_in(Eval *e, Stmts *into, Loc loc, Var *v, Node *value)
{
    Stmts *saved = e->out;
    e->out = into;
    set_var(e, loc, v, value);
    e->out = saved;
}

// One component of a conditional whose arms needed statements: a variable set in each arm.
static bool join(Eval *e, Loc loc, Value a, Value b, Stmts *sa, Stmts *sb, Value *out)
{
    if (a.kind == V_TUPLE && b.kind == V_TUPLE && a.u.tuple.n == b.u.tuple.n) {
        *out = value_tuple(e->arena, a.u.tuple.n, NULL);
        for (int i = 0; i < a.u.tuple.n; i++)
            if (!join(e, loc, a.u.tuple.at[i], b.u.tuple.at[i], sa, sb, &out->u.tuple.at[i]))
                return false;
        return true;
    }
    Node *x, *y;
    if (!eval_promote(e, loc, a, b, &x, &y)) return false;
    Var *v = declare(e, loc, "t", x, NULL);
    set_var_in(e, sa, loc, v, x);
    set_var_in(e, sb, loc, v, y);
    *out = value_expr(node_var(e->arena, loc, v));
    return true;
}

bool eval_block(Eval *e, Node *block, Value *out)
{
    if (block->kind != N_BLOCK) return eval_scalar(e, block, out);
    Env *env = e->env;
    for (int i = 0; i < NREST(block); i++)
        if (!eval_stmt(e, REST(block)[i])) return false;
    bool ok = true;
    *out = value_none();
    if (KID(block, BLOCK, value) && !e->returning)
        ok = eval_scalar(e, KID(block, BLOCK, value), out);
    e->env = env;
    return ok;
}

static bool conditional(Eval *e, Node *n, Value *out)
{
    Value c, a, b;
    if (!eval_scalar(e, KID(n, SELECT, cond), &c)) return false;
    if (c.kind == V_BOOL) return eval_block(e, c.u.i ? KID(n, SELECT, a) : KID(n, SELECT, b), out);
    if (!e->out) return eval_fail(e, n->loc, "this condition is not known at compile time");
    Stmts *sa, *sb, *saved;
    eval_begin(e, &sa, &saved, n->loc);
    bool ok = eval_block(e, KID(n, SELECT, a), &a);
    e->out = sb = NEW(e->arena, Stmts);
    ok = ok && eval_block(e, KID(n, SELECT, b), &b);
    e->out = saved;
    if (!ok) return false;
    Node *cond;
    if (!eval_node(e, n->loc, c, &cond)) return false;
    if (speculative(sa) && speculative(sb)) {
        move_stmts(e, sa);
        move_stmts(e, sb);
        return eval_select(e, n->loc, c, a, b, out);
    }
    if (!join(e, n->loc, a, b, sa, sb, out)) return false;
    Node *s = node_new(e->arena, N_IF, n->loc, 3);
    s->kid[0] = cond;
    s->kid[1] = eval_end(e, sa, saved, n->loc);
    s->kid[2] = eval_end(e, sb, saved, n->loc);
    eval_emit(e, s);
    return true;
}

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

static bool nest_axis(Eval *e, Nest s, Sym hint, Value range, bool of_pack)
{
    Node *b = s.binder[s.k], *lo, *hi;
    if (!eval_range(e, b->loc, range, &lo, &hi)) return false;
    Stmts *inner, *saved;
    if (!eval_begin(e, &inner, &saved, b->loc)) return false;
    Var *v;
    Node *loop = eval_loop_open(e, b->loc, hint, lo, hi, &v);
    Value index = value_expr(node_var(e->arena, b->loc, v));
    Env *env = e->env;
    if (of_pack) s.index.u.tuple.at[s.axis++] = index;
    else {
        eval_bind(e, hint, index);
        s.k++;
    }
    bool ok = nest(e, s);
    e->env = env;
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
    Stmts *outer; // where the accumulator is declared
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
    if (!eval_scalar(e, KID(r->n, REDUCE, body), &v) || !eval_node(e, r->n->loc, v, &x))
        return false;
    if (!r->acc) {
        if (!reducer_init(e, r->n->loc, r->r, (DType)x->type, &init)) return false;
        Stmts *saved = e->out;
        e->out = r->outer;
        r->acc = declare(e, r->n->loc, r->r->name, x, init);
        e->out = saved;
    }
    Value sum, acc = value_expr(node_var(e->arena, r->n->loc, r->acc));
    if (!eval_binary(e, r->n->loc, r->r->op, acc, value_expr(x), &sum) ||
        !eval_node(e, r->n->loc, sum, &x))
        return false;
    set_var(e, r->n->loc, r->acc, x);
    return true;
}

static bool reduce(Eval *e, Node *n, Value *out)
{
    Reduction r = {.n = n, .outer = e->out};
    for (size_t i = 0; i < COUNT(reducers); i++)
        if (strcmp(reducers[i].name, n->u.sym) == 0) r.r = &reducers[i];
    ASSERT(r.r);
    if (!eval_binders(e, REST(n), NREST(n), reduce_body, &r)) return false;
    *out = value_expr(node_var(e->arena, n->loc, r.acc));
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
    *state = value_expr(node_var(e->arena, loc, declare(e, loc, hint, x, x)));
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
    set_var(e, loc, state.u.expr->u.var, x);
    return true;
}

static bool fold_body(Eval *e, void *user)
{
    Folding *f = user;
    Env *env = e->env;
    eval_bind(e, f->n->u.sym, eval_pin(e, f->n->u.sym, f->state));
    Value v;
    bool ok = eval_block(e, KID(f->n, FOLD, body), &v);
    e->env = env;
    return ok && fold_assign(e, f->n->loc, f->state, eval_pin(e, "next", v));
}

static bool fold(Eval *e, Node *n, Value *out)
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

// a else b: a guarded read, or the default of what was not given.
static bool otherwise(Eval *e, Node *n, Value *out)
{
    Node *a = KID(n, ELSE, a), *b = KID(n, ELSE, b);
    Value base, other, index;
    if (a->kind != N_INDEX)
        return eval_scalar(e, a, out) && (out->kind != V_NONE || eval_scalar(e, b, out));
    if (!eval_expr(e, KID(a, INDEX, base), &base)) return false;
    if (base.kind == V_NONE) return eval_scalar(e, b, out);
    if (base.kind != V_TENSOR)
        return eval_fail(e, n->loc, "else guards reads of parameters; %s cannot be read outside",
                         value_kind_name(base.kind));
    return eval_indices(e, a, base, &index) && eval_scalar(e, b, &other) &&
           tensor_load_else(e, n->loc, base.u.tensor, index.u.tuple.n, index.u.tuple.at, other,
                            out);
}

static bool mapping_function(Eval *e, Node *n, Value *out)
{
    Value workers, shape, body;
    int64_t nworker, dims[MAPPING_MAX_RANK];
    if (!eval_expr(e, KID(n, MAPFN, workers), &workers) ||
        !eval_int(e, n->loc, workers, "workers", &nworker) ||
        !eval_expr(e, KID(n, MAPFN, shape), &shape))
        return false;
    if (shape.kind != V_TUPLE || shape.u.tuple.n < 1 || shape.u.tuple.n > MAPPING_MAX_RANK)
        return eval_fail(e, n->loc, "the shape of a mapping is a tuple of 1 to %d integers",
                         MAPPING_MAX_RANK);
    for (int i = 0; i < shape.u.tuple.n; i++)
        if (!eval_int(e, n->loc, shape.u.tuple.at[i], "an extent of a mapping", &dims[i]))
            return false;
    Var *w = kernel_var(e->kernel, n->u.sym, DT_I64, false);
    w->lo = 0;
    w->hi = nworker - 1;
    Env *env = e->env;
    Stmts *saved = e->out;
    e->out = NULL;
    eval_bind(e, n->u.sym, value_expr(node_var(e->arena, n->loc, w)));
    bool ok = eval_expr(e, KID(n, MAPFN, body), &body);
    e->env = env;
    e->out = saved;
    if (!ok) return false;
    if (body.kind != V_TUPLE) body = value_tuple(e->arena, 1, &body);
    if (body.u.tuple.n != shape.u.tuple.n)
        return eval_fail(e, n->loc, "the mapping's function gives %d indices for %d axes",
                         body.u.tuple.n, shape.u.tuple.n);
    Node *f = node_new(e->arena, N_TUPLE, n->loc, body.u.tuple.n);
    for (int i = 0; i < body.u.tuple.n; i++)
        if (!eval_index(e, n->loc, body.u.tuple.at[i], &f->kid[i])) return false;
    const char *why = NULL;
    *out = (Value){.kind = V_MAPPING,
                   .u.map = mapping_custom(e->arena, shape.u.tuple.n, dims, nworker,
                                           node_var(e->arena, n->loc, w), f, &why)};
    return out->u.map || eval_fail(e, n->loc, "%s", why);
}

bool eval_call_fn(Eval *e, Loc loc, Node *fn, int n, const Value *args, Value *out)
{
    Env *env = e->env;
    if (++e->depth > EVAL_MAX_DEPTH)
        return eval_fail(e, loc, "calls nest deeper than %d: does '%s' call itself without end?",
                         EVAL_MAX_DEPTH, fn->u.sym);
    Value *pinned = NEW_ARRAY(e->arena, Value, n);
    for (int i = 0; i < n; i++) pinned[i] = eval_pin(e, "a", args[i]);
    e->env = NULL;
    bool ok = bind_params(e, loc, fn, KID(fn, FN, generics), KID(fn, FN, params), n, pinned);
    if (ok) ok = eval_block(e, KID(fn, FN, body), out);
    if (ok && e->returning) {
        *out = e->result;
        e->returning = false;
    }
    Node *type = KID(fn, FN, result);
    Value t;
    if (ok && type && eval_dtype(e, type, &t) && out->kind != V_TUPLE) {
        Node *x;
        ok = eval_node_as(e, loc, *out, t.u.dtype.type, &x);
        if (ok && out->kind == V_EXPR) *out = value_expr(x);
    }
    e->env = env;
    e->depth--;
    if (!ok) diag_note(e->diag, loc, "in the call of '%s'", fn->u.sym);
    return ok;
}

// f.spatial(d...) is f * spatial(d...); m.project(0) and l.swizzle(1) are project(m, 0) and swizzle(l, 1).
static bool structure_method(Eval *e, Node *n, Node *callee, Value base, Value *out)
{
    static const char *const composed[] = {"spatial",   "repeat",       "col_spatial", "col_repeat",
                                           "row_major", "column_major", "local_layout"};
    Sym f = callee->u.sym == eval_sym(e, "local") ? eval_sym(e, "local_layout") : callee->u.sym;
    Node *name = node_new(e->arena, N_NAME, n->loc, 0), *c;
    name->u.sym = f;
    for (size_t i = 0; i < COUNT(composed); i++)
        if (strcmp(composed[i], f) == 0) {
            Value inner;
            c = node_new(e->arena, N_CALL, n->loc, (int)n->nkid);
            memcpy(c->kid, n->kid, n->nkid * sizeof(Node *));
            c->kid[0] = name;
            return builtin_call(e, c, f, &inner) && eval_binary(e, n->loc, N_MUL, base, inner, out);
        }
    if (!builtin_exists(f))
        return eval_fail(e, n->loc, "%s has no '%s'", value_kind_name(base.kind), f);
    c = node_new(e->arena, N_CALL, n->loc, (int)n->nkid + 1);
    c->kid[0] = name;
    c->kid[1] = KID(callee, FIELD, base);
    memcpy(c->kid + 2, n->kid + 1, (n->nkid - 1) * sizeof(Node *));
    return builtin_call(e, c, f, out);
}

static bool call(Eval *e, Node *n, Value *out)
{
    Node *callee = KID(n, CALL, callee);
    Value f, args;
    if (callee->kind == N_NAME && !env_find(e->env, callee->u.sym)) {
        Node *fn = map_get(&e->lib->fns, callee->u.sym);
        if (!fn && builtin_exists(callee->u.sym)) return builtin_call(e, n, callee->u.sym, out);
        if (fn) {
            if (!eval_list(e, REST(n), NREST(n), &args)) return false;
            if (builtin_known_math(callee->u.sym) &&
                builtin_known_math_apply(callee->u.sym, args.u.tuple.n, args.u.tuple.at, out))
                return true;
            for (int i = 0; i < args.u.tuple.n; i++)
                if (args.u.tuple.at[i].kind == V_TENSOR && args.u.tuple.at[i].u.tensor->rank == 0 &&
                    !tensor_load(e, n->loc, args.u.tuple.at[i].u.tensor, 0, NULL,
                                 &args.u.tuple.at[i]))
                    return false;
            return eval_call_fn(e, n->loc, fn, args.u.tuple.n, args.u.tuple.at, out);
        }
    }
    if (callee->kind == N_FIELD) {
        Value base;
        if (!eval_expr(e, KID(callee, FIELD, base), &base)) return false;
        if (base.kind == V_TENSOR) return builtin_method(e, n, base, callee->u.sym, out);
        if (base.kind == V_MAPPING || base.kind == V_LAYOUT)
            return structure_method(e, n, callee, base, out);
    }
    if (!eval_expr(e, callee, &f)) return false;
    if (f.kind == V_FUNCTION && builtin_exists(f.u.str)) return builtin_call(e, n, f.u.str, out);
    if (f.kind == V_DTYPE || f.kind == V_MAPPING)
        return builtin_call(e, n, eval_sym(e, f.kind == V_DTYPE ? "cast" : "tasks"), out);
    return eval_fail(e, n->loc, "%s cannot be called", value_kind_name(f.kind));
}

static bool range(Eval *e, Node *n, Value *out)
{
    *out = (Value){.kind = V_RANGE};
    Value *v = NEW_ARRAY(e->arena, Value, 3);
    for (int i = 0; i < (int)n->nkid; i++) {
        v[i] = value_int(i == 2 ? 1 : 0);
        if (n->kid[i] && !eval_scalar(e, n->kid[i], &v[i])) return false;
    }
    out->u.range.lo = &v[0];
    out->u.range.hi = &v[1];
    out->u.range.step = &v[2];
    out->u.range.span = n->kind == N_SPAN;
    if (n->kind == N_SPAN) v[2] = value_int(1);
    return true;
}

static bool short_circuit(Eval *e, Node *n, Value *out)
{
    Value a, b;
    if (!eval_scalar(e, n->kid[0], &a)) return false;
    if (a.kind == V_BOOL && (a.u.i != 0) == (n->kind == N_LOR)) {
        *out = a;
        return true;
    }
    return eval_scalar(e, n->kid[1], &b) && eval_binary(e, n->loc, (NodeKind)n->kind, a, b, out);
}

static bool index_expr(Eval *e, Node *n, Value *out)
{
    Value base, index;
    if (!eval_expr(e, KID(n, INDEX, base), &base)) return false;
    if (base.kind == V_TUPLE && NREST(n) == 1 && REST(n)[0]->kind == N_EXCEPT)
        return eval_except(e, REST(n)[0], base, out);
    if (!eval_indices(e, n, base, &index)) return false;
    int k = index.u.tuple.n;
    if (base.kind == V_TENSOR)
        return tensor_load(e, n->loc, base.u.tensor, k, index.u.tuple.at, out);
    if (base.kind == V_MEMORY) return memory_load(e, n->loc, base.u.mem, k, index.u.tuple.at, out);
    if (base.kind == V_TUPLE) return eval_tuple_index(e, n->loc, base, index, out);
    if (base.kind == V_INT ||
        base.kind == V_EXPR) { // a scalar attribute stands for every element of a list
        *out = base;
        return true;
    }
    return eval_fail(e, n->loc, "%s cannot be indexed", value_kind_name(base.kind));
}

bool eval_expr(Eval *e, Node *n, Value *out)
{
    if (++e->steps > EVAL_MAX_STEPS)
        return eval_fail(e, n->loc, "gave up: this template unfolds to more than %d steps",
                         EVAL_MAX_STEPS);
    Value a, b;
    *out = value_none();
    switch (n->kind) {
    case N_INT: *out = n->type == DT_BOOL ? value_bool(n->u.i != 0) : value_int(n->u.i); break;
    case N_FLOAT: *out = value_float(n->u.f); break;
    case N_STRING: *out = value_str(n->u.sym); break;
    case N_NAME: return name(e, n, out);
    case N_TUPLE: return eval_list(e, REST(n), NREST(n), out);
    case N_CALL: return call(e, n, out);
    case N_INDEX: return index_expr(e, n, out);
    case N_FIELD:
        return eval_expr(e, KID(n, FIELD, base), &a) && builtin_field(e, n->loc, a, n->u.sym, out);
    case N_SELECT: return conditional(e, n, out);
    case N_BLOCK: return eval_block(e, n, out);
    case N_ELSE: return otherwise(e, n, out);
    case N_REDUCE: return reduce(e, n, out);
    case N_FOLD: return fold(e, n, out);
    case N_MAPFN: return mapping_function(e, n, out);
    case N_RANGE:
    case N_SPAN: return range(e, n, out);
    case N_LAND:
    case N_LOR: return short_circuit(e, n, out);
    case N_NEG:
    case N_NOT:
    case N_BNOT:
        return eval_scalar(e, n->kid[0], &a) && eval_unary(e, n->loc, (NodeKind)n->kind, a, out);
    case N_TYPE: return eval_dtype(e, n, out);
    default:
        if (node_info[n->kind].class == CLASS_E && n->nkid == 2)
            return eval_scalar(e, n->kid[0], &a) && eval_scalar(e, n->kid[1], &b) &&
                   eval_binary(e, n->loc, (NodeKind)n->kind, a, b, out);
        return eval_fail(e, n->loc, "'%s' does not stand here", node_info[n->kind].spelling);
    }
    return true;
}
