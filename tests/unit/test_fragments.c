// SPDX-License-Identifier: Apache-2.0
// Fragments of mma: their mappings in text are what the table says, and kernels with other operands
// are refused with the place in the text.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "ir/fragment.h"
#include "lang/instantiate.h"
#include "passes/passes.h"
#include "unit/mapping_builders.h"

static const Mapping *mul3(const Mapping *a, const Mapping *b, const Mapping *c)
{
    return mul(mul(a, b), c);
}

static void test_mappings(void **state)
{
    UNUSED(state);
    const Mapping *a = mul3(COL_REPEAT(2, 2), SPATIAL(8, 4), REPEAT(1, 2));
    const Mapping *b = mul3(COL_REPEAT(2, 1), COL_SPATIAL(4, 8), COL_REPEAT(2, 1));
    const Mapping *c = mul3(REPEAT(2, 1), SPATIAL(8, 4), REPEAT(1, 2));
    Fragment fa = fragment_of(FRAGMENT_A, DT_F16), fb = fragment_of(FRAGMENT_B, DT_BF16),
             fc = fragment_of(FRAGMENT_C, DT_F16);
    assert_true(fragment_fits(a, &fa) && fragment_fits(b, &fb) && fragment_fits(c, &fc));
    assert_true(fragment_fits(mul(REPEAT(4, 1), a), &fa));
    assert_true(fragment_fits(mul(mul(SPATIAL(2, 2), REPEAT(4, 8)), c), &fc));
    assert_false(fragment_fits(b, &fa) || fragment_fits(c, &fa) || fragment_fits(a, &fc));
    // rows before columns, as of other instructions
    assert_false(fragment_fits(mul3(REPEAT(2, 2), SPATIAL(8, 4), REPEAT(1, 2)), &fa));
    assert_false(fragment_fits(mul(a, REPEAT(1, 2)), &fa));
    assert_false(fragment_fits(SPATIAL(8, 4), &fc));
    assert_false(fragment_fits(mul(REPEAT(64), SPATIAL(32)), &fc));

    // Lane 5 of a, as reference texts have it.
    static const int64_t want[8][2] = {{1, 2},  {1, 3},  {9, 2},  {9, 3},
                                       {1, 10}, {1, 11}, {9, 10}, {9, 11}};
    for (int task = 0; task < 8; task++) {
        int64_t at[2];
        fragment_task(&fa, 5, task, at);
        assert_true(at[0] == want[task][0] && at[1] == want[task][1]);
    }
}

// Each element of a tile has one owner, for all types.
static void test_partition(void **state)
{
    UNUSED(state);
    static const DType types[] = {DT_F16, DT_BF16, DT_F32, DT_I8, DT_U8};
    for (size_t t = 0; t < COUNT(types); t++) {
        for (int kind = FRAGMENT_A; kind <= FRAGMENT_C; kind++) {
            Fragment f = fragment_of((FragmentKind)kind, types[t]);
            bool seen[32][32] = {{false}};
            int n = 0;
            for (int lane = 0; lane < FRAGMENT_LANES; lane++) {
                for (int task = 0; task < f.ntask; task++, n++) {
                    int64_t at[2];
                    fragment_task(&f, lane, task, at);
                    assert_true(at[0] >= 0 && at[0] < f.shape[0] && at[1] >= 0 &&
                                at[1] < f.shape[1]);
                    assert_false(seen[at[0]][at[1]]);
                    seen[at[0]][at[1]] = true;
                }
            }
            assert_int_equal(n, f.shape[0] * f.shape[1]);
        }
    }
}

// ---- kernels

#define KERNEL                                                            \
    "heald 1;\n"                                                          \
    "kernel k(x: f16[n]) -> (y: f32[n]) on cuda {\n"                      \
    "launch block(32);\n"                                                 \
    "let fa = col_repeat(2, 2) * spatial(8, 4) * repeat(1, 2);\n"         \
    "let fb = col_repeat(2, 1) * col_spatial(4, 8) * col_repeat(2, 1);\n" \
    "let fc = repeat(2, 1) * spatial(8, 4) * repeat(1, 2);\n"             \
    "shared s: f16[32, 16];\nshared odd: f16[32, 17];\n"                  \
    "local ra: f16[32, 16] over (repeat(2, 1) * fa)(lane);\n"             \
    "local rb: f16[16, 16] over (repeat(1, 2) * fb)(lane);\n"             \
    "local sum: f32[16, 16] over (repeat(1, 2) * fc)(lane) = 0;\n"

// The messages of a kernel with these statements: "" if it is right.
static const char *messages_of(const char *statements)
{
    static Arena scratch;
    Sources sources = {.arena = &scratch};
    Diag diag;
    Library lib;
    Target target;
    Map none = {0};
    Buf text;
    buf_init(&text, &scratch);
    diag_init(&diag, &scratch, &sources);
    library_init(&lib, &scratch, interner_new(&scratch), &sources);
    char *all = arena_printf(&scratch, KERNEL "%s\n}\n", statements);
    Node *file =
        parse_file(&scratch, lib.names, sources_add(&sources, "k.hd", all, strlen(all)), &diag);
    assert_true(file && library_add(&lib, file, &diag) && target_cuda(&target, "sm_90"));
    const Node *decl = map_get(&lib.kernels, intern(lib.names, "k"));
    Instance *in = instance_new(&scratch, &lib, &target, &diag);
    Value n = value_int(32), x = {.kind = V_TENSOR};
    x.u.tensor = instance_input(in, "x", DT_F16, 1, &n);
    Epilogue ep = {
        .noutput = 1, .memory = NEW(&scratch, Buffer *), .outputs = NEW(&scratch, Tensor *)};
    ep.outputs[0] = instance_hole(in, "v", DT_F32, 1, &n);
    ep.memory[0] = instance_output(in, "y", DT_F32, 1, &n);
    if (instance_kernel(in, decl, 1, &x, &none, &ep, 1, NULL) && kernel_verify(in->kernel, &diag))
        passes_run(in->kernel, &(PassOptions){.verify = true}, &diag);
    diag_render(&diag, &text);
    return buf_text(&text);
}

static void refused(const char *statements, const char *message)
{
    const char *got = messages_of(statements);
    if (!strstr(got, message)) fail_msg("%s:\n%s\ninstead of: %s", statements, got, message);
}

static void test_operands(void **state)
{
    UNUSED(state);
    static const char right[] =
        "mma(sum[0 :+ 16, 8 :+ 8], ra[16 :+ 16, 0 :+ 16], rb[0 :+ 16, 8 :+ 8]);"
        "ldmatrix(ra[0 :+ 32, 0 :+ 16], s[0 :+ 32, 0 :+ 16]);"
        "ldmatrix(rb[0 :+ 16, 0 :+ 16], s[16 :+ 16, 0 :+ 16]);"
        "stmatrix(s[16 :+ 16, 0 :+ 16], rb[0 :+ 16, 0 :+ 16]);";
    assert_string_equal(messages_of(right), "");
    refused("mma(sum[0 :+ 16, 0 :+ 8], rb[0 :+ 16, 0 :+ 16], rb[0 :+ 16, 0 :+ 8]);",
            "holds a is not the fragment");
    refused("mma(sum[0 :+ 16, 0 :+ 8], ra[0 :+ 32, 0 :+ 16], rb[0 :+ 16, 0 :+ 8]);",
            "a is a region of (16, 16)");
    refused("mma(sum[0 :+ 16, 0 :+ 8], ra[8 :+ 16, 0 :+ 16], rb[0 :+ 16, 0 :+ 8]);",
            "multiple of the fragment's 16");
    refused("mma(rb[0 :+ 16, 0 :+ 8], ra[0 :+ 16, 0 :+ 16], rb[0 :+ 16, 0 :+ 8]);",
            "mma is not defined on");
    refused("mma(sum[0 :+ 16, 0 :+ 8], s[0 :+ 16, 0 :+ 16], rb[0 :+ 16, 0 :+ 8]);",
            "a is not in local memory");
    refused("ldmatrix(ra[0 :+ 8, 0 :+ 16], s[0 :+ 8, 0 :+ 16]);", "a region of whole fragments");
    refused("ldmatrix(ra[0 :+ 32, 0 :+ 16], odd[0 :+ 32, 0 :+ 16]);", "do not lie side by side");
    refused("ldmatrix(ra[0 :+ 32, 0 :+ 16], s[0 :+ 16, 0 :+ 16]);", "to one of the same extents");
    refused("ldmatrix(sum[0 :+ 16, 0 :+ 8], s[0 :+ 16, 0 :+ 8]);", "of the same type");
    refused("stmatrix(ra[0 :+ 32, 0 :+ 16], s[0 :+ 32, 0 :+ 16]);", "from local to shared memory");
    refused("stmatrix(odd[0 :+ 32, 0 :+ 16], ra[0 :+ 32, 0 :+ 16]);",
            "stmatrix: rows of 8 elements of 'odd' do not lie side by side");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mappings),
        cmocka_unit_test(test_partition),
        cmocka_unit_test(test_operands),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_free(&arena);
    return failed;
}
