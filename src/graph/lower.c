// SPDX-License-Identifier: Apache-2.0
// Groups to kernels: leaves for what the group reads, ops applied before and after the anchor, and
// a template instantiated on them. The first template of the anchor's op that fits is taken; the
// last resort is `copy`, whose prologue is the anchor's meaning.
#include "graph/lower.h"

#include "runtime/memory.h"

#include <string.h>

KernelValue *lower_value(Lower *l, const GraphValue *v)
{
    const void *key = (const void *)(intptr_t)(v->id + 1);
    KernelValue *k = map_get(&l->values, key);
    if (!k) map_put(l->arena, &l->values, key, k = NEW(l->arena, KernelValue));
    return k;
}

// ---- collapsing axes

static bool all_collapse(const Group *p)
{
    bool ok = p->anchor->op->collapses && p->prologue.n == 0;
    for (int i = 0; i < p->epilogue.n; i++) ok = ok && p->epilogue.at[i]->op->collapses;
    return ok;
}

// The extent of v along axis `axis` of a shape of `rank` axes that it is broadcast to.
static Value extent_at(const GraphValue *v, int rank, int axis)
{
    int k = axis - (rank - v->rank);
    return k < 0 ? value_int(1) : v->dims[k];
}

static bool is_one_at(const GraphValue *v, int rank, int axis)
{
    Value d = extent_at(v, rank, axis);
    return size_is_one(&d);
}

static bool is_scalar_param(const GraphNode *n, int input)
{
    Node *params = KID((Node *)n->op->decl, OP, params);
    int p = input < NREST(params) ? input : NREST(params) - 1;
    const Node *type = KID(REST(params)[p], PARAM, type);
    return type && node_info[N_TYPE].nfixed == (int)type->nkid;
}

static bool stays_scalar(const Group *p, const GraphValue *v)
{
    for (int k = -1; k < p->epilogue.n; k++) {
        const GraphNode *n = k < 0 ? p->anchor : p->epilogue.at[k];
        for (int i = 0; i < n->ninput; i++)
            if (n->input[i] == v && is_scalar_param(n, i)) return true;
    }
    return false;
}

// Whether every value is along every axis either whole or broadcast, and known to be.
static bool is_regular(const Group *p, const GraphValue *hole)
{
    for (int i = 0; i < p->outputs.n; i++) {
        const GraphValue *v = p->outputs.at[i];
        if (v->rank != hole->rank) return false;
        for (int k = 0; k < v->rank; k++)
            if (!value_equal(&v->dims[k], &hole->dims[k])) return false;
    }
    for (int i = 0; i < p->inputs.n; i++)
        for (int k = 0; k < hole->rank; k++) {
            Value d = extent_at(p->inputs.at[i], hole->rank, k);
            if (!size_is_one(&d) && !value_equal(&d, &hole->dims[k])) return false;
        }
    return true;
}

static Value times(Arena *a, Value x, Value y)
{
    Node *n = x.kind == V_INT ? node_i64(a, x.u.i) : x.u.expr;
    Node *m = y.kind == V_INT ? node_i64(a, y.u.i) : y.u.expr;
    return size_value(a, (Value){.kind = V_EXPR, .u.expr = node_binary(a, N_MUL, n, m)});
}

// The value in a layout in whose memory the group finds its input i; NULL: it is there as it is.
static const GraphValue *packed_input(const Group *p, int i)
{
    const GraphValue *v = p->inputs.at[i], *m = group_memory(p, i);
    return m == v || m->producer->input[0] != v ? NULL : m;
}

// Whether something of the group lies in a layout: then its axes stay as they are.
static bool any_packed(const Group *p)
{
    bool any = false;
    for (int i = 0; i < p->inputs.n; i++) any = any || packed_input(p, i);
    for (int i = 0; i < p->outputs.n; i++) any = any || p->outputs.at[i]->stored;
    return any;
}

// Adjacent axes along which every value is either whole or broadcast become one, and axes of extent
// 1 go.
static void collapse(Lower *l)
{
    const Group *p = l->group;
    const GraphValue *hole = p->anchor->output[0];
    if (!all_collapse(p) || !hole || hole->rank < 2 || any_packed(p) || !is_regular(p, hole))
        return;
    int rank = hole->rank, merged = 0, axis_of[GRAPH_MAX_RANK];
    Value size[GRAPH_MAX_RANK];
    int last = -1;
    for (int k = 0; k < rank; k++) {
        axis_of[k] = -1;
        if (size_is_one(&hole->dims[k])) continue;
        bool alike = last >= 0;
        for (int i = 0; alike && i < p->inputs.n; i++)
            alike = is_one_at(p->inputs.at[i], rank, k) == is_one_at(p->inputs.at[i], rank, last);
        if (!alike) size[merged++] = value_int(1);
        size[merged - 1] = times(l->g->arena, size[merged - 1], hole->dims[k]);
        axis_of[k] = merged - 1;
        last = k;
    }
    if (merged == 0) size[merged++] = value_int(1);
    l->rank = merged;
    for (int i = 0; i < p->inputs.n + p->outputs.n + 1; i++) {
        const GraphValue *v = i < p->inputs.n                  ? p->inputs.at[i]
                              : i < p->inputs.n + p->outputs.n ? p->outputs.at[i - p->inputs.n]
                                                               : hole;
        Value *d = NEW_ARRAY(l->arena, Value, merged);
        for (int k = 0; k < merged; k++) d[k] = value_int(1);
        for (int k = 0; k < rank; k++)
            if (axis_of[k] >= 0 && !is_one_at(v, rank, k)) d[axis_of[k]] = size[axis_of[k]];
        lower_value(l, v)->dims = d;
    }
}

static bool lies_as(const GraphValue *v, const GraphValue *hole, const GraphValue *stored)
{
    return v->stored && graph_same_dims(v, hole) && packed_alike(v->stored, stored);
}

// Where all that is whole lies in one layout, elements are taken as they lie.
static bool collapse_in_order(Lower *l)
{
    const Group *p = l->group;
    const GraphValue *hole = p->anchor->output[0], *v;
    const GraphValue *stored = p->outputs.n ? p->outputs.at[0]->stored : NULL;
    if (!stored || !hole || !all_collapse(p) || !is_regular(p, hole)) return false;
    for (int i = 0; i < p->outputs.n; i++)
        if (!lies_as(p->outputs.at[i], hole, stored)) return false;
    for (int i = 0; i < p->inputs.n; i++) {
        bool scalar = true;
        for (int k = 0; k < hole->rank; k++)
            scalar = scalar && is_one_at(p->inputs.at[i], hole->rank, k);
        if (!scalar && !lies_as(p->inputs.at[i], hole, stored)) return false;
    }
    l->in_order = true;
    l->rank = 1;
    for (int i = 0; i < p->inputs.n + p->outputs.n + 1; i++) {
        v = i < p->inputs.n                  ? p->inputs.at[i]
            : i < p->inputs.n + p->outputs.n ? p->outputs.at[i - p->inputs.n]
                                             : hole;
        Value *size = lower_value(l, v)->dims = NEW(l->arena, Value);
        *size = graph_value_size(l->g->arena, v);
    }
    return true;
}

// dims: the kernel's.
static int rank_of(Lower *l, const GraphValue *v, const Value **dims)
{
    const Value *merged = lower_value(l, v)->dims;
    bool collapsed = merged && !(v->rank == 0 && stays_scalar(l->group, v));
    int rank = collapsed ? l->rank : v->rank;
    *dims = kernel_sizes(&l->sizes, rank, collapsed ? merged : v->dims);
    return rank;
}

// ---- tensors

const char *lower_name(Lower *l, const char *prefix, int i)
{
    return arena_printf(l->arena, "%s%d", prefix, i);
}

static const GraphValue *view_root(const GraphValue *v)
{
    while (v->producer && v->producer->op->view) v = v->producer->input[0];
    return v;
}

int64_t lower_align(const Lower *l, const GraphValue *v)
{
    const GraphValue *root = view_root(v);
    if (l->target->kind != TARGET_CUDA) return 0;
    if (!root->producer && !root->data) return DEVICE_CALLER_ALIGN;
    for (int i = 0; i < l->g->outputs.n; i++)
        if (view_root(l->g->outputs.at[i]) == root) return DEVICE_CALLER_ALIGN;
    return MEMORY_ALIGN;
}

// How the kernel computes the extents of v.
static void note_extents(Lower *l, const GraphValue *v, const Tensor *t)
{
    const Value *merged = lower_value(l, v)->dims, *dims = merged ? merged : v->dims;
    if (t->rank != (merged ? l->rank : v->rank)) return;
    for (int k = 0; k < t->rank; k++) kernel_dims_note(&l->sizes, dims[k], t->dims[k]);
}

// What lies in a layout is read by way of what undoes it, and directly where l->in_order.
static bool make_packed_leaf(Lower *l, const GraphValue *v, const GraphValue *m, const char *name)
{
    const GraphNode *pack = m->producer;
    Tensor *t =
        instance_input(l->in, name, m->type, m->rank, kernel_sizes(&l->sizes, m->rank, m->dims));
    Value arg = {.kind = V_TENSOR, .u.tensor = t};
    OpInst *op = op_apply(l->in, 0, packed_undo(l->g, pack), 1, &arg, &pack->attrs);
    if (!op) return false;
    t->align_bytes = t->buf->align_bytes = lower_align(l, m);
    *lower_value(l, v) = (KernelValue){.tensor = op->results[0], .packed = m, .memory = t};
    note_extents(l, v, op->results[0]);
    return true;
}

static bool make_leaves(Lower *l)
{
    for (int i = 0; i < l->group->inputs.n; i++) {
        const GraphValue *v = l->group->inputs.at[i];
        const Value *dims;
        const GraphValue *m = l->in_order ? NULL : packed_input(l->group, i);
        if (m) {
            if (!make_packed_leaf(l, v, m, lower_name(l, "x", i))) return false;
            continue;
        }
        int rank = rank_of(l, v, &dims);
        Tensor *t = instance_input(l->in, lower_name(l, "x", i), v->type, rank, dims);
        t->align_bytes = t->buf->align_bytes = lower_align(l, v);
        lower_value(l, v)->tensor = t;
    }
    return true;
}

int lower_args(Lower *l, const GraphNode *n, Value **args)
{
    Tensor **tensor = NEW_ARRAY(l->arena, Tensor *, n->ninput);
    for (int i = 0; i < n->ninput; i++)
        if (n->input[i]) tensor[i] = lower_value(l, n->input[i])->tensor;
    *args = NEW_ARRAY(l->arena, Value, n->ninput + 1);
    return node_args(l->arena, n, tensor, *args);
}

static OpInst *apply(Lower *l, const GraphNode *n)
{
    Value *args;
    int narg = lower_args(l, n, &args);
    OpInst *op = op_apply(l->in, 0, n->op->decl, narg, args, kernel_attrs(&l->sizes, &n->attrs));
    for (int i = 0; op && i < n->noutput; i++) {
        const GraphValue *v = n->output[i];
        if (!v) continue;
        note_extents(l, v, op->results[i]);
        lower_value(l, v)->tensor = op->results[i];
        op->results[i]->shared = v->is_output || v->readers.n > 1;
    }
    return op;
}

// Memory of output i, which is v. *place: where there its elements go, if it lies in a layout or is
// a transpose of what is computed.
static Buffer *output_buffer(Lower *l, const GraphValue *v, int i, Tensor **place)
{
    const Group *p = l->group;
    const GraphValue *m = v->stored && !l->in_order ? v->stored : NULL;
    const Value *dims = m ? kernel_sizes(&l->sizes, m->rank, m->dims) : NULL;
    int rank = m ? m->rank : rank_of(l, v, &dims);
    Buffer *b = instance_output(l->in, lower_name(l, "y", i), v->type, rank, dims);
    b->align_bytes = lower_align(l, v);
    *place = NULL;
    if (!m && !p->moved) return b;
    Value arg = {.kind = V_TENSOR, .u.tensor = instance_memory(l->in, b, rank, dims)};
    const GraphNode *n = m ? m->producer : p->epilogue.at[p->epilogue.n - 1];
    const Map *attrs = m ? &n->attrs : node_back(l->g, l->arena, n);
    OpInst *op = op_apply(l->in, 0, m ? packed_undo(l->g, n) : n->op->decl, 1, &arg, attrs);
    if (!op) return NULL;
    *place = op->results[0];
    return b;
}

// What becomes of result v of the template: stored, or read by the ops after it.
static bool make_epilogue(Lower *l, const GraphValue *v, Epilogue *ep)
{
    const Group *p = l->group;
    int n = l->output.n;
    *ep = (Epilogue){.noutput = n};
    ep->memory = NEW_ARRAY(l->arena, Buffer *, n);
    ep->place = NEW_ARRAY(l->arena, Tensor *, n);
    if (p->epilogue.n) {
        const Value *dims;
        int rank = rank_of(l, v, &dims);
        ep->hole = instance_hole(l->in, "v", v->type, rank, dims);
        lower_value(l, v)->tensor = ep->hole;
        for (int i = 0; i < p->epilogue.n - p->moved; i++)
            if (!apply(l, p->epilogue.at[i])) return false;
        ep->outputs = NEW_ARRAY(l->arena, Tensor *, n);
        for (int i = 0; i < n; i++) {
            const GraphValue *y = l->output.at[i];
            ep->outputs[i] = lower_value(l, p->moved ? y->producer->input[0] : y)->tensor;
        }
    }
    bool placed = false;
    for (int i = 0; i < n; i++) {
        ep->memory[i] = output_buffer(l, l->output.at[i], i, &ep->place[i]);
        if (!ep->memory[i]) return false;
        placed = placed || ep->place[i];
    }
    if (!placed) ep->place = NULL;
    return true;
}

bool lower_begin(Lower *l)
{
    l->in = instance_new(l->arena, l->g->library, l->target, l->diag);
    l->in->guess = true;
    kernel_dims_init(&l->sizes, l->g, l->in);
    if (!make_leaves(l)) return false;
    for (int i = 0; i < l->group->prologue.n; i++)
        if (!apply(l, l->group->prologue.at[i])) return false;
    return true;
}

// ---- the three ways to compute an anchor

// What the anchor's results are as the op says it.
static bool note_results(Lower *l, int narg, const Value *args, const Map *attrs)
{
    const GraphNode *n = l->group->anchor;
    OpInst *op = op_apply(l->in, 0, n->op->decl, narg, args, attrs);
    for (int i = 0; op && i < n->noutput; i++)
        if (n->output[i]) note_extents(l, n->output[i], op->results[i]);
    return op != NULL;
}

static bool by_template(Lower *l, const Node *kernel)
{
    const GraphNode *n = l->group->anchor;
    Value *args;
    if (!lower_begin(l)) return false;
    int narg = lower_args(l, n, &args);
    if (!lower_grant(l, kernel, narg, args)) return false;
    const Map *attrs = kernel_attrs(&l->sizes, &n->attrs);
    if (l->sizes.dims.n && !note_results(l, narg, args, attrs)) return false;
    Epilogue *ep = NEW_ARRAY(l->arena, Epilogue, n->noutput);
    Tensor *place; // of several results none lies in a layout
    if (n->noutput == 1) {
        if (!make_epilogue(l, n->output[0], &ep[0])) return false;
    } else {
        for (int i = 0; i < n->noutput; i++) {
            if (!n->output[i]) {
                diag_error(l->diag, 0, "a template of several results needs them all");
                return false;
            }
            ep[i] = (Epilogue){.memory = NEW(l->arena, Buffer *), .noutput = 1};
            ep[i].memory[0] = output_buffer(l, n->output[i], i, &place);
        }
    }
    l->in->guess = false; // another template may do without
    l->in->rows_at_hand = l->group->by_rows;
    return instance_kernel(l->in, kernel, narg, args, attrs, ep, n->noutput, NULL);
}

// The group's only output, which lies in a layout, computed in the order in which it lies.
static bool make_packed(Lower *l, Value *x, Epilogue *ep)
{
    const Group *p = l->group;
    const GraphValue *v = l->output.at[0], *m = v->stored;
    for (int i = 0; i < p->epilogue.n; i++)
        if (!apply(l, p->epilogue.at[i])) return false;
    Value arg = {.kind = V_TENSOR, .u.tensor = lower_value(l, v)->tensor};
    OpInst *op = op_apply(l->in, 0, m->producer->op->decl, 1, &arg, &m->producer->attrs);
    if (!op) return false;
    *x = (Value){.kind = V_TENSOR, .u.tensor = op->results[0]};
    *ep = (Epilogue){.memory = NEW(l->arena, Buffer *), .noutput = 1};
    const Value *dims = kernel_sizes(&l->sizes, m->rank, m->dims);
    ep->memory[0] = instance_output(l->in, lower_name(l, "y", 0), m->type, m->rank, dims);
    ep->memory[0]->align_bytes = lower_align(l, m);
    return true;
}

static bool by_meaning(Lower *l, int output)
{
    const GraphNode *n = l->group->anchor;
    const char *name = l->target->kind == TARGET_CUDA ? "copy_cuda" : "copy";
    const Node *copy = map_get(&l->g->library->kernels, intern(l->g->library->names, name));
    if (!copy) {
        diag_error(l->diag, 0, "no loaded text declares the kernel '%s'", name);
        return false;
    }
    Epilogue ep;
    if (!collapse_in_order(l)) collapse(l);
    if (!lower_begin(l)) return false;
    OpInst *op = apply(l, n);
    if (!op) return false;
    Value x = {.kind = V_TENSOR, .u.tensor = op->results[output]};
    bool stored = l->output.n == 1 && l->output.at[0]->stored && !l->in_order;
    if (stored ? !make_packed(l, &x, &ep) : !make_epilogue(l, n->output[output], &ep)) return false;
    return instance_kernel(l->in, copy, 1, &x, NULL, &ep, 1, NULL);
}

static bool serially(Lower *l)
{
    const GraphNode *n = l->group->anchor;
    Value *args;
    if (!lower_begin(l)) return false;
    int narg = lower_args(l, n, &args);
    const Map *attrs = kernel_attrs(&l->sizes, &n->attrs);
    if (l->sizes.dims.n && !note_results(l, narg, args, attrs)) return false;
    Buffer **memory = NEW_ARRAY(l->arena, Buffer *, n->noutput);
    Tensor *place;
    for (int i = 0; i < n->noutput; i++) {
        if (!n->output[i]) {
            diag_error(l->diag, 0, "all results of a serial op are needed");
            return false;
        }
        memory[i] = output_buffer(l, n->output[i], i, &place);
    }
    return instance_serial(l->in, n->op->decl, narg, args, attrs, memory, n->noutput);
}

// ---- a group

void lower_open(Lower *l, Arena *a)
{
    l->arena = NEW(a, Arena);
    *l->arena = (Arena){.nomem = a->nomem};
    l->values = (Map){0};
    l->in_order = false;
    l->output.n = 0;
    l->packed = (GraphValues){0};
}

static void push_kernel(Lower *l, Arena *a, LoweredKernels *out)
{
    LoweredKernel k = {.kernel = l->in->kernel, .arena = l->arena, .outputs = l->output};
    k.dims = arena_copy(a, l->sizes.dims.at, (size_t)l->sizes.dims.n * sizeof *k.dims);
    VEC_PUSH(a, out, k);
}

static bool try_templates(Lower *l, Group *p, Arena *a, LoweredKernels *out)
{
    const Node **list;
    int n = group_templates(l->g, p->anchor, l->target, a, &list);
    for (int i = 0; i < n; i++) {
        Diag quiet, *d = l->diag;
        lower_open(l, a);
        diag_init(&quiet, l->arena, l->g->library->sources);
        l->diag = &quiet;
        for (int k = 0; k < p->outputs.n; k++) VEC_PUSH(a, &l->output, p->outputs.at[k]);
        bool ok = by_template(l, list[i]);
        l->diag = d;
        if (ok) {
            p->kernel = list[i];
            l->in->diag = d;
            for (int k = 0; k < l->packed.n; k++) VEC_PUSH(a, &p->inputs, l->packed.at[k]);
            push_kernel(l, a, out);
            return true;
        }
        arena_free(l->arena);
    }
    return false;
}

Group *group_of_node(Arena *a, GraphNode *n)
{
    Group *p = NEW(a, Group);
    p->anchor = n;
    p->once = true;
    for (int i = 0; i < n->ninput; i++)
        if (n->input[i]) VEC_PUSH(a, &p->inputs, n->input[i]);
    for (int i = 0; i < n->noutput; i++)
        if (n->output[i]) VEC_PUSH(a, &p->outputs, n->output[i]);
    return p;
}

bool node_has_template(Graph *g, GraphNode *n, const Target *t)
{
    Arena scratch = {.nomem = g->arena->nomem};
    Packings packings = {0};
    LoweredKernels out = {0};
    Diag quiet;
    diag_init(&quiet, &scratch, g->library->sources);
    Group *p = group_of_node(&scratch, n);
    Lower l = {.g = g, .group = p, .target = t, .diag = &quiet, .packings = &packings};
    bool ok = try_templates(&l, p, &scratch, &out);
    for (int i = 0; i < out.n; i++) arena_free(out.at[i].arena);
    arena_free(&scratch);
    return ok;
}

const Node *group_template(Graph *g, const Group *p, const GraphValues *outputs, const Target *t)
{
    Arena scratch = {.nomem = g->arena->nomem};
    Packings packings = {0};
    LoweredKernels out = {0};
    Diag quiet;
    Group trial = *p;
    int nvalue = g->values.n;
    diag_init(&quiet, &scratch, g->library->sources);
    trial.outputs = *outputs;
    trial.inputs = (GraphValues){0};
    for (int i = 0; i < p->inputs.n; i++) VEC_PUSH(&scratch, &trial.inputs, p->inputs.at[i]);
    Lower l = {.g = g, .group = &trial, .target = t, .diag = &quiet, .packings = &packings};
    bool ok = try_templates(&l, &trial, &scratch, &out);
    for (int i = 0; i < out.n; i++) arena_free(out.at[i].arena);
    arena_free(&scratch);
    g->values.n = nvalue; // without what it wanted packed
    return ok ? trial.kernel : NULL;
}

bool group_lower(Graph *g, Arena *a, Group *p, const Target *t, Packings *packings,
                 LoweredKernels *out, Diag *d)
{
    Lower l = {.g = g, .group = p, .target = t, .diag = d, .packings = packings};
    if (try_templates(&l, p, a, out)) return true;
    const GraphNode *n = p->anchor;
    bool serial = n->op->class == OPCLASS_SERIAL;
    for (int i = 0; i < n->noutput; i++) {
        if (!n->output[i] || (serial && i > 0)) continue;
        lower_open(&l, a);
        l.output = (GraphValues){0};
        bool single = true; // all outputs of the group come from the anchor's only result
        for (int k = 0; k < n->noutput; k++) single = single && (k == i || !n->output[k]);
        if (single || serial)
            for (int k = 0; k < p->outputs.n; k++) VEC_PUSH(a, &l.output, p->outputs.at[k]);
        else VEC_PUSH(a, &l.output, n->output[i]);
        bool ok = serial ? serially(&l) : by_meaning(&l, i);
        if (ok) {
            push_kernel(&l, a, out);
            continue;
        }
        arena_free(l.arena);
        for (int k = 0; k < out->n; k++) arena_free(out->at[k].arena);
        return node_fails(n, d);
    }
    return true;
}
