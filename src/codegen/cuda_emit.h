// SPDX-License-Identifier: Apache-2.0
// Inside the CUDA emitter: the state of the stage being written.
#ifndef HEALD_CODEGEN_CUDA_EMIT_H
#define HEALD_CODEGEN_CUDA_EMIT_H

#include "codegen/cuda.h"
#include "codegen/emit.h"

enum { CUDA_MAX_THREADS = 1024, CUDA_WARP = 32, CUDA_BARRIERS = 16 };

// Which threads run a statement: all, or those of the roles around it.
typedef struct CudaRole {
    bool member[CUDA_MAX_THREADS];
    int size, first; // threads, the first of them
    int barrier;     // its number, 0: the block's own
} CudaRole;

struct CudaState {
    int arch;
    CudaStage stage;
    const CudaRole *role;
    Map defined;    // Var -> its value, of the whole stage
    int nbarrier;   // numbers used up for roles, from the top
    bool may_leave; // a thread may end while the others go on
    bool grid_barrier;
};

static inline int cuda_arch(const Emit *e)
{
    return e->cuda->arch;
}

int64_t cuda_vector_align(DType t, int lanes);
// Whether the address of element `base` is a multiple of the alignment of a vector of L elements.
bool cuda_is_aligned(const Buffer *b, const Node *base, int lanes);
// Writes the first of n statements as one access where they load, or store, side by side; returns
// how many, 0: none.
uint32_t cuda_together(Emit *e, Node *const *s, uint32_t n);
bool cuda_statement(Emit *e, const Node *n);
void cuda_vector(Emit *e, const Node *n);
void cuda_vector_store(Emit *e, const Node *n);
void cuda_intrinsic(Emit *e, const Node *n);
void cuda_warp_mask(Emit *e);
void cuda_shared_address(Emit *e, Node *ref); // an asm operand
void cuda_mma(Emit *e, Node *n);
void cuda_matrix_rows(Emit *e, Node *n);

#endif
