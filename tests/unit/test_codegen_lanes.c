// SPDX-License-Identifier: Apache-2.0
// Loops over lanes: register tiles, masks, reductions over a register, private arrays, gathers, and
// what has to run lane by lane.
#include "codegen/codegen.h"
#include "codegen_kit.h"

// c = a b from packed panels, the register tile of a CPU matmul: acc over repeat(mr, nv) *
// spatial(1, lanes), one block a tile. `fused`: at the end the core
// puts the greater of columns 3 and 5 into column 5, element by element.
static void tile_kernel(Kit *t, DType type, int mr, int nv, int lanes, bool fused)
{
    Var *m = kit_dim(t, "m"), *n = kit_dim(t, "n"), *k = kit_dim(t, "k");
    int nr = nv * lanes;
    Node *mt = bin(t, N_DIV, add(t, R(t, m), I(t, mr - 1)), I(t, mr));
    Node *nt = bin(t, N_DIV, add(t, R(t, n), I(t, nr - 1)), I(t, nr));
    Buffer *pa = kit_buffer(t, "pa", type, 3, (Node *[]){mt, R(t, k), I(t, mr)}, false);
    Buffer *pb = kit_buffer(t, "pb", type, 3, (Node *[]){nt, R(t, k), I(t, nr)}, false);
    Buffer *c = kit_buffer(t, "c", type, 2, (Node *[]){R(t, m), R(t, n)}, true);
    pa->align_bytes = pb->align_bytes = 64;
    Var *bx = kit_builtin(t, "bx", VAR_BLOCK_X), *by = kit_builtin(t, "by", VAR_BLOCK_Y);
    Var *lane = kit_builtin(t, "lane", VAR_LANE);
    t->stage->ngrid = 2;
    t->stage->grid[0] = mt;
    t->stage->grid[1] = nt;
    const Mapping *tile = compose(t, repeat(t, 2, SHAPE(mr, nv)), spatial(t, 2, SHAPE(1, lanes)));
    Buffer *acc =
        kernel_buffer(t->kernel, "acc", SPACE_LOCAL, type, 2, (Node *[]){I(t, mr), I(t, nr)});
    acc->over = tile;
    acc->over_worker = R(t, lane);
    Node *zero = node_float(&t->arena, 0, type, 0);
    Node *alloc = node_make(&t->arena, N_ALLOC, 0, 1, &zero);
    alloc->u.buf = acc;
    Var *l = kit_var(t, "l"), *ij[2] = {kit_var(t, "i"), kit_var(t, "j")},
        *pq[2] = {kit_var(t, "p"), kit_var(t, "q")};
    Node *at[2] = {R(t, ij[0]), R(t, ij[1])};
    Node *a3 = make_load(&t->arena, 0, pa, 3, (Node *[]){R(t, bx), R(t, l), at[0]});
    Node *b3 = make_load(&t->arena, 0, pb, 3, (Node *[]){R(t, by), R(t, l), at[1]});
    Node *fma = intrinsic(t, "fma", 3, (Node *[]){a3, b3, load2(t, acc, at[0], at[1])});
    Node *step = mapfor(t, tile, R(t, lane), ij, SEQ(t, store(t, acc, 2, at, fma, 0)));
    Node *tp = R(t, pq[0]), *tq = R(t, pq[1]);
    Node *value = load2(t, acc, tp, tq);
    Node *where[2] = {add(t, mul(t, R(t, bx), I(t, mr)), tp),
                      add(t, mul(t, R(t, by), I(t, nr)), tq)};
    Node *out = mapfor(t, tile, R(t, lane), pq, SEQ(t, store(t, c, 2, where, value, GUARD_DROP)));
    Var *r = kit_var(t, "r");
    Node *five[2] = {R(t, r), I(t, 5)};
    Node *greater = bin(t, N_MAX, load2(t, acc, five[0], five[1]), load2(t, acc, R(t, r), I(t, 3)));
    Node *core =
        loop(t, r, I(t, 0), I(t, fused ? mr : 0), SEQ(t, store(t, acc, 2, five, greater, 0)));
    t->stage->body = SEQ(t, alloc, loop(t, l, I(t, 0), R(t, k), SEQ(t, step)), core, out);
}

static void test_tiles(void **state)
{
    UNUSED(state);
    static const int64_t dims[][3] = {{1, 1, 1}, {3, 17, 5}, {17, 127, 3}, {6, 32, 0}, {0, 3, 3}};
    static const struct {
        DType type;
        int mr, nv, lanes;
    } tiles[] = {{DT_F32, 6, 2, 16}, {DT_F32, 3, 2, 8}, {DT_F64, 2, 2, 8},
                 {DT_F32, 2, 1, 32}, {DT_F16, 2, 2, 8}, {DT_BF16, 2, 1, 16}};
    for (size_t i = 0; i < COUNT(tiles); i++) {
        Kit *t = kit_new();
        tile_kernel(t, tiles[i].type, tiles[i].mr, tiles[i].nv, tiles[i].lanes, i == 1);
        for (size_t d = 0; d < COUNT(dims); d += i ? 2 : 1) kit_differential(t, dims[d]);
        kit_free(t);
    }
}

// The accumulators of a tile are vector variables, and its lanes run together.
static void test_tile_text(void **state)
{
    UNUSED(state);
    Kit *t = kit_new();
    tile_kernel(t, DT_F32, 6, 2, 16, false);
    kit_differential(t, (const int64_t[]){6, 32, 4});
    assert_non_null(strstr(t->text, "h_fma_f32x16("));
    assert_null(strstr(t->text, "acc_9["));
    assert_null(strstr(t->text, "gather"));
    kit_free(t);
}

// y[i] = f(x) for 16 lanes at a time in a block of 48, with a body given by `make`.
typedef Node *BodyFn(Kit *t, Buffer *x, Buffer *y, Node *i, Var *n);

static void lanes_kernel(Kit *t, DType type, DType out, int lanes, BodyFn *make)
{
    Var *n = kit_dim(t, "n"), *bx = kit_builtin(t, "bx", VAR_BLOCK_X);
    Var *lane = kit_builtin(t, "lane", VAR_LANE), *v = kit_var(t, "i");
    Buffer *x = kit_buffer(t, "x", type, 1, (Node *[]){R(t, n)}, false);
    Buffer *y = kit_buffer(t, "y", out, 1, (Node *[]){R(t, n)}, true);
    t->stage->ngrid = 1;
    t->stage->grid[0] = bin(t, N_DIV, add(t, R(t, n), I(t, 3 * lanes - 1)), I(t, 3 * lanes));
    const Mapping *m = compose(t, repeat(t, 1, SHAPE(3)), spatial(t, 1, SHAPE(lanes)));
    Node *i = add(t, mul(t, R(t, bx), I(t, 3 * lanes)), R(t, v));
    t->stage->body = SEQ(t, mapfor(t, m, R(t, lane), &v, make(t, x, y, i, n)));
}

static void run_lanes(DType type, DType out, int lanes, BodyFn *make)
{
    static const int64_t sizes[] = {127, 48, 3, 0};
    Kit *t = kit_new();
    lanes_kernel(t, type, out, lanes, make);
    for (size_t s = 0; s < COUNT(sizes); s++) kit_differential(t, &sizes[s]);
    kit_free(t);
}

static Node *set(Kit *t, Var *v, Node *value)
{
    return make_set(&t->arena, 0, v, value);
}

static Node *declare(Kit *t, Var *v, Node *init)
{
    Node *d = node_make(&t->arena, N_DECLARE, 0, 1, &init);
    d->u.var = v;
    return d;
}

static Node *guarded(Kit *t, Buffer *x, Node *i)
{
    return load_else(t, x, 1, &i,
                     dtype_is_float(x->type) ? node_float(&t->arena, 0, x->type, 2)
                                             : node_int(&t->arena, 0, x->type, 2));
}

// if x < 0 { s = 1; for k in 0 .. 3 { s = s + x * k } } else { s = x; if (x < 2) y = s - 1 }
static Node *branches(Kit *t, Buffer *x, Buffer *y, Node *i, Var *n)
{
    UNUSED(n);
    Var *s = kernel_var(t->kernel, "s", DT_F32, true),
        *v = kernel_var(t->kernel, "v", DT_F32, false);
    Var *k = kit_var(t, "k");
    Node *value = make_define(&t->arena, 0, v, guarded(t, x, i));
    Node *cast = node_cast(&t->arena, DT_F32, R(t, k));
    Node *inner =
        loop(t, k, I(t, 0), I(t, 3), SEQ(t, set(t, s, add(t, R(t, s), mul(t, R(t, v), cast)))));
    Node *then = SEQ(t, set(t, s, F(t, 1)), inner);
    Node *maybe =
        make_if(&t->arena, 0, bin(t, N_LT, R(t, v), F(t, 2)),
                SEQ(t, store(t, y, 1, &i, bin(t, N_SUB, R(t, s), F(t, 1)), GUARD_DROP)), NULL);
    Node *other = SEQ(t, set(t, s, R(t, v)), maybe);
    Node *branch = make_if(&t->arena, 0, bin(t, N_LT, R(t, v), F(t, 0)), then, other);
    Node *last = make_if(&t->arena, 0, bin(t, N_LE, F(t, 2), R(t, s)),
                         SEQ(t, store(t, y, 1, &i, R(t, s), GUARD_DROP)), NULL);
    return SEQ(t, declare(t, s, F(t, 0)), value, branch, last);
}

// A private array written in one order and read in another.
static Node *private_array(Kit *t, Buffer *x, Buffer *y, Node *i, Var *n)
{
    UNUSED(n);
    Buffer *b = kernel_buffer(t->kernel, "p", SPACE_LOCAL, DT_F32, 1, (Node *[]){I(t, 5)});
    Node *alloc = node_make(&t->arena, N_ALLOC, 0, 1, (Node *[]){NULL});
    alloc->u.buf = b;
    Var *k = kit_var(t, "k"), *s = kernel_var(t->kernel, "s", DT_F32, true);
    Node *kk = R(t, k), *value = add(t, guarded(t, x, i), node_cast(&t->arena, DT_F32, kk));
    Node *fill = loop(t, k, I(t, 0), I(t, 5), SEQ(t, store(t, b, 1, &kk, value, 0)));
    Var *q = kit_var(t, "q");
    Node *back = bin(t, N_SUB, I(t, 4), R(t, q));
    Node *sum =
        loop(t, q, I(t, 0), I(t, 5), SEQ(t, set(t, s, bin(t, N_SUB, load1(t, b, back), R(t, s)))));
    return SEQ(t, alloc, fill, declare(t, s, F(t, 0)), sum,
               store(t, y, 1, &i, R(t, s), GUARD_DROP));
}

// y[i] = x[n - 1 - i] + x[(i * 7) % n], with the division by n left in every lane
static Node *gathers(Kit *t, Buffer *x, Buffer *y, Node *i, Var *n)
{
    Node *back = bin(t, N_SUB, bin(t, N_SUB, R(t, n), I(t, 1)), i);
    Node *hop = bin(t, N_MOD, mul(t, i, I(t, 7)), R(t, n));
    Node *even = mul(t, bin(t, N_DIV, i, I(t, 2)), I(t, 2));
    Node *sum = add(t, add(t, guarded(t, x, back), guarded(t, x, hop)), guarded(t, x, even));
    return SEQ(t, store(t, y, 1, &i, sum, GUARD_DROP));
}

// A while loop of each lane's own length has no vector form here.
static Node *lane_by_lane(Kit *t, Buffer *x, Buffer *y, Node *i, Var *n)
{
    UNUSED(n);
    Var *s = kernel_var(t->kernel, "s", DT_F32, true);
    Node *more = bin(t, N_LT, F(t, 1), R(t, s));
    Node *body = SEQ(t, set(t, s, mul(t, R(t, s), F(t, 0.5))));
    Node *capped = bin(t, N_MIN, guarded(t, x, i), F(t, 1000));
    return SEQ(t, declare(t, s, capped),
               node_make(&t->arena, N_WHILE, 0, 2, (Node *[]){more, body}),
               store(t, y, 1, &i, R(t, s), GUARD_DROP));
}

static void test_bodies(void **state)
{
    UNUSED(state);
    run_lanes(DT_F32, DT_F32, 16, branches);
    run_lanes(DT_F32, DT_F32, 8, branches);
    run_lanes(DT_F32, DT_F32, 16, private_array);
    run_lanes(DT_F32, DT_F32, 8, gathers);
    run_lanes(DT_F64, DT_F64, 4, gathers);
    run_lanes(DT_I32, DT_I32, 16, gathers);
    run_lanes(DT_BF16, DT_BF16, 16, gathers);
    run_lanes(DT_F32, DT_F32, 8, lane_by_lane);
    run_lanes(DT_F32, DT_F32, 3, branches);
    run_lanes(DT_F32, DT_F32, 1, branches);
}

// ---- every operator on every type, in vectors of several widths and as scalars

typedef struct Op {
    NodeKind kind;
    const char *intrinsic;
    DType to; // of a cast
} Op;

static Node *apply_op(Kit *t, const Op *op, Node *x, Node *y)
{
    if (op->intrinsic) return intrinsic(t, op->intrinsic, 1, &x);
    if (op->kind == N_CAST) return node_cast(&t->arena, op->to, x);
    return node_info[op->kind].nfixed == 1 ? node_unary(&t->arena, op->kind, x)
                                           : bin(t, op->kind, x, y);
}

// out[i] = op(x[i], x[i - 3]) for up to 7 operators, each with an output of its own.
static void run_ops(DType type, int lanes, int nop, const Op *ops)
{
    static const int64_t size = 127;
    Kit *t = kit_new();
    t->random = (uint64_t)ops[0].kind * 77 + type;
    t->extra_flags = "-O1";
    Var *n = kit_dim(t, "n"), *lane = kit_builtin(t, "lane", VAR_LANE), *i = kit_var(t, "i");
    Buffer *x = kit_buffer(t, "x", type, 1, (Node *[]){R(t, n)}, false);
    Node *at = R(t, i), *a = guarded(t, x, at), *b = guarded(t, x, bin(t, N_SUB, at, I(t, 3)));
    Node *stmts[KIT_MAX_BUFFERS];
    for (int k = 0; k < nop; k++) {
        Node *value = apply_op(t, &ops[k], a, b);
        Buffer *y = kit_buffer(t, "y", (DType)value->type, 1, (Node *[]){R(t, n)}, true);
        stmts[k] = store(t, y, 1, &at, value, GUARD_DROP);
    }
    const Mapping *m = compose(t, repeat(t, 1, SHAPE(128 / lanes)), spatial(t, 1, SHAPE(lanes)));
    t->stage->body = SEQ(t, mapfor(t, m, R(t, lane), &i, seq(t, nop, stmts)));
    kit_differential(t, &size);
    kit_free(t);
}

static void test_operators(void **state)
{
    UNUSED(state);
    static const Op arithmetic[] = {{N_ADD, 0, 0}, {N_SUB, 0, 0}, {N_MUL, 0, 0}, {N_DIV, 0, 0},
                                    {N_MOD, 0, 0}, {N_MIN, 0, 0}, {N_MAX, 0, 0}};
    static const Op bits[] = {{N_SHL, 0, 0}, {N_SHR, 0, 0},  {N_BAND, 0, 0},
                              {N_BOR, 0, 0}, {N_BXOR, 0, 0}, {N_BNOT, 0, 0}};
    static const Op compare[] = {
        {N_EQ, 0, 0}, {N_NE, 0, 0}, {N_LT, 0, 0}, {N_LE, 0, 0}, {N_NEG, 0, 0}};
    static const DType types[] = {DT_I8,   DT_I32, DT_I64, DT_U8,       DT_U64,       DT_F16,
                                  DT_BF16, DT_F32, DT_F64, DT_F8E4M3FN, DT_F8E5M2FNUZ};
    static const int lanes[] = {1, 16, 8, 32};
    for (size_t k = 0; k < COUNT(types); k++) {
        for (size_t w = 0; w < COUNT(lanes); w += types[k] == DT_F32 ? 1 : 2) {
            int width = lanes[(w + k) % 4];
            run_ops(types[k], width, COUNT(arithmetic), arithmetic);
            if (dtype_is_int(types[k])) run_ops(types[k], width, COUNT(bits), bits);
            run_ops(types[k], width, COUNT(compare), compare);
        }
    }
    run_ops(DT_BOOL, 16, 4, compare);
    run_ops(DT_BOOL, 1, 4, compare);
    run_ops(DT_BOOL, 16, 3, bits + 2);
}

static void test_intrinsics(void **state)
{
    UNUSED(state);
    static const Op ops[] = {{0, "sqrt", 0},  {0, "floor", 0}, {0, "ceil", 0},
                             {0, "trunc", 0}, {0, "rint", 0},  {0, "abs", 0}};
    static const DType types[] = {DT_F32, DT_F64, DT_F16};
    static const int lanes[] = {16, 8, 1, 4, 32};
    for (size_t k = 0; k < COUNT(types); k++) {
        for (size_t w = 0; w < COUNT(lanes); w += types[k] == DT_F16 ? 2 : 1)
            run_ops(types[k], lanes[w], COUNT(ops), ops);
    }
}

static void test_casts(void **state)
{
    UNUSED(state);
    static const DType types[] = {DT_BOOL, DT_I8,  DT_I32,  DT_I64, DT_U16,
                                  DT_U64,  DT_F16, DT_BF16, DT_F32, DT_F64};
    for (size_t i = 0; i < COUNT(types); i++) {
        Op ops[COUNT(types)];
        int n = 0;
        for (size_t k = 0; k < COUNT(types); k++) {
            if (k != i) ops[n++] = (Op){N_CAST, NULL, types[k]};
        }
        run_ops(types[i], 16, 5, ops);
        run_ops(types[i], 16, n - 5, ops + 5);
        run_ops(types[i], 1, 5, ops);
        run_ops(types[i], 1, n - 5, ops + 5);
    }
}

// Types of at most 8 bits to others, back, and to each other.
static void test_small_casts(void **state)
{
    UNUSED(state);
    static const DType small[] = {DT_F8E4M3FN, DT_F8E4M3FNUZ, DT_F8E5M2, DT_F8E5M2FNUZ, DT_F4E2M1,
                                  DT_I4,       DT_U4,         DT_I2,     DT_U2};
    static const DType other[] = {DT_F32, DT_F64, DT_F16, DT_BF16, DT_I64, DT_U64, DT_I8, DT_BOOL};
    Op to[COUNT(small)];
    for (size_t k = 0; k < COUNT(small); k++) to[k] = (Op){N_CAST, NULL, small[k]};
    for (size_t i = 0; i < COUNT(other); i++) {
        int lanes = i % 2 ? 16 : 32;
        run_ops(other[i], lanes, 5, to);
        run_ops(other[i], i < 2 ? 1 : lanes, 4, to + 5);
    }
    for (size_t i = 0; i < COUNT(small); i++) {
        Op from[5];
        for (size_t k = 0; k < 4; k++) from[k] = (Op){N_CAST, NULL, other[2 * k + i % 2]};
        from[4] = (Op){N_CAST, NULL, small[(i + 4) % COUNT(small)]};
        run_ops(small[i], i % 3 ? 16 : 1, 5, from);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tiles),       cmocka_unit_test(test_tile_text),
        cmocka_unit_test(test_bodies),      cmocka_unit_test(test_operators),
        cmocka_unit_test(test_intrinsics),  cmocka_unit_test(test_casts),
        cmocka_unit_test(test_small_casts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
