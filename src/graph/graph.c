// SPDX-License-Identifier: Apache-2.0
// Making and printing graphs.
#include "graph/private.h"

#include "ir/size.h"

#include <string.h>

Graph *graph_new(Arena *a, const Library *l, OpTable *ops, const char *name)
{
    Graph *g = NEW(a, Graph);
    g->arena = a;
    g->library = l;
    g->ops = ops;
    g->name = arena_strdup(a, name);
    return g;
}

GraphValue *graph_value(Graph *g, const char *name, DType type, int rank, const Value *dims)
{
    ASSERT(rank <= GRAPH_MAX_RANK);
    GraphValue *v = NEW(g->arena, GraphValue);
    v->id = g->values.n;
    v->name = arena_strdup(g->arena, name);
    v->type = type;
    v->rank = rank;
    v->dims = NEW_ARRAY(g->arena, Value, max_i64(rank, 0));
    for (int i = 0; i < rank; i++) v->dims[i] = size_value(g->arena, dims[i]);
    VEC_PUSH(g->arena, &g->values, v);
    return v;
}

GraphValue *graph_input(Graph *g, const char *name, DType type, int rank, const Value *dims)
{
    GraphValue *v = graph_value(g, name, type, rank, dims);
    VEC_PUSH(g->arena, &g->inputs, v);
    return v;
}

GraphValue *graph_constant(Graph *g, const char *name, DType type, int rank, const int64_t *dims,
                           const void *data)
{
    Value d[GRAPH_MAX_RANK];
    for (int i = 0; i < rank; i++) d[i] = value_int(dims[i]);
    GraphValue *v = graph_value(g, name, type, rank, d);
    v->data = data;
    return v;
}

GraphNode *graph_node(Graph *g, const char *name, const char *origin, OpBindings choices,
                      int ninput, GraphValue *const *input, int noutput, GraphValue *const *output)
{
    GraphNode *n = NEW(g->arena, GraphNode);
    n->id = g->nodes.n;
    n->name = arena_strdup(g->arena, name);
    n->origin = arena_strdup(g->arena, origin);
    n->choices = choices;
    n->ninput = ninput;
    n->input = arena_copy(g->arena, input, (size_t)ninput * sizeof *input);
    n->noutput = noutput;
    n->output = arena_copy(g->arena, output, (size_t)noutput * sizeof *output);
    for (int i = 0; i < noutput; i++) {
        if (!output[i]) continue;
        output[i]->producer = n;
        output[i]->output = i;
    }
    for (int i = 0; i < ninput; i++)
        if (input[i]) VEC_PUSH(g->arena, &input[i]->readers, n);
    VEC_PUSH(g->arena, &g->nodes, n);
    return n;
}

void graph_attr(Graph *g, GraphNode *n, const char *name, Value v)
{
    Value *at = NEW(g->arena, Value);
    *at = v;
    map_put(g->arena, &n->attrs, intern(g->library->names, name), at);
}

void graph_output(Graph *g, GraphValue *v)
{
    v->is_output = true;
    VEC_PUSH(g->arena, &g->outputs, v);
}

void graph_default(Graph *g, const GraphValue *constant, const Value *dims)
{
    GraphValue *v = NEW(g->arena, GraphValue);
    *v = (GraphValue){
        .id = constant->id, .name = constant->name, .type = constant->type, .rank = constant->rank};
    v->dims = arena_copy(g->arena, dims, (size_t)v->rank * sizeof *dims);
    VEC_PUSH(g->arena, &g->defaults, v);
}

Graph *graph_without_defaults(const Graph *g, Arena *a, const bool *given)
{
    Graph *to = NEW(a, Graph);
    *to = *g;
    to->arena = a;
    to->values = (GraphValues){0};
    to->inputs = (GraphValues){0};
    to->defaults = (GraphValues){0};
    for (int i = 0; i < g->values.n; i++) VEC_PUSH(a, &to->values, g->values.at[i]);
    for (int i = 0; i < g->inputs.n; i++) VEC_PUSH(a, &to->inputs, g->inputs.at[i]);
    for (int i = 0; i < g->defaults.n; i++) {
        GraphValue *v = g->defaults.at[i];
        if (!given[i]) continue;
        to->values.at[v->id] = v;
        VEC_PUSH(a, &to->inputs, v);
    }
    return to;
}

Value size_value(Arena *a, Value v)
{
    if (v.kind == V_TUPLE) {
        Value t = value_tuple(a, v.u.tuple.n, NULL);
        for (int i = 0; i < v.u.tuple.n; i++) t.u.tuple.at[i] = size_value(a, v.u.tuple.at[i]);
        return t;
    }
    if (v.kind != V_EXPR || !size_is(v.u.expr)) return v;
    return value_expr(size_copy(a, size_simplify(a, v.u.expr)));
}

bool size_is_one(const Value *v)
{
    return v->kind == V_INT && v->u.i == 1;
}

bool attrs_equal(const Map *a, const Map *b)
{
    if (a->n != b->n) return false;
    for (int i = 0; i < a->n; i++) {
        const Value *other = map_get(b, a->entry[i].key);
        if (!other || !value_equal(a->entry[i].value, other)) return false;
    }
    return true;
}

Map attrs_copy(Arena *a, const Map *attrs)
{
    Map copy = {0};
    for (int i = 0; i < attrs->n; i++) {
        Value *v = arena_copy(a, attrs->entry[i].value, sizeof(Value));
        if (v->kind == V_TUPLE) *v = value_tuple(a, v->u.tuple.n, v->u.tuple.at);
        map_put(a, &copy, attrs->entry[i].key, v);
    }
    return copy;
}

static int count_nodes(const Node *n, int most)
{
    int count = 1;
    for (uint32_t i = 0; i < n->nkid && count <= most; i++) count += count_nodes(n->kid[i], most);
    return count;
}

bool size_is_large(const Value *v)
{
    enum { MAX_NODES = 300 };
    return v->kind == V_EXPR && count_nodes(v->u.expr, MAX_NODES) > MAX_NODES;
}

bool graph_value_static(const GraphValue *v)
{
    for (int i = 0; i < v->rank; i++)
        if (v->dims[i].kind != V_INT) return false;
    return true;
}

void graph_value_dims(const GraphValue *v, int64_t *dims)
{
    for (int i = 0; i < v->rank; i++) {
        dims[i] = v->dims[i].u.i;
        if (v->dims[i].kind == V_INT) continue;
        ASSERT(v->dims[i].kind == V_EXPR);
        if (!size_hint(v->dims[i].u.expr, &dims[i])) dims[i] = 1;
    }
}

Value graph_value_size(Arena *a, const GraphValue *v)
{
    Node *n = node_i64(a, 1);
    for (int i = 0; i < v->rank; i++) {
        const Value *d = &v->dims[i];
        n = node_binary(a, N_MUL, n, d->kind == V_INT ? node_i64(a, d->u.i) : d->u.expr);
    }
    return size_value(a, value_expr(n));
}

bool graph_same_dims(const GraphValue *a, const GraphValue *b)
{
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (!value_equal(&a->dims[i], &b->dims[i])) return false;
    return true;
}

int64_t graph_value_nelem(const GraphValue *v)
{
    int64_t dims[GRAPH_MAX_RANK], n = 1;
    graph_value_dims(v, dims);
    for (int i = 0; i < v->rank; i++)
        if (!mul_i64(n, dims[i], &n)) return INT64_MAX;
    return n;
}

int64_t graph_value_bytes(const GraphValue *v)
{
    return dtype_bytes(v->type, graph_value_nelem(v));
}

static void print_value(const GraphValue *v, Buf *out)
{
    if (!v) {
        buf_puts(out, "-");
        return;
    }
    buf_printf(out, "%%%d", v->id);
    if (v->type == DT_NONE) return;
    buf_printf(out, ": %s[", dtypes[v->type].name);
    for (int i = 0; i < v->rank; i++) {
        buf_puts(out, i ? ", " : "");
        if (v->dims[i].kind == V_NONE) buf_putc(out, '?');
        else value_print(&v->dims[i], out);
    }
    buf_putc(out, ']');
}

static void print_list(GraphValue *const *at, int n, Buf *out)
{
    for (int i = 0; i < n; i++) {
        buf_puts(out, i ? ", " : "");
        print_value(at[i], out);
    }
}

void graph_print(const Graph *g, Buf *out)
{
    buf_printf(out, "graph %s(", g->name);
    print_list(g->inputs.at, g->inputs.n, out);
    buf_puts(out, ")\n");
    for (int i = 0; i < g->nodes.n; i++) {
        const GraphNode *n = g->nodes.at[i];
        buf_puts(out, "  ");
        print_list(n->output, n->noutput, out);
        buf_printf(out, " = %s(", n->op ? n->op->decl->u.sym : n->origin);
        print_list(n->input, n->ninput, out);
        for (int k = 0; k < n->attrs.n; k++) {
            buf_printf(out, "%s%s = ", k ? ", " : "; ", (Sym)n->attrs.entry[k].key);
            value_print(n->attrs.entry[k].value, out);
        }
        buf_printf(out, ")  // %s\n", n->name);
    }
    buf_puts(out, "  return ");
    print_list(g->outputs.at, g->outputs.n, out);
    buf_putc(out, '\n');
}
