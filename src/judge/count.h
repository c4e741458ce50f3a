// SPDX-License-Identifier: Apache-2.0
// How much work a kernel is: float operations that it executes, and bytes that it must move at
// least.
#ifndef HEALD_JUDGE_COUNT_H
#define HEALD_JUDGE_COUNT_H

#include "ir/kernel.h"

typedef struct Work {
    double flops; // float operations, fma counting as two; guarded work counts as done
    double bytes; // of all parameters, each read or written once
} Work;

// k: as instantiated, before any pass. dims: of its dynamic dimensions.
Work kernel_work(const Kernel *k, const int64_t *dims);

#endif
