// SPDX-License-Identifier: Apache-2.0
// The cache on disk. There is no index: an entry is a folder, its age is the time of its task.txt,
// and every change is one rename, so processes need no locks to share it. An entry is trusted only
// if its key and the checksums of its files agree. Work goes on in folders of tmp/, each with a
// file that its process holds a lock on: what has none is nobody's. Nothing waits for the disk:
// what a power cut leaves does not have the checksums.
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

// STALE: what is kept for a look goes after a day. SETTLE: what cannot be told from a folder that
// is just being made or put in place, after a minute.
enum { STALE_SECONDS = 24 * 3600, SETTLE_SECONDS = 60 };

static void remove_left(Cache *c, Arena *a, bool kept_too);

Cache *cache_open(Arena *a, const char *dir, int64_t limit_bytes, const char **why)
{
    Cache *c = NEW(a, Cache);
    c->dir = arena_strdup(a, dir);
    c->operators = path_join(a, dir, "operators");
    c->trash = path_join(a, dir, "tmp");
    c->limit_bytes = limit_bytes;
    *why = dir_make(a, c->operators);
    if (!*why) *why = dir_make(a, c->trash);
    if (*why) return NULL;
    remove_left(c, a, false);
    return c;
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

static int64_t modified_unix_s(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 ? (int64_t)s.st_mtime : 0;
}

// A name in tmp/ that nobody else uses.
static const char *temporary(const Cache *c, Arena *a, const char *prefix)
{
    static atomic_uint count;
    unsigned serial = atomic_fetch_add(&count, 1);
    return arena_printf(a, "%s/%s%ld-%lld-%u", c->trash, prefix, (long)getpid(),
                        (long long)clock_ns(), serial);
}

// What stands where a folder should be may be a file.
static const char *remove_any(Arena *a, const char *path)
{
    return unlink(path) == 0 ? NULL : dir_remove(a, path);
}

// Others never see half of it.
static const char *discard(const Cache *c, Arena *a, const char *dir)
{
    const char *gone = temporary(c, a, "gone-");
    if (rename(dir, gone) != 0)
        return errno == ENOENT ? NULL : arena_printf(a, "%s: %s", dir, strerror(errno));
    return remove_any(a, gone);
}

const char *cache_drop(Cache *c, Arena *a, const char *dir)
{
    return discard(c, a, dir);
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

// ---- folders of work

typedef struct Work {
    const char *dir;
    int owner; // its file "owner", locked; -1: none
} Work;

static bool try_lock(int fd)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(fd, F_SETLK, &whole) == 0;
}

static const char *owner_file(Arena *a, const char *dir)
{
    return path_join(a, dir, "owner");
}

// It gets its name when the lock is held. Where locks do not work, age alone decides.
static const char *work_begin(const Cache *c, Arena *a, Work *w)
{
    const char *unnamed = temporary(c, a, "new-"), *owner = owner_file(a, unnamed);
    w->dir = temporary(c, a, "");
    const char *failed = dir_make(a, unnamed);
    if (failed) return failed;
    w->owner = open(owner, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (w->owner >= 0 && try_lock(w->owner) && rename(unnamed, w->dir) == 0) return NULL;
    int error = errno;
    if (w->owner >= 0) close(w->owner);
    w->owner = -1;
    if (error == ENOLCK && rename(unnamed, w->dir) == 0) return NULL;
    dir_remove(a, unnamed);
    return arena_printf(a, "%s: %s", owner, strerror(error));
}

// The lock goes last: until then the folder is known to be somebody's.
static void work_end(Work *w)
{
    if (w->owner >= 0) close(w->owner);
    w->owner = -1;
}

// Locks are of processes: one's own would not be seen, and looking would lose it.
static bool is_own(const char *name)
{
    return strtol(name, NULL, 10) == (long)getpid();
}

static bool is_abandoned(Arena *a, const char *path, const char *name)
{
    int64_t age_s = (int64_t)time(NULL) - modified_unix_s(path);
    if (age_s > STALE_SECONDS || !strncmp(name, "gone-", 5)) return true;
    if (!strncmp(name, "kept-", 5) || is_own(name)) return false;
    int fd = open(owner_file(a, path), O_RDWR | O_CLOEXEC);
    if (fd < 0 || !strncmp(name, "new-", 4)) {
        if (fd >= 0) close(fd);
        return age_s > SETTLE_SECONDS;
    }
    bool free = try_lock(fd);
    close(fd);
    return free;
}

static void remove_left(Cache *c, Arena *a, bool kept_too)
{
    char **names;
    int n;
    if (dir_list(a, c->trash, &names, &n)) return;
    for (int i = 0; i < n; i++) {
        const char *path = path_join(a, c->trash, names[i]);
        bool kept = !strncmp(names[i], "kept-", 5);
        if ((kept && kept_too) || is_abandoned(a, path, names[i]))
            remove_any(a, path); // or another process does, at this moment
    }
}

// ---- failures that are kept

static const char folder_mark[] = "$FOLDER";

static const char *replaced(Arena *a, const char *text, const char *from, const char *to)
{
    Buf out;
    buf_init(&out, a);
    for (const char *at; (at = strstr(text, from)); text = at + strlen(from)) {
        buf_append(&out, text, (size_t)(at - text));
        buf_puts(&out, to);
    }
    buf_puts(&out, text);
    return buf_text(&out);
}

static const char *failure_file(Arena *a, const char *dir)
{
    return path_join(a, dir, "failed.txt");
}

static const char *kept_failure(Arena *a, const char *dir)
{
    char *text;
    size_t size;
    if (file_read(a, failure_file(a, dir), &text, &size)) return NULL;
    return replaced(a, text, folder_mark, dir);
}

// ---- building

static const char *seal(Arena *a, const char *dir, const char *key)
{
    const char *failed = file_write(a, path_join(a, dir, "task.txt"), key, strlen(key));
    Buf sums;
    buf_init(&sums, a);
    unlink(owner_file(a, dir));
    if (!failed) failed = add_sums(a, dir, "", &sums);
    if (!failed) failed = file_write(a, path_join(a, dir, "sums.txt"), buf_text(&sums), sums.size);
    return failed;
}

static const char *parent_of(Arena *a, const char *path)
{
    return arena_strndup(a, path, (size_t)(strrchr(path, '/') - path));
}

// Puts the finished folder in place. Where another process was faster, its entry serves.
static const char *publish(const Cache *c, Arena *a, const char *made, const char *dir,
                           const char *key)
{
    for (int attempt = 0; attempt < 3; attempt++) {
        if (rename(made, dir) == 0) return NULL;
        if (errno == ENOENT && !dir_make(a, parent_of(a, dir))) continue; // cleared meanwhile
        if (errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR)
            return arena_printf(a, "%s: %s", dir, strerror(errno));
        if (is_hit(a, dir, key)) {
            dir_remove(a, made);
            return NULL;
        }
        const char *failed = discard(c, a, dir);
        if (failed) return failed;
    }
    return arena_printf(a, "%s: cannot be replaced", dir);
}

// Moves what a build left to where its user may look at it. One for each key.
static const char *keep_for_a_look(const Cache *c, Arena *a, const char *made, const char *dir,
                                   const char *message)
{
    const char *kept = path_join(a, c->trash, arena_printf(a, "kept-%s", strrchr(dir, '/') + 1));
    unlink(owner_file(a, made));
    discard(c, a, kept);
    return rename(made, kept) == 0 ? replaced(a, message, made, kept) : message;
}

static void evict(Cache *c, Arena *a, const char *keep);

static const char *make(Cache *c, Arena *a, const Work *w, const char *dir, const char *key,
                        CacheBuild *build, void *user)
{
    CacheFailure failure = CACHE_FAILED;
    const char *message = build(user, a, w->dir, &failure), *failed = NULL;
    if (message && failure == CACHE_FAILED_KEPT) return keep_for_a_look(c, a, w->dir, dir, message);
    if (message && failure == CACHE_FAILED) failed = message;
    if (message && !failed) {
        const char *text = replaced(a, message, w->dir, folder_mark);
        failed = file_write(a, failure_file(a, w->dir), text, strlen(text));
    }
    if (!failed) failed = seal(a, w->dir, key);
    if (!failed) failed = publish(c, a, w->dir, dir, key);
    if (failed) dir_remove(a, w->dir);
    else evict(c, a, dir);
    if (failed && !message) return replaced(a, failed, w->dir, dir);
    return message ? replaced(a, message, w->dir, dir) : NULL;
}

const char *cache_get(Cache *c, Arena *a, const char *op, const char *key, CacheBuild *build,
                      void *user, const char **dir, bool *hit)
{
    const char *parent = path_join(a, c->operators, safe_name(a, op));
    *dir = path_join(a, parent, hash_hex(a, key, strlen(key)));
    *hit = is_hit(a, *dir, key);
    if (*hit) {
        touch(path_join(a, *dir, "task.txt"));
        return kept_failure(a, *dir);
    }
    Work w = {.owner = -1};
    const char *volatile failed = dir_make(a, parent);
    if (!failed) failed = work_begin(c, a, &w);
    if (failed) return failed;
    jmp_buf *outer = a->nomem, full;
    a->nomem = &full;
    volatile bool jumped = true;
    if (!setjmp(full)) {
        failed = make(c, a, &w, *dir, key, build, user);
        jumped = false;
    }
    a->nomem = outer;
    work_end(&w);
    if (jumped) arena_out_of_memory(a);
    return failed;
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
            entry.failed = path_exists(failure_file(a, entry.dir));
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

// Least recently used first, until the rest fits; `keep` stays in any case. A cache that stays too
// large is no failure of the build.
static void evict(Cache *c, Arena *a, const char *keep)
{
    CacheEntry *entry;
    int n;
    int64_t total = 0;
    if (c->limit_bytes <= 0 || list(c, a, false, &entry, &n) || n == 0) return;
    for (int i = 0; i < n; i++) total += entry[i].size_bytes;
    qsort(entry, (size_t)n, sizeof *entry, older_first);
    for (int i = 0; i < n && total > c->limit_bytes; i++) {
        if (!strcmp(entry[i].dir, keep)) continue;
        if (discard(c, a, entry[i].dir)) return;
        total -= entry[i].size_bytes;
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
    remove_left(c, a, false);
    return failed;
}

const char *cache_clear(Cache *c, Arena *a, int64_t *freed_bytes)
{
    *freed_bytes = tree_bytes(a, c->operators) + tree_bytes(a, c->trash);
    const char *failed = discard(c, a, c->operators);
    remove_left(c, a, true);
    *freed_bytes -= tree_bytes(a, c->trash); // what processes are working on
    return failed ? failed : dir_make(a, c->operators);
}
