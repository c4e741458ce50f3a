// SPDX-License-Identifier: Apache-2.0
// The fusion groups of a model as an SVG picture: a card a group, in layers from inputs to outputs.
#ifndef HEALD_CLI_GRAPH_SVG_H
#define HEALD_CLI_GRAPH_SVG_H

#include "graph/graph.h"

// Appends a whole SVG document. Hovering over a card tells its nodes by name, and why it ends.
void graph_svg(const Graph *g, const Groups *groups, const char *title, Buf *out);

#endif
