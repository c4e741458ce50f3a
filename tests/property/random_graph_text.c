// SPDX-License-Identifier: Apache-2.0
// A random graph as text, the elements of its inputs, and making it smaller.
#include "random_graph.h"

#include "base/os.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// ---- text

typedef struct Live {
    bool *value, *node;
} Live;

static void mark(const RandomGraph *g, Live *l, int v)
{
    if (l->value[v]) return;
    l->value[v] = true;
    int at = g->values.at[v].node;
    if (at < 0) return;
    l->node[at] = true;
    const RgNode *n = &g->nodes.at[at];
    for (int i = 0; i < n->noutput; i++) l->value[n->output[i]] = true;
    for (int i = 0; i < n->ninput; i++)
        if (n->input[i] >= 0) mark(g, l, n->input[i]);
}

static Live live(const RandomGraph *g)
{
    Live l = {NEW_ARRAY(g->arena, bool, g->values.n), NEW_ARRAY(g->arena, bool, g->nodes.n)};
    for (int i = 0; i < g->outputs.n; i++) mark(g, &l, g->outputs.at[i]);
    return l;
}

int rg_live_nodes(const RandomGraph *g)
{
    Live l = live(g);
    int n = 0;
    for (int i = 0; i < g->nodes.n; i++) n += l.node[i];
    return n;
}

static void print_input(const RgValue *v, Buf *out)
{
    buf_printf(out, "%s: %s%s", v->name, v->constant ? "const " : "", dtypes[v->type].name);
    buf_putc(out, '[');
    for (int k = 0; k < v->rank; k++)
        buf_printf(out, "%s%lld", k ? ", " : "", (long long)v->dims[k]);
    buf_putc(out, ']');
}

static void print_operand(const RandomGraph *g, int at, Buf *out)
{
    const RgValue *v = &g->values.at[at];
    if (v->literal) buf_printf(out, "%.17g", v->number);
    else buf_puts(out, v->name);
}

static void print_node(const RandomGraph *g, const RgNode *n, Buf *out)
{
    buf_puts(out, n->noutput > 1 ? "    (" : "    ");
    for (int i = 0; i < n->noutput; i++)
        buf_printf(out, "%s%s", i ? ", " : "", g->values.at[n->output[i]].name);
    buf_printf(out, "%s = %s(", n->noutput > 1 ? ")" : "", n->op->u.sym);
    Node *params = KID((Node *)n->op, OP, params);
    int plain = 0; // operands before the first that is left out; later ones are named
    while (plain < n->ninput && n->input[plain] >= 0) plain++;
    for (int i = 0; i < plain; i++) {
        buf_puts(out, i ? ", " : "");
        print_operand(g, n->input[i], out);
    }
    bool first = true;
    for (int i = plain; i < n->ninput; i++) {
        if (n->input[i] < 0) continue;
        buf_printf(out, "%s%s = ", first ? "; " : ", ", REST(params)[i]->u.sym);
        print_operand(g, n->input[i], out);
        first = false;
    }
    for (int i = 0; i < n->attrs.n; i++) {
        buf_printf(out, "%s%s = ", first ? "; " : ", ", (Sym)n->attrs.entry[i].key);
        value_print(n->attrs.entry[i].value, out);
        first = false;
    }
    buf_puts(out, ");\n");
}

void rg_print(const RandomGraph *g, Buf *out)
{
    Live l = live(g);
    buf_printf(out, "graph %s(", g->name);
    bool first = true;
    for (int i = 0; i < g->values.n; i++) {
        const RgValue *v = &g->values.at[i];
        if (!l.value[i] || v->node >= 0 || v->literal) continue;
        buf_puts(out, first ? "" : ", ");
        print_input(v, out);
        first = false;
    }
    buf_puts(out, ") -> (");
    for (int i = 0; i < g->outputs.n; i++)
        buf_printf(out, "%s%s", i ? ", " : "", g->values.at[g->outputs.at[i]].name);
    buf_puts(out, ") {\n");
    for (int i = 0; i < g->nodes.n; i++)
        if (l.node[i]) print_node(g, &g->nodes.at[i], out);
    buf_puts(out, "}\n");
}

// ---- elements

static double special(RgRandom *r, DType t)
{
    static const double reals[] = {NAN,   INFINITY, -INFINITY, -0.0,   0,
                                   1e-40, -3e-310,  1e38,      -65504, 6e4};
    if (dtype_is_float(t)) return reals[rg_below(r, (int)COUNT(reals))];
    int bits = dtypes[t].bits;
    double most = ldexp(1, dtypes[t].class == DC_UINT ? bits : bits - 1) - 1;
    if (rg_chance(r, 50)) return bits > 32 ? ldexp(1, bits - 2) : most;
    return dtypes[t].class == DC_UINT ? 0 : bits > 32 ? -ldexp(1, bits - 1) : -most - 1;
}

static double element(RgRandom *r, DType t, char fill, int bound)
{
    double u = (double)(rg_next(r) >> 11) * 0x1p-53; // in [0, 1)
    bool real = dtype_is_float(t), sign = dtypes[t].class != DC_UINT;
    if (t == DT_BOOL) return rg_below(r, 2);
    switch (fill) {
    case 'p': return real ? 0.1 + 4 * u : 1 + floor(5 * u);
    case 'u': return real ? 2 * u - 1 : floor(2 * u);
    case 'z': return floor(4 * u);
    case 'r': return floor(9 * u);
    case 'i': return floor(bound * u);
    case 'n': return floor(2 * bound * u) - bound;
    case 's':
        if (rg_below(r, 6) == 0) return special(r, t);
        break;
    default: break;
    }
    if (real) return rg_below(r, 8) == 0 ? rg_between(r, -3, 3) : 6 * u - 3;
    return sign ? floor(19 * u) - 9 : floor(20 * u);
}

void rg_fill(const char *graph, const char *name, DType type, int64_t n, void *out)
{
    RgRandom r = {hash_bytes(name, strlen(name), hash_bytes(graph, strlen(graph), 0))};
    int bound = name[0] == 'i' || name[0] == 'n' ? atoi(name + 1) : 0;
    for (int64_t i = 0; i < n; i++) {
        char *p = (char *)out + (size_t)i * dtype_size(type);
        double v = element(&r, type, name[0], bound);
        if (dtype_is_float(type)) dtype_store_f64(type, p, v);
        else dtype_store_i64(type, p, (int64_t)v);
    }
}

// ---- making smaller

// Whether the graph still fails, found out by a child.
static bool still_fails(const RandomGraph *g)
{
    Buf text;
    buf_init(&text, g->arena);
    rg_print(g, &text);
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        RgRun *r = rg_run_begin(g->world, buf_text(&text));
        rg_run_finish(g->world, &r, 1);
        _exit(r->outcome == RG_DIFFERS ? 9 : 0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) < 0) return false;
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

// What can be undone: values, nodes and outputs are few, and the rest is never changed in place.
typedef struct Saved {
    RgValue *value;
    RgNode *node;
    int *output;
    int nvalue, nnode, noutput;
} Saved;

static Saved save(const RandomGraph *g)
{
    Arena *a = g->arena;
    return (Saved){arena_copy(a, g->values.at, (size_t)g->values.n * sizeof *g->values.at),
                   arena_copy(a, g->nodes.at, (size_t)g->nodes.n * sizeof *g->nodes.at),
                   arena_copy(a, g->outputs.at, (size_t)g->outputs.n * sizeof *g->outputs.at),
                   g->values.n,
                   g->nodes.n,
                   g->outputs.n};
}

static void restore(RandomGraph *g, const Saved *s)
{
    memcpy(g->values.at, s->value, (size_t)s->nvalue * sizeof *s->value);
    memcpy(g->nodes.at, s->node, (size_t)s->nnode * sizeof *s->node);
    memcpy(g->outputs.at, s->output, (size_t)s->noutput * sizeof *s->output);
    g->values.n = s->nvalue;
    g->nodes.n = s->nnode;
    g->outputs.n = s->noutput;
}

// Keeps what was changed since `before` if the graph is valid and still fails.
static bool keep(RandomGraph *g, const Saved *before)
{
    if (g->outputs.n && rg_infer(g) && still_fails(g)) return true;
    restore(g, before);
    return false;
}

static bool drop_outputs(RandomGraph *g)
{
    bool any = false;
    for (int i = g->outputs.n - 1; i >= 0 && g->outputs.n > 1; i--) {
        Saved s = save(g);
        for (int k = i; k + 1 < g->outputs.n; k++) g->outputs.at[k] = g->outputs.at[k + 1];
        g->outputs.n--;
        any |= keep(g, &s);
    }
    return any;
}

// A node's results become inputs.
static bool cut_nodes(RandomGraph *g)
{
    bool any = false;
    for (int i = 0; i < g->nodes.n; i++) {
        RgNode *n = &g->nodes.at[i];
        if (g->values.at[n->output[0]].node != i || !live(g).node[i]) continue;
        Saved s = save(g);
        for (int k = 0; k < n->noutput; k++) {
            RgValue *v = &g->values.at[n->output[k]];
            v->node = -1;
            v->name = arena_printf(g->arena, "x%d", n->output[k]);
        }
        any |= keep(g, &s);
    }
    return any;
}

// Another value in place of the only output: something nearer to the inputs.
static bool move_output(RandomGraph *g)
{
    for (int i = 0; g->outputs.n == 1 && i < g->values.n; i++) {
        if (g->values.at[i].node < 0 || !live(g).value[i] || i == g->outputs.at[0]) continue;
        Saved s = save(g);
        g->outputs.at[0] = i;
        if (keep(g, &s)) return true;
    }
    return false;
}

static bool simpler_inputs(RandomGraph *g)
{
    bool any = false;
    for (int i = 0; i < g->values.n; i++) {
        if (g->values.at[i].node >= 0 || g->values.at[i].literal || !live(g).value[i]) continue;
        if (g->values.at[i].constant) {
            Saved s = save(g);
            g->values.at[i].constant = false;
            any |= keep(g, &s);
        }
        if (g->values.at[i].name[0] == 's') {
            Saved s = save(g);
            g->values.at[i].name = arena_printf(g->arena, "x%d", i);
            any |= keep(g, &s);
        }
    }
    return any;
}

static bool drop_attributes(RandomGraph *g)
{
    bool any = false;
    for (int i = 0; i < g->nodes.n; i++) {
        for (int k = g->nodes.at[i].attrs.n - 1; k >= 0; k--) {
            if (g->values.at[g->nodes.at[i].output[0]].node != i || !live(g).node[i]) continue;
            Saved s = save(g);
            Map fewer = {0};
            const Map *all = &g->nodes.at[i].attrs;
            for (int j = 0; j < all->n; j++)
                if (j != k) map_put(g->arena, &fewer, all->entry[j].key, all->entry[j].value);
            g->nodes.at[i].attrs = fewer;
            any |= keep(g, &s);
        }
    }
    return any;
}

// Everywhere an input has extent `from`, it gets `to`.
static bool change_extent(RandomGraph *g, int64_t from, int64_t to)
{
    Saved s = save(g);
    bool found = false;
    for (int i = 0; i < g->values.n; i++)
        for (int k = 0; g->values.at[i].node < 0 && k < g->values.at[i].rank; k++)
            if (g->values.at[i].dims[k] == from) {
                g->values.at[i].dims[k] = to;
                found = true;
            }
    return found && keep(g, &s);
}

static bool shrink_extents(RandomGraph *g)
{
    bool any = false;
    for (int64_t from = 64; from > 1; from--) {
        const int64_t to[] = {1, 2, from / 2, from - 1};
        for (size_t i = 0; i < COUNT(to); i++)
            if (to[i] < from && change_extent(g, from, to[i])) {
                any = true;
                break;
            }
    }
    return any;
}

void rg_shrink(RandomGraph *g)
{
    int64_t end = clock_ns() + 120 * (int64_t)1000000000;
    bool any = true;
    while (any && clock_ns() < end) {
        any = drop_outputs(g);
        any |= move_output(g);
        any |= cut_nodes(g);
        any |= simpler_inputs(g);
        any |= drop_attributes(g);
        any |= shrink_extents(g);
    }
}
