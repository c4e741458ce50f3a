// SPDX-License-Identifier: Apache-2.0
// A grid of cells with its indices around it. Without colour it is plain text to be read by people,
// diffs and tests; colour only tints the same cells: by worker, or by shared memory bank.
#include "cli/map_draw.h"

#include <stdio.h>
#include <string.h>

#include "base/util.h"

// Soft backgrounds of the 256-colour palette, all light enough for black text.
static const uint8_t tints[] = {153, 224, 194, 229, 183, 159, 216, 188,
                                151, 222, 189, 217, 158, 180, 146, 225};

typedef struct Grid {
    const MapView *view;
    Buf *out;
    bool color;
    bool tasks;        // a cell shows worker:task
    bool places;       // a cell shows a place, tinted by its bank
    int element_bytes; // for banks
    int cell_width;    // text of the widest cell
    int label_width;   // text of the widest row index
} Grid;

static int digits(int64_t n)
{
    int count = 1;
    while (n >= 10) {
        n /= 10;
        count++;
    }
    return count;
}

void map_draw_shape(int rank, const int64_t *shape, Buf *out)
{
    for (int i = 0; i < rank; i++) buf_printf(out, "%s%lld", i ? ", " : "(", (long long)shape[i]);
    buf_puts(out, rank == 1 ? ",)" : ")");
}

void map_draw_count(int64_t n, const char *noun, Buf *out)
{
    buf_printf(out, "%lld %s%s", (long long)n, noun, n == 1 ? "" : "s");
}

// An index at the edge of the grid, or the sign of a gap.
static void put_label(const Grid *g, int64_t index, int width)
{
    if (g->color) buf_puts(g->out, "\033[2m");
    if (index < 0) buf_printf(g->out, "%*s", width, "..");
    else buf_printf(g->out, "%*lld", width, (long long)index);
    if (g->color) buf_puts(g->out, "\033[0m");
}

static bool same_but_for_spaces(const char *a, const char *b)
{
    for (;; a++, b++) {
        while (*a == ' ') a++;
        while (*b == ' ') b++;
        if (*a != *b) return false;
        if (!*a) return true;
    }
}

// Control characters in the given title become '?': they could steer a terminal.
static const char *title_of(const MapDrawOptions *o, Arena *a, const char *own_text)
{
    if (!o->title) return own_text;
    char *title = arena_strdup(a, o->title);
    for (char *c = title; *c; c++)
        if ((unsigned char)*c < 32 || *c == 127) *c = '?';
    if (!own_text || same_but_for_spaces(title, own_text)) return title;
    return arena_printf(a, "%s = %s", title, own_text);
}

// A custom part prints without its function, so the text says less than the title.
static bool has_custom(const Mapping *m)
{
    for (; m; m = m->outer)
        if (m->kind == MAP_CUSTOM || (m->kind == MAP_COMPOSE && has_custom(m->inner))) return true;
    return false;
}

const char *map_draw_mapping_title(const Mapping *m, const MapDrawOptions *o, Arena *a)
{
    Buf text;
    buf_init(&text, a);
    mapping_print(m, &text);
    return title_of(o, a, o->title && has_custom(m) ? NULL : buf_text(&text));
}

const char *map_draw_layout_title(const Layout *l, const MapDrawOptions *o, Arena *a)
{
    Buf text;
    buf_init(&text, a);
    layout_print(l, &text);
    return title_of(o, a, buf_text(&text));
}

static int tint_of(const Grid *g, const MapCell *cell)
{
    int64_t n = cell->value;
    if (g->places) return tints[map_bank_of(n, g->element_bytes) / 2];
    return tints[(n + n / (int64_t)COUNT(tints) * 5) % (int64_t)COUNT(tints)];
}

// The cell's text, right-aligned after a gap; tinted cells touch, so that one worker's tasks are
// one patch.
static void put_cell(const Grid *g, const MapCell *cell)
{
    char text[64];
    const char *mark = cell->owners > 1 ? "+" : "";
    if (cell->owners == 0) snprintf(text, sizeof text, ".");
    else if (g->tasks)
        snprintf(text, sizeof text, "%s%lld:%lld", mark, (long long)cell->value,
                 (long long)cell->task);
    else snprintf(text, sizeof text, "%s%lld", mark, (long long)cell->value);
    bool tinted = g->color && cell->owners > 0;
    if (tinted) buf_printf(g->out, "\033[48;5;%d;38;5;16m", tint_of(g, cell));
    buf_printf(g->out, "%*s", g->cell_width + 2, text);
    if (tinted) buf_puts(g->out, "\033[0m");
}

static void put_header(const Grid *g)
{
    const MapView *v = g->view;
    buf_printf(g->out, "%*s", g->label_width, "");
    for (int c = 0; c < v->column.nslot; c++)
        put_label(g, map_axis_index(&v->column, c), g->cell_width + 2);
    buf_putc(g->out, '\n');
}

static void put_plane(const Grid *g, int64_t plane)
{
    const MapView *v = g->view;
    put_header(g);
    for (int r = 0; r < v->row.nslot; r++) {
        int64_t index = map_axis_index(&v->row, r);
        put_label(g, v->fold ? index * v->fold : index, g->label_width);
        for (int c = 0; index >= 0 && c < v->column.nslot; c++) {
            const MapCell *cell = map_view_cell(v, plane, r, c);
            if (map_axis_index(&v->column, c) < 0) put_label(g, -1, g->cell_width + 2);
            else if (cell->owners >= 0) put_cell(g, cell);
        }
        buf_putc(g->out, '\n');
    }
}

static void put_grid(const Grid *g)
{
    const MapView *v = g->view;
    for (int64_t p = 0; p < v->nshown; p++) {
        buf_putc(g->out, '\n');
        if (v->rank > 2) {
            map_view_plane_name(v, p, g->out);
            buf_putc(g->out, '\n');
        }
        put_plane(g, p);
    }
    if (v->nshown < v->nplane) {
        buf_puts(g->out, "\n.. and ");
        map_draw_count(v->nplane - v->nshown, "more plane", g->out);
        buf_putc(g->out, '\n');
    }
}

// The window that fits the width, once the widest index and cell are known.
static MapWindow fit(Grid *g, int rank, const int64_t *shape, int width, int cell_width)
{
    int64_t widest = max_i64(shape[rank - 1] - 1, 10);
    g->cell_width = (int)max_i64(cell_width, rank == 1 ? 2 : digits(widest));
    g->label_width = 2 + (int)max_i64(2, digits(rank == 1 ? widest : shape[rank - 2] - 1));
    int columns = (width - g->label_width) / (g->cell_width + 2);
    return (MapWindow){32, (int)max_i64(columns, 3), 4};
}

int map_draw_remarks(const MapView *v, Arena *a, const char **remark)
{
    int n = 0;
    if (v->nidle == 1) remark[n++] = "1 element is nobody's task.";
    else if (v->nidle)
        remark[n++] = arena_printf(a, "%lld elements are nobody's task.", (long long)v->nidle);
    if (v->nshared == 1)
        remark[n++] = "1 element is the task of several workers or several times (+).";
    else if (v->nshared)
        remark[n++] =
            arena_printf(a, "%lld elements are the task of several workers or several times (+).",
                         (long long)v->nshared);
    if (v->noutside == 1) remark[n++] = "1 task lies outside the shape.";
    else if (v->noutside)
        remark[n++] = arena_printf(a, "%lld tasks lie outside the shape.", (long long)v->noutside);
    if (n == 0) remark[n++] = "Every element is the task of exactly one worker.";
    return n;
}

void map_draw_mapping(const Mapping *m, Buf *out, const MapDrawOptions *o)
{
    Arena *a = out->arena;
    buf_printf(out, "%s\nshape ", map_draw_mapping_title(m, o, a));
    map_draw_shape(m->rank, m->shape, out);
    buf_puts(out, ", ");
    map_draw_count(m->nworker, "worker", out);
    buf_puts(out, ", ");
    map_draw_count(m->ntask, "task", out);
    buf_puts(out, " each\n");

    Grid g = {.out = out, .color = o->color, .tasks = m->ntask > 1};
    int cell_width = digits(m->nworker - 1) + (g.tasks ? 1 + digits(m->ntask - 1) : 0);
    MapWindow window = fit(&g, m->rank, m->shape, o->width ? o->width : 100, cell_width);
    MapView v = map_view_mapping(a, m, window, o);
    if (v.refusal) {
        buf_printf(out, "(%s)\n", v.refusal);
        return;
    }
    g.view = &v;
    buf_printf(out, "a cell shows worker%s\n", g.tasks ? ":task" : "");
    put_grid(&g);
    const char *remark[4];
    int n = map_draw_remarks(&v, a, remark);
    buf_putc(out, '\n');
    for (int i = 0; i < n; i++) buf_printf(out, "%s\n", remark[i]);
}

int map_draw_banks(const MapBanks *banks, Arena *a, const char *access[3], const char *verdict[3])
{
    const struct {
        const char *name;
        int degree;
    } rows[] = {
        {"along the rows", banks->row},
        {"down the columns", banks->column},
        {"8 rows of 16 bytes (ldmatrix)", banks->matrix},
    };
    int n = 0;
    for (size_t i = 0; i < COUNT(rows); i++) {
        if (rows[i].degree == 0) continue;
        access[n] = rows[i].name;
        verdict[n++] = rows[i].degree == 1 ? "no conflict"
                                           : arena_printf(a, "%d-way conflict", rows[i].degree);
    }
    return n;
}

static void put_banks(const Layout *l, Buf *out, int element_bytes)
{
    MapBanks banks = map_banks(l, element_bytes);
    if (!banks.known) return;
    const char *access[3], *verdict[3];
    int n = map_draw_banks(&banks, out->arena, access, verdict);
    buf_puts(out, "\nA warp of 32 lanes, ");
    buf_printf(out, "elements of %d byte%s, %d banks of %d bytes:\n", element_bytes,
               element_bytes == 1 ? "" : "s", BANKS, BANK_BYTES);
    for (int i = 0; i < n; i++) buf_printf(out, "  %-31s%s\n", access[i], verdict[i]);
}

void map_draw_layout(const Layout *l, Buf *out, const MapDrawOptions *o)
{
    int64_t volume = 1;
    int element_bytes = o->element_bytes ? o->element_bytes : 4;
    bool injective = layout_injective(l);
    for (int i = 0; i < l->rank; i++) volume *= l->shape[i];
    buf_printf(out, "%s\nshape ", map_draw_layout_title(l, o, out->arena));
    map_draw_shape(l->rank, l->shape, out);
    buf_puts(out, ", ");
    map_draw_count(volume, "element", out);
    buf_puts(out, " in ");
    map_draw_count(l->size, "place", out);
    buf_puts(out, injective ? "\n" : ", some shared\n");

    Grid g = {.out = out, .color = o->color, .places = true, .element_bytes = element_bytes};
    MapWindow window = fit(&g, l->rank, l->shape, o->width ? o->width : 100, digits(l->size - 1));
    MapView v = map_view_layout(out->arena, l, window);
    g.view = &v;
    buf_puts(out, "a cell shows the place of its element\n");
    put_grid(&g);
    put_banks(l, out, element_bytes);
}
