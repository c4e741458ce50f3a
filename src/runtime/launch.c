// SPDX-License-Identifier: Apache-2.0
// Launching a kernel: requirements, workspaces and grids first, then its stages in order.
#include "runtime/launch.h"

#include "base/util.h"
#include "runtime/memory.h"

#include <inttypes.h>

int launch_nword(const RuntimeKernel *k)
{
    return k->nworkspace + k->nstage * STAGE_MAX_GRID;
}

static heald_status require_all(const RuntimeKernel *k, const int64_t *dims, Error *e)
{
    for (int i = 0; i < k->nrequirement; i++) {
        int64_t holds;
        heald_status s = shape_eval(k->require[i].cond, dims, &holds, e);
        if (s) return error_prefix(e, s, "kernel %s, a requirement", k->name);
        if (!holds) {
            return error_set(e, HEALD_CHECK_FAILED, "kernel %s: %s", k->name,
                             k->require[i].message);
        }
    }
    return HEALD_OK;
}

static heald_status place_workspaces(const RuntimeKernel *k, const int64_t *dims, LaunchShape *l,
                                     Error *e)
{
    for (int i = 0; i < k->nworkspace; i++) {
        int64_t bytes;
        heald_status s = shape_eval(k->workspace_bytes[i], dims, &bytes, e);
        if (s) return error_prefix(e, s, "kernel %s, workspace %d", k->name, i);
        if (bytes < 0) {
            return error_set(e, HEALD_INVALID_ARGUMENT,
                             "kernel %s: workspace %d has %" PRId64 " bytes", k->name, i, bytes);
        }
        l->workspace_offset[i] = l->workspace_bytes;
        if (!add_i64(l->workspace_bytes, memory_round_up(bytes), &l->workspace_bytes)) {
            return error_no_memory(e, bytes, k->name);
        }
    }
    return HEALD_OK;
}

static heald_status size_grid(const RuntimeKernel *k, int stage, const int64_t *dims, int64_t *grid,
                              Error *e)
{
    const RuntimeStage *st = &k->stage[stage];
    bool empty = false, fits = true;
    int64_t nblock = 1;
    for (int i = 0; i < STAGE_MAX_GRID; i++) {
        grid[i] = 1;
        if (i >= st->ngrid) continue;
        heald_status s = shape_eval(st->grid[i], dims, &grid[i], e);
        if (s) return error_prefix(e, s, "kernel %s, stage %s, grid", k->name, st->name);
        if (grid[i] < 0) {
            return error_set(e, HEALD_INVALID_ARGUMENT,
                             "kernel %s, stage %s: a grid has %" PRId64 " blocks", k->name,
                             st->name, grid[i]);
        }
        empty = empty || grid[i] == 0;
        fits = fits && mul_i64(nblock, grid[i], &nblock);
    }
    // Half, because a pool's counter of tasks runs past the end.
    if (!empty && (!fits || nblock > INT64_MAX / 2)) {
        return error_set(e, HEALD_INVALID_ARGUMENT,
                         "kernel %s, stage %s: the grid has more blocks than can be counted",
                         k->name, st->name);
    }
    if (empty) grid[0] = grid[1] = grid[2] = 0;
    return HEALD_OK;
}

heald_status launch_shape(const RuntimeKernel *k, const int64_t *dims, int64_t *words,
                          LaunchShape *l, Error *e)
{
    *l = (LaunchShape){.workspace_offset = words, .grid = words + k->nworkspace, .empty = true};
    heald_status s = require_all(k, dims, e);
    if (!s) s = place_workspaces(k, dims, l, e);
    for (int i = 0; i < k->nstage && !s; i++) {
        int64_t *grid = &l->grid[i * STAGE_MAX_GRID];
        s = size_grid(k, i, dims, grid, e);
        if (grid[0]) l->empty = false;
    }
    return s;
}

heald_status launch_run(Device *d, const RuntimeKernel *k, const LaunchShape *l,
                        void *const *buffers, const int64_t *dims, Error *e)
{
    heald_status s = HEALD_OK;
    d->small = l->small;
    for (int i = 0; i < k->nstage && !s; i++) {
        const int64_t *grid = &l->grid[i * STAGE_MAX_GRID];
        if (grid[0]) s = d->ops->launch(d, k, i, grid, buffers, dims, e);
    }
    d->small = false;
    return s;
}

heald_status launch_kernel(Device *d, const RuntimeKernel *k, void *const *params,
                           const int64_t *dims, Error *e)
{
    size_t nbuffer = (size_t)k->nparam + (size_t)k->nworkspace;
    size_t bytes = nbuffer * sizeof(void *) + (size_t)launch_nword(k) * sizeof(int64_t);
    int64_t *words = memory_alloc(bytes);
    if (!words) return error_no_memory(e, (int64_t)bytes, "a launch");
    void **buffers = (void **)(words + launch_nword(k));
    for (int i = 0; i < k->nparam; i++) buffers[i] = params[i];
    LaunchShape l = {0};
    void *workspace = NULL;
    heald_status s = launch_shape(k, dims, words, &l, e);
    if (!s) s = device_workspace(d, l.workspace_bytes, &workspace, e);
    if (!s) {
        for (int i = 0; i < k->nworkspace; i++) {
            buffers[k->nparam + i] = (char *)workspace + l.workspace_offset[i];
        }
        s = launch_run(d, k, &l, buffers, dims, e);
    }
    memory_free(words);
    return s;
}
