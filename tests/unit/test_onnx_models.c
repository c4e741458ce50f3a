// SPDX-License-Identifier: Apache-2.0
// Small ONNX models, as text, through the public interface: what only a run tells, functions, and
// what is wrong with models. Each case of tests/unit/data/onnx_models.txt is run as C and by the
// interpreter, with its data in order, so that plans are used again.
#include "unit/onnx_text.h"

#include "api/model.h"
#include "runtime/memory.h"

#include <math.h>

typedef struct Line {
    const char *word, *rest;
} Line;

typedef struct ModelCase {
    const char *name, *text;
    VEC(Line) lines; // in, give, out, run, plans, fails
} ModelCase;

static VEC(ModelCase) cases;
static Arena case_arena;

static void read_cases(const char *path)
{
    FileMap file;
    const char *why = file_map(&case_arena, path, &file);
    if (why) fail_msg("%s", why);
    char *text = arena_strndup(&case_arena, (const char *)file.data, file.size), *next;
    ModelCase *c = NULL;
    Buf model = {0};
    for (char *at = text; at && *at; at = next) {
        next = strchr(at, '\n');
        if (next) *next++ = 0;
        if (*at == '#') continue;
        char *space = strchr(at, ' ');
        size_t len = space ? (size_t)(space - at) : strlen(at);
        const char *word = arena_strndup(&case_arena, at, len), *rest = space ? space + 1 : "";
        if (!strcmp(word, "model")) {
            ModelCase fresh = {.name = rest};
            VEC_PUSH(&case_arena, &cases, fresh);
            c = &cases.at[cases.n - 1];
            buf_init(&model, &case_arena);
        } else if (c &&
                   (!strcmp(word, "run") || !strcmp(word, "in") || !strcmp(word, "out") ||
                    !strcmp(word, "give") || !strcmp(word, "plans") || !strcmp(word, "fails"))) {
            VEC_PUSH(&case_arena, &c->lines, ((Line){word, rest}));
        } else if (c && !c->lines.n) {
            buf_printf(&model, "%s\n", at);
            c->text = buf_text(&model);
        }
    }
    file_unmap(&file);
}

// float[2,3] 1 2 3 4 5 6
static heald_tensor *tensor_of(const char *text)
{
    OnnxText t = {text};
    DType type = ot_type(&t);
    int64_t dims[HEALD_MAX_RANK];
    int rank = 0;
    bool whole;
    if (ot_take(&t, "["))
        while (!ot_take(&t, "]")) {
            dims[rank++] = (int64_t)ot_number(&t, &whole);
            ot_take(&t, ",");
        }
    heald_tensor *out;
    assert_int_equal(heald_tensor_create((heald_dtype)type, rank, dims, &out), HEALD_OK);
    for (int64_t i = 0; i < out->nelem; i++) {
        void *p = (char *)out->data + (size_t)i * dtype_size(type);
        double v = ot_number(&t, &whole);
        if (dtype_is_float(type)) dtype_store_f64(type, p, v);
        else dtype_store_i64(type, p, (int64_t)v);
    }
    return out;
}

static void compare(const heald_tensor *got, const char *wanted, int run)
{
    heald_tensor *want = tensor_of(wanted);
    char a[160], b[160];
    shape_format(a, sizeof a, got->dtype, got->rank, got->dims);
    shape_format(b, sizeof b, want->dtype, want->rank, want->dims);
    if (strcmp(a, b)) fail_msg("run %d: %s instead of %s", run, a, b);
    for (int64_t i = 0; i < got->nelem; i++) {
        size_t at = (size_t)i * dtype_size(got->dtype);
        double x = dtype_load_f64(got->dtype, (char *)got->data + at);
        double y = dtype_load_f64(want->dtype, (char *)want->data + at);
        double off = x < y ? y - x : x - y, size = y < 0 ? -y : y;
        bool near = x == y || (x != x && y != y) || (isfinite(size) && off <= 1e-5 * (1 + size));
        if (!near) fail_msg("run %d: element %d is %g, not %g", run, (int)i, x, y);
    }
    heald_tensor_release(want);
}

// "w float[2] 1 2": an optional input from now on; "w": as in the model again.
static heald_status give(heald_model *m, const char *text)
{
    OnnxText t = {text};
    const char *name = ot_name(&t);
    ot_space(&t);
    heald_tensor *given = *t.at ? tensor_of(t.at) : NULL;
    int i = 0, n = heald_model_optional_count(m);
    while (i < n && strcmp(heald_model_optional(m, i)->name, name)) i++;
    if (i == n) fail_msg("there is no optional input '%s'", name);
    heald_status s = heald_model_give(m, i, given);
    heald_tensor_release(given);
    return s;
}

// The run whose lines begin at `at`; returns where the next begins.
static int run_once(heald_context *c, heald_model *m, const ModelCase *k, int at, int run)
{
    heald_tensor *in[8] = {0}, *out[8] = {0};
    int nin = 0, nout = 0;
    for (; at < k->lines.n && !strcmp(k->lines.at[at].word, "in"); at++)
        in[nin++] = tensor_of(k->lines.at[at].rest);
    heald_status s = HEALD_OK;
    for (; at < k->lines.n && !strcmp(k->lines.at[at].word, "give"); at++)
        if (!s) s = give(m, k->lines.at[at].rest);
    if (!s) s = heald_model_run(m, in, out);
    bool fails = at < k->lines.n && !strcmp(k->lines.at[at].word, "fails");
    if (fails && (!s || !strstr(heald_last_error(c), k->lines.at[at].rest)))
        fail_msg("run %d: %s", run, s ? heald_last_error(c) : "does not fail");
    if (s && !fails) fail_msg("run %d: %s", run, heald_last_error(c));
    at += fails;
    for (; at < k->lines.n && !strcmp(k->lines.at[at].word, "out"); at++)
        compare(out[nout++], k->lines.at[at].rest, run);
    if (!s) assert_int_equal(nout, heald_model_output_count(m));
    for (int i = 0; i < 8; i++) heald_tensor_release(in[i]);
    for (int i = 0; i < 8; i++) heald_tensor_release(out[i]);
    return at;
}

static void run_case(const ModelCase *k, const char *target)
{
    heald_context *c;
    heald_model *m;
    heald_context_options o = HEALD_CONTEXT_OPTIONS(.threads = 2, .target = target);
    assert_int_equal(heald_context_create(HEALD_VERSION, &o, &c), HEALD_OK);
    Bytes b = onnx_from_text(k->text);
    heald_status s = heald_model_load_onnx_memory(c, k->name, b.buf.text, b.buf.size, &m);
    bool refused = !strcmp(k->lines.at[0].word, "fails");
    for (int i = 0; refused && i < k->lines.n; i++)
        if (!s || !strstr(heald_last_error(c), k->lines.at[i].rest))
            fail_msg("'%s' is not in: %s", k->lines.at[i].rest,
                     s ? heald_last_error(c) : "nothing");
    if (s && !refused) fail_msg("%s", heald_last_error(c));
    for (int at = 0, run = 0; !s && at < k->lines.n;) {
        const Line *l = &k->lines.at[at++];
        if (!strcmp(l->word, "run")) at = run_once(c, m, k, at, run++);
        if (strcmp(l->word, "plans")) continue;
        SectionCount count = {0};
        model_section_count(model_current_section(m), &count);
        if (count.nplan != atoi(l->rest)) fail_msg("%s plans %d", k->name, count.nplan);
    }
    heald_model_destroy(m);
    heald_context_destroy(c);
}

static void one(void **state)
{
    const ModelCase *k = *state;
    arena = (Arena){0};
    run_case(k, "interp");
    run_case(k, "cpu");
    arena_free(&arena);
}

// Every allocation of the runtime fails once while loops and cuts run: a status, and nothing leaks.
static void without_memory(void **state)
{
    const ModelCase *k = *state;
    heald_context *c;
    heald_model *m;
    heald_context_options o = HEALD_CONTEXT_OPTIONS(.threads = 1, .target = "interp");
    arena = (Arena){0};
    Bytes b = onnx_from_text(k->text);
    assert_int_equal(heald_context_create(HEALD_VERSION, &o, &c), HEALD_OK);
    assert_int_equal(heald_model_load_onnx_memory(c, k->name, b.buf.text, b.buf.size, &m),
                     HEALD_OK);
    heald_tensor *in[8] = {0};
    for (int i = 1; !strcmp(k->lines.at[i].word, "in"); i++)
        in[i - 1] = tensor_of(k->lines.at[i].rest);
    heald_status s = HEALD_NO_MEMORY;
    for (int64_t n = 0; s && n < 5000; n++) {
        heald_tensor *out[8] = {0};
        memory_fail_after(n);
        s = heald_model_run(m, in, out);
        memory_fail_after(-1);
        if (s && s != HEALD_NO_MEMORY) fail_msg("%s", heald_last_error(c));
        for (int i = 0; i < 8; i++) heald_tensor_release(out[i]);
    }
    assert_int_equal(s, HEALD_OK);
    for (int i = 0; i < 8; i++) heald_tensor_release(in[i]);
    heald_model_destroy(m);
    heald_context_destroy(c);
    arena_free(&arena);
}

int main(int argc, char **argv)
{
    read_cases(argc > 1 ? argv[1] : "tests/unit/data/onnx_models.txt");
    static const char *const small[] = {"loop_trips", "scan_axes", "two_stage", "if_shapes"};
    struct CMUnitTest *tests = calloc((size_t)cases.n + COUNT(small), sizeof *tests);
    size_t ntest = 0;
    for (int i = 0; tests && i < cases.n; i++) {
        ModelCase *k = &cases.at[i];
        tests[ntest++] = (struct CMUnitTest){k->name, one, NULL, NULL, k};
        for (size_t j = 0; j < COUNT(small); j++)
            if (!strcmp(k->name, small[j]))
                tests[ntest++] =
                    (struct CMUnitTest){"out of memory", without_memory, NULL, NULL, k};
    }
    int failed = _cmocka_run_group_tests("onnx models", tests, ntest, NULL, NULL);
    free(tests);
    arena_free(&case_arena);
    return failed;
}
