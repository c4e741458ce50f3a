// SPDX-License-Identifier: Apache-2.0
// Random shape expressions against a plain recursive evaluation in 128 bits: folding, postfix
// order and undefined results must agree.
#include "base/util.h"
#include "runtime/shape_expr.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { NDIM = 3, NTREE = 5000 };

typedef struct Tree Tree;
struct Tree {
    ShapeOpKind op;
    int64_t value;
    Tree *kid[3];
};

static Arena arena;
static uint64_t seed = 3;

static int below(int n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int)((seed >> 33) % (uint64_t)n);
}

static int64_t any_value(void)
{
    static const int64_t edge[] = {INT64_MAX, INT64_MIN, -1, 0, 1, INT64_C(1) << 32};
    return below(10) ? below(20) - 5 : edge[below((int)COUNT(edge))];
}

static int operands(ShapeOpKind op)
{
    static const int n[] = {
#define SHAPE_OP(ID, spelling, operands, prec) operands,
#include "runtime/shape_ops.def"
#undef SHAPE_OP
    };
    return n[op];
}

static Tree *random_tree(int depth)
{
    Tree *t = NEW(&arena, Tree);
    t->op = depth == 0 ? (ShapeOpKind)below(2) : (ShapeOpKind)below(SHAPE_OP_COUNT);
    if (t->op == SHAPE_CONST) t->value = any_value();
    if (t->op == SHAPE_DIM) t->value = below(NDIM);
    for (int i = 0; i < operands(t->op); i++) t->kid[i] = random_tree(depth - 1);
    return t;
}

static ShapeExpr build(const Tree *t)
{
    ShapeExpr kid[3];
    for (int i = 0; i < operands(t->op); i++) kid[i] = build(t->kid[i]);
    switch (operands(t->op)) {
    case 0:
        return t->op == SHAPE_CONST ? shape_const(&arena, t->value)
                                    : shape_dim(&arena, (int)t->value);
    case 1: return shape_not(&arena, kid[0]);
    case 2: return shape_op(&arena, t->op, kid[0], kid[1]);
    default: return shape_select(&arena, kid[0], kid[1], kid[2]);
    }
}

static __int128 floor_div(__int128 x, __int128 y)
{
    return x / y - (x % y != 0 && (x < 0) != (y < 0));
}

// False if undefined.
static bool plain(const Tree *t, const int64_t *dims, __int128 *out)
{
    __int128 x = 0, y = 0;
    if (t->op == SHAPE_CONST || t->op == SHAPE_DIM) {
        *out = t->op == SHAPE_CONST ? t->value : dims[t->value];
        return true;
    }
    bool x_fine = plain(t->kid[0], dims, &x);
    if (t->op == SHAPE_SELECT) return x_fine && plain(t->kid[x ? 1 : 2], dims, out);
    bool y_fine = t->op == SHAPE_NOT || plain(t->kid[1], dims, &y);
    if (!x_fine) x = 0;
    if (!y_fine) y = 0;
    bool fine = x_fine && y_fine;
    switch (t->op) {
    case SHAPE_ADD: *out = x + y; break;
    case SHAPE_SUB: *out = x - y; break;
    case SHAPE_MUL: *out = x * y; break;
    case SHAPE_DIV: *out = fine && y ? floor_div(x, y) : 0; break;
    case SHAPE_MOD: *out = fine && y ? x - y * floor_div(x, y) : 0; break;
    case SHAPE_MIN: *out = x < y ? x : y; break;
    case SHAPE_MAX: *out = x > y ? x : y; break;
    case SHAPE_EQ: *out = x == y; break;
    case SHAPE_NE: *out = x != y; break;
    case SHAPE_LT: *out = x < y; break;
    case SHAPE_LE: *out = x <= y; break;
    case SHAPE_NOT: *out = !x; break;
    case SHAPE_AND:
        fine = fine || (x_fine && !x) || (y_fine && !y);
        *out = x_fine && y_fine && x && y;
        break;
    default: // OR
        fine = fine || (x_fine && x) || (y_fine && y);
        *out = (x_fine && x) || (y_fine && y);
        break;
    }
    if ((t->op == SHAPE_DIV || t->op == SHAPE_MOD) && y == 0) return false;
    return fine && *out >= INT64_MIN && *out <= INT64_MAX;
}

static void test_random_trees(void **state)
{
    UNUSED(state);
    int nundefined = 0;
    for (int c = 0; c < NTREE; c++) {
        Tree *t = random_tree(1 + below(5));
        ShapeExpr e = build(t);
        assert_true(shape_valid(e, NDIM));
        for (int round = 0; round < 4; round++) {
            int64_t dims[NDIM], got;
            for (int i = 0; i < NDIM; i++) dims[i] = any_value();
            __int128 want;
            bool defined = plain(t, dims, &want);
            assert_int_equal(shape_eval(e, dims, &got, NULL) == HEALD_OK, defined);
            if (defined) assert_true(got == want);
            nundefined += !defined;
        }
        arena_free(&arena);
    }
    assert_true(nundefined > NTREE / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_trees)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
