// SPDX-License-Identifier: Apache-2.0
// Mapping loops over lanes.
#include "passes/pass.h"

static Node *visit(void *user, Node *n)
{
    Kernel *k = user;
    Arena *a = k->arena;
    n = node_map(a, n, visit, k);
    if (n->kind != N_MAPFOR) return n;
    Node *worker = KID(n, MAPFOR, worker);
    if (worker->kind != N_VARREF || worker->u.var->builtin != VAR_LANE) return n;
    Var *lane = index_var(k, "lane", n->u.map->nworker);
    Map values = {0};
    map_put(a, &values, worker->u.var, node_var(a, n->loc, lane));
    Node *inner = node_subst(a, n, &values);
    return make_loop(a, n->loc, lane, node_i64(a, 0), node_i64(a, n->u.map->nworker), LOOP_PLAIN, inner);
}

bool pass_vectorise(PassContext *c)
{
    pass_bodies(c->kernel, visit, c->kernel);
    return true;
}
