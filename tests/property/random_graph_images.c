// SPDX-License-Identifier: Apache-2.0
// Graphs of images with as many channels as SIMD lanes like: convolutions and pools, which want
// layouts, among ops that read and write every way.
#include "random_graph_make.h"

enum { MAX_FILTERS = 5000, GPU_FILTERS = 12000, GPU_WORK = 30000000 };

static Value ints(Maker *m, int n, int lo, int hi)
{
    Value v = value_tuple(m->g->arena, n, NULL);
    for (int i = 0; i < n; i++) v.u.tuple.at[i] = value_int(rg_between(&m->random, lo, hi));
    return v;
}

// An image that is there; the newest more often than others.
static int image(Maker *m)
{
    for (int i = 0; i < 20; i++) {
        int n = m->g->values.n, at = rg_chance(&m->random, 50) ? n - 1 : rg_below(&m->random, n);
        const RgValue *v = &m->g->values.at[at];
        if (v->rank == 4 && !(v->node < 0 && v->constant)) return at;
    }
    return 0;
}

static void windows(Maker *m, RgNode *n)
{
    if (rg_chance(&m->random, 70)) maker_set(m, n, "pads", ints(m, 4, 0, 1));
    if (rg_chance(&m->random, 30)) maker_set(m, n, "strides", ints(m, 2, 1, 2));
    if (rg_chance(&m->random, 20)) maker_set(m, n, "dilations", ints(m, 2, 1, 2));
}

static bool conv(Maker *m, RgNode *n)
{
    static const int64_t channels[] = {16, 16, 16, 32, 5, 32, 32};
    bool gpu = rg_on_gpu(m->g->world);
    const int64_t c = m->g->values.at[n->input[0]].dims[1];
    bool each = rg_chance(&m->random, 25);
    int64_t o = each ? c : channels[rg_below(&m->random, gpu ? 7 : 5)];
    int64_t dims[] = {o, each ? 1 : c, rg_between(&m->random, 1, 3), rg_between(&m->random, 1, 3)};
    if (dims[0] * dims[1] * dims[2] * dims[3] > (gpu ? GPU_FILTERS : MAX_FILTERS)) return false;
    n->input[n->ninput++] = maker_input(m, 4, dims, rg_chance(&m->random, 85));
    if (rg_chance(&m->random, 40)) n->input[n->ninput++] = maker_input(m, 1, dims, true);
    maker_set(m, n, "group", value_int(each ? c : 1));
    windows(m, n);
    return true;
}

static bool pool(Maker *m, RgNode *n)
{
    maker_set(m, n, "kernel_shape", ints(m, 2, 1, 3));
    windows(m, n);
    return true;
}

// Another image that broadcasts to this one, or one element for each channel.
static bool two(Maker *m, RgNode *n)
{
    const RgValue x = m->g->values.at[n->input[0]];
    int other = image(m);
    const int64_t dims[] = {1, x.dims[1], 1, 1};
    bool fits = true;
    for (int i = 0; i < 4; i++) {
        int64_t d = m->g->values.at[other].dims[i];
        fits = fits && (d == x.dims[i] || d == 1);
    }
    if (!fits) other = rg_chance(&m->random, 50) ? maker_input(m, 4, dims, true) : n->input[0];
    n->input[n->ninput++] = other;
    return true;
}

static bool along(Maker *m, RgNode *n)
{
    maker_set(m, n, "axis", value_int(rg_between(&m->random, 0, 3)));
    n->input[n->ninput++] = rg_chance(&m->random, 50) ? image(m) : n->input[0];
    return true;
}

static bool turned(Maker *m, RgNode *n)
{
    static const int64_t perm[][4] = {{0, 2, 3, 1}, {0, 3, 1, 2}, {0, 2, 1, 3}};
    maker_set(m, n, "perm", value_ints(m->g->arena, 4, perm[rg_below(&m->random, 3)]));
    return true;
}

static bool summed(Maker *m, RgNode *n)
{
    maker_set(m, n, "axes", ints(m, 1, 0, 3));
    return true;
}

// A part along one axis; of channels whole pieces of 8 more often than not.
static bool cut(Maker *m, RgNode *n)
{
    int axis = rg_chance(&m->random, 50) ? 1 : rg_between(&m->random, 0, 3);
    int64_t extent = m->g->values.at[n->input[0]].dims[axis];
    int64_t unit = extent >= 16 && rg_chance(&m->random, 70) ? 8 : 1;
    if (extent < 2) return false;
    int64_t a = axis, start = unit * rg_below(&m->random, (int)(extent / unit));
    int64_t end = start + unit * rg_between(&m->random, 1, (int)((extent - start) / unit));
    maker_set(m, n, "starts", value_ints(m->g->arena, 1, &start));
    maker_set(m, n, "ends", value_ints(m->g->arena, 1, &end));
    maker_set(m, n, "axes", value_ints(m->g->arena, 1, &a));
    return true;
}

static bool alone(Maker *m, RgNode *n)
{
    (void)m, (void)n;
    return true;
}

static const struct {
    const char *op;
    bool (*complete)(Maker *, RgNode *);
} kinds[] = {
    {"conv", conv},         {"conv", conv},         {"conv", conv},
    {"conv", conv},         {"relu", alone},        {"sigmoid", alone},
    {"add", two},           {"add", two},           {"mul", two},
    {"max_pool", pool},     {"concat", along},      {"transpose", turned},
    {"average_pool", pool}, {"flatten", alone},     {"global_average_pool", alone},
    {"softmax", alone},     {"reduce_sum", summed}, {"slice", cut},
};

void maker_images(Maker *m, int want)
{
    static const int64_t channels[] = {3, 16, 16, 32};
    const int64_t dims[] = {rg_between(&m->random, 1, 2), channels[rg_below(&m->random, 4)],
                            rg_between(&m->random, 3, 6), rg_between(&m->random, 3, 9)};
    RandomGraph *g = m->g;
    if (rg_on_gpu(g->world)) m->work = GPU_WORK; // layouts pay where much is computed
    if (rg_on_gpu(g->world) && rg_chance(&m->random, 50)) m->main = DT_F16;
    if (m->main != DT_F16 && m->main != DT_BF16) m->main = DT_F32;
    maker_input(m, 4, dims, false);
    for (int i = 0; i < 20 * want && g->nodes.n < want; i++) {
        int kind = g->nodes.n ? rg_below(&m->random, (int)COUNT(kinds)) : 0, before = g->values.n;
        const Node *op =
            map_get(&g->world->library.ops, intern(g->world->library.names, kinds[kind].op));
        RgNode n = {.op = op, .ninput = 1, .noutput = 1, .input = {image(m)}};
        maker_begin(m, op);
        if (!kinds[kind].complete(m, &n) || !maker_add(m, &n)) g->values.n = before;
    }
}
