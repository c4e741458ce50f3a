// SPDX-License-Identifier: Apache-2.0
// heald run: a model on files, pictures or random data.
#include "base/os.h"
#include "cli/model_job.h"
#include "runtime/tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RUNS = 100000, MAX_NAME = 200 };

static const char *plain_name(Arena *a, const char *output)
{
    char *name = arena_strndup(a, *output ? output : "output", MAX_NAME);
    for (char *s = name; *s; s++)
        if (strchr("/:\\", *s) || (unsigned char)*s < ' ' || *s == 0x7f) *s = '_';
    return name;
}

// A name without what file systems and terminals mind, of its own among the outputs.
static const char *file_name(ModelJob *j, int i)
{
    Arena *a = &j->cli->arena;
    const char *name = plain_name(a, heald_model_output(j->model, i)->name);
    int before = 0;
    for (int k = 0; k < i; k++)
        before += !strcmp(name, plain_name(a, heald_model_output(j->model, k)->name));
    return before ? arena_printf(a, "%s.%d", name, before + 1) : name;
}

static int write_output(ModelJob *j, int i, const char *dir)
{
    Cli *c = j->cli;
    const char *base = path_join(&c->arena, dir, file_name(j, i));
    const char *npy = arena_printf(&c->arena, "%s.npy", base);
    if (heald_tensor_write_npy(c->context, npy, j->output[i])) return cli_context_error(c);
    printf(" %s", npy);
    if (j->picture.width && tensor_is_image(j->output[i])) {
        const char *png = arena_printf(&c->arena, "%s.png", base);
        Image im = image_from_tensor(&c->arena, j->output[i], &j->picture);
        const char *why = image_write(&c->arena, png, &im);
        if (why) return cli_error(c, "%s", why);
        printf(", %s", png);
    }
    return EXIT_DONE;
}

static void print_values(const heald_tensor *t)
{
    enum { SHOWN = 6 };
    for (int64_t k = 0; k < t->nelem && k < SHOWN; k++)
        cli_print_element(t->dtype, (char *)t->data + (size_t)k * dtype_size(t->dtype));
    printf("%s", t->nelem > SHOWN ? " ..." : "");
}

static int print_results(ModelJob *j)
{
    Cli *c = j->cli;
    const char *dir = cli_text(c, OPT_OUTPUT_DIR);
    model_warn_precision(j);
    const char *why = dir ? dir_make(&c->arena, dir) : NULL;
    if (why) return cli_error(c, "%s", why);
    for (int i = 0; i < j->ninput + j->noptional; i++) {
        if (!j->input[i]) continue;
        printf("input   %s: %s  %s\n", cli_printable(c, model_input_info(j, i)->name),
               tensor_text(&c->arena, j->input[i]), j->source[i] ? j->source[i] : "random");
    }
    for (int i = 0; i < j->noutput; i++) {
        printf("output  %s: %s ", cli_printable(c, heald_model_output(j->model, i)->name),
               tensor_text(&c->arena, j->output[i]));
        int status = EXIT_DONE;
        if (dir) status = write_output(j, i, dir);
        else print_values(j->output[i]);
        printf("\n");
        if (status) return status;
    }
    return EXIT_DONE;
}

static int by_value(const void *x, const void *y)
{
    int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
    return (a > b) - (a < b);
}

// Which rules rewrote the graph, and how often.
static void tell_rules(Cli *c, const Graph *g)
{
    Buf b;
    buf_init(&b, &c->arena);
    for (int i = 0; i < g->fired.n; i++)
        if (g->fired.at[i])
            buf_printf(&b, "%s%s %d", b.size ? ", " : "", g->library->rules.at[i]->u.sym,
                       g->fired.at[i]);
    cli_verbose(c, "rules that applied: %s", b.size ? buf_text(&b) : "none");
}

static void tell_more(Cli *c, const ModelInstance *in)
{
    tell_rules(c, in->compiled->graph);
    if (in->compiled->graph->differs) cli_verbose(c, "%s", in->compiled->graph->differs);
    if (*in->note) cli_verbose(c, "compiled for the elements of %s", in->note);
}

static int run_all(ModelJob *j, int64_t n)
{
    Cli *c = j->cli;
    int64_t start = clock_ns();
    if (heald_model_prepare(j->model, j->input)) return cli_context_error(c);
    progress_clear(c);
    double compile_s = (double)(clock_ns() - start) * 1e-9;
    tell_more(c, model_current(j->model));
    int64_t *ns = NEW_ARRAY(&c->arena, int64_t, n);
    for (int64_t i = 0; i < n; i++) {
        start = clock_ns();
        if (heald_model_run(j->model, j->input, j->output)) return cli_context_error(c);
        ns[i] = clock_ns() - start;
    }
    qsort(ns, (size_t)n, sizeof *ns, by_value);
    int status = print_results(j);
    if (status || cli_has(c, OPT_QUIET)) return status;
    SectionCount count = {0};
    model_section_count(model_current_section(j->model), &count);
    printf("%s; kernels %d, of these from the cache %d; ", model_precision_text(j), count.nkernel,
           count.ncached);
    if (count.nsection > 1) printf("%d sections, %d plans; ", count.nsection, count.nplan);
    printf("ready in %.2f s; ", compile_s);
    if (n == 1) printf("ran in %.3f ms\n", (double)ns[0] * 1e-6);
    else printf("median of %lld runs %.3f ms\n", (long long)n, (double)ns[n / 2] * 1e-6);
    return EXIT_DONE;
}

int cmd_run(Cli *c)
{
    int64_t n = 1;
    if (cli_has(c, OPT_REPEAT) && !cli_int(c, OPT_REPEAT, 1, MAX_RUNS, &n)) return EXIT_ERROR;
    ModelJob j;
    int status = model_open(c, &j);
    if (!status) status = model_take_inputs(&j);
    if (!status) status = run_all(&j, n);
    model_close(&j);
    return status;
}
