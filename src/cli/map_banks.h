// SPDX-License-Identifier: Apache-2.0
// Bank conflicts of a layout in the shared memory of a GPU: 32 banks of 4 bytes, 128 bytes at a
// time.
#ifndef HEALD_CLI_MAP_BANKS_H
#define HEALD_CLI_MAP_BANKS_H

#include "ir/layout.h"

enum { BANKS = 32, BANK_BYTES = 4, WARP_LANES = 32 };

typedef struct MapBanks {
    bool known; // false: nothing to say (elements share places, an odd element size, too large)
    // For each access the most different words that one bank has to deliver at once, the worst over
    // the whole layout: 1 is free of conflicts. 0: the access is not possible.
    int row;    // 32 lanes at consecutive elements along the rows
    int column; // 32 lanes at consecutive elements down the columns; 0 for one dimension
    int matrix; // 8 lanes at 8 rows of 16 bytes each, as ldmatrix reads
} MapBanks;

// element_bytes: 1, 2, 4, 8 or 16.
MapBanks map_banks(const Layout *l, int element_bytes);
int map_bank_of(int64_t place, int element_bytes); // the bank of the first byte

#endif
