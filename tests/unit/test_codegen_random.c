// SPDX-License-Identifier: Apache-2.0
// Random kernels over lanes and as plain loops: branches, loops, carried variables, private arrays,
// guarded loads. Some are compiled with the undefined-behaviour sanitizer, which stops the test at
// the first thing that C does not define.
#include "codegen/codegen.h"
#include "codegen_kit.h"

enum { KERNELS = 12, SANITIZED = 3, PRIVATE = 6 };

typedef struct Random {
    Kit *t;
    DType type;
    Buffer *x, *y, *p;
    Node *i;
    Var *values[64]; // of `type`
    int nvalues;
    Var *counters[8];
    int ncounters;
    Var *states[3];
} Random;

static uint32_t pick(Random *r, uint32_t n)
{
    return kit_random(r->t) % n;
}

static Node *constant(Random *r)
{
    static const double v[] = {0, -0.0, 1, 0.5, -3, 7, 100};
    double x = v[pick(r, COUNT(v))];
    return dtype_is_float(r->type) ? node_float(&r->t->arena, 0, r->type, x)
                                   : node_int(&r->t->arena, 0, r->type, (int64_t)x);
}

static Node *place(Random *r)
{
    Node *base = r->ncounters && pick(r, 2) ? R(r->t, r->counters[pick(r, (uint32_t)r->ncounters)])
                                            : I(r->t, pick(r, 100));
    return bin(r->t, N_MOD, base, I(r->t, PRIVATE));
}

static Node *value(Random *r, int depth);

static Node *condition(Random *r, int depth)
{
    static const NodeKind kinds[] = {N_LT, N_LE, N_EQ, N_NE};
    static const NodeKind joins[] = {N_LAND, N_LOR};
    if (depth > 0 && pick(r, 4) == 0)
        return bin(r->t, joins[pick(r, 2)], condition(r, depth - 1), condition(r, depth - 1));
    if (pick(r, 5) == 0)
        return bin(r->t, N_LT, bin(r->t, N_MOD, r->i, I(r->t, 5)), I(r->t, pick(r, 6)));
    return bin(r->t, kinds[pick(r, 4)], value(r, depth - 1), value(r, depth - 1));
}

static Node *leaf(Random *r)
{
    Node *at = add(r->t, r->i, I(r->t, (int64_t)pick(r, 9) - 4));
    switch (pick(r, 6)) {
    case 0: return constant(r);
    case 1: return load1(r->t, r->p, place(r));
    case 2: return R(r->t, r->states[pick(r, COUNT(r->states))]);
    case 3:
        if (r->nvalues) return R(r->t, r->values[pick(r, (uint32_t)r->nvalues)]);
        return constant(r);
    case 4: return node_cast(&r->t->arena, r->type, bin(r->t, N_MOD, r->i, I(r->t, 11)));
    default: return load_else(r->t, r->x, 1, &at, constant(r));
    }
}

static Node *value(Random *r, int depth)
{
    static const NodeKind kinds[] = {N_ADD, N_SUB, N_MUL, N_MIN, N_MAX, N_DIV, N_MOD};
    if (depth <= 0) return leaf(r);
    switch (pick(r, 6)) {
    case 0:
        return node_select(&r->t->arena, condition(r, depth - 1), value(r, depth - 1),
                           value(r, depth - 1));
    case 1:
        return intrinsic(r->t, "fma", 3,
                         (Node *[]){value(r, depth - 1), value(r, depth - 1), leaf(r)});
    case 2: return node_unary(&r->t->arena, N_NEG, value(r, depth - 1));
    default:
        return bin(r->t, kinds[pick(r, COUNT(kinds))], value(r, depth - 1), value(r, depth - 1));
    }
}

static Node *block(Random *r, int depth);

static Node *counted_loop(Random *r, int depth)
{
    Var *k = kit_var(r->t, "k");
    r->counters[r->ncounters++] = k;
    Node *body = block(r, depth - 1);
    r->ncounters--;
    Node *l = loop(r->t, k, I(r->t, pick(r, 2)), I(r->t, pick(r, 5)), body);
    l->sub = pick(r, 2) ? LOOP_PLAIN : LOOP_UNROLL;
    return l;
}

static Node *statement(Random *r, int depth)
{
    Kit *t = r->t;
    Node *at = place(r);
    switch (depth > 0 ? pick(r, 8) : pick(r, 5)) {
    case 0: {
        Node *v = value(r, 3);
        Var *name = kernel_var(t->kernel, "v", r->type, false);
        if (r->nvalues < 64) r->values[r->nvalues++] = name;
        return make_define(&t->arena, 0, name, v);
    }
    case 1: return store(t, r->y, 1, &r->i, value(r, 3), GUARD_DROP);
    case 2: return store(t, r->p, 1, &at, value(r, 2), GUARD_NONE);
    case 3:
    case 4: return make_set(&t->arena, 0, r->states[pick(r, COUNT(r->states))], value(r, 3));
    case 5: return counted_loop(r, depth);
    default: {
        Node *cond = condition(r, 2), *then = block(r, depth - 1);
        return make_if(&t->arena, 0, cond, then, pick(r, 2) ? block(r, depth - 1) : NULL);
    }
    }
}

static Node *block(Random *r, int depth)
{
    Node *stmt[5];
    int outer = r->nvalues, n = 1 + (int)pick(r, 3);
    for (int i = 0; i < n; i++) stmt[i] = statement(r, depth);
    r->nvalues = outer; // names end with their block
    return seq(r->t, n, stmt);
}

static Node *body(Random *r)
{
    Kit *t = r->t;
    Node *zero = constant(r), *alloc = node_make(&t->arena, N_ALLOC, 0, 1, &zero), *stmt[8];
    alloc->u.buf = r->p;
    int n = 0;
    stmt[n++] = alloc;
    for (size_t i = 0; i < COUNT(r->states); i++) {
        Node *init = constant(r);
        r->states[i] = kernel_var(t->kernel, "s", r->type, true);
        stmt[n] = node_make(&t->arena, N_DECLARE, 0, 1, &init);
        stmt[n++]->u.var = r->states[i];
    }
    stmt[n++] = block(r, 2);
    stmt[n++] = block(r, 2);
    stmt[n++] = store(t, r->y, 1, &r->i, R(t, r->states[0]), GUARD_DROP);
    return seq(t, n, stmt);
}

static void run(uint64_t seed, const char *flags, bool traps)
{
    static const DType types[] = {DT_F32, DT_F32, DT_I32, DT_F64, DT_BF16, DT_I64};
    static const int widths[] = {16, 8, 4, 3, 1};
    Kit *t = kit_new();
    t->random = seed * 7919;
    t->extra_flags = flags;
    t->traps = traps;
    Random r = {.t = t};
    r.type = types[pick(&r, COUNT(types))];
    int width = widths[pick(&r, COUNT(widths))];
    Var *n = kit_dim(t, "n"), *bx = kit_builtin(t, "bx", VAR_BLOCK_X), *v = kit_var(t, "i");
    Var *lane = kit_builtin(t, "lane", VAR_LANE);
    r.x = kit_buffer(t, "x", r.type, 1, (Node *[]){R(t, n)}, false);
    r.y = kit_buffer(t, "y", r.type, 1, (Node *[]){R(t, n)}, true);
    r.p = kernel_buffer(t->kernel, "p", SPACE_LOCAL, r.type, 1, (Node *[]){I(t, PRIVATE)});
    r.i = add(t, mul(t, R(t, bx), I(t, 2 * width)), R(t, v));
    t->stage->ngrid = 1;
    t->stage->grid[0] = bin(t, N_DIV, add(t, R(t, n), I(t, 2 * width - 1)), I(t, 2 * width));
    const Mapping *m = compose(t, repeat(t, 1, SHAPE(2)), spatial(t, 1, SHAPE(width)));
    t->stage->body = SEQ(t, mapfor(t, m, R(t, lane), &v, body(&r)));
    static const int64_t sizes[] = {37, 1, 0};
    for (size_t s = 0; s < COUNT(sizes); s++) kit_differential(t, &sizes[s]);
    kit_free(t);
}

static void test_random(void **state)
{
    UNUSED(state);
    const char *one = getenv("HEALD_SEED"); // a single kernel, to look at
    if (one) {
        run(strtoull(one, NULL, 10), "-O1", false);
        return;
    }
    for (uint64_t seed = 1; seed <= KERNELS; seed++) run(seed, seed % 3 ? "-O1" : "-O2", false);
}

static void test_traps(void **state)
{
    UNUSED(state);
    for (uint64_t seed = 101; seed <= 102; seed++) run(seed, "-O1", true);
}

static void test_sanitized(void **state)
{
    UNUSED(state);
    for (uint64_t seed = 201; seed <= 200 + SANITIZED; seed++)
        run(seed, "-O1 -fsanitize=undefined -fno-sanitize-recover=all", false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_traps),
        cmocka_unit_test(test_sanitized),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
