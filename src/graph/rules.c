// SPDX-License-Identifier: Apache-2.0
// Rewriting by the library's rules: where a pattern matches and its condition holds, the nodes it
// removes are replaced by the result's. Rules are tried in the order of their texts, each
// everywhere, again and again until none applies; before each round what is computed twice is
// computed once.
#include "graph/rules.h"
#include "graph/specialise.h"

enum { MIN_REWRITE = 10000, REWRITES_A_NODE = 8 }; // before rules count as without end

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

// What the graph gives keeps its name, so inputs, constants and other outputs cannot become it.
static bool names_clash(const Match *m, GraphValue *const *now)
{
    for (int i = 0; i < m->nroot; i++) {
        bool own = now[i]->producer && !now[i]->is_output;
        for (int k = 0; k < i; k++) own = own && now[k] != now[i];
        if (m->value[i]->is_output && !own) return true;
    }
    return false;
}

// A template serves the node, or will in the type that f32 becomes.
static bool is_served_node(const Match *m, const GraphNode *n)
{
    GraphNode probe = *n;
    if (m->how->narrow == DT_NONE) return node_has_template(m->g, &probe, m->how->device);
    probe.input = NEW_ARRAY(m->scratch, GraphValue *, n->ninput);
    probe.output = NEW_ARRAY(m->scratch, GraphValue *, n->noutput);
    for (int i = 0; i < n->ninput + n->noutput; i++) {
        GraphValue *v = i < n->ninput ? n->input[i] : n->output[i - n->ninput];
        GraphValue **to = i < n->ninput ? &probe.input[i] : &probe.output[i - n->ninput];
        if (!v) continue;
        *to = arena_copy(m->scratch, v, sizeof *v);
        if (v->type == DT_F32) (*to)->type = m->how->narrow;
    }
    return node_has_template(m->g, &probe, m->how->device);
}

// Whether the target has templates for what the rule wants it for, among nodes first .. at - 1.
static bool is_served(const Match *m, int first)
{
    for (int i = first; i < m->at; i++) {
        GraphNode *n = m->g->nodes.at[i];
        if (n->op->decl == m->native && !is_served_node(m, n)) return false;
    }
    return true;
}

// A node of constants gives constants; nothing needs it any more.
static void fold_node(Match *m, GraphNode *n)
{
    if (node_known(n) && node_fold_constant(m->g, n, m->how->host, m->how->fold_limit))
        for (int i = 0; i < n->noutput; i++)
            if (n->output[i]) n->output[i]->producer = NULL;
}

// Tries one rule at one node. *fired: whether it applied. New nodes stand before it, up to m->at.
static bool try_rule(Match *m, GraphNode *n, bool *fired)
{
    GraphValue *now[RULE_MAX_ROOT];
    m->at = n->id;
    m->native = NULL;
    *fired = false;
    if (!rule_match(m, n)) return true;
    int first = m->at;
    bool built = match_build(m, now);
    if (built && !names_clash(m, now) && (!m->native || is_served(m, first))) {
        for (int i = 0; i < m->nroot; i++) replace(m, m->value[i], now[i]);
        for (int i = first; i < m->at; i++) fold_node(m, m->g->nodes.at[i]);
        *fired = true;
    } else if (m->diag->nerror) {
        diag_note(m->diag, m->rule->loc, "in rule '%s', applied at node '%s'", m->rule->u.sym,
                  n->name);
        return false;
    }
    graph_remove_dead(m->g, m->scratch);
    return true;
}

// One rule at all nodes of its op. Where it applied, what it made is tried too.
static bool apply_everywhere(Match *m, int *count)
{
    Node *const *pattern;
    int k;
    rule_roots(m->rule, &pattern);
    Sym op = node_op(m->g->library, pattern_node(pattern[0], &k));
    for (int i = 0; op && i < m->g->nodes.n; i++) {
        GraphNode *n = m->g->nodes.at[i];
        bool fired;
        int first = n->id;
        if (n->op->decl->u.sym != op) continue;
        if (!try_rule(m, n, &fired)) return false;
        i = fired ? (int)max_i64(first - m->nodes.n, 0) - 1 : n->id;
        *count += fired;
        if (*count > m->most) {
            diag_error(m->diag, m->rule->loc,
                       "rules do not come to an end: %d rewrites, the last by '%s'", m->most,
                       m->rule->u.sym);
            return false;
        }
    }
    return true;
}

// ---- the same computed twice

static bool computes_same(const GraphNode *a, const GraphNode *b)
{
    if (a->op != b->op || a->ninput != b->ninput || a->noutput != 1 || b->noutput != 1)
        return false;
    if (a->op->class == OPCLASS_SERIAL || !a->output[0] || !b->output[0]) return false;
    if (b->output[0]->is_output || !specialised_alike(a->output[0], b->output[0])) return false;
    for (int i = 0; i < a->ninput; i++)
        if (a->input[i] != b->input[i]) return false;
    return attrs_equal(&a->attrs, &b->attrs);
}

// Nodes of one op with the same operands and attributes become one.
static void merge_equal(Match *m)
{
    Graph *g = m->g;
    for (int i = 0; i < g->nodes.n; i++) {
        GraphNode *a = g->nodes.at[i];
        GraphValue *x = a->ninput ? a->input[0] : NULL;
        for (int r = 0; x && r < x->readers.n; r++) {
            GraphNode *b = x->readers.at[r];
            if (b->id > a->id && computes_same(a, b)) replace(m, b->output[0], a->output[0]);
        }
    }
    graph_remove_dead(g, m->scratch);
}

bool graph_rewrite(Graph *g, const Rewriting *how, Diag *d)
{
    Arena scratch = {.nomem = g->arena->nomem};
    Match m = {.g = g, .how = how, .diag = d, .scratch = &scratch};
    m.most = (int)max_i64(MIN_REWRITE, (int64_t)REWRITES_A_NODE * g->nodes.n);
    bool ok = true;
    int count = 0, before;
    while (g->fired.n < g->library->rules.n) VEC_PUSH(g->arena, &g->fired, 0);
    do {
        before = count;
        merge_equal(&m);
        for (int r = 0; ok && r < g->library->rules.n; r++) {
            m.rule = g->library->rules.at[r];
            m.nodes = (GraphNodes){0};
            int earlier = count;
            ok = apply_everywhere(&m, &count);
            g->fired.at[r] += count - earlier;
            arena_free(&scratch);
        }
    } while (ok && count > before);
    arena_free(&scratch);
    return ok;
}
