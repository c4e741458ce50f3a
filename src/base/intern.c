// SPDX-License-Identifier: Apache-2.0
// Hash tables with open addressing and linear probing, at most half full, over arrays kept in
// insertion order. A slot holds index + 1; 0 is empty. Nothing is ever removed.
#include "base/intern.h"

#include "base/vec.h"

#include <limits.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t hash_bytes(const void *data, size_t size, uint64_t seed)
{
    return XXH3_64bits_withSeed(data, size, seed);
}

typedef struct Name {
    Sym text;
    size_t size;
    uint64_t hash;
} Name;

struct Interner {
    Arena *arena;
    VEC(Name) names;
    int *slot;
    int nslot; // a power of two
};

// Slots for twice the present number: an empty table, to be filled again by the caller.
static int *more_slots(Arena *a, int *nslot)
{
    if (*nslot > INT_MAX / 2) arena_out_of_memory(a);
    int n = *nslot ? *nslot * 2 : 16;
    int *slot = NEW_ARRAY(a, int, n);
    *nslot = n;
    return slot;
}

static int first_free(const int *slot, int nslot, uint64_t hash)
{
    int i = (int)(hash & (uint64_t)(nslot - 1));
    while (slot[i]) i = (i + 1) & (nslot - 1);
    return i;
}

Interner *interner_new(Arena *a)
{
    Interner *t = NEW(a, Interner);
    t->arena = a;
    t->slot = more_slots(a, &t->nslot);
    return t;
}

static Sym add_name(Interner *t, const char *s, size_t n, uint64_t hash)
{
    if (t->names.n >= t->nslot / 2) {
        int nslot = t->nslot;
        int *slot = more_slots(t->arena, &nslot);
        for (int i = 0; i < t->names.n; i++)
            slot[first_free(slot, nslot, t->names.at[i].hash)] = i + 1;
        t->slot = slot;
        t->nslot = nslot;
    }
    char *text = arena_alloc(t->arena, n + 1);
    if (n) memcpy(text, s, n);
    VEC_PUSH(t->arena, &t->names, ((Name){text, n, hash}));
    t->slot[first_free(t->slot, t->nslot, hash)] = t->names.n;
    return text;
}

Sym intern_n(Interner *t, const char *s, size_t n)
{
    uint64_t hash = hash_bytes(s, n, 0);
    for (int i = (int)(hash & (uint64_t)(t->nslot - 1)); t->slot[i]; i = (i + 1) & (t->nslot - 1)) {
        const Name *name = &t->names.at[t->slot[i] - 1];
        if (name->hash == hash && name->size == n && (!n || !memcmp(name->text, s, n)))
            return name->text;
    }
    return add_name(t, s, n, hash);
}

Sym intern(Interner *t, const char *s)
{
    return intern_n(t, s, strlen(s));
}

// Low bits of a pointer hardly vary; multiplying by 2^64 / phi spreads them upwards (Knuth,
// TAOCP 6.4).
static uint64_t hash_pointer(const void *p)
{
    uint64_t h = (uint64_t)(uintptr_t)p * 0x9E3779B97F4A7C15u;
    return h ^ h >> 32;
}

static struct MapEntry *find(const Map *m, const void *key)
{
    if (!m->nslot) return NULL;
    int i = (int)(hash_pointer(key) & (uint64_t)(m->nslot - 1));
    for (; m->slot[i]; i = (i + 1) & (m->nslot - 1)) {
        if (m->entry[m->slot[i] - 1].key == key) return &m->entry[m->slot[i] - 1];
    }
    return NULL;
}

void *map_get(const Map *m, const void *key)
{
    struct MapEntry *e = find(m, key);
    return e ? e->value : NULL;
}

bool map_has(const Map *m, const void *key)
{
    return find(m, key) != NULL;
}

void map_put(Arena *a, Map *m, const void *key, void *value)
{
    struct MapEntry *e = find(m, key);
    if (e) {
        e->value = value;
        return;
    }
    if (m->n >= m->nslot / 2) {
        int nslot = m->nslot;
        int *slot = more_slots(a, &nslot);
        for (int i = 0; i < m->n; i++)
            slot[first_free(slot, nslot, hash_pointer(m->entry[i].key))] = i + 1;
        m->slot = slot;
        m->nslot = nslot;
    }
    if (m->n == m->cap) m->entry = vec_grow(a, m->entry, &m->cap, m->n, sizeof *m->entry);
    m->entry[m->n++] = (struct MapEntry){key, value};
    m->slot[first_free(m->slot, m->nslot, hash_pointer(key))] = m->n;
}
