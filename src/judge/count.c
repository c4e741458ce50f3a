// SPDX-License-Identifier: Apache-2.0
// Counts by walking the program with the loops' extents. A loop is walked pass by pass only if its
// variable decides about another loop or branch; otherwise one pass is counted and multiplied.
#include "judge/count.h"

typedef struct Counter {
    Arena arena;
    const Kernel *kernel;
    const int64_t *dims;
    Map value;   // Var * -> int64_t *: known now
    Map control; // Var * -> anything: extents and conditions depend on it
} Counter;

// ---- which variables control

static Node *mark_vars(void *user, Node *n)
{
    Counter *c = user;
    if (n->kind == N_VARREF) map_put(&c->arena, &c->control, n->u.var, c);
    return node_map(&c->arena, n, mark_vars, c);
}

static Node *mark_control(void *user, Node *n)
{
    Counter *c = user;
    if (n->kind == N_LOOP) {
        mark_vars(c, KID(n, LOOP, lo));
        mark_vars(c, KID(n, LOOP, hi));
    } else if (n->kind == N_IF) {
        mark_vars(c, KID(n, IF, cond));
    }
    return node_map(&c->arena, n, mark_control, c);
}

// Once for each level of definitions that feed one another.
static Node *mark_definitions(void *user, Node *n)
{
    Counter *c = user;
    if (n->kind == N_DEFINE && map_has(&c->control, n->u.var)) mark_vars(c, KID(n, DEFINE, value));
    return node_map(&c->arena, n, mark_definitions, c);
}

static void find_control(Counter *c, Node *body)
{
    c->control = (Map){0};
    mark_control(c, body);
    for (int before = -1; before != c->control.n;) {
        before = c->control.n;
        mark_definitions(c, body);
    }
}

// ---- known values

static void know(Counter *c, const Var *v, int64_t value)
{
    int64_t *at = map_get(&c->value, v);
    if (!at) map_put(&c->arena, &c->value, v, at = NEW(&c->arena, int64_t));
    *at = value;
}

static bool dim_value(const Counter *c, const Var *v, int64_t *out)
{
    for (int i = 0; i < c->kernel->dims.n; i++)
        if (c->kernel->dims.at[i] == v) return *out = c->dims[i], true;
    return false;
}

static bool evaluate(const Counter *c, Node *n, int64_t *out)
{
    int64_t x, y;
    if (n->kind == N_INT) return *out = n->u.i, true;
    if (n->kind == N_VARREF) {
        const int64_t *known = map_get(&c->value, n->u.var);
        return known ? (*out = *known, true) : dim_value(c, n->u.var, out);
    }
    if (n->kind == N_SELECT)
        return evaluate(c, n->kid[0], &x) && evaluate(c, n->kid[x ? 1 : 2], out);
    if (n->kind == N_NOT) return evaluate(c, n->kid[0], &x) && (*out = !x, true);
    if (n->kind == N_CAST && !dtype_is_float((DType)n->type)) return evaluate(c, n->kid[0], out);
    if (n->nkid != 2 || n->lanes > 1 || !evaluate(c, n->kid[0], &x) || !evaluate(c, n->kid[1], &y))
        return false;
    switch (n->kind) {
    case N_ADD: *out = x + y; return true;
    case N_SUB: *out = x - y; return true;
    case N_MUL: *out = x * y; return true;
    case N_DIV: *out = y ? floor_div_i64(x, y) : 0; return true;
    case N_MOD: *out = y ? floor_mod_i64(x, y) : 0; return true;
    case N_MIN: *out = min_i64(x, y); return true;
    case N_MAX: *out = max_i64(x, y); return true;
    case N_LT: *out = x < y; return true;
    case N_LE: *out = x <= y; return true;
    case N_EQ: *out = x == y; return true;
    case N_NE: *out = x != y; return true;
    case N_LAND:
    case N_BAND: *out = x & y; return true;
    case N_LOR:
    case N_BOR: *out = x | y; return true;
    default: return false;
    }
}

// ---- counting

static double count(Counter *c, Node *n);

static double count_children(Counter *c, Node *n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n->nkid; i++)
        if (n->kid[i]) sum += count(c, n->kid[i]);
    return sum;
}

static double own(const Node *n)
{
    if (!dtype_is_float((DType)n->type)) return 0;
    if (n->kind == N_INTRIN) return n->lanes * (intrinsic_id(n->u.intr) == INTR_FMA ? 2.0 : 1.0);
    return node_info[n->kind].operands == OPERANDS_NUMBERS ? n->lanes : 0;
}

static double count_loop(Counter *c, Node *n)
{
    int64_t lo, hi;
    Node *body = KID(n, LOOP, body);
    bool known = evaluate(c, KID(n, LOOP, lo), &lo) && evaluate(c, KID(n, LOOP, hi), &hi);
    if (!known) return count(c, body);
    if (hi <= lo) return 0;
    if (!map_has(&c->control, n->u.var)) return (double)(hi - lo) * count(c, body);
    double sum = 0;
    for (int64_t i = lo; i < hi; i++) {
        know(c, n->u.var, i);
        sum += count(c, body);
    }
    return sum;
}

static double count_mapfor(Counter *c, Node *n)
{
    const Mapping *m = n->u.map;
    const Node *worker = KID(n, MAPFOR, worker);
    bool lanes = worker->kind == N_VARREF && worker->u.var->builtin == VAR_LANE;
    return (double)m->ntask * (lanes ? (double)m->nworker : 1) * count(c, KID(n, MAPFOR, body));
}

static double count(Counter *c, Node *n)
{
    int64_t v;
    switch (n->kind) {
    case N_LOOP: return count_loop(c, n);
    case N_MAPFOR: return count_mapfor(c, n);
    case N_DEFINE:
        if (map_has(&c->control, n->u.var) && evaluate(c, KID(n, DEFINE, value), &v))
            know(c, n->u.var, v);
        return count_children(c, n);
    case N_IF:
        if (!evaluate(c, KID(n, IF, cond), &v)) v = 1;
        if (v) return count(c, KID(n, IF, then));
        return KID(n, IF, other) ? count(c, KID(n, IF, other)) : 0;
    case N_SELECT: {
        if (evaluate(c, n->kid[0], &v)) return count(c, n->kid[v ? 1 : 2]);
        double a = count(c, n->kid[1]), b = count(c, n->kid[2]);
        return count(c, n->kid[0]) + (a > b ? a : b);
    }
    default: return own(n) + count_children(c, n);
    }
}

// All blocks along the axes from `axis` on.
static double count_blocks(Counter *c, const Stage *s, int axis)
{
    static const Builtin block[] = {VAR_BLOCK_X, VAR_BLOCK_Y, VAR_BLOCK_Z};
    if (axis == s->ngrid) return count(c, s->body);
    int64_t n = node_eval_dims(s->grid[axis], c->kernel, c->dims);
    const Var *v = s->builtin[block[axis]];
    if (!v || !map_has(&c->control, v)) return (double)n * count_blocks(c, s, axis + 1);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        know(c, v, i);
        sum += count_blocks(c, s, axis + 1);
    }
    return sum;
}

static double param_bytes(const Counter *c, const Buffer *b)
{
    double bytes = (double)dtype_size(b->type);
    for (int i = 0; i < b->rank; i++)
        bytes *= (double)node_eval_dims(b->extent[i], c->kernel, c->dims);
    return bytes;
}

Work kernel_work(const Kernel *k, const int64_t *dims)
{
    Counter c = {.kernel = k, .dims = dims};
    Work w = {0};
    c.arena.nomem = k->arena->nomem;
    for (int i = 0; i < k->stages.n; i++) {
        const Stage *s = k->stages.at[i];
        double threads = s->block ? (double)node_eval_dims(s->block, k, dims) : 1;
        find_control(&c, s->body);
        w.flops += threads * count_blocks(&c, s, 0);
    }
    for (int i = 0; i < k->params.n; i++) w.bytes += param_bytes(&c, k->params.at[i]);
    arena_free(&c.arena);
    return w;
}
