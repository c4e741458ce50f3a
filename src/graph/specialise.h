// SPDX-License-Identifier: Apache-2.0
// What specialise.c and control.c share: a graph on its way from unknown to concrete shapes.
#ifndef HEALD_GRAPH_SPECIALISE_H
#define HEALD_GRAPH_SPECIALISE_H

#include "graph/private.h"

typedef struct Specialiser {
    const Graph *from;
    Graph *to;
    const Target *target;
    Diag *diag;
    GraphValue **map; // by id of `from`
    Arena *scratch;
    int64_t fold_limit;
    bool dynamic;
    GraphValues unknown; // what the node that fails would have to know
    int niteration;      // of loops, so far
} Specialiser;

// A node of `from` on values of `to`; output has room for n->noutput, NULL where n has none.
bool specialise_node(Specialiser *s, const GraphNode *n, GraphValue *const *input,
                     GraphValue **output);
// Nodes of `from` in their order, from map to map.
bool specialise_nodes(Specialiser *s, const GraphNodes *nodes);

bool specialised_alike(const GraphValue *a, const GraphValue *b); // the same type and extents

// specialise_dims.c
GraphValue *specialise_constant(Specialiser *s, const GraphValue *v); // a copy of it
bool specialise_inputs(Specialiser *s, const Specialisation *how);
// An extent of a result: known, or open and none that could be negative.
bool specialise_extent(Specialiser *s, const GraphNode *n, const char *name, int axis, Value d);
// All sizes once more, with what is known of the dimensions in the end.
void specialise_sizes(Graph *g);
bool elements_known(const GraphValue *v); // or are sizes
// A size that must be known: what it is for the dimensions at hand, which becomes a requirement of
// the graph. False, and no diagnostics: it is none.
bool specialise_size(Specialiser *s, const GraphNode *n, Value v, int64_t *out);
// The same for all elements of a value, which becomes a constant.
bool specialise_known(Specialiser *s, const GraphNode *n, GraphValue *v);

// control.c: a conditional or a loop, from map to map. How often a loop runs must be known.
bool specialise_control(Specialiser *s, const GraphNode *n);

#endif
