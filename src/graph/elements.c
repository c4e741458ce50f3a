// SPDX-License-Identifier: Apache-2.0
// Small tensors whose elements are known or are sizes, as shapes that a model computes with. The
// partial evaluator computes them: the op's meaning at each index.
#include "graph/private.h"

#include "ir/size.h"

enum { MAX_ELEMENTS = 64 };

Value constant_element(const GraphValue *v, int64_t i)
{
    const char *p = (const char *)v->data + (size_t)i * dtype_size(v->type);
    if (dtype_is_float(v->type)) return value_float(dtype_load_f64(v->type, p));
    int64_t x = dtype_load_i64(v->type, p);
    return v->type == DT_BOOL ? value_bool(x != 0) : value_int(x);
}

static bool is_small(const GraphValue *v)
{
    return graph_value_static(v) && graph_value_nelem(v) <= MAX_ELEMENTS;
}

const Value *value_elements(Arena *a, const GraphValue *v)
{
    if (v->elements || !v->data || !is_small(v)) return v->elements;
    int64_t n = graph_value_nelem(v);
    Value *out = NEW_ARRAY(a, Value, n);
    for (int64_t i = 0; i < n; i++) out[i] = constant_element(v, i);
    return out;
}

// A size, whatever integer type it is computed in.
static Value as_size(Arena *a, Value v)
{
    if (v.kind != V_EXPR) return v;
    Node *lifted = size_lift(a, v.u.expr);
    v = lifted ? size_value(a, value_expr(lifted)) : value_none();
    return size_is_large(&v) ? value_none() : v;
}

static void make_constant(Graph *g, GraphValue *v, int64_t n)
{
    char *data = arena_alloc(g->arena, (size_t)n * dtype_size(v->type));
    for (int64_t i = 0; i < n; i++) {
        char *p = data + (size_t)i * dtype_size(v->type);
        const Value *x = &v->elements[i];
        if (x->kind == V_FLOAT) dtype_store_f64(v->type, p, x->u.f);
        else if (dtype_is_float(v->type)) dtype_store_f64(v->type, p, (double)x->u.i);
        else dtype_store_i64(v->type, p, x->u.i);
    }
    v->data = data;
    v->elements = NULL;
}

void output_elements(Graph *g, Instance *in, Tensor *t, GraphValue *v)
{
    if (v->data || !is_small(v) || t->producer->decl->sub == OP_SERIAL) return;
    int64_t n = graph_value_nelem(v), index[GRAPH_MAX_RANK] = {0};
    Value *at = NEW_ARRAY(g->arena, Value, n);
    bool any = false, all = true;
    for (int64_t i = 0; i < n; i++) {
        if (instance_element(in, t, index, &at[i])) at[i] = as_size(g->arena, at[i]);
        else at[i] = value_none();
        bool known = at[i].kind == V_INT || at[i].kind == V_BOOL || at[i].kind == V_FLOAT;
        any = any || at[i].kind != V_NONE;
        all = all && known;
        for (int k = v->rank - 1; k >= 0 && ++index[k] == v->dims[k].u.i; k--) index[k] = 0;
    }
    if (!any) return;
    v->elements = at;
    if (all) make_constant(g, v, n);
}
