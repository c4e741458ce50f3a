// SPDX-License-Identifier: Apache-2.0
// An executable plan: values, and steps that work on them in order. The plan is symbolic in its
// dimensions and never changes, so threads share it. A PlanRunner runs it on one device for one
// context; a PlanInstance of a runner is the plan for one set of dimensions: all shapes, grids and
// one memory plan.
#ifndef HEALD_RUNTIME_PLAN_H
#define HEALD_RUNTIME_PLAN_H

#include "runtime/device.h"
#include "runtime/tensor.h"

typedef enum PlanValueKind {
    VALUE_CONST,  // a tensor that the plan holds
    VALUE_INPUT,  // the caller's tensor
    VALUE_OUTPUT, // the caller's tensor, written by the plan
    VALUE_TEMP,   // in the runner's memory
    VALUE_VIEW    // the memory of another value, from `offset` elements (of the view's type) on
} PlanValueKind;

// Shape expressions of a plan are over the plan's dimensions.
typedef struct PlanValue {
    PlanValueKind kind;
    const char *name; // for messages; may be NULL
    DType dtype;
    int rank;
    const ShapeExpr *dims;  // (rank)
    heald_tensor *constant; // CONST: held by the maker of the plan as long as the plan lives
    int base;               // VIEW: the value it shows, made before it. TEMP: the TEMP whose memory
                            // it takes over, declared safe by the maker; -1: none
    ShapeExpr offset;       // VIEW
} PlanValue;

typedef enum PlanStepKind {
#define STEP(ID, name) STEP_##ID,
#include "runtime/plan_steps.def"
#undef STEP
    STEP_KIND_COUNT
} PlanStepKind;

typedef struct PlanStep {
    PlanStepKind kind;
    const char *name; // of the node or group it came from, for messages and profiles
    const int *value; // LAUNCH: (nparam) values. COPY: from, to; equal bytes
    int nvalue;
    const RuntimeKernel *kernel; // LAUNCH
    const ShapeExpr *dims;       // LAUNCH: (kernel->ndim), each over the plan's dimensions
} PlanStep;

// A dimension of the plan is the extent of an input along an axis; or, where models compute shapes
// from such, an element of an input of integers: the axis is then its rank + the element's number.
typedef struct PlanDim {
    const char *name; // "batch"; may be NULL
    int input, axis;
} PlanDim;
enum { PLAN_MAX_ELEMENTS = 64 }; // of one input that are dimensions

// What must hold of the dimensions.
typedef struct PlanRequirement {
    ShapeExpr cond;
    const char *message;
} PlanRequirement;

typedef struct Plan {
    Arena *arena; // all below lives here
    VEC(PlanDim) dims;
    VEC(PlanRequirement) requirements;
    VEC(PlanValue) values;
    VEC(PlanStep) steps;
    VEC(int) inputs;  // values of kind INPUT, in the caller's order
    VEC(int) outputs; // values of kind OUTPUT, in the caller's order
} Plan;

// Making a plan. Arrays and names are copied into the plan's arena.
Plan *plan_new(Arena *a);
int plan_dim(Plan *p, const char *name, int input, int axis);
void plan_require(Plan *p, ShapeExpr cond, const char *message);
int plan_const(Plan *p, const char *name, heald_tensor *t);
int plan_input(Plan *p, const char *name, DType dtype, int rank, const ShapeExpr *dims);
int plan_output(Plan *p, const char *name, DType dtype, int rank, const ShapeExpr *dims);
int plan_temp(Plan *p, const char *name, DType dtype, int rank, const ShapeExpr *dims, int alias);
int plan_view(Plan *p, const char *name, int base, ShapeExpr offset, DType dtype, int rank,
              const ShapeExpr *dims);
void plan_launch(Plan *p, const char *name, const RuntimeKernel *k, const int *values,
                 const ShapeExpr *dims);
void plan_copy(Plan *p, const char *name, int from, int to);
// Whether all numbers are in range and all expressions well formed; what comes from a file must be
// asked, plan_runner_create asks anyway. HEALD_FORMAT with what is wrong.
heald_status plan_verify(const Plan *p, Error *e);
// One line a value and a step.
void plan_print(const Plan *p, Buf *out);

typedef struct RunOptions {
    // After each step, with the time it took; `step` counts from 0. Steps do not overlap then, and
    // each is a range of NVTX with its name (see nvtx.h). On a device that runs behind, all are
    // told at the end of a run, and the run is done twice: the first time in ranges.
    void (*profile)(void *user, int step, const char *name, int64_t ns);
    bool (*cancel)(void *user); // before each step; true: stop with HEALD_CANCELLED
    void *user;
    int max_instances; // kept for different dimensions; 0: 16; the least recently used goes first
} RunOptions;

typedef struct PlanRunner PlanRunner;
typedef struct PlanInstance PlanInstance;

// As the options' profile, from now on; NULL: no more.
void plan_runner_profile(PlanRunner *r,
                         void (*profile)(void *user, int step, const char *name, int64_t ns),
                         void *user);

// Plan and device must outlive the runner. Constants must lie in memory that the device reaches.
heald_status plan_runner_create(const Plan *p, Device *d, const RunOptions *o, PlanRunner **out,
                                Error *e);
void plan_runner_destroy(PlanRunner *r); // NULL is fine

// The instance for these input shapes: input_dims[i] has the extents of input i, and if dimensions
// are elements of it, those too. From the cache if the
// dimensions were seen. Belongs to the runner and lives until the next call. HEALD_CHECK_FAILED,
// which names all dimensions, if a requirement does not hold.
heald_status plan_prepare(PlanRunner *r, const int64_t *const *input_dims, PlanInstance **out,
                          Error *e);
// Puts the work in the device's stream, where it has one, and waits for nothing. Tensors lie as
// tensor_usable_on wants it. inputs: as the instance was prepared for. outputs[i] is the caller's
// tensor of the right type and shape, or NULL: then it is created here, and the caller releases it,
// on success only. Outputs may share memory with neither inputs nor each other.
heald_status plan_run(PlanInstance *i, heald_tensor *const *inputs, heald_tensor **outputs,
                      Error *e);
// plan_prepare with the shapes of tensors, and their elements where they are dimensions.
heald_status plan_prepare_tensors(PlanRunner *r, heald_tensor *const *inputs, PlanInstance **out,
                                  Error *e);
// The instance that was used last; NULL: none was. Lives until the next is asked for.
const PlanInstance *plan_runner_last(const PlanRunner *r);
bool plan_takes(PlanRunner *r, heald_tensor *const *inputs); // whether that succeeds
const Plan *plan_runner_plan(const PlanRunner *r);
// plan_prepare_tensors and plan_run.
heald_status plan_run_tensors(PlanRunner *r, heald_tensor *const *inputs, heald_tensor **outputs,
                              Error *e);
// As plan_run_tensors, but tensors may also be the host's where the device has memory of its own,
// or lie there at any address,
// and outputs that are created are. Outputs in the host's memory are there when it returns.
heald_status plan_run_host(PlanRunner *r, heald_tensor *const *inputs, heald_tensor **outputs,
                           Error *e);

const int64_t *plan_instance_dims(const PlanInstance *i, int value); // (rank) of that value
int64_t plan_instance_bytes(const PlanInstance *i);                  // memory for temporaries
int64_t plan_runner_bytes(const PlanRunner *r);                      // memory held for them now

#endif
