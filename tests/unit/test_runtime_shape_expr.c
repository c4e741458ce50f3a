// SPDX-License-Identifier: Apache-2.0
// Shape expressions: values, undefined results, printing, and what a file may not contain.
#include "runtime/shape_expr.h"

#include "base/util.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { UNDEFINED = 12345 }; // stands for a status in the table below

static Arena arena;

static ShapeExpr num(int64_t v)
{
    return shape_const(&arena, v);
}

static ShapeExpr dim(int i)
{
    return shape_dim(&arena, i);
}

static int64_t eval(ShapeExpr e, const int64_t *dims)
{
    int64_t v;
    assert_true(shape_valid(e, 2));
    return shape_eval(e, dims, &v, NULL) ? UNDEFINED : v;
}

static const struct {
    ShapeOpKind op;
    int64_t x, y, want;
} table[] = {
    {SHAPE_ADD, 2, 3, 5},          {SHAPE_ADD, INT64_MAX, 1, UNDEFINED},
    {SHAPE_SUB, 2, 3, -1},         {SHAPE_SUB, INT64_MIN, 1, UNDEFINED},
    {SHAPE_MUL, -4, 3, -12},       {SHAPE_MUL, INT64_C(1) << 40, INT64_C(1) << 40, UNDEFINED},
    {SHAPE_DIV, 7, 2, 3},          {SHAPE_DIV, -7, 2, -4},
    {SHAPE_DIV, 7, 0, UNDEFINED},  {SHAPE_DIV, INT64_MIN, -1, UNDEFINED},
    {SHAPE_MOD, -7, 2, 1},         {SHAPE_MOD, 7, -2, -1},
    {SHAPE_MOD, INT64_MIN, -1, 0}, {SHAPE_MOD, 7, 0, UNDEFINED},
    {SHAPE_MIN, 2, 3, 2},          {SHAPE_MAX, 2, 3, 3},
    {SHAPE_EQ, 2, 3, 0},           {SHAPE_NE, 2, 3, 1},
    {SHAPE_LT, 2, 3, 1},           {SHAPE_LE, 3, 3, 1},
    {SHAPE_AND, 2, 3, 1},          {SHAPE_AND, 2, 0, 0},
    {SHAPE_OR, 0, 3, 1},           {SHAPE_OR, 0, 0, 0},
};

// Over dimensions and, folded, over constants.
static void test_operations(void **state)
{
    UNUSED(state);
    for (size_t i = 0; i < COUNT(table); i++) {
        int64_t dims[] = {table[i].x, table[i].y};
        ShapeExpr e = shape_op(&arena, table[i].op, dim(0), dim(1));
        assert_int_equal(eval(e, dims), table[i].want);
        e = shape_op(&arena, table[i].op, num(table[i].x), num(table[i].y));
        assert_int_equal(eval(e, NULL), table[i].want);
        int64_t v;
        assert_int_equal(shape_is_const(e, &v), table[i].want != UNDEFINED);
    }
    assert_int_equal(eval(shape_not(&arena, dim(0)), (int64_t[]){0, 0}), 1);
    assert_int_equal(eval(shape_not(&arena, dim(0)), (int64_t[]){5, 0}), 0);
}

static void test_only_what_is_needed(void **state)
{
    UNUSED(state);
    ShapeExpr bad = shape_op(&arena, SHAPE_DIV, num(8), dim(0)), zero = dim(0), one = dim(1);
    int64_t dims[] = {0, 1}, v;
    Error e;
    assert_int_equal(eval(shape_select(&arena, one, num(5), bad), dims), 5);
    assert_int_equal(eval(shape_select(&arena, zero, bad, num(6)), dims), 6);
    assert_int_equal(eval(shape_select(&arena, zero, num(5), bad), dims), UNDEFINED);
    assert_int_equal(eval(shape_select(&arena, bad, num(5), num(5)), dims), UNDEFINED);
    assert_int_equal(eval(shape_op(&arena, SHAPE_AND, bad, zero), dims), 0);
    assert_int_equal(eval(shape_op(&arena, SHAPE_AND, bad, one), dims), UNDEFINED);
    assert_int_equal(eval(shape_op(&arena, SHAPE_OR, one, bad), dims), 1);
    assert_int_equal(eval(shape_op(&arena, SHAPE_ADD, one, bad), dims), UNDEFINED);
    assert_int_equal(shape_eval(bad, dims, &v, &e), HEALD_INVALID_ARGUMENT);
    assert_string_equal(e.text, "a size is divided by zero");
}

static void test_print(void **state)
{
    UNUSED(state);
    ShapeExpr sum = shape_op(&arena, SHAPE_ADD, dim(0), num(15));
    ShapeExpr blocks = shape_op(&arena, SHAPE_DIV, sum, num(16));
    ShapeExpr diff =
        shape_op(&arena, SHAPE_SUB, dim(0), shape_op(&arena, SHAPE_SUB, dim(1), blocks));
    ShapeExpr all = shape_select(&arena, shape_op(&arena, SHAPE_LT, dim(0), num(3)),
                                 shape_op(&arena, SHAPE_MAX, diff, num(0)), shape_not(&arena, sum));
    Buf b;
    buf_init(&b, &arena);
    shape_print(all, (const char *[]){"n", NULL}, &b);
    assert_string_equal(buf_text(&b),
                        "select(n < 3, max(n - (d1 - (n + 15) / 16), 0), not(n + 15))");
}

static void test_malformed(void **state)
{
    UNUSED(state);
    ShapeOp c = {SHAPE_CONST, 1}, add = {SHAPE_ADD, 0}, d = {SHAPE_DIM, 2};
    ShapeOp odd = {(ShapeOpKind)200, 0}, neg = {SHAPE_DIM, -1};
    ShapeOp list[][3] = {{c, add, c}, {c, c, c}, {c, d, add}, {c, odd, add}, {c, neg, add}};
    for (size_t i = 0; i < COUNT(list); i++) {
        assert_false(shape_valid((ShapeExpr){list[i], 3}, 2));
    }
    assert_false(shape_valid((ShapeExpr){NULL, 0}, 2));
    assert_true(shape_valid((ShapeExpr){(ShapeOp[]){c, d, add}, 3}, 3));
    // Leaning right, each operation keeps one more value waiting.
    ShapeExpr e = dim(0);
    for (int depth = 1; depth < 100; depth++) {
        assert_int_equal(shape_valid(e, 1), depth <= SHAPE_MAX_DEPTH);
        e = shape_op(&arena, SHAPE_ADD, dim(0), e);
    }
}

static int teardown(void **state)
{
    UNUSED(state);
    arena_free(&arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operations),
        cmocka_unit_test(test_only_what_is_needed),
        cmocka_unit_test(test_print),
        cmocka_unit_test(test_malformed),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
