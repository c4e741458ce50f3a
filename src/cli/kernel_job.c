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
    bool single;
    const ScriptExtents *extents;
    KernelBody *body;
    int64_t seed;
    bool failed_check;
} Call;

static heald_status bad_option(heald_context *c, OptionId id, const char *why)
{
    return error_set(&c->error, HEALD_INVALID_ARGUMENT, "--%s: %s", option_info[id].name, why);
}

// "NAME=EXPRESSION" of the language.
static heald_status named_value(KernelJob *j, OptionId id, const char *text, Sym *name, Value *out)
{
    heald_context *c = j->context;
    const char *equals = strchr(text, '=');
    if (!equals || equals == text) return bad_option(c, id, "NAME=VALUE is needed");
    *name = intern_n(c->names, text, (size_t)(equals - text));
    const char *value = arena_strdup(&c->arena, equals + 1);
    const char *place = arena_printf(&c->arena, "--%s %s", option_info[id].name, *name);
    const Source *s = sources_add(&c->sources, place, value, strlen(value));
    Node *n = s ? parse_expression(&c->arena, c->names, s, &c->diag) : NULL;
    if (n) *out = evaluate_expression(j->arena, &c->library, &c->target, n, &c->diag);
    return n && !c->diag.nerror ? HEALD_OK : HEALD_DIAGNOSTIC;
}

static heald_status take_values(KernelJob *j)
{
    const Options *o = &j->cli->options;
    ScriptOptions *s = &j->options;
    heald_status status = HEALD_OK;
    for (int i = 0; !status && i < o->all[OPT_ATTR].n; i++) {
        Sym name;
        Value *v = NEW(j->arena, Value);
        status = named_value(j, OPT_ATTR, o->all[OPT_ATTR].at[i], &name, v);
        if (!status) map_put(j->arena, &s->attrs, name, v);
    }
    int n = o->all[OPT_CHOICE].n;
    s->choices = (Choices){.n = n,
                           .name = NEW_ARRAY(j->arena, Sym, n),
                           .value = NEW_ARRAY(j->arena, Value, n)};
    for (int i = 0; !status && i < n; i++) {
        status = named_value(j, OPT_CHOICE, o->all[OPT_CHOICE].at[i], &s->choices.name[i],
                             &s->choices.value[i]);
    }
    return status;
}

static heald_status take_options(KernelJob *j)
{
    heald_context *c = j->context;
    const Options *o = &j->cli->options;
    const char *why = NULL, *name, *value;
    for (int i = 0; i < o->all[OPT_SHAPE].n && !why; i++)
        why = script_parse_shape(&j->options, j->arena, c->names, o->all[OPT_SHAPE].at[i]);
    if (why) return bad_option(c, OPT_SHAPE, why);
    for (int i = 0; i < o->all[OPT_DYNAMIC].n && !why; i++)
        why = script_parse_open(&j->options, j->arena, c->names, o->all[OPT_DYNAMIC].at[i]);
    if (why) return bad_option(c, OPT_DYNAMIC, why);
    for (int i = 0; i < o->all[OPT_TYPE].n; i++) {
        const char *text = o->all[OPT_TYPE].at[i], *equals = strchr(text, '=');
        if (!equals) return bad_option(c, OPT_TYPE, "T=TYPE is needed");
        name = arena_strndup(j->arena, text, (size_t)(equals - text));
        value = equals + 1;
        why = script_parse_type(&j->options, j->arena, c->names, name, value);
        if (why) return bad_option(c, OPT_TYPE, why);
    }
    return take_values(j);
}

static heald_status choose_kernels(KernelJob *j, Node *file, bool single)
{
    const char *wanted = cli_text(j->cli, OPT_KERNEL), *path = j->cli->operand[0];
    Buf names;
    buf_init(&names, j->arena);
    for (uint32_t i = 0; i < file->nkid; i++) {
        const Node *n = file->kid[i];
        if (n->kind != N_KERNEL) continue;
        buf_printf(&names, "%s%s", names.size ? ", " : "", n->u.sym);
        if (!wanted || !strcmp(wanted, n->u.sym)) VEC_PUSH(j->arena, &j->kernels, n);
    }
    Error *e = &j->context->error;
    if (wanted && j->kernels.n == 0) {
        return error_set(e, HEALD_NOT_FOUND, "%s has no kernel '%s'; it has %s", path, wanted,
                         names.size ? buf_text(&names) : "none");
    }
    if (single && j->kernels.n == 0)
        return error_set(e, HEALD_NOT_FOUND, "%s has no kernel", path);
    if (single && j->kernels.n > 1) {
        return error_set(e, HEALD_INVALID_ARGUMENT, "%s has several kernels: %s; choose with --kernel",
                         path, buf_text(&names));
    }
    return HEALD_OK;
}

static heald_status call_body(heald_context *c, Arena *a, void *user)
{
    Call *call = user;
    KernelJob j = {.cli = call->cli, .context = c, .arena = a, .seed = call->seed};
    j.options.extents = *call->extents;
    j.options.plain = cli_has(call->cli, OPT_PLAIN);
    const char *path = j.cli->operand[0];
    char *text;
    size_t size;
    Node *file;
    const char *why = file_read(a, path, &text, &size);
    if (why) return error_set(&c->error, HEALD_IO, "%s", why);
    if (!context_add_text(c, path, text, size, &file)) return HEALD_DIAGNOSTIC;
    heald_status s = take_options(&j);
    if (!s) s = choose_kernels(&j, file, call->single);
    if (!s) s = call->body(&j);
    call->failed_check = j.failed_check;
    return s;
}

int kernel_command(Cli *c, bool single, const ScriptExtents *extents, KernelBody *body)
{
    Call call = {.cli = c, .single = single, .extents = extents, .body = body, .seed = 1};
    if (cli_has(c, OPT_SEED) && !cli_int(c, OPT_SEED, 0, INT64_MAX, &call.seed)) return EXIT_ERROR;
    if (!cli_context(c)) return EXIT_ERROR;
    if (context_call(c->context, call_body, &call)) return cli_context_error(c);
    return call.failed_check ? EXIT_CHECK_FAILED : EXIT_DONE;
}

// ---- one kernel

ScriptKernel *kernel_instantiate(KernelJob *j, const Node *decl, Arena *a)
{
    heald_context *c = j->context;
    return script_instantiate(a, &c->library, &c->target, decl, &j->options, &c->diag);
}

heald_status kernel_compile(KernelJob *j, const ScriptKernel *k, Arena *a, BuiltKernel **out)
{
    heald_context *c = j->context;
    Builder b;
    if (k->kernel->target.kind == TARGET_CUDA && !c->interpret) {
        return error_set(&c->error, HEALD_UNSUPPORTED,
                         "kernel %s is for CUDA: this version generates code for CPUs only; "
                         "--target interp runs it",
                         k->decl->u.sym);
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
    ScriptParam have = {.type = t.dtype, .rank = t.rank < SCRIPT_MAX_RANK ? t.rank : SCRIPT_MAX_RANK};
    memcpy(have.dims, t.dims, (size_t)have.rank * sizeof *t.dims);
    if (t.dtype != p->type || t.rank != p->rank ||
        memcmp(have.dims, p->dims, (size_t)p->rank * sizeof *p->dims)) {
        return error_set(e, HEALD_INVALID_ARGUMENT, "%s holds %s, the input '%s' is %s", path,
                         param_text(j->arena, &have), p->name, param_text(j->arena, p));
    }
    memcpy(to, t.data, (size_t)bytes);
    return HEALD_OK;
}

// Packed parameters are computed from those that they hold.
static heald_status pack_inputs(KernelJob *j, const ScriptKernel *k, KernelData *d)
{
    heald_context *c = j->context;
    for (int i = k->ninput; i < k->nparam && k->param[i].pack; i++) {
        Kernel *pack = script_packing(k, i, j->arena, &c->library, &c->target, &c->diag);
        void *const data[] = {d->at[k->param[i].packed_from], d->at[i]};
        if (!pack || !interp_run(pack, data, NULL, &(InterpOptions){0}, &c->diag))
            return HEALD_DIAGNOSTIC;
    }
    return HEALD_OK;
}

heald_status kernel_data_fill(KernelJob *j, const ScriptKernel *k, KernelData *d, bool special)
{
    const Options *o = &j->cli->options;
    Random r = {(uint64_t)j->seed};
    for (int i = 0; i < k->ninput; i++)
        random_fill(&r, k->param[i].type, d->at[i], d->nelem[i], special);
    for (int f = 0; f < o->all[OPT_INPUT].n; f++) {
        const char *name, *path;
        if (!cli_pair(j->cli, OPT_INPUT, o->all[OPT_INPUT].at[f], &name, &path))
            return error_set(&j->context->error, HEALD_INVALID_ARGUMENT, "--input cannot be read");
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
