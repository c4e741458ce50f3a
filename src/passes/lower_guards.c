// SPDX-License-Identifier: Apache-2.0
// Guarded accesses become conditions. What the prover shows to be inside needs none; if some
// guards depend on the block alone, the stage is split once, into blocks that are wholly inside and
// blocks at the edge, so that the inner loops of the former test nothing.
#include "passes/pass.h"
#include "passes/prove.h"
#include "passes/vectorise.h"

typedef struct Guards {
    Kernel *kernel;
    Prover *prover;
    bool traps;
    bool interior;      // making the version for blocks that are inside
    bool splits;        // some guard can go in the interior
    VEC(Node *) inside; // i64, each >= 0 in the interior
    VEC(Node *) checks; // conditions proved, to trap on before the statement
} Guards;

static void note_interior(Guards *g, Node *bound)
{
    for (int i = 0; i < g->inside.n; i++) {
        if (node_equal(g->inside.at[i], bound)) return;
    }
    VEC_PUSH(g->kernel->arena, &g->inside, bound);
}

// Whether `distance` >= 0 (the meaning of cond) needs no test here.
static bool known(Guards *g, Node *distance, Node *cond)
{
    bool yes = prove_nonnegative(g->prover, distance);
    if (!yes) {
        Node *bound = prove_lower_bound_of_block(g->prover, distance);
        int64_t lo, hi;
        if (bound && !(node_bounds(bound, &lo, &hi) && hi < 0)) {
            note_interior(g, bound);
            yes = g->interior;
            g->splits = true;
        }
    }
    if (yes && g->traps) VEC_PUSH(g->kernel->arena, &g->checks, cond);
    return yes;
}

static Node *and_also(Arena *a, Node *x, Node *y)
{
    return x ? arith_binary(a, N_LAND, x, y) : y;
}

// Where lanes that follow one another begin and end; the index itself if it is a scalar.
static void ends(Arena *a, Node *index, Node **low, Node **high)
{
    Node *base;
    int64_t stride;
    *low = *high = index;
    if (index->lanes == 1 || !arith_affine(a, index, &base, &stride)) return;
    Node *last = node_int(a, index->loc, (DType)index->type, (index->lanes - 1) * stride);
    last = node_fold(a, node_binary(a, N_ADD, base, last));
    *low = stride < 0 ? last : base;
    *high = stride < 0 ? base : last;
}

// The condition that an index is inside the buffer, lane by lane; NULL if it always is.
static Node *condition(Guards *g, const Buffer *b, Node *const *index)
{
    Arena *a = g->kernel->arena;
    Node *all = NULL, *first, *end;
    for (int i = 0; i < b->rank; i++) {
        ends(a, index[i], &first, &end);
        bool scalar = first->lanes == 1;
        Node *zero = node_int(a, index[i]->loc, (DType)index[i]->type, 0);
        Node *low = arith_binary(a, N_LE, zero, index[i]);
        Node *high = arith_binary(a, N_LT, index[i], b->extent[i]);
        if (!scalar || !known(g, first, arith_binary(a, N_LE, zero, first)))
            all = and_also(a, all, low);
        Node *last = node_binary(a, N_SUB, b->extent[i], node_i64(a, 1));
        if (!scalar ||
            !known(g, node_binary(a, N_SUB, last, end), arith_binary(a, N_LT, end, b->extent[i])))
            all = and_also(a, all, high);
    }
    return all;
}

static Node *visit(void *user, Node *n);

static Node *load_else(Guards *g, Node *n)
{
    Arena *a = g->kernel->arena;
    Node *load = make_load(a, n->loc, n->u.buf, NREST(n), REST(n));
    load->lanes = n->lanes;
    Node *cond = condition(g, n->u.buf, REST(n));
    if (!cond) return load;
    return node_select(a, arith_widen(a, cond, n->lanes), load,
                       arith_widen(a, KID(n, LOAD_ELSE, other), n->lanes));
}

static Node *store_drop(Guards *g, Node *n)
{
    Arena *a = g->kernel->arena;
    Node *cond = condition(g, n->u.buf, REST(n)), *index[LAYOUT_MAX_RANK];
    for (int i = 0; i < NREST(n); i++) index[i] = REST(n)[i];
    bool lanes = cond && cond->lanes > 1;
    if (lanes) index[0] = mask_put(a, cond, index[0]);
    Node *store = make_store(a, n->loc, n->u.buf, NREST(n), index, KID(n, STORE, value),
                             lanes ? GUARD_DROP : GUARD_NONE);
    return cond && !lanes ? make_if(a, n->loc, cond, store, NULL) : store;
}

static Node *sequence(Guards *g, Node *n)
{
    Arena *a = g->kernel->arena;
    Statements s = {.arena = a};
    for (uint32_t i = 0; i < n->nkid; i++) {
        g->checks.n = 0;
        Node *stmt = visit(g, n->kid[i]);
        for (int k = 0; stmt->kind != N_WHILE && k < g->checks.n; k++) {
            Node *check = node_make(a, N_CHECK, stmt->loc, 1, &g->checks.at[k]);
            check->u.sym = "index out of bounds";
            VEC_PUSH(a, &s.list, check);
        }
        g->checks.n = 0;
        VEC_PUSH(a, &s.list, stmt);
    }
    return node_make(a, N_SEQ, n->loc, s.list.n, s.list.at);
}

// Where a trap may have to go before the one statement of a body, the body becomes a SEQ.
static Node *body_as_seq(Guards *g, Node *n)
{
    bool inner = n->kind == N_LOOP || n->kind == N_IF || n->kind == N_MAPFOR ||
                 n->kind == N_WHILE || n->kind == N_ROLE || n->kind == N_ONE;
    if (!g->traps || !inner) return n;
    Arena *a = g->kernel->arena;
    n = arena_copy(a, n, sizeof(Node) + n->nkid * sizeof(Node *));
    for (uint32_t i = 0; i < n->nkid; i++) {
        Node *kid = n->kid[i];
        if (kid && node_info[kid->kind].class == CLASS_S && kid->kind != N_SEQ)
            n->kid[i] = node_make(a, N_SEQ, kid->loc, 1, &kid);
    }
    return n;
}

static Node *visit(void *user, Node *n)
{
    Guards *g = user;
    if (n->kind == N_SEQ) return sequence(g, n);
    n = node_map(g->kernel->arena, body_as_seq(g, n), visit, g);
    if (n->kind == N_LOAD_ELSE) return load_else(g, n);
    if (n->kind == N_STORE && n->sub == GUARD_DROP) return store_drop(g, n);
    return n;
}

static Node *interior_condition(Guards *g)
{
    Arena *a = g->kernel->arena;
    Node *all = NULL;
    for (int i = 0; i < g->inside.n; i++)
        all = and_also(a, all, node_binary(a, N_LE, node_i64(a, 0), g->inside.at[i]));
    return all;
}

static void lower_stage(Guards *g, Stage *s)
{
    Node *edge = visit(g, s->body);
    if (!g->splits) {
        s->body = edge;
        return;
    }
    g->interior = true;
    Node *inside = copy_fresh(g->kernel, visit(g, s->body), &(Map){0});
    Node *choice = make_if(g->kernel->arena, s->body->loc, interior_condition(g), inside, edge);
    s->body = node_make(g->kernel->arena, N_SEQ, s->body->loc, 1, &choice);
}

bool pass_lower_guards(PassContext *c)
{
    bounds_annotate(c->kernel);
    for (int i = 0; i < c->kernel->stages.n; i++) {
        Stage *s = c->kernel->stages.at[i];
        Guards g = {.kernel = c->kernel,
                    .prover = prover_new(c->kernel->arena, c->kernel, s),
                    .traps = c->options->traps};
        lower_stage(&g, s);
    }
    return true;
}
