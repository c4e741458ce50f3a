// SPDX-License-Identifier: Apache-2.0
// Random data for tests and measurements: normal floats, small integers. Equal seed, equal data, on
// every machine.
#ifndef HEALD_JUDGE_DATA_H
#define HEALD_JUDGE_DATA_H

#include "base/dtype.h"

typedef struct Random {
    uint64_t state;
} Random;

uint64_t random_next(Random *r);  // SplitMix64
double random_uniform(Random *r); // [0, 1)
double random_normal(Random *r);  // mean 0, variance 1

// special: NaN, infinities, zeros of both signs and denormals among the floats.
void random_fill(Random *r, DType type, void *data, int64_t nelem, bool special);

#endif
