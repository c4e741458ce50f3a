// SPDX-License-Identifier: Apache-2.0
// The tables of the command line agree with one another, and the texts made from them are whole.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/util.h"
#include "cli/cli.h"

static Arena arena;

static bool names_a_command(const char *word, size_t n)
{
    for (int i = 0; i < ncommand; i++) {
        const char *whole =
            *commands[i].subcommand
                ? arena_printf(&arena, "%s.%s", commands[i].name, commands[i].subcommand)
                : commands[i].name;
        if (strlen(whole) == n && !memcmp(whole, word, n)) return true;
        if (strlen(commands[i].name) == n && !memcmp(commands[i].name, word, n)) return true;
    }
    return (n == 1 && *word == '*') || (n == 3 && !memcmp(word, "top", 3));
}

static void options_name_commands_that_exist(void **state)
{
    UNUSED(state);
    for (int i = 0; i < OPT_COUNT; i++) {
        for (const char *s = option_info[i].commands; *s;) {
            size_t n = strcspn(s, " ");
            if (!names_a_command(s, n)) fail_msg("--%s: %s", option_info[i].name, s);
            s += n + (s[n] == ' ');
        }
    }
}

static void options_of_a_command_differ(void **state)
{
    UNUSED(state);
    for (int c = 0; c < ncommand; c++)
        for (int i = 0; i < OPT_COUNT; i++)
            for (int k = 0; k < i; k++) {
                const OptionInfo *x = &option_info[i], *y = &option_info[k];
                if (!option_applies(x, &commands[c]) || !option_applies(y, &commands[c])) continue;
                if (!strcmp(x->name, y->name) || (x->letter && x->letter == y->letter))
                    fail_msg("--%s and --%s of %s", x->name, y->name, commands[c].name);
            }
}

// A command stands once, and those that share a name stand together.
static void commands_differ(void **state)
{
    UNUSED(state);
    for (int i = 0; i < ncommand; i++)
        for (int k = 0; k < i; k++) {
            if (strcmp(commands[i].name, commands[k].name)) continue;
            assert_string_not_equal(commands[i].subcommand, commands[k].subcommand);
            assert_string_equal(commands[i].name, commands[i - 1].name);
        }
}

static void subcommands_take_the_options_of_their_name(void **state)
{
    UNUSED(state);
    Command check = {.name = "kernel", .subcommand = "check"};
    Command build = {.name = "kernel", .subcommand = "build"};
    Command map = {.name = "map", .subcommand = ""};
    assert_true(option_applies(&option_info[OPT_SHAPE], &check));
    assert_true(option_applies(&option_info[OPT_SEED], &check));
    assert_false(option_applies(&option_info[OPT_SEED], &build));
    assert_false(option_applies(&option_info[OPT_SHAPE], &map));
    assert_true(option_applies(&option_info[OPT_THREADS], &map));
    assert_true(option_applies(&option_info[OPT_VERSION], NULL));
    assert_false(option_applies(&option_info[OPT_SHAPE], NULL));
}

static void every_option_is_explained(void **state)
{
    UNUSED(state);
    Buf manual;
    buf_init(&manual, &arena);
    help_manual(&manual);
    for (int c = 0; c < ncommand; c++) {
        Buf help;
        buf_init(&help, &arena);
        help_command(&commands[c], &help);
        for (int i = 0; i < OPT_COUNT; i++) {
            const char *name = arena_printf(&arena, "--%s", option_info[i].name);
            if (option_applies(&option_info[i], &commands[c]))
                assert_non_null(strstr(buf_text(&help), name));
        }
    }
    for (int i = 0; i < OPT_COUNT; i++) {
        Buf escaped;
        buf_init(&escaped, &arena);
        buf_puts(&escaped, "\\-\\-");
        for (const char *s = option_info[i].name; *s; s++)
            buf_printf(&escaped, "%s%c", *s == '-' ? "\\" : "", *s);
        assert_non_null(strstr(buf_text(&manual), buf_text(&escaped)));
    }
}

static void help_fits_a_page_of_100_columns(void **state)
{
    UNUSED(state);
    for (int c = 0; c < ncommand; c++) {
        Buf help;
        buf_init(&help, &arena);
        help_command(&commands[c], &help);
        for (const char *s = buf_text(&help); *s;) {
            size_t n = strcspn(s, "\n");
            assert_true(n <= 100);
            s += n + (s[n] == '\n');
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_name_commands_that_exist),
        cmocka_unit_test(options_of_a_command_differ),
        cmocka_unit_test(commands_differ),
        cmocka_unit_test(subcommands_take_the_options_of_their_name),
        cmocka_unit_test(every_option_is_explained),
        cmocka_unit_test(help_fits_a_page_of_100_columns),
    };
    int status = cmocka_run_group_tests(tests, NULL, NULL);
    arena_free(&arena);
    return status;
}
