// SPDX-License-Identifier: Apache-2.0
// Cutting a graph. While it is specialised, nodes are put off: those that need to know what is
// known only at run time, loops that are not unrolled, branches of which only a run tells whether
// they are taken, and all that read their results. What is put off and needs nothing that is put
// off itself runs as a step, all others are the rest, a graph that is specialised once their inputs
// are there.
#include "graph/cut.h"

#include "graph/specialise.h"

#include <string.h>

enum { SMALL_INPUT = 64 }; // elements that a section may be specialised for

// ---- what a node reads

typedef void ReadFn(void *user, GraphValue *v);

static void read_nodes(const GraphNodes *nodes, bool *inside, ReadFn *fn, void *user);

static void read_value(GraphValue *v, const bool *inside, ReadFn *fn, void *user)
{
    if (v && !inside[v->id]) fn(user, v);
}

static void read_captures(const GraphBody *b, bool *inside, ReadFn *fn, void *user)
{
    for (int i = 0; i < b->inputs.n; i++) inside[b->inputs.at[i]->id] = true;
    read_nodes(&b->nodes, inside, fn, user);
    for (int i = 0; i < b->outputs.n; i++) read_value(b->outputs.at[i], inside, fn, user);
}

static void read_nodes(const GraphNodes *nodes, bool *inside, ReadFn *fn, void *user)
{
    for (int i = 0; i < nodes->n; i++) {
        const GraphNode *n = nodes->at[i];
        for (const GraphGuard *g = n->guard; g; g = g->outer) read_value(g->cond, inside, fn, user);
        for (int k = 0; k < n->ninput; k++) read_value(n->input[k], inside, fn, user);
        if (n->body) read_captures(n->body, inside, fn, user);
        for (int k = 0; k < n->noutput; k++)
            if (n->output[k]) inside[n->output[k]->id] = true;
    }
}

static bool *nothing_inside(const Specialiser *s)
{
    return NEW_ARRAY(s->scratch, bool, s->from->values.n);
}

// ---- putting off

static void mark_late(void *user, GraphValue *v)
{
    const Specialiser *s = ((void **)user)[0];
    bool *late = ((void **)user)[1];
    *late = *late || s->late[v->id];
}

bool cut_is_late(Specialiser *s, const GraphNode *n)
{
    bool late = false;
    for (const GraphGuard *g = n->guard; g; g = g->outer)
        late = late || s->deferred[g->cond->id] || s->late[g->cond->id];
    for (int i = 0; i < n->ninput; i++) late = late || (n->input[i] && s->late[n->input[i]->id]);
    void *user[] = {s, &late};
    if (n->body && !late) read_captures(n->body, nothing_inside(s), mark_late, user);
    return late;
}

void cut_put_off(Specialiser *s, const GraphNode *n, bool step)
{
    VEC_PUSH(s->scratch, step ? &s->loops : &s->rest, (GraphNode *)n);
    for (int i = 0; i < n->noutput; i++)
        if (n->output[i]) s->late[n->output[i]->id] = true;
}

void cut_defer(Specialiser *s, const GraphValue *cond)
{
    if (s->deferred[cond->id]) return;
    s->deferred[cond->id] = true;
    s->again = true;
}

static bool given(const Specialiser *s, int input)
{
    return s->how->data && s->how->data[input];
}

// Whether the values that were to be known come from few integers among the inputs, which the
// section can be made for.
static bool few_integers(Specialiser *s, int most)
{
    bool *of = NEW_ARRAY(s->scratch, bool, s->to->inputs.n), any = false;
    specialise_sources(s, of);
    for (int i = 0; i < s->to->inputs.n; i++) {
        const GraphValue *in = s->to->inputs.at[i];
        if (!of[i]) continue;
        if (dtype_is_float(in->type) || graph_value_nelem(in) > most) return false;
        if (!graph_value_static(in) || in->elements || given(s, i)) return false;
        any = true;
    }
    return any;
}

static bool is_input(const Specialiser *s, const GraphValue *v)
{
    for (int i = 0; i < s->to->inputs.n; i++)
        if (s->to->inputs.at[i] == v) return true;
    return false;
}

// The condition of the outermost branch that may not be taken.
static GraphValue *doubtful(const Specialiser *s, const GraphGuard *g)
{
    GraphValue *cond = NULL;
    for (; g; g = g->outer)
        if (!s->map[g->cond->id] || !s->map[g->cond->id]->data) cond = g->cond;
    return cond;
}

bool cut_after_failure(Specialiser *s, const GraphNode *n)
{
    GraphValue *cond = doubtful(s, n->guard);
    if (cond) {
        cut_defer(s, cond);
        cut_put_off(s, n, false);
        return true;
    }
    if (n->control) {
        cut_put_off(s, n, true);
        return true;
    }
    if (!s->unknown.n) return false;
    for (int i = 0; i < s->unknown.n; i++)
        if (is_input(s, s->unknown.at[i])) return false;
    // What branch is taken is one of two; but a number that says how a model is used is fixed.
    bool fix = few_integers(s, n->is_if ? (s->from->is_section ? 0 : 1) : SMALL_INPUT);
    if (fix) return false;
    if (n->is_if) cut_defer(s, n->input[0]);
    cut_put_off(s, n, false);
    return true;
}

// ---- what the steps need

struct Cutter {
    Specialiser *s;
    GraphCut *cut;
    int *at;      // by id of `from`: the output of `to` that holds it, -1: none
    int *slot;    // by id of `from`, of what steps give; -1: none
    bool *needed; // by id of `from`: what the steps read, and outputs
};

static int output_of(Cutter *c, GraphValue *v)
{
    Graph *to = c->s->to;
    for (int i = 0; i < to->outputs.n; i++)
        if (to->outputs.at[i] == v) return i;
    graph_output(to, v);
    return to->outputs.n - 1;
}

static int input_of(const Specialiser *s, const GraphValue *v)
{
    for (int i = 0; i < s->to->inputs.n; i++)
        if (s->to->inputs.at[i] == v) return i;
    return -1;
}

static CutCounted *counted_of(const Specialiser *s, const GraphValue *from)
{
    for (int i = 0; i < s->counted.n; i++)
        if (s->counted.at[i].value == s->map[from->id]) return &s->counted.at[i];
    return NULL;
}

// A value that comes later than the graph's plan needs no place there.
static bool comes_later(const Specialiser *s, const GraphValue *v)
{
    return s->late[v->id] && !(s->map[v->id] && counted_of(s, v));
}

static void need_value(void *user, GraphValue *v)
{
    Cutter *c = user;
    Specialiser *s = c->s;
    if (c->needed[v->id] || comes_later(s, v)) return;
    c->needed[v->id] = true;
    GraphValue *to = s->map[v->id];
    if (!to) return; // of a branch that is not taken
    CutCounted *k = counted_of(s, v);
    if (!k && input_of(s, to) >= 0) return;
    c->at[v->id] = output_of(c, to);
    for (int i = 0; k && i < to->rank; i++)
        k->at[i] = k->counts[i] ? output_of(c, k->counts[i]) : -1;
}

void cut_counted(Specialiser *s, const OpInst *op, GraphValue **output)
{
    for (int i = 0; i < op->nresult; i++) {
        const int *counted = op->results[i]->counted;
        if (!counted) continue;
        CutCounted k = {.value = output[i]};
        k.counts = NEW_ARRAY(s->scratch, GraphValue *, output[i]->rank);
        k.at = NEW_ARRAY(s->scratch, int, output[i]->rank);
        for (int d = 0; d < output[i]->rank; d++)
            if (counted[d] >= 0) k.counts[d] = output[counted[d]];
        VEC_PUSH(s->scratch, &s->counted, k);
    }
}

bool cut_is_counted(const Specialiser *s, const GraphValue *v)
{
    for (int i = 0; i < s->counted.n; i++)
        if (s->counted.at[i].value == v) return true;
    return false;
}

void cut_outputs(Specialiser *s)
{
    Cutter *c = s->cutter = NEW(s->scratch, Cutter);
    int n = s->from->values.n;
    *c = (Cutter){.s = s, .cut = NEW(s->to->arena, GraphCut)};
    c->at = NEW_ARRAY(s->scratch, int, n);
    c->slot = NEW_ARRAY(s->scratch, int, n);
    c->needed = NEW_ARRAY(s->scratch, bool, n);
    for (int i = 0; i < n; i++) c->at[i] = c->slot[i] = -1;
    for (int i = 0; i < s->from->outputs.n; i++) {
        GraphValue *v = s->from->outputs.at[i];
        if (comes_later(s, v)) continue;
        need_value(c, v);
        // Inputs that are outputs too are copied: they stay the caller's.
        if (s->map[v->id]) c->at[v->id] = output_of(c, s->map[v->id]);
    }
    read_nodes(&s->loops, nothing_inside(s), need_value, c);
    read_nodes(&s->rest, nothing_inside(s), need_value, c);
}

// ---- slots and steps

static SectionStep *add_step(Cutter *c, SectionStepKind kind, const char *name, int nin, int nout,
                             Graph *g)
{
    Arena *a = c->s->to->arena;
    int *slots = NEW_ARRAY(a, int, nin + nout);
    SectionStep st = {.kind = kind, .name = name, .ninput = nin, .noutput = nout};
    for (int i = 0; i < nin + nout; i++) slots[i] = -1;
    st.input = slots;
    st.output = slots + nin;
    VEC_PUSH(a, &c->cut->steps, st);
    VEC_PUSH(a, &c->cut->graphs, g);
    return &c->cut->steps.at[c->cut->steps.n - 1];
}

static int plan_slot(const Cutter *c, int output)
{
    return c->s->to->inputs.n + output;
}

static int trimmed(Cutter *c, const GraphValue *v, const CutCounted *k)
{
    const GraphValue *to = c->s->map[v->id];
    SectionStep *st = add_step(c, SECTION_TRIM, v->name, 1 + to->rank, 1, NULL);
    int *in = (int *)st->input, *out = (int *)st->output;
    in[0] = plan_slot(c, c->at[v->id]);
    for (int i = 0; i < to->rank; i++) in[1 + i] = k->at[i] < 0 ? -1 : plan_slot(c, k->at[i]);
    return c->slot[v->id] = out[0] = c->cut->nslot++;
}

// Where a value is by now; -1: nowhere.
static int slot_of(Cutter *c, const GraphValue *v)
{
    if (c->slot[v->id] >= 0) return c->slot[v->id];
    const GraphValue *to = c->s->map[v->id];
    if (!to) return -1;
    const CutCounted *k = counted_of(c->s, v);
    if (k) return trimmed(c, v, k);
    if (c->at[v->id] >= 0) return plan_slot(c, c->at[v->id]);
    return input_of(c->s, to);
}

// ---- graphs of the steps

// What is known of a value that is an input of a section: its extents, by name where they are open.
static GraphValue *section_input(Cutter *c, const GraphValue *v)
{
    Arena *a = c->s->to->arena;
    GraphValue *in = NEW(a, GraphValue);
    *in = (GraphValue){.id = v->id, .name = v->name, .rank = -1};
    const GraphValue *to = c->s->map[v->id];
    if (c->s->late[v->id] && !counted_of(c->s, v)) return in;
    if (!to) return in;
    const CutCounted *k = counted_of(c->s, v);
    in->type = to->type;
    in->rank = to->rank;
    in->dims = NEW_ARRAY(a, Value, to->rank);
    for (int i = 0; i < to->rank; i++) {
        in->dims[i] = to->dims[i];
        if (k && k->counts[i]) in->dims[i] = value_none();
        if (in->dims[i].kind != V_EXPR) continue;
        Buf text;
        buf_init(&text, a);
        value_print(&to->dims[i], &text);
        in->dims[i] = value_str(intern(c->s->to->library->names, buf_text(&text)));
    }
    return in;
}

static Graph *section_graph(Cutter *c, const char *name, GraphNodes nodes)
{
    const Graph *from = c->s->from;
    Graph *g = NEW(c->s->to->arena, Graph);
    *g = (Graph){.arena = c->s->to->arena,
                 .ops = from->ops,
                 .library = from->library,
                 .name = name,
                 .nodes = nodes,
                 .is_section = true};
    for (int i = 0; i < from->values.n; i++) VEC_PUSH(g->arena, &g->values, from->values.at[i]);
    return g;
}

typedef struct Reads {
    Cutter *c;
    Graph *g;
    bool *seen;
    VEC(int) slots; // of the graph's inputs that were found
} Reads;

// What a graph reads of values that are there becomes an input of it, or a constant in it.
static void add_read(void *user, GraphValue *v)
{
    Reads *r = user;
    Arena *a = r->g->arena;
    if (r->seen[v->id]) return;
    r->seen[v->id] = true;
    const GraphValue *to = r->c->s->late[v->id] ? NULL : r->c->s->map[v->id];
    if (to && to->data) {
        GraphValue *k = NEW(a, GraphValue);
        *k = *to;
        k->id = v->id;
        k->name = v->name;
        k->readers = (GraphNodes){0};
        k->producer = NULL;
        k->is_output = false;
        r->g->values.at[v->id] = k;
        return;
    }
    int slot = slot_of(r->c, v);
    if (slot < 0) return; // a branch that is not taken gives none
    VEC_PUSH(a, &r->g->inputs, section_input(r->c, v));
    VEC_PUSH(a, &r->slots, slot);
}

static const int64_t *numbers(Specialiser *s, const GraphNode *n, const char *name, int count)
{
    const Value *v = map_get(&n->attrs, intern(s->to->library->names, name));
    if (!v || v->kind != V_TUPLE) return NULL;
    int64_t *out = NEW_ARRAY(s->to->arena, int64_t, count);
    for (int i = 0; i < count && i < v->u.tuple.n; i++) out[i] = v->u.tuple.at[i].u.i;
    return out;
}

// Whether nothing but its number of iterations ends a loop: its condition cannot become false.
static bool is_counted(const Specialiser *s, const GraphNode *n)
{
    const GraphBody *b = n->body;
    const GraphValue *cond = b->outputs.at[0];
    if (n->control != CONTROL_LOOP) return false;
    for (int i = 0; i < b->nodes.n; i++) {
        const GraphNode *p = cond->producer;
        if (p && !strcmp(p->origin, "Identity") && p->ninput && p->input[0]) cond = p->input[0];
    }
    if (cond == b->inputs.at[1]) return true;
    cond = s->from->values.at[cond->id]; // the caller may give it
    return cond->data && dtype_load_i64(cond->type, cond->data);
}

static bool loop_step(Cutter *c, const GraphNode *n)
{
    Specialiser *s = c->s;
    const GraphBody *b = n->body;
    bool scan = n->control == CONTROL_SCAN;
    const Value *count = map_get(&n->attrs, intern(s->to->library->names, "num_scan_inputs"));
    int nscan = scan && count && count->kind == V_INT ? (int)count->u.i : 0;
    int ncarried = scan ? b->inputs.n - nscan : n->ninput - 2;
    if (ncarried < 0 || nscan < 0 || (scan && nscan < 1) || n->ninput != b->inputs.n ||
        b->outputs.n < ncarried + !scan || n->noutput > b->outputs.n - !scan) {
        diag_error(s->diag, 0, "%s has a body of other inputs and outputs", n->origin);
        return node_fails(n, s->diag);
    }
    bool counted = is_counted(s, n);
    if (counted && !n->input[0]) {
        diag_error(s->diag, 0, "%s would never end: its condition stays what it is", n->origin);
        return node_fails(n, s->diag);
    }
    Graph *g = section_graph(c, n->name, b->nodes);
    Reads r = {.c = c, .g = g, .seen = nothing_inside(s)};
    for (int i = 0; i < b->inputs.n; i++) {
        GraphValue *in = NEW(g->arena, GraphValue);
        *in = (GraphValue){.id = b->inputs.at[i]->id, .name = b->inputs.at[i]->name, .rank = -1};
        VEC_PUSH(g->arena, &g->inputs, in);
    }
    for (int i = 0; i < b->outputs.n; i++) VEC_PUSH(g->arena, &g->outputs, b->outputs.at[i]);
    read_captures(b, nothing_inside(s), add_read, &r);
    SectionStep *st = add_step(c, scan ? SECTION_SCAN : SECTION_LOOP, n->name,
                               n->ninput + r.slots.n, b->outputs.n - !scan, g);
    int *in = (int *)st->input, *out = (int *)st->output;
    for (int i = 0; i < n->ninput; i++) {
        if (n->input[i]) in[i] = slot_of(c, n->input[i]);
        if (in[i] >= 0 || (!scan && i < 2)) continue;
        diag_error(s->diag, 0, "%s lacks input %d", n->origin, i);
        return node_fails(n, s->diag);
    }
    for (int i = 0; i < r.slots.n; i++) in[n->ninput + i] = r.slots.at[i];
    for (int i = 0; i < n->noutput; i++)
        if (n->output[i]) c->slot[n->output[i]->id] = out[i] = c->cut->nslot++;
    st->ncarried = ncarried;
    st->counted = counted;
    st->nscan = nscan;
    int nstack = b->outputs.n - ncarried;
    st->in_axis = numbers(s, n, "scan_input_axes", nscan);
    st->in_backwards = numbers(s, n, "scan_input_directions", nscan);
    st->out_axis = scan ? numbers(s, n, "scan_output_axes", nstack) : NULL;
    st->out_backwards = scan ? numbers(s, n, "scan_output_directions", nstack) : NULL;
    return true;
}

static void rest_step(Cutter *c)
{
    Specialiser *s = c->s;
    Graph *g = section_graph(c, s->from->name, (GraphNodes){0});
    Reads r = {.c = c, .g = g, .seen = nothing_inside(s)};
    for (int i = 0; i < s->rest.n; i++) VEC_PUSH(g->arena, &g->nodes, s->rest.at[i]);
    read_nodes(&s->rest, nothing_inside(s), add_read, &r);
    for (int i = 0; i < s->from->outputs.n; i++) {
        GraphValue *v = s->from->outputs.at[i];
        if (slot_of(c, v) < 0 && c->slot[v->id] != -2) VEC_PUSH(g->arena, &g->outputs, v);
        if (slot_of(c, v) < 0) c->slot[v->id] = -2;
    }
    bool *known = NEW_ARRAY(g->arena, bool, g->inputs.n);
    for (int i = 0; i < g->inputs.n; i++) known[i] = s->deferred[g->inputs.at[i]->id];
    g->must_know = known;
    SectionStep *st = add_step(c, SECTION_CALL, s->rest.at[0]->name, g->inputs.n, g->outputs.n, g);
    int *in = (int *)st->input, *out = (int *)st->output;
    for (int i = 0; i < g->inputs.n; i++) in[i] = r.slots.at[i];
    for (int i = 0; i < g->outputs.n; i++) c->slot[g->outputs.at[i]->id] = out[i] = c->cut->nslot++;
}

bool cut_steps(Specialiser *s)
{
    Cutter *c = s->cutter;
    c->cut->nslot = s->to->inputs.n + s->to->outputs.n;
    for (int i = 0; i < s->loops.n; i++)
        if (!loop_step(c, s->loops.at[i])) return false;
    if (s->rest.n) rest_step(c);
    int *output = NEW_ARRAY(s->to->arena, int, s->from->outputs.n);
    for (int i = 0; i < s->from->outputs.n; i++) {
        const GraphValue *v = s->from->outputs.at[i];
        output[i] = c->slot[v->id] >= 0 || c->at[v->id] < 0 || counted_of(s, v)
                        ? slot_of(c, v)
                        : plan_slot(c, c->at[v->id]);
        if (output[i] >= 0) continue;
        diag_error(s->diag, 0, "nothing gives the output '%s'", v->name);
        return false;
    }
    c->cut->output = output;
    s->to->cut = c->cut;
    return true;
}
