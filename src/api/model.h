// SPDX-License-Identifier: Apache-2.0
// A model of the public interface: the graph as it was read, and what it was compiled to for the
// shapes seen so far.
#ifndef HEALD_API_MODEL_H
#define HEALD_API_MODEL_H

#include "api/context.h"
#include "base/os.h"
#include "frontends/onnx_model.h"
#include "graph/model.h"

typedef struct ModelInstance {
    Arena arena;
    // It serves every size of the dimensions that the model leaves open, as far as its plan allows;
    // otherwise the shapes in `dims` alone.
    bool open;
    const int64_t **dims; // (inputs) rank, then extents, of the inputs at hand when it was made
    const void **fixed;   // (inputs) elements that it is for, where shapes depend on them; or NULL
    CompiledModel *compiled;
    PlanRunner *runner;
    uint64_t used; // the model's clock at the last use
} ModelInstance;

enum {
    MODEL_MAX_INSTANCES = 16,
    MODEL_MAX_INPUTS = 256 // with more of them, nothing stays open
};

struct heald_model {
    heald_context *context;
    Arena arena;
    FileMap file;
    OnnxModel *onnx;
    Graph *graph;
    heald_value_info *input, *output; // as graph->inputs and outputs
    ModelInstance *instance[MODEL_MAX_INSTANCES];
    int ninstance;
    ModelInstance *unfinished; // being made; still there if that failed
    uint64_t clock;
};

// For the body of a context_call. The instance for these inputs, compiled if they are new; belongs
// to the model, and lives until another one is asked for.
heald_status model_instance(heald_model *m, heald_tensor *const *inputs, ModelInstance **out);
heald_status model_run(heald_model *m, heald_tensor *const *inputs, heald_tensor **outputs);
// The instance that was used last; NULL before the first run.
const ModelInstance *model_current(const heald_model *m);

#endif
