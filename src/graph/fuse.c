// SPDX-License-Identifier: Apache-2.0
// Fusion groups. A group starts from an anchor and grows forwards over pointwise readers, which
// become epilogues, and backwards over producers that only it reads, which become prologues.
// Anchors are taken in this order: ops with templates and reductions, ops that move elements,
// pointwise ops. Growing is refused where groups would wait for each other.
#include "graph/private.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_EVALUATIONS = 64, // of ops for one element of an output, and as many where one is loaded
    COSTLY = 4,           // evaluations that one of an op as exp counts for
    MAX_NODES = 256       // of one epilogue
};

typedef struct Fuser {
    Graph *g;
    Arena *arena;
    const Target *target;
    Group **group_of; // by node id
    int *evaluations; // by value id: ops evaluated for one element, in the group that grows
    int *span;        // by node id: one before it, or the same: the first in a row of nodes over
                      // which no group reaches
    int *seen;        // by node id: the last walk that came there
    int walk;
    int floor;        // no node before it leads to where the walk wants to get
    GraphNodes ahead; // where the walk goes next
    Groups groups;
} Fuser;

// ---- questions

static bool kernel_serves(const Node *kernel, const Target *t)
{
    const Node *clauses = kernel->kid[KID_KERNEL_clauses];
    for (uint32_t i = 0; i < clauses->nkid; i++) {
        const Node *c = clauses->kid[i];
        if (strcmp(c->u.sym, "on")) continue;
        const char *kind = c->kid[KID_CLAUSE_args]->kid[0]->u.sym;
        return !strcmp(kind, t->kind == TARGET_CPU ? "cpu" : "cuda");
    }
    return true;
}

int group_templates(const Graph *g, const GraphNode *anchor, const Target *t, Arena *a,
                    const Node ***out)
{
    const KernelList *list = map_get(&g->library->implementers, anchor->op->decl->u.sym);
    int n = 0;
    *out = NEW_ARRAY(a, const Node *, list ? list->n : 0);
    for (int i = 0; list && i < list->n; i++)
        if (kernel_serves(list->at[i], t)) (*out)[n++] = list->at[i];
    return n;
}

static bool has_template(const Fuser *f, const GraphNode *n)
{
    const Node **list;
    return group_templates(f->g, n, f->target, f->arena, &list) > 0;
}

static OpAccess access_of(const GraphNode *n, int input)
{
    return n->op->access[input < n->op->nparam ? input : n->op->nparam - 1];
}

static GraphValue *only_output(const GraphNode *n)
{
    GraphValue *v = NULL;
    for (int i = 0; i < n->noutput; i++) {
        if (n->output[i] && v) return NULL;
        if (n->output[i]) v = n->output[i];
    }
    return v;
}

static bool same_size(const Fuser *f, const GraphValue *a, const GraphValue *b)
{
    Value n = graph_value_size(f->arena, a), m = graph_value_size(f->arena, b);
    return value_equal(&n, &m);
}

static bool in_group(const Fuser *f, const Group *p, const GraphValue *v)
{
    return v->producer && f->group_of[v->producer->id] == p;
}

// The first node of a row that no group reaches out of, among them node `id`.
static int span_of(Fuser *f, int id)
{
    while (f->span[id] != id) id = f->span[id] = f->span[f->span[id]];
    return id;
}

static void join(Fuser *f, Group *p, GraphNode *n)
{
    int from = (int)min_i64(n->id, p->anchor->id), to = (int)max_i64(n->id, p->anchor->id);
    f->group_of[n->id] = p;
    for (int first = span_of(f, to); first > from; first = span_of(f, to))
        f->span[first] = first - 1;
}

// Goes to what computes v, once in each walk.
static void go_to(Fuser *f, const GraphValue *v)
{
    GraphNode *n = v ? v->producer : NULL;
    if (!n || n->id < f->floor || f->seen[n->id] == f->walk) return;
    f->seen[n->id] = f->walk;
    VEC_PUSH(f->arena, &f->ahead, n);
}

// Whether r needs something of group p by way of nodes outside it, looking at groups as wholes.
static bool depends(Fuser *f, const Group *p, const GraphNode *r)
{
    f->walk++;
    f->floor = span_of(f, p->anchor->id);
    f->ahead.n = 0;
    for (int i = 0; i < r->ninput; i++)
        if (r->input[i] && !in_group(f, p, r->input[i])) go_to(f, r->input[i]);
    while (f->ahead.n) {
        const GraphNode *n = VEC_POP(&f->ahead);
        const Group *q = f->group_of[n->id];
        if (q == p) return true;
        for (int i = 0; i < n->ninput; i++) go_to(f, n->input[i]);
        for (int i = 0; q && i < q->inputs.n; i++) go_to(f, q->inputs.at[i]);
    }
    return false;
}

static void add_input(Fuser *f, Group *p, GraphValue *v)
{
    for (int i = 0; i < p->inputs.n; i++)
        if (p->inputs.at[i] == v) return;
    VEC_PUSH(f->arena, &p->inputs, v);
}

// inputs: everything that the nodes read from outside, so far.
static void collect_inputs(Fuser *f, Group *p)
{
    p->inputs.n = 0;
    const GraphNodes *lists[] = {&p->prologue, &p->epilogue};
    for (int i = 0; i < p->anchor->ninput; i++)
        if (p->anchor->input[i] && !in_group(f, p, p->anchor->input[i]))
            add_input(f, p, p->anchor->input[i]);
    for (int l = 0; l < 2; l++)
        for (int k = 0; k < lists[l]->n; k++) {
            GraphNode *n = lists[l]->at[k];
            for (int i = 0; i < n->ninput; i++)
                if (n->input[i] && !in_group(f, p, n->input[i])) add_input(f, p, n->input[i]);
        }
}

// ---- epilogues

// A view that only adds or drops axes of extent 1: indices stay what they are.
static bool is_thin_view(const GraphNode *n)
{
    const GraphValue *x = n->input[0], *y = n->output[0];
    if (!n->op->view || !x || !y) return false;
    int i = 0, k = 0;
    for (;;) {
        while (i < x->rank && size_is_one(&x->dims[i])) i++;
        while (k < y->rank && size_is_one(&y->dims[k])) k++;
        if (i == x->rank || k == y->rank) return i == x->rank && k == y->rank;
        if (!value_equal(&x->dims[i++], &y->dims[k++])) return false;
    }
}

// What a node that is not pointwise wants of its operands.
static const char *wants(const GraphNode *n)
{
    if (n->op->view) return "has them in another shape";
    if (n->op->class == OPCLASS_REDUCTION) return "needs many elements for one of its own";
    if (n->op->class == OPCLASS_SERIAL) return "is a program that one worker runs";
    return "takes elements from other places";
}

static const char *belongs(const Fuser *f, const GraphNode *n)
{
    const GraphNode *anchor = f->group_of[n->id]->anchor;
    if (n != anchor)
        return arena_printf(f->arena, "is computed with %s (%s)", anchor->name,
                            anchor->op->decl->u.sym);
    if (n->op->class == OPCLASS_POINTWISE) return "is computed before";
    return wants(n);
}

// Why r cannot be computed where p's result is stored; NULL: it can.
static const char *refuse_epilogue(Fuser *f, Group *p, GraphNode *r)
{
    const GraphValue *hole = only_output(p->anchor), *y = only_output(r);
    if (f->group_of[r->id]) return belongs(f, r);
    if (!y) return "has several results";
    bool view = is_thin_view(r) && p->anchor->op->class != OPCLASS_POINTWISE;
    if (r->op->class != OPCLASS_POINTWISE && !view) return wants(r);
    if (!same_size(f, y, hole)) return "changes the number of elements";
    int evaluations = r->op->costly ? COSTLY : 1;
    for (int i = 0; i < r->ninput; i++) {
        GraphValue *v = r->input[i];
        if (!v || !in_group(f, p, v)) continue;
        OpAccess a = access_of(r, i);
        bool same = view || a == ACCESS_NONE || a == ACCESS_SAME ||
                    (a == ACCESS_BROADCAST && graph_same_dims(v, y));
        if (!same) return "reads other elements";
        evaluations += f->evaluations[v->id];
    }
    if (evaluations > MAX_EVALUATIONS) return "would evaluate too much again";
    if (p->epilogue.n >= MAX_NODES) return "would make the kernel too large";
    if (depends(f, p, r)) return "needs a value that is computed from this group";
    f->evaluations[y->id] = evaluations;
    return NULL;
}

// Whether a kernel's text asks for rows or says when they are complete.
static bool tells_rows(const Node *n)
{
    if (n->kind == N_FIELD && (!strcmp(n->u.sym, "rows") || !strcmp(n->u.sym, "of_rows")))
        return true;
    for (uint32_t i = 0; i < n->nkid; i++)
        if (n->kid[i] && tells_rows(n->kid[i])) return true;
    return false;
}

static bool has_rows(const Fuser *f, const Group *p)
{
    const Node **list;
    int n = group_templates(f->g, p->anchor, f->target, f->arena, &list);
    for (int i = 0; i < n; i++)
        if (tells_rows(list[i])) return true;
    return false;
}

// Whether r may be computed from rows of p's result: it has their leading extents, reads nothing
// else as a whole, and is no larger.
static bool reads_rows(const Fuser *f, const Group *p, const GraphNode *r)
{
    const GraphValue *hole = only_output(p->anchor), *y = only_output(r);
    if (r->op->class != OPCLASS_REDUCTION || hole->rank < 2 || y->rank < hole->rank - 1 ||
        y->rank > hole->rank)
        return false;
    // Lanes would compute again what a template of the op keeps; a warp has the time.
    if (r->op->repeats && f->target->kind == TARGET_CPU) return false;
    for (int k = 0; k < hole->rank - 1; k++)
        if (!value_equal(&hole->dims[k], &y->dims[k])) return false;
    if (y->rank == hole->rank && !size_is_one(&y->dims[y->rank - 1]) &&
        !value_equal(&y->dims[y->rank - 1], &hole->dims[y->rank - 1]))
        return false;
    for (int i = 0; i < r->ninput; i++) {
        const GraphValue *v = r->input[i];
        if (v && !in_group(f, p, v) && access_of(r, i) == ACCESS_REDUCE) return false;
    }
    return true;
}

static void outputs_of(const Fuser *f, const Group *p, GraphValues *out);

static const Node *template_of(Fuser *f, const Group *p)
{
    GraphValues outputs = {0};
    outputs_of(f, p, &outputs);
    return group_template(f->g, p, &outputs, f->target);
}

// Takes r into the epilogue, by what *how says, if the template that the group has anyway can.
static bool try_epilogue(Fuser *f, Group *p, GraphNode *r, bool *how)
{
    bool before = *how;
    if (depends(f, p, r)) return false;
    const Node *kernel = template_of(f, p);
    if (!kernel) return false;
    join(f, p, r);
    VEC_PUSH(f->arena, &p->epilogue, r);
    collect_inputs(f, p);
    *how = true;
    if (template_of(f, p) == kernel) {
        f->evaluations[only_output(r)->id] = 1;
        return true;
    }
    *how = before;
    f->group_of[r->id] = NULL;
    p->epilogue.n--;
    collect_inputs(f, p);
    return false;
}

static void grow_value(Fuser *f, Group *p, const GraphValue *v)
{
    for (int i = 0; i < v->readers.n; i++) {
        GraphNode *r = v->readers.at[i];
        if (f->group_of[r->id] == p) continue;
        if (refuse_epilogue(f, p, r)) {
            bool rows = !f->group_of[r->id] && only_output(r) && reads_rows(f, p, r);
            if (rows && has_rows(f, p)) try_epilogue(f, p, r, &p->by_rows);
            continue;
        }
        join(f, p, r);
        VEC_PUSH(f->arena, &p->epilogue, r);
        collect_inputs(f, p);
    }
}

// A view at the end serves nothing: outside it costs nothing.
static void trim_epilogues(Fuser *f, Group *p)
{
    for (int i = p->epilogue.n - 1; i >= 0; i--) {
        GraphNode *n = p->epilogue.at[i];
        bool read = !n->op->view;
        const GraphValue *y = only_output(n);
        for (int r = 0; r < y->readers.n; r++)
            read = read || f->group_of[y->readers.at[r]->id] == p;
        if (read) continue;
        f->group_of[n->id] = NULL;
        memmove(p->epilogue.at + i, p->epilogue.at + i + 1,
                (size_t)(--p->epilogue.n - i) * sizeof *p->epilogue.at);
    }
}

static int by_id(const void *a, const void *b)
{
    return (*(GraphNode *const *)a)->id - (*(GraphNode *const *)b)->id;
}

// Grows until nothing changes.
static void grow_epilogues(Fuser *f, Group *p)
{
    if (!only_output(p->anchor) || p->anchor->op->class == OPCLASS_SERIAL) return;
    int before;
    do {
        before = p->epilogue.n;
        grow_value(f, p, only_output(p->anchor));
        for (int i = 0; i < p->epilogue.n; i++) grow_value(f, p, only_output(p->epilogue.at[i]));
    } while (p->epilogue.n > before);
    if (p->epilogue.n) qsort(p->epilogue.at, (size_t)p->epilogue.n, sizeof *p->epilogue.at, by_id);
    trim_epilogues(f, p);
    collect_inputs(f, p);
}

// ---- prologues

static bool only_reader(const GraphValue *v, const GraphNode *reader)
{
    for (int i = 0; i < v->readers.n; i++)
        if (v->readers.at[i] != reader) return false;
    return !v->is_output;
}

static bool moves_rows(const Fuser *f, const GraphNode *n)
{
    return f->target->kind != TARGET_CPU && node_moves_rows(f->g, n);
}

// Whether what moves elements gives each at most once. A part of a tensor that is no rows keeps
// sums on GPUs from copying rows as they lie, unless something else does anyway.
static bool is_read_once(const Fuser *f, const Group *p, const GraphNode *n, bool first)
{
    if (n->op->bijective) return true;
    bool sums = p->anchor->op->class == OPCLASS_REDUCTION;
    if (n->op->nparam != 1) return false;
    if (first && sums && f->target->kind != TARGET_CPU && !moves_rows(f, n)) return false;
    return graph_value_nelem(only_output(n)) <= graph_value_nelem(n->input[0]);
}

static bool is_fixed(const GraphNode *n)
{
    for (int i = 0; i < n->noutput; i++)
        if (n->output[i]) return graph_value_fixed(n->output[i]);
    return false;
}

// Why n, which computes v for `reader`, cannot be computed where p loads it; NULL: it can.
static const char *refuse_prologue(const Fuser *f, const Group *p, const GraphNode *n,
                                   const GraphNode *reader, const GraphValue *v)
{
    static const char *const again = "would be computed again at each load";
    const GraphNode *anchor = p->anchor;
    if (graph_value_fixed(v) && !is_fixed(anchor))
        return "is computed once, when the model is loaded";
    if (!only_output(n)) return "has several results";
    if (!only_reader(v, reader)) return "has other readers";
    if (n->op->class == OPCLASS_SERIAL) return wants(n);
    if (n->op->class == OPCLASS_REDUCTION) return "would add up its elements again at each load";
    if (anchor->op->class == OPCLASS_SERIAL) return "is stored for a program that one worker runs";
    if (f->group_of[n->id]) return belongs(f, n);
    if (p->prologue.n >= MAX_EVALUATIONS) return "would evaluate too much at each load";
    bool many = reader->op->nparam < reader->ninput; // of a variadic op, each element is asked for
    // Windows read an element many times, each time from far away.
    for (int i = 0; reader == anchor && i < reader->ninput; i++)
        if (reader->input[i] == v && access_of(reader, i) == ACCESS_REDUCE &&
            reader->op->windows[min_i64(i, reader->op->nparam - 1)] && !moves_rows(f, n))
            return "would be computed again for each window";
    if (has_template(f, anchor)) {
        if (!n->op->moves || n->op->view) return again;
        return is_read_once(f, p, n, reader == anchor) ? NULL : "would break rows apart";
    }
    if (anchor->op->class == OPCLASS_REDUCTION) return n->op->moves && !n->op->view ? NULL : again;
    if (n->op->view) return reader->op->class == OPCLASS_MAP ? NULL : "costs nothing by itself";
    if (!n->op->costly) return NULL;
    const GraphValue *y = only_output(reader); // each of several results would compute it again
    bool worth = !many && y && graph_value_nelem(y) <= graph_value_nelem(v);
    return worth ? NULL : again;
}

static void grow_prologues(Fuser *f, Group *p)
{
    for (int k = -1; k < p->prologue.n; k++) {
        const GraphNode *reader = k < 0 ? p->anchor : p->prologue.at[k];
        for (int i = 0; i < reader->ninput; i++) {
            GraphValue *v = reader->input[i];
            GraphNode *n = v ? v->producer : NULL;
            if (!n || f->group_of[n->id] || refuse_prologue(f, p, n, reader, v)) continue;
            join(f, p, n);
            VEC_PUSH(f->arena, &p->prologue, n);
        }
    }
}

// A view that nothing inside feeds costs nothing outside.
static void trim_prologues(Fuser *f, Group *p)
{
    if (p->prologue.n) qsort(p->prologue.at, (size_t)p->prologue.n, sizeof *p->prologue.at, by_id);
    int kept = 0;
    for (int i = 0; i < p->prologue.n; i++) {
        GraphNode *n = p->prologue.at[i];
        if (n->op->view && !in_group(f, p, n->input[0])) f->group_of[n->id] = NULL;
        else p->prologue.at[kept++] = n;
    }
    p->prologue.n = kept;
    collect_inputs(f, p);
}

// ---- boundaries

static void add_boundary(const Fuser *f, Boundaries *list, const GraphNode *n, const char *why)
{
    for (int i = 0; i < list->n; i++)
        if (list->at[i].node == n) return;
    VEC_PUSH(f->arena, list, ((Boundary){n, why}));
}

// What reads the value, also through views.
static void explain_readers(Fuser *f, Group *p, GraphValue *value)
{
    GraphValues list = {0};
    VEC_PUSH(f->arena, &list, value);
    bool one = only_output(p->anchor) && p->anchor->op->class != OPCLASS_SERIAL;
    for (int k = 0; k < list.n; k++)
        for (int i = 0; i < list.at[k]->readers.n; i++) {
            GraphNode *r = list.at[k]->readers.at[i];
            if (f->group_of[r->id] == p) continue;
            if (r->op->view && !f->group_of[r->id] && r->output[0] && r->output[0]->readers.n) {
                VEC_PUSH(f->arena, &list, r->output[0]);
                continue;
            }
            const char *why = !one ? "reads one of several results"
                              : k > 0 && r->op->class == OPCLASS_POINTWISE
                                  ? "reads it in another shape"
                                  : refuse_epilogue(f, p, r);
            add_boundary(f, &p->after, r, why ? why : "stays apart");
        }
}

static void explain_operands(Fuser *f, Group *p, const GraphNode *reader)
{
    for (int i = 0; i < reader->ninput; i++) {
        const GraphValue *v = reader->input[i];
        const GraphNode *n = v ? v->producer : NULL, *near = reader;
        if (!n || f->group_of[n->id] == p) continue;
        const char *why = refuse_prologue(f, p, n, near, v);
        while (n && n->op->view && !f->group_of[n->id]) { // what is behind a view
            near = n;
            v = n->input[0];
            n = v ? v->producer : NULL;
            if (n) why = refuse_prologue(f, p, n, near, v);
        }
        if (n && f->group_of[n->id] != p) add_boundary(f, &p->before, n, why ? why : "stays apart");
    }
}

// Once all groups are made.
static void explain(Fuser *f, Group *p)
{
    const GraphNodes *lists[] = {&p->prologue, &p->epilogue};
    for (int i = 0; i < p->anchor->noutput; i++)
        if (p->anchor->output[i]) explain_readers(f, p, p->anchor->output[i]);
    explain_operands(f, p, p->anchor);
    for (int l = 0; l < 2; l++)
        for (int i = 0; i < lists[l]->n; i++) {
            explain_operands(f, p, lists[l]->at[i]);
            for (int k = 0; l == 1 && k < lists[l]->at[i]->noutput; k++)
                if (lists[l]->at[i]->output[k]) explain_readers(f, p, lists[l]->at[i]->output[k]);
        }
    p->once = p->outputs.n > 0;
    for (int i = 0; i < p->outputs.n; i++) p->once = p->once && graph_value_fixed(p->outputs.at[i]);
}

// ---- all groups

static void outputs_of(const Fuser *f, const Group *p, GraphValues *out)
{
    GraphNodes nodes = {0};
    VEC_PUSH(f->arena, &nodes, p->anchor);
    for (int i = 0; i < p->epilogue.n; i++) VEC_PUSH(f->arena, &nodes, p->epilogue.at[i]);
    for (int i = 0; i < nodes.n; i++)
        for (int k = 0; k < nodes.at[i]->noutput; k++) {
            GraphValue *v = nodes.at[i]->output[k];
            bool outside = v && (v->is_output || nodes.at[i]->op->class == OPCLASS_SERIAL);
            for (int r = 0; v && r < v->readers.n; r++)
                outside = outside || f->group_of[v->readers.at[r]->id] != p;
            if (outside) VEC_PUSH(f->arena, out, v);
        }
}

// A transpose of all that the group gives, which keeps rows whole, where the template can store so.
static void take_transpose(Fuser *f, Group *p)
{
    GraphValues out = {0};
    int perm[GRAPH_MAX_RANK];
    if (f->target->kind == TARGET_CPU || !only_output(p->anchor) || p->by_rows) return;
    outputs_of(f, p, &out);
    if (out.n != 1 || out.at[0]->is_output || out.at[0]->readers.n != 1) return;
    GraphNode *r = out.at[0]->readers.at[0];
    if (f->group_of[r->id] || !node_permutation(f->g, r, perm)) return;
    int last = r->output[0]->rank - 1;
    if (last > 0 && perm[last] == last) try_epilogue(f, p, r, &p->moved);
}

static void make_group(Fuser *f, GraphNode *n, const FuseOptions *o)
{
    Group *p = NEW(f->arena, Group);
    p->anchor = n;
    join(f, p, n);
    for (int i = 0; i < n->noutput; i++)
        if (n->output[i]) f->evaluations[n->output[i]->id] = 0;
    collect_inputs(f, p);
    if (!o || !o->off) {
        grow_epilogues(f, p);
        grow_prologues(f, p);
        trim_prologues(f, p);
        take_transpose(f, p);
    }
    VEC_PUSH(f->arena, &f->groups, p);
}

static int phase_of(const Fuser *f, const GraphNode *n)
{
    if (n->op->view) return -1;
    if (n->op->class == OPCLASS_POINTWISE) return 2;
    if (n->op->class == OPCLASS_MAP && (n->op->moves || !has_template(f, n))) return 1;
    return 0;
}

Groups graph_fuse(Graph *g, Arena *a, const Target *t, const FuseOptions *o)
{
    Fuser f = {.g = g, .arena = a, .target = t};
    f.group_of = NEW_ARRAY(a, Group *, g->nodes.n);
    f.span = NEW_ARRAY(a, int, g->nodes.n);
    for (int i = 0; i < g->nodes.n; i++) f.span[i] = i;
    f.evaluations = NEW_ARRAY(a, int, g->values.n);
    f.seen = NEW_ARRAY(a, int, g->nodes.n);
    for (int phase = 0; phase < 3; phase++)
        for (int k = 0; k < g->nodes.n; k++) {
            // An op that moves elements takes in those before it, so the last one comes first.
            GraphNode *n = g->nodes.at[phase == 1 ? g->nodes.n - 1 - k : k];
            if (!f.group_of[n->id] && phase_of(&f, n) == phase) make_group(&f, n, o);
        }
    for (int i = 0; i < f.groups.n; i++) outputs_of(&f, f.groups.at[i], &f.groups.at[i]->outputs);
    for (int i = 0; i < f.groups.n; i++) explain(&f, f.groups.at[i]);
    return groups_in_order(g, &f.groups, f.group_of, a);
}
