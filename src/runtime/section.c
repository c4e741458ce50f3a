// SPDX-License-Identifier: Apache-2.0
// Which variant of a section serves some inputs, and running it.
#include "runtime/section.h"

#include "runtime/device.h"
#include "runtime/memory.h"

#include <string.h>

// ---- variants

static bool same_dims(const SectionVariant *v, int i, const heald_tensor *t)
{
    for (int k = 0; k < t->rank; k++)
        if (v->dims[i][k + 1] != t->dims[k]) return false;
    return true;
}

static bool same_elements(const void *want, heald_tensor *t)
{
    heald_tensor *host;
    if (tensor_to_host(t, &host, NULL)) return false;
    bool same = !memcmp(want, host->data, (size_t)host->bytes);
    heald_tensor_release(host);
    return same;
}

static bool is_for(const Section *s, SectionVariant *v, heald_tensor *const *inputs)
{
    for (int i = 0; i < s->ninput; i++) {
        const heald_tensor *t = inputs[i];
        if (v->dims[i][0] != t->rank) return false;
        if ((!v->open || v->fixed[i]) && !same_dims(v, i, t)) return false;
    }
    for (int i = 0; i < s->ninput; i++)
        if (v->fixed[i] && !same_elements(v->fixed[i], inputs[i])) return false;
    return !v->open || plan_takes(v->runner, inputs);
}

// The least recently used one makes room, once the device is done with it.
static void keep(Section *s, SectionVariant *v)
{
    int at = s->nvariant;
    if (at == SECTION_MAX_VARIANTS) {
        device_synchronise(s->device, NULL);
        at = 0;
        for (int i = 1; i < s->nvariant; i++)
            if (s->variant[i]->used < s->variant[at]->used) at = i;
        s->drop(s, s->variant[at]);
    } else {
        s->nvariant++;
    }
    s->variant[at] = v;
}

heald_status section_variant(Section *s, heald_tensor *const *inputs, SectionVariant **out,
                             Error *e)
{
    *out = NULL;
    for (int i = 0; i < s->nvariant && !*out; i++)
        if (is_for(s, s->variant[i], inputs)) *out = s->variant[i];
    if (!*out) {
        if (!s->make)
            return error_set(e, HEALD_UNSUPPORTED, "nothing is compiled for these inputs");
        heald_status status = s->make(s, inputs, out, e);
        if (status) return status;
        keep(s, *out);
    }
    (*out)->used = ++s->clock;
    return HEALD_OK;
}

void section_free(Section *s)
{
    if (s->nvariant) device_synchronise(s->device, NULL);
    for (int i = 0; i < s->nvariant; i++) s->drop(s, s->variant[i]);
    s->nvariant = 0;
}

// ---- running

static heald_status run_slots(const Section *s, const SectionVariant *v, heald_tensor **slot,
                              SectionRun *run, Error *e)
{
    heald_status status = plan_run_tensors(v->runner, slot, slot + s->ninput, e);
    for (int i = 0; i < v->nstep && !status; i++) {
        status = section_step(s, &v->step[i], slot, run, e);
        if (status && v->step[i].kind != SECTION_CALL)
            error_prefix(e, status, "'%s'", v->step[i].name);
    }
    return status;
}

static heald_status run_inside(Section *s, heald_tensor *const *inputs, heald_tensor **outputs,
                               SectionRun *run, Error *e)
{
    SectionVariant *v;
    heald_status status = section_variant(s, inputs, &v, e);
    if (status) return status;
    if (!v->nstep) return plan_run_tensors(v->runner, inputs, outputs, e);
    size_t bytes = (size_t)v->nslot * sizeof(heald_tensor *);
    heald_tensor **slot = memory_alloc_zeroed(bytes);
    if (!slot) return error_no_memory(e, (int64_t)bytes, "the tensors of a run");
    for (int i = 0; i < s->ninput; i++) slot[i] = heald_tensor_retain(inputs[i]);
    status = run_slots(s, v, slot, run, e);
    for (int i = 0; i < s->noutput && !status; i++)
        outputs[i] = heald_tensor_retain(slot[v->output[i]]);
    for (int i = 0; i < v->nslot; i++) heald_tensor_release(slot[i]);
    memory_free(slot);
    return status;
}

heald_status section_run(Section *s, heald_tensor *const *inputs, heald_tensor **outputs,
                         SectionRun *run, Error *e)
{
    if (run->depth > SECTION_MAX_DEPTH)
        return error_set(e, HEALD_UNSUPPORTED,
                         "more than %d parts of the model, each of which only the run before it "
                         "decides",
                         SECTION_MAX_DEPTH);
    run->depth++;
    heald_status status = run_inside(s, inputs, outputs, run, e);
    run->depth--;
    return status;
}

static heald_status give(heald_tensor *t, heald_tensor **out, Error *e)
{
    if (!*out) return tensor_to_host(t, out, e);
    if ((*out)->rank != t->rank ||
        (t->rank && memcmp((*out)->dims, t->dims, (size_t)t->rank * sizeof *t->dims))) {
        char have[160], want[160];
        return error_set(e, HEALD_INVALID_ARGUMENT, "an output is %s instead of %s",
                         shape_format(have, sizeof have, (*out)->dtype, (*out)->rank, (*out)->dims),
                         shape_format(want, sizeof want, t->dtype, t->rank, t->dims));
    }
    return tensor_copy(t, *out, e);
}

static heald_status run_staged(Section *s, heald_tensor *const *inputs, heald_tensor **outputs,
                               heald_tensor **staged, Error *e)
{
    heald_tensor **in = staged, **out = staged + s->ninput;
    SectionRun run = {0};
    heald_status status = HEALD_OK;
    for (int i = 0; i < s->ninput && !status; i++)
        status = tensor_to_device(s->device, inputs[i], &in[i], e);
    if (!status) status = section_run(s, in, out, &run, e);
    for (int i = 0; i < s->noutput && !status; i++) status = give(out[i], &outputs[i], e);
    return status;
}

heald_status section_run_host(Section *s, heald_tensor *const *inputs, heald_tensor **outputs,
                              Error *e)
{
    SectionVariant *v;
    heald_status status = section_variant(s, inputs, &v, e);
    if (status) return status;
    if (!v->nstep) return plan_run_host(v->runner, inputs, outputs, e);
    size_t n = (size_t)(s->ninput + 2 * s->noutput), bytes = n * sizeof(heald_tensor *);
    heald_tensor **staged = memory_alloc_zeroed(bytes);
    if (!staged) return error_no_memory(e, (int64_t)bytes, "the tensors of a run");
    heald_tensor **result = staged + s->ninput + s->noutput;
    for (int i = 0; i < s->noutput; i++) result[i] = outputs[i];
    status = run_staged(s, inputs, result, staged, e);
    for (int i = 0; i < s->noutput; i++) {
        if (!status) outputs[i] = result[i];
        else if (result[i] != outputs[i]) heald_tensor_release(result[i]);
    }
    for (int i = 0; i < s->ninput + s->noutput; i++) heald_tensor_release(staged[i]);
    memory_free(staged);
    return status;
}
