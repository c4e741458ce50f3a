// SPDX-License-Identifier: Apache-2.0
// Jobs in processes of their own: results, crashes, hangs, memory limits.
#include "base/jobs.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static int by_number(void *user, int job, Buf *out)
{
    (void)user;
    switch (job % 5) {
    case 0: buf_printf(out, "job %d", job); return 0;
    case 1: return 7;
    case 2: raise(SIGKILL); return 0;
    case 3: pause(); return 0;
    default:
        for (int i = 0; i < 10000; i++) buf_puts(out, "0123456789");
        return 0;
    }
}

static void count_done(void *user, int job, const JobResult *r)
{
    (void)job;
    (void)r;
    ++*(int *)user;
}

static void each_job_ends_by_itself(void **state)
{
    (void)state;
    enum { N = 10 };
    Arena a = {0};
    JobResult r[N];
    int done = 0;
    JobOptions o = {.nworker = 3, .limit_ms = 300, .done = count_done};
    assert_null(jobs_run(&a, N, &o, by_number, &done, r));
    assert_int_equal(done, N);
    for (int i = 0; i < N; i += 5) {
        char want[16];
        snprintf(want, sizeof want, "job %d", i);
        assert_string_equal(r[i].text, want);
        assert_int_equal(r[i].exit_status, 0);
        assert_int_equal(r[i + 1].exit_status, 7);
        assert_string_equal(r[i + 1].text, "");
        assert_int_equal(r[i + 2].exit_status, 128 + SIGKILL);
        assert_false(r[i + 2].timed_out);
        assert_true(r[i + 3].timed_out);
        assert_true(r[i + 3].time_ns >= 300 * 1000000);
        assert_true(strlen(r[i + 4].text) >= 1 << 15); // cut, and the job was not blocked
    }
    arena_free(&a);
}

static int eats_memory(void *user, int job, Buf *out)
{
    (void)user;
    (void)job;
    void *p = malloc((size_t)1 << 32);
    buf_puts(out, p ? "got it" : "refused");
    free(p);
    return 0;
}

static void memory_is_limited(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip();
#endif
    Arena a = {0};
    JobResult r[1];
    JobOptions o = {.memory_bytes = (int64_t)1 << 31};
    assert_null(jobs_run(&a, 1, &o, eats_memory, NULL, r));
    assert_string_equal(r[0].text, "refused");
    assert_null(jobs_run(&a, 0, &o, eats_memory, NULL, NULL));
    arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_job_ends_by_itself),
        cmocka_unit_test(memory_is_limited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
