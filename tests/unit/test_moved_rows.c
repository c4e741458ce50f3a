// SPDX-License-Identifier: Apache-2.0
// Rows that slices and transposes move are read where they lie and stored where they go by
// templates for GPUs: which groups that gives, and the same bits as without.
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

enum { MAX_INPUT = 4 };

typedef struct Case {
    Arena arena;
    Sources sources;
    Diag diag;
    Library library;
    Target target;
    Graph *graph;
    void *input[MAX_INPUT];
    const char *groups;
    int nlaunch;
} Case;

static _Noreturn void give_up(Case *c, const char *why)
{
    Buf b;
    buf_init(&b, &c->arena);
    diag_render(&c->diag, &b);
    fail_msg("%s\n%s", why, buf_text(&b));
    abort();
}

// The graph g of a text, its inputs filled with small numbers; open: the first extent of each.
static void open_case(Case *c, const char *text, bool open)
{
    Arena *a = &c->arena;
    memset(c, 0, sizeof *c);
    c->sources.arena = a;
    diag_init(&c->diag, a, &c->sources);
    library_init(&c->library, a, interner_new(a), &c->sources);
    assert_true(target_cuda(&c->target, "sm_90a"));
    if (!ops_load(&c->library, NULL, &c->diag)) give_up(c, "the library");
    Source *s = sources_add(&c->sources, "test.hd", text, strlen(text));
    Node *file = parse_file(a, c->library.names, s, &c->diag);
    if (!file || !library_add(&c->library, file, &c->diag)) give_up(c, "the text");
    const Node *decl = map_get(&c->library.graphs, intern(c->library.names, "g"));
    Target host;
    target_host(&host);
    Graph *g = graph_from_text(a, &c->library, op_table_new(a, &c->library), &host, decl, &c->diag);
    if (!g) give_up(c, "the graph");
    const int64_t *dims[MAX_INPUT];
    int rank[MAX_INPUT];
    for (int i = 0; i < g->inputs.n; i++) {
        GraphValue *v = g->inputs.at[i];
        int64_t *d = NEW_ARRAY(a, int64_t, v->rank), n = graph_value_nelem(v);
        graph_value_dims(v, d);
        if (open) v->dims[0] = value_str(intern(c->library.names, "m"));
        dims[i] = d;
        rank[i] = v->rank;
        char *x = c->input[i] = arena_alloc(a, (size_t)n * dtype_size(v->type));
        for (int64_t k = 0; k < n; k++)
            dtype_store_f64(v->type, x + (size_t)k * dtype_size(v->type),
                            (double)((k * 7 + k / 11 + i) % 11 - 5) * 0.25);
    }
    Specialisation sizes = {.dims = dims, .rank = rank, .dynamic = open};
    c->graph = graph_specialise(g, a, &sizes, &c->target, &c->diag);
    if (!c->graph) give_up(c, "specialising");
}

static void print_nodes(const char *open, const GraphNodes *list, const char *close, Buf *b)
{
    for (int i = 0; i < list->n; i++)
        buf_printf(b, "%s%s", i ? " " : open, list->at[i]->op->decl->u.sym);
    if (list->n) buf_puts(b, close);
}

static void describe(Case *c, const CompiledModel *m)
{
    Buf b;
    buf_init(&b, &c->arena);
    for (int i = 0; i < m->groups.n; i++) {
        buf_puts(&b, i ? ", " : "");
        print_nodes("[", &m->groups.at[i]->prologue, "]", &b);
        buf_puts(&b, m->groups.at[i]->anchor->op->decl->u.sym);
        print_nodes("(", &m->groups.at[i]->epilogue, ")", &b);
    }
    c->groups = buf_text(&b);
    c->nlaunch = 0;
    for (int i = 0; i < m->plan->steps.n; i++) c->nlaunch += m->plan->steps.at[i].kernel->nstage;
}

// The output, computed by the interpreter.
static const void *run(Case *c, bool off)
{
    Arena *a = &c->arena;
    CompileOptions o = {.builder.interpret = true, .fuse.off = off, .target = c->target};
    CompiledModel *m;
    Error e = {0};
    o.builder.passes.verify = true;
    if (model_compile(c->graph, a, &o, &m, &c->diag, &e)) give_up(c, e.text);
    describe(c, m);
    Device *device;
    DeviceOptions one = {.nthread = 1};
    heald_tensor *t[MAX_INPUT + 1];
    int n = c->graph->inputs.n;
    assert_int_equal(device_open(&device_interp, &one, &device, &e), HEALD_OK);
    for (int i = 0; i <= n; i++) {
        const GraphValue *v = i < n ? c->graph->inputs.at[i] : c->graph->outputs.at[0];
        int64_t dims[GRAPH_MAX_RANK];
        graph_value_dims(v, dims);
        void *data = i < n ? c->input[i] : arena_alloc(a, (size_t)graph_value_bytes(v));
        heald_dtype type = (heald_dtype)v->type;
        assert_int_equal(heald_tensor_from_memory(type, v->rank, dims, data, NULL, NULL, &t[i]),
                         HEALD_OK);
    }
    PlanRunner *r;
    assert_int_equal(plan_runner_create(m->plan, device, NULL, &r, &e), HEALD_OK);
    if (plan_run_tensors(r, t, t + n, &e)) give_up(c, e.text);
    const void *result = heald_tensor_data(t[n]);
    for (int i = 0; i <= n; i++) heald_tensor_release(t[i]);
    plan_runner_destroy(r);
    device_close(device);
    model_release(m);
    return result;
}

// The groups, and how many launches they are (-1: any), once results are the same with and without
// fusion.
static void expect(const char *text, bool open, const char *groups, int nlaunch)
{
    Case c;
    open_case(&c, text, open);
    const void *want = run(&c, true), *have = run(&c, false);
    assert_string_equal(c.groups, groups);
    assert_memory_equal(have, want, (size_t)graph_value_bytes(c.graph->outputs.at[0]));
    if (nlaunch >= 0 && c.nlaunch != nlaunch) fail_msg("%d launches: %s", c.nlaunch, c.groups);
    arena_free(&c.arena);
}

#define PART(from, to) "slice(x; starts = (" #from ",), ends = (" #to ",), axes = (2,))"
#define HEADS(from, to) "transpose(" PART(from, to) "; perm = (0, 2, 1, 3))"
#define ATTENTION                                                         \
    "{ let q = " HEADS(0, 3) "; let k = " HEADS(3, 6) "; let v = " HEADS( \
        6, 9) ";\n y = transpose(attention(q, k, v; causal = true); perm = (0, 2, 1, 3)); }"

static void test_attention(void **state)
{
    (void)state;
    const char *all = "[slice transpose slice transpose slice transpose]attention(transpose)";
    expect("graph g(x: f16[2, 21, 9, 16]) -> (y) " ATTENTION, false, all, 1);
    expect("graph g(x: f32[2, 21, 9, 16]) -> (y) " ATTENTION, false, all, 1);
    expect("graph g(x: f16[2, 21, 9, 16]) -> (y) " ATTENTION, true, all, 1);
    // Rows that begin at odd addresses, or end amid 16 bytes.
    expect("graph g(x: f16[1, 21, 9, 13]) -> (y) " ATTENTION, false, all, 1);
    expect(
        "graph g(x: f16[1, 19, 3, 40]) -> (y) {\n"
        "  let q = slice(x; starts = (0,), ends = (12,), axes = (3,));\n"
        "  let k = slice(x; starts = (16,), ends = (28,), axes = (3,));\n"
        "  let v = slice(x; starts = (23,), ends = (39,), axes = (3,)); y = attention(q, k, v); }",
        false, "[slice slice slice]attention", 1);
}

static void test_products(void **state)
{
    (void)state;
    // One launch: nothing is first put where it can be copied.
    expect("graph g(x: f16[3, 17, 2, 24], w: f16[24, 40]) -> (y) {\n"
           "  y = matmul(transpose(x; perm = (2, 0, 1, 3)), w); }",
           false, "[transpose]matmul", 1);
    expect("graph g(x: f16[3, 17, 48], w: f16[24, 40]) -> (y) {\n"
           "  y = matmul(slice(x; starts = (24,), ends = (48,), axes = (2,)), w); }",
           false, "[slice]matmul", 1);
    // Half a piece of 16 bytes is left of each row.
    expect("graph g(x: f16[3, 17, 48], w: f16[20, 40]) -> (y) {\n"
           "  y = matmul(slice(x; starts = (24,), ends = (44,), axes = (2,)), w); }",
           false, "[slice]matmul", -1);
    expect("graph g(x: f16[3, 17, 48], w: f16[24, 40]) -> (y) {\n"
           "  y = matmul(slice(x; starts = (3,), ends = (27,), axes = (2,)), w); }",
           false, "[slice]matmul", -1);
}

static void test_stores(void **state)
{
    (void)state;
    expect("graph g(x: f16[5, 3, 24], w: f16[24, 40], b: f16[40]) -> (y) {\n"
           "  y = relu(transpose(matmul(x, w) + b; perm = (1, 0, 2))); }",
           false, "matmul(add transpose), relu", 2);
    expect("graph g(x: f32[5, 3, 24]) -> (y) { y = transpose(softmax(x); perm = (1, 0, 2)); }",
           false, "softmax(transpose)", 1);
    expect("graph g(x: f32[5, 3, 24]) -> (y) { y = transpose(softmax(x); perm = (1, 0, 2)); }",
           true, "softmax(transpose)", 1);
    expect("graph g(x: f32[4, 4, 4]) -> (y) { y = relu(transpose(softmax(x); perm = (1, 0, 2))); }",
           false, "softmax(transpose), relu", 2);
    // Columns would be scattered; what others read too is stored as it is.
    expect("graph g(x: f32[5, 3, 24]) -> (y) { y = transpose(softmax(x); perm = (0, 2, 1)); }",
           false, "softmax, transpose", 2);
    expect("graph g(x: f32[3, 3, 24]) -> (y) { let a = softmax(x);\n"
           "  y = transpose(a; perm = (1, 0, 2)) + a; }",
           false, "softmax, transpose(add)", 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_stores),
    };
    return cmocka_run_group_tests_name("moved_rows", tests, NULL, NULL);
}
