// SPDX-License-Identifier: Apache-2.0
// A stand-in for libcuda.so.1: memory of the host, launches recorded and not run, and failures on
// demand, set by environment variables FAKE_CUDA_...
#include "fake_driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { MAX_LAUNCHES = 64 };

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
EXPORT int cuGetErrorName(int r, const char **text)
{
    (void)r;
    *text = "CUDA_ERROR_FAKE";
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
EXPORT int cuCtxSetCurrent(void *context)
{
    (void)context;
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
    static int functions[8];
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
static int note_launch(const unsigned *shape, unsigned shared, void **params, int cooperative)
{
    if (fails("LAUNCH")) return fails("LAUNCH");
    if (fake_cuda.nlaunch == MAX_LAUNCHES) fake_cuda.nlaunch = 0;
    int n = fake_cuda.nlaunch++;
    for (int i = 0; i < 3; i++) fake_cuda.launch[n].grid[i] = shape[i];
    fake_cuda.launch[n].block = shape[3];
    fake_cuda.launch[n].shared = shared;
    fake_cuda.launch[n].cooperative = cooperative;
    int want = number("FAKE_CUDA_ARGUMENTS", 0);
    for (int i = 0; i < want; i++) memcpy(&fake_cuda.launch[n].argument[i], params[i], 8);
    int check = number("FAKE_CUDA_CHECK", 0); // as if the kernel had failed that check
    if (check)
        *(volatile uint32_t *)(uintptr_t)fake_cuda.launch[n].argument[want - 1] = (uint32_t)check;
    return 0;
}
EXPORT int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                          unsigned bz, unsigned shared, void *stream, void **params, void **extra)
{
    (void)f, (void)by, (void)bz, (void)stream, (void)extra;
    return note_launch((unsigned[]){gx, gy, gz, bx}, shared, params, 0);
}
EXPORT int cuLaunchCooperativeKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                     unsigned by, unsigned bz, unsigned shared, void *stream,
                                     void **params)
{
    (void)f, (void)by, (void)bz, (void)stream;
    if (gx > 132) return 720;
    return note_launch((unsigned[]){gx, gy, gz, bx}, shared, params, 1);
}
EXPORT int cuStreamBeginCapture_v2(void *stream, int mode)
{
    (void)stream, (void)mode;
    return 0;
}
EXPORT int cuStreamEndCapture(void *stream, void **graph)
{
    (void)stream;
    *graph = &fake_cuda;
    fake_cuda.graphs++;
    return 0;
}
EXPORT int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags)
{
    (void)graph, (void)flags;
    *exec = &fake_cuda;
    return 0;
}
EXPORT int cuGraphDestroy(void *graph)
{
    (void)graph;
    fake_cuda.graphs--;
    return 0;
}
EXPORT int cuGraphLaunch(void *exec, void *stream)
{
    (void)exec, (void)stream;
    fake_cuda.replays++;
    return 0;
}
EXPORT int cuGraphExecDestroy(void *exec)
{
    (void)exec;
    return 0;
}
