// SPDX-License-Identifier: Apache-2.0
// heald map: a task mapping or layout as a drawing.
#include "base/os.h"
#include "cli/cli.h"
#include "cli/map_draw.h"
#include "cli/map_svg.h"
#include "ir/interp.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct MapJob {
    Cli *cli;
    MapDrawOptions draw;
    const char *svg; // file, or NULL: text
} MapJob;

// A custom part's task: the index expressions with the worker put in.
static bool custom_task(void *user, const Mapping *m, int64_t worker, int64_t *index)
{
    Arena *a = user;
    ArenaMark mark = arena_mark(a);
    Map values = {0};
    map_put(a, &values, m->worker_var->u.var, node_i64(a, worker));
    bool ok = true;
    for (int i = 0; ok && i < m->rank; i++) {
        Node *value;
        ok = interp_constant(a, node_subst(a, REST(m->function)[i], &values), &value) &&
             value->kind == N_INT;
        if (ok) index[i] = value->u.i;
    }
    arena_reset(a, mark);
    return ok;
}

static const char *trimmed(Arena *a, const char *text)
{
    while (*text == ' ' || *text == '\n' || *text == '\t') text++;
    size_t n = strlen(text);
    while (n && strchr(" \n\t", text[n - 1])) n--;
    return arena_strndup(a, text, n);
}

static heald_status map_body(heald_context *c, Arena *a, void *user)
{
    MapJob *job = user;
    const char *text = trimmed(&c->arena, job->cli->operand[0]);
    const Source *source = sources_add(&c->sources, "EXPR", text, strlen(text));
    Node *tree = source ? parse_expression(&c->arena, c->names, source, &c->diag) : NULL;
    if (!tree) return HEALD_DIAGNOSTIC;
    Value v = evaluate_expression(a, &c->library, &c->target, tree, &c->diag);
    if (v.kind == V_NONE && c->diag.nerror) return HEALD_DIAGNOSTIC;
    if (v.kind != V_MAPPING && v.kind != V_LAYOUT) {
        diag_error(&c->diag, tree->loc, "this is %s; only task mappings and layouts can be drawn",
                   value_kind_name(v.kind));
        return HEALD_DIAGNOSTIC;
    }
    job->draw.title = text;
    job->draw.custom = custom_task;
    job->draw.user = &job->cli->arena;
    Buf out;
    buf_init(&out, a);
    if (v.kind == V_MAPPING)
        (job->svg ? map_svg_mapping : map_draw_mapping)(v.u.map, &out, &job->draw);
    else (job->svg ? map_svg_layout : map_draw_layout)(v.u.layout, &out, &job->draw);
    if (!job->svg) {
        fputs(buf_text(&out), stdout);
        return HEALD_OK;
    }
    const char *why = file_write_atomic(a, job->svg, out.text, out.size);
    return why ? error_set(&c->error, HEALD_IO, "%s", why) : HEALD_OK;
}

int cmd_map(Cli *c)
{
    int64_t width, element;
    if (!cli_int(c, OPT_WIDTH, 20, 10000, &width) || !cli_int(c, OPT_ELEMENT, 1, 16, &element))
        return EXIT_ERROR;
    MapJob job = {.cli = c,
                  .draw = {.color = cli_color(STDOUT_FILENO),
                           .width = (int)width,
                           .element_bytes = (int)element},
                  .svg = cli_text(c, OPT_SVG)};
    if (!cli_context(c)) return EXIT_ERROR;
    return context_call(c->context, map_body, &job) ? cli_context_error(c) : EXIT_DONE;
}
