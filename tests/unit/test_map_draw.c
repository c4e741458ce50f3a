// SPDX-License-Identifier: Apache-2.0
// Drawings of task mappings and layouts. A case named N is compared with tests/golden/map/N.txt;
// where N.hd lies beside it, the golden test draws the same from text. HEALD_BLESS=1 rewrites them.
#include "cli/map_draw.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/os.h"
#include "cli/map_svg.h"
#include "unit/mapping_builders.h"

static void assert_golden(const char *name, const char *got)
{
    char *want;
    size_t size;
    const char *path = arena_printf(&arena, "tests/golden/map/%s", name);
    if (getenv("HEALD_BLESS")) assert_null(file_write_atomic(&arena, path, got, strlen(got)));
    const char *failure = file_read(&arena, path, &want, &size);
    if (failure) fail_msg("%s", failure);
    assert_string_equal(got, want);
}

static const char *draw(const Mapping *m, MapDrawOptions o)
{
    Buf out;
    buf_init(&out, &arena);
    map_draw_mapping(m, &out, &o);
    return buf_text(&out);
}

static const char *draw_layout(const Layout *l, MapDrawOptions o)
{
    Buf out;
    buf_init(&out, &arena);
    map_draw_layout(l, &out, &o);
    return buf_text(&out);
}

static const char *svg(const Mapping *m, MapDrawOptions o)
{
    Buf out;
    buf_init(&out, &arena);
    map_svg_mapping(m, &out, &o);
    return buf_text(&out);
}

static const char *svg_layout(const Layout *l, MapDrawOptions o)
{
    Buf out;
    buf_init(&out, &arena);
    map_svg_layout(l, &out, &o);
    return buf_text(&out);
}

static void mappings_are_drawn(void **state)
{
    UNUSED(state);
    const MapDrawOptions o = {0};
    const bool first[] = {true, false};
    const Mapping *block = mul(mul(SPATIAL(4, 2), REPEAT(2, 2)), mul(SPATIAL(4, 8), REPEAT(4, 4)));
    assert_golden("blocks.txt", draw(mul(SPATIAL(4, 2), REPEAT(2, 2)), o));
    assert_golden("strides.txt", draw(mul(REPEAT(2, 2), SPATIAL(4, 2)), o));
    assert_golden("matmul_block.txt", draw(block, o));
    assert_golden("line.txt", draw(SPATIAL(70), o));
    assert_golden("planes.txt", draw(mul(REPEAT(6, 2, 1), SPATIAL(1, 2, 4)), o));
    assert_golden("projected.txt",
                  draw(build_checked(mapping_project(&arena, SPATIAL(2, 3), first, &why)), o));
    assert_golden("fragment.txt", draw(mul(mul(COL_REPEAT(2, 2), SPATIAL(8, 4)), REPEAT(1, 2)), o));
}

static void layouts_are_drawn(void **state)
{
    UNUSED(state);
    const MapDrawOptions o = {0}, half = {.element_bytes = 2};
    const Layout *tile = mul_layout(swizzle(ROW(8, 8), 1, 0), ROW(1, 8));
    assert_golden("row_major.txt", draw_layout(ROW(8, 8), o));
    assert_golden("swizzled.txt", draw_layout(swizzle(ROW(8, 8), 1, 0), o));
    assert_golden("registers.txt", draw_layout(mul_layout(LOCAL(2, 2), ROW(2, 2)), o));
    assert_golden("column_major.txt", draw_layout(COLUMN(2, 3, 4), o));
    assert_golden("half_tile.txt", draw_layout(tile, half));
}

static bool halves(void *user, const Mapping *custom, int64_t w, int64_t *index)
{
    UNUSED(user);
    UNUSED(custom);
    index[0] = w / 4;
    index[1] = w % 4 * 2 % 5;
    return true;
}

static void custom_mappings_ask_their_caller(void **state)
{
    UNUSED(state);
    const Mapping *m = build_checked(mapping_custom(&arena, DIMS(2, 4), 9, NULL, NULL, &why));
    assert_golden("custom.txt", draw(m, (MapDrawOptions){.custom = halves, .title = "w => ..."}));
    assert_non_null(strstr(draw(m, (MapDrawOptions){0}), "(the tasks of a part of this mapping"));
    assert_non_null(strstr(svg(m, (MapDrawOptions){0}), "the tasks of a part of this mapping"));
    assert_null(strstr(svg(m, (MapDrawOptions){0}), "<g>"));
}

static void titles_say_what_was_asked(void **state)
{
    UNUSED(state);
    const Mapping *m = build_checked(mapping_auto(&arena, DIMS(2, 4), 4, NULL, &why));
    const char *same = draw(m, (MapDrawOptions){.title = "repeat(2,1)*spatial(1,4)"});
    const char *other = draw(m, (MapDrawOptions){.title = "auto_map(2, 4; 4)"});
    const char *hostile = draw(m, (MapDrawOptions){.title = "a\033[2J\n"});
    assert_memory_equal(same, "repeat(2,1)*spatial(1,4)\n", 25);
    assert_memory_equal(other, "auto_map(2, 4; 4) = repeat(2, 1) * spatial(1, 4)\n", 49);
    assert_memory_equal(hostile, "a?[2J? = ", 9);
}

static void colour_only_tints(void **state)
{
    UNUSED(state);
    const Mapping *m = mul(SPATIAL(4, 2), REPEAT(2, 2));
    const char *plain = draw(m, (MapDrawOptions){0});
    const char *tinted = draw(m, (MapDrawOptions){.color = true});
    assert_null(strchr(plain, '\033'));
    assert_non_null(strstr(tinted, "\033[48;5;153;38;5;16m  0:0\033[0m"));
    Buf stripped;
    buf_init(&stripped, &arena);
    for (const char *c = tinted; *c; c++) {
        if (*c == '\033') c = strchr(c, 'm');
        else buf_putc(&stripped, *c);
    }
    assert_string_equal(buf_text(&stripped), plain);
}

static void large_shapes_stay_small(void **state)
{
    UNUSED(state);
    const int64_t huge = (int64_t)1 << 40;
    assert_non_null(strstr(draw(SPATIAL(huge, 4), (MapDrawOptions){0}), "(too large to draw)"));
    assert_non_null(strstr(svg(SPATIAL(huge, 4), (MapDrawOptions){0}), "too large to draw"));
    assert_true(strlen(draw_layout(ROW(huge, 1000), (MapDrawOptions){0})) < 8000);
    assert_true(strlen(draw_layout(ROW(huge), (MapDrawOptions){0})) < 8000);
    assert_true(strlen(svg_layout(ROW(huge, 1000, 1000), (MapDrawOptions){0})) < (size_t)8 << 20);
    const char *narrow = draw(SPATIAL(2, 512), (MapDrawOptions){.width = 40});
    for (const char *line = narrow; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        assert_true(strcspn(line, "\n") <= 48);
    }
}

static void bank_conflicts_are_counted(void **state)
{
    UNUSED(state);
    const Layout *padded = layout_strided(&arena, DIMS(32, 32), (const int64_t[]){33, 1}, &why);
    const struct {
        const Layout *l;
        int bytes, row, column, matrix;
    } cases[] = {
        {ROW(32, 32), 4, 1, 32, 8},
        {padded, 4, 1, 1, 0},
        {swizzle(ROW(32, 32), 1, 0), 4, 1, 1, 0},
        {ROW(32, 64), 2, 1, 32, 8},
        {mul_layout(swizzle(ROW(32, 8), 1, 0), ROW(1, 8)), 2, 1, 4, 1},
        {ROW(32, 16), 8, 1, 16, 8},
        {ROW(32, 8), 16, 1, 8, 8},
        {ROW(64, 8), 1, 1, 2, 0},
        {ROW(64), 4, 1, 0, 0},
        {COLUMN(32, 32), 4, 32, 1, 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        MapBanks banks = map_banks(cases[i].l, cases[i].bytes);
        assert_true(banks.known);
        assert_int_equal(banks.row, cases[i].row);
        assert_int_equal(banks.column, cases[i].column);
        assert_int_equal(banks.matrix, cases[i].matrix);
    }
    assert_false(map_banks(LOCAL(4, 4), 4).known);
    assert_false(map_banks(ROW(4, 4), 3).known);
    assert_false(map_banks(ROW(1 << 20, 4), 4).known);
}

static int count(const char *text, const char *word)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, word)); at += strlen(word)) n++;
    return n;
}

// Well formed enough to be read: every tag is closed in order, every & begins an entity.
static void assert_well_formed(const char *text)
{
    const char *open[64];
    int depth = 0;
    for (const char *c = text; *c; c++) {
        if (*c == '&') assert_true(strcspn(c, ";") < 7);
        if (*c != '<') continue;
        const char *name = c + 1 + (c[1] == '/');
        size_t size = strcspn(name, " >/\n");
        bool closes = c[1] == '/';
        c = strchr(c, '>');
        assert_non_null(c);
        if (closes) {
            assert_true(depth > 0);
            assert_memory_equal(open[--depth], name, size);
        } else if (c[-1] != '/') {
            assert_true(depth < 64);
            open[depth++] = name;
        }
    }
    assert_int_equal(depth, 0);
}

static void pictures_hold_every_cell(void **state)
{
    UNUSED(state);
    const Mapping *m = mul(SPATIAL(4, 2), REPEAT(2, 2));
    const char *picture = svg(m, (MapDrawOptions){0});
    assert_golden("blocks_picture.svg", picture);
    assert_well_formed(picture);
    assert_int_equal(count(picture, "<g><title>"), 32);
    assert_int_equal(count(picture, "<g class=\"k\""), 8);
    assert_non_null(strstr(picture, "<title>(3, 2): worker 3, task 2</title>"));

    picture = svg_layout(swizzle(ROW(8, 8), 1, 0), (MapDrawOptions){0});
    assert_well_formed(picture);
    assert_int_equal(count(picture, "<g><title>"), 64);
    assert_int_equal(count(picture, "<g class=\"k\""), BANKS);
    assert_non_null(strstr(picture, "<title>(1, 0): place 9, bank 9</title>"));

    picture = svg(m, (MapDrawOptions){.title = "a < b & \"c\" > d\001"});
    assert_well_formed(picture);
    assert_non_null(strstr(picture, "a &lt; b &amp; &quot;c&quot; &gt; d?"));
    assert_well_formed(svg(mul(REPEAT(9, 2, 1), SPATIAL(1, 2, 4)), (MapDrawOptions){0}));
    assert_well_formed(svg(SPATIAL(300), (MapDrawOptions){0}));
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
        cmocka_unit_test(mappings_are_drawn),
        cmocka_unit_test(layouts_are_drawn),
        cmocka_unit_test(custom_mappings_ask_their_caller),
        cmocka_unit_test(titles_say_what_was_asked),
        cmocka_unit_test(colour_only_tints),
        cmocka_unit_test(large_shapes_stay_small),
        cmocka_unit_test(bank_conflicts_are_counted),
        cmocka_unit_test(pictures_hold_every_cell),
    };
    return cmocka_run_group_tests(tests, NULL, free_arena);
}
