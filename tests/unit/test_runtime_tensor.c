// SPDX-License-Identifier: Apache-2.0
// Tensors through the public header: sizes, views, owners, refusals, running out of memory.
#include "runtime/memory.h"
#include "runtime/tensor.h"

#include "base/util.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void test_create(void **state)
{
    UNUSED(state);
    heald_tensor *t;
    assert_int_equal(heald_tensor_create(HEALD_F32, 2, (int64_t[]){2, 3}, &t), HEALD_OK);
    assert_int_equal(heald_tensor_dtype(t), HEALD_F32);
    assert_int_equal(heald_tensor_rank(t), 2);
    assert_int_equal(heald_tensor_dims(t)[1], 3);
    assert_int_equal(heald_tensor_bytes(t), 24);
    assert_int_equal((uintptr_t)heald_tensor_data(t) % 64, 0);
    for (int i = 0; i < 6; i++) assert_true(((float *)heald_tensor_data(t))[i] == 0);
    heald_tensor_release(t);
    heald_tensor_release(NULL);
}

static void test_edges(void **state)
{
    UNUSED(state);
    heald_tensor *t;
    assert_int_equal(heald_tensor_create(HEALD_F64, 0, NULL, &t), HEALD_OK);
    assert_int_equal(heald_tensor_bytes(t), 8);
    heald_tensor_release(t);
    int64_t none[] = {INT64_MAX, 0, INT64_MAX};
    assert_int_equal(heald_tensor_create(HEALD_I8, 3, none, &t), HEALD_OK);
    assert_int_equal(heald_tensor_bytes(t), 0);
    assert_non_null(heald_tensor_data(t));
    heald_tensor_release(t);
    int64_t huge[] = {INT64_C(1) << 32, INT64_C(1) << 31}, negative[] = {-1};
    assert_int_equal(heald_tensor_create(HEALD_F32, 2, huge, &t), HEALD_INVALID_ARGUMENT);
    assert_null(t);
    assert_int_equal(heald_tensor_create(HEALD_F32, 1, negative, &t), HEALD_INVALID_ARGUMENT);
    assert_int_equal(heald_tensor_create(HEALD_F32, -1, NULL, &t), HEALD_INVALID_ARGUMENT);
    assert_int_equal(heald_tensor_create(HEALD_F32, 1, NULL, &t), HEALD_INVALID_ARGUMENT);
    assert_int_equal(heald_tensor_create(HEALD_F32, 99, none, &t), HEALD_INVALID_ARGUMENT);
    assert_int_equal(heald_tensor_create(HEALD_NONE, 0, NULL, &t), HEALD_INVALID_ARGUMENT);
    assert_int_equal(heald_tensor_create((heald_dtype)77, 0, NULL, &t), HEALD_INVALID_ARGUMENT);
    assert_int_equal(heald_tensor_create(HEALD_F32, 0, NULL, NULL), HEALD_INVALID_ARGUMENT);
}

static void count_release(void *user)
{
    ++*(int *)user;
}

static void test_caller_memory(void **state)
{
    UNUSED(state);
    float memory[6] = {1, 2, 3, 4, 5, 6};
    int released = 0;
    heald_tensor *t, *row, *last;
    int64_t dims[] = {2, 3};
    assert_int_equal(
        heald_tensor_from_memory(HEALD_F32, 2, dims, memory, count_release, &released, &t),
        HEALD_OK);
    assert_ptr_equal(heald_tensor_data(t), memory);
    assert_int_equal(heald_tensor_view(t, 3, 1, (int64_t[]){3}, &row), HEALD_OK);
    assert_int_equal(heald_tensor_view(row, 2, 0, NULL, &last), HEALD_OK);
    assert_true(*(float *)heald_tensor_data(last) == 6);
    heald_tensor_release(t);
    heald_tensor_release(row);
    assert_int_equal(released, 0);
    heald_tensor_release(last);
    assert_int_equal(released, 1);
    char *odd = (char *)memory + 1;
    assert_int_equal(
        heald_tensor_from_memory(HEALD_F32, 1, (int64_t[]){1}, odd, count_release, &released, &t),
        HEALD_INVALID_ARGUMENT);
    assert_int_equal(heald_tensor_from_memory(HEALD_F32, 2, dims, NULL, NULL, NULL, &t),
                     HEALD_INVALID_ARGUMENT);
    assert_int_equal(released, 1);
    assert_int_equal(heald_tensor_from_memory(HEALD_F32, 1, (int64_t[]){0}, NULL, NULL, NULL, &t),
                     HEALD_OK);
    assert_non_null(heald_tensor_data(t));
    heald_tensor_release(t);
}

static void test_views_stay_inside(void **state)
{
    UNUSED(state);
    heald_tensor *t, *v;
    assert_int_equal(heald_tensor_create(HEALD_I16, 1, (int64_t[]){10}, &t), HEALD_OK);
    static const struct {
        int64_t offset, n;
        bool fine;
    } list[] = {
        {0, 10, true},  {10, 0, true},  {9, 1, true},          {9, 2, false},
        {11, 0, false}, {-1, 1, false}, {INT64_MAX, 1, false}, {1, INT64_MAX / 4, false},
    };
    for (size_t i = 0; i < COUNT(list); i++) {
        heald_status s = heald_tensor_view(t, list[i].offset, 1, &list[i].n, &v);
        assert_int_equal(s, list[i].fine ? HEALD_OK : HEALD_INVALID_ARGUMENT);
        assert_int_equal(v != NULL, list[i].fine);
        heald_tensor_release(v);
    }
    heald_tensor_release(t);
}

static void *own_for_a_while(void *user)
{
    for (int i = 0; i < 1000; i++) heald_tensor_release(heald_tensor_retain(user));
    heald_tensor_release(user);
    return NULL;
}

static void test_owners_in_threads(void **state)
{
    UNUSED(state);
    int released = 0;
    char memory[1];
    heald_tensor *t;
    assert_int_equal(
        heald_tensor_from_memory(HEALD_U8, 0, NULL, memory, count_release, &released, &t),
        HEALD_OK);
    pthread_t thread[4];
    for (int i = 0; i < 4; i++) {
        heald_tensor_retain(t);
        assert_int_equal(pthread_create(&thread[i], NULL, own_for_a_while, t), 0);
    }
    heald_tensor_release(t);
    for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
    assert_int_equal(released, 1);
}

static void test_out_of_memory(void **state)
{
    UNUSED(state);
    heald_tensor *t, *v;
    memory_fail_after(0);
    assert_int_equal(heald_tensor_create(HEALD_F32, 0, NULL, &t), HEALD_NO_MEMORY);
    assert_null(t);
    assert_int_equal(heald_tensor_create(HEALD_F32, 0, NULL, &t), HEALD_OK);
    memory_fail_after(0);
    assert_int_equal(heald_tensor_view(t, 0, 0, NULL, &v), HEALD_NO_MEMORY);
    heald_tensor_release(t);
    Error e;
    memory_fail_after(0);
    assert_int_equal(tensor_create(DT_U8, 1, (int64_t[]){64}, &t, &e), HEALD_NO_MEMORY);
    assert_string_equal(e.text, "out of memory: 192 bytes for a tensor");
    memory_fail_after(-1);
}

static void test_names(void **state)
{
    UNUSED(state);
    assert_int_equal(heald_version(), HEALD_VERSION);
    for (int i = HEALD_OK; i <= HEALD_INTERNAL; i++) {
        assert_string_not_equal(heald_status_name((heald_status)i), "unknown status");
    }
    assert_string_equal(heald_status_name((heald_status)-1), "unknown status");
    assert_string_equal(heald_dtype_name(HEALD_BF16), "bf16");
    assert_string_equal(heald_dtype_name((heald_dtype)1000), "?");
    char text[40];
    assert_string_equal(shape_format(text, sizeof text, DT_F32, 2, (int64_t[]){2, 3}), "f32[2, 3]");
    assert_string_equal(shape_format(text, 6, DT_F32, 2, (int64_t[]){2, 3}), "f32[2");
}

static void test_messages(void **state)
{
    UNUSED(state);
    Error e = {0};
    assert_int_equal(error_set(&e, HEALD_IO, "file %s", "x"), HEALD_IO);
    assert_int_equal(error_prefix(&e, HEALD_IO, "step %d", 3), HEALD_IO);
    assert_string_equal(e.text, "step 3: file x");
    for (int i = 0; i < 200; i++) error_prefix(&e, HEALD_IO, "0123456789");
    assert_int_equal(strlen(e.text), sizeof e.text - 1);
    assert_int_equal(error_set(NULL, HEALD_IO, "x"), HEALD_IO);
    assert_int_equal(error_prefix(NULL, HEALD_IO, "x"), HEALD_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_create),
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_caller_memory),
        cmocka_unit_test(test_views_stay_inside),
        cmocka_unit_test(test_owners_in_threads),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
