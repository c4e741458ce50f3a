// SPDX-License-Identifier: Apache-2.0
// Matmuls of fixed extents for GPUs as a shared object that matmul.py calls: compiled by Heald, and
// launched on the caller's stream in the context that is current. Functions with a message return
// 0, or -1 with the reason in it.
#include <dlfcn.h>

#include "codegen/build.h"
#include "device/cuda_case.h"

#define EXPORT __attribute__((visibility("default")))

enum { MAX_STAGES = 8, MAX_BUFFERS = 16, MAX_CHOSEN = 16 };

typedef struct Matmul {
    CudaCase *c;
    BuiltKernel *built;
    int64_t workspace[MAX_BUFFERS], workspace_bytes;
    unsigned grid[MAX_STAGES][3];
    void *module, *function[MAX_STAGES];
    char *template_name;
} Matmul;

static int fail(char *message, int size, const char *why)
{
    snprintf(message, (size_t)size, "%s", why);
    return -1;
}

// "tile=(128, 128, 64, 64);split=2" as pinned choices.
static bool choose(CudaCase *c, const char *text, Choices *out)
{
    char *state = NULL, *list = arena_strdup(&c->arena, text);
    out->name = NEW_ARRAY(&c->arena, Sym, MAX_CHOSEN);
    out->value = NEW_ARRAY(&c->arena, Value, MAX_CHOSEN);
    for (char *f = strtok_r(list, ";", &state); f && out->n < MAX_CHOSEN;
         f = strtok_r(NULL, ";", &state)) {
        char *eq = strchr(f, '=');
        if (!eq) return false;
        *eq = 0;
        Source *s = sources_add(&c->sources, "choice", eq + 1, strlen(eq + 1));
        Node *n = parse_expression(&c->arena, c->lib.names, s, &c->diag);
        if (!n) return false;
        out->name[out->n] = intern(c->lib.names, f);
        out->value[out->n++] = evaluate_expression(&c->arena, &c->lib, &c->target, n, &c->diag);
    }
    return c->diag.nerror == 0;
}

static Tensor *input(CudaCase *c, const char *name, DType t, int rank, const int64_t *dims)
{
    Value extent[2];
    for (int i = 0; i < rank; i++) extent[i] = value_int(dims[i]);
    Tensor *x = instance_input(c->in, name, t, rank, extent);
    x->buf->align_bytes = x->align_bytes = 256;
    return x;
}

// y = gelu(v + bias) of the product v.
static bool bias_gelu(CudaCase *c, Tensor *hole, Tensor *bias, Epilogue *ep)
{
    Map none = {0};
    Value sum[2] = {{.kind = V_TENSOR, .u.tensor = hole}, {.kind = V_TENSOR, .u.tensor = bias}};
    OpInst *o =
        op_apply(c->in, 0, map_get(&c->lib.ops, intern(c->lib.names, "add")), 2, sum, &none);
    if (!o) return false;
    Value x = {.kind = V_TENSOR, .u.tensor = o->results[0]};
    o = op_apply(c->in, 0, map_get(&c->lib.ops, intern(c->lib.names, "gelu")), 1, &x, &none);
    if (!o) return false;
    ep->hole = hole;
    ep->outputs[0] = o->results[0];
    return true;
}

static bool instantiate(CudaCase *c, const Node *kernel, DType t, const int64_t *mnk, bool fused,
                        const Choices *choices)
{
    Map none = {0};
    case_reset(c);
    Value dims[2] = {value_int(mnk[0]), value_int(mnk[1])}, args[2];
    Tensor *a = input(c, "a", t, 2, (int64_t[]){mnk[0], mnk[2]});
    Tensor *b = input(c, "b", t, 2, (int64_t[]){mnk[2], mnk[1]});
    args[0] = (Value){.kind = V_TENSOR, .u.tensor = a};
    args[1] = (Value){.kind = V_TENSOR, .u.tensor = b};
    Epilogue ep = {.outputs = NEW_ARRAY(&c->arena, Tensor *, 1),
                   .memory = NEW_ARRAY(&c->arena, Buffer *, 1),
                   .noutput = 1};
    Tensor *hole = instance_hole(c->in, "v", t, 2, dims);
    ep.outputs[0] = hole;
    if (fused && !bias_gelu(c, hole, input(c, "bias", t, 1, &mnk[1]), &ep)) return false;
    ep.memory[0] = instance_output(c->in, "y", t, 2, dims);
    ep.memory[0]->align_bytes = 256;
    return instance_kernel(c->in, kernel, 2, args, &none, &ep, 1, choices);
}

static bool on_cuda(const Node *kernel)
{
    const Node *clauses = kernel->kid[KID_KERNEL_clauses];
    for (uint32_t i = 0; i < clauses->nkid; i++) {
        const Node *clause = clauses->kid[i];
        if (!strcmp(clause->u.sym, "on"))
            return !strcmp(clause->kid[KID_CLAUSE_args]->kid[0]->u.sym, "cuda");
    }
    return false;
}

// The named template, or the first that takes these extents.
static const char *find(Matmul *g, const char *name, DType t, const int64_t *mnk, bool fused,
                        const char *chosen)
{
    CudaCase *c = g->c;
    Choices choices = {0};
    const char *why = "no such template";
    const KernelList *list = map_get(&c->lib.implementers, intern(c->lib.names, "matmul"));
    if (!choose(c, chosen, &choices)) return case_messages(c);
    for (int i = 0; list && i < list->n; i++) {
        const Node *kernel = list->at[i];
        if (!on_cuda(kernel) || (*name && strcmp(name, kernel->u.sym))) continue;
        g->template_name = arena_strdup(&c->arena, kernel->u.sym);
        c->diag.nerror = 0;
        c->diag.messages.n = 0;
        if (instantiate(c, kernel, t, mnk, fused, &choices)) return NULL;
        why = case_messages(c);
    }
    return why;
}

static const char *sizes(Matmul *g)
{
    const RuntimeKernel *k = &g->built->runtime;
    Error e = {0};
    if (k->nstage > MAX_STAGES || k->nparam + k->nworkspace > MAX_BUFFERS)
        return "too many stages or buffers";
    if (k->ncheck) return "a kernel with checks";
    for (int i = 0; i < k->nworkspace; i++) {
        if (shape_eval(k->workspace_bytes[i], NULL, &g->workspace[i], &e))
            return "a size of workspace";
        g->workspace[i] = (g->workspace[i] + 255) / 256 * 256;
        g->workspace_bytes += g->workspace[i];
    }
    for (int i = 0; i < k->nstage; i++) {
        const RuntimeStage *s = &k->stage[i];
        int64_t total = 1;
        for (int axis = 0; axis < 3; axis++) {
            int64_t n = 1;
            if (axis < s->ngrid && shape_eval(s->grid[axis], NULL, &n, &e))
                return "a size of a grid";
            g->grid[i][axis] = (unsigned)n;
            total *= n;
        }
        if (s->linear_grid) g->grid[i][0] = (unsigned)total, g->grid[i][1] = g->grid[i][2] = 1;
    }
    return NULL;
}

EXPORT int gm_compile(const char *name, const char *type, int64_t m, int64_t n, int64_t k,
                      int fused, const char *chosen, const char *arch, Matmul **out, char *message,
                      int size)
{
    static const CaseRow row = {"lib/", "copy_cuda", "", "", "", ""};
    Matmul *g = calloc(1, sizeof *g);
    Builder b = {0};
    Error e = {0};
    int64_t mnk[3] = {m, n, k};
    *out = NULL;
    const char *why = case_new(&row, arch, &g->c);
    if (!why) why = find(g, name, dtype_from_name(type), mnk, fused != 0, chosen);
    if (why) return fail(message, size, why);
    b.cuda = cuda_toolchain_find(&g->c->arena, &why);
    if (!b.cuda) return fail(message, size, why);
    b.cache = cache_open(&g->c->arena, cache_default_dir(&g->c->arena), 0, &why);
    if (!b.cache) return fail(message, size, why);
    heald_status s =
        kernel_build(&b, &g->c->arena, g->c->in->kernel, "matmul", &g->built, &g->c->diag, &e);
    if (s) return fail(message, size, s == HEALD_DIAGNOSTIC ? case_messages(g->c) : e.text);
    why = sizes(g);
    if (why) return fail(message, size, why);
    *out = g;
    return 0;
}

// The template and the compiler's figures of each stage, as text.
EXPORT int gm_describe(Matmul *g, char *message, int size)
{
    char *log = "";
    size_t length;
    Buf text;
    buf_init(&text, &g->c->arena);
    file_read(&g->c->arena, path_join(&g->c->arena, g->built->dir, "log.txt"), &log, &length);
    buf_puts(&text, g->template_name);
    for (int i = 0; i < g->built->runtime.nstage; i++) {
        const RuntimeStage *s = &g->built->runtime.stage[i];
        CudaFigures f;
        const char *entry = arena_printf(&g->c->arena, "%s_%s", g->built->runtime.name, s->name);
        if (!cuda_log_figures(log, entry, &f)) continue;
        buf_printf(&text, " %s %ux%ux%u*%d r%d", s->name, g->grid[i][0], g->grid[i][1],
                   g->grid[i][2], s->nthread, f.registers);
        if (f.spill_store_bytes || f.spill_load_bytes) buf_puts(&text, " SPILLS");
    }
    snprintf(message, (size_t)size, "%s", buf_text(&text));
    return 0;
}

EXPORT int64_t gm_workspace(const Matmul *g)
{
    return g->workspace_bytes;
}

// ---- the driver, as the process has loaded it

typedef int ModuleLoad(void **, const char *);
typedef int GetFunction(void **, void *, const char *);
typedef int SetAttribute(void *, int, int);
typedef int LaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                         unsigned, void *, void **, void **);
static LaunchKernel *launch_kernel_on;

static void *driver(const char *name)
{
    static void *library;
    if (!library) library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    return library ? dlsym(library, name) : NULL;
}

EXPORT int gm_load(Matmul *g, char *message, int size)
{
    enum { MAX_DYNAMIC_SHARED = 8 };
    ModuleLoad *load;
    GetFunction *get;
    SetAttribute *set;
    *(void **)&load = driver("cuModuleLoad");
    *(void **)&get = driver("cuModuleGetFunction");
    *(void **)&set = driver("cuFuncSetAttribute");
    *(void **)&launch_kernel_on = driver("cuLaunchKernel");
    if (!load || !get || !set || !launch_kernel_on) return fail(message, size, "no driver");
    if (load(&g->module, g->built->image))
        return fail(message, size, "the driver does not load the kernel");
    for (int i = 0; i < g->built->runtime.nstage; i++) {
        const RuntimeStage *s = &g->built->runtime.stage[i];
        char entry[256];
        snprintf(entry, sizeof entry, "%s_%s", g->built->runtime.name, s->name);
        if (get(&g->function[i], g->module, entry)) return fail(message, size, "no entry point");
        if (s->shared_bytes && set(g->function[i], MAX_DYNAMIC_SHARED, (int)s->shared_bytes))
            return fail(message, size, "too much shared memory");
    }
    return 0;
}

// buffers: a, b, the bias if it is fused, c. Returns the driver's error.
EXPORT int gm_launch(Matmul *g, void *stream, void *const *buffers, void *workspace)
{
    const RuntimeKernel *k = &g->built->runtime;
    void *at[MAX_BUFFERS], *arg[MAX_BUFFERS];
    char *next = workspace;
    int n = k->nparam, error = 0;
    for (int i = 0; i < n; i++) at[i] = buffers[i];
    for (int i = 0; i < k->nworkspace; i++) {
        at[n++] = next;
        next += g->workspace[i];
    }
    for (int i = 0; i < n; i++) arg[i] = &at[i];
    for (int i = 0; i < k->nstage && !error; i++) {
        const RuntimeStage *s = &k->stage[i];
        error = launch_kernel_on(g->function[i], g->grid[i][0], g->grid[i][1], g->grid[i][2],
                                 (unsigned)s->nthread, 1, 1, (unsigned)s->shared_bytes, stream, arg,
                                 NULL);
    }
    return error;
}
