// SPDX-License-Identifier: Apache-2.0
// Compiling sections: open where the graph allows it, or else for the shapes at hand, and for the
// elements of inputs that shapes depend on.
#include "api/section.h"

#include "graph/cut.h"
#include "runtime/memory.h"

#include <string.h>

static void instance_free(ModelInstance *in)
{
    if (!in) return;
    for (int i = 0; i < in->nsection; i++) model_section_free(&in->section[i]);
    plan_runner_destroy(in->base.runner);
    model_release(in->compiled);
    arena_free(&in->arena);
    memory_free(in);
}

static void drop(Section *s, SectionVariant *v)
{
    UNUSED(s);
    instance_free((ModelInstance *)v);
}

void model_section_free(ModelSection *s)
{
    section_free(&s->base);
    instance_free(s->unfinished);
    s->unfinished = NULL;
}

// ---- specialising

typedef struct Making {
    ModelSection *section;
    ModelInstance *instance;
    heald_tensor *const *inputs;
    const int64_t **dims;
    int *rank;
    DType *type;
    const void **data;
    bool *open, *wanted;
    Buf note;
} Making;

// The elements of an input as sizes, if there are few of them, or as part of the instance.
static heald_status know_input(Making *m, int i, bool as_sizes)
{
    heald_tensor *host, *t = m->inputs[i];
    Error *e = &m->section->context->error;
    Arena *a = &m->instance->arena;
    void *copy = arena_alloc(a, (size_t)t->bytes);
    heald_status s = tensor_to_host(t, &host, e);
    if (s) return s;
    memcpy(copy, host->data, (size_t)host->bytes);
    heald_tensor_release(host);
    m->data[i] = copy;
    m->open[i] = as_sizes && m->instance->base.open && !dtype_is_float(t->dtype) &&
                 t->dtype != DT_BOOL && t->nelem <= PLAN_MAX_ELEMENTS;
    if (m->open[i]) return HEALD_OK;
    m->instance->base.fixed[i] = copy;
    buf_printf(&m->note, "%s'%s'", m->note.size ? ", " : "", m->section->graph->inputs.at[i]->name);
    return HEALD_OK;
}

// Tries again with more inputs known, as long as the graph asks for them.
static heald_status specialise(Making *m, Graph **out)
{
    heald_context *c = m->section->context;
    const Graph *g = m->section->graph;
    int n = g->inputs.n;
    heald_status status = HEALD_OK;
    Specialisation s = {.dims = m->dims,
                        .rank = m->rank,
                        .data = m->data,
                        .open = m->open,
                        .type = m->type,
                        .cut = true,
                        .dynamic = m->instance->base.open,
                        .device = &c->target,
                        .precision = c->precision,
                        .wanted = m->wanted};
    for (int i = 0; i < n && !status; i++)
        if (g->must_know && g->must_know[i]) status = know_input(m, i, false);
    for (bool more = true; more && !status;) {
        more = false;
        memset(m->wanted, 0, (size_t)n * sizeof *m->wanted);
        diag_clear(&c->diag);
        *out = graph_specialise(g, &m->instance->arena, &s, &c->host, &c->diag);
        for (int i = 0; i < n && !*out && !status; i++) {
            if (!m->wanted[i] || m->instance->base.fixed[i]) continue;
            status = know_input(m, i, !m->data[i]);
            more = true;
        }
    }
    return *out || status ? status : HEALD_DIAGNOSTIC;
}

// ---- compiling

static void show_progress(void *user, int done, int total, const char *name)
{
    const heald_context_options *o = user;
    o->progress(o->user, done, total, name);
}

static bool is_cancelled(void *user)
{
    const heald_context_options *o = user;
    return o->cancel(o->user) != 0;
}

static void set_steps(ModelInstance *in, const Graph *g, heald_context *c)
{
    SectionVariant *v = &in->base;
    const GraphCut *cut = g->cut;
    if (!cut) return;
    v->nslot = cut->nslot;
    v->nstep = in->nsection = cut->steps.n;
    v->output = cut->output;
    SectionStep *step = arena_copy(&in->arena, cut->steps.at, (size_t)v->nstep * sizeof *step);
    in->section = NEW_ARRAY(&in->arena, ModelSection, v->nstep);
    for (int i = 0; i < v->nstep; i++) {
        if (!cut->graphs.at[i]) continue;
        model_section_init(&in->section[i], c, cut->graphs.at[i]);
        step[i].section = &in->section[i].base;
    }
    v->step = step;
}

heald_status model_section_load(ModelSection *s, ModelInstance *in)
{
    heald_context *c = s->context;
    if (in->base.runner) return HEALD_OK;
    heald_status status = context_device(c);
    if (status) return status;
    s->base.device = c->device;
    for (int i = 0; i < in->nsection; i++) in->section[i].base.device = c->device;
    status = model_load(in->compiled, c->device, &c->error);
    if (status) return status;
    RunOptions run = {.cancel = c->options.cancel ? is_cancelled : NULL, .user = &c->options};
    return plan_runner_create(in->compiled->plan, c->device, &run, &in->base.runner, &c->error);
}

// What is compiled for a GPU that is not at hand is loaded when it is to run.
static heald_status compile(Making *m)
{
    heald_context *c = m->section->context;
    ModelInstance *in = m->instance;
    Graph *g = NULL;
    heald_status s = specialise(m, &g);
    if (!s && in->base.open && graph_broken_requirement(g)) s = HEALD_DIAGNOSTIC;
    if (s) return s;
    CompileOptions o = {.target = c->target, .user = &c->options};
    if (c->options.progress) o.progress = show_progress;
    s = context_builder(c, &o.builder);
    bool elsewhere = context_is_elsewhere(c);
    if (!s && !elsewhere) s = context_device(c);
    o.pool = context_pool(c);
    if (!s) s = model_compile(g, &in->arena, &o, &in->compiled, &c->diag, &c->error);
    if (s) return s;
    set_steps(in, g, c);
    return elsewhere && !in->base.open ? HEALD_OK : model_section_load(m->section, in);
}

// An instance for the inputs, open or not, in s->unfinished.
static heald_status try_instance(ModelSection *s, heald_tensor *const *inputs, bool open)
{
    heald_context *c = s->context;
    instance_free(s->unfinished);
    ModelInstance *in = s->unfinished = memory_alloc_zeroed(sizeof *in);
    if (!in) return error_no_memory(&c->error, sizeof *in, "a compiled model");
    Arena *a = &in->arena;
    a->nomem = &c->nomem;
    in->base.open = open;
    int n = s->graph->inputs.n;
    in->base.dims = NEW_ARRAY(a, const int64_t *, n);
    in->base.fixed = NEW_ARRAY(a, const void *, n);
    Making m = {.section = s, .instance = in, .inputs = inputs};
    m.dims = NEW_ARRAY(a, const int64_t *, n);
    m.rank = NEW_ARRAY(a, int, n);
    m.type = NEW_ARRAY(a, DType, n);
    m.data = NEW_ARRAY(a, const void *, n);
    m.open = NEW_ARRAY(a, bool, n);
    m.wanted = NEW_ARRAY(a, bool, n);
    buf_init(&m.note, a);
    for (int i = 0; i < n; i++) {
        int64_t *dims = NEW_ARRAY(a, int64_t, inputs[i]->rank + 1);
        m.rank[i] = inputs[i]->rank;
        m.type[i] = inputs[i]->dtype;
        dims[0] = m.rank[i];
        memcpy(dims + 1, inputs[i]->dims, (size_t)m.rank[i] * sizeof *dims);
        in->base.dims[i] = dims;
        m.dims[i] = dims + 1;
    }
    heald_status status = compile(&m);
    in->note = buf_text(&m.note);
    if (!status && open && !plan_takes(in->base.runner, inputs)) status = HEALD_CHECK_FAILED;
    return status;
}

// Whether there is anything to keep open: extents, or integers that may be sizes.
static bool is_open(const Graph *g)
{
    for (int i = 0; i < g->inputs.n; i++) {
        const GraphValue *v = g->inputs.at[i];
        if (v->rank < 0 || (v->rank < 2 && !dtype_is_float(v->type))) return true;
        for (int k = 0; k < v->rank; k++)
            if (v->dims[k].kind != V_INT) return true;
    }
    return false;
}

// The sizes that a message is about.
static void note_sizes(ModelSection *s, heald_tensor *const *inputs)
{
    Buf text;
    buf_init(&text, &s->context->scratch);
    for (int i = 0; i < s->graph->inputs.n; i++) {
        const GraphValue *v = s->graph->inputs.at[i];
        for (int k = 0; k < inputs[i]->rank; k++) {
            const Value *d = v->rank < 0 ? NULL : &v->dims[k];
            if (d && d->kind == V_INT) continue;
            buf_printf(&text, "%s%s is %lld (axis %d of input '%s')", text.size ? ", " : "",
                       d && d->kind == V_STR && d->u.str[0] ? d->u.str : "the extent",
                       (long long)inputs[i]->dims[k], k, v->name);
        }
    }
    if (text.size) diag_note(&s->context->diag, 0, "where %s", buf_text(&text));
}

// Kernels of a GPU gain much from known sizes: so many sets of sizes have code of their own there.
enum { GPU_CLOSED_VARIANTS = 4 };

static int count_closed(const ModelSection *s)
{
    int n = 0;
    for (int i = 0; i < s->base.nvariant; i++) n += !s->base.variant[i]->open;
    return n;
}

// Open if the graph is; where it cannot be for these sizes, made for them alone. What is wrong with
// them shows then.
static heald_status make_instance(ModelSection *s, heald_tensor *const *inputs)
{
    bool open = !s->closed && is_open(s->graph) &&
                (s->context->target.kind == TARGET_CPU || count_closed(s) >= GPU_CLOSED_VARIANTS);
    heald_status status = open ? try_instance(s, inputs, true) : HEALD_CHECK_FAILED;
    if (status == HEALD_DIAGNOSTIC || status == HEALD_CHECK_FAILED ||
        status == HEALD_INVALID_ARGUMENT) {
        diag_clear(&s->context->diag);
        status = try_instance(s, inputs, false);
        if (status == HEALD_DIAGNOSTIC) note_sizes(s, inputs);
    }
    return status;
}

// Running out of memory must not pass by the tensors of a run that gets to a new section.
static heald_status make(Section *base, heald_tensor *const *inputs, SectionVariant **out, Error *e)
{
    ModelSection *s = (ModelSection *)base;
    heald_context *c = s->context;
    jmp_buf outer;
    memcpy(&outer, &c->nomem, sizeof outer);
    heald_status status;
    if (setjmp(c->nomem)) status = error_no_memory(e, 0, "compiling");
    else status = make_instance(s, inputs);
    memcpy(&c->nomem, &outer, sizeof outer);
    if (status) return status;
    *out = &s->unfinished->base;
    s->unfinished = NULL;
    return HEALD_OK;
}

void model_section_init(ModelSection *s, heald_context *c, const Graph *g)
{
    *s = (ModelSection){.context = c, .graph = g};
    s->base.ninput = g->inputs.n;
    s->base.noutput = g->outputs.n;
    s->base.make = make;
    s->base.drop = drop;
    if (c->options.cancel) s->base.cancel = is_cancelled;
    s->base.user = &c->options;
}

heald_status model_section_instance(ModelSection *s, heald_tensor *const *inputs,
                                    ModelInstance **out)
{
    SectionVariant *v;
    heald_status status = section_variant(&s->base, inputs, &v, &s->context->error);
    *out = (ModelInstance *)v;
    return status;
}

const ModelInstance *model_section_current(const ModelSection *s)
{
    const SectionVariant *last = NULL;
    for (int i = 0; i < s->base.nvariant; i++)
        if (!last || s->base.variant[i]->used > last->used) last = s->base.variant[i];
    return (const ModelInstance *)last;
}

void model_section_count(const ModelSection *s, SectionCount *count)
{
    if (!s->base.nvariant) return;
    count->nsection++;
    for (int i = 0; i < s->base.nvariant; i++) {
        const ModelInstance *in = (const ModelInstance *)s->base.variant[i];
        count->nplan++;
        count->nkernel += in->compiled->kernels.n;
        count->ncached += in->compiled->ncached;
        for (int k = 0; k < in->nsection; k++) model_section_count(&in->section[k], count);
    }
}
