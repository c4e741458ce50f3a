// SPDX-License-Identifier: Apache-2.0
// Measuring a machine's ceilings with three small kernels in the language. The chains of fma_peak
// start from data, so that the compiler cannot see that they could be one.
#include "judge/ceiling.h"

#include "base/os.h"
#include "judge/script.h"
#include "judge/timing.h"
#include "runtime/memory.h"

#include <stdio.h>
#include <string.h>

static const char script[] =
    "kernel fma_peak(x: f32[12, w], z: f32[w], blocks: f32[b]) -> (y: f32[b, 12, w]) on cpu {\n"
    "    launch grid(b);\n"
    "    let tile = repeat(12, 1) * spatial(1, device.lanes(f32));\n"
    "    local sum: f32[12, device.lanes(f32)] over tile(lane);\n"
    "    for i, j in tile(lane) { sum[i, j] = x[i, j]; }\n"
    "    for l in 0 .. 10000 {\n"
    "        for i, j in tile(lane) { sum[i, j] = fma(sum[i, j], z[j], z[j]); }\n"
    "    }\n"
    "    for i, j in tile(lane) { y[block.x, i, j] = sum[i, j]; }\n"
    "}\n"
    "kernel stream(x: f32[n], z: f32[n]) -> (y: f32[n]) on cpu {\n"
    "    let lanes = device.lanes(f32);\n"
    "    launch grid(ceil(n, 16384));\n"
    "    for j in block.x * 16384 .. min(block.x * 16384 + 16384, n) step lanes {\n"
    "        for l in spatial(lanes)(lane) { y[j + l] = fma(z[j + l], 0.5, x[j + l]); }\n"
    "    }\n"
    "}\n"
    "kernel nothing(x: f32[n]) -> (y: f32[n]) on cpu {\n"
    "    launch grid(n);\n"
    "    y[block.x] = x[block.x];\n"
    "}\n";

typedef struct Measure {
    Arena *arena;
    Interner *names;
    const Target *target;
    const Builder *builder;
    Device *device;
    Library library;
    Diag *diag;
    Error *error;
} Measure;

static heald_status load_script(Measure *m)
{
    Sources *sources = m->diag->sources;
    const Source *s = sources_add(sources, "ceilings.hd", script, sizeof script - 1);
    library_init(&m->library, m->arena, m->names, sources);
    Node *file = s ? parse_file(m->arena, m->names, s, m->diag) : NULL;
    return file && library_add(&m->library, file, m->diag) ? HEALD_OK : HEALD_DIAGNOSTIC;
}

static void *filled(Arena *a, int64_t nelem)
{
    uintptr_t p = (uintptr_t)arena_alloc(a, (size_t)nelem * sizeof(float) + MEMORY_ALIGN);
    float *at = (float *)((p + MEMORY_ALIGN - 1) / MEMORY_ALIGN * MEMORY_ALIGN);
    for (int64_t i = 0; i < nelem; i++) at[i] = 0.25f;
    return at;
}

static heald_status measure(Measure *m, const char *kernel, const char *shape, double *seconds,
                            const ScriptKernel **script_kernel)
{
    const Node *decl = map_get(&m->library.kernels, intern(m->names, kernel));
    ScriptOptions o = {.extents = {1, {1}, 1, 0}};
    script_parse_shape(&o, m->arena, m->names, shape);
    ScriptKernel *k = script_instantiate(m->arena, &m->library, m->target, decl, &o, m->diag);
    if (!k) return HEALD_DIAGNOSTIC;
    BuiltKernel *built;
    heald_status s =
        kernel_build(m->builder, m->arena, k->kernel, kernel, &built, m->diag, m->error);
    if (s) return s;
    void **data = NEW_ARRAY(m->arena, void *, k->nparam);
    int64_t *bytes = NEW_ARRAY(m->arena, int64_t, k->nparam);
    for (int i = 0; i < k->nparam; i++) {
        int64_t n = 1;
        for (int r = 0; r < k->param[i].rank; r++) n *= k->param[i].dims[r];
        data[i] = filled(m->arena, n);
        bytes[i] = n * (int64_t)sizeof(float);
    }
    Timing t;
    s = time_kernel(m->device, &built->runtime, k->dims, data, bytes,
                    &(TimingOptions){.budget_s = 0.4}, &t, m->error);
    kernel_release(built);
    *seconds = t.min_s;
    *script_kernel = k;
    return s;
}

static heald_status measure_all(Measure *m, Ceilings *out)
{
    enum { LOOPS = 10000, CHAINS = 12 };
    int threads = m->device->ops->nthread ? m->device->ops->nthread(m->device) : 1;
    int lanes = m->target->vector_bytes / (int)sizeof(float);
    const ScriptKernel *k;
    double seconds;
    heald_status s = measure(m, "fma_peak", arena_printf(m->arena, "b=%d,w=%d", 4 * threads, lanes),
                             &seconds, &k);
    if (s) return s;
    out->flops = 2.0 * LOOPS * CHAINS * lanes * 4 * threads / seconds;
    // Each array alone is larger than the last-level cache; the three are at most 768 MiB.
    int64_t n = min_i64(max_i64(2 * m->target->l3_bytes, 32 << 20), 256 << 20) / 4;
    s = measure(m, "stream", arena_printf(m->arena, "n=%lld", (long long)n), &seconds, &k);
    if (s) return s;
    out->bandwidth = 3.0 * 4 * (double)n / seconds;
    s = measure(m, "nothing", arena_printf(m->arena, "n=%d", 2 * threads), &seconds, &k);
    out->launch_s = seconds;
    out->narrow_flops = out->flops;
    return s;
}

// ---- what they say

const char *ceilings_limit(const Ceilings *c, const Work *w, double seconds)
{
    double compute = w->flops / c->flops / seconds, memory = w->bytes / c->bandwidth / seconds;
    if (seconds < 4 * c->launch_s) return "launching it";
    if (compute < 0.25 && memory < 0.25) return "latency: neither ceiling is near";
    return compute > memory ? "compute" : "memory bandwidth";
}

double ceilings_share(const Ceilings *c, const Work *w, double seconds)
{
    double compute = w->flops / c->flops, memory = w->bytes / c->bandwidth;
    return seconds > 0 ? (compute > memory ? compute : memory) / seconds : 0;
}

// ---- kept in a file

const char *cpu_name(Arena *a)
{
    char *text;
    size_t size;
    if (file_read(a, "/proc/cpuinfo", &text, &size)) return "unknown CPU";
    for (char *line = text; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, "model name", 10)) continue;
        char *colon = strchr(line, ':');
        if (colon) return arena_strndup(a, colon + 2, strcspn(colon + 2, "\n"));
    }
    return "unknown CPU";
}

// A line of the file: the numbers, then the machine they belong to.
static bool find_line(const char *text, const char *machine, Ceilings *out)
{
    for (const char *line = text; *line;) {
        size_t n = strcspn(line, "\n");
        int at = 0;
        Ceilings c;
        if (sscanf(line, "%lf flops/s, %lf bytes/s, launch %lf s, %n", &c.flops, &c.bandwidth,
                   &c.launch_s, &at) == 3 &&
            at > 0 && n == (size_t)at + strlen(machine) &&
            !memcmp(line + at, machine, strlen(machine))) {
            c.narrow_flops = c.flops;
            *out = c;
            return true;
        }
        line += n + (line[n] == '\n');
    }
    return false;
}

// ---- GPUs

// By compute capability: float32 fmas of a multiprocessor in a cycle, and products of 16-bit floats
// summed in float32 on tensor cores (dense; NVIDIA's data sheets).
static const struct GpuRates {
    int arch, f32, narrow;
} gpu_rates[] = {
    //   arch  f32  narrow
    {75, 64, 512},   {80, 64, 1024},   {86, 128, 512},  {89, 128, 512},
    {90, 128, 2048}, {100, 128, 4096}, {120, 128, 512},
};

static void ceilings_of_gpu(const CudaInfo *g, Ceilings *out)
{
    const struct GpuRates *r = &gpu_rates[0];
    for (size_t i = 0; i < COUNT(gpu_rates); i++)
        if (gpu_rates[i].arch <= g->arch) r = &gpu_rates[i];
    double cycles = (double)g->nmultiprocessor * g->clock_hz;
    *out = (Ceilings){.flops = 2 * r->f32 * cycles,
                      .narrow_flops = 2 * r->narrow * cycles,
                      .bandwidth = g->bandwidth,
                      .launch_s = 1.2e-6};
}

// ---- the whole

heald_status ceilings_get(const char *dir, Interner *names, const Target *t, const Builder *b,
                          Device *d, Arena *a, Ceilings *out, Diag *diag, Error *e)
{
    if (t->kind == TARGET_CUDA) {
        ceilings_of_gpu(cuda_info(d), out);
        return HEALD_OK;
    }
    const char *path = path_join(a, dir, "ceilings.txt"), *why;
    const char *machine =
        arena_printf(a, "%s, %d threads, %s", cpu_name(a), d->ops->nthread ? d->ops->nthread(d) : 1,
                     b->toolchain->version);
    char *text = "";
    size_t size = 0;
    if (path_exists(path) && (why = file_read(a, path, &text, &size)))
        return error_set(e, HEALD_IO, "%s", why);
    if (find_line(text, machine, out)) return HEALD_OK;
    Measure m = {.arena = a,
                 .names = names,
                 .target = t,
                 .builder = b,
                 .device = d,
                 .diag = diag,
                 .error = e};
    heald_status s = load_script(&m);
    if (!s) s = measure_all(&m, out);
    if (s) return s;
    const char *all = arena_printf(a, "%s%.6g flops/s, %.6g bytes/s, launch %.3g s, %s\n", text,
                                   out->flops, out->bandwidth, out->launch_s, machine);
    why = file_write_atomic(a, path, all, strlen(all));
    return why ? error_set(e, HEALD_IO, "%s", why) : HEALD_OK;
}
