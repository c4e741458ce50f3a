// SPDX-License-Identifier: Apache-2.0
// Models: read once, compiled for every set of input shapes that comes along.
#include "api/model.h"

#include "frontends/onnx_import.h"
#include "runtime/memory.h"

#include <string.h>

// ---- loading

typedef struct Load {
    heald_model *model;
    const char *name;
    const char *path; // NULL: in memory
    const void *data;
    size_t size;
    bool is_text;      // in the language, not ONNX
    const char *graph; // of a text; NULL: the only one
} Load;

static heald_value_info *describe(heald_model *m, const GraphValues *list)
{
    heald_value_info *out = NEW_ARRAY(&m->arena, heald_value_info, list->n);
    for (int i = 0; i < list->n; i++) {
        const GraphValue *v = list->at[i];
        int rank = v->rank < 0 ? 0 : v->rank;
        int64_t *dims = NEW_ARRAY(&m->arena, int64_t, rank);
        const char **names = NEW_ARRAY(&m->arena, const char *, rank);
        for (int k = 0; k < rank; k++) {
            dims[k] = v->dims[k].kind == V_INT ? v->dims[k].u.i : -1;
            names[k] = v->dims[k].kind == V_STR ? v->dims[k].u.str : NULL;
        }
        out[i] = (heald_value_info){v->name, (heald_dtype)v->type, v->rank, dims, names};
    }
    return out;
}

static const char *folder_of(Arena *a, const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? arena_strndup(a, path, (size_t)(slash - path) + 1) : ".";
}

static heald_status read_onnx(heald_context *c, Load *l)
{
    heald_model *m = l->model;
    const char *why = l->path ? file_map(&m->arena, l->path, &m->file) : NULL;
    if (why) return error_set(&c->error, HEALD_IO, "%s", why);
    const uint8_t *data = l->path ? m->file.data : l->data;
    why = onnx_model_parse(&m->arena, l->name, data, l->path ? m->file.size : l->size, &m->onnx);
    if (why) return error_set(&c->error, HEALD_FORMAT, "%s", why);
    const char *dir = l->path ? folder_of(&m->arena, l->path) : NULL;
    m->graph = onnx_import(&m->arena, &c->library, context_ops(c), m->onnx, dir, &c->diag);
    if (!m->graph) diag_note(&c->diag, 0, "in the model %s", l->name);
    return m->graph ? HEALD_OK : HEALD_DIAGNOSTIC;
}

static heald_status read_text(heald_context *c, Load *l)
{
    Node *file;
    const Node *found = NULL;
    int n = 0;
    if (!context_add_text(c, l->name, l->data, l->size, &file) ||
        !library_check(&c->library, &c->diag))
        return HEALD_DIAGNOSTIC;
    for (uint32_t i = 0; i < file->nkid; i++) {
        const Node *g = file->kid[i];
        if (g->kind != N_GRAPH || (l->graph && strcmp(g->u.sym, l->graph))) continue;
        found = g;
        n++;
    }
    if (n != 1 && l->graph)
        return error_set(&c->error, HEALD_NOT_FOUND, "%s has no graph '%s'", l->name, l->graph);
    if (n != 1) {
        return error_set(&c->error, HEALD_NOT_FOUND, "%s has %d graphs where one is needed",
                         l->name, n);
    }
    heald_model *m = l->model;
    m->graph = graph_from_text(&m->arena, &c->library, context_ops(c), &c->host, found, &c->diag);
    return m->graph ? HEALD_OK : HEALD_DIAGNOSTIC;
}

static heald_status load_body(heald_context *c, Arena *scratch, void *user)
{
    UNUSED(scratch);
    Load *l = user;
    heald_model *m = l->model;
    m->arena.nomem = &c->nomem;
    heald_status s = l->is_text ? read_text(c, l) : read_onnx(c, l);
    if (s) return s;
    m->input = describe(m, &m->graph->inputs);
    m->output = describe(m, &m->graph->outputs);
    return HEALD_OK;
}

static heald_status load(heald_context *c, Load *l, heald_model **out)
{
    *out = NULL;
    l->model = memory_alloc_zeroed(sizeof *l->model);
    if (!l->model) return HEALD_NO_MEMORY;
    l->model->context = c;
    heald_status s = context_call(c, load_body, l);
    if (s) heald_model_destroy(l->model);
    else *out = l->model;
    return s;
}

heald_status heald_model_load_onnx(heald_context *c, const char *path, heald_model **out)
{
    if (!c || !path || !out) return HEALD_INVALID_ARGUMENT;
    return load(c, &(Load){.name = path, .path = path}, out);
}

heald_status heald_model_load_onnx_memory(heald_context *c, const char *name, const void *data,
                                          size_t size, heald_model **out)
{
    if (!c || !data || !out) return HEALD_INVALID_ARGUMENT;
    return load(c, &(Load){.name = name ? name : "model", .data = data, .size = size}, out);
}

heald_status heald_model_load_text(heald_context *c, const char *name, const char *text,
                                   const char *graph, heald_model **out)
{
    if (!c || !text || !out) return HEALD_INVALID_ARGUMENT;
    return load(c,
                &(Load){.name = name ? name : "text",
                        .data = text,
                        .size = strlen(text),
                        .is_text = true,
                        .graph = graph},
                out);
}

static void instance_free(ModelInstance *i)
{
    if (!i) return;
    plan_runner_destroy(i->runner);
    model_release(i->compiled);
    arena_free(&i->arena);
    memory_free(i);
}

void heald_model_destroy(heald_model *m)
{
    if (!m) return;
    for (int i = 0; i < m->ninstance; i++) instance_free(m->instance[i]);
    instance_free(m->unfinished);
    onnx_model_close(m->onnx);
    if (m->file.data) file_unmap(&m->file);
    arena_free(&m->arena);
    memory_free(m);
}

int heald_model_input_count(const heald_model *m)
{
    return m ? m->graph->inputs.n : 0;
}

int heald_model_output_count(const heald_model *m)
{
    return m ? m->graph->outputs.n : 0;
}

const heald_value_info *heald_model_input(const heald_model *m, int i)
{
    return i >= 0 && i < heald_model_input_count(m) ? &m->input[i] : NULL;
}

const heald_value_info *heald_model_output(const heald_model *m, int i)
{
    return i >= 0 && i < heald_model_output_count(m) ? &m->output[i] : NULL;
}

// ---- instances

static void wanted_shape(const heald_value_info *v, Buf *out)
{
    buf_printf(out, "%s[", dtypes[v->dtype].name);
    for (int i = 0; i < v->rank; i++) {
        buf_puts(out, i ? ", " : "");
        if (v->dims[i] >= 0) buf_printf(out, "%lld", (long long)v->dims[i]);
        else buf_puts(out, v->dim_names[i] ? v->dim_names[i] : "?");
    }
    buf_puts(out, v->rank < 0 ? "...]" : "]");
}

static heald_status check_input(heald_model *m, int i, const heald_tensor *t)
{
    const heald_value_info *v = &m->input[i];
    heald_context *c = m->context;
    if (!t) {
        return error_set(&c->error, HEALD_INVALID_ARGUMENT, "input '%s' is missing", v->name);
    }
    bool fits = (int)t->dtype == (int)v->dtype && (v->rank < 0 || v->rank == t->rank);
    for (int k = 0; fits && k < v->rank; k++) fits = v->dims[k] < 0 || v->dims[k] == t->dims[k];
    if (fits) return HEALD_OK;
    Buf want;
    buf_init(&want, &c->scratch);
    wanted_shape(v, &want);
    char have[256];
    return error_set(&c->error, HEALD_INVALID_ARGUMENT, "input '%s' is %s, the model wants %s",
                     v->name, shape_format(have, sizeof have, t->dtype, t->rank, t->dims),
                     buf_text(&want));
}

static bool same_dims(const ModelInstance *in, int i, const heald_tensor *t)
{
    for (int k = 0; k < t->rank; k++)
        if (in->dims[i][k + 1] != t->dims[k]) return false;
    return true;
}

// Whether the plan takes the sizes of the inputs.
static bool takes(const heald_model *m, ModelInstance *in, heald_tensor *const *inputs)
{
    const int64_t *dims[MODEL_MAX_INPUTS];
    PlanInstance *plan;
    ASSERT(m->graph->inputs.n <= MODEL_MAX_INPUTS);
    for (int i = 0; i < m->graph->inputs.n; i++) dims[i] = inputs[i]->dims;
    return plan_prepare(in->runner, dims, &plan, NULL) == HEALD_OK;
}

static bool same_elements(const heald_model *m, const heald_tensor *t, const void *want)
{
    heald_tensor *host;
    if (tensor_to_host((heald_tensor *)t, &host, &m->context->error)) return false;
    bool same = !memcmp(want, host->data, (size_t)host->bytes);
    heald_tensor_release(host);
    return same;
}

static bool is_for(const heald_model *m, ModelInstance *in, heald_tensor *const *inputs)
{
    for (int i = 0; i < m->graph->inputs.n; i++) {
        const heald_tensor *t = inputs[i];
        if (in->dims[i][0] != t->rank) return false;
        if ((!in->open || in->fixed[i]) && !same_dims(in, i, t)) return false;
        if (in->fixed[i] && !same_elements(m, t, in->fixed[i])) return false;
    }
    return !in->open || takes(m, in, inputs);
}

// The elements of an input become part of the instance.
static heald_status fix_input(heald_model *m, ModelInstance *in, int i, heald_tensor *t)
{
    void *copy = arena_alloc(&in->arena, (size_t)t->bytes);
    heald_tensor *host;
    heald_status s = tensor_to_host(t, &host, &m->context->error);
    if (s) return s;
    memcpy(copy, host->data, (size_t)host->bytes);
    in->fixed[i] = copy;
    heald_tensor_release(host);
    return HEALD_OK;
}

// Tries again with more inputs known, as long as the graph asks for them.
static heald_status specialise(heald_model *m, ModelInstance *in, heald_tensor *const *inputs,
                               Graph **out)
{
    heald_context *c = m->context;
    int n = m->graph->inputs.n;
    heald_status status = HEALD_OK;
    const int64_t **dims = NEW_ARRAY(&in->arena, const int64_t *, n);
    int *rank = NEW_ARRAY(&in->arena, int, n);
    bool *wanted = NEW_ARRAY(&in->arena, bool, n);
    for (int i = 0; i < n; i++) {
        dims[i] = in->dims[i] + 1;
        rank[i] = inputs[i]->rank;
    }
    Specialisation s = {.dims = dims, .rank = rank, .data = in->fixed, .wanted = wanted};
    s.dynamic = in->open;
    s.precision = c->precision;
    for (bool more = true; more && !status;) {
        more = false;
        memset(wanted, 0, (size_t)n * sizeof *wanted);
        diag_clear(&c->diag);
        *out = graph_specialise(m->graph, &in->arena, &s, &c->host, &c->diag);
        for (int i = 0; i < n && !*out && !status; i++) {
            if (!wanted[i] || in->fixed[i]) continue;
            status = fix_input(m, in, i, inputs[i]);
            more = true;
        }
    }
    return *out || status ? status : HEALD_DIAGNOSTIC;
}

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

static heald_status compile(heald_model *m, ModelInstance *in, heald_tensor *const *inputs)
{
    heald_context *c = m->context;
    Graph *g = NULL;
    heald_status s = specialise(m, in, inputs, &g);
    if (!s && in->open && graph_broken_requirement(g)) s = HEALD_DIAGNOSTIC;
    if (s) return s;
    CompileOptions o = {.target = c->target, .user = &c->options};
    if (c->options.progress) o.progress = show_progress;
    s = context_builder(c, &o.builder);
    if (!s) s = context_device(c);
    o.pool = c->pool;
    if (!s) s = model_compile(g, &in->arena, &o, &in->compiled, &c->diag, &c->error);
    RunOptions run = {.cancel = c->options.cancel ? is_cancelled : NULL, .user = &c->options};
    if (!s) s = model_load(in->compiled, c->device, &c->error);
    if (!s) s = plan_runner_create(in->compiled->plan, c->device, &run, &in->runner, &c->error);
    return s;
}

// The least recently used one makes room.
static void keep(heald_model *m, ModelInstance *in)
{
    int at = m->ninstance;
    if (at == MODEL_MAX_INSTANCES) {
        at = 0;
        for (int i = 1; i < m->ninstance; i++)
            if (m->instance[i]->used < m->instance[at]->used) at = i;
        instance_free(m->instance[at]);
    } else {
        m->ninstance++;
    }
    m->instance[at] = in;
    m->unfinished = NULL;
}

// An instance for the inputs, open or not, in m->unfinished.
static heald_status try_instance(heald_model *m, heald_tensor *const *inputs, bool open)
{
    heald_context *c = m->context;
    instance_free(m->unfinished);
    ModelInstance *in = m->unfinished = memory_alloc_zeroed(sizeof *in);
    if (!in) return error_no_memory(&c->error, sizeof *in, "a compiled model");
    in->arena.nomem = &c->nomem;
    in->open = open;
    int n = m->graph->inputs.n;
    in->dims = NEW_ARRAY(&in->arena, const int64_t *, n);
    in->fixed = NEW_ARRAY(&in->arena, const void *, n);
    for (int i = 0; i < n; i++) {
        int64_t *dims = NEW_ARRAY(&in->arena, int64_t, inputs[i]->rank + 1);
        dims[0] = inputs[i]->rank;
        memcpy(dims + 1, inputs[i]->dims, (size_t)inputs[i]->rank * sizeof *dims);
        in->dims[i] = dims;
    }
    heald_status s = compile(m, in, inputs);
    if (!s && open && !takes(m, in, inputs)) s = HEALD_CHECK_FAILED;
    return s;
}

static bool is_open(const heald_model *m)
{
    if (m->graph->inputs.n > MODEL_MAX_INPUTS) return false;
    for (int i = 0; i < m->graph->inputs.n; i++) {
        const GraphValue *v = m->graph->inputs.at[i];
        if (v->rank < 0) return true;
        for (int k = 0; k < v->rank; k++)
            if (v->dims[k].kind != V_INT) return true;
    }
    return false;
}

// The sizes that a message is about.
static void note_sizes(const heald_model *m, heald_tensor *const *inputs)
{
    Buf text;
    buf_init(&text, &m->context->scratch);
    for (int i = 0; i < m->graph->inputs.n; i++) {
        const GraphValue *v = m->graph->inputs.at[i];
        for (int k = 0; k < inputs[i]->rank; k++) {
            const Value *d = v->rank < 0 ? NULL : &v->dims[k];
            if (d && d->kind == V_INT) continue;
            buf_printf(&text, "%s%s is %lld (axis %d of input '%s')", text.size ? ", " : "",
                       d && d->kind == V_STR && d->u.str[0] ? d->u.str : "the extent",
                       (long long)inputs[i]->dims[k], k, v->name);
        }
    }
    if (text.size) diag_note(&m->context->diag, 0, "where %s", buf_text(&text));
}

// Open if the model is; where it cannot be for these sizes, made for them alone. What is wrong with
// them shows then.
static heald_status make_instance(heald_model *m, heald_tensor *const *inputs, ModelInstance **out)
{
    bool open = is_open(m) && m->context->target.kind == TARGET_CPU;
    heald_status s = open ? try_instance(m, inputs, true) : HEALD_CHECK_FAILED;
    if (s == HEALD_DIAGNOSTIC || s == HEALD_CHECK_FAILED || s == HEALD_INVALID_ARGUMENT) {
        diag_clear(&m->context->diag);
        s = try_instance(m, inputs, false);
        if (s == HEALD_DIAGNOSTIC) note_sizes(m, inputs);
    }
    if (s) return s;
    *out = m->unfinished;
    keep(m, m->unfinished);
    return HEALD_OK;
}

heald_status model_instance(heald_model *m, heald_tensor *const *inputs, ModelInstance **out)
{
    *out = NULL;
    for (int i = 0; i < m->graph->inputs.n; i++) {
        heald_status s = check_input(m, i, inputs[i]);
        if (s) return s;
    }
    for (int i = 0; i < m->ninstance && !*out; i++)
        if (is_for(m, m->instance[i], inputs)) *out = m->instance[i];
    heald_status s = *out ? HEALD_OK : make_instance(m, inputs, out);
    if (!s) (*out)->used = ++m->clock;
    return s;
}

heald_status model_run(heald_model *m, heald_tensor *const *inputs, heald_tensor **outputs)
{
    ModelInstance *in;
    heald_status s = model_instance(m, inputs, &in);
    return s ? s : plan_run_host(in->runner, inputs, outputs, &m->context->error);
}

// ---- public

typedef struct Run {
    heald_model *model;
    heald_tensor *const *inputs;
    heald_tensor **outputs;
} Run;

static heald_status prepare_body(heald_context *c, Arena *scratch, void *user)
{
    UNUSED(c);
    UNUSED(scratch);
    Run *r = user;
    ModelInstance *in;
    return model_instance(r->model, r->inputs, &in);
}

static heald_status run_body(heald_context *c, Arena *scratch, void *user)
{
    UNUSED(c);
    UNUSED(scratch);
    Run *r = user;
    return model_run(r->model, r->inputs, r->outputs);
}

heald_status heald_model_prepare(heald_model *m, heald_tensor *const *inputs)
{
    if (!m || (!inputs && m->graph->inputs.n)) return HEALD_INVALID_ARGUMENT;
    return context_call(m->context, prepare_body, &(Run){m, inputs, NULL});
}

heald_status heald_model_run(heald_model *m, heald_tensor *const *inputs, heald_tensor **outputs)
{
    if (!m || !outputs || (!inputs && m->graph->inputs.n)) return HEALD_INVALID_ARGUMENT;
    return context_call(m->context, run_body, &(Run){m, inputs, outputs});
}

const ModelInstance *model_current(const heald_model *m)
{
    const ModelInstance *last = NULL;
    for (int i = 0; i < m->ninstance; i++)
        if (!last || m->instance[i]->used > last->used) last = m->instance[i];
    return last;
}
