// SPDX-License-Identifier: Apache-2.0
// Sections of a model. Where only a run tells how large something is or how often a loop turns, a
// model is several sections, each compiled for what it is given: a plan, then steps that give
// results to further sections. Between them are tensors, numbered as slots: a section's inputs,
// then the outputs of its plan, then the outputs of its steps.
#ifndef HEALD_RUNTIME_SECTION_H
#define HEALD_RUNTIME_SECTION_H

#include "runtime/plan.h"

typedef struct Section Section;

typedef enum SectionStepKind {
#define STEP(ID, name) SECTION_##ID,
#include "runtime/section_steps.def"
#undef STEP
    SECTION_STEP_COUNT
} SectionStepKind;

typedef struct SectionStep {
    SectionStepKind kind;
    const char *name; // of the node it came from
    int ninput, noutput;
    const int *input, *output; // slots; -1: none, or not wanted
    Section *section;          // what runs: LOOP, SCAN: the body
    int ncarried;              // LOOP, SCAN: from one iteration to the next
    bool counted;              // LOOP: nothing but its number of iterations ends it
    int nscan;                 // SCAN: inputs that are read slice by slice
    // SCAN: (nscan) and (outputs - ncarried); NULL: axis 0, forwards
    const int64_t *in_axis, *in_backwards, *out_axis, *out_backwards;
} SectionStep;

enum { SECTION_MAX_VARIANTS = 16, SECTION_MAX_DEPTH = 200, SECTION_MAX_TRIPS = 10000000 };

// What a run of a model has come to: sections within sections, iterations of all its loops.
typedef struct SectionRun {
    int depth;
    int64_t trips;
} SectionRun;

// A section for some inputs; it belongs to its maker.
typedef struct SectionVariant {
    // It serves all extents that its plan takes, or else those in `dims` alone.
    bool open;
    const int64_t **dims; // (inputs) rank, then extents, of the inputs at hand when it was made
    const void **fixed;   // (inputs) elements that it is for, where shapes depend on them; or NULL
    PlanRunner *runner;
    int nslot, nstep;
    const SectionStep *step;
    const int *output; // (outputs) slots
    uint64_t used;     // the section's clock at the last use
} SectionVariant;

struct Section {
    int ninput, noutput;
    Device *device;
    // A variant for these inputs; NULL: what there is must do.
    heald_status (*make)(Section *s, heald_tensor *const *inputs, SectionVariant **out, Error *e);
    void (*drop)(Section *s, SectionVariant *v); // takes a variant's memory back
    bool (*cancel)(void *user); // before each iteration; true: stop with HEALD_CANCELLED. Or NULL
    void *user;
    SectionVariant *variant[SECTION_MAX_VARIANTS];
    int nvariant;
    uint64_t clock;
};

// The variant for these inputs, made if they are new; lives until another one is asked for.
heald_status section_variant(Section *s, heald_tensor *const *inputs, SectionVariant **out,
                             Error *e);
// All inputs and all outputs are tensors of the section's device; outputs are made here, and the
// caller releases them, on success only.
heald_status section_run(Section *s, heald_tensor *const *inputs, heald_tensor **outputs,
                         SectionRun *run, Error *e);
// With tensors of the host or the device. outputs[i]: NULL, or the caller's tensor of the right
// type and shape.
heald_status section_run_host(Section *s, heald_tensor *const *inputs, heald_tensor **outputs,
                              Error *e);
void section_free(Section *s); // its variants

const char *section_step_name(SectionStepKind kind);
// section_step.c: one step; slot: all tensors so far.
heald_status section_step(const Section *s, const SectionStep *st, heald_tensor **slot,
                          SectionRun *run, Error *e);

#endif
