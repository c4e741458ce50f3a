// SPDX-License-Identifier: Apache-2.0
// NumPy's .npy, versions 1 to 3: magic, the length of a header, a Python dictionary as text, the
// elements. https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#include "frontends/tensor_file.h"

#include "base/util.h"
#include "frontends/wire.h"

#include <string.h>

#define MAGIC "\x93NUMPY"
#define MAGIC_SIZE 6

// The dictionary, read left to right.
typedef struct Header {
    const char *at, *end;
    char descr[16];
    bool fortran;
    int rank;
    int64_t dims[ONNX_MAX_RANK];
    bool has_descr, has_order, has_shape;
} Header;

static bool accept(Header *h, const char *text)
{
    while (h->at < h->end && (*h->at == ' ' || *h->at == '\n' || *h->at == '\t')) h->at++;
    size_t n = strlen(text);
    if ((size_t)(h->end - h->at) < n || memcmp(h->at, text, n)) return false;
    h->at += n;
    return true;
}

// A Python string without escapes.
static bool quoted(Header *h, char *out, size_t room)
{
    const char *quote = accept(h, "'") ? "'" : accept(h, "\"") ? "\"" : NULL;
    if (!quote) return false;
    const char *start = h->at;
    while (h->at < h->end && *h->at != *quote) h->at++;
    size_t n = (size_t)(h->at - start);
    if (h->at == h->end || n >= room) return false;
    memcpy(out, start, n);
    out[n] = 0;
    h->at++;
    return true;
}

static bool extent(Header *h, int64_t *out)
{
    *out = 0;
    const char *start = h->at;
    for (; h->at < h->end && *h->at >= '0' && *h->at <= '9'; h->at++) {
        if (!mul_i64(*out, 10, out) || !add_i64(*out, *h->at - '0', out)) return false;
    }
    if (h->at == start) return false;
    accept(h, "L"); // a long of Python 2
    return true;
}

static bool shape(Header *h)
{
    if (!accept(h, "(")) return false;
    h->rank = 0;
    while (!accept(h, ")")) {
        accept(h, "");
        if (h->rank == ONNX_MAX_RANK || !extent(h, &h->dims[h->rank++])) return false;
        if (!accept(h, ",")) return accept(h, ")");
    }
    return true;
}

static bool dictionary(Header *h)
{
    char key[16];
    if (!accept(h, "{")) return false;
    while (!accept(h, "}")) {
        if (!quoted(h, key, sizeof key) || !accept(h, ":")) return false;
        if (!strcmp(key, "descr")) {
            h->has_descr = quoted(h, h->descr, sizeof h->descr);
        } else if (!strcmp(key, "fortran_order")) {
            h->fortran = accept(h, "True");
            h->has_order = h->fortran || accept(h, "False");
        } else if (!strcmp(key, "shape")) {
            h->has_shape = shape(h);
        } else {
            return false;
        }
        if (!accept(h, ",")) return accept(h, "}") && h->has_descr && h->has_order && h->has_shape;
    }
    return h->has_descr && h->has_order && h->has_shape;
}

// NumPy's letter for a class of types. bf16 and smaller floats, which NumPy lacks, are opaque
// bytes.
static char kind_of(DType t)
{
    static const char kinds[] = {
        [DC_BOOL] = 'b', [DC_INT] = 'i', [DC_UINT] = 'u', [DC_FLOAT] = 'f'};
    return t == DT_BF16 || dtype_small_float(t) ? 'V' : kinds[dtypes[t].class];
}

// "<f4": byte order, kind, bytes.
static DType dtype_of(const char *descr, bool *swap)
{
    bool little = *descr == '<' || ((*descr == '=' || *descr == '|') && host_is_little_endian());
    *swap = little != host_is_little_endian();
    if (!strchr("<>=|", *descr) || strlen(descr) != 3) return DT_NONE;
    for (DType t = DT_NONE + 1; t < DT_COUNT; t++) {
        bool known = !dtype_small_float(t) && dtypes[t].bits >= 8;
        if (known && kind_of(t) == descr[1] && dtype_size(t) == (size_t)(descr[2] - '0')) return t;
    }
    return descr[1] == 'V' && descr[2] == '1' ? DT_U8 : DT_NONE;
}

// Column-major items into row-major ones.
static void transpose(const HostTensor *t, const char *from, char *to, size_t item)
{
    int64_t index[ONNX_MAX_RANK] = {0}, n = host_tensor_nelem(t);
    for (int64_t i = 0; i < n; i++) {
        int64_t at = 0;
        for (int k = t->rank - 1; k >= 0; k--) at = at * t->dims[k] + index[k];
        memcpy(to + (size_t)i * item, from + (size_t)at * item, item);
        for (int k = t->rank - 1; k >= 0 && ++index[k] == t->dims[k]; k--) index[k] = 0;
    }
}

static const void *to_host(Arena *a, const HostTensor *t, const uint8_t *raw, size_t size,
                           bool fortran, bool swap)
{
    size_t item = dtype_size(t->dtype);
    bool copy = fortran || swap || t->dtype == DT_BOOL || (uintptr_t)raw % item;
    if (!size) return arena_alloc(a, 0);
    if (!copy) return raw;
    char *data = arena_alloc(a, size);
    if (fortran) transpose(t, (const char *)raw, data, item);
    else memcpy(data, raw, size);
    if (swap) bytes_swap(data, (int)item, size / item);
    if (t->dtype == DT_BOOL) {
        for (size_t i = 0; i < size; i++) data[i] = data[i] != 0;
    }
    return data;
}

// The number of elements, such that neither it nor a stride overflows; -1 otherwise.
static int64_t count(const Header *h)
{
    int64_t n = 1;
    bool empty = false;
    for (int i = 0; i < h->rank; i++) {
        empty |= h->dims[i] == 0;
        if (!mul_i64(n, max_i64(h->dims[i], 1), &n) || n > INT64_MAX / 64) return -1;
    }
    return empty ? 0 : n;
}

const char *tensor_parse_npy(Arena *a, const char *name, const uint8_t *data, size_t size,
                             HostTensor *out)
{
    *out = (HostTensor){.name = ""};
    if (size < MAGIC_SIZE + 6 || memcmp(data, MAGIC, MAGIC_SIZE))
        return arena_printf(a, "%s: not an .npy file", name);
    int major = data[MAGIC_SIZE], width = major == 1 ? 2 : 4;
    if (major < 1 || major > 3)
        return arena_printf(a, "%s: .npy version %d is not known", name, major);
    size_t start = MAGIC_SIZE + 2 + (size_t)width;
    size_t header_size = (size_t)wire_little_endian(data + MAGIC_SIZE + 2, width);
    if (header_size > size - start) return arena_printf(a, "%s: truncated .npy header", name);
    Header h = {.at = (const char *)data + start, .end = (const char *)data + start + header_size};
    if (!dictionary(&h)) return arena_printf(a, "%s: this .npy header is not understood", name);
    bool swap;
    out->dtype = dtype_of(h.descr, &swap);
    if (out->dtype == DT_NONE)
        return arena_printf(a, "%s: element type '%s' is not supported", name, h.descr);
    int64_t nelem = count(&h);
    size_t have = size - start - header_size;
    if (nelem < 0 || (uint64_t)dtype_bytes(out->dtype, nelem) != have)
        return arena_printf(a, "%s: %zu bytes of elements do not match the shape", name, have);
    out->rank = h.rank;
    memcpy(out->dims, h.dims, sizeof out->dims);
    out->data = to_host(a, out, data + size - have, have, h.fortran, swap);
    return NULL;
}

const char *tensor_write_npy(Arena *a, const char *path, const HostTensor *t)
{
    char kind = kind_of(t->dtype);
    size_t item = dtype_size(t->dtype);
    char order = item == 1 ? '|' : host_is_little_endian() ? '<' : '>';
    Buf text, file;
    buf_init(&text, a);
    buf_init(&file, a);
    buf_printf(&text, "{'descr': '%c%c%zu', 'fortran_order': False, 'shape': (", order, kind, item);
    for (int i = 0; i < t->rank; i++)
        buf_printf(&text, "%s%lld%s", i ? " " : "", (long long)t->dims[i],
                   i + 1 < t->rank || t->rank == 1 ? "," : "");
    buf_puts(&text, "), }");
    // The elements start at a multiple of 64; the header ends with a newline.
    size_t padded = (MAGIC_SIZE + 4 + text.size + 1 + 63) / 64 * 64 - MAGIC_SIZE - 4;
    while (text.size < padded - 1) buf_putc(&text, ' ');
    buf_putc(&text, '\n');
    ASSERT(padded <= UINT16_MAX);
    buf_append(&file, MAGIC "\1", MAGIC_SIZE + 2);
    buf_putc(&file, (char)(padded & 0xff));
    buf_putc(&file, (char)(padded >> 8));
    buf_append(&file, text.text, text.size);
    buf_append(&file, t->data, (size_t)host_tensor_bytes(t));
    return file_write_atomic(a, path, file.text, file.size);
}
