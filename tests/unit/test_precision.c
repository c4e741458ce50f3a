// SPDX-License-Identifier: Apache-2.0
// Models in narrower types than f32: results stay near, types at the edges stay, what needs f32
// keeps it, and what the narrow type has no room for is counted.
#include "api/model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_INPUTS = 4, MAX_OUTPUTS = 16 };

typedef struct Row {
    const char *model, *text; // a folder of HEALD_MODELS, or a graph
    const char *has[3];       // in the graph as compiled in f16
    const char *lacks[2];
    double tolerance; // times the largest result, in f16; 0: 2e-2
} Row;

static const Row rows[] = {
    {.text = "graph g(x: f32[5, 7], w: f32[7, 3]) -> (y) { y = relu(matmul(x, w)); }",
     .has = {"f16[5, 3] = matmul(", "f16[5, 7] = cast(", "f32[5, 3] = cast("},
     .tolerance = 2e-3},
    // Spelled-out statistics are in f32, and nothing goes back and forth between them.
    {.text = "graph g(x: f32[4, 64]) -> (y) { let e = exp(x); y = e / (1 + reduce_sum(e; "
             "axes = (1,), keepdims = true)); }",
     .has = {"f32[4, 64] = exp(", "f32[4, 1] = reduce_sum(", "f32[4, 64] = div("}},
    // A mask keeps its numbers until the softmax reads them.
    {.text = "graph g(x: f32[4, 8], m: f32[4, 8]) -> (y) { y = softmax(x + (1 - abs(m)) * -1e9); }",
     .has = {"f32[4, 8] = mul(", "f32[4, 8] = add(", "f32[4, 8] = softmax("}},
    // An epsilon does not vanish, integers come from f32.
    {.text =
         "graph g(x: f32[4, 8]) -> (y, i) { y = relu(x) / (relu(x) + 1e-10); i = cast(x * 3000.7; "
         "to = i64); }",
     .has = {"f32[4, 8] = add(", "i64[4, 8] = cast("}},
    // Constants that the model has in f16 become f32 where that is needed.
    {.text = "graph g(x: f16[2, 3, 4, 4], i: i64[2]) -> (y) { y = roi_align_10(x, "
             "constant_of_shape(; shape = (2, 4), value = 1.5, value_type = f16), i; output_height "
             "= 2, output_width = 2); }",
     .has = {"f32[2, 3, 2, 2] = roi_align_10("}},
    {.model = "bert_toy_ort", .has = {"f16"}},
    {.model = "tf_bert_qa_tiny", .has = {"f16"}},
    {.model = "super_resolution_10", .has = {"f16[batch_size, 64, 224, 224] = conv("}},
    {.model = "tract_bidi_lstm", .has = {"f16"}},
};

typedef struct Run {
    heald_context *context;
    heald_model *model;
    heald_tensor *input[MAX_INPUTS], *output[MAX_OUTPUTS];
    int ninput, noutput;
    const Graph *graph;
} Run;

// The same numbers for each precision: reals in (-1, 1), integers 0 and 1.
static heald_tensor *random_input(const heald_value_info *v, uint64_t seed)
{
    int64_t dims[HEALD_MAX_RANK], n = 1;
    heald_tensor *t;
    for (int i = 0; i < v->rank; i++) n *= dims[i] = v->dims[i] < 0 ? 3 : v->dims[i];
    assert_int_equal(heald_tensor_create(v->dtype, v->rank, dims, &t), HEALD_OK);
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        double x = (double)(int64_t)seed / 9223372036854775808.0;
        char *at = (char *)heald_tensor_data(t) + (size_t)i * dtype_size((DType)v->dtype);
        dtype_store_f64((DType)v->dtype, at, v->dtype == HEALD_F32 ? x : x > 0);
    }
    return t;
}

static heald_status start_on(const char *target, const Row *row, const char *precision, Run *r)
{
    *r = (Run){0};
    heald_context_options o = HEALD_CONTEXT_OPTIONS(.target = target, .precision = precision);
    assert_int_equal(heald_context_create(HEALD_VERSION, &o, &r->context), HEALD_OK);
    char path[4096];
    heald_status s;
    snprintf(path, sizeof path, "%s/%s/model.onnx", getenv("HEALD_MODELS"), row->model);
    if (row->text) s = heald_model_load_text(r->context, "g", row->text, NULL, &r->model);
    else s = heald_model_load_onnx(r->context, path, &r->model);
    if (s) return s;
    r->ninput = heald_model_input_count(r->model);
    r->noutput = heald_model_output_count(r->model);
    assert_true(r->ninput <= MAX_INPUTS && r->noutput <= MAX_OUTPUTS);
    for (int i = 0; i < r->ninput; i++)
        r->input[i] = random_input(heald_model_input(r->model, i), (uint64_t)i + 1);
    s = heald_model_run(r->model, r->input, r->output);
    if (!s) r->graph = model_current(r->model)->compiled->graph;
    return s;
}

static heald_status start(const Row *row, const char *precision, Run *r)
{
    return start_on("cpu", row, precision, r);
}

static void stop(Run *r)
{
    for (int i = 0; i < r->ninput; i++) heald_tensor_release(r->input[i]);
    for (int i = 0; i < r->noutput; i++) heald_tensor_release(r->output[i]);
    heald_model_destroy(r->model);
    heald_context_destroy(r->context);
}

static double element(const heald_tensor *t, int64_t i)
{
    DType type = (DType)heald_tensor_dtype(t);
    return dtype_load_f64(type, (char *)heald_tensor_data(t) + (size_t)i * dtype_size(type));
}

static void compare(const heald_tensor *got, const heald_tensor *want, double tolerance)
{
    assert_int_equal(heald_tensor_dtype(got), heald_tensor_dtype(want));
    assert_int_equal(heald_tensor_bytes(got), heald_tensor_bytes(want));
    int64_t n = (int64_t)(heald_tensor_bytes(want) / dtype_size((DType)heald_tensor_dtype(want)));
    double most = 0, off = 0;
    for (int64_t i = 0; i < n; i++) {
        most = fmax(most, fabs(element(want, i)));
        off = fmax(off, fabs(element(got, i) - element(want, i)));
        assert_true(isfinite(element(got, i)));
    }
    if (off > tolerance * most) fail_msg("off by %g of %g", off, most);
}

static void check_text(const Row *row, const Graph *g)
{
    Arena a = {0};
    Buf text;
    buf_init(&text, &a);
    graph_print(g, &text);
    for (int i = 0; i < 3 && row->has[i]; i++)
        if (!strstr(buf_text(&text), row->has[i]))
            fail_msg("no '%s' in\n%s", row->has[i], buf_text(&text));
    for (int i = 0; i < 2 && row->lacks[i]; i++)
        if (strstr(buf_text(&text), row->lacks[i]))
            fail_msg("'%s' in\n%s", row->lacks[i], buf_text(&text));
    arena_free(&a);
}

static void near_f32(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const Row *row = &rows[i];
        if (row->model && !getenv("HEALD_MODELS")) continue;
        Run want;
        assert_int_equal(start(row, "f32", &want), HEALD_OK);
        static const char *const names[] = {"f16", "bf16", "tf32", "tf32x3"};
        for (size_t k = 0; k < COUNT(names); k++) {
            Run got;
            print_message("%s %s\n", names[k], row->model ? row->model : row->text);
            heald_status s = start(row, names[k], &got);
            if (s) fail_msg("%s", heald_last_error(got.context));
            double factor = k == 1 ? 8 : 1;
            for (int o = 0; o < got.noutput; o++)
                compare(got.output[o], want.output[o],
                        factor * (row->tolerance > 0 ? row->tolerance : 2e-2));
            if (k == 0) check_text(row, got.graph);
            if (k > 1) assert_int_equal(got.graph->nnarrow, 0);
            stop(&got);
        }
        stop(&want);
    }
}

// Weights beyond the range are taken as its largest number, and told.
static void beyond(void **unused)
{
    (void)unused;
    static const Row row = {
        .text = "graph g(x: f32[2, 3]) -> (y) { y = matmul(x, constant_of_shape(; shape = (3, 4), "
                "value = 1e6, value_type = f32)); }"};
    Run r;
    assert_int_equal(start(&row, "f16", &r), HEALD_OK);
    assert_int_equal(r.graph->beyond, 12);
    assert_non_null(r.graph->beyond_name);
    for (int i = 0; i < 8; i++) {
        double sum = 0;
        for (int k = 0; k < 3; k++) sum += element(r.input[0], i / 4 * 3 + k);
        assert_true(fabs(element(r.output[0], i) - sum * 65504) < 1e-2 * 65504);
    }
    stop(&r);
    assert_int_equal(start(&row, "bf16", &r), HEALD_OK);
    assert_int_equal(r.graph->beyond, 0);
    stop(&r);
}

// What f16 has no room for is infinite in the result, not something else.
static void overflow(void **unused)
{
    (void)unused;
    static const Row row = {
        .text =
            "graph g(x: f32[2, 3]) -> (y) { y = matmul(abs(x) + 300, transpose(abs(x) + 300)); }"};
    Run r;
    assert_int_equal(start(&row, "f16", &r), HEALD_OK);
    for (int i = 0; i < 4; i++) assert_true(isinf(element(r.output[0], i)));
    stop(&r);
    assert_int_equal(start(&row, "bf16", &r), HEALD_OK);
    for (int i = 0; i < 4; i++) assert_true(fabs(element(r.output[0], i) / 270000 - 1) < 0.02);
    stop(&r);
}

// On tensor cores, in the interpreter: elements of few bits where one product must do, and only
// there.
static void tensor_cores(void **unused)
{
    (void)unused;
    static const Row row = {
        .text = "graph g(x: f32[40, 24], w: f32[24, 24]) -> (y) { y = matmul(x, w); }"};
    static const char *const names[] = {"f32", "tf32x3", "tf32"};
    double want[40 * 24] = {0}, most = 0;
    for (size_t k = 0; k < COUNT(names); k++) {
        Run r;
        double off = 0;
        assert_int_equal(start_on("interp:sm_80", &row, names[k], &r), HEALD_OK);
        for (int i = 0; k == 0 && i < 40 * 24; i++) {
            for (int l = 0; l < 24; l++)
                want[i] +=
                    element(r.input[0], i / 24 * 24 + l) * element(r.input[1], l * 24 + i % 24);
            most = fmax(most, fabs(want[i]));
        }
        for (int i = 0; i < 40 * 24; i++) off = fmax(off, fabs(element(r.output[0], i) - want[i]));
        assert_true(k == 2 ? off > 1e-5 * most && off < 2e-3 * most : off < 1e-6 * most);
        stop(&r);
    }
}

// Infinity times a number has the sign of the number, whatever its parts are.
static void infinite(void **unused)
{
    (void)unused;
    static const Row rows_of[] = {
        {.text = "graph g(x: f32[300, 1], w: f32[1, 240]) -> (y) { y = matmul(abs(x) / 0, w); }"},
        {.text = "graph g(x: f32[300, 1, 1, 1], w: f32[240, 1, 1, 1]) -> (y) { "
                 "y = conv(abs(x) / 0, round(w * 3) / 2 + 0.25); }"}};
    for (size_t k = 0; k < COUNT(rows_of); k++) {
        Run r;
        assert_int_equal(start_on("interp:sm_80", &rows_of[k], "tf32x3", &r), HEALD_OK);
        for (int i = 0; i < 300 * 240; i++) {
            double w = element(r.input[1], i % 240);
            if (k == 1) w = nearbyint(w * 3) / 2 + 0.25;
            assert_true(isinf(element(r.output[0], i)));
            assert_true((element(r.output[0], i) > 0) == (w > 0));
        }
        stop(&r);
    }
}

static void unknown(void **unused)
{
    (void)unused;
    heald_context *c;
    heald_context_options o = HEALD_CONTEXT_OPTIONS(.precision = "f8");
    assert_int_equal(heald_context_create(HEALD_VERSION, &o, &c), HEALD_INVALID_ARGUMENT);
    assert_non_null(strstr(heald_last_error(c), "tf32x3"));
    heald_context_destroy(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(near_f32), cmocka_unit_test(beyond),
                                       cmocka_unit_test(overflow), cmocka_unit_test(tensor_cores),
                                       cmocka_unit_test(infinite), cmocka_unit_test(unknown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
