// SPDX-License-Identifier: Apache-2.0
// A graph for concrete input shapes. Nodes are visited in order: inputs that are attributes are
// read, the first declaration that accepts the node is chosen, its results give the shapes, and a
// node whose elements are all known is computed at once. So chains that compute shapes vanish.
#include "graph/specialise.h"

#include "ir/size.h"

#include <string.h>

enum { FOLD_LIMIT = 4 << 20 };

bool node_fails(const GraphNode *n, Diag *d)
{
    diag_note(d, 0, "in node '%s' (%s)", n->name, n->origin);
    return false;
}

// ---- constants as attributes

static Value element_value(const GraphValue *v, int64_t i)
{
    return v->data ? constant_element(v, i) : v->elements ? v->elements[i] : value_none();
}

static Node *attr_decl(const Node *decl, Sym name)
{
    Node *attrs = KID((Node *)decl, OP, attrs);
    for (int i = 0; i < NREST(attrs); i++)
        if (REST(attrs)[i]->u.sym == name) return REST(attrs)[i];
    return NULL;
}

static int param_position(const Node *decl, Sym name)
{
    Node *params = KID((Node *)decl, OP, params);
    for (int i = 0; i < NREST(params); i++)
        if (REST(params)[i]->u.sym == name) return i;
    return -1;
}

static bool is_type_named(const Node *type, const char *name)
{
    const Node *x = type ? type->kid[KID_TYPE_dtype] : NULL;
    return x && x->kind == N_NAME && !strcmp(x->u.sym, name);
}

// The elements of a constant as the value of an attribute.
static bool attr_from_input(Specialiser *s, const Node *param, const GraphValue *v, Map *attrs)
{
    enum { MAX_LIST = 65536 };
    if (!elements_known(v)) {
        VEC_PUSH(s->scratch, &s->unknown, (GraphValue *)v);
        diag_error(s->diag, 0, "input '%s' ('%s') must be known when the model is compiled",
                   param->u.sym, v->name);
        return false;
    }
    const Node *type = param->kid[KID_PARAM_type];
    int64_t n = graph_value_nelem(v);
    bool list = type && type->sub == TYPE_LIST;
    if ((!list && n < 1) || n > MAX_LIST) {
        diag_error(s->diag, 0, "input '%s' has %lld elements", param->u.sym, (long long)n);
        return false;
    }
    Value *out = NEW(s->to->arena, Value);
    *out = list ? value_tuple(s->to->arena, (int)n, NULL) : element_value(v, 0);
    for (int64_t i = 0; list && i < n; i++) out->u.tuple.at[i] = element_value(v, i);
    int64_t whole;
    if (out->kind == V_FLOAT && is_type_named(type, "int") && whole_f64(out->u.f, &whole))
        *out = value_int(whole);
    map_put(s->to->arena, attrs, param->u.sym, out);
    return true;
}

// Its element type, for a declaration that wants it: attribute `axes_type` beside `axes`.
static void type_from_input(Specialiser *s, const Node *decl, Sym attr, DType type, Map *attrs)
{
    Sym name = intern(s->to->library->names, arena_printf(s->scratch, "%s_type", attr));
    if (!attr_decl(decl, name)) return;
    Value *out = NEW(s->to->arena, Value);
    *out = value_dtype(type);
    map_put(s->to->arena, attrs, name, out);
}

// ONNX numbers element types; where the op wants one, the number becomes a type.
static void fix_dtypes(Specialiser *s, const Node *decl, Map *attrs)
{
    for (int i = 0; i < attrs->n; i++) {
        const Node *p = attr_decl(decl, attrs->entry[i].key);
        const Value *v = attrs->entry[i].value;
        if (!p || v->kind != V_INT || !is_type_named(p->kid[KID_PARAM_type], "dtype")) continue;
        Value *t = NEW(s->to->arena, Value);
        *t = value_dtype(dtype_from_onnx(v->u.i));
        attrs->entry[i].value = t;
    }
}

// ---- choosing a declaration

typedef struct Chosen {
    const Node *decl;
    int ninput;
    GraphValue **input; // one for each parameter, then the rest of a variadic one
    Map attrs;
    Instance *in;
    OpInst *inst;
} Chosen;

// The model's inputs at the parameters and attributes of the binding's declaration.
static bool bind_inputs(Specialiser *s, const OpBinding *b, const GraphNode *n,
                        GraphValue *const *input, Chosen *c)
{
    Arena *a = s->to->arena;
    Node *params = KID((Node *)b->decl, OP, params);
    int nparam = NREST(params);
    bool variadic = nparam && (REST(params)[nparam - 1]->sub & PARAM_VARIADIC);
    int extra = variadic && n->ninput > b->ninput ? n->ninput - b->ninput : 0;
    c->ninput = nparam + extra;
    c->input = NEW_ARRAY(a, GraphValue *, c->ninput);
    int last = nparam - 1;
    for (int i = 0; i < n->ninput; i++) {
        if (!input[i]) continue;
        if (i >= b->ninput && !extra) {
            diag_error(s->diag, 0, "%s has %d inputs here, at most %d are known", n->origin,
                       n->ninput, b->ninput);
            return false;
        }
        int at = i < b->ninput ? param_position(b->decl, b->input[i]) : ++last;
        Node *attr = at < 0 ? attr_decl(b->decl, b->input[i]) : NULL;
        if (at < 0 && !attr) {
            diag_error(s->diag, b->decl->loc, "'%s' has no parameter or attribute '%s'",
                       b->decl->u.sym, b->input[i]);
            return false;
        }
        if (at >= 0) c->input[at] = input[i];
        else if (!attr_from_input(s, attr, input[i], &c->attrs)) return false;
        if (attr) type_from_input(s, b->decl, attr->u.sym, input[i]->type, &c->attrs);
    }
    return true;
}

Tensor *value_leaf(Instance *in, const GraphValue *v, const char *name)
{
    return instance_input(in, name, v->type, v->rank, v->dims);
}

int node_args(Arena *a, const GraphNode *n, Tensor *const *tensor, Value *args)
{
    Node *params = KID((Node *)n->op->decl, OP, params);
    int nparam = NREST(params);
    bool variadic = nparam && (REST(params)[nparam - 1]->sub & PARAM_VARIADIC);
    Value *at = NEW_ARRAY(a, Value, n->ninput);
    for (int i = 0; i < n->ninput; i++)
        at[i] = tensor[i] ? (Value){.kind = V_TENSOR, .u.tensor = tensor[i]} : value_none();
    int plain = variadic ? nparam - 1 : nparam;
    memcpy(args, at, (size_t)plain * sizeof *at);
    if (variadic) {
        int count = n->ninput - plain;
        while (count > 0 && at[plain + count - 1].kind == V_NONE) count--;
        args[plain] = value_tuple(a, count, at + plain);
    }
    return nparam;
}

static bool has_outputs(Specialiser *s, const GraphNode *n, const Node *decl)
{
    int have = NREST(KID((Node *)decl, OP, results));
    for (int i = have; i < n->noutput; i++) {
        if (!n->output[i]) continue;
        diag_error(s->diag, 0, "%s has no output %d here ('%s')", n->origin, i, n->output[i]->name);
        return false;
    }
    return true;
}

static bool try_choice(Specialiser *s, const OpBinding *b, const GraphNode *n,
                       GraphValue *const *input, Chosen *c)
{
    Arena *a = s->to->arena;
    *c = (Chosen){.decl = b->decl};
    for (int i = 0; i < n->attrs.n; i++)
        map_put(a, &c->attrs, n->attrs.entry[i].key, n->attrs.entry[i].value);
    if (!bind_inputs(s, b, n, input, c) ||
        !attrs_complete(a, s->to->library, b->decl, n, input, n->ninput, &c->attrs, s->diag)) {
        return false;
    }
    fix_dtypes(s, b->decl, &c->attrs);
    Instance *in = c->in = instance_new(s->trial, s->to->library, s->target, s->diag);
    in->guess = s->dynamic;
    Tensor **tensor = NEW_ARRAY(s->trial, Tensor *, c->ninput);
    for (int i = 0; i < c->ninput; i++) {
        if (!c->input[i]) continue;
        tensor[i] = value_leaf(in, c->input[i], c->input[i]->name);
        if (s->dynamic) tensor[i]->elements = value_elements(s->trial, c->input[i]);
    }
    GraphNode probe = {.op = op_info(s->to->ops, b->decl), .ninput = c->ninput};
    Value args[64], *at = c->ninput < 64 ? args : NEW_ARRAY(s->trial, Value, c->ninput + 1);
    int narg = node_args(s->trial, &probe, tensor, at);
    c->inst = op_apply(in, 0, b->decl, narg, at, &c->attrs);
    return c->inst && has_outputs(s, n, b->decl);
}

// The first choice that fits; where none does, what is wrong with the first.
static bool choose(Specialiser *s, const GraphNode *n, GraphValue *const *input, Chosen *c)
{
    Diag *d = s->diag, quiet;
    for (int i = 0; i < n->choices.n; i++) {
        diag_init(&quiet, s->trial, s->to->library->sources);
        s->diag = &quiet;
        bool ok = try_choice(s, n->choices.at[i], n, input, c);
        s->diag = d;
        if (ok) s->unknown.n = 0;
        if (ok) return true;
    }
    if (n->choices.n == 0) diag_error(d, 0, "the operator %s is not known", n->origin);
    else try_choice(s, n->choices.at[0], n, input, c);
    return node_fails(n, d);
}

// ---- one node

// The outputs that the model wants, and of a serial op all that there are.
static bool add_outputs(Specialiser *s, const GraphNode *n, const Chosen *c, int noutput,
                        GraphValue **output)
{
    for (int i = 0; i < noutput; i++) {
        const GraphValue *wanted = i < n->noutput ? n->output[i] : NULL;
        const char *name = wanted ? wanted->name : "unused";
        output[i] = NULL;
        if ((!wanted && c->decl->sub != OP_SERIAL) || i >= c->inst->nresult) continue;
        const Tensor *t = c->inst->results[i];
        for (int k = 0; k < t->rank; k++)
            if (!specialise_extent(s, n, name, k, t->dims[k])) return node_fails(n, s->diag);
        output[i] = graph_value(s->to, name, t->type, t->rank, t->dims);
    }
    return true;
}

// What the op demanded of open dimensions, the graph does.
static bool take_requirements(Specialiser *s, const GraphNode *n, const Instance *in)
{
    for (int i = 0; i < in->kernel->requirements.n; i++) {
        const Requirement *r = &in->kernel->requirements.at[i];
        if (!size_is(r->cond)) continue;
        if (!graph_require(s->to, r->cond, r->message, n, s->diag)) return node_fails(n, s->diag);
    }
    return true;
}

bool specialised_alike(const GraphValue *a, const GraphValue *b)
{
    if (a->type != b->type || a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (!value_equal(&a->dims[i], &b->dims[i])) return false;
    return true;
}

// A node that gives its only input unchanged.
static bool is_identity(const GraphNode *n)
{
    const OpInfo *o = n->op;
    bool plain =
        o->view || (o->moves && o->class == OPCLASS_POINTWISE && o->access[0] == ACCESS_SAME);
    plain = plain || (!strcmp(o->decl->u.sym, "cast") && n->ninput == 1);
    return plain && n->input[0] && n->output[0] && specialised_alike(n->input[0], n->output[0]);
}

bool node_known(const GraphNode *n)
{
    for (int i = 0; i < n->ninput; i++) {
        int p = i < n->op->nparam ? i : n->op->nparam - 1;
        if (n->input[i] && n->op->access[p] != ACCESS_NONE && !n->input[i]->data) return false;
        if (n->input[i] && !graph_value_static(n->input[i])) return false;
    }
    for (int i = 0; i < n->noutput; i++)
        if (n->output[i] && !graph_value_static(n->output[i])) return false;
    return true;
}

// ---- extents that only the run decides

// The first extents dims of data that has extents `from`.
static const void *part_of(Arena *a, const GraphValue *from, const Value *dims)
{
    size_t size = dtype_size(from->type);
    int64_t n = 1, at[GRAPH_MAX_RANK] = {0};
    for (int k = 0; k < from->rank; k++) n *= dims[k].u.i;
    char *to = arena_alloc(a, (size_t)n * size);
    for (int64_t i = 0; i < n; i++) {
        int64_t offset = 0;
        for (int k = 0; k < from->rank; k++) offset = offset * from->dims[k].u.i + at[k];
        memcpy(to + (size_t)i * size, (const char *)from->data + (size_t)offset * size, size);
        for (int k = from->rank - 1; k >= 0 && ++at[k] == dims[k].u.i; k--) at[k] = 0;
    }
    return to;
}

static bool has_run_extents(const OpInst *op)
{
    for (int i = 0; i < op->nresult; i++)
        if (op->results[i]->counted) return true;
    return false;
}

// The outputs of a node that was computed get the extents that it told.
static bool take_run_extents(Specialiser *s, const GraphNode *n, const OpInst *op,
                             GraphValue **output)
{
    for (int i = 0; i < op->nresult; i++) {
        const int *counted = op->results[i]->counted;
        GraphValue *v = output[i];
        if (!counted) continue;
        Value *dims = NEW_ARRAY(s->to->arena, Value, v->rank);
        for (int k = 0; k < v->rank; k++) {
            dims[k] = v->dims[k];
            if (counted[k] < 0) continue;
            dims[k] = value_int(*(const int64_t *)output[counted[k]]->data);
            if (dims[k].u.i >= 0 && dims[k].u.i <= v->dims[k].u.i) continue;
            diag_error(s->diag, op->decl->loc,
                       "axis %d of '%s' has extent %lld, beyond its bound of %lld", k, v->name,
                       (long long)dims[k].u.i, (long long)v->dims[k].u.i);
            return node_fails(n, s->diag);
        }
        v->data = part_of(s->to->arena, v, dims);
        v->dims = dims;
    }
    return true;
}

static bool run_extents_fail(Specialiser *s, const GraphNode *n, const GraphNode *probe)
{
    for (int i = 0; i < probe->ninput; i++)
        if (probe->input[i]) VEC_PUSH(s->scratch, &s->unknown, probe->input[i]);
    diag_error(s->diag, 0,
               "how large the result of %s is, only its run decides: its inputs must be "
               "known when the model is compiled",
               n->origin);
    return node_fails(n, s->diag);
}

// ---- conditionals

static bool guard_holds(Specialiser *s, const GraphGuard *g)
{
    for (; g; g = g->outer) {
        GraphValue *cond = s->map[g->cond->id];
        const GraphNode *n = cond ? cond->producer : NULL;
        bool known = cond && (cond->data || (n && specialise_known(s, n, cond)));
        if (known && (element_value(cond, 0).u.i != 0) != g->is) return false;
    }
    return true;
}

// What a chosen node gives: the input itself, constants, or the outputs of a new node.
static bool take_node(Specialiser *s, const GraphNode *n, const Chosen *c, int noutput,
                      GraphValue **output)
{
    GraphNode probe = *n;
    probe.op = op_info(s->to->ops, c->decl);
    probe.ninput = c->ninput;
    probe.input = c->input;
    probe.attrs = c->attrs;
    probe.output = output;
    probe.noutput = noutput;
    if (noutput == 1 && output[0]) {
        if (is_identity(&probe)) {
            output[0] = c->input[0];
            return true;
        }
        if (probe.op->view && c->input[0]->data && graph_value_static(output[0])) {
            output[0]->data = c->input[0]->data;
            return true;
        }
    }
    bool folded = node_known(&probe) && node_fold_constant(s->to, &probe, s->target, s->fold_limit);
    if (has_run_extents(c->inst) && !folded && s->cut) {
        cut_counted(s, c->inst, output);
    } else if (has_run_extents(c->inst)) {
        if (!folded) return run_extents_fail(s, n, &probe);
        if (!take_run_extents(s, n, c->inst, output)) return false;
    }
    if (folded) return true;
    bool known = s->dynamic && noutput > 0;
    for (int i = 0; i < noutput && s->dynamic; i++) {
        if (output[i]) output_elements(s->to, c->in, c->inst->results[i], output[i]);
        known = known && (!output[i] || output[i]->data);
    }
    if (known) return take_requirements(s, n, c->in);
    GraphNode *made = graph_node(s->to, n->name, n->origin, (OpBindings){0}, c->ninput, c->input,
                                 noutput, output);
    made->op = probe.op;
    made->attrs = c->attrs;
    return take_requirements(s, n, c->in);
}

static bool choose_and_take(Specialiser *s, const GraphNode *n, GraphValue *const *input,
                            GraphValue **output)
{
    Chosen c;
    if (!choose(s, n, input, &c)) return false;
    int noutput = c.decl->sub == OP_SERIAL ? c.inst->nresult : n->noutput;
    int room = (int)max_i64(noutput, n->noutput);
    GraphValue **all = NEW_ARRAY(s->scratch, GraphValue *, room);
    if (!add_outputs(s, n, &c, room, all) || !take_requirements(s, n, c.in)) return false;
    if (!take_node(s, n, &c, noutput, all)) return false;
    for (int i = 0; i < n->noutput; i++) output[i] = all[i];
    return true;
}

bool specialise_node(Specialiser *s, const GraphNode *n, GraphValue *const *input,
                     GraphValue **output)
{
    ArenaMark mark = arena_mark(s->trial);
    bool ok = choose_and_take(s, n, input, output);
    arena_reset(s->trial, mark);
    return ok;
}

static bool visit_control(Specialiser *s, const GraphNode *n)
{
    if (n->is_if) return specialise_control(s, n);
    bool cut = s->cut;
    if (cut && !control_unrolls(s, n)) {
        cut_put_off(s, n, true);
        return true;
    }
    s->cut = false; // not within a loop that becomes part of the graph
    bool ok = specialise_control(s, n);
    s->cut = cut;
    return ok;
}

static bool visit(Specialiser *s, const GraphNode *n)
{
    if (n->is_if || n->control) return visit_control(s, n);
    GraphValue **input = NEW_ARRAY(s->scratch, GraphValue *, n->ninput);
    GraphValue **output = NEW_ARRAY(s->scratch, GraphValue *, n->noutput);
    for (int i = 0; i < n->ninput; i++) input[i] = n->input[i] ? s->map[n->input[i]->id] : NULL;
    GraphNode few = *n;
    if (!specialise_operands(s, &few, &input) || !specialise_results(s, &few, input, output))
        return false;
    for (int i = 0; i < n->noutput; i++) {
        if (!n->output[i]) continue;
        s->map[n->output[i]->id] = output[i];
        if (s->cut && cut_is_counted(s, output[i])) s->late[n->output[i]->id] = true;
    }
    return true;
}

// Visits a node, or puts it off.
static bool visit_or_cut(Specialiser *s, const GraphNode *n)
{
    if (cut_is_late(s, n)) {
        cut_put_off(s, n, false);
        return true;
    }
    Diag *d = s->diag, quiet;
    int nrequirement = s->to->requirements.n, niteration = s->niteration;
    diag_init(&quiet, s->scratch, s->to->library->sources);
    s->diag = &quiet;
    s->unknown.n = 0;
    bool ok = visit(s, n) || cut_after_failure(s, n);
    s->diag = d;
    if (ok && !quiet.nerror) return true;
    s->to->requirements.n = nrequirement;
    s->niteration = niteration;
    s->unknown.n = ok ? 0 : s->unknown.n;
    return ok || visit(s, n); // again, for what is wrong
}

bool specialise_nodes(Specialiser *s, const GraphNodes *nodes)
{
    for (int i = 0; i < nodes->n; i++) {
        const GraphNode *n = nodes->at[i];
        if (!guard_holds(s, n->guard)) continue;
        if (!(s->cut ? visit_or_cut : visit)(s, n)) return false;
    }
    return true;
}

// ---- the whole

// An output's type is the declared one; the extents that are declared beside it are hints.
static bool check_output(const Specialiser *s, const GraphValue *declared)
{
    const GraphValue *v = s->map[declared->id];
    if (!v || s->late[declared->id]) return true;
    if (declared->type != DT_NONE && v->type != declared->type) {
        diag_error(s->diag, 0, "the output '%s' is of type %s, the model declares %s",
                   declared->name, dtypes[v->type].name, dtypes[declared->type].name);
        return false;
    }
    bool differs = declared->rank >= 0 && declared->rank != v->rank;
    for (int i = 0; i < declared->rank && !differs; i++)
        differs = declared->dims[i].kind == V_INT && v->dims[i].kind == V_INT &&
                  declared->dims[i].u.i != v->dims[i].u.i;
    if (differs)
        s->to->differs = arena_printf(
            s->to->arena, "%s%sthe output '%s' has another shape than the model declares",
            s->to->differs ? s->to->differs : "", s->to->differs ? "; " : "", declared->name);
    return true;
}

static bool specialise(Specialiser *s, const Specialisation *how)
{
    if (!specialise_inputs(s, how)) return false;
    for (int i = 0; i < s->from->values.n; i++) {
        const GraphValue *v = s->from->values.at[i];
        if (v->data) s->map[i] = specialise_constant(s, v);
    }
    if (!specialise_nodes(s, &s->from->nodes)) return false;
    bool cut = s->loops.n || s->rest.n || s->counted.n;
    if (s->again) return true;
    for (int i = 0; i < s->from->outputs.n; i++)
        if (!check_output(s, s->from->outputs.at[i])) return false;
    if (cut) cut_outputs(s);
    for (int i = 0; i < s->from->outputs.n && !cut; i++)
        graph_output(s->to, s->map[s->from->outputs.at[i]->id]);
    graph_remove_dead(s->to, s->scratch);
    if (s->dynamic) specialise_sizes(s->to);
    DType type = precisions[how->precision].type;
    Rewriting rewriting = {.host = s->target,
                           .device = how->device ? how->device : s->target,
                           .narrow = type == DT_F32 ? DT_NONE : type,
                           .fold_limit = s->fold_limit};
    do { // without rules the graph stays as the model has it
        if (!graph_rewrite(s->to, &rewriting, s->diag)) return false;
    } while (s->to->library->rules.n && specialise_transposes(s->to, &rewriting));
    graph_narrow(s->to, how->precision, s->target);
    return !cut || cut_steps(s);
}

void specialise_sources(const Specialiser *s, bool *inputs)
{
    bool *values = NEW_ARRAY(s->scratch, bool, s->to->values.n);
    bool *nodes = NEW_ARRAY(s->scratch, bool, s->to->nodes.n);
    for (int i = 0; i < s->unknown.n; i++) values[s->unknown.at[i]->id] = true;
    graph_mark_operands(s->to, values, nodes);
    for (int i = 0; i < s->to->inputs.n; i++)
        if (values[s->to->inputs.at[i]->id]) inputs[i] = true;
}

Graph *graph_specialise(const Graph *g, Arena *a, const Specialisation *how, const Target *t,
                        Diag *d)
{
    Arena scratch = {.nomem = a->nomem}, trial = scratch;
    Graph *to;
    Specialiser s;
    bool *deferred = NEW_ARRAY(&scratch, bool, g->values.n), ok;
    do { // once more for each branch of which only a run tells whether it is taken
        to = graph_new(a, g->library, g->ops, g->name);
        s = (Specialiser){.from = g,
                          .how = how,
                          .to = to,
                          .target = t,
                          .diag = d,
                          .scratch = &scratch,
                          .trial = &trial,
                          .dynamic = how->dynamic,
                          .cut = how->cut,
                          .deferred = deferred};
        s.map = NEW_ARRAY(a, GraphValue *, g->values.n);
        s.late = NEW_ARRAY(&scratch, bool, g->values.n);
        s.fold_limit = how->fold_limit ? how->fold_limit : FOLD_LIMIT;
        ok = specialise(&s, how);
    } while (ok && s.again);
    to->specialised = ok;
    if (!ok && how->wanted) specialise_sources(&s, how->wanted);
    arena_free(&trial);
    arena_free(&scratch);
    return ok ? to : NULL;
}
