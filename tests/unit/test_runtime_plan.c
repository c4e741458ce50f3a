// SPDX-License-Identifier: Apache-2.0
// Plans: shapes from inputs, views, in-place values, workspaces, the cache of instances, refusals,
// hooks, threads that share a plan, and running out of memory at every allocation.
#include "runtime/memory.h"
#include "runtime/plan.h"

#include "base/util.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static Arena arena;

// z = x + y, elements (n) of f32; dims: n, block size.
static int32_t add_blocks(void *const *buffers, const int64_t *dims, int64_t first, int64_t last,
                          void *scratch)
{
    UNUSED(scratch);
    const float *x = buffers[0], *y = buffers[1];
    float *z = buffers[2];
    int64_t end = min_i64(last * dims[1], dims[0]);
    for (int64_t i = first * dims[1]; i < end; i++) z[i] = x[i] + y[i];
    return 0;
}

// y = 2 * x by way of a workspace, in two stages; dims: n. A check refuses the value -13.
static int32_t double_in(void *const *buffers, const int64_t *dims, int64_t first, int64_t last,
                         void *scratch)
{
    UNUSED(scratch);
    UNUSED(dims);
    const float *x = buffers[0];
    float *w = buffers[2];
    for (int64_t i = first; i < last; i++) {
        if (x[i] == -13) return 1;
        w[i] = 2 * x[i];
    }
    return 0;
}
static int32_t double_out(void *const *buffers, const int64_t *dims, int64_t first, int64_t last,
                          void *scratch)
{
    UNUSED(scratch);
    UNUSED(dims);
    memcpy((float *)buffers[1] + first, (float *)buffers[2] + first, (size_t)(last - first) * 4);
    return 0;
}

static const RuntimeKernel *add_kernel(void)
{
    ShapeExpr n = shape_dim(&arena, 0), block = shape_dim(&arena, 1);
    ShapeExpr up =
        shape_op(&arena, SHAPE_ADD, n, shape_op(&arena, SHAPE_SUB, block, shape_const(&arena, 1)));
    RuntimeStage *stage = NEW(&arena, RuntimeStage);
    *stage = (RuntimeStage){.name = "main",
                            .entry.cpu = add_blocks,
                            .ngrid = 1,
                            .grid = {shape_op(&arena, SHAPE_DIV, up, block)}};
    RuntimeKernel *k = NEW(&arena, RuntimeKernel);
    *k = (RuntimeKernel){.name = "add", .ndim = 2, .nparam = 3, .nstage = 1, .stage = stage};
    return k;
}

static const RuntimeKernel *double_kernel(void)
{
    ShapeExpr n = shape_dim(&arena, 0);
    RuntimeStage *stage = NEW_ARRAY(&arena, RuntimeStage, 2);
    stage[0] = (RuntimeStage){.name = "in", .entry.cpu = double_in, .ngrid = 1, .grid = {n}};
    stage[1] = (RuntimeStage){.name = "out", .entry.cpu = double_out, .ngrid = 1, .grid = {n}};
    ShapeExpr *bytes = NEW(&arena, ShapeExpr);
    *bytes = shape_op(&arena, SHAPE_MUL, n, shape_const(&arena, 4));
    RuntimeRequirement *require = NEW(&arena, RuntimeRequirement);
    *require = (RuntimeRequirement){shape_op(&arena, SHAPE_LT, n, shape_const(&arena, 10000)),
                                    "n is below 10000"};
    RuntimeKernel *k = NEW(&arena, RuntimeKernel);
    *k = (RuntimeKernel){.name = "double",
                         .ndim = 1,
                         .nparam = 2,
                         .nworkspace = 1,
                         .nstage = 2,
                         .nrequirement = 1,
                         .workspace_bytes = bytes,
                         .stage = stage,
                         .require = require};
    return k;
}

static ShapeExpr times(ShapeExpr x, int64_t c)
{
    return shape_op(&arena, SHAPE_MUL, x, shape_const(&arena, c));
}

static void emit_add(Plan *p, int x, int y, int z, ShapeExpr n)
{
    plan_launch(p, "sum", add_kernel(), (int[]){x, y, z}, (ShapeExpr[]){n, shape_const(&arena, 5)});
}

static void emit_double(Plan *p, int x, int y, ShapeExpr n)
{
    plan_launch(p, "twice", double_kernel(), (int[]){x, y}, &n);
}

// a, b: (n, 4). t = a + b; u = 2 t, flat and in place of t; out0: (2 n) is the upper half of u plus
// w[100 ..]; out1: (n, 4) is a copy of u.
typedef struct Sample {
    Plan *plan;
    heald_tensor *w;
} Sample;

static Sample sample(void)
{
    Plan *p = plan_new(&arena);
    ShapeExpr n = shape_dim(&arena, plan_dim(p, "n", 0, 0)), four = shape_const(&arena, 4);
    ShapeExpr shape[] = {n, four}, all = times(n, 4), half = times(n, 2);
    heald_tensor *w;
    assert_int_equal(heald_tensor_create(HEALD_F32, 1, (int64_t[]){200}, &w), HEALD_OK);
    for (int i = 0; i < 200; i++) ((float *)heald_tensor_data(w))[i] = (float)i;
    int a = plan_input(p, "a", DT_F32, 2, shape), b = plan_input(p, "b", DT_F32, 2, shape);
    int t = plan_temp(p, "t", DT_F32, 2, shape, -1);
    int u = plan_temp(p, "u", DT_F32, 1, &all, t);
    int flat = plan_view(p, NULL, t, shape_const(&arena, 0), DT_F32, 1, &all);
    int upper = plan_view(p, "upper", u, half, DT_F32, 1, &half);
    int constant = plan_const(p, "w", w);
    int part = plan_view(p, NULL, constant, shape_const(&arena, 100), DT_F32, 1, &half);
    int out0 = plan_output(p, "out0", DT_F32, 1, &half);
    int out1 = plan_output(p, "out1", DT_F32, 2, shape);
    emit_add(p, a, b, t, all);
    emit_double(p, flat, u, all);
    emit_add(p, upper, part, out0, half);
    plan_copy(p, "result", u, out1);
    return (Sample){p, w};
}

static heald_tensor *tensor(int rank, const int64_t *dims)
{
    heald_tensor *t;
    assert_int_equal(heald_tensor_create(HEALD_F32, rank, dims, &t), HEALD_OK);
    return t;
}

static float *data(heald_tensor *t)
{
    return heald_tensor_data(t);
}

typedef struct Inputs {
    heald_tensor *at[2];
} Inputs;

static Inputs inputs(int64_t n)
{
    Inputs in;
    for (int k = 0; k < 2; k++) {
        in.at[k] = tensor(2, (int64_t[]){n, 4});
        for (int64_t i = 0; i < 4 * n; i++) data(in.at[k])[i] = (float)(i * (k + 1) % 37);
    }
    return in;
}

static void release2(heald_tensor **t)
{
    for (int i = 0; i < 2; i++) heald_tensor_release(t[i]);
}

static bool right(const Inputs *in, heald_tensor *const *out, int64_t n)
{
    if (out[0]->rank != 1 || out[0]->dims[0] != 2 * n) return false;
    if (out[1]->rank != 2 || out[1]->dims[0] != n || out[1]->dims[1] != 4) return false;
    for (int64_t i = 0; i < 4 * n; i++) {
        float u = 2 * (data(in->at[0])[i] + data(in->at[1])[i]);
        if (data(out[1])[i] != u) return false;
        if (i >= 2 * n && data(out[0])[i - 2 * n] != u + (float)(100 + i - 2 * n)) return false;
    }
    return true;
}

typedef struct Rig {
    Sample s;
    Device *device;
    PlanRunner *runner;
} Rig;

static Rig rig(const RunOptions *o)
{
    Rig r = {.s = sample()};
    Error e;
    assert_int_equal(device_open(&device_cpu, &(DeviceOptions){.nthread = 2}, &r.device, &e), 0);
    assert_int_equal(plan_runner_create(r.s.plan, r.device, o, &r.runner, &e), HEALD_OK);
    return r;
}

static void drop(Rig *r)
{
    plan_runner_destroy(r->runner);
    device_close(r->device);
    heald_tensor_release(r->s.w);
}

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

static void test_refusals(void **state)
{
    UNUSED(state);
    Rig r = rig(NULL);
    Error e;
    PlanInstance *p;
    const int64_t a[] = {8, 4}, b[] = {9, 4}, negative[] = {-1, 4}, big[] = {60, 4};
    const int64_t huge[] = {INT64_MAX / 2, 4}, many[] = {3000, 4};
    assert_int_equal(plan_prepare(r.runner, (const int64_t *[]){a, b}, &p, &e),
                     HEALD_INVALID_ARGUMENT);
    assert_string_equal(e.text, "input 1 (b) has shape f32[9, 4] instead of f32[8, 4]");
    assert_null(p);
    assert_int_equal(plan_prepare(r.runner, (const int64_t *[]){negative, negative}, &p, &e),
                     HEALD_INVALID_ARGUMENT);
    assert_int_equal(plan_prepare(r.runner, (const int64_t *[]){huge, huge}, &p, &e),
                     HEALD_INVALID_ARGUMENT);
    assert_int_equal(plan_prepare(r.runner, (const int64_t *[]){big, big}, &p, &e),
                     HEALD_INVALID_ARGUMENT);
    assert_string_equal(e.text, "value 7: 480 bytes from element 100 on are outside the 800 bytes "
                                "that it views");
    assert_int_equal(plan_prepare(r.runner, (const int64_t *[]){many, many}, &p, &e),
                     HEALD_INVALID_ARGUMENT);

    assert_int_equal(plan_prepare(r.runner, (const int64_t *[]){a, a}, &p, &e), HEALD_OK);
    Inputs in = inputs(8), other = inputs(9);
    heald_tensor *out[2] = {NULL, NULL};
    assert_int_equal(plan_run(p, other.at, out, &e), HEALD_INVALID_ARGUMENT);
    assert_string_equal(e.text, "input 0 (a) is f32[9, 4] instead of f32[8, 4]");
    assert_int_equal(plan_run(p, (heald_tensor *[]){in.at[0], NULL}, out, &e),
                     HEALD_INVALID_ARGUMENT);
    out[1] = other.at[0];
    assert_int_equal(plan_run(p, in.at, out, &e), HEALD_INVALID_ARGUMENT);
    assert_null(out[0]);
    out[1] = in.at[0];
    assert_int_equal(plan_run(p, in.at, out, &e), HEALD_INVALID_ARGUMENT);
    assert_string_equal(e.text, "output 1 shares memory with input 0");
    assert_null(out[0]);
    out[1] = NULL;
    data(in.at[0])[5] = -13;
    data(in.at[1])[5] = 0;
    assert_int_equal(plan_run(p, in.at, out, &e), HEALD_CHECK_FAILED);
    assert_string_equal(e.text, "step 1 (twice): kernel double, stage in: check 1 failed");
    assert_null(out[0]);
    assert_null(out[1]);
    release2(in.at);
    release2(other.at);
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

static void test_print(void **state)
{
    UNUSED(state);
    Sample s = sample();
    Buf b;
    buf_init(&b, &arena);
    plan_print(s.plan, &b);
    assert_string_equal(buf_text(&b), "dim n = axis 0 of input 0\n"
                                      "%0 = input f32[n, 4]  \"a\"\n"
                                      "%1 = input f32[n, 4]  \"b\"\n"
                                      "%2 = temp f32[n, 4]  \"t\"\n"
                                      "%3 = temp f32[n * 4] in place of %2  \"u\"\n"
                                      "%4 = view f32[n * 4] of %2 from 0\n"
                                      "%5 = view f32[n * 2] of %3 from n * 2  \"upper\"\n"
                                      "%6 = const f32[200]  \"w\"\n"
                                      "%7 = view f32[n * 2] of %6 from 100\n"
                                      "%8 = output f32[n * 2]  \"out0\"\n"
                                      "%9 = output f32[n, 4]  \"out1\"\n"
                                      "launch add<n * 4, 5>(%0, %1, %2)  \"sum\"\n"
                                      "launch double<n * 4>(%4, %3)  \"twice\"\n"
                                      "launch add<n * 2, 5>(%5, %7, %8)  \"sum\"\n"
                                      "copy(%3, %9)  \"result\"\n");
    heald_tensor_release(s.w);
}

static void expect_bad(Plan *p, const char *text)
{
    Error e;
    assert_int_equal(plan_verify(p, &e), HEALD_FORMAT);
    assert_string_equal(e.text, text);
}

static void test_verify(void **state)
{
    UNUSED(state);
    Sample s = sample();
    Plan *p = s.plan;
    PlanValue *v = p->values.at, kept;
    assert_int_equal(plan_verify(p, NULL), HEALD_OK);
#define TRY(change, text)    \
    do {                     \
        kept = v[5];         \
        change;              \
        expect_bad(p, text); \
        v[5] = kept;         \
    } while (0)
    TRY(v[5].base = 5, "value 5 of the plan stands before the value whose memory it uses");
    TRY(v[5].base = -1, "value 5 of the plan is a view of nothing");
    TRY(v[5].kind = (PlanValueKind)9, "value 5 of the plan has an unknown kind");
    TRY(v[5].dtype = DT_NONE, "value 5 of the plan has an unknown type");
    TRY(v[5].rank = 99, "value 5 of the plan has an impossible rank");
    TRY(v[5].kind = VALUE_CONST, "value 5 of the plan is a constant without a tensor");
    TRY(v[5].kind = VALUE_OUTPUT, "value 5 of the plan takes over memory that is not temporary");
    TRY(v[5].offset.n = 0, "value 5 of the plan has a malformed offset");
    TRY((v[5].kind = VALUE_INPUT, v[5].base = -1),
        "the plan's lists of inputs and outputs are wrong");
#undef TRY
    p->dims.at[0].axis = 2;
    expect_bad(p, "dimension 0 of the plan is of no input");
    p->dims.at[0].axis = 0;
    p->steps.at[3].nvalue = 1;
    expect_bad(p, "step 3 of the plan has not two values");
    p->steps.at[3].nvalue = 2;
    p->steps.at[1].kernel = add_kernel();
    expect_bad(p, "step 1 of the plan has not the kernel's number of parameters");
    p->steps.at[1].value = (int[]){0, 10};
    expect_bad(p, "step 1 of the plan has a value that does not exist");
    Device *d;
    PlanRunner *r;
    assert_int_equal(device_open(&device_cpu, NULL, &d, NULL), HEALD_OK);
    assert_int_equal(plan_runner_create(p, d, NULL, &r, NULL), HEALD_FORMAT);
    assert_null(r);
    device_close(d);
    heald_tensor_release(s.w);
}

// A chain of in-place sums. twice: the third takes the first one's memory, as the second does.
// late: the first is read at the end.
static heald_status try_alias(bool twice, bool late)
{
    Plan *p = plan_new(&arena);
    ShapeExpr n = shape_dim(&arena, plan_dim(p, NULL, 0, 0));
    int x = plan_input(p, "x", DT_F32, 1, &n);
    int t1 = plan_temp(p, NULL, DT_F32, 1, &n, -1), t2 = plan_temp(p, NULL, DT_F32, 1, &n, t1);
    int t3 = plan_temp(p, NULL, DT_F32, 1, &n, twice ? t1 : t2);
    int y = plan_output(p, "y", DT_F32, 1, &n);
    emit_add(p, x, x, t1, n);
    emit_add(p, x, t1, t2, n);
    emit_add(p, x, t2, t3, n);
    emit_add(p, t3, late ? t1 : x, y, n);
    Device *d;
    PlanRunner *r;
    Error e;
    assert_int_equal(device_open(&device_cpu, &(DeviceOptions){.nthread = 1}, &d, &e), 0);
    heald_status s = plan_runner_create(p, d, NULL, &r, &e);
    if (s) assert_non_null(strstr(e.text, "which is still in use"));
    plan_runner_destroy(r);
    device_close(d);
    return s;
}

static void test_unsafe_aliases(void **state)
{
    UNUSED(state);
    assert_int_equal(try_alias(false, false), HEALD_OK);
    assert_int_equal(try_alias(true, false), HEALD_FORMAT);
    assert_int_equal(try_alias(false, true), HEALD_FORMAT);
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

static int teardown(void **state)
{
    UNUSED(state);
    arena_free(&arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_run),
        cmocka_unit_test(test_instances),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_hooks),
        cmocka_unit_test(test_print),
        cmocka_unit_test(test_verify),
        cmocka_unit_test(test_unsafe_aliases),
        cmocka_unit_test(test_threads_share_a_plan),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_random_programs),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
