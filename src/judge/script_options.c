// SPDX-License-Identifier: Apache-2.0
// Extents, open dimensions and types from text.
#include "judge/script.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool parse_extent(const char *text, size_t size, int64_t *out)
{
    char digits[24], *end;
    if (size == 0 || size >= sizeof digits) return false;
    memcpy(digits, text, size);
    digits[size] = 0;
    errno = 0;
    *out = strtoll(digits, &end, 10);
    return !errno && !*end && *out >= 0 && *out < (int64_t)1 << SCRIPT_EXTENT_LOG2;
}

// "17", "3x4" or "".
static bool parse_extents(Arena *a, const char *text, size_t size, Value *out)
{
    Value at[SCRIPT_MAX_RANK];
    int n = 0;
    bool pack = size == 0;
    while (size) {
        const char *x = memchr(text, 'x', size);
        size_t word = x ? (size_t)(x - text) : size;
        int64_t extent;
        if (n == SCRIPT_MAX_RANK || !parse_extent(text, word, &extent)) return false;
        at[n++] = value_int(extent);
        pack = pack || x;
        text += word;
        size -= word;
        if (!size) break;
        text++;
        if (!--size) break; // "3x" is a pack of one
    }
    *out = pack ? value_tuple(a, n, at) : at[0];
    return true;
}

const char *script_parse_shape(ScriptOptions *o, Arena *a, Interner *names, const char *text)
{
    for (const char *s = text; *s;) {
        size_t n = strcspn(s, ",");
        const char *equals = memchr(s, '=', n);
        Value *v = NEW(a, Value);
        if (!equals || equals == s ||
            !parse_extents(a, equals + 1, n - (size_t)(equals + 1 - s), v)) {
            return arena_printf(a,
                                "'%.*s' is not of the form NAME=EXTENT or NAME=EXTENTxEXTENT, "
                                "with extents below 2^%d",
                                (int)n, s, SCRIPT_EXTENT_LOG2);
        }
        map_put(a, &o->shape, intern_n(names, s, (size_t)(equals - s)), v);
        s += n + (s[n] == ',');
    }
    return NULL;
}

const char *script_parse_open(ScriptOptions *o, Arena *a, Interner *names, const char *text)
{
    for (const char *s = text; *s;) {
        size_t n = strcspn(s, ",");
        if (n == 0) return arena_printf(a, "'%s' is not a list of names", text);
        map_put(a, &o->open, intern_n(names, s, n), o);
        s += n + (s[n] == ',');
    }
    return NULL;
}

const char *script_parse_types(ScriptOptions *o, Arena *a, Interner *names, const char *text)
{
    for (const char *s = text; *s;) {
        size_t n = strcspn(s, ",");
        const char *equals = memchr(s, '=', n);
        if (!equals || equals == s)
            return arena_printf(a, "'%.*s' is not of the form NAME=TYPE", (int)n, s);
        const char *type = arena_strndup(a, equals + 1, n - (size_t)(equals + 1 - s));
        Value *v = NEW(a, Value);
        *v = value_dtype(dtype_from_name(type));
        if (v->u.dtype.type == DT_NONE) return arena_printf(a, "'%s' is not a type", type);
        map_put(a, &o->types, intern_n(names, s, (size_t)(equals - s)), v);
        s += n + (s[n] == ',');
    }
    return NULL;
}
