// SPDX-License-Identifier: Apache-2.0
// Small builders that every pass uses.
#include "passes/pass.h"

void pass_bodies(Kernel *k, NodeFn *f, void *user)
{
    for (int i = 0; i < k->stages.n; i++) {
        Stage *s = k->stages.at[i];
        Node *body = f(user, s->body);
        s->body = body->kind == N_SEQ ? body : node_make(k->arena, N_SEQ, body->loc, 1, &body);
    }
}

void statements_add(Statements *s, Node *stmt)
{
    if (stmt && !(stmt->kind == N_SEQ && stmt->nkid == 0)) VEC_PUSH(s->arena, &s->list, stmt);
}

Node *statements_seq(const Statements *s, Loc loc)
{
    return node_seq(s->arena, loc, s->list.n, s->list.at);
}

Node *make_loop(Arena *a, Loc loc, Var *v, Node *lo, Node *hi, LoopAttr attr, Node *body)
{
    Node *n = node_make(a, N_LOOP, loc, 3, (Node *[]){lo, hi, body});
    n->u.var = v;
    n->sub = (uint8_t)attr;
    return n;
}

static Node *with_var(Arena *a, NodeKind kind, Loc loc, Var *v, Node *value)
{
    Node *n = node_make(a, kind, loc, 1, &value);
    n->u.var = v;
    return n;
}

Node *make_define(Arena *a, Loc loc, Var *v, Node *value)
{
    return with_var(a, N_DEFINE, loc, v, value);
}

Node *make_set(Arena *a, Loc loc, Var *v, Node *value)
{
    return with_var(a, N_SET, loc, v, value);
}

Node *make_if(Arena *a, Loc loc, Node *cond, Node *then, Node *other)
{
    return node_make(a, N_IF, loc, 3, (Node *[]){cond, then, other});
}

Node *make_load(Arena *a, Loc loc, Buffer *b, int n, Node *const *index)
{
    Node *load = node_make(a, N_LOAD, loc, n, index);
    load->u.buf = b;
    load->type = (uint8_t)b->type;
    load->lanes = 1;
    for (int i = 0; i < n; i++) {
        if (index[i]->lanes > load->lanes) load->lanes = index[i]->lanes;
    }
    return load;
}

Node *make_store(Arena *a, Loc loc, Buffer *b, int n, Node *const *index, Node *value, int guard)
{
    Node *store = node_new(a, N_STORE, loc, n + 1);
    store->u.buf = b;
    store->sub = (uint8_t)guard;
    store->kid[KID_STORE_value] = value;
    for (int i = 0; i < n; i++) REST(store)[i] = index[i];
    return store;
}

Var *index_var(Kernel *k, const char *name, int64_t extent)
{
    Var *v = kernel_var(k, name, DT_I64, false);
    v->lo = 0;
    v->hi = extent - 1;
    return v;
}

bool leaves_loop(const Node *n)
{
    if (n->kind == N_BREAK || n->kind == N_CONTINUE) return true;
    if (n->kind == N_LOOP || n->kind == N_WHILE) return false;
    for (uint32_t i = 0; i < n->nkid; i++) {
        if (n->kid[i] && leaves_loop(n->kid[i])) return true;
    }
    return false;
}

int64_t count_nodes(const Node *n)
{
    int64_t count = 1;
    for (uint32_t i = 0; i < n->nkid; i++) {
        if (n->kid[i]) count += count_nodes(n->kid[i]);
    }
    return count;
}

// ---- copies

typedef struct Copy {
    Kernel *kernel;
    Map *values;
} Copy;

static void rename_var(Copy *c, Var *v)
{
    Arena *a = c->kernel->arena;
    Var *fresh = arena_copy(a, v, sizeof *v);
    fresh->id = c->kernel->next_id++;
    map_put(a, c->values, v, node_var(a, v->loc, fresh));
}

static Node *copy(void *user, Node *n)
{
    Copy *c = user;
    Arena *a = c->kernel->arena;
    if (n->kind == N_VARREF) {
        Node *value = map_get(c->values, n->u.var);
        return value ? value : n;
    }
    bool binds = n->kind == N_DEFINE || n->kind == N_DECLARE || n->kind == N_LOOP;
    for (int i = 0; n->kind == N_MAPFOR && i < NREST(n); i++) rename_var(c, REST(n)[i]->u.var);
    if (n->kind == N_LOOP) rename_var(c, n->u.var);
    Node *new = node_map(a, n, copy, c);
    if (binds && n->kind != N_LOOP) rename_var(c, n->u.var);
    if (!binds && n->kind != N_SET) return new;
    Node *other = map_get(c->values, n->u.var);
    if (!other) return new;
    if (new == n) new = arena_copy(a, n, sizeof(Node) + n->nkid * sizeof(Node *));
    new->u.var = other->u.var;
    return new;
}

Node *copy_fresh(Kernel *k, Node *n, Map *values)
{
    return copy(&(Copy){k, values}, n);
}
