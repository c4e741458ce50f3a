// SPDX-License-Identifier: Apache-2.0
// How much work the kernels of a model are, by what its operators mean.
#ifndef HEALD_JUDGE_MODEL_WORK_H
#define HEALD_JUDGE_MODEL_WORK_H

#include "graph/model.h"
#include "judge/count.h"

// Of each step of the plan, for the sizes of the instance; narrow: its first operand is of 16-bit
// floats. `known` is the model's graph with all sizes known, for these sizes: the compiled one, or
// one more where that is open. Operators whose meaning is a program count as no operations.
typedef struct StepWork {
    Work work;
    bool narrow;
} StepWork;
StepWork *model_work(const CompiledModel *m, const Graph *known, const PlanInstance *in,
                     const Target *host, Arena *a);

#endif
