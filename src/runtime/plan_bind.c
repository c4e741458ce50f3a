// SPDX-License-Identifier: Apache-2.0
// From tensors to the dimensions of a plan: extents, and elements of inputs of integers.
#include "runtime/plan_instance.h"

#include <string.h>

// The extents and elements of input i.
static heald_status read_elements(PlanRunner *r, int i, heald_tensor *t, Error *e)
{
    int64_t *out = r->elements + r->elements_at[i];
    if (t->nelem > PLAN_MAX_ELEMENTS)
        return error_set(e, HEALD_INVALID_ARGUMENT,
                         "input %d has %lld elements, at most %d can be "
                         "dimensions",
                         i, (long long)t->nelem, PLAN_MAX_ELEMENTS);
    heald_tensor *host;
    heald_status s = tensor_to_host(t, &host, e);
    if (s) return s;
    memcpy(out, t->dims, (size_t)t->rank * sizeof *out);
    memset(out + t->rank, 0, PLAN_MAX_ELEMENTS * sizeof *out);
    for (int64_t k = 0; k < t->nelem; k++)
        out[t->rank + k] =
            dtype_load_i64(t->dtype, (const char *)host->data + (size_t)k * dtype_size(t->dtype));
    heald_tensor_release(host);
    return HEALD_OK;
}

heald_status plan_prepare_tensors(PlanRunner *r, heald_tensor *const *inputs, PlanInstance **out,
                                  Error *e)
{
    const Plan *p = r->plan;
    *out = NULL;
    for (int i = 0; i < p->inputs.n; i++) {
        const PlanValue *v = &p->values.at[p->inputs.at[i]];
        if (!inputs[i] || inputs[i]->rank != v->rank) {
            return error_set(e, HEALD_INVALID_ARGUMENT, "input %d (%s) does not have rank %d", i,
                             v->name ? v->name : "unnamed", v->rank);
        }
        r->input_dims[i] = inputs[i]->dims;
        if (r->elements_at[i] < 0) continue;
        heald_status s = read_elements(r, i, inputs[i], e);
        if (s) return s;
        r->input_dims[i] = r->elements + r->elements_at[i];
    }
    return plan_prepare(r, r->input_dims, out, e);
}

const PlanInstance *plan_runner_last(const PlanRunner *r)
{
    const PlanInstance *last = NULL;
    for (int i = 0; i < r->ninstance; i++)
        if (!last || r->instance[i]->used > last->used) last = r->instance[i];
    return last;
}

bool plan_takes(PlanRunner *r, heald_tensor *const *inputs)
{
    PlanInstance *in;
    return plan_prepare_tensors(r, inputs, &in, NULL) == HEALD_OK;
}
