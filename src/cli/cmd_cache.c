// SPDX-License-Identifier: Apache-2.0
// heald cache: what is stored, whether it is whole, and away with it.
#include "cli/cli.h"

#include <stdio.h>
#include <time.h>

static heald_status failed_io(heald_context *c, const char *why)
{
    return error_set(&c->error, HEALD_IO, "%s", why);
}

static heald_status list_body(heald_context *c, Arena *a, void *user)
{
    UNUSED(user);
    CacheEntry *entry;
    int n;
    heald_status s = context_cache(c);
    if (s) return s;
    const char *why = cache_list(c->cache, a, &entry, &n);
    if (why) return failed_io(c, why);
    int64_t total = 0;
    for (int i = 0; i < n; i++) {
        char when[32];
        time_t used = (time_t)entry[i].used_unix_s;
        struct tm tm;
        strftime(when, sizeof when, "%Y-%m-%d %H:%M", localtime_r(&used, &tm));
        printf("%-32s %8.1f KiB  %s  %s%s\n", entry[i].op, (double)entry[i].size_bytes / 1024, when,
               entry[i].dir,
               entry[i].damaged  ? "  DAMAGED"
               : entry[i].failed ? "  does not compile"
                                 : "");
        total += entry[i].size_bytes;
    }
    printf("%d entries, %.1f MiB, in %s\n", n, (double)total / (1 << 20), context_cache_dir(c, a));
    return HEALD_OK;
}

static heald_status check_body(heald_context *c, Arena *a, void *user)
{
    UNUSED(user);
    int ndamaged;
    heald_status s = context_cache(c);
    if (s) return s;
    const char *why = cache_check(c->cache, a, &ndamaged);
    if (why) return failed_io(c, why);
    printf("%d damaged entries removed\n", ndamaged);
    return HEALD_OK;
}

static heald_status clear_body(heald_context *c, Arena *a, void *user)
{
    UNUSED(user);
    int64_t freed;
    heald_status s = context_cache(c);
    if (s) return s;
    const char *why = cache_clear(c->cache, a, &freed);
    if (why) return failed_io(c, why);
    printf("%.1f MiB freed\n", (double)freed / (1 << 20));
    return HEALD_OK;
}

static int cache_command(Cli *c, ContextBody *body)
{
    if (!cli_context(c)) return EXIT_ERROR;
    return context_call(c->context, body, c) ? cli_context_error(c) : EXIT_DONE;
}

int cmd_cache_list(Cli *c)
{
    return cache_command(c, list_body);
}

int cmd_cache_check(Cli *c)
{
    return cache_command(c, check_body);
}

int cmd_cache_clear(Cli *c)
{
    return cache_command(c, clear_body);
}
