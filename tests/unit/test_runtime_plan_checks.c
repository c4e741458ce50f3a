// SPDX-License-Identifier: Apache-2.0
// What plans refuse, at their making, for a shape and for tensors; and how they print.
#include "unit/plan_sample.h"

#include "runtime/plan.h"

static void test_refusals(void **state)
{
    UNUSED(state);
    Rig r = rig(NULL);
    Error e;
    PlanInstance *p;
    const int64_t a[] = {8, 4}, b[] = {9, 4}, negative[] = {-1, 4}, big[] = {60, 4};
    const int64_t huge[] = {INT64_MAX / 2, 4}, many[] = {3000, 4};
    assert_int_equal(plan_prepare(r.runner, (const int64_t *[]){a, b}, &p, &e),
                     HEALD_INVALID_ARGUMENT);
    assert_string_equal(e.text, "input 1 (b) has shape f32[9, 4] instead of f32[8, 4]");
    assert_null(p);
    assert_int_equal(plan_prepare(r.runner, (const int64_t *[]){negative, negative}, &p, &e),
                     HEALD_INVALID_ARGUMENT);
    assert_int_equal(plan_prepare(r.runner, (const int64_t *[]){huge, huge}, &p, &e),
                     HEALD_INVALID_ARGUMENT);
    assert_int_equal(plan_prepare(r.runner, (const int64_t *[]){big, big}, &p, &e),
                     HEALD_INVALID_ARGUMENT);
    assert_string_equal(e.text, "value 7: 480 bytes from element 100 on are outside the 800 bytes "
                                "that it views");
    assert_int_equal(plan_prepare(r.runner, (const int64_t *[]){many, many}, &p, &e),
                     HEALD_INVALID_ARGUMENT);

    assert_int_equal(plan_prepare(r.runner, (const int64_t *[]){a, a}, &p, &e), HEALD_OK);
    Inputs in = inputs(8), other = inputs(9);
    heald_tensor *out[2] = {NULL, NULL};
    assert_int_equal(plan_run(p, other.at, out, &e), HEALD_INVALID_ARGUMENT);
    assert_string_equal(e.text, "input 0 (a) is f32[9, 4] instead of f32[8, 4]");
    assert_int_equal(plan_run(p, (heald_tensor *[]){in.at[0], NULL}, out, &e),
                     HEALD_INVALID_ARGUMENT);
    out[1] = other.at[0];
    assert_int_equal(plan_run(p, in.at, out, &e), HEALD_INVALID_ARGUMENT);
    assert_null(out[0]);
    out[1] = in.at[0];
    assert_int_equal(plan_run(p, in.at, out, &e), HEALD_INVALID_ARGUMENT);
    assert_string_equal(e.text, "output 1 shares memory with input 0");
    assert_null(out[0]);
    out[1] = NULL;
    data(in.at[0])[5] = -13;
    data(in.at[1])[5] = 0;
    assert_int_equal(plan_run(p, in.at, out, &e), HEALD_CHECK_FAILED);
    assert_string_equal(e.text, "step 1 (twice): kernel double, stage in: check 1 failed");
    assert_null(out[0]);
    assert_null(out[1]);
    // None of it did harm.
    data(in.at[1])[5] = 20;
    assert_int_equal(plan_run(p, in.at, out, &e), HEALD_OK);
    assert_true(right(&in, out, 8));
    release2(out);
    release2(in.at);
    release2(other.at);
    drop(&r);
}

static void expect_bad(Plan *p, const char *text)
{
    Error e;
    assert_int_equal(plan_verify(p, &e), HEALD_FORMAT);
    assert_string_equal(e.text, text);
}

static void test_requirements(void **state)
{
    UNUSED(state);
    Sample s = sample();
    ShapeExpr few = shape_op(&arena, SHAPE_LE, shape_dim(&arena, 0), shape_const(&arena, 9));
    plan_require(s.plan, few, "n is too large");
    Buf b;
    buf_init(&b, &arena);
    plan_print(s.plan, &b);
    assert_non_null(strstr(buf_text(&b), "\nrequire n <= 9  \"n is too large\"\n"));
    Device *d;
    PlanRunner *r;
    PlanInstance *in;
    Error e;
    const int64_t nine[] = {9, 4}, ten[] = {10, 4};
    assert_int_equal(device_open(&device_cpu, NULL, &d, NULL), HEALD_OK);
    assert_int_equal(plan_runner_create(s.plan, d, NULL, &r, NULL), HEALD_OK);
    assert_int_equal(plan_prepare(r, (const int64_t *[]){nine, nine}, &in, &e), HEALD_OK);
    assert_int_equal(plan_prepare(r, (const int64_t *[]){ten, ten}, &in, &e), HEALD_CHECK_FAILED);
    assert_string_equal(e.text, "n is too large; n is 10 (axis 0 of input 'a')");
    plan_runner_destroy(r);
    device_close(d);
    s.plan->requirements.at[0].message = NULL;
    expect_bad(s.plan, "requirement 0 of the plan is malformed");
    heald_tensor_release(s.w);
}

static void test_print(void **state)
{
    UNUSED(state);
    Sample s = sample();
    Buf b;
    buf_init(&b, &arena);
    plan_print(s.plan, &b);
    assert_string_equal(buf_text(&b), "dim n = axis 0 of input 0\n"
                                      "%0 = input f32[n, 4]  \"a\"\n"
                                      "%1 = input f32[n, 4]  \"b\"\n"
                                      "%2 = temp f32[n, 4]  \"t\"\n"
                                      "%3 = temp f32[n * 4] in place of %2  \"u\"\n"
                                      "%4 = view f32[n * 4] of %2 from 0\n"
                                      "%5 = view f32[n * 2] of %3 from n * 2  \"upper\"\n"
                                      "%6 = const f32[200]  \"w\"\n"
                                      "%7 = view f32[n * 2] of %6 from 100\n"
                                      "%8 = output f32[n * 2]  \"out0\"\n"
                                      "%9 = output f32[n, 4]  \"out1\"\n"
                                      "launch add<n * 4, 5>(%0, %1, %2)  \"sum\"\n"
                                      "launch double<n * 4>(%4, %3)  \"twice\"\n"
                                      "launch add<n * 2, 5>(%5, %7, %8)  \"sum\"\n"
                                      "copy(%3, %9)  \"result\"\n");
    heald_tensor_release(s.w);
}

static void test_verify(void **state)
{
    UNUSED(state);
    Sample s = sample();
    Plan *p = s.plan;
    PlanValue *v = p->values.at, kept;
    assert_int_equal(plan_verify(p, NULL), HEALD_OK);
#define TRY(change, text)    \
    do {                     \
        kept = v[5];         \
        change;              \
        expect_bad(p, text); \
        v[5] = kept;         \
    } while (0)
    TRY(v[5].base = 5, "value 5 of the plan stands before the value whose memory it uses");
    TRY(v[5].base = -1, "value 5 of the plan is a view of nothing");
    TRY(v[5].kind = (PlanValueKind)9, "value 5 of the plan has an unknown kind");
    TRY(v[5].dtype = DT_NONE, "value 5 of the plan has an unknown type");
    TRY(v[5].rank = 99, "value 5 of the plan has an impossible rank");
    TRY(v[5].kind = VALUE_CONST, "value 5 of the plan is a constant without a tensor");
    TRY(v[5].kind = VALUE_OUTPUT, "value 5 of the plan takes over memory that is not temporary");
    TRY(v[5].offset.n = 0, "value 5 of the plan has a malformed offset");
    TRY((v[5].kind = VALUE_INPUT, v[5].base = -1),
        "the plan's lists of inputs and outputs are wrong");
#undef TRY
    p->dims.at[0].axis = 2;
    expect_bad(p, "dimension 0 of the plan is of no input");
    p->dims.at[0].axis = 0;
    p->steps.at[3].nvalue = 1;
    expect_bad(p, "step 3 of the plan has not two values");
    p->steps.at[3].nvalue = 2;
    p->steps.at[1].kernel = add_kernel();
    expect_bad(p, "step 1 of the plan has not the kernel's number of parameters");
    p->steps.at[1].value = (int[]){0, 10};
    expect_bad(p, "step 1 of the plan has a value that does not exist");
    Device *d;
    PlanRunner *r;
    assert_int_equal(device_open(&device_cpu, NULL, &d, NULL), HEALD_OK);
    assert_int_equal(plan_runner_create(p, d, NULL, &r, NULL), HEALD_FORMAT);
    assert_null(r);
    device_close(d);
    heald_tensor_release(s.w);
}

// A chain of in-place sums. twice: the third takes the first one's memory, as the second does.
// late: the first is read at the end.
static heald_status try_alias(bool twice, bool late)
{
    Plan *p = plan_new(&arena);
    ShapeExpr n = shape_dim(&arena, plan_dim(p, NULL, 0, 0));
    int x = plan_input(p, "x", DT_F32, 1, &n);
    int t1 = plan_temp(p, NULL, DT_F32, 1, &n, -1), t2 = plan_temp(p, NULL, DT_F32, 1, &n, t1);
    int t3 = plan_temp(p, NULL, DT_F32, 1, &n, twice ? t1 : t2);
    int y = plan_output(p, "y", DT_F32, 1, &n);
    emit_add(p, x, x, t1, n);
    emit_add(p, x, t1, t2, n);
    emit_add(p, x, t2, t3, n);
    emit_add(p, t3, late ? t1 : x, y, n);
    Device *d;
    PlanRunner *r;
    Error e;
    assert_int_equal(device_open(&device_cpu, &(DeviceOptions){.nthread = 1}, &d, &e), 0);
    heald_status s = plan_runner_create(p, d, NULL, &r, &e);
    if (s) assert_non_null(strstr(e.text, "which is still in use"));
    plan_runner_destroy(r);
    device_close(d);
    return s;
}

static void test_unsafe_aliases(void **state)
{
    UNUSED(state);
    assert_int_equal(try_alias(false, false), HEALD_OK);
    assert_int_equal(try_alias(true, false), HEALD_FORMAT);
    assert_int_equal(try_alias(false, true), HEALD_FORMAT);
}

// A device whose memory the host does not share: tensors must be its own.
static void test_far_device(void **state)
{
    UNUSED(state);
    DeviceOps far = device_cpu;
    far.host_memory = false;
    far.name = "far";
    Device *d;
    Error e;
    assert_int_equal(device_open(&far, &(DeviceOptions){.nthread = 1}, &d, &e), HEALD_OK);
    Sample s = sample();
    PlanRunner *r;
    assert_int_equal(plan_runner_create(s.plan, d, NULL, &r, &e), HEALD_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "constant outside the memory of device far"));
    heald_tensor_release(s.w);

    Plan *p = plan_new(&arena);
    ShapeExpr n = shape_dim(&arena, plan_dim(p, NULL, 0, 0));
    int x = plan_input(p, "x", DT_F32, 1, &n), y = plan_output(p, "y", DT_F32, 1, &n);
    emit_add(p, x, x, y, n);
    assert_int_equal(plan_runner_create(p, d, NULL, &r, &e), HEALD_OK);
    int64_t dims[] = {3};
    heald_tensor *near = tensor(1, dims), *own, *out = NULL;
    assert_int_equal(plan_run_tensors(r, &near, &out, &e), HEALD_INVALID_ARGUMENT);
    assert_string_equal(e.text, "input 0 (x) is not in memory of device far");
    memory_fail_after(1);
    assert_int_equal(tensor_create_on(d, DT_F32, 1, dims, &own, &e), HEALD_NO_MEMORY);
    memory_fail_after(-1);
    assert_null(own);
    assert_int_equal(tensor_create_on(d, DT_F32, 1, dims, &own, &e), HEALD_OK);
    for (int i = 0; i < 3; i++) data(own)[i] = (float)i;
    assert_int_equal(plan_run_tensors(r, &own, &out, &e), HEALD_OK);
    assert_ptr_equal(out->device, d);
    assert_true(data(out)[2] == 4);
    heald_tensor_release(near);
    heald_tensor_release(own);
    heald_tensor_release(out);
    plan_runner_destroy(r);
    device_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),   cmocka_unit_test(test_print),
        cmocka_unit_test(test_verify),     cmocka_unit_test(test_unsafe_aliases),
        cmocka_unit_test(test_far_device), cmocka_unit_test(test_requirements),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
