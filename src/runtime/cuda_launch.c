// SPDX-License-Identifier: Apache-2.0
// Launching kernels on a GPU.
#include "runtime/cuda_driver.h"

#include "base/util.h"
#include "runtime/memory.h"

#include <inttypes.h>

enum { MAX_ARGUMENTS = 256, MAX_GRID_X = INT32_MAX, MAX_GRID_YZ = 65535 };

// ---- checks

// Each kernel that has checks keeps a word. When all are taken, kernels share.
static int check_slot(Cuda *c, const RuntimeKernel *k)
{
    uint32_t start = (uint32_t)((uintptr_t)k / 64) % CUDA_MAX_CHECKED;
    for (uint32_t i = 0; i < CUDA_MAX_CHECKED; i++) {
        uint32_t slot = (start + i) % CUDA_MAX_CHECKED;
        if (c->checked[slot] == k) return (int)slot;
        if (c->checked[slot]) continue;
        c->checked[slot] = k;
        return (int)slot;
    }
    c->checked[start] = k;
    return (int)start;
}

heald_status cuda_failed_checks(Cuda *c, Error *e)
{
    heald_status s = HEALD_OK;
    for (int i = 0; i < CUDA_MAX_CHECKED; i++) {
        const RuntimeKernel *k = c->checked[i];
        uint32_t n = k ? c->failed[i] : 0;
        if (!n) continue;
        c->failed[i] = 0;
        const char *text = n <= (uint32_t)k->ncheck ? k->check[n - 1] : NULL;
        s = error_set(e, HEALD_CHECK_FAILED, "kernel %s: check %u failed%s%s", k->name, n,
                      text ? ": " : "", text ? text : "");
    }
    return s;
}

// ---- launching

static heald_status fit_grid(const RuntimeKernel *k, const RuntimeStage *st, const int64_t *grid,
                             unsigned *out, Error *e)
{
    int64_t x = st->linear_grid ? grid[0] * grid[1] * grid[2] : grid[0];
    int64_t y = st->linear_grid ? 1 : grid[1], z = st->linear_grid ? 1 : grid[2];
    if (x > MAX_GRID_X || y > MAX_GRID_YZ || z > MAX_GRID_YZ)
        return error_set(e, HEALD_UNSUPPORTED,
                         "kernel %s, stage %s: a grid of %" PRId64 " x %" PRId64 " x %" PRId64
                         " blocks is more than a GPU takes",
                         k->name, st->name, grid[0], grid[1], grid[2]);
    out[0] = (unsigned)x;
    out[1] = (unsigned)y;
    out[2] = (unsigned)z;
    return HEALD_OK;
}

void cuda_note_launches(Cuda *c, const RuntimeKernel *first, const RuntimeKernel *last, int64_t n)
{
    if (c->nlaunch == 0) c->first = first;
    if (n) c->last = last;
    c->nlaunch += n;
}

// The arguments of a launch: pointers, dimensions, and where a failed check is told.
static heald_status find_arguments(Cuda *c, const RuntimeKernel *k, void *const *buffers,
                                   const int64_t *dims, CudaPointer *failed, void **arg, Error *e)
{
    int n = 0, nbuffer = k->nparam + k->nworkspace;
    if (nbuffer + k->ndim + 1 > MAX_ARGUMENTS)
        return error_set(e, HEALD_UNSUPPORTED, "kernel %s has more than %d arguments", k->name,
                         MAX_ARGUMENTS - 1);
    for (int i = 0; i < nbuffer; i++) arg[n++] = (void *)&buffers[i];
    for (int i = 0; i < k->ndim; i++) arg[n++] = (void *)&dims[i];
    *failed = c->failed_on_device;
    if (k->ncheck) {
        *failed += (CudaPointer)check_slot(c, k) * sizeof(uint32_t);
        arg[n++] = failed;
    }
    return HEALD_OK;
}

// Into the stream. A kernel that waits by itself for what it depends on may start before that ends.
static CudaResult start(Cuda *c, const RuntimeStage *st, const CudaKernelNode *n)
{
    const CudaDriver *v = &c->driver;
    if (st->cooperative)
        return v->launch_cooperative(n->f, n->grid[0], n->grid[1], n->grid[2], n->block[0], 1, 1,
                                     n->shared, c->stream, n->params);
    if (!st->overlaps || !c->overlap || !v->launch_with)
        return v->launch(n->f, n->grid[0], n->grid[1], n->grid[2], n->block[0], 1, 1, n->shared,
                         c->stream, n->params, NULL);
    CudaAttribute serial = {.id = CUDA_ATTRIBUTE_SERIAL, .value.number = 1};
    CudaLaunch l = {.grid = {n->grid[0], n->grid[1], n->grid[2]},
                    .block = {n->block[0], 1, 1},
                    .shared = n->shared,
                    .stream = c->stream,
                    .attribute = &serial,
                    .nattribute = 1};
    return v->launch_with(&l, n->f, n->params, NULL);
}

heald_status cuda_launch(Device *d, const RuntimeKernel *k, int stage, const int64_t *grid,
                         void *const *buffers, const int64_t *dims, Error *e)
{
    Cuda *c = (Cuda *)d;
    const RuntimeStage *st = &k->stage[stage];
    void *arg[MAX_ARGUMENTS];
    CudaPointer failed;
    CudaKernelNode n = {.f = (CudaFunction *)st->entry.handle,
                        .block = {(unsigned)st->nthread, 1, 1},
                        .shared = (unsigned)st->shared_bytes,
                        .params = arg};
    heald_status s = cuda_enter(c, e);
    if (!s) s = find_arguments(c, k, buffers, dims, &failed, arg, e);
    if (!s) s = fit_grid(k, st, grid, n.grid, e);
    if (s) return s;
    if (c->record.graph) return cuda_record_kernel(c, k, st, &n, e);
    CudaResult r = start(c, st, &n);
    if (r == CUDA_COOPERATIVE_TOO_LARGE)
        return error_set(e, HEALD_UNSUPPORTED,
                         "kernel %s, stage %s: %u blocks cannot all run at the same time on %s",
                         k->name, st->name, n.grid[0] * n.grid[1] * n.grid[2], c->info.name);
    s = cuda_result(c, r, e, "kernel %s, stage %s", k->name, st->name);
    if (s) return s;
    cuda_note_launches(c, k, k, 1);
    return c->synchronous ? cuda_wait(c, e) : HEALD_OK;
}
