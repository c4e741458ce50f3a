// SPDX-License-Identifier: Apache-2.0
// Every host allocation of the runtime goes through here, so that tests can make any one fail.
#ifndef HEALD_RUNTIME_MEMORY_H
#define HEALD_RUNTIME_MEMORY_H

#include <stddef.h>
#include <stdint.h>

enum { MEMORY_ALIGN = 64 };

// 64-byte aligned, NULL when memory runs out; size 0 gives a unique pointer.
void *memory_alloc(size_t size); // not zeroed
void *memory_alloc_zeroed(size_t size);
void memory_free(void *p); // NULL is fine

// For tests: the allocation after the next n fails, once; n < 0: none does.
void memory_fail_after(int64_t n);

// size up to the next multiple of MEMORY_ALIGN; INT64_MAX if that overflows. size >= 0.
int64_t memory_round_up(int64_t size);

#endif
