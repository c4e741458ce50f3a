// SPDX-License-Identifier: Apache-2.0
// Rewriting by the library's rules: where a pattern matches and its condition holds, the nodes it
// removes are replaced by the result's. Rules are tried in the order of their texts, each
// everywhere, again and again until none applies; before each round what is computed twice is
// computed once. While a rule is applied, Graph.nodes ends where it is tried next, so that the
// nodes it makes are put there at no cost; what follows is in Match.ahead, the next one last.
#include "graph/rules.h"
#include "graph/specialise.h"

#include <limits.h>
#include <string.h>

enum { MIN_REWRITE = 10000, REWRITES_A_NODE = 8 }; // before rules count as without end

void graph_replace(Graph *g, GraphValue *old, GraphValue *now)
{
    for (int i = 0; i < old->readers.n; i++) {
        GraphNode *r = old->readers.at[i];
        for (int k = 0; k < r->ninput; k++)
            if (r->input[k] == old) r->input[k] = now;
        VEC_PUSH(g->arena, &now->readers, r);
    }
    old->readers.n = 0;
    for (int i = 0; old->is_output && i < g->outputs.n; i++)
        if (g->outputs.at[i] == old)
            g->outputs.at[i] = now, now->is_output = true, now->name = old->name;
    old->is_output = false;
}

// ---- what is needed no more

static bool is_needed(const GraphValue *v)
{
    return v && (v->readers.n || v->is_output);
}

static void unread(GraphValue *v, const GraphNode *reader)
{
    for (int i = 0; i < v->readers.n; i++) {
        if (v->readers.at[i] != reader) continue;
        v->readers.n--;
        memmove(v->readers.at + i, v->readers.at + i + 1,
                (size_t)(v->readers.n - i) * sizeof *v->readers.at);
        return;
    }
}

// A node whose results nobody needs goes, and so does what was computed for it alone; one with
// other results only loses those.
static void drop(Match *m, GraphNode *node)
{
    GraphNodes list = {0};
    VEC_PUSH(m->scratch, &list, node);
    while (list.n) {
        GraphNode *n = VEC_POP(&list);
        bool serial = n->op->class == OPCLASS_SERIAL, gone = true;
        for (int i = 0; i < n->noutput; i++) gone = gone && !is_needed(n->output[i]);
        for (int i = 0; i < n->noutput && (gone || !serial); i++) {
            if (!n->output[i] || is_needed(n->output[i])) continue;
            n->output[i]->producer = NULL;
            n->output[i] = NULL;
        }
        if (!gone || n->id == NODE_REMOVED) continue;
        n->id = NODE_REMOVED;
        for (int i = 0; i < n->ninput; i++) {
            GraphValue *v = n->input[i];
            if (v) unread(v, n);
            if (v && v->producer && !is_needed(v)) VEC_PUSH(m->scratch, &list, v->producer);
        }
    }
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

// Whether the target has templates for what the rule wants it for, among nodes from `first` on.
static bool is_served(const Match *m, int first)
{
    for (int i = first; i < m->g->nodes.n; i++) {
        GraphNode *n = m->g->nodes.at[i];
        if (n->op->decl == m->native && !is_served_node(m, n)) return false;
    }
    return true;
}

// A node of constants gives constants; nothing needs it any more.
static void fold_node(Match *m, GraphNode *n)
{
    if (!node_known(n) || !node_fold_constant(m->g, n, m->how->host, m->how->fold_limit)) return;
    for (int i = 0; i < n->noutput; i++) {
        if (n->output[i]) n->output[i]->producer = NULL;
        n->output[i] = NULL;
    }
}

// Tries one rule at one node. *fired: whether it applied; new nodes stand before it.
static bool try_rule(Match *m, GraphNode *n, bool *fired)
{
    GraphValue *now[RULE_MAX_ROOT];
    int first = m->g->nodes.n;
    m->native = NULL;
    *fired = false;
    if (!rule_match(m, n)) return true;
    bool built = match_build(m, now);
    *fired = built && !names_clash(m, now) && (!m->native || is_served(m, first));
    for (int i = 0; *fired && i < m->nroot; i++) {
        graph_replace(m->g, m->value[i], now[i]);
        drop(m, m->root[i]);
    }
    for (int i = first; *fired && i < m->g->nodes.n; i++) fold_node(m, m->g->nodes.at[i]);
    for (int i = m->g->nodes.n - 1; i >= first; i--) drop(m, m->g->nodes.at[i]);
    if (*fired) return true;
    m->g->nodes.n = first;
    if (!m->diag->nerror) return true;
    diag_note(m->diag, m->rule->loc, "in rule '%s', applied at node '%s'", m->rule->u.sym, n->name);
    return false;
}

static void put_ahead(Match *m, GraphNode *n)
{
    if (n->id == NODE_REMOVED) return;
    n->id = INT_MAX - m->ahead.n;
    VEC_PUSH(m->order, &m->ahead, n);
}

static void go_back(Match *m, int count)
{
    while (count-- > 0 && m->g->nodes.n) put_ahead(m, VEC_POP(&m->g->nodes));
}

// One rule at all nodes of its op. Where it applied, what it made is tried too.
static bool apply_everywhere(Match *m, int *count)
{
    Node *const *pattern;
    int k;
    rule_roots(m->rule, &pattern);
    Sym op = node_op(m->g->library, pattern_node(pattern[0], &k));
    bool ok = true;
    m->ahead = (GraphNodes){0};
    if (!op) return true;
    go_back(m, m->g->nodes.n);
    while (m->ahead.n) {
        GraphNode *n = VEC_POP(&m->ahead);
        bool fired = false;
        int first = m->g->nodes.n;
        if (n->id == NODE_REMOVED) continue;
        if (ok && n->op->decl->u.sym == op) {
            ArenaMark mark = arena_mark(m->scratch);
            m->nodes = (GraphNodes){0};
            ok = try_rule(m, n, &fired);
            arena_reset(m->scratch, mark);
        }
        if (fired) {
            put_ahead(m, n);
            go_back(m, m->g->nodes.n - first + m->nodes.n);
        } else {
            n->id = m->g->nodes.n;
            VEC_PUSH(m->g->arena, &m->g->nodes, n);
        }
        *count += fired;
        if (!ok || *count <= m->most) continue;
        ok = false;
        diag_error(m->diag, m->rule->loc,
                   "rules do not come to an end: %d rewrites, the last by '%s'", m->most,
                   m->rule->u.sym);
    }
    return ok;
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

// Nodes of one op with the same operands and attributes become one. Those that may be the same are
// found by op and operands.
static void merge_equal(Match *m)
{
    Graph *g = m->g;
    Map seen = {0}; // GraphNodes
    for (int i = 0; i < g->nodes.n; i++) {
        GraphNode *n = g->nodes.at[i];
        uint64_t hash =
            hash_bytes(n->input, (size_t)n->ninput * sizeof *n->input, (uint64_t)(uintptr_t)n->op);
        const void *key = (const void *)(uintptr_t)(hash | 1);
        GraphNodes *list = map_get(&seen, key);
        if (!list) map_put(m->scratch, &seen, key, list = NEW(m->scratch, GraphNodes));
        bool same = false;
        for (int k = 0; n->ninput && !same && k < list->n; k++) {
            same = computes_same(list->at[k], n);
            if (same) graph_replace(g, n->output[0], list->at[k]->output[0]);
        }
        if (!same) VEC_PUSH(m->scratch, list, n);
    }
    graph_remove_dead(g, m->scratch);
}

bool graph_rewrite(Graph *g, const Rewriting *how, Diag *d)
{
    Arena scratch = {.nomem = g->arena->nomem}, order = scratch;
    Match m = {.g = g, .how = how, .diag = d, .scratch = &scratch, .order = &order};
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
            if (count > earlier) graph_remove_dead(g, &scratch);
            g->fired.at[r] += count - earlier;
            arena_free(&scratch);
            arena_free(&order);
        }
    } while (ok && count > before);
    arena_free(&order);
    arena_free(&scratch);
    return ok;
}
