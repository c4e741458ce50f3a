// SPDX-License-Identifier: Apache-2.0
// Random graphs: an operator is taken from the library, operands from what is there already or made
// anew so that they fit its declared types, attributes at random; what the operator then refuses is
// dropped. So an operator that is added to the library is covered without a line here.
#include "random_graph_make.h"

#include <stdio.h>
#include <string.h>

enum { WORK = 400000, TRIES = 40 };

uint64_t rg_next(RgRandom *r) // splitmix64
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

int rg_below(RgRandom *r, int n)
{
    return (int)(rg_next(r) % (uint64_t)n);
}

int rg_between(RgRandom *r, int lo, int hi)
{
    return lo + rg_below(r, hi - lo + 1);
}

bool rg_chance(RgRandom *r, int percent)
{
    return rg_below(r, 100) < percent;
}

// ---- nodes

static bool operands(Maker *m, RgNode *n)
{
    Node *params = KID((Node *)m->op, OP, params);
    for (int i = 0; i < NREST(params); i++) {
        const Node *p = REST(params)[i];
        int at = -1;
        bool skip = (p->sub & PARAM_OPTIONAL) && rg_chance(&m->random, 45);
        if (!skip && !maker_operand(m, p, i == 0, &at)) return false;
        n->input[n->ninput++] = at;
        if (i == 0 && at >= 0) m->first = m->g->values.at[at].type;
        if (i == 0) m->first_value = at;
        int more = (p->sub & PARAM_VARIADIC) ? rg_below(&m->random, 4) : 0;
        for (int k = 0; k < more && n->ninput < RG_MAX_INPUT; k++) {
            int next;
            if (!maker_another(m, p, at, &next)) return false;
            n->input[n->ninput++] = next;
        }
    }
    while (n->ninput && n->input[n->ninput - 1] < 0) n->ninput--;
    return true;
}

static bool attributes(Maker *m, RgNode *n)
{
    Node *attrs = KID((Node *)m->op, OP, attrs);
    int rank = n->ninput && n->input[0] >= 0 ? m->g->values.at[n->input[0]].rank : 2;
    RgContext c = {.g = m->g, .random = &m->random, .op = m->op, .node = n};
    c.list = rg_between(&m->random, 1, (int)max_i64(rank, 1));
    c.parts = rg_between(&m->random, 1, 4);
    for (int i = 0; i < NREST(attrs); i++) {
        const Node *a = REST(attrs)[i];
        bool has_default = a->kid[KID_PARAM_default] != NULL;
        if (has_default && rg_chance(&m->random, 40)) continue;
        if (!rg_attribute(&c, a, &n->attrs) && !has_default) return false;
    }
    n->noutput = NREST(KID((Node *)m->op, OP, results));
    if (n->noutput > c.parts && n->noutput >= RG_MAX_OUTPUT) n->noutput = c.parts;
    return n->noutput > 0 && n->noutput <= RG_MAX_OUTPUT;
}

// Results of the op for its operands, or false.
static bool infer(RandomGraph *g, const RgNode *n, RgValue *result)
{
    RgWorld *w = g->world;
    Arena scratch = {0};
    Diag quiet;
    diag_init(&quiet, &scratch, &w->sources);
    Instance *in = instance_new(&scratch, &w->library, &w->host, &quiet);
    Tensor *tensor[RG_MAX_INPUT] = {0};
    for (int i = 0; i < n->ninput; i++) {
        if (n->input[i] < 0) continue;
        const RgValue *v = &g->values.at[n->input[i]];
        Value dims[RG_MAX_RANK];
        for (int k = 0; k < v->rank; k++) dims[k] = value_int(v->dims[k]);
        tensor[i] = instance_input(in, v->literal ? "number" : v->name, v->type, v->rank, dims);
    }
    Node *params = KID((Node *)n->op, OP, params);
    int nparam = NREST(params);
    Value args[RG_MAX_INPUT + 1], list[RG_MAX_INPUT];
    int narg = 0, count = 0;
    for (int i = 0; i < n->ninput; i++) {
        Value v = tensor[i] ? (Value){.kind = V_TENSOR, .u.tensor = tensor[i]} : value_none();
        if (i < nparam && !(REST(params)[i]->sub & PARAM_VARIADIC)) args[narg++] = v;
        else list[count++] = v;
    }
    if (nparam && (REST(params)[nparam - 1]->sub & PARAM_VARIADIC)) {
        while (narg < nparam - 1) args[narg++] = value_none();
        args[narg++] = value_tuple(&scratch, count, list);
    }
    OpInst *op = op_apply(in, 0, n->op, narg, args, &n->attrs);
    bool ok = op && op->nresult >= n->noutput;
    for (int i = 0; ok && i < n->noutput; i++) {
        const Tensor *t = op->results[i];
        ok = t->rank <= RG_MAX_RANK;
        if (!ok) break;
        result[i].type = t->type;
        result[i].rank = t->rank;
        int64_t total = 1;
        for (int k = 0; ok && k < t->rank; k++) {
            ok = t->dims[k].kind == V_INT && t->dims[k].u.i >= 0 &&
                 t->dims[k].u.i <= RG_MAX_ELEMENTS;
            result[i].dims[k] = t->dims[k].u.i;
            total *= ok ? t->dims[k].u.i : 1;
            ok = ok && total <= RG_MAX_ELEMENTS;
        }
    }
    arena_free(&scratch);
    return ok;
}

bool rg_infer_node(RandomGraph *g, RgNode *n)
{
    RgValue result[RG_MAX_OUTPUT] = {0};
    if (!infer(g, n, result)) return false;
    for (int i = 0; i < n->noutput; i++) {
        RgValue *v = &g->values.at[n->output[i]];
        v->type = result[i].type;
        v->rank = result[i].rank;
        memcpy(v->dims, result[i].dims, sizeof v->dims);
    }
    return true;
}

bool rg_infer(RandomGraph *g)
{
    for (int i = 0; i < g->nodes.n; i++)
        if (g->values.at[g->nodes.at[i].output[0]].node == i && !rg_infer_node(g, &g->nodes.at[i]))
            return false;
    return true;
}

// A bound on what the interpreter has to do.
static bool too_much(const Maker *m, const RgNode *n, const RgValue *result)
{
    const RandomGraph *g = m->g;
    const OpInfo *o = op_info(g->world->ops, n->op);
    if (o->class == OPCLASS_POINTWISE || o->class == OPCLASS_MAP) return false;
    int64_t most = 1, out = rg_elements(&result[0]);
    for (int i = 0; i < n->ninput; i++) {
        if (n->input[i] < 0) continue;
        const RgValue *v = &g->values.at[n->input[i]];
        most = max_i64(most, rg_elements(v));
    }
    return out * most > m->work;
}

// Whether the op's meaning can be instantiated: op_apply looks at types and shapes only.
static bool has_meaning(const RandomGraph *g, const RgNode *n, const RgValue *result)
{
    RgWorld *w = g->world;
    Arena scratch = {0};
    Diag quiet;
    diag_init(&quiet, &scratch, &w->sources);
    Graph *one = graph_new(&scratch, &w->library, w->ops, "one");
    GraphValue *in[RG_MAX_INPUT] = {0}, *out[RG_MAX_OUTPUT];
    Value dims[RG_MAX_RANK];
    for (int i = 0; i < n->ninput + n->noutput; i++) {
        int at = i < n->ninput ? n->input[i] : 0;
        const RgValue *v = i < n->ninput ? &g->values.at[max_i64(at, 0)] : &result[i - n->ninput];
        for (int k = 0; k < v->rank; k++) dims[k] = value_int(v->dims[k]);
        GraphValue *made = graph_value(one, "v", v->type, v->rank, dims);
        if (i >= n->ninput) out[i - n->ninput] = made;
        else if (at >= 0) in[i] = made;
    }
    int ninput = (int)max_i64(n->ninput, NREST(KID((Node *)n->op, OP, params)));
    GraphNode *node = graph_node(one, "n", "n", (OpBindings){0}, ninput, in, n->noutput, out);
    node->op = op_info(w->ops, n->op);
    node->attrs = n->attrs;
    bool ok = true;
    for (int i = 0; ok && i < (node->op->class == OPCLASS_SERIAL ? 1 : n->noutput); i++)
        ok = node_kernel(one, node, i, &scratch, &w->host, &quiet) != NULL;
    arena_free(&scratch);
    return ok;
}

bool maker_add(Maker *m, RgNode *n)
{
    RandomGraph *g = m->g;
    RgValue result[RG_MAX_OUTPUT] = {0};
    if (!infer(g, n, result) || too_much(m, n, result) || !has_meaning(g, n, result)) return false;
    for (int i = 0; i < n->noutput; i++) {
        result[i].node = g->nodes.n;
        result[i].result = i;
        result[i].name = arena_printf(g->arena, "v%d", g->values.n);
        n->output[i] = maker_value(g, result[i]);
    }
    VEC_PUSH(g->arena, &g->nodes, *n);
    return true;
}

static bool add_node(Maker *m, const Node *op)
{
    RgNode n = {.op = op};
    int before = m->g->values.n;
    maker_begin(m, op);
    if (operands(m, &n) && attributes(m, &n) && maker_add(m, &n)) return true;
    m->g->values.n = before;
    return false;
}

// ---- what makers of certain graphs use

int maker_input(Maker *m, int rank, const int64_t *dims, bool constant)
{
    RgValue v = {.node = -1, .type = m->main, .rank = rank, .constant = constant};
    for (int i = 0; i < rank; i++) v.dims[i] = dims[i];
    v.name = arena_printf(m->g->arena, "x%d", m->g->values.n);
    return maker_value(m->g, v);
}

int maker_number(Maker *m, double x)
{
    RgValue v = {.node = -1, .type = m->main, .constant = true, .literal = true, .number = x};
    v.name = "number";
    return maker_value(m->g, v);
}

void maker_set(Maker *m, RgNode *n, const char *attribute, Value v)
{
    Value *at = NEW(m->g->arena, Value);
    *at = v;
    map_put(m->g->arena, &n->attrs, intern(m->g->world->library.names, attribute), at);
}

// ---- graphs

static const Node *any_op(Maker *m)
{
    const Map *ops = &m->g->world->library.ops;
    for (int i = 0; i < 4; i++) {
        const Node *op = ops->entry[rg_below(&m->random, ops->n)].value;
        const OpInfo *o = op_info(m->g->world->ops, op);
        bool common = o->class == OPCLASS_POINTWISE || o->view || o->moves;
        if (common || rg_chance(&m->random, 50)) return op;
    }
    return ops->entry[rg_below(&m->random, ops->n)].value;
}

static void choose_outputs(Maker *m)
{
    RandomGraph *g = m->g;
    for (int i = 0; i < g->values.n; i++) {
        const RgValue *v = &g->values.at[i];
        bool out = v->node < 0 ? !v->literal && rg_chance(&m->random, 2)
                               : !rg_is_read(g, i) || rg_chance(&m->random, 15);
        if (out) VEC_PUSH(g->arena, &g->outputs, i);
    }
}

// A graph of the left sides of rules alone, so that what rules make of it can be held against it.
static RandomGraph *by_rules(Maker *m)
{
    RandomGraph *g = m->g;
    const Library *l = &g->world->library;
    g->name = arena_printf(g->arena, "r%s", g->name + 1);
    if (!dtype_is_float(m->main)) m->main = DT_F32;
    m->special = false;
    m->constants = rg_chance(&m->random, 70) ? 95 : 30;
    for (int i = 0; i < 30 && g->outputs.n < 2; i++) {
        const Node *rule = l->rules.at[rg_below(&m->random, l->rules.n)];
        for (int k = 0; k < TRIES && !maker_rule(m, rule); k++) continue;
    }
    return g;
}

RandomGraph *rg_make(RgWorld *w, Arena *a, uint64_t seed, int index)
{
    RandomGraph *g = NEW(a, RandomGraph);
    g->arena = a;
    g->world = w;
    g->name =
        arena_printf(a, "%c_%llu_%d", index % 3 == 1 ? 'p' : 'g', (unsigned long long)seed, index);
    Maker m = {
        .g = g, .random = {seed * 1000003u + (uint64_t)index}, .constants = 25, .work = WORK};
    static const int64_t extents[] = {1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 16, 17, 33};
    static const DType types[] = {DT_F32, DT_F32,  DT_F32, DT_F32, DT_F64, DT_F64,
                                  DT_F16, DT_BF16, DT_I32, DT_I64, DT_U8};
    for (int i = 0; i < 4; i++) m.extents[i] = extents[rg_below(&m.random, (int)COUNT(extents))];
    if (rg_chance(&m.random, 4)) m.extents[0] = 0;
    m.main = types[rg_below(&m.random, (int)COUNT(types))];
    m.special = rg_chance(&m.random, 15);
    if (w->library.rules.n && rg_chance(&m.random, 12)) return by_rules(&m);
    int want =
        rg_chance(&m.random, 20) ? rg_between(&m.random, 8, 14) : rg_between(&m.random, 1, 7);
    bool images = rg_chance(&m.random, rg_on_gpu(w) ? 20 : 10);
    bool products = !images && rg_chance(&m.random, rg_on_gpu(w) ? 60 : 10);
    if (images) maker_images(&m, want);
    if (products) maker_products(&m, want);
    for (int i = 0; i < 20 * want && g->nodes.n < want && !images && !products; i++) {
        const Node *op = any_op(&m);
        for (int k = 0; k < TRIES && !add_node(&m, op); k++) continue;
    }
    choose_outputs(&m);
    return g;
}
