// SPDX-License-Identifier: Apache-2.0
// Where elements lie. An op that only moves elements, applied to memory, is evaluated at an index
// and gives one load: its index is the element's place. So what was moved is stored to, copied
// asynchronously and asked for its alignment where it lies.
#include "lang/eval.h"

// The load that gives the element of t at an index; NULL: it is computed.
static bool element_load(Eval *e, Loc loc, Tensor *t, int n, const Value *index, const Node **load)
{
    Value v;
    bool guarded = e->guard_leaves;
    *load = NULL;
    e->guard_leaves = false;
    bool ok = tensor_load(e, loc, t, n, index, &v);
    e->guard_leaves = guarded;
    if (ok && v.kind == V_EXPR && v.u.expr->kind == N_LOAD) *load = v.u.expr;
    return ok;
}

// Output k of an epilogue at an index.
bool output_store(Eval *e, Loc loc, const Epilogue *ep, int k, int n, const Value *index, Value v,
                  int guard)
{
    Tensor *place = ep->place ? ep->place[k] : NULL;
    const Node *load;
    Value at[EVAL_MAX_RANK];
    if (!place) return memory_store_guarded(e, loc, ep->memory[k], n, index, v, guard);
    if (!element_load(e, loc, place, n, index, &load)) return false;
    ASSERT(load && load->u.buf == ep->memory[k]);
    for (uint32_t i = 0; i < load->nkid; i++) at[i] = value_expr(load->kid[i]);
    return memory_store_guarded(e, loc, ep->memory[k], (int)load->nkid, at, v, guard);
}

// ---- moves as wholes: elements at an index of names

typedef struct Probe {
    const Node *load; // NULL: elements are computed, or found only by statements
    Var *at[EVAL_MAX_RANK];
} Probe;

static Probe probe(Eval *e, Tensor *t)
{
    Kernel *k = e->kernel;
    int next_id = k->next_id, shared = e->shared.n;
    Stmts *saved = e->out;
    Value at[EVAL_MAX_RANK];
    Probe p = {0};
    e->out = NEW(e->arena, Stmts);
    for (int i = 0; i < t->rank; i++) {
        p.at[i] = kernel_var(k, "i", DT_I64, false);
        at[i] = value_expr(node_var(e->arena, 0, p.at[i]));
    }
    if (!t->producer || !element_load(e, 0, t, t->rank, at, &p.load) || e->out->list.n)
        p.load = NULL;
    e->out = saved;
    k->next_id = next_id;
    e->shared.n = shared;
    return p;
}

// Whether axis `v` of an index is found whole or divided in a place: outside it is outside there.
static bool keeps_axis(const Node *load, const Var *v)
{
    for (uint32_t i = 0; i < load->nkid; i++) {
        const Node *x = load->kid[i];
        bool divided = x->kind == N_DIV && x->kid[1]->kind == N_INT && x->kid[1]->u.i > 0;
        if (divided) x = x->kid[0];
        if (x->kind == N_VARREF && x->u.var == v) return true;
    }
    return false;
}

bool instance_places(Instance *in, Tensor *t)
{
    Probe p = probe(in->eval, t);
    bool ok = p.load != NULL;
    for (int i = 0; ok && i < t->rank; i++) ok = keeps_axis(p.load, p.at[i]);
    return ok;
}

static bool mentions(const Node *x, const Var *v)
{
    if (x->kind == N_VARREF && x->u.var == v) return true;
    for (uint32_t i = 0; i < x->nkid; i++)
        if (x->kid[i] && mentions(x->kid[i], v)) return true;
    return false;
}

// x = v + rest, once: the largest power of two that divides the rest is in *divisor.
static bool is_shifted(const Node *x, const Var *v, int *times, int64_t *divisor)
{
    if (x->kind == N_ADD)
        return is_shifted(x->kid[0], v, times, divisor) && is_shifted(x->kid[1], v, times, divisor);
    if (x->kind == N_VARREF && x->u.var == v) {
        ++*times;
        return true;
    }
    int64_t d = node_divisor(x);
    *divisor = min_i64(*divisor, d & -d);
    return !mentions(x, v);
}

// Neighbours along the last axis are neighbours in memory: elements from a multiple of *run on, to
// the next, lie together at a multiple of *run in a row of `load`.
static bool keeps_rows(const Node *load, const Var *last, int64_t *run)
{
    int times = 0;
    *run = INT64_C(1) << 62;
    for (uint32_t i = 0; i + 1 < load->nkid; i++)
        if (mentions(load->kid[i], last)) return false;
    return load->nkid && is_shifted(load->kid[load->nkid - 1], last, &times, run) && times == 1;
}

bool instance_keeps_rows(Instance *in, Tensor *t)
{
    int64_t run;
    Probe p = t->rank ? probe(in->eval, t) : (Probe){0};
    return p.load && keeps_rows(p.load, p.at[t->rank - 1], &run);
}

// Whether `elements`, a number that may be large, are a multiple of n bytes.
static bool divides(int64_t elements, int64_t size, int64_t n)
{
    return elements % n == 0 || elements * size % n == 0;
}

static bool rows_aligned(const Buffer *b, int64_t bytes)
{
    int64_t size = (int64_t)dtype_size(b->type);
    if (b->layout || max_i64(b->align_bytes, size) % bytes) return false;
    return b->rank < 2 || divides(node_divisor(b->extent[b->rank - 1]), size, bytes);
}

bool tensor_aligned(Eval *e, Tensor *t, int64_t bytes)
{
    int64_t run, size = (int64_t)dtype_size(t->type);
    Node *extent;
    if (t->buf) return rows_aligned(t->buf, bytes);
    Probe p = t->rank ? probe(e, t) : (Probe){0};
    return p.load && rows_aligned(p.load->u.buf, bytes) &&
           keeps_rows(p.load, p.at[t->rank - 1], &run) && divides(run, size, bytes) &&
           eval_index(e, 0, t->dims[t->rank - 1], &extent) &&
           divides(node_divisor(extent), size, bytes);
}

// ---- places as arguments

// The index of t's element as that of the memory behind it; a span is the last.
static bool moved_index(Eval *e, Loc loc, Tensor *t, Value *index, Buffer **buf)
{
    const Node *load;
    Value at[EVAL_MAX_RANK], span = value_none();
    int n = index->u.tuple.n;
    if (!tensor_check_rank(e, loc, t->name, t->rank, n)) return false;
    for (int i = 0; i < n; i++) {
        at[i] = index->u.tuple.at[i];
        if (at[i].kind != V_RANGE) continue;
        int64_t len = 0;
        span = at[i];
        at[i] = *span.u.range.lo;
        if (i != n - 1 || !eval_int(e, loc, *span.u.range.hi, "the length of a span", &len) ||
            len < 1 || !tensor_aligned(e, t, len * (int64_t)dtype_size(t->type)))
            return true;
    }
    if (!element_load(e, loc, t, n, at, &load) || !load) return load == NULL;
    *buf = load->u.buf;
    *index = value_tuple(e->arena, (int)load->nkid, NULL);
    for (uint32_t i = 0; i < load->nkid; i++) index->u.tuple.at[i] = value_expr(load->kid[i]);
    if (span.kind != V_RANGE) return true;
    Value *last = &index->u.tuple.at[load->nkid - 1], *lo = NEW(e->arena, Value);
    *lo = *last;
    *last = span;
    last->u.range.lo = lo;
    return true;
}

bool eval_ref(Eval *e, Node *place, Node **out)
{
    Value base, index = value_tuple(e->arena, 0, NULL);
    Node *b = place->kind == N_INDEX ? KID(place, INDEX, base) : place;
    if (!eval_expr(e, b, &base)) return false;
    if (place->kind == N_INDEX && !eval_indices(e, place, base, &index)) return false;
    Buffer *buf = base.kind == V_MEMORY   ? base.u.mem
                  : base.kind == V_TENSOR ? base.u.tensor->buf
                                          : NULL;
    if (!buf && base.kind == V_TENSOR && !moved_index(e, place->loc, base.u.tensor, &index, &buf))
        return false;
    if (!buf && base.kind == V_TENSOR)
        return eval_fail(e, place->loc,
                         "'%s' has no such place: it is computed, or moved in smaller pieces",
                         base.u.tensor->name);
    if (!buf)
        return eval_fail(e, place->loc, "a place in memory is needed here, found %s",
                         value_kind_name(base.kind));
    if (!tensor_check_rank(e, place->loc, buf->name, buf->rank, index.u.tuple.n)) return false;
    Node *ref = node_new(e->arena, N_REF, place->loc, index.u.tuple.n);
    ref->u.buf = buf;
    ref->type = (uint8_t)buf->type;
    ref->lanes = 1;
    for (int i = 0; i < index.u.tuple.n; i++) {
        Value v = index.u.tuple.at[i];
        if (v.kind != V_RANGE) {
            if (!eval_index(e, place->loc, v, &ref->kid[i])) return false;
            continue;
        }
        Node *span = node_new(e->arena, N_SPAN, place->loc, 2);
        if (!eval_index(e, place->loc, *v.u.range.lo, &span->kid[0]) ||
            !eval_index(e, place->loc, *v.u.range.hi, &span->kid[1]))
            return false;
        span->type = DT_I64;
        span->lanes = 1;
        ref->kid[i] = span;
    }
    *out = ref;
    return true;
}
