// SPDX-License-Identifier: Apache-2.0
// Loops of known length are written out where they ask for it, or where their variable picks
// elements of a local buffer that could then live in registers.
#include "passes/pass.h"
#include "passes/rules.h"

enum { MAX_TRIPS = 64, MAX_COPIED_NODES = 60000, MAX_LOCAL_ELEMENTS = 16384 };

typedef struct Unroll {
    Kernel *kernel;
    const Rules *rules;
    Map short_loops;       // Var of a loop of few known trips
    Map fixed;             // local Buffer -> itself, or NULL once indexed by anything else
} Unroll;

static bool trips(const Node *loop, int64_t *lo, int64_t *n)
{
    const Node *from = loop->kid[KID_LOOP_lo], *to = loop->kid[KID_LOOP_hi];
    if (from->kind != N_INT || to->kind != N_INT) return false;
    *lo = from->u.i;
    *n = max_i64(to->u.i - from->u.i, 0);
    return *n <= MAX_TRIPS;
}

static bool only_short_loops(const Unroll *u, const Node *index)
{
    if (index->kind == N_VARREF) return map_has(&u->short_loops, index->u.var);
    if (!node_pure(index)) return false;
    for (uint32_t i = 0; i < index->nkid; i++) {
        if (!only_short_loops(u, index->kid[i])) return false;
    }
    return true;
}

static bool small(const Buffer *b)
{
    int64_t size = 1;
    for (int i = 0; i < b->rank; i++) {
        if (b->extent[i]->kind != N_INT) return false;
        size *= min_i64(b->extent[i]->u.i, MAX_LOCAL_ELEMENTS + 1);
        if (size > MAX_LOCAL_ELEMENTS) return false;
    }
    return true;
}

static Node *find_loops(void *user, Node *n)
{
    Unroll *u = user;
    int64_t lo, count;
    if (n->kind == N_LOOP && trips(n, &lo, &count))
        map_put(u->kernel->arena, &u->short_loops, n->u.var, n->u.var);
    // A name for an index that only short loops decide is as good as the index.
    if (n->kind == N_DEFINE && only_short_loops(u, KID(n, DEFINE, value)))
        map_put(u->kernel->arena, &u->short_loops, n->u.var, n->u.var);
    return node_map(u->kernel->arena, n, find_loops, u);
}

static Node *find_locals(void *user, Node *n)
{
    Unroll *u = user;
    bool access = n->kind == N_LOAD || n->kind == N_STORE || n->kind == N_REF;
    if (access && n->u.buf->space == SPACE_LOCAL) {
        Buffer *b = n->u.buf;
        bool fits = n->kind != N_REF && small(b) &&
                    !(map_has(&u->fixed, b) && !map_get(&u->fixed, b));
        for (int i = 0; i < NREST(n); i++) fits &= only_short_loops(u, REST(n)[i]);
        map_put(u->kernel->arena, &u->fixed, b, fits ? b : NULL);
    }
    return node_map(u->kernel->arena, n, find_locals, u);
}

// Whether v, or a name defined by it inside n, indexes a buffer that could be registers.
static bool picks_registers(const Unroll *u, const Node *n, const Var *v)
{
    bool access = n->kind == N_LOAD || n->kind == N_STORE;
    if (access && n->u.buf->space == SPACE_LOCAL && map_get(&u->fixed, n->u.buf)) {
        for (uint32_t i = (uint32_t)node_info[n->kind].nfixed; i < n->nkid; i++) {
            if (node_uses_var(n->kid[i], v)) return true;
        }
    }
    for (uint32_t i = 0; i < n->nkid; i++) {
        const Node *kid = n->kid[i];
        if (!kid) continue;
        if (picks_registers(u, kid, v)) return true;
        bool names = kid->kind == N_DEFINE && kid->u.var->type == DT_I64 &&
                     node_uses_var(kid->kid[KID_DEFINE_value], v);
        if (names && picks_registers(u, n, kid->u.var)) return true;
    }
    return false;
}

static bool wanted(const Unroll *u, Node *loop, int64_t n)
{
    Node *body = KID(loop, LOOP, body);
    if (leaves_loop(body)) return false;
    if (n * count_nodes(body) > MAX_COPIED_NODES) return false;
    if (n <= 1 || loop->sub == LOOP_UNROLL || loop->sub == LOOP_UNROLL_FULL) return true;
    return picks_registers(u, body, loop->u.var);
}

static Node *visit(void *user, Node *n)
{
    Unroll *u = user;
    Arena *a = u->kernel->arena;
    n = node_map(a, n, visit, u);
    int64_t lo, count;
    if (n->kind != N_LOOP || !trips(n, &lo, &count) || !wanted(u, n, count)) return n;
    Statements s = {.arena = a};
    for (int64_t i = 0; i < count; i++) {
        Map value = {0};
        map_put(a, &value, n->u.var, node_i64(a, lo + i));
        statements_add(&s, simplify_tree(u->kernel, u->rules, copy_fresh(u->kernel, KID(n, LOOP, body), &value)));
    }
    return statements_seq(&s, n->loc);
}

bool pass_unroll(PassContext *c)
{
    Unroll u = {.kernel = c->kernel, .rules = rules_new(c->kernel->arena)};
    pass_bodies(c->kernel, find_loops, &u);
    pass_bodies(c->kernel, find_locals, &u);
    pass_bodies(c->kernel, visit, &u);
    return true;
}
