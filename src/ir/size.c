// SPDX-License-Identifier: Apache-2.0
// What sizes are: which expressions, their order, bounds and values. size_normal.c has the normal
// form.
#include "ir/size.h"

#include "ir/kernel.h"

static bool is_size_kind(const Node *n)
{
    switch (n->kind) {
    case N_INT: return true;
    case N_VARREF: return n->u.var->builtin == VAR_DIM;
    case N_ADD:
    case N_SUB:
    case N_MUL:
    case N_DIV:
    case N_MOD:
    case N_MIN:
    case N_MAX:
    case N_LAND:
    case N_LOR:
    case N_EQ:
    case N_NE:
    case N_LT:
    case N_LE:
    case N_NEG:
    case N_NOT:
    case N_SELECT: return true;
    default: return false;
    }
}

bool size_is(const Node *n)
{
    if (n->lanes > 1 || (n->type != DT_I64 && n->type != DT_BOOL) || !is_size_kind(n)) return false;
    for (uint32_t i = 0; i < n->nkid; i++)
        if (!size_is(n->kid[i])) return false;
    return true;
}

static int order(int64_t x, int64_t y)
{
    return (x > y) - (x < y);
}

int size_compare(const Node *x, const Node *y)
{
    int c = order(x->kind, y->kind);
    if (!c && x->kind == N_VARREF) c = order(x->u.var->id, y->u.var->id);
    if (!c && x->kind == N_INT) c = order(x->u.i, y->u.i);
    if (!c) c = order(x->nkid, y->nkid);
    for (uint32_t i = 0; !c && i < x->nkid; i++) c = size_compare(x->kid[i], y->kid[i]);
    return c;
}

// ---- integers of other types, and reals that are integers

static Node *lift(Arena *a, Node *n);

// floor(n) of a real that is no integer: a quotient, or a product with 1 / k.
static Node *lift_floor(Arena *a, Node *n)
{
    int64_t k;
    Node *x = lift(a, n), *y;
    if (x || n->nkid != 2 || !dtype_is_float((DType)n->type)) return x;
    x = lift(a, n->kid[0]);
    if (!x) return NULL;
    if (n->kind == N_DIV) y = lift(a, n->kid[1]);
    else if (n->kind != N_MUL || n->kid[1]->kind != N_FLOAT || n->kid[1]->u.f <= 0) return NULL;
    else y = whole_f64(1 / n->kid[1]->u.f, &k) ? node_i64(a, k) : NULL;
    return y ? node_fold(a, node_binary(a, N_DIV, x, y)) : NULL;
}

static Node *lift_cast(Arena *a, Node *n)
{
    if (n->type == DT_BOOL && n->kid[0]->type != DT_BOOL) {
        Node *v = lift(a, n->kid[0]);
        return v ? node_fold(a, node_binary(a, N_NE, v, node_i64(a, 0))) : NULL;
    }
    bool floor = dtype_is_float((DType)n->kid[0]->type) && !dtype_is_float((DType)n->type);
    if (!floor) return lift(a, n->kid[0]);
    Node *x = lift_floor(a, n->kid[0]);
    int64_t lo = -1, hi;
    if (x) size_range(x, &lo, &hi);
    return lo >= 0 ? x : lift(a, n->kid[0]); // a cast goes towards zero
}

static Node *lift(Arena *a, Node *n)
{
    int64_t k;
    bool real = dtype_is_float((DType)n->type), boolean = n->type == DT_BOOL;
    if (n->lanes > 1 || n->nkid > 3) return NULL;
    if (n->kind == N_INT) return boolean ? n : node_i64(a, n->u.i);
    if (n->kind == N_FLOAT) return whole_f64(n->u.f, &k) ? node_i64(a, k) : NULL;
    if (n->kind == N_VARREF) return size_is(n) ? n : NULL;
    if (n->kind == N_CAST) return lift_cast(a, n);
    if (n->kind == N_INTRIN && intrinsic_id(n->u.intr) == INTR_FLOOR)
        return lift_floor(a, n->kid[0]);
    if (!(boolean || real || dtype_is_int((DType)n->type)) || !is_size_kind(n)) return NULL;
    if (real && (n->kind == N_DIV || n->kind == N_MOD)) return NULL;
    Node *kid[3];
    for (uint32_t i = 0; i < n->nkid; i++) {
        kid[i] = lift(a, n->kid[i]);
        if (!kid[i]) return NULL;
        if (kid[i]->type == DT_BOOL && n->kid[i]->type != DT_BOOL) // as in T(c)
            kid[i] = node_select(a, kid[i], node_i64(a, 1), node_i64(a, 0));
    }
    return node_fold(a, node_make(a, (NodeKind)n->kind, n->loc, (int)n->nkid, kid));
}

Node *size_lift(Arena *a, Node *n)
{
    return lift(a, n);
}

// ---- bounds

static int64_t clamp(bool fits, int64_t v, bool negative)
{
    return fits ? v : negative ? INT64_MIN : INT64_MAX;
}

static bool is_far(int64_t v)
{
    return v == INT64_MIN || v == INT64_MAX;
}

static int64_t far_add(int64_t x, int64_t y)
{
    int64_t v;
    if (is_far(x)) return x;
    if (is_far(y)) return y;
    bool fits = add_i64(x, y, &v);
    return clamp(fits, v, x < 0);
}

static int64_t far_mul(int64_t x, int64_t y)
{
    int64_t v;
    if (x == 0 || y == 0) return 0;
    bool negative = (x < 0) != (y < 0);
    if (is_far(x) || is_far(y)) return negative ? INT64_MIN : INT64_MAX;
    bool fits = mul_i64(x, y, &v);
    return clamp(fits, v, negative);
}

static int64_t far_div(int64_t x, int64_t y)
{
    if (is_far(x)) return (x < 0) == (y < 0) ? INT64_MAX : INT64_MIN;
    if (is_far(y)) return (x < 0) == (y < 0) ? 0 : x == 0 ? 0 : -1;
    return floor_div_i64(x, y);
}

static void corners(int64_t (*op)(int64_t, int64_t), const int64_t *x, const int64_t *y,
                    int64_t *lo, int64_t *hi)
{
    for (int i = 0; i < 4; i++) {
        int64_t v = op(x[i & 1], y[i >> 1]);
        *lo = i ? min_i64(*lo, v) : v;
        *hi = i ? max_i64(*hi, v) : v;
    }
}

static void compared(const Node *n, const int64_t *x, const int64_t *y, int64_t *lo, int64_t *hi)
{
    bool yes = false, no = false;
    bool one = x[0] == x[1] && y[0] == y[1] && x[0] == y[0] && !is_far(x[0]);
    bool apart = x[1] < y[0] || y[1] < x[0];
    switch (n->kind) {
    case N_EQ: yes = one, no = apart; break;
    case N_NE: yes = apart, no = one; break;
    case N_LT: yes = x[1] < y[0], no = y[1] <= x[0] && !is_far(x[0]); break;
    default: yes = x[1] <= y[0] && !is_far(x[1]), no = y[1] < x[0]; break;
    }
    *lo = yes;
    *hi = !no;
}

static void binary_range(const Node *n, const int64_t *x, const int64_t *y, int64_t *lo,
                         int64_t *hi)
{
    switch (n->kind) {
    case N_ADD: *lo = far_add(x[0], y[0]), *hi = far_add(x[1], y[1]); break;
    case N_SUB:
        *lo = far_add(x[0], y[1] == INT64_MAX ? INT64_MIN : y[1] == INT64_MIN ? INT64_MAX : -y[1]);
        *hi = far_add(x[1], y[0] == INT64_MAX ? INT64_MIN : y[0] == INT64_MIN ? INT64_MAX : -y[0]);
        break;
    case N_MUL: corners(far_mul, x, y, lo, hi); break;
    case N_DIV:
        if (y[0] > 0 || y[1] < 0) corners(far_div, x, y, lo, hi);
        break;
    case N_MOD:
        if (y[0] <= 0) break;
        *lo = 0;
        *hi = is_far(y[1]) ? INT64_MAX : y[1] - 1;
        if (x[0] >= 0) *hi = min_i64(*hi, x[1]);
        break;
    case N_MIN: *lo = min_i64(x[0], y[0]), *hi = min_i64(x[1], y[1]); break;
    case N_MAX: *lo = max_i64(x[0], y[0]), *hi = max_i64(x[1], y[1]); break;
    case N_LAND: *lo = x[0] && y[0], *hi = x[1] && y[1]; break;
    case N_LOR: *lo = x[0] || y[0], *hi = x[1] || y[1]; break;
    default: compared(n, x, y, lo, hi); break;
    }
}

void size_range(const Node *n, int64_t *lo, int64_t *hi)
{
    int64_t x[2], y[2];
    bool boolean = n->type == DT_BOOL;
    *lo = boolean ? 0 : INT64_MIN;
    *hi = boolean ? 1 : INT64_MAX;
    switch (n->kind) {
    case N_INT: *lo = *hi = n->u.i; return;
    case N_VARREF:
        if (n->u.var->lo <= n->u.var->hi) *lo = n->u.var->lo, *hi = n->u.var->hi;
        return;
    case N_NEG:
        size_range(n->kid[0], &x[0], &x[1]);
        if (x[1] != INT64_MAX) *lo = -x[1];
        if (x[0] != INT64_MIN) *hi = -x[0];
        return;
    case N_NOT:
        size_range(n->kid[0], &x[0], &x[1]);
        *lo = !x[1], *hi = !x[0];
        return;
    case N_SELECT:
        size_range(n->kid[1], &x[0], &x[1]);
        size_range(n->kid[2], &y[0], &y[1]);
        *lo = min_i64(x[0], y[0]), *hi = max_i64(x[1], y[1]);
        return;
    default: break;
    }
    if (n->nkid != 2) return;
    size_range(n->kid[0], &x[0], &x[1]);
    size_range(n->kid[1], &y[0], &y[1]);
    binary_range(n, x, y, lo, hi);
}

// ---- values

static bool apply(NodeKind kind, int64_t x, int64_t y, int64_t *out)
{
    switch (kind) {
    case N_ADD: return add_i64(x, y, out);
    case N_SUB: return sub_i64(x, y, out);
    case N_MUL: return mul_i64(x, y, out);
    case N_DIV:
    case N_MOD:
        if (y == 0 || (x == INT64_MIN && y == -1)) return false;
        *out = kind == N_DIV ? floor_div_i64(x, y) : floor_mod_i64(x, y);
        return true;
    case N_MIN: *out = min_i64(x, y); return true;
    case N_MAX: *out = max_i64(x, y); return true;
    case N_LAND: *out = x && y; return true;
    case N_LOR: *out = x || y; return true;
    case N_EQ: *out = x == y; return true;
    case N_NE: *out = x != y; return true;
    case N_LT: *out = x < y; return true;
    case N_LE: *out = x <= y; return true;
    default: return false;
    }
}

bool size_hint(const Node *n, int64_t *out)
{
    int64_t x, y;
    switch (n->kind) {
    case N_INT: *out = n->u.i; return true;
    case N_VARREF: *out = n->u.var->hint; return n->u.var->builtin == VAR_DIM && n->u.var->hinted;
    case N_NEG:
    case N_NOT:
        if (!size_hint(n->kid[0], &x)) return false;
        *out = n->kind == N_NOT ? !x : -x;
        return true;
    case N_SELECT: return size_hint(n->kid[0], &x) && size_hint(n->kid[x ? 1 : 2], out);
    case N_LAND:
    case N_LOR:
        if (!size_hint(n->kid[0], &x)) return false;
        *out = x != 0;
        return (x != 0) == (n->kind == N_LOR) || size_hint(n->kid[1], out);
    default: break;
    }
    return n->nkid == 2 && size_hint(n->kid[0], &x) && size_hint(n->kid[1], &y) &&
           apply((NodeKind)n->kind, x, y, out);
}
