// SPDX-License-Identifier: Apache-2.0
// The protobuf wire format, field by field: a bounded cursor over bytes in memory. Nothing is
// copied and nothing is allocated; a length-delimited field is a pointer into the caller's bytes.
#ifndef HEALD_FRONTENDS_WIRE_H
#define HEALD_FRONTENDS_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum WireType {
    WIRE_VARINT = 0,
    WIRE_FIXED64 = 1,
    WIRE_BYTES = 2,
    WIRE_FIXED32 = 5
} WireType;

typedef struct Wire {
    const uint8_t *at, *end;
} Wire;

typedef struct WireField {
    const uint8_t *start; // its tag
    uint32_t number;      // 0 while unknown (a broken tag)
    WireType type;
    uint64_t value;      // WIRE_VARINT, WIRE_FIXED32, WIRE_FIXED64: the bits, in host order
    const uint8_t *data; // WIRE_BYTES: the payload
    size_t size;
} WireField;

static inline Wire wire_of(const uint8_t *data, size_t size)
{
    return (Wire){data, data ? data + size : data};
}

static inline bool wire_at_end(const Wire *w)
{
    return w->at == w->end;
}

// Each of these returns NULL, or what is wrong as words that read well before the name of a message
// ("truncated"). On failure the cursor's place is unspecified; f->start is set, and f->number as
// far as it was read.
const char *wire_field(Wire *w, WireField *f); // call only when not at the end
const char *wire_varint(Wire *w, uint64_t *value);
const char *wire_value(Wire *w, WireType type,
                       uint64_t *value); // one packed element; not WIRE_BYTES
// How many values of a scalar type the field holds: 1, or the length of a packed list.
const char *wire_count(const WireField *f, WireType scalar, size_t *n);

// Bytes in little-endian order as a number; `width` is 1 to 8.
uint64_t wire_little_endian(const uint8_t *at, int width);
// Reverses the bytes of n items of `width` bytes each.
void bytes_swap(void *items, int width, size_t n);

static inline bool host_is_little_endian(void)
{
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
}

#endif
