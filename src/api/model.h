// SPDX-License-Identifier: Apache-2.0
// A model of the public interface: the graph as it was read, and what it was compiled to for the
// shapes seen so far.
#ifndef HEALD_API_MODEL_H
#define HEALD_API_MODEL_H

#include "api/section.h"
#include "base/os.h"
#include "frontends/onnx_model.h"

struct heald_model {
    heald_context *context;
    Arena arena;
    FileMap file;
    OnnxModel *onnx;
    Graph *graph;
    heald_value_info *input, *output; // as graph->inputs and outputs
    ModelSection section;
};

// For the body of a context_call. The instance for these inputs, compiled if they are new; belongs
// to the model, and lives until another one is asked for.
heald_status model_instance(heald_model *m, heald_tensor *const *inputs, ModelInstance **out);
heald_status model_run(heald_model *m, heald_tensor *const *inputs, heald_tensor **outputs);
// The instance that was used last; NULL before the first run.
const ModelInstance *model_current(const heald_model *m);

#endif
