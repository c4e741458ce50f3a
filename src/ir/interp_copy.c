// SPDX-License-Identifier: Apache-2.0
// Asynchronous copies. Starting one marks the destination and takes a snapshot of the source;
// finishing it, as late as the program allows, writes the destination. Touching the destination in
// between, or changing the source, is an error.
#include "ir/interp_machine.h"

#include <string.h>

void copy_push(CopyList *list, Copy *copy)
{
    copy->next = NULL;
    if (!list->first) list->last = &list->first;
    *list->last = copy;
    list->last = &copy->next;
}

Copy *copy_pop(CopyList *list)
{
    Copy *copy = list->first;
    if (copy) list->first = copy->next;
    return copy;
}

static int64_t count(const Thread *t, const Mem *m, const RefPlace *p)
{
    int64_t n = 1;
    for (int i = 0; i < m->rank; i++)
        if (!mul_i64(n, max_i64(t->r[p->length + i].i, 0), &n)) return -1;
    return n;
}

static Copy *new_copy(Run *run, int64_t n, int64_t size_bytes)
{
    for (Copy **p = &run->spare; *p; p = &(*p)->next) {
        Copy *c = *p;
        if (c->cap < n || c->cap_bytes < n * size_bytes) continue;
        *p = c->next;
        return c;
    }
    Copy *c = NEW(&run->arena, Copy);
    c->cap = n;
    c->cap_bytes = n * size_bytes;
    c->dst_element = NEW_ARRAY(&run->arena, int64_t, n);
    c->src_element = NEW_ARRAY(&run->arena, int64_t, n);
    c->snapshot = arena_alloc(&run->arena, (size_t)(n * size_bytes));
    return c;
}

// A span along the last axis of global memory in row-major order goes on in the rows after.
static void carry(const Mem *m, int64_t *index)
{
    if (m->segment != SEG_FIXED || m->layout || m->table) return;
    for (int i = m->rank - 1; i > 0; i--) {
        if (index[i] < m->extent[i] || m->extent[i] < 1) return;
        index[i - 1] += index[i] / m->extent[i];
        index[i] %= m->extent[i];
    }
}

static bool fill(Run *run, Thread *t, const Mem *m, const RefPlace *p, int64_t n, Access access,
                 int64_t *element)
{
    int64_t index[MAX_RANK];
    bool line = true; // spans along the last axis alone
    for (int i = 0; i < m->rank; i++) index[i] = t->r[p->index + i].i;
    for (int i = 0; i + 1 < m->rank; i++) line = line && t->r[p->length + i].i == 1;
    for (int64_t k = 0; k < n; k++) {
        int64_t at[MAX_RANK];
        for (int i = 0; i < m->rank; i++) at[i] = index[i];
        if (line) carry(m, at);
        element[k] = memory_locate(run, t, m, at, access);
        if (element[k] < 0) return false;
        for (int i = m->rank - 1; i >= 0; i--) {
            int64_t from = t->r[p->index + i].i;
            if (++index[i] < from + t->r[p->length + i].i) break;
            index[i] = from;
        }
    }
    return true;
}

static void set_marks(const Thread *t, const Mem *m, int64_t element, uint8_t value)
{
    if (!m->tracked) return;
    int64_t unit = element * m->size_bytes / m->unit_bytes;
    memset(memory_mark(t, m, unit), value, (size_t)(m->size_bytes / m->unit_bytes));
}

bool copy_start(Run *run, Thread *t, const RefPlace *dst, const RefPlace *src, int64_t part,
                Mbarrier *bar, Copy **out)
{
    const Mem *to = &run->program->mems.at[dst->mem], *from = &run->program->mems.at[src->mem];
    int64_t n = count(t, to, dst), ns = count(t, from, src);
    if (n != ns || n < 0 || to->type != from->type) {
        interp_error(run, t, "an asynchronous copy of %lld elements of %s to %lld of %s",
                     (long long)ns, dtypes[from->type].name, (long long)n, dtypes[to->type].name);
        return false;
    }
    if (n > INT32_MAX) n = INT32_MAX; // more is out of bounds somewhere
    part = max_i64(min_i64(part, n), 0);
    Copy *c = new_copy(run, n, to->size_bytes);
    c->owner = t;
    c->pc = t->pc;
    c->dst = to;
    c->src = from;
    c->nelem = n;
    c->part = part;
    c->bar = bar;
    c->group = 0;
    if (!fill(run, t, from, src, part, ACCESS_READ, c->src_element)) return false;
    if (!fill(run, t, to, dst, n, bar ? ACCESS_START_BULK : ACCESS_START_COPY, c->dst_element))
        return false;
    memset(c->snapshot, 0, (size_t)(n * to->size_bytes));
    for (int64_t k = 0; k < n; k++) {
        if (k < part)
            memcpy((char *)c->snapshot + k * to->size_bytes, memory_at(t, from, c->src_element[k]),
                   (size_t)to->size_bytes);
        set_marks(t, to, c->dst_element[k], MARK_COPYING);
    }
    *out = c;
    return true;
}

bool copy_finish(Run *run, Copy *c)
{
    Thread *t = c->owner;
    size_t size = (size_t)c->dst->size_bytes;
    for (int64_t k = 0; k < c->nelem; k++) {
        const char *was = (const char *)c->snapshot + (size_t)k * size;
        if (k < c->part && memcmp(was, memory_at(t, c->src, c->src_element[k]), size)) {
            t->pc = c->pc;
            interp_error(run, t,
                         "the source of this asynchronous copy, in '%s', was overwritten before "
                         "the copy completed",
                         c->src->buf->name);
            return false;
        }
        memcpy(memory_at(t, c->dst, c->dst_element[k]), was, size);
        set_marks(t, c->dst, c->dst_element[k], MARK_WRITTEN);
    }
    if (c->bar) {
        c->bar->bytes -= c->nelem * c->dst->size_bytes;
        if (run->races) race_join(run, c->bar->clock, c->clock);
        mbarrier_settle(c->bar);
    }
    c->next = run->spare;
    run->spare = c;
    return true;
}
