// SPDX-License-Identifier: Apache-2.0
// What loops, definitions, mappings and the grid say about integer variables, written to the Vars,
// where node_bounds and node_divisor find it.
#include "passes/pass.h"

static void narrow(Var *v, int64_t lo, int64_t hi)
{
    bool known = v->lo <= v->hi;
    v->lo = known ? max_i64(v->lo, lo) : lo;
    v->hi = known ? min_i64(v->hi, hi) : hi;
}

void bounds_define(Var *v, const Node *value)
{
    int64_t lo, hi;
    if (!dtype_is_int(v->type)) return;
    if (node_bounds(value, &lo, &hi)) narrow(v, lo, hi);
    v->divisor = max_i64(v->divisor, node_divisor(value));
}

static void annotate_loop(Node *n)
{
    int64_t lo, hi, unused;
    if (node_bounds(KID(n, LOOP, lo), &lo, &unused) &&
        node_bounds(KID(n, LOOP, hi), &unused, &hi) && lo < hi)
        narrow(n->u.var, lo, hi - 1);
}

static Node *annotate(void *user, Node *n)
{
    Kernel *k = user;
    if (n->kind == N_LOOP) annotate_loop(n);
    if (n->kind == N_DEFINE) bounds_define(n->u.var, KID(n, DEFINE, value));
    if (n->kind == N_MAPFOR) {
        for (int i = 0; i < NREST(n); i++) narrow(REST(n)[i]->u.var, 0, n->u.map->shape[i] - 1);
    }
    return node_map(k->arena, n, annotate, k);
}

void bounds_annotate(Kernel *k)
{
    for (int i = 0; i < k->stages.n; i++) {
        Stage *s = k->stages.at[i];
        for (int axis = 0; axis < s->ngrid; axis++) {
            Var *v = s->builtin[VAR_BLOCK_X + axis];
            int64_t lo, hi;
            if (v && node_bounds(s->grid[axis], &lo, &hi)) narrow(v, 0, max_i64(hi - 1, 0));
        }
        for (int axis = s->ngrid; axis < KERNEL_MAX_GRID; axis++) {
            if (s->builtin[VAR_BLOCK_X + axis]) narrow(s->builtin[VAR_BLOCK_X + axis], 0, 0);
        }
    }
    pass_bodies(k, annotate, k);
}
