// SPDX-License-Identifier: Apache-2.0
// Parameters to arguments: element types and dimensions are matched against a declaration's types
// and bind its names.
#include "lang/eval.h"

#include <ctype.h>
#include <string.h>

// Names that stand for a type without being declared: T any, F floating point, I integer, B bool; a
// digit may follow (T2).
static bool type_letter(Sym s)
{
    return strchr("TFIB", s[0]) && (s[1] == 0 || (isdigit((unsigned char)s[1]) && s[2] == 0));
}

static bool letter_admits(Sym s, DType t)
{
    return s[0] == 'T' || (s[0] == 'F' && dtype_is_float(t)) || (s[0] == 'I' && dtype_is_int(t)) ||
           (s[0] == 'B' && t == DT_BOOL);
}

bool eval_dtype(Eval *e, Node *n, Value *out)
{
    Node *x = n->kind == N_TYPE ? KID(n, TYPE, dtype) : n;
    if (!x) return eval_fail(e, n->loc, "a type is needed here");
    if (!eval_expr(e, x, out)) return false;
    if (out->kind == V_TENSOR) *out = value_dtype(out->u.tensor->type);
    return out->kind == V_DTYPE ||
           eval_fail(e, x->loc, "a type is needed here, found %s", value_kind_name(out->kind));
}

static Node *generic_of(Node *generics, Sym name)
{
    for (int i = 0; generics && i < NREST(generics); i++)
        if (REST(generics)[i]->u.sym == name) return REST(generics)[i];
    return NULL;
}

static bool generic_admits(Eval *e, Node *g, DType t)
{
    Node *types = KID(g, GENERIC, types);
    for (int i = 0; i < NREST(types); i++) {
        Value v;
        Node *x = REST(types)[i], *name = x->kind == N_TYPE ? KID(x, TYPE, dtype) : x;
        if (name && name->kind == N_NAME && type_letter(name->u.sym) &&
            letter_admits(name->u.sym, t))
            return true;
        if (name && name->kind == N_NAME && type_letter(name->u.sym)) continue;
        if (eval_dtype(e, x, &v) && v.u.dtype.type == t) return true;
    }
    return false;
}

// The type of argument `what` is t: binds the name of a type parameter, or compares.
static bool match_dtype(Eval *e, Loc loc, Node *decl_type, Node *generics, Sym what, DType t)
{
    Node *x = KID(decl_type, TYPE, dtype);
    if (x && x->kind == N_NAME && !env_find(e->env, x->u.sym)) {
        Node *g = generic_of(generics, x->u.sym);
        if (g || (type_letter(x->u.sym))) {
            if (g ? !generic_admits(e, g, t) : !letter_admits(x->u.sym, t))
                return eval_fail(e, loc, "'%s' is %s, which %s does not admit", what,
                                 dtypes[t].name, x->u.sym);
            eval_bind(e, x->u.sym, value_dtype(t));
            return true;
        }
    }
    Value v;
    if (!eval_dtype(e, decl_type, &v)) return false;
    return v.u.dtype.type == t || eval_fail(e, loc, "'%s' is %s where %s is needed", what,
                                            dtypes[t].name, dtypes[v.u.dtype.type].name);
}

static bool dims_conflict(const Value *a, const Value *b) // surely unequal
{
    return a->kind == V_INT && b->kind == V_INT && a->u.i != b->u.i;
}

static bool fail_dim(Eval *e, Loc loc, Sym what, int axis, Value want, Value have)
{
    Buf w, h;
    buf_init(&w, e->arena);
    buf_init(&h, e->arena);
    value_print(&want, &w);
    value_print(&have, &h);
    return eval_fail(e, loc, "axis %d of '%s' has extent %s where %s is needed", axis, what,
                     buf_text(&h), buf_text(&w));
}

// Extents that must be equal: checked now where both are known, at launch otherwise.
static bool want_dim(Eval *e, Loc loc, Sym what, int axis, Value want, Value have)
{
    Value same;
    Buf b;
    if (dims_conflict(&want, &have)) return fail_dim(e, loc, what, axis, want, have);
    if (value_equal(&want, &have)) return true;
    if (!eval_binary(e, loc, N_EQ, want, have, &same)) return false;
    buf_init(&b, e->arena);
    buf_printf(&b, "axis %d of '%s' has extent ", axis, what);
    value_print(&have, &b);
    buf_puts(&b, " where ");
    value_print(&want, &b);
    buf_puts(&b, " is needed");
    return eval_demand(e, loc, same, buf_text(&b));
}

static bool match_dim(Eval *e, Loc loc, Node *pattern, Sym what, int axis, Value have)
{
    if (pattern->kind == N_CALL && NREST(pattern) == 1 &&
        KID(pattern, CALL, callee)->kind == N_NAME &&
        strcmp(KID(pattern, CALL, callee)->u.sym, "static") == 0) {
        if (have.kind != V_INT)
            return eval_fail(e, loc, "axis %d of '%s' must be known at compile time", axis, what);
        pattern = REST(pattern)[0];
    }
    if (pattern->kind == N_NAME && !env_find(e->env, pattern->u.sym)) {
        Value ignored;
        bool found;
        if (!builtin_constant(e, pattern->u.sym, pattern->loc, &ignored, &found)) return false;
        if (!found) {
            eval_bind(e, pattern->u.sym, have);
            return true;
        }
    }
    Value want;
    return eval_scalar(e, pattern, &want) && want_dim(e, loc, what, axis, want, have);
}

static bool match_dims(Eval *e, Loc loc, Node *type, Sym what, int rank, const Value *dims)
{
    int n = NREST(type), axis = 0;
    Node **p = REST(type);
    for (int i = 0; i < n; i++) {
        if (p[i]->kind != N_SPREAD) {
            if (axis >= rank) return eval_fail(e, loc, "'%s' has rank %d, too low", what, rank);
            if (!match_dim(e, loc, p[i], what, axis, dims[axis])) return false;
            axis++;
            continue;
        }
        Node *pack = KID(p[i], SPREAD, pack);
        Value v;
        if (pack->kind == N_NAME && !env_find(e->env, pack->u.sym)) {
            int left = rank - axis - (n - i - 1);
            if (left < 0) return eval_fail(e, loc, "'%s' has rank %d, too low", what, rank);
            eval_bind(e, pack->u.sym, value_tuple(e->arena, left, dims + axis));
            axis += left;
            continue;
        }
        if (!eval_expr(e, pack, &v)) return false;
        if (v.kind != V_TUPLE)
            return eval_fail(e, pack->loc, "... needs a pack of extents, found %s",
                             value_kind_name(v.kind));
        for (int k = 0; k < v.u.tuple.n; k++, axis++) {
            if (axis >= rank) return eval_fail(e, loc, "'%s' has rank %d, too low", what, rank);
            if (!want_dim(e, loc, what, axis, v.u.tuple.at[k], dims[axis])) return false;
        }
    }
    return axis == rank ||
           eval_fail(e, loc, "'%s' has rank %d where %d is needed", what, rank, axis);
}

static bool bind_tensor(Eval *e, Loc loc, Node *param, Node *generics, Value arg)
{
    Tensor *t = arg.u.tensor;
    Node *type = KID(param, PARAM, type);
    if (KID(param, PARAM, prefer)) t->param = param;
    return match_dtype(e, loc, type, generics, param->u.sym, t->type) &&
           match_dims(e, loc, type, param->u.sym, t->rank, t->dims);
}

// A scalar argument of a fn: its type binds a generic, or it is converted.
static bool bind_scalar(Eval *e, Loc loc, Node *param, Node *generics, Value *arg)
{
    Node *type = KID(param, PARAM, type), *x;
    if (!type || !KID(type, TYPE, dtype)) return true;
    Node *name = KID(type, TYPE, dtype);
    bool free_name = name->kind == N_NAME && !env_find(e->env, name->u.sym) &&
                     (generic_of(generics, name->u.sym) || type_letter(name->u.sym));
    if (free_name) {
        if (value_is_known(arg))
            return true; // binds with the first typed argument, see bind_params
        return eval_node(e, loc, *arg, &x) &&
               match_dtype(e, loc, type, generics, param->u.sym, (DType)x->type);
    }
    Value t;
    if (arg->kind == V_TUPLE || arg->kind == V_DTYPE || arg->kind == V_STR ||
        arg->kind == V_MAPPING)
        return true;
    if (name->kind == N_NAME &&
        (strcmp(name->u.sym, "int") == 0 || strcmp(name->u.sym, "dtype") == 0))
        return true;
    if (!eval_dtype(e, type, &t) || !eval_node_as(e, loc, *arg, t.u.dtype.type, &x)) return false;
    if (!value_is_known(arg) || t.u.dtype.type != DT_F32) *arg = value_expr(x);
    return true;
}

static bool bind_default_types(Eval *e, Loc loc, Node *params, Node *generics, int n, Value *at)
{
    for (int i = 0; i < n; i++) { // constants whose type parameter no typed argument has bound
        Node *type = KID(REST(params)[i], PARAM, type),
             *name = type ? KID(type, TYPE, dtype) : NULL;
        if (!value_is_known(&at[i]) || !name || name->kind != N_NAME) continue;
        if (!env_find(e->env, name->u.sym) &&
            (generic_of(generics, name->u.sym) || type_letter(name->u.sym))) {
            DType t = at[i].kind == V_FLOAT   ? DT_F32
                      : at[i].kind == V_BOOL  ? DT_BOOL
                      : name->u.sym[0] == 'F' ? DT_F32
                                              : DT_I64;
            eval_bind(e, name->u.sym, value_dtype(t));
        }
        Value t;
        Node *x;
        if (!eval_dtype(e, type, &t) || !eval_node_as(e, loc, at[i], t.u.dtype.type, &x))
            return false;
        at[i] = (Value){.kind = V_EXPR, .loc = loc, .u.expr = x};
    }
    return true;
}

bool bind_params(Eval *e, Loc loc, const Node *decl, Node *generics, Node *params, int narg,
                 const Value *args)
{
    int n = NREST(params);
    Value *at = NEW_ARRAY(e->arena, Value, n);
    if (narg > n && !(n && REST(params)[n - 1]->sub & PARAM_VARIADIC))
        return eval_fail(e, loc, "'%s' takes %d arguments, %d are given", decl->u.sym, n, narg);
    bool is_fn = decl->kind == N_FN;
    for (int i = 0; i < n; i++) {
        Node *p = REST(params)[i];
        at[i] = i < narg ? args[i] : value_none();
        if ((p->sub & PARAM_VARIADIC) && at[i].kind != V_TUPLE)
            at[i] = value_tuple(e->arena, narg > i ? narg - i : 0, args + i);
        if (at[i].kind == V_NONE && is_fn && KID(p, PARAM, default) &&
            !eval_scalar(e, KID(p, PARAM, default), &at[i]))
            return false;
        if (at[i].kind == V_NONE && !(p->sub & PARAM_OPTIONAL) && !(is_fn && i < narg))
            return eval_fail(e, loc, "'%s' needs an argument for '%s'", decl->u.sym, p->u.sym);
        bool ok = true;
        if (at[i].kind == V_TENSOR && !is_fn) ok = bind_tensor(e, loc, p, generics, at[i]);
        else if (at[i].kind == V_TUPLE && (p->sub & PARAM_VARIADIC))
            for (int k = 0; ok && k < at[i].u.tuple.n; k++) {
                Value v = at[i].u.tuple.at[k];
                if (v.kind == V_TENSOR)
                    ok = match_dtype(e, loc, KID(p, PARAM, type), generics, p->u.sym,
                                     v.u.tensor->type);
            }
        else if (at[i].kind != V_NONE && is_fn) ok = bind_scalar(e, loc, p, generics, &at[i]);
        if (!ok) {
            diag_note(e->diag, p->loc, "parameter '%s' of '%s'", p->u.sym, decl->u.sym);
            return false;
        }
    }
    if (is_fn && !bind_default_types(e, loc, params, generics, n, at)) return false;
    for (int i = 0; i < n; i++) eval_bind(e, REST(params)[i]->u.sym, at[i]);
    return true;
}

static bool among(Eval *e, Loc loc, Node *param, Value v)
{
    Node *set = KID(param, PARAM, among);
    Buf b;
    buf_init(&b, e->arena);
    for (int i = 0; set && i < NREST(set); i++) {
        Value x;
        if (!eval_expr(e, REST(set)[i], &x)) return false;
        if (value_equal(&x, &v)) return true;
        buf_puts(&b, i ? ", " : "");
        value_print(&x, &b);
    }
    return !set ||
           eval_fail(e, loc, "attribute '%s' must be one of %s", param->u.sym, buf_text(&b));
}

// Converts a given attribute to its declared type.
static bool attr_value(Eval *e, Loc loc, Node *param, Value *v)
{
    Node *type = KID(param, PARAM, type), *name = type ? KID(type, TYPE, dtype) : NULL;
    Sym t = name && name->kind == N_NAME ? name->u.sym : NULL;
    if (!t) return true;
    bool list = type->sub == TYPE_LIST,
         real = strcmp(t, "f32") == 0 || strcmp(t, "f64") == 0 || strcmp(t, "float") == 0;
    Value *at = v->kind == V_TUPLE ? v->u.tuple.at : v;
    int n = v->kind == V_TUPLE ? v->u.tuple.n : 1;
    if (v->kind == V_TUPLE && !list)
        return eval_fail(e, loc, "attribute '%s' is one %s, not a list", param->u.sym, t);
    ValueKind want = real                     ? V_FLOAT
                     : strcmp(t, "int") == 0  ? V_INT
                     : strcmp(t, "bool") == 0 ? V_BOOL
                     : strcmp(t, "str") == 0  ? V_STR
                                              : V_DTYPE;
    for (int i = 0; i < n; i++) {
        if (at[i].kind == V_INT && want == V_FLOAT) at[i] = value_float((double)at[i].u.i);
        if (at[i].kind == V_INT && want == V_BOOL) at[i] = value_bool(at[i].u.i != 0);
        if (at[i].kind != want && at[i].kind != V_NONE && !(at[i].kind == V_EXPR && want == V_INT))
            return eval_fail(e, loc, "attribute '%s' is %s where %s is needed", param->u.sym,
                             value_kind_name(at[i].kind), value_kind_name(want));
    }
    return among(e, loc, param, *v);
}

bool bind_attrs(Eval *e, Loc loc, const Node *decl, Node *attrs, const Map *given)
{
    int used = 0;
    for (int i = 0; i < NREST(attrs); i++) {
        Node *p = REST(attrs)[i];
        Value *g = given ? map_get(given, p->u.sym) : NULL, v = value_none();
        if (g) {
            v = *g;
            if (v.kind == V_TUPLE) v = value_tuple(e->arena, v.u.tuple.n, v.u.tuple.at);
            used++;
        } else if (KID(p, PARAM, default)) {
            if (!eval_scalar(e, KID(p, PARAM, default), &v)) return false;
        } else if (!(p->sub & PARAM_OPTIONAL))
            return eval_fail(e, loc, "'%s' needs the attribute '%s'", decl->u.sym, p->u.sym);
        if (!attr_value(e, loc, p, &v)) {
            diag_note(e->diag, p->loc, "attribute '%s' of '%s'", p->u.sym, decl->u.sym);
            return false;
        }
        eval_bind(e, p->u.sym, v);
    }
    for (int i = 0; given && used < given->n && i < given->n; i++) {
        bool known = false;
        for (int k = 0; k < NREST(attrs); k++)
            known = known || REST(attrs)[k]->u.sym == given->entry[i].key;
        if (!known)
            return eval_fail(e, loc, "'%s' has no attribute '%s'", decl->u.sym,
                             (Sym)given->entry[i].key);
    }
    return true;
}

Sym run_extent(const Node *dim)
{
    return dim->kind == N_LE && dim->kid[0]->kind == N_NAME ? dim->kid[0]->u.sym : NULL;
}

bool result_extents(Eval *e, Node *type, int n, Value *out)
{
    Node **extents = NEW_ARRAY(e->arena, Node *, n);
    for (int i = 0; i < n; i++)
        extents[i] = run_extent(REST(type)[i]) ? REST(type)[i]->kid[1] : REST(type)[i];
    return eval_list(e, extents, n, out);
}

bool bind_result_type(Eval *e, Node *param, DType *type, int *rank, Value *dims)
{
    Node *t = KID(param, PARAM, type);
    Value v, d;
    Stmts *out = e->out; // extents are expressions: no statement defines what they name
    e->out = NULL;
    bool ok = eval_dtype(e, t, &v) && result_extents(e, t, NREST(t), &d);
    e->out = out;
    if (!ok) return false;
    *type = v.u.dtype.type;
    *rank = d.u.tuple.n;
    if (*rank > EVAL_MAX_RANK)
        return eval_fail(e, param->loc, "'%s' would have rank %d; at most %d", param->u.sym, *rank,
                         EVAL_MAX_RANK);
    for (int i = 0; i < *rank; i++) {
        dims[i] = d.u.tuple.at[i];
        if (dims[i].kind == V_FLOAT) dims[i] = value_int(dtype_load_i64(DT_F64, &dims[i].u.f));
        if (dims[i].kind == V_INT && dims[i].u.i < 0)
            return eval_fail(e, param->loc, "axis %d of '%s' would have extent %lld", i,
                             param->u.sym, (long long)dims[i].u.i);
        if (dims[i].kind != V_INT && dims[i].kind != V_EXPR)
            return eval_fail(e, param->loc, "axis %d of '%s' is %s, not an extent", i, param->u.sym,
                             value_kind_name(dims[i].kind));
    }
    return true;
}

// Left of = in an op: names for single axes, i... for the rest, i[..axis] for a pack with axes left
// out.
bool bind_index_pattern(Eval *e, Loc loc, Node *const *pattern, int n, int nindex,
                        const Value *index)
{
    int at = 0;
    for (int i = 0; i < n; i++) {
        Node *p = pattern[i];
        if (p->kind == N_NAME) {
            if (at >= nindex) return eval_fail(e, loc, "the index has %d parts, too few", nindex);
            eval_bind(e, p->u.sym, index[at++]);
            continue;
        }
        int left = nindex - at - (n - i - 1);
        Node *name = p->kind == N_SPREAD ? KID(p, SPREAD, pack) : p;
        if (left < 0) return eval_fail(e, loc, "the index has %d parts, too few", nindex);
        if (name->kind == N_NAME) {
            eval_bind(e, name->u.sym, value_tuple(e->arena, left, index + at));
        } else if (name->kind == N_INDEX && NREST(name) == 1 && REST(name)[0]->kind == N_EXCEPT &&
                   KID(name, INDEX, base)->kind == N_NAME) {
            Value axes, pack;
            if (!eval_scalar(e, KID(REST(name)[0], EXCEPT, axis), &axes)) return false;
            int naxes = axes.kind == V_TUPLE ? axes.u.tuple.n : 1, rank = left + naxes;
            pack = value_tuple(e->arena, rank, NULL);
            Value list = axes.kind == V_TUPLE ? axes : value_tuple(e->arena, 1, &axes);
            bool gone[2 * EVAL_MAX_RANK] = {false};
            for (int k = 0; k < naxes; k++) {
                int64_t a;
                if (!eval_int(e, loc, list.u.tuple.at[k], "an axis", &a)) return false;
                if (a < -rank || a >= rank || rank > EVAL_MAX_RANK)
                    return eval_fail(e, loc, "axis %lld is outside a rank of %d", (long long)a,
                                     rank);
                gone[a < 0 ? a + rank : a] = true;
            }
            for (int k = 0, from = at; k < rank; k++)
                pack.u.tuple.at[k] = gone[k] || from >= nindex ? value_none() : index[from++];
            eval_bind(e, KID(name, INDEX, base)->u.sym, pack);
        } else
            return eval_fail(e, p->loc, "on the left of = an index is a name, i..., or i[..axis]");
        at += left;
    }
    return at == nindex ||
           eval_fail(e, loc, "the index has %d parts where %d are needed", nindex, at);
}
