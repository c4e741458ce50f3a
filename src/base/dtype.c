// SPDX-License-Identifier: Apache-2.0
// The element type table and exact conversions. Narrow floats are rounded once, straight from
// double, in integer arithmetic.
#include "base/dtype.h"

#include "base/util.h"

#include <math.h>
#include <string.h>

const DTypeInfo dtypes[DT_COUNT] = {
#define DTYPE(ID, name, class, bits, acc, c, cuda, onnx) {name, class, bits, acc, c, cuda, onnx},
#include "base/dtypes.def"
#undef DTYPE
};

DType dtype_from_name(const char *name)
{
    for (int t = DT_NONE + 1; t < DT_COUNT; t++) {
        if (!strcmp(dtypes[t].name, name)) return (DType)t;
    }
    return DT_NONE;
}

DType dtype_from_onnx(int64_t onnx)
{
    for (int t = DT_NONE + 1; t < DT_COUNT; t++) {
        if (dtypes[t].onnx && dtypes[t].onnx == onnx) return (DType)t;
    }
    return DT_NONE;
}

int64_t dtype_bytes(DType t, int64_t nelem)
{
    ASSERT(nelem >= 0);
    int64_t bytes;
    return mul_i64(nelem, (int64_t)dtype_size(t), &bytes) ? bytes : INT64_MAX;
}

// v rounded to nearest even as a float of 1 sign bit, `nexp` exponent bits and `nman` mantissa bits
// (nexp + nman == 15).
static inline uint16_t narrow(double v, int nexp, int nman)
{
    uint64_t u;
    memcpy(&u, &v, sizeof u);
    uint16_t sign = (uint16_t)(u >> 63 << 15);
    int exponent = (int)(u >> 52 & 0x7FF);
    uint64_t mantissa = u & ((UINT64_C(1) << 52) - 1);
    int top = (1 << nexp) - 1; // the exponent of infinity and NaN
    uint16_t infinity = (uint16_t)(top << nman);

    if (exponent == 0x7FF) {
        if (!mantissa) return sign | infinity;
        uint16_t payload = (uint16_t)(mantissa >> (52 - nman));
        return (uint16_t)(sign | infinity | 1 << (nman - 1) | payload); // quiet
    }
    int e = exponent - 1023 + (top >> 1); // biased for the narrow type
    if (e >= top) return sign | infinity;
    int drop = 52 - nman + (e < 1 ? 1 - e : 0); // a subnormal result loses more bits
    if (drop > 53) return sign; // below half the smallest subnormal; so are doubles' own
    mantissa |= UINT64_C(1) << 52;
    uint64_t kept = mantissa >> drop, rest = mantissa & ((UINT64_C(1) << drop) - 1);
    uint64_t half = UINT64_C(1) << (drop - 1);
    if (rest > half || (rest == half && (kept & 1))) kept++;
    // The leading 1 of a normal result adds one to the exponent field, and so does a carry out of
    // the mantissa.
    return (uint16_t)(sign | (uint16_t)(kept + ((uint64_t)(e < 1 ? 0 : e - 1) << nman)));
}

static inline float float_from_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

float f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, mantissa = h & 0x3FF;
    if (exponent == 0) {
        float magnitude = (float)mantissa * 0x1p-24f;
        return sign ? -magnitude : magnitude;
    }
    if (exponent == 31) return float_from_bits(sign | 0x7F800000 | mantissa << 13);
    return float_from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
}

uint16_t f32_to_f16(float f)
{
    return narrow((double)f, 5, 10);
}

float bf16_to_f32(uint16_t h)
{
    return float_from_bits((uint32_t)h << 16);
}

uint16_t f32_to_bf16(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    if ((u & 0x7FFFFFFF) > 0x7F800000) return (uint16_t)(u >> 16 | 0x40); // NaN, made quiet
    return (uint16_t)((u + 0x7FFF + (u >> 16 & 1)) >> 16);
}

// ---- floats of at most 8 bits

static const SmallFloat small_floats[DT_COUNT] = {
    //                 nman bias nan   infinity top   no_minus
    [DT_F8E4M3FN] = {3, 7, 0x7f, 0, 0x7e, false},   [DT_F8E4M3FNUZ] = {3, 8, 0x80, 0, 0x7f, true},
    [DT_F8E5M2] = {2, 15, 0x7e, 0x7c, 0x7b, false}, [DT_F8E5M2FNUZ] = {2, 16, 0x80, 0, 0x7f, true},
    [DT_F4E2M1] = {1, 1, 0, 0, 7, false},
};

const SmallFloat *dtype_small_float(DType t)
{
    return small_floats[t].top ? &small_floats[t] : NULL;
}

static bool is_small_nan(const SmallFloat *k, unsigned magnitude, unsigned v)
{
    if (k->infinity) return magnitude > k->infinity;
    return k->no_minus ? v == k->nan : k->nan && magnitude == k->nan;
}

static double small_load(DType t, uint8_t v)
{
    const SmallFloat *k = &small_floats[t];
    unsigned sign = 1u << (dtypes[t].bits - 1), magnitude = v & (sign - 1);
    if (is_small_nan(k, magnitude, v)) return NAN;
    int exponent = (int)(magnitude >> k->nman);
    unsigned one = exponent ? 1u << k->nman : 0, mantissa = magnitude & ((1u << k->nman) - 1);
    double m = ldexp((double)(mantissa | one), (exponent ? exponent : 1) - k->bias - k->nman);
    if (k->infinity && magnitude == k->infinity) m = INFINITY;
    return v & sign ? -m : m;
}

static uint8_t small_store(DType t, double v)
{
    const SmallFloat *k = &small_floats[t];
    unsigned sign = signbit(v) ? 1u << (dtypes[t].bits - 1) : 0, code = k->top;
    double magnitude = fabs(v);
    if (isnan(v)) return k->nan;
    if (isinf(v) && k->infinity) {
        code = k->infinity;
    } else if (magnitude < small_load(t, k->top)) {
        int e;
        frexp(magnitude, &e);
        e = magnitude ? (int)max_i64(e - 1, 1 - k->bias) : 1 - k->bias;
        // The leading 1 of a normal number adds one to the exponent field, and so does a carry.
        code = (unsigned)rint(ldexp(magnitude, k->nman - e)) +
               ((unsigned)(e + k->bias - 1) << k->nman);
    }
    return (uint8_t)(code || !k->no_minus ? sign | code : 0);
}

double f64_round_to(DType t, double v)
{
    switch (t) {
    case DT_F16: return f16_to_f32(narrow(v, 5, 10));
    case DT_BF16: return bf16_to_f32(narrow(v, 8, 7));
    case DT_F32: return (float)v;
    default: return dtype_small_float(t) ? small_load(t, small_store(t, v)) : v;
    }
}

#define LOAD(T) (*(const T *)p)
#define STORE(T, value) (*(T *)p = (T)(value))

double dtype_load_f64(DType t, const void *p)
{
    switch (t) {
    case DT_F16: return f16_to_f32(LOAD(uint16_t));
    case DT_BF16: return bf16_to_f32(LOAD(uint16_t));
    case DT_F32: return LOAD(float);
    case DT_F64: return LOAD(double);
    case DT_U64: return (double)LOAD(uint64_t);
    default: break;
    }
    return dtype_small_float(t) ? small_load(t, LOAD(uint8_t)) : (double)dtype_load_i64(t, p);
}

// Truncates; outside [low, high] and for NaN as the header says. `end` is the first double above
// high.
static int64_t saturate(double v, int64_t low, int64_t high, double end)
{
    if (isnan(v)) return 0;
    if (v <= (double)low) return low;
    return v >= end ? high : (int64_t)v;
}

static int64_t saturate_i64(double v)
{
    return saturate(v, INT64_MIN, INT64_MAX, 0x1p63);
}

static uint64_t saturate_u64(double v)
{
    if (!(v > 0)) return 0;
    return v >= 0x1p64 ? UINT64_MAX : (uint64_t)v;
}

int64_t dtype_load_i64(DType t, const void *p)
{
    switch (t) {
    case DT_BOOL: return LOAD(uint8_t) != 0;
    case DT_I4:
    case DT_I2:
    case DT_I8: return LOAD(int8_t);
    case DT_I16: return LOAD(int16_t);
    case DT_I32: return LOAD(int32_t);
    case DT_I64: return LOAD(int64_t);
    case DT_U4:
    case DT_U2:
    case DT_U8: return LOAD(uint8_t);
    case DT_U16: return LOAD(uint16_t);
    case DT_U32: return LOAD(uint32_t);
    case DT_U64: return (int64_t)LOAD(uint64_t);
    case DT_F16:
    case DT_BF16:
    case DT_F32:
    case DT_F64:
    case DT_F8E4M3FN:
    case DT_F8E4M3FNUZ:
    case DT_F8E5M2:
    case DT_F8E5M2FNUZ:
    case DT_F4E2M1: return saturate_i64(dtype_load_f64(t, p));
    case DT_NONE:
    case DT_COUNT: break;
    }
    BUG("load of an element of type %d", (int)t);
}

void dtype_store_f64(DType t, void *p, double v)
{
    switch (t) {
    case DT_F16: STORE(uint16_t, narrow(v, 5, 10)); return;
    case DT_BF16: STORE(uint16_t, narrow(v, 8, 7)); return;
    case DT_F32: STORE(float, v); return;
    case DT_F64: STORE(double, v); return;
    case DT_BOOL: STORE(uint8_t, v != 0); return;
    case DT_U64: STORE(uint64_t, saturate_u64(v)); return;
    case DT_I64: STORE(int64_t, saturate_i64(v)); return;
    default: break;
    }
    if (dtype_small_float(t)) {
        STORE(uint8_t, small_store(t, v));
        return;
    }
    ASSERT(dtype_is_int(t));
    int64_t half = INT64_C(1) << (dtypes[t].bits - 1);
    int64_t low = dtypes[t].class == DC_INT ? -half : 0;
    int64_t high = dtypes[t].class == DC_INT ? half - 1 : 2 * half - 1;
    dtype_store_i64(t, p, saturate(v, low, high, (double)high + 1));
}

// A double on the same side of every bf16 rounding boundary as v: beyond 53 bits, the lost bits
// only leave a mark in the last kept one (rounding to odd: Boldo & Melquiond 2008).
static double to_odd(int64_t v)
{
    uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    if (u >> 53) u = (u & ~UINT64_C(0x7FF)) | ((u & 0x7FF) ? 0x800 : 0);
    return v < 0 ? -(double)u : (double)u;
}

void dtype_store_i64(DType t, void *p, int64_t v)
{
    switch (t) {
    case DT_BOOL: STORE(uint8_t, v != 0); return;
    case DT_I4: STORE(int8_t, (v & 15) - (v & 8) * 2); return;
    case DT_I2: STORE(int8_t, (v & 3) - (v & 2) * 2); return;
    case DT_I8: STORE(int8_t, v); return;
    case DT_I16: STORE(int16_t, v); return;
    case DT_I32: STORE(int32_t, v); return;
    case DT_I64: STORE(int64_t, v); return;
    case DT_U4: STORE(uint8_t, v & 15); return;
    case DT_U2: STORE(uint8_t, v & 3); return;
    case DT_U8: STORE(uint8_t, v); return;
    case DT_U16: STORE(uint16_t, v); return;
    case DT_U32: STORE(uint32_t, v); return;
    case DT_U64: STORE(uint64_t, v); return;
    case DT_F16:
        STORE(uint16_t, narrow((double)v, 5, 10));
        return; // beyond 53 bits it is infinity anyway
    case DT_BF16: STORE(uint16_t, narrow(to_odd(v), 8, 7)); return;
    case DT_F32: STORE(float, v); return;
    case DT_F64: STORE(double, v); return;
    case DT_F8E4M3FN:
    case DT_F8E4M3FNUZ:
    case DT_F8E5M2:
    case DT_F8E5M2FNUZ:
    case DT_F4E2M1: STORE(uint8_t, small_store(t, (double)v)); return;
    case DT_NONE:
    case DT_COUNT: break;
    }
    BUG("store of an element of type %d", (int)t);
}
