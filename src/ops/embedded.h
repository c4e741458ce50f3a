// SPDX-License-Identifier: Apache-2.0
// The texts under lib/, compiled into the library by tools/embed.c. The path is the one below lib/,
// such as "ops/relu.hd"; the table is sorted by path, so that a prefix is a contiguous range.
#ifndef HEALD_OPS_EMBEDDED_H
#define HEALD_OPS_EMBEDDED_H

#include <stddef.h>

typedef struct {
    const char *path;
    const char *text; // NUL-terminated; size does not count the NUL
    size_t size;
} EmbeddedText;

extern const EmbeddedText embedded_texts[];
extern const size_t embedded_texts_count;

#endif
