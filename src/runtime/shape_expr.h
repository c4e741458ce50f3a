// SPDX-License-Identifier: Apache-2.0
// Integer expressions over dimensions, as postfix code: what a compiled plan keeps of symbolic
// shapes, without the compiler. Evaluation is exact: an overflow or a division by zero makes the
// result undefined, which is a status, unless a select, an `and` or an `or` does not need it.
#ifndef HEALD_RUNTIME_SHAPE_EXPR_H
#define HEALD_RUNTIME_SHAPE_EXPR_H

#include "base/vec.h"
#include "runtime/status.h"

typedef enum ShapeOpKind {
#define SHAPE_OP(ID, spelling, operands, prec) SHAPE_##ID,
#include "runtime/shape_ops.def"
#undef SHAPE_OP
    SHAPE_OP_COUNT
} ShapeOpKind;

typedef struct ShapeOp {
    ShapeOpKind op;
    int64_t value; // CONST: itself; DIM: its number; else 0
} ShapeOp;

typedef struct ShapeExpr {
    const ShapeOp *code; // borrowed from the arena of the builder
    int n;
} ShapeExpr;

enum { SHAPE_MAX_DEPTH = 64 }; // values on the stack at once

// Builders. Constants are folded. The operands may be used again. An expression that would need
// more than SHAPE_MAX_DEPTH values is built all the same, and found by shape_valid.
ShapeExpr shape_const(Arena *a, int64_t value);
ShapeExpr shape_dim(Arena *a, int dim);
ShapeExpr shape_op(Arena *a, ShapeOpKind op, ShapeExpr x, ShapeExpr y); // two operands
ShapeExpr shape_not(Arena *a, ShapeExpr x);
ShapeExpr shape_select(Arena *a, ShapeExpr cond, ShapeExpr yes, ShapeExpr no);
ShapeExpr shape_copy(Arena *a, ShapeExpr e);
bool shape_is_const(ShapeExpr e, int64_t *value);

// Whether the code is well formed over ndim dimensions. What comes from a file must be asked.
bool shape_valid(ShapeExpr e, int ndim);

// e must be valid. HEALD_INVALID_ARGUMENT when the result is undefined.
heald_status shape_eval(ShapeExpr e, const int64_t *dims, int64_t *out, Error *err);

// Infix. names (may be NULL: "d0", "d1"...) are those of the dimensions.
void shape_print(ShapeExpr e, const char *const *names, Buf *out);

#endif
