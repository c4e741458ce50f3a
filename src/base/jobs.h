// SPDX-License-Identifier: Apache-2.0
// Jobs that may crash, hang or eat memory: each runs in a forked child, so the others go on.
#ifndef HEALD_BASE_JOBS_H
#define HEALD_BASE_JOBS_H

#include "base/vec.h"

typedef struct JobResult {
    int exit_status; // of the child; 128 + signal when killed
    bool timed_out;
    int64_t time_ns;
    const char *text; // what the job wrote, 0-terminated, at most 64 KiB
} JobResult;

typedef struct JobOptions {
    int nworker;          // children at a time; 0: one
    int limit_ms;         // of one job; 0: none. What a late child started is killed with it
    int64_t memory_bytes; // address space of one job; 0: not limited. Sanitizers lift it
    // In the parent, after each job. May be NULL.
    void (*done)(void *user, int job, const JobResult *result);
} JobOptions;

// In the child: the job's number; what is put into `out` becomes its result's text. The return
// value is the exit status.
typedef int JobFn(void *user, int job, Buf *out);

// Runs jobs 0 .. n-1; results has room for n. Children are copies of the caller as it is now, so
// the caller has no other threads. NULL on success, otherwise a message: a child could not be made.
const char *jobs_run(Arena *a, int n, const JobOptions *o, JobFn *fn, void *user,
                     JobResult *results);

#endif
