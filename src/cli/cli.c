// SPDX-License-Identifier: Apache-2.0
// How commands speak to the user, and the values of their options.
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool cli_color(int file)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    return isatty(file) && !(no && *no) && !(term && !strcmp(term, "dumb"));
}

static char *printable(Arena *a, const char *text, const char *allowed)
{
    char *out = arena_strdup(a, text);
    for (char *s = out; *s; s++)
        if (((unsigned char)*s < ' ' && !strchr(allowed, *s)) || *s == 0x7f) *s = '?';
    return out;
}

const char *cli_printable(Cli *c, const char *text)
{
    return printable(&c->arena, text, "");
}

static void say(Cli *c, const char *kind, const char *color, const char *fmt, va_list ap)
{
    progress_clear(c);
    fflush(stdout);
    bool colored = cli_color(STDERR_FILENO);
    Buf b;
    buf_init(&b, &c->arena);
    buf_vprintf(&b, fmt, ap);
    fprintf(stderr, "heald: %s%s:%s %s\n", colored ? color : "", kind, colored ? "\033[0m" : "",
            printable(&c->arena, buf_text(&b), "\n\t"));
}

void cli_print_element(DType type, const void *p)
{
    if (type == DT_U64) printf(" %llu", (unsigned long long)dtype_load_i64(type, p));
    else if (dtype_is_int(type)) printf(" %lld", (long long)dtype_load_i64(type, p));
    else printf(" %.6g", dtype_load_f64(type, p));
}

int cli_error(Cli *c, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(c, "error", "\033[1;31m", fmt, ap);
    va_end(ap);
    return EXIT_ERROR;
}

void cli_warning(Cli *c, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(c, "warning", "\033[1;35m", fmt, ap);
    va_end(ap);
}

void cli_verbose(Cli *c, const char *fmt, ...)
{
    if (!cli_has(c, OPT_VERBOSE) || cli_has(c, OPT_QUIET)) return;
    progress_clear(c);
    va_list ap;
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
}

// Whether the text is rendered diagnostics, "FILE:3:1: error: ...".
static bool is_rendered(const char *text)
{
    const char *mark = strstr(text, ": error: "), *line = strchr(text, '\n');
    return mark && (!line || mark < line);
}

int cli_context_error(Cli *c)
{
    const char *text = heald_last_error(c->context);
    if (!is_rendered(text)) {
        const char *plain = !strncmp(text, "error: ", 7) ? text + 7 : text;
        return cli_error(c, "%s", plain);
    }
    progress_clear(c);
    fflush(stdout);
    fprintf(stderr, "%s\n", printable(&c->arena, text, "\n\t"));
    return EXIT_ERROR;
}

int cli_diagnostics(Cli *c, const Diag *d)
{
    Buf b;
    buf_init(&b, &c->arena);
    diag_render(d, &b);
    progress_clear(c);
    fflush(stdout);
    fputs(buf_text(&b), stderr);
    return EXIT_ERROR;
}

// Kernels are compiled by several threads.
static void show_progress(void *user, int64_t done, int64_t total, const char *what)
{
    Cli *c = user;
    pthread_mutex_lock(&c->progress_lock);
    progress_show(c, done, total, what);
    pthread_mutex_unlock(&c->progress_lock);
}

heald_status cli_open(Cli *c)
{
    int64_t threads, space, device;
    if (!cli_int(c, OPT_THREADS, 0, 4096, &threads) || !cli_int(c, OPT_DEVICE, 0, 1023, &device) ||
        !cli_int(c, OPT_SEARCH_SPACE, 0, 2, &space)) {
        return HEALD_INVALID_ARGUMENT;
    }
    heald_context_options o =
        HEALD_CONTEXT_OPTIONS(.target = cli_text(c, OPT_TARGET), .threads = (int)threads,
                              .search_space = (int)space, .cache_dir = cli_text(c, OPT_CACHE_DIR),
                              .debug = cli_has(c, OPT_DEBUG), .library_path = cli_text(c, OPT_PATH),
                              .progress = show_progress, .user = c,
                              .precision = cli_text(c, OPT_PRECISION), .device = (int)device);
    return heald_context_create(HEALD_VERSION, &o, &c->context);
}

heald_context *cli_context(Cli *c)
{
    heald_status s = c->context ? HEALD_OK : cli_open(c);
    if (s == HEALD_OK) return c->context;
    if (c->context) cli_context_error(c);
    else if (s == HEALD_NO_MEMORY) cli_error(c, "out of memory");
    return NULL;
}

bool cli_has(const Cli *c, OptionId id)
{
    return c->options.text[id] != NULL;
}

const char *cli_text(const Cli *c, OptionId id)
{
    return c->options.text[id];
}

bool cli_int(Cli *c, OptionId id, int64_t lo, int64_t hi, int64_t *out)
{
    const char *text = cli_text(c, id);
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    if (!errno && end != text && !*end && *out >= lo && *out <= hi) return true;
    cli_error(c, "--%s %s: a number from %lld to %lld is needed", option_info[id].name, text,
              (long long)lo, (long long)hi);
    return false;
}

bool cli_double(Cli *c, OptionId id, double *out)
{
    const char *text = cli_text(c, id);
    char *end;
    *out = strtod(text, &end);
    if (end != text && !*end && *out >= 0) return true;
    cli_error(c, "--%s %s: a number is needed", option_info[id].name, text);
    return false;
}

bool cli_pair(Cli *c, OptionId id, const char *text, const char **name, const char **value)
{
    const char *equals = strchr(text, '=');
    if (!equals || equals == text) {
        cli_error(c, "--%s %s: %s is needed", option_info[id].name, text, option_info[id].argument);
        return false;
    }
    *name = arena_strndup(&c->arena, text, (size_t)(equals - text));
    *value = equals + 1;
    return true;
}
