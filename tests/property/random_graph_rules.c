// SPDX-License-Identifier: Apache-2.0
// The left sides of the library's rules as graphs: names of a pattern become operands, names of
// attributes random values, and conditions that are simple are met more often than not.
#include "random_graph_make.h"

#include "graph/rules.h"

#include <string.h>

typedef struct Pattern {
    Maker *m;
    const Node *when;
    Map values;     // Sym -> index + 1 of a value
    Map attributes; // Sym -> Value *
} Pattern;

static int expression(Pattern *p, Node *n);

// The condition part `name == expr`, or the call `function(.., name, ..)`.
static const Node *condition(const Node *n, const char *function, Sym name)
{
    if (!n) return NULL;
    if (!function && n->kind == N_EQ && n->kid[0]->kind == N_NAME && n->kid[0]->u.sym == name)
        return n->kid[1];
    if (function && n->kind == N_CALL && n->kid[0]->kind == N_NAME &&
        !strcmp(n->kid[0]->u.sym, function))
        for (uint32_t i = 1; i < n->nkid; i++)
            if (n->kid[i]->kind == N_NAME && n->kid[i]->u.sym == name) return n;
    for (uint32_t i = 0; i < n->nkid; i++) {
        const Node *found = n->kid[i] ? condition(n->kid[i], function, name) : NULL;
        if (found) return found;
    }
    return NULL;
}

static int number(Pattern *p, double x, DType type)
{
    RgValue v = {
        .node = -1, .type = type, .constant = true, .literal = true, .number = x, .name = "number"};
    return maker_value(p->m->g, v);
}

// The value of an operand that is a name seen for the first time.
static int fresh_name(Pattern *p, const Node *param, Sym name, bool first)
{
    int at;
    if (!first && condition(p->when, "scalar", name) && rg_chance(&p->m->random, 80))
        at = number(p, 0.25, p->m->first == DT_NONE ? p->m->main : p->m->first);
    else if (!maker_operand(p->m, param, first, &at)) return -1;
    map_put(p->m->g->arena, &p->values, name, (void *)(intptr_t)(at + 1));
    return at;
}

static int operand(Pattern *p, const Node *param, Node *arg, bool first)
{
    Maker *m = p->m;
    if (arg->kind == N_NAME && !map_has(&p->values, arg->u.sym))
        return fresh_name(p, param, arg->u.sym, first);
    Maker outer = *m;
    int at = arg->kind == N_NAME ? (int)(intptr_t)map_get(&p->values, arg->u.sym) - 1
                                 : expression(p, arg);
    RgRandom random = m->random;
    *m = outer;
    m->random = random;
    if (at < 0 || !maker_bind(m, param, &m->g->values.at[at])) return -1;
    return at;
}

static bool attribute(Pattern *p, RgContext *c, const Node *op, const Node *arg, RgNode *n)
{
    Arena *a = p->m->g->arena;
    RgWorld *w = p->m->g->world;
    Node *decls = KID((Node *)op, OP, attrs), *value = KID((Node *)arg, ARG, value);
    Diag quiet;
    diag_init(&quiet, a, &w->sources);
    Value *v = NEW(a, Value);
    if (value->kind != N_NAME || map_has(&w->library.ops, value->u.sym)) {
        *v = evaluate_expression(a, &w->library, &w->host, value, &quiet);
        map_put(a, &n->attrs, arg->u.sym, v);
        return v->kind != V_NONE;
    }
    Value *bound = map_get(&p->attributes, value->u.sym);
    const Node *wanted = condition(p->when, NULL, value->u.sym);
    if (!bound && wanted && rg_chance(&p->m->random, 80)) {
        *v = evaluate_expression(a, &w->library, &w->host, wanted, &quiet);
        if (v->kind != V_NONE) bound = v;
    }
    if (bound) map_put(a, &n->attrs, arg->u.sym, bound);
    for (int i = 0; !bound && i < NREST(decls); i++)
        if (REST(decls)[i]->u.sym == arg->u.sym && !rg_attribute(c, REST(decls)[i], &n->attrs))
            return false;
    map_put(a, &p->attributes, value->u.sym, map_get(&n->attrs, arg->u.sym));
    return true;
}

// All attributes that are not named, for `...a`.
static void other_attributes(RgContext *c, const Node *op, RgNode *n)
{
    Node *decls = KID((Node *)op, OP, attrs);
    for (int i = 0; i < NREST(decls); i++) {
        const Node *d = REST(decls)[i];
        if (!map_has(&n->attrs, d->u.sym) &&
            (!d->kid[KID_PARAM_default] || rg_chance(c->random, 50)))
            rg_attribute(c, d, &n->attrs);
    }
}

static bool is_attribute(const Node *arg)
{
    return arg->kind == N_ARG;
}

static bool operands(Pattern *p, const Node *op, Node *const *arg, int narg, RgNode *n)
{
    Node *params = KID((Node *)op, OP, params);
    double x[RG_MAX_INPUT];
    bool literal[RG_MAX_INPUT] = {false};
    for (int i = 0; i < narg; i++) {
        if (is_attribute(arg[i])) continue;
        if (n->ninput >= NREST(params)) return false;
        const Node *param = REST(params)[n->ninput];
        Node *e = arg[i], named = {0};
        int at = -1;
        if (e->kind == N_PARAM) { // b?
            named = (Node){.kind = N_NAME, .u.sym = e->u.sym};
            if (rg_chance(&p->m->random, 60))
                at = fresh_name(p, param, named.u.sym, n->ninput == 0);
        } else if (node_literal(e, &x[n->ninput])) {
            literal[n->ninput] = true;
        } else {
            at = operand(p, param, e, n->ninput == 0);
            if (at < 0) return false;
        }
        if (at >= 0 && p->m->first == DT_NONE) p->m->first = p->m->g->values.at[at].type;
        if (at >= 0 && p->m->first_value < 0) p->m->first_value = at;
        n->input[n->ninput++] = at;
    }
    for (int i = 0; i < n->ninput; i++)
        if (literal[i]) n->input[i] = number(p, x[i], p->m->first);
    while (n->ninput && n->input[n->ninput - 1] < 0) n->ninput--;
    return p->m->first != DT_NONE;
}

static int expression(Pattern *p, Node *pattern)
{
    RandomGraph *g = p->m->g;
    Sym name = node_op(&g->world->library, pattern);
    const Node *op = name ? map_get(&g->world->library.ops, name) : NULL;
    if (!op) return -1;
    bool is_call = pattern->kind == N_CALL;
    Node *const *arg = is_call ? REST(pattern) : pattern->kid;
    int narg = is_call ? NREST(pattern) : (int)pattern->nkid;
    RgNode n = {.op = op, .noutput = 1};
    maker_begin(p->m, op);
    if (!operands(p, op, arg, narg, &n)) return -1;
    RgContext c = {.g = g, .random = &p->m->random, .op = op, .node = &n, .list = 1, .parts = 2};
    bool rest = false;
    for (int i = 0; i < narg; i++) {
        if (!is_attribute(arg[i])) continue;
        if (!arg[i]->u.sym[0]) rest = true;
        else if (!attribute(p, &c, op, arg[i], &n)) return -1;
    }
    if (rest) other_attributes(&c, op, &n);
    return maker_add(p->m, &n) ? n.output[0] : -1;
}

bool maker_rule(Maker *m, const Node *rule)
{
    RandomGraph *g = m->g;
    Pattern p = {.m = m, .when = KID((Node *)rule, RULE, when)};
    int values = g->values.n, nodes = g->nodes.n, outputs = g->outputs.n;
    Node *const *root;
    bool ok = true;
    for (int i = 0, n = rule_roots(rule, &root); ok && i < n; i++) {
        int at = expression(&p, root[i]);
        ok = at >= 0;
        if (ok) VEC_PUSH(g->arena, &g->outputs, at);
    }
    if (ok) return true;
    g->outputs.n = outputs;
    g->values.n = values;
    g->nodes.n = nodes;
    return false;
}
