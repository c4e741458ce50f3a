// SPDX-License-Identifier: Apache-2.0
// Types of at most 8 bits through the public interface: compiled C converts as the table of types
// does, whatever the bits; files hold them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "api/context.h"
#include "base/os.h"
#include "base/util.h"
#include "frontends/tensor_file.h"
#include "runtime/tensor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const DType small[] = {DT_F8E4M3FN, DT_F8E4M3FNUZ, DT_F8E5M2, DT_F8E5M2FNUZ, DT_F4E2M1,
                              DT_I4,       DT_U4,         DT_I2,     DT_U2};

static heald_context *context(const char *target)
{
    heald_context *c;
    assert_int_equal(heald_context_create(
                         HEALD_VERSION, &HEALD_CONTEXT_OPTIONS(.target = target, .threads = 1), &c),
                     HEALD_OK);
    return c;
}

// y = cast(x, to) of n elements.
static heald_tensor *converted(heald_context *c, heald_tensor *x, DType to)
{
    char text[200];
    heald_model *m;
    heald_tensor *y = NULL;
    snprintf(text, sizeof text, "heald 1;\ngraph g(x: %s[%lld]) -> (y) { y = cast(x, to = %s); }\n",
             dtypes[x->dtype].name, (long long)x->nelem, dtypes[to].name);
    heald_status s = heald_model_load_text(c, "g.hd", text, NULL, &m);
    if (!s) s = heald_model_run(m, &x, &y);
    if (s) fail_msg("%s", heald_last_error(c));
    heald_model_destroy(m);
    return y;
}

static heald_tensor *vector(DType t, int64_t n)
{
    heald_tensor *x;
    assert_int_equal(heald_tensor_create((heald_dtype)t, 1, &n, &x), HEALD_OK);
    return x;
}

// What the op of the library makes of a float: to f8 within its numbers, to few bits the lowest.
static double wanted(DType to, double v)
{
    uint8_t byte;
    if (dtype_small_float(to)) {
        if (isinf(v)) v = copysign(1e9, v);
        return f64_round_to(to, v);
    }
    dtype_store_i64(to, &byte, dtype_load_i64(DT_F64, &v));
    return dtype_load_f64(to, &byte);
}

// All numbers of f16 have more bits than those of an f8: neighbours, middles and what is beyond.
static void from_all_halves(void **state)
{
    heald_context *c = context(*state);
    heald_tensor *x = vector(DT_F16, 65536);
    for (int i = 0; i < 65536; i++) ((uint16_t *)x->data)[i] = (uint16_t)i;
    for (size_t k = 0; k < COUNT(small); k++) {
        heald_tensor *y = converted(c, x, small[k]);
        for (int i = 0; i < 65536; i++) {
            double v = dtype_load_f64(DT_F16, (uint16_t *)x->data + i), want = wanted(small[k], v);
            double got = dtype_load_f64(small[k], (uint8_t *)y->data + i);
            if (got != want && !(isnan(got) && isnan(want)))
                fail_msg("%s of %g: %g instead of %g", dtypes[small[k]].name, v, got, want);
        }
        heald_tensor_release(y);
    }
    heald_tensor_release(x);
    heald_context_destroy(c);
}

static void all_codes_to_f32(void **state)
{
    heald_context *c = context(*state);
    for (size_t k = 0; k < COUNT(small); k++) {
        int n = 1 << dtypes[small[k]].bits;
        heald_tensor *x = vector(small[k], n);
        for (int i = 0; i < n; i++) {
            if (dtype_is_float(small[k])) ((uint8_t *)x->data)[i] = (uint8_t)i;
            else dtype_store_i64(small[k], (uint8_t *)x->data + i, i);
        }
        heald_tensor *y = converted(c, x, DT_F32);
        for (int i = 0; i < n; i++) {
            float got = ((float *)y->data)[i];
            double want = dtype_load_f64(small[k], (uint8_t *)x->data + i);
            bool same = (double)got == want && !signbit(got) == !signbit(want);
            if (!same && !(isnan(got) && isnan(want)))
                fail_msg("%s %d: %g instead of %g", dtypes[small[k]].name, i, (double)got, want);
        }
        heald_tensor_release(x);
        heald_tensor_release(y);
    }
    heald_context_destroy(c);
}

// NumPy has no such types: floats are bytes there, integers those of 8 bits.
static void files_of_numpy(void **state)
{
    (void)state;
    Arena a = {0};
    static const uint8_t bytes[] = {0, 1, 3, 2};
    char path[] = "/tmp/heald-small-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    for (size_t k = 0; k < COUNT(small); k++) {
        HostTensor t = {.dtype = small[k], .rank = 1, .dims = {4}, .data = bytes}, back;
        DType want = dtypes[small[k]].class == DC_INT ? DT_I8 : DT_U8;
        assert_null(tensor_write_npy(&a, path, &t));
        const char *error = tensor_read_npy(&a, path, &back);
        if (error) fail_msg("%s", error);
        assert_int_equal(back.dtype, want);
        assert_memory_equal(back.data, bytes, 4);
    }
    unlink(path);
    arena_free(&a);
}

static void few_bits_have_no_arithmetic(void **state)
{
    (void)state;
    heald_context *c = context("cpu");
    heald_model *m;
    heald_tensor *x = vector(DT_I4, 4), *y = NULL;
    assert_int_equal(heald_model_load_text(c, "g.hd",
                                           "heald 1;\ngraph g(x: i4[4]) -> (y) { y = x + x; }\n",
                                           NULL, &m),
                     HEALD_OK);
    assert_int_equal(heald_model_run(m, &x, &y), HEALD_DIAGNOSTIC);
    assert_non_null(strstr(heald_last_error(c), "+ is not defined on i4: convert it first"));
    heald_model_destroy(m);
    heald_tensor_release(x);
    heald_context_destroy(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(from_all_halves, "cpu"),
        cmocka_unit_test_prestate(from_all_halves, "interp"),
        cmocka_unit_test_prestate(from_all_halves, "interp:sm_90"),
        cmocka_unit_test_prestate(all_codes_to_f32, "cpu"),
        cmocka_unit_test_prestate(all_codes_to_f32, "interp"),
        cmocka_unit_test(files_of_numpy),
        cmocka_unit_test(few_bits_have_no_arithmetic),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
