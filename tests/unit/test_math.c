// SPDX-License-Identifier: Apache-2.0
// lib/math.hd against libm's long double: the error bounds it states, special values, and that the
// interpreter and compiled C agree in every bit.
#include "unit/kernel_kit.h"

#include <float.h>

typedef long double Reference(long double);

static long double exact_sigmoid(long double x)
{
    return x < 0 ? expl(x) / (1 + expl(x)) : 1 / (1 + expl(-x));
}
static long double exact_softplus(long double x)
{
    return x > 0 ? x + log1pl(expl(-x)) : log1pl(expl(x));
}

// clang-format off
static const struct Function {
    const char *name;
    Reference *exact;
    double lo, hi;   // where samples are taken; outside only special values
    double f32, f64; // allowed error in ULP
} functions[] = {
    // name      exact           lo      hi     f32   f64
    {"exp",      expl,           -760,   720, 1.1, 1.1},
    {"exp2",     exp2l,          -1090,  1030, 0.9, 0.9},
    {"expm1",    expm1l,         -760,   720, 1.4, 1.8},
    {"log",      logl,           0,      1e308, 0.9, 0.9},
    {"log2",     log2l,          0,      1e308, 1.1, 0.8},
    {"log1p",    log1pl,         -1,     1e308, 0.9, 0.9},
    {"softplus", exact_softplus, -760,   1e6, 1.6, 1.6},
    {"tanh",     tanhl,          -30,    30, 1.4, 1.5},
    {"sigmoid",  exact_sigmoid,  -760,   60, 2.4, 2.4},
    {"sinh",     sinhl,          -720,   720, 0.6, 1.6},
    {"cosh",     coshl,          -720,   720, 0.6, 1.5},
    {"asinh",    asinhl,         -1e308, 1e308, 0.6, 1.8},
    {"acosh",    acoshl,         1,      1e308, 0.6, 1.8},
    {"atanh",    atanhl,         -1,     1, 0.6, 1.6},
    {"erf",      erfl,           -7,     7, 1.1, 1.1},
    {"sin",      sinl,           -1e9,   1e9, 0.8, 0.8},
    {"cos",      cosl,           -1e9,   1e9, 0.8, 0.8},
    {"tan",      tanl,           -1e9,   1e9, 0.6, 2},
    {"asin",     asinl,          -1,     1, 0.6, 1.2},
    {"acos",     acosl,          -1,     1, 0.6, 1.2},
    {"atan",     atanl,          -1e308, 1e308, 0.6, 1.1},
};
// clang-format on
enum { NFUNCTION = COUNT(functions) };

static uint64_t state = 1;
static uint32_t random_u32(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 32);
}

// A kernel with the first `count` functions of one x as its outputs.
static Kit *make_functions(DType t, int count)
{
    Kit *k = kit_new("math kernels/copy");
    kit_parse(k, "identity", "heald 1; op same(x: T[s...]) -> (y: T[s...]) { y[i...] = x[i...]; }");
    Value n = instance_dim(k->in, "n", 0, INT64_C(1) << 40, 1);
    Value x = kit_value(instance_input(k->in, "x", t, 1, &n));
    Tensor *hole = instance_hole(k->in, "h", t, 1, &n), *outputs[NFUNCTION];
    Buffer *memory[NFUNCTION];
    Value h = kit_value(hole);
    for (int i = 0; i < count; i++) {
        const char *f = functions[i].name;
        kit_parse(k, f,
                  arena_printf(&k->arena,
                               "heald 1; op the_%s(x: F[s...]) -> (y: F[s...]) "
                               "{ y[i...] = %s(x[i...]); }",
                               f, f));
        outputs[i] = kit_op(k, arena_printf(&k->arena, "the_%s", f), 1, &h, NULL);
        memory[i] = instance_output(k->in, f, t, 1, &n);
    }
    Epilogue e = {.hole = hole, .outputs = outputs, .memory = memory, .noutput = count};
    kit_kernel(k, "copy", 1, &x, NULL, &e, 1, NULL);
    kit_compile(k);
    return k;
}

// Samples: bit patterns at equal distances, so that all magnitudes occur; then denser around 0.
static double sample(DType t, int64_t i, int64_t n)
{
    if (i % 2) { // uniform in [-8, 8]
        double u = ((double)random_u32() + (double)random_u32() / 4294967296.0) / 268435456.0 - 8;
        return f64_round_to(t, u);
    }
    if (t == DT_F32) {
        uint32_t b = (uint32_t)((double)i / (double)n * 4294967295.0) ^ (random_u32() & 0xfff);
        float f;
        memcpy(&f, &b, sizeof f);
        return f;
    }
    uint64_t b = (uint64_t)((double)i / (double)n * 18446744073709549568.0) ^ (uint64_t)random_u32()
                                                                                  << 20;
    double d;
    memcpy(&d, &b, sizeof d);
    return d;
}

// Distance in units of the last place of the type at the wanted value.
static double ulps(DType t, long double want, double got)
{
    long double highest = t == DT_F32 ? (long double)FLT_MAX : (long double)DBL_MAX;
    int digits = t == DT_F32 ? 24 : 53, least = t == DT_F32 ? -149 : -1074, e;
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got) ? 0 : INFINITY;
    double rounded = f64_round_to(t, (double)want);
    if (isinf(got) || isinf(rounded)) // at the edge of overflow, one step is no error
        return got == rounded                                     ? 0
               : fabsl(want) > highest * (1 - ldexpl(1, -digits)) ? 0.5
                                                                  : INFINITY;
    frexpl(want, &e);
    int last = want == 0 || e - digits < least ? least : e - digits;
    return (double)ldexpl(fabsl(want - got), -last);
}

static void store(DType t, void *p, int64_t i, double v)
{
    dtype_store_f64(t, (char *)p + (size_t)i * dtype_size(t), v);
}
static double load(DType t, const void *p, int64_t i)
{
    return dtype_load_f64(t, (const char *)p + (size_t)i * dtype_size(t));
}

static void alloc_all(DType t, int64_t n, void **data)
{
    for (int i = 0; i <= NFUNCTION; i++)
        data[i] = aligned_alloc(64, ((size_t)n * dtype_size(t) + 127) / 64 * 64);
}

static void check_accuracy(DType t, int64_t n)
{
    Kit *k = make_functions(t, NFUNCTION);
    void *data[NFUNCTION + 1];
    alloc_all(t, n, data);
    for (int64_t i = 0; i < n; i++) store(t, data[0], i, sample(t, i, n));
    kit_run_compiled(k, data, &n);
    int wrong = 0;
    for (int f = 0; f < NFUNCTION; f++) {
        double worst = 0, at = 0, got = 0;
        for (int64_t i = 0; i < n; i++) {
            double x = load(t, data[0], i), y = load(t, data[f + 1], i);
            if (!(x >= functions[f].lo && x <= functions[f].hi)) continue;
            double u = ulps(t, functions[f].exact(x), y);
            if (u > worst) worst = u, at = x, got = y;
        }
        double allowed = t == DT_F32 ? functions[f].f32 : functions[f].f64;
        if (getenv("HEALD_VERBOSE") || worst > allowed)
            printf("# %s(%s): %.2f ULP at %.17g (%a): %.17g, not %.17Lg\n", functions[f].name,
                   dtypes[t].name, worst, at, at, got, functions[f].exact(at));
        wrong += worst > allowed;
    }
    assert_int_equal(wrong, 0);
    for (int i = 0; i <= NFUNCTION; i++) free(data[i]);
    kit_free(k);
}

static void accuracy_f32(void **unused)
{
    (void)unused;
    check_accuracy(DT_F32, 400001);
}
static void accuracy_f64(void **unused)
{
    (void)unused;
    if (LDBL_MANT_DIG < 64) skip();
    check_accuracy(DT_F64, 400001);
}

// Special values and denormals: like libm, the sign of zero included; and the interpreter's bits.
static void check_special(DType t)
{
    static const double special[] = {
        0.0,    -0.0,    1,      -1,       INFINITY,  -INFINITY, NAN,    5e-324, -5e-324,
        2e-310, 1e-45,   -3e-42, 0x1p-126, 0x1p-1022, 1e-20,     -1e-20, 1e300,  -1e300,
        3.4e38, -3.4e38, 2,      -2,       0.5,       -0.5,      100,    -100,   1000,
        -1000,  88.7,    -103.9, -87.5,    709.7,     -745.1,    -708.5, 710.2,  89.1,
        0.9,    -0.9,    1e30,   1e-7,     -1e-7,     1e8};
    enum { N = COUNT(special) };
    int64_t n = N;
    Kit *k = make_functions(t, NFUNCTION);
    void *data[NFUNCTION + 1], *other[NFUNCTION + 1];
    alloc_all(t, n, data);
    alloc_all(t, n, other);
    for (int i = 0; i < N; i++) store(t, data[0], i, special[i]), store(t, other[0], i, special[i]);
    kit_run_compiled(k, data, &n);
    kit_run_interpreted(k, other, &n);
    int wrong = 0;
    for (int f = 0; f < NFUNCTION; f++)
        for (int i = 0; i < N; i++) {
            double x = load(t, data[0], i), y = load(t, data[f + 1], i),
                   z = load(t, other[f + 1], i);
            long double want = functions[f].exact(x);
            double allowed = t == DT_F32 ? functions[f].f32 : functions[f].f64;
            bool turns = strcmp(functions[f].name, "sin") == 0 ||
                         strcmp(functions[f].name, "cos") == 0 ||
                         strcmp(functions[f].name, "tan") == 0;
            bool good = memcmp(&y, &z, sizeof y) == 0 || (isnan(y) && isnan(z));
            if (!turns || fabs(x) < 1e9)
                good = good && ulps(t, want, y) <= allowed &&
                       (want != 0 || !signbit(want) == !signbit(y));
            if (good) continue;
            wrong++;
            printf("# %s(%s %g): C %.17g, interpreter %.17g, exact %.17Lg\n", functions[f].name,
                   dtypes[t].name, x, y, z, want);
        }
    assert_int_equal(wrong, 0);
    for (int i = 0; i <= NFUNCTION; i++) free(data[i]), free(other[i]);
    kit_free(k);
}

static void special_f32(void **unused)
{
    (void)unused;
    check_special(DT_F32);
}
static void special_f64(void **unused)
{
    (void)unused;
    check_special(DT_F64);
}

// power: a kernel of two inputs.
static Kit *power_kernel(DType t)
{
    Kit *k = kit_new("math ops/core kernels/copy");
    Value n = instance_dim(k->in, "n", 0, INT64_C(1) << 40, 1), args[2];
    args[0] = kit_value(instance_input(k->in, "a", t, 1, &n));
    args[1] = kit_value(instance_input(k->in, "b", t, 1, &n));
    Value y = kit_value(kit_op(k, "pow", 2, args, NULL));
    Buffer *out = instance_output(k->in, "y", t, 1, &n);
    Epilogue e = {.memory = &out, .noutput = 1};
    kit_kernel(k, "copy", 1, &y, NULL, &e, 1, NULL);
    kit_compile(k);
    return k;
}

static double power_error(DType t, double a, double b, double got)
{
    long double want = powl(a, b);
    if (want == 0 && got == 0) return !signbit(want) == !signbit(got) ? 0 : INFINITY;
    return ulps(t, want, got);
}

static void check_power(DType t, double allowed)
{
    static const double special[] = {0.0,  -0.0, 1,     -1,    INFINITY, -INFINITY, NAN,  2,
                                     -2,   3,    -3,    0.5,   -0.5,     0.9,       1.1,  2.5,
                                     -2.5, 1e30, -1e30, 1e-40, 1e300,    127.5,     -149, 1023.5};
    enum { S = COUNT(special), N = 100000 };
    int64_t n = S * S + N;
    Kit *k = power_kernel(t);
    size_t bytes = ((size_t)n * dtype_size(t) + 127) / 64 * 64;
    void *data[3];
    for (int i = 0; i < 3; i++) data[i] = aligned_alloc(64, bytes);
    for (int64_t i = 0; i < n; i++) {
        double a = i < S * S ? special[i / S]
                             : exp2((double)(random_u32() % 4000) / 20 - 100) *
                                   (1 + (double)random_u32() / 4294967296.0);
        double b = i < S * S ? special[i % S]
                             : ((double)random_u32() / 4294967296.0 - 0.5) *
                                   (t == DT_F32 ? 300 : 2100) / (fabs(log2(a)) + 1);
        store(t, data[0], i, i % 7 == 3 ? 0.5 + a / (1 + a) : a);
        store(t, data[1], i, b);
    }
    kit_run_compiled(k, data, &n);
    double worst = 0;
    for (int64_t i = 0; i < n; i++) {
        double a = load(t, data[0], i), b = load(t, data[1], i), y = load(t, data[2], i);
        double u = power_error(t, a, b, y);
        if (u > allowed)
            printf("# power(%s %a, %a): %.17g, not %.17Lg: %.2f ULP\n", dtypes[t].name, a, b, y,
                   powl(a, b), u);
        worst = fmax(worst, u);
    }
    if (getenv("HEALD_VERBOSE")) printf("# power(%s): %.2f ULP\n", dtypes[t].name, worst);
    assert_true(worst <= allowed);
    void *other[3] = {data[0], data[1], malloc(bytes)};
    int64_t few = S * S;
    kit_run_interpreted(k, other, &few);
    for (int64_t i = 0; i < few; i++) {
        double y = load(t, data[2], i), z = load(t, other[2], i);
        assert_true(memcmp(&y, &z, sizeof y) == 0 || (isnan(y) && isnan(z)));
    }
    free(other[2]);
    for (int i = 0; i < 3; i++) free(data[i]);
    kit_free(k);
}

static void power_f32(void **unused)
{
    (void)unused;
    check_power(DT_F32, 0.6);
}
static void power_f64(void **unused)
{
    (void)unused;
    if (LDBL_MANT_DIG < 64) skip();
    check_power(DT_F64, 0.9);
}

static void power_of_integers(void **unused)
{
    (void)unused;
    Kit *k = power_kernel(DT_I32);
    int32_t a[] = {2, -3, 0, 0, 7, 1, -1, -1, 5, 3, 2, 10},
            b[] = {10, 5, 0, 3, 1, -4, -3, -4, -1, 20, 31, 9};
    int32_t want[] = {1024, -243, 1, 0, 7, 1, -1, 1, 0, -808182895, INT32_MIN, 1000000000};
    int32_t y[COUNT(a)];
    void *data[] = {a, b, y};
    int64_t n = COUNT(a);
    kit_run_compiled(k, data, &n);
    assert_memory_equal(y, want, sizeof want);
    memset(y, 0, sizeof y);
    kit_run_interpreted(k, data, &n);
    assert_memory_equal(y, want, sizeof want);
    kit_free(k);
}

// f16 and bf16 are computed in f32 and rounded.
static void half_precision(void **unused)
{
    (void)unused;
    for (int b = 0; b < 2; b++) {
        enum { FEW = 4 };
        DType t = b ? DT_BF16 : DT_F16;
        Kit *k = make_functions(t, FEW);
        int64_t n = 4096;
        void *data[NFUNCTION + 1];
        alloc_all(t, n, data);
        for (int64_t i = 0; i < n; i++) ((uint16_t *)data[0])[i] = (uint16_t)(i * 16);
        kit_run_compiled(k, data, &n);
        for (int f = 0; f < FEW; f++)
            for (int64_t i = 0; i < n; i++) {
                double x = load(t, data[0], i), got = load(t, data[f + 1], i);
                if (!(x >= functions[f].lo && x <= functions[f].hi)) continue;
                double want = (double)functions[f].exact(x), near = f64_round_to(t, want);
                double other = f64_round_to(t, want * (1 + 1e-6)),
                       third = f64_round_to(t, want * (1 - 1e-6));
                if (got == near || got == other || got == third || (isnan(got) && isnan(want)))
                    continue;
                fail_msg("%s(%s %g) is %g, not %g", functions[f].name, dtypes[t].name, x, got,
                         near);
            }
        for (int i = 0; i <= NFUNCTION; i++) free(data[i]);
        kit_free(k);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accuracy_f32),      cmocka_unit_test(accuracy_f64),
        cmocka_unit_test(special_f32),       cmocka_unit_test(special_f64),
        cmocka_unit_test(power_f32),         cmocka_unit_test(power_f64),
        cmocka_unit_test(power_of_integers), cmocka_unit_test(half_precision),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
