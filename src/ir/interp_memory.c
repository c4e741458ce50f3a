// SPDX-License-Identifier: Apache-2.0
// Accesses that are not plain: layouts, shared storage, buffers held by a mapping, race checks; and
// what is wrong with those that must not happen.
#include "ir/interp_machine.h"

#include <string.h>

Cell memory_get(DType type, const void *p)
{
    Cell c = {0};
    switch (type) {
    case DT_F32: c.f = *(const float *)p; break;
    case DT_F64: c.d = *(const double *)p; break;
    case DT_F16: c.f = f16_to_f32(*(const uint16_t *)p); break;
    case DT_BF16: c.f = bf16_to_f32(*(const uint16_t *)p); break;
    case DT_I64: c.i = *(const int64_t *)p; break;
    case DT_I32: c.i = *(const int32_t *)p; break;
    default:
        if (dtype_is_float(type)) c.f = (float)dtype_load_f64(type, p);
        else c.i = dtype_load_i64(type, p);
        break;
    }
    return c;
}

void memory_put(DType type, void *p, Cell v)
{
    switch (type) {
    case DT_F32: *(float *)p = v.f; break;
    case DT_F64: *(double *)p = v.d; break;
    case DT_F16: *(uint16_t *)p = f32_to_f16(v.f); break;
    case DT_BF16: *(uint16_t *)p = f32_to_bf16(v.f); break;
    case DT_I64: *(int64_t *)p = v.i; break;
    case DT_I32: *(int32_t *)p = (int32_t)v.i; break;
    default:
        if (dtype_is_float(type)) dtype_store_f64(type, p, (double)v.f);
        else dtype_store_i64(type, p, v.i);
        break;
    }
}

static void print_tuple(Buf *out, const int64_t *v, int n)
{
    buf_putc(out, '[');
    for (int i = 0; i < n; i++) buf_printf(out, "%s%lld", i ? ", " : "", (long long)v[i]);
    buf_putc(out, ']');
}

void memory_error(Run *run, const Thread *t, const Mem *m, const int64_t *index, const char *what)
{
    Buf place, extent;
    buf_init(&place, &run->arena);
    buf_init(&extent, &run->arena);
    print_tuple(&place, index, m->rank);
    print_tuple(&extent, m->extent, m->rank);
    interp_error(run, t, "%s: '%s'%s", what, m->buf->name, buf_text(&place));
    diag_note(run->diag, m->buf->loc, "'%s' is in %s memory, with extents %s", m->buf->name,
              space_name[m->buf->space], buf_text(&extent));
}

bool memory_inside(const Mem *m, const int64_t *index)
{
    for (int i = 0; i < m->rank; i++)
        if ((uint64_t)index[i] >= (uint64_t)m->extent[i]) return false;
    return true;
}

static int64_t element_of(const Mem *m, const int64_t *index)
{
    int64_t e = 0;
    if (m->layout && !m->table) return layout_index(m->layout, index);
    for (int i = 0; i < m->rank; i++)
        e += m->table ? e * (m->extent[i] - 1) + index[i] : index[i] * m->stride[i];
    return m->table ? m->table[e] : e;
}

static bool check_marks(Run *run, Thread *t, const Mem *m, const int64_t *index, int64_t unit,
                        int nunit, Access access)
{
    uint8_t *mark = memory_mark(t, m, unit);
    for (int i = 0; i < nunit; i++) {
        if (mark[i] & MARK_COPYING) {
            memory_error(run, t, m, index,
                         access == ACCESS_READ
                             ? "read of an asynchronous copy's destination before waiting for it"
                             : "write to an asynchronous copy's destination before waiting for it");
            return false;
        }
        if (access == ACCESS_WRITE) {
            mark[i] = MARK_WRITTEN;
        } else if (access != ACCESS_START_COPY && access != ACCESS_START_BULK &&
                   !(mark[i] & MARK_WRITTEN)) {
            memory_error(run, t, m, index, "read of memory that was never written");
            return false;
        }
    }
    return true;
}

int64_t memory_locate(Run *run, Thread *t, const Mem *m, const int64_t *index, Access access)
{
    if (!memory_inside(m, index)) {
        memory_error(run, t, m, index,
                     access == ACCESS_READ ? "read out of bounds" : "write out of bounds");
        return -1;
    }
    int64_t e = element_of(m, index), unit = e * m->size_bytes / m->unit_bytes;
    int nunit = m->size_bytes / m->unit_bytes;
    if (m->tracked && !check_marks(run, t, m, index, unit, nunit, access)) return -1;
    if (run->races && !m->buf->is_mbarrier && m->segment != SEG_THREAD &&
        !race_check(run, t, m, index, unit, nunit, access))
        return -1;
    return e;
}

// ---- buffers held by a mapping

static void not_owned(Run *run, const Thread *t, const Mem *m, const int64_t *index, int64_t worker)
{
    memory_error(run, t, m, index, "access to an element that the worker does not own");
    diag_note(run->diag, m->buf->loc, "worker %lld of the mapping that '%s' is over",
              (long long)worker, m->buf->name);
}

static int64_t slot_of(const Mem *m, const Owner *o)
{
    return m->by_lane ? o->all : o->slot;
}

static bool use_slot(Run *run, Thread *t, const Mem *m, const int64_t *index, int64_t slot,
                     bool write, Cell *value)
{
    uint8_t *mark = memory_mark(t, m, slot);
    if (write) {
        *mark = MARK_WRITTEN;
        memory_put(m->type, memory_at(t, m, slot), *value);
        return true;
    }
    if (*mark != MARK_WRITTEN) {
        memory_error(run, t, m, index, "read of memory that was never written");
        return false;
    }
    *value = memory_get(m->type, memory_at(t, m, slot));
    return true;
}

bool memory_over(Run *run, Thread *t, const Mem *m, const int64_t *index, bool has_worker,
                 int64_t worker, bool write, Cell *value)
{
    const OwnerTable *owners = m->owners;
    int64_t e = 0;
    if (!memory_inside(m, index)) {
        memory_error(run, t, m, index, write ? "write out of bounds" : "read out of bounds");
        return false;
    }
    for (int i = 0; i < m->rank; i++) {
        if (index[i] >= owners->map->shape[i]) {
            not_owned(run, t, m, index, worker);
            return false;
        }
        e = e * owners->map->shape[i] + index[i];
    }
    const Owner *o = &owners->entry[owners->start[e]], *end = &owners->entry[owners->end[e]];
    if (has_worker) {
        while (o < end && o->worker != worker) o++;
        if (o < end) return use_slot(run, t, m, index, slot_of(m, o), write, value);
    } else if (o < end && !write) {
        return use_slot(run, t, m, index, slot_of(m, o), false, value);
    } else if (o < end) {
        for (; o < end; o++) use_slot(run, t, m, index, slot_of(m, o), true, value);
        return true;
    }
    not_owned(run, t, m, index, worker);
    return false;
}

// ---- replicas

static bool agree(Run *run, const Mem *m, int64_t e, Thread *const *holder)
{
    const OwnerTable *owners = m->owners;
    const Thread *first = NULL;
    int64_t slot = 0;
    for (int64_t i = owners->start[e]; i < owners->end[e]; i++) {
        const Owner *o = &owners->entry[i];
        const Thread *t = holder[o->worker];
        if (!t || *memory_mark(t, m, o->slot) != MARK_WRITTEN) continue;
        if (first && t->r[m->made].i == first->r[m->made].i &&
            memcmp(memory_at(t, m, o->slot), memory_at(first, m, slot), (size_t)m->size_bytes)) {
            int64_t index[MAX_RANK];
            for (int k = m->rank - 1; k >= 0; k--) {
                index[k] = e % owners->map->shape[k];
                e /= owners->map->shape[k];
            }
            memory_error(run, t, m, index, "threads that share an element hold different values");
            diag_note(run->diag, m->buf->loc, "threads %d and %d", first->index, t->index);
            return false;
        }
        first = t;
        slot = o->slot;
    }
    return true;
}

static bool all_agree(Run *run, const Mem *m, Thread *const *holder)
{
    for (int64_t e = 0; e < m->owners->nelem; e++)
        if (!agree(run, m, e, holder)) return false;
    return true;
}

// Several threads may be the same worker, each in another set of workers: a set ends where a worker
// comes again.
static bool replicas_agree(Run *run, const Block *block, const Mem *m)
{
    ArenaMark mark = arena_mark(&run->arena);
    Thread **holder = NEW_ARRAY(&run->arena, Thread *, m->owners->map->nworker);
    bool ok = true;
    for (int i = 0; i < run->nthread && ok; i++) {
        Thread *t = &block->thread[i];
        int64_t w = t->r[m->worker].i;
        if (!t->r[m->made].i || w < 0 || w >= m->owners->map->nworker) continue;
        if (holder[w]) {
            ok = all_agree(run, m, holder);
            memset(holder, 0, (size_t)m->owners->map->nworker * sizeof(Thread *));
        }
        holder[w] = t;
    }
    ok = ok && all_agree(run, m, holder);
    arena_reset(&run->arena, mark);
    return ok;
}

bool memory_replicas_agree(Run *run, const Block *block)
{
    for (int i = 0; i < run->program->mems.n; i++) {
        const Mem *m = &run->program->mems.at[i];
        if (m->owners && m->owners->shared && !m->by_lane && !replicas_agree(run, block, m))
            return false;
    }
    return true;
}
