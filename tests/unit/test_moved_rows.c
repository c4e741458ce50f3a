// SPDX-License-Identifier: Apache-2.0
// Rows that slices and transposes move are read where they lie and stored where they go by
// templates for GPUs: which groups that gives, and the same bits as without.
#include "unit/graph_case.h"

typedef struct Case {
    GraphCase head;
    const char *groups;
    int nlaunch;
} Case;

static void print_nodes(const char *open, const GraphNodes *list, const char *close, Buf *b)
{
    for (int i = 0; i < list->n; i++)
        buf_printf(b, "%s%s", i ? " " : open, list->at[i]->op->decl->u.sym);
    if (list->n) buf_puts(b, close);
}

static void describe(void *user, const CompiledModel *m)
{
    Case *c = user;
    Buf b;
    buf_init(&b, &c->head.arena);
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

// The groups, and how many launches they are (-1: any), once results are the same with and without
// fusion.
static void expect(const char *text, bool open, const char *groups, int nlaunch)
{
    Case c = {0};
    Target gpu;
    const void *want, *have;
    assert_true(target_cuda(&gpu, "sm_90a"));
    case_open(&c.head, gpu, (const char *const[]){text, NULL}, open);
    case_run(&c.head, true, describe, &c, &want);
    case_run(&c.head, false, describe, &c, &have);
    assert_string_equal(c.groups, groups);
    assert_memory_equal(have, want, (size_t)graph_value_bytes(c.head.graph->outputs.at[0]));
    if (nlaunch >= 0 && c.nlaunch != nlaunch) fail_msg("%d launches: %s", c.nlaunch, c.groups);
    arena_free(&c.head.arena);
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
