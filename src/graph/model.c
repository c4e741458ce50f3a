// SPDX-License-Identifier: Apache-2.0
// A specialised graph to a plan: groups, kernels built in parallel, values in memory. A graph's
// output is written in place where a kernel computes it; views cost nothing.
#include "graph/private.h"

#include "ir/interp_device.h"
#include "runtime/launch.h"

#include <string.h>

typedef struct Launch {
    const Group *group;
    GraphValues outputs;
    const Node **dims; // of its kernel
    int build;         // of the distinct kernels
    bool done;         // when the model was loaded
} Launch;

typedef struct Build {
    Kernel *kernel;
    Arena *arena;
    const char *op;
    BuiltKernel *built;
    heald_status status;
    Error error;
    Diag diag;
} Build;

typedef struct Compiling {
    Graph *g;
    Arena *arena;
    const CompileOptions *o;
    CompiledModel *model;
    VEC(Launch) launches;
    VEC(Build) builds;
    int *value;        // by graph value id: the plan's value, -1: none yet
    bool *launched;    // by graph value id: a launch computes it
    const void **data; // by graph value id: the elements, of what is known
    int done;
} Compiling;

// ---- kernels

// Equal kernels are built once.
static int distinct(Compiling *c, Map *seen, Interner *texts, const LoweredKernel *k,
                    const char *op)
{
    Buf text;
    buf_init(&text, k->arena);
    k->kernel->name = "kernel";
    kernel_print(k->kernel, &text);
    Sym key = intern_n(texts, buf_text(&text), text.size);
    const void *at = map_get(seen, key);
    if (at) {
        arena_free(k->arena);
        return (int)((intptr_t)at - 1);
    }
    VEC_PUSH(c->arena, &c->model->arenas, k->arena);
    Build b = {.kernel = k->kernel, .arena = k->arena, .op = op};
    map_put(c->arena, seen, key, (void *)(intptr_t)(c->builds.n + 1));
    VEC_PUSH(c->arena, &c->builds, b);
    return c->builds.n - 1;
}

typedef struct Lowering {
    Interner *texts;
    Map seen;
    Packings packings;
} Lowering;

static bool lower_group(Compiling *c, Lowering *l, Group *p, Diag *d)
{
    LoweredKernels list = {0};
    if (!group_lower(c->g, c->arena, p, &c->o->target, &l->packings, &list, d)) return false;
    // What it wants laid out anew is launched before it.
    for (int i = 0; i < p->memory.n; i++)
        if (p->memory.at[i]) packing_add(c->arena, &l->packings, p->memory.at[i]->producer);
    while (l->packings.lowered < l->packings.list.n) {
        GraphNode *n = l->packings.list.at[l->packings.lowered++].node;
        if (!lower_group(c, l, group_of_node(c->arena, n), d)) return false;
    }
    for (int k = 0; k < list.n; k++) {
        Launch launch = {.group = p, .outputs = list.at[k].outputs, .dims = list.at[k].dims};
        const char *op = p->anchor->op->decl->u.sym;
        launch.build = distinct(c, &l->seen, l->texts, &list.at[k], op);
        VEC_PUSH(c->arena, &c->launches, launch);
    }
    return true;
}

static bool lower_groups(Compiling *c, Diag *d)
{
    Arena scratch = {.nomem = c->arena->nomem};
    Lowering l = {.texts = interner_new(&scratch)};
    bool ok = true;
    for (int i = 0; ok && i < c->model->groups.n; i++)
        ok = lower_group(c, &l, c->model->groups.at[i], d);
    arena_free(&scratch);
    return ok;
}

// A thread of the pool cannot jump to the caller's place for running out of memory: it has its own.
static void build_one(Compiling *c, Build *b)
{
    jmp_buf nomem;
    b->arena->nomem = &nomem;
    if (setjmp(nomem)) {
        b->status = error_no_memory(&b->error, 0, "compiling");
        return;
    }
    diag_init(&b->diag, b->arena, c->g->library->sources);
    if (c->o->progress) {
        int done = __atomic_fetch_add(&c->done, 1, __ATOMIC_RELAXED);
        c->o->progress(c->o->user, done, c->builds.n, b->op);
    }
    b->status =
        kernel_build(&c->o->builder, b->arena, b->kernel, b->op, &b->built, &b->diag, &b->error);
    b->arena->nomem = c->arena->nomem;
}

static void build_range(void *user, int64_t begin, int64_t end, int worker)
{
    UNUSED(worker);
    Compiling *c = user;
    for (int64_t i = begin; i < end; i++) build_one(c, &c->builds.at[i]);
}

static heald_status build_all(Compiling *c, Diag *d, Error *e)
{
    if (c->o->pool) pool_run(c->o->pool, c->builds.n, build_range, c);
    else build_range(c, 0, c->builds.n, 0);
    heald_status s = HEALD_OK;
    for (int i = 0; i < c->builds.n; i++) {
        Build *b = &c->builds.at[i];
        if (b->built) {
            VEC_PUSH(c->arena, &c->model->kernels, b->built);
            c->model->ncached += b->built->cached;
        }
        for (int k = 0; k < b->diag.messages.n; k++) {
            const Message *m = &b->diag.messages.at[k];
            if (m->severity == SEV_ERROR) diag_error(d, m->loc, "%s", m->text);
            else if (m->severity == SEV_NOTE) diag_note(d, m->loc, "%s", m->text);
        }
        if (b->status && !s) {
            s = b->status;
            if (s != HEALD_DIAGNOSTIC) error_set(e, s, "%s", b->error.text);
        }
    }
    return s;
}

// ---- what depends on constants alone: run once, now

static const void *known_data(const Compiling *c, const GraphValue *v)
{
    while (!c->data[v->id] && v->producer && v->producer->op->view) v = v->producer->input[0];
    return c->data[v->id];
}

static heald_status run_launch(Compiling *c, Launch *l, Device *device, Error *e)
{
    const GraphValues *in = &l->group->inputs;
    void **params = NEW_ARRAY(c->arena, void *, in->n + l->outputs.n);
    for (int i = 0; i < in->n; i++) params[i] = (void *)known_data(c, in->at[i]);
    for (int i = 0; i < l->outputs.n; i++) {
        const GraphValue *v = l->outputs.at[i];
        int64_t dims[GRAPH_MAX_RANK];
        heald_tensor *t;
        graph_value_dims(v, dims);
        heald_status s = tensor_create((DType)v->type, v->rank, dims, &t, e);
        if (s) return s;
        VEC_PUSH(c->arena, &c->model->constants, t);
        params[in->n + i] = heald_tensor_data(t);
    }
    heald_status s = launch_kernel(device, &c->builds.at[l->build].built->runtime, params, NULL, e);
    for (int i = 0; !s && i < l->outputs.n; i++) c->data[l->outputs.at[i]->id] = params[in->n + i];
    l->done = !s;
    return s;
}

static heald_status run_constant_launches(Compiling *c, Error *e)
{
    c->data = NEW_ARRAY(c->arena, const void *, c->g->values.n);
    for (int i = 0; i < c->g->values.n; i++) c->data[i] = c->g->values.at[i]->data;
    Device *device = NULL;
    heald_status s = HEALD_OK;
    if (c->o->target.kind != TARGET_CPU || c->o->builder.source_only) return s;
    for (int i = 0; !s && i < c->launches.n; i++) {
        Launch *l = &c->launches.at[i];
        bool known = true;
        for (int k = 0; k < l->group->inputs.n; k++)
            known = known && known_data(c, l->group->inputs.at[k]);
        known = known && c->builds.at[l->build].kernel->dims.n == 0;
        if (!known) continue;
        DeviceOptions one = {.nthread = 1, .pool = c->o->pool};
        if (!device)
            s = device_open(c->o->builder.interpret ? &device_interp : &device_cpu, &one, &device,
                            e);
        if (!s) s = run_launch(c, l, device, e);
    }
    device_close(device);
    return s;
}

// ---- values of the plan

// A size of the graph for the runtime.
static ShapeExpr shape_of(Compiling *c, const Node *n)
{
    Kernel open = {.arena = c->arena}; // the graph's dimensions as those of a kernel
    ShapeExpr out;
    Diag quiet;
    diag_init(&quiet, c->arena, c->g->library->sources);
    for (int i = 0; i < c->g->dims.n; i++) VEC_PUSH(c->arena, &open.dims, c->g->dims.at[i].var);
    bool ok = kernel_shape_expr(c->arena, &open, n, &out, &quiet);
    ASSERT(ok); // sizes are such
    return out;
}

static const ShapeExpr *shapes(Compiling *c, const GraphValue *v)
{
    ShapeExpr *dims = NEW_ARRAY(c->arena, ShapeExpr, v->rank);
    for (int i = 0; i < v->rank; i++) {
        const Value *d = &v->dims[i];
        dims[i] = d->kind == V_INT ? shape_const(c->arena, d->u.i) : shape_of(c, d->u.expr);
    }
    return dims;
}

static void plan_dimensions(Compiling *c)
{
    const Graph *g = c->g;
    Plan *p = c->model->plan;
    for (int i = 0; i < g->dims.n; i++) {
        const GraphDim *d = &g->dims.at[i];
        plan_dim(p, d->name, d->input, d->axis);
    }
    for (int i = 0; i < g->requirements.n; i++)
        plan_require(p, shape_of(c, g->requirements.at[i].cond), g->requirements.at[i].message);
    for (int i = 0; i < g->dims.n; i++) {
        const Var *v = g->dims.at[i].var;
        ShapeExpr dim = shape_dim(c->arena, i);
        ShapeExpr low = shape_op(c->arena, SHAPE_LE, shape_const(c->arena, v->lo), dim);
        ShapeExpr high = shape_op(c->arena, SHAPE_LE, dim, shape_const(c->arena, v->hi));
        plan_require(p, shape_op(c->arena, SHAPE_AND, low, high),
                     arena_printf(c->arena, "%s is not from %lld to %lld", v->name,
                                  (long long)v->lo, (long long)v->hi));
    }
}

// A view that no group computes.
static bool is_free_view(const Compiling *c, const GraphValue *v)
{
    return v->producer && v->producer->op->view && !c->launched[v->id];
}

static heald_status constant(Compiling *c, const GraphValue *v, Error *e)
{
    int64_t dims[GRAPH_MAX_RANK];
    graph_value_dims(v, dims);
    heald_tensor *t;
    heald_status s = heald_tensor_from_memory((heald_dtype)v->type, v->rank, dims,
                                              (void *)c->data[v->id], NULL, NULL, &t);
    if (s) return error_set(e, s, "constant '%s' cannot be a tensor", v->name);
    VEC_PUSH(c->arena, &c->model->constants, t);
    c->value[v->id] = plan_const(c->model->plan, v->name, t);
    return HEALD_OK;
}

// A value of the plan for v, which is behind no view that lacks one.
static heald_status need_behind(Compiling *c, const GraphValue *v, Error *e)
{
    Plan *p = c->model->plan;
    if (c->data[v->id]) return constant(c, v, e);
    c->value[v->id] = is_free_view(c, v)
                          ? plan_view(p, v->name, c->value[v->producer->input[0]->id],
                                      shape_const(c->arena, 0), v->type, v->rank, shapes(c, v))
                          : plan_temp(p, v->name, v->type, v->rank, shapes(c, v), -1);
    return HEALD_OK;
}

static heald_status need(Compiling *c, const GraphValue *v, Error *e)
{
    heald_status s = HEALD_OK;
    VEC(const GraphValue *) list = {0};
    while (c->value[v->id] < 0) {
        VEC_PUSH(c->arena, &list, v);
        if (c->data[v->id] || !is_free_view(c, v)) break;
        v = v->producer->input[0];
    }
    while (!s && list.n) s = need_behind(c, VEC_POP(&list), e);
    return s;
}

// Outputs first, so that kernels write them directly where they can: the value that is a view's
// base becomes a view of the output. The rest is copied in the end.
static void plan_outputs(Compiling *c, bool *copied)
{
    const Graph *g = c->g;
    Plan *p = c->model->plan;
    for (int i = 0; i < g->outputs.n; i++) {
        const GraphValue *v = g->outputs.at[i], *root = v;
        int out = plan_output(p, v->name, v->type, v->rank, shapes(c, v));
        while (is_free_view(c, root)) root = root->producer->input[0];
        copied[i] = c->data[root->id] || !root->producer || c->value[root->id] >= 0;
        if (copied[i]) continue;
        c->value[root->id] = root == v ? out
                                       : plan_view(p, root->name, out, shape_const(c->arena, 0),
                                                   root->type, root->rank, shapes(c, root));
    }
}

static heald_status plan_steps(Compiling *c, Error *e)
{
    Plan *p = c->model->plan;
    for (int i = 0; i < c->launches.n; i++) {
        const Launch *l = &c->launches.at[i];
        if (l->done) continue;
        const GraphValues *in = &l->group->inputs;
        int *values = NEW_ARRAY(c->arena, int, in->n + l->outputs.n);
        for (int k = 0; k < in->n + l->outputs.n; k++) {
            const GraphValue *v = k < in->n ? group_memory(l->group, k) : l->outputs.at[k - in->n];
            if (k >= in->n && v->stored) v = v->stored;
            heald_status s = need(c, v, e);
            if (s) return s;
            values[k] = c->value[v->id];
        }
        const RuntimeKernel *kernel = &c->builds.at[l->build].built->runtime;
        ShapeExpr *dims = NEW_ARRAY(c->arena, ShapeExpr, kernel->ndim);
        for (int k = 0; k < kernel->ndim; k++) dims[k] = shape_of(c, l->dims[k]);
        plan_launch(p, l->group->anchor->name, kernel, values, dims);
    }
    return HEALD_OK;
}

static heald_status make_plan(Compiling *c, Error *e)
{
    const Graph *g = c->g;
    Plan *p = c->model->plan = plan_new(c->arena);
    c->value = NEW_ARRAY(c->arena, int, g->values.n);
    for (int i = 0; i < g->values.n; i++) c->value[i] = -1;
    c->launched = NEW_ARRAY(c->arena, bool, g->values.n);
    for (int i = 0; i < c->launches.n; i++) {
        const GraphValues *out = &c->launches.at[i].outputs;
        for (int k = 0; k < out->n; k++) c->launched[out->at[k]->id] = true;
    }
    plan_dimensions(c);
    for (int i = 0; i < g->inputs.n; i++) {
        const GraphValue *v = g->inputs.at[i];
        c->value[v->id] = plan_input(p, v->name, v->type, v->rank, shapes(c, v));
    }
    bool *copied = NEW_ARRAY(c->arena, bool, g->outputs.n);
    plan_outputs(c, copied);
    heald_status s = plan_steps(c, e);
    for (int i = 0; !s && i < g->outputs.n; i++) {
        if (!copied[i]) continue;
        s = need(c, g->outputs.at[i], e);
        if (!s)
            plan_copy(p, g->outputs.at[i]->name, c->value[g->outputs.at[i]->id], p->outputs.at[i]);
    }
    return s;
}

// ---- the whole

heald_status model_compile(const Graph *g, Arena *a, const CompileOptions *o, CompiledModel **out,
                           Diag *d, Error *e)
{
    ASSERT(g->specialised);
    *out = NULL;
    CompiledModel *m = NEW(a, CompiledModel);
    Compiling c = {.g = (Graph *)g, .arena = a, .o = o, .model = m};
    m->arena = a;
    m->graph = g;
    m->groups = graph_fuse(c.g, a, &o->target, &o->fuse);
    graph_layouts(c.g, a, &m->groups, &o->target, o->fuse.off);
    heald_status s = lower_groups(&c, d) ? HEALD_OK : HEALD_DIAGNOSTIC;
    if (!s) s = build_all(&c, d, e);
    if (!s) s = run_constant_launches(&c, e);
    if (!s) s = make_plan(&c, e);
    if (s) model_release(m);
    else *out = m;
    return s;
}

void model_release(CompiledModel *m)
{
    if (!m) return;
    for (int i = 0; i < m->kernels.n; i++) kernel_release(m->kernels.at[i]);
    for (int i = 0; i < m->constants.n; i++) heald_tensor_release(m->constants.at[i]);
    for (int i = 0; i < m->arenas.n; i++) arena_free(m->arenas.at[i]);
}
