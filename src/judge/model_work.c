// SPDX-License-Identifier: Apache-2.0
// A step goes by the name of its group's anchor; the group's nodes are found by their names in the
// graph whose sizes are known. Launches of one group share its operations evenly.
#include "judge/model_work.h"

#include "runtime/plan.h"

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

// What goes by one name.
typedef struct Named {
    const GraphNode *node; // the first; NULL: none
    int nstep;
    double flops; // of groups whose anchor is called so
} Named;

typedef struct Names {
    Arena *arena;
    Interner *texts;
    Map map; // Named
} Names;

static Named *find_named(Names *n, const char *name)
{
    Sym key = intern(n->texts, name);
    Named *found = map_get(&n->map, key);
    if (found) return found;
    found = NEW(n->arena, Named);
    map_put(n->arena, &n->map, key, found);
    return found;
}

static double nodes_flops(Names *names, const Graph *known, const GraphNodes *list,
                          const Target *host)
{
    double flops = 0;
    for (int i = 0; i < list->n; i++) {
        const GraphNode *n = find_named(names, list->at[i]->name)->node;
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

StepWork *model_work(const CompiledModel *m, const Graph *known, const PlanInstance *in,
                     const Target *host, Arena *a)
{
    const Plan *p = m->plan;
    StepWork *out = NEW_ARRAY(a, StepWork, p->steps.n);
    Names names = {.arena = a, .texts = interner_new(a)};
    for (int i = known->nodes.n - 1; i >= 0; i--)
        find_named(&names, known->nodes.at[i]->name)->node = known->nodes.at[i];
    for (int i = 0; i < p->steps.n; i++) {
        const PlanStep *s = &p->steps.at[i];
        for (int k = 0; k < s->nvalue; k++) out[i].work.bytes += bytes_of(in, p, s->value[k]);
        DType type = s->nvalue ? p->values.at[s->value[0]].dtype : DT_NONE;
        out[i].narrow = type == DT_F16 || type == DT_BF16;
        if (s->kind == STEP_LAUNCH) find_named(&names, s->name)->nstep++;
    }
    for (int g = 0; g < m->groups.n; g++) {
        const Group *group = m->groups.at[g];
        Named *anchor = find_named(&names, group->anchor->name);
        if (!anchor->nstep) continue; // computed from constants when the model was compiled
        if (anchor->node) anchor->flops += node_flops(known, anchor->node, host);
        anchor->flops += nodes_flops(&names, known, &group->prologue, host);
        anchor->flops += nodes_flops(&names, known, &group->epilogue, host);
    }
    for (int i = 0; i < p->steps.n; i++) {
        if (p->steps.at[i].kind != STEP_LAUNCH) continue;
        const Named *named = find_named(&names, p->steps.at[i].name);
        out[i].work.flops += named->flops / named->nstep;
    }
    return out;
}
