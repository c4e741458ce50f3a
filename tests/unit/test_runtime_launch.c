// SPDX-License-Identifier: Apache-2.0
// Launching kernels on the CPU: grids, stages, workspaces, scratch, requirements, checks, modules.
// The kernels are written here in C with the entry signature of generated code.
#include "runtime/launch.h"
#include "runtime/memory.h"
#include "runtime/module.h"

#include "base/os.h"
#include "base/util.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static Arena arena;

static Device *open_cpu(int nthread)
{
    Device *d;
    DeviceOptions o = {.nthread = nthread};
    assert_int_equal(device_open(&device_cpu, &o, &d, NULL), HEALD_OK);
    assert_int_equal(d->ops->nthread(d), nthread);
    return d;
}

// Stage 1: each block squares its row of x into the workspace, through scratch.
// x: (rows, cols) i32, dims: rows, cols.
static int32_t square_rows(void *const *buffers, const int64_t *dims, int64_t first, int64_t last,
                           void *scratch)
{
    const int32_t *x = buffers[0];
    int32_t *squares = buffers[2], *row = scratch;
    if ((uintptr_t)scratch % 64 || (uintptr_t)squares % 64) return 9;
    for (int64_t b = first; b < last; b++) {
        for (int64_t i = 0; i < dims[1]; i++) row[i] = x[b * dims[1] + i];
        for (int64_t i = 0; i < dims[1]; i++) {
            if (row[i] < 0) return row[i] == -1 ? 1 : 2;
            squares[b * dims[1] + i] = row[i] * row[i];
        }
    }
    return 0;
}

// Stage 2: each block sums one column of the workspace into y: (cols).
static int32_t sum_columns(void *const *buffers, const int64_t *dims, int64_t first, int64_t last,
                           void *scratch)
{
    UNUSED(scratch);
    int32_t *y = buffers[1];
    const int32_t *squares = buffers[2];
    for (int64_t b = first; b < last; b++) {
        y[b] = 0;
        for (int64_t r = 0; r < dims[0]; r++) y[b] += squares[r * dims[1] + b];
    }
    return 0;
}

enum { MAX_COLS = 64 };

static const RuntimeKernel *sum_of_squares(void)
{
    ShapeExpr rows = shape_dim(&arena, 0), cols = shape_dim(&arena, 1);
    RuntimeStage *stage = NEW_ARRAY(&arena, RuntimeStage, 2);
    stage[0] = (RuntimeStage){.name = "square",
                              .entry.cpu = square_rows,
                              .ngrid = 1,
                              .grid = {rows},
                              .scratch_bytes = MAX_COLS * 4};
    stage[1] = (RuntimeStage){.name = "sum",
                              .entry.cpu = sum_columns,
                              .ngrid = 2,
                              .grid = {cols, shape_const(&arena, 1)}};
    RuntimeRequirement *require = NEW(&arena, RuntimeRequirement);
    *require = (RuntimeRequirement){shape_op(&arena, SHAPE_LE, cols, shape_const(&arena, MAX_COLS)),
                                    "at most 64 columns"};
    ShapeExpr *bytes = NEW(&arena, ShapeExpr);
    *bytes = shape_op(&arena, SHAPE_MUL, shape_op(&arena, SHAPE_MUL, rows, cols),
                      shape_const(&arena, 4));
    static const char *const check[] = {"no minus one"};
    RuntimeKernel *k = NEW(&arena, RuntimeKernel);
    *k = (RuntimeKernel){.name = "sum_of_squares",
                         .ndim = 2,
                         .nparam = 2,
                         .nworkspace = 1,
                         .nstage = 2,
                         .nrequirement = 1,
                         .ncheck = 1,
                         .workspace_bytes = bytes,
                         .stage = stage,
                         .require = require,
                         .check = check};
    return k;
}

static void fill(int32_t *x, int64_t rows, int64_t cols, int32_t *want)
{
    memset(want, 0, (size_t)cols * 4);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < cols; c++) {
            x[r * cols + c] = (int32_t)((r * 7 + c * 3) % 11);
            want[c] += x[r * cols + c] * x[r * cols + c];
        }
    }
}

static void test_two_stages(void **state)
{
    UNUSED(state);
    static int32_t x[500 * MAX_COLS], y[MAX_COLS], want[MAX_COLS];
    const RuntimeKernel *k = sum_of_squares();
    for (int nthread = 1; nthread <= 4; nthread++) {
        Device *d = open_cpu(nthread);
        for (int64_t rows = 1; rows <= 500; rows += 83) {
            for (int64_t cols = 1; cols <= MAX_COLS; cols += 21) {
                fill(x, rows, cols, want);
                memset(y, 0, sizeof y);
                Error e;
                heald_status s = launch_kernel(d, k, (void *[]){x, y}, (int64_t[]){rows, cols}, &e);
                assert_int_equal(s, HEALD_OK);
                assert_memory_equal(y, want, (size_t)cols * 4);
            }
        }
        device_close(d);
    }
}

static void test_refusals(void **state)
{
    UNUSED(state);
    int32_t x[1], y[1] = {77};
    const RuntimeKernel *k = sum_of_squares();
    Device *d = open_cpu(2);
    Error e;
    void *params[] = {x, y};
    assert_int_equal(launch_kernel(d, k, params, (int64_t[]){1, 65}, &e), HEALD_CHECK_FAILED);
    assert_string_equal(e.text, "kernel sum_of_squares: at most 64 columns");
    assert_int_equal(launch_kernel(d, k, params, (int64_t[]){-1, 1}, &e), HEALD_INVALID_ARGUMENT);
    assert_int_equal(launch_kernel(d, k, params, (int64_t[]){INT64_MAX, 2}, &e),
                     HEALD_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "workspace"));
    // No rows and no columns: nothing is launched and nothing written.
    assert_int_equal(launch_kernel(d, k, params, (int64_t[]){0, 0}, &e), HEALD_OK);
    assert_int_equal(y[0], 77);
    device_close(d);
}

// The check reported is that of the first block in order that failed, with any number of threads.
static void test_checks(void **state)
{
    UNUSED(state);
    enum { ROWS = 400 };
    int32_t x[ROWS], y[1];
    const RuntimeKernel *k = sum_of_squares();
    for (int nthread = 1; nthread <= 4; nthread++) {
        Device *d = open_cpu(nthread);
        for (int round = 0; round < 50; round++) {
            memset(x, 0, sizeof x);
            bool first = round % 2;
            x[round] = first ? -1 : -2;
            for (int i = round + 1; i < ROWS; i++) x[i] = first ? -2 : -1;
            Error e;
            heald_status s = launch_kernel(d, k, (void *[]){x, y}, (int64_t[]){ROWS, 1}, &e);
            assert_int_equal(s, HEALD_CHECK_FAILED);
            assert_string_equal(
                e.text, first ? "kernel sum_of_squares, stage square: check 1 failed: no minus one"
                              : "kernel sum_of_squares, stage square: check 2 failed");
        }
        device_close(d);
    }
}

static int32_t no_work(void *const *buffers, const int64_t *dims, int64_t first, int64_t last,
                       void *scratch)
{
    UNUSED(buffers);
    UNUSED(dims);
    UNUSED(first);
    UNUSED(last);
    UNUSED(scratch);
    return 0;
}

static void test_grid_product(void **state)
{
    UNUSED(state);
    ShapeExpr big = shape_const(&arena, INT64_C(1) << 31), none = shape_dim(&arena, 0);
    RuntimeStage stage = {.name = "s", .entry.cpu = no_work, .ngrid = 3, .grid = {big, big, big}};
    RuntimeKernel k = {.name = "k", .ndim = 1, .nstage = 1, .stage = &stage};
    Device *d = open_cpu(1);
    Error e;
    int64_t dims[] = {0};
    assert_int_equal(launch_kernel(d, &k, NULL, dims, &e), HEALD_INVALID_ARGUMENT);
    stage.grid[2] = none;
    assert_int_equal(launch_kernel(d, &k, NULL, dims, &e), HEALD_OK);
    stage.ngrid = 0;
    assert_int_equal(launch_kernel(d, &k, NULL, dims, &e), HEALD_OK);
    device_close(d);
}

static void run_backwards(void *user, int64_t ntask, PoolFn *fn, void *arg)
{
    ++*(int *)user;
    for (int64_t i = ntask - 1; i >= 0; i--) fn(arg, i, i + 1, (int)(i % 3));
}

static void test_callers_parallel_for(void **state)
{
    UNUSED(state);
    int calls = 0;
    DeviceOptions o = {.nthread = 3, .parallel_for = run_backwards, .parallel_user = &calls};
    Device *d;
    Error e;
    assert_int_equal(device_open(&device_cpu, &o, &d, &e), HEALD_OK);
    int32_t x[50], y[1], want[1];
    fill(x, 50, 1, want);
    void *params[] = {x, y};
    int64_t dims[] = {50, 1};
    assert_int_equal(launch_kernel(d, sum_of_squares(), params, dims, &e), HEALD_OK);
    assert_int_equal(y[0], want[0]);
    assert_int_equal(calls, 2);
    device_close(d);
    o.nthread = 0;
    assert_int_equal(device_open(&device_cpu, &o, &d, &e), HEALD_INVALID_ARGUMENT);
    assert_null(d);
}

typedef struct Inner {
    Pool *pool;
    const RuntimeKernel *k;
    atomic_int nbad;
} Inner;

// One context a task; all on a pool of their own or on the shared one.
static void launch_in_task(void *user, int64_t begin, int64_t end, int worker)
{
    UNUSED(worker);
    Inner *in = user;
    for (int64_t t = begin; t < end; t++) {
        int32_t x[100 * 8], y[8], want[8];
        fill(x, 100, 8, want);
        Device *d;
        DeviceOptions o = {.nthread = 2, .pool = t % 2 ? in->pool : NULL};
        heald_status s = device_open(&device_cpu, &o, &d, NULL);
        if (!s) s = launch_kernel(d, in->k, (void *[]){x, y}, (int64_t[]){100, 8}, NULL);
        if (s || memcmp(y, want, sizeof y)) atomic_fetch_add(&in->nbad, 1);
        if (d) device_close(d);
    }
}

static void test_nested(void **state)
{
    UNUSED(state);
    Inner in = {.pool = pool_create(4), .k = sum_of_squares()};
    pool_run(in.pool, 16, launch_in_task, &in);
    assert_int_equal(in.nbad, 0);
    pool_destroy(in.pool);
}

static void test_out_of_memory(void **state)
{
    UNUSED(state);
    int32_t x[40], y[1], want[1];
    fill(x, 40, 1, want);
    const RuntimeKernel *k = sum_of_squares();
    heald_status s = HEALD_NO_MEMORY;
    int n = 0;
    for (; s; n++) {
        Device *d;
        DeviceOptions o = {.nthread = 2};
        memory_fail_after(n);
        s = device_open(&device_cpu, &o, &d, NULL);
        if (!s) s = launch_kernel(d, k, (void *[]){x, y}, (int64_t[]){40, 1}, NULL);
        memory_fail_after(-1);
        assert_true(s == HEALD_OK || s == HEALD_NO_MEMORY);
        // A device that ran out of memory once still works.
        if (d) {
            assert_int_equal(launch_kernel(d, k, (void *[]){x, y}, (int64_t[]){40, 1}, NULL),
                             HEALD_OK);
            assert_int_equal(y[0], want[0]);
        }
        device_close(d);
    }
    assert_true(n > 3);
}

static heald_status refuse_open(const DeviceOptions *o, Device **out, Error *e)
{
    UNUSED(o);
    UNUSED(out);
    return error_set(e, HEALD_DEVICE, "no such device");
}

static void test_table(void **state)
{
    UNUSED(state);
    DeviceTable t;
    device_table_init(&t);
    assert_ptr_equal(device_find(&t, "cpu"), &device_cpu);
    assert_non_null(device_find(&t, "cuda"));
    assert_null(device_find(&t, "fpga"));
    DeviceOps ops = device_cpu, more[DEVICE_MAX_KINDS];
    ops.name = "fpga";
    ops.open = refuse_open;
    Error e;
    assert_int_equal(device_register(&t, &ops, &e), HEALD_OK);
    assert_int_equal(device_register(&t, &ops, &e), HEALD_OK);
    assert_int_equal(t.n, 3);
    Device *d;
    assert_int_equal(device_open(device_find(&t, "fpga"), NULL, &d, &e), HEALD_DEVICE);
    assert_string_equal(e.text, "no such device");
    static const char *const name[DEVICE_MAX_KINDS] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    for (int i = 0; i < DEVICE_MAX_KINDS; i++) {
        more[i] = ops;
        more[i].name = name[i];
        heald_status want = i < DEVICE_MAX_KINDS - 3 ? HEALD_OK : HEALD_UNSUPPORTED;
        assert_int_equal(device_register(&t, &more[i], &e), want);
    }
    ops.launch = NULL;
    assert_int_equal(device_register(&t, &ops, &e), HEALD_INVALID_ARGUMENT);
    ops.api_version = 99;
    assert_int_equal(device_register(&t, &ops, &e), HEALD_UNSUPPORTED);
}

static const char module_text[] =
    "#include <stdint.h>\n"
    "int32_t fill_main(void *const *b, const int64_t *d, int64_t first, int64_t last, void *s)\n"
    "{\n"
    "    for (int64_t i = first; i < last; i++) ((int64_t *)b[0])[i] = i * d[0];\n"
    "    return s == 0;\n"
    "}\n";

static void test_module(void **state)
{
    UNUSED(state);
    Error e;
    Module *m;
    assert_int_equal(module_open("no/such/file.so", &m, &e), HEALD_IO);
    assert_non_null(strstr(e.text, "no/such/file.so"));
    assert_null(m);
    assert_int_equal(module_open("CMakeLists.txt", &m, &e), HEALD_IO);
    assert_non_null(strstr(e.text, "CMakeLists.txt"));
    const char *cc = find_program(&arena, "cc");
    if (!cc) skip();
    char dir[] = "/tmp/heald-test-XXXXXX";
    assert_non_null(mkdtemp(dir));
    const char *source = path_join(&arena, dir, "m.c"), *object = path_join(&arena, dir, "m.so");
    assert_null(file_write_atomic(&arena, source, module_text, sizeof module_text - 1));
    ProcessResult result;
    const char *const argv[] = {cc, "-shared", "-fPIC", "-o", object, source, NULL};
    assert_null(process_run(&arena, argv, 60000, &result));
    assert_int_equal(result.exit_status, 0);

    Device *d = open_cpu(2);
    DeviceModule *loaded;
    RuntimeStage stage = {.name = "main", .ngrid = 1, .grid = {shape_const(&arena, 10)}};
    assert_int_equal(d->ops->load_module(d, object, &loaded, &e), HEALD_OK);
    assert_int_equal(d->ops->find_entry(d, loaded, "fill_main", &stage, &e), HEALD_OK);
    stage.scratch_bytes = 1;
    RuntimeKernel k = {.name = "fill", .ndim = 1, .nparam = 1, .nstage = 1, .stage = &stage};
    int64_t out[10];
    assert_int_equal(launch_kernel(d, &k, (void *[]){out}, (int64_t[]){3}, &e), HEALD_OK);
    for (int i = 0; i < 10; i++) assert_int_equal(out[i], 3 * i);
    assert_int_equal(d->ops->find_entry(d, loaded, "nothing", &stage, &e), HEALD_NOT_FOUND);
    assert_non_null(strstr(e.text, "nothing"));
    assert_non_null(strstr(e.text, "m.so"));
    d->ops->unload_module(d, loaded);
    device_close(d);

    assert_int_equal(module_open(object, &m, &e), HEALD_OK);
    assert_string_equal(module_path(m), object);
    module_release(module_retain(m));
    module_release(m);
    module_release(NULL);
    memory_fail_after(0);
    assert_int_equal(module_open(object, &m, &e), HEALD_NO_MEMORY);
    memory_fail_after(-1);
    assert_null(dir_remove(&arena, dir));
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
        cmocka_unit_test(test_two_stages),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_checks),
        cmocka_unit_test(test_grid_product),
        cmocka_unit_test(test_callers_parallel_for),
        cmocka_unit_test(test_nested),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_module),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
