// SPDX-License-Identifier: Apache-2.0
// Task mappings: construction with checks, the tasks of a worker, and their text. Every mapping is
// a chain of simple parts, outermost first, so a task is read off from the inside out like the
// digits of a mixed-radix number.
#include "ir/mapping.h"

#include <string.h>

#include "base/util.h"

static const char too_large[] = "the sizes of this mapping overflow";

static Mapping *refuse(const char **why, const char *message)
{
    *why = message;
    return NULL;
}

// A mapping of the given shape; NULL with *why if the shape makes no sense.
static Mapping *new_mapping(Arena *a, MappingKind kind, int rank, const int64_t *shape,
                            const char **why)
{
    int64_t volume = 1;
    if (rank < 1 || rank > MAPPING_MAX_RANK)
        return refuse(why, arena_printf(a, "a mapping has 1 to %d dimensions, not %d",
                                        MAPPING_MAX_RANK, rank));
    for (int i = 0; i < rank; i++) {
        if (shape[i] < 1)
            return refuse(why, arena_printf(a, "extent %lld of dimension %d is not positive",
                                            (long long)shape[i], i));
        if (!mul_i64(volume, shape[i], &volume)) return refuse(why, too_large);
    }
    Mapping *m = NEW(a, Mapping);
    m->kind = kind;
    m->rank = rank;
    m->nworker = m->ntask = 1;
    m->nparts = 1;
    memcpy(m->shape, shape, (size_t)rank * sizeof *shape);
    return m;
}

static bool is_permutation(int n, const int *order)
{
    unsigned seen = 0;
    for (int i = 0; i < n; i++) {
        if (order[i] < 0 || order[i] >= n) return false;
        seen |= 1u << order[i];
    }
    return seen == (1u << n) - 1;
}

static int64_t volume_of(const Mapping *m)
{
    int64_t volume = 1;
    for (int i = 0; i < m->rank; i++) volume *= m->shape[i];
    return volume;
}

static Mapping *new_grid(Arena *a, MappingKind kind, int rank, const int64_t *shape,
                         const int *order, const char **why)
{
    Mapping *m = new_mapping(a, kind, rank, shape, why);
    if (!m) return NULL;
    if (order && !is_permutation(rank, order))
        return refuse(why, arena_printf(a, "the ranks are no permutation of 0 to %d", rank - 1));
    for (int i = 0; i < rank; i++) m->order[i] = order ? order[i] : i;
    return m;
}

const Mapping *mapping_spatial(Arena *a, int rank, const int64_t *shape, const int *order,
                               const char **why)
{
    Mapping *m = new_grid(a, MAP_SPATIAL, rank, shape, order, why);
    if (m) m->nworker = volume_of(m);
    return m;
}

const Mapping *mapping_repeat(Arena *a, int rank, const int64_t *shape, const int *order,
                              const LoopAttr *attr, const char **why)
{
    Mapping *m = new_grid(a, MAP_REPEAT, rank, shape, order, why);
    if (!m) return NULL;
    m->ntask = volume_of(m);
    for (int i = 0; i < rank; i++) {
        m->attr[i] = attr ? attr[i] : LOOP_DEFAULT;
        if (m->attr[i] == LOOP_DEFAULT) m->attr[i] = shape[i] < 4 ? LOOP_UNROLL_FULL : LOOP_PLAIN;
    }
    return m;
}

const Mapping *mapping_compose(Arena *a, const Mapping *outer, const Mapping *inner,
                               const char **why)
{
    if (inner->kind == MAP_COMPOSE) {
        outer = mapping_compose(a, outer, inner->outer, why);
        return outer ? mapping_compose(a, outer, inner->inner, why) : NULL;
    }
    if (outer->rank != inner->rank)
        return refuse(
            why, arena_printf(a, "a mapping of %d dimensions cannot be composed with one of %d",
                              outer->rank, inner->rank));
    if (outer->nparts + inner->nparts + 1 > MAPPING_MAX_PARTS)
        return refuse(why, "this mapping is composed of too many parts");
    int64_t shape[MAPPING_MAX_RANK], all;
    for (int i = 0; i < outer->rank; i++)
        if (!mul_i64(outer->shape[i], inner->shape[i], &shape[i])) return refuse(why, too_large);
    Mapping *m = new_mapping(a, MAP_COMPOSE, outer->rank, shape, why);
    if (!m) return NULL;
    if (!mul_i64(outer->nworker, inner->nworker, &m->nworker) ||
        !mul_i64(outer->ntask, inner->ntask, &m->ntask) || !mul_i64(m->nworker, m->ntask, &all))
        return refuse(why, too_large);
    m->outer = outer;
    m->inner = inner;
    m->nparts = outer->nparts + inner->nparts + 1;
    return m;
}

const Mapping *mapping_project(Arena *a, const Mapping *base, const bool *fixed, const char **why)
{
    if (base->nparts + 1 > MAPPING_MAX_PARTS)
        return refuse(why, "this mapping is composed of too many parts");
    int64_t shape[MAPPING_MAX_RANK];
    for (int i = 0; i < base->rank; i++) shape[i] = fixed[i] ? 1 : base->shape[i];
    Mapping *m = new_mapping(a, MAP_PROJECT, base->rank, shape, why);
    if (!m) return NULL;
    memcpy(m->fixed, fixed, (size_t)base->rank * sizeof *fixed);
    m->nworker = base->nworker;
    m->ntask = base->ntask;
    m->outer = base;
    m->nparts = base->nparts + 1;
    return m;
}

const Mapping *mapping_custom(Arena *a, int rank, const int64_t *shape, int64_t nworker,
                              struct Node *worker_var, struct Node *function, const char **why)
{
    Mapping *m = new_mapping(a, MAP_CUSTOM, rank, shape, why);
    if (!m) return NULL;
    if (nworker < 1) return refuse(why, "a mapping has at least one worker");
    m->nworker = nworker;
    m->worker_var = worker_var;
    m->function = function;
    return m;
}

static int64_t gcd(int64_t x, int64_t y)
{
    while (y) {
        int64_t rest = x % y;
        x = y;
        y = rest;
    }
    return x;
}

// repeat(rep) * spatial(sp) over the shape: dimensions take their share of the workers from the
// fastest to the slowest. Exact: a share divides its dimension, and the workers must run out.
// Predicated: a dimension that fits takes all it wants, the first that does not ends the sharing.
static const Mapping *share(Arena *a, int rank, const int64_t *shape, int64_t nworker,
                            const int *order, bool predicated, const char **why)
{
    const Mapping *checked = new_grid(a, MAP_SPATIAL, rank, shape, order, why);
    if (!checked) return NULL;
    if (nworker < 1) return refuse(why, "a mapping has at least one worker");
    int64_t volume = volume_of(checked);
    if (!predicated && volume % nworker != 0)
        return refuse(why, arena_printf(a, "%lld tasks cannot be shared evenly by %lld workers",
                                        (long long)volume, (long long)nworker));
    int64_t sp[MAPPING_MAX_RANK], rep[MAPPING_MAX_RANK], remain = nworker;
    for (int rank_wanted = rank - 1; rank_wanted >= 0; rank_wanted--) {
        int i = 0;
        while (checked->order[i] != rank_wanted) i++;
        sp[i] = predicated && remain >= shape[i] ? shape[i] : gcd(remain, shape[i]);
        rep[i] = shape[i] / sp[i];
        remain = predicated && rep[i] > 1 ? 1 : remain / sp[i];
    }
    const Mapping *r = mapping_repeat(a, rank, rep, order, NULL, why);
    const Mapping *s = mapping_spatial(a, rank, sp, order, why);
    return mapping_compose(a, r, s, why);
}

const Mapping *mapping_auto(Arena *a, int rank, const int64_t *shape, int64_t nworker,
                            const int *order, const char **why)
{
    return share(a, rank, shape, nworker, order, false, why);
}

const Mapping *mapping_auto_predicated(Arena *a, int rank, const int64_t *shape, int64_t nworker,
                                       const int *order, int64_t *used, const char **why)
{
    const Mapping *m = share(a, rank, shape, nworker, order, true, why);
    if (m) *used = m->nworker;
    return m;
}

// The tuple at position n of the grid in its order.
static void grid_tuple(const Mapping *m, int64_t n, int64_t *index)
{
    int at[MAPPING_MAX_RANK];
    for (int i = 0; i < m->rank; i++) at[m->order[i]] = i;
    for (int r = m->rank - 1; r >= 0; r--) {
        index[at[r]] = n % m->shape[at[r]];
        n /= m->shape[at[r]];
    }
}

bool mapping_task_with(const Mapping *m, int64_t w, int64_t task, int64_t *index,
                       MappingCustomFn *custom, void *user)
{
    int rank = m->rank;
    int64_t scale[MAPPING_MAX_RANK];
    bool pinned[MAPPING_MAX_RANK] = {0};
    ASSERT(w >= 0 && w < m->nworker && task >= 0 && task < m->ntask);
    for (int i = 0; i < rank; i++) {
        index[i] = 0;
        scale[i] = 1;
    }
    for (const Mapping *part = m; part;) {
        const Mapping *next = NULL, *digit = part;
        int64_t t[MAPPING_MAX_RANK];
        if (part->kind == MAP_PROJECT) {
            for (int i = 0; i < rank; i++) pinned[i] |= part->fixed[i];
            part = part->outer;
            continue;
        }
        if (part->kind == MAP_COMPOSE) {
            digit = part->inner;
            next = part->outer;
        }
        int64_t own_w = w % digit->nworker, own_task = task % digit->ntask;
        if (digit->kind == MAP_SPATIAL || digit->kind == MAP_REPEAT)
            grid_tuple(digit, digit->kind == MAP_SPATIAL ? own_w : own_task, t);
        else if (digit->kind == MAP_CUSTOM) {
            if (!custom || !custom(user, digit, own_w, t)) return false;
        } else if (!mapping_task_with(digit, own_w, own_task, t, custom, user)) return false;
        for (int i = 0; i < rank; i++) {
            if (!pinned[i]) index[i] += t[i] * scale[i];
            scale[i] *= digit->shape[i];
        }
        w /= digit->nworker;
        task /= digit->ntask;
        part = next;
    }
    return true;
}

bool mapping_task(const Mapping *m, int64_t w, int64_t task, int64_t *index)
{
    return mapping_task_with(m, w, task, index, NULL, NULL);
}

bool mapping_equal(const Mapping *a, const Mapping *b)
{
    if (a == b) return true;
    if (a->kind != b->kind || a->rank != b->rank || a->nworker != b->nworker ||
        a->ntask != b->ntask || a->nparts != b->nparts)
        return false;
    for (int i = 0; i < a->rank; i++)
        if (a->shape[i] != b->shape[i] || a->order[i] != b->order[i] || a->attr[i] != b->attr[i] ||
            a->fixed[i] != b->fixed[i])
            return false;
    switch (a->kind) {
    case MAP_COMPOSE: return mapping_equal(a->outer, b->outer) && mapping_equal(a->inner, b->inner);
    case MAP_PROJECT: return mapping_equal(a->outer, b->outer);
    case MAP_CUSTOM: return a->function == b->function && a->worker_var == b->worker_var;
    default: return true;
    }
}

static void print_shape(const Mapping *m, Buf *out)
{
    for (int i = 0; i < m->rank; i++)
        buf_printf(out, "%s%lld", i ? ", " : "", (long long)m->shape[i]);
}

// "spatial(2, 3)"; reversed ranks have a name of their own, other ranks and attributes follow ';'.
static void print_grid(const Mapping *m, Buf *out)
{
    static const char *const attr_text[] = {".", ".", "u", "u+", "p"};
    bool row = true, column = m->rank > 1, plain = true;
    for (int i = 0; i < m->rank; i++) {
        row = row && m->order[i] == i;
        column = column && m->order[i] == m->rank - 1 - i;
        plain = plain && (m->kind == MAP_SPATIAL ||
                          m->attr[i] == (m->shape[i] < 4 ? LOOP_UNROLL_FULL : LOOP_PLAIN));
    }
    buf_printf(out, "%s%s(", column ? "col_" : "", m->kind == MAP_SPATIAL ? "spatial" : "repeat");
    print_shape(m, out);
    if (!row && !column) {
        for (int i = 0; i < m->rank; i++)
            buf_printf(out, "%s%d", i ? ", " : "; ranks: (", m->order[i]);
        buf_puts(out, ")");
    }
    if (!plain) {
        buf_puts(out, row || column ? "; attrs: (" : ", attrs: (");
        for (int i = 0; i < m->rank; i++)
            buf_printf(out, "%s\"%s\"", i ? ", " : "", attr_text[m->attr[i]]);
        buf_puts(out, m->rank == 1 ? ",)" : ")");
    }
    buf_putc(out, ')');
}

void mapping_print(const Mapping *m, Buf *out)
{
    bool wrap, first = true;
    switch (m->kind) {
    case MAP_SPATIAL:
    case MAP_REPEAT: print_grid(m, out); break;
    case MAP_COMPOSE:
        mapping_print(m->outer, out);
        buf_puts(out, " * ");
        mapping_print(m->inner, out);
        break;
    case MAP_PROJECT:
        wrap = m->outer->kind == MAP_COMPOSE || m->outer->kind == MAP_CUSTOM;
        if (wrap) buf_putc(out, '(');
        mapping_print(m->outer, out);
        buf_puts(out, wrap ? ").project(" : ".project(");
        for (int i = 0; i < m->rank; i++) {
            if (!m->fixed[i]) continue;
            buf_printf(out, "%s%d", first ? "" : ", ", i);
            first = false;
        }
        buf_putc(out, ')');
        break;
    case MAP_CUSTOM:
        buf_printf(out, "mapping(workers: %lld; shape: (", (long long)m->nworker);
        print_shape(m, out);
        buf_puts(out, m->rank == 1 ? ",))" : "))");
        break;
    }
}
