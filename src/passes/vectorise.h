// SPDX-License-Identifier: Apache-2.0
// Inside the vectoriser: one loop over lanes being rewritten so that all lanes run together.
// Expressions stay scalar while they are the same in every lane, and RAMPs while they are affine.
#ifndef HEALD_PASSES_VECTORISE_H
#define HEALD_PASSES_VECTORISE_H

#include "passes/pass.h"

typedef struct Lanes {
    Kernel *kernel;
    Arena *arena;
    int n;
    Map value;    // Var -> what its reads become
    Map varying;  // Vars that differ between lanes
    Map own;      // Vars declared inside
    Map expanded; // Buffer allocated inside -> one with an element a lane
    Node *mask;   // lanes that run, NULL: all
    bool guarded; // inside an arm that not all lanes take
    bool failed;  // something has no vector form
} Lanes;

// The value in all lanes; sets l->failed where there is none.
Node *lanes_expr(Lanes *l, Node *n);
Node *lanes_widen(Lanes *l, Node *n);
Node *lanes_and(Lanes *l, Node *x, Node *y); // masks; x may be NULL

// Splits a condition into what is the same in all lanes and what is not; either may be NULL.
void lanes_split_condition(Lanes *l, Node *cond, Node **same, Node **mask);
// The indices of an access, an extra one behind them for an expanded buffer. Returns their number.
int lanes_indices(Lanes *l, Node *access, Node **index, Buffer **buffer);

// A masked store has index -1 where its lanes are off: takes the condition from the index, or puts
// it there.
Node *mask_take(Node **index);
Node *mask_put(Arena *a, Node *mask, Node *index);

// Buffers over a mapping of lanes become plain local buffers, in the order of the owners' tasks,
// all lanes of a task together.
void lane_buffers_flatten(Kernel *k);

#endif
