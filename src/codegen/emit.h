// SPDX-License-Identifier: Apache-2.0
// Printing lowered kernel IR as C. Text goes to `out`; small functions and types that the text uses
// are collected in `helpers`, each once, in the order of first use, so that generated files include
// nothing but <stdint.h>.
#ifndef HEALD_CODEGEN_EMIT_H
#define HEALD_CODEGEN_EMIT_H

#include "codegen/codegen.h"

typedef struct Emit {
    Arena *arena;
    const Kernel *kernel;
    const Stage *stage;
    const Sources *lines;
    Diag *diag;
    Buf *out;
    Buf helpers;
    Interner *names;
    Map seen;              // names of helpers written
    const Node *mask;      // condition that loads are under; NULL: all lanes
    int indent;
    int nchecks;
    Loc last_line;
} Emit;

// ---- statements (c_statement.c)
void emit_statement(Emit *e, const Node *n);
void emit_buffer_name(Emit *e, const Buffer *b);
void emit_var_name(Emit *e, const Var *v);

// ---- expressions: their text is a C expression that binds as tightly as a call
void emit_scalar(Emit *e, const Node *n);   // lanes 1 (c_expression.c)
void emit_vector(Emit *e, const Node *n);   // more (c_vector.c)
void emit_value(Emit *e, const Node *n);    // either
void emit_vector_store(Emit *e, const Node *n);
void emit_intrinsic(Emit *e, const Node *n);                       // pure or with effect
void emit_cannot(Emit *e, const Node *n, const char *what);

// The value of element type t as C computes it: f16 and bf16 in float, bool as int.
const char *emit_value_type(DType t);
const char *emit_storage_type(DType t);
static inline bool emit_is_half(DType t) { return t == DT_F16 || t == DT_BF16; }

// ---- helpers (c_helpers.c): each returns the name, having written the definition if it is new
// A function of helpers.def for an element type (and lanes, 1 for scalars).
const char *emit_helper(Emit *e, const char *name, DType t, int lanes);
// One for a pair of types: h_NAME_FROM_TO.
const char *emit_helper2(Emit *e, const char *name, DType from, DType to, int lanes);
// The vector type of L elements stored or computed as t: "f32x16".
const char *emit_vector_type(Emit *e, DType t, int lanes);

// First lane on and the one after the last, if the lanes of a mask that are on follow one another:
// expressions in i64, not clamped to [0, lanes]. False if that is not known.
bool emit_mask_range(Emit *e, const Node *mask, Node **lo, Node **hi);

#endif
