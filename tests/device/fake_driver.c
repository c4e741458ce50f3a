// SPDX-License-Identifier: Apache-2.0
// A stand-in for libcuda.so.1: memory of the host, launches recorded and not run, and failures on
// demand, set by environment variables FAKE_CUDA_... Compiled with FAKE_CUDA_12_0 or FAKE_CUDA_9,
// it lacks what came after those.
#include "fake_driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { MAX_LAUNCHES = 64, MAX_NODES = 4096, MAX_AFTER = 32 };

EXPORT FakeState fake_cuda;

static int number(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text && *text ? atoi(text) : otherwise;
}

// The failure of that name, once it is set: the result that the function is to give.
static int fails(const char *name)
{
    char variable[64];
    snprintf(variable, sizeof variable, "FAKE_CUDA_%s", name);
    return number(variable, 0);
}

EXPORT int cuInit(unsigned flags)
{
    (void)flags;
    return fails("INIT");
}
EXPORT int cuDriverGetVersion(int *version)
{
    *version = number("FAKE_CUDA_VERSION", 13000);
    return 0;
}
EXPORT int cuGetErrorString(int r, const char **text)
{
    *text = r == 700 ? "an illegal memory access was encountered"
            : r == 2 ? "out of memory"
                     : "a fake error";
    return 0;
}
EXPORT int cuDeviceGetCount(int *n)
{
    *n = number("FAKE_CUDA_DEVICES", 1);
    return 0;
}
EXPORT int cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    return 0;
}
EXPORT int cuDeviceGetName(char *name, int size, int device)
{
    snprintf(name, (size_t)size, "Fake GPU %d", device);
    return 0;
}
EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    int arch = number("FAKE_CUDA_ARCH", 90);
    (void)device;
    *value = attribute == 75   ? arch / 10
             : attribute == 76 ? arch % 10
             : attribute == 16 ? 132
             : attribute == 97 ? 227 << 10
                               : 1 << 20;
    return 0;
}
EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    (void)device;
    *bytes = (size_t)1 << 30;
    return 0;
}
EXPORT int cuDevicePrimaryCtxRetain(void **context, int device)
{
    static int one;
    (void)device;
    fake_cuda.contexts++;
    *context = &one;
    return fails("CONTEXT");
}
EXPORT int cuDevicePrimaryCtxRelease_v2(int device)
{
    (void)device;
    fake_cuda.contexts--;
    return 0;
}
EXPORT int cuCtxGetCurrent(void **context)
{
    *context = fake_cuda.current;
    return 0;
}
EXPORT int cuCtxSetCurrent(void *context)
{
    fake_cuda.current = context;
    return 0;
}
EXPORT int cuMemGetInfo_v2(size_t *left, size_t *total)
{
    *left = 12345;
    *total = (size_t)1 << 30;
    return 0;
}
EXPORT int cuMemAlloc_v2(unsigned long long *p, size_t bytes)
{
    int limit = number("FAKE_CUDA_LIMIT", 1 << 30);
    if (bytes > (size_t)limit || fake_cuda.live >= number("FAKE_CUDA_BLOCKS", 1 << 20)) return 2;
    fake_cuda.allocations++;
    fake_cuda.live++;
    *p = (unsigned long long)(uintptr_t)aligned_alloc(256, (bytes + 255) / 256 * 256);
    return 0;
}
EXPORT int cuMemFree_v2(unsigned long long p)
{
    fake_cuda.frees++;
    fake_cuda.live--;
    free((void *)(uintptr_t)p);
    return 0;
}
EXPORT int cuMemHostAlloc(void **p, size_t bytes, unsigned flags)
{
    (void)flags;
    *p = malloc(bytes);
    return 0;
}
EXPORT int cuMemFreeHost(void *p)
{
    free(p);
    return 0;
}
EXPORT int cuMemHostGetDevicePointer_v2(unsigned long long *p, void *host, unsigned flags)
{
    (void)flags;
    *p = (unsigned long long)(uintptr_t)host;
    return 0;
}
EXPORT int cuMemcpyHtoDAsync_v2(unsigned long long to, const void *from, size_t bytes, void *stream)
{
    (void)stream;
    memcpy((void *)(uintptr_t)to, from, bytes);
    return fails("COPY");
}
EXPORT int cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, size_t bytes, void *stream)
{
    (void)stream;
    memcpy(to, (void *)(uintptr_t)from, bytes);
    return fails("COPY");
}
EXPORT int cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t bytes,
                                void *stream)
{
    (void)stream;
    memmove((void *)(uintptr_t)to, (void *)(uintptr_t)from, bytes);
    return fails("COPY");
}
EXPORT int cuStreamCreate(void **stream, unsigned flags)
{
    (void)flags;
    fake_cuda.streams++;
    *stream = &fake_cuda;
    return 0;
}
EXPORT int cuStreamDestroy_v2(void *stream)
{
    (void)stream;
    fake_cuda.streams--;
    return 0;
}
EXPORT int cuStreamSynchronize(void *stream)
{
    (void)stream;
    fake_cuda.waits++;
    return fails("WAIT");
}
EXPORT int cuStreamWaitEvent(void *stream, void *event, unsigned flags)
{
    (void)event, (void)flags;
    fake_cuda.stream = stream;
    return fails("STREAM");
}
EXPORT int cuEventCreate(void **event, unsigned flags)
{
    (void)flags;
    *event = &fake_cuda;
    return 0;
}
EXPORT int cuEventDestroy_v2(void *event)
{
    (void)event;
    return 0;
}
EXPORT int cuEventRecord(void *event, void *stream)
{
    (void)event, (void)stream;
    return 0;
}
EXPORT int cuEventSynchronize(void *event)
{
    (void)event;
    return fails("WAIT");
}
EXPORT int cuEventElapsedTime(float *ms, void *from, void *to)
{
    (void)from, (void)to;
    *ms = 1.5f;
    return 0;
}
EXPORT int cuModuleLoad(void **module, const char *path)
{
    FILE *f = fopen(path, "r");
    if (!f) return 301;
    fclose(f);
    fake_cuda.modules++;
    *module = &fake_cuda;
    return fails("MODULE");
}
EXPORT int cuModuleUnload(void *module)
{
    (void)module;
    fake_cuda.modules--;
    return 0;
}
EXPORT int cuModuleGetFunction(void **f, void *module, const char *name)
{
    static FakeFunction functions[8];
    (void)module;
    if (strstr(name, "missing")) return 500;
    *f = &functions[strlen(name) % 8];
    return 0;
}
EXPORT int cuFuncSetAttribute(void *f, int attribute, int value)
{
    (void)f;
    return attribute == 8 && value > 227 << 10;
}

// A launch or a copy, done at once or kept as a node of a graph.
typedef struct Node {
    struct Graph *graph;
    int number;
    const FakeFunction *f; // NULL: a copy
    unsigned grid[3], block, shared;
    int cooperative;
    uint64_t argument[FAKE_MAX_ARGUMENTS];
    void *to;
    const void *from;
    size_t bytes;
    int nafter, after[MAX_AFTER];
} Node;

typedef struct Graph {
    int n;
    Node *node[MAX_NODES];
} Graph;

static int arguments_of(const FakeFunction *f)
{
    return f->magic == FAKE_FUNCTION ? f->nargument : number("FAKE_CUDA_ARGUMENTS", 0);
}

static void set_launch(Node *n, const FakeFunction *f, const unsigned *shape, unsigned shared,
                       void **params)
{
    n->f = f;
    for (int i = 0; i < 3; i++) n->grid[i] = shape[i];
    n->block = shape[3];
    n->shared = shared;
    for (int i = 0; i < arguments_of(f); i++) memcpy(&n->argument[i], params[i], 8);
}

static int do_launch(const Node *node)
{
    if (fails("LAUNCH")) return fails("LAUNCH");
    if (fake_cuda.nlaunch == MAX_LAUNCHES) fake_cuda.nlaunch = 0;
    int n = fake_cuda.nlaunch++;
    for (int i = 0; i < 3; i++) fake_cuda.launch[n].grid[i] = node->grid[i];
    fake_cuda.launch[n].block = node->block;
    fake_cuda.launch[n].shared = node->shared;
    fake_cuda.launch[n].cooperative = node->cooperative;
    memcpy(fake_cuda.launch[n].argument, node->argument, sizeof node->argument);
    int check = number("FAKE_CUDA_CHECK", 0); // as if the kernel had failed that check
    if (check)
        *(volatile uint32_t *)(uintptr_t)node->argument[arguments_of(node->f) - 1] =
            (uint32_t)check;
    if (node->f->magic == FAKE_FUNCTION) node->f->run(node->argument);
    return 0;
}

EXPORT int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                          unsigned bz, unsigned shared, void *stream, void **params, void **extra)
{
    (void)by, (void)bz, (void)extra;
    Node n = {0};
    fake_cuda.last_stream = stream;
    set_launch(&n, f, (unsigned[]){gx, gy, gz, bx}, shared, params);
    return do_launch(&n);
}
EXPORT int cuLaunchCooperativeKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                     unsigned by, unsigned bz, unsigned shared, void *stream,
                                     void **params)
{
    (void)by, (void)bz, (void)stream;
    Node n = {.cooperative = 1};
    if (gx > 132) return 720;
    set_launch(&n, f, (unsigned[]){gx, gy, gz, bx}, shared, params);
    return do_launch(&n);
}

typedef struct Attribute {
    int id, pad, value[16];
} Attribute;
typedef struct LaunchConfig {
    unsigned grid[3], block[3], shared;
    void *stream;
    const Attribute *attribute;
    unsigned nattribute;
} LaunchConfig;

#ifndef FAKE_CUDA_12_0
EXPORT int cuLaunchKernelEx(const LaunchConfig *c, void *f, void **params, void **extra)
{
    for (unsigned i = 0; i < c->nattribute; i++)
        fake_cuda.overlaps += c->attribute[i].id == 6 && c->attribute[i].value[0] == 1;
    return cuLaunchKernel(f, c->grid[0], c->grid[1], c->grid[2], c->block[0], 1, 1, c->shared,
                          c->stream, params, extra);
}
#endif

// ---- graphs

typedef struct KernelParams {
    void *f;
    unsigned grid[3], block[3], shared;
    void **params, **extra;
} KernelParams;
typedef struct CopyEnd {
    size_t x, y, z, level;
    unsigned memory_type;
    void *host;
    unsigned long long device;
    void *array, *reserved;
    size_t pitch, height;
} CopyEnd;
typedef struct CopyParams {
    CopyEnd from, to;
    size_t width, height, depth;
} CopyParams;

#ifndef FAKE_CUDA_9
EXPORT int cuGraphCreate(void **graph, unsigned flags)
{
    (void)flags;
    if (fails("GRAPH")) return fails("GRAPH");
    *graph = calloc(1, sizeof(Graph));
    fake_cuda.graphs++;
    return 0;
}
#endif

static int add_edge(Node *from, Node *to)
{
    if (from->number >= to->number || to->nafter == MAX_AFTER) return 1;
    to->after[to->nafter++] = from->number;
    fake_cuda.edges++;
    return 0;
}

static int add_node(Graph *g, void *const *after, size_t nafter, Node **out)
{
    if (g->n == MAX_NODES) return 2;
    Node *n = *out = g->node[g->n] = calloc(1, sizeof *n);
    n->graph = g;
    n->number = g->n++;
    fake_cuda.nodes++;
    int r = 0;
    for (size_t i = 0; i < nafter && !r; i++) r = add_edge(after[i], n);
    return r;
}

static void set_kernel(Node *n, const KernelParams *p)
{
    set_launch(n, p->f, (unsigned[]){p->grid[0], p->grid[1], p->grid[2], p->block[0]}, p->shared,
               p->params);
}

static int set_copy(Node *n, const CopyParams *p)
{
    if (p->from.memory_type != 2 || p->to.memory_type != 2 || p->height != 1 || p->depth != 1)
        return 1;
    n->from = (const void *)(uintptr_t)p->from.device;
    n->to = (void *)(uintptr_t)p->to.device;
    n->bytes = p->width;
    return 0;
}

EXPORT int cuGraphAddKernelNode(void **out, void *graph, void *const *after, size_t nafter,
                                const KernelParams *p)
{
    Node *n;
    int r = add_node(graph, after, nafter, &n);
    if (!r) set_kernel(n, p);
    *out = n;
    return r;
}
EXPORT int cuGraphAddMemcpyNode(void **out, void *graph, void *const *after, size_t nafter,
                                const CopyParams *p, void *context)
{
    (void)context;
    Node *n;
    int r = add_node(graph, after, nafter, &n);
    *out = n;
    return r ? r : set_copy(n, p);
}
#ifndef FAKE_CUDA_12_0
EXPORT int cuGraphAddDependencies_v2(void *graph, void *const *from, void *const *to,
                                     const unsigned char *edge, size_t n)
{
    (void)graph;
    for (size_t i = 0; i < n; i++) {
        fake_cuda.overlaps += edge[8 * i] == 1 && edge[8 * i + 2] == 1;
        if (add_edge(from[i], to[i])) return 1;
    }
    return 0;
}
#endif
EXPORT int cuGraphAddEventRecordNode(void **out, void *graph, void *const *after, size_t nafter,
                                     void *event)
{
    (void)event;
    Node *n;
    int r = add_node(graph, after, nafter, &n);
    *out = n;
    return r;
}
EXPORT int cuGraphKernelNodeSetAttribute(void *node, int attribute, const int *value)
{
    if (attribute != 2) return 1;
    ((Node *)node)->cooperative = *value;
    return 0;
}
EXPORT int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags)
{
    (void)flags;
    if (fails("INSTANTIATE")) return fails("INSTANTIATE");
    *exec = graph;
    fake_cuda.execs++;
    return 0;
}
EXPORT int cuGraphExecKernelNodeSetParams(void *exec, void *node, const KernelParams *p)
{
    Node *n = node;
    if (n->graph != exec || !n->f || n->f != p->f) return 1;
    set_kernel(n, p);
    fake_cuda.changes++;
    return fails("CHANGE");
}
EXPORT int cuGraphExecMemcpyNodeSetParams(void *exec, void *node, const CopyParams *p,
                                          void *context)
{
    (void)context;
    Node *n = node;
    if (n->graph != exec || n->f) return 1;
    fake_cuda.changes++;
    return set_copy(n, p);
}

static int is_ready(const Node *n, const char *done)
{
    if (done[n->number]) return 0;
    for (int i = 0; i < n->nafter; i++)
        if (!done[n->after[i]]) return 0;
    return 1;
}

// Of the nodes that could run, the last goes first: far from the order in which they were added.
EXPORT int cuGraphLaunch(void *exec, void *stream)
{
    const Graph *g = exec;
    char done[MAX_NODES] = {0};
    fake_cuda.last_stream = stream;
    fake_cuda.replays++;
    for (int count = 0; count < g->n; count++) {
        int i = g->n - 1;
        while (i >= 0 && !is_ready(g->node[i], done)) i--;
        if (i < 0) return 1;
        const Node *n = g->node[i];
        done[i] = 1;
        if (n->f && do_launch(n)) return fails("LAUNCH");
        if (!n->f) memmove(n->to, n->from, n->bytes);
    }
    return fails("REPLAY");
}
EXPORT int cuGraphExecDestroy(void *exec)
{
    (void)exec;
    fake_cuda.execs--;
    return 0;
}
EXPORT int cuGraphDestroy(void *graph)
{
    Graph *g = graph;
    for (int i = 0; i < g->n; i++) free(g->node[i]);
    free(g);
    fake_cuda.graphs--;
    return 0;
}
