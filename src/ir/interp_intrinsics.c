// SPDX-License-Identifier: Apache-2.0
// What the intrinsics with effects mean, one function a row of intrinsics.def. Pure rows never come
// here: scalar.c computes them, and the compiler unfolds those across lanes. A function that lets
// the thread wait leaves it at the call.
#include "ir/interp_machine.h"

#include <math.h>
#include <string.h>

typedef Outcome Function(Run *run, Thread *t, const Call *call);

static int64_t int_arg(const Thread *t, const Call *call, int i)
{
    return t->r[call->arg[i]].i;
}

static const Mem *mem_of(const Run *run, const RefPlace *p)
{
    return &run->program->mems.at[p->mem];
}

// The element that a REF without spans means; -1 with diagnostics.
static int64_t element(Run *run, Thread *t, const RefPlace *p, Access access)
{
    const Mem *m = mem_of(run, p);
    int64_t index[MAX_RANK];
    for (int i = 0; i < m->rank; i++) index[i] = t->r[p->index + i].i;
    return memory_locate(run, t, m, index, access);
}

static Mbarrier *mbarrier(Run *run, Thread *t, const RefPlace *p)
{
    const Mem *m = mem_of(run, p);
    if (!m->buf->is_mbarrier) {
        interp_error(run, t, "'%s' is not an mbarrier", m->buf->name);
        return NULL;
    }
    int64_t e = element(run, t, p, ACCESS_READ);
    t->place = *p;
    return e < 0 ? NULL : memory_at(t, m, e);
}

// ---- rendezvous

static Outcome call_barrier(Run *run, Thread *t, const Call *call)
{
    return sync_meet(run, t, &t->block->role[call->role + 1], WAIT_BARRIER);
}

static Outcome call_barrier_id(Run *run, Thread *t, const Call *call)
{
    int64_t id = int_arg(t, call, 0), count = int_arg(t, call, 1);
    if (id < 0 || id >= NAMED_BARRIERS || count < 1 || count > run->nthread) {
        interp_error(
            run, t,
            "barrier %lld of %lld threads: there are %d barriers, and %d threads in the block",
            (long long)id, (long long)count, NAMED_BARRIERS, run->nthread);
        return OUT_FAILED;
    }
    Meeting *m = &t->block->named[id];
    if (m->arrived && m->wanted != count) {
        interp_error(run, t, "barrier %lld is used with %lld threads here and %d elsewhere",
                     (long long)id, (long long)count, m->wanted);
        diag_note(run->diag, interp_loc(run, m->first), "thread %d waits here", m->first->index);
        return OUT_FAILED;
    }
    m->wanted = (int)count;
    return sync_meet(run, t, m, WAIT_NAMED);
}

static Outcome call_grid_barrier(Run *run, Thread *t, const Call *call)
{
    UNUSED(call);
    return sync_meet(run, t, &run->all, WAIT_GRID);
}

// The lane whose value lane `own` gets, if it exists.
static int64_t source_lane(IntrinsicId id, int own, int64_t i)
{
    switch (id) {
    case INTR_SHUFFLE: return i & (WARP - 1);
    case INTR_SHUFFLE_XOR: return own ^ i;
    case INTR_SHUFFLE_UP: return own - i;
    default: return own + i;
    }
}

// Once the last lane has come it computes for all of them.
static Outcome call_shuffle(Run *run, Thread *t, const Call *call)
{
    int warp = t->index / WARP;
    Meeting *m = &t->block->warp[warp];
    Outcome outcome = sync_meet(run, t, m, WAIT_WARP);
    if (outcome != OUT_NEXT) return outcome;
    Thread *lane = &t->block->thread[warp * WARP];
    Cell value[WARP];
    for (int l = 0; l < m->wanted; l++) value[l] = lane[l].r[call->arg[0]];
    for (int l = 0; l < m->wanted; l++) {
        int64_t from = source_lane(intrinsic_id(call->intr), l, lane[l].r[call->arg[1]].i);
        lane[l].r[call->dst] = value[from >= 0 && from < m->wanted ? from : l];
    }
    return OUT_NEXT;
}

static Outcome call_ballot(Run *run, Thread *t, const Call *call)
{
    int warp = t->index / WARP;
    Meeting *m = &t->block->warp[warp];
    Outcome outcome = sync_meet(run, t, m, WAIT_WARP);
    if (outcome != OUT_NEXT) return outcome;
    Thread *lane = &t->block->thread[warp * WARP];
    int64_t bits = 0;
    for (int l = 0; l < m->wanted; l++) bits |= (int64_t)(lane[l].r[call->arg[0]].i != 0) << l;
    for (int l = 0; l < m->wanted; l++) lane[l].r[call->dst].i = bits;
    return OUT_NEXT;
}

// ---- atomics

static Outcome atomic(Run *run, Thread *t, const Call *call, NodeKind kind)
{
    const Mem *m = mem_of(run, &call->place[0]);
    int64_t e = element(run, t, &call->place[0], ACCESS_ATOMIC);
    if (e < 0) return OUT_FAILED;
    void *p = memory_at(t, m, e);
    Scalar x[2] = {scalar_load(m->type, p), scalar_from(m->type, t->r[call->arg[1]])}, result;
    if (kind == N_NONE) {
        result = scalar_from(m->type, t->r[call->arg[2]]);
        if (!scalar_bits_equal(&x[0], &x[1])) result = x[0];
    } else if (!scalar_apply(kind, m->type, x, &result)) {
        interp_error(run, t, "'%s' is not defined on %s", call->intr->name, dtypes[m->type].name);
        return OUT_FAILED;
    }
    scalar_store(&result, p);
    t->r[call->dst] = scalar_cell(&x[0]);
    if (run->races) race_atomic(run, t, m, e);
    return OUT_NEXT;
}

static Outcome call_atomic_add(Run *run, Thread *t, const Call *call)
{
    return atomic(run, t, call, N_ADD);
}

static Outcome call_atomic_max(Run *run, Thread *t, const Call *call)
{
    return atomic(run, t, call, N_MAX);
}

static Outcome call_atomic_cas(Run *run, Thread *t, const Call *call)
{
    return atomic(run, t, call, N_NONE);
}

static Outcome call_fence(Run *run, Thread *t, const Call *call)
{
    UNUSED(call);
    if (run->races) race_fence(run, t);
    return OUT_NEXT;
}

static Outcome call_fence_async(Run *run, Thread *t, const Call *call)
{
    UNUSED(call);
    if (run->races) race_fence_async(t);
    return OUT_NEXT;
}

// ---- asynchronous copies and mbarriers

static Outcome start_copy(Run *run, Thread *t, const Call *call, int64_t part)
{
    int to = mem_of(run, &call->place[0])->segment == SEG_BLOCK ? 0 : 1;
    const Mem *dst = mem_of(run, &call->place[to]);
    Copy *copy;
    if (dst->segment != SEG_BLOCK || mem_of(run, &call->place[1 - to])->segment != SEG_FIXED) {
        interp_error(run, t, "cp_async copies from global to shared memory");
        return OUT_FAILED;
    }
    if (!copy_start(run, t, &call->place[to], &call->place[1 - to], part, NULL, &copy))
        return OUT_FAILED;
    int64_t bytes = copy->nelem * dst->size_bytes;
    if (bytes != 4 && bytes != 8 && bytes != 16) {
        interp_error(run, t, "cp_async of %lld bytes: it copies 4, 8 or 16", (long long)bytes);
        return OUT_FAILED;
    }
    copy_push(&t->copies, copy);
    return OUT_NEXT;
}

static Outcome call_cp_async(Run *run, Thread *t, const Call *call)
{
    return start_copy(run, t, call, INT64_MAX);
}

static Outcome call_cp_async_part(Run *run, Thread *t, const Call *call)
{
    return start_copy(run, t, call, int_arg(t, call, 2));
}

static Outcome call_cp_commit(Run *run, Thread *t, const Call *call)
{
    UNUSED(run);
    UNUSED(call);
    t->committed++;
    for (Copy *c = t->copies.first; c; c = c->next)
        if (!c->group) c->group = t->committed;
    return OUT_NEXT;
}

static Outcome call_cp_wait(Run *run, Thread *t, const Call *call)
{
    int64_t keep = max_i64(int_arg(t, call, 0), 0);
    int pc = t->pc;
    if (t->committed - t->completed > keep) t->completed = t->committed - keep;
    while (t->copies.first && t->copies.first->group && t->copies.first->group <= t->completed) {
        Copy *c = copy_pop(&t->copies);
        if (run->races) race_copied(run, c);
        if (!copy_finish(run, c)) return OUT_FAILED;
    }
    t->pc = pc;
    return OUT_NEXT;
}

static Outcome call_bulk_load(Run *run, Thread *t, const Call *call)
{
    Mbarrier *bar = mbarrier(run, t, &call->place[2]);
    Copy *copy;
    if (!bar) return OUT_FAILED;
    int to = mem_of(run, &call->place[0])->segment == SEG_BLOCK ? 0 : 1;
    if (!copy_start(run, t, &call->place[to], &call->place[1 - to], INT64_MAX, bar, &copy))
        return OUT_FAILED;
    if (run->races) race_snapshot(run, t, &copy->clock);
    copy_push(&run->bulk, copy);
    return OUT_NEXT;
}

static Outcome call_arrive(Run *run, Thread *t, const Call *call)
{
    Mbarrier *bar = mbarrier(run, t, &call->place[0]);
    return bar ? mbarrier_arrive(run, t, bar) : OUT_FAILED;
}

static Outcome call_expect(Run *run, Thread *t, const Call *call)
{
    Mbarrier *bar = mbarrier(run, t, &call->place[0]);
    if (!bar) return OUT_FAILED;
    if (bar->pending) bar->bytes += int_arg(t, call, 1);
    return mbarrier_arrive(run, t, bar);
}

static Outcome call_wait(Run *run, Thread *t, const Call *call)
{
    Mbarrier *bar = mbarrier(run, t, &call->place[0]);
    return bar ? mbarrier_wait(run, t, bar, int_arg(t, call, 1)) : OUT_FAILED;
}

// ---- others

static void print_value(Buf *out, DType type, Cell v)
{
    if (type == DT_BOOL) buf_puts(out, v.i ? "true" : "false");
    else if (type == DT_F64) buf_printf(out, "%.17g", v.d);
    else if (dtype_is_float(type)) buf_printf(out, "%.9g", (double)v.f);
    else if (type == DT_U64) buf_printf(out, "%llu", (unsigned long long)v.i);
    else buf_printf(out, "%lld", (long long)v.i);
}

static Outcome call_print(Run *run, Thread *t, const Call *call)
{
    ArenaMark mark = arena_mark(&run->arena);
    Buf out;
    buf_init(&out, &run->arena);
    for (int i = 0; i < call->nargs; i++) {
        if (i) buf_putc(&out, ' ');
        if (call->text[i]) buf_puts(&out, call->text[i]);
        else print_value(&out, call->arg_type[i], t->r[call->arg[i]]);
    }
    buf_putc(&out, '\n');
    if (run->options->print) run->options->print(run->options->user, buf_text(&out));
    arena_reset(&run->arena, mark);
    return OUT_NEXT;
}

static Outcome call_asm(Run *run, Thread *t, const Call *call)
{
    UNUSED(call);
    interp_error(run, t, "asm has no meaning in the interpreter");
    return OUT_FAILED;
}

static Function *const functions[INTR_COUNT] = {
    [INTR_BARRIER] = call_barrier,
    [INTR_BARRIER_ID] = call_barrier_id,
    [INTR_SHUFFLE] = call_shuffle,
    [INTR_SHUFFLE_XOR] = call_shuffle,
    [INTR_SHUFFLE_UP] = call_shuffle,
    [INTR_SHUFFLE_DOWN] = call_shuffle,
    [INTR_BALLOT] = call_ballot,
    [INTR_ATOMIC_ADD] = call_atomic_add,
    [INTR_ATOMIC_MAX] = call_atomic_max,
    [INTR_ATOMIC_CAS] = call_atomic_cas,
    [INTR_CP_ASYNC] = call_cp_async,
    [INTR_CP_ASYNC_PART] = call_cp_async_part,
    [INTR_CP_ASYNC_ONCE] = call_cp_async_part,
    [INTR_CP_COMMIT] = call_cp_commit,
    [INTR_MMA] = call_mma,
    [INTR_LDMATRIX] = call_matrices,
    [INTR_STMATRIX] = call_matrices,
    [INTR_LDMATRIX_ROWS] = call_matrix_rows,
    [INTR_STMATRIX_ROWS] = call_matrix_rows,
    [INTR_CP_WAIT] = call_cp_wait,
    [INTR_BULK_LOAD] = call_bulk_load,
    [INTR_ARRIVE] = call_arrive,
    [INTR_EXPECT] = call_expect,
    [INTR_WAIT] = call_wait,
    [INTR_FENCE] = call_fence,
    [INTR_FENCE_ASYNC] = call_fence_async,
    [INTR_GRID_BARRIER] = call_grid_barrier,
    [INTR_PRINT] = call_print,
    [INTR_ASM] = call_asm,
};

Outcome interp_call(Run *run, Thread *t, const Call *call)
{
    Function *f = functions[intrinsic_id(call->intr)];
    if (f) return f(run, t, call);
    interp_error(run, t, "'%s' has no meaning in the interpreter yet", call->intr->name);
    return OUT_FAILED;
}
