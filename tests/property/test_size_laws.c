// SPDX-License-Identifier: Apache-2.0
// Sizes in normal form: equal to what they were for all values of their dimensions, within their
// bounds, and the same when simplified again.
#include "ir/size.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { DIMS = 3, TREES = 20000, VALUES = 12 };

typedef struct Maker {
    Arena arena;
    uint64_t state;
    Var dim[DIMS];
} Maker;

static int64_t draw(Maker *m, int64_t n) // 0 .. n - 1
{
    m->state = m->state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((m->state >> 33) % (uint64_t)n);
}

static Node *tree(Maker *m, int depth);

static Node *leaf(Maker *m)
{
    if (draw(m, 3) == 0) return node_i64(&m->arena, draw(m, 12) - 3);
    return node_var(&m->arena, 0, &m->dim[draw(m, DIMS)]);
}

static Node *condition(Maker *m, int depth)
{
    static const NodeKind kinds[] = {N_EQ, N_NE, N_LT, N_LE, N_LAND, N_LOR};
    int k = (int)draw(m, depth > 1 ? 7 : 4);
    if (k == 6) return node_unary(&m->arena, N_NOT, condition(m, depth - 1));
    if (k < 4) return node_binary(&m->arena, kinds[k], tree(m, depth - 1), tree(m, depth - 1));
    return node_binary(&m->arena, kinds[k], condition(m, depth - 1), condition(m, depth - 1));
}

static Node *tree(Maker *m, int depth)
{
    static const NodeKind kinds[] = {N_ADD, N_SUB, N_MUL, N_DIV, N_MOD, N_MIN, N_MAX, N_DIV, N_ADD};
    if (depth <= 0) return leaf(m);
    int k = (int)draw(m, 11);
    if (k == 9) return node_unary(&m->arena, N_NEG, tree(m, depth - 1));
    if (k == 10)
        return node_select(&m->arena, condition(m, depth - 1), tree(m, depth - 1),
                           tree(m, depth - 1));
    Node *x = tree(m, depth - 1), *y = tree(m, depth - 1);
    return node_binary(&m->arena, kinds[k], x, y);
}

static void set_dims(Maker *m)
{
    for (int i = 0; i < DIMS; i++) {
        Var *v = &m->dim[i];
        v->hint = v->lo + draw(m, v->hi - v->lo > 40 ? 40 : v->hi - v->lo + 1);
    }
}

static const char *shown(Maker *m, const Node *a, const Node *b)
{
    Buf text;
    buf_init(&text, &m->arena);
    node_print(a, &text);
    buf_puts(&text, " became ");
    node_print(b, &text);
    for (int i = 0; i < DIMS; i++)
        buf_printf(&text, ", %s = %lld", m->dim[i].name, (long long)m->dim[i].hint);
    return buf_text(&text);
}

static void check(Maker *m, Node *n)
{
    assert_true(size_is(n));
    Node *s = size_simplify(&m->arena, n);
    int64_t lo, hi, slo, shi;
    size_range(n, &lo, &hi);
    size_range(s, &slo, &shi);
    for (int i = 0; i < VALUES; i++) {
        int64_t want, have;
        set_dims(m);
        if (!size_hint(n, &want)) continue; // it divides by zero
        if (!size_hint(s, &have) || have != want) fail_msg("%s", shown(m, n, s));
        if (want < lo || want > hi || want < slo || want > shi)
            fail_msg("%s: out of its bounds", shown(m, n, s));
    }
    if (!node_equal(size_simplify(&m->arena, s), s))
        fail_msg("%s, then something else", shown(m, n, s));
}

static void normal_forms_keep_values(void **state)
{
    (void)state;
    static const char *const names[DIMS] = {"a", "b", "c"};
    Maker m = {.state = 11};
    for (int k = 0; k < TREES; k++) {
        for (int i = 0; i < DIMS; i++) {
            m.dim[i] = (Var){.name = names[i],
                             .id = i,
                             .type = DT_I64,
                             .lanes = 1,
                             .builtin = VAR_DIM,
                             .divisor = 1,
                             .hinted = true};
            m.dim[i].lo = draw(&m, 4);
            m.dim[i].hi = draw(&m, 3) ? INT32_MAX : m.dim[i].lo + draw(&m, 4);
        }
        check(&m, draw(&m, 4) ? tree(&m, 1 + (int)draw(&m, 3)) : condition(&m, 3));
        arena_free(&m.arena);
        m.arena = (Arena){0};
    }
}

typedef struct Row {
    const char *from, *to;
} Row;

// What shapes of models come down to.
static void shapes_come_out_simple(void **state)
{
    (void)state;
    Arena a = {0};
    Var h = {.name = "h",
             .id = 1,
             .type = DT_I64,
             .lanes = 1,
             .builtin = VAR_DIM,
             .lo = 1,
             .hi = INT32_MAX,
             .divisor = 1};
    Var b = h;
    b.name = "b";
    b.id = 2;
    Node *x = node_var(&a, 0, &h), *y = node_var(&a, 0, &b);
#define INT(v) node_i64(&a, v)
#define OP(k, p, q) node_binary(&a, N_##k, p, q)
    struct {
        Node *n;
        const char *text;
    } rows[] = {
        {OP(DIV, OP(MUL, OP(MUL, y, x), INT(768)), OP(MUL, y, INT(64))), "h * 12"},
        {OP(ADD,
            OP(DIV, OP(SUB, OP(ADD, OP(DIV, OP(SUB, x, INT(1)), INT(2)), INT(1)), INT(1)), INT(2)),
            INT(1)),
         "(h + 3) / 4"},
        {OP(MIN, INT(INT64_MAX), x), "h"},
        {OP(MAX, OP(SUB, x, INT(1)), INT(0)), "h - 1"},
        {OP(EQ, OP(MIN, INT(512), x), x), "h <= 512"},
        {OP(EQ, OP(MUL, x, y), OP(MUL, y, x)), "true"},
        {OP(MOD, OP(MUL, OP(ADD, x, INT(1)), INT(6)), INT(3)), "0"},
        {OP(DIV, OP(MUL, OP(ADD, x, y), OP(ADD, x, INT(1))), OP(ADD, x, INT(1))), "h + b"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        Buf text;
        buf_init(&text, &a);
        node_print(size_simplify(&a, rows[i].n), &text);
        assert_string_equal(buf_text(&text), rows[i].text);
    }
    arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(normal_forms_keep_values),
        cmocka_unit_test(shapes_come_out_simple),
    };
    return cmocka_run_group_tests_name("size laws", tests, NULL, NULL);
}
