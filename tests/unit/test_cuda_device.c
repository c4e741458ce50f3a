// SPDX-License-Identifier: Apache-2.0
// The device "cuda" against a stand-in for the driver, built here: what it asks of the driver, and
// what it says when something fails.
#include "base/util.h"
#include "device/fake_kit.h"
#include "runtime/launch.h"

// ---- opening

static void test_open(void **state)
{
    (void)state;
    Device *d = open_device();
    const CudaInfo *i = cuda_info(d);
    assert_string_equal(i->name, "Fake GPU 0");
    assert_int_equal(i->arch, 90);
    assert_int_equal(i->nmultiprocessor, 132);
    assert_int_equal(i->shared_bytes, 227 << 10);
    assert_int_equal(i->driver_version, 13000);
    assert_int_equal(fake->contexts, 1);
    assert_non_null(cuda_stream(d));
    device_close(d);
    assert_int_equal(fake->contexts, 0);
    assert_int_equal(fake->streams, 0);
}

static void refuse(const char *words)
{
    Device *d = NULL;
    expect(device_open(&device_cuda, NULL, &d, &error), HEALD_DEVICE, words);
    assert_null(d);
    assert_int_equal(fake->contexts, 0);
}

static void test_no_driver(void **state)
{
    (void)state;
    setenv("HEALD_CUDA_DRIVER", "/nowhere/libcuda.so.1", 1);
    refuse("no NVIDIA driver: ");
}

static void test_no_device(void **state)
{
    (void)state;
    set("INIT", 100);
    refuse("no NVIDIA GPU is present");
    set("INIT", 0);
    set("DEVICES", 0);
    refuse("no NVIDIA GPU is present");
}

static void test_driver_that_does_not_start(void **state)
{
    (void)state;
    set("INIT", 803);
    refuse("the NVIDIA driver does not start: a fake error (error 803)");
}

static void test_old_driver(void **state)
{
    (void)state;
    set("VERSION", 10020);
    refuse("the NVIDIA driver is too old: it is for CUDA 10.2");
    setenv("HEALD_CUDA_DRIVER", "libm.so.6", 1); // a library that lacks everything
    refuse("the NVIDIA driver is too old: it lacks cuInit");
}

static void test_old_gpu(void **state)
{
    (void)state;
    Device *d = NULL;
    set("ARCH", 70);
    expect(device_open(&device_cuda, NULL, &d, &error), HEALD_UNSUPPORTED,
           "compute capability 7.0");
    expect(device_open(&device_cuda, &(DeviceOptions){.ordinal = 3}, &d, &error),
           HEALD_INVALID_ARGUMENT, "there is no GPU 3; there are 1");
}

// ---- memory

static void test_memory(void **state)
{
    (void)state;
    Device *d = open_device();
    void *p, *q, *r;
    char in[1000], out[1000];
    memset(in, 7, sizeof in);
    assert_int_equal(d->ops->allocate(d, 1000, &p, &error), HEALD_OK);
    assert_int_equal((uintptr_t)p % 256, 0);
    assert_int_equal(d->ops->copy(d, COPY_HOST_TO_DEVICE, p, in, 1000, &error), HEALD_OK);
    assert_int_equal(d->ops->allocate(d, 1000, &q, &error), HEALD_OK);
    assert_int_equal(d->ops->copy(d, COPY_DEVICE_TO_DEVICE, q, p, 1000, &error), HEALD_OK);
    assert_int_equal(d->ops->copy(d, COPY_DEVICE_TO_HOST, out, q, 1000, &error), HEALD_OK);
    assert_memory_equal(in, out, 1000);
    d->ops->free(d, p);
    assert_int_equal(d->ops->allocate(d, 900, &r, &error), HEALD_OK); // what was freed comes again
    assert_ptr_equal(p, r);
    assert_int_equal(fake->allocations, 2);
    assert_int_equal(d->ops->allocate(d, 0, &r, &error), HEALD_OK);
    assert_non_null(r);
    d->ops->free(d, NULL);
    device_close(d);
    assert_int_equal(fake->live, 0);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    Device *d = open_device();
    void *p, *q;
    set("BLOCKS", 1);
    assert_int_equal(d->ops->allocate(d, 1000, &p, &error), HEALD_OK);
    expect(d->ops->allocate(d, 100000, &q, &error), HEALD_NO_MEMORY,
           "out of memory on Fake GPU 0: 100000 bytes asked for, 12345 of 1073741824 free");
    d->ops->free(d, p); // goes back to the driver for the sake of the next
    assert_int_equal(d->ops->allocate(d, 100000, &q, &error), HEALD_OK);
    expect(d->ops->allocate(d, INT64_MAX, &p, &error), HEALD_NO_MEMORY, "out of memory");
    device_close(d);
    assert_int_equal(fake->live, 0);
}

// ---- kernels

static RuntimeKernel sample_kernel(RuntimeStage *stage, const char *const *checks, int ncheck)
{
    *stage = (RuntimeStage){.name = "main", .ngrid = 2, .nthread = 128};
    stage->grid[0] = shape_dim(&arena, 0);
    stage->grid[1] = shape_const(&arena, 3);
    return (RuntimeKernel){.name = "h_sample",
                           .ndim = 1,
                           .nparam = 2,
                           .nstage = 1,
                           .stage = stage,
                           .ncheck = ncheck,
                           .check = checks};
}

static void load(Device *d, RuntimeStage *stage, DeviceModule **m)
{
    assert_int_equal(d->ops->load_module(d, driver_path, m, &error), HEALD_OK);
    assert_int_equal(d->ops->find_entry(d, *m, "h_sample_main", stage, &error), HEALD_OK);
}

static void test_launch(void **state)
{
    (void)state;
    Device *d = open_device();
    RuntimeStage stage;
    DeviceModule *m;
    RuntimeKernel k = sample_kernel(&stage, NULL, 0);
    stage.shared_bytes = 100 << 10;
    load(d, &stage, &m);
    set("ARGUMENTS", 3);
    void *params[] = {(void *)16, (void *)32};
    assert_int_equal(launch_kernel(d, &k, params, (int64_t[]){70000}, &error), HEALD_OK);
    assert_int_equal(fake->nlaunch, 1);
    assert_int_equal(fake->launch[0].grid[0], 70000);
    assert_int_equal(fake->launch[0].grid[1], 3);
    assert_int_equal(fake->launch[0].grid[2], 1);
    assert_int_equal(fake->launch[0].block, 128);
    assert_int_equal(fake->launch[0].shared, 100 << 10);
    assert_int_equal(fake->launch[0].argument[0], 16);
    assert_int_equal(fake->launch[0].argument[1], 32);
    assert_int_equal(fake->launch[0].argument[2], 70000);
    assert_int_equal(launch_kernel(d, &k, params, (int64_t[]){0}, &error), HEALD_OK); // no blocks
    assert_int_equal(fake->nlaunch, 1);
    stage.linear_grid = true;
    assert_int_equal(launch_kernel(d, &k, params, (int64_t[]){5}, &error), HEALD_OK);
    assert_int_equal(fake->launch[1].grid[0], 15);
    assert_int_equal(fake->launch[1].grid[1], 1);
    expect(launch_kernel(d, &k, params, (int64_t[]){INT64_C(1) << 31}, &error), HEALD_UNSUPPORTED,
           "is more than a GPU takes");
    assert_int_equal(device_synchronise(d, &error), HEALD_OK);
    d->ops->unload_module(d, m);
    assert_int_equal(fake->modules, 0);
    device_close(d);
}

static void test_modules(void **state)
{
    (void)state;
    Device *d = open_device();
    DeviceModule *m;
    RuntimeStage stage = {.name = "main"};
    expect(d->ops->load_module(d, "/nowhere/kernel.cubin", &m, &error), HEALD_IO,
           "cannot load /nowhere/kernel.cubin");
    set("MODULE", 209);
    expect(d->ops->load_module(d, driver_path, &m, &error), HEALD_UNSUPPORTED, "for another GPU");
    set("MODULE", 222);
    expect(d->ops->load_module(d, driver_path, &m, &error), HEALD_UNSUPPORTED,
           "newer than the driver, which is for CUDA 13.0");
    set("MODULE", 0);
    assert_int_equal(d->ops->load_module(d, driver_path, &m, &error), HEALD_OK);
    expect(d->ops->find_entry(d, m, "missing", &stage, &error), HEALD_NOT_FOUND,
           "no kernel missing");
    stage.shared_bytes = 300 << 10;
    expect(d->ops->find_entry(d, m, "h_x", &stage, &error), HEALD_DEVICE, "bytes of shared memory");
    device_close(d);
}

static void test_cooperative(void **state)
{
    (void)state;
    Device *d = open_device();
    RuntimeStage stage;
    DeviceModule *m;
    RuntimeKernel k = sample_kernel(&stage, NULL, 0);
    stage.cooperative = true;
    load(d, &stage, &m);
    void *params[] = {NULL, NULL};
    assert_int_equal(launch_kernel(d, &k, params, (int64_t[]){100}, &error), HEALD_OK);
    assert_int_equal(fake->launch[0].cooperative, 1);
    expect(launch_kernel(d, &k, params, (int64_t[]){200}, &error), HEALD_UNSUPPORTED,
           "kernel h_sample, stage main: 600 blocks cannot all run at the same time on Fake GPU 0");
    device_close(d);
}

static void test_check(void **state)
{
    (void)state;
    static const char *const checks[] = {"one", "index out of bounds"};
    Device *d = open_device();
    RuntimeStage stage;
    DeviceModule *m;
    RuntimeKernel k = sample_kernel(&stage, checks, 2);
    load(d, &stage, &m);
    set("ARGUMENTS", 4);
    set("CHECK", 2);
    void *params[] = {NULL, NULL};
    assert_int_equal(launch_kernel(d, &k, params, (int64_t[]){1}, &error), HEALD_OK);
    expect(device_synchronise(d, &error), HEALD_CHECK_FAILED,
           "kernel h_sample: check 2 failed: index out of bounds");
    assert_int_equal(device_synchronise(d, &error), HEALD_OK); // told once; the device goes on
    device_close(d);
}

// ---- faults

static void test_fault(void **state)
{
    (void)state;
    Device *d = open_device();
    RuntimeStage stage;
    DeviceModule *m;
    RuntimeKernel k = sample_kernel(&stage, NULL, 0);
    load(d, &stage, &m);
    void *params[] = {NULL, NULL}, *p;
    int64_t one = 1;
    assert_int_equal(launch_kernel(d, &k, params, &one, &error), HEALD_OK);
    set("WAIT", 700);
    expect(device_synchronise(d, &error), HEALD_DEVICE,
           "the GPU's context is lost, by kernel h_sample: an illegal memory access");
    set("WAIT", 0);
    int waits = fake->waits;
    error = (Error){0};
    expect(device_synchronise(d, &error), HEALD_DEVICE, "by kernel h_sample"); // and ever after
    expect(launch_kernel(d, &k, params, &one, &error), HEALD_DEVICE, "by kernel h_sample");
    expect(d->ops->allocate(d, 1, &p, &error), HEALD_DEVICE, "by kernel h_sample");
    expect(d->ops->copy(d, COPY_DEVICE_TO_HOST, &p, &p, 8, &error), HEALD_DEVICE,
           "by kernel h_sample");
    assert_int_equal(fake->waits, waits); // nothing waits for a dead context
    device_close(d);
    assert_int_equal(fake->contexts, 0);
    assert_int_equal(fake->live, 0);
}

// Results after which cuda.h says that the process must be started anew, and others.
static void test_faults_of_all_kinds(void **state)
{
    (void)state;
    static const int fatal[] = {214, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 810},
                     other[] = {1, 2, 600, 701};
    for (size_t i = 0; i < COUNT(fatal) + COUNT(other); i++) {
        bool lost = i < COUNT(fatal);
        Device *d = open_device();
        set("WAIT", lost ? fatal[i] : other[i - COUNT(fatal)]);
        assert_int_not_equal(device_synchronise(d, &error), HEALD_OK);
        set("WAIT", 0);
        error = (Error){0};
        assert_int_equal(device_synchronise(d, &error), lost ? HEALD_DEVICE : HEALD_OK);
        device_close(d);
    }
}

static void test_fault_of_several(void **state)
{
    (void)state;
    Device *d = open_device();
    RuntimeStage stage;
    DeviceModule *m;
    RuntimeKernel k = sample_kernel(&stage, NULL, 0), other = k;
    other.name = "h_other";
    load(d, &stage, &m);
    void *params[] = {NULL, NULL};
    assert_int_equal(launch_kernel(d, &k, params, (int64_t[]){1}, &error), HEALD_OK);
    assert_int_equal(launch_kernel(d, &other, params, (int64_t[]){1}, &error), HEALD_OK);
    set("WAIT", 719);
    expect(device_synchronise(d, &error), HEALD_DEVICE,
           "one of 2 kernels from h_sample to h_other");
    device_close(d);
}

static void test_synchronous(void **state)
{
    (void)state;
    setenv("HEALD_CUDA_SYNC", "1", 1);
    Device *d = open_device();
    RuntimeStage stage;
    DeviceModule *m;
    RuntimeKernel k = sample_kernel(&stage, NULL, 0);
    load(d, &stage, &m);
    set("WAIT", 716);
    void *params[] = {NULL, NULL};
    expect(launch_kernel(d, &k, params, (int64_t[]){1}, &error), HEALD_DEVICE,
           "by kernel h_sample");
    device_close(d);
}

static void test_refused_launch(void **state)
{
    (void)state;
    Device *d = open_device();
    RuntimeStage stage;
    DeviceModule *m;
    RuntimeKernel k = sample_kernel(&stage, NULL, 0);
    load(d, &stage, &m);
    set("LAUNCH", 701);
    void *params[] = {NULL, NULL};
    expect(launch_kernel(d, &k, params, (int64_t[]){1}, &error), HEALD_DEVICE,
           "kernel h_sample, stage main: a fake error (error 701)");
    set("LAUNCH", 0);
    assert_int_equal(launch_kernel(d, &k, params, (int64_t[]){1}, &error), HEALD_OK);
    device_close(d);
}

// ---- recording and timing

// Small copies to the GPU go by way of memory of the device's own: nobody waits until it is full.
static void test_staging(void **state)
{
    (void)state;
    Device *d = open_device();
    enum { BYTES = 400000 };
    static char from[BYTES], to[BYTES];
    for (int i = 0; i < 25; i++) {
        memset(from, i, sizeof from);
        assert_int_equal(d->ops->copy(d, COPY_HOST_TO_DEVICE, to, from, BYTES, &error), 0);
        assert_memory_equal(to, from, BYTES);
        assert_int_equal(fake->waits, i / 10);
    }
    assert_int_equal(device_synchronise(d, &error), HEALD_OK);
    int waits = fake->waits;
    static char large[2 << 20], there[2 << 20];
    assert_int_equal(d->ops->copy(d, COPY_HOST_TO_DEVICE, there, large, sizeof large, &error), 0);
    assert_int_equal(fake->waits, waits + 1);
    device_close(d);
}

static void test_stream_of_caller(void **state)
{
    (void)state;
    int mine, other;
    Device *d = NULL;
    assert_int_equal(device_open(&device_cuda, &(DeviceOptions){.stream = &mine}, &d, &error), 0);
    assert_ptr_equal(cuda_stream(d), &mine);
    assert_int_equal(d->ops->set_stream(d, &other, &error), HEALD_OK);
    assert_ptr_equal(fake->stream, &other); // waits for what is in the one before
    assert_ptr_equal(cuda_stream(d), &other);
    assert_int_equal(d->ops->set_stream(d, NULL, &error), HEALD_OK);
    void *own = cuda_stream(d);
    assert_ptr_equal(fake->stream, own);
    set("STREAM", 400);
    expect(d->ops->set_stream(d, &mine, &error), HEALD_DEVICE, "the stream to come: a fake error");
    assert_ptr_equal(cuda_stream(d), own);
    device_close(d);
    assert_int_equal(fake->streams, 0);
}

static void test_recording(void **state)
{
    (void)state;
    Device *d = open_device();
    DeviceGraph *g;
    char from[8] = "heald", to[8] = "";
    int n = -1;
    int64_t ns;
    assert_int_equal(d->ops->graph_begin(d, &g, &error), HEALD_OK);
    assert_int_equal(d->ops->copy(d, COPY_DEVICE_TO_DEVICE, to, from, 8, &error), HEALD_OK);
    assert_int_equal(d->ops->graph_end(d, g, &n, &error), HEALD_OK);
    assert_int_equal(n, 1);
    assert_string_equal(to, "");
    assert_int_equal(d->ops->mark(d, 0, &error), HEALD_OK);
    assert_int_equal(d->ops->graph_run(d, g, &error), HEALD_OK);
    assert_int_equal(d->ops->mark(d, 1, &error), HEALD_OK);
    assert_int_equal(d->ops->mark_ns(d, 0, 1, &ns, &error), HEALD_OK);
    assert_int_equal(ns, 1500000);
    assert_int_equal(fake->replays, 1);
    assert_string_equal(to, "heald");
    d->ops->graph_drop(d, g);
    assert_int_equal(fake->graphs, 0);
    assert_int_equal(fake->execs, 0);
    device_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_open, begin),
        cmocka_unit_test_setup(test_no_driver, begin),
        cmocka_unit_test_setup(test_no_device, begin),
        cmocka_unit_test_setup(test_driver_that_does_not_start, begin),
        cmocka_unit_test_setup(test_old_driver, begin),
        cmocka_unit_test_setup(test_old_gpu, begin),
        cmocka_unit_test_setup(test_memory, begin),
        cmocka_unit_test_setup(test_out_of_memory, begin),
        cmocka_unit_test_setup(test_launch, begin),
        cmocka_unit_test_setup(test_modules, begin),
        cmocka_unit_test_setup(test_cooperative, begin),
        cmocka_unit_test_setup(test_check, begin),
        cmocka_unit_test_setup(test_fault, begin),
        cmocka_unit_test_setup(test_faults_of_all_kinds, begin),
        cmocka_unit_test_setup(test_fault_of_several, begin),
        cmocka_unit_test_setup(test_synchronous, begin),
        cmocka_unit_test_setup(test_refused_launch, begin),
        cmocka_unit_test_setup(test_staging, begin),
        cmocka_unit_test_setup(test_stream_of_caller, begin),
        cmocka_unit_test_setup(test_recording, begin),
    };
    return run_with_fake_driver(tests, sizeof tests / sizeof *tests, "cuda_device");
}
