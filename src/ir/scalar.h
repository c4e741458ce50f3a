// SPDX-License-Identifier: Apache-2.0
// One value of one element type, and what every pure operation of kernel IR does to it. This is the
// one definition of meaning: constant folding and the interpreter both call it.
#ifndef HEALD_IR_SCALAR_H
#define HEALD_IR_SCALAR_H

#include "ir/kernel.h"

typedef struct Scalar {
    DType type;
    union {
        int64_t i; // bool (0 or 1) and integers: in the range of the type; u64 keeps its bits
        double f;  // floats: a value of the type, held exactly
    } v;
} Scalar;

enum { SCALAR_MAX_OPERANDS = 3 };

Scalar scalar_int(DType type, int64_t v);  // an integer or bool type; v wraps into it
Scalar scalar_float(DType type, double v); // a float type; v is rounded to it
Scalar scalar_load(DType type, const void *p);
void scalar_store(const Scalar *s, void *p); // p: memory of an element of s->type
bool scalar_bits_equal(const Scalar *a,
                       const Scalar *b); // same type and bits; any two NaNs are equal

// The operator `kind` (ADD .. LE, NEG, NOT, BNOT, SELECT, CAST, BITCAST) of kernel IR on one lane.
// `type` is the result's type. LAND, LOR and SELECT take operands already evaluated. False if the
// operation is not defined on these types, or `kind` is none of these.
bool scalar_apply(NodeKind kind, DType type, const Scalar *x, Scalar *out);

// A pure intrinsic on one lane; false if it is not pure, works across lanes (lane_sum), or is not
// defined on the type.
bool scalar_intrinsic(IntrinsicId id, const Scalar *x, Scalar *out);

// The value of an INT or FLOAT node of kernel IR; false for every other node.
bool scalar_of(const Node *n, Scalar *out);
Node *scalar_node(Arena *a, Loc loc, const Scalar *s);

#endif
