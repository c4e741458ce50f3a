// SPDX-License-Identifier: Apache-2.0
// Layouts: construction with checks, the storage index of an element, injectivity, and their text.
#include "ir/layout.h"

#include <string.h>

#include "base/util.h"

static const char too_large[] = "the sizes of this layout overflow";

static Layout *refuse(const char **why, const char *message)
{
    *why = message;
    return NULL;
}

// A layout of the given shape over the parts; NULL with *why if that makes no sense.
static Layout *new_layout(Arena *a, LayoutKind kind, int rank, const int64_t *shape,
                          const Layout *outer, const Layout *inner, const char **why)
{
    int64_t volume = 1;
    int nparts = 1 + (outer ? outer->nparts : 0) + (inner ? inner->nparts : 0);
    if (rank < 1 || rank > LAYOUT_MAX_RANK)
        return refuse(
            why, arena_printf(a, "a layout has 1 to %d dimensions, not %d", LAYOUT_MAX_RANK, rank));
    if (nparts > LAYOUT_MAX_PARTS) return refuse(why, "this layout is made of too many parts");
    for (int i = 0; i < rank; i++) {
        if (shape[i] < 1)
            return refuse(why, arena_printf(a, "extent %lld of dimension %d is not positive",
                                            (long long)shape[i], i));
        if (!mul_i64(volume, shape[i], &volume)) return refuse(why, too_large);
    }
    Layout *l = NEW(a, Layout);
    l->kind = kind;
    l->rank = rank;
    l->size = outer ? outer->size : 1;
    l->outer = outer;
    l->inner = inner;
    l->nparts = nparts;
    memcpy(l->shape, shape, (size_t)rank * sizeof *shape);
    return l;
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

const Layout *layout_strided(Arena *a, int rank, const int64_t *shape, const int64_t *stride,
                             const char **why)
{
    Layout *l = new_layout(a, LAYOUT_STRIDED, rank, shape, NULL, NULL, why);
    if (!l) return NULL;
    for (int i = 0; i < rank; i++) {
        int64_t last;
        if (stride[i] < 0)
            return refuse(why, arena_printf(a, "stride %lld of dimension %d is negative",
                                            (long long)stride[i], i));
        if (!mul_i64(shape[i] - 1, stride[i], &last) || !add_i64(l->size, last, &l->size))
            return refuse(why, too_large);
        l->stride[i] = stride[i];
    }
    return l;
}

const Layout *layout_ranked(Arena *a, int rank, const int64_t *shape, const int *order,
                            const char **why)
{
    if (!new_layout(a, LAYOUT_STRIDED, rank, shape, NULL, NULL, why)) return NULL;
    if (!is_permutation(rank, order))
        return refuse(why, arena_printf(a, "the ranks are no permutation of 0 to %d", rank - 1));
    int64_t stride[LAYOUT_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        stride[i] = 1;
        for (int j = 0; j < rank; j++)
            if (order[j] > order[i]) stride[i] *= shape[j];
    }
    return layout_strided(a, rank, shape, stride, why);
}

const Layout *layout_row_major(Arena *a, int rank, const int64_t *shape, const char **why)
{
    static const int order[LAYOUT_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    return layout_ranked(a, rank, shape, order, why);
}

const Layout *layout_column_major(Arena *a, int rank, const int64_t *shape, const char **why)
{
    int order[LAYOUT_MAX_RANK] = {0};
    for (int i = 0; i < rank && i < LAYOUT_MAX_RANK; i++) order[i] = rank - 1 - i;
    return layout_ranked(a, rank, shape, order, why);
}

const Layout *layout_local(Arena *a, int rank, const int64_t *shape, const char **why)
{
    return new_layout(a, LAYOUT_LOCAL, rank, shape, NULL, NULL, why);
}

const Layout *layout_compose(Arena *a, const Layout *outer, const Layout *inner, const char **why)
{
    if (inner->kind == LAYOUT_COMPOSE) {
        outer = layout_compose(a, outer, inner->outer, why);
        return outer ? layout_compose(a, outer, inner->inner, why) : NULL;
    }
    if (outer->rank != inner->rank)
        return refuse(why,
                      arena_printf(a, "a layout of %d dimensions cannot be composed with one of %d",
                                   outer->rank, inner->rank));
    int64_t shape[LAYOUT_MAX_RANK];
    for (int i = 0; i < outer->rank; i++)
        if (!mul_i64(outer->shape[i], inner->shape[i], &shape[i])) return refuse(why, too_large);
    Layout *l = new_layout(a, LAYOUT_COMPOSE, outer->rank, shape, outer, inner, why);
    if (!l) return NULL;
    if (!mul_i64(outer->size, inner->size, &l->size)) return refuse(why, too_large);
    return l;
}

const Layout *layout_concat(Arena *a, const Layout *head, const Layout *tail, const char **why)
{
    if (tail->kind == LAYOUT_CONCAT) {
        head = layout_concat(a, head, tail->outer, why);
        return head ? layout_concat(a, head, tail->inner, why) : NULL;
    }
    int64_t shape[2 * LAYOUT_MAX_RANK];
    memcpy(shape, head->shape, sizeof head->shape);
    memcpy(shape + head->rank, tail->shape, sizeof tail->shape);
    Layout *l = new_layout(a, LAYOUT_CONCAT, head->rank + tail->rank, shape, head, tail, why);
    if (!l) return NULL;
    if (!mul_i64(head->size, tail->size, &l->size)) return refuse(why, too_large);
    return l;
}

const Layout *layout_swizzle(Arena *a, const Layout *base, int dim, int by, int log_step,
                             const char **why)
{
    int rank = base->rank;
    if (dim < 0 || dim >= rank)
        return refuse(why, arena_printf(a, "there is no dimension %d to swizzle", dim));
    if (by < 0 && rank == 2) by = 1 - dim;
    if (by < 0 || by >= rank || by == dim)
        return refuse(why, "a swizzle needs another dimension to be swizzled by");
    if (log_step < 0 || log_step > 62)
        return refuse(why, arena_printf(a, "a swizzle step of 2**%d makes no sense", log_step));
    if (base->shape[dim] & (base->shape[dim] - 1))
        return refuse(why,
                      arena_printf(a, "extent %lld of the swizzled dimension is no power of two",
                                   (long long)base->shape[dim]));
    Layout *l = new_layout(a, LAYOUT_SWIZZLE, rank, base->shape, base, NULL, why);
    if (!l) return NULL;
    l->dim = dim;
    l->by = by;
    l->log_step = log_step;
    return l;
}

const Layout *layout_permute(Arena *a, const Layout *base, const int *perm, const char **why)
{
    if (!is_permutation(base->rank, perm))
        return refuse(why, arena_printf(a, "this is no permutation of 0 to %d", base->rank - 1));
    int64_t shape[LAYOUT_MAX_RANK];
    for (int i = 0; i < base->rank; i++) shape[i] = base->shape[perm[i]];
    Layout *l = new_layout(a, LAYOUT_PERMUTE, base->rank, shape, base, NULL, why);
    if (!l) return NULL;
    memcpy(l->perm, perm, (size_t)base->rank * sizeof *perm);
    return l;
}

static int64_t volume_of(const Layout *l)
{
    int64_t volume = 1;
    for (int i = 0; i < l->rank; i++) volume *= l->shape[i];
    return volume;
}

const Layout *layout_reshape(Arena *a, const Layout *base, int rank, const int64_t *shape,
                             const char **why)
{
    Layout *l = new_layout(a, LAYOUT_RESHAPE, rank, shape, base, NULL, why);
    if (!l) return NULL;
    if (volume_of(l) != volume_of(base))
        return refuse(why, arena_printf(a, "%lld elements cannot be reshaped to %lld",
                                        (long long)volume_of(base), (long long)volume_of(l)));
    return l;
}

// Splits index by the extents of the inner part, into its own part and what is left for the outer.
static int64_t compose_index(const Layout *l, const int64_t *index)
{
    int64_t high[LAYOUT_MAX_RANK], low[LAYOUT_MAX_RANK];
    for (int i = 0; i < l->rank; i++) {
        high[i] = index[i] / l->inner->shape[i];
        low[i] = index[i] % l->inner->shape[i];
    }
    return layout_index(l->outer, high) * l->inner->size + layout_index(l->inner, low);
}

static int64_t reshape_index(const Layout *l, const int64_t *index)
{
    int64_t base[LAYOUT_MAX_RANK], linear = 0;
    for (int i = 0; i < l->rank; i++) linear = linear * l->shape[i] + index[i];
    for (int i = l->outer->rank - 1; i >= 0; i--) {
        base[i] = linear % l->outer->shape[i];
        linear /= l->outer->shape[i];
    }
    return layout_index(l->outer, base);
}

int64_t layout_index(const Layout *l, const int64_t *index)
{
    int64_t base[LAYOUT_MAX_RANK], sum = 0;
    switch (l->kind) {
    case LAYOUT_STRIDED:
        for (int i = 0; i < l->rank; i++) sum += index[i] * l->stride[i];
        return sum;
    case LAYOUT_LOCAL: return 0;
    case LAYOUT_COMPOSE: return compose_index(l, index);
    case LAYOUT_CONCAT:
        return layout_index(l->outer, index) * l->inner->size +
               layout_index(l->inner, index + l->outer->rank);
    case LAYOUT_SWIZZLE:
        memcpy(base, index, (size_t)l->rank * sizeof *index);
        base[l->dim] ^= (index[l->by] >> l->log_step) & (l->shape[l->dim] - 1);
        return layout_index(l->outer, base);
    case LAYOUT_PERMUTE:
        for (int i = 0; i < l->rank; i++) base[l->perm[i]] = index[i];
        return layout_index(l->outer, base);
    case LAYOUT_RESHAPE: return reshape_index(l, index);
    }
    BUG("unknown layout kind %d", l->kind);
}

static bool injective_by_enumeration(const Layout *l)
{
    int64_t volume = volume_of(l), index[LAYOUT_MAX_RANK] = {0};
    if (volume > l->size || l->size > (int64_t)1 << 20) return false;
    Arena scratch = {0};
    uint8_t *seen = NEW_ARRAY(&scratch, uint8_t, l->size);
    bool injective = true;
    for (int64_t n = 0; n < volume && injective; n++) {
        int64_t at = layout_index(l, index);
        injective = !seen[at];
        seen[at] = 1;
        for (int i = l->rank - 1; i >= 0 && ++index[i] == l->shape[i]; i--) index[i] = 0;
    }
    arena_free(&scratch);
    return injective;
}

// If, from the smallest stride up, every stride exceeds all that the smaller ones can reach, two
// elements never meet. Strides that interleave need a closer look.
static bool strided_injective(const Layout *l)
{
    bool done[LAYOUT_MAX_RANK] = {0};
    int64_t reach = 0;
    for (;;) {
        int next = -1;
        for (int i = 0; i < l->rank; i++)
            if (!done[i] && l->shape[i] > 1 && (next < 0 || l->stride[i] < l->stride[next]))
                next = i;
        if (next < 0) return true;
        if (l->stride[next] == 0) return false;
        if (l->stride[next] <= reach) return injective_by_enumeration(l);
        reach += (l->shape[next] - 1) * l->stride[next];
        done[next] = true;
    }
}

bool layout_injective(const Layout *l)
{
    switch (l->kind) {
    case LAYOUT_STRIDED: return strided_injective(l);
    case LAYOUT_LOCAL: return volume_of(l) == 1;
    case LAYOUT_COMPOSE:
    case LAYOUT_CONCAT: return layout_injective(l->outer) && layout_injective(l->inner);
    case LAYOUT_SWIZZLE:
    case LAYOUT_PERMUTE:
    case LAYOUT_RESHAPE: return layout_injective(l->outer);
    }
    BUG("unknown layout kind %d", l->kind);
}

bool layout_equal(const Layout *a, const Layout *b)
{
    if (a == b) return true;
    if (!a || !b || a->kind != b->kind || a->rank != b->rank || a->size != b->size ||
        a->nparts != b->nparts || a->dim != b->dim || a->by != b->by || a->log_step != b->log_step)
        return false;
    for (int i = 0; i < a->rank; i++)
        if (a->shape[i] != b->shape[i] || a->stride[i] != b->stride[i] || a->perm[i] != b->perm[i])
            return false;
    return layout_equal(a->outer, b->outer) && layout_equal(a->inner, b->inner);
}

static void print_list(Buf *out, int n, const int64_t *list)
{
    for (int i = 0; i < n; i++) buf_printf(out, "%s%lld", i ? ", " : "", (long long)list[i]);
}

static void print_strided(const Layout *l, Buf *out)
{
    int64_t row = 1, column = 1;
    bool is_row = true, is_column = true;
    for (int i = 0; i < l->rank; i++) {
        int back = l->rank - 1 - i;
        is_column = is_column && l->stride[i] == column;
        is_row = is_row && l->stride[back] == row;
        column *= l->shape[i];
        row *= l->shape[back];
    }
    buf_puts(out, is_row ? "row_major(" : is_column ? "column_major(" : "strided(");
    print_list(out, l->rank, l->shape);
    if (!is_row && !is_column) {
        buf_puts(out, "; strides: (");
        print_list(out, l->rank, l->stride);
        buf_puts(out, l->rank == 1 ? ",)" : ")");
    }
    buf_putc(out, ')');
}

static void print_part(const Layout *l, bool wrap, Buf *out)
{
    if (wrap) buf_putc(out, '(');
    layout_print(l, out);
    if (wrap) buf_putc(out, ')');
}

static void print_derived(const Layout *l, Buf *out)
{
    print_part(l->outer, l->outer->kind == LAYOUT_COMPOSE || l->outer->kind == LAYOUT_CONCAT, out);
    if (l->kind == LAYOUT_SWIZZLE) {
        buf_printf(out, ".swizzle(%d", l->dim);
        if (l->rank != 2) buf_printf(out, "; by: %d", l->by);
        if (l->log_step) buf_printf(out, "%s log_step: %d", l->rank != 2 ? "," : ";", l->log_step);
    } else if (l->kind == LAYOUT_PERMUTE) {
        for (int i = 0; i < l->rank; i++)
            buf_printf(out, "%s%d", i ? ", " : ".permute(", l->perm[i]);
    } else {
        buf_puts(out, ".reshape(");
        print_list(out, l->rank, l->shape);
    }
    buf_putc(out, ')');
}

void layout_print(const Layout *l, Buf *out)
{
    switch (l->kind) {
    case LAYOUT_STRIDED: print_strided(l, out); break;
    case LAYOUT_LOCAL:
        buf_puts(out, "local(");
        print_list(out, l->rank, l->shape);
        buf_putc(out, ')');
        break;
    case LAYOUT_COMPOSE:
        print_part(l->outer, l->outer->kind == LAYOUT_CONCAT, out);
        buf_puts(out, " * ");
        print_part(l->inner, l->inner->kind == LAYOUT_CONCAT, out);
        break;
    case LAYOUT_CONCAT:
        layout_print(l->outer, out);
        buf_puts(out, " + ");
        layout_print(l->inner, out);
        break;
    case LAYOUT_SWIZZLE:
    case LAYOUT_PERMUTE:
    case LAYOUT_RESHAPE: print_derived(l, out); break;
    }
}
