// SPDX-License-Identifier: Apache-2.0
// The cache on disk. There is no index: an entry is a folder, its age is the time of its task.txt,
// and every change is one rename, so processes need no locks. An entry is trusted only if its key
// and the checksums of its files agree.
#include "codegen/codegen.h"

#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

struct Cache {
    const char *dir, *operators, *trash;
    int64_t limit_bytes;
};

enum { STALE_SECONDS = 24 * 3600 };

Cache *cache_open(Arena *a, const char *dir, int64_t limit_bytes, const char **why)
{
    Cache *c = NEW(a, Cache);
    c->dir = arena_strdup(a, dir);
    c->operators = path_join(a, dir, "operators");
    c->trash = path_join(a, dir, "tmp");
    c->limit_bytes = limit_bytes;
    *why = dir_make(a, c->operators);
    if (!*why) *why = dir_make(a, c->trash);
    return *why ? NULL : c;
}

const char *cache_default_dir(Arena *a)
{
    const char *dir = getenv("HEALD_CACHE_DIR");
    if (dir && *dir) return arena_strdup(a, dir);
    dir = getenv("XDG_CACHE_HOME");
    if (dir && *dir) return path_join(a, dir, "heald");
    dir = getenv("HOME");
    return path_join(a, dir && *dir ? dir : ".", ".cache/heald");
}

// ---- checksums

static const char *hash_hex(Arena *a, const void *data, size_t size)
{
    XXH128_canonical_t c;
    XXH128_canonicalFromHash(&c, XXH3_128bits(data, size));
    char *hex = arena_alloc(a, 2 * sizeof c.digest + 1);
    for (size_t i = 0; i < sizeof c.digest; i++) sprintf(hex + 2 * i, "%02x", c.digest[i]);
    return hex;
}

// "HASH SIZE NAME" for each file of the folder but sums.txt; folders count by their own files.
static const char *add_sums(Arena *a, const char *dir, const char *prefix, Buf *out)
{
    char **names;
    int n;
    const char *failed = dir_list(a, dir, &names, &n);
    for (int i = 0; !failed && i < n; i++) {
        const char *path = path_join(a, dir, names[i]);
        const char *name = arena_printf(a, "%s%s", prefix, names[i]);
        if (!strcmp(name, "sums.txt")) continue;
        if (path_is_dir(path)) {
            failed = add_sums(a, path, arena_printf(a, "%s/", name), out);
            continue;
        }
        FileMap m;
        failed = file_map(a, path, &m);
        if (failed) break;
        buf_printf(out, "%s %zu %s\n", hash_hex(a, m.data, m.size), m.size, name);
        file_unmap(&m);
    }
    return failed;
}

static bool same_text(Arena *a, const char *path, const char *wanted)
{
    char *text;
    size_t size;
    return !file_read(a, path, &text, &size) && size == strlen(wanted) &&
           !memcmp(text, wanted, size);
}

static bool is_whole(Arena *a, const char *dir)
{
    Buf sums;
    buf_init(&sums, a);
    return !add_sums(a, dir, "", &sums) &&
           same_text(a, path_join(a, dir, "sums.txt"), buf_text(&sums));
}

// ---- entries

static void touch(const char *path)
{
    utimensat(AT_FDCWD, path, NULL, 0);
}

// A name in tmp/ that nobody else uses.
static const char *temporary(const Cache *c, Arena *a)
{
    static atomic_uint count;
    unsigned serial = atomic_fetch_add(&count, 1);
    return arena_printf(a, "%s/%ld-%lld-%u", c->trash, (long)getpid(), (long long)clock_ns(),
                        serial);
}

// Others never see half of it.
static const char *discard(const Cache *c, Arena *a, const char *dir)
{
    const char *gone = temporary(c, a);
    if (rename(dir, gone) != 0)
        return errno == ENOENT ? NULL : arena_printf(a, "%s: %s", dir, strerror(errno));
    return dir_remove(a, gone);
}

static const char *safe_name(Arena *a, const char *op)
{
    char *name = arena_strdup(a, *op ? op : "_");
    for (char *s = name; *s; s++) {
        bool plain =
            (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9');
        if (!plain && *s != '_' && *s != '-') *s = '_';
    }
    if (strlen(name) > 100) name[100] = 0;
    return name;
}

static bool is_hit(Arena *a, const char *dir, const char *key)
{
    return same_text(a, path_join(a, dir, "task.txt"), key) && is_whole(a, dir);
}

static const char *fill(Arena *a, const char *dir, const char *key, CacheBuild *build, void *user)
{
    const char *failed = dir_make(a, dir);
    if (!failed) failed = build(user, a, dir);
    if (failed) return failed;
    failed = file_write_atomic(a, path_join(a, dir, "task.txt"), key, strlen(key));
    Buf sums;
    buf_init(&sums, a);
    if (!failed) failed = add_sums(a, dir, "", &sums);
    if (!failed)
        failed = file_write_atomic(a, path_join(a, dir, "sums.txt"), buf_text(&sums), sums.size);
    return failed;
}

// Puts the finished folder in place. Where another process was faster, its entry serves.
static const char *publish(const Cache *c, Arena *a, const char *made, const char *dir,
                           const char *key)
{
    for (int attempt = 0; attempt < 3; attempt++) {
        if (rename(made, dir) == 0) return NULL;
        if (errno != EEXIST && errno != ENOTEMPTY)
            return arena_printf(a, "%s: %s", dir, strerror(errno));
        if (is_hit(a, dir, key)) return dir_remove(a, made);
        const char *failed = discard(c, a, dir);
        if (failed) return failed;
    }
    return arena_printf(a, "%s: cannot be replaced", dir);
}

static const char *evict(Cache *c, Arena *a, const char *keep);

const char *cache_get(Cache *c, Arena *a, const char *op, const char *key, CacheBuild *build,
                      void *user, const char **dir, bool *hit)
{
    const char *parent = path_join(a, c->operators, safe_name(a, op));
    *dir = path_join(a, parent, hash_hex(a, key, strlen(key)));
    *hit = is_hit(a, *dir, key);
    if (*hit) {
        touch(path_join(a, *dir, "task.txt"));
        return NULL;
    }
    const char *made = temporary(c, a);
    const char *failed = dir_make(a, parent);
    if (!failed) failed = fill(a, made, key, build, user);
    if (failed) return failed; // what the build left is kept, so that its message can point to it
    failed = publish(c, a, made, *dir, key);
    return failed ? failed : evict(c, a, *dir);
}

// ---- the whole cache

static int64_t tree_bytes(Arena *a, const char *path)
{
    if (!path_is_dir(path)) return max_i64(file_size_bytes(path), 0);
    char **names;
    int n;
    int64_t sum = 0;
    if (dir_list(a, path, &names, &n)) return 0;
    for (int i = 0; i < n; i++) sum += tree_bytes(a, path_join(a, path, names[i]));
    return sum;
}

static int64_t modified_unix_s(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 ? (int64_t)s.st_mtime : 0;
}

static bool is_damaged(Arena *a, const CacheEntry *entry)
{
    char *key;
    size_t size;
    return file_read(a, path_join(a, entry->dir, "task.txt"), &key, &size) ||
           strcmp(hash_hex(a, key, size), entry->hash) || !is_whole(a, entry->dir);
}

static const char *list(Cache *c, Arena *a, bool check, CacheEntry **entries, int *n)
{
    VEC(CacheEntry) all = {0};
    char **ops, **hashes;
    int nop, nhash;
    const char *failed = dir_list(a, c->operators, &ops, &nop);
    for (int i = 0; !failed && i < nop; i++) {
        const char *parent = path_join(a, c->operators, ops[i]);
        if (dir_list(a, parent, &hashes, &nhash)) continue; // removed meanwhile
        for (int k = 0; k < nhash; k++) {
            CacheEntry entry = {
                .op = ops[i], .hash = hashes[k], .dir = path_join(a, parent, hashes[k])};
            entry.size_bytes = tree_bytes(a, entry.dir);
            entry.used_unix_s = modified_unix_s(path_join(a, entry.dir, "task.txt"));
            entry.damaged = check && is_damaged(a, &entry);
            VEC_PUSH(a, &all, entry);
        }
    }
    *entries = all.at;
    *n = all.n;
    return failed;
}

const char *cache_list(Cache *c, Arena *a, CacheEntry **entries, int *n)
{
    return list(c, a, true, entries, n);
}

static int older_first(const void *x, const void *y)
{
    const CacheEntry *a = x, *b = y;
    if (a->used_unix_s != b->used_unix_s) return a->used_unix_s < b->used_unix_s ? -1 : 1;
    return strcmp(a->hash, b->hash);
}

// Least recently used first, until the rest fits; `keep` stays in any case.
static const char *evict(Cache *c, Arena *a, const char *keep)
{
    CacheEntry *entry;
    int n;
    int64_t total = 0;
    if (c->limit_bytes <= 0) return NULL;
    const char *failed = list(c, a, false, &entry, &n);
    if (failed || n == 0) return failed;
    for (int i = 0; i < n; i++) total += entry[i].size_bytes;
    qsort(entry, (size_t)n, sizeof *entry, older_first);
    for (int i = 0; !failed && i < n && total > c->limit_bytes; i++) {
        if (!strcmp(entry[i].dir, keep)) continue;
        failed = discard(c, a, entry[i].dir);
        total -= entry[i].size_bytes;
    }
    return failed;
}

static void remove_stale(Cache *c, Arena *a)
{
    char **names;
    int n;
    if (dir_list(a, c->trash, &names, &n)) return;
    for (int i = 0; i < n; i++) {
        const char *path = path_join(a, c->trash, names[i]);
        if (modified_unix_s(path) + STALE_SECONDS < (int64_t)time(NULL)) dir_remove(a, path);
    }
}

const char *cache_check(Cache *c, Arena *a, int *ndamaged)
{
    CacheEntry *entry;
    int n;
    *ndamaged = 0;
    const char *failed = list(c, a, true, &entry, &n);
    for (int i = 0; !failed && i < n; i++) {
        if (!entry[i].damaged) continue;
        failed = discard(c, a, entry[i].dir);
        ++*ndamaged;
    }
    remove_stale(c, a);
    return failed;
}

const char *cache_clear(Cache *c, Arena *a, int64_t *freed_bytes)
{
    *freed_bytes = tree_bytes(a, c->operators) + tree_bytes(a, c->trash);
    const char *failed = discard(c, a, c->operators);
    if (!failed) failed = dir_remove(a, c->trash);
    if (!failed) failed = dir_make(a, c->operators);
    return failed ? failed : dir_make(a, c->trash);
}
