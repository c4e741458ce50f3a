// SPDX-License-Identifier: Apache-2.0
// Every rule of simplify.rules, and folding, on random trees: the value does not change for any
// values of the variables within their bounds, and a second run changes nothing.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/scalar.h"
#include "lang/lang.h"
#include "passes/pass.h"
#include "passes/rules.h"

enum { NVARS = 6, TREES = 20000, TREES_PER_RULE = 1500, VALUES = 12 };

typedef struct Gen {
    Arena arena;
    Kernel kernel;
    Rules *rules;
    Interner *names;
    Sources sources;
    uint64_t state;
    DType type;
    Var *var[NVARS];
    Var *flag[2];
    int64_t value[NVARS + 2];
    int hits[256];
} Gen;

static uint32_t next(Gen *g, uint32_t n)
{
    g->state = g->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(g->state >> 33) % n;
}

static int64_t small(Gen *g)
{
    return next(g, 8) ? (int64_t)next(g, 25) - 8
                      : (int64_t)((uint64_t)next(g, UINT32_MAX) << 32 | next(g, UINT32_MAX));
}

static void new_vars(Gen *g)
{
    static const DType types[] = {DT_I64, DT_I64, DT_I64, DT_I32, DT_I8, DT_U8, DT_U32, DT_U64};
    g->type = types[next(g, COUNT(types))];
    for (int i = 0; i < NVARS; i++) {
        g->var[i] = kernel_var(&g->kernel, "v", g->type, false);
        if (i % 2) { // known to be small and, half the time, not negative
            g->var[i]->lo = dtypes[g->type].class == DC_UINT || next(g, 2) ? 0 : -5;
            g->var[i]->hi = next(g, 2) ? 7 : 63;
        }
    }
    for (int i = 0; i < 2; i++) g->flag[i] = kernel_var(&g->kernel, "f", DT_BOOL, false);
}

static void new_values(Gen *g)
{
    for (int i = 0; i < NVARS; i++) {
        Var *v = g->var[i];
        int64_t x = v->lo <= v->hi ? v->lo + next(g, (uint32_t)(v->hi - v->lo + 1)) : small(g);
        g->value[i] = scalar_int(g->type, x).v.i;
    }
    g->value[NVARS] = next(g, 2);
    g->value[NVARS + 1] = next(g, 2);
}

static Scalar eval(Gen *g, const Node *n)
{
    Scalar x[3], out;
    if (scalar_of(n, &out)) return out;
    if (n->kind == N_VARREF) {
        for (int i = 0; i < NVARS; i++) {
            if (g->var[i] == n->u.var) return scalar_int(g->type, g->value[i]);
        }
        return scalar_int(DT_BOOL, g->value[NVARS + (n->u.var == g->flag[1])]);
    }
    for (uint32_t i = 0; i < n->nkid; i++) x[i] = eval(g, n->kid[i]);
    assert_true(scalar_apply((NodeKind)n->kind, (DType)n->type, x, &out));
    return out;
}

// ---- trees

static Node *number(Gen *g, int depth);

static Node *truth(Gen *g, int depth)
{
    Arena *a = &g->arena;
    static const NodeKind compare[] = {N_LT, N_LE, N_EQ, N_NE};
    static const NodeKind join[] = {N_LAND, N_LOR};
    if (depth == 0) return node_var(a, 0, g->flag[next(g, 2)]);
    uint32_t r = next(g, 8);
    if (r == 0) return node_unary(a, N_NOT, truth(g, depth - 1));
    if (r < 3) return node_binary(a, join[next(g, 2)], truth(g, depth - 1), truth(g, depth - 1));
    return node_binary(a, compare[next(g, 4)], number(g, depth - 1), number(g, depth - 1));
}

static Node *number(Gen *g, int depth)
{
    Arena *a = &g->arena;
    static const NodeKind kinds[] = {N_ADD, N_ADD, N_SUB, N_MUL, N_MUL, N_DIV, N_MOD, N_MIN, N_MAX};
    if (depth == 0) {
        if (next(g, 3) == 0) return node_int(a, 0, g->type, small(g));
        return node_var(a, 0, g->var[next(g, NVARS)]);
    }
    uint32_t r = next(g, 12);
    if (r == 0) return node_unary(a, N_NEG, number(g, depth - 1));
    if (r == 1)
        return node_select(a, truth(g, depth - 1), number(g, depth - 1), number(g, depth - 1));
    return node_binary(a, kinds[next(g, COUNT(kinds))], number(g, (int)next(g, (uint32_t)depth)),
                       number(g, depth - 1));
}

// ---- the property

static void fail_at(Gen *g, const char *what, Node *before, Node *after)
{
    Buf b;
    buf_init(&b, &g->arena);
    buf_printf(&b, "%s (%s)\n  ", what, dtypes[g->type].name);
    node_print(before, &b);
    buf_puts(&b, "\n  ");
    node_print(after, &b);
    for (int i = 0; i < NVARS; i++)
        buf_printf(&b, "\n  v%d = %lld in %lld .. %lld", g->var[i]->id, (long long)g->value[i],
                   (long long)g->var[i]->lo, (long long)g->var[i]->hi);
    fail_msg("%s", buf_text(&b));
}

static void expect_same_value(Gen *g, const char *what, Node *before, Node *after)
{
    assert_int_equal(before->type, after->type);
    for (int i = 0; i < VALUES; i++) {
        new_values(g);
        Scalar x = eval(g, before), y = eval(g, after);
        if (!scalar_bits_equal(&x, &y)) fail_at(g, what, before, after);
    }
}

static void check(Gen *g, Node *n)
{
    Node *once = simplify_tree(&g->kernel, g->rules, n);
    expect_same_value(g, "changed its value", n, once);
    Node *twice = simplify_tree(&g->kernel, g->rules, once);
    if (!node_equal(once, twice)) fail_at(g, "a second run changed it", once, twice);
}

static Gen *gen_new(void)
{
    Gen *g = calloc(1, sizeof *g);
    g->kernel.arena = &g->arena;
    g->rules = rules_new(&g->arena);
    g->names = interner_new(&g->arena);
    g->sources.arena = &g->arena;
    g->state = 42;
    return g;
}

static void gen_free(Gen *g)
{
    arena_free(&g->arena);
    free(g);
}

static void test_random_trees(void **state)
{
    UNUSED(state);
    Gen *g = gen_new();
    ArenaMark mark = arena_mark(&g->arena);
    for (int i = 0; i < TREES; i++) {
        new_vars(g);
        check(g, i % 3 ? number(g, 1 + (int)next(g, 5)) : truth(g, 1 + (int)next(g, 5)));
        arena_reset(&g->arena, mark);
    }
    gen_free(g);
}

// ---- each rule by itself, on trees of its pattern's form

static Node *instance(Gen *g, const Node *text, Map *values)
{
    Arena *a = &g->arena;
    if (text->kind == N_INT) return node_int(a, 0, g->type, text->u.i);
    if (text->kind == N_NAME) {
        Node *value = map_get(values, text->u.sym);
        char c = text->u.sym[0];
        if (!value && c == 'c')
            value = node_int(a, 0, g->type, next(g, 2) ? (int64_t)next(g, 4) * 4 : small(g));
        if (!value && (c == 'p' || c == 'q')) value = truth(g, (int)next(g, 3));
        if (!value) value = number(g, (int)next(g, 2));
        map_put(a, values, text->u.sym, value);
        return value;
    }
    bool is_call = text->kind == N_CALL;
    Node *kid[2] = {NULL, NULL};
    for (uint32_t i = is_call; i < text->nkid; i++)
        kid[i - is_call] = instance(g, text->kid[i], values);
    if (is_call)
        return node_binary(a, !strcmp(text->kid[0]->u.sym, "min") ? N_MIN : N_MAX, kid[0], kid[1]);
    return kid[1] ? node_binary(a, (NodeKind)text->kind, kid[0], kid[1])
                  : node_unary(a, (NodeKind)text->kind, kid[0]);
}

static void test_each_rule(void **state)
{
    UNUSED(state);
    Gen *g = gen_new();
    for (int i = 0; i < rules_count(); i++) {
        const char *pattern = rules_pattern(i);
        Diag d;
        diag_init(&d, &g->arena, &g->sources);
        Node *text = parse_expression(
            &g->arena, g->names, sources_add(&g->sources, "rule", pattern, strlen(pattern)), &d);
        assert_non_null(text);
        ArenaMark mark = arena_mark(&g->arena);
        for (int k = 0; k < TREES_PER_RULE; k++) {
            new_vars(g);
            Node *n = instance(g, text, &(Map){0});
            int which;
            Node *after = rules_apply(g->rules, &g->arena, n, &which);
            if (after) {
                g->hits[which]++;
                expect_same_value(g, rules_pattern(which), n, after);
            }
            check(g, n);
            arena_reset(&g->arena, mark);
        }
    }
    int idle = 0;
    for (int i = 0; i < rules_count(); i++) {
        if (g->hits[i] == 0) print_error("rule %s never applied\n", rules_pattern(i));
        idle += g->hits[i] == 0;
    }
    assert_int_equal(idle, 0);
    gen_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_trees),
        cmocka_unit_test(test_each_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
