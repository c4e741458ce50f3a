// SPDX-License-Identifier: Apache-2.0
// A pool of worker threads for loops whose iterations are independent.
#ifndef HEALD_BASE_POOL_H
#define HEALD_BASE_POOL_H

#include <stdint.h>

typedef struct Pool Pool;

// Handles tasks [begin, end). `worker` is below pool_size and different for calls that run at the
// same time, so it may index scratch memory. Must return: no jump out.
typedef void PoolFn(void *user, int64_t begin, int64_t end, int worker);

// nthread counts the caller of pool_run; 0 means one per core. If the system gives fewer threads,
// the pool is smaller. NULL only when out of memory.
Pool *pool_create(int nthread);
void pool_destroy(Pool *p); // NULL is fine; no pool_run may be going on
int pool_size(const Pool *p);

// Hands out all tasks in [0, ntask) in chunks and returns when all are done; the caller works too,
// as worker 0. What was written before the call is visible to fn, and what fn wrote is visible
// after. Calls from several threads take turns. A call from inside a worker, of this pool or of
// another, runs serially with the number of that worker.
void pool_run(Pool *p, int64_t ntask, PoolFn *fn, void *user);

#endif
