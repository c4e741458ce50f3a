// SPDX-License-Identifier: Apache-2.0
// What a drawing of a task mapping or layout shows, apart from how: planes of cells, cut to a
// window. The last dimension runs along a row, the one before down a column, the others number the
// planes; a single dimension is folded into rows.
#ifndef HEALD_CLI_MAP_VIEW_H
#define HEALD_CLI_MAP_VIEW_H

#include "ir/layout.h"
#include "ir/mapping.h"

typedef struct MapDrawOptions {
    bool color;              // terminal drawings: colour the cells with escape sequences
    int width;               // terminal drawings: columns to use; 0: 100
    int element_bytes;       // layouts: for bank conflicts; 0: 4
    const char *title;       // shown first; NULL: the mapping or layout as text
    MappingCustomFn *custom; // tells the task of a custom part; NULL: such mappings are not drawn
    void *user;              // handed to custom
} MapDrawOptions;

// One axis of the window: all indices, or the first `head`, a gap, and the last one.
typedef struct MapAxis {
    int64_t extent;
    int head;
    int nslot; // cells to draw, a gap counting as one
    bool cut;
} MapAxis;

typedef struct MapCell {
    int64_t value; // mapping: the first worker; layout: the storage index
    int64_t task;  // mapping: which of the worker's tasks, from 0
    int owners;    // workers of this element; -1: no such element (the rest of a folded row)
} MapCell;

typedef struct MapView {
    const char *refusal; // why nothing can be drawn, or NULL
    int rank;
    const int64_t *shape;
    int64_t fold; // columns that one dimension is folded into; 0: not folded
    MapAxis row, column;
    int64_t nplane, nshown; // planes there are, and planes drawn
    MapCell *cell;          // (nshown, row.nslot, column.nslot)
    int64_t nidle, nshared,
        noutside; // elements without a worker, with several; tasks not in the shape
} MapView;

typedef struct MapWindow {
    int rows, columns, planes; // the most to show, rows and columns at least 3
} MapWindow;

// The view is in the arena.
MapView map_view_mapping(Arena *a, const Mapping *m, MapWindow window, const MapDrawOptions *o);
MapView map_view_layout(Arena *a, const Layout *l, MapWindow window);

int64_t map_axis_index(const MapAxis *axis, int slot); // -1: the gap
// The element at a slot of a plane; false for a gap or what lies past a folded row.
bool map_view_index(const MapView *v, int64_t plane, int row, int column, int64_t *index);
MapCell *map_view_cell(const MapView *v, int64_t plane, int row, int column);
void map_view_plane_name(const MapView *v, int64_t plane, Buf *out); // "[0, 2, :, :]"

#endif
