// SPDX-License-Identifier: Apache-2.0
// Conditions of rules: a few that ask of tensors what expressions cannot, and otherwise expressions
// of shapes, types, attributes and constants of one element.
#include "graph/rules.h"
#include "graph/specialise.h"

#include <math.h>
#include <string.h>

// Names stand for their values: constants of one element as numbers, other tensors by shape.
static Value binding_value(Instance *in, const Binding *b)
{
    double x;
    if (b->attr) return *b->attr;
    if (!b->value) return value_none();
    if (match_constant(b->value, &x))
        return dtype_is_float(b->value->type) ? value_float(x)
                                              : value_int(dtype_load_i64(DT_F64, &x));
    Value v = {.kind = V_TENSOR};
    v.u.tensor = value_leaf(in, b->value, b->name);
    return v;
}

bool match_evaluate(Match *m, Node *n, Value *out)
{
    Diag quiet;
    diag_init(&quiet, m->scratch, m->g->library->sources);
    Instance *in = instance_new(m->scratch, m->g->library, m->how->host, &quiet);
    Sym names[RULE_MAX_BINDING + 1];
    Value values[RULE_MAX_BINDING + 1];
    for (int i = 0; i < m->nbinding; i++) {
        names[i] = m->binding[i].name;
        values[i] = binding_value(in, &m->binding[i]);
    }
    GraphValue *result = m->value[0];
    names[m->nbinding] = intern(m->g->library->names, "result");
    values[m->nbinding] = (Value){.kind = V_TENSOR};
    values[m->nbinding].u.tensor = value_leaf(in, result, "result");
    return instance_evaluate(in, n, m->nbinding + 1, names, values, out);
}

// ---- of tensors

static bool is_constant(const Match *m, const GraphValue *v)
{
    UNUSED(m);
    return graph_value_fixed(v);
}

static bool is_scalar(const Match *m, const GraphValue *v)
{
    UNUSED(m);
    return graph_value_static(v) && graph_value_nelem(v) == 1;
}

// Of the type and shape of what the first root computes.
static bool fits(const Match *m, const GraphValue *v)
{
    return specialised_alike(v, m->value[0]);
}

// Rows of 0 up to the diagonal that ends in the last column, and of hardly anything after it: the
// mask of what comes later.
static bool is_causal(const Match *m, const GraphValue *v)
{
    UNUSED(m);
    if (!v->data || v->rank < 2 || !dtype_is_float(v->type)) return false;
    int64_t rows = v->dims[v->rank - 2].u.i, columns = v->dims[v->rank - 1].u.i;
    size_t size = dtype_size(v->type);
    if (rows < 1 || rows > columns) return false;
    for (int64_t i = 0, n = graph_value_nelem(v); i < n; i++) {
        double x = dtype_load_f64(v->type, (const char *)v->data + (size_t)i * size);
        bool later = i % columns > i / columns % rows + columns - rows;
        if (later ? !(x <= -1e4) : x != 0) return false;
    }
    return true;
}

// In each row along the last axis something is true.
static bool has_true(const Match *m, const GraphValue *v)
{
    UNUSED(m);
    if (!v->data || v->rank < 1 || v->type != DT_BOOL) return false;
    const unsigned char *at = v->data;
    int64_t columns = v->dims[v->rank - 1].u.i;
    bool any = false;
    for (int64_t i = 0, n = graph_value_nelem(v); i < n; i++) {
        any = any || at[i];
        if ((i + 1) % columns) continue;
        if (!any) return false;
        any = false;
    }
    return true;
}

static const struct {
    const char *name;
    bool (*holds)(const Match *m, const GraphValue *v);
} conditions[] = {
    // name       of each argument that is not absent
    {"const", is_constant}, {"scalar", is_scalar},      {"fits", fits},
    {"causal", is_causal},  {"attends_some", has_true},
};

static bool all_hold(Match *m, const Node *call, bool (*test)(const Match *, const GraphValue *))
{
    for (uint32_t i = 1; i < call->nkid; i++) {
        Binding *b = call->kid[i]->kind == N_NAME ? match_find(m, call->kid[i]->u.sym) : NULL;
        if (!b || (b->value && !test(m, b->value))) return false;
    }
    return true;
}

// native(op): the target has a template for the op, and rewriting finds that it serves the result's
// nodes of that op.
static bool is_native(Match *m, const Node *call)
{
    const Node *name = call->nkid == 2 && call->kid[1]->kind == N_NAME ? call->kid[1] : NULL;
    const Node *op = name ? map_get(&m->g->library->ops, name->u.sym) : NULL, **list;
    GraphNode probe = {.op = op ? op_info(m->g->ops, op) : NULL};
    m->native = op;
    return op && group_templates(m->g, &probe, m->how->device, m->scratch, &list) > 0;
}

static const Node *special_name(const Node *n)
{
    return n->kind == N_CALL && n->kid[0]->kind == N_NAME ? n->kid[0] : NULL;
}

// ---- of the match

// moved(): what reads the results only moves elements.
static bool only_moved(Match *m, const Node *call)
{
    UNUSED(call);
    for (int i = 0; i < m->nroot; i++) {
        const GraphValue *v = m->value[i];
        for (int r = 0; r < v->readers.n; r++)
            if (!v->readers.at[r]->op->moves && !v->readers.at[r]->op->view) return false;
        if (v->is_output || !v->readers.n) return false;
    }
    return true;
}

// stays(): see rule_leaves.
static bool always(Match *m, const Node *call)
{
    UNUSED(m);
    UNUSED(call);
    return true;
}

static const struct {
    const char *name;
    bool (*holds)(Match *m, const Node *call);
} questions[] = {{"native", is_native}, {"moved", only_moved}, {"stays", always}};

bool rule_leaves(const Node *when)
{
    if (!when) return false;
    if (when->kind == N_LAND) return rule_leaves(when->kid[0]) || rule_leaves(when->kid[1]);
    const Node *name = special_name(when);
    return name && !strcmp(name->u.sym, "stays");
}

// -1: the call is none of these.
static int special(Match *m, const Node *call)
{
    const Node *name = special_name(call);
    for (size_t i = 0; name && i < COUNT(conditions); i++)
        if (!strcmp(name->u.sym, conditions[i].name)) return all_hold(m, call, conditions[i].holds);
    for (size_t i = 0; name && i < COUNT(questions); i++)
        if (!strcmp(name->u.sym, questions[i].name)) return questions[i].holds(m, call);
    return -1;
}

bool match_holds(Match *m, Node *when)
{
    if (!when) return true;
    if (when->kind == N_LAND) return match_holds(m, when->kid[0]) && match_holds(m, when->kid[1]);
    if (when->kind == N_LOR) return match_holds(m, when->kid[0]) || match_holds(m, when->kid[1]);
    int known = special(m, when->kind == N_NOT ? when->kid[0] : when);
    if (known >= 0) return known != (when->kind == N_NOT);
    Value v;
    return match_evaluate(m, when, &v) && v.kind == V_BOOL && v.u.i;
}
