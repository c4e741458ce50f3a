// SPDX-License-Identifier: Apache-2.0
// Patterns of rules against a graph. A name stands for any value (the same one wherever it is
// written), a number for a constant that equals it, an operator or call for a node of that op.
// Where a match may be found in several ways, as for the operands of a sum, one is chosen; if it
// fails, matching starts again and chooses the next.
#include "graph/rules.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FACTOR = 6, MAX_TRIES = 4096 };

// Operators of the language as ops, and what is known of those ops.
static const struct {
    NodeKind kind; // NODE_KINDS: there is no operator
    const char *op;
    bool commutes, associates;
} operators[] = {
    // kind      op          commutes associates
    {N_ADD, "add", true, true},      {N_MUL, "mul", true, true},
    {N_SUB, "sub", false, false},    {N_DIV, "div", false, false},
    {N_POW, "pow", false, false},    {N_NEG, "neg", false, false},
    {N_CALL, "maximum", true, true}, {N_CALL, "minimum", true, true},
    {N_CALL, "equal", true, false},  {N_CALL, "and", true, true},
    {N_CALL, "or", true, true},
};

static const char *row_of(const Node *n, bool *commutes, bool *associates)
{
    bool call = n->kind == N_CALL && n->kid[0]->kind == N_NAME;
    const char *name = call ? n->kid[0]->u.sym : NULL;
    *commutes = *associates = false;
    for (size_t i = 0; i < COUNT(operators); i++) {
        if (call ? strcmp(operators[i].op, name) != 0 : operators[i].kind != n->kind) continue;
        *commutes = operators[i].commutes;
        *associates = operators[i].associates;
        return operators[i].op;
    }
    return name;
}

Sym node_op(const Library *l, const Node *n)
{
    bool commutes, associates;
    const char *name = row_of(n, &commutes, &associates);
    Sym sym = name ? intern(l->names, name) : NULL;
    return sym && map_has(&l->ops, sym) ? sym : NULL;
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

int rule_roots(const Node *rule, Node *const **out)
{
    Node *pattern = rule->kid[KID_RULE_pattern];
    if (pattern->kind != N_TUPLE) {
        *out = &rule->kid[KID_RULE_pattern];
        return 1;
    }
    *out = REST(pattern);
    return NREST(pattern);
}

Node *pattern_node(Node *pattern, int *k)
{
    char *end;
    *k = 0;
    if (pattern->kind != N_FIELD) return pattern;
    *k = (int)strtol(pattern->u.sym, &end, 10);
    return *end ? pattern : KID(pattern, FIELD, base);
}

Sym pattern_optional(const Node *n)
{
    return n->kind == N_PARAM && (n->sub & PARAM_OPTIONAL) ? n->u.sym : NULL;
}

Sym pattern_all_attributes(const Node *n)
{
    bool is = n->kind == N_ARG && !n->u.sym[0] && n->kid[0]->kind == N_SPREAD;
    return is ? n->kid[0]->kid[0]->u.sym : NULL;
}

// ---- names

Binding *match_find(Match *m, Sym name)
{
    for (int i = 0; i < m->nbinding; i++)
        if (m->binding[i].name == name) return &m->binding[i];
    return NULL;
}

static Binding *bind(Match *m, Sym name)
{
    if (m->nbinding == RULE_MAX_BINDING) return NULL;
    m->binding[m->nbinding] = (Binding){.name = name};
    return &m->binding[m->nbinding++];
}

bool match_bind_value(Match *m, Sym name, GraphValue *v)
{
    Binding *b = match_find(m, name);
    if (b) return b->value == v && !b->attr && !b->attrs;
    b = bind(m, name);
    if (b) b->value = v;
    return b != NULL;
}

// ---- choices

// One of 0 .. n-1.
static int choose(Match *m, int n)
{
    if (m->next_choice == RULE_MAX_CHOICE) return 0;
    int i = m->next_choice++;
    if (i == m->nchoice) {
        m->choice[i].at = 0;
        m->choice[i].of = n;
        m->nchoice++;
    }
    return m->choice[i].at;
}

// The next ways to go; false if all were gone.
static bool next_choices(Match *m)
{
    while (m->nchoice && m->choice[m->nchoice - 1].at + 1 == m->choice[m->nchoice - 1].of)
        m->nchoice--;
    if (m->nchoice) m->choice[m->nchoice - 1].at++;
    return m->nchoice > 0;
}

// ---- constants and attributes

bool match_constant(const GraphValue *v, double *out)
{
    if (!v || !v->data || graph_value_nelem(v) != 1) return false;
    *out = dtype_load_f64(v->type, v->data);
    return true;
}

// Constants in models are rounded to their type, and often written with few digits.
static bool near(double a, double b)
{
    return a == b || fabs(a - b) <= 1e-6 * fmax(fabs(a), fabs(b));
}

// A number gives the result of its reader n no further axes.
static bool match_number(double want, const GraphValue *v, const GraphNode *n)
{
    double have;
    if (!match_constant(v, &have) || !near(want, have)) return false;
    bool within = v->rank == 0;
    for (int i = 0; i < n->ninput; i++)
        within = within || (n->input[i] && n->input[i] != v && n->input[i]->rank >= v->rank);
    return within;
}

// An attribute that the model leaves out: its default.
static const Value *default_of(Match *m, Sym name, const GraphNode *n)
{
    Diag quiet;
    diag_init(&quiet, m->scratch, m->g->library->sources);
    Instance *in = instance_new(m->scratch, m->g->library, m->how->host, &quiet);
    Tensor **tensor = NEW_ARRAY(m->scratch, Tensor *, n->ninput);
    Value *args = NEW_ARRAY(m->scratch, Value, n->ninput + 1);
    for (int i = 0; i < n->ninput; i++)
        if (n->input[i]) tensor[i] = value_leaf(in, n->input[i], n->input[i]->name);
    int narg = node_args(m->scratch, n, tensor, args);
    const OpInst *op = op_apply(in, 0, n->op->decl, narg, args, &n->attrs);
    return op ? op_attribute(op, name) : NULL;
}

static bool match_attr(Match *m, const Node *arg, const GraphNode *n)
{
    const Node *want = arg->kid[0];
    const Value *have = map_get(&n->attrs, arg->u.sym);
    if (!have) have = default_of(m, arg->u.sym, n);
    if (!have) return false;
    if (want->kind == N_NAME) {
        Binding *b = match_find(m, want->u.sym);
        if (b) return b->attr && value_equal(b->attr, have);
        b = bind(m, want->u.sym);
        if (b) b->attr = have;
        return b != NULL;
    }
    double x;
    if (node_literal(want, &x)) {
        if (have->kind == V_FLOAT) return near(x, have->u.f);
        return (have->kind == V_INT || have->kind == V_BOOL) && near(x, (double)have->u.i);
    }
    return want->kind == N_STRING && have->kind == V_STR && !strcmp(want->u.sym, have->u.str);
}

// ---- nodes

static bool match(Match *m, Node *pattern, GraphValue *v, const GraphNode *reader);

static bool match_inputs(Match *m, Node *const *arg, int narg, GraphNode *n, bool swapped)
{
    int at = 0;
    for (int i = 0; i < narg; i++) {
        Sym all = pattern_all_attributes(arg[i]);
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
        Sym maybe = pattern_optional(arg[i]);
        at++;
        if (maybe ? !match_bind_value(m, maybe, v) : !v || !match(m, arg[i], v, n)) return false;
    }
    for (; at < n->ninput; at++)
        if (n->input[at]) return false;
    return true;
}

static bool match_chain(Match *m, Sym op, Node **factor, int n, GraphNode *at);

static bool match_part(Match *m, Sym op, Node **factor, int n, GraphValue *v,
                       const GraphNode *reader)
{
    if (!v) return false;
    if (n == 1) return match(m, factor[0], v, reader);
    GraphNode *p = v->output == 0 ? v->producer : NULL;
    return p && p->op->decl->u.sym == op && match_chain(m, op, factor, n, p);
}

// A sum or product of n terms, in whatever order and by whichever pairs the graph computes it.
static bool match_chain(Match *m, Sym op, Node **factor, int n, GraphNode *at)
{
    Node *part[2][MAX_FACTOR];
    int count[2] = {0};
    VEC_PUSH(m->scratch, &m->nodes, at);
    int left = choose(m, (1 << n) - 2) + 1; // which of them are at the left
    for (int i = 0; i < n; i++) {
        int side = left >> i & 1 ? 0 : 1;
        part[side][count[side]++] = factor[i];
    }
    return match_part(m, op, part[0], count[0], at->input[0], at) &&
           match_part(m, op, part[1], count[1], at->input[1], at);
}

// The terms of a pattern that is a sum, a product and so on; 0: too many.
static int flatten(const Library *l, Sym op, Node *n, Node **out, int have)
{
    Node *const *arg = n->kind == N_CALL ? REST(n) : n->kid;
    for (int i = 0; i < 2; i++) {
        if (node_op(l, arg[i]) == op) have = flatten(l, op, arg[i], out, have);
        else if (have == MAX_FACTOR) return 0;
        else out[have++] = arg[i];
        if (!have) return 0;
    }
    return have;
}

static bool match_node(Match *m, Node *pattern, Sym op, GraphNode *n)
{
    bool commutes, associates, call = pattern->kind == N_CALL;
    if (n->op->decl->u.sym != op) return false;
    row_of(pattern, &commutes, &associates);
    Node *factor[MAX_FACTOR];
    int count = associates && n->ninput == 2 ? flatten(m->g->library, op, pattern, factor, 0) : 0;
    if (count) return match_chain(m, op, factor, count, n);
    VEC_PUSH(m->scratch, &m->nodes, n);
    Node *const *arg = call ? REST(pattern) : pattern->kid;
    int narg = call ? NREST(pattern) : (int)pattern->nkid;
    return match_inputs(m, arg, narg, n, commutes && choose(m, 2) == 1);
}

static bool match(Match *m, Node *pattern, GraphValue *v, const GraphNode *reader)
{
    double want;
    if (node_literal(pattern, &want)) return match_number(want, v, reader);
    if (pattern->kind == N_NAME) return match_bind_value(m, pattern->u.sym, v);
    int k;
    pattern = pattern_node(pattern, &k);
    if (!v->producer || v->output != k) return false;
    Sym op = node_op(m->g->library, pattern);
    return op && match_node(m, pattern, op, v->producer);
}

// ---- rules

static bool among(const GraphNodes *list, const GraphNode *n)
{
    for (int i = 0; i < list->n; i++)
        if (list->at[i] == n) return true;
    return false;
}

// The value of n that is replaced, or NULL.
static const GraphValue *replaced(const Match *m, const GraphNode *n)
{
    for (int i = 0; i < m->nroot; i++)
        if (m->root[i] == n) return m->value[i];
    return NULL;
}

// What is removed has no reader outside the match, and roots give nothing but what is replaced,
// unless the rule says that it stays for others.
static bool closed(const Match *m)
{
    bool stays = rule_leaves(m->rule->kid[KID_RULE_when]);
    for (int i = 0; i < m->nodes.n; i++) {
        const GraphNode *n = m->nodes.at[i];
        const GraphValue *root = replaced(m, n);
        for (int k = 0; k < n->noutput && !stays; k++) {
            const GraphValue *v = n->output[k];
            if (!v || v == root) continue;
            if (root || v->is_output) return false;
            for (int r = 0; r < v->readers.n; r++)
                if (!among(&m->nodes, v->readers.at[r])) return false;
        }
    }
    return true;
}

static bool has_name(const Node *n, Sym name)
{
    if (n->kind == N_NAME && n->u.sym == name) return true;
    for (uint32_t i = 0; i < n->nkid; i++)
        if (n->kid[i] && has_name(n->kid[i], name)) return true;
    return false;
}

static bool has_op(const Library *l, const Node *n, Sym op)
{
    if (node_op(l, n) == op) return true;
    for (uint32_t i = 0; i < n->nkid; i++)
        if (n->kid[i] && has_op(l, n->kid[i], op)) return true;
    return false;
}

// A further root: after the others, and computed from a value that its pattern shares with theirs
// by ops of the pattern. Of a value that many read, no reader is looked for.
static GraphNode *further_root(Match *m, const Node *pattern, Sym op)
{
    enum { MAX_READERS = 256, MAX_FOUND = 16, MAX_STEPS = 3 };
    GraphValues from = {0};
    GraphNodes found = {0};
    for (int i = 0; i < m->nbinding; i++)
        if (m->binding[i].value && has_name(pattern, m->binding[i].name))
            VEC_PUSH(m->scratch, &from, m->binding[i].value);
    for (int step = 0; step < MAX_STEPS && from.n; step++) {
        GraphValues next = {0};
        for (int i = 0; i < from.n; i++)
            for (int r = 0; from.at[i]->readers.n <= MAX_READERS && r < from.at[i]->readers.n;
                 r++) {
                GraphNode *n = from.at[i]->readers.at[r];
                Sym own = n->op->decl->u.sym;
                bool later = n->id > m->root[m->nroot - 1]->id && n->output[0] && own == op;
                if (later && found.n < MAX_FOUND && !among(&m->nodes, n) && !among(&found, n))
                    VEC_PUSH(m->scratch, &found, n);
                if (n->output[0] && next.n < MAX_READERS && has_op(m->g->library, pattern, own))
                    VEC_PUSH(m->scratch, &next, n->output[0]);
            }
        from = next;
    }
    return found.n ? found.at[choose(m, found.n)] : NULL;
}

// What the result reads is there before the first root.
static bool all_before(const Match *m)
{
    for (int i = 0; i < m->nbinding; i++) {
        const GraphValue *v = m->binding[i].value;
        if (v && v->producer && v->producer->id >= m->root[0]->id) return false;
    }
    return true;
}

static bool attempt(Match *m, GraphNode *n)
{
    Node *const *pattern;
    int count = rule_roots(m->rule, &pattern);
    m->nbinding = m->nodes.n = m->nroot = m->next_choice = 0;
    for (int i = 0; i < count; i++) {
        int k;
        Node *p = pattern_node(pattern[i], &k);
        Sym op = node_op(m->g->library, p);
        GraphNode *root = i == 0 ? n : op ? further_root(m, p, op) : NULL;
        if (!root || !op || k >= root->noutput || !root->output[k]) return false;
        m->value[m->nroot] = root->output[k];
        m->root[m->nroot++] = root;
        if (!match_node(m, p, op, root)) return false;
    }
    return closed(m) && (count == 1 || all_before(m)) &&
           match_holds(m, m->rule->kid[KID_RULE_when]);
}

bool rule_match(Match *m, GraphNode *n)
{
    m->nchoice = 0;
    for (int i = 0; i < MAX_TRIES; i++) {
        if (attempt(m, n)) return true;
        if (!next_choices(m)) return false;
    }
    return false;
}
