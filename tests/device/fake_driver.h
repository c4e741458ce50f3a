// SPDX-License-Identifier: Apache-2.0
// What the stand-in for the driver records, for the tests that load it.
#ifndef HEALD_TESTS_FAKE_DRIVER_H
#define HEALD_TESTS_FAKE_DRIVER_H

#include <stdint.h>

typedef struct FakeState {
    int contexts, streams, modules, allocations, frees, live, waits, graphs, replays;
    void *stream; // that was told to wait for another
    int nlaunch;
    struct {
        unsigned grid[3], block, shared;
        int cooperative;
        uint64_t argument[8];
    } launch[64];
} FakeState;

#endif
