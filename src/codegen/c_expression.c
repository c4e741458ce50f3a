// SPDX-License-Identifier: Apache-2.0
// Scalar expressions as C. Generated code is compiled with -fwrapv and without contraction, so
// most operators mean in C what they mean in kernel IR; where they do not, a helper does.
#include "codegen/emit.h"

#include <math.h>
#include <string.h>

enum { IN_RANGE = 1 }; // a flag of copies made here: the result is known to fit

const char *emit_value_type(DType t)
{
    return emit_is_short(t) ? "float" : dtypes[t].c;
}

const char *emit_storage_type(DType t)
{
    return dtypes[t].c;
}

// An operand of the operation whose lanes a helper computes one by one.
static bool lane_operand(Emit *e, const Node *n)
{
    for (uint32_t i = 0; e->lane_of && i < e->lane_of->nkid; i++) {
        if (e->lane_of->kid[i] != n) continue;
        buf_printf(e->out, n->lanes > 1 ? "%c.v[l]" : "%c", (int)('a' + i));
        return true;
    }
    return false;
}

void emit_value(Emit *e, const Node *n)
{
    if (lane_operand(e, n)) return;
    if (n->lanes > 1) emit_vector(e, n);
    else emit_scalar(e, n);
}

void emit_cannot(Emit *e, const Node *n, const char *what)
{
    diag_error(e->diag, n->loc, "%s cannot be expressed in %s", what, e->dialect->name);
    buf_puts(e->out, "0");
}

static void emit_int(Emit *e, const Node *n)
{
    int64_t v = n->u.i;
    switch (n->type) {
    case DT_I64:
        if (v == INT64_MIN) buf_puts(e->out, "INT64_MIN");
        else buf_printf(e->out, v < 0 ? "(%lld)" : "%lld", (long long)v);
        return;
    case DT_U64: buf_printf(e->out, "UINT64_C(%llu)", (unsigned long long)v); return;
    case DT_U32: buf_printf(e->out, "%lluu", (unsigned long long)v); return;
    case DT_I32:
        if (v == INT32_MIN) {
            buf_puts(e->out, "INT32_MIN");
            return;
        }
        break;
    default: break;
    }
    buf_printf(e->out, v < 0 ? "(%lld)" : "%lld", (long long)v);
}

static void emit_float(Emit *e, DType t, double v)
{
    const char *f = t == DT_F64 ? "" : "f";
    if (!isfinite(v) && e->dialect->number) e->dialect->number(e, t, v);
    else if (isnan(v)) buf_printf(e->out, "__builtin_nan%s(\"\")", f);
    else if (isinf(v)) buf_printf(e->out, v < 0 ? "(-__builtin_inf%s())" : "__builtin_inf%s()", f);
    else if (v == rint(v) && fabs(v) < 1e6)
        buf_printf(e->out, signbit(v) ? "(%.1f%s)" : "%.1f%s", v, f);
    else buf_printf(e->out, signbit(v) ? "(%a%s)" : "%a%s", v, f);
}

static void call(Emit *e, const char *helper, const Node *n)
{
    buf_printf(e->out, "%s(", helper);
    for (uint32_t i = 0; i < n->nkid; i++) {
        if (i) buf_puts(e->out, ", ");
        emit_value(e, n->kid[i]);
    }
    buf_putc(e->out, ')');
}

static void infix(Emit *e, const Node *n, const char *op)
{
    buf_putc(e->out, '(');
    emit_scalar(e, n->kid[0]);
    buf_printf(e->out, " %s ", op);
    emit_scalar(e, n->kid[1]);
    buf_putc(e->out, ')');
}

// C computes types narrower than int in int; the result is brought back.
static bool is_narrow_int(DType t)
{
    return dtype_is_int(t) && dtypes[t].bits < 32;
}

// Where signed overflow is not defined, what may wrap is computed without sign.
static bool may_wrap(const Emit *e, const Node *n)
{
    bool wraps = n->kind == N_ADD || n->kind == N_SUB || n->kind == N_MUL || n->kind == N_NEG;
    return wraps && e->dialect->narrow_indices && dtypes[n->type].class == DC_INT &&
           n->type != DT_I64 && !(n->flags & IN_RANGE);
}

static void arithmetic(Emit *e, const Node *n)
{
    DType t = (DType)n->type;
    const char *op = node_info[n->kind].spelling;
    if (may_wrap(e, n)) {
        buf_printf(e->out, "(%s)((uint32_t)", dtypes[t].c);
        emit_scalar(e, n->kid[0]);
        buf_printf(e->out, " %s (uint32_t)", op);
        emit_scalar(e, n->kid[1]);
        buf_putc(e->out, ')');
        return;
    }
    if (emit_is_short(t)) buf_puts(e->out, emit_helper(e, "round", t, 1));
    else if (is_narrow_int(t)) buf_printf(e->out, "(%s)", dtypes[t].c);
    infix(e, n, op);
}

static bool is_nonnegative(const Node *n)
{
    int64_t lo, hi;
    return node_bounds(n, &lo, &hi) && lo >= 0;
}

static void division(Emit *e, const Node *n)
{
    const Node *y = n->kid[1];
    DType t = (DType)n->type;
    bool plain = y->kind == N_INT && y->u.i > 0 && is_nonnegative(n->kid[0]);
    if (dtype_is_float(t) && n->kind == N_DIV) arithmetic(e, n);
    else if (plain && dtype_is_int(t)) infix(e, n, node_info[n->kind].spelling);
    else if (e->dialect == &dialect_cuda && is_nonnegative(n->kid[0]) && is_nonnegative(y))
        call(e, emit_helper(e, n->kind == N_DIV ? "quotient" : "rest", t, 1), n);
    else call(e, emit_helper(e, n->kind == N_DIV ? "div" : "mod", t, 1), n);
}

static void minmax(Emit *e, const Node *n)
{
    const char *name = n->kind == N_MIN ? "min" : "max";
    const Node *limit = n->kid[1];
    // Against a number that is neither NaN nor -0 a comparison is enough.
    bool known =
        limit->kind == N_FLOAT && !isnan(limit->u.f) && (limit->u.f != 0 || !signbit(limit->u.f));
    if (known && e->dialect == &dialect_cuda) name = n->kind == N_MIN ? "at_most" : "at_least";
    call(e, emit_helper(e, name, (DType)n->type, 1), n);
}

static void shift(Emit *e, const Node *n)
{
    call(e, emit_helper(e, n->kind == N_SHL ? "shl" : "shr", (DType)n->type, 1), n);
}

static bool is_narrow(const Emit *e, const Node *n);

static void emit_cast(Emit *e, const Node *n)
{
    DType from = (DType)n->kid[0]->type, to = (DType)n->type;
    if (from == DT_I64 && is_narrow(e, n->kid[0])) from = DT_I32;
    buf_printf(e->out, "%s(", emit_helper2(e, "cast", from, to, 1));
    emit_scalar(e, n->kid[0]);
    buf_putc(e->out, ')');
}

static void emit_element(Emit *e, const Node *load)
{
    emit_buffer_name(e, load->u.buf);
    buf_putc(e->out, '[');
    emit_scalar(e, REST((Node *)load)[0]);
    buf_putc(e->out, ']');
}

static void emit_bitcast(Emit *e, const Node *n)
{
    DType from = (DType)n->kid[0]->type, to = (DType)n->type;
    // Short floats are kept as their bits.
    if (emit_is_short(from) && to == emit_stored(from) && n->kid[0]->kind == N_LOAD) {
        emit_element(e, n->kid[0]);
        return;
    }
    buf_printf(e->out, "%s(", emit_helper2(e, "bits", from, to, 1));
    emit_scalar(e, n->kid[0]);
    buf_putc(e->out, ')');
}

static void emit_load(Emit *e, const Node *n)
{
    DType t = (DType)n->type;
    if (emit_is_short(t)) buf_puts(e->out, emit_helper(e, "load", t, 1));
    buf_putc(e->out, '(');
    emit_element(e, n);
    buf_puts(e->out, t == DT_BOOL ? " != 0)" : ")");
}

static void emit_select(Emit *e, const Node *n)
{
    buf_putc(e->out, '(');
    emit_scalar(e, n->kid[0]);
    buf_puts(e->out, " ? ");
    emit_value(e, n->kid[1]);
    buf_puts(e->out, " : ");
    emit_value(e, n->kid[2]);
    buf_putc(e->out, ')');
}

static void emit_extract(Emit *e, const Node *n)
{
    buf_putc(e->out, '(');
    emit_vector(e, n->kid[0]);
    buf_puts(e->out, e->dialect->vector ? ".v[" : "[");
    emit_scalar(e, n->kid[1]);
    buf_puts(e->out, n->type == DT_BOOL ? "] != 0)" : "])");
}

bool emit_lacks_minus_zero(const Node *n)
{
    const SmallFloat *k = dtype_small_float((DType)n->type);
    return n->kind == N_NEG && k && k->no_minus;
}

bool emit_negation(Emit *e, const Node *n)
{
    if (n->kind != N_NEG || !e->has_fma || !dtype_is_float((DType)n->type)) return false;
    call(e, emit_helper(e, "neg", (DType)n->type, n->lanes), n);
    return true;
}

static void prefix(Emit *e, const Node *n, const char *op)
{
    if (may_wrap(e, n)) {
        buf_printf(e->out, "(%s)(0u - (uint32_t)", dtypes[n->type].c);
        emit_scalar(e, n->kid[0]);
        buf_putc(e->out, ')');
        return;
    }
    if (emit_negation(e, n)) return;
    if (emit_lacks_minus_zero(n)) buf_puts(e->out, emit_helper(e, "round", (DType)n->type, 1));
    if (is_narrow_int((DType)n->type)) buf_printf(e->out, "(%s)", dtypes[n->type].c);
    buf_printf(e->out, "(%s", op);
    emit_scalar(e, n->kid[0]);
    buf_putc(e->out, ')');
}

static void expression(Emit *e, const Node *n)
{
    switch (n->kind) {
    case N_INT: emit_int(e, n); break;
    case N_FLOAT: emit_float(e, (DType)n->type, n->u.f); break;
    case N_VARREF: emit_var_name(e, n->u.var); break;
    case N_ADD:
    case N_SUB:
    case N_MUL:
    case N_BAND:
    case N_BOR:
    case N_BXOR: arithmetic(e, n); break;
    case N_DIV:
    case N_MOD: division(e, n); break;
    case N_MIN:
    case N_MAX: minmax(e, n); break;
    case N_SHL:
    case N_SHR: shift(e, n); break;
    case N_LAND:
    case N_LOR:
    case N_EQ:
    case N_NE:
    case N_LT:
    case N_LE: infix(e, n, node_info[n->kind].spelling); break;
    case N_NEG:
    case N_NOT:
    case N_BNOT: prefix(e, n, node_info[n->kind].spelling); break;
    case N_SELECT: emit_select(e, n); break;
    case N_CAST: emit_cast(e, n); break;
    case N_BITCAST: emit_bitcast(e, n); break;
    case N_EXTRACT: emit_extract(e, n); break;
    case N_LOAD: emit_load(e, n); break;
    case N_RAMP:
    case N_BROADCAST: emit_scalar(e, n->kid[0]); break;
    case N_INTRIN: emit_intrinsic(e, n); break;
    default: emit_cannot(e, n, node_info[n->kind].name);
    }
}

// ---- indices in 32 bits, where they fit

static bool fits(int64_t lo, int64_t hi)
{
    return lo <= hi && lo >= INT32_MIN && hi <= INT32_MAX;
}

static bool var_is_narrow(const Emit *e, const Var *v)
{
    return e->dialect->narrow_indices && v->type == DT_I64 && v->lanes <= 1 && !v->mutable &&
           fits(v->lo, v->hi);
}

// Whether the text of n has the type int. What a variable is declared as decides for its reads.
static bool is_narrow(const Emit *e, const Node *n)
{
    int64_t lo, hi;
    if (!e->dialect->narrow_indices || n->type != DT_I64 || n->lanes > 1) return false;
    if (n->kind == N_VARREF) return var_is_narrow(e, n->u.var);
    return node_bounds(n, &lo, &hi) && fits(lo, hi);
}

const char *emit_var_type(Emit *e, const Var *v)
{
    if (v->lanes > 1) return emit_vector_type(e, v->type, v->lanes);
    return emit_value_type(var_is_narrow(e, v) ? DT_I32 : v->type);
}

static bool is_arithmetic(NodeKind kind)
{
    NodeOperands o = node_info[kind].operands;
    return o == OPERANDS_NUMBERS || o == OPERANDS_INTS || o == OPERANDS_BITS || kind == N_SELECT;
}

// Operands that are all int are computed in int if the result fits, and widened first if not.
static void index_expression(Emit *e, const Node *n)
{
    bool narrow = is_narrow(e, n), operands = is_arithmetic((NodeKind)n->kind);
    uint32_t first = n->kind == N_SELECT;
    for (uint32_t i = first; operands && i < n->nkid; i++) operands = is_narrow(e, n->kid[i]);
    if (n->kind == N_INT || n->kind == N_VARREF || (!narrow && !operands)) {
        expression(e, n);
    } else if (!operands) {
        buf_puts(e->out, "(int32_t)");
        expression(e, n);
    } else {
        Node *copy = arena_copy(e->arena, n, sizeof *n + n->nkid * sizeof(Node *));
        copy->flags = IN_RANGE;
        if (narrow) copy->type = DT_I32;
        else copy->kid[first] = node_make(e->arena, N_BITCAST, n->loc, 1, &copy->kid[first]);
        if (!narrow) copy->kid[first]->type = DT_I64;
        expression(e, copy);
    }
}

void emit_scalar(Emit *e, const Node *n)
{
    if (lane_operand(e, n)) return;
    bool widens = n->kind == N_BITCAST && n->type == DT_I64 && n->kid[0]->type == DT_I64;
    if (widens) {
        buf_puts(e->out, "(int64_t)");
        emit_scalar(e, n->kid[0]);
    } else if (e->dialect->narrow_indices && n->type == DT_I64 && n->lanes == 1) {
        index_expression(e, n);
    } else {
        expression(e, n);
    }
}
