// SPDX-License-Identifier: Apache-2.0
// mma, ldmatrix and stmatrix: a warp meets, and the last lane to come moves the elements of all. An
// operand is a region of a buffer held by a mapping, or, after lowering, a run of each lane's own
// elements.
#include "ir/fragment.h"
#include "ir/interp_machine.h"

#include <string.h>

enum { MAX_DEPTH = 32 }; // of a fragment's products

static const Mem *mem_of(const Run *run, const RefPlace *p)
{
    return &run->program->mems.at[p->mem];
}

static Thread *lanes_of(const Thread *t)
{
    return &t->block->thread[t->index / WARP * WARP];
}

// All lanes have come, and name the same places, from number `first` on. OUT_NEXT: the caller is
// the last.
static Outcome meet(Run *run, Thread *t, const Call *call, int first, int nplace)
{
    Meeting *m = &t->block->warp[t->index / WARP];
    Outcome outcome = sync_meet(run, t, m, WAIT_WARP);
    if (outcome != OUT_NEXT) return outcome;
    if (m->wanted != WARP) {
        interp_error(run, t, "%s takes a warp of %d threads", call->intr->name, WARP);
        return OUT_FAILED;
    }
    const Thread *lane = lanes_of(t);
    for (int p = first; p < first + nplace; p++) {
        const RefPlace *place = &call->place[p];
        for (int i = 0; i < mem_of(run, place)->rank; i++) {
            for (int l = 1; l < WARP; l++) {
                if (lane[l].r[place->index + i].i == lane[0].r[place->index + i].i) continue;
                interp_error(run, t, "%s: lanes 0 and %d name different places", call->intr->name,
                             l);
                return OUT_FAILED;
            }
        }
    }
    return OUT_NEXT;
}

// Element `task` of lane l's part of a fragment whose region starts at the place.
static bool element(Run *run, Thread *lane, int l, const RefPlace *place, const Fragment *f,
                    int task, bool write, Cell *value, int64_t at[2])
{
    const Mem *m = mem_of(run, place);
    Thread *t = &lane[l];
    int64_t index[2] = {t->r[place->index].i + task};
    fragment_task(f, l, task, at);
    if (m->owners) {
        for (int i = 0; i < 2; i++) index[i] = t->r[place->index + i].i + at[i];
        return memory_over(run, t, m, index, true, t->r[m->worker].i, write, value);
    }
    int64_t e = memory_locate(run, t, m, index, write ? ACCESS_WRITE : ACCESS_READ);
    if (e < 0) return false;
    if (write) memory_put(m->type, memory_at(t, m, e), *value);
    else *value = memory_get(m->type, memory_at(t, m, e));
    return true;
}

typedef Cell Tile[MAX_DEPTH][MAX_DEPTH];

static bool read_tile(Run *run, Thread *lane, const RefPlace *place, const Fragment *f, Tile tile)
{
    for (int l = 0; l < WARP; l++) {
        for (int task = 0; task < f->ntask; task++) {
            int64_t at[2];
            Cell value;
            if (!element(run, lane, l, place, f, task, false, &value, at)) return false;
            tile[at[0]][at[1]] = value;
        }
    }
    return true;
}

// mma leaves out the lowest bits of f32, and takes bytes for floats where it sums floats.
static void as_operand(Tile tile, const Fragment *f, DType ab, DType sum)
{
    bool f8 = dtype_is_int(ab) && dtype_is_float(sum);
    for (int64_t i = 0; i < f->shape[0] && (ab == DT_F32 || f8); i++) {
        for (int64_t j = 0; j < f->shape[1]; j++) {
            uint32_t bits;
            if (f8) tile[i][j].f = (float)fragment_f8(ab, tile[i][j].i);
            if (f8) continue;
            memcpy(&bits, &tile[i][j].f, sizeof bits);
            bits &= ~UINT32_C(0x1FFF);
            memcpy(&tile[i][j].f, &bits, sizeof bits);
        }
    }
}

// Products of such floats are exact in f64, and so nearly is their sum.
static Cell multiply(Tile a, Tile b, int i, int j, int depth, bool floats, Cell c)
{
    double sum = 0;
    int32_t whole = (int32_t)c.i;
    for (int l = 0; l < depth && floats; l++) sum += (double)a[i][l].f * (double)b[l][j].f;
    for (int l = 0; l < depth && !floats; l++)
        whole = (int32_t)((uint32_t)whole + (uint32_t)(a[i][l].i * b[l][j].i));
    if (floats) c.f = (float)((double)c.f + sum);
    else c.i = whole;
    return c;
}

Outcome call_mma(Run *run, Thread *t, const Call *call)
{
    Outcome outcome = meet(run, t, call, 0, 3);
    if (outcome != OUT_NEXT) return outcome;
    Thread *lane = lanes_of(t);
    DType ab = mem_of(run, &call->place[1])->type, sum = mem_of(run, &call->place[0])->type;
    Fragment fc = fragment_of(FRAGMENT_C, ab), fa = fragment_of(FRAGMENT_A, ab),
             fb = fragment_of(FRAGMENT_B, ab);
    Tile a, b, c;
    if (!read_tile(run, lane, &call->place[0], &fc, c) ||
        !read_tile(run, lane, &call->place[1], &fa, a) ||
        !read_tile(run, lane, &call->place[2], &fb, b))
        return OUT_FAILED;
    as_operand(a, &fa, ab, sum);
    as_operand(b, &fb, ab, sum);
    for (int l = 0; l < WARP; l++) {
        for (int task = 0; task < fc.ntask; task++) {
            int64_t at[2];
            fragment_task(&fc, l, task, at);
            int i = (int)at[0], j = (int)at[1];
            Cell all = multiply(a, b, i, j, (int)fa.shape[1], dtype_is_float(sum), c[i][j]);
            if (!element(run, lane, l, &call->place[0], &fc, task, true, &all, at))
                return OUT_FAILED;
        }
    }
    return OUT_NEXT;
}

// The axes of a place that a region spans, by their lengths: those of extent 1 aside.
static void spans_of(const Run *run, const Thread *t, const RefPlace *place, int axis[2])
{
    int n = 0;
    axis[0] = axis[1] = 0;
    for (int i = 0; i < mem_of(run, place)->rank && n < 2; i++)
        if (t->r[place->length + i].i > 1) axis[n++] = i;
}

// Between an element and a cell.
static bool move_element(Run *run, Thread *t, const Mem *m, const int64_t *index, bool write,
                         Cell *value)
{
    int64_t e = memory_locate(run, t, m, index, write ? ACCESS_WRITE : ACCESS_READ);
    if (e < 0) return false;
    if (write) memory_put(m->type, memory_at(t, m, e), *value);
    else *value = memory_get(m->type, memory_at(t, m, e));
    return true;
}

static bool copy_fragment(Run *run, Thread *lane, int l, const Call *call, const Fragment *f,
                          int64_t row, int64_t column)
{
    int which = fragment_own_operand(call->intr);
    bool store = which == 1;
    const RefPlace *own = &call->place[which], *shared = &call->place[1 - which];
    const Mem *m = mem_of(run, shared), *d = mem_of(run, own);
    Thread *t = &lane[l];
    int axis[2];
    spans_of(run, t, shared, axis);
    for (int task = 0; task < f->ntask; task++) {
        int64_t at[2], there[MAX_RANK], index[2];
        Cell value;
        fragment_task(f, l, task, at);
        at[0] += row;
        at[1] += column;
        for (int i = 0; i < m->rank; i++) there[i] = t->r[shared->index + i].i;
        for (int i = 0; i < 2; i++) there[axis[i]] += at[i];
        for (int i = 0; i < 2; i++) index[i] = t->r[own->index + i].i + at[i];
        if (!store && !move_element(run, t, m, there, false, &value)) return false;
        if (!memory_over(run, t, d, index, true, t->r[d->worker].i, !store, &value)) return false;
        if (store && !move_element(run, t, m, there, true, &value)) return false;
    }
    return true;
}

Outcome call_matrices(Run *run, Thread *t, const Call *call)
{
    Outcome outcome = meet(run, t, call, 0, 2);
    if (outcome != OUT_NEXT) return outcome;
    const RefPlace *own = &call->place[fragment_own_operand(call->intr)];
    const Mem *m = mem_of(run, own);
    Fragment f;
    if (!fragment_of_matrices(m->buf, &f)) {
        interp_error(run, t, "%s of a fragment; '%s' has none", call->intr->name, m->buf->name);
        return OUT_FAILED;
    }
    int64_t rows = t->r[own->length].i, columns = t->r[own->length + 1].i;
    for (int l = 0; l < WARP; l++)
        for (int64_t i = 0; i < rows; i += f.shape[0])
            for (int64_t j = 0; j < columns; j += f.shape[1])
                if (!copy_fragment(run, lanes_of(t), l, call, &f, i, j)) return OUT_FAILED;
    return OUT_NEXT;
}

// Element `column` of the row that a lane names.
static bool row_element(Run *run, Thread *t, const RefPlace *row, int64_t column, bool write,
                        Cell *value)
{
    const Mem *m = mem_of(run, row);
    int64_t index[MAX_RANK];
    int along = m->rank - 1;
    for (int i = 0; i < m->rank; i++) {
        index[i] = t->r[row->index + i].i;
        if (t->r[row->length + i].i > 1) along = i;
    }
    index[along] += column;
    return move_element(run, t, m, index, write, value);
}

Outcome call_matrix_rows(Run *run, Thread *t, const Call *call)
{
    int which = fragment_own_operand(call->intr);
    bool store = which == 1;
    Outcome outcome = meet(run, t, call, which, 1);
    if (outcome != OUT_NEXT) return outcome;
    Thread *lane = lanes_of(t);
    const RefPlace *own = &call->place[which], *row = &call->place[1 - which];
    const Mem *d = mem_of(run, own);
    int64_t count = t->r[own->length].i, turned = t->r[call->arg[2]].i;
    for (int l = 0; l < WARP; l++) {
        for (int64_t k = 0; k < count; k++) {
            int64_t i = l / 4, j = l % 4 * 2 + k % 2;
            Thread *named = &lane[k / 2 * LDMATRIX_ROW + (turned ? j : i)];
            int64_t column = turned ? i : j, index[1] = {lane[l].r[own->index].i + k};
            Cell value;
            if (!store && !row_element(run, named, row, column, false, &value)) return OUT_FAILED;
            if (!move_element(run, &lane[l], d, index, !store, &value)) return OUT_FAILED;
            if (store && !row_element(run, named, row, column, true, &value)) return OUT_FAILED;
        }
    }
    return OUT_NEXT;
}
