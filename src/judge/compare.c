// SPDX-License-Identifier: Apache-2.0
// Comparing tensors.
#include "judge/compare.h"

#include "ir/scalar.h"

#include <math.h>

static const void *at(const void *data, DType type, int64_t i)
{
    return (const char *)data + (size_t)i * dtype_size(type);
}

int64_t compare_bits(DType type, const void *got, const void *want, int64_t nelem, int64_t *first)
{
    int64_t nbad = 0;
    for (int64_t i = 0; i < nelem; i++) {
        Scalar x = scalar_load(type, at(got, type, i)), y = scalar_load(type, at(want, type, i));
        if (scalar_bits_equal(&x, &y)) continue;
        if (nbad++ == 0) *first = i;
    }
    return nbad;
}

static bool is_close(double got, double want, double allowed)
{
    if (isnan(got) || isnan(want)) return isnan(got) && isnan(want);
    if (isinf(got) || isinf(want)) return got == want;
    return fabs(got - want) <= allowed;
}

Difference compare_close(DType got_type, const void *got, DType want_type, const void *want,
                         int64_t nelem, const Tolerance *t)
{
    Difference d = {.constant = nelem > 1};
    double first_want = nelem ? dtype_load_f64(want_type, want) : 0;
    for (int64_t i = 0; i < nelem; i++) {
        double x = dtype_load_f64(got_type, at(got, got_type, i));
        double y = dtype_load_f64(want_type, at(want, want_type, i));
        double diff = fabs(x - y);
        if (y != first_want) d.constant = false;
        bool good = is_close(x, y, t->atol + t->rtol * fabs(y) + (t->extra ? t->extra[i] : 0));
        if ((!good && d.nbad == 0) || (d.nbad == 0 && diff > d.max_abs)) {
            d.first = i;
            d.got = x;
            d.want = y;
        }
        if (!good) d.nbad++;
        if (diff > d.max_abs) d.max_abs = diff;
        if (y != 0 && diff / fabs(y) > d.max_rel) d.max_rel = diff / fabs(y);
    }
    return d;
}

double largest_magnitude(DType type, const void *data, int64_t nelem)
{
    double most = 0;
    for (int64_t i = 0; i < nelem; i++) {
        double v = fabs(dtype_load_f64(type, at(data, type, i)));
        if (isfinite(v) && v > most) most = v;
    }
    return most;
}
