// SPDX-License-Identifier: Apache-2.0
// Values in layouts. The op pack_NAME says what a tensor in the layout is, unpack_NAME undoes it;
// the latter also tells where in the layout an element lies.
#include "graph/private.h"

#include <string.h>

// Looks at ops on leaves; nothing of it stays but sizes.
static Instance *look(Graph *g, Arena *scratch, Diag *quiet)
{
    static const Target any = {0};
    diag_init(quiet, scratch, g->library->sources);
    return instance_new(scratch, g->library, &any, quiet);
}

static OpInst *apply_to(Instance *in, const GraphValue *v, const Node *op, const Map *attrs)
{
    Value arg = {.kind = V_TENSOR, .u.tensor = value_leaf(in, v, "x")};
    return op_apply(in, 0, op, 1, &arg, attrs);
}

// A node, beside those of the graph, that computes `out` from v.
static void make_step(Graph *g, GraphValue *v, const Node *op, const Map *attrs, GraphValue *out)
{
    Arena *a = g->arena;
    GraphNode *n = out->producer = NEW(a, GraphNode);
    *n = (GraphNode){.id = -1, .name = out->name, .origin = op->u.sym, .ninput = 1, .noutput = 1};
    n->op = op_info(g->ops, op);
    n->input = arena_copy(a, &v, sizeof v);
    n->output = arena_copy(a, &out, sizeof out);
    n->attrs = attrs_copy(a, attrs);
}

static bool is_shape(const Tensor *t)
{
    for (int k = 0; k < t->rank; k++)
        if (t->dims[k].kind != V_INT && t->dims[k].kind != V_EXPR) return false;
    return t->rank <= GRAPH_MAX_RANK;
}

GraphValue *packed_value(Graph *g, GraphValue *v, const Preference *p)
{
    Arena scratch = {.nomem = g->arena->nomem};
    Diag quiet;
    OpInst *op = apply_to(look(g, &scratch, &quiet), v, p->op, &p->attrs);
    GraphValue *out = NULL;
    if (op && is_shape(op->results[0])) {
        const Tensor *t = op->results[0];
        const char *name = arena_printf(g->arena, "%s, packed", v->name);
        out = graph_value(g, name, t->type, t->rank, t->dims);
        make_step(g, v, p->op, &p->attrs, out);
    }
    arena_free(&scratch);
    return out;
}

GraphValue *unpacked_value(Graph *g, const GraphValue *v, GraphValue *packed)
{
    const GraphNode *pack = packed->producer;
    GraphValue *out =
        graph_value(g, arena_printf(g->arena, "%s, unpacked", v->name), v->type, v->rank, v->dims);
    make_step(g, packed, packed_undo(g, pack), &pack->attrs, out);
    return out;
}

static const char *name_of(const GraphNode *pack)
{
    return pack->op->decl->u.sym + strlen("pack_");
}

const Node *packed_undo(const Graph *g, const GraphNode *pack)
{
    Arena scratch = {.nomem = g->arena->nomem};
    const char *name = arena_printf(&scratch, "unpack_%s", name_of(pack));
    const Node *op = map_get(&g->library->ops, intern(g->library->names, name));
    arena_free(&scratch);
    return op;
}

bool packed_is(const GraphValue *packed, const Preference *p)
{
    const GraphNode *n = packed->producer;
    return n->op->decl == p->op && attrs_equal(&n->attrs, &p->attrs);
}

bool packed_alike(const GraphValue *a, const GraphValue *b)
{
    const GraphNode *n = a->producer, *m = b->producer;
    return n->op == m->op && attrs_equal(&n->attrs, &m->attrs);
}

bool packed_suffices(Graph *g, const GraphValue *v, const GraphValue *packed)
{
    const Node *unpack = packed_undo(g, packed->producer);
    Value n = graph_value_size(g->arena, v), m = graph_value_size(g->arena, packed);
    if (!unpack || packed->type != v->type || !value_equal(&n, &m)) return false;
    Arena scratch = {.nomem = g->arena->nomem};
    Diag quiet;
    Instance *in = look(g, &scratch, &quiet);
    OpInst *op = apply_to(in, packed, unpack, &packed->producer->attrs);
    Tensor *t = op ? op->results[0] : NULL;
    bool ok = t && t->type == v->type && t->rank == v->rank;
    for (int k = 0; ok && k < v->rank; k++) {
        Value d = size_value(&scratch, t->dims[k]);
        ok = value_equal(&d, &v->dims[k]);
    }
    ok = ok && instance_places(in, t);
    arena_free(&scratch);
    return ok;
}

const char *packed_name(Arena *a, const GraphNode *pack)
{
    Buf b;
    buf_init(&b, a);
    buf_puts(&b, name_of(pack));
    for (int i = 0; i < pack->attrs.n; i++) {
        buf_puts(&b, i ? ", " : "(");
        value_print(pack->attrs.entry[i].value, &b);
    }
    if (pack->attrs.n) buf_putc(&b, ')');
    return buf_text(&b);
}
