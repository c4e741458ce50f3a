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
    build_passes(k, LOOP(i, INT(0), INT(4),
                         SEQ(DEFINE(at, ADD(MUL(BLOCK_X, INT(4)), V(i))),
                             build_drop(STORE(by, value, V(at))))));
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
    Buffer *ba = INPUT("a", a, DT_F32, M, K), *bb = INPUT("b", b, DT_F32, K, N),
           *bc = OUTPUT("c", c, DT_F32, M, N);
    const Mapping *tile = COMPOSE(REPEAT(M, 2), SPATIAL(1, 8));
    Buffer *acc = LOCAL("acc", DT_F32, M, N);
    acc->over = tile;
    acc->over_worker = LANE;
    Var *l = VARIABLE("l"), *i = VARIABLE("i"), *j = VARIABLE("j");
    Node *step = STORE(acc, FMA(LOAD(ba, V(i), V(l)), LOAD(bb, V(l), V(j)), LOAD(acc, V(i), V(j))),
                       V(i), V(j));
    Node *body =
        SEQ(ALLOC(acc, F32(0)), LOOP(l, INT(0), INT(K), MAPFOR(tile, LANE, step, V(i), V(j))),
            LOOP(i, INT(0), INT(M),
                 LOOP(j, INT(0), INT(N), STORE(bc, LOAD(acc, V(i), V(j)), V(i), V(j)))));
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

// Lanes: a masked elementwise loop on flat buffers, as the passes leave it.
static void vectors(void **state)
{
    (void)state;
    enum { N = 11, L = 4 };
    Build build, *k = &build;
    float x[N], y[N] = {0}, sum[1];
    build_start(k, TARGET_CPU, 1, 1);
    for (int i = 0; i < N; i++) x[i] = (float)(i - 4);
    Buffer *bx = INPUT("x", x, DT_F32, N), *by = OUTPUT("y", y, DT_F32, N),
           *bs = OUTPUT("sum", sum, DT_F32, 1);
    bx->flat = by->flat = true;
    Var *i = VARIABLE("i"), *at = VARIABLE("at"),
        *inside = kernel_var(k->kernel, "inside", DT_BOOL, false);
    Var *v = FLOAT_VARIABLE("v"), *acc = FLOAT_VARIABLE("acc");
    at->lanes = inside->lanes = v->lanes = acc->lanes = L;
    Node *mask = LT(V(at), BROADCAST(INT(N), L)), *zero = BROADCAST(F32(0), L);
    Node *value = OP(SELECT, V(inside), LOAD(bx, V(at)), zero);
    Node *positive = OP(SELECT, LT(zero, V(v)), V(v), OP(NEG, V(v)));
    Node *body =
        SEQ(DEFINE(at, RAMP(MUL(V(i), INT(L)), 1, L)), DEFINE(inside, mask), DEFINE(v, value),
            SET(acc, ADD(V(acc), V(v))), build_drop(STORE(by, positive, V(at))));
    Node *total = INTRIN(LANE_SUM, DT_F32, V(acc));
    // A vector that is read across lanes while it is set.
    Node *swap = SET(acc, ADD(BROADCAST(OP(EXTRACT, V(acc), INT(3)), L),
                              BROADCAST(OP(EXTRACT, V(acc), V(i)), L)));
    i->mutable = true;
    build_passes(k, SEQ(DECLARE(acc, BROADCAST(F32(0), L)), LOOP(i, INT(0), INT(3), body),
                        STORE(bs, total, INT(0)),
                        LOOP(i, INT(0), INT(1),
                             SEQ(swap, STORE(bs,
                                             ADD(LOAD(bs, INT(0)),
                                                 MUL(F32(1000), INTRIN(LANE_SUM, DT_F32, V(acc)))),
                                             INT(0))))));
    for (int n = 0; n < N; n++) assert_true(y[n] == (x[n] < 0 ? -x[n] : x[n]));
    assert_true(sum[0] == 11 + 1000 * 4 * (0 + 2));
    build_end(k);
}

// The arm, operand or `other` that is not chosen is not evaluated: it would be out of bounds.
static void lazy(void **state)
{
    (void)state;
    Build build, *k = &build;
    int64_t x[3] = {5, 6, 7}, y[6] = {0};
    build_start(k, TARGET_CPU, 1, 1);
    Buffer *bx = INPUT("x", x, DT_I64, 3), *by = OUTPUT("y", y, DT_I64, 6);
    Var *i = VARIABLE("i");
    Node *inside = OP(LAND, LT(V(i), INT(3)), LT(INT(5), LOAD(bx, V(i))));
    Node *outside = OP(LOR, OP(LE, INT(3), V(i)), LT(LOAD(bx, V(i)), INT(7)));
    Node *value = OP(SELECT, LT(V(i), INT(3)), LOAD(bx, V(i)), INT(-1));
    Node *bits = ADD(OP(SELECT, inside, INT(100), INT(0)), OP(SELECT, outside, INT(200), INT(0)));
    build_passes(k, LOOP(i, INT(0), INT(6), STORE(by, ADD(value, bits), V(i))));
    static const int64_t want[6] = {205, 306, 107, 199, 199, 199};
    for (int n = 0; n < 6; n++) assert_int_equal(y[n], want[n]);
    build_end(k);
}

// Loops that are left early; WHILE; a loop over a mapping counts as a loop.
static void leaving(void **state)
{
    (void)state;
    Build build, *k = &build;
    int64_t y[3] = {0};
    build_start(k, TARGET_CPU, 1, 1);
    Buffer *by = OUTPUT("y", y, DT_I64, 3);
    Var *i = VARIABLE("i"), *j = VARIABLE("j"), *n = VARIABLE("n");
    Node *odd = IF(EQ(MOD(V(i), INT(2)), INT(1)), CONTINUE), *end = IF(LT(INT(6), V(i)), BREAK);
    Node *grow = SEQ(SET(n, ADD(V(n), INT(1))), IF(LT(V(n), INT(20)), CONTINUE), BREAK);
    Node *tasks =
        SEQ(IF(EQ(V(j), INT(1)), CONTINUE), IF(EQ(V(i), INT(2)), BREAK), SET(n, ADD(V(n), INT(1))));
    build_passes(k, SEQ(DECLARE(n, INT(0)),
                        LOOP(i, INT(0), INT(100), SEQ(odd, end, SET(n, ADD(V(n), V(i))))),
                        STORE(by, V(n), INT(0)), WHILE(LT(INT(0), V(n)), grow),
                        STORE(by, V(n), INT(1)), SET(n, INT(0)),
                        MAPFOR(REPEAT(4, 3), INT(0), tasks, V(i), V(j)), STORE(by, V(n), INT(2))));
    assert_int_equal(y[0], 2 + 4 + 6);
    assert_int_equal(y[1], 20);
    assert_int_equal(y[2], 4);
    build_end(k);
}

// Every worker writes its number and the order of its tasks; compared with mapping_task_with.
static bool rotate(void *user, const Mapping *m, int64_t w, int64_t *index)
{
    (void)user;
    (void)m;
    index[0] = w % 2;
    index[1] = 2 - w / 2;
    return true;
}

static void check_mapping(Build *k, const Mapping *m, bool projected)
{
    int64_t n = 1, *y;
    for (int i = 0; i < 2; i++) n *= m->shape[i];
    y = arena_alloc(&k->arena, sizeof(int64_t) * (size_t)n);
    for (int i = 0; i < n; i++) y[i] = -1;
    Buffer *by = build_param(k, HERE, "y", y, DT_I64, true, 2, m->shape);
    Var *w = VARIABLE("w"), *i = VARIABLE("i"), *j = VARIABLE("j"), *count = VARIABLE("count");
    Node *task = SEQ(STORE(by, ADD(MUL(V(w), INT(1000)), V(count)), V(i), V(j)),
                     SET(count, ADD(V(count), INT(1))));
    build_passes(k, LOOP(w, INT(-2), INT(m->nworker + 2),
                         SEQ(DECLARE(count, INT(0)), MAPFOR(m, V(w), task, V(i), V(j)))));
    for (int64_t v = 0; v < m->nworker; v++) {
        for (int64_t t = 0; t < m->ntask; t++) {
            int64_t index[8];
            assert_true(mapping_task_with(m, v, t, index, rotate, NULL));
            int64_t got = y[index[0] * m->shape[1] + index[1]];
            if (projected) assert_true(got >= v * 1000 + t);
            else assert_int_equal(got, v * 1000 + t);
        }
    }
}

static void mappings(void **state)
{
    (void)state;
    for (int which = 0; which < 7; which++) {
        Build build, *k = &build;
        build_start(k, TARGET_CPU, 1, 1);
        const char *why;
        Var *w = VARIABLE("w");
        Node *f =
            build_node(k, HERE, N_TUPLE, NODES(MOD(V(w), INT(2)), SUB(INT(2), DIV(V(w), INT(2)))));
        const Mapping *custom = mapping_custom(&k->arena, 2, (int64_t[]){2, 3}, 6, V(w), f, &why);
        const Mapping *column =
            mapping_repeat(&k->arena, 2, (int64_t[]){3, 2}, (int[]){1, 0}, NULL, &why);
        const Mapping *column_spatial =
            mapping_spatial(&k->arena, 2, (int64_t[]){3, 2}, (int[]){1, 0}, &why);
        const Mapping *m[] = {
            COMPOSE(COMPOSE(SPATIAL(2, 3), REPEAT(2, 2)), COMPOSE(SPATIAL(1, 2), REPEAT(3, 1))),
            column,
            COMPOSE(column_spatial, column),
            COMPOSE(REPEAT(2, 1), COMPOSE(custom, REPEAT(1, 2))),
            mapping_project(&k->arena, COMPOSE(SPATIAL(2, 2), REPEAT(2, 3)), (bool[]){true, false},
                            &why),
            COMPOSE(mapping_project(&k->arena, SPATIAL(2, 2), (bool[]){false, true}, &why),
                    REPEAT(2, 2)),
            COMPOSE(custom, custom),
        };
        check_mapping(k, m[which], which == 4 || which == 5);
        build_end(k);
    }
}

// Every kind of layout on local memory: what was stored is read, and a layout that is not injective
// overwrites.
static void layouts(void **state)
{
    (void)state;
    for (int which = 0; which < 5; which++) {
        Build build, *k = &build;
        int64_t y[8][4];
        build_start(k, TARGET_CPU, 1, 1);
        const char *why;
        Arena *a = &k->arena;
        const int64_t shape[2] = {8, 4}, half[2] = {4, 2}, two[2] = {2, 2};
        const Layout *l[] = {
            layout_column_major(a, 2, shape, &why),
            layout_swizzle(a, layout_row_major(a, 2, shape, &why), 1, 0, 0, &why),
            layout_compose(a, layout_row_major(a, 2, half, &why),
                           layout_column_major(a, 2, two, &why), &why),
            layout_strided(a, 2, shape, (int64_t[]){5, 1}, &why),
            layout_reshape(a, layout_column_major(a, 1, (int64_t[]){32}, &why), 2, shape, &why),
        };
        Buffer *by = OUTPUT("y", y, DT_I64, 8, 4), *s = LOCAL("s", DT_I64, 8, 4);
        s->layout = l[which];
        Var *i = VARIABLE("i"), *j = VARIABLE("j");
        Node *write = STORE(s, ADD(MUL(V(i), INT(10)), V(j)), V(i), V(j)),
             *read = STORE(by, LOAD(s, V(i), V(j)), V(i), V(j));
        build_passes(k, SEQ(ALLOC(s, NULL), LOOP(i, INT(0), INT(8), LOOP(j, INT(0), INT(4), write)),
                            LOOP(i, INT(0), INT(8), LOOP(j, INT(0), INT(4), read))));
        for (int n = 0; n < 32; n++) assert_int_equal(y[n / 4][n % 4], n / 4 * 10 + n % 4);
        build_end(k);
    }
}

// Two stages over a dynamic dimension, with workspace between them and core-local memory.
static void stages(void **state)
{
    (void)state;
    Build build, *k = &build;
    int64_t y[6] = {0};
    build_start(k, TARGET_CPU, 1, 1);
    k->options.check_races = true;
    k->dims[0] = 6;
    Var *n = kernel_var(k->kernel, "n", DT_I64, false), *i = VARIABLE("i");
    n->builtin = VAR_DIM;
    VEC_PUSH(&k->arena, &k->kernel->dims, n);
    Node *extent[1] = {V(n)};
    Buffer *by = kernel_buffer(k->kernel, "y", SPACE_GLOBAL, DT_I64, 1, extent);
    Buffer *w = kernel_buffer(k->kernel, "w", SPACE_WORKSPACE, DT_I64, 1, extent);
    Buffer *c =
        build_shared(k, build_buffer(k, HERE, "c", SPACE_CORE_LOCAL, DT_I64, 1, (int64_t[]){1}));
    by->output = true;
    k->data[0] = y;
    VEC_PUSH(&k->arena, &k->kernel->params, by);
    VEC_PUSH(&k->arena, &k->kernel->workspace, w);
    k->stage->grid[0] = V(n);
    Stage *second = NEW(&k->arena, Stage);
    second->name = "second";
    second->body = LOOP(i, INT(0), V(n), STORE(by, LOAD(w, SUB(SUB(V(n), INT(1)), V(i))), V(i)));
    VEC_PUSH(&k->arena, &k->kernel->stages, second);
    build_passes(k,
                 SEQ(STORE(c, MUL(BLOCK_X, BLOCK_X), INT(0)), STORE(w, LOAD(c, INT(0)), BLOCK_X)));
    for (int e = 0; e < 6; e++) assert_int_equal(y[e], (5 - e) * (5 - e));
    build_end(k);
}

// Storage shared by buffers of different element sizes.
static void aliases(void **state)
{
    (void)state;
    Build build, *k = &build;
    int64_t y[1];
    build_start(k, TARGET_CPU, 1, 1);
    Buffer *by = OUTPUT("y", y, DT_I64, 1), *wide = LOCAL("wide", DT_I64, 2),
           *narrow = LOCAL("narrow", DT_U8, 8);
    narrow->alias = wide;
    Var *i = VARIABLE("i");
    Node *byte = STORE(narrow, node_int(&k->arena, HERE, DT_U8, 1), V(i));
    build_passes(k, SEQ(ALLOC(wide, NULL), ALLOC(narrow, NULL), LOOP(i, INT(0), INT(8), byte),
                        STORE(by, LOAD(wide, INT(0)), INT(0))));
    assert_int_equal(y[0], 0x0101010101010101);
    build_end(k);
}

static void keep_text(void *user, const char *text)
{
    strcat(user, text);
}

static void printing(void **state)
{
    (void)state;
    Build build, *k = &build;
    char text[100] = "";
    build_start(k, TARGET_CPU, 1, 1);
    k->options.print = keep_text;
    k->options.user = text;
    Node *label = OP(STRING);
    label->u.sym = "at";
    Var *i = VARIABLE("i");
    build_passes(k, LOOP(i, INT(0), INT(2), DO(PRINT, label, V(i), F32(0.5), LT(V(i), INT(1)))));
    assert_string_equal(text, "at 0 0.5 true\nat 1 0.5 false\n");
    build_end(k);
}

static void constants(void **state)
{
    (void)state;
    Build build, *k = &build;
    Node *out;
    build_start(k, TARGET_CPU, 1, 1);
    assert_true(interp_constant(
        &k->arena, OP(SELECT, LT(INT(1), INT(2)), DIV(INT(-7), INT(2)), INT(0)), &out));
    assert_int_equal(out->u.i, -4);
    assert_true(interp_constant(&k->arena, FMA(F32(2), F32(3), F32(0.5)), &out));
    assert_true(out->kind == N_FLOAT && out->u.f == 6.5);
    assert_false(interp_constant(&k->arena, ADD(V(VARIABLE("v")), INT(1)), &out));
    build_end(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elementwise), cmocka_unit_test(matmul_lanes), cmocka_unit_test(vectors),
        cmocka_unit_test(lazy),        cmocka_unit_test(leaving),      cmocka_unit_test(mappings),
        cmocka_unit_test(layouts),     cmocka_unit_test(stages),       cmocka_unit_test(aliases),
        cmocka_unit_test(printing),    cmocka_unit_test(constants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
