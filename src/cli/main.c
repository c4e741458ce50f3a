// SPDX-License-Identifier: Apache-2.0
// The command `heald`: finds the command and its options in the tables, and runs it.
#include "cli/cli.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONG_BASE = 256 }; // getopt's value of option i is LONG_BASE + i

typedef struct GetoptTable {
    struct option row[OPT_COUNT + 1];
    char letters[2 * OPT_COUNT + 3];
} GetoptTable;

// Stops at the first operand before a command; inside one, options and operands may mix.
static void make_table(GetoptTable *t, const Command *command)
{
    int n = 0;
    char *s = t->letters;
    if (!command) *s++ = '+';
    *s++ = ':';
    for (int i = 0; i < OPT_COUNT; i++) {
        const OptionInfo *o = &option_info[i];
        if (!option_applies(o, command)) continue;
        t->row[n++] = (struct option){o->name, o->argument ? required_argument : no_argument, NULL,
                                      LONG_BASE + i};
        if (o->letter) *s++ = (char)o->letter;
        if (o->letter && o->argument) *s++ = ':';
    }
    t->row[n] = (struct option){0};
    *s = 0;
}

static const char *where_to_look(const Cli *c)
{
    if (!c->command) return "heald --help";
    Buf b;
    buf_init(&b, (Arena *)&c->arena);
    buf_puts(&b, "heald ");
    help_command_name(c->command, &b);
    buf_puts(&b, " --help");
    return buf_text(&b);
}

static void set_option(Cli *c, int id)
{
    const char *value = optarg ? optarg : "";
    c->options.text[id] = value;
    c->options.from[id] = FROM_FLAG;
    VEC_PUSH(&c->arena, &c->options.all[id], value);
}

static int option_of(int got, const Command *command)
{
    if (got >= LONG_BASE) return got - LONG_BASE;
    for (int i = 0; i < OPT_COUNT; i++)
        if (option_info[i].letter == got && option_applies(&option_info[i], command)) return i;
    return -1;
}

// The options of argv[1..]; *rest is where the operands start. EXIT_DONE, or an error printed.
static int parse(Cli *c, int argc, char **argv, int *rest)
{
    GetoptTable table;
    make_table(&table, c->command);
    opterr = 0;
    optind = 0; // start anew
    for (int got; (got = getopt_long(argc, argv, table.letters, table.row, NULL)) != -1;) {
        int id = option_of(got, c->command);
        if (id >= 0) {
            set_option(c, id);
            continue;
        }
        const char *bad = optind > 0 ? argv[optind - 1] : "";
        return cli_error(c, "%s '%s'; '%s' lists the options",
                         got == ':' ? "a value is missing after" : "unknown or incomplete option",
                         bad, where_to_look(c));
    }
    *rest = optind;
    return EXIT_DONE;
}

static void take_defaults(Cli *c)
{
    for (int i = 0; i < OPT_COUNT; i++) {
        const OptionInfo *o = &option_info[i];
        const char *value = o->environment ? getenv(o->environment) : NULL;
        if (c->options.from[i] == FROM_FLAG) continue;
        bool given = value && *value;
        c->options.text[i] = given ? value : o->fallback;
        c->options.from[i] = given ? FROM_ENVIRONMENT : o->fallback ? FROM_DEFAULT : FROM_NOWHERE;
    }
}

static void print(Cli *c, void (*write)(Buf *out))
{
    Buf b;
    buf_init(&b, &c->arena);
    write(&b);
    fputs(buf_text(&b), stdout);
}

// What needs no command. -1: nothing of that was asked for.
static int without_command(Cli *c)
{
    const char *shell = cli_text(c, OPT_COMPLETION);
    if (cli_has(c, OPT_VERSION)) {
        printf("heald %d.%d.%d\n", HEALD_VERSION_MAJOR, HEALD_VERSION_MINOR, HEALD_VERSION_PATCH);
    } else if (cli_has(c, OPT_MAN)) {
        print(c, help_manual);
    } else if (shell && strcmp(shell, "bash")) {
        return cli_error(c, "--completion %s: only bash is known", shell);
    } else if (shell) {
        print(c, help_completion_bash);
    } else if (cli_has(c, OPT_HELP)) {
        print(c, help_top);
    } else {
        return -1;
    }
    return EXIT_DONE;
}

// Finds the command named by argv[0], argv[1]; *used words of them. NULL with the error printed, or
// with help printed and *status 0.
static const Command *find_command(Cli *c, int argc, char **argv, int *used, int *status)
{
    const char *name = argv[0], *sub = argc > 1 ? argv[1] : "";
    bool known = false;
    for (int i = 0; i < ncommand; i++) {
        const Command *k = &commands[i];
        if (strcmp(k->name, name)) continue;
        known = true;
        *used = *k->subcommand ? 2 : 1;
        if (!*k->subcommand || !strcmp(k->subcommand, sub)) return k;
    }
    *status = EXIT_ERROR;
    if (!known) {
        cli_error(c, "unknown command '%s'; 'heald --help' lists the commands", name);
    } else if (!strcmp(sub, "--help") || !strcmp(sub, "-h")) {
        Buf b;
        buf_init(&b, &c->arena);
        help_group(name, &b);
        fputs(buf_text(&b), stdout);
        *status = EXIT_DONE;
    } else if (!*sub || *sub == '-') {
        cli_error(c, "%s needs a command after it; 'heald %s --help' lists them", name, name);
    } else {
        cli_error(c, "unknown command '%s %s'; 'heald %s --help' lists them", name, sub, name);
    }
    return NULL;
}

static int run_command(Cli *c, int argc, char **argv)
{
    int rest;
    if (parse(c, argc, argv, &rest)) return EXIT_ERROR;
    if (cli_has(c, OPT_HELP)) {
        Buf b;
        buf_init(&b, &c->arena);
        help_command(c->command, &b);
        fputs(buf_text(&b), stdout);
        return EXIT_DONE;
    }
    take_defaults(c);
    c->operand = argv + rest;
    c->noperand = argc - rest;
    if (c->noperand < c->command->least) {
        return cli_error(c, "%s is missing; '%s' tells more", c->command->operands,
                         where_to_look(c));
    }
    if (c->noperand > c->command->most) {
        return cli_error(c, "'%s' is one word too many; '%s' tells more",
                         c->operand[c->command->most], where_to_look(c));
    }
    return c->command->function(c);
}

// Not inlined, since its variables would then live across main's setjmp.
__attribute__((noinline)) static int run(Cli *c, int argc, char **argv)
{
    int at, used, status;
    if (parse(c, argc, argv, &at)) return EXIT_ERROR;
    status = without_command(c);
    if (status >= 0) return status;
    if (at >= argc) {
        print(c, help_top);
        return EXIT_ERROR;
    }
    c->command = find_command(c, argc - at, argv + at, &used, &status);
    if (!c->command) return status;
    return run_command(c, argc - at - used + 1, argv + at + used - 1);
}

int main(int argc, char **argv)
{
    Cli c = {.progress_lock = PTHREAD_MUTEX_INITIALIZER};
    jmp_buf nomem;
    signal(SIGXFSZ, SIG_IGN); // a file that may not grow is then an error of its writing
    c.arena.nomem = &nomem;
    if (setjmp(nomem)) {
        fputs("heald: error: out of memory\n", stderr);
        return EXIT_ERROR;
    }
    int status = run(&c, argc, argv);
    progress_clear(&c);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        status = cli_error(&c, "standard output: %s", strerror(errno));
    }
    heald_context_destroy(c.context);
    c.arena.nomem = NULL;
    arena_free(&c.arena);
    return status;
}
