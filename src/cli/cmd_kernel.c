// SPDX-License-Identifier: Apache-2.0
// heald kernel build, source and run.
#include "base/os.h"
#include "cli/kernel_job.h"
#include "codegen/cuda.h"
#include "frontends/tensor_file.h"
#include "ir/interp.h"

#include <stdio.h>
#include <string.h>

static const ScriptExtents small_primes = {4, {17, 19, 23, 13}, 2, 0};

// ---- build

static heald_status build_one(KernelJob *j, const Node *decl)
{
    ScriptKernel *k = kernel_instantiate(j, decl, j->arena);
    if (!k) return HEALD_DIAGNOSTIC;
    bool gpu = k->kernel->target.kind == TARGET_CUDA;
    if (j->context->interpret || gpu != (j->context->target.kind == TARGET_CUDA)) {
        printf("%s (%s): instantiated\n", decl->u.sym, k->extents);
        return HEALD_OK;
    }
    BuiltKernel *b;
    heald_status s = kernel_compile(j, k, j->arena, &b);
    if (s) return s;
    printf("%s (%s): %s\n", decl->u.sym, k->extents, b->dir);
    kernel_release(b);
    return HEALD_OK;
}

static heald_status build_body(KernelJob *j)
{
    return kernel_each(j, build_one);
}

int cmd_kernel_build(Cli *c)
{
    return kernel_command(c, PICK_ALL, &small_primes, build_body);
}

// ---- source

enum { SOURCE_IR, SOURCE_LOWERED, SOURCE_C, SOURCE_CUDA, SOURCE_TEXT };

static int source_stage(KernelJob *j)
{
    static const char *const names[] = {"ir", "lowered", "c", "cuda"};
    const char *wanted = cli_text(j->cli, OPT_STAGE);
    if (!wanted) return SOURCE_TEXT;
    for (int i = 0; i < (int)COUNT(names); i++)
        if (!strcmp(wanted, names[i])) return i;
    error_set(&j->context->error, HEALD_INVALID_ARGUMENT,
              "--stage %s: the stages are ir, lowered, c and cuda", wanted);
    return -1;
}

// The text of the compiler's language, for which the kernel must be made.
static heald_status print_source(KernelJob *j, const ScriptKernel *k, int stage, Buf *out)
{
    heald_context *c = j->context;
    bool cuda = k->kernel->target.kind == TARGET_CUDA;
    if (stage != SOURCE_TEXT && cuda != (stage == SOURCE_CUDA)) {
        return error_set(&c->error, HEALD_INVALID_ARGUMENT, "kernel %s is for %s: use --stage %s",
                         k->decl->u.sym, cuda ? "CUDA" : "CPUs", cuda ? "cuda" : "c");
    }
    const Sources *lines = c->options.debug ? &c->sources : NULL;
    bool ok = (cuda ? codegen_cuda : codegen_c)(k->kernel, lines, out, &c->diag);
    return ok ? HEALD_OK : HEALD_DIAGNOSTIC;
}

static bool is_pass(const char *name)
{
    for (int i = 0; i < npass; i++)
        if (!strcmp(name, passes[i].name)) return true;
    return !strcmp(name, "all");
}

static heald_status source_one(KernelJob *j, const Node *decl)
{
    heald_context *c = j->context;
    const char *after = cli_text(j->cli, OPT_PRINT_AFTER);
    int stage = source_stage(j);
    ScriptKernel *k = kernel_instantiate(j, decl, j->arena);
    if (!k) return HEALD_DIAGNOSTIC;
    Buf out;
    buf_init(&out, j->arena);
    PassOptions o = {
        .verify = true, .traps = c->options.debug, .print_after = after, .printed = &out};
    if (after && strcmp(after, "all")) o.stop_after = after;
    if (after || stage != SOURCE_IR) {
        if (k->kernel->target.kind == TARGET_CUDA) cuda_bound_dims(k->kernel);
        if (!passes_run(k->kernel, &o, &c->diag)) return HEALD_DIAGNOSTIC;
    }
    heald_status s = HEALD_OK;
    if (!after && stage >= SOURCE_C) s = print_source(j, k, stage, &out);
    else if (!after) kernel_print(k->kernel, &out);
    if (s) return s;
    if (decl != j->kernels.at[0]) putchar('\n');
    fputs(buf_text(&out), stdout);
    return HEALD_OK;
}

static heald_status source_body(KernelJob *j)
{
    const char *after = cli_text(j->cli, OPT_PRINT_AFTER);
    if (source_stage(j) < 0) return HEALD_INVALID_ARGUMENT;
    if (after && !is_pass(after)) {
        return error_set(&j->context->error, HEALD_NOT_FOUND,
                         "--print-after %s: no such pass; 'heald passes' lists them", after);
    }
    return kernel_each(j, source_one);
}

int cmd_kernel_source(Cli *c)
{
    return kernel_command(c, PICK_STAGE, &small_primes, source_body);
}

// ---- run

static void print_values(const ScriptParam *p, const KernelData *d, int i)
{
    enum { SHOWN = 8 };
    const char *at = d->at[i];
    for (int64_t k = 0; k < d->nelem[i] && k < SHOWN; k++)
        cli_print_element(p->type, at + (size_t)k * dtype_size(p->type));
    printf("%s\n", d->nelem[i] > SHOWN ? " ..." : "");
}

// Several kernels have a folder each.
static heald_status write_output(KernelJob *j, const Node *decl, const ScriptParam *p,
                                 const void *data)
{
    const char *dir = cli_text(j->cli, OPT_OUTPUT_DIR);
    if (!dir) return HEALD_OK;
    if (j->kernels.n > 1) dir = path_join(j->arena, dir, decl->u.sym);
    HostTensor t = {.name = p->name, .dtype = p->type, .rank = p->rank, .data = data};
    memcpy(t.dims, p->dims, (size_t)p->rank * sizeof *p->dims);
    const char *why = dir_make(j->arena, dir);
    const char *path = path_join(j->arena, dir, arena_printf(j->arena, "%s.npy", p->name));
    if (!why) why = tensor_write_npy(j->arena, path, &t);
    return why ? error_set(&j->context->error, HEALD_IO, "%s", why) : HEALD_OK;
}

static heald_status run_interpreter(KernelJob *j, const ScriptKernel *k, const KernelData *d)
{
    InterpOptions o = {.check_races = true, .max_steps = j->max_steps};
    return interp_run(k->kernel, d->at, k->dims, &o, &j->context->diag) ? HEALD_OK
                                                                        : HEALD_DIAGNOSTIC;
}

// Through memory of a device that has its own.
static heald_status launch_there(Device *device, const BuiltKernel *b, const ScriptKernel *k,
                                 const KernelData *d, void **at, Error *e)
{
    heald_status s = HEALD_OK;
    for (int i = 0; !s && i < d->n; i++) {
        s = device->ops->allocate(device, d->bytes[i], &at[i], e);
        if (!s) s = device->ops->copy(device, COPY_HOST_TO_DEVICE, at[i], d->at[i], d->bytes[i], e);
    }
    if (!s) s = launch_kernel(device, &b->runtime, at, k->dims, e);
    for (int i = 0; !s && i < d->n; i++)
        if (k->param[i].output)
            s = device->ops->copy(device, COPY_DEVICE_TO_HOST, d->at[i], at[i], d->bytes[i], e);
    if (!s) s = device_synchronise(device, e);
    return s;
}

static heald_status run_compiled(KernelJob *j, const ScriptKernel *k, const KernelData *d)
{
    heald_context *c = j->context;
    BuiltKernel *b;
    heald_status s = kernel_compile(j, k, j->arena, &b);
    if (s) return s;
    s = context_device(c);
    if (!s) s = kernel_load_on(j->arena, b, c->device, &c->error);
    if (!s && c->device->ops->host_memory) {
        s = launch_kernel(c->device, &b->runtime, d->at, k->dims, &c->error);
    } else if (!s) {
        void **at = NEW_ARRAY(j->arena, void *, d->n);
        s = launch_there(c->device, b, k, d, at, &c->error);
        for (int i = 0; i < d->n; i++) c->device->ops->free(c->device, at[i]);
    }
    kernel_release(b);
    return s;
}

static heald_status run_one(KernelJob *j, const Node *decl)
{
    ScriptKernel *k = kernel_instantiate(j, decl, j->arena);
    if (!k) return HEALD_DIAGNOSTIC;
    KernelData d = kernel_data(j->arena, k);
    heald_status s = kernel_data_fill(j, k, &d, false);
    if (s) return s;
    s = j->context->interpret ? run_interpreter(j, k, &d) : run_compiled(j, k, &d);
    if (!s && j->kernels.n > 1) printf("%s (%s)\n", decl->u.sym, k->extents);
    for (int i = 0; i < d.n && !s; i++) {
        if (!k->param[i].output) continue;
        printf("%s: %s", k->param[i].name, param_text(j->arena, &k->param[i]));
        print_values(&k->param[i], &d, i);
        s = write_output(j, decl, &k->param[i], d.at[i]);
    }
    return s;
}

static heald_status run_body(KernelJob *j)
{
    return kernel_each(j, run_one);
}

int cmd_kernel_run(Cli *c)
{
    return kernel_command(c, PICK_TARGET, &small_primes, run_body);
}
