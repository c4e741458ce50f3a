// SPDX-License-Identifier: Apache-2.0
// Vector expressions, with the vector extensions of gcc and clang. A bool vector is a mask of i32
// lanes, 0 or -1. Where a mask is a range of lanes, it stays two numbers.
#include "codegen/emit.h"
#include "passes/arith.h"

static int lanes_of(const Node *n)
{
    return n->lanes;
}

static void call1(Emit *e, const char *f, const Node *x)
{
    buf_printf(e->out, "%s(", f);
    emit_vector(e, x);
    buf_putc(e->out, ')');
}

static void call2(Emit *e, const char *f, const Node *x, const Node *y)
{
    buf_printf(e->out, "%s(", f);
    emit_vector(e, x);
    buf_puts(e->out, ", ");
    emit_vector(e, y);
    buf_putc(e->out, ')');
}

// ---- masks that are ranges of lanes

static Node *minus(Emit *e, Node *x, Node *y)
{
    return node_fold(e->arena, node_binary(e->arena, N_SUB, x, y));
}

static Node *one_of(Node *x)
{
    return x->kind == N_BROADCAST ? x->kid[0] : x;
}

static bool is_rising(const Node *x)
{
    return x->kind == N_RAMP && x->u.i >= 1 && x->type == DT_I64;
}

// The lanes l with l * step >= distance are those from here on.
static Node *first_lane(Emit *e, Node *distance, int64_t step)
{
    Arena *a = e->arena;
    if (step == 1) return distance;
    Node *up = node_fold(a, node_binary(a, N_ADD, distance, node_i64(a, step - 1)));
    return node_fold(a, node_binary(a, N_DIV, up, node_i64(a, step)));
}

static Node *one_more(Emit *e, Node *x)
{
    return node_fold(e->arena, node_binary(e->arena, N_ADD, x, node_i64(e->arena, 1)));
}

static bool comparison_range(Emit *e, const Node *n, Node **lo, Node **hi)
{
    Node *x = n->kid[0], *y = n->kid[1];
    *lo = node_i64(e->arena, 0);
    *hi = node_i64(e->arena, n->lanes);
    if (is_rising(x) && y->kind == N_BROADCAST) { // base + l * step < y
        Node *distance = minus(e, one_of(y), x->kid[0]);
        *hi = first_lane(e, n->kind == N_LE ? one_more(e, distance) : distance, x->u.i);
        return true;
    }
    if (is_rising(y) && x->kind == N_BROADCAST) { // x < base + l * step
        Node *distance = minus(e, one_of(x), y->kid[0]);
        *lo = first_lane(e, n->kind == N_LT ? one_more(e, distance) : distance, y->u.i);
        return true;
    }
    return false;
}

bool emit_mask_range(Emit *e, const Node *mask, Node **lo, Node **hi)
{
    Arena *a = e->arena;
    Node *lo2, *hi2;
    switch (mask->kind) {
    case N_BROADCAST:
        *lo = node_i64(a, 0);
        *hi = node_select(a, mask->kid[0], node_i64(a, mask->lanes), node_i64(a, 0));
        return true;
    case N_LT:
    case N_LE: return comparison_range(e, mask, lo, hi);
    case N_BAND:
    case N_LAND:
        if (!emit_mask_range(e, mask->kid[0], lo, hi) ||
            !emit_mask_range(e, mask->kid[1], &lo2, &hi2))
            return false;
        *lo = node_fold(a, node_binary(a, N_MAX, *lo, lo2));
        *hi = node_fold(a, node_binary(a, N_MIN, *hi, hi2));
        return true;
    default: return false;
    }
}

static void emit_range(Emit *e, const Node *lo, const Node *hi)
{
    emit_scalar(e, lo);
    buf_puts(e->out, ", ");
    emit_scalar(e, hi);
}

// ---- memory

static void address(Emit *e, const Buffer *b, const Node *base)
{
    buf_putc(e->out, '(');
    emit_buffer_name(e, b);
    if (!node_is_const(base, 0)) {
        buf_puts(e->out, " + ");
        emit_scalar(e, base);
    }
    buf_putc(e->out, ')');
}

// What lies between the address and a gather's lanes: their indices.
static void gathered(Emit *e, const char *name, DType t, const Node *n, const Node *index)
{
    buf_printf(e->out, "%s(", emit_helper(e, name, t, lanes_of(index)));
    emit_buffer_name(e, n->u.buf);
    buf_puts(e->out, ", ");
    emit_vector(e, index);
}

static void uniform_load(Emit *e, const Node *n, const Node *base)
{
    DType t = (DType)n->type;
    buf_printf(e->out, "%s(", emit_helper(e, "splat", t, n->lanes));
    if (emit_is_short(t)) buf_puts(e->out, emit_helper(e, "load", t, 1));
    buf_putc(e->out, '(');
    if (e->mask) {
        const Node *mask = e->mask;
        e->mask = NULL;
        call1(e, emit_helper(e, "any", DT_BOOL, n->lanes), mask);
        buf_puts(e->out, " ? ");
        e->mask = mask;
    }
    emit_buffer_name(e, n->u.buf);
    buf_putc(e->out, '[');
    emit_scalar(e, base);
    buf_putc(e->out, ']');
    if (e->mask) buf_puts(e->out, " : 0");
    buf_puts(e->out, "))");
}

// The memory part of a load, without the decoding of f16 and bool.
static void raw_load(Emit *e, const Node *n, Node *index)
{
    DType t = (DType)n->type;
    Node *lo, *hi;
    bool ramp = index->kind == N_RAMP, next = ramp && index->u.i == 1;
    const Node *mask = e->mask;
    bool range = mask && emit_mask_range(e, mask, &lo, &hi);
    e->mask = NULL;
    if (!ramp || (mask && !range && !next)) {
        gathered(e, mask ? "gatherm" : "gather", t, n, index);
    } else {
        const char *name = next ? !mask ? "get" : range ? "getr" : "getm" : mask ? "getsr" : "gets";
        buf_printf(e->out, "%s(", emit_helper(e, name, t, n->lanes));
        address(e, n->u.buf, index->kid[0]);
        if (!next) buf_printf(e->out, ", %lld", (long long)index->u.i);
    }
    if (mask) {
        buf_puts(e->out, ", ");
        if (range && ramp) emit_range(e, lo, hi);
        else emit_vector(e, mask);
    }
    buf_putc(e->out, ')');
    e->mask = mask;
}

static bool is_coded(DType t)
{
    return emit_is_short(t) || t == DT_BOOL;
}

static void vector_load(Emit *e, const Node *n)
{
    DType t = (DType)n->type;
    Node *index = REST((Node *)n)[0];
    if (index->kind == N_BROADCAST) {
        uniform_load(e, n, index->kid[0]);
        return;
    }
    if (is_coded(t)) buf_printf(e->out, "%s(", emit_helper(e, "load", t, n->lanes));
    raw_load(e, n, index);
    if (is_coded(t)) buf_putc(e->out, ')');
}

static void coded(Emit *e, DType t, const Node *value)
{
    if (is_coded(t)) call1(e, emit_helper(e, "store", t, value->lanes), value);
    else emit_vector(e, value);
}

// A masked store: its index is -1 in lanes that are off.
static const Node *store_mask(Node **index)
{
    Node *x = *index;
    if (x->kind != N_SELECT) return NULL;
    *index = KID(x, SELECT, a);
    return KID(x, SELECT, cond);
}

void emit_vector_store(Emit *e, const Node *statement)
{
    if (e->dialect->vector_store) {
        e->dialect->vector_store(e, statement);
        return;
    }
    Node *n = (Node *)statement, *index = REST(n)[0], *lo = NULL, *hi = NULL;
    const Node *mask = store_mask(&index), *value = KID(n, STORE, value);
    DType t = n->u.buf->type;
    int lanes = index->lanes > value->lanes ? index->lanes : value->lanes;
    bool ramp = index->kind == N_RAMP, next = ramp && index->u.i == 1;
    bool range = mask && emit_mask_range(e, mask, &lo, &hi);
    if (value->lanes != lanes || index->lanes != lanes) {
        emit_cannot(e, n, "a store of unequal lanes");
        return;
    }
    if (next || (ramp && !mask)) {
        const char *name = !next ? "puts" : !mask ? "put" : range ? "putr" : "putm";
        buf_printf(e->out, "%s(", emit_helper(e, name, t, lanes));
        address(e, n->u.buf, index->kid[0]);
        if (!next) buf_printf(e->out, ", %lld", (long long)index->u.i);
    } else {
        gathered(e, mask ? "scatterm" : "scatter", t, n, index);
        range = false;
    }
    buf_puts(e->out, ", ");
    e->mask = mask;
    coded(e, t, value);
    e->mask = NULL;
    if (mask) {
        buf_puts(e->out, ", ");
        if (range) emit_range(e, lo, hi);
        else emit_vector(e, mask);
    }
    buf_putc(e->out, ')');
}

// ---- operators

static bool loads(const Node *n)
{
    if (n->kind == N_LOAD) return true;
    for (uint32_t i = 0; i < n->nkid; i++) {
        if (loads(n->kid[i])) return true;
    }
    return false;
}

static const Node *both(Emit *e, const Node *outer, Node *cond)
{
    return outer ? node_binary(e->arena, N_BAND, (Node *)outer, cond) : cond;
}

static void emit_arm(Emit *e, const Node *arm, Node *cond)
{
    const Node *outer = e->mask;
    if (loads(arm)) e->mask = both(e, outer, cond);
    emit_vector(e, arm);
    e->mask = outer;
}

static bool is_zero(const Node *n)
{
    n = n->kind == N_BROADCAST ? n->kid[0] : n;
    return (n->kind == N_INT && n->u.i == 0) ||
           (n->kind == N_FLOAT && n->u.f == 0 && !__builtin_signbit(n->u.f));
}

// Whether every lane of the mask has the condition.
static bool implies(const Node *mask, const Node *cond)
{
    if (!mask) return false;
    if (node_equal(mask, cond)) return true;
    bool all = mask->kind == N_BAND || mask->kind == N_LAND;
    return all && (implies(mask->kid[0], cond) || implies(mask->kid[1], cond));
}

static void vector_select(Emit *e, Node *n)
{
    Node *cond = KID(n, SELECT, cond), *x = KID(n, SELECT, a), *y = KID(n, SELECT, b);
    if (cond->lanes == 1) {
        buf_putc(e->out, '(');
        emit_scalar(e, cond);
        buf_puts(e->out, " ? ");
        emit_vector(e, x);
        buf_puts(e->out, " : ");
        emit_vector(e, y);
        buf_putc(e->out, ')');
        return;
    }
    // Where e->mask is off, nobody looks.
    if (implies(e->mask, cond)) {
        emit_vector(e, x);
        return;
    }
    // Lanes that are off load zero already.
    if (x->kind == N_LOAD && REST(x)[0]->kind != N_BROADCAST && is_zero(y)) {
        emit_arm(e, x, cond);
        return;
    }
    buf_printf(e->out, "%s(", emit_helper(e, "blend", (DType)n->type, n->lanes));
    emit_vector(e, cond);
    buf_puts(e->out, ", ");
    emit_arm(e, x, cond);
    buf_puts(e->out, ", ");
    emit_arm(e, y, node_unary(e->arena, N_NOT, cond));
    buf_putc(e->out, ')');
}

static void vector_infix(Emit *e, const Node *n, const char *op)
{
    bool half = emit_is_short((DType)n->type);
    if (half) buf_puts(e->out, emit_helper(e, "round", (DType)n->type, n->lanes));
    buf_putc(e->out, '(');
    emit_vector(e, n->kid[0]);
    buf_printf(e->out, " %s ", op);
    emit_vector(e, n->kid[1]);
    buf_putc(e->out, ')');
}

static void vector_compare(Emit *e, const Node *n, const char *name)
{
    Node *lo, *hi;
    if (n->kid[0]->type == DT_I64 && emit_mask_range(e, n, &lo, &hi)) {
        buf_printf(e->out, "%s(", emit_helper(e, "range", DT_BOOL, n->lanes));
        emit_range(e, lo, hi);
        buf_putc(e->out, ')');
        return;
    }
    call2(e, emit_helper(e, name, (DType)n->kid[0]->type, n->lanes), n->kid[0], n->kid[1]);
}

static void by_helper(Emit *e, const Node *n, const char *name)
{
    call2(e, emit_helper(e, name, (DType)n->type, n->lanes), n->kid[0], n->kid[1]);
}

// ---- divisions by constants, which processors have no vectors for

static void splat(Emit *e, int64_t v, int lanes)
{
    emit_vector(e, arith_widen(e->arena, node_i64(e->arena, v), lanes));
}

// For 0 <= a < 2^31 the quotient is a * factor >> shift (Granlund and Montgomery 1994, theorem
// 4.2), and the product fits 63 bits. A dividend that may be negative is moved by `moved` divisors.
// A power of two only shifts.
typedef struct Quotient {
    int64_t divisor, factor, moved; // factor 0: a power of two
    int shift;
} Quotient;

static bool find_quotient(const Node *n, Quotient *q)
{
    const Node *x = n->kid[0], *c = n->kid[1];
    int64_t lo, hi;
    if (c->kind == N_BROADCAST) c = c->kid[0];
    if (n->type != DT_I64 || c->kind != N_INT || c->u.i < 2 || c->u.i > INT32_MAX) return false;
    *q = (Quotient){.divisor = c->u.i};
    while (INT64_C(1) << q->shift < q->divisor) q->shift++;
    if (INT64_C(1) << q->shift == q->divisor) return true;
    if (!node_bounds(x, &lo, &hi) || lo < INT32_MIN || hi > INT32_MAX) return false;
    q->moved = lo < 0 ? ceil_div_i64(-lo, q->divisor) : 0;
    q->shift += 31;
    q->factor = (INT64_C(1) << q->shift) / q->divisor + 1;
    return hi + q->moved * q->divisor <= INT32_MAX;
}

static void by_shift(Emit *e, const Node *n, const Quotient *q)
{
    if (n->kind == N_DIV) buf_printf(e->out, "%s(", emit_helper(e, "shr", DT_I64, n->lanes));
    else buf_putc(e->out, '(');
    emit_vector(e, n->kid[0]);
    buf_puts(e->out, n->kind == N_DIV ? ", " : " & ");
    splat(e, n->kind == N_DIV ? q->shift : q->divisor - 1, n->lanes);
    buf_putc(e->out, ')');
}

static void by_product(Emit *e, const Node *n, const Quotient *q)
{
    bool div = n->kind == N_DIV;
    Node *x = n->kid[0], *far = node_i64(e->arena, q->moved * q->divisor);
    const char *name = emit_helper(e, div ? "quotient" : "remainder", DT_I64, n->lanes);
    buf_printf(e->out, "%s%s(", div && q->moved ? "(" : "", name);
    emit_vector(e, q->moved ? arith_binary(e->arena, N_ADD, x, far) : x);
    const int64_t rest[] = {q->factor, q->shift, q->divisor};
    for (int i = 0; i < (div ? 2 : 3); i++) {
        buf_puts(e->out, ", ");
        splat(e, rest[i], n->lanes);
    }
    buf_putc(e->out, ')');
    if (!div || !q->moved) return;
    buf_puts(e->out, " - ");
    splat(e, q->moved, n->lanes);
    buf_putc(e->out, ')');
}

static void vector_division(Emit *e, const Node *n)
{
    Quotient q;
    if (dtype_is_float((DType)n->type) && n->kind == N_DIV) vector_infix(e, n, "/");
    else if (!find_quotient(n, &q)) by_helper(e, n, n->kind == N_DIV ? "div" : "mod");
    else if (q.factor) by_product(e, n, &q);
    else by_shift(e, n, &q);
}

// ---- the others

// max(x, c) for a constant c that is no NaN needs no care for NaN: pick(c, x) gives x unless c is
// beyond it. Zeros of the wrong sign are left to the general case, except +0, where adding +0 turns
// -0 to it.
static bool minmax_constant(Emit *e, const Node *n, const Node *c, const Node *x)
{
    if (c->kind != N_BROADCAST || c->kid[0]->kind != N_FLOAT) return false;
    double v = c->kid[0]->u.f;
    bool max = n->kind == N_MAX, zero = v == 0, negative = __builtin_signbit(v) != 0;
    bool add_zero = zero && max && !negative;
    if (v != v || (zero && !max && negative)) return false;
    if (add_zero) buf_putc(e->out, '(');
    call2(e, emit_helper(e, max ? "pick_max" : "pick_min", (DType)n->type, n->lanes), c, x);
    if (add_zero) {
        const char *splat = emit_helper(e, "splat", (DType)n->type, n->lanes);
        buf_printf(e->out, " + %s(0))", splat);
    }
    return true;
}

static void vector_minmax(Emit *e, const Node *n)
{
    if (dtype_is_float((DType)n->type) && (minmax_constant(e, n, n->kid[0], n->kid[1]) ||
                                           minmax_constant(e, n, n->kid[1], n->kid[0])))
        return;
    by_helper(e, n, n->kind == N_MIN ? "min" : "max");
}

static void vector_constant(Emit *e, const Node *n)
{
    buf_printf(e->out, "%s(", emit_helper(e, "splat", (DType)n->type, n->lanes));
    emit_scalar(e, n->kind == N_BROADCAST ? n->kid[0] : n);
    buf_putc(e->out, ')');
}

static void vector_ramp(Emit *e, const Node *n)
{
    buf_printf(e->out, "%s(", emit_helper(e, "ramp", (DType)n->type, n->lanes));
    emit_scalar(e, n->kid[0]);
    buf_printf(e->out, ", %lld)", (long long)n->u.i);
}

static void vector_unary(Emit *e, const Node *n, const char *op)
{
    if (emit_negation(e, n)) return;
    if (emit_lacks_minus_zero(n))
        buf_puts(e->out, emit_helper(e, "round", (DType)n->type, n->lanes));
    buf_printf(e->out, "(%s", op);
    emit_vector(e, n->kid[0]);
    buf_putc(e->out, ')');
}

void emit_vector(Emit *e, const Node *n)
{
    if (e->dialect->vector) {
        e->dialect->vector(e, n);
        return;
    }
    DType from = n->nkid ? (DType)n->kid[0]->type : DT_NONE;
    switch (n->kind) {
    case N_BROADCAST: vector_constant(e, n); break;
    case N_RAMP: vector_ramp(e, n); break;
    case N_VARREF: emit_var_name(e, n->u.var); break;
    case N_ADD:
    case N_SUB:
    case N_MUL: vector_infix(e, n, node_info[n->kind].spelling); break;
    case N_DIV:
    case N_MOD: vector_division(e, n); break;
    case N_BAND:
    case N_LAND: vector_infix(e, n, "&"); break;
    case N_BOR:
    case N_LOR: vector_infix(e, n, "|"); break;
    case N_BXOR: vector_infix(e, n, "^"); break;
    case N_SHL: by_helper(e, n, "shl"); break;
    case N_SHR: by_helper(e, n, "shr"); break;
    case N_MIN:
    case N_MAX: vector_minmax(e, n); break;
    case N_EQ: vector_compare(e, n, "eq"); break;
    case N_NE: vector_compare(e, n, "ne"); break;
    case N_LT: vector_compare(e, n, "lt"); break;
    case N_LE: vector_compare(e, n, "le"); break;
    case N_NEG: vector_unary(e, n, "-"); break;
    case N_NOT:
    case N_BNOT: vector_unary(e, n, "~"); break;
    case N_SELECT: vector_select(e, (Node *)n); break;
    case N_CAST:
        if (from == n->type) emit_vector(e, n->kid[0]);
        else call1(e, emit_helper2(e, "cast", from, (DType)n->type, n->lanes), n->kid[0]);
        break;
    case N_BITCAST:
        call1(e, emit_helper2(e, "bits", from, (DType)n->type, n->lanes), n->kid[0]);
        break;
    case N_LOAD: vector_load(e, n); break;
    case N_INTRIN: emit_intrinsic(e, n); break;
    default: emit_cannot(e, n, node_info[n->kind].name);
    }
}
