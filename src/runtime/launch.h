// SPDX-License-Identifier: Apache-2.0
// Launching one kernel. What depends only on the dimensions is worked out once, as a LaunchShape;
// running it then evaluates nothing.
#ifndef HEALD_RUNTIME_LAUNCH_H
#define HEALD_RUNTIME_LAUNCH_H

#include "runtime/device.h"

typedef struct LaunchShape {
    int64_t workspace_bytes;   // of all workspaces together, each 64-byte aligned
    int64_t *workspace_offset; // (nworkspace)
    int64_t *grid;             // (nstage, 3)
    bool empty;                // no stage has blocks
    bool small; // so little work that sharing it costs more; set by the plan, for the CPU
} LaunchShape;

int launch_nword(const RuntimeKernel *k); // words that launch_shape needs
// Checks the requirements and fills *s, whose arrays are in words, which must outlive it.
// HEALD_CHECK_FAILED with kernel and message if a requirement does not hold.
heald_status launch_shape(const RuntimeKernel *k, const int64_t *dims, int64_t *words,
                          LaunchShape *s, Error *e);

// Runs all stages. buffers: nparam parameters, then nworkspace workspaces.
heald_status launch_run(Device *d, const RuntimeKernel *k, const LaunchShape *s,
                        void *const *buffers, const int64_t *dims, Error *e);

// All of it, with workspaces from the device's own cache. Waits for nothing beyond what the device
// does in order. HEALD_CHECK_FAILED names kernel, stage and check.
heald_status launch_kernel(Device *d, const RuntimeKernel *k, void *const *params,
                           const int64_t *dims, Error *e);

#endif
