// SPDX-License-Identifier: Apache-2.0
// Places and rendered diagnostics.
#include "base/diag.h"
#include "base/util.h"

#include <setjmp.h>
#include <string.h>

#include <cmocka.h>

static Arena arena;
static Sources sources;
static Diag diag;

static int setup(void **state)
{
    UNUSED(state);
    sources = (Sources){.arena = &arena};
    diag_init(&diag, &arena, &sources);
    return 0;
}

static int teardown(void **state)
{
    UNUSED(state);
    arena_free(&arena);
    return 0;
}

static Source *add(const char *name, const char *text)
{
    return sources_add(&sources, name, text, strlen(text));
}

static const char *rendered(void)
{
    Buf b;
    buf_init(&b, &arena);
    diag_render(&diag, &b);
    return buf_text(&b);
}

static void assert_place(Loc loc, const Source *source, int line, int col)
{
    Place p = sources_place(&sources, loc);
    assert_ptr_equal(p.source, source);
    assert_int_equal(p.line, line);
    assert_int_equal(p.col, col);
}

static void places(void **state)
{
    UNUSED(state);
    const Source *a = add("a.hd", "one\ntwo\n"), *b = add("b.hd", ""), *c = add("c.hd", "\n\nx");
    assert_place(0, NULL, 0, 0);
    assert_place(a->base, a, 1, 1);
    assert_place(a->base + 3, a, 1, 4); // the newline ends its line
    assert_place(a->base + 4, a, 2, 1);
    assert_place(a->base + 8, a, 3, 1); // the end of the text
    assert_place(b->base, b, 1, 1);
    assert_place(c->base + 1, c, 2, 1);
    assert_place(c->base + 2, c, 3, 1);
    assert_place(c->base + 3, c, 3, 2);
    assert_place(c->base + 4, NULL, 0, 0);
    assert_place(UINT32_MAX, NULL, 0, 0);
}

static void too_large(void **state)
{
    UNUSED(state);
    assert_null(sources_add(&sources, "big", "", ((size_t)64 << 20) + 1));
    int n = 0; // the texts are never read, so they need not be there
    while (sources_add(&sources, "big", "", (size_t)64 << 20)) n++;
    assert_int_equal(n, 63);
    assert_non_null(add("small", "x"));
}

static void error_with_caret_and_notes(void **state)
{
    UNUSED(state);
    const char *text = "kernel softmax {\n  for i in spatial(4, 32)\n}\n";
    Source *s = add("softmax.hd", text);
    Loc at = s->base + (Loc)(strstr(text, "spatial") - text);
    diag_error(&diag, at, "mapping has %d axes but the loop names %d", 2, 1);
    diag_note(&diag, s->base, "in kernel '%s', instantiated with n = 1024", "softmax");
    assert_string_equal(rendered(),
                        "softmax.hd:2:12: error: mapping has 2 axes but the loop names 1\n"
                        "    2 |   for i in spatial(4, 32)\n"
                        "      |            ^\n"
                        "softmax.hd:1:1: note: in kernel 'softmax', instantiated with n = 1024\n");
    assert_int_equal(diag.nerror, 1);
    diag_clear(&diag);
    assert_int_equal(diag.nerror, 0);
    assert_string_equal(rendered(), "");
}

static void without_place(void **state)
{
    UNUSED(state);
    diag_warning(&diag, 0, "slow");
    diag_note(&diag, 0, "very");
    assert_string_equal(rendered(), "warning: slow\nnote: very\n");
    assert_int_equal(diag.nerror, 0);
    Diag none;
    diag_init(&none, &arena, NULL);
    diag_error(&none, 77, "no sources");
    Buf b;
    buf_init(&b, &arena);
    diag_render(&none, &b);
    assert_string_equal(buf_text(&b), "error: no sources\n");
}

static void ends_of_lines(void **state)
{
    UNUSED(state);
    Source *s = add("e", "ab\r\ncd");
    diag_error(&diag, s->base + 2, "at the return");
    diag_error(&diag, s->base + 3, "at the newline");
    diag_error(&diag, s->base + 6, "at the end");
    assert_string_equal(rendered(), "e:1:3: error: at the return\n    1 | ab\n      |   ^\n"
                                    "e:1:4: error: at the newline\n    1 | ab\n      |   ^\n"
                                    "e:2:3: error: at the end\n    2 | cd\n      |   ^\n");
}

static void tabs_and_characters(void **state)
{
    UNUSED(state);
    const char *text = "\tx\t= \xC3\xA9 + y; \x1B[31m";
    Source *s = add("t", text);
    diag_error(&diag, s->base + (Loc)(strchr(text, 'y') - text), "here");
    assert_string_equal(rendered(), "t:1:11: error: here\n"
                                    "    1 | \tx\t= \xC3\xA9 + y; ?[31m\n"
                                    "      | \t \t      ^\n");
}

// The line shown and the column of the caret in it, for a line of 1000 characters.
static void long_line(int caret, int *shown_caret, char *shown, size_t size)
{
    char text[1001];
    for (int i = 0; i < 1000; i++) text[i] = (char)('a' + i % 26);
    text[caret] = '#';
    text[1000] = 0;
    Source *s = add("long", text);
    diag_clear(&diag);
    diag_error(&diag, s->base + (Loc)caret, "x");
    const char *line = strchr(rendered(), '\n') + 1;
    const char *below = strchr(line, '\n') + 1;
    assert_true((size_t)(below - line) < size);
    memcpy(shown, line, (size_t)(below - line) - 1);
    shown[below - line - 1] = 0;
    *shown_caret = (int)(strchr(below, '^') - below);
}

static void long_lines_are_cut_around_the_caret(void **state)
{
    UNUSED(state);
    static const int carets[] = {0, 1, 44, 45, 46, 500, 953, 954, 955, 956, 998, 999};
    for (size_t i = 0; i < COUNT(carets); i++) {
        char shown[200];
        int caret;
        long_line(carets[i], &caret, shown, sizeof shown);
        assert_true(strlen(shown) <= 8 + 90 + 6);
        assert_int_equal(shown[caret], '#');
        assert_int_equal(strncmp(shown + 8, "...", 3) == 0, carets[i] > 45);
        assert_int_equal(strcmp(shown + strlen(shown) - 3, "...") == 0, carets[i] < 955);
    }
}

static void cuts_fall_between_characters(void **state)
{
    UNUSED(state);
    char text[900];
    for (int i = 0; i < 300; i++) memcpy(text + 3 * i, "\xE2\x82\xAC", 3); // euro signs
    Source *s = sources_add(&sources, "u", text, sizeof text);
    for (Loc caret = 0; caret < 900; caret += 3) {
        diag_clear(&diag);
        diag_error(&diag, s->base + caret, "x");
        const char *line = strchr(rendered(), '\n') + 9;
        const char *p = strncmp(line, "...", 3) ? line : line + 3;
        int n = 0;
        for (; !strncmp(p, "\xE2\x82\xAC", 3); p += 3) n++;
        assert_true(n >= 30 && n <= 32);
        assert_true(*p == '\n' || !strncmp(p, "...\n", 4));
    }
}

static void further_errors_are_counted(void **state)
{
    UNUSED(state);
    diag.max_errors = 2;
    for (int i = 0; i < 4; i++) {
        diag_error(&diag, 0, "e%d", i);
        diag_note(&diag, 0, "n%d", i);
    }
    diag_warning(&diag, 0, "w");
    diag_note(&diag, 0, "nw");
    assert_int_equal(diag.nerror, 4);
    assert_string_equal(rendered(), "error: e0\nnote: n0\nerror: e1\nnote: n1\nwarning: w\n"
                                    "note: nw\n2 more errors not shown\n");
    diag_clear(&diag);
    for (int i = 0; i < 3; i++) diag_error(&diag, 0, "e");
    assert_string_equal(rendered(), "error: e\nerror: e\n1 more error not shown\n");
    diag_clear(&diag);
    diag.max_errors = 0;
    for (int i = 0; i < 30; i++) diag_error(&diag, 0, "e");
    assert_int_equal(diag.messages.n, 20);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(places),
        TEST(too_large),
        TEST(error_with_caret_and_notes),
        TEST(without_place),
        TEST(ends_of_lines),
        TEST(tabs_and_characters),
        TEST(long_lines_are_cut_around_the_caret),
        TEST(cuts_fall_between_characters),
        TEST(further_errors_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
