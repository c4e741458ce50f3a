// SPDX-License-Identifier: Apache-2.0
// Hand-made ONNX models, mostly hostile: each gives its exact message or its exact values. (That
// the reader is right on real models is test_onnx_protobuf's matter; test_onnx_tensor has the
// tensors.)
#include "frontends/onnx_model.h"

#include "onnx_bytes.h"

#include <stdlib.h>

static void expect_bytes_error(const void *data, size_t size, const char *want)
{
    OnnxModel *m;
    const char *error = onnx_model_parse(&arena, "m.onnx", data, size, &m);
    assert_non_null(error);
    assert_null(m);
    assert_string_equal(error, want);
}

static void expect_model_error(const Bytes *b, const char *want)
{
    expect_bytes_error(b->buf.text, b->buf.size, want);
}

// ---- the cursor ----

static void varints_have_64_bits(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
        uint64_t value;
        const char *error;
    } rows[] = {
        {"\x00", 1, 0, NULL},
        {"\x7f", 1, 127, NULL},
        {"\xac\x02", 2, 300, NULL},
        {"\x80\x00", 2, 0, NULL}, // longer than needed is legal
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10, UINT64_MAX, NULL},
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10, 0, "number wider than 64 bits in"},
        {"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 11, 0, "number wider than 64 bits in"},
        {"\x80", 1, 0, "truncated"},
        {"", 0, 0, "truncated"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Wire w = wire_of((const uint8_t *)rows[i].bytes, rows[i].size);
        uint64_t v = 0;
        const char *error = wire_varint(&w, &v);
        assert_int_equal(!error, !rows[i].error);
        if (error) assert_string_equal(error, rows[i].error);
        else assert_true(v == rows[i].value && wire_at_end(&w));
    }
}

static void bytes_are_swapped_item_by_item(void **state)
{
    (void)state;
    char text[] = "abcdefgh";
    bytes_swap(text, 2, 4);
    assert_string_equal(text, "badcfehg");
    bytes_swap(text, 4, 2);
    assert_string_equal(text, "cdabghef");
    bytes_swap(text, 8, 1);
    assert_string_equal(text, "fehgbadc");
    assert_int_equal(wire_little_endian((const uint8_t *)"\x01\x02\x03", 3), 0x030201);
}

// ---- models ----

static void broken_wire_names_place_and_field(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
        const char *error;
    } rows[] = {
        {"", 0, "m.onnx: the file is empty"},
        {"\x08", 1, "m.onnx: byte 0: truncated ModelProto.ir_version"},
        {"\x08\x80", 2, "m.onnx: byte 0: truncated ModelProto.ir_version"},
        {"\x08\x07\x3a\x05\x0a", 5, "m.onnx: byte 2: truncated ModelProto.graph"},
        {"\x3a\x04\x0a\x02\x0a\x05", 6, "m.onnx: byte 4: truncated NodeProto.input"},
        {"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11,
         "m.onnx: byte 0: truncated ModelProto.graph"},
        {"\x08\x07", 2, "m.onnx: no ModelProto.graph: not an ONNX model"},
        {"\x0d\x01\x02\x03\x04", 5, "m.onnx: byte 0: wrong wire type for ModelProto.ir_version"},
        {"\x38\x01", 2, "m.onnx: byte 0: wrong wire type for ModelProto.graph"},
        {"\x0b", 1, "m.onnx: byte 0: unsupported protobuf group in ModelProto.ir_version"},
        {"\x0c", 1, "m.onnx: byte 0: unsupported protobuf group in ModelProto.ir_version"},
        {"\xa6\x06", 2, "m.onnx: byte 0: unknown wire type in ModelProto field 100"},
        {"\xa7\x06", 2, "m.onnx: byte 0: unknown wire type in ModelProto field 100"},
        {"\xa5\x06\x01", 3, "m.onnx: byte 0: truncated ModelProto field 100"},
        {"\xa1\x06\x01", 3, "m.onnx: byte 0: truncated ModelProto field 100"},
        {"\x00\x00", 2, "m.onnx: byte 0: invalid field number in ModelProto"},
        {"\xff\xff\xff\xff\xff\x01", 6, "m.onnx: byte 0: invalid field number in ModelProto"},
        {"\x80", 1, "m.onnx: byte 0: truncated ModelProto"},
        {"\x3a\x00\x3a\x00", 4, "m.onnx: byte 2: second ModelProto.graph"},
        {"\x3a\x05\x12\x03g\0h", 7, "m.onnx: byte 2: zero byte in a name (name)"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        expect_bytes_error(rows[i].bytes, rows[i].size, rows[i].error);
}

static void every_truncation_of_a_model_is_an_error_or_a_model(void **state)
{
    (void)state;
    FileMap map;
    const char *error = file_map(&arena, "examples/models/mnist_8/model.onnx", &map);
    if (error) fail_msg("%s", error);
    int nerror = 0;
    for (size_t size = 0; size < map.size; size += 1 + size / 64) {
        ArenaMark mark = arena_mark(&arena);
        uint8_t *exact = malloc(size + 1); // so that a sanitizer sees the end
        memcpy(exact, map.data, size);
        OnnxModel *m;
        error = onnx_model_parse(&arena, "m.onnx", exact, size, &m);
        assert_int_equal(error == NULL, m != NULL);
        nerror += error != NULL;
        free(exact);
        arena_reset(&arena, mark);
    }
    assert_true(nerror > 100);
    file_unmap(&map);
}

static void unknown_fields_are_passed_over_and_the_last_scalar_wins(void **state)
{
    (void)state;
    Bytes node = bytes(), graph = bytes(), opset = bytes(), b = bytes();
    put_text(&node, ONNX_Node_op_type, "Relu");
    put_text(&node, ONNX_Node_op_type, "Gelu");
    put_text(&node, 6, "documentation");
    put_text(&node, ONNX_Node_input, "x");
    put_text(&node, ONNX_Node_input, "");
    put_message(&graph, ONNX_Graph_node, &node);
    put_int(&b, ONNX_Model_ir_version, 3);
    put_int(&b, ONNX_Model_ir_version, 8);
    put_fixed(&b, 1000, 1, 4);
    put_fixed(&b, 1001, 1, 8);
    put_int(&b, 31, 1);
    put_message(&b, ONNX_Model_graph, &graph);
    put_int(&opset, ONNX_OpsetId_version, 13);
    put_message(&b, ONNX_Model_opset_import, &opset);
    put_text(&opset, ONNX_OpsetId_domain, "com.example");
    put_int(&opset, ONNX_OpsetId_version, 2);
    put_message(&b, ONNX_Model_opset_import, &opset);
    OnnxModel *m = model_of(&b);
    assert_int_equal(m->ir_version, 8);
    assert_int_equal(m->graph->node.n, 1);
    const OnnxNode *n = &m->graph->node.at[0];
    assert_string_equal(n->op_type, "Gelu");
    assert_int_equal(n->input.n, 2);
    assert_string_equal(n->input.at[0], "x");
    assert_string_equal(n->input.at[1], "");
    assert_string_equal(n->name, "");
    assert_false(ONNX_HAS(n, Node, name));
    assert_int_equal(onnx_opset(&m->opset_import, "ai.onnx"), 13);
    assert_int_equal(onnx_opset(&m->opset_import, "com.example"), 2);
    assert_int_equal(onnx_opset(&m->opset_import, "com.other"), 0);
}

static Bytes model_with_attrs(const Bytes *attrs, int n)
{
    Bytes node = bytes(), graph = bytes(), b = bytes();
    for (int i = 0; i < n; i++) put_message(&node, ONNX_Node_attribute, &attrs[i]);
    put_message(&graph, ONNX_Graph_node, &node);
    put_message(&b, ONNX_Model_graph, &graph);
    return b;
}

static void attributes_by_name_and_type(void **state)
{
    (void)state;
    Bytes attr[5];
    static const char *const names[] = {"axis", "alpha", "mode", "pads", "scales"};
    for (int i = 0; i < 5; i++) attr[i] = bytes(), put_text(&attr[i], ONNX_Attr_name, names[i]);
    put_int(&attr[0], ONNX_Attr_i, -1);
    put_int(&attr[0], ONNX_Attr_type, ONNX_ATTR_INT);
    put_fixed(&attr[1], ONNX_Attr_f, 0x3fc00000, 4); // 1.5, and no type: IR version 1
    put_text(&attr[2], ONNX_Attr_s, "same");
    put_int(&attr[2], ONNX_Attr_type, ONNX_ATTR_STRING);
    put_int(&attr[3], ONNX_Attr_ints, -2); // one by one, then packed
    put_data(&attr[3], ONNX_Attr_ints, "\x01\xac\x02", 3);
    put_data(&attr[3], ONNX_Attr_ints, "", 0);
    put_data(&attr[4], ONNX_Attr_floats, "\0\0\x80\x3f\0\0\0\x40", 8);
    put_fixed(&attr[4], ONNX_Attr_floats, 0xbf800000, 4);
    Bytes b = model_with_attrs(attr, 5);
    const OnnxNode *node = &model_of(&b)->graph->node.at[0];
    assert_int_equal(onnx_attr_int(node, "axis", 7), -1);
    assert_int_equal(onnx_attr_int(node, "alpha", 7), 7);
    assert_true(onnx_attr_float(node, "alpha", 0) == 1.5f);
    assert_int_equal(onnx_attr(node, "alpha")->type, ONNX_ATTR_FLOAT);
    assert_string_equal(onnx_attr_string(node, "mode", "x"), "same");
    assert_string_equal(onnx_attr_string(node, "none", "x"), "x");
    assert_null(onnx_attr(node, "none"));
    const int64_t *ints;
    const float *floats;
    int n;
    assert_true(onnx_attr_ints(node, "pads", &ints, &n));
    assert_int_equal(n, 3);
    assert_true(ints[0] == -2 && ints[1] == 1 && ints[2] == 300);
    assert_true(onnx_attr_floats(node, "scales", &floats, &n));
    assert_int_equal(n, 3);
    assert_true(floats[0] == 1 && floats[1] == 2 && floats[2] == -1);
    assert_false(onnx_attr_ints(node, "scales", &ints, &n));
}

static void broken_packed_lists_are_errors(void **state)
{
    (void)state;
    Bytes attr = bytes();
    put_data(&attr, ONNX_Attr_ints, "\x01\x80", 2);
    Bytes b = model_with_attrs(&attr, 1);
    expect_model_error(&b, "m.onnx: byte 6: truncated AttributeProto.ints");
    attr = bytes();
    put_data(&attr, ONNX_Attr_floats, "\0\0\0\0\0", 5);
    b = model_with_attrs(&attr, 1);
    expect_model_error(&b, "m.onnx: byte 6: truncated AttributeProto.floats");
    attr = bytes();
    put_data(&attr, ONNX_Attr_ints, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11);
    b = model_with_attrs(&attr, 1);
    expect_model_error(&b, "m.onnx: byte 6: number wider than 64 bits in the packed list ints");
}

static void one_kind_of_type_only(void **state)
{
    (void)state;
    Bytes empty = bytes(), type = bytes(), value = bytes(), graph = bytes(), b = bytes();
    put_message(&type, ONNX_Type_tensor_type, &empty);
    put_message(&type, ONNX_Type_sequence_type, &empty);
    put_message(&value, ONNX_ValueInfo_type, &type);
    put_message(&graph, ONNX_Graph_input, &value);
    put_message(&b, ONNX_Model_graph, &graph);
    expect_model_error(&b, "m.onnx: byte 8: conflicting TypeProto.sequence_type");
}

static Bytes nested_graphs(int depth)
{
    Bytes graph = bytes();
    for (int i = 0; i < depth; i++) {
        Bytes attr = bytes(), node = bytes(), outer = bytes();
        put_message(&attr, ONNX_Attr_g, &graph);
        put_message(&node, ONNX_Node_attribute, &attr);
        put_message(&outer, ONNX_Graph_node, &node);
        graph = outer;
    }
    Bytes b = bytes();
    put_message(&b, ONNX_Model_graph, &graph);
    return b;
}

static void nesting_is_bounded(void **state)
{
    (void)state;
    Bytes b = nested_graphs(32);
    const OnnxGraph *g = model_of(&b)->graph;
    int depth = 0;
    for (; g->node.n; g = g->node.at[0].attribute.at[0].g) depth++;
    assert_int_equal(depth, 32);
    b = nested_graphs(33);
    expect_model_error(
        &b, arena_printf(&arena, "m.onnx: byte %zu: too deeply nested GraphProto", b.buf.size - 2));
    b = nested_graphs(3000);
    OnnxModel *m;
    const char *error =
        onnx_model_parse(&arena, "m.onnx", (const uint8_t *)b.buf.text, b.buf.size, &m);
    assert_non_null(error);
    assert_non_null(strstr(error, ": too deeply nested "));
}

static void memory_is_proportional_to_the_file(void **state)
{
    (void)state;
    enum { N = 100000 };
    Bytes graph = bytes(), b = bytes(), empty = bytes();
    for (int i = 0; i < N; i++) put_message(&graph, ONNX_Graph_node, &empty);
    put_message(&b, ONNX_Model_graph, &graph);
    Arena own = {.limit_bytes = (size_t)N * 2 * sizeof(OnnxNode)};
    OnnxModel *m;
    const char *error =
        onnx_model_parse(&own, "m.onnx", (const uint8_t *)b.buf.text, b.buf.size, &m);
    assert_null(error);
    assert_int_equal(m->graph->node.n, N);
    arena_free(&own);
}

static void out_of_memory_goes_to_the_caller(void **state)
{
    (void)state;
    Bytes b = nested_graphs(20);
    jmp_buf nomem;
    Arena own = {.limit_bytes = 1024, .nomem = &nomem};
    volatile bool caught = true;
    if (!setjmp(nomem)) {
        OnnxModel *m;
        onnx_model_parse(&own, "m.onnx", (const uint8_t *)b.buf.text, b.buf.size, &m);
        caught = false;
    }
    assert_true(caught);
    arena_free(&own);
}

static void functions_are_found_by_domain_and_name(void **state)
{
    (void)state;
    Bytes f = bytes(), graph = bytes(), node = bytes(), b = bytes();
    put_text(&f, ONNX_Function_domain, "local");
    put_text(&f, ONNX_Function_name, "F");
    put_text(&f, ONNX_Function_attribute, "alpha");
    put_text(&node, ONNX_Node_op_type, "F");
    put_message(&graph, ONNX_Graph_node, &node);
    put_text(&node, ONNX_Node_domain, "local");
    put_message(&graph, ONNX_Graph_node, &node);
    put_message(&b, ONNX_Model_graph, &graph);
    put_message(&b, ONNX_Model_functions, &f);
    OnnxModel *m = model_of(&b);
    assert_null(onnx_function(m, &m->graph->node.at[0]));
    assert_ptr_equal(onnx_function(m, &m->graph->node.at[1]), &m->functions.at[0]);
    assert_string_equal(m->functions.at[0].attribute.at[0], "alpha");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(varints_have_64_bits),
        TEST(bytes_are_swapped_item_by_item),
        TEST(broken_wire_names_place_and_field),
        TEST(every_truncation_of_a_model_is_an_error_or_a_model),
        TEST(unknown_fields_are_passed_over_and_the_last_scalar_wins),
        TEST(attributes_by_name_and_type),
        TEST(broken_packed_lists_are_errors),
        TEST(one_kind_of_type_only),
        TEST(nesting_is_bounded),
        TEST(memory_is_proportional_to_the_file),
        TEST(out_of_memory_goes_to_the_caller),
        TEST(functions_are_found_by_domain_and_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
