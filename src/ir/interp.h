// SPDX-License-Identifier: Apache-2.0
// The interpreter: a second reader of kernel IR and the oracle for every pass and backend. It takes
// a kernel before or after any pass. Each stage body becomes flat code for a register machine; each
// thread is a resumable context over it (no C recursion), so that barriers, shuffles and mbarriers
// are rendezvous. All threads of a block (of a cluster, for a cooperative launch of the grid) are
// live together; blocks run one after another otherwise. Asynchronous copies stay pending until
// waited for and complete as late as allowed.
#ifndef HEALD_IR_INTERP_H
#define HEALD_IR_INTERP_H

#include "ir/kernel.h"

typedef struct InterpOptions {
    bool check_races;  // happens-before on shared and global memory (slower)
    int64_t max_steps; // 0: 2^40; past it the run ends with an error ("gave up")
    bool (*cancelled)(void *user);
    void (*print)(void *user, const char *text); // what `print` prints
    void *user;
} InterpOptions;

// Runs kernel k. data[i]: memory of params[i], contiguous row-major of its extents at `dims` (or
// its layout's size); workspace is its own. False with diagnostics at source lines: out-of-bounds
// access, read of unwritten memory (workspace, shared, core_local, local), race, divergent barrier,
// missing fence, mbarrier phase error, deadlock, failed CHECK or requirement, access to an element
// not owned, step limit.
bool interp_run(const Kernel *k, void *const *data, const int64_t *dims,
                const InterpOptions *options, Diag *d);

// One pure scalar expression without variables, as the interpreter computes it (INT/FLOAT node
// out). False if it is not that.
bool interp_constant(Arena *a, const Node *n, Node **out);

#endif
