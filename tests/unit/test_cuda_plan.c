// SPDX-License-Identifier: Apache-2.0
// Plans on a GPU: recorded, replayed, changed when tensors move, and what happens when that fails.
// The stand-in for the driver runs the nodes of a graph in an order far from the one in which they
// were added, so a dependency that is missing shows.
#include "device/fake_kit.h"

#include "base/util.h"
#include "runtime/memory.h"
#include "runtime/plan.h"
#include "runtime/tensor.h"

enum { MAX_VALUES = 60 };

typedef uint64_t Rng;

static uint64_t rng_next(Rng *r) // splitmix64, Steele, Lea and Flood 2014
{
    uint64_t z = *r += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static uint64_t rng_below(Rng *r, uint64_t n)
{
    return rng_next(r) % n;
}

// z = 2 x - y, n elements; by way of a workspace in the second kernel.
static void combine(const uint64_t *argument)
{
    const int32_t *x = (void *)(uintptr_t)argument[0], *y = (void *)(uintptr_t)argument[1];
    int32_t *z = (void *)(uintptr_t)argument[2];
    for (uint64_t i = 0; i < argument[3]; i++)
        z[i] = (int32_t)(2u * (uint32_t)x[i] - (uint32_t)y[i]);
}
static void first_half(const uint64_t *argument)
{
    combine((uint64_t[]){argument[0], argument[1], argument[3], argument[4]});
}
static void second_half(const uint64_t *argument)
{
    memcpy((void *)(uintptr_t)argument[2], (void *)(uintptr_t)argument[3], 4 * argument[4]);
    memset((void *)(uintptr_t)argument[3], 0x55, 4 * argument[4]);
}

static const FakeFunction combine_function = {FAKE_FUNCTION, 4, combine},
                          first_function = {FAKE_FUNCTION, 5, first_half},
                          second_function = {FAKE_FUNCTION, 5, second_half};

static const RuntimeKernel *combine_kernel(bool overlaps)
{
    RuntimeStage *stage = NEW(&arena, RuntimeStage);
    *stage = (RuntimeStage){
        .name = "main", .entry.handle = &combine_function, .nthread = 32, .overlaps = overlaps};
    RuntimeKernel *k = NEW(&arena, RuntimeKernel);
    *k = (RuntimeKernel){
        .name = "combine", .ndim = 1, .nparam = 3, .noutput = 1, .nstage = 1, .stage = stage};
    return k;
}

static const RuntimeKernel *staged_kernel(void)
{
    RuntimeStage *stage = NEW_ARRAY(&arena, RuntimeStage, 2);
    stage[0] = (RuntimeStage){.name = "a", .entry.handle = &first_function, .nthread = 32};
    stage[1] = (RuntimeStage){.name = "b", .entry.handle = &second_function, .nthread = 32};
    ShapeExpr *bytes = NEW(&arena, ShapeExpr);
    *bytes = shape_op(&arena, SHAPE_MUL, shape_dim(&arena, 0), shape_const(&arena, 4));
    RuntimeKernel *k = NEW(&arena, RuntimeKernel);
    *k = (RuntimeKernel){.name = "staged",
                         .ndim = 1,
                         .nparam = 3,
                         .noutput = 1,
                         .nworkspace = 1,
                         .nstage = 2,
                         .stage = stage,
                         .workspace_bytes = bytes};
    return k;
}

// ---- random plans

typedef struct Sample {
    Plan *plan;
    int nvalue, ninput, noutput;
    struct {
        int x, y; // -1: an input. y < 0: a copy of x
    } from[MAX_VALUES];
    int value[MAX_VALUES];  // in the plan
    int output[MAX_VALUES]; // number of the sample's value
} Sample;

static ShapeExpr extent(void)
{
    return shape_dim(&arena, 0);
}

static void add_step(Sample *s, Rng *rng, int i, int value)
{
    const RuntimeKernel *k =
        rng_below(rng, 4) ? combine_kernel(rng_below(rng, 2)) : staged_kernel();
    int x = (int)rng_below(rng, (uint64_t)i), y = (int)rng_below(rng, (uint64_t)i);
    ShapeExpr n = extent();
    s->value[i] = value;
    s->from[i].x = x;
    s->from[i].y = y;
    if (rng_below(rng, 6) == 0) {
        s->from[i].y = -1;
        plan_copy(s->plan, "copy", s->value[x], value);
    } else {
        plan_launch(s->plan, "step", k, (int[]){s->value[x], s->value[y], value}, &n);
    }
}

static Sample random_plan(Rng *rng)
{
    Sample s = {.plan = plan_new(&arena), .ninput = 2, .noutput = 1 + (int)rng_below(rng, 3)};
    ShapeExpr n = extent();
    plan_dim(s.plan, "n", 0, 0);
    for (int i = 0; i < 2; i++) {
        s.value[i] = plan_input(s.plan, "in", DT_I32, 1, &n);
        s.from[i].x = -1;
    }
    int nstep = 3 + (int)rng_below(rng, 30);
    s.nvalue = 2;
    for (int i = 0; i < nstep; i++, s.nvalue++) {
        int v = plan_temp(s.plan, "t", DT_I32, 1, &n, -1);
        if (rng_below(rng, 4) == 0)
            v = plan_view(s.plan, "v", v, shape_const(&arena, 0), DT_I32, 1, &n);
        add_step(&s, rng, s.nvalue, v);
    }
    for (int i = 0; i < s.noutput; i++) {
        s.output[i] = s.nvalue;
        add_step(&s, rng, s.nvalue++, plan_output(s.plan, "out", DT_I32, 1, &n));
    }
    return s;
}

static void compute(const Sample *s, int n, int32_t *const *input, int32_t **value)
{
    for (int i = 0; i < s->nvalue; i++) {
        if (i < s->ninput) {
            value[i] = input[i];
            continue;
        }
        value[i] = NEW_ARRAY(&arena, int32_t, n);
        const int32_t *x = value[s->from[i].x], *y = s->from[i].y < 0 ? x : value[s->from[i].y];
        for (int k = 0; k < n; k++) value[i][k] = (int32_t)(2u * (uint32_t)x[k] - (uint32_t)y[k]);
    }
}

// One run in new memory: inputs and outputs lie elsewhere each time, unless `data` is at hand.
static void run_once(const Sample *s, PlanRunner *r, Device *d, int n, Rng *rng, int32_t **data)
{
    heald_tensor *in[2], *out[3];
    int64_t dims[] = {n};
    int32_t *value[MAX_VALUES];
    for (int i = 0; i < s->ninput + s->noutput; i++) {
        if (!data[i]) data[i] = aligned_alloc(64, 4096);
        for (int k = 0; k < n; k++) data[i][k] = (int32_t)rng_next(rng);
        assert_int_equal(tensor_from_memory(d, DT_I32, 1, dims, data[i], NULL, NULL,
                                            i < s->ninput ? &in[i] : &out[i - s->ninput], &error),
                         HEALD_OK);
    }
    compute(s, n, data, value);
    if (plan_run_tensors(r, in, out, &error)) fail_msg("%s", error.text);
    for (int i = 0; i < s->noutput; i++) {
        assert_memory_equal(data[s->ninput + i], value[s->output[i]], (size_t)n * 4);
        heald_tensor_release(out[i]);
    }
    for (int i = 0; i < s->ninput; i++) heald_tensor_release(in[i]);
}

static void release(int32_t **data)
{
    for (int i = 0; i < 5; i++) {
        free(data[i]);
        data[i] = NULL;
    }
}

static void test_random_plans(void **state)
{
    (void)state;
    Device *d = open_device();
    Rng rng = 7;
    for (int trial = 0; trial < 200; trial++) {
        Sample s = random_plan(&rng);
        PlanRunner *r;
        int32_t *data[5] = {0};
        assert_int_equal(plan_runner_create(s.plan, d, NULL, &r, &error), HEALD_OK);
        int replays = fake->replays, graphs = fake->graphs;
        for (int run = 0; run < 8; run++) {
            if (run == 4 || run == 6) release(data);
            run_once(&s, r, d, run == 7 ? 50 : 33, &rng, data);
        }
        assert_int_equal(fake->replays - replays, 6); // all but the first of each extent
        plan_runner_destroy(r);
        assert_int_equal(fake->graphs, graphs);
        assert_int_equal(fake->execs, 0);
        release(data);
    }
    assert_true(fake->overlaps > 0);
    assert_true(fake->changes > 0);
    device_close(d);
    assert_int_equal(fake->live, 0);
}

// ---- what the graph looks like

// Two chains of `length` from an input, joined at the end.
static Plan *two_branches(int length)
{
    Plan *p = plan_new(&arena);
    ShapeExpr n = extent();
    plan_dim(p, "n", 0, 0);
    const RuntimeKernel *k = combine_kernel(false);
    int x = plan_input(p, "x", DT_I32, 1, &n), end[2];
    for (int b = 0; b < 2; b++) {
        end[b] = x;
        for (int i = 0; i < length; i++) {
            int t = plan_temp(p, "t", DT_I32, 1, &n, -1);
            plan_launch(p, "link", k, (int[]){end[b], x, t}, &n);
            end[b] = t;
        }
    }
    int out = plan_output(p, "out", DT_I32, 1, &n);
    plan_launch(p, "join", k, (int[]){end[0], end[1], out}, &n);
    return p;
}

static heald_status run(Rig *g)
{
    return plan_run_tensors(g->runner, &g->in, &g->out, &error);
}

static void test_branches(void **state)
{
    (void)state;
    Rig g = rig(two_branches(5), NULL);
    for (int i = 0; i < 3; i++) assert_int_equal(run(&g), HEALD_OK);
    assert_int_equal(fake->nodes, 11);
    assert_int_equal(fake->edges, 10); // 4 in each branch, 2 at the end: nothing else is in line
    assert_int_equal(fake->replays, 2);
    assert_int_equal(fake->waits, 0); // nobody waits
    rig_close(&g);
}

// A kernel whose blocks meet keeps that when it is recorded, and starts when all before it has
// ended.
static void test_cooperative_node(void **state)
{
    (void)state;
    Plan *p = plan_new(&arena);
    ShapeExpr n = extent();
    plan_dim(p, "n", 0, 0);
    RuntimeKernel *k = arena_copy(&arena, combine_kernel(true), sizeof *k);
    RuntimeStage *stage = arena_copy(&arena, k->stage, sizeof *stage);
    stage->cooperative = true;
    stage->overlaps = false;
    k->stage = stage;
    int v = plan_input(p, "x", DT_I32, 1, &n), x = v;
    for (int i = 0; i < 3; i++) {
        int to =
            i == 2 ? plan_output(p, "out", DT_I32, 1, &n) : plan_temp(p, "t", DT_I32, 1, &n, -1);
        plan_launch(p, "meet", k, (int[]){v, x, to}, &n);
        v = to;
    }
    Rig g = rig(p, NULL);
    for (int i = 0; i < 2; i++) assert_int_equal(run(&g), HEALD_OK);
    assert_int_equal(fake->replays, 1);
    assert_int_equal(fake->nlaunch, 6);
    for (int i = 0; i < 6; i++) assert_int_equal(fake->launch[i].cooperative, 1);
    assert_int_equal(fake->overlaps, 0);
    rig_close(&g);
}

static void test_few_steps(void **state)
{
    (void)state;
    Plan *p = plan_new(&arena);
    ShapeExpr n = extent();
    plan_dim(p, "n", 0, 0);
    int x = plan_input(p, "x", DT_I32, 1, &n), out = plan_output(p, "out", DT_I32, 1, &n);
    plan_launch(p, "one", combine_kernel(true), (int[]){x, x, out}, &n);
    Rig g = rig(p, NULL);
    for (int i = 0; i < 3; i++) assert_int_equal(run(&g), HEALD_OK);
    assert_int_equal(fake->nodes, 0);
    assert_int_equal(fake->overlaps, 3); // launched as one that may start early
    rig_close(&g);
}

static void test_switched_off(void **state)
{
    (void)state;
    setenv("HEALD_CUDA_GRAPH", "0", 1);
    Rig g = rig(two_branches(5), NULL);
    for (int i = 0; i < 3; i++) assert_int_equal(run(&g), HEALD_OK);
    assert_int_equal(fake->nodes, 0);
    rig_close(&g);
}

static void test_stream(void **state)
{
    (void)state;
    int mine;
    Rig g = rig(two_branches(5), NULL);
    for (int i = 0; i < 2; i++) assert_int_equal(run(&g), HEALD_OK);
    assert_ptr_equal(fake->last_stream, cuda_stream(g.device));
    assert_int_equal(g.device->ops->set_stream(g.device, &mine, &error), HEALD_OK);
    assert_int_equal(run(&g), HEALD_OK); // the same graph
    assert_ptr_equal(fake->last_stream, &mine);
    assert_int_equal(fake->nodes, 11);
    rig_close(&g);
}

// Tensors of the caller that are not aligned as kernels want it are copied.
static void test_any_address(void **state)
{
    (void)state;
    Rig g = rig(two_branches(5), NULL);
    const int64_t dims[] = {16};
    _Alignas(16) int32_t from[20], to[20];
    heald_tensor *in, *out;
    for (int i = 0; i < 20; i++) from[i] = i;
    tensor_from_memory(g.device, DT_I32, 1, dims, from + 1, NULL, NULL, &in, NULL);
    tensor_from_memory(g.device, DT_I32, 1, dims, to + 3, NULL, NULL, &out, NULL);
    expect(plan_run_tensors(g.runner, &in, &out, &error), HEALD_INVALID_ARGUMENT,
           "input 0 (x) is not aligned in memory of device cuda");
    assert_int_equal(plan_run_host(g.runner, &in, &out, &error), HEALD_OK);
    memcpy(g.in->data, from + 1, 64);
    assert_int_equal(run(&g), HEALD_OK);
    assert_memory_equal(to + 3, g.out->data, 64);
    assert_int_equal(fake->waits, 0);
    heald_tensor_release(in);
    heald_tensor_release(out);
    rig_close(&g);
}

// ---- older drivers

// The stand-in without what came later.
static void use_older(const char *which)
{
    const char *path = build_driver_as(which);
    assert_non_null(path);
    setenv("HEALD_CUDA_DRIVER", path, 1);
}

static void test_older_driver(void **state)
{
    (void)state;
    use_older("-DFAKE_CUDA_12_0");
    Rig g = rig(two_branches(5), NULL);
    const int32_t want[16] = {0};
    for (int i = 0; i < 3; i++) assert_int_equal(run(&g), HEALD_OK); // nothing overlaps
    assert_memory_equal(g.out->data, want, sizeof want);
    rig_close(&g);
}

static void test_much_older_driver(void **state)
{
    (void)state;
    use_older("-DFAKE_CUDA_9");
    Device *d = NULL;
    expect(device_open(&device_cuda, NULL, &d, &error), HEALD_DEVICE,
           "the NVIDIA driver is too old: it lacks cuGraphCreate; one for CUDA 11.4 or newer");
}

// ---- failures

static void test_recording_fails(void **state)
{
    (void)state;
    const char *const where[] = {"GRAPH", "INSTANTIATE"};
    for (int i = 0; i < 2; i++) {
        Rig g = rig(two_branches(5), NULL);
        set(where[i], 801);
        for (int k = 0; k < 3; k++) assert_int_equal(run(&g), HEALD_OK); // launched one by one
        assert_int_equal(fake->replays, 0);
        set(where[i], 0);
        rig_close(&g);
    }
}

static void test_change_fails(void **state)
{
    (void)state;
    Rig g = rig(two_branches(5), NULL);
    const int64_t dims[] = {16};
    for (int i = 0; i < 2; i++) assert_int_equal(run(&g), HEALD_OK);
    heald_tensor *moved;
    assert_int_equal(tensor_create_on(g.device, DT_I32, 1, dims, &moved, &error), HEALD_OK);
    memset(moved->data, 0, 64);
    set("CHANGE", 801);
    assert_int_equal(plan_run_tensors(g.runner, &moved, &g.out, &error), HEALD_OK);
    assert_int_equal(fake->replays, 2); // recorded anew
    assert_int_equal(fake->graphs, 1);
    heald_tensor_release(moved);
    rig_close(&g);
}

static void test_fault(void **state)
{
    (void)state;
    Rig g = rig(two_branches(5), NULL);
    for (int i = 0; i < 2; i++) assert_int_equal(run(&g), HEALD_OK);
    set("REPLAY", 719);
    expect(run(&g), HEALD_DEVICE, "step 0 (link): the GPU's context is lost, by one of ");
    assert_non_null(strstr(error.text, "from combine to combine (HEALD_CUDA_SYNC=1 tells which)"));
    set("REPLAY", 0);
    expect(run(&g), HEALD_DEVICE, "the GPU's context is lost"); // and stays so
    heald_tensor_release(g.in);
    heald_tensor_release(g.out);
    plan_runner_destroy(g.runner);
    device_close(g.device);
    assert_int_equal(fake->contexts, 0);
    assert_int_equal(fake->graphs, 0);
}

static void test_fault_one_by_one(void **state)
{
    (void)state;
    setenv("HEALD_CUDA_SYNC", "1", 1);
    Rig g = rig(two_branches(5), NULL);
    assert_int_equal(run(&g), HEALD_OK);
    set("WAIT", 700);
    expect(run(&g), HEALD_DEVICE, "step 0 (link): the GPU's context is lost, by kernel combine: ");
    set("WAIT", 0);
    heald_tensor_release(g.in);
    heald_tensor_release(g.out);
    plan_runner_destroy(g.runner);
    device_close(g.device);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    Rig g = rig(two_branches(5), NULL);
    set("BLOCKS", 2); // inputs and outputs
    expect(run(&g), HEALD_NO_MEMORY, "out of memory on Fake GPU 0: ");
    set("BLOCKS", 100);
    assert_int_equal(run(&g), HEALD_OK); // the device goes on
    rig_close(&g);
}

static bool cancel(void *user)
{
    return ++*(int *)user > 1;
}

static void test_cancel(void **state)
{
    (void)state;
    int asked = -10000;
    Rig g = rig(two_branches(5), &(RunOptions){.cancel = cancel, .user = &asked});
    for (int i = 0; i < 2; i++) assert_int_equal(run(&g), HEALD_OK);
    asked = 1;
    expect(run(&g), HEALD_CANCELLED, "cancelled before step 0 (link)");
    rig_close(&g);
}

static void note_step(void *user, int step, const char *name, int64_t ns)
{
    int *told = user;
    assert_string_equal(name, step < 10 ? "link" : "join");
    assert_int_equal(ns, 0); // all spans of the stand-in are equal, and an empty one is taken off
    told[step]++;
}

static void test_profile(void **state)
{
    (void)state;
    int told[11] = {0};
    Rig g = rig(two_branches(5), NULL);
    assert_int_equal(run(&g), HEALD_OK);
    int32_t *want = arena_copy(&arena, g.out->data, 64);
    memset(g.out->data, 0, 64);
    plan_runner_profile(g.runner, note_step, told);
    assert_int_equal(run(&g), HEALD_OK);
    for (int i = 0; i < 11; i++) assert_int_equal(told[i], 1);
    assert_int_equal(fake->nodes, 11 + 12 + 4);
    assert_memory_equal(g.out->data, want, 64);
    plan_runner_profile(g.runner, NULL, NULL);
    for (int i = 0; i < 2; i++) assert_int_equal(run(&g), HEALD_OK);
    assert_int_equal(told[0], 1);
    rig_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_random_plans, begin),
        cmocka_unit_test_setup(test_branches, begin),
        cmocka_unit_test_setup(test_cooperative_node, begin),
        cmocka_unit_test_setup(test_few_steps, begin),
        cmocka_unit_test_setup(test_older_driver, begin),
        cmocka_unit_test_setup(test_much_older_driver, begin),
        cmocka_unit_test_setup(test_switched_off, begin),
        cmocka_unit_test_setup(test_stream, begin),
        cmocka_unit_test_setup(test_any_address, begin),
        cmocka_unit_test_setup(test_recording_fails, begin),
        cmocka_unit_test_setup(test_change_fails, begin),
        cmocka_unit_test_setup(test_fault, begin),
        cmocka_unit_test_setup(test_fault_one_by_one, begin),
        cmocka_unit_test_setup(test_out_of_memory, begin),
        cmocka_unit_test_setup(test_cancel, begin),
        cmocka_unit_test_setup(test_profile, begin),
    };
    return run_with_fake_driver(tests, sizeof tests / sizeof *tests, "cuda_plan");
}
