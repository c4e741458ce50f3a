// SPDX-License-Identifier: Apache-2.0
// Memory of a GPU. Asking the driver is slow and stops the GPU, so what is freed is kept and given
// out again; as all work is in one stream, that is safe at once. It goes back when memory runs
// short.
#include "runtime/cuda_driver.h"

#include "base/util.h"
#include "runtime/memory.h"

#include <inttypes.h>
#include <string.h>

enum { SMALL_BYTES = 1 << 20, SMALL_STEP = 512, LARGE_STEP = 2 << 20 };

static int64_t rounded(int64_t bytes)
{
    int64_t step = bytes < SMALL_BYTES ? SMALL_STEP : LARGE_STEP;
    return max_i64((bytes + step - 1) / step, 1) * step;
}

// The smallest free block that fits without wasting a quarter of it.
static CudaBlock *find_free(Cuda *c, int64_t bytes)
{
    CudaBlock *best = NULL;
    for (int i = 0; i < c->nblock; i++) {
        CudaBlock *b = &c->block[i];
        if (b->used || b->bytes < bytes || b->bytes - bytes > bytes / 3) continue;
        if (!best || b->bytes < best->bytes) best = b;
    }
    return best;
}

static bool room_for_block(Cuda *c)
{
    if (c->nblock < c->block_capacity) return true;
    int capacity = c->block_capacity ? 2 * c->block_capacity : 64;
    CudaBlock *more = memory_alloc((size_t)capacity * sizeof *more);
    if (!more) return false;
    if (c->nblock) memcpy(more, c->block, (size_t)c->nblock * sizeof *more);
    memory_free(c->block);
    c->block = more;
    c->block_capacity = capacity;
    return true;
}

static void give_back(Cuda *c, bool all)
{
    int kept = 0;
    for (int i = 0; i < c->nblock; i++) {
        CudaBlock *b = &c->block[i];
        if (all || !b->used) c->driver.memory_free(b->p);
        else c->block[kept++] = *b;
    }
    c->nblock = kept;
}

void cuda_free_all(Cuda *c)
{
    give_back(c, true);
    memory_free(c->block);
    c->block = NULL;
    c->block_capacity = 0;
}

heald_status cuda_allocate(Device *d, int64_t bytes, void **out, Error *e)
{
    Cuda *c = (Cuda *)d;
    *out = NULL;
    heald_status s = cuda_enter(c, e);
    if (s) return s;
    if (bytes > INT64_MAX - LARGE_STEP) return error_no_memory(e, bytes, c->info.name);
    int64_t size = rounded(bytes);
    CudaBlock *b = find_free(c, size);
    if (b) {
        b->used = true;
        *out = (void *)(uintptr_t)b->p;
        return HEALD_OK;
    }
    if (!room_for_block(c)) return error_no_memory(e, bytes, "a block of memory");
    CudaPointer p = 0;
    CudaResult r = c->driver.memory_alloc(&p, (size_t)size);
    if (r == CUDA_OUT_OF_MEMORY) {
        give_back(c, false);
        r = c->driver.memory_alloc(&p, (size_t)size);
    }
    if (r == CUDA_OUT_OF_MEMORY) {
        size_t left = 0, total = 0;
        c->driver.memory_info(&left, &total);
        return error_set(e, HEALD_NO_MEMORY,
                         "out of memory on %s: %" PRId64 " bytes asked for, %zu of %zu free",
                         c->info.name, bytes, left, total);
    }
    s = cuda_result(c, r, e, "memory of the GPU");
    if (s) return s;
    c->block[c->nblock++] = (CudaBlock){p, size, true};
    *out = (void *)(uintptr_t)p;
    return HEALD_OK;
}

void cuda_free(Device *d, void *p)
{
    Cuda *c = (Cuda *)d;
    for (int i = 0; p && i < c->nblock; i++)
        if (c->block[i].p == (CudaPointer)(uintptr_t)p) c->block[i].used = false;
}
