// SPDX-License-Identifier: Apache-2.0
// Graphs of products as models have them, in the types of tensor cores more often than others:
// projections, parts of one that become heads of attention, transposes, slices and joins before and
// after, sums of what was turned; extents that whole pieces of memory have, and others.
#include "random_graph_make.h"

#include <string.h>

enum { PRODUCT_WORK = 12000000, MAX_WEIGHTS = 6000 };

static const RgValue *value(const Maker *m, int at)
{
    return &m->g->values.at[at];
}

static int64_t last_extent(const RgValue *v)
{
    return v->dims[v->rank - 1];
}

static int one_of(Maker *m, const int64_t *from, int n)
{
    return (int)from[rg_below(&m->random, n)];
}

static int any_width(Maker *m)
{
    static const int64_t widths[] = {8, 16, 16, 24, 32, 40, 64, 5, 12, 18, 33};
    return one_of(m, widths, (int)COUNT(widths));
}

static int weights(Maker *m, int rank, const int64_t *dims)
{
    int64_t total = 1;
    for (int i = 0; i < rank; i++) total *= dims[i];
    return total > MAX_WEIGHTS ? -1 : maker_input(m, rank, dims, rg_chance(&m->random, 85));
}

// The result of an op that is accepted, or -1.
static int apply(Maker *m, const char *name, RgNode n)
{
    n.op = map_get(&m->g->world->library.ops, intern(m->g->world->library.names, name));
    if (!n.noutput) n.noutput = 1;
    for (int i = 0; i < n.ninput; i++)
        if (n.input[i] < 0) return -1;
    maker_begin(m, n.op);
    return maker_add(m, &n) ? n.output[0] : -1;
}

static int apply_one(Maker *m, const char *name, int x)
{
    return apply(m, name, (RgNode){.ninput = 1, .input = {x}});
}

static int apply_two(Maker *m, const char *name, int x, int y)
{
    return apply(m, name, (RgNode){.ninput = 2, .input = {x, y}});
}

static int reshaped(Maker *m, int x, int rank, const int64_t *dims)
{
    RgNode n = {.ninput = 1, .input = {x}};
    maker_set(m, &n, "shape", value_ints(m->g->arena, rank, dims));
    return apply(m, "reshape", n);
}

static int turned(Maker *m, int x, const int64_t *perm)
{
    RgNode n = {.ninput = 1, .input = {x}};
    maker_set(m, &n, "perm", value_ints(m->g->arena, value(m, x)->rank, perm));
    return apply(m, "transpose", n);
}

static int swapped(Maker *m, int x, int a, int b)
{
    int64_t perm[RG_MAX_RANK];
    for (int i = 0; i < value(m, x)->rank; i++) perm[i] = i;
    perm[a] = b;
    perm[b] = a;
    return turned(m, x, perm);
}

static int part(Maker *m, int x, int axis, int64_t start, int64_t end)
{
    RgNode n = {.ninput = 1, .input = {x}};
    int64_t a = axis;
    maker_set(m, &n, "starts", value_ints(m->g->arena, 1, &start));
    maker_set(m, &n, "ends", value_ints(m->g->arena, 1, &end));
    maker_set(m, &n, "axes", value_ints(m->g->arena, 1, &a));
    return apply(m, "slice", n);
}

// ---- steps: what is made of a value of rank 2 to 4, or -1

static int project(Maker *m, int x, int64_t width)
{
    RgNode n = {.ninput = 2, .input = {x}};
    int64_t k = last_extent(value(m, x));
    const int64_t wide[] = {width, k}, deep[] = {k, width};
    bool rows = rg_chance(&m->random, 50); // of the weights are columns of the result
    n.input[1] = weights(m, 2, rows ? wide : deep);
    if (rg_chance(&m->random, 40) && rows) n.input[n.ninput++] = weights(m, 1, &width);
    if (rows && n.ninput == 2 && rg_chance(&m->random, 30))
        return apply_two(m, "matmul", x, n.input[1] < 0 ? -1 : swapped(m, n.input[1], 0, 1));
    return apply(m, rows ? "linear" : "matmul", n);
}

static int step_project(Maker *m, int x)
{
    return project(m, x, any_width(m));
}

static int step_gemm(Maker *m, int x)
{
    const RgValue *v = value(m, x);
    if (v->rank != 2) return -1;
    bool a = rg_chance(&m->random, 50), b = rg_chance(&m->random, 50);
    int64_t k = v->dims[a ? 0 : 1], width = any_width(m);
    const int64_t wide[] = {width, k}, deep[] = {k, width};
    RgNode n = {.ninput = 2, .input = {x, weights(m, 2, b ? wide : deep)}};
    maker_set(m, &n, "transA", value_bool(a));
    maker_set(m, &n, "transB", value_bool(b));
    return apply(m, "gemm", n);
}

static int step_slice(Maker *m, int x)
{
    const RgValue *v = value(m, x);
    int axis = rg_chance(&m->random, 60) ? v->rank - 1 : rg_below(&m->random, v->rank);
    int64_t n = v->dims[axis], unit = n >= 16 && rg_chance(&m->random, 60) ? 8 : 1;
    if (n < 2) return -1;
    int64_t start = unit * rg_below(&m->random, (int)(n / unit));
    int64_t left = (n - start) / unit;
    return part(m, x, axis, start, start + unit * rg_between(&m->random, 1, (int)left));
}

static int step_split(Maker *m, int x)
{
    const RgValue *v = value(m, x);
    int axis = rg_chance(&m->random, 70) ? v->rank - 1 : rg_below(&m->random, v->rank);
    int parts = rg_between(&m->random, 2, 3);
    RgNode n = {.ninput = 1, .input = {x}, .noutput = parts};
    if (v->dims[axis] % parts) return -1;
    maker_set(m, &n, "axis", value_int(axis));
    maker_set(m, &n, "num_outputs", value_int(parts));
    return apply(m, "split", n);
}

static int step_turn(Maker *m, int x)
{
    int64_t perm[RG_MAX_RANK];
    int rank = value(m, x)->rank;
    if (rg_chance(&m->random, 40)) return swapped(m, x, rank - 2, rank - 1);
    if (rank > 2 && rg_chance(&m->random, 50)) return swapped(m, x, rank - 3, rank - 2);
    for (int i = 0; i < rank; i++) perm[i] = i;
    for (int i = rank - 1; i > 0; i--) {
        int k = rg_below(&m->random, i + 1);
        int64_t t = perm[i];
        perm[i] = perm[k];
        perm[k] = t;
    }
    return turned(m, x, perm);
}

// (.., s, h d) to (.., s, h, d), or the last two axes as one.
static int step_reshape(Maker *m, int x)
{
    const RgValue v = *value(m, x);
    int64_t dims[RG_MAX_RANK + 1];
    memcpy(dims, v.dims, sizeof v.dims);
    if (v.rank == 4 || (v.rank == 3 && rg_chance(&m->random, 40))) {
        dims[v.rank - 2] *= dims[v.rank - 1];
        return reshaped(m, x, v.rank - 1, dims);
    }
    int64_t parts = rg_between(&m->random, 2, 4);
    if (last_extent(&v) % parts) return -1;
    dims[v.rank - 1] = parts;
    dims[v.rank] = last_extent(&v) / parts;
    return reshaped(m, x, v.rank + 1, dims);
}

// A product with another value, either of them turned if it fits so.
static int step_product(Maker *m, int x)
{
    for (int i = 0; i < 12; i++) {
        int y = rg_below(&m->random, m->g->values.n), left = x;
        const RgValue *v = value(m, x), *w = value(m, y);
        if (w->type != v->type || w->rank < 2 || w->rank > 4 || w->literal) continue;
        bool swap = rg_chance(&m->random, 50);
        if (w->dims[w->rank - (swap ? 1 : 2)] != last_extent(v)) continue;
        if (swap) y = swapped(m, y, w->rank - 2, w->rank - 1);
        int made = apply_two(m, "matmul", left, y);
        if (made >= 0) return made;
    }
    return -1;
}

// Heads of one part of a projection.
static int heads(Maker *m, int x, int64_t count)
{
    const RgValue v = *value(m, x);
    int64_t dims[RG_MAX_RANK];
    if (v.rank > 3 || last_extent(&v) % count) return -1;
    memcpy(dims, v.dims, sizeof v.dims);
    dims[v.rank - 1] = count;
    dims[v.rank] = last_extent(&v) / count;
    int y = reshaped(m, x, v.rank + 1, dims);
    return y < 0 ? -1 : swapped(m, y, v.rank - 2, v.rank - 1);
}

// Scores, perhaps masked, and what they weigh, spelled out.
static int weighed(Maker *m, int q, int k, int v)
{
    int rank = value(m, k)->rank;
    int s = apply_two(m, "matmul", q, swapped(m, k, rank - 2, rank - 1));
    if (s < 0) return -1;
    if (rg_chance(&m->random, 70)) s = apply_two(m, "mul", s, maker_number(m, 0.25));
    if (s >= 0 && rg_chance(&m->random, 30))
        s = apply_two(m, "add", s, maker_input(m, 2, value(m, s)->dims + rank - 2, false));
    return s < 0 ? -1 : apply_two(m, "matmul", apply_one(m, "softmax", s), v);
}

static int attended(Maker *m, int q, int k, int v)
{
    if (q < 0 || k < 0 || v < 0) return -1;
    if (rg_chance(&m->random, 35)) return weighed(m, q, k, v);
    RgNode n = {.ninput = 3, .input = {q, k, v}};
    const RgValue *a = value(m, q);
    const int64_t scores[] = {a->dims[a->rank - 2], value(m, k)->dims[a->rank - 2]};
    if (rg_chance(&m->random, 25)) n.input[n.ninput++] = maker_input(m, 2, scores, false);
    if (rg_chance(&m->random, 30)) maker_set(m, &n, "causal", value_bool(true));
    if (rg_chance(&m->random, 60)) maker_set(m, &n, "scale", value_float(0.25));
    return apply(m, "attention", n);
}

// Attention among the rows of x: of parts of one projection or of three.
static int step_attention(Maker *m, int x)
{
    static const int64_t counts[] = {1, 2, 2, 3}, sizes[] = {8, 8, 16, 16, 4, 6, 9};
    int64_t count = one_of(m, counts, 4), width = count * one_of(m, sizes, 7);
    int of[3], rank = value(m, x)->rank;
    if (rank > 3) return -1;
    int whole = rg_chance(&m->random, 65) ? project(m, x, 3 * width) : -1;
    for (int i = 0; i < 3; i++) {
        of[i] =
            whole < 0 ? project(m, x, width) : part(m, whole, rank - 1, i * width, (i + 1) * width);
        if (of[i] >= 0) of[i] = heads(m, of[i], count);
    }
    int y = attended(m, of[0], of[1], of[2]);
    if (y < 0 || rg_chance(&m->random, 20)) return y;
    y = swapped(m, y, rank - 2, rank - 1);
    if (y < 0 || rg_chance(&m->random, 20)) return y;
    int64_t dims[RG_MAX_RANK];
    memcpy(dims, value(m, y)->dims, sizeof dims);
    dims[rank - 1] = width;
    y = reshaped(m, y, rank, dims);
    return y < 0 || rg_chance(&m->random, 50) ? y : project(m, y, any_width(m));
}

static int step_pointwise(Maker *m, int x)
{
    static const char *const ones[] = {"relu", "gelu", "sigmoid", "tanh", "neg", "abs"};
    static const char *const twos[] = {"add", "mul", "sub", "maximum"};
    const char *two = twos[rg_below(&m->random, 4)];
    if (rg_chance(&m->random, 40)) return apply_one(m, ones[rg_below(&m->random, 6)], x);
    int64_t width = last_extent(value(m, x));
    if (rg_chance(&m->random, 40)) return apply_two(m, two, x, maker_input(m, 1, &width, true));
    for (int i = 0; i < 12; i++) {
        int y = rg_below(&m->random, m->g->values.n);
        const RgValue *v = value(m, x), *w = value(m, y);
        bool same = w->type == v->type && w->rank == v->rank && !w->literal &&
                    !memcmp(w->dims, v->dims, (size_t)v->rank * sizeof *v->dims);
        if (same) return apply_two(m, two, x, y);
    }
    return -1;
}

static int step_norm(Maker *m, int x)
{
    static const char *const names[] = {"layer_norm", "rms_norm", "softmax"};
    int which = rg_below(&m->random, 3);
    RgNode n = {.ninput = 1, .input = {x}};
    int64_t width = last_extent(value(m, x));
    for (int i = which; i < 2; i++) n.input[n.ninput++] = maker_input(m, 1, &width, true);
    if (which == 2 && rg_chance(&m->random, 30))
        maker_set(m, &n, "axis", value_int(rg_below(&m->random, value(m, x)->rank)));
    return apply(m, names[which], n);
}

static int step_reduce(Maker *m, int x)
{
    static const char *const names[] = {"reduce_sum", "reduce_mean", "reduce_max"};
    RgNode n = {.ninput = 1, .input = {x}};
    int rank = value(m, x)->rank;
    int64_t axis = rg_below(&m->random, rank);
    maker_set(m, &n, "axes", value_ints(m->g->arena, 1, &axis));
    if (rank > 2 && rg_chance(&m->random, 50)) maker_set(m, &n, "keepdims", value_bool(false));
    return apply(m, names[rg_below(&m->random, 3)], n);
}

static int step_join(Maker *m, int x)
{
    RgNode n = {.ninput = 2, .input = {x, x}};
    int axis = rg_below(&m->random, value(m, x)->rank);
    for (int i = 0; i < 8; i++) {
        int y = rg_below(&m->random, m->g->values.n);
        const RgValue *v = value(m, x), *w = value(m, y);
        bool fits = w->type == v->type && w->rank == v->rank && !w->literal;
        for (int k = 0; fits && k < v->rank; k++) fits = k == axis || w->dims[k] == v->dims[k];
        if (fits) n.input[rg_below(&m->random, 2)] = y;
    }
    maker_set(m, &n, "axis", value_int(axis));
    return apply(m, "concat", n);
}

static int step_pad(Maker *m, int x)
{
    int64_t pads[2 * RG_MAX_RANK];
    RgNode n = {.ninput = 1, .input = {x}};
    int rank = value(m, x)->rank;
    for (int i = 0; i < 2 * rank; i++)
        pads[i] = rg_chance(&m->random, 30) ? (rg_chance(&m->random, 50) ? 8 : 1) : 0;
    maker_set(m, &n, "pads", value_ints(m->g->arena, 2 * rank, pads));
    return apply(m, "pad", n);
}

static int step_filter(Maker *m, int x)
{
    const RgValue *v = value(m, x);
    if (v->rank < 3) return -1;
    int64_t dims[] = {any_width(m), v->dims[1], rg_between(&m->random, 1, 3),
                      rg_between(&m->random, 1, 3)};
    RgNode n = {.ninput = 2, .input = {x, weights(m, v->rank, dims)}};
    int64_t pads[4];
    for (int i = 0; i < 4; i++) pads[i] = rg_below(&m->random, 2);
    maker_set(m, &n, "pads", value_ints(m->g->arena, 2 * (v->rank - 2), pads));
    if (n.input[1] >= 0 && rg_chance(&m->random, 40)) n.input[n.ninput++] = weights(m, 1, dims);
    return apply(m, "conv", n);
}

static const struct {
    int (*make)(Maker *, int x);
    int share;
} steps[] = {
    {step_project, 4},   {step_gemm, 1},    {step_slice, 4},     {step_split, 2},  {step_turn, 4},
    {step_reshape, 3},   {step_product, 4}, {step_attention, 4}, {step_norm, 2},   {step_reduce, 2},
    {step_pointwise, 4}, {step_join, 2},    {step_pad, 1},       {step_filter, 2},
};

static int any_step(Maker *m)
{
    int all = 0, at = 0;
    for (size_t i = 0; i < COUNT(steps); i++) all += steps[i].share;
    for (int r = rg_below(&m->random, all); r >= steps[at].share; at++) r -= steps[at].share;
    return at;
}

// A value to go on from; the newest more often than others.
static int source(Maker *m)
{
    for (int i = 0; i < 20; i++) {
        int n = m->g->values.n, at = rg_chance(&m->random, 50) ? n - 1 : rg_below(&m->random, n);
        const RgValue *v = value(m, at);
        if (v->rank >= 2 && v->rank <= 4 && !(v->node < 0 && v->constant)) return at;
    }
    return 0;
}

void maker_products(Maker *m, int want)
{
    static const DType types[] = {DT_F16, DT_F16, DT_F16, DT_BF16, DT_F32, DT_F32};
    static const int64_t rows[] = {3, 8, 17, 24, 33, 40};
    int64_t dims[] = {rg_between(&m->random, 1, 2), one_of(m, rows, 6), any_width(m), any_width(m)};
    RandomGraph *g = m->g;
    m->main = types[rg_below(&m->random, (int)COUNT(types))];
    m->work = PRODUCT_WORK;
    int rank = rg_between(&m->random, 2, 4);
    if (rank == 4) dims[2] = rg_between(&m->random, 3, 8);
    maker_input(m, rank, dims + (rank == 2), false);
    for (int i = 0; i < 20 * want && g->nodes.n < want; i++) {
        int nodes = g->nodes.n, values = g->values.n;
        if (steps[any_step(m)].make(m, source(m)) >= 0) continue;
        g->nodes.n = nodes;
        g->values.n = values;
    }
}
