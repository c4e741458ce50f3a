// SPDX-License-Identifier: Apache-2.0
// The cache on disk and the toolchain: hits, damage, eviction, several processes at once, messages.
#include <setjmp.h>
#include <signal.h>
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
    CacheFailure failure; // if it fails
    int wait_on;          // a pipe that tells when to go on with building; 0: none
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

static const char *build(void *user, Arena *a, const char *dir, CacheFailure *failure)
{
    Fixture *f = user;
    f->builds++;
    const char *source = path_join(a, dir, "source.c"), *why;
    assert_null(file_write_atomic(a, source, "text", 4));
    if (f->wait_on) {
        char byte;
        assert_non_null(cache_open(a, f->dir, 0, &why)); // takes nothing from its own process
        assert_true(path_exists(source));
        assert_int_equal(read(f->wait_on, &byte, 1), 1);
    }
    if (f->fail) *failure = f->failure;
    if (f->fail) return arena_printf(a, "no luck with %s", source);
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

static const char *must_fail(Fixture *f, const char *key, const char **dir, bool *hit)
{
    const char *message = cache_get(f->cache, &f->arena, "op", key, build, f, dir, hit);
    assert_non_null(message);
    assert_non_null(strstr(message, "no luck with "));
    return message;
}

// The file that a message of build names.
static bool source_exists(const char *message)
{
    return path_exists(strrchr(message, ' ') + 1);
}

static int nwork(Fixture *f)
{
    char **names;
    int n;
    assert_null(dir_list(&f->arena, path_join(&f->arena, f->dir, "tmp"), &names, &n));
    return n;
}

static void test_failed_build(void **state)
{
    Fixture *f = *state;
    const char *dir;
    bool hit;
    f->fail = true;
    assert_false(source_exists(must_fail(f, "key", &dir, &hit)));
    assert_false(path_exists(dir));
    assert_int_equal(nwork(f), 0);
    f->failure = CACHE_FAILED_KEPT;
    for (int i = 0; i < 3; i++) assert_true(source_exists(must_fail(f, "key", &dir, &hit)));
    assert_false(path_exists(dir));
    assert_int_equal(f->builds, 4); // tried each time, and
    assert_int_equal(nwork(f), 1);  // what the last one left is kept
    f->fail = false;
    get(f, "op", "key", &hit);
    assert_false(hit);
}

static void test_failed_for_good(void **state)
{
    Fixture *f = *state;
    const char *dir, *first, *again;
    bool hit;
    f->fail = true;
    f->failure = CACHE_FAILED_FOR_GOOD;
    first = must_fail(f, "key", &dir, &hit);
    assert_false(hit);
    again = must_fail(f, "key", &dir, &hit);
    assert_true(hit);
    assert_int_equal(f->builds, 1);
    assert_string_equal(first, again);
    assert_true(source_exists(again));
    assert_int_equal(nwork(f), 0);
    CacheEntry *entry;
    int n;
    assert_null(cache_list(f->cache, &f->arena, &entry, &n));
    assert_int_equal(n, 1);
    assert_true(entry[0].failed && !entry[0].damaged);
    f->fail = false;
    get(f, "op", "another key", &hit);
    assert_int_equal(f->builds, 2);
    damage(f, dir, "failed.txt", "all is lost"); // not believed
    get(f, "op", "key", &hit);
    assert_int_equal(f->builds, 3);
}

// What a killed process leaves is removed by whoever opens the cache next, but not what a process
// is working on.
static void test_killed_process(void **state)
{
    Fixture *f = *state;
    const char *why;
    int gate[2], status;
    assert_int_equal(pipe(gate), 0);
    f->wait_on = gate[0];
    pid_t child = fork();
    if (child == 0) {
        const char *dir;
        bool hit;
        cache_get(f->cache, &f->arena, "op", "key", build, f, &dir, &hit);
        _exit(1);
    }
    while (nwork(f) == 0) usleep(1000);
    for (int i = 0; i < 20; i++) { // the child is somewhere between its first and its last step
        assert_non_null(cache_open(&f->arena, f->dir, 0, &why));
        assert_int_equal(nwork(f), 1);
        usleep(2000);
    }
    int64_t freed;
    assert_null(cache_clear(f->cache, &f->arena, &freed));
    assert_int_equal(nwork(f), 1);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    assert_int_equal(nwork(f), 1);
    assert_non_null(cache_open(&f->arena, f->dir, 0, &why));
    assert_int_equal(nwork(f), 0);
    close(gate[0]);
    close(gate[1]);
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

static void script(Fixture *f, const char *path, const char *text)
{
    assert_null(file_write_atomic(&f->arena, path, text, strlen(text)));
    assert_int_equal(chmod(path, 0755), 0);
}

static void test_slow_compiler(void **state)
{
    Fixture *f = *state;
    const char *cc = path_join(&f->arena, f->dir, "cc");
    char *log = NULL;
    script(f, cc, "#!/bin/sh\necho 'k.c:1:1: error: first'; sleep 100 & sleep 100\n");
    Toolchain tc = {.cc = cc, .version = "1", .flags = "-O9", .machine = "", .limit_ms = 300};
    int64_t start = clock_ns();
    const char *failed = toolchain_compile(&f->arena, &tc, "k.c", "k.so", &log);
    assert_true(clock_ns() - start < (int64_t)20 * 1000000000);
    assert_non_null(failed);
    assert_non_null(strstr(failed, "took too long"));
    script(f, cc, "#!/bin/sh\nexit 0\n");
    tc.limit_ms = 60000;
    failed = toolchain_compile(&f->arena, &tc, "k.c", "k.so", &log);
    assert_non_null(failed);
    assert_non_null(strstr(failed, "made no file"));
}

static void try_named(Fixture *f, const char *name, const char *cc)
{
    Target t;
    Toolchain tc;
    const char *why = NULL, *c = path_join(&f->arena, f->dir, "k.c");
    char *log = NULL;
    target_host(&t);
    setenv("HEALD_CC", name, 1);
    assert_true(toolchain_find(&f->arena, &t, &tc, &why));
    unsetenv("HEALD_CC");
    assert_string_equal(tc.cc, cc);
    assert_string_equal(tc.version, "loom 7");
    assert_null(file_write_atomic(&f->arena, c, "", 0));
    assert_null(toolchain_compile(&f->arena, &tc, c, path_join(&f->arena, f->dir, "k.so"), &log));
}

// A program with words behind it, and one with a blank in its name.
static void test_words(void **state)
{
    Fixture *f = *state;
    static const char text[] =
        "#!/bin/sh\n"
        "[ \"$*\" = \"a b --version\" ] && { echo loom 7; exit; }\n"
        "case \"$*\" in 'a b -O'*) touch \"$(dirname \"$0\")/k.so\";; *) exit 1;; esac\n";
    const char *cc = path_join(&f->arena, f->dir, "cc"),
               *blank = path_join(&f->arena, f->dir, "c c");
    script(f, cc, text);
    script(f, blank, text);
    const char *words = arena_printf(&f->arena, "%s a b", cc);
    try_named(f, arena_printf(&f->arena, "%s  a  b ", cc), words);
    script(f, blank, "#!/bin/sh\nexec \"$(dirname \"$0\")/cc\" a b \"$@\"\n");
    unlink(path_join(&f->arena, f->dir, "k.so"));
    try_named(f, blank, blank);
}

static void test_whose_fault(void **state)
{
    UNUSED(state);
    static const char *const text[] = {
        "source.c:3:20: error: 'x' undeclared",
        "In function 'f':\nlib/kernels/a.hd:3:2: warning: w\nb.hd:7: error: no\n",
        "source.cu(12): error: identifier \"nothing\" is undefined",
    };
    static const char *const compiler[] = {
        "",
        "gcc: fatal error: Killed signal terminated program cc1\ncompilation terminated.",
        "source.c:2:10: fatal error: stdint.h: No such file or directory",
        "cc1: out of memory allocating 65536 bytes",
        "source.c:3:1: error: a\nsource.c:9:1: internal compiler error: Segmentation fault",
        "gcc: error: unrecognized command-line option '-march=z'",
        "/usr/bin/ld: final link failed: No space left on device\ncollect2: error: ld returned 1",
    };
    for (size_t i = 0; i < COUNT(text); i++) assert_true(toolchain_blames_text(text[i]));
    for (size_t i = 0; i < COUNT(compiler); i++) assert_false(toolchain_blames_text(compiler[i]));
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
        TEST(test_hit),          TEST(test_damage),    TEST(test_failed_build),
        TEST(test_eviction),     TEST(test_clear),     TEST(test_failed_for_good),
        TEST(test_default_dir),  TEST(test_toolchain), TEST(test_killed_process),
        TEST(test_no_toolchain), TEST(test_processes), TEST(test_slow_compiler),
        TEST(test_whose_fault),  TEST(test_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
