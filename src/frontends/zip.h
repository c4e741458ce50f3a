// SPDX-License-Identifier: Apache-2.0
// Reading ZIP archives in memory: stored and deflated members, ZIP64 included; no encryption, no
// archives in several parts. The central directory is believed, the checksum of a member verified.
#ifndef HEALD_FRONTENDS_ZIP_H
#define HEALD_FRONTENDS_ZIP_H

#include "base/arena.h"

typedef struct ZipEntry {
    const char *name;
    const uint8_t *packed; // in the archive
    size_t packed_size, size;
    int method; // 0: stored, 8: deflated
    uint32_t crc;
} ZipEntry;

// NULL on success, otherwise a message in `a` that starts with `name`. The archive's bytes must
// outlive the entries.
const char *zip_list(Arena *a, const char *name, const uint8_t *data, size_t size, ZipEntry **list,
                     int *n);
// *data has entry->size bytes; in the archive where stored, otherwise in `a`.
const char *zip_extract(Arena *a, const char *name, const ZipEntry *entry, const uint8_t **data);

#endif
