// SPDX-License-Identifier: Apache-2.0
// Loops of known length are written out where they ask for it, or where their variable picks
// elements of a local buffer that could then live in registers.
#include "passes/pass.h"
#include "passes/rules.h"

enum {
    MAX_TRIPS = 64,
    MAX_COPIED_NODES = 60000,
    MAX_LOCAL_ELEMENTS = 16384,
    MAX_TAIL_NODES = 1500 // of a nest that only reads registers, written out
};

typedef struct Unroll {
    Kernel *kernel;
    const Rules *rules;
    Map short_loops; // Var of a loop of few known trips
    Map fixed;       // local Buffer -> itself, or NULL once indexed by anything else
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
        bool fits = small(b) && !(map_has(&u->fixed, b) && !map_get(&u->fixed, b));
        for (int i = 0; i < NREST(n); i++) fits &= only_short_loops(u, REST(n)[i]);
        map_put(u->kernel->arena, &u->fixed, b, fits ? b : NULL);
    }
    return node_map(u->kernel->arena, n, find_locals, u);
}

// Whether v, or a name defined by it inside n, indexes a buffer that could be registers.
static bool picks_registers(const Unroll *u, const Node *n, const Var *v)
{
    bool access = n->kind == N_LOAD || n->kind == N_STORE || n->kind == N_REF;
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
    bool asked = loop->sub == LOOP_UNROLL_FULL || (loop->sub == LOOP_UNROLL && !loop->flags);
    if (n <= 1 || asked) return true;
    return picks_registers(u, body, loop->u.var);
}

// ---- long bodies that only read registers, such as a costly epilogue: the registers are put into
// memory once, and the loop stays a loop

typedef struct Reads {
    const Unroll *u;
    Buffer *buf; // the only one read, or NULL
    int lanes;
    bool others; // more than that: another buffer, other lanes, or a store
} Reads;

static Node *find_reads(void *user, Node *n)
{
    Reads *r = user;
    bool access = n->kind == N_LOAD || n->kind == N_STORE || n->kind == N_REF;
    if (access && n->u.buf->space == SPACE_LOCAL && map_get(&r->u->fixed, n->u.buf)) {
        bool first = !r->buf;
        if (first) r->buf = n->u.buf, r->lanes = n->lanes;
        r->others |= n->kind != N_LOAD || n->u.buf != r->buf || n->lanes != r->lanes;
    }
    return node_map(r->u->kernel->arena, n, find_reads, r);
}

static int64_t nodes_written_out(const Node *n)
{
    int64_t sum = 1, lo, count;
    for (uint32_t i = 0; i < n->nkid; i++)
        if (n->kid[i]) sum += nodes_written_out(n->kid[i]);
    return n->kind == N_LOOP && trips(n, &lo, &count) ? sum * max_i64(count, 1) : sum;
}

// to[...] = from[...], element by element of the first axes, a vector at a time along the last.
static Node *copy_buffer(Unroll *u, Loc loc, Buffer *from, Buffer *to, int lanes)
{
    Arena *a = u->kernel->arena;
    Node *index[MAPPING_MAX_RANK];
    Var *var[MAPPING_MAX_RANK];
    int64_t count[MAPPING_MAX_RANK];
    int last = from->rank - 1;
    for (int i = 0; i <= last; i++) {
        count[i] = from->extent[i]->u.i / (i == last ? lanes : 1);
        var[i] = index_var(u->kernel, "e", count[i]);
        index[i] = node_var(a, loc, var[i]);
    }
    if (lanes > 1) {
        Node *ramp = node_new(a, N_RAMP, loc, 1);
        ramp->kid[0] = node_binary(a, N_MUL, index[last], node_i64(a, lanes));
        ramp->u.i = 1;
        ramp->type = DT_I64;
        ramp->lanes = (uint16_t)lanes;
        index[last] = ramp;
    }
    Node *load = make_load(a, loc, from, from->rank, index);
    load->lanes = (uint16_t)lanes;
    Node *body = make_store(a, loc, to, from->rank, index, load, GUARD_NONE);
    for (int i = last; i >= 0; i--)
        body = make_loop(a, loc, var[i], node_i64(a, 0), node_i64(a, count[i]), LOOP_UNROLL_FULL,
                         body);
    return body;
}

typedef struct Redirect {
    Arena *arena;
    const Buffer *from;
    Buffer *to;
} Redirect;

static Node *redirect(void *user, Node *n)
{
    Redirect *r = user;
    n = node_map(r->arena, n, redirect, r);
    if (n->kind != N_LOAD || n->u.buf != r->from) return n;
    Node *copy = arena_copy(r->arena, n, sizeof *n + n->nkid * sizeof *n->kid);
    copy->u.buf = r->to;
    return copy;
}

static Node *keep_tails(void *user, Node *n)
{
    Unroll *u = user;
    Arena *a = u->kernel->arena;
    int64_t lo, count;
    bool picks = n->kind == N_LOOP && trips(n, &lo, &count) &&
                 picks_registers(u, KID(n, LOOP, body), n->u.var);
    if (!picks || nodes_written_out(n) <= MAX_TAIL_NODES) return node_map(a, n, keep_tails, u);
    Reads r = {.u = u};
    find_reads(&r, n);
    Buffer *b = r.buf;
    if (r.others || b->rank > MAPPING_MAX_RANK || b->rank < 1 ||
        b->extent[b->rank - 1]->u.i % r.lanes)
        return n;
    Buffer *kept = kernel_buffer(u->kernel, b->name, SPACE_LOCAL, b->type, b->rank, b->extent);
    int id = kept->id;
    *kept = *b;
    kept->id = id;
    map_put(a, &u->fixed, kept, NULL);
    Node *alloc = node_new(a, N_ALLOC, n->loc, 1);
    alloc->u.buf = kept;
    Redirect to = {.arena = a, .from = b, .to = kept};
    return node_seq(a, n->loc, 3,
                    (Node *[]){alloc, copy_buffer(u, n->loc, b, kept, r.lanes), redirect(&to, n)});
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
        statements_add(&s, simplify_tree(u->kernel, u->rules,
                                         copy_fresh(u->kernel, KID(n, LOOP, body), &value)));
    }
    return statements_seq(&s, n->loc);
}

bool pass_unroll(PassContext *c)
{
    Unroll u = {.kernel = c->kernel, .rules = rules_new(c->kernel->arena)};
    pass_bodies(c->kernel, find_loops, &u);
    pass_bodies(c->kernel, find_locals, &u);
    if (c->kernel->target.kind == TARGET_CPU) pass_bodies(c->kernel, keep_tails, &u);
    pass_bodies(c->kernel, visit, &u);
    return true;
}
