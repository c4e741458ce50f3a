// SPDX-License-Identifier: Apache-2.0
// What is the same for all kinds of devices: the table of kinds, opening, the workspace.
#include "runtime/device.h"

#include "base/util.h"
#include "runtime/cuda.h"
#include "runtime/memory.h"

#include <string.h>

void device_table_init(DeviceTable *t)
{
    *t = (DeviceTable){.kind = {&device_cpu, &device_cuda}, .n = 2};
}

heald_status device_register(DeviceTable *t, const DeviceOps *ops, Error *e)
{
    if (ops->api_version != DEVICE_API_VERSION) {
        return error_set(e, HEALD_UNSUPPORTED, "device %s has interface %d, not %d", ops->name,
                         ops->api_version, DEVICE_API_VERSION);
    }
    if (!ops->name || !ops->open || !ops->close || !ops->allocate || !ops->free || !ops->copy ||
        !ops->launch) {
        return error_set(e, HEALD_INVALID_ARGUMENT, "device %s lacks a required function",
                         ops->name ? ops->name : "without name");
    }
    int i = 0;
    while (i < t->n && strcmp(t->kind[i]->name, ops->name)) i++;
    if (i == DEVICE_MAX_KINDS) {
        return error_set(e, HEALD_UNSUPPORTED, "no room for device %s", ops->name);
    }
    t->kind[i] = ops;
    if (i == t->n) t->n++;
    return HEALD_OK;
}

const DeviceOps *device_find(const DeviceTable *t, const char *name)
{
    for (int i = 0; i < t->n; i++) {
        if (!strcmp(t->kind[i]->name, name)) return t->kind[i];
    }
    return NULL;
}

heald_status device_open(const DeviceOps *ops, const DeviceOptions *o, Device **out, Error *e)
{
    *out = NULL;
    heald_status s = ops->open(o ? o : &(DeviceOptions){0}, out, e);
    if (!s) (*out)->ops = ops;
    return s;
}

void device_close(Device *d)
{
    if (!d) return;
    d->ops->free(d, d->workspace);
    d->ops->close(d);
}

heald_status device_synchronise(Device *d, Error *e)
{
    return d && d->ops->synchronise ? d->ops->synchronise(d, e) : HEALD_OK;
}

heald_status device_workspace(Device *d, int64_t bytes, void **out, Error *e)
{
    *out = d->workspace;
    if (bytes <= d->workspace_bytes) return HEALD_OK;
    d->ops->free(d, d->workspace);
    d->workspace = *out = NULL;
    d->workspace_bytes = 0;
    heald_status s = d->ops->allocate(d, bytes, &d->workspace, e);
    if (s) return s;
    d->workspace_bytes = bytes;
    *out = d->workspace;
    return HEALD_OK;
}

heald_status host_allocate(Device *d, int64_t bytes, void **out, Error *e)
{
    UNUSED(d);
    *out = memory_alloc((size_t)bytes);
    return *out ? HEALD_OK : error_no_memory(e, bytes, "device memory");
}

void host_free(Device *d, void *p)
{
    UNUSED(d);
    memory_free(p);
}

heald_status host_copy(Device *d, CopyKind kind, void *to, const void *from, int64_t bytes,
                       Error *e)
{
    UNUSED(d);
    UNUSED(kind);
    UNUSED(e);
    memmove(to, from, (size_t)bytes);
    return HEALD_OK;
}
