// SPDX-License-Identifier: Apache-2.0
// What the commands share: the options, the context, and how they speak to the user. Results go to
// stdout, everything else to stderr.
#ifndef HEALD_CLI_CLI_H
#define HEALD_CLI_CLI_H

#include "api/context.h"
#include "cli/options.h"

#include <pthread.h>

enum { EXIT_DONE = 0, EXIT_CHECK_FAILED = 1, EXIT_ERROR = 2 };

typedef struct Cli {
    Arena arena; // lives as long as the command
    const Command *command;
    Options options;
    char **operand;
    int noperand;
    heald_context *context; // made by cli_context
    bool progress_shown;    // a line of progress is on the terminal
    int64_t progress_start_ns;
    pthread_mutex_t progress_lock;
} Cli;

// The text with '?' for control characters: names in models may hold any, and terminals obey them.
const char *cli_printable(Cli *c, const char *text);

// A space and the element at p, integers with all digits.
void cli_print_element(DType type, const void *p);

// "heald: error: ..." and always EXIT_ERROR.
int cli_error(Cli *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void cli_warning(Cli *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
// More about what is done, for --verbose.
void cli_verbose(Cli *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
// What went wrong in a call that took the context: diagnostics as they are, otherwise the message.
int cli_context_error(Cli *c);
// Diagnostics of a room.
int cli_diagnostics(Cli *c, const Diag *d);

// The context for the options given; NULL with the error printed.
heald_context *cli_context(Cli *c);
// The same in silence: without success c->context is one to ask for the error; NULL: no memory, or
// an option was no number, which is printed.
heald_status cli_open(Cli *c);

bool cli_has(const Cli *c, OptionId id);
const char *cli_text(const Cli *c, OptionId id); // NULL: not given
// The number of an option with a value; false with the error printed.
bool cli_int(Cli *c, OptionId id, int64_t lo, int64_t hi, int64_t *out);
bool cli_double(Cli *c, OptionId id, double *out);
// Splits "name=value" in two; false with the error printed.
bool cli_pair(Cli *c, OptionId id, const char *text, const char **name, const char **value);

bool cli_color(int file); // whether to colour what goes to this file (1 or 2)

// A line of progress with the time left, only on a terminal. label may be NULL.
void progress_show(Cli *c, int64_t done, int64_t total, const char *label);
void progress_clear(Cli *c);

#define COMMAND(function, name, subcommand, operands, least, most, summary, details) \
    int function(Cli *c);
#include "cli/commands.def"
#undef COMMAND

#endif
