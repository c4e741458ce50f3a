// SPDX-License-Identifier: Apache-2.0
// Neighbours in global memory are loaded, and stored, side by side, so that the compiler for the
// GPU joins them to wide accesses: it does so only where nothing but arithmetic that it knows
// stands between. Within a run of statements without control flow, loads from parameters that the
// kernel does not write move up to the first of their group, stores down to the last.
#include "passes/pass.h"

#include <string.h>

enum { WIDEST = 16, MAX_GROUP = 16, MAX_ACCESSES = 512 };

// A load or store at base + offset, where base has only names from before the run.
typedef struct Access {
    Node *node;
    const Buffer *buffer;
    Node *base; // NULL: a constant address
    int64_t offset;
    int statement; // of the run, counted from its start
    Var *var;      // what stands for the load, or holds the value to be stored
    bool head;     // the first of a group of loads, the last of one of stores, with
    const struct Access *group[MAX_GROUP]; // one access to each element, in order
    int ngroup;
} Access;

typedef struct Run {
    Kernel *kernel;
    Map defined; // Var -> its value; NULL: not arithmetic of names
    VEC(Access *) loads;
    VEC(Access *) stores;
    Map access_of; // Node -> Access, of those that move
    Map read;      // Buffers of results that are loaded from
    int statement;
} Run;

// ---- addresses

// x / c * c + x % c is x.
static Node *rejoined(Node *n)
{
    Node *high = n->kind == N_ADD ? n->kid[0] : NULL, *low = high ? n->kid[1] : NULL;
    if (!high || high->kind != N_MUL || high->kid[0]->kind != N_DIV || low->kind != N_MOD) return n;
    const Node *divided = high->kid[0], *c = high->kid[1];
    bool same = c->kind == N_INT && c->u.i > 0 && node_equal(divided->kid[1], c) &&
                node_equal(low->kid[1], c) && node_equal(divided->kid[0], low->kid[0]);
    return same ? low->kid[0] : n;
}

// n by names from before the run; NULL if it is not arithmetic of such.
static Node *expanded(Run *r, Node *n)
{
    Arena *a = r->kernel->arena;
    if (n->kind == N_VARREF) {
        if (!map_has(&r->defined, n->u.var)) return n;
        return map_get(&r->defined, n->u.var);
    }
    if (!n->nkid) return n;
    if (n->kind == N_LOAD || n->kind == N_LOAD_ELSE || !node_pure(n)) return NULL;
    Node *copy = arena_copy(a, n, sizeof *n + n->nkid * sizeof(Node *));
    for (uint32_t i = 0; i < n->nkid; i++) {
        copy->kid[i] = expanded(r, n->kid[i]);
        if (!copy->kid[i]) return NULL;
    }
    return rejoined(node_fold(a, copy));
}

// (x + 1) * 4 is x * 4 + 4.
static Node *spread(Arena *a, Node *n)
{
    if (n->kind == N_ADD) return arith_add(a, spread(a, n->kid[0]), spread(a, n->kid[1]));
    if (n->kind != N_MUL || n->kid[1]->kind != N_INT) return n;
    Node *x = spread(a, n->kid[0]);
    if (x->kind != N_ADD) return arith_mul(a, x, n->kid[1]);
    return arith_add(a, spread(a, arith_mul(a, x->kid[0], n->kid[1])),
                     spread(a, arith_mul(a, x->kid[1], n->kid[1])));
}

static Access *access_new(Run *r, Node *n)
{
    Arena *a = r->kernel->arena;
    Node *index = REST(n)[0], *at = index->lanes == 1 ? expanded(r, index) : NULL;
    if (!at) return NULL;
    Access *x = NEW(a, Access);
    *x = (Access){.node = n, .buffer = n->u.buf, .statement = r->statement};
    x->base = arith_split(a, spread(a, at), &x->offset);
    return x;
}

// ---- a run

static bool is_param(const Kernel *k, const Buffer *b)
{
    for (int i = 0; i < k->params.n; i++)
        if (k->params.at[i] == b) return true;
    return false;
}

// What is computed whenever the statement is reached: no arm of a choice.
static void find_loads(Run *r, Node *n)
{
    if (!n) return;
    if (n->kind == N_LOAD && NREST(n) == 1 && is_param(r->kernel, n->u.buf)) {
        Access *x = !n->u.buf->output && r->loads.n < MAX_ACCESSES ? access_new(r, n) : NULL;
        if (x) VEC_PUSH(r->kernel->arena, &r->loads, x);
        if (n->u.buf->output) map_put(r->kernel->arena, &r->read, n->u.buf, n);
    }
    bool first_only = n->kind == N_SELECT || n->kind == N_LAND || n->kind == N_LOR;
    for (uint32_t i = 0; i < (first_only ? 1 : n->nkid); i++) find_loads(r, n->kid[i]);
}

// No intrinsic that others can tell.
static bool is_quiet(const Node *n)
{
    if (n->kind == N_INTRIN && !strchr(n->u.intr->flags, 'P')) return false;
    for (uint32_t i = 0; i < n->nkid; i++)
        if (n->kid[i] && !is_quiet(n->kid[i])) return false;
    return true;
}

// Whether statements can be put before and after it. Values of integers that change end a run.
static bool is_straight(Node *n)
{
    switch (n->kind) {
    case N_SEQ:
        for (uint32_t i = 0; i < n->nkid; i++)
            if (!is_straight(n->kid[i])) return false;
        return true;
    case N_SET: return dtype_is_float(n->u.var->type) && is_quiet(n);
    case N_DEFINE:
    case N_DECLARE: return is_quiet(n);
    case N_STORE: return NREST(n) == 1 && is_quiet(n);
    default: return false;
    }
}

static void enter(Run *r, Node *n)
{
    Arena *a = r->kernel->arena;
    if (n->kind == N_SEQ) {
        for (uint32_t i = 0; i < n->nkid; i++) enter(r, n->kid[i]);
        return;
    }
    for (uint32_t i = 0; i < n->nkid; i++) find_loads(r, n->kid[i]);
    if (n->kind == N_DEFINE) {
        bool whole = dtype_is_int(n->u.var->type) && n->u.var->lanes <= 1;
        map_put(a, &r->defined, n->u.var, whole ? expanded(r, KID(n, DEFINE, value)) : NULL);
    } else if (n->kind == N_DECLARE) {
        map_put(a, &r->defined, n->u.var, NULL);
    } else if (n->kind == N_STORE && n->u.buf->output && is_param(r->kernel, n->u.buf) &&
               KID(n, STORE, value)->lanes == 1 && r->stores.n < MAX_ACCESSES) {
        Access *x = access_new(r, n);
        if (x) VEC_PUSH(a, &r->stores, x);
    }
}

// ---- groups

static bool same_row(const Access *x, const Access *y)
{
    if (x->buffer != y->buffer || !x->base != !y->base) return false;
    return !x->base || node_equal(x->base, y->base);
}

// Whether elements from `offset` on are at a multiple of n elements.
static bool starts_group(const Access *x, int64_t n)
{
    int64_t bytes = n * (int64_t)dtype_size(x->buffer->type);
    return x->offset % n == 0 && (!x->base || node_divisor(x->base) % n == 0) &&
           x->buffer->align_bytes % bytes == 0 && x->buffer->align_bytes > 0;
}

// The first of the accesses to each of n elements from that of x on; false if one has none, or is
// in a group already.
static bool group_at(Access *const *all, int nall, int x, int n, Access **out)
{
    int found = 0;
    for (int i = 0; i < nall; i++) {
        int64_t k = all[i]->offset - all[x]->offset;
        if (k < 0 || k >= n || !same_row(all[i], all[x])) continue;
        if (all[i]->var) return false;
        if (out[k]) continue;
        out[k] = all[i];
        found++;
    }
    return found == n;
}

static bool twice(Access *const *all, int nall, Access *const *part, int n)
{
    int count = 0;
    for (int i = 0; i < nall; i++) {
        int64_t k = all[i]->offset - part[0]->offset;
        count += k >= 0 && k < n && same_row(all[i], part[0]);
    }
    return count > n;
}

static bool rounds(const Node *n);

// For a store of a rounded value, of the value before.
static Var *value_var(Run *r, const Access *x, bool store)
{
    DType t = store && rounds(KID(x->node, STORE, value)) ? DT_F32 : x->buffer->type;
    Var *v = kernel_var(r->kernel, x->buffer->name, t, store);
    v->loc = x->node->loc;
    return v;
}

// All accesses to an element share its variable.
static void form_group(Run *r, Access *const *all, int nall, Access *const *part, int n,
                       bool stores)
{
    Access *first = part[0], *last = part[0], *head;
    int64_t start = part[0]->offset;
    for (int k = 0; k < n; k++) part[k]->var = value_var(r, part[k], stores);
    for (int i = 0; i < nall; i++) {
        int64_t k = all[i]->offset - start;
        if (k < 0 || k >= n || !same_row(all[i], part[0])) continue;
        all[i]->var = part[k]->var;
        map_put(r->kernel->arena, &r->access_of, all[i]->node, all[i]);
        if (all[i]->statement < first->statement) first = all[i];
        if (all[i]->statement > last->statement) last = all[i];
    }
    head = stores ? last : first;
    head->head = true;
    head->ngroup = n;
    for (int k = 0; k < n; k++) head->group[k] = part[k];
}

static void group(Run *r, Access *const *all, int nall, bool stores)
{
    for (int i = 0; i < nall; i++) {
        int64_t n = min_i64(WIDEST / (int64_t)dtype_size(all[i]->buffer->type), MAX_GROUP);
        if (all[i]->var || (stores && map_has(&r->read, all[i]->buffer))) continue;
        for (; n > 1; n /= 2) {
            Access *part[MAX_GROUP] = {0};
            if (!starts_group(all[i], n) || !group_at(all, nall, i, (int)n, part)) continue;
            if (stores && twice(all, nall, part, (int)n)) continue;
            form_group(r, all, nall, part, (int)n, stores);
            break;
        }
    }
}

// ---- rewriting

static Node *address(Run *r, const Access *x)
{
    Arena *a = r->kernel->arena;
    Node *offset = node_i64(a, x->offset);
    return x->base ? x->offset ? arith_add(a, x->base, offset) : x->base : offset;
}

static Node *replace(void *user, Node *n)
{
    Run *r = user;
    Arena *a = r->kernel->arena;
    const Access *x = map_get(&r->access_of, n);
    if (x && n->kind == N_LOAD) return node_var(a, n->loc, x->var);
    if (x) {
        Node *value = KID(n, STORE, value);
        bool exact = value->type != (int)x->var->type;
        return make_set(a, n->loc, x->var, replace(r, exact ? value->kid[0] : value));
    }
    return node_map(a, n, replace, r);
}

static Node *stored(Run *r, const Access *x)
{
    Arena *a = r->kernel->arena;
    Node *value = node_var(a, x->node->loc, x->var);
    if (x->var->type == x->buffer->type) return value;
    value = node_make(a, N_CAST, x->node->loc, 1, &value);
    value->type = (uint8_t)x->buffer->type;
    value->lanes = 1;
    return value;
}

static void add_heads(Run *r, Access *const *all, int nall, int statement, bool stores,
                      Statements *out)
{
    Arena *a = r->kernel->arena;
    for (int i = 0; i < nall; i++) {
        if (!all[i]->head || all[i]->statement != statement) continue;
        for (int k = 0; k < all[i]->ngroup; k++) {
            const Access *x = all[i]->group[k];
            Node *at = address(r, x);
            Node *n = stores ? make_store(a, x->node->loc, (Buffer *)x->buffer, 1, &at,
                                          stored(r, x), x->node->sub)
                             : make_define(a, x->node->loc, x->var,
                                           make_load(a, x->node->loc, (Buffer *)x->buffer, 1, &at));
            VEC_PUSH(a, &out->list, n);
        }
    }
}

static void declare_values(Run *r, Statements *out)
{
    Arena *a = r->kernel->arena;
    for (int i = 0; i < r->stores.n; i++) {
        const Access *x = r->stores.at[i];
        if (!x->var) continue;
        Node *value = NULL, *d = node_make(a, N_DECLARE, x->node->loc, 1, &value);
        d->u.var = x->var;
        VEC_PUSH(a, &out->list, d);
    }
}

// The statements from..to of a SEQ, which form a run.
static void move_run(Kernel *k, Node *const *at, int from, int to, Statements *out)
{
    Run r = {.kernel = k};
    for (int i = from; i < to; i++) {
        r.statement = i;
        enter(&r, at[i]);
    }
    group(&r, r.loads.at, r.loads.n, false);
    group(&r, r.stores.at, r.stores.n, true);
    declare_values(&r, out);
    for (int i = from; i < to; i++) {
        add_heads(&r, r.loads.at, r.loads.n, i, false, out);
        VEC_PUSH(k->arena, &out->list, r.access_of.n ? replace(&r, at[i]) : at[i]);
        add_heads(&r, r.stores.at, r.stores.n, i, true, out);
    }
}

static Node *visit(void *user, Node *n)
{
    Kernel *k = user;
    if (n->kind != N_SEQ) return node_map(k->arena, n, visit, k);
    Statements out = {.arena = k->arena};
    for (int i = 0; i < (int)n->nkid;) {
        int end = i;
        while (end < (int)n->nkid && is_straight(n->kid[end])) end++;
        if (end > i) move_run(k, n->kid, i, end, &out);
        else VEC_PUSH(k->arena, &out.list, visit(k, n->kid[end++]));
        i = end;
    }
    return node_make(k->arena, N_SEQ, n->loc, out.list.n, out.list.at);
}

// ---- rounding: a store rounds anyway, so it takes the value from before

typedef struct Rounding {
    Kernel *kernel;
    Map exact; // Var that is a rounded f32 -> the Var of that
} Rounding;

static bool rounds(const Node *n)
{
    return n->kind == N_CAST && n->lanes == 1 && dtype_is_float((DType)n->type) &&
           dtype_size((DType)n->type) == 2 && n->kid[0]->type == DT_F32;
}

static Node *rounded_var(Rounding *r, Node *like, Var *v)
{
    Arena *a = r->kernel->arena;
    Node *exact = node_var(a, like->loc, v), *cast = node_make(a, N_CAST, like->loc, 1, &exact);
    cast->type = like->type;
    cast->lanes = 1;
    return cast;
}

static Node *unround(void *user, Node *n)
{
    Rounding *r = user;
    Arena *a = r->kernel->arena;
    n = node_map(a, n, unround, r);
    if (n->kind == N_STORE && KID(n, STORE, value)->kind == N_VARREF) {
        Node *value = KID(n, STORE, value);
        Var *v = map_get(&r->exact, value->u.var);
        if (!v) return n;
        n = arena_copy(a, n, sizeof *n + n->nkid * sizeof(Node *));
        KID(n, STORE, value) = rounded_var(r, value, v);
    }
    return n;
}

static Node *name_exact(void *user, Node *n)
{
    Rounding *r = user;
    Arena *a = r->kernel->arena;
    n = node_map(a, n, name_exact, r);
    if (n->kind != N_SEQ) return n;
    Statements s = {.arena = a};
    for (uint32_t i = 0; i < n->nkid; i++) {
        Node *stmt = n->kid[i];
        if (stmt->kind == N_DEFINE && rounds(stmt->kid[0])) {
            Var *v = kernel_var(r->kernel, stmt->u.var->name, DT_F32, false);
            v->loc = stmt->loc;
            map_put(a, &r->exact, stmt->u.var, v);
            VEC_PUSH(a, &s.list, make_define(a, stmt->loc, v, stmt->kid[0]->kid[0]));
            stmt = make_define(a, stmt->loc, stmt->u.var, rounded_var(r, stmt->kid[0], v));
        }
        VEC_PUSH(a, &s.list, stmt);
    }
    return node_make(a, N_SEQ, n->loc, s.list.n, s.list.at);
}

bool pass_neighbours(PassContext *c)
{
    Rounding r = {.kernel = c->kernel};
    if (c->kernel->target.kind != TARGET_CUDA) return true;
    pass_bodies(c->kernel, name_exact, &r);
    if (r.exact.n) pass_bodies(c->kernel, unround, &r);
    pass_bodies(c->kernel, visit, c->kernel);
    return true;
}
