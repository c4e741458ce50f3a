// SPDX-License-Identifier: Apache-2.0
// What this machine reaches at best, measured with generated kernels: the ceilings of a roofline
// (Williams, Waterman and Patterson 2009).
#ifndef HEALD_JUDGE_CEILING_H
#define HEALD_JUDGE_CEILING_H

#include "codegen/build.h"
#include "judge/count.h"
#include "runtime/cuda.h"

typedef struct Ceilings {
    double flops;        // float32 operations per second, independent fmas
    double bandwidth;    // bytes per second through memory, two streams read and one written
    double launch_s;     // of a kernel that does next to nothing, on all threads
    double narrow_flops; // of products of 16-bit floats; a CPU has none of its own
} Ceilings;

// From <dir>/ceilings.txt if this machine, compiler and number of threads were measured before;
// otherwise measured, which takes about a second, and kept there. HEALD_DIAGNOSTIC with
// diagnostics. A GPU's by its clocks and what its maker says of its kind: nothing is measured.
heald_status ceilings_get(const char *dir, Interner *names, const Target *t, const Builder *b,
                          Device *d, Arena *a, Ceilings *out, Diag *diag, Error *e);

// What keeps work that took so long from being faster: "compute", "memory bandwidth", "launching
// it" or "latency: neither ceiling is near". c->flops must be that of the work's type.
const char *ceilings_limit(const Ceilings *c, const Work *w, double seconds);
// The share of the roofline: 1 at the ceiling that comes first.
double ceilings_share(const Ceilings *c, const Work *w, double seconds);

const char *cpu_name(Arena *a); // "Intel(R) Xeon(R) ..."; "unknown CPU" where it does not say

#endif
