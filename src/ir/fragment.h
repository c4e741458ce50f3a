// SPDX-License-Identifier: Apache-2.0
// The operands of mma: tiles of c (16, 8), a (16, k) and b (k, 8) whose elements the 32 lanes of a
// warp hold in a fixed order, which is a task mapping (PTX ISA, "Matrix Fragments for mma"). A
// lane's elements fill its 32-bit registers; k is what 32 bytes hold, so 16 for f16 and bf16, 32
// for i8 and u8, 8 for f32, whose 13 lowest bits mma takes for 0 (tf32). Where c is f32, bytes are
// the bits of floats: u8 of e4m3, i8 of e5m2 (OCP 8-bit Floating Point Specification, 2023).
//
// In text an operand is a region of a local buffer `over` a mapping whose innermost part is the
// fragment's. After lower_mapping it is a run of the thread's own elements, in the fragment's
// order.
#ifndef HEALD_IR_FRAGMENT_H
#define HEALD_IR_FRAGMENT_H

#include "ir/kernel.h"

typedef enum FragmentKind { FRAGMENT_A, FRAGMENT_B, FRAGMENT_C } FragmentKind;
enum { FRAGMENT_LANES = 32, FRAGMENT_MAX_TASKS = 16, LDMATRIX_ROW = 8, LDMATRIX_MAX = 4 };

// What a fragment has when a and b are of type `ab`.
typedef struct Fragment {
    FragmentKind kind;
    int64_t shape[2];
    int ntask; // elements of a lane
    int pack;  // of a register
    int along; // the axis along which the elements of a register are neighbours
} Fragment;
Fragment fragment_of(FragmentKind kind, DType ab);

// Element number `task` of a lane.
void fragment_task(const Fragment *f, int lane, int task, int64_t index[2]);

// Whether the innermost part of m is the fragment's mapping.
bool fragment_fits(const Mapping *m, const Fragment *f);

// The name of a and b's type in mma with that type of c, or NULL: there is no such mma.
const char *fragment_mma_type(DType ab, DType c);

// The value of a byte of type u8 or i8 as an operand of such an mma.
double fragment_f8(DType ab, int64_t bits);

// NULL, or what is wrong with the operands of an mma, or of ldmatrix, stmatrix and the intrinsics
// of rows that they become.
const char *fragment_wrong(Arena *a, const Node *intrin);

// The fragment that ldmatrix fills a buffer with, and stmatrix takes from it: 16-bit elements.
bool fragment_of_matrices(const Buffer *b, Fragment *out);
// Which operand of ldmatrix, stmatrix or their rows is the thread's own, 0 or 1; the other is in
// shared memory. -1: another intrinsic.
int fragment_own_operand(const Intrinsic *intr);

#endif
