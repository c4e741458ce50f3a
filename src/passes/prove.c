// SPDX-License-Identifier: Apache-2.0
// Linear forms and the replacement of terms by their bounds.
#include "passes/prove.h"

#include "passes/arith.h"

enum { MAX_TERMS = 24, MAX_STEPS = 24, MAX_TRIES = 600 };

typedef struct Fact { // about an immutable Var
    Node *value;      // it is this, or
    Node *lo, *hi;    // lo <= it < hi
    int depth;        // scopes around it
} Fact;

struct Prover {
    Arena *arena;
    Map facts; // Var -> Fact
    int depth;
    int tries; // forms looked at in this proof
};

typedef struct Linear {
    int64_t constant;
    int n;
    struct Term {
        int64_t factor;
        Node *node; // no INT, ADD, SUB, NEG or MUL by INT
    } term[MAX_TERMS];
} Linear;

// ---- facts

static void learn(Prover *p, Var *v, Node *value, Node *lo, Node *hi)
{
    Fact *f = NEW(p->arena, Fact);
    *f = (Fact){value, lo, hi, p->depth};
    map_put(p->arena, &p->facts, v, f);
}

static Node *collect(void *user, Node *n)
{
    Prover *p = user;
    p->depth++;
    if (n->kind == N_LOOP) learn(p, n->u.var, NULL, KID(n, LOOP, lo), KID(n, LOOP, hi));
    if (n->kind == N_DEFINE && n->u.var->lanes == 1 && dtype_is_int(n->u.var->type))
        learn(p, n->u.var, KID(n, DEFINE, value), NULL, NULL);
    if (n->kind == N_MAPFOR) {
        for (int i = 0; i < NREST(n); i++)
            learn(p, REST(n)[i]->u.var, NULL, node_i64(p->arena, 0),
                  node_i64(p->arena, n->u.map->shape[i]));
    }
    node_map(p->arena, n, collect, p);
    p->depth--;
    return n;
}

Prover *prover_new(Arena *a, const Kernel *k, const Stage *s)
{
    UNUSED(k);
    Prover *p = NEW(a, Prover);
    p->arena = a;
    p->depth = 1; // dimensions of the launch are at 0
    for (int axis = 0; axis < s->ngrid; axis++) {
        Var *v = s->builtin[VAR_BLOCK_X + axis];
        if (v) learn(p, v, NULL, node_i64(a, 0), s->grid[axis]);
    }
    p->depth = 2;
    collect(p, s->body);
    return p;
}

// ---- linear forms

static bool add_term(Linear *l, Node *node, int64_t factor)
{
    int i = 0;
    while (i < l->n && !node_equal(l->term[i].node, node)) i++;
    if (i == l->n) {
        if (l->n == MAX_TERMS) return false;
        l->term[l->n++] = (struct Term){0, node};
    }
    if (!add_i64(l->term[i].factor, factor, &l->term[i].factor)) return false;
    if (l->term[i].factor == 0) l->term[i] = l->term[--l->n];
    return true;
}

// *l += factor * x
static bool add_node(Linear *l, Node *x, int64_t factor)
{
    int64_t product;
    if (x->lanes != 1) return false;
    switch (x->kind) {
    case N_INT:
        return mul_i64(factor, x->u.i, &product) && add_i64(l->constant, product, &l->constant);
    case N_ADD: return add_node(l, x->kid[0], factor) && add_node(l, x->kid[1], factor);
    case N_SUB: return add_node(l, x->kid[0], factor) && add_node(l, x->kid[1], -factor);
    case N_NEG: return add_node(l, x->kid[0], -factor);
    case N_MUL:
        for (int i = 0; i < 2; i++) {
            if (x->kid[i]->kind == N_INT)
                return mul_i64(factor, x->kid[i]->u.i, &product) &&
                       add_node(l, x->kid[1 - i], product);
        }
        break;
    default: break;
    }
    return add_term(l, x, factor);
}

// The least value, from the bounds of each term alone.
static bool least(const Linear *l, int64_t *out)
{
    int64_t sum = l->constant;
    for (int i = 0; i < l->n; i++) {
        int64_t lo, hi, product;
        if (!node_bounds(l->term[i].node, &lo, &hi)) return false;
        int64_t at = l->term[i].factor > 0 ? lo : hi;
        if (!mul_i64(l->term[i].factor, at, &product) || !add_i64(sum, product, &sum)) return false;
    }
    *out = sum;
    return true;
}

// ---- replacing a term by something that makes the form no greater

typedef bool Goal(Prover *p, const Linear *l, void *user);
static bool search(Prover *p, const Linear *l, int steps, Goal *goal, void *user);

static const Fact *fact_of(const Prover *p, const Node *n)
{
    return n->kind == N_VARREF ? map_get(&p->facts, n->u.var) : NULL;
}

static int depth_of(const Prover *p, const Node *n)
{
    const Fact *f = fact_of(p, n);
    int depth = f ? f->depth : 0;
    for (uint32_t i = 0; i < n->nkid; i++) {
        int d = depth_of(p, n->kid[i]);
        if (d > depth) depth = d;
    }
    return depth;
}

// The form without term i, plus factor * x + constant.
static bool replaced(Prover *p, const Linear *l, int i, Node *x, int64_t factor, int64_t constant,
                     int steps, Goal *goal, void *user)
{
    Linear next = *l;
    next.term[i] = next.term[--next.n];
    return add_i64(next.constant, constant, &next.constant) && add_node(&next, x, factor) &&
           search(p, &next, steps - 1, goal, user);
}

static bool replace_var(Prover *p, const Linear *l, int i, int steps, Goal *goal, void *user)
{
    const struct Term *t = &l->term[i];
    const Fact *f = fact_of(p, t->node);
    if (!f) return false;
    if (f->value) return replaced(p, l, i, f->value, t->factor, 0, steps, goal, user);
    if (t->factor > 0) return replaced(p, l, i, f->lo, t->factor, 0, steps, goal, user);
    return replaced(p, l, i, f->hi, t->factor, -t->factor, steps, goal, user);
}

// min(a, b) is at most either; max at least.
static bool replace_min_max(Prover *p, const Linear *l, int i, int steps, Goal *goal, void *user)
{
    const struct Term *t = &l->term[i];
    bool useful = t->node->kind == N_MIN ? t->factor < 0 : t->factor > 0;
    return useful && (replaced(p, l, i, t->node->kid[0], t->factor, 0, steps, goal, user) ||
                      replaced(p, l, i, t->node->kid[1], t->factor, 0, steps, goal, user));
}

// x - d + 1 <= d * (x / d) <= x, and both ends meet where d divides x.
static bool replace_div(Prover *p, const Linear *l, int i, int steps, Goal *goal, void *user)
{
    const struct Term *t = &l->term[i];
    Node *x = t->node->kid[0], *d = t->node->kid[1];
    if (d->kind != N_INT || d->u.i <= 0) return false;
    Node *simpler = arith_div(p->arena, x, d->u.i);
    if (!node_equal(simpler, t->node))
        return replaced(p, l, i, simpler, t->factor, 0, steps, goal, user);
    if (t->factor % d->u.i) return false;
    int64_t factor = t->factor / d->u.i;
    bool exact = node_divisor(x) % d->u.i == 0;
    int64_t constant = factor > 0 && !exact ? -factor * (d->u.i - 1) : 0;
    return replaced(p, l, i, x, factor, constant, steps, goal, user);
}

static bool replace(Prover *p, const Linear *l, int i, int steps, Goal *goal, void *user)
{
    const struct Term *t = &l->term[i];
    int64_t lo, hi, product;
    switch (t->node->kind) {
    case N_VARREF:
        if (replace_var(p, l, i, steps, goal, user)) return true;
        break;
    case N_MIN:
    case N_MAX:
        if (replace_min_max(p, l, i, steps, goal, user)) return true;
        break;
    case N_DIV:
        if (replace_div(p, l, i, steps, goal, user)) return true;
        break;
    default: break;
    }
    return node_bounds(t->node, &lo, &hi) &&
           mul_i64(t->factor, t->factor > 0 ? lo : hi, &product) &&
           replaced(p, l, i, node_i64(p->arena, 0), 1, product, steps, goal, user);
}

// The innermost term not yet tried first; among equals those that are no plain variables. -1: none.
static int innermost(const Prover *p, const Linear *l, unsigned tried)
{
    int best = -1, best_depth = -1;
    for (int i = 0; i < l->n; i++) {
        if (tried >> i & 1) continue;
        int depth = 2 * depth_of(p, l->term[i].node) + (l->term[i].node->kind != N_VARREF);
        if (depth > best_depth) {
            best_depth = depth;
            best = i;
        }
    }
    return best;
}

static bool search(Prover *p, const Linear *l, int steps, Goal *goal, void *user)
{
    if (goal(p, l, user)) return true;
    unsigned tried = 0;
    int i;
    while (steps > 0 && p->tries++ < MAX_TRIES && (i = innermost(p, l, tried)) >= 0) {
        if (replace(p, l, i, steps, goal, user)) return true;
        tried |= 1u << i; // it may cancel against what another one brings
    }
    return false;
}

static bool is_nonnegative(Prover *p, const Linear *l, void *user)
{
    UNUSED(p);
    UNUSED(user);
    int64_t lo;
    return least(l, &lo) && lo >= 0;
}

bool prove_nonnegative(Prover *p, Node *x)
{
    Linear l = {0};
    p->tries = 0;
    ArenaMark mark = arena_mark(p->arena);
    bool yes = add_node(&l, x, 1) && search(p, &l, MAX_STEPS, is_nonnegative, NULL);
    arena_reset(p->arena, mark);
    return yes;
}

// ---- what the block alone decides

static bool block_level(const Node *n)
{
    if (n->kind == N_VARREF)
        return n->u.var->builtin != VAR_NORMAL && n->u.var->builtin != VAR_THREAD &&
               n->u.var->builtin != VAR_LANE;
    if (!node_pure(n)) return false;
    for (uint32_t i = 0; i < n->nkid; i++) {
        if (!block_level(n->kid[i])) return false;
    }
    return true;
}

static bool is_block_level(Prover *p, const Linear *l, void *user)
{
    UNUSED(p);
    for (int i = 0; i < l->n; i++) {
        if (!block_level(l->term[i].node)) return false;
    }
    *(Linear *)user = *l;
    return true;
}

Node *prove_lower_bound_of_block(Prover *p, Node *x)
{
    Arena *a = p->arena;
    Linear l = {0}, found;
    p->tries = 0;
    if (!add_node(&l, x, 1) || !search(p, &l, MAX_STEPS, is_block_level, &found)) return NULL;
    Node *sum = node_i64(a, found.constant);
    for (int i = 0; i < found.n; i++) {
        Node *factor = node_i64(a, found.term[i].factor);
        sum = arith_add(a, sum, arith_mul(a, found.term[i].node, factor));
    }
    return sum;
}
