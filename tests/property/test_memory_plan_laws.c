// SPDX-License-Identifier: Apache-2.0
// Laws of memory plans on random values: who lives together never overlaps, aliases share, offsets
// are aligned, equal input gives an equal plan, and the block stays near the least possible.
#include "base/util.h"
#include "runtime/memory.h"
#include "runtime/memory_plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_ITEM = 60, NCASE = 400 };

static uint64_t seed = 1;

static int below(int n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int)((seed >> 33) % (uint64_t)n);
}

// Chains as in a network (short lives) with some long ones; one in eight takes over memory.
static int random_items(MemoryItem *item, bool aliases)
{
    int n = 1 + below(MAX_ITEM);
    for (int i = 0; i < n; i++) {
        int length = below(4) ? below(3) : below(n);
        item[i] = (MemoryItem){.size = below(5) ? 1 + below(100000) : below(200),
                               .first = i,
                               .last = i + length - (below(20) == 0 ? n : 0),
                               .alias = aliases && i && below(8) == 0 ? below(i) : -1};
    }
    return n;
}

static int root_of(const MemoryItem *item, int i)
{
    while (item[i].alias >= 0) i = item[i].alias;
    return i;
}

// The span of steps in which a root and its aliases need their memory.
static void span(const MemoryItem *item, int n, int root, int *first, int *last)
{
    *first = INT32_MAX;
    *last = INT32_MIN;
    for (int i = 0; i < n; i++) {
        if (root_of(item, i) != root || item[i].size == 0 || item[i].first > item[i].last) continue;
        if (item[i].first < *first) *first = item[i].first;
        if (item[i].last > *last) *last = item[i].last;
    }
}

static bool collide(const MemoryItem *item, int n, int i, int k)
{
    int f1, l1, f2, l2, a = root_of(item, i), b = root_of(item, k);
    if (a == b) return false;
    span(item, n, a, &f1, &l1);
    span(item, n, b, &f2, &l2);
    if (l1 < f2 || l2 < f1) return false;
    return item[i].offset < item[k].offset + item[k].size &&
           item[k].offset < item[i].offset + item[i].size;
}

static bool needed(const MemoryItem *m)
{
    return m->size > 0 && m->first <= m->last;
}

static void test_laws(void **state)
{
    UNUSED(state);
    for (int c = 0; c < NCASE; c++) {
        MemoryItem item[MAX_ITEM], again[MAX_ITEM];
        int n = random_items(item, true);
        memcpy(again, item, sizeof item);
        int64_t peak, peak_again;
        assert_int_equal(memory_plan(item, n, &peak, NULL), HEALD_OK);
        assert_int_equal(memory_plan(again, n, &peak_again, NULL), HEALD_OK);
        assert_int_equal(peak, peak_again);
        for (int i = 0; i < n; i++) {
            assert_int_equal(item[i].offset, again[i].offset);
            assert_int_equal(item[i].offset % MEMORY_ALIGN, 0);
            assert_int_equal(item[i].offset, item[root_of(item, i)].offset);
            if (!needed(&item[i])) continue;
            assert_true(item[i].offset + item[i].size <= peak);
            for (int k = 0; k < i; k++) {
                if (needed(&item[k])) assert_false(collide(item, n, i, k));
            }
        }
    }
}

// Without aliases the block is never below the bound, and within 4 % of it on average.
static void test_close_to_bound(void **state)
{
    UNUSED(state);
    double excess = 0;
    int counted = 0;
    for (int c = 0; c < NCASE; c++) {
        MemoryItem item[MAX_ITEM];
        int n = random_items(item, false);
        int64_t peak, bound;
        assert_int_equal(memory_plan(item, n, &peak, NULL), HEALD_OK);
        assert_int_equal(memory_lower_bound(item, n, &bound, NULL), HEALD_OK);
        assert_true(peak >= bound);
        if (!bound) continue;
        excess += (double)(peak - bound) / (double)bound;
        counted++;
    }
    print_message("# peak above the bound: %.2f %% on average\n", 100 * excess / counted);
    assert_true(excess / counted < 0.04);
}

static void test_by_hand(void **state)
{
    UNUSED(state);
    int64_t peak;
    // A chain needs two buffers in turn; its in-place variant one.
    MemoryItem chain[] = {{100, 0, 1, -1, 0}, {100, 1, 2, -1, 0}, {100, 2, 3, -1, 0}};
    assert_int_equal(memory_plan(chain, 3, &peak, NULL), HEALD_OK);
    assert_int_equal(peak, 256);
    assert_int_equal(chain[0].offset, chain[2].offset);
    chain[1].alias = 0;
    chain[2].alias = 1;
    assert_int_equal(memory_plan(chain, 3, &peak, NULL), HEALD_OK);
    assert_int_equal(peak, 128);
    assert_int_equal(memory_plan(NULL, 0, &peak, NULL), HEALD_OK);
    assert_int_equal(peak, 0);
}

static void test_refusals(void **state)
{
    UNUSED(state);
    int64_t peak;
    MemoryItem circle[] = {{1, 0, 0, 1, 0}, {1, 0, 0, 0, 0}};
    assert_int_equal(memory_plan(circle, 2, &peak, NULL), HEALD_INVALID_ARGUMENT);
    MemoryItem outside[] = {{1, 0, 0, 5, 0}};
    assert_int_equal(memory_plan(outside, 1, &peak, NULL), HEALD_INVALID_ARGUMENT);
    MemoryItem huge[] = {{INT64_MAX / 2, 0, 0, -1, 0}, {INT64_MAX / 2 + 70, 0, 0, -1, 0}};
    assert_int_equal(memory_plan(huge, 2, &peak, NULL), HEALD_NO_MEMORY);
    assert_int_equal(memory_lower_bound(huge, 2, &peak, NULL), HEALD_NO_MEMORY);
    MemoryItem one[] = {{1, 0, 0, -1, 0}};
    memory_fail_after(0);
    assert_int_equal(memory_plan(one, 1, &peak, NULL), HEALD_NO_MEMORY);
    memory_fail_after(0);
    assert_int_equal(memory_lower_bound(one, 1, &peak, NULL), HEALD_NO_MEMORY);
    memory_fail_after(-1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_laws),
        cmocka_unit_test(test_close_to_bound),
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
