// SPDX-License-Identifier: Apache-2.0
// Running a plan with tensors of the host, or with some that lie badly, on a device that has memory
// of its own: inputs are copied there, results back.
#include "runtime/plan_instance.h"

#include "runtime/memory.h"

static bool is_usable(const PlanRunner *r, const heald_tensor *t)
{
    return t && tensor_usable_on(r->device, t);
}

static heald_status run_staged(PlanRunner *r, int nin, heald_tensor *const *inputs, int nout,
                               heald_tensor **outputs, heald_tensor **staged, Error *e)
{
    heald_tensor **in = staged, **out = staged + nin;
    heald_status s = HEALD_OK;
    for (int i = 0; i < nin && !s; i++) {
        // What is missing is for plan_run_tensors to complain of.
        if (inputs[i]) s = tensor_to_device(r->device, inputs[i], &in[i], e);
    }
    for (int i = 0; i < nout; i++)
        out[i] = is_usable(r, outputs[i]) ? heald_tensor_retain(outputs[i]) : NULL;
    if (!s) s = plan_run_tensors(r, in, out, e);
    for (int i = 0; i < nout && !s; i++) {
        heald_tensor *made = NULL;
        if (is_usable(r, outputs[i])) continue;
        s = outputs[i] ? tensor_copy(out[i], outputs[i], e) : tensor_to_host(out[i], &made, e);
        heald_tensor_release(out[i]);
        out[i] = made;
    }
    for (int i = 0; i < nout && !s; i++) {
        if (outputs[i]) continue;
        outputs[i] = out[i];
        out[i] = NULL;
    }
    return s;
}

heald_status plan_run_host(PlanRunner *r, heald_tensor *const *inputs, heald_tensor **outputs,
                           Error *e)
{
    int nin = r->plan->inputs.n, nout = r->plan->outputs.n;
    bool staged = false;
    for (int i = 0; i < nin; i++) staged |= !is_usable(r, inputs[i]);
    for (int i = 0; i < nout; i++) staged |= !is_usable(r, outputs[i]);
    if (!staged || r->device->ops->host_memory) return plan_run_tensors(r, inputs, outputs, e);
    size_t bytes = (size_t)(nin + nout) * sizeof(heald_tensor *);
    heald_tensor **own = memory_alloc_zeroed(bytes);
    if (!own) return error_no_memory(e, (int64_t)bytes, "the tensors of a run");
    heald_status s = run_staged(r, nin, inputs, nout, outputs, own, e);
    for (int i = 0; i < nin + nout; i++) heald_tensor_release(own[i]);
    memory_free(own);
    return s;
}
