// SPDX-License-Identifier: Apache-2.0
// Layouts against known vectors, their text, injectivity, and what is refused.
#include "ir/layout.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "unit/mapping_builders.h"

static int64_t at(const Layout *l, int64_t i, int64_t j)
{
    return layout_index(l, (const int64_t[]){i, j});
}

// Rows of a layout of two dimensions, as "0 1 | 2 3".
static const char *rows(const Layout *l)
{
    Buf out;
    buf_init(&out, &arena);
    for (int64_t i = 0; i < l->shape[0]; i++) {
        buf_puts(&out, i ? " |" : "");
        for (int64_t j = 0; j < l->shape[1]; j++)
            buf_printf(&out, i || j ? " %lld" : "%lld", (long long)at(l, i, j));
    }
    return buf_text(&out);
}

static const char *text(const Layout *l)
{
    Buf out;
    buf_init(&out, &arena);
    layout_print(l, &out);
    return buf_text(&out);
}

static void assert_strides(const Layout *l, int64_t s0, int64_t s1, int64_t s2)
{
    assert_int_equal(l->stride[0], s0);
    assert_int_equal(l->stride[1], s1);
    assert_int_equal(l->stride[2], s2);
    assert_int_equal(l->size, 24);
}

static void strides_follow_ranks(void **state)
{
    UNUSED(state);
    assert_strides(ROW(2, 3, 4), 12, 4, 1);
    assert_strides(COLUMN(2, 3, 4), 1, 2, 6);
    assert_strides(layout_ranked(&arena, DIMS(2, 3, 4), ORDER(1, 2, 0), &why), 3, 1, 6);
    assert_strides(layout_ranked(&arena, DIMS(2, 3, 4), ORDER(2, 0, 1), &why), 1, 8, 2);
    const Layout *l =
        layout_strided(&arena, 2, (const int64_t[]){2, 3}, (const int64_t[]){4, 1}, &why);
    assert_int_equal(l->size, 7);
    assert_string_equal(rows(l), "0 1 2 | 4 5 6");
}

static void compositions_nest(void **state)
{
    UNUSED(state);
    assert_string_equal(rows(mul_layout(ROW(2, 2), COLUMN(2, 2))),
                        "0 2 4 6 | 1 3 5 7 | 8 10 12 14 | 9 11 13 15");
    assert_string_equal(rows(mul_layout(COLUMN(2, 2), ROW(2, 2))),
                        "0 1 8 9 | 2 3 10 11 | 4 5 12 13 | 6 7 14 15");
    const Layout *l = mul_layout(LOCAL(2, 2), ROW(2, 2));
    assert_string_equal(rows(l), "0 1 0 1 | 2 3 2 3 | 0 1 0 1 | 2 3 2 3");
    assert_int_equal(l->size, 4);
    l = mul_layout(ROW(2, 2), LOCAL(2, 2));
    assert_string_equal(rows(l), "0 0 1 1 | 0 0 1 1 | 2 2 3 3 | 2 2 3 3");
    assert_int_equal(l->size, 4);

    l = mul_layout(mul_layout(LOCAL(4, 2), ROW(2, 2)), mul_layout(LOCAL(4, 8), ROW(4, 4)));
    assert_int_equal(l->shape[0], 128);
    assert_int_equal(l->shape[1], 128);
    assert_int_equal(l->size, 64);
    assert_int_equal(at(l, 1, 0), 4);
    assert_int_equal(at(l, 16, 0), 32);
    assert_int_equal(at(l, 0, 32), 16);
    assert_int_equal(at(l, 5, 5), 5);
    assert_int_equal(at(l, 127, 127), 63);
}

static void concatenation_joins_dimensions(void **state)
{
    UNUSED(state);
    const Layout *l = layout_concat(&arena, ROW(2), COLUMN(2, 3), &why);
    assert_int_equal(l->rank, 3);
    assert_int_equal(l->size, 12);
    assert_int_equal(layout_index(l, (const int64_t[]){0, 0, 1}), 2);
    assert_int_equal(layout_index(l, (const int64_t[]){0, 1, 0}), 1);
    assert_int_equal(layout_index(l, (const int64_t[]){1, 1, 2}), 11);
}

static void swizzles_exchange_within_a_row(void **state)
{
    UNUSED(state);
    assert_string_equal(rows(swizzle(ROW(4, 4), 1, 0)),
                        "0 1 2 3 | 5 4 7 6 | 10 11 8 9 | 15 14 13 12");
    assert_string_equal(rows(swizzle(ROW(4, 4), 0, 0)),
                        "0 5 10 15 | 4 1 14 11 | 8 13 2 7 | 12 9 6 3");
    assert_string_equal(rows(swizzle(ROW(8, 4), 1, 0)),
                        "0 1 2 3 | 5 4 7 6 | 10 11 8 9 | 15 14 13 12 | "
                        "16 17 18 19 | 21 20 23 22 | 26 27 24 25 | 31 30 29 28");
    assert_string_equal(rows(swizzle(ROW(8, 4), 1, 1)),
                        "0 1 2 3 | 4 5 6 7 | 9 8 11 10 | 13 12 15 14 | "
                        "18 19 16 17 | 22 23 20 21 | 27 26 25 24 | 31 30 29 28");
    // The operand can reach 4 here, although 9 >> 1 is no more than the extent.
    const Layout *l = swizzle(ROW(9, 4), 1, 1);
    assert_int_equal(at(l, 8, 0), 32);
    assert_true(layout_injective(l));

    l = mul_layout(swizzle(ROW(128, 2), 1, 0), ROW(1, 8));
    assert_int_equal(at(l, 1, 0), 24);
    assert_int_equal(at(l, 1, 8), 16);
    assert_int_equal(at(l, 1, 9), 17);
    assert_int_equal(at(l, 3, 15), 55);
    assert_int_equal(l->size, 2048);
    l = mul_layout(mul_layout(ROW(2, 1), swizzle(ROW(8, 8), 1, 0)), ROW(1, 8));
    assert_int_equal(l->shape[0], 16);
    assert_int_equal(l->shape[1], 64);
    assert_int_equal(at(l, 9, 0), 584);
    assert_int_equal(at(l, 9, 8), 576);
    assert_int_equal(at(l, 15, 63), 967);
}

static void permute_and_reshape_read_the_base_elsewhere(void **state)
{
    UNUSED(state);
    assert_string_equal(
        rows(layout_reshape(&arena, COLUMN(2, 3), 2, (const int64_t[]){3, 2}, &why)),
        "0 2 | 4 1 | 3 5");
    // A rotation of three dimensions is not its own inverse.
    const Layout *l = layout_permute(&arena, ROW(2, 3, 4), ORDER(1, 2, 0), &why);
    assert_int_equal(l->shape[0], 3);
    assert_int_equal(l->shape[1], 4);
    assert_int_equal(l->shape[2], 2);
    for (int64_t i = 0; i < 2; i++)
        for (int64_t j = 0; j < 3; j++)
            for (int64_t k = 0; k < 4; k++)
                assert_int_equal(layout_index(l, (const int64_t[]){j, k, i}), i * 12 + j * 4 + k);
    assert_true(layout_injective(l));
}

static void text_reads_like_the_language(void **state)
{
    UNUSED(state);
    const int64_t shape[] = {2, 3}, padded[] = {4, 1};
    assert_string_equal(text(ROW(2, 3)), "row_major(2, 3)");
    assert_string_equal(text(COLUMN(2, 3)), "column_major(2, 3)");
    assert_string_equal(text(layout_strided(&arena, 2, shape, padded, &why)),
                        "strided(2, 3; strides: (4, 1))");
    assert_string_equal(text(layout_strided(&arena, 1, shape, padded, &why)),
                        "strided(2; strides: (4,))");
    assert_string_equal(text(mul_layout(swizzle(ROW(8, 4), 1, 1), LOCAL(1, 8))),
                        "row_major(8, 4).swizzle(1; log_step: 1) * local(1, 8)");
    const Layout *joined = layout_concat(&arena, ROW(2), mul_layout(ROW(2, 4), ROW(2, 1)), &why);
    assert_string_equal(text(joined), "row_major(2) + row_major(2, 4) * row_major(2, 1)");
    assert_string_equal(text(layout_swizzle(&arena, joined, 2, 0, 1, &why)),
                        "(row_major(2) + row_major(2, 4) * row_major(2, 1))"
                        ".swizzle(2; by: 0, log_step: 1)");
    assert_string_equal(text(layout_permute(&arena, joined, ORDER(2, 0, 1), &why)),
                        "(row_major(2) + row_major(2, 4) * row_major(2, 1)).permute(2, 0, 1)");
    const Layout *flat = layout_reshape(&arena, joined, 1, (const int64_t[]){32}, &why);
    assert_string_equal(text(flat),
                        "(row_major(2) + row_major(2, 4) * row_major(2, 1)).reshape(32)");
    assert_string_equal(text(mul_layout(joined, ROW(1, 1, 1))),
                        "(row_major(2) + row_major(2, 4) * row_major(2, 1)) * row_major(1, 1, 1)");
    assert_true(layout_equal(flat, layout_reshape(&arena, joined, 1, (const int64_t[]){32}, &why)));
    assert_false(layout_equal(ROW(2, 3), COLUMN(2, 3)));
    assert_false(layout_equal(swizzle(ROW(4, 4), 0, 0), swizzle(ROW(4, 4), 1, 0)));
}

static void injectivity_of_strides(void **state)
{
    UNUSED(state);
    static const struct {
        int64_t shape[2], stride[2];
        bool injective;
    } cases[] = {
        {{2, 3}, {4, 1}, true},        {{2, 3}, {2, 1}, false},
        {{3, 2}, {2, 3}, true},        {{4, 2}, {2, 6}, false},
        {{4, 2}, {0, 1}, false},       {{1, 2}, {0, 1}, true},
        {{1000, 1000}, {1, 0}, false}, {{(int64_t)1 << 30, 2}, {2, 1}, true},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const Layout *l = layout_strided(&arena, 2, cases[i].shape, cases[i].stride, &why);
        assert_int_equal(layout_injective(l), cases[i].injective);
    }
    assert_false(layout_injective(LOCAL(2, 2)));
    assert_true(layout_injective(LOCAL(1, 1)));
}

static void nonsense_is_refused_with_a_message(void **state)
{
    UNUSED(state);
    const int64_t huge = (int64_t)1 << 40, minus[] = {-1, 1}, big[] = {huge, 1};
    assert_null(layout_row_major(&arena, 9, (const int64_t[9]){0}, &why));
    assert_string_equal(why, "a layout has 1 to 8 dimensions, not 9");
    assert_null(layout_column_major(&arena, 9, (const int64_t[9]){0}, &why));
    assert_null(layout_column_major(&arena, -1, NULL, &why));
    assert_null(layout_row_major(&arena, DIMS(2, 0), &why));
    assert_string_equal(why, "extent 0 of dimension 1 is not positive");
    assert_null(layout_local(&arena, DIMS(huge, huge), &why));
    assert_string_equal(why, "the sizes of this layout overflow");
    assert_null(layout_strided(&arena, DIMS(2, 2), minus, &why));
    assert_string_equal(why, "stride -1 of dimension 0 is negative");
    assert_null(layout_strided(&arena, DIMS(huge, 1), big, &why));
    assert_null(layout_compose(&arena, ROW(huge), ROW(huge), &why));
    assert_null(layout_compose(&arena, ROW(2), ROW(2, 2), &why));
    assert_string_equal(why, "a layout of 1 dimensions cannot be composed with one of 2");
    assert_null(layout_concat(&arena, ROW(huge), ROW(huge), &why));
    assert_null(layout_concat(&arena, ROW(1, 1, 1, 1, 1), ROW(1, 1, 1, 1), &why));
    assert_null(layout_ranked(&arena, DIMS(2, 2), ORDER(1, 1), &why));
    assert_null(layout_swizzle(&arena, ROW(4, 4), 2, -1, 0, &why));
    assert_string_equal(why, "there is no dimension 2 to swizzle");
    assert_null(layout_swizzle(&arena, ROW(4, 4), 1, 1, 0, &why));
    assert_null(layout_swizzle(&arena, ROW(4, 4), 1, 2, 0, &why));
    assert_null(layout_swizzle(&arena, ROW(4, 4, 4), 1, -1, 0, &why));
    assert_string_equal(why, "a swizzle needs another dimension to be swizzled by");
    assert_null(layout_swizzle(&arena, ROW(4, 6), 1, 0, 0, &why));
    assert_string_equal(why, "extent 6 of the swizzled dimension is no power of two");
    assert_null(layout_swizzle(&arena, ROW(4, 4), 1, 0, 64, &why));
    assert_null(layout_swizzle(&arena, ROW(4, 4), 1, 0, -1, &why));
    assert_null(layout_permute(&arena, ROW(4, 4), ORDER(0, 0), &why));
    assert_string_equal(why, "this is no permutation of 0 to 1");
    assert_null(layout_reshape(&arena, ROW(4, 4), DIMS(4, 5), &why));
    assert_string_equal(why, "16 elements cannot be reshaped to 20");

    const Layout *l = ROW(2, 2);
    while (l) l = layout_swizzle(&arena, l, 0, 1, 0, &why);
    assert_string_equal(why, "this layout is made of too many parts");
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
        cmocka_unit_test(strides_follow_ranks),
        cmocka_unit_test(compositions_nest),
        cmocka_unit_test(concatenation_joins_dimensions),
        cmocka_unit_test(swizzles_exchange_within_a_row),
        cmocka_unit_test(permute_and_reshape_read_the_base_elsewhere),
        cmocka_unit_test(text_reads_like_the_language),
        cmocka_unit_test(injectivity_of_strides),
        cmocka_unit_test(nonsense_is_refused_with_a_message),
    };
    return cmocka_run_group_tests(tests, NULL, free_arena);
}
