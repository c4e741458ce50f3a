// SPDX-License-Identifier: Apache-2.0
// ONNX test suites: folders with one folder a case, which holds model.onnx and test_data_set_N with
// input_N.pb and output_N.pb. Every case runs in a process of its own.
#ifndef HEALD_API_SUITE_H
#define HEALD_API_SUITE_H

#include "api/context.h"

typedef enum SuiteVerdict { SUITE_PASSED, SUITE_FAILED, SUITE_SKIPPED } SuiteVerdict;

typedef struct SuiteCase {
    const char *path; // of its folder
    const char *name; // the folder's name, with that of the suite: "node/test_add"
    const char *op;   // "Add", or "(several)"; "" where the model could not be read
    SuiteVerdict verdict;
    const char *reason; // why it failed or was skipped: one line or more
    const char *note;   // "" or what is to be known: "specialised on 'axes'"
    int64_t time_ns;
} SuiteCase;
typedef VEC(SuiteCase) SuiteCases;

typedef struct SuiteOptions {
    int nworker;      // 0: cores, but at most 2
    int limit_ms;     // of a case; 0: 60 s
    double rtol;      // 0: 1e-3
    double atol;      // 0: 1e-7
    const char *only; // cases whose name contains it; NULL: all
    void (*done)(void *user, int ndone, int ntotal, const SuiteCase *last); // may be NULL
    void *user;
} SuiteOptions;

// Runs the cases below the folders, in order of name; cases are in `a`. A folder that is itself a
// case is one. The context is used as it is, so nothing else may run in it, and the caller's
// process must have no other threads. Not HEALD_OK, with the message in c->error: nothing was run.
heald_status suite_run(heald_context *c, Arena *a, int nfolder, const char *const *folder,
                       const SuiteOptions *o, SuiteCases *out);

// A table of operators; with `reasons` a line for each case that did not pass; last a line
// "N passed, N failed, N skipped".
void suite_report(const SuiteCases *cases, bool reasons, Buf *out);

#endif
