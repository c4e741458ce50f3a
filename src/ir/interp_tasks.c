// SPDX-License-Identifier: Apache-2.0
// MAPFOR to loops. A mapping is a product of digits, outermost first: spatial and custom digits fix
// their part of the index from the worker before any loop, each dimension of a repeat digit is a
// loop whose variable is the index so far.
#include "ir/interp_compile.h"

typedef struct Digit {
    const Mapping *map;      // spatial, repeat or custom
    int64_t divisor;         // its worker: w / divisor mod its workers
    int64_t scale[MAX_RANK]; // of its part in the index; 0 where pinned by a projection
} Digit;

typedef struct Tasks {
    Compiler *c;
    Node *node;
    const Mapping *map;
    VEC(Digit) digits;
    int32_t worker;
    int32_t index[MAX_RANK]; // so far
    Exits exits;
    int innermost; // instruction where the innermost loop goes on, -1: there is none
} Tasks;

static void split(Tasks *t, const Mapping *m, int64_t divisor, const int64_t *scale)
{
    if (m->kind == MAP_COMPOSE) {
        int64_t outer[MAX_RANK];
        for (int i = 0; i < m->rank; i++) outer[i] = scale[i] * m->inner->shape[i];
        split(t, m->outer, divisor * m->inner->nworker, outer);
        split(t, m->inner, divisor, scale);
    } else if (m->kind == MAP_PROJECT) {
        int64_t kept[MAX_RANK];
        for (int i = 0; i < m->rank; i++) kept[i] = m->fixed[i] ? 0 : scale[i];
        split(t, m->outer, divisor, kept);
    } else {
        Digit d = {.map = m, .divisor = divisor};
        for (int i = 0; i < m->rank; i++) d.scale[i] = scale[i];
        VEC_PUSH(t->c->a, &t->digits, d);
    }
}

static void add_part(Tasks *t, int dim, int64_t scale, int32_t part)
{
    Compiler *c = t->c;
    int32_t sum = compile_reg(c, 1);
    EMIT(c, t->node->loc, MULADD_I64, .a = sum, .b = part, .c = compile_int(c, scale),
         .d = t->index[dim]);
    t->index[dim] = sum;
}

// (r / divisor) mod modulus; modulus 0: whole.
static int32_t digit_of(Tasks *t, int32_t r, int64_t divisor, int64_t modulus)
{
    Compiler *c = t->c;
    Loc loc = t->node->loc;
    if (modulus == 1) return compile_int(c, 0);
    int32_t q = r, m;
    if (divisor > 1) {
        q = compile_reg(c, 1);
        EMIT(c, loc, DIV_I64, .a = q, .b = r, .c = compile_int(c, divisor));
    }
    if (!modulus) return q;
    m = compile_reg(c, 1);
    EMIT(c, loc, MOD_I64, .a = m, .b = q, .c = compile_int(c, modulus));
    return m;
}

static void spatial(Tasks *t, const Digit *d)
{
    const Mapping *m = d->map;
    for (int i = 0; i < m->rank; i++) {
        int64_t stride = 1;
        for (int j = 0; j < m->rank; j++)
            if (m->order[j] > m->order[i]) stride *= m->shape[j];
        if (!d->scale[i] || m->shape[i] == 1) continue;
        bool slowest =
            stride * m->shape[i] == m->nworker && d->divisor * m->nworker == t->map->nworker;
        add_part(t, i, d->scale[i],
                 digit_of(t, t->worker, d->divisor * stride, slowest ? 0 : m->shape[i]));
    }
}

static void custom(Tasks *t, const Digit *d)
{
    Compiler *c = t->c;
    const Mapping *m = d->map;
    Node *f = m->function;
    int32_t w = digit_of(t, t->worker, d->divisor, m->nworker);
    compile_bind(c, m->worker_var->u.var, w);
    bool tuple = f->kind == N_TUPLE;
    if ((tuple ? (int)f->nkid : 1) != m->rank) {
        compile_error(c, f->loc, "the function of this mapping does not give %d indices", m->rank);
        return;
    }
    for (int i = 0; i < m->rank; i++) {
        int32_t part = compile_expr(c, tuple ? f->kid[i] : f, NO_REG);
        if (d->scale[i]) add_part(t, i, d->scale[i], part);
    }
}

static void body(Tasks *t)
{
    Compiler *c = t->c;
    for (int i = 0; i < NREST(t->node); i++) compile_bind(c, REST(t->node)[i]->u.var, t->index[i]);
    t->exits.outer = c->exits;
    c->exits = &t->exits;
    compile_stmt(c, KID(t->node, MAPFOR, body));
    c->exits = t->exits.outer;
    t->innermost = compile_here(c);
}

static void loops(Tasks *t, int digit, int rank);

// One dimension of a repeat digit: from the index so far, in steps of the scale. A pinned dimension
// only counts.
static void dimension(Tasks *t, int digit, int rank)
{
    Compiler *c = t->c;
    Loc loc = t->node->loc;
    const Digit *d = &t->digits.at[digit];
    int dim = 0;
    while (d->map->order[dim] != rank) dim++;
    int64_t n = d->map->shape[dim], step = d->scale[dim] ? d->scale[dim] : 1;
    if (n == 1) {
        loops(t, digit, rank + 1);
        return;
    }
    int32_t i = compile_reg(c, 1), end = compile_reg(c, 1), before = t->index[dim];
    int32_t from = d->scale[dim] ? before : compile_int(c, 0);
    EMIT(c, loc, MOVE, .a = i, .b = from);
    EMIT(c, loc, ADD_I64, .a = end, .b = from, .c = compile_int(c, n * step));
    if (d->scale[dim]) t->index[dim] = i;
    int start = compile_here(c);
    loops(t, digit, rank + 1);
    EMIT(c, loc, NEXT_STEP, .a = i, .b = end, .c = compile_int(c, step), .e = start);
    t->index[dim] = before;
}

static void loops(Tasks *t, int digit, int rank)
{
    if (t->c->failed) return;
    if (digit == t->digits.n) body(t);
    else if (t->digits.at[digit].map->kind != MAP_REPEAT || rank == t->map->rank)
        loops(t, digit + 1, 0);
    else dimension(t, digit, rank);
}

// The tasks of the worker in t->worker, in order.
static void tasks(Tasks *t)
{
    for (int i = 0; i < t->map->rank; i++) t->index[i] = compile_int(t->c, 0);
    for (int i = 0; i < t->digits.n && !t->c->failed; i++) {
        if (t->digits.at[i].map->kind == MAP_SPATIAL) spatial(t, &t->digits.at[i]);
        else if (t->digits.at[i].map->kind == MAP_CUSTOM) custom(t, &t->digits.at[i]);
    }
    loops(t, 0, 0);
}

void compile_tasks(Compiler *c, Node *n)
{
    Tasks t = {.c = c, .node = n, .map = n->u.map};
    Node *worker = KID(n, MAPFOR, worker);
    int64_t scale[MAX_RANK];
    if (NREST(n) != t.map->rank) {
        compile_error(c, n->loc, "mapping has %d axes but the loop names %d", t.map->rank,
                      NREST(n));
        return;
    }
    for (int i = 0; i < t.map->rank; i++) scale[i] = 1;
    split(&t, t.map, 1, scale);
    int32_t n_workers = compile_int(c, t.map->nworker), outer_lane = c->lane;
    bool by_lane =
        worker->kind == N_VARREF && worker->u.var->builtin == VAR_LANE && outer_lane == NO_REG;
    int guard = -1, start = 0;
    if (by_lane) {
        c->lane = t.worker = compile_reg(c, 1);
        EMIT(c, n->loc, MOVE, .a = t.worker, .b = compile_int(c, 0));
        start = compile_here(c);
    } else {
        t.worker = compile_expr(c, worker, NO_REG);
        guard = EMIT(c, n->loc, JUMP_UNLESS_BELOW, .a = t.worker, .b = n_workers);
    }
    tasks(&t);
    int after = compile_here(c);
    if (by_lane) EMIT(c, n->loc, NEXT, .a = t.worker, .b = n_workers, .e = start);
    if (guard >= 0) compile_patch(c, guard, after);
    Exits *exits = c->exits;
    compile_exits(c, &t.exits, after, t.innermost);
    c->exits = exits;
    c->lane = outer_lane;
}
