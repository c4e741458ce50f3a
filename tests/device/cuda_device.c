// SPDX-License-Identifier: Apache-2.0
// The kernels of cuda_cases.def on a GPU: each is built, loaded and run at its sizes, small and
// large, with extents that are only known at launch and then with known ones ("fixed"), and
// compared with the meaning of its op in float64 on the CPU; a table says how far off and how fast.
// Arguments: small (no large sizes), notime, NAME (kernels with that in their name). Exit status 1
// if one is wrong, 77 without a GPU. The last line is "N passed, N failed".
#include <inttypes.h>

#include "codegen/build.h"
#include "device/cuda_case.h"
#include "runtime/cuda.h"
#include "runtime/launch.h"

typedef struct Run {
    Arena arena;
    Device *gpu, *cpu;
    Builder builder;
    Toolchain cc;
    const char *arch, *only;
    bool small, timed;
    int passed, failed;
} Run;

static bool failed(Run *r, const CaseRow *row, const char *what, const char *why)
{
    printf("%-24s %-32s FAILED: %s: %s\n", row->kernel, row->inputs, what, why);
    r->failed++;
    return false;
}

// ---- one kernel on one device

static bool build(Run *r, CudaCase *c, BuiltKernel **out, const char *what)
{
    Error e = {0};
    heald_status s = kernel_build(&r->builder, &c->arena, c->kernel, "case", out, &c->diag, &e);
    if (!s) return true;
    return failed(r, c->row, what, s == HEALD_DIAGNOSTIC ? case_messages(c) : e.text);
}

// The meaning, by compiled C.
static bool run_meaning(Run *r, CudaCase *c, CaseData *d)
{
    BuiltKernel *k;
    Error e = {0};
    if (!build(r, c, &k, "its meaning")) return false;
    heald_status s = launch_kernel(r->cpu, &k->runtime, d->at, NULL, &e);
    kernel_release(k);
    return s ? failed(r, c->row, "its meaning", e.text) : true;
}

typedef struct OnGpu {
    void *at[CASE_MAX_TENSORS];
} OnGpu;

static int64_t bytes_of(const CaseData *d, int i)
{
    return d->nelem[i] * (int64_t)dtype_size(d->type[i]);
}

static heald_status upload(Run *r, const CaseData *d, OnGpu *g, Error *e)
{
    heald_status s = HEALD_OK;
    for (int i = 0; i < d->n && !s; i++) {
        s = r->gpu->ops->allocate(r->gpu, bytes_of(d, i), &g->at[i], e);
        if (!s)
            s = r->gpu->ops->copy(r->gpu, COPY_HOST_TO_DEVICE, g->at[i], d->at[i], bytes_of(d, i),
                                  e);
    }
    return s;
}

static heald_status download(Run *r, CaseData *d, OnGpu *g, Error *e)
{
    heald_status s = HEALD_OK;
    for (int i = 0; i < d->n && !s; i++)
        if (d->output[i])
            s = r->gpu->ops->copy(r->gpu, COPY_DEVICE_TO_HOST, d->at[i], g->at[i], bytes_of(d, i),
                                  e);
    return s;
}

// Median of some launches, in microseconds.
static double time_kernel(Run *r, const BuiltKernel *k, void *const *params, const int64_t *dims)
{
    enum { SAMPLES = 11 };
    double us[SAMPLES];
    for (int i = 0; i < SAMPLES; i++) {
        int64_t ns;
        Error e = {0};
        if (r->gpu->ops->mark(r->gpu, 0, &e) ||
            launch_kernel(r->gpu, &k->runtime, params, dims, &e) ||
            r->gpu->ops->mark(r->gpu, 1, &e) || r->gpu->ops->mark_ns(r->gpu, 0, 1, &ns, &e))
            return -1;
        double t = (double)ns / 1e3;
        int at = i;
        for (; at > 0 && us[at - 1] > t; at--) us[at] = us[at - 1];
        us[at] = t;
    }
    return us[SAMPLES / 2];
}

static void shape_text(const CudaCase *c, char *text, size_t size)
{
    int used = 0;
    text[0] = 0;
    for (int i = 0; i < c->ndim && used >= 0 && used < (int)size; i++)
        used += snprintf(text + used, size - (size_t)used, "%s%" PRId64, i ? "x" : "", c->dims[i]);
}

static void report(Run *r, CudaCase *c, const CaseData *d, const char *how, double error,
                   double tolerance, double us)
{
    char shape[64];
    int64_t bytes = 0;
    shape_text(c, shape, sizeof shape);
    for (int i = 0; i < d->n; i++) bytes += bytes_of(d, i);
    bool ok = error <= tolerance;
    *(ok ? &r->passed : &r->failed) += 1;
    printf("%-24s %-4s %-16s %-6s %9.2e %s", c->row->kernel, dtypes[d->type[0]].name, shape, how,
           error, ok ? "ok    " : "WRONG ");
    if (us > 0) printf(" %10.1f us %8.1f GB/s", us, (double)bytes / us / 1e3);
    printf("\n");
}

static bool run_set(Run *r, CudaCase *c, const Kernel *kernel, const BuiltKernel *k,
                    const char *how)
{
    CaseData want, got;
    OnGpu g = {{NULL}};
    Error e = {0};
    double tolerance, us = -1;
    c->kernel = (Kernel *)kernel;
    case_data_new(c, &got);
    case_data_fill(&got, 1);
    heald_status s = upload(r, &got, &g, &e);
    if (!s) s = launch_kernel(r->gpu, &k->runtime, g.at, c->dims, &e);
    if (!s) s = device_synchronise(r->gpu, &e);
    if (!s) s = download(r, &got, &g, &e);
    if (!s && r->timed) us = time_kernel(r, k, g.at, c->dims);
    for (int i = 0; i < got.n; i++) r->gpu->ops->free(r->gpu, g.at[i]);
    bool ok = s ? failed(r, c->row, "on the GPU", e.text) : true;
    const char *why = ok ? case_meaning(c) : NULL;
    if (why) ok = failed(r, c->row, "its meaning", why);
    if (ok) {
        case_data_new(c, &want);
        case_data_convert(&got, &want);
        ok = run_meaning(r, c, &want);
        double error = ok ? case_error(&want, &got, &tolerance) : 0;
        if (ok) report(r, c, &got, how, error, tolerance, us);
        case_data_free(&want);
    }
    case_data_free(&got);
    fflush(stdout);
    return ok;
}

static const char *instantiate(CudaCase *c, const char *list, bool fixed)
{
    c->fixed = c->aligned = fixed && case_dims(c, list, 0);
    const char *why = case_instance(c, NULL);
    c->fixed = c->aligned = false;
    return why;
}

static void run_row(Run *r, const CaseRow *row, bool fixed)
{
    CudaCase *c;
    BuiltKernel *k = NULL;
    Error e = {0};
    const char *lists[] = {row->small, r->small ? "" : row->large};
    const char *of = *lists[1] ? lists[1] : lists[0], *why = case_new(row, r->arch, &c);
    if (!why) why = instantiate(c, of, fixed);
    if (why) {
        failed(r, row, "instantiating", why);
        case_free(c);
        return;
    }
    const Kernel *kernel = kernel_clone(&c->arena, c->kernel); // with its own extents, not lowered
    if (build(r, c, &k, "compiling")) {
        heald_status s = kernel_load_on(&c->arena, k, r->gpu, &e);
        if (s) failed(r, row, "loading", e.text);
        if (!s && fixed) {
            case_dims(c, of, 0);
            run_set(r, c, kernel, k, "fixed");
        }
        for (int l = 0; l < 2 && !s && !fixed; l++)
            for (int i = 0; case_dims(c, lists[l], i); i++)
                if (!run_set(r, c, kernel, k, "")) break;
        kernel_release(k);
    }
    case_free(c);
}

// ---- all

static heald_status prepare(Run *r, const char **why)
{
    Error e = {0};
    Target host;
    heald_status s = device_open(&device_cuda, NULL, &r->gpu, &e);
    if (s) {
        *why = arena_strdup(&r->arena, e.text);
        return s;
    }
    const CudaInfo *i = cuda_info(r->gpu);
    r->arch = arena_printf(&r->arena, i->arch == 90 ? "sm_%da" : "sm_%d", i->arch);
    printf("%s, %s, %d multiprocessors, driver for CUDA %d.%d\n", i->name, r->arch,
           i->nmultiprocessor, i->driver_version / 1000, i->driver_version % 1000 / 10);
    target_host(&host);
    r->builder.cuda = cuda_toolchain_find(&r->arena, why);
    if (!r->builder.cuda || !toolchain_find(&r->arena, &host, &r->cc, why)) return HEALD_COMPILE;
    printf("%s, %s\n", cuda_toolchain_version(r->builder.cuda), r->cc.version);
    r->builder.toolchain = &r->cc;
    r->builder.cache = cache_open(&r->arena, cache_default_dir(&r->arena), 0, why);
    if (!r->builder.cache) return HEALD_IO;
    s = device_open(&device_cpu, NULL, &r->cpu, &e);
    if (s) *why = arena_strdup(&r->arena, e.text);
    return s;
}

int main(int argc, char **argv)
{
    Run r = {.timed = true};
    const char *why = NULL;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "small")) r.small = true;
        else if (!strcmp(argv[i], "notime")) r.timed = false;
        else r.only = argv[i];
    }
    heald_status s = prepare(&r, &why);
    if (s) {
        printf("%s\n", why);
        return s == HEALD_DEVICE ? 77 : 2;
    }
    printf("%-24s %-4s %-16s %-6s %9s\n", "kernel", "type", "extents", "", "error");
    for (size_t i = 0; i < COUNT(case_rows); i++)
        for (int fixed = 0; fixed < 2; fixed++)
            if (!r.only || strstr(case_rows[i].kernel, r.only)) run_row(&r, &case_rows[i], fixed);
    printf("%d passed, %d failed\n", r.passed, r.failed);
    device_close(r.cpu);
    device_close(r.gpu);
    arena_free(&r.arena);
    return r.failed > 0;
}
