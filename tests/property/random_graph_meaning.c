// SPDX-License-Identifier: Apache-2.0
// What a graph means: node by node, each op's own text, by the interpreter, in memory that nothing
// shares. Where the library has templates for an op, the one that is chosen is held against the
// meaning, and its result is what later nodes read; so what comes out must be, bit for bit, what
// the unfused model gives.
//
// Templates may sum in another order (matmul, conv, pools, reductions, softmax, norms), so floats
// may differ by a small part of the largest magnitudes that went into them; integers may not.
#include "random_graph.h"

#include "heald.h"
#include "ir/interp.h"
#include "ir/interp_device.h"

#include <math.h>
#include <string.h>

typedef struct Meaning {
    RgRun *run;
    Arena *arena;
    const void **data; // by value id
} Meaning;

static bool fails(Meaning *m, const GraphNode *n, const char *what)
{
    if (m->run->outcome != RG_SAME) return false;
    m->run->outcome = RG_DIFFERS;
    m->run->why = arena_printf(&m->run->arena, "%s: %s", n->op->decl->u.sym, what);
    return false;
}

static bool interpret(Meaning *m, const GraphNode *n, const Kernel *k, void **data)
{
    Diag d;
    Buf b;
    diag_init(&d, m->arena, &m->run->world->sources);
    if (interp_run(k, data, NULL, &(InterpOptions){0}, &d)) return true;
    buf_init(&b, m->arena);
    diag_render(&d, &b);
    fails(m, n, buf_text(&b));
    // Templates for GPUs guard what they read, so that indices outside show up here only.
    if (rg_on_gpu(m->run->world)) m->run->outcome = RG_REJECTED;
    return false;
}

static void *new_memory(Meaning *m, const GraphValue *v)
{
    return arena_alloc(m->arena, (size_t)graph_value_bytes(v) + 64);
}

// The op's own text.
static bool by_meaning(Meaning *m, const GraphNode *n, void **result)
{
    // Functions that are near enough for narrow types ask whether there is shared memory.
    Target host = m->run->world->host;
    host.shared_bytes = m->run->world->target.shared_bytes;
    bool serial = n->op->class == OPCLASS_SERIAL;
    for (int i = 0; i < n->noutput; i++) {
        result[i] = n->output[i] ? new_memory(m, n->output[i]) : NULL;
        if (serial && !result[i]) return true;
    }
    for (int i = 0; i < (serial ? 1 : n->noutput); i++) {
        if (!n->output[i]) continue;
        Diag d;
        diag_init(&d, m->arena, &m->run->world->sources);
        Kernel *k = node_kernel(m->run->graph, n, i, m->arena, &host, &d);
        if (!k) return fails(m, n, "its meaning does not compile");
        void **data = NEW_ARRAY(m->arena, void *, k->params.n);
        int at = 0;
        for (int p = 0; p < n->ninput; p++) {
            bool first = n->input[p] != NULL;
            for (int j = 0; j < p && first; j++) first = n->input[j] != n->input[p];
            if (first) data[at++] = (void *)m->data[n->input[p]->id];
        }
        for (int o = serial ? 0 : i; o < (serial ? n->noutput : i + 1); o++) data[at++] = result[o];
        if (at != k->params.n) return fails(m, n, "its kernel has other parameters");
        if (!interpret(m, n, k, data)) return false;
    }
    return true;
}

// The node alone as a graph; what is constant stays so.
static Graph *graph_of(Meaning *m, const GraphNode *n)
{
    const Graph *g = m->run->graph;
    Graph *one = graph_new(m->arena, g->library, g->ops, "one");
    GraphValue **copy = NEW_ARRAY(m->arena, GraphValue *, g->values.n);
    GraphValue **in = NEW_ARRAY(m->arena, GraphValue *, n->ninput);
    GraphValue **out = NEW_ARRAY(m->arena, GraphValue *, n->noutput);
    for (int i = 0; i < n->ninput; i++) {
        const GraphValue *v = n->input[i];
        if (v && !copy[v->id]) {
            copy[v->id] = graph_value(one, v->name, v->type, v->rank, v->dims);
            copy[v->id]->data = v->data;
            if (!v->data) VEC_PUSH(m->arena, &one->inputs, copy[v->id]);
        }
        in[i] = v ? copy[v->id] : NULL;
    }
    for (int i = 0; i < n->noutput; i++) {
        const GraphValue *v = n->output[i];
        out[i] = v ? graph_value(one, v->name, v->type, v->rank, v->dims) : NULL;
        if (v) graph_output(one, out[i]);
    }
    GraphNode *made =
        graph_node(one, n->name, n->origin, (OpBindings){0}, n->ninput, in, n->noutput, out);
    made->op = n->op;
    made->attrs = n->attrs;
    one->specialised = true;
    return one;
}

static heald_tensor *tensor_of(const GraphValue *v, const void *data)
{
    int64_t dims[GRAPH_MAX_RANK];
    heald_tensor *t = NULL;
    graph_value_dims(v, dims);
    heald_tensor_from_memory((heald_dtype)v->type, v->rank, dims, (void *)data, NULL, NULL, &t);
    return t;
}

static bool run_model(Meaning *m, const GraphNode *n, const CompiledModel *model, void **result)
{
    const Graph *one = model->graph;
    heald_tensor **in = NEW_ARRAY(m->arena, heald_tensor *, one->inputs.n);
    heald_tensor **out = NEW_ARRAY(m->arena, heald_tensor *, one->outputs.n);
    int nin = 0, nout = 0;
    for (int i = 0; i < n->ninput; i++) {
        bool first = n->input[i] && !n->input[i]->data;
        for (int k = 0; k < i && first; k++) first = n->input[k] != n->input[i];
        if (first) in[nin] = tensor_of(one->inputs.at[nin], m->data[n->input[i]->id]), nin++;
    }
    for (int i = 0; i < n->noutput; i++) {
        if (!n->output[i]) continue;
        result[i] = new_memory(m, n->output[i]);
        out[nout++] = tensor_of(n->output[i], result[i]);
    }
    Error e = {0};
    Device *d = NULL;
    PlanRunner *runner = NULL;
    heald_status s = device_open(&device_interp, &(DeviceOptions){.nthread = 1}, &d, &e);
    if (!s) s = plan_runner_create(model->plan, d, NULL, &runner, &e);
    if (!s) s = plan_run_tensors(runner, in, out, &e);
    plan_runner_destroy(runner);
    device_close(d);
    for (int i = 0; i < nin; i++) heald_tensor_release(in[i]);
    for (int i = 0; i < nout; i++) heald_tensor_release(out[i]);
    return !s || fails(m, n, arena_printf(m->arena, "its template fails: %s", e.text));
}

// The node by the template that is chosen for it; *name stays NULL where there is none.
static bool by_template(Meaning *m, const GraphNode *n, void **result, const char **name)
{
    Diag d;
    Error e = {0};
    CompiledModel *model = NULL;
    CompileOptions o = {
        .target = m->run->world->target, .builder.interpret = true, .fuse.off = true};
    diag_init(&d, m->arena, &m->run->world->sources);
    if (model_compile(graph_of(m, n), m->arena, &o, &model, &d, &e))
        return fails(m, n, "it does not compile alone");
    bool ok = true;
    if (model->groups.n == 1 && model->groups.at[0]->kernel) {
        *name = model->groups.at[0]->kernel->u.sym;
        ok = run_model(m, n, model, result);
    }
    model_release(model);
    return ok;
}

// ---- comparing

static double largest(const void *p, const GraphValue *v)
{
    double most = 0;
    for (int64_t i = 0; i < graph_value_nelem(v); i++) {
        double x = fabs(dtype_load_f64(v->type, (const char *)p + (size_t)i * dtype_size(v->type)));
        if (!(x <= most)) most = isnan(x) ? INFINITY : x;
    }
    return most;
}

// Whether scores are so large that powers of them, less the largest, rounded, may overflow.
static bool has_large_scores(const Meaning *m, const GraphNode *n)
{
    if (strcmp(n->op->decl->u.sym, "attention")) return false;
    const GraphValue *q = n->input[0], *k = n->input[1];
    int64_t dims[GRAPH_MAX_RANK];
    graph_value_dims(q, dims);
    double size = (double)dims[q->rank - 1];
    return !(largest(m->data[q->id], q) * largest(m->data[k->id], k) * size < 0x1p26);
}

static bool close_enough(const Meaning *m, const GraphNode *n, const GraphValue *v,
                         const void *have, const void *want, int64_t *at)
{
    size_t size = dtype_size(v->type);
    if (!dtype_is_float(v->type)) {
        for (*at = 0; *at < graph_value_nelem(v); ++*at)
            if (memcmp((char *)have + (size_t)*at * size, (char *)want + (size_t)*at * size, size))
                return false;
        return true;
    }
    double scale = largest(want, v), product = 1;
    for (int i = 0; i < n->ninput; i++)
        if (n->input[i]) product *= fmax(1, largest(m->data[n->input[i]->id], n->input[i]));
    bool multiplies = !strcmp(n->op->decl->u.sym, "reduce_prod") && graph_value_nelem(v);
    if (multiplies)
        product = pow(product, (double)(graph_value_nelem(n->input[0]) / graph_value_nelem(v)));
    // Sums may overflow in one order only.
    bool wild = !(product < 1e15) || has_large_scores(m, n);
    double part = v->type == DT_F64    ? 1e-12
                  : v->type == DT_F16  ? 2e-3
                  : v->type == DT_BF16 ? 1.6e-2
                                       : 2e-5;
    if (n->op->class == OPCLASS_SERIAL) part *= 8; // states that templates keep in wider types
    double of_product = v->type == DT_F64 ? 1e-13 : 2e-6;
    if (v->type == DT_F32 && m->run->world->target.tf32 == 1) part = of_product = 2e-3;
    double bound = part * scale + of_product * product;
    for (*at = 0; *at < graph_value_nelem(v); ++*at) {
        double x = dtype_load_f64(v->type, (char *)have + (size_t)*at * size);
        double y = dtype_load_f64(v->type, (char *)want + (size_t)*at * size);
        bool same = fabs(x - y) <= bound || x == y || (isnan(x) && isnan(y));
        if (!same && !wild) return false;
    }
    return true;
}

static bool check_template(Meaning *m, const GraphNode *n, void **result)
{
    void *other[RG_MAX_OUTPUT] = {0};
    const char *name = NULL;
    if (n->noutput > RG_MAX_OUTPUT) return true;
    if (!by_template(m, n, other, &name)) return false;
    for (int i = 0; name && i < n->noutput; i++) {
        const GraphValue *v = n->output[i];
        int64_t at;
        if (!v || !other[i]) continue;
        if (!close_enough(m, n, v, other[i], result[i], &at)) {
            size_t offset = (size_t)at * dtype_size(v->type);
            return fails(m, n,
                         arena_printf(m->arena,
                                      "by %s, element %lld is %.9g where its meaning is %.9g", name,
                                      (long long)at,
                                      dtype_load_f64(v->type, (char *)other[i] + offset),
                                      dtype_load_f64(v->type, (char *)result[i] + offset)));
        }
        result[i] = other[i];
    }
    return true;
}

static bool visit(Meaning *m, const GraphNode *n)
{
    if (n->op->view) {
        m->data[n->output[0]->id] = m->data[n->input[0]->id];
        return true;
    }
    void **result = NEW_ARRAY(m->arena, void *, n->noutput);
    bool has_template = map_has(&m->run->world->library.implementers, n->op->decl->u.sym);
    if (!by_meaning(m, n, result) || (has_template && !check_template(m, n, result))) return false;
    for (int i = 0; i < n->noutput; i++)
        if (n->output[i]) m->data[n->output[i]->id] = result[i];
    return true;
}

void rg_check_meaning(RgRun *r)
{
    Arena scratch = {0};
    const Graph *g = r->graph;
    Meaning m = {.run = r, .arena = &scratch};
    m.data = NEW_ARRAY(&scratch, const void *, g->values.n);
    for (int i = 0; i < g->values.n; i++) m.data[i] = g->values.at[i]->data;
    for (int i = 0; i < g->inputs.n; i++) m.data[g->inputs.at[i]->id] = r->input[i];
    bool ok = true;
    for (int i = 0; ok && i < g->nodes.n; i++) ok = visit(&m, g->nodes.at[i]);
    for (int i = 0; ok && i < g->outputs.n; i++) {
        const GraphValue *v = g->outputs.at[i];
        if (rg_same_elements(v->type, graph_value_nelem(v), m.data[v->id],
                             r->output[RG_REFERENCE][i]))
            continue;
        r->outcome = RG_DIFFERS;
        r->why = arena_printf(&r->arena, "output %d (%s) is not what its nodes mean one by one", i,
                              v->name);
        ok = false;
    }
    arena_free(&scratch);
}
