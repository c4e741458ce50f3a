// SPDX-License-Identifier: Apache-2.0
// Inside of runners and instances, for the files that implement them: plan_prepare.c makes
// instances, plan_run.c runs them, in the order of plan_order.c; plan_graph.c records them,
// plan_profile.c times each step.
#ifndef HEALD_RUNTIME_PLAN_INSTANCE_H
#define HEALD_RUNTIME_PLAN_INSTANCE_H

#include "runtime/launch.h"
#include "runtime/memory_plan.h"
#include "runtime/plan.h"

typedef struct PlanGraph PlanGraph;

struct PlanInstance {
    PlanRunner *runner;
    uint64_t used; // the runner's clock at the last use
    int64_t memory_bytes;
    int64_t *key;        // (plan dims)
    int64_t *dims;       // of all values, one after another: see runner->dims_at
    int64_t *bytes;      // (values)
    int64_t *offset;     // (values), bytes: TEMP in the runner's memory, VIEW in its base
    int64_t *workspace;  // (steps), bytes in the runner's memory
    int64_t *step_dims;  // of all steps: see runner->step_dims_at
    int64_t *words;      // of all launches: see runner->words_at
    LaunchShape *launch; // (steps)
    int nrun;            // without a graph
    bool unrecorded;     // it cannot be recorded
    PlanGraph *graph;    // NULL: not recorded yet
};

struct PlanRunner {
    const Plan *plan;
    Device *device;
    RunOptions options;
    void *profile_user; // of options.profile
    void *memory;       // for temporaries of any instance; grows
    int64_t memory_bytes;
    int ndims, nstep_dims, nwords; // in all values, steps and launches
    int nbuffer;                   // the most of one launch
    int *dims_at;                  // (values)
    int *step_dims_at, *words_at;  // (steps)
    MemoryItem *life;              // (values + steps), sizes 0; a step's item is its workspace
    MemoryItem *item;              // (values + steps), for planning
    MemoryItem *placed;            // (values + steps), the latest memory plan
    int64_t placed_bytes;          // of its block
    int nplan;                     // memory plans made so far
    int *order;                    // (steps), by number, in the order in which they run
    int *time;                     // (steps) of each: those of the same time may run together
    int *start;                    // (steps), while the order is made: by time, the next's place
    int *written, *used;           // (values), while the order is made
    bool *moved;                   // (values), inputs and outputs that are not where they were
    void **address;                // (values), of the current run
    void **buffers;                // (nbuffer), of the current launch
    bool *created;                 // (outputs), in the current run
    const int64_t **input_dims;    // (inputs)
    int64_t *elements;             // of inputs that have dimensions among them: see elements_at
    int *elements_at;              // (inputs); -1: none
    int nelement;
    int64_t *key;            // (plan dims)
    PlanInstance **instance; // (options.max_instances)
    int ninstance;
    uint64_t clock;
};

static inline int64_t *instance_dims(const PlanInstance *i, int value)
{
    return i->dims + i->runner->dims_at[value];
}

// Sets order and time.
void plan_order(PlanRunner *r);
bool plan_step_records(const PlanStep *st);       // whether it can be part of a graph
bool plan_step_writes(const PlanStep *st, int i); // whether it may write its value i

heald_status plan_run_step(const PlanInstance *in, int step, Error *e);

// Before a run, with the addresses at hand: whether the run is to be one of graphs. Makes them in
// the second run.
bool plan_graph_prepare(PlanInstance *in);
// The graph whose first step is at *at of the order, and sets *at to its last; NULL: none starts
// there.
DeviceGraph *plan_graph_at(PlanInstance *in, int *at);
void plan_graph_drop(PlanInstance *in); // none is fine
// The steps one after another, each timed and told to options.profile.
heald_status plan_run_profiled(const PlanInstance *in, Error *e);

// Makes the runner's memory at least so large.
heald_status runner_reserve(PlanRunner *r, int64_t bytes, Error *e);

#endif
