// SPDX-License-Identifier: Apache-2.0
// Element types: the table, and conversions checked exhaustively over all 16-bit floats.
#include "base/dtype.h"
#include "base/util.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void table(void **state)
{
    UNUSED(state);
    for (int t = DT_NONE + 1; t < DT_COUNT; t++) {
        const DTypeInfo *d = &dtypes[t];
        assert_int_equal(dtype_from_name(d->name), t);
        assert_int_equal(dtype_from_onnx(d->onnx), t);
        assert_true(d->bits > 0 && d->class != DC_NONE && d->acc != DT_NONE);
        assert_int_equal(dtype_bytes((DType)t, 10), 10 * (int64_t)dtype_size((DType)t));
        assert_int_equal(dtype_is_float((DType)t) + dtype_is_int((DType)t), t != DT_BOOL);
    }
    assert_int_equal(dtype_from_name("f31"), DT_NONE);
    assert_int_equal(dtype_from_name("?"), DT_NONE);
    assert_int_equal(dtype_from_onnx(0), DT_NONE);
    assert_int_equal(dtype_from_onnx(-1), DT_NONE);
    assert_int_equal(dtype_bytes(DT_F32, 0), 0);
    assert_true(dtype_bytes(DT_F64, INT64_MAX / 4) == INT64_MAX);
    assert_true(dtype_bytes(DT_I8, INT64_MAX) == INT64_MAX);
}

typedef struct Format {
    DType type;
    int nexp, nman;
    float (*widen)(uint16_t);
    uint16_t (*narrow)(float);
} Format;

static const Format formats[] = {
    {DT_F16, 5, 10, f16_to_f32, f32_to_f16},
    {DT_BF16, 8, 7, bf16_to_f32, f32_to_bf16},
};

// The value by the definition: (-1)^s (1 + m 2^-nman) 2^(e - bias), or m 2^(1 - bias - nman).
static double value_of(const Format *f, uint16_t h)
{
    int bias = (1 << (f->nexp - 1)) - 1;
    int e = h >> f->nman & ((1 << f->nexp) - 1), m = h & ((1 << f->nman) - 1);
    double sign = h & 0x8000 ? -1 : 1;
    if (e == (1 << f->nexp) - 1) return m ? (double)NAN : sign * (double)INFINITY;
    if (e == 0) return sign * ldexp(m, 1 - bias - f->nman);
    return sign * ldexp(m + (1 << f->nman), e - bias - f->nman);
}

static uint16_t stored(DType t, double v)
{
    uint16_t h;
    dtype_store_f64(t, &h, v);
    return h;
}

// Floats of at most 8 bits, by the words of ONNX: fields and bias, which bits are infinity and NaN.
static const struct {
    DType type;
    int nexp, nman, bias;
    bool ieee; // infinity and NaNs have the highest exponent
    int nan;   // otherwise the only NaN beside its negative; fnuz: the bits of -0; -1: none
    double largest;
} smalls[] = {
    {DT_F8E4M3FN, 4, 3, 7, false, 0x7f, 448}, {DT_F8E4M3FNUZ, 4, 3, 8, false, 0x80, 240},
    {DT_F8E5M2, 5, 2, 15, true, -1, 57344},   {DT_F8E5M2FNUZ, 5, 2, 16, false, 0x80, 57344},
    {DT_F4E2M1, 2, 1, 1, false, -1, 6},
};

static double small_value(size_t i, int code)
{
    int sign = 1 << (smalls[i].nexp + smalls[i].nman), v = code & (sign - 1);
    int e = v >> smalls[i].nman, m = v & ((1 << smalls[i].nman) - 1),
        top = (1 << smalls[i].nexp) - 1;
    double s = code & sign ? -1 : 1;
    if (smalls[i].ieee && e == top) return m ? (double)NAN : s * (double)INFINITY;
    if (smalls[i].nan == (smalls[i].nan & sign ? code : v)) return NAN;
    return s * (e ? ldexp(m + (1 << smalls[i].nman), e - smalls[i].bias - smalls[i].nman)
                  : ldexp(m, 1 - smalls[i].bias - smalls[i].nman));
}

static uint8_t small_stored(DType t, double v)
{
    uint8_t code;
    dtype_store_f64(t, &code, v);
    return code;
}

static void every_small_float_there_and_back(void **state)
{
    UNUSED(state);
    for (size_t i = 0; i < COUNT(smalls); i++) {
        DType t = smalls[i].type;
        double largest = 0;
        for (int c = 0; c < 1 << dtypes[t].bits; c++) {
            uint8_t code = (uint8_t)c;
            double want = small_value(i, c), got = dtype_load_f64(t, &code);
            assert_int_equal(isnan(got), isnan(want));
            if (isnan(want)) {
                assert_true(isnan(f64_round_to(t, got)));
                continue;
            }
            assert_true(got == want && !signbit(got) == !signbit(want));
            assert_int_equal(small_stored(t, got), code);
            if (isfinite(got)) largest = fmax(largest, got);
        }
        assert_true(largest == smalls[i].largest);
        for (int sign = -1; sign <= 1; sign += 2) {
            assert_true(f64_round_to(t, sign * 1e30) == sign * largest);
            double infinity = smalls[i].ieee ? (double)INFINITY : largest;
            assert_true(f64_round_to(t, sign * (double)INFINITY) == sign * infinity);
        }
        double nothing = f64_round_to(t, NAN);
        assert_true(smalls[i].nan < 0 && !smalls[i].ieee ? nothing == 0 : isnan(nothing));
    }
}

static void every_small_boundary_rounds_to_nearest_even(void **state)
{
    UNUSED(state);
    for (size_t i = 0; i < COUNT(smalls); i++) {
        DType t = smalls[i].type;
        for (int c = 0; small_value(i, c) < smalls[i].largest; c++) {
            double low = small_value(i, c), high = small_value(i, c + 1), middle = (low + high) / 2;
            assert_int_equal(small_stored(t, middle), c & 1 ? c + 1 : c);
            assert_int_equal(small_stored(t, nextafter(middle, 0)), c);
            assert_int_equal(small_stored(t, nextafter(middle, high)), c + 1);
            if (c) assert_true(f64_round_to(t, -nextafter(middle, 0)) == -low);
        }
    }
}

static void few_bits_wrap_and_saturate(void **state)
{
    UNUSED(state);
    static const struct {
        DType type;
        int low, high;
    } rows[] = {{DT_I4, -8, 7}, {DT_U4, 0, 15}, {DT_I2, -2, 1}, {DT_U2, 0, 3}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        int count = rows[i].high - rows[i].low + 1;
        for (int v = -300; v <= 300; v++) {
            int8_t byte;
            int wrapped = ((v - rows[i].low) % count + count) % count + rows[i].low;
            dtype_store_i64(rows[i].type, &byte, v);
            assert_int_equal(dtype_load_i64(rows[i].type, &byte), wrapped);
            dtype_store_f64(rows[i].type, &byte, v + (v < 0 ? -0.5 : 0.5));
            int kept = v < rows[i].low ? rows[i].low : v > rows[i].high ? rows[i].high : v;
            assert_int_equal(dtype_load_i64(rows[i].type, &byte), kept);
        }
    }
}

static void every_half_there_and_back(void **state)
{
    UNUSED(state);
    for (size_t i = 0; i < COUNT(formats); i++) {
        const Format *f = &formats[i];
        for (uint32_t u = 0; u <= 0xFFFF; u++) {
            uint16_t h = (uint16_t)u;
            double want = value_of(f, h), got = f->widen(h);
            assert_int_equal(isnan(got), isnan(want));
            assert_int_equal(!!signbit(f->widen(h)), h >> 15);
            if (!isnan(want)) assert_true(got == want);
            uint16_t quiet = isnan(want) ? (uint16_t)(h | 1 << (f->nman - 1)) : h;
            assert_int_equal(f->narrow(f->widen(h)), quiet);
            assert_int_equal(stored(f->type, got), quiet);
            assert_true(dtype_load_f64(f->type, &h) == got || isnan(got));
        }
    }
}

// Between each two neighbours: the middle goes to the even one, anything off it to the nearer one.
// Narrowing is monotonic, so this covers all inputs.
static void every_boundary_rounds_to_nearest_even(void **state)
{
    UNUSED(state);
    for (size_t i = 0; i < COUNT(formats); i++) {
        const Format *f = &formats[i];
        uint16_t infinity = (uint16_t)(((1 << f->nexp) - 1) << f->nman);
        for (uint16_t h = 0; h < infinity; h++) {
            uint16_t next = (uint16_t)(h + 1), even = h & 1 ? next : h;
            double low = value_of(f, h), high = value_of(f, next);
            // The last one overflows as if one more exponent existed.
            if (next == infinity) high = low + (low - value_of(f, (uint16_t)(h - 1)));
            double middle = low + (high - low) / 2;
            for (int sign = 0; sign < 2; sign++) {
                uint16_t s = (uint16_t)(sign << 15);
                double m = sign ? -middle : middle, zero = 0, end = sign ? -INFINITY : INFINITY;
                assert_int_equal(stored(f->type, m), s | even);
                assert_int_equal(stored(f->type, nextafter(m, zero)), s | h);
                assert_int_equal(stored(f->type, nextafter(m, end)), s | next);
                if ((double)(float)m != m) continue; // below the smallest f32
                assert_int_equal(f->narrow((float)m), s | even);
                assert_int_equal(f->narrow(nextafterf((float)m, 0)), s | h);
                assert_int_equal(f->narrow(nextafterf((float)m, (float)end)), s | next);
            }
        }
    }
}

static void special_floats(void **state)
{
    UNUSED(state);
    assert_int_equal(f32_to_f16(65504), 0x7BFF);
    assert_int_equal(f32_to_f16(65519.996f), 0x7BFF);
    assert_int_equal(f32_to_f16(65520), 0x7C00);
    assert_int_equal(f32_to_f16(INFINITY), 0x7C00);
    assert_int_equal(f32_to_f16(-INFINITY), 0xFC00);
    assert_int_equal(f32_to_f16(-0.0f), 0x8000);
    assert_int_equal(f32_to_f16(1e-30f), 0);
    assert_int_equal(f32_to_bf16(3.4028235e38f), 0x7F80);
    assert_int_equal(stored(DT_BF16, 1e300), 0x7F80);
    assert_int_equal(stored(DT_F16, -1e-300), 0x8000);
    assert_int_equal(stored(DT_F16, 5e-324), 0);
    assert_true(isnan(f16_to_f32(f32_to_f16(NAN))));
    assert_true(isnan(bf16_to_f32(f32_to_bf16(NAN))));
    // 1 + 2^-11 + 2^-40 is above the middle; by way of f32 it would be the middle, and go to 1.
    assert_true(f64_round_to(DT_F16, 1 + 0x1p-11 + 0x1p-40) == 1 + 0x1p-10);
    assert_true(f64_round_to(DT_F16, 1 + 0x1p-11) == 1);
    assert_true(f64_round_to(DT_BF16, 1 + 0x1p-8 + 0x1p-40) == 1 + 0x1p-7);
    assert_true(f64_round_to(DT_F32, 1 + 0x1p-30) == 1);
    assert_true(f64_round_to(DT_F64, 0.1) == 0.1);
}

// Stores v as type t and reads it back as an integer.
static int64_t through_f64(DType t, double v)
{
    uint64_t memory = 0;
    dtype_store_f64(t, &memory, v);
    return dtype_load_i64(t, &memory);
}

static int64_t through_i64(DType t, int64_t v)
{
    uint64_t memory = 0;
    dtype_store_i64(t, &memory, v);
    return dtype_load_i64(t, &memory);
}

static void float_to_integer(void **state)
{
    UNUSED(state);
    static const struct {
        DType type;
        int64_t low, high;
    } rows[] = {
        {DT_I8, INT8_MIN, INT8_MAX},    {DT_I16, INT16_MIN, INT16_MAX},
        {DT_I32, INT32_MIN, INT32_MAX}, {DT_I64, INT64_MIN, INT64_MAX},
        {DT_U8, 0, UINT8_MAX},          {DT_U16, 0, UINT16_MAX},
        {DT_U32, 0, UINT32_MAX},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        DType t = rows[i].type;
        int64_t low = rows[i].low, high = rows[i].high;
        assert_true(through_f64(t, NAN) == 0);
        assert_true(through_f64(t, INFINITY) == high);
        assert_true(through_f64(t, -INFINITY) == low);
        assert_true(through_f64(t, 1e30) == high);
        assert_true(through_f64(t, -1e30) == low);
        assert_true(through_f64(t, 99.99) == 99);
        assert_true(through_f64(t, -0.99) == 0);
        assert_true(through_f64(t, -2.5) == (low ? -2 : 0));
        assert_true(through_f64(t, (double)low) == low);
        assert_true(through_f64(t, (double)high) == high);
        assert_true(through_f64(t, (double)high + 1) == high);
    }
    assert_true((uint64_t)through_f64(DT_U64, 1e30) == UINT64_MAX);
    assert_true((uint64_t)through_f64(DT_U64, 0x1p63) == UINT64_C(1) << 63);
    assert_true(through_f64(DT_U64, -1) == 0 && through_f64(DT_U64, NAN) == 0);
    assert_true(through_f64(DT_BOOL, 0.1) == 1 && through_f64(DT_BOOL, -0.0) == 0);
    assert_true(through_f64(DT_F32, 1e30) == INT64_MAX);
    assert_true(through_f64(DT_F64, NAN) == 0);
    assert_true(through_f64(DT_F16, -7.5) == -7);
}

static void integers(void **state)
{
    UNUSED(state);
    assert_true(through_i64(DT_I8, 200) == -56);
    assert_true(through_i64(DT_U8, -1) == 255);
    assert_true(through_i64(DT_I16, 0x18000) == -32768);
    assert_true(through_i64(DT_U16, -1) == 65535);
    assert_true(through_i64(DT_I32, INT64_C(1) << 32) == 0);
    assert_true(through_i64(DT_U32, -1) == UINT32_MAX);
    assert_true(through_i64(DT_I64, INT64_MIN) == INT64_MIN);
    assert_true(through_i64(DT_U64, -1) == -1);
    assert_true(through_i64(DT_BOOL, 256) == 1);
    assert_true(through_i64(DT_F64, INT64_C(1) << 60) == INT64_C(1) << 60);
    uint64_t top = UINT64_MAX;
    assert_true(dtype_load_f64(DT_U64, &top) == 0x1p64);
    int8_t minus = -3;
    assert_true(dtype_load_f64(DT_I8, &minus) == -3);
}

static void large_integers_round_once(void **state)
{
    UNUSED(state);
    // One above the middle of two bf16 values; a detour by way of double would lose that one.
    int64_t above = (INT64_C(1) << 62) + (INT64_C(1) << 54) + 1;
    assert_true(through_i64(DT_BF16, above) == (INT64_C(1) << 62) + (INT64_C(1) << 55));
    assert_true(through_i64(DT_BF16, -above) == -(INT64_C(1) << 62) - (INT64_C(1) << 55));
    assert_true(through_i64(DT_BF16, above - 1) == INT64_C(1) << 62);
    assert_true(through_i64(DT_BF16, INT64_MIN) == INT64_MIN);
    int64_t f32_above = (INT64_C(1) << 62) + (INT64_C(1) << 38) + 1;
    assert_true(through_i64(DT_F32, f32_above) == (INT64_C(1) << 62) + (INT64_C(1) << 39));
    assert_true(through_i64(DT_F16, 2049) == 2048);
    assert_true(through_i64(DT_F16, 2051) == 2052);
    assert_true(through_i64(DT_F16, INT64_MAX) == INT64_MAX); // infinity, saturated
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table),
        cmocka_unit_test(every_half_there_and_back),
        cmocka_unit_test(every_small_float_there_and_back),
        cmocka_unit_test(every_small_boundary_rounds_to_nearest_even),
        cmocka_unit_test(few_bits_wrap_and_saturate),
        cmocka_unit_test(every_boundary_rounds_to_nearest_even),
        cmocka_unit_test(special_floats),
        cmocka_unit_test(float_to_integer),
        cmocka_unit_test(integers),
        cmocka_unit_test(large_integers_round_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
