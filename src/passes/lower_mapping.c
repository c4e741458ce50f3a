// SPDX-License-Identifier: Apache-2.0
// Mapping loops become plain loops over the repeats, with the index computed from the worker: a
// spatial part reads the worker's digits, a repeat part is a loop, a composition splits the worker.
#include "passes/pass.h"

// Dimensions from slowest to fastest.
static int by_rank(const Mapping *m, int rank)
{
    for (int i = 0; i < m->rank; i++) {
        if (m->order[i] == rank) return i;
    }
    BUG("ranks of a mapping are no permutation");
}

static void strides(const Mapping *m, int64_t *stride)
{
    int64_t s = 1;
    for (int r = m->rank - 1; r >= 0; r--) {
        int i = by_rank(m, r);
        stride[i] = s;
        s *= m->shape[i];
    }
}

static void nest_spatial(Nest *nest, const Mapping *m, Node *worker, Node **index)
{
    Arena *a = nest->kernel->arena;
    int64_t stride[MAPPING_MAX_RANK];
    strides(m, stride);
    for (int i = 0; i < m->rank; i++) {
        Node *digit = arith_div(a, worker, stride[i]);
        index[i] = m->order[i] == 0 ? digit : arith_mod(a, digit, m->shape[i]);
        if (m->shape[i] == 1) index[i] = node_i64(a, 0);
    }
}

static bool nest_repeat(Nest *nest, const Mapping *m, Node **index)
{
    for (int r = 0; r < m->rank; r++) {
        int i = by_rank(m, r);
        index[i] = node_i64(nest->kernel->arena, 0);
        if (m->shape[i] == 1) continue;
        if (nest->nloop == (int)COUNT(nest->loop)) return false;
        Var *v = index_var(nest->kernel, "t", m->shape[i]);
        nest->loop[nest->nloop++] = (struct NestLoop){v, m->shape[i], m->attr[i]};
        index[i] = node_var(nest->kernel->arena, 0, v);
    }
    return true;
}

static bool nest_compose(Nest *nest, const Mapping *m, Node *worker, Node **index)
{
    Arena *a = nest->kernel->arena;
    Node *inner[MAPPING_MAX_RANK];
    int64_t n = m->inner->nworker;
    if (!nest_build(nest, m->outer, arith_div(a, worker, n), index) ||
        !nest_build(nest, m->inner, arith_mod(a, worker, n), inner))
        return false;
    for (int i = 0; i < m->rank; i++) {
        Node *scale = node_i64(a, m->inner->shape[i]);
        index[i] = arith_add(a, arith_mul(a, index[i], scale), inner[i]);
    }
    return true;
}

bool nest_build(Nest *nest, const Mapping *m, Node *worker, Node **index)
{
    Arena *a = nest->kernel->arena;
    switch (m->kind) {
    case MAP_SPATIAL: nest_spatial(nest, m, worker, index); return true;
    case MAP_REPEAT: return nest_repeat(nest, m, index);
    case MAP_COMPOSE: return nest_compose(nest, m, worker, index);
    case MAP_PROJECT:
        if (!nest_build(nest, m->outer, worker, index)) return false;
        for (int i = 0; i < m->rank; i++) {
            if (m->fixed[i]) index[i] = node_i64(a, 0);
        }
        return true;
    case MAP_CUSTOM: break;
    }
    Map values = {0};
    map_put(a, &values, m->worker_var->u.var, worker);
    for (int i = 0; i < m->rank; i++)
        index[i] = arith_fold(a, node_subst(a, m->function->kid[i], &values));
    return true;
}

Node *nest_wrap(const Nest *nest, Loc loc, Node *body)
{
    Arena *a = nest->kernel->arena;
    for (int i = nest->nloop - 1; i >= 0; i--) {
        const struct NestLoop *l = &nest->loop[i];
        body = make_loop(a, loc, l->var, node_i64(a, 0), node_i64(a, l->extent), l->attr, body);
    }
    return body;
}

static bool inverse_compose(Arena *a, const Mapping *m, Node *const *index, Node **worker,
                            Node **task)
{
    Node *outer[MAPPING_MAX_RANK], *inner[MAPPING_MAX_RANK], *w[2], *t[2];
    for (int i = 0; i < m->rank; i++) {
        outer[i] = arith_div(a, index[i], m->inner->shape[i]);
        inner[i] = arith_mod(a, index[i], m->inner->shape[i]);
    }
    if (!mapping_inverse(a, m->outer, outer, &w[0], &t[0]) ||
        !mapping_inverse(a, m->inner, inner, &w[1], &t[1]))
        return false;
    *worker = arith_add(a, arith_mul(a, w[0], node_i64(a, m->inner->nworker)), w[1]);
    *task = arith_add(a, arith_mul(a, t[0], node_i64(a, m->inner->ntask)), t[1]);
    return true;
}

bool mapping_inverse(Arena *a, const Mapping *m, Node *const *index, Node **worker, Node **task)
{
    if (m->kind == MAP_COMPOSE) return inverse_compose(a, m, index, worker, task);
    if (m->kind != MAP_SPATIAL && m->kind != MAP_REPEAT) return false;
    int64_t stride[MAPPING_MAX_RANK];
    strides(m, stride);
    Node *digits = node_i64(a, 0);
    for (int i = 0; i < m->rank; i++)
        digits = arith_add(a, digits, arith_mul(a, index[i], node_i64(a, stride[i])));
    *worker = m->kind == MAP_SPATIAL ? digits : node_i64(a, 0);
    *task = m->kind == MAP_SPATIAL ? node_i64(a, 0) : digits;
    return true;
}

// ---- the pass

// nothing when worker is outside [0, n)
static Node *guard_worker(Arena *a, Node *worker, int64_t n, Loc loc, Node *body)
{
    int64_t lo, hi;
    bool known = node_bounds(worker, &lo, &hi);
    if (!known || hi >= n)
        body = make_if(a, loc, arith_binary(a, N_LT, worker, node_i64(a, n)), body, NULL);
    if (!known || lo < 0)
        body = make_if(a, loc, arith_binary(a, N_LE, node_i64(a, 0), worker), body, NULL);
    return body;
}

typedef struct Lower {
    PassContext *c;
    Map plain;    // of owner_access
    Map index_of; // Var of a mapping loop -> its value
} Lower;

static Node *visit(void *user, Node *n);

static Node *lower(Lower *w, Node *n)
{
    Kernel *k = w->c->kernel;
    Arena *a = k->arena;
    Node *index[MAPPING_MAX_RANK], *worker = visit(w, KID(n, MAPFOR, worker));
    Statements body = {.arena = a};
    if (worker->kind != N_VARREF && worker->kind != N_INT) {
        Var *v = kernel_var(k, "w", DT_I64, false);
        bounds_define(v, worker);
        statements_add(&body, make_define(a, n->loc, v, worker));
        worker = node_var(a, n->loc, v);
    }
    Nest nest = {.kernel = k};
    if (!nest_build(&nest, n->u.map, worker, index)) {
        diag_error(w->c->diag, n->loc, "this mapping has more than %d repeated dimensions",
                   (int)COUNT(nest.loop));
        return n;
    }
    Statements inside = {.arena = a};
    for (int i = 0; i < NREST(n); i++) {
        Var *v = REST(n)[i]->u.var;
        bounds_define(v, index[i]);
        statements_add(&inside, make_define(a, n->loc, v, index[i]));
        map_put(a, &w->index_of, v, index[i]);
    }
    statements_add(&inside, visit(w, KID(n, MAPFOR, body)));
    Node *loops = nest_wrap(&nest, n->loc, statements_seq(&inside, n->loc));
    statements_add(&body, guard_worker(a, worker, n->u.map->nworker, n->loc, loops));
    return statements_seq(&body, n->loc);
}

static Node *visit(void *user, Node *n)
{
    Lower *w = user;
    Arena *a = w->c->kernel->arena;
    if (n->kind == N_MAPFOR) return lower(w, n);
    if (n->kind == N_EVAL) n = fragments_lower(w->c, &w->plain, &w->index_of, n);
    return owner_access(a, &w->plain, &w->index_of, node_map(a, n, visit, w));
}

bool pass_lower_mapping(PassContext *c)
{
    int before = c->diag->nerror;
    pass_bodies(c->kernel, visit, &(Lower){.c = c});
    return c->diag->nerror == before;
}
