// SPDX-License-Identifier: Apache-2.0
// What specialise.c and control.c share: a graph on its way from unknown to concrete shapes.
#ifndef HEALD_GRAPH_SPECIALISE_H
#define HEALD_GRAPH_SPECIALISE_H

#include "graph/private.h"

// An output of which only the run tells the extents: its dims are their bounds.
typedef struct CutCounted {
    GraphValue *value;
    GraphValue **counts; // (rank) what tells the extent, or NULL
    int *at;             // (rank) its position among the graph's outputs
} CutCounted;

typedef struct Cutter Cutter;

typedef struct Specialiser {
    const Graph *from;
    const Specialisation *how;
    Graph *to;
    const Target *target;
    Diag *diag;
    GraphValue **map; // by id of `from`
    Arena *scratch;
    Arena *trial; // of one node: ops that are tried, and what is wrong with them
    int64_t fold_limit;
    bool dynamic;
    GraphValues unknown; // what the node that fails would have to know
    int niteration;      // of loops, so far
    // Cutting the graph: whether that may be done here, values of `from` that come later,
    // conditions on which branches come later, and whether another one was found.
    bool cut, *late, *deferred, again;
    GraphNodes loops, rest; // what comes later
    VEC(CutCounted) counted;
    Cutter *cutter;
} Specialiser;

// A node of `from` on values of `to`; output has room for n->noutput, NULL where n has none.
bool specialise_node(Specialiser *s, const GraphNode *n, GraphValue *const *input,
                     GraphValue **output);
// Nodes of `from` in their order, from map to map.
bool specialise_nodes(Specialiser *s, const GraphNodes *nodes);

// operands.c: leaves a copy of a node as many operands as a kernel should have.
bool specialise_operands(Specialiser *s, GraphNode *n, GraphValue ***input);
// The same as specialise_node, also for more results than the op has.
bool specialise_results(Specialiser *s, const GraphNode *n, GraphValue *const *input,
                        GraphValue **output);

bool specialised_alike(const GraphValue *a, const GraphValue *b); // the same type and extents
// Marks the inputs that unknown values are computed from.
void specialise_sources(const Specialiser *s, bool *inputs);

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

// cut.c
bool cut_is_late(Specialiser *s, const GraphNode *n); // it reads what comes later
// Puts a node of `from` off; step: it is a loop and runs by itself.
void cut_put_off(Specialiser *s, const GraphNode *n, bool step);
// Whether a node that failed could be put off, and so was.
bool cut_after_failure(Specialiser *s, const GraphNode *n);
void cut_defer(Specialiser *s, const GraphValue *cond); // branches on it come later
// Outputs of a node whose extents the run tells.
void cut_counted(Specialiser *s, const OpInst *op, GraphValue **output);
bool cut_is_counted(const Specialiser *s, const GraphValue *v);
// In place of the graph's outputs, those that are there and what comes later reads.
void cut_outputs(Specialiser *s);
bool cut_steps(Specialiser *s); // to->cut, once all is done; false with a diagnostic

// transposes.c: those around elementwise nodes become fewer. Whether any did.
bool specialise_transposes(Graph *g, const Rewriting *how);

// control.c: whether a loop is to become part of the graph.
bool control_unrolls(Specialiser *s, const GraphNode *n);
// control.c: a conditional or a loop, from map to map. How often a loop runs must be known.
bool specialise_control(Specialiser *s, const GraphNode *n);

#endif
