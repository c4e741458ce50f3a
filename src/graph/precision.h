// SPDX-License-Identifier: Apache-2.0
// The types that a model's f32 may be computed in, and what that costs.
#ifndef HEALD_GRAPH_PRECISION_H
#define HEALD_GRAPH_PRECISION_H

#include "base/dtype.h"

typedef enum Precision {
    // f32 itself, and products of f32 from three of tf32, which are as good
    PRECISION_F32,
    PRECISION_TF32X3,
    // products of f32 rounded to 11 significant bits, where the machine has them
    PRECISION_TF32,
    // weights and activations are of that type
    PRECISION_BF16,
    PRECISION_F16,
    PRECISION_COUNT
} Precision;

typedef struct PrecisionInfo {
    const char *name;
    DType type;       // of weights and activations
    int tf32;         // as Target.tf32
    double tolerance; // relative, of a whole model's results; 0: those of f32
} PrecisionInfo;
extern const PrecisionInfo precisions[PRECISION_COUNT];

bool precision_from_name(const char *name, Precision *out); // false: no such

#endif
