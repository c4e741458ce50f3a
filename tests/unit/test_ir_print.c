// SPDX-License-Identifier: Apache-2.0
// Kernel IR as text: the sample kernel to the letter, then expressions one by one.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "unit/ir_sample.h"

#include <math.h>
#include <string.h>

static const char *const wanted_kernel =
    "kernel h_scale_0 from scale on cuda sm_80 {\n"
    "  dim n from 1 to 4096;\n"
    "  input x: f32[n, 16];\n"
    "  output y: f32[n, 16];\n"
    "  workspace part: f32[n];\n"
    "  require 1 <= n, \"n is \\\"positive\\\"\";\n"
    "  stage main grid(n / 16) block(32) {\n"
    "    shared tile: f32[16, 16] layout column_major(16, 16) align 16;\n"
    "    local acc: f32[16, 16] over (spatial(8, 4) * repeat(2, 4))(thread) = 0.0;\n"
    "    var sum: f32 = 0.5;\n"
    "    unroll for kt in 0 .. (n + 15) / 16 {\n"
    "      for i#3, i#4 in (spatial(8, 4) * repeat(2, 4))(thread) {\n"
    "        acc[i#3, i#4] = fma(x[block.x * 16 + i#3, i#4] else 0.0, 0.5, acc[i#3, i#4]);\n"
    "      }\n"
    "      barrier();\n"
    "      if kt == 3 {\n"
    "        break;\n"
    "      }\n"
    "    }\n"
    "    sum = sum + 0.5;\n"
    "    y[thread, 0] = sum or drop;\n"
    "  }\n"
    "}\n";

static void test_kernel(void **state)
{
    UNUSED(state);
    Arena a = {0};
    Sample s = sample(&a);
    for (int i = 0; i < 2; i++) { // printing changes nothing
        Buf out;
        buf_init(&out, &a);
        kernel_print(s.k, &out);
        assert_string_equal(buf_text(&out), wanted_kernel);
    }
    arena_free(&a);
}

static void expect(Arena *a, const Node *n, const char *text)
{
    Buf out;
    buf_init(&out, a);
    node_print(n, &out);
    assert_string_equal(buf_text(&out), text);
}

static void test_constants(void **state)
{
    UNUSED(state);
    Arena a = {0};
    expect(&a, node_i64(&a, -7), "-7");
    expect(&a, node_i64(&a, INT64_MIN), "-9223372036854775808");
    expect(&a, node_int(&a, 0, DT_U64, -1), "18446744073709551615u64");
    expect(&a, node_int(&a, 0, DT_I8, 300), "44i8");
    expect(&a, node_int(&a, 0, DT_BOOL, 1), "true");
    expect(&a, node_float(&a, 0, DT_F32, 0.1), "0.1");
    expect(&a, node_float(&a, 0, DT_F32, 3), "3.0");
    expect(&a, node_float(&a, 0, DT_F32, 16777217), "16777216.0");
    expect(&a, node_float(&a, 0, DT_F64, 1.0 / 3), "0.3333333333333333f64");
    expect(&a, node_float(&a, 0, DT_F16, 65504), "65504.0f16");
    expect(&a, node_float(&a, 0, DT_F32, 1e30), "1e+30");
    expect(&a, node_float(&a, 0, DT_F32, -0.0), "-0.0");
    expect(&a, node_float(&a, 0, DT_F32, -INFINITY), "-inf");
    expect(&a, node_float(&a, 0, DT_F32, NAN), "nan");
    arena_free(&a);
}

static void test_parentheses(void **state)
{
    UNUSED(state);
    Arena a = {0};
    Var v[3] = {{.name = "a", .id = 1, .type = DT_I64, .lanes = 1},
                {.name = "b", .id = 2, .type = DT_I64, .lanes = 1},
                {.name = "c", .id = 3, .type = DT_I64, .lanes = 1}};
    Node *x = node_var(&a, 0, &v[0]), *y = node_var(&a, 0, &v[1]), *z = node_var(&a, 0, &v[2]);
    Node *sum = node_binary(&a, N_ADD, x, y), *product = node_binary(&a, N_MUL, x, y);
    expect(&a, node_binary(&a, N_MUL, sum, z), "(a + b) * c");
    expect(&a, node_binary(&a, N_ADD, product, z), "a * b + c");
    expect(&a, node_binary(&a, N_SUB, sum, z), "a + b - c");
    expect(&a, node_binary(&a, N_SUB, z, sum), "c - (a + b)");
    expect(&a, node_binary(&a, N_DIV, z, product), "c / (a * b)");
    expect(&a, node_binary(&a, N_BAND, sum, node_binary(&a, N_SHL, y, z)), "a + b & (b << c)");
    expect(&a, node_binary(&a, N_LT, sum, z), "a + b < c");
    expect(&a, node_unary(&a, N_NEG, sum), "-(a + b)");
    expect(&a, node_unary(&a, N_NEG, node_unary(&a, N_NEG, x)), "-(-a)");
    expect(&a, node_binary(&a, N_SUB, x, node_i64(&a, -1)), "a - -1");
    expect(&a, node_binary(&a, N_MIN, sum, z), "min(a + b, c)");
    Node *less = node_binary(&a, N_LT, x, y), *equal = node_binary(&a, N_EQ, y, z);
    expect(&a, node_binary(&a, N_LAND, less, node_binary(&a, N_LOR, less, equal)),
           "a < b && (a < b || b == c)");
    expect(&a, node_select(&a, less, x, y), "select(a < b, a, b)");
    expect(&a, node_cast(&a, DT_F32, sum), "f32(a + b)");
    Node *ramp = node_unary(&a, N_RAMP, x);
    ramp->u.i = 2;
    ramp->lanes = 8;
    expect(&a, node_cast(&a, DT_I32, ramp), "i32x8(ramp(a, 2, 8))");
    arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kernel),
                                       cmocka_unit_test(test_constants),
                                       cmocka_unit_test(test_parentheses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
