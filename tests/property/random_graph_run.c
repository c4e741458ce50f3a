// SPDX-License-Identifier: Apache-2.0
// Running a graph in several ways and comparing bit for bit, all NaNs being one. The same templates
// are chosen in every way, and none sums in another order depending on what is fused into it, so
// nothing may differ; only an open extent may ask for another template. (Templates against the
// meaning of their ops: random_graph_meaning.c.) The C of many graphs is one file: compiling each
// kernel alone would take minutes.
#include "random_graph.h"

#include "base/os.h"
#include "ir/interp_device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const rg_way_name[RG_WAYS] = {
    [RG_REFERENCE] = "unfused, interpreted",
    [RG_FUSED] = "fused, interpreted",
    [RG_UNFUSED_C] = "unfused, compiled",
    [RG_FUSED_C] = "fused, compiled",
    [RG_OPEN_C] = "with an open dimension, compiled",
    [RG_OPEN] = "with an open dimension, interpreted",
    [RG_PLAIN] = "without rules and constants",
};

enum { GUARD_BYTES = 64, GUARD = 0xb7 };

// ---- the world

const char *rg_world_init(RgWorld *w, const char *optimise)
{
    *w = (RgWorld){0};
    Arena *a = &w->arena;
    w->sources.arena = a;
    diag_init(&w->diag, a, &w->sources);
    library_init(&w->library, a, interner_new(a), &w->sources);
    if (!ops_load(&w->library, NULL, &w->diag)) {
        Buf b;
        buf_init(&b, a);
        diag_render(&w->diag, &b);
        return buf_text(&b);
    }
    w->ops = op_table_new(a, &w->library);
    target_host(&w->host);
    w->target = w->host;
    const char *why;
    w->have_compiler = toolchain_find(a, &w->host, &w->tools, &why);
    if (w->have_compiler && !strncmp(w->tools.flags, "-O3", 3))
        w->tools.flags = arena_printf(a, "%s%s", optimise, w->tools.flags + 3);
    const char *tmp = getenv("TMPDIR");
    char *dir = arena_printf(a, "%s/heald-random-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(dir)) return arena_printf(a, "%s cannot be made", dir);
    w->dir = dir;
    return NULL;
}

bool rg_world_target(RgWorld *w, const char *gpu, const char *precision)
{
    w->target = w->host;
    if (!precision_from_name(precision, &w->precision)) return false;
    if (gpu && !target_cuda(&w->target, gpu)) return false;
    if (gpu && atoi(gpu + strlen("sm_")) >= 80) w->target.tf32 = precisions[w->precision].tf32;
    return true;
}

bool rg_on_gpu(const RgWorld *w)
{
    return w->target.kind == TARGET_CUDA;
}

// Whether graphs are run as C too.
static bool compiles_c(const RgWorld *w)
{
    return w->have_compiler && !rg_on_gpu(w);
}

void rg_world_free(RgWorld *w)
{
    if (w->dir) dir_remove(&w->arena, w->dir);
    arena_free(&w->arena);
}

// ---- one graph

static void conclude(RgRun *r, RgOutcome outcome, const char *fmt, const char *way,
                     const char *what)
{
    if (r->outcome != RG_SAME) return;
    r->outcome = outcome;
    r->why = arena_printf(&r->arena, fmt, way, what);
}

static const char *rendered(RgRun *r, const Diag *d)
{
    Buf b;
    buf_init(&b, &r->arena);
    diag_render(d, &b);
    return buf_text(&b);
}

static const Node *only_graph(const Node *file)
{
    for (uint32_t i = 0; file && i < file->nkid; i++)
        if (file->kid[i]->kind == N_GRAPH) return file->kid[i];
    return NULL;
}

static void make_inputs(RgRun *r, const Node *decl, const Graph *g, Specialisation *s)
{
    Arena *a = &r->arena;
    Node *params = KID((Node *)decl, GRAPH, params);
    const int64_t **dims = NEW_ARRAY(a, const int64_t *, g->inputs.n);
    int *rank = NEW_ARRAY(a, int, g->inputs.n);
    const void **data = NEW_ARRAY(a, const void *, g->inputs.n);
    r->input = NEW_ARRAY(a, void *, g->inputs.n);
    for (int i = 0; i < g->inputs.n; i++) {
        const GraphValue *v = g->inputs.at[i];
        int64_t *d = NEW_ARRAY(a, int64_t, v->rank);
        graph_value_dims(v, d);
        dims[i] = d;
        rank[i] = v->rank;
        r->input[i] = arena_alloc(a, (size_t)graph_value_bytes(v) + 64);
        rg_fill(r->name, v->name, v->type, graph_value_nelem(v), r->input[i]);
        if (REST(params)[i]->sub & PARAM_CONST) data[i] = r->input[i];
    }
    *s = (Specialisation){.dims = dims,
                          .rank = rank,
                          .data = data,
                          .device = &r->world->target,
                          .precision = r->world->precision};
}

// Specialises g; and again without rules and with all inputs given at run time, where the name asks
// for it: r for graphs made of rules, p for graphs that are to be folded and nothing else.
static void specialise_twice(RgRun *r, const Graph *g, Specialisation *how, Diag *d)
{
    Library *l = &r->world->library;
    const Target *host = &r->world->host;
    bool plain = r->name[0] != 'g' && precisions[how->precision].type == DT_F32;
    int nrule = l->rules.n;
    if (r->name[0] == 'p') l->rules.n = 0;
    r->graph = graph_specialise(g, &r->arena, how, host, d);
    l->rules.n = 0;
    const void *const *data = how->data;
    how->data = NULL;
    if (plain) r->plain = graph_specialise(g, &r->arena, how, host, d);
    l->rules.n = nrule;
    how->data = data;
}

static bool in_constants(const Graph *g, const Specialisation *how, int64_t n)
{
    for (int i = 0; i < g->inputs.n; i++)
        for (int k = 0; how->data[i] && k < how->rank[i]; k++)
            if (how->dims[i][k] == n) return true;
    return false;
}

// The extent that most axes of inputs have, of those above 1 that no constant has; 0: none.
static int64_t common_extent(const Graph *g, const Specialisation *how)
{
    int64_t best = 0;
    int most = 0;
    for (int i = 0; i < g->inputs.n; i++)
        for (int k = 0; k < how->rank[i]; k++) {
            int64_t n = how->dims[i][k];
            int count = 0;
            for (int j = 0; j < g->inputs.n; j++)
                for (int l = 0; l < how->rank[j]; l++) count += how->dims[j][l] == n;
            if (n > 1 && count > most && !in_constants(g, how, n)) {
                most = count;
                best = n;
            }
        }
    return best;
}

// Specialises g with one extent of its inputs open, for another value at hand. Many graphs need to
// know it: then there is none.
static void specialise_open(RgRun *r, Graph *g, const Specialisation *how)
{
    Arena *a = &r->arena;
    int64_t extent = common_extent(g, how);
    if (!extent) return;
    const int64_t **dims = NEW_ARRAY(a, const int64_t *, g->inputs.n);
    for (int i = 0; i < g->inputs.n; i++) {
        GraphValue *v = g->inputs.at[i];
        int64_t *d = NEW_ARRAY(a, int64_t, v->rank);
        for (int k = 0; k < v->rank; k++) {
            d[k] = how->dims[i][k];
            if (d[k] != extent) continue;
            v->dims[k] = value_str(intern(r->world->library.names, "n"));
            d[k] = 2 * extent + 1;
        }
        dims[i] = d;
    }
    Diag quiet;
    diag_init(&quiet, a, &r->world->sources);
    Specialisation s = *how;
    s.dims = dims;
    s.dynamic = true;
    r->open = graph_specialise(g, a, &s, &r->world->host, &quiet);
    if (r->open && !r->open->dims.n) r->open = NULL;
}

// Templates share little work out over all multiprocessors: with few of them there are large tiles.
static void choose_cores(RgWorld *w, const char *graph)
{
    static const int cores[] = {1, 12, 132, 132};
    uint64_t h = hash_bytes(graph, strlen(graph), 0);
    if (rg_on_gpu(w)) w->target.ncore = cores[h % COUNT(cores)];
}

static bool specialise(RgRun *r)
{
    RgWorld *w = r->world;
    Diag d;
    diag_init(&d, &r->arena, &w->sources);
    Source *s = sources_add(&w->sources, "graph", r->text, strlen(r->text));
    const Node *decl = only_graph(parse_file(&r->arena, w->library.names, s, &d));
    Graph *g = decl ? graph_from_text(&r->arena, &w->library, w->ops, &w->host, decl, &d) : NULL;
    Specialisation how;
    if (g) {
        r->name = decl->u.sym;
        choose_cores(w, r->name);
        make_inputs(r, decl, g, &how);
        specialise_twice(r, g, &how, &d);
        if (r->graph && r->name[0] == 'g') specialise_open(r, g, &how);
        if (!r->graph && r->plain)
            conclude(r, RG_DIFFERS, "%s: %s", "rules or folding make it fail", rendered(r, &d));
    }
    if (!r->graph) conclude(r, RG_REJECTED, "%s: %s", "the graph", rendered(r, &d));
    return r->graph != NULL;
}

static bool is_c(RgWay way)
{
    return way >= RG_UNFUSED_C && way <= RG_OPEN_C;
}

static bool is_open(RgWay way)
{
    return way == RG_OPEN || way == RG_OPEN_C;
}

static bool compile(RgRun *r, RgWay way)
{
    bool c = is_c(way);
    CompileOptions o = {
        .target = r->world->target, .builder.interpret = !c, .builder.source_only = c};
    o.builder.passes.verify = true;
    o.fuse.off = way == RG_REFERENCE || way == RG_UNFUSED_C || way == RG_PLAIN;
    Diag d;
    Error e = {0};
    diag_init(&d, &r->arena, &r->world->sources);
    Graph *g = way == RG_PLAIN ? r->plain : is_open(way) ? r->open : r->graph;
    if (!model_compile(g, &r->arena, &o, &r->model[way], &d, &e)) return true;
    const char *text = d.nerror ? rendered(r, &d) : e.text;
    conclude(r, way == RG_REFERENCE ? RG_REJECTED : RG_DIFFERS, "%s does not compile: %s",
             rg_way_name[way], text);
    return false;
}

// Each output lies between guards and starts as rubbish that differs from way to way.
static heald_tensor *make_output(RgRun *r, RgWay way, int i)
{
    const GraphValue *v = r->graph->outputs.at[i];
    int64_t dims[GRAPH_MAX_RANK];
    graph_value_dims(v, dims);
    size_t size = (size_t)graph_value_bytes(v);
    char *p = arena_alloc(&r->arena, size + 2 * GUARD_BYTES + 64);
    p += 64 - (uintptr_t)p % 64;
    memset(p, GUARD, size + 2 * GUARD_BYTES);
    r->output[way][i] = p + GUARD_BYTES;
    memset(r->output[way][i], v->type == DT_BOOL ? (int)way & 1 : 0x11 * (int)way + 0x13, size);
    heald_tensor *t;
    if (heald_tensor_from_memory((heald_dtype)v->type, v->rank, dims, r->output[way][i], NULL, NULL,
                                 &t))
        abort();
    return t;
}

static void check_guards(RgRun *r, RgWay way)
{
    for (int i = 0; i < r->graph->outputs.n; i++) {
        size_t size = (size_t)graph_value_bytes(r->graph->outputs.at[i]);
        const unsigned char *p = r->output[way][i];
        for (int k = 0; k < GUARD_BYTES; k++)
            if (p[k - GUARD_BYTES] != GUARD || p[size + (size_t)k] != GUARD)
                conclude(r, RG_DIFFERS, "%s writes outside output %s", rg_way_name[way],
                         r->graph->outputs.at[i]->name);
    }
    for (int i = 0; i < r->graph->inputs.n; i++) {
        const GraphValue *v = r->graph->inputs.at[i];
        size_t size = (size_t)graph_value_bytes(v);
        void *again = arena_alloc(&r->arena, size);
        rg_fill(r->name, v->name, v->type, graph_value_nelem(v), again);
        if (memcmp(again, r->input[i], size))
            conclude(r, RG_DIFFERS, "%s changes input %s", rg_way_name[way], v->name);
    }
}

static bool run(RgRun *r, RgWay way)
{
    const Graph *g = r->graph;
    bool c = is_c(way);
    Error e = {0};
    Device *d = NULL;
    PlanRunner *runner = NULL;
    heald_tensor **in = NEW_ARRAY(&r->arena, heald_tensor *, g->inputs.n);
    heald_tensor **out = NEW_ARRAY(&r->arena, heald_tensor *, g->outputs.n);
    r->output[way] = NEW_ARRAY(&r->arena, void *, g->outputs.n);
    for (int i = 0; i < g->inputs.n; i++) {
        int64_t dims[GRAPH_MAX_RANK];
        const GraphValue *v = g->inputs.at[i];
        graph_value_dims(v, dims);
        if (heald_tensor_from_memory((heald_dtype)v->type, v->rank, dims, r->input[i], NULL, NULL,
                                     &in[i]))
            abort();
    }
    for (int i = 0; i < g->outputs.n; i++) out[i] = make_output(r, way, i);
    DeviceOptions o = {.nthread = way == RG_FUSED_C && r->graph->nodes.n % 4 == 0 ? 2 : 1,
                       .check_races = rg_on_gpu(r->world)};
    heald_status s = device_open(c ? &device_cpu : &device_interp, &o, &d, &e);
    if (!s) s = plan_runner_create(r->model[way]->plan, d, NULL, &runner, &e);
    PlanInstance *instance = NULL;
    const int64_t **dims = NEW_ARRAY(&r->arena, const int64_t *, g->inputs.n);
    for (int i = 0; i < g->inputs.n; i++) dims[i] = in[i]->dims;
    if (!s) s = plan_prepare(runner, dims, &instance, &e);
    // What the graph took for granted at another value of its open dimension may not hold.
    bool forbidden = is_open(way) && s == HEALD_CHECK_FAILED;
    if (!s) s = plan_run(instance, in, out, &e);
    plan_runner_destroy(runner);
    device_close(d);
    for (int i = 0; i < g->inputs.n; i++) heald_tensor_release(in[i]);
    for (int i = 0; i < g->outputs.n; i++) heald_tensor_release(out[i]);
    if (forbidden) return false;
    if (s) {
        conclude(r, way == RG_REFERENCE ? RG_REJECTED : RG_DIFFERS, "%s fails: %s",
                 rg_way_name[way], e.text);
        return false;
    }
    check_guards(r, way);
    return true;
}

static bool same_element(DType t, const void *a, const void *b)
{
    if (!memcmp(a, b, dtype_size(t))) return true;
    return dtype_is_float(t) && isnan(dtype_load_f64(t, a)) && isnan(dtype_load_f64(t, b));
}

bool rg_same_elements(DType t, int64_t n, const void *a, const void *b)
{
    for (int64_t i = 0; i < n; i++) {
        size_t at = (size_t)i * dtype_size(t);
        if (!same_element(t, (const char *)a + at, (const char *)b + at)) return false;
    }
    return true;
}

static void compare(RgRun *r, RgWay way)
{
    for (int i = 0; r->outcome == RG_SAME && i < r->graph->outputs.n; i++) {
        const GraphValue *v = r->graph->outputs.at[i];
        size_t size = dtype_size(v->type);
        int64_t n = graph_value_nelem(v), differ = 0, first = -1;
        for (int64_t k = 0; k < n; k++) {
            if (same_element(v->type, (char *)r->output[RG_REFERENCE][i] + (size_t)k * size,
                             (char *)r->output[way][i] + (size_t)k * size))
                continue;
            if (!differ++) first = k;
        }
        if (!differ) continue;
        const char *text = arena_printf(
            &r->arena,
            "%lld of %lld elements of output %d (%s) differ; element %lld is %.17g where %.17g is "
            "wanted",
            (long long)differ, (long long)n, i, v->name, (long long)first,
            dtype_load_f64(v->type, (char *)r->output[way][i] + (size_t)first * size),
            dtype_load_f64(v->type, (char *)r->output[RG_REFERENCE][i] + (size_t)first * size));
        conclude(r, RG_DIFFERS, "%s: %s", rg_way_name[way], text);
    }
}

static bool has_templates(const Graph *g)
{
    for (int i = 0; i < g->nodes.n; i++)
        if (map_has(&g->library->implementers, g->nodes.at[i]->op->decl->u.sym)) return true;
    return false;
}

static double magnitude(const GraphValue *v, const void *data)
{
    double most = 1;
    for (int64_t k = 0; k < graph_value_nelem(v); k++) {
        double x =
            fabs(dtype_load_f64(v->type, (const char *)data + (size_t)k * dtype_size(v->type)));
        if (x > most && x < 1e300) most = x;
    }
    return most;
}

// All elements of floats but `spare` of a hundred, and one where there is one to spare, are about
// the same.
static void compare_roughly(RgRun *r, RgWay way, int spare)
{
    for (int i = 0; r->outcome == RG_SAME && i < r->graph->outputs.n; i++) {
        const GraphValue *v = r->graph->outputs.at[i];
        const char *have = r->output[way][i], *want = r->output[RG_REFERENCE][i];
        bool wide = v->type == DT_F64;
        double part = wide ? 1e-6 : v->type == DT_F16 ? 2e-2 : v->type == DT_BF16 ? 1e-1 : 1e-4;
        if (v->type == DT_F32 && r->world->target.tf32 == 1) part = 1e-2;
        double bound = part * magnitude(v, want);
        int64_t n = graph_value_nelem(v), far = 0, last = 0;
        for (int64_t k = 0; dtype_is_float(v->type) && k < n; k++) {
            double x = dtype_load_f64(v->type, want + (size_t)k * dtype_size(v->type));
            double y = dtype_load_f64(v->type, have + (size_t)k * dtype_size(v->type));
            if (fabs(x - y) <= bound || x == y || !isfinite(x) || !isfinite(y)) continue;
            far++;
            last = k;
        }
        if (far <= n * spare / 100 + (spare > 0)) continue;
        const char *text = arena_printf(&r->arena, "element %lld of output %d (%s) is another",
                                        (long long)last, i, v->name);
        conclude(r, RG_DIFFERS, "%s: %s", rg_way_name[way], text);
    }
}

// Folding computes what ops mean, so without templates it changes no bit. What rules made of the
// graph gives about the same: a graph of rules has no op that jumps.
static void compare_plain(RgRun *r)
{
    if (r->name[0] == 'r') compare_roughly(r, RG_PLAIN, 0);
    else if (!has_templates(r->plain)) compare(r, RG_PLAIN);
}

// Another template may serve where an extent is open, and sum in another order; ops that jump may
// then send a few elements elsewhere.
static void compare_open(RgRun *r, RgWay way)
{
    if (has_templates(r->graph)) compare_roughly(r, way, 25);
    else compare(r, way);
}

RgRun *rg_run_begin(RgWorld *w, const char *text)
{
    RgRun *r = calloc(1, sizeof *r);
    if (!r) abort();
    r->world = w;
    r->text = arena_strdup(&r->arena, text);
    if (!specialise(r) || !compile(r, RG_REFERENCE) || !run(r, RG_REFERENCE)) return r;
    rg_check_meaning(r);
    if (r->outcome != RG_SAME) return r;
    if (r->plain && compile(r, RG_PLAIN) && run(r, RG_PLAIN)) compare_plain(r);
    if (compile(r, RG_FUSED) && run(r, RG_FUSED)) compare(r, RG_FUSED);
    if (r->open && compile(r, RG_OPEN) && run(r, RG_OPEN)) compare_open(r, RG_OPEN);
    if (compiles_c(w) && compile(r, RG_UNFUSED_C)) compile(r, RG_FUSED_C);
    if (compiles_c(w) && r->open && r->outcome == RG_SAME) compile(r, RG_OPEN_C);
    return r;
}

// ---- C of many runs

// The text of one kernel: definitions of helpers, which other kernels may have as well, then the
// stages from the first visibility attribute on.
static void add_source(Arena *a, Interner *texts, Map *seen, const char *text, Buf *helpers,
                       Buf *stages)
{
    const char *body = strstr(text, "\n__attribute__((visibility"), *p = text;
    if (!body) return;
    while (p < body) {
        const char *end = strchr(p, '\n') + 1;
        if (end <= body && *end == '{') end = strstr(end, "\n}\n") + 3; // a function
        Sym part = intern_n(texts, p, (size_t)(end - p));
        if (!map_has(seen, part)) buf_puts(helpers, part);
        map_put(a, seen, part, (void *)1);
        p = end;
    }
    Sym own = intern(texts, body);
    if (!map_has(seen, own)) buf_puts(stages, own);
    map_put(a, seen, own, (void *)1);
}

static const char *compile_all(RgWorld *w, Arena *a, RgRun **runs, int n, const char **object)
{
    static int number;
    Interner *texts = interner_new(a);
    Map seen = {0};
    Buf helpers, stages;
    buf_init(&helpers, a);
    buf_init(&stages, a);
    for (int i = 0; i < n; i++)
        for (int way = RG_UNFUSED_C; way <= RG_OPEN_C; way++) {
            const CompiledModel *m = runs[i]->model[way];
            for (int k = 0; m && k < m->kernels.n; k++)
                add_source(a, texts, &seen, m->kernels.at[k]->source, &helpers, &stages);
        }
    buf_puts(&helpers, buf_text(&stages));
    char *log;
    const char *name = arena_printf(a, "%s/b%d_%d", w->dir, (int)getpid(), number++);
    const char *source = arena_printf(a, "%s.c", name);
    *object = arena_printf(a, "%s.so", name);
    const char *why = file_write_atomic(a, source, buf_text(&helpers), helpers.size);
    if (!why) why = toolchain_compile(a, &w->tools, source, *object, &log);
    return why;
}

static void run_compiled(RgRun *r, const char *object)
{
    for (int way = RG_UNFUSED_C; way <= RG_OPEN_C && r->outcome == RG_SAME; way++) {
        CompiledModel *m = r->model[way];
        Error e = {0};
        heald_status s = HEALD_OK;
        if (!m) continue;
        for (int k = 0; !s && k < m->kernels.n; k++)
            s = kernel_load(&r->arena, m->kernels.at[k], object, &e);
        if (s) conclude(r, RG_DIFFERS, "%s cannot be loaded: %s", rg_way_name[way], e.text);
        else if (!run(r, (RgWay)way)) return;
        else if (way == RG_OPEN_C) compare_open(r, RG_OPEN_C);
        else compare(r, (RgWay)way);
    }
}

void rg_run_finish(RgWorld *w, RgRun **runs, int n)
{
    Arena scratch = {0};
    const char *object;
    if (!compiles_c(w)) return;
    const char *why = compile_all(w, &scratch, runs, n, &object);
    for (int i = 0; i < n; i++) {
        if (why && n == 1) conclude(runs[i], RG_DIFFERS, "%s: %s", "the C compiler", why);
        else if (why) rg_run_finish(w, runs + i, 1); // whose C it is that does not compile
        else if (runs[i]->outcome == RG_SAME) run_compiled(runs[i], object);
    }
    remove(object);
    arena_free(&scratch);
}

void rg_run_groups(const RgRun *r, Buf *out)
{
    if (r->model[RG_FUSED]) groups_print(&r->model[RG_FUSED]->groups, out);
}

void rg_run_free(RgRun *r)
{
    if (!r) return;
    for (int i = 0; i < RG_WAYS; i++) model_release(r->model[i]);
    arena_free(&r->arena);
    free(r);
}
