// SPDX-License-Identifier: Apache-2.0
// The register machine. r is the thread's frame; in the comments beside the labels x is r[x], and
// `jump` goes to instruction e. The frequent operations are here, each as scalar.c means it;
// OP_SCALAR asks scalar.c. Dispatch is a computed goto from each instruction, which keeps the
// branch predictor's histories apart: a loop of five instructions ran at 79 million passes a second
// against 23 through one switch (gcc 12, Zen).
#include "ir/interp_machine.h"

#include <math.h>
#include <string.h>

#define ALWAYS_INLINE inline __attribute__((always_inline))
#define LIKELY(x) __builtin_expect(!!(x), 1)

// Steps between two looks at the limits; the smaller one, at which another thread has its turn,
// where a thread may spin.
enum { SLICE = 1 << 22, TURN = 1 << 16 };

// Takes the next slice of steps. OUT_BLOCKED: others have their turn first; OUT_FAILED with a
// diagnostic when no steps are left.
static Outcome refuel(Run *run, Thread *t, int pc)
{
    bool alone = run->nblock * run->nthread == 1;
    t->pc = pc;
    if (run->options->cancelled && run->options->cancelled(run->options->user)) {
        interp_error(run, t, "cancelled");
        return OUT_FAILED;
    }
    if (run->steps_left <= 0) {
        interp_error(run, t, "gave up after %lld steps: does it end?", (long long)run->max_steps);
        return OUT_FAILED;
    }
    int64_t slice = min_i64(run->steps_left, alone ? SLICE : TURN);
    run->steps_left -= slice;
    run->fuel += slice;
    return alone ? OUT_NEXT : OUT_BLOCKED;
}

static ALWAYS_INLINE int64_t div_i64(int64_t a, int64_t b)
{
    if (LIKELY(a >= 0 && b > 0)) return (int64_t)((uint64_t)a / (uint64_t)b);
    return b ? floor_div_i64(a, b) : 0;
}

static ALWAYS_INLINE int64_t mod_i64(int64_t a, int64_t b)
{
    if (LIKELY(a >= 0 && b > 0)) return (int64_t)((uint64_t)a % (uint64_t)b);
    return b ? floor_mod_i64(a, b) : 0;
}

#define FLOAT_MIN_MAX(T, suffix)                  \
    static ALWAYS_INLINE T min_##suffix(T a, T b) \
    {                                             \
        if (LIKELY(a < b)) return a;              \
        if (LIKELY(b < a)) return b;              \
        if (a != a || b != b) return (T)NAN;      \
        return signbit(a) ? a : b;                \
    }                                             \
    static ALWAYS_INLINE T max_##suffix(T a, T b) \
    {                                             \
        if (LIKELY(a > b)) return a;              \
        if (LIKELY(b > a)) return b;              \
        if (a != a || b != b) return (T)NAN;      \
        return signbit(a) ? b : a;                \
    }
FLOAT_MIN_MAX(float, f32)
FLOAT_MIN_MAX(double, f64)

static void scalar_op(const Program *p, const Ins *in, Cell *r)
{
    const ScalarOp *s = &p->scalars.at[in->aux];
    const int32_t operand[SCALAR_MAX_OPERANDS] = {in->b, in->c, in->d};
    Scalar x[SCALAR_MAX_OPERANDS], out = {.type = s->type};
    for (int i = 0; i < s->nargs; i++) x[i] = scalar_from(s->arg_type[i], r[operand[i]]);
    if (s->is_intrinsic) scalar_intrinsic((IntrinsicId)s->kind, x, &out);
    else scalar_apply((NodeKind)s->kind, s->type, x, &out);
    r[in->a] = scalar_cell(&out);
}

// The element that an instruction with `rank` indices means, or -1 with diagnostics. Whatever is
// not plain goes the slow way.
static ALWAYS_INLINE int64_t locate(Run *run, Thread *t, const Mem *m, const Cell *r, const Ins *in,
                                    int rank, bool write)
{
    int64_t index[4] = {r[in->b].i, 0, 0, 0};
    if (rank > 1) index[1] = r[in->c].i;
    if (rank > 2) index[2] = r[in->d].i;
    if (rank > 3) index[3] = r[in->e].i;
    bool plain = !m->slow;
    uint64_t e = 0;
    for (int i = 0; i < rank; i++) {
        plain &= (uint64_t)index[i] < (uint64_t)m->extent[i];
        e += (uint64_t)index[i] * (uint64_t)m->stride[i];
    }
    if (LIKELY(plain) && m->tracked) {
        uint8_t *mark = memory_mark(t, m, (int64_t)e);
        plain = write ? !(*mark & MARK_COPYING) : *mark == MARK_WRITTEN;
        if (write && plain) *mark = MARK_WRITTEN;
    }
    if (LIKELY(plain)) return (int64_t)e;
    t->pc = (int)(in - run->program->code.at);
    return memory_locate(run, t, m, index, write ? ACCESS_WRITE : ACCESS_READ);
}

static int64_t locate_n(Run *run, Thread *t, const Mem *m, const Cell *r, const Ins *in,
                        Access access)
{
    int64_t index[MAX_RANK];
    for (int i = 0; i < m->rank; i++) index[i] = r[in->b + i].i;
    t->pc = (int)(in - run->program->code.at);
    return memory_locate(run, t, m, index, access);
}

static ALWAYS_INLINE void get(const Mem *m, const void *p, Cell *out)
{
    if (LIKELY(m->type == DT_F32)) out->f = *(const float *)p;
    else *out = memory_get(m->type, p);
}

static ALWAYS_INLINE void put(const Mem *m, void *p, Cell v)
{
    if (LIKELY(m->type == DT_F32)) *(float *)p = v.f;
    else memory_put(m->type, p, v);
}

// Reads or writes an element of a buffer `over` a mapping: indices b, d, e, or b, b + 1, ... when
// there are more; worker c.
static ALWAYS_INLINE bool over(Run *run, Thread *t, const Mem *m, Cell *r, const Ins *in,
                               bool write)
{
    const OwnerTable *owners = m->owners;
    bool any = in->c == INT32_MIN, packed = m->rank > 3;
    int64_t index[MAX_RANK] = {r[in->b].i};
    if (m->rank > 1) index[1] = r[packed ? in->b + 1 : in->d].i;
    if (m->rank > 2) index[2] = r[packed ? in->b + 2 : in->e].i;
    for (int i = 3; i < m->rank; i++) index[i] = r[in->b + i].i;
    bool plain = true;
    uint64_t e = 0;
    for (int i = 0; i < m->rank; i++) {
        plain &= (uint64_t)index[i] < (uint64_t)owners->shape[i];
        e += (uint64_t)index[i] * (uint64_t)owners->stride[i];
    }
    int64_t worker = any ? -1 : r[in->c].i;
    if (LIKELY(plain)) {
        Owner o = owners->first[e];
        int64_t slot = m->by_lane ? o.all : o.slot;
        if (LIKELY(o.worker == worker || (any && o.worker >= 0 && !(write && owners->shared)))) {
            uint8_t *mark = memory_mark(t, m, slot);
            if (write) {
                *mark = MARK_WRITTEN;
                put(m, memory_at(t, m, slot), r[in->a]);
                return true;
            }
            if (LIKELY(*mark == MARK_WRITTEN)) {
                get(m, memory_at(t, m, slot), &r[in->a]);
                return true;
            }
        }
    }
    t->pc = (int)(in - run->program->code.at);
    return memory_over(run, t, m, index, !any, worker, write, &r[in->a]);
}

// Are the indices a, b, c, d, or a, a + 1, ... when there are more, outside the buffer?
static ALWAYS_INLINE bool outside(const Mem *m, const Cell *r, const Ins *in)
{
    const int32_t at[4] = {in->a, in->b, in->c, in->d};
    for (int i = 0; i < m->rank; i++) {
        int32_t reg = m->rank > 4 ? in->a + i : at[i];
        if ((uint64_t)r[reg].i >= (uint64_t)m->extent[i]) return true;
    }
    return false;
}

static void alloc(Thread *t, const Mem *m, const Cell *init)
{
    int64_t n = m->nelem;
    memset(memory_mark(t, m, 0), init ? MARK_WRITTEN : 0,
           (size_t)(n * m->size_bytes / m->unit_bytes));
    if (init)
        for (int64_t i = 0; i < n; i++) memory_put(m->type, memory_at(t, m, i), *init);
}

// clang-format off
#define INT_OP(NAME, expr) L_##NAME##_I64: r[in->a].i = (expr); GO;
#define F32_OP(NAME, expr) L_##NAME##_F32: r[in->a].f = (expr); GO;
#define F64_OP(NAME, expr) L_##NAME##_F64: r[in->a].d = (expr); GO;
#define TEST_OP(NAME, type, field, op) L_##NAME##_##type: r[in->a].i = B.field op C.field; GO;
#define FLOAT_OPS(M, field, suffix, fma)                                                          \
    M(ADD, B.field + C.field) M(SUB, B.field - C.field) M(MUL, B.field * C.field)                  \
    M(DIV, B.field / C.field) M(MIN, min_##suffix(B.field, C.field))                               \
    M(MAX, max_##suffix(B.field, C.field)) M(NEG, -B.field) M(FMA, fma(B.field, C.field, D.field))
#define TESTS(type, field)                                    \
    TEST_OP(EQ, type, field, ==) TEST_OP(NE, type, field, !=) \
    TEST_OP(LT, type, field, <) TEST_OP(LE, type, field, <=)
#define WRAP(TYPE, T) L_WRAP_##TYPE: r[in->a].i = (T)(uint64_t)B.i; GO;
#define LOADS(rank)                                                                                \
    L_LOAD_F32_##rank: {                                                                     \
        const Mem *m = &mem[in->aux];                                                              \
        int64_t e = locate(run, t, m, r, in, rank, false);                                         \
        if (e < 0) return OUT_FAILED;                                                              \
        r[in->a].f = *(const float *)memory_at(t, m, e);                                           \
        GO;                                                                                     \
    }                                                                                              \
    L_LOAD_##rank: {                                                                         \
        const Mem *m = &mem[in->aux];                                                              \
        int64_t e = locate(run, t, m, r, in, rank, false);                                         \
        if (e < 0) return OUT_FAILED;                                                              \
        r[in->a] = memory_get(m->type, memory_at(t, m, e));                                        \
        GO;                                                                                     \
    }                                                                                              \
    L_STORE_F32_##rank: {                                                                    \
        const Mem *m = &mem[in->aux];                                                              \
        int64_t e = locate(run, t, m, r, in, rank, true);                                          \
        if (e < 0) return OUT_FAILED;                                                              \
        *(float *)memory_at(t, m, e) = r[in->a].f;                                                 \
        GO;                                                                                     \
    }                                                                                              \
    L_STORE_##rank: {                                                                        \
        const Mem *m = &mem[in->aux];                                                              \
        int64_t e = locate(run, t, m, r, in, rank, true);                                          \
        if (e < 0) return OUT_FAILED;                                                              \
        memory_put(m->type, memory_at(t, m, e), r[in->a]);                                         \
        GO;                                                                                     \
    }
// clang-format on
#define B r[in->b]
#define C r[in->c]
#define D r[in->d]
#define BURN(target)                                 \
    do {                                             \
        run->fuel -= pc - (target) + 1;              \
        if (!LIKELY(run->fuel >= 0)) {               \
            Outcome outcome = refuel(run, t, pc);    \
            if (outcome != OUT_NEXT) return outcome; \
        }                                            \
    } while (0)
#define GO                   \
    do {                     \
        in = &code[++pc];    \
        goto *label[in->op]; \
    } while (0)

// As long as the instruction set.
Outcome interp_exec(Run *run, Thread *t)
{
    const Program *p = run->program;
    const Ins *code = p->code.at, *in;
    const Mem *mem = p->mems.at;
    Cell *r = t->r;
    static const void *const label[] = {
#define OP(NAME) &&L_##NAME,
#include "ir/interp_ops.def"
#undef OP
    };
    int pc = t->pc - 1;
    // clang-format off
    GO;
    L_END: t->pc = pc; return OUT_DONE;
    L_MOVE: r[in->a] = B; GO;
    L_JUMP: // burns when it goes back
        if (in->e <= pc) BURN(in->e);
        pc = in->e - 1;
        GO;
    L_JUMP_FALSE: // jump unless a
        if (!r[in->a].i) pc = in->e - 1;
        GO;
    L_JUMP_TRUE: // jump if a
        if (r[in->a].i) pc = in->e - 1;
        GO;
    L_JUMP_GE: // jump if a >= b
        if (r[in->a].i >= B.i) pc = in->e - 1;
        GO;
    L_JUMP_UNLESS_BELOW: // jump unless 0 <= a < b
        if ((uint64_t)r[in->a].i >= (uint64_t)B.i) pc = in->e - 1;
        GO;
    L_JUMP_OUTSIDE: // jump if outside buffer aux
        if (outside(&mem[in->aux], r, in)) pc = in->e - 1;
        GO;
    L_NEXT: // a++; jump if a < b
        BURN(in->e);
        if (++r[in->a].i < B.i) pc = in->e - 1;
        GO;
    L_NEXT_STEP: // a += c; jump if a < b
        BURN(in->e);
        if ((r[in->a].i += C.i) < B.i) pc = in->e - 1;
        GO;
    L_ROLE: // jump unless in role a
        if (!t->member[in->a]) pc = in->e - 1;
        GO;
    L_ONE: // jump unless the first of role a (-1: of the block)
        if (t->index != t->block->leader[in->a + 1]) pc = in->e - 1;
        GO;
    L_CHECK: // message b unless a
        if (r[in->a].i) { GO; }
        t->pc = pc;
        interp_error(run, t, "check failed: %s", p->messages.at[in->b]);
        return OUT_FAILED;
    L_ALLOC: // buffer aux is new; every element becomes a
        alloc(t, &mem[in->aux], in->a == INT32_MIN ? NULL : &r[in->a]);
        GO;
    L_CALL: { // call number a
        t->pc = pc;
        Outcome outcome = interp_call(run, t, &p->calls.at[in->a]);
        if (outcome != OUT_NEXT) return outcome;
        GO;
    }
    L_SCALAR: scalar_op(p, in, r); GO; // a = operation aux of b, c, d
    L_CHOOSE: r[in->a] = B.i ? C : D; GO;
    L_LANE: // a = lane c of d lanes from b on
        if ((uint64_t)C.i >= (uint64_t)in->d) {
            t->pc = pc;
            interp_error(run, t, "lane %lld of a vector of %d", (long long)C.i, in->d);
            return OUT_FAILED;
        }
        r[in->a] = r[in->b + C.i];
        GO;
    WRAP(I8, int8_t) WRAP(I16, int16_t) WRAP(I32, int32_t)
    WRAP(U8, uint8_t) WRAP(U16, uint16_t) WRAP(U32, uint32_t)
    L_ROUND_F16: r[in->a].f = f16_to_f32(f32_to_f16(B.f)); GO;
    L_ROUND_BF16: r[in->a].f = bf16_to_f32(f32_to_bf16(B.f)); GO;
    INT_OP(ADD, (int64_t)((uint64_t)B.i + (uint64_t)C.i))
    INT_OP(SUB, (int64_t)((uint64_t)B.i - (uint64_t)C.i))
    INT_OP(MUL, (int64_t)((uint64_t)B.i * (uint64_t)C.i))
    INT_OP(MULADD, (int64_t)((uint64_t)B.i * (uint64_t)C.i + (uint64_t)D.i))
    INT_OP(DIV, div_i64(B.i, C.i)) INT_OP(MOD, mod_i64(B.i, C.i))
    INT_OP(MIN, C.i < B.i ? C.i : B.i) INT_OP(MAX, B.i < C.i ? C.i : B.i)
    INT_OP(SHL, (int64_t)((uint64_t)B.i << (C.i & in->aux))) INT_OP(SHR, B.i >> (C.i & in->aux))
    INT_OP(BAND, B.i & C.i) INT_OP(BOR, B.i | C.i) INT_OP(BXOR, B.i ^ C.i)
    INT_OP(NEG, (int64_t)(0 - (uint64_t)B.i)) INT_OP(NOT, !B.i) INT_OP(BNOT, ~B.i)
    TESTS(I64, i) TESTS(F32, f) TESTS(F64, d)
    FLOAT_OPS(F32_OP, f, f32, fmaf)
    FLOAT_OPS(F64_OP, d, f64, fma)
    L_I64_TO_F32: r[in->a].f = (float)B.i; GO;
    L_I64_TO_F64: r[in->a].d = (double)B.i; GO;
    L_F32_TO_F64: r[in->a].d = (double)B.f; GO;
    L_F64_TO_F32: r[in->a].f = (float)B.d; GO;
    LOADS(1) LOADS(2) LOADS(3) LOADS(4) // a <-> buffer aux at b, c, d, e
    L_LOAD_N: { // a <- buffer aux at b, b + 1, ...
        const Mem *m = &mem[in->aux];
        int64_t e = locate_n(run, t, m, r, in, ACCESS_READ);
        if (e < 0) return OUT_FAILED;
        r[in->a] = memory_get(m->type, memory_at(t, m, e));
        GO;
    }
    L_STORE_N: {
        const Mem *m = &mem[in->aux];
        int64_t e = locate_n(run, t, m, r, in, ACCESS_WRITE);
        if (e < 0) return OUT_FAILED;
        memory_put(m->type, memory_at(t, m, e), r[in->a]);
        GO;
    }
    L_LOAD_OVER: // a <-> buffer aux, held by a mapping: see over
        if (!over(run, t, &mem[in->aux], r, in, false)) return OUT_FAILED;
        GO;
    L_STORE_OVER:
        if (!over(run, t, &mem[in->aux], r, in, true)) return OUT_FAILED;
        GO;
    // clang-format on
}
