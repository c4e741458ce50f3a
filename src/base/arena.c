// SPDX-License-Identifier: Apache-2.0
// Arenas as a chain of blocks that double in size. Blocks come zeroed from the system, so only
// memory that was handed out before (and given back by a reset) has to be cleared again.
#include "base/arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 16, FIRST_BLOCK = 4096, LARGEST_BLOCK = 1 << 20 };

struct ArenaBlock {
    ArenaBlock *older;
    size_t size, used; // of the bytes after this header
    size_t fresh;      // bytes from here on were never handed out and are still zero
    _Alignas(ALIGN) unsigned char data[];
};

_Noreturn void arena_out_of_memory(Arena *a)
{
    if (a->nomem) longjmp(*a->nomem, 1);
    abort();
}

static bool within_limit(const Arena *a, size_t more)
{
    return !a->limit_bytes ||
           (a->total_bytes <= a->limit_bytes && more <= a->limit_bytes - a->total_bytes);
}

// A new block with room for `need` bytes: a large one if the limit and the system allow, else one
// that just fits.
static void add_block(Arena *a, size_t need)
{
    size_t size = a->block ? a->block->size * 2 : FIRST_BLOCK;
    if (size > LARGEST_BLOCK) size = LARGEST_BLOCK;
    if (size < need) size = need;
    if (!within_limit(a, sizeof(ArenaBlock) + size)) size = need;
    if (!within_limit(a, sizeof(ArenaBlock) + size)) arena_out_of_memory(a);

    ArenaBlock *block = calloc(1, sizeof(ArenaBlock) + size);
    if (!block && size > need) block = calloc(1, sizeof(ArenaBlock) + (size = need));
    if (!block) arena_out_of_memory(a);
    block->older = a->block;
    block->size = size;
    a->block = block;
    a->total_bytes += sizeof(ArenaBlock) + size;
}

void *arena_alloc(Arena *a, size_t size)
{
    if (size > SIZE_MAX / 2) arena_out_of_memory(a);
    size = size ? (size + ALIGN - 1) / ALIGN * ALIGN : ALIGN;
    if (!a->block || a->block->size - a->block->used < size) add_block(a, size);

    ArenaBlock *block = a->block;
    unsigned char *p = block->data + block->used;
    if (block->used < block->fresh) {
        size_t dirty = block->fresh - block->used;
        memset(p, 0, dirty < size ? dirty : size);
    }
    block->used += size;
    if (block->fresh < block->used) block->fresh = block->used;
    return p;
}

void *arena_alloc_array(Arena *a, size_t size, size_t n)
{
    if (size && n > SIZE_MAX / size) arena_out_of_memory(a);
    return arena_alloc(a, size * n);
}

void *arena_copy(Arena *a, const void *data, size_t size)
{
    void *p = arena_alloc(a, size);
    if (size) memcpy(p, data, size);
    return p;
}

void *arena_take(Arena *a, void *data, size_t size)
{
    jmp_buf *outer = a->nomem, full;
    void *volatile copy = NULL;
    a->nomem = &full;
    if (!setjmp(full)) copy = arena_copy(a, data, size);
    a->nomem = outer;
    free(data);
    if (!copy) arena_out_of_memory(a);
    return copy;
}

char *arena_strdup(Arena *a, const char *s)
{
    return arena_copy(a, s, strlen(s) + 1);
}

char *arena_strndup(Arena *a, const char *s, size_t n)
{
    n = strnlen(s, n);
    char *p = arena_alloc(a, n + 1);
    memcpy(p, s, n);
    return p;
}

char *arena_vprintf(Arena *a, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    if (n < 0) arena_out_of_memory(a);
    char *p = arena_alloc(a, (size_t)n + 1);
    vsnprintf(p, (size_t)n + 1, fmt, ap);
    return p;
}

char *arena_printf(Arena *a, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *p = arena_vprintf(a, fmt, ap);
    va_end(ap);
    return p;
}

ArenaMark arena_mark(const Arena *a)
{
    return (ArenaMark){a->block, a->block ? a->block->used : 0};
}

void arena_reset(Arena *a, ArenaMark mark)
{
    while (a->block != mark.block) {
        ArenaBlock *older = a->block->older;
        a->total_bytes -= sizeof(ArenaBlock) + a->block->size;
        free(a->block);
        a->block = older;
    }
    if (!a->block) return;
#ifndef NDEBUG
    memset(a->block->data + mark.used, 0xA5, a->block->used - mark.used);
#endif
    a->block->used = mark.used;
}

void arena_free(Arena *a)
{
    arena_reset(a, (ArenaMark){0});
}
