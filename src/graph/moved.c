// SPDX-License-Identifier: Apache-2.0
// Ops that move whole rows: templates for GPUs copy those from where they lie, and store them where
// they go, as fast as others.
#include "graph/private.h"

bool node_moves_rows(Graph *g, const GraphNode *n)
{
    if (!n->op->moves || n->op->view || n->ninput != 1) return false;
    static const Target any = {0};
    Arena scratch = {.nomem = g->arena->nomem};
    Diag quiet;
    diag_init(&quiet, &scratch, g->library->sources);
    Instance *in = instance_new(&scratch, g->library, &any, &quiet);
    Value arg = {.kind = V_TENSOR, .u.tensor = value_leaf(in, n->input[0], "x")};
    OpInst *op = op_apply(in, 0, n->op->decl, 1, &arg, &n->attrs);
    bool ok = op && instance_keeps_rows(in, op->results[0]);
    arena_free(&scratch);
    return ok;
}

bool node_permutation(const Graph *g, const GraphNode *n, int *perm)
{
    const Value *v = map_get(&n->attrs, intern(g->library->names, "perm"));
    int rank = n->output[0] ? n->output[0]->rank : -1;
    if (n->op->decl != map_get(&g->library->ops, intern(g->library->names, "transpose")) || !v ||
        v->kind != V_TUPLE || v->u.tuple.n != rank)
        return false;
    for (int i = 0; i < rank; i++) {
        const Value *axis = &v->u.tuple.at[i];
        if (axis->kind != V_INT || axis->u.i < 0 || axis->u.i >= rank) return false;
        perm[i] = (int)axis->u.i;
    }
    return true;
}

const Map *node_back(const Graph *g, Arena *a, const GraphNode *n)
{
    Map *attrs = NEW(a, Map);
    int perm[GRAPH_MAX_RANK], rank = n->output[0]->rank;
    bool known = node_permutation(g, n, perm);
    ASSERT(known);
    Value *back = NEW(a, Value);
    *back = value_tuple(a, rank, NULL);
    for (int i = 0; i < rank; i++) back->u.tuple.at[perm[i]] = value_int(i);
    map_put(a, attrs, intern(g->library->names, "perm"), back);
    return attrs;
}
