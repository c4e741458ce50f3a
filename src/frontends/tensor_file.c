// SPDX-License-Identifier: Apache-2.0
// Which reader serves which file, and the two formats that hold other formats: .pb and .npz.
#include "frontends/tensor_file.h"

#include "frontends/zip.h"

#include <string.h>

int64_t host_tensor_nelem(const HostTensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= t->dims[i];
    return n;
}

int64_t host_tensor_bytes(const HostTensor *t)
{
    return dtype_bytes(t->dtype, host_tensor_nelem(t));
}

static const char *read_bytes(Arena *a, const char *path, const uint8_t **data, size_t *size)
{
    char *text;
    const char *error = file_read(a, path, &text, size);
    *data = (const uint8_t *)text;
    return error;
}

const char *tensor_read_pb(Arena *a, const char *path, HostTensor *out)
{
    const uint8_t *data;
    size_t size;
    OnnxTensor *t;
    *out = (HostTensor){.name = ""};
    const char *error = read_bytes(a, path, &data, &size);
    if (!error) error = onnx_tensor_parse(a, path, data, size, &t);
    if (error) return error;
    out->name = t->name;
    return onnx_tensor_decode(a, t, NULL, &out->dtype, out->dims, &out->rank, &out->data);
}

const char *tensor_read_npy(Arena *a, const char *path, HostTensor *out)
{
    const uint8_t *data;
    size_t size;
    const char *error = read_bytes(a, path, &data, &size);
    return error ? error : tensor_parse_npy(a, path, data, size, out);
}

static bool ends_with(const char *s, const char *suffix)
{
    size_t n = strlen(s), k = strlen(suffix);
    return n >= k && !strcmp(s + n - k, suffix);
}

const char *tensor_parse_npz(Arena *a, const char *name, const uint8_t *data, size_t size,
                             HostTensor **list, int *n)
{
    ZipEntry *entry;
    int nentry;
    *list = NULL;
    *n = 0;
    const char *error = zip_list(a, name, data, size, &entry, &nentry);
    if (error) return error;
    HostTensor *tensors = NEW_ARRAY(a, HostTensor, nentry);
    int count = 0;
    for (int i = 0; i < nentry; i++) {
        if (!ends_with(entry[i].name, ".npy")) continue;
        const uint8_t *bytes;
        const char *place = arena_printf(a, "%s(%s)", name, entry[i].name);
        error = zip_extract(a, place, &entry[i], &bytes);
        if (!error) error = tensor_parse_npy(a, place, bytes, entry[i].size, &tensors[count]);
        if (error) return error;
        tensors[count++].name = arena_strndup(a, entry[i].name, strlen(entry[i].name) - 4);
    }
    *list = tensors;
    *n = count;
    return NULL;
}

const char *tensor_read_npz(Arena *a, const char *path, HostTensor **list, int *n)
{
    const uint8_t *data;
    size_t size;
    *list = NULL;
    *n = 0;
    const char *error = read_bytes(a, path, &data, &size);
    return error ? error : tensor_parse_npz(a, path, data, size, list, n);
}

static const char *read_single_npz(Arena *a, const char *path, HostTensor *out)
{
    HostTensor *list;
    int n;
    const char *error = tensor_read_npz(a, path, &list, &n);
    if (error) return error;
    if (n != 1) return arena_printf(a, "%s: holds %d arrays, and one is wanted", path, n);
    *out = list[0];
    return NULL;
}

const char *tensor_read(Arena *a, const char *path, HostTensor *out)
{
    static const struct {
        const char *suffix;
        const char *(*read)(Arena *a, const char *path, HostTensor *out);
    } readers[] = {{".pb", tensor_read_pb}, {".npy", tensor_read_npy}, {".npz", read_single_npz}};
    *out = (HostTensor){.name = ""};
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) {
        if (ends_with(path, readers[i].suffix)) return readers[i].read(a, path, out);
    }
    return arena_printf(a, "%s: not a tensor file (.pb, .npy or .npz)", path);
}
