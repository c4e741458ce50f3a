// SPDX-License-Identifier: Apache-2.0
// The worker pool: every task once, workers numbered apart, nesting, several callers, many short
// jobs. Meant to be run under the thread sanitizer too.
#include "base/os.h"
#include "base/pool.h"
#include "base/util.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { MAX_WORKER = 8 };

typedef struct Job {
    Pool *pool;
    int64_t ntask;
    unsigned char *done;           // times each task was done; plain memory, so a race shows
    atomic_int inside[MAX_WORKER]; // calls going on with this number
    int64_t per_worker[MAX_WORKER];
    bool bad;
} Job;

static void do_tasks(void *user, int64_t begin, int64_t end, int worker)
{
    Job *job = user;
    if (worker < 0 || worker >= pool_size(job->pool) || begin >= end) job->bad = true;
    if (atomic_fetch_add(&job->inside[worker], 1) != 0) job->bad = true;
    for (int64_t i = begin; i < end; i++) job->done[i]++;
    job->per_worker[worker] += end - begin;
    atomic_fetch_sub(&job->inside[worker], 1);
}

// Whether each of ntask tasks is done once. Asserts nothing, since a failed assertion may not leave
// a thread other than the first.
static bool runs_well(Pool *p, int64_t ntask)
{
    Job job = {.pool = p, .ntask = ntask, .done = calloc((size_t)ntask + 1, 1)};
    pool_run(p, ntask, do_tasks, &job);
    int64_t sum = 0;
    for (int64_t i = 0; i < ntask; i++) job.bad = job.bad || job.done[i] != 1;
    for (int i = 0; i < MAX_WORKER; i++) sum += job.per_worker[i];
    free(job.done);
    return sum == ntask && !job.bad;
}

static void every_task_once(void **state)
{
    UNUSED(state);
    for (int nthread = 1; nthread <= MAX_WORKER; nthread = nthread * 3 / 2 + 1) {
        Pool *p = pool_create(nthread);
        assert_int_equal(pool_size(p), nthread);
        for (int64_t n = 0; n < 100; n++) assert_true(runs_well(p, n));
        assert_true(runs_well(p, 100003));
        pool_destroy(p);
    }
}

static void sizes(void **state)
{
    UNUSED(state);
    Pool *p = pool_create(0);
    assert_int_equal(pool_size(p), cpu_count());
    pool_destroy(p);
    pool_destroy(NULL);
    pool_destroy(pool_create(MAX_WORKER)); // without ever having run
}

// Tasks that wait for each other: they end only if all threads really work at the same time.
static void meet(void *user, int64_t begin, int64_t end, int worker)
{
    atomic_int *arrived = user;
    UNUSED(worker);
    atomic_fetch_add(arrived, (int)(end - begin));
    int64_t give_up = clock_ns() + INT64_C(20000000000);
    while (atomic_load(arrived) < 4 && clock_ns() < give_up) {
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
}

static void workers_run_at_the_same_time(void **state)
{
    UNUSED(state);
    Pool *p = pool_create(4);
    atomic_int arrived = 0;
    int64_t start = clock_ns();
    pool_run(p, 4, meet, &arrived);
    assert_int_equal(arrived, 4);
    assert_true(clock_ns() - start < INT64_C(15000000000));
    pool_destroy(p);
}

typedef struct Nest {
    Pool *pool, *other;
    atomic_int_fast64_t sum;
    atomic_bool bad;
} Nest;

typedef struct Inner {
    int64_t ntask, seen;
    int worker;
    bool bad;
} Inner;

static void inner(void *user, int64_t begin, int64_t end, int worker)
{
    Inner *in = user;
    if (begin != 0 || end != in->ntask || worker != in->worker) in->bad = true;
    in->seen += end - begin;
}

static void outer(void *user, int64_t begin, int64_t end, int worker)
{
    Nest *nest = user;
    for (int64_t i = begin; i < end; i++) {
        Inner in = {.ntask = i, .worker = worker};
        pool_run(i & 1 ? nest->pool : nest->other, i, inner, &in);
        if (in.bad) atomic_store(&nest->bad, true);
        atomic_fetch_add(&nest->sum, in.seen);
    }
}

static void nested_calls_run_serially(void **state)
{
    UNUSED(state);
    Nest nest = {.pool = pool_create(4), .other = pool_create(2)};
    pool_run(nest.pool, 1000, outer, &nest);
    assert_int_equal(nest.sum, 1000 * 999 / 2);
    assert_false(nest.bad);
    Inner in = {.ntask = 1};
    pool_run(nest.pool, 1, inner, &in); // and afterwards the caller is outside again
    assert_int_equal(in.seen, 1);
    assert_true(runs_well(nest.pool, 500));
    pool_destroy(nest.other);
    pool_destroy(nest.pool);
}

static void *calls(void *pool) // NULL if all went well
{
    for (int i = 0; i < 200; i++) {
        if (!runs_well(pool, i)) return pool;
    }
    return NULL;
}

static void callers_take_turns(void **state)
{
    UNUSED(state);
    Pool *p = pool_create(3);
    pthread_t thread[3];
    for (size_t i = 0; i < COUNT(thread); i++) {
        assert_int_equal(pthread_create(&thread[i], NULL, calls, p), 0);
    }
    for (size_t i = 0; i < COUNT(thread); i++) {
        void *failed;
        pthread_join(thread[i], &failed);
        assert_null(failed);
    }
    pool_destroy(p);
}

static void add_up(void *user, int64_t begin, int64_t end, int worker)
{
    int64_t *sum = user; // one per worker, 64 bytes apart
    for (int64_t i = begin; i < end; i++) sum[worker * 8] += i;
}

// Short jobs at all distances: workers are caught spinning, falling asleep, asleep and waking up.
static void many_short_jobs(void **state)
{
    UNUSED(state);
    for (int nthread = 2; nthread <= MAX_WORKER; nthread *= 2) {
        Pool *p = pool_create(nthread);
        for (int round = 0; round < 4000; round++) {
            int64_t sum[MAX_WORKER * 8] = {0}, all = 0, ntask = round % 37;
            pool_run(p, ntask, add_up, sum);
            for (int i = 0; i < MAX_WORKER; i++) all += sum[i * 8];
            assert_int_equal(all, ntask * (ntask - 1) / 2);
            if (round % 100 == 0) nanosleep(&(struct timespec){.tv_nsec = round * 50}, NULL);
        }
        pool_destroy(p);
    }
}

static void created_and_destroyed_often(void **state)
{
    UNUSED(state);
    for (int i = 0; i < 100; i++) {
        Pool *p = pool_create(1 + i % 5);
        assert_true(runs_well(p, i));
        pool_destroy(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_task_once),
        cmocka_unit_test(sizes),
        cmocka_unit_test(workers_run_at_the_same_time),
        cmocka_unit_test(nested_calls_run_serially),
        cmocka_unit_test(callers_take_turns),
        cmocka_unit_test(many_short_jobs),
        cmocka_unit_test(created_and_destroyed_often),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
