// SPDX-License-Identifier: Apache-2.0
// Element types, one table. Other rooms add no list of their own: they read this one.
#ifndef HEALD_BASE_DTYPE_H
#define HEALD_BASE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum DTypeClass { DC_NONE, DC_BOOL, DC_INT, DC_UINT, DC_FLOAT } DTypeClass;

typedef enum DType {
#define DTYPE(ID, name, class, bits, acc, c, cuda, onnx) DT_##ID,
#include "base/dtypes.def"
#undef DTYPE
    DT_COUNT
} DType;

typedef struct DTypeInfo {
    const char *name; // in the language: "f32"
    DTypeClass class;
    int bits; // of a value; in memory each has whole bytes, in ONNX's files those below 8 share one
    DType acc; // what sums of it accumulate in
    // Spelling in generated code; narrow floats are their bits in memory: uint16_t, uint8_t.
    const char *c, *cuda;
    int onnx; // TensorProto.DataType, 0: none
} DTypeInfo;

extern const DTypeInfo dtypes[DT_COUNT];

DType dtype_from_name(const char *name); // DT_NONE when unknown
DType dtype_from_onnx(int64_t onnx);     // DT_NONE when unknown
static inline bool dtype_is_float(DType t)
{
    return dtypes[t].class == DC_FLOAT;
}
static inline bool dtype_is_int(DType t)
{
    return dtypes[t].class == DC_INT || dtypes[t].class == DC_UINT;
}
int64_t dtype_bytes(DType t, int64_t nelem); // memory of nelem >= 0 elements; INT64_MAX if more
static inline size_t dtype_size(DType t)
{
    return (size_t)(dtypes[t].bits + 7) / 8;
}

// How the bits of a float of at most 8 bits are read.
typedef struct SmallFloat {
    int nman, bias;
    uint8_t nan;      // a NaN; 0: there is none, and NaN becomes 0
    uint8_t infinity; // 0: there is none
    uint8_t top;      // the largest number
    bool no_minus;    // the bits of -0 are NaN's
} SmallFloat;
const SmallFloat *dtype_small_float(DType t); // NULL: it is none

// Conversions of one element in memory (aligned for its type). Floats round to nearest even; float
// to integer truncates and saturates (NaN gives 0); integer to narrower integer wraps. Numbers
// beyond the largest of a small float become that, and so do infinities where it has none.
double dtype_load_f64(DType t, const void *p);
int64_t dtype_load_i64(DType t, const void *p); // u64 keeps its bits
void dtype_store_f64(DType t, void *p, double v);
void dtype_store_i64(DType t, void *p, int64_t v);
float f16_to_f32(uint16_t h);
uint16_t f32_to_f16(float f);
float bf16_to_f32(uint16_t h);
uint16_t f32_to_bf16(float f);
double f64_round_to(DType t, double v); // v rounded to the values of t (floats)

#endif
