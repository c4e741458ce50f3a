// SPDX-License-Identifier: Apache-2.0
// A run whose steps are timed one by one. A GPU is told everything at once, as a graph with marks
// between the steps, since it would wait for the host otherwise.
#include "runtime/nvtx.h"
#include "runtime/plan_instance.h"

#include "base/os.h"
#include "base/util.h"

void plan_runner_profile(PlanRunner *r,
                         void (*profile)(void *user, int step, const char *name, int64_t ns),
                         void *user)
{
    r->options.profile = profile;
    r->profile_user = user;
}

static void tell(const PlanRunner *r, int step, int64_t ns)
{
    r->options.profile(r->profile_user, step, r->plan->steps.at[step].name, ns);
}

static heald_status cancelled(const PlanRunner *r, int step, Error *e)
{
    const RunOptions *o = &r->options;
    if (!o->cancel || !o->cancel(o->user)) return HEALD_OK;
    return error_set(e, HEALD_CANCELLED, "cancelled before step %d (%s)", step,
                     r->plan->steps.at[step].name);
}

// Each step is waited for, within a range of its name, and told if `timed`.
static heald_status run_one_by_one(const PlanInstance *in, bool timed, Error *e)
{
    const PlanRunner *r = in->runner;
    Device *d = r->device;
    for (int at = 0; at < r->plan->steps.n; at++) {
        int step = r->order[at];
        const PlanStep *st = &r->plan->steps.at[step];
        heald_status s = cancelled(r, step, e);
        if (s) return s;
        nvtx_push(st->name);
        int64_t start = clock_ns();
        s = plan_run_step(in, step, e);
        if (!s) s = device_synchronise(d, e);
        int64_t ns = clock_ns() - start;
        nvtx_pop();
        if (s) return error_prefix(e, s, "step %d (%s)", step, st->name);
        if (timed) tell(r, step, ns);
    }
    return HEALD_OK;
}

enum { EMPTY = 4 }; // marks with nothing between them, for what a mark costs

// Mark i is before the step at i in the order; the last ones follow each other.
static heald_status record(const PlanInstance *in, DeviceGraph **g, Error *e)
{
    const PlanRunner *r = in->runner;
    Device *d = r->device;
    int n = r->plan->steps.n, nnode;
    heald_status s = d->ops->graph_begin(d, g, e);
    for (int at = 0; at < n && !s; at++) {
        s = d->ops->mark(d, at, e);
        if (!s) s = plan_run_step(in, r->order[at], e);
    }
    for (int i = 0; i <= EMPTY && !s; i++) s = d->ops->mark(d, n + i, e);
    return s ? s : d->ops->graph_end(d, *g, &nnode, e);
}

static heald_status read_marks(const PlanInstance *in, Error *e)
{
    const PlanRunner *r = in->runner;
    Device *d = r->device;
    int n = r->plan->steps.n;
    int64_t ns, least = INT64_MAX;
    heald_status s = device_synchronise(d, e);
    for (int i = 0; i < EMPTY && !s; i++) {
        s = d->ops->mark_ns(d, n + i, n + i + 1, &ns, e);
        least = min_i64(least, ns);
    }
    for (int at = 0; at < n && !s; at++) {
        s = d->ops->mark_ns(d, at, at + 1, &ns, e);
        if (!s) tell(r, r->order[at], max_i64(ns - least, 0));
    }
    return s;
}

heald_status plan_run_profiled(const PlanInstance *in, Error *e)
{
    Device *d = in->runner->device;
    if (!d->graphs || !d->ops->mark) return run_one_by_one(in, true, e);
    DeviceGraph *g = NULL;
    heald_status s = run_one_by_one(in, false, e);
    if (!s) s = record(in, &g, e);
    if (!s) s = d->ops->graph_run(d, g, e);
    if (!s) s = read_marks(in, e);
    d->ops->graph_drop(d, g);
    return s;
}
