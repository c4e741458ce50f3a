// SPDX-License-Identifier: Apache-2.0
// Fragments of mma: which lane holds what, and which operands are legal.
#include "ir/fragment.h"

#include <math.h>

static const struct {
    DType ab, c;
    const char *name;
} mma_types[] = {
    {DT_F16, DT_F32, "f16"}, {DT_BF16, DT_F32, "bf16"}, {DT_F32, DT_F32, "tf32"},
    {DT_I8, DT_I32, "s8"},   {DT_U8, DT_I32, "u8"},     {DT_U8, DT_F32, "e4m3"},
    {DT_I8, DT_F32, "e5m2"},
};

const char *fragment_mma_type(DType ab, DType c)
{
    for (size_t i = 0; i < COUNT(mma_types); i++)
        if (mma_types[i].ab == ab && mma_types[i].c == c) return mma_types[i].name;
    return NULL;
}

double fragment_f8(DType ab, int64_t bits)
{
    int mantissa = ab == DT_U8 ? 3 : 2, bias = ab == DT_U8 ? 7 : 15, top = ab == DT_U8 ? 15 : 31;
    int e = (int)(bits >> mantissa) & top, m = (int)bits & ((1 << mantissa) - 1);
    double sign = bits >> 7 & 1 ? -1 : 1;
    if (e == top && ab == DT_U8 && m == 7) return NAN;
    if (e == top && ab == DT_I8) return m ? NAN : sign * INFINITY;
    return sign * ldexp(m + (e ? 1 << mantissa : 0), (e ? e : 1) - bias - mantissa);
}

Fragment fragment_of(FragmentKind kind, DType ab)
{
    int pack = 4 / (int)dtype_size(ab);
    switch (kind) {
    case FRAGMENT_A: return (Fragment){kind, {16, 8 * pack}, 4 * pack, pack, 1};
    case FRAGMENT_B: return (Fragment){kind, {8 * pack, 8}, 2 * pack, pack, 0};
    default: return (Fragment){kind, {16, 8}, 4, 1, 1};
    }
}

void fragment_task(const Fragment *f, int lane, int task, int64_t index[2])
{
    int across = lane / 4, r = task / f->pack, part = (lane % 4) * f->pack + task % f->pack;
    switch (f->kind) {
    case FRAGMENT_A:
        index[0] = across + 8 * (r % 2);
        index[1] = part + r / 2 * 4 * f->pack;
        break;
    case FRAGMENT_B:
        index[0] = part + r * 4 * f->pack;
        index[1] = across;
        break;
    case FRAGMENT_C:
        index[0] = across + 8 * (task / 2);
        index[1] = lane % 4 * 2 + task % 2;
        break;
    }
}

// Extents, workers and tasks of the last parts of m are the fragment's.
static bool has_part(const Mapping *m, const Fragment *f)
{
    int64_t rows = 1, columns = 1, workers = 1, tasks = 1;
    for (;; m = m->outer) {
        const Mapping *part = m->kind == MAP_COMPOSE ? m->inner : m;
        rows *= part->shape[0];
        columns *= part->shape[1];
        workers *= part->nworker;
        tasks *= part->ntask;
        if (rows == f->shape[0] && columns == f->shape[1] && workers == FRAGMENT_LANES)
            return tasks == f->ntask;
        if (m->kind != MAP_COMPOSE || rows > f->shape[0] || columns > f->shape[1]) return false;
    }
}

bool fragment_fits(const Mapping *m, const Fragment *f)
{
    int64_t index[MAPPING_MAX_RANK], want[2];
    if (m->rank != 2 || m->nworker < FRAGMENT_LANES || m->ntask < f->ntask || !has_part(m, f))
        return false;
    for (int lane = 0; lane < FRAGMENT_LANES; lane++) {
        for (int task = 0; task < f->ntask; task++) {
            if (!mapping_task(m, lane, task, index)) return false;
            fragment_task(f, lane, task, want);
            if (index[0] % f->shape[0] != want[0] || index[1] % f->shape[1] != want[1])
                return false;
        }
    }
    return true;
}

bool fragment_of_matrices(const Buffer *b, Fragment *out)
{
    if (dtype_size(b->type) != 2 || !b->over) return false;
    for (int kind = FRAGMENT_A; kind <= FRAGMENT_C; kind++) {
        *out = fragment_of((FragmentKind)kind, b->type);
        if (fragment_fits(b->over, out)) return true;
    }
    return false;
}

int fragment_own_operand(const Intrinsic *intr)
{
    switch (intrinsic_id(intr)) {
    case INTR_LDMATRIX:
    case INTR_LDMATRIX_ROWS: return 0;
    case INTR_STMATRIX:
    case INTR_STMATRIX_ROWS: return 1;
    default: return -1;
    }
}

// ---- legal operands

// The known length of index i, -1 where it is not known.
static int64_t length(const Node *ref, int i)
{
    const Node *index = ref->kid[i];
    if (index->kind != N_SPAN) return 1;
    return index->kid[KID_SPAN_len]->kind == N_INT ? index->kid[KID_SPAN_len]->u.i : -1;
}

static const char *mma_operand(Arena *a, const Node *ref, FragmentKind kind, DType ab)
{
    Fragment f = fragment_of(kind, ab);
    const Buffer *b = ref->u.buf;
    const char *name = &"a\0b\0c"[2 * kind];
    if (b->space != SPACE_LOCAL) return arena_printf(a, "mma: %s is not in local memory", name);
    if (!b->over)
        return NREST((Node *)ref) == 1 && length(ref, 0) == f.ntask
                   ? NULL
                   : arena_printf(a, "mma: %s is %d elements of a thread", name, f.ntask);
    if (!fragment_fits(b->over, &f))
        return arena_printf(a,
                            "mma: the innermost part of the mapping that holds %s is not the "
                            "fragment of (%lld, %lld)",
                            name, (long long)f.shape[0], (long long)f.shape[1]);
    for (int i = 0; i < 2; i++)
        if (length(ref, i) != f.shape[i])
            return arena_printf(a, "mma: %s is a region of (%lld, %lld)", name,
                                (long long)f.shape[0], (long long)f.shape[1]);
    return NULL;
}

static const char *mma_wrong(Arena *a, const Node *n)
{
    const Buffer *c = n->kid[0]->u.buf, *x = n->kid[1]->u.buf, *y = n->kid[2]->u.buf;
    if (x->type != y->type || !fragment_mma_type(x->type, c->type))
        return arena_printf(a, "mma is not defined on %s times %s plus %s", dtypes[x->type].name,
                            dtypes[y->type].name, dtypes[c->type].name);
    const char *wrong = mma_operand(a, n->kid[0], FRAGMENT_C, x->type);
    if (!wrong) wrong = mma_operand(a, n->kid[1], FRAGMENT_A, x->type);
    return wrong ? wrong : mma_operand(a, n->kid[2], FRAGMENT_B, x->type);
}

// The lengths of the two spans among the indices of a place.
static bool two_spans(const Node *ref, int64_t out[2])
{
    int n = 0;
    for (int i = 0; i < NREST((Node *)ref); i++) {
        if (ref->kid[i]->kind != N_SPAN) continue;
        if (n == 2) return false;
        out[n++] = length(ref, i);
    }
    return n == 2;
}

static const char *matrices_wrong(Arena *a, const Node *n)
{
    const char *name = n->u.intr->name;
    int which = fragment_own_operand(n->u.intr);
    const Node *own = n->kid[which], *shared = n->kid[1 - which];
    int64_t size[2], there[2];
    Fragment f;
    if (own->u.buf->space != SPACE_LOCAL || shared->u.buf->space != SPACE_SHARED ||
        own->u.buf->type != shared->u.buf->type)
        return arena_printf(a, "%s copies %s memory of the same type", name,
                            which ? "from local to shared" : "from shared to local");
    if (!fragment_of_matrices(own->u.buf, &f))
        return arena_printf(a,
                            "%s: '%s' is not over a mapping whose innermost part is a fragment of "
                            "16-bit elements",
                            name, own->u.buf->name);
    if (!two_spans(own, size) || !two_spans(shared, there) || size[0] != there[0] ||
        size[1] != there[1])
        return arena_printf(a, "%s copies a region of two axes to one of the same extents", name);
    for (int i = 0; i < 2; i++)
        if (size[i] < 1 || size[i] % f.shape[i])
            return arena_printf(a, "%s: a region of whole fragments, of (%lld, %lld)", name,
                                (long long)f.shape[0], (long long)f.shape[1]);
    return NULL;
}

static const char *rows_wrong(Arena *a, const Node *n)
{
    const char *name = n->u.intr->name;
    int which = fragment_own_operand(n->u.intr);
    const Node *own = n->kid[which], *shared = n->kid[1 - which], *turned = n->kid[2];
    int64_t count = length(own, NREST((Node *)own) - 1);
    if (own->u.buf->space != SPACE_LOCAL || own->u.buf->over || NREST((Node *)own) != 1 ||
        shared->u.buf->space != SPACE_SHARED || own->u.buf->type != shared->u.buf->type ||
        dtype_size(own->u.buf->type) != 2)
        return arena_printf(
            a, "%s copies 16-bit elements between shared memory and the thread's own", name);
    if (count != 2 && count != 4 && count != 8)
        return arena_printf(a, "%s: a thread has 2, 4 or 8 elements", name);
    for (int i = 0; i < NREST((Node *)shared); i++)
        if (shared->kid[i]->kind == N_SPAN && length(shared, i) != LDMATRIX_ROW)
            return arena_printf(a, "%s: a row has 8 elements", name);
    return turned->kind == N_INT ? NULL : arena_printf(a, "%s: turned or not must be known", name);
}

const char *fragment_wrong(Arena *a, const Node *n)
{
    switch (intrinsic_id(n->u.intr)) {
    case INTR_MMA: return mma_wrong(a, n);
    case INTR_LDMATRIX:
    case INTR_STMATRIX: return matrices_wrong(a, n);
    case INTR_LDMATRIX_ROWS:
    case INTR_STMATRIX_ROWS: return rows_wrong(a, n);
    default: return NULL;
    }
}
