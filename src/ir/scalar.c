// SPDX-License-Identifier: Apache-2.0
// The meaning of pure operations. Integers are computed as 64-bit words and wrapped into their
// type; f16, bf16 and f32 are computed in float and rounded, f64 in double.
#include "ir/scalar.h"

#include <math.h>
#include <string.h>

Scalar scalar_load(DType type, const void *p)
{
    Scalar s = {.type = type};
    if (dtype_is_float(type)) {
        s.v.f = dtype_load_f64(type, p);
    } else {
        s.v.i = dtype_load_i64(type, p);
    }
    return s;
}

void scalar_store(const Scalar *s, void *p)
{
    if (dtype_is_float(s->type)) {
        dtype_store_f64(s->type, p, s->v.f);
    } else {
        dtype_store_i64(s->type, p, s->v.i);
    }
}

Scalar scalar_int(DType type, int64_t v)
{
    ASSERT(dtype_is_int(type) || type == DT_BOOL);
    uint64_t memory = 0;
    dtype_store_i64(type, &memory, v);
    return (Scalar){.type = type, .v.i = dtype_load_i64(type, &memory)};
}

Scalar scalar_float(DType type, double v)
{
    ASSERT(dtype_is_float(type));
    return (Scalar){.type = type, .v.f = f64_round_to(type, v)};
}

bool scalar_bits_equal(const Scalar *a, const Scalar *b)
{
    if (a->type != b->type) return false;
    if (!dtype_is_float(a->type)) return a->v.i == b->v.i;
    if (isnan(a->v.f) || isnan(b->v.f)) return isnan(a->v.f) && isnan(b->v.f);
    return a->v.f == b->v.f && !signbit(a->v.f) == !signbit(b->v.f);
}

bool scalar_of(const Node *n, Scalar *out)
{
    if (n->kind == N_INT && (dtype_is_int((DType)n->type) || n->type == DT_BOOL)) {
        *out = scalar_int((DType)n->type, n->u.i);
        return true;
    }
    if (n->kind == N_FLOAT && dtype_is_float((DType)n->type)) {
        *out = scalar_float((DType)n->type, n->u.f);
        return true;
    }
    return false;
}

Node *scalar_node(Arena *a, Loc loc, const Scalar *s)
{
    return dtype_is_float(s->type) ? node_float(a, loc, s->type, s->v.f)
                                   : node_int(a, loc, s->type, s->v.i);
}

static Scalar boolean(bool v)
{
    return (Scalar){.type = DT_BOOL, .v.i = v};
}

// ---- conversions

// u64 above INT64_MAX to a float: half of it, where the lost bit leaves a mark, rounds as it does.
static double u64_to_float(DType to, uint64_t u)
{
    uint64_t memory = 0;
    dtype_store_i64(to, &memory, (int64_t)(u >> 1 | (u & 1)));
    return f64_round_to(to, 2 * dtype_load_f64(to, &memory));
}

static Scalar cast(DType to, const Scalar *x)
{
    uint64_t memory = 0;
    if (dtype_is_float(x->type)) {
        dtype_store_f64(to, &memory, x->v.f);
    } else if (x->type == DT_U64 && x->v.i < 0 && dtype_is_float(to)) {
        return (Scalar){.type = to, .v.f = u64_to_float(to, (uint64_t)x->v.i)};
    } else {
        dtype_store_i64(to, &memory, x->v.i);
    }
    return scalar_load(to, &memory);
}

static bool bitcast(DType to, const Scalar *x, Scalar *out)
{
    if (dtypes[to].bits != dtypes[x->type].bits || dtypes[to].bits < 8) return false;
    uint64_t memory = 0;
    scalar_store(x, &memory);
    *out = scalar_load(to, &memory);
    return true;
}

// ---- integers

static int64_t int_div(bool is_signed, int64_t a, int64_t b)
{
    if (b == 0) return 0;
    return is_signed ? floor_div_i64(a, b) : (int64_t)((uint64_t)a / (uint64_t)b);
}

static int64_t int_mod(bool is_signed, int64_t a, int64_t b)
{
    if (b == 0) return 0;
    return is_signed ? floor_mod_i64(a, b) : (int64_t)((uint64_t)a % (uint64_t)b);
}

static int64_t shift_right(bool is_signed, int64_t a, int count)
{
    uint64_t u = (uint64_t)a >> count;
    if (is_signed && a < 0 && count) u |= ~UINT64_C(0) << (64 - count);
    return (int64_t)u;
}

static bool int_less(bool is_signed, int64_t a, int64_t b)
{
    return is_signed ? a < b : (uint64_t)a < (uint64_t)b;
}

static bool int_binary(NodeKind kind, DType type, int64_t a, int64_t b, Scalar *out)
{
    uint64_t ua = (uint64_t)a, ub = (uint64_t)b;
    bool is_signed = dtypes[type].class == DC_INT;
    int count = (int)(ub & (unsigned)(dtypes[type].bits - 1));
    int64_t r;
    switch (kind) {
    case N_ADD: r = (int64_t)(ua + ub); break;
    case N_SUB: r = (int64_t)(ua - ub); break;
    case N_MUL: r = (int64_t)(ua * ub); break;
    case N_DIV: r = int_div(is_signed, a, b); break;
    case N_MOD: r = int_mod(is_signed, a, b); break;
    case N_MIN: r = int_less(is_signed, b, a) ? b : a; break;
    case N_MAX: r = int_less(is_signed, a, b) ? b : a; break;
    case N_SHL: r = (int64_t)(ua << count); break;
    case N_SHR: r = shift_right(is_signed, a, count); break;
    case N_BAND: r = a & b; break;
    case N_BOR: r = a | b; break;
    case N_BXOR: r = a ^ b; break;
    case N_EQ: *out = boolean(a == b); return true;
    case N_NE: *out = boolean(a != b); return true;
    case N_LT: *out = boolean(int_less(is_signed, a, b)); return true;
    case N_LE: *out = boolean(!int_less(is_signed, b, a)); return true;
    default: return false;
    }
    *out = scalar_int(type, r);
    return true;
}

static bool bool_binary(NodeKind kind, bool a, bool b, Scalar *out)
{
    switch (kind) {
    case N_LAND:
    case N_BAND: *out = boolean(a && b); return true;
    case N_LOR:
    case N_BOR: *out = boolean(a || b); return true;
    case N_BXOR:
    case N_NE: *out = boolean(a != b); return true;
    case N_EQ: *out = boolean(a == b); return true;
    case N_LT: *out = boolean(!a && b); return true;
    case N_LE: *out = boolean(!a || b); return true;
    default: return false;
    }
}

// ---- floats

// -0 is below +0; NaN if either is.
static double float_min(double a, double b)
{
    if (isnan(a) || isnan(b)) return NAN;
    if (a == b) return signbit(a) ? a : b;
    return a < b ? a : b;
}

static double float_max(double a, double b)
{
    if (isnan(a) || isnan(b)) return NAN;
    if (a == b) return signbit(a) ? b : a;
    return a > b ? a : b;
}

static double float_mod(DType type, double a, double b)
{
    double r = fmod(a, b); // exact, so double serves every type
    if (r == 0) return copysign(0, b);
    if (isnan(r) || !signbit(r) == !signbit(b)) return r;
    return type == DT_F64 ? r + b : (double)((float)r + (float)b);
}

static double float_arithmetic(NodeKind kind, double a, double b)
{
    switch (kind) {
    case N_ADD: return a + b;
    case N_SUB: return a - b;
    case N_MUL: return a * b;
    default: return a / b;
    }
}

static float float_arithmetic_f32(NodeKind kind, float a, float b)
{
    switch (kind) {
    case N_ADD: return a + b;
    case N_SUB: return a - b;
    case N_MUL: return a * b;
    default: return a / b;
    }
}

static bool float_binary(NodeKind kind, DType type, double a, double b, Scalar *out)
{
    double r;
    switch (kind) {
    case N_ADD:
    case N_SUB:
    case N_MUL:
    case N_DIV:
        r = type == DT_F64 ? float_arithmetic(kind, a, b)
                           : (double)float_arithmetic_f32(kind, (float)a, (float)b);
        break;
    case N_MOD: r = float_mod(type, a, b); break;
    case N_MIN: r = float_min(a, b); break;
    case N_MAX: r = float_max(a, b); break;
    case N_EQ: *out = boolean(a == b); return true;
    case N_NE: *out = boolean(a != b); return true;
    case N_LT: *out = boolean(a < b); return true;
    case N_LE: *out = boolean(a <= b); return true;
    default: return false;
    }
    *out = scalar_float(type, r);
    return true;
}

// ---- all

static bool unary(NodeKind kind, const Scalar *x, Scalar *out)
{
    bool is_int = dtype_is_int(x->type);
    if (kind == N_NOT && x->type == DT_BOOL) {
        *out = boolean(!x->v.i);
    } else if (kind == N_BNOT && is_int) {
        *out = scalar_int(x->type, ~x->v.i);
    } else if (kind == N_NEG && is_int) {
        *out = scalar_int(x->type, (int64_t)(0 - (uint64_t)x->v.i));
    } else if (kind == N_NEG && dtype_is_float(x->type)) {
        *out = scalar_float(x->type, -x->v.f); // some types have no -0
    } else {
        return false;
    }
    return true;
}

bool scalar_apply(NodeKind kind, DType type, const Scalar *x, Scalar *out)
{
    switch (kind) {
    case N_NEG:
    case N_NOT:
    case N_BNOT: return unary(kind, x, out);
    case N_CAST: *out = cast(type, x); return true;
    case N_BITCAST: return bitcast(type, x, out);
    case N_SELECT:
        if (x[0].type != DT_BOOL || x[1].type != x[2].type) return false;
        *out = x[x[0].v.i ? 1 : 2];
        return true;
    default: break;
    }
    if (node_info[kind].nfixed != 2 || x[0].type != x[1].type) return false;
    if (x->type == DT_BOOL) return bool_binary(kind, x[0].v.i != 0, x[1].v.i != 0, out);
    if (dtype_is_int(x->type)) return int_binary(kind, x->type, x[0].v.i, x[1].v.i, out);
    if (dtype_is_float(x->type)) return float_binary(kind, x->type, x[0].v.f, x[1].v.f, out);
    return false;
}

static bool int_intrinsic(IntrinsicId id, const Scalar *x, Scalar *out)
{
    uint64_t a = (uint64_t)x[0].v.i;
    DType type = x->type;
    switch (id) {
    case INTR_FMA:
        if (x[1].type != type || x[2].type != type) return false;
        *out = scalar_int(type, (int64_t)(a * (uint64_t)x[1].v.i + (uint64_t)x[2].v.i));
        return true;
    case INTR_ABS:
        *out = scalar_int(type, (int64_t)(dtypes[type].class == DC_INT && x->v.i < 0 ? 0 - a : a));
        return true;
    default: return false;
    }
}

static double fma_in(DType type, const Scalar *x)
{
    if (type == DT_F64) return fma(x[0].v.f, x[1].v.f, x[2].v.f);
    return (double)fmaf((float)x[0].v.f, (float)x[1].v.f, (float)x[2].v.f);
}

bool scalar_intrinsic(IntrinsicId id, const Scalar *x, Scalar *out)
{
    DType type = x->type;
    if (dtype_is_int(type)) return int_intrinsic(id, x, out);
    if (!dtype_is_float(type)) return false;
    double a = x->v.f, r;
    switch (id) {
    case INTR_FMA:
        if (x[1].type != type || x[2].type != type) return false;
        r = fma_in(type, x);
        break;
    case INTR_SQRT: r = type == DT_F64 ? sqrt(a) : (double)sqrtf((float)a); break;
    case INTR_FLOOR: r = floor(a); break;
    case INTR_CEIL: r = ceil(a); break;
    case INTR_TRUNC: r = trunc(a); break;
    case INTR_RINT: r = rint(a); break;
    case INTR_ABS: r = fabs(a); break;
    case INTR_EXP2_NEAR:
        if (type != DT_F32) return false;
        r = a < -126 ? 0 : (double)exp2f((float)a);
        break;
    case INTR_COPYSIGN:
        if (x[1].type != type) return false;
        r = copysign(a, x[1].v.f);
        break;
    default: return false;
    }
    *out = scalar_float(type, r);
    return true;
}
