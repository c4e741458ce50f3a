// SPDX-License-Identifier: Apache-2.0
// Steps of a section: extents that a kernel told, calls, and loops. What controls them, a count or
// a truth value, is read back from the device; all else stays there.
#include "runtime/section.h"

#include "base/util.h"
#include "runtime/device.h"
#include "runtime/memory.h"

#include <string.h>

// ---- small tensors

static heald_status read_number(heald_tensor *t, int64_t *out, Error *e)
{
    heald_tensor *host;
    if (t->nelem != 1)
        return error_set(e, HEALD_INVALID_ARGUMENT, "a number has %lld elements",
                         (long long)t->nelem);
    heald_status s = tensor_to_host(t, &host, e);
    if (s) return s;
    *out = dtype_load_i64(host->dtype, host->data);
    heald_tensor_release(host);
    return HEALD_OK;
}

static heald_status make_number(Device *d, DType type, int64_t v, heald_tensor **out, Error *e)
{
    heald_tensor *host;
    heald_status s = tensor_create(type, 0, NULL, &host, e);
    if (s) return s;
    dtype_store_i64(type, host->data, v);
    if (d->ops->host_memory) {
        *out = host;
        return HEALD_OK;
    }
    s = tensor_create_on(d, type, 0, NULL, out, e);
    if (!s) s = tensor_copy(host, *out, e);
    heald_tensor_release(host);
    return s;
}

// `count` times `bytes` bytes, each so far from the one before.
static heald_status copy_rows(Device *d, char *to, int64_t to_stride, const char *from,
                              int64_t from_stride, int64_t count, int64_t bytes, Error *e)
{
    if (to_stride == bytes && from_stride == bytes) {
        bytes *= count;
        count = 1;
    }
    heald_status s = HEALD_OK;
    for (int64_t i = 0; i < count && bytes && !s; i++)
        s = d->ops->copy(d, COPY_DEVICE_TO_DEVICE, to + i * to_stride, from + i * from_stride,
                         bytes, e);
    return s;
}

static int64_t product(const int64_t *dims, int from, int to)
{
    int64_t n = 1;
    for (int i = from; i < to; i++) n *= dims[i];
    return n;
}

// ---- trim

// Rows along `axis` of t, whose extents before it are those of `out`.
static heald_status trim_axis(Device *d, heald_tensor *t, int axis, int64_t extent,
                              heald_tensor **out, Error *e)
{
    int64_t dims[HEALD_MAX_RANK];
    for (int i = 0; i < t->rank; i++) dims[i] = i == axis ? extent : t->dims[i];
    int64_t outer = product(dims, 0, axis);
    if (outer <= 1) return tensor_view(t, 0, t->rank, dims, out, e);
    heald_status s = tensor_create_on(d, t->dtype, t->rank, dims, out, e);
    if (s) return s;
    int64_t row = product(dims, axis + 1, t->rank) * (int64_t)dtype_size(t->dtype);
    return copy_rows(d, (*out)->data, extent * row, t->data, t->dims[axis] * row, outer,
                     extent * row, e);
}

static heald_status run_TRIM(const Section *s, const SectionStep *st, heald_tensor **slot,
                             SectionRun *run, Error *e)
{
    UNUSED(run);
    heald_tensor *t = heald_tensor_retain(slot[st->input[0]]), *next;
    heald_status status = HEALD_OK;
    for (int k = 0; k + 1 < st->ninput && !status; k++) {
        int64_t extent;
        if (st->input[k + 1] < 0) continue;
        status = read_number(slot[st->input[k + 1]], &extent, e);
        if (!status && (extent < 0 || extent > t->dims[k]))
            status = error_set(e, HEALD_FORMAT, "axis %d has extent %lld, beyond its bound of %lld",
                               k, (long long)extent, (long long)t->dims[k]);
        if (status || extent == t->dims[k]) continue;
        next = NULL;
        status = trim_axis(s->device, t, k, extent, &next, e);
        heald_tensor_release(t);
        t = next;
    }
    if (status) heald_tensor_release(t);
    else slot[st->output[0]] = t;
    return status;
}

// ---- call

static heald_status run_CALL(const Section *s, const SectionStep *st, heald_tensor **slot,
                             SectionRun *run, Error *e)
{
    UNUSED(s);
    size_t bytes = (size_t)(st->ninput + st->noutput) * sizeof *slot;
    heald_tensor **in = memory_alloc_zeroed(bytes), **out = in + st->ninput;
    if (!in) return error_no_memory(e, (int64_t)bytes, "the tensors of a call");
    for (int i = 0; i < st->ninput; i++) in[i] = slot[st->input[i]];
    heald_status status = section_run(st->section, in, out, run, e);
    for (int i = 0; i < st->noutput && !status; i++) {
        if (st->output[i] >= 0) slot[st->output[i]] = out[i];
        else heald_tensor_release(out[i]);
    }
    memory_free(in);
    return status;
}

// ---- loops

// Tensors of the iterations, to be put side by side along an axis.
typedef struct Stack {
    heald_tensor **at;
    int64_t n, capacity;
} Stack;

typedef struct Loop {
    const Section *section;
    const SectionStep *step;
    heald_tensor **slot;
    SectionRun *run;
    int nin, nout, nstack;    // of the body; results that are stacked
    heald_tensor **in, **out; // of the body; both are owned
    Stack *stack;             // (nstack)
    Error *error;
} Loop;

static heald_status push(Stack *k, heald_tensor *t, Error *e)
{
    if (k->n == k->capacity) {
        int64_t room = k->capacity ? 2 * k->capacity : 16;
        heald_tensor **at = memory_alloc((size_t)room * sizeof *at);
        if (!at) return error_no_memory(e, room * (int64_t)sizeof *at, "the results of a loop");
        if (k->n) memcpy(at, k->at, (size_t)k->n * sizeof *at);
        memory_free(k->at);
        k->at = at;
        k->capacity = room;
    }
    k->at[k->n++] = t;
    return HEALD_OK;
}

static void set(heald_tensor **place, heald_tensor *t)
{
    heald_tensor_release(*place);
    *place = t;
}

static heald_status iterate(Loop *l)
{
    const Section *s = l->section;
    Section *body = l->step->section;
    if (s->cancel && s->cancel(s->user))
        return error_set(l->error, HEALD_CANCELLED, "cancelled in a loop");
    if (++l->run->trips > SECTION_MAX_TRIPS)
        return error_set(l->error, HEALD_UNSUPPORTED,
                         "the loops of one run have turned %d times, which is as often as they may",
                         SECTION_MAX_TRIPS);
    return section_run(body, l->in, l->out, l->run, l->error);
}

// Results of the body from `first` on go to the stacks, those before it to the inputs from `to` on.
static heald_status take_results(Loop *l, int first, int ncarried, int to)
{
    for (int k = 0; k < ncarried; k++) {
        set(&l->in[to + k], l->out[first + k]);
        l->out[first + k] = NULL;
    }
    for (int k = 0; k < l->nstack; k++) {
        heald_status s = push(&l->stack[k], l->out[first + ncarried + k], l->error);
        if (s) return s;
        l->out[first + ncarried + k] = NULL;
    }
    return HEALD_OK;
}

// Without iterations, the extents of what they would have given are the body's for its inputs now.
static heald_status empty_stack(Loop *l, int result, int axis, heald_tensor **out)
{
    SectionVariant *v;
    PlanInstance *p;
    heald_status s = section_variant(l->step->section, l->in, &v, l->error);
    if (s) return s;
    if (v->nstep)
        return error_set(l->error, HEALD_UNSUPPORTED, "no iteration gives the extents of result %d",
                         result);
    s = plan_prepare_tensors(v->runner, l->in, &p, l->error);
    if (s) return s;
    int value = plan_runner_plan(v->runner)->outputs.at[result];
    const PlanValue *one = &plan_runner_plan(v->runner)->values.at[value];
    const int64_t *each = plan_instance_dims(p, value);
    int64_t dims[HEALD_MAX_RANK + 1];
    if (one->rank == HEALD_MAX_RANK || axis < -one->rank - 1 || axis > one->rank)
        return error_set(l->error, HEALD_INVALID_ARGUMENT, "results have no axis %d", axis);
    int at = axis < 0 ? axis + one->rank + 1 : axis;
    for (int i = 0; i <= one->rank; i++) dims[i] = i == at ? 0 : each[i - (i > at)];
    return tensor_create_on(l->section->device, one->dtype, one->rank + 1, dims, out, l->error);
}

static heald_status stacked(Loop *l, const Stack *k, int axis, bool backwards, heald_tensor **out)
{
    const heald_tensor *one = k->at[0];
    int64_t dims[HEALD_MAX_RANK + 1];
    if (one->rank == HEALD_MAX_RANK || axis < -one->rank - 1 || axis > one->rank)
        return error_set(l->error, HEALD_INVALID_ARGUMENT, "results have no axis %d", axis);
    int at = axis < 0 ? axis + one->rank + 1 : axis;
    for (int i = 0; i <= one->rank; i++) dims[i] = i == at ? k->n : one->dims[i - (i > at)];
    Device *d = l->section->device;
    heald_status s = tensor_create_on(d, one->dtype, one->rank + 1, dims, out, l->error);
    int64_t outer = product(one->dims, 0, at);
    int64_t row = product(one->dims, at, one->rank) * (int64_t)dtype_size(one->dtype);
    for (int64_t i = 0; i < k->n && !s; i++) {
        const heald_tensor *t = k->at[backwards ? k->n - 1 - i : i];
        if (t->dtype != one->dtype || t->rank != one->rank ||
            (t->rank && memcmp(t->dims, one->dims, (size_t)t->rank * sizeof *t->dims))) {
            char a[160], b[160];
            return error_set(l->error, HEALD_INVALID_ARGUMENT,
                             "iterations give %s and %s, which cannot be stacked",
                             shape_format(a, sizeof a, one->dtype, one->rank, one->dims),
                             shape_format(b, sizeof b, t->dtype, t->rank, t->dims));
        }
        s = copy_rows(d, (char *)(*out)->data + i * row, k->n * row, t->data, row, outer, row,
                      l->error);
    }
    return s;
}

// first: the body's result that is stacked first.
static heald_status give_stacks(Loop *l, int first, const int64_t *axis, const int64_t *backwards)
{
    const SectionStep *st = l->step;
    for (int k = 0; k < l->nstack; k++) {
        int slot = st->output[st->ncarried + k], along = axis ? (int)axis[k] : 0;
        if (slot < 0) continue;
        heald_status s = l->stack[k].n ? stacked(l, &l->stack[k], along, backwards && backwards[k],
                                                 &l->slot[slot])
                                       : empty_stack(l, first + k, along, &l->slot[slot]);
        if (s) return s;
    }
    return HEALD_OK;
}

static void give_carried(Loop *l, int from)
{
    const SectionStep *st = l->step;
    for (int k = 0; k < st->ncarried; k++)
        if (st->output[k] >= 0) l->slot[st->output[k]] = heald_tensor_retain(l->in[from + k]);
}

static heald_status turn_loop(Loop *l)
{
    const SectionStep *st = l->step;
    Device *d = l->section->device;
    int64_t most = INT64_MAX, go_on = 1;
    heald_status s = HEALD_OK;
    if (st->input[0] >= 0) s = read_number(l->slot[st->input[0]], &most, l->error);
    if (!s && st->input[1] >= 0) s = read_number(l->slot[st->input[1]], &go_on, l->error);
    if (!s && st->counted && go_on && most > SECTION_MAX_TRIPS)
        s = error_set(l->error, HEALD_UNSUPPORTED,
                      "%lld iterations, more than the %d that the loops of one run may turn",
                      (long long)most, SECTION_MAX_TRIPS);
    for (int k = 2; k < st->ninput; k++) l->in[k] = heald_tensor_retain(l->slot[st->input[k]]);
    if (!s) s = make_number(d, DT_I64, 0, &l->in[0], l->error);
    if (!s) s = make_number(d, DT_BOOL, 1, &l->in[1], l->error);
    for (int64_t i = 0; !s && i < most && go_on;) {
        s = iterate(l);
        if (!s) s = read_number(l->out[0], &go_on, l->error);
        if (!s) s = take_results(l, 1, st->ncarried, 2);
        if (s || ++i >= most || !go_on) break;
        set(&l->out[0], NULL);
        set(&l->in[0], NULL);
        s = make_number(d, DT_I64, i, &l->in[0], l->error);
    }
    if (!s) s = give_stacks(l, 1, NULL, NULL);
    if (!s) give_carried(l, 2);
    return s;
}

// Of a tensor that has no slice, only the extents of one.
static heald_status take_slice(Loop *l, const heald_tensor *t, int axis, int64_t i,
                               heald_tensor **out)
{
    int64_t dims[HEALD_MAX_RANK];
    for (int k = 0; k < t->rank - 1; k++) dims[k] = t->dims[k + (k >= axis)];
    Device *d = l->section->device;
    heald_status s = tensor_create_on(d, t->dtype, t->rank - 1, dims, out, l->error);
    if (s || !t->dims[axis]) return s;
    int64_t row = product(t->dims, axis + 1, t->rank) * (int64_t)dtype_size(t->dtype);
    return copy_rows(d, (*out)->data, row, (const char *)t->data + i * row, t->dims[axis] * row,
                     product(t->dims, 0, axis), row, l->error);
}

// The common length of what a scan reads, and the axes counted from the front.
static heald_status scan_length(const Loop *l, int64_t *axis, int64_t *length)
{
    const SectionStep *st = l->step;
    for (int k = 0; k < st->nscan; k++) {
        const heald_tensor *t = l->slot[st->input[st->ncarried + k]];
        axis[k] = st->in_axis ? st->in_axis[k] : 0;
        if (axis[k] < 0) axis[k] += t->rank;
        if (axis[k] < 0 || axis[k] >= t->rank)
            return error_set(l->error, HEALD_INVALID_ARGUMENT, "input %d has no such axis", k);
        if (k && t->dims[axis[k]] != *length)
            return error_set(l->error, HEALD_INVALID_ARGUMENT, "inputs have different lengths");
        *length = t->dims[axis[k]];
    }
    return HEALD_OK;
}

static heald_status turn_scan(Loop *l)
{
    const SectionStep *st = l->step;
    enum { MAX_SCAN = 64 };
    int64_t axis[MAX_SCAN], length = 0;
    if (st->nscan > MAX_SCAN)
        return error_set(l->error, HEALD_UNSUPPORTED, "more than %d inputs are read in slices",
                         MAX_SCAN);
    heald_status s = scan_length(l, axis, &length);
    for (int k = 0; k < st->ninput; k++) {
        bool whole = k < st->ncarried || k >= st->ncarried + st->nscan;
        if (whole) l->in[k] = heald_tensor_retain(l->slot[st->input[k]]);
    }
    for (int64_t i = 0; i < (length ? length : 1) && !s; i++) {
        for (int k = 0; k < st->nscan && !s; k++) {
            int in = st->ncarried + k;
            bool back = st->in_backwards && st->in_backwards[k];
            set(&l->in[in], NULL);
            s = take_slice(l, l->slot[st->input[in]], (int)axis[k], back ? length - 1 - i : i,
                           &l->in[in]);
        }
        if (!s && length) s = iterate(l);
        if (!s && length) s = take_results(l, 0, st->ncarried, 0);
    }
    if (!s) s = give_stacks(l, 0, st->out_axis, st->out_backwards);
    if (!s) give_carried(l, 0);
    return s;
}

static heald_status run_body(const Section *s, const SectionStep *st, heald_tensor **slot,
                             SectionRun *run, heald_status (*turn)(Loop *), int first, Error *e)
{
    Section *body = st->section;
    Loop l = {s, st, slot, run, body->ninput, body->noutput, .error = e};
    l.nstack = l.nout - first - st->ncarried;
    size_t tensors = (size_t)(l.nin + l.nout) * sizeof *l.in;
    size_t bytes = tensors + (size_t)l.nstack * sizeof *l.stack;
    l.in = memory_alloc_zeroed(bytes);
    if (!l.in) return error_no_memory(e, (int64_t)bytes, "the tensors of a loop");
    l.out = l.in + l.nin;
    l.stack = (Stack *)((char *)l.in + tensors);
    heald_status status = turn(&l);
    for (int i = 0; i < l.nin + l.nout; i++) heald_tensor_release(l.in[i]);
    for (int k = 0; k < l.nstack; k++) {
        for (int64_t i = 0; i < l.stack[k].n; i++) heald_tensor_release(l.stack[k].at[i]);
        memory_free(l.stack[k].at);
    }
    memory_free(l.in);
    return status;
}

static heald_status run_LOOP(const Section *s, const SectionStep *st, heald_tensor **slot,
                             SectionRun *run, Error *e)
{
    return run_body(s, st, slot, run, turn_loop, 1, e);
}

static heald_status run_SCAN(const Section *s, const SectionStep *st, heald_tensor **slot,
                             SectionRun *run, Error *e)
{
    return run_body(s, st, slot, run, turn_scan, 0, e);
}

static heald_status (*const run_step[SECTION_STEP_COUNT])(const Section *, const SectionStep *,
                                                          heald_tensor **, SectionRun *,
                                                          Error *) = {
#define STEP(ID, name) run_##ID,
#include "runtime/section_steps.def"
#undef STEP
};

const char *section_step_name(SectionStepKind kind)
{
    static const char *const names[SECTION_STEP_COUNT] = {
#define STEP(ID, name) name,
#include "runtime/section_steps.def"
#undef STEP
    };
    return names[kind];
}

heald_status section_step(const Section *s, const SectionStep *st, heald_tensor **slot,
                          SectionRun *run, Error *e)
{
    return run_step[st->kind](s, st, slot, run, e);
}
