// SPDX-License-Identifier: Apache-2.0
// Random graphs give the same results unfused and fused, interpreted and compiled, open and static,
// with the templates of the CPU and, interpreted, those of a GPU (`--gpu sm_90a`, `--precision P`).
// Without arguments: the kept graphs of tests/property/graphs, graphs of a fixed seed and as many
// of a new one as the time allows, see `parts`. `--count N --seed S` runs others, `--only I` one of
// them, with its text and groups; `--shrink` makes it smaller; a FILE is a kept graph, with
// `--verbose` what it became and its kernels.
#include "random_graph.h"

#include "base/os.h"
#include "graph/model.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 60, SMALL_BATCH = 20, GRAPH_SECONDS = 150, FIXED_SEED = 1, MAX_FAILURES = 5 };

typedef struct Options {
    uint64_t seed;
    int first, count;
    int64_t end_ns; // when to stop; 0: never
    const char *gpu, *precision;
    bool shrink, verbose, statistics;
} Options;

typedef struct Tally {
    int graphs, nodes, open, rejected, failed;
    int used[512], kept[512]; // by op: nodes made, nodes of graphs that ran
    Map templates;            // name -> int *: groups of fused graphs
} Tally;

// The graph at work, for when it ends the process.
static const char *current_text = "";

static void on_signal(int number)
{
    const char head[] = "\nnot ok - the process ends by a signal; the graph is\n";
    ssize_t n = write(STDERR_FILENO, head, sizeof head - 1);
    n += write(STDERR_FILENO, current_text, strlen(current_text));
    _exit(n < 0 ? 2 : 128 + number);
}

static const char *text_of(Arena *a, const RandomGraph *g)
{
    Buf b;
    buf_init(&b, a);
    rg_print(g, &b);
    return buf_text(&b);
}

static void report(RgRun *r, const char *text)
{
    Buf groups;
    buf_init(&groups, &r->arena);
    rg_run_groups(r, &groups);
    printf("%s\n%s\n%s\n", r->why ? r->why : "the same in every way", text, buf_text(&groups));
}

static void shrink_and_report(RgWorld *w, RandomGraph *g)
{
    rg_shrink(g);
    const char *text = text_of(g->arena, g);
    printf("made smaller:\n%s", text);
    fflush(stdout);
    current_text = text;
    RgRun *r = rg_run_begin(w, text);
    rg_run_finish(w, &r, 1);
    report(r, text);
    rg_run_free(r);
}

static void count_ops(RgWorld *w, const RandomGraph *g, int *counts)
{
    const Map *ops = &w->library.ops;
    for (int i = 0; i < g->nodes.n; i++)
        for (int k = 0; k < ops->n && k < 512; k++)
            if (ops->entry[k].value == g->nodes.at[i].op) counts[k]++;
}

static void count_templates(RgWorld *w, const RgRun *r, Tally *t)
{
    const CompiledModel *m = r->model[RG_FUSED];
    for (int i = 0; m && i < m->groups.n; i++) {
        const Node *kernel = m->groups.at[i]->kernel;
        Sym name = kernel ? kernel->u.sym : intern(w->library.names, "(its meaning)");
        int *count = map_get(&t->templates, name);
        if (!count) map_put(&w->arena, &t->templates, name, count = NEW(&w->arena, int));
        ++*count;
    }
}

static int run_batch(RgWorld *w, const Options *o, int first, int n, Tally *t)
{
    Arena a = {0};
    RandomGraph *graph[BATCH];
    RgRun *run[BATCH];
    const char *text[BATCH];
    for (int i = 0; i < n; i++) {
        current_text = arena_printf(&a, "(being made: --seed %llu --only %d)\n",
                                    (unsigned long long)o->seed, first + i);
        graph[i] = rg_make(w, &a, o->seed, first + i);
        text[i] = current_text = text_of(&a, graph[i]);
        alarm(GRAPH_SECONDS);
        run[i] = rg_run_begin(w, text[i]);
    }
    current_text = "(one of a batch)\n";
    alarm(2 * GRAPH_SECONDS);
    rg_run_finish(w, run, n);
    alarm(0);
    for (int i = 0; i < n; i++) {
        t->graphs++;
        t->nodes += graph[i]->nodes.n;
        t->open += run[i]->open != NULL;
        t->rejected += run[i]->outcome == RG_REJECTED;
        count_ops(w, graph[i], t->used);
        count_templates(w, run[i], t);
        if (run[i]->outcome != RG_REJECTED) count_ops(w, graph[i], t->kept);
        else if (o->verbose) printf("rejected %d: %.400s\n%s", first + i, run[i]->why, text[i]);
        if (run[i]->outcome == RG_DIFFERS) {
            printf("not ok - graph %d of seed %llu: ", first + i, (unsigned long long)o->seed);
            report(run[i], text[i]);
            fflush(stdout);
            if (++t->failed <= MAX_FAILURES && o->shrink) shrink_and_report(w, graph[i]);
        }
        rg_run_free(run[i]);
    }
    arena_free(&a);
    return t->failed;
}

static bool run_many(RgWorld *w, const Options *o)
{
    Tally *t = calloc(1, sizeof *t);
    int64_t start = clock_ns();
    int batch = o->end_ns ? SMALL_BATCH : BATCH;
    for (int i = 0; i < o->count && t->failed < MAX_FAILURES; i += batch) {
        if (o->end_ns && clock_ns() > o->end_ns) break;
        run_batch(w, o, o->first + i, (int)min_i64(batch, o->count - i), t);
    }
    for (int k = 0; o->statistics && k < w->library.ops.n && k < 512; k++)
        printf("# %-24s %5d made, %5d ran\n", (Sym)w->library.ops.entry[k].key, t->used[k],
               t->kept[k]);
    for (int k = 0; o->statistics && k < t->templates.n; k++)
        printf("# by %-24s %5d groups\n", (Sym)t->templates.entry[k].key,
               *(int *)t->templates.entry[k].value);
    bool ok = t->failed == 0;
    if (o->statistics) printf("# %zu bytes in the world\n", w->arena.total_bytes);
    printf("%s - seed %llu: %d graphs, %d nodes, %d with an open dimension, %d refused by the "
           "reference, %d failed, %.1f s\n",
           ok ? "ok" : "not ok", (unsigned long long)o->seed, t->graphs, t->nodes, t->open,
           t->rejected, t->failed, (double)(clock_ns() - start) / 1e9);
    fflush(stdout);
    free(t);
    return ok;
}

static bool run_one(RgWorld *w, const Options *o)
{
    Arena a = {0};
    current_text = "(being made)\n";
    RandomGraph *g = rg_make(w, &a, o->seed, o->first);
    const char *text = current_text = text_of(&a, g);
    bool ok = true;
    if (o->shrink) {
        shrink_and_report(w, g);
    } else {
        printf("%s", text);
        fflush(stdout);
        RgRun *r = rg_run_begin(w, text);
        rg_run_finish(w, &r, 1);
        report(r, text);
        ok = r->outcome != RG_DIFFERS;
        rg_run_free(r);
    }
    arena_free(&a);
    return ok;
}

// ---- kept graphs

static void print_kernels(RgRun *r)
{
    Buf graph;
    buf_init(&graph, &r->arena);
    if (r->graph) graph_print(r->graph, &graph);
    printf("%s", buf_text(&graph));
    for (int way = 0; way < RG_WAYS; way++) {
        const CompiledModel *m = r->model[way];
        for (int i = 0; m && i < m->kernels.n; i++) {
            Buf b;
            buf_init(&b, &r->arena);
            kernel_print(m->kernels.at[i]->kernel, &b);
            printf("---- %s\n%s%s\n", rg_way_name[way], buf_text(&b),
                   m->kernels.at[i]->source ? m->kernels.at[i]->source : "");
        }
    }
}

// At most BATCH files.
static bool run_files(RgWorld *w, const char *const *path, int n, bool verbose)
{
    RgRun *run[BATCH];
    bool ok = true;
    for (int i = 0; i < n; i++) {
        char *text;
        size_t size;
        const char *why = file_read(&w->arena, path[i], &text, &size);
        current_text = why ? path[i] : text;
        run[i] = rg_run_begin(w, why ? "" : text);
    }
    current_text = "(one of the kept ones)\n";
    rg_run_finish(w, run, n);
    for (int i = 0; i < n; i++) {
        bool same = run[i]->outcome == RG_SAME;
        if (verbose) print_kernels(run[i]);
        printf("%s - %s\n", same ? "ok" : "not ok", path[i]);
        if (!same) report(run[i], run[i]->text);
        ok = ok && same;
        rg_run_free(run[i]);
    }
    return ok;
}

static bool run_kept(RgWorld *w)
{
    char **names;
    const char *path[BATCH];
    int n;
    const char *dir = "tests/property/graphs";
    if (!path_is_dir(dir) || dir_list(&w->arena, dir, &names, &n)) return true;
    ASSERT(n <= BATCH);
    for (int i = 0; i < n; i++) path[i] = path_join(&w->arena, dir, names[i]);
    return run_files(w, path, n, false);
}

// What a default run does: for each, the kept graphs, then graphs of the fixed seed, then others.
// clang-format off
static const struct {
    const char *gpu, *precision;
    int count, seconds, more_seconds; // of the fixed seed; together at most; for other graphs
} parts[] = {
    // gpu      precision  count  seconds  more
    {NULL,     "f32",      200,   18,      3},
    {"sm_90a", "f32",      120,   10,      2},
    {"sm_90a", "f16",      60,    5,       1},
    {"sm_75",  "f32",      40,    3,       0},
};
// clang-format on

static bool run_default(RgWorld *w)
{
    const int64_t second = 1000000000;
    bool ok = true;
    for (size_t i = 0; i < COUNT(parts); i++) {
        printf("# %s, %s\n", parts[i].gpu ? parts[i].gpu : "this CPU", parts[i].precision);
        if (!rg_world_target(w, parts[i].gpu, parts[i].precision)) return false;
        ok &= run_kept(w);
        Options o = {.seed = FIXED_SEED, .count = parts[i].count, .shrink = true};
        o.end_ns = clock_ns() + parts[i].seconds * second; // the last batch takes some more
        ok &= run_many(w, &o);
        o.seed = (uint64_t)time(NULL);
        o.end_ns = clock_ns() + parts[i].more_seconds * second;
        if (parts[i].more_seconds) ok &= run_many(w, &o);
    }
    return ok;
}

int main(int argc, char **argv)
{
    Options o = {.seed = FIXED_SEED, .precision = "f32"};
    const char *file = NULL;
    const char *optimise = "-O1";
    for (int i = 1; i < argc; i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(argv[i], "--seed")) o.seed = strtoull(next, NULL, 10), i++;
        else if (!strcmp(argv[i], "--count")) o.count = atoi(next), i++;
        else if (!strcmp(argv[i], "--first")) o.first = atoi(next), i++;
        else if (!strcmp(argv[i], "--only")) o.first = atoi(next), o.count = 1, i++;
        else if (!strcmp(argv[i], "--gpu")) o.gpu = next, i++;
        else if (!strcmp(argv[i], "--precision")) o.precision = next, i++;
        else if (!strcmp(argv[i], "--shrink")) o.shrink = true;
        else if (!strcmp(argv[i], "--verbose")) o.verbose = true;
        else if (!strcmp(argv[i], "--statistics")) o.statistics = true;
        else if (!strncmp(argv[i], "-O", 2)) optimise = argv[i];
        else file = argv[i];
    }
    RgWorld w;
    const char *why = rg_world_init(&w, optimise);
    if (!why && !rg_world_target(&w, o.gpu, o.precision)) why = "no such GPU or precision";
    if (why) {
        printf("not ok - %s\n", why);
        return 1;
    }
    const int signals[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM};
    for (size_t i = 0; i < COUNT(signals); i++) signal(signals[i], on_signal);
    bool ok;
    if (file) ok = run_files(&w, &file, 1, o.verbose);
    else if (!o.count) ok = run_default(&w);
    else if (o.count == 1) ok = run_one(&w, &o);
    else ok = run_many(&w, &o);
    rg_world_free(&w);
    return ok ? 0 : 1;
}
