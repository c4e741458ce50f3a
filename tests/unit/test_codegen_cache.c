// SPDX-License-Identifier: Apache-2.0
// The cache on disk and the toolchain: hits, damage, eviction, several processes at once, messages.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utime.h>

#include <cmocka.h>

#include "base/os.h"
#include "codegen/codegen.h"

typedef struct Fixture {
    Arena arena;
    const char *dir;
    Cache *cache;
    int builds;
    int payload; // bytes of lib.so
    bool fail;
} Fixture;

static int setup(void **state)
{
    Fixture *f = calloc(1, sizeof *f);
    f->dir = mkdtemp(
        path_join(&f->arena, getenv("TMPDIR") ? getenv("TMPDIR") : P_tmpdir, "heald-cache-XXXXXX"));
    const char *why;
    f->cache = cache_open(&f->arena, f->dir, 0, &why);
    f->payload = 1000;
    *state = f;
    return f->dir && f->cache ? 0 : -1;
}

static int teardown(void **state)
{
    Fixture *f = *state;
    dir_remove(&f->arena, f->dir);
    arena_free(&f->arena);
    free(f);
    return 0;
}

static const char *build(void *user, Arena *a, const char *dir)
{
    Fixture *f = user;
    f->builds++;
    if (f->fail) return arena_printf(a, "no luck in %s", dir);
    char *text = arena_alloc(a, (size_t)f->payload + 1);
    memset(text, 'x', (size_t)f->payload);
    return file_write_atomic(a, path_join(a, dir, "lib.so"), text, (size_t)f->payload);
}

static const char *get(Fixture *f, const char *op, const char *key, bool *hit)
{
    const char *dir = NULL;
    assert_null(cache_get(f->cache, &f->arena, op, key, build, f, &dir, hit));
    assert_true(path_exists(path_join(&f->arena, dir, "lib.so")));
    return dir;
}

static void test_hit(void **state)
{
    Fixture *f = *state;
    bool hit;
    const char *dir = get(f, "matmul", "key one", &hit);
    assert_false(hit);
    assert_string_equal(get(f, "matmul", "key one", &hit), dir);
    assert_true(hit);
    get(f, "matmul", "key two", &hit);
    assert_false(hit);
    assert_int_equal(f->builds, 2);
    char *task;
    size_t size;
    assert_null(file_read(&f->arena, path_join(&f->arena, dir, "task.txt"), &task, &size));
    assert_string_equal(task, "key one");
    get(f, "../odd name/", "key", &hit); // stays inside the cache
    CacheEntry *entry;
    int n;
    assert_null(cache_list(f->cache, &f->arena, &entry, &n));
    assert_int_equal(n, 3);
    for (int i = 0; i < n; i++) assert_false(entry[i].damaged);
}

static void damage(Fixture *f, const char *dir, const char *name, const char *text)
{
    assert_null(file_write_atomic(&f->arena, path_join(&f->arena, dir, name), text, strlen(text)));
}

static void test_damage(void **state)
{
    Fixture *f = *state;
    bool hit;
    const char *dir = get(f, "op", "key", &hit);
    damage(f, dir, "lib.so", "short");
    get(f, "op", "key", &hit);
    assert_false(hit);
    get(f, "op", "key", &hit);
    assert_true(hit);
    damage(f, dir, "task.txt", "another key");
    get(f, "op", "key", &hit);
    assert_false(hit);
    unlink(path_join(&f->arena, dir, "sums.txt"));
    get(f, "op", "key", &hit);
    assert_false(hit);
    damage(f, dir, "lib.so", "short");
    int n;
    assert_null(cache_check(f->cache, &f->arena, &n));
    assert_int_equal(n, 1);
    assert_false(path_exists(dir));
}

static void test_failed_build(void **state)
{
    Fixture *f = *state;
    const char *dir;
    bool hit;
    f->fail = true;
    const char *failed = cache_get(f->cache, &f->arena, "op", "key", build, f, &dir, &hit);
    assert_non_null(failed);
    assert_non_null(strstr(failed, "no luck"));
    assert_false(path_exists(dir));
    f->fail = false;
    get(f, "op", "key", &hit);
    assert_false(hit);
}

static void age(Fixture *f, const char *dir, int seconds)
{
    struct utimbuf t = {1000000 - seconds, 1000000 - seconds};
    assert_int_equal(utime(path_join(&f->arena, dir, "task.txt"), &t), 0);
}

static void test_eviction(void **state)
{
    Fixture *f = *state;
    const char *why, *dir[4];
    bool hit;
    f->cache = cache_open(&f->arena, f->dir, 5000, &why);
    static const char *const keys[] = {"a", "b", "c", "d"};
    for (int i = 0; i < 3; i++) dir[i] = get(f, "op", keys[i], &hit);
    age(f, dir[0], 10);
    age(f, dir[1], 30);
    age(f, dir[2], 20);
    get(f, "op", "b", &hit); // now the most recent
    assert_true(hit);
    f->payload = 3500;
    dir[3] = get(f, "op", "d", &hit);
    assert_true(path_exists(dir[3]));
    assert_true(path_exists(dir[1]));
    assert_false(path_exists(dir[0]));
    assert_false(path_exists(dir[2]));
    f->payload = 20000; // larger than the limit: kept, alone
    dir[0] = get(f, "op", "a", &hit);
    assert_true(path_exists(dir[0]));
    assert_false(path_exists(dir[3]));
}

static void test_clear(void **state)
{
    Fixture *f = *state;
    bool hit;
    get(f, "op", "key", &hit);
    int64_t freed;
    assert_null(cache_clear(f->cache, &f->arena, &freed));
    assert_true(freed > 1000);
    CacheEntry *entry;
    int n;
    assert_null(cache_list(f->cache, &f->arena, &entry, &n));
    assert_int_equal(n, 0);
    get(f, "op", "key", &hit);
    assert_false(hit);
}

// Processes that build, find and damage the same entries at once always get whole ones.
static void test_processes(void **state)
{
    Fixture *f = *state;
    pid_t child[6];
    for (int c = 0; c < 6; c++) {
        child[c] = fork();
        if (child[c] == 0) {
            int bad = 0;
            for (int i = 0; i < 40; i++) {
                const char *dir, *key = arena_printf(&f->arena, "key %d", i % 4);
                bool hit;
                const char *failed =
                    cache_get(f->cache, &f->arena, "op", key, build, f, &dir, &hit);
                if (failed) bad++;
                if (!failed && c == 0 && i % 9 == 5) unlink(path_join(&f->arena, dir, "sums.txt"));
            }
            _exit(bad ? 1 : 0);
        }
    }
    for (int c = 0; c < 6; c++) {
        int status;
        waitpid(child[c], &status, 0);
        assert_int_equal(status, 0);
    }
}

static void test_default_dir(void **state)
{
    Fixture *f = *state;
    char *was = getenv("HEALD_CACHE_DIR") ? strdup(getenv("HEALD_CACHE_DIR")) : NULL;
    setenv("HEALD_CACHE_DIR", "here", 1);
    assert_string_equal(cache_default_dir(&f->arena), "here");
    unsetenv("HEALD_CACHE_DIR");
    setenv("XDG_CACHE_HOME", "there", 1);
    assert_string_equal(cache_default_dir(&f->arena), "there/heald");
    unsetenv("XDG_CACHE_HOME");
    assert_non_null(strstr(cache_default_dir(&f->arena), ".cache/heald"));
    if (was) setenv("HEALD_CACHE_DIR", was, 1);
    free(was);
}

// ---- toolchain

static void test_toolchain(void **state)
{
    Fixture *f = *state;
    Target t;
    Toolchain tc;
    const char *why = NULL;
    target_host(&t);
    assert_true(toolchain_find(&f->arena, &t, &tc, &why));
    assert_true(tc.cc[0] == '/');
    assert_true(strlen(tc.version) > 3 && !strchr(tc.version, '\n'));
    assert_non_null(strstr(tc.flags, "-march=native"));
    const char *c = path_join(&f->arena, f->dir, "k.c"), *so = path_join(&f->arena, f->dir, "k.so");
    char *log = NULL;
    static const char good[] = "int f(void) { return 1; }\n", bad[] = "int f(void) { retrun 1; }\n";
    assert_null(file_write_atomic(&f->arena, c, good, strlen(good)));
    assert_null(toolchain_compile(&f->arena, &tc, c, so, &log));
    assert_true(path_exists(so));
    assert_null(file_write_atomic(&f->arena, c, bad, strlen(bad)));
    const char *failed = toolchain_compile(&f->arena, &tc, c, so, &log);
    assert_non_null(failed);
    assert_non_null(strstr(failed, tc.cc));
    assert_non_null(strstr(failed, c));
    assert_non_null(strstr(failed, "retrun"));
}

static void test_no_toolchain(void **state)
{
    Fixture *f = *state;
    Target t;
    Toolchain tc;
    const char *why = NULL;
    target_host(&t);
    char *path = strdup(getenv("PATH"));
    setenv("PATH", f->dir, 1);
    assert_false(toolchain_find(&f->arena, &t, &tc, &why));
    assert_non_null(strstr(why, "gcc"));
    setenv("PATH", path, 1);
    free(path);
    setenv("HEALD_CC", "no-such-compiler", 1); // what is asked for is not replaced by another
    assert_false(toolchain_find(&f->arena, &t, &tc, &why));
    assert_non_null(strstr(why, "no-such-compiler"));
    unsetenv("HEALD_CC");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_hit),         TEST(test_damage),    TEST(test_failed_build),
        TEST(test_eviction),    TEST(test_clear),     TEST(test_processes),
        TEST(test_default_dir), TEST(test_toolchain), TEST(test_no_toolchain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
