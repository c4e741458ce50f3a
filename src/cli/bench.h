// SPDX-License-Identifier: Apache-2.0
// What heald bench finds out about one batch size of a model, and how it is told.
#ifndef HEALD_CLI_BENCH_H
#define HEALD_CLI_BENCH_H

#include "cli/model_job.h"
#include "judge/ceiling.h"
#include "judge/model_work.h"

typedef struct BenchStep {
    const PlanStep *step;
    StepWork work;  // of all its launches in a run
    double seconds; // likewise
    int nlaunch;
    int section; // which one of the model's, from 1
} BenchStep;

typedef struct BenchKernel { // all launches of one kernel
    const PlanStep *first;
    int nlaunch, section;
    Work work;
    bool narrow;
    double seconds;
} BenchKernel;

typedef struct Bench {
    ModelJob *job;
    const char *target;    // "NVIDIA H200", or the processor
    const char *precision; // "f32"
    const char *how;       // as model_precision_text
    int64_t batch;         // extent of the first axis of the first input; 1 where it has none
    int threads;
    int nrun;
    double median_s, min_s, low_s, high_s; // of a run until its results are there
    double host_s;                         // of the call alone; 0: it waits anyway
    Ceilings ceilings;
    int nstep;
    BenchStep *step; // (nstep), of a section in the order in which they ran
    int nlaunch;
    int nkernel;
    BenchKernel *kernel;  // (nkernel), by time
    double kernels_s;     // of all of them, one after another
    int64_t memory_bytes; // for temporary values
    int nsection;         // of the model, that a run gets to
} Bench;

// For the body of a context_call, with the Bench as user: times kernels, after runs that have
// compiled everything.
heald_status bench_profile(heald_context *c, Arena *scratch, void *user);

// Of a kernel of that type.
Ceilings bench_ceilings(const Bench *b, bool narrow);

void bench_print(const Bench *b);                            // as text, to stdout
void bench_json(const Bench *b, int n, Arena *a, Buf *out);  // (n) batch sizes, one object
void bench_trace(const Bench *b, int n, Arena *a, Buf *out); // as Chrome's trace events

#endif
