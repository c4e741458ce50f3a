// SPDX-License-Identifier: Apache-2.0
// Handmade kernels through every pass and the C compiler.
#include "codegen/codegen.h"
#include "codegen_kit.h"

static const int64_t sizes[] = {0, 1, 3, 17, 127};

// y[i] = x[i] + 1 over blocks of 16, loads and stores guarded.
static void copy_kernel(Kit *t)
{
    Var *n = kit_dim(t, "n"), *bx = kit_builtin(t, "bx", VAR_BLOCK_X);
    Var *lane = kit_builtin(t, "lane", VAR_LANE), *v = kit_var(t, "i");
    Buffer *x = kit_buffer(t, "x", DT_F32, 1, (Node *[]){R(t, n)}, false);
    Buffer *y = kit_buffer(t, "y", DT_F32, 1, (Node *[]){R(t, n)}, true);
    t->stage->ngrid = 1;
    t->stage->grid[0] = bin(t, N_DIV, add(t, R(t, n), I(t, 63)), I(t, 64));
    const Mapping *m = compose(t, repeat(t, 1, SHAPE(4)), spatial(t, 1, SHAPE(16)));
    Node *i = add(t, mul(t, R(t, bx), I(t, 64)), R(t, v));
    Node *value = add(t, load_else(t, x, 1, &i, F(t, 7)), F(t, 1));
    Node *body = SEQ(t, store(t, y, 1, &i, value, GUARD_DROP));
    t->stage->body = SEQ(t, mapfor(t, m, R(t, lane), &v, body));
}

static void test_copy(void **state)
{
    UNUSED(state);
    Kit *t = kit_new();
    copy_kernel(t);
    for (size_t i = 0; i < COUNT(sizes); i++) kit_differential(t, &sizes[i]);
    kit_free(t);
}

// c = a b, one row of blocks each.
static void matmul_kernel(Kit *t)
{
    Var *m = kit_dim(t, "m"), *n = kit_dim(t, "n"), *k = kit_dim(t, "k");
    Buffer *a = kit_buffer(t, "a", DT_F32, 2, (Node *[]){R(t, m), R(t, k)}, false);
    Buffer *b = kit_buffer(t, "b", DT_F32, 2, (Node *[]){R(t, k), R(t, n)}, false);
    Buffer *c = kit_buffer(t, "c", DT_F32, 2, (Node *[]){R(t, m), R(t, n)}, true);
    Var *i = kit_builtin(t, "bx", VAR_BLOCK_X), *j = kit_var(t, "j"), *l = kit_var(t, "l");
    Var *sum = kernel_var(t->kernel, "sum", DT_F32, true);
    t->stage->ngrid = 1;
    t->stage->grid[0] = R(t, m);
    Node *declare = node_make(&t->arena, N_DECLARE, 0, 1, (Node *[]){F(t, 0)});
    declare->u.var = sum;
    Node *fma = intrinsic(
        t, "fma", 3,
        (Node *[]){load2(t, a, R(t, i), R(t, l)), load2(t, b, R(t, l), R(t, j)), R(t, sum)});
    Node *inner = loop(t, l, I(t, 0), R(t, k), SEQ(t, make_set(&t->arena, 0, sum, fma)));
    Node *out = store(t, c, 2, (Node *[]){R(t, i), R(t, j)}, R(t, sum), GUARD_DROP);
    t->stage->body = SEQ(t, loop(t, j, I(t, 0), R(t, n), SEQ(t, declare, inner, out)));
}

static void test_matmul(void **state)
{
    UNUSED(state);
    static const int64_t dims[][3] = {{1, 1, 1}, {3, 17, 5}, {17, 3, 0}, {0, 3, 3}, {2, 127, 17}};
    Kit *t = kit_new();
    matmul_kernel(t);
    for (size_t i = 0; i < COUNT(dims); i++) kit_differential(t, dims[i]);
    kit_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copy),
        cmocka_unit_test(test_matmul),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
