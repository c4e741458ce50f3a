// SPDX-License-Identifier: Apache-2.0
// Growth of vectors and text buffers: capacity doubles, so pushing n items copies fewer than n.
#include "base/vec.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

void *vec_grow(Arena *a, void *at, int *cap, int n, size_t item_size)
{
    if (*cap == INT_MAX) arena_out_of_memory(a);
    int more = *cap > INT_MAX / 2 ? INT_MAX : *cap ? *cap * 2 : 8;
    void *grown = arena_alloc_array(a, item_size, (size_t)more);
    if (n) memcpy(grown, at, (size_t)n * item_size);
    *cap = more;
    return grown;
}

void buf_init(Buf *b, Arena *a)
{
    *b = (Buf){.arena = a};
}

// Room for `more` bytes and the closing 0.
static void reserve(Buf *b, size_t more)
{
    if (b->size < b->cap && more < b->cap - b->size) return;
    if (more > SIZE_MAX / 4 || b->size > SIZE_MAX / 4) arena_out_of_memory(b->arena);
    size_t cap = b->cap ? b->cap * 2 : 64;
    if (cap <= b->size + more) cap = b->size + more + 1;
    char *grown = arena_alloc(b->arena, cap);
    if (b->size) memcpy(grown, b->text, b->size);
    b->text = grown;
    b->cap = cap;
}

void buf_vprintf(Buf *b, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    size_t room = b->cap - b->size;
    int n = vsnprintf(room ? b->text + b->size : NULL, room, fmt, again);
    va_end(again);
    if (n < 0) arena_out_of_memory(b->arena);
    if ((size_t)n >= room) {
        reserve(b, (size_t)n);
        vsnprintf(b->text + b->size, (size_t)n + 1, fmt, ap);
    }
    b->size += (size_t)n;
}

void buf_printf(Buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(b, fmt, ap);
    va_end(ap);
}

void buf_append(Buf *b, const void *data, size_t size)
{
    reserve(b, size);
    if (size) memcpy(b->text + b->size, data, size);
    b->size += size;
    b->text[b->size] = 0;
}

void buf_puts(Buf *b, const char *s)
{
    buf_append(b, s, strlen(s));
}

void buf_putc(Buf *b, char c)
{
    buf_append(b, &c, 1);
}

const char *buf_text(Buf *b)
{
    return b->text ? b->text : "";
}
