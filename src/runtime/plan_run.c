// SPDX-License-Identifier: Apache-2.0
// Running an instance: addresses for all values, then the steps in order. Nothing is evaluated or
// allocated here but the outputs that the caller left to us.
#include "runtime/plan_instance.h"

#include "base/util.h"

#include <string.h>

// t as value `v` of the instance.
static heald_status check_tensor(const PlanInstance *in, int v, const heald_tensor *t,
                                 const char *what, int i, Error *e)
{
    const PlanValue *value = &in->runner->plan->values.at[v];
    const char *name = value->name ? value->name : "unnamed";
    if (!t) return error_set(e, HEALD_INVALID_ARGUMENT, "%s %d (%s) is missing", what, i, name);
    const int64_t *dims = instance_dims(in, v);
    if (t->dtype != value->dtype || t->rank != value->rank ||
        (t->rank && memcmp(t->dims, dims, (size_t)t->rank * sizeof *dims))) {
        char have[160], want[160];
        return error_set(e, HEALD_INVALID_ARGUMENT, "%s %d (%s) is %s instead of %s", what, i, name,
                         shape_format(have, sizeof have, t->dtype, t->rank, t->dims),
                         shape_format(want, sizeof want, value->dtype, value->rank, dims));
    }
    const Device *d = in->runner->device;
    if (tensor_usable_on(d, t)) return HEALD_OK;
    return error_set(e, HEALD_INVALID_ARGUMENT, "%s %d (%s) is not %sin memory of device %s", what,
                     i, name, t->device == d ? "aligned " : "", d->ops->name);
}

static bool overlap(const heald_tensor *a, const heald_tensor *b)
{
    const char *x = a->data, *y = b->data;
    return a->bytes && b->bytes && x < y + b->bytes && y < x + a->bytes;
}

static heald_status check_overlap(const Plan *p, heald_tensor *const *inputs,
                                  heald_tensor *const *outputs, Error *e)
{
    for (int i = 0; i < p->outputs.n; i++) {
        for (int k = 0; k < p->inputs.n; k++) {
            if (!overlap(outputs[i], inputs[k])) continue;
            return error_set(e, HEALD_INVALID_ARGUMENT, "output %d shares memory with input %d", i,
                             k);
        }
        for (int k = 0; k < i; k++) {
            if (!overlap(outputs[i], outputs[k])) continue;
            return error_set(e, HEALD_INVALID_ARGUMENT, "outputs %d and %d share memory", k, i);
        }
    }
    return HEALD_OK;
}

static heald_status make_outputs(const PlanInstance *in, heald_tensor **outputs, Error *e)
{
    const PlanRunner *r = in->runner;
    for (int i = 0; i < r->plan->outputs.n; i++) {
        int v = r->plan->outputs.at[i];
        heald_status s;
        if (outputs[i]) {
            s = check_tensor(in, v, outputs[i], "output", i, e);
        } else {
            const PlanValue *value = &r->plan->values.at[v];
            s = tensor_create_on(r->device, value->dtype, value->rank, instance_dims(in, v),
                                 &outputs[i], e);
            r->created[i] = !s;
        }
        if (s) return s;
    }
    return HEALD_OK;
}

static void find_addresses(const PlanInstance *in, heald_tensor *const *inputs,
                           heald_tensor *const *outputs)
{
    const PlanRunner *r = in->runner;
    const Plan *p = r->plan;
    for (int i = 0; i < p->inputs.n; i++) r->address[p->inputs.at[i]] = inputs[i]->data;
    for (int i = 0; i < p->outputs.n; i++) r->address[p->outputs.at[i]] = outputs[i]->data;
    for (int i = 0; i < p->values.n; i++) {
        const PlanValue *v = &p->values.at[i];
        if (v->kind == VALUE_CONST) r->address[i] = v->constant->data;
        if (v->kind == VALUE_TEMP) {
            r->address[i] = r->memory ? (char *)r->memory + in->offset[i] : NULL;
        }
        if (v->kind == VALUE_VIEW) {
            // Without elements, the base may have no memory.
            char *base = r->address[v->base];
            r->address[i] = base ? base + in->offset[i] : NULL;
        }
    }
}

static heald_status run_LAUNCH(const PlanInstance *in, int step, Error *e)
{
    const PlanRunner *r = in->runner;
    const PlanStep *st = &r->plan->steps.at[step];
    const RuntimeKernel *k = st->kernel;
    const LaunchShape *l = &in->launch[step];
    if (l->empty) return HEALD_OK;
    for (int i = 0; i < k->nparam; i++) r->buffers[i] = r->address[st->value[i]];
    for (int i = 0; i < k->nworkspace; i++) {
        int64_t offset = in->workspace[step] + l->workspace_offset[i];
        r->buffers[k->nparam + i] = r->memory ? (char *)r->memory + offset : NULL;
    }
    return launch_run(r->device, k, l, r->buffers, in->step_dims + r->step_dims_at[step], e);
}

static heald_status run_COPY(const PlanInstance *in, int step, Error *e)
{
    const PlanRunner *r = in->runner;
    const int *value = r->plan->steps.at[step].value;
    int64_t bytes = in->bytes[value[0]];
    if (bytes == 0) return HEALD_OK;
    return r->device->ops->copy(r->device, COPY_DEVICE_TO_DEVICE, r->address[value[1]],
                                r->address[value[0]], bytes, e);
}

static heald_status (*const run_step[STEP_KIND_COUNT])(const PlanInstance *, int, Error *) = {
#define STEP(ID, name) run_##ID,
#include "runtime/plan_steps.def"
#undef STEP
};

heald_status plan_run_step(const PlanInstance *in, int step, Error *e)
{
    return run_step[in->runner->plan->steps.at[step].kind](in, step, e);
}

static heald_status run_steps(PlanInstance *in, Error *e)
{
    const PlanRunner *r = in->runner;
    const RunOptions *o = &r->options;
    Device *d = r->device;
    bool recorded = plan_graph_prepare(in);
    for (int at = 0; at < r->plan->steps.n; at++) {
        int i = r->order[at];
        const PlanStep *st = &r->plan->steps.at[i];
        if (o->cancel && o->cancel(o->user)) {
            return error_set(e, HEALD_CANCELLED, "cancelled before step %d (%s)", i, st->name);
        }
        DeviceGraph *g = recorded ? plan_graph_at(in, &at) : NULL;
        heald_status s = g ? d->ops->graph_run(d, g, e) : plan_run_step(in, i, e);
        if (s) return error_prefix(e, s, "step %d (%s)", i, st->name);
    }
    return HEALD_OK;
}

heald_status plan_run(PlanInstance *in, heald_tensor *const *inputs, heald_tensor **outputs,
                      Error *e)
{
    PlanRunner *r = in->runner;
    const Plan *p = r->plan;
    for (int i = 0; i < p->inputs.n; i++) {
        heald_status s = check_tensor(in, p->inputs.at[i], inputs[i], "input", i, e);
        if (s) return s;
    }
    for (int i = 0; i < p->outputs.n; i++) r->created[i] = false;
    heald_status s = runner_reserve(r, in->memory_bytes, e);
    if (!s) s = make_outputs(in, outputs, e);
    if (!s) s = check_overlap(p, inputs, outputs, e);
    if (!s) {
        find_addresses(in, inputs, outputs);
        s = r->options.profile ? plan_run_profiled(in, e) : run_steps(in, e);
    }
    for (int i = 0; i < p->outputs.n && s; i++) {
        if (!r->created[i]) continue;
        heald_tensor_release(outputs[i]);
        outputs[i] = NULL;
    }
    return s;
}

heald_status plan_run_tensors(PlanRunner *r, heald_tensor *const *inputs, heald_tensor **outputs,
                              Error *e)
{
    PlanInstance *in;
    heald_status s = plan_prepare_tensors(r, inputs, &in, e);
    return s ? s : plan_run(in, inputs, outputs, e);
}
