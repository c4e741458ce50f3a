// SPDX-License-Identifier: Apache-2.0
// heald_compile: one kernel of a text, made for given extents, types and choices.
#include "api/kernel.h"

#include "runtime/memory.h"
#include "runtime/tensor.h"

#include <string.h>

// ---- options

static heald_status bad_option(heald_context *c, const char *what, const char *why)
{
    return error_set(&c->error, HEALD_INVALID_ARGUMENT, "%s: %s", what, why);
}

// "NAME=EXPRESSION" of the language.
static heald_status named_value(heald_context *c, Arena *a, const char *what, const char *text,
                                Sym *name, Value *out)
{
    const char *equals = strchr(text, '=');
    if (!equals || equals == text) {
        return bad_option(c, what, arena_printf(a, "'%s' is not of the form NAME=VALUE", text));
    }
    *name = intern_n(c->names, text, (size_t)(equals - text));
    const char *value = arena_strdup(&c->arena, equals + 1);
    const char *place = arena_printf(&c->arena, "%s %s", what, *name);
    const Source *s = sources_add(&c->sources, place, value, strlen(value));
    Node *n = s ? parse_expression(&c->arena, c->names, s, &c->diag) : NULL;
    if (n) *out = evaluate_expression(a, &c->library, &c->target, n, &c->diag);
    return n && !c->diag.nerror ? HEALD_OK : HEALD_DIAGNOSTIC;
}

static heald_status take_attributes(heald_context *c, Arena *a, const char *const *list,
                                    ScriptOptions *o)
{
    heald_status s = HEALD_OK;
    for (int i = 0; list && list[i] && !s; i++) {
        Sym name;
        Value *v = NEW(a, Value);
        s = named_value(c, a, "attribute", list[i], &name, v);
        if (!s) map_put(a, &o->attrs, name, v);
    }
    return s;
}

static heald_status take_choices(heald_context *c, Arena *a, const char *const *list,
                                 ScriptOptions *o)
{
    int n = 0;
    while (list && list[n]) n++;
    o->choices = (Choices){n, NEW_ARRAY(a, Sym, n), NEW_ARRAY(a, Value, n)};
    heald_status s = HEALD_OK;
    for (int i = 0; i < n && !s; i++) {
        s = named_value(c, a, "choice", list[i], &o->choices.name[i], &o->choices.value[i]);
    }
    return s;
}

heald_status compile_options_take(heald_context *c, Arena *a, const heald_compile_options *from,
                                  ScriptOptions *o)
{
    const char *why = NULL;
    if (from->shape) why = script_parse_shape(o, a, c->names, from->shape);
    if (why) return bad_option(c, "shape", why);
    if (from->dynamic) why = script_parse_open(o, a, c->names, from->dynamic);
    if (why) return bad_option(c, "dynamic", why);
    if (from->types) why = script_parse_types(o, a, c->names, from->types);
    if (why) return bad_option(c, "types", why);
    heald_status s = take_attributes(c, a, from->attributes, o);
    return s ? s : take_choices(c, a, from->choices, o);
}

heald_status file_kernels(heald_context *c, Arena *a, const Node *file, const char *path,
                          const char *name, KernelDecls *out)
{
    Buf names;
    buf_init(&names, a);
    for (uint32_t i = 0; i < file->nkid; i++) {
        const Node *n = file->kid[i];
        if (n->kind != N_KERNEL) continue;
        buf_printf(&names, "%s%s", names.size ? ", " : "", n->u.sym);
        if (!name || !strcmp(name, n->u.sym)) VEC_PUSH(a, out, n);
    }
    if (!name || out->n) return HEALD_OK;
    return error_set(&c->error, HEALD_NOT_FOUND, "%s has no kernel '%s'; it has %s", path, name,
                     names.size ? buf_text(&names) : "none");
}

// ---- compiling

typedef struct Compile {
    const char *name, *text;
    heald_compile_options options;
    heald_kernel *kernel;
} Compile;

static const char *text_of(Arena *a, const Kernel *k)
{
    Buf b;
    buf_init(&b, a);
    kernel_print(k, &b);
    return buf_text(&b);
}

static void describe(heald_kernel *k)
{
    const ScriptKernel *s = k->script;
    k->param = NEW_ARRAY(&k->arena, heald_value_info, s->nparam);
    for (int i = 0; i < s->nparam; i++) {
        const ScriptParam *p = &s->param[i];
        int64_t *dims = NEW_ARRAY(&k->arena, int64_t, p->rank);
        const char **names = NEW_ARRAY(&k->arena, const char *, p->rank);
        for (int r = 0; r < p->rank; r++) {
            const Node *e = s->kernel->params.at[i]->extent[r];
            dims[r] = e->kind == N_INT ? e->u.i : -1;
            names[r] = e->kind == N_VARREF ? e->u.var->name : NULL;
        }
        k->param[i] = (heald_value_info){p->name, (heald_dtype)p->type, p->rank, dims, names};
    }
}

static heald_status compile_body(heald_context *c, Arena *scratch, void *user)
{
    Compile *job = user;
    heald_kernel *k = job->kernel;
    k->arena.nomem = &c->nomem;
    Node *file;
    KernelDecls decls = {0};
    ScriptOptions o = {.extents = {1, {1}, 1, 0}, .plain = true};
    if (!context_add_text(c, job->name, job->text, strlen(job->text), &file))
        return HEALD_DIAGNOSTIC;
    heald_status s = compile_options_take(c, &k->arena, &job->options, &o);
    if (!s) s = file_kernels(c, scratch, file, job->name, job->options.kernel, &decls);
    if (s) return s;
    if (decls.n != 1) {
        return error_set(&c->error, HEALD_INVALID_ARGUMENT,
                         "%s has %d kernels: name one in the options", job->name, decls.n);
    }
    k->script = script_instantiate(&k->arena, &c->library, &c->target, decls.at[0], &o, &c->diag);
    if (!k->script) return HEALD_DIAGNOSTIC;
    describe(k);
    k->ir = text_of(&k->arena, k->script->kernel);
    Builder b;
    s = context_builder(c, &b);
    if (!s) {
        s = kernel_build(&b, &k->arena, k->script->kernel, decls.at[0]->u.sym, &k->built, &c->diag,
                         &c->error);
    }
    if (!s && !c->interpret) k->lowered = text_of(&k->arena, k->script->kernel);
    // Here, as a kernel does not change later. There is no device where it is for another one.
    if (!s && c->device) s = kernel_load_on(&k->arena, k->built, c->device, &c->error);
    return s;
}

heald_status heald_compile(heald_context *c, const char *name, const char *text,
                           const heald_compile_options *o, heald_kernel **out)
{
    if (!c || !text || !out) return context_refuse(c, "an argument is NULL");
    *out = NULL;
    Compile job = {.name = name ? name : "text", .text = text};
    if (o) {
        size_t size = o->struct_size;
        if (size < sizeof size || size > 4096) return context_refuse(c, "the options have no size");
        memcpy(&job.options, o, size < sizeof *o ? size : sizeof *o);
    }
    job.kernel = memory_alloc_zeroed(sizeof *job.kernel);
    if (!job.kernel) return HEALD_NO_MEMORY;
    job.kernel->context = c;
    heald_status s = context_call(c, compile_body, &job);
    if (s) heald_kernel_destroy(job.kernel);
    else *out = job.kernel;
    return s;
}

void heald_kernel_destroy(heald_kernel *k)
{
    if (!k) return;
    kernel_release(k->built);
    context_leave(k->context);
    arena_free(&k->arena);
    memory_free(k);
}

int heald_kernel_param_count(const heald_kernel *k)
{
    return k ? k->script->nparam : 0;
}

int heald_kernel_input_count(const heald_kernel *k)
{
    return k ? k->script->ninput : 0;
}

const heald_value_info *heald_kernel_param(const heald_kernel *k, int i)
{
    return i >= 0 && i < heald_kernel_param_count(k) ? &k->param[i] : NULL;
}

const char *heald_kernel_text(const heald_kernel *k, heald_text which)
{
    if (!k) return NULL;
    switch (which) {
    case HEALD_TEXT_IR: return k->ir;
    case HEALD_TEXT_LOWERED: return k->lowered;
    case HEALD_TEXT_SOURCE: return k->built->source;
    }
    return NULL;
}

// ---- running

typedef struct Run {
    const heald_kernel *kernel;
    heald_tensor *const *params;
} Run;

// The open dimensions are what the tensors have; all must agree.
static heald_status bind_dims(heald_context *c, const Run *r, int64_t *dims)
{
    const Kernel *k = r->kernel->script->kernel;
    for (int d = 0; d < k->dims.n; d++) dims[d] = -1;
    for (int i = 0; i < k->params.n; i++) {
        const heald_tensor *t = r->params[i];
        const heald_value_info *v = &r->kernel->param[i];
        if (!t || (int)t->dtype != (int)v->dtype || t->rank != v->rank) {
            return error_set(&c->error, HEALD_INVALID_ARGUMENT,
                             "parameter '%s' of %s is missing or of another type or rank", v->name,
                             r->kernel->script->decl->u.sym);
        }
        for (int axis = 0; axis < t->rank; axis++)
            for (int d = 0; d < k->dims.n; d++)
                if (v->dim_names[axis] && k->dims.at[d]->name == v->dim_names[axis] && dims[d] < 0)
                    dims[d] = t->dims[axis];
    }
    return HEALD_OK;
}

static heald_status check_extents(heald_context *c, const Run *r, const int64_t *dims)
{
    const heald_kernel *kernel = r->kernel;
    const Kernel *k = kernel->script->kernel;
    for (int i = 0; i < k->params.n; i++)
        for (int axis = 0; axis < r->params[i]->rank; axis++) {
            int64_t want = kernel->param[i].dims[axis], have = r->params[i]->dims[axis];
            for (int d = 0; d < k->dims.n && kernel->param[i].dim_names[axis]; d++)
                if (k->dims.at[d]->name == kernel->param[i].dim_names[axis]) want = dims[d];
            if (want < 0 || want == have) continue;
            return error_set(&c->error, HEALD_INVALID_ARGUMENT,
                             "axis %d of parameter '%s' has extent %lld where %lld is needed", axis,
                             kernel->param[i].name, (long long)have, (long long)want);
        }
    return HEALD_OK;
}

static heald_status run_body(heald_context *c, Arena *scratch, void *user)
{
    const Run *r = user;
    const Kernel *k = r->kernel->script->kernel;
    int64_t *dims = NEW_ARRAY(scratch, int64_t, k->dims.n);
    void **data = NEW_ARRAY(scratch, void *, k->params.n);
    heald_status s = bind_dims(c, r, dims);
    if (!s) s = check_extents(c, r, dims);
    if (!s) s = context_device(c);
    if (!s && r->kernel->built->image && !r->kernel->built->loaded)
        s = error_set(&c->error, HEALD_UNSUPPORTED, "kernel %s was compiled for another GPU (%s)",
                      r->kernel->script->decl->u.sym, k->target.arch);
    if (s) return s;
    heald_tensor **near = NEW_ARRAY(scratch, heald_tensor *, k->params.n);
    for (int i = 0; i < k->params.n && !s; i++) {
        s = tensor_to_device(c->device, r->params[i], &near[i], &c->error);
        if (!s) data[i] = near[i]->data;
    }
    if (!s) s = launch_kernel(c->device, &r->kernel->built->runtime, data, dims, &c->error);
    for (int i = 0; i < k->params.n; i++) {
        bool back = !s && k->params.at[i]->output && near[i] != r->params[i];
        if (back) s = tensor_copy(near[i], r->params[i], &c->error);
        heald_tensor_release(near[i]);
    }
    return s;
}

heald_status heald_kernel_run(heald_context *c, const heald_kernel *k, heald_tensor *const *params)
{
    if (!c || !k || !params) return context_refuse(c, "an argument is NULL");
    return context_call(c, run_body, &(Run){k, params});
}
