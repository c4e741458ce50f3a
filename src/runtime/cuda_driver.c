// SPDX-License-Identifier: Apache-2.0
// Loading NVIDIA's driver.
#include "runtime/cuda_driver.h"

#include "base/util.h"

#include <dlfcn.h>
#include <stdlib.h>

enum { OLDEST_DRIVER = 11040 }; // CUDA 11.4: the first with all of cuda_driver.def

static const struct Symbol {
    const char *name;
    size_t offset;
    bool needed;
} symbols[] = {
#define CU(field, symbol, parameters) {symbol, offsetof(CudaDriver, field), true},
#define CU_NEW(field, symbol, parameters) {symbol, offsetof(CudaDriver, field), false},
#include "runtime/cuda_driver.def"
#undef CU
};

static heald_status find_symbols(CudaDriver *d, Error *e)
{
    for (size_t i = 0; i < COUNT(symbols); i++) {
        void **field = (void **)((char *)d + symbols[i].offset);
        *field = dlsym(d->library, symbols[i].name);
        if (!*field && symbols[i].needed)
            return error_set(
                e, HEALD_DEVICE,
                "the NVIDIA driver is too old: it lacks %s; one for CUDA 11.4 or newer "
                "is needed",
                symbols[i].name);
    }
    return HEALD_OK;
}

static heald_status start(CudaDriver *d, Error *e)
{
    CudaResult r = d->init(0);
    int version = 0;
    const char *text = NULL;
    if (r == CUDA_NO_DEVICE) return error_set(e, HEALD_DEVICE, "no NVIDIA GPU is present");
    if (r) {
        d->error_string(r, &text);
        return error_set(e, HEALD_DEVICE, "the NVIDIA driver does not start: %s (error %d)",
                         text ? text : "unknown error", r);
    }
    if (d->driver_version(&version) || version < OLDEST_DRIVER)
        return error_set(e, HEALD_DEVICE,
                         "the NVIDIA driver is too old: it is for CUDA %d.%d, and 11.4 is needed",
                         version / 1000, version % 1000 / 10);
    return HEALD_OK;
}

heald_status cuda_driver_open(CudaDriver *d, Error *e)
{
    const char *path = getenv("HEALD_CUDA_DRIVER");
    if (!path || !*path) path = "libcuda.so.1";
    *d = (CudaDriver){.library = dlopen(path, RTLD_NOW | RTLD_LOCAL)};
    if (!d->library) {
        const char *why = dlerror();
        return error_set(e, HEALD_DEVICE, "no NVIDIA driver: %s", why ? why : path);
    }
    heald_status s = find_symbols(d, e);
    if (!s) s = start(d, e);
    if (s) cuda_driver_close(d);
    return s;
}

void cuda_driver_close(CudaDriver *d)
{
    if (d->library) dlclose(d->library);
    *d = (CudaDriver){0};
}
