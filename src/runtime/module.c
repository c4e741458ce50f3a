// SPDX-License-Identifier: Apache-2.0
// Shared objects through dlopen.
#include "runtime/module.h"

#include "base/util.h"
#include "runtime/memory.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

struct Module {
    atomic_int refs;
    void *handle;
    char path[]; // with a slash, so that dlopen searches nowhere
};

heald_status module_open(const char *path, Module **out, Error *e)
{
    *out = NULL;
    size_t size = strlen(path) + sizeof "./";
    Module *m = memory_alloc(sizeof *m + size);
    if (!m) return error_no_memory(e, (int64_t)(sizeof *m + size), "a module");
    atomic_init(&m->refs, 1);
    snprintf(m->path, size, "%s%s", strchr(path, '/') ? "" : "./", path);
    m->handle = dlopen(m->path, RTLD_NOW | RTLD_LOCAL);
    if (!m->handle) {
        const char *why = dlerror();
        bool named = why && strstr(why, path);
        error_set(e, HEALD_IO, "cannot load %s%s%s", named ? "" : path, named ? "" : ": ",
                  why ? why : "unknown reason");
        memory_free(m);
        return HEALD_IO;
    }
    *out = m;
    return HEALD_OK;
}

Module *module_retain(Module *m)
{
    atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed);
    return m;
}

void module_release(Module *m)
{
    if (!m || atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel) != 1) return;
    dlclose(m->handle);
    memory_free(m);
}

const char *module_path(const Module *m)
{
    return m->path;
}

heald_status module_entry(const Module *m, const char *symbol, CpuEntry **out, Error *e)
{
    // POSIX promises that a function's address survives the way through void *.
    union {
        void *object;
        CpuEntry *function;
    } address = {dlsym(m->handle, symbol)};
    *out = address.function;
    if (address.object) return HEALD_OK;
    return error_set(e, HEALD_NOT_FOUND, "%s has no function %s", m->path, symbol);
}
