// SPDX-License-Identifier: Apache-2.0
// What the files that turn groups into kernels share.
#ifndef HEALD_GRAPH_LOWER_H
#define HEALD_GRAPH_LOWER_H

#include "graph/private.h"

// What the kernel has of a value of the graph.
typedef struct KernelValue {
    Tensor *tensor;
    const GraphValue *packed; // in whose memory it is read, in a layout; NULL: it is not
    Tensor *memory;           // that memory
    Value *dims;              // its extents, collapsed; NULL: as they are
} KernelValue;

// One attempt to make a kernel of a group.
typedef struct Lower {
    Graph *g;
    Group *group;
    const Target *target;
    Arena *arena; // of the kernel
    Diag *diag;
    Instance *in;
    KernelDims sizes;
    Map values;         // by id + 1: KernelValue
    int rank;           // of collapsed values
    GraphValues output; // of this kernel
    Packings *packings;
    GraphValues packed; // what it reads beside the group's inputs
    bool in_order;      // all that is whole lies in one layout, and elements are taken as they lie
} Lower;

void lower_open(Lower *l, Arena *a); // for one kernel, in an arena of its own
bool lower_begin(Lower *l);          // leaves and the prologue
KernelValue *lower_value(Lower *l, const GraphValue *v);
// The anchor's inputs as arguments of its template; how many.
int lower_args(Lower *l, const GraphNode *n, Value **args);
const char *lower_name(Lower *l, const char *prefix, int i);
// Alignment of a value's memory on a GPU: ours, or what is sure of the caller's. 0: on the CPU.
int64_t lower_align(const Lower *l, const GraphValue *v);
// lower_layout.c: what the template prefers and gets: constants packed, activations that lie in the
// layout or are laid out anew for the group.
bool lower_grant(Lower *l, const Node *kernel, int narg, Value *args);

#endif
