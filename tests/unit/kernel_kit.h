// SPDX-License-Identifier: Apache-2.0
// For tests of the library's texts: parses lib/, instantiates a template on tensors and chains of
// ops, and runs it by the interpreter and as compiled C.
#ifndef HEALD_TESTS_KERNEL_KIT_H
#define HEALD_TESTS_KERNEL_KIT_H

#include <dlfcn.h>
#include <math.h>
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
#include "lang/instantiate.h"
#include "passes/passes.h"

typedef int32_t StageFn(void *const *buffers, const int64_t *dims, int64_t first, int64_t last,
                        void *scratch);

// One kernel in the making; then, compiled, one to run at many dims.
typedef struct Kit {
    Arena arena;
    Sources sources;
    Diag diag;
    Library lib;
    Target target;
    Instance *in;
    Kernel *made, *lowered; // as instantiated; after the passes
    void *handle;
    const char *text;
    const char *extra_flags; // for the compiler, or NULL
} Kit;

static inline void kit_fail(Kit *k, const char *what)
{
    Buf b;
    buf_init(&b, &k->arena);
    diag_render(&k->diag, &b);
    fail_msg("%s\n%s", what, buf_text(&b));
}

static inline void kit_parse(Kit *k, const char *name, const char *text)
{
    Source *s = sources_add(&k->sources, name, text, strlen(text));
    Node *file = parse_file(&k->arena, k->lib.names, s, &k->diag);
    if (!file || !library_add(&k->lib, file, &k->diag)) kit_fail(k, name);
}

// The library's files named, below lib/ and without .hd, separated by blanks.
static inline Kit *kit_new(const char *files)
{
    Kit *k = calloc(1, sizeof *k);
    k->sources.arena = &k->arena;
    diag_init(&k->diag, &k->arena, &k->sources);
    library_init(&k->lib, &k->arena, interner_new(&k->arena), &k->sources);
    target_host(&k->target);
    char *list = arena_printf(&k->arena, "%s", files), *rest;
    for (char *f = strtok_r(list, " ", &rest); f; f = strtok_r(NULL, " ", &rest)) {
        char *text;
        size_t size;
        const char *path = arena_printf(&k->arena, "lib/%s.hd", f);
        const char *failed = file_read(&k->arena, path, &text, &size);
        if (failed) fail_msg("%s", failed);
        kit_parse(k, path, text);
    }
    k->in = instance_new(&k->arena, &k->lib, &k->target, &k->diag);
    return k;
}

static inline void kit_free(Kit *k)
{
    if (k->handle) dlclose(k->handle);
    arena_free(&k->arena);
    free(k);
}

static inline Value kit_expression(Kit *k, const char *text)
{
    Source *s = sources_add(&k->sources, "value", text, strlen(text));
    Node *n = parse_expression(&k->arena, k->lib.names, s, &k->diag);
    Value v = n ? evaluate_expression(&k->arena, &k->lib, &k->target, n, &k->diag) : value_none();
    if (k->diag.nerror) kit_fail(k, text);
    return v;
}

// Attributes as "name=value;name=value".
static inline Map kit_attrs(Kit *k, const char *text)
{
    Map attrs = {0};
    char *list = arena_printf(&k->arena, "%s", text ? text : ""), *rest;
    for (char *f = strtok_r(list, ";", &rest); f; f = strtok_r(NULL, ";", &rest)) {
        char *eq = strchr(f, '=');
        Value *v = NEW(&k->arena, Value);
        *eq = 0;
        *v = kit_expression(k, eq + 1);
        map_put(&k->arena, &attrs, intern(k->lib.names, f), v);
    }
    return attrs;
}

static inline Value kit_value(Tensor *t)
{
    return (Value){.kind = V_TENSOR, .u.tensor = t};
}

// The first result of an op applied.
static inline Tensor *kit_op(Kit *k, const char *op, int n, const Value *args, const char *attrs)
{
    Map m = kit_attrs(k, attrs);
    const Node *decl = map_get(&k->lib.ops, intern(k->lib.names, op));
    if (!decl) fail_msg("no op '%s'", op);
    OpInst *o = op_apply(k->in, 0, decl, n, args, &m);
    if (!o) kit_fail(k, op);
    return o->results[0];
}

static inline void kit_kernel(Kit *k, const char *name, int n, const Value *args, const char *attrs,
                              const Epilogue *results, int nresult, const Choices *choices)
{
    Map m = kit_attrs(k, attrs);
    const Node *decl = map_get(&k->lib.kernels, intern(k->lib.names, name));
    if (!decl) fail_msg("no kernel '%s'", name);
    if (!instance_kernel(k->in, decl, n, args, &m, results, nresult, choices)) kit_fail(k, name);
    k->made = k->in->kernel;
    k->made->name = "h_test";
    if (!kernel_verify(k->made, &k->diag)) kit_fail(k, name);
}

static inline void kit_compile(Kit *k)
{
    k->lowered = kernel_clone(&k->arena, k->made);
    if (!passes_run(k->lowered, &(PassOptions){.verify = true}, &k->diag)) kit_fail(k, "passes");
    Buf text;
    const char *why = NULL, *base = getenv("TMPDIR") ? getenv("TMPDIR") : P_tmpdir;
    buf_init(&text, &k->arena);
    if (!codegen_c(k->lowered, NULL, &text, &k->diag)) kit_fail(k, "codegen");
    k->text = buf_text(&text);
    char *folder = path_join(&k->arena, base, "heald-test-XXXXXX");
    assert_non_null(mkdtemp(folder));
    const char *c = path_join(&k->arena, folder, "k.c"), *so = path_join(&k->arena, folder, "k.so");
    assert_null(file_write_atomic(&k->arena, c, k->text, text.size));
    Toolchain tc;
    char *log = NULL;
    if (!toolchain_find(&k->arena, &k->target, &tc, &why)) fail_msg("%s", why);
    if (k->extra_flags) tc.flags = arena_printf(&k->arena, "%s %s", tc.flags, k->extra_flags);
    const char *failed = toolchain_compile(&k->arena, &tc, c, so, &log);
    if (failed) fail_msg("%s", failed);
    k->handle = dlopen(so, RTLD_NOW | RTLD_LOCAL);
    if (!k->handle) fail_msg("%s", dlerror());
    if (!getenv("HEALD_KEEP")) dir_remove(&k->arena, folder);
    else printf("# %s\n", folder);
}

static inline size_t kit_bytes(const Kit *k, const Buffer *b, const int64_t *dims)
{
    int64_t n = 1;
    for (int i = 0; i < b->rank; i++) n *= node_eval_dims(b->extent[i], k->made, dims);
    return (size_t)n * dtype_size(b->type);
}

// data: the kernel's parameters.
static inline void kit_run_compiled(Kit *k, void *const *data, const int64_t *dims)
{
    const Kernel *l = k->lowered;
    int n = l->params.n;
    void *buffers[32];
    memcpy(buffers, data, (size_t)n * sizeof *data);
    for (int i = 0; i < l->workspace.n; i++)
        buffers[n + i] =
            aligned_alloc(64, (kit_bytes(k, l->workspace.at[i], dims) + 127) / 64 * 64);
    void *scratch = aligned_alloc(64, ((size_t)codegen_scratch_bytes(l, dims) + 127) / 64 * 64);
    for (int i = 0; i < l->stages.n; i++) {
        const Stage *s = l->stages.at[i];
        StageFn *fn;
        *(void **)&fn = dlsym(k->handle, arena_printf(&k->arena, "h_test_%s", s->name));
        assert_non_null(fn);
        int64_t blocks = 1;
        for (int a = 0; a < s->ngrid; a++) blocks *= node_eval_dims(s->grid[a], l, dims);
        assert_int_equal(fn(buffers, dims, 0, blocks, scratch), 0);
    }
    free(scratch);
    for (int i = 0; i < l->workspace.n; i++) free(buffers[n + i]);
}

static inline void kit_run_interpreted(Kit *k, void *const *data, const int64_t *dims)
{
    if (!interp_run(k->made, data, dims, &(InterpOptions){0}, &k->diag)) kit_fail(k, "interpreter");
}

#endif
