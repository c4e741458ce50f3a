// SPDX-License-Identifier: Apache-2.0
// Tensors: dense row-major memory with an atomic count of owners, the only thing in Heald that is
// counted besides loaded modules. A view owns its root, the tensor that holds the memory.
#ifndef HEALD_RUNTIME_TENSOR_H
#define HEALD_RUNTIME_TENSOR_H

#include "base/dtype.h"
#include "runtime/status.h"

#include <stdatomic.h>

struct Device;

struct heald_tensor {
    atomic_int refs;
    heald_tensor *root;    // of a view; NULL for a tensor with memory of its own
    struct Device *device; // whose memory it is, borrowed; NULL: the host's
    bool foreign;          // the memory is the caller's
    void (*release)(void *user);
    void *user;
    void *data; // never NULL, also when there are no elements
    DType dtype;
    int rank;
    int64_t nelem;
    int64_t bytes;
    int64_t dims[]; // (rank)
};

// As in heald.h, with a message. tensor_create: memory of the host, not zeroed.
heald_status tensor_create(DType dtype, int rank, const int64_t *dims, heald_tensor **out,
                           Error *e);
// Memory of a device, which must outlive the tensor; device NULL: as tensor_create.
heald_status tensor_create_on(struct Device *device, DType dtype, int rank, const int64_t *dims,
                              heald_tensor **out, Error *e);
// The caller's memory, on a device; device NULL: the host. As heald_tensor_from_memory.
heald_status tensor_from_memory(struct Device *device, DType dtype, int rank, const int64_t *dims,
                                void *data, void (*release)(void *user), void *user,
                                heald_tensor **out, Error *e);
// Whether kernels of the device can use its memory as it is.
bool tensor_usable_on(const struct Device *device, const heald_tensor *t);
// Elements of one to the other, of the same type and number, across devices and the host; at most
// one device may take part. When it returns, `from` may be changed if it is the host's, and `to`
// has them if that is.
heald_status tensor_copy(const heald_tensor *from, heald_tensor *to, Error *e);
// t itself, where it is in the host's memory, otherwise a copy there. The caller releases it.
heald_status tensor_to_host(heald_tensor *t, heald_tensor **out, Error *e);
// t itself, where kernels of the device can use it, otherwise a copy there. The caller releases it.
heald_status tensor_to_device(struct Device *d, heald_tensor *t, heald_tensor **out, Error *e);
heald_status tensor_view(heald_tensor *base, int64_t offset, int rank, const int64_t *dims,
                         heald_tensor **out, Error *e);

// Elements and bytes of a shape, checked: extents >= 0, no overflow, rank in [0, HEALD_MAX_RANK].
heald_status shape_measure(DType dtype, int rank, const int64_t *dims, int64_t *nelem,
                           int64_t *bytes, Error *e);
// "f32[2, 3]" into text, cut to size; returns text.
const char *shape_format(char *text, size_t size, DType dtype, int rank, const int64_t *dims);

#endif
