// SPDX-License-Identifier: Apache-2.0
// The laws of task mappings, exhaustively on small shapes. A Table lists every task of every worker
// as the definitions in ir/mapping.h say, without looking at the implementation.
#include "ir/mapping.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "unit/mapping_builders.h"

enum { RANK = 3, MAX_ENTRIES = 2048, MAX_LEAVES = 128 };

typedef struct Table {
    int rank;
    int64_t shape[RANK], nworker, ntask;
    int8_t index[MAX_ENTRIES][RANK]; // [w * ntask + task]
} Table;

typedef struct Leaves {
    const Mapping *at[MAX_LEAVES];
    int n;
} Leaves;

// Strides from ranks, and the tuple with the given sum of index times stride.
static void leaf_table(const Mapping *m, Table *t)
{
    int64_t volume = 1;
    t->rank = m->rank;
    for (int i = 0; i < m->rank; i++) volume *= t->shape[i] = m->shape[i];
    t->nworker = m->kind == MAP_SPATIAL ? volume : 1;
    t->ntask = volume / t->nworker;
    for (int64_t n = 0; n < volume; n++)
        for (int i = 0; i < m->rank; i++) {
            int64_t stride = 1;
            for (int j = 0; j < m->rank; j++)
                if (m->order[j] > m->order[i]) stride *= m->shape[j];
            t->index[n][i] = (int8_t)(n / stride % m->shape[i]);
        }
}

static void compose_tables(const Table *f, const Table *g, Table *out)
{
    out->rank = f->rank;
    out->nworker = f->nworker * g->nworker;
    out->ntask = f->ntask * g->ntask;
    assert_true(out->nworker * out->ntask <= MAX_ENTRIES);
    for (int i = 0; i < f->rank; i++) out->shape[i] = f->shape[i] * g->shape[i];
    for (int64_t w = 0, n = 0; w < out->nworker; w++)
        for (int64_t tf = 0; tf < f->ntask; tf++)
            for (int64_t tg = 0; tg < g->ntask; tg++, n++)
                for (int i = 0; i < f->rank; i++)
                    out->index[n][i] =
                        (int8_t)(f->index[w / g->nworker * f->ntask + tf][i] * g->shape[i] +
                                 g->index[w % g->nworker * g->ntask + tg][i]);
}

static void assert_same_tables(const Table *a, const Table *b)
{
    assert_int_equal(a->nworker, b->nworker);
    assert_int_equal(a->ntask, b->ntask);
    for (int64_t n = 0; n < a->nworker * a->ntask; n++)
        assert_memory_equal(a->index[n], b->index[n], (size_t)a->rank);
}

static void assert_matches(const Mapping *m, const Table *t)
{
    assert_int_equal(m->nworker, t->nworker);
    assert_int_equal(m->ntask, t->ntask);
    for (int i = 0; i < m->rank; i++) assert_int_equal(m->shape[i], t->shape[i]);
    for (int64_t w = 0, n = 0; w < m->nworker; w++)
        for (int64_t task = 0; task < m->ntask; task++, n++) {
            int64_t index[MAPPING_MAX_RANK];
            assert_true(mapping_task(m, w, task, index));
            for (int i = 0; i < m->rank; i++)
                if (index[i] != t->index[n][i])
                    fail_msg("worker %d task %d: %d, not %d", (int)w, (int)task, (int)index[i],
                             t->index[n][i]);
        }
}

static void assert_each_task_once(const Mapping *m)
{
    char seen[MAX_ENTRIES] = {0};
    int64_t volume = 1;
    for (int i = 0; i < m->rank; i++) volume *= m->shape[i];
    assert_int_equal(volume, m->nworker * m->ntask);
    for (int64_t w = 0; w < m->nworker; w++)
        for (int64_t task = 0; task < m->ntask; task++) {
            int64_t index[MAPPING_MAX_RANK], linear = 0;
            assert_true(mapping_task(m, w, task, index));
            for (int i = 0; i < m->rank; i++) {
                assert_true(index[i] >= 0 && index[i] < m->shape[i]);
                linear = linear * m->shape[i] + index[i];
            }
            assert_int_equal(seen[linear], 0);
            seen[linear] = 1;
        }
}

// Next tuple of the given extents, counting up from all lowest; false after the last.
static bool next_tuple(int rank, int64_t lowest, int64_t highest, int64_t *tuple)
{
    int i = rank - 1;
    while (i >= 0 && tuple[i] == highest) tuple[i--] = lowest;
    if (i < 0) return false;
    tuple[i]++;
    return true;
}

static const int orders[][RANK] = {{0, 1, 2}, {1, 0, 2}, {0, 2, 1},
                                   {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
static const int norders[] = {0, 1, 2,
                              6}; // of rank 1, 2, 3: how many of the above are permutations

static void make_leaves(int rank, int64_t highest, Leaves *leaves)
{
    int64_t shape[RANK] = {1, 1, 1};
    leaves->n = 0;
    do {
        for (int o = 0; o < norders[rank]; o++) {
            leaves->at[leaves->n++] =
                build_checked(mapping_spatial(&arena, rank, shape, orders[o], &why));
            leaves->at[leaves->n++] =
                build_checked(mapping_repeat(&arena, rank, shape, orders[o], NULL, &why));
            assert_true(leaves->n <= MAX_LEAVES);
        }
    } while (next_tuple(rank, 1, highest, shape));
}

static void check_pairs(int rank, int64_t highest)
{
    static Leaves leaves;
    static Table f, g, fg;
    make_leaves(rank, highest, &leaves);
    for (int i = 0; i < leaves.n; i++) {
        leaf_table(leaves.at[i], &f);
        assert_matches(leaves.at[i], &f);
        assert_each_task_once(leaves.at[i]);
        for (int j = 0; j < leaves.n; j++) {
            ArenaMark mark = arena_mark(&arena);
            const Mapping *m = mul(leaves.at[i], leaves.at[j]);
            leaf_table(leaves.at[j], &g);
            compose_tables(&f, &g, &fg);
            assert_matches(m, &fg);
            assert_each_task_once(m);
            arena_reset(&arena, mark);
        }
    }
}

static void pairs_cover_each_task_once(void **state)
{
    UNUSED(state);
    check_pairs(1, 6);
    check_pairs(2, 3);
    check_pairs(3, 2);
}

static void check_triples(int rank, int64_t highest)
{
    static Leaves leaves;
    static Table f, g, h, fg, gh, left, right;
    make_leaves(rank, highest, &leaves);
    for (int i = 0; i < leaves.n; i++) {
        leaf_table(leaves.at[i], &f);
        for (int j = 0; j < leaves.n; j++) {
            leaf_table(leaves.at[j], &g);
            compose_tables(&f, &g, &fg);
            for (int k = 0; k < leaves.n; k++) {
                ArenaMark mark = arena_mark(&arena);
                leaf_table(leaves.at[k], &h);
                compose_tables(&g, &h, &gh);
                compose_tables(&fg, &h, &left);
                compose_tables(&f, &gh, &right);
                const Mapping *l = mul(mul(leaves.at[i], leaves.at[j]), leaves.at[k]);
                const Mapping *r = mul(leaves.at[i], mul(leaves.at[j], leaves.at[k]));
                assert_same_tables(&left, &right);
                assert_matches(l, &left);
                assert_matches(r, &right);
                assert_true(mapping_equal(l, r));
                arena_reset(&arena, mark);
            }
        }
    }
}

static void composition_is_associative(void **state)
{
    UNUSED(state);
    check_triples(1, 4);
    check_triples(2, 2);
}

static void projection_keeps_workers_and_pins(void **state)
{
    UNUSED(state);
    static Leaves leaves;
    make_leaves(2, 2, &leaves);
    for (int i = 0; i < leaves.n; i++)
        for (int j = 0; j < leaves.n; j++)
            for (int mask = 0; mask < 4; mask++) {
                ArenaMark mark = arena_mark(&arena);
                const bool fixed[] = {mask & 1, mask >> 1};
                const Mapping *base = mul(leaves.at[i], leaves.at[j]);
                const Mapping *m = build_checked(mapping_project(&arena, base, fixed, &why));
                assert_int_equal(m->nworker, base->nworker);
                assert_int_equal(m->ntask, base->ntask);
                for (int64_t w = 0; w < m->nworker; w++)
                    for (int64_t task = 0; task < m->ntask; task++) {
                        int64_t want[MAPPING_MAX_RANK], got[MAPPING_MAX_RANK];
                        assert_true(mapping_task(base, w, task, want));
                        assert_true(mapping_task(m, w, task, got));
                        for (int d = 0; d < 2; d++) {
                            assert_int_equal(m->shape[d], fixed[d] ? 1 : base->shape[d]);
                            assert_int_equal(got[d], fixed[d] ? 0 : want[d]);
                        }
                    }
                arena_reset(&arena, mark);
            }
}

// auto_map covers its shape with exactly the given workers, and is refused exactly when the workers
// do not divide the tasks; predicated_auto_map always covers, with no more workers than given.
static void check_auto(int rank, int64_t highest)
{
    int64_t shape[RANK] = {1, 1, 1};
    do {
        int64_t volume = 1;
        for (int i = 0; i < rank; i++) volume *= shape[i];
        for (int64_t n = 1; n <= volume + 3; n++)
            for (int o = 0; o < norders[rank]; o++) {
                ArenaMark mark = arena_mark(&arena);
                const Mapping *m = mapping_auto(&arena, rank, shape, n, orders[o], &why);
                assert_int_equal(m != NULL, volume % n == 0);
                if (m) {
                    assert_int_equal(m->nworker, n);
                    assert_memory_equal(m->shape, shape, (size_t)rank * sizeof *shape);
                    assert_each_task_once(m);
                }
                int64_t used = 0;
                m = mapping_auto_predicated(&arena, rank, shape, n, orders[o], &used, &why);
                assert_non_null(m);
                assert_true(used >= 1 && used <= n);
                assert_int_equal(m->nworker, used);
                assert_memory_equal(m->shape, shape, (size_t)rank * sizeof *shape);
                assert_each_task_once(m);
                arena_reset(&arena, mark);
            }
    } while (next_tuple(rank, 1, highest, shape));
}

static void auto_map_covers_or_is_refused(void **state)
{
    UNUSED(state);
    check_auto(1, 30);
    check_auto(2, 8);
    check_auto(3, 4);
}

static int free_arena(void **state)
{
    UNUSED(state);
    arena_free(&arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_cover_each_task_once),
        cmocka_unit_test(composition_is_associative),
        cmocka_unit_test(projection_keeps_workers_and_pins),
        cmocka_unit_test(auto_map_covers_or_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, free_arena);
}
