// SPDX-License-Identifier: Apache-2.0
// Layouts that templates prefer for activations: what is granted, what it costs, and that results
// stay the same bit for bit.
#include "unit/graph_case.h"

// Sums of rows, which a template wants in blocks of four columns; `worth` is what that saves it.
// The template that does without adds in the same order.
static const char texts[] =
    "op pack_cols(x: T[m, n]; w: int) -> (y: T[ceil(n, w), m, w]) {\n"
    "    y[b, i, l] = x[i, b * w + l] else 0;\n}\n"
    "op unpack_cols(y: T[b, m, l]; w: int) -> (x: T[m, b * l]) bijective {\n"
    "    x[i, j] = y[j / l, i, j % l];\n}\n"
    "op pack_turned(x: T[m, n]) -> (y: T[n, m]) { y[j, i] = x[i, j]; }\n"
    "op spread(x: T[m, n]; worth: int = 1000) -> (y: T[m, n]) {\n"
    "    y[i, j] = sum(k in n) x[i, k] * x[i, j];\n}\n"
    "op spread_turned(x: T[m, n]; worth: int = 1000) -> (y: T[m, n]) {\n"
    "    y[i, j] = sum(k in n) x[i, k] * x[i, j];\n}\n"
    "kernel spread_cols[T: f32](x: T[m, n] prefer layout cols(4) worth worth; worth: int = 1000)\n"
    "    -> (y: T[m, n] prefer layout cols(4)) implements spread on cpu {\n"
    "    require x.packed, \"not in columns\";\n    launch grid(m);\n"
    "    for j in n {\n        var s: T = 0;\n"
    "        for k in n { s += x.cols[k / 4, block.x, k % 4] * x.cols[j / 4, block.x, j % 4]; }\n"
    "        y[block.x, j] = s;\n    }\n}\n"
    "kernel spread_rows[T: f32](x: T[m, n]; worth: int = 1000) -> (y: T[m, n])\n"
    "    implements spread on cpu {\n    launch grid(m);\n"
    "    for j in n {\n        var s: T = 0;\n"
    "        for k in n { s += x[block.x, k] * x[block.x, j]; }\n"
    "        y[block.x, j] = s;\n    }\n}\n"
    "kernel spread_by_turning[T: f32](x: T[m, n] prefer layout turned worth worth; worth: int = "
    "1000)\n    -> (y: T[m, n]) implements spread_turned on cpu {\n"
    "    require x.packed, \"not turned\";\n    launch grid(m);\n"
    "    for j in n {\n        var s: T = 0;\n"
    "        for k in n { s += x.turned[k, block.x] * x.turned[j, block.x]; }\n"
    "        y[block.x, j] = s;\n    }\n}\n"
    "op spread_by(x: T[m, n]; by: int) -> (y: T[m, n]) {\n"
    "    y[i, j] = sum(k in n) x[i, k] * x[i, j];\n}\n"
    "kernel spread_cols_by[T: f32](x: T[m, n] prefer layout cols(by) worth 100; by: int)\n"
    "    -> (y: T[m, n]) implements spread_by on cpu {\n"
    "    require x.packed, \"not in columns\";\n    launch grid(m);\n"
    "    for j in n {\n        var s: T = 0;\n"
    "        for k in n { s += x.cols[k / by, block.x, k % by] * x.cols[j / by, block.x, j % by]; "
    "}\n"
    "        y[block.x, j] = s;\n    }\n}\n"
    "kernel spread_rows_by[T: f32](x: T[m, n]; by: int) -> (y: T[m, n])\n"
    "    implements spread_by on cpu {\n    launch grid(m);\n"
    "    for j in n {\n        var s: T = 0;\n"
    "        for k in n { s += x[block.x, k] * x[block.x, j]; }\n"
    "        y[block.x, j] = s;\n    }\n}\n";

typedef struct Case {
    GraphCase head;
    const char *said; // about layouts, a line a group
    const char *steps;
} Case;

// The same on all machines: what is worth it depends on the lanes.
static Target wide_target(void)
{
    Target t;
    target_host(&t);
    t.vector_bytes = 64;
    t.nregister = 32;
    return t;
}

static void describe(void *user, const CompiledModel *m)
{
    Case *c = user;
    Buf b, steps;
    buf_init(&b, &c->head.arena);
    buf_init(&steps, &c->head.arena);
    buf_puts(&b, "");
    for (int i = 0; i < m->groups.n; i++) {
        const Group *p = m->groups.at[i];
        buf_printf(&b, "%s:", p->kernel ? p->kernel->u.sym : "meaning");
        for (int k = 0; k < p->layouts.n; k++)
            buf_printf(&b, "%s %s", k ? ";" : "", p->layouts.at[k]);
        buf_putc(&b, '\n');
    }
    for (int i = 0; i < m->plan->steps.n; i++)
        buf_printf(&steps, "%s%s", i ? " " : "", m->plan->steps.at[i].kernel->name);
    c->said = buf_text(&b);
    c->steps = buf_text(&steps);
}

// What was said about layouts, once results are the same with and without. npack: steps that lay
// something out; -1: any number.
static void expect(const char *text, bool open, const char *said, int npack)
{
    Case c = {0};
    const void *want[CASE_MAX_VALUES], *have[CASE_MAX_VALUES];
    case_open(&c.head, wide_target(), (const char *const[]){texts, text, NULL}, open);
    case_run(&c.head, true, describe, &c, want);
    case_run(&c.head, false, describe, &c, have);
    const GraphValues *y = &c.head.graph->outputs;
    for (int i = 0; i < y->n; i++)
        assert_memory_equal(have[i], want[i], (size_t)graph_value_bytes(y->at[i]));
    if (said) assert_string_equal(c.said, said);
    int count = 0;
    for (const char *s = c.steps; (s = strstr(s, "h_pack_")); s++) count++;
    if (npack >= 0 && count != npack)
        fail_msg("%d steps lay something out: %s\n%s", count, c.steps, c.said);
    arena_free(&c.head.arena);
}

static void test_granted(void **state)
{
    (void)state;
    expect("graph g(x: f32[6, 8]) -> (y) { y = spread(x); }", false,
           "spread_cols: x is laid out as cols(4) for it, 192 bytes; "
           "y is stored as it is: others need it so\n",
           1);
    // What it costs: x and y are moved twice each.
    expect("graph g(x: f32[6, 8]) -> (y) { y = spread(x; worth = 769); }", false,
           "spread_cols: x is laid out as cols(4) for it, 192 bytes; "
           "y is stored as it is: others need it so\n",
           1);
    expect("graph g(x: f32[6, 8]) -> (y) { y = spread(x; worth = 768); }", false,
           "spread_rows: x as it lies: cols(4) would save 768 bytes and cost 768\n", 0);
    // A layout that nothing undoes is for steps only.
    expect("graph g(x: f32[6, 8]) -> (y) { y = spread_turned(spread_turned(x)); }", false,
           "spread_by_turning: x is laid out as turned for it, 192 bytes\n"
           "spread_by_turning: spread_turned is laid out as turned for it, 192 bytes\n",
           2);
}

static void test_pairs_cancel(void **state)
{
    (void)state;
    expect("graph g(x: f32[6, 8]) -> (y) { y = spread(relu(spread(x))); }", false, NULL, 1);
    expect("graph g(x: f32[6, 8]) -> (y) { let a = spread(x); y = spread(a) + relu(a); }", false,
           NULL, 1);
    // A copy of another shape between takes elements as they lie.
    expect("graph g(x: f32[6, 8]) -> (y) { let a = spread(x); let b = spread(x; worth = 1001);\n"
           "  y = spread(concat(a, relu(b); axis = 0)); }",
           false, NULL, 1);
}

static void test_steps_are_shared(void **state)
{
    (void)state;
    expect("graph g(x: f32[6, 8]) -> (y) { y = spread(x) + spread(x; worth = 1001); }", false, NULL,
           1);
    // By readers of a value that lies otherwise, too.
    expect("graph g(x: f32[6, 8]) -> (y) { let a = spread(x);\n"
           "  y = spread_turned(a) + spread_turned(a; worth = 1001) + spread(a); }",
           false, NULL, 2);
}

// However long the name of a layout is, what undoes it is found.
static void test_long_names(void **state)
{
    (void)state;
    char name[301], *text;
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    Arena a = {0};
    text = arena_printf(
        &a,
        "op pack_%s(x: T[m, n]) -> (y: T[n, m]) { y[j, i] = x[i, j]; }\n"
        "op unpack_%s(y: T[n, m]) -> (x: T[m, n]) bijective { x[i, j] = y[j, i]; }\n"
        "op spread_named(x: T[m, n]) -> (y: T[m, n]) { y[i, j] = sum(k in n) x[i, k] * x[i, j]; }\n"
        "kernel spread_by_name[T: f32](x: T[m, n] prefer layout %s worth 1000)\n"
        "    -> (y: T[m, n] prefer layout %s) implements spread_named on cpu {\n"
        "    require x.packed, \"not turned\";\n    launch grid(m);\n    for j in n {\n"
        "        var s: T = 0;\n"
        "        for k in n { s += x.%s[k, block.x] * x.%s[j, block.x]; }\n"
        "        y[block.x, j] = s;\n    }\n}\n"
        "graph g(x: f32[6, 8]) -> (y) { y = spread_named(relu(spread_named(x))); }",
        name, name, name, name, name, name);
    expect(text, false, NULL, 1);
    arena_free(&a);
}

// Each wants the input in a layout of its own, so that each pays for its own border.
static void test_many_layouts(void **state)
{
    (void)state;
    Arena a = {0};
    Buf text, said;
    buf_init(&text, &a);
    buf_init(&said, &a);
    buf_puts(&text, "graph g(x: f32[6, 8]) -> (y) { y = concat(");
    for (int by = 1; by <= 12; by++) {
        buf_printf(&text, "spread_by(x; by = %d), ", by);
        buf_printf(&said,
                   "spread_rows_by: x as it lies: cols(%d) would save 100 bytes and cost 384\n",
                   by);
    }
    buf_puts(&text, "x; axis = 0); }");
    buf_puts(&said, "meaning:\n");
    expect(buf_text(&text), false, buf_text(&said), 0);
    arena_free(&a);
}

// A product packs its second operand anyway: two of the same do so together.
static void test_products(void **state)
{
    (void)state;
    expect("graph g(x: f32[6, 8], w: f32[8, 40]) -> (y) { y = matmul(x, relu(w)); }", false,
           "meaning:\n"
           "matmul_cpu: relu as it lies: panel(32) would save 2560 bytes and cost 2560\n",
           0);
    expect("graph g(x: f32[6, 8], w: f32[8, 40], z: f32[3, 8]) -> (y) {\n"
           "  let v = relu(w); y = concat(matmul(x, v), matmul(z, v); axis = 0); }",
           false, NULL, 1);
}

static void test_others_read_it_from_there(void **state)
{
    (void)state;
    expect("graph g(x: f32[6, 8]) -> (y) { y = reduce_sum(spread(x; worth = 5000); axes = (1,)); }",
           false, NULL, 1);
    expect("graph g(x: f32[6, 8]) -> (y) { y = transpose(spread(x; worth = 5000)); }", false, NULL,
           1);
    expect("graph g(x: f32[6, 8], w: f32[8, 3]) -> (y) {\n"
           "  y = matmul(spread(x; worth = 5000), w); }",
           false, NULL, 1);
    // A view shows memory as it is.
    expect("graph g(x: f32[6, 8]) -> (y) {\n"
           "  let a = spread(x; worth = 5000); y = reshape(a; shape = (8, 6)) + 1.0; }",
           false, NULL, 1);
}

static void test_extents(void **state)
{
    (void)state;
    // Ten columns leave a block of four half empty: fine to read, not to be all there is.
    expect("graph g(x: f32[6, 10]) -> (y) { y = spread(spread(x; worth = 9000); worth = 9000); }",
           false, NULL, 2);
    expect("graph g(x: f32[5, 8]) -> (y) { y = spread(relu(spread(x))); }", true, NULL, 1);
}

// Each alone would only move the border: together they do not pay.
static void test_regions(void **state)
{
    (void)state;
    expect(
        "graph g(x: f32[6, 8]) -> (y) { y = spread(spread(x; worth = 380); worth = 380); }", false,
        "spread_rows: x as it lies: cols(4) would save 760 bytes and cost 768, with 1 other "
        "group\n"
        "spread_rows: spread as it lies: cols(4) would save 760 bytes and cost 768, with 1 other "
        "group\n",
        0);
    expect("graph g(x: f32[6, 8]) -> (y) { y = spread(spread(x; worth = 390); worth = 390); }",
           false, NULL, 1);
}

// The library's own: images in blocks of channels.
static void test_channels(void **state)
{
    (void)state;
    expect("graph g(x: f32[1, 32, 4, 9], w: const f32[32, 32, 3, 3], v: const f32[32, 32, 1, 1]) "
           "-> (y) {\n"
           "  let a = relu(conv(x, w; pads = (1, 1, 1, 1)));\n"
           "  let b = conv(a, v) + a;\n"
           "  y = global_average_pool(conv(max_pool(b; kernel_shape = (2, 2)), v)); }",
           false, NULL, 1);
}

// The same graph with each of the expressions for %, extents known and open.
static void expect_each(const char *text, const char *const *expression, size_t n)
{
    const char *at = strchr(text, '%');
    for (size_t i = 0; i < n; i++) {
        char all[512];
        snprintf(all, sizeof all, "%.*s%s%s", (int)(at - text), text, expression[i], at + 1);
        expect(all, false, NULL, -1);
        expect(all, true, NULL, -1);
    }
}

// What is computed where they load and store: before, two results, sums of rows.
static void test_hooks(void **state)
{
    (void)state;
    static const char *const anchors[] = {"conv(relu(x) * s, w; pads = (1, 1, 1, 1))",
                                          "conv(relu(x), w; strides = (2, 1)) ",
                                          "conv(x + s, v; group = 32, pads = (1, 1, 1, 1))",
                                          "max_pool(conv(x, w) + s; kernel_shape = (2, 2))",
                                          "average_pool(relu(conv(x, w)); kernel_shape = (2, 2))"};
    expect_each("graph g(x: f32[2, 32, 7, 18], s: const f32[32, 1, 1], w: const f32[32, 32, 3, "
                "3],\n  v: const f32[32, 1, 3, 3]) -> (y, z, r) {\n"
                "  let a = %; y = relu(a); z = conv(y * 2.0 + a, w);\n"
                "  r = reduce_sum(a; axes = (3,)); }",
                anchors, COUNT(anchors));
}

// What scales channels, or pixels, is no image: the axes along which it is whole stay apart.
static void test_scales(void **state)
{
    (void)state;
    static const char *const scales[] = {
        "global_average_pool(a)", "sigmoid(conv(global_average_pool(a), w))",
        "reduce_mean(a; axes = (1,))", "reduce_max(a; axes = (2,))", "reduce_mean(a; axes = (0,))"};
    expect_each("graph g(x: f32[2, 32, 12, 6], w: const f32[32, 32, 1, 1]) -> (y) {\n"
                "  let a = conv(x, w); y = a * %; }",
                scales, COUNT(scales));
}

// Strides, dilations, edges, other ranks; windows that are no part of an image.
static void test_windows(void **state)
{
    (void)state;
    expect("graph g(x: f32[2, 3, 9, 17], w: const f32[32, 3, 3, 3], v: const f32[16, 32, 2, 3],\n"
           "        u: const f32[16, 1, 3, 3]) -> (y) {\n"
           "  let a = relu(conv(x, w; strides = (1, 2), pads = (2, 1, 0, 1)));\n"
           "  let b = conv(a, v; dilations = (2, 1), pads = (1, 2, 1, 2), strides = (2, 1));\n"
           "  let c = conv(b, u; group = 16, pads = (1, 1, 1, 1), strides = (1, 2));\n"
           "  y = average_pool(max_pool(c; kernel_shape = (3, 3), pads = (1, 1, 1, 1)) * 2.0;\n"
           "                   kernel_shape = (2, 2), pads = (1, 0, 0, 1), ceil_mode = true); }",
           false, NULL, 0);
    expect("graph g(x: f32[1, 5, 40], w: const f32[64, 5, 5], v: const f32[32, 64, 3],\n"
           "        u: const f32[32, 1, 7]) -> (y) {\n"
           "  y = conv(conv(conv(x, w; pads = (2, 2)), v; strides = (2,)), u; group = 32); }",
           false, NULL, 0);
    expect("graph g(x: f32[1, 16, 3, 4, 5], w: const f32[16, 16, 2, 3, 3], v: const f32[16]) -> "
           "(y) {\n"
           "  let a = conv(x, w, v; pads = (1, 1, 1, 0, 1, 1)); y = conv(a, w) + conv(a, w, v); }",
           false, NULL, 1);
    expect("graph g(x: f32[3, 16, 5, 5], w: const f32[16, 16, 3, 3]) -> (y) {\n"
           "  y = global_max_pool(conv(relu(conv(x, w; pads = (1, 1, 1, 1))), w)); }",
           true, NULL, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_granted),
        cmocka_unit_test(test_pairs_cancel),
        cmocka_unit_test(test_steps_are_shared),
        cmocka_unit_test(test_long_names),
        cmocka_unit_test(test_many_layouts),
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_others_read_it_from_there),
        cmocka_unit_test(test_extents),
        cmocka_unit_test(test_regions),
        cmocka_unit_test(test_channels),
        cmocka_unit_test(test_scales),
        cmocka_unit_test(test_hooks),
        cmocka_unit_test(test_windows),
    };
    return cmocka_run_group_tests_name("layouts", tests, NULL, NULL);
}
