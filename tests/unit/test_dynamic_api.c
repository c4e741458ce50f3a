// SPDX-License-Identifier: Apache-2.0
// Models with open dimensions through the public interface: one compilation serves every size, and
// a size that the graph forbids is named.
#include "api/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_INPUTS = 4 };

typedef struct Size {
    const char *name; // of a dimension; an axis of the only input where it has none: "0", "2"
    int64_t value;
} Size;

typedef struct Row {
    const char *model, *text; // a folder of HEALD_MODELS, or a graph
    Size sizes[6][4];
    Size forbidden[4];
    const char *says[4]; // in the message then
} Row;

static const Row rows[] = {
    {.model = "bert_toy_ort",
     .sizes = {{{"batch", 1}, {"max_seq_len_in_batch", 8}},
               {{"batch", 3}, {"max_seq_len_in_batch", 5}},
               {{"batch", 1}, {"max_seq_len_in_batch", 1}},
               {{"batch", 2}, {"max_seq_len_in_batch", 16}}},
     .forbidden = {{"batch", 2}, {"max_seq_len_in_batch", 513}},
     .says = {"max_seq_len_in_batch is 513", "axis 1 of input 'input_ids'", "in node"}},
    {.model = "ppocr_mobile_v1.1_det",
     .sizes = {{{"0", 1}, {"2", 64}, {"3", 64}},
               {{"0", 1}, {"2", 96}, {"3", 32}},
               {{"0", 2}, {"2", 32}, {"3", 160}}},
     .forbidden = {{"0", 1}, {"2", 40}, {"3", 64}},
     .says = {"is 40 (axis 2 of input 'image')", "in node"}},
    {.model = "silero_vad_16k_op15",
     .sizes = {{{"batch", 1}, {"sequence", 576}},
               {{"batch", 3}, {"sequence", 512}},
               {{"batch", 17}, {"sequence", 700}}},
     .forbidden = {{"batch", 1}, {"sequence", 60}},
     .says = {"sequence is 60 (axis 1 of input 'input')", "in node"}},
    {.text = "graph g(x: f32[b, t], z: f32[b, 4]) -> (y) { y = relu(x) + z; }",
     .sizes = {{{"b", 2}, {"t", 4}}, {{"b", 7}, {"t", 4}}},
     .forbidden = {{"b", 2}, {"t", 3}},
     .says = {"t is 3 (axis 1 of input 'x')", "extents 3 and 4 do not broadcast", "in node"}},
    {.text = "graph g(x: f32[b, 4], z: f32[c, 4]) -> (y) { y = x + z; }",
     .sizes = {{{"b", 2}, {"c", 2}}, {{"b", 7}, {"c", 7}}},
     .forbidden = {{"b", 2}, {"c", 3}},
     .says = {"c is 3 (axis 0 of input 'z')", "extents 2 and 3 do not broadcast"}},
};

static void fill(heald_tensor *t, const char *name)
{
    for (int64_t i = 0; i < t->nelem; i++) {
        char *p = (char *)t->data + (size_t)i * dtype_size(t->dtype);
        int64_t x = !strcmp(name, "sr") ? 16000 : i * 7 % 2;
        if (dtype_is_float(t->dtype)) dtype_store_f64(t->dtype, p, (double)(i * 31 % 17) / 17);
        else dtype_store_i64(t->dtype, p, x);
    }
}

static int64_t size_of(const Size *sizes, const char *name, int axis)
{
    char number[16];
    snprintf(number, sizeof number, "%d", axis);
    for (const Size *s = sizes; s->name; s++)
        if (!strcmp(s->name, name ? name : number)) return s->value;
    fail_msg("no size for %s", name ? name : number);
    return 0;
}

static heald_status run(heald_model *m, const Size *sizes)
{
    heald_tensor *in[MAX_INPUTS], *out[MAX_INPUTS] = {0};
    int n = heald_model_input_count(m);
    for (int i = 0; i < n; i++) {
        const heald_value_info *v = heald_model_input(m, i);
        int64_t dims[HEALD_MAX_RANK];
        for (int k = 0; k < v->rank; k++)
            dims[k] = v->dims[k] >= 0 ? v->dims[k] : size_of(sizes, v->dim_names[k], k);
        assert_int_equal(heald_tensor_create(v->dtype, v->rank, dims, &in[i]), HEALD_OK);
        fill(in[i], v->name);
    }
    heald_status s = heald_model_run(m, in, out);
    for (int i = 0; i < n; i++) heald_tensor_release(in[i]);
    for (int i = 0; i < heald_model_output_count(m); i++) heald_tensor_release(out[i]);
    return s;
}

static heald_status load(heald_context *c, const Row *r, heald_model **m)
{
    const char *root = getenv("HEALD_MODELS");
    char path[4096];
    if (r->text) return heald_model_load_text(c, "test.hd", r->text, "g", m);
    snprintf(path, sizeof path, "%s/%s/model.onnx", root ? root : "", r->model);
    return root && path_exists(path) ? heald_model_load_onnx(c, path, m) : HEALD_NOT_FOUND;
}

static void row(void **state)
{
    const Row *r = *state;
    heald_context *c;
    heald_model *m;
    heald_context_options o =
        HEALD_CONTEXT_OPTIONS(.threads = 2, .target = r->text ? "interp" : "cpu");
    assert_int_equal(heald_context_create(HEALD_VERSION, &o, &c), HEALD_OK);
    if (load(c, r, &m)) {
        assert_null(r->text);
        heald_context_destroy(c);
        skip();
    }
    for (int i = 0; i < 6 && r->sizes[i][0].name; i++) {
        if (run(m, r->sizes[i])) fail_msg("%s", heald_last_error(c));
        assert_int_equal(m->section.base.nvariant, 1);
        assert_true(m->section.base.variant[0]->open);
    }
    assert_int_not_equal(run(m, r->forbidden), HEALD_OK);
    for (int i = 0; i < 4 && r->says[i]; i++)
        if (!strstr(heald_last_error(c), r->says[i]))
            fail_msg("'%s' is not in: %s", r->says[i], heald_last_error(c));
    assert_int_equal(m->section.base.nvariant, 1);
    assert_int_equal(run(m, r->sizes[0]), HEALD_OK);
    heald_model_destroy(m);
    heald_context_destroy(c);
}

// For a GPU, the first few sizes have code of their own, and all others share some.
static void gpu(void **state)
{
    (void)state;
    static const char text[] =
        "graph g(x: f32[n, 5], w: f32[5, 3]) -> (y) { y = softmax(matmul(x, w)) + 1; }";
    heald_context *c[2];
    heald_model *m[2];
    heald_tensor *in[2], *out[2];
    for (int t = 0; t < 2; t++) {
        heald_context_options o = HEALD_CONTEXT_OPTIONS(.target = t ? "interp:sm_80" : "interp");
        assert_int_equal(heald_context_create(HEALD_VERSION, &o, &c[t]), HEALD_OK);
        assert_int_equal(heald_model_load_text(c[t], "test.hd", text, "g", &m[t]), HEALD_OK);
    }
    assert_int_equal(heald_tensor_create(HEALD_F32, 2, (int64_t[]){5, 3}, &in[1]), HEALD_OK);
    fill(in[1], "w");
    for (int n = 1; n < 20; n += 2) {
        assert_int_equal(heald_tensor_create(HEALD_F32, 2, (int64_t[]){n, 5}, &in[0]), HEALD_OK);
        fill(in[0], "x");
        for (int t = 0; t < 2; t++) {
            out[t] = NULL;
            if (heald_model_run(m[t], in, &out[t])) fail_msg("%s", heald_last_error(c[t]));
        }
        const float *want = out[0]->data, *have = out[1]->data;
        for (int i = 0; i < 3 * n; i++) assert_float_equal(have[i], want[i], 1e-6);
        assert_int_equal(m[1]->section.base.nvariant, n < 9 ? (n + 1) / 2 : 5);
        heald_tensor_release(in[0]);
        for (int t = 0; t < 2; t++) heald_tensor_release(out[t]);
    }
    assert_true(m[1]->section.base.variant[4]->open);
    heald_tensor_release(in[1]);
    for (int t = 0; t < 2; t++) {
        heald_model_destroy(m[t]);
        heald_context_destroy(c[t]);
    }
}

int main(void)
{
    struct CMUnitTest tests[COUNT(rows) + 1];
    tests[COUNT(rows)] = (struct CMUnitTest){"gpu", gpu, NULL, NULL, NULL};
    for (size_t i = 0; i < COUNT(rows); i++)
        tests[i] = (struct CMUnitTest){rows[i].model ? rows[i].model : "text", row, NULL, NULL,
                                       (void *)&rows[i]};
    return cmocka_run_group_tests_name("dynamic_api", tests, NULL, NULL);
}
