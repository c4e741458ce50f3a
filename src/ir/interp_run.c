// SPDX-License-Identifier: Apache-2.0
// interp_run: memory that outlives stages, the blocks of a stage, and the scheduler. A thread runs
// until it waits; when nobody can go on, the oldest asynchronous copy completes; when there is none
// either, the threads are stuck.
#include "ir/interp_machine.h"

#include <stdarg.h>
#include <string.h>

enum { MAX_THREADS = 1 << 16 };
static const int64_t default_steps = INT64_C(1) << 40, max_blocks = INT64_C(1) << 40;

void interp_where(Run *run, const Thread *t)
{
    const Cell *r = t->r;
    const char *stage = run->program->stage->name;
    if (run->kernel->target.kind == TARGET_CPU)
        diag_note(run->diag, run->program->stage->body->loc,
                  "in stage '%s', block (%lld, %lld, %lld)", stage ? stage : "",
                  (long long)r[VAR_BLOCK_X].i, (long long)r[VAR_BLOCK_Y].i,
                  (long long)r[VAR_BLOCK_Z].i);
    else
        diag_note(run->diag, run->program->stage->body->loc,
                  "in stage '%s', block (%lld, %lld, %lld), thread %d", stage ? stage : "",
                  (long long)r[VAR_BLOCK_X].i, (long long)r[VAR_BLOCK_Y].i,
                  (long long)r[VAR_BLOCK_Z].i, t->index);
}

Loc interp_loc(const Run *run, const Thread *t)
{
    return run->program->loc.at[t->pc];
}

void interp_error(Run *run, const Thread *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    diag_report(run->diag, SEV_ERROR, interp_loc(run, t), fmt, ap);
    va_end(ap);
    interp_where(run, t);
}

static void *plain_memory(Run *run, int64_t n, int64_t size_bytes)
{
    return arena_alloc_array(&run->arena, (size_t)size_bytes, (size_t)n);
}

// Frames, local and shared memory for nblock blocks of nthread threads, used again by block after
// block.
static void create_threads(Run *run)
{
    const Program *p = run->program;
    int nconst = p->constants.n, frame = nconst + p->nreg, nrole = p->roles.n;
    run->blocks = NEW_ARRAY(&run->arena, Block, run->nblock);
    run->threads = NEW_ARRAY(&run->arena, Thread, (int64_t)run->nblock * run->nthread);
    for (int b = 0; b < run->nblock; b++) {
        Block *block = &run->blocks[b];
        block->data = plain_memory(run, p->block_bytes, 1);
        block->mark = plain_memory(run, p->block_marks, 1);
        block->leader = NEW_ARRAY(&run->arena, int, nrole + 1);
        block->size = NEW_ARRAY(&run->arena, int, nrole + 1);
        block->thread = &run->threads[(int64_t)b * run->nthread];
        for (int i = 0; i < run->nthread; i++) {
            Thread *t = &block->thread[i];
            Cell *cells = NEW_ARRAY(&run->arena, Cell, frame);
            t->r = cells + nconst;
            for (int k = 0; k < nconst; k++) t->r[-1 - k] = p->constants.at[k];
            t->block = block;
            t->index = i;
            t->live = b * run->nthread + i;
            t->member = NEW_ARRAY(&run->arena, bool, nrole);
            t->data[SEG_BLOCK] = (uintptr_t)block->data;
            t->mark[SEG_BLOCK] = (uintptr_t)block->mark;
            t->data[SEG_THREAD] = (uintptr_t)plain_memory(run, p->thread_bytes, 1);
            t->mark[SEG_THREAD] = (uintptr_t)plain_memory(run, p->thread_marks, 1);
        }
    }
    sync_create(run);
    if (run->races) race_threads(run);
}

// Block number `linear` (row-major in x, y, z) starts in the live block.
static void start_block(Run *run, Block *block, int64_t linear)
{
    int64_t z = linear % run->grid[2], y = linear / run->grid[2] % run->grid[1],
            x = linear / run->grid[2] / run->grid[1];
    memset(block->mark, 0, (size_t)run->program->block_marks);
    block->number = linear;
    for (int i = 0; i < run->nthread; i++) {
        Thread *t = &block->thread[i];
        t->r[VAR_BLOCK_X].i = x;
        t->r[VAR_BLOCK_Y].i = y;
        t->r[VAR_BLOCK_Z].i = z;
        t->r[VAR_THREAD].i = i;
        t->r[VAR_CORE].i = 0;
        t->pc = 0;
        t->wait = WAIT_NOTHING;
        t->meeting = NULL;
        for (int m = 0; m < run->program->mems.n; m++)
            if (run->program->mems.at[m].owners && !run->program->mems.at[m].by_lane)
                t->r[run->program->mems.at[m].made].i = 0;
    }
}

// Who is in which role, and the first of each.
static bool find_members(Run *run, Block *block)
{
    const Program *p = run->program;
    block->leader[0] = 0;
    block->size[0] = run->nthread;
    for (int k = 0; k < p->roles.n; k++) {
        const Role *role = &p->roles.at[k];
        block->leader[k + 1] = -1;
        block->size[k + 1] = 0;
        for (int i = 0; i < run->nthread; i++) {
            Thread *t = &block->thread[i];
            t->pc = role->entry;
            if (interp_exec(run, t) != OUT_DONE) return false;
            t->pc = 0;
            t->member[k] = t->r[role->result].i && (role->parent < 0 || t->member[role->parent]);
            if (t->member[k] && !block->size[k + 1]++) block->leader[k + 1] = i;
        }
    }
    return true;
}

static bool can_go_on(const Thread *t)
{
    return t->wait == WAIT_NOTHING || (t->wait == WAIT_MBARRIER && mbarrier_passed(t));
}

// Runs the live blocks to their end.
static bool run_threads(Run *run)
{
    int n = run->nblock * run->nthread, left = n;
    while (left) {
        bool moved = false;
        for (int i = 0; i < n; i++) {
            Thread *t = &run->threads[i];
            if (!can_go_on(t)) continue;
            t->wait = WAIT_NOTHING;
            moved = true;
            Outcome outcome = interp_exec(run, t);
            if (outcome == OUT_FAILED) return false;
            if (outcome == OUT_DONE) {
                t->wait = WAIT_END;
                left--;
            }
        }
        if (!moved && left && !sync_advance(run)) return false;
    }
    return true;
}

static bool evaluate_launch(Run *run, const Stage *s, int64_t *total)
{
    const Kernel *k = run->kernel;
    *total = 1;
    for (int i = 0; i < KERNEL_MAX_GRID; i++) {
        run->grid[i] = i < s->ngrid ? node_eval_dims(s->grid[i], k, run->dims) : 1;
        if (run->grid[i] < 0) {
            diag_error(run->diag, s->body->loc, "a grid has %lld blocks", (long long)run->grid[i]);
            return false;
        }
        if (!mul_i64(*total, run->grid[i], total) || *total > max_blocks) {
            diag_error(run->diag, s->body->loc, "the grid of this stage is too large");
            return false;
        }
    }
    int64_t nthread =
        s->block && k->target.kind != TARGET_CPU ? node_eval_dims(s->block, k, run->dims) : 1;
    int64_t live = run->program->whole_grid ? *total : 1;
    if (nthread < 1 || nthread > MAX_THREADS || live > MAX_THREADS / nthread) {
        diag_error(run->diag, s->body->loc, "%lld blocks of %lld threads cannot live together",
                   (long long)live, (long long)nthread);
        return false;
    }
    run->nthread = (int)nthread;
    run->nblock = (int)live;
    return true;
}

static bool run_stage(Run *run, const Stage *s)
{
    int64_t total;
    run->program = interp_compile(run, s);
    if (!run->program || !evaluate_launch(run, s, &total)) return false;
    if (!total) return true;
    create_threads(run);
    for (int64_t first = 0; first < total; first += run->nblock) {
        for (int b = 0; b < run->nblock; b++) {
            start_block(run, &run->blocks[b], first + b);
            if (!find_members(run, &run->blocks[b])) return false;
        }
        sync_start(run);
        if (!run_threads(run) || !sync_finish(run)) return false;
    }
    return true;
}

static bool check_requirements(Run *run)
{
    const Kernel *k = run->kernel;
    for (int i = 0; i < k->requirements.n; i++) {
        const Requirement *q = &k->requirements.at[i];
        if (node_eval_dims(q->cond, k, run->dims)) continue;
        diag_error(run->diag, q->loc, "requirement not met: %s", q->message ? q->message : "");
        return false;
    }
    return true;
}

static bool run_kernel(Run *run)
{
    const Kernel *k = run->kernel;
    if (!check_requirements(run)) return false;
    if (run->options->check_races) race_create(run);
    for (int i = 0; i < k->stages.n; i++) {
        if (run->races) race_next_stage(run);
        if (!run_stage(run, k->stages.at[i])) return false;
    }
    return true;
}

bool interp_run(const Kernel *k, void *const *data, const int64_t *dims,
                const InterpOptions *options, Diag *d)
{
    static const InterpOptions none = {0};
    Run *volatile run = arena_alloc(d->arena, sizeof(Run));
    run->kernel = k;
    run->data = data;
    run->dims = dims;
    run->options = options ? options : &none;
    run->diag = d;
    run->max_steps = run->options->max_steps > 0 ? run->options->max_steps : default_steps;
    run->steps_left = run->max_steps;
    if (setjmp(run->nomem)) {
        arena_free((Arena *)&run->arena);
        arena_out_of_memory(d->arena);
    }
    run->arena.nomem = (jmp_buf *)&run->nomem;
    bool ok = run_kernel(run);
    arena_free((Arena *)&run->arena);
    return ok;
}
