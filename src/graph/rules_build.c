// SPDX-License-Identifier: Apache-2.0
// The right side of a rule as nodes: ops for its calls and operators, constants for its numbers and
// for attributes that stand where a tensor does.
#include "graph/rules.h"
#include "graph/specialise.h"

#include <string.h>

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
    Instance *in = instance_new(m->scratch, m->g->library, m->how->host, m->diag);
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
    GraphNode *root = m->root[0];
    GraphValue *out = graph_value(m->g, m->value[0]->name, t->type, t->rank, t->dims);
    GraphNode *n =
        graph_node(m->g, root->name, root->origin, (OpBindings){0}, probe.ninput, full, 1, &out);
    n->op = probe.op;
    n->attrs = *attrs;
    graph_note_fixed(n);
    return out;
}

static GraphValue *build(Match *m, Node *n, DType type);

static bool build_attr(Match *m, const Node *arg, Map *attrs)
{
    Value *v = NEW(m->g->arena, Value);
    if (!match_evaluate(m, arg->kid[0], v)) return false;
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
    const Node *decl = map_get(&m->g->library->ops, op);
    DType type = DT_NONE;
    for (int i = 0; i < narg; i++) {
        double x;
        Sym all = pattern_all_attributes(arg[i]);
        if (arg[i]->kind == N_ARG && !all) {
            if (!build_attr(m, arg[i], &attrs)) return NULL;
            continue;
        }
        if (all) {
            Binding *b = match_find(m, all);
            if (!b || !b->attrs) return NULL;
            for (int k = 0; k < b->attrs->n; k++)
                map_put(m->g->arena, &attrs, b->attrs->entry[k].key, b->attrs->entry[k].value);
            continue;
        }
        if (ninput == 16) return NULL;
        Sym maybe = pattern_optional(arg[i]);
        Binding *b = maybe ? match_find(m, maybe) : NULL;
        if (node_literal(arg[i], &x)) numbers[ninput] = arg[i];
        else if (maybe) input[ninput] = b ? b->value : NULL;
        else if (!(input[ninput] = build(m, arg[i], operand_type(decl, ninput, ninput, input))))
            return NULL;
        if (input[ninput] && type == DT_NONE) type = input[ninput]->type;
        ninput++;
    }
    for (int i = 0; i < ninput; i++) {
        double x;
        if (!numbers[i] || !node_literal(numbers[i], &x)) continue;
        DType own = operand_type(decl, i, ninput, input);
        input[i] = number(m, x, own != DT_NONE ? own : type == DT_NONE ? m->type : type);
    }
    return new_node(m, n->loc, op, ninput, input, &attrs);
}

static GraphValue *build(Match *m, Node *n, DType type)
{
    double x;
    Binding *b = n->kind == N_NAME ? match_find(m, n->u.sym) : NULL;
    if (b && b->value) return b->value;
    if (n->kind == N_ELSE) { // an optional that may be absent, and what stands for it then
        Node *name = n->kid[0];
        Binding *o = name->kind == N_NAME ? match_find(m, name->u.sym) : NULL;
        return o && o->value ? o->value : build(m, n->kid[1], type);
    }
    if (node_literal(n, &x)) return number(m, x, type == DT_NONE ? m->type : type);
    Sym op = node_op(m->g->library, n);
    if (op) return build_op(m, n, op);
    Value v; // an attribute used as a number
    bool known = match_evaluate(m, n, &v);
    if (known && (v.kind == V_INT || v.kind == V_FLOAT))
        return number(m, v.kind == V_INT ? (double)v.u.i : v.u.f, type == DT_NONE ? m->type : type);
    if (known && v.kind == V_EXPR) return NULL; // open: the rule does not apply
    diag_error(m->diag, n->loc, "a rule's result is made of its names, numbers and ops");
    return NULL;
}

// Whether the result has the type and shape of what it replaces. Where sizes are open and are not
// seen to be equal, the rule does not apply; elsewhere that is the rule's mistake.
static bool same_result(Match *m, Loc loc, const GraphValue *old, const GraphValue *now)
{
    if (specialised_alike(old, now)) return true;
    if (graph_value_static(old) && graph_value_static(now))
        diag_error(m->diag, loc, "the result has another type or shape than what it replaces");
    return false;
}

bool match_build(Match *m, GraphValue **out)
{
    Node *lets = KID((Node *)m->rule, RULE, lets), *result = KID((Node *)m->rule, RULE, result);
    m->type = m->value[0]->type;
    for (int i = 0; lets && i < NREST(lets); i++) {
        Node *let = REST(lets)[i], *name = KID(let, LET, pattern);
        GraphValue *v = build(m, KID(let, LET, value), DT_NONE);
        if (!v || name->kind != N_NAME || !match_bind_value(m, name->u.sym, v)) return false;
    }
    if (m->nroot > 1 && (result->kind != N_TUPLE || NREST(result) != m->nroot)) {
        diag_error(m->diag, result->loc, "%d values are replaced here", m->nroot);
        return false;
    }
    for (int i = 0; i < m->nroot; i++) {
        Node *n = m->nroot > 1 ? REST(result)[i] : result;
        out[i] = build(m, n, DT_NONE);
        if (!out[i] || !same_result(m, n->loc, m->value[i], out[i])) return false;
    }
    return true;
}
