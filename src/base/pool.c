// SPDX-License-Identifier: Apache-2.0
// The worker pool. Workers join an open job and leave it; the caller closes it once no tasks are
// left and waits only for those who joined. So a short job never waits for a sleeping worker to get
// up, and late workers find the job closed.
#include "base/pool.h"

#include "base/os.h"
#include "base/util.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { MAX_THREADS = 1024, SPIN_NS = 50000, CHUNKS_PER_WORKER = 8 };

// Pool.state: the number of workers inside the job, whether it is open, and the number of the job.
#define INSIDE UINT64_C(0xFFFF)
#define OPEN UINT64_C(0x10000)
#define JOB UINT64_C(0x20000) // and everything above

struct Pool {
    // Of the current job; written while it is closed and nobody is inside, read only from inside.
    PoolFn *fn;
    void *user;
    int64_t ntask, chunk;

    int nworker; // threads made, so besides the caller
    bool spins;
    atomic_bool stop;
    pthread_mutex_t turn;  // held by the thread that runs a job
    pthread_mutex_t mutex; // for the two conditions
    pthread_cond_t opened, emptied;
    atomic_int nsleeping; // workers waiting for `opened`
    _Alignas(64) atomic_uint_fast64_t state;
    _Alignas(64) atomic_int_fast64_t next; // the first task not handed out; may run past ntask
    struct Worker {
        Pool *pool;
        pthread_t thread;
    } worker[];
};

static _Thread_local int current_worker = -1; // -1: not inside pool_run or a worker

static void work(Pool *p, int worker)
{
    for (;;) {
        int64_t begin = atomic_fetch_add_explicit(&p->next, p->chunk, memory_order_relaxed);
        if (begin >= p->ntask) return;
        p->fn(p->user, begin, min_i64(begin + p->chunk, p->ntask), worker);
    }
}

static void breathe(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static bool job_is_new(Pool *p, uint64_t seen)
{
    uint64_t state = atomic_load(&p->state);
    return atomic_load(&p->stop) || ((state & OPEN) && state / JOB != seen);
}

static bool nobody_inside(Pool *p, uint64_t unused)
{
    UNUSED(unused);
    return !(atomic_load(&p->state) & INSIDE);
}

// Whether the condition came true within SPIN_NS.
static bool spin_until(Pool *p, bool (*holds)(Pool *, uint64_t), uint64_t arg)
{
    if (holds(p, arg)) return true;
    if (!p->spins) return false;
    int64_t end = clock_ns() + SPIN_NS;
    do {
        for (int i = 0; i < 32; i++) {
            if (holds(p, arg)) return true;
            breathe();
        }
    } while (clock_ns() < end);
    return false;
}

// No wake-up is lost: a worker counts itself as sleeping and then looks at the state, the caller of
// pool_run changes the state and then looks at the count, all sequentially consistent.
static void wait_for_job(Pool *p, uint64_t seen)
{
    if (spin_until(p, job_is_new, seen)) return;
    pthread_mutex_lock(&p->mutex);
    atomic_fetch_add(&p->nsleeping, 1);
    while (!job_is_new(p, seen)) pthread_cond_wait(&p->opened, &p->mutex);
    atomic_fetch_sub(&p->nsleeping, 1);
    pthread_mutex_unlock(&p->mutex);
}

// Enters the current job if it is open. *seen becomes its number.
static bool join(Pool *p, uint64_t *seen)
{
    uint64_t state = atomic_load(&p->state);
    do {
        if (!(state & OPEN)) return false;
    } while (!atomic_compare_exchange_weak(&p->state, &state, state + 1));
    *seen = state / JOB;
    return true;
}

static void leave(Pool *p)
{
    uint64_t before = atomic_fetch_sub(&p->state, 1);
    if ((before & OPEN) || (before & INSIDE) != 1) return;
    pthread_mutex_lock(&p->mutex);
    pthread_cond_signal(&p->emptied);
    pthread_mutex_unlock(&p->mutex);
}

static void *worker_main(void *arg)
{
    struct Worker *self = arg;
    Pool *p = self->pool;
    uint64_t seen = 0;
    current_worker = (int)(self - p->worker) + 1;
    for (;;) {
        wait_for_job(p, seen);
        if (atomic_load(&p->stop)) return NULL;
        if (!join(p, &seen)) continue;
        work(p, current_worker);
        leave(p);
    }
}

static void open_job(Pool *p, int64_t ntask, PoolFn *fn, void *user)
{
    p->fn = fn;
    p->user = user;
    p->ntask = ntask;
    p->chunk = max_i64(1, ntask / ((int64_t)pool_size(p) * CHUNKS_PER_WORKER));
    atomic_store(&p->next, 0);
    atomic_store(&p->state, (atomic_load(&p->state) / JOB + 1) * JOB | OPEN);
    if (!atomic_load(&p->nsleeping)) return;
    pthread_mutex_lock(&p->mutex);
    pthread_cond_broadcast(&p->opened);
    pthread_mutex_unlock(&p->mutex);
}

static void close_job(Pool *p)
{
    atomic_fetch_and(&p->state, ~OPEN);
    if (spin_until(p, nobody_inside, 0)) return;
    pthread_mutex_lock(&p->mutex);
    while (!nobody_inside(p, 0)) pthread_cond_wait(&p->emptied, &p->mutex);
    pthread_mutex_unlock(&p->mutex);
}

void pool_run(Pool *p, int64_t ntask, PoolFn *fn, void *user)
{
    ASSERT(ntask <= INT64_MAX / 2); // the counter may run past the end
    if (ntask <= 0) return;
    if (current_worker >= 0) {
        fn(user, 0, ntask, current_worker);
        return;
    }
    pthread_mutex_lock(&p->turn);
    current_worker = 0;
    if (p->nworker == 0 || ntask == 1) {
        fn(user, 0, ntask, 0);
    } else {
        open_job(p, ntask, fn, user);
        work(p, 0);
        close_job(p);
    }
    current_worker = -1;
    pthread_mutex_unlock(&p->turn);
}

int pool_size(const Pool *p)
{
    return p->nworker + 1;
}

// Signals belong to the threads of the host program, so the workers block them all.
static void start_workers(Pool *p, int nworker)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int started = 0;
    for (; started < nworker; started++) {
        struct Worker *w = &p->worker[started];
        w->pool = p;
        if (pthread_create(&w->thread, NULL, worker_main, w)) break;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    p->nworker = started;
}

Pool *pool_create(int nthread)
{
    int ncore = cpu_count();
    nthread = nthread > 0 ? (int)min_i64(nthread, MAX_THREADS) : ncore;
    size_t size = sizeof(Pool) + (size_t)(nthread - 1) * sizeof(struct Worker);
    Pool *p = aligned_alloc(64, (size + 63) / 64 * 64);
    if (!p) return NULL;
    *p = (Pool){.spins = nthread <= ncore};
    pthread_mutex_init(&p->turn, NULL);
    pthread_mutex_init(&p->mutex, NULL);
    pthread_cond_init(&p->opened, NULL);
    pthread_cond_init(&p->emptied, NULL);
    start_workers(p, nthread - 1);
    return p;
}

void pool_destroy(Pool *p)
{
    if (!p) return;
    pthread_mutex_lock(&p->mutex);
    atomic_store(&p->stop, true);
    pthread_cond_broadcast(&p->opened);
    pthread_mutex_unlock(&p->mutex);
    for (int i = 0; i < p->nworker; i++) pthread_join(p->worker[i].thread, NULL);
    pthread_cond_destroy(&p->emptied);
    pthread_cond_destroy(&p->opened);
    pthread_mutex_destroy(&p->mutex);
    pthread_mutex_destroy(&p->turn);
    free(p);
}
