// SPDX-License-Identifier: Apache-2.0
// The CPU as a device. The blocks of a stage are tasks of a worker pool; each worker has scratch
// memory of its own, kept between launches.
#include "runtime/device.h"

#include "base/util.h"
#include "runtime/memory.h"
#include "runtime/module.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct Cpu {
    Device head;
    Pool *pool, *own_pool; // pool is NULL with parallel_for
    ParallelFor *parallel_for;
    void *parallel_user;
    int nthread;
    char *scratch; // (nthread, scratch_bytes)
    int64_t scratch_bytes;
} Cpu;

static heald_status cpu_open(const DeviceOptions *o, Device **out, Error *e)
{
    if (o->nthread < 0 || (o->parallel_for && o->nthread == 0)) {
        return error_set(e, HEALD_INVALID_ARGUMENT, "the CPU cannot run with %d threads",
                         o->nthread);
    }
    Cpu *c = memory_alloc_zeroed(sizeof *c);
    if (!c) return error_no_memory(e, sizeof *c, "a device");
    c->parallel_for = o->parallel_for;
    c->parallel_user = o->parallel_user;
    c->nthread = o->nthread;
    if (!c->parallel_for) {
        c->own_pool = o->pool ? NULL : pool_create(o->nthread);
        c->pool = o->pool ? o->pool : c->own_pool;
        if (!c->pool) {
            memory_free(c);
            return error_set(e, HEALD_NO_MEMORY, "out of memory for the worker pool");
        }
        c->nthread = pool_size(c->pool);
    }
    *out = &c->head;
    return HEALD_OK;
}

static void cpu_close(Device *d)
{
    Cpu *c = (Cpu *)d;
    pool_destroy(c->own_pool);
    memory_free(c->scratch);
    memory_free(c);
}

typedef struct Job {
    const Cpu *cpu;
    CpuEntry *entry;
    void *const *buffers;
    const int64_t *dims;
    atomic_int_fast64_t failed; // first block of the lowest chunk that failed so far
    pthread_mutex_t mutex;      // for changing `failed`, and for check
    int32_t check;
} Job;

// Chunks below a failed one still run. So the check reported is that of the first block in order,
// however the blocks were shared out.
static void run_chunk(void *user, int64_t begin, int64_t end, int worker)
{
    Job *job = user;
    if (begin > atomic_load_explicit(&job->failed, memory_order_relaxed)) return;
    // Inside a task of another pool all runs serially, with a number that means nothing here.
    char *scratch = job->cpu->scratch;
    if (scratch) scratch += job->cpu->scratch_bytes * (worker % job->cpu->nthread);
    int32_t check = job->entry(job->buffers, job->dims, begin, end, scratch);
    if (!check) return;
    pthread_mutex_lock(&job->mutex);
    if (begin < atomic_load(&job->failed)) {
        atomic_store(&job->failed, begin);
        job->check = check;
    }
    pthread_mutex_unlock(&job->mutex);
}

static heald_status reserve_scratch(Cpu *c, int64_t bytes, Error *e)
{
    if (bytes <= c->scratch_bytes) return HEALD_OK;
    int64_t rounded = memory_round_up(bytes), total;
    if (!mul_i64(rounded, c->nthread, &total)) {
        return error_no_memory(e, bytes, "the scratch memory of each worker");
    }
    memory_free(c->scratch);
    c->scratch_bytes = 0;
    c->scratch = memory_alloc((size_t)total);
    if (!c->scratch) return error_no_memory(e, total, "the scratch memory of the workers");
    c->scratch_bytes = rounded;
    return HEALD_OK;
}

static heald_status check_failed(const RuntimeKernel *k, int stage, int32_t check, Error *e)
{
    const char *text = check >= 1 && check <= k->ncheck ? k->check[check - 1] : NULL;
    return error_set(e, HEALD_CHECK_FAILED, "kernel %s, stage %s: check %d failed%s%s", k->name,
                     k->stage[stage].name, check, text ? ": " : "", text ? text : "");
}

static heald_status cpu_launch(Device *d, const RuntimeKernel *k, int stage, const int64_t *grid,
                               void *const *buffers, const int64_t *dims, Error *e)
{
    Cpu *c = (Cpu *)d;
    const RuntimeStage *st = &k->stage[stage];
    heald_status s = reserve_scratch(c, st->scratch_bytes, e);
    if (s) return s;
    Job job = {.cpu = c, .entry = st->entry.cpu, .buffers = buffers, .dims = dims};
    atomic_init(&job.failed, INT64_MAX);
    pthread_mutex_init(&job.mutex, NULL);
    int64_t nblock = grid[0] * grid[1] * grid[2];
    if (d->small) {
        run_chunk(&job, 0, nblock, 0);
    } else if (c->pool) {
        pool_run(c->pool, nblock, run_chunk, &job);
    } else {
        c->parallel_for(c->parallel_user, nblock, run_chunk, &job);
    }
    pthread_mutex_destroy(&job.mutex);
    return job.check ? check_failed(k, stage, job.check, e) : HEALD_OK;
}

static heald_status cpu_load_module(Device *d, const char *path, DeviceModule **out, Error *e)
{
    UNUSED(d);
    return module_open(path, (Module **)out, e);
}

static void cpu_unload_module(Device *d, DeviceModule *m)
{
    UNUSED(d);
    module_release((Module *)m);
}

static heald_status cpu_find_entry(Device *d, DeviceModule *m, const char *name,
                                   RuntimeStage *stage, Error *e)
{
    UNUSED(d);
    return module_entry((const Module *)m, name, &stage->entry.cpu, e);
}

static int cpu_nthread(const Device *d)
{
    return ((const Cpu *)d)->nthread;
}

const DeviceOps device_cpu = {
    .api_version = DEVICE_API_VERSION,
    .name = "cpu",
    .align = MEMORY_ALIGN,
    .host_memory = true,
    .open = cpu_open,
    .close = cpu_close,
    .allocate = host_allocate,
    .free = host_free,
    .copy = host_copy,
    .launch = cpu_launch,
    .load_module = cpu_load_module,
    .unload_module = cpu_unload_module,
    .find_entry = cpu_find_entry,
    .nthread = cpu_nthread,
};
