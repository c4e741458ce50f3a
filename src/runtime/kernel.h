// SPDX-License-Identifier: Apache-2.0
// A compiled kernel as the runtime sees it: entry points, and shape expressions over the kernel's
// own dimensions for everything that depends on the shape. Never changes; made in an arena by
// whoever compiles or loads it.
#ifndef HEALD_RUNTIME_KERNEL_H
#define HEALD_RUNTIME_KERNEL_H

#include "runtime/shape_expr.h"

// Runs blocks first .. last-1 of one stage. buffers: parameters, then workspaces. scratch: 64-byte
// aligned, scratch_bytes of the stage. Returns 0 or the number of the check that failed, from 1, in
// the first block where one did.
typedef int32_t CpuEntry(void *const *buffers, const int64_t *dims, int64_t first, int64_t last,
                         void *scratch);

enum { STAGE_MAX_GRID = 3 };

typedef struct RuntimeStage {
    const char *name;
    union {
        CpuEntry *cpu;
        const void *handle; // any other device's
    } entry;
    int ngrid; // 0: one block
    ShapeExpr grid[STAGE_MAX_GRID];
    int64_t scratch_bytes; // of each worker
    // On a GPU:
    int nthread;          // of a block
    int64_t shared_bytes; // dynamic shared memory of a block
    bool linear_grid;     // blocks are numbered along x, row-major in (x, y, z)
    bool cooperative;     // all blocks run at the same time
    bool overlaps;        // it waits by itself (griddepcontrol.wait) for what it depends on
} RuntimeStage;

typedef struct RuntimeRequirement {
    ShapeExpr cond;
    const char *message;
} RuntimeRequirement;

typedef struct RuntimeKernel {
    const char *name;
    int ndim;    // int64 dimensions that it is called with
    int nparam;  // tensors: inputs, then outputs
    int noutput; // 0: not known, any may be written
    int nworkspace;
    int nstage;
    int nrequirement;
    int ncheck;                        // 0 if the texts are not known
    const ShapeExpr *workspace_bytes;  // (nworkspace)
    const RuntimeStage *stage;         // (nstage), run in order
    const RuntimeRequirement *require; // (nrequirement)
    const char *const *check;          // (ncheck), texts of the checks 1, 2...
} RuntimeKernel;

#endif
