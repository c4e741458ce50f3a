// SPDX-License-Identifier: Apache-2.0
// Kernels of fixed extents for GPUs as a shared object for scripts: an op with what follows it, by
// a template with some choices, compiled by Heald and launched on the caller's stream in the
// context that is current. Functions with a message return 0, or -1 with the reason in it.
#include <dlfcn.h>

#include "codegen/build.h"
#include "device/cuda_case.h"

#define EXPORT __attribute__((visibility("default")))

enum { MAX_STAGES = 8, MAX_BUFFERS = 16, MAX_CHOSEN = 16 };

// What to compile. NULL and "" are alike.
typedef struct Wanted {
    const char *op, *template_name; // no template: the first that takes the op
    const char *inputs, *attrs;     // as in cuda_cases.def, extents are numbers
    const char *then;               // ops on the result: "add f32[64]; relu"
    const char *choices;            // "tile=(64, 64);split=2"
    const char *arch;
    int packing; // n: what puts input n into the preferred layout; -1: the op itself
} Wanted;

typedef struct GpuKernel {
    CudaCase *c;
    CaseRow row;
    BuiltKernel *built;
    int64_t workspace[MAX_BUFFERS], workspace_bytes;
    unsigned grid[MAX_STAGES][3];
    void *module, *function[MAX_STAGES];
    char *template_name;
    int preferred[MAX_BUFFERS], npreferred; // inputs that are also wanted packed, in this order
} GpuKernel;

static int fail(char *message, int size, const char *why)
{
    snprintf(message, (size_t)size, "%s", why);
    return -1;
}

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

// Applies the ops of `then` to the hole; their operands become inputs.
static bool follow(CudaCase *c, const char *then, Tensor *hole, Tensor **out)
{
    char *state = NULL, *list = arena_strdup(&c->arena, then);
    const CaseRow *row = c->row;
    Map none = {0};
    *out = hole;
    for (char *step = strtok_r(list, ";", &state); step; step = strtok_r(NULL, ";", &state)) {
        step += strspn(step, " ");
        char *operand = strchr(step, ' ');
        Value args[CASE_MAX_TENSORS] = {{.kind = V_TENSOR, .u.tensor = *out}};
        if (operand) *operand++ = 0;
        CaseRow other = {.inputs = operand ? operand : ""};
        c->row = &other;
        int n = 1 + case_inputs(c, false, args + 1);
        c->row = row;
        const Node *op = map_get(&c->lib.ops, intern(c->lib.names, step));
        OpInst *o = op ? op_apply(c->in, 0, op, n, args, &none) : NULL;
        if (!o) return false;
        *out = o->results[0];
    }
    return true;
}

static bool store(CudaCase *c, const Node *decl, int n, const Value *args, const Map *attrs,
                  const char *then, const Choices *choices)
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
        r->hole = hole[i];
        if (!follow(c, then, hole[i], &r->outputs[0])) return false;
        r->memory[0] = instance_output(c->in, "out", hole[i]->type, hole[i]->rank, hole[i]->dims);
        r->memory[0]->align_bytes = 256;
    }
    return instance_kernel(c->in, decl, n, args, attrs, results, nresult, choices);
}

static bool instantiate(GpuKernel *g, const Node *kernel, const Wanted *w, const Choices *choices)
{
    CudaCase *c = g->c;
    Value args[CASE_MAX_TENSORS];
    Map attrs = {0}, none = {0};
    Preference *list;
    int npreference;
    case_reset(c);
    int n = case_inputs(c, false, args);
    if (!case_attrs(c, &attrs) ||
        !kernel_preferences(c->in, kernel, n, args, &attrs, choices, &list, &npreference))
        return false;
    g->npreferred = 0;
    for (int i = 0; i < npreference; i++) {
        Value *arg = &args[list[i].param];
        OpInst *o = op_apply(c->in, 0, list[i].op, 1, arg, &list[i].attrs);
        if (!o) return false;
        Value x = {.kind = V_TENSOR, .u.tensor = o->results[0]};
        if (w->packing == list[i].param) {
            const Node *copy = map_get(&c->lib.kernels, intern(c->lib.names, "copy_cuda"));
            return store(c, copy, 1, &x, &none, "", NULL);
        }
        const Tensor *t = o->results[0];
        Tensor *leaf = instance_input(c->in, "packed", t->type, t->rank, t->dims);
        leaf->buf->align_bytes = leaf->align_bytes = 256;
        arg->u.tensor->packed = leaf;
        g->preferred[g->npreferred++] = list[i].param;
    }
    return w->packing < 0 && store(c, kernel, n, args, &attrs, w->then, choices);
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
static const char *find(GpuKernel *g, const Wanted *w)
{
    CudaCase *c = g->c;
    Choices choices = {0};
    const char *why = "no such template";
    const KernelList *list = map_get(&c->lib.implementers, intern(c->lib.names, w->op));
    if (!choose(c, w->choices, &choices)) return case_messages(c);
    for (int i = 0; list && i < list->n; i++) {
        const Node *kernel = list->at[i];
        if (!on_cuda(kernel) || (*w->template_name && strcmp(w->template_name, kernel->u.sym)))
            continue;
        g->template_name = arena_strdup(&c->arena, kernel->u.sym);
        c->diag.nerror = 0;
        c->diag.messages.n = 0;
        if (instantiate(g, kernel, w, &choices)) return NULL;
        why = case_messages(c);
    }
    return why;
}

static const char *sizes(GpuKernel *g)
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

EXPORT int gk_compile(const Wanted *w, GpuKernel **out, char *message, int size)
{
    GpuKernel *g = calloc(1, sizeof *g);
    Builder b = {0};
    Error e = {0};
    g->row = (CaseRow){"lib/", "copy_cuda", w->inputs, w->attrs, "", ""};
    *out = NULL;
    const char *why = case_new(&g->row, w->arch, &g->c);
    if (!why) {
        g->c->aligned = g->c->fixed = true;
        why = find(g, w);
    }
    if (why) return fail(message, size, why);
    b.cuda = cuda_toolchain_find(&g->c->arena, &why);
    if (!b.cuda) return fail(message, size, why);
    b.cache = cache_open(&g->c->arena, cache_default_dir(&g->c->arena), 0, &why);
    if (!b.cache) return fail(message, size, why);
    heald_status s =
        kernel_build(&b, &g->c->arena, g->c->in->kernel, w->op, &g->built, &g->c->diag, &e);
    if (s) return fail(message, size, s == HEALD_DIAGNOSTIC ? case_messages(g->c) : e.text);
    why = sizes(g);
    if (why) return fail(message, size, why);
    *out = g;
    return 0;
}

// The template and the compiler's figures of each stage, as text.
EXPORT int gk_describe(GpuKernel *g, char *message, int size)
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

EXPORT int64_t gk_workspace(const GpuKernel *g)
{
    return g->workspace_bytes;
}

// Where the cache keeps its text and its code.
EXPORT const char *gk_folder(const GpuKernel *g)
{
    return g->built->dir;
}

// The input that buffer number i after the inputs holds in another layout; -1: there is none.
EXPORT int gk_preferred(const GpuKernel *g, int i)
{
    return i < g->npreferred ? g->preferred[i] : -1;
}

// Elements of the result.
EXPORT int64_t gk_elements(const GpuKernel *g)
{
    const Kernel *k = g->c->in->kernel;
    const Buffer *out = k->params.at[k->params.n - 1];
    int64_t n = 1;
    for (int i = 0; i < out->rank; i++) n *= node_eval_dims(out->extent[i], k, NULL);
    return n;
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

EXPORT int gk_load(GpuKernel *g, char *message, int size)
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

// buffers: the inputs, what is packed, the operands of what follows, the result. Returns the
// driver's error.
EXPORT int gk_launch(GpuKernel *g, void *stream, void *const *buffers, void *workspace)
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
        const unsigned *grid = g->grid[i];
        if (!grid[0] || !grid[1] || !grid[2]) continue;
        error = launch_kernel_on(g->function[i], grid[0], grid[1], grid[2], (unsigned)s->nthread, 1,
                                 1, (unsigned)s->shared_bytes, stream, arg, NULL);
    }
    return error;
}
