// SPDX-License-Identifier: Apache-2.0
// 20,000 random expressions: folding keeps the value in every lane and a second folding changes
// nothing; the value lies in node_bounds and is a multiple of node_divisor.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "ir/kernel.h"
#include "ir/scalar.h"

enum { TREES = 20000, ROUNDS = 4, LANES = 4, NVAR = 4 };

static const DType types[] = {DT_I64, DT_I64, DT_I64,  DT_I32, DT_I8, DT_U8,
                              DT_U16, DT_U64, DT_BOOL, DT_F32, DT_F16};

static uint64_t seed = 7;

static uint64_t next(void) // splitmix64
{
    uint64_t z = (seed += 0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
}

static int below(int n)
{
    return (int)(next() % (unsigned)n);
}

typedef struct World {
    Arena arena;
    Var var[COUNT(types)][NVAR];
    Scalar value[COUNT(types)][NVAR];
} World;

// ---- variables with bounds and divisors, and values that keep them

static void make_var(Var *v, DType t)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g"};
    static int64_t divisors[] = {1, 1, 2, 3, 4, 6, 8, 12};
    *v = (Var){
        .name = names[below(7)], .id = below(1000), .type = t, .lanes = 1, .lo = 1, .divisor = 1};
    if (!dtype_is_int(t)) return;
    v->divisor = divisors[below((int)COUNT(divisors))];
    if (!below(4)) return; // nothing known
    int64_t span = t == DT_I8 || t == DT_U8 ? 100 : (INT64_C(1) << (4 + below(11)));
    v->lo = dtypes[t].class == DC_INT && below(2) ? -(int64_t)below((int)span) : 0;
    v->hi = v->lo + below((int)span);
    if (floor_div_i64(v->hi, v->divisor) * v->divisor < v->lo) v->divisor = 1;
}

static Scalar random_value(const Var *v)
{
    if (v->type == DT_BOOL) return scalar_int(DT_BOOL, below(2));
    if (dtype_is_float(v->type)) return scalar_float(v->type, (below(200) - 100) / 8.0);
    if (v->lo <= v->hi) {
        int64_t x = v->lo + (int64_t)(next() % (uint64_t)(v->hi - v->lo + 1));
        x = floor_div_i64(x, v->divisor) * v->divisor;
        return scalar_int(v->type, x < v->lo ? floor_div_i64(v->hi, v->divisor) * v->divisor : x);
    }
    Scalar x = scalar_int(v->type, below(2) ? (int64_t)next() : below(200) - 100);
    Scalar d = scalar_int(v->type, v->divisor), pair[2] = {x, d}, q, exact;
    scalar_apply(N_MOD, v->type, pair, &q);
    pair[1] = q; // x - x % d; for signed types it can pass the least value
    scalar_apply(N_SUB, v->type, pair, &exact);
    Scalar again[2] = {exact, d};
    scalar_apply(N_MOD, v->type, again, &q);
    return q.v.i == 0 ? exact : scalar_int(v->type, 0);
}

// ---- random trees

static Node *tree(World *w, int type, int lanes, int depth);

static Node *constant(World *w, DType t)
{
    static const int64_t usual[] = {0, 0, 1, 1, 2, 3, 4, 8, 12, 16, 63, 64, -1, -2, -8, 127};
    if (dtype_is_float(t)) return node_float(&w->arena, 0, t, (double)(below(9) - 4) / 2);
    int64_t v = below(20) ? usual[below((int)COUNT(usual))] : (int64_t)next();
    return node_int(&w->arena, 0, t, v);
}

static Node *leaf(World *w, int type, int lanes)
{
    Arena *a = &w->arena;
    DType t = types[type];
    Node *n = below(2) ? constant(w, t) : node_var(a, 0, &w->var[type][below(NVAR)]);
    if (lanes == 1) return n;
    n = node_unary(a, dtype_is_int(t) && below(2) ? N_RAMP : N_BROADCAST, n);
    if (n->kind == N_RAMP) n->u.i = below(17) - 8;
    n->lanes = (uint16_t)lanes;
    return n;
}

static Node *boolean_tree(World *w, int lanes, int depth)
{
    static const NodeKind logic[] = {N_LAND, N_LOR, N_BAND, N_BOR, N_BXOR, N_EQ, N_NE, N_LT, N_LE};
    const int bool_type = 8;
    if (!below(4)) return node_unary(&w->arena, N_NOT, tree(w, bool_type, lanes, depth - 1));
    NodeKind k = logic[below((int)COUNT(logic))];
    int type =
        k == N_LAND || k == N_LOR || k == N_BAND || k == N_BOR || k == N_BXOR || below(8) == 0
            ? bool_type
            : below((int)COUNT(types));
    Node *x = tree(w, type, lanes, depth - 1);
    Node *y = below(8) ? tree(w, type, lanes, depth - 1) : x;
    return node_binary(&w->arena, k, x, y);
}

// Operations that every number type has, then those of integers.
static Node *number_tree(World *w, int type, int lanes, int depth)
{
    static const NodeKind kinds[] = {N_ADD, N_SUB, N_MUL, N_DIV, N_MOD,  N_MIN, N_MAX,
                                     N_ADD, N_MUL, N_SHL, N_SHR, N_BAND, N_BOR, N_BXOR};
    Arena *a = &w->arena;
    DType t = types[type];
    int nkind = dtype_is_int(t) ? (int)COUNT(kinds) : 7;
    if (!below(10)) {
        NodeKind k = dtype_is_int(t) && below(2) ? N_BNOT : N_NEG;
        return node_unary(a, k, tree(w, type, lanes, depth - 1));
    }
    Node *x = tree(w, type, lanes, depth - 1);
    Node *y = !below(10) ? x : below(2) ? leaf(w, type, lanes) : tree(w, type, lanes, depth - 1);
    NodeKind k = kinds[below(nkind)];
    return below(2) ? node_binary(a, k, x, y) : node_binary(a, k, y, x);
}

static Node *tree(World *w, int type, int lanes, int depth)
{
    Arena *a = &w->arena;
    DType t = types[type];
    if (depth <= 0 || !below(8)) return leaf(w, type, lanes);
    switch (below(10)) {
    case 0: {
        Node *x = tree(w, below((int)COUNT(types)), lanes, depth - 1);
        return node_cast(a, t, x);
    }
    case 1: {
        Node *cond = tree(w, 8, below(2) ? lanes : 1, depth - 1);
        Node *x = tree(w, type, lanes, depth - 1);
        Node *n = node_select(a, cond, x, below(6) ? tree(w, type, lanes, depth - 1) : x);
        n->lanes = (uint16_t)lanes;
        return n;
    }
    case 2:
        if (lanes == 1) {
            Node *lane = node_i64(a, below(LANES));
            return node_make(a, N_EXTRACT, 0, 2, (Node *[]){tree(w, type, LANES, depth - 1), lane});
        }
        // fall through
    default: break;
    }
    return t == DT_BOOL ? boolean_tree(w, lanes, depth) : number_tree(w, type, lanes, depth);
}

// ---- direct evaluation of one lane

static Scalar eval(const World *w, const Node *n, int lane)
{
    Scalar x[SCALAR_MAX_OPERANDS], out;
    if (scalar_of(n, &out)) return out;
    if (n->lanes == 1 && n->kind != N_EXTRACT) lane = 0;
    switch (n->kind) {
    case N_VARREF:
        for (size_t t = 0; t < COUNT(types); t++) {
            for (int i = 0; i < NVAR; i++) {
                if (&w->var[t][i] == n->u.var) return w->value[t][i];
            }
        }
        fail_msg("unknown variable");
        break;
    case N_BROADCAST: return eval(w, n->kid[0], 0);
    case N_EXTRACT: return eval(w, n->kid[0], (int)n->kid[1]->u.i);
    case N_RAMP: {
        Scalar base = eval(w, n->kid[0], 0);
        return scalar_int(base.type,
                          (int64_t)((uint64_t)base.v.i + (uint64_t)n->u.i * (uint64_t)lane));
    }
    default: break;
    }
    for (uint32_t i = 0; i < n->nkid; i++)
        x[i] = eval(w, n->kid[i], n->kid[i]->lanes == 1 ? 0 : lane);
    if (!scalar_apply((NodeKind)n->kind, (DType)n->type, x, &out)) {
        fail_msg("%s of %s", node_info[n->kind].name, dtypes[n->type].name);
    }
    return out;
}

static Node *fold_all(void *user, Node *n)
{
    Arena *a = user;
    return node_fold(a, node_map(a, n, fold_all, a));
}

static const char *text(World *w, const Node *n)
{
    Buf out;
    buf_init(&out, &w->arena);
    node_print(n, &out);
    return buf_text(&out);
}

static void check_range(World *w, const Node *n, const Scalar *s)
{
    int64_t lo, hi, d = node_divisor(n);
    long long v = (long long)s->v.i;
    assert_true(d >= 1);
    if (dtype_is_float(s->type)) return;
    bool outside_i64 = s->type == DT_U64 && v < 0;
    if (node_bounds(n, &lo, &hi) && (v < lo || v > hi || outside_i64)) {
        fail_msg("%s is %lld, not in %lld .. %lld", text(w, n), v, (long long)lo, (long long)hi);
    }
    bool divides = outside_i64 ? (uint64_t)v % (uint64_t)d == 0 : v % d == 0;
    if (s->type != DT_BOOL && !divides) {
        fail_msg("%s is %lld, no multiple of %lld", text(w, n), v, (long long)d);
    }
}

static void check_tree(World *w, Node *n, int lanes)
{
    Node *folded = fold_all(&w->arena, n);
    assert_int_equal(folded->type, n->type);
    assert_int_equal(folded->lanes, n->lanes);
    if (!node_equal(fold_all(&w->arena, folded), folded)) fail_msg("unstable: %s", text(w, n));
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t t = 0; t < COUNT(types); t++) {
            for (int i = 0; i < NVAR; i++) w->value[t][i] = random_value(&w->var[t][i]);
        }
        for (int lane = 0; lane < lanes; lane++) {
            Scalar before = eval(w, n, lane), after = eval(w, folded, lane);
            if (!scalar_bits_equal(&before, &after)) {
                fail_msg("%s folds to %s", text(w, n), text(w, folded));
            }
            check_range(w, n, &before);
            check_range(w, folded, &before);
        }
    }
}

static void test_trees(void **state)
{
    UNUSED(state);
    int bounded = 0, divided = 0;
    for (int i = 0; i < TREES; i++) {
        World w = {0};
        for (size_t t = 0; t < COUNT(types); t++) {
            for (int k = 0; k < NVAR; k++) make_var(&w.var[t][k], types[t]);
        }
        int lanes = below(3) ? 1 : LANES;
        Node *n = tree(&w, below((int)COUNT(types)), lanes, 1 + below(5));
        check_tree(&w, n, lanes);
        int64_t lo, hi;
        bounded += n->type == DT_I64 && node_bounds(n, &lo, &hi);
        divided += n->type == DT_I64 && node_divisor(n) > 1;
        arena_free(&w.arena);
    }
    assert_true(bounded > TREES / 20); // or the test would prove little
    assert_true(divided > TREES / 20);
}

// What passes rely on.
static void test_precise(void **state)
{
    UNUSED(state);
    Arena a = {0};
    Var i = {.name = "i", .type = DT_I64, .lanes = 1, .lo = 0, .hi = 255, .divisor = 1};
    Var n = {.name = "n", .type = DT_I64, .lanes = 1, .lo = 16, .hi = 4096, .divisor = 16};
    Node *ri = node_var(&a, 0, &i), *rn = node_var(&a, 0, &n);
    int64_t lo, hi;
    Node *lane = node_binary(&a, N_MOD, ri, node_i64(&a, 32));
    assert_true(node_bounds(lane, &lo, &hi) && lo == 0 && hi == 31);
    Node *warp = node_binary(&a, N_DIV, ri, node_i64(&a, 32));
    assert_true(node_bounds(warp, &lo, &hi) && lo == 0 && hi == 7);
    Node *index = node_binary(&a, N_ADD, node_binary(&a, N_MUL, ri, node_i64(&a, 24)), rn);
    assert_int_equal(node_divisor(index), 8);
    assert_int_equal(node_divisor(node_binary(&a, N_DIV, rn, node_i64(&a, 4))), 4);
    Node *less = node_binary(&a, N_LT, lane, rn);
    assert_false(node_bounds(less, &lo, &hi) && lo == 1);
    less = node_binary(&a, N_LT, warp, rn);
    assert_true(node_bounds(less, &lo, &hi) && lo == 1);
    Node *remainder = node_binary(&a, N_MOD, warp, rn);
    assert_true(node_bounds(remainder, &lo, &hi) && lo == 0 && hi == 7);
    arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_trees),
                                       cmocka_unit_test(test_precise)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
