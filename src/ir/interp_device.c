// SPDX-License-Identifier: Apache-2.0
// The interpreter behind the runtime's table of device functions: host memory, and a launch that
// runs all stages of the kernel at once.
#include "ir/interp_device.h"

#include "ir/interp.h"
#include "runtime/memory.h"

typedef struct InterpDevice {
    Device base; // first: a Device is one
    InterpOptions options;
} InterpDevice;

static heald_status interp_open(const DeviceOptions *o, Device **out, Error *e)
{
    InterpDevice *d = memory_alloc_zeroed(sizeof *d);
    if (!d) return error_no_memory(e, sizeof *d, "a device");
    d->options.check_races = o->check_races;
    *out = &d->base;
    return HEALD_OK;
}

static void interp_close(Device *d)
{
    memory_free(d);
}

static heald_status interp_launch(Device *d, const RuntimeKernel *k, int stage, const int64_t *grid,
                                  void *const *buffers, const int64_t *dims, Error *e)
{
    UNUSED(grid);
    const InterpOptions *options = &((InterpDevice *)d)->options;
    const Kernel *kernel = k->stage[stage].entry.handle;
    Arena scratch = {0};
    Sources none = {.arena = &scratch};
    Diag diag;
    diag_init(&diag, &scratch, &none);
    heald_status s = HEALD_OK;
    if (!interp_run(kernel, buffers, dims, options, &diag)) {
        const char *text = diag.messages.n ? diag.messages.at[0].text : "it failed";
        s = error_set(e, HEALD_CHECK_FAILED, "kernel %s: %s", k->name, text);
    }
    arena_free(&scratch);
    return s;
}

static int interp_nthread(const Device *d)
{
    UNUSED(d);
    return 1;
}

const DeviceOps device_interp = {
    .api_version = DEVICE_API_VERSION,
    .name = "interp",
    .align = MEMORY_ALIGN,
    .host_memory = true,
    .open = interp_open,
    .close = interp_close,
    .allocate = host_allocate,
    .free = host_free,
    .copy = host_copy,
    .launch = interp_launch,
    .nthread = interp_nthread,
};
