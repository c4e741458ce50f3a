// SPDX-License-Identifier: Apache-2.0
// Files, folders, child processes and clocks, in a temporary folder of its own.
#include "base/os.h"
#include "base/util.h"

#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static Arena arena;
static char folder[] = "heald-os-XXXXXX";
static const char *top; // the temporary folder

static int setup(void **state)
{
    UNUSED(state);
    const char *tmp = getenv("TMPDIR");
    char *path = path_join(&arena, tmp ? tmp : "/tmp", folder);
    top = mkdtemp(path);
    return top ? 0 : -1;
}

static int teardown(void **state)
{
    UNUSED(state);
    const char *error = dir_remove(&arena, top);
    bool gone = !path_exists(top);
    arena_free(&arena);
    return error || !gone ? -1 : 0;
}

static const char *in_top(const char *name)
{
    return path_join(&arena, top, name);
}

static int names_in(const char *path)
{
    char **names;
    int n;
    assert_null(dir_list(&arena, path, &names, &n));
    return n;
}

static void write_and_read(void **state)
{
    UNUSED(state);
    const char *path = in_top("file");
    char *text;
    size_t size;
    assert_int_equal(file_size_bytes(path), -1);
    assert_null(file_write_atomic(&arena, path, "a\0b", 3));
    assert_null(file_read(&arena, path, &text, &size));
    assert_int_equal(size, 3);
    assert_memory_equal(text, "a\0b", 4);
    assert_null(file_write_atomic(&arena, path, "longer text", 11)); // replaces
    assert_int_equal(file_size_bytes(path), 11);
    assert_null(file_write_atomic(&arena, path, NULL, 0));
    assert_null(file_read(&arena, path, &text, &size));
    assert_int_equal(size, 0);
    assert_string_equal(text, "");
    assert_null(file_write(&arena, path, "some text", 9));
    assert_null(file_write(&arena, path, "text", 4));
    assert_int_equal(file_size_bytes(path), 4);
    assert_non_null(file_write(&arena, in_top("none/file"), "text", 4));
    assert_int_equal(names_in(top), 1); // no temporary file is left
    mode_t mask = umask(0);
    umask(mask);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0666 & ~mask);
}

static void mapped(void **state)
{
    UNUSED(state);
    const char *path = in_top("file");
    size_t size = 300000;
    unsigned char *data = arena_alloc(&arena, size);
    for (size_t i = 0; i < size; i++) data[i] = (unsigned char)(i * 7);
    FileMap m;
    assert_null(file_write_atomic(&arena, path, data, size));
    assert_null(file_map(&arena, path, &m));
    assert_true(m.mapped);
    assert_int_equal(m.size, size);
    assert_memory_equal(m.data, data, size);
    file_unmap(&m);
    assert_null(m.data);
    assert_null(file_write_atomic(&arena, path, "", 0));
    assert_null(file_map(&arena, path, &m));
    assert_true(!m.data && m.size == 0);
    file_unmap(&m);
    assert_null(file_map(&arena, "/proc/self/status", &m)); // its size is said to be 0
    assert_true(!m.mapped && m.size > 100);
    file_unmap(&m);
}

static void messages_name_the_file(void **state)
{
    UNUSED(state);
    const char *path = in_top("absent");
    FileMap m;
    char *text, **names;
    size_t size;
    int n;
    const char *absent = arena_printf(&arena, "%s: No such file or directory", path);
    assert_string_equal(file_map(&arena, path, &m), absent);
    assert_string_equal(file_read(&arena, path, &text, &size), absent);
    assert_string_equal(dir_list(&arena, path, &names, &n), absent);
    const char *inside = path_join(&arena, path, "x");
    assert_string_equal(file_write_atomic(&arena, inside, "", 0),
                        arena_printf(&arena, "%s: No such file or directory", inside));
    const char *is_folder = arena_printf(&arena, "%s: Is a directory", top);
    assert_string_equal(file_map(&arena, top, &m), is_folder);
    assert_string_equal(file_read(&arena, top, &text, &size), is_folder);
    assert_non_null(file_write_atomic(&arena, top, "", 0));
    assert_int_equal(names_in(top), 0);
    assert_null(text);
}

static void full_disk(void **state)
{
    UNUSED(state);
    assert_string_equal(file_write_atomic(&arena, "/dev/full", "x", 1),
                        "/dev/full: No space left on device");
    struct stat st;
    assert_int_equal(stat("/dev/full", &st), 0);
    assert_true(S_ISCHR(st.st_mode)); // and was not replaced by a file

    const char *path = in_top("file");
    assert_null(file_write_atomic(&arena, path, "old", 3));
    struct rlimit old, small;
    getrlimit(RLIMIT_FSIZE, &old);
    small = (struct rlimit){.rlim_cur = 1000, .rlim_max = old.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    const char *error = file_write_atomic(&arena, path, arena_alloc(&arena, 5000), 5000);
    setrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, SIG_DFL);
    assert_string_equal(error, arena_printf(&arena, "%s: File too large", path));
    char *text;
    size_t size;
    assert_null(file_read(&arena, path, &text, &size));
    assert_string_equal(text, "old");
    assert_int_equal(names_in(top), 1);
}

static void folders(void **state)
{
    UNUSED(state);
    const char *deep = in_top("a//b/c");
    char **names;
    int n;
    assert_null(dir_make(&arena, deep));
    assert_null(dir_make(&arena, deep));
    assert_null(dir_make(&arena, in_top("a/b/")));
    assert_null(dir_make(&arena, "/"));
    assert_true(path_is_dir(deep) && path_exists(deep));
    assert_null(file_write_atomic(&arena, in_top("a/zeta"), "z", 1));
    assert_null(file_write_atomic(&arena, in_top("a/.hidden"), "h", 1));
    assert_null(dir_list(&arena, in_top("a"), &names, &n));
    assert_int_equal(n, 3);
    assert_string_equal(names[0], ".hidden");
    assert_string_equal(names[1], "b");
    assert_string_equal(names[2], "zeta");
    assert_false(path_is_dir(in_top("a/zeta")));
    assert_string_equal(dir_make(&arena, in_top("a/zeta/x")),
                        arena_printf(&arena, "%s/a/zeta: File exists", top));
    assert_null(dir_list(&arena, deep, &names, &n));
    assert_int_equal(n, 0);
}

static void removal_does_not_follow_links(void **state)
{
    UNUSED(state);
    assert_null(dir_make(&arena, in_top("kept")));
    assert_null(file_write_atomic(&arena, in_top("kept/file"), "x", 1));
    assert_null(dir_make(&arena, in_top("gone/sub/sub")));
    assert_null(file_write_atomic(&arena, in_top("gone/sub/file"), "x", 1));
    assert_int_equal(symlink(in_top("kept"), in_top("gone/sub/link")), 0);
    assert_int_equal(symlink("nowhere", in_top("gone/broken")), 0);
    assert_int_equal(mkfifo(in_top("gone/pipe"), 0600), 0);
    assert_null(dir_remove(&arena, in_top("gone")));
    assert_false(path_exists(in_top("gone")));
    assert_true(path_exists(in_top("kept/file")));
    assert_null(dir_remove(&arena, in_top("gone")));
    assert_non_null(dir_remove(&arena, in_top("kept/file")));
    assert_int_equal(symlink(in_top("kept"), in_top("link")), 0);
    assert_non_null(dir_remove(&arena, in_top("link")));
    assert_true(path_exists(in_top("kept/file")));
}

static void joined_paths(void **state)
{
    UNUSED(state);
    assert_string_equal(path_join(&arena, "a", "b"), "a/b");
    assert_string_equal(path_join(&arena, "a/", "b"), "a/b");
    assert_string_equal(path_join(&arena, "/", "b"), "/b");
    assert_string_equal(path_join(&arena, "", "b"), "b");
    assert_string_equal(path_join(&arena, "a", "/b"), "/b");
}

static int open_files(void)
{
    return names_in("/proc/self/fd");
}

static void out_of_memory_leaks_nothing(void **state)
{
    UNUSED(state);
    const char *path = in_top("file"), *sub = in_top("sub");
    assert_null(file_write_atomic(&arena, path, arena_alloc(&arena, 50000), 50000));
    assert_null(dir_make(&arena, sub));
    for (int i = 0; i < 200; i++) {
        char *name = arena_printf(&arena, "%s/a-name-of-some-length-%d", sub, i);
        assert_int_equal(mkdir(name, 0700), 0);
    }
    int before = open_files();
    volatile int njump = 0;
    for (volatile int what = 0; what < 3; what++) {
        jmp_buf full;
        Arena a = {.limit_bytes = 3000, .nomem = &full};
        char *text, **names;
        size_t size;
        int n;
        ProcessResult r;
        if (setjmp(full)) njump++;
        else if (what == 0) file_read(&a, path, &text, &size);
        else if (what == 1) dir_list(&a, sub, &names, &n);
        else process_run(&a, (const char *[]){"cat", path, NULL}, 0, &r);
        assert_ptr_equal(a.nomem, &full);
        arena_free(&a);
    }
    assert_int_equal(njump, 3);
    assert_int_equal(open_files(), before);
}

static ProcessResult shell(const char *script, int timeout_ms)
{
    ProcessResult r;
    assert_null(process_run(&arena, (const char *[]){"sh", "-c", script, NULL}, timeout_ms, &r));
    return r;
}

static void process_output_and_status(void **state)
{
    UNUSED(state);
    ProcessResult r = shell("echo out; echo err >&2; exit 3", 0);
    assert_string_equal(r.output, "out\nerr\n");
    assert_int_equal(r.output_size, 8);
    assert_int_equal(r.exit_status, 3);
    assert_false(r.timed_out);
    assert_int_equal(shell("kill -9 $$", 0).exit_status, 128 + 9);
    assert_string_equal(shell("cat; echo end", 10000).output, "end\n"); // stdin is empty
    assert_string_equal(shell(":", 0).output, "");
    const char *odd[] = {"printf", "%s|", "a b", "$HOME", "*", "", NULL}; // no shell in between
    assert_null(process_run(&arena, odd, 0, &r));
    assert_string_equal(r.output, "a b|$HOME|*||");
}

static void process_that_cannot_start(void **state)
{
    UNUSED(state);
    ProcessResult r;
    int before = open_files();
    assert_string_equal(process_run(&arena, (const char *[]){"heald-absent", NULL}, 0, &r),
                        "heald-absent: No such file or directory");
    assert_null(file_write_atomic(&arena, in_top("data"), "x", 1));
    const char *data = in_top("data");
    assert_string_equal(process_run(&arena, (const char *[]){data, NULL}, 0, &r),
                        arena_printf(&arena, "%s: Permission denied", data));
    assert_int_equal(open_files(), before);
}

static void process_timeout_ends_the_group(void **state)
{
    UNUSED(state);
    int64_t start = clock_ns();
    ProcessResult r = shell("echo before; sleep 60 & sleep 60; echo after", 100);
    assert_true(r.timed_out);
    assert_int_equal(r.exit_status, 128 + SIGKILL);
    assert_string_equal(r.output, "before\n");
    r = shell("exec >/dev/null 2>&1; sleep 60", 100); // has closed its output
    assert_true(r.timed_out);
    r = shell("while :; do echo y; done", 100); // never stops writing
    assert_true(r.timed_out);
    assert_true(clock_ns() - start < INT64_C(20000000000));
    assert_false(shell("sleep 0.05; echo done", 20000).timed_out);
}

static void process_left_behind_is_not_waited_for(void **state)
{
    UNUSED(state);
    int64_t start = clock_ns();
    ProcessResult r = shell("echo out; sleep 30 & echo $!", 0);
    assert_true(clock_ns() - start < INT64_C(20000000000));
    assert_int_equal(r.exit_status, 0);
    assert_memory_equal(r.output, "out\n", 4);
    kill((pid_t)atol(r.output + 4), SIGKILL);
}

static void process_output_is_limited(void **state)
{
    UNUSED(state);
    ProcessResult r = shell("head -c 3000000 /dev/zero | tr '\\0' x; exit 5", 0);
    assert_int_equal(r.exit_status, 5);
    assert_int_equal(r.output_size, 1 << 20);
    assert_int_equal(strlen(r.output), 1 << 20);
}

static void programs(void **state)
{
    UNUSED(state);
    const char *sh = find_program(&arena, "sh");
    assert_non_null(sh);
    assert_int_equal(sh[0], '/');
    assert_string_equal(find_program(&arena, sh), sh);
    assert_null(find_program(&arena, "heald-absent"));
    assert_null(find_program(&arena, ""));
    assert_null(find_program(&arena, top)); // a folder
    assert_null(file_write_atomic(&arena, in_top("data"), "x", 1));
    assert_null(find_program(&arena, in_top("data"))); // may not be executed
}

static void clock_and_cores(void **state)
{
    UNUSED(state);
    int64_t before = clock_ns();
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    assert_true(clock_ns() - before >= 2000000);
    assert_true(cpu_count() >= 1);
    assert_true(cpu_count() <= sysconf(_SC_NPROCESSORS_CONF));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(write_and_read),
        TEST(mapped),
        TEST(messages_name_the_file),
        TEST(full_disk),
        TEST(folders),
        TEST(removal_does_not_follow_links),
        TEST(joined_paths),
        TEST(out_of_memory_leaks_nothing),
        TEST(process_output_and_status),
        TEST(process_that_cannot_start),
        TEST(process_timeout_ends_the_group),
        TEST(process_left_behind_is_not_waited_for),
        TEST(process_output_is_limited),
        TEST(programs),
        TEST(clock_and_cores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
