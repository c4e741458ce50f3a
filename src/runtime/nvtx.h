// SPDX-License-Identifier: Apache-2.0
// Named ranges of a thread's time for a profiler that watches the process: NVTX, as NVIDIA's tools
// speak it. A profiler puts the path of its library into NVTX_INJECTION64_PATH; without that, and
// after any failure, ranges cost a look and do nothing.
#ifndef HEALD_RUNTIME_NVTX_H
#define HEALD_RUNTIME_NVTX_H

#include "runtime/status.h"

// Lets the profiler in, in the first call of the process or by the first range; from any thread.
// HEALD_OK also where there is none; HEALD_IO, in every call, where its library cannot be used.
heald_status nvtx_open(Error *e);
const char *nvtx_profiler(void); // the path that the environment gives; NULL: nobody watches

// Ranges of a thread lie within each other, and each push has its pop. The name is not kept.
void nvtx_push(const char *name);
void nvtx_pop(void);

#endif
