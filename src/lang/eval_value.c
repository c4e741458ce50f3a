// SPDX-License-Identifier: Apache-2.0
// Arithmetic on values: computed now where both sides are known, otherwise IR of a common type.
// Tuples go element by element; * and + also compose mappings and layouts.
#include "lang/eval.h"

#include "ir/size.h"

#include <math.h>
#include <string.h>

bool value_is_known(const Value *v)
{
    return v->kind == V_INT || v->kind == V_BOOL || v->kind == V_FLOAT;
}

bool eval_node(Eval *e, Loc loc, Value v, Node **out)
{
    switch (v.kind) {
    case V_INT: *out = node_int(e->arena, loc, DT_I64, v.u.i); return true;
    case V_BOOL: *out = node_int(e->arena, loc, DT_BOOL, v.u.i); return true;
    case V_FLOAT: *out = node_float(e->arena, loc, DT_F32, v.u.f); return true;
    case V_EXPR: *out = v.u.expr; return true;
    case V_RING: *out = node_var(e->arena, loc, v.u.ring.index); return true;
    case V_TENSOR:
        if (v.u.tensor->rank == 0) {
            Value x;
            return tensor_load(e, loc, v.u.tensor, 0, NULL, &x) && eval_node(e, loc, x, out);
        }
        return eval_fail(e, loc, "a tensor of rank %d stands where a number is needed: index it",
                         v.u.tensor->rank);
    default: return eval_fail(e, loc, "expected a number, found %s", value_kind_name(v.kind));
    }
}

static bool fits(DType t, int64_t v)
{
    int bits = dtypes[t].bits;
    if (dtypes[t].class == DC_UINT) return v >= 0 && (bits >= 63 || v < ((int64_t)1 << bits));
    if (dtypes[t].class == DC_INT)
        return bits == 64 || (v >= -((int64_t)1 << (bits - 1)) && v < ((int64_t)1 << (bits - 1)));
    return t == DT_BOOL ? v == 0 || v == 1 : true;
}

bool eval_node_as(Eval *e, Loc loc, Value v, DType type, Node **out)
{
    if ((v.kind == V_INT || v.kind == V_BOOL) && dtype_is_float(type)) {
        *out = node_float(e->arena, loc, type, f64_round_to(type, (double)v.u.i));
        return true;
    }
    if (v.kind == V_INT || v.kind == V_BOOL) {
        if (!fits(type, v.u.i))
            return eval_fail(e, loc, "%lld does not fit %s", (long long)v.u.i, dtypes[type].name);
        *out = node_int(e->arena, loc, type, v.u.i);
        return true;
    }
    if (v.kind == V_FLOAT) {
        if (!dtype_is_float(type))
            return eval_fail(e, loc, "a real number stands where %s is needed", dtypes[type].name);
        *out = node_float(e->arena, loc, type, f64_round_to(type, v.u.f));
        return true;
    }
    Node *x;
    if (!eval_node(e, loc, v, &x)) return false;
    if (dtype_is_float((DType)x->type) && !dtype_is_float(type))
        return eval_fail(e, loc, "%s does not become %s by itself: convert with %s(...)",
                         dtypes[x->type].name, dtypes[type].name, dtypes[type].name);
    *out = node_fold(e->arena, node_cast(e->arena, type, x));
    return true;
}

bool eval_index(Eval *e, Loc loc, Value v, Node **out)
{
    if (v.kind == V_INT) {
        *out = node_int(e->arena, loc, DT_I64, v.u.i);
        return true;
    }
    Node *x;
    if (!eval_node(e, loc, v, &x)) return false;
    if (!dtype_is_int((DType)x->type))
        return eval_fail(e, loc, "an index is an integer, this is %s", dtypes[x->type].name);
    *out = node_cast(e->arena, DT_I64, x);
    return true;
}

bool eval_int(Eval *e, Loc loc, Value v, const char *what, int64_t *out)
{
    if (v.kind == V_INT || v.kind == V_BOOL) {
        *out = v.u.i;
        return true;
    }
    if (v.kind == V_FLOAT && whole_f64(v.u.f, out)) return true;
    if (eval_guess(e, loc, v, out)) return true;
    return eval_fail(e, loc, "%s must be an integer known at compile time, found %s", what,
                     value_kind_name(v.kind));
}

bool eval_guess(Eval *e, Loc loc, Value v, int64_t *out)
{
    Buf text;
    if (!e->in->guess || v.kind != V_EXPR || !size_is(v.u.expr) || !size_hint(v.u.expr, out))
        return false;
    bool boolean = v.u.expr->type == DT_BOOL;
    Value same = v;
    buf_init(&text, e->arena);
    value_print(&v, &text);
    if (boolean) buf_printf(&text, " is %s", *out ? "false" : "true");
    else buf_printf(&text, " is not %lld", (long long)*out);
    if (!boolean && !eval_binary(e, loc, N_EQ, v, value_int(*out), &same)) return false;
    if (boolean && !*out && !eval_unary(e, loc, N_NOT, v, &same)) return false;
    return eval_demand(e, loc, same, buf_text(&text));
}

DType promote_types(DType a, DType b)
{
    if (a == b) return a;
    const DTypeInfo *x = &dtypes[a], *y = &dtypes[b];
    if (x->class == DC_BOOL || y->class == DC_BOOL) return DT_NONE;
    if (x->class == DC_FLOAT && y->class == DC_FLOAT)
        return x->bits == y->bits ? DT_NONE : x->bits > y->bits ? a : b;
    if (x->class == DC_FLOAT || y->class == DC_FLOAT) return x->class == DC_FLOAT ? a : b;
    if (x->class == y->class) return x->bits > y->bits ? a : b;
    DType s = x->class == DC_INT ? a : b, u = x->class == DC_INT ? b : a;
    return dtypes[s].bits > dtypes[u].bits ? s : DT_NONE;
}

bool eval_promote(Eval *e, Loc loc, Value a, Value b, Node **x, Node **y)
{
    bool ka = value_is_known(&a), kb = value_is_known(&b);
    if (ka && !kb) {
        if (!eval_node(e, loc, b, y)) return false;
        DType t = (DType)(*y)->type;
        if (a.kind == V_FLOAT && dtype_is_int(t))
            return eval_fail(e, loc, "a real number and %s do not mix: convert with f32(...)",
                             dtypes[t].name);
        if (!eval_node_as(e, loc, a, t, x)) return false;
    } else if (kb && !ka) {
        if (!eval_promote(e, loc, b, a, y, x)) return false;
        return true;
    } else {
        if (!eval_node(e, loc, a, x) || !eval_node(e, loc, b, y)) return false;
        DType t = promote_types((DType)(*x)->type, (DType)(*y)->type);
        if (t == DT_NONE)
            return eval_fail(e, loc, "%s and %s do not mix: convert one", dtypes[(*x)->type].name,
                             dtypes[(*y)->type].name);
        *x = node_fold(e->arena, node_cast(e->arena, t, *x));
        *y = node_fold(e->arena, node_cast(e->arena, t, *y));
    }
    int lanes = (*x)->lanes > (*y)->lanes ? (*x)->lanes : (*y)->lanes;
    if (((*x)->lanes != lanes && (*x)->lanes != 1) || ((*y)->lanes != lanes && (*y)->lanes != 1))
        return eval_fail(e, loc, "vectors of %d and %d lanes do not mix", (*x)->lanes, (*y)->lanes);
    *x = node_widen(e->arena, *x, lanes);
    *y = node_widen(e->arena, *y, lanes);
    return true;
}

static bool int_binary(Eval *e, Loc loc, NodeKind op, int64_t a, int64_t b, Value *out)
{
    int64_t r = 0;
    bool ok = true;
    switch (op) {
    case N_ADD: ok = add_i64(a, b, &r); break;
    case N_SUB: ok = sub_i64(a, b, &r); break;
    case N_MUL: ok = mul_i64(a, b, &r); break;
    case N_DIV:
    case N_MOD:
        if (b == 0) return eval_fail(e, loc, "division by zero");
        r = op == N_DIV ? floor_div_i64(a, b) : floor_mod_i64(a, b);
        break;
    case N_POW:
        if (b < 0) {
            *out = value_float(pow((double)a, (double)b));
            return true;
        }
        r = 1;
        for (int64_t i = 0; ok && i < b && i < 64 + (a >= -1 && a <= 1 ? 1 : 0); i++)
            ok = mul_i64(r, a, &r);
        break;
    case N_MIN: r = min_i64(a, b); break;
    case N_MAX: r = max_i64(a, b); break;
    case N_SHL: ok = b >= 0 && b < 63 && mul_i64(a, (int64_t)1 << b, &r); break;
    case N_SHR:
        ok = b >= 0 && b < 64;
        r = ok ? a >> b : 0;
        break;
    case N_BAND: r = a & b; break;
    case N_BOR: r = a | b; break;
    case N_BXOR: r = a ^ b; break;
    case N_EQ: *out = value_bool(a == b); return true;
    case N_NE: *out = value_bool(a != b); return true;
    case N_LT: *out = value_bool(a < b); return true;
    case N_LE: *out = value_bool(a <= b); return true;
    case N_GT: *out = value_bool(a > b); return true;
    case N_GE: *out = value_bool(a >= b); return true;
    default: return eval_fail(e, loc, "%s is not defined on integers", node_info[op].spelling);
    }
    if (!ok)
        return eval_fail(e, loc, "%lld %s %lld overflows 64 bits", (long long)a,
                         node_info[op].spelling, (long long)b);
    *out = value_int(r);
    return true;
}

static bool float_binary(Eval *e, Loc loc, NodeKind op, double a, double b, Value *out)
{
    switch (op) {
    case N_ADD: *out = value_float(a + b); return true;
    case N_SUB: *out = value_float(a - b); return true;
    case N_MUL: *out = value_float(a * b); return true;
    case N_DIV: *out = value_float(a / b); return true;
    case N_POW: *out = value_float(pow(a, b)); return true;
    case N_MIN: *out = value_float(isnan(a) || isnan(b) ? NAN : fmin(a, b)); return true;
    case N_MAX: *out = value_float(isnan(a) || isnan(b) ? NAN : fmax(a, b)); return true;
    case N_EQ: *out = value_bool(a == b); return true;
    case N_NE: *out = value_bool(a != b); return true;
    case N_LT: *out = value_bool(a < b); return true;
    case N_LE: *out = value_bool(a <= b); return true;
    case N_GT: *out = value_bool(a > b); return true;
    case N_GE: *out = value_bool(a >= b); return true;
    default: return eval_fail(e, loc, "%s is not defined on real numbers", node_info[op].spelling);
    }
}

static bool tuple_binary(Eval *e, Loc loc, NodeKind op, Value a, Value b, Value *out)
{
    if (op == N_EQ || op == N_NE) {
        bool same = value_equal(&a, &b);
        *out = value_bool(same == (op == N_EQ));
        return true;
    }
    bool ta = a.kind == V_TUPLE, tb = b.kind == V_TUPLE;
    int n = ta ? a.u.tuple.n : b.u.tuple.n;
    if (ta && tb && a.u.tuple.n != b.u.tuple.n)
        return eval_fail(e, loc, "%s of packs with %d and %d elements", node_info[op].spelling,
                         a.u.tuple.n, b.u.tuple.n);
    *out = value_tuple(e->arena, n, NULL);
    for (int i = 0; i < n; i++)
        if (!eval_binary(e, loc, op, ta ? a.u.tuple.at[i] : a, tb ? b.u.tuple.at[i] : b,
                         &out->u.tuple.at[i]))
            return false;
    return true;
}

// * composes mappings and layouts, + concatenates layouts. false with *handled false: not of these
// kinds.
static bool structure_binary(Eval *e, Loc loc, NodeKind op, Value a, Value b, Value *out,
                             bool *handled)
{
    const char *why = NULL;
    *handled = true;
    if (a.kind == V_MAPPING && b.kind == V_MAPPING && op == N_MUL) {
        *out =
            (Value){.kind = V_MAPPING, .u.map = mapping_compose(e->arena, a.u.map, b.u.map, &why)};
        return out->u.map || eval_fail(e, loc, "%s", why);
    }
    if (a.kind == V_LAYOUT && b.kind == V_LAYOUT && (op == N_MUL || op == N_ADD)) {
        const Layout *l = op == N_MUL ? layout_compose(e->arena, a.u.layout, b.u.layout, &why)
                                      : layout_concat(e->arena, a.u.layout, b.u.layout, &why);
        *out = (Value){.kind = V_LAYOUT, .u.layout = l};
        return l || eval_fail(e, loc, "%s", why);
    }
    *handled = false;
    return false;
}

static bool bool_binary(Eval *e, Loc loc, NodeKind op, Value a, Value b, Value *out)
{
    bool x = a.u.i, y = b.u.i;
    switch (op) {
    case N_LAND:
    case N_BAND: *out = value_bool(x && y); return true;
    case N_LOR:
    case N_BOR: *out = value_bool(x || y); return true;
    case N_EQ: *out = value_bool(x == y); return true;
    case N_NE:
    case N_BXOR: *out = value_bool(x != y); return true;
    default: return eval_fail(e, loc, "%s is not defined on bools", node_info[op].spelling);
    }
}

// x ** n by squaring for a small known n; otherwise the library's pow.
static bool power(Eval *e, Loc loc, Value a, Value b, Value *out)
{
    if (b.kind == V_INT && b.u.i >= 1 && b.u.i <= 16) {
        Value x = eval_pin(e, "x", a), r = x;
        int64_t n = b.u.i, bit = 1;
        while (bit * 2 <= n) bit *= 2;
        for (bit /= 2; bit; bit /= 2)
            if (!eval_binary(e, loc, N_MUL, r, r, &r) ||
                ((n & bit) && !eval_binary(e, loc, N_MUL, r, x, &r)))
                return false;
        *out = r;
        return true;
    }
    Node *fn = map_get(&e->lib->fns, eval_sym(e, "pow")), *x, *y;
    if (!fn) return eval_fail(e, loc, "** needs the function 'pow', which no loaded text declares");
    if (!eval_promote(e, loc, a, b, &x, &y)) return false;
    Value args[2] = {value_expr(x), value_expr(y)};
    return eval_call_fn(e, loc, fn, 2, args, out);
}

static bool logic(Eval *e, Loc loc, NodeKind op, Value a, Value b, Value *out)
{
    Value known = a.kind == V_BOOL ? a : b, other = a.kind == V_BOOL ? b : a;
    if (known.kind == V_BOOL) { // the unknown side decides, or is not needed
        *out = (op == N_LAND) == (known.u.i != 0) ? other : known;
        return true;
    }
    Node *x, *y;
    if (!eval_node(e, loc, a, &x) || !eval_node(e, loc, b, &y)) return false;
    if (x->type != DT_BOOL || y->type != DT_BOOL)
        return eval_fail(e, loc, "%s needs bools", node_info[op].spelling);
    *out = value_expr(node_fold(e->arena, node_binary(e->arena, op, x, y)));
    return true;
}

// What the bounds of dimensions decide of a size, and quotients without a remainder.
static Node *decided(Eval *e, Node *n)
{
    bool sum = n->kind == N_ADD || n->kind == N_SUB || n->kind == N_MUL;
    return sum || n->nkid != 2 || !size_is(n) ? n : size_simplify(e->arena, n);
}

bool eval_binary(Eval *e, Loc loc, NodeKind op, Value a, Value b, Value *out)
{
    if (a.kind == V_TUPLE || b.kind == V_TUPLE) return tuple_binary(e, loc, op, a, b, out);
    if (a.kind == V_BOOL && b.kind == V_BOOL) return bool_binary(e, loc, op, a, b, out);
    if (op == N_LAND || op == N_LOR) return logic(e, loc, op, a, b, out);
    if (a.kind == V_INT && b.kind == V_INT) return int_binary(e, loc, op, a.u.i, b.u.i, out);
    if ((a.kind == V_INT || a.kind == V_FLOAT) && (b.kind == V_INT || b.kind == V_FLOAT))
        return float_binary(e, loc, op, a.kind == V_INT ? (double)a.u.i : a.u.f,
                            b.kind == V_INT ? (double)b.u.i : b.u.f, out);
    bool handled;
    bool composed = structure_binary(e, loc, op, a, b, out, &handled);
    if (handled) return composed;
    if ((op == N_EQ || op == N_NE) && a.kind == b.kind && a.kind != V_EXPR && a.kind != V_TENSOR &&
        a.kind != V_RING) {
        *out = value_bool(value_equal(&a, &b) == (op == N_EQ));
        return true;
    }
    if (op == N_POW) return power(e, loc, a, b, out);
    if (op == N_MOD && a.kind == V_EXPR && a.u.expr->type == DT_I64 && a.u.expr->lanes == 1 &&
        b.kind == V_INT && b.u.i > 0 && node_divisor(a.u.expr) % b.u.i == 0) {
        *out = value_int(0); // a fact about a dimension
        return true;
    }
    Node *x, *y;
    if (!eval_promote(e, loc, a, b, &x, &y)) return false;
    DType t = (DType)x->type;
    bool compares =
        op == N_EQ || op == N_NE || op == N_LT || op == N_LE || op == N_GT || op == N_GE;
    bool bits = op == N_BAND || op == N_BOR || op == N_BXOR || op == N_SHL || op == N_SHR;
    if (t == DT_BOOL && !compares && (!bits || op == N_SHL || op == N_SHR))
        return eval_fail(e, loc, "%s is not defined on bools", node_info[op].spelling);
    if (dtypes[t].bits < 8 && !compares)
        return eval_fail(e, loc, "%s is not defined on %s: convert it first",
                         node_info[op].spelling, dtypes[t].name);
    if (bits && dtype_is_float(t))
        return eval_fail(e, loc, "%s is not defined on %s", node_info[op].spelling, dtypes[t].name);
    Node *r = op == N_GT   ? node_binary(e->arena, N_LT, y, x)
              : op == N_GE ? node_binary(e->arena, N_LE, y, x)
                           : node_binary(e->arena, op, x, y);
    r->loc = loc;
    *out = value_expr(decided(e, node_fold(e->arena, r)));
    return true;
}

bool eval_unary(Eval *e, Loc loc, NodeKind op, Value a, Value *out)
{
    if (a.kind == V_TUPLE) {
        *out = value_tuple(e->arena, a.u.tuple.n, NULL);
        for (int i = 0; i < a.u.tuple.n; i++)
            if (!eval_unary(e, loc, op, a.u.tuple.at[i], &out->u.tuple.at[i])) return false;
        return true;
    }
    if (a.kind == V_BOOL && op == N_NOT) {
        *out = value_bool(!a.u.i);
        return true;
    }
    if (a.kind == V_INT && (op == N_BNOT || (op == N_NEG && a.u.i != INT64_MIN))) {
        *out = value_int(op == N_NEG ? -a.u.i : ~a.u.i);
        return true;
    }
    if (a.kind == V_FLOAT && op == N_NEG) {
        *out = value_float(-a.u.f);
        return true;
    }
    Node *x;
    if (!eval_node(e, loc, a, &x)) return false;
    bool ok = op == N_NOT    ? x->type == DT_BOOL
              : op == N_BNOT ? dtype_is_int((DType)x->type)
                             : x->type != DT_BOOL;
    if (!ok || (dtypes[x->type].bits < 8 && op != N_NOT))
        return eval_fail(e, loc, "%s is not defined on %s", node_info[op].spelling,
                         dtypes[x->type].name);
    Node *r = node_unary(e->arena, op, x);
    r->loc = loc;
    *out = value_expr(node_fold(e->arena, r));
    return true;
}

bool eval_select(Eval *e, Loc loc, Value cond, Value a, Value b, Value *out)
{
    if (cond.kind == V_BOOL) {
        *out = cond.u.i ? a : b;
        return true;
    }
    if (a.kind == V_TUPLE && b.kind == V_TUPLE && a.u.tuple.n == b.u.tuple.n) {
        *out = value_tuple(e->arena, a.u.tuple.n, NULL);
        for (int i = 0; i < a.u.tuple.n; i++)
            if (!eval_select(e, loc, cond, a.u.tuple.at[i], b.u.tuple.at[i], &out->u.tuple.at[i]))
                return false;
        return true;
    }
    Node *c, *x, *y;
    if (!eval_node(e, loc, cond, &c) || !eval_promote(e, loc, a, b, &x, &y)) return false;
    if (c->type != DT_BOOL)
        return eval_fail(e, loc, "the condition is %s, not a bool", dtypes[c->type].name);
    c = node_widen(e->arena, c, x->lanes > c->lanes ? x->lanes : c->lanes);
    *out =
        value_expr(node_fold(e->arena, node_select(e->arena, c, node_widen(e->arena, x, c->lanes),
                                                   node_widen(e->arena, y, c->lanes))));
    return true;
}

static Value pin_range(Eval *e, const char *name, Value v)
{
    Value *at = NEW_ARRAY(e->arena, Value, 3);
    at[0] = eval_pin(e, name, *v.u.range.lo);
    at[1] = eval_pin(e, name, *v.u.range.hi);
    at[2] = *v.u.range.step;
    v.u.range.lo = &at[0];
    v.u.range.hi = &at[1];
    v.u.range.step = &at[2];
    return v;
}

// The definition of a new variable of x's value, not emitted yet.
static Node *definition(Eval *e, const char *name, Node *x)
{
    Var *var = kernel_var(e->kernel, name, (DType)x->type, false);
    var->lanes = x->lanes;
    var->loc = x->loc;
    int64_t lo, hi;
    if (dtype_is_int((DType)x->type)) {
        if (node_bounds(x, &lo, &hi)) var->lo = lo, var->hi = hi;
        var->divisor = node_divisor(x);
    }
    Node *def = node_new(e->arena, N_DEFINE, x->loc, 1);
    def->u.var = var;
    def->kid[0] = x;
    return def;
}

Value eval_pin(Eval *e, const char *name, Value v)
{
    if (v.kind == V_TUPLE) {
        Value t = value_tuple(e->arena, v.u.tuple.n, NULL);
        for (int i = 0; i < v.u.tuple.n; i++) t.u.tuple.at[i] = eval_pin(e, name, v.u.tuple.at[i]);
        return t;
    }
    if (v.kind == V_RANGE) return pin_range(e, name, v);
    if (v.kind == V_TASKS && !node_pure(v.u.tasks.worker)) {
        Value w = eval_pin(e, name, value_expr(v.u.tasks.worker));
        if (w.kind == V_EXPR) v.u.tasks.worker = w.u.expr;
        return v;
    }
    if (v.kind != V_EXPR || !e->out || v.u.expr->kind == N_INT || v.u.expr->kind == N_FLOAT)
        return v;
    // Extents of memory are made of sizes, and variables are none.
    if (size_is(v.u.expr)) return v;
    if (v.u.expr->kind == N_VARREF && !v.u.expr->u.var->mutable) return v;
    Node *def = definition(e, name, v.u.expr);
    eval_emit(e, def);
    return value_expr(node_var(e->arena, v.u.expr->loc, def->u.var));
}

int eval_mark(const Eval *e)
{
    return e->out ? e->out->list.n : 0;
}

static bool changes_nothing(const Node *stmt)
{
    return stmt->kind == N_DEFINE &&
           (stmt->kid[0]->kind != N_INTRIN || !strchr(stmt->kid[0]->u.intr->flags, 'E'));
}

Value eval_keep(Eval *e, int mark, Value v)
{
    bool changes = false;
    for (int i = mark; e->out && !changes && i < e->out->list.n; i++)
        changes = !changes_nothing(e->out->list.at[i]);
    if (!changes) return v;
    if (v.kind == V_TUPLE) {
        Value t = value_tuple(e->arena, v.u.tuple.n, NULL);
        for (int i = 0; i < v.u.tuple.n; i++) t.u.tuple.at[i] = eval_keep(e, mark, v.u.tuple.at[i]);
        return t;
    }
    if (v.kind != V_EXPR || node_pure(v.u.expr)) return v;
    Node *def = definition(e, "v", v.u.expr);
    eval_emit(e, def); // makes room
    Node **at = e->out->list.at;
    memmove(at + mark + 1, at + mark, (size_t)(e->out->list.n - 1 - mark) * sizeof(Node *));
    at[mark] = def;
    return value_expr(node_var(e->arena, v.u.expr->loc, def->u.var));
}
