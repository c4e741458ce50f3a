// SPDX-License-Identifier: Apache-2.0
// The tables of the command line.
#include "cli/cli.h"

#include <string.h>

const Command commands[] = {
#define COMMAND(function, name, subcommand, operands, least, most, summary, details) \
    {function, name, subcommand, operands, least, most, summary, details},
#include "cli/commands.def"
#undef COMMAND
};
const int ncommand = (int)COUNT(commands);

const OptionInfo option_info[OPT_COUNT] = {
#define OPTION(ID, letter, name, argument, fallback, environment, commands, help) \
    {letter, name, argument, fallback, environment, commands, help},
#include "cli/options.def"
#undef OPTION
};

// Whether the list of names separated by spaces holds the name.
static bool lists(const char *list, const char *name, size_t size)
{
    for (const char *s = list; *s;) {
        size_t n = strcspn(s, " ");
        if (n == size && !memcmp(s, name, n)) return true;
        s += n + (s[n] == ' ');
    }
    return false;
}

bool option_is_common(const OptionInfo *o)
{
    return lists(o->commands, "*", 1);
}

bool option_applies(const OptionInfo *o, const Command *command)
{
    if (!command) return lists(o->commands, "top", 3) || option_is_common(o);
    if (option_is_common(o) || lists(o->commands, command->name, strlen(command->name)))
        return true;
    for (const char *s = o->commands; *s;) { // "name.subcommand"
        size_t n = strcspn(s, " "), name = strlen(command->name);
        if (n == name + 1 + strlen(command->subcommand) && s[name] == '.' &&
            !strncmp(s, command->name, name) &&
            !strncmp(s + name + 1, command->subcommand, n - name - 1))
            return true;
        s += n + (s[n] == ' ');
    }
    return false;
}
