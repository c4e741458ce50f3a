// SPDX-License-Identifier: Apache-2.0
// Layouts: where an element lives. A layout over a shape gives each index tuple a storage index in
// [0, size).
//   strided:  sum i_k s_k; row_major, column_major and strided(d; ranks) are this; size = 1 + sum
//     (d_k - 1) s_k
//   local(d): 0 for all; size 1
//   f * g:    f(x / d_g) size_g + g(x mod d_g); shape d_f d_g
//   f + g:    shape concatenated, f(head) size_g + g(tail)
//   swizzle:  base with index dim replaced by i_dim xor (i_by >> log_step), the operand taken mod
//     d_dim when it can exceed it
//   permute, reshape: base at the permuted or row-major relinearised index
#ifndef HEALD_IR_LAYOUT_H
#define HEALD_IR_LAYOUT_H

#include "base/vec.h"

enum { LAYOUT_MAX_RANK = 8, LAYOUT_MAX_PARTS = 64 };

typedef enum LayoutKind {
    LAYOUT_STRIDED,
    LAYOUT_LOCAL,
    LAYOUT_COMPOSE,
    LAYOUT_CONCAT,
    LAYOUT_SWIZZLE,
    LAYOUT_PERMUTE,
    LAYOUT_RESHAPE
} LayoutKind;

typedef struct Layout {
    LayoutKind kind;
    int rank;
    int64_t shape[LAYOUT_MAX_RANK];
    int64_t size;
    int64_t stride[LAYOUT_MAX_RANK];    // strided
    const struct Layout *outer, *inner; // compose, concat: both; others: outer is the base
    int dim, by, log_step;              // swizzle
    int perm[LAYOUT_MAX_RANK]; // permute: index k of this layout is index perm[k] of the base
    int nparts;                // nodes of this tree, at most LAYOUT_MAX_PARTS
} Layout;                      // immutable, in an arena; compositions and concatenations lean left

// Each returns NULL with *why set on nonsense (see mapping.h).
const Layout *layout_row_major(Arena *a, int rank, const int64_t *shape, const char **why);
const Layout *layout_column_major(Arena *a, int rank, const int64_t *shape, const char **why);
const Layout *layout_ranked(Arena *a, int rank, const int64_t *shape, const int *order,
                            const char **why);
const Layout *layout_strided(Arena *a, int rank, const int64_t *shape, const int64_t *stride,
                             const char **why);
const Layout *layout_local(Arena *a, int rank, const int64_t *shape, const char **why);
const Layout *layout_compose(Arena *a, const Layout *outer, const Layout *inner, const char **why);
const Layout *layout_concat(Arena *a, const Layout *head, const Layout *tail, const char **why);
const Layout *layout_swizzle(Arena *a, const Layout *base, int dim, int by, int log_step,
                             const char **why); // by -1: the other of two
const Layout *layout_permute(Arena *a, const Layout *base, const int *perm, const char **why);
const Layout *layout_reshape(Arena *a, const Layout *base, int rank, const int64_t *shape,
                             const char **why);

// Every index must lie in the shape.
int64_t layout_index(const Layout *l, const int64_t *index);
bool layout_injective(
    const Layout *l); // by construction where known, else by enumeration (size <= 2^20), else false
bool layout_equal(const Layout *a, const Layout *b);
void layout_print(const Layout *l,
                  Buf *out); // "row_major(8, 4).swizzle(1)", as the language reads it

#endif
