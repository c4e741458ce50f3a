// SPDX-License-Identifier: Apache-2.0
// Printing lowered kernel IR as C or CUDA C. Text goes to `out`; small functions and types that the
// text uses are collected in `helpers`, each once, in the order of first use, so that generated
// files include nothing but <stdint.h>. What the two languages write differently is in a Dialect.
#ifndef HEALD_CODEGEN_EMIT_H
#define HEALD_CODEGEN_EMIT_H

#include "codegen/codegen.h"

typedef struct Emit Emit;

typedef struct Helper { // see helpers.def
    const char *name, *types;
    bool split;
    const char *result, *parameters, *body;
} Helper;

typedef struct Dialect {
    const char *name;      // "C", in messages
    const char *function;  // what the definition of a helper starts with
    const Helper *helpers; // rows that go before those of helpers.def
    int nhelper;
    // Indices that are known to fit 32 bits are computed and kept in int.
    bool narrow_indices;
    const char *local;  // what the definition of local memory starts with
    const char *unroll; // the line before a loop that is to be unrolled; NULL: none
    void (*number)(Emit *e, DType t, double v);              // a constant that is NaN or infinite
    const char *(*body)(Emit *e, const char *what, DType t); // of helpers whose row says @WHAT
    bool (*cast)(Emit *e, Buf *out, DType from, DType to);   // body of a cast; false: as in C
    void (*vector_type)(Emit *e, DType t, int lanes, const char *name);
    void (*vector)(Emit *e, const Node *n);
    void (*vector_store)(Emit *e, const Node *n);
    void (*intrinsic)(Emit *e, const Node *n);
    bool (*statement)(Emit *e, const Node *n);                 // false: as in C
    uint32_t (*together)(Emit *e, Node *const *s, uint32_t n); // statements written; NULL: none
    void (*warp_mask)(Emit *e); // a bit for each thread of one's own warp
} Dialect;
extern const Dialect dialect_c, dialect_cuda;

struct Emit {
    const Dialect *dialect;
    Arena *arena;
    const Kernel *kernel;
    const Stage *stage;
    const Sources *lines;
    Diag *diag;
    Buf *out;
    Buf helpers;
    Interner *names;
    Map seen;               // names of helpers written
    const Node *mask;       // condition that loads are under; NULL: all lanes
    const Node *lane_of;    // CUDA: its operands are written as one lane of a, b and c
    struct CudaState *cuda; // NULL in C
    bool has_fma;           // the kernel calls fma; see emit_negation
    int indent;
    int nchecks;
    // With `lines`: where the script's line of the text up to `counted` in out is.
    const Source *source;
    int line;
    size_t counted;
};

// ---- statements (c_statement.c)
void emit_statement(Emit *e, const Node *n);
void emit_statements(Emit *e, Node *const *s, uint32_t n);
void emit_block(Emit *e, const Node *n);                // in braces, on the line that has begun
void emit_start(Emit *e, const Node *n);                // a new line
void emit_encoded(Emit *e, DType t, const Node *value); // as memory holds it
void emit_line(Emit *e, Loc loc); // what follows, a new line, is of this place
// "WORD (COND) { ... }" without the end of the line.
void emit_conditional(Emit *e, const Node *n, const char *word, const Node *cond, const Node *body);
void emit_buffer_name(Emit *e, const Buffer *b);
void emit_var_name(Emit *e, const Var *v);

// ---- expressions: their text is a C expression that binds as tightly as a call
void emit_scalar(Emit *e, const Node *n); // lanes 1 (c_expression.c)
void emit_vector(Emit *e, const Node *n); // more (c_vector.c)
void emit_value(Emit *e, const Node *n);  // either
void emit_vector_store(Emit *e, const Node *n);
void emit_intrinsic(Emit *e, const Node *n);        // pure or with effect
void emit_pure_intrinsic(Emit *e, Node *n);         // by a helper
void emit_place(Emit *e, Node *ref);                // its address
void emit_text(Emit *e, Node *n, const char *text); // $0, $1 .. replaced
void emit_quoted(Emit *e, const char *text);
void emit_cannot(Emit *e, const Node *n, const char *what);

// gcc makes -(a * b) - c of -fma(a, b, c), which has the other zero where the terms cancel; beside
// an fma, negation flips the sign bit. True if it was emitted that way.
bool emit_negation(Emit *e, const Node *n);
// Whether it is a negation whose result has to be rounded: its type has no -0.
bool emit_lacks_minus_zero(const Node *n);

// The value of element type t as C computes it: short floats in float, bool as int.
const char *emit_value_type(DType t);
const char *emit_storage_type(DType t);
const char *emit_var_type(Emit *e, const Var *v);
// Floats below f32, which are their bits in memory and float in registers.
static inline bool emit_is_short(DType t)
{
    return dtype_is_float(t) && dtypes[t].bits < 32;
}

// ---- helpers (c_helpers.c): each returns the name, having written the definition if it is new
// A function of helpers.def for an element type (and lanes, 1 for scalars).
const char *emit_helper(Emit *e, const char *name, DType t, int lanes);
// One for a pair of types: h_NAME_FROM_TO.
const char *emit_helper2(Emit *e, const char *name, DType from, DType to, int lanes);
// The body of a helper that a row writes as @HALF_LOAD, @HALF_STORE or @HALF_NARROW, for a float of
// at most 8 bits.
const char *emit_small_float(Emit *e, const char *what, DType t);
// The name of a helper that is written elsewhere: true the first time.
bool emit_first_time(Emit *e, const char *name);
DType emit_computed(DType t); // what an element is in registers: f32 for short floats, i32 for bool
DType emit_stored(DType t);   // in memory
const char *emit_plain_vector(Emit *e, DType t, int lanes); // of t itself
// The vector type of L elements stored or computed as t: "f32x16".
const char *emit_vector_type(Emit *e, DType t, int lanes);

// First lane on and the one after the last, if the lanes of a mask that are on follow one another:
// expressions in i64, not clamped to [0, lanes]. False if that is not known.
bool emit_mask_range(Emit *e, const Node *mask, Node **lo, Node **hi);

#endif
