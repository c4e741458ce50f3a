// SPDX-License-Identifier: Apache-2.0
// A picture is a white card: title, a line of numbers, the planes of cells in reading order, a
// legend. All sizes are known before the first cell is written.
#include "cli/map_svg.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "cli/map_draw.h"
#include "cli/svg.h"

enum {
    MARGIN = 28,
    BOTTOM = 12,
    CELL_HEIGHT = 32,
    CELL_GAP = 2,
    PLANE_GAP = 26,
    AXIS_HEIGHT = 18,
    HEAD_HEIGHT = 84,
    LINE_HEIGHT = 20,
    PAGE_WIDTH = 1040,
    SWATCH_WIDTH = 50,
    SWATCHES = 16,
    BANK_WIDTH = 16
};

typedef struct Picture {
    const MapView *view;
    Buf *out;
    bool tasks;        // cells show a worker and a task, not a place
    bool places;       // cells show a place and are coloured by its bank
    int element_bytes; // for banks
    int cell_width, label_width;
    int plane_width, plane_height, planes_in_line;
    int width, height;
} Picture;

typedef struct Entry {
    int64_t key; // worker or bank
    int64_t plane;
    int row, column;
} Entry;

static const char style[] =
    "<style>\n"
    "text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;"
    "fill:#25323d;font-variant-numeric:tabular-nums}\n"
    ".title{font-family:ui-monospace,'SF Mono',Menlo,Consolas,'DejaVu Sans Mono',monospace;"
    "font-size:17px;font-weight:600}\n"
    ".line{font-size:13px;fill:#5d6b78}\n"
    ".axis{font-size:11px;fill:#93a1ad;text-anchor:middle}\n"
    ".n{font-size:13px;font-weight:600;text-anchor:middle}\n"
    ".t{font-size:9.5px;fill:#5d6b78;text-anchor:end}\n"
    ".none{fill:#fafbfc;stroke:#d5dce2;stroke-dasharray:3 3}\n"
    ".k rect{stroke:#25323d;stroke-width:0}\n"
    ".k:hover rect{stroke-width:2}\n"
    "</style>\n";

static void put_text(Picture *p, const char *class, int x, int y, const char *text)
{
    buf_printf(p->out, "<text class=\"%s\" x=\"%d\" y=\"%d\">", class, x, y);
    svg_escaped(p->out, text);
    buf_puts(p->out, "</text>\n");
}

// One channel of a colour given by hue in degrees, saturation and lightness (CSS Color 4, 7.1).
static int channel(int n, double hue, double saturation, double lightness)
{
    double k = n + hue / 30;
    while (k >= 12) k -= 12;
    double least = lightness < 1 - lightness ? lightness : 1 - lightness;
    double slope = k - 3 < 9 - k ? k - 3 : 9 - k;
    slope = slope > 1 ? 1 : slope < -1 ? -1 : slope;
    return (int)((lightness - saturation * least * slope) * 255 + 0.5);
}

static void put_color(Picture *p, int64_t key)
{
    static const char *const first[] = {"#a9d3f5", "#ffd6a5", "#b8e6c1", "#f9c0cb",
                                        "#d7c6f2", "#fbeb9d", "#a5e3df", "#f2c5a4",
                                        "#c5d3f7", "#dfeaa8", "#f2c2e4", "#cfd8dc"};
    if (!p->places && key < (int64_t)COUNT(first)) {
        buf_puts(p->out, first[key]);
        return;
    }
    // Many workers: the golden angle keeps neighbours apart. Banks: once around the circle.
    double hue = p->places ? (double)key * 360 / BANKS : (double)(key * 137508 % 360000) / 1000;
    double lightness = p->places ? 0.83 : 0.77 + 0.045 * (double)(key % 3);
    buf_printf(p->out, "#%02x%02x%02x", channel(0, hue, 0.62, lightness),
               channel(8, hue, 0.62, lightness), channel(4, hue, 0.62, lightness));
}

static int cell_x(const Picture *p, int64_t plane, int column)
{
    return MARGIN + (int)(plane % p->planes_in_line) * (p->plane_width + PLANE_GAP) +
           p->label_width + column * (p->cell_width + CELL_GAP);
}

static int plane_y(const Picture *p, int64_t plane)
{
    return HEAD_HEIGHT + (int)(plane / p->planes_in_line) * (p->plane_height + PLANE_GAP);
}

static int cell_y(const Picture *p, int64_t plane, int row)
{
    return plane_y(p, plane) + (p->view->rank > 2 ? LINE_HEIGHT : 0) + AXIS_HEIGHT +
           row * (CELL_HEIGHT + CELL_GAP);
}

static void put_cell_title(Picture *p, const Entry *e, const MapCell *cell)
{
    int64_t index[MAPPING_MAX_RANK];
    map_view_index(p->view, e->plane, e->row, e->column, index);
    buf_puts(p->out, "<title>");
    map_draw_shape(p->view->rank, index, p->out);
    if (p->places)
        buf_printf(p->out, ": place %lld, bank %lld", (long long)cell->value, (long long)e->key);
    else if (cell->owners == 0) buf_puts(p->out, ": nobody's task");
    else
        buf_printf(p->out, ": worker %lld, task %lld", (long long)cell->value,
                   (long long)cell->task);
    if (cell->owners > 1) buf_printf(p->out, ", and %d more", cell->owners - 1);
    buf_puts(p->out, "</title>");
}

static void put_cell(Picture *p, const Entry *e)
{
    const MapCell *cell = map_view_cell(p->view, e->plane, e->row, e->column);
    int x = cell_x(p, e->plane, e->column), y = cell_y(p, e->plane, e->row);
    buf_puts(p->out, "<g>");
    put_cell_title(p, e, cell);
    buf_printf(p->out, "<rect %sx=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"5\"/>",
               cell->owners ? "" : "class=\"none\" ", x, y, p->cell_width, CELL_HEIGHT);
    if (cell->owners) {
        int cx = x + p->cell_width / 2 - (p->tasks ? 4 : 0), cy = y + (p->tasks ? 19 : 21);
        buf_printf(p->out, "<text class=\"n\" x=\"%d\" y=\"%d\">%lld</text>", cx, cy,
                   (long long)cell->value);
    }
    if (cell->owners && p->tasks)
        buf_printf(p->out, "<text class=\"t\" x=\"%d\" y=\"%d\">%lld</text>", x + p->cell_width - 4,
                   y + CELL_HEIGHT - 4, (long long)cell->task);
    if (cell->owners > 1)
        buf_printf(p->out, "<text class=\"t\" x=\"%d\" y=\"%d\">+</text>", x + p->cell_width - 4,
                   y + 10);
    buf_puts(p->out, "</g>\n");
}

static int by_key(const void *a, const void *b)
{
    const Entry *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    if (x->plane != y->plane) return x->plane < y->plane ? -1 : 1;
    if (x->row != y->row) return x->row < y->row ? -1 : 1;
    return (x->column > y->column) - (x->column < y->column);
}

// All cells, one group of elements for each worker or bank, so that hovering lights up the group.
static void put_cells(Picture *p)
{
    const MapView *v = p->view;
    Entry *entry = NEW_ARRAY(p->out->arena, Entry, v->nshown * v->row.nslot * v->column.nslot);
    size_t n = 0;
    for (int64_t plane = 0; plane < v->nshown; plane++)
        for (int r = 0; r < v->row.nslot; r++)
            for (int c = 0; c < v->column.nslot; c++) {
                const MapCell *cell = map_view_cell(v, plane, r, c);
                if (cell->owners < 0) continue;
                int64_t key = cell->owners == 0 ? -1
                              : p->places       ? map_bank_of(cell->value, p->element_bytes)
                                                : cell->value;
                entry[n++] = (Entry){key, plane, r, c};
            }
    qsort(entry, n, sizeof *entry, by_key);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || entry[i].key != entry[i - 1].key) {
            buf_puts(p->out, i ? "</g>\n<g class=\"k\" fill=\"" : "<g class=\"k\" fill=\"");
            put_color(p, max_i64(entry[i].key, 0));
            buf_puts(p->out, "\">\n");
        }
        put_cell(p, &entry[i]);
    }
    if (n) buf_puts(p->out, "</g>\n");
}

static void put_axis_label(Picture *p, int x, int y, int64_t index, const char *gap)
{
    buf_printf(p->out, "<text class=\"axis\" x=\"%d\" y=\"%d\">", x, y);
    if (index < 0) buf_puts(p->out, gap);
    else buf_printf(p->out, "%lld", (long long)index);
    buf_puts(p->out, "</text>\n");
}

static void put_axes(Picture *p, int64_t plane)
{
    const MapView *v = p->view;
    Buf name;
    if (v->rank > 2) {
        buf_init(&name, p->out->arena);
        map_view_plane_name(v, plane, &name);
        put_text(p, "line", cell_x(p, plane, 0), plane_y(p, plane) + 12, buf_text(&name));
    }
    for (int c = 0; c < v->column.nslot; c++)
        put_axis_label(p, cell_x(p, plane, c) + p->cell_width / 2, cell_y(p, plane, 0) - 6,
                       map_axis_index(&v->column, c), "\u2026");
    for (int r = 0; r < v->row.nslot; r++) {
        int64_t index = map_axis_index(&v->row, r);
        put_axis_label(p, cell_x(p, plane, 0) - p->label_width / 2 - 2,
                       cell_y(p, plane, r) + CELL_HEIGHT / 2 + 4, v->fold ? index * v->fold : index,
                       "\u22ee");
    }
}

// Sizes from the widest texts. A character of cell text is about 8 wide, of the title 10.5.
static void measure(Picture *p, int64_t largest, int64_t most_tasks, const char *title,
                    int legend_width, int legend_height)
{
    const MapView *v = p->view;
    int characters = snprintf(NULL, 0, "%lld", (long long)largest);
    int task_characters = p->tasks ? snprintf(NULL, 0, "%lld", (long long)most_tasks) : 0;
    int64_t last_label = v->rank == 1 ? v->shape[0] - 1 : v->shape[v->rank - 2] - 1;
    p->cell_width = (int)max_i64(40, characters * 8 + 14 + task_characters * 7);
    p->label_width = (int)max_i64(24, snprintf(NULL, 0, "%lld", (long long)last_label) * 7 + 10);
    p->plane_width = p->label_width + v->column.nslot * (p->cell_width + CELL_GAP);
    p->plane_height =
        (v->rank > 2 ? LINE_HEIGHT : 0) + AXIS_HEIGHT + v->row.nslot * (CELL_HEIGHT + CELL_GAP);
    int fit = (PAGE_WIDTH + PLANE_GAP) / (p->plane_width + PLANE_GAP);
    p->planes_in_line = (int)max_i64(1, min_i64(fit, v->nshown));
    int lines = (int)ceil_div_i64(v->nshown, p->planes_in_line);
    int grid_width = p->planes_in_line * (p->plane_width + PLANE_GAP) - PLANE_GAP;
    int title_width = (int)(strlen(title) * 21 / 2);
    p->width = 2 * MARGIN + (int)max_i64(max_i64(grid_width, title_width), legend_width);
    p->height = HEAD_HEIGHT + lines * (p->plane_height + PLANE_GAP) + legend_height + BOTTOM;
}

static void begin(Picture *p, const char *title, const char *numbers)
{
    buf_printf(p->out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
               "viewBox=\"0 0 %d %d\">\n<title>",
               p->width, p->height, p->width, p->height);
    svg_escaped(p->out, title);
    buf_puts(p->out, "</title>\n");
    buf_puts(p->out, style);
    buf_printf(p->out,
               "<rect x=\"0.5\" y=\"0.5\" width=\"%d\" height=\"%d\" rx=\"12\" fill=\"#ffffff\" "
               "stroke=\"#e3e8ec\"/>\n",
               p->width - 1, p->height - 1);
    put_text(p, "title", MARGIN, 40, title);
    put_text(p, "line", MARGIN, 63, numbers);
}

static int legend_y(const Picture *p, int legend_height)
{
    return p->height - BOTTOM - legend_height;
}

static void put_swatches(Picture *p, int64_t nworker, int y)
{
    int shown = (int)min_i64(nworker, SWATCHES);
    for (int w = 0; w < shown; w++) {
        int x = MARGIN + w % (SWATCHES / 2) * SWATCH_WIDTH, top = y + w / (SWATCHES / 2) * 24;
        buf_printf(p->out, "<rect x=\"%d\" y=\"%d\" width=\"16\" height=\"16\" rx=\"4\" fill=\"", x,
                   top);
        put_color(p, w);
        buf_printf(p->out, "\"/><text class=\"line\" x=\"%d\" y=\"%d\">%d</text>\n", x + 22,
                   top + 13, w);
    }
    if (nworker > shown)
        put_text(p, "line", MARGIN + SWATCHES / 2 * SWATCH_WIDTH, y + 37,
                 arena_printf(p->out->arena, "and %lld more", (long long)(nworker - shown)));
}

static void note_hidden_planes(const MapView *v, Buf *numbers)
{
    if (v->nshown > 0 && v->nshown < v->nplane)
        buf_printf(numbers, "  \u00b7  the first %lld of %lld planes", (long long)v->nshown,
                   (long long)v->nplane);
}

void map_svg_mapping(const Mapping *m, Buf *out, const MapDrawOptions *o)
{
    Buf numbers;
    buf_init(&numbers, out->arena);
    const char *title = map_draw_mapping_title(m, o, out->arena), *remark[4];
    MapView v = map_view_mapping(out->arena, m, (MapWindow){64, 64, 6}, o);
    if (v.refusal) v.nshown = 0;
    Picture p = {.view = &v, .out = out, .tasks = m->ntask > 1};
    int nremark = 1, swatch_height = m->nworker > SWATCHES / 2 ? 58 : 34;
    remark[0] = v.refusal;
    if (!v.refusal) nremark = map_draw_remarks(&v, out->arena, remark);
    int legend = nremark * LINE_HEIGHT + (v.refusal ? 0 : LINE_HEIGHT + swatch_height);
    measure(&p, m->nworker - 1, m->ntask - 1, title, 520, legend);

    buf_puts(&numbers, "shape ");
    map_draw_shape(m->rank, m->shape, &numbers);
    buf_puts(&numbers, "  \u00b7  ");
    map_draw_count(m->nworker, "worker", &numbers);
    buf_puts(&numbers, "  \u00b7  ");
    map_draw_count(m->ntask, "task", &numbers);
    buf_puts(&numbers, " each");
    note_hidden_planes(&v, &numbers);
    begin(&p, title, buf_text(&numbers));
    for (int64_t plane = 0; plane < v.nshown; plane++) put_axes(&p, plane);
    put_cells(&p);
    int y = legend_y(&p, legend);
    if (!v.refusal) {
        put_text(&p, "line", MARGIN, y + 6,
                 p.tasks ? "Workers by colour and number; the small number counts a worker's tasks."
                         : "Workers by colour and number.");
        put_swatches(&p, m->nworker, y + LINE_HEIGHT);
        y += LINE_HEIGHT + swatch_height;
    }
    for (int i = 0; i < nremark; i++)
        put_text(&p, "line", MARGIN, y + i * LINE_HEIGHT + 6, remark[i]);
    buf_puts(out, "</svg>\n");
}

static void put_bank_strip(Picture *p, int y)
{
    for (int bank = 0; bank < BANKS; bank++) {
        int x = MARGIN + bank * BANK_WIDTH;
        buf_printf(p->out, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"14\" rx=\"3\" fill=\"", x,
                   y, BANK_WIDTH - 2);
        put_color(p, bank);
        buf_puts(p->out, "\"/>\n");
        if (bank % 4 == 0 || bank == BANKS - 1)
            put_axis_label(p, x + BANK_WIDTH / 2 - 1, y + 28, bank, "");
    }
}

void map_svg_layout(const Layout *l, Buf *out, const MapDrawOptions *o)
{
    Buf numbers;
    int64_t volume = 1;
    int element_bytes = o->element_bytes ? o->element_bytes : 4, nline = 0;
    buf_init(&numbers, out->arena);
    for (int i = 0; i < l->rank; i++) volume *= l->shape[i];
    const char *title = map_draw_layout_title(l, o, out->arena), *access[3], *verdict[3];
    MapView v = map_view_layout(out->arena, l, (MapWindow){64, 64, 6});
    MapBanks banks = map_banks(l, element_bytes);
    Picture p = {.view = &v, .out = out, .places = true, .element_bytes = element_bytes};
    if (banks.known) nline = map_draw_banks(&banks, out->arena, access, verdict);
    int legend = LINE_HEIGHT + 44 + nline * LINE_HEIGHT;
    measure(&p, l->size - 1, 0, title, BANKS * BANK_WIDTH, legend);

    buf_puts(&numbers, "shape ");
    map_draw_shape(l->rank, l->shape, &numbers);
    buf_puts(&numbers, "  \u00b7  ");
    map_draw_count(volume, "element", &numbers);
    buf_puts(&numbers, " in ");
    map_draw_count(l->size, "place", &numbers);
    if (!layout_injective(l)) buf_puts(&numbers, ", some shared");
    note_hidden_planes(&v, &numbers);
    begin(&p, title, buf_text(&numbers));
    for (int64_t plane = 0; plane < v.nshown; plane++) put_axes(&p, plane);
    put_cells(&p);
    int y = legend_y(&p, legend);
    put_text(&p, "line", MARGIN, y + 6,
             arena_printf(out->arena,
                          "Places by number; colours are shared memory banks, for "
                          "elements of %d byte%s.",
                          element_bytes, element_bytes == 1 ? "" : "s"));
    put_bank_strip(&p, y + LINE_HEIGHT);
    for (int i = 0; i < nline; i++) {
        int line = y + LINE_HEIGHT + 44 + i * LINE_HEIGHT + 6;
        put_text(&p, "line", MARGIN, line, access[i]);
        put_text(&p, "line", MARGIN + 230, line, verdict[i]);
    }
    buf_puts(out, "</svg>\n");
}
