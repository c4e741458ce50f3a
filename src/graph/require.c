// SPDX-License-Identifier: Apache-2.0
// What a graph takes for granted of the dimensions that it leaves open. What bounds one dimension
// becomes a fact about it, so that later sizes are simpler.
#include "graph/private.h"

#include "ir/size.h"

const GraphRequirement *graph_broken_requirement(const Graph *g)
{
    for (int i = 0; i < g->requirements.n; i++) {
        int64_t holds;
        if (!size_hint(g->requirements.at[i].cond, &holds) || !holds) return &g->requirements.at[i];
    }
    return NULL;
}

// Whether n never falls where a dimension grows; *var: the only one in it.
static bool rises(const Node *n, Var **var)
{
    const Node *x = n->nkid > 0 ? n->kid[0] : NULL, *y = n->nkid > 1 ? n->kid[1] : NULL;
    switch (n->kind) {
    case N_INT: return true;
    case N_VARREF:
        if (*var && *var != n->u.var) return false;
        *var = n->u.var;
        return true;
    case N_ADD:
    case N_MIN:
    case N_MAX: return rises(x, var) && rises(y, var);
    case N_SUB: return rises(x, var) && y->kind == N_INT;
    case N_MUL: return rises(x, var) && y->kind == N_INT && y->u.i >= 0;
    case N_DIV: return rises(x, var) && y->kind == N_INT && y->u.i > 0;
    default: return false;
    }
}

static bool holds_at(const Node *cond, Var *v, int64_t value)
{
    int64_t hint = v->hint, holds = 0;
    v->hint = value;
    bool known = size_hint(cond, &holds);
    v->hint = hint;
    return known && holds;
}

// The last value from `from`, where the condition holds, towards `to`, given that it fails from
// some value on.
static int64_t last_holding(const Node *cond, Var *v, int64_t from, int64_t to)
{
    if (holds_at(cond, v, to)) return to;
    while (from - to > 1 || to - from > 1) {
        int64_t middle = from + (to - from) / 2;
        if (holds_at(cond, v, middle)) from = middle;
        else to = middle;
    }
    return from;
}

// Of two dimensions that are equal, the later one stands for the earlier.
static bool take_equal(const Graph *g, const Node *cond)
{
    if (cond->kind != N_EQ || cond->kid[0]->kind != N_VARREF || cond->kid[1]->kind != N_VARREF)
        return false;
    Var *x = cond->kid[0]->u.var, *y = cond->kid[1]->u.var;
    for (int i = 0; i < g->dims.n; i++) {
        Var *first = g->dims.at[i].var;
        if (first == x && first != y) y->same = x;
        if (first == y && first != x) x->same = y;
        if (first == x || first == y) return true;
    }
    return true;
}

// A comparison of what rises with a constant holds in one interval.
static void take_bounds(const Graph *g, const Node *cond)
{
    Var *v = NULL;
    if (take_equal(g, cond)) return;
    bool compares = cond->kind == N_EQ || cond->kind == N_LE || cond->kind == N_LT;
    if (!compares || !rises(cond->kid[0], &v) || !rises(cond->kid[1], &v) || !v) return;
    if (cond->kid[0]->kind != N_INT && cond->kid[1]->kind != N_INT) return;
    if (!v->hinted || !holds_at(cond, v, v->hint)) return;
    v->lo = last_holding(cond, v, v->hint, v->lo);
    v->hi = last_holding(cond, v, v->hint, v->hi);
}

bool graph_require(Graph *g, const Node *cond, const char *message, const GraphNode *n, Diag *d)
{
    Value c = size_value(g->arena, (Value){.kind = V_EXPR, .u.expr = (Node *)cond});
    if (c.kind == V_BOOL && c.u.i) return true;
    if (c.kind == V_BOOL) {
        diag_error(d, 0, "%s", message);
        return false;
    }
    for (int i = 0; i < g->requirements.n; i++)
        if (node_equal(g->requirements.at[i].cond, c.u.expr)) return true;
    GraphRequirement r = {
        c.u.expr, arena_printf(g->arena, "node '%s' (%s): %s", n->name, n->origin, message)};
    VEC_PUSH(g->arena, &g->requirements, r);
    take_bounds(g, c.u.expr);
    return true;
}
