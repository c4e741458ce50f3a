// SPDX-License-Identifier: Apache-2.0
// A small kernel with a bit of everything, for tests of printing and verifying: a tiled scale on
// CUDA, before its mappings and layouts are lowered.
#ifndef HEALD_TESTS_UNIT_IR_SAMPLE_H
#define HEALD_TESTS_UNIT_IR_SAMPLE_H

#include "ir/kernel.h"

typedef struct Sample {
    Kernel *k;
    Stage *stage;
    Var *n, *block, *thread, *i, *j, *kt, *sum;
    Buffer *x, *y, *part, *tile, *acc;
    Node *load, *store, *loop, *mapfor; // parts of the body
} Sample;

static inline Node *access_of(Arena *a, NodeKind kind, Buffer *b, int n, Node *const *kid)
{
    Node *node = node_make(a, kind, 0, n, kid);
    node->u.buf = b;
    if (kind == N_LOAD || kind == N_LOAD_ELSE) {
        node->type = (uint8_t)b->type;
        node->lanes = 1;
    }
    return node;
}

static inline Node *with_var(Node *n, Var *v)
{
    n->u.var = v;
    return n;
}

static inline Node *call_of(Arena *a, IntrinsicId id, DType type, int n, Node *const *kid)
{
    Node *node = node_make(a, N_INTRIN, 0, n, kid);
    node->u.intr = &intrinsics[id];
    node->type = (uint8_t)type;
    node->lanes = type != DT_NONE;
    return node;
}

static inline Var *builtin(Sample *s, const char *name, Builtin b)
{
    Var *v = kernel_var(s->k, name, DT_I64, false);
    v->builtin = b;
    return s->stage->builtin[b] = v;
}

static inline void sample_memory(Sample *s, Arena *a)
{
    const char *why;
    Node *rn = node_var(a, 0, s->n), *shape[2] = {node_i64(a, 16), node_i64(a, 16)};
    Node *extent[2] = {rn, node_i64(a, 16)};
    s->x = kernel_buffer(s->k, "x", SPACE_GLOBAL, DT_F32, 2, extent);
    s->y = kernel_buffer(s->k, "y", SPACE_GLOBAL, DT_F32, 2, extent);
    s->x->param = 0;
    s->y->param = 1;
    s->y->output = true;
    VEC_PUSH(a, &s->k->params, s->x);
    VEC_PUSH(a, &s->k->params, s->y);
    s->part = kernel_buffer(s->k, "part", SPACE_WORKSPACE, DT_F32, 1, extent);
    VEC_PUSH(a, &s->k->workspace, s->part);
    s->tile = kernel_buffer(s->k, "tile", SPACE_SHARED, DT_F32, 2, shape);
    s->tile->layout = layout_column_major(a, 2, (int64_t[]){16, 16}, &why);
    s->tile->align_bytes = 16;
    VEC_PUSH(a, &s->stage->memory, s->tile);
    const Mapping *outer = mapping_spatial(a, 2, (int64_t[]){8, 4}, NULL, &why);
    const Mapping *inner = mapping_repeat(a, 2, (int64_t[]){2, 4}, NULL, NULL, &why);
    s->acc = kernel_buffer(s->k, "acc", SPACE_LOCAL, DT_F32, 2, shape);
    s->acc->over = mapping_compose(a, outer, inner, &why);
    s->acc->over_worker = node_var(a, 0, s->thread);
}

// for i, j in acc's mapping: acc[i, j] = fma(tile[i, j], x[...] else 0, acc[i, j])
static inline void sample_body(Sample *s, Arena *a)
{
    Node *i = node_var(a, 0, s->i), *j = node_var(a, 0, s->j), *kt = node_var(a, 0, s->kt);
    Node *row =
        node_binary(a, N_ADD, node_binary(a, N_MUL, node_var(a, 0, s->block), node_i64(a, 16)), i);
    Node *zero = node_float(a, 0, DT_F32, 0), *half = node_float(a, 0, DT_F32, 0.5);
    s->load = access_of(a, N_LOAD_ELSE, s->x, 3, (Node *[]){zero, row, j});
    Node *old = access_of(a, N_LOAD, s->acc, 2, (Node *[]){i, j});
    Node *scaled = call_of(a, INTR_FMA, DT_F32, 3, (Node *[]){s->load, half, old});
    Node *update = access_of(a, N_STORE, s->acc, 3, (Node *[]){scaled, i, j});
    s->mapfor = node_make(a, N_MAPFOR, 0, 4,
                          (Node *[]){node_var(a, 0, s->thread), node_seq(a, 0, 1, &update), i, j});
    s->mapfor->u.map = s->acc->over;
    Node *barrier = call_of(a, INTR_BARRIER, DT_NONE, 0, NULL);
    Node *wait = node_unary(a, N_EVAL, barrier);
    Node *stop = node_make(
        a, N_IF, 0, 3,
        (Node *[]){node_binary(a, N_EQ, kt, node_i64(a, 3)), node_new(a, N_BREAK, 0, 0), NULL});
    Node *trip = node_binary(a, N_DIV, node_binary(a, N_ADD, node_var(a, 0, s->n), node_i64(a, 15)),
                             node_i64(a, 16));
    s->loop = with_var(node_make(a, N_LOOP, 0, 3,
                                 (Node *[]){node_i64(a, 0), trip,
                                            node_seq(a, 0, 3, (Node *[]){s->mapfor, wait, stop})}),
                       s->kt);
    s->loop->sub = LOOP_UNROLL;
    Node *alloc = node_make(a, N_ALLOC, 0, 1, &zero);
    alloc->u.buf = s->acc;
    Node *declare = with_var(node_make(a, N_DECLARE, 0, 1, &half), s->sum);
    Node *rsum = node_var(a, 0, s->sum), *thread = node_var(a, 0, s->thread);
    Node *set =
        with_var(node_make(a, N_SET, 0, 1, (Node *[]){node_binary(a, N_ADD, rsum, half)}), s->sum);
    s->store = access_of(a, N_STORE, s->y, 3, (Node *[]){rsum, thread, node_i64(a, 0)});
    s->store->sub = GUARD_DROP;
    s->stage->body = node_seq(a, 0, 5, (Node *[]){alloc, declare, s->loop, set, s->store});
}

static inline Sample sample(Arena *a)
{
    Sample s = {.k = NEW(a, Kernel), .stage = NEW(a, Stage)};
    s.k->arena = a;
    s.k->name = "h_scale_0";
    s.k->template_name = "scale";
    target_cuda(&s.k->target, "sm_80");
    s.n = kernel_var(s.k, "n", DT_I64, false);
    s.n->builtin = VAR_DIM;
    s.n->lo = 1;
    s.n->hi = 4096;
    VEC_PUSH(a, &s.k->dims, s.n);
    s.stage->name = "main";
    s.block = builtin(&s, "block.x", VAR_BLOCK_X);
    s.thread = builtin(&s, "thread", VAR_THREAD);
    s.i = kernel_var(s.k, "i", DT_I64, false);
    s.j = kernel_var(s.k, "i", DT_I64, false); // another i, on purpose
    s.kt = kernel_var(s.k, "kt", DT_I64, false);
    s.sum = kernel_var(s.k, "sum", DT_F32, true);
    sample_memory(&s, a);
    s.stage->ngrid = 1;
    s.stage->grid[0] = node_binary(a, N_DIV, node_var(a, 0, s.n), node_i64(a, 16));
    s.stage->block = node_i64(a, 32);
    VEC_PUSH(a, &s.k->stages, s.stage);
    Requirement r = {node_binary(a, N_LE, node_i64(a, 1), node_var(a, 0, s.n)), "n is \"positive\"",
                     0};
    VEC_PUSH(a, &s.k->requirements, r);
    sample_body(&s, a);
    return s;
}

#endif
