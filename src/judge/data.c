// SPDX-License-Identifier: Apache-2.0
// Random data.
#include "judge/data.h"

#include "base/util.h"

#include <math.h>

// Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators".
uint64_t random_next(Random *r)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

double random_uniform(Random *r)
{
    return (double)(random_next(r) >> 11) * 0x1p-53;
}

// A sum of uniform numbers instead of Box and Muller's method: no library function whose last bit
// differs between machines. Its variance is 12 / 12.
double random_normal(Random *r)
{
    double sum = -6;
    for (int i = 0; i < 12; i++) sum += random_uniform(r);
    return sum;
}

static double special_value(uint64_t pick, double otherwise)
{
    static const double odd[] = {0.0, -0.0, 1e-40, -1e-40, 1.0, -1.0};
    if (pick == 0) return NAN;
    if (pick == 1) return INFINITY;
    if (pick == 2) return -INFINITY;
    return pick < 3 + COUNT(odd) ? odd[pick - 3] : otherwise;
}

void random_fill(Random *r, DType type, void *data, int64_t nelem, bool special)
{
    char *at = data;
    for (int64_t i = 0; i < nelem; i++, at += dtype_size(type)) {
        if (dtype_is_float(type)) {
            double v = random_normal(r);
            if (special) v = special_value(random_next(r) % 64, v);
            dtype_store_f64(type, at, v);
            continue;
        }
        int64_t v = (int64_t)(random_next(r) % 9);
        if (type == DT_BOOL) v &= 1;
        else if (dtypes[type].class == DC_INT) v -= 4;
        dtype_store_i64(type, at, v);
    }
}
