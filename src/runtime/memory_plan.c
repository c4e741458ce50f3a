// SPDX-License-Identifier: Apache-2.0
// Best fit: items are placed one after another, each into the smallest gap that it fits among those
// placed before it and needed at the same time. Three orders are tried and the smallest block wins.
// In order of time, what is free is known as it changes, so that takes little however much there
// is; in the other orders each item is held against those that are needed at the same time.
#include "runtime/memory_plan.h"

#include "base/util.h"
#include "runtime/memory.h"

#include <stdlib.h>
#include <string.h>

// Pairs of items needed at the same time, of which orders other than time would take a second.
static const int64_t many_pairs = (int64_t)1 << 22;

// What is placed: an item with all items that take over its memory.
typedef struct Group {
    int64_t size, offset;
    int first, last;
    int item;    // its root
    int rank;    // in order of time
    int stretch; // that it has while items are placed in that order
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

// The item of which it, or whoever it has its memory from, takes over. root: 0, or what is known of
// others, plus 1. -1: there is none.
static int find_root(const MemoryItem *item, int n, int i, int *root)
{
    int at = i, hops = 0;
    while (!root[at] && item[at].alias >= 0) {
        at = item[at].alias;
        if (at >= n || ++hops > n) return -1;
    }
    int found = root[at] ? root[at] : at + 1;
    for (at = i; !root[at]; at = item[at].alias) {
        root[at] = found;
        if (item[at].alias < 0) break;
    }
    return found - 1;
}

// Groups of those items that need memory. root: (n). Returns their number, -1 for bad aliases.
static int make_groups(const MemoryItem *item, int n, int *root, int *group_of, Group *group)
{
    int ngroup = 0;
    memset(root, 0, (size_t)n * sizeof *root);
    for (int i = 0; i < n; i++)
        if (find_root(item, n, i, root) < 0) return -1;
    for (int i = 0; i < n; i++) {
        root[i]--;
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

typedef struct Event {
    int64_t bytes; // that come; negative: that go
    int64_t time;
    Group *group;
} Event;

static int by_event(const void *x, const void *y)
{
    const Event *a = x, *b = y;
    int c = by_number(a->time, b->time);
    if (!c) c = by_number(a->bytes > 0, b->bytes > 0); // what goes before what comes,
    if (!c) c = by_number(b->bytes, a->bytes);         // and the large before the small
    return c ? c : by_number(a->group->item, b->group->item);
}

// What comes and goes, in order of time. event: (2 n)
static void list_events(Group *group, int n, Event *event)
{
    for (int i = 0; i < n; i++) {
        event[2 * i] = (Event){group[i].size, group[i].first, &group[i]};
        event[2 * i + 1] = (Event){-group[i].size, (int64_t)group[i].last + 1, &group[i]};
    }
    qsort(event, (size_t)n * 2, sizeof *event, by_event);
}

// Ranks, and how many pairs are needed at the same time.
static int64_t count_pairs(const Event *event, int n, int *first)
{
    int64_t now = 0, pairs = 0;
    int rank = 0;
    for (int i = 0; i < n; i++) {
        bool comes = event[i].bytes > 0;
        pairs += comes ? now : 0;
        now += comes ? 1 : -1;
        if (!comes) continue;
        first[rank] = event[i].group->first;
        event[i].group->rank = rank++;
    }
    return pairs;
}

// The most bytes needed at once, -1 if they do not fit in 64 bits.
static int64_t most_at_once(const Event *event, int n)
{
    int64_t now = 0, most = 0;
    for (int i = 0; i < n; i++) {
        if (!add_i64(now, event[i].bytes, &now)) return -1;
        most = max_i64(most, now);
    }
    return most;
}

// ---- in order of time

typedef struct Stretch {
    int64_t offset, size;
    int before, after; // by address; -1: none
    bool free;
} Stretch;

// All of memory. The last stretch is free and endless.
typedef struct Space {
    Stretch *at;
    int n;
    int *free; // stretches by size, then by offset. Few: most who go leave to a neighbour
    int nfree;
} Space;

// Where in `free` a stretch is, or would be.
static int find_free(const Space *s, int64_t size, int64_t offset)
{
    int low = 0, high = s->nfree;
    while (low < high) {
        int mid = (low + high) / 2;
        const Stretch *m = &s->at[s->free[mid]];
        bool less = m->size < size || (m->size == size && m->offset < offset);
        if (less) low = mid + 1;
        else high = mid;
    }
    return low;
}

static void note_free(Space *s, int i)
{
    int k = find_free(s, s->at[i].size, s->at[i].offset);
    memmove(&s->free[k + 1], &s->free[k], (size_t)(s->nfree++ - k) * sizeof *s->free);
    s->free[k] = i;
    s->at[i].free = true;
}

static void forget_free(Space *s, int i)
{
    int k = find_free(s, s->at[i].size, s->at[i].offset);
    memmove(&s->free[k], &s->free[k + 1], (size_t)(--s->nfree - k) * sizeof *s->free);
    s->at[i].free = false;
}

// The smallest stretch that is large enough, or its lower part. False: there is none.
static bool take(Space *s, Group *g)
{
    int k = find_free(s, g->size, 0);
    if (k == s->nfree) return false;
    g->stretch = s->free[k];
    forget_free(s, g->stretch);
    Stretch *t = &s->at[g->stretch];
    g->offset = t->offset;
    if (t->size == g->size) return true;
    int rest = s->n++;
    s->at[rest] = (Stretch){t->offset + g->size, t->size - g->size, g->stretch, t->after, false};
    if (t->after >= 0) s->at[t->after].before = rest;
    t->after = rest;
    t->size = g->size;
    note_free(s, rest);
    return true;
}

// Stretch i takes in the one after it.
static void unite(Space *s, int i)
{
    Stretch *t = &s->at[i];
    const Stretch *gone = &s->at[t->after];
    t->size += gone->size;
    t->after = gone->after;
    if (t->after >= 0) s->at[t->after].before = i;
}

static void give_back(Space *s, int i)
{
    int before = s->at[i].before, after = s->at[i].after;
    if (after >= 0 && s->at[after].free) {
        forget_free(s, after);
        unite(s, i);
    }
    if (before >= 0 && s->at[before].free) {
        forget_free(s, before);
        unite(s, before);
        i = before;
    }
    note_free(s, i);
}

// The block's size, or -1 if it does not fit in 64 bits.
static int64_t place_in_time(const Event *event, int n, Space *s)
{
    int64_t peak = 0;
    s->at[0] = (Stretch){0, INT64_MAX, -1, -1, false};
    s->n = 1;
    s->nfree = 0;
    note_free(s, 0);
    for (int i = 0; i < n; i++) {
        Group *g = event[i].group;
        if (event[i].bytes < 0) give_back(s, g->stretch);
        else if (!take(s, g)) return -1;
        else peak = max_i64(peak, g->offset + g->size);
    }
    return peak;
}

// ---- in any order

// Items that are placed, by rank, as leaves of a binary tree. Nodes know the latest time of all
// below them, so that those needed while another is are found without the rest.
typedef struct Placed {
    Group **at;       // (n) NULL: not yet
    const int *first; // (n)
    int *last;        // (2 leaves) of nodes, the root at 1; -1: none below
    int n, leaves;    // the latter a power of two
    Group **near;     // (n) what was found
    int nnear;
} Placed;

static void note_placed(Placed *p, Group *g)
{
    p->at[g->rank] = g;
    for (int k = p->leaves + g->rank; k >= 1 && p->last[k] < g->last; k /= 2) p->last[k] = g->last;
}

// Of the n leaves from `begin` on, below `node`.
static void find_near(Placed *p, const Group *g, int node, int begin, int n)
{
    if (begin >= p->n || p->last[node] < g->first || p->first[begin] > g->last) return;
    if (n == 1) {
        p->near[p->nnear++] = p->at[begin];
        return;
    }
    find_near(p, g, 2 * node, begin, n / 2);
    find_near(p, g, 2 * node + 1, begin + n / 2, n / 2);
}

static int by_offset(const void *x, const void *y)
{
    const Group *a = *(Group *const *)x, *b = *(Group *const *)y;
    int c = by_number(a->offset, b->offset);
    return c ? c : by_number(a->rank, b->rank);
}

// Gaps end at the next item in use; the space above all counts as the last resort.
static int64_t best_gap(Placed *p, const Group *g)
{
    int64_t top = 0, best = -1, best_size = INT64_MAX;
    p->nnear = 0;
    find_near(p, g, 1, 0, p->leaves);
    qsort(p->near, (size_t)p->nnear, sizeof *p->near, by_offset);
    for (int i = 0; i < p->nnear; i++) {
        int64_t gap = p->near[i]->offset - top;
        if (gap >= g->size && gap < best_size) {
            best = top;
            best_size = gap;
        }
        top = max_i64(top, p->near[i]->offset + p->near[i]->size);
    }
    return best >= 0 ? best : top;
}

// The block's size, or -1 if it does not fit in 64 bits.
static int64_t place_all(Group *group, Placed *p)
{
    int64_t peak = 0;
    for (int k = 0; k < 2 * p->leaves; k++) p->last[k] = -1;
    for (int i = 0; i < p->n; i++) {
        Group *g = &group[i];
        g->offset = best_gap(p, g);
        int64_t end;
        if (!add_i64(g->offset, g->size, &end)) return -1;
        peak = max_i64(peak, end);
        note_placed(p, g);
    }
    return peak;
}

// ---- the whole

typedef struct Planner {
    Group *group, *best; // (n)
    int n;
    Event *event; // (2 n)
    Space space;  // of n + 1 stretches
    Placed placed;
    int *first; // (n) by rank
} Planner;

// The block's size, or -1 if it does not fit in 64 bits. None is smaller than `bound`.
static int64_t try_orders(Planner *p, int64_t bound)
{
    static int (*const order[])(const void *, const void *) = {by_size, by_lifetime};
    size_t bytes = (size_t)p->n * sizeof *p->group;
    bool many = count_pairs(p->event, 2 * p->n, p->first) > many_pairs;
    p->placed.n = p->n;
    p->placed.first = p->first;
    for (p->placed.leaves = 1; p->placed.leaves < p->n;) p->placed.leaves *= 2;
    int64_t peak = place_in_time(p->event, 2 * p->n, &p->space);
    memcpy(p->best, p->group, bytes);
    for (size_t i = 0; i < COUNT(order) && peak != bound && !many; i++) {
        qsort(p->group, (size_t)p->n, sizeof *p->group, order[i]);
        int64_t next = place_all(p->group, &p->placed);
        if (next < 0 || (peak >= 0 && next >= peak)) continue;
        peak = next;
        memcpy(p->best, p->group, bytes);
    }
    return peak;
}

heald_status memory_plan(MemoryItem *item, int n, int64_t *peak_bytes, Error *e)
{
    *peak_bytes = 0;
    if (n == 0) return HEALD_OK;
    size_t many = (size_t)n, each = 2 * sizeof(Event) + 2 * sizeof(Group) + sizeof(Stretch) +
                                    2 * sizeof(Group *) + 8 * sizeof(int);
    size_t bytes = many * each + sizeof(Stretch) + 4 * sizeof(int);
    Planner p = {.event = memory_alloc(bytes)};
    if (!p.event) return error_no_memory(e, (int64_t)bytes, "the memory plan");
    p.group = (Group *)(p.event + 2 * many);
    p.best = p.group + many;
    p.space.at = (Stretch *)(p.best + many);
    p.placed.at = (Group **)(p.space.at + many + 1);
    p.placed.near = p.placed.at + many;
    int *root = (int *)(p.placed.near + many), *group_of = root + many;
    p.first = group_of + many;
    p.space.free = p.first + many;
    p.placed.last = p.space.free + many + 1;
    p.n = make_groups(item, n, root, group_of, p.group);
    int64_t peak = -1;
    if (p.n >= 0) {
        list_events(p.group, p.n, p.event);
        int64_t bound = most_at_once(p.event, 2 * p.n);
        if (bound >= 0) peak = try_orders(&p, bound);
    }
    for (int i = 0; i < n && peak >= 0; i++) item[i].offset = 0;
    for (int i = 0; i < p.n && peak >= 0; i++) item[p.best[i].item].offset = p.best[i].offset;
    for (int i = 0; i < n && peak >= 0; i++) item[i].offset = item[root[i]].offset;
    memory_free(p.event);
    if (p.n < 0) return error_set(e, HEALD_INVALID_ARGUMENT, "aliases run in a circle");
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
        group[ngroup++] = (Group){memory_round_up(m->size), 0, m->first, m->last, i, 0, 0};
    }
    list_events(group, ngroup, event);
    int64_t most = most_at_once(event, 2 * ngroup);
    memory_free(event);
    if (most < 0) return error_set(e, HEALD_NO_MEMORY, "the values exceed all memory");
    *bytes = most;
    return HEALD_OK;
}
