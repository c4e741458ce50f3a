// SPDX-License-Identifier: Apache-2.0
// Growable arrays in an arena. VEC(T) is an anonymous struct type; {0} is a valid empty vector.
// Growing copies, and leaves the old storage to the arena.
#ifndef HEALD_BASE_VEC_H
#define HEALD_BASE_VEC_H

#include "base/arena.h"

#define VEC(T)      \
    struct {        \
        T *at;      \
        int n, cap; \
    }

#define VEC_PUSH(arena, v, item)                                                           \
    ((v)->n == (v)->cap                                                                    \
         ? (void)((v)->at = vec_grow(arena, (v)->at, &(v)->cap, (v)->n, sizeof(*(v)->at))) \
         : (void)0,                                                                        \
     (v)->at[(v)->n++] = (item))
#define VEC_POP(v) ((v)->at[--(v)->n])
#define VEC_LAST(v) ((v)->at[(v)->n - 1])

void *vec_grow(Arena *a, void *at, int *cap, int n, size_t item_size);

// Growable text. {0} is empty; `text` is always 0-terminated after the first append, NULL before.
typedef struct Buf {
    Arena *arena;
    char *text;
    size_t size, cap;
} Buf;

void buf_init(Buf *b, Arena *a);
void buf_printf(Buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_vprintf(Buf *b, const char *fmt, va_list ap);
void buf_append(Buf *b, const void *data, size_t size);
void buf_puts(Buf *b, const char *s);
void buf_putc(Buf *b, char c);
const char *buf_text(Buf *b); // "" when empty

#endif
