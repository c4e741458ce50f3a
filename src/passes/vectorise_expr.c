// SPDX-License-Identifier: Apache-2.0
// Expressions of a lane loop for all lanes at once.
#include "passes/vectorise.h"

#include <string.h>

static Node *fail(Lanes *l, Node *n)
{
    l->failed = true;
    return n;
}

Node *lanes_widen(Lanes *l, Node *n)
{
    return arith_widen(l->arena, n, l->n);
}

Node *lanes_and(Lanes *l, Node *x, Node *y)
{
    if (!x) return y;
    return arith_binary(l->arena, N_BAND, x, y);
}

static bool is_index(const Node *n)
{
    return n->type == DT_I64;
}

static Node *binary(Lanes *l, Node *n)
{
    Arena *a = l->arena;
    Node *x = lanes_expr(l, n->kid[0]), *y = lanes_expr(l, n->kid[1]);
    if (l->failed) return n;
    if (x->lanes == 1 && y->lanes == 1)
        return node_fold(a, node_binary(a, (NodeKind)n->kind, x, y));
    if (is_index(n)) {
        bool by_constant = y->kind == N_INT && y->u.i > 0;
        switch (n->kind) {
        case N_ADD: return arith_add(a, x, y);
        case N_SUB: return arith_sub(a, x, y);
        case N_MUL: return arith_mul(a, x, y);
        case N_DIV:
            if (by_constant) return arith_div(a, x, y->u.i);
            break;
        case N_MOD:
            if (by_constant) return arith_mod(a, x, y->u.i);
            break;
        default: break;
        }
    }
    return arith_binary(a, (NodeKind)n->kind, x, y);
}

static Node *unary(Lanes *l, Node *n)
{
    Node *x = lanes_expr(l, n->kid[0]);
    if (l->failed) return n;
    Node *r = node_unary(l->arena, (NodeKind)n->kind, x);
    r->type = n->type;
    r->lanes = x->lanes;
    return node_fold(l->arena, r);
}

// An expression that only some lanes evaluate.
static Node *guarded_expr(Lanes *l, Node *n)
{
    bool outer = l->guarded;
    l->guarded = true;
    n = lanes_expr(l, n);
    l->guarded = outer;
    return n;
}

// a && b evaluates b only in lanes where a holds, a || b where it does not.
static Node *short_circuit(Lanes *l, Node *n)
{
    Arena *a = l->arena;
    bool is_and = n->kind == N_LAND;
    Node *x = lanes_expr(l, n->kid[0]);
    if (l->failed) return n;
    Node *y = x->lanes > 1 ? guarded_expr(l, n->kid[1]) : lanes_expr(l, n->kid[1]);
    if (l->failed) return n;
    if (x->lanes == 1 && y->lanes == 1)
        return node_fold(a, node_binary(a, (NodeKind)n->kind, x, y));
    if (x->lanes > 1 && node_pure(y)) return arith_binary(a, is_and ? N_BAND : N_BOR, x, y);
    Node *known = lanes_widen(l, node_int(a, n->loc, DT_BOOL, !is_and));
    y = lanes_widen(l, y);
    return node_select(a, x, is_and ? y : known, is_and ? known : y);
}

static void split(Lanes *l, Node *cond, Node **same, Node **mask)
{
    if (cond->kind == N_LAND && node_pure(cond)) {
        split(l, cond->kid[0], same, mask);
        split(l, cond->kid[1], same, mask);
        return;
    }
    Node *c = lanes_expr(l, cond);
    if (l->failed) return;
    if (c->lanes > 1) *mask = lanes_and(l, *mask, c);
    else *same = *same ? node_binary(l->arena, N_LAND, *same, c) : c;
}

void lanes_split_condition(Lanes *l, Node *cond, Node **same, Node **mask)
{
    *same = *mask = NULL;
    split(l, cond, same, mask);
}

static Node *select(Lanes *l, Node *n)
{
    Arena *a = l->arena;
    Node *same, *mask;
    lanes_split_condition(l, KID(n, SELECT, cond), &same, &mask);
    if (l->failed) return n;
    Node *x = mask ? guarded_expr(l, KID(n, SELECT, a)) : lanes_expr(l, KID(n, SELECT, a));
    Node *y = mask ? guarded_expr(l, KID(n, SELECT, b)) : lanes_expr(l, KID(n, SELECT, b));
    if (l->failed) return n;
    if (!mask) {
        int lanes = x->lanes > y->lanes ? x->lanes : y->lanes;
        return node_fold(a,
                         node_select(a, same, arith_widen(a, x, lanes), arith_widen(a, y, lanes)));
    }
    x = lanes_widen(l, x);
    y = lanes_widen(l, y);
    if (same && count_nodes(y) > 4) {
        mask = lanes_and(l, lanes_widen(l, same), mask);
        same = NULL;
    }
    Node *chosen = node_select(a, mask, x, y);
    return same ? node_select(a, same, chosen, y) : chosen;
}

static bool is_inside(const Buffer *b, Node *const *index, int n)
{
    for (int i = 0; i < n && i < b->rank; i++) {
        int64_t lo, hi, least, most;
        if (!node_bounds(index[i], &lo, &hi) || lo < 0 ||
            !node_bounds(b->extent[i], &least, &most) || hi >= least)
            return false;
    }
    return true;
}

int lanes_indices(Lanes *l, Node *access, Node **index, Buffer **buffer)
{
    int n = NREST(access);
    *buffer = access->u.buf;
    for (int i = 0; i < n; i++) index[i] = lanes_expr(l, REST(access)[i]);
    Buffer *expanded = map_get(&l->expanded, access->u.buf);
    if (expanded) {
        *buffer = expanded;
        index[n++] = arith_ramp(l->arena, node_i64(l->arena, 0), 1, l->n);
    }
    return n;
}

static Node *load(Lanes *l, Node *n)
{
    Node *index[LAYOUT_MAX_RANK + 1];
    Buffer *buffer;
    int rank = lanes_indices(l, n, index, &buffer);
    if (l->failed) return n;
    Node *r = make_load(l->arena, n->loc, buffer, rank, index);
    if (r->lanes > 1 || !(l->guarded || l->mask) || is_inside(buffer, index, rank)) return r;
    // Where no lane takes the arm, this load must not happen: as a vector, it is under the mask.
    index[0] = lanes_widen(l, index[0]);
    return make_load(l->arena, n->loc, buffer, rank, index);
}

static Node *call(Lanes *l, Node *n)
{
    if (!strchr(n->u.intr->flags, 'P') || intrinsic_id(n->u.intr) == INTR_LANE_SUM)
        return fail(l, n);
    Node *r = arena_copy(l->arena, n, sizeof(Node) + n->nkid * sizeof(Node *));
    int lanes = 1;
    for (uint32_t i = 0; i < n->nkid; i++) {
        r->kid[i] = lanes_expr(l, n->kid[i]);
        if (r->kid[i]->lanes > lanes) lanes = r->kid[i]->lanes;
    }
    for (uint32_t i = 0; i < n->nkid; i++) r->kid[i] = arith_widen(l->arena, r->kid[i], lanes);
    r->lanes = (uint16_t)lanes;
    return r;
}

Node *lanes_expr(Lanes *l, Node *n)
{
    if (l->failed) return n;
    if (n->lanes > 1) return fail(l, n);
    Node *value;
    const NodeInfo *info = &node_info[n->kind];
    if (info->operands && info->nfixed == 1) return unary(l, n);
    if (info->operands == OPERANDS_BOOLS) return short_circuit(l, n);
    if (info->operands) return binary(l, n);
    switch (n->kind) {
    case N_INT:
    case N_FLOAT: return n;
    case N_VARREF: value = map_get(&l->value, n->u.var); return value ? value : n;
    case N_SELECT: return select(l, n);
    case N_LOAD: return load(l, n);
    case N_INTRIN: return call(l, n);
    default: return fail(l, n);
    }
}
