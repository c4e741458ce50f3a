// SPDX-License-Identifier: Apache-2.0
// From an instantiated Kernel to something that a device runs: lowered, printed as C or CUDA,
// compiled or found in the cache, and loaded; or kept as it is for the interpreter.
#ifndef HEALD_CODEGEN_BUILD_H
#define HEALD_CODEGEN_BUILD_H

#include "codegen/codegen.h"
#include "codegen/cuda.h"
#include "passes/passes.h"
#include "runtime/device.h"
#include "runtime/module.h"

typedef struct Builder {
    bool interpret;             // no C: the kernel is run by the device "interp"
    bool source_only;           // stop at the C text: entry points come by kernel_load
    const Toolchain *toolchain; // for C
    const CudaToolchain *cuda;  // for kernels whose target is a GPU
    Cache *cache;
    PassOptions passes;
    // NULL, or code points to its places in these, whose tables of lines have been made
    const Sources *lines;
} Builder;

typedef struct BuiltKernel {
    RuntimeKernel runtime;
    const Kernel *kernel; // lowered, or as it came for the interpreter
    const char *source;   // C or CUDA text; NULL for the interpreter
    const char *dir;      // of its cache entry; NULL for the interpreter
    Module *module;       // owned: see kernel_release
    bool cached;          // it was in the cache
    const char *image;    // CUDA: the path of the cubin or PTX
    Device *device;       // where kernel_load_on has loaded it
    DeviceModule *loaded; // owned
} BuiltKernel;

// k gets its name, h_<op>_<hash of its contents>; with C it is lowered in place. HEALD_DIAGNOSTIC
// with diagnostics in d, or another status with its message in e. May run in several threads at
// once
// if a, k->arena and d are the thread's own.
heald_status kernel_build(const Builder *b, Arena *a, Kernel *k, const char *op, BuiltKernel **out,
                          Diag *d, Error *e);
void kernel_release(BuiltKernel *k); // NULL is fine; before its device is closed
// Entry points on a device, for kernels of GPUs; for others there is nothing to do. In the thread
// of
// the device.
heald_status kernel_load_on(Arena *a, BuiltKernel *k, Device *d, Error *e);
// Entry points for a kernel that was built with source_only, from a shared object that holds it,
// perhaps among others.
heald_status kernel_load(Arena *a, BuiltKernel *k, const char *path, Error *e);

// Sizes over a kernel's dynamic dimensions, for the runtime. False with a diagnostic for what is
// none.
bool kernel_shape_expr(Arena *a, const Kernel *k, const Node *n, ShapeExpr *out, Diag *d);

#endif
