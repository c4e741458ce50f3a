// SPDX-License-Identifier: Apache-2.0
// The command line: commands.def and options.def as data, and what the user gave.
#ifndef HEALD_CLI_OPTIONS_H
#define HEALD_CLI_OPTIONS_H

#include "base/vec.h"

struct Cli;

typedef struct Command {
    int (*function)(struct Cli *c); // gives the exit status
    const char *name, *subcommand;  // subcommand: "" where there is none
    const char *operands;
    int least, most; // operands
    const char *summary, *details;
} Command;
extern const Command commands[];
extern const int ncommand;

typedef enum OptionId {
#define OPTION(ID, letter, name, argument, fallback, environment, commands, help) OPT_##ID,
#include "cli/options.def"
#undef OPTION
    OPT_COUNT
} OptionId;

typedef struct OptionInfo {
    int letter; // 0: none
    const char *name, *argument, *fallback, *environment, *commands, *help;
} OptionInfo;
extern const OptionInfo option_info[OPT_COUNT];

// Whether a command takes the option; NULL: the command line before a command.
bool option_applies(const OptionInfo *o, const Command *command);
bool option_is_common(const OptionInfo *o); // to all commands

typedef enum OptionFrom { FROM_NOWHERE, FROM_DEFAULT, FROM_ENVIRONMENT, FROM_FLAG } OptionFrom;

typedef struct Options {
    const char *text[OPT_COUNT]; // the last one given; "" for an option without argument
    OptionFrom from[OPT_COUNT];
    VEC(const char *) all[OPT_COUNT]; // as given on the command line, in order
} Options;

// Texts made from the tables, appended to out.
void help_top(Buf *out);
void help_command(const Command *c, Buf *out);
void help_command_name(const Command *c, Buf *out); // "kernel check"
void help_group(const char *name, Buf *out);        // of the commands that share a name
void help_manual(Buf *out);                         // roff
void help_completion_bash(Buf *out);

#endif
