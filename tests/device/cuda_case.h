// SPDX-License-Identifier: Apache-2.0
// One CUDA kernel of cuda_cases.def as a test: instantiated, its meaning computed from the op that
// it implements (in float64 where it is about floats), and the comparison. Used where there is a
// GPU and where there is none; functions return NULL or what is wrong.
#ifndef HEALD_TESTS_CUDA_CASE_H
#define HEALD_TESTS_CUDA_CASE_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "codegen/cuda.h"
#include "ir/interp.h"
#include "lang/instantiate.h"
#include "passes/passes.h"

enum { CASE_MAX_TENSORS = 12, CASE_MAX_DIMS = 12 };

typedef struct CaseRow {
    const char *file, *kernel, *inputs, *attrs, *small, *large;
} CaseRow;

static const CaseRow case_rows[] = {
#define CASE(file, kernel, inputs, attrs, small, large) {file, kernel, inputs, attrs, small, large},
#include "device/cuda_cases.def"
#undef CASE
};

typedef struct CudaCase {
    Arena arena;
    Sources sources;
    Diag diag;
    Library lib;
    Target target;
    const CaseRow *row;
    const Node *decl;
    Instance *in;
    Kernel *kernel;              // as instantiated
    bool fixed;                  // extents are numbers, those of `dims`
    bool aligned;                // memory is known to be aligned, as that of a device is
    int64_t dims[CASE_MAX_DIMS]; // of the names in the row, in order
    Sym dim_name[CASE_MAX_DIMS];
    Value dim_value[CASE_MAX_DIMS];
    int ndim;
} CudaCase;

static inline const char *case_messages(CudaCase *c)
{
    Buf b;
    buf_init(&b, &c->arena);
    diag_render(&c->diag, &b);
    return buf_text(&b);
}

static inline const char *case_add(CudaCase *c, const char *path)
{
    char *text;
    size_t size;
    const char *failed = file_read(&c->arena, path, &text, &size);
    if (failed) return failed;
    Source *s = sources_add(&c->sources, arena_strdup(&c->arena, path), text, size);
    Node *file = parse_file(&c->arena, c->lib.names, s, &c->diag);
    return file && library_add(&c->lib, file, &c->diag) ? NULL : case_messages(c);
}

// Every text below a folder, in order.
static inline const char *case_add_folder(CudaCase *c, const char *dir)
{
    char **names;
    int n;
    const char *failed = dir_list(&c->arena, dir, &names, &n);
    for (int i = 0; !failed && i < n; i++) {
        const char *path = path_join(&c->arena, dir, names[i]);
        size_t length = strlen(path);
        if (path_is_dir(path)) failed = case_add_folder(c, path);
        else if (length > 3 && !strcmp(path + length - 3, ".hd")) failed = case_add(c, path);
    }
    return failed;
}

static inline void case_reset(CudaCase *c)
{
    c->in = instance_new(&c->arena, &c->lib, &c->target, &c->diag);
    c->ndim = 0;
}

static inline const char *case_new(const CaseRow *row, const char *arch, CudaCase **out)
{
    CudaCase *c = *out = calloc(1, sizeof *c);
    c->row = row;
    c->sources.arena = &c->arena;
    diag_init(&c->diag, &c->arena, &c->sources);
    library_init(&c->lib, &c->arena, interner_new(&c->arena), &c->sources);
    if (!target_cuda(&c->target, arch)) return "unknown architecture";
    const char *failed = case_add_folder(c, "lib");
    if (!failed && strncmp(row->file, "lib/", 4)) failed = case_add(c, row->file);
    if (failed) return failed;
    c->decl = map_get(&c->lib.kernels, intern(c->lib.names, row->kernel));
    case_reset(c);
    return c->decl ? NULL : "no kernel of that name";
}

static inline void case_free(CudaCase *c)
{
    arena_free(&c->arena);
    free(c);
}

// "1, 2, 3" into dims.
static inline int case_numbers(const char *text, size_t size, int64_t *out)
{
    int n = 0;
    for (const char *at = text; at < text + size && n < CASE_MAX_DIMS;) {
        char *end;
        out[n++] = strtoll(at, &end, 10);
        at = end + strspn(end, ", ");
    }
    return n;
}

// The extents of set number i of a list "1, 2; 3, 4". False past the end.
static inline bool case_dims(CudaCase *c, const char *list, int i)
{
    for (; i > 0 && list; i--) {
        list = strchr(list, ';');
        if (list) list++;
    }
    if (!list || !*list) return false;
    case_numbers(list, strcspn(list, ";"), c->dims);
    return true;
}

// Inputs of the row: "f32[m, k] | f32[k, 4]". wide: floats as f64.
static inline int case_inputs(CudaCase *c, bool wide, Value *args)
{
    int n = 0;
    char *outer = NULL, *list = arena_strdup(&c->arena, c->row->inputs);
    for (char *spec = strtok_r(list, "|", &outer); spec; spec = strtok_r(NULL, "|", &outer), n++) {
        char *inner = NULL, *d = strtok_r(spec, "[], ", &inner);
        if (!strcmp(d, "none")) {
            args[n] = value_none();
            continue;
        }
        DType t = dtype_from_name(d);
        Value extent[8];
        int rank = 0;
        while ((d = strtok_r(NULL, "[], ", &inner))) {
            if (*d >= '0' && *d <= '9') {
                extent[rank++] = value_int(strtoll(d, NULL, 10));
                continue;
            }
            Sym name = intern(c->lib.names, d);
            int k = 0;
            while (k < c->ndim && c->dim_name[k] != name) k++;
            if (k == c->ndim) {
                c->dim_name[c->ndim++] = name;
                c->dim_value[k] =
                    c->fixed ? value_int(c->dims[k]) : instance_dim(c->in, d, 0, INT64_MAX, 1);
            }
            extent[rank++] = c->dim_value[k];
        }
        Tensor *x = instance_input(c->in, arena_printf(&c->arena, "in%d", n),
                                   wide && dtype_is_float(t) ? DT_F64 : t, rank, extent);
        if (c->aligned) x->buf->align_bytes = x->align_bytes = 256;
        args[n] = (Value){.kind = V_TENSOR, .u.tensor = x};
    }
    return n;
}

static inline bool case_attrs(CudaCase *c, Map *attrs)
{
    char *state = NULL, *list = arena_strdup(&c->arena, c->row->attrs);
    for (char *f = strtok_r(list, ";", &state); f; f = strtok_r(NULL, ";", &state)) {
        char *eq = strchr(f, '=');
        Value *v = NEW(&c->arena, Value);
        *eq = 0;
        Source *s = sources_add(&c->sources, "value", eq + 1, strlen(eq + 1));
        Node *n = parse_expression(&c->arena, c->lib.names, s, &c->diag);
        if (!n) return false;
        *v = evaluate_expression(&c->arena, &c->lib, &c->target, n, &c->diag);
        map_put(&c->arena, attrs, intern(c->lib.names, f), v);
    }
    return c->diag.nerror == 0;
}

static inline bool case_outputs(CudaCase *c, const Node *decl, int n, const Value *args,
                                const Map *attrs, const Choices *choices)
{
    Tensor **hole;
    int nresult;
    if (!kernel_results(c->in, decl, n, args, attrs, choices, &hole, &nresult)) return false;
    Epilogue *results = NEW_ARRAY(&c->arena, Epilogue, nresult);
    for (int i = 0; i < nresult; i++) {
        Epilogue *r = &results[i];
        r->outputs = NEW_ARRAY(&c->arena, Tensor *, 1);
        r->memory = NEW_ARRAY(&c->arena, Buffer *, 1);
        r->noutput = 1;
        r->outputs[0] = hole[i];
        r->memory[0] = instance_output(c->in, "out", hole[i]->type, hole[i]->rank, hole[i]->dims);
        if (c->aligned) r->memory[0]->align_bytes = 256;
    }
    if (!instance_kernel(c->in, decl, n, args, attrs, results, nresult, choices)) return false;
    c->kernel = c->in->kernel;
    return kernel_verify(c->kernel, &c->diag);
}

// The kernel itself. choices NULL: the default ones.
static inline const char *case_instance(CudaCase *c, const Choices *choices)
{
    Value args[CASE_MAX_TENSORS];
    Map attrs = {0};
    case_reset(c);
    int n = case_inputs(c, false, args);
    if (!case_attrs(c, &attrs) || !case_outputs(c, c->decl, n, args, &attrs, choices))
        return case_messages(c);
    c->kernel->name = "h_test";
    return NULL;
}

static inline const Node *case_op(CudaCase *c)
{
    Node *clauses = KID((Node *)c->decl, KERNEL, clauses);
    for (int i = 0; i < NREST(clauses); i++) {
        Node *clause = REST(clauses)[i], *args = KID(clause, CLAUSE, args);
        if (!strcmp(clause->u.sym, "implements")) return map_get(&c->lib.ops, REST(args)[0]->u.sym);
    }
    return NULL;
}

static inline bool case_serially(CudaCase *c, const OpInst *o, int n, const Value *args,
                                 const Map *attrs)
{
    Buffer **memory = NEW_ARRAY(&c->arena, Buffer *, o->nresult);
    for (int i = 0; i < o->nresult; i++) {
        const Tensor *t = o->results[i];
        memory[i] = instance_output(c->in, "out", t->type, t->rank, t->dims);
    }
    if (!instance_serial(c->in, o->decl, n, args, attrs, memory, o->nresult)) return false;
    c->kernel = c->in->kernel;
    return kernel_verify(c->kernel, &c->diag);
}

// What the op computes, at fixed extents: the copy template of the CPU with the op before it, or
// the program of a serial one.
static inline const char *case_meaning(CudaCase *c)
{
    Value args[CASE_MAX_TENSORS];
    Map attrs = {0}, none = {0};
    Target gpu = c->target;
    c->fixed = true;
    target_host(&c->target);
    case_reset(c);
    int n = case_inputs(c, true, args);
    const Node *op = case_op(c), *copy = map_get(&c->lib.kernels, intern(c->lib.names, "copy"));
    OpInst *o =
        op && copy && case_attrs(c, &attrs) ? op_apply(c->in, 0, op, n, args, &attrs) : NULL;
    bool ok = o != NULL;
    if (ok && op->sub == OP_SERIAL) {
        ok = case_serially(c, o, n, args, &attrs);
    } else if (ok) {
        Value x = {.kind = V_TENSOR, .u.tensor = o->results[0]};
        ok = case_outputs(c, copy, 1, &x, &none, NULL);
    }
    c->target = gpu;
    c->fixed = false;
    return ok ? NULL : case_messages(c);
}

// ---- data

typedef struct CaseData {
    int n;
    void *at[CASE_MAX_TENSORS]; // inputs, then outputs
    int64_t nelem[CASE_MAX_TENSORS];
    DType type[CASE_MAX_TENSORS];
    bool output[CASE_MAX_TENSORS];
} CaseData;

// The dims that the kernel was made with, in its order: those of the row that are names.
static inline void case_data_new(CudaCase *c, CaseData *d)
{
    *d = (CaseData){.n = c->kernel->params.n};
    for (int i = 0; i < d->n; i++) {
        const Buffer *b = c->kernel->params.at[i];
        int64_t n = 1;
        for (int k = 0; k < b->rank; k++) n *= node_eval_dims(b->extent[k], c->kernel, c->dims);
        d->nelem[i] = n;
        d->type[i] = b->type;
        d->output[i] = b->output;
        d->at[i] = calloc((size_t)n + 1, dtype_size(b->type));
    }
}

static inline void case_data_free(CaseData *d)
{
    for (int i = 0; i < d->n; i++) free(d->at[i]);
}

static inline void case_data_fill(CaseData *d, uint64_t seed)
{
    uint64_t r = seed * 2654435761u + 1;
    for (int i = 0; i < d->n; i++) {
        if (d->output[i]) continue;
        char *p = d->at[i];
        size_t size = dtype_size(d->type[i]);
        for (int64_t k = 0; k < d->nelem[i]; k++) {
            r = r * 6364136223846793005u + 1442695040888963407u;
            int64_t v = (int64_t)(r >> 40);
            if (dtype_is_float(d->type[i]))
                dtype_store_f64(d->type[i], p + (size_t)k * size, (double)v / (1 << 23) - 1);
            else
                dtype_store_i64(d->type[i], p + (size_t)k * size,
                                d->type[i] == DT_BOOL ? v & 1 : v % 7);
        }
    }
}

// Inputs of `to` from those of `from`, whose types may differ.
static inline void case_data_convert(const CaseData *from, CaseData *to)
{
    for (int i = 0; i < to->n; i++) {
        if (to->output[i]) continue;
        size_t fs = dtype_size(from->type[i]), ts = dtype_size(to->type[i]);
        for (int64_t k = 0; k < to->nelem[i]; k++) {
            const char *p = (const char *)from->at[i] + (size_t)k * fs;
            char *q = (char *)to->at[i] + (size_t)k * ts;
            if (dtype_is_float(from->type[i]))
                dtype_store_f64(to->type[i], q, dtype_load_f64(from->type[i], p));
            else dtype_store_i64(to->type[i], q, dtype_load_i64(from->type[i], p));
        }
    }
}

static inline double case_tolerance(DType t)
{
    switch (t) {
    case DT_F16: return 2e-3;
    case DT_BF16: return 1.6e-2;
    case DT_F32: return 2e-5;
    case DT_F64: return 1e-11;
    default: return 0;
    }
}

// The largest difference of an output from what is wanted, as a share of the largest value wanted.
static inline double case_error(const CaseData *want, const CaseData *got, double *tolerance)
{
    double worst = 0;
    *tolerance = 0;
    for (int i = 0; i < got->n; i++) {
        double scale = 1e-30, difference = 0;
        if (!got->output[i]) continue;
        for (int64_t k = 0; k < got->nelem[i]; k++) {
            size_t at = (size_t)k;
            double x =
                dtype_load_f64(want->type[i], (char *)want->at[i] + at * dtype_size(want->type[i]));
            double y =
                dtype_load_f64(got->type[i], (char *)got->at[i] + at * dtype_size(got->type[i]));
            scale = fmax(scale, fabs(x));
            if (isnan(x) != isnan(y)) difference = INFINITY;
            else if (!isnan(x) && x != y) difference = fmax(difference, fabs(x - y));
        }
        worst = fmax(worst, difference / scale);
        *tolerance = fmax(*tolerance, case_tolerance(got->type[i]));
    }
    return worst;
}

// ---- text

// The CUDA text, from a copy of the kernel. NULL with diagnostics.
static inline const char *case_text(CudaCase *c, Kernel **lowered)
{
    Buf text;
    buf_init(&text, &c->arena);
    *lowered = kernel_clone(&c->arena, c->kernel);
    cuda_bound_dims(*lowered);
    if (!passes_run(*lowered, &(PassOptions){.verify = true}, &c->diag) ||
        !codegen_cuda(*lowered, NULL, &text, &c->diag))
        return NULL;
    return buf_text(&text);
}

#endif
