// SPDX-License-Identifier: Apache-2.0
// Groups to kernels: leaves for what the group reads, ops applied before and after the anchor, and
// a template instantiated on them. The first template of the anchor's op that fits is taken; the
// last resort is `copy`, whose prologue is the anchor's meaning.
#include "graph/private.h"

#include "runtime/memory.h"

#include <string.h>

typedef struct Lower {
    Graph *g;
    Group *group;
    const Target *target;
    Arena *arena; // of the kernel
    Diag *diag;
    Instance *in;
    KernelDims sizes;
    Tensor **tensor;    // by value id
    Value **dims;       // by value id, collapsed; NULL: as they are
    int rank;           // of collapsed values
    GraphValues output; // of this kernel
    Packings *packings;
    GraphValues packed; // what it reads beside the group's inputs
} Lower;

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

// Adjacent axes along which every value is either whole or broadcast become one, and axes of extent
// 1 go.
static void collapse(Lower *l)
{
    const Group *p = l->group;
    const GraphValue *hole = p->anchor->output[0];
    if (!all_collapse(p) || !hole || hole->rank < 2 || !is_regular(p, hole)) return;
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
    l->dims = NEW_ARRAY(l->arena, Value *, l->g->values.n);
    for (int i = 0; i < p->inputs.n + p->outputs.n + 1; i++) {
        const GraphValue *v = i < p->inputs.n                  ? p->inputs.at[i]
                              : i < p->inputs.n + p->outputs.n ? p->outputs.at[i - p->inputs.n]
                                                               : hole;
        Value *d = NEW_ARRAY(l->arena, Value, merged);
        for (int k = 0; k < merged; k++) d[k] = value_int(1);
        for (int k = 0; k < rank; k++)
            if (axis_of[k] >= 0 && !is_one_at(v, rank, k)) d[axis_of[k]] = size[axis_of[k]];
        l->dims[v->id] = d;
    }
}

// dims: the kernel's.
static int rank_of(Lower *l, const GraphValue *v, const Value **dims)
{
    bool collapsed = l->dims && l->dims[v->id] && !(v->rank == 0 && stays_scalar(l->group, v));
    int rank = collapsed ? l->rank : v->rank;
    *dims = kernel_sizes(&l->sizes, rank, collapsed ? l->dims[v->id] : v->dims);
    return rank;
}

// ---- tensors

static const char *leaf_name(Lower *l, const char *prefix, int i)
{
    return arena_printf(l->arena, "%s%d", prefix, i);
}

static const GraphValue *view_root(const GraphValue *v)
{
    while (v->producer && v->producer->op->view) v = v->producer->input[0];
    return v;
}

// Alignment of a value's memory on a GPU: ours, or what is sure of the caller's.
static int64_t known_align(const Lower *l, const GraphValue *v)
{
    const GraphValue *root = view_root(v);
    if (l->target->kind != TARGET_CUDA) return 0;
    if (!root->producer && !root->data) return DEVICE_CALLER_ALIGN;
    for (int i = 0; i < l->g->outputs.n; i++)
        if (view_root(l->g->outputs.at[i]) == root) return DEVICE_CALLER_ALIGN;
    return MEMORY_ALIGN;
}

static void make_leaves(Lower *l)
{
    for (int i = 0; i < l->group->inputs.n; i++) {
        const GraphValue *v = l->group->inputs.at[i];
        const Value *dims;
        int rank = rank_of(l, v, &dims);
        Tensor *t = instance_input(l->in, leaf_name(l, "x", i), v->type, rank, dims);
        t->align_bytes = t->buf->align_bytes = known_align(l, v);
        l->tensor[v->id] = t;
    }
}

static int args_of(Lower *l, const GraphNode *n, Value **args)
{
    Tensor **tensor = NEW_ARRAY(l->arena, Tensor *, n->ninput);
    for (int i = 0; i < n->ninput; i++)
        if (n->input[i]) tensor[i] = l->tensor[n->input[i]->id];
    *args = NEW_ARRAY(l->arena, Value, n->ninput + 1);
    return node_args(l->arena, n, tensor, *args);
}

// How the kernel computes the extents of v.
static void note_extents(Lower *l, const GraphValue *v, const Tensor *t)
{
    bool collapsed = l->dims && l->dims[v->id];
    const Value *dims = collapsed ? l->dims[v->id] : v->dims;
    if (t->rank != (collapsed ? l->rank : v->rank)) return;
    for (int k = 0; k < t->rank; k++) kernel_dims_note(&l->sizes, dims[k], t->dims[k]);
}

static OpInst *apply(Lower *l, const GraphNode *n)
{
    Value *args;
    int narg = args_of(l, n, &args);
    OpInst *op = op_apply(l->in, 0, n->op->decl, narg, args, kernel_attrs(&l->sizes, &n->attrs));
    for (int i = 0; op && i < n->noutput; i++) {
        const GraphValue *v = n->output[i];
        if (!v) continue;
        note_extents(l, v, op->results[i]);
        l->tensor[v->id] = op->results[i];
        op->results[i]->shared = v->is_output || v->readers.n > 1;
    }
    return op;
}

static Buffer *output_buffer(Lower *l, const GraphValue *v, int i)
{
    const Value *dims;
    int rank = rank_of(l, v, &dims);
    Buffer *b = instance_output(l->in, leaf_name(l, "y", i), v->type, rank, dims);
    b->align_bytes = known_align(l, v);
    return b;
}

// What becomes of result v of the template: stored, or read by the ops after it.
static bool make_epilogue(Lower *l, const GraphValue *v, Epilogue *ep)
{
    const Group *p = l->group;
    int n = l->output.n;
    *ep = (Epilogue){.noutput = n};
    ep->memory = NEW_ARRAY(l->arena, Buffer *, n);
    if (p->epilogue.n) {
        const Value *dims;
        int rank = rank_of(l, v, &dims);
        ep->hole = instance_hole(l->in, "v", v->type, rank, dims);
        l->tensor[v->id] = ep->hole;
        for (int i = 0; i < p->epilogue.n; i++)
            if (!apply(l, p->epilogue.at[i])) return false;
        ep->outputs = NEW_ARRAY(l->arena, Tensor *, n);
        for (int i = 0; i < n; i++) ep->outputs[i] = l->tensor[l->output.at[i]->id];
    }
    for (int i = 0; i < n; i++) ep->memory[i] = output_buffer(l, l->output.at[i], i);
    return true;
}

static bool begin(Lower *l)
{
    l->in = instance_new(l->arena, l->g->library, l->target, l->diag);
    l->in->guess = true;
    kernel_dims_init(&l->sizes, l->g, l->in);
    l->tensor = NEW_ARRAY(l->arena, Tensor *, l->g->values.n);
    make_leaves(l);
    for (int i = 0; i < l->group->prologue.n; i++)
        if (!apply(l, l->group->prologue.at[i])) return false;
    return true;
}

// ---- constants in the layout that a template prefers

static GraphValue *packed_value(Lower *l, GraphValue *v, const Preference *p, const Tensor *t)
{
    for (int i = 0; i < l->packings->list.n; i++) {
        const GraphNode *n = l->packings->list.at[i].node;
        if (n->input[0] == v && n->op->decl == p->op && attrs_equal(&n->attrs, &p->attrs)) {
            return n->output[0];
        }
    }
    Arena *a = l->g->arena;
    GraphValue *out =
        graph_value(l->g, arena_printf(a, "%s, packed", v->name), t->type, t->rank, t->dims);
    GraphNode *n = NEW(a, GraphNode);
    *n =
        (GraphNode){.id = -1, .name = out->name, .origin = p->op->u.sym, .ninput = 1, .noutput = 1};
    n->op = op_info(l->g->ops, p->op);
    n->input = arena_copy(a, &v, sizeof v);
    n->output = arena_copy(a, &out, sizeof out);
    for (int i = 0; i < p->attrs.n; i++) {
        Value *copy = arena_copy(a, p->attrs.entry[i].value, sizeof(Value));
        if (copy->kind == V_TUPLE) *copy = value_tuple(a, copy->u.tuple.n, copy->u.tuple.at);
        map_put(a, &n->attrs, p->attrs.entry[i].key, copy);
    }
    out->producer = n;
    VEC_PUSH(a, &l->packings->list, ((Packing){.node = n}));
    return out;
}

static bool pack_constants(Lower *l, const Node *kernel, int narg, Value *args)
{
    const GraphNode *n = l->group->anchor;
    Preference *list;
    int count;
    const Map *attrs = kernel_attrs(&l->sizes, &n->attrs);
    if (!kernel_preferences(l->in, kernel, narg, args, attrs, NULL, &list, &count)) return false;
    for (int i = 0; i < count; i++) {
        GraphValue *v = list[i].param < n->ninput ? n->input[list[i].param] : NULL;
        if (!v || args[list[i].param].kind != V_TENSOR || !graph_value_fixed(v)) continue;
        OpInst *op = op_apply(l->in, 0, list[i].op, 1, &args[list[i].param], &list[i].attrs);
        if (!op) return false;
        const Tensor *t = op->results[0];
        bool known = true;
        for (int k = 0; k < t->rank; k++) known = known && t->dims[k].kind == V_INT;
        if (!known) continue;
        GraphValue *packed = packed_value(l, v, &list[i], t);
        const char *name = leaf_name(l, "p", l->packed.n);
        args[list[i].param].u.tensor->packed = value_leaf(l->in, packed, name);
        VEC_PUSH(l->arena, &l->packed, packed);
    }
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
    if (!begin(l)) return false;
    int narg = args_of(l, n, &args);
    if (!pack_constants(l, kernel, narg, args)) return false;
    const Map *attrs = kernel_attrs(&l->sizes, &n->attrs);
    if (l->sizes.dims.n && !note_results(l, narg, args, attrs)) return false;
    Epilogue *ep = NEW_ARRAY(l->arena, Epilogue, n->noutput);
    if (n->noutput == 1) {
        if (!make_epilogue(l, n->output[0], &ep[0])) return false;
    } else {
        for (int i = 0; i < n->noutput; i++) {
            if (!n->output[i]) {
                diag_error(l->diag, 0, "a template of several results needs them all");
                return false;
            }
            ep[i] = (Epilogue){.memory = NEW(l->arena, Buffer *), .noutput = 1};
            ep[i].memory[0] = output_buffer(l, n->output[i], i);
        }
    }
    l->in->guess = false; // another template may do without
    l->in->rows_at_hand = l->group->by_rows;
    return instance_kernel(l->in, kernel, narg, args, attrs, ep, n->noutput, NULL);
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
    collapse(l);
    if (!begin(l)) return false;
    OpInst *op = apply(l, n);
    if (!op || !make_epilogue(l, n->output[output], &ep)) return false;
    Value x = {.kind = V_TENSOR, .u.tensor = op->results[output]};
    return instance_kernel(l->in, copy, 1, &x, NULL, &ep, 1, NULL);
}

static bool serially(Lower *l)
{
    const GraphNode *n = l->group->anchor;
    Value *args;
    if (!begin(l)) return false;
    int narg = args_of(l, n, &args);
    const Map *attrs = kernel_attrs(&l->sizes, &n->attrs);
    if (l->sizes.dims.n && !note_results(l, narg, args, attrs)) return false;
    Buffer **memory = NEW_ARRAY(l->arena, Buffer *, n->noutput);
    for (int i = 0; i < n->noutput; i++) {
        if (!n->output[i]) {
            diag_error(l->diag, 0, "all results of a serial op are needed");
            return false;
        }
        memory[i] = output_buffer(l, n->output[i], i);
    }
    return instance_serial(l->in, n->op->decl, narg, args, attrs, memory, n->noutput);
}

// ---- a group

static void open_kernel(Lower *l, Arena *a)
{
    l->arena = NEW(a, Arena);
    *l->arena = (Arena){.nomem = a->nomem};
    l->dims = NULL;
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
        open_kernel(l, a);
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
        open_kernel(&l, a);
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
