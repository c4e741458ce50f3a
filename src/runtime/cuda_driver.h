// SPDX-License-Identifier: Apache-2.0
// NVIDIA's driver, found at run time, and the device that speaks to it. Types are named here
// because its header is not needed to build.
#ifndef HEALD_RUNTIME_CUDA_DRIVER_H
#define HEALD_RUNTIME_CUDA_DRIVER_H

#include "runtime/cuda.h"

typedef int CudaResult;
typedef unsigned long long CudaPointer;
typedef struct CudaContext CudaContext;
typedef struct CudaStream CudaStream;
typedef struct CudaEvent CudaEvent;
typedef struct CudaModule CudaModule;
typedef struct CudaFunction CudaFunction;
typedef struct CudaGraph CudaGraph;
typedef struct CudaGraphExec CudaGraphExec;
typedef struct CudaNode CudaNode;

typedef struct CudaKernelNode { // CUDA_KERNEL_NODE_PARAMS_v1
    CudaFunction *f;
    unsigned grid[3], block[3], shared;
    void **params, **extra;
} CudaKernelNode;

typedef struct CudaCopyEnd {
    size_t x, y, z, level;
    unsigned memory_type;
    void *host;
    CudaPointer device;
    void *array, *reserved;
    size_t pitch, height;
} CudaCopyEnd;
typedef struct CudaCopyNode { // CUDA_MEMCPY3D_v2
    CudaCopyEnd from, to;
    size_t width_bytes, height, depth;
} CudaCopyNode;

typedef union CudaAttributeValue { // CUlaunchAttributeValue
    char pad[64];
    int number;
} CudaAttributeValue;
typedef struct CudaAttribute { // CUlaunchAttribute
    int id;
    char pad[4];
    CudaAttributeValue value;
} CudaAttribute;
typedef struct CudaLaunch { // CUlaunchConfig
    unsigned grid[3], block[3], shared;
    CudaStream *stream;
    CudaAttribute *attribute;
    unsigned nattribute;
} CudaLaunch;

typedef struct CudaEdge { // CUgraphEdgeData
    unsigned char from_port, to_port, type, reserved[5];
} CudaEdge;

// Numbers of cuda.h.
enum {
    CUDA_OK = 0,
    CUDA_OUT_OF_MEMORY = 2,
    CUDA_NO_DEVICE = 100,
    CUDA_INVALID_IMAGE = 200,
    CUDA_NO_BINARY_FOR_GPU = 209,
    CUDA_ECC_UNCORRECTABLE = 214,
    CUDA_INVALID_PTX = 218,
    CUDA_UNSUPPORTED_PTX = 222,
    CUDA_CONTAINED = 226,
    CUDA_FILE_NOT_FOUND = 301,
    CUDA_NOT_FOUND = 500,
    CUDA_ILLEGAL_ADDRESS = 700,
    CUDA_LAUNCH_TIMEOUT = 702,
    CUDA_CONTEXT_DESTROYED = 709,
    CUDA_ASSERT = 710,
    CUDA_HARDWARE_STACK_ERROR = 714,
    CUDA_LAUNCH_FAILED = 719,
    CUDA_COOPERATIVE_TOO_LARGE = 720,
    CUDA_TENSOR_MEMORY_LEAK = 721,
    CUDA_MPS_CLIENT_TERMINATED = 810
};
enum { CUDA_MEMORY_DEVICE = 2 };                                    // of CUmemorytype
enum { CUDA_ATTRIBUTE_COOPERATIVE = 2, CUDA_ATTRIBUTE_SERIAL = 6 }; // of CUlaunchAttributeID

typedef struct CudaDriver {
    void *library;
#define CU(field, symbol, parameters) CudaResult(*field) parameters;
#include "runtime/cuda_driver.def"
#undef CU
} CudaDriver;

// Loads libcuda.so.1, or the file HEALD_CUDA_DRIVER, and starts it. HEALD_DEVICE with what is
// missing: the driver, a device, a newer driver.
heald_status cuda_driver_open(CudaDriver *d, Error *e);
void cuda_driver_close(CudaDriver *d);

// ---- the device

typedef struct CudaBlock { // of memory, from the driver
    CudaPointer p;
    int64_t bytes;
    bool used;
} CudaBlock;

enum { CUDA_MAX_CHECKED = 1024 };

// Memory of the host for small copies to the GPU; all of it is free again after a wait.
typedef struct CudaStaging {
    char *at; // NULL: not asked for yet
    int64_t used;
    bool refused;
} CudaStaging;

// Where launches and copies go while a graph is recorded.
typedef struct CudaRecord {
    DeviceGraph *graph; // NULL: to the stream
    int node;           // the next one
    const int *after;   // of the next node: what it waits for; nafter < 0: the node before it
    int nafter;
} CudaRecord;

typedef struct Cuda {
    Device head;
    CudaDriver driver;
    CudaInfo info;
    int device;
    CudaContext *context;
    bool entered;       // the context is the thread's, and before that
    CudaContext *outer; // was this one
    CudaStream *own_stream;
    CudaStream *stream; // where all work goes: its own, or the caller's
    CudaEvent *joint;   // where one stream follows another
    CudaEvent **mark;   // (nmark)
    int nmark;
    CudaStaging staging;
    CudaBlock *block;
    int nblock, block_capacity;
    // Kernels since the last wait: one of them is at fault when it fails.
    const RuntimeKernel *first, *last;
    int64_t nlaunch;
    // Where kernels tell which of their checks failed, in host memory: a word for each kernel.
    volatile uint32_t *failed;
    CudaPointer failed_on_device;
    const RuntimeKernel *checked[CUDA_MAX_CHECKED];
    bool synchronous; // wait after each launch, so that a fault is laid at the right door
    bool overlap;     // let kernels start before the one before them ends
    bool lost;        // nothing works any more, and
    Error reason;     // why
    CudaRecord record;
} Cuda;

// Makes the context the thread's, until cuda_leave. HEALD_DEVICE when it is lost.
heald_status cuda_enter(Cuda *c, Error *e);
// A driver's result as a status: HEALD_DEVICE or HEALD_NO_MEMORY with "WHAT: the driver's words". A
// result that means that the context is dead marks it as lost.
heald_status cuda_result(Cuda *c, CudaResult r, Error *e, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
// Waits for the stream, and looks for faults and failed checks.
heald_status cuda_wait(Cuda *c, Error *e);

heald_status cuda_allocate(Device *d, int64_t bytes, void **out, Error *e);
void cuda_free(Device *d, void *p);
void cuda_free_all(Cuda *c); // to the driver

heald_status cuda_copy(Device *d, CopyKind kind, void *to, const void *from, int64_t bytes,
                       Error *e);

heald_status cuda_launch(Device *d, const RuntimeKernel *k, int stage, const int64_t *grid,
                         void *const *buffers, const int64_t *dims, Error *e);
heald_status cuda_failed_checks(Cuda *c, Error *e);

// Says for a later fault which kernels have run.
void cuda_note_launches(Cuda *c, const RuntimeKernel *first, const RuntimeKernel *last, int64_t n);

// What is launched or copied while a graph is recorded, as its next node.
heald_status cuda_record_kernel(Cuda *c, const RuntimeKernel *k, const RuntimeStage *st,
                                const CudaKernelNode *node, Error *e);
heald_status cuda_record_copy(Cuda *c, void *to, const void *from, int64_t bytes, Error *e);

heald_status cuda_graph_begin(Device *d, DeviceGraph **g, Error *e);
void cuda_graph_after(Device *d, const int *node, int n);
heald_status cuda_graph_change(Device *d, DeviceGraph *g, int node, Error *e);
heald_status cuda_graph_end(Device *d, DeviceGraph *g, int *nnode, Error *e);
heald_status cuda_graph_run(Device *d, DeviceGraph *g, Error *e);
void cuda_graph_drop(Device *d, DeviceGraph *g);
heald_status cuda_record_mark(Cuda *c, CudaEvent *event, Error *e);

heald_status cuda_mark(Device *d, int mark, Error *e);
heald_status cuda_mark_ns(Device *d, int from, int to, int64_t *ns, Error *e);

#endif
