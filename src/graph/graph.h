// SPDX-License-Identifier: Apache-2.0
// A model as a graph of ops. It is made with unknown shapes, by a frontend or by hand; to be
// compiled it is specialised: concrete shapes, constants folded, every op chosen and checked.
#ifndef HEALD_GRAPH_GRAPH_H
#define HEALD_GRAPH_GRAPH_H

#include "graph/precision.h"
#include "lang/instantiate.h"
#include "ops/ops.h"

enum { GRAPH_MAX_RANK = 16 };

typedef struct GraphNode GraphNode;
typedef VEC(GraphNode *) GraphNodes;

typedef struct GraphValue {
    int id;           // its position in Graph.values
    const char *name; // the model's; never NULL
    DType type;       // DT_NONE: not known yet
    int rank;         // -1: not known yet
    // (rank) V_INT; before specialisation also V_STR, a named dimension, or V_NONE; after it also
    // V_EXPR, a size in normal form over Graph.dims
    Value *dims;
    const void *data; // of a constant, row-major, borrowed; NULL: none. Its dims are known
    bool fixed;       // see graph_value_fixed
    // Of a small tensor, row-major: elements that are known or sizes; V_NONE: not. NULL: none is
    const Value *elements;
    GraphNode *producer;
    int output; // which of the producer's
    GraphNodes readers;
    bool is_output; // of the graph
    // Its memory holds this value, which the pack of a layout makes of it; NULL: it as it is
    struct GraphValue *stored;
} GraphValue;
typedef VEC(GraphValue *) GraphValues;

// Nodes of a branch of the model's conditionals: they count only where `cond` has the value `is`.
typedef struct GraphGuard {
    GraphValue *cond;
    bool is;
    const struct GraphGuard *outer;
} GraphGuard;

// A graph within a node: the body of a loop. Its values are among the graph's, and it
// reads outer ones as they are.
typedef struct GraphBody {
    GraphNodes nodes; // producers before readers
    GraphValues inputs, outputs;
} GraphBody;

// Nodes that run their body again and again, as ONNX means them. Specialising leaves none.
typedef enum GraphControl { CONTROL_NONE, CONTROL_LOOP, CONTROL_SCAN } GraphControl;

struct GraphNode {
    int id;             // its position in Graph.nodes
    const char *name;   // the model's, for messages
    const char *origin; // "Conv" as the model calls it
    // Before specialisation: ways to read it, tried in order. inputs are by position.
    OpBindings choices;
    const GraphGuard *guard; // NULL: none
    // Inputs are the condition, results of one branch, results of the other. Specialising takes
    // those of one branch, or selects, and leaves no such node.
    bool is_if;
    GraphControl control;
    const GraphBody *body; // of LOOP and SCAN
    // After it:
    const OpInfo *op; // inputs are one for each parameter; of a variadic one, from its position on
    int ninput;
    GraphValue **input; // NULL: left out
    Map attrs;          // Sym -> Value *
    int noutput;
    GraphValue **output; // NULL: not wanted
};

// A dimension that the model leaves open: extents of inputs along an axis, of which this is the
// first; or an element of an input, see PlanDim.
typedef struct GraphDim {
    const char *name;
    int input, axis;
    Var *var; // VAR_DIM; its hint is the value at hand when the graph was specialised
} GraphDim;

// What the graph takes for granted of its dimensions.
typedef struct GraphRequirement {
    Node *cond;
    const char *message; // names node and operator
} GraphRequirement;

typedef struct Graph {
    Arena *arena;
    OpTable *ops;
    const Library *library;
    const char *name;
    bool specialised;
    GraphValues values;
    GraphNodes nodes; // producers before readers
    GraphValues inputs, outputs;
    // What constants of the same ids may be replaced by: their values are defaults of inputs, of
    // which these have the type and the extents
    GraphValues defaults;
    bool is_section;       // what was left of a graph that was cut; shares its nodes and values
    const bool *must_know; // (inputs) their elements are needed to specialise it; NULL: none
    const struct GraphCut *cut; // after specialisation: what follows, graph/cut.h; NULL: nothing
    const char *differs; // after specialisation: from what the model declares; NULL: nothing does
    VEC(GraphDim) dims;  // after specialisation: what is open
    VEC(GraphRequirement) requirements;
    // After specialisation: what f32 is computed in; nodes that compute in the narrow type, and in
    // f32 for its readers' sake; elements of constants that the narrow type has no room for.
    Precision precision;
    int nnarrow, nwide;
    int64_t beyond;
    const char *beyond_name; // the first such constant
    VEC(int) fired;          // by rule of the library: how often it applied
} Graph;

// Making a graph. Names are copied.
Graph *graph_new(Arena *a, const Library *l, OpTable *ops, const char *name);
// dims is copied; rank -1: not known.
GraphValue *graph_value(Graph *g, const char *name, DType type, int rank, const Value *dims);
GraphValue *graph_input(Graph *g, const char *name, DType type, int rank, const Value *dims);
GraphValue *graph_constant(Graph *g, const char *name, DType type, int rank, const int64_t *dims,
                           const void *data);
// Outputs become values of the node; NULL where not wanted. Producers are added before readers.
GraphNode *graph_node(Graph *g, const char *name, const char *origin, OpBindings choices,
                      int ninput, GraphValue *const *input, int noutput, GraphValue *const *output);
void graph_attr(Graph *g, GraphNode *n, const char *name, Value v);
void graph_output(Graph *g, GraphValue *v);
// The constant is the default of an input; dims, one for each of its own, are copied.
void graph_default(Graph *g, const GraphValue *constant, const Value *dims);
// The graph in which those of the defaults that are given (by position) are inputs instead, after
// the others. It lies in `a` and shares nodes and values with g.
Graph *graph_without_defaults(const Graph *g, Arena *a, const bool *given);
// Whether a declaration has such an attribute, or the value says nothing beyond its meaning.
bool graph_knows_attr(const Graph *g, const Node *decl, const char *name, const Value *v);

// The graph that a `graph` declaration states. NULL with diagnostics.
Graph *graph_from_text(Arena *a, const Library *l, OpTable *ops, const Target *t, const Node *decl,
                       Diag *d);

// Of a specialised graph; where a dimension is open, for the value at hand.
int64_t graph_value_nelem(const GraphValue *v);
int64_t graph_value_bytes(const GraphValue *v);
void graph_value_dims(const GraphValue *v, int64_t *dims);
bool graph_value_static(const GraphValue *v); // no extent is open
// The first requirement that the values at hand do not fulfil; NULL: none.
const GraphRequirement *graph_broken_requirement(const Graph *g);

enum { GRAPH_MAX_EXTENT = INT32_MAX }; // of an open dimension

// The graph for these input shapes: every op chosen and checked, shapes inferred, what is constant
// folded, identities and what nobody reads gone. dims[i]: (rank) of input i. With data[i] not NULL
// the input becomes a constant. NULL with diagnostics, which name nodes.
typedef struct Specialisation {
    const int64_t *const *dims;
    const int *rank;
    const void *const *data; // or NULL
    const bool *open;     // (inputs) the elements of data are values at hand of dimensions; or NULL
    const DType *type;    // (inputs) or NULL: as the graph says
    bool cut;             // where something is known only at run time the graph may be cut
    const Target *device; // whose templates rules ask for; NULL: the target that folds
    int64_t fold_limit;   // elements of a folded result; 0: 4 Mi
    // Dimensions that the model leaves open stay open; `dims` has values at hand, at least 1.
    bool dynamic;
    Precision precision;
    bool *wanted; // or NULL. After a failure: set for the inputs whose elements would have
                  // to be known
} Specialisation;
Graph *graph_specialise(const Graph *g, Arena *a, const Specialisation *s, const Target *t,
                        Diag *d);

void graph_print(const Graph *g, Buf *out); // one line a node

// ---- fusion groups

// Where a group ends: a node outside that reads what it computes, or computes what it reads.
typedef struct Boundary {
    const GraphNode *node;
    const char *why; // it is outside: "reduces many elements"
} Boundary;
typedef VEC(Boundary) Boundaries;

typedef struct Group {
    int id;
    GraphNode *anchor;
    GraphNodes prologue; // computed where the anchor loads
    GraphNodes epilogue; // computed where the anchor's result is stored
    bool by_rows;        // some of it from whole rows, which a block of the template has
    bool moved;          // the last of it is a transpose of the only output, which is stored so
    const Node
        *kernel; // a template of the anchor's op; NULL: the op's meaning through `copy`, or serial
    GraphValues inputs, outputs;
    // By input: the value in whose memory the group finds it, made by a step that lays it out anew;
    // NULL, or beyond the end: where it lies
    GraphValues memory;
    Boundaries before, after;  // views are looked through
    bool once;                 // depends on constants alone: computed when the model is loaded
    bool granted;              // its template may have what it reads laid out anew
    VEC(const char *) layouts; // what was decided about layouts, for people
} Group;
typedef VEC(Group *) Groups;

typedef struct FuseOptions {
    bool off; // one group a node
} FuseOptions;

// Groups in an order in which they can run. View ops are in none unless inside a chain.
Groups graph_fuse(Graph *g, Arena *a, const Target *t, const FuseOptions *o);
// One line a group: its nodes, its template, what follows it.
void groups_print(const Groups *g, Buf *out);

#endif
