// SPDX-License-Identifier: Apache-2.0
// What stands inside [ ]: packs, the broadcast mark ~i..., an axis left out (..axis) or replaced (i
// @ axis: l), and tuples used as tables. Whether indices lie within extents, and positions there.
#include "lang/eval.h"

bool eval_axes(Eval *e, Loc loc, Value axes, int rank, bool *set)
{
    Value one = axes.kind == V_TUPLE  ? axes
                : axes.kind == V_NONE ? value_tuple(e->arena, 0, NULL)
                                      : value_tuple(e->arena, 1, &axes);
    for (int i = 0; i < one.u.tuple.n; i++) {
        int64_t a;
        if (!eval_int(e, loc, one.u.tuple.at[i], "an axis", &a)) return false;
        if (a < -rank || a >= rank)
            return eval_fail(e, loc, "axis %lld is outside a rank of %d", (long long)a, rank);
        bool *at = &set[a < 0 ? a + rank : a];
        if (*at) return eval_fail(e, loc, "axis %lld is named twice", (long long)a);
        *at = true;
    }
    return true;
}

static bool pack_of(Eval *e, Node *n, Value *out)
{
    if (!eval_expr(e, n, out)) return false;
    if (out->kind == V_TENSOR)
        *out = value_tuple(e->arena, out->u.tensor->rank, out->u.tensor->dims);
    return out->kind == V_TUPLE ||
           eval_fail(e, n->loc, "a pack is needed here, found %s", value_kind_name(out->kind));
}

// base[..axis] and base[..axis with t...]: base without the axes; t's elements in the place of the
// first.
bool eval_except(Eval *e, Node *n, Value base, Value *out)
{
    Value axes, with = value_tuple(e->arena, 0, NULL);
    bool gone[EVAL_MAX_RANK] = {false};
    VEC(Value) list = {0};
    if (base.u.tuple.n > EVAL_MAX_RANK)
        return eval_fail(e, n->loc, "packs have at most %d elements", EVAL_MAX_RANK);
    if (!eval_scalar(e, KID(n, EXCEPT, axis), &axes) ||
        !eval_axes(e, n->loc, axes, base.u.tuple.n, gone))
        return false;
    Node *w = KID(n, EXCEPT, with);
    if (w && !eval_list(e, &w, 1, &with)) return false;
    bool placed = false;
    for (int i = 0; i < base.u.tuple.n; i++) {
        if (!gone[i]) {
            VEC_PUSH(e->arena, &list, base.u.tuple.at[i]);
            continue;
        }
        for (int k = 0; !placed && k < with.u.tuple.n; k++)
            VEC_PUSH(e->arena, &list, with.u.tuple.at[k]);
        placed = true;
    }
    *out = value_tuple(e->arena, list.n, list.at);
    return true;
}

// i @ axis: l. With a tuple of axes, l is a pack of as many. Axes may be missing from i (see
// bind_index_pattern).
static bool at(Eval *e, Node *n, Value *out)
{
    Value pack, axes, v;
    if (!pack_of(e, KID(n, AT, pack), &pack) || !eval_scalar(e, KID(n, AT, axis), &axes) ||
        !eval_scalar(e, KID(n, AT, value), &v))
        return false;
    *out = value_tuple(e->arena, pack.u.tuple.n, pack.u.tuple.at);
    if (axes.kind != V_TUPLE && v.kind == V_TUPLE && v.u.tuple.n == 1) v = v.u.tuple.at[0];
    Value list = axes.kind == V_TUPLE ? axes : value_tuple(e->arena, 1, &axes);
    for (int i = 0; i < list.u.tuple.n; i++) {
        bool set[EVAL_MAX_RANK] = {false};
        if (axes.kind == V_TUPLE && (v.kind != V_TUPLE || v.u.tuple.n != list.u.tuple.n))
            return eval_fail(e, n->loc, "@ with %d axes needs as many indices", list.u.tuple.n);
        if (!eval_axes(e, n->loc, list.u.tuple.at[i], pack.u.tuple.n, set)) return false;
        for (int a = 0; a < pack.u.tuple.n; a++)
            if (set[a]) out->u.tuple.at[a] = axes.kind == V_TUPLE ? v.u.tuple.at[i] : v;
    }
    return true;
}

// Whether v is the index of the element that is evaluated along an axis of extent d, and so below
// d.
static bool is_own_index(const Eval *e, const Value *v, const Value *d)
{
    const Tensor *t = e->at_result;
    for (int i = 0; t && v->kind == V_EXPR && i < t->rank; i++)
        if (value_equal(&e->at_index[i], v) && value_equal(&t->dims[i], d)) return true;
    return false;
}

bool pack_broadcast(Eval *e, Loc loc, const Value *index, const Value *dims, int n, Value *out)
{
    *out = value_tuple(e->arena, n, NULL);
    for (int i = 0; i < n; i++) {
        Value d = dims[i], v = index[i], one;
        if (d.kind == V_INT) v = d.u.i == 1 ? value_int(0) : v;
        else if (is_own_index(e, &v, &d)) {
        } else if (!eval_binary(e, loc, N_EQ, d, value_int(1), &one) ||
                   !eval_select(e, loc, one, value_int(0), v, &v))
            return false;
        out->u.tuple.at[i] = v;
    }
    return true;
}

// ~i...: right-aligned to the tensor's axes that no other index takes; axes of extent 1 are read at
// 0.
static bool broadcast(Eval *e, Loc loc, Value pack, Value base, int before, int after, Value *out)
{
    if (base.kind != V_TENSOR)
        return eval_fail(e, loc, "~ marks a read of a parameter with broadcasting");
    Tensor *t = base.u.tensor;
    int rank = t->rank - before - after, skip = pack.u.tuple.n - rank;
    if (skip < 0 || rank < 0)
        return eval_fail(e, loc, "~ reads %d axes with an index of %d", rank, pack.u.tuple.n);
    return pack_broadcast(e, loc, pack.u.tuple.at + skip, t->dims + before, rank, out);
}

bool eval_indices(Eval *e, Node *index, Value base, Value *out)
{
    VEC(Value) list = {0};
    Value v;
    for (int i = 0; i < NREST(index); i++) {
        Node *n = REST(index)[i];
        if (n->kind == N_SPREAD && KID(n, SPREAD, pack)->kind == N_BNOT) {
            Value pack;
            if (!pack_of(e, KID(KID(n, SPREAD, pack), BNOT, a), &pack) ||
                !broadcast(e, n->loc, pack, base, list.n, NREST(index) - i - 1, &v))
                return false;
        } else if (n->kind == N_EXCEPT) {
            return eval_fail(
                e, n->loc,
                "..axis selects from a pack by itself; to index a tensor write i[..axis]");
        } else if (n->kind == N_AT) {
            if (!at(e, n, &v)) return false;
        } else if (n->kind == N_SPREAD) {
            if (!eval_list(e, &n, 1, &v)) return false;
        } else {
            if (!eval_scalar(e, n, &v)) return false;
            // An index pack such as i[..axis] spreads by itself in a tensor's index.
            if (v.kind != V_TUPLE || base.kind == V_TUPLE) {
                VEC_PUSH(e->arena, &list, v);
                continue;
            }
        }
        for (int k = 0; k < v.u.tuple.n; k++) VEC_PUSH(e->arena, &list, v.u.tuple.at[k]);
    }
    if (list.n > EVAL_MAX_RANK)
        return eval_fail(e, index->loc, "an index has at most %d parts", EVAL_MAX_RANK);
    *out = value_tuple(e->arena, list.n, list.at);
    return true;
}

// A known position, or a chain of selects where it is only known at run time.
static bool element(Eval *e, Loc loc, Value base, Value i, Value *out)
{
    int n = base.u.tuple.n;
    if (i.kind == V_TUPLE) {
        *out = value_tuple(e->arena, i.u.tuple.n, NULL);
        for (int k = 0; k < i.u.tuple.n; k++)
            if (!element(e, loc, base, i.u.tuple.at[k], &out->u.tuple.at[k])) return false;
        return true;
    }
    if (i.kind == V_RANGE) {
        int64_t lo, hi;
        Value end = *i.u.range.hi;
        if (!eval_int(e, loc, *i.u.range.lo, "the start of a range", &lo) ||
            !eval_int(e, loc, end, "the end of a range", &hi))
            return false;
        hi = i.u.range.span ? lo + hi : hi;
        if (lo < 0 || hi > n || lo > hi)
            return eval_fail(e, loc, "elements %lld .. %lld of a pack of %d", (long long)lo,
                             (long long)hi, n);
        *out = value_tuple(e->arena, (int)(hi - lo), base.u.tuple.at + lo);
        return true;
    }
    if (i.kind == V_INT) {
        if (i.u.i < -n || i.u.i >= n)
            return eval_fail(e, loc, "element %lld of a pack of %d", (long long)i.u.i, n);
        *out = base.u.tuple.at[i.u.i < 0 ? i.u.i + n : i.u.i];
        return true;
    }
    if (n == 0) return eval_fail(e, loc, "the pack is empty");
    *out = base.u.tuple.at[n - 1];
    for (int k = n - 2; k >= 0; k--) {
        Value is;
        if (!eval_binary(e, loc, N_EQ, i, value_int(k), &is) ||
            !eval_select(e, loc, is, base.u.tuple.at[k], *out, out))
            return false;
    }
    return true;
}

bool eval_tuple_index(Eval *e, Loc loc, Value base, Value index, Value *out)
{
    if (index.u.tuple.n != 1)
        return eval_fail(e, loc, "a pack is indexed by one number or pack, not %d",
                         index.u.tuple.n);
    return element(e, loc, base, index.u.tuple.at[0], out);
}

// a < b or a <= b, known where their bounds say it.
static bool known_less(Eval *e, Loc loc, NodeKind op, Value a, Value b, Value *out)
{
    Node *x, *y;
    int64_t xlo, xhi, ylo, yhi;
    if (!eval_index(e, loc, a, &x) || !eval_index(e, loc, b, &y)) return false;
    *out = value_bool(true);
    if (node_bounds(x, &xlo, &xhi) && node_bounds(y, &ylo, &yhi) &&
        (op == N_LE ? xhi <= ylo : xhi < ylo))
        return true;
    return eval_binary(e, loc, op, a, b, out);
}

bool pack_within(Eval *e, Loc loc, int n, const Value *index, const Value *dims, Value *out)
{
    *out = value_bool(true);
    for (int i = 0; i < n; i++) {
        Value lo, hi;
        if (!known_less(e, loc, N_LE, value_int(0), index[i], &lo) ||
            !known_less(e, loc, N_LT, index[i], dims[i], &hi) ||
            !eval_binary(e, loc, N_LAND, *out, lo, out) ||
            !eval_binary(e, loc, N_LAND, *out, hi, out))
            return false;
    }
    return true;
}

bool values_ravel(Eval *e, Loc loc, int n, const Value *index, const Value *dims, Value *out)
{
    *out = n ? index[0] : value_int(0);
    for (int i = 1; i < n; i++)
        if (!eval_binary(e, loc, N_MUL, *out, dims[i], out) ||
            !eval_binary(e, loc, N_ADD, *out, index[i], out))
            return false;
    return true;
}

bool values_unravel(Eval *e, Loc loc, Value linear, int n, const Value *dims, Value *out)
{
    *out = value_tuple(e->arena, n, NULL);
    linear = eval_pin(e, "linear", linear);
    for (int i = n - 1; i >= 0; i--) {
        if (i == 0) {
            out->u.tuple.at[0] = linear;
            break;
        }
        if (!eval_binary(e, loc, N_MOD, linear, dims[i], &out->u.tuple.at[i]) ||
            !eval_binary(e, loc, N_DIV, linear, dims[i], &linear))
            return false;
    }
    return true;
}
