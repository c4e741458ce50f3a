// SPDX-License-Identifier: Apache-2.0
// Values for attributes: by the set that a declaration gives, by the names that operators share (an
// axis is within a rank, pads come in pairs), or by type alone.
#include "random_graph.h"

#include <stdio.h>
#include <string.h>

static const RgValue *operand(const RgContext *c, int i)
{
    bool there = i < c->node->ninput && c->node->input[i] >= 0;
    return there ? &c->g->values.at[c->node->input[i]] : NULL;
}

static int rank_of(const RgContext *c)
{
    const RgValue *v = operand(c, 0);
    return v ? v->rank : 2;
}

static const Value *chosen(const RgContext *c, const Map *attrs, const char *name)
{
    return map_get(attrs, intern(c->g->world->library.names, name));
}

static bool declares(const RgContext *c, const char *name)
{
    Node *attrs = KID((Node *)c->op, OP, attrs), *params = KID((Node *)c->op, OP, params);
    for (int i = 0; i < NREST(attrs); i++)
        if (!strcmp(REST(attrs)[i]->u.sym, name)) return true;
    for (int i = 0; i < NREST(params); i++)
        if (!strcmp(REST(params)[i]->u.sym, name)) return true;
    return false;
}

static Value ints(RgContext *c, int n, int lo, int hi)
{
    int64_t at[32];
    for (int i = 0; i < n && i < 32; i++) at[i] = rg_between(c->random, lo, hi);
    return value_ints(c->g->arena, n, at);
}

// Axes of an operator over windows; all axes of any other.
static int spatial_rank(const RgContext *c)
{
    bool window = declares(c, "w") || declares(c, "kernel_shape") || declares(c, "strides");
    int rank = rank_of(c);
    return window ? (int)max_i64(rank - 2, 0) : rank;
}

static Value permutation(RgContext *c, int n, int take, int negative)
{
    int64_t at[32];
    for (int i = 0; i < n; i++) at[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int k = rg_below(c->random, i + 1);
        int64_t t = at[i];
        at[i] = at[k];
        at[k] = t;
    }
    for (int i = 0; i < n; i++)
        if (rg_chance(c->random, negative)) at[i] -= n;
    return value_ints(c->g->arena, take, at);
}

static Value new_shape(RgContext *c)
{
    const RgValue *x = operand(c, 0);
    int64_t at[8], n = 1;
    int rank = 0;
    if (x && op_info(c->g->world->ops, c->op)->view) { // the same number of elements
        for (int i = 0; i < x->rank; i++) n *= x->dims[i];
        int parts = rg_between(c->random, 1, 4);
        for (; rank < parts - 1; rank++) {
            at[rank] = rg_between(c->random, 1, 8);
            if (n % at[rank]) at[rank] = 1;
            n /= at[rank];
        }
        at[rank++] = rg_chance(c->random, 40) ? -1 : n;
        return value_ints(c->g->arena, rank, at);
    }
    int extra = x ? rg_below(c->random, 3) == 0 : rg_below(c->random, 4);
    for (; rank < extra; rank++) at[rank] = rg_between(c->random, 1, 4);
    for (int i = 0; x && i < x->rank && rank < 6; i++)
        at[rank++] = x->dims[i] == 1            ? rg_between(c->random, 1, 5)
                     : rg_chance(c->random, 20) ? 1
                                                : x->dims[i];
    return value_ints(c->g->arena, rank, at);
}

static Value parts_of_axis(RgContext *c, const Map *attrs)
{
    const RgValue *x = operand(c, 0);
    const Value *axis = chosen(c, attrs, "axis");
    int64_t at[8], k = axis ? axis->u.i : 0, left = 0;
    if (x && x->rank) left = x->dims[k < 0 ? k + x->rank : k];
    for (int i = 0; i < c->parts; i++) {
        at[i] = i == c->parts - 1 ? left : rg_between(c->random, 0, (int)left);
        left -= at[i];
    }
    return value_ints(c->g->arena, c->parts, at);
}

static Value groups_of(RgContext *c)
{
    const RgValue *x = operand(c, 0), *w = operand(c, declares(c, "x_scale") ? 3 : 1);
    int64_t channels = x && x->rank > 1 ? x->dims[1] : 1;
    int64_t each = w && w->rank > 1 ? w->dims[1] : 1;
    bool transposed = declares(c, "output_padding");
    if (!transposed && each > 0 && channels % each == 0) return value_int(channels / each);
    int64_t n = rg_between(c->random, 1, 4);
    return value_int(channels % n ? 1 : n);
}

static const char *const equations[] = {
    "ij,jk->ik", "bij,bjk->bik", "ij->ji", "ii->i", "i,i->", "ij,kj->ik", "ij->i", "i,j->ij",
};

// True with a value for the names that many operators share.
static bool by_name(RgContext *c, const char *name, const Map *attrs, Value *out)
{
    int rank = rank_of(c);
    RgRandom *r = c->random;
    Arena *a = c->g->arena;
#define IS(text) (!strcmp(name, text))
    if (IS("axis")) *out = value_int(rank ? rg_between(r, -rank, rank - 1) : 0);
    else if (IS("axes") && op_info(c->g->world->ops, c->op)->view) {
        bool more = strstr(c->op->u.sym, "un") != NULL; // axes of the result
        *out =
            permutation(c, rank + (more ? c->list : 0), (int)min_i64(c->list, more ? 2 : rank), 20);
    } else if (IS("axes")) *out = permutation(c, rank, (int)min_i64(c->list, rank), 20);
    else if (IS("perm")) *out = permutation(c, rank, rank, 0);
    else if (IS("pads"))
        *out = ints(c, 2 * spatial_rank(c), rg_chance(r, 10) && !declares(c, "w") ? -1 : 0, 2);
    else if (IS("strides") || IS("dilations")) *out = ints(c, spatial_rank(c), 1, 2);
    else if (IS("kernel_shape")) *out = ints(c, spatial_rank(c), 1, 3);
    else if (IS("output_padding")) *out = ints(c, spatial_rank(c), 0, 1);
    else if (IS("group")) *out = groups_of(c);
    else if (IS("shape")) *out = new_shape(c);
    else if (IS("repeats")) *out = ints(c, rank, rg_chance(r, 5) ? 0 : 1, 2);
    else if (IS("starts") || IS("ends"))
        *out = ints(c, (int)min_i64(c->list, rank), IS("starts") ? -4 : -3, IS("starts") ? 2 : 9);
    else if (IS("steps")) *out = ints(c, (int)min_i64(c->list, rank), 1, 3);
    else if (IS("split")) *out = parts_of_axis(c, attrs);
    else if (IS("num_outputs")) *out = value_int(c->parts);
    else if (IS("sizes")) {
        if (chosen(c, attrs, "scales")) return false;
        *out = ints(c, rank, 1, 9);
    } else if (IS("scales")) {
        static const double scales[] = {1, 1, 2, 0.5, 1.5, 3, 0.7};
        *out = value_tuple(a, rank, NULL);
        for (int i = 0; i < rank; i++)
            out->u.tuple.at[i] = value_float(scales[rg_below(r, (int)COUNT(scales))]);
    } else if (IS("roi")) {
        *out = value_tuple(a, 2 * rank, NULL);
        for (int i = 0; i < 2 * rank; i++)
            out->u.tuple.at[i] =
                value_float(rg_between(r, i < rank ? -1 : 2, i < rank ? 2 : 5) * 0.25);
    } else if (IS("start") || IS("limit")) *out = value_int(rg_between(r, -3, 9));
    else if (IS("delta"))
        *out = value_int(rg_chance(r, 70) ? rg_between(r, 1, 3) : -rg_between(r, 1, 3));
    else if (IS("epsilon")) *out = value_float(rg_chance(r, 50) ? 1e-5 : 1e-3);
    else if (IS("equation"))
        *out = value_str(
            intern(c->g->world->library.names, equations[rg_below(r, (int)COUNT(equations))]));
    else if (IS("nr") || IS("mr")) *out = value_int(rg_between(r, 1, 8));
    else return false;
#undef IS
    return true;
}

static Value any_dtype(RgContext *c)
{
    static const DType types[] = {DT_F32, DT_F64, DT_F16, DT_BF16, DT_I8,  DT_U8,  DT_I16,
                                  DT_U16, DT_I32, DT_U32, DT_I64,  DT_U64, DT_BOOL};
    return value_dtype(types[rg_below(c->random, (int)COUNT(types))]);
}

static bool by_type(RgContext *c, const Node *type, Value *out)
{
    static const double reals[] = {0, 0.5, 1, -1, 0.25, 2.5, 1.1, -0.3, 6};
    const Node *x = type ? type->kid[KID_TYPE_dtype] : NULL;
    if (!x || x->kind != N_NAME) return false;
    const char *t = x->u.sym;
    bool list = type->sub == TYPE_LIST;
    if (!strcmp(t, "dtype")) *out = any_dtype(c);
    else if (!strcmp(t, "bool")) *out = value_bool(rg_chance(c->random, 50));
    else if (!strcmp(t, "int") && list)
        *out = ints(c, rg_chance(c->random, 50) ? rank_of(c) : c->list, 0, 2);
    else if (!strcmp(t, "int")) *out = value_int(rg_between(c->random, -1, 3));
    else if (dtype_from_name(t) != DT_NONE && !list)
        *out = value_float(reals[rg_below(c->random, (int)COUNT(reals))]);
    else return false;
    return true;
}

bool rg_attribute(RgContext *c, const Node *param, Map *attrs)
{
    RgWorld *w = c->g->world;
    Value v;
    if (!strcmp(param->u.sym, "roi") && param->kid[KID_PARAM_default])
        return false; // says nothing then
    Node *among = param->kid[KID_PARAM_among];
    if (among) {
        Arena scratch = {0};
        Diag quiet;
        diag_init(&quiet, &scratch, &w->sources);
        v = evaluate_expression(c->g->arena, &w->library, &w->host,
                                REST(among)[rg_below(c->random, NREST(among))], &quiet);
        arena_free(&scratch);
        if (v.kind == V_NONE) return false;
    } else if (!by_name(c, param->u.sym, attrs, &v)) {
        if (!strcmp(param->u.sym, "sizes") || !by_type(c, param->kid[KID_PARAM_type], &v))
            return false;
    }
    Value *at = NEW(c->g->arena, Value);
    *at = v;
    map_put(c->g->arena, attrs, param->u.sym, at);
    return true;
}
