// SPDX-License-Identifier: Apache-2.0
// What is known about an integer expression without running it: an interval that holds it and a
// number that divides it. Both mind wrapping: a result that may leave its type is known only to lie
// in the type, and only powers of two still divide it.
#include "ir/node.h"

#include "ir/kernel.h"
#include "ir/scalar.h"

typedef struct Range {
    bool known; // false: nothing, which is only said of u64 and of what is no integer
    int64_t lo, hi;
} Range;

static const Range nothing = {0};

static Range range(int64_t lo, int64_t hi)
{
    return (Range){true, lo, hi};
}

static Range whole_type(DType t)
{
    if (t == DT_BOOL) return range(0, 1);
    if (!dtype_is_int(t) || t == DT_U64) return nothing;
    if (t == DT_I64) return range(INT64_MIN, INT64_MAX);
    int64_t half = INT64_C(1) << (dtypes[t].bits - 1);
    return dtypes[t].class == DC_INT ? range(-half, half - 1) : range(0, 2 * half - 1);
}

static bool within(DType t, Range r)
{
    Range all = whole_type(t);
    if (t == DT_U64) return r.known && r.lo >= 0;
    return r.known && all.known && r.lo >= all.lo && r.hi <= all.hi;
}

static Range clip(DType t, Range r)
{
    return within(t, r) ? r : whole_type(t);
}

static Range range_of(const Node *n);

static Range hull(Range x, Range y)
{
    if (!x.known || !y.known) return nothing;
    return range(min_i64(x.lo, y.lo), max_i64(x.hi, y.hi));
}

// The hull of four corners, each computed with an overflow check.
static Range corners(bool (*op)(int64_t, int64_t, int64_t *), Range x, Range y)
{
    const int64_t xs[2] = {x.lo, x.hi}, ys[2] = {y.lo, y.hi};
    Range all = {0};
    for (int i = 0; i < 4; i++) {
        int64_t v;
        if (!op(xs[i & 1], ys[i >> 1], &v)) return nothing;
        all = all.known ? hull(all, range(v, v)) : range(v, v);
    }
    return all;
}

static bool divide(int64_t a, int64_t b, int64_t *out)
{
    if (a == INT64_MIN && b == -1) return false;
    *out = floor_div_i64(a, b);
    return true;
}

// Division is monotonic in each operand while the divisor keeps its sign.
static Range divided(Range x, Range y)
{
    if (!x.known || !y.known) return nothing;
    Range all = {0};
    if (y.hi >= 1) all = corners(divide, x, range(max_i64(y.lo, 1), y.hi));
    if (y.hi >= 1 && !all.known) return nothing;
    if (y.lo <= -1) {
        Range negative = corners(divide, x, range(y.lo, min_i64(y.hi, -1)));
        if (!negative.known) return nothing;
        all = all.known ? hull(all, negative) : negative;
    }
    if (y.lo <= 0 && y.hi >= 0) all = all.known ? hull(all, range(0, 0)) : range(0, 0);
    return all;
}

static Range remainder_of(Range x, Range y)
{
    if (!y.known) return x.known && x.lo >= 0 ? range(0, x.hi) : nothing;
    if (x.known && x.lo >= 0 && x.hi < y.lo) return x;
    int64_t lo = y.lo < 0 ? (y.lo == INT64_MIN ? INT64_MIN + 1 : y.lo + 1) : 0;
    int64_t hi = y.hi > 0 ? y.hi - 1 : 0;
    if (y.lo >= 0 && x.known && x.lo >= 0) hi = min_i64(hi, x.hi);
    return range(lo, hi);
}

static bool constant_shift(const Node *n, Range y, int *count)
{
    if (!y.known || y.lo != y.hi) return false;
    *count = (int)(y.lo & (dtypes[n->type].bits - 1));
    return true;
}

static Range shifted(const Node *n, Range x, Range y)
{
    int count;
    if (n->kind == N_SHR && x.known && !constant_shift(n, y, &count)) {
        return range(min_i64(x.lo, 0), max_i64(x.hi, -1)); // towards 0 or -1
    }
    if (!x.known || !constant_shift(n, y, &count)) return nothing;
    if (n->kind == N_SHL) {
        return count > 62 ? nothing : corners(mul_i64, x, range(1, INT64_C(1) << count));
    }
    if (count == 63) return range(x.lo < 0 ? -1 : 0, x.hi < 0 ? -1 : 0);
    return range(floor_div_i64(x.lo, INT64_C(1) << count),
                 floor_div_i64(x.hi, INT64_C(1) << count));
}

// The least 2^k - 1 that is at least v >= 0.
static int64_t ones_above(int64_t v)
{
    uint64_t u = (uint64_t)v;
    for (int s = 1; s < 64; s *= 2) u |= u >> s;
    return (int64_t)u;
}

static Range bits_of(const Node *n, Range x, Range y)
{
    bool not_negative_x = x.known && x.lo >= 0, not_negative_y = y.known && y.lo >= 0;
    if (n->kind == N_BAND) {
        if (not_negative_x && not_negative_y) return range(0, min_i64(x.hi, y.hi));
        if (not_negative_x) return range(0, x.hi);
        return not_negative_y ? range(0, y.hi) : nothing;
    }
    if (!not_negative_x || !not_negative_y) return nothing;
    int64_t hi = max_i64(ones_above(x.hi), ones_above(y.hi));
    return range(n->kind == N_BOR ? max_i64(x.lo, y.lo) : 0, hi);
}

static Range decided(bool yes, bool no)
{
    return yes ? range(1, 1) : no ? range(0, 0) : range(0, 1);
}

static Range compared(const Node *n, Range x, Range y)
{
    if (!x.known || !y.known) return range(0, 1);
    bool below = x.hi<y.lo, above = x.lo> y.hi, one = x.lo == x.hi && y.lo == y.hi;
    bool equal = one && x.lo == y.lo;
    switch (n->kind) {
    case N_EQ: return decided(equal, below || above);
    case N_NE: return decided(below || above, equal);
    case N_LT: return decided(below, x.lo >= y.hi);
    default: return decided(x.hi <= y.lo, above);
    }
}

static Range both(bool (*op)(int64_t, int64_t, int64_t *), Range x, Range y)
{
    return x.known && y.known ? corners(op, x, y) : nothing;
}

static Range binary_range(const Node *n, Range x, Range y)
{
    switch (n->kind) {
    case N_ADD: return both(add_i64, x, y);
    case N_SUB: return both(sub_i64, x, y);
    case N_MUL: return both(mul_i64, x, y);
    case N_DIV: return divided(x, y);
    case N_MOD: return remainder_of(x, y);
    case N_SHL:
    case N_SHR: return shifted(n, x, y);
    case N_BAND:
    case N_BOR:
    case N_BXOR: return bits_of(n, x, y);
    case N_MIN:
        if (!x.known || !y.known) return nothing;
        return range(min_i64(x.lo, y.lo), min_i64(x.hi, y.hi));
    case N_MAX:
        if (!x.known || !y.known) return nothing;
        return range(max_i64(x.lo, y.lo), max_i64(x.hi, y.hi));
    default: return compared(n, x, y);
    }
}

static Range var_range(const Var *v)
{
    return v->lo <= v->hi && dtype_is_int(v->type) ? range(v->lo, v->hi) : whole_type(v->type);
}

// Lane l of a ramp is base + l step.
static Range ramp_range(const Node *n)
{
    int64_t span;
    Range base = range_of(n->kid[0]);
    if (!base.known || !mul_i64(n->u.i, n->lanes - 1, &span)) return nothing;
    return both(add_i64, base, range(min_i64(span, 0), max_i64(span, 0)));
}

static Range cast_range(const Node *n)
{
    const Node *x = n->kid[0];
    Range r = range_of(x);
    if (n->type != DT_BOOL) return r; // clipped by the caller
    if (!r.known || (r.lo <= 0 && r.hi >= 0 && r.lo != r.hi)) return range(0, 1);
    return r.lo == 0 ? range(r.hi != 0, 1) : range(1, 1);
}

static Range expression_range(const Node *n)
{
    const NodeInfo *info = &node_info[n->kind];
    bool logic = info->operands == OPERANDS_BOOLS;
    if (info->operands && info->nfixed == 2 && !logic)
        return binary_range(n, range_of(n->kid[0]), range_of(n->kid[1]));
    switch (n->kind) {
    case N_INT: return range(n->u.i, n->u.i);
    case N_VARREF: return var_range(n->u.var);
    case N_NEG: return both(sub_i64, range(0, 0), range_of(n->kid[0]));
    case N_BNOT: return both(sub_i64, range(-1, -1), range_of(n->kid[0]));
    case N_SELECT: {
        Range cond = range_of(n->kid[0]);
        if (cond.known && cond.lo == cond.hi) return range_of(n->kid[cond.lo ? 1 : 2]);
        return hull(range_of(n->kid[1]), range_of(n->kid[2]));
    }
    case N_CAST: return cast_range(n);
    case N_BROADCAST:
    case N_EXTRACT: return range_of(n->kid[0]);
    case N_RAMP: return ramp_range(n);
    default: return nothing;
    }
}

static Range range_of(const Node *n)
{
    DType t = (DType)n->type;
    if (!dtype_is_int(t) && t != DT_BOOL) return nothing;
    return clip(t, expression_range(n));
}

bool node_bounds(const Node *n, int64_t *lo, int64_t *hi)
{
    Range r = range_of(n);
    if (!r.known || (n->type == DT_I64 && r.lo == INT64_MIN && r.hi == INT64_MAX)) return false;
    *lo = r.lo;
    *hi = r.hi;
    return true;
}

// ---- divisors; 0 stands for "every number", which is what divides zero

static const int64_t most = INT64_C(1) << 62;

static int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

static int64_t power_of_two_part(int64_t d)
{
    uint64_t low = (uint64_t)d & (0 - (uint64_t)d);
    return low > (uint64_t)most ? most : (int64_t)low;
}

static int64_t magnitude(int64_t v)
{
    return v == INT64_MIN ? most : v < 0 ? -v : v;
}

static int64_t divisor_of(const Node *n);

// d divides the unwrapped result.
static int64_t unless_wrapped(const Node *n, int64_t d)
{
    return within((DType)n->type, expression_range(n)) ? d : power_of_two_part(d);
}

static int64_t product(int64_t a, int64_t b)
{
    int64_t d;
    if (mul_i64(a, b, &d)) return d;
    a = power_of_two_part(a);
    b = power_of_two_part(b);
    return a > most / b ? most : a * b;
}

static int64_t quotient_divisor(const Node *n)
{
    Range y = range_of(n->kid[1]);
    int64_t d = divisor_of(n->kid[0]);
    if (!d || !y.known || y.lo != y.hi || y.lo < 1 || d % y.lo) return d ? 1 : 0;
    return d / y.lo;
}

static int64_t shift_divisor(const Node *n)
{
    int count;
    int64_t d = divisor_of(n->kid[0]);
    if (!d) return 0;
    if (!constant_shift(n, range_of(n->kid[1]), &count))
        return n->kind == N_SHL ? power_of_two_part(d) : 1;
    if (n->kind == N_SHL) {
        return count > 62 ? power_of_two_part(d)
                          : unless_wrapped(n, product(d, INT64_C(1) << count));
    }
    return count <= 62 && d % (INT64_C(1) << count) == 0 ? d >> count : 1;
}

static int64_t bits_divisor(const Node *n)
{
    int64_t x = divisor_of(n->kid[0]), y = divisor_of(n->kid[1]);
    if (n->kind == N_BAND) {
        return !x || !y ? 0 : max_i64(power_of_two_part(x), power_of_two_part(y));
    }
    if (!x || !y) return x + y; // zero changes nothing
    return min_i64(power_of_two_part(x), power_of_two_part(y));
}

static int64_t cast_divisor(const Node *n)
{
    const Node *x = n->kid[0];
    if (!dtype_is_int((DType)x->type) || !dtype_is_int((DType)n->type)) return 1;
    int64_t d = divisor_of(x);
    return within((DType)n->type, range_of(x)) ? d : power_of_two_part(d);
}

static int64_t divisor_of(const Node *n)
{
    if (!dtype_is_int((DType)n->type)) return 1;
    switch (n->kind) {
    case N_INT:
        if (n->type == DT_U64 && n->u.i < 0) return power_of_two_part(n->u.i);
        return magnitude(n->u.i);
    case N_VARREF: return max_i64(n->u.var->divisor, 1);
    case N_ADD:
    case N_SUB: return unless_wrapped(n, gcd(divisor_of(n->kid[0]), divisor_of(n->kid[1])));
    case N_MUL: {
        int64_t x = divisor_of(n->kid[0]), y = divisor_of(n->kid[1]);
        return !x || !y ? 0 : unless_wrapped(n, product(x, y));
    }
    case N_DIV: return quotient_divisor(n);
    case N_MOD:
    case N_MIN:
    case N_MAX: return gcd(divisor_of(n->kid[0]), divisor_of(n->kid[1]));
    case N_SELECT: return gcd(divisor_of(n->kid[1]), divisor_of(n->kid[2]));
    case N_NEG: return unless_wrapped(n, divisor_of(n->kid[0]));
    case N_SHL:
    case N_SHR: return shift_divisor(n);
    case N_BAND:
    case N_BOR:
    case N_BXOR: return bits_divisor(n);
    case N_CAST: return cast_divisor(n);
    case N_BROADCAST:
    case N_EXTRACT: return divisor_of(n->kid[0]);
    case N_RAMP: return unless_wrapped(n, gcd(divisor_of(n->kid[0]), magnitude(n->u.i)));
    default: return 1;
    }
}

int64_t node_divisor(const Node *n)
{
    int64_t d = divisor_of(n);
    return d ? d : most;
}
