// SPDX-License-Identifier: Apache-2.0
// The laws of layouts, exhaustively on small shapes: sizes, composition and concatenation by their
// definitions, and injectivity as told by construction against counting.
#include "ir/layout.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "unit/mapping_builders.h"

enum { MAX_LAYOUTS = 512, MAX_SIZE = 4096 };

typedef struct Layouts {
    const Layout *at[MAX_LAYOUTS];
    int n;
} Layouts;

static void keep(Layouts *list, const Layout *l)
{
    assert_non_null(l);
    assert_true(list->n < MAX_LAYOUTS);
    list->at[list->n++] = l;
}

// Layouts of two dimensions of 1 to 4: dense, padded, overlapping, owned, swizzled, turned.
static void make_layouts(Layouts *list, int64_t highest)
{
    list->n = 0;
    for (int64_t m = 1; m <= highest; m++)
        for (int64_t n = 1; n <= highest; n++) {
            const Layout *row = ROW(m, n);
            keep(list, row);
            keep(list, COLUMN(m, n));
            keep(list, LOCAL(m, n));
            keep(list, layout_strided(&arena, DIMS(m, n), (const int64_t[]){n + 1, 1}, &why));
            keep(list, layout_strided(&arena, DIMS(m, n), (const int64_t[]){2, 1}, &why));
            keep(list, layout_strided(&arena, DIMS(m, n), (const int64_t[]){2, 3}, &why));
            keep(list, layout_strided(&arena, DIMS(m, n), (const int64_t[]){0, 1}, &why));
            keep(list, layout_permute(&arena, row, ORDER(1, 0), &why));
            keep(list, layout_reshape(&arena, COLUMN(m, n), DIMS(n, m), &why));
            if ((n & (n - 1)) == 0) {
                keep(list, swizzle(row, 1, 0));
                keep(list, swizzle(row, 1, 1));
                keep(list, swizzle(LOCAL(m, n), 1, 0));
            }
        }
}

static bool next_index(const Layout *l, int64_t *index)
{
    int i = l->rank - 1;
    while (i >= 0 && index[i] == l->shape[i] - 1) index[i--] = 0;
    if (i < 0) return false;
    index[i]++;
    return true;
}

// Whether no two elements share storage. Every storage index must lie in [0, size).
static bool counted_injective(const Layout *l)
{
    static char seen[MAX_SIZE];
    int64_t index[LAYOUT_MAX_RANK] = {0};
    bool injective = true;
    assert_true(l->size >= 1 && l->size <= MAX_SIZE);
    memset(seen, 0, sizeof seen);
    do {
        int64_t at = layout_index(l, index);
        assert_true(at >= 0 && at < l->size);
        injective = injective && !seen[at];
        seen[at] = 1;
    } while (next_index(l, index));
    return injective;
}

static void injectivity_is_told_truly(void **state)
{
    UNUSED(state);
    static Layouts all;
    make_layouts(&all, 4);
    for (int i = 0; i < all.n; i++)
        assert_int_equal(layout_injective(all.at[i]), counted_injective(all.at[i]));
    for (int64_t shape0 = 1; shape0 <= 4; shape0++)
        for (int64_t shape1 = 1; shape1 <= 4; shape1++)
            for (int64_t s = 0; s < 81 * 9; s++) {
                const int64_t stride[] = {s % 9, s / 9 % 9, s / 81};
                const Layout *l = layout_strided(&arena, DIMS(shape0, shape1, 3), stride, &why);
                assert_int_equal(layout_injective(l), counted_injective(l));
            }
}

static void check_composition(const Layout *f, const Layout *g)
{
    const Layout *l = mul_layout(f, g);
    int64_t index[LAYOUT_MAX_RANK] = {0};
    assert_int_equal(l->size, f->size * g->size);
    for (int i = 0; i < 2; i++) assert_int_equal(l->shape[i], f->shape[i] * g->shape[i]);
    do {
        const int64_t high[] = {index[0] / g->shape[0], index[1] / g->shape[1]};
        const int64_t low[] = {index[0] % g->shape[0], index[1] % g->shape[1]};
        assert_int_equal(layout_index(l, index),
                         layout_index(f, high) * g->size + layout_index(g, low));
    } while (next_index(l, index));
    assert_int_equal(layout_injective(l), counted_injective(l));
}

static void check_concatenation(const Layout *f, const Layout *g)
{
    const Layout *l = build_checked_layout(layout_concat(&arena, f, g, &why));
    int64_t index[LAYOUT_MAX_RANK] = {0};
    assert_int_equal(l->rank, 4);
    assert_int_equal(l->size, f->size * g->size);
    do {
        assert_int_equal(layout_index(l, index),
                         layout_index(f, index) * g->size + layout_index(g, index + 2));
    } while (next_index(l, index));
    assert_int_equal(layout_injective(l), counted_injective(l));
}

static void pairs_follow_their_definitions(void **state)
{
    UNUSED(state);
    static Layouts all;
    make_layouts(&all, 3);
    for (int i = 0; i < all.n; i++)
        for (int j = 0; j < all.n; j++) {
            ArenaMark mark = arena_mark(&arena);
            check_composition(all.at[i], all.at[j]);
            check_concatenation(all.at[i], all.at[j]);
            arena_reset(&arena, mark);
        }
}

static void composition_and_concatenation_are_associative(void **state)
{
    UNUSED(state);
    static Layouts all;
    make_layouts(&all, 2);
    for (int i = 0; i < all.n; i++)
        for (int j = 0; j < all.n; j++)
            for (int k = 0; k < all.n; k += 5) {
                ArenaMark mark = arena_mark(&arena);
                const Layout *f = all.at[i], *g = all.at[j], *h = all.at[k];
                const Layout *left = mul_layout(mul_layout(f, g), h);
                const Layout *right = mul_layout(f, mul_layout(g, h));
                int64_t index[LAYOUT_MAX_RANK] = {0};
                assert_true(layout_equal(left, right));
                do {
                    const int64_t high[] = {index[0] / (g->shape[0] * h->shape[0]),
                                            index[1] / (g->shape[1] * h->shape[1])};
                    const int64_t low[] = {index[0] % (g->shape[0] * h->shape[0]),
                                           index[1] % (g->shape[1] * h->shape[1])};
                    assert_int_equal(layout_index(left, index),
                                     layout_index(f, high) * g->size * h->size +
                                         layout_index(mul_layout(g, h), low));
                } while (next_index(left, index));
                left = layout_concat(&arena, layout_concat(&arena, f, g, &why), h, &why);
                right = layout_concat(&arena, f, layout_concat(&arena, g, h, &why), &why);
                assert_true(layout_equal(left, right));
                arena_reset(&arena, mark);
            }
}

// A swizzle only moves elements along its own dimension: each line of it keeps its set of places.
static void swizzles_are_bijections_of_each_line(void **state)
{
    UNUSED(state);
    for (int64_t m = 1; m <= 20; m++)
        for (int64_t n = 1; n <= 16; n *= 2)
            for (int log_step = 0; log_step < 5; log_step++) {
                const Layout *l = swizzle(ROW(m, n), 1, log_step);
                const Layout *turned = swizzle(COLUMN(n, m), 0, log_step);
                for (int64_t i = 0; i < m; i++) {
                    unsigned line = 0, turned_line = 0;
                    for (int64_t j = 0; j < n; j++) {
                        line |= 1u << (layout_index(l, (const int64_t[]){i, j}) - i * n);
                        turned_line |= 1u
                                       << (layout_index(turned, (const int64_t[]){j, i}) - i * n);
                    }
                    assert_int_equal(line, (1u << n) - 1);
                    assert_int_equal(turned_line, (1u << n) - 1);
                }
            }
}

static void permutations_move_indices(void **state)
{
    UNUSED(state);
    static const int perms[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                   {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    const Layout *bases[] = {ROW(2, 3, 4), COLUMN(4, 2, 3),
                             layout_concat(&arena, ROW(2), swizzle(ROW(3, 4), 1, 0), &why)};
    for (size_t b = 0; b < COUNT(bases); b++)
        for (size_t p = 0; p < COUNT(perms); p++) {
            const Layout *l = layout_permute(&arena, bases[b], perms[p], &why);
            int64_t index[LAYOUT_MAX_RANK] = {0};
            assert_true(counted_injective(l));
            assert_int_equal(l->size, 24);
            do {
                int64_t base[3];
                for (int i = 0; i < 3; i++) {
                    assert_int_equal(l->shape[i], bases[b]->shape[perms[p][i]]);
                    base[perms[p][i]] = index[i];
                }
                assert_int_equal(layout_index(l, index), layout_index(bases[b], base));
            } while (next_index(l, index));
        }
}

static int free_arena(void **state)
{
    UNUSED(state);
    arena_free(&arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(injectivity_is_told_truly),
        cmocka_unit_test(pairs_follow_their_definitions),
        cmocka_unit_test(composition_and_concatenation_are_associative),
        cmocka_unit_test(swizzles_are_bijections_of_each_line),
        cmocka_unit_test(permutations_move_indices),
    };
    return cmocka_run_group_tests(tests, NULL, free_arena);
}
