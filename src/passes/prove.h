// SPDX-License-Identifier: Apache-2.0
// A small prover for index inequalities. An expression becomes a linear form over variables and
// opaque terms; what is inside is replaced by its bounds, innermost variable first, until only
// constants are left. So a tile's last row `(ceil(m, b) - 1) * b` is below m without knowing m.
#ifndef HEALD_PASSES_PROVE_H
#define HEALD_PASSES_PROVE_H

#include "ir/kernel.h"

typedef struct Prover Prover;

// Knows the loops, definitions and mapping loops of the stage. Vars must be defined once.
Prover *prover_new(Arena *a, const Kernel *k, const Stage *s);

bool prove_nonnegative(Prover *p, Node *x);
// An expression over the grid's block numbers and the launch's dimensions alone that is at most x
// wherever x is evaluated; NULL if none is found.
Node *prove_lower_bound_of_block(Prover *p, Node *x);

#endif
