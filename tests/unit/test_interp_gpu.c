// SPDX-License-Identifier: Apache-2.0
// The interpreter on CUDA kernels that are right: barriers, warps, atomics, roles, mbarriers,
// asynchronous copies, grid barriers. All run once plainly and once with races checked.
#include "interp_build.h"

#include "ir/interp.h"

static bool races;

static void start(Build *k, int64_t grid, int64_t block)
{
    build_start(k, TARGET_CUDA, grid, block);
    k->options.check_races = races;
}

enum { M = 32, N = 24, K = 20, BM = 8, BN = 8, BK = 4 };

static Node *load_tile(Build *k, Buffer *shared, Buffer *global, const Mapping *map, Node *row,
                       Node *column)
{
    Var *i = VARIABLE("i"), *j = VARIABLE("j");
    Node *value = LOAD_ELSE(global, F32(0), ADD(row, V(i)), ADD(column, V(j)));
    return MAPFOR(map, THREAD, STORE(shared, value, V(i), V(j)), V(i), V(j));
}

// C = A B by tiles in shared memory; a thread holds 2 x 2 elements.
static void matmul(void **state)
{
    (void)state;
    Build build, *k = &build;
    static float a[M][K], b[K][N], c[M][N];
    start(k, M / BM * (N / BN), 16);
    for (int i = 0; i < M * K; i++) a[i / K][i % K] = (float)(i % 7);
    for (int i = 0; i < N * K; i++) b[i / N][i % N] = (float)(i % 5 - 2);
    Buffer *ba = INPUT("a", a, DT_F32, M, K), *bb = INPUT("b", b, DT_F32, K, N),
           *bc = OUTPUT("c", c, DT_F32, M, N);
    Buffer *sa = SHARED("sa", DT_F32, BM, BK), *sb = SHARED("sb", DT_F32, BK, BN);
    const char *why;
    sa->layout = layout_swizzle(
        &k->arena, layout_row_major(&k->arena, 2, (int64_t[]){BM, BK}, &why), 1, 0, 0, &why);
    const Mapping *map = COMPOSE(SPATIAL(4, 4), REPEAT(2, 2));
    Buffer *acc = LOCAL("acc", DT_F32, BM, BN);
    acc->over = map;
    acc->over_worker = THREAD;
    Var *kt = VARIABLE("kt"), *l = VARIABLE("l"), *i = VARIABLE("i"), *j = VARIABLE("j"),
        *r = VARIABLE("r"), *q = VARIABLE("q");
    Node *fma = STORE(acc, FMA(LOAD(sa, V(i), V(l)), LOAD(sb, V(l), V(j)), LOAD(acc, V(i), V(j))),
                      V(i), V(j));
    Node *tile =
        SEQ(load_tile(k, sa, ba, COMPOSE(REPEAT(2, 1), SPATIAL(4, 4)), V(r), MUL(V(kt), INT(BK))),
            load_tile(k, sb, bb, COMPOSE(REPEAT(1, 2), SPATIAL(4, 4)), MUL(V(kt), INT(BK)), V(q)),
            BARRIER, LOOP(l, INT(0), INT(BK), MAPFOR(map, THREAD, fma, V(i), V(j))), BARRIER);
    Node *body =
        SEQ(DEFINE(r, MUL(DIV(BLOCK_X, INT(N / BN)), INT(BM))),
            DEFINE(q, MUL(MOD(BLOCK_X, INT(N / BN)), INT(BN))), ALLOC(acc, F32(0)),
            LOOP(kt, INT(0), INT(K / BK), tile),
            MAPFOR(map, THREAD, STORE(bc, LOAD(acc, V(i), V(j)), ADD(V(r), V(i)), ADD(V(q), V(j))),
                   V(i), V(j)));
    build_passes(k, body);
    for (int m = 0; m < M; m++) {
        for (int n = 0; n < N; n++) {
            float sum = 0;
            for (int p = 0; p < K; p++) sum += a[m][p] * b[p][n];
            assert_true(c[m][n] == sum);
        }
    }
    build_end(k);
}

// Sum of 64 numbers: in warps by exchanges, then by one atomic each.
static void warp_sum(void **state)
{
    (void)state;
    Build build, *k = &build;
    float x[64], sum[1] = {0};
    uint32_t odd[2] = {0};
    start(k, 1, 64);
    for (int i = 0; i < 64; i++) x[i] = (float)i;
    Buffer *bx = INPUT("x", x, DT_F32, 64), *bs = OUTPUT("sum", sum, DT_F32, 1),
           *bo = OUTPUT("odd", odd, DT_U32, 2);
    Var *s = FLOAT_VARIABLE("s"), *m = VARIABLE("m"),
        *bits = kernel_var(k->kernel, "bits", DT_U32, false);
    Node *first = EQ(MOD(THREAD, INT(32)), INT(0));
    Node *add = IF(first, SEQ(DO(ATOMIC_ADD, REF(bs, INT(0)), V(s)),
                              STORE(bo, V(bits), DIV(THREAD, INT(32)))));
    Node *fold =
        SEQ(SET(s, ADD(V(s), INTRIN(SHUFFLE_XOR, DT_F32, V(s), V(m)))), SET(m, DIV(V(m), INT(2))));
    Node *body =
        SEQ(DECLARE(s, LOAD(bx, THREAD)), DECLARE(m, INT(16)), WHILE(LT(INT(0), V(m)), fold),
            DEFINE(bits, INTRIN(BALLOT, DT_U32, EQ(MOD(THREAD, INT(2)), INT(1)))), add);
    build_passes(k, body);
    assert_true(sum[0] == 63 * 64 / 2);
    assert_true(odd[0] == 0xAAAAAAAAu && odd[1] == odd[0]);
    build_end(k);
}

enum { STAGES = 2, ROUNDS = 7, TILE = 32 };

static Node *ring_next(Build *k, Var *s, Var *phase)
{
    Node *wrap =
        IF(EQ(V(s), INT(STAGES)), SEQ(SET(s, INT(0)), SET(phase, OP(BXOR, V(phase), INT(1)))));
    return SEQ(SET(s, ADD(V(s), INT(1))), wrap);
}

// One thread fills a ring of tiles with bulk copies; a warp consumes them.
static void ring(void **state)
{
    (void)state;
    Build build, *k = &build;
    static float x[ROUNDS][TILE], y[ROUNDS][TILE];
    start(k, 1, 64);
    for (int i = 0; i < ROUNDS * TILE; i++) x[i / TILE][i % TILE] = (float)i;
    Buffer *bx = INPUT("x", x, DT_F32, ROUNDS, TILE), *by = OUTPUT("y", y, DT_F32, ROUNDS, TILE);
    Buffer *tile = SHARED("tile", DT_F32, STAGES, TILE);
    Buffer *full = MBARRIERS("full", STAGES, 1), *empty = MBARRIERS("empty", STAGES, 32);
    Var *t = VARIABLE("t"), *s = VARIABLE("s"), *phase = VARIABLE("phase"), *at = VARIABLE("at");
    Node *fill = SEQ(DO(WAIT, REF(empty, V(s)), OP(BXOR, V(phase), INT(1))),
                     DO(EXPECT, REF(full, V(s)), INT(4 * TILE)),
                     DO(BULK_LOAD, REF(tile, V(s), SPAN(INT(0), INT(TILE))),
                        REF(bx, V(t), SPAN(INT(0), INT(TILE))), REF(full, V(s))),
                     ring_next(k, s, phase));
    Node *use = SEQ(DO(WAIT, REF(full, V(s)), V(phase)),
                    STORE(by, MUL(LOAD(tile, V(s), V(at)), F32(2)), V(t), V(at)),
                    DO(ARRIVE, REF(empty, V(s))), ring_next(k, s, phase));
    Node *loop1 = LOOP(t, INT(0), INT(ROUNDS), fill), *loop2 = LOOP(t, INT(0), INT(ROUNDS), use);
    Node *body = SEQ(DECLARE(s, INT(0)), DECLARE(phase, INT(0)), DEFINE(at, MOD(THREAD, INT(32))),
                     ROLE(EQ(DIV(THREAD, INT(32)), INT(1)), ONE(loop1)),
                     ROLE(LT(THREAD, INT(32)), SEQ(loop2, BARRIER)));
    build_passes(k, body);
    for (int i = 0; i < ROUNDS * TILE; i++) assert_true(y[i / TILE][i % TILE] == 2 * (float)i);
    build_end(k);
}

// Two groups of copies in flight; each thread waits for its own, then all meet.
static void copies(void **state)
{
    (void)state;
    Build build, *k = &build;
    float x[2][32], y[2][32];
    start(k, 1, 8);
    for (int i = 0; i < 64; i++) x[i / 32][i % 32] = (float)i;
    Buffer *bx = INPUT("x", x, DT_F32, 2, 32), *by = OUTPUT("y", y, DT_F32, 2, 32),
           *s = SHARED("s", DT_F32, 2, 32);
    Var *i = VARIABLE("i"), *j = VARIABLE("j"), *g = VARIABLE("g");
    Node *span = SPAN(MUL(THREAD, INT(4)), INT(4));
    Node *issue = SEQ(DO(CP_ASYNC, REF(s, V(i), span), REF(bx, V(i), span)),
                      OP(EVAL, build_intrinsic(k, HERE, INTR_CP_COMMIT, DT_NONE, 0, NULL)));
    Node *read = LOOP(j, INT(0), INT(4),
                      STORE(by, LOAD(s, V(g), SUB(INT(31), ADD(MUL(THREAD, INT(4)), V(j)))), V(g),
                            ADD(MUL(THREAD, INT(4)), V(j))));
    Node *use = SEQ(DO(CP_WAIT, SUB(INT(1), V(g))), BARRIER, read);
    build_passes(k, SEQ(LOOP(i, INT(0), INT(2), issue), LOOP(g, INT(0), INT(2), use)));
    for (int n = 0; n < 64; n++) assert_true(y[n / 32][n % 32] == x[n / 32][31 - n % 32]);
    build_end(k);
}

// Every block writes its part, all meet, every block reads its neighbour's.
static void grid_barrier(void **state)
{
    (void)state;
    Build build, *k = &build;
    int64_t x[4][8] = {0}, y[4][8];
    start(k, 4, 8);
    Buffer *bx = OUTPUT("x", x, DT_I64, 4, 8), *by = OUTPUT("y", y, DT_I64, 4, 8);
    Node *next = MOD(ADD(BLOCK_X, INT(1)), INT(4));
    build_passes(k, SEQ(STORE(bx, ADD(MUL(BLOCK_X, INT(8)), THREAD), BLOCK_X, THREAD),
                        OP(EVAL, build_intrinsic(k, HERE, INTR_GRID_BARRIER, DT_NONE, 0, NULL)),
                        STORE(by, LOAD(bx, next, SUB(INT(7), THREAD)), BLOCK_X, THREAD)));
    for (int b = 0; b < 4; b++)
        for (int t = 0; t < 8; t++) assert_int_equal(y[b][t], (b + 1) % 4 * 8 + 7 - t);
    build_end(k);
}

// The last block to count itself adds what all blocks wrote: ordered by fences and an atomic.
static void last_block(void **state)
{
    (void)state;
    Build build, *k = &build;
    int64_t part[5] = {0}, count[1] = {0}, sum[1] = {0};
    start(k, 5, 1);
    Buffer *bp = OUTPUT("part", part, DT_I64, 5), *bc = OUTPUT("count", count, DT_I64, 1),
           *bs = OUTPUT("sum", sum, DT_I64, 1);
    Var *i = VARIABLE("i"), *seen = VARIABLE("seen"), *total = VARIABLE("total");
    Node *fence = OP(EVAL, build_intrinsic(k, HERE, INTR_FENCE, DT_NONE, 0, NULL));
    Node *add = SEQ(fence, DECLARE(total, INT(0)),
                    LOOP(i, INT(0), INT(5), SET(total, ADD(V(total), LOAD(bp, V(i))))),
                    STORE(bs, V(total), INT(0)));
    build_passes(k, SEQ(STORE(bp, ADD(BLOCK_X, INT(1)), BLOCK_X), fence,
                        DEFINE(seen, INTRIN(ATOMIC_ADD, DT_I64, REF(bc, INT(0)), INT(1))),
                        IF(EQ(V(seen), INT(4)), add)));
    assert_int_equal(sum[0], 15);
    build_end(k);
}

// Halves of the block meet at named barriers.
static void named_barriers(void **state)
{
    (void)state;
    Build build, *k = &build;
    int64_t y[16];
    start(k, 1, 16);
    Buffer *by = OUTPUT("y", y, DT_I64, 16), *s = SHARED("s", DT_I64, 16);
    Var *half = VARIABLE("half");
    build_passes(k, SEQ(DEFINE(half, DIV(THREAD, INT(8))), STORE(s, THREAD, THREAD),
                        DO(BARRIER_ID, ADD(V(half), INT(1)), INT(8)),
                        STORE(by, LOAD(s, OP(BXOR, THREAD, INT(7))), THREAD)));
    for (int t = 0; t < 16; t++) assert_int_equal(y[t], t ^ 7);
    build_end(k);
}

// One thread spins until another has raised a flag: both get their turn.
static void spinning(void **state)
{
    (void)state;
    Build build, *k = &build;
    int64_t flag[1] = {0}, x[1] = {0}, y[1] = {0};
    start(k, 1, 64);
    Buffer *bf = OUTPUT("flag", flag, DT_I64, 1), *bx = OUTPUT("x", x, DT_I64, 1);
    Buffer *by = OUTPUT("y", y, DT_I64, 1);
    Node *fence = OP(EVAL, build_intrinsic(k, HERE, INTR_FENCE, DT_NONE, 0, NULL));
    Node *down = EQ(INTRIN(ATOMIC_ADD, DT_I64, REF(bf, INT(0)), INT(0)), INT(0));
    Node *wait = SEQ(WHILE(down, SEQ()), fence, STORE(by, LOAD(bx, INT(0)), INT(0)));
    Node *raise = SEQ(STORE(bx, INT(5), INT(0)), fence, DO(ATOMIC_ADD, REF(bf, INT(0)), INT(1)));
    build_passes(k, SEQ(IF(EQ(THREAD, INT(0)), wait), IF(EQ(THREAD, INT(63)), raise)));
    assert_int_equal(y[0], 5);
    build_end(k);
}

// A tile held by a mapping of the program's own, and a column of it that threads share.
static void custom_owner(void **state)
{
    (void)state;
    Build build, *k = &build;
    int64_t y[4][2], sum[4][1];
    const char *why;
    start(k, 1, 16);
    Buffer *by = OUTPUT("y", y, DT_I64, 4, 2), *bs = OUTPUT("sum", sum, DT_I64, 4, 1);
    Buffer *tile = LOCAL("tile", DT_I64, 4, 2), *row = LOCAL("row", DT_I64, 4, 1);
    Var *w = VARIABLE("w"), *i = VARIABLE("i"), *j = VARIABLE("j");
    Node *f = build_node(k, HERE, N_TUPLE, NODES(MOD(V(w), INT(4)), DIV(V(w), INT(4))));
    tile->over = mapping_custom(&k->arena, 2, (int64_t[]){4, 2}, 8, V(w), f, &why);
    row->over = mapping_project(&k->arena, tile->over, (bool[]){false, true}, &why);
    tile->over_worker = row->over_worker = MOD(THREAD, INT(8));
    Node *value = ADD(MUL(V(i), INT(10)), V(j)), *set = STORE(tile, value, V(i), V(j));
    Node *sum_row = STORE(row, MUL(V(i), INT(3)), V(i), INT(0));
    Node *write = SEQ(STORE(by, LOAD(tile, V(i), V(j)), V(i), V(j)),
                      IF(EQ(V(j), INT(1)), STORE(bs, LOAD(row, V(i), INT(0)), V(i), INT(0))));
    build_passes(k, SEQ(ALLOC(tile, NULL), ALLOC(row, NULL),
                        MAPFOR(tile->over, MOD(THREAD, INT(8)), SEQ(set, sum_row), V(i), V(j)),
                        BARRIER, MAPFOR(tile->over, THREAD, write, V(i), V(j))));
    for (int n = 0; n < 8; n++) assert_int_equal(y[n / 2][n % 2], n / 2 * 10 + n % 2);
    for (int n = 0; n < 4; n++) assert_int_equal(sum[n][0], n * 3);
    build_end(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matmul),         cmocka_unit_test(warp_sum),
        cmocka_unit_test(ring),           cmocka_unit_test(copies),
        cmocka_unit_test(grid_barrier),   cmocka_unit_test(last_block),
        cmocka_unit_test(named_barriers), cmocka_unit_test(spinning),
        cmocka_unit_test(custom_owner),
    };
    int nfailed = cmocka_run_group_tests_name("plain", tests, NULL, NULL);
    races = true;
    return nfailed + cmocka_run_group_tests_name("races checked", tests, NULL, NULL);
}
