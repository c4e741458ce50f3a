// SPDX-License-Identifier: Apache-2.0
// What the `heald kernel` commands share: the script, its kernels, their data.
#ifndef HEALD_CLI_KERNEL_JOB_H
#define HEALD_CLI_KERNEL_JOB_H

#include "api/kernel.h"
#include "cli/cli.h"
#include "judge/data.h"

typedef struct KernelJob {
    Cli *cli;
    heald_context *context;
    Arena *arena; // of the call
    ScriptOptions options;
    KernelDecls kernels; // those to work on
    const Node *file;    // the script
    int64_t seed;
    int64_t max_steps; // of the interpreter
    bool failed_check; // exit status 1 rather than 0
} KernelJob;

// Which kernels of a script a command works on without --kernel.
typedef enum KernelPick {
    PICK_ALL,
    PICK_TARGET, // those for --target; all, if it is `interp` or there are none
    PICK_STAGE   // those that have the text of --stage; the same
} KernelPick;

// Runs body with the script of the operand read and the options taken; gives the exit status.
typedef heald_status KernelBody(KernelJob *j);
int kernel_command(Cli *c, KernelPick pick, const ScriptExtents *extents, KernelBody *body);
// Each of j->kernels in turn; what one has diagnostics about does not hinder the others. The first
// failure.
typedef heald_status KernelOne(KernelJob *j, const Node *decl);
heald_status kernel_each(KernelJob *j, KernelOne *one);

bool kernel_is_gpu(const Node *decl); // an op is not

// NULL with diagnostics.
ScriptKernel *kernel_instantiate(KernelJob *j, const Node *decl, Arena *a);

// Memory for each parameter, 64-byte aligned, in `a`; the bytes of outputs are 0xff.
typedef struct KernelData {
    int n;
    void **at;
    int64_t *nelem, *bytes; // (n)
} KernelData;
KernelData kernel_data(Arena *a, const ScriptKernel *k);
// Inputs from --input or random; HEALD_* with c->error.
heald_status kernel_data_fill(KernelJob *j, const ScriptKernel *k, KernelData *d, bool special);
void kernel_data_clear_outputs(const ScriptKernel *k, KernelData *d);

// Compiled and loaded; release with kernel_release. k->kernel is lowered by it.
heald_status kernel_compile(KernelJob *j, const ScriptKernel *k, Arena *a, BuiltKernel **out);

// "f32[3, 5]"
const char *param_text(Arena *a, const ScriptParam *p);

#endif
