// SPDX-License-Identifier: Apache-2.0
// A graph that is cut where something is known only when it runs. The specialised graph computes
// what can be computed before; steps follow, as runtime/section.h has them, on graphs of their own,
// which are specialised when they are reached.
#ifndef HEALD_GRAPH_CUT_H
#define HEALD_GRAPH_CUT_H

#include "graph/graph.h"
#include "runtime/section.h"

typedef struct GraphCut {
    int nslot;
    VEC(SectionStep) steps; // without their sections
    VEC(Graph *) graphs;    // by step: what its section is made of; NULL: it needs none
    const int *output;      // (outputs of the graph that was specialised) slots
} GraphCut;

#endif
