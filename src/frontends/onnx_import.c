// SPDX-License-Identifier: Apache-2.0
// ONNX to graph. Nothing here knows an operator but Constant: which declaration an operator is, and
// which of its inputs are attributes, is said by the declarations.
#include "frontends/onnx_import.h"

#include <string.h>

typedef struct Scope { // names of a graph, then those of the graph around it
    Map values;        // Sym -> GraphValue *
    struct Scope *outer;
} Scope;

typedef struct Import {
    Arena *arena;
    const Library *library;
    OpTable *ops;
    const OnnxModel *model;
    const char *model_dir;
    Diag *diag;
    Graph *graph;
    Scope *scope;
    const GraphGuard *guard; // of the nodes that are being read
    int nunknown;
    Buf unknown; // operators that no declaration reads, one a line
} Import;

static GraphValue *find(Import *im, const char *name)
{
    Sym sym = intern(im->library->names, name);
    GraphValue *v = NULL;
    for (const Scope *s = im->scope; s && !v; s = s->outer) v = map_get(&s->values, sym);
    return v;
}

static void define(Import *im, const char *name, GraphValue *v)
{
    map_put(im->arena, &im->scope->values, intern(im->library->names, name), v);
}

static bool fail(Import *im, const char *why)
{
    diag_error(im->diag, 0, "%s", why);
    return false;
}

// A new value for a result of a node; each name is given once in a graph.
static GraphValue *result(Import *im, const char *node, const char *name)
{
    if (*name && map_has(&im->scope->values, intern(im->library->names, name))) {
        fail(im,
             arena_printf(im->arena, "node '%s' gives '%s', which is given already", node, name));
        return NULL;
    }
    GraphValue *v = graph_value(im->graph, name, DT_NONE, -1, NULL);
    define(im, name, v);
    return v;
}

// ---- constants

static bool constant(Import *im, const char *name, const OnnxTensor *t)
{
    DType type;
    int64_t dims[ONNX_MAX_RANK];
    int rank;
    const void *data;
    const char *why = onnx_tensor_decode(im->arena, t, im->model_dir, &type, dims, &rank, &data);
    if (why) return fail(im, why);
    static const char empty[16];
    define(im, name, graph_constant(im->graph, name, type, rank, dims, data ? data : empty));
    return true;
}

static void list_constant(Import *im, const char *name, DType type, int n, bool scalar,
                          const void *data)
{
    int64_t dims[] = {n};
    void *copy = arena_copy(im->arena, data, (size_t)n * dtype_size(type));
    define(im, name, graph_constant(im->graph, name, type, scalar ? 0 : 1, dims, copy));
}

static bool constant_node(Import *im, const OnnxNode *n)
{
    if (n->output.n != 1 || n->attribute.n != 1) {
        return fail(im,
                    arena_printf(im->arena, "node '%s': Constant needs one attribute", n->name));
    }
    const OnnxAttr *a = &n->attribute.at[0];
    const char *name = n->output.at[0];
    switch (a->type) {
    case ONNX_ATTR_TENSOR: return a->t && constant(im, name, a->t);
    case ONNX_ATTR_FLOAT: list_constant(im, name, DT_F32, 1, true, &a->f); return true;
    case ONNX_ATTR_INT: list_constant(im, name, DT_I64, 1, true, &a->i); return true;
    case ONNX_ATTR_FLOATS:
        list_constant(im, name, DT_F32, a->floats.n, false, a->floats.at);
        return true;
    case ONNX_ATTR_INTS: list_constant(im, name, DT_I64, a->ints.n, false, a->ints.at); return true;
    default:
        return fail(im,
                    arena_printf(im->arena, "node '%s': a Constant of this type is not supported",
                                 n->name));
    }
}

// ---- attributes

typedef bool AttrFn(Import *im, const OnnxAttr *a, Value *out);

static bool attr_float(Import *im, const OnnxAttr *a, Value *out)
{
    UNUSED(im);
    *out = value_float((double)a->f);
    return true;
}

static bool attr_int(Import *im, const OnnxAttr *a, Value *out)
{
    UNUSED(im);
    *out = value_int(a->i);
    return true;
}

static bool attr_string(Import *im, const OnnxAttr *a, Value *out)
{
    *out = value_str(intern_n(im->library->names, a->s.text, a->s.size));
    return true;
}

static bool attr_floats(Import *im, const OnnxAttr *a, Value *out)
{
    *out = value_tuple(im->arena, a->floats.n, NULL);
    for (int i = 0; i < a->floats.n; i++) out->u.tuple.at[i] = value_float((double)a->floats.at[i]);
    return true;
}

static bool attr_ints(Import *im, const OnnxAttr *a, Value *out)
{
    *out = value_ints(im->arena, a->ints.n, a->ints.at);
    return true;
}

static bool attr_strings(Import *im, const OnnxAttr *a, Value *out)
{
    *out = value_tuple(im->arena, a->strings.n, NULL);
    for (int i = 0; i < a->strings.n; i++)
        out->u.tuple.at[i] =
            value_str(intern_n(im->library->names, a->strings.at[i].text, a->strings.at[i].size));
    return true;
}

// One element, such as ConstantOfShape's value: a number.
static bool attr_tensor(Import *im, const OnnxAttr *a, Value *out)
{
    DType type;
    int64_t dims[ONNX_MAX_RANK], n = 1;
    int rank;
    const void *data;
    if (!a->t || onnx_tensor_decode(im->arena, a->t, im->model_dir, &type, dims, &rank, &data)) {
        return false;
    }
    for (int i = 0; i < rank; i++) n *= dims[i];
    if (n != 1) return false;
    if (dtype_is_float(type)) *out = value_float(dtype_load_f64(type, data));
    else *out = value_int(dtype_load_i64(type, data));
    return true;
}

static AttrFn *const attr_fns[] = {
    [ONNX_ATTR_FLOAT] = attr_float,     [ONNX_ATTR_INT] = attr_int,
    [ONNX_ATTR_STRING] = attr_string,   [ONNX_ATTR_TENSOR] = attr_tensor,
    [ONNX_ATTR_FLOATS] = attr_floats,   [ONNX_ATTR_INTS] = attr_ints,
    [ONNX_ATTR_STRINGS] = attr_strings,
};

static bool add_attrs(Import *im, const OnnxNode *n, GraphNode *node)
{
    for (int i = 0; i < n->attribute.n; i++) {
        const OnnxAttr *a = &n->attribute.at[i];
        Value v;
        if (a->g) continue; // read where the node is made
        AttrFn *fn = a->type >= 0 && (size_t)a->type < COUNT(attr_fns) ? attr_fns[a->type] : NULL;
        if (!fn || !fn(im, a, &v)) {
            return fail(im, arena_printf(im->arena,
                                         "node '%s' (%s): attribute '%s' has a kind that "
                                         "is not supported",
                                         node->name, n->op_type, a->name));
        }
        graph_attr(im->graph, node, a->name, v);
        if (a->type == ONNX_ATTR_TENSOR) {
            graph_attr(im->graph, node, arena_printf(im->arena, "%s_type", a->name),
                       value_dtype(dtype_from_onnx(a->t->data_type)));
        }
    }
    return true;
}

// ---- nodes

static bool is_default_domain(const char *domain)
{
    return onnx_same_domain(domain, "");
}

static const char *node_name(Import *im, const OnnxNode *n, int index)
{
    return *n->name ? n->name : arena_printf(im->arena, "%s_%d", n->op_type, index);
}

static bool branch(Import *im, const OnnxNode *n, const char *attr, GraphValue *cond, bool is,
                   GraphValue **results);

// If: both branches are read, each under its guard; the node takes the results of one of them.
static bool if_node(Import *im, const OnnxNode *n, const char *name)
{
    GraphValue *cond = n->input.n == 1 ? find(im, n->input.at[0]) : NULL;
    int nout = n->output.n;
    GraphValue **input = NEW_ARRAY(im->arena, GraphValue *, 1 + 2 * nout);
    GraphValue **output = NEW_ARRAY(im->arena, GraphValue *, nout);
    if (!cond) return fail(im, arena_printf(im->arena, "node '%s' (If) has no condition", name));
    input[0] = cond;
    if (!branch(im, n, "then_branch", cond, true, input + 1) ||
        !branch(im, n, "else_branch", cond, false, input + 1 + nout)) {
        return fail(im, arena_printf(im->arena, "in a branch of node '%s' (If)", name));
    }
    for (int i = 0; i < nout; i++) {
        if (!(output[i] = result(im, name, n->output.at[i]))) return false;
    }
    GraphNode *made =
        graph_node(im->graph, name, "If", (OpBindings){0}, 1 + 2 * nout, input, nout, output);
    made->is_if = true;
    made->guard = im->guard;
    return true;
}

static bool is_if(const OnnxNode *n)
{
    return is_default_domain(n->domain) && !strcmp(n->op_type, "If");
}

// ---- graphs within nodes

static const struct {
    const char *op;
    GraphControl control;
} controls[] = {
    {"Loop", CONTROL_LOOP},
    {"Scan", CONTROL_SCAN},
};

static bool branch_results(Import *im, const OnnxGraph *g, int n, GraphValue **results);

static bool body_parts(Import *im, const OnnxGraph *g, GraphBody *out)
{
    for (int i = 0; i < g->input.n; i++) {
        GraphValue *v = graph_value(im->graph, g->input.at[i].name, DT_NONE, -1, NULL);
        define(im, v->name, v);
        VEC_PUSH(im->arena, &out->inputs, v);
    }
    GraphValue **results = NEW_ARRAY(im->arena, GraphValue *, g->output.n);
    if (!branch_results(im, g, g->output.n, results)) return false;
    for (int i = 0; i < g->output.n; i++) VEC_PUSH(im->arena, &out->outputs, results[i]);
    return true;
}

// The body of a loop: its nodes are the body's, not the graph's.
static bool add_body(Import *im, const OnnxNode *n, GraphNode *node)
{
    const OnnxAttr *a = onnx_attr(n, "body");
    if (!a || !a->g) {
        return fail(im,
                    arena_printf(im->arena, "node '%s' (%s) has no body", node->name, n->op_type));
    }
    GraphBody *body = NEW(im->arena, GraphBody);
    Scope inner = {.outer = im->scope};
    GraphNodes nodes = im->graph->nodes;
    im->scope = &inner;
    im->graph->nodes = (GraphNodes){0};
    bool ok = body_parts(im, a->g, body);
    body->nodes = im->graph->nodes;
    im->graph->nodes = nodes;
    im->scope = inner.outer;
    node->body = body;
    return ok;
}

static int control_of(const OnnxNode *n)
{
    for (int i = 0; i < (int)COUNT(controls); i++)
        if (!strcmp(n->op_type, controls[i].op) && is_default_domain(n->domain)) return i;
    return -1;
}

static bool one_node(Import *im, const OnnxNode *n, int index)
{
    if (is_default_domain(n->domain) && !strcmp(n->op_type, "Constant"))
        return constant_node(im, n);
    if (is_if(n)) return if_node(im, n, node_name(im, n, index));
    const char *name = node_name(im, n, index), *origin = n->op_type;
    if (!is_default_domain(n->domain)) {
        origin = arena_printf(im->arena, "%s.%s", n->domain, n->op_type);
    }
    int64_t opset = onnx_opset(&im->model->opset_import, n->domain);
    bool known;
    OpBindings choices = op_table_onnx(im->ops, origin, opset, &known);
    int control = control_of(n);
    if (!choices.n && control < 0) {
        buf_printf(&im->unknown, "\n  %s, opset %lld: node '%s'%s", origin, (long long)opset, name,
                   known ? " (known for other opsets)" : "");
        im->nunknown++;
    }
    GraphValue **input = NEW_ARRAY(im->arena, GraphValue *, n->input.n);
    for (int i = 0; i < n->input.n; i++) {
        if (!*n->input.at[i]) continue;
        input[i] = find(im, n->input.at[i]);
        if (!input[i]) {
            return fail(im, arena_printf(im->arena, "node '%s' (%s): nothing before it gives '%s'",
                                         name, origin, n->input.at[i]));
        }
    }
    GraphValue **output = NEW_ARRAY(im->arena, GraphValue *, n->output.n);
    for (int i = 0; i < n->output.n; i++) {
        if (!*n->output.at[i]) continue;
        if (!(output[i] = result(im, name, n->output.at[i]))) return false;
    }
    GraphNode *made =
        graph_node(im->graph, name, origin, choices, n->input.n, input, n->output.n, output);
    made->guard = im->guard;
    if (control >= 0) made->control = controls[control].control;
    if (control >= 0 && !add_body(im, n, made)) return false;
    return (!choices.n && control < 0) || add_attrs(im, n, made);
}

// ---- their order

typedef VEC(int) IntList;

// Nodes may come in any order: one that lacks inputs waits until the last of them is there.
typedef struct Waiting {
    const OnnxGraph *graph;
    Map made;     // Sym of what the graph's nodes give
    int *missing; // by node
    Map waiters;  // Sym of a missing value -> IntList *
    VEC(int) ready;
} Waiting;

static void wait_for(Import *im, Waiting *w, int index, const char *text)
{
    if (!*text || find(im, text)) return;
    Sym name = intern(im->library->names, text);
    IntList *list = map_get(&w->waiters, name);
    if (!list) map_put(im->arena, &w->waiters, name, list = NEW(im->arena, IntList));
    VEC_PUSH(im->arena, list, index);
    w->missing[index]++;
}

// A branch waits for what it takes from the graph around it.
static void wait_for_captured(Import *im, Waiting *w, int index, const OnnxNode *n)
{
    for (int i = 0; i < n->attribute.n; i++) {
        const OnnxGraph *g = n->attribute.at[i].g;
        for (int k = 0; g && k < g->node.n; k++) {
            const OnnxNode *inner = &g->node.at[k];
            for (int j = 0; j < inner->input.n; j++)
                if (map_has(&w->made, intern(im->library->names, inner->input.at[j])))
                    wait_for(im, w, index, inner->input.at[j]);
            wait_for_captured(im, w, index, inner);
        }
        for (int k = 0; g && k < g->output.n; k++)
            if (map_has(&w->made, intern(im->library->names, g->output.at[k].name)))
                wait_for(im, w, index, g->output.at[k].name);
    }
}

static void wait_for_inputs(Import *im, Waiting *w, int index)
{
    const OnnxNode *n = &w->graph->node.at[index];
    for (int i = 0; i < n->input.n; i++) wait_for(im, w, index, n->input.at[i]);
    wait_for_captured(im, w, index, n);
    if (!w->missing[index]) VEC_PUSH(im->arena, &w->ready, index);
}

static void wake_readers(Import *im, Waiting *w, const OnnxNode *n)
{
    for (int i = n->output.n - 1; i >= 0; i--) {
        IntList *list = map_get(&w->waiters, intern(im->library->names, n->output.at[i]));
        for (int k = list ? list->n - 1 : -1; k >= 0; k--)
            if (--w->missing[list->at[k]] == 0) VEC_PUSH(im->arena, &w->ready, list->at[k]);
        if (list) list->n = 0;
    }
}

static bool all_nodes(Import *im, const OnnxGraph *g)
{
    Waiting w = {.graph = g, .missing = NEW_ARRAY(im->arena, int, g->node.n)};
    for (int i = 0; i < g->node.n; i++)
        for (int k = 0; k < g->node.at[i].output.n; k++)
            map_put(im->arena, &w.made, intern(im->library->names, g->node.at[i].output.at[k]), &w);
    for (int i = 0; i < g->node.n; i++) {
        wait_for_inputs(im, &w, i);
        while (w.ready.n) {
            int k = VEC_POP(&w.ready);
            if (!one_node(im, &g->node.at[k], k)) return false;
            wake_readers(im, &w, &g->node.at[k]);
        }
    }
    for (int i = 0; i < g->node.n; i++)
        if (w.missing[i]) return one_node(im, &g->node.at[i], i); // says what is missing
    return true;
}

static bool branch_results(Import *im, const OnnxGraph *g, int n, GraphValue **results)
{
    for (int i = 0; i < g->initializer.n; i++)
        if (!constant(im, g->initializer.at[i].name, &g->initializer.at[i])) return false;
    if (!all_nodes(im, g)) return false;
    for (int i = 0; i < n; i++) {
        results[i] = find(im, g->output.at[i].name);
        if (!results[i]) {
            return fail(im, arena_printf(im->arena, "nothing gives '%s'", g->output.at[i].name));
        }
    }
    return true;
}

static bool branch(Import *im, const OnnxNode *n, const char *attr, GraphValue *cond, bool is,
                   GraphValue **results)
{
    const OnnxAttr *a = onnx_attr(n, attr);
    if (!a || !a->g || a->g->output.n < n->output.n) {
        return fail(im, arena_printf(im->arena, "node '%s' (If) needs a %s of %d results", n->name,
                                     attr, n->output.n));
    }
    Scope inner = {.outer = im->scope};
    GraphGuard *guard = NEW(im->arena, GraphGuard);
    *guard = (GraphGuard){.cond = cond, .is = is, .outer = im->guard};
    im->scope = &inner;
    im->guard = guard;
    bool ok = branch_results(im, a->g, n->output.n, results);
    im->scope = inner.outer;
    im->guard = guard->outer;
    return ok;
}

// ---- inputs

static Value dimension(Import *im, const OnnxDim *d)
{
    if (ONNX_HAS(d, Dim, dim_value) && d->dim_value > 0) return value_int(d->dim_value);
    bool named = *d->dim_param && strcmp(d->dim_param, "?") != 0;
    return named ? value_str(intern(im->library->names, d->dim_param)) : value_none();
}

static bool input(Import *im, const OnnxValueInfo *v)
{
    if (find(im, v->name)) return true; // an initializer gives its value
    const OnnxTensorType *t = v->type ? v->type->tensor_type : NULL;
    DType type = t ? dtype_from_onnx(t->elem_type) : DT_NONE;
    if (type == DT_NONE) {
        return fail(im,
                    arena_printf(im->arena, "input '%s' is no tensor of a known type", v->name));
    }
    Value dims[GRAPH_MAX_RANK];
    int rank = t->shape ? t->shape->dim.n : -1;
    if (rank > GRAPH_MAX_RANK) {
        return fail(im, arena_printf(im->arena, "input '%s' has rank %d", v->name, rank));
    }
    for (int i = 0; i < rank; i++) dims[i] = dimension(im, &t->shape->dim.at[i]);
    define(im, v->name, graph_input(im->graph, v->name, type, rank, dims));
    return true;
}

static bool import(Import *im)
{
    const OnnxGraph *g = im->model->graph;
    for (int i = 0; i < g->initializer.n; i++)
        if (!constant(im, g->initializer.at[i].name, &g->initializer.at[i])) return false;
    for (int i = 0; i < g->input.n; i++)
        if (!input(im, &g->input.at[i])) return false;
    if (!all_nodes(im, g)) return false;
    if (im->nunknown) {
        diag_error(im->diag, 0, "%d node%s with operators that are not known:%s", im->nunknown,
                   im->nunknown > 1 ? "s" : "", buf_text(&im->unknown));
        return false;
    }
    for (int i = 0; i < g->output.n; i++) {
        GraphValue *v = find(im, g->output.at[i].name);
        if (!v) {
            return fail(
                im, arena_printf(im->arena, "nothing gives the output '%s'", g->output.at[i].name));
        }
        graph_output(im->graph, v);
    }
    return true;
}

Graph *onnx_import(Arena *a, const Library *l, OpTable *ops, const OnnxModel *m,
                   const char *model_dir, Diag *d)
{
    Import im = {
        .arena = a, .library = l, .ops = ops, .model = m, .model_dir = model_dir, .diag = d};
    Scope names = {0};
    im.scope = &names;
    buf_init(&im.unknown, a);
    im.graph = graph_new(a, l, ops, *m->graph->name ? m->graph->name : "model");
    return import(&im) ? im.graph : NULL;
}
