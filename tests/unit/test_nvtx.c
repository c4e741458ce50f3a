// SPDX-License-Identifier: Apache-2.0
// Ranges for profilers: a stand-in for the profiler's library, and one for the GPU's driver, on
// which a plan is profiled. A process lets one profiler in, so what concerns others is in children.
#include "device/fake_kit.h"

#include "base/util.h"
#include "device/fake_profiler.h"
#include "runtime/nvtx.h"
#include "runtime/plan.h"
#include "runtime/tensor.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const variable = "NVTX_INJECTION64_PATH";
static const char *profiler_path;
static FakeProfiler *profiler;

// In a child: what opening says, where the environment names `path`.
static bool says(const char *path, heald_status wanted, const char *words)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        Error e = {0};
        if (path) setenv(variable, path, 1);
        nvtx_push("a range"); // opens, and is never an error
        nvtx_pop();
        bool right = nvtx_open(&e) == wanted && strstr(e.text, words) && e.status == wanted &&
                     profiler->pushes == (path == profiler_path && !wanted) &&
                     profiler->pops == profiler->pushes;
        if (!right) printf("# %s\n", e.text);
        fflush(stdout);
        _exit(!right);
    }
    int status = 1;
    waitpid(child, &status, 0);
    return status == 0;
}

static void test_no_profiler(void **state)
{
    (void)state;
    unsetenv(variable);
    assert_null(nvtx_profiler());
    assert_true(says(NULL, HEALD_OK, ""));
    assert_true(says("", HEALD_OK, ""));
    assert_true(says("/none/profiler.so", HEALD_IO, "NVTX_INJECTION64_PATH: /none/profiler.so: "));
    assert_true(says(driver_path, HEALD_IO, "has no function InitializeInjectionNvtx2"));
    setenv("FAKE_PROFILER", "refuse", 1);
    assert_true(says(profiler_path, HEALD_IO, "libprofiler.so refuses to start"));
    unsetenv("FAKE_PROFILER");
    assert_true(says(profiler_path, HEALD_OK, ""));
}

static void *open_and_push(void *start)
{
    pthread_barrier_wait(start);
    nvtx_push("of a thread");
    nvtx_pop();
    return NULL;
}

// Threads that begin at once meet a profiler that starts once, and whose functions are all there.
static void test_threads(void **state)
{
    enum { THREADS = 8 };
    (void)state;
    pthread_t thread[THREADS];
    pthread_barrier_t start;
    setenv(variable, profiler_path, 1);
    pthread_barrier_init(&start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, open_and_push, &start), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    pthread_barrier_destroy(&start);
    assert_int_equal(nvtx_open(&error), HEALD_OK);
    assert_string_equal(nvtx_profiler(), profiler_path);
    assert_int_equal(profiler->starts, 1);
    assert_int_equal(profiler->pushes, THREADS);
    assert_int_equal(profiler->pops, THREADS);
}

// ---- a plan

static const char *const names[] = {"Conv_0", "Relu_1", "/layer.2/MatMul"};

static void copy(const uint64_t *argument)
{
    memmove((void *)(uintptr_t)argument[1], (void *)(uintptr_t)argument[0], 64);
}
static const FakeFunction copy_function = {FAKE_FUNCTION, 3, copy};
static const RuntimeStage stage = {.name = "main", .entry.handle = &copy_function, .nthread = 32};
static const RuntimeKernel kernel = {
    .name = "copy", .ndim = 1, .nparam = 2, .noutput = 1, .nstage = 1, .stage = &stage};

static Plan *chain(void)
{
    Plan *p = plan_new(&arena);
    ShapeExpr n = shape_dim(&arena, 0);
    plan_dim(p, "n", 0, 0);
    int from = plan_input(p, "x", DT_I32, 1, &n);
    for (size_t i = 0; i < COUNT(names); i++) {
        int to = i + 1 < COUNT(names) ? plan_temp(p, "t", DT_I32, 1, &n, -1)
                                      : plan_output(p, "y", DT_I32, 1, &n);
        plan_launch(p, names[i], &kernel, (int[]){from, to}, &n);
        from = to;
    }
    return p;
}

static void ignore(void *user, int step, const char *name, int64_t ns)
{
    (void)user, (void)step, (void)name, (void)ns;
}

static Rig chain_rig(const RunOptions *o)
{
    Rig g = rig(chain(), o);
    profiler->pushes = profiler->pops = profiler->depth = profiler->deepest = 0;
    return g;
}

static void expect_ranges(int n)
{
    assert_int_equal(profiler->pushes, n);
    assert_int_equal(profiler->pops, n);
    assert_int_equal(profiler->depth, 0);
    assert_int_equal(profiler->deepest, 1);
    for (int i = 0; i < n; i++) assert_string_equal(profiler->name[i], names[i]);
}

static void test_plan(void **state)
{
    (void)state;
    Rig g = chain_rig(NULL);
    for (int i = 0; i < 2; i++)
        assert_int_equal(plan_run_tensors(g.runner, &g.in, &g.out, &error), HEALD_OK);
    assert_int_equal(profiler->pushes, 0); // only when it is profiled
    plan_runner_profile(g.runner, ignore, NULL);
    assert_int_equal(plan_run_tensors(g.runner, &g.in, &g.out, &error), HEALD_OK);
    expect_ranges(COUNT(names));
    rig_close(&g);
}

static void test_without_graphs(void **state)
{
    (void)state;
    setenv("HEALD_CUDA_GRAPH", "0", 1);
    Rig g = chain_rig(&(RunOptions){.profile = ignore});
    assert_int_equal(plan_run_tensors(g.runner, &g.in, &g.out, &error), HEALD_OK);
    expect_ranges(COUNT(names));
    rig_close(&g);
}

static bool before_the_third(void *user)
{
    return ++*(int *)user > 2;
}

// A run that ends early leaves no range open.
static void test_ends_early(void **state)
{
    (void)state;
    int asked = 0;
    Rig g = chain_rig(&(RunOptions){.profile = ignore, .cancel = before_the_third, .user = &asked});
    assert_int_equal(plan_run_tensors(g.runner, &g.in, &g.out, &error), HEALD_CANCELLED);
    expect_ranges(2);
    rig_close(&g);
    g = chain_rig(&(RunOptions){.profile = ignore});
    set("LAUNCH", 1);
    assert_int_not_equal(plan_run_tensors(g.runner, &g.in, &g.out, &error), HEALD_OK);
    expect_ranges(1);
    set("LAUNCH", 0);
    rig_close(&g);
}

static int begin_watched(void **state)
{
    if (!profiler_path) {
        profiler_path = build_library("tests/device/fake_profiler.c", "libprofiler", "-O1");
        void *library = profiler_path ? dlopen(profiler_path, RTLD_NOW | RTLD_LOCAL) : NULL;
        profiler = library ? dlsym(library, "fake_profiler") : NULL;
    }
    return profiler ? begin(state) : 1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_no_profiler, begin_watched),
        cmocka_unit_test_setup(test_threads, begin_watched),
        cmocka_unit_test_setup(test_plan, begin_watched),
        cmocka_unit_test_setup(test_without_graphs, begin_watched),
        cmocka_unit_test_setup(test_ends_early, begin_watched),
    };
    return run_with_fake_driver(tests, COUNT(tests), "nvtx");
}
