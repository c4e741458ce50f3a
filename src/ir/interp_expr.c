// SPDX-License-Identifier: Apache-2.0
// Expressions to instructions. A vector expression is computed lane by lane into consecutive
// registers; `one` compiles a single lane, `compile_expr` all of them, sharing what the lanes have
// in common.
#include "ir/fragment.h"
#include "ir/interp_compile.h"

#include <string.h>

typedef struct OpRow {
    NodeKind kind;
    Op i64, f32, f64; // OP_END: none
    bool rounds;      // the result has to be brought into a narrow type
    bool u64;         // the i64 instruction serves u64 too
} OpRow;
// clang-format off
static const OpRow op_rows[] = {
    // kind    integers      f32         f64         rounds  u64
    {N_ADD,  OP_ADD_I64,  OP_ADD_F32, OP_ADD_F64, true,  true},
    {N_SUB,  OP_SUB_I64,  OP_SUB_F32, OP_SUB_F64, true,  true},
    {N_MUL,  OP_MUL_I64,  OP_MUL_F32, OP_MUL_F64, true,  true},
    {N_DIV,  OP_DIV_I64,  OP_DIV_F32, OP_DIV_F64, true,  false},
    {N_MOD,  OP_MOD_I64,  OP_END,     OP_END,     true,  false},
    {N_MIN,  OP_MIN_I64,  OP_MIN_F32, OP_MIN_F64, false, false},
    {N_MAX,  OP_MAX_I64,  OP_MAX_F32, OP_MAX_F64, false, false},
    {N_SHL,  OP_SHL_I64,  OP_END,     OP_END,     true,  true},
    {N_SHR,  OP_SHR_I64,  OP_END,     OP_END,     true,  false},
    {N_BAND, OP_BAND_I64, OP_END,     OP_END,     false, true},
    {N_BOR,  OP_BOR_I64,  OP_END,     OP_END,     false, true},
    {N_BXOR, OP_BXOR_I64, OP_END,     OP_END,     false, true},
    {N_EQ,   OP_EQ_I64,   OP_EQ_F32,  OP_EQ_F64,  false, true},
    {N_NE,   OP_NE_I64,   OP_NE_F32,  OP_NE_F64,  false, true},
    {N_LT,   OP_LT_I64,   OP_LT_F32,  OP_LT_F64,  false, false},
    {N_LE,   OP_LE_I64,   OP_LE_F32,  OP_LE_F64,  false, false},
    {N_NEG,  OP_NEG_I64,  OP_NEG_F32, OP_NEG_F64, true,  true},
    {N_NOT,  OP_NOT_I64,  OP_END,     OP_END,     false, false},
    {N_BNOT, OP_BNOT_I64, OP_END,     OP_END,     true,  true},
};
// clang-format on
static const uint16_t wrap_ops[DT_COUNT] = {
    [DT_I8] = OP_WRAP_I8,    [DT_I16] = OP_WRAP_I16,    [DT_I32] = OP_WRAP_I32,
    [DT_U8] = OP_WRAP_U8,    [DT_U16] = OP_WRAP_U16,    [DT_U32] = OP_WRAP_U32,
    [DT_F16] = OP_ROUND_F16, [DT_BF16] = OP_ROUND_BF16,
};

// Brought into the type by the general operation alone.
static bool is_small(DType t)
{
    return dtypes[t].bits < 8 || dtype_small_float(t);
}

static int32_t one(Compiler *c, Node *n, int lane, int32_t dst);

static int lanes_of(const Node *n)
{
    return n->lanes > 1 ? n->lanes : 1;
}

static int32_t into(Compiler *c, int32_t dst)
{
    return dst == NO_REG ? compile_reg(c, 1) : dst;
}

static int32_t move(Compiler *c, Loc loc, int32_t src, int32_t dst)
{
    if (dst == NO_REG || dst == src) return src;
    EMIT(c, loc, MOVE, .a = dst, .b = src);
    return dst;
}

// Register of lane `lane` of an operand compiled by compile_expr.
static int32_t at_lane(const Node *n, int32_t reg, int lane)
{
    return n->lanes > 1 ? reg + lane : reg;
}

static const OpRow *op_row(const Node *n)
{
    for (size_t i = 0; i < COUNT(op_rows); i++)
        if (op_rows[i].kind == n->kind) return &op_rows[i];
    return NULL;
}

static void emit_scalar(Compiler *c, Node *n, bool is_intrinsic, int nargs, Node **arg,
                        const int32_t *r, int32_t dst)
{
    ScalarOp s;
    memset(&s, 0, sizeof s); // padding too: compared whole
    s.is_intrinsic = is_intrinsic;
    s.type = (DType)n->type;
    s.nargs = nargs;
    s.kind = is_intrinsic ? (uint16_t)intrinsic_id(n->u.intr) : n->kind;
    if (nargs > SCALAR_MAX_OPERANDS) {
        compile_error(c, n->loc, "'%s' has too many operands", node_info[n->kind].name);
        return;
    }
    Scalar probe[SCALAR_MAX_OPERANDS] = {0}, out;
    for (int i = 0; i < nargs; i++) probe[i].type = s.arg_type[i] = (DType)arg[i]->type;
    bool defined = is_intrinsic ? scalar_intrinsic((IntrinsicId)s.kind, probe, &out)
                                : scalar_apply((NodeKind)s.kind, s.type, probe, &out);
    if (!defined) {
        compile_error(c, n->loc, "'%s' is not defined on %s",
                      is_intrinsic ? n->u.intr->name : node_info[n->kind].spelling,
                      dtypes[nargs ? arg[0]->type : n->type].name);
        return;
    }
    int number = 0;
    while (number < c->p->scalars.n && memcmp(&c->p->scalars.at[number], &s, sizeof s)) number++;
    if (number == c->p->scalars.n) VEC_PUSH(c->a, &c->p->scalars, s);
    ASSERT(number <= UINT16_MAX); // there are fewer operations times types
    EMIT(c, n->loc, SCALAR, .aux = (uint16_t)number, .a = dst, .b = nargs > 0 ? r[0] : 0,
         .c = nargs > 1 ? r[1] : 0, .d = nargs > 2 ? r[2] : 0);
}

// One lane of an operator on operands in registers.
static void emit_operator(Compiler *c, Node *n, const int32_t *r, int32_t dst)
{
    const OpRow *row = op_row(n);
    DType type = (DType)n->kid[0]->type;
    Op op = OP_END;
    if (n->nkid > 1 && n->kid[1]->type != type) {
        compile_error(c, n->loc, "operands of different types, %s and %s", dtypes[type].name,
                      dtypes[n->kid[1]->type].name);
        return;
    }
    if (row) {
        if (type == DT_F64) op = row->f64;
        else if (dtype_is_float(type)) op = row->f32;
        else if (type != DT_U64 || row->u64) op = row->i64;
        if ((type == DT_BOOL || is_small(type)) && row->rounds) op = OP_END;
    }
    if (op == OP_END) {
        emit_scalar(c, n, false, (int)n->nkid, n->kid, r, dst);
        return;
    }
    Ins ins = {.a = dst, .b = r[0], .c = n->nkid > 1 ? r[1] : 0};
    if (n->kind == N_SHL || n->kind == N_SHR) ins.aux = (uint16_t)(dtypes[type].bits - 1);
    compile_emit(c, n->loc, op, ins);
    if (row->rounds && wrap_ops[n->type])
        compile_emit(c, n->loc, (Op)wrap_ops[n->type], (Ins){.a = dst, .b = dst});
}

static void emit_cast(Compiler *c, Node *n, int32_t r, int32_t dst)
{
    DType from = (DType)n->kid[0]->type, to = (DType)n->type;
    bool from_int = !dtype_is_float(from), to_int = !dtype_is_float(to);
    bool from_f32 = !from_int && from != DT_F64;
    Op op = OP_END;
    if (from == to) op = OP_MOVE;
    else if (from_int && (to == DT_I64 || to == DT_U64)) op = OP_MOVE;
    else if (from_int && to_int && to != DT_BOOL) op = (Op)wrap_ops[to];
    else if (from_int && from != DT_U64 && to == DT_F32) op = OP_I64_TO_F32;
    else if (from_int && from != DT_U64 && to == DT_F64) op = OP_I64_TO_F64;
    else if (from_f32 && to == DT_F64) op = OP_F32_TO_F64;
    else if (from_f32 && to == DT_F32) op = OP_MOVE;
    else if (from == DT_F64 && to == DT_F32) op = OP_F64_TO_F32;
    else if (from_f32 && !to_int) op = (Op)wrap_ops[to];
    if (op == OP_END) emit_scalar(c, n, false, 1, n->kid, &r, dst);
    else compile_emit(c, n->loc, op, (Ins){.a = dst, .b = r});
}

static void emit_ramp_lane(Compiler *c, Node *n, int32_t base, int lane, int32_t dst)
{
    if (lane == 0) {
        move(c, n->loc, base, dst);
        return;
    }
    int64_t step = (int64_t)((uint64_t)n->u.i * (uint64_t)lane);
    EMIT(c, n->loc, ADD_I64, .a = dst, .b = base, .c = compile_int(c, step));
    if (wrap_ops[n->type])
        compile_emit(c, n->loc, (Op)wrap_ops[n->type], (Ins){.a = dst, .b = dst});
}

// ---- intrinsics

static bool is_pure_intrinsic(const Intrinsic *i)
{
    return i->flags[0] == 'P';
}

static void emit_pure(Compiler *c, Node *n, const int32_t *r, int32_t dst)
{
    DType type = (DType)n->type;
    if (intrinsic_id(n->u.intr) == INTR_FMA && dtype_is_float(type) && !is_small(type)) {
        Ins ins = {.a = dst, .b = r[0], .c = r[1], .d = r[2]};
        compile_emit(c, n->loc, type == DT_F64 ? OP_FMA_F64 : OP_FMA_F32, ins);
        if (wrap_ops[type]) compile_emit(c, n->loc, (Op)wrap_ops[type], (Ins){.a = dst, .b = dst});
        return;
    }
    emit_scalar(c, n, true, (int)n->nkid, n->kid, r, dst);
}

// Lane l + lane l + L/2 and so on; an odd lane in the middle is added as it is met.
static int32_t lane_sum(Compiler *c, Node *n, int32_t dst)
{
    Node *v = n->kid[0];
    int count = lanes_of(v);
    int32_t r = compile_expr(c, v, NO_REG), sum = compile_reg(c, count);
    for (int l = 0; l < count; l++) EMIT(c, n->loc, MOVE, .a = sum + l, .b = r + l);
    Node *pair = node_binary(c->a, N_ADD, v, v);
    for (; count > 1; count -= count / 2) {
        int half = count / 2;
        for (int l = 0; l < half; l++) {
            int32_t operands[2] = {sum + l, sum + l + (count - half)};
            emit_operator(c, pair, operands, sum + l);
        }
    }
    return move(c, n->loc, sum, dst);
}

static void place_of(Compiler *c, Node *ref, bool held, RefPlace *place)
{
    int nindex = NREST(ref);
    *place = (RefPlace){.mem = compile_mem(c, ref->u.buf, ref->loc)};
    if (place->mem < 0) return;
    const Mem *m = &c->p->mems.at[place->mem];
    if (nindex != m->rank) {
        compile_error(c, ref->loc, "'%s' has %d axes, but %d indices", ref->u.buf->name, m->rank,
                      nindex);
        return;
    }
    if (m->owners && !held)
        compile_error(c, ref->loc, "'%s' is held by a mapping and has no place in memory",
                      ref->u.buf->name);
    place->index = compile_reg(c, 2 * nindex);
    place->length = place->index + nindex;
    for (int i = 0; i < nindex; i++) {
        Node *index = REST(ref)[i];
        bool span = index->kind == N_SPAN;
        if (lanes_of(span ? index->kid[0] : index) > 1)
            compile_error(c, index->loc, "the index of a place is a vector");
        one(c, span ? index->kid[0] : index, 0, place->index + i);
        if (span) one(c, index->kid[1], 0, place->length + i);
        else EMIT(c, index->loc, MOVE, .a = place->length + i, .b = compile_int(c, 1));
    }
}

static int32_t call(Compiler *c, Node *n, int lane, int32_t dst)
{
    int nargs = (int)n->nkid;
    Call call = {.intr = n->u.intr, .nargs = nargs, .role = c->role};
    call.arg = NEW_ARRAY(c->a, int32_t, nargs);
    call.arg_type = NEW_ARRAY(c->a, DType, nargs);
    call.place = NEW_ARRAY(c->a, RefPlace, nargs);
    call.text = NEW_ARRAY(c->a, const char *, nargs);
    for (int i = 0; i < nargs; i++) {
        Node *arg = n->kid[i];
        call.arg_type[i] = (DType)arg->type;
        if (arg->kind == N_REF) {
            bool held = intrinsic_id(n->u.intr) == INTR_MMA || fragment_own_operand(n->u.intr) == i;
            place_of(c, arg, held, &call.place[i]);
            call.arg_type[i] = arg->u.buf->type;
        } else if (arg->kind == N_STRING) {
            call.text[i] = arg->u.sym;
        } else {
            call.arg[i] = one(c, arg, lane, NO_REG);
        }
    }
    call.dst = dst == NO_REG ? compile_reg(c, 1) : dst;
    if (c->failed) return call.dst;
    if (c->pure) compile_error(c, n->loc, "a role's condition may only depend on the thread");
    VEC_PUSH(c->a, &c->p->calls, call);
    EMIT(c, n->loc, CALL, .a = c->p->calls.n - 1);
    return call.dst;
}

// ---- loads

static const uint16_t load_ops[2][4] = {
    {OP_LOAD_1, OP_LOAD_2, OP_LOAD_3, OP_LOAD_4},
    {OP_LOAD_F32_1, OP_LOAD_F32_2, OP_LOAD_F32_3, OP_LOAD_F32_4}};

// The worker whose elements an access means; NO_REG: any, by the core that owns the lanes.
static int32_t worker_of(Compiler *c, const Mem *m)
{
    if (!m->by_lane) return m->worker;
    return c->lane == NO_REG ? NO_REG : one(c, m->buf->over_worker, 0, NO_REG);
}

int32_t compile_pack(Compiler *c, Loc loc, int n, const int32_t *index)
{
    bool packed = true;
    for (int i = 1; i < n; i++) packed &= index[i] == index[0] + i;
    if (packed && n) return index[0];
    int32_t r = compile_reg(c, n);
    for (int i = 0; i < n; i++) EMIT(c, loc, MOVE, .a = r + i, .b = index[i]);
    return r;
}

static void load_element(Compiler *c, Loc loc, int mem, int32_t dst, const int32_t *index)
{
    Mem m = c->p->mems.at[mem];
    Ins ins = {.aux = (uint16_t)mem, .a = dst};
    if (m.owners) {
        compile_over(c, loc, OP_LOAD_OVER, ins, &m, index);
    } else if (m.rank >= 1 && m.rank <= 4) {
        ins.b = index[0];
        ins.c = m.rank > 1 ? index[1] : 0;
        ins.d = m.rank > 2 ? index[2] : 0;
        ins.e = m.rank > 3 ? index[3] : 0;
        compile_emit(c, loc, (Op)load_ops[m.type == DT_F32][m.rank - 1], ins);
    } else {
        ins.b = compile_pack(c, loc, m.rank, index);
        compile_emit(c, loc, OP_LOAD_N, ins);
    }
}

void compile_over(Compiler *c, Loc loc, Op op, Ins ins, const Mem *m, const int32_t *index)
{
    ins.b = m->rank > 3 ? compile_pack(c, loc, m->rank, index) : index[0];
    ins.d = m->rank > 1 ? index[1] : 0;
    ins.e = m->rank > 2 ? index[2] : 0;
    ins.c = worker_of(c, m);
    compile_emit(c, loc, op, ins);
}

int compile_guard(Compiler *c, Loc loc, int mem, const int32_t *index)
{
    int rank = c->p->mems.at[mem].rank;
    Ins ins = {.aux = (uint16_t)mem};
    ins.a = rank > 4 ? compile_pack(c, loc, rank, index) : rank > 0 ? index[0] : 0;
    ins.b = rank > 1 ? index[1] : 0;
    ins.c = rank > 2 ? index[2] : 0;
    ins.d = rank > 3 ? index[3] : 0;
    return compile_emit(c, loc, OP_JUMP_OUTSIDE, ins);
}

// Checks a LOAD or LOAD_ELSE; its buffer's number, or -1.
static int checked_mem(Compiler *c, Node *n)
{
    int mem = compile_mem(c, n->u.buf, n->loc);
    if (mem < 0) return -1;
    if (c->pure) {
        compile_error(c, n->loc, "a role's condition may only depend on the thread");
        return -1;
    }
    if (n->u.buf->is_mbarrier) {
        compile_error(c, n->loc, "'%s' is an mbarrier: it cannot be read", n->u.buf->name);
        return -1;
    }
    if (NREST(n) != c->p->mems.at[mem].rank) {
        compile_error(c, n->loc, "'%s' has %d axes, but %d indices", n->u.buf->name,
                      c->p->mems.at[mem].rank, NREST(n));
        return -1;
    }
    return mem;
}

static void emit_load_lane(Compiler *c, Node *n, int mem, const int32_t *index, int lane,
                           int32_t dst)
{
    if (n->kind == N_LOAD) {
        load_element(c, n->loc, mem, dst, index);
        return;
    }
    int guard = compile_guard(c, n->loc, mem, index);
    load_element(c, n->loc, mem, dst, index);
    int done = EMIT(c, n->loc, JUMP);
    compile_patch(c, guard, compile_here(c));
    one(c, KID(n, LOAD_ELSE, other), lane, dst);
    compile_patch(c, done, compile_here(c));
}

static int32_t load_one(Compiler *c, Node *n, int lane, int32_t dst)
{
    int mem = checked_mem(c, n);
    if (mem < 0) return into(c, dst);
    int32_t index[MAX_RANK];
    for (int i = 0; i < NREST(n); i++) index[i] = one(c, REST(n)[i], lane, NO_REG);
    if (n->kind == N_LOAD_ELSE) {
        int32_t result = compile_reg(c, 1);
        emit_load_lane(c, n, mem, index, lane, result);
        return move(c, n->loc, result, dst);
    }
    dst = into(c, dst);
    emit_load_lane(c, n, mem, index, lane, dst);
    return dst;
}

static void load_all(Compiler *c, Node *n, int32_t dst)
{
    int mem = checked_mem(c, n);
    if (mem < 0) return;
    int32_t base[MAX_RANK], index[MAX_RANK];
    for (int i = 0; i < NREST(n); i++) base[i] = compile_expr(c, REST(n)[i], NO_REG);
    for (int l = 0; l < lanes_of(n); l++) {
        for (int i = 0; i < NREST(n); i++) index[i] = at_lane(REST(n)[i], base[i], l);
        emit_load_lane(c, n, mem, index, l, dst + l);
    }
}

// ---- one lane

static bool is_leaf(const Node *n)
{
    return n->kind == N_INT || n->kind == N_FLOAT || n->kind == N_VARREF;
}

static int32_t select_one(Compiler *c, Node *n, int32_t cond, int lane, int32_t dst)
{
    if (is_leaf(n->kid[1]) && is_leaf(n->kid[2])) {
        int32_t a = one(c, n->kid[1], lane, NO_REG), b = one(c, n->kid[2], lane, NO_REG);
        dst = into(c, dst);
        EMIT(c, n->loc, CHOOSE, .a = dst, .b = cond, .c = a, .d = b);
        return dst;
    }
    int32_t result = compile_reg(c, 1);
    int skip = EMIT(c, n->loc, JUMP_FALSE, .a = cond);
    one(c, n->kid[1], lane, result);
    int done = EMIT(c, n->loc, JUMP);
    compile_patch(c, skip, compile_here(c));
    one(c, n->kid[2], lane, result);
    compile_patch(c, done, compile_here(c));
    return move(c, n->loc, result, dst);
}

static int32_t logic_one(Compiler *c, Node *n, int lane, int32_t dst)
{
    int32_t result = compile_reg(c, 1);
    one(c, n->kid[0], lane, result);
    int done = n->kind == N_LAND ? EMIT(c, n->loc, JUMP_FALSE, .a = result)
                                 : EMIT(c, n->loc, JUMP_TRUE, .a = result);
    one(c, n->kid[1], lane, result);
    compile_patch(c, done, compile_here(c));
    return move(c, n->loc, result, dst);
}

static int32_t constant(Compiler *c, const Node *n)
{
    Scalar s;
    if (!scalar_of(n, &s)) {
        compile_error(c, n->loc, "a constant without a type");
        return compile_int(c, 0);
    }
    return compile_const(c, scalar_cell(&s));
}

static int32_t variable(Compiler *c, Node *n, int lane, int32_t dst)
{
    Var *v = n->u.var;
    Node *value = map_get(&c->defines, v);
    if (c->pure && v->builtin == VAR_NORMAL) {
        if (value) return one(c, value, lane, dst);
        compile_error(c, n->loc, "a role's condition may only depend on the thread, not on '%s'",
                      v->name);
        return compile_int(c, 0);
    }
    if (v->builtin == VAR_LANE && c->lane != NO_REG) return move(c, n->loc, c->lane, dst);
    if (v->builtin != VAR_NORMAL && v->builtin != VAR_DIM && v->builtin != VAR_LANE)
        return move(c, n->loc, (int32_t)v->builtin, dst);
    void *reg = map_get(&c->vars, v);
    if (!reg) {
        compile_error(c, n->loc, "'%s' has no value here", v->name);
        return compile_int(c, 0);
    }
    int32_t r = (int32_t)((intptr_t)reg - MAX_FRAME);
    return move(c, n->loc, v->lanes > 1 ? r + lane : r, dst);
}

static int32_t extract(Compiler *c, Node *n, int32_t dst)
{
    Node *v = KID(n, EXTRACT, a), *lane = KID(n, EXTRACT, lane);
    if (lane->kind == N_INT && lane->u.i >= 0 && lane->u.i < lanes_of(v))
        return one(c, v, (int)lane->u.i, dst);
    int32_t r = compile_expr(c, v, NO_REG), l = one(c, lane, 0, NO_REG);
    dst = into(c, dst);
    EMIT(c, n->loc, LANE, .a = dst, .b = r, .c = l, .d = lanes_of(v));
    return dst;
}

static int32_t intrinsic_one(Compiler *c, Node *n, int lane, int32_t dst)
{
    if (intrinsic_id(n->u.intr) == INTR_LANE_SUM) return lane_sum(c, n, dst);
    if (!is_pure_intrinsic(n->u.intr)) return call(c, n, lane, dst);
    int32_t r[SCALAR_MAX_OPERANDS] = {0};
    for (int i = 0; i < (int)n->nkid && i < SCALAR_MAX_OPERANDS; i++)
        r[i] = one(c, n->kid[i], lane, NO_REG);
    dst = into(c, dst);
    emit_pure(c, n, r, dst);
    return dst;
}

static int32_t one(Compiler *c, Node *n, int lane, int32_t dst)
{
    if (c->failed) return into(c, dst);
    switch (n->kind) {
    case N_INT:
    case N_FLOAT: return move(c, n->loc, constant(c, n), dst);
    case N_VARREF: return variable(c, n, lane, dst);
    case N_BROADCAST: return one(c, n->kid[0], 0, dst);
    case N_EXTRACT: return extract(c, n, dst);
    case N_LOAD:
    case N_LOAD_ELSE: return load_one(c, n, lane, dst);
    case N_LAND:
    case N_LOR: return logic_one(c, n, lane, dst);
    case N_SELECT: return select_one(c, n, one(c, n->kid[0], lane, NO_REG), lane, dst);
    case N_INTRIN: return intrinsic_one(c, n, lane, dst);
    default: break;
    }
    if (!n->nkid || n->nkid > 2) {
        compile_error(c, n->loc, "'%s' is not an expression of kernel IR", node_info[n->kind].name);
        return into(c, dst);
    }
    if (n->kind == N_BITCAST && lanes_of(n) != lanes_of(n->kid[0])) {
        compile_error(c, n->loc, "a bitcast keeps the number of lanes");
        return into(c, dst);
    }
    Node *a = n->kid[0];
    if (n->kind == N_ADD && n->type == DT_I64 && a->kind == N_MUL) {
        int32_t x = one(c, a->kid[0], lane, NO_REG), y = one(c, a->kid[1], lane, NO_REG);
        int32_t z = one(c, n->kid[1], lane, NO_REG);
        dst = into(c, dst);
        EMIT(c, n->loc, MULADD_I64, .a = dst, .b = x, .c = y, .d = z);
        return dst;
    }
    int32_t r[2] = {one(c, a, lane, NO_REG), n->nkid > 1 ? one(c, n->kid[1], lane, NO_REG) : 0};
    dst = into(c, dst);
    if (n->kind == N_RAMP) emit_ramp_lane(c, n, r[0], lane, dst);
    else if (n->kind == N_CAST) emit_cast(c, n, r[0], dst);
    else emit_operator(c, n, r, dst);
    return dst;
}

// ---- all lanes

static void elementwise(Compiler *c, Node *n, int32_t dst)
{
    int32_t base[SCALAR_MAX_OPERANDS], r[SCALAR_MAX_OPERANDS] = {0};
    int nkid = (int)n->nkid;
    if (nkid > SCALAR_MAX_OPERANDS) {
        compile_error(c, n->loc, "'%s' has too many operands", node_info[n->kind].name);
        return;
    }
    for (int i = 0; i < nkid; i++) base[i] = compile_expr(c, n->kid[i], NO_REG);
    for (int l = 0; l < lanes_of(n); l++) {
        for (int i = 0; i < nkid; i++) r[i] = at_lane(n->kid[i], base[i], l);
        if (n->kind == N_INTRIN) emit_pure(c, n, r, dst + l);
        else if (n->kind == N_CAST) emit_cast(c, n, r[0], dst + l);
        else emit_operator(c, n, r, dst + l);
    }
}

int32_t compile_expr(Compiler *c, Node *n, int32_t dst)
{
    int count = lanes_of(n);
    if (count == 1) return one(c, n, 0, dst);
    if (n->kind == N_VARREF && dst == NO_REG) return variable(c, n, 0, NO_REG);
    if (dst == NO_REG) dst = compile_reg(c, count);
    if (c->failed) return dst;
    int32_t r;
    switch (n->kind) {
    case N_BROADCAST:
    case N_RAMP:
        r = one(c, n->kid[0], 0, NO_REG);
        for (int l = 0; l < count; l++) {
            if (n->kind == N_RAMP) emit_ramp_lane(c, n, r, l, dst + l);
            else move(c, n->loc, r, dst + l);
        }
        break;
    case N_LOAD:
    case N_LOAD_ELSE: load_all(c, n, dst); break;
    case N_SELECT:
        r = compile_expr(c, n->kid[0], NO_REG);
        for (int l = 0; l < count; l++) select_one(c, n, at_lane(n->kid[0], r, l), l, dst + l);
        break;
    case N_VARREF:
    case N_LAND:
    case N_LOR:
        for (int l = 0; l < count; l++) one(c, n, l, dst + l);
        break;
    case N_INTRIN:
        if (is_pure_intrinsic(n->u.intr)) elementwise(c, n, dst);
        else
            for (int l = 0; l < count; l++) call(c, n, l, dst + l);
        break;
    default: elementwise(c, n, dst); break;
    }
    return dst;
}
