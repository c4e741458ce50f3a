// SPDX-License-Identifier: Apache-2.0
// Names that need no declaration: element types, constants, workers (thread, block, lane), the
// device, and what follows a dot.
#include "lang/eval.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct KnownMath {
    const char *name;
    double (*one)(double);
    bool whole; // of an integer it is one: itself, or its magnitude
} KnownMath;

static const KnownMath known_math[] = {
    {"sqrt", sqrt, false}, {"exp", exp, false},    {"log", log, false},  {"log2", log2, false},
    {"tanh", tanh, false}, {"erf", erf, false},    {"sin", sin, false},  {"cos", cos, false},
    {"abs", fabs, true},   {"floor", floor, true}, {"ceil", ceil, true}, {"trunc", trunc, false},
    {"rint", rint, false},
};

static const KnownMath *math_of(const char *name)
{
    for (size_t i = 0; i < COUNT(known_math); i++)
        if (strcmp(known_math[i].name, name) == 0) return &known_math[i];
    return NULL;
}

bool builtin_known_math(const char *name)
{
    return math_of(name) != NULL;
}

bool builtin_known_math_apply(const char *name, int n, const Value *at, Value *out)
{
    if (n != 1 || (at[0].kind != V_INT && at[0].kind != V_FLOAT)) return false;
    const KnownMath *m = math_of(name);
    int64_t i = at[0].u.i;
    if (at[0].kind == V_FLOAT) *out = value_float(m->one(at[0].u.f));
    else if (!m->whole) *out = value_float(m->one((double)i));
    else *out = value_int(m->one == fabs && i < 0 ? (int64_t)(0 - (uint64_t)i) : i);
    return true;
}

static bool worker(Eval *e, Loc loc, Builtin b, const char *name, int64_t hi, Value *out)
{
    if (!e->stage) return eval_fail(e, loc, "'%s' is known inside a stage only", name);
    Var *v = e->stage->builtin[b];
    if (!v) {
        v = kernel_var(e->kernel, name, DT_I64, false);
        v->builtin = b;
        v->lo = 0;
        v->hi = hi;
        e->stage->builtin[b] = v;
    }
    *out = value_expr(node_var(e->arena, loc, v));
    return true;
}

static int64_t extent_of(const Node *n)
{
    return n && n->kind == N_INT ? n->u.i - 1 : INT64_MAX / 4;
}

static bool thread(Eval *e, Loc loc, Value *out)
{
    return worker(e, loc, VAR_THREAD, "thread",
                  e->stage && e->stage->block ? extent_of(e->stage->block) : 0, out);
}

static bool part_of_thread(Eval *e, Loc loc, NodeKind op, int64_t by, Value *out)
{
    Value t;
    return thread(e, loc, &t) && eval_binary(e, loc, op, t, value_int(by), out);
}

typedef struct Constant {
    const char *name;
    enum { C_FLOAT, C_THREAD, C_WARP, C_WARPGROUP, C_LANE, C_CORE, C_BLOCK, C_SPACE } what;
    double f;
} Constant;

static const Constant constants[] = {
    {"pi", C_FLOAT, 3.14159265358979323846},
    {"inf", C_FLOAT, INFINITY},
    {"nan", C_FLOAT, NAN},
    {"thread", C_THREAD, 0},
    {"warp", C_WARP, 0},
    {"warpgroup", C_WARPGROUP, 0},
    {"lane", C_LANE, 0},
    {"core", C_CORE, 0},
    {"block", C_BLOCK, 0},
    {"device", C_SPACE, 0},
};

static bool lane(Eval *e, Loc loc, Value *out)
{
    if (e->kernel->target.kind == TARGET_CUDA) return part_of_thread(e, loc, N_MOD, 32, out);
    if (!e->nlane && !e->naming_worker)
        return eval_fail(e, loc, "a lane is known inside a loop over lanes only, as in map(lane)");
    return worker(e, loc, VAR_LANE, "lane", INT64_MAX / 4, out);
}

bool builtin_constant(Eval *e, Sym name, Loc loc, Value *out, bool *found)
{
    *found = true;
    DType t = dtype_from_name(name);
    if (t != DT_NONE) {
        *out = value_dtype(t);
        return true;
    }
    const char *x = strrchr(name, 'x'); // f32x4
    char base[16];
    if (x && isdigit((unsigned char)x[1]) && (size_t)(x - name) < sizeof base) {
        memcpy(base, name, (size_t)(x - name));
        base[x - name] = 0;
        long lanes = strtol(x + 1, NULL, 10);
        t = dtype_from_name(base);
        if (t != DT_NONE && lanes >= 1 && lanes <= 64 && (lanes & (lanes - 1)) == 0) {
            *out = value_dtype(t);
            out->u.dtype.lanes = (int)lanes;
            return true;
        }
    }
    for (size_t i = 0; i < COUNT(constants); i++) {
        if (strcmp(constants[i].name, name) != 0) continue;
        switch (constants[i].what) {
        case C_FLOAT: *out = value_float(constants[i].f); return true;
        case C_THREAD: return thread(e, loc, out);
        case C_WARP: return part_of_thread(e, loc, N_DIV, 32, out);
        case C_WARPGROUP: return part_of_thread(e, loc, N_DIV, 128, out);
        case C_LANE: return lane(e, loc, out);
        case C_CORE: return worker(e, loc, VAR_CORE, "core", INT64_MAX / 4, out);
        case C_BLOCK:
        case C_SPACE: *out = (Value){.kind = V_FUNCTION, .loc = loc, .u.str = name}; return true;
        }
    }
    *found = false;
    return true;
}

static bool block_field(Eval *e, Loc loc, Sym f, Value *out)
{
    int axis = f[0] >= 'x' && f[0] <= 'z' && !f[1] ? f[0] - 'x' : -1;
    if (axis < 0) return eval_fail(e, loc, "block has x, y and z, no '%s'", f);
    static const char *const names[] = {"block_x", "block_y", "block_z"};
    Node *extent = e->stage && axis < e->stage->ngrid ? e->stage->grid[axis] : NULL;
    int64_t lo, hi;
    if (!extent || !node_bounds(extent, &lo, &hi)) hi = extent ? INT64_MAX / 4 : 1;
    return worker(e, loc, (Builtin)(VAR_BLOCK_X + axis), names[axis], max_i64(hi - 1, 0), out);
}

static bool device_field(Eval *e, Loc loc, Sym f, Value *out)
{
    const Target *t = &e->kernel->target;
    const struct {
        const char *name;
        int64_t v;
    } fields[] = {
        {"max_threads", t->max_threads},
        {"cores", t->ncore},
        {"shared_bytes", t->shared_bytes},
        {"vector_bytes", t->vector_bytes},
        {"registers", t->nregister},
        {"l1_bytes", t->l1_bytes},
        {"l2_bytes", t->l2_bytes},
        {"l3_bytes", t->l3_bytes},
        {"tf32", t->tf32},
    };
    if (strcmp(f, "lanes") == 0) {
        *out = (Value){.kind = V_FUNCTION, .u.str = eval_sym(e, "device_lanes")};
        return true;
    }
    for (size_t i = 0; i < COUNT(fields); i++)
        if (strcmp(fields[i].name, f) == 0) {
            *out = value_int(fields[i].v);
            return true;
        }
    return eval_fail(e, loc, "the device has no '%s'", f);
}

// thread.x runs over the first extent of block(...) and varies slowest, as grids do.
static bool thread_field(Eval *e, Loc loc, Value t, Sym f, Value *out)
{
    int axis = f[0] >= 'x' && f[0] <= 'z' && !f[1] ? f[0] - 'x' : -1;
    if (axis < 0 || axis >= e->nblock_dims)
        return eval_fail(e, loc, "the block has %d axes, no '%s'", e->nblock_dims, f);
    Value dims = value_ints(e->arena, e->nblock_dims, e->block_dims), all;
    if (!values_unravel(e, loc, t, e->nblock_dims, dims.u.tuple.at, &all)) return false;
    *out = all.u.tuple.at[axis];
    return true;
}

static bool tuple_field(Eval *e, Loc loc, Value t, Sym f, Value *out)
{
    int n = t.u.tuple.n;
    if (strcmp(f, "lo") == 0 || strcmp(f, "hi") == 0) { // halves, as of ONNX pads
        *out = value_tuple(e->arena, n / 2, t.u.tuple.at + (f[0] == 'h' ? n / 2 : 0));
        return n % 2 == 0 || eval_fail(e, loc, "a pack of %d has no halves", n);
    }
    char *end;
    long i = strtol(f, &end, 10);
    if (*end || i < 0 || i >= n) return eval_fail(e, loc, "a tuple of %d has no '%s'", n, f);
    *out = t.u.tuple.at[i];
    return true;
}

bool eval_preference(Eval *e, Node *param, Preference *out)
{
    Node *call = KID(param, PARAM, prefer);
    bool plain = call->kind == N_NAME;
    Node *name = plain ? call : call->kind == N_CALL ? KID(call, CALL, callee) : NULL;
    if (!name || name->kind != N_NAME)
        return eval_fail(e, param->loc, "prefer layout names a layout and its arguments");
    Sym pack = eval_sym(e, arena_printf(e->arena, "pack_%s", name->u.sym));
    out->op = map_get(&e->lib->ops, pack);
    if (!out->op) return eval_fail(e, call->loc, "layout '%s' needs an op '%s'", name->u.sym, pack);
    Value args = value_tuple(e->arena, 0, NULL);
    Node *attrs = KID((Node *)out->op, OP, attrs);
    if (!plain && !eval_list(e, REST(call), NREST(call), &args)) return false;
    if (args.u.tuple.n > NREST(attrs))
        return eval_fail(e, call->loc, "'%s' has %d attributes", pack, NREST(attrs));
    out->unpack =
        map_get(&e->lib->ops, eval_sym(e, arena_printf(e->arena, "unpack_%s", name->u.sym)));
    out->attrs = (Map){0};
    for (int i = 0; i < args.u.tuple.n; i++)
        map_put(e->arena, &out->attrs, REST(attrs)[i]->u.sym, &args.u.tuple.at[i]);
    out->worth = value_int(0);
    Node *worth = KID(param, PARAM, worth);
    return !worth || eval_scalar(e, worth, &out->worth);
}

// b.panel where b is declared with `prefer layout panel(n)`.
static bool preferred(Eval *e, Loc loc, Tensor *t, Sym f, Value *out, bool *is)
{
    Node *prefer = t->param ? KID(t->param, PARAM, prefer) : NULL;
    Node *name = !prefer ? NULL : prefer->kind == N_CALL ? KID(prefer, CALL, callee) : prefer;
    *is = name && name->kind == N_NAME && name->u.sym == f;
    if (!*is) return true;
    Preference p;
    Value self = {.kind = V_TENSOR, .u.tensor = t};
    if (!t->packed && !t->repacked) {
        if (!eval_preference(e, t->param, &p)) return false;
        OpInst *inst = op_apply(e->in, loc, p.op, 1, &self, &p.attrs);
        if (!inst) return false;
        t->repacked = inst->results[0];
    }
    *out = (Value){.kind = V_TENSOR, .u.tensor = t->packed ? t->packed : t->repacked};
    return true;
}

static bool tensor_field(Eval *e, Loc loc, Tensor *t, Sym f, Value *out)
{
    bool is_preferred;
    if (!preferred(e, loc, t, f, out, &is_preferred)) return false;
    if (is_preferred) return true;
    if (strcmp(f, "packed") == 0)
        *out = value_bool(t->packed || (t->epilogue && t->epilogue->place));
    else if (strcmp(f, "of_rows") == 0) *out = value_bool(t->of_rows != NULL);
    else if (strcmp(f, "shape") == 0) *out = value_tuple(e->arena, t->rank, t->dims);
    else if (strcmp(f, "rank") == 0) *out = value_int(t->rank);
    else if (strcmp(f, "type") == 0) *out = value_dtype(t->type);
    else if (strcmp(f, "align") == 0)
        *out = value_int(max_i64(t->align_bytes, (int64_t)dtype_size(t->type)));
    else if (strcmp(f, "contiguous") == 0) *out = value_bool(t->buf && !t->buf->layout);
    else if (strcmp(f, "memory") == 0 && t->epilogue && t->epilogue->noutput && !t->epilogue->place)
        *out = (Value){.kind = V_MEMORY, .u.mem = t->epilogue->memory[0]};
    else if (strcmp(f, "leaf") == 0) {
        Tensor *leaf = tensor_leaf(t);
        if (!leaf)
            return eval_fail(e, loc, "'%s' has no single operand that shares its index map",
                             t->name);
        *out = (Value){.kind = V_TENSOR, .u.tensor = leaf};
    } else return eval_fail(e, loc, "a tensor has no '%s'", f);
    return true;
}

static bool aligned(Eval *e, Loc loc, Tensor *t, Value bytes, Value *out)
{
    int64_t n;
    if (!eval_int(e, loc, bytes, "an alignment", &n)) return false;
    if (n < 1) return eval_fail(e, loc, "an alignment is at least 1");
    *out = value_bool(tensor_aligned(e, t, n));
    return true;
}

// a.apply(i..., v): the op of a applied to v at i. c.value(i..., v): the epilogue applied, its
// other outputs stored. c.rows(i...): the row is stored. a.aligned(n): a fact.
bool builtin_method(Eval *e, Node *call, Value base, Sym f, Value *out)
{
    static const char *const names[] = {"apply", "value", "rows", "aligned"};
    size_t which = 0;
    Value args;
    while (which < COUNT(names) && strcmp(f, names[which]) != 0) which++;
    if (base.kind != V_TENSOR || which == COUNT(names))
        return eval_fail(e, call->loc, "%s has no function '%s'", value_kind_name(base.kind), f);
    Tensor *t = base.u.tensor;
    if (!eval_list(e, REST(call), NREST(call), &args)) return false;
    const Value *at = args.u.tuple.at;
    int n = args.u.tuple.n;
    *out = value_none();
    if (which == 2) return rows_compute(e, call->loc, t, n, at);
    if (which == 3)
        return n == 1 ? aligned(e, call->loc, t, at[0], out)
                      : eval_fail(e, call->loc, "'aligned' takes a number of bytes");
    if (n - 1 != t->rank)
        return eval_fail(e, call->loc, "'%s' takes %d indices and a value", f, t->rank);
    return which == 0 ? tensor_apply(e, call->loc, t, n - 1, at, at[n - 1], NULL, out)
                      : tensor_value(e, call->loc, t, n - 1, at, at[n - 1], out);
}

static bool ring_field(Eval *e, Loc loc, Value r, Sym f, Value *out)
{
    Node *index = node_var(e->arena, loc, r.u.ring.index),
         *phase = node_var(e->arena, loc, r.u.ring.phase);
    if (strcmp(f, "phase") == 0) *out = value_expr(phase);
    else if (strcmp(f, "index") == 0) *out = value_expr(index);
    else if (strcmp(f, "next") == 0) {
        Value last, next, flipped;
        Node *set_phase = node_new(e->arena, N_SET, loc, 1),
             *set_index = node_new(e->arena, N_SET, loc, 1);
        if (!eval_binary(e, loc, N_EQ, value_expr(index), value_int(r.u.ring.n - 1), &last) ||
            !eval_binary(e, loc, N_BXOR, value_expr(phase), value_int(1), &flipped) ||
            !eval_select(e, loc, last, flipped, value_expr(phase), &flipped) ||
            !eval_binary(e, loc, N_ADD, value_expr(index), value_int(1), &next) ||
            !eval_select(e, loc, last, value_int(0), next, &next) ||
            !eval_index(e, loc, flipped, &set_phase->kid[0]) ||
            !eval_index(e, loc, next, &set_index->kid[0]))
            return false;
        set_phase->u.var = r.u.ring.phase;
        set_index->u.var = r.u.ring.index;
        eval_emit(e, set_phase);
        eval_emit(e, set_index);
        *out = value_none();
    } else return eval_fail(e, loc, "a ring has phase, index and next, no '%s'", f);
    return true;
}

// A tensor of no axes is a number wherever it is named; it still has a shape.
static bool number_field(Eval *e, Loc loc, Value base, Sym f, Value *out)
{
    if (strcmp(f, "rank") == 0) *out = value_int(0);
    else if (strcmp(f, "shape") == 0) *out = value_tuple(e->arena, 0, NULL);
    else if (strcmp(f, "type") == 0 && base.kind == V_EXPR)
        *out = value_dtype((DType)base.u.expr->type);
    else return eval_fail(e, loc, "a number has no '%s'", f);
    return true;
}

bool builtin_field(Eval *e, Loc loc, Value base, Sym f, Value *out)
{
    switch (base.kind) {
    case V_FUNCTION:
        return strcmp(base.u.str, "block") == 0 ? block_field(e, loc, f, out)
               : strcmp(base.u.str, "device") == 0
                   ? device_field(e, loc, f, out)
                   : eval_fail(e, loc, "'%s' has no '%s'", base.u.str, f);
    case V_TUPLE: return tuple_field(e, loc, base, f, out);
    case V_TENSOR: return tensor_field(e, loc, base.u.tensor, f, out);
    case V_RING: return ring_field(e, loc, base, f, out);
    case V_MAPPING:
    case V_LAYOUT: {
        const Mapping *m = base.kind == V_MAPPING ? base.u.map : NULL;
        const Layout *l = base.kind == V_LAYOUT ? base.u.layout : NULL;
        if (strcmp(f, "shape") == 0)
            *out = value_ints(e->arena, m ? m->rank : l->rank, m ? m->shape : l->shape);
        else if (m && strcmp(f, "workers") == 0) *out = value_int(m->nworker);
        else if (m && strcmp(f, "tasks") == 0) *out = value_int(m->ntask);
        else if (l && strcmp(f, "size") == 0) *out = value_int(l->size);
        else return eval_fail(e, loc, "%s has no '%s'", value_kind_name(base.kind), f);
        return true;
    }
    case V_MEMORY:
        if (strcmp(f, "type") == 0) {
            *out = value_dtype(base.u.mem->type);
            return true;
        }
        if (strcmp(f, "shape") == 0) {
            *out = value_tuple(e->arena, base.u.mem->rank, NULL);
            for (int i = 0; i < base.u.mem->rank; i++)
                out->u.tuple.at[i] = value_expr(base.u.mem->extent[i]);
            return true;
        }
        return eval_fail(e, loc, "a buffer has no '%s'", f);
    case V_INT:
    case V_FLOAT:
        if (strcmp(f, "lo") == 0 || strcmp(f, "hi") == 0) { // one value for every element of a list
            *out = base;
            return true;
        }
        return number_field(e, loc, base, f, out);
    case V_EXPR:
        if (base.u.expr->kind == N_VARREF && base.u.expr->u.var->builtin == VAR_THREAD)
            return thread_field(e, loc, base, f, out);
        return number_field(e, loc, base, f, out);
    default: return eval_fail(e, loc, "%s has no '%s'", value_kind_name(base.kind), f);
    }
}
