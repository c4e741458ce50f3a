// SPDX-License-Identifier: Apache-2.0
// Sizes of the graph as sizes of one kernel. A size of dimensions that the kernel has already is
// computed from them; products are products of dimensions; any other becomes a dimension of its
// own, which the plan computes.
#include "graph/private.h"

#include "ir/size.h"

void kernel_dims_init(KernelDims *k, Graph *g, Instance *in)
{
    *k = (KernelDims){.g = g, .in = in};
}

void kernel_dims_note(KernelDims *k, Value from, Value to)
{
    if (from.kind != V_EXPR) return;
    for (int i = 0; i < k->known.from.n; i++)
        if (node_equal(k->known.from.at[i], from.u.expr)) return;
    VEC_PUSH(k->in->arena, &k->known.from, from.u.expr);
    VEC_PUSH(k->in->arena, &k->known.to, size_value(k->in->arena, to));
}

static bool find(const KernelDims *k, const Node *n, Value *out)
{
    for (int i = 0; i < k->known.from.n; i++) {
        if (!node_equal(k->known.from.at[i], n)) continue;
        *out = k->known.to.at[i];
        return true;
    }
    return false;
}

static Value new_dim(KernelDims *k, Node *n, bool extent)
{
    int64_t lo, hi;
    size_range(n, &lo, &hi);
    if (extent) lo = max_i64(lo, 0);
    const char *name = arena_printf(k->in->arena, "d%d", k->dims.n);
    Value v = instance_dim(k->in, name, lo, hi, node_divisor(n));
    Var *var = v.u.expr->u.var;
    var->hinted = size_hint(n, &var->hint);
    VEC_PUSH(k->in->arena, &k->dims, size_copy(k->g->arena, n));
    kernel_dims_note(k, value_expr(n), v);
    return v;
}

// Whether the kernel has every dimension in n, or what it is part of.
static bool has_all(const KernelDims *k, const Node *n)
{
    Value v;
    if (find(k, n, &v)) return true;
    if (n->kind == N_VARREF) return false;
    for (uint32_t i = 0; i < n->nkid; i++)
        if (!has_all(k, n->kid[i])) return false;
    return true;
}

static Node *as_node(Arena *a, Value v)
{
    return v.kind == V_EXPR ? v.u.expr : node_int(a, 0, v.kind == V_BOOL ? DT_BOOL : DT_I64, v.u.i);
}

static Value translate(KernelDims *k, Node *n, bool extent)
{
    Arena *a = k->in->arena;
    Value v;
    Node *kid[3];
    if (n->kind == N_INT) return value_expr(n);
    if (find(k, n, &v)) return v;
    bool size = n->type == DT_I64 && size_is(n);
    bool inside = !size || has_all(k, n) || (n->kind == N_MUL);
    if (!inside || n->kind == N_VARREF) return new_dim(k, n, extent);
    ASSERT(n->nkid <= 3);
    for (uint32_t i = 0; i < n->nkid; i++)
        kid[i] = as_node(a, translate(k, n->kid[i], extent && n->kind == N_MUL));
    Node *made = node_make(a, (NodeKind)n->kind, n->loc, (int)n->nkid, kid);
    made->type = n->type;
    return value_expr(node_fold(a, made));
}

Value kernel_size(KernelDims *k, Value v, bool extent)
{
    if (v.kind == V_TUPLE) {
        Value t = value_tuple(k->in->arena, v.u.tuple.n, NULL);
        for (int i = 0; i < v.u.tuple.n; i++)
            t.u.tuple.at[i] = kernel_size(k, v.u.tuple.at[i], extent);
        return t;
    }
    return v.kind == V_EXPR ? translate(k, v.u.expr, extent) : v;
}

const Value *kernel_sizes(KernelDims *k, int n, const Value *v)
{
    Value *out = NEW_ARRAY(k->in->arena, Value, n);
    for (int i = 0; i < n; i++) out[i] = kernel_size(k, v[i], true);
    return out;
}

static bool is_open(const Value *v)
{
    if (v->kind == V_EXPR) return true;
    for (int i = 0; v->kind == V_TUPLE && i < v->u.tuple.n; i++)
        if (is_open(&v->u.tuple.at[i])) return true;
    return false;
}

const Map *kernel_attrs(KernelDims *k, const Map *attrs)
{
    bool open = false;
    for (int i = 0; i < attrs->n; i++) open = open || is_open(attrs->entry[i].value);
    if (!open) return attrs;
    Map *out = NEW(k->in->arena, Map);
    for (int i = 0; i < attrs->n; i++) {
        Value *v = NEW(k->in->arena, Value);
        *v = kernel_size(k, *(const Value *)attrs->entry[i].value, false);
        map_put(k->in->arena, out, attrs->entry[i].key, v);
    }
    return out;
}
