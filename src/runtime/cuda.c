// SPDX-License-Identifier: Apache-2.0
// A GPU as a device: opening it, modules, waiting. It works in the primary context, which
// other users of CUDA in the process share, and in a stream of its own.
#include "runtime/cuda_driver.h"

#include "base/util.h"
#include "runtime/memory.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    OLDEST_ARCH = 75,
    STREAM_NON_BLOCKING = 1,
    HOST_PORTABLE_MAPPED = 3,
    FUNCTION_DYNAMIC_SHARED_BYTES = 8
};

// Of CUdevice_attribute.
enum {
    ATTRIBUTE_CLOCK_KHZ = 13,
    ATTRIBUTE_MULTIPROCESSORS = 16,
    ATTRIBUTE_MEMORY_CLOCK_KHZ = 36,
    ATTRIBUTE_MEMORY_BITS = 37,
    ATTRIBUTE_L2_BYTES = 38,
    ATTRIBUTE_MAJOR = 75,
    ATTRIBUTE_MINOR = 76,
    ATTRIBUTE_SHARED_BYTES = 97
};

static Cuda *cuda(Device *d)
{
    return (Cuda *)d;
}

// ---- errors

// Results after which the driver gives the same for whatever it is asked (cuda.h).
static bool is_fatal(CudaResult r)
{
    static const CudaResult fatal[] = {CUDA_ECC_UNCORRECTABLE,  CUDA_CONTAINED,
                                       CUDA_ILLEGAL_ADDRESS,    CUDA_LAUNCH_TIMEOUT,
                                       CUDA_CONTEXT_DESTROYED,  CUDA_ASSERT,
                                       CUDA_TENSOR_MEMORY_LEAK, CUDA_MPS_CLIENT_TERMINATED};
    for (size_t i = 0; i < COUNT(fatal); i++)
        if (r == fatal[i]) return true;
    return r >= CUDA_HARDWARE_STACK_ERROR && r <= CUDA_LAUNCH_FAILED;
}

static const char *driver_words(const Cuda *c, CudaResult r)
{
    const char *text = NULL;
    c->driver.error_string(r, &text);
    return text ? text : "unknown error";
}

// Any kernel since the last wait may be the one.
static void suspects(const Cuda *c, char *text, size_t size)
{
    if (c->nlaunch == 0) snprintf(text, size, "no kernel of this context");
    else if (c->nlaunch == 1) snprintf(text, size, "kernel %s", c->last->name);
    else
        snprintf(text, size,
                 "one of %" PRId64 " kernels from %s to %s (HEALD_CUDA_SYNC=1 tells which)",
                 c->nlaunch, c->first->name, c->last->name);
}

static heald_status lose(Cuda *c, CudaResult r, Error *e)
{
    char who[320];
    suspects(c, who, sizeof who);
    c->lost = true;
    error_set(&c->reason, HEALD_DEVICE, "the GPU's context is lost, by %s: %s (error %d)", who,
              driver_words(c, r), r);
    return error_set(e, HEALD_DEVICE, "%s", c->reason.text);
}

heald_status cuda_result(Cuda *c, CudaResult r, Error *e, const char *fmt, ...)
{
    if (r == CUDA_OK) return HEALD_OK;
    if (is_fatal(r)) return lose(c, r, e);
    char what[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    heald_status s = r == CUDA_OUT_OF_MEMORY ? HEALD_NO_MEMORY : HEALD_DEVICE;
    return error_set(e, s, "%s: %s (error %d)", what, driver_words(c, r), r);
}

heald_status cuda_enter(Cuda *c, Error *e)
{
    if (c->lost) return error_set(e, HEALD_DEVICE, "%s", c->reason.text);
    if (c->entered) return HEALD_OK;
    c->driver.context_get(&c->outer);
    c->entered = true;
    if (c->outer == c->context) return HEALD_OK;
    return cuda_result(c, c->driver.context_set(c->context), e, "the GPU's context");
}

static void cuda_leave(Device *d)
{
    Cuda *c = cuda(d);
    if (c->entered && c->outer != c->context) c->driver.context_set(c->outer);
    c->entered = false;
}

// ---- opening

static int attribute(const Cuda *c, int which)
{
    int value = 0;
    c->driver.device_attribute(&value, which, c->device);
    return value;
}

static heald_status choose(Cuda *c, int ordinal, Error *e)
{
    int n = 0;
    if (c->driver.device_count(&n) || n == 0)
        return error_set(e, HEALD_DEVICE, "no NVIDIA GPU is present");
    if (ordinal < 0 || ordinal >= n)
        return error_set(e, HEALD_INVALID_ARGUMENT, "there is no GPU %d; there are %d", ordinal, n);
    heald_status s =
        cuda_result(c, c->driver.device_get(&c->device, ordinal), e, "GPU %d", ordinal);
    if (s) return s;
    size_t bytes = 0;
    CudaInfo *i = &c->info;
    c->driver.device_name(i->name, sizeof i->name, c->device);
    c->driver.device_memory(&bytes, c->device);
    c->driver.driver_version(&i->driver_version);
    i->memory_bytes = (int64_t)bytes;
    i->arch = attribute(c, ATTRIBUTE_MAJOR) * 10 + attribute(c, ATTRIBUTE_MINOR);
    i->nmultiprocessor = attribute(c, ATTRIBUTE_MULTIPROCESSORS);
    i->clock_hz = 1e3 * attribute(c, ATTRIBUTE_CLOCK_KHZ);
    // Two transfers in a cycle.
    i->bandwidth =
        2e3 * attribute(c, ATTRIBUTE_MEMORY_CLOCK_KHZ) * attribute(c, ATTRIBUTE_MEMORY_BITS) / 8;
    i->l2_bytes = attribute(c, ATTRIBUTE_L2_BYTES);
    i->shared_bytes = attribute(c, ATTRIBUTE_SHARED_BYTES);
    if (i->arch >= OLDEST_ARCH) return HEALD_OK;
    return error_set(e, HEALD_UNSUPPORTED, "%s has compute capability %d.%d; 7.5 is the least",
                     i->name, i->arch / 10, i->arch % 10);
}

static heald_status start(Cuda *c, Error *e)
{
    heald_status s = cuda_result(c, c->driver.context_retain(&c->context, c->device), e,
                                 "a context on %s", c->info.name);
    if (!s) s = cuda_enter(c, e);
    if (!s)
        s = cuda_result(c, c->driver.stream_create(&c->own_stream, STREAM_NON_BLOCKING), e,
                        "a stream");
    if (!c->stream) c->stream = c->own_stream;
    if (!s) s = cuda_result(c, c->driver.event_create(&c->joint, 0), e, "an event");
    void *host = NULL;
    size_t bytes = CUDA_MAX_CHECKED * sizeof(uint32_t);
    if (!s)
        s = cuda_result(c, c->driver.host_alloc(&host, bytes, HOST_PORTABLE_MAPPED), e,
                        "memory that the GPU shares");
    if (s) return s;
    memset(host, 0, bytes);
    c->failed = host;
    return cuda_result(c, c->driver.host_pointer(&c->failed_on_device, host, 0), e,
                       "memory that the GPU shares");
}

static void cuda_close(Device *d)
{
    Cuda *c = cuda(d);
    const CudaDriver *v = &c->driver;
    if (c->context) {
        if (!c->entered) v->context_get(&c->outer);
        c->entered = true;
        v->context_set(c->context);
        if (c->stream && !c->lost) v->stream_wait(c->stream);
        cuda_free_all(c);
        if (c->failed) v->host_free((void *)c->failed);
        if (c->staging.at) v->host_free(c->staging.at);
        for (int i = 0; i < c->nmark; i++) v->event_destroy(c->mark[i]);
        if (c->joint) v->event_destroy(c->joint);
        if (c->own_stream) v->stream_destroy(c->own_stream);
        v->context_set(c->outer == c->context ? NULL : c->outer);
        v->context_release(c->device);
    }
    cuda_driver_close(&c->driver);
    memory_free(c->mark);
    memory_free(c);
}

static bool switched(const char *variable, bool otherwise)
{
    const char *text = getenv(variable);
    return text && *text ? strcmp(text, "0") != 0 : otherwise;
}

static heald_status cuda_open(const DeviceOptions *o, Device **out, Error *e)
{
    Cuda *c = memory_alloc_zeroed(sizeof *c);
    if (!c) return error_no_memory(e, sizeof *c, "a device");
    c->synchronous = switched("HEALD_CUDA_SYNC", false);
    c->head.graphs = !c->synchronous && switched("HEALD_CUDA_GRAPH", true);
    c->overlap = switched("HEALD_CUDA_OVERLAP", true);
    c->stream = o->stream;
    heald_status s = cuda_driver_open(&c->driver, e);
    if (!s) s = choose(c, o->ordinal, e);
    if (!s) s = start(c, e);
    if (s) cuda_close(&c->head);
    else *out = &c->head;
    return s;
}

const CudaInfo *cuda_info(const Device *d)
{
    return &((const Cuda *)d)->info;
}

void *cuda_stream(const Device *d)
{
    return ((const Cuda *)d)->stream;
}

static heald_status cuda_set_stream(Device *d, void *stream, Error *e)
{
    Cuda *c = cuda(d);
    CudaStream *next = stream ? stream : c->own_stream;
    CudaEvent *done = c->joint;
    heald_status s = cuda_enter(c, e);
    if (s || next == c->stream) return s;
    s = cuda_result(c, c->driver.event_record(done, c->stream), e, "the stream so far");
    if (!s) s = cuda_result(c, c->driver.stream_after(next, done, 0), e, "the stream to come");
    if (!s) c->stream = next;
    return s;
}

// ---- waiting

heald_status cuda_wait(Cuda *c, Error *e)
{
    heald_status s = cuda_result(c, c->driver.stream_wait(c->stream), e, "waiting for the GPU");
    if (s && !c->lost) return s;
    // A check that failed says more than the fault by which it ended the kernel.
    Error check = {0};
    if (cuda_failed_checks(c, &check)) s = error_set(e, check.status, "%s", check.text);
    c->nlaunch = 0;
    c->staging.used = 0;
    return s;
}

static heald_status cuda_synchronise(Device *d, Error *e)
{
    heald_status s = cuda_enter(cuda(d), e);
    return s ? s : cuda_wait(cuda(d), e);
}

// ---- modules

static heald_status cuda_load_module(Device *d, const char *path, DeviceModule **out, Error *e)
{
    Cuda *c = cuda(d);
    *out = NULL;
    heald_status s = cuda_enter(c, e);
    if (s) return s;
    CudaResult r = c->driver.module_load((CudaModule **)out, path);
    if (r == CUDA_FILE_NOT_FOUND) return error_set(e, HEALD_IO, "cannot load %s", path);
    if (r == CUDA_INVALID_IMAGE || r == CUDA_NO_BINARY_FOR_GPU || r == CUDA_INVALID_PTX ||
        r == CUDA_UNSUPPORTED_PTX)
        return error_set(e, HEALD_UNSUPPORTED,
                         "%s was compiled for another GPU than %s, or by a compiler that is newer "
                         "than the driver, which is for CUDA %d.%d: %s (error %d)",
                         path, c->info.name, c->info.driver_version / 1000,
                         c->info.driver_version % 1000 / 10, driver_words(c, r), r);
    return cuda_result(c, r, e, "loading %s", path);
}

static void cuda_unload_module(Device *d, DeviceModule *m)
{
    Cuda *c = cuda(d);
    if (m && !cuda_enter(c, NULL)) c->driver.module_unload((CudaModule *)m);
}

static heald_status cuda_find_entry(Device *d, DeviceModule *m, const char *name,
                                    RuntimeStage *stage, Error *e)
{
    Cuda *c = cuda(d);
    CudaFunction *f = NULL;
    heald_status s = cuda_enter(c, e);
    if (s) return s;
    CudaResult r = c->driver.module_function(&f, (CudaModule *)m, name);
    if (r == CUDA_NOT_FOUND) return error_set(e, HEALD_NOT_FOUND, "there is no kernel %s", name);
    s = cuda_result(c, r, e, "kernel %s", name);
    if (!s && stage->shared_bytes > 0) {
        r = c->driver.function_set(f, FUNCTION_DYNAMIC_SHARED_BYTES, (int)stage->shared_bytes);
        s = cuda_result(c, r, e, "%" PRId64 " bytes of shared memory for kernel %s",
                        stage->shared_bytes, name);
    }
    stage->entry.handle = f;
    return s;
}

const DeviceOps device_cuda = {
    .api_version = DEVICE_API_VERSION,
    .name = "cuda",
    .align = 256,
    .open = cuda_open,
    .close = cuda_close,
    .allocate = cuda_allocate,
    .free = cuda_free,
    .copy = cuda_copy,
    .launch = cuda_launch,
    .load_module = cuda_load_module,
    .unload_module = cuda_unload_module,
    .find_entry = cuda_find_entry,
    .synchronise = cuda_synchronise,
    .set_stream = cuda_set_stream,
    .graph_begin = cuda_graph_begin,
    .graph_after = cuda_graph_after,
    .graph_change = cuda_graph_change,
    .graph_end = cuda_graph_end,
    .graph_run = cuda_graph_run,
    .graph_drop = cuda_graph_drop,
    .leave = cuda_leave,
    .mark = cuda_mark,
    .mark_ns = cuda_mark_ns,
};
