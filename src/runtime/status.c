// SPDX-License-Identifier: Apache-2.0
// Messages for statuses, and the pure getters at the top of the public header.
#include "runtime/status.h"

#include "base/dtype.h"
#include "base/util.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

heald_status error_set(Error *e, heald_status status, const char *fmt, ...)
{
    if (!e) return status;
    e->status = status;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->text, sizeof e->text, fmt, ap);
    va_end(ap);
    return status;
}

heald_status error_no_memory(Error *e, int64_t bytes, const char *what)
{
    return error_set(e, HEALD_NO_MEMORY, "out of memory: %" PRId64 " bytes for %s", bytes, what);
}

heald_status error_prefix(Error *e, heald_status status, const char *fmt, ...)
{
    if (!e) return status;
    char old[sizeof e->text];
    memcpy(old, e->text, sizeof old);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->text, sizeof e->text, fmt, ap);
    va_end(ap);
    size_t used = strlen(e->text), room = sizeof e->text - 1 - used;
    strncat(e->text, ": ", room);
    if (room > 2) strncat(e->text, old, room - 2);
    e->status = status;
    return status;
}

int heald_version(void)
{
    return HEALD_VERSION;
}

const char *heald_status_name(heald_status status)
{
    static const char *const name[] = {
        [HEALD_OK] = "ok",
        [HEALD_INVALID_ARGUMENT] = "invalid argument",
        [HEALD_NO_MEMORY] = "no memory",
        [HEALD_IO] = "input or output failed",
        [HEALD_DIAGNOSTIC] = "errors in the source",
        [HEALD_UNSUPPORTED] = "not supported",
        [HEALD_COMPILE] = "compiler failed",
        [HEALD_DEVICE] = "device failed",
        [HEALD_CANCELLED] = "cancelled",
        [HEALD_CHECK_FAILED] = "check failed",
        [HEALD_FORMAT] = "bad file",
        [HEALD_NOT_FOUND] = "not found",
        [HEALD_INTERNAL] = "mistake in Heald",
    };
    return (size_t)status < COUNT(name) ? name[status] : "unknown status";
}

// The public numbers are those of the table of types.
#define SAME(ID) _Static_assert((int)HEALD_##ID == (int)DT_##ID, #ID " has another number")
#define DTYPE(ID, name, class, bits, acc, c, cuda, onnx) SAME(ID);
#include "base/dtypes.def"
#undef DTYPE

const char *heald_dtype_name(heald_dtype dtype)
{
    return dtypes[(size_t)dtype < DT_COUNT ? (DType)dtype : DT_NONE].name;
}
