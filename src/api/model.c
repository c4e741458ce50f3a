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
    m->optional = describe(m, &m->graph->defaults);
    m->given = NEW_ARRAY(&m->arena, heald_tensor *, m->graph->defaults.n);
    model_section_init(&m->section, c, m->graph);
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
    if (!c || !path || !out) return context_refuse(c, "an argument is NULL");
    return load(c, &(Load){.name = path, .path = path}, out);
}

heald_status heald_model_load_onnx_memory(heald_context *c, const char *name, const void *data,
                                          size_t size, heald_model **out)
{
    if (!c || !data || !out) return context_refuse(c, "an argument is NULL");
    return load(c, &(Load){.name = name ? name : "model", .data = data, .size = size}, out);
}

heald_status heald_model_load_text(heald_context *c, const char *name, const char *text,
                                   const char *graph, heald_model **out)
{
    if (!c || !text || !out) return context_refuse(c, "an argument is NULL");
    return load(c,
                &(Load){.name = name ? name : "text",
                        .data = text,
                        .size = strlen(text),
                        .is_text = true,
                        .graph = graph},
                out);
}

void heald_model_destroy(heald_model *m)
{
    if (!m) return;
    model_section_free(&m->section);
    model_given_free(m);
    context_leave(m->context);
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

const char *value_info_text(Arena *a, const heald_value_info *v)
{
    Buf out;
    buf_init(&out, a);
    buf_printf(&out, "%s[", dtypes[v->dtype].name);
    for (int i = 0; i < v->rank; i++) {
        buf_puts(&out, i ? ", " : "");
        if (v->dims[i] >= 0) buf_printf(&out, "%lld", (long long)v->dims[i]);
        else buf_puts(&out, v->dim_names[i] ? v->dim_names[i] : "?");
    }
    buf_puts(&out, v->rank < 0 ? "...]" : "]");
    return buf_text(&out);
}

heald_status model_check_input(heald_model *m, const heald_value_info *v, const heald_tensor *t)
{
    heald_context *c = m->context;
    if (!t) {
        return error_set(&c->error, HEALD_INVALID_ARGUMENT, "input '%s' is missing", v->name);
    }
    bool fits = (int)t->dtype == (int)v->dtype && (v->rank < 0 || v->rank == t->rank);
    for (int k = 0; fits && k < v->rank; k++) fits = v->dims[k] < 0 || v->dims[k] == t->dims[k];
    if (fits) return HEALD_OK;
    char have[256];
    return error_set(&c->error, HEALD_INVALID_ARGUMENT, "input '%s' is %s, the model wants %s",
                     v->name, shape_format(have, sizeof have, t->dtype, t->rank, t->dims),
                     value_info_text(&c->scratch, v));
}

heald_status model_instance(heald_model *m, heald_tensor *const *inputs, ModelInstance **out)
{
    *out = NULL;
    for (int i = 0; i < m->graph->inputs.n; i++) {
        heald_status s = model_check_input(m, &m->input[i], inputs[i]);
        if (s) return s;
    }
    ModelSection *section;
    heald_status s = model_section(m, &section);
    inputs = model_inputs(m, &m->context->scratch, inputs);
    return s ? s : model_section_instance(section, inputs, out);
}

heald_status model_run(heald_model *m, heald_tensor *const *inputs, heald_tensor **outputs)
{
    ModelInstance *in;
    ModelSection *section;
    heald_status s = model_instance(m, inputs, &in);
    if (!s) s = model_section(m, &section);
    if (!s) s = model_section_load(section, in);
    if (s) return s;
    inputs = model_inputs(m, &m->context->scratch, inputs);
    return section_run_host(&section->base, inputs, outputs, &m->context->error);
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
    if (!m) return HEALD_INVALID_ARGUMENT;
    if ((!inputs && m->graph->inputs.n)) return context_refuse(m->context, "an argument is NULL");
    return context_call(m->context, prepare_body, &(Run){m, inputs, NULL});
}

heald_status heald_model_run(heald_model *m, heald_tensor *const *inputs, heald_tensor **outputs)
{
    if (!m) return HEALD_INVALID_ARGUMENT;
    if (!outputs || (!inputs && m->graph->inputs.n))
        return context_refuse(m->context, "an argument is NULL");
    return context_call(m->context, run_body, &(Run){m, inputs, outputs});
}

const ModelInstance *model_current(const heald_model *m)
{
    const ModelSection *section = model_current_section(m);
    return section ? model_section_current(section) : NULL;
}
