// SPDX-License-Identifier: Apache-2.0
// A stand-in for the library by which a profiler takes ranges of NVTX. It asks for all that the
// tools of NVIDIA ask for, and does not start where something is missing. FAKE_PROFILER=refuse: it
// never does; =print: it tells on stderr what it gets.
#include "fake_profiler.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef void (*Function)(void);

typedef struct Callbacks { // NvtxExportTableCallbacks
    size_t struct_size;
    int (*get_table)(int module, Function ***table, unsigned *size);
} Callbacks;

typedef struct VersionInfo { // NvtxExportTableVersionInfo
    size_t struct_size;
    uint32_t version, reserved;
    void (*set_version)(uint32_t version);
} VersionInfo;

EXPORT FakeProfiler fake_profiler;

static int asked_to(const char *what)
{
    const char *text = getenv("FAKE_PROFILER");
    return text && strcmp(text, what) == 0;
}

static int push(const char *name)
{
    FakeProfiler *p = &fake_profiler;
    int i = atomic_fetch_add(&p->pushes, 1);
    if (i < FAKE_MAX_RANGES) snprintf(p->name[i], sizeof p->name[i], "%s", name);
    if (asked_to("print")) fprintf(stderr, "range %s\n", name);
    int depth = atomic_fetch_add(&p->depth, 1);
    if (depth >= p->deepest) p->deepest = depth + 1;
    return depth;
}

static int pop(void)
{
    FakeProfiler *p = &fake_profiler;
    atomic_fetch_add(&p->pops, 1);
    if (asked_to("print")) fprintf(stderr, "end\n");
    return atomic_fetch_sub(&p->depth, 1) - 1;
}

static void other(void)
{
}

// Puts something into every function of a module, as CUPTI does.
static Function **take(const Callbacks *c, int module, unsigned wanted)
{
    Function **table = NULL;
    unsigned size = 0;
    if (!c->get_table(module, &table, &size) || !table || size != wanted) return NULL;
    if (table[0] || table[size]) return NULL;
    for (unsigned i = 1; i < size; i++) {
        if (*table[i]) return NULL; // a slot belongs to one function
        *table[i] = other;
    }
    return table;
}

EXPORT int InitializeInjectionNvtx2(const void *(*get)(uint32_t id))
{
    static const unsigned sizes[] = {0, 16, 9, 15, 7, 16, 7};
    const VersionInfo *v = get(3);
    const Callbacks *c = get(1);
    Function **core = NULL, **none;
    unsigned n;
    atomic_fetch_add(&fake_profiler.starts, 1);
    if (get(0) || get(2) || get(4) || !v || !c) return 0;
    if (v->struct_size != sizeof *v || v->version != 3 || c->struct_size != sizeof *c) return 0;
    v->set_version(3);
    for (int m = 1; m < 7; m++) {
        Function **table = take(c, m, sizes[m]);
        if (!table) return 0;
        if (m == 1) core = table;
    }
    if (c->get_table(0, &none, &n) || c->get_table(7, &none, &n) || !c->get_table(1, NULL, NULL))
        return 0;
    *core[9] = (Function)push;
    *core[11] = (Function)pop;
    return !asked_to("refuse");
}
