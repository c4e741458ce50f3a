// SPDX-License-Identifier: Apache-2.0
// Every pure operation against the same written in C's own types, on random and on special
// operands, through node_fold: so folding and meaning are tested as one.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "ir/kernel.h"
#include "ir/scalar.h"

#include <math.h>
#include <string.h>

enum { TRIALS = 3000 };

static uint64_t seed = 1;

static uint64_t next(void) // splitmix64: Steele, Lea & Flood 2014
{
    uint64_t z = (seed += 0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
}

static Scalar random_scalar(DType t)
{
    static const double special[] = {0.0,   -0.0, 1,    -1, 0.5, INFINITY, -INFINITY, NAN,
                                     65504, 1e-7, 1e30, -3, 7,   1e-45,    3.4e38};
    if (dtype_is_float(t)) {
        uint64_t r = next();
        if (r % 3 == 0) return scalar_float(t, special[r / 3 % COUNT(special)]);
        if (r % 3 == 1) return scalar_float(t, ((double)(next() % 20001) - 10000) / 64);
        uint64_t bits = next();
        return scalar_load(t, &bits);
    }
    switch (next() % 4) {
    case 0: return scalar_int(t, (int64_t)(next() % 17) - 8);
    case 1: return scalar_int(t, (int64_t)(UINT64_C(1) << next() % 64));
    case 2: return scalar_int(t, (int64_t)((UINT64_C(1) << next() % 64) - 1));
    default: return scalar_int(t, (int64_t)next());
    }
}

static Scalar folded(Arena *a, Node *n)
{
    Scalar s = {0};
    Node *f = node_fold(a, n);
    if (!scalar_of(f, &s)) fail_msg("%s did not fold", node_info[n->kind].name);
    return s;
}

static void expect(const char *what, const Scalar *x, const Scalar *y, Scalar got, Scalar want)
{
    if (scalar_bits_equal(&got, &want)) return;
    if (dtype_is_float(x->type)) {
        fail_msg("%s of %s %a, %a: got %a or %lld, want %a or %lld", what, dtypes[x->type].name,
                 x->v.f, y->v.f, got.v.f, (long long)got.v.i, want.v.f, (long long)want.v.i);
    }
    fail_msg("%s of %s %lld, %lld: got %lld, want %lld", what, dtypes[x->type].name,
             (long long)x->v.i, (long long)y->v.i, (long long)got.v.i, (long long)want.v.i);
}

static Scalar boolean(bool v)
{
    return scalar_int(DT_BOOL, v);
}

// ---- integers: the meaning, in 128 bits, then brought into the type

static __int128 floor_div(__int128 a, __int128 b)
{
    if (b == 0) return 0;
    __int128 q = a / b;
    return q - (a % b != 0 && (a < 0) != (b < 0));
}

static __int128 value_of(const Scalar *s)
{
    return s->type == DT_U64 ? (__int128)(uint64_t)s->v.i : (__int128)s->v.i;
}

static Scalar int_meaning(NodeKind kind, const Scalar *x, const Scalar *y)
{
    __int128 a = value_of(x), b = value_of(y), r = 0;
    int bits = dtypes[x->type].bits, count = (int)((uint64_t)y->v.i % (unsigned)bits);
    switch (kind) {
    case N_ADD: r = a + b; break;
    case N_SUB: r = a - b; break;
    case N_MUL: r = (__int128)((unsigned __int128)a * (unsigned __int128)b); break;
    case N_DIV: r = floor_div(a, b); break;
    case N_MOD: r = b == 0 ? 0 : a - floor_div(a, b) * b; break;
    case N_MIN: r = a < b ? a : b; break;
    case N_MAX: r = a > b ? a : b; break;
    case N_SHL: r = (__int128)((unsigned __int128)a << count); break;
    case N_SHR: r = floor_div(a, (__int128)1 << count); break;
    case N_BAND: r = x->v.i & y->v.i; break;
    case N_BOR: r = x->v.i | y->v.i; break;
    case N_BXOR: r = x->v.i ^ y->v.i; break;
    case N_EQ: return boolean(a == b);
    case N_NE: return boolean(a != b);
    case N_LT: return boolean(a < b);
    case N_LE: return boolean(a <= b);
    case N_NEG: r = -a; break;
    default: r = ~a; break;
    }
    // Into the type, without a library: keep the low bits, then the sign.
    unsigned __int128 low = (unsigned __int128)r & (((unsigned __int128)1 << bits) - 1);
    bool negative = dtypes[x->type].class == DC_INT && low >> (bits - 1);
    __int128 v = negative ? (__int128)low - ((__int128)1 << bits) : (__int128)low;
    return (Scalar){.type = x->type, .v.i = (int64_t)v};
}

static void test_integers(void **state)
{
    UNUSED(state);
    static const NodeKind kinds[] = {N_ADD, N_SUB,  N_MUL, N_DIV,  N_MOD, N_MIN, N_MAX, N_SHL,
                                     N_SHR, N_BAND, N_BOR, N_BXOR, N_EQ,  N_NE,  N_LT,  N_LE};
    static const NodeKind one[] = {N_NEG, N_BNOT};
    for (DType t = DT_I8; t <= DT_U64; t++) {
        for (int trial = 0; trial < TRIALS; trial++) {
            Arena a = {0};
            Scalar x = random_scalar(t), y = random_scalar(t);
            Node *nx = scalar_node(&a, 0, &x), *ny = scalar_node(&a, 0, &y);
            NodeKind k = kinds[next() % COUNT(kinds)];
            expect(node_info[k].name, &x, &y, folded(&a, node_binary(&a, k, nx, ny)),
                   int_meaning(k, &x, &y));
            k = one[next() % 2];
            expect(node_info[k].name, &x, &x, folded(&a, node_unary(&a, k, nx)),
                   int_meaning(k, &x, &x));
            arena_free(&a);
        }
    }
}

// ---- floats: one definition for float and one for double, from one text

#define FLOAT_MEANING(NAME, T, FMOD)                                                  \
    static T NAME(NodeKind kind, T a, T b)                                            \
    {                                                                                 \
        T r;                                                                          \
        switch (kind) {                                                               \
        case N_ADD: return a + b;                                                     \
        case N_SUB: return a - b;                                                     \
        case N_MUL: return a * b;                                                     \
        case N_DIV: return a / b;                                                     \
        case N_MIN:                                                                   \
            if (isnan(a) || isnan(b)) return (T)NAN;                                  \
            if (a == 0 && b == 0) return signbit(a) || signbit(b) ? (T)-0.0 : (T)0.0; \
            return a < b ? a : b;                                                     \
        case N_MAX:                                                                   \
            if (isnan(a) || isnan(b)) return (T)NAN;                                  \
            if (a == 0 && b == 0) return signbit(a) && signbit(b) ? (T)-0.0 : (T)0.0; \
            return a > b ? a : b;                                                     \
        default:                                                                      \
            r = FMOD(a, b);                                                           \
            if (r < 0 ? b > 0 : r > 0 && b < 0) r += b;                               \
            return r == 0 ? (signbit(b) ? (T)-0.0 : (T)0.0) : r;                      \
        }                                                                             \
    }
FLOAT_MEANING(meaning_f32, float, fmodf)
FLOAT_MEANING(meaning_f64, double, fmod)

static Scalar rounded(DType t, double v)
{
    if (t == DT_F16) v = f16_to_f32(f32_to_f16((float)v));
    if (t == DT_BF16) v = bf16_to_f32(f32_to_bf16((float)v));
    return (Scalar){.type = t, .v.f = v};
}

static Scalar float_meaning(NodeKind kind, const Scalar *x, const Scalar *y)
{
    double a = x->v.f, b = y->v.f;
    switch (kind) {
    case N_EQ: return boolean(a == b);
    case N_NE: return boolean(a != b);
    case N_LT: return boolean(a < b);
    case N_LE: return boolean(a <= b);
    default: break;
    }
    double r = x->type == DT_F64 ? meaning_f64(kind, a, b) : meaning_f32(kind, (float)a, (float)b);
    return rounded(x->type, r);
}

static void test_floats(void **state)
{
    UNUSED(state);
    static const NodeKind kinds[] = {N_ADD, N_SUB, N_MUL, N_DIV, N_MOD, N_MIN,
                                     N_MAX, N_EQ,  N_NE,  N_LT,  N_LE};
    for (DType t = DT_F16; t <= DT_F64; t++) {
        for (int trial = 0; trial < 3 * TRIALS; trial++) {
            Arena a = {0};
            Scalar x = random_scalar(t), y = random_scalar(t);
            Node *nx = scalar_node(&a, 0, &x), *ny = scalar_node(&a, 0, &y);
            NodeKind k = kinds[next() % COUNT(kinds)];
            expect(node_info[k].name, &x, &y, folded(&a, node_binary(&a, k, nx, ny)),
                   float_meaning(k, &x, &y));
            Scalar minus = {.type = t, .v.f = -x.v.f};
            expect("NEG", &x, &x, folded(&a, node_unary(&a, N_NEG, nx)), minus);
            arena_free(&a);
        }
    }
}

static void test_bools(void **state)
{
    UNUSED(state);
    static const struct {
        NodeKind kind;
        int table; // bit 2 a + b
    } rows[] = {{N_LAND, 8}, {N_LOR, 14}, {N_BAND, 8}, {N_BOR, 14}, {N_BXOR, 6},
                {N_EQ, 9},   {N_NE, 6},   {N_LT, 2},   {N_LE, 11}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        for (int ab = 0; ab < 4; ab++) {
            Scalar x[2] = {boolean(ab >> 1), boolean(ab & 1)}, out;
            assert_true(scalar_apply(rows[i].kind, DT_BOOL, x, &out));
            assert_int_equal(out.v.i, rows[i].table >> ab & 1);
        }
    }
    static const NodeKind undefined[] = {N_ADD, N_MUL, N_SHL, N_MIN, N_NEG, N_BNOT, N_LOAD, N_SEQ};
    for (size_t i = 0; i < COUNT(undefined); i++) {
        Scalar x[3] = {boolean(1), boolean(1), boolean(1)}, out;
        assert_false(scalar_apply(undefined[i], DT_BOOL, x, &out));
    }
}

// ---- conversions

static void test_casts(void **state)
{
    UNUSED(state);
    for (int trial = 0; trial < 20 * TRIALS; trial++) {
        DType from = (DType)(DT_BOOL + next() % (DT_COUNT - DT_BOOL));
        DType to = (DType)(DT_BOOL + next() % (DT_COUNT - DT_BOOL));
        Scalar x = from == DT_BOOL ? boolean(next() & 1) : random_scalar(from), got,
               want = {.type = to};
        assert_true(scalar_apply(N_CAST, to, &x, &got));
        double f = dtype_is_float(from) ? x.v.f : (double)value_of(&x);
        if (dtype_is_float(from) && dtype_is_int(to)) {
            __int128 half = (__int128)1 << (dtypes[to].bits - 1);
            __int128 lo = dtypes[to].class == DC_INT ? -half : 0;
            __int128 hi = dtypes[to].class == DC_INT ? half - 1 : 2 * half - 1;
            __int128 v = isnan(f) ? 0 : f <= -0x1p64 ? lo : f >= 0x1p65 ? hi : (__int128)f;
            want.v.i = (int64_t)(v < lo ? lo : v > hi ? hi : v);
        } else if (to == DT_BOOL) {
            want.v.i = f != 0;
        } else if (dtype_is_int(to)) {
            want = int_meaning(N_ADD, &(Scalar){.type = to, .v.i = x.v.i}, &(Scalar){.type = to});
        } else if (to == DT_F32 && !dtype_is_float(from)) {
            want.v.f = from == DT_U64 ? (float)(uint64_t)x.v.i : (float)x.v.i; // once, not twice
        } else if (to == DT_BF16 && !dtype_is_float(from)) {
            continue; // below
        } else {
            want.v.f = f64_round_to(to, f);
        }
        expect(dtypes[to].name, &x, &x, got, want);
    }
}

// 2^63 + 2^55 lies half way between two bf16; one more must round up, although no double sees it.
static void test_wide_casts(void **state)
{
    UNUSED(state);
    Scalar tie = {.type = DT_U64, .v.i = (int64_t)((UINT64_C(1) << 63) + (UINT64_C(1) << 55))}, out;
    assert_true(scalar_apply(N_CAST, DT_BF16, &tie, &out));
    assert_true(out.v.f == 0x1p63);
    tie.v.i++;
    assert_true(scalar_apply(N_CAST, DT_BF16, &tie, &out));
    assert_true(out.v.f == 0x1p63 + 0x1p56);
    tie.v.i = -1;
    assert_true(scalar_apply(N_CAST, DT_F16, &tie, &out));
    assert_true(isinf(out.v.f));
    assert_true(scalar_apply(N_CAST, DT_F64, &tie, &out));
    assert_true(out.v.f == 0x1p64);
}

static void test_bitcasts(void **state)
{
    UNUSED(state);
    Scalar one = scalar_float(DT_F32, 1), out;
    assert_true(scalar_apply(N_BITCAST, DT_I32, &one, &out));
    assert_int_equal(out.v.i, 0x3F800000);
    assert_true(scalar_apply(N_BITCAST, DT_F32, &out, &out));
    assert_true(out.v.f == 1);
    Scalar half = scalar_float(DT_F16, -2);
    assert_true(scalar_apply(N_BITCAST, DT_U16, &half, &out));
    assert_int_equal(out.v.i, 0xC000);
    assert_false(scalar_apply(N_BITCAST, DT_F64, &one, &out));
}

// ---- intrinsics

static Scalar call(IntrinsicId id, DType t, double a, double b, double c)
{
    Scalar x[3] = {scalar_float(t, a), scalar_float(t, b), scalar_float(t, c)}, out;
    assert_true(scalar_intrinsic(id, x, &out));
    assert_int_equal(out.type, t);
    return out;
}

static void test_intrinsics(void **state)
{
    UNUSED(state);
    for (int trial = 0; trial < 4 * TRIALS; trial++) {
        DType t = (DType)(DT_F16 + next() % 4);
        double a = random_scalar(t).v.f, b = random_scalar(t).v.f, c = random_scalar(t).v.f;
        Scalar x = {.type = t, .v.f = a}, y = {.type = t, .v.f = b};
        double fused = t == DT_F64 ? fma(a, b, c) : (double)fmaf((float)a, (float)b, (float)c);
        double root = t == DT_F64 ? sqrt(a) : (double)sqrtf((float)a);
        expect("fma", &x, &y, call(INTR_FMA, t, a, b, c), rounded(t, fused));
        expect("sqrt", &x, &y, call(INTR_SQRT, t, a, 0, 0), rounded(t, root));
        expect("copysign", &x, &y, call(INTR_COPYSIGN, t, a, b, 0), rounded(t, copysign(a, b)));
        expect("floor", &x, &y, call(INTR_FLOOR, t, a, 0, 0), rounded(t, floor(a)));
        expect("abs", &x, &y, call(INTR_ABS, t, a, 0, 0), rounded(t, fabs(a)));
    }
    assert_true(call(INTR_RINT, DT_F32, 2.5, 0, 0).v.f == 2);
    assert_true(call(INTR_RINT, DT_F32, -3.5, 0, 0).v.f == -4);
    assert_true(call(INTR_CEIL, DT_F32, -0.5, 0, 0).v.f == 0);
    assert_true(call(INTR_TRUNC, DT_F64, -2.75, 0, 0).v.f == -2);
    Scalar least = scalar_int(DT_I8, -128), out;
    assert_true(scalar_intrinsic(INTR_ABS, &least, &out));
    assert_int_equal(out.v.i, -128);
    Scalar big[3] = {scalar_int(DT_U8, 200), scalar_int(DT_U8, 2), scalar_int(DT_U8, 5)};
    assert_true(scalar_intrinsic(INTR_FMA, big, &out));
    assert_int_equal(out.v.i, (200 * 2 + 5) % 256);
    assert_false(scalar_intrinsic(INTR_SQRT, big, &out));
    assert_false(scalar_intrinsic(INTR_BARRIER, big, &out));
}

// Where float and double arithmetic differ, f32 is computed in float.
static void test_rounded_once(void **state)
{
    UNUSED(state);
    Scalar x[3] = {scalar_float(DT_F32, 0x1.000002p0), scalar_float(DT_F32, 0x1.000002p0),
                   scalar_float(DT_F32, 0x1p-60)};
    Scalar out;
    assert_true(scalar_intrinsic(INTR_FMA, x, &out));
    assert_true(out.v.f == (double)fmaf(0x1.000002p0f, 0x1.000002p0f, 0x1p-60f));
    Scalar h[2] = {scalar_float(DT_F16, 2048), scalar_float(DT_F16, 1)};
    assert_true(scalar_apply(N_ADD, DT_F16, h, &out));
    assert_true(out.v.f == 2048); // a tie, to even
    Scalar top[2] = {scalar_float(DT_F16, 65504), scalar_float(DT_F16, 16)};
    assert_true(scalar_apply(N_ADD, DT_F16, top, &out));
    assert_true(isinf(out.v.f));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers),   cmocka_unit_test(test_floats),
        cmocka_unit_test(test_bools),      cmocka_unit_test(test_casts),
        cmocka_unit_test(test_wide_casts), cmocka_unit_test(test_bitcasts),
        cmocka_unit_test(test_intrinsics), cmocka_unit_test(test_rounded_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
