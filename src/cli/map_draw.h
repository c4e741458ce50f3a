// SPDX-License-Identifier: Apache-2.0
// Task mappings and layouts as text for a terminal.
#ifndef HEALD_CLI_MAP_DRAW_H
#define HEALD_CLI_MAP_DRAW_H

#include "cli/map_banks.h"
#include "cli/map_view.h"

// Each appends to out, which must have an arena.
void map_draw_mapping(const Mapping *m, Buf *out, const MapDrawOptions *o);
void map_draw_layout(const Layout *l, Buf *out, const MapDrawOptions *o);

// Shared with the SVG drawings.
// "auto_map(8, 32; 64) = repeat(4, 1) * spatial(2, 32)": the title given, and the text if it says
// more.
const char *map_draw_mapping_title(const Mapping *m, const MapDrawOptions *o, Arena *a);
const char *map_draw_layout_title(const Layout *l, const MapDrawOptions *o, Arena *a);
void map_draw_shape(int rank, const int64_t *shape, Buf *out); // "(8, 4)"
void map_draw_count(int64_t n, const char *noun, Buf *out);    // "1 task", "4 tasks"
// What is unusual about who does what, one sentence an item, at most 4.
int map_draw_remarks(const MapView *v, Arena *a, const char **remark);
// The three accesses as (name, verdict), for known banks.
int map_draw_banks(const MapBanks *banks, Arena *a, const char *access[3], const char *verdict[3]);

#endif
