// SPDX-License-Identifier: Apache-2.0
// One line of progress, rewritten in place, and only for somebody who watches a terminal.
#include "base/os.h"
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BAR_WIDTH = 30, LABEL_WIDTH = 32 };

// The time left if the rest goes as fast as what is done; "" while nothing is known.
static void time_left(char *text, size_t size, int64_t elapsed_ns, int64_t done, int64_t total)
{
    text[0] = 0;
    if (done <= 0 || elapsed_ns < 500 * 1000 * 1000) return;
    double left_s = (double)elapsed_ns / 1e9 / (double)done * (double)(total - done);
    if (left_s < 90) snprintf(text, size, "%.0f s left", left_s);
    else snprintf(text, size, "%.0f min left", left_s / 60);
}

void progress_show(Cli *c, int64_t done, int64_t total, const char *label)
{
    if (!isatty(STDERR_FILENO) || cli_has(c, OPT_QUIET) || total <= 0) return;
    if (done == 0 || !c->progress_start_ns) c->progress_start_ns = clock_ns();
    char left[32], bar[BAR_WIDTH + 1];
    time_left(left, sizeof left, clock_ns() - c->progress_start_ns, done, total);
    int full = (int)(done * BAR_WIDTH / total);
    memset(bar, '.', BAR_WIDTH);
    memset(bar, '#', (size_t)(full < BAR_WIDTH ? full : BAR_WIDTH));
    bar[BAR_WIDTH] = 0;
    fprintf(stderr, "\r[%s] %lld/%lld  %-13s %-*.*s", bar, (long long)done, (long long)total, left,
            LABEL_WIDTH, LABEL_WIDTH, label ? label : "");
    c->progress_shown = true;
}

void progress_clear(Cli *c)
{
    if (!c->progress_shown) return;
    fprintf(stderr, "\r\033[K");
    c->progress_shown = false;
}
