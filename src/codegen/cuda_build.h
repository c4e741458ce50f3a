// SPDX-License-Identifier: Apache-2.0
// What the two halves of kernel_build, for C and for CUDA, know of each other.
#ifndef HEALD_CODEGEN_CUDA_BUILD_H
#define HEALD_CODEGEN_CUDA_BUILD_H

#include "codegen/build.h"

// How each stage of the lowered kernel is launched.
bool cuda_fill_stages(const Kernel *k, RuntimeKernel *r, Diag *d);
// Compiles out->source, or finds it in the cache; sets dir, image and cached.
heald_status cuda_build(const Builder *b, Arena *a, const char *op, BuiltKernel *out, Error *e);

// Writes log.txt of an entry, and says what a failure `why` of its compiler (NULL: none) is. NULL,
// `why`, or that the log could not be written.
const char *build_log(Arena *a, const char *dir, const char *log, const char *why,
                      CacheFailure *failure);

#endif
