// SPDX-License-Identifier: Apache-2.0
// Which nodes become one group. A group prints as its prologue in brackets, its anchor, its
// epilogue in parentheses.
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

static const char *rendered(Run *r)
{
    Buf b;
    buf_init(&b, &r->arena);
    diag_render(&r->diag, &b);
    return buf_text(&b);
}

static void print_nodes(const char *open, const GraphNodes *list, const char *close, Buf *b)
{
    for (int i = 0; i < list->n; i++)
        buf_printf(b, "%s%s", i ? " " : open, list->at[i]->op->decl->u.sym);
    if (list->n) buf_puts(b, close);
}

static const char *groups_of(Run *r, const char *text, bool off)
{
    Arena *a = &r->arena;
    memset(r, 0, sizeof *r);
    r->sources.arena = a;
    diag_init(&r->diag, a, &r->sources);
    library_init(&r->library, a, interner_new(a), &r->sources);
    target_host(&r->target);
    if (!ops_load(&r->library, NULL, &r->diag)) return rendered(r);
    r->library.rules.n = 0;
    Source *s = sources_add(&r->sources, "test.hd", text, strlen(text));
    Node *file = parse_file(a, r->library.names, s, &r->diag);
    if (!file || !library_add(&r->library, file, &r->diag)) return rendered(r);
    OpTable *ops = op_table_new(a, &r->library);
    const Node *decl = map_get(&r->library.graphs, intern(r->library.names, "g"));
    Graph *g = graph_from_text(a, &r->library, ops, &r->target, decl, &r->diag);
    if (!g) return rendered(r);
    int64_t dims[8][GRAPH_MAX_RANK];
    const int64_t *list[8];
    int rank[8];
    for (int i = 0; i < g->inputs.n; i++) {
        graph_value_dims(g->inputs.at[i], dims[i]);
        list[i] = dims[i];
        rank[i] = g->inputs.at[i]->rank;
    }
    g = graph_specialise(g, a, &(Specialisation){.dims = list, .rank = rank}, &r->target, &r->diag);
    if (!g) return rendered(r);
    Groups groups = graph_fuse(g, a, &r->target, &(FuseOptions){.off = off});
    Buf b;
    buf_init(&b, a);
    for (int i = 0; i < groups.n; i++) {
        buf_puts(&b, i ? ", " : "");
        print_nodes("[", &groups.at[i]->prologue, "]", &b);
        buf_puts(&b, groups.at[i]->anchor->op->decl->u.sym);
        print_nodes("(", &groups.at[i]->epilogue, ")", &b);
    }
    return buf_text(&b);
}

static void expect(const char *text, const char *want)
{
    Run r;
    assert_string_equal(groups_of(&r, text, false), want);
    arena_free(&r.arena);
}

#define IMAGE "x: f32[1, 8, 6, 6], w: f32[8, 8, 3, 3], r: f32[1, 8, 6, 6]"
#define CONV "conv(x, w; pads = (1, 1, 1, 1))"

static void test_epilogues(void **state)
{
    (void)state;
    expect("graph g(" IMAGE ") -> (y) { y = relu(" CONV " + r); }", "conv(add relu)");
    expect("graph g(" IMAGE ") -> (y) { let c = " CONV "; y = c * sigmoid(c); }",
           "conv(sigmoid mul)");
    // A result that others need too is one more output, not a boundary.
    expect("graph g(" IMAGE ") -> (y, z) { let c = " CONV
           "; y = relu(c); z = max_pool(c; kernel_shape = (2, 2)); }",
           "conv(relu), max_pool");
    expect("graph g(x: f32[4, 8], b: f32[8]) -> (y) { y = exp(relu(x) + b); }", "relu(add exp)");
}

static void test_boundaries(void **state)
{
    (void)state;
    expect("graph g(" IMAGE ") -> (y) { y = conv(relu(" CONV "), w; pads = (1, 1, 1, 1)); }",
           "conv(relu), conv");
    // The sum over the rows reads more than one element.
    expect("graph g(x: f32[4, 8]) -> (y) { y = reduce_sum(relu(x); axes = (1,)) * 2.0; }",
           "relu, reduce_sum(mul)");
    // Growing to more elements is not for an epilogue.
    expect("graph g(x: f32[1, 8], r: f32[4, 8]) -> (y) { y = exp(x) + r; }", "exp, add");
}

// Two groups must not wait for each other: each convolution's sum needs the other's result.
static void test_no_cycles(void **state)
{
    (void)state;
    expect("graph g(" IMAGE ") -> (y, z) { let a = " CONV
           "; let b = conv(r, w; pads = (1, 1, 1, 1));\n"
           "  y = a + b; z = b - a; }",
           "conv, conv(add sub)");
}

static void test_prologues(void **state)
{
    (void)state;
    expect("graph g(a: f32[8, 4], b: f32[8, 4]) -> (y) { y = matmul(transpose(a), b) + 1.0; }",
           "[transpose]matmul(add)");
    expect("graph g(x: f32[4, 8], z: f32[4, 8]) -> (y) { y = concat(relu(x), z; axis = 0); }",
           "[relu]concat");
    // A convolution would read it at every place of its window.
    expect("graph g(x: f32[6, 6, 8, 1], w: f32[8, 8, 3, 3]) -> (y) { y = conv(transpose(x; perm = "
           "(3, 2, 0, 1)), w); }",
           "transpose, conv");
    // What two read is computed once.
    expect("graph g(a: f32[8, 4], b: f32[8, 4]) -> (y, z) { let t = transpose(a); y = matmul(t, "
           "b); z = t; }",
           "transpose, matmul");
}

// What an op requires, or works out from shapes and attributes, is nothing that it computes.
static void test_requirements(void **state)
{
    (void)state;
    expect("op turn(x: T[m, n]; way: int = 1) -> (y: T[n, m]) bijective {\n"
           "  require max(way, m) > 0, \"turn: {way}\";\n"
           "  let zero = min(way, 0);\n"
           "  y[i, j] = x[j + zero, i];\n"
           "}\n"
           "graph g(a: f32[8, 4], b: f32[8, 4]) -> (y) { y = matmul(turn(a), b); }",
           "[turn]matmul");
    expect("graph g(x: f32[1, 9], r: f32[4, 8]) -> (y) {\n"
           "  y = concat(slice(x; starts = (1,), ends = (9,), axes = (1,)), r; axis = 0); }",
           "[slice]concat");
}

// Sums and norms over rows are epilogues where a block of the template has whole rows.
static void test_rows(void **state)
{
    (void)state;
    expect("graph g(a: f32[100, 32], b: f32[32, 40], r: f32[100, 40], w: f32[40]) -> (y, z) {\n"
           "  let c = matmul(a, b) + r; y = layer_norm(c, w, w) * 2.0; z = reduce_sum(c; axes = "
           "(1,)); }",
           "matmul(add layer_norm mul reduce_sum)");
    // Columns are no rows, products read other tensors as a whole, and exponentials would be
    // computed twice.
    expect(
        "graph g(a: f32[40, 32], b: f32[32, 40]) -> (y) { y = softmax(matmul(a, b); axis = 0); }",
        "matmul, softmax");
    expect("graph g(a: f32[40, 32], b: f32[32, 40]) -> (y) { y = reduce_max(matmul(a, b); axes = "
           "(0,)); }",
           "matmul, reduce_max");
    expect("graph g(a: f32[40, 40], b: f32[40, 40]) -> (y) { let c = matmul(a, b); y = matmul(c, "
           "b); }",
           "matmul, matmul");
    expect("graph g(a: f32[40, 32], b: f32[32, 40]) -> (y) { y = softmax(matmul(a, b)); }",
           "matmul, softmax");
    // The block of another template has no rows.
    expect("graph g(" IMAGE ") -> (y) { y = reduce_sum(" CONV "; axes = (3,)); }",
           "conv, reduce_sum");
}

static void test_off(void **state)
{
    (void)state;
    Run r;
    assert_string_equal(groups_of(&r, "graph g(x: f32[4]) -> (y) { y = relu(exp(x)); }", true),
                        "exp, relu");
    arena_free(&r.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_epilogues),    cmocka_unit_test(test_boundaries),
        cmocka_unit_test(test_no_cycles),    cmocka_unit_test(test_prologues),
        cmocka_unit_test(test_requirements), cmocka_unit_test(test_rows),
        cmocka_unit_test(test_off),
    };
    return cmocka_run_group_tests_name("fusion", tests, NULL, NULL);
}
