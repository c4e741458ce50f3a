// SPDX-License-Identifier: Apache-2.0
// Forked jobs: each child is the leader of a process group and writes its result to a pipe; the
// parent follows all of them with one poll.
#include "base/jobs.h"

#include "base/os.h"
#include "base/util.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

// The sanitizers keep shadow memory in terabytes of address space, which a limit would refuse.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool shadowed = true;
#else
static const bool shadowed = false;
#endif

// Sanitizers that map address space for themselves cannot work within a limit.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LIMIT_MEMORY 0
#else
#define LIMIT_MEMORY 1
#endif

enum { MAX_WORKERS = 64, TEXT_LIMIT = 1 << 16, LOOK_EVERY_MS = 20 };

typedef struct Child {
    pid_t pid;
    int fd; // of its result; -1: this worker is idle
    int job;
    int64_t start_ns;
    Buf text;
} Child;

typedef struct Jobs {
    Arena *arena;
    const JobOptions *o;
    JobFn *fn;
    void *user;
    JobResult *results;
    Child child[MAX_WORKERS];
    int nchild, nrunning;
} Jobs;

static void write_all(int fd, const char *p, size_t size)
{
    while (size > 0) {
        ssize_t n = write(fd, p, size);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return;
        p += n;
        size -= (size_t)n;
    }
}

static _Noreturn void be_child(Jobs *j, int job, int fd)
{
    setpgid(0, 0);
    if (j->o->memory_bytes > 0 && !shadowed) {
        struct rlimit limit = {(rlim_t)j->o->memory_bytes, (rlim_t)j->o->memory_bytes};
        setrlimit(RLIMIT_AS, &limit);
    }
    struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    Arena arena = {0};
    Buf out;
    buf_init(&out, &arena);
    int status = j->fn(j->user, job, &out);
    write_all(fd, buf_text(&out), out.size < TEXT_LIMIT ? out.size : TEXT_LIMIT);
    _exit(status);
}

static const char *start(Jobs *j, Child *c, int job)
{
    int ends[2];
    if (pipe(ends)) return arena_printf(j->arena, "a job's pipe: %s", strerror(errno));
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        be_child(j, job, ends[1]);
    }
    int error = errno;
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return arena_printf(j->arena, "a job's process: %s", strerror(error));
    }
    setpgid(pid, pid); // both sides do it, whoever comes first
    *c = (Child){.pid = pid, .fd = ends[0], .job = job, .start_ns = clock_ns()};
    buf_init(&c->text, j->arena);
    j->nrunning++;
    return NULL;
}

static void end(Jobs *j, Child *c, bool late)
{
    int status = 0;
    kill(-c->pid, SIGKILL); // what it left behind too
    while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR) continue;
    close(c->fd);
    c->fd = -1;
    j->nrunning--;
    JobResult *r = &j->results[c->job];
    *r = (JobResult){.timed_out = late, .time_ns = clock_ns() - c->start_ns};
    r->exit_status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    r->text = buf_text(&c->text);
    if (j->o->done) j->o->done(j->user, c->job, r);
}

static void follow(Jobs *j)
{
    struct pollfd fds[MAX_WORKERS];
    for (int i = 0; i < j->nchild; i++) fds[i] = (struct pollfd){j->child[i].fd, POLLIN, 0};
    int ready = poll(fds, (nfds_t)j->nchild, LOOK_EVERY_MS);
    int64_t now = clock_ns();
    for (int i = 0; i < j->nchild; i++) {
        Child *c = &j->child[i];
        if (c->fd < 0) continue;
        char text[4096];
        ssize_t n = -1;
        if (ready > 0 && fds[i].revents) {
            n = read(c->fd, text, sizeof text);
            if (n > 0 && c->text.size < TEXT_LIMIT) buf_append(&c->text, text, (size_t)n);
            if (n == 0) {
                siginfo_t info; // its pipe is closed: it ends by itself now
                while (waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOWAIT) && errno == EINTR)
                    continue;
                end(j, c, false);
                continue;
            }
        }
        bool late = j->o->limit_ms > 0 && now - c->start_ns > (int64_t)j->o->limit_ms * 1000000;
        if (late) end(j, c, true);
    }
}

const char *jobs_run(Arena *a, int n, const JobOptions *o, JobFn *fn, void *user,
                     JobResult *results)
{
    Jobs j = {.arena = a, .o = o, .fn = fn, .user = user, .results = results};
    const char *why = NULL;
    j.nchild = (int)max_i64(1, min_i64(o->nworker, MAX_WORKERS));
    for (int i = 0; i < j.nchild; i++) j.child[i].fd = -1;
    int next = 0;
    while (j.nrunning || (next < n && !why)) {
        for (int i = 0; i < j.nchild && next < n && !why; i++)
            if (j.child[i].fd < 0) why = start(&j, &j.child[i], next++);
        follow(&j);
    }
    return why;
}
