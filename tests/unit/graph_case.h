// SPDX-License-Identifier: Apache-2.0
// For tests of graphs: the graph g of a text is specialised, compiled for a target and run by the
// interpreter.
#ifndef HEALD_TESTS_GRAPH_CASE_H
#define HEALD_TESTS_GRAPH_CASE_H

#include "graph/model.h"
#include "ir/interp_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CASE_MAX_VALUES = 4 }; // inputs, and outputs

typedef struct GraphCase {
    Arena arena;
    Sources sources;
    Diag diag;
    Library library;
    Target target;
    Graph *graph;
    void *input[CASE_MAX_VALUES];
} GraphCase;

static inline _Noreturn void case_give_up(GraphCase *c, const char *why)
{
    Buf b;
    buf_init(&b, &c->arena);
    diag_render(&c->diag, &b);
    fail_msg("%s\n%s", why, buf_text(&b));
    abort();
}

static inline void case_load(GraphCase *c, const char *text)
{
    Source *s = sources_add(&c->sources, "test.hd", text, strlen(text));
    Node *file = parse_file(&c->arena, c->library.names, s, &c->diag);
    if (!file || !library_add(&c->library, file, &c->diag)) case_give_up(c, "the text");
}

static inline void *case_fill(GraphCase *c, const GraphValue *v, int i)
{
    int64_t n = graph_value_nelem(v);
    char *x = arena_alloc(&c->arena, (size_t)n * dtype_size(v->type));
    for (int64_t k = 0; k < n; k++)
        dtype_store_f64(v->type, x + (size_t)k * dtype_size(v->type),
                        (double)((k * 7 + k / 11 + i) % 11 - 5) * 0.25);
    return x;
}

// texts: the library's, ended by NULL, the last of which has g. Inputs are filled with small
// numbers; open: the first extent of each is, unless it is a constant.
static inline void case_open(GraphCase *c, Target target, const char *const *texts, bool open)
{
    Arena *a = &c->arena;
    *c = (GraphCase){.target = target};
    c->sources.arena = a;
    diag_init(&c->diag, a, &c->sources);
    library_init(&c->library, a, interner_new(a), &c->sources);
    if (!ops_load(&c->library, NULL, &c->diag)) case_give_up(c, "the library");
    for (; *texts; texts++) case_load(c, *texts);
    const Node *decl = map_get(&c->library.graphs, intern(c->library.names, "g"));
    Target host = target;
    if (host.kind != TARGET_CPU) target_host(&host);
    Graph *g = graph_from_text(a, &c->library, op_table_new(a, &c->library), &host, decl, &c->diag);
    if (!g) case_give_up(c, "the graph");
    const int64_t *dims[CASE_MAX_VALUES];
    const void *data[CASE_MAX_VALUES] = {NULL};
    int rank[CASE_MAX_VALUES];
    for (int i = 0; i < g->inputs.n; i++) {
        GraphValue *v = g->inputs.at[i];
        int64_t *d = NEW_ARRAY(a, int64_t, v->rank);
        bool known = REST(KID((Node *)decl, GRAPH, params))[i]->sub & PARAM_CONST;
        graph_value_dims(v, d);
        c->input[i] = case_fill(c, v, i);
        if (open && !known) v->dims[0] = value_str(intern(c->library.names, "m"));
        if (known) data[i] = c->input[i];
        dims[i] = d;
        rank[i] = v->rank;
    }
    Specialisation s = {.dims = dims, .rank = rank, .data = data, .dynamic = open};
    c->graph = graph_specialise(g, a, &s, &host, &c->diag);
    if (!c->graph) case_give_up(c, "specialising");
}

static inline heald_tensor *case_tensor(const GraphValue *v, void *data)
{
    heald_tensor *t;
    int64_t dims[GRAPH_MAX_RANK];
    graph_value_dims(v, dims);
    assert_int_equal(
        heald_tensor_from_memory((heald_dtype)v->type, v->rank, dims, data, NULL, NULL, &t),
        HEALD_OK);
    return t;
}

// The outputs, computed by the interpreter; off: without fusion. look: at the model, with `user`.
static inline void case_run(GraphCase *c, bool off, void (*look)(void *, const CompiledModel *),
                            void *user, const void **result)
{
    Arena *a = &c->arena;
    const Graph *g = c->graph;
    CompileOptions o = {.builder.interpret = true, .fuse.off = off, .target = c->target};
    CompiledModel *m;
    Error e = {0};
    o.builder.passes.verify = true;
    if (model_compile(c->graph, a, &o, &m, &c->diag, &e)) case_give_up(c, e.text);
    look(user, m);
    Device *device;
    DeviceOptions one = {.nthread = 1};
    heald_tensor *in[CASE_MAX_VALUES], *out[CASE_MAX_VALUES];
    assert_int_equal(device_open(&device_interp, &one, &device, &e), HEALD_OK);
    for (int i = 0; i < g->inputs.n; i++) in[i] = case_tensor(g->inputs.at[i], c->input[i]);
    for (int i = 0; i < g->outputs.n; i++) {
        const GraphValue *v = g->outputs.at[i];
        out[i] = case_tensor(v, arena_alloc(a, (size_t)graph_value_bytes(v)));
    }
    PlanRunner *r;
    assert_int_equal(plan_runner_create(m->plan, device, NULL, &r, &e), HEALD_OK);
    if (plan_run_tensors(r, in, out, &e)) case_give_up(c, e.text);
    for (int i = 0; i < g->outputs.n; i++) result[i] = heald_tensor_data(out[i]);
    for (int i = 0; i < g->inputs.n; i++) heald_tensor_release(in[i]);
    for (int i = 0; i < g->outputs.n; i++) heald_tensor_release(out[i]);
    plan_runner_destroy(r);
    device_close(device);
    model_release(m);
}

#endif
