// SPDX-License-Identifier: Apache-2.0
// Making kernels: variables, buffers, the shallow clone that a pass starts from, what a block has
// of shared memory, and the value of an expression over the dimensions of a launch.
#include "ir/kernel.h"

#include "ir/scalar.h"

#include <string.h>

Var *kernel_var(Kernel *k, const char *name, DType type, bool mutable)
{
    Var *v = NEW(k->arena, Var);
    v->name = arena_strdup(k->arena, name);
    v->id = k->next_id++;
    v->type = type;
    v->lanes = 1;
    v->mutable = mutable;
    v->lo = 1; // lo > hi: no bounds known
    v->hi = 0;
    v->divisor = 1;
    return v;
}

Buffer *kernel_buffer(Kernel *k, const char *name, Space space, DType type, int rank,
                      Node *const *extent)
{
    Buffer *b = NEW(k->arena, Buffer);
    b->name = arena_strdup(k->arena, name);
    b->id = k->next_id++;
    b->space = space;
    b->type = type;
    b->rank = rank;
    b->extent = arena_copy(k->arena, extent, (size_t)rank * sizeof *extent);
    b->param = -1;
    return b;
}

#define COPY_LIST(arena, list) \
    ((list).cap = (list).n,    \
     (list).at = arena_copy(arena, (list).at, (size_t)(list).n * sizeof *(list).at))

Kernel *kernel_clone(Arena *a, const Kernel *k)
{
    Kernel *copy = arena_copy(a, k, sizeof *k);
    copy->arena = a;
    COPY_LIST(a, copy->params);
    COPY_LIST(a, copy->dims);
    COPY_LIST(a, copy->workspace);
    COPY_LIST(a, copy->requirements);
    COPY_LIST(a, copy->stages);
    for (int i = 0; i < copy->stages.n; i++) {
        Stage *stage = arena_copy(a, copy->stages.at[i], sizeof *stage);
        COPY_LIST(a, stage->memory);
        copy->stages.at[i] = stage;
    }
    return copy;
}

// ---- shared memory

int64_t buffer_element_bytes(const Buffer *b)
{
    return b->is_mbarrier ? 8 : (int64_t)dtype_size(b->type);
}

int64_t shared_begin(const Buffer *b, int64_t *end)
{
    int64_t align = max_i64(b->align_bytes, SHARED_ALIGN), size = b->layout ? b->layout->size : 1;
    for (int i = 0; i < b->rank && !b->layout; i++) size *= b->extent[i]->u.i;
    int64_t begin = (*end + align - 1) / align * align;
    *end = begin + size * buffer_element_bytes(b);
    return begin;
}

int64_t stage_shared_bytes(const Stage *s)
{
    int64_t end = 0;
    for (int i = 0; i < s->memory.n; i++)
        if (s->memory.at[i]->space == SPACE_SHARED && !s->memory.at[i]->alias)
            shared_begin(s->memory.at[i], &end);
    return end;
}

// ---- dimensions

static Scalar eval_dims(const Node *n, const Kernel *k, const int64_t *dims)
{
    Scalar x[SCALAR_MAX_OPERANDS], out;
    if (scalar_of(n, &out)) return out;
    if (n->kind == N_VARREF) {
        for (int i = 0; i < k->dims.n; i++) {
            if (k->dims.at[i] == n->u.var) return scalar_int(DT_I64, dims[i]);
        }
        BUG("variable %s is no dimension of the kernel", n->u.var->name);
    }
    ASSERT(n->nkid >= 1 && n->nkid <= SCALAR_MAX_OPERANDS);
    for (uint32_t i = 0; i < n->nkid; i++) x[i] = eval_dims(n->kid[i], k, dims);
    bool known = scalar_apply((NodeKind)n->kind, (DType)n->type, x, &out);
    if (!known) BUG("%s in an expression over dimensions", node_info[n->kind].name);
    return out;
}

int64_t node_eval_dims(const Node *n, const Kernel *k, const int64_t *dims)
{
    return eval_dims(n, k, dims).v.i;
}
