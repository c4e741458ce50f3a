// SPDX-License-Identifier: Apache-2.0
// ONNX to graph. Nothing here knows an operator but Constant: which declaration an operator is, and
// which of its inputs are attributes, is said by the declarations.
#include "frontends/import.h"

#include <string.h>

GraphValue *import_find(Import *im, const char *name)
{
    Sym sym = intern(im->library->names, name);
    for (const Scope *s = im->scope; s; s = s->outer)
        if (map_has(&s->values, sym)) return map_get(&s->values, sym);
    return NULL;
}

bool import_is_defined(const Import *im, const char *name)
{
    Sym sym = intern(im->library->names, name);
    for (const Scope *s = im->scope; s; s = s->outer)
        if (map_has(&s->values, sym)) return true;
    return false;
}

void import_define(Import *im, const char *name, GraphValue *v)
{
    map_put(im->arena, &im->scope->values, intern(im->library->names, name), v);
}

bool import_fail(Import *im, const char *why)
{
    diag_error(im->diag, 0, "%s", why);
    return false;
}

// A new value for a result of a node; each name is given once in a graph.
GraphValue *import_result(Import *im, const char *node, const char *name)
{
    if (*name && map_has(&im->scope->values, intern(im->library->names, name))) {
        import_fail(im, arena_printf(im->arena, "node '%s' gives '%s', which is given already",
                                     node, name));
        return NULL;
    }
    GraphValue *v = graph_value(im->graph, name, DT_NONE, -1, NULL);
    import_define(im, name, v);
    return v;
}

// ---- nodes

static bool is_default_domain(const char *domain)
{
    return onnx_same_domain(domain, "");
}

static const char *node_name(Import *im, const OnnxNode *n, int index)
{
    const char *name = *n->name ? n->name : arena_printf(im->arena, "%s_%d", n->op_type, index);
    return im->call ? arena_printf(im->arena, "%s/%s", im->call->name, name) : name;
}

void import_unknown(Import *im, const char *what, const char *origin, int64_t opset,
                    const char *node, const char *more)
{
    buf_printf(&im->unknown, "\n  %s%s, opset %lld: node '%s'%s", what, origin, (long long)opset,
               node, more);
    im->nunknown++;
}

static bool branch(Import *im, const OnnxNode *n, const char *attr, GraphValue *cond, bool is,
                   GraphValue **results);

// If: both branches are read, each under its guard; the node takes the results of one of them.
static bool if_node(Import *im, const OnnxNode *n, const char *name)
{
    GraphValue *cond = n->input.n == 1 ? import_find(im, n->input.at[0]) : NULL;
    int nout = n->output.n;
    GraphValue **input = NEW_ARRAY(im->arena, GraphValue *, 1 + 2 * nout);
    GraphValue **output = NEW_ARRAY(im->arena, GraphValue *, nout);
    if (!cond)
        return import_fail(im, arena_printf(im->arena, "node '%s' (If) has no condition", name));
    input[0] = cond;
    for (int i = 0; i < n->attribute.n; i++) {
        const char *attr = n->attribute.at[i].name;
        if (strcmp(attr, "then_branch") && strcmp(attr, "else_branch"))
            import_unknown(im, arena_printf(im->arena, "attribute '%s' of ", attr), "If",
                           onnx_opset(im->opsets, n->domain), name, "");
    }
    if (!branch(im, n, "then_branch", cond, true, input + 1) ||
        !branch(im, n, "else_branch", cond, false, input + 1 + nout)) {
        return import_fail(im, arena_printf(im->arena, "in a branch of node '%s' (If)", name));
    }
    for (int i = 0; i < nout; i++) {
        if (!(output[i] = import_result(im, name, n->output.at[i]))) return false;
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
    const char *attrs[8]; // beside the body
} controls[] = {
    {"Loop", CONTROL_LOOP, {0}},
    {"Scan",
     CONTROL_SCAN,
     {"num_scan_inputs", "scan_input_axes", "scan_input_directions", "scan_output_axes",
      "scan_output_directions", "directions"}},
};

static bool branch_results(Import *im, const OnnxGraph *g, int n, GraphValue **results);

static bool body_parts(Import *im, const OnnxGraph *g, GraphBody *out)
{
    for (int i = 0; i < g->input.n; i++) {
        GraphValue *v = graph_value(im->graph, g->input.at[i].name, DT_NONE, -1, NULL);
        import_define(im, v->name, v);
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
    const OnnxAttr *a = import_attr_named(im, n, "body");
    if (!a || !a->g) {
        return import_fail(
            im, arena_printf(im->arena, "node '%s' (%s) has no body", node->name, n->op_type));
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

static bool take_inputs(Import *im, const OnnxNode *n, const char *name, const char *origin,
                        GraphValue **input)
{
    for (int i = 0; i < n->input.n; i++) {
        if (!*n->input.at[i]) continue;
        input[i] = import_find(im, n->input.at[i]);
        if (input[i] || import_is_defined(im, n->input.at[i])) continue;
        return import_fail(im,
                           arena_printf(im->arena, "node '%s' (%s): nothing before it gives '%s'",
                                        name, origin, n->input.at[i]));
    }
    return true;
}

static bool plain_node(Import *im, const OnnxNode *n, const char *name, const char *origin,
                       OpBindings choices)
{
    int control = control_of(n);
    GraphValue **input = NEW_ARRAY(im->arena, GraphValue *, n->input.n);
    GraphValue **output = NEW_ARRAY(im->arena, GraphValue *, n->output.n);
    if (!take_inputs(im, n, name, origin, input)) return false;
    for (int i = 0; i < n->output.n; i++) {
        if (!*n->output.at[i]) continue;
        if (!(output[i] = import_result(im, name, n->output.at[i]))) return false;
    }
    GraphNode *made =
        graph_node(im->graph, name, origin, choices, n->input.n, input, n->output.n, output);
    made->guard = im->guard;
    if (control >= 0) made->control = controls[control].control;
    if (control >= 0 && !add_body(im, n, made)) return false;
    return (!choices.n && control < 0) ||
           import_attrs(im, n, made, control < 0 ? NULL : controls[control].attrs);
}

static bool one_node(Import *im, const OnnxNode *n, int index)
{
    enum { MAX_NODES = 1 << 20, MAX_CALLED = 1 << 18 }; // functions may make many of few
    if (++im->nnode > (im->call ? MAX_CALLED : MAX_NODES))
        return import_fail(im, "more nodes than can be handled");
    bool plain = is_default_domain(n->domain);
    if (plain && !strcmp(n->op_type, "Constant")) return import_constant_node(im, n);
    const char *name = node_name(im, n, index), *origin = n->op_type;
    if (is_if(n)) return if_node(im, n, name);
    if (!plain) origin = arena_printf(im->arena, "%s.%s", n->domain, n->op_type);
    int64_t opset = onnx_opset(im->opsets, n->domain);
    bool known;
    OpBindings choices = op_table_onnx(im->ops, origin, opset, &known);
    const OnnxFunction *f = plain && choices.n ? NULL : onnx_function(im->model, n);
    if (f) return import_call(im, n, f, name);
    if (!choices.n && control_of(n) < 0)
        import_unknown(im, "", origin, opset, name, known ? " (known for other opsets)" : "");
    return plain_node(im, n, name, origin, choices);
}

// ---- their order

typedef VEC(int) IntList;

// Nodes may come in any order: one that lacks inputs waits until the last of them is there.
typedef struct Waiting {
    const OnnxNode *node;
    Map made;     // Sym of what the graph's nodes give -> const OnnxNode *
    int *missing; // by node
    Map waiters;  // Sym of a missing value -> IntList *
    VEC(int) ready;
} Waiting;

static void wait_for(Import *im, Waiting *w, int index, const char *text)
{
    if (!*text || import_is_defined(im, text)) return;
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
    const OnnxNode *n = &w->node[index];
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

// Nodes in a circle, from one of them on.
static bool in_a_circle(Import *im, const Waiting *w, const Sym *wants, int first)
{
    enum { MOST = 8 };
    Buf text;
    buf_init(&text, im->arena);
    int at = first, count = 0;
    do {
        if (count < MOST)
            buf_printf(&text, "%s'%s' (%s)", count ? ", " : "", node_name(im, &w->node[at], at),
                       w->node[at].op_type);
        at = (int)((const OnnxNode *)map_get(&w->made, wants[at]) - w->node);
        count++;
    } while (at != first);
    if (count > MOST) buf_printf(&text, " and %d more", count - MOST);
    diag_error(im->diag, 0,
               "%d node%s in a circle, each of which reads what the next one gives: %s", count,
               count > 1 ? "s" : "", buf_text(&text));
    return false;
}

// Node `at` waits for good: for what nothing gives, or for itself.
static bool still_waiting(Import *im, const Waiting *w, int at, int n)
{
    Sym *wants = NEW_ARRAY(im->arena, Sym, n);
    bool *seen = NEW_ARRAY(im->arena, bool, n);
    for (int i = 0; i < w->waiters.n; i++) {
        const IntList *list = w->waiters.entry[i].value;
        for (int k = 0; k < list->n; k++) wants[list->at[k]] = w->waiters.entry[i].key;
    }
    for (; !seen[at]; at = (int)((const OnnxNode *)map_get(&w->made, wants[at]) - w->node)) {
        seen[at] = true;
        if (!map_get(&w->made, wants[at])) return one_node(im, &w->node[at], at); // says so
    }
    return in_a_circle(im, w, wants, at);
}

bool import_nodes(Import *im, const OnnxNode *node, int n)
{
    Waiting w = {.node = node, .missing = NEW_ARRAY(im->arena, int, n)};
    for (int i = 0; i < n; i++)
        for (int k = 0; k < node[i].output.n; k++)
            map_put(im->arena, &w.made, intern(im->library->names, node[i].output.at[k]),
                    (void *)&node[i]);
    for (int i = 0; i < n; i++) {
        wait_for_inputs(im, &w, i);
        while (w.ready.n) {
            int k = VEC_POP(&w.ready);
            if (!one_node(im, &node[k], k)) return false;
            wake_readers(im, &w, &node[k]);
        }
    }
    for (int i = 0; i < n; i++)
        if (w.missing[i]) return still_waiting(im, &w, i, n);
    return true;
}

static bool initializers(Import *im, const OnnxGraph *g)
{
    Map seen = {0};
    for (int i = 0; i < g->initializer.n; i++) {
        const OnnxTensor *t = &g->initializer.at[i];
        Sym name = intern(im->library->names, t->name);
        if (map_has(&seen, name)) {
            return import_fail(
                im, arena_printf(im->arena, "two initializers are called '%s'", t->name));
        }
        map_put(im->arena, &seen, name, (void *)t);
        if (!import_constant(im, t->name, t)) return false;
    }
    return true;
}

static bool branch_results(Import *im, const OnnxGraph *g, int n, GraphValue **results)
{
    if (!initializers(im, g)) return false;
    if (!import_nodes(im, g->node.at, g->node.n)) return false;
    for (int i = 0; i < n; i++) {
        results[i] = import_find(im, g->output.at[i].name);
        if (!results[i]) {
            return import_fail(im,
                               arena_printf(im->arena, "nothing gives '%s'", g->output.at[i].name));
        }
    }
    return true;
}

static bool branch(Import *im, const OnnxNode *n, const char *attr, GraphValue *cond, bool is,
                   GraphValue **results)
{
    const OnnxAttr *a = import_attr_named(im, n, attr);
    if (!a || !a->g || a->g->output.n < n->output.n) {
        return import_fail(im, arena_printf(im->arena, "node '%s' (If) needs a %s of %d results",
                                            n->name, attr, n->output.n));
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
    if (ONNX_HAS(d, Dim, dim_value) && d->dim_value >= 0) return value_int(d->dim_value);
    bool named = *d->dim_param && strcmp(d->dim_param, "?") != 0;
    return named ? value_str(intern(im->library->names, d->dim_param)) : value_none();
}

// An initializer that is an input too: of its own shape, but for extents that the input leaves
// open.
static bool input_with_default(Import *im, const OnnxValueInfo *info, const GraphValue *v)
{
    const OnnxTensorType *t = info->type ? info->type->tensor_type : NULL;
    bool declared = t && t->shape, agrees = !declared || t->shape->dim.n == v->rank;
    Value dims[GRAPH_MAX_RANK];
    for (int i = 0; agrees && i < v->rank; i++) {
        dims[i] = declared ? dimension(im, &t->shape->dim.at[i]) : v->dims[i];
        agrees = dims[i].kind != V_INT || value_equal(&dims[i], &v->dims[i]);
    }
    if (!agrees) {
        return import_fail(im, arena_printf(im->arena,
                                            "the initializer '%s' has another shape than the input "
                                            "of that name",
                                            v->name));
    }
    graph_default(im->graph, v, dims);
    return true;
}

static bool is_input(const Import *im, const GraphValue *v)
{
    for (int i = 0; i < im->graph->inputs.n; i++)
        if (im->graph->inputs.at[i] == v) return true;
    for (int i = 0; i < im->graph->defaults.n; i++)
        if (im->graph->defaults.at[i]->id == v->id) return true;
    return false;
}

static bool input(Import *im, const OnnxValueInfo *v)
{
    const GraphValue *found = import_find(im, v->name);
    if (found && is_input(im, found))
        return import_fail(im, arena_printf(im->arena, "two inputs are called '%s'", v->name));
    if (found) return input_with_default(im, v, found);
    const OnnxTensorType *t = v->type ? v->type->tensor_type : NULL;
    DType type = t ? dtype_from_onnx(t->elem_type) : DT_NONE;
    if (type == DT_NONE) {
        return import_fail(im, arena_printf(im->arena,
                                            "input '%s' is no tensor of a known type%s%s", v->name,
                                            t ? ": " : "", t ? onnx_type_name(t->elem_type) : ""));
    }
    Value dims[GRAPH_MAX_RANK];
    int rank = t->shape ? t->shape->dim.n : -1;
    if (rank > GRAPH_MAX_RANK) {
        return import_fail(im, arena_printf(im->arena, "input '%s' has rank %d", v->name, rank));
    }
    for (int i = 0; i < rank; i++) dims[i] = dimension(im, &t->shape->dim.at[i]);
    import_define(im, v->name, graph_input(im->graph, v->name, type, rank, dims));
    return true;
}

// What the model declares of an output is kept where nothing else is known: specialising compares.
static bool output(Import *im, const OnnxValueInfo *info)
{
    GraphValue *v = import_find(im, info->name);
    if (!v) {
        return import_fail(im,
                           arena_printf(im->arena, "nothing gives the output '%s'", info->name));
    }
    const OnnxTensorType *t = info->type ? info->type->tensor_type : NULL;
    if (t && v->producer && v->type == DT_NONE) {
        v->type = dtype_from_onnx(t->elem_type);
        int rank = t->shape ? t->shape->dim.n : -1;
        if (rank > GRAPH_MAX_RANK) rank = -1;
        v->rank = rank;
        v->dims = NEW_ARRAY(im->arena, Value, rank < 0 ? 0 : rank);
        for (int i = 0; i < rank; i++) v->dims[i] = dimension(im, &t->shape->dim.at[i]);
    }
    graph_output(im->graph, v);
    return true;
}

static bool import(Import *im)
{
    const OnnxGraph *g = im->model->graph;
    if (!initializers(im, g)) return false;
    for (int i = 0; i < g->input.n; i++)
        if (!input(im, &g->input.at[i])) return false;
    if (!import_nodes(im, g->node.at, g->node.n)) return false;
    if (im->nunknown) {
        diag_error(im->diag, 0, "%d node%s with operators or attributes that are not known:%s",
                   im->nunknown, im->nunknown > 1 ? "s" : "", buf_text(&im->unknown));
        return false;
    }
    for (int i = 0; i < g->output.n; i++)
        if (!output(im, &g->output.at[i])) return false;
    return true;
}

Graph *onnx_import(Arena *a, const Library *l, OpTable *ops, const OnnxModel *m,
                   const char *model_dir, Diag *d)
{
    Import im = {
        .arena = a, .library = l, .ops = ops, .model = m, .model_dir = model_dir, .diag = d};
    Scope names = {0};
    im.scope = &names;
    im.opsets = &m->opset_import;
    buf_init(&im.unknown, a);
    im.graph = graph_new(a, l, ops, *m->graph->name ? m->graph->name : "model");
    return import(&im) ? im.graph : NULL;
}
