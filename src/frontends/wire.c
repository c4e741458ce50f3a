// SPDX-License-Identifier: Apache-2.0
// The protobuf wire format: https://protobuf.dev/programming-guides/encoding/. Every read is
// checked against the end first.
#include "frontends/wire.h"

const char *wire_varint(Wire *w, uint64_t *value)
{
    uint64_t v = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        if (w->at == w->end) return "truncated";
        uint8_t b = *w->at++;
        if (shift == 63 && b > 1) return "number wider than 64 bits in";
        v |= (uint64_t)(b & 0x7f) << shift;
        if (b < 0x80) {
            *value = v;
            return NULL;
        }
    }
    return "number wider than 64 bits in";
}

uint64_t wire_little_endian(const uint8_t *at, int width)
{
    uint64_t v = 0;
    for (int i = 0; i < width; i++) v |= (uint64_t)at[i] << (8 * i);
    return v;
}

static const char *fixed(Wire *w, int width, uint64_t *value)
{
    if (w->end - w->at < width) return "truncated";
    *value = wire_little_endian(w->at, width);
    w->at += width;
    return NULL;
}

const char *wire_value(Wire *w, WireType type, uint64_t *value)
{
    if (type == WIRE_VARINT) return wire_varint(w, value);
    return fixed(w, type == WIRE_FIXED32 ? 4 : 8, value);
}

const char *wire_field(Wire *w, WireField *f)
{
    *f = (WireField){.start = w->at};
    uint64_t tag;
    const char *wrong = wire_varint(w, &tag);
    if (wrong) return wrong;
    if (tag >> 32 || tag >> 3 == 0) return "invalid field number in";
    f->number = (uint32_t)(tag >> 3);
    f->type = (WireType)(tag & 7);
    switch (f->type) {
    case WIRE_VARINT:
    case WIRE_FIXED32:
    case WIRE_FIXED64: return wire_value(w, f->type, &f->value);
    case WIRE_BYTES: {
        uint64_t size;
        wrong = wire_varint(w, &size);
        if (wrong) return wrong;
        if (size > (uint64_t)(w->end - w->at)) return "truncated";
        f->data = w->at;
        f->size = (size_t)size;
        w->at += size;
        return NULL;
    }
    }
    return tag & 4 && (tag & 7) != 4 ? "unknown wire type in" : "unsupported protobuf group in";
}

const char *wire_count(const WireField *f, WireType scalar, size_t *n)
{
    *n = 1;
    if (f->type == scalar) return NULL;
    if (f->type != WIRE_BYTES) return "wrong wire type for";
    if (scalar != WIRE_VARINT) {
        size_t width = scalar == WIRE_FIXED32 ? 4 : 8;
        *n = f->size / width;
        return f->size % width ? "truncated" : NULL;
    }
    *n = 0;
    for (size_t i = 0; i < f->size; i++) *n += f->data[i] < 0x80;
    return f->size && f->data[f->size - 1] >= 0x80 ? "truncated" : NULL;
}

void bytes_swap(void *items, int width, size_t n)
{
    uint8_t *at = items;
    for (size_t i = 0; i < n; i++, at += width) {
        for (int lo = 0, hi = width - 1; lo < hi; lo++, hi--) {
            uint8_t b = at[lo];
            at[lo] = at[hi];
            at[hi] = b;
        }
    }
}
