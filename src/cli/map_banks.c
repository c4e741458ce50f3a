// SPDX-License-Identifier: Apache-2.0
// Counting bank conflicts. The hardware serves 128 bytes at a time: a warp of elements wider than
// 4 bytes is served in halves or quarters. Lanes that ask for the same word share it.
#include "cli/map_banks.h"

#include <string.h>

#include "base/util.h"

enum { SERVED_BYTES = BANKS * BANK_BYTES, MAX_ELEMENTS = 1 << 20 };

int map_bank_of(int64_t place, int element_bytes)
{
    return (int)(place % SERVED_BYTES * element_bytes / BANK_BYTES % BANKS);
}

// The most different words in one bank, where n lanes read `bytes` each at an address.
static int degree(const int64_t *address, int n, int bytes)
{
    int64_t word[BANKS];
    int nword = 0, count[BANKS] = {0}, most = 0;
    for (int lane = 0; lane < n; lane++)
        for (int at = 0; at < bytes; at += BANK_BYTES) {
            int64_t w = (address[lane] + at) / BANK_BYTES;
            int k = 0;
            while (k < nword && word[k] != w) k++;
            if (k < nword) continue;
            word[nword++] = w;
            if (++count[w % BANKS] > most) most = count[w % BANKS];
        }
    return most;
}

// Walks all elements, dimension `fast` running fastest, and the others as in row-major order.
static int walk(const Layout *l, int64_t volume, int fast, int bytes)
{
    int lanes = (int)min_i64(WARP_LANES, SERVED_BYTES / bytes), n = 0, most = 0;
    int64_t address[WARP_LANES], index[LAYOUT_MAX_RANK] = {0};
    for (int64_t k = 0; k < volume; k++) {
        address[n++] = layout_index(l, index) * bytes;
        if (n == lanes || k == volume - 1) {
            most = (int)max_i64(most, degree(address, n, bytes));
            n = 0;
        }
        if (++index[fast] < l->shape[fast]) continue;
        index[fast] = 0;
        for (int i = l->rank - 1; i >= 0; i--) {
            if (i == fast) continue;
            if (++index[i] < l->shape[i]) break;
            index[i] = 0;
        }
    }
    return most;
}

// The address of the 16 bytes that start at the element, or -1 if they are not contiguous and
// aligned.
static int64_t row_address(const Layout *l, const int64_t *first, int bytes)
{
    int64_t index[LAYOUT_MAX_RANK];
    memcpy(index, first, sizeof index);
    int64_t address = layout_index(l, index) * bytes;
    if (address % 16 != 0) return -1;
    for (int j = 1; j < 16 / bytes; j++) {
        index[l->rank - 1]++;
        if (layout_index(l, index) * bytes != address + j * bytes) return -1;
    }
    return address;
}

// One 8-row tile at first; 0 if one of its rows has no address.
static int tile_degree(const Layout *l, const int64_t *first, int bytes)
{
    int64_t address[8], index[LAYOUT_MAX_RANK];
    memcpy(index, first, sizeof index);
    for (int i = 0; i < 8; i++) {
        address[i] = row_address(l, index, bytes);
        if (address[i] < 0) return 0;
        index[l->rank - 2]++;
    }
    return degree(address, 8, 16);
}

static int tiles(const Layout *l, int bytes)
{
    int64_t index[LAYOUT_MAX_RANK] = {0}, step[LAYOUT_MAX_RANK];
    int most = 0;
    if (l->rank < 2) return 0;
    for (int i = 0; i < l->rank; i++) step[i] = 1;
    step[l->rank - 2] = 8;
    step[l->rank - 1] = 16 / bytes;
    if (l->shape[l->rank - 2] < 8 || l->shape[l->rank - 1] < 16 / bytes) return 0;
    for (;;) {
        int one = tile_degree(l, index, bytes), i = l->rank - 1;
        if (one == 0) return 0;
        most = (int)max_i64(most, one);
        while (i >= 0 && index[i] + 2 * step[i] > l->shape[i]) index[i--] = 0;
        if (i < 0) return most;
        index[i] += step[i];
    }
}

MapBanks map_banks(const Layout *l, int element_bytes)
{
    MapBanks banks = {0};
    int64_t volume = 1;
    for (int i = 0; i < l->rank; i++) volume *= l->shape[i];
    if (element_bytes < 1 || element_bytes > 16 || (element_bytes & (element_bytes - 1)))
        return banks;
    if (volume > MAX_ELEMENTS || l->size > INT64_MAX / 16 || !layout_injective(l)) return banks;
    banks.known = true;
    banks.row = walk(l, volume, l->rank - 1, element_bytes);
    if (l->rank > 1) banks.column = walk(l, volume, l->rank - 2, element_bytes);
    banks.matrix = tiles(l, element_bytes);
    return banks;
}
