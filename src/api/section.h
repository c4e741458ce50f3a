// SPDX-License-Identifier: Apache-2.0
// Sections of a model and what they are compiled to: a variant for each kind of inputs so far.
#ifndef HEALD_API_SECTION_H
#define HEALD_API_SECTION_H

#include "api/context.h"
#include "graph/model.h"
#include "runtime/section.h"

typedef struct ModelInstance ModelInstance;

typedef struct ModelSection {
    Section base; // first
    heald_context *context;
    const Graph *graph;        // as it was read, or what was left of one
    bool closed;               // it is compiled for the shapes at hand alone
    ModelInstance *unfinished; // being made; still there if that failed
} ModelSection;

struct ModelInstance {
    SectionVariant base; // first
    Arena arena;
    CompiledModel *compiled;
    int nsection;
    ModelSection *section; // by step of the variant; without a graph where the step needs none
    const char *note;      // inputs whose elements it is made for
};

void model_section_init(ModelSection *s, heald_context *c, const Graph *g);
void model_section_free(ModelSection *s);
// For the body of a context_call. The instance for these inputs, compiled if they are new; belongs
// to the section, and lives until another one is asked for. What follows it is compiled when a run
// gets there.
heald_status model_section_instance(ModelSection *s, heald_tensor *const *inputs,
                                    ModelInstance **out);
// Before an instance runs: on the device, if it is not yet.
heald_status model_section_load(ModelSection *s, ModelInstance *in);
// The instance that was used last; NULL: none was.
const ModelInstance *model_section_current(const ModelSection *s);

// What was compiled so far, of the section and of those after it.
typedef struct SectionCount {
    int nsection, nplan, nkernel, ncached;
} SectionCount;
void model_section_count(const ModelSection *s, SectionCount *count); // adds to count

#endif
