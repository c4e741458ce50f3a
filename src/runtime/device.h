// SPDX-License-Identifier: Apache-2.0
// Devices: where tensors live and kernels run, each kind a table of functions. A Device belongs to
// one context, and so to one thread; the workers of its pool are its own business.
#ifndef HEALD_RUNTIME_DEVICE_H
#define HEALD_RUNTIME_DEVICE_H

#include "base/pool.h"
#include "runtime/kernel.h"

typedef struct Device Device;
typedef struct DeviceModule DeviceModule; // what load_module made; each kind has its own meaning
typedef struct DeviceGraph DeviceGraph;   // recorded launches, likewise

// fn(arg, begin, end, worker) must be called so that the ranges cover [0, ntask) once; `worker` is
// below DeviceOptions.nthread and differs between calls that run at the same time.
typedef void ParallelFor(void *user, int64_t ntask, PoolFn *fn, void *arg);

typedef struct DeviceOptions {
    int nthread;               // of the CPU; 0: one per core
    Pool *pool;                // borrowed; used in place of an own one, and nthread is its size
    ParallelFor *parallel_for; // used in place of a pool; nthread must be set
    void *parallel_user;
    int ordinal;      // which one, of several of a kind
    void *stream;     // the caller's, for all work; NULL: its own
    bool check_races; // the interpreter: races of threads are errors too (slower)
} DeviceOptions;

typedef enum CopyKind { COPY_HOST_TO_DEVICE, COPY_DEVICE_TO_HOST, COPY_DEVICE_TO_DEVICE } CopyKind;

enum {
    DEVICE_API_VERSION = 1,
    // Of what kernels of devices with memory of their own get from outside, in bytes: as much as
    // they move at once. On the host, only a type's own alignment is sure.
    DEVICE_CALLER_ALIGN = 16
};

// allocate, free and copy of devices in the host's memory (device.c).
heald_status host_allocate(Device *d, int64_t bytes, void **out, Error *e);
void host_free(Device *d, void *p);
heald_status host_copy(Device *d, CopyKind kind, void *to, const void *from, int64_t bytes,
                       Error *e);

typedef struct DeviceOps {
    int api_version;
    const char *name;
    int64_t align;    // of what allocate gives, in bytes
    bool host_memory; // allocate gives memory of the host, which outlives the device
    // *out has `ops` set by device_open.
    heald_status (*open)(const DeviceOptions *o, Device **out, Error *e);
    void (*close)(Device *d); // frees d itself
    heald_status (*allocate)(Device *d, int64_t bytes, void **out, Error *e);
    void (*free)(Device *d, void *p); // NULL is fine
    heald_status (*copy)(Device *d, CopyKind kind, void *to, const void *from, int64_t bytes,
                         Error *e);
    // All blocks of one stage, whose writes later stages see. `grid` has 1 where the stage names no
    // extent; the product fits and is not 0. buffers: parameters, then workspaces.
    heald_status (*launch)(Device *d, const RuntimeKernel *k, int stage, const int64_t *grid,
                           void *const *buffers, const int64_t *dims, Error *e);
    // The rest is optional: NULL where there is nothing to do or to offer.
    heald_status (*load_module)(Device *d, const char *path, DeviceModule **out, Error *e);
    void (*unload_module)(Device *d, DeviceModule *m);
    heald_status (*find_entry)(Device *d, DeviceModule *m, const char *name, RuntimeStage *stage,
                               Error *e);             // sets stage->entry
    heald_status (*synchronise)(Device *d, Error *e); // waits for all that was launched and copied
    int (*nthread)(const Device *d);
    // Work goes into this stream from now on, after all that went into the one before; NULL: its
    // own.
    heald_status (*set_stream)(Device *d, void *stream, Error *e);
    // Launches and copies on the device between graph_begin and graph_end do not run: they become
    // nodes of a graph, numbered from 0; pointers and dims are part of them. A node waits for those
    // that graph_after named for it, or else for the node before it.
    heald_status (*graph_begin)(Device *d, DeviceGraph **out, Error *e);
    void (*graph_after)(Device *d, const int *node, int n); // `node` is borrowed until it is there
    // Those between graph_change and graph_end take the places of nodes from `node` on, which had
    // the same kernels and grids but other pointers.
    heald_status (*graph_change)(Device *d, DeviceGraph *g, int node, Error *e);
    // *nnode: where the next node would be. After a failure, the graph is only to be dropped.
    heald_status (*graph_end)(Device *d, DeviceGraph *g, int *nnode, Error *e);
    heald_status (*graph_run)(Device *d, DeviceGraph *g, Error *e);
    void (*graph_drop)(Device *d, DeviceGraph *g); // NULL is fine
    // Before control goes back to whoever may use such devices too: the thread's state is as
    // before.
    void (*leave)(Device *d);
    // Points in what is launched, or recorded, by number; and the time of the device from one to
    // another, which is waited for.
    heald_status (*mark)(Device *d, int mark, Error *e);
    heald_status (*mark_ns)(Device *d, int from, int to, int64_t *ns, Error *e);
} DeviceOps;

// The head of every kind's own struct.
struct Device {
    const DeviceOps *ops;
    bool graphs;     // recording is possible and wanted
    bool small;      // of the current launch: see LaunchShape
    void *workspace; // for launches outside plans; grows, freed by device_close
    int64_t workspace_bytes;
};

extern const DeviceOps device_cpu;

// Kinds by name. A table belongs to a context.
enum { DEVICE_MAX_KINDS = 8 };
typedef struct DeviceTable {
    const DeviceOps *kind[DEVICE_MAX_KINDS];
    int n;
} DeviceTable;

void device_table_init(DeviceTable *t); // with cpu and cuda
// Adds a kind, or replaces the one of that name. HEALD_UNSUPPORTED for another api_version or a
// full table, HEALD_INVALID_ARGUMENT when a required function is missing.
heald_status device_register(DeviceTable *t, const DeviceOps *ops, Error *e);
const DeviceOps *device_find(const DeviceTable *t, const char *name); // NULL: none

heald_status device_open(const DeviceOps *ops, const DeviceOptions *o, Device **out, Error *e);
void device_close(Device *d);                         // NULL is fine
heald_status device_synchronise(Device *d, Error *e); // NULL is fine
// At least so many bytes that stay valid until the next call.
heald_status device_workspace(Device *d, int64_t bytes, void **out, Error *e);

#endif
