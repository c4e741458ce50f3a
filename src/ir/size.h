// SPDX-License-Identifier: Apache-2.0
// Arithmetic of sizes: scalar i64 and bool expressions over dimensions of a launch (VAR_DIM), which
// are exact, never wrapping. Sums of products are brought into one form, so that equal sizes look
// equal, and what bounds decide is decided.
#ifndef HEALD_IR_SIZE_H
#define HEALD_IR_SIZE_H

#include "ir/node.h"

// Whether n is one: made of constants, dimensions, + - * / %, min, max, comparisons, logic, select.
bool size_is(const Node *n);
// An equal size in normal form; n itself where that is it. n must be a size.
Node *size_simplify(Arena *a, Node *n);
// The i64 size that an expression is, where it is computed in other integer types or in reals that
// are integers, as models do: conversions are taken to be exact. NULL: it is none.
Node *size_lift(Arena *a, Node *n);
// Bounds, inclusive; INT64_MIN and INT64_MAX where they are out of range or unknown.
void size_range(const Node *n, int64_t *lo, int64_t *hi);
// Its value where each dimension has the value at hand (Var.hint); false: one has none.
bool size_hint(const Node *n, int64_t *out);
Node *size_copy(Arena *a, const Node *n); // all of it
// A total order of expressions by content.
int size_compare(const Node *x, const Node *y);

#endif
