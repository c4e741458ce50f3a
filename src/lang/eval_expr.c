// SPDX-License-Identifier: Apache-2.0
// Expressions: names, lists, conditionals, guarded reads, indexing.
#include "lang/eval.h"

#include <string.h>

const char eval_return_text[] =
    "return under a condition that is only known at run time: give the value of an if instead";

Sym eval_sym(Eval *e, const char *name)
{
    return intern(e->lib->names, name);
}

bool eval_fail(Eval *e, Loc loc, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    diag_report(e->diag, SEV_ERROR, loc, fmt, ap);
    va_end(ap);
    return false;
}

void eval_bind(Eval *e, Sym name, Value v)
{
    Env *env = NEW(e->arena, Env);
    *env = (Env){.name = name, .value = v, .next = e->env};
    e->env = env;
}

Env *env_find(Env *env, Sym name)
{
    while (env && env->name != name) env = env->next;
    return env;
}

void eval_emit_to(Eval *e, Stmts *into, Node *stmt)
{
    VEC_PUSH(e->arena, &into->list, stmt);
}

void eval_emit(Eval *e, Node *stmt)
{
    if (e->out) eval_emit_to(e, e->out, stmt);
    else if (!e->broken)
        e->broken = !eval_fail(e, stmt->loc, "this can only be done inside a kernel's stage");
}

bool eval_begin(Eval *e, Stmts **into, Stmts **saved, Loc loc)
{
    if (!e->out) return eval_fail(e, loc, "this can only be computed inside a kernel");
    *saved = e->out;
    *into = e->out = NEW(e->arena, Stmts);
    **into = (Stmts){.parent = *saved, .first_id = e->kernel->next_id};
    return true;
}

Node *eval_end(Eval *e, Stmts *from, Stmts *saved, Loc loc)
{
    e->out = saved;
    Node *seq = node_new(e->arena, N_SEQ, loc, from->list.n);
    if (from->list.n) memcpy(seq->kid, from->list.at, (size_t)from->list.n * sizeof(Node *));
    return seq;
}

Var *eval_declare(Eval *e, Loc loc, const char *name, DType type, int lanes, Node *init)
{
    Var *v = kernel_var(e->kernel, name, type, true);
    v->lanes = (uint16_t)lanes;
    v->loc = loc;
    Node *d = node_new(e->arena, N_DECLARE, loc, 1);
    d->u.var = v;
    d->kid[0] = init;
    eval_emit(e, d);
    return v;
}

void eval_set(Eval *e, Loc loc, Var *v, Node *value)
{
    Node *s = node_new(e->arena, N_SET, loc, 1);
    s->u.var = v;
    s->kid[0] = value;
    eval_emit(e, s);
}

static bool expression(Eval *e, Node *n, Value *out);

static int64_t tree_size(const Node *n, int64_t left)
{
    int64_t size = 1;
    for (uint32_t i = 0; i < n->nkid && size < left; i++)
        if (n->kid[i]) size += tree_size(n->kid[i], left - size);
    return size;
}

bool eval_small(Eval *e, Loc loc, Value v)
{
    if (e->out || v.kind != V_EXPR) return true;
    return tree_size(v.u.expr, EVAL_MAX_TREE) < EVAL_MAX_TREE ||
           eval_fail(e, loc, "this expression unfolds to more than %d operations", EVAL_MAX_TREE);
}

static bool name(Eval *e, Node *n, Value *out)
{
    Env *b = env_find(e->env, n->u.sym);
    if (b) {
        *out = b->var ? value_expr(node_var(e->arena, n->loc, b->var)) : b->value;
        return true;
    }
    bool found;
    if (!builtin_constant(e, n->u.sym, n->loc, out, &found)) return false;
    if (found) return true;
    Node *constant = map_get(&e->lib->constants, n->u.sym);
    if (constant) {
        Env *env = e->env;
        e->env = NULL;
        bool ok = eval_expr(e, KID(constant, CONSTANT, value), out);
        e->env = env;
        return ok;
    }
    if (map_get(&e->lib->fns, n->u.sym) || builtin_exists(n->u.sym)) {
        *out = (Value){.kind = V_FUNCTION, .u.str = n->u.sym};
        return true;
    }
    return eval_fail(e, n->loc, "unknown name '%s'", n->u.sym);
}

bool eval_scalar(Eval *e, Node *n, Value *out)
{
    if (!eval_expr(e, n, out)) return false;
    if (out->kind == V_TENSOR && out->u.tensor->rank == 0)
        return tensor_load(e, n->loc, out->u.tensor, 0, NULL, out);
    return true;
}

bool eval_list(Eval *e, Node *const *at, int n, Value *out)
{
    VEC(Value) list = {0};
    for (int i = 0; i < n; i++) {
        Value v;
        int mark = eval_mark(e), before = list.n;
        if (at[i]->kind == N_ARG)
            return eval_fail(e, at[i]->loc, "no argument is called '%s' here", at[i]->u.sym);
        if (at[i]->kind != N_SPREAD) {
            if (!eval_expr(e, at[i], &v)) return false;
            for (int k = 0; k < before; k++) list.at[k] = eval_keep(e, mark, list.at[k]);
            VEC_PUSH(e->arena, &list, v);
            continue;
        }
        if (!eval_expr(e, KID(at[i], SPREAD, pack), &v)) return false;
        if (v.kind != V_TUPLE)
            return eval_fail(e, at[i]->loc, "... needs a pack, found %s", value_kind_name(v.kind));
        for (int k = 0; k < v.u.tuple.n; k++) VEC_PUSH(e->arena, &list, v.u.tuple.at[k]);
    }
    *out = value_tuple(e->arena, list.n, list.at);
    return true;
}

// Statements that may run although nobody asked: definitions that neither trap nor read unguarded
// memory.
static bool speculative(const Stmts *s)
{
    for (int i = 0; i < s->list.n; i++)
        if (s->list.at[i]->kind != N_DEFINE || !node_pure(s->list.at[i]->kid[0])) return false;
    return true;
}

static void move_stmts(Eval *e, const Stmts *from)
{
    for (int i = 0; i < from->list.n; i++) eval_emit(e, from->list.at[i]);
}

static void set_var_in(Eval *e, Stmts *into, Loc loc, Var *v, Node *value)
{
    Stmts *saved = e->out;
    e->out = into;
    eval_set(e, loc, v, value);
    e->out = saved;
}

// One component of a conditional whose arms needed statements: a variable set in each arm.
static bool join(Eval *e, Loc loc, Value a, Value b, Stmts *sa, Stmts *sb, Value *out)
{
    if (a.kind == V_TUPLE && b.kind == V_TUPLE && a.u.tuple.n == b.u.tuple.n) {
        *out = value_tuple(e->arena, a.u.tuple.n, NULL);
        for (int i = 0; i < a.u.tuple.n; i++)
            if (!join(e, loc, a.u.tuple.at[i], b.u.tuple.at[i], sa, sb, &out->u.tuple.at[i]))
                return false;
        return true;
    }
    Node *x, *y;
    if (!eval_promote(e, loc, a, b, &x, &y)) return false;
    Var *v = eval_declare(e, loc, "t", (DType)x->type, x->lanes, NULL);
    set_var_in(e, sa, loc, v, x);
    set_var_in(e, sb, loc, v, y);
    *out = value_expr(node_var(e->arena, loc, v));
    return true;
}

bool eval_block(Eval *e, Node *block, Value *out)
{
    if (block->kind != N_BLOCK) return eval_scalar(e, block, out);
    Env *env = e->env;
    for (int i = 0; i < NREST(block) && !e->returning && !e->leaving; i++)
        if (!eval_stmt(e, REST(block)[i])) return false;
    bool ok = true;
    *out = value_none();
    if (KID(block, BLOCK, value) && !e->returning && !e->leaving)
        ok = eval_scalar(e, KID(block, BLOCK, value), out);
    e->env = env;
    return ok;
}

static bool conditional(Eval *e, Node *n, Value *out)
{
    Value c, a, b;
    int64_t guess;
    if (!eval_scalar(e, KID(n, SELECT, cond), &c)) return false;
    if (c.kind == V_EXPR && !e->out && eval_guess(e, n->loc, c, &guess)) c = value_bool(guess != 0);
    if (c.kind == V_BOOL) return eval_block(e, c.u.i ? KID(n, SELECT, a) : KID(n, SELECT, b), out);
    if (!e->out) return eval_fail(e, n->loc, "this condition is not known at compile time");
    Stmts *sa, *sb, *saved;
    eval_begin(e, &sa, &saved, n->loc);
    bool conditional = e->conditional;
    e->conditional = sa->conditional = true;
    e->choosing++;
    bool ok = eval_block(e, KID(n, SELECT, a), &a);
    e->out = saved;
    eval_begin(e, &sb, &saved, n->loc);
    sb->conditional = true;
    ok = ok && eval_block(e, KID(n, SELECT, b), &b);
    e->out = saved;
    e->choosing--;
    e->conditional = conditional;
    if (!ok) return false;
    if (e->returning) return eval_fail(e, n->loc, "%s", eval_return_text);
    Node *cond;
    if (!eval_node(e, n->loc, c, &cond)) return false;
    if (speculative(sa) && speculative(sb)) {
        move_stmts(e, sa);
        move_stmts(e, sb);
        return eval_select(e, n->loc, c, a, b, out);
    }
    if (!join(e, n->loc, a, b, sa, sb, out)) return false;
    Node *s = node_new(e->arena, N_IF, n->loc, 3);
    s->kid[0] = cond;
    s->kid[1] = eval_end(e, sa, saved, n->loc);
    s->kid[2] = eval_end(e, sb, saved, n->loc);
    eval_emit(e, s);
    return true;
}

// a.apply(i..., v) else w: w outside of a.
static bool apply_else(Eval *e, Node *call, Node *b, Value *out)
{
    Value base, args, other;
    if (!eval_expr(e, KID(KID(call, CALL, callee), FIELD, base), &base) ||
        !eval_list(e, REST(call), NREST(call), &args) || !eval_scalar(e, b, &other))
        return false;
    int n = args.u.tuple.n - 1;
    if (base.kind != V_TENSOR || n != base.u.tensor->rank)
        return eval_fail(e, call->loc, "apply of a tensor takes its indices and a value");
    return tensor_apply(e, call->loc, base.u.tensor, n, args.u.tuple.at, args.u.tuple.at[n], &other,
                        out);
}

// a else b: a guarded read, or the default of what was not given.
static bool otherwise(Eval *e, Node *n, Value *out)
{
    Node *a = KID(n, ELSE, a), *b = KID(n, ELSE, b);
    Value base, other, index;
    if (a->kind == N_CALL && KID(a, CALL, callee)->kind == N_FIELD &&
        strcmp(KID(a, CALL, callee)->u.sym, "apply") == 0)
        return apply_else(e, a, b, out);
    if (a->kind == N_REDUCE) { // of what the reduction reads
        Node *body = node_new(e->arena, N_ELSE, n->loc, 2);
        Node *r = arena_copy(e->arena, a, sizeof *a + a->nkid * sizeof(Node *));
        body->kid[0] = KID(a, REDUCE, body);
        body->kid[1] = b;
        KID(r, REDUCE, body) = body;
        return eval_expr(e, r, out);
    }
    if (a->kind != N_INDEX && a->kind != N_NAME && a->kind != N_FIELD)
        return eval_fail(e, n->loc,
                         "else guards a read such as a[i], or stands for what is absent: "
                         "put the part that it belongs to in parentheses");
    if (a->kind != N_INDEX)
        return eval_scalar(e, a, out) && (out->kind != V_NONE || eval_scalar(e, b, out));
    if (!eval_expr(e, KID(a, INDEX, base), &base)) return false;
    if (base.kind == V_NONE) return eval_scalar(e, b, out);
    if (base.kind != V_TENSOR)
        return eval_fail(e, n->loc, "else guards reads of parameters; %s cannot be read outside",
                         value_kind_name(base.kind));
    return eval_indices(e, a, base, &index) && eval_scalar(e, b, &other) &&
           tensor_load_else(e, n->loc, base.u.tensor, index.u.tuple.n, index.u.tuple.at, other,
                            out);
}

static bool range(Eval *e, Node *n, Value *out)
{
    *out = (Value){.kind = V_RANGE};
    Value *v = NEW_ARRAY(e->arena, Value, 3);
    for (int i = 0; i < (int)n->nkid; i++) {
        v[i] = value_int(i == 2 ? 1 : 0);
        if (n->kid[i] && !eval_scalar(e, n->kid[i], &v[i])) return false;
    }
    out->u.range.lo = &v[0];
    out->u.range.hi = &v[1];
    out->u.range.step = &v[2];
    out->u.range.span = n->kind == N_SPAN;
    if (n->kind == N_SPAN) v[2] = value_int(1);
    return true;
}

// b is computed only where a leaves the answer open: under an if, where b takes statements that do
// something.
static bool short_circuit(Eval *e, Node *n, Value *out)
{
    Value a, b;
    Node *x, *y;
    bool is_or = n->kind == N_LOR;
    if (!eval_scalar(e, n->kid[0], &a)) return false;
    if (a.kind == V_BOOL && (a.u.i != 0) == is_or) {
        *out = a;
        return true;
    }
    if (a.kind == V_BOOL || !e->out)
        return eval_scalar(e, n->kid[1], &b) &&
               eval_binary(e, n->loc, (NodeKind)n->kind, a, b, out);
    Stmts *right, *saved;
    eval_begin(e, &right, &saved, n->loc);
    bool conditional = e->conditional;
    e->conditional = right->conditional = true;
    e->choosing++;
    bool ok = eval_scalar(e, n->kid[1], &b);
    e->choosing--;
    e->conditional = conditional;
    e->out = saved;
    if (!ok) return false;
    if (speculative(right)) {
        move_stmts(e, right);
        return eval_binary(e, n->loc, (NodeKind)n->kind, a, b, out);
    }
    if (!eval_node(e, n->loc, a, &x) || !eval_node(e, n->loc, b, &y)) return false;
    if (x->type != DT_BOOL || y->type != DT_BOOL || x->lanes != 1 || y->lanes != 1)
        return eval_fail(e, n->loc, "%s needs bools", node_info[n->kind].spelling);
    Var *v = eval_declare(e, n->loc, "t", DT_BOOL, 1, x);
    set_var_in(e, right, n->loc, v, y);
    Node *s = node_new(e->arena, N_IF, n->loc, 3), *t = node_var(e->arena, n->loc, v);
    s->kid[0] = is_or ? node_unary(e->arena, N_NOT, t) : t;
    s->kid[1] = eval_end(e, right, saved, n->loc);
    eval_emit(e, s);
    *out = value_expr(t);
    return true;
}

static bool index_expr(Eval *e, Node *n, Value *out)
{
    Value base, index;
    if (!eval_expr(e, KID(n, INDEX, base), &base)) return false;
    if (base.kind == V_TUPLE && NREST(n) == 1 && REST(n)[0]->kind == N_EXCEPT)
        return eval_except(e, REST(n)[0], base, out);
    if (!eval_indices(e, n, base, &index)) return false;
    int k = index.u.tuple.n;
    if (base.kind == V_TENSOR)
        return tensor_load(e, n->loc, base.u.tensor, k, index.u.tuple.at, out);
    if (base.kind == V_MEMORY) return memory_load(e, n->loc, base.u.mem, k, index.u.tuple.at, out);
    if (base.kind == V_TUPLE) return eval_tuple_index(e, n->loc, base, index, out);
    if (base.kind == V_SCAN) return scan_state(e, n->loc, base.u.scan, index, out);
    if (base.kind == V_INT ||
        base.kind == V_EXPR) { // a scalar attribute stands for every element of a list
        *out = base;
        return true;
    }
    return eval_fail(e, n->loc, "%s cannot be indexed", value_kind_name(base.kind));
}

static bool operands(Eval *e, Node *n, Value *a, Value *b)
{
    if (!eval_scalar(e, n->kid[0], a)) return false;
    int mark = eval_mark(e);
    if (!eval_scalar(e, n->kid[1], b)) return false;
    *a = eval_keep(e, mark, *a);
    return true;
}

bool eval_step(Eval *e, Loc loc)
{
    if (++e->steps > e->max_steps)
        return eval_fail(e, loc, "gave up: this template unfolds to more than %lld steps",
                         (long long)e->max_steps);
    return e->nesting < EVAL_MAX_NESTING ||
           eval_fail(e, loc, "expressions and calls nest deeper than %d", EVAL_MAX_NESTING);
}

bool eval_expr(Eval *e, Node *n, Value *out)
{
    if (!eval_step(e, n->loc)) return false;
    e->nesting++;
    bool ok = expression(e, n, out);
    e->nesting--;
    return ok && !e->broken;
}

static bool expression(Eval *e, Node *n, Value *out)
{
    Value a, b;
    *out = value_none();
    switch (n->kind) {
    case N_INT: *out = n->type == DT_BOOL ? value_bool(n->u.i != 0) : value_int(n->u.i); break;
    case N_FLOAT: *out = value_float(n->u.f); break;
    case N_STRING: *out = value_str(n->u.sym); break;
    case N_NAME: return name(e, n, out);
    case N_TUPLE: return eval_list(e, REST(n), NREST(n), out);
    case N_CALL: return eval_call(e, n, out);
    case N_INDEX: return index_expr(e, n, out);
    case N_FIELD:
        return eval_expr(e, KID(n, FIELD, base), &a) && builtin_field(e, n->loc, a, n->u.sym, out);
    case N_SELECT: return conditional(e, n, out);
    case N_BLOCK: return eval_block(e, n, out);
    case N_ELSE: return otherwise(e, n, out);
    case N_REDUCE: return eval_reduce(e, n, out);
    case N_FOLD: return n->sub == FOLD_STATES ? eval_scan(e, n, out) : eval_fold(e, n, out);
    case N_MAPFN: return eval_mapping_function(e, n, out);
    case N_RANGE:
    case N_SPAN: return range(e, n, out);
    case N_LAND:
    case N_LOR: return short_circuit(e, n, out);
    case N_NEG:
    case N_NOT:
    case N_BNOT:
        return eval_scalar(e, n->kid[0], &a) && eval_unary(e, n->loc, (NodeKind)n->kind, a, out);
    case N_TYPE: return eval_dtype(e, n, out);
    default:
        if (node_info[n->kind].class == CLASS_E && n->nkid == 2)
            return operands(e, n, &a, &b) && eval_binary(e, n->loc, (NodeKind)n->kind, a, b, out);
        return eval_fail(e, n->loc, "'%s' does not stand here", node_info[n->kind].spelling);
    }
    return true;
}
