// SPDX-License-Identifier: Apache-2.0
// A `graph` declaration as a Graph: each call of an op, and each operator between tensors, is a
// node. Parameters are the graph's inputs, `const` ones among them: their data is given when it is
// specialised.
#include "graph/private.h"

#include <string.h>

enum { MAX_RESULTS = 16 };

typedef struct Reader {
    Graph *g;
    Diag *diag;
    const Target *target;
    Map values; // Sym -> GraphValue *
} Reader;

static GraphValue *expression(Reader *r, Node *n);

static bool fails(Reader *r, Loc loc, const char *fmt, const char *name)
{
    diag_error(r->diag, loc, fmt, name);
    return false;
}

static int parameter_position(const Node *decl, Sym name)
{
    Node *params = KID((Node *)decl, OP, params);
    for (int i = 0; i < NREST(params); i++)
        if (REST(params)[i]->u.sym == name) return i;
    return -1;
}

DType operand_type(const Node *decl, int at, int ninput, GraphValue *const *input)
{
    Node *params = KID((Node *)decl, OP, params);
    Node *own = at < NREST(params) ? KID(REST(params)[at], PARAM, type)->kid[KID_TYPE_dtype] : NULL;
    if (own && own->kind == N_NAME && dtype_from_name(own->u.sym) != DT_NONE)
        return dtype_from_name(own->u.sym);
    for (int i = 0; own && own->kind == N_NAME && i < ninput && i < NREST(params); i++) {
        Node *other = KID(REST(params)[i], PARAM, type)->kid[KID_TYPE_dtype];
        if (i != at && input[i] && other && other->kind == N_NAME && other->u.sym == own->u.sym)
            return input[i]->type;
    }
    return DT_NONE;
}

// Operands and attributes of a node. A named argument is an attribute, or the operand for the
// parameter of that name. A number becomes a constant of the other operands' type.
static bool operands(Reader *r, const Node *decl, Node *const *arg, int n, GraphValue **input,
                     int *ninput, Map *attrs)
{
    Arena *a = r->g->arena;
    Node **numbers = NEW_ARRAY(a, Node *, n + NREST(KID((Node *)decl, OP, params)));
    DType type = DT_NONE;
    double x;
    *ninput = 0;
    for (int i = 0; i < n; i++) {
        Node *value = arg[i];
        int at = *ninput;
        if (value->kind == N_ARG && value->u.sym[0]) {
            at = parameter_position(decl, value->u.sym);
            value = KID(value, ARG, value);
        }
        if (at < 0) {
            Value *v = NEW(a, Value);
            *v = evaluate_expression(a, r->g->library, r->target, value, r->diag);
            if (v->kind == V_NONE) return false;
            map_put(a, attrs, arg[i]->u.sym, v);
            continue;
        }
        if (node_literal(value, &x)) numbers[at] = value;
        else if (!(input[at] = expression(r, value))) return false;
        else if (type == DT_NONE) type = input[at]->type;
        if (at >= *ninput) *ninput = at + 1;
    }
    for (int i = 0; i < *ninput; i++) {
        if (!numbers[i]) continue;
        DType own = operand_type(decl, i, *ninput, input);
        if (own == DT_NONE) own = type == DT_NONE ? DT_F32 : type;
        void *data = arena_alloc(a, 16);
        if (node_literal(numbers[i], &x)) dtype_store_f64(own, data, x);
        input[i] = graph_constant(r->g, "number", own, 0, NULL, data);
    }
    return true;
}

// The element type that x, of a result's type, stands for as far as the declaration tells: its own,
// an attribute's, that of the operand with the same letter, or acc() of one. Shapes are inferred
// later.
static DType result_type(const Node *decl, const Node *x, GraphValue *const *input, int ninput,
                         const Map *attrs)
{
    Node *params = KID((Node *)decl, OP, params);
    if (x && x->kind == N_CALL && NREST((Node *)x) == 1)
        return dtypes[result_type(decl, REST((Node *)x)[0], input, ninput, attrs)].acc;
    if (!x || x->kind != N_NAME) return ninput && input[0] ? input[0]->type : DT_F32;
    const Value *attr = map_get(attrs, x->u.sym);
    if (attr && attr->kind == V_DTYPE) return attr->u.dtype.type;
    for (int i = 0; i < ninput && i < NREST(params); i++) {
        const Node *t = KID(REST(params)[i], PARAM, type),
                   *name = t ? t->kid[KID_TYPE_dtype] : NULL;
        if (input[i] && name && name->kind == N_NAME && name->u.sym == x->u.sym)
            return input[i]->type;
    }
    DType own = dtype_from_name(x->u.sym);
    return own == DT_NONE ? DT_F32 : own;
}

// The first noutput results of a call of an op.
static bool call(Reader *r, Node *n, Sym op, int noutput, GraphValue **output)
{
    Map attrs = {0};
    int ninput;
    bool is_call = n->kind == N_CALL;
    Node *const *arg = is_call ? REST(n) : n->kid;
    const Node *decl = map_get(&r->g->library->ops, op);
    int narg = is_call ? NREST(n) : (int)n->nkid, nparam = NREST(KID((Node *)decl, OP, params));
    GraphValue **input = NEW_ARRAY(r->g->arena, GraphValue *, narg + nparam);
    if (!operands(r, decl, arg, narg, input, &ninput, &attrs)) return false;
    Node *results = KID((Node *)decl, OP, results);
    for (int i = 0; i < noutput; i++) {
        const Node *type = i < NREST(results) ? KID(REST(results)[i], PARAM, type) : NULL;
        const Node *x = type ? type->kid[KID_TYPE_dtype] : NULL;
        output[i] = graph_value(r->g, op, result_type(decl, x, input, ninput, &attrs), -1, NULL);
    }
    OpBindings choices = {0};
    VEC_PUSH(r->g->arena, &choices, op_binding(r->g->ops, decl));
    GraphNode *node = graph_node(r->g, op, op, choices, ninput, input, noutput, output);
    node->attrs = attrs;
    return true;
}

static GraphValue *expression(Reader *r, Node *n)
{
    Sym op = node_op(r->g->library, n);
    GraphValue *v;
    if (op) return call(r, n, op, 1, &v) ? v : NULL;
    v = n->kind == N_NAME ? map_get(&r->values, n->u.sym) : NULL;
    if (v) return v;
    if (n->kind == N_CALL && n->kid[0]->kind == N_NAME)
        fails(r, n->loc, "there is no op '%s'", n->kid[0]->u.sym);
    else if (n->kind == N_NAME) fails(r, n->loc, "unknown name '%s'", n->u.sym);
    else fails(r, n->loc, "a graph is made of its names, numbers and ops%s", "");
    return NULL;
}

// `fresh`: v was made for this statement, and is called as the text calls it.
static void assign(Reader *r, Sym name, GraphValue *v, bool fresh)
{
    if (fresh) v->name = arena_strdup(r->g->arena, name);
    map_put(r->g->arena, &r->values, name, v);
}

// (a, b) = op(...): the first results of an op that has several.
static bool results(Reader *r, Node *names, Node *value)
{
    GraphValue *v[MAX_RESULTS];
    Sym op = node_op(r->g->library, value);
    if (!op) return fails(r, value->loc, "several names are given to the results of an op%s", "");
    if (NREST(names) > MAX_RESULTS) return fails(r, names->loc, "more than 16 results%s", "");
    for (int i = 0; i < NREST(names); i++)
        if (REST(names)[i]->kind != N_NAME)
            return fails(r, REST(names)[i]->loc, "a name is assigned here%s", "");
    if (!call(r, value, op, NREST(names), v)) return false;
    for (int i = 0; i < NREST(names); i++) assign(r, REST(names)[i]->u.sym, v[i], true);
    return true;
}

static bool statement(Reader *r, Node *s)
{
    bool let = s->kind == N_LET;
    if (!let && s->kind != N_ASSIGN)
        return fails(r, s->loc, "a graph's body holds let and assignments%s", "");
    Node *name = let ? KID(s, LET, pattern) : KID(s, ASSIGN, place);
    Node *value = let ? KID(s, LET, value) : KID(s, ASSIGN, value);
    if (name->kind == N_TUPLE) return results(r, name, value);
    if (name->kind != N_NAME) return fails(r, s->loc, "a name is assigned here%s", "");
    GraphValue *v = expression(r, value);
    if (v) assign(r, name->u.sym, v, value->kind != N_NAME);
    return v != NULL;
}

static bool parameter(Reader *r, Node *p)
{
    Node *type = KID(p, PARAM, type);
    Value t, dims[GRAPH_MAX_RANK];
    if (!type || !KID(type, TYPE, dtype) || NREST(type) > GRAPH_MAX_RANK)
        return fails(r, p->loc, "'%s' needs a type such as f32[n, 768]", p->u.sym);
    Arena *a = r->g->arena;
    t = evaluate_expression(a, r->g->library, r->target, KID(type, TYPE, dtype), r->diag);
    if (t.kind != V_DTYPE) return fails(r, p->loc, "'%s' needs an element type", p->u.sym);
    for (int i = 0; i < NREST(type); i++) {
        Node *d = REST(type)[i];
        if (d->kind == N_NAME) dims[i] = value_str(d->u.sym);
        else {
            dims[i] = evaluate_expression(a, r->g->library, r->target, d, r->diag);
            if (dims[i].kind != V_INT) return fails(r, d->loc, "'%s' needs an extent", p->u.sym);
        }
    }
    map_put(a, &r->values, p->u.sym,
            graph_input(r->g, p->u.sym, t.u.dtype.type, NREST(type), dims));
    return true;
}

// A result that is called otherwise, an input or another result, is a copy of its own.
static bool result(Reader *r, const Node *p)
{
    Graph *g = r->g;
    GraphValue *v = map_get(&r->values, p->u.sym);
    if (!v) return fails(r, p->loc, "'%s' is never assigned", p->u.sym);
    for (int i = 0; i < g->outputs.n; i++)
        if (!strcmp(g->outputs.at[i]->name, p->u.sym))
            return fails(r, p->loc, "two results are called '%s'", p->u.sym);
    Sym identity = intern(g->library->names, "identity");
    const Node *copy = map_get(&g->library->ops, identity);
    if (copy && strcmp(v->name, p->u.sym)) {
        GraphValue *own = graph_value(g, p->u.sym, v->type, -1, NULL);
        OpBindings choices = {0};
        VEC_PUSH(g->arena, &choices, op_binding(g->ops, copy));
        graph_node(g, identity, identity, choices, 1, &v, 1, &own);
        v = own;
    }
    graph_output(g, v);
    return true;
}

Graph *graph_from_text(Arena *a, const Library *l, OpTable *ops, const Target *t, const Node *decl,
                       Diag *d)
{
    Node *n = (Node *)decl, *params = KID(n, GRAPH, params), *results = KID(n, GRAPH, results);
    Node *body = KID(n, GRAPH, body);
    Reader r = {.g = graph_new(a, l, ops, decl->u.sym), .diag = d, .target = t};
    for (int i = 0; i < NREST(params); i++)
        if (!parameter(&r, REST(params)[i])) return NULL;
    for (int i = 0; i < NREST(body); i++)
        if (!statement(&r, REST(body)[i])) return NULL;
    for (int i = 0; i < NREST(results); i++)
        if (!result(&r, REST(results)[i])) return NULL;
    return r.g;
}
