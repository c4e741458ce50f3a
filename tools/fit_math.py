#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The polynomials of lib/math.hd: prints each one's coefficients and largest error.

Least squares at Chebyshev points of weight * (p - f), which is within a small factor of the best, in 60 digits. Coefficients are rounded to the
element type from the lowest up, the rest fitted anew after each, so that the others make good the rounding of one. Needs mpmath. Usage: fit_math.py [NAME...]
"""
import struct
import sys

import mpmath as mp

mp.mp.dps = 60


def rounded(x, bits):
    if bits == 64:
        return mp.mpf(float(x))
    f = struct.unpack("f", struct.pack("f", float(x)))[0]  # f64 first: harmless, a coefficient need not be the nearest
    return mp.mpf(f)


def least_squares(f, weight, lo, hi, fixed, n):
    """n more coefficients after the fixed ones, lowest first."""
    first, count = len(fixed), 4 * (len(fixed) + n) + 8
    xs = [(hi + lo) / 2 - (hi - lo) / 2 * mp.cos(mp.pi * (i + mp.mpf(1) / 2) / count) for i in range(count)]
    rows = [[weight(x) * x ** (first + k) for k in range(n)] for x in xs]
    target = [weight(x) * (f(x) - mp.polyval(fixed[::-1] or [0], x)) for x in xs]
    a = mp.matrix(rows)
    return list(mp.lu_solve(a.T * a, a.T * mp.matrix(target)))


def fit(f, weight, lo, hi, n, bits, fixed=()):
    c, lo, hi = [mp.mpf(x) for x in fixed], mp.mpf(lo), mp.mpf(hi)
    while len(c) < n:
        c.append(rounded(least_squares(f, weight, lo, hi, c, n - len(c))[0], bits))
    xs = [lo + (hi - lo) * i / 500 for i in range(501)]
    return c, max(abs(weight(x) * (mp.polyval(c[::-1], x) - f(x))) for x in xs)


def series(f, first):
    """f away from 0, its limit `first` there."""
    return lambda x: f(x) if abs(x) > mp.mpf(10) ** -12 else mp.mpf(first)


half_ln2 = mp.log(2) / 2 * mp.mpf("1.01")
root = mp.sqrt(2)
s = lambda f: lambda z: f(mp.sqrt(z))
log_s = series(lambda z: (mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 1) * 2 / z, mp.mpf(2) / 3)

# name: function, weight, interval, coefficients, bits, the first ones given. Weights make the error relative to the result.
FITS = {
    "exp_f32": (mp.exp, lambda r: mp.exp(-r), -half_ln2, half_ln2, 7, 32, (1, 1)),
    "exp_f64": (mp.exp, lambda r: mp.exp(-r), -half_ln2, half_ln2, 13, 64, (1, 1)),
    "exp2_f32": (lambda r: 2**r, lambda r: 2**-r, -0.5, 0.5, 8, 32, (1,)),
    "exp2_f64": (lambda r: 2**r, lambda r: 2**-r, -0.5, 0.5, 14, 64, (1,)),
    # log(1 + f) = f - f^2 / 2 + f^3 p(f)
    "log_f32": (series(lambda f: (mp.log1p(f) - f + f * f / 2) / f**3, mp.mpf(1) / 3),
                lambda f: abs(f) ** 3 / abs(mp.log1p(f)) if f else 0, 1 / root - 1, root - 1, 8, 32),
    # log(1 + f) = 2 s + s z p(z), s = f / (2 + f), z = s^2
    "log_f64": (log_s, lambda z: z / 2, 0, 0.0295, 7, 64),
    # atanh(s) = s + s z / 3 + s z^2 p(z), for power
    "atanh_f64": (series(lambda z: (mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 1 - z / 3) / z**2, mp.mpf(1) / 5), lambda z: z**2, 0, 0.0295, 7, 64),
    # log2(1 + f) = f / ln 2 + f^2 p(f)
    "log2_f32": (series(lambda f: (mp.log(1 + f, 2) - f / mp.log(2)) / f**2, -1 / mp.log(2) / 2),
                 lambda f: abs(f) ** 2 / abs(mp.log(1 + f, 2)) if f else 0, 1 / root - 1, root - 1, 9, 32),
    # x + x z p(z), z = x^2
    "tanh_f32": (series(s(lambda x: (mp.tanh(x) / x - 1) / x**2), mp.mpf(-1) / 3), lambda z: z, 0, 0.625**2, 5, 32),
    "tanh_f64": (series(s(lambda x: (mp.tanh(x) / x - 1) / x**2), mp.mpf(-1) / 3), lambda z: z, 0, 0.55**2, 11, 64),
    "sinh_f64": (series(s(lambda x: (mp.sinh(x) / x - 1) / x**2), mp.mpf(1) / 6), lambda z: z, 0, 1, 8, 64),
    "sin_f32": (series(s(lambda x: (mp.sin(x) / x - 1) / x**2), mp.mpf(-1) / 6), lambda z: z, 0, 0.617, 4, 32),
    "cos_f32": (s(mp.cos), lambda z: 1, 0, 0.617, 5, 32, (1, -0.5)),
    "sin_f64": (series(s(lambda x: (mp.sin(x) / x - 1) / x**2), mp.mpf(-1) / 6), lambda z: z, 0, 0.617, 7, 64),
    "cos_f64": (s(mp.cos), lambda z: 1, 0, 0.617, 8, 64, (1, -0.5)),
    "asin_f64": (series(s(lambda x: (mp.asin(x) / x - 1) / x**2), mp.mpf(1) / 6), lambda z: z, 0, 0.25, 13, 64),
    "atan_f64": (series(s(lambda x: (mp.atan(x) / x - 1) / x**2), mp.mpf(-1) / 3), lambda z: z, 0, 0.1716, 12, 64),
    # x + x p(x^2)
    "erf_f32": (series(s(lambda x: mp.erf(x) / x - 1), 2 / mp.sqrt(mp.pi) - 1), lambda z: 1, 0, 0.9**2, 7, 32),
    "erf_f64": (series(s(lambda x: mp.erf(x) / x - 1), 2 / mp.sqrt(mp.pi) - 1), lambda z: 1, 0, 0.9**2, 13, 64),
    # log(erfc(x)) = x p(x)
    "erfc_f32": (lambda x: mp.log(mp.erfc(x)) / x, lambda x: x * mp.erfc(x), 0.9, 4, 8, 32),
    "erfc_f64": (lambda x: mp.log(mp.erfc(x)) / x, lambda x: x * mp.erfc(x), 0.9, 6, 20, 64),
}


def main():
    for name in sys.argv[1:] or FITS:
        f, weight, lo, hi, n, bits, *rest = FITS[name]
        c, worst = fit(f, weight, lo, hi, n, bits, *rest)
        digits = 9 if bits == 32 else 17
        print(f"{name}: error 2^{float(mp.log(worst, 2)):.1f}")
        print("    " + ", ".join(f"{float(x):.{digits}g}" for x in c))


if __name__ == "__main__":
    main()
