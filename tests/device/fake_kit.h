// SPDX-License-Identifier: Apache-2.0
// For tests of what works on a GPU, without one: the stand-in for the driver is built here and
// taken in place of the real one. Its knobs are environment variables.
#ifndef HEALD_TESTS_FAKE_KIT_H
#define HEALD_TESTS_FAKE_KIT_H

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/os.h"
#include "device/fake_driver.h"
#include "runtime/cuda.h"
#include "runtime/plan.h"
#include "runtime/tensor.h"

static Arena arena;
static const char *driver_path, *driver_folder;
static FakeState *fake;
static Error error;

static const char *const knobs[] = {"INIT",   "VERSION", "DEVICES",  "ARCH",  "CONTEXT",
                                    "LIMIT",  "BLOCKS",  "COPY",     "WAIT",  "MODULE",
                                    "LAUNCH", "CHECK",   "STREAM",   "GRAPH", "INSTANTIATE",
                                    "CHANGE", "REPLAY",  "ARGUMENTS"};

static inline void set(const char *knob, int value)
{
    char name[64], text[16];
    snprintf(name, sizeof name, "FAKE_CUDA_%s", knob);
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

static inline int begin(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof knobs / sizeof *knobs; i++) {
        char name[64];
        snprintf(name, sizeof name, "FAKE_CUDA_%s", knobs[i]);
        unsetenv(name);
    }
    unsetenv("HEALD_CUDA_SYNC");
    unsetenv("HEALD_CUDA_GRAPH");
    unsetenv("HEALD_CUDA_OVERLAP");
    setenv("HEALD_CUDA_DRIVER", driver_path, 1);
    memset(fake, 0, sizeof *fake);
    error = (Error){0};
    return 0;
}

static inline Device *open_device(void)
{
    Device *d = NULL;
    if (device_open(&device_cuda, NULL, &d, &error)) fail_msg("%s", error.text);
    return d;
}

static inline void expect(heald_status got, heald_status wanted, const char *words)
{
    if (got != wanted || !strstr(error.text, words))
        fail_msg("status %d, \"%s\"; wanted %d, \"%s\"", got, error.text, wanted, words);
}

// A library of one file in the tests' folder; it stays until the tests end.
static inline const char *build_library(const char *source, const char *name, const char *flag)
{
    const char *cc = getenv("CC");
    const char *path = arena_printf(&arena, "%s/%s.so", driver_folder, name);
    const char *const argv[] = {
        cc && *cc ? cc : "cc", "-std=c11", "-shared", "-fPIC", flag, "-o", path, source, NULL};
    ProcessResult r;
    if (process_run(&arena, argv, 0, &r) || r.exit_status) {
        printf("# %s\n", r.output);
        return NULL;
    }
    return path;
}

// The stand-in compiled with a flag.
static inline const char *build_driver_as(const char *flag)
{
    return build_library("tests/device/fake_driver.c", arena_printf(&arena, "libfake%s", flag),
                         flag);
}

static inline const char *build_driver(void)
{
    const char *dir = getenv("TMPDIR") ? getenv("TMPDIR") : P_tmpdir;
    char *folder = path_join(&arena, dir, "heald-driver-XXXXXX");
    driver_folder = mkdtemp(folder);
    return driver_folder ? build_driver_as("-DFAKE_CUDA") : NULL;
}

// A plan of one input and one output, of 16 numbers, on the stand-in.
typedef struct Rig {
    Device *device;
    PlanRunner *runner;
    heald_tensor *in, *out;
} Rig;

static inline Rig rig(const Plan *p, const RunOptions *o)
{
    Rig g = {.device = open_device()};
    const int64_t dims[] = {16};
    assert_int_equal(plan_runner_create(p, g.device, o, &g.runner, &error), HEALD_OK);
    assert_int_equal(tensor_create_on(g.device, DT_I32, 1, dims, &g.in, &error), HEALD_OK);
    assert_int_equal(tensor_create_on(g.device, DT_I32, 1, dims, &g.out, &error), HEALD_OK);
    memset(g.in->data, 0, 64);
    return g;
}

static inline void rig_close(Rig *g)
{
    heald_tensor_release(g->in);
    heald_tensor_release(g->out);
    plan_runner_destroy(g->runner);
    device_close(g->device);
    assert_int_equal(fake->live, 0);
    assert_int_equal(fake->graphs, 0);
}

static inline int run_with_fake_driver(const struct CMUnitTest *tests, size_t n, const char *group)
{
    driver_path = build_driver();
    void *library = driver_path ? dlopen(driver_path, RTLD_NOW | RTLD_LOCAL) : NULL;
    fake = library ? dlsym(library, "fake_cuda") : NULL;
    if (!fake) return 1;
    int failed = _cmocka_run_group_tests(group, tests, n, NULL, NULL);
    dlclose(library);
    dir_remove(&arena, driver_folder);
    arena_free(&arena);
    return failed;
}

#endif
