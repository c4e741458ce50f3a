// SPDX-License-Identifier: Apache-2.0
// What the files of this room share.
#ifndef HEALD_GRAPH_PRIVATE_H
#define HEALD_GRAPH_PRIVATE_H

#include "graph/model.h"

// complete.c: attributes that a model leaves to be worked out from shapes, such as auto_pad, and
// those that say nothing here. attrs is changed. input: as the model gives them.
bool attrs_complete(Arena *a, const Library *l, const Node *decl, const GraphNode *n,
                    GraphValue *const *input, int ninput, Map *attrs, Diag *d);

// specialise.c
// The args of op_apply for a node's inputs as tensors, one for each input.
int node_args(Arena *a, const GraphNode *n, Tensor *const *tensor, Value *args);
// A leaf of `in` for a value.
Tensor *value_leaf(Instance *in, const GraphValue *v, const char *name);
bool node_fails(const GraphNode *n, Diag *d); // adds the note that names the node; false

bool node_known(const GraphNode *n); // all elements that its ops read are constants
// Nodes that no output needs go, and so do outputs and readers that only they had.
void graph_remove_dead(Graph *g, Arena *scratch);

// rules.c
// The op that a call or operator of text stands for, or NULL.
Sym node_op(const Library *l, const Node *n, bool *commutes);
bool node_literal(const Node *n, double *out); // a number, perhaps with a sign
// Applies the library's rules to a fixed point. False with diagnostics that name the rule.
bool graph_rewrite(Graph *g, const Target *t, int64_t fold_limit, Diag *d);

// fold.c: the node's outputs become constants. False, and no diagnostic, if they cannot.
bool node_fold_constant(Graph *g, GraphNode *n, const Target *t, int64_t limit);

// fuse.c: the templates of the anchor's op for this target, in order of preference.
int group_templates(const Graph *g, const GraphNode *anchor, const Target *t, Arena *a,
                    const Node ***out);

// lower.c: kernels of a group, one for each output where the anchor has several and no template
// computes them together.
typedef struct LoweredKernel {
    Kernel *kernel; // in an arena of its own
    Arena *arena;
    GraphValues outputs; // its parameters are the group's inputs, then these
} LoweredKernel;
typedef VEC(LoweredKernel) LoweredKernels;
// Constants that a template wants in another layout: a node whose output is that, made once for all
// groups that want the same.
typedef struct Packing {
    GraphNode *node;
    bool lowered;
} Packing;
typedef struct Packings {
    VEC(Packing) list;
} Packings;
// What the group reads may grow: packed constants come last.
bool group_lower(Graph *g, Arena *a, Group *p, const Target *t, Packings *packings,
                 LoweredKernels *out, Diag *d);
// A group of one node.
Group *group_of_node(Arena *a, GraphNode *n);

#endif
