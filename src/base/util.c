// SPDX-License-Identifier: Apache-2.0
// The bug trap, and integer division as the language defines it.
#include "base/util.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

// The one place that writes to stderr by itself: the process is about to abort, and nobody is left
// to hand a message to.
_Noreturn void heald_bug(const char *file, int line, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "%s:%d: heald bug: ", file, line);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    abort();
}

int64_t floor_div_i64(int64_t a, int64_t b)
{
    if (b == -1) return (int64_t)(0 - (uint64_t)a);
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

int64_t floor_mod_i64(int64_t a, int64_t b)
{
    if (b == -1) return 0;
    int64_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
