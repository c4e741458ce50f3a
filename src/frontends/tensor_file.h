// SPDX-License-Identifier: Apache-2.0
// Tensors in files: .pb (a bare ONNX TensorProto), .npy and .npz (NumPy). What is read is row-major
// in host order, whatever the file's order was.
#ifndef HEALD_FRONTENDS_TENSOR_FILE_H
#define HEALD_FRONTENDS_TENSOR_FILE_H

#include "frontends/onnx_model.h"

typedef struct HostTensor {
    const char *name; // from the file where it tells one, otherwise ""
    DType dtype;
    int rank;
    int64_t dims[ONNX_MAX_RANK];
    const void *data; // row-major, aligned for dtype; in the arena
} HostTensor;

int64_t host_tensor_nelem(const HostTensor *t);
int64_t host_tensor_bytes(const HostTensor *t);

// Each returns NULL on success, otherwise a message in `a` that names the file.

// By the name's suffix. An .npz must hold exactly one array.
const char *tensor_read(Arena *a, const char *path, HostTensor *out);
const char *tensor_read_pb(Arena *a, const char *path, HostTensor *out);
const char *tensor_read_npy(Arena *a, const char *path, HostTensor *out);
// All arrays of the archive, in its order; members that are not .npy are passed over.
const char *tensor_read_npz(Arena *a, const char *path, HostTensor **list, int *n);
// Bytes that are already in memory and stay there: out->data may point into them.
const char *tensor_parse_npy(Arena *a, const char *name, const uint8_t *data, size_t size,
                             HostTensor *out);
const char *tensor_parse_npz(Arena *a, const char *name, const uint8_t *data, size_t size,
                             HostTensor **list, int *n);
// bf16 and smaller floats are written as NumPy sees them without help: opaque bytes. "V2" is read
// as bf16, "V1", of which the file does not tell the type, as u8. Integers of fewer than 8 bits are
// written as those of 8.
const char *tensor_write_npy(Arena *a, const char *path, const HostTensor *t);

#endif
