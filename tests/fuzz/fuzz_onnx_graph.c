// SPDX-License-Identifier: Apache-2.0
// Any bytes as a model that is imported and specialised: for sizes at hand and with open
// dimensions, also with its optional inputs given, then what was cut off it, to some depth. What
// fails has reported why.
#include "frontends/onnx_import.h"
#include "graph/cut.h"

#include <stdlib.h>
#include <string.h>

enum { WORLD_RUNS = 300, MAX_SECTIONS = 12, FOLD_LIMIT = 2048 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// The library; made anew now and then, as names that models bring stay in it.
static struct World {
    Arena arena;
    Sources sources;
    Library library;
    OpTable *ops;
    Target target;
    int runs;
} world;

static bool open_world(jmp_buf *nomem)
{
    if (world.ops && ++world.runs < WORLD_RUNS) return true;
    arena_free(&world.arena);
    world = (struct World){.arena.nomem = nomem, .sources.arena = &world.arena};
    Diag d;
    diag_init(&d, &world.arena, &world.sources);
    library_init(&world.library, &world.arena, interner_new(&world.arena), &world.sources);
    if (!ops_load(&world.library, NULL, &d)) abort();
    world.ops = op_table_new(&world.arena, &world.library);
    target_host(&world.target);
    return true;
}

typedef struct Try {
    Arena *arena;
    Diag *diag;
    int nsection; // so far
} Try;

// Extents and elements for an input: small, and never the same twice.
static bool made_up(Try *t, const GraphValue *v, int i, int64_t *dims, int *rank, void **data,
                    DType *type)
{
    int64_t n = 1;
    *rank = v->rank < 0 ? i % 3 : v->rank;
    *type = v->type != DT_NONE ? v->type : *rank ? DT_F32 : DT_I64;
    for (int k = 0; k < *rank; k++) {
        bool known = v->rank >= 0 && v->dims[k].kind == V_INT;
        dims[k] = known ? v->dims[k].u.i : 1 + (i + k) % 3;
        if (dims[k] < 0 || dims[k] > 4096 || (n *= dims[k]) > 65536) return false;
    }
    size_t size = dtype_size(*type);
    *data = arena_alloc(t->arena, (size_t)n * size + 16);
    memset(*data, 0, (size_t)n * size + 16);
    for (int64_t k = 0; k < n; k++) dtype_store_i64(*type, (char *)*data + (size_t)k * size, k + 1);
    return true;
}

static void try_graph(Try *t, const Graph *g, bool dynamic)
{
    int n = g->inputs.n;
    if (++t->nsection > MAX_SECTIONS || n > 64) return;
    const int64_t **dims = NEW_ARRAY(t->arena, const int64_t *, n);
    const void **data = NEW_ARRAY(t->arena, const void *, n);
    void **known = NEW_ARRAY(t->arena, void *, n);
    bool *open = NEW_ARRAY(t->arena, bool, n), *wanted = NEW_ARRAY(t->arena, bool, n);
    DType *type = NEW_ARRAY(t->arena, DType, n);
    int *rank = NEW_ARRAY(t->arena, int, n);
    for (int i = 0; i < n; i++) {
        int64_t *d = NEW_ARRAY(t->arena, int64_t, GRAPH_MAX_RANK);
        if (!made_up(t, g->inputs.at[i], i, d, &rank[i], &known[i], &type[i])) return;
        if (g->must_know && g->must_know[i]) data[i] = known[i];
        dims[i] = d;
    }
    Specialisation s = {.dims = dims,
                        .rank = rank,
                        .data = data,
                        .open = open,
                        .type = type,
                        .cut = true,
                        .dynamic = dynamic,
                        .fold_limit = FOLD_LIMIT,
                        .wanted = wanted};
    Graph *to = NULL;
    for (bool more = true; more && !to;) {
        more = false;
        diag_clear(t->diag);
        memset(wanted, 0, (size_t)n * sizeof *wanted);
        to = graph_specialise(g, t->arena, &s, &world.target, t->diag);
        if (!to && !t->diag->nerror) abort();
        for (int i = 0; i < n && !to; i++) {
            if (!wanted[i] || (data[i] && !open[i])) continue;
            open[i] = dynamic && !data[i] && !dtype_is_float(type[i]) && type[i] != DT_BOOL;
            data[i] = known[i];
            more = true;
        }
    }
    if (!to) return;
    if (!dynamic && graph_broken_requirement(to)) abort();
    Groups groups = graph_fuse(to, t->arena, &world.target, &(FuseOptions){0});
    Buf text;
    buf_init(&text, t->arena);
    graph_print(to, &text);
    groups_print(&groups, &text);
    for (int i = 0; to->cut && i < to->cut->graphs.n; i++)
        if (to->cut->graphs.at[i]) try_graph(t, to->cut->graphs.at[i], dynamic);
}

static void try_model(Arena *a, const uint8_t *data, size_t size)
{
    OnnxModel *m;
    if (onnx_model_parse(a, "fuzz.onnx", data, size, &m)) return;
    Diag d;
    diag_init(&d, a, &world.sources);
    Graph *g = onnx_import(a, &world.library, world.ops, m, NULL, &d);
    if (!g != (d.nerror > 0)) abort();
    bool given[64];
    memset(given, true, sizeof given);
    bool optional = g && g->defaults.n > 0 && g->defaults.n <= (int)COUNT(given);
    for (int way = 0; g && way < (optional ? 4 : 2); way++) {
        Try t = {.arena = a, .diag = &d};
        try_graph(&t, way < 2 ? g : graph_without_defaults(g, a, given), way % 2);
    }
    onnx_model_close(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    jmp_buf nomem;
    Arena arena = {.limit_bytes = (size_t)256 << 20, .nomem = &nomem};
    if (!setjmp(nomem) && open_world(&nomem)) {
        world.arena.nomem = &nomem;
        try_model(&arena, data, size);
    }
    arena_free(&arena);
    return 0;
}
