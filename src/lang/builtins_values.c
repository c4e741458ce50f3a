// SPDX-License-Identifier: Apache-2.0
// Builtin functions on packs, types and numbers.
#include "lang/builtins.h"

#include "ir/size.h"

#include <math.h>
#include <string.h>

bool f_concat(Eval *e, const Args *a, Value *out)
{
    if (a->at[0].kind != V_TUPLE || a->at[1].kind != V_TUPLE)
        return eval_binary(e, a->loc, N_ADD, a->at[0], a->at[1], out);
    int n = a->at[0].u.tuple.n, m = a->at[1].u.tuple.n;
    *out = value_tuple(e->arena, n + m, NULL);
    for (int i = 0; i < n + m; i++)
        out->u.tuple.at[i] = i < n ? a->at[0].u.tuple.at[i] : a->at[1].u.tuple.at[i - n];
    return true;
}

bool f_rank(Eval *e, const Args *a, Value *out)
{
    const Value *v = &a->at[0];
    if (v->kind == V_MAPPING || v->kind == V_LAYOUT) {
        *out = value_int(v->kind == V_MAPPING ? v->u.map->rank : v->u.layout->rank);
        return true;
    }
    Value p;
    if (!args_pack(e, a, 0, &p)) return false;
    *out = value_int(p.u.tuple.n);
    return true;
}

static bool fold_pack(Eval *e, const Args *a, NodeKind op, int64_t empty, Value *out)
{
    Value p;
    *out = value_int(empty);
    if (!args_pack(e, a, 0, &p)) return false;
    for (int i = 0; i < p.u.tuple.n; i++)
        if (!eval_binary(e, a->loc, op, *out, p.u.tuple.at[i], out)) return false;
    return true;
}

bool f_size(Eval *e, const Args *a, Value *out)
{
    return fold_pack(e, a, N_MUL, 1, out);
}

bool f_total(Eval *e, const Args *a, Value *out)
{
    return fold_pack(e, a, N_ADD, 0, out);
}

static bool at_hand(const Value *v, int64_t *out)
{
    if (v->kind == V_INT) *out = v->u.i;
    return v->kind == V_INT ||
           (v->kind == V_EXPR && size_is(v->u.expr) && size_hint(v->u.expr, out));
}

// Sizes that are equal, or of which one is 1, for the values at hand are taken to be so always.
static bool broadcast_as_at_hand(Eval *e, Loc loc, Value a, Value b, const char *text, Value *out,
                                 bool *guessed)
{
    int64_t x, y;
    Value ok;
    *guessed = e->in->guess && at_hand(&a, &x) && at_hand(&b, &y) && (x == y || x == 1 || y == 1);
    if (!*guessed) return true;
    Value other = x == y ? b : value_int(1);
    if (!eval_binary(e, loc, N_EQ, x == y || x == 1 ? a : b, other, &ok)) return false;
    bool simple = a.kind == V_INT || (b.kind == V_EXPR && a.u.expr->nkid < b.u.expr->nkid);
    *out = x == y ? (simple ? a : b) : x == 1 ? b : a;
    return eval_demand(e, loc, ok, text);
}

// Extents of which at least one is known only when the kernel runs: equal then, or one of them is
// 1.
static bool broadcast_later(Eval *e, Loc loc, Value a, Value b, Value *out)
{
    Value same, a1, b1, ok;
    bool guessed;
    Buf text;
    buf_init(&text, e->arena);
    buf_puts(&text, "extents ");
    value_print(&a, &text);
    buf_puts(&text, " and ");
    value_print(&b, &text);
    buf_puts(&text, " do not broadcast");
    if (!broadcast_as_at_hand(e, loc, a, b, buf_text(&text), out, &guessed)) return false;
    if (guessed) return true;
    if (!eval_binary(e, loc, N_EQ, a, b, &same) ||
        !eval_binary(e, loc, N_EQ, a, value_int(1), &a1) ||
        !eval_binary(e, loc, N_EQ, b, value_int(1), &b1) ||
        !eval_binary(e, loc, N_LOR, same, a1, &ok) || !eval_binary(e, loc, N_LOR, ok, b1, &ok))
        return false;
    if (!eval_demand(e, loc, ok, buf_text(&text))) return false;
    *out = a.kind == V_INT ? a : b; // a known extent other than 1 is the result
    return a.kind == V_INT || b.kind == V_INT || eval_select(e, loc, a1, b, a, out);
}

// Right-aligned; 1 gives way.
static bool broadcast_two(Eval *e, Loc loc, Value p, Value q, Value *out)
{
    int n = p.u.tuple.n > q.u.tuple.n ? p.u.tuple.n : q.u.tuple.n;
    *out = value_tuple(e->arena, n, NULL);
    for (int i = 0; i < n; i++) {
        int ip = i - (n - p.u.tuple.n), iq = i - (n - q.u.tuple.n);
        Value a = ip < 0 ? value_int(1) : p.u.tuple.at[ip],
              b = iq < 0 ? value_int(1) : q.u.tuple.at[iq];
        bool a1 = a.kind == V_INT && a.u.i == 1, b1 = b.kind == V_INT && b.u.i == 1;
        if (a.kind == V_INT && b.kind == V_INT && a.u.i != b.u.i && !a1 && !b1)
            return eval_fail(e, loc, "extents %lld and %lld do not broadcast", (long long)a.u.i,
                             (long long)b.u.i);
        if (a1 || b1 || value_equal(&a, &b)) out->u.tuple.at[i] = a1 ? b : a;
        else if (!broadcast_later(e, loc, a, b, &out->u.tuple.at[i])) return false;
    }
    return true;
}

bool f_broadcast(Eval *e, const Args *a, Value *out)
{
    VEC(Value) packs = {0};
    for (int i = 0; i < a->n; i++) {
        const Value *v = &a->at[i]; // a variadic parameter stands for its tensors
        if (v->kind == V_TUPLE && v->u.tuple.n && v->u.tuple.at[0].kind == V_TENSOR) {
            for (int k = 0; k < v->u.tuple.n; k++) VEC_PUSH(e->arena, &packs, v->u.tuple.at[k]);
        } else VEC_PUSH(e->arena, &packs, *v);
    }
    Args b = *a;
    b.n = packs.n;
    b.at = packs.at;
    *out = value_tuple(e->arena, 0, NULL);
    for (int i = 0; i < b.n; i++) {
        Value p;
        if (!args_pack(e, &b, i, &p) || !broadcast_two(e, a->loc, *out, p, out)) return false;
    }
    return true;
}

bool f_reversed(Eval *e, const Args *a, Value *out)
{
    Value p = a->at[0];
    if (p.kind == V_INT) {
        if (p.u.i < 0 || p.u.i > EVAL_MAX_RANK)
            return eval_fail(e, a->loc, "reversed(%lld): out of range", (long long)p.u.i);
        *out = value_tuple(e->arena, (int)p.u.i, NULL);
        for (int i = 0; i < (int)p.u.i; i++) out->u.tuple.at[i] = value_int(p.u.i - 1 - i);
        return true;
    }
    if (!args_pack(e, a, 0, &p)) return false;
    *out = value_tuple(e->arena, p.u.tuple.n, NULL);
    for (int i = 0; i < p.u.tuple.n; i++) out->u.tuple.at[i] = p.u.tuple.at[p.u.tuple.n - 1 - i];
    return true;
}

bool f_iota(Eval *e, const Args *a, Value *out)
{
    int64_t n;
    if (!eval_int(e, a->loc, a->at[0], "n", &n) || n < 0 || n > 65536)
        return n < 0 || n > 65536 ? eval_fail(e, a->loc, "iota: out of range") : false;
    *out = value_tuple(e->arena, (int)n, NULL);
    for (int i = 0; i < (int)n; i++) out->u.tuple.at[i] = value_int(i);
    return true;
}

bool f_fill(Eval *e, const Args *a, Value *out)
{
    int64_t n;
    if (!eval_int(e, a->loc, a->at[0], "n", &n) || n < 0 || n > 65536)
        return n < 0 || n > 65536 ? eval_fail(e, a->loc, "fill: out of range") : false;
    *out = value_tuple(e->arena, (int)n, NULL);
    for (int i = 0; i < (int)n; i++) out->u.tuple.at[i] = a->at[1];
    return true;
}

bool f_inverse(Eval *e, const Args *a, Value *out)
{
    Value p;
    if (!args_pack(e, a, 0, &p)) return false;
    *out = value_tuple(e->arena, p.u.tuple.n, NULL);
    for (int i = 0; i < p.u.tuple.n; i++) {
        int64_t k;
        if (!eval_int(e, a->loc, p.u.tuple.at[i], "an axis of a permutation", &k)) return false;
        k = k < 0 ? k + p.u.tuple.n : k;
        if (k < 0 || k >= p.u.tuple.n || out->u.tuple.at[k].kind != V_NONE)
            return eval_fail(e, a->loc, "this is no permutation of %d axes", p.u.tuple.n);
        out->u.tuple.at[k] = value_int(i);
    }
    return true;
}

bool f_are_axes(Eval *e, const Args *a, Value *out)
{
    int64_t rank, k;
    bool set[EVAL_MAX_RANK] = {false};
    Value list = a->at[0].kind == V_TUPLE ? a->at[0] : value_tuple(e->arena, 1, &a->at[0]);
    if (!eval_int(e, a->loc, a->at[1], "a rank", &rank)) return false;
    *out = value_bool(rank >= 0 && rank <= EVAL_MAX_RANK);
    for (int i = 0; out->u.i && i < list.u.tuple.n; i++) {
        if (!eval_int(e, a->loc, list.u.tuple.at[i], "an axis", &k)) return false;
        bool inside = k >= -rank && k < rank;
        bool *seen = inside ? &set[k < 0 ? k + rank : k] : NULL;
        if (!seen || *seen) *out = value_bool(false);
        else *seen = true;
    }
    return true;
}

bool f_axes(Eval *e, const Args *a, Value *out)
{
    int64_t rank;
    bool set[EVAL_MAX_RANK] = {false};
    if (!eval_int(e, a->loc, a->at[1], "a rank", &rank) || rank < 0 || rank > EVAL_MAX_RANK ||
        !eval_axes(e, a->loc, a->at[0], (int)rank, set))
        return false;
    *out = value_tuple(e->arena, (int)rank, NULL);
    out->u.tuple.n = 0;
    for (int i = 0; i < rank; i++)
        if (set[i]) out->u.tuple.at[out->u.tuple.n++] = value_int(i);
    return true;
}

bool f_reduced(Eval *e, const Args *a, Value *out)
{
    Value s;
    int64_t keep;
    bool set[EVAL_MAX_RANK] = {false};
    if (!args_pack(e, a, 0, &s) || !eval_axes(e, a->loc, a->at[1], s.u.tuple.n, set) ||
        !eval_int(e, a->loc, a->at[2], "keepdims", &keep))
        return false;
    *out = value_tuple(e->arena, s.u.tuple.n, NULL);
    int n = 0;
    for (int i = 0; i < s.u.tuple.n; i++)
        if (!set[i] || keep) out->u.tuple.at[n++] = set[i] ? value_int(1) : s.u.tuple.at[i];
    out->u.tuple.n = n;
    return true;
}

bool f_contains(Eval *e, const Args *a, Value *out)
{
    Value p;
    if (!args_pack(e, a, 0, &p)) return false;
    *out = value_bool(false);
    for (int i = 0; i < p.u.tuple.n; i++)
        if (value_equal(&p.u.tuple.at[i], &a->at[1])) *out = value_bool(true);
    return true;
}

bool f_codes(Eval *e, const Args *a, Value *out)
{
    if (a->at[0].kind != V_STR) {
        return eval_fail(e, a->loc, "'codes' needs a text, found %s",
                         value_kind_name(a->at[0].kind));
    }
    const char *text = a->at[0].u.str;
    size_t n = strlen(text);
    *out = value_tuple(e->arena, (int)n, NULL);
    for (size_t i = 0; i < n; i++) out->u.tuple.at[i] = value_int((unsigned char)text[i]);
    return true;
}

bool f_ravel(Eval *e, const Args *a, Value *out)
{
    Value i, d;
    if (!args_pack(e, a, 0, &i) || !args_pack(e, a, 1, &d)) return false;
    if (i.u.tuple.n != d.u.tuple.n)
        return eval_fail(e, a->loc, "ravel of %d indices in %d extents", i.u.tuple.n, d.u.tuple.n);
    return values_ravel(e, a->loc, i.u.tuple.n, i.u.tuple.at, d.u.tuple.at, out);
}

bool f_unravel(Eval *e, const Args *a, Value *out)
{
    Value d;
    return args_pack(e, a, 1, &d) &&
           values_unravel(e, a->loc, a->at[0], d.u.tuple.n, d.u.tuple.at, out);
}

bool f_acc(Eval *e, const Args *a, Value *out)
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
    if (!eval_node(e, a->loc, a->at[0], &x)) return false;
    *out = value_expr(node_cast(e->arena, dtypes[x->type].acc, x));
    return true;
}

bool f_cast(Eval *e, const Args *a, Value *out)
{
    Value t, v = a->at[0];
    Node *x;
    if (!eval_expr(e, KID(a->call, CALL, callee), &t)) return false;
    DType type = t.u.dtype.type;
    if (v.kind == V_FLOAT && dtype_is_int(type)) {
        int64_t bits;
        dtype_store_f64(type, &bits, v.u.f);
        *out = value_int(dtype_load_i64(type, &bits));
        return true;
    }
    if (value_is_known(&v) || v.kind == V_BOOL) {
        if (v.kind == V_FLOAT && type == DT_BOOL) v = value_bool(v.u.f != 0);
        if (v.kind == V_INT && type == DT_BOOL) v = value_bool(v.u.i != 0);
        if (!eval_node_as(e, a->loc, v, type, &x)) return false;
    } else {
        if (!eval_node(e, a->loc, v, &x)) return false;
        x = node_fold(e->arena, node_cast(e->arena, type, x));
    }
    *out = type == DT_BOOL ? value_expr(x) : (Value){.kind = V_EXPR, .loc = a->loc, .u.expr = x};
    return true;
}

bool f_bitcast(Eval *e, const Args *a, Value *out)
{
    DType t;
    Node *x;
    if (!args_dtype(e, a, 0, &t) || !eval_node(e, a->loc, a->at[1], &x)) return false;
    if (dtypes[t].bits < 8)
        return eval_fail(e, a->loc, "bitcast to %s: it has fewer than 8 bits", dtypes[t].name);
    if (dtypes[t].bits != dtypes[x->type].bits)
        return eval_fail(e, a->loc, "bitcast of %s to %s: the sizes differ", dtypes[x->type].name,
                         dtypes[t].name);
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
    if (!args_dtype(e, a, 0, &t)) return false;
    int bits = dtypes[t].bits;
    if (dtype_is_float(t)) *out = value_float(high ? INFINITY : -INFINITY);
    else if (dtypes[t].class == DC_UINT)
        *out = value_int(!high ? 0 : bits == 64 ? -1 : (int64_t)(UINT64_MAX >> (64 - bits)));
    else
        *out = value_int(t == DT_BOOL ? high
                         : high       ? INT64_MAX >> (64 - bits)
                                      : INT64_MIN >> (64 - bits));
    Node *x = t == DT_U64 ? node_int(e->arena, a->loc, t, out->u.i) : NULL;
    if (x || eval_node_as(e, a->loc, *out, t, &x))
        *out = (Value){.kind = V_EXPR, .loc = a->loc, .u.expr = x};
    return x != NULL;
}

bool f_lowest(Eval *e, const Args *a, Value *out)
{
    return extreme(e, a, false, out);
}
bool f_highest(Eval *e, const Args *a, Value *out)
{
    return extreme(e, a, true, out);
}

bool f_bytes(Eval *e, const Args *a, Value *out)
{
    DType t;
    if (!args_dtype(e, a, 0, &t)) return false;
    *out = value_int((int64_t)dtype_size(t));
    return true;
}

bool f_device_lanes(Eval *e, const Args *a, Value *out)
{
    DType t;
    if (!args_dtype(e, a, 0, &t)) return false;
    *out = value_int(max_i64(1, e->kernel->target.vector_bytes / (int64_t)dtype_size(t)));
    return true;
}

bool f_vector(Eval *e, const Args *a, Value *out)
{
    DType t;
    int64_t n;
    if (!args_dtype(e, a, 0, &t) || !eval_int(e, a->loc, a->at[1], "the lanes of a vector", &n))
        return false;
    if (n < 1 || n > 64 || (n & (n - 1)))
        return eval_fail(e, a->loc, "a vector has 1, 2, 4 ... 64 lanes");
    *out = value_dtype(t);
    out->u.dtype.lanes = (int)n;
    return true;
}

bool f_mbarrier(Eval *e, const Args *a, Value *out)
{
    *out = value_dtype(DT_NONE);
    out->u.dtype.mbarrier = true;
    return eval_int(e, a->loc, a->at[0], "the number of arrivals", &out->u.dtype.arrivals);
}

static bool many(Eval *e, const Args *a, NodeKind op, Value *out)
{
    *out = a->at[0];
    for (int i = 1; i < a->n; i++)
        if (!eval_binary(e, a->loc, op, *out, a->at[i], out)) return false;
    return true;
}

bool f_min(Eval *e, const Args *a, Value *out)
{
    return many(e, a, N_MIN, out);
}
bool f_max(Eval *e, const Args *a, Value *out)
{
    return many(e, a, N_MAX, out);
}

bool f_select(Eval *e, const Args *a, Value *out)
{
    return eval_select(e, a->loc, a->at[0], a->at[1], a->at[2], out);
}

bool f_isnan(Eval *e, const Args *a, Value *out)
{
    return eval_binary(e, a->loc, N_NE, a->at[0], a->at[0], out);
}

bool f_ceil(Eval *e, const Args *a, Value *out)
{
    if (a->n == 1) return call_intrinsic(e, a, out);
    Value t;
    return eval_binary(e, a->loc, N_SUB, a->at[1], value_int(1), &t) &&
           eval_binary(e, a->loc, N_ADD, a->at[0], t, &t) &&
           eval_binary(e, a->loc, N_DIV, t, a->at[1], out);
}

bool f_broadcast_index(Eval *e, const Args *a, Value *out)
{
    Value i, s;
    if (!args_pack(e, a, 0, &i) || !args_pack(e, a, 1, &s)) return false;
    int skip = i.u.tuple.n - s.u.tuple.n;
    if (skip < 0)
        return eval_fail(e, a->loc, "an index of %d does not broadcast to %d extents", i.u.tuple.n,
                         s.u.tuple.n);
    return pack_broadcast(e, a->loc, i.u.tuple.at + skip, s.u.tuple.at, s.u.tuple.n, out);
}

bool f_isfloat(Eval *e, const Args *a, Value *out)
{
    DType t;
    if (!args_dtype(e, a, 0, &t)) return false;
    *out = value_bool(dtype_is_float(t));
    return true;
}

bool f_within(Eval *e, const Args *a, Value *out)
{
    Value i, d;
    if (!args_pack(e, a, 0, &i) || !args_pack(e, a, 1, &d)) return false;
    if (i.u.tuple.n != d.u.tuple.n)
        return eval_fail(e, a->loc, "within of %d indices in %d extents", i.u.tuple.n, d.u.tuple.n);
    return pack_within(e, a->loc, i.u.tuple.n, i.u.tuple.at, d.u.tuple.at, out);
}

bool f_assert(Eval *e, const Args *a, Value *out)
{
    Value message = a->n > 1 ? a->at[1] : value_str(eval_sym(e, "assertion failed"));
    Node *c, *check = node_new(e->arena, N_CHECK, a->loc, 1);
    *out = value_none();
    if (message.kind != V_STR) return eval_fail(e, a->loc, "the message of assert is a string");
    if (a->at[0].kind == V_BOOL && a->at[0].u.i) return true;
    if (!e->out) return eval_fail(e, a->loc, "'assert' stands inside a kernel's stage");
    if (!eval_node(e, a->loc, a->at[0], &c)) return false;
    if (c->type != DT_BOOL || c->lanes != 1)
        return eval_fail(e, a->loc, "assert needs a bool, this is %s", dtypes[c->type].name);
    check->kid[0] = c;
    check->u.sym = message.u.str;
    eval_emit(e, check);
    return true;
}

bool f_given(Eval *e, const Args *a, Value *out)
{
    UNUSED(e);
    *out = value_bool(a->at[0].kind != V_NONE);
    return true;
}

bool f_known(Eval *e, const Args *a, Value *out)
{
    UNUSED(e);
    *out = value_bool(a->at[0].kind != V_EXPR);
    return true;
}
