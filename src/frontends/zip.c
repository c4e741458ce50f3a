// SPDX-License-Identifier: Apache-2.0
// ZIP, after PKWARE's APPNOTE 6.3: the end record is searched from the end, it tells where the
// central directory is, and that tells where the members are. Inflating is zlib's.
#include "frontends/zip.h"

#include "base/util.h"
#include "frontends/wire.h"

#include <string.h>
#include <zlib.h>

#define END_SIZE 22
#define LOCATOR64_SIZE 20
#define END64_SIZE 56
#define CENTRAL_SIZE 46
#define LOCAL_SIZE 30

typedef struct Archive {
    Arena *arena;
    const char *name;
    const uint8_t *data;
    size_t size;
} Archive;

static uint64_t number(const uint8_t *at, int width)
{
    return wire_little_endian(at, width);
}

static bool inside(const Archive *z, uint64_t offset, uint64_t size)
{
    return offset <= z->size && size <= z->size - offset;
}

static bool is_record(const Archive *z, uint64_t offset, size_t size, const char *signature)
{
    return inside(z, offset, size) && !memcmp(z->data + offset, signature, 4);
}

// Where the central directory is and how many entries it claims.
static bool find_directory(const Archive *z, uint64_t *offset, uint64_t *count)
{
    if (z->size < END_SIZE) return false;
    size_t last = z->size - END_SIZE, first = last > UINT16_MAX ? last - UINT16_MAX : 0;
    for (size_t at = last + 1; at-- > first;) {
        const uint8_t *end = z->data + at; // its last member is the size of a comment
        if (memcmp(end, "PK\5\6", 4) || number(end + 20, 2) != last - at) continue;
        *count = number(end + 10, 2);
        *offset = number(end + 16, 4);
        if (at < LOCATOR64_SIZE || !is_record(z, at - LOCATOR64_SIZE, LOCATOR64_SIZE, "PK\6\7"))
            return true;
        uint64_t end64 = number(end - LOCATOR64_SIZE + 8, 8);
        if (!is_record(z, end64, END64_SIZE, "PK\6\6")) return false;
        *count = number(z->data + end64 + 32, 8);
        *offset = number(z->data + end64 + 48, 8);
        return true;
    }
    return false;
}

// ZIP64: a 32-bit value of all ones stands in the extra field 1 instead, in a fixed order.
static void widen(const uint8_t *extra, size_t size, uint64_t *value[3])
{
    while (size >= 4) {
        size_t n = (size_t)number(extra + 2, 2);
        if (n > size - 4) return;
        const uint8_t *at = extra + 4, *end = at + n;
        for (int i = 0; i < 3 && number(extra, 2) == 1; i++) {
            if (*value[i] != UINT32_MAX || end - at < 8) continue;
            *value[i] = number(at, 8);
            at += 8;
        }
        extra += 4 + n;
        size -= 4 + n;
    }
}

// Reads the entry at *offset and moves past it. Words for what is wrong, or NULL.
static const char *read_entry(const Archive *z, uint64_t *offset, ZipEntry *out)
{
    if (!is_record(z, *offset, CENTRAL_SIZE, "PK\1\2")) return "broken directory";
    const uint8_t *at = z->data + *offset;
    size_t name_size = (size_t)number(at + 28, 2), extra_size = (size_t)number(at + 30, 2);
    size_t whole = CENTRAL_SIZE + name_size + extra_size + (size_t)number(at + 32, 2);
    if (!inside(z, *offset, whole)) return "broken directory";
    uint64_t packed = number(at + 20, 4), size = number(at + 24, 4), local = number(at + 42, 4);
    uint64_t *wide[3] = {&size, &packed, &local};
    widen(at + CENTRAL_SIZE + name_size, extra_size, wide);
    *offset += whole;
    if (number(at + 8, 2) & 1) return "encrypted member";
    if (!is_record(z, local, LOCAL_SIZE, "PK\3\4")) return "broken member";
    uint64_t start =
        local + LOCAL_SIZE + number(z->data + local + 26, 2) + number(z->data + local + 28, 2);
    if (!inside(z, start, packed)) return "truncated member";
    *out = (ZipEntry){
        .name = arena_strndup(z->arena, (const char *)at + CENTRAL_SIZE, name_size),
        .packed = z->data + start,
        .packed_size = (size_t)packed,
        .size = (size_t)size,
        .method = (int)number(at + 10, 2),
        .crc = (uint32_t)number(at + 16, 4),
    };
    return NULL;
}

const char *zip_list(Arena *a, const char *name, const uint8_t *data, size_t size, ZipEntry **list,
                     int *n)
{
    Archive z = {a, name, data, size};
    uint64_t offset, count, total = 0;
    *list = NULL;
    *n = 0;
    if (!find_directory(&z, &offset, &count)) return arena_printf(a, "%s: not a zip archive", name);
    if (!inside(&z, offset, 0) || count > (size - offset) / CENTRAL_SIZE)
        return arena_printf(a, "%s: zip: broken directory", name);
    ZipEntry *entries = NEW_ARRAY(a, ZipEntry, count);
    for (uint64_t i = 0; i < count; i++) {
        const char *wrong = read_entry(&z, &offset, &entries[i]);
        // Members that share bytes could make a small archive unpack to any size.
        total += wrong ? 0 : entries[i].packed_size;
        if (!wrong && total > size) wrong = "overlapping members";
        if (wrong) return arena_printf(a, "%s: zip: %s", name, wrong);
    }
    *list = entries;
    *n = (int)count;
    return NULL;
}

static void *zlib_alloc(void *arena, unsigned n, unsigned size)
{
    return arena_alloc_array(arena, size, n);
}

static void zlib_free(void *arena, void *p)
{
    UNUSED(arena), UNUSED(p);
}

// zlib counts in unsigned: both sides are fed in pieces.
static bool inflate_all(Arena *a, const ZipEntry *entry, uint8_t *out)
{
    const size_t piece = (size_t)1 << 30;
    z_stream s = {.zalloc = zlib_alloc, .zfree = zlib_free, .opaque = a};
    size_t in_left = entry->packed_size, out_left = entry->size;
    s.next_in = (Bytef *)entry->packed;
    s.next_out = out;
    int status = inflateInit2(&s, -MAX_WBITS);
    while (status == Z_OK) {
        uInt in = (uInt)(in_left < piece ? in_left : piece);
        uInt room = (uInt)(out_left < piece ? out_left : piece);
        s.avail_in = in;
        s.avail_out = room;
        status = inflate(&s, Z_NO_FLUSH);
        in_left -= in - s.avail_in;
        out_left -= room - s.avail_out;
    }
    inflateEnd(&s);
    return status == Z_STREAM_END && !out_left;
}

const char *zip_extract(Arena *a, const char *name, const ZipEntry *entry, const uint8_t **data)
{
    *data = entry->packed;
    bool ok = true;
    if (entry->method == Z_DEFLATED) {
        // Deflate shrinks by at most 1032:1, so a larger claim is false.
        ok = entry->size / 1032 <= entry->packed_size;
        uint8_t *out = ok ? arena_alloc(a, entry->size) : NULL;
        ok = ok && inflate_all(a, entry, out);
        *data = out;
    } else if (entry->method == 0) {
        ok = entry->packed_size == entry->size;
    } else {
        return arena_printf(a, "%s: zip: compression method %d is not supported", name,
                            entry->method);
    }
    if (!ok || crc32_z(0, *data, entry->size) != entry->crc)
        return arena_printf(a, "%s: zip: damaged member", name);
    return NULL;
}
