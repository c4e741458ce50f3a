// SPDX-License-Identifier: Apache-2.0
// Instances on a device that records: the second run of an instance records its steps, and later
// ones replay them. Where tensors of the caller lie elsewhere than in the run before, the launches
// that use them are changed; that is cheaper than copies.
#include "runtime/plan_instance.h"

#include "base/util.h"
#include "runtime/memory.h"

#include <string.h>

enum { FEWEST_STEPS = 3 }; // for fewer, launches cost less than a graph

typedef struct Segment {
    int first, last; // in r->order, both included
    DeviceGraph *graph;
} Segment;

struct PlanGraph {
    void *memory; // the runner's when it was recorded
    int nsegment;
    Segment *segment;
    int *node_at;    // (steps): number of the first node in its graph
    int *node_count; // (steps)
    void **bound;    // (inputs, then outputs), addresses that are in the graphs
};

// ---- what depends on what

// Bytes that a step uses, in the runner's memory (space -1) or in that of a value.
typedef struct Range {
    int space;
    bool written;
    int64_t first, end;
} Range;

typedef struct Dependence {
    int n, words;     // steps of the segment; of a row of `before`
    int *range_at;    // (n + 1)
    Range *range;     // all
    uint64_t *before; // (n, words): a bit for each step that comes before, at some remove
    int *after;       // (n): steps that one waits for
    int *node;        // (n): their last nodes
} Dependence;

static Range range_of(const PlanInstance *in, int value, bool written)
{
    const Plan *p = in->runner->plan;
    int64_t offset = 0, bytes = in->bytes[value];
    for (; p->values.at[value].kind == VALUE_VIEW; value = p->values.at[value].base)
        offset += in->offset[value];
    bool temp = p->values.at[value].kind == VALUE_TEMP;
    if (temp) offset += in->offset[value];
    return (Range){temp ? -1 : value, written, offset, offset + bytes};
}

static int count_nodes(const PlanInstance *in, int step)
{
    const PlanStep *st = &in->runner->plan->steps.at[step];
    if (st->kind == STEP_COPY) return in->bytes[st->value[0]] > 0;
    int n = 0;
    for (int i = 0; i < st->kernel->nstage; i++) n += in->launch[step].grid[i * STAGE_MAX_GRID] > 0;
    return n;
}

static void find_ranges(const PlanInstance *in, const Segment *seg, Dependence *d)
{
    const PlanRunner *r = in->runner;
    int n = 0;
    for (int i = 0; i < d->n; i++) {
        int step = r->order[seg->first + i];
        const PlanStep *st = &r->plan->steps.at[step];
        int64_t workspace = in->launch[step].workspace_bytes;
        d->range_at[i] = n;
        if (!count_nodes(in, step)) continue; // it does nothing
        for (int k = 0; k < st->nvalue; k++)
            d->range[n++] = range_of(in, st->value[k], plan_step_writes(st, k));
        if (st->kind == STEP_LAUNCH && workspace)
            d->range[n++] = (Range){-1, true, in->workspace[step], in->workspace[step] + workspace};
    }
    d->range_at[d->n] = n;
}

static bool conflict(const Dependence *d, int a, int b)
{
    for (int i = d->range_at[a]; i < d->range_at[a + 1]; i++)
        for (int k = d->range_at[b]; k < d->range_at[b + 1]; k++) {
            const Range *x = &d->range[i], *y = &d->range[k];
            if (x->space == y->space && (x->written || y->written) && x->first < y->end &&
                y->first < x->end)
                return true;
        }
    return false;
}

// The steps that step i waits for, without those that they wait for.
static int find_after(Dependence *d, int i)
{
    uint64_t *mine = d->before + (size_t)i * (size_t)d->words;
    int n = 0;
    for (int k = i - 1; k >= 0; k--) {
        const uint64_t *theirs = d->before + (size_t)k * (size_t)d->words;
        if (mine[k / 64] >> k % 64 & 1 || !conflict(d, k, i)) continue;
        d->after[n++] = k;
        for (int w = 0; w < d->words; w++) mine[w] |= theirs[w];
        mine[k / 64] |= (uint64_t)1 << k % 64;
    }
    return n;
}

static heald_status dependence_create(const PlanInstance *in, const Segment *seg, Dependence *d,
                                      Error *e)
{
    const PlanRunner *r = in->runner;
    int n = seg->last - seg->first + 1, nrange = 0;
    for (int i = 0; i < n; i++) nrange += r->plan->steps.at[r->order[seg->first + i]].nvalue + 1;
    *d = (Dependence){.n = n, .words = (n + 63) / 64};
    size_t bits = (size_t)n * (size_t)d->words * sizeof *d->before;
    size_t bytes = bits + (size_t)nrange * sizeof *d->range + (3 * (size_t)n + 1) * sizeof(int);
    d->before = memory_alloc_zeroed(bytes);
    if (!d->before) return error_no_memory(e, (int64_t)bytes, "the order of a graph");
    d->range = (Range *)(d->before + (size_t)n * (size_t)d->words);
    d->range_at = (int *)(d->range + nrange);
    d->after = d->range_at + n + 1;
    d->node = d->after + n;
    find_ranges(in, seg, d);
    return HEALD_OK;
}

// ---- recording

// The last nodes of what step i waits for.
static int find_nodes(const PlanInstance *in, const Segment *seg, Dependence *d, int i)
{
    const PlanGraph *g = in->graph;
    int n = find_after(d, i), nnode = 0;
    for (int k = 0; k < n; k++) {
        int step = in->runner->order[seg->first + d->after[k]];
        d->node[nnode++] = g->node_at[step] + g->node_count[step] - 1;
    }
    return nnode;
}

// Steps that do nothing are left out from the start.
static heald_status record_steps(const PlanInstance *in, const Segment *seg, Dependence *d,
                                 Error *e)
{
    const PlanRunner *r = in->runner;
    Device *device = r->device;
    PlanGraph *g = in->graph;
    int node = 0;
    for (int i = 0; i < d->n; i++) {
        int step = r->order[seg->first + i];
        const PlanStep *st = &r->plan->steps.at[step];
        g->node_at[step] = node;
        g->node_count[step] = count_nodes(in, step);
        if (!g->node_count[step]) continue;
        int n = find_nodes(in, seg, d, i);
        device->ops->graph_after(device, d->node, n);
        heald_status s = plan_run_step(in, step, e);
        if (s) return error_prefix(e, s, "step %d (%s)", step, st->name);
        node += g->node_count[step];
    }
    return HEALD_OK;
}

static heald_status record_segment(const PlanInstance *in, Segment *seg, Error *e)
{
    Device *device = in->runner->device;
    Dependence d;
    int nnode;
    heald_status s = dependence_create(in, seg, &d, e);
    if (!s) s = device->ops->graph_begin(device, &seg->graph, e);
    if (!s) s = record_steps(in, seg, &d, e);
    if (!s) s = device->ops->graph_end(device, seg->graph, &nnode, e);
    memory_free(d.before);
    return s;
}

// The next run of steps that can be recorded, from *at in r->order on.
static bool next_segment(const PlanRunner *r, int *at, Segment *seg)
{
    int n = r->plan->steps.n;
    while (*at < n) {
        int first = *at;
        while (*at < n && plan_step_records(&r->plan->steps.at[r->order[*at]])) ++*at;
        *seg = (Segment){.first = first, .last = *at - 1};
        if (*at - first >= FEWEST_STEPS) return true;
        if (*at == first) ++*at;
    }
    return false;
}

static void bind(const PlanInstance *in, void **bound)
{
    const PlanRunner *r = in->runner;
    const Plan *p = r->plan;
    for (int i = 0; i < p->inputs.n; i++) bound[i] = r->address[p->inputs.at[i]];
    for (int i = 0; i < p->outputs.n; i++) bound[p->inputs.n + i] = r->address[p->outputs.at[i]];
}

static heald_status create(PlanInstance *in, Error *e)
{
    PlanRunner *r = in->runner;
    Segment seg;
    int nsegment = 0, at = 0;
    size_t nstep = (size_t)r->plan->steps.n,
           nbound = (size_t)r->plan->inputs.n + (size_t)r->plan->outputs.n;
    while (next_segment(r, &at, &seg)) nsegment++;
    if (!nsegment) return HEALD_UNSUPPORTED;
    size_t bytes = sizeof(PlanGraph) + (size_t)nsegment * sizeof seg + nbound * sizeof(void *) +
                   2 * nstep * sizeof(int);
    PlanGraph *g = memory_alloc_zeroed(bytes);
    if (!g) return error_no_memory(e, (int64_t)bytes, "a recorded plan");
    *g = (PlanGraph){.memory = r->memory, .segment = (Segment *)(g + 1)};
    g->bound = (void **)(g->segment + nsegment);
    g->node_at = (int *)(g->bound + nbound);
    g->node_count = g->node_at + nstep;
    in->graph = g;
    bind(in, g->bound);
    heald_status s = HEALD_OK;
    for (at = 0; !s && next_segment(r, &at, &seg);) {
        g->segment[g->nsegment++] = seg;
        s = record_segment(in, &g->segment[g->nsegment - 1], e);
    }
    return s;
}

void plan_graph_drop(PlanInstance *in)
{
    PlanGraph *g = in->graph;
    Device *d = in->runner->device;
    for (int i = 0; g && i < g->nsegment; i++) d->ops->graph_drop(d, g->segment[i].graph);
    memory_free(g);
    in->graph = NULL;
}

// ---- running

static bool uses_moved(const PlanInstance *in, int step)
{
    const PlanRunner *r = in->runner;
    const PlanStep *st = &r->plan->steps.at[step];
    for (int i = 0; i < st->nvalue; i++) {
        int v = st->value[i];
        while (r->plan->values.at[v].kind == VALUE_VIEW) v = r->plan->values.at[v].base;
        if (r->moved[v]) return true;
    }
    return false;
}

static heald_status change_segment(const PlanInstance *in, const Segment *seg, Error *e)
{
    const PlanRunner *r = in->runner;
    const PlanGraph *g = in->graph;
    Device *d = r->device;
    int nnode;
    heald_status s = HEALD_OK;
    for (int i = seg->first; i <= seg->last && !s; i++) {
        int step = r->order[i];
        if (!g->node_count[step] || !uses_moved(in, step)) continue;
        s = d->ops->graph_change(d, seg->graph, g->node_at[step], e);
        if (!s) s = plan_run_step(in, step, e);
        heald_status end = d->ops->graph_end(d, seg->graph, &nnode, e);
        s = s ? s : end;
    }
    return s;
}

// Other addresses of inputs and outputs than the graphs have.
static heald_status follow(const PlanInstance *in, Error *e)
{
    PlanRunner *r = in->runner;
    const Plan *p = r->plan;
    PlanGraph *g = in->graph;
    bool any = false;
    for (int i = 0; i < p->inputs.n + p->outputs.n; i++) {
        int v = i < p->inputs.n ? p->inputs.at[i] : p->outputs.at[i - p->inputs.n];
        r->moved[v] = g->bound[i] != r->address[v];
        any |= r->moved[v];
    }
    heald_status s = HEALD_OK;
    for (int i = 0; any && i < g->nsegment && !s; i++) s = change_segment(in, &g->segment[i], e);
    if (any && !s) bind(in, g->bound);
    return s;
}

// A graph that is right for this run, or none.
static bool ready(PlanInstance *in)
{
    Error e = {0};
    if (in->graph && in->graph->memory != in->runner->memory) plan_graph_drop(in);
    if (in->graph && follow(in, &e)) plan_graph_drop(in);
    if (in->graph) return true;
    if (in->unrecorded || in->nrun++ == 0) return false;
    if (!create(in, &e)) return true;
    plan_graph_drop(in); // launches one by one will say what is wrong, if it is not recording alone
    in->unrecorded = true;
    return false;
}

DeviceGraph *plan_graph_at(PlanInstance *in, int *at)
{
    const PlanGraph *g = in->graph;
    for (int i = 0; g && i < g->nsegment; i++) {
        if (g->segment[i].first != *at) continue;
        *at = g->segment[i].last;
        return g->segment[i].graph;
    }
    return NULL;
}

bool plan_graph_prepare(PlanInstance *in)
{
    const PlanRunner *r = in->runner;
    return r->device->graphs && ready(in);
}
