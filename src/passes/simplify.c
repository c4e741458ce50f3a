// SPDX-License-Identifier: Apache-2.0
// Folding, constants and names in place of the variables that stand for them, and dead branches.
#include "passes/pass.h"
#include "passes/rules.h"

enum { MAX_REWRITES = 64 };

typedef struct Simplify {
    Kernel *kernel;
    const Rules *rules;
    Map value; // Var -> what to write for it
    bool changed;
} Simplify;

// What may be written wherever its name stood: costs nothing and means the same everywhere.
static bool trivial(const Node *n)
{
    switch (n->kind) {
    case N_INT:
    case N_FLOAT: return true;
    case N_VARREF: return !n->u.var->mutable;
    case N_RAMP:
    case N_BROADCAST: return trivial(n->kid[0]);
    default: return false;
    }
}

static Node *visit(void *user, Node *n);

static bool is_empty(const Node *n)
{
    return n->kind == N_SEQ && n->nkid == 0;
}

static Node *simplify_seq(Simplify *s, Node *n)
{
    Statements out = {.arena = s->kernel->arena};
    bool same = true;
    for (uint32_t i = 0; i < n->nkid; i++) {
        Node *stmt = visit(s, n->kid[i]);
        same &= stmt == n->kid[i];
        if (stmt->kind == N_DEFINE && trivial(KID(stmt, DEFINE, value))) {
            map_put(s->kernel->arena, &s->value, stmt->u.var, KID(stmt, DEFINE, value));
            s->changed = true;
            same = false;
            continue;
        }
        same &= !is_empty(stmt);
        statements_add(&out, stmt);
    }
    return same ? n : statements_seq(&out, n->loc);
}

static Node *empty(Simplify *s, Loc loc)
{
    return node_seq(s->kernel->arena, loc, 0, NULL);
}

static Node *simplify_if(Simplify *s, Node *n)
{
    Node *cond = KID(n, IF, cond), *then = KID(n, IF, then), *other = KID(n, IF, other);
    if (cond->kind == N_INT) {
        Node *taken = cond->u.i ? then : other;
        return taken ? taken : empty(s, n->loc);
    }
    if (!node_pure(cond)) return n;
    if (is_empty(then) && (!other || is_empty(other))) return empty(s, n->loc);
    // Guards that were proved may be all that told two paths apart.
    return other && node_equal(then, other) ? then : n;
}

static Node *simplify_loop(Simplify *s, Node *n)
{
    Node *lo = KID(n, LOOP, lo), *hi = KID(n, LOOP, hi);
    bool none = lo->kind == N_INT && hi->kind == N_INT && lo->u.i >= hi->u.i;
    bool idle = is_empty(KID(n, LOOP, body)) && node_pure(lo) && node_pure(hi);
    return none || idle ? empty(s, n->loc) : n;
}

static Node *rewrite_kid(void *user, Node *n);

// By folding and rules until neither changes it. A rule's result may hold new parts to simplify.
static Node *rewrite(Simplify *s, Node *n)
{
    Arena *a = s->kernel->arena;
    n = node_fold(a, n);
    for (int i = 0; i < MAX_REWRITES; i++) {
        Node *next = rules_apply(s->rules, a, n, NULL);
        if (!next) break;
        n = node_fold(a, node_map(a, next, rewrite_kid, s));
    }
    return n;
}

static Node *rewrite_kid(void *user, Node *n)
{
    Simplify *s = user;
    if (n->nkid == 0) return n;
    return rewrite(s, node_map(s->kernel->arena, n, rewrite_kid, s));
}

static Node *visit(void *user, Node *n)
{
    Simplify *s = user;
    if (n->kind == N_VARREF) {
        Node *value = map_get(&s->value, n->u.var);
        return value ? value : n;
    }
    Node *old = n;
    if (n->kind == N_SEQ) return simplify_seq(s, n);
    n = node_map(s->kernel->arena, n, visit, s);
    switch (n->kind) {
    case N_IF: n = simplify_if(s, n); break;
    case N_LOOP: n = simplify_loop(s, n); break;
    case N_CHECK:
        if (KID(n, CHECK, cond)->kind == N_INT && KID(n, CHECK, cond)->u.i) n = empty(s, n->loc);
        break;
    default:
        if (node_info[n->kind].class == CLASS_E) n = rewrite(s, n);
        break;
    }
    s->changed |= n != old;
    return n;
}

Node *simplify_tree(Kernel *k, const Rules *rules, Node *n)
{
    Simplify s = {.kernel = k, .rules = rules, .changed = true};
    for (int i = 0; i < 8 && s.changed; i++) {
        s.changed = false;
        n = visit(&s, n);
    }
    return n;
}

bool pass_simplify(PassContext *c)
{
    Kernel *k = c->kernel;
    const Rules *rules = rules_new(k->arena);
    bounds_annotate(k);
    for (int i = 0; i < k->stages.n; i++) {
        Stage *s = k->stages.at[i];
        Node *body = simplify_tree(k, rules, s->body);
        s->body = body->kind == N_SEQ ? body : node_make(k->arena, N_SEQ, body->loc, 1, &body);
    }
    return true;
}

bool pass_simplify_first(PassContext *c)
{
    return pass_simplify(c);
}
