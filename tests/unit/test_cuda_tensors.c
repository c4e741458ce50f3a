// SPDX-License-Identifier: Apache-2.0
// The public interface on a GPU's memory and streams, against a stand-in for the driver.
#include "device/fake_kit.h"
#include "heald.h"

static heald_context *open_context(void *stream)
{
    heald_context *c = NULL;
    heald_context_options o = HEALD_CONTEXT_OPTIONS(.target = "cuda", .stream = stream);
    if (heald_context_create(HEALD_VERSION, &o, &c)) fail_msg("%s", heald_last_error(c));
    return c;
}

static void test_memory_of_caller(void **state)
{
    (void)state;
    heald_context *c = open_context(NULL);
    float theirs[6] = {1, 2, 3, 4, 5, 6};
    const int64_t dims[] = {2, 3};
    heald_tensor *a, *b, *host, *view;
    int live = fake->live;
    assert_int_equal(heald_tensor_from_device_memory(c, HEALD_F32, 2, dims, theirs, NULL, NULL, &a),
                     HEALD_OK);
    assert_ptr_equal(heald_tensor_data(a), theirs);
    assert_true(heald_tensor_on_device(a));
    assert_int_equal(heald_tensor_create_on_device(c, HEALD_F32, 2, dims, &b), HEALD_OK);
    assert_true(heald_tensor_on_device(b));
    assert_int_equal(fake->live, live + 1);
    assert_int_equal(heald_tensor_create(HEALD_F32, 2, dims, &host), HEALD_OK);
    assert_false(heald_tensor_on_device(host));
    int waits = fake->waits;
    assert_int_equal(heald_tensor_copy(c, a, b), HEALD_OK);
    assert_int_equal(fake->waits, waits); // on the GPU: not waited for
    assert_int_equal(heald_tensor_copy(c, b, host), HEALD_OK);
    assert_true(fake->waits > waits);
    assert_memory_equal(heald_tensor_data(host), theirs, sizeof theirs);
    assert_int_equal(heald_tensor_view(a, 3, 1, dims + 1, &view), HEALD_OK);
    assert_true(heald_tensor_on_device(view));
    assert_int_equal(heald_tensor_copy(c, view, host), HEALD_INVALID_ARGUMENT);
    assert_non_null(strstr(heald_last_error(c), "f32[3] cannot be copied to f32[2, 3]"));
    heald_tensor_release(view);
    heald_tensor_release(a); // their memory stays theirs
    heald_tensor_release(b);
    heald_tensor_release(host);
    heald_context_destroy(c);
    assert_int_equal(fake->live, 0);
}

// Another context of the thread is its context again after each call.
static void test_context_of_caller(void **state)
{
    (void)state;
    int theirs;
    fake->current = &theirs;
    heald_context *c = open_context(NULL);
    assert_ptr_equal(fake->current, &theirs);
    heald_tensor *t;
    assert_int_equal(heald_tensor_create_on_device(c, HEALD_F32, 0, NULL, &t), HEALD_OK);
    assert_int_equal(heald_context_synchronise(c), HEALD_OK);
    assert_ptr_equal(fake->current, &theirs);
    heald_tensor_release(t);
    heald_context_destroy(c);
    assert_ptr_equal(fake->current, &theirs);
}

static void test_bad_memory(void **state)
{
    (void)state;
    heald_context *c = open_context(NULL);
    _Alignas(8) char bytes[16];
    const int64_t dims[] = {2};
    heald_tensor *t;
    assert_int_equal(
        heald_tensor_from_device_memory(c, HEALD_F32, 1, dims, bytes + 1, NULL, NULL, &t),
        HEALD_INVALID_ARGUMENT);
    assert_null(t);
    assert_non_null(strstr(heald_last_error(c), "not aligned for f32"));
    assert_int_equal(heald_tensor_from_device_memory(c, HEALD_F32, 1, dims, NULL, NULL, NULL, &t),
                     HEALD_INVALID_ARGUMENT);
    heald_context_destroy(c);
}

static void test_streams(void **state)
{
    (void)state;
    int one, two;
    heald_context *c = open_context(&one);
    assert_int_equal(heald_context_set_stream(c, &two), HEALD_OK);
    assert_ptr_equal(fake->stream, &two);
    assert_int_equal(heald_context_synchronise(c), HEALD_OK);
    set("WAIT", 700);
    assert_int_equal(heald_context_synchronise(c), HEALD_DEVICE);
    assert_non_null(strstr(heald_last_error(c), "the GPU's context is lost"));
    set("WAIT", 0);
    assert_int_equal(heald_context_synchronise(c), HEALD_DEVICE); // and stays so
    heald_context_destroy(c);
    assert_int_equal(fake->contexts, 0);
}

// Compiled by NVRTC, launched on the stand-in, which runs nothing.
static void test_kernel(void **state)
{
    (void)state;
    heald_context *c = open_context(NULL);
    heald_kernel *k;
    static const char text[] =
        "kernel twice(x: f32[n]) -> (y: f32[n]) on cuda {\n"
        "    launch grid(ceil(n, 32)) block(32);\n"
        "    y[block.x * 32 + thread] = 2 * (x[block.x * 32 + thread] else 0);\n"
        "}\n";
    heald_compile_options o = HEALD_COMPILE_OPTIONS(.shape = "n=100");
    heald_status s = heald_compile(c, "twice.hd", text, &o, &k);
    if (s == HEALD_COMPILE) {
        heald_context_destroy(c);
        skip();
    }
    if (s) fail_msg("%s", heald_last_error(c));
    const int64_t dims[] = {100};
    heald_tensor *t[2];
    set("ARGUMENTS", 2);
    for (int i = 0; i < 2; i++) heald_tensor_create(HEALD_F32, 1, dims, &t[i]);
    assert_int_equal(heald_kernel_run(c, k, t), HEALD_OK);
    assert_int_equal(fake->nlaunch, 1);
    assert_ptr_not_equal((void *)(uintptr_t)fake->launch[0].argument[0], heald_tensor_data(t[0]));
    int waits = fake->waits;
    heald_tensor *near[2];
    for (int i = 0; i < 2; i++) {
        heald_tensor_create_on_device(c, HEALD_F32, 1, dims, &near[i]);
        heald_tensor_release(t[i]);
    }
    assert_int_equal(heald_kernel_run(c, k, near), HEALD_OK);
    assert_int_equal(fake->waits, waits); // nobody waits
    for (int i = 0; i < 2; i++) {
        assert_ptr_equal((void *)(uintptr_t)fake->launch[1].argument[i],
                         heald_tensor_data(near[i]));
        heald_tensor_release(near[i]);
    }
    heald_kernel_destroy(k);
    heald_context_destroy(c);
    assert_int_equal(fake->live, 0);
    assert_int_equal(fake->modules, 0);
}

static void test_other_targets(void **state)
{
    (void)state;
    heald_context *c = NULL;
    heald_tensor *t;
    int stream;
    const int64_t dims[] = {4};
    assert_int_equal(heald_context_create(HEALD_VERSION, NULL, &c), HEALD_OK);
    assert_int_equal(heald_context_set_stream(c, &stream), HEALD_UNSUPPORTED);
    assert_int_equal(heald_context_synchronise(c), HEALD_OK);
    assert_int_equal(heald_tensor_create_on_device(c, HEALD_I32, 1, dims, &t), HEALD_OK);
    assert_false(heald_tensor_on_device(t));
    heald_tensor_release(t);
    heald_context_destroy(c);
}

static void test_which_gpu(void **state)
{
    (void)state;
    heald_context *c = NULL;
    heald_context_options o = HEALD_CONTEXT_OPTIONS(.target = "cuda", .device = 1);
    assert_int_equal(heald_context_create(HEALD_VERSION, &o, &c), HEALD_INVALID_ARGUMENT);
    assert_non_null(strstr(heald_last_error(c), "there is no GPU 1; there are 1"));
    heald_context_destroy(c);
    set("DEVICES", 2);
    assert_int_equal(heald_context_create(HEALD_VERSION, &o, &c), HEALD_OK);
    heald_context_destroy(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_memory_of_caller, begin),
        cmocka_unit_test_setup(test_context_of_caller, begin),
        cmocka_unit_test_setup(test_bad_memory, begin),
        cmocka_unit_test_setup(test_streams, begin),
        cmocka_unit_test_setup(test_kernel, begin),
        cmocka_unit_test_setup(test_other_targets, begin),
        cmocka_unit_test_setup(test_which_gpu, begin),
    };
    return run_with_fake_driver(tests, sizeof tests / sizeof *tests, "cuda_tensors");
}
