// SPDX-License-Identifier: Apache-2.0
// Folding one node whose children are folded: constants through scalar.h, then identities that hold
// for every value, NaN and -0 included. A vector constant is a BROADCAST of a constant.
#include "ir/node.h"

#include "ir/kernel.h"
#include "ir/scalar.h"

#include <string.h>

static Node *fold_as(Arena *a, NodeKind kind, const Node *like, int nkid, Node *const *kid)
{
    Node *n = node_make(a, kind, like->loc, nkid, kid);
    n->type = like->type;
    return node_fold(a, n);
}

static Node *broadcast(Arena *a, Node *x, uint16_t lanes)
{
    if (lanes <= 1) return x;
    Node *n = node_unary(a, N_BROADCAST, x);
    n->lanes = lanes;
    return n;
}

// A constant of n's type and lanes, at n's place.
static Node *constant_like(Arena *a, const Node *n, int64_t v)
{
    return broadcast(a, node_int(a, n->loc, (DType)n->type, v), n->lanes);
}

static const Node *one_lane(const Node *n)
{
    return n->kind == N_BROADCAST ? KID((Node *)n, BROADCAST, a) : n;
}

// Whether n is the integer or bool constant v in all lanes.
static bool is_int(const Node *n, int64_t v)
{
    Scalar s;
    return scalar_of(one_lane(n), &s) && !dtype_is_float(s.type) && s.v.i == v;
}

static bool is_all_ones(const Node *n)
{
    return is_int(n, n->type == DT_BOOL ? 1 : scalar_int((DType)n->type, -1).v.i);
}

static bool same(const Node *x, const Node *y)
{
    return node_equal(x, y) && node_pure(x);
}

// ---- constants

// Kinds that work on each lane alone.
static bool by_lane(const Node *n)
{
    if (n->kind == N_INTRIN) {
        return strchr(n->u.intr->flags, 'P') && intrinsic_id(n->u.intr) != INTR_LANE_SUM;
    }
    return (n->kind >= N_ADD && n->kind <= N_SELECT) || n->kind == N_CAST;
}

// All operands constant: the result, or NULL.
static Node *fold_constants(Arena *a, const Node *n)
{
    Scalar x[SCALAR_MAX_OPERANDS], out;
    if (n->lanes != 1 || n->nkid < 1 || n->nkid > SCALAR_MAX_OPERANDS) return NULL;
    if (!by_lane(n) && n->kind != N_BITCAST) return NULL;
    for (uint32_t i = 0; i < n->nkid; i++) {
        if (!scalar_of(n->kid[i], &x[i])) return NULL;
    }
    bool known = n->kind == N_INTRIN ? scalar_intrinsic(intrinsic_id(n->u.intr), x, &out)
                                     : scalar_apply((NodeKind)n->kind, (DType)n->type, x, &out);
    return known && out.type == (DType)n->type ? scalar_node(a, n->loc, &out) : NULL;
}

// The same value in all lanes of every operand: computed once, then spread.
static Node *fold_broadcasts(Arena *a, const Node *n)
{
    if (n->lanes <= 1 || !n->nkid || !by_lane(n)) return NULL;
    for (uint32_t i = 0; i < n->nkid; i++) {
        if (n->kid[i]->kind != N_BROADCAST) return NULL;
    }
    Node *one = arena_copy(a, n, sizeof(Node) + n->nkid * sizeof(Node *));
    for (uint32_t i = 0; i < n->nkid; i++) one->kid[i] = n->kid[i]->kid[0];
    one->lanes = 1;
    return broadcast(a, node_fold(a, one), n->lanes);
}

// ---- identities; each returns NULL where none applies

static Node *fold_additive(Arena *a, const Node *n, Node *x, Node *y)
{
    if (is_int(y, 0)) return x;
    if (n->kind == N_ADD) return is_int(x, 0) ? y : NULL;
    return same(x, y) ? constant_like(a, n, 0) : NULL;
}

static Node *fold_multiplicative(Arena *a, const Node *n, Node *x, Node *y)
{
    bool zero_x = is_int(x, 0), one_y = is_int(y, 1);
    if (n->kind == N_MUL) {
        if (one_y) return x;
        if (is_int(x, 1)) return y;
        if (is_int(y, 0) && node_pure(x)) return constant_like(a, n, 0);
    } else if (n->kind == N_DIV && one_y) {
        return x;
    } else if (n->kind == N_MOD && one_y && node_pure(x)) {
        return constant_like(a, n, 0);
    }
    if (zero_x && node_pure(y)) return constant_like(a, n, 0);
    int64_t lo, hi;
    bool one_value = n->kind == N_DIV && y->kind == N_INT && y->u.i > 0 && x->lanes == 1 &&
                     node_bounds(n, &lo, &hi) && lo == hi;
    return one_value && node_pure(x) ? constant_like(a, n, lo) : NULL;
}

static Node *fold_bits(Arena *a, const Node *n, Node *x, Node *y)
{
    if (n->kind == N_BXOR) {
        if (is_int(y, 0)) return x;
        if (is_int(x, 0)) return y;
        return same(x, y) ? constant_like(a, n, 0) : NULL;
    }
    if (same(x, y)) return x;
    bool is_and = n->kind == N_BAND;
    if (is_and ? is_all_ones(y) : is_int(y, 0)) return x;
    if (is_and ? is_all_ones(x) : is_int(x, 0)) return y;
    if ((is_and ? is_int(y, 0) : is_all_ones(y)) && node_pure(x)) return y;
    if ((is_and ? is_int(x, 0) : is_all_ones(x)) && node_pure(y)) return x;
    return NULL;
}

static Node *fold_shift(const Node *n, Node *x, Node *y)
{
    Scalar count;
    if (!scalar_of(one_lane(y), &count)) return NULL;
    return count.v.i & (dtypes[n->type].bits - 1) ? NULL : x;
}

static Node *fold_logic(const Node *n, Node *x, Node *y)
{
    int neutral = n->kind == N_LAND;
    if (is_int(x, neutral)) return y;
    if (is_int(x, !neutral)) return x; // y is not evaluated
    if (is_int(y, neutral)) return x;
    if (is_int(y, !neutral) && node_pure(x)) return y;
    return same(x, y) ? x : NULL;
}

// x + i s and the like, where x is a ramp and the other operand a ramp or the same in all lanes.
static Node *fold_ramps(Arena *a, const Node *n)
{
    if ((n->kind != N_ADD && n->kind != N_SUB && n->kind != N_MUL) || n->lanes <= 1) return NULL;
    Node *x = n->kid[0], *y = n->kid[1];
    bool ramp_x = x->kind == N_RAMP, ramp_y = y->kind == N_RAMP;
    if (!(ramp_x || ramp_y) || !(ramp_x || x->kind == N_BROADCAST) ||
        !(ramp_y || y->kind == N_BROADCAST)) {
        return NULL;
    }
    uint64_t step_x = ramp_x ? (uint64_t)x->u.i : 0, step_y = ramp_y ? (uint64_t)y->u.i : 0;
    uint64_t step = n->kind == N_ADD ? step_x + step_y : step_x - step_y;
    if (n->kind == N_MUL) {
        const Node *factor = one_lane(ramp_x ? y : x);
        if (factor->kind != N_INT) return NULL;
        step = (step_x + step_y) * (uint64_t)factor->u.i;
    }
    Node *ramp = node_new(a, N_RAMP, n->loc, 1);
    KID(ramp, RAMP, base) = fold_as(a, (NodeKind)n->kind, n, 2, (Node *[]){x->kid[0], y->kid[0]});
    ramp->type = n->type;
    ramp->lanes = n->lanes;
    ramp->u.i = (int64_t)step;
    return node_fold(a, ramp);
}

static Node *fold_not(Arena *a, const Node *n, Node *x)
{
    switch (x->kind) {
    case N_NOT: return KID(x, NOT, a);
    case N_EQ: return fold_as(a, N_NE, n, 2, x->kid);
    case N_NE: return fold_as(a, N_EQ, n, 2, x->kid);
    case N_LT:
    case N_LE: // with NaN both may be false
        if (dtype_is_float((DType)x->kid[0]->type)) return NULL;
        return fold_as(a, x->kind == N_LT ? N_LE : N_LT, n, 2, (Node *[]){x->kid[1], x->kid[0]});
    default: return NULL;
    }
}

static Node *fold_select(Arena *a, Node *n)
{
    Node *cond = KID(n, SELECT, cond), *x = KID(n, SELECT, a), *y = KID(n, SELECT, b);
    if (is_int(cond, 1)) return x;
    if (is_int(cond, 0)) return y;
    if (node_equal(x, y) && node_pure(cond)) return x;
    if (n->type != DT_BOOL || cond->type != DT_BOOL || cond->lanes != n->lanes) return NULL;
    if (is_int(x, 1) && is_int(y, 0)) return cond;
    return is_int(x, 0) && is_int(y, 1) ? fold_as(a, N_NOT, n, 1, &cond) : NULL;
}

static Node *fold_extract(Arena *a, Node *n)
{
    Node *x = KID(n, EXTRACT, a), *lane = KID(n, EXTRACT, lane);
    if (x->lanes == 1 && node_pure(lane)) return x;
    if (x->kind == N_BROADCAST && node_pure(lane)) return KID(x, BROADCAST, a);
    if (x->kind != N_RAMP || lane->kind != N_INT) return NULL;
    int64_t step = (int64_t)((uint64_t)x->u.i * (uint64_t)lane->u.i);
    Node *offset = node_int(a, n->loc, (DType)n->type, step);
    return fold_as(a, N_ADD, n, 2, (Node *[]){KID(x, RAMP, base), offset});
}

static Node *fold_identity(Arena *a, Node *n)
{
    Node *x = n->nkid > 0 ? n->kid[0] : NULL, *y = n->nkid > 1 ? n->kid[1] : NULL;
    bool exact = x && (dtype_is_int((DType)x->type) || x->type == DT_BOOL); // no NaN, no -0
    switch (n->kind) {
    case N_ADD:
    case N_SUB: return exact ? fold_additive(a, n, x, y) : NULL;
    case N_MUL:
    case N_DIV:
    case N_MOD: return exact ? fold_multiplicative(a, n, x, y) : NULL;
    case N_BAND:
    case N_BOR:
    case N_BXOR: return exact ? fold_bits(a, n, x, y) : NULL;
    case N_SHL:
    case N_SHR: return exact ? fold_shift(n, x, y) : NULL;
    case N_MIN:
    case N_MAX: return exact && same(x, y) ? x : NULL;
    case N_LAND:
    case N_LOR: return fold_logic(n, x, y);
    case N_EQ:
    case N_LE: return exact && same(x, y) ? constant_like(a, n, 1) : NULL;
    case N_NE:
    case N_LT: return exact && same(x, y) ? constant_like(a, n, 0) : NULL;
    case N_NOT: return fold_not(a, n, x);
    case N_NEG: return x->kind == N_NEG ? KID(x, NEG, a) : NULL;
    case N_BNOT: return x->kind == N_BNOT ? KID(x, BNOT, a) : NULL;
    case N_SELECT: return fold_select(a, n);
    case N_CAST:
    case N_BITCAST: return n->type == x->type && n->lanes == x->lanes ? x : NULL;
    case N_BROADCAST: return n->lanes == 1 ? x : NULL;
    case N_RAMP:
        if (n->lanes == 1) return x;
        return n->u.i == 0 ? broadcast(a, x, n->lanes) : NULL;
    case N_EXTRACT: return fold_extract(a, n);
    default: return NULL;
    }
}

// ---- statements

static Node *fold_statement(Arena *a, Node *n)
{
    Node *empty = NULL;
    switch (n->kind) {
    case N_IF:
        if (is_int(KID(n, IF, cond), 1)) return KID(n, IF, then);
        if (!is_int(KID(n, IF, cond), 0)) return n;
        empty = KID(n, IF, other);
        break;
    case N_WHILE:
        if (!is_int(KID(n, WHILE, cond), 0)) return n;
        break;
    case N_CHECK:
        if (!is_int(KID(n, CHECK, cond), 1)) return n;
        break;
    case N_LOOP: {
        const Node *lo = KID(n, LOOP, lo), *hi = KID(n, LOOP, hi);
        if (lo->kind != N_INT || hi->kind != N_INT || lo->u.i < hi->u.i) return n;
        break;
    }
    default: return n;
    }
    return empty ? empty : node_new(a, N_SEQ, n->loc, 0);
}

Node *node_fold(Arena *a, Node *n)
{
    if (node_info[n->kind].class == CLASS_S) return fold_statement(a, n);
    if (n->type == DT_NONE) return n; // text
    Node *folded = fold_constants(a, n);
    if (!folded) folded = fold_broadcasts(a, n);
    if (!folded) folded = fold_identity(a, n);
    if (!folded) folded = fold_ramps(a, n);
    return folded ? folded : n;
}
