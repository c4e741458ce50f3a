// SPDX-License-Identifier: Apache-2.0
// The elements of a TensorProto: from raw_data, from the typed fields, or from a file beside the
// model. Where the bytes already are what the caller wants (little-endian host, aligned), the
// answer points at them.
#include "frontends/onnx_model.h"

#include "base/util.h"
#include "frontends/wire.h"

#include <limits.h>
#include <stdlib.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

typedef struct OnnxExternal {
    struct OnnxExternal *next;
    const char *path; // resolved
    FileMap map;
} OnnxExternal;

typedef struct Decoder {
    Arena *arena;
    const OnnxTensor *tensor;
    DType dtype;
    int64_t nelem;
    size_t size; // bytes of all elements
    const char *error;
} Decoder;

static const char *const type_names[] = {
    "UNDEFINED",      "FLOAT",      "UINT8",          "INT8",       "UINT16",   "INT16",
    "INT32",          "INT64",      "STRING",         "BOOL",       "FLOAT16",  "DOUBLE",
    "UINT32",         "UINT64",     "COMPLEX64",      "COMPLEX128", "BFLOAT16", "FLOAT8E4M3FN",
    "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "UINT4",      "INT4",     "FLOAT4E2M1",
    "FLOAT8E8M0",     "UINT2",      "INT2",
};

const char *onnx_type_name(int64_t data_type)
{
    return data_type >= 0 && data_type < (int64_t)COUNT(type_names) ? type_names[data_type] : "?";
}

static bool fail(Decoder *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static bool fail(Decoder *d, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *what = arena_vprintf(d->arena, fmt, ap);
    va_end(ap);
    const OnnxTensor *t = d->tensor;
    d->error = arena_printf(d->arena, "%s: byte %zu: tensor '%s': %s", t->head.source->name,
                            t->head.offset, t->name, what);
    return false;
}

// The typed field that holds elements of this type, as the comments in onnx.proto say it.
static int typed_field(DType dtype)
{
    const DTypeInfo *info = &dtypes[dtype];
    if (info->class == DC_FLOAT && info->bits == 32) return ONNX_Tensor_float_data;
    if (info->class == DC_FLOAT && info->bits == 64) return ONNX_Tensor_double_data;
    if (info->class == DC_INT && info->bits == 64) return ONNX_Tensor_int64_data;
    if (info->class == DC_UINT && info->bits >= 32) return ONNX_Tensor_uint64_data;
    return ONNX_Tensor_int32_data;
}

static int64_t typed_count(const OnnxTensor *t, int field)
{
    switch (field) {
    case ONNX_Tensor_float_data: return t->float_data;
    case ONNX_Tensor_double_data: return t->double_data;
    case ONNX_Tensor_int64_data: return t->int64_data;
    case ONNX_Tensor_uint64_data: return t->uint64_data;
    default: return t->int32_data;
    }
}

static bool read_shape(Decoder *d, int64_t *dims, int *rank)
{
    const OnnxTensor *t = d->tensor;
    d->dtype = dtype_from_onnx(t->data_type);
    if (d->dtype == DT_NONE)
        return fail(d, "element type %d (%s) is not supported", (int)t->data_type,
                    onnx_type_name(t->data_type));
    if (ONNX_HAS(t, Tensor, segment)) return fail(d, "segments are not supported");
    if (t->dims.n > ONNX_MAX_RANK)
        return fail(d, "rank %d, more than %d", t->dims.n, ONNX_MAX_RANK);
    int64_t extent = 1; // of the dims that are not 0, so that no stride overflows either
    d->nelem = 1;
    for (int i = 0; i < t->dims.n; i++) {
        int64_t dim = t->dims.at[i];
        if (dim < 0) return fail(d, "negative dimension %lld", (long long)dim);
        if (!mul_i64(extent, max_i64(dim, 1), &extent) || extent > INT64_MAX / 64)
            return fail(d, "too many elements");
        if (dim == 0) d->nelem = 0;
        dims[i] = dim;
    }
    if (d->nelem) d->nelem = extent;
    *rank = t->dims.n;
    d->size = (size_t)dtype_bytes(d->dtype, d->nelem);
    return true;
}

// Little-endian bytes of the tensor as host data.
static const void *from_raw(Decoder *d, const uint8_t *raw)
{
    if (d->dtype == DT_BOOL) {
        bool clean = true;
        for (size_t i = 0; i < d->size; i++) clean &= raw[i] <= 1;
        if (clean) return raw;
        uint8_t *copy = arena_copy(d->arena, raw, d->size);
        for (size_t i = 0; i < d->size; i++) copy[i] = copy[i] != 0;
        return copy;
    }
    size_t width = dtype_size(d->dtype);
    bool swap = !host_is_little_endian() && width > 1;
    if (!swap && (uintptr_t)raw % width == 0) return raw;
    void *copy = arena_copy(d->arena, raw, d->size);
    if (swap) bytes_swap(copy, (int)width, d->size / width);
    return copy;
}

static void store_element(DType dtype, void *to, uint64_t bits)
{
    uint8_t *bytes = to;
    int width = (int)dtype_size(dtype);
    if (dtype == DT_BOOL) bits = bits != 0;
    for (int i = 0; i < width; i++) bytes[i] = (uint8_t)(bits >> 8 * i);
    if (!host_is_little_endian()) bytes_swap(bytes, width, 1);
}

// Narrow types travel as wider integers: either sign is accepted (floats are given by their bits),
// overflow is not.
static bool fits(const Decoder *d, int field, uint64_t bits)
{
    int64_t v = field == ONNX_Tensor_int32_data ? (int32_t)(uint32_t)bits : (int64_t)bits;
    int width = (int)dtype_size(d->dtype) * 8;
    if (d->dtype == DT_BOOL || width == 64) return true;
    if (field == ONNX_Tensor_uint64_data) return bits >> width == 0;
    return v >= -((int64_t)1 << (width - 1)) && v < (int64_t)1 << width;
}

static bool from_typed(Decoder *d, int field, const void **data)
{
    const OnnxTensor *t = d->tensor;
    WireType scalar = field == ONNX_Tensor_float_data    ? WIRE_FIXED32
                      : field == ONNX_Tensor_double_data ? WIRE_FIXED64
                                                         : WIRE_VARINT;
    size_t width = dtype_size(d->dtype);
    char *to = NULL, *end = NULL;
    for (Wire w = wire_of(t->head.source->data + t->head.offset, t->head.size); !wire_at_end(&w);) {
        WireField f;
        const char *wrong = wire_field(&w, &f);
        ASSERT(!wrong);
        if (f.number != (uint32_t)field) continue;
        if (f.type == WIRE_BYTES && scalar != WIRE_VARINT && f.size == d->size && !to) {
            *data = from_raw(d, f.data);
            return true;
        }
        if (!to) to = arena_alloc(d->arena, d->size), *data = to, end = to + d->size;
        Wire items = f.type == WIRE_BYTES ? wire_of(f.data, f.size) : wire_of(f.data, 0);
        for (bool more = f.type != WIRE_BYTES || f.size; more; more = !wire_at_end(&items)) {
            wrong = f.type == WIRE_BYTES ? wire_value(&items, scalar, &f.value) : NULL;
            if (wrong) return fail(d, "%s the typed data", wrong);
            if (!fits(d, field, f.value))
                return fail(d, "an element does not fit %s", onnx_type_name(t->data_type));
            ASSERT(to < end);
            store_element(d->dtype, to, f.value);
            to += width;
        }
    }
    return true;
}

static bool parse_size(const char *text, uint64_t *out)
{
    *out = 0;
    for (const char *c = text; *c; c++) {
        if (*c < '0' || *c > '9' || *out > (UINT64_MAX - 9) / 10) return false;
        *out = *out * 10 + (uint64_t)(*c - '0');
    }
    return *text;
}

static bool path_stays_inside(const char *location)
{
    if (!*location || *location == '/') return false;
    for (const char *at = location; *at; at += strcspn(at, "/"), at += strspn(at, "/")) {
        if (strcspn(at, "/") == 2 && !strncmp(at, "..", 2)) return false;
    }
    return true;
}

// Symbolic links are followed first; then the file must lie below the folder.
static const OnnxExternal *open_external(Decoder *d, const char *model_dir, const char *location)
{
    char dir[PATH_MAX], path[PATH_MAX];
    struct stat st;
    if (!realpath(model_dir, dir) || !realpath(path_join(d->arena, dir, location), path) ||
        stat(path, &st) || !S_ISREG(st.st_mode)) {
        fail(d, "no file '%s' in the model's folder", location);
        return NULL;
    }
    size_t n = strlen(dir);
    if (strncmp(path, dir, n) || (path[n] != '/' && strcmp(dir, "/"))) {
        fail(d, "external data '%s' is a link that leads out of the model's folder", location);
        return NULL;
    }
    OnnxSource *source = d->tensor->head.source;
    for (OnnxExternal *e = source->external; e; e = e->next) {
        if (!strcmp(e->path, path)) return e;
    }
    OnnxExternal *e = NEW(source->arena, OnnxExternal);
    e->path = arena_strdup(source->arena, path);
    const char *error = file_map(d->arena, path, &e->map);
    if (error) {
        fail(d, "%s", error);
        return NULL;
    }
    e->next = source->external;
    source->external = e;
    return e;
}

static bool from_external(Decoder *d, const char *model_dir, const void **data)
{
    const char *location = "", *offset_text = "0", *length_text = NULL;
    for (int i = 0; i < d->tensor->external_data.n; i++) {
        const OnnxEntry *e = &d->tensor->external_data.at[i];
        if (!strcmp(e->key, "location")) location = e->value;
        if (!strcmp(e->key, "offset")) offset_text = e->value;
        if (!strcmp(e->key, "length")) length_text = e->value;
    }
    if (!model_dir) return fail(d, "external data, but there is no folder to look in");
    if (!path_stays_inside(location))
        return fail(d, "external data '%s' is outside the model's folder", location);
    uint64_t offset, length = d->size;
    if (!parse_size(offset_text, &offset))
        return fail(d, "external data: bad offset '%s'", offset_text);
    if (length_text && !parse_size(length_text, &length))
        return fail(d, "external data: bad length '%s'", length_text);
    if (length != d->size)
        return fail(d, "external data: length %llu, but the shape needs %zu bytes",
                    (unsigned long long)length, d->size);
    const OnnxExternal *e = open_external(d, model_dir, location);
    if (!e) return false;
    if (offset > e->map.size || length > e->map.size - offset) {
        return fail(d, "external data '%s' has %zu bytes, too few for %llu at %llu", location,
                    e->map.size, (unsigned long long)length, (unsigned long long)offset);
    }
    *data = length ? from_raw(d, e->map.data + offset) : arena_alloc(d->arena, 0);
    return true;
}

static bool decode(Decoder *d, const char *model_dir, const void **data)
{
    const OnnxTensor *t = d->tensor;
    if (t->data_location == 1) return from_external(d, model_dir, data);
    if (t->data_location != 0) return fail(d, "unknown data_location %d", (int)t->data_location);
    int field = typed_field(d->dtype);
    int64_t typed = typed_count(t, field);
    if (t->raw_data.data && (t->raw_data.size || !typed)) {
        if (t->raw_data.size != d->size)
            return fail(d, "raw_data has %zu bytes, but the shape needs %zu", t->raw_data.size,
                        d->size);
        *data = d->size ? from_raw(d, t->raw_data.data) : arena_alloc(d->arena, 0);
        return true;
    }
    if (typed != d->nelem)
        return fail(d, "%lld elements are given, but the shape needs %lld", (long long)typed,
                    (long long)d->nelem);
    if (!d->nelem) {
        *data = arena_alloc(d->arena, 0);
        return true;
    }
    return from_typed(d, field, data);
}

// ---- elements that share bytes, those of lower indices in the lower bits

static const void *apart(Decoder *d, DType type, const uint8_t *from, int64_t n)
{
    int bits = dtypes[type].bits, count = 8 / bits;
    uint8_t *to = arena_alloc(d->arena, (size_t)n);
    for (int64_t i = 0; i < n; i++) {
        int v = from[i / count] >> (i % count * bits) & ((1 << bits) - 1);
        if (dtype_is_float(type)) to[i] = (uint8_t)v;
        else dtype_store_i64(type, &to[i], v);
    }
    return to;
}

const char *onnx_tensor_decode(Arena *a, const OnnxTensor *t, const char *model_dir, DType *dtype,
                               int64_t *dims, int *rank, const void **data)
{
    Decoder d = {.arena = a, .tensor = t};
    const void *elements = NULL;
    *dtype = DT_NONE;
    *data = NULL;
    if (!read_shape(&d, dims, rank)) return d.error;
    DType type = d.dtype;
    int64_t nelem = d.nelem, bits = dtypes[type].bits;
    if (bits < 8) { // read as the bytes that hold them
        d.dtype = DT_U8;
        d.nelem = nelem / 8 * bits + (nelem % 8 * bits + 7) / 8;
        d.size = (size_t)d.nelem;
    }
    if (!decode(&d, model_dir, &elements)) return d.error;
    *dtype = type;
    *data = bits < 8 ? apart(&d, type, elements, nelem) : elements;
    return NULL;
}

void onnx_model_close(OnnxModel *m)
{
    if (!m) return;
    for (OnnxExternal *e = m->head.source->external; e; e = e->next) file_unmap(&e->map);
    m->head.source->external = NULL;
}
