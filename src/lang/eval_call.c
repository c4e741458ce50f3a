// SPDX-License-Identifier: Apache-2.0
// Calls: functions of the library, methods, and mappings given by a function of one's own.
#include "lang/eval.h"

#include <string.h>

bool eval_mapping_function(Eval *e, Node *n, Value *out)
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
    for (int i = 0; i < n; i++) {
        if (!eval_small(e, loc, args[i])) return false;
        pinned[i] = eval_pin(e, "a", args[i]);
    }
    LoopKind loop = e->loop;
    e->env = NULL;
    e->loop = LOOP_NOWHERE;
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
    e->loop = loop;
    e->depth--;
    if (!ok && e->depth < EVAL_MAX_NOTES) diag_note(e->diag, loc, "in the call of '%s'", fn->u.sym);
    return ok;
}

static Sym layout_name(Eval *e, Sym f) // the keyword `local` is spelled differently among builtins
{
    return f == eval_sym(e, "local") ? eval_sym(e, "local_layout") : f;
}

// f.spatial(d...) is f * spatial(d...); m.project(0) and l.swizzle(1) are project(m, 0) and
// swizzle(l, 1).
static bool structure_method(Eval *e, Node *n, Node *callee, Value base, Value *out)
{
    static const char *const composed[] = {"spatial",   "repeat",       "col_spatial", "col_repeat",
                                           "row_major", "column_major", "local_layout"};
    Sym f = layout_name(e, callee->u.sym);
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

// Arguments by position and by name, in the order of the parameters; V_NONE where none is given.
// Scalars are numbers, read once, but where nothing can be computed: shapes may be asked for.
static bool fn_args(Eval *e, Node *call, Node *fn, Value *out)
{
    Node *params = KID(fn, FN, params);
    VEC(Value) list = {0};
    int np = NREST(params), npos = 0;
    for (int i = 0; i < NREST(call); i++) {
        Node *a = REST(call)[i];
        Value v;
        bool named = a->kind == N_ARG && a->u.sym && a->u.sym[0];
        if (a->kind == N_ARG) a = KID(a, ARG, value);
        if (!named) {
            if (!eval_list(e, &a, 1, &v)) return false;
            for (int k = 0; k < v.u.tuple.n; k++) VEC_PUSH(e->arena, &list, v.u.tuple.at[k]);
            npos = list.n;
            continue;
        }
        int at = 0;
        while (at < np && REST(params)[at]->u.sym != REST(call)[i]->u.sym) at++;
        if (at == np || at < npos)
            return eval_fail(e, a->loc, "'%s' has no argument '%s' that is not given yet",
                             fn->u.sym, REST(call)[i]->u.sym);
        while (list.n <= at) VEC_PUSH(e->arena, &list, value_none());
        if (!eval_expr(e, a, &list.at[at])) return false;
    }
    *out = value_tuple(e->arena, list.n, list.at);
    for (int i = 0; i < list.n; i++) {
        Tensor *t = list.at[i].kind == V_TENSOR ? list.at[i].u.tensor : NULL;
        bool number = t && t->rank == 0 && !t->let && !t->epilogue && e->out;
        if (number && !tensor_load(e, call->loc, t, 0, NULL, &out->u.tuple.at[i])) return false;
    }
    return true;
}

bool eval_call(Eval *e, Node *n, Value *out)
{
    Node *callee = KID(n, CALL, callee);
    Value f, args;
    if (callee->kind == N_NAME && !env_find(e->env, callee->u.sym)) {
        Node *fn = map_get(&e->lib->fns, callee->u.sym);
        Sym builtin = layout_name(e, callee->u.sym);
        if (!fn && builtin_exists(builtin)) return builtin_call(e, n, builtin, out);
        if (fn) {
            if (!fn_args(e, n, fn, &args)) return false;
            if (builtin_known_math(callee->u.sym) &&
                builtin_known_math_apply(callee->u.sym, args.u.tuple.n, args.u.tuple.at, out))
                return true;
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
    if (f.kind == V_DTYPE) return builtin_call(e, n, eval_sym(e, "cast"), out);
    if (f.kind == V_MAPPING) {
        bool naming = e->naming_worker;
        e->naming_worker = true;
        bool ok = builtin_call(e, n, eval_sym(e, "tasks"), out);
        e->naming_worker = naming;
        return ok;
    }
    return eval_fail(e, n->loc, "%s cannot be called", value_kind_name(f.kind));
}
