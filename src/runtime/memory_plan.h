// SPDX-License-Identifier: Apache-2.0
// Places values of known size and lifetime in one block of memory: two values that are needed at
// the same time never overlap, unless one is declared an alias of the other.
#ifndef HEALD_RUNTIME_MEMORY_PLAN_H
#define HEALD_RUNTIME_MEMORY_PLAN_H

#include "runtime/status.h"

typedef struct MemoryItem {
    int64_t size;    // bytes
    int first, last; // steps, from 0, that need it, both included; first > last: never
    int alias;       // an item whose memory this one takes over, -1: none. No cycles
    int64_t offset;  // out: a multiple of 64
} MemoryItem;

// *peak_bytes is the size of the block. Equal input, equal plan.
heald_status memory_plan(MemoryItem *item, int n, int64_t *peak_bytes, Error *e);

// What no plan without aliases can beat: the most bytes that are needed in one step.
heald_status memory_lower_bound(const MemoryItem *item, int n, int64_t *bytes, Error *e);

#endif
