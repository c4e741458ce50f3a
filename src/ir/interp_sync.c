// SPDX-License-Identifier: Apache-2.0
// Rendezvous and mbarriers, and the report when nobody can go on.
#include "ir/interp_machine.h"

#include <string.h>

static int warps_of(const Run *run)
{
    return (run->nthread + WARP - 1) / WARP;
}

void sync_create(Run *run)
{
    for (int b = 0; b < run->nblock; b++) {
        Block *block = &run->blocks[b];
        block->role = NEW_ARRAY(&run->arena, Meeting, run->program->roles.n + 1);
        block->warp = NEW_ARRAY(&run->arena, Meeting, warps_of(run));
    }
}

static void start_mbarriers(Run *run, Block *block)
{
    for (int i = 0; i < run->program->mems.n; i++) {
        const Mem *m = &run->program->mems.at[i];
        if (!m->buf->is_mbarrier) continue;
        for (int64_t e = 0; e < m->nelem; e++) {
            Mbarrier *bar = memory_at(block->thread, m, e);
            bar->arrivals = bar->pending = m->buf->arrivals;
            bar->bytes = bar->phase = 0;
            if (!bar->seen) bar->seen = NEW_ARRAY(&run->arena, int64_t, run->nthread);
            memset(bar->seen, 0, (size_t)run->nthread * sizeof *bar->seen);
            if (run->races) race_reset(run, &bar->clock);
        }
    }
}

void sync_start(Run *run)
{
    int nrole = run->program->roles.n;
    run->all = (Meeting){.wanted = run->nblock * run->nthread};
    for (int b = 0; b < run->nblock; b++) {
        Block *block = &run->blocks[b];
        for (int k = 0; k <= nrole; k++) block->role[k] = (Meeting){.wanted = block->size[k]};
        for (int w = 0; w < warps_of(run); w++)
            block->warp[w] = (Meeting){.wanted = (int)min_i64(WARP, run->nthread - w * WARP)};
        memset(block->named, 0, sizeof block->named);
        start_mbarriers(run, block);
        for (int i = 0; i < run->nthread; i++) {
            Thread *t = &block->thread[i];
            t->committed = t->completed = 0;
            for (Copy *c; (c = copy_pop(&t->copies));) {
                c->next = run->spare;
                run->spare = c;
            }
        }
    }
    if (run->races) race_start(run);
}

bool sync_finish(Run *run)
{
    for (Copy *c; (c = copy_pop(&run->bulk));)
        if (!copy_finish(run, c)) return false;
    for (int b = 0; b < run->nblock; b++)
        if (!memory_replicas_agree(run, &run->blocks[b])) return false;
    return true;
}

static const char *meeting_name(Wait wait)
{
    return wait == WAIT_WARP   ? "exchange of a warp"
           : wait == WAIT_GRID ? "grid barrier"
                               : "barrier";
}

Outcome sync_meet(Run *run, Thread *t, Meeting *m, Wait wait)
{
    if (m->arrived && wait != WAIT_NAMED && m->first->pc != t->pc) {
        interp_error(run, t, "divergent %s: threads that must meet wait at different places",
                     meeting_name(wait));
        diag_note(run->diag, interp_loc(run, m->first), "thread %d waits here", m->first->index);
        return OUT_FAILED;
    }
    if (!m->arrived) m->first = t;
    t->meeting = m;
    t->wait = wait;
    if (++m->arrived < m->wanted) return OUT_BLOCKED;
    if (run->races && wait != WAIT_WARP) race_meet(run, m);
    if (wait == WAIT_BARRIER && m->wanted == run->nthread && !memory_replicas_agree(run, t->block))
        return OUT_FAILED;
    Thread *from = wait == WAIT_GRID ? run->threads : t->block->thread;
    int n = wait == WAIT_GRID ? run->nblock * run->nthread : run->nthread;
    for (int i = 0; i < n; i++) {
        if (from[i].meeting != m) continue;
        from[i].meeting = NULL;
        from[i].wait = WAIT_NOTHING;
        if (&from[i] != t) from[i].pc++;
    }
    m->arrived = 0;
    return OUT_NEXT;
}

// ---- mbarriers

bool mbarrier_passed(const Thread *t)
{
    return (t->bar->phase & 1) != (t->parity & 1);
}

void mbarrier_settle(Mbarrier *bar)
{
    if (bar->pending || bar->bytes) return;
    bar->pending = bar->arrivals;
    bar->phase++;
}

Outcome mbarrier_arrive(Run *run, Thread *t, Mbarrier *bar)
{
    if (!bar->pending) {
        interp_error(run, t,
                     "mbarrier phase error: all %lld arrivals of phase %lld have come, and %lld "
                     "bytes are missing",
                     (long long)bar->arrivals, (long long)bar->phase, (long long)bar->bytes);
        return OUT_FAILED;
    }
    if (run->races) race_release(run, t, bar->clock);
    bar->pending--;
    mbarrier_settle(bar);
    return OUT_NEXT;
}

Outcome mbarrier_wait(Run *run, Thread *t, Mbarrier *bar, int64_t parity)
{
    t->bar = bar;
    t->parity = parity;
    if (!mbarrier_passed(t)) {
        t->wait = WAIT_MBARRIER;
        return OUT_BLOCKED;
    }
    int64_t phase = bar->phase - 1 + 2, *seen = &bar->seen[t->index];
    if (*seen && phase != *seen + 1) {
        interp_error(
            run, t,
            phase == *seen
                ? "mbarrier phase error: the thread has already waited for phase %lld, of parity %d"
                : "mbarrier phase error: a phase was missed before phase %lld, of parity %d",
            (long long)phase - 2, (int)(parity & 1));
        return OUT_FAILED;
    }
    *seen = phase;
    if (run->races) race_acquire(run, t, bar->clock);
    return OUT_NEXT;
}

// ---- nobody can go on

static void describe_wait(Run *run, const Thread *t, int count)
{
    Loc loc = interp_loc(run, t);
    if (t->wait == WAIT_MBARRIER) {
        const Mem *m = &run->program->mems.at[t->place.mem];
        diag_note(run->diag, loc,
                  "%d thread%s, the first block %lld thread %d, wait%s here for parity %d of '%s', "
                  "element %lld: phase %lld "
                  "wants %lld more arrivals and %lld more bytes",
                  count, count > 1 ? "s" : "", (long long)t->block->number, t->index,
                  count > 1 ? "" : "s", (int)(t->parity & 1), m->buf->name,
                  (long long)(t->bar - (const Mbarrier *)memory_at(t, m, 0)),
                  (long long)t->bar->phase, (long long)t->bar->pending, (long long)t->bar->bytes);
        return;
    }
    diag_note(run->diag, loc,
              "%d thread%s, the first block %lld thread %d, wait%s at this %s: %d of %d have come",
              count, count > 1 ? "s" : "", (long long)t->block->number, t->index,
              count > 1 ? "" : "s", t->wait == WAIT_NAMED ? "named barrier" : meeting_name(t->wait),
              t->meeting->arrived, t->meeting->wanted);
}

// Is u one of those that t's meeting waits for?
static bool is_expected(const Run *run, const Thread *t, const Thread *u)
{
    if (u->meeting == t->meeting) return false;
    if (t->wait == WAIT_GRID) return true;
    if (u->block != t->block) return false;
    if (t->wait == WAIT_WARP) return u->index / WARP == t->index / WARP;
    int64_t role = t->meeting - t->block->role - 1;
    return t->wait == WAIT_BARRIER &&
           (role < 0 || (role < run->program->roles.n && u->member[role]));
}

static bool report_divergence(Run *run, const Thread *t)
{
    int n = run->nblock * run->nthread;
    for (int i = 0; i < n; i++) {
        const Thread *u = &run->threads[i];
        if (!is_expected(run, t, u) || (u->wait != WAIT_END && t->wait != WAIT_WARP)) continue;
        interp_error(run, t, "divergent %s: %d of %d threads have come", meeting_name(t->wait),
                     t->meeting->arrived, t->meeting->wanted);
        diag_note(run->diag, interp_loc(run, u),
                  u->wait == WAIT_END ? "thread %d has ended" : "thread %d waits here", u->index);
        return true;
    }
    return false;
}

static void report_deadlock(Run *run)
{
    int n = run->nblock * run->nthread;
    bool first = true;
    for (int i = 0; i < n; i++) {
        const Thread *t = &run->threads[i];
        if (t->wait == WAIT_END) continue;
        int count = 0;
        bool told = false;
        for (int j = 0; j < n; j++) {
            const Thread *u = &run->threads[j];
            if (u->wait != t->wait || u->pc != t->pc || u->bar != t->bar ||
                u->meeting != t->meeting)
                continue;
            told |= j < i;
            count++;
        }
        if (told) continue;
        if (first) interp_error(run, t, "deadlock: no thread can go on");
        first = false;
        describe_wait(run, t, count);
    }
}

bool sync_advance(Run *run)
{
    Copy *c = copy_pop(&run->bulk);
    if (c) return copy_finish(run, c);
    int n = run->nblock * run->nthread;
    for (int i = 0; i < n; i++) {
        const Thread *t = &run->threads[i];
        if (t->meeting && t->wait != WAIT_NAMED && report_divergence(run, t)) return false;
    }
    report_deadlock(run);
    return false;
}
