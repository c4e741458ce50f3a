// SPDX-License-Identifier: Apache-2.0
// A model of the public interface: the graph as it was read, and what it was compiled to for the
// shapes seen so far.
#ifndef HEALD_API_MODEL_H
#define HEALD_API_MODEL_H

#include "api/section.h"
#include "base/os.h"
#include "frontends/onnx_model.h"

typedef struct ModelGiven ModelGiven;

struct heald_model {
    heald_context *context;
    Arena arena;
    FileMap file;
    OnnxModel *onnx;
    Graph *graph;
    heald_value_info *input, *output, *optional; // as graph->inputs, outputs and defaults
    ModelSection section;                        // with the file's values of all optional inputs
    heald_tensor **given; // (defaults) in place of the file's values; NULL: not
    ModelGiven *variant;  // with other optional inputs so far, the last used first
};

// The model with some of its optional inputs among its inputs, compiled apart.
struct ModelGiven {
    Arena arena;
    bool *given; // (defaults) which
    ModelSection section;
    ModelGiven *next;
};

// For the body of a context_call. The instance for these inputs, compiled if they are new; belongs
// to the model, and lives until another one is asked for.
heald_status model_instance(heald_model *m, heald_tensor *const *inputs, ModelInstance **out);
heald_status model_run(heald_model *m, heald_tensor *const *inputs, heald_tensor **outputs);
// The instance that was used last; NULL before the first run.
const ModelInstance *model_current(const heald_model *m);

// "f32[batch, 3]"
const char *value_info_text(Arena *a, const heald_value_info *v);
// Whether a tensor may be that input; HEALD_INVALID_ARGUMENT with a message that tells both shapes.
heald_status model_check_input(heald_model *m, const heald_value_info *v, const heald_tensor *t);

// model_given.c
// What runs with the optional inputs that are given now; made if it is new. For the body of a
// context_call.
heald_status model_section(heald_model *m, ModelSection **out);
// The same if it has been made; otherwise NULL.
const ModelSection *model_current_section(const heald_model *m);
// Its inputs: those of the model, then the given ones. The list lies in `a`.
heald_tensor **model_inputs(const heald_model *m, Arena *a, heald_tensor *const *inputs);
void model_given_free(heald_model *m);

#endif
