// SPDX-License-Identifier: Apache-2.0
// What the stand-in for a profiler records, for the tests that load it.
#ifndef HEALD_TESTS_FAKE_PROFILER_H
#define HEALD_TESTS_FAKE_PROFILER_H

#include <stdatomic.h>

enum { FAKE_MAX_RANGES = 256, FAKE_MAX_NAME = 64 };

typedef struct FakeProfiler {
    atomic_int starts, pushes, pops;
    atomic_int depth, deepest; // where one thread has ranges
    char name[FAKE_MAX_RANGES][FAKE_MAX_NAME];
} FakeProfiler;

#endif
