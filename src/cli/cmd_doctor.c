// SPDX-License-Identifier: Apache-2.0
// heald doctor: what this machine offers, what is missing and which Debian package brings it, and
// where the values of options come from.
#include "base/os.h"
#include "cli/cli.h"
#include "judge/ceiling.h"
#include "runtime/cuda.h"
#include "runtime/nvtx.h"

#include <jansson.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

typedef struct Doctor {
    Cli *cli;
    bool ill;                      // something that is needed is missing
    bool gpu;                      // there is one
    const char *broken[OPT_COUNT]; // why an option's value does not work
} Doctor;

static void heading(const char *text)
{
    printf("%s\n", text);
}

static void line(const char *name, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void line(const char *name, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    printf("  %-14s ", name);
    vprintf(fmt, ap);
    printf("\n");
    va_end(ap);
}

// Whether there is one.
static bool gpu(const heald_context *c)
{
    Device *device = NULL;
    Error e = {0};
    DeviceOptions o = {.ordinal = c->options.device};
    if (device_open(&device_cuda, &o, &device, &e)) {
        line("GPU", "none: %s", e.text);
        if (strstr(e.text, "no NVIDIA driver")) line("", "the package libcuda1 brings the driver");
        return false;
    }
    const CudaInfo *i = cuda_info(device);
    line("GPU", "%s, compute capability %d.%d, %d multiprocessors, %.1f GiB", i->name, i->arch / 10,
         i->arch % 10, i->nmultiprocessor, (double)i->memory_bytes / (1 << 30));
    line("", "driver for CUDA %d.%d", i->driver_version / 1000, i->driver_version % 1000 / 10);
    device_close(device);
    return true;
}

static void machine(Doctor *d, heald_context *c, Arena *a)
{
    const Target *t = &c->host;
    heading("Machine");
    line("processor", "%s, %d cores for this process", cpu_name(a), cpu_count());
    line("vectors", "%d bytes (%d f32), %d registers", t->vector_bytes, t->vector_bytes / 4,
         t->nregister);
    line("caches", "L1 %lld KiB, L2 %lld KiB, L3 %lld KiB", (long long)t->l1_bytes / 1024,
         (long long)t->l2_bytes / 1024, (long long)t->l3_bytes / 1024);
    d->gpu = gpu(c);
}

static void compilers(Doctor *d, heald_context *c)
{
    heading("Compilers");
    if (context_toolchain(c) == HEALD_OK) {
        line("C", "%s, %s", c->toolchain.cc, c->toolchain.version);
        line("", "%s", c->toolchain.flags);
    } else {
        d->ill = true;
        line("C", "MISSING: %s", c->error.text);
        line("", "without one, only --target interp works");
    }
    const char *why = NULL;
    const CudaToolchain *t = cuda_toolchain_find(&c->arena, &why);
    line("CUDA", "%s%s", t || !d->gpu ? "" : "MISSING: ", t ? cuda_toolchain_version(t) : why);
    d->ill |= d->gpu && !t;
}

static void cache(Doctor *d, heald_context *c, Arena *a)
{
    const char *dir = context_cache_dir(c, a);
    heading("Cache");
    if (context_cache(c)) {
        d->ill = true;
        line("folder", "UNUSABLE: %s", c->error.text);
        return;
    }
    if (access(dir, W_OK) != 0) {
        d->ill = true;
        line("folder", "%s: CANNOT BE WRITTEN; --cache-dir or HEALD_CACHE_DIR name another", dir);
        return;
    }
    CacheEntry *entry;
    int n, ndamaged = 0;
    int64_t bytes = 0;
    const char *why = cache_list(c->cache, a, &entry, &n);
    for (int i = 0; !why && i < n; i++) {
        bytes += entry[i].size_bytes;
        ndamaged += entry[i].damaged;
    }
    line("folder", "%s", dir);
    if (why) line("entries", "%s", why);
    else
        line("entries", "%d, %.1f MiB%s", n, (double)bytes / (1 << 20),
             ndamaged ? "; some are damaged: heald cache check" : "");
}

static void ranges(void)
{
    Error e = {0};
    const char *profiler = nvtx_profiler();
    if (!profiler) line("NVTX", "no profiler watches (NVTX_INJECTION64_PATH is not set)");
    else if (nvtx_open(&e)) line("NVTX", "no ranges: %s", e.text);
    else line("NVTX", "ranges go to %s", profiler);
}

static void libraries(heald_context *c)
{
    heading("Libraries");
    line("heald", "%d.%d.%d, %d operators, %d kernels", HEALD_VERSION_MAJOR, HEALD_VERSION_MINOR,
         HEALD_VERSION_PATCH, c->library.ops.n, c->library.kernels.n);
    line("libpng", "%s", png_get_libpng_ver(NULL));
    line("zlib", "%s", zlibVersion());
    line("jansson", "%s", jansson_version_str());
    ranges();
}

// For those who test Heald itself; nothing that a user needs.
static void test_data(void)
{
    static const char *const places[] = {"/usr/share/libonnx-testdata/data",
                                         "/usr/lib/python3/dist-packages/onnx/backend/test/data"};
    const char *models = getenv("HEALD_MODELS"), *found = NULL;
    for (size_t i = 0; i < COUNT(places) && !found; i++)
        if (path_is_dir(places[i])) found = places[i];
    heading("Test data");
    line("models", "%s", models && *models ? models : "HEALD_MODELS names no folder");
    line("ONNX", "%s", found ? found : "none (the package libonnx-testdata brings it)");
}

static void options(const Doctor *d, Arena *a)
{
    const Cli *c = d->cli;
    heading("Options");
    for (int i = 0; i < OPT_COUNT; i++) {
        const OptionInfo *o = &option_info[i];
        if (!option_is_common(o) || i == OPT_HELP) continue;
        const char *value = c->options.text[i];
        const char *from = "not given";
        if (c->options.from[i] == FROM_FLAG) from = "given on the command line";
        if (c->options.from[i] == FROM_DEFAULT) from = "the default";
        if (c->options.from[i] == FROM_ENVIRONMENT)
            from = arena_printf(a, "from the environment's %s", o->environment);
        line(o->name, "%-12s %s", value && *value ? value : "-", from);
        if (d->broken[i]) line("", "DOES NOT WORK: %s", d->broken[i]);
    }
    const char *cc = getenv("HEALD_CC");
    line("HEALD_CC", "%-12s %s", cc && *cc ? cc : "-",
         cc && *cc ? "from the environment" : "not given");
}

static heald_status doctor_body(heald_context *c, Arena *a, void *user)
{
    Doctor *d = user;
    machine(d, c, a);
    compilers(d, c);
    cache(d, c, a);
    libraries(c);
    test_data();
    options(d, a);
    printf("%s\n", d->ill ? "Something is missing." : "All that is needed is there.");
    return HEALD_OK;
}

static bool reopen(Cli *c)
{
    heald_context_destroy(c->context);
    c->context = NULL;
    return cli_open(c) == HEALD_OK;
}

// A context with those of the options that work. NULL with the error printed.
static heald_context *patient(Doctor *d)
{
    static const OptionId suspect[] = {OPT_PATH, OPT_TARGET, OPT_PRECISION, OPT_SEARCH_SPACE};
    static const char *const healthy[] = {NULL, "cpu", "f32", "0"};
    const char *was[COUNT(suspect)];
    Cli *c = d->cli;
    if (cli_open(c) == HEALD_OK) return c->context;
    if (!c->context) return NULL;
    for (size_t i = 0; i < COUNT(suspect); i++) {
        was[i] = c->options.text[suspect[i]];
        c->options.text[suspect[i]] = healthy[i];
    }
    for (size_t i = 0; i < COUNT(suspect); i++) {
        c->options.text[suspect[i]] = was[i];
        if (reopen(c)) continue;
        if (!c->context) return NULL;
        const char *why = heald_last_error(c->context);
        if (!strncmp(why, "error: ", 7)) why += 7;
        d->broken[suspect[i]] = arena_strndup(&c->arena, why, strcspn(why, "\n"));
        c->options.text[suspect[i]] = healthy[i];
        d->ill = true;
    }
    bool well = reopen(c);
    for (size_t i = 0; i < COUNT(suspect); i++) c->options.text[suspect[i]] = was[i];
    if (well) return c->context;
    cli_context_error(c);
    return NULL;
}

int cmd_doctor(Cli *c)
{
    Doctor d = {.cli = c};
    if (!patient(&d)) return EXIT_ERROR;
    if (context_call(c->context, doctor_body, &d)) return cli_context_error(c);
    return d.ill ? EXIT_CHECK_FAILED : EXIT_DONE;
}
