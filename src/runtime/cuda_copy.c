// SPDX-License-Identifier: Apache-2.0
// Copies between the host and a GPU. What is small goes by way of memory that the GPU reads itself,
// so that the caller's is free at once and nobody waits.
#include "runtime/cuda_driver.h"

#include <inttypes.h>
#include <string.h>

enum { STAGING_BYTES = 4 << 20, SMALL_BYTES = 1 << 20, STAGING_ALIGN = 64, HOST_PORTABLE = 1 };

// Room for so much until the next wait; NULL: there is none.
static char *find_staging(Cuda *c, int64_t bytes, Error *e)
{
    CudaStaging *s = &c->staging;
    if (bytes > SMALL_BYTES || s->refused) return NULL;
    if (!s->at && c->driver.host_alloc((void **)&s->at, STAGING_BYTES, HOST_PORTABLE)) {
        s->at = NULL;
        s->refused = true;
        return NULL;
    }
    if (s->used + bytes > STAGING_BYTES && cuda_wait(c, e)) return NULL;
    char *at = s->at + s->used;
    s->used += (bytes + STAGING_ALIGN - 1) / STAGING_ALIGN * STAGING_ALIGN;
    return at;
}

static heald_status to_device(Cuda *c, CudaPointer to, const void *from, int64_t bytes, Error *e)
{
    char *staged = find_staging(c, bytes, e);
    if (c->lost) return error_set(e, HEALD_DEVICE, "%s", c->reason.text);
    if (staged) memcpy(staged, from, (size_t)bytes);
    CudaResult r = c->driver.copy_to_device(to, staged ? staged : from, (size_t)bytes, c->stream);
    heald_status s = cuda_result(c, r, e, "copying %" PRId64 " bytes", bytes);
    return s || staged ? s : cuda_wait(c, e);
}

heald_status cuda_copy(Device *d, CopyKind kind, void *to, const void *from, int64_t bytes,
                       Error *e)
{
    Cuda *c = (Cuda *)d;
    const CudaDriver *v = &c->driver;
    CudaPointer there = (CudaPointer)(uintptr_t)to, here = (CudaPointer)(uintptr_t)from;
    heald_status s = cuda_enter(c, e);
    if (s || bytes == 0) return s;
    if (c->record.graph) return cuda_record_copy(c, to, from, bytes, e);
    if (kind == COPY_HOST_TO_DEVICE) return to_device(c, there, from, bytes, e);
    bool home = kind == COPY_DEVICE_TO_HOST;
    CudaResult r = home ? v->copy_to_host(to, here, (size_t)bytes, c->stream)
                        : v->copy_on_device(there, here, (size_t)bytes, c->stream);
    s = cuda_result(c, r, e, "copying %" PRId64 " bytes", bytes);
    return s || !home ? s : cuda_wait(c, e);
}
