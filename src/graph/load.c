// SPDX-License-Identifier: Apache-2.0
// A compiled model onto a device with memory of its own. What the plan computes from constants
// alone, such as a weight's transpose, is computed here and becomes a constant too.
#include "graph/private.h"

#include "runtime/launch.h"
#include "runtime/tensor.h"

typedef struct Load {
    CompiledModel *model;
    Plan *plan;
    Device *device;
} Load;

static const PlanValue *value_at(const Load *l, int v)
{
    return &l->plan->values.at[v];
}

static heald_status upload(Load *l, PlanValue *v, Error *e)
{
    const heald_tensor *host = v->constant;
    heald_tensor *t;
    heald_status s = tensor_create_on(l->device, host->dtype, host->rank, host->dims, &t, e);
    if (s) return error_prefix(e, s, "constant '%s'", v->name ? v->name : "");
    VEC_PUSH(l->model->arena, &l->model->constants, t);
    s = l->device->ops->copy(l->device, COPY_HOST_TO_DEVICE, t->data, host->data, host->bytes, e);
    if (!s) v->constant = t;
    return s;
}

// The address of a constant or of a view of one; NULL: of no constant.
static void *known_address(const Load *l, int v)
{
    int64_t offset = 0, elements;
    for (; value_at(l, v)->kind == VALUE_VIEW; v = value_at(l, v)->base) {
        if (shape_eval(value_at(l, v)->offset, NULL, &elements, NULL)) return NULL;
        offset += elements * (int64_t)dtype_size(value_at(l, v)->dtype);
    }
    const PlanValue *root = value_at(l, v);
    return root->kind == VALUE_CONST ? (char *)root->constant->data + offset : NULL;
}

static const Kernel *kernel_of(const Load *l, const RuntimeKernel *k)
{
    for (int i = 0; i < l->model->kernels.n; i++)
        if (&l->model->kernels.at[i]->runtime == k) return l->model->kernels.at[i]->kernel;
    return NULL;
}

static bool depends_on_constants(const Load *l, const PlanStep *step)
{
    const Kernel *k = step->kind == STEP_LAUNCH ? kernel_of(l, step->kernel) : NULL;
    if (!k || step->kernel->ndim) return false;
    bool any = false;
    for (int i = 0; i < step->nvalue; i++) {
        bool output = k->params.at[i]->output;
        if (output && value_at(l, step->value[i])->kind != VALUE_TEMP) return false;
        if (!output && !known_address(l, step->value[i])) return false;
        any |= !output;
    }
    return any;
}

static heald_status make_constant(Load *l, PlanValue *v, Error *e)
{
    int64_t dims[GRAPH_MAX_RANK];
    heald_status s = HEALD_OK;
    for (int i = 0; i < v->rank && !s; i++) s = shape_eval(v->dims[i], NULL, &dims[i], e);
    if (!s) s = tensor_create_on(l->device, v->dtype, v->rank, dims, &v->constant, e);
    if (s) return s;
    VEC_PUSH(l->model->arena, &l->model->constants, v->constant);
    v->kind = VALUE_CONST;
    v->base = -1;
    return HEALD_OK;
}

static heald_status run_now(Load *l, const PlanStep *step, Error *e)
{
    const Kernel *k = kernel_of(l, step->kernel);
    void **params = NEW_ARRAY(l->model->arena, void *, step->nvalue);
    heald_status s = HEALD_OK;
    for (int i = 0; i < step->nvalue && !s; i++) {
        if (k->params.at[i]->output) s = make_constant(l, &l->plan->values.at[step->value[i]], e);
        if (!s) params[i] = known_address(l, step->value[i]);
    }
    return s ? s : launch_kernel(l->device, step->kernel, params, NULL, e);
}

static heald_status run_constant_steps(Load *l, Error *e)
{
    int kept = 0;
    heald_status s = HEALD_OK;
    for (int i = 0; i < l->plan->steps.n; i++) {
        PlanStep *step = &l->plan->steps.at[i];
        bool now = !s && depends_on_constants(l, step);
        if (now) s = run_now(l, step, e);
        else l->plan->steps.at[kept++] = *step;
    }
    l->plan->steps.n = kept;
    return s ? s : device_synchronise(l->device, e);
}

heald_status model_load(CompiledModel *m, Device *d, Error *e)
{
    if (d->ops->host_memory) return HEALD_OK;
    Load l = {.model = m, .plan = m->plan, .device = d};
    heald_status s = HEALD_OK;
    for (int i = 0; i < m->kernels.n && !s; i++)
        s = kernel_load_on(m->arena, m->kernels.at[i], d, e);
    for (int i = 0; i < m->plan->values.n && !s; i++) {
        PlanValue *v = &m->plan->values.at[i];
        if (v->kind == VALUE_CONST && !v->constant->device) s = upload(&l, v, e);
    }
    return s ? s : run_constant_steps(&l, e);
}
