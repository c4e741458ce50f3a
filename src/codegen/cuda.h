// SPDX-License-Identifier: Apache-2.0
// CUDA C from lowered kernel IR, and its compilers: NVRTC in this process, or nvcc.
#ifndef HEALD_CODEGEN_CUDA_H
#define HEALD_CODEGEN_CUDA_H

#include "codegen/codegen.h"

// One __global__ function a stage, `NAME_STAGE(buffers..., dims...)`: a pointer for each parameter
// and workspace, then an int64 for each dimension, and if the kernel has CHECKs, a pointer to a
// word of the host that gets the number of one that failed. Includes nothing. Byte-identical for
// equal input. False with a diagnostic for what CUDA cannot express or the architecture lacks.
bool codegen_cuda(const Kernel *k, const Sources *lines, Buf *out, Diag *d);

// Tells every dynamic dimension that nothing bounds a range in which indices of 32 bits do not
// overflow, and adds the requirement that it holds; and blocks, what a GPU can number. Before the
// passes.
void cuda_bound_dims(Kernel *k);

// How a stage is launched.
typedef struct CudaStage {
    int nthread;          // of a block
    int64_t shared_bytes; // dynamic shared memory of a block; 0: it is declared in the text
    bool linear_grid;     // blocks are numbered along x, row-major in (x, y, z)
    bool cooperative;     // all blocks must run at the same time
    bool overlaps;        // it waits by itself for the kernel before it
} CudaStage;
bool cuda_stage(const Kernel *k, const Stage *s, CudaStage *out, Diag *d);

// Architecture as a number: 90 for "sm_90a".
int cuda_arch_number(const char *arch);
// The target for a GPU of that number; of one that is not in the table, the nearest below, with its
// own name. False: it is older than all that are known.
bool cuda_target(Arena *a, int arch, Target *out);

typedef struct CudaToolchain CudaToolchain;

// Finds NVRTC: the file HEALD_NVRTC, which may also be an nvcc, or the library by its names in the
// loader's path and in CUDA's usual folders; otherwise nvcc in PATH. NULL with a message naming
// what was tried and the package that brings one. Used by several threads at once. Never unloaded.
const CudaToolchain *cuda_toolchain_find(Arena *a, const char **why);
const char *cuda_toolchain_version(const CudaToolchain *t); // "NVRTC 13.0 (/usr/lib/libnvrtc.so)"

// What the text becomes: the flags for an architecture, and whether it is PTX that the driver
// compiles, because the compiler does not know the architecture.
typedef struct CudaFlags {
    const char *text; // space separated
    bool ptx;
} CudaFlags;
CudaFlags cuda_toolchain_flags(const CudaToolchain *t, Arena *a, const char *arch);

// Compiles text, kept at source_path, to a cubin or PTX at object_path. NULL, or a message with
// the compiler's words and the path of the source. *log: what it said, figures included.
const char *cuda_toolchain_compile(Arena *a, const CudaToolchain *t, const CudaFlags *flags,
                                   const char *text, const char *source_path,
                                   const char *object_path, char **log);

// The compiler's figures of one entry function; -1 where the log does not tell.
typedef struct CudaFigures {
    int registers, spill_store_bytes, spill_load_bytes, stack_bytes;
    int64_t shared_bytes; // static
} CudaFigures;
bool cuda_log_figures(const char *log, const char *entry, CudaFigures *out); // false: no such entry

#endif
