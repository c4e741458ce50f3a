// SPDX-License-Identifier: Apache-2.0
// The window of cells that a drawing shows. Every task is visited once, so that idle and shared
// elements are counted in the whole shape, not only in the window.
#include "cli/map_view.h"

#include <string.h>

#include "base/util.h"

enum { MAX_STEPS = 1 << 22 }; // tasks or elements visited; a moment's work

static MapAxis axis_over(int64_t extent, int most)
{
    if (extent <= most) return (MapAxis){extent, (int)extent, (int)extent, false};
    return (MapAxis){extent, most - 2, most, true};
}

int64_t map_axis_index(const MapAxis *axis, int slot)
{
    if (slot < axis->head) return slot;
    return slot == axis->head ? -1 : axis->extent - 1;
}

// -1: not in the window.
static int axis_slot(const MapAxis *axis, int64_t index)
{
    if (index < axis->head) return (int)index;
    return index == axis->extent - 1 ? axis->head + 1 : -1;
}

static int64_t volume_of(int rank, const int64_t *shape)
{
    int64_t volume = 1;
    for (int i = 0; i < rank; i++) volume *= shape[i];
    return volume;
}

// One dimension is folded at the largest power of two that fits, at most 32.
static int64_t fold_at(int64_t extent, int most)
{
    int64_t fold = 1;
    while (fold * 2 <= most && fold < 32) fold *= 2;
    return min_i64(fold, extent);
}

static MapView new_view(Arena *a, int rank, const int64_t *shape, MapWindow window)
{
    MapView v = {.rank = rank, .shape = shape, .nplane = 1};
    if (rank == 1) {
        v.fold = fold_at(shape[0], window.columns);
        v.row = axis_over(ceil_div_i64(shape[0], v.fold), window.rows);
        v.column = axis_over(v.fold, window.columns);
    } else {
        v.row = axis_over(shape[rank - 2], window.rows);
        v.column = axis_over(shape[rank - 1], window.columns);
        v.nplane = volume_of(rank - 2, shape);
    }
    v.nshown = min_i64(v.nplane, window.planes);
    v.cell = NEW_ARRAY(a, MapCell, v.nshown * v.row.nslot * v.column.nslot);
    return v;
}

MapCell *map_view_cell(const MapView *v, int64_t plane, int row, int column)
{
    return &v->cell[(plane * v->row.nslot + row) * v->column.nslot + column];
}

bool map_view_index(const MapView *v, int64_t plane, int row, int column, int64_t *index)
{
    int64_t r = map_axis_index(&v->row, row), c = map_axis_index(&v->column, column);
    if (r < 0 || c < 0) return false;
    if (v->fold) {
        index[0] = r * v->fold + c;
        return index[0] < v->shape[0];
    }
    index[v->rank - 1] = c;
    index[v->rank - 2] = r;
    for (int i = v->rank - 3; i >= 0; i--) {
        index[i] = plane % v->shape[i];
        plane /= v->shape[i];
    }
    return true;
}

// The cell of an element, NULL if the window does not show it.
static MapCell *cell_of(const MapView *v, const int64_t *index)
{
    int64_t plane = 0, row, column;
    if (v->fold) {
        row = index[0] / v->fold;
        column = index[0] % v->fold;
    } else {
        row = index[v->rank - 2];
        column = index[v->rank - 1];
        for (int i = 0; i < v->rank - 2; i++) plane = plane * v->shape[i] + index[i];
    }
    int r = axis_slot(&v->row, row), c = axis_slot(&v->column, column);
    return plane < v->nshown && r >= 0 && c >= 0 ? map_view_cell(v, plane, r, c) : NULL;
}

void map_view_plane_name(const MapView *v, int64_t plane, Buf *out)
{
    int64_t index[MAPPING_MAX_RANK];
    map_view_index(v, plane, 0, 0, index);
    buf_putc(out, '[');
    for (int i = 0; i < v->rank - 2; i++) buf_printf(out, "%lld, ", (long long)index[i]);
    buf_puts(out, ":, :]");
}

// Marks the cells that no element has.
static void mark_missing(MapView *v)
{
    int64_t index[MAPPING_MAX_RANK];
    for (int64_t p = 0; p < v->nshown; p++)
        for (int r = 0; r < v->row.nslot; r++)
            for (int c = 0; c < v->column.nslot; c++)
                if (!map_view_index(v, p, r, c, index)) map_view_cell(v, p, r, c)->owners = -1;
}

// The position of index in a row-major walk of the shape; -1 outside.
static int64_t linear_of(const Mapping *m, const int64_t *index)
{
    int64_t linear = 0;
    for (int i = 0; i < m->rank; i++) {
        if (index[i] < 0 || index[i] >= m->shape[i]) return -1;
        linear = linear * m->shape[i] + index[i];
    }
    return linear;
}

MapView map_view_mapping(Arena *a, const Mapping *m, MapWindow window, const MapDrawOptions *o)
{
    MapView v = new_view(a, m->rank, m->shape, window);
    int64_t volume = volume_of(m->rank, m->shape), index[MAPPING_MAX_RANK];
    if (volume > MAX_STEPS || m->nworker > MAX_STEPS / m->ntask) {
        v.refusal = "too large to draw";
        return v;
    }
    uint8_t *owners = NEW_ARRAY(a, uint8_t, volume);
    mark_missing(&v);
    v.nidle = volume;
    for (int64_t w = 0; w < m->nworker; w++)
        for (int64_t task = 0; task < m->ntask; task++) {
            if (!mapping_task_with(m, w, task, index, o->custom, o->user)) {
                v.refusal = "the tasks of a part of this mapping are not known here";
                return v;
            }
            int64_t linear = linear_of(m, index);
            if (linear < 0) {
                v.noutside++;
                continue;
            }
            v.nidle -= owners[linear] == 0;
            v.nshared += owners[linear] == 1;
            owners[linear] += owners[linear] < 2;
            MapCell *cell = cell_of(&v, index);
            if (cell && cell->owners++ == 0) {
                cell->value = w;
                cell->task = task;
            }
        }
    return v;
}

MapView map_view_layout(Arena *a, const Layout *l, MapWindow window)
{
    MapView v = new_view(a, l->rank, l->shape, window);
    int64_t index[LAYOUT_MAX_RANK];
    mark_missing(&v);
    for (int64_t p = 0; p < v.nshown; p++)
        for (int r = 0; r < v.row.nslot; r++)
            for (int c = 0; c < v.column.nslot; c++) {
                MapCell *cell = map_view_cell(&v, p, r, c);
                if (cell->owners < 0) continue;
                map_view_index(&v, p, r, c, index);
                cell->value = layout_index(l, index);
                cell->owners = 1;
            }
    return v;
}
