// SPDX-License-Identifier: Apache-2.0
// The interpreter on CPU kernels: loops, mappings, vectors, layouts, memory; and its reports.
#include "interp_build.h"

#include "ir/interp.h"

static void elementwise(void **state)
{
    (void)state;
    Build build, *k = &build;
    float x[10], y[10] = {0};
    build_start(k, TARGET_CPU, 3, 1);
    for (int i = 0; i < 10; i++) x[i] = (float)i - 5;
    Buffer *bx = INPUT("x", x, DT_F32, 10), *by = OUTPUT("y", y, DT_F32, 10);
    Var *i = VARIABLE("i"), *at = VARIABLE("at");
    Node *value = OP(MAX, LOAD_ELSE(bx, F32(0), V(at)), F32(0));
    build_passes(k, LOOP(i, INT(0), INT(4), SEQ(DEFINE(at, ADD(MUL(BLOCK_X, INT(4)), V(i))), build_drop(STORE(by, value, V(at))))));
    for (int n = 0; n < 10; n++) assert_true(y[n] == (x[n] > 0 ? x[n] : 0));
    build_end(k);
}

// c = a b with a mapping over tasks and an accumulator held by lanes.
static void matmul_lanes(void **state)
{
    (void)state;
    enum { M = 6, N = 16, K = 5 };
    Build build, *k = &build;
    static float a[M][K], b[K][N], c[M][N];
    build_start(k, TARGET_CPU, 1, 1);
    for (int i = 0; i < M * K; i++) a[i / K][i % K] = (float)(i % 7);
    for (int i = 0; i < N * K; i++) b[i / N][i % N] = (float)(i % 5 - 2);
    Buffer *ba = INPUT("a", a, DT_F32, M, K), *bb = INPUT("b", b, DT_F32, K, N), *bc = OUTPUT("c", c, DT_F32, M, N);
    const Mapping *tile = COMPOSE(REPEAT(M, 2), SPATIAL(1, 8));
    Buffer *acc = LOCAL("acc", DT_F32, M, N);
    acc->over = tile;
    acc->over_worker = LANE;
    Var *l = VARIABLE("l"), *i = VARIABLE("i"), *j = VARIABLE("j");
    Node *step = STORE(acc, FMA(LOAD(ba, V(i), V(l)), LOAD(bb, V(l), V(j)), LOAD(acc, V(i), V(j))), V(i), V(j));
    Node *body = SEQ(ALLOC(acc, F32(0)), LOOP(l, INT(0), INT(K), MAPFOR(tile, LANE, step, V(i), V(j))),
                     LOOP(i, INT(0), INT(M), LOOP(j, INT(0), INT(N), STORE(bc, LOAD(acc, V(i), V(j)), V(i), V(j)))));
    build_passes(k, body);
    for (int m = 0; m < M; m++) {
        for (int n = 0; n < N; n++) {
            float sum = 0;
            for (int q = 0; q < K; q++) sum += a[m][q] * b[q][n];
            assert_true(c[m][n] == sum);
        }
    }
    build_end(k);
}

static void out_of_bounds(void **state)
{
    (void)state;
    Build build, *k = &build;
    float x[4] = {0}, y[5] = {0};
    build_start(k, TARGET_CPU, 1, 1);
    Buffer *bx = INPUT("x", x, DT_F32, 4), *by = OUTPUT("y", y, DT_F32, 5);
    Var *i = VARIABLE("i");
    int line = __LINE__ + 1;
    Node *value = LOAD(bx, V(i));
    build_fails(k, LOOP(i, INT(0), INT(5), STORE(by, value, V(i))), line, "read out of bounds: 'x'[4]");
    build_end(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elementwise),
        cmocka_unit_test(matmul_lanes),
        cmocka_unit_test(out_of_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
