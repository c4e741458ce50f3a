// SPDX-License-Identifier: Apache-2.0
// A model compiled for one set of input shapes: fusion groups lowered to kernels, built in
// parallel, and a plan that runs them.
#ifndef HEALD_GRAPH_MODEL_H
#define HEALD_GRAPH_MODEL_H

#include "codegen/build.h"
#include "graph/graph.h"
#include "runtime/plan.h"

typedef struct CompileOptions {
    Target target;
    Builder builder; // interpret: run by the interpreter
    FuseOptions fuse;
    Pool *pool; // kernels are built by it; NULL: one after another
    // Before a kernel is built, from any thread. May be NULL.
    void (*progress)(void *user, int done, int total, const char *name);
    void *user;
} CompileOptions;

typedef struct CompiledModel {
    Arena *arena;
    const Graph *graph; // specialised
    Groups groups;
    VEC(BuiltKernel *) kernels; // distinct ones
    VEC(heald_tensor *) constants;
    VEC(Arena *) arenas; // one a kernel
    Plan *plan;
    int ncached; // kernels that were in the cache
} CompiledModel;

// Compiles a specialised graph; everything lies in `a`, which must outlive the model, as must the
// graph. Without a model: HEALD_DIAGNOSTIC with diagnostics, or another status with e.
heald_status model_compile(const Graph *g, Arena *a, const CompileOptions *o, CompiledModel **out,
                           Diag *d, Error *e);
void model_release(CompiledModel *m); // kernels and constants; NULL is fine
// Before a runner of the plan is made for a device with memory of its own: kernels are loaded
// there, constants copied, and what depends on them alone is computed, once. For other devices
// there is nothing to do. The device outlives the model.
heald_status model_load(CompiledModel *m, Device *d, Error *e);

// A kernel for a group by its op's meaning alone: what folding and small tools run. The arena
// outlives it. NULL with diagnostics.
Kernel *node_kernel(const Graph *g, const GraphNode *n, int output, Arena *a, const Target *t,
                    Diag *d);

#endif
