// SPDX-License-Identifier: Apache-2.0
// Optional inputs of a model: initializers that are inputs too. Not given, they are constants, as
// any. For each set of them that is given, the model is compiled once more, with these as inputs.
#include "api/model.h"

#include "runtime/memory.h"

enum { MAX_SETS = 8 }; // of given ones that are kept compiled

static int ngiven(const heald_model *m)
{
    int n = 0;
    for (int i = 0; i < m->graph->defaults.n; i++) n += m->given[i] != NULL;
    return n;
}

static bool is_for(const heald_model *m, const ModelGiven *v)
{
    if (!v->section.graph) return false; // memory ran out while it was made
    for (int i = 0; i < m->graph->defaults.n; i++)
        if (v->given[i] != (m->given[i] != NULL)) return false;
    return true;
}

static void variant_free(ModelGiven *v)
{
    model_section_free(&v->section);
    arena_free(&v->arena);
    memory_free(v);
}

// The variant for the inputs given now, at the front of the list; NULL: there is none yet. Then the
// one that was not used for longest makes room.
static ModelGiven *find(heald_model *m)
{
    ModelGiven **at = &m->variant, **last = at;
    int n = 0;
    for (; *at && !is_for(m, *at); at = &(*at)->next, n++) last = at;
    if (!*at && n < MAX_SETS) return NULL;
    ModelGiven *v = *at;
    if (!v) {
        variant_free(*last);
        *last = NULL;
        return NULL;
    }
    *at = v->next;
    v->next = m->variant;
    return m->variant = v;
}

static heald_status variant_new(heald_model *m)
{
    heald_context *c = m->context;
    ModelGiven *v = memory_alloc_zeroed(sizeof *v);
    if (!v) return error_no_memory(&c->error, sizeof *v, "a compiled model");
    v->next = m->variant;
    m->variant = v;
    v->arena.nomem = &c->nomem;
    v->given = NEW_ARRAY(&v->arena, bool, m->graph->defaults.n);
    for (int i = 0; i < m->graph->defaults.n; i++) v->given[i] = m->given[i] != NULL;
    model_section_init(&v->section, c, graph_without_defaults(m->graph, &v->arena, v->given));
    return HEALD_OK;
}

heald_status model_section(heald_model *m, ModelSection **out)
{
    *out = &m->section;
    if (!ngiven(m)) return HEALD_OK;
    heald_status s = find(m) ? HEALD_OK : variant_new(m);
    if (!s) *out = &m->variant->section;
    return s;
}

const ModelSection *model_current_section(const heald_model *m)
{
    if (!ngiven(m)) return &m->section;
    return m->variant && is_for(m, m->variant) ? &m->variant->section : NULL;
}

heald_tensor **model_inputs(const heald_model *m, Arena *a, heald_tensor *const *inputs)
{
    int n = m->graph->inputs.n;
    heald_tensor **all = NEW_ARRAY(a, heald_tensor *, n + ngiven(m));
    for (int i = 0; i < n; i++) all[i] = inputs[i];
    for (int i = 0; i < m->graph->defaults.n; i++)
        if (m->given[i]) all[n++] = m->given[i];
    return all;
}

void model_given_free(heald_model *m)
{
    for (int i = 0; m->given && i < m->graph->defaults.n; i++) heald_tensor_release(m->given[i]);
    while (m->variant) {
        ModelGiven *v = m->variant;
        m->variant = v->next;
        variant_free(v);
    }
}

// ---- public

int heald_model_optional_count(const heald_model *m)
{
    return m ? m->graph->defaults.n : 0;
}

const heald_value_info *heald_model_optional(const heald_model *m, int i)
{
    return i >= 0 && i < heald_model_optional_count(m) ? &m->optional[i] : NULL;
}

typedef struct Give {
    heald_model *model;
    int at;
    heald_tensor *tensor;
} Give;

static heald_status give_body(heald_context *c, Arena *scratch, void *user)
{
    UNUSED(scratch);
    Give *g = user;
    heald_model *m = g->model;
    if (g->at < 0 || g->at >= m->graph->defaults.n) {
        return error_set(&c->error, HEALD_INVALID_ARGUMENT, "there is no optional input %d: %d are",
                         g->at, m->graph->defaults.n);
    }
    heald_status s = g->tensor ? model_check_input(m, &m->optional[g->at], g->tensor) : HEALD_OK;
    if (s) return s;
    if (g->tensor) heald_tensor_retain(g->tensor);
    heald_tensor_release(m->given[g->at]);
    m->given[g->at] = g->tensor;
    return HEALD_OK;
}

heald_status heald_model_give(heald_model *m, int i, heald_tensor *t)
{
    if (!m) return HEALD_INVALID_ARGUMENT;
    return context_call(m->context, give_body, &(Give){m, i, t});
}
