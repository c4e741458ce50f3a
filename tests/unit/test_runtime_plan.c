// SPDX-License-Identifier: Apache-2.0
// Running plans: shapes from inputs, views, in-place values, workspaces, the cache of instances,
// hooks, threads that share a plan, running out of memory at every allocation, random programs.
#include "unit/plan_sample.h"

#include "runtime/plan.h"

#include <pthread.h>

static void test_run(void **state)
{
    UNUSED(state);
    Rig r = rig(&(RunOptions){.max_instances = 3});
    for (int round = 0; round < 3; round++) {
        for (int64_t n = 0; n <= 50; n += 10) {
            Inputs in = inputs(n);
            heald_tensor *out[2] = {NULL, NULL};
            Error e = {0};
            if (round == 1) out[1] = tensor(2, (int64_t[]){n, 4});
            heald_tensor *mine = out[1];
            assert_int_equal(plan_run_tensors(r.runner, in.at, out, &e), HEALD_OK);
            assert_true(right(&in, out, n));
            if (mine) assert_ptr_equal(out[1], mine);
            release2(in.at);
            release2(out);
        }
    }
    drop(&r);
}

static void test_instances(void **state)
{
    UNUSED(state);
    Rig r = rig(&(RunOptions){.max_instances = 2});
    const int64_t a[] = {8, 4}, b[] = {16, 4}, c[] = {4, 4};
    PlanInstance *first, *second, *again;
    Error e;
    assert_int_equal(plan_prepare(r.runner, (const int64_t *[]){a, a}, &first, &e), HEALD_OK);
    // t and u share 8 * 4 * 4 bytes; the workspace needs as much.
    assert_int_equal(plan_instance_bytes(first), 256);
    assert_int_equal(plan_instance_dims(first, 3)[0], 32);
    assert_int_equal(plan_prepare(r.runner, (const int64_t *[]){b, b}, &second, &e), HEALD_OK);
    // With an eighth to spare, so that one more row needs no other plan.
    assert_int_equal(plan_runner_bytes(r.runner), 640);
    const int64_t more[] = {17, 4};
    assert_int_equal(plan_prepare(r.runner, (const int64_t *[]){more, more}, &second, &e),
                     HEALD_OK);
    assert_int_equal(plan_instance_bytes(second), 640);
    assert_int_equal(plan_prepare(r.runner, (const int64_t *[]){a, a}, &first, &e), HEALD_OK);
    assert_int_equal(plan_prepare(r.runner, (const int64_t *[]){b, b}, &second, &e), HEALD_OK);
    assert_int_equal(plan_prepare(r.runner, (const int64_t *[]){a, a}, &again, &e), HEALD_OK);
    assert_ptr_equal(again, first);
    // b is the least recently used and makes room.
    assert_int_equal(plan_prepare(r.runner, (const int64_t *[]){c, c}, &second, &e), HEALD_OK);
    assert_int_equal(plan_prepare(r.runner, (const int64_t *[]){a, a}, &again, &e), HEALD_OK);
    assert_ptr_equal(again, first);
    drop(&r);
}

typedef struct Hooks {
    int nprofile, ncancel, cancel_at;
    int64_t ns;
    const char *name[8];
} Hooks;

static void profile(void *user, int step, const char *name, int64_t ns)
{
    Hooks *h = user;
    h->name[step] = name;
    h->nprofile++;
    h->ns += ns;
}

static bool cancel(void *user)
{
    Hooks *h = user;
    return h->ncancel++ == h->cancel_at;
}

static void test_hooks(void **state)
{
    UNUSED(state);
    Hooks h = {.cancel_at = -1};
    Rig r = rig(&(RunOptions){.profile = profile, .cancel = cancel, .user = &h});
    Inputs in = inputs(8);
    heald_tensor *out[2] = {NULL, NULL};
    Error e;
    assert_int_equal(plan_run_tensors(r.runner, in.at, out, &e), HEALD_OK);
    assert_int_equal(h.nprofile, 4);
    assert_true(h.ns > 0);
    assert_string_equal(h.name[1], "twice");
    assert_string_equal(h.name[3], "result");
    release2(out);
    out[0] = out[1] = NULL;
    h = (Hooks){.cancel_at = 2};
    assert_int_equal(plan_run_tensors(r.runner, in.at, out, &e), HEALD_CANCELLED);
    assert_string_equal(e.text, "cancelled before step 2 (sum)");
    assert_int_equal(h.nprofile, 2);
    assert_null(out[0]);
    release2(in.at);
    drop(&r);
}

enum { NTHREAD = 4 };

typedef struct Sharer {
    const Plan *plan;
    pthread_t thread;
    bool fine;
} Sharer;

static void *share(void *user)
{
    Sharer *s = user;
    Device *d;
    PlanRunner *r;
    if (device_open(&device_cpu, &(DeviceOptions){.nthread = 2}, &d, NULL)) return NULL;
    s->fine = !plan_runner_create(s->plan, d, NULL, &r, NULL);
    for (int64_t n = 0; n < 30 && s->fine; n++) {
        Inputs in = inputs(n % 7);
        heald_tensor *out[2] = {NULL, NULL};
        s->fine = !plan_run_tensors(r, in.at, out, NULL) && right(&in, out, n % 7);
        release2(in.at);
        release2(out);
    }
    plan_runner_destroy(r);
    device_close(d);
    return NULL;
}

static void test_threads_share_a_plan(void **state)
{
    UNUSED(state);
    Sample s = sample();
    Sharer sharer[NTHREAD];
    for (int i = 0; i < NTHREAD; i++) {
        sharer[i] = (Sharer){.plan = s.plan};
        assert_int_equal(pthread_create(&sharer[i].thread, NULL, share, &sharer[i]), 0);
    }
    for (int i = 0; i < NTHREAD; i++) {
        pthread_join(sharer[i].thread, NULL);
        assert_true(sharer[i].fine);
    }
    heald_tensor_release(s.w);
}

// One run from nothing, with the allocation after the next n failing. The runner must be usable
// afterwards.
static heald_status run_with_failure(const Plan *p, int n, const Inputs *in)
{
    Device *d = NULL;
    PlanRunner *r = NULL;
    heald_tensor *out[2] = {NULL, NULL};
    memory_fail_after(n);
    heald_status s = device_open(&device_cpu, &(DeviceOptions){.nthread = 1}, &d, NULL);
    if (!s) s = plan_runner_create(p, d, NULL, &r, NULL);
    if (!s) s = plan_run_tensors(r, (heald_tensor **)in->at, out, NULL);
    memory_fail_after(-1);
    if (s && r) {
        assert_null(out[0]);
        assert_null(out[1]);
        assert_int_equal(plan_run_tensors(r, (heald_tensor **)in->at, out, NULL), HEALD_OK);
    }
    if (r) assert_true(right(in, out, 8));
    release2(out);
    plan_runner_destroy(r);
    device_close(d);
    return s;
}

static void test_out_of_memory(void **state)
{
    UNUSED(state);
    Sample s = sample();
    Inputs in = inputs(8);
    heald_status st = HEALD_NO_MEMORY;
    int n = 0;
    for (; st; n++) {
        st = run_with_failure(s.plan, n, &in);
        assert_true(st == HEALD_OK || st == HEALD_NO_MEMORY);
    }
    assert_true(n > 5);
    release2(in.at);
    heald_tensor_release(s.w);
}

static uint64_t seed = 7;

static int below(int n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int)((seed >> 33) % (uint64_t)n);
}

// Random programs of additions over temporaries, against plain evaluation: a value that lost its
// memory too early shows.
static void test_random_programs(void **state)
{
    UNUSED(state);
    enum { NSTEP = 40, N = 20 };
    Device *d;
    assert_int_equal(device_open(&device_cpu, &(DeviceOptions){.nthread = 2}, &d, NULL), 0);
    for (int c = 0; c < 30; c++) {
        Plan *p = plan_new(&arena);
        ShapeExpr n = shape_dim(&arena, plan_dim(p, NULL, 0, 0));
        int value[NSTEP + 1] = {plan_input(p, "x", DT_F32, 1, &n)};
        float want[NSTEP + 1] = {1};
        for (int i = 1; i <= NSTEP; i++) {
            int x = below(4) ? i - 1 : below(i), y = below(i);
            bool last = i == NSTEP;
            value[i] =
                last ? plan_output(p, "y", DT_F32, 1, &n) : plan_temp(p, NULL, DT_F32, 1, &n, -1);
            bool twice = below(3) == 0;
            want[i] = twice ? 2 * want[x] : want[x] + want[y];
            // Keep the numbers exact.
            if (want[i] > 1e6f) {
                want[i] = 2;
                emit_double(p, value[0], value[i], n);
            } else if (twice) {
                emit_double(p, value[x], value[i], n);
            } else {
                emit_add(p, value[x], value[y], value[i], n);
            }
        }
        PlanRunner *r;
        assert_int_equal(plan_runner_create(p, d, NULL, &r, NULL), HEALD_OK);
        heald_tensor *x = tensor(1, (int64_t[]){N}), *out = NULL;
        for (int i = 0; i < N; i++) data(x)[i] = 1;
        Error e;
        assert_int_equal(plan_run_tensors(r, &x, &out, &e), HEALD_OK);
        for (int i = 0; i < N; i++) assert_true(data(out)[i] == want[NSTEP]);
        heald_tensor_release(x);
        heald_tensor_release(out);
        plan_runner_destroy(r);
    }
    device_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_run),           cmocka_unit_test(test_instances),
        cmocka_unit_test(test_hooks),         cmocka_unit_test(test_threads_share_a_plan),
        cmocka_unit_test(test_out_of_memory), cmocka_unit_test(test_random_programs),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
