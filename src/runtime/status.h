// SPDX-License-Identifier: Apache-2.0
// What went wrong in the world, with room for its message in place, so that running out of memory
// can be told too.
#ifndef HEALD_RUNTIME_STATUS_H
#define HEALD_RUNTIME_STATUS_H

#include "heald.h"

typedef struct Error {
    heald_status status;
    char text[500]; // 0-terminated, cut if longer; empty after HEALD_OK
} Error;            // {0} is "no error"

// Sets *e and returns the status. A NULL e is fine everywhere: the status is all there is then.
heald_status error_set(Error *e, heald_status status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
heald_status error_no_memory(Error *e, int64_t bytes, const char *what);
// Puts "fmt: " before the message that is there; returns e->status.
heald_status error_prefix(Error *e, heald_status status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
