// SPDX-License-Identifier: Apache-2.0
// A small plan with all kinds of values and steps, its kernels written here in C, and a rig to run
// it: what the tests of plans start from.
#ifndef HEALD_TESTS_PLAN_SAMPLE_H
#define HEALD_TESTS_PLAN_SAMPLE_H

#include "runtime/memory.h"
#include "runtime/plan.h"

#include "base/util.h"

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

static int teardown(void **state)
{
    UNUSED(state);
    arena_free(&arena);
    return 0;
}

#endif
