// SPDX-License-Identifier: Apache-2.0
// Groups lie in layers: one below the deepest group that it reads from. Within a layer they keep
// the order in which they run, moved below what they read where there is room. What is computed
// once, from constants, is left out.
#include "cli/graph_svg.h"
#include "cli/svg.h"

#include <string.h>

enum {
    MARGIN = 32,
    HEAD = 64,
    INDENT = 28, // of a section within a section
    CARD_WIDTH = 240,
    CARD_GAP = 28,
    LAYER_GAP = 34,
    LINE = 17,
    PAD = 10,
    MAX_LINES = 7,
    MAX_TEXT = 38 // characters of a small line
};

typedef struct Card {
    const Group *group;
    int layer, x, y, lines;
} Card;

typedef struct Picture {
    const Graph *g;
    Arena *arena;
    Card *card;
    int n, nlayer, width, height, once;
    int *maker; // by value id: the card that computes it, or -1
    Buf *out;
} Picture;

static const char style[] =
    "<style>\n"
    "text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;"
    "fill:#25323d;font-size:12.5px}\n"
    ".title{font-size:18px;font-weight:600}\n"
    ".note{font-size:12px;fill:#5d6b78}\n"
    ".anchor{font-weight:600}\n"
    ".shape{font-size:11px;fill:#5d6b78}\n"
    ".number{font-size:11px;fill:#5d6b78;text-anchor:end}\n"
    ".card{stroke:#b9c4cd;stroke-width:1}\n"
    ".boundary{stroke:#9aa8b4;stroke-width:1;stroke-dasharray:6 5}\n"
    ".edge{fill:none;stroke:#9aa8b4;stroke-width:1.4}\n"
    "g:hover .card{stroke:#25323d;stroke-width:2}\n"
    "</style>\n";

static int nodes_of(const Group *p)
{
    return p->prologue.n + 1 + p->epilogue.n;
}

static const GraphNode *node_at(const Group *p, int i)
{
    if (i < p->prologue.n) return p->prologue.at[i];
    return i == p->prologue.n ? p->anchor : p->epilogue.at[i - p->prologue.n - 1];
}

// The card that value v comes from, through views of it; -1: an input of the model or a constant.
static int source_of(const Picture *p, const GraphValue *v)
{
    while (p->maker[v->id] < 0 && v->producer && v->producer->ninput && v->producer->input[0])
        v = v->producer->input[0];
    return p->maker[v->id];
}

static void find_layers(Picture *p)
{
    for (int i = 0; i < p->g->values.n; i++) p->maker[i] = -1;
    for (int i = 0; i < p->n; i++) {
        Card *c = &p->card[i];
        for (int k = 0; k < c->group->inputs.n; k++) {
            int from = source_of(p, c->group->inputs.at[k]);
            if (from >= 0 && p->card[from].layer >= c->layer) c->layer = p->card[from].layer + 1;
        }
        for (int k = 0; k < c->group->outputs.n; k++) p->maker[c->group->outputs.at[k]->id] = i;
        p->nlayer = c->layer >= p->nlayer ? c->layer + 1 : p->nlayer;
        int lines = nodes_of(c->group);
        c->lines = (lines < MAX_LINES ? lines : MAX_LINES) + 2;
    }
}

// The column below the first group that card c reads from, or the next free one.
static int column_of(const Picture *p, const Card *c, int next)
{
    int want = 0;
    for (int k = 0; k < c->group->inputs.n; k++) {
        int from = source_of(p, c->group->inputs.at[k]);
        if (from < 0) continue;
        want = (p->card[from].x - MARGIN) / (CARD_WIDTH + CARD_GAP);
        break;
    }
    return want > next ? want : next;
}

static void place(Picture *p)
{
    int y = MARGIN + HEAD;
    p->width = 2 * MARGIN + 3 * CARD_WIDTH;
    for (int layer = 0; layer < p->nlayer; layer++) {
        int next = 0, tallest = 0;
        for (int i = 0; i < p->n; i++) {
            Card *c = &p->card[i];
            if (c->layer != layer) continue;
            int column = column_of(p, c, next);
            next = column + 1;
            c->x = MARGIN + column * (CARD_WIDTH + CARD_GAP);
            c->y = y;
            tallest = c->lines > tallest ? c->lines : tallest;
            int right = c->x + CARD_WIDTH + MARGIN;
            p->width = right > p->width ? right : p->width;
        }
        y += tallest * LINE + 2 * PAD + LAYER_GAP;
    }
    p->height = y;
}

static void draw_edges(Picture *p, int to)
{
    const Card *c = &p->card[to];
    for (int k = 0; k < c->group->inputs.n; k++) {
        int from = source_of(p, c->group->inputs.at[k]);
        if (from < 0 || from == to) continue;
        const Card *f = &p->card[from];
        int x0 = f->x + CARD_WIDTH / 2, y0 = f->y + f->lines * LINE + 2 * PAD;
        int x1 = c->x + CARD_WIDTH / 2, y1 = c->y, bend = (y1 - y0) / 2;
        if (c->layer - f->layer > 1 && f->x == c->x) { // around the cards between
            x0 = x1 = f->x + CARD_WIDTH;
            y0 -= LINE;
            y1 += LINE;
            buf_printf(p->out, "<path class=\"edge\" d=\"M%d %d C%d %d %d %d %d %d\"/>\n", x0, y0,
                       x0 + CARD_GAP, y0, x1 + CARD_GAP, y1, x1, y1);
            continue;
        }
        buf_printf(p->out, "<path class=\"edge\" d=\"M%d %d C%d %d %d %d %d %d\"/>\n", x0, y0, x0,
                   y0 + bend, x1, y1 - bend, x1, y1);
    }
}

// A soft colour for each anchor op, the same in every picture.
static int hue_of(const char *op)
{
    return (int)(hash_bytes(op, strlen(op), 0) % 360);
}

static void put_line(Picture *p, const char *class, int x, int y, const char *text)
{
    buf_printf(p->out, "<text class=\"%s\" x=\"%d\" y=\"%d\">", class, x, y);
    svg_escaped(p->out, text);
    buf_puts(p->out, "</text>\n");
}

// As much as a card has room for.
static const char *fitted(Picture *p, const char *text)
{
    if (strlen(text) <= MAX_TEXT) return text;
    return arena_printf(p->arena, "%.*s...", MAX_TEXT - 3, text);
}

static void value_text(const GraphValue *v, Buf *out)
{
    buf_printf(out, "%s[", dtypes[v->type].name);
    for (int i = 0; i < v->rank; i++) {
        buf_puts(out, i ? ", " : "");
        value_print(&v->dims[i], out);
    }
    buf_putc(out, ']');
}

static void draw_card(Picture *p, int at)
{
    const Card *c = &p->card[at];
    const Group *group = c->group;
    Buf text;
    buf_init(&text, p->arena);
    for (int i = 0; i < nodes_of(group); i++)
        buf_printf(&text, "%s %s\n", node_at(group, i)->op->decl->u.sym, node_at(group, i)->name);
    const char *by = group->kernel ? group->kernel->u.sym : "its meaning";
    buf_printf(&text, "by %s", by);
    const Boundaries *list[] = {&group->before, &group->after};
    for (int l = 0; l < 2; l++)
        for (int i = 0; i < list[l]->n; i++)
            buf_printf(&text, "\n%s: %s %s %s", l ? "after it" : "before it",
                       list[l]->at[i].node->op->decl->u.sym, list[l]->at[i].node->name,
                       list[l]->at[i].why);
    buf_puts(p->out, "<g><title>");
    svg_escaped(p->out, buf_text(&text));
    buf_printf(p->out,
               "</title><rect class=\"card\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"8\" "
               "fill=\"hsl(%d 55%% 94%%)\"/>\n",
               c->x, c->y, CARD_WIDTH, c->lines * LINE + 2 * PAD,
               hue_of(group->anchor->op->decl->u.sym));
    int y = c->y + PAD + 12;
    buf_printf(p->out, "<text class=\"number\" x=\"%d\" y=\"%d\">%d</text>\n",
               c->x + CARD_WIDTH - PAD, y, group->id);
    for (int i = 0; i < c->lines - 2; i++, y += LINE) {
        const GraphNode *n = node_at(group, i);
        bool cut = i == MAX_LINES - 1 && nodes_of(group) > MAX_LINES;
        const char *line =
            cut ? arena_printf(p->arena, "and %d more", nodes_of(group) - i) : n->op->decl->u.sym;
        put_line(p, n == group->anchor ? "anchor" : "", c->x + PAD + 2, y, line);
    }
    Buf shape;
    buf_init(&shape, p->arena);
    if (group->outputs.n) value_text(group->outputs.at[0], &shape);
    put_line(p, "shape", c->x + PAD + 2, y, fitted(p, buf_text(&shape)));
    put_line(p, "shape", c->x + PAD + 2, y + LINE, fitted(p, arena_printf(p->arena, "by %s", by)));
    buf_puts(p->out, "</g>\n");
}

static void lay_out(const GraphPanel *panel, Buf *out, Picture *p)
{
    *p = (Picture){.g = panel->graph, .arena = out->arena, .out = out, .height = MARGIN + HEAD / 2};
    p->width = 2 * MARGIN + 3 * CARD_WIDTH;
    if (!panel->graph) return;
    p->card = NEW_ARRAY(p->arena, Card, panel->groups->n);
    p->maker = NEW_ARRAY(p->arena, int, p->g->values.n);
    for (int i = 0; i < panel->groups->n; i++)
        if (panel->groups->at[i]->once) p->once++;
        else p->card[p->n++].group = panel->groups->at[i];
    find_layers(p);
    place(p);
}

static void draw(Picture *p, const char *title)
{
    put_line(p, "title", MARGIN, MARGIN + 12, title);
    if (!p->g) return;
    const char *once =
        p->once ? arena_printf(p->arena, "; %d more run once, at load", p->once) : "";
    put_line(p, "note", MARGIN, MARGIN + 34,
             arena_printf(p->arena,
                          "%d nodes in %d groups%s; a card is a kernel, its anchor in bold; hover "
                          "for names and reasons",
                          p->g->nodes.n, p->n, once));
    for (int i = 0; i < p->n; i++) draw_edges(p, i);
    for (int i = 0; i < p->n; i++) draw_card(p, i);
}

void graph_svg(const GraphPanels *panels, Buf *out)
{
    Picture *picture = NEW_ARRAY(out->arena, Picture, panels->n);
    int width = 0, height = 0;
    for (int i = 0; i < panels->n; i++) {
        lay_out(&panels->at[i], out, &picture[i]);
        int right = picture[i].width + panels->at[i].depth * INDENT;
        width = right > width ? right : width;
        height += picture[i].height;
    }
    buf_printf(out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 "
               "%d %d\">\n%s"
               "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
               width, height, width, height, style);
    for (int i = 0, y = 0; i < panels->n; y += picture[i++].height) {
        int x = panels->at[i].depth * INDENT;
        if (y)
            buf_printf(out, "<line class=\"boundary\" x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"/>\n",
                       x + MARGIN, y, width - MARGIN, y);
        buf_printf(out, "<g transform=\"translate(%d %d)\">\n", x, y);
        draw(&picture[i], panels->at[i].title);
        buf_puts(out, "</g>\n");
    }
    buf_puts(out, "</svg>\n");
}
