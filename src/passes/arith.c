// SPDX-License-Identifier: Apache-2.0
// Index arithmetic that keeps RAMPs and cancels divisors.
#include "passes/arith.h"

Node *arith_ramp(Arena *a, Node *base, int64_t stride, int lanes)
{
    if (lanes == 1) return base;
    Node *n = node_make(a, stride ? N_RAMP : N_BROADCAST, base->loc, 1, &base);
    if (stride) n->u.i = stride;
    n->lanes = (uint16_t)lanes;
    return n;
}

Node *arith_widen(Arena *a, Node *x, int lanes)
{
    return x->lanes >= lanes ? x : arith_ramp(a, x, 0, lanes);
}

bool arith_affine(Arena *a, Node *x, Node **base, int64_t *stride)
{
    UNUSED(a);
    *stride = x->kind == N_RAMP ? x->u.i : 0;
    *base = x->lanes == 1 ? x : x->kid[0];
    return x->lanes == 1 || x->kind == N_RAMP || x->kind == N_BROADCAST;
}

static int wider(const Node *x, const Node *y)
{
    return x->lanes > y->lanes ? x->lanes : y->lanes;
}

Node *arith_binary(Arena *a, NodeKind kind, Node *x, Node *y)
{
    int lanes = wider(x, y);
    return node_fold(a, node_binary(a, kind, arith_widen(a, x, lanes), arith_widen(a, y, lanes)));
}

static Node *scalar(Arena *a, NodeKind kind, Node *x, Node *y)
{
    return node_fold(a, node_binary(a, kind, x, y));
}

Node *arith_add(Arena *a, Node *x, Node *y)
{
    Node *bx, *by;
    int64_t sx, sy, s;
    if (!arith_affine(a, x, &bx, &sx) || !arith_affine(a, y, &by, &sy) || !add_i64(sx, sy, &s))
        return arith_binary(a, N_ADD, x, y);
    return arith_ramp(a, scalar(a, N_ADD, bx, by), s, wider(x, y));
}

Node *arith_sub(Arena *a, Node *x, Node *y)
{
    Node *bx, *by;
    int64_t sx, sy, s;
    if (!arith_affine(a, x, &bx, &sx) || !arith_affine(a, y, &by, &sy) || !sub_i64(sx, sy, &s))
        return arith_binary(a, N_SUB, x, y);
    return arith_ramp(a, scalar(a, N_SUB, bx, by), s, wider(x, y));
}

Node *arith_mul(Arena *a, Node *x, Node *y)
{
    Node *bx, *by;
    int64_t sx, sy, s;
    if (!arith_affine(a, x, &bx, &sx) || !arith_affine(a, y, &by, &sy))
        return arith_binary(a, N_MUL, x, y);
    if (sx == 0 && sy == 0) return arith_ramp(a, scalar(a, N_MUL, bx, by), 0, wider(x, y));
    Node *factor = sx == 0 ? bx : by;
    if ((sx && sy) || factor->kind != N_INT || !mul_i64(sx + sy, factor->u.i, &s))
        return arith_binary(a, N_MUL, x, y);
    return arith_ramp(a, scalar(a, N_MUL, bx, by), s, wider(x, y));
}

Node *arith_split(Arena *a, Node *n, int64_t *constant)
{
    if (n->kind == N_INT) {
        *constant += n->u.i;
        return NULL;
    }
    if (n->kind != N_ADD) return n;
    Node *x = arith_split(a, n->kid[0], constant), *y = arith_split(a, n->kid[1], constant);
    if (x == n->kid[0] && y == n->kid[1]) return n;
    return x && y ? arith_add(a, x, y) : x ? x : y;
}

// ---- division: a sum splits into terms that d divides and a rest

static Node *sum(Arena *a, Node *x, Node *y)
{
    if (!x || !y) return x ? x : y;
    return scalar(a, N_ADD, x, y);
}

static Node *divide_exactly(Arena *a, Node *x, int64_t d)
{
    if (x->kind == N_INT) return node_int(a, x->loc, (DType)x->type, floor_div_i64(x->u.i, d));
    if (x->kind == N_MUL) {
        for (int i = 1; i >= 0; i--) {
            if (x->kid[i]->kind == N_INT && floor_mod_i64(x->kid[i]->u.i, d) == 0)
                return scalar(a, N_MUL, x->kid[1 - i], divide_exactly(a, x->kid[i], d));
        }
    }
    return scalar(a, N_DIV, x, node_int(a, x->loc, (DType)x->type, d));
}

// x = d * *quotient + *rest; either may be NULL for zero.
static void split(Arena *a, Node *x, int64_t d, Node **quotient, Node **rest)
{
    if (x->kind == N_ADD) {
        Node *q[2], *r[2];
        split(a, x->kid[0], d, &q[0], &r[0]);
        split(a, x->kid[1], d, &q[1], &r[1]);
        *quotient = sum(a, q[0], q[1]);
        *rest = sum(a, r[0], r[1]);
        return;
    }
    *quotient = *rest = NULL;
    if (node_is_const(x, 0)) return;
    if (x->kind == N_INT) {
        int64_t q = floor_div_i64(x->u.i, d), r = floor_mod_i64(x->u.i, d);
        if (q) *quotient = node_int(a, x->loc, (DType)x->type, q);
        if (r) *rest = node_int(a, x->loc, (DType)x->type, r);
    } else if (node_divisor(x) % d == 0) {
        *quotient = divide_exactly(a, x, d);
    } else {
        *rest = x;
    }
}

static bool below(const Node *x, int64_t d)
{
    int64_t lo, hi;
    return !x || (node_bounds(x, &lo, &hi) && lo >= 0 && hi < d);
}

static Node *zero_like(Arena *a, const Node *x)
{
    return node_int(a, x->loc, (DType)x->type, 0);
}

static Node *scalar_div(Arena *a, Node *x, int64_t d)
{
    Node *q, *r;
    if (d == 1) return x;
    split(a, x, d, &q, &r);
    if (below(r, d)) return q ? q : zero_like(a, x);
    return sum(a, q, scalar(a, N_DIV, r, node_int(a, x->loc, (DType)x->type, d)));
}

static Node *scalar_mod(Arena *a, Node *x, int64_t d)
{
    Node *q, *r;
    if (d == 1) return zero_like(a, x);
    split(a, x, d, &q, &r);
    if (below(r, d)) return r ? r : zero_like(a, x);
    return scalar(a, N_MOD, r, node_int(a, x->loc, (DType)x->type, d));
}

// All lanes of base + l * stride have the same quotient by d, or lane l has the first's plus
// l * *step.
static bool lanes_divide(Arena *a, Node *base, int64_t stride, int lanes, int64_t d, int64_t *step)
{
    int64_t span;
    if (!mul_i64(stride, lanes - 1, &span)) return false;
    *step = stride / d;
    if (stride % d == 0) return true;
    *step = 0;
    Node *first = scalar_mod(a, base, d);
    int64_t lo, hi;
    return node_bounds(first, &lo, &hi) && lo >= 0 && hi < d && lo + min_i64(span, 0) >= 0 &&
           hi + max_i64(span, 0) < d;
}

Node *arith_div(Arena *a, Node *x, int64_t d)
{
    Node *base;
    int64_t stride, step;
    if (x->lanes == 1) return scalar_div(a, x, d);
    if (arith_affine(a, x, &base, &stride) && lanes_divide(a, base, stride, x->lanes, d, &step))
        return arith_ramp(a, scalar_div(a, base, d), step, step ? x->lanes : 1);
    return arith_binary(a, N_DIV, x, node_int(a, x->loc, (DType)x->type, d));
}

Node *arith_mod(Arena *a, Node *x, int64_t d)
{
    Node *base;
    int64_t stride, step;
    if (x->lanes == 1) return scalar_mod(a, x, d);
    if (arith_affine(a, x, &base, &stride) && lanes_divide(a, base, stride, x->lanes, d, &step)) {
        int64_t left = stride - step * d;
        return arith_ramp(a, scalar_mod(a, base, d), left, left ? x->lanes : 1);
    }
    return arith_binary(a, N_MOD, x, node_int(a, x->loc, (DType)x->type, d));
}

static Node *fold(void *user, Node *n)
{
    Arena *a = user;
    return node_fold(a, node_map(a, n, fold, a));
}

Node *arith_fold(Arena *a, Node *n)
{
    return fold(a, n);
}
