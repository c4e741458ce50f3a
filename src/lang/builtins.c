// SPDX-License-Identifier: Apache-2.0
// The table of builtin functions, their calls, and calls of intrinsics.
#include "lang/builtins.h"

#include <stdlib.h>
#include <string.h>

const Value *args_named(const Args *a, const char *key)
{
    for (int i = 0; i < a->nnamed; i++)
        if (strcmp(a->key[i], key) == 0) return a->taken[i] = true, &a->value[i];
    return NULL;
}

bool args_pack(Eval *e, const Args *a, int i, Value *out)
{
    *out = a->at[i];
    if (out->kind == V_TENSOR)
        *out = value_tuple(e->arena, out->u.tensor->rank, out->u.tensor->dims);
    return out->kind == V_TUPLE ||
           eval_fail(e, a->loc, "'%s' needs a pack, found %s", a->name, value_kind_name(out->kind));
}

bool args_dtype(Eval *e, const Args *a, int i, DType *t)
{
    if (a->at[i].kind != V_DTYPE)
        return eval_fail(e, a->loc, "'%s' needs a type, found %s", a->name,
                         value_kind_name(a->at[i].kind));
    *t = a->at[i].u.dtype.type;
    return true;
}

static const struct BuiltinRow {
    const char *name;
    int least, most;
    BuiltinFn *fn;
} builtins[] = {
#define BUILTIN(name, least, most, meaning) {#name, least, most, f_##name},
#include "lang/builtins.def"
#undef BUILTIN
};

static const struct BuiltinRow *find(const char *name)
{
    size_t lo = 0, hi = COUNT(builtins); // the rows are in alphabetical order
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        int c = strcmp(builtins[mid].name, name);
        if (c == 0) return &builtins[mid];
        if (c < 0) lo = mid + 1;
        else hi = mid;
    }
    return NULL;
}

static bool is_intrinsic(const char *name)
{
    for (int i = 0; i < INTR_COUNT; i++)
        if (strcmp(intrinsics[i].name, name) == 0) return true;
    return false;
}

bool builtin_exists(const char *name)
{
    return find(name) || is_intrinsic(name) || builtin_known_math(name);
}

static bool collect(Eval *e, Node *call, Args *a)
{
    // Whether a scalar is given is no question of what it holds, which may not be known.
    bool whole = !strcmp(a->name, "given");
    VEC(Value) at = {0}, values = {0};
    VEC(Sym) keys = {0};
    a->after = -1;
    for (int i = 0; i < NREST(call); i++) {
        Node *n = REST(call)[i];
        Value v;
        int mark = eval_mark(e), before = at.n;
        if (n->kind == N_ARG) {
            if (!eval_scalar(e, KID(n, ARG, value), &v)) return false;
            if (n->u.sym && n->u.sym[0]) {
                VEC_PUSH(e->arena, &keys, n->u.sym);
                VEC_PUSH(e->arena, &values, v);
                continue;
            }
            if (a->after < 0) a->after = at.n;
            VEC_PUSH(e->arena, &at, v);
        } else if (n->kind == N_SPREAD) {
            if (!eval_list(e, &n, 1, &v)) return false;
            for (int k = 0; k < v.u.tuple.n; k++) VEC_PUSH(e->arena, &at, v.u.tuple.at[k]);
        } else {
            if (!(whole ? eval_expr(e, n, &v) : eval_scalar(e, n, &v))) return false;
            VEC_PUSH(e->arena, &at, v);
        }
        for (int k = 0; k < before; k++) at.at[k] = eval_keep(e, mark, at.at[k]);
    }
    a->n = at.n;
    a->at = at.at;
    a->nnamed = keys.n;
    a->key = keys.at;
    a->value = values.at;
    a->taken = NEW_ARRAY(e->arena, bool, keys.n);
    if (a->after < 0) a->after = at.n;
    return true;
}

// Value arguments of an intrinsic share one type.
static bool intrinsic_values(Eval *e, const Args *a, const Intrinsic *in, Node *n)
{
    int first = -1;
    for (int i = 0; i < a->n; i++) {
        if (in->args[0] != '*' && in->args[i] != 'v') continue;
        if (in->args[0] == '*' && a->at[i].kind == V_STR) {
            n->kid[i] = node_new(e->arena, N_STRING, a->loc, 0);
            n->kid[i]->u.sym = a->at[i].u.str;
            continue;
        }
        if (!eval_node(e, a->loc, a->at[i], &n->kid[i])) return false;
        if (first < 0 || in->args[0] == '*') {
            first = i;
            continue;
        }
        Node *x, *y;
        if (!eval_promote(e, a->loc, value_expr(n->kid[first]), a->at[i], &x, &y)) return false;
        for (int k = 0; k < i; k++)
            if (in->args[k] == 'v')
                n->kid[k] = n->kid[k]->type == x->type
                                ? n->kid[k]
                                : node_cast(e->arena, (DType)x->type, n->kid[k]);
        n->kid[first] = x;
        n->kid[i] = y;
    }
    return true;
}

bool call_intrinsic(Eval *e, const Args *a, Value *out)
{
    const Intrinsic *in = intrinsic_find(a->name, a->n);
    bool effect = in && strchr(in->flags, 'E');
    if (!in) return eval_fail(e, a->loc, "'%s' does not take %d arguments", a->name, a->n);
    if (!e->out && effect)
        return eval_fail(e, a->loc, "'%s' stands inside a kernel's stage", a->name);
    const char *arch = e->kernel->target.arch;
    if (e->kernel->target.kind == TARGET_CUDA && strncmp(arch, "sm_", 3) == 0 &&
        in->arch > atoi(arch + 3))
        return eval_fail(e, a->loc, "'%s' needs sm_%d, this is for %s", a->name, in->arch, arch);
    Node *n = node_new(e->arena, N_INTRIN, a->loc, a->n);
    n->u.intr = in;
    n->lanes = 1;
    if (!intrinsic_values(e, a, in, n)) return false;
    for (int i = 0; i < a->n && in->args[0] != '*'; i++) {
        if (in->args[i] == 'i' && !eval_index(e, a->loc, a->at[i], &n->kid[i])) return false;
        if (in->args[i] == 'r' && !eval_ref(e, REST(a->call)[i], &n->kid[i])) return false;
        if (in->args[i] == 'v' && n->kid[i]->lanes > n->lanes) n->lanes = n->kid[i]->lanes;
    }
    const char *v = strchr(in->args, 'v'), *r = strchr(in->args, 'r');
    Node *typed = r ? n->kid[r - in->args] : v ? n->kid[v - in->args] : NULL;
    if (r && v && typed->type) // the value takes the place's type
        for (int i = 0; i < a->n; i++)
            if (in->args[i] == 'v' &&
                !eval_node_as(e, a->loc, a->at[i], (DType)typed->type, &n->kid[i]))
                return false;
    n->type = (uint8_t)(in->type[0] == 'v'           ? (typed ? typed->type : DT_NONE)
                        : in->type[0] == 'b'         ? DT_BOOL
                        : strcmp(in->type, "i") == 0 ? DT_I64
                        : in->type[0] == '.'         ? DT_NONE
                                                     : dtype_from_name(in->type));
    if (n->type == DT_NONE) {
        Node *s = node_new(e->arena, N_EVAL, a->loc, 1);
        s->kid[0] = n;
        eval_emit(e, s);
        *out = value_none();
        return true;
    }
    *out = value_expr(effect ? n : node_fold(e->arena, n));
    if (effect) *out = eval_pin(e, "r", *out);
    return true;
}

// References (argument kind r) are places, not values, so they are not evaluated by collect.
static bool collect_intrinsic(Eval *e, Node *call, const Intrinsic *in, Args *a)
{
    a->n = NREST(call);
    a->at = NEW_ARRAY(e->arena, Value, a->n);
    for (int i = 0; i < a->n; i++)
        if ((in->args[0] == '*' || in->args[i] != 'r') && !eval_scalar(e, REST(call)[i], &a->at[i]))
            return false;
    return true;
}

static bool all_taken(Eval *e, const Args *a)
{
    for (int i = 0; i < a->nnamed; i++)
        if (!a->taken[i])
            return eval_fail(e, a->loc, "'%s' takes no argument '%s' here", a->name, a->key[i]);
    return true;
}

bool builtin_call(Eval *e, Node *call, Sym name, Value *out)
{
    const struct BuiltinRow *b = find(name);
    Args a = {.loc = call->loc, .name = name, .call = call};
    const Intrinsic *in = b ? NULL : intrinsic_find(name, NREST(call));
    if (in && strchr(in->args, 'r'))
        return collect_intrinsic(e, call, in, &a) && call_intrinsic(e, &a, out);
    if (!collect(e, call, &a)) return false;
    if (builtin_known_math(name) && a.n && builtin_known_math_apply(name, a.n, a.at, out))
        return all_taken(e, &a);
    if (!b) return all_taken(e, &a) && call_intrinsic(e, &a, out);
    if (a.n < b->least || (b->most >= 0 && a.n > b->most))
        return eval_fail(e, a.loc, "'%s' takes %d%s arguments, not %d", name, b->least,
                         b->most < 0          ? " or more"
                         : b->most > b->least ? " or a few more"
                                              : "",
                         a.n);
    return b->fn(e, &a, out) && all_taken(e, &a);
}
