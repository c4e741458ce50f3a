// SPDX-License-Identifier: Apache-2.0
// Writing protobuf bytes by hand, for tests of the ONNX reader; and one arena for a test.
#ifndef HEALD_TESTS_ONNX_BYTES_H
#define HEALD_TESTS_ONNX_BYTES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/vec.h"
#include "frontends/onnx_model.h"
#include "frontends/wire.h"

#include <string.h>

static Arena arena;

static inline int setup(void **state)
{
    (void)state;
    arena = (Arena){0};
    return 0;
}

static inline int teardown(void **state)
{
    (void)state;
    arena_free(&arena);
    return 0;
}

typedef struct Bytes {
    Buf buf;
} Bytes;

static inline Bytes bytes(void)
{
    Bytes b;
    buf_init(&b.buf, &arena);
    return b;
}

static inline void put_varint(Bytes *b, uint64_t v)
{
    for (; v >= 0x80; v >>= 7) buf_putc(&b->buf, (char)(v | 0x80));
    buf_putc(&b->buf, (char)v);
}

static inline void put_int(Bytes *b, int number, int64_t v)
{
    put_varint(b, (uint64_t)number << 3 | WIRE_VARINT);
    put_varint(b, (uint64_t)v);
}

static inline void put_data(Bytes *b, int number, const void *data, size_t size)
{
    put_varint(b, (uint64_t)number << 3 | WIRE_BYTES);
    put_varint(b, size);
    buf_append(&b->buf, data, size);
}

static inline void put_text(Bytes *b, int number, const char *text)
{
    put_data(b, number, text, strlen(text));
}

static inline void put_message(Bytes *b, int number, const Bytes *m)
{
    put_data(b, number, m->buf.text, m->buf.size);
}

// A fixed32 or fixed64 field from a value in host order.
static inline void put_fixed(Bytes *b, int number, uint64_t v, int width)
{
    put_varint(b, (uint64_t)number << 3 | (width == 4 ? WIRE_FIXED32 : WIRE_FIXED64));
    for (int i = 0; i < width; i++) buf_putc(&b->buf, (char)(v >> 8 * i));
}

static inline OnnxModel *model_of(const Bytes *b)
{
    OnnxModel *m;
    const char *error =
        onnx_model_parse(&arena, "m.onnx", (const uint8_t *)b->buf.text, b->buf.size, &m);
    if (error) fail_msg("%s", error);
    return m;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

#endif
