// SPDX-License-Identifier: Apache-2.0
// --help, the manual page and shell completion, all from the two tables.
#include "cli/cli.h"

#include <string.h>

enum { HELP_COLUMN = 28, HELP_WIDTH = 100 };

// Words of text from `column` on, lines broken and indented to it. The cursor is at `at`.
static void wrap(Buf *out, const char *text, int at, int column)
{
    for (const char *s = text; *s;) {
        int n = (int)strcspn(s, " ");
        if (at > column && at + 1 + n > HELP_WIDTH) {
            buf_printf(out, "\n%*s", column, "");
            at = column;
        } else if (at > column) {
            buf_putc(out, ' ');
            at++;
        }
        buf_append(out, s, (size_t)n);
        at += n;
        s += n + (s[n] == ' ');
    }
    buf_putc(out, '\n');
}

// left in two columns with right.
static void row(Buf *out, const char *left, const char *right)
{
    int n = (int)strlen(left);
    buf_printf(out, "%s%*s", left, n < HELP_COLUMN - 1 ? HELP_COLUMN - n : 0, "");
    if (n >= HELP_COLUMN - 1) buf_printf(out, "\n%*s", HELP_COLUMN, "");
    wrap(out, right, HELP_COLUMN, HELP_COLUMN);
}

// "-i, --input NAME=FILE" and what the default is.
static void option_row(Buf *out, const OptionInfo *o)
{
    Buf left, right;
    buf_init(&left, out->arena);
    buf_init(&right, out->arena);
    if (o->letter) buf_printf(&left, "  -%c, --%s", o->letter, o->name);
    else buf_printf(&left, "      --%s", o->name);
    if (o->argument) buf_printf(&left, " %s", o->argument);
    buf_puts(&right, o->help);
    if (o->fallback) buf_printf(&right, " [%s]", o->fallback);
    if (o->environment) buf_printf(&right, " (or the environment's %s)", o->environment);
    row(out, buf_text(&left), buf_text(&right));
}

static void option_rows(Buf *out, const Command *c, bool common, const char *heading)
{
    bool any = false;
    for (int i = 0; i < OPT_COUNT; i++) {
        const OptionInfo *o = &option_info[i];
        if (!option_applies(o, c) || option_is_common(o) != common) continue;
        if (!any) buf_printf(out, "\n%s:\n", heading);
        any = true;
        option_row(out, o);
    }
}

void help_command_name(const Command *c, Buf *out)
{
    buf_printf(out, "%s%s%s", c->name, *c->subcommand ? " " : "", c->subcommand);
}

static void command_rows(Buf *out, const char *only)
{
    for (int i = 0; i < ncommand; i++) {
        const Command *c = &commands[i];
        if (only && strcmp(only, c->name)) continue;
        Buf left;
        buf_init(&left, out->arena);
        buf_puts(&left, "  ");
        help_command_name(c, &left);
        if (*c->operands) buf_printf(&left, " %s", c->operands);
        row(out, buf_text(&left), c->summary);
    }
}

static const char exit_status[] =
    "\nThe exit status is 0 when done, 1 when a check failed, 2 after an error.\n";

void help_top(Buf *out)
{
    buf_puts(out, "Usage: heald COMMAND [OPTION]...\n\n"
                  "A deep-learning compiler: runs ONNX models and kernels written in its own "
                  "language.\n\nCommands:\n");
    command_rows(out, NULL);
    buf_puts(out, "\n'heald COMMAND --help' tells more.\n");
    option_rows(out, NULL, false, "Options");
    option_rows(out, NULL, true, "Options of every command");
    buf_puts(out, exit_status);
}

void help_group(const char *name, Buf *out)
{
    buf_printf(out, "Usage: heald %s COMMAND [OPTION]...\n\nCommands:\n", name);
    command_rows(out, name);
    buf_printf(out, "\n'heald %s COMMAND --help' tells more.\n", name);
}

void help_command(const Command *c, Buf *out)
{
    buf_puts(out, "Usage: heald ");
    help_command_name(c, out);
    buf_printf(out, "%s%s [OPTION]...\n\n", *c->operands ? " " : "", c->operands);
    char *first = arena_strdup(out->arena, c->summary);
    if (first[0] >= 'a' && first[0] <= 'z') first[0] = (char)(first[0] - 'a' + 'A');
    wrap(out, arena_printf(out->arena, "%s.", first), 0, 0);
    if (*c->details) {
        buf_putc(out, '\n');
        wrap(out, c->details, 0, 0);
    }
    option_rows(out, c, false, "Options");
    option_rows(out, c, true, "Options of every command");
    buf_puts(out, exit_status);
}

// ---- the manual page

// Text for roff: backslashes, hyphens, and dots that would start a request.
static void roff(Buf *out, const char *text)
{
    if (*text == '.' || *text == '\'') buf_puts(out, "\\&");
    for (const char *s = text; *s; s++) {
        if (*s == '\\') buf_puts(out, "\\e");
        else if (*s == '-') buf_puts(out, "\\-");
        else buf_putc(out, *s);
    }
}

static void roff_options(Buf *out, const Command *c, bool common)
{
    for (int i = 0; i < OPT_COUNT; i++) {
        const OptionInfo *o = &option_info[i];
        if (!option_applies(o, c) || option_is_common(o) != common) continue;
        buf_puts(out, ".TP\n\\fB");
        if (o->letter) buf_printf(out, "\\-%c\\fR, \\fB", o->letter);
        roff(out, arena_printf(out->arena, "--%s", o->name));
        buf_puts(out, "\\fR");
        if (o->argument) {
            buf_puts(out, " \\fI");
            roff(out, o->argument);
            buf_puts(out, "\\fR");
        }
        buf_putc(out, '\n');
        roff(out, o->help);
        if (o->fallback) buf_printf(out, " (default %s)", o->fallback);
        buf_puts(out, ".\n");
    }
}

static void roff_command(Buf *out, const Command *c)
{
    buf_puts(out, ".SS heald ");
    help_command_name(c, out);
    buf_printf(out, " %s\n", c->operands);
    roff(out, c->summary);
    buf_puts(out, ".\n");
    if (*c->details) {
        roff(out, c->details);
        buf_putc(out, '\n');
    }
    roff_options(out, c, false);
}

static void roff_environment(Buf *out)
{
    for (int i = 0; i < OPT_COUNT; i++) {
        const OptionInfo *o = &option_info[i];
        if (!o->environment) continue;
        buf_printf(out, ".TP\n.B %s\nas ", o->environment);
        roff(out, arena_printf(out->arena, "--%s.\n", o->name));
    }
    buf_puts(out, ".TP\n.B HEALD_CC\nthe C compiler for generated code; otherwise CC, gcc, clang "
                  "or cc.\n.TP\n.B NO_COLOR\nif it is set and not empty, nothing is coloured.\n");
}

void help_manual(Buf *out)
{
    buf_printf(out,
               ".TH HEALD 1 \"\" \"heald %d.%d.%d\" \"User Commands\"\n.SH NAME\n"
               "heald \\- a deep\\-learning compiler\n.SH SYNOPSIS\n.B heald\n"
               ".I COMMAND\n[\\fIOPTION\\fR]...\n.SH DESCRIPTION\n"
               "Runs ONNX models and kernels written in its own language, for which it generates, "
               "compiles and caches code for the machine at hand.\n.SH COMMANDS\n",
               HEALD_VERSION_MAJOR, HEALD_VERSION_MINOR, HEALD_VERSION_PATCH);
    for (int i = 0; i < ncommand; i++) roff_command(out, &commands[i]);
    buf_puts(out, ".SH OPTIONS OF EVERY COMMAND\n");
    roff_options(out, NULL, true);
    buf_puts(out, ".SH OPTIONS WITHOUT A COMMAND\n");
    roff_options(out, NULL, false);
    buf_puts(out, ".SH EXIT STATUS\n0 when done, 1 when a check failed, 2 after an error.\n"
                  ".SH ENVIRONMENT\n");
    roff_environment(out);
}

// ---- completion

// The words that follow each command, as arms of a `case`.
void help_completion_bash(Buf *out)
{
    buf_puts(out, "# bash completion for heald: source <(heald --completion bash)\n"
                  "_heald()\n{\n    local cur=${COMP_WORDS[COMP_CWORD]} words=\n"
                  "    case \"${COMP_WORDS[1]} ${COMP_WORDS[2]}\" in\n");
    for (int i = 0; i < ncommand; i++) {
        const Command *c = &commands[i];
        buf_printf(out, "        \"%s %s\"*) words=\"", c->name, c->subcommand);
        for (int k = 0; k < OPT_COUNT; k++)
            if (option_applies(&option_info[k], c)) buf_printf(out, "--%s ", option_info[k].name);
        buf_puts(out, "\" ;;\n");
    }
    buf_puts(out, "    esac\n    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        words=\"");
    for (int i = 0; i < ncommand; i++)
        if (i == 0 || strcmp(commands[i - 1].name, commands[i].name))
            buf_printf(out, "%s ", commands[i].name);
    for (int k = 0; k < OPT_COUNT; k++)
        if (option_applies(&option_info[k], NULL)) buf_printf(out, "--%s ", option_info[k].name);
    buf_puts(out, "\"\n    elif [ \"$COMP_CWORD\" -eq 2 ]; then\n"
                  "        case \"${COMP_WORDS[1]}\" in\n");
    for (int i = 0; i < ncommand; i++) {
        bool first = i == 0 || strcmp(commands[i - 1].name, commands[i].name);
        if (!*commands[i].subcommand) continue;
        if (first) buf_printf(out, "            %s) words=\"", commands[i].name);
        buf_printf(out, "%s ", commands[i].subcommand);
        if (i + 1 == ncommand || strcmp(commands[i + 1].name, commands[i].name))
            buf_puts(out, "\" ;;\n");
    }
    buf_puts(out, "        esac\n    fi\n"
                  "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
                  "}\ncomplete -o default -F _heald heald\n");
}
