// SPDX-License-Identifier: Apache-2.0
// Task mappings against known vectors, their text, and what is refused.
#include "ir/mapping.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "unit/mapping_builders.h"

// The tasks from..from+n of worker w, as "(0,1)(2,3)".
static const char *tasks(const Mapping *m, int64_t w, int64_t from, int64_t n)
{
    Buf out;
    buf_init(&out, &arena);
    for (int64_t t = from; t < from + n; t++) {
        int64_t index[MAPPING_MAX_RANK];
        assert_true(mapping_task(m, w, t, index));
        for (int i = 0; i < m->rank; i++)
            buf_printf(&out, "%s%lld", i ? "," : "(", (long long)index[i]);
        buf_putc(&out, ')');
    }
    return buf_text(&out);
}

static const char *all_tasks(const Mapping *m, int64_t w)
{
    return tasks(m, w, 0, m->ntask);
}

static const char *text(const Mapping *m)
{
    Buf out;
    buf_init(&out, &arena);
    mapping_print(m, &out);
    return buf_text(&out);
}

// "64x8: 128 workers, 4 tasks"
static const char *size(const Mapping *m)
{
    Buf out;
    buf_init(&out, &arena);
    for (int i = 0; i < m->rank; i++)
        buf_printf(&out, "%s%lld", i ? "x" : "", (long long)m->shape[i]);
    buf_printf(&out, ": %lld workers, %lld tasks", (long long)m->nworker, (long long)m->ntask);
    return buf_text(&out);
}

// The first task of every worker.
static const char *firsts(const Mapping *m)
{
    Buf out;
    buf_init(&out, &arena);
    for (int64_t w = 0; w < m->nworker; w++) buf_puts(&out, tasks(m, w, 0, 1));
    return buf_text(&out);
}

static void grids_follow_their_ranks(void **state)
{
    UNUSED(state);
    assert_string_equal(firsts(SPATIAL(2, 3)), "(0,0)(0,1)(0,2)(1,0)(1,1)(1,2)");
    assert_string_equal(firsts(COL_SPATIAL(2, 3)), "(0,0)(1,0)(0,1)(1,1)(0,2)(1,2)");
    assert_string_equal(all_tasks(REPEAT(2, 3), 0), "(0,0)(0,1)(0,2)(1,0)(1,1)(1,2)");
    assert_string_equal(all_tasks(COL_REPEAT(2, 3), 0), "(0,0)(1,0)(0,1)(1,1)(0,2)(1,2)");

    const Mapping *m = mapping_spatial(&arena, DIMS(2, 3, 4), ORDER(1, 2, 0), &why);
    static const struct {
        int w;
        const char *task;
    } ranked[] = {{0, "(0,0,0)"}, {1, "(0,1,0)"}, {2, "(0,2,0)"},  {3, "(1,0,0)"},
                  {5, "(1,2,0)"}, {8, "(0,2,1)"}, {13, "(0,1,2)"}, {23, "(1,2,3)"}};
    for (size_t i = 0; i < COUNT(ranked); i++)
        assert_string_equal(all_tasks(m, ranked[i].w), ranked[i].task);
    m = mapping_repeat(&arena, DIMS(2, 2, 2), ORDER(1, 0, 2), NULL, &why);
    assert_string_equal(all_tasks(m, 0),
                        "(0,0,0)(0,0,1)(1,0,0)(1,0,1)(0,1,0)(0,1,1)(1,1,0)(1,1,1)");

    m = COL_SPATIAL(16, 2);
    assert_string_equal(all_tasks(m, 8), "(8,0)");
    assert_string_equal(all_tasks(m, 16), "(0,1)");
    assert_string_equal(all_tasks(m, 31), "(15,1)");
    m = COL_SPATIAL(8, 2, 2);
    assert_string_equal(all_tasks(m, 8), "(0,1,0)");
    assert_string_equal(all_tasks(m, 16), "(0,0,1)");
    assert_string_equal(all_tasks(m, 24), "(0,1,1)");
}

static void compositions_nest(void **state)
{
    UNUSED(state);
    const Mapping *m = mul(SPATIAL(4, 2), REPEAT(2, 2));
    assert_string_equal(size(m), "8x4: 8 workers, 4 tasks");
    assert_string_equal(all_tasks(m, 3), "(2,2)(2,3)(3,2)(3,3)");
    assert_string_equal(all_tasks(m, 5), "(4,2)(4,3)(5,2)(5,3)");
    m = mul(REPEAT(2, 2), SPATIAL(4, 2));
    assert_string_equal(size(m), "8x4: 8 workers, 4 tasks");
    assert_string_equal(all_tasks(m, 3), "(1,1)(1,3)(5,1)(5,3)");
    assert_string_equal(all_tasks(m, 5), "(2,1)(2,3)(6,1)(6,3)");
    m = mul(REPEAT(4, 1), SPATIAL(16, 8));
    assert_string_equal(size(m), "64x8: 128 workers, 4 tasks");
    assert_string_equal(all_tasks(m, 8), "(1,0)(17,0)(33,0)(49,0)");
    assert_string_equal(all_tasks(m, 127), "(15,7)(31,7)(47,7)(63,7)");
    m = mul(mul(SPATIAL(2, 2), REPEAT(1, 2)), SPATIAL(2, 1));
    assert_string_equal(size(m), "4x4: 8 workers, 2 tasks");
    assert_string_equal(all_tasks(m, 3), "(1,2)(1,3)");
    assert_string_equal(all_tasks(m, 5), "(3,0)(3,1)");
    assert_string_equal(all_tasks(m, 7), "(3,2)(3,3)");
    m = mul(mul(SPATIAL(2, 1), SPATIAL(1, 8)), SPATIAL(2, 1));
    assert_string_equal(all_tasks(m, 0), "(0,0)");
    assert_string_equal(all_tasks(m, 1), "(1,0)");
    assert_string_equal(all_tasks(m, 2), "(0,1)");
    assert_string_equal(all_tasks(m, 3), "(1,1)");
    assert_string_equal(all_tasks(m, 16), "(2,0)");
    assert_string_equal(all_tasks(m, 31), "(3,7)");
}

static void the_matmul_block_is_mapped(void **state)
{
    UNUSED(state);
    const Mapping *m = mul(mul(SPATIAL(4, 2), REPEAT(2, 2)), mul(SPATIAL(4, 8), REPEAT(4, 4)));
    assert_string_equal(size(m), "128x128: 256 workers, 64 tasks");
    assert_string_equal(tasks(m, 0, 0, 4), "(0,0)(0,1)(0,2)(0,3)");
    assert_string_equal(tasks(m, 0, 16, 1), "(0,32)");
    assert_string_equal(tasks(m, 33, 0, 2), "(0,68)(0,69)");
    assert_string_equal(tasks(m, 255, 63, 1), "(127,127)");
    assert_string_equal(all_tasks(mul(SPATIAL(32, 8), REPEAT(4, 1)), 9), "(4,1)(5,1)(6,1)(7,1)");
    assert_string_equal(all_tasks(mul(REPEAT(1, 4), SPATIAL(8, 32)), 33),
                        "(1,1)(1,33)(1,65)(1,97)");
}

// Fragments of the mma instructions, lane 5.
static void matrix_fragments_are_mapped(void **state)
{
    UNUSED(state);
    struct {
        const Mapping *m;
        const char *size, *lane5;
    } fragment[] = {
        {mul(mul(COL_REPEAT(2, 2), SPATIAL(8, 4)), REPEAT(1, 2)), "16x16: 32 workers, 8 tasks",
         "(1,2)(1,3)(9,2)(9,3)(1,10)(1,11)(9,10)(9,11)"},
        {mul(mul(COL_REPEAT(2, 1), COL_SPATIAL(4, 8)), COL_REPEAT(2, 1)),
         "16x8: 32 workers, 4 tasks", "(2,1)(3,1)(10,1)(11,1)"},
        {mul(mul(REPEAT(2, 1), SPATIAL(8, 4)), REPEAT(1, 2)), "16x8: 32 workers, 4 tasks",
         "(1,2)(1,3)(9,2)(9,3)"},
        {mul(COL_SPATIAL(4, 8), COL_REPEAT(2, 1)), "8x8: 32 workers, 2 tasks", "(2,1)(3,1)"},
        {mul(COL_REPEAT(2, 2), SPATIAL(8, 4)), "16x8: 32 workers, 4 tasks", "(1,1)(9,1)(1,5)(9,5)"},
        {mul(COL_REPEAT(2, 1), COL_SPATIAL(4, 8)), "8x8: 32 workers, 2 tasks", "(1,1)(5,1)"},
    };
    for (size_t i = 0; i < COUNT(fragment); i++) {
        assert_string_equal(size(fragment[i].m), fragment[i].size);
        assert_string_equal(all_tasks(fragment[i].m, 5), fragment[i].lane5);
    }
}

static void projection_pins_dimensions(void **state)
{
    UNUSED(state);
    const bool first[] = {true, false};
    const Mapping *m = mapping_project(&arena, SPATIAL(2, 3), first, &why);
    assert_string_equal(size(m), "1x3: 6 workers, 1 tasks");
    assert_string_equal(all_tasks(m, 4), "(0,1)");
    assert_string_equal(text(m), "spatial(2, 3).project(0)");

    // The rest of a chain sees a projected part as extent 1, on either side.
    const Mapping *outer = mul(m, REPEAT(2, 1)), *inner = mul(REPEAT(2, 1), m);
    assert_string_equal(size(outer), "2x3: 6 workers, 2 tasks");
    assert_string_equal(all_tasks(outer, 4), "(0,1)(1,1)");
    assert_string_equal(all_tasks(inner, 4), "(0,1)(1,1)");
    assert_string_equal(text(inner), "repeat(2, 1) * spatial(2, 3).project(0)");
    const Mapping *whole = mapping_project(&arena, mul(REPEAT(2, 1), SPATIAL(2, 3)), first, &why);
    assert_string_equal(all_tasks(whole, 4), "(0,1)(0,1)");
    assert_string_equal(text(whole), "(repeat(2, 1) * spatial(2, 3)).project(0)");
    assert_string_equal(all_tasks(mul(SPATIAL(2, 1), whole), 10), "(1,1)(1,1)");
}

static void auto_map_shares_from_the_fastest_dimension(void **state)
{
    UNUSED(state);
    static const struct {
        int rank;
        int64_t shape[3], workers;
        const char *text;
    } rows[] = {
        {2, {8, 32}, 64, "repeat(4, 1) * spatial(2, 32)"},
        {2, {8, 64}, 64, "repeat(8, 1) * spatial(1, 64)"},
        {2, {8, 96}, 64, "repeat(4, 3) * spatial(2, 32)"},
        {2, {8, 128}, 64, "repeat(8, 2) * spatial(1, 64)"},
        {3, {8, 16, 24}, 32, "repeat(8, 4, 3) * spatial(1, 4, 8)"},
        {2, {64, 8}, 64, "repeat(8, 1) * spatial(8, 8)"},
        {2, {12, 10}, 20, "repeat(6, 1) * spatial(2, 10)"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        const Mapping *m =
            mapping_auto(&arena, rows[i].rank, rows[i].shape, rows[i].workers, NULL, &why);
        assert_string_equal(text(m), rows[i].text);
    }
    const Mapping *m = mapping_auto(&arena, DIMS(8, 32), 64, NULL, &why);
    assert_string_equal(all_tasks(m, 1), "(0,1)(2,1)(4,1)(6,1)");
    assert_string_equal(tasks(m, 33, 0, 2), "(1,1)(3,1)");
    m = mapping_auto(&arena, DIMS(8, 96), 64, ORDER(1, 0), &why);
    assert_string_equal(text(m), "col_repeat(1, 12) * col_spatial(8, 8)");
    assert_string_equal(tasks(m, 1, 0, 3), "(1,0)(1,8)(1,16)");
    assert_string_equal(tasks(m, 9, 0, 2), "(1,1)(1,9)");
    m = mapping_auto(&arena, DIMS(64, 8), 64, ORDER(1, 0), &why);
    assert_string_equal(text(m), "col_repeat(1, 8) * col_spatial(64, 1)");
    assert_null(mapping_auto(&arena, DIMS(8, 41), 64, NULL, &why));
    assert_string_equal(why, "328 tasks cannot be shared evenly by 64 workers");
}

static void predicated_auto_map_may_leave_workers_idle(void **state)
{
    UNUSED(state);
    static const struct {
        int64_t shape[2], workers, used;
        const char *text;
    } rows[] = {
        {{8, 41}, 64, 41, "repeat(8, 1) * spatial(1, 41)"},
        {{8, 41}, 512, 328, "repeat(1, 1) * spatial(8, 41)"},
        {{3, 5}, 32, 15, "repeat(1, 1) * spatial(3, 5)"},
        {{8, 96}, 64, 32, "repeat(8, 3) * spatial(1, 32)"},
        {{6, 10}, 32, 30, "repeat(2, 1) * spatial(3, 10)"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        int64_t used = 0;
        const Mapping *m =
            mapping_auto_predicated(&arena, 2, rows[i].shape, rows[i].workers, NULL, &used, &why);
        assert_string_equal(text(m), rows[i].text);
        assert_int_equal(used, rows[i].used);
    }
}

static void text_says_what_is_not_default(void **state)
{
    UNUSED(state);
    const LoopAttr attr[] = {LOOP_UNROLL, LOOP_PARALLEL}, one[] = {LOOP_UNROLL_FULL},
                   usual[] = {LOOP_UNROLL_FULL, LOOP_DEFAULT};
    assert_string_equal(text(SPATIAL(7)), "spatial(7)");
    assert_string_equal(text(mapping_spatial(&arena, DIMS(2, 3, 4), ORDER(1, 2, 0), &why)),
                        "spatial(2, 3, 4; ranks: (1, 2, 0))");
    assert_string_equal(text(mapping_repeat(&arena, DIMS(2, 8), NULL, attr, &why)),
                        "repeat(2, 8; attrs: (\"u\", \"p\"))");
    assert_string_equal(text(mapping_repeat(&arena, DIMS(8), NULL, one, &why)),
                        "repeat(8; attrs: (\"u+\",))");
    assert_string_equal(text(mapping_repeat(&arena, DIMS(2, 8), NULL, usual, &why)),
                        "repeat(2, 8)");
    assert_int_equal(REPEAT(3)->attr[0], LOOP_UNROLL_FULL);
    assert_int_equal(REPEAT(4)->attr[0], LOOP_PLAIN);
    assert_string_equal(text(mul(SPATIAL(4, 2), mul(REPEAT(2, 2), SPATIAL(1, 2)))),
                        "spatial(4, 2) * repeat(2, 2) * spatial(1, 2)");
}

static bool halves(void *user, const Mapping *custom, int64_t w, int64_t *index)
{
    UNUSED(custom);
    *(int *)user += 1;
    index[0] = w / 4;
    index[1] = 3 - w % 4;
    return true;
}

static void a_custom_part_is_asked_for_its_task(void **state)
{
    UNUSED(state);
    const Mapping *c = mapping_custom(&arena, DIMS(2, 4), 8, NULL, NULL, &why);
    const Mapping *m = mul(mul(SPATIAL(1, 2), c), REPEAT(1, 2));
    int64_t index[MAPPING_MAX_RANK];
    int asked = 0;
    assert_false(mapping_task(m, 0, 0, index));
    assert_true(mapping_task_with(m, 13, 1, index, halves, &asked));
    assert_int_equal(asked, 1);
    assert_int_equal(index[0], 1);
    assert_int_equal(index[1], (1 * 4 + 2) * 2 + 1);
}

static void equality_is_structural(void **state)
{
    UNUSED(state);
    assert_true(mapping_equal(mul(SPATIAL(4, 2), REPEAT(2, 2)), mul(SPATIAL(4, 2), REPEAT(2, 2))));
    assert_false(mapping_equal(SPATIAL(2, 3), COL_SPATIAL(2, 3)));
    assert_false(mapping_equal(SPATIAL(1, 1), REPEAT(1, 1)));
    assert_false(mapping_equal(mul(SPATIAL(4, 2), REPEAT(2, 2)), mul(REPEAT(4, 2), SPATIAL(2, 2))));
}

static void nonsense_is_refused_with_a_message(void **state)
{
    UNUSED(state);
    const int64_t huge = (int64_t)1 << 40;
    assert_null(mapping_spatial(&arena, 0, NULL, NULL, &why));
    assert_string_equal(why, "a mapping has 1 to 8 dimensions, not 0");
    assert_null(mapping_spatial(&arena, DIMS(1, 1, 1, 1, 1, 1, 1, 1, 1), NULL, &why));
    assert_null(mapping_auto(&arena, DIMS(1, 1, 1, 1, 1, 1, 1, 1, 1), 1, NULL, &why));
    assert_null(mapping_repeat(&arena, DIMS(2, 0), NULL, NULL, &why));
    assert_string_equal(why, "extent 0 of dimension 1 is not positive");
    assert_null(mapping_spatial(&arena, DIMS(2, -3), NULL, &why));
    assert_null(mapping_spatial(&arena, DIMS(2, 3), ORDER(0, 0), &why));
    assert_string_equal(why, "the ranks are no permutation of 0 to 1");
    assert_null(mapping_spatial(&arena, DIMS(2, 3), ORDER(0, 2), &why));
    assert_null(mapping_spatial(&arena, DIMS(2, 3), ORDER(-1, 0), &why));
    assert_null(mapping_spatial(&arena, DIMS(huge, huge), NULL, &why));
    assert_string_equal(why, "the sizes of this mapping overflow");
    assert_null(mapping_compose(&arena, SPATIAL(huge), REPEAT(huge), &why));
    assert_null(mapping_compose(&arena, SPATIAL(huge, 1), SPATIAL(1, huge), &why));
    assert_string_equal(why, "the sizes of this mapping overflow");
    assert_null(mapping_compose(&arena, SPATIAL(2), SPATIAL(2, 2), &why));
    assert_string_equal(why, "a mapping of 1 dimensions cannot be composed with one of 2");
    assert_null(mapping_auto(&arena, DIMS(4), 0, NULL, &why));
    assert_null(mapping_custom(&arena, DIMS(4), 0, NULL, NULL, &why));
    assert_string_equal(why, "a mapping has at least one worker");

    const Mapping *chain = SPATIAL(1), *longer = chain;
    for (int i = 0; i < 1000 && longer; i++) {
        chain = longer;
        longer = mapping_compose(&arena, chain, SPATIAL(1), &why);
    }
    assert_null(longer);
    assert_string_equal(why, "this mapping is composed of too many parts");
    assert_null(mapping_compose(&arena, chain, chain, &why));
    const bool all[] = {true};
    for (longer = chain; longer;) longer = mapping_project(&arena, longer, all, &why);
    assert_string_equal(why, "this mapping is composed of too many parts");
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
        cmocka_unit_test(grids_follow_their_ranks),
        cmocka_unit_test(compositions_nest),
        cmocka_unit_test(the_matmul_block_is_mapped),
        cmocka_unit_test(matrix_fragments_are_mapped),
        cmocka_unit_test(projection_pins_dimensions),
        cmocka_unit_test(auto_map_shares_from_the_fastest_dimension),
        cmocka_unit_test(predicated_auto_map_may_leave_workers_idle),
        cmocka_unit_test(text_says_what_is_not_default),
        cmocka_unit_test(a_custom_part_is_asked_for_its_task),
        cmocka_unit_test(equality_is_structural),
        cmocka_unit_test(nonsense_is_refused_with_a_message),
    };
    return cmocka_run_group_tests(tests, NULL, free_arena);
}
