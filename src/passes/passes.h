// SPDX-License-Identifier: Apache-2.0
// The pipeline from instantiated kernel IR to what codegen prints: the list in passes.def, in
// order.
#ifndef HEALD_PASSES_PASSES_H
#define HEALD_PASSES_PASSES_H

#include "ir/kernel.h"

typedef struct PassOptions {
    bool traps;              // keep a trap in place of each removed guard (debug builds)
    bool verify;             // kernel_verify after every pass
    const char *print_after; // pass name, "all", or NULL
    const char *stop_after;  // pass name or NULL
    Buf *printed;            // where print_after goes
} PassOptions;

typedef struct PassContext {
    Kernel *kernel;
    Diag *diag;
    const PassOptions *options;
} PassContext;

typedef struct PassInfo {
    const char *name, *summary;
    bool (*run)(
        PassContext
            *c); // changes c->kernel in place (new nodes in its arena); false with a diagnostic
} PassInfo;
extern const PassInfo passes[];
extern const int npass;

// Runs the whole list on k. False with diagnostics (an internal inconsistency names the pass).
bool passes_run(Kernel *k, const PassOptions *options, Diag *d);

#endif
