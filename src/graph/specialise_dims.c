// SPDX-License-Identifier: Apache-2.0
// Dimensions that stay open while a graph is specialised: those of its inputs, extents computed
// from them, and what has to be known all the same.
#include "graph/specialise.h"

#include "ir/size.h"

#include <string.h>

// ---- inputs

GraphValue *specialise_constant(Specialiser *s, const GraphValue *v)
{
    GraphValue *c = graph_value(s->to, v->name, v->type, v->rank, v->dims);
    c->data = v->data;
    return c;
}

static bool wrong_shape(Specialiser *s, const GraphValue *v)
{
    Buf want;
    buf_init(&want, s->scratch);
    for (int k = 0; k < v->rank; k++) {
        buf_puts(&want, k ? ", " : "");
        if (v->dims[k].kind == V_NONE) buf_putc(&want, '?');
        else if (v->dims[k].kind == V_STR) buf_puts(&want, v->dims[k].u.str);
        else value_print(&v->dims[k], &want);
    }
    diag_error(s->diag, 0, "input '%s' has another shape than the model's [%s]", v->name,
               buf_text(&want));
    return false;
}

static Var *new_dim(Graph *g, const char *name, const char *label, int input, int axis,
                    int64_t hint)
{
    Var *v = NEW(g->arena, Var);
    *v = (Var){.name = intern(g->library->names, label),
               .id = -1 - g->dims.n,
               .type = DT_I64,
               .lanes = 1,
               .builtin = VAR_DIM,
               .lo = 1,
               .hi = GRAPH_MAX_EXTENT,
               .divisor = 1,
               .hint = hint,
               .hinted = true};
    VEC_PUSH(g->arena, &g->dims, ((GraphDim){name, input, axis, v}));
    return v;
}

// The dimension of that name, or a new one without a name. NULL with a diagnostic where it has
// another value here.
static Var *open_dim(Specialiser *s, int input, int axis, const char *name, int64_t hint)
{
    Graph *g = s->to;
    const char *input_name = s->from->inputs.at[input]->name;
    for (int i = 0; name && i < g->dims.n; i++) {
        const GraphDim *d = &g->dims.at[i];
        if (!d->name || strcmp(d->name, name)) continue;
        if (d->var->hint == hint) return d->var;
        diag_error(s->diag, 0, "%s is %lld in input '%s' and %lld in input '%s'", name,
                   (long long)d->var->hint, s->from->inputs.at[d->input]->name, (long long)hint,
                   input_name);
        return NULL;
    }
    if (hint < 1 || hint > GRAPH_MAX_EXTENT) {
        diag_error(s->diag, 0, "axis %d of input '%s' has extent %lld", axis, input_name,
                   (long long)hint);
        return NULL;
    }
    const char *label = name ? name : arena_printf(g->arena, "%s.%d", input_name, axis);
    return new_dim(g, name, label, input, axis, hint);
}

// Elements of an integer input: sizes from 1 on are open, other numbers are what they are at hand.
static void open_elements(Specialiser *s, GraphValue *in, int input, const void *data)
{
    Graph *g = s->to;
    int64_t n = graph_value_nelem(in);
    Value *at = NEW_ARRAY(g->arena, Value, n);
    for (int64_t i = 0; i < n; i++) {
        int64_t x = dtype_load_i64(in->type, (const char *)data + (size_t)i * dtype_size(in->type));
        const char *label = arena_printf(g->arena, "%s[%lld]", in->name, (long long)i);
        Var *v = new_dim(g, label, label, input, in->rank + (int)i, x);
        if (x < 1 || x > GRAPH_MAX_EXTENT) v->lo = v->hi = x;
        at[i] = size_value(g->arena, value_expr(node_var(g->arena, 0, v)));
    }
    in->elements = at;
}

static bool input_dims(Specialiser *s, const Specialisation *how, int i, Value *dims)
{
    const GraphValue *v = s->from->inputs.at[i];
    bool open = how->dynamic && !(how->data && how->data[i]);
    if (v->rank >= 0 && v->rank != how->rank[i]) return wrong_shape(s, v);
    for (int k = 0; k < how->rank[i]; k++) {
        const Value *d = v->rank < 0 ? NULL : &v->dims[k];
        dims[k] = value_int(how->dims[i][k]);
        if (d && d->kind == V_INT) {
            if (d->u.i != dims[k].u.i) return wrong_shape(s, v);
        } else if (open) {
            const char *name = d && d->kind == V_STR && d->u.str[0] ? d->u.str : NULL;
            Var *var = open_dim(s, i, k, name, how->dims[i][k]);
            if (!var) return false;
            dims[k] = value_expr(node_var(s->to->arena, 0, var));
        }
    }
    return true;
}

bool specialise_inputs(Specialiser *s, const Specialisation *how)
{
    for (int i = 0; i < s->from->inputs.n; i++) {
        GraphValue *v = s->from->inputs.at[i];
        Value dims[GRAPH_MAX_RANK];
        if (!input_dims(s, how, i, dims)) return false;
        DType type = how->type ? how->type[i] : v->type;
        GraphValue *in = graph_value(s->to, v->name, type, how->rank[i], dims);
        VEC_PUSH(s->to->arena, &s->to->inputs, in);
        s->map[v->id] = in;
        if (!how->data || !how->data[i]) continue;
        if (how->open && how->open[i]) {
            open_elements(s, in, i, how->data[i]);
            continue;
        }
        s->map[v->id] = specialise_constant(s, in); // the input itself stays, unread
        s->map[v->id]->data = how->data[i];
    }
    return true;
}

// ---- what must be known

bool elements_known(const GraphValue *v)
{
    if (v->data) return true;
    for (int64_t i = 0; v->elements && i < graph_value_nelem(v); i++)
        if (v->elements[i].kind == V_NONE) return false;
    return v->elements != NULL;
}

bool specialise_size(Specialiser *s, const GraphNode *n, Value v, int64_t *out)
{
    Arena *a = s->scratch;
    if (v.kind != V_EXPR) {
        *out = v.u.i;
        return v.kind == V_INT || v.kind == V_BOOL;
    }
    if (!size_hint(v.u.expr, out)) return false;
    Buf text;
    buf_init(&text, a);
    value_print(&v, &text);
    buf_printf(&text, " is not %lld", (long long)*out);
    Node *same = v.u.expr->type == DT_BOOL ? (*out ? v.u.expr : node_unary(a, N_NOT, v.u.expr))
                                           : node_binary(a, N_EQ, v.u.expr, node_i64(a, *out));
    return graph_require(s->to, same, buf_text(&text), n, s->diag);
}

bool specialise_known(Specialiser *s, const GraphNode *n, GraphValue *v)
{
    if (v->data) return true;
    if (!elements_known(v) || dtype_is_float(v->type)) return false;
    int64_t count = graph_value_nelem(v), x;
    char *data = arena_alloc(s->to->arena, (size_t)count * dtype_size(v->type));
    for (int64_t i = 0; i < count; i++) {
        if (!specialise_size(s, n, v->elements[i], &x)) return false;
        dtype_store_i64(v->type, data + (size_t)i * dtype_size(v->type), x);
    }
    v->data = data;
    return true;
}

// ---- extents

bool specialise_extent(Specialiser *s, const GraphNode *n, const char *name, int axis, Value d)
{
    if (d.kind == V_INT) return true;
    if (d.kind != V_EXPR || !size_is(d.u.expr)) {
        diag_error(s->diag, 0, "axis %d of '%s' is only known at run time", axis, name);
        return false;
    }
    int64_t lo, hi;
    d = size_value(s->scratch, d);
    if (d.kind == V_INT) return true;
    if (size_is_large(&d)) {
        diag_error(s->diag, 0, "axis %d of '%s' depends on open dimensions in too many ways", axis,
                   name);
        return false;
    }
    size_range(d.u.expr, &lo, &hi);
    if (lo >= 0) return true;
    Buf text;
    buf_init(&text, s->scratch);
    buf_printf(&text, "axis %d of '%s' would have a negative extent, ", axis, name);
    value_print(&d, &text);
    Node *cond = node_binary(s->scratch, N_LE, node_i64(s->scratch, 0), d.u.expr);
    return graph_require(s->to, cond, buf_text(&text), n, s->diag);
}

void specialise_sizes(Graph *g)
{
    for (int i = 0; i < g->values.n; i++)
        for (int k = 0; k < g->values.at[i]->rank; k++)
            g->values.at[i]->dims[k] = size_value(g->arena, g->values.at[i]->dims[k]);
    for (int i = 0; i < g->nodes.n; i++) {
        Map *attrs = &g->nodes.at[i]->attrs;
        for (int k = 0; k < attrs->n; k++) {
            Value *v = NEW(g->arena, Value); // the model's own stay as they are
            *v = size_value(g->arena, *(const Value *)attrs->entry[k].value);
            attrs->entry[k].value = v;
        }
    }
}
