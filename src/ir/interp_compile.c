// SPDX-License-Identifier: Apache-2.0
// A stage's body to flat code for the register machine. Registers are handed out like a stack:
// those of a statement's temporaries are free again after it, those of variables at the end of
// their SEQ.
#include "ir/interp_compile.h"

#include <stdarg.h>

int compile_emit(Compiler *c, Loc loc, Op op, Ins ins)
{
    ins.op = (uint16_t)op;
    VEC_PUSH(c->a, &c->p->code, ins);
    VEC_PUSH(c->a, &c->p->loc, loc);
    return c->p->code.n - 1;
}

void compile_patch(Compiler *c, int ins, int target)
{
    c->p->code.at[ins].e = target;
}

int32_t compile_reg(Compiler *c, int n)
{
    int32_t r = c->top;
    c->top += n;
    if (c->top > c->p->nreg) c->p->nreg = c->top;
    if (c->top >= MAX_FRAME) {
        compile_error(c, 0, "a stage needs more than %d registers", MAX_FRAME);
        c->top = r;
    }
    return r;
}

int32_t compile_const(Compiler *c, Cell v)
{
    const void *key = (const void *)(uintptr_t)v.i;
    intptr_t number = (intptr_t)map_get(&c->constants, key);
    if (!number) {
        VEC_PUSH(c->a, &c->p->constants, v);
        number = c->p->constants.n;
        map_put(c->a, &c->constants, key, (void *)number);
    }
    return (int32_t)-number;
}

int32_t compile_own_reg(Compiler *c)
{
    VEC_PUSH(c->a, &c->p->constants, (Cell){0});
    return -c->p->constants.n;
}

void compile_error(Compiler *c, Loc loc, const char *fmt, ...)
{
    if (c->failed) return;
    c->failed = true;
    va_list ap;
    va_start(ap, fmt);
    diag_report(c->run->diag, SEV_ERROR, loc, fmt, ap);
    va_end(ap);
    diag_note(c->run->diag, c->run->kernel->loc, "while preparing to interpret kernel '%s'",
              c->run->kernel->name);
}

void compile_bind(Compiler *c, Var *v, int32_t reg)
{
    map_put(c->a, &c->vars, v, (void *)((intptr_t)reg + MAX_FRAME));
}

static int32_t reg_of(Compiler *c, Node *n)
{
    void *reg = map_get(&c->vars, n->u.var);
    if (!reg) compile_error(c, n->loc, "'%s' was not declared", n->u.var->name);
    return reg ? (int32_t)((intptr_t)reg - MAX_FRAME) : 0;
}

// Does some lane of the value depend on another lane of a vector?
static bool crosses_lanes(const Node *n)
{
    if (n->kind == N_EXTRACT || n->kind == N_INTRIN) return true;
    for (uint32_t i = 0; i < n->nkid; i++)
        if (n->kid[i] && crosses_lanes(n->kid[i])) return true;
    return false;
}

static void declare(Compiler *c, Node *n)
{
    Var *v = n->u.var;
    Node *value = n->kid[0];
    int32_t reg = compile_reg(c, v->lanes > 1 ? v->lanes : 1);
    if (value && (value->lanes > 1 ? value->lanes : 1) != (v->lanes > 1 ? v->lanes : 1)) {
        compile_error(c, n->loc, "'%s' has %d lanes, its value %d", v->name, v->lanes,
                      value->lanes);
        return;
    }
    if (value) compile_expr(c, value, reg);
    compile_bind(c, v, reg);
    if (n->kind == N_DEFINE) map_put(c->a, &c->defines, v, value);
    c->top = reg + (v->lanes > 1 ? v->lanes : 1);
}

static void set(Compiler *c, Node *n)
{
    int32_t reg = reg_of(c, n);
    Node *value = KID(n, SET, value);
    int lanes = n->u.var->lanes;
    if (lanes <= 1 || !crosses_lanes(value)) {
        compile_expr(c, value, reg);
        return;
    }
    int32_t r = compile_expr(c, value, compile_reg(c, lanes));
    for (int l = 0; l < lanes; l++) EMIT(c, n->loc, MOVE, .a = reg + l, .b = r + l);
}

static void alloc(Compiler *c, Node *n)
{
    int mem = compile_place_local(c, n->u.buf);
    if (mem < 0) return;
    Buffer *b = n->u.buf;
    int top = c->top;
    Mem *m = &c->p->mems.at[mem];
    if (m->owners && !m->by_lane) {
        if (m->worker == NO_REG) {
            m->worker = compile_own_reg(c);
            m->made = compile_own_reg(c);
        }
        int32_t worker = m->worker, made = m->made;
        compile_expr(c, b->over_worker, worker);
        EMIT(c, n->loc, ADD_I64, .a = made, .b = made, .c = compile_int(c, 1));
    }
    Node *init = KID(n, ALLOC, init);
    int32_t value = init ? compile_expr(c, init, NO_REG) : NO_REG;
    if (b->space == SPACE_SHARED) {
        // It belongs to all threads: one that comes late must not make it new again.
        if (init)
            compile_error(c, n->loc, "shared memory '%s' is set where it is declared", b->name);
        return;
    }
    EMIT(c, n->loc, ALLOC, .aux = (uint16_t)mem, .a = value);
    c->top = top;
}

static const uint16_t store_ops[2][4] = {
    {OP_STORE_1, OP_STORE_2, OP_STORE_3, OP_STORE_4},
    {OP_STORE_F32_1, OP_STORE_F32_2, OP_STORE_F32_3, OP_STORE_F32_4}};

static void store_one(Compiler *c, Node *n, int mem, int32_t value, const int32_t *index)
{
    Mem m = c->p->mems.at[mem];
    Ins ins = {.aux = (uint16_t)mem, .a = value};
    int guard = n->sub == GUARD_DROP ? compile_guard(c, n->loc, mem, index) : -1;
    if (m.owners) {
        compile_over(c, n->loc, OP_STORE_OVER, ins, &m, index);
    } else if (m.rank >= 1 && m.rank <= 4) {
        ins.b = index[0];
        ins.c = m.rank > 1 ? index[1] : 0;
        ins.d = m.rank > 2 ? index[2] : 0;
        ins.e = m.rank > 3 ? index[3] : 0;
        compile_emit(c, n->loc, (Op)store_ops[m.type == DT_F32][m.rank - 1], ins);
    } else {
        ins.b = compile_pack(c, n->loc, m.rank, index);
        compile_emit(c, n->loc, OP_STORE_N, ins);
    }
    if (guard >= 0) compile_patch(c, guard, compile_here(c));
}

static void store(Compiler *c, Node *n)
{
    Node *value = KID(n, STORE, value);
    int mem = compile_mem(c, n->u.buf, n->loc), nindex = NREST(n);
    if (mem < 0) return;
    if (nindex != c->p->mems.at[mem].rank) {
        compile_error(c, n->loc, "'%s' has %d axes, but %d indices", n->u.buf->name,
                      c->p->mems.at[mem].rank, nindex);
        return;
    }
    if (n->u.buf->is_mbarrier || n->u.buf->type != value->type) {
        compile_error(c, n->loc, "a value of type %s is stored to '%s'", dtypes[value->type].name,
                      n->u.buf->name);
        return;
    }
    int32_t base[MAX_RANK], index[MAX_RANK], r = compile_expr(c, value, NO_REG);
    int lanes = value->lanes;
    for (int i = 0; i < nindex; i++) {
        base[i] = compile_expr(c, REST(n)[i], NO_REG);
        if (REST(n)[i]->lanes > lanes) lanes = REST(n)[i]->lanes;
    }
    for (int l = 0; l < (lanes > 1 ? lanes : 1); l++) {
        for (int i = 0; i < nindex; i++) index[i] = REST(n)[i]->lanes > 1 ? base[i] + l : base[i];
        store_one(c, n, mem, value->lanes > 1 ? r + l : r, index);
    }
}

void compile_exits(Compiler *c, Exits *exits, int break_target, int continue_target)
{
    for (int i = 0; i < exits->breaks.n; i++) compile_patch(c, exits->breaks.at[i], break_target);
    for (int i = 0; i < exits->continues.n; i++)
        compile_patch(c, exits->continues.at[i], continue_target);
    c->exits = exits->outer;
}

static void leave(Compiler *c, Node *n)
{
    if (!c->exits) {
        compile_error(c, n->loc, "'%s' outside a loop", node_info[n->kind].spelling);
        return;
    }
    int jump = EMIT(c, n->loc, JUMP);
    if (n->kind == N_BREAK) VEC_PUSH(c->a, &c->exits->breaks, jump);
    else VEC_PUSH(c->a, &c->exits->continues, jump);
}

static void loop(Compiler *c, Node *n)
{
    int32_t i = compile_reg(c, 1), hi = compile_reg(c, 1);
    compile_expr(c, KID(n, LOOP, lo), i);
    compile_expr(c, KID(n, LOOP, hi), hi);
    compile_bind(c, n->u.var, i);
    Exits exits = {.outer = c->exits};
    c->exits = &exits;
    int skip = EMIT(c, n->loc, JUMP_GE, .a = i, .b = hi), start = compile_here(c);
    compile_stmt(c, KID(n, LOOP, body));
    int next = EMIT(c, n->loc, NEXT, .a = i, .b = hi, .e = start);
    compile_patch(c, skip, compile_here(c));
    compile_exits(c, &exits, compile_here(c), next);
}

static void while_loop(Compiler *c, Node *n)
{
    int start = compile_here(c), top = c->top;
    Exits exits = {.outer = c->exits};
    c->exits = &exits;
    int skip = EMIT(c, n->loc, JUMP_FALSE, .a = compile_expr(c, KID(n, WHILE, cond), NO_REG));
    c->top = top;
    compile_stmt(c, KID(n, WHILE, body));
    EMIT(c, n->loc, JUMP, .e = start);
    compile_patch(c, skip, compile_here(c));
    compile_exits(c, &exits, compile_here(c), start);
}

static void branch(Compiler *c, Node *n)
{
    int32_t cond = compile_expr(c, KID(n, IF, cond), NO_REG);
    int skip = EMIT(c, n->loc, JUMP_FALSE, .a = cond);
    compile_stmt(c, KID(n, IF, then));
    if (KID(n, IF, other)) {
        int done = EMIT(c, n->loc, JUMP);
        compile_patch(c, skip, compile_here(c));
        compile_stmt(c, KID(n, IF, other));
        skip = done;
    }
    compile_patch(c, skip, compile_here(c));
}

static void role(Compiler *c, Node *n)
{
    Role r = {.parent = c->role, .loc = n->loc, .cond = KID(n, ROLE, cond)};
    VEC_PUSH(c->a, &c->p->roles, r);
    int number = c->p->roles.n - 1, outer = c->role;
    int skip = EMIT(c, n->loc, ROLE, .a = number);
    c->role = number;
    compile_stmt(c, KID(n, ROLE, body));
    c->role = outer;
    compile_patch(c, skip, compile_here(c));
}

static void one_thread(Compiler *c, Node *n)
{
    int skip = EMIT(c, n->loc, ONE, .a = c->role);
    compile_stmt(c, KID(n, ONE, body));
    compile_patch(c, skip, compile_here(c));
}

static void check(Compiler *c, Node *n)
{
    int32_t cond = compile_expr(c, KID(n, CHECK, cond), NO_REG);
    VEC_PUSH(c->a, &c->p->messages, n->u.sym);
    EMIT(c, n->loc, CHECK, .a = cond, .b = c->p->messages.n - 1);
}

static void seq(Compiler *c, Node *n)
{
    int top = c->top;
    for (int i = 0; i < NREST(n); i++) compile_stmt(c, REST(n)[i]);
    c->top = top;
}

void compile_stmt(Compiler *c, Node *n)
{
    int top = c->top;
    if (c->failed) return;
    switch (n->kind) {
    case N_DEFINE:
    case N_DECLARE: declare(c, n); return; // their registers stay
    case N_ALLOC: alloc(c, n); return;
    case N_SEQ: seq(c, n); break;
    case N_SET: set(c, n); break;
    case N_STORE: store(c, n); break;
    case N_LOOP: loop(c, n); break;
    case N_WHILE: while_loop(c, n); break;
    case N_IF: branch(c, n); break;
    case N_BREAK:
    case N_CONTINUE: leave(c, n); break;
    case N_MAPFOR: compile_tasks(c, n); break;
    case N_ROLE: role(c, n); break;
    case N_ONE: one_thread(c, n); break;
    case N_CHECK: check(c, n); break;
    case N_EVAL: compile_expr(c, KID(n, EVAL, a), NO_REG); break;
    default:
        compile_error(c, n->loc, "'%s' is not a statement of kernel IR", node_info[n->kind].name);
        break;
    }
    c->top = top;
}

// ---- before: what has to be known of the whole body

static void share_unit(Compiler *c, const Buffer *b)
{
    const Buffer *root = compile_root(b);
    if (root == b) return;
    intptr_t unit = (intptr_t)map_get(&c->units, root);
    intptr_t own = compile_element_bytes(b), its = compile_element_bytes(root);
    if (!unit || its < unit) unit = its;
    if (own < unit) unit = own;
    map_put(c->a, &c->units, root, (void *)unit);
}

static void scan(Compiler *c, const Node *n, int depth);

static void scan_mapping(Compiler *c, const Mapping *m, int depth)
{
    if (m->kind == MAP_CUSTOM) scan(c, m->function, depth + 1);
    if (m->outer) scan_mapping(c, m->outer, depth);
    if (m->inner) scan_mapping(c, m->inner, depth);
}

// Bounds the depth, so that no later recursion over the body has to, and finds grid barriers and
// aliases.
static void scan(Compiler *c, const Node *n, int depth)
{
    if (c->failed) return;
    if (depth > MAX_DEPTH) {
        compile_error(c, n->loc, "nested too deeply");
        return;
    }
    if (n->kind == N_INTRIN && intrinsic_id(n->u.intr) == INTR_GRID_BARRIER)
        c->p->whole_grid = true;
    if (n->kind == N_ALLOC) {
        share_unit(c, n->u.buf);
        if (n->u.buf->over_worker) scan(c, n->u.buf->over_worker, depth + 1);
    }
    if (n->kind == N_MAPFOR) scan_mapping(c, n->u.map, depth);
    for (uint32_t i = 0; i < n->nkid; i++)
        if (n->kid[i]) scan(c, n->kid[i], depth + 1);
}

// Code of its own for each role's condition, so that the members are known before any thread runs.
static void role_conditions(Compiler *c)
{
    c->pure = true;
    for (int i = 0; i < c->p->roles.n && !c->failed; i++) {
        Role *r = &c->p->roles.at[i];
        r->entry = compile_here(c);
        r->result = compile_expr(c, r->cond, compile_reg(c, 1));
        EMIT(c, r->loc, END);
    }
}

Program *interp_compile(Run *run, const Stage *stage)
{
    Arena *a = &run->arena;
    Compiler c = {
        .run = run, .a = a, .stage = stage, .role = -1, .lane = NO_REG, .top = VAR_CORE + 1};
    c.p = NEW(a, Program);
    c.p->stage = stage;
    c.p->nreg = c.top;
    for (int i = 0; i < run->kernel->dims.n; i++)
        compile_bind(&c, run->kernel->dims.at[i], compile_int(&c, run->dims[i]));
    scan(&c, stage->body, 0);
    for (int i = 0; i < stage->memory.n; i++) share_unit(&c, stage->memory.at[i]);
    if (!c.failed) compile_place_stage(&c);
    if (!c.failed) compile_stmt(&c, stage->body);
    EMIT(&c, stage->body->loc, END);
    role_conditions(&c);
    return c.failed ? NULL : c.p;
}
