// SPDX-License-Identifier: Apache-2.0
// Races as missing happens-before, by vector clocks with one epoch for the last write and, while
// reads are ordered, one for the last read (FastTrack: Flanagan & Freund 2009). A batch is the
// blocks that live together; of what earlier batches of the stage did, only that is ordered before
// which was released to the thread through a fence and an atomic.
#include "ir/interp_machine.h"

#include <string.h>

typedef struct Epoch {
    int64_t batch; // 0: none
    uint32_t thread, clock;
    Loc loc;
} Epoch;

// What fences and atomics of earlier batches released.
typedef struct Foreign {
    const struct Foreign *next;
    int64_t batch;
    const uint32_t *clock;
} Foreign;

// What atomics on a place hand on.
typedef struct Handover {
    int64_t batch;
    uint32_t *clock; // within the batch
    const Foreign *foreign;
} Handover;

struct Shadow {
    Epoch write, read, other; // other: a read by another batch of the stage
    bool atomic, async;       // the write was
    bool many;                // reads are in `readers`
    uint32_t *readers;        // clock of each live thread's last read
    Handover *handover;
};

struct Tracker {
    int64_t batch, stage_first;
    int nlive;
};

void race_create(Run *run)
{
    run->races = NEW(&run->arena, Tracker);
}

void race_next_stage(Run *run)
{
    run->races->stage_first = run->races->batch + 1;
}

Shadow *race_shadow(Run *run, int64_t nunit)
{
    return NEW_ARRAY(&run->arena, Shadow, nunit);
}

static size_t clock_bytes(const Run *run)
{
    return (size_t)run->races->nlive * sizeof(uint32_t);
}

static uint32_t *new_clock(Run *run)
{
    return NEW_ARRAY(&run->arena, uint32_t, run->races->nlive);
}

void race_threads(Run *run)
{
    int n = run->nblock * run->nthread;
    run->races->nlive = n;
    for (int i = 0; i < n; i++) {
        Thread *t = &run->threads[i];
        t->clock = new_clock(run);
        t->fence_clock = new_clock(run);
        t->seen_clock = new_clock(run);
    }
    for (int b = 0; b < run->nblock; b++)
        run->blocks[b].shadow = race_shadow(run, run->program->block_marks);
}

void race_start(Run *run)
{
    int n = run->races->nlive;
    run->races->batch++;
    for (int i = 0; i < n; i++) {
        Thread *t = &run->threads[i];
        memset(t->clock, 0, clock_bytes(run));
        memset(t->fence_clock, 0, clock_bytes(run));
        memset(t->seen_clock, 0, clock_bytes(run));
        t->clock[i] = 1;
        t->proxy_fence = 0;
        t->foreign = t->seen_foreign = NULL;
    }
}

// ---- clocks

void race_join(Run *run, uint32_t *into, const uint32_t *from)
{
    for (int i = 0; i < run->races->nlive; i++)
        if (from[i] > into[i]) into[i] = from[i];
}

void race_reset(Run *run, uint32_t **clock)
{
    if (!*clock) *clock = new_clock(run);
    memset(*clock, 0, clock_bytes(run));
}

void race_snapshot(Run *run, Thread *t, uint32_t **clock)
{
    race_reset(run, clock);
    race_release(run, t, *clock);
}

void race_release(Run *run, Thread *t, uint32_t *clock)
{
    race_join(run, clock, t->clock);
    t->clock[t->live]++;
}

void race_acquire(Run *run, Thread *t, const uint32_t *clock)
{
    race_join(run, t->clock, clock);
}

void race_meet(Run *run, const Meeting *m)
{
    ArenaMark mark = arena_mark(&run->arena);
    uint32_t *all = new_clock(run);
    for (int i = 0; i < run->races->nlive; i++)
        if (run->threads[i].meeting == m) race_join(run, all, run->threads[i].clock);
    for (int i = 0; i < run->races->nlive; i++) {
        Thread *t = &run->threads[i];
        if (t->meeting != m) continue;
        memcpy(t->clock, all, clock_bytes(run));
        t->clock[i]++;
    }
    arena_reset(&run->arena, mark);
}

void race_fence(Run *run, Thread *t)
{
    race_join(run, t->clock, t->seen_clock);
    if (t->seen_foreign) t->foreign = t->seen_foreign;
    memcpy(t->fence_clock, t->clock, clock_bytes(run));
    t->clock[t->live]++;
}

void race_fence_async(Thread *t)
{
    t->proxy_fence = t->clock[t->live]++;
}

// ---- accesses

static bool is_ordered(const Run *run, const Thread *t, const Epoch *e)
{
    const Tracker *k = run->races;
    if (e->batch < k->stage_first) return true;
    if (e->batch == k->batch) return t->clock[e->thread] >= e->clock;
    for (const Foreign *f = t->foreign; f; f = f->next)
        if (f->batch == e->batch && f->clock[e->thread] >= e->clock) return true;
    return false;
}

static Shadow *shadow_of(const Thread *t, const Mem *m, int64_t unit)
{
    if (m->segment == SEG_BLOCK) return &t->block->shadow[(int64_t)m->mark + unit];
    return m->shadow ? &m->shadow[unit] : NULL;
}

static bool report(Run *run, const Thread *t, const Mem *m, const int64_t *index, const char *what,
                   const Epoch *e, const char *other)
{
    memory_error(run, t, m, index, what);
    int64_t first = run->threads[0].block->number;
    if (e->batch == run->races->batch)
        diag_note(run->diag, e->loc,
                  "%s here by thread %d of block %lld, with nothing that orders the two", other,
                  (int)(e->thread % (uint32_t)run->nthread),
                  (long long)(first + e->thread / (uint32_t)run->nthread));
    else
        diag_note(run->diag, e->loc,
                  "%s here by thread %d of another block, with nothing that orders the two", other,
                  (int)(e->thread % (uint32_t)run->nthread));
    return false;
}

static bool check_reads(Run *run, const Thread *t, const Mem *m, const int64_t *index,
                        const Shadow *s)
{
    static const char what[] = "race: write to what another thread reads";
    if (!is_ordered(run, t, &s->other)) return report(run, t, m, index, what, &s->other, "read");
    if (!s->many || s->read.batch != run->races->batch)
        return is_ordered(run, t, &s->read) || report(run, t, m, index, what, &s->read, "read");
    for (int i = 0; i < run->races->nlive; i++) {
        Epoch e = {.batch = s->read.batch,
                   .thread = (uint32_t)i,
                   .clock = s->readers[i],
                   .loc = s->read.loc};
        if (!is_ordered(run, t, &e)) return report(run, t, m, index, what, &e, "read");
    }
    return true;
}

static void note_read(Run *run, Thread *t, Shadow *s, const Epoch *now)
{
    if (s->read.batch != now->batch) {
        if (!is_ordered(run, t, &s->read)) s->other = s->read;
        s->read = *now;
        s->many = false;
    } else if (!s->many && is_ordered(run, t, &s->read)) {
        s->read = *now;
    } else {
        if (!s->many) {
            if (!s->readers) s->readers = new_clock(run);
            memset(s->readers, 0, clock_bytes(run));
            s->readers[s->read.thread] = s->read.clock;
            s->many = true;
        }
        s->readers[now->thread] = now->clock;
        s->read.loc = now->loc;
    }
}

static bool check_unit(Run *run, Thread *t, const Mem *m, const int64_t *index, Shadow *s,
                       Access access)
{
    Epoch now = {run->races->batch, (uint32_t)t->live, t->clock[t->live], interp_loc(run, t)};
    if (m->segment == SEG_BLOCK && s->write.batch != now.batch && s->read.batch != now.batch) {
        // The block before this one is gone, and its memory with it.
        s->write = s->read = s->other = (Epoch){0};
        s->many = false;
    }
    bool atomics = access == ACCESS_ATOMIC && s->atomic;
    if (!atomics && !is_ordered(run, t, &s->write))
        return report(run, t, m, index,
                      access == ACCESS_READ ? "race: read of what another thread writes"
                                            : "race: write to what another thread writes",
                      &s->write, "written");
    if (access == ACCESS_READ) {
        note_read(run, t, s, &now);
        return true;
    }
    if (!check_reads(run, t, m, index, s)) return false;
    if (access == ACCESS_START_BULK && s->write.batch == now.batch && !s->async &&
        s->write.clock > run->threads[s->write.thread].proxy_fence) {
        memory_error(run, t, m, index,
                     "missing fence_async before an asynchronous copy to memory that was written");
        diag_note(run->diag, s->write.loc, "written here by thread %d",
                  (int)(s->write.thread % (uint32_t)run->nthread));
        return false;
    }
    s->write = now;
    s->read = s->other = (Epoch){0};
    s->many = false;
    s->atomic = access == ACCESS_ATOMIC;
    s->async = access == ACCESS_START_BULK;
    return true;
}

bool race_check(Run *run, Thread *t, const Mem *m, const int64_t *index, int64_t unit, int nunit,
                Access access)
{
    for (int i = 0; i < nunit; i++) {
        Shadow *s = shadow_of(t, m, unit + i);
        if (s && !check_unit(run, t, m, index, s, access)) return false;
    }
    return true;
}

void race_copied(Run *run, const Copy *c)
{
    const Thread *t = c->owner;
    int nunit = c->dst->size_bytes / c->dst->unit_bytes;
    for (int64_t k = 0; k < c->nelem; k++) {
        for (int i = 0; i < nunit; i++) {
            Shadow *s = shadow_of(t, c->dst, c->dst_element[k] * nunit + i);
            if (s)
                s->write = (Epoch){run->races->batch, (uint32_t)t->live, t->clock[t->live],
                                   run->program->loc.at[c->pc]};
        }
    }
}

void race_atomic(Run *run, Thread *t, const Mem *m, int64_t element)
{
    Shadow *s = shadow_of(t, m, element * (m->size_bytes / m->unit_bytes));
    if (!s) return;
    if (!s->handover) s->handover = NEW(&run->arena, Handover);
    Handover *h = s->handover;
    if (h->batch != run->races->batch) {
        if (h->batch >= run->races->stage_first) {
            Foreign *f = NEW(&run->arena, Foreign);
            *f = (Foreign){h->foreign, h->batch, h->clock};
            h->foreign = f;
        } else {
            h->foreign = NULL;
        }
        h->batch = run->races->batch;
        h->clock = new_clock(run);
    }
    race_join(run, t->seen_clock, h->clock);
    if (h->foreign) t->seen_foreign = h->foreign;
    race_join(run, h->clock, t->fence_clock);
}
