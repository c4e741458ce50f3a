// SPDX-License-Identifier: Apache-2.0
// Coordinates become one index into flat storage, by the buffer's layout. Local buffers that are
// only indexed by constants, lane by lane or in whole vectors, become variables.
#include "passes/vectorise.h"

typedef struct Flatten {
    Kernel *kernel;
    Map flat; // Buffer -> its flat Buffer
} Flatten;

// ---- the storage index of a coordinate

static Node *layout_node(Arena *a, const Layout *l, Node *const *index);

static Node *strided(Arena *a, int rank, const int64_t *stride, Node *const *index)
{
    Node *sum = node_i64(a, 0);
    for (int i = 0; i < rank; i++)
        sum = arith_add(a, sum, arith_mul(a, index[i], node_i64(a, stride[i])));
    return sum;
}

static Node *composed(Arena *a, const Layout *l, Node *const *index)
{
    Node *outer[LAYOUT_MAX_RANK], *inner[LAYOUT_MAX_RANK];
    for (int i = 0; i < l->rank; i++) {
        outer[i] = arith_div(a, index[i], l->inner->shape[i]);
        inner[i] = arith_mod(a, index[i], l->inner->shape[i]);
    }
    Node *high = arith_mul(a, layout_node(a, l->outer, outer), node_i64(a, l->inner->size));
    return arith_add(a, high, layout_node(a, l->inner, inner));
}

static Node *swizzled(Arena *a, const Layout *l, Node *const *index)
{
    Node *moved[LAYOUT_MAX_RANK];
    for (int i = 0; i < l->rank; i++) moved[i] = index[i];
    Node *by = arith_div(a, index[l->by], (int64_t)1 << l->log_step);
    if (((l->shape[l->by] - 1) >> l->log_step) >= l->shape[l->dim])
        by = arith_mod(a, by, l->shape[l->dim]);
    moved[l->dim] = arith_binary(a, N_BXOR, index[l->dim], by);
    return layout_node(a, l->outer, moved);
}

static Node *permuted(Arena *a, const Layout *l, Node *const *index)
{
    Node *moved[LAYOUT_MAX_RANK];
    for (int i = 0; i < l->rank; i++) moved[l->perm[i]] = index[i];
    return layout_node(a, l->outer, moved);
}

static Node *reshaped(Arena *a, const Layout *l, Node *const *index)
{
    Node *moved[LAYOUT_MAX_RANK], *linear = node_i64(a, 0);
    for (int i = 0; i < l->rank; i++)
        linear = arith_add(a, arith_mul(a, linear, node_i64(a, l->shape[i])), index[i]);
    for (int i = l->outer->rank - 1; i >= 0; i--) {
        moved[i] = i ? arith_mod(a, linear, l->outer->shape[i]) : linear;
        linear = arith_div(a, linear, l->outer->shape[i]);
    }
    return layout_node(a, l->outer, moved);
}

static Node *layout_node(Arena *a, const Layout *l, Node *const *index)
{
    switch (l->kind) {
    case LAYOUT_STRIDED: return strided(a, l->rank, l->stride, index);
    case LAYOUT_LOCAL: return node_i64(a, 0);
    case LAYOUT_COMPOSE: return composed(a, l, index);
    case LAYOUT_CONCAT: {
        Node *head = layout_node(a, l->outer, index);
        Node *tail = layout_node(a, l->inner, index + l->outer->rank);
        return arith_add(a, arith_mul(a, head, node_i64(a, l->inner->size)), tail);
    }
    case LAYOUT_SWIZZLE: return swizzled(a, l, index);
    case LAYOUT_PERMUTE: return permuted(a, l, index);
    case LAYOUT_RESHAPE: return reshaped(a, l, index);
    }
    BUG("layout of kind %d", l->kind);
}

static Node *row_major(Arena *a, const Buffer *b, Node *const *index)
{
    Node *sum = node_i64(a, 0), *stride = node_i64(a, 1);
    for (int i = b->rank - 1; i >= 0; i--) {
        sum = arith_add(a, arith_mul(a, index[i], stride), sum);
        stride = arith_mul(a, b->extent[i], stride);
    }
    return sum;
}

static Node *storage_size(Arena *a, const Buffer *b)
{
    if (b->layout) return node_i64(a, b->layout->size);
    Node *size = node_i64(a, 1);
    for (int i = 0; i < b->rank; i++) size = arith_mul(a, size, b->extent[i]);
    return size;
}

// ---- rewriting accesses

static Buffer *flat_buffer(Flatten *f, Buffer *b)
{
    if (b->flat) return b;
    Buffer *flat = map_get(&f->flat, b);
    if (flat) return flat;
    Arena *a = f->kernel->arena;
    flat = arena_copy(a, b, sizeof *b);
    map_put(a, &f->flat, b, flat);
    flat->rank = 1;
    flat->extent = NEW_ARRAY(a, Node *, 1);
    flat->extent[0] = storage_size(a, b);
    flat->layout = NULL;
    flat->flat = true;
    if (b->alias) flat->alias = flat_buffer(f, b->alias);
    return flat;
}

static Node *as_i64(Arena *a, Node *x)
{
    return node_cast(a, DT_I64, x);
}

static Node *flat_index(Flatten *f, const Buffer *b, int n, Node *const *index)
{
    Arena *a = f->kernel->arena;
    if (b->flat) return index[0];
    Node *at[LAYOUT_MAX_RANK], *mask = NULL;
    int lanes = 1;
    for (int i = 0; i < n; i++) {
        at[i] = as_i64(a, index[i]);
        Node *m = mask_take(&at[i]);
        if (m) mask = m;
        if (index[i]->lanes > lanes) lanes = index[i]->lanes;
    }
    Node *flat = b->layout ? layout_node(a, b->layout, at) : row_major(a, b, at);
    return mask_put(a, mask, arith_widen(a, flat, lanes));
}

static bool is_span(const Node *n)
{
    return n->kind == N_SPAN;
}

// A place keeps the extent of its last SPAN, the contiguous one.
static Node *flat_place(Flatten *f, Node *n)
{
    Arena *a = f->kernel->arena;
    Node *at[LAYOUT_MAX_RANK], *len = NULL;
    for (int i = 0; i < NREST(n); i++) {
        Node *x = REST(n)[i];
        at[i] = is_span(x) ? KID(x, SPAN, lo) : x;
        if (is_span(x)) len = KID(x, SPAN, len);
    }
    Node *index = flat_index(f, n->u.buf, NREST(n), at);
    if (len) index = node_make(a, N_SPAN, n->loc, 2, (Node *[]){index, len});
    Node *ref = node_make(a, N_REF, n->loc, 1, &index);
    ref->type = n->type;
    ref->lanes = n->lanes;
    ref->u.buf = flat_buffer(f, n->u.buf);
    return ref;
}

static Node *flatten(void *user, Node *n)
{
    Flatten *f = user;
    Arena *a = f->kernel->arena;
    n = node_map(a, n, flatten, f);
    if (n->kind == N_LOAD) {
        Node *index = flat_index(f, n->u.buf, NREST(n), REST(n));
        return make_load(a, n->loc, flat_buffer(f, n->u.buf), 1, &index);
    }
    if (n->kind == N_STORE) {
        Node *index = flat_index(f, n->u.buf, NREST(n), REST(n));
        return make_store(a, n->loc, flat_buffer(f, n->u.buf), 1, &index, KID(n, STORE, value),
                          n->sub);
    }
    if (n->kind == N_REF) return flat_place(f, n);
    if (n->kind == N_ALLOC) {
        Node *alloc = arena_copy(a, n, sizeof(Node) + n->nkid * sizeof(Node *));
        alloc->u.buf = flat_buffer(f, n->u.buf);
        return alloc;
    }
    return n;
}

bool pass_lower_layout(PassContext *c)
{
    Kernel *k = c->kernel;
    Flatten f = {.kernel = k};
    pass_bodies(k, flatten, &f);
    for (int i = 0; i < k->params.n; i++) k->params.at[i] = flat_buffer(&f, k->params.at[i]);
    for (int i = 0; i < k->workspace.n; i++)
        k->workspace.at[i] = flat_buffer(&f, k->workspace.at[i]);
    for (int i = 0; i < k->stages.n; i++) {
        Stage *s = k->stages.at[i];
        for (int b = 0; b < s->memory.n; b++) s->memory.at[b] = flat_buffer(&f, s->memory.at[b]);
    }
    return registers_promote(c);
}
