// SPDX-License-Identifier: Apache-2.0
// What a graph's values are computed from. Nodes stand after those that they read, so one sweep
// over them, from the last or from the first, sees all paths.
#include "graph/private.h"

void graph_mark_operands(const Graph *g, bool *values, bool *nodes)
{
    for (int i = g->nodes.n - 1; i >= 0; i--) {
        const GraphNode *n = g->nodes.at[i];
        for (int k = 0; k < n->noutput; k++) {
            const GraphValue *v = n->output[k];
            nodes[i] = nodes[i] || (v && values[v->id] && !v->data);
        }
        for (int k = 0; nodes[i] && k < n->ninput; k++)
            if (n->input[k]) values[n->input[k]->id] = true;
    }
}

bool graph_value_fixed(const GraphValue *v)
{
    return v->data || v->fixed;
}

void graph_note_fixed(const GraphNode *n)
{
    bool fixed = true, any = false;
    for (int i = 0; i < n->ninput; i++) {
        fixed = fixed && (!n->input[i] || graph_value_fixed(n->input[i]));
        any = any || n->input[i];
    }
    for (int i = 0; i < n->noutput; i++) {
        GraphValue *v = n->output[i];
        if (v) v->fixed = fixed && any && graph_value_static(v);
    }
}

void graph_remove_dead(Graph *g, Arena *scratch)
{
    bool *live = NEW_ARRAY(scratch, bool, g->nodes.n);
    bool *needed = NEW_ARRAY(scratch, bool, g->values.n);
    for (int i = 0; i < g->outputs.n; i++) needed[g->outputs.at[i]->id] = true;
    graph_mark_operands(g, needed, live);
    int kept = 0;
    for (int i = 0; i < g->values.n; i++) {
        g->values.at[i]->readers.n = 0;
        g->values.at[i]->fixed = false;
    }
    for (int i = 0; i < g->nodes.n; i++) {
        GraphNode *n = g->nodes.at[i];
        for (int k = 0; k < n->noutput && !live[i]; k++)
            if (n->output[k]) n->output[k]->producer = NULL;
        if (!live[i]) continue;
        n->id = kept;
        g->nodes.at[kept++] = n;
        graph_note_fixed(n);
        for (int k = 0; k < n->ninput; k++)
            if (n->input[k]) VEC_PUSH(g->arena, &n->input[k]->readers, n);
    }
    g->nodes.n = kept;
    for (int i = 0; i < kept; i++) {
        GraphNode *n = g->nodes.at[i];
        for (int k = 0; k < n->noutput; k++) {
            GraphValue *v = n->output[k];
            if (v && !v->readers.n && !v->is_output && n->op->class != OPCLASS_SERIAL)
                n->output[k] = NULL;
        }
    }
}
