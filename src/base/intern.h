// SPDX-License-Identifier: Apache-2.0
// Interned strings: equal text, equal pointer. A Sym lives as long as its table.
#ifndef HEALD_BASE_INTERN_H
#define HEALD_BASE_INTERN_H

#include "base/arena.h"

typedef const char *Sym; // 0-terminated; compare by pointer within one table; NULL is "no name"

typedef struct Interner Interner;
Interner *interner_new(Arena *a);
Sym intern(Interner *t, const char *s);
Sym intern_n(Interner *t, const char *s, size_t n);

// A map from pointers or interned strings to pointers, insertion ordered. {0} is a valid empty map.
typedef struct Map {
    struct MapEntry {
        const void *key;
        void *value;
    } * entry; // entry[0..n): in insertion order
    int n, cap;
    int *slot;
    int nslot;
} Map;

void *map_get(const Map *m, const void *key); // NULL when absent
bool map_has(const Map *m, const void *key);
void map_put(Arena *a, Map *m, const void *key, void *value); // replaces

uint64_t hash_bytes(const void *data, size_t size, uint64_t seed); // XXH3

#endif
