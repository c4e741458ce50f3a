// SPDX-License-Identifier: Apache-2.0
// What the files of this room share.
#ifndef HEALD_GRAPH_PRIVATE_H
#define HEALD_GRAPH_PRIVATE_H

#include "graph/model.h"

// graph.c
// V_EXPRs that are sizes in normal form, in arena `a`; the rest as it is.
Value size_value(Arena *a, Value v);
bool size_is_one(const Value *v);
bool size_is_large(const Value *v);                    // to keep, so that sizes of sizes stay small
Value graph_value_size(Arena *a, const GraphValue *v); // how many elements
bool graph_same_dims(const GraphValue *a, const GraphValue *b);
bool attrs_equal(const Map *a, const Map *b);
Map attrs_copy(Arena *a, const Map *attrs); // with their values
// require.c: another requirement, at a node; false with a diagnostic if it never holds.
bool graph_require(Graph *g, const Node *cond, const char *message, const GraphNode *n, Diag *d);

// live.c
// Marks, by id, what marked values are computed from, up to constants, and the nodes that do that.
void graph_mark_operands(const Graph *g, bool *values, bool *nodes);
// Whether it depends on constants alone, so that it is computed at the latest when the model is
// loaded. As it was when dead nodes were last removed.
bool graph_value_fixed(const GraphValue *v);
void graph_note_fixed(const GraphNode *n); // of its results, by its operands
// Nodes that no output needs go, and so do outputs and readers that only they had.
void graph_remove_dead(Graph *g, Arena *scratch);

// elements.c: elements of the node's output that are known or sizes. `t` is that output as the
// result of an op in `in`, on leaves that have theirs. A constant where all are known.
void output_elements(Graph *g, Instance *in, Tensor *t, GraphValue *v);
// Those of a value for a leaf, also of a small constant; NULL: none.
const Value *value_elements(Arena *a, const GraphValue *v);
Value constant_element(const GraphValue *v, int64_t i); // of a constant

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

// moved.c
// Whether n only moves whole rows, or parts of them.
bool node_moves_rows(Graph *g, const GraphNode *n);
// Whether n is a transpose; its permutation.
bool node_permutation(const Graph *g, const GraphNode *n, int *perm);
// Attributes of the transpose that undoes n, a transpose.
const Map *node_back(const Graph *g, Arena *a, const GraphNode *n);

// text.c: the type of a number as operand `at`: the declared one, or that of an operand to which
// the declaration gives the same one. DT_NONE: there is none.
DType operand_type(const Node *decl, int at, int ninput, GraphValue *const *input);

// rules_match.c
Sym node_op(const Library *l, const Node *n);  // of a call or operator of text, or NULL
bool node_literal(const Node *n, double *out); // a number, perhaps with a sign
// rules.c
typedef struct Rewriting {
    const Target *host;   // where constants are folded
    const Target *device; // whose templates conditions ask for
    DType narrow;         // what f32 will be computed in there; DT_NONE: f32
    int64_t fold_limit;
} Rewriting;
// Applies the library's rules to a fixed point. False with diagnostics that name the rule.
bool graph_rewrite(Graph *g, const Rewriting *how, Diag *d);

// precision.c: f32 values of a specialised graph become narrow where the precision says so.
void graph_narrow(Graph *g, Precision precision, const Target *t);

// fold.c: the node's outputs become constants. False, and no diagnostic, if they cannot.
bool node_fold_constant(Graph *g, GraphNode *n, const Target *t, int64_t limit);

// groups.c: groups, each after those that it reads from, with their ids. group_of: by node id.
Groups groups_in_order(const Graph *g, const Groups *groups, Group *const *group_of, Arena *a);

// fuse.c: the templates of the anchor's op for this target, in order of preference.
int group_templates(const Graph *g, const GraphNode *anchor, const Target *t, Arena *a,
                    const Node ***out);

// layout_value.c: values in layouts. A layout is the op pack_NAME with its attributes.
// What pack makes of v; NULL where that is no shape.
GraphValue *packed_value(Graph *g, GraphValue *v, const Preference *p);
const Node *packed_undo(const Graph *g, const GraphNode *pack); // NULL: nothing undoes it
bool packed_is(const GraphValue *packed, const Preference *p);
bool packed_alike(const GraphValue *a, const GraphValue *b); // both packed
// Whether v may be stored as `packed` alone: nothing is lost, and each element has its place.
bool packed_suffices(Graph *g, const GraphValue *v, const GraphValue *packed);
// The value that unpack makes of `packed`, which is v.
GraphValue *unpacked_value(Graph *g, const GraphValue *v, GraphValue *packed);
// "channels(16)"
const char *packed_name(Arena *a, const GraphNode *pack);
// layout.c: what lies in which layout. Sets GraphValue.stored, Group.granted and Group.layouts.
// off: everything lies as it is.
void graph_layouts(Graph *g, Arena *a, const Groups *groups, const Target *t, bool off);

// lower_layout.c: what the first template that would serve the group prefers: `value` read or
// computed in a layout.
typedef struct Wish {
    GraphValue *value;
    Preference layout; // in the graph's arena
    int64_t worth;     // bytes, for the values at hand
} Wish;
typedef VEC(Wish) Wishes;
// The value in whose memory the group finds its input i.
GraphValue *group_memory(const Group *p, int i);
void group_wishes(Graph *g, Group *p, const Target *t, Wishes *out);

// kernel_dims.c: sizes of the graph as sizes of one kernel. The extents of what a kernel reads
// become dimensions of its own, so that equal kernels are equal whatever the model calls their
// dimensions.
typedef struct KernelDims {
    Graph *g;
    Instance *in;
    VEC(const Node *) dims; // what the kernel's dimensions are
    struct {
        VEC(const Node *) from;
        VEC(Value) to;
    } known;
} KernelDims;
void kernel_dims_init(KernelDims *k, Graph *g, Instance *in);
// V_EXPRs over the graph's dimensions as such over the kernel's; extent: it is one, so not
// negative.
Value kernel_size(KernelDims *k, Value v, bool extent);
const Value *kernel_sizes(KernelDims *k, int n, const Value *v);
const Map *kernel_attrs(KernelDims *k, const Map *attrs);
// In the kernel this size is computed as `to`.
void kernel_dims_note(KernelDims *k, Value from, Value to);

// lower.c: kernels of a group, one for each output where the anchor has several and no template
// computes them together.
typedef struct LoweredKernel {
    Kernel *kernel; // in an arena of its own
    Arena *arena;
    GraphValues outputs; // its parameters are the group's inputs, then these
    const Node **dims;   // (kernel->dims) what they are, sizes of the graph
} LoweredKernel;
typedef VEC(LoweredKernel) LoweredKernels;
// What a template wants in another layout: a node whose output is that, made once for all groups
// that want the same. That of a constant runs when the model is loaded.
typedef struct Packing {
    GraphNode *node;
    intptr_t before; // another of the same value: its place in the list, counted from 1; 0: none
} Packing;
typedef struct Packings {
    VEC(Packing) list;
    Map last;    // by value: the place of its last one, counted from 1
    int lowered; // that many of the list are
} Packings;
void packing_add(Arena *a, Packings *p, GraphNode *n); // unless it is there
// What the group reads may grow: packed constants come last.
bool group_lower(Graph *g, Arena *a, Group *p, const Target *t, Packings *packings,
                 LoweredKernels *out, Diag *d);
// Whether a template of the target serves the node.
bool node_has_template(Graph *g, GraphNode *n, const Target *t);
// The template that the group would be computed by, as it is; NULL: none. outputs: what is read
// outside.
const Node *group_template(Graph *g, const Group *p, const GraphValues *outputs, const Target *t);
// A group of one node.
Group *group_of_node(Arena *a, GraphNode *n);

#endif
