// SPDX-License-Identifier: Apache-2.0
// Names for scalars that are computed more than once: in several statements of a block, or again
// and again by a loop that does not change them. The name stands before the first statement that
// needs it, as far out as the variables in it allow. Of vectors, only what neighbouring statements
// load alike gets a name, on the CPU: unrolled tiles load the same again and again, which compilers
// find out at length. Other vectors stay where they are: the backend reads addresses and masks off
// their form.
#include "passes/pass.h"

#include <string.h>

typedef struct Shared {
    uint64_t hash;
    Node *expr;
    int count;
    bool looped; // inside a loop that leaves it alone
    Var *name;
} Shared;

typedef struct Block {
    Kernel *kernel;
    VEC(Shared) found;
    int *slot; // open addressing by hash, 0: free, else 1 + index
    int nslot;
    const Map *bound; // variables that the statement at hand binds inside
    bool looped;
    Statements *before; // where names go; NULL while counting
} Block;

static Node *hoist(void *user, Node *n);

static bool binds(const Node *n)
{
    return n->kind == N_DEFINE || n->kind == N_DECLARE || n->kind == N_LOOP;
}

static void collect_bound(Arena *a, Map *bound, Node *n, bool inside)
{
    if (binds(n) && (inside || n->kind == N_LOOP)) map_put(a, bound, n->u.var, n);
    for (uint32_t i = 0; i < n->nkid; i++) {
        if (n->kid[i] && node_info[n->kid[i]->kind].class == CLASS_S)
            collect_bound(a, bound, n->kid[i], true);
    }
}

static bool uses_bound(const Block *b, const Node *n)
{
    if (n->kind == N_VARREF) return map_has(b->bound, n->u.var);
    for (uint32_t i = 0; i < n->nkid; i++) {
        if (uses_bound(b, n->kid[i])) return true;
    }
    return false;
}

// Steps that an address cannot do for free.
static int cost(const Node *n)
{
    int sum = 0;
    switch (n->kind) {
    case N_INT:
    case N_FLOAT:
    case N_VARREF: return 0;
    case N_DIV:
    case N_MOD:
    case N_INTRIN: sum = 3; break;
    default: sum = 1;
    }
    for (uint32_t i = 0; i < n->nkid; i++) sum += cost(n->kid[i]);
    return sum;
}

// A constant behind a sum is free in an address: what it is added to gets the name, and many share
// it.
static bool is_candidate(const Block *b, const Node *n)
{
    if (n->kind == N_ADD && n->kid[1]->kind == N_INT) return false;
    return node_info[n->kind].class == CLASS_E && n->lanes == 1 && n->nkid > 0 &&
           n->type != DT_BOOL && node_pure(n) && cost(n) >= 3 && !uses_bound(b, n);
}

static Shared *find(Block *b, Node *n)
{
    uint64_t h = node_hash(n);
    if (b->found.n * 2 >= b->nslot) {
        b->nslot = b->nslot ? b->nslot * 2 : 64;
        b->slot = NEW_ARRAY(b->kernel->arena, int, b->nslot);
        for (int i = 0; i < b->found.n; i++) {
            uint64_t at = b->found.at[i].hash;
            while (b->slot[at % (uint64_t)b->nslot]) at++;
            b->slot[at % (uint64_t)b->nslot] = i + 1;
        }
    }
    uint64_t at = h;
    for (int i; (i = b->slot[at % (uint64_t)b->nslot]) != 0; at++) {
        Shared *s = &b->found.at[i - 1];
        if (s->hash == h && node_equal(s->expr, n)) return s;
    }
    VEC_PUSH(b->kernel->arena, &b->found, ((Shared){.hash = h, .expr = n}));
    b->slot[at % (uint64_t)b->nslot] = b->found.n;
    return &VEC_LAST(&b->found);
}

static Node *named(Block *b, Shared *s)
{
    Arena *a = b->kernel->arena;
    if (!s->name) {
        s->name = kernel_var(b->kernel, "s", (DType)s->expr->type, false);
        s->name->lanes = s->expr->lanes;
        bounds_define(s->name, s->expr);
        VEC_PUSH(a, &b->before->list, make_define(a, s->expr->loc, s->name, s->expr));
    }
    return node_var(a, s->expr->loc, s->name);
}

// Counts the largest candidates of a statement, or replaces those worth a name.
static Node *visit(void *user, Node *n)
{
    Block *b = user;
    if (is_candidate(b, n)) {
        Shared *s = find(b, n);
        if (b->before) return s->count > 1 || s->looped ? named(b, s) : n;
        s->count++;
        s->looped |= b->looped;
        return n;
    }
    bool outer = b->looped;
    b->looped |= n->kind == N_LOOP || n->kind == N_WHILE;
    n = node_map(b->kernel->arena, n, visit, b);
    b->looped = outer;
    return n;
}

// ---- vectors that neighbours load alike

// Whether nothing writes the buffer while the kernel runs.
static bool is_fixed(const Kernel *k, const Buffer *b)
{
    if (b->space != SPACE_GLOBAL || b->output || b->alias) return false;
    for (int i = 0; i < k->params.n; i++)
        if (k->params.at[i]->alias == b) return false;
    for (int i = 0; i < k->workspace.n; i++)
        if (k->workspace.at[i]->alias == b) return false;
    return true;
}

// Whether it has the same value wherever it stands; *loads: it reads memory.
static bool is_steady(const Kernel *k, const Node *n, bool *loads)
{
    *loads |= n->kind == N_LOAD;
    if (n->kind == N_LOAD ? !is_fixed(k, n->u.buf) : n->nkid == 0 && !node_pure(n)) return false;
    if (n->kind == N_LOAD_ELSE || n->kind == N_REF) return false;
    if (n->kind == N_INTRIN && !strchr(n->u.intr->flags, 'P')) return false;
    for (uint32_t i = 0; i < n->nkid; i++)
        if (n->kid[i] && !is_steady(k, n->kid[i], loads)) return false;
    return true;
}

// What is always evaluated. Arms of a selection are not, and may be outside of their buffer.
static Node *visit_loads(void *user, Node *n)
{
    Block *b = user;
    bool loads = false;
    if (n->kind == N_SELECT && n->lanes == 1) return n;
    if (n->lanes > 1 && n->type != DT_BOOL && is_steady(b->kernel, n, &loads) && loads) {
        Shared *s = find(b, n);
        if (b->before) return s->count > 1 ? named(b, s) : n;
        s->count++;
        return n;
    }
    if (n->kind == N_SELECT || n->kind == N_LAND || n->kind == N_LOR) return n;
    return node_map(b->kernel->arena, n, visit_loads, b);
}

static bool is_plain(const Node *n)
{
    return n->kind == N_DEFINE || n->kind == N_DECLARE || n->kind == N_SET;
}

// Runs of statements without effect but on variables.
static Node *share_loads(Kernel *k, Node *n)
{
    Arena *a = k->arena;
    Statements out = {.arena = a};
    for (uint32_t first = 0, end; first < n->nkid; first = end) {
        for (end = first; end < n->nkid && is_plain(n->kid[end]);) end++;
        Block b = {.kernel = k};
        for (uint32_t i = first; i < end; i++) visit_loads(&b, n->kid[i]);
        b.before = &out;
        for (uint32_t i = first; i < end; i++) {
            Node *stmt = visit_loads(&b, n->kid[i]);
            VEC_PUSH(a, &out.list, stmt);
        }
        if (end == first) VEC_PUSH(a, &out.list, n->kid[end++]);
    }
    return node_make(a, N_SEQ, n->loc, out.list.n, out.list.at);
}

// ---- statements

static Node *hoist_seq(Kernel *k, Node *n)
{
    Arena *a = k->arena;
    if (k->target.kind == TARGET_CPU) n = share_loads(k, n);
    Block b = {.kernel = k};
    Map *bound = NEW_ARRAY(a, Map, n->nkid + 1);
    for (uint32_t i = 0; i < n->nkid; i++) {
        collect_bound(a, &bound[i], n->kid[i], false);
        b.bound = &bound[i];
        visit(&b, n->kid[i]);
    }
    Statements out = {.arena = a};
    b.before = &out;
    for (uint32_t i = 0; i < n->nkid; i++) {
        b.bound = &bound[i];
        Node *stmt = visit(&b, n->kid[i]);
        VEC_PUSH(a, &out.list, node_map(a, stmt, hoist, k));
    }
    return node_make(a, N_SEQ, n->loc, out.list.n, out.list.at);
}

static Node *hoist(void *user, Node *n)
{
    Kernel *k = user;
    if (node_info[n->kind].class != CLASS_S) return n;
    return n->kind == N_SEQ ? hoist_seq(k, n) : node_map(k->arena, n, hoist, k);
}

bool pass_hoist(PassContext *c)
{
    pass_bodies(c->kernel, hoist, c->kernel);
    return true;
}
