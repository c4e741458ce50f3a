// SPDX-License-Identifier: Apache-2.0
// Building one kernel. Its name holds a hash of its IR as instantiated, so that equal kernels are
// one; the cache is keyed by the C text and everything about the compiler.
#include "codegen/build.h"
#include "codegen/cuda_build.h"

#include "base/os.h"

#include <string.h>

// ---- sizes for the runtime

typedef struct ShapeRow {
    NodeKind kind;
    ShapeOpKind op;
} ShapeRow;

static const ShapeRow shape_rows[] = {
    {N_ADD, SHAPE_ADD}, {N_SUB, SHAPE_SUB},  {N_MUL, SHAPE_MUL}, {N_DIV, SHAPE_DIV},
    {N_MOD, SHAPE_MOD}, {N_MIN, SHAPE_MIN},  {N_MAX, SHAPE_MAX}, {N_EQ, SHAPE_EQ},
    {N_NE, SHAPE_NE},   {N_LT, SHAPE_LT},    {N_LE, SHAPE_LE},   {N_LAND, SHAPE_AND},
    {N_LOR, SHAPE_OR},  {N_BAND, SHAPE_AND}, {N_BOR, SHAPE_OR},
};

static int dim_number(const Kernel *k, const Var *v)
{
    for (int i = 0; i < k->dims.n; i++)
        if (k->dims.at[i] == v) return i;
    return -1;
}

static bool not_a_size(Diag *d, const Node *n)
{
    diag_error(d, n->loc, "'%s' is no size that is known at launch", node_info[n->kind].spelling);
    return false;
}

bool kernel_shape_expr(Arena *a, const Kernel *k, const Node *n, ShapeExpr *out, Diag *d)
{
    ShapeExpr x[3];
    int dim;
    switch (n->kind) {
    case N_INT: *out = shape_const(a, n->u.i); return true;
    case N_VARREF:
        dim = dim_number(k, n->u.var);
        if (dim < 0) return not_a_size(d, n);
        *out = shape_dim(a, dim);
        return true;
    case N_CAST: return kernel_shape_expr(a, k, n->kid[0], out, d);
    case N_NOT:
        if (!kernel_shape_expr(a, k, n->kid[0], &x[0], d)) return false;
        *out = shape_not(a, x[0]);
        return true;
    case N_SELECT:
        for (int i = 0; i < 3; i++)
            if (!kernel_shape_expr(a, k, n->kid[i], &x[i], d)) return false;
        *out = shape_select(a, x[0], x[1], x[2]);
        return true;
    default: break;
    }
    for (size_t i = 0; i < COUNT(shape_rows); i++) {
        if (shape_rows[i].kind != (NodeKind)n->kind) continue;
        if (!kernel_shape_expr(a, k, n->kid[0], &x[0], d) ||
            !kernel_shape_expr(a, k, n->kid[1], &x[1], d)) {
            return false;
        }
        *out = shape_op(a, shape_rows[i].op, x[0], x[1]);
        return true;
    }
    return not_a_size(d, n);
}

static bool buffer_bytes(Arena *a, const Kernel *k, const Buffer *b, ShapeExpr *out, Diag *d)
{
    *out = shape_const(a, (int64_t)dtype_size(b->type));
    for (int i = 0; i < b->rank; i++) {
        ShapeExpr extent;
        if (!kernel_shape_expr(a, k, b->extent[i], &extent, d)) return false;
        *out = shape_op(a, SHAPE_MUL, *out, extent);
        if (b->flat) break;
    }
    return true;
}

static bool fill_stages(Arena *a, const Kernel *k, RuntimeKernel *r, Diag *d)
{
    RuntimeStage *stages = NEW_ARRAY(a, RuntimeStage, r->nstage);
    for (int i = 0; i < r->nstage; i++) {
        const Stage *s = k->stages.at[i];
        stages[i].name = arena_strdup(a, s->name);
        stages[i].ngrid = s->ngrid;
        for (int g = 0; g < s->ngrid; g++)
            if (!kernel_shape_expr(a, k, s->grid[g], &stages[i].grid[g], d)) return false;
    }
    r->stage = stages;
    return true;
}

static int count_outputs(const Kernel *k)
{
    int n = 0;
    for (int i = 0; i < k->params.n; i++) n += k->params.at[i]->output;
    return n;
}

// Everything of a RuntimeKernel but entry points, scratch and workspaces.
static bool fill_kernel(Arena *a, const Kernel *k, RuntimeKernel *r, Diag *d)
{
    *r = (RuntimeKernel){.name = arena_strdup(a, k->name),
                         .ndim = k->dims.n,
                         .nparam = k->params.n,
                         .noutput = count_outputs(k),
                         .nstage = k->stages.n,
                         .nrequirement = k->requirements.n};
    RuntimeRequirement *req = NEW_ARRAY(a, RuntimeRequirement, r->nrequirement);
    for (int i = 0; i < r->nrequirement; i++) {
        req[i].message = arena_strdup(a, k->requirements.at[i].message);
        if (!kernel_shape_expr(a, k, k->requirements.at[i].cond, &req[i].cond, d)) return false;
    }
    r->require = req;
    return fill_stages(a, k, r, d);
}

static bool fill_memory(Arena *a, const Kernel *k, RuntimeKernel *r, Diag *d)
{
    r->nworkspace = k->workspace.n;
    ShapeExpr *bytes = NEW_ARRAY(a, ShapeExpr, r->nworkspace);
    for (int i = 0; i < r->nworkspace; i++)
        if (!buffer_bytes(a, k, k->workspace.at[i], &bytes[i], d)) return false;
    r->workspace_bytes = bytes;
    int64_t scratch = codegen_scratch_bytes(k, NEW_ARRAY(a, int64_t, k->dims.n));
    for (int i = 0; i < r->nstage; i++) ((RuntimeStage *)r->stage)[i].scratch_bytes = scratch;
    VEC(const char *) checks = {0};
    Loc loc;
    for (const char *text; (text = codegen_check_message(k, checks.n + 1, &loc));)
        VEC_PUSH(a, &checks, text);
    r->ncheck = checks.n;
    r->check = checks.at;
    return true;
}

// ---- names and compiling

static void name_kernel(Arena *a, Kernel *k, const char *op)
{
    Buf text;
    buf_init(&text, a);
    k->name = "kernel";
    kernel_print(k, &text);
    uint64_t hash = hash_bytes(buf_text(&text), text.size, 0);
    char *name = arena_printf(k->arena, "h_%.48s_%016llx", op, (unsigned long long)hash);
    for (char *c = name; *c; c++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", *c))
            *c = '_';
    k->name = name;
}

typedef struct Compile {
    const Toolchain *toolchain;
    const char *source;
} Compile;

// What the compiler said is kept in any case.
const char *build_log(Arena *a, const char *dir, const char *log, const char *why,
                      CacheFailure *failure)
{
    const char *unkept = file_write(a, path_join(a, dir, "log.txt"), log, strlen(log));
    if (!why) return unkept;
    *failure = toolchain_blames_text(log) && !unkept ? CACHE_FAILED_FOR_GOOD : CACHE_FAILED_KEPT;
    return why;
}

static const char *compile_entry(void *user, Arena *a, const char *dir, CacheFailure *failure)
{
    const Compile *c = user;
    const char *source = path_join(a, dir, "source.c");
    char *log = "";
    const char *why = file_write(a, source, c->source, strlen(c->source));
    if (why) return why;
    why = toolchain_compile(a, c->toolchain, source, path_join(a, dir, "lib.so"), &log);
    return build_log(a, dir, log, why, failure);
}

heald_status kernel_load(Arena *a, BuiltKernel *b, const char *path, Error *e)
{
    heald_status s = module_open(path, &b->module, e);
    for (int i = 0; !s && i < b->runtime.nstage; i++) {
        RuntimeStage *stage = &((RuntimeStage *)b->runtime.stage)[i];
        const char *symbol = arena_printf(a, "%s_%s", b->runtime.name, stage->name);
        s = module_entry(b->module, symbol, &stage->entry.cpu, e);
    }
    return s;
}

static bool make_text(const Builder *b, Arena *a, Kernel *k, BuiltKernel *out, Diag *d)
{
    Buf text;
    buf_init(&text, a);
    bool cuda = k->target.kind == TARGET_CUDA;
    if (!passes_run(k, &b->passes, d) || !fill_memory(a, k, &out->runtime, d)) return false;
    if (cuda && !cuda_fill_stages(k, &out->runtime, d)) return false;
    if (!(cuda ? codegen_cuda : codegen_c)(k, b->lines, &text, d)) return false;
    out->source = buf_text(&text);
    return true;
}

// A library from the cache that cannot be loaded is made once more.
static heald_status build_library(const Builder *b, Arena *a, const char *op, BuiltKernel *out,
                                  Error *e)
{
    Toolchain tools = *b->toolchain, *t = &tools;
    if (b->lines)
        tools.flags = arena_printf(a, "%s -gdwarf-4", t->flags); // addr2line 2.40 errs in 5
    const char *key = arena_printf(a, "%s\n// %s\n// %s\n// %s\n// machine %s\n", out->source,
                                   t->cc, t->version, t->flags, t->machine);
    Compile c = {.toolchain = t, .source = out->source};
    for (;;) {
        const char *why =
            cache_get(b->cache, a, op, key, compile_entry, &c, &out->dir, &out->cached);
        if (why) return error_set(e, HEALD_COMPILE, "%s", why);
        heald_status s = kernel_load(a, out, path_join(a, out->dir, "lib.so"), e);
        if (!s || !out->cached) return s;
        module_release(out->module);
        out->module = NULL;
        if (cache_drop(b->cache, a, out->dir)) return s;
    }
}

static heald_status build_text(const Builder *b, Arena *a, Kernel *k, const char *op,
                               BuiltKernel *out, Diag *d, Error *e)
{
    if (!make_text(b, a, k, out, d)) return HEALD_DIAGNOSTIC;
    if (b->source_only) return HEALD_OK;
    if (k->target.kind == TARGET_CUDA) return cuda_build(b, a, op, out, e);
    return build_library(b, a, op, out, e);
}

heald_status kernel_build(const Builder *b, Arena *a, Kernel *k, const char *op, BuiltKernel **out,
                          Diag *d, Error *e)
{
    *out = NULL;
    if (k->target.kind == TARGET_CUDA && !b->interpret) cuda_bound_dims(k);
    name_kernel(a, k, op);
    BuiltKernel *built = NEW(a, BuiltKernel);
    built->kernel = k;
    if (!fill_kernel(a, k, &built->runtime, d)) return HEALD_DIAGNOSTIC;
    if (!b->interpret) {
        heald_status s = build_text(b, a, k, op, built, d, e);
        if (s) kernel_release(built);
        else *out = built;
        return s;
    }
    built->runtime.nstage = 1; // the interpreter runs them all
    RuntimeStage *stage = NEW(a, RuntimeStage);
    *stage = (RuntimeStage){.name = "all", .entry.handle = k};
    built->runtime.stage = stage;
    *out = built;
    return HEALD_OK;
}

void kernel_release(BuiltKernel *k)
{
    if (!k) return;
    module_release(k->module);
    if (k->loaded) k->device->ops->unload_module(k->device, k->loaded);
    k->loaded = NULL;
}
