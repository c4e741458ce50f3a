// SPDX-License-Identifier: Apache-2.0
// The public interface: contexts, kernels, models, their mistakes, and memory that runs out.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/context.h"
#include "runtime/memory.h"

static heald_context *context(const char *target)
{
    heald_context *c;
    heald_context_options o = HEALD_CONTEXT_OPTIONS(.target = target, .threads = 2,
                                                    .cache_dir = getenv("HEALD_CACHE_DIR"));
    assert_int_equal(heald_context_create(HEALD_VERSION, &o, &c), HEALD_OK);
    assert_string_equal(heald_last_error(c), "");
    return c;
}

static void expect_error(heald_context *c, heald_status got, heald_status want, const char *text)
{
    if (got != want) fail_msg("status %d, not %d: %s", got, want, heald_last_error(c));
    if (!strstr(heald_last_error(c), text)) fail_msg("%s", heald_last_error(c));
}

static heald_tensor *tensor(int64_t n, float first)
{
    heald_tensor *t;
    assert_int_equal(heald_tensor_create(HEALD_F32, 1, &n, &t), HEALD_OK);
    for (int64_t i = 0; i < n; i++) ((float *)heald_tensor_data(t))[i] = first + (float)i;
    return t;
}

// ---- contexts

static void wrong_contexts_are_refused(void **state)
{
    UNUSED(state);
    heald_context *c;
    heald_status s = heald_context_create(HEALD_VERSION + 100, NULL, &c);
    expect_error(c, s, HEALD_UNSUPPORTED, "was made for version");
    heald_context_destroy(c);
    s = heald_context_create(HEALD_VERSION, &HEALD_CONTEXT_OPTIONS(.target = "loom"), &c);
    expect_error(c, s, HEALD_INVALID_ARGUMENT, "unknown target 'loom'");
    heald_context_destroy(c);
    s = heald_context_create(HEALD_VERSION, &HEALD_CONTEXT_OPTIONS(.target = "cuda:sm_1"), &c);
    expect_error(c, s, HEALD_UNSUPPORTED, "cuda:sm_1");
    heald_context_destroy(c);
    s = heald_context_create(HEALD_VERSION, &HEALD_CONTEXT_OPTIONS(.threads = -1), &c);
    expect_error(c, s, HEALD_INVALID_ARGUMENT, "-1 threads");
    heald_context_destroy(c);
    s = heald_context_create(HEALD_VERSION, &(heald_context_options){0}, &c);
    expect_error(c, s, HEALD_INVALID_ARGUMENT, "struct_size");
    heald_context_destroy(c);
    heald_context_destroy(NULL);
}

static void a_smaller_struct_is_an_older_one(void **state)
{
    UNUSED(state);
    heald_context *c;
    heald_context_options o = HEALD_CONTEXT_OPTIONS(.target = "interp", .threads = -5);
    o.struct_size = offsetof(heald_context_options, threads);
    assert_int_equal(heald_context_create(HEALD_VERSION, &o, &c), HEALD_OK);
    heald_context_destroy(c);
}

static void diagnostics_have_places(void **state)
{
    UNUSED(state);
    heald_context *c = context("interp");
    expect_error(c, heald_library_add(c, "mine.hd", "op f(\n"), HEALD_DIAGNOSTIC, "mine.hd:");
    assert_int_equal(heald_library_add(c, "mine.hd", "fn three() = 3;\n"), HEALD_OK);
    assert_string_equal(heald_last_error(c), "");
    heald_context_destroy(c);
}

// ---- kernels

static const char axpy[] =
    "kernel axpy(x: f32[n], y: f32[n]; a: f32 = 1.0) -> (z: f32[n]) on cpu {\n"
    "    launch grid(1);\n"
    "    for i in n { z[i] = a * x[i] + y[i]; }\n"
    "}\n"
    "kernel other(x: f32[n]) -> (y: f32[n]) on cpu {\n"
    "    launch grid(1);\n"
    "    for i in n { y[i] = x[i]; }\n"
    "}\n";

static void run_axpy(heald_context *c, const heald_kernel *k, int64_t n)
{
    heald_tensor *p[] = {tensor(n, 1), tensor(n, 10), tensor(n, 0)};
    heald_status s = heald_kernel_run(c, k, p);
    if (s) fail_msg("%s", heald_last_error(c));
    const float *z = heald_tensor_data(p[2]);
    for (int64_t i = 0; i < n; i++) assert_true(z[i] == 3 * (1 + (float)i) + 10 + (float)i);
    for (int i = 0; i < 3; i++) heald_tensor_release(p[i]);
}

static void kernels_on(const char *target)
{
    heald_context *c = context(target);
    heald_kernel *k;
    const char *attributes[] = {"a=3", NULL};
    heald_compile_options o =
        HEALD_COMPILE_OPTIONS(.kernel = "axpy", .dynamic = "n", .attributes = attributes);
    heald_status s = heald_compile(c, "axpy.hd", axpy, &o, &k);
    if (s) fail_msg("%s", heald_last_error(c));
    assert_int_equal(heald_kernel_param_count(k), 3);
    assert_int_equal(heald_kernel_input_count(k), 2);
    assert_null(heald_kernel_param(k, 3));
    assert_null(heald_kernel_param(k, -1));
    const heald_value_info *z = heald_kernel_param(k, 2);
    assert_string_equal(z->name, "z");
    assert_int_equal(z->rank, 1);
    assert_int_equal(z->dims[0], -1);
    assert_string_equal(z->dim_names[0], "n");
    assert_non_null(heald_kernel_text(k, HEALD_TEXT_IR));
    bool compiled = !strcmp(target, "cpu");
    assert_int_equal(heald_kernel_text(k, HEALD_TEXT_SOURCE) != NULL, compiled);
    assert_int_equal(heald_kernel_text(k, HEALD_TEXT_LOWERED) != NULL, compiled);
    run_axpy(c, k, 5);
    run_axpy(c, k, 1000);
    heald_context *other = context(target); // kernels are shared
    run_axpy(other, k, 7);
    heald_context_destroy(other);
    heald_tensor *p[] = {tensor(3, 1), tensor(4, 10), tensor(3, 0)};
    expect_error(c, heald_kernel_run(c, k, p), HEALD_INVALID_ARGUMENT,
                 "axis 0 of parameter 'y' has extent 4 where 3 is needed");
    for (int i = 0; i < 3; i++) heald_tensor_release(p[i]);
    heald_kernel_destroy(k);
    heald_context_destroy(c);
}

static void kernels_are_compiled_and_run(void **state)
{
    UNUSED(state);
    kernels_on("cpu");
}

static void kernels_are_interpreted(void **state)
{
    UNUSED(state);
    kernels_on("interp");
}

static void mistakes_about_kernels(void **state)
{
    UNUSED(state);
    heald_context *c = context("interp");
    heald_kernel *k;
    expect_error(c, heald_compile(c, "axpy.hd", axpy, NULL, &k), HEALD_INVALID_ARGUMENT,
                 "2 kernels");
    assert_null(k);
    heald_status s =
        heald_compile(c, "axpy.hd", axpy, &HEALD_COMPILE_OPTIONS(.kernel = "none"), &k);
    expect_error(c, s, HEALD_NOT_FOUND, "axpy, other");
    s = heald_compile(c, "a.hd", axpy, &HEALD_COMPILE_OPTIONS(.kernel = "axpy", .shape = "q=1"),
                      &k);
    expect_error(c, s, HEALD_DIAGNOSTIC, "no dimension 'q'");
    const char *choices[] = {"chunk=1", NULL};
    s = heald_compile(c, "a.hd", axpy, &HEALD_COMPILE_OPTIONS(.kernel = "axpy", .choices = choices),
                      &k);
    expect_error(c, s, HEALD_DIAGNOSTIC, "no tune entry 'chunk'");
    assert_int_equal(heald_compile(NULL, "a.hd", axpy, NULL, &k), HEALD_INVALID_ARGUMENT);
    heald_kernel_destroy(NULL);
    heald_context_destroy(c);
}

// ---- models

static const char chain[] =
    "graph chain(x: f32[n], w: const f32[n]) -> (y) { y = relu(x * w) + 1.0; }\n";

static void a_graph_of_text_runs_for_every_shape(void **state)
{
    UNUSED(state);
    heald_context *c = context("interp");
    heald_model *m;
    heald_status s = heald_model_load_text(c, "chain.hd", chain, NULL, &m);
    if (s) fail_msg("%s", heald_last_error(c));
    assert_int_equal(heald_model_input_count(m), 2);
    assert_int_equal(heald_model_output_count(m), 1);
    assert_null(heald_model_input(m, 2));
    assert_string_equal(heald_model_input(m, 0)->name, "x");
    for (int64_t n = 1; n < 40; n += 2) { // more shapes than are kept
        heald_tensor *in[] = {tensor(n, -1), tensor(n, 2)}, *out = NULL;
        s = heald_model_run(m, in, &out);
        if (s) fail_msg("%s", heald_last_error(c));
        const float *y = heald_tensor_data(out);
        for (int64_t i = 0; i < n; i++) {
            float v = ((float)i - 1) * ((float)i + 2);
            assert_true(y[i] == (v > 0 ? v : 0) + 1);
        }
        for (int i = 0; i < 2; i++) heald_tensor_release(in[i]);
        heald_tensor_release(out);
    }
    heald_tensor *in[] = {tensor(3, 0), NULL}, *out = NULL;
    expect_error(c, heald_model_run(m, in, &out), HEALD_INVALID_ARGUMENT, "input 'w' is missing");
    in[1] = tensor(4, 0);
    assert_int_not_equal(heald_model_run(m, in, &out), HEALD_OK);
    assert_string_not_equal(heald_last_error(c), "");
    assert_null(out);
    for (int i = 0; i < 2; i++) heald_tensor_release(in[i]);
    heald_model_destroy(m);
    heald_context_destroy(c);
}

// Every subset of a model's weights may be given, more of them than are kept compiled.
static void initializers_may_be_given(void **state)
{
    UNUSED(state);
    heald_context *c = context("interp");
    heald_model *m;
    heald_status s = heald_model_load_onnx(c, "examples/models/mnist_8/model.onnx", &m);
    if (s) fail_msg("%s", heald_last_error(c));
    int last = heald_model_optional_count(m) - 1;
    assert_int_equal(last, 7);
    assert_int_equal(heald_model_input_count(m), 1);
    assert_string_equal(heald_model_optional(m, last)->name, "Parameter194");
    assert_null(heald_model_optional(m, last + 1));
    heald_tensor *x, *own[4] = {0}, *first = NULL, *bad = tensor(10, 1);
    const heald_value_info *in = heald_model_input(m, 0);
    assert_int_equal(heald_tensor_create(HEALD_F32, in->rank, in->dims, &x), HEALD_OK);
    assert_int_equal(heald_model_run(m, &x, &first), HEALD_OK);
    static const int given[4] = {1, 3, 5, 7}; // biases, the last product, and what is added to it
    for (int i = 0; i < 4; i++) {
        const heald_value_info *v = heald_model_optional(m, given[i]);
        assert_int_equal(heald_tensor_create(v->dtype, v->rank, v->dims, &own[i]), HEALD_OK);
    }
    for (int set = 15; set >= 0; set--) {
        heald_tensor *y = NULL;
        for (int i = 0; i < 4; i++)
            assert_int_equal(heald_model_give(m, given[i], set >> i & 1 ? own[i] : NULL), HEALD_OK);
        if (heald_model_run(m, &x, &y)) fail_msg("%s", heald_last_error(c));
        const float *a = heald_tensor_data(y), *b = heald_tensor_data(first);
        bool zero = true, same = true;
        for (int i = 0; i < 10; i++) zero = zero && a[i] == 0, same = same && a[i] == b[i];
        assert_true(set != 0 || same);
        assert_true((set & 12) != 12 || zero);
        heald_tensor_release(y);
    }
    expect_error(c, heald_model_give(m, 8, x), HEALD_INVALID_ARGUMENT, "no optional input 8");
    expect_error(c, heald_model_give(m, -1, NULL), HEALD_INVALID_ARGUMENT, "no optional input -1");
    expect_error(c, heald_model_give(m, 7, bad), HEALD_INVALID_ARGUMENT,
                 "input 'Parameter194' is f32[10], the model wants f32[1, 10]");
    assert_int_equal(heald_model_give(NULL, 0, NULL), HEALD_INVALID_ARGUMENT);
    for (int i = 0; i < 4; i++) heald_tensor_release(own[i]);
    heald_tensor_release(bad);
    heald_tensor_release(first);
    heald_tensor_release(x);
    heald_model_destroy(m);
    heald_context_destroy(c);
}

static int stop_if(void *user)
{
    return *(int *)user;
}

static void a_run_can_be_cancelled(void **state)
{
    UNUSED(state);
    int stop = 1;
    heald_context *c;
    heald_context_options o =
        HEALD_CONTEXT_OPTIONS(.target = "interp", .cancel = stop_if, .user = &stop);
    assert_int_equal(heald_context_create(HEALD_VERSION, &o, &c), HEALD_OK);
    heald_model *m;
    assert_int_equal(heald_model_load_text(c, "chain.hd", chain, NULL, &m), HEALD_OK);
    heald_tensor *in[] = {tensor(3, -1), tensor(3, 2)}, *out = NULL;
    assert_int_equal(heald_model_prepare(m, in), HEALD_OK);
    assert_int_equal(heald_model_run(m, in, &out), HEALD_CANCELLED);
    assert_null(out);
    stop = 0;
    assert_int_equal(heald_model_run(m, in, &out), HEALD_OK);
    heald_tensor_release(out);
    for (int i = 0; i < 2; i++) heald_tensor_release(in[i]);
    heald_model_destroy(m);
    heald_context_destroy(c);
}

static void mistakes_about_models(void **state)
{
    UNUSED(state);
    heald_context *c = context("interp");
    heald_model *m;
    expect_error(c, heald_model_load_onnx(c, "none.onnx", &m), HEALD_IO, "none.onnx");
    assert_null(m);
    static const char noise[] = "this is no model";
    heald_status s = heald_model_load_onnx_memory(c, "noise", noise, sizeof noise, &m);
    expect_error(c, s, HEALD_FORMAT, "noise");
    expect_error(c, heald_model_load_text(c, "a.hd", chain, "none", &m), HEALD_NOT_FOUND, "'none'");
    heald_tensor *t;
    expect_error(c, heald_tensor_read(c, "none.npy", &t), HEALD_IO, "none.npy");
    expect_error(c, heald_tensor_read(c, NULL, &t), HEALD_INVALID_ARGUMENT, "argument is NULL");
    assert_null(t);
    heald_model_destroy(NULL);
    heald_context_destroy(c);
}

// The n-th allocation of the runtime fails, for every n, until all succeed.
static void running_out_of_memory_is_a_status(void **state)
{
    UNUSED(state);
    heald_context *c = context("interp");
    heald_tensor *in[] = {tensor(3, -1), tensor(3, 2)};
    heald_status s = HEALD_NO_MEMORY;
    int n = 0;
    for (; n < 1000 && s; n++) {
        heald_model *m = NULL;
        heald_tensor *out = NULL;
        memory_fail_after(n);
        s = heald_model_load_text(c, "chain.hd", chain, NULL, &m);
        if (!s) s = heald_model_run(m, in, &out);
        memory_fail_after(-1);
        if (s) assert_int_equal(s, HEALD_NO_MEMORY);
        heald_tensor_release(out);
        heald_model_destroy(m);
    }
    assert_in_range(n, 3, 999);
    for (int i = 0; i < 2; i++) heald_tensor_release(in[i]);
    heald_context_destroy(c);
}

static void an_arena_at_its_limit_is_a_status(void **state)
{
    UNUSED(state);
    heald_context *c = context("interp");
    c->arena.limit_bytes = c->arena.total_bytes + 1;
    heald_status s = HEALD_OK;
    for (int i = 0; i < 100000 && !s; i++) s = heald_library_add(c, "t.hd", "fn three() = 3;\n");
    expect_error(c, s, HEALD_NO_MEMORY, "out of memory");
    c->arena.limit_bytes = 0;
    assert_int_equal(heald_library_add(c, "t.hd", "fn three() = 3;\n"), HEALD_OK);
    heald_context_destroy(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_contexts_are_refused),
        cmocka_unit_test(a_smaller_struct_is_an_older_one),
        cmocka_unit_test(diagnostics_have_places),
        cmocka_unit_test(kernels_are_compiled_and_run),
        cmocka_unit_test(kernels_are_interpreted),
        cmocka_unit_test(mistakes_about_kernels),
        cmocka_unit_test(a_graph_of_text_runs_for_every_shape),
        cmocka_unit_test(initializers_may_be_given),
        cmocka_unit_test(a_run_can_be_cancelled),
        cmocka_unit_test(mistakes_about_models),
        cmocka_unit_test(running_out_of_memory_is_a_status),
        cmocka_unit_test(an_arena_at_its_limit_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
