// SPDX-License-Identifier: Apache-2.0
// Small things everybody needs: assertions, min and max, checked integer arithmetic.
#ifndef HEALD_BASE_UTIL_H
#define HEALD_BASE_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

_Noreturn void heald_bug(const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
#define BUG(...) heald_bug(__FILE__, __LINE__, __VA_ARGS__)
#define ASSERT(cond) ((cond) ? (void)0 : BUG("assertion failed: %s", #cond))

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define UNUSED(x) ((void)(x))

static inline int64_t min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static inline int64_t max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}
// b > 0.
static inline int64_t ceil_div_i64(int64_t a, int64_t b)
{
    return a / b + (a % b > 0);
}

// Floor division and the remainder with the divisor's sign: the meaning of / and % in the language.
// b != 0; INT64_MIN / -1 wraps.
int64_t floor_div_i64(int64_t a, int64_t b);
int64_t floor_mod_i64(int64_t a, int64_t b);

// Each returns false on overflow, leaving *out unspecified.
static inline bool add_i64(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}
static inline bool sub_i64(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_sub_overflow(a, b, out);
}
static inline bool mul_i64(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}
// Whether x is an integer of which doubles have the neighbours too, and which.
static inline bool whole_f64(double x, int64_t *out)
{
    if (!(x > -0x1p53 && x < 0x1p53)) return false;
    *out = (int64_t)x;
    return (double)*out == x;
}

#endif
