// SPDX-License-Identifier: Apache-2.0
// Operands of mma, ldmatrix and stmatrix by what a thread has of them. A region of a buffer over a
// fragment becomes a run of the thread's plain buffer; the region of shared memory becomes one row
// of 8 for each lane, whose coordinates are sums of bits of the lane.
#include "ir/fragment.h"
#include "passes/pass.h"

typedef struct Lowering {
    PassContext *c;
    Map *plain;
    const Map *index_of;
} Lowering;

static Node *region_start(const Lowering *w, Node *ref, int i)
{
    Arena *a = w->c->kernel->arena;
    Node *index = REST(ref)[i];
    return arith_fold(
        a, node_subst(a, index->kind == N_SPAN ? index->kid[KID_SPAN_lo] : index, w->index_of));
}

// `count` elements of the thread, those of the region from (row, column) on; NULL with a
// diagnostic.
static Node *owned_run(const Lowering *w, Node *ref, const Fragment *f, int64_t row, int64_t column,
                       int count)
{
    Arena *a = w->c->kernel->arena;
    int64_t by[2] = {row, column};
    Node *index[2], *span, *plain = owner_access(a, w->plain, w->index_of, ref);
    for (int i = 0; i < 2; i++) {
        index[i] = arith_add(a, region_start(w, ref, i), node_i64(a, by[i]));
        if (node_divisor(index[i]) % f->shape[i]) {
            diag_error(w->c->diag, ref->loc,
                       "axis %d of this region does not start at a multiple of the fragment's %lld",
                       i, (long long)f->shape[i]);
            return NULL;
        }
    }
    span = node_make(a, N_SPAN, ref->loc, 2,
                     (Node *[]){owner_task(a, ref->u.buf->over, index), node_i64(a, count)});
    span->type = DT_I64;
    span->lanes = 1;
    Node *run = node_make(a, N_REF, ref->loc, 1, &span);
    run->type = ref->type;
    run->lanes = 1;
    run->u.buf = plain->u.buf;
    return run;
}

static Node *call(Arena *a, Loc loc, IntrinsicId id, Node *const *arg)
{
    Node *n = node_make(a, N_INTRIN, loc, 3, arg), *eval;
    n->u.intr = &intrinsics[id];
    n->type = DT_NONE;
    n->lanes = 1;
    eval = node_make(a, N_EVAL, loc, 1, &n);
    return eval;
}

static Node *lower_mma(const Lowering *w, Node *n)
{
    static const FragmentKind kind[3] = {FRAGMENT_C, FRAGMENT_A, FRAGMENT_B};
    Node *arg[3];
    for (int i = 0; i < 3; i++) {
        Fragment f = fragment_of(kind[i], n->kid[1]->u.buf->type);
        arg[i] = n->kid[i];
        if (!is_owner_buffer(arg[i]->u.buf)) continue;
        arg[i] = owned_run(w, arg[i], &f, 0, 0, f.ntask);
        if (!arg[i]) return NULL;
    }
    return call(w->c->kernel->arena, n->loc, INTR_MMA, arg);
}

// ---- ldmatrix and stmatrix

// Whether 8 elements along an axis, from a multiple of 8 on, always lie side by side and aligned.
static bool rows_along(const Buffer *b, int axis)
{
    int64_t n = 1, index[LAYOUT_MAX_RANK] = {0};
    for (int i = 0; i < b->rank; i++) n *= b->extent[i]->u.i;
    if (b->extent[axis]->u.i % LDMATRIX_ROW) return false;
    if (!b->layout) return axis == b->rank - 1;
    for (int64_t e = 0; e < n; e++) {
        int64_t place = index[axis] % LDMATRIX_ROW, at = layout_index(b->layout, index);
        index[axis] -= place;
        int64_t first = layout_index(b->layout, index);
        index[axis] += place;
        if (at != first + place || first % LDMATRIX_ROW) return false;
        for (int i = b->rank - 1; i >= 0 && ++index[i] == b->extent[i]->u.i; i--) index[i] = 0;
    }
    return true;
}

// v[lane] as an expression: v[0] and a weight for each bit, runs of doubling weights together.
static Node *of_lane(Arena *a, Node *lane, const int64_t v[FRAGMENT_LANES])
{
    int64_t weight[5];
    Node *sum = node_i64(a, v[0]);
    for (int b = 0; b < 5; b++) weight[b] = v[1 << b] - v[0];
    for (int l = 0; l < FRAGMENT_LANES; l++) {
        int64_t s = v[0];
        for (int b = 0; b < 5; b++) s += (l >> b & 1) * weight[b];
        ASSERT(s == v[l]);
    }
    for (int b = 0, n; b < 5; b += n) {
        for (n = 1; b + n < 5 && weight[b + n] == 2 * weight[b + n - 1] && weight[b]; n++) continue;
        Node *bits = arith_mod(a, arith_div(a, lane, (int64_t)1 << b), (int64_t)1 << n);
        if (weight[b]) sum = arith_add(a, sum, arith_mul(a, bits, node_i64(a, weight[b])));
    }
    return sum;
}

typedef struct Tile { // fragments that one instruction copies, at these places of the region
    int64_t at[2][2];
    int n;
} Tile;

// The row that each lane names, in coordinates of the region.
static void lane_rows(const Fragment *f, const Tile *t, bool turned, int64_t row[2][FRAGMENT_LANES])
{
    int matrices = f->ntask / 2;
    for (int l = 0; l < FRAGMENT_LANES; l++) {
        int64_t at[2];
        int q = l / LDMATRIX_ROW % (matrices * t->n), r = l % LDMATRIX_ROW, task = q % matrices * 2;
        if (turned) fragment_task(f, r / 2, task + r % 2, at);
        else fragment_task(f, 4 * r, task, at);
        for (int i = 0; i < 2; i++) row[i][l] = at[i] + t->at[q / matrices][i];
    }
}

static Node *lane_row(const Lowering *w, Node *shared, const int axis[2], int along, Node *lane,
                      int64_t row[2][FRAGMENT_LANES])
{
    Arena *a = w->c->kernel->arena;
    Node *ref = arena_copy(a, shared, sizeof *shared + shared->nkid * sizeof(Node *));
    for (int i = 0; i < 2; i++) {
        Node **index = &REST(ref)[axis[i]];
        *index = arith_add(a, KID(*index, SPAN, lo), of_lane(a, lane, row[i]));
        if (axis[i] != along) continue;
        *index =
            node_make(a, N_SPAN, shared->loc, 2, (Node *[]){*index, node_i64(a, LDMATRIX_ROW)});
        (*index)->type = DT_I64;
        (*index)->lanes = 1;
    }
    return ref;
}

// The number among a thread's tasks of the first element of the fragment at `at`.
static int64_t first_task(const Mapping *m, const int64_t at[2])
{
    int64_t index[MAPPING_MAX_RANK];
    for (int64_t t = 0; t < m->ntask; t++)
        if (mapping_task(m, 0, t, index) && index[0] == at[0] && index[1] == at[1]) return t;
    return -1;
}

// The two axes of the shared region, and the one of them along which rows of 8 lie; -1 with a
// diagnostic.
static int find_axes(const Lowering *w, const Node *n, Node *shared, int axis[2])
{
    int count = 0, along = -1;
    for (int i = 0; i < NREST(shared); i++)
        if (REST(shared)[i]->kind == N_SPAN) axis[count++] = i;
    for (int i = 1; i >= 0 && along < 0; i--)
        if (rows_along(shared->u.buf, axis[i])) along = axis[i];
    if (along >= 0 && node_divisor(KID(REST(shared)[along], SPAN, lo)) % LDMATRIX_ROW == 0)
        return along;
    diag_error(w->c->diag, shared->loc,
               "%s: rows of 8 elements of '%s' do not lie side by side and aligned",
               n->u.intr->name, shared->u.buf->name);
    return -1;
}

static Node *lower_matrices(const Lowering *w, Node *n)
{
    Arena *a = w->c->kernel->arena;
    int which = fragment_own_operand(n->u.intr), axis[2];
    Node *own = n->kid[which], *shared = n->kid[1 - which];
    const Mapping *over = own->u.buf->over;
    Fragment f;
    int64_t size[2], row[2][FRAGMENT_LANES];
    if (!fragment_of_matrices(own->u.buf, &f)) return NULL;
    int along = find_axes(w, n, shared, axis);
    if (along < 0) return NULL;
    for (int i = 0; i < 2; i++) size[i] = KID(REST(own)[i], SPAN, len)->u.i;
    bool turned = along != axis[f.along];
    Node *lane = arith_mod(a, own->u.buf->over_worker, FRAGMENT_LANES);
    Statements s = {.arena = a};
    int64_t rows = size[0] / f.shape[0], columns = size[1] / f.shape[1], total = rows * columns;
    for (int64_t k = 0; k < total;) {
        Tile t = {.n = 1};
        for (int g = 0; g < 2; g++) {
            t.at[g][0] = (k + g) / columns * f.shape[0];
            t.at[g][1] = (k + g) % columns * f.shape[1];
        }
        bool joined = k + 1 < total && f.ntask * 2 <= 2 * LDMATRIX_MAX &&
                      first_task(over, t.at[0]) + f.ntask == first_task(over, t.at[1]);
        if (joined) t.n = 2;
        lane_rows(&f, &t, turned, row);
        Node *arg[3] = {NULL, NULL, node_i64(a, turned)};
        arg[which] = owned_run(w, own, &f, t.at[0][0], t.at[0][1], f.ntask * t.n);
        arg[1 - which] = lane_row(w, shared, axis, along, lane, row);
        if (!arg[which]) return NULL;
        statements_add(&s, call(a, n->loc, which ? INTR_STMATRIX_ROWS : INTR_LDMATRIX_ROWS, arg));
        k += t.n;
    }
    return statements_seq(&s, n->loc);
}

Node *fragments_lower(PassContext *c, Map *plain, const Map *index_of, Node *stmt)
{
    Lowering w = {.c = c, .plain = plain, .index_of = index_of};
    Node *n = stmt->kid[0], *lowered = NULL;
    if (stmt->kind != N_EVAL || n->kind != N_INTRIN) return stmt;
    IntrinsicId id = intrinsic_id(n->u.intr);
    if (id == INTR_MMA) lowered = lower_mma(&w, n);
    bool matrices = id == INTR_LDMATRIX || id == INTR_STMATRIX;
    if (matrices && is_owner_buffer(n->kid[fragment_own_operand(n->u.intr)]->u.buf))
        lowered = lower_matrices(&w, n);
    return lowered ? lowered : stmt;
}
