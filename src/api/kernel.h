// SPDX-License-Identifier: Apache-2.0
// Kernels of the public interface, and the options of heald_compile as the rest of Heald wants
// them.
#ifndef HEALD_API_KERNEL_H
#define HEALD_API_KERNEL_H

#include "api/context.h"
#include "judge/script.h"

struct heald_kernel {
    heald_context *context; // whose names and sources it uses
    Arena arena;
    const ScriptKernel *script;
    BuiltKernel *built;
    heald_value_info *param; // (script->nparam)
    const char *ir;          // as instantiated
    const char *lowered;     // NULL for the interpreter
};

// For the body of a context_call. o->extents and the flags are left alone. HEALD_DIAGNOSTIC, or
// HEALD_INVALID_ARGUMENT with c->error.
heald_status compile_options_take(heald_context *c, Arena *a, const heald_compile_options *from,
                                  ScriptOptions *o);

// The kernels of a file by name, or all of them. HEALD_NOT_FOUND with c->error if there is no such.
typedef VEC(const Node *) KernelDecls;
heald_status file_kernels(heald_context *c, Arena *a, const Node *file, const char *path,
                          const char *name, KernelDecls *out);

#endif
