// SPDX-License-Identifier: Apache-2.0
// Running a plan with tensors of the host on a device that has memory of its own: inputs are copied
// there, results back.
#include "runtime/plan_instance.h"

#include "runtime/memory.h"

static heald_status to_device(Device *d, heald_tensor *t, heald_tensor **out, Error *e)
{
    heald_status s = tensor_create_on(d, t->dtype, t->rank, t->dims, out, e);
    return s ? s : d->ops->copy(d, COPY_HOST_TO_DEVICE, (*out)->data, t->data, t->bytes, e);
}

static heald_status to_host(Device *d, heald_tensor *t, heald_tensor **out, Error *e)
{
    bool made = !*out;
    heald_status s = made ? tensor_create(t->dtype, t->rank, t->dims, out, e) : HEALD_OK;
    if (!s && ((*out)->bytes != t->bytes || (*out)->dtype != t->dtype))
        s = error_set(e, HEALD_INVALID_ARGUMENT,
                      "an output has not the type and extents of the result");
    if (!s) s = d->ops->copy(d, COPY_DEVICE_TO_HOST, (*out)->data, t->data, t->bytes, e);
    if (s && made && *out) {
        heald_tensor_release(*out);
        *out = NULL;
    }
    return s;
}

static bool is_hosts(const heald_tensor *t)
{
    return t && !t->device;
}

static heald_status run_staged(PlanRunner *r, int nin, heald_tensor *const *inputs, int nout,
                               heald_tensor **outputs, heald_tensor **staged, Error *e)
{
    heald_tensor **in = staged, **out = staged + nin;
    heald_status s = HEALD_OK;
    for (int i = 0; i < nin && !s; i++) {
        if (is_hosts(inputs[i])) s = to_device(r->device, inputs[i], &in[i], e);
        else in[i] = inputs[i] ? heald_tensor_retain(inputs[i]) : NULL;
    }
    for (int i = 0; i < nout; i++)
        out[i] = outputs[i] && !is_hosts(outputs[i]) ? heald_tensor_retain(outputs[i]) : NULL;
    if (!s) s = plan_run_tensors(r, in, out, e);
    for (int i = 0; i < nout && !s; i++)
        if (!outputs[i] || is_hosts(outputs[i])) s = to_host(r->device, out[i], &outputs[i], e);
    return s;
}

heald_status plan_run_host(PlanRunner *r, heald_tensor *const *inputs, heald_tensor **outputs,
                           Error *e)
{
    if (r->device->ops->host_memory) return plan_run_tensors(r, inputs, outputs, e);
    int nin = r->plan->inputs.n, nout = r->plan->outputs.n;
    size_t bytes = (size_t)(nin + nout) * sizeof(heald_tensor *);
    heald_tensor **staged = memory_alloc_zeroed(bytes);
    if (!staged) return error_no_memory(e, (int64_t)bytes, "the tensors of a run");
    heald_status s = run_staged(r, nin, inputs, nout, outputs, staged, e);
    for (int i = 0; i < nin + nout; i++) heald_tensor_release(staged[i]);
    memory_free(staged);
    return s;
}
