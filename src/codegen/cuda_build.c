// SPDX-License-Identifier: Apache-2.0
// Building CUDA kernels: an entry of the cache holds source.cu, kernel.cubin or kernel.ptx, and
// log.txt with the assembler's figures. Loading is apart, as it belongs to a device and its thread.
#include "codegen/cuda_build.h"

#include "base/os.h"

#include <string.h>

bool cuda_fill_stages(const Kernel *k, RuntimeKernel *r, Diag *d)
{
    for (int i = 0; i < r->nstage; i++) {
        RuntimeStage *stage = &((RuntimeStage *)r->stage)[i];
        CudaStage s;
        if (!cuda_stage(k, k->stages.at[i], &s, d)) return false;
        stage->nthread = s.nthread;
        stage->shared_bytes = s.shared_bytes;
        stage->linear_grid = s.linear_grid;
        stage->cooperative = s.cooperative;
        stage->overlaps = s.overlaps;
    }
    return true;
}

bool cuda_target(Arena *a, int arch, Target *out)
{
    const char *name = arena_printf(a, "sm_%d", arch);
    if (target_cuda(out, arena_printf(a, "%sa", name)) || target_cuda(out, name)) return true;
    int below = arch;
    while (below > 0 && !target_cuda(out, arena_printf(a, "sm_%d", below))) below--;
    out->arch = name;
    return below > 0;
}

typedef struct Compile {
    const CudaToolchain *toolchain;
    const CudaFlags *flags;
    const char *text;
} Compile;

static const char *image_name(const CudaFlags *f)
{
    return f->ptx ? "kernel.ptx" : "kernel.cubin";
}

static const char *compile_entry(void *user, Arena *a, const char *dir, CacheFailure *failure)
{
    const Compile *c = user;
    const char *source = path_join(a, dir, "source.cu"),
               *image = path_join(a, dir, image_name(c->flags));
    char *log = "";
    const char *why = file_write(a, source, c->text, strlen(c->text));
    if (why) return why;
    why = cuda_toolchain_compile(a, c->toolchain, c->flags, c->text, source, image, &log);
    return build_log(a, dir, log, why, failure);
}

heald_status cuda_build(const Builder *b, Arena *a, const char *op, BuiltKernel *out, Error *e)
{
    if (!b->cuda) return error_set(e, HEALD_COMPILE, "no compiler for CUDA was given");
    CudaFlags flags = cuda_toolchain_flags(b->cuda, a, out->kernel->target.arch);
    if (b->lines) flags.text = arena_printf(a, "%s --generate-line-info", flags.text);
    const char *key = arena_printf(a, "%s\n// %s\n// %s\n", out->source,
                                   cuda_toolchain_version(b->cuda), flags.text);
    Compile c = {.toolchain = b->cuda, .flags = &flags, .text = out->source};
    const char *why = cache_get(b->cache, a, op, key, compile_entry, &c, &out->dir, &out->cached);
    if (why) return error_set(e, HEALD_COMPILE, "%s", why);
    out->image = path_join(a, out->dir, image_name(&flags));
    return HEALD_OK;
}

heald_status kernel_load_on(Arena *a, BuiltKernel *k, Device *d, Error *e)
{
    if (!k->image || k->loaded) return HEALD_OK;
    if (!d->ops->load_module || !d->ops->find_entry)
        return error_set(e, HEALD_UNSUPPORTED, "device %s cannot load kernel %s", d->ops->name,
                         k->runtime.name);
    heald_status s = d->ops->load_module(d, k->image, &k->loaded, e);
    if (s) return s;
    k->device = d;
    for (int i = 0; !s && i < k->runtime.nstage; i++) {
        RuntimeStage *stage = &((RuntimeStage *)k->runtime.stage)[i];
        const char *symbol = arena_printf(a, "%s_%s", k->runtime.name, stage->name);
        s = d->ops->find_entry(d, k->loaded, symbol, stage, e);
    }
    return s;
}
