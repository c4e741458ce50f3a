// SPDX-License-Identifier: Apache-2.0
// Rules rewrite graphs: patterns, conditions, readers outside the match, wrong rules, rules without
// end.
#include "graph/graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

typedef struct Run {
    Arena arena;
    Sources sources;
    Diag diag;
    Library library;
    Target target;
} Run;

static void add_text(Run *r, const char *text)
{
    Source *s = sources_add(&r->sources, "test.hd", text, strlen(text));
    Node *f = parse_file(&r->arena, r->library.names, s, &r->diag);
    if (f) library_add(&r->library, f, &r->diag);
}

static const char *rendered(Run *r)
{
    Buf b;
    buf_init(&b, &r->arena);
    diag_render(&r->diag, &b);
    return buf_text(&b);
}

// The ops of graph g in `text`, after rules, in order: "add mul". Inputs have the extents that the
// text declares; those named w... are constants of ones. The library's own rules are left out
// unless asked for.
static const char *ops_after(Run *r, const char *text, bool own_rules)
{
    memset(r, 0, sizeof *r);
    Arena *a = &r->arena;
    r->sources.arena = a;
    diag_init(&r->diag, a, &r->sources);
    library_init(&r->library, a, interner_new(a), &r->sources);
    target_host(&r->target);
    if (!ops_load(&r->library, NULL, &r->diag)) return rendered(r);
    if (!own_rules) r->library.rules.n = 0;
    add_text(r, text);
    if (r->diag.nerror) return rendered(r);
    OpTable *ops = op_table_new(a, &r->library);
    const Node *decl = map_get(&r->library.graphs, intern(r->library.names, "g"));
    assert_non_null(decl);
    Graph *g = graph_from_text(a, &r->library, ops, &r->target, decl, &r->diag);
    if (!g) return rendered(r);
    static float ones[4096];
    for (int i = 0; i < 4096; i++) ones[i] = 1;
    int64_t dims[8][GRAPH_MAX_RANK];
    const int64_t *dim_list[8];
    int rank[8];
    const void *data[8] = {0};
    for (int i = 0; i < g->inputs.n; i++) {
        graph_value_dims(g->inputs.at[i], dims[i]);
        dim_list[i] = dims[i];
        rank[i] = g->inputs.at[i]->rank;
        if (g->inputs.at[i]->name[0] == 'w') data[i] = ones;
    }
    Specialisation s = {.dims = dim_list, .rank = rank, .data = data};
    g = graph_specialise(g, a, &s, &r->target, &r->diag);
    if (!g) return rendered(r);
    Buf b;
    buf_init(&b, a);
    for (int i = 0; i < g->nodes.n; i++)
        buf_printf(&b, "%s%s", i ? " " : "", g->nodes.at[i]->op->decl->u.sym);
    return buf_text(&b);
}

#define GRAPH(params, body) "graph g(" params ") -> (y) { y = " body "; }\n"
#define X "x: f32[4, 8]"

static void expect(const char *text, const char *want)
{
    Run r;
    assert_string_equal(ops_after(&r, text, false), want);
    arena_free(&r.arena);
}

static void expect_error(const char *text, const char *part)
{
    Run r;
    const char *got = ops_after(&r, text, false);
    if (!strstr(got, part)) fail_msg("wanted '%s' in:\n%s", part, got);
    arena_free(&r.arena);
}

static void expect_own(const char *text, const char *want)
{
    Run r;
    assert_string_equal(ops_after(&r, text, true), want);
    arena_free(&r.arena);
}

static void test_replaces(void **state)
{
    (void)state;
    expect("rule r { relu(relu(x)) => relu(x) }\n" GRAPH(X, "relu(relu(relu(x)))"), "relu");
    expect("rule r { x * (1 + erf(x)) => gelu(x) }\n" GRAPH(X, "(erf(x) + 1) * x"), "gelu");
    expect("rule r { x * (1 + erf(x)) => gelu(x) }\n" GRAPH(X ", z: f32[4, 8]", "(erf(x) + 1) * z"),
           "erf add mul");
    expect("rule r { x * 2.5 => relu(x) }\n" GRAPH(X, "x * 2.5"), "relu");
    expect("rule r { x * 2.5 => relu(x) }\n" GRAPH(X, "x * 2.6"), "mul");
    expect("rule r { x - y => y - x }\n" GRAPH(X ", z: f32[4, 8]", "relu(x) / z"), "relu div");
}

static void test_attributes(void **state)
{
    (void)state;
    expect("rule r { gelu(x; approximate = \"none\") => relu(x) }\n" GRAPH(X, "gelu(x)"), "relu");
    expect("rule r { gelu(x; approximate = \"none\") => relu(x) }\n" GRAPH(
               X, "gelu(x; approximate = \"tanh\")"),
           "gelu");
    expect("rule r { transpose(transpose(x; perm: p); perm: q) when p == q => x }\n" GRAPH(
               X, "relu(transpose(transpose(x; perm = (1, 0)); perm = (1, 0)))"),
           "relu");
    expect("rule r { relu(leaky_relu(x; ...a)) => leaky_relu(x; ...a) }\n" GRAPH(
               X, "relu(leaky_relu(x; alpha = 0.5))"),
           "leaky_relu");
}

static void test_conditions(void **state)
{
    (void)state;
    expect("rule r { x * a * b when const(a, b) => let c = a * b; x * c }\n" GRAPH(
               X ", w: f32[4, 8], w2: f32[4, 8]", "x * w * w2"),
           "mul");
    expect("rule r { x * a * b when const(a, b) => let c = a * b; x * c }\n" GRAPH(
               X ", w: f32[4, 8], z: f32[4, 8]", "x * w * z"),
           "mul mul");
    expect("rule r { x * c when scalar(c) => relu(x) }\n" GRAPH(X, "x * 3"), "relu");
    expect("rule r { x * c when c > 2 => relu(x) }\n" GRAPH(X, "x * 3 * 1"), "relu mul");
    expect("rule r { neg(x) when rank(x) == 2 && x.shape[0] == 4 => relu(x) }\n" GRAPH(X, "-x"),
           "relu");
    expect("rule r { neg(x) when rank(x) == 3 => relu(x) }\n" GRAPH(X, "-x"), "neg");
}

// erf(x) is read by the sum as well: what a rule removes must have no other reader.
static void test_other_reader(void **state)
{
    (void)state;
    expect("rule r { relu(erf(x)) => gelu(x) }\n"
           "graph g(" X ") -> (y) { let e = erf(x); y = relu(e) + e; }\n",
           "erf relu add");
}

static void test_mistakes(void **state)
{
    (void)state;
    expect_error("rule swap { x + y => y + x }\n" GRAPH(X ", z: f32[4, 8]", "x + z"),
                 "rules do not come to an end");
    expect_error("rule shape { relu(x) => transpose(x) }\n" GRAPH(X, "relu(x)"),
                 "another type or shape");
    expect_error("rule name { relu(x) => erf(z) }\n" GRAPH(X, "relu(x)"), "in rule 'name'");
    expect_error(GRAPH(X, "nothing(x)"), "there is no op 'nothing'");
    expect_error("graph g(" X ") -> (y) { z = relu(x); }\n", "'y' is never assigned");
}

static void test_library(void **state)
{
    (void)state;
    expect_own("graph g(x: f32[1, 3, 8, 8], w: f32[4, 3, 3, 3], wb: f32[4], wg: f32[4], wh: "
               "f32[4], wm: f32[4], wv: f32[4]) -> (y) {\n"
               "  y = relu(batch_norm(conv(x, w, wb; pads = 1), wg, wh, wm, wv)); }\n",
               "conv relu");
    expect_own("graph g(x: f32[1, 3, 8, 8], w: f32[4, 3, 3, 3], wg: f32[4], wh: f32[4], wm: "
               "f32[4], wv: f32[4]) -> (y) {\n"
               "  y = batch_norm(conv(x, w), wg, wh, wm, wv); }\n",
               "conv");
    expect_own("graph g(x: f32[2, 4, 5], wg: f32[4], wh: f32[4], wm: f32[4], wv: f32[4]) -> (y) { "
               "y = batch_norm(x, wg, wh, wm, wv); }\n",
               "mul add");
    expect_own("graph g(x: f32[4, 8], w: f32[5, 8], wb: f32[5]) -> (y) { y = gemm(x, w, wb; transB "
               "= true); }\n",
               "matmul add");
    expect_own("graph g(x: f32[4, 8], wg: f32[8], wb: f32[8]) -> (y) {\n"
               "  let d = x - reduce_mean(x; axes = (-1,));\n"
               "  y = d / sqrt(reduce_mean(d ** 2; axes = (-1,)) + 1e-5) * wg + wb; }\n",
               "layer_norm");
    expect_own(GRAPH(X, "x * (1 + erf(x / 1.41421356)) * 0.5"), "gelu");
    expect_own(GRAPH(X, "0.5 * (x * (erf(x / 1.41421356) + 1))"), "gelu");
    expect_own(GRAPH(X, "0.5 * (x * (1 + tanh(0.79788456 * (x + 0.044715 * (x * (x * x))))))"),
               "gelu");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replaces),   cmocka_unit_test(test_attributes),
        cmocka_unit_test(test_conditions), cmocka_unit_test(test_other_reader),
        cmocka_unit_test(test_mistakes),   cmocka_unit_test(test_library),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
