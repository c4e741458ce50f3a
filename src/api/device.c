// SPDX-License-Identifier: Apache-2.0
// The memory and the stream of a context's device, for callers that have their own.
#include "api/context.h"

#include "runtime/tensor.h"

static heald_status set_stream_body(heald_context *c, Arena *scratch, void *stream)
{
    UNUSED(scratch);
    heald_status s = context_device(c);
    if (s) return s;
    if (!c->device->ops->set_stream)
        return error_set(&c->error, HEALD_UNSUPPORTED, "device %s has no streams",
                         c->device->ops->name);
    return c->device->ops->set_stream(c->device, stream, &c->error);
}

heald_status heald_context_set_stream(heald_context *c, void *stream)
{
    return c ? context_call(c, set_stream_body, stream) : HEALD_INVALID_ARGUMENT;
}

static heald_status synchronise_body(heald_context *c, Arena *scratch, void *user)
{
    UNUSED(scratch);
    UNUSED(user);
    return device_synchronise(c->device, &c->error);
}

heald_status heald_context_synchronise(heald_context *c)
{
    return c ? context_call(c, synchronise_body, NULL) : HEALD_INVALID_ARGUMENT;
}

typedef struct Creation {
    DType dtype;
    int rank;
    const int64_t *dims;
    bool own;
    void *data;
    void (*release)(void *user);
    void *user;
    heald_tensor *tensor;
} Creation;

static heald_status create_body(heald_context *c, Arena *scratch, void *user)
{
    UNUSED(scratch);
    Creation *n = user;
    heald_status s = context_device(c);
    if (s) return s;
    if (n->own)
        return tensor_create_on(c->device, n->dtype, n->rank, n->dims, &n->tensor, &c->error);
    return tensor_from_memory(c->device, n->dtype, n->rank, n->dims, n->data, n->release, n->user,
                              &n->tensor, &c->error);
}

static heald_status create(heald_context *c, Creation *n, heald_tensor **out)
{
    if (!out) return HEALD_INVALID_ARGUMENT;
    *out = NULL;
    if (!c) return HEALD_INVALID_ARGUMENT;
    heald_status s = context_call(c, create_body, n);
    if (!s) *out = n->tensor;
    return s;
}

heald_status heald_tensor_create_on_device(heald_context *c, heald_dtype dtype, int rank,
                                           const int64_t *dims, heald_tensor **out)
{
    return create(c, &(Creation){.dtype = (DType)dtype, .rank = rank, .dims = dims, .own = true},
                  out);
}

heald_status heald_tensor_from_device_memory(heald_context *c, heald_dtype dtype, int rank,
                                             const int64_t *dims, void *data,
                                             void (*release)(void *user), void *user,
                                             heald_tensor **out)
{
    Creation n = {.dtype = (DType)dtype,
                  .rank = rank,
                  .dims = dims,
                  .data = data,
                  .release = release,
                  .user = user};
    return create(c, &n, out);
}

typedef struct Transfer {
    const heald_tensor *from;
    heald_tensor *to;
} Transfer;

static heald_status copy_body(heald_context *c, Arena *scratch, void *user)
{
    UNUSED(scratch);
    const Transfer *t = user;
    return tensor_copy(t->from, t->to, &c->error);
}

heald_status heald_tensor_copy(heald_context *c, const heald_tensor *from, heald_tensor *to)
{
    if (!c || !from || !to) return context_refuse(c, "an argument is NULL");
    return context_call(c, copy_body, &(Transfer){from, to});
}
