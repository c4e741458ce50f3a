// SPDX-License-Identifier: Apache-2.0
// simplify.rules, parsed by the language's own parser and applied to kernel IR.
#ifndef HEALD_PASSES_RULES_H
#define HEALD_PASSES_RULES_H

#include "ir/kernel.h"

typedef struct Rules Rules;

Rules *rules_new(Arena *a);
int rules_count(void);
const char *rules_pattern(int i); // text of rule i's pattern

// What the first rule that matches n itself makes of it, folded at its root; NULL if none matches.
// n's children have been simplified. *which: the rule, if not NULL.
Node *rules_apply(const Rules *r, Arena *a, Node *n, int *which);

#endif
