// SPDX-License-Identifier: Apache-2.0
// Mappings and layouts in short for tests: SPATIAL(4, 2), COL_REPEAT(2, 2), ROW(8, 4), and mul() to
// compose. All live in `arena`; a construction that is refused fails the test.
#ifndef HEALD_TESTS_MAPPING_BUILDERS_H
#define HEALD_TESTS_MAPPING_BUILDERS_H

#include "base/util.h"
#include "ir/layout.h"
#include "ir/mapping.h"

static Arena arena;
static const char *why;

#define DIMS(...)                                                   \
    (int)COUNT(((const int64_t[]){__VA_ARGS__})), (const int64_t[]) \
    {                                                               \
        __VA_ARGS__                                                 \
    }
#define ORDER(...) ((const int[]){__VA_ARGS__})
#define SPATIAL(...) build_grid(MAP_SPATIAL, false, DIMS(__VA_ARGS__))
#define COL_SPATIAL(...) build_grid(MAP_SPATIAL, true, DIMS(__VA_ARGS__))
#define REPEAT(...) build_grid(MAP_REPEAT, false, DIMS(__VA_ARGS__))
#define COL_REPEAT(...) build_grid(MAP_REPEAT, true, DIMS(__VA_ARGS__))
#define ROW(...) build_checked_layout(layout_row_major(&arena, DIMS(__VA_ARGS__), &why))
#define COLUMN(...) build_checked_layout(layout_column_major(&arena, DIMS(__VA_ARGS__), &why))
#define LOCAL(...) build_checked_layout(layout_local(&arena, DIMS(__VA_ARGS__), &why))

static inline const Mapping *build_checked(const Mapping *m)
{
    if (!m) BUG("refused: %s", why);
    return m;
}

static inline const Layout *build_checked_layout(const Layout *l)
{
    if (!l) BUG("refused: %s", why);
    return l;
}

static inline const Mapping *build_grid(MappingKind kind, bool column, int rank,
                                        const int64_t *shape)
{
    int order[MAPPING_MAX_RANK];
    for (int i = 0; i < rank; i++) order[i] = column ? rank - 1 - i : i;
    return build_checked(kind == MAP_SPATIAL
                             ? mapping_spatial(&arena, rank, shape, order, &why)
                             : mapping_repeat(&arena, rank, shape, order, NULL, &why));
}

static inline const Mapping *mul(const Mapping *f, const Mapping *g)
{
    return build_checked(mapping_compose(&arena, f, g, &why));
}

static inline const Layout *mul_layout(const Layout *f, const Layout *g)
{
    return build_checked_layout(layout_compose(&arena, f, g, &why));
}

static inline const Layout *swizzle(const Layout *base, int dim, int log_step)
{
    return build_checked_layout(layout_swizzle(&arena, base, dim, -1, log_step, &why));
}

#endif
