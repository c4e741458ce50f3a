// SPDX-License-Identifier: Apache-2.0
// The order in which a runner takes the steps, and the time at which each value is needed. On a
// device with graphs, steps that do not depend on each other may run together: they are at the same
// level, and memory is shared only between levels.
#include "runtime/plan_instance.h"

#include "base/util.h"

static int root_of(const Plan *p, int value)
{
    while (p->values.at[value].kind == VALUE_VIEW) value = p->values.at[value].base;
    return value;
}

// Of a step that uses `value`: later than who wrote it; and than all who used it, or what had the
// memory before it, if it is written.
static void come_after(PlanRunner *r, int value, bool written, int *level)
{
    const Plan *p = r->plan;
    int v = root_of(p, value);
    *level = r->written[v] > *level ? r->written[v] : *level;
    while (written && v >= 0) {
        *level = r->used[v] > *level ? r->used[v] : *level;
        v = p->values.at[v].kind == VALUE_TEMP ? p->values.at[v].base : -1;
    }
}

static void note_use(PlanRunner *r, int value, bool written, int level)
{
    int v = root_of(r->plan, value);
    if (written) r->written[v] = level + 1;
    if (r->used[v] < level + 1) r->used[v] = level + 1;
}

// written, used: the first level that may follow whoever did so.
static void find_levels(PlanRunner *r)
{
    const Plan *p = r->plan;
    int floor = 0, top = 0;
    for (int s = 0; s < p->steps.n; s++) {
        const PlanStep *st = &p->steps.at[s];
        bool alone = !plan_step_records(st);
        int level = alone ? top : floor;
        for (int i = 0; i < st->nvalue; i++)
            come_after(r, st->value[i], plan_step_writes(st, i), &level);
        for (int i = 0; i < st->nvalue; i++)
            note_use(r, st->value[i], plan_step_writes(st, i), level);
        r->time[s] = level;
        top = level + 1 > top ? level + 1 : top;
        if (alone) floor = top;
    }
}

// By time, and by number where that is the same. Times are below the number of steps.
static void sort_steps(PlanRunner *r)
{
    int n = r->plan->steps.n, sum = 0;
    for (int s = 0; s < n; s++) r->start[r->time[s]]++;
    for (int t = 0; t < n; t++) {
        int count = r->start[t];
        r->start[t] = sum;
        sum += count;
    }
    for (int s = 0; s < n; s++) r->order[r->start[r->time[s]]++] = s;
}

bool plan_step_records(const PlanStep *st)
{
    return st->kind == STEP_LAUNCH || st->kind == STEP_COPY;
}

bool plan_step_writes(const PlanStep *st, int i)
{
    if (st->kind == STEP_COPY) return i == 1;
    int n = st->kernel ? st->kernel->noutput : 0;
    return !n || i >= st->nvalue - n;
}

void plan_order(PlanRunner *r)
{
    for (int s = 0; s < r->plan->steps.n; s++) r->time[s] = s;
    if (r->device->graphs) find_levels(r);
    sort_steps(r);
}
