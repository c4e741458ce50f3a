// SPDX-License-Identifier: Apache-2.0
// Local buffers to variables. A buffer whose accesses all have constant indices becomes one scalar
// variable an element; if they are whole aligned vectors of L lanes, one vector variable for L
// elements, where a single element is a lane.
#include "passes/pass.h"

enum { MAX_REGISTERS = 256 };

typedef struct Registers {
    Buffer *buffer;
    int lanes; // of a variable; 0: not known yet
    bool refused;
    int n;
    Var **var;
} Registers;

typedef struct Promote {
    Kernel *kernel;
    Map of; // Buffer -> Registers
} Promote;

static Registers *registers_of(Promote *p, Buffer *b)
{
    if (b->space != SPACE_LOCAL || b->is_mbarrier) return NULL;
    Registers *r = map_get(&p->of, b);
    if (r) return r;
    r = NEW(p->kernel->arena, Registers);
    r->buffer = b;
    r->refused = b->rank != 1 || b->extent[0]->kind != N_INT || b->alias != NULL;
    map_put(p->kernel->arena, &p->of, b, r);
    return r;
}

// The index without the mask of a masked store.
static Node *unmasked(Node *index, Node **mask)
{
    *mask = NULL;
    if (index->kind != N_SELECT || index->lanes == 1) return index;
    *mask = KID(index, SELECT, cond);
    return KID(index, SELECT, a);
}

static void note_access(Registers *r, Node *index)
{
    Node *mask, *at = unmasked(index, &mask);
    int64_t size = r->refused ? 0 : r->buffer->extent[0]->u.i;
    bool whole = at->kind == N_RAMP && at->u.i == 1 && at->kid[0]->kind == N_INT;
    if (whole) {
        int64_t base = at->kid[0]->u.i;
        if (r->lanes && r->lanes != at->lanes) r->refused = true;
        r->lanes = at->lanes;
        if (base < 0 || base % at->lanes || base + at->lanes > size) r->refused = true;
    } else if (at->kind != N_INT || at->u.i < 0 || at->u.i >= size || mask) {
        r->refused = true;
    }
}

static Node *scan(void *user, Node *n)
{
    Promote *p = user;
    bool access = n->kind == N_LOAD || n->kind == N_STORE;
    if (access || n->kind == N_REF) {
        Registers *r = registers_of(p, n->u.buf);
        if (r && access && NREST(n) == 1) note_access(r, REST(n)[0]);
        if (r && (!access || NREST(n) != 1)) r->refused = true;
    }
    return node_map(p->kernel->arena, n, scan, p);
}

static bool make_vars(Promote *p, Registers *r)
{
    if (r->refused) return false;
    int lanes = r->lanes ? r->lanes : 1;
    int64_t size = r->buffer->extent[0]->u.i;
    if (size % lanes || size / lanes > MAX_REGISTERS) return false;
    r->lanes = lanes;
    r->n = (int)(size / lanes);
    r->var = NEW_ARRAY(p->kernel->arena, Var *, r->n);
    for (int i = 0; i < r->n; i++) {
        r->var[i] = kernel_var(p->kernel, r->buffer->name, r->buffer->type, true);
        r->var[i]->lanes = (uint16_t)lanes;
        r->var[i]->loc = r->buffer->loc;
    }
    return true;
}

static const Registers *promoted(const Promote *p, const Buffer *b)
{
    const Registers *r = map_get(&p->of, b);
    return r && r->var ? r : NULL;
}

static Node *load_register(Promote *p, const Registers *r, Node *n)
{
    Arena *a = p->kernel->arena;
    Node *mask, *at = unmasked(REST(n)[0], &mask);
    int64_t element = at->kind == N_INT ? at->u.i : at->kid[0]->u.i;
    Node *whole = node_var(a, n->loc, r->var[element / r->lanes]);
    if (at->kind == N_RAMP || r->lanes == 1) return whole;
    Node *lane = node_i64(a, element % r->lanes);
    return node_make(a, N_EXTRACT, n->loc, 2, (Node *[]){whole, lane});
}

static Node *store_register(Promote *p, const Registers *r, Node *n)
{
    Arena *a = p->kernel->arena;
    Node *mask, *at = unmasked(REST(n)[0], &mask), *value = KID(n, STORE, value);
    int64_t element = at->kind == N_INT ? at->u.i : at->kid[0]->u.i;
    Var *v = r->var[element / r->lanes];
    if (at->kind == N_INT && r->lanes > 1) {
        Node *lane = arith_widen(a, node_i64(a, element % r->lanes), r->lanes);
        mask = node_binary(a, N_EQ, arith_ramp(a, node_i64(a, 0), 1, r->lanes), lane);
    }
    value = arith_widen(a, value, r->lanes);
    if (mask) value = node_select(a, mask, value, node_var(a, n->loc, v));
    return make_set(a, n->loc, v, value);
}

static void declare(Promote *p, const Registers *r, Node *alloc, Statements *out)
{
    Arena *a = p->kernel->arena;
    Node *init = KID(alloc, ALLOC, init);
    bool simple = !init || init->kind == N_INT || init->kind == N_FLOAT;
    if (!simple) {
        Var *v = kernel_var(p->kernel, "init", (DType)init->type, false);
        VEC_PUSH(a, &out->list, make_define(a, alloc->loc, v, init));
        init = node_var(a, alloc->loc, v);
    }
    for (int i = 0; i < r->n; i++) {
        Node *value = init ? arith_widen(a, init, r->lanes) : NULL;
        Node *d = node_make(a, N_DECLARE, alloc->loc, 1, &value);
        d->u.var = r->var[i];
        VEC_PUSH(a, &out->list, d);
    }
}

static Node *rewrite(void *user, Node *n);

static Node *rewrite_seq(Promote *p, Node *n)
{
    Statements s = {.arena = p->kernel->arena};
    for (uint32_t i = 0; i < n->nkid; i++) {
        Node *stmt = rewrite(p, n->kid[i]);
        const Registers *r = stmt->kind == N_ALLOC ? promoted(p, stmt->u.buf) : NULL;
        if (r) declare(p, r, stmt, &s);
        else VEC_PUSH(s.arena, &s.list, stmt);
    }
    return node_make(s.arena, N_SEQ, n->loc, s.list.n, s.list.at);
}

static Node *rewrite(void *user, Node *n)
{
    Promote *p = user;
    if (n->kind == N_SEQ) return rewrite_seq(p, n);
    n = node_map(p->kernel->arena, n, rewrite, p);
    const Registers *r = n->kind == N_LOAD || n->kind == N_STORE ? promoted(p, n->u.buf) : NULL;
    if (!r) return n;
    return n->kind == N_LOAD ? load_register(p, r, n) : store_register(p, r, n);
}

bool registers_promote(PassContext *c)
{
    Promote p = {.kernel = c->kernel};
    pass_bodies(c->kernel, scan, &p);
    bool any = false;
    for (int i = 0; i < p.of.n; i++) any |= make_vars(&p, p.of.entry[i].value);
    if (any) pass_bodies(c->kernel, rewrite, &p);
    return true;
}
