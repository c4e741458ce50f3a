// SPDX-License-Identifier: Apache-2.0
// The allocator of the runtime: aligned memory from the C library, and a countdown that lets tests
// fail one allocation. The countdown is the runtime's only variable with global state.
#include "runtime/memory.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static atomic_int_fast64_t countdown = -1;

static int fails_now(void)
{
    if (atomic_load_explicit(&countdown, memory_order_relaxed) < 0) return 0;
    return atomic_fetch_sub(&countdown, 1) == 0;
}

void memory_fail_after(int64_t n)
{
    atomic_store(&countdown, n);
}

int64_t memory_round_up(int64_t size)
{
    if (size > INT64_MAX - (MEMORY_ALIGN - 1)) return INT64_MAX;
    return (size + MEMORY_ALIGN - 1) / MEMORY_ALIGN * MEMORY_ALIGN;
}

void *memory_alloc(size_t size)
{
    if (size > PTRDIFF_MAX - MEMORY_ALIGN || fails_now()) return NULL;
    int64_t rounded = memory_round_up((int64_t)size);
    return aligned_alloc(MEMORY_ALIGN, rounded ? (size_t)rounded : MEMORY_ALIGN);
}

void *memory_alloc_zeroed(size_t size)
{
    void *p = memory_alloc(size);
    if (p) memset(p, 0, size);
    return p;
}

void memory_free(void *p)
{
    free(p);
}
