// SPDX-License-Identifier: Apache-2.0
// The CUDA half of kernel_build.
#ifndef HEALD_CODEGEN_CUDA_BUILD_H
#define HEALD_CODEGEN_CUDA_BUILD_H

#include "codegen/build.h"

// How each stage of the lowered kernel is launched.
bool cuda_fill_stages(const Kernel *k, RuntimeKernel *r, Diag *d);
// Compiles out->source, or finds it in the cache; sets dir, image and cached.
heald_status cuda_build(const Builder *b, Arena *a, const char *op, BuiltKernel *out, Error *e);

#endif
