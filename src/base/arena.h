// SPDX-License-Identifier: Apache-2.0
// Arenas: memory by lifetime. Everything allocated from an arena is freed with it, never singly.
// Out of memory: an arena with a `nomem` jump target long-jumps there (every API entry point sets
// one and returns HEALD_NO_MEMORY); an arena without one aborts. So no caller of arena_alloc ever
// checks for NULL.
#ifndef HEALD_BASE_ARENA_H
#define HEALD_BASE_ARENA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ArenaBlock ArenaBlock;

typedef struct Arena {
    ArenaBlock *block;  // newest block, linked to older ones
    size_t limit_bytes; // 0: none; past it, allocation counts as out of memory
    size_t total_bytes; // held from the system now
    jmp_buf *nomem;     // where to go when memory runs out
} Arena;                // {0} is a valid empty arena

typedef struct ArenaMark {
    ArenaBlock *block;
    size_t used;
} ArenaMark;

void *arena_alloc(Arena *a, size_t size); // zeroed, 16-byte aligned; size 0 gives a unique pointer
void *arena_copy(Arena *a, const void *data, size_t size);
// A copy of data from malloc, which is freed in any case, also when memory runs out.
void *arena_take(Arena *a, void *data, size_t size);
char *arena_strdup(Arena *a, const char *s);
char *arena_strndup(Arena *a, const char *s, size_t n);
char *arena_printf(Arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
char *arena_vprintf(Arena *a, const char *fmt, va_list ap);
ArenaMark arena_mark(const Arena *a);
void arena_reset(Arena *a, ArenaMark mark);   // frees what came after (debug builds: poisons it)
void arena_free(Arena *a);                    // frees all; the arena is empty and usable again
_Noreturn void arena_out_of_memory(Arena *a); // what arena_alloc does on failure

#define NEW(arena, T) ((T *)arena_alloc(arena, sizeof(T)))
#define NEW_ARRAY(arena, T, n) ((T *)arena_alloc_array(arena, sizeof(T), (size_t)(n)))
void *arena_alloc_array(Arena *a, size_t size, size_t n); // overflow counts as out of memory

#endif
