// SPDX-License-Identifier: Apache-2.0
// Buffers over a mapping of lanes. One core owns all lanes, so such a buffer is plain memory of the
// core. Its order is that of registers: element of task k and lane l at k * lanes + l, which makes
// a task's access by all lanes one vector. Where lanes share elements, it keeps its coordinates.
#include "passes/vectorise.h"

typedef struct Flatten {
    Kernel *kernel;
    Map plain; // Buffer over lanes -> plain Buffer
} Flatten;

Node *mask_take(Node **index)
{
    Node *x = *index;
    if (x->kind != N_SELECT || x->lanes == 1) return NULL;
    Node *off = KID(x, SELECT, b);
    if (off->kind != N_BROADCAST || !node_is_const(off->kid[0], -1)) return NULL;
    *index = KID(x, SELECT, a);
    return KID(x, SELECT, cond);
}

Node *mask_put(Arena *a, Node *mask, Node *index)
{
    if (!mask) return index;
    Node *off = arith_widen(a, node_i64(a, -1), mask->lanes);
    return node_select(a, mask, arith_widen(a, index, mask->lanes), off);
}

static bool is_over_lanes(const Buffer *b)
{
    return b->over && b->over_worker && b->over_worker->kind == N_VARREF &&
           b->over_worker->u.var->builtin == VAR_LANE;
}

static bool register_index(Arena *a, const Buffer *b, Node *const *index, Node **flat)
{
    Node *worker, *task;
    if (!mapping_inverse(a, b->over, index, &worker, &task)) return false;
    *flat = arith_add(a, arith_mul(a, task, node_i64(a, b->over->nworker)), worker);
    return true;
}

static Buffer *plain_buffer(Flatten *f, Buffer *b)
{
    Arena *a = f->kernel->arena;
    if (!is_over_lanes(b)) return b;
    Buffer *plain = map_get(&f->plain, b);
    if (plain) return plain;
    Node *zero[MAPPING_MAX_RANK], *flat;
    for (int i = 0; i < b->rank; i++) zero[i] = node_i64(a, 0);
    plain = arena_copy(a, b, sizeof *b);
    plain->over = NULL;
    plain->over_worker = NULL;
    plain->layout = NULL;
    if (register_index(a, b, zero, &flat)) {
        plain->rank = 1;
        plain->extent = NEW_ARRAY(a, Node *, 1);
        plain->extent[0] = node_i64(a, b->over->ntask * b->over->nworker);
    }
    map_put(a, &f->plain, b, plain);
    return plain;
}

static Node *visit(void *user, Node *n)
{
    Flatten *f = user;
    Arena *a = f->kernel->arena;
    n = node_map(a, n, visit, f);
    bool uses = n->kind == N_LOAD || n->kind == N_STORE || n->kind == N_REF || n->kind == N_ALLOC;
    if (!uses || !is_over_lanes(n->u.buf)) return n;
    Node *index[MAPPING_MAX_RANK], *flat, *mask = NULL;
    int rank = NREST(n), lanes = 1;
    for (int i = 0; i < rank; i++) {
        index[i] = REST(n)[i];
        if (index[i]->lanes > lanes) lanes = index[i]->lanes;
        Node *m = mask_take(&index[i]);
        if (m) mask = m;
    }
    Node *r = arena_copy(a, n, sizeof(Node) + n->nkid * sizeof(Node *));
    r->u.buf = plain_buffer(f, n->u.buf);
    if (n->kind == N_ALLOC || !register_index(a, n->u.buf, index, &flat)) return r;
    r->nkid = (uint32_t)node_info[n->kind].nfixed + 1;
    REST(r)[0] = mask_put(a, mask, arith_widen(a, flat, lanes));
    return r;
}

void lane_buffers_flatten(Kernel *k)
{
    Flatten f = {.kernel = k};
    pass_bodies(k, visit, &f);
    for (int i = 0; i < f.plain.n; i++) {
        Buffer *b = f.plain.entry[i].value;
        if (b->alias) b->alias = plain_buffer(&f, b->alias);
    }
}
