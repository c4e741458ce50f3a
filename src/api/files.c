// SPDX-License-Identifier: Apache-2.0
// Tensors in files, for the public interface.
#include "api/context.h"
#include "frontends/tensor_file.h"
#include "runtime/tensor.h"

#include <string.h>

typedef struct Transfer {
    const char *path;
    heald_tensor *tensor;
} Transfer;

static heald_status read_body(heald_context *c, Arena *a, void *user)
{
    Transfer *t = user;
    HostTensor h;
    const char *why = tensor_read(a, t->path, &h);
    if (why) return error_set(&c->error, HEALD_IO, "%s", why);
    heald_status s = tensor_create(h.dtype, h.rank, h.dims, &t->tensor, &c->error);
    if (!s) memcpy(t->tensor->data, h.data, (size_t)t->tensor->bytes);
    return s;
}

static heald_status write_body(heald_context *c, Arena *a, void *user)
{
    Transfer *t = user;
    heald_tensor *host;
    heald_status s = tensor_to_host(t->tensor, &host, &c->error);
    if (s) return s;
    HostTensor h = {.name = "", .dtype = host->dtype, .rank = host->rank, .data = host->data};
    memcpy(h.dims, host->dims, (size_t)h.rank * sizeof *h.dims);
    const char *why = tensor_write_npy(a, t->path, &h);
    heald_tensor_release(host);
    return why ? error_set(&c->error, HEALD_IO, "%s", why) : HEALD_OK;
}

heald_status heald_tensor_read(heald_context *c, const char *path, heald_tensor **out)
{
    if (!c || !path || !out) return context_refuse(c, "an argument is NULL");
    Transfer t = {.path = path};
    heald_status s = context_call(c, read_body, &t);
    *out = s ? NULL : t.tensor;
    return s;
}

heald_status heald_tensor_write_npy(heald_context *c, const char *path, const heald_tensor *tensor)
{
    if (!c || !path || !tensor) return context_refuse(c, "an argument is NULL");
    return context_call(c, write_body, &(Transfer){path, (heald_tensor *)tensor});
}
