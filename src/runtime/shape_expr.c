// SPDX-License-Identifier: Apache-2.0
// Shape expressions. Undefined values are carried on the stack next to the defined ones, so that
// only what is needed decides.
#include "runtime/shape_expr.h"

#include "base/util.h"

#include <inttypes.h>
#include <string.h>

static const struct {
    const char *spelling;
    int operands, prec;
} ops[SHAPE_OP_COUNT] = {
#define SHAPE_OP(ID, spelling, operands, prec) {spelling, operands, prec},
#include "runtime/shape_ops.def"
#undef SHAPE_OP
};

typedef enum Undefined { FINE, TOO_LARGE, BY_ZERO } Undefined;

typedef struct Slot {
    int64_t v;
    Undefined bad;
} Slot;

static Slot slot_ok(int64_t v)
{
    return (Slot){v, FINE};
}

// x / y or x % y.
static Slot divide(ShapeOpKind op, int64_t x, int64_t y)
{
    if (y == 0) return (Slot){0, BY_ZERO};
    if (op == SHAPE_MOD) return slot_ok(y == -1 ? 0 : floor_mod_i64(x, y));
    if (x == INT64_MIN && y == -1) return (Slot){0, TOO_LARGE};
    return slot_ok(floor_div_i64(x, y));
}

static Slot apply_defined(ShapeOpKind op, int64_t x, int64_t y)
{
    int64_t v = 0;
    bool fits = true;
    switch (op) {
    case SHAPE_ADD: fits = add_i64(x, y, &v); break;
    case SHAPE_SUB: fits = sub_i64(x, y, &v); break;
    case SHAPE_MUL: fits = mul_i64(x, y, &v); break;
    case SHAPE_DIV:
    case SHAPE_MOD: return divide(op, x, y);
    case SHAPE_MIN: v = min_i64(x, y); break;
    case SHAPE_MAX: v = max_i64(x, y); break;
    case SHAPE_EQ: v = x == y; break;
    case SHAPE_NE: v = x != y; break;
    case SHAPE_LT: v = x < y; break;
    case SHAPE_LE: v = x <= y; break;
    case SHAPE_AND: v = x && y; break;
    case SHAPE_OR: v = x || y; break;
    case SHAPE_NOT: v = !x; break;
    default: BUG("shape operation %d", op);
    }
    return fits ? slot_ok(v) : (Slot){0, TOO_LARGE};
}

// s: the operands, of which a SELECT has three.
static Slot apply(ShapeOpKind op, const Slot *s)
{
    if (op == SHAPE_SELECT) return s[0].bad ? s[0] : s[0].v ? s[1] : s[2];
    if (op == SHAPE_NOT) return s[0].bad ? s[0] : apply_defined(op, s[0].v, 0);
    if (op == SHAPE_AND || op == SHAPE_OR) {
        // One side may decide alone.
        bool decisive = op == SHAPE_OR;
        for (int i = 0; i < 2; i++) {
            if (!s[i].bad && (s[i].v != 0) == decisive) return slot_ok(decisive);
        }
    }
    if (s[0].bad) return s[0];
    if (s[1].bad) return s[1];
    return apply_defined(op, s[0].v, s[1].v);
}

heald_status shape_eval(ShapeExpr e, const int64_t *dims, int64_t *out, Error *err)
{
    if (e.n == 1) { // most are
        *out = e.code->op == SHAPE_CONST ? e.code->value : dims[e.code->value];
        return HEALD_OK;
    }
    Slot stack[SHAPE_MAX_DEPTH];
    int n = 0;
    for (int i = 0; i < e.n; i++) {
        ShapeOp c = e.code[i];
        if (c.op == SHAPE_CONST || c.op == SHAPE_DIM) {
            ASSERT(n < SHAPE_MAX_DEPTH);
            stack[n++] = slot_ok(c.op == SHAPE_CONST ? c.value : dims[c.value]);
        } else {
            n -= ops[c.op].operands;
            ASSERT(n >= 0);
            stack[n] = apply(c.op, &stack[n]);
            n++;
        }
    }
    ASSERT(n == 1);
    *out = stack[0].v;
    if (!stack[0].bad) return HEALD_OK;
    return error_set(err, HEALD_INVALID_ARGUMENT, "a size %s",
                     stack[0].bad == BY_ZERO ? "is divided by zero" : "is too large for 64 bits");
}

bool shape_valid(ShapeExpr e, int ndim)
{
    int n = 0;
    for (int i = 0; i < e.n; i++) {
        ShapeOp c = e.code[i];
        if ((unsigned)c.op >= SHAPE_OP_COUNT) return false;
        if (c.op == SHAPE_DIM && (c.value < 0 || c.value >= ndim)) return false;
        if (n < ops[c.op].operands) return false;
        n += 1 - ops[c.op].operands;
        if (n > SHAPE_MAX_DEPTH) return false;
    }
    return n == 1;
}

static ShapeExpr leaf(Arena *a, ShapeOpKind op, int64_t value)
{
    ShapeOp *code = NEW(a, ShapeOp);
    *code = (ShapeOp){op, value};
    return (ShapeExpr){code, 1};
}

ShapeExpr shape_const(Arena *a, int64_t value)
{
    return leaf(a, SHAPE_CONST, value);
}

ShapeExpr shape_dim(Arena *a, int dim)
{
    return leaf(a, SHAPE_DIM, dim);
}

bool shape_is_const(ShapeExpr e, int64_t *value)
{
    if (e.n != 1 || e.code[0].op != SHAPE_CONST) return false;
    *value = e.code[0].value;
    return true;
}

ShapeExpr shape_copy(Arena *a, ShapeExpr e)
{
    return (ShapeExpr){arena_copy(a, e.code, (size_t)e.n * sizeof(ShapeOp)), e.n};
}

static ShapeExpr combine(Arena *a, ShapeOpKind op, const ShapeExpr *x, int n)
{
    ASSERT((unsigned)op < SHAPE_OP_COUNT && ops[op].operands == n && n > 0);
    Slot value[3];
    bool all_const = true;
    int total = 1;
    for (int i = 0; i < n; i++) {
        value[i].bad = FINE;
        all_const = shape_is_const(x[i], &value[i].v) && all_const;
        ASSERT(x[i].n < INT32_MAX / 4);
        total += x[i].n;
    }
    if (all_const) {
        Slot v = apply(op, value);
        if (!v.bad) return shape_const(a, v.v);
    }
    ShapeOp *code = NEW_ARRAY(a, ShapeOp, total), *end = code;
    for (int i = 0; i < n; i++) {
        memcpy(end, x[i].code, (size_t)x[i].n * sizeof(ShapeOp));
        end += x[i].n;
    }
    *end = (ShapeOp){op, 0};
    return (ShapeExpr){code, total};
}

ShapeExpr shape_op(Arena *a, ShapeOpKind op, ShapeExpr x, ShapeExpr y)
{
    return combine(a, op, (ShapeExpr[]){x, y}, 2);
}

ShapeExpr shape_not(Arena *a, ShapeExpr x)
{
    return combine(a, SHAPE_NOT, &x, 1);
}

ShapeExpr shape_select(Arena *a, ShapeExpr cond, ShapeExpr yes, ShapeExpr no)
{
    return combine(a, SHAPE_SELECT, (ShapeExpr[]){cond, yes, no}, 3);
}

typedef struct Printed {
    const char *text;
    int prec;
} Printed;

static const char *print_leaf(Arena *a, ShapeOp c, const char *const *names)
{
    if (c.op == SHAPE_CONST) return arena_printf(a, "%" PRId64, c.value);
    if (names && names[c.value]) return names[c.value];
    return arena_printf(a, "d%" PRId64, c.value);
}

// `kid` in parentheses if it binds less than `prec` asks for.
static const char *wrapped(Arena *a, Printed kid, int prec)
{
    return kid.prec < prec ? arena_printf(a, "(%s)", kid.text) : kid.text;
}

static const char *print_op(Arena *a, ShapeOpKind op, const Printed *kid)
{
    const char *name = ops[op].spelling;
    int prec = ops[op].prec;
    if (prec) {
        const char *left = wrapped(a, kid[0], prec), *right = wrapped(a, kid[1], prec + 1);
        return arena_printf(a, "%s %s %s", left, name, right);
    }
    const char *text = arena_printf(a, "%s(%s", name, kid[0].text);
    for (int i = 1; i < ops[op].operands; i++) text = arena_printf(a, "%s, %s", text, kid[i].text);
    return arena_printf(a, "%s)", text);
}

void shape_print(ShapeExpr e, const char *const *names, Buf *out)
{
    Arena *a = out->arena;
    VEC(Printed) stack = {0};
    for (int i = 0; i < e.n; i++) {
        ShapeOp c = e.code[i];
        int n = ops[c.op].operands;
        ASSERT(stack.n >= n);
        stack.n -= n;
        Printed p = {n ? print_op(a, c.op, &stack.at[stack.n]) : print_leaf(a, c, names),
                     ops[c.op].prec ? ops[c.op].prec : 9};
        VEC_PUSH(a, &stack, p);
    }
    ASSERT(stack.n == 1);
    buf_puts(out, stack.at[0].text);
}
