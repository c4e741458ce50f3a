// SPDX-License-Identifier: Apache-2.0
// Kernels built in C for the interpreter's tests. Every node is at the line of the C source that
// makes it, so a test can say at which of its own lines a diagnostic must be: the macros use the
// variable `k` of type Build *.
#ifndef HEALD_TESTS_INTERP_BUILD_H
#define HEALD_TESTS_INTERP_BUILD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "ir/interp.h"

typedef struct Build {
    Arena arena;
    Sources sources;
    Diag diag;
    Loc base;
    Kernel *kernel;
    Stage *stage;
    void *data[8];
    int64_t dims[4];
    InterpOptions options;
} Build;

enum { BUILD_LINES = 4000 };

static inline void build_start(Build *k, TargetKind kind, int64_t grid, int64_t block)
{
    memset(k, 0, sizeof *k);
    Arena *a = &k->arena;
    k->sources.arena = a;
    char *text = arena_alloc(a, BUILD_LINES + 1);
    memset(text, '\n', BUILD_LINES);
    Source *source = sources_add(&k->sources, "test.c", text, BUILD_LINES);
    k->base = source->base;
    diag_init(&k->diag, a, &k->sources);
    k->kernel = NEW(a, Kernel);
    k->kernel->arena = a;
    k->kernel->name = k->kernel->template_name = "test";
    k->kernel->target.kind = kind;
    k->stage = NEW(a, Stage);
    k->stage->name = "main";
    k->stage->ngrid = 1;
    k->stage->grid[0] = node_i64(a, grid);
    k->stage->block = node_i64(a, block);
    for (int i = VAR_BLOCK_X; i <= VAR_CORE; i++) {
        static const char *const name[] = {"",        "",       "block.x", "block.y",
                                           "block.z", "thread", "lane",    "core"};
        k->stage->builtin[i] = kernel_var(k->kernel, name[i], DT_I64, false);
        k->stage->builtin[i]->builtin = (Builtin)i;
    }
    VEC_PUSH(a, &k->kernel->stages, k->stage);
}

static inline void build_end(Build *k)
{
    arena_free(&k->arena);
}

#define HERE (k->base + (Loc)__LINE__ - 1)
#define NODES(...)                                                     \
    (int)(sizeof((Node *[]){NULL, __VA_ARGS__}) / sizeof(Node *)) - 1, \
        (Node *[]){NULL, __VA_ARGS__} + 1

static inline Node *build_node(Build *k, Loc loc, NodeKind kind, int n, Node **kid)
{
    return node_make(&k->arena, kind, loc, n, kid);
}

#define INT(v) node_int(&k->arena, HERE, DT_I64, (v))
#define F32(v) node_float(&k->arena, HERE, DT_F32, (v))
#define V(var) node_var(&k->arena, HERE, (var))
#define OP(KIND, ...) build_node(k, HERE, N_##KIND, NODES(__VA_ARGS__))
#define ADD(x, y) OP(ADD, x, y)
#define SUB(x, y) OP(SUB, x, y)
#define MUL(x, y) OP(MUL, x, y)
#define DIV(x, y) OP(DIV, x, y)
#define MOD(x, y) OP(MOD, x, y)
#define LT(x, y) OP(LT, x, y)
#define EQ(x, y) OP(EQ, x, y)
static inline Node *build_lanes(Node *n, int64_t step, int lanes)
{
    n->lanes = (uint16_t)lanes;
    if (n->kind == N_RAMP) n->u.i = step;
    return n;
}
#define BROADCAST(x, lanes) build_lanes(OP(BROADCAST, x), 0, lanes)
#define RAMP(base, step, lanes) build_lanes(OP(RAMP, base), step, lanes)
#define THREAD V(k->stage->builtin[VAR_THREAD])
#define LANE V(k->stage->builtin[VAR_LANE])
#define BLOCK_X V(k->stage->builtin[VAR_BLOCK_X])

#define SEQ(...) build_node(k, HERE, N_SEQ, NODES(__VA_ARGS__))
#define IF(cond, then) build_node(k, HERE, N_IF, 3, (Node *[]){cond, then, NULL})
#define IF_ELSE(cond, then, other) build_node(k, HERE, N_IF, 3, (Node *[]){cond, then, other})
#define WHILE(cond, body) OP(WHILE, cond, body)
#define BREAK OP(BREAK)
#define CONTINUE OP(CONTINUE)
#define ROLE(cond, body) OP(ROLE, cond, body)
#define ONE(body) OP(ONE, body)

static inline Node *build_var_node(Build *k, Loc loc, NodeKind kind, Var *v, int n, Node **kid)
{
    Node *node = build_node(k, loc, kind, n, kid);
    node->u.var = v;
    return node;
}
#define VARIABLE(name) kernel_var(k->kernel, name, DT_I64, true)
#define FLOAT_VARIABLE(name) kernel_var(k->kernel, name, DT_F32, true)
#define DEFINE(v, value) build_var_node(k, HERE, N_DEFINE, v, 1, (Node *[]){value})
#define DECLARE(v, value) build_var_node(k, HERE, N_DECLARE, v, 1, (Node *[]){value})
#define SET(v, value) build_var_node(k, HERE, N_SET, v, 1, (Node *[]){value})
#define LOOP(v, lo, hi, body) build_var_node(k, HERE, N_LOOP, v, 3, (Node *[]){lo, hi, body})

static inline Node *build_access(Build *k, Loc loc, NodeKind kind, Buffer *b, int n, Node **kid)
{
    Node *node = build_node(k, loc, kind, n, kid);
    node->u.buf = b;
    if (kind == N_LOAD || kind == N_LOAD_ELSE) {
        node->type = (uint8_t)b->type;
        node->lanes = 1;
        for (int i = 0; i < n; i++)
            if (kid[i]->lanes > node->lanes) node->lanes = kid[i]->lanes;
    }
    return node;
}
#define LOAD(b, ...) build_access(k, HERE, N_LOAD, b, NODES(__VA_ARGS__))
#define LOAD_ELSE(b, other, ...) build_access(k, HERE, N_LOAD_ELSE, b, NODES(other, __VA_ARGS__))
#define STORE(b, value, ...) build_access(k, HERE, N_STORE, b, NODES(value, __VA_ARGS__))
#define REF(b, ...) build_access(k, HERE, N_REF, b, NODES(__VA_ARGS__))
#define ALLOC(b, init) build_access(k, HERE, N_ALLOC, b, 1, (Node *[]){init})
#define SPAN(lo, len) OP(SPAN, lo, len)

static inline Node *build_drop(Node *store)
{
    store->sub = GUARD_DROP;
    return store;
}

static inline Node *build_intrinsic(Build *k, Loc loc, IntrinsicId id, DType type, int n,
                                    Node **kid)
{
    Node *node = build_node(k, loc, N_INTRIN, n, kid);
    node->u.intr = &intrinsics[id];
    node->type = (uint8_t)type;
    node->lanes = type == DT_NONE ? 0 : 1;
    return node;
}
#define INTRIN(ID, type, ...) build_intrinsic(k, HERE, INTR_##ID, type, NODES(__VA_ARGS__))
#define DO(ID, ...) OP(EVAL, build_intrinsic(k, HERE, INTR_##ID, DT_NONE, NODES(__VA_ARGS__)))
#define FMA(x, y, z) INTRIN(FMA, DT_F32, x, y, z)
#define BARRIER OP(EVAL, build_intrinsic(k, HERE, INTR_BARRIER, DT_NONE, 0, NULL))

static inline Node *build_mapfor(Build *k, Loc loc, const Mapping *map, int n, Node **kid)
{
    Node *node = build_node(k, loc, N_MAPFOR, n, kid);
    node->u.map = map;
    return node;
}
#define MAPFOR(map, worker, body, ...) build_mapfor(k, HERE, map, NODES(worker, body, __VA_ARGS__))

static inline Buffer *build_buffer(Build *k, Loc loc, const char *name, Space space, DType type,
                                   int rank, const int64_t *extent)
{
    Node *node[8];
    for (int i = 0; i < rank; i++) node[i] = node_i64(&k->arena, extent[i]);
    Buffer *b = kernel_buffer(k->kernel, name, space, type, rank, node);
    b->loc = loc;
    return b;
}
#define SIZES(...)                                                         \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) \
    {                                                                      \
        __VA_ARGS__                                                        \
    }

static inline Buffer *build_param(Build *k, Loc loc, const char *name, void *data, DType type,
                                  bool output, int rank, const int64_t *extent)
{
    Buffer *b = build_buffer(k, loc, name, SPACE_GLOBAL, type, rank, extent);
    b->param = k->kernel->params.n;
    b->output = output;
    k->data[b->param] = data;
    VEC_PUSH(&k->arena, &k->kernel->params, b);
    return b;
}
#define INPUT(name, data, type, ...) \
    build_param(k, HERE, name, data, type, false, SIZES(__VA_ARGS__))
#define OUTPUT(name, data, type, ...) \
    build_param(k, HERE, name, data, type, true, SIZES(__VA_ARGS__))

static inline Buffer *build_shared(Build *k, Buffer *b)
{
    VEC_PUSH(&k->arena, &k->stage->memory, b);
    return b;
}
#define SHARED(name, type, ...) \
    build_shared(k, build_buffer(k, HERE, name, SPACE_SHARED, type, SIZES(__VA_ARGS__)))
#define LOCAL(name, type, ...) build_buffer(k, HERE, name, SPACE_LOCAL, type, SIZES(__VA_ARGS__))

static inline Buffer *build_mbarriers(Build *k, Loc loc, const char *name, int64_t n,
                                      int64_t arrivals)
{
    Buffer *b = build_shared(k, build_buffer(k, loc, name, SPACE_SHARED, DT_NONE, 1, &n));
    b->is_mbarrier = true;
    b->arrivals = arrivals;
    return b;
}
#define MBARRIERS(name, n, arrivals) build_mbarriers(k, HERE, name, n, arrivals)

static inline const Mapping *build_map(const Mapping *m, const char *why)
{
    if (!m) fail_msg("no mapping: %s", why ? why : "?");
    return m;
}
static inline const Mapping *build_spatial(Build *k, int rank, const int64_t *shape)
{
    const char *why = NULL;
    return build_map(mapping_spatial(&k->arena, rank, shape, NULL, &why), why);
}
static inline const Mapping *build_repeat(Build *k, int rank, const int64_t *shape)
{
    const char *why = NULL;
    return build_map(mapping_repeat(&k->arena, rank, shape, NULL, NULL, &why), why);
}
static inline const Mapping *build_compose(Build *k, const Mapping *f, const Mapping *g)
{
    const char *why = NULL;
    return build_map(mapping_compose(&k->arena, f, g, &why), why);
}
#define SPATIAL(...) build_spatial(k, SIZES(__VA_ARGS__))
#define REPEAT(...) build_repeat(k, SIZES(__VA_ARGS__))
#define COMPOSE(f, g) build_compose(k, f, g)

static inline bool build_run(Build *k, Node *body)
{
    k->stage->body = body;
    return interp_run(k->kernel, k->data, k->dims, &k->options, &k->diag);
}

static inline void build_show(Build *k)
{
    Buf out;
    buf_init(&out, &k->arena);
    diag_render(&k->diag, &out);
    fprintf(stderr, "%s", buf_text(&out));
}

static inline void build_passes(Build *k, Node *body)
{
    bool ok = build_run(k, body);
    if (!ok) build_show(k);
    assert_true(ok);
    assert_int_equal(k->diag.nerror, 0);
}

// The run must end with one error, at this line, with this text in it.
static inline void build_fails(Build *k, Node *body, int line, const char *text)
{
    assert_false(build_run(k, body));
    Message *m = k->diag.messages.at;
    bool right = k->diag.nerror == 1 && strstr(m->text, text) &&
                 sources_place(&k->sources, m->loc).line == line;
    if (!right) {
        build_show(k);
        fail_msg("wanted line %d: ...%s...", line, text);
    }
}

#endif
