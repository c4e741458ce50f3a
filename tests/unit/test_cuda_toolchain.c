// SPDX-License-Identifier: Apache-2.0
// The compilers of CUDA: finding them, flags, what they say, and kernels built through the cache.
// All of it with each that is here: NVRTC, or what HEALD_NVRTC names, and nvcc.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "codegen/build.h"
#include "device/cuda_case.h"

static Arena arena;
static const CudaToolchain *toolchain; // NULL: this machine has none

static void need_toolchain(void)
{
    if (!toolchain) skip();
}

static const CudaToolchain *find_named(const char *file, const char **why)
{
    const char *before = getenv("HEALD_NVRTC");
    char *kept = before ? arena_strdup(&arena, before) : NULL;
    setenv("HEALD_NVRTC", file, 1);
    const CudaToolchain *t = cuda_toolchain_find(&arena, why);
    if (kept) setenv("HEALD_NVRTC", kept, 1);
    else unsetenv("HEALD_NVRTC");
    return t;
}

static void test_none(void **state)
{
    UNUSED(state);
    const char *why = NULL;
    assert_null(find_named("/nowhere/libnvrtc.so", &why));
    assert_non_null(strstr(why, "HEALD_NVRTC=/nowhere/libnvrtc.so is no NVRTC"));
    assert_non_null(strstr(why, "package cuda-nvrtc"));
    assert_null(find_named("libm.so.6", &why)); // loads, and is something else
    assert_null(find_named("/bin/true", &why)); // runs, and is something else
}

static void test_figures(void **state)
{
    UNUSED(state);
    static const char log[] =
        "ptxas info    : 0 bytes gmem\n"
        "ptxas info    : Compiling entry function 'h_a_main' for 'sm_80'\n"
        "ptxas info    : Function properties for h_a_main\n"
        "ptxas         .     16 bytes stack frame, 48 bytes spill stores, 32 bytes spill loads\n"
        "ptxas info    : Used 128 registers, used 1 barriers, 16384 bytes smem, 400 bytes cmem[0]\n"
        "ptxas info    : Compiling entry function 'h_a_main2' for 'sm_80'\n"
        "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
        "ptxas info    : Used 8 registers\n";
    CudaFigures f;
    assert_true(cuda_log_figures(log, "h_a_main", &f));
    assert_int_equal(f.registers, 128);
    assert_int_equal(f.spill_store_bytes, 48);
    assert_int_equal(f.spill_load_bytes, 32);
    assert_int_equal(f.stack_bytes, 16);
    assert_int_equal(f.shared_bytes, 16384);
    assert_true(cuda_log_figures(log, "h_a_main2", &f));
    assert_int_equal(f.registers, 8);
    assert_int_equal(f.spill_store_bytes, 0);
    assert_int_equal(f.shared_bytes, 0);
    assert_false(cuda_log_figures(log, "h_a", &f));
    assert_int_equal(f.registers, -1);
}

static void test_flags(void **state)
{
    UNUSED(state);
    need_toolchain();
    CudaFlags f = cuda_toolchain_flags(toolchain, &arena, "sm_90a");
    assert_non_null(strstr(f.text, "--gpu-architecture=sm_90a"));
    assert_non_null(strstr(f.text, "--fmad=false"));
    assert_false(f.ptx);
    Target t;
    assert_true(cuda_target(&arena, 999, &t)); // a GPU of the future
    assert_string_equal(t.arch, "sm_999");
    assert_true(t.shared_bytes > 0);
    f = cuda_toolchain_flags(toolchain, &arena, t.arch);
    assert_non_null(strstr(f.text, "--gpu-architecture=compute_"));
    assert_true(f.ptx);
    assert_false(cuda_target(&arena, 70, &t));
}

static const char *folder(void)
{
    const char *base = getenv("TMPDIR") ? getenv("TMPDIR") : P_tmpdir;
    char *dir = path_join(&arena, base, "heald cuda-XXXXXX"); // a space is a letter like others
    assert_non_null(mkdtemp(dir));
    return dir;
}

static void test_wrong_text(void **state)
{
    UNUSED(state);
    need_toolchain();
    const char *dir = folder(), *source = path_join(&arena, dir, "source.cu");
    static const char text[] = "extern \"C\" __global__ void f() { nothing; }\n";
    assert_null(file_write_atomic(&arena, source, text, strlen(text)));
    CudaFlags flags = cuda_toolchain_flags(toolchain, &arena, "sm_80");
    char *log = NULL;
    const char *why = cuda_toolchain_compile(&arena, toolchain, &flags, text, source,
                                             path_join(&arena, dir, "kernel.cubin"), &log);
    assert_non_null(why);
    assert_non_null(strstr(why, "failed"));
    assert_non_null(strstr(why, source));
    assert_non_null(strstr(why, "\"nothing\" is undefined"));
    dir_remove(&arena, dir);
}

static const CaseRow mirrored = {.file = "tests/device/intrinsics.hd",
                                 .kernel = "mirrored_cuda",
                                 .inputs = "f32[m, 32]",
                                 .attrs = "",
                                 .small = "",
                                 .large = ""};

// A kernel for that architecture, twice: the second time it is in the cache. Its folder has `file`.
static void build(const Builder *b, const char *arch, const char *file)
{
    for (int i = 0; i < 2; i++) {
        CudaCase *c;
        BuiltKernel *k;
        Error e = {0};
        const char *why = case_new(&mirrored, arch, &c);
        if (!why) why = case_instance(c, NULL);
        if (why) fail_msg("%s", why);
        if (kernel_build(b, &c->arena, c->kernel, "mirrored", &k, &c->diag, &e))
            fail_msg("%s", e.text);
        assert_int_equal(k->cached, i == 1);
        assert_string_equal(strrchr(k->image, '/') + 1, file);
        assert_true(path_exists(k->image));
        assert_true(path_exists(path_join(&arena, k->dir, "source.cu")));
        char *log;
        size_t size;
        CudaFigures f;
        assert_null(file_read(&arena, path_join(&arena, k->dir, "log.txt"), &log, &size));
        if (!strcmp(file, "kernel.cubin"))
            assert_true(
                cuda_log_figures(log, arena_printf(&arena, "%s_main", k->runtime.name), &f));
        assert_int_equal(k->runtime.stage[0].nthread, 32);
        assert_int_equal(k->runtime.nrequirement, 1); // m fits 32-bit indices
        kernel_release(k);
        case_free(c);
    }
}

static void test_build(void **state)
{
    UNUSED(state);
    need_toolchain();
    const char *dir = folder(), *why = NULL;
    Builder b = {.cuda = toolchain, .cache = cache_open(&arena, dir, 0, &why)};
    assert_non_null(b.cache);
    build(&b, "sm_80", "kernel.cubin");
    build(&b, "sm_90a", "kernel.cubin");
    dir_remove(&arena, dir);
}

// With places, the compiler's log names the line of the script where a statement was made wrong.
static void test_lines(void **state)
{
    UNUSED(state);
    need_toolchain();
    CudaCase *c;
    const char *why = case_new(&mirrored, "sm_80", &c);
    if (!why) why = case_instance(c, NULL);
    if (why) fail_msg("%s", why);
    Buf text;
    buf_init(&text, &c->arena);
    cuda_bound_dims(c->kernel);
    assert_true(passes_run(c->kernel, &(PassOptions){0}, &c->diag));
    assert_true(codegen_cuda(c->kernel, &c->sources, &text, &c->diag));
    char *store = strstr(buf_text(&text), "] = "), *end = strchr(store, ';'), *log = NULL;
    memset(store + 4, ' ', (size_t)(end - store - 4));
    memcpy(store + 4, "nix", 3);
    const char *dir = folder(), *source = path_join(&arena, dir, "source.cu");
    assert_null(file_write_atomic(&arena, source, buf_text(&text), text.size));
    CudaFlags flags = cuda_toolchain_flags(toolchain, &arena, "sm_80");
    assert_non_null(cuda_toolchain_compile(&arena, toolchain, &flags, buf_text(&text), source,
                                           "/nowhere/kernel.cubin", &log));
    dir_remove(&arena, dir);
    const Place at = sources_place(&c->sources, c->decl->loc);
    const char *line = strstr(at.source->text + (c->decl->loc - at.source->base), "] = ");
    int number = sources_place(&c->sources, at.source->base + (Loc)(line - at.source->text)).line;
    const char *said = arena_printf(&arena, "%s(%d): error: ", mirrored.file, number);
    if (!strstr(log, said)) fail_msg("no '%s' in\n%s", said, log);
    case_free(c);
}

int main(void)
{
    const char *why = NULL, *required = getenv("HEALD_REQUIRE_NVRTC");
    const char *nvcc = find_program(&arena, "nvcc");
    const CudaToolchain *all[] = {cuda_toolchain_find(&arena, &why), NULL};
    if (!all[0]) printf("# %s\n", why);
    if (!all[0] && required && *required) return 1;
    if (nvcc) all[1] = find_named(nvcc, &why);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_none),  cmocka_unit_test(test_figures),
        cmocka_unit_test(test_flags), cmocka_unit_test(test_wrong_text),
        cmocka_unit_test(test_build), cmocka_unit_test(test_lines),
    };
    int failed = 0;
    for (size_t i = 0; i < COUNT(all); i++) {
        toolchain = all[i];
        if (i && !toolchain) continue;
        printf("# %s\n", toolchain ? cuda_toolchain_version(toolchain) : "no compiler");
        failed += cmocka_run_group_tests(tests, NULL, NULL);
    }
    arena_free(&arena);
    return failed;
}
