// SPDX-License-Identifier: Apache-2.0
// Best fit: items are placed one after another, each into the smallest gap that it fits among those
// placed before it and needed at the same time. Three orders are tried and the smallest block wins.
#include "runtime/memory_plan.h"

#include "base/util.h"
#include "runtime/memory.h"

#include <stdlib.h>
#include <string.h>

// What is placed: an item with all items that take over its memory.
typedef struct Group {
    int64_t size, offset;
    int first, last;
    int item; // its root
} Group;

static int by_number(int64_t a, int64_t b)
{
    return a < b ? -1 : a > b;
}

static int by_size(const void *x, const void *y)
{
    const Group *a = x, *b = y;
    int c = by_number(b->size, a->size);
    if (!c) c = by_number(a->first, b->first);
    return c ? c : by_number(a->item, b->item);
}

static int by_lifetime(const void *x, const void *y)
{
    const Group *a = x, *b = y;
    int c = by_number((int64_t)b->last - b->first, (int64_t)a->last - a->first);
    return c ? c : by_size(x, y);
}

static int by_time(const void *x, const void *y)
{
    const Group *a = x, *b = y;
    int c = by_number(a->first, b->first);
    return c ? c : by_size(x, y);
}

// placed: by offset. Gaps end at the next item in use; the space above all counts as the last
// resort.
static int64_t best_gap(Group *const *placed, int n, const Group *g)
{
    int64_t top = 0, best = -1, best_size = INT64_MAX;
    for (int i = 0; i < n; i++) {
        const Group *p = placed[i];
        if (p->last < g->first || g->last < p->first) continue;
        int64_t gap = p->offset - top;
        if (gap >= g->size && gap < best_size) {
            best = top;
            best_size = gap;
        }
        top = max_i64(top, p->offset + p->size);
    }
    return best >= 0 ? best : top;
}

// The block's size, or -1 if it does not fit in 64 bits.
static int64_t place_all(Group *group, int n, Group **placed)
{
    int64_t peak = 0;
    for (int i = 0; i < n; i++) {
        Group *g = &group[i];
        g->offset = best_gap(placed, i, g);
        int64_t end;
        if (!add_i64(g->offset, g->size, &end)) return -1;
        peak = max_i64(peak, end);
        int at = i;
        while (at > 0 && placed[at - 1]->offset > g->offset) at--;
        memmove(&placed[at + 1], &placed[at], (size_t)(i - at) * sizeof *placed);
        placed[at] = g;
    }
    return peak;
}

static int root_of(const MemoryItem *item, int n, int i)
{
    int hops = 0;
    while (item[i].alias >= 0) {
        i = item[i].alias;
        if (i >= n || ++hops > n) return -1;
    }
    return i;
}

// Groups of those items that need memory. root: (n). Returns their number, -1 for bad aliases.
static int make_groups(const MemoryItem *item, int n, int *root, int *group_of, Group *group)
{
    int ngroup = 0;
    for (int i = 0; i < n; i++) {
        root[i] = root_of(item, n, i);
        if (root[i] < 0) return -1;
        group_of[i] = -1;
    }
    for (int i = 0; i < n; i++) {
        const MemoryItem *m = &item[i];
        if (m->size <= 0 || m->first > m->last) continue;
        int *at = &group_of[root[i]];
        if (*at < 0) {
            *at = ngroup++;
            group[*at] = (Group){.first = m->first, .last = m->last, .item = root[i]};
        }
        Group *g = &group[*at];
        g->size = max_i64(g->size, memory_round_up(m->size));
        g->first = m->first < g->first ? m->first : g->first;
        g->last = m->last > g->last ? m->last : g->last;
    }
    return ngroup;
}

// The block's size, or -1 if it does not fit in 64 bits. None is smaller than `bound`.
static int64_t try_orders(Group *group, int n, int64_t bound, Group **placed, Group *best)
{
    static int (*const order[])(const void *, const void *) = {by_size, by_lifetime, by_time};
    int64_t peak = -1;
    for (size_t i = 0; i < COUNT(order) && peak != bound; i++) {
        qsort(group, (size_t)n, sizeof *group, order[i]);
        int64_t p = place_all(group, n, placed);
        if (p < 0 || (peak >= 0 && p >= peak)) continue;
        peak = p;
        memcpy(best, group, (size_t)n * sizeof *group);
    }
    return peak;
}

typedef struct Event {
    int64_t bytes; // that come; negative: that go
    int64_t time;
} Event;

static int by_event(const void *x, const void *y)
{
    const Event *a = x, *b = y;
    int c = by_number(a->time, b->time);
    return c ? c : by_number(a->bytes, b->bytes); // what goes before what comes
}

// The most bytes needed at once, -1 if they do not fit in 64 bits. event: (2 n), room to work in.
static int64_t most_at_once(const Group *group, int n, Event *event)
{
    for (int i = 0; i < n; i++) {
        event[2 * i] = (Event){group[i].size, group[i].first};
        event[2 * i + 1] = (Event){-group[i].size, (int64_t)group[i].last + 1};
    }
    qsort(event, (size_t)n * 2, sizeof *event, by_event);
    int64_t now = 0, most = 0;
    for (int i = 0; i < 2 * n; i++) {
        if (!add_i64(now, event[i].bytes, &now)) return -1;
        most = max_i64(most, now);
    }
    return most;
}

heald_status memory_plan(MemoryItem *item, int n, int64_t *peak_bytes, Error *e)
{
    *peak_bytes = 0;
    if (n == 0) return HEALD_OK;
    size_t each = 2 * sizeof(Event) + 2 * sizeof(Group) + sizeof(Group *) + 2 * sizeof(int);
    Event *event = memory_alloc((size_t)n * each);
    if (!event) return error_no_memory(e, n * (int64_t)each, "the memory plan");
    Group *group = (Group *)(event + 2 * n), *best = group + n, **placed = (Group **)(best + n);
    int *root = (int *)(placed + n), *group_of = root + n;
    int ngroup = make_groups(item, n, root, group_of, group);
    int64_t bound = ngroup < 0 ? -1 : most_at_once(group, ngroup, event);
    int64_t peak = bound < 0 ? -1 : try_orders(group, ngroup, bound, placed, best);
    for (int i = 0; i < n && peak >= 0; i++) item[i].offset = 0;
    for (int i = 0; i < ngroup && peak >= 0; i++) item[best[i].item].offset = best[i].offset;
    for (int i = 0; i < n && peak >= 0; i++) item[i].offset = item[root[i]].offset;
    memory_free(event);
    if (ngroup < 0) return error_set(e, HEALD_INVALID_ARGUMENT, "aliases run in a circle");
    if (peak < 0) return error_set(e, HEALD_NO_MEMORY, "the values exceed all memory");
    *peak_bytes = peak;
    return HEALD_OK;
}

heald_status memory_lower_bound(const MemoryItem *item, int n, int64_t *bytes, Error *e)
{
    *bytes = 0;
    size_t each = 2 * sizeof(Event) + sizeof(Group);
    Event *event = memory_alloc((size_t)n * each);
    if (!event) return error_no_memory(e, n * (int64_t)each, "a bound");
    Group *group = (Group *)(event + 2 * n);
    int ngroup = 0;
    for (int i = 0; i < n; i++) {
        const MemoryItem *m = &item[i];
        if (m->size <= 0 || m->first > m->last) continue;
        group[ngroup++] = (Group){memory_round_up(m->size), 0, m->first, m->last, i};
    }
    int64_t most = most_at_once(group, ngroup, event);
    memory_free(event);
    if (most < 0) return error_set(e, HEALD_NO_MEMORY, "the values exceed all memory");
    *bytes = most;
    return HEALD_OK;
}
