// SPDX-License-Identifier: Apache-2.0
// A specialised graph in a narrower type than f32. Each node computes in the narrow type or in f32;
// values become what their node makes them, and casts stand only where a reader wants the other
// type. Rules have been applied by then, in f32: so norms and activations that a model spells out
// are one op, whose sums are in acc(T), and what rules compute of constants is rounded once.
//
// Wide, computing in f32 with results in f32, is an op whose text says `class wide`, and whatever
// leads to an integer through pointwise ops. An op that reads a wide result computes in f32 too;
// its own result is narrow again unless it reads nothing else. Beside a constant that the narrow
// type has no room for, as in masks, elements stay f32 too, until something other than a pointwise
// op reads them. Products of tensors are always narrow.
#include "graph/precision.h"

#include "graph/private.h"

#include <math.h>
#include <string.h>

const PrecisionInfo precisions[PRECISION_COUNT] = {
    // name     type  tf32  tolerance
    {"f32", DT_F32, 3, 0},      {"tf32x3", DT_F32, 3, 0}, {"tf32", DT_F32, 1, 1e-2},
    {"bf16", DT_BF16, 3, 1e-1}, {"f16", DT_F16, 3, 2e-2},
};

bool precision_from_name(const char *name, Precision *out)
{
    for (int i = 0; i < PRECISION_COUNT; i++) {
        *out = (Precision)i;
        if (!strcmp(precisions[i].name, name)) return true;
    }
    return false;
}

typedef enum Mark {
    MARK_NONE,
    MARK_WIDE,   // f32 for its readers
    MARK_OUTSIDE // and perhaps outside the range of the narrow type
} Mark;

typedef struct Narrower {
    Graph *g;
    const Target *target;
    Arena *scratch;
    Sym cast, to;
    DType type;       // the narrow one
    GraphNodes nodes; // what g->nodes becomes
    GraphValues twin; // by id: the same value in the other type, or NULL
    VEC(Mark) mark;   // by id
    bool *exact;      // by node id: it leads to integers
} Narrower;

// ---- values

static GraphValue *twin_of(const Narrower *p, const GraphValue *v)
{
    return v->id < p->twin.n ? p->twin.at[v->id] : NULL;
}

static void are_twins(Narrower *p, GraphValue *v, GraphValue *w)
{
    while (p->twin.n <= v->id || p->twin.n <= w->id) VEC_PUSH(p->scratch, &p->twin, NULL);
    p->twin.at[v->id] = w;
    p->twin.at[w->id] = v;
}

static Mark mark_of(const Narrower *p, const GraphValue *v)
{
    return v->id < p->mark.n ? p->mark.at[v->id] : MARK_NONE;
}

static void set_mark(Narrower *p, const GraphValue *v, Mark m)
{
    while (p->mark.n <= v->id) VEC_PUSH(p->scratch, &p->mark, MARK_NONE);
    p->mark.at[v->id] = m;
}

// The largest number that the narrow type holds.
static double largest(DType t)
{
    return t == DT_F16 ? 65504 : 3.3895313892515355e38;
}

// Finite elements stay finite: what lies beyond the range of the type becomes its largest number,
// and is counted.
static GraphValue *constant_as(Narrower *p, const GraphValue *v, DType t)
{
    int64_t n = graph_value_nelem(v), dims[GRAPH_MAX_RANK], nbeyond = 0;
    size_t size = dtype_size(t), step = dtype_size(v->type);
    double most = t == DT_F32 ? INFINITY : largest(t);
    char *data = arena_alloc(p->g->arena, (size_t)max_i64(n, 1) * size);
    for (int64_t i = 0; i < n; i++) {
        double x = dtype_load_f64(v->type, (const char *)v->data + (size_t)i * step);
        if (fabs(x) > most && !isinf(x)) nbeyond++, x = copysign(most, x);
        dtype_store_f64(t, data + (size_t)i * size, x);
    }
    if (nbeyond && !p->g->beyond) p->g->beyond_name = v->name;
    p->g->beyond += nbeyond;
    graph_value_dims(v, dims);
    return graph_constant(p->g, v->name, t, v->rank, dims, data);
}

static GraphValue *cast_to(Narrower *p, GraphValue *v, DType t)
{
    const Node *decl = map_get(&p->g->library->ops, p->cast);
    GraphValue *out = graph_value(p->g, v->name, t, v->rank, v->dims);
    Value *to = NEW(p->g->arena, Value);
    *to = value_dtype(t);
    GraphNode *n = graph_node(p->g, v->producer ? v->producer->name : v->name, p->cast,
                              (OpBindings){0}, 1, &v, 1, &out);
    p->g->nodes.n--; // it belongs among the new ones
    n->op = op_info(p->g->ops, decl);
    map_put(p->g->arena, &n->attrs, p->to, to);
    VEC_PUSH(p->g->arena, &p->nodes, n);
    return out;
}

// v in type t, one of the two.
static GraphValue *as(Narrower *p, GraphValue *v, DType t)
{
    if (v->type == t) return v;
    GraphValue *w = twin_of(p, v);
    if (w) return w;
    w = v->data ? constant_as(p, v, t) : cast_to(p, v, t);
    are_twins(p, v, w);
    return w;
}

// ---- what a node computes in

static bool is_real(const Narrower *p, const GraphValue *v)
{
    return v && (v->type == DT_F32 || v->type == p->type);
}

static bool passes_on(const OpInfo *o)
{
    return o->class == OPCLASS_POINTWISE || o->moves || o->view;
}

static bool makes_integers(const GraphNode *n)
{
    for (int i = 0; i < n->noutput; i++)
        if (n->output[i] && (!dtype_is_int(n->output[i]->type) || n->output[i]->type == DT_BOOL))
            return false;
    return n->op->class == OPCLASS_POINTWISE;
}

// From the end: a node of which integers are made, and what passes its values on to one.
static void find_exact(Narrower *p)
{
    p->exact = NEW_ARRAY(p->scratch, bool, p->g->nodes.n);
    for (int i = p->g->nodes.n - 1; i >= 0; i--) {
        const GraphNode *n = p->g->nodes.at[i];
        p->exact[i] = makes_integers(n);
        for (int k = 0; k < n->noutput && passes_on(n->op); k++)
            for (int r = 0; n->output[k] && r < n->output[k]->readers.n; r++)
                p->exact[i] = p->exact[i] || p->exact[n->output[k]->readers.at[r]->id];
    }
}

// Two tensors are read by one reduction: it is a product of them.
static bool is_product(const GraphNode *n)
{
    int count = 0;
    for (int i = 0; i < n->ninput; i++) {
        int at = i < n->op->nparam ? i : n->op->nparam - 1;
        count += n->input[i] && n->op->access[at] == ACCESS_REDUCE;
    }
    return count > 1 && n->op->class == OPCLASS_REDUCTION;
}

// Of a pointwise op's constants: the narrow type has no room for a finite element, or a number
// would vanish in it.
static bool has_outside(const Narrower *p, const GraphNode *n)
{
    double most = largest(p->type);
    for (int i = 0; i < n->ninput && n->op->class == OPCLASS_POINTWISE; i++) {
        const GraphValue *v = n->input[i];
        if (!v || !v->data || v->type != DT_F32) continue;
        const float *x = v->data;
        int64_t count = graph_value_nelem(v);
        for (int64_t k = 0; k < count; k++)
            if (fabs(x[k]) > most && !isinf(x[k])) return true;
        if (count == 1 && x[0] != 0 && f64_round_to(p->type, x[0]) == 0) return true;
    }
    return false;
}

typedef struct Choice {
    DType in;  // its f32 inputs as
    Mark mark; // of its f32 results; NONE: they become narrow
} Choice;

static Choice choose(const Narrower *p, const GraphNode *n)
{
    bool narrow = false;
    Mark most = has_outside(p, n) ? MARK_OUTSIDE : MARK_NONE;
    for (int i = 0; i < n->ninput; i++) {
        GraphValue *v = n->input[i];
        if (!is_real(p, v) || v->data) continue;
        Mark m = mark_of(p, v);
        narrow = narrow || m == MARK_NONE;
        if (m > most) most = m;
    }
    if (n->op->wide || p->exact[n->id]) return (Choice){DT_F32, MARK_WIDE};
    if (is_product(n)) return (Choice){p->type, MARK_NONE};
    if (most == MARK_OUTSIDE) return (Choice){DT_F32, passes_on(n->op) ? most : MARK_NONE};
    if (most == MARK_WIDE) return (Choice){DT_F32, narrow || !passes_on(n->op) ? MARK_NONE : most};
    return (Choice){p->type, MARK_NONE};
}

// The op on the node's inputs as type t; NULL: it is not for them.
static const OpInst *apply(Narrower *p, const GraphNode *n, DType t)
{
    Diag quiet;
    diag_init(&quiet, p->scratch, p->g->library->sources);
    Instance *in = instance_new(p->scratch, p->g->library, p->target, &quiet);
    Tensor **tensor = NEW_ARRAY(p->scratch, Tensor *, n->ninput);
    Value *args = NEW_ARRAY(p->scratch, Value, n->ninput + n->op->nparam + 1);
    for (int i = 0; i < n->ninput; i++) {
        if (!n->input[i]) continue;
        GraphValue like = *n->input[i];
        if (is_real(p, &like)) like.type = t;
        tensor[i] = value_leaf(in, &like, like.name);
        tensor[i]->elements = value_elements(p->scratch, n->input[i]);
    }
    in->guess = p->g->dims.n > 0;
    return op_apply(in, 0, n->op->decl, node_args(p->scratch, n, tensor, args), args, &n->attrs);
}

static bool touches(const Narrower *p, const GraphNode *n)
{
    for (int i = 0; i < n->ninput; i++)
        if (is_real(p, n->input[i])) return true;
    return false;
}

// A cast that the model has, of a value that is already of that type.
static bool is_nothing(const Narrower *p, const GraphNode *n)
{
    if (n->op->decl->u.sym != p->cast || !is_real(p, n->input[0])) return false;
    return is_real(p, n->output[0]) && n->input[0]->type != n->output[0]->type;
}

static void visit(Narrower *p, GraphNode *n)
{
    if (is_nothing(p, n)) {
        are_twins(p, n->input[0], n->output[0]);
        VEC_PUSH(p->g->arena, &p->nodes, n);
        return;
    }
    if (!touches(p, n)) {
        VEC_PUSH(p->g->arena, &p->nodes, n);
        for (int i = 0; i < n->noutput; i++)
            if (n->output[i] && n->output[i]->type == DT_F32) set_mark(p, n->output[i], MARK_WIDE);
        return;
    }
    Choice c = choose(p, n);
    const OpInst *op = apply(p, n, c.in);
    if (!op && c.in != DT_F32) op = apply(p, n, (c = (Choice){DT_F32, MARK_NONE}).in);
    for (int i = 0; i < n->ninput; i++)
        if (is_real(p, n->input[i])) n->input[i] = as(p, n->input[i], c.in);
    if (c.in == DT_F32) p->g->nwide++;
    else p->g->nnarrow++;
    VEC_PUSH(p->g->arena, &p->nodes, n);
    for (int i = 0; op && i < n->noutput; i++) {
        GraphValue *v = n->output[i];
        if (!v) continue;
        if (dtype_is_float(v->type)) v->type = op->results[i]->type;
        if (v->type != DT_F32) continue;
        if (c.mark) set_mark(p, v, c.mark);
        else as(p, v, p->type);
    }
}

// Results of the graph keep their types.
static void restore_outputs(Narrower *p, const DType *types)
{
    for (int i = 0; i < p->g->outputs.n; i++) {
        GraphValue *v = p->g->outputs.at[i], *w = v;
        if (v->type != types[i]) w = as(p, v, types[i]);
        if (w == v) continue;
        v->is_output = false;
        w->is_output = true;
        w->name = v->name;
        p->g->outputs.at[i] = w;
    }
}

void graph_narrow(Graph *g, Precision precision, const Target *t)
{
    g->precision = precision;
    if (precisions[precision].type == DT_F32) return;
    Arena scratch = {.nomem = g->arena->nomem};
    Narrower p = {.g = g, .target = t, .scratch = &scratch, .type = precisions[precision].type};
    p.cast = intern(g->library->names, "cast");
    p.to = intern(g->library->names, "to");
    DType *types = NEW_ARRAY(&scratch, DType, g->outputs.n);
    for (int i = 0; i < g->outputs.n; i++) types[i] = g->outputs.at[i]->type;
    find_exact(&p);
    GraphNodes old = g->nodes;
    g->nodes = (GraphNodes){0};
    for (int i = 0; i < old.n; i++) visit(&p, old.at[i]);
    restore_outputs(&p, types);
    g->nodes = p.nodes;
    for (int i = 0; i < g->nodes.n; i++) g->nodes.at[i]->id = i;
    graph_remove_dead(g, &scratch);
    arena_free(&scratch);
}
