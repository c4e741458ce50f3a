// SPDX-License-Identifier: Apache-2.0
// heald inspect: what became of a model's nodes: which kernel computes which of them, what fusion
// saves, and why other nodes are in other groups.
#include "cli/graph_svg.h"
#include "cli/model_job.h"

#include <stdio.h>
#include <string.h>

static bool among(const GraphValues *list, const GraphValue *v)
{
    for (int i = 0; i < list->n; i++)
        if (list->at[i] == v) return true;
    return false;
}

// Bytes of results that the group's own nodes read and nobody stores: each would have been written
// once and read once.
static int64_t kept_bytes(const Group *p)
{
    int64_t sum = 0;
    const GraphNodes *lists[] = {&p->prologue, &p->epilogue};
    for (int l = 0; l < 2; l++)
        for (int i = 0; i < lists[l]->n; i++)
            for (int k = 0; k < lists[l]->at[i]->noutput; k++) {
                const GraphValue *v = lists[l]->at[i]->output[k];
                if (v && v->readers.n && !among(&p->outputs, v)) sum += 2 * graph_value_bytes(v);
            }
    const GraphValue *hole = p->anchor->output[0];
    if (p->epilogue.n && hole && !among(&p->outputs, hole)) sum += 2 * graph_value_bytes(hole);
    return sum;
}

static const char *size_text(Arena *a, int64_t bytes)
{
    if (bytes < 10000) return arena_printf(a, "%lld bytes", (long long)bytes);
    if (bytes < 10000000) return arena_printf(a, "%.1f KB", (double)bytes / 1e3);
    return arena_printf(a, "%.1f MB", (double)bytes / 1e6);
}

static int64_t bytes_of(const GraphValues *list)
{
    int64_t sum = 0;
    for (int i = 0; i < list->n; i++) sum += graph_value_bytes(list->at[i]);
    return sum;
}

// A constant that is read in another layout is not read as it was.
static bool is_read_packed(const Group *p, const GraphValue *v)
{
    for (int i = 0; i < p->inputs.n; i++) {
        const GraphNode *n = p->inputs.at[i]->producer;
        if (n && n->id < 0 && n->input[0] == v) return true;
    }
    return false;
}

static int64_t read_bytes(const Group *p)
{
    int64_t sum = 0;
    for (int i = 0; i < p->inputs.n; i++)
        if (!is_read_packed(p, p->inputs.at[i])) sum += graph_value_bytes(p->inputs.at[i]);
    return sum;
}

static void print_nodes(const char *what, const GraphNodes *list)
{
    for (int i = 0; i < list->n; i++)
        printf("    %s %s  %s\n", what, list->at[i]->op->decl->u.sym, list->at[i]->name);
}

static void print_boundary(const char *where, const Boundaries *list)
{
    for (int i = 0; i < list->n; i++) {
        const GraphNode *n = list->at[i].node;
        printf("    %s %s  %s %s\n", where, n->op->decl->u.sym, n->name, list->at[i].why);
    }
}

static void print_group(Arena *a, const Group *p)
{
    const GraphNode *n = p->anchor;
    printf("%4d  %s  %s\n", p->id, n->op->decl->u.sym, n->name);
    print_nodes("at the load:", &p->prologue);
    print_nodes("at the store:", &p->epilogue);
    if (p->by_rows) printf("    of whole rows, where a block has stored them\n");
    printf("    by %s; reads %s, writes %s", p->kernel ? p->kernel->u.sym : "its meaning",
           size_text(a, read_bytes(p)), size_text(a, bytes_of(&p->outputs)));
    int64_t kept = kept_bytes(p);
    if (kept) printf(", keeps %s from memory", size_text(a, kept));
    printf(p->once ? "\n    computed once, when the model is loaded\n" : "\n");
    for (int i = 0; i < p->layouts.n; i++) printf("    %s\n", p->layouts.at[i]);
    print_boundary("before it:", &p->before);
    print_boundary("after it: ", &p->after);
}

static void print_model(Cli *c, ModelJob *j, const CompiledModel *m)
{
    int64_t kept = 0, moved = 0;
    int once = 0;
    for (int i = 0; i < m->groups.n; i++) {
        const Group *p = m->groups.at[i];
        print_group(&c->arena, p);
        once += p->once;
        if (p->once) continue;
        kept += kept_bytes(p);
        moved += read_bytes(p) + bytes_of(&p->outputs);
    }
    const char *early = once ? arena_printf(&c->arena, " (%d run once, at load)", once) : "";
    printf("%s; %d nodes in %d groups%s, %d kernels; memory moved %s, kept from it %s\n",
           model_precision_text(j), m->graph->nodes.n, m->groups.n, early, m->kernels.n,
           size_text(&c->arena, moved), size_text(&c->arena, kept));
}

// ---- sections: those that were reached in a run, each as it was for its last inputs

// What a section begins with; *number counts those that were reached.
static const char *section_title(Arena *a, const SectionStep *st, bool reached, int *number)
{
    if (!st->section)
        return arena_printf(a, "then '%s' gets the extents that the run told", st->name);
    const char *what =
        reached ? arena_printf(a, "section %d", ++*number) : "not reached with these inputs";
    return arena_printf(a, "then %s, from '%s' on: %s", section_step_name(st->kind), st->name,
                        what);
}

static const ModelInstance *section_reached(const ModelInstance *in, int step)
{
    return in->base.step[step].section ? model_section_current(&in->section[step]) : NULL;
}

static void print_steps(Cli *c, ModelJob *j, const ModelInstance *in, int *number)
{
    for (int i = 0; i < in->nsection; i++) {
        const ModelInstance *next = section_reached(in, i);
        printf("\n%s\n", section_title(&c->arena, &in->base.step[i], next != NULL, number));
        if (!next) continue;
        print_model(c, j, next->compiled);
        print_steps(c, j, next, number);
    }
}

static void add_panel(Arena *a, GraphPanels *to, const CompiledModel *m, const char *title,
                      int depth)
{
    GraphPanel p = {m ? m->graph : NULL, m ? &m->groups : NULL, title, depth};
    VEC_PUSH(a, to, p);
}

static void add_panels(Arena *a, GraphPanels *to, const ModelInstance *in, int depth, int *number)
{
    for (int i = 0; i < in->nsection; i++) {
        const SectionStep *st = &in->base.step[i];
        const ModelInstance *next = section_reached(in, i);
        const char *title = section_title(a, st, next != NULL, number);
        int inside = depth + (st->kind == SECTION_LOOP || st->kind == SECTION_SCAN);
        add_panel(a, to, next ? next->compiled : NULL, title, inside);
        if (next) add_panels(a, to, next, inside, number);
    }
}

static int write_picture(Cli *c, const ModelJob *j, const ModelInstance *in, const char *path)
{
    Buf out;
    GraphPanels panels = {0};
    int number = 1;
    buf_init(&out, &c->arena);
    add_panel(&c->arena, &panels, in->compiled, j->path, 0);
    add_panels(&c->arena, &panels, in, 0, &number);
    graph_svg(&panels, &out);
    const char *why = file_write_atomic(&c->arena, path, out.text, out.size);
    return why ? cli_error(c, "%s", why) : EXIT_DONE;
}

// Initializers that a caller may give: all by name with -v.
static void print_optional(Cli *c, const ModelJob *j)
{
    enum { SHOWN = 8 };
    int n = j->noptional, shown = cli_has(c, OPT_VERBOSE) || n <= SHOWN ? n : SHOWN;
    if (!n) return;
    printf("optional inputs, of which the file has the values: ");
    for (int i = 0; i < shown; i++) {
        const heald_value_info *v = heald_model_optional(j->model, i);
        printf("%s%s %s", i ? ", " : "", cli_printable(c, v->name), value_info_text(&c->arena, v));
    }
    if (shown < n) printf(", and %d more", n - shown);
    printf("\n");
}

static int inspect(Cli *c, ModelJob *j)
{
    if (heald_model_prepare(j->model, j->input)) return cli_context_error(c);
    progress_clear(c);
    const ModelInstance *in = model_current(j->model);
    const char *svg = cli_text(c, OPT_SVG);
    int number = 1;
    bool runs = in->nsection && !context_is_elsewhere(c->context);
    if (runs && heald_model_run(j->model, j->input, j->output)) return cli_context_error(c);
    progress_clear(c);
    in = model_current(j->model);
    if (svg) return write_picture(c, j, in, svg);
    print_optional(c, j);
    print_model(c, j, in->compiled);
    print_steps(c, j, in, &number);
    return EXIT_DONE;
}

int cmd_inspect(Cli *c)
{
    ModelJob j;
    int status = model_open(c, &j);
    if (!status) status = model_take_inputs(&j);
    if (!status) status = inspect(c, &j);
    model_close(&j);
    return status;
}
