// SPDX-License-Identifier: Apache-2.0
// NVIDIA GPUs as devices. The driver is loaded when one is opened; nothing of CUDA is needed to
// build, or to run without.
#ifndef HEALD_RUNTIME_CUDA_H
#define HEALD_RUNTIME_CUDA_H

#include "runtime/device.h"

// It works in the GPU's primary context, so pointers of others in the process are good. Memory is
// 256-byte aligned, and kept for reuse until the device is closed. Launches and copies are in
// order, in a stream of the device's own or of the caller's, a CUstream; copies to the
// host have happened when they return, and memory of the host is free again. A kernel that faults
// takes the context with it: the wait that finds out names the kernel, and every later call fails
// with the same message. HEALD_CUDA_SYNC=1 waits after each launch, HEALD_CUDA_GRAPH=0 records no
// graphs, HEALD_CUDA_OVERLAP=0 lets no kernel start before the one before it ends.
extern const DeviceOps device_cuda;

typedef struct CudaInfo {
    char name[128];
    int arch; // 90: compute capability 9.0
    int nmultiprocessor;
    int driver_version;   // 13000: for CUDA 13.0
    int64_t shared_bytes; // that a block may ask for
    int64_t l2_bytes, memory_bytes;
    double clock_hz, bandwidth; // at most: cycles of a multiprocessor, bytes of memory per second
} CudaInfo;
const CudaInfo *cuda_info(const Device *d); // of a device opened by device_cuda

// The stream that the device works in, a CUstream; for callers that order their own work by it.
void *cuda_stream(const Device *d);

#endif
