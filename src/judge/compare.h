// SPDX-License-Identifier: Apache-2.0
// Comparing two tensors of equal shape element by element.
#ifndef HEALD_JUDGE_COMPARE_H
#define HEALD_JUDGE_COMPARE_H

#include "base/dtype.h"

// Same bits, any NaN equal to any other. The number of elements that differ; *first is one of them.
int64_t compare_bits(DType type, const void *got, const void *want, int64_t nelem, int64_t *first);

typedef struct Tolerance {
    double rtol, atol;   // |got - want| <= atol + rtol |want|
    const double *extra; // (nelem) added to that, or NULL
} Tolerance;

typedef struct Difference {
    int64_t nbad;     // elements outside the tolerance; NaN and infinities must agree exactly
    int64_t first;    // the first of them
    double max_abs;   // largest |got - want|
    double max_rel;   // largest |got - want| / |want| where want is not 0
    double got, want; // at `first`, or else at the largest difference
    bool constant;    // all wanted elements are equal, and there are several
} Difference;

Difference compare_close(DType got_type, const void *got, DType want_type, const void *want,
                         int64_t nelem, const Tolerance *t);

// The largest magnitude of a finite element, 0 without one.
double largest_magnitude(DType type, const void *data, int64_t nelem);

#endif
