// SPDX-License-Identifier: Apache-2.0
// From a plan and dimensions to an instance: shapes, grids, and the places of temporary values.
#include "runtime/plan_instance.h"

#include "base/util.h"
#include "runtime/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    DEFAULT_INSTANCES = 16,
    SMALL_BYTES = 16 << 10 // what one thread has read and written before another wakes up
};

// Takes `n` things of `size` bytes from *at, keeping 8-byte alignment. With *at starting at 0, it
// measures: the same list of calls serves for measuring and for placing.
static void *carve(uintptr_t *at, size_t n, size_t size)
{
    uintptr_t here = *at;
    *at = here + (n * size + 7) / 8 * 8;
    return (void *)here;
}

static uintptr_t lay_out_runner(PlanRunner *r, uintptr_t at)
{
    size_t nvalue = (size_t)r->plan->values.n, nstep = (size_t)r->plan->steps.n;
    r->dims_at = carve(&at, nvalue, sizeof(int));
    r->step_dims_at = carve(&at, nstep, sizeof(int));
    r->words_at = carve(&at, nstep, sizeof(int));
    r->life = carve(&at, nvalue + nstep, sizeof(MemoryItem));
    r->item = carve(&at, nvalue + nstep, sizeof(MemoryItem));
    r->placed = carve(&at, nvalue + nstep, sizeof(MemoryItem));
    r->order = carve(&at, nstep, sizeof(int));
    r->time = carve(&at, nstep, sizeof(int));
    r->start = carve(&at, nstep, sizeof(int));
    r->written = carve(&at, nvalue, sizeof(int));
    r->used = carve(&at, nvalue, sizeof(int));
    r->moved = carve(&at, nvalue, sizeof(bool));
    r->address = carve(&at, nvalue, sizeof(void *));
    r->buffers = carve(&at, (size_t)r->nbuffer, sizeof(void *));
    r->created = carve(&at, (size_t)r->plan->outputs.n, sizeof(bool));
    r->input_dims = carve(&at, (size_t)r->plan->inputs.n, sizeof(int64_t *));
    r->elements = carve(&at, (size_t)r->nelement, sizeof(int64_t));
    r->elements_at = carve(&at, (size_t)r->plan->inputs.n, sizeof(int));
    r->key = carve(&at, (size_t)r->plan->dims.n, sizeof(int64_t));
    r->instance = carve(&at, (size_t)r->options.max_instances, sizeof(PlanInstance *));
    return at;
}

static uintptr_t lay_out_instance(const PlanRunner *r, PlanInstance *in, uintptr_t at)
{
    size_t nvalue = (size_t)r->plan->values.n, nstep = (size_t)r->plan->steps.n;
    in->key = carve(&at, (size_t)r->plan->dims.n, sizeof(int64_t));
    in->dims = carve(&at, (size_t)r->ndims, sizeof(int64_t));
    in->bytes = carve(&at, nvalue, sizeof(int64_t));
    in->offset = carve(&at, nvalue, sizeof(int64_t));
    in->workspace = carve(&at, nstep, sizeof(int64_t));
    in->step_dims = carve(&at, (size_t)r->nstep_dims, sizeof(int64_t));
    in->words = carve(&at, (size_t)r->nwords, sizeof(int64_t));
    in->launch = carve(&at, nstep, sizeof(LaunchShape));
    return at;
}

static void extend_life(MemoryItem *m, int time)
{
    bool first = m->first > m->last;
    if (first || time < m->first) m->first = time;
    if (first || time > m->last) m->last = time;
}

// A value lives from the time of the first step that names it, or a view of it, to the last.
static void find_lifetimes(PlanRunner *r)
{
    const Plan *p = r->plan;
    for (int i = 0; i < p->values.n + p->steps.n; i++) {
        r->life[i] = (MemoryItem){.first = 1, .last = 0, .alias = -1};
        if (i >= p->values.n) continue;
        const PlanValue *v = &p->values.at[i];
        if (v->kind == VALUE_TEMP) r->life[i].alias = v->base;
    }
    for (int s = 0; s < p->steps.n; s++) {
        const PlanStep *step = &p->steps.at[s];
        for (int k = 0; k < step->nvalue; k++) {
            int v = step->value[k];
            while (p->values.at[v].kind == VALUE_VIEW) v = p->values.at[v].base;
            extend_life(&r->life[v], r->time[s]);
        }
        extend_life(&r->life[p->values.n + s], r->time[s]);
    }
}

static heald_status check_constants(const PlanRunner *r, Error *e)
{
    for (int i = 0; i < r->plan->values.n; i++) {
        const heald_tensor *t = r->plan->values.at[i].constant;
        if (!t || tensor_usable_on(r->device, t)) continue;
        return error_set(e, HEALD_INVALID_ARGUMENT,
                         "value %d of the plan is a constant outside the memory of device %s", i,
                         r->device->ops->name);
    }
    return HEALD_OK;
}

// A value may take over the memory of another only when that one, and whoever had the memory before
// it, is done; and only one value may.
static heald_status check_aliases(PlanRunner *r, Error *e)
{
    const Plan *p = r->plan;
    for (int i = 0; i < p->values.n; i++) r->placed[i] = r->life[i];
    for (int i = 0; i < p->values.n; i++) {
        MemoryItem *m = &r->placed[i], *base = m->alias >= 0 ? &r->placed[m->alias] : NULL;
        m->size = 0; // the number of values that take over from this one
        if (!base) continue;
        bool used = m->first <= m->last;
        if (base->size++ > 0 || (used && m->first < base->last)) {
            return error_set(e, HEALD_FORMAT,
                             "value %d of the plan takes over the memory of value %d, which is "
                             "still in use",
                             i, m->alias);
        }
        if (m->last < base->last) m->last = base->last;
    }
    return HEALD_OK;
}

static void count_sizes(PlanRunner *r)
{
    const Plan *p = r->plan;
    for (int i = 0; i < p->values.n; i++) r->ndims += p->values.at[i].rank;
    for (int i = 0; i < p->steps.n; i++) {
        const RuntimeKernel *k = p->steps.at[i].kernel;
        if (!k) continue;
        r->nstep_dims += k->ndim;
        r->nwords += launch_nword(k);
        int nbuffer = k->nparam + k->nworkspace;
        if (nbuffer > r->nbuffer) r->nbuffer = nbuffer;
    }
}

static bool has_elements(const Plan *p, int input)
{
    for (int i = 0; i < p->dims.n; i++) {
        PlanDim d = p->dims.at[i];
        if (d.input == input && d.axis >= p->values.at[p->inputs.at[input]].rank) return true;
    }
    return false;
}

// Each input that has dimensions among its elements has room for all it may have.
static void find_elements(PlanRunner *r, int *elements_at)
{
    r->nelement = 0;
    for (int i = 0; i < r->plan->inputs.n; i++) {
        bool any = has_elements(r->plan, i);
        if (elements_at) elements_at[i] = any ? r->nelement : -1;
        if (any) r->nelement += HEALD_MAX_RANK + PLAN_MAX_ELEMENTS;
    }
}

static void find_places(PlanRunner *r)
{
    const Plan *p = r->plan;
    int dims = 0, step_dims = 0, words = 0;
    for (int i = 0; i < p->values.n; i++) {
        r->dims_at[i] = dims;
        dims += p->values.at[i].rank;
    }
    for (int i = 0; i < p->steps.n; i++) {
        const RuntimeKernel *k = p->steps.at[i].kernel;
        r->step_dims_at[i] = step_dims;
        r->words_at[i] = words;
        step_dims += k ? k->ndim : 0;
        words += k ? launch_nword(k) : 0;
    }
}

heald_status plan_runner_create(const Plan *p, Device *d, const RunOptions *o, PlanRunner **out,
                                Error *e)
{
    *out = NULL;
    heald_status s = plan_verify(p, e);
    if (s) return s;
    PlanRunner size = {.plan = p, .device = d};
    if (o) size.options = *o;
    size.profile_user = size.options.user;
    if (size.options.max_instances <= 0) size.options.max_instances = DEFAULT_INSTANCES;
    count_sizes(&size);
    find_elements(&size, NULL);
    size_t bytes = sizeof size + lay_out_runner(&size, 0);
    PlanRunner *r = memory_alloc_zeroed(bytes);
    if (!r) return error_no_memory(e, (int64_t)bytes, "a plan");
    *r = size;
    lay_out_runner(r, (uintptr_t)(r + 1));
    find_places(r);
    find_elements(r, r->elements_at);
    plan_order(r);
    find_lifetimes(r);
    s = check_constants(r, e);
    if (!s) s = check_aliases(r, e);
    if (s) {
        memory_free(r);
        return s;
    }
    *out = r;
    return HEALD_OK;
}

void plan_runner_destroy(PlanRunner *r)
{
    if (!r) return;
    for (int i = 0; i < r->ninstance; i++) {
        plan_graph_drop(r->instance[i]);
        memory_free(r->instance[i]);
    }
    r->device->ops->free(r->device, r->memory);
    memory_free(r);
}

heald_status runner_reserve(PlanRunner *r, int64_t bytes, Error *e)
{
    if (bytes <= r->memory_bytes) return HEALD_OK;
    r->device->ops->free(r->device, r->memory);
    r->memory = NULL;
    r->memory_bytes = 0;
    heald_status s = r->device->ops->allocate(r->device, bytes, &r->memory, e);
    if (!s) r->memory_bytes = bytes;
    return s ? error_prefix(e, s, "memory for temporary values") : s;
}

// What a message calls a value.
static const char *label(const Plan *p, int value, char *text, size_t size)
{
    const char *name = p->values.at[value].name;
    snprintf(text, size, name ? "value %d (%s)" : "value %d", value, name);
    return text;
}

static heald_status eval_all(const ShapeExpr *e, int n, const int64_t *dims, int64_t *out,
                             Error *err)
{
    for (int i = 0; i < n; i++) {
        heald_status s = shape_eval(e[i], dims, &out[i], err);
        if (s) return s;
    }
    return HEALD_OK;
}

// Sets r->key and checks that the inputs agree with it.
static heald_status bind_inputs(PlanRunner *r, const int64_t *const *input_dims, Error *e)
{
    const Plan *p = r->plan;
    for (int i = 0; i < p->dims.n; i++) {
        r->key[i] = input_dims[p->dims.at[i].input][p->dims.at[i].axis];
    }
    for (int i = 0; i < p->inputs.n; i++) {
        const PlanValue *v = &p->values.at[p->inputs.at[i]];
        int64_t want[HEALD_MAX_RANK];
        char name[160], have_text[160], want_text[160];
        heald_status s = eval_all(v->dims, v->rank, r->key, want, e);
        if (s) return error_prefix(e, s, "%s", label(p, p->inputs.at[i], name, sizeof name));
        if (!v->rank || !memcmp(want, input_dims[i], (size_t)v->rank * sizeof *want)) continue;
        return error_set(
            e, HEALD_INVALID_ARGUMENT, "input %d (%s) has shape %s instead of %s", i,
            v->name ? v->name : "unnamed",
            shape_format(have_text, sizeof have_text, v->dtype, v->rank, input_dims[i]),
            shape_format(want_text, sizeof want_text, v->dtype, v->rank, want));
    }
    return HEALD_OK;
}

// offset in bytes, checked to stay inside the base.
static heald_status place_view(PlanInstance *in, int i, Error *e)
{
    const PlanValue *v = &in->runner->plan->values.at[i];
    int64_t offset;
    heald_status s = shape_eval(v->offset, in->key, &offset, e);
    if (s) return s;
    int64_t base = in->bytes[v->base];
    if (!mul_i64(offset, (int64_t)dtype_size(v->dtype), &in->offset[i]) || in->offset[i] < 0 ||
        in->offset[i] > base || in->bytes[i] > base - in->offset[i]) {
        return error_set(e, HEALD_INVALID_ARGUMENT,
                         "%" PRId64 " bytes from element %" PRId64 " on are outside the %" PRId64
                         " bytes that it views",
                         in->bytes[i], offset, base);
    }
    return HEALD_OK;
}

static heald_status size_values(PlanInstance *in, Error *e)
{
    const Plan *p = in->runner->plan;
    for (int i = 0; i < p->values.n; i++) {
        const PlanValue *v = &p->values.at[i];
        int64_t nelem, *dims = instance_dims(in, i);
        heald_status s = eval_all(v->dims, v->rank, in->key, dims, e);
        if (!s) s = shape_measure(v->dtype, v->rank, dims, &nelem, &in->bytes[i], e);
        if (!s && v->kind == VALUE_VIEW) s = place_view(in, i, e);
        if (!s && v->kind == VALUE_CONST && in->bytes[i] != v->constant->bytes) {
            s = error_set(e, HEALD_FORMAT, "the size is not that of its tensor");
        }
        char name[160];
        if (s) return error_prefix(e, s, "%s", label(p, i, name, sizeof name));
    }
    return HEALD_OK;
}

static heald_status prepare_LAUNCH(PlanInstance *in, int step, Error *e)
{
    const PlanRunner *r = in->runner;
    const PlanStep *st = &r->plan->steps.at[step];
    int64_t *dims = in->step_dims + r->step_dims_at[step];
    heald_status s = eval_all(st->dims, st->kernel->ndim, in->key, dims, e);
    if (!s) s = launch_shape(st->kernel, dims, in->words + r->words_at[step], &in->launch[step], e);
    int64_t bytes = 0;
    for (int i = 0; i < st->nvalue && bytes < SMALL_BYTES; i++) bytes += in->bytes[st->value[i]];
    in->launch[step].small = bytes < SMALL_BYTES;
    return s;
}

static heald_status prepare_COPY(PlanInstance *in, int step, Error *e)
{
    const int *value = in->runner->plan->steps.at[step].value;
    int64_t from = in->bytes[value[0]], to = in->bytes[value[1]];
    if (from == to) return HEALD_OK;
    return error_set(e, HEALD_INVALID_ARGUMENT,
                     "%" PRId64 " bytes cannot be copied to a value of %" PRId64, from, to);
}

static heald_status (*const prepare_step[STEP_KIND_COUNT])(PlanInstance *, int, Error *) = {
#define STEP(ID, name) prepare_##ID,
#include "runtime/plan_steps.def"
#undef STEP
};

// Whether everything in r->item fits where the latest plan has put it.
static bool fits_placed(const PlanRunner *r, int n)
{
    for (int i = 0; i < n; i++) {
        if (r->item[i].size > r->placed[i].size) return false;
    }
    return r->nplan > 0;
}

// A runner's first plan is exact. In its next ones, what has outgrown its place gets an eighth more
// than it needs, so that a dimension that grows by one each run, such as the length of a text,
// seldom needs a new plan. A plan serves all shapes that fit.
static heald_status plan_memory(PlanRunner *r, Error *e)
{
    int n = r->plan->values.n + r->plan->steps.n;
    if (fits_placed(r, n)) return HEALD_OK;
    for (int i = 0; i < n && r->nplan; i++) {
        int64_t *size = &r->item[i].size;
        if (*size > r->placed[i].size && *size < INT64_MAX / 2) {
            *size = memory_round_up(*size + *size / 8);
        }
    }
    int64_t bytes;
    heald_status s = memory_plan(r->item, n, &bytes, e);
    if (s) return s;
    memcpy(r->placed, r->item, (size_t)n * sizeof *r->item);
    r->placed_bytes = bytes;
    r->nplan++;
    return HEALD_OK;
}

// Steps may run beside each other only as far as their memory allows it: where there is little,
// each value keeps its own for some levels more. On an H200, four Inception blocks take 97 us for
// 116 us.
static void keep_longer(const PlanRunner *r)
{
    enum { LEVELS = 4 };
    static const int64_t little_bytes = (int64_t)256 << 20;
    int n = r->plan->values.n + r->plan->steps.n;
    int64_t sum = 0;
    for (int i = 0; i < n; i++)
        if (!add_i64(sum, r->item[i].size, &sum)) return;
    if (!r->device->graphs || sum > little_bytes) return;
    for (int i = 0; i < n; i++)
        if (r->item[i].first <= r->item[i].last) r->item[i].last += LEVELS;
}

static heald_status place_memory(PlanInstance *in, Error *e)
{
    PlanRunner *r = in->runner;
    int nvalue = r->plan->values.n, nstep = r->plan->steps.n;
    for (int i = 0; i < nvalue + nstep; i++) {
        r->item[i] = r->life[i];
        if (i >= nvalue) {
            r->item[i].size = in->launch[i - nvalue].workspace_bytes;
        } else if (r->plan->values.at[i].kind == VALUE_TEMP) {
            r->item[i].size = in->bytes[i];
        }
    }
    keep_longer(r);
    heald_status s = plan_memory(r, e);
    if (s) return s;
    in->memory_bytes = r->placed_bytes;
    for (int i = 0; i < nvalue; i++) {
        if (r->plan->values.at[i].kind == VALUE_TEMP) in->offset[i] = r->placed[i].offset;
    }
    for (int i = 0; i < nstep; i++) in->workspace[i] = r->placed[nvalue + i].offset;
    return HEALD_OK;
}

// "; batch is 3 (axis 0 of input 'x'), ..." to what *e says.
static heald_status name_dimensions(const PlanInstance *in, heald_status s, Error *e)
{
    const Plan *p = in->runner->plan;
    if (!e || s != HEALD_CHECK_FAILED) return s;
    char text[sizeof e->text];
    int n = snprintf(text, sizeof text, "%s", e->text);
    for (int i = 0; i < p->dims.n && n < (int)sizeof text; i++) {
        PlanDim d = p->dims.at[i];
        const char *input = p->values.at[p->inputs.at[d.input]].name;
        n += snprintf(text + n, sizeof text - (size_t)n, "%s%s is %" PRId64, i ? ", " : "; ",
                      d.name ? d.name : "the extent", in->key[i]);
        int rank = p->values.at[p->inputs.at[d.input]].rank;
        if (n < (int)sizeof text)
            n += snprintf(text + n, sizeof text - (size_t)n, " (%s %d of input '%s')",
                          d.axis < rank ? "axis" : "element",
                          d.axis < rank ? d.axis : d.axis - rank, input ? input : "?");
    }
    return error_set(e, s, "%s", text);
}

static heald_status check_requirements(const PlanInstance *in, Error *e)
{
    const Plan *p = in->runner->plan;
    for (int i = 0; i < p->requirements.n; i++) {
        int64_t holds = 0;
        heald_status s = shape_eval(p->requirements.at[i].cond, in->key, &holds, e);
        if (!s && holds) continue;
        return error_set(e, HEALD_CHECK_FAILED, "%s", p->requirements.at[i].message);
    }
    return HEALD_OK;
}

static heald_status fill_instance(PlanInstance *in, Error *e)
{
    PlanRunner *r = in->runner;
    memcpy(in->key, r->key, (size_t)r->plan->dims.n * sizeof *in->key);
    heald_status s = check_requirements(in, e);
    if (!s) s = size_values(in, e);
    for (int i = 0; i < r->plan->steps.n && !s; i++) {
        const PlanStep *st = &r->plan->steps.at[i];
        s = prepare_step[st->kind](in, i, e);
        if (s) error_prefix(e, s, "step %d (%s)", i, st->name);
    }
    if (!s) return place_memory(in, e);
    return r->plan->dims.n ? name_dimensions(in, s, e) : s;
}

// Memory for a new instance: the least recently used one's once there are enough.
static PlanInstance *take_block(PlanRunner *r, size_t bytes)
{
    if (r->ninstance < r->options.max_instances) return memory_alloc(bytes);
    int oldest = 0;
    for (int i = 1; i < r->ninstance; i++) {
        if (r->instance[i]->used < r->instance[oldest]->used) oldest = i;
    }
    PlanInstance *in = r->instance[oldest];
    plan_graph_drop(in);
    r->instance[oldest] = r->instance[--r->ninstance];
    return in;
}

static heald_status make_instance(PlanRunner *r, PlanInstance **out, Error *e)
{
    PlanInstance size;
    size_t bytes = sizeof size + lay_out_instance(r, &size, 0);
    PlanInstance *in = take_block(r, bytes);
    if (!in) return error_no_memory(e, (int64_t)bytes, "a plan for one set of shapes");
    memset(in, 0, bytes);
    lay_out_instance(r, in, (uintptr_t)(in + 1));
    in->runner = r;
    heald_status s = fill_instance(in, e);
    if (s) {
        memory_free(in);
        return s;
    }
    r->instance[r->ninstance++] = in;
    *out = in;
    return HEALD_OK;
}

static PlanInstance *find_instance(const PlanRunner *r)
{
    size_t bytes = (size_t)r->plan->dims.n * sizeof *r->key;
    for (int i = 0; i < r->ninstance; i++) {
        if (!bytes || !memcmp(r->instance[i]->key, r->key, bytes)) return r->instance[i];
    }
    return NULL;
}

heald_status plan_prepare(PlanRunner *r, const int64_t *const *input_dims, PlanInstance **out,
                          Error *e)
{
    *out = NULL;
    heald_status s = bind_inputs(r, input_dims, e);
    if (s) return s;
    PlanInstance *in = find_instance(r);
    if (!in) {
        s = make_instance(r, &in, e);
        if (s) return s;
    }
    in->used = ++r->clock;
    s = runner_reserve(r, in->memory_bytes, e);
    if (!s) *out = in;
    return s;
}

const Plan *plan_runner_plan(const PlanRunner *r)
{
    return r->plan;
}

const int64_t *plan_instance_dims(const PlanInstance *in, int value)
{
    return instance_dims(in, value);
}

int64_t plan_instance_bytes(const PlanInstance *in)
{
    return in->memory_bytes;
}

int64_t plan_runner_bytes(const PlanRunner *r)
{
    return r->memory_bytes;
}
