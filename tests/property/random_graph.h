// SPDX-License-Identifier: Apache-2.0
// Random graphs over all operators that the library declares, as text that can be kept, and what
// runs them: unfused and fused, by the interpreter and as C, with an extent open; with the CPU's
// templates, or with a GPU's in the interpreter alone, which then looks for races. The text is the
// truth: even a graph just made is run from its text, and the elements of its inputs follow from
// their names.
#ifndef HEALD_TESTS_RANDOM_GRAPH_H
#define HEALD_TESTS_RANDOM_GRAPH_H

#include "codegen/build.h"
#include "graph/model.h"

enum { RG_MAX_RANK = 8, RG_MAX_INPUT = 16, RG_MAX_OUTPUT = 8 };

// The library and the machine, the same for all graphs.
typedef struct RgWorld {
    Arena arena;
    Sources sources;
    Diag diag;
    Library library;
    OpTable *ops;
    Target host;   // makes graphs and folds
    Target target; // whose templates serve: the host or a GPU
    Precision precision;
    Toolchain tools;
    bool have_compiler;
    const char *dir; // for generated C, removed by rg_world_free
} RgWorld;

// optimise: "-O1", for C. NULL or what is wrong.
const char *rg_world_init(RgWorld *w, const char *optimise);
// From now on graphs run with a GPU's templates, "sm_90a", or the host's, NULL; and in a precision.
bool rg_world_target(RgWorld *w, const char *gpu, const char *precision); // false: not known
bool rg_on_gpu(const RgWorld *w);
void rg_world_free(RgWorld *w);

// ---- a graph in the making

// The first letter of an input's name tells what is in it, see rg_fill.
typedef struct RgValue {
    const char *name;
    DType type;
    int rank;
    int64_t dims[RG_MAX_RANK];
    int node, result; // that makes it; node -1: an input
    bool constant;    // an input that is known when the graph is compiled
    bool literal;     // written as a number where it is read
    double number;
} RgValue;

typedef struct RgNode {
    const Node *op;
    int ninput;
    int input[RG_MAX_INPUT]; // values; -1: left out
    Map attrs;
    int noutput;
    int output[RG_MAX_OUTPUT];
} RgNode;

typedef struct RandomGraph {
    Arena *arena;
    RgWorld *world;
    const char *name;
    VEC(RgValue) values;
    VEC(RgNode) nodes;
    VEC(int) outputs;
} RandomGraph;

typedef struct RgRandom {
    uint64_t state;
} RgRandom;
uint64_t rg_next(RgRandom *r);
int rg_below(RgRandom *r, int n);            // n > 0
int rg_between(RgRandom *r, int lo, int hi); // both included
bool rg_chance(RgRandom *r, int percent);

// The graph number `index` of a seed: the same for the same library and the same kind of target.
// Its name begins with r if it is made of the left sides of rules, p if no rules are to be applied,
// else g.
RandomGraph *rg_make(RgWorld *w, Arena *a, uint64_t seed, int index);
// Types and extents of all nodes' results from the inputs'. False where an op does not accept them.
bool rg_infer(RandomGraph *g);
bool rg_infer_node(RandomGraph *g, RgNode *n);
void rg_print(const RandomGraph *g, Buf *out); // what the outputs need, as a `graph` declaration
int rg_live_nodes(const RandomGraph *g);

// Elements of an input of graph `graph`, by its name: x numbers around 0, p positive, u between -1
// and 1, s also NaN, infinities and extremes, z small integers from 0, r up to 8, iN_ integers from
// 0 to N - 1, nN_ from -N to N - 1.
void rg_fill(const char *graph, const char *name, DType type, int64_t n, void *out);

// Attributes (random_graph_attrs.c).
typedef struct RgContext { // of the node in the making
    RandomGraph *g;
    RgRandom *random;
    const Node *op;
    const RgNode *node;
    int list; // extents of lists that must agree, such as starts and ends
    int parts;
} RgContext;
// False: no value is known for it.
bool rg_attribute(RgContext *c, const Node *param, Map *attrs);

// ---- running

typedef enum RgWay {
    RG_REFERENCE,
    RG_FUSED,
    RG_UNFUSED_C,
    RG_FUSED_C,
    RG_OPEN_C,
    RG_OPEN,
    RG_PLAIN,
    RG_WAYS
} RgWay;
extern const char *const rg_way_name[RG_WAYS];

typedef enum RgOutcome {
    RG_SAME,
    // the reference does not run: an index out of range, or an op that does not compile
    RG_REJECTED,
    RG_DIFFERS // a mismatch, or another way does not compile or run
} RgOutcome;

typedef struct RgRun {
    Arena arena;
    RgWorld *world;
    const char *text, *name;
    Graph *graph;
    Graph *plain; // of a graph whose name begins with r or p: without rules and constants
    Graph *open;  // with an extent that stays open, of another value at hand; NULL: it cannot be
    CompiledModel *model[RG_WAYS];
    void **input; // by input of the graph: its elements
    void **output[RG_WAYS];
    RgOutcome outcome;
    const char *why;
} RgRun;

// All that can be done before C is compiled. `text` is copied.
RgRun *rg_run_begin(RgWorld *w, const char *text);
// Compiles the C of many runs together, runs it and compares. Outcomes and reasons are set.
void rg_run_finish(RgWorld *w, RgRun **runs, int n);
// Holds the reference against the meaning of its nodes, see random_graph_meaning.c.
void rg_check_meaning(RgRun *r);
bool rg_same_elements(DType t, int64_t n, const void *a, const void *b); // all NaNs are one
void rg_run_groups(const RgRun *r, Buf *out); // the groups of the fused model
void rg_run_free(RgRun *r);

// The smallest graph found that still does not give RG_SAME. Runs graphs in child processes, so
// that crashes can be made smaller too.
void rg_shrink(RandomGraph *g);

#endif
