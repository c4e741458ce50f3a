// SPDX-License-Identifier: Apache-2.0
// What the makers of random graphs share.
#ifndef HEALD_TESTS_RANDOM_GRAPH_MAKE_H
#define HEALD_TESTS_RANDOM_GRAPH_MAKE_H

#include "random_graph.h"

enum { RG_MAX_ELEMENTS = 4000 };

typedef struct Maker {
    RandomGraph *g;
    RgRandom random;
    int64_t extents[4]; // most extents are taken from these
    DType main;
    int64_t work;  // a bound on what the interpreter has to do for a node
    bool special;  // inputs hold NaN and infinities
    int constants; // percent of the inputs that are constant
    const Node *op;
    DType first; // the first operand's type: what a number beside it has
    int first_value;
    // Names of the op's types that are bound by the operands so far.
    Sym dim_name[16];
    int64_t dim[16];
    int ndim;
    Sym pack_name[8];
    int64_t pack[8][RG_MAX_RANK];
    int pack_rank[8], npack;
    Sym type_name[8];
    DType type[8];
    int ntype;
} Maker;

// Operands (random_graph_operands.c).
void maker_begin(Maker *m, const Node *op); // nothing is bound
// Binds what a parameter's type names to a value's extents. False where they surely do not fit.
bool maker_bind(Maker *m, const Node *param, const RgValue *v);
// A value for a parameter: one that is there, or a new input. False where none was found.
bool maker_operand(Maker *m, const Node *param, bool first, int *out);
bool maker_fresh(Maker *m, const Node *param, int *out);
// An operand more of a variadic parameter: like the first, perhaps with another extent.
bool maker_another(Maker *m, const Node *param, int first, int *out);
int maker_value(RandomGraph *g, RgValue v);
// An input of the main type, and a number of it.
int maker_input(Maker *m, int rank, const int64_t *dims, bool constant);
int maker_number(Maker *m, double x);
void maker_set(Maker *m, RgNode *n, const char *attribute, Value v);
bool rg_is_read(const RandomGraph *g, int value);
int64_t rg_elements(const RgValue *v);

// Adds a node if the op accepts operands and attributes. (random_graph_make.c)
bool maker_add(Maker *m, RgNode *n);

// The left side of a rule with random operands, as an output of the graph (random_graph_rules.c).
bool maker_rule(Maker *m, const Node *rule);
// About so many nodes on images (random_graph_images.c), or of products and what stands around
// them (random_graph_products.c).
void maker_images(Maker *m, int nodes);
void maker_products(Maker *m, int nodes);

#endif
