// SPDX-License-Identifier: Apache-2.0
// Times on a GPU: events between launches.
#include "runtime/cuda_driver.h"

#include "runtime/memory.h"

#include <string.h>

static heald_status make_marks(Cuda *c, int n, Error *e)
{
    if (n <= c->nmark) return HEALD_OK;
    CudaEvent **more = memory_alloc((size_t)n * sizeof *more);
    if (!more) return error_no_memory(e, n, "marks");
    if (c->nmark) memcpy(more, c->mark, (size_t)c->nmark * sizeof *more);
    memory_free(c->mark);
    c->mark = more;
    for (; c->nmark < n; c->nmark++) {
        heald_status s =
            cuda_result(c, c->driver.event_create(&c->mark[c->nmark], 0), e, "an event");
        if (s) return s;
    }
    return HEALD_OK;
}

heald_status cuda_mark(Device *d, int mark, Error *e)
{
    Cuda *c = (Cuda *)d;
    heald_status s = cuda_enter(c, e);
    if (!s) s = make_marks(c, mark + 1, e);
    if (s) return s;
    if (c->record.graph) return cuda_record_mark(c, c->mark[mark], e);
    return cuda_result(c, c->driver.event_record(c->mark[mark], c->stream), e, "an event");
}

heald_status cuda_mark_ns(Device *d, int from, int to, int64_t *ns, Error *e)
{
    Cuda *c = (Cuda *)d;
    float ms = 0;
    *ns = 0;
    heald_status s = cuda_enter(c, e);
    if (!s) s = cuda_result(c, c->driver.event_wait(c->mark[to]), e, "waiting for the GPU");
    if (!s)
        s = cuda_result(c, c->driver.event_elapsed(&ms, c->mark[from], c->mark[to]), e, "an event");
    *ns = (int64_t)((double)ms * 1e6);
    return s;
}
