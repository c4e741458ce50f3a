// SPDX-License-Identifier: Apache-2.0
// The fusion groups of a model as an SVG picture: a card a group, in layers from inputs to outputs,
// and below them those of the sections that follow.
#ifndef HEALD_CLI_GRAPH_SVG_H
#define HEALD_CLI_GRAPH_SVG_H

#include "graph/graph.h"

// A section of the picture, with a title; without a graph there is no more to it.
typedef struct GraphPanel {
    const Graph *graph;
    const Groups *groups;
    const char *title;
    int depth; // of sections within sections
} GraphPanel;
typedef VEC(GraphPanel) GraphPanels;

// Appends a whole SVG document. Hovering over a card tells its nodes by name, and why it ends.
void graph_svg(const GraphPanels *panels, Buf *out);

#endif
