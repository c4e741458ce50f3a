// SPDX-License-Identifier: Apache-2.0
// The client's side of NVTX 3. The profiler's library is given a function that finds two structs by
// number; one of them finds tables of pointers to slots, and into those slots the profiler puts its
// functions. The state is the process's, since so is a profiler: it stays until the end.
#include "runtime/nvtx.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef void (*Slot)(void); // a function of any type

// Numbers of nvtxTypes.h. Function 0 of each module is none. All modules are there, with all their
// functions, though two are used: profilers fill what they know, and some give up if one is
// missing.
enum { NVTX_VERSION = 3, CALLBACKS = 1, VERSION_INFO = 3 };
enum { CORE = 1, RANGE_PUSH = 9, RANGE_POP = 11 };
enum { NMODULE = 7, MOST_FUNCTIONS = 16 };
static const unsigned nfunction[NMODULE] = {
    0,
    16, // core
    9,  // CUDA
    15, // OpenCL
    7,  // the CUDA runtime
    16, // core of version 2: domains
    7,  // synchronisation
};

typedef struct Callbacks {
    size_t struct_bytes;
    int (*find_table)(int module, Slot ***table, unsigned *n);
} Callbacks;

typedef struct VersionInfo {
    size_t struct_bytes;
    uint32_t version, reserved;
    void (*set_profiler_version)(uint32_t version);
} VersionInfo;

typedef const void *FindStruct(uint32_t number);

static struct {
    Slot slot[NMODULE][MOST_FUNCTIONS];
    Slot *table[NMODULE][MOST_FUNCTIONS + 1]; // ends with NULL
    Error error;
} nvtx;

static int find_table(int module, Slot ***table, unsigned *n)
{
    if (module <= 0 || module >= NMODULE) return 0;
    if (table) *table = nvtx.table[module];
    if (n) *n = nfunction[module];
    return 1;
}

static void set_profiler_version(uint32_t version)
{
    (void)version;
}

static const void *find_struct(uint32_t number)
{
    static const Callbacks callbacks = {sizeof callbacks, find_table};
    static const VersionInfo info = {sizeof info, NVTX_VERSION, 0, set_profiler_version};
    return number == CALLBACKS ? (const void *)&callbacks : number == VERSION_INFO ? &info : NULL;
}

const char *nvtx_profiler(void)
{
    const char *path = getenv("NVTX_INJECTION64_PATH");
    return path && *path ? path : NULL;
}

static heald_status attach(void *library, const char *path, Error *e)
{
    int (*init)(FindStruct * find);
    // POSIX promises that a function's address survives the way through void *.
    *(void **)&init = dlsym(library, "InitializeInjectionNvtx2");
    if (!init) return error_set(e, HEALD_IO, "%s has no function InitializeInjectionNvtx2", path);
    for (int m = 1; m < NMODULE; m++)
        for (unsigned i = 1; i < nfunction[m]; i++) nvtx.table[m][i] = &nvtx.slot[m][i];
    if (!init(find_struct)) return error_set(e, HEALD_IO, "%s refuses to start", path);
    return HEALD_OK;
}

static void open_once(void)
{
    const char *path = nvtx_profiler();
    if (!path) return;
    void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    if (!library) {
        error_set(&nvtx.error, HEALD_IO, "%s", dlerror());
    } else if (attach(library, path, &nvtx.error)) {
        memset(nvtx.slot, 0, sizeof nvtx.slot);
        dlclose(library);
    }
    if (nvtx.error.status) error_prefix(&nvtx.error, HEALD_IO, "NVTX_INJECTION64_PATH");
}

heald_status nvtx_open(Error *e)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_once);
    if (e) *e = nvtx.error;
    return nvtx.error.status;
}

void nvtx_push(const char *name)
{
    nvtx_open(NULL);
    int (*push)(const char *) = (int (*)(const char *))nvtx.slot[CORE][RANGE_PUSH];
    if (push) push(name);
}

void nvtx_pop(void)
{
    int (*pop)(void) = (int (*)(void))nvtx.slot[CORE][RANGE_POP];
    if (pop) pop();
}
