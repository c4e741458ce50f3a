// SPDX-License-Identifier: Apache-2.0
// Task mappings and layouts as SVG pictures for documents and browsers.
#ifndef HEALD_CLI_MAP_SVG_H
#define HEALD_CLI_MAP_SVG_H

#include "cli/map_view.h"

// Each appends a whole SVG document to out, which must have an arena. Hovering over a cell tells
// its element and lights up all tasks of its worker, or all elements in its memory bank.
void map_svg_mapping(const Mapping *m, Buf *out, const MapDrawOptions *o);
void map_svg_layout(const Layout *l, Buf *out, const MapDrawOptions *o);

#endif
