// SPDX-License-Identifier: Apache-2.0
// The ONNX reader against protobuf-c: every field of every model and tensor file, walked side by
// side through the reader's own table and protobuf-c's descriptors. Files: examples/models and,
// where set, $HEALD_MODELS.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "frontends/onnx_model.h"

#include "onnx_subset.pb-c.h"

#include <stdlib.h>
#include <string.h>

enum {
#define MESSAGE(M, NAME) M_##M,
#include "frontends/onnx_fields.def"
#undef MESSAGE
    M_COUNT,
    M_None
};

typedef enum How { HOW_ONE, HOW_CHOICE, HOW_LIST, HOW_ELEMS } How;
typedef enum Kind {
    K_INT32,
    K_INT64,
    K_FLOAT,
    K_DOUBLE,
    K_STRING,
    K_BYTES,
    K_SPAN,
    K_MESSAGE
} Kind;

typedef struct Row {
    int message;
    unsigned number;
    const char *name;
    How how;
    Kind kind;
    int sub;
    size_t offset;
} Row;

static const Row rows[] = {
#define FIELD(M, NUMBER, NAME, HOW, TYPE, SUB) \
    {M_##M, NUMBER, #NAME, HOW_##HOW, K_##TYPE, M_##SUB, offsetof(Onnx##M, NAME)},
#include "frontends/onnx_fields.def"
#undef FIELD
};

static const struct {
    const char *name;
    size_t size;
} messages[] = {
#define MESSAGE(M, NAME) {"subset." NAME, sizeof(Onnx##M)},
#include "frontends/onnx_fields.def"
#undef MESSAGE
};

typedef ONNX_LIST(char) AnyList;

static int64_t nfield; // compared in all

static void compare_message(Arena *a, int message, const void *ours,
                            const ProtobufCMessage *theirs);

static void compare_value(Arena *a, const Row *row, const void *ours, const char *theirs)
{
    switch (row->kind) {
    case K_INT32:
    case K_FLOAT: assert_memory_equal(ours, theirs, 4); break;
    case K_INT64:
    case K_DOUBLE: assert_memory_equal(ours, theirs, 8); break;
    case K_STRING: assert_string_equal(*(const char *const *)ours, *(char *const *)theirs); break;
    case K_BYTES:
    case K_SPAN: {
        const OnnxBytes *b = ours; // a span has the same layout
        const ProtobufCBinaryData *want = (const void *)theirs;
        assert_int_equal(b->size, want->len);
        if (want->len) assert_memory_equal(b->text, want->data, want->len);
        break;
    }
    case K_MESSAGE: compare_message(a, row->sub, ours, *(ProtobufCMessage *const *)theirs);
    }
}

static size_t item_size(const Row *row, bool ours)
{
    static const size_t size[] = {4, 8, 4, 8, sizeof(char *), sizeof(OnnxBytes), sizeof(OnnxSpan)};
    if (row->kind == K_MESSAGE) return ours ? messages[row->sub].size : sizeof(void *);
    return size[row->kind];
}

static void compare_field(Arena *a, const Row *row, const ProtobufCFieldDescriptor *field,
                          const OnnxHead *head, const ProtobufCMessage *theirs)
{
    const char *ours = (const char *)head + row->offset,
               *want = (const char *)theirs + field->offset;
    const void *quantifier = (const char *)theirs + field->quantifier_offset;
    bool has = head->has >> row->number & 1;
    nfield++;
    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        size_t n;
        memcpy(&n, quantifier, sizeof n);
        if (row->how == HOW_ELEMS) {
            assert_int_equal(*(const int64_t *)(const void *)ours, n);
            return;
        }
        AnyList list;
        memcpy(&list, ours, sizeof list);
        assert_int_equal(list.n, n);
        const char *items = *(const char *const *)(const void *)want;
        for (size_t i = 0; i < n; i++)
            compare_value(a, row, list.at + i * item_size(row, true),
                          items + i * item_size(row, false));
        return;
    }
    bool present;
    if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
        present = *(const uint32_t *)quantifier == field->id;
    } else if (row->kind == K_STRING || row->kind == K_MESSAGE) {
        present = *(void *const *)(const void *)want &&
                  *(void *const *)(const void *)want != field->default_value;
    } else {
        present = *(const protobuf_c_boolean *)quantifier;
    }
    assert_int_equal(has, present);
    if (!present) return;
    compare_value(a, row, row->kind == K_MESSAGE ? *(void *const *)(const void *)ours : ours, want);
}

static void compare_elements(Arena *a, const OnnxTensor *t, const Subset__TensorProto *want)
{
    DType dtype;
    int64_t dims[ONNX_MAX_RANK];
    int rank;
    const void *data;
    if (dtype_from_onnx(t->data_type) == DT_NONE) return; // strings
    const char *error = onnx_tensor_decode(a, t, NULL, &dtype, dims, &rank, &data);
    if (error) fail_msg("%s", error);
    assert_int_equal(rank, want->n_dims);
    if (rank) assert_memory_equal(dims, want->dims, sizeof(int64_t) * want->n_dims);
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= dims[i];
    size_t size = (size_t)dtype_bytes(dtype, n);
    assert_int_equal((uintptr_t)data % dtype_size(dtype), 0);
    if (want->has_raw_data && want->raw_data.len)
        assert_memory_equal(data, want->raw_data.data, size);
    if (want->n_float_data) assert_memory_equal(data, want->float_data, size);
    if (want->n_double_data) assert_memory_equal(data, want->double_data, size);
    if (want->n_int64_data) assert_memory_equal(data, want->int64_data, size);
    for (size_t i = 0; i < want->n_int32_data; i++)
        assert_int_equal(dtype_load_i64(dtype, (const char *)data + i * dtype_size(dtype)),
                         want->int32_data[i]);
}

static void compare_message(Arena *a, int message, const void *ours, const ProtobufCMessage *theirs)
{
    assert_string_equal(theirs->descriptor->name, messages[message].name);
    unsigned n = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].message != message) continue;
        const ProtobufCFieldDescriptor *field =
            protobuf_c_message_descriptor_get_field(theirs->descriptor, rows[i].number);
        assert_non_null(field);
        assert_string_equal(field->name, rows[i].name);
        compare_field(a, &rows[i], field, ours, theirs);
        n++;
    }
    assert_int_equal(n, theirs->descriptor->n_fields);
    if (message == M_Tensor) compare_elements(a, ours, (const Subset__TensorProto *)theirs);
}

static int nmodel, ntensor;
static bool
    only_tensors; // the model seen last has no sequence or optional among inputs and outputs

static bool all_tensors(const OnnxValueInfo *value, int n)
{
    for (int i = 0; i < n; i++) {
        if (value[i].type && !value[i].type->tensor_type) return false;
    }
    return true;
}

static void compare_file(const char *path, bool model)
{
    Arena arena = {0};
    FileMap map;
    const char *error = file_map(&arena, path, &map);
    if (error) fail_msg("%s", error);
    OnnxModel *m = NULL;
    OnnxTensor *t = NULL;
    error = model ? onnx_model_parse(&arena, path, map.data, map.size, &m)
                  : onnx_tensor_parse(&arena, path, map.data, map.size, &t);
    if (error) fail_msg("%s", error);
    const ProtobufCMessageDescriptor *descriptor =
        model ? &subset__model_proto__descriptor : &subset__tensor_proto__descriptor;
    ProtobufCMessage *want = protobuf_c_message_unpack(descriptor, NULL, map.size, map.data);
    assert_non_null(want);
    if (model) {
        compare_message(&arena, M_Model, m, want), nmodel++;
        only_tensors = all_tensors(m->graph->input.at, m->graph->input.n) &&
                       all_tensors(m->graph->output.at, m->graph->output.n);
    } else compare_message(&arena, M_Tensor, t, want), ntensor++;
    protobuf_c_message_free_unpacked(want, NULL);
    onnx_model_close(m);
    file_unmap(&map);
    arena_free(&arena);
}

static bool ends_with(const char *s, const char *suffix)
{
    size_t n = strlen(s), k = strlen(suffix);
    return n >= k && !strcmp(s + n - k, suffix);
}

static void compare_tree(Arena *a, const char *dir)
{
    char **names;
    int n;
    const char *error = dir_list(a, dir, &names, &n);
    if (error) fail_msg("%s", error);
    for (int i = 0; i < n; i++) {
        const char *path = path_join(a, dir, names[i]);
        if (path_is_dir(path)) compare_tree(a, path);
        else if (ends_with(path, ".onnx")) compare_file(path, true);
        else if (only_tensors && ends_with(path, ".pb")) compare_file(path, false);
    }
}

static void models_read_as_protobuf_c_reads_them(void **state)
{
    (void)state;
    Arena arena = {0};
    compare_tree(&arena, "examples/models");
    const char *models = getenv("HEALD_MODELS");
    if (models && *models) compare_tree(&arena, models);
    arena_free(&arena);
    print_message("# %d models, %d tensor files, %lld fields\n", nmodel, ntensor,
                  (long long)nfield);
    assert_true(nmodel > 0 && ntensor > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(models_read_as_protobuf_c_reads_them)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
