// SPDX-License-Identifier: Apache-2.0
// How long a kernel takes: warm-up, then samples over rotated buffers, so that no call finds what
// the call before left in a cache.
#ifndef HEALD_JUDGE_TIMING_H
#define HEALD_JUDGE_TIMING_H

#include "runtime/launch.h"

typedef struct TimingOptions {
    int64_t rotate_bytes; // at least so much is touched before a buffer comes again; 0: no rotation
    double budget_s;      // for all samples; 0: 0.5
    int nsample;          // 0: what the budget allows, 5 to 1000
    bool (*cancelled)(void *user);
    void *user;
} TimingOptions;

typedef struct Timing {
    double median_s, min_s, low_s, high_s; // of one call; low and high: quartiles
    int nsample;
    int batch; // calls in a sample, so that the clock can see it
    int nset;  // sets of buffers
} Timing;

// params: data of (k->nparam) parameters in the host's memory, bytes[i] each, copied into every
// set. On a GPU, the calls of a sample are recorded, and its own clock counts.
heald_status time_kernel(Device *d, const RuntimeKernel *k, const int64_t *dims,
                         void *const *params, const int64_t *bytes, const TimingOptions *o,
                         Timing *out, Error *e);

#endif
