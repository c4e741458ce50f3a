// SPDX-License-Identifier: Apache-2.0
// Mapping loops over lanes: the tasks in order, each once for all lanes. What not every lane does
// is masked. A loop that has no such form runs lane by lane.
#include "passes/vectorise.h"

#include <string.h>

enum { MAX_LANES = 64 };

// ---- what differs between lanes

static bool varies(const Lanes *l, const Node *n)
{
    if (n->kind == N_VARREF) {
        const Node *value = map_get(&l->value, n->u.var);
        return map_has(&l->varying, n->u.var) || (value && value->lanes > 1);
    }
    if (n->kind == N_LOAD && map_has(&l->varying, n->u.buf)) return true;
    for (uint32_t i = 0; i < n->nkid; i++) {
        if (n->kid[i] && varies(l, n->kid[i])) return true;
    }
    return false;
}

static void mark(Lanes *l, const void *v, bool *changed)
{
    if (map_has(&l->varying, v)) return;
    map_put(l->arena, &l->varying, v, l);
    *changed = true;
}

// One round: `divided` says that not all lanes get here together.
static void mark_varying(Lanes *l, Node *n, bool divided, bool *changed)
{
    switch (n->kind) {
    case N_DECLARE:
    case N_DEFINE: map_put(l->arena, &l->own, n->u.var, l); break;
    case N_ALLOC: mark(l, n->u.buf, changed); break;
    case N_IF: divided |= varies(l, KID(n, IF, cond)); break;
    default: break;
    }
    bool writes = n->kind == N_DEFINE || n->kind == N_DECLARE || n->kind == N_SET;
    if (writes && ((n->kid[0] && varies(l, n->kid[0])) || (divided && n->kind != N_DECLARE)))
        mark(l, n->u.var, changed);
    for (uint32_t i = 0; i < n->nkid; i++) {
        Node *kid = n->kid[i];
        if (kid && node_info[kid->kind].class == CLASS_S) mark_varying(l, kid, divided, changed);
    }
}

// ---- statements

static Node *statement(Lanes *l, Node *n);

static Node *fail(Lanes *l, Node *n)
{
    l->failed = true;
    return n;
}

static bool has_loads(const Node *n)
{
    if (n->kind == N_LOAD) return true;
    for (uint32_t i = 0; i < n->nkid; i++) {
        if (n->kid[i] && has_loads(n->kid[i])) return true;
    }
    return false;
}

static Node *zero(Lanes *l, const Node *like)
{
    Arena *a = l->arena;
    DType t = (DType)like->type;
    return lanes_widen(l, dtype_is_float(t) ? node_float(a, like->loc, t, 0)
                                            : node_int(a, like->loc, t, 0));
}

// A value computed where only the lanes of the mask may load.
static Node *masked_value(Lanes *l, Node *n)
{
    Node *value = lanes_expr(l, n);
    if (l->failed || !l->mask || !has_loads(value)) return value;
    return node_select(l->arena, l->mask, lanes_widen(l, value), zero(l, value));
}

static Var *vector_var(Lanes *l, const Var *v)
{
    Var *wide = kernel_var(l->kernel, v->name, v->type, v->mutable);
    wide->lanes = (uint16_t)l->n;
    wide->loc = v->loc;
    map_put(l->arena, &l->value, v, node_var(l->arena, v->loc, wide));
    return wide;
}

// An affine index keeps its form: only its base gets a name.
static Node *define_affine(Lanes *l, Node *n, Node *value)
{
    Arena *a = l->arena;
    Node *base = value->kid[0];
    if (base->kind == N_INT || base->kind == N_VARREF) {
        map_put(a, &l->value, n->u.var, value);
        return NULL;
    }
    Var *v = kernel_var(l->kernel, n->u.var->name, n->u.var->type, false);
    bounds_define(v, base);
    int64_t stride = value->kind == N_RAMP ? value->u.i : 0;
    map_put(a, &l->value, n->u.var, arith_ramp(a, node_var(a, n->loc, v), stride, l->n));
    return make_define(a, n->loc, v, base);
}

static Node *define(Lanes *l, Node *n)
{
    Arena *a = l->arena;
    Node *value = masked_value(l, KID(n, DEFINE, value));
    if (l->failed) return n;
    if (value->lanes == 1) return make_define(a, n->loc, n->u.var, value);
    bool affine = value->kind == N_RAMP || value->kind == N_BROADCAST;
    if (affine && node_pure(value->kid[0])) return define_affine(l, n, value);
    return make_define(a, n->loc, vector_var(l, n->u.var), value);
}

static Node *declare(Lanes *l, Node *n)
{
    Arena *a = l->arena;
    Node *init = KID(n, DECLARE, init) ? masked_value(l, KID(n, DECLARE, init)) : NULL;
    if (l->failed) return n;
    Var *v = n->u.var;
    if (map_has(&l->varying, v)) {
        v = vector_var(l, v);
        if (init) init = lanes_widen(l, init);
    } else if (init && init->lanes > 1) {
        return fail(l, n);
    }
    Node *d = node_make(a, N_DECLARE, n->loc, 1, &init);
    d->u.var = v;
    return d;
}

static Node *set(Lanes *l, Node *n)
{
    Arena *a = l->arena;
    if (!map_has(&l->own, n->u.var)) return fail(l, n);
    Node *value = lanes_expr(l, KID(n, SET, value));
    if (l->failed) return n;
    Node *wide = map_get(&l->value, n->u.var);
    if (!wide)
        return l->mask || value->lanes > 1 ? fail(l, n) : make_set(a, n->loc, n->u.var, value);
    value = lanes_widen(l, value);
    if (l->mask) value = node_select(a, l->mask, value, wide);
    return make_set(a, n->loc, wide->u.var, value);
}

// Replicas agree, so one lane's value serves an element that all lanes hold.
static bool is_replicated(const Buffer *b)
{
    return b->over && b->over->kind == MAP_PROJECT;
}

static Node *store(Lanes *l, Node *n)
{
    Arena *a = l->arena;
    Node *index[LAYOUT_MAX_RANK + 1], *value = masked_value(l, KID(n, STORE, value));
    Buffer *buffer;
    int rank = lanes_indices(l, n, index, &buffer);
    if (l->failed) return n;
    int lanes = 1;
    for (int i = 0; i < rank; i++) {
        if (index[i]->lanes > lanes) lanes = index[i]->lanes;
    }
    if (!l->mask && lanes == 1 && is_replicated(buffer) && value->lanes > 1)
        value = node_make(a, N_EXTRACT, n->loc, 2, (Node *[]){value, node_i64(a, 0)});
    if (!l->mask && lanes == 1 && value->lanes == 1)
        return make_store(a, n->loc, buffer, rank, index, value, n->sub);
    if (lanes == 1) index[0] = lanes_widen(l, index[0]);
    value = lanes_widen(l, value);
    if (!l->mask) return make_store(a, n->loc, buffer, rank, index, value, n->sub);
    index[0] = mask_put(a, l->mask, lanes_widen(l, index[0]));
    return make_store(a, n->loc, buffer, rank, index, value, GUARD_DROP);
}

// A buffer of each lane's own gets one element a lane for each of its elements.
static Node *alloc(Lanes *l, Node *n)
{
    Arena *a = l->arena;
    Buffer *b = n->u.buf;
    Node *init = KID(n, ALLOC, init) ? masked_value(l, KID(n, ALLOC, init)) : NULL;
    if (l->failed || b->over || b->rank >= LAYOUT_MAX_RANK || b->is_mbarrier || b->alias ||
        (init && init->lanes > 1))
        return fail(l, n);
    Node *extent[LAYOUT_MAX_RANK];
    memcpy(extent, b->extent, (size_t)b->rank * sizeof *extent);
    extent[b->rank] = node_i64(a, l->n);
    Buffer *wide = kernel_buffer(l->kernel, b->name, SPACE_LOCAL, b->type, b->rank + 1, extent);
    wide->loc = b->loc;
    map_put(a, &l->expanded, b, wide);
    Node *r = node_make(a, N_ALLOC, n->loc, 1, &init);
    r->u.buf = wide;
    return r;
}

static Node *under(Lanes *l, Node *mask, Node *n)
{
    Node *outer = l->mask;
    l->mask = lanes_and(l, outer, mask);
    Node *r = statement(l, n);
    l->mask = outer;
    return r;
}

// A mask that is more than comparisons of indices is computed once.
static Node *name_mask(Lanes *l, Node *mask, Statements *s)
{
    if (node_pure(mask) && count_nodes(mask) <= 24) return mask;
    Var *v = kernel_var(l->kernel, "mask", DT_BOOL, false);
    v->lanes = (uint16_t)l->n;
    statements_add(s, make_define(l->arena, mask->loc, v, mask));
    return node_var(l->arena, mask->loc, v);
}

static Node *if_statement(Lanes *l, Node *n)
{
    Arena *a = l->arena;
    Node *same, *mask, *other = KID(n, IF, other);
    bool outer = l->guarded;
    l->guarded |= l->mask != NULL;
    lanes_split_condition(l, KID(n, IF, cond), &same, &mask);
    l->guarded = outer;
    if (l->failed) return n;
    if (!mask)
        return make_if(a, n->loc, same, statement(l, KID(n, IF, then)),
                       other ? statement(l, other) : NULL);
    Statements s = {.arena = a};
    if (l->mask && has_loads(mask)) mask = node_select(a, l->mask, mask, zero(l, mask));
    mask = name_mask(l, mask, &s);
    Node *then = under(l, mask, KID(n, IF, then));
    if (l->failed) return n;
    if (same) then = make_if(a, n->loc, same, then, NULL);
    statements_add(&s, then);
    if (other) {
        Node *all = same ? lanes_and(l, lanes_widen(l, same), mask) : mask;
        statements_add(&s, under(l, node_fold(a, node_unary(a, N_NOT, all)), other));
    }
    return statements_seq(&s, n->loc);
}

static Node *loop(Lanes *l, Node *n)
{
    Node *lo = lanes_expr(l, KID(n, LOOP, lo)), *hi = lanes_expr(l, KID(n, LOOP, hi));
    if (l->failed || lo->lanes > 1 || hi->lanes > 1) return fail(l, n);
    Node *body = statement(l, KID(n, LOOP, body));
    return make_loop(l->arena, n->loc, n->u.var, lo, hi, (LoopAttr)n->sub, body);
}

static Node *while_loop(Lanes *l, Node *n)
{
    Node *cond = lanes_expr(l, KID(n, WHILE, cond));
    if (l->failed || cond->lanes > 1) return fail(l, n);
    return node_make(l->arena, N_WHILE, n->loc, 2,
                     (Node *[]){cond, statement(l, KID(n, WHILE, body))});
}

static Node *mapfor(Lanes *l, Node *n)
{
    Node *worker = lanes_expr(l, KID(n, MAPFOR, worker));
    if (l->failed || worker->lanes > 1) return fail(l, n);
    Node *r = arena_copy(l->arena, n, sizeof(Node) + n->nkid * sizeof(Node *));
    KID(r, MAPFOR, worker) = worker;
    KID(r, MAPFOR, body) = statement(l, KID(n, MAPFOR, body));
    return r;
}

// A trap looks at each lane.
static Node *check(Lanes *l, Node *n)
{
    Arena *a = l->arena;
    Node *cond = masked_value(l, KID(n, CHECK, cond));
    if (l->failed) return n;
    Node *r = node_make(a, N_CHECK, n->loc, 1, &cond);
    r->u.sym = n->u.sym;
    if (cond->lanes == 1 && !l->mask) return r;
    cond = lanes_widen(l, cond);
    if (l->mask) cond = arith_binary(a, N_BOR, node_unary(a, N_NOT, l->mask), cond);
    Var *all = kernel_var(l->kernel, "holds", DT_BOOL, false);
    all->lanes = (uint16_t)l->n;
    Var *lane = index_var(l->kernel, "lane", l->n);
    Node *pair[] = {node_var(a, n->loc, all), node_var(a, n->loc, lane)};
    KID(r, CHECK, cond) = node_make(a, N_EXTRACT, n->loc, 2, pair);
    Node *each = make_loop(a, n->loc, lane, node_i64(a, 0), node_i64(a, l->n), LOOP_PLAIN, r);
    return node_make(a, N_SEQ, n->loc, 2, (Node *[]){make_define(a, n->loc, all, cond), each});
}

static Node *sequence(Lanes *l, Node *n)
{
    Statements s = {.arena = l->arena};
    for (uint32_t i = 0; i < n->nkid && !l->failed; i++) {
        Node *stmt = statement(l, n->kid[i]);
        if (stmt) VEC_PUSH(l->arena, &s.list, stmt);
    }
    return node_make(l->arena, N_SEQ, n->loc, s.list.n, s.list.at);
}

// NULL: nothing to do.
static Node *statement(Lanes *l, Node *n)
{
    if (l->failed) return n;
    switch (n->kind) {
    case N_SEQ: return sequence(l, n);
    case N_DEFINE: return define(l, n);
    case N_DECLARE: return declare(l, n);
    case N_SET: return set(l, n);
    case N_STORE: return store(l, n);
    case N_ALLOC: return alloc(l, n);
    case N_IF: return if_statement(l, n);
    case N_LOOP: return loop(l, n);
    case N_WHILE: return while_loop(l, n);
    case N_MAPFOR: return mapfor(l, n);
    case N_CHECK: return check(l, n);
    case N_BREAK:
    case N_CONTINUE: return l->mask ? fail(l, n) : n;
    default: return fail(l, n);
    }
}

// ---- the loop

static Node *together(Kernel *k, Node *n)
{
    Arena *a = k->arena;
    const Mapping *m = n->u.map;
    int64_t lanes = m->nworker;
    if (lanes > MAX_LANES || (lanes & (lanes - 1))) return NULL;
    Lanes l = {.kernel = k, .arena = a, .n = (int)lanes};
    Var *lane = index_var(k, "lane", lanes);
    map_put(a, &l.value, lane, arith_ramp(a, node_i64(a, 0), 1, l.n));
    map_put(a, &l.value, KID(n, MAPFOR, worker)->u.var, map_get(&l.value, lane));

    Nest nest = {.kernel = k};
    Node *index[MAPPING_MAX_RANK];
    if (!nest_build(&nest, m, node_var(a, n->loc, lane), index)) return NULL;
    for (int i = 0; i < m->rank; i++)
        map_put(a, &l.value, REST(n)[i]->u.var, lanes_expr(&l, index[i]));
    for (bool changed = true; changed;) {
        changed = false;
        mark_varying(&l, KID(n, MAPFOR, body), false, &changed);
    }
    Node *body = statement(&l, KID(n, MAPFOR, body));
    return l.failed ? NULL : nest_wrap(&nest, n->loc, body);
}

static Node *one_by_one(Kernel *k, Node *n)
{
    Arena *a = k->arena;
    Var *lane = index_var(k, "lane", n->u.map->nworker);
    Map values = {0};
    map_put(a, &values, KID(n, MAPFOR, worker)->u.var, node_var(a, n->loc, lane));
    Node *count = node_i64(a, n->u.map->nworker);
    return make_loop(a, n->loc, lane, node_i64(a, 0), count, LOOP_PLAIN, node_subst(a, n, &values));
}

static Node *visit(void *user, Node *n)
{
    Kernel *k = user;
    bool lanes = n->kind == N_MAPFOR && KID(n, MAPFOR, worker)->kind == N_VARREF &&
                 KID(n, MAPFOR, worker)->u.var->builtin == VAR_LANE;
    if (!lanes) return node_map(k->arena, n, visit, k);
    Node *vector = together(k, n);
    return vector ? vector : one_by_one(k, n);
}

bool pass_vectorise(PassContext *c)
{
    bounds_annotate(c->kernel);
    pass_bodies(c->kernel, visit, c->kernel);
    lane_buffers_flatten(c->kernel);
    return true;
}
