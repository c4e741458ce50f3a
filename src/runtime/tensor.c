// SPDX-License-Identifier: Apache-2.0
// Tensors. A tensor with host memory of its own is one allocation: the handle, then the elements.
#include "runtime/tensor.h"

#include "base/util.h"
#include "runtime/device.h"
#include "runtime/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *shape_format(char *text, size_t size, DType dtype, int rank, const int64_t *dims)
{
    size_t used = (size_t)snprintf(text, size, "%s[", dtypes[dtype].name);
    for (int i = 0; i < rank && used < size; i++) {
        used += (size_t)snprintf(text + used, size - used, "%s%" PRId64, i ? ", " : "", dims[i]);
    }
    if (used < size) snprintf(text + used, size - used, "]");
    return text;
}

heald_status shape_measure(DType dtype, int rank, const int64_t *dims, int64_t *nelem,
                           int64_t *bytes, Error *e)
{
    if (dtype <= DT_NONE || dtype >= DT_COUNT) {
        return error_set(e, HEALD_INVALID_ARGUMENT, "no element type has number %d", (int)dtype);
    }
    if (rank < 0 || rank > HEALD_MAX_RANK || (rank > 0 && !dims)) {
        return error_set(e, HEALD_INVALID_ARGUMENT, "a tensor cannot have rank %d", rank);
    }
    bool fits = true, none = false;
    int64_t n = 1;
    for (int i = 0; i < rank; i++) {
        if (dims[i] < 0) {
            return error_set(e, HEALD_INVALID_ARGUMENT, "extent %d is negative: %" PRId64, i,
                             dims[i]);
        }
        none = none || dims[i] == 0;
        fits = fits && mul_i64(n, dims[i], &n);
    }
    if (none) n = 0;
    int64_t size = none || fits ? dtype_bytes(dtype, n) : INT64_MAX;
    if (size > PTRDIFF_MAX - 4096) {
        char text[200];
        return error_set(e, HEALD_INVALID_ARGUMENT, "a tensor of %s is too large",
                         shape_format(text, sizeof text, dtype, rank, dims));
    }
    *nelem = n;
    *bytes = size;
    return HEALD_OK;
}

// A handle, with memory after its 64-byte aligned end or with data NULL.
static heald_status make(DType dtype, int rank, const int64_t *dims, bool with_memory,
                         heald_tensor **out, Error *e)
{
    *out = NULL;
    int64_t nelem, bytes;
    heald_status s = shape_measure(dtype, rank, dims, &nelem, &bytes, e);
    if (s) return s;
    int64_t head =
        memory_round_up((int64_t)(sizeof(heald_tensor) + (size_t)rank * sizeof(int64_t)));
    int64_t total = with_memory ? head + bytes : head;
    heald_tensor *t = memory_alloc((size_t)total);
    if (!t) return error_no_memory(e, total, "a tensor");
    *t = (heald_tensor){.dtype = dtype, .rank = rank, .nelem = nelem, .bytes = bytes};
    atomic_init(&t->refs, 1);
    for (int i = 0; i < rank; i++) t->dims[i] = dims[i];
    t->data = with_memory ? (char *)t + head : NULL;
    *out = t;
    return HEALD_OK;
}

heald_status tensor_create(DType dtype, int rank, const int64_t *dims, heald_tensor **out, Error *e)
{
    return make(dtype, rank, dims, true, out, e);
}

heald_status tensor_create_on(Device *device, DType dtype, int rank, const int64_t *dims,
                              heald_tensor **out, Error *e)
{
    if (!device || device->ops->host_memory) return make(dtype, rank, dims, true, out, e);
    heald_status s = make(dtype, rank, dims, false, out, e);
    if (s) return s;
    s = device->ops->allocate(device, (*out)->bytes, &(*out)->data, e);
    if (s) {
        memory_free(*out);
        *out = NULL;
        return s;
    }
    (*out)->device = device;
    return HEALD_OK;
}

heald_status tensor_from_memory(Device *device, DType dtype, int rank, const int64_t *dims,
                                void *data, void (*release)(void *user), void *user,
                                heald_tensor **out, Error *e)
{
    heald_status s = make(dtype, rank, dims, false, out, e);
    if (s) return s;
    heald_tensor *t = *out;
    bool usable = data ? (uintptr_t)data % dtype_size(t->dtype) == 0 : t->bytes == 0;
    if (!usable) {
        *out = NULL;
        memory_free(t);
        return error_set(e, HEALD_INVALID_ARGUMENT,
                         data ? "the memory is not aligned for %s" : "there is no memory for %s",
                         dtypes[dtype].name);
    }
    t->data = data ? data : t;
    t->device = device && !device->ops->host_memory ? device : NULL;
    t->foreign = true;
    t->release = release;
    t->user = user;
    return HEALD_OK;
}

bool tensor_usable_on(const Device *d, const heald_tensor *t)
{
    if (d->ops->host_memory) return !t->device;
    return t->device == d && (uintptr_t)t->data % DEVICE_CALLER_ALIGN == 0;
}

heald_status tensor_copy(const heald_tensor *from, heald_tensor *to, Error *e)
{
    if (from->dtype != to->dtype || from->nelem != to->nelem) {
        char a[160], b[160];
        return error_set(e, HEALD_INVALID_ARGUMENT, "%s cannot be copied to %s",
                         shape_format(a, sizeof a, from->dtype, from->rank, from->dims),
                         shape_format(b, sizeof b, to->dtype, to->rank, to->dims));
    }
    Device *d = from->device ? from->device : to->device;
    if (from->device && to->device && from->device != to->device)
        return error_set(e, HEALD_UNSUPPORTED, "the tensors are on different devices");
    if (!d) {
        memmove(to->data, from->data, (size_t)from->bytes);
        return HEALD_OK;
    }
    CopyKind kind = !from->device ? COPY_HOST_TO_DEVICE
                    : !to->device ? COPY_DEVICE_TO_HOST
                                  : COPY_DEVICE_TO_DEVICE;
    return d->ops->copy(d, kind, to->data, from->data, from->bytes, e);
}

heald_status tensor_to_device(Device *d, heald_tensor *t, heald_tensor **out, Error *e)
{
    if (tensor_usable_on(d, t)) {
        *out = heald_tensor_retain(t);
        return HEALD_OK;
    }
    heald_status s = tensor_create_on(d, t->dtype, t->rank, t->dims, out, e);
    if (!s) s = tensor_copy(t, *out, e);
    if (s && *out) {
        heald_tensor_release(*out);
        *out = NULL;
    }
    return s;
}

heald_status tensor_to_host(heald_tensor *t, heald_tensor **out, Error *e)
{
    if (!t->device) {
        *out = heald_tensor_retain(t);
        return HEALD_OK;
    }
    heald_status s = tensor_create(t->dtype, t->rank, t->dims, out, e);
    if (!s) s = tensor_copy(t, *out, e);
    if (s && *out) {
        heald_tensor_release(*out);
        *out = NULL;
    }
    return s;
}

heald_status tensor_view(heald_tensor *base, int64_t offset, int rank, const int64_t *dims,
                         heald_tensor **out, Error *e)
{
    heald_status s = make(base->dtype, rank, dims, false, out, e);
    if (s) return s;
    heald_tensor *t = *out;
    if (offset < 0 || offset > base->nelem || t->nelem > base->nelem - offset) {
        *out = NULL;
        int64_t nelem = t->nelem;
        memory_free(t);
        return error_set(e, HEALD_INVALID_ARGUMENT,
                         "a view of %" PRId64 " elements from %" PRId64
                         " on is outside a tensor of %" PRId64,
                         nelem, offset, base->nelem);
    }
    t->root = heald_tensor_retain(base->root ? base->root : base);
    t->device = base->device;
    t->data = (char *)base->data + dtype_bytes(base->dtype, offset);
    return HEALD_OK;
}

heald_status heald_tensor_create(heald_dtype dtype, int rank, const int64_t *dims,
                                 heald_tensor **out)
{
    if (!out) return HEALD_INVALID_ARGUMENT;
    heald_status s = tensor_create((DType)dtype, rank, dims, out, NULL);
    if (!s) memset((*out)->data, 0, (size_t)(*out)->bytes);
    return s;
}

heald_status heald_tensor_from_memory(heald_dtype dtype, int rank, const int64_t *dims, void *data,
                                      void (*release)(void *user), void *user, heald_tensor **out)
{
    if (!out) return HEALD_INVALID_ARGUMENT;
    return tensor_from_memory(NULL, (DType)dtype, rank, dims, data, release, user, out, NULL);
}

heald_status heald_tensor_view(heald_tensor *base, int64_t offset, int rank, const int64_t *dims,
                               heald_tensor **out)
{
    if (!out) return HEALD_INVALID_ARGUMENT;
    *out = NULL;
    return base ? tensor_view(base, offset, rank, dims, out, NULL) : HEALD_INVALID_ARGUMENT;
}

heald_tensor *heald_tensor_retain(heald_tensor *t)
{
    atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
    return t;
}

void heald_tensor_release(heald_tensor *t)
{
    if (!t || atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) != 1) return;
    heald_tensor *root = t->root;
    if (!root && t->device && !t->foreign) t->device->ops->free(t->device, t->data);
    if (t->release) t->release(t->user);
    memory_free(t);
    heald_tensor_release(root);
}

heald_dtype heald_tensor_dtype(const heald_tensor *t)
{
    return (heald_dtype)t->dtype;
}

int heald_tensor_rank(const heald_tensor *t)
{
    return t->rank;
}

const int64_t *heald_tensor_dims(const heald_tensor *t)
{
    return t->dims;
}

void *heald_tensor_data(const heald_tensor *t)
{
    return t->data;
}

int heald_tensor_on_device(const heald_tensor *t)
{
    return t->device != NULL;
}

size_t heald_tensor_bytes(const heald_tensor *t)
{
    return (size_t)t->bytes;
}
