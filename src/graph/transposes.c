// SPDX-License-Identifier: Apache-2.0
// Transposes around what is done element by element. A transpose of such a result is done to the
// operands instead, where those are transposes too and fewer are left, or none. No element changes.
#include "graph/rules.h"
#include "graph/specialise.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_REGION = 100 }; // nodes between the transposes

typedef struct Pull {
    Graph *g;
    const Rewriting *how;
    Arena *scratch;
    const OpInfo *transpose;
    GraphNode *outer; // the transpose that is pulled
    int perm[GRAPH_MAX_RANK], rank;
    GraphNodes region; // elementwise nodes before it
    GraphValues leaf;  // what they read of other nodes, of the same rank, and constants
    Map seen;          // GraphValue, of both -> the same value transposed, or itself
} Pull;

static bool is_transpose(const Pull *p, const GraphValue *v, int *perm)
{
    const GraphNode *n = v->producer;
    return n && v->rank == p->rank && node_permutation(p->g, n, perm);
}

static bool is_single(const GraphValue *v)
{
    return graph_value_static(v) && graph_value_nelem(v) == 1;
}

static bool is_elementwise(const Pull *p, const GraphValue *v)
{
    const GraphNode *n = v->producer;
    return n && n->op->collapses && !n->op->view && n->noutput == 1 && v->rank == p->rank &&
           !v->is_output;
}

static bool read_within(const Pull *p, const GraphValue *v)
{
    for (int i = 0; i < v->readers.n; i++) {
        bool within = v->readers.at[i] == p->outer;
        for (int k = 0; k < p->region.n && !within; k++)
            within = v->readers.at[i] == p->region.at[k];
        if (!within) return false;
    }
    return true;
}

static void note(Pull *p, const GraphValue *v, GraphValue *now)
{
    map_put(p->scratch, &p->seen, v, now);
}

// All that the outer transpose reads through elementwise nodes. False: something cannot be moved.
static bool find_region(Pull *p)
{
    GraphValues list = {0};
    VEC_PUSH(p->scratch, &list, p->outer->input[0]);
    while (list.n) {
        GraphValue *v = VEC_POP(&list);
        int perm[GRAPH_MAX_RANK];
        if (map_has(&p->seen, v)) continue;
        note(p, v, v);
        if (is_single(v) && v->rank <= p->rank && !is_elementwise(p, v)) continue;
        if (v->data || is_transpose(p, v, perm) || !is_elementwise(p, v)) {
            if (v->rank > p->rank || (!v->data && v->rank != p->rank)) return false;
            VEC_PUSH(p->scratch, &p->leaf, v);
            continue;
        }
        VEC_PUSH(p->scratch, &p->region, v->producer);
        if (p->region.n > MAX_REGION) return false;
        for (int i = 0; i < v->producer->ninput; i++)
            if (v->producer->input[i]) VEC_PUSH(p->scratch, &list, v->producer->input[i]);
    }
    for (int i = 0; i < p->region.n; i++)
        if (!read_within(p, p->region.at[i]->output[0])) return false;
    return p->region.n > 0;
}

// The two permutations as one; whether that leaves all axes where they are.
static bool joined(const Pull *p, const int *first, int *out)
{
    bool nothing = true;
    for (int i = 0; i < p->rank; i++) {
        out[i] = first[p->perm[i]];
        nothing = nothing && out[i] == i;
    }
    return nothing;
}

// Only axes of extent 1 change places: a reshape, which costs nothing.
static bool keeps_order(const Pull *p, const GraphValue *v)
{
    int last = -1;
    for (int i = 0; i < p->rank; i++) {
        if (size_is_one(&v->dims[p->perm[i]])) continue;
        if (p->perm[i] < last) return false;
        last = p->perm[i];
    }
    return true;
}

// How many transposes fewer there would be.
static int gain(const Pull *p)
{
    int fewer = 1, perm[GRAPH_MAX_RANK], both[GRAPH_MAX_RANK];
    for (int i = 0; i < p->leaf.n; i++) {
        const GraphValue *v = p->leaf.at[i];
        if (v->data) continue;
        if (!is_transpose(p, v, perm)) fewer -= !keeps_order(p, v);
        else fewer += (read_within(p, v) && !v->is_output) - !joined(p, perm, both);
    }
    return fewer;
}

// ---- the same in the order of the outer transpose

static GraphValue *permuted(Pull *p, const GraphValue *v, const int *perm, const char *name)
{
    Value dims[GRAPH_MAX_RANK];
    for (int i = 0; i < v->rank; i++) dims[i] = v->dims[perm[i]];
    return graph_value(p->g, name, v->type, v->rank, dims);
}

static GraphValue *transposed(Pull *p, GraphValue *v, const int *perm)
{
    GraphValue *out = permuted(p, v, perm, v->name);
    GraphNode *n =
        graph_node(p->g, p->outer->name, p->outer->origin, (OpBindings){0}, 1, &v, 1, &out);
    Value axes = value_tuple(p->g->arena, p->rank, NULL);
    for (int i = 0; i < p->rank; i++) axes.u.tuple.at[i] = value_int(perm[i]);
    n->op = p->transpose;
    graph_attr(p->g, n, "perm", axes);
    graph_note_fixed(n);
    if (v->data && node_fold_constant(p->g, n, p->how->host, p->how->fold_limit)) {
        p->g->nodes.n--;
        out->producer = NULL;
    }
    return out;
}

// A constant of as many axes as the result: new ones come first.
static GraphValue *with_all_axes(Pull *p, GraphValue *v)
{
    int64_t dims[GRAPH_MAX_RANK];
    int more = p->rank - v->rank;
    if (!more) return v;
    for (int i = 0; i < p->rank; i++) dims[i] = i < more ? 1 : v->dims[i - more].u.i;
    return graph_constant(p->g, v->name, v->type, p->rank, dims, v->data);
}

static void move_leaf(Pull *p, GraphValue *v)
{
    int first[GRAPH_MAX_RANK], both[GRAPH_MAX_RANK];
    if (!is_transpose(p, v, first)) note(p, v, transposed(p, with_all_axes(p, v), p->perm));
    else if (joined(p, first, both)) note(p, v, v->producer->input[0]);
    else note(p, v, transposed(p, v->producer->input[0], both));
}

static void move_node(Pull *p, const GraphNode *n)
{
    GraphValue **input = NEW_ARRAY(p->scratch, GraphValue *, n->ninput);
    for (int i = 0; i < n->ninput; i++)
        input[i] = n->input[i] ? map_get(&p->seen, n->input[i]) : NULL;
    const GraphValue *old = n->output[0];
    bool last = old == p->outer->input[0];
    GraphValue *out = permuted(p, old, p->perm, last ? p->outer->output[0]->name : old->name);
    GraphNode *made =
        graph_node(p->g, n->name, n->origin, (OpBindings){0}, n->ninput, input, 1, &out);
    made->op = n->op;
    made->attrs = n->attrs;
    graph_note_fixed(made);
    note(p, old, out);
}

static int by_position(const void *x, const void *y)
{
    const GraphNode *a = *(GraphNode *const *)x, *b = *(GraphNode *const *)y;
    return (a->id > b->id) - (a->id < b->id);
}

static bool pull(Pull *p, GraphNode *n)
{
    p->outer = n;
    p->region = (GraphNodes){0};
    p->leaf = (GraphValues){0};
    p->seen = (Map){0};
    p->rank = n->output[0]->rank;
    if (!node_permutation(p->g, n, p->perm) || !find_region(p) || gain(p) < 1) return false;
    qsort(p->region.at, (size_t)p->region.n, sizeof *p->region.at, by_position);
    for (int i = 0; i < p->leaf.n; i++) move_leaf(p, p->leaf.at[i]);
    for (int i = 0; i < p->region.n; i++) move_node(p, p->region.at[i]);
    graph_replace(p->g, n->output[0], map_get(&p->seen, n->input[0]));
    return true;
}

bool specialise_transposes(Graph *g, const Rewriting *how)
{
    Arena scratch = {.nomem = g->arena->nomem};
    const Node *decl = map_get(&g->library->ops, intern(g->library->names, "transpose"));
    Pull p = {.g = g, .how = how, .scratch = &scratch};
    if (!decl) return false;
    p.transpose = op_info(g->ops, decl);
    GraphNodes all = g->nodes;
    g->nodes = (GraphNodes){0};
    bool any = false;
    for (int i = 0; i < all.n; i++) {
        GraphNode *n = all.at[i];
        bool candidate = n->op == p.transpose && n->output[0] && !n->input[0]->data;
        bool pulled = candidate && pull(&p, n);
        if (candidate) arena_free(&scratch);
        any = any || pulled;
        if (pulled) continue;
        n->id = g->nodes.n; // those that were made have theirs
        VEC_PUSH(g->arena, &g->nodes, n);
    }
    if (any) graph_remove_dead(g, &scratch);
    arena_free(&scratch);
    return any;
}
