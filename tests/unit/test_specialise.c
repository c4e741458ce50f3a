// SPDX-License-Identifier: Apache-2.0
// Specialising a graph: extents that only a run decides, inputs that must be known, declarations
// chosen by outputs and types, branches that are selected, loops that are unrolled.
#include "graph/graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

typedef struct Kit {
    Arena arena;
    Sources sources;
    Library library;
    Diag diag;
    OpTable *ops;
    Graph *g;
    bool wanted[4];
} Kit;

static void open_kit(Kit *k)
{
    *k = (Kit){0};
    k->sources.arena = &k->arena;
    diag_init(&k->diag, &k->arena, &k->sources);
    library_init(&k->library, &k->arena, interner_new(&k->arena), &k->sources);
    assert_true(ops_load(&k->library, NULL, &k->diag));
    k->ops = op_table_new(&k->arena, &k->library);
    k->g = graph_new(&k->arena, &k->library, k->ops, "test");
}

static GraphValue *number(Kit *k, DType type, int64_t v)
{
    int64_t *data = NEW(&k->arena, int64_t);
    dtype_store_i64(type, data, v);
    return graph_constant(k->g, "number", type, 0, NULL, data);
}

// A node of ONNX at opset 17 with noutput outputs, whose values are returned in `out`.
static GraphNode *node(Kit *k, const char *op, int ninput, GraphValue **input, int noutput,
                       GraphValue **out)
{
    bool known;
    for (int i = 0; i < noutput; i++) out[i] = graph_value(k->g, op, DT_NONE, -1, NULL);
    return graph_node(k->g, op, op, op_table_onnx(k->ops, op, 17, &known), ninput, input, noutput,
                      out);
}

// With inputs of the extents that they were declared with; data[i] NULL: not known.
static Graph *specialise(Kit *k, const void *const *data)
{
    const int64_t *dims[4];
    int rank[4];
    for (int i = 0; i < k->g->inputs.n; i++) {
        const GraphValue *v = k->g->inputs.at[i];
        int64_t *d = NEW_ARRAY(&k->arena, int64_t, v->rank);
        graph_value_dims(v, d);
        dims[i] = d;
        rank[i] = v->rank;
    }
    Specialisation s = {.dims = dims, .rank = rank, .data = data, .wanted = k->wanted};
    Target t;
    target_host(&t);
    return graph_specialise(k->g, &k->arena, &s, &t, &k->diag);
}

static void extents_that_a_run_decides(void **state)
{
    (void)state;
    Kit k;
    open_kit(&k);
    Value dims[] = {value_int(2), value_int(3)};
    GraphValue *x = graph_input(k.g, "x", DT_F32, 2, dims), *y;
    node(&k, "NonZero", 1, &x, 1, &y);
    graph_output(k.g, y);
    assert_null(specialise(&k, NULL));
    assert_true(k.wanted[0]);
    assert_true(k.diag.nerror > 0);

    diag_clear(&k.diag);
    const float values[] = {0, 5, 0, 0, 0, -1};
    const void *data[] = {values};
    Graph *to = specialise(&k, data);
    assert_non_null(to);
    const GraphValue *out = to->outputs.at[0];
    assert_int_equal(out->dims[0].u.i, 2);
    assert_int_equal(out->dims[1].u.i, 2);
    const int64_t want[] = {0, 1, 1, 2};
    assert_memory_equal(out->data, want, sizeof want);
    assert_int_equal(to->nodes.n, 0);
    arena_free(&k.arena);
}

static void extents_beyond_their_bound(void **state)
{
    (void)state;
    static const char text[] = "heald 1;\n"
                               "op grows(x: T[n]) -> (y: T[count <= n]) onnx Grows(1) serial {\n"
                               "    y[0] = x[0];\n    count = n + 5;\n}\n";
    Kit k;
    open_kit(&k);
    Source *source = sources_add(&k.sources, "grows.hd", text, sizeof text - 1);
    Node *file = parse_file(&k.arena, k.library.names, source, &k.diag);
    assert_non_null(file);
    assert_true(library_add(&k.library, file, &k.diag));
    k.ops = op_table_new(&k.arena, &k.library);
    k.g = graph_new(&k.arena, &k.library, k.ops, "test");
    const float values[] = {1, 2};
    const int64_t two = 2;
    GraphValue *x = graph_constant(k.g, "x", DT_F32, 1, &two, values), *y;
    node(&k, "Grows", 1, &x, 1, &y);
    graph_output(k.g, y);
    assert_null(specialise(&k, NULL));
    assert_true(strstr(k.diag.messages.at[0].text, "beyond its bound") != NULL);
    arena_free(&k.arena);
}

static void inputs_that_shapes_depend_on(void **state)
{
    (void)state;
    Kit k;
    open_kit(&k);
    Value dims[] = {value_int(6)}, two = value_int(2);
    GraphValue *x = graph_input(k.g, "x", DT_F32, 1, dims);
    GraphValue *other = graph_input(k.g, "other", DT_I64, 1, &two);
    GraphValue *shape = graph_input(k.g, "shape", DT_I64, 1, &two), *sum, *y;
    GraphValue *both[] = {other, shape};
    node(&k, "Add", 2, both, 1, &sum);
    GraphValue *in[] = {x, sum};
    node(&k, "Reshape", 2, in, 1, &y);
    graph_output(k.g, y);
    assert_null(specialise(&k, NULL));
    assert_false(k.wanted[0]);
    assert_true(k.wanted[1]);
    assert_true(k.wanted[2]);

    diag_clear(&k.diag);
    const int64_t ones[] = {1, 1}, rest[] = {2, 1};
    const void *data[] = {NULL, ones, rest};
    Graph *to = specialise(&k, data);
    assert_non_null(to);
    assert_int_equal(to->outputs.at[0]->rank, 2);
    assert_int_equal(to->outputs.at[0]->dims[0].u.i, 3);
    arena_free(&k.arena);
}

static void the_declaration_with_the_outputs(void **state)
{
    (void)state;
    Kit k;
    open_kit(&k);
    Value dims[] = {value_int(2), value_int(3)};
    GraphValue *x = graph_input(k.g, "x", DT_F32, 2, dims);
    GraphValue *g = graph_input(k.g, "g", DT_F32, 1, dims + 1), *in[] = {x, g}, *out[3];
    node(&k, "LayerNormalization", 2, in, 3, out);
    for (int i = 0; i < 3; i++) graph_output(k.g, out[i]);
    Graph *to = specialise(&k, NULL);
    assert_non_null(to);
    assert_int_equal(to->outputs.at[1]->dims[0].u.i, 2);
    assert_int_equal(to->outputs.at[2]->dims[1].u.i, 1);
    arena_free(&k.arena);
}

static void the_type_of_a_number(void **state)
{
    (void)state;
    static const DType types[] = {DT_I32, DT_I64, DT_F32, DT_F64};
    for (size_t i = 0; i < COUNT(types); i++) {
        Kit k;
        open_kit(&k);
        double data[3];
        GraphValue *in[3], *y;
        for (int j = 0; j < 3; j++) {
            dtype_store_f64(types[i], &data[j], j == 0 ? 10 : j == 1 ? 4 : -2);
            in[j] = graph_constant(k.g, "number", types[i], 0, NULL, &data[j]);
        }
        node(&k, "Range", 3, in, 1, &y);
        graph_output(k.g, y);
        Graph *to = specialise(&k, NULL);
        assert_non_null(to);
        const GraphValue *out = to->outputs.at[0];
        assert_int_equal(out->type, types[i]);
        assert_int_equal(out->dims[0].u.i, 3);
        double last = dtype_load_f64(types[i], (const char *)out->data + 2 * dtype_size(types[i]));
        assert_true(last == 6);
        arena_free(&k.arena);
    }
}

// A conditional whose condition is an input and whose branches give `yes` and `no`.
static void conditional(Kit *k, GraphValue *yes, GraphValue *no)
{
    GraphValue *in[] = {graph_input(k->g, "c", DT_BOOL, 0, NULL), yes, no}, *out;
    node(k, "If", 3, in, 1, &out)->is_if = true;
    graph_output(k->g, out);
}

static void branches_are_selected_or_taken(void **state)
{
    (void)state;
    static const float low[] = {1, 2}, high[] = {3, 4, 5};
    const int64_t two = 2, three = 3;
    const bool yes = true;
    const void *known[] = {&yes};
    for (int same = 0; same < 2; same++) {
        Kit k;
        open_kit(&k);
        GraphValue *a = graph_constant(k.g, "a", DT_F32, 1, &two, low);
        GraphValue *b = graph_constant(k.g, "b", DT_F32, 1, same ? &two : &three, high);
        conditional(&k, a, b);
        Graph *to = specialise(&k, NULL);
        assert_int_equal(to != NULL, same);
        if (same) assert_string_equal(to->nodes.at[0]->op->decl->u.sym, "where");
        else assert_true(k.wanted[0]);
        diag_clear(&k.diag);
        to = specialise(&k, known);
        assert_non_null(to);
        assert_ptr_equal(to->outputs.at[0]->data, low);
        arena_free(&k.arena);
    }
}

// Loop(trips, cond, v): v = v + i; also stacks v. Its condition is the body's input again.
static GraphNode *counting_loop(Kit *k, GraphValue *trips, GraphValue **out)
{
    GraphBody *body = NEW(&k->arena, GraphBody);
    GraphNodes outer = k->g->nodes;
    k->g->nodes = (GraphNodes){0};
    GraphValue *in[3];
    for (int i = 0; i < 3; i++) {
        in[i] = graph_value(k->g, "inner", DT_NONE, -1, NULL);
        VEC_PUSH(&k->arena, &body->inputs, in[i]);
    }
    GraphValue *terms[] = {in[2], in[0]}, *sum;
    node(k, "Add", 2, terms, 1, &sum);
    GraphValue *results[] = {in[1], sum, sum};
    for (int i = 0; i < 3; i++) VEC_PUSH(&k->arena, &body->outputs, results[i]);
    body->nodes = k->g->nodes;
    k->g->nodes = outer;
    GraphValue *args[] = {trips, NULL, number(k, DT_I64, 100)};
    GraphNode *n = node(k, "Loop", 3, args, 2, out);
    n->control = CONTROL_LOOP;
    n->body = body;
    return n;
}

static void loops_are_unrolled(void **state)
{
    (void)state;
    Kit k;
    open_kit(&k);
    GraphValue *out[2];
    counting_loop(&k, number(&k, DT_I64, 4), out);
    graph_output(k.g, out[0]);
    graph_output(k.g, out[1]);
    Graph *to = specialise(&k, NULL);
    assert_non_null(to);
    assert_int_equal(*(const int64_t *)to->outputs.at[0]->data, 106);
    const int64_t want[] = {100, 101, 103, 106};
    assert_int_equal(to->outputs.at[1]->dims[0].u.i, 4);
    assert_memory_equal(to->outputs.at[1]->data, want, sizeof want);
    arena_free(&k.arena);
}

static void a_loop_of_unknown_length_is_an_error(void **state)
{
    (void)state;
    Kit k;
    open_kit(&k);
    GraphValue *out[2];
    counting_loop(&k, graph_input(k.g, "trips", DT_I64, 0, NULL), out);
    graph_output(k.g, out[0]);
    assert_null(specialise(&k, NULL));
    assert_true(k.wanted[0]);
    const int64_t none = 0;
    const void *data[] = {&none};
    diag_clear(&k.diag);
    Graph *to = specialise(&k, data);
    assert_null(to); // the stack of no iterations has no type
    arena_free(&k.arena);
}

static void a_loop_that_never_ends_is_an_error(void **state)
{
    (void)state;
    Kit k;
    open_kit(&k);
    GraphValue *out[2];
    counting_loop(&k, number(&k, DT_I64, INT64_MAX), out);
    graph_output(k.g, out[0]);
    assert_null(specialise(&k, NULL));
    assert_true(strstr(k.diag.messages.at[0].text, "too many iterations") != NULL);
    arena_free(&k.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(extents_that_a_run_decides),
        cmocka_unit_test(extents_beyond_their_bound),
        cmocka_unit_test(inputs_that_shapes_depend_on),
        cmocka_unit_test(the_declaration_with_the_outputs),
        cmocka_unit_test(the_type_of_a_number),
        cmocka_unit_test(branches_are_selected_or_taken),
        cmocka_unit_test(loops_are_unrolled),
        cmocka_unit_test(a_loop_of_unknown_length_is_an_error),
        cmocka_unit_test(a_loop_that_never_ends_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
