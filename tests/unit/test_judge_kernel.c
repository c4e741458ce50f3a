// SPDX-License-Identifier: Apache-2.0
// Scripts made concrete, the work counted in them, random data, comparing.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/util.h"
#include "judge/compare.h"
#include "judge/count.h"
#include "judge/data.h"
#include "judge/script.h"
#include "ops/ops.h"

typedef struct Kit {
    Arena arena;
    Sources sources;
    Interner *names;
    Library library;
    Target target;
    Diag diag;
    Node *file;
} Kit;

static Kit *kit_new(const char *text)
{
    Kit *k = calloc(1, sizeof *k);
    k->sources.arena = &k->arena;
    k->names = interner_new(&k->arena);
    diag_init(&k->diag, &k->arena, &k->sources);
    library_init(&k->library, &k->arena, k->names, &k->sources);
    target_host(&k->target);
    assert_true(ops_load(&k->library, NULL, &k->diag));
    const Source *s = sources_add(&k->sources, "test.hd", text, strlen(text));
    k->file = parse_file(&k->arena, k->names, s, &k->diag);
    assert_non_null(k->file);
    assert_true(library_add(&k->library, k->file, &k->diag));
    return k;
}

static void kit_free(Kit *k)
{
    arena_free(&k->arena);
    free(k);
}

static const char *messages(Kit *k)
{
    Buf b;
    buf_init(&b, &k->arena);
    diag_render(&k->diag, &b);
    return buf_text(&b);
}

static ScriptKernel *make(Kit *k, ScriptOptions *o)
{
    if (o->extents.n == 0) o->extents = (ScriptExtents){3, {5, 7, 11}, 2, 0};
    return script_instantiate(&k->arena, &k->library, &k->target, k->file->kid[0], o, &k->diag);
}

static const char product[] =
    "kernel product(a: f32[m, k], b: f32[k, n]) -> (c: f32[m, n]) on cpu {\n"
    "    launch grid(m);\n"
    "    for j in n {\n"
    "        var sum: f32 = 0;\n"
    "        for l in k { sum = fma(a[block.x, l], b[l, j], sum); }\n"
    "        c[block.x, j] = sum;\n"
    "    }\n"
    "}\n";

static void names_get_extents_in_order(void **state)
{
    UNUSED(state);
    Kit *k = kit_new(product);
    ScriptKernel *s = make(k, &(ScriptOptions){0});
    if (!s) fail_msg("%s", messages(k));
    assert_string_equal(s->extents, "m = 5, k = 7, n = 11");
    assert_int_equal(s->nparam, 3);
    assert_int_equal(s->ninput, 2);
    assert_int_equal(s->param[2].dims[0], 5);
    assert_int_equal(s->param[2].dims[1], 11);
    assert_true(s->param[2].output);
    kit_free(k);
}

static void work_is_counted(void **state)
{
    UNUSED(state);
    Kit *k = kit_new(product);
    ScriptKernel *s = make(k, &(ScriptOptions){0});
    Work w = kernel_work(s->kernel, s->dims);
    assert_true(w.flops == 2.0 * 5 * 7 * 11);
    assert_true(w.bytes == 4.0 * (5 * 7 + 7 * 11 + 5 * 11));

    ScriptOptions open = {0};
    assert_null(script_parse_shape(&open, &k->arena, k->names, "m=30,k=20,n=10"));
    assert_null(script_parse_open(&open, &k->arena, k->names, "m,n,k"));
    s = make(k, &open);
    assert_int_equal(s->kernel->dims.n, 3);
    assert_true(kernel_work(s->kernel, s->dims).flops == 2.0 * 30 * 20 * 10);
    kit_free(k);
}

static void loops_that_depend_on_loops_are_walked(void **state)
{
    UNUSED(state);
    Kit *k = kit_new("kernel triangle(x: f32[n]) -> (y: f32[n]) on cpu {\n"
                     "    launch grid(n);\n"
                     "    var sum: f32 = 0;\n"
                     "    for i in block.x { for j in i { sum = sum + x[j]; } }\n"
                     "    if block.x > 1 { sum = sum * 2; }\n"
                     "    y[block.x] = sum;\n"
                     "}\n");
    ScriptKernel *s = make(k, &(ScriptOptions){.extents = {1, {10}, 1, 0}});
    if (!s) fail_msg("%s", messages(k));
    double sums = 0;
    for (int b = 0; b < 10; b++) sums += b * (b - 1) / 2.0;
    assert_true(kernel_work(s->kernel, s->dims).flops == sums + 8);
    kit_free(k);
}

static void packs_types_and_attributes(void **state)
{
    UNUSED(state);
    Kit *k =
        kit_new("kernel shift[T: f64 | f32](x: T[s...]; by: int = 1) -> (y: T[s...]) on cpu {\n"
                "    launch grid(size(s));\n"
                "    y[unravel(block.x, s)...] = x[unravel(block.x, s)...] + by;\n"
                "}\n");
    ScriptKernel *s = make(k, &(ScriptOptions){0});
    if (!s) fail_msg("%s", messages(k));
    assert_int_equal(s->param[0].type, DT_F64);
    assert_int_equal(s->param[0].rank, 2);

    ScriptOptions o = {0};
    assert_null(script_parse_shape(&o, &k->arena, k->names, "s=2x3x4"));
    assert_null(script_parse_types(&o, &k->arena, k->names, "T=f32"));
    s = make(k, &o);
    assert_int_equal(s->param[1].type, DT_F32);
    assert_int_equal(s->param[1].rank, 3);

    o = (ScriptOptions){0};
    assert_null(script_parse_shape(&o, &k->arena, k->names, "s="));
    s = make(k, &o);
    assert_int_equal(s->param[0].rank, 0);
    kit_free(k);
}

static void mistakes_in_options_are_told(void **state)
{
    UNUSED(state);
    static const char *const bad[] = {"m", "=3", "m=", "m=-1", "m=3y4", "m=99999999999", "m=1x2x"};
    Kit *k = kit_new(product);
    for (size_t i = 0; i < COUNT(bad); i++) {
        ScriptOptions o = {0};
        const char *why = script_parse_shape(&o, &k->arena, k->names, bad[i]);
        bool pack = !strcmp(bad[i], "m=") || !strcmp(bad[i], "m=1x2x");
        assert_true((why != NULL) != pack); // these two are packs
        if (!pack) continue;
        assert_null(make(k, &o));
        assert_non_null(strstr(messages(k), "'m' is one dimension, not a pack"));
        diag_clear(&k->diag);
    }
    ScriptOptions o = {0};
    assert_non_null(script_parse_types(&o, &k->arena, k->names, "T=f33"));
    assert_non_null(script_parse_open(&o, &k->arena, k->names, "m,,n"));
    assert_null(script_parse_shape(&o, &k->arena, k->names, "z=3"));
    assert_null(make(k, &o));
    assert_non_null(strstr(messages(k), "no dimension 'z'; its dimensions are m, k, n"));
    kit_free(k);
}

static void comparing_bits(void **state)
{
    UNUSED(state);
    float x[] = {1, 0.0f, NAN, 3}, y[] = {1, -0.0f, -NAN, 4};
    int64_t first = -1;
    assert_int_equal(compare_bits(DT_F32, x, y, 4, &first), 2);
    assert_int_equal(first, 1);
}

static void comparing_within_a_tolerance(void **state)
{
    UNUSED(state);
    double want[] = {1, 100, INFINITY, NAN, 0};
    float got[] = {1.0009f, 100.05f, INFINITY, NAN, 1e-6f};
    Tolerance t = {.rtol = 1e-3, .atol = 1e-5};
    Difference d = compare_close(DT_F32, got, DT_F64, want, 5, &t);
    assert_int_equal(d.nbad, 0);
    assert_false(d.constant);
    got[2] = -INFINITY;
    got[3] = 0;
    d = compare_close(DT_F32, got, DT_F64, want, 5, &t);
    assert_int_equal(d.nbad, 2);
    assert_int_equal(d.first, 2);
    double same[] = {2, 2, 2}, extra[] = {0, 1, 0};
    float near[] = {2, 2.5f, 2};
    assert_true(compare_close(DT_F32, near, DT_F64, same, 3, &t).constant);
    assert_int_equal(compare_close(DT_F32, near, DT_F64, same, 3, &t).nbad, 1);
    t.extra = extra;
    assert_int_equal(compare_close(DT_F32, near, DT_F64, same, 3, &t).nbad, 0);
    assert_true(largest_magnitude(DT_F64, want, 5) == 100);
}

static void random_data_is_the_same_every_time(void **state)
{
    UNUSED(state);
    enum { N = 20000 };
    static double x[N], y[N];
    random_fill(&(Random){7}, DT_F64, x, N, false);
    random_fill(&(Random){7}, DT_F64, y, N, false);
    assert_memory_equal(x, y, sizeof x);
    double sum = 0, squares = 0;
    for (int i = 0; i < N; i++) sum += x[i], squares += x[i] * x[i];
    assert_true(fabs(sum / N) < 0.05);
    assert_true(fabs(squares / N - 1) < 0.05);
    random_fill(&(Random){7}, DT_F64, x, N, true);
    int odd = 0;
    for (int i = 0; i < N; i++) odd += isnan(x[i]) || isinf(x[i]);
    assert_in_range(odd, N / 64, N / 8);
    int32_t ints[1000];
    random_fill(&(Random){7}, DT_I32, ints, 1000, true);
    for (int i = 0; i < 1000; i++) assert_true(ints[i] >= -4 && ints[i] <= 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_get_extents_in_order),
        cmocka_unit_test(work_is_counted),
        cmocka_unit_test(loops_that_depend_on_loops_are_walked),
        cmocka_unit_test(packs_types_and_attributes),
        cmocka_unit_test(mistakes_in_options_are_told),
        cmocka_unit_test(comparing_bits),
        cmocka_unit_test(comparing_within_a_tolerance),
        cmocka_unit_test(random_data_is_the_same_every_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
