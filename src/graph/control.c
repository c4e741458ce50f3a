// SPDX-License-Identifier: Apache-2.0
// If, Loop and Scan while a graph is specialised. A branch that is known to be taken becomes part
// of the graph; of two that may be, both do, and elements are selected. The body of a loop becomes
// part of it once for each iteration, whose number must be known by then.
#include "graph/specialise.h"

#include <string.h>

enum { MAX_ITERATIONS = 20000 }; // of all loops together: each makes nodes

static GraphValue *value_at(Specialiser *s, GraphValue *v)
{
    return v ? s->map[v->id] : NULL;
}

static bool must_know(Specialiser *s, const GraphNode *n, GraphValue *v, const char *what)
{
    if (specialise_known(s, n, v)) return true;
    VEC_PUSH(s->scratch, &s->unknown, v);
    diag_error(s->diag, 0, "%s ('%s') must be known when the model is compiled", what, v->name);
    return node_fails(n, s->diag);
}

static bool bad_node(Specialiser *s, const GraphNode *n, const char *why)
{
    diag_error(s->diag, 0, "%s %s", n->origin, why);
    return node_fails(n, s->diag);
}

static GraphValue *scalar(Specialiser *s, DType type, int64_t v)
{
    void *data = arena_alloc(s->to->arena, dtype_size(type));
    dtype_store_i64(type, data, v);
    return graph_constant(s->to, "constant", type, 0, NULL, data);
}

// An op of the library by name, with one attribute, or none: NULL.
static GraphValue *apply(Specialiser *s, const GraphNode *n, const char *op, int ninput,
                         GraphValue *const *input, const char *attr, Value v)
{
    const Node *decl = map_get(&s->to->library->ops, intern(s->to->library->names, op));
    if (!decl) {
        diag_error(s->diag, 0, "no loaded text declares the op '%s'", op);
        node_fails(n, s->diag);
        return NULL;
    }
    GraphValue named = {.name = n->name}, *wanted = &named, *output;
    GraphNode one = {.name = n->name,
                     .origin = op,
                     .ninput = ninput,
                     .input = (GraphValue **)input,
                     .noutput = 1,
                     .output = &wanted};
    const OpBinding *binding = op_binding(s->to->ops, decl);
    VEC_PUSH(s->scratch, &one.choices, binding);
    Value *at = NEW(s->to->arena, Value);
    *at = v;
    if (attr) map_put(s->scratch, &one.attrs, intern(s->to->library->names, attr), at);
    return specialise_node(s, &one, input, &output) ? output : NULL;
}

static GraphValue *slice_at(Specialiser *s, const GraphNode *n, GraphValue *x, int64_t i,
                            int64_t axis)
{
    GraphValue *input[] = {x, scalar(s, DT_I64, i)};
    return apply(s, n, "gather", 2, input, "axis", value_int(axis));
}

// Values side by side along a new axis.
static GraphValue *stacked(Specialiser *s, const GraphNode *n, const GraphValues *list,
                           int64_t axis)
{
    GraphValues parts = {0};
    for (int i = 0; i < list->n; i++) {
        Value axes = value_int(axis);
        GraphValue *part =
            apply(s, n, "unsqueeze", 1, &list->at[i], "axes", value_tuple(s->to->arena, 1, &axes));
        if (!part) return NULL;
        VEC_PUSH(s->scratch, &parts, part);
    }
    if (parts.n == 1) return parts.at[0];
    return apply(s, n, "concat", parts.n, parts.at, "axis", value_int(axis));
}

// Runs a body: its inputs are in the map.
static bool run_body(Specialiser *s, const GraphNode *n, GraphValue **output)
{
    const GraphBody *b = n->body;
    if (++s->niteration > MAX_ITERATIONS) return bad_node(s, n, "runs too many iterations");
    if (!specialise_nodes(s, &b->nodes)) return false;
    for (int i = 0; i < b->outputs.n; i++) {
        output[i] = value_at(s, b->outputs.at[i]);
        if (!output[i]) return bad_node(s, n, "has a body that returns what no branch taken gives");
    }
    return true;
}

static void set_output(Specialiser *s, const GraphNode *n, int i, GraphValue *v)
{
    if (i < n->noutput && n->output[i]) s->map[n->output[i]->id] = v;
}

static bool stack_scans(Specialiser *s, const GraphNode *n, int first, int count,
                        GraphValues *scans, const int64_t *axis)
{
    for (int k = 0; k < count; k++) {
        if (first + k >= n->noutput || !n->output[first + k]) continue;
        if (!scans[k].n) return bad_node(s, n, "runs no iteration, and so gives no extents");
        GraphValue *v = stacked(s, n, &scans[k], axis ? axis[k] : 0);
        if (!v) return false;
        set_output(s, n, first + k, v);
    }
    return true;
}

// ---- If: inputs are the condition, the results of one branch, those of the other

static GraphValue *selected(Specialiser *s, const GraphNode *n, GraphValue *cond, GraphValue *yes,
                            GraphValue *no)
{
    if (!yes || !no || !specialised_alike(yes, no)) {
        must_know(s, n, cond, "where the branches give different shapes, the condition");
        return NULL;
    }
    if (cond->rank > 0) {
        cond = apply(s, n, "reshape", 1, &cond, "shape", value_tuple(s->to->arena, 0, NULL));
        if (!cond) return NULL;
    }
    GraphValue *input[] = {cond, yes, no};
    return apply(s, n, "where", 3, input, NULL, value_none());
}

// Whether the branches are more than to be computed both.
static bool is_heavy(const Specialiser *s, const GraphNode *n)
{
    enum { FEW_NODES = 8 };
    int count = 0;
    for (int i = 0; i < s->from->nodes.n && count <= FEW_NODES; i++) {
        const GraphNode *one = s->from->nodes.at[i];
        for (const GraphGuard *g = one->guard; g; g = g->outer)
            if (g->cond == n->input[0]) count += one->body ? FEW_NODES + 1 : 1;
    }
    return count > FEW_NODES;
}

static bool conditional(Specialiser *s, const GraphNode *n)
{
    GraphValue *cond = value_at(s, n->input[0]);
    if (!cond || cond->type != DT_BOOL || graph_value_nelem(cond) != 1)
        return bad_node(s, n, "needs one truth value");
    specialise_known(s, n, cond);
    if (!cond->data && s->cut && is_heavy(s, n))
        return must_know(s, n, cond, "as its branches are large, the condition");
    for (int i = 0; i < n->noutput; i++) {
        if (!n->output[i]) continue;
        GraphValue *yes = value_at(s, n->input[1 + i]);
        GraphValue *no = value_at(s, n->input[1 + n->noutput + i]);
        GraphValue *v = !cond->data                              ? selected(s, n, cond, yes, no)
                        : dtype_load_i64(cond->type, cond->data) ? yes
                                                                 : no;
        if (!v) return cond->data ? bad_node(s, n, "lacks a result of its branch") : false;
        set_output(s, n, i, v);
    }
    return true;
}

// ---- Loop: inputs are the number of iterations, the condition, what is carried; outputs what was
// carried, then one stack for each further output of the body

static bool loop_goes_on(Specialiser *s, const GraphNode *n, GraphValue *cond, int64_t i,
                         int64_t most, bool *more)
{
    *more = i < most;
    if (!*more || !cond) return true;
    if (!must_know(s, n, cond, "a loop's condition")) return false;
    *more = dtype_load_i64(cond->type, cond->data) != 0;
    return true;
}

static bool loop(Specialiser *s, const GraphNode *n)
{
    const GraphBody *b = n->body;
    int ncarried = n->ninput - 2, nscan = b->outputs.n - 1 - ncarried;
    if (ncarried < 0 || nscan < 0 || b->inputs.n != ncarried + 2)
        return bad_node(s, n, "has a body of other inputs and outputs");
    GraphValue *trips = value_at(s, n->input[0]), *cond = value_at(s, n->input[1]);
    if (trips && !must_know(s, n, trips, "a loop's number of iterations")) return false;
    int64_t most = trips ? dtype_load_i64(trips->type, trips->data) : INT64_MAX;
    GraphValue **carried = NEW_ARRAY(s->scratch, GraphValue *, ncarried);
    GraphValue **output = NEW_ARRAY(s->scratch, GraphValue *, b->outputs.n);
    GraphValues *scans = NEW_ARRAY(s->scratch, GraphValues, nscan);
    for (int k = 0; k < ncarried; k++) carried[k] = value_at(s, n->input[k + 2]);
    for (int64_t i = 0;; i++) {
        bool more;
        if (!loop_goes_on(s, n, cond, i, most, &more)) return false;
        if (!more) break;
        s->map[b->inputs.at[0]->id] = scalar(s, DT_I64, i);
        s->map[b->inputs.at[1]->id] = scalar(s, DT_BOOL, 1);
        for (int k = 0; k < ncarried; k++) s->map[b->inputs.at[k + 2]->id] = carried[k];
        if (!run_body(s, n, output)) return false;
        cond = output[0];
        for (int k = 0; k < ncarried; k++) carried[k] = output[k + 1];
        for (int k = 0; k < nscan; k++) VEC_PUSH(s->scratch, &scans[k], output[1 + ncarried + k]);
    }
    for (int k = 0; k < ncarried; k++) set_output(s, n, k, carried[k]);
    return stack_scans(s, n, ncarried, nscan, scans, NULL);
}

// ---- Scan: inputs are the state, then what is read slice by slice; outputs the state, then stacks

static int64_t attr_number(Specialiser *s, const GraphNode *n, const char *name, int i,
                           int64_t absent)
{
    const Value *v = map_get(&n->attrs, intern(s->to->library->names, name));
    if (!v) return absent;
    if (v->kind == V_TUPLE) return i < v->u.tuple.n ? v->u.tuple.at[i].u.i : absent;
    return v->kind == V_INT ? v->u.i : absent;
}

typedef struct Scan {
    const GraphBody *body;
    int nstate, nin, nout;
    const int64_t *in_axis, *backwards;      // (nin)
    const int64_t *out_axis, *out_backwards; // (nout)
} Scan;

static bool run_scan(Specialiser *s, const GraphNode *n, const Scan *c, GraphValue **state,
                     GraphValue *const *in, GraphValues *scans)
{
    int64_t count = -1;
    for (int k = 0; k < c->nin; k++) {
        int64_t axis = c->in_axis[k] < 0 ? c->in_axis[k] + in[k]->rank : c->in_axis[k];
        if (axis < 0 || axis >= in[k]->rank)
            return bad_node(s, n, "reads along an axis that is none");
        int64_t length;
        if (!specialise_size(s, n, in[k]->dims[axis], &length))
            return bad_node(s, n, "reads along a dimension that is open");
        if (count >= 0 && length != count)
            return bad_node(s, n, "reads inputs of different lengths");
        count = length;
    }
    GraphValue **output = NEW_ARRAY(s->scratch, GraphValue *, c->nstate + c->nout);
    for (int64_t i = 0; i < count; i++) {
        for (int k = 0; k < c->nstate; k++) s->map[c->body->inputs.at[k]->id] = state[k];
        for (int k = 0; k < c->nin; k++) {
            GraphValue *part =
                slice_at(s, n, in[k], c->backwards[k] ? count - 1 - i : i, c->in_axis[k]);
            if (!part) return false;
            s->map[c->body->inputs.at[c->nstate + k]->id] = part;
        }
        if (!run_body(s, n, output)) return false;
        memcpy(state, output, (size_t)c->nstate * sizeof *state);
        for (int k = 0; k < c->nout; k++) VEC_PUSH(s->scratch, &scans[k], output[c->nstate + k]);
    }
    for (int k = 0; k < c->nout; k++)
        for (int i = 0; c->out_backwards[k] && i < scans[k].n / 2; i++) {
            GraphValue *v = scans[k].at[i];
            scans[k].at[i] = scans[k].at[scans[k].n - 1 - i];
            scans[k].at[scans[k].n - 1 - i] = v;
        }
    return true;
}

static const int64_t *axes_of(Specialiser *s, const GraphNode *n, const char *name, int count)
{
    int64_t *out = NEW_ARRAY(s->scratch, int64_t, count);
    for (int i = 0; i < count; i++) out[i] = attr_number(s, n, name, i, 0);
    return out;
}

// Until opset 8 a first input may give lengths, and all others have a first axis of independent
// runs.
static bool scan_of_batch(Specialiser *s, const GraphNode *n, const Scan *c, GraphValue **input)
{
    int nall = c->nstate + c->nin, nresult = c->nstate + c->nout;
    if (input[0]) return bad_node(s, n, "with lengths is not supported");
    GraphValues *results = NEW_ARRAY(s->scratch, GraphValues, nresult);
    for (int k = 0; k < nall; k++)
        if (input[k + 1]->rank < 1) return bad_node(s, n, "has an input without a first axis");
    for (int64_t b = 0; nall && b < input[1]->dims[0].u.i; b++) {
        GraphValue **part = NEW_ARRAY(s->scratch, GraphValue *, nall);
        GraphValues *scans = NEW_ARRAY(s->scratch, GraphValues, c->nout);
        for (int k = 0; k < nall; k++)
            if (!(part[k] = slice_at(s, n, input[k + 1], b, 0))) return false;
        if (!run_scan(s, n, c, part, part + c->nstate, scans)) return false;
        for (int k = 0; k < nresult; k++) {
            GraphValue *v = k < c->nstate ? part[k] : stacked(s, n, &scans[k - c->nstate], 0);
            if (!v) return false;
            VEC_PUSH(s->scratch, &results[k], v);
        }
    }
    return stack_scans(s, n, 0, nresult, results, NULL);
}

static bool scan(Specialiser *s, const GraphNode *n)
{
    const GraphBody *b = n->body;
    Scan c = {.body = b, .nin = (int)attr_number(s, n, "num_scan_inputs", 0, 0)};
    bool batch = n->ninput == b->inputs.n + 1;
    c.nstate = b->inputs.n - c.nin;
    c.nout = b->outputs.n - c.nstate;
    if (c.nin < 1 || c.nstate < 0 || c.nout < 0 || n->ninput != b->inputs.n + batch)
        return bad_node(s, n, "has a body of other inputs and outputs");
    c.in_axis = axes_of(s, n, "scan_input_axes", c.nin);
    c.backwards = axes_of(s, n, batch ? "directions" : "scan_input_directions", c.nin);
    c.out_axis = axes_of(s, n, "scan_output_axes", c.nout);
    c.out_backwards = axes_of(s, n, "scan_output_directions", c.nout);
    GraphValue **input = NEW_ARRAY(s->scratch, GraphValue *, n->ninput);
    for (int k = 0; k < n->ninput; k++) {
        input[k] = value_at(s, n->input[k]);
        if (!input[k] && !(batch && k == 0)) return bad_node(s, n, "lacks an input");
    }
    if (batch) return scan_of_batch(s, n, &c, input);
    GraphValues *scans = NEW_ARRAY(s->scratch, GraphValues, c.nout);
    if (!run_scan(s, n, &c, input, input + c.nstate, scans)) return false;
    for (int k = 0; k < c.nstate; k++) set_output(s, n, k, input[k]);
    return stack_scans(s, n, c.nstate, c.nout, scans, c.out_axis);
}

// ---- which loops become part of the graph

static int64_t body_nodes(const GraphBody *b)
{
    int64_t n = 1 + b->nodes.n;
    for (int i = 0; i < b->nodes.n; i++)
        if (b->nodes.at[i]->body) n += body_nodes(b->nodes.at[i]->body);
    return n;
}

bool control_unrolls(Specialiser *s, const GraphNode *n)
{
    enum { MAX_NODES = 1024 };
    int64_t count = 0;
    if (n->control == CONTROL_LOOP) {
        const GraphValue *trips = n->ninput > 0 ? value_at(s, n->input[0]) : NULL;
        if (trips && !trips->data) return false;
        if (trips && graph_value_nelem(trips) == 1)
            count = max_i64(0, dtype_load_i64(trips->type, trips->data));
    } else {
        const GraphValue *last = n->ninput > 0 ? value_at(s, n->input[n->ninput - 1]) : NULL;
        int nin = (int)attr_number(s, n, "num_scan_inputs", 0, 0);
        if (n->ninput != n->body->inputs.n || !last || nin < 1) return true;
        int64_t axis = attr_number(s, n, "scan_input_axes", nin - 1, 0);
        if (axis < 0) axis += last->rank;
        if (axis < 0 || axis >= last->rank) return true;
        if (last->dims[axis].kind != V_INT) return false;
        count = last->dims[axis].u.i;
    }
    return count <= MAX_NODES / body_nodes(n->body);
}

static bool gives_all(Specialiser *s, const GraphNode *n)
{
    for (int i = 0; i < n->noutput; i++)
        if (n->output[i] && !s->map[n->output[i]->id])
            return bad_node(s, n, "gives no value to one of its outputs");
    return true;
}

bool specialise_control(Specialiser *s, const GraphNode *n)
{
    if (n->is_if) return conditional(s, n);
    switch (n->control) {
    case CONTROL_LOOP: return loop(s, n) && gives_all(s, n);
    case CONTROL_SCAN: return scan(s, n) && gives_all(s, n);
    default: BUG("control %d", (int)n->control);
    }
}
