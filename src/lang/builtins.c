// SPDX-License-Identifier: Apache-2.0
// Builtin functions, one C function a row of builtins.def, and calls of intrinsics.
#include "lang/eval.h"

#include <math.h>
#include <string.h>

typedef struct Args {
    Loc loc;
    Sym name;                // of the function
    Node *call;
    int n;                   // positional, spread; what follows ';' unnamed too
    Value *at;
    int after;               // positions from here on came after ';'
    int nnamed;
    Sym *key;
    Value *value;
} Args;

typedef bool BuiltinFn(Eval *e, const Args *a, Value *out);

static const Value *named(const Args *a, const char *key)
{
    for (int i = 0; i < a->nnamed; i++)
        if (strcmp(a->key[i], key) == 0)
            return &a->value[i];
    return NULL;
}

static bool want_pack(Eval *e, const Args *a, int i, Value *out)
{
    *out = a->at[i];
    if (out->kind == V_TENSOR)
        *out = value_tuple(e->arena, out->u.tensor->rank, out->u.tensor->dims);
    return out->kind == V_TUPLE || eval_fail(e, a->loc, "'%s' needs a pack, found %s", a->name, value_kind_name(out->kind));
}

static bool want_dtype(Eval *e, const Args *a, int i, DType *t)
{
    if (a->at[i].kind != V_DTYPE)
        return eval_fail(e, a->loc, "'%s' needs a type, found %s", a->name, value_kind_name(a->at[i].kind));
    *t = a->at[i].u.dtype.type;
    return true;
}

// Arguments [from, to) as known integers; a single tuple stands for its elements.
static bool want_ints(Eval *e, const Args *a, int from, int to, int64_t *out, int *n)
{
    const Value *at = a->at + from;
    *n = to - from;
    if (*n == 1 && at[0].kind == V_TUPLE) {
        *n = at[0].u.tuple.n;
        at = at[0].u.tuple.at;
    }
    if (*n < 1 || *n > MAPPING_MAX_RANK)
        return eval_fail(e, a->loc, "'%s' takes 1 to %d extents, not %d", a->name, MAPPING_MAX_RANK, *n);
    for (int i = 0; i < *n; i++)
        if (!eval_int(e, a->loc, at[i], "an extent", &out[i]))
            return false;
    return true;
}

static bool want_order(Eval *e, const Args *a, int rank, int *order, bool *given)
{
    const Value *v = named(a, "ranks");
    *given = v != NULL;
    if (!v)
        return true;
    if (v->kind != V_TUPLE || v->u.tuple.n != rank)
        return eval_fail(e, a->loc, "ranks needs one number for each of %d axes", rank);
    for (int i = 0; i < rank; i++) {
        int64_t r;
        if (!eval_int(e, a->loc, v->u.tuple.at[i], "a rank", &r))
            return false;
        order[i] = (int)(r < 0 || r > MAPPING_MAX_RANK ? MAPPING_MAX_RANK : r);
    }
    return true;
}

static bool give_map(Eval *e, const Args *a, const Mapping *m, const char *why, Value *out)
{
    *out = (Value){.kind = V_MAPPING, .loc = a->loc, .u.map = m};
    return m || eval_fail(e, a->loc, "%s: %s", a->name, why);
}

static bool give_layout(Eval *e, const Args *a, const Layout *l, const char *why, Value *out)
{
    *out = (Value){.kind = V_LAYOUT, .loc = a->loc, .u.layout = l};
    return l || eval_fail(e, a->loc, "%s: %s", a->name, why);
}

static bool all_known(const Args *a, int n)
{
    for (int i = 0; i < n; i++) {
        if (a->at[i].kind == V_TUPLE) {
            for (int k = 0; k < a->at[i].u.tuple.n; k++)
                if (a->at[i].u.tuple.at[k].kind != V_INT)
                    return false;
        } else if (a->at[i].kind != V_INT)
            return false;
    }
    return true;
}

static bool shape_map(Eval *e, const Args *a, bool spatial, bool columns, Value *out)
{
    int64_t d[MAPPING_MAX_RANK];
    int order[MAPPING_MAX_RANK], n;
    bool ordered;
    const char *why = NULL;
    if (!spatial && !all_known(a, a->n)) {
        *out = a->n == 1 && a->at[0].kind == V_TUPLE ? a->at[0] : value_tuple(e->arena, a->n, a->at);
        return true;
    }
    if (!want_ints(e, a, 0, a->n, d, &n) || !want_order(e, a, n, order, &ordered))
        return false;
    for (int i = 0; columns && i < n; i++)
        order[i] = n - 1 - i;
    const int *o = ordered || columns ? order : NULL;
    const Mapping *m = spatial ? mapping_spatial(e->arena, n, d, o, &why) : mapping_repeat(e->arena, n, d, o, NULL, &why);
    return give_map(e, a, m, why, out);
}

static bool f_spatial(Eval *e, const Args *a, Value *out) { return shape_map(e, a, true, false, out); }
static bool f_col_spatial(Eval *e, const Args *a, Value *out) { return shape_map(e, a, true, true, out); }
static bool f_repeat(Eval *e, const Args *a, Value *out) { return shape_map(e, a, false, false, out); }
static bool f_col_repeat(Eval *e, const Args *a, Value *out) { return shape_map(e, a, false, true, out); }

static bool auto_mapping(Eval *e, const Args *a, bool predicated, Value *out)
{
    int64_t d[MAPPING_MAX_RANK], workers, used;
    int order[MAPPING_MAX_RANK], n;
    bool ordered;
    const char *why = NULL;
    const Value *w = named(a, "workers");
    if (!w && a->after < a->n)
        w = &a->at[a->after];
    if (!w)
        return eval_fail(e, a->loc, "%s(d...; workers) needs the number of workers", a->name);
    if (!eval_int(e, a->loc, *w, "the number of workers", &workers) || !want_ints(e, a, 0, a->after < a->n ? a->after : a->n, d, &n) ||
        !want_order(e, a, n, order, &ordered))
        return false;
    const int *o = ordered ? order : NULL;
    const Mapping *m = predicated ? mapping_auto_predicated(e->arena, n, d, workers, o, &used, &why)
                                  : mapping_auto(e->arena, n, d, workers, o, &why);
    return give_map(e, a, m, why, out);
}

static bool f_auto_map(Eval *e, const Args *a, Value *out) { return auto_mapping(e, a, false, out); }
static bool f_predicated_auto_map(Eval *e, const Args *a, Value *out) { return auto_mapping(e, a, true, out); }

static bool f_project(Eval *e, const Args *a, Value *out)
{
    int64_t axis[MAPPING_MAX_RANK];
    int n;
    bool fixed[MAPPING_MAX_RANK] = {false};
    const char *why = NULL;
    if (a->at[0].kind != V_MAPPING)
        return eval_fail(e, a->loc, "project(m, axes...) needs a mapping");
    if (!want_ints(e, a, 1, a->n, axis, &n))
        return false;
    for (int i = 0; i < n; i++) {
        if (axis[i] < 0 || axis[i] >= a->at[0].u.map->rank)
            return eval_fail(e, a->loc, "axis %lld of a mapping of rank %d", (long long)axis[i], a->at[0].u.map->rank);
        fixed[axis[i]] = true;
    }
    return give_map(e, a, mapping_project(e->arena, a->at[0].u.map, fixed, &why), why, out);
}

static bool f_tasks(Eval *e, const Args *a, Value *out)
{
    Value m;
    Node *w;
    if (!eval_expr(e, KID(a->call, CALL, callee), &m) || !eval_index(e, a->loc, a->at[0], &w))
        return false;
    *out = (Value){.kind = V_TASKS, .loc = a->loc};
    out->u.tasks.map = m.u.map;
    out->u.tasks.worker = w;
    return true;
}

static bool simple_layout(Eval *e, const Args *a, const Layout *(*make)(Arena *, int, const int64_t *, const char **), Value *out)
{
    int64_t d[MAPPING_MAX_RANK];
    int n;
    const char *why = NULL;
    return want_ints(e, a, 0, a->n, d, &n) && give_layout(e, a, make(e->arena, n, d, &why), why, out);
}

static bool f_row_major(Eval *e, const Args *a, Value *out) { return simple_layout(e, a, layout_row_major, out); }
static bool f_column_major(Eval *e, const Args *a, Value *out) { return simple_layout(e, a, layout_column_major, out); }
static bool f_local_layout(Eval *e, const Args *a, Value *out) { return simple_layout(e, a, layout_local, out); }

static bool f_strided(Eval *e, const Args *a, Value *out)
{
    int64_t d[MAPPING_MAX_RANK], s[MAPPING_MAX_RANK];
    int n, k;
    const char *why = NULL;
    if (!want_ints(e, a, 0, 1, d, &n) || !want_ints(e, a, 1, 2, s, &k))
        return false;
    if (n != k)
        return eval_fail(e, a->loc, "strided needs one stride for each extent");
    return give_layout(e, a, layout_strided(e->arena, n, d, s, &why), why, out);
}

static bool want_layout(Eval *e, const Args *a, const Layout **l)
{
    *l = a->at[0].u.layout;
    return a->at[0].kind == V_LAYOUT || eval_fail(e, a->loc, "'%s' needs a layout, found %s", a->name, value_kind_name(a->at[0].kind));
}

static bool f_swizzle(Eval *e, const Args *a, Value *out)
{
    const Layout *l;
    static const char *const keys[] = {"dim", "by", "log_step"};
    int64_t v[3] = {-1, -1, 0};
    const char *why = NULL;
    if (!want_layout(e, a, &l))
        return false;
    for (int i = 0; i < 3; i++) {
        const Value *x = i + 1 < a->n ? &a->at[i + 1] : named(a, keys[i]);
        if (x && !eval_int(e, a->loc, *x, keys[i], &v[i]))
            return false;
        if (v[i] < -1 || v[i] > 62)
            return eval_fail(e, a->loc, "%s of a swizzle is out of range", keys[i]);
    }
    if (v[0] < 0)
        return eval_fail(e, a->loc, "swizzle needs dim");
    return give_layout(e, a, layout_swizzle(e->arena, l, (int)v[0], (int)v[1], (int)v[2], &why), why, out);
}

static bool f_permute(Eval *e, const Args *a, Value *out)
{
    const Layout *l;
    int64_t p[MAPPING_MAX_RANK];
    int perm[MAPPING_MAX_RANK], n;
    const char *why = NULL;
    if (!want_layout(e, a, &l) || !want_ints(e, a, 1, 2, p, &n))
        return false;
    if (n != l->rank)
        return eval_fail(e, a->loc, "permute needs %d axes", l->rank);
    for (int i = 0; i < n; i++)
        perm[i] = (int)(p[i] < 0 || p[i] > MAPPING_MAX_RANK ? MAPPING_MAX_RANK : p[i]);
    return give_layout(e, a, layout_permute(e->arena, l, perm, &why), why, out);
}

static bool f_reshape(Eval *e, const Args *a, Value *out)
{
    const Layout *l;
    int64_t d[MAPPING_MAX_RANK];
    int n;
    const char *why = NULL;
    return want_layout(e, a, &l) && want_ints(e, a, 1, a->n, d, &n) && give_layout(e, a, layout_reshape(e->arena, l, n, d, &why), why, out);
}

static bool f_concat(Eval *e, const Args *a, Value *out)
{
    if (a->at[0].kind != V_TUPLE || a->at[1].kind != V_TUPLE)
        return eval_binary(e, a->loc, N_ADD, a->at[0], a->at[1], out);
    int n = a->at[0].u.tuple.n, m = a->at[1].u.tuple.n;
    *out = value_tuple(e->arena, n + m, NULL);
    for (int i = 0; i < n + m; i++)
        out->u.tuple.at[i] = i < n ? a->at[0].u.tuple.at[i] : a->at[1].u.tuple.at[i - n];
    return true;
}

static bool f_rank(Eval *e, const Args *a, Value *out)
{
    const Value *v = &a->at[0];
    if (v->kind == V_MAPPING || v->kind == V_LAYOUT) {
        *out = value_int(v->kind == V_MAPPING ? v->u.map->rank : v->u.layout->rank);
        return true;
    }
    Value p;
    if (!want_pack(e, a, 0, &p))
        return false;
    *out = value_int(p.u.tuple.n);
    return true;
}

static bool f_size(Eval *e, const Args *a, Value *out)
{
    Value p;
    *out = value_int(1);
    if (!want_pack(e, a, 0, &p))
        return false;
    for (int i = 0; i < p.u.tuple.n; i++)
        if (!eval_binary(e, a->loc, N_MUL, *out, p.u.tuple.at[i], out))
            return false;
    return true;
}

// Right-aligned; 1 gives way. Where neither extent is known, they must be equal when the kernel runs.
static bool broadcast_two(Eval *e, Loc loc, Value p, Value q, Value *out)
{
    int n = p.u.tuple.n > q.u.tuple.n ? p.u.tuple.n : q.u.tuple.n;
    *out = value_tuple(e->arena, n, NULL);
    for (int i = 0; i < n; i++) {
        int ip = i - (n - p.u.tuple.n), iq = i - (n - q.u.tuple.n);
        Value a = ip < 0 ? value_int(1) : p.u.tuple.at[ip], b = iq < 0 ? value_int(1) : q.u.tuple.at[iq];
        bool a1 = a.kind == V_INT && a.u.i == 1, b1 = b.kind == V_INT && b.u.i == 1;
        if (a.kind == V_INT && b.kind == V_INT && a.u.i != b.u.i && !a1 && !b1)
            return eval_fail(e, loc, "extents %lld and %lld do not broadcast", (long long)a.u.i, (long long)b.u.i);
        out->u.tuple.at[i] = a1 ? b : b1 || a.kind == V_INT ? a : b.kind == V_INT ? b : a;
    }
    return true;
}

static bool f_broadcast(Eval *e, const Args *a, Value *out)
{
    VEC(Value) packs = {0};
    for (int i = 0; i < a->n; i++) {
        const Value *v = &a->at[i];          // a variadic parameter stands for its tensors
        if (v->kind == V_TUPLE && v->u.tuple.n && v->u.tuple.at[0].kind == V_TENSOR) {
            for (int k = 0; k < v->u.tuple.n; k++)
                VEC_PUSH(e->arena, &packs, v->u.tuple.at[k]);
        } else
            VEC_PUSH(e->arena, &packs, *v);
    }
    Args b = *a;
    b.n = packs.n;
    b.at = packs.at;
    *out = value_tuple(e->arena, 0, NULL);
    for (int i = 0; i < b.n; i++) {
        Value p;
        if (!want_pack(e, &b, i, &p) || !broadcast_two(e, a->loc, *out, p, out))
            return false;
    }
    return true;
}

static bool f_reversed(Eval *e, const Args *a, Value *out)
{
    Value p = a->at[0];
    if (p.kind == V_INT) {
        if (p.u.i < 0 || p.u.i > EVAL_MAX_RANK)
            return eval_fail(e, a->loc, "reversed(%lld): out of range", (long long)p.u.i);
        *out = value_tuple(e->arena, (int)p.u.i, NULL);
        for (int i = 0; i < (int)p.u.i; i++)
            out->u.tuple.at[i] = value_int(p.u.i - 1 - i);
        return true;
    }
    if (!want_pack(e, a, 0, &p))
        return false;
    *out = value_tuple(e->arena, p.u.tuple.n, NULL);
    for (int i = 0; i < p.u.tuple.n; i++)
        out->u.tuple.at[i] = p.u.tuple.at[p.u.tuple.n - 1 - i];
    return true;
}

static bool f_iota(Eval *e, const Args *a, Value *out)
{
    int64_t n;
    if (!eval_int(e, a->loc, a->at[0], "n", &n) || n < 0 || n > 65536)
        return n < 0 || n > 65536 ? eval_fail(e, a->loc, "iota: out of range") : false;
    *out = value_tuple(e->arena, (int)n, NULL);
    for (int i = 0; i < (int)n; i++)
        out->u.tuple.at[i] = value_int(i);
    return true;
}

static bool f_fill(Eval *e, const Args *a, Value *out)
{
    int64_t n;
    if (!eval_int(e, a->loc, a->at[0], "n", &n) || n < 0 || n > 65536)
        return n < 0 || n > 65536 ? eval_fail(e, a->loc, "fill: out of range") : false;
    *out = value_tuple(e->arena, (int)n, NULL);
    for (int i = 0; i < (int)n; i++)
        out->u.tuple.at[i] = a->at[1];
    return true;
}

static bool f_inverse(Eval *e, const Args *a, Value *out)
{
    Value p;
    if (!want_pack(e, a, 0, &p))
        return false;
    *out = value_tuple(e->arena, p.u.tuple.n, NULL);
    for (int i = 0; i < p.u.tuple.n; i++) {
        int64_t k;
        if (!eval_int(e, a->loc, p.u.tuple.at[i], "an axis of a permutation", &k))
            return false;
        k = k < 0 ? k + p.u.tuple.n : k;
        if (k < 0 || k >= p.u.tuple.n || out->u.tuple.at[k].kind != V_NONE)
            return eval_fail(e, a->loc, "this is no permutation of %d axes", p.u.tuple.n);
        out->u.tuple.at[k] = value_int(i);
    }
    return true;
}

// A known list of axes in 0 .. rank, as a set.
static bool want_axes(Eval *e, const Args *a, Value v, int rank, bool *set)
{
    Value list = v.kind == V_TUPLE ? v : v.kind == V_NONE ? value_tuple(e->arena, 0, NULL) : value_tuple(e->arena, 1, &v);
    for (int i = 0; i < list.u.tuple.n; i++) {
        int64_t k;
        if (!eval_int(e, a->loc, list.u.tuple.at[i], "an axis", &k))
            return false;
        if (k < -rank || k >= rank)
            return eval_fail(e, a->loc, "axis %lld is outside a rank of %d", (long long)k, rank);
        set[k < 0 ? k + rank : k] = true;
    }
    return true;
}

static bool f_axes(Eval *e, const Args *a, Value *out)
{
    int64_t rank;
    bool set[EVAL_MAX_RANK] = {false};
    if (!eval_int(e, a->loc, a->at[1], "a rank", &rank) || rank < 0 || rank > EVAL_MAX_RANK || !want_axes(e, a, a->at[0], (int)rank, set))
        return false;
    *out = value_tuple(e->arena, (int)rank, NULL);
    out->u.tuple.n = 0;
    for (int i = 0; i < rank; i++)
        if (set[i])
            out->u.tuple.at[out->u.tuple.n++] = value_int(i);
    return true;
}

static bool f_reduced(Eval *e, const Args *a, Value *out)
{
    Value s;
    int64_t keep;
    bool set[EVAL_MAX_RANK] = {false};
    if (!want_pack(e, a, 0, &s) || !want_axes(e, a, a->at[1], s.u.tuple.n, set) || !eval_int(e, a->loc, a->at[2], "keepdims", &keep))
        return false;
    *out = value_tuple(e->arena, s.u.tuple.n, NULL);
    int n = 0;
    for (int i = 0; i < s.u.tuple.n; i++)
        if (!set[i] || keep)
            out->u.tuple.at[n++] = set[i] ? value_int(1) : s.u.tuple.at[i];
    out->u.tuple.n = n;
    return true;
}

static bool f_contains(Eval *e, const Args *a, Value *out)
{
    Value p;
    if (!want_pack(e, a, 0, &p))
        return false;
    *out = value_bool(false);
    for (int i = 0; i < p.u.tuple.n; i++)
        if (value_equal(&p.u.tuple.at[i], &a->at[1]))
            *out = value_bool(true);
    return true;
}

static bool f_ravel(Eval *e, const Args *a, Value *out)
{
    Value i, d;
    if (!want_pack(e, a, 0, &i) || !want_pack(e, a, 1, &d))
        return false;
    if (i.u.tuple.n != d.u.tuple.n)
        return eval_fail(e, a->loc, "ravel of %d indices in %d extents", i.u.tuple.n, d.u.tuple.n);
    return values_ravel(e, a->loc, i.u.tuple.n, i.u.tuple.at, d.u.tuple.at, out);
}

static bool f_unravel(Eval *e, const Args *a, Value *out)
{
    Value d;
    return want_pack(e, a, 1, &d) && values_unravel(e, a->loc, a->at[0], d.u.tuple.n, d.u.tuple.at, out);
}

static bool f_acc(Eval *e, const Args *a, Value *out)
{
    if (a->at[0].kind == V_DTYPE) {
        *out = value_dtype(dtypes[a->at[0].u.dtype.type].acc);
        return true;
    }
    Node *x;
    if (value_is_known(&a->at[0])) {
        *out = a->at[0];
        return true;
    }
    if (!eval_node(e, a->loc, a->at[0], &x))
        return false;
    *out = value_expr(node_cast(e->arena, dtypes[x->type].acc, x));
    return true;
}

static bool f_cast(Eval *e, const Args *a, Value *out)
{
    Value t, v = a->at[0];
    Node *x;
    if (!eval_expr(e, KID(a->call, CALL, callee), &t))
        return false;
    DType type = t.u.dtype.type;
    if (v.kind == V_FLOAT && !dtype_is_float(type)) {
        *out = value_int((int64_t)v.u.f);
        return true;
    }
    if (value_is_known(&v) || v.kind == V_BOOL) {
        if (v.kind == V_FLOAT && type == DT_BOOL)
            v = value_bool(v.u.f != 0);
        if (v.kind == V_INT && type == DT_BOOL)
            v = value_bool(v.u.i != 0);
        if (!eval_node_as(e, a->loc, v, type, &x))
            return false;
    } else {
        if (!eval_node(e, a->loc, v, &x))
            return false;
        x = node_fold(e->arena, node_cast(e->arena, type, x));
    }
    *out = (Value){.kind = V_EXPR, .loc = a->loc, .u.expr = x};
    return true;
}

static bool f_bitcast(Eval *e, const Args *a, Value *out)
{
    DType t;
    Node *x;
    if (!want_dtype(e, a, 0, &t) || !eval_node(e, a->loc, a->at[1], &x))
        return false;
    if (dtypes[t].bits != dtypes[x->type].bits)
        return eval_fail(e, a->loc, "bitcast of %s to %s: the sizes differ", dtypes[x->type].name, dtypes[t].name);
    Node *b = node_new(e->arena, N_BITCAST, a->loc, 1);
    b->kid[0] = x;
    b->type = (uint8_t)t;
    b->lanes = x->lanes;
    *out = value_expr(node_fold(e->arena, b));
    return true;
}

static bool extreme(Eval *e, const Args *a, bool high, Value *out)
{
    DType t;
    if (!want_dtype(e, a, 0, &t))
        return false;
    int bits = dtypes[t].bits;
    if (dtype_is_float(t))
        *out = value_float(high ? INFINITY : -INFINITY);
    else if (dtypes[t].class == DC_UINT)
        *out = value_int(!high ? 0 : bits == 64 ? -1 : (int64_t)(UINT64_MAX >> (64 - bits)));
    else
        *out = value_int(t == DT_BOOL ? high : high ? INT64_MAX >> (64 - bits) : INT64_MIN >> (64 - bits));
    Node *x = t == DT_U64 ? node_int(e->arena, a->loc, t, out->u.i) : NULL;
    if (x || eval_node_as(e, a->loc, *out, t, &x))
        *out = (Value){.kind = V_EXPR, .loc = a->loc, .u.expr = x};
    return x != NULL;
}

static bool f_lowest(Eval *e, const Args *a, Value *out) { return extreme(e, a, false, out); }
static bool f_highest(Eval *e, const Args *a, Value *out) { return extreme(e, a, true, out); }

static bool f_bytes(Eval *e, const Args *a, Value *out)
{
    DType t;
    if (!want_dtype(e, a, 0, &t))
        return false;
    *out = value_int((int64_t)dtype_size(t));
    return true;
}

static bool f_device_lanes(Eval *e, const Args *a, Value *out)
{
    DType t;
    if (!want_dtype(e, a, 0, &t))
        return false;
    *out = value_int(max_i64(1, e->kernel->target.vector_bytes / (int64_t)dtype_size(t)));
    return true;
}

static bool f_vector(Eval *e, const Args *a, Value *out)
{
    DType t;
    int64_t n;
    if (!want_dtype(e, a, 0, &t) || !eval_int(e, a->loc, a->at[1], "the lanes of a vector", &n))
        return false;
    if (n < 1 || n > 64 || (n & (n - 1)))
        return eval_fail(e, a->loc, "a vector has 1, 2, 4 ... 64 lanes");
    *out = value_dtype(t);
    out->u.dtype.lanes = (int)n;
    return true;
}

static bool f_mbarrier(Eval *e, const Args *a, Value *out)
{
    *out = value_dtype(DT_NONE);
    out->u.dtype.mbarrier = true;
    return eval_int(e, a->loc, a->at[0], "the number of arrivals", &out->u.dtype.arrivals);
}

static bool many(Eval *e, const Args *a, NodeKind op, Value *out)
{
    *out = a->at[0];
    for (int i = 1; i < a->n; i++)
        if (!eval_binary(e, a->loc, op, *out, a->at[i], out))
            return false;
    return true;
}

static bool f_min(Eval *e, const Args *a, Value *out) { return many(e, a, N_MIN, out); }
static bool f_max(Eval *e, const Args *a, Value *out) { return many(e, a, N_MAX, out); }

static bool f_select(Eval *e, const Args *a, Value *out)
{
    return eval_select(e, a->loc, a->at[0], a->at[1], a->at[2], out);
}

static bool f_isnan(Eval *e, const Args *a, Value *out)
{
    return eval_binary(e, a->loc, N_NE, a->at[0], a->at[0], out);
}

static bool intrinsic(Eval *e, const Args *a, Value *out);

static bool f_ceil(Eval *e, const Args *a, Value *out)
{
    if (a->n == 1)
        return intrinsic(e, a, out);
    Value t;
    return eval_binary(e, a->loc, N_SUB, a->at[1], value_int(1), &t) && eval_binary(e, a->loc, N_ADD, a->at[0], t, &t) &&
           eval_binary(e, a->loc, N_DIV, t, a->at[1], out);
}

static const struct BuiltinRow {
    const char *name;
    int least, most;
    BuiltinFn *fn;
} builtins[] = {
#define BUILTIN(name, least, most, meaning) {#name, least, most, f_##name},
#include "lang/builtins.def"
#undef BUILTIN
};

static const struct BuiltinRow *find(const char *name)
{
    for (size_t i = 0; i < COUNT(builtins); i++)
        if (strcmp(builtins[i].name, name) == 0)
            return &builtins[i];
    return NULL;
}

static bool is_intrinsic(const char *name)
{
    for (int i = 0; i < INTR_COUNT; i++)
        if (strcmp(intrinsics[i].name, name) == 0)
            return true;
    return false;
}

bool builtin_exists(const char *name)
{
    return find(name) || is_intrinsic(name) || builtin_known_math(name);
}

static bool collect(Eval *e, Node *call, Args *a)
{
    VEC(Value) at = {0}, values = {0};
    VEC(Sym) keys = {0};
    a->after = -1;
    for (int i = 0; i < NREST(call); i++) {
        Node *n = REST(call)[i];
        Value v;
        if (n->kind == N_ARG) {
            if (!eval_scalar(e, KID(n, ARG, value), &v))
                return false;
            if (n->u.sym && n->u.sym[0]) {
                VEC_PUSH(e->arena, &keys, n->u.sym);
                VEC_PUSH(e->arena, &values, v);
                continue;
            }
            if (a->after < 0)
                a->after = at.n;
            VEC_PUSH(e->arena, &at, v);
        } else if (n->kind == N_SPREAD) {
            if (!eval_list(e, &n, 1, &v))
                return false;
            for (int k = 0; k < v.u.tuple.n; k++)
                VEC_PUSH(e->arena, &at, v.u.tuple.at[k]);
        } else {
            if (!eval_scalar(e, n, &v))
                return false;
            VEC_PUSH(e->arena, &at, v);
        }
    }
    a->n = at.n;
    a->at = at.at;
    a->nnamed = keys.n;
    a->key = keys.at;
    a->value = values.at;
    if (a->after < 0)
        a->after = at.n;
    return true;
}

// Value arguments of an intrinsic share one type.
static bool intrinsic_values(Eval *e, const Args *a, const Intrinsic *in, Node *n)
{
    int first = -1;
    for (int i = 0; i < a->n; i++) {
        if (in->args[0] != '*' && in->args[i] != 'v')
            continue;
        if (!eval_node(e, a->loc, a->at[i], &n->kid[i]))
            return false;
        if (first < 0 || in->args[0] == '*') {
            first = i;
            continue;
        }
        Node *x, *y;
        if (!eval_promote(e, a->loc, value_expr(n->kid[first]), a->at[i], &x, &y))
            return false;
        for (int k = 0; k < i; k++)
            if (in->args[k] == 'v')
                n->kid[k] = n->kid[k]->type == x->type ? n->kid[k] : node_cast(e->arena, (DType)x->type, n->kid[k]);
        n->kid[first] = x;
        n->kid[i] = y;
    }
    return true;
}

static bool intrinsic(Eval *e, const Args *a, Value *out)
{
    const Intrinsic *in = intrinsic_find(a->name, a->n);
    bool effect = in && strchr(in->flags, 'E');
    if (!in)
        return eval_fail(e, a->loc, "'%s' does not take %d arguments", a->name, a->n);
    if (!e->out && effect)
        return eval_fail(e, a->loc, "'%s' stands inside a kernel's stage", a->name);
    Node *n = node_new(e->arena, N_INTRIN, a->loc, a->n);
    n->u.intr = in;
    n->lanes = 1;
    if (!intrinsic_values(e, a, in, n))
        return false;
    for (int i = 0; i < a->n && in->args[0] != '*'; i++) {
        if (in->args[i] == 'i' && !eval_index(e, a->loc, a->at[i], &n->kid[i]))
            return false;
        if (in->args[i] == 'r' && !eval_ref(e, REST(a->call)[i], &n->kid[i]))
            return false;
        if (in->args[i] == 'v' && n->kid[i]->lanes > n->lanes)
            n->lanes = n->kid[i]->lanes;
    }
    const char *v = strchr(in->args, 'v'), *r = strchr(in->args, 'r');
    Node *typed = r ? n->kid[r - in->args] : v ? n->kid[v - in->args] : NULL;
    if (r && v && typed->type)       // the value takes the place's type
        for (int i = 0; i < a->n; i++)
            if (in->args[i] == 'v' && !eval_node_as(e, a->loc, a->at[i], (DType)typed->type, &n->kid[i]))
                return false;
    n->type = (uint8_t)(in->type[0] == 'v'   ? (typed ? typed->type : DT_NONE)
                        : in->type[0] == 'b' ? DT_BOOL
                        : strcmp(in->type, "i") == 0 ? DT_I64
                        : in->type[0] == '.' ? DT_NONE
                                             : dtype_from_name(in->type));
    if (n->type == DT_NONE) {
        Node *s = node_new(e->arena, N_EVAL, a->loc, 1);
        s->kid[0] = n;
        eval_emit(e, s);
        *out = value_none();
        return true;
    }
    *out = value_expr(effect ? n : node_fold(e->arena, n));
    if (effect)
        *out = eval_pin(e, "r", *out);
    return true;
}

// References (argument kind r) are places, not values, so they are not evaluated by collect.
static bool collect_intrinsic(Eval *e, Node *call, const Intrinsic *in, Args *a)
{
    a->n = NREST(call);
    a->at = NEW_ARRAY(e->arena, Value, a->n);
    for (int i = 0; i < a->n; i++)
        if ((in->args[0] == '*' || in->args[i] != 'r') && !eval_scalar(e, REST(call)[i], &a->at[i]))
            return false;
    return true;
}

bool builtin_call(Eval *e, Node *call, Sym name, Value *out)
{
    const struct BuiltinRow *b = find(name);
    Args a = {.loc = call->loc, .name = name, .call = call};
    const Intrinsic *in = b ? NULL : intrinsic_find(name, NREST(call));
    if (in && strchr(in->args, 'r'))
        return collect_intrinsic(e, call, in, &a) && intrinsic(e, &a, out);
    if (!collect(e, call, &a))
        return false;
    if (builtin_known_math(name) && a.n && builtin_known_math_apply(name, a.n, a.at, out))
        return true;
    if (!b)
        return intrinsic(e, &a, out);
    if (a.n < b->least || (b->most >= 0 && a.n > b->most))
        return eval_fail(e, a.loc, "'%s' takes %d%s arguments, not %d", name, b->least,
                         b->most < 0 ? " or more" : b->most > b->least ? " or a few more" : "", a.n);
    return b->fn(e, &a, out);
}
