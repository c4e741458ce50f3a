// SPDX-License-Identifier: Apache-2.0
// Recorded launches. A graph is made node by node, not captured from a stream, so that each node
// says what it waits for, and other pointers can be put into it later.
#include "runtime/cuda_driver.h"

#include "base/util.h"
#include "runtime/memory.h"

#include <string.h>

typedef struct GraphNode {
    CudaNode *node;
    bool kernel; // not a copy
} GraphNode;

struct DeviceGraph {
    CudaGraph *graph;
    CudaGraphExec *exec;
    GraphNode *node;  // (n)
    CudaNode **after; // (n), of the node that is added
    int n, capacity;
    int64_t nkernel;
    const RuntimeKernel *first, *last;
};

static bool room_for_node(DeviceGraph *g)
{
    if (g->n < g->capacity) return true;
    int capacity = g->capacity ? 2 * g->capacity : 64;
    GraphNode *more = memory_alloc((size_t)capacity * (sizeof *more + sizeof(CudaNode *)));
    if (!more) return false;
    if (g->n) memcpy(more, g->node, (size_t)g->n * sizeof *more);
    memory_free(g->node);
    g->node = more;
    g->after = (CudaNode **)(more + capacity);
    g->capacity = capacity;
    return true;
}

// What the next node waits for, in g->after. *kernel: one kernel alone.
static size_t find_after(Cuda *c, bool *kernel)
{
    CudaRecord *r = &c->record;
    const DeviceGraph *g = r->graph;
    int last = g->n - 1, n = r->nafter;
    const int *after = r->after;
    if (n < 0) {
        after = &last;
        n = g->n > 0;
    }
    for (int i = 0; i < n; i++) g->after[i] = g->node[after[i]].node;
    *kernel = n == 1 && g->node[after[0]].kernel;
    r->nafter = -1;
    return (size_t)n;
}

static heald_status add_node(Cuda *c, CudaNode *node, bool kernel)
{
    DeviceGraph *g = c->record.graph;
    g->node[g->n++] = (GraphNode){node, kernel};
    c->record.node = g->n;
    return HEALD_OK;
}

// The kernel may start while the one before it ends: an edge that says so in place of the plain
// one.
static CudaResult add_overlapping(Cuda *c, CudaNode *before, const CudaKernelNode *n,
                                  CudaNode **node)
{
    const CudaDriver *v = &c->driver;
    CudaGraph *g = c->record.graph->graph;
    CudaEdge edge = {.from_port = 1, .type = 1};
    CudaResult r = v->graph_add_kernel(node, g, NULL, 0, n);
    return r ? r : v->graph_add_edge(g, &before, node, &edge, 1);
}

static heald_status change_kernel(Cuda *c, const RuntimeKernel *k, const RuntimeStage *st,
                                  const CudaKernelNode *n, Error *e)
{
    DeviceGraph *g = c->record.graph;
    ASSERT(c->record.node < g->n && g->node[c->record.node].kernel);
    CudaNode *node = g->node[c->record.node++].node;
    return cuda_result(c, c->driver.exec_set_kernel(g->exec, node, n), e,
                       "a recorded launch of kernel %s, stage %s", k->name, st->name);
}

heald_status cuda_record_kernel(Cuda *c, const RuntimeKernel *k, const RuntimeStage *st,
                                const CudaKernelNode *n, Error *e)
{
    const CudaDriver *v = &c->driver;
    DeviceGraph *g = c->record.graph;
    CudaNode *node = NULL;
    bool kernel;
    if (g->exec) return change_kernel(c, k, st, n, e);
    if (!room_for_node(g)) return error_no_memory(e, g->n, "recorded launches");
    size_t nafter = find_after(c, &kernel);
    CudaResult r = st->overlaps && c->overlap && kernel && v->graph_add_edge
                       ? add_overlapping(c, g->after[0], n, &node)
                       : v->graph_add_kernel(&node, g->graph, g->after, nafter, n);
    CudaAttributeValue yes = {.number = 1};
    if (!r && st->cooperative) r = v->node_set(node, CUDA_ATTRIBUTE_COOPERATIVE, &yes);
    heald_status s = cuda_result(c, r, e, "recording kernel %s, stage %s", k->name, st->name);
    if (s) return s;
    if (g->nkernel++ == 0) g->first = k;
    g->last = k;
    return add_node(c, node, true);
}

heald_status cuda_record_copy(Cuda *c, void *to, const void *from, int64_t bytes, Error *e)
{
    DeviceGraph *g = c->record.graph;
    CudaNode *node = NULL;
    bool kernel;
    CudaCopyNode n = {.from = {.memory_type = CUDA_MEMORY_DEVICE,
                               .device = (CudaPointer)(uintptr_t)from,
                               .pitch = (size_t)bytes,
                               .height = 1},
                      .to = {.memory_type = CUDA_MEMORY_DEVICE,
                             .device = (CudaPointer)(uintptr_t)to,
                             .pitch = (size_t)bytes,
                             .height = 1},
                      .width_bytes = (size_t)bytes,
                      .height = 1,
                      .depth = 1};
    if (g->exec) {
        ASSERT(c->record.node < g->n && !g->node[c->record.node].kernel);
        node = g->node[c->record.node++].node;
        return cuda_result(c, c->driver.exec_set_copy(g->exec, node, &n, c->context), e,
                           "a recorded copy");
    }
    if (!room_for_node(g)) return error_no_memory(e, g->n, "recorded copies");
    size_t nafter = find_after(c, &kernel);
    heald_status s =
        cuda_result(c, c->driver.graph_add_copy(&node, g->graph, g->after, nafter, &n, c->context),
                    e, "recording a copy");
    return s ? s : add_node(c, node, false);
}

heald_status cuda_record_mark(Cuda *c, CudaEvent *event, Error *e)
{
    DeviceGraph *g = c->record.graph;
    CudaNode *node = NULL;
    bool kernel;
    if (!room_for_node(g)) return error_no_memory(e, g->n, "recorded marks");
    size_t nafter = find_after(c, &kernel);
    heald_status s =
        cuda_result(c, c->driver.graph_add_event(&node, g->graph, g->after, nafter, event), e,
                    "recording an event");
    return s ? s : add_node(c, node, false);
}

heald_status cuda_graph_begin(Device *d, DeviceGraph **out, Error *e)
{
    Cuda *c = (Cuda *)d;
    *out = NULL;
    heald_status s = cuda_enter(c, e);
    if (s) return s;
    DeviceGraph *g = memory_alloc_zeroed(sizeof *g);
    if (!g) return error_no_memory(e, sizeof *g, "a recording");
    s = cuda_result(c, c->driver.graph_create(&g->graph, 0), e, "a recording");
    if (s) {
        memory_free(g);
        return s;
    }
    c->record = (CudaRecord){.graph = g, .nafter = -1};
    *out = g;
    return HEALD_OK;
}

void cuda_graph_after(Device *d, const int *node, int n)
{
    CudaRecord *r = &((Cuda *)d)->record;
    r->after = node;
    r->nafter = n;
}

heald_status cuda_graph_change(Device *d, DeviceGraph *g, int node, Error *e)
{
    Cuda *c = (Cuda *)d;
    c->record = (CudaRecord){.graph = g, .node = node, .nafter = -1};
    return cuda_enter(c, e);
}

heald_status cuda_graph_end(Device *d, DeviceGraph *g, int *nnode, Error *e)
{
    Cuda *c = (Cuda *)d;
    *nnode = c->record.node;
    c->record = (CudaRecord){0};
    heald_status s = cuda_enter(c, e);
    if (s || g->exec) return s;
    return cuda_result(c, c->driver.graph_instantiate(&g->exec, g->graph, 0), e, "a recording");
}

heald_status cuda_graph_run(Device *d, DeviceGraph *g, Error *e)
{
    Cuda *c = (Cuda *)d;
    heald_status s = cuda_enter(c, e);
    if (!s) s = cuda_result(c, c->driver.graph_launch(g->exec, c->stream), e, "recorded launches");
    if (!s) cuda_note_launches(c, g->first, g->last, g->nkernel);
    return s;
}

void cuda_graph_drop(Device *d, DeviceGraph *g)
{
    Cuda *c = (Cuda *)d;
    if (!g) return;
    if (c->record.graph == g) c->record = (CudaRecord){0};
    cuda_enter(c, NULL); // what the driver keeps on the host goes also when the context is lost
    if (g->exec) c->driver.exec_destroy(g->exec);
    c->driver.graph_destroy(g->graph);
    memory_free(g->node);
    memory_free(g);
}
