// SPDX-License-Identifier: Apache-2.0
// float32 matmul on one core against OpenBLAS, in the same run, on the same data, interleaved.
// Prints
// medians, their ratio, and both as a share of the FMA peak measured beforehand. Run it with
// OPENBLAS_CORETYPE unset, or set to Zen or Haswell; the core that OpenBLAS runs is printed.
//   bench_matmul [SIZE...]      default 256 384 512 640 768 1024
#include "base/os.h"
#include "codegen/build.h"
#include "lang/instantiate.h"
#include "ops/ops.h"
#include "runtime/launch.h"

#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SAMPLES = 101 };

extern char *openblas_get_corename(void);
extern void openblas_set_num_threads(int n);

typedef struct Bench {
    Arena arena;
    Sources sources;
    Diag diag;
    Library library;
    Target target;
    Toolchain toolchain;
    Cache *cache;
    Device *device;
} Bench;

static void die(Bench *b, const char *what)
{
    Buf text;
    buf_init(&text, &b->arena);
    diag_render(&b->diag, &text);
    fprintf(stderr, "bench_matmul: %s\n%s", what ? what : "", buf_text(&text));
    exit(2);
}

static int compare(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

static double median(double *sample, int n)
{
    qsort(sample, (size_t)n, sizeof *sample, compare);
    return sample[n / 2];
}

static float *random_matrix(int n, uint64_t seed)
{
    float *x = aligned_alloc(64, ((size_t)n * (size_t)n * sizeof *x + 63) / 64 * 64);
    for (int64_t i = 0; x && i < (int64_t)n * n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        x[i] = (float)(int32_t)(seed >> 33) * (1.0f / 2147483648.0f) - 0.5f;
    }
    return x;
}

// Peak of one core: as many independent chains of fused multiply-adds as registers allow, in
// Heald's
// own language, so that it uses the vectors that the kernels use.
static const char peak_text[] =
    "kernel peak(x: f32[n]) -> (y: f32[n]) on cpu {\n"
    "    let lanes = device.lanes(f32);\n"
    "    let tile = repeat(12) * spatial(lanes);\n"
    "    local s: f32[12 * lanes] over tile(lane);\n"
    "    for i in tile(lane) { s[i] = x[i]; }\n"
    "    let (a, b) = (x[0], x[1]);\n"
    "    for l in 1000000 / lanes { for i in tile(lane) { s[i] = fma(s[i], a, b); } }\n"
    "    for i in tile(lane) { y[i] = s[i]; }\n"
    "}\n";

static BuiltKernel *build(Bench *b, const char *name, int narg, const int64_t (*dims)[2], int rank)
{
    Instance *in = instance_new(&b->arena, &b->library, &b->target, &b->diag);
    Value args[2];
    Map attrs = {0};
    for (int i = 0; i < narg; i++) {
        Value d[2] = {value_int(dims[i][0]), value_int(dims[i][1])};
        args[i] = (Value){.kind = V_TENSOR};
        args[i].u.tensor = instance_input(in, i ? "b" : "a", DT_F32, rank, d);
    }
    Value d[2] = {value_int(dims[narg][0]), value_int(dims[narg][1])};
    Buffer *out = instance_output(in, "c", DT_F32, rank, d);
    Epilogue ep = {.memory = &out, .noutput = 1};
    const Node *kernel = map_get(&b->library.kernels, intern(b->library.names, name));
    if (!kernel || !instance_kernel(in, kernel, narg, args, &attrs, &ep, 1, NULL)) die(b, name);
    Builder builder = {.toolchain = &b->toolchain, .cache = b->cache};
    BuiltKernel *built;
    Error e = {0};
    if (kernel_build(&builder, &b->arena, in->kernel, name, &built, &b->diag, &e)) die(b, e.text);
    return built;
}

static double seconds(Bench *b, BuiltKernel *k, void *const *buffers)
{
    Error e = {0};
    int64_t start = clock_ns();
    if (launch_kernel(b->device, &k->runtime, buffers, NULL, &e)) die(b, e.text);
    return (double)(clock_ns() - start) * 1e-9;
}

static double peak_flops(Bench *b)
{
    const int64_t n = b->target.vector_bytes / 4 * 12, dims[2][2] = {{n, 0}, {n, 0}};
    BuiltKernel *k = build(b, "peak", 1, dims, 1);
    float x[1024], y[1024];
    for (int i = 0; i < 1024; i++) x[i] = 0.999f - (float)i * 0.001f;
    void *buffers[] = {x, y};
    double best = 1e9, lanes = b->target.vector_bytes / 4.0;
    for (int i = 0; i < 101; i++) {
        double t = seconds(b, k, buffers);
        best = t < best ? t : best;
    }
    kernel_release(k);
    return (double)(int64_t)(1000000 / lanes) * 12 * lanes * 2 / best;
}

static double difference(const float *x, const float *y, int n)
{
    double worst = 0;
    for (int64_t i = 0; i < (int64_t)n * n; i++) {
        double d = (double)x[i] - (double)y[i];
        worst = d > worst ? d : -d > worst ? -d : worst;
    }
    return worst;
}

static double row(Bench *b, int n, double peak)
{
    const int64_t dims[3][2] = {{n, n}, {n, n}, {n, n}};
    BuiltKernel *k = build(b, "matmul_cpu", 2, dims, 2);
    float *x = random_matrix(n, 1), *y = random_matrix(n, 2), *c = random_matrix(n, 3),
          *d = random_matrix(n, 4);
    if (!x || !y || !c || !d) die(b, "out of memory");
    void *buffers[] = {x, y, c};
    double ours[MAX_SAMPLES], theirs[MAX_SAMPLES], flops = 2.0 * n * n * n;
    int samples = n <= 512 ? MAX_SAMPLES : 31;
    for (int i = -3; i < samples; i++) { // three warm-ups
        double t = seconds(b, k, buffers);
        int64_t start = clock_ns();
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1, x, n, y, n, 0, d, n);
        double u = (double)(clock_ns() - start) * 1e-9;
        if (i >= 0) ours[i] = t, theirs[i] = u;
    }
    double t = median(ours, samples), u = median(theirs, samples);
    printf("%6d  %8.3f ms %7.1f GFLOP/s %4.0f%%   %8.3f ms %7.1f GFLOP/s %4.0f%%   %6.3f   %.1e\n",
           n, t * 1e3, flops / t / 1e9, 100 * flops / t / peak, u * 1e3, flops / u / 1e9,
           100 * flops / u / peak, u / t, difference(c, d, n));
    kernel_release(k);
    free(x), free(y), free(c), free(d);
    return u / t;
}

int main(int argc, char **argv)
{
    static const int sizes[] = {256, 384, 512, 640, 768, 1024};
    Bench b = {0};
    b.sources.arena = &b.arena;
    diag_init(&b.diag, &b.arena, &b.sources);
    library_init(&b.library, &b.arena, interner_new(&b.arena), &b.sources);
    target_host(&b.target);
    const char *why = NULL;
    Source *s = sources_add(&b.sources, "peak.hd", peak_text, strlen(peak_text));
    Node *f = parse_file(&b.arena, b.library.names, s, &b.diag);
    if (!f || !library_add(&b.library, f, &b.diag) || !ops_load(&b.library, NULL, &b.diag))
        die(&b, "lib");
    if (!toolchain_find(&b.arena, &b.target, &b.toolchain, &why)) die(&b, why);
    b.cache = cache_open(&b.arena, cache_default_dir(&b.arena), 0, &why);
    if (!b.cache) die(&b, why);
    Error e = {0};
    if (device_open(&device_cpu, &(DeviceOptions){.nthread = 1}, &b.device, &e)) die(&b, e.text);
    openblas_set_num_threads(1);
    double peak = peak_flops(&b), product = 1;
    printf("one core; FMA peak %.1f GFLOP/s; OpenBLAS core %s; %s\n", peak / 1e9,
           openblas_get_corename(), b.toolchain.version);
    printf("%6s  %40s   %40s   %6s   %s\n", "n", "Heald: median, share of peak",
           "OpenBLAS: median, share of peak", "ratio", "difference");
    int n = argc > 1 ? argc - 1 : (int)COUNT(sizes);
    for (int i = 0; i < n; i++) product *= row(&b, argc > 1 ? atoi(argv[i + 1]) : sizes[i], peak);
    printf("geometric mean of Heald / OpenBLAS: %.3f\n", __builtin_pow(product, 1.0 / n));
    device_close(b.device);
    arena_free(&b.arena);
    return 0;
}
