// SPDX-License-Identifier: Apache-2.0
// Buffers over a mapping of threads. Each thread holds its own tasks only, in their order: the
// element of task k of a thread is element k of the thread's plain local buffer. Where the index is
// that of a mapping loop over the same tasks, what is left of it is the loops of the repeats.
#include "passes/pass.h"

bool is_owner_buffer(const Buffer *b)
{
    if (!b->over || !b->over_worker) return false;
    return b->over_worker->kind != N_VARREF || b->over_worker->u.var->builtin != VAR_LANE;
}

// Projected dimensions count as index 0, replicas being equal; a custom part has one task.
Node *owner_task(Arena *a, const Mapping *m, Node *const *index)
{
    Node *part[MAPPING_MAX_RANK], *worker, *task;
    switch (m->kind) {
    case MAP_PROJECT:
        for (int i = 0; i < m->rank; i++) part[i] = m->fixed[i] ? node_i64(a, 0) : index[i];
        return owner_task(a, m->outer, part);
    case MAP_COMPOSE:
        for (int i = 0; i < m->rank; i++) part[i] = arith_div(a, index[i], m->inner->shape[i]);
        task = owner_task(a, m->outer, part);
        for (int i = 0; i < m->rank; i++) part[i] = arith_mod(a, index[i], m->inner->shape[i]);
        return arith_add(a, arith_mul(a, task, node_i64(a, m->inner->ntask)),
                         owner_task(a, m->inner, part));
    default: return mapping_inverse(a, m, index, &worker, &task) ? task : node_i64(a, 0);
    }
}

static Buffer *plain_buffer(Arena *a, Map *plain, Buffer *b)
{
    Buffer *p = map_get(plain, b);
    if (p) return p;
    p = arena_copy(a, b, sizeof *b);
    p->over = NULL;
    p->over_worker = NULL;
    p->layout = NULL;
    p->rank = 1;
    p->extent = NEW_ARRAY(a, Node *, 1);
    p->extent[0] = node_i64(a, b->over->ntask);
    map_put(a, plain, b, p);
    return p;
}

static Node *start_of(Node *index)
{
    return index->kind == N_SPAN ? KID(index, SPAN, lo) : index;
}

Node *owner_access(Arena *a, Map *plain, const Map *index_of, Node *n)
{
    bool uses = n->kind == N_LOAD || n->kind == N_STORE || n->kind == N_REF || n->kind == N_ALLOC;
    if (!uses || !is_owner_buffer(n->u.buf)) return n;
    Node *r = arena_copy(a, n, sizeof(Node) + n->nkid * sizeof(Node *));
    r->u.buf = plain_buffer(a, plain, n->u.buf);
    if (n->kind == N_ALLOC) return r;
    Node *index[MAPPING_MAX_RANK];
    for (int i = 0; i < NREST(n); i++)
        index[i] = arith_fold(a, node_subst(a, start_of(REST(n)[i]), index_of));
    r->nkid = (uint32_t)node_info[n->kind].nfixed + 1;
    REST(r)[0] = owner_task(a, n->u.buf->over, index);
    return r;
}
