// SPDX-License-Identifier: Apache-2.0
// The interpreter's own instructions against scalar.c, which says what the operations mean: every
// operator and pure intrinsic, on every type on which it is defined, over edge values and random
// bits.
#include "unit/interp_build.h"

#include "ir/interp.h"
#include "ir/scalar.h"

enum { N = 400 };

static uint64_t random_bits(void)
{
    static uint64_t s = 88172645463325252u;
    s ^= s << 13;
    s ^= s >> 7;
    return s ^= s << 17;
}

static void fill(DType type, void *p)
{
    static const double edge[] = {0,         -0.0,       1,        -1,   0.5,  2,
                                  3,         7,          63,       -8,   127,  128,
                                  -128,      255,        65504,    1e-8, 1e10, -2147483648.0,
                                  1.0 / 0.0, -1.0 / 0.0, 0.0 / 0.0};
    char *at = p;
    for (int i = 0; i < N; i++, at += dtype_size(type)) {
        uint64_t bits = random_bits();
        if (bits % 3 == 0) dtype_store_f64(type, at, edge[bits / 3 % COUNT(edge)]);
        else if (type == DT_BOOL) *at = bits & 1;
        else if (dtypes[type].bits < 8) dtype_store_i64(type, at, (int64_t)bits);
        else memcpy(at, &(uint64_t){bits >> (bits % 5 * 8)}, dtype_size(type));
    }
}

static bool apply(const Node *n, const Scalar *x, Scalar *out)
{
    return n->kind == N_INTRIN ? scalar_intrinsic(intrinsic_id(n->u.intr), x, out)
                               : scalar_apply((NodeKind)n->kind, (DType)n->type, x, out);
}

// Runs y[i] = op(a[i], b[i], c[i]) for the node made by `make`, and compares.
static void compare(NodeKind kind, IntrinsicId intrinsic, int nargs, DType from, DType to)
{
    static _Alignas(16) char a[3][N * 8], y[N * 8];
    Build build, *k = &build;
    build_start(k, TARGET_CPU, 1, 1);
    Var *i = VARIABLE("i");
    Node *arg[3];
    for (int n = 0; n < nargs; n++) {
        DType type = kind == N_SELECT && n == 0 ? DT_BOOL : from;
        fill(type, a[n]);
        arg[n] = LOAD(INPUT("a", a[n], type, N), V(i));
    }
    Node *value = kind == N_INTRIN ? build_intrinsic(k, HERE, intrinsic, to, nargs, arg)
                                   : build_node(k, HERE, kind, nargs, arg);
    if (kind == N_CAST || kind == N_BITCAST) value->type = (uint8_t)to;
    to = (DType)value->type;
    Scalar x[3] = {0}, want;
    for (int n = 0; n < nargs; n++) x[n].type = (DType)arg[n]->type;
    if (to != DT_NONE && apply(value, x, &want)) {
        build_passes(k, LOOP(i, INT(0), INT(N), STORE(OUTPUT("y", y, to, N), value, V(i))));
        for (int e = 0; e < N; e++) {
            for (int n = 0; n < nargs; n++)
                x[n] = scalar_load((DType)arg[n]->type,
                                   a[n] + (size_t)e * dtype_size((DType)arg[n]->type));
            assert_true(apply(value, x, &want));
            Scalar got = scalar_load(to, y + (size_t)e * dtype_size(to));
            if (!scalar_bits_equal(&got, &want))
                fail_msg("%s of %s: %lld, %lld: got %lld / %.17g, want %lld / %.17g",
                         kind == N_INTRIN ? intrinsics[intrinsic].name : node_info[kind].name,
                         dtypes[from].name, (long long)x[0].v.i, (long long)x[1].v.i,
                         (long long)got.v.i, got.v.f, (long long)want.v.i, want.v.f);
        }
    }
    build_end(k);
}

static void operators(void **state)
{
    (void)state;
    static const NodeKind binary[] = {N_ADD,  N_SUB, N_MUL, N_DIV,  N_MOD, N_MIN,
                                      N_MAX,  N_SHL, N_SHR, N_BAND, N_BOR, N_BXOR,
                                      N_LAND, N_LOR, N_EQ,  N_NE,   N_LT,  N_LE};
    static const NodeKind unary[] = {N_NEG, N_NOT, N_BNOT};
    for (DType t = DT_BOOL; t < DT_COUNT; t++) {
        for (size_t i = 0; i < COUNT(binary); i++) compare(binary[i], INTR_COUNT, 2, t, t);
        for (size_t i = 0; i < COUNT(unary); i++) compare(unary[i], INTR_COUNT, 1, t, t);
        compare(N_SELECT, INTR_COUNT, 3, t, t);
    }
}

static void conversions(void **state)
{
    (void)state;
    for (DType from = DT_BOOL; from < DT_COUNT; from++) {
        for (DType to = DT_BOOL; to < DT_COUNT; to++) {
            compare(N_CAST, INTR_COUNT, 1, from, to);
            // A bool holds 0 or 1, whatever the bits are.
            if (dtypes[from].bits == dtypes[to].bits && to != DT_BOOL)
                compare(N_BITCAST, INTR_COUNT, 1, from, to);
        }
    }
}

static void pure_intrinsics(void **state)
{
    (void)state;
    for (DType t = DT_I8; t < DT_COUNT; t++)
        for (int id = 0; id < INTR_COUNT; id++)
            if (intrinsics[id].flags[0] == 'P' && id != INTR_LANE_SUM)
                compare(N_INTRIN, (IntrinsicId)id, (int)strlen(intrinsics[id].args), t, t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operators),
        cmocka_unit_test(conversions),
        cmocka_unit_test(pure_intrinsics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
