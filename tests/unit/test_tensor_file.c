// SPDX-License-Identifier: Apache-2.0
// Tensor files: those in tests/unit/data/npy were written by NumPy itself; what Heald writes must
// equal NumPy's bytes; damaged ones give an error.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "frontends/tensor_file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DATA "tests/unit/data/npy/"

static Arena arena;

static int setup(void **state)
{
    (void)state;
    arena = (Arena){0};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    arena_free(&arena);
    return 0;
}

static HostTensor read_file(const char *path)
{
    HostTensor t;
    const char *error = tensor_read(&arena, path, &t);
    if (error) fail_msg("%s", error);
    assert_int_equal((uintptr_t)t.data % dtype_size(t.dtype), 0);
    return t;
}

static void expect_counting(const HostTensor *t, DType dtype, int n)
{
    assert_int_equal(t->dtype, dtype);
    assert_int_equal(host_tensor_nelem(t), n);
    for (int i = 0; i < n; i++)
        assert_true(dtype_load_f64(dtype, (const char *)t->data + (size_t)i * dtype_size(dtype)) ==
                    i);
}

static void numpy_files_of_every_type_and_order(void **state)
{
    (void)state;
    static const struct {
        const char *file;
        DType dtype;
    } rows[] = {
        {"le_f2", DT_F16},     {"le_f4", DT_F32},         {"be_f4", DT_F32},
        {"le_f8", DT_F64},     {"be_f8", DT_F64},         {"i1", DT_I8},
        {"le_i2", DT_I16},     {"be_i2", DT_I16},         {"le_i4", DT_I32},
        {"le_i8", DT_I64},     {"be_i8", DT_I64},         {"u1", DT_U8},
        {"le_u2", DT_U16},     {"le_u4", DT_U32},         {"be_u4", DT_U32},
        {"le_u8", DT_U64},     {"fortran_le_f4", DT_F32}, {"fortran_be_i2", DT_I16},
        {"version_2", DT_F32}, {"version_3", DT_F32},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        HostTensor t = read_file(arena_printf(&arena, DATA "%s.npy", rows[i].file));
        assert_int_equal(t.rank, 2);
        assert_int_equal(t.dims[0], 2);
        assert_int_equal(t.dims[1], 3);
        expect_counting(&t, rows[i].dtype, 6);
    }
}

static void numpy_files_of_other_shapes(void **state)
{
    (void)state;
    HostTensor t = read_file(DATA "scalar.npy");
    assert_int_equal(t.rank, 0);
    assert_true(*(const float *)t.data == 2.5f);
    t = read_file(DATA "empty.npy");
    assert_int_equal(t.rank, 3);
    assert_int_equal(host_tensor_bytes(&t), 0);
    t = read_file(DATA "vector.npy");
    assert_int_equal(t.rank, 1);
    expect_counting(&t, DT_F32, 3);
    t = read_file(DATA "cube_fortran.npy");
    assert_int_equal(t.rank, 3);
    expect_counting(&t, DT_I32, 24);
    t = read_file(DATA "bool.npy");
    assert_int_equal(t.dtype, DT_BOOL);
    assert_memory_equal(t.data, "\0\1\1\0", 4);
}

static void archives_stored_and_deflated(void **state)
{
    (void)state;
    static const char *const files[] = {DATA "stored.npz", DATA "deflated.npz"};
    for (int i = 0; i < 2; i++) {
        HostTensor *list;
        int n;
        const char *error = tensor_read_npz(&arena, files[i], &list, &n);
        if (error) fail_msg("%s", error);
        assert_int_equal(n, 2);
        assert_string_equal(list[0].name, "x");
        assert_string_equal(list[1].name, "y");
        expect_counting(&list[0], DT_F32, 6);
        expect_counting(&list[1], DT_I64, 6);
    }
    HostTensor t = read_file(DATA "zip64.npz");
    expect_counting(&t, DT_F32, 6);
    t = read_file(DATA "one.npz");
    assert_string_equal(t.name, "only");
    expect_counting(&t, DT_F32, 6);
}

static void onnx_test_data_is_read(void **state)
{
    (void)state;
    HostTensor t = read_file("examples/models/mnist_8/test_data_set_0/input_0.pb");
    assert_int_equal(t.dtype, DT_F32);
    assert_int_equal(host_tensor_nelem(&t), 28 * 28);
}

static void what_is_not_supported_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *file, *error;
    } rows[] = {
        {DATA "complex.npy", DATA "complex.npy: element type '<c8' is not supported"},
        {DATA "text.npy", DATA "text.npy: element type '<U2' is not supported"},
        {DATA "object.npy", DATA "object.npy: element type '|O' is not supported"},
        {DATA "record.npy", DATA "record.npy: this .npy header is not understood"},
        {DATA "stored.npz", DATA "stored.npz: holds 2 arrays, and one is wanted"},
        {DATA "overlapping.npz", DATA "overlapping.npz: zip: overlapping members"},
        {DATA "absent.npy", DATA "absent.npy: No such file or directory"},
        {"README.md", "README.md: not a tensor file (.pb, .npy or .npz)"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        HostTensor t;
        const char *error = tensor_read(&arena, rows[i].file, &t);
        assert_non_null(error);
        assert_string_equal(error, rows[i].error);
    }
}

static void what_is_written_equals_numpys_bytes(void **state)
{
    (void)state;
    static const char *const files[] = {"le_f2", "le_f4",  "le_f8", "i1",    "le_i2",
                                        "le_i4", "le_i8",  "u1",    "le_u2", "le_u4",
                                        "le_u8", "scalar", "empty", "bool",  "vector"};
    char path[] = "/tmp/heald-npy-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const char *want_path = arena_printf(&arena, DATA "%s.npy", files[i]), *error;
        HostTensor t = read_file(want_path);
        char *want = NULL, *got = NULL;
        size_t want_size = 0, got_size = 0;
        error = tensor_write_npy(&arena, path, &t);
        if (!error) error = file_read(&arena, path, &got, &got_size);
        if (!error) error = file_read(&arena, want_path, &want, &want_size);
        if (error) fail_msg("%s", error);
        assert_int_equal(got_size, want_size);
        assert_memory_equal(got, want, want_size);
    }
    const uint16_t bits[] = {0x3f80, 0xc000};
    HostTensor bf16 = {.dtype = DT_BF16, .rank = 1, .dims = {2}, .data = bits}, back;
    assert_null(tensor_write_npy(&arena, path, &bf16));
    assert_null(tensor_read_npy(&arena, path, &back));
    assert_int_equal(back.dtype, DT_BF16);
    assert_memory_equal(back.data, bits, sizeof bits);
    unlink(path);
}

// An .npy of version 1 around a header and some zero bytes as elements.
static const char *parse_header(const char *header, size_t nbytes, HostTensor *t)
{
    size_t n = strlen(header), size = 10 + n + nbytes;
    uint8_t *file = arena_alloc(&arena, size);
    memcpy(file, "\x93NUMPY\1", 8);
    file[8] = (uint8_t)n;
    file[9] = (uint8_t)(n >> 8);
    memcpy(file + 10, header, n);
    return tensor_parse_npy(&arena, "f.npy", file, size, t);
}

static void odd_headers(void **state)
{
    (void)state;
    HostTensor t;
    assert_null(
        parse_header("{\"shape\":(3L,2L),\"fortran_order\":True,\"descr\":\"|u1\"}", 6, &t));
    assert_int_equal(t.rank, 2);
    assert_null(
        parse_header("{ 'descr' : '=i4', 'fortran_order' : False, 'shape' : ( ) }\n", 4, &t));
    assert_int_equal(t.rank, 0);
    static const struct {
        const char *header;
        size_t nbytes;
    } wrong[] = {
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 7},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 9},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", 8},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", 8},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296,4294967296,4294967296), }",
         0},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,4,0), }", 0},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,), }", 0},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2 3), }", 24},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1), }",
         4},
        {"{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2,), }", 8},
        {"{'descr': '<f4', 'shape': (2,), }", 8},
        {"{'descr': '<f4', 'fortran_order': False, 'other': 1, 'shape': (2,), }", 8},
        {"{'descr': '<f4, 'fortran_order': False, 'shape': (2,), }", 8},
        {"{'descr': '', 'fortran_order': False, 'shape': (2,), }", 8},
        {"{'descr': 'f', 'fortran_order': False, 'shape': (2,), }", 8},
        {"{'descr': '<f3', 'fortran_order': False, 'shape': (2,), }", 6},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), ", 8},
        {"{", 0},
        {"", 0},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_non_null(parse_header(wrong[i].header, wrong[i].nbytes, &t));
}

static void a_changed_element_is_noticed(void **state)
{
    (void)state;
    char *text;
    size_t size;
    assert_null(file_read(&arena, DATA "stored.npz", &text, &size));
    size_t at = 0;
    while (memcmp(text + at, "\x93NUMPY", 6)) at++;
    text[at + 128 + 3] ^= 1;
    HostTensor *list;
    int n;
    const char *error = tensor_parse_npz(&arena, "f.npz", (uint8_t *)text, size, &list, &n);
    assert_non_null(error);
    assert_string_equal(error, "f.npz(x.npy): zip: damaged member");
}

// Every truncation and every byte changed, of a small file: no crash, and an archive's checksums
// notice what matters.
static void damaged_files(void **state)
{
    (void)state;
    static const char *const files[] = {DATA "stored.npz", DATA "deflated.npz", DATA "zip64.npz",
                                        DATA "be_f4.npy"};
    for (int i = 0; i < 4; i++) {
        char *text;
        size_t size;
        assert_null(file_read(&arena, files[i], &text, &size));
        for (size_t cut = 0; cut <= size; cut++) {
            for (int flip = 0; flip < 2; flip++) {
                ArenaMark mark = arena_mark(&arena);
                size_t n = flip ? size : cut;
                uint8_t *exact = malloc(n + 1); // so that a sanitizer sees the end
                memcpy(exact, text, n);
                if (flip) exact[cut] ^= 0x41;
                HostTensor *list = NULL, one;
                int count = 0;
                const char *error = i < 3 ? tensor_parse_npz(&arena, "f", exact, n, &list, &count)
                                          : tensor_parse_npy(&arena, "f", exact, n, &one);
                if (!flip && cut < size) assert_non_null(error);
                if (!error && count > 0 && list[0].rank == 2 && list[0].dtype == DT_F32)
                    assert_true(host_tensor_nelem(&list[0]) == 6);
                free(exact);
                arena_reset(&arena, mark);
            }
        }
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(numpy_files_of_every_type_and_order),
        TEST(numpy_files_of_other_shapes),
        TEST(archives_stored_and_deflated),
        TEST(onnx_test_data_is_read),
        TEST(what_is_not_supported_is_named),
        TEST(what_is_written_equals_numpys_bytes),
        TEST(odd_headers),
        TEST(a_changed_element_is_noticed),
        TEST(damaged_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
