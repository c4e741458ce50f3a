// SPDX-License-Identifier: Apache-2.0
// Child processes, clocks and cores. A child gets a process group of its own, so that a timeout
// also ends what it started (a compiler driver's passes). Linux is assumed here and only here:
// pipe2 and sched_getaffinity.
#undef _GNU_SOURCE
#define _GNU_SOURCE
#include "base/os.h"

#include "base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { OUTPUT_LIMIT = 1 << 20, LOOK_EVERY_MS = 20 };

typedef struct Child {
    pid_t pid;
    int fd;             // read end of its output
    bool ended, closed; // the process ended; its output did
    int status;         // of waitpid
    char *output;       // OUTPUT_LIMIT + 1 bytes
    size_t size;
} Child;

// 0 or an errno. The child's standard input is /dev/null, both its outputs are the pipe, its
// signals are as at login.
static int spawn(const char *const *argv, int output, pid_t *pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    int error = posix_spawn_file_actions_init(&files);
    if (error) return error;
    error = posix_spawnattr_init(&attr);
    if (error) {
        posix_spawn_file_actions_destroy(&files);
        return error;
    }
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    error = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    if (!error) error = posix_spawn_file_actions_adddup2(&files, output, 1);
    if (!error) error = posix_spawn_file_actions_adddup2(&files, output, 2);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                        POSIX_SPAWN_SETPGROUP);
    if (!error) error = posix_spawnp(pid, argv[0], &files, &attr, (char *const *)argv, environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    return error;
}

static int start(Child *c, const char *const *argv)
{
    int ends[2] = {-1, -1};
    c->output = malloc(OUTPUT_LIMIT + 1);
    if (!c->output) return ENOMEM;
    int error = pipe2(ends, O_CLOEXEC) ? errno : 0;
    if (!error) {
        error = spawn(argv, ends[1], &c->pid);
        close(ends[1]);
        if (error) close(ends[0]);
    }
    if (error) free(c->output);
    c->fd = ends[0];
    return error;
}

// One read. What is past the limit is read, so that the child does not block, and dropped.
static void take_output(Child *c)
{
    char drop[4096];
    size_t room = OUTPUT_LIMIT - c->size;
    ssize_t got = read(c->fd, room ? c->output + c->size : drop, room ? room : sizeof drop);
    if (got > 0 && room) c->size += (size_t)got;
    if (got == 0 || (got < 0 && errno != EINTR)) c->closed = true;
}

static void look_whether_ended(Child *c)
{
    pid_t got = waitpid(c->pid, &c->status, WNOHANG);
    c->ended = got == c->pid || (got < 0 && errno != EINTR);
}

// Follows the child until it ends or `deadline` (0: never) passes; false in the latter case.
// Usually its output closes just before it ends. If it ends with the pipe open, a process it left
// behind holds it: take what is there and go.
static bool follow(Child *c, int64_t deadline)
{
    for (;;) {
        int64_t left_ms = deadline ? (deadline - clock_ns() + 999999) / 1000000 : LOOK_EVERY_MS;
        if (left_ms <= 0) return false;
        struct pollfd poll_fd = {.fd = c->closed ? -1 : c->fd, .events = POLLIN};
        int slice = c->closed ? 1 : LOOK_EVERY_MS;
        int ready = poll(&poll_fd, 1, c->ended ? 0 : (int)min_i64(left_ms, slice));
        if (ready > 0) take_output(c);
        else if (c->ended) return true;
        if (!c->ended && (c->closed || ready == 0)) look_whether_ended(c);
        if (c->ended && c->closed) return true;
    }
}

static int wait_status(const Child *c)
{
    if (WIFSIGNALED(c->status)) return 128 + WTERMSIG(c->status);
    return WEXITSTATUS(c->status);
}

const char *process_run(Arena *a, const char *const *argv, int timeout_ms, ProcessResult *out)
{
    Child c = {0};
    *out = (ProcessResult){0};
    int error = start(&c, argv);
    if (error) return arena_printf(a, "%s: %s", argv[0], strerror(error));
    int64_t deadline = timeout_ms > 0 ? clock_ns() + (int64_t)timeout_ms * 1000000 : 0;
    out->timed_out = !follow(&c, deadline);
    if (out->timed_out) kill(-c.pid, SIGKILL);
    while (!c.ended) {
        pid_t got = waitpid(c.pid, &c.status, 0);
        c.ended = got == c.pid || (got < 0 && errno != EINTR);
    }
    close(c.fd);
    out->exit_status = wait_status(&c);
    out->output_size = c.size;
    c.output[c.size] = 0;
    out->output = arena_take(a, c.output, c.size + 1);
    return NULL;
}

int64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

// The share of the machine that a container may use (cgroup v2), rounded up; 0 when not limited.
static int container_cores(void)
{
    FILE *f = fopen("/sys/fs/cgroup/cpu.max", "re");
    if (!f) return 0;
    long long quota, period;
    int got = fscanf(f, "%lld %lld", &quota, &period);
    fclose(f);
    return got == 2 && quota > 0 && period > 0 ? (int)ceil_div_i64(quota, period) : 0;
}

int cpu_count(void)
{
    int n = 0;
    for (int ncpu = 1024; n == 0 && ncpu <= 1 << 20; ncpu *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)ncpu);
        if (!set) break;
        size_t size = CPU_ALLOC_SIZE((size_t)ncpu);
        bool done = !sched_getaffinity(0, size, set);
        if (done) n = CPU_COUNT_S(size, set);
        bool too_small = !done && errno == EINVAL;
        CPU_FREE(set);
        if (!too_small) break;
    }
    if (n <= 0) n = (int)max_i64(1, sysconf(_SC_NPROCESSORS_ONLN));
    int share = container_cores();
    return share > 0 && share < n ? share : n;
}

static bool is_program(const char *path)
{
    struct stat st;
    return !stat(path, &st) && S_ISREG(st.st_mode) && !access(path, X_OK);
}

const char *find_program(Arena *a, const char *name)
{
    if (!name[0]) return NULL;
    if (strchr(name, '/')) return is_program(name) ? arena_strdup(a, name) : NULL;
    const char *path = getenv("PATH");
    while (path && *path) {
        size_t n = strcspn(path, ":");
        const char *full = path_join(a, n ? arena_strndup(a, path, n) : ".", name);
        if (is_program(full)) return full;
        path += n + (path[n] == ':');
    }
    return NULL;
}
