// SPDX-License-Identifier: Apache-2.0
// Scripts: read, their options taken, their kernels chosen and given data.
#include "cli/kernel_job.h"

#include "base/os.h"
#include "frontends/tensor_file.h"
#include "ir/interp.h"
#include "runtime/memory.h"

#include <string.h>

typedef struct Call {
    Cli *cli;
    KernelPick pick;
    const ScriptExtents *extents;
    KernelBody *body;
    int64_t seed, max_steps;
    bool failed_check;
} Call;

// What was given several times, as one list.
static const char *joined(Arena *a, const Cli *c, OptionId id)
{
    Buf b;
    buf_init(&b, a);
    for (int i = 0; i < c->options.all[id].n; i++)
        buf_printf(&b, "%s%s", i ? "," : "", c->options.all[id].at[i]);
    return buf_text(&b);
}

static const char *const *list(Arena *a, const Cli *c, OptionId id)
{
    int n = c->options.all[id].n;
    const char **out = NEW_ARRAY(a, const char *, n + 1);
    for (int i = 0; i < n; i++) out[i] = c->options.all[id].at[i];
    return out;
}

static heald_status take_options(KernelJob *j)
{
    Arena *a = j->arena;
    const Cli *c = j->cli;
    heald_compile_options o = {.shape = joined(a, c, OPT_SHAPE),
                               .dynamic = joined(a, c, OPT_DYNAMIC),
                               .types = joined(a, c, OPT_TYPE),
                               .attributes = list(a, c, OPT_ATTR),
                               .choices = list(a, c, OPT_CHOICE)};
    return compile_options_take(j->context, a, &o, &j->options);
}

bool kernel_is_gpu(const Node *decl)
{
    const Node *clauses = decl->kind == N_KERNEL ? decl->kid[KID_KERNEL_clauses] : NULL;
    for (uint32_t i = 0; clauses && i < clauses->nkid; i++) {
        const Node *c = clauses->kid[i], *args = c->kid[KID_CLAUSE_args];
        if (!strcmp(c->u.sym, "on") && args->nkid && !strcmp(args->kid[0]->u.sym, "cuda"))
            return true;
    }
    return false;
}

// Whether kernels for GPUs are asked for: 1, 0, or -1 where that is left open.
static int wants_gpu(const KernelJob *j, KernelPick pick)
{
    const heald_context *c = j->context;
    const char *stage = pick == PICK_STAGE ? cli_text(j->cli, OPT_STAGE) : NULL;
    if (stage && !strcmp(stage, "c")) return 0;
    if (stage && !strcmp(stage, "cuda")) return 1;
    if (pick == PICK_ALL || (c->interpret && c->target.kind == TARGET_CPU)) return -1;
    return c->target.kind == TARGET_CUDA;
}

static heald_status choose_kernels(KernelJob *j, const Node *file, KernelPick pick)
{
    const char *path = j->cli->operand[0], *name = cli_text(j->cli, OPT_KERNEL);
    heald_context *c = j->context;
    heald_status s = file_kernels(c, j->arena, file, path, name, &j->kernels);
    if (s || name) return s;
    if (pick != PICK_ALL && j->kernels.n == 0)
        return error_set(&c->error, HEALD_NOT_FOUND, "%s has no kernel", path);
    int gpu = wants_gpu(j, pick), n = 0;
    for (int i = 0; i < j->kernels.n && gpu >= 0; i++)
        n += kernel_is_gpu(j->kernels.at[i]) == (gpu == 1);
    if (n == 0) return s;
    n = 0;
    for (int i = 0; i < j->kernels.n; i++)
        if (kernel_is_gpu(j->kernels.at[i]) == (gpu == 1)) j->kernels.at[n++] = j->kernels.at[i];
    j->kernels.n = n;
    return s;
}

heald_status kernel_each(KernelJob *j, KernelOne *one)
{
    heald_status first = HEALD_OK;
    for (int i = 0; i < j->kernels.n && (!first || first == HEALD_DIAGNOSTIC); i++) {
        heald_status s = one(j, j->kernels.at[i]);
        if (s && (!first || s != HEALD_DIAGNOSTIC)) first = s;
    }
    return first;
}

static heald_status call_body(heald_context *c, Arena *a, void *user)
{
    Call *call = user;
    KernelJob j = {.cli = call->cli,
                   .context = c,
                   .arena = a,
                   .seed = call->seed,
                   .max_steps = call->max_steps};
    j.options.extents = *call->extents;
    j.options.plain = cli_has(call->cli, OPT_PLAIN);
    const char *path = j.cli->operand[0];
    char *text;
    size_t size;
    Node *file;
    const char *why = file_read(a, path, &text, &size);
    if (why) return error_set(&c->error, HEALD_IO, "%s", why);
    if (!context_add_text(c, path, text, size, &file)) return HEALD_DIAGNOSTIC;
    j.file = file;
    heald_status s = take_options(&j);
    if (!s) s = choose_kernels(&j, file, call->pick);
    if (!s) s = call->body(&j);
    call->failed_check = j.failed_check;
    return s;
}

int kernel_command(Cli *c, KernelPick pick, const ScriptExtents *extents, KernelBody *body)
{
    Call call = {
        .cli = c, .pick = pick, .extents = extents, .body = body, .seed = 1, .max_steps = 1 << 30};
    if (cli_has(c, OPT_SEED) && !cli_int(c, OPT_SEED, 0, INT64_MAX, &call.seed)) return EXIT_ERROR;
    bool limited = cli_has(c, OPT_MAX_STEPS);
    if (limited && !cli_int(c, OPT_MAX_STEPS, 1, INT64_MAX, &call.max_steps)) return EXIT_ERROR;
    if (!cli_context(c)) return EXIT_ERROR;
    if (context_call(c->context, call_body, &call)) return cli_context_error(c);
    return call.failed_check ? EXIT_CHECK_FAILED : EXIT_DONE;
}

// ---- one kernel

ScriptKernel *kernel_instantiate(KernelJob *j, const Node *decl, Arena *a)
{
    heald_context *c = j->context;
    // an op goes through the processor's `copy`
    const Target *t = kernel_is_gpu(decl) ? &c->target : &c->host;
    return script_instantiate(a, &c->library, t, decl, &j->options, &c->diag);
}

heald_status kernel_compile(KernelJob *j, const ScriptKernel *k, Arena *a, BuiltKernel **out)
{
    heald_context *c = j->context;
    Builder b;
    bool gpu = k->kernel->target.kind == TARGET_CUDA;
    if (!c->interpret && gpu != (c->target.kind == TARGET_CUDA)) {
        return error_set(&c->error, HEALD_UNSUPPORTED,
                         "kernel %s is for %s: --target %s is needed, or --target interp",
                         k->decl->u.sym, gpu ? "GPUs" : "CPUs", gpu ? "cuda" : "cpu");
    }
    heald_status s = context_builder(c, &b);
    return s ? s : kernel_build(&b, a, k->kernel, k->decl->u.sym, out, &c->diag, &c->error);
}

const char *param_text(Arena *a, const ScriptParam *p)
{
    Buf b;
    buf_init(&b, a);
    buf_printf(&b, "%s[", dtypes[p->type].name);
    for (int i = 0; i < p->rank; i++)
        buf_printf(&b, "%s%lld", i ? ", " : "", (long long)p->dims[i]);
    buf_putc(&b, ']');
    return buf_text(&b);
}

// ---- data

static void *aligned(Arena *a, int64_t bytes)
{
    uintptr_t p = (uintptr_t)arena_alloc(a, (size_t)bytes + MEMORY_ALIGN);
    return (void *)((p + MEMORY_ALIGN - 1) / MEMORY_ALIGN * MEMORY_ALIGN);
}

KernelData kernel_data(Arena *a, const ScriptKernel *k)
{
    KernelData d = {.n = k->nparam,
                    .at = NEW_ARRAY(a, void *, k->nparam),
                    .nelem = NEW_ARRAY(a, int64_t, k->nparam),
                    .bytes = NEW_ARRAY(a, int64_t, k->nparam)};
    for (int i = 0; i < d.n; i++) {
        int64_t n = 1;
        for (int r = 0; r < k->param[i].rank; r++)
            if (!mul_i64(n, k->param[i].dims[r], &n)) n = INT64_MAX;
        d.nelem[i] = n;
        d.bytes[i] = dtype_bytes(k->param[i].type, n);
        if (d.bytes[i] > (int64_t)1 << 46) arena_out_of_memory(a);
        d.at[i] = aligned(a, d.bytes[i]);
    }
    kernel_data_clear_outputs(k, &d);
    return d;
}

void kernel_data_clear_outputs(const ScriptKernel *k, KernelData *d)
{
    for (int i = 0; i < d->n; i++)
        if (k->param[i].output) memset(d->at[i], 0xff, (size_t)d->bytes[i]);
}

static heald_status read_input(KernelJob *j, const ScriptParam *p, const char *path, void *to,
                               int64_t bytes)
{
    Error *e = &j->context->error;
    HostTensor t;
    const char *why = tensor_read(j->arena, path, &t);
    if (why) return error_set(e, HEALD_IO, "%s", why);
    ScriptParam have = {.type = t.dtype,
                        .rank = t.rank < SCRIPT_MAX_RANK ? t.rank : SCRIPT_MAX_RANK};
    memcpy(have.dims, t.dims, (size_t)have.rank * sizeof *t.dims);
    if (t.dtype != p->type || t.rank != p->rank ||
        memcmp(have.dims, p->dims, (size_t)p->rank * sizeof *p->dims)) {
        return error_set(e, HEALD_INVALID_ARGUMENT, "%s holds %s, the input '%s' is %s", path,
                         param_text(j->arena, &have), p->name, param_text(j->arena, p));
    }
    memcpy(to, t.data, (size_t)bytes);
    return HEALD_OK;
}

// A kernel of the host with known extents. Much data is not for the interpreter.
static heald_status compute(KernelJob *j, Kernel *k, const char *op, void *const *data,
                            int64_t nelem)
{
    enum { INTERPRETED = 1 << 16 };
    heald_context *c = j->context;
    if (c->interpret || c->target.kind == TARGET_CUDA || nelem <= INTERPRETED) {
        return interp_run(k, data, NULL, &(InterpOptions){0}, &c->diag) ? HEALD_OK
                                                                        : HEALD_DIAGNOSTIC;
    }
    Builder b;
    BuiltKernel *built;
    heald_status s = context_builder(c, &b);
    if (!s) s = context_device(c);
    if (!s) s = kernel_build(&b, j->arena, k, op, &built, &c->diag, &c->error);
    if (s) return s;
    s = launch_kernel(c->device, &built->runtime, data, NULL, &c->error);
    kernel_release(built);
    return s;
}

// Packed parameters are computed from those that they hold.
static heald_status pack_inputs(KernelJob *j, const ScriptKernel *k, KernelData *d)
{
    heald_context *c = j->context;
    heald_status s = HEALD_OK;
    for (int i = k->ninput; !s && i < k->nparam && k->param[i].pack; i++) {
        const ScriptParam *p = &k->param[i];
        Kernel *pack = script_packing(k, i, j->arena, &c->library, &c->host, &c->diag);
        if (!pack) return HEALD_DIAGNOSTIC;
        void *const data[] = {d->at[p->packed_from], d->at[i]};
        s = compute(j, pack, p->pack->op->u.sym, data, d->nelem[i]);
    }
    return s;
}

heald_status kernel_data_fill(KernelJob *j, const ScriptKernel *k, KernelData *d, bool special)
{
    const Options *o = &j->cli->options;
    Random r = {(uint64_t)j->seed};
    for (int i = 0; i < k->ninput; i++)
        random_fill(&r, k->param[i].type, d->at[i], d->nelem[i], special);
    for (int f = 0; f < o->all[OPT_INPUT].n; f++) {
        const char *text = o->all[OPT_INPUT].at[f], *path = strchr(text, '=');
        if (!path) {
            return error_set(&j->context->error, HEALD_INVALID_ARGUMENT,
                             "--input %s: NAME=FILE is needed", text);
        }
        const char *name = arena_strndup(j->arena, text, (size_t)(path++ - text));
        int i = 0;
        while (i < k->ninput && strcmp(k->param[i].name, name)) i++;
        if (i == k->ninput) {
            return error_set(&j->context->error, HEALD_NOT_FOUND, "kernel %s has no input '%s'",
                             k->decl->u.sym, name);
        }
        heald_status s = read_input(j, &k->param[i], path, d->at[i], d->bytes[i]);
        if (s) return s;
    }
    return pack_inputs(j, k, d);
}
