// SPDX-License-Identifier: Apache-2.0
// Every CUDA kernel of cuda_cases.def without a GPU: its meaning in the interpreter, as
// instantiated and as lowered, is that of the op; its text is compiled by NVRTC for two
// architectures, with dynamic and with fixed extents, and its other choices for one. The default
// choice never spills, and fits every GPU; the tuner drops those that do not.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "device/cuda_case.h"

enum { MAX_CHOICES = 3 }; // of a kernel, besides the default one

static struct {
    int kernels, interpreted, compiled, skipped, spilled;
    int64_t compile_ns;
} count;

static const CudaToolchain *toolchain;
static Arena shared;

static void find_toolchain(void)
{
    const char *why = NULL, *required = getenv("HEALD_REQUIRE_NVRTC");
    toolchain = cuda_toolchain_find(&shared, &why);
    if (!toolchain && required && *required) fail_msg("%s", why);
    if (!toolchain) printf("# %s\n", why);
}

// ---- meaning

static void interpret(CudaCase *c, const Kernel *k, CaseData *d, const char *what)
{
    InterpOptions o = {.check_races = true};
    if (interp_run(k, d->at, c->dims, &o, &c->diag)) return;
    Buf b;
    buf_init(&b, &c->arena);
    kernel_print(k, &b);
    fail_msg("%s %s: %s\n%s\n%s", c->row->kernel, c->row->inputs, what, case_messages(c),
             buf_text(&b));
}

static void check_meaning(CudaCase *c, const Kernel *kernel, const Kernel *lowered)
{
    CaseData want, got, again;
    double tolerance;
    c->kernel = (Kernel *)kernel;
    case_data_new(c, &got);
    case_data_new(c, &again);
    case_data_fill(&got, 1);
    case_data_convert(&got, &again);
    const char *failed = case_meaning(c);
    if (failed) fail_msg("%s: its meaning: %s", c->row->kernel, failed);
    case_data_new(c, &want);
    case_data_convert(&got, &want);
    if (!interp_run(c->kernel, want.at, c->dims, &(InterpOptions){0}, &c->diag))
        fail_msg("%s: its meaning: %s", c->row->kernel, case_messages(c));
    c->kernel = (Kernel *)kernel;
    interpret(c, kernel, &got, "as instantiated");
    interpret(c, lowered, &again, "as lowered");
    double error = case_error(&want, &got, &tolerance);
    if (!(error <= tolerance))
        fail_msg("%s %s: wrong by %g, %g is allowed", c->row->kernel, c->row->inputs, error,
                 tolerance);
    for (int i = 0; i < got.n; i++) {
        size_t bytes = (size_t)got.nelem[i] * dtype_size(got.type[i]);
        if (memcmp(got.at[i], again.at[i], bytes))
            fail_msg("%s %s: the passes change result %d", c->row->kernel, c->row->inputs, i);
    }
    case_data_free(&want);
    case_data_free(&got);
    case_data_free(&again);
    count.interpreted++;
}

// ---- compiling

static void check_figures(const CudaCase *c, const Kernel *k, const char *log, const char *text,
                          bool may_spill)
{
    for (int i = 0; i < k->stages.n; i++) {
        CudaFigures f;
        char entry[128];
        snprintf(entry, sizeof entry, "%s_%s", k->name, k->stages.at[i]->name);
        if (!cuda_log_figures(log, entry, &f)) fail_msg("no figures of %s in\n%s", entry, log);
        bool spills = f.spill_store_bytes || f.spill_load_bytes;
        if (spills && may_spill) count.spilled++;
        else if (spills || f.registers < 1)
            fail_msg("%s %s spills: %s\n%s", c->row->kernel, c->row->inputs, log, text);
    }
}

// ptxas 13.0 forgets which uniform registers a copy to shared memory names for a cache policy and
// for an offset that all threads share: it writes 0, and the copy ends as an illegal instruction.
// Instructions are 16 bytes: bits 0 .. 11 say that form of copy, bits 64 .. 69 the register.
static bool forgets_registers(const char *cubin, size_t bytes)
{
    enum { COPY = 0xdae, IS_CODE = 4 };
    uint64_t table, at, size, lo, hi, flags;
    uint16_t nsection;
    memcpy(&table, cubin + 40, sizeof table); // Elf64_Ehdr.e_shoff, e_shnum
    memcpy(&nsection, cubin + 60, sizeof nsection);
    for (const char *s = cubin + table; nsection--; s += 64) { // Elf64_Shdr
        memcpy(&flags, s + 8, sizeof flags);
        memcpy(&at, s + 24, sizeof at);
        memcpy(&size, s + 32, sizeof size);
        for (uint64_t i = at; flags & IS_CODE && i + 16 <= at + size && i + 16 <= bytes; i += 16) {
            memcpy(&lo, cubin + i, sizeof lo);
            memcpy(&hi, cubin + i + 8, sizeof hi);
            if ((lo & 0xfff) == COPY && !(hi & 0x3f)) return true;
        }
    }
    return false;
}

static void check_copies(CudaCase *c, const char *object, const char *text)
{
    char *cubin;
    size_t bytes;
    if (!strstr(text, "L2::cache_hint [a]")) return;
    assert_null(file_read(&c->arena, object, &cubin, &bytes));
    if (forgets_registers(cubin, bytes))
        fail_msg("%s %s for %s: a copy names no register\n%s", c->row->kernel, c->row->inputs,
                 c->target.arch, text);
}

static void compile(CudaCase *c, bool may_spill)
{
    Kernel *lowered;
    const char *text = case_text(c, &lowered);
    if (!text) fail_msg("%s %s: %s", c->row->kernel, c->row->inputs, case_messages(c));
    Kernel *same;
    const char *again = case_text(c, &same);
    assert_string_equal(text, again);
    if (!toolchain) {
        count.skipped++;
        return;
    }
    char *log = NULL, path[] = "heald-cubin-XXXXXX";
    const char *dir = getenv("TMPDIR") ? getenv("TMPDIR") : P_tmpdir;
    const char *object = path_join(&c->arena, dir, path);
    int fd = mkstemp((char *)object);
    assert_true(fd >= 0);
    CudaFlags flags = cuda_toolchain_flags(toolchain, &c->arena, c->target.arch);
    int64_t start = clock_ns();
    const char *failed =
        cuda_toolchain_compile(&c->arena, toolchain, &flags, text, "(in memory)", object, &log);
    count.compile_ns += clock_ns() - start;
    if (!failed) check_copies(c, object, text);
    remove(object);
    if (failed)
        fail_msg("%s %s for %s: %s\n%s", c->row->kernel, c->row->inputs, c->target.arch, failed,
                 text);
    check_figures(c, lowered, log, text, may_spill);
    count.compiled++;
}

// With extents as numbers, those of the first set of the row's.
static void compile_fixed(CudaCase *c, const char *list)
{
    if (!case_dims(c, list, 0)) return;
    c->fixed = c->aligned = true;
    const char *failed = case_instance(c, NULL);
    c->fixed = c->aligned = false;
    if (failed) fail_msg("%s: %s", c->row->kernel, failed);
    compile(c, false);
}

static void compile_choices(CudaCase *c)
{
    Choices *choices;
    int n, nerror = c->diag.nerror;
    if (!kernel_choices(c->in, c->decl, 2, &choices, &n)) fail_msg("%s", case_messages(c));
    int step = n > MAX_CHOICES ? n / MAX_CHOICES : 1;
    for (int i = step; i < n; i += step) {
        const char *pruned = case_instance(c, &choices[i]);
        if (!pruned) compile(c, true);
        c->diag.messages.n = 0; // why a choice does not fit
        c->diag.nerror = nerror;
    }
}

// Of rows of the same kernel, the first.
static bool is_first(const CaseRow *row)
{
    return row == case_rows || strcmp(row[-1].kernel, row->kernel) != 0;
}

// In memory that is known to be aligned, where known extents may let a kernel move more at once.
static void check_aligned(CudaCase *c)
{
    Kernel *lowered;
    c->aligned = true;
    const char *failed = case_instance(c, NULL);
    c->aligned = false;
    if (failed) fail_msg("%s: %s", c->row->kernel, failed);
    Kernel *kernel = c->kernel;
    if (!case_text(c, &lowered)) fail_msg("%s", case_messages(c));
    for (int i = 0; case_dims(c, c->row->small, i); i++) check_meaning(c, kernel, lowered);
}

static void check_row(const CaseRow *row, const char *arch, bool all)
{
    CudaCase *c;
    const char *failed = case_new(row, arch, &c);
    if (!failed) failed = case_instance(c, NULL);
    if (failed) fail_msg("%s %s: %s", row->file, row->kernel, failed);
    Kernel *kernel = c->kernel, *lowered;
    compile(c, false);
    if (all) {
        if (!case_text(c, &lowered)) fail_msg("%s", case_messages(c));
        for (int i = 0; case_dims(c, row->small, i); i++) check_meaning(c, kernel, lowered);
        if (strpbrk(strchr(row->inputs, '['), "0123456789")) check_aligned(c);
        compile_fixed(c, row->large);
        if (is_first(row)) compile_choices(c);
    }
    case_free(c);
}

// The defaults are for all GPUs: here one with little shared memory, at the sizes of models.
static void check_smaller(const CaseRow *row)
{
    CudaCase *c;
    const char *failed = case_new(row, "sm_86", &c);
    if (!failed) failed = case_instance(c, NULL);
    if (!failed && case_dims(c, row->large, 0)) {
        c->fixed = c->aligned = true;
        failed = case_instance(c, NULL);
    }
    if (failed) fail_msg("%s %s for sm_86: %s", row->kernel, row->inputs, failed);
    case_free(c);
}

// And the oldest, as far as it has the instructions.
static void check_oldest(const CaseRow *row)
{
    CudaCase *c;
    Kernel *lowered;
    const char *failed = case_new(row, "sm_75", &c);
    if (!failed) failed = case_instance(c, NULL);
    if (failed && !strstr(failed, "needs sm_")) fail_msg("%s for sm_75: %s", row->kernel, failed);
    if (!failed) {
        Kernel *kernel = c->kernel;
        compile(c, false);
        if (!case_text(c, &lowered)) fail_msg("%s", case_messages(c));
        if (case_dims(c, row->small, 0)) check_meaning(c, kernel, lowered);
    }
    case_free(c);
}

// Whether the kernel names no architecture, or that one.
static bool is_for(const CaseRow *row, const char *arch)
{
    CudaCase *c;
    const char *failed = case_new(row, arch, &c);
    if (failed) fail_msg("%s %s: %s", row->file, row->kernel, failed);
    Node *clauses = KID((Node *)c->decl, KERNEL, clauses);
    bool ok = true;
    for (int i = 0; i < NREST(clauses); i++) {
        Node *clause = REST(clauses)[i], *args = KID(clause, CLAUSE, args);
        if (!strcmp(clause->u.sym, "on") && NREST(args) == 2)
            ok = !strcmp(REST(args)[1]->u.sym, arch);
    }
    case_free(c);
    return ok;
}

static void test_rows(void **state)
{
    UNUSED(state);
    const char *only = getenv("HEALD_CASE"); // rows whose kernel has that in its name
    for (size_t i = 0; i < COUNT(case_rows); i++) {
        if (only && !strstr(case_rows[i].kernel, only)) continue;
        bool older = is_for(&case_rows[i], "sm_80");
        if (older) check_row(&case_rows[i], "sm_80", true);
        if (older) check_smaller(&case_rows[i]);
        if (older && is_first(&case_rows[i])) check_oldest(&case_rows[i]);
        check_row(&case_rows[i], "sm_90a", !older);
        count.kernels++;
    }
    printf(
        "# %d kernels: %d meanings checked, %d texts compiled in %.1f s (%d choices spill), %d not "
        "compiled for want of NVRTC\n",
        count.kernels, count.interpreted, count.compiled, (double)count.compile_ns / 1e9,
        count.spilled, count.skipped);
}

// No template of the library is without a row.
static void test_all_have_rows(void **state)
{
    UNUSED(state);
    static const char folder[] = "lib/kernels/cuda";
    Arena a = {0};
    char **files, *text;
    int nfile;
    size_t size;
    assert_null(dir_list(&a, folder, &files, &nfile));
    for (int f = 0; f < nfile; f++) {
        assert_null(file_read(&a, path_join(&a, folder, files[f]), &text, &size));
        for (char *at = text; (at = strstr(at, "\nkernel "));) {
            at += strlen("\nkernel ");
            const char *name = arena_strndup(&a, at, strcspn(at, "[("));
            bool found = false;
            for (size_t i = 0; i < COUNT(case_rows); i++)
                found = found || !strcmp(case_rows[i].kernel, name);
            if (!found) fail_msg("cuda_cases.def has no row for %s of %s", name, files[f]);
        }
    }
    arena_free(&a);
}

int main(void)
{
    find_toolchain();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_have_rows),
                                       cmocka_unit_test(test_rows)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_free(&shared);
    return failed;
}
