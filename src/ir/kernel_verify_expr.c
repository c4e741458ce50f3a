// SPDX-License-Identifier: Apache-2.0
// The rules of expressions: types agree, names are in scope, ranks match, intrinsics get what their
// row asks for.
#include "ir/kernel_verify.h"

#include "ir/fragment.h"

#include "ir/scalar.h"

#include <string.h>

const char *verify_name(const Node *n)
{
    return n ? node_info[n->kind].name : "nothing";
}

bool verify_in_scope(const Verifier *v, const void *object)
{
    return map_get(&v->bound, object) != NULL;
}

const char *verify_type_text(const Verifier *v, const Node *n)
{
    return n->lanes == 1 ? dtypes[n->type].name
                         : arena_printf(v->arena, "%sx%d", dtypes[n->type].name, n->lanes);
}

static bool same_type(const Node *a, const Node *b)
{
    return a->type == b->type && a->lanes == b->lanes;
}

static void need_same(Verifier *v, const Node *n, const Node *a, const Node *b)
{
    if (same_type(a, b)) return;
    WRONG(v, n, "%s: types differ (%s, %s)", verify_name(n), verify_type_text(v, a),
          verify_type_text(v, b));
}

void verify_scalar(Verifier *v, const Node *n, const Node *x, DType type, const char *what)
{
    if (x->type == type && x->lanes == 1) return;
    WRONG(v, n, "%s: %s is %s, not %s", verify_name(n), what, verify_type_text(v, x),
          dtypes[type].name);
}

static bool is_place(const Node *n)
{
    return n->kind == N_REF || n->kind == N_SPAN;
}

// An expression that gives a value.
void verify_value(Verifier *v, const Node *n)
{
    if (node_info[n->kind].class != CLASS_E || is_place(n) || n->kind == N_STRING) {
        WRONG(v, n, "%s where a value is expected", verify_name(n));
        return;
    }
    verify_expr(v, n);
    if (n->type == DT_NONE) WRONG(v, n, "%s where a value is expected", verify_name(n));
}

void verify_values(Verifier *v, Node *const *kid, int n)
{
    for (int i = 0; i < n; i++) verify_value(v, kid[i]);
}

static bool admits(NodeOperands o, DType t)
{
    bool is_int = dtype_is_int(t);
    switch (o) {
    case OPERANDS_NUMBERS: return is_int || dtype_is_float(t);
    case OPERANDS_INTS: return is_int;
    case OPERANDS_BITS: return is_int || t == DT_BOOL;
    case OPERANDS_BOOLS: return t == DT_BOOL;
    default: return t != DT_NONE;
    }
}

static void check_operator(Verifier *v, const Node *n, NodeOperands o)
{
    bool gives_bool = o == OPERANDS_BOOLS || o == OPERANDS_ALIKE;
    verify_values(v, n->kid, (int)n->nkid);
    const Node *x = n->kid[0];
    if (!admits(o, (DType)x->type)) {
        WRONG(v, n, "%s is not defined on %s", verify_name(n), verify_type_text(v, x));
    }
    if (n->nkid == 2) need_same(v, n, x, n->kid[1]);
    if (n->type != (gives_bool ? (DType)DT_BOOL : (DType)x->type) || n->lanes != x->lanes) {
        WRONG(v, n, "%s of %s has type %s", verify_name(n), verify_type_text(v, x),
              verify_type_text(v, n));
    }
}

static void check_constant(Verifier *v, const Node *n)
{
    Scalar s;
    if (!scalar_of(n, &s) || n->lanes != 1) {
        WRONG(v, n, "%s of type %s", verify_name(n), verify_type_text(v, n));
    } else if (n->kind == N_INT && s.v.i != n->u.i) {
        WRONG(v, n, "INT %lld does not fit %s", (long long)n->u.i, dtypes[n->type].name);
    } else if (n->kind == N_FLOAT && n->u.f == n->u.f && s.v.f != n->u.f) {
        WRONG(v, n, "FLOAT %g is no value of %s", n->u.f, dtypes[n->type].name);
    }
}

static void check_varref(Verifier *v, const Node *n)
{
    const Var *var = n->u.var;
    if (!verify_in_scope(v, var)) WRONG(v, n, "%s is not in scope", var->name);
    if (n->type != var->type || n->lanes != var->lanes) {
        WRONG(v, n, "%s read as %s", var->name, verify_type_text(v, n));
    }
    if (var->builtin == VAR_LANE && !v->nlane && !v->kernel->lowered)
        WRONG(v, n, "lane read outside a loop over lanes");
}

static void check_select(Verifier *v, const Node *n)
{
    verify_values(v, n->kid, 3);
    const Node *cond = n->kid[0];
    if (cond->type != DT_BOOL || (cond->lanes != 1 && cond->lanes != n->lanes)) {
        WRONG(v, n, "SELECT: condition is %s", verify_type_text(v, cond));
    }
    need_same(v, n, n->kid[1], n->kid[2]);
    need_same(v, n, n, n->kid[1]);
}

static void check_conversion(Verifier *v, const Node *n)
{
    verify_value(v, n->kid[0]);
    const Node *x = n->kid[0];
    bool fits = n->kind == N_CAST
                    ? n->lanes == x->lanes
                    : dtypes[n->type].bits * n->lanes == dtypes[x->type].bits * x->lanes;
    if (!fits || n->type == DT_NONE || x->type == DT_NONE) {
        WRONG(v, n, "%s from %s to %s", verify_name(n), verify_type_text(v, x),
              verify_type_text(v, n));
    }
}

static void check_vector(Verifier *v, const Node *n)
{
    verify_values(v, n->kid, (int)n->nkid);
    const Node *x = n->kid[0];
    bool ok = n->type == x->type;
    if (n->kind == N_EXTRACT) {
        ok = ok && n->lanes == 1;
        verify_scalar(v, n, n->kid[1], DT_I64, "lane");
    } else {
        ok = ok && x->lanes == 1 && n->lanes >= 1 &&
             (n->kind == N_BROADCAST || admits(OPERANDS_INTS, x->type));
    }
    if (!ok)
        WRONG(v, n, "%s of %s has type %s", verify_name(n), verify_type_text(v, x),
              verify_type_text(v, n));
}

// The indices of a LOAD, STORE or REF; the lanes that it moves.
static int check_indices(Verifier *v, const Node *n)
{
    const Buffer *b = n->u.buf;
    int rank = b->flat ? 1 : b->rank, lanes = 1;
    if (!verify_in_scope(v, b)) WRONG(v, n, "memory %s is not in scope", b->name);
    if (NREST(n) != rank) {
        WRONG(v, n, "%s of %s: %d indices for rank %d", verify_name(n), b->name, NREST(n), rank);
    }
    for (int i = 0; i < NREST(n); i++) {
        const Node *index = ((Node *)n)->kid[node_info[n->kind].nfixed + i];
        if (index->kind == N_SPAN && n->kind == N_REF) {
            verify_values(v, index->kid, 2);
            verify_scalar(v, n, index->kid[0], DT_I64, "start of a span");
            verify_scalar(v, n, index->kid[1], DT_I64, "length of a span");
            continue;
        }
        verify_value(v, index);
        if (index->type != DT_I64)
            WRONG(v, index, "index of %s is %s", b->name, verify_type_text(v, index));
        if (index->lanes != 1 && lanes != 1 && index->lanes != lanes) {
            WRONG(v, index, "indices of %s differ in lanes", b->name);
        }
        if (index->lanes > lanes) lanes = index->lanes;
    }
    return lanes;
}

void verify_access(Verifier *v, const Node *n, const Node *value)
{
    const Buffer *b = n->u.buf;
    int lanes = check_indices(v, n);
    if (b->is_mbarrier) WRONG(v, n, "%s of the mbarrier %s", verify_name(n), b->name);
    if (value->type == b->type && value->lanes == lanes) return;
    WRONG(v, n, "%s of %s, whose elements are %s, in %d lanes has type %s", verify_name(n), b->name,
          dtypes[b->type].name, lanes, verify_type_text(v, value));
}

static void check_load(Verifier *v, const Node *n)
{
    verify_access(v, n, n);
    if (n->kind != N_LOAD_ELSE) return;
    verify_value(v, n->kid[0]);
    need_same(v, n, n, n->kid[0]);
}

// ---- intrinsics

// One argument against its letter in the row; `first` is the first value among them so far.
static void check_argument(Verifier *v, const Node *n, char kind, const Node *x, const Node **first)
{
    const char *name = n->u.intr->name;
    if (kind == 'r') {
        if (x->kind != N_REF) {
            WRONG(v, x, "%s: %s where a place is expected", name, verify_name(x));
        } else {
            check_indices(v, x);
        }
        return;
    }
    if (kind == '*' && (x->kind == N_STRING || x->kind == N_REF)) {
        if (x->kind == N_REF) check_indices(v, x);
        return;
    }
    verify_value(v, x);
    if (kind == 'i' && (x->type != DT_I64 || x->lanes != 1)) {
        WRONG(v, x, "%s: argument is %s, not i64", name, verify_type_text(v, x));
    }
    if (kind != 'v') return;
    if (!*first) *first = x;
    need_same(v, n, *first, x);
}

static DType result_type(const char *type, const Node *first)
{
    if (!strcmp(type, ".")) return DT_NONE;
    if (!strcmp(type, "b")) return DT_BOOL;
    if (!strcmp(type, "i")) return DT_I64;
    if (!strcmp(type, "v")) return first ? (DType)first->type : DT_NONE;
    return dtype_from_name(type);
}

// The type of the first value is one that the intrinsic is defined on.
static bool defined_on(const Node *n, const Node *first)
{
    IntrinsicId id = intrinsic_id(n->u.intr);
    Scalar one = {.type = (DType)first->type}, x[SCALAR_MAX_OPERANDS] = {one, one, one}, out;
    if (id == INTR_BALLOT) return first->type == DT_BOOL;
    if (id == INTR_ATOMIC_MAX) return dtype_is_int((DType)first->type);
    if (id == INTR_LANE_SUM || id == INTR_ATOMIC_ADD) return first->type != DT_BOOL;
    return !strchr(n->u.intr->flags, 'P') || scalar_intrinsic(id, x, &out);
}

static void check_intrin(Verifier *v, const Node *n)
{
    const Intrinsic *row = n->u.intr;
    size_t fixed = strcspn(row->args, "*");
    if (n->nkid < fixed || (!row->args[fixed] && n->nkid > fixed)) {
        WRONG(v, n, "%s with %u arguments", row->name, n->nkid);
        return;
    }
    const Node *first = NULL, *place = NULL;
    for (uint32_t i = 0; i < n->nkid; i++) {
        check_argument(v, n, i < fixed ? row->args[i] : '*', n->kid[i], &first);
        if (!place && n->kid[i]->kind == N_REF) place = n->kid[i];
    }
    if (first && !defined_on(n, first)) {
        WRONG(v, n, "%s is not defined on %s", row->name, verify_type_text(v, first));
    }
    if (first && place && place->u.buf->type != first->type) {
        WRONG(v, n, "%s: %s at a place of %s", row->name, verify_type_text(v, first),
              dtypes[place->u.buf->type].name);
    }
    for (uint32_t i = 0; i < fixed; i++)
        if (row->args[i] == 'r' && n->kid[i]->kind != N_REF) return;
    const char *wrong = fragment_wrong(v->arena, n);
    if (wrong) WRONG(v, n, "%s", wrong);
    int lanes = !first || strcmp(row->type, "v")     ? n->lanes
                : intrinsic_id(row) == INTR_LANE_SUM ? 1
                                                     : first->lanes;
    if (n->type != result_type(row->type, first) || n->lanes != lanes) {
        WRONG(v, n, "%s gives %s here", row->name, verify_type_text(v, n));
    }
}

// ---- all expressions

bool verify_complete(Verifier *v, const Node *n)
{
    const NodeInfo *info = &node_info[n->kind];
    if (n->kind == N_NONE || n->kind >= N_COUNT || info->form == FORM_T) {
        WRONG(v, n, "%s does not belong into kernel IR", verify_name(n));
        return false;
    }
    for (int i = 0; i < (int)n->nkid; i++) {
        if (n->kid[i] || (i < info->nfixed && (info->optional >> i & 1))) continue;
        WRONG(v, n, "%s lacks child %d of %s", info->name, i, info->children);
        return false;
    }
    return true;
}

void verify_expr(Verifier *v, const Node *n)
{
    if (!verify_complete(v, n)) return;
    NodeOperands operands = node_info[n->kind].operands;
    if (operands == OPERANDS_ONE) check_conversion(v, n);
    else if (operands) check_operator(v, n, operands);
    if (operands) return;
    switch (n->kind) {
    case N_INT:
    case N_FLOAT: check_constant(v, n); break;
    case N_VARREF: check_varref(v, n); break;
    case N_SELECT: check_select(v, n); break;
    case N_RAMP:
    case N_BROADCAST:
    case N_EXTRACT: check_vector(v, n); break;
    case N_LOAD:
    case N_LOAD_ELSE: check_load(v, n); break;
    case N_INTRIN: check_intrin(v, n); break;
    default: WRONG(v, n, "%s where an expression is expected", verify_name(n)); break;
    }
}
