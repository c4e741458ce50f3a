// SPDX-License-Identifier: Apache-2.0
// A step goes by the name of its group's anchor; the group's nodes are found by their names in the
// graph whose sizes are known. Launches of one group share its operations evenly.
#include "judge/model_work.h"

#include "runtime/plan.h"

#include <string.h>

static double node_flops(const Graph *g, const GraphNode *n, const Target *host)
{
    Arena scratch = {.nomem = g->arena->nomem};
    double flops = 0;
    if (n->op->class == OPCLASS_SERIAL || n->op->view) return 0;
    for (int i = 0; i < n->noutput; i++) {
        Diag quiet;
        diag_init(&quiet, &scratch, g->library->sources);
        if (!n->output[i]) continue;
        Kernel *k = node_kernel(g, n, i, &scratch, host, &quiet);
        if (k && k->dims.n == 0) flops += kernel_work(k, NULL).flops;
    }
    arena_free(&scratch);
    return flops;
}

static const GraphNode *node_named(const Graph *g, const char *name)
{
    for (int i = 0; i < g->nodes.n; i++)
        if (!strcmp(g->nodes.at[i]->name, name)) return g->nodes.at[i];
    return NULL;
}

static double nodes_flops(const Graph *known, const GraphNodes *list, const Target *host)
{
    double flops = 0;
    for (int i = 0; i < list->n; i++) {
        const GraphNode *n = node_named(known, list->at[i]->name);
        if (n) flops += node_flops(known, n, host);
    }
    return flops;
}

static double bytes_of(const PlanInstance *in, const Plan *p, int value)
{
    const PlanValue *v = &p->values.at[value];
    const int64_t *dims = plan_instance_dims(in, value);
    double bytes = (double)dtype_size(v->dtype);
    for (int i = 0; i < v->rank; i++) bytes *= (double)dims[i];
    return bytes;
}

static bool is_anchor(const Group *g, const PlanStep *s)
{
    return s->kind == STEP_LAUNCH && !strcmp(g->anchor->name, s->name);
}

StepWork *model_work(const CompiledModel *m, const Graph *known, const PlanInstance *in,
                     const Target *host, Arena *a)
{
    const Plan *p = m->plan;
    StepWork *out = NEW_ARRAY(a, StepWork, p->steps.n);
    for (int i = 0; i < p->steps.n; i++) {
        const PlanStep *s = &p->steps.at[i];
        for (int k = 0; k < s->nvalue; k++) out[i].work.bytes += bytes_of(in, p, s->value[k]);
        DType type = s->nvalue ? p->values.at[s->value[0]].dtype : DT_NONE;
        out[i].narrow = type == DT_F16 || type == DT_BF16;
    }
    for (int g = 0; g < m->groups.n; g++) {
        const Group *group = m->groups.at[g];
        int n = 0;
        for (int i = 0; i < p->steps.n; i++) n += is_anchor(group, &p->steps.at[i]);
        if (!n) continue; // computed from constants when the model was compiled
        const GraphNode *anchor = node_named(known, group->anchor->name);
        double flops = anchor ? node_flops(known, anchor, host) : 0;
        flops += nodes_flops(known, &group->prologue, host);
        flops += nodes_flops(known, &group->epilogue, host);
        for (int i = 0; i < p->steps.n; i++)
            if (is_anchor(group, &p->steps.at[i])) out[i].work.flops += flops / n;
    }
    return out;
}
