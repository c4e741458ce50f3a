// SPDX-License-Identifier: Apache-2.0
// Which kernels a run's time goes to. All plans of all sections that the runs get to are profiled;
// a body that turns several times counts as often, and its sizes are those of the last turn.
#include "cli/bench.h"

#include <stdlib.h>

// One plan of a section.
typedef struct Profile {
    ModelInstance *instance;
    const Graph *from; // what the section was made of
    int section;       // its number, from 1
    const Plan *plan;
    int64_t *now;    // (steps), ns in this run
    double *seconds; // (steps), the least of all runs: in others something came between
    int *launches;   // (steps), in a run
} Profile;

typedef struct Profiler {
    Bench *bench;
    Arena *arena;
    VEC(Profile *) all;
} Profiler;

static void add_section(Profiler *p, ModelSection *s)
{
    int number = ++p->bench->nsection;
    for (int i = 0; i < s->base.nvariant; i++) {
        Profile *f = NEW(p->arena, Profile);
        ModelInstance *in = (ModelInstance *)s->base.variant[i];
        *f = (Profile){.instance = in, .from = s->graph, .section = number};
        f->plan = in->compiled->plan;
        f->now = NEW_ARRAY(p->arena, int64_t, f->plan->steps.n);
        f->seconds = NEW_ARRAY(p->arena, double, f->plan->steps.n);
        f->launches = NEW_ARRAY(p->arena, int, f->plan->steps.n);
        VEC_PUSH(p->arena, &p->all, f);
        for (int k = 0; k < in->nsection; k++)
            if (in->section[k].base.nvariant) add_section(p, &in->section[k]);
    }
}

static void note_step(void *user, int step, const char *name, int64_t ns)
{
    UNUSED(name);
    Profile *f = user;
    f->now[step] += ns;
    f->launches[step]++;
}

static heald_status profile_runs(Profiler *p)
{
    enum { RUNS = 5 };
    static const double long_s = 1;
    const ModelJob *j = p->bench->job;
    int n = p->bench->median_s > long_s ? 1 : RUNS;
    heald_status s = HEALD_OK;
    for (int i = 0; i < p->all.n; i++)
        plan_runner_profile(p->all.at[i]->instance->base.runner, note_step, p->all.at[i]);
    for (int run = 0; run < n && !s; run++) {
        for (int i = 0; i < p->all.n; i++)
            for (int k = 0; k < p->all.at[i]->plan->steps.n; k++)
                p->all.at[i]->now[k] = p->all.at[i]->launches[k] = 0;
        s = model_run(j->model, j->input, j->output);
        for (int i = 0; i < p->all.n; i++) {
            Profile *f = p->all.at[i];
            for (int k = 0; k < f->plan->steps.n; k++) {
                double seconds = (double)f->now[k] * 1e-9;
                if (run == 0 || seconds < f->seconds[k]) f->seconds[k] = seconds;
            }
        }
    }
    for (int i = 0; i < p->all.n; i++)
        plan_runner_profile(p->all.at[i]->instance->base.runner, NULL, NULL);
    return s;
}

// ---- their work

// The graph for the sizes of the last run: the compiled one, or where that is open one more.
static const Graph *known_graph(const Profile *f, const PlanInstance *last, heald_context *c,
                                Arena *a)
{
    const Graph *compiled = f->instance->compiled->graph;
    if (!f->instance->base.open) return compiled;
    int n = f->from->inputs.n;
    const int64_t **dims = NEW_ARRAY(a, const int64_t *, n);
    int *rank = NEW_ARRAY(a, int, n);
    DType *type = NEW_ARRAY(a, DType, n);
    for (int i = 0; i < n; i++) {
        int v = f->plan->inputs.at[i];
        dims[i] = plan_instance_dims(last, v);
        rank[i] = f->plan->values.at[v].rank;
        type[i] = f->plan->values.at[v].dtype;
    }
    Specialisation s = {.dims = dims,
                        .rank = rank,
                        .type = type,
                        .data = f->instance->base.fixed,
                        .cut = true,
                        .precision = c->precision};
    const Graph *g = graph_specialise(f->from, a, &s, &c->host, &c->diag);
    diag_clear(&c->diag);
    return g ? g : compiled;
}

static void take_steps(Profiler *p, const Profile *f, heald_context *c)
{
    Bench *b = p->bench;
    const PlanInstance *last = plan_runner_last(f->instance->base.runner);
    int ran = 0;
    for (int k = 0; k < f->plan->steps.n; k++) ran += f->launches[k] > 0;
    if (!ran || !last) return;
    StepWork *work = model_work(f->instance->compiled, known_graph(f, last, c, p->arena), last,
                                &c->host, p->arena);
    for (int k = 0; k < f->plan->steps.n; k++) {
        if (!f->launches[k]) continue;
        work[k].work.flops *= f->launches[k];
        work[k].work.bytes *= f->launches[k];
        b->step[b->nstep++] = (BenchStep){.step = &f->plan->steps.at[k],
                                          .work = work[k],
                                          .seconds = f->seconds[k],
                                          .nlaunch = f->launches[k],
                                          .section = f->section};
    }
    b->memory_bytes += plan_instance_bytes(last);
}

static int by_time(const void *x, const void *y)
{
    const BenchKernel *a = x, *b = y;
    return (a->seconds < b->seconds) - (a->seconds > b->seconds);
}

static void sum_kernels(Bench *b, Arena *a)
{
    b->kernel = NEW_ARRAY(a, BenchKernel, b->nstep);
    for (int i = 0; i < b->nstep; i++) {
        const BenchStep *s = &b->step[i];
        int k = 0;
        while (k < b->nkernel && (b->kernel[k].first->kernel != s->step->kernel ||
                                  b->kernel[k].section != s->section))
            k++;
        if (k == b->nkernel)
            b->kernel[b->nkernel++] = (BenchKernel){.first = s->step, .section = s->section};
        BenchKernel *sum = &b->kernel[k];
        sum->nlaunch += s->nlaunch;
        sum->work.flops += s->work.work.flops;
        sum->work.bytes += s->work.work.bytes;
        sum->narrow = s->work.narrow;
        sum->seconds += s->seconds;
        b->nlaunch += s->nlaunch;
        b->kernels_s += s->seconds;
    }
    qsort(b->kernel, (size_t)b->nkernel, sizeof *b->kernel, by_time);
}

static heald_status find_ceilings(heald_context *c, Arena *a, Bench *b)
{
    Builder builder;
    heald_status s = context_builder(c, &builder);
    return s ? s
             : ceilings_get(context_cache_dir(c, a), c->names, &c->target, &builder, c->device, a,
                            &b->ceilings, &c->diag, &c->error);
}

heald_status bench_profile(heald_context *c, Arena *scratch, void *user)
{
    UNUSED(scratch);
    Bench *b = user;
    Profiler p = {.bench = b, .arena = &b->job->cli->arena};
    ModelSection *section;
    heald_status s = find_ceilings(c, p.arena, b);
    if (!s) s = model_section(b->job->model, &section);
    if (s) return s;
    add_section(&p, section);
    s = profile_runs(&p);
    int nstep = 0;
    for (int i = 0; i < p.all.n; i++) nstep += p.all.at[i]->plan->steps.n;
    b->step = NEW_ARRAY(p.arena, BenchStep, nstep);
    for (int i = 0; i < p.all.n && !s; i++) take_steps(&p, p.all.at[i], c);
    if (!s) sum_kernels(b, p.arena);
    return s;
}
