// SPDX-License-Identifier: Apache-2.0
// For tests of CUDA kernels: the library's texts and one file of kernels, a kernel instantiated on
// plain tensors, its meaning run by the interpreter, its CUDA text compiled.
#ifndef HEALD_TESTS_CUDA_KIT_H
#define HEALD_TESTS_CUDA_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/os.h"
#include "codegen/cuda.h"
#include "ir/interp.h"
#include "lang/instantiate.h"
#include "passes/passes.h"

typedef struct CudaKit {
    Arena arena;
    Sources sources;
    Diag diag;
    Library lib;
    Target target;
    Instance *in;
    Kernel *kernel; // as instantiated
} CudaKit;

static inline const char *cuda_kit_messages(CudaKit *k)
{
    Buf b;
    buf_init(&b, &k->arena);
    diag_render(&k->diag, &b);
    return buf_text(&b);
}

static inline void cuda_kit_add(CudaKit *k, const char *path)
{
    char *text;
    size_t size;
    const char *failed = file_read(&k->arena, path, &text, &size);
    if (failed) fail_msg("%s", failed);
    Source *s = sources_add(&k->sources, arena_strdup(&k->arena, path), text, size);
    Node *file = parse_file(&k->arena, k->lib.names, s, &k->diag);
    if (!file || !library_add(&k->lib, file, &k->diag)) fail_msg("%s", cuda_kit_messages(k));
}

// files: separated by blanks; those of lib/ops first.
static inline CudaKit *cuda_kit_new(const char *files, const char *arch)
{
    CudaKit *k = calloc(1, sizeof *k);
    char *list, *state = NULL;
    k->sources.arena = &k->arena;
    diag_init(&k->diag, &k->arena, &k->sources);
    library_init(&k->lib, &k->arena, interner_new(&k->arena), &k->sources);
    assert_true(target_cuda(&k->target, arch));
    list = arena_strdup(&k->arena, files);
    for (char *f = strtok_r(list, " ", &state); f; f = strtok_r(NULL, " ", &state)) cuda_kit_add(k, f);
    k->in = instance_new(&k->arena, &k->lib, &k->target, &k->diag);
    return k;
}

static inline void cuda_kit_free(CudaKit *k)
{
    arena_free(&k->arena);
    free(k);
}

static inline bool cuda_kit_is_dim(const char *c)
{
    return *c < '0' || *c > '9';
}

// "f32[m, 32]": names are dynamic dimensions, the same name the same dimension.
static inline Tensor *cuda_kit_tensor(CudaKit *k, const char *name, const char *spec, Map *dims)
{
    Value extent[8];
    int rank = 0;
    char *copy = arena_strdup(&k->arena, spec), *state = NULL;
    DType t = dtype_from_name(strtok_r(copy, "[, ]", &state));
    for (char *d; (d = strtok_r(NULL, "[, ]", &state));) {
        Sym sym = intern(k->lib.names, d);
        Value *known = map_get(dims, sym);
        if (!cuda_kit_is_dim(d)) {
            extent[rank++] = value_int(strtoll(d, NULL, 10));
            continue;
        }
        if (!known) {
            known = NEW(&k->arena, Value);
            *known = instance_dim(k->in, d, 0, INT64_MAX, 1);
            map_put(&k->arena, dims, sym, known);
        }
        extent[rank++] = *known;
    }
    return instance_input(k->in, name, t, rank, extent);
}

static inline bool cuda_kit_attrs(CudaKit *k, const char *text, Map *attrs)
{
    char *list = arena_strdup(&k->arena, text ? text : ""), *state = NULL;
    for (char *f = strtok_r(list, ";", &state); f; f = strtok_r(NULL, ";", &state)) {
        char *eq = strchr(f, '=');
        Value *v = NEW(&k->arena, Value);
        *eq = 0;
        Source *s = sources_add(&k->sources, "value", eq + 1, strlen(eq + 1));
        Node *n = parse_expression(&k->arena, k->lib.names, s, &k->diag);
        if (!n) return false;
        *v = evaluate_expression(&k->arena, &k->lib, &k->target, n, &k->diag);
        map_put(&k->arena, attrs, intern(k->lib.names, f), v);
    }
    return k->diag.nerror == 0;
}

// inputs: NULL-terminated. choices NULL: the default ones. False with diagnostics.
static inline bool cuda_kit_instance(CudaKit *k, const char *name, const char *const *inputs,
                                     const char *attrs_text, const Choices *choices)
{
    Value args[16];
    Map dims = {0}, attrs = {0};
    int n = 0, nresult;
    Tensor **holes;
    const Node *decl = map_get(&k->lib.kernels, intern(k->lib.names, name));
    if (!decl) fail_msg("no kernel '%s'", name);
    for (; inputs[n]; n++)
        args[n] = (Value){.kind = V_TENSOR,
                          .u.tensor = cuda_kit_tensor(k, arena_printf(&k->arena, "in%d", n), inputs[n], &dims)};
    if (!cuda_kit_attrs(k, attrs_text, &attrs)) return false;
    if (!kernel_results(k->in, decl, n, args, &attrs, choices, &holes, &nresult)) return false;
    Epilogue *results = NEW_ARRAY(&k->arena, Epilogue, nresult);
    for (int i = 0; i < nresult; i++) {
        Epilogue *r = &results[i];
        r->outputs = NEW_ARRAY(&k->arena, Tensor *, 1);
        r->memory = NEW_ARRAY(&k->arena, Buffer *, 1);
        r->noutput = 1;
        r->outputs[0] = holes[i];
        r->memory[0] = instance_output(k->in, "out", holes[i]->type, holes[i]->rank, holes[i]->dims);
    }
    if (!instance_kernel(k->in, decl, n, args, &attrs, results, nresult, choices)) return false;
    k->kernel = k->in->kernel;
    k->kernel->name = "h_test";
    return kernel_verify(k->kernel, &k->diag);
}

// The text, lowered from a copy. NULL with diagnostics.
static inline const char *cuda_kit_text(CudaKit *k, Kernel **lowered)
{
    Buf text;
    buf_init(&text, &k->arena);
    *lowered = kernel_clone(&k->arena, k->kernel);
    cuda_bound_dims(*lowered);
    if (!passes_run(*lowered, &(PassOptions){.verify = true}, &k->diag) ||
        !codegen_cuda(*lowered, NULL, &text, &k->diag))
        return NULL;
    return buf_text(&text);
}

#endif
