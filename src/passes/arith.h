// SPDX-License-Identifier: Apache-2.0
// Arithmetic that passes do on expressions while they build them. Index arithmetic keeps a vector
// that is affine in the lane a RAMP, and cancels what divides, so that addresses stay readable for
// the backend. Operands may mix scalars and vectors; a scalar stands for every lane.
#ifndef HEALD_PASSES_ARITH_H
#define HEALD_PASSES_ARITH_H

#include "ir/kernel.h"

Node *arith_ramp(Arena *a, Node *base, int64_t stride, int lanes);
Node *arith_widen(Arena *a, Node *x, int lanes); // x, or BROADCAST of a scalar; lanes 1: x

// Integers of one type.
Node *arith_add(Arena *a, Node *x, Node *y);
Node *arith_sub(Arena *a, Node *x, Node *y);
Node *arith_mul(Arena *a, Node *x, Node *y);
Node *arith_div(Arena *a, Node *x, int64_t d); // floor(x / d), d > 0
Node *arith_mod(Arena *a, Node *x, int64_t d); // x mod d in [0, d)

// A sum without its constant terms, which are added to *constant. NULL: nothing is left.
Node *arith_split(Arena *a, Node *n, int64_t *constant);

// Any binary operator, comparison included, the narrower operand widened; folded.
Node *arith_binary(Arena *a, NodeKind kind, Node *x, Node *y);

// Folds a whole tree of expressions and statements, bottom up.
Node *arith_fold(Arena *a, Node *n);

// lane l of x is base + l * stride (base scalar); a scalar has stride 0. False if not affine.
bool arith_affine(Arena *a, Node *x, Node **base, int64_t *stride);

#endif
