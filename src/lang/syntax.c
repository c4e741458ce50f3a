// SPDX-License-Identifier: Apache-2.0
// Words and numbers shared by parser and printer. The C library writes and reads a number in the
// host program's locale; what it uses in place of the point is found by printing one.
#include "lang/syntax.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool is_reduction(const char *text, size_t size)
{
    static const char *const words[] = {"sum", "prod", "max", "min", "any", "all"};
    for (size_t i = 0; i < COUNT(words); i++)
        if (strlen(words[i]) == size && !memcmp(words[i], text, size)) return true;
    return false;
}

// "0" point "5" -> point.
static void find_point(char *point, size_t size)
{
    snprintf(point, size, "%.1f", 0.5);
    size_t n = strlen(point);
    memmove(point, point + 1, n - 2);
    point[n - 2] = '\0';
}

bool text_to_double(const char *text, double *v)
{
    char point[16], local[FLOAT_TEXT_MAX + sizeof point];
    find_point(point, sizeof point);
    const char *dot = strchr(text, '.');
    if (dot) snprintf(local, sizeof local, "%.*s%s%s", (int)(dot - text), text, point, dot + 1);
    else snprintf(local, sizeof local, "%s", text);
    *v = strtod(local, NULL);
    return isfinite(*v);
}

void double_to_text(double v, char *out, size_t size)
{
    char point[16], local[64];
    find_point(point, sizeof point);
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(local, sizeof local, "%.*g", digits, v);
        if (strtod(local, NULL) == v) break;
    }
    char *e = strchr(local, 'e'); // e+05 and e-05 become e5 and e-5
    if (e) {
        char *to = e + 1 + (e[1] == '-');
        const char *from = e + 2 + strspn(e + 2, "0");
        memmove(to, from, strlen(from) + 1);
    }
    const char *at = strstr(local, point);
    if (at) snprintf(out, size, "%.*s.%s", (int)(at - local), local, at + strlen(point));
    else snprintf(out, size, "%s%s", local, e ? "" : ".0");
}
