// SPDX-License-Identifier: Apache-2.0
// What the stand-in for the driver records, for the tests that load it.
#ifndef HEALD_TESTS_FAKE_DRIVER_H
#define HEALD_TESTS_FAKE_DRIVER_H

#include <stdint.h>

enum { FAKE_FUNCTION = 0x46414b45, FAKE_MAX_ARGUMENTS = 8 };

// A kernel that the stand-in runs, where a handle points to one: on the host, all blocks at once.
typedef struct FakeFunction {
    int64_t magic; // FAKE_FUNCTION
    int nargument; // of 8 bytes each
    void (*run)(const uint64_t *argument);
} FakeFunction;

typedef struct FakeState {
    int contexts, streams, modules, allocations, frees, live, waits;
    int graphs, execs, replays; // graphs and execs: alive
    int nodes, edges, changes;  // of graphs: added, and nodes changed later
    int overlaps;               // launches and edges that let a kernel start before another ends
    void *current;              // context of the thread
    void *stream;               // that was told to wait for another
    void *last_stream;          // that had the last launch, copy or replay
    int nlaunch;
    struct {
        unsigned grid[3], block, shared;
        int cooperative;
        uint64_t argument[FAKE_MAX_ARGUMENTS];
    } launch[64];
} FakeState;

#endif
