// SPDX-License-Identifier: Apache-2.0
// Timing kernels.
#include "judge/timing.h"

#include "base/os.h"
#include "base/util.h"
#include "runtime/memory.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_SETS = 4096, MAX_SAMPLES = 1000, MIN_SAMPLES = 5, SAMPLE_NS = 100000 };
static const int64_t max_bytes = (int64_t)4 << 30; // for all sets

typedef struct Sets {
    int n, next;
    void **buffers; // (n, nparam + nworkspace)
    int nbuffer;
    void *memory; // of the device
} Sets;

static heald_status sets_create(Device *d, const RuntimeKernel *k, const LaunchShape *l,
                                void *const *params, const int64_t *bytes, const TimingOptions *o,
                                Sets *s, Error *e)
{
    int64_t one = 0, total;
    for (int i = 0; i < k->nparam; i++) one += memory_round_up(bytes[i]);
    int64_t wanted = one && o->rotate_bytes ? ceil_div_i64(o->rotate_bytes, one) + 1 : 1;
    int64_t most = max_i64(1, max_bytes / max_i64(one, 1));
    s->n = (int)min_i64(min_i64(wanted, most), MAX_SETS);
    s->nbuffer = k->nparam + k->nworkspace;
    if (!mul_i64(one, s->n, &total)) return error_no_memory(e, one, "timing");
    void *workspace;
    heald_status status = device_workspace(d, l->workspace_bytes, &workspace, e);
    if (status) return status;
    size_t pointers = (size_t)s->n * (size_t)s->nbuffer * sizeof(void *);
    s->buffers = memory_alloc(pointers);
    if (!s->buffers) return error_no_memory(e, (int64_t)pointers, "timing");
    status = d->ops->allocate(d, total, &s->memory, e);
    char *at = s->memory;
    for (int set = 0; set < s->n && !status; set++) {
        void **b = s->buffers + (size_t)set * (size_t)s->nbuffer;
        for (int i = 0; i < k->nparam && !status; i++) {
            b[i] = at;
            if (bytes[i]) status = d->ops->copy(d, COPY_HOST_TO_DEVICE, at, params[i], bytes[i], e);
            at += memory_round_up(bytes[i]);
        }
        for (int i = 0; i < k->nworkspace; i++)
            b[k->nparam + i] = (char *)workspace + l->workspace_offset[i];
    }
    return status;
}

typedef struct Clock {
    Device *device;
    const RuntimeKernel *kernel;
    const LaunchShape *shape;
    const int64_t *dims;
    Sets sets;
    DeviceGraph *graph; // of a whole batch between marks 0 and 1; NULL: none
} Clock;

static heald_status launch_batch(Clock *c, int n, Error *e)
{
    heald_status s = HEALD_OK;
    for (int i = 0; i < n && !s; i++) {
        void **b = c->sets.buffers + (size_t)c->sets.next * (size_t)c->sets.nbuffer;
        c->sets.next = (c->sets.next + 1) % c->sets.n;
        s = launch_run(c->device, c->kernel, c->shape, b, c->dims, e);
    }
    return s;
}

static heald_status between_marks(Clock *c, int n, Error *e)
{
    Device *d = c->device;
    heald_status s = d->ops->mark(d, 0, e);
    if (!s) s = launch_batch(c, n, e);
    return s ? s : d->ops->mark(d, 1, e);
}

// Nanoseconds for n calls.
static heald_status run_batch(Clock *c, int n, int64_t *ns, Error *e)
{
    Device *d = c->device;
    heald_status s;
    if (d->ops->mark) {
        s = c->graph ? d->ops->graph_run(d, c->graph, e) : between_marks(c, n, e);
        return s ? s : d->ops->mark_ns(d, 0, 1, ns, e);
    }
    int64_t start = clock_ns();
    s = launch_batch(c, n, e);
    if (!s) s = device_synchronise(d, e);
    *ns = clock_ns() - start;
    return s;
}

static heald_status record_batch(Clock *c, int n, Error *e)
{
    Device *d = c->device;
    int nnode;
    if (!d->graphs || !d->ops->mark) return HEALD_OK;
    heald_status s = d->ops->graph_begin(d, &c->graph, e);
    if (!s) s = between_marks(c, n, e);
    return s ? s : d->ops->graph_end(d, c->graph, &nnode, e);
}

static int by_value(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

static heald_status take_samples(Clock *c, const TimingOptions *o, Timing *out, Error *e)
{
    int64_t first, ns;
    heald_status s = run_batch(c, 1, &ns, e); // code and pages are brought in
    if (!s) s = run_batch(c, 1, &first, e);
    for (int i = 1; i < c->sets.n && !s && ns < (int64_t)2e8; i++) {
        int64_t one;
        s = run_batch(c, 1, &one, e);
        ns += one;
        first = min_i64(first, one);
    }
    if (s) return s;
    double budget = o->budget_s > 0 ? o->budget_s : 0.5;
    out->batch = (int)max_i64(1, min_i64(SAMPLE_NS / max_i64(first, 1), 10000));
    s = record_batch(c, out->batch, e);
    if (s) return s;
    double sample_s = (double)max_i64(first, 1) * out->batch * 1e-9;
    double affordable = budget / sample_s;
    int64_t nsample = affordable < MAX_SAMPLES ? (int64_t)affordable : MAX_SAMPLES;
    nsample = max_i64(MIN_SAMPLES, nsample);
    if (o->nsample > 0) nsample = min_i64(o->nsample, MAX_SAMPLES);
    double at[MAX_SAMPLES];
    int n = 0;
    for (; n < nsample && !s && !(o->cancelled && n > 0 && o->cancelled(o->user)); n++) {
        s = run_batch(c, out->batch, &ns, e);
        at[n] = (double)ns * 1e-9 / out->batch;
    }
    if (s) return s;
    qsort(at, (size_t)n, sizeof *at, by_value);
    out->nsample = n;
    out->nset = c->sets.n;
    out->min_s = at[0];
    out->low_s = at[n / 4];
    out->median_s = n % 2 ? at[n / 2] : (at[n / 2 - 1] + at[n / 2]) / 2;
    out->high_s = at[(3 * n) / 4];
    return HEALD_OK;
}

heald_status time_kernel(Device *d, const RuntimeKernel *k, const int64_t *dims,
                         void *const *params, const int64_t *bytes, const TimingOptions *o,
                         Timing *out, Error *e)
{
    *out = (Timing){0};
    int64_t *words = memory_alloc((size_t)launch_nword(k) * sizeof *words);
    if (!words) return error_no_memory(e, launch_nword(k) * 8, "timing");
    LaunchShape shape;
    Clock c = {.device = d, .kernel = k, .shape = &shape, .dims = dims};
    heald_status s = launch_shape(k, dims, words, &shape, e);
    if (!s) s = sets_create(d, k, &shape, params, bytes, o, &c.sets, e);
    if (!s) s = take_samples(&c, o, out, e);
    if (c.graph) d->ops->graph_drop(d, c.graph);
    d->ops->free(d, c.sets.memory);
    memory_free(c.sets.buffers);
    memory_free(words);
    return s;
}
