// SPDX-License-Identifier: Apache-2.0
// For tests of passes and codegen: small kernels built in C, and the differential check. The
// interpreter on the kernel as built, on the kernel after each pass, and the compiled C must agree
// bit for bit (any NaN equals any other).
#ifndef HEALD_TESTS_CODEGEN_KIT_H
#define HEALD_TESTS_CODEGEN_KIT_H

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/os.h"
#include "codegen/codegen.h"
#include "ir/interp.h"
#include "ir/scalar.h"
#include "passes/pass.h"
#include "passes/passes.h"

enum { KIT_MAX_BUFFERS = 8 };

typedef int32_t StageFn(void *const *buffers, const int64_t *dims, int64_t first, int64_t last,
                        void *scratch);

typedef struct Kit {
    Arena arena;
    Sources sources;
    Diag diag;
    Kernel *kernel;
    Stage *stage;
    Var *lane;
    uint64_t random;
    const char *extra_flags; // for the compiler
    const char *text;        // the C text
    StageFn *fn;             // compiled from it, once
    void *handle;
    bool traps;
} Kit;

static inline Kit *kit_new(void)
{
    Kit *t = calloc(1, sizeof *t);
    t->sources.arena = &t->arena;
    diag_init(&t->diag, &t->arena, &t->sources);
    t->kernel = NEW(&t->arena, Kernel);
    t->kernel->arena = &t->arena;
    t->kernel->name = "h_test";
    t->kernel->template_name = "test";
    target_host(&t->kernel->target);
    t->stage = NEW(&t->arena, Stage);
    t->stage->name = "main";
    VEC_PUSH(&t->arena, &t->kernel->stages, t->stage);
    t->random = 1;
    return t;
}

static inline void kit_free(Kit *t)
{
    if (t->handle) dlclose(t->handle);
    arena_free(&t->arena);
    free(t);
}

static inline uint32_t kit_random(Kit *t)
{
    t->random = t->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(t->random >> 33);
}

// ---- building

static inline Node *I(Kit *t, int64_t v)
{
    return node_i64(&t->arena, v);
}
static inline Node *F(Kit *t, double v)
{
    return node_float(&t->arena, 0, DT_F32, v);
}
static inline Node *R(Kit *t, Var *v)
{
    return node_var(&t->arena, 0, v);
}
static inline Node *bin(Kit *t, NodeKind k, Node *x, Node *y)
{
    return node_binary(&t->arena, k, x, y);
}
static inline Node *add(Kit *t, Node *x, Node *y)
{
    return bin(t, N_ADD, x, y);
}
static inline Node *mul(Kit *t, Node *x, Node *y)
{
    return bin(t, N_MUL, x, y);
}
static inline Var *kit_var(Kit *t, const char *name)
{
    return kernel_var(t->kernel, name, DT_I64, false);
}
static inline Var *kit_builtin(Kit *t, const char *name, Builtin b)
{
    if (t->stage->builtin[b]) return t->stage->builtin[b];
    Var *v = kit_var(t, name);
    v->builtin = b;
    t->stage->builtin[b] = v;
    return v;
}
static inline Var *kit_dim(Kit *t, const char *name)
{
    Var *v = kit_var(t, name);
    v->builtin = VAR_DIM;
    VEC_PUSH(&t->arena, &t->kernel->dims, v);
    return v;
}
static inline Buffer *kit_buffer(Kit *t, const char *name, DType type, int rank,
                                 Node *const *extent, bool output)
{
    Buffer *b = kernel_buffer(t->kernel, name, SPACE_GLOBAL, type, rank, extent);
    b->param = t->kernel->params.n;
    b->output = output;
    VEC_PUSH(&t->arena, &t->kernel->params, b);
    return b;
}
static inline Node *load1(Kit *t, Buffer *b, Node *i)
{
    return make_load(&t->arena, 0, b, 1, &i);
}
static inline Node *load2(Kit *t, Buffer *b, Node *i, Node *j)
{
    return make_load(&t->arena, 0, b, 2, (Node *[]){i, j});
}
static inline Node *load_else(Kit *t, Buffer *b, int n, Node *const *index, Node *other)
{
    Node *l = node_new(&t->arena, N_LOAD_ELSE, 0, n + 1);
    l->u.buf = b;
    l->type = (uint8_t)b->type;
    l->lanes = 1;
    l->kid[0] = other;
    for (int i = 0; i < n; i++) l->kid[i + 1] = index[i];
    return l;
}
static inline Node *store(Kit *t, Buffer *b, int n, Node *const *index, Node *value, int guard)
{
    return make_store(&t->arena, 0, b, n, index, value, guard);
}
static inline Node *intrinsic(Kit *t, const char *name, int n, Node *const *args)
{
    Node *i = node_make(&t->arena, N_INTRIN, 0, n, args);
    i->u.intr = intrinsic_find(name, n);
    i->type = args[0]->type;
    i->lanes = args[0]->lanes;
    return i;
}
static inline Node *seq(Kit *t, int n, Node *const *stmts)
{
    return node_make(&t->arena, N_SEQ, 0, n, stmts);
}
#define SEQ(t, ...) \
    seq(t, (int)(sizeof((Node *[]){__VA_ARGS__}) / sizeof(Node *)), (Node *[]){__VA_ARGS__})
static inline Node *loop(Kit *t, Var *v, Node *lo, Node *hi, Node *body)
{
    return make_loop(&t->arena, 0, v, lo, hi, LOOP_DEFAULT, body);
}
static inline Node *mapfor(Kit *t, const Mapping *m, Node *worker, Var **vars, Node *body)
{
    Node *n = node_new(&t->arena, N_MAPFOR, 0, 2 + m->rank);
    n->u.map = m;
    n->kid[0] = worker;
    n->kid[1] = body;
    for (int i = 0; i < m->rank; i++) n->kid[2 + i] = R(t, vars[i]);
    return n;
}
static inline const Mapping *spatial(Kit *t, int rank, const int64_t *shape)
{
    const char *why = NULL;
    return mapping_spatial(&t->arena, rank, shape, NULL, &why);
}
static inline const Mapping *repeat(Kit *t, int rank, const int64_t *shape)
{
    const char *why = NULL;
    return mapping_repeat(&t->arena, rank, shape, NULL, NULL, &why);
}
static inline const Mapping *compose(Kit *t, const Mapping *f, const Mapping *g)
{
    const char *why = NULL;
    return mapping_compose(&t->arena, f, g, &why);
}
#define SHAPE(...) ((const int64_t[]){__VA_ARGS__})

// ---- data

static inline int64_t kit_elements(Kit *t, const Buffer *b, const int64_t *dims)
{
    int64_t n = 1;
    for (int i = 0; i < b->rank; i++) n *= node_eval_dims(b->extent[i], t->kernel, dims);
    return b->layout ? b->layout->size : n;
}

// Ordinary values with NaN, infinities, zeros of both signs and small numbers among them.
static inline void kit_fill(Kit *t, const Buffer *b, void *p, int64_t n)
{
    static const double odd[] = {0.0, -0.0, 1.0, -1.0, 1e-40, 3e38, -3e38, 0.5, 2.5, -1.5};
    size_t size = dtype_size(b->type);
    for (int64_t i = 0; i < n; i++) {
        char *at = (char *)p + (size_t)i * size;
        if (dtype_is_float(b->type)) {
            uint32_t r = kit_random(t) % 64;
            double v = (double)(int32_t)(kit_random(t) % 2001) / 100 - 10;
            if (r == 0) v = __builtin_nan("");
            if (r == 1) v = __builtin_inf();
            if (r == 2) v = -__builtin_inf();
            if (r > 2 && r < 3 + (int)COUNT(odd)) v = odd[r - 3];
            dtype_store_f64(b->type, at, v);
        } else {
            int64_t v = (int64_t)((uint64_t)kit_random(t) << 32 | kit_random(t));
            dtype_store_i64(b->type, at,
                            b->type == DT_BOOL  ? v & 1
                            : kit_random(t) % 4 ? v % 50
                                                : v);
        }
    }
}

static inline bool kit_same(DType type, const void *p, const void *q, int64_t n, int64_t *where)
{
    size_t size = dtype_size(type);
    for (int64_t i = 0; i < n; i++) {
        Scalar x = scalar_load(type, (const char *)p + (size_t)i * size);
        Scalar y = scalar_load(type, (const char *)q + (size_t)i * size);
        if (scalar_bits_equal(&x, &y)) continue;
        *where = i;
        return false;
    }
    return true;
}

typedef struct KitData {
    void *at[KIT_MAX_BUFFERS];
    int64_t n[KIT_MAX_BUFFERS];
} KitData;

static inline void kit_data_copy(Kit *t, const KitData *from, KitData *to)
{
    for (int i = 0; i < t->kernel->params.n; i++) {
        size_t size = (size_t)from->n[i] * dtype_size(t->kernel->params.at[i]->type);
        to->n[i] = from->n[i];
        to->at[i] = aligned_alloc(64, (size + 127) / 64 * 64);
        memcpy(to->at[i], from->at[i], size);
    }
}

static inline void kit_data_free(Kit *t, KitData *d)
{
    for (int i = 0; i < t->kernel->params.n; i++) free(d->at[i]);
}

static inline void kit_fail_messages(Kit *t, const char *what)
{
    Buf b;
    buf_init(&b, &t->arena);
    diag_render(&t->diag, &b);
    kernel_print(t->kernel, &b);
    fail_msg("%s\n%s", what, buf_text(&b));
}

// ---- running

static inline StageFn *kit_compile(Kit *t, const Kernel *lowered)
{
    if (t->fn) return t->fn;
    Buf text;
    const char *why = NULL;
    buf_init(&text, &t->arena);
    if (!codegen_c(lowered, NULL, &text, &t->diag)) kit_fail_messages(t, "codegen_c");
    t->text = buf_text(&text);
    char dir[] = "heald-test-XXXXXX";
    char *base = arena_printf(&t->arena, "%s", getenv("TMPDIR") ? getenv("TMPDIR") : P_tmpdir);
    char *folder = path_join(&t->arena, base, dir);
    assert_non_null(mkdtemp(folder));
    const char *c = path_join(&t->arena, folder, "k.c"), *so = path_join(&t->arena, folder, "k.so");
    assert_null(file_write_atomic(&t->arena, c, t->text, text.size));
    Toolchain tc;
    assert_true(toolchain_find(&t->arena, &t->kernel->target, &tc, &why));
    if (t->extra_flags) tc.flags = arena_printf(&t->arena, "%s %s", tc.flags, t->extra_flags);
    char *log = NULL;
    const char *failed = toolchain_compile(&t->arena, &tc, c, so, &log);
    if (failed) fail_msg("%s\n%s", failed, t->text);
    t->handle = dlopen(so, RTLD_NOW | RTLD_LOCAL);
    if (!t->handle) fail_msg("%s", dlerror());
    if (!getenv("HEALD_KEEP")) dir_remove(&t->arena, folder);
    *(void **)&t->fn = dlsym(t->handle, "h_test_main");
    assert_non_null(t->fn);
    return t->fn;
}

static inline void kit_expect(Kit *t, const KitData *want, const KitData *got, const char *what)
{
    for (int i = 0; i < t->kernel->params.n; i++) {
        int64_t where = 0;
        const Buffer *b = t->kernel->params.at[i];
        if (kit_same(b->type, want->at[i], got->at[i], want->n[i], &where)) continue;
        Buf out;
        buf_init(&out, &t->arena);
        kernel_print(t->kernel, &out);
        size_t size = dtype_size(b->type);
        fail_msg("%s: %s[%lld] is %a, not %a\n%s\n%s", what, b->name, (long long)where,
                 dtype_load_f64(b->type, (char *)got->at[i] + (size_t)where * size),
                 dtype_load_f64(b->type, (char *)want->at[i] + (size_t)where * size),
                 buf_text(&out), t->text ? t->text : "");
    }
}

static inline void kit_interpret(Kit *t, const Kernel *k, KitData *d, const int64_t *dims,
                                 const char *what)
{
    if (interp_run(k, d->at, dims, &(InterpOptions){0}, &t->diag)) return;
    t->kernel = (Kernel *)k;
    kit_fail_messages(t, what);
}

// The check, for one choice of dims. Builds each pass's result anew from the kernel.
static inline void kit_differential(Kit *t, const int64_t *dims)
{
    Kernel *k = t->kernel;
    KitData start = {0}, want, got;
    for (int i = 0; i < k->params.n; i++) {
        start.n[i] = kit_elements(t, k->params.at[i], dims);
        start.at[i] = calloc((size_t)start.n[i] + 1, dtype_size(k->params.at[i]->type));
        kit_fill(t, k->params.at[i], start.at[i], start.n[i]);
    }
    kit_data_copy(t, &start, &want);
    if (!kernel_verify(k, &t->diag)) kit_fail_messages(t, "the kernel as built");
    kit_interpret(t, k, &want, dims, "the kernel as built");

    Kernel *lowered = NULL;
    for (int p = 0; p < npass; p++) {
        lowered = kernel_clone(&t->arena, k);
        PassOptions o = {.verify = true, .stop_after = passes[p].name, .traps = t->traps};
        if (!passes_run(lowered, &o, &t->diag)) {
            t->kernel = lowered;
            kit_fail_messages(t, passes[p].name);
        }
        kit_data_copy(t, &start, &got);
        kit_interpret(t, lowered, &got, dims, passes[p].name);
        t->kernel = lowered;
        kit_expect(t, &want, &got, passes[p].name);
        kit_data_free(t, &got);
        t->kernel = k;
    }
    StageFn *fn = kit_compile(t, lowered);
    kit_data_copy(t, &start, &got);
    int64_t blocks = 1;
    for (int i = 0; i < t->stage->ngrid; i++) blocks *= node_eval_dims(t->stage->grid[i], k, dims);
    void *scratch = aligned_alloc(64, (size_t)codegen_scratch_bytes(lowered, dims) + 64);
    assert_int_equal(fn(got.at, dims, 0, blocks, scratch), 0);
    t->kernel = lowered;
    kit_expect(t, &want, &got, "compiled C");
    t->kernel = k;
    free(scratch);
    kit_data_free(t, &got);
    kit_data_free(t, &want);
    kit_data_free(t, &start);
}

#endif
