// SPDX-License-Identifier: Apache-2.0
// Hand-made TensorProtos: every way of storing elements, every way of getting it wrong, and
// external data that tries to leave the model's folder.
#include "frontends/onnx_model.h"

#include "base/util.h"
#include "onnx_bytes.h"

#include <math.h>

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct Decoded {
    DType dtype;
    int64_t dims[ONNX_MAX_RANK];
    int rank;
    const void *data;
    const char *error;
} Decoded;

static Decoded decode_in(const Bytes *b, const char *dir)
{
    OnnxTensor *t;
    Decoded d = {0};
    d.error = onnx_tensor_parse(&arena, "t.pb", (const uint8_t *)b->buf.text, b->buf.size, &t);
    if (!d.error) {
        d.error = onnx_tensor_decode(&arena, t, dir, &d.dtype, d.dims, &d.rank, &d.data);
        assert_int_equal(d.error == NULL, d.data != NULL);
    }
    return d;
}

static Decoded decode(const Bytes *b)
{
    return decode_in(b, NULL);
}

static void expect_tensor_error(const Bytes *b, const char *dir, const char *want)
{
    Decoded d = decode_in(b, dir);
    assert_non_null(d.error);
    assert_string_equal(d.error, want);
}

static Bytes tensor(int type, int rank, const int64_t *dims)
{
    Bytes b = bytes();
    for (int i = 0; i < rank; i++) put_int(&b, ONNX_Tensor_dims, dims[i]);
    put_int(&b, ONNX_Tensor_data_type, type);
    put_text(&b, ONNX_Tensor_name, "w");
    return b;
}

static Bytes vector(int type, int64_t n)
{
    return tensor(type, 1, &n);
}

static void typed_fields_hold_narrow_types(void **state)
{
    (void)state;
    static const struct {
        int type;
        DType dtype;
        int field;
        int64_t values[3];
        int64_t bits[3]; // as stored
    } rows[] = {
        {9, DT_BOOL, ONNX_Tensor_int32_data, {0, 1, 5}, {0, 1, 1}},
        {3, DT_I8, ONNX_Tensor_int32_data, {-128, 127, -1}, {0x80, 0x7f, 0xff}},
        {2, DT_U8, ONNX_Tensor_int32_data, {0, 255, 1}, {0, 255, 1}},
        {5, DT_I16, ONNX_Tensor_int32_data, {-32768, 7, 0}, {0x8000, 7, 0}},
        {4, DT_U16, ONNX_Tensor_int32_data, {65535, 7, 0}, {65535, 7, 0}},
        {10, DT_F16, ONNX_Tensor_int32_data, {0x3c00, 0xbc00, 0}, {0x3c00, 0xbc00, 0}},
        {16, DT_BF16, ONNX_Tensor_int32_data, {0x3f80, 0xbf80, 0}, {0x3f80, 0xbf80, 0}},
        {6, DT_I32, ONNX_Tensor_int32_data, {-1, INT32_MAX, 0}, {UINT32_MAX, INT32_MAX, 0}},
        {12, DT_U32, ONNX_Tensor_uint64_data, {UINT32_MAX, 1, 0}, {UINT32_MAX, 1, 0}},
        {7, DT_I64, ONNX_Tensor_int64_data, {INT64_MIN, -1, 5}, {INT64_MIN, -1, 5}},
        {13, DT_U64, ONNX_Tensor_uint64_data, {-1, 0, 5}, {-1, 0, 5}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Bytes one_by_one = vector(rows[i].type, 3), packed = one_by_one, list = bytes();
        for (int k = 0; k < 3; k++) put_int(&one_by_one, rows[i].field, rows[i].values[k]);
        for (int k = 0; k < 3; k++) put_varint(&list, (uint64_t)rows[i].values[k]);
        packed = vector(rows[i].type, 3);
        put_message(&packed, rows[i].field, &list);
        for (int form = 0; form < 2; form++) {
            Decoded d = decode(form ? &packed : &one_by_one);
            if (d.error) fail_msg("%s", d.error);
            assert_int_equal(d.dtype, rows[i].dtype);
            assert_int_equal(d.rank, 1);
            assert_int_equal(d.dims[0], 3);
            size_t width = dtype_size(d.dtype);
            for (int k = 0; k < 3; k++) {
                uint64_t got =
                    wire_little_endian((const uint8_t *)d.data + (size_t)k * width, (int)width);
                assert_int_equal(got, (uint64_t)rows[i].bits[k]);
            }
        }
    }
}

static void floats_come_raw_packed_and_one_by_one(void **state)
{
    (void)state;
    static const uint8_t raw[] = {0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0}; // 1, -2
    Bytes b[4];
    for (int i = 0; i < 4; i++) b[i] = vector(1, 2);
    put_data(&b[0], ONNX_Tensor_raw_data, raw, 8);
    put_data(&b[1], ONNX_Tensor_float_data, raw, 8);
    put_data(&b[2], ONNX_Tensor_float_data, raw, 4); // a packed list in two pieces
    put_data(&b[2], ONNX_Tensor_float_data, raw + 4, 4);
    put_fixed(&b[3], ONNX_Tensor_float_data, 0x3f800000, 4);
    put_fixed(&b[3], ONNX_Tensor_float_data, 0xc0000000, 4);
    for (int i = 0; i < 4; i++) {
        Decoded d = decode(&b[i]);
        if (d.error) fail_msg("%s", d.error);
        const float *f = d.data;
        assert_int_equal((uintptr_t)f % sizeof *f, 0);
        assert_true(f[0] == 1 && f[1] == -2);
    }
    Bytes wide = vector(11, 1);
    put_fixed(&wide, ONNX_Tensor_double_data, 0x3ff8000000000000, 8);
    Decoded d = decode(&wide);
    if (d.error) fail_msg("%s", d.error);
    assert_true(*(const double *)d.data == 1.5);
}

static void small_types_have_bytes_of_their_own(void **state)
{
    (void)state;
    static const struct {
        int type;
        DType dtype;
        uint8_t raw[4];
        int nraw;
        double values[4]; // NAN: any
    } rows[] = {
        {17, DT_F8E4M3FN, {0x7e, 0x01, 0xb8, 0x7f}, 4, {448, 0x1p-9, -1, NAN}},
        {18, DT_F8E4M3FNUZ, {0x7f, 0x01, 0xc0, 0x80}, 4, {240, 0x1p-10, -1, NAN}},
        {19, DT_F8E5M2, {0x7b, 0x01, 0xfc, 0x7f}, 4, {57344, 0x1p-16, -INFINITY, NAN}},
        {20, DT_F8E5M2FNUZ, {0x7f, 0x01, 0xc0, 0x80}, 4, {57344, 0x1p-17, -1, NAN}},
        {21, DT_U4, {0x1f, 0x08, 0, 0}, 2, {15, 1, 8, 0}},
        {22, DT_I4, {0xf7, 0x08}, 2, {7, -1, -8, 0}},
        {23, DT_F4E2M1, {0x17, 0xf2}, 2, {6, 0.5, 1, -6}},
        {25, DT_U2, {0xe4}, 1, {0, 1, 2, 3}},
        {26, DT_I2, {0xe4}, 1, {0, 1, -2, -1}},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        for (int typed = 0; typed < 2; typed++) {
            Bytes b = vector(rows[i].type, 4);
            for (int k = 0; k < rows[i].nraw && typed; k++)
                put_int(&b, ONNX_Tensor_int32_data, rows[i].raw[k]);
            if (!typed) put_data(&b, ONNX_Tensor_raw_data, rows[i].raw, (size_t)rows[i].nraw);
            Decoded d = decode(&b);
            if (d.error) fail_msg("%s", d.error);
            assert_int_equal(d.dtype, rows[i].dtype);
            assert_int_equal(dtype_size(d.dtype), 1);
            for (int k = 0; k < 4; k++) {
                const char *at = (const char *)d.data + (size_t)k * dtype_size(d.dtype);
                double got = dtype_load_f64(d.dtype, at), want = rows[i].values[k];
                if (!(got == want || (isnan(got) && isnan(want))))
                    fail_msg("type %d: element %d is %g", rows[i].type, k, got);
            }
        }
    }
    Bytes odd = vector(22, 3), few = vector(22, 5);
    put_data(&odd, ONNX_Tensor_raw_data, "\x21\x03", 2);
    put_data(&few, ONNX_Tensor_raw_data, "\x21\x03", 2);
    assert_null(decode(&odd).error);
    assert_non_null(decode(&few).error);
}

static void aligned_raw_data_is_not_copied(void **state)
{
    (void)state;
    for (size_t pad = 0; pad < 4; pad++) {
        Bytes b = vector(1, 2);
        put_text(&b, 12, &"doc"[pad]);
        put_data(&b, ONNX_Tensor_raw_data, "\0\0\x80\x3f\0\0\0\x40", 8);
        const char *raw = b.buf.text + b.buf.size - 8;
        Decoded d = decode(&b);
        if (d.error) fail_msg("%s", d.error);
        assert_int_equal(d.data == (const void *)raw, (uintptr_t)raw % 4 == 0);
        assert_int_equal((uintptr_t)d.data % 4, 0);
        assert_true(((const float *)d.data)[1] == 2);
    }
}

static void bools_become_zero_and_one(void **state)
{
    (void)state;
    Bytes b = vector(9, 4);
    put_data(&b, ONNX_Tensor_raw_data, "\0\1\2\xff", 4);
    Decoded d = decode(&b);
    if (d.error) fail_msg("%s", d.error);
    assert_memory_equal(d.data, "\0\1\1\1", 4);
}

static void empty_and_scalar_tensors(void **state)
{
    (void)state;
    const int64_t dims[] = {3, 0, INT64_C(1) << 40};
    Bytes b = tensor(1, 3, dims);
    Decoded d = decode(&b);
    assert_null(d.error);
    assert_int_equal(d.rank, 3);
    assert_int_equal(d.dims[2], INT64_C(1) << 40);
    put_data(&b, ONNX_Tensor_raw_data, "", 0);
    assert_null(decode(&b).error);
    b = tensor(7, 0, NULL);
    put_int(&b, ONNX_Tensor_int64_data, 42);
    d = decode(&b);
    assert_null(d.error);
    assert_int_equal(d.rank, 0);
    assert_int_equal(*(const int64_t *)d.data, 42);
}

static void wrong_tensors_are_refused(void **state)
{
    (void)state;
    const int64_t big = INT64_C(1) << 32, huge[] = {big, big, big}, negative = -1;
    const int64_t hidden[] = {big, 0, big, big}, ones[17] = {1};
    Bytes b = tensor(1, 3, huge);
    expect_tensor_error(&b, NULL, "t.pb: byte 0: tensor 'w': too many elements");
    b = tensor(1, 4, hidden);
    expect_tensor_error(&b, NULL, "t.pb: byte 0: tensor 'w': too many elements");
    b = vector(1, INT64_C(1) << 62);
    expect_tensor_error(&b, NULL, "t.pb: byte 0: tensor 'w': too many elements");
    b = tensor(1, 1, &negative);
    expect_tensor_error(&b, NULL, "t.pb: byte 0: tensor 'w': negative dimension -1");
    b = tensor(1, 17, ones);
    expect_tensor_error(&b, NULL, "t.pb: byte 0: tensor 'w': rank 17, more than 16");
    b = vector(8, 1);
    expect_tensor_error(&b, NULL,
                        "t.pb: byte 0: tensor 'w': element type 8 (STRING) is not supported");
    b = vector(12345, 1);
    expect_tensor_error(&b, NULL,
                        "t.pb: byte 0: tensor 'w': element type 12345 (?) is not supported");
    b = vector(1, 3);
    put_data(&b, ONNX_Tensor_raw_data, "12345678", 8);
    expect_tensor_error(&b, NULL,
                        "t.pb: byte 0: tensor 'w': raw_data has 8 bytes, but the shape needs 12");
    b = vector(1, INT64_C(1) << 50);
    expect_tensor_error(&b, NULL,
                        "t.pb: byte 0: tensor 'w': 0 elements are given, but the shape needs "
                        "1125899906842624");
    b = vector(2, 1);
    put_int(&b, ONNX_Tensor_int32_data, 256);
    expect_tensor_error(&b, NULL, "t.pb: byte 0: tensor 'w': an element does not fit UINT8");
    b = vector(12, 1);
    put_int(&b, ONNX_Tensor_uint64_data, INT64_C(1) << 32);
    expect_tensor_error(&b, NULL, "t.pb: byte 0: tensor 'w': an element does not fit UINT32");
    b = vector(1, 1);
    put_data(&b, ONNX_Tensor_segment, "", 0);
    expect_tensor_error(&b, NULL, "t.pb: byte 0: tensor 'w': segments are not supported");
    b = vector(1, 1);
    put_int(&b, ONNX_Tensor_data_location, 2);
    expect_tensor_error(&b, NULL, "t.pb: byte 0: tensor 'w': unknown data_location 2");
}

// ---- external data ----

static char folder[] = "/tmp/heald-onnx-XXXXXX";

static void external(Bytes *b, const char *key, const char *value)
{
    Bytes entry = bytes();
    put_text(&entry, ONNX_Entry_key, key);
    put_text(&entry, ONNX_Entry_value, value);
    put_message(b, ONNX_Tensor_external_data, &entry);
}

static Bytes external_tensor(const char *location, const char *offset, const char *length)
{
    Bytes b = vector(1, 2);
    put_int(&b, ONNX_Tensor_data_location, 1);
    external(&b, "location", location);
    if (offset) external(&b, "offset", offset);
    if (length) external(&b, "length", length);
    external(&b, "checksum", "ignored");
    return b;
}

static int make_folder(void **state)
{
    setup(state);
    if (!mkdtemp(folder)) return -1;
    static const char weights[] = "\0\0\0\0\0\0\x80\x3f\0\0\0\x40";
    const char *inner = path_join(&arena, folder, "model");
    const char *sibling = path_join(&arena, folder, "model-2"); // the same name, and more
    const char *error = dir_make(&arena, inner);
    if (!error) error = dir_make(&arena, sibling);
    if (!error) error = file_write_atomic(&arena, path_join(&arena, sibling, "w.bin"), weights, 12);
    if (!error) error = file_write_atomic(&arena, path_join(&arena, inner, "w.bin"), weights, 12);
    if (!error) error = file_write_atomic(&arena, path_join(&arena, folder, "secret"), weights, 12);
    if (error || symlink("../secret", path_join(&arena, inner, "out")) ||
        symlink("../model-2", path_join(&arena, inner, "side")) ||
        symlink("w.bin", path_join(&arena, inner, "in")) ||
        mkfifo(path_join(&arena, inner, "fifo"), 0600))
        return -1;
    return 0;
}

static int remove_folder(void **state)
{
    const char *error = dir_remove(&arena, folder);
    teardown(state);
    return error != NULL;
}

static void external_data_is_read_from_the_folder(void **state)
{
    (void)state;
    const char *dir = path_join(&arena, folder, "model");
    static const char *const rows[][3] = {
        {"w.bin", "4", "8"}, {"w.bin", "4", NULL}, {"./w.bin", "4", "8"}, {"in", "4", "8"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Bytes b = external_tensor(rows[i][0], rows[i][1], rows[i][2]);
        Decoded d = decode_in(&b, dir);
        if (d.error) fail_msg("%s", d.error);
        const float *f = d.data;
        assert_true(f[0] == 1 && f[1] == 2);
    }
}

static void external_files_are_mapped_once_and_closed(void **state)
{
    (void)state;
    const char *dir = path_join(&arena, folder, "model");
    Bytes t = external_tensor("w.bin", "4", "8"), graph = bytes(), b = bytes();
    put_message(&graph, ONNX_Graph_initializer, &t);
    put_message(&graph, ONNX_Graph_initializer, &t);
    put_message(&b, ONNX_Model_graph, &graph);
    OnnxModel *m = model_of(&b);
    DType dtype;
    int64_t dims[ONNX_MAX_RANK];
    int rank;
    const void *data[2];
    for (int i = 0; i < 2; i++)
        assert_null(onnx_tensor_decode(&arena, &m->graph->initializer.at[i], dir, &dtype, dims,
                                       &rank, &data[i]));
    assert_ptr_equal(data[0], data[1]);
    onnx_model_close(m);
    assert_null(m->head.source->external);
    onnx_model_close(NULL);
}

static void external_data_stays_in_the_folder(void **state)
{
    (void)state;
    const char *dir = path_join(&arena, folder, "model");
    static const char *const rows[][4] = {
        {"../secret", "0", "8", "external data '../secret' is outside the model's folder"},
        {"a/../../secret", "0", "8",
         "external data 'a/../../secret' is outside the model's folder"},
        {"..", "0", "8", "external data '..' is outside the model's folder"},
        {"/etc/passwd", "0", "8", "external data '/etc/passwd' is outside the model's folder"},
        {"", "0", "8", "external data '' is outside the model's folder"},
        {"out", "0", "8", "external data 'out' is a link that leads out of the model's folder"},
        {"side/w.bin", "0", "8",
         "external data 'side/w.bin' is a link that leads out of the model's folder"},
        {"absent", "0", "8", "no file 'absent' in the model's folder"},
        {".", "0", "8", "no file '.' in the model's folder"},
        {"fifo", "0", "8", "no file 'fifo' in the model's folder"},
        {"w.bin", "8", "8", "external data 'w.bin' has 12 bytes, too few for 8 at 8"},
        {"w.bin", "18446744073709551608", "8",
         "external data 'w.bin' has 12 bytes, too few for 8 at 18446744073709551608"},
        {"w.bin", "18446744073709551620", "8", "external data: bad offset '18446744073709551620'"},
        {"w.bin", "9223372036854775807", "8",
         "external data 'w.bin' has 12 bytes, too few for 8 at 9223372036854775807"},
        {"w.bin", "-4", "8", "external data: bad offset '-4'"},
        {"w.bin", "4x", "8", "external data: bad offset '4x'"},
        {"w.bin", "", "8", "external data: bad offset ''"},
        {"w.bin", "0", "12", "external data: length 12, but the shape needs 8 bytes"},
        {"w.bin", "0", "", "external data: bad length ''"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Bytes b = external_tensor(rows[i][0], rows[i][1], rows[i][2]);
        expect_tensor_error(&b, dir,
                            arena_printf(&arena, "t.pb: byte 0: tensor 'w': %s", rows[i][3]));
    }
    Bytes b = external_tensor("w.bin", "0", "8");
    expect_tensor_error(
        &b, NULL, "t.pb: byte 0: tensor 'w': external data, but there is no folder to look in");
}

int main(void)
{
    const struct CMUnitTest elements[] = {
        TEST(typed_fields_hold_narrow_types),      TEST(floats_come_raw_packed_and_one_by_one),
        TEST(aligned_raw_data_is_not_copied),      TEST(bools_become_zero_and_one),
        TEST(small_types_have_bytes_of_their_own), TEST(empty_and_scalar_tensors),
        TEST(wrong_tensors_are_refused),
    };
    const struct CMUnitTest external_data[] = {
        cmocka_unit_test(external_data_is_read_from_the_folder),
        cmocka_unit_test(external_files_are_mapped_once_and_closed),
        cmocka_unit_test(external_data_stays_in_the_folder),
    };
    int failed = cmocka_run_group_tests(elements, NULL, NULL);
    return failed + cmocka_run_group_tests(external_data, make_folder, remove_folder);
}
