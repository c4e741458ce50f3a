// SPDX-License-Identifier: Apache-2.0
// The partial evaluator: every case of tests/golden/lang/kernels gives exactly the kernel (.ir) or
// diagnostics (.err) beside it, and is well formed. A case named NAME_want computes the same as
// NAME; the interpreter runs both on the same data.
//
// HEALD_BLESS=1 writes the golden files instead.
#include "base/os.h"
#include "ir/interp.h"
#include "passes/passes.h"
#include "unit/instantiate_case.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FOLDER "tests/golden/lang/kernels"

typedef struct Texts {
    Arena arena;
    Sources sources;
    Library lib;
    Diag diag;
} Texts;

static const char *messages(Texts *t)
{
    Buf b;
    buf_init(&b, &t->arena);
    diag_render(&t->diag, &b);
    return buf_text(&b);
}

static bool load(Texts *t, const char *path, const char *shown)
{
    char *text;
    size_t size;
    const char *why = file_read(&t->arena, path, &text, &size);
    if (why) fail_msg("%s", why);
    Node *file =
        parse_file(&t->arena, t->lib.names, sources_add(&t->sources, shown, text, size), &t->diag);
    return file && library_add(&t->lib, file, &t->diag);
}

static void begin(Texts *t, const char *path, const char *shown)
{
    *t = (Texts){0};
    t->sources.arena = &t->arena;
    diag_init(&t->diag, &t->arena, &t->sources);
    t->diag.max_errors = 1000;
    library_init(&t->lib, &t->arena, interner_new(&t->arena), &t->sources);
    if (!load(t, path, shown)) fail_msg("%s", messages(t));
}

// ---- results of the interpreter

enum { SEED = 12345 };

static int64_t extent(const Kernel *k, const Buffer *b, const int64_t *dims)
{
    int64_t n = 1;
    for (int i = 0; i < b->rank; i++) n *= node_eval_dims(b->extent[i], k, dims);
    return n;
}

// Small whole numbers, so that sums are exact in any order.
static void fill(void *data, DType t, int64_t n, uint32_t seed)
{
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525 + 1013904223;
        int v = (int)(seed >> 16 & 7) - (dtypes[t].class == DC_UINT ? 0 : 3);
        dtype_store_f64(t, (char *)data + (size_t)i * dtype_size(t), t == DT_BOOL ? v & 1 : v);
    }
}

static void **interpret(Texts *t, const Kernel *k, const char *name)
{
    int64_t dims[CASE_MAX] = {0};
    for (int i = 0; i < k->dims.n; i++) dims[i] = 5 + 2 * i;
    void **data = NEW_ARRAY(&t->arena, void *, k->params.n);
    for (int i = 0; i < k->params.n; i++) {
        const Buffer *b = k->params.at[i];
        int64_t n = extent(k, b, dims);
        data[i] = arena_alloc(&t->arena, (size_t)n * dtype_size(b->type) + 1);
        if (b->output) memset(data[i], 0xa5, (size_t)n * dtype_size(b->type));
        else fill(data[i], b->type, n, SEED + (uint32_t)i);
    }
    InterpOptions options = {.check_races = true, .max_steps = INT64_C(1) << 28};
    if (!interp_run(k, data, dims, &options, &t->diag)) fail_msg("%s:\n%s", name, messages(t));
    return data;
}

// Of one element. Products of f32 on tensor cores make good what those drop, which the interpreter
// does not drop (lib/kernels/cuda/conv_sums.hd).
static bool alike(DType type, const void *x, const void *y)
{
    if (!memcmp(x, y, dtype_size(type))) return true;
    double a = dtype_is_float(type) ? dtype_load_f64(type, x) : 0;
    double b = dtype_is_float(type) ? dtype_load_f64(type, y) : 1;
    return type == DT_F32 && fabs(a - b) <= 1e-5 * fmax(1, fabs(b));
}

static void check_same(Texts *t, Node *graph, const Kernel *got, Node *wanted)
{
    Case c;
    if (!case_run(&c, &t->arena, &t->lib, &t->diag, wanted)) fail_msg("%s", messages(t));
    const Kernel *want = c.in->kernel;
    void **x = interpret(t, got, graph->u.sym), **y = interpret(t, want, wanted->u.sym);
    int64_t dims[CASE_MAX] = {0};
    for (int i = 0; i < got->dims.n; i++) dims[i] = 5 + 2 * i;
    assert_int_equal(got->params.n, want->params.n);
    for (int i = 0; i < got->params.n; i++) {
        const Buffer *b = got->params.at[i];
        if (!b->output) continue;
        size_t n = (size_t)extent(got, b, dims), size = dtype_size(b->type);
        for (size_t at = 0; at < n; at++)
            if (!alike(b->type, (char *)x[i] + at * size, (char *)y[i] + at * size))
                fail_msg("%s and %s differ: output %s, element %zu", graph->u.sym, wanted->u.sym,
                         b->name, at);
    }
}

// ---- golden files

static void check_text(Texts *t, const char *path, const char *got)
{
    char *want;
    size_t size;
    if (getenv("HEALD_BLESS")) {
        const char *why = file_write_atomic(&t->arena, path, got, strlen(got));
        if (why) fail_msg("%s", why);
        return;
    }
    const char *why = file_read(&t->arena, path, &want, &size);
    if (why) fail_msg("%s", why);
    if (strcmp(got, want)) fail_msg("not as in %s:\n%s", path, got);
}

// The passes keep a kernel well formed; what they make of it is their tests' business.
static void check_passes(Texts *t, Case *c, const char *name)
{
    PassOptions options = {.verify = true};
    if (c->in->kernel->target.kind != TARGET_CPU) return;
    Kernel *k = kernel_clone(&t->arena, c->in->kernel);
    if (!passes_run(k, &options, &t->diag)) fail_msg("%s: %s", name, messages(t));
}

static void check_kernels(const char *name, bool fails)
{
    Texts t;
    Arena *a = &t.arena;
    char path[256];
    snprintf(path, sizeof path, FOLDER "/%s", name);
    begin(&t, path, name);
    Buf out;
    buf_init(&out, a);
    for (int i = 0; i < t.lib.graphs.n; i++) {
        Node *graph = t.lib.graphs.entry[i].value;
        Case c;
        size_t before = out.size;
        buf_printf(&out, "// %s\n", graph->u.sym);
        bool ok = case_run(&c, a, &t.lib, &t.diag, graph);
        assert_true(ok == (t.diag.nerror == 0));
        if (fails) {
            if (ok) fail_msg("%s: %s was instantiated", name, graph->u.sym);
            diag_render(&t.diag, &out);
            diag_clear(&t.diag);
            continue;
        }
        if (!ok || !kernel_verify(c.in->kernel, &t.diag)) {
            Buf k;
            buf_init(&k, a);
            if (ok) kernel_print(c.in->kernel, &k);
            fail_msg("%s: %s\n%s%s", name, graph->u.sym, buf_text(&k), messages(&t));
        }
        const char *s = graph->u.sym;
        size_t len = strlen(s);
        if (len > 5 && !strcmp(s + len - 5, "_want")) {
            out.size = before; // only run
            out.text[before] = 0;
            continue;
        }
        kernel_print(c.in->kernel, &out);
        check_passes(&t, &c, s);
        Node *want = map_get(&t.lib.graphs, intern(t.lib.names, arena_printf(a, "%s_want", s)));
        if (want) check_same(&t, graph, c.in->kernel, want);
    }
    check_text(
        &t, arena_printf(a, FOLDER "/%.*s%s", (int)strlen(name) - 3, name, fails ? ".err" : ".ir"),
        buf_text(&out));
    arena_free(a);
}

static void check_folder(bool fails)
{
    Arena a = {0};
    char **names;
    int n, checked = 0;
    assert_null(dir_list(&a, FOLDER, &names, &n));
    for (int i = 0; i < n; i++) {
        const char *dot = strrchr(names[i], '.');
        if (!dot || strcmp(dot, ".hd") || (strncmp(names[i], "error_", 6) == 0) != fails) continue;
        check_kernels(names[i], fails);
        checked++;
    }
    assert_true(checked >= 1);
    arena_free(&a);
}

static void test_kernels_are_exact(void **state)
{
    (void)state;
    check_folder(false);
}

static void test_diagnostics_are_exact(void **state)
{
    (void)state;
    check_folder(true);
}

// ---- which diagnostics have a case

// Messages of the evaluator that no case shows. The number may only shrink.
enum { WITHOUT_CASE = 21 };

// Whether `text` has the literal parts of a format in their order.
static bool shows(const char *text, const char *format, size_t size)
{
    char part[256];
    size_t n = 0;
    for (size_t i = 0; i <= size; i++) {
        bool escape = i + 1 < size && format[i] == '\\', ends = i == size || format[i] == '%';
        if (!ends && n + 1 < sizeof part) {
            part[n++] = escape ? format[++i] : format[i];
            continue;
        }
        part[n] = 0;
        const char *at = strstr(text, part);
        if (!at) return false;
        text = at + n;
        n = 0;
        while (i < size && !strchr("sdc", format[i])) i++; // of %s, %d, %lld
    }
    return true;
}

// The string literals that follow one another at s, joined, or NULL.
static char *literal(Arena *a, const char *s)
{
    Buf b;
    buf_init(&b, a);
    while (*s == '"') {
        const char *end = s + 1;
        while (*end != '"' || end[-1] == '\\') end++;
        buf_append(&b, s + 1, (size_t)(end - s - 1));
        s = end + 1;
        while (*s == ' ' || *s == '\n') s++;
    }
    return b.size ? b.text : NULL;
}

static int count_untested(Arena *a, const char *path, const char *errors)
{
    char *text;
    size_t size;
    int n = 0;
    const char *why = file_read(a, path, &text, &size);
    if (why) fail_msg("%s", why);
    for (const char *s = text; (s = strstr(s, "eval_fail(e, "));) {
        const char *end = strchr(s, ';'), *quote = strchr(s, '"');
        s++;
        char *format = quote && quote < end ? literal(a, quote) : NULL;
        if (!format || strlen(format) < 4) continue;
        bool shown = false;
        for (const char *line = errors; line && !shown; line = strchr(line + 1, '\n')) {
            const char *stop = strchr(line + 1, '\n');
            char *one = arena_strndup(a, line, stop ? (size_t)(stop - line) : strlen(line));
            shown = strstr(one, "error: ") && shows(one, format, strlen(format));
        }
        if (!shown) printf("# no case: %s: %s\n", path, format);
        n += !shown;
    }
    return n;
}

static void test_messages_have_cases(void **state)
{
    (void)state;
    Arena a = {0};
    Buf errors;
    buf_init(&errors, &a);
    char **names;
    int n, untested = 0;
    assert_null(dir_list(&a, FOLDER, &names, &n));
    for (int i = 0; i < n; i++) {
        char *text;
        size_t size;
        if (!strstr(names[i], ".err")) continue;
        assert_null(file_read(&a, path_join(&a, FOLDER, names[i]), &text, &size));
        buf_append(&errors, text, size);
    }
    assert_null(dir_list(&a, "src/lang", &names, &n));
    for (int i = 0; i < n; i++) {
        bool is = !strncmp(names[i], "eval_", 5) || !strncmp(names[i], "builtin", 7);
        if ((is || !strcmp(names[i], "instantiate.c")) && strstr(names[i], ".c"))
            untested += count_untested(&a, path_join(&a, "src/lang", names[i]), buf_text(&errors));
    }
    if (untested > WITHOUT_CASE) fail_msg("%d messages have no case", untested);
    arena_free(&a);
}

// ---- tables and spaces

// Found by halving, so each row is found only if they are in order.
static void test_builtins_are_in_order(void **state)
{
    (void)state;
#define BUILTIN(name, least, most, meaning) assert_true(builtin_exists(#name));
#include "lang/builtins.def"
#undef BUILTIN
}

static const char *choices_text(Texts *t, const Choices *c, int n)
{
    Buf b;
    buf_init(&b, &t->arena);
    for (int i = 0; i < n; i++) {
        choices_print(&c[i], &b);
        buf_putc(&b, '\n');
    }
    return buf_text(&b);
}

static Texts *parsed(const char *text)
{
    static Texts t;
    t = (Texts){0};
    t.sources.arena = &t.arena;
    diag_init(&t.diag, &t.arena, &t.sources);
    library_init(&t.lib, &t.arena, interner_new(&t.arena), &t.sources);
    Source *s = sources_add(&t.sources, "a.hd", text, strlen(text));
    Node *file = parse_file(&t.arena, t.lib.names, s, &t.diag);
    if (!file || !library_add(&t.lib, file, &t.diag)) fail_msg("%s", messages(&t));
    return &t;
}

static Node *first_kernel(Texts *t)
{
    return t->lib.kernels.entry[0].value;
}

static void test_levels_of_choices(void **state)
{
    static const char *const want[] = {
        "warps = (4, 2), bk = 8\n",
        "warps = (4, 2), bk = 8\nwarps = (4, 2), bk = 16\nwarps = (2, 2), bk = 8\n"
        "warps = (2, 2), bk = 16\n",
        "warps = (4, 2), bk = 8\nwarps = (4, 2), bk = 16\nwarps = (4, 2), bk = 4\n"
        "warps = (2, 2), bk = 8\nwarps = (2, 2), bk = 16\nwarps = (2, 2), bk = 4\n",
    };
    (void)state;
    Texts *t = parsed("kernel k(a: f32[n]) -> (c: f32[n]) on cpu {\n"
                      "    tune { warps: (4, 2) | (2, 2), (4, 2); bk: 8 | 16 | 4, 8; }\n"
                      "    require bk != 16, \"bk is {bk}\";\n    c[0] = a[0];\n}\n");
    Target target = case_target(first_kernel(t));
    for (int level = 0; level < 3; level++) {
        Instance *in = instance_new(&t->arena, &t->lib, &target, &t->diag);
        Choices *c;
        int n;
        assert_true(kernel_choices(in, first_kernel(t), level, &c, &n));
        assert_string_equal(choices_text(t, c, n), want[level]);
        if (level != 1) continue;
        Value dim = value_int(4); // the second one is pruned, with the reason
        Value a = {.kind = V_TENSOR, .u.tensor = instance_input(in, "a", DT_F32, 1, &dim)};
        Buffer *out = instance_output(in, "c", DT_F32, 1, &dim);
        Epilogue ep = {.memory = &out, .noutput = 1};
        assert_false(instance_kernel(in, first_kernel(t), 1, &a, NULL, &ep, 1, &c[1]));
        assert_non_null(strstr(messages(t), "error: bk is 16\n"));
        diag_clear(&t->diag);
    }
    arena_free(&t->arena);
}

static void test_too_many_choices(void **state)
{
    (void)state;
    char text[1024] = "kernel k(a: f32[n]) -> (c: f32[n]) { tune {";
    for (int i = 0; i < 7; i++) {
        size_t at = strlen(text);
        snprintf(text + at, sizeof text - at, " x%d: 1 | 2, 3, 4, 5, 6, 7, 8;", i);
    }
    strcat(text, " } c[0] = 1; }");
    Texts *t = parsed(text);
    Target target = case_target(first_kernel(t));
    Instance *in = instance_new(&t->arena, &t->lib, &target, &t->diag);
    Choices *c;
    int n;
    assert_false(kernel_choices(in, first_kernel(t), 2, &c, &n));
    assert_non_null(strstr(messages(t), "the schedule space has more than 1048576 points"));
    arena_free(&t->arena);
}

// What a caller may get wrong.
static void test_results_fit_the_callers_memory(void **state)
{
    static const struct {
        int nresult, rank;
        int64_t extent;
        const char *message;
    } rows[] = {
        {0, 1, 4, "there are 1 results, 0 are wanted"},
        {1, 2, 4, "result 'c' has rank 1, the caller's memory 2"},
        {1, 1, 5, "axis 0 of result 'c' has extent 4, the caller's memory 5"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        Texts *t = parsed("kernel k(a: f32[n]) -> (c: f32[n]) { c[0] = a[0]; }");
        Target target = case_target(first_kernel(t));
        Instance *in = instance_new(&t->arena, &t->lib, &target, &t->diag);
        Value dim = value_int(4), out[2] = {value_int(rows[i].extent), value_int(1)};
        Value a = {.kind = V_TENSOR, .u.tensor = instance_input(in, "a", DT_F32, 1, &dim)};
        Buffer *b = instance_output(in, "c", DT_F32, rows[i].rank, out);
        Epilogue ep = {.memory = &b, .noutput = 1};
        assert_false(instance_kernel(in, first_kernel(t), 1, &a, NULL, &ep, rows[i].nresult, NULL));
        if (!strstr(messages(t), rows[i].message)) fail_msg("%s", messages(t));
        arena_free(&t->arena);
    }
}

// ---- groups: every template of a product with a prologue, two outputs and sums over rows

static void load_folder(Texts *t, const char *folder)
{
    char **names;
    int n;
    assert_null(dir_list(&t->arena, folder, &names, &n));
    for (int i = 0; i < n; i++) {
        char *path = path_join(&t->arena, folder, names[i]);
        if (path_is_dir(path)) load_folder(t, path);
        else if (!load(t, path, path)) fail_msg("%s", messages(t));
    }
}

static Node *graph_of(Texts *t, const char *name, const char *text)
{
    Source *s = sources_add(&t->sources, name, text, strlen(text));
    Node *file = parse_file(&t->arena, t->lib.names, s, &t->diag);
    if (!file || !library_add(&t->lib, file, &t->diag)) fail_msg("%s", messages(t));
    return REST(file)[0];
}

typedef struct Product {
    const char *op, *params, *attrs;
} Product;

static const char *group_text(Texts *t, const Product *p, const char *callee, const char *attrs,
                              const char *copied)
{
    return arena_printf(&t->arena,
                        "graph g(%s) -> (y, z, s) { u = relu(x); %s = %s(u, w%s%s); %s"
                        "y = add(h, r); z = relu(h); s = reduce_sum(h; axes = (-1,), "
                        "keepdims = false); }",
                        p->params, copied[0] ? "p" : "h", callee, attrs[0] ? "; " : "", attrs,
                        copied);
}

static bool group(Texts *t, Node *kernel, const Product *p)
{
    bool tiles = case_is_choice(kernel, intern(t->lib.names, "mr"));
    const char *attrs = arena_printf(&t->arena, "%s%s%s", p->attrs,
                                     p->attrs[0] && tiles ? ", " : "", tiles ? "mr = 6" : "");
    Case c;
    Node *graph = graph_of(t, kernel->u.sym, group_text(t, p, kernel->u.sym, attrs, ""));
    if (!case_run(&c, &t->arena, &t->lib, &t->diag, graph)) {
        diag_clear(&t->diag); // a shape that the template is not for
        return false;
    }
    check_same(t, graph, c.in->kernel,
               graph_of(t, p->op, group_text(t, p, p->op, p->attrs, "h = copy(p); ")));
    return true;
}

static bool prefers(Node *kernel)
{
    Node *params = KID(kernel, KERNEL, params);
    for (int i = 0; i < NREST(params); i++)
        if (KID(REST(params)[i], PARAM, prefer)) return true;
    return false;
}

static void test_products_in_groups(void **state)
{
    static const Product rows[] = {
        // op      parameters                                         attributes
        {"matmul", "x: f32[9, 7], w: f32[7, 11], r: f32[11]", ""},
        {"matmul", "x: f32[3, 7], w: f32[7, 11], r: f32[11]", ""},
        {"matmul", "x: f32[2, 5, 7], w: f32[2, 7, 40], r: f32[40]", ""},
        {"matmul", "x: f16[20, 9], w: f16[9, 24], r: f16[24]", ""},
        {"conv", "x: f32[1, 4, 6, 9], w: f32[8, 4, 3, 3], r: f32[9]", "pads = (1, 1, 1, 1)"},
        {"conv", "x: f32[1, 4, 6, 9], w: f32[4, 1, 3, 3], r: f32[9]",
         "group = 4, pads = (1, 1, 1, 1)"},
    };
    (void)state;
    static const char *const ops[] = {"matmul", "conv"};
    for (size_t o = 0; o < COUNT(ops); o++) {
        Texts t = {0};
        t.sources.arena = &t.arena;
        diag_init(&t.diag, &t.arena, &t.sources);
        library_init(&t.lib, &t.arena, interner_new(&t.arena), &t.sources);
        load_folder(&t, "lib/ops");
        load_folder(&t, "lib/kernels");
        if (!load(&t, "lib/math.hd", "lib/math.hd")) fail_msg("%s", messages(&t));
        KernelList *kernels = map_get(&t.lib.implementers, intern(t.lib.names, ops[o]));
        assert_non_null(kernels);
        for (int i = 0; i < kernels->n; i++) {
            int served = 0;
            for (size_t k = 0; k < COUNT(rows); k++)
                if (!strcmp(rows[k].op, ops[o])) served += group(&t, kernels->at[i], &rows[k]);
            // its operands may have to be in layouts, which a graph does not say
            if (!served && !prefers(kernels->at[i]))
                fail_msg("no shape suits %s", kernels->at[i]->u.sym);
        }
        arena_free(&t.arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernels_are_exact),
        cmocka_unit_test(test_diagnostics_are_exact),
        cmocka_unit_test(test_messages_have_cases),
        cmocka_unit_test(test_builtins_are_in_order),
        cmocka_unit_test(test_levels_of_choices),
        cmocka_unit_test(test_too_many_choices),
        cmocka_unit_test(test_results_fit_the_callers_memory),
        cmocka_unit_test(test_products_in_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
