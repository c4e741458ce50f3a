// SPDX-License-Identifier: Apache-2.0
// Rewriting by the library's rules: where a pattern matches and its condition holds, the nodes it
// removes are replaced by the result's, again and again until no rule applies. A rule is read as
// the identity that it states: a name stands for any value (the same one wherever it is written), a
// number for a constant that equals it, an operator or call for a node of that op.
#include "graph/private.h"

#include <math.h>
#include <string.h>

enum { MAX_BINDING = 64, MAX_REWRITE = 10000 };

typedef struct Binding {
    Sym name;
    GraphValue *value; // a tensor; NULL: absent
    const Value *attr; // or an attribute's value
    const Map *attrs;  // or all attributes of a node
} Binding;

typedef struct Match {
    Graph *g;
    const Target *target;
    Diag *diag;
    Arena *scratch;
    const Node *rule;
    Binding binding[MAX_BINDING];
    int nbinding;
    GraphNodes nodes; // that matched, the root first
    DType type;       // of numbers in the result: the matched root's
    int at;           // where new nodes go among Graph.nodes
    int nnew;
} Match;

// Operators of the language as ops.
static const struct {
    NodeKind kind;
    const char *op;
    bool commutes;
} operators[] = {
    {N_ADD, "add", true},  {N_SUB, "sub", false}, {N_MUL, "mul", true},
    {N_DIV, "div", false}, {N_POW, "pow", false}, {N_NEG, "neg", false},
};

Sym node_op(const Library *l, const Node *n, bool *commutes)
{
    *commutes = false;
    if (n->kind == N_CALL && n->kid[0]->kind == N_NAME) {
        Sym name = n->kid[0]->u.sym;
        return map_has(&l->ops, name) ? name : NULL;
    }
    for (size_t i = 0; i < COUNT(operators); i++) {
        if (operators[i].kind != n->kind) continue;
        *commutes = operators[i].commutes;
        return intern(l->names, operators[i].op);
    }
    return NULL;
}

static Binding *find(Match *m, Sym name)
{
    for (int i = 0; i < m->nbinding; i++)
        if (m->binding[i].name == name) return &m->binding[i];
    return NULL;
}

static Binding *bind(Match *m, Sym name)
{
    if (m->nbinding == MAX_BINDING) return NULL;
    m->binding[m->nbinding] = (Binding){.name = name};
    return &m->binding[m->nbinding++];
}

static bool bind_value(Match *m, Sym name, GraphValue *v)
{
    Binding *b = find(m, name);
    if (b) return b->value == v && !b->attr && !b->attrs;
    b = bind(m, name);
    if (b) b->value = v;
    return b != NULL;
}

// ---- matching

static bool scalar_constant(const GraphValue *v, double *out)
{
    if (!v || !v->data || graph_value_nelem(v) != 1) return false;
    *out = dtype_load_f64(v->type, v->data);
    return true;
}

bool node_literal(const Node *n, double *out)
{
    if (n->kind == N_NEG && node_literal(n->kid[0], out)) {
        *out = -*out;
        return true;
    }
    if (n->kind == N_INT) *out = (double)n->u.i;
    else if (n->kind == N_FLOAT) *out = n->u.f;
    return n->kind == N_INT || n->kind == N_FLOAT;
}

// Constants in models are rounded to their type, and often written with few digits.
static bool near(double a, double b)
{
    return a == b || fabs(a - b) <= 1e-6 * fmax(fabs(a), fabs(b));
}

static bool match(Match *m, Node *pattern, GraphValue *v);

static bool match_attr(Match *m, const Node *arg, const GraphNode *n)
{
    const Node *want = arg->kid[0];
    const Value *have = map_get(&n->attrs, arg->u.sym);
    Node *attrs = KID((Node *)n->op->decl, OP, attrs);
    for (int i = 0; !have && i < NREST(attrs);
         i++) { // left out: its default, where that is a literal
        const Node *d = REST(attrs)[i]->kid[KID_PARAM_default];
        if (REST(attrs)[i]->u.sym != arg->u.sym || !d) continue;
        Value *v = NEW(m->scratch, Value);
        double x;
        if (d->kind == N_STRING) *v = value_str(d->u.sym);
        else if (node_literal(d, &x))
            *v = d->kind == N_FLOAT ? value_float(x) : value_int((int64_t)x);
        else return false;
        have = v;
    }
    if (!have) return false;
    if (want->kind == N_NAME) {
        Binding *b = find(m, want->u.sym);
        if (b) return b->attr && value_equal(b->attr, have);
        b = bind(m, want->u.sym);
        if (b) b->attr = have;
        return b != NULL;
    }
    double x;
    if (node_literal(want, &x))
        return near(x, have->kind == V_FLOAT ? have->u.f : (double)have->u.i);
    return want->kind == N_STRING && have->kind == V_STR && !strcmp(want->u.sym, have->u.str);
}

// The name of an argument `name?`, which also matches an input that was left out; NULL if it is
// none.
static Sym optional_name(const Node *n)
{
    return n->kind == N_PARAM && (n->sub & PARAM_OPTIONAL) ? n->u.sym : NULL;
}

// The pack in `...a`, which stands for all attributes, or NULL.
static Sym all_attributes(const Node *n)
{
    bool is = n->kind == N_ARG && !n->u.sym[0] && n->kid[0]->kind == N_SPREAD;
    return is ? n->kid[0]->kid[0]->u.sym : NULL;
}

static bool match_inputs(Match *m, Node *const *arg, int narg, GraphNode *n, bool swapped)
{
    int at = 0;
    for (int i = 0; i < narg; i++) {
        Sym all = all_attributes(arg[i]);
        if (all) {
            Binding *b = bind(m, all);
            if (!b) return false;
            b->attrs = &n->attrs;
            continue;
        }
        if (arg[i]->kind == N_ARG) {
            if (!match_attr(m, arg[i], n)) return false;
            continue;
        }
        int k = swapped ? 1 - at : at;
        GraphValue *v = k < n->ninput ? n->input[k] : NULL;
        Sym maybe = optional_name(arg[i]);
        at++;
        if (maybe ? !bind_value(m, maybe, v) : !v || !match(m, arg[i], v)) return false;
    }
    for (; at < n->ninput; at++)
        if (n->input[at]) return false;
    return true;
}

static bool match_node(Match *m, Node *pattern, Sym op, bool commutes, GraphNode *n)
{
    if (n->op->decl->u.sym != op) return false;
    VEC_PUSH(m->scratch, &m->nodes, n);
    bool call = pattern->kind == N_CALL;
    Node *const *arg = call ? REST(pattern) : pattern->kid;
    int narg = call ? NREST(pattern) : (int)pattern->nkid, saved = m->nbinding, nnodes = m->nodes.n;
    if (match_inputs(m, arg, narg, n, false)) return true;
    if (!commutes) return false;
    m->nbinding = saved;
    m->nodes.n = nnodes;
    return match_inputs(m, arg, narg, n, true);
}

static bool match(Match *m, Node *pattern, GraphValue *v)
{
    double want, have;
    if (node_literal(pattern, &want)) return scalar_constant(v, &have) && near(want, have);
    if (pattern->kind == N_NAME) return bind_value(m, pattern->u.sym, v);
    bool commutes;
    Sym op = node_op(m->g->library, pattern, &commutes);
    return op && v->producer && v->output == 0 && match_node(m, pattern, op, commutes, v->producer);
}

// What is removed has no reader outside the match.
static bool closed(const Match *m)
{
    for (int i = 1; i < m->nodes.n; i++) {
        for (int k = 0; k < m->nodes.at[i]->noutput; k++) {
            const GraphValue *v = m->nodes.at[i]->output[k];
            if (!v) continue;
            if (v->is_output) return false;
            for (int r = 0; r < v->readers.n; r++) {
                bool inside = false;
                for (int j = 0; j < m->nodes.n; j++)
                    inside = inside || m->nodes.at[j] == v->readers.at[r];
                if (!inside) return false;
            }
        }
    }
    return true;
}

// ---- conditions

static bool all_args(Match *m, const Node *call, bool (*test)(const GraphValue *))
{
    for (uint32_t i = 1; i < call->nkid; i++) {
        Binding *b = call->kid[i]->kind == N_NAME ? find(m, call->kid[i]->u.sym) : NULL;
        if (!b || (b->value && !test(b->value))) return false;
    }
    return true;
}

static bool is_constant(const GraphValue *v)
{
    return v->data != NULL;
}

static bool is_scalar(const GraphValue *v)
{
    return graph_value_static(v) && graph_value_nelem(v) == 1;
}

// Names stand for their values: constants of one element as numbers, other tensors by shape.
static Value binding_value(Instance *in, const Binding *b)
{
    double x;
    if (b->attr) return *b->attr;
    if (!b->value) return value_none();
    if (scalar_constant(b->value, &x))
        return dtype_is_float(b->value->type) ? value_float(x) : value_int((int64_t)x);
    Value v = {.kind = V_TENSOR};
    v.u.tensor = value_leaf(in, b->value, b->name);
    return v;
}

static bool evaluate(Match *m, Node *n, Value *out)
{
    Diag quiet;
    diag_init(&quiet, m->scratch, m->g->library->sources);
    Instance *in = instance_new(m->scratch, m->g->library, m->target, &quiet);
    Sym names[MAX_BINDING];
    Value values[MAX_BINDING];
    for (int i = 0; i < m->nbinding; i++) {
        names[i] = m->binding[i].name;
        values[i] = binding_value(in, &m->binding[i]);
    }
    return instance_evaluate(in, n, m->nbinding, names, values, out);
}

static bool holds(Match *m, Node *cond)
{
    if (!cond) return true;
    if (cond->kind == N_LAND) return holds(m, cond->kid[0]) && holds(m, cond->kid[1]);
    if (cond->kind == N_CALL && cond->kid[0]->kind == N_NAME) {
        if (!strcmp(cond->kid[0]->u.sym, "const")) return all_args(m, cond, is_constant);
        if (!strcmp(cond->kid[0]->u.sym, "scalar")) return all_args(m, cond, is_scalar);
    }
    Value v;
    return evaluate(m, cond, &v) && v.kind == V_BOOL && v.u.i;
}

// ---- building the result

static GraphValue *number(const Match *m, double x, DType type)
{
    void *data = arena_alloc(m->g->arena, 16);
    dtype_store_f64(type, data, x);
    return graph_constant(m->g, "number", type, 0, NULL, data);
}

// A node of op `name` in front of the matched root. NULL with a diagnostic if its inputs do not
// fit.
static GraphValue *new_node(Match *m, Loc loc, Sym name, int ninput, GraphValue **input,
                            const Map *attrs)
{
    const Node *decl = map_get(&m->g->library->ops, name);
    Instance *in = instance_new(m->scratch, m->g->library, m->target, m->diag);
    GraphNode probe = {.op = op_info(m->g->ops, decl), .ninput = ninput};
    Tensor *tensor[16] = {0};
    Value args[16];
    int nparam = NREST(KID((Node *)decl, OP, params));
    GraphValue *full[16] = {0};
    if (ninput > 16 || nparam > 16) return NULL;
    for (int i = 0; i < ninput; i++) full[i] = input[i];
    probe.ninput = ninput > nparam ? ninput : nparam;
    for (int i = 0; i < probe.ninput; i++)
        if (full[i]) tensor[i] = value_leaf(in, full[i], full[i]->name);
    int narg = node_args(m->scratch, &probe, tensor, args);
    OpInst *inst = op_apply(in, loc, decl, narg, args, attrs);
    if (!inst) return NULL;
    const Tensor *t = inst->results[0];
    GraphNode *root = m->nodes.at[0];
    GraphValue *out = graph_value(m->g, root->output[0]->name, t->type, t->rank, t->dims);
    GraphNode *n =
        graph_node(m->g, root->name, root->origin, (OpBindings){0}, probe.ninput, full, 1, &out);
    n->op = probe.op;
    n->attrs = *attrs;
    GraphNode **at = m->g->nodes.at; // from the end to where the root stands
    memmove(at + m->at + 1, at + m->at, (size_t)(m->g->nodes.n - 1 - m->at) * sizeof *at);
    at[m->at++] = n;
    for (int i = 0; i < m->g->nodes.n; i++) at[i]->id = i;
    m->nnew++;
    return out;
}

static GraphValue *build(Match *m, Node *n, DType number_type);

static bool build_attr(Match *m, const Node *arg, Map *attrs)
{
    Value *v = NEW(m->g->arena, Value);
    if (!evaluate(m, arg->kid[0], v)) return false;
    *v = size_value(m->g->arena, *v);
    map_put(m->g->arena, attrs, arg->u.sym, v);
    return true;
}

static GraphValue *build_op(Match *m, Node *n, Sym op)
{
    bool call = n->kind == N_CALL;
    Node *const *arg = call ? REST(n) : n->kid;
    int narg = call ? NREST(n) : (int)n->nkid, ninput = 0;
    GraphValue *input[16] = {0};
    Node *numbers[16] = {0};
    Map attrs = {0};
    DType type = DT_NONE;
    for (int i = 0; i < narg; i++) {
        double x;
        Sym all = all_attributes(arg[i]);
        if (arg[i]->kind == N_ARG && !all) {
            if (!build_attr(m, arg[i], &attrs)) return NULL;
            continue;
        }
        if (all) {
            Binding *b = find(m, all);
            if (!b || !b->attrs) return NULL;
            for (int k = 0; k < b->attrs->n; k++)
                map_put(m->g->arena, &attrs, b->attrs->entry[k].key, b->attrs->entry[k].value);
            continue;
        }
        if (ninput == 16) return NULL;
        Sym maybe = optional_name(arg[i]);
        Binding *b = maybe ? find(m, maybe) : NULL;
        if (node_literal(arg[i], &x)) numbers[ninput] = arg[i];
        else if (maybe) input[ninput] = b ? b->value : NULL;
        else if (!(input[ninput] = build(m, arg[i], DT_NONE))) return NULL;
        if (input[ninput] && type == DT_NONE) type = input[ninput]->type;
        ninput++;
    }
    for (int i = 0; i < ninput; i++) { // a number takes the type of what stands beside it
        double x;
        if (numbers[i] && node_literal(numbers[i], &x))
            input[i] = number(m, x, type == DT_NONE ? m->type : type);
    }
    return new_node(m, n->loc, op, ninput, input, &attrs);
}

static GraphValue *build(Match *m, Node *n, DType number_type)
{
    double x;
    bool commutes;
    Binding *b = n->kind == N_NAME ? find(m, n->u.sym) : NULL;
    if (b && b->value) return b->value;
    if (n->kind == N_ELSE) { // an optional that may be absent, and what stands for it then
        Node *name = n->kid[0];
        Binding *o = name->kind == N_NAME ? find(m, name->u.sym) : NULL;
        return o && o->value ? o->value : build(m, n->kid[1], number_type);
    }
    if (node_literal(n, &x)) return number(m, x, number_type == DT_NONE ? m->type : number_type);
    Sym op = node_op(m->g->library, n, &commutes);
    if (op) return build_op(m, n, op);
    Value v; // an attribute used as a number
    if (evaluate(m, n, &v) && (v.kind == V_INT || v.kind == V_FLOAT))
        return number(m, v.kind == V_INT ? (double)v.u.i : v.u.f, m->type);
    diag_error(m->diag, n->loc, "a rule's result is made of its names, numbers and ops");
    return NULL;
}

static bool same_kind(const GraphValue *a, const GraphValue *b)
{
    if (a->type != b->type || a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (!value_equal(&a->dims[i], &b->dims[i])) return false;
    return true;
}

// Readers of `old` read `now` from here on.
static void replace(Match *m, GraphValue *old, GraphValue *now)
{
    Graph *g = m->g;
    for (int i = 0; i < old->readers.n; i++) {
        GraphNode *r = old->readers.at[i];
        for (int k = 0; k < r->ninput; k++)
            if (r->input[k] == old) r->input[k] = now;
        VEC_PUSH(g->arena, &now->readers, r);
    }
    old->readers.n = 0;
    for (int i = 0; i < g->outputs.n; i++)
        if (g->outputs.at[i] == old)
            g->outputs.at[i] = now, now->is_output = true, now->name = old->name;
    old->is_output = false;
}

static bool fail(Match *m)
{
    diag_note(m->diag, m->rule->loc, "in rule '%s', applied at node '%s'", m->rule->u.sym,
              m->nodes.at[0]->name);
    return false;
}

static bool rewrite(Match *m)
{
    Node *lets = KID((Node *)m->rule, RULE, lets), *result = KID((Node *)m->rule, RULE, result);
    GraphValue *old = m->nodes.at[0]->output[0];
    m->type = old->type;
    for (int i = 0; lets && i < NREST(lets); i++) {
        Node *let = REST(lets)[i], *name = KID(let, LET, pattern);
        GraphValue *v = build(m, KID(let, LET, value), DT_NONE);
        if (!v || name->kind != N_NAME || !bind_value(m, name->u.sym, v)) return fail(m);
    }
    GraphValue *now = build(m, result, DT_NONE);
    if (!now) return fail(m);
    if (!same_kind(old, now)) {
        diag_error(m->diag, result->loc,
                   "the result has another type or shape than what it replaces");
        return fail(m);
    }
    replace(m, old, now);
    return true;
}

// Tries one rule at one node. *fired: whether it applied.
static bool try_rule(Match *m, GraphNode *n, int at, bool *fired)
{
    Node *rule = (Node *)m->rule, *pattern = KID(rule, RULE, pattern);
    bool commutes;
    Sym op = node_op(m->g->library, pattern, &commutes);
    *fired = false;
    if (!op || !n->output[0]) return true;
    m->nbinding = 0;
    m->nodes.n = 0;
    m->at = at;
    if (!match_node(m, pattern, op, commutes, n) || !closed(m) || !holds(m, KID(rule, RULE, when)))
        return true;
    *fired = true;
    return rewrite(m);
}

// A node of constants gives constants; nothing needs it any more.
static void fold_node(Match *m, GraphNode *n, int64_t limit)
{
    if (node_known(n) && node_fold_constant(m->g, n, m->target, limit))
        for (int i = 0; i < n->noutput; i++)
            if (n->output[i]) n->output[i]->producer = NULL;
}

bool graph_rewrite(Graph *g, const Target *t, int64_t fold_limit, Diag *d)
{
    Arena scratch = {.nomem = g->arena->nomem};
    Match m = {.g = g, .target = t, .diag = d, .scratch = &scratch};
    bool ok = true, changed = true;
    int count = 0;
    while (ok && changed) {
        changed = false;
        for (int i = 0; ok && i < g->nodes.n; i++) {
            for (int r = 0; ok && r < g->library->rules.n; r++) {
                bool fired;
                m.rule = g->library->rules.at[r];
                ok = try_rule(&m, g->nodes.at[i], i, &fired);
                if (!ok || !fired) continue;
                if (++count > MAX_REWRITE) {
                    diag_error(d, m.rule->loc,
                               "rules do not come to an end: %d rewrites, the last by '%s'",
                               MAX_REWRITE, m.rule->u.sym);
                    ok = false;
                }
                for (int k = i; ok && k < m.at; k++) fold_node(&m, g->nodes.at[k], fold_limit);
                graph_remove_dead(g, &scratch);
                changed = true;
                i = -1;
                break;
            }
        }
    }
    arena_free(&scratch);
    return ok;
}
