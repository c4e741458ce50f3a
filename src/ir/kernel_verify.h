// SPDX-License-Identifier: Apache-2.0
// Shared by the two halves of the verifier: kernel_verify.c (statements, memory, the kernel) and
// kernel_verify_expr.c (expressions). Each check reports what is wrong to the Diag and goes on.
#ifndef HEALD_IR_KERNEL_VERIFY_H
#define HEALD_IR_KERNEL_VERIFY_H

#include "ir/kernel.h"

typedef struct Verifier {
    Arena *arena;
    const Kernel *kernel;
    Diag *diag;
    Map bound;               // Var or Buffer -> non-NULL while in scope
    VEC(const void *) scope; // the same, in order of binding
    int nloop;               // loops around that break and continue may leave
    int nlane;               // loops over lanes around
} Verifier;

#define WRONG(v, n, ...) diag_error((v)->diag, (n)->loc, __VA_ARGS__)

const char *verify_name(const Node *n); // of its kind; "nothing" for NULL
bool verify_in_scope(const Verifier *v, const void *object);
bool verify_complete(Verifier *v, const Node *n); // of kernel IR, with all its children
void verify_expr(Verifier *v, const Node *n);     // may be an INTRIN that gives nothing
void verify_value(Verifier *v, const Node *n);    // an expression that gives a value
void verify_values(Verifier *v, Node *const *kid, int n);
void verify_access(Verifier *v, const Node *n, const Node *value); // LOAD or STORE of `value`
void verify_scalar(Verifier *v, const Node *n, const Node *x, DType type, const char *what);
const char *verify_type_text(const Verifier *v, const Node *n);

#endif
