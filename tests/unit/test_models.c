// SPDX-License-Identifier: Apache-2.0
// ONNX models against their test data: imported, specialised, compiled and run by the interpreter
// or as C. Models are looked for in the folders of HEALD_MODELS, then in examples/models.
#include "codegen/codegen.h"
#include "frontends/onnx_import.h"
#include "frontends/tensor_file.h"
#include "graph/model.h"
#include "ir/interp_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

typedef struct Case {
    Arena arena;
    Library library;
    Sources sources;
    Diag diag;
    OpTable *ops;
    FileMap file;
    OnnxModel *onnx;
    Graph *graph, *special;
    CompiledModel *model;
    int ninput;
    HostTensor *input;
} Case;

static const char *model_dir(Arena *a, const char *name)
{
    const char *roots[] = {getenv("HEALD_MODELS"), "examples/models"};
    for (int i = 0; i < 2; i++) {
        const char *path = roots[i] ? path_join(a, roots[i], name) : NULL;
        if (path && path_exists(path_join(a, path, "model.onnx"))) return path;
    }
    return NULL;
}

static _Noreturn void give_up(Case *c, const char *why)
{
    Buf b;
    buf_init(&b, &c->arena);
    diag_render(&c->diag, &b);
    fail_msg("%s\n%s", why ? why : "", buf_text(&b));
    abort();
}

static void load_library(Case *c)
{
    c->sources.arena = &c->arena;
    diag_init(&c->diag, &c->arena, &c->sources);
    library_init(&c->library, &c->arena, interner_new(&c->arena), &c->sources);
    if (!ops_load(&c->library, NULL, &c->diag)) give_up(c, "the library does not load");
    c->ops = op_table_new(&c->arena, &c->library);
}

static int read_list(Case *c, const char *dir, const char *what, HostTensor **list)
{
    int n = 0;
    *list = NEW_ARRAY(&c->arena, HostTensor, 64);
    for (; n < 64; n++) {
        const char *path =
            path_join(&c->arena, dir, arena_printf(&c->arena, "test_data_set_0/%s_%d.pb", what, n));
        if (!path_exists(path)) break;
        const char *why = tensor_read(&c->arena, path, &(*list)[n]);
        if (why) give_up(c, why);
    }
    return n;
}

static void load_model(Case *c, const char *dir)
{
    const char *path = path_join(&c->arena, dir, "model.onnx");
    const char *why = file_map(&c->arena, path, &c->file);
    if (!why) why = onnx_model_parse(&c->arena, path, c->file.data, c->file.size, &c->onnx);
    if (why) give_up(c, why);
    c->graph = onnx_import(&c->arena, &c->library, c->ops, c->onnx, dir, &c->diag);
    if (!c->graph) give_up(c, "import");
    c->ninput = read_list(c, dir, "input", &c->input);
    assert_int_equal(c->ninput, c->graph->inputs.n);
    const int64_t **dims = NEW_ARRAY(&c->arena, const int64_t *, c->ninput);
    int *rank = NEW_ARRAY(&c->arena, int, c->ninput);
    for (int i = 0; i < c->ninput; i++) {
        dims[i] = c->input[i].dims;
        rank[i] = c->input[i].rank;
    }
    Target t;
    target_host(&t);
    bool *wanted = NEW_ARRAY(&c->arena, bool, c->ninput), more = true;
    const void **data = NEW_ARRAY(&c->arena, const void *, c->ninput);
    Specialisation s = {.dims = dims, .rank = rank, .data = data, .wanted = wanted};
    while (!(c->special = graph_specialise(c->graph, &c->arena, &s, &t, &c->diag)) && more) {
        more = false; // inputs that shapes depend on are specialised on
        for (int i = 0; i < c->ninput; i++) {
            if (!wanted[i] || data[i]) continue;
            data[i] = c->input[i].data;
            more = true;
        }
        if (more) diag_clear(&c->diag);
    }
    if (!c->special) give_up(c, "specialise");
}

static void compile(Case *c, bool interpret, bool fuse)
{
    CompileOptions o = {.builder.interpret = interpret, .fuse.off = !fuse};
    o.builder.passes.verify = true;
    target_host(&o.target);
    Toolchain tools;
    const char *why = NULL;
    if (!interpret) {
        if (!toolchain_find(&c->arena, &o.target, &tools, &why)) skip();
        o.builder.toolchain = &tools;
        o.builder.cache = cache_open(&c->arena, cache_default_dir(&c->arena), 0, &why);
        if (!o.builder.cache) give_up(c, why);
        o.pool = pool_create(2);
    }
    Error e = {0};
    heald_status s = model_compile(c->special, &c->arena, &o, &c->model, &c->diag, &e);
    pool_destroy(o.pool);
    if (s) give_up(c, e.text);
    Buf b;
    buf_init(&b, &c->arena);
    groups_print(&c->model->groups, &b);
    if (getenv("HEALD_TEST_VERBOSE")) {
        graph_print(c->special, &b);
        plan_print(c->model->plan, &b);
        fprintf(stderr, "%s%d kernels\n", buf_text(&b), c->model->kernels.n);
    }
}

// rtol 1e-3 and atol 1e-5 times the largest wanted magnitude, or as data.json beside the model
// says.
static double atol_of(Case *c, const char *dir)
{
    char *text;
    size_t size;
    if (file_read(&c->arena, path_join(&c->arena, dir, "data.json"), &text, &size)) return 0;
    const char *at = strstr(text, "\"atol\":");
    return at ? strtod(at + strlen("\"atol\":"), NULL) : 0;
}

static void compare(const char *name, const heald_tensor *have, const HostTensor *want, double atol)
{
    assert_int_equal((int)heald_tensor_dtype(have), (int)want->dtype);
    assert_int_equal(heald_tensor_rank(have), want->rank);
    for (int i = 0; i < want->rank; i++)
        assert_int_equal(heald_tensor_dims(have)[i], want->dims[i]);
    const char *h = heald_tensor_data(have), *w = want->data;
    size_t size = dtype_size(want->dtype);
    int64_t n = host_tensor_nelem(want), bad = 0;
    double largest = 0, worst = 0;
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs(dtype_load_f64(want->dtype, w + (size_t)i * size)));
    for (int64_t i = 0; i < n; i++) {
        double x = dtype_load_f64(want->dtype, h + (size_t)i * size);
        double y = dtype_load_f64(want->dtype, w + (size_t)i * size), error = fabs(x - y);
        worst = fmax(worst, error);
        bad += !(error <= 1e-3 * fabs(y) + (atol > 0 ? atol : 1e-5 * largest));
    }
    if (bad) {
        fail_msg("%s: %lld of %lld elements differ, by up to %g (largest wanted %g)", name,
                 (long long)bad, (long long)n, worst, largest);
    }
}

static void print_step(void *user, int step, const char *name, int64_t ns)
{
    Case *c = user;
    const PlanStep *s = &c->model->plan->steps.at[step];
    fprintf(stderr, "%9.3f ms  %-40s %s\n", (double)ns / 1e6, s->kernel ? s->kernel->name : "",
            name);
}

static void profile(Case *c, Device *d, heald_tensor *const *in)
{
    PlanRunner *r;
    heald_tensor *out[64] = {0};
    RunOptions o = {.profile = print_step, .user = c};
    assert_int_equal(plan_runner_create(c->model->plan, d, &o, &r, NULL), HEALD_OK);
    assert_int_equal(plan_run_tensors(r, in, out, NULL), HEALD_OK);
    for (int i = 0; i < c->special->outputs.n; i++) heald_tensor_release(out[i]);
    plan_runner_destroy(r);
}

static void run(Case *c, const char *dir, bool interpret)
{
    Error e = {0};
    Device *d;
    PlanRunner *r;
    DeviceOptions o = {.nthread = 2};
    assert_int_equal(device_open(interpret ? &device_interp : &device_cpu, &o, &d, &e), HEALD_OK);
    if (plan_runner_create(c->model->plan, d, NULL, &r, &e)) give_up(c, e.text);
    heald_tensor *in[64], *out[64] = {0};
    for (int i = 0; i < c->ninput; i++) {
        const HostTensor *t = &c->input[i];
        assert_int_equal(heald_tensor_from_memory((heald_dtype)t->dtype, t->rank, t->dims,
                                                  (void *)t->data, NULL, NULL, &in[i]),
                         HEALD_OK);
    }
    int64_t start = clock_ns();
    if (plan_run_tensors(r, in, out, &e)) give_up(c, e.text);
    if (getenv("HEALD_TEST_VERBOSE")) profile(c, d, in);
    fprintf(stderr, "# %s: %.2f ms, %d groups\n", dir, (double)(clock_ns() - start) / 1e6,
            c->model->groups.n);
    HostTensor *want;
    int n = read_list(c, dir, "output", &want);
    assert_int_equal(n, c->special->outputs.n);
    for (int i = 0; i < n; i++) {
        compare(c->special->outputs.at[i]->name, out[i], &want[i], atol_of(c, dir));
        heald_tensor_release(out[i]);
    }
    for (int i = 0; i < c->ninput; i++) heald_tensor_release(in[i]);
    plan_runner_destroy(r);
    device_close(d);
}

static void check(const char *name, bool interpret, bool fuse)
{
    Case c = {0};
    const char *dir = model_dir(&c.arena, name);
    if (!dir) {
        arena_free(&c.arena);
        skip();
    }
    load_library(&c);
    load_model(&c, dir);
    compile(&c, interpret, fuse);
    run(&c, dir, interpret);
    model_release(c.model);
    onnx_model_close(c.onnx);
    file_unmap(&c.file);
    arena_free(&c.arena);
}

typedef struct Row {
    const char *test, *model;
    bool interpret, fuse;
} Row;

static const Row rows[] = {
    // test                        model                  interpret fuse
    {"mnist_8 interpreted", "mnist_8", true, false},
    {"mnist_8 compiled", "mnist_8", false, false},
    {"mnist_8 fused, interpreted", "mnist_8", true, true},
    {"mnist_8", "mnist_8", false, true},
    {"burn_mnist interpreted", "burn_mnist", true, true},
    {"burn_mnist", "burn_mnist", false, true},
    {"super_resolution_10", "super_resolution_10", false, true},
    {"mnist_quantized", "mnist_quantized", false, true},
    {"dtln_1", "dtln_1", false, true},
    {"tract_bidi_lstm", "tract_bidi_lstm", false, true},
    {"silero_vad_16k_op15", "silero_vad_16k_op15", false, true},
    {"dnsmos_v8", "dnsmos_v8", false, true},
    {"yunet_n", "yunet_n", false, true},
};

static void row(void **state)
{
    const Row *r = *state;
    check(r->model, r->interpret, r->fuse);
}

int main(int argc, char **argv)
{
    if (argc > 1) { // one model of the user's choice
        static Row one;
        one = (Row){argv[1], argv[1], argc > 2 && strchr(argv[2], 'i'),
                    !(argc > 2 && strchr(argv[2], 'u'))};
        const struct CMUnitTest test[] = {{one.test, row, NULL, NULL, &one}};
        return cmocka_run_group_tests_name("model", test, NULL, NULL);
    }
    struct CMUnitTest tests[COUNT(rows)];
    for (size_t i = 0; i < COUNT(rows); i++)
        tests[i] = (struct CMUnitTest){rows[i].test, row, NULL, NULL, (void *)&rows[i]};
    return cmocka_run_group_tests_name("models", tests, NULL, NULL);
}
