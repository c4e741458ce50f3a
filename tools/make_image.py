#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws examples/images/loom.png: 224 x 224 grey pixels, a woven cloth on a loom, thread by thread.

The upper part shows the bare warp, held apart by a heald (every second thread is lifted); below the
last weft thread the cloth is finished, and the pattern of its weave is a diamond twill.
Usage: make_image.py OUT.png  (only the standard library is needed)
"""
import math
import struct
import sys
import zlib

SIZE = 224
PITCH = 7            # pixels from one thread to the next
FELL = 70            # the edge of the finished cloth
SAMPLES = 4          # per pixel and axis


def thread(offset):
    """Brightness across a thread: a round profile, 0 at its edges."""
    x = (offset % PITCH) / PITCH * 2 - 1
    return math.sqrt(max(0.0, 1 - x * x * 1.15))


def warp_is_up(column, row):
    """Diamond twill: the diagonal of a 2/2 twill, reflected every 8 threads in both directions."""
    fold = lambda n: abs(n % 16 - 8)
    return (fold(column) + fold(row)) % 4 < 2


def cloth(x, y):
    column, row = int(x // PITCH), int((y - FELL) // PITCH)
    u, v = (x % PITCH) / PITCH - 0.5, ((y - FELL) % PITCH) / PITCH - 0.5
    if warp_is_up(column, row):
        shade, along, twist = 0.92 * thread(x), v, math.sin((y + 1.7 * x) * 1.9)
    else:
        shade, along, twist = 0.42 * thread(y - FELL), u, math.sin((x + 1.7 * y) * 1.9)
    return shade * (1 - 0.9 * along * along) * (0.95 + 0.05 * twist)


def loom(x, y):
    column = int(x // PITCH)
    lifted = column % 2 == 0
    light = 0.10 + 0.05 * y / FELL
    shade = thread(x) * (0.85 if lifted else 0.45)
    if shade > 0.05:
        light = shade * (0.96 + 0.04 * math.sin((y + 1.7 * x) * 1.9))
    # The heald: two bars, and between them a wire with an eye for each lifted thread.
    if 10 <= y < 17 or 45 <= y < 52:
        edge = abs((y - 10) % 35 - 3.5) / 3.5
        return 0.72 - 0.35 * edge
    if 17 <= y < 45 and lifted:
        u, v = x % PITCH - PITCH / 2, y - 31
        ring = math.hypot(u / 2.6, v / 5.0)
        if ring < 1:
            return 1.0 if ring > 0.62 else light
        if abs(u) < 0.7:
            return 1.0
    return light


def pixel(px, py):
    total = 0.0
    for i in range(SAMPLES):
        for j in range(SAMPLES):
            x, y = px + (i + 0.5) / SAMPLES, py + (j + 0.5) / SAMPLES
            total += cloth(x, y) if y >= FELL else loom(x, y)
    light = total / SAMPLES ** 2
    # A lamp from the upper left, and a soft vignette.
    light *= 1.08 - 0.35 * math.hypot(px / SIZE - 0.35, py / SIZE - 0.4)
    return max(0, min(255, round(255 * light)))


def chunk(kind, data):
    body = kind + data
    return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))


def main():
    rows = b"".join(b"\0" + bytes(pixel(x, y) for x in range(SIZE)) for y in range(SIZE))
    with open(sys.argv[1], "wb") as out:
        out.write(b"\x89PNG\r\n\x1a\n")
        out.write(chunk(b"IHDR", struct.pack(">IIBBBBB", SIZE, SIZE, 8, 0, 0, 0, 0)))
        out.write(chunk(b"IDAT", zlib.compress(rows, 9)))
        out.write(chunk(b"IEND", b""))


if __name__ == "__main__":
    main()
