// SPDX-License-Identifier: Apache-2.0
// Statements of kernels, functions and serial ops. What is known is done now; the rest is emitted.
#include "lang/eval.h"

#include <string.h>

bool eval_stmts(Eval *e, Node *seq)
{
    Env *env = e->env;
    bool ok = true;
    if (seq->kind != N_SEQ) ok = eval_stmt(e, seq);
    else
        for (int i = 0; ok && i < NREST(seq) && !e->returning && !e->leaving; i++)
            ok = eval_stmt(e, REST(seq)[i]);
    e->env = env;
    return ok;
}

// `break` and `continue`. Of a loop that runs now, where the way to them is known.
static bool leave(Eval *e, Node *n)
{
    const char *what = node_info[n->kind].spelling;
    if (e->loop == LOOP_NOWHERE) return eval_fail(e, n->loc, "'%s' stands inside a loop", what);
    if (e->loop == LOOP_MAPPED)
        return eval_fail(e, n->loc, "the tasks of a mapping are done by many: no '%s'", what);
    if (e->loop == LOOP_NEST && n->kind == N_BREAK)
        return eval_fail(e, n->loc, "break of a loop over several axes");
    if (e->loop == LOOP_RUNS || e->loop == LOOP_NEST)
        eval_emit(e, node_new(e->arena, (NodeKind)n->kind, n->loc, 0));
    else if (e->conditional)
        return eval_fail(
            e, n->loc, "'%s' of an unrolled loop under a condition that is only known at run time",
            what);
    else e->leaving = (NodeKind)n->kind;
    return true;
}

// The states of a scan are computed once, here. Where nothing changes, in an op's body, they may
// also be computed anew at each read.
static bool let_scan(Eval *e, Loc loc, Scan *s)
{
    if (e->out && !scan_keep(e, s)) return false;
    return scan_kept(s) || !e->out || (e->op && e->op->decl->sub == OP_INDEX) ||
           eval_fail(e, loc,
                     "a scan that is kept has a known number of states, of at most %d bytes",
                     EVAL_MAX_SCAN);
}

static bool let(Eval *e, Node *n)
{
    Node *p = KID(n, LET, pattern);
    if (p->kind == N_INDEX) { // a tensor of the op's body, computed where it is read
        Tensor *t = NEW(e->arena, Tensor);
        t->name = KID(p, INDEX, base)->u.sym;
        t->let = n;
        t->env = e->env;
        t->owner = e->op;
        eval_bind(e, t->name, (Value){.kind = V_TENSOR, .u.tensor = t});
        return true;
    }
    Value v;
    if (!eval_expr(e, KID(n, LET, value), &v) || !eval_small(e, n->loc, v)) return false;
    if (v.kind == V_SCAN && !let_scan(e, n->loc, v.u.scan)) return false;
    Node *type = KID(n, LET, type), *x;
    Value t;
    if (type && v.kind != V_TUPLE) {
        if (!eval_dtype(e, type, &t) || !eval_node_as(e, n->loc, v, t.u.dtype.type, &x))
            return false;
        v = value_expr(x);
    }
    if (p->kind == N_NAME) {
        eval_bind(e, p->u.sym, eval_pin(e, p->u.sym, v));
        return true;
    }
    if (v.kind != V_TUPLE || v.u.tuple.n != NREST(p))
        return eval_fail(e, n->loc, "the pattern names %d values, the right side is %s", NREST(p),
                         value_kind_name(v.kind));
    for (int i = 0; i < NREST(p); i++)
        eval_bind(e, REST(p)[i]->u.sym, eval_pin(e, REST(p)[i]->u.sym, v.u.tuple.at[i]));
    return true;
}

static bool ring(Eval *e, Node *n, Node *call)
{
    Value args;
    int64_t size;
    if (!eval_list(e, REST(call), NREST(call), &args)) return false;
    if (args.u.tuple.n != 1 ||
        !eval_int(e, n->loc, args.u.tuple.at[0], "the size of a ring", &size))
        return args.u.tuple.n == 1 ? false : eval_fail(e, n->loc, "ring(n) takes its size");
    Value v = {.kind = V_RING, .loc = n->loc};
    v.u.ring.n = size;
    v.u.ring.index =
        eval_declare(e, n->loc, n->u.sym, DT_I64, 1, node_int(e->arena, n->loc, DT_I64, 0));
    v.u.ring.index->lo = 0;
    v.u.ring.index->hi = size - 1;
    v.u.ring.phase = eval_declare(e, n->loc, eval_sym(e, "phase"), DT_I64, 1,
                                  node_int(e->arena, n->loc, DT_I64, 0));
    eval_bind(e, n->u.sym, v);
    return true;
}

static bool var(Eval *e, Node *n)
{
    Node *type = KID(n, VAR, type), *init = KID(n, VAR, init), *x = NULL;
    if (!e->out)
        return eval_fail(e, n->loc,
                         "var stands inside a kernel's stage, a function or a serial op");
    if (type && KID(type, TYPE, dtype) && KID(type, TYPE, dtype)->kind == N_CALL) {
        Node *callee = KID(KID(type, TYPE, dtype), CALL, callee);
        if (callee->kind == N_NAME && strcmp(callee->u.sym, "ring") == 0)
            return ring(e, n, KID(type, TYPE, dtype));
    }
    Value t, v;
    DType dt = DT_I64;
    if (type) {
        if (!eval_dtype(e, type, &t)) return false;
        dt = t.u.dtype.type;
    }
    if (init) {
        if (!eval_scalar(e, init, &v)) return false;
        if (v.kind == V_TUPLE) { // one variable for each component
            Value state = value_tuple(e->arena, v.u.tuple.n, NULL);
            for (int i = 0; i < v.u.tuple.n; i++) {
                if (!eval_node(e, n->loc, v.u.tuple.at[i], &x)) return false;
                Var *c = eval_declare(e, n->loc, n->u.sym, (DType)x->type, x->lanes, x);
                state.u.tuple.at[i] = value_expr(node_var(e->arena, n->loc, c));
            }
            eval_bind(e, n->u.sym, state);
            return true;
        }
        if (type ? !eval_node_as(e, n->loc, v, dt, &x) : !eval_node(e, n->loc, v, &x)) return false;
    } else if (!type) return eval_fail(e, n->loc, "var '%s' needs a type or a value", n->u.sym);
    Var *made = eval_declare(e, n->loc, n->u.sym, x ? (DType)x->type : dt, x ? x->lanes : 1, x);
    eval_bind(e, n->u.sym, value_none());
    e->env->var = made;
    return true;
}

static bool set(Eval *e, Loc loc, Var *v, Value value)
{
    Node *x, *s = node_new(e->arena, N_SET, loc, 1);
    if (!eval_node_as(e, loc, value, v->type, &x)) return false;
    s->u.var = v;
    s->kid[0] = x;
    eval_emit(e, s);
    return true;
}

static bool assign_to(Eval *e, Node *place, NodeKind op, Value v)
{
    Value base, index, old;
    if (!e->out) return eval_fail(e, place->loc, "an assignment stands inside a kernel's stage");
    if (place->kind == N_TUPLE) {
        if (v.kind != V_TUPLE || v.u.tuple.n != NREST(place))
            return eval_fail(e, place->loc, "%d places are assigned from %s", NREST(place),
                             value_kind_name(v.kind));
        v = eval_pin(e, "v", v);
        for (int i = 0; i < NREST(place); i++)
            if (!assign_to(e, REST(place)[i], op, v.u.tuple.at[i])) return false;
        return true;
    }
    if (place->kind == N_NAME) {
        Env *b = env_find(e->env, place->u.sym);
        if (b && !b->var && b->value.kind == V_TENSOR && b->value.u.tensor->rank == 0)
            return tensor_store(e, place->loc, b->value.u.tensor, 0, NULL, v);
        if (b && b->value.kind == V_TUPLE && v.kind == V_TUPLE &&
            b->value.u.tuple.n == v.u.tuple.n) {
            v = eval_pin(e, "v", v);
            for (int i = 0; i < v.u.tuple.n; i++) {
                Value c = b->value.u.tuple.at[i];
                if (c.kind != V_EXPR || c.u.expr->kind != N_VARREF || !c.u.expr->u.var->mutable)
                    return eval_fail(e, place->loc, "'%s' is not a variable", place->u.sym);
                if (!set(e, place->loc, c.u.expr->u.var, v.u.tuple.at[i])) return false;
            }
            return true;
        }
        if (!b || !b->var)
            return eval_fail(e, place->loc,
                             b ? "'%s' is not a variable: declare it with var"
                               : "unknown name '%s'",
                             place->u.sym);
        old = value_expr(node_var(e->arena, place->loc, b->var));
        if (op && !eval_binary(e, place->loc, op, old, v, &v)) return false;
        return set(e, place->loc, b->var, v);
    }
    if (place->kind != N_INDEX) return eval_fail(e, place->loc, "this is no place to assign to");
    if (!eval_expr(e, KID(place, INDEX, base), &base) || !eval_indices(e, place, base, &index))
        return false;
    int n = index.u.tuple.n;
    if (base.kind == V_TENSOR) {
        if (op)
            return eval_fail(
                e, place->loc,
                "a result is stored once, when its value is final: sum in a local or a workspace");
        return tensor_store(e, place->loc, base.u.tensor, n, index.u.tuple.at, v);
    }
    if (base.kind != V_MEMORY)
        return eval_fail(e, place->loc, "%s cannot be assigned to", value_kind_name(base.kind));
    if (op) {
        if (!memory_load(e, place->loc, base.u.mem, n, index.u.tuple.at, &old) ||
            !eval_binary(e, place->loc, op, old, v, &v))
            return false;
    }
    return memory_store(e, place->loc, base.u.mem, n, index.u.tuple.at, v);
}

static bool condition(Eval *e, Loc loc, Value c, Node **out)
{
    if (!eval_node(e, loc, c, out)) return false;
    return ((*out)->type == DT_BOOL && (*out)->lanes == 1) ||
           eval_fail(e, loc, "the condition is %s, not a bool", dtypes[(*out)->type].name);
}

static bool arm(Eval *e, Node *body, Node **out, Loc loc)
{
    Stmts *s, *saved;
    if (!eval_begin(e, &s, &saved, loc)) return false;
    bool conditional = e->conditional;
    e->conditional = s->conditional = true;
    bool ok = eval_stmts(e, body);
    e->conditional = conditional;
    *out = eval_end(e, s, saved, loc);
    if (ok && e->returning) return eval_fail(e, loc, "%s", eval_return_text);
    return ok;
}

static bool if_(Eval *e, Node *n)
{
    Value c;
    Node *then = KID(n, IF, then), *other = KID(n, IF, other), *s, *cond;
    if (!eval_scalar(e, KID(n, IF, cond), &c)) return false;
    if (c.kind == V_BOOL) {
        Node *taken = c.u.i ? then : other;
        return !taken || eval_stmts(e, taken);
    }
    if (!condition(e, n->loc, c, &cond)) return false;
    s = node_new(e->arena, N_IF, n->loc, 3);
    s->kid[0] = cond;
    if (!arm(e, then, &s->kid[1], n->loc) || (other && !arm(e, other, &s->kid[2], n->loc)))
        return false;
    eval_emit(e, s);
    return true;
}

static bool while_(Eval *e, Node *n)
{
    // while c { body } is loop forever { if !c break; body }, since computing c may take statements
    Stmts *body, *saved;
    if (!eval_begin(e, &body, &saved, n->loc)) return false;
    Value c;
    Node *cond, *stop = node_new(e->arena, N_IF, n->loc, 3),
                *w = node_new(e->arena, N_WHILE, n->loc, 2);
    if (!eval_scalar(e, KID(n, WHILE, cond), &c) || !condition(e, n->loc, c, &cond)) return false;
    stop->kid[0] = node_fold(e->arena, node_unary(e->arena, N_NOT, cond));
    stop->kid[1] = node_new(e->arena, N_BREAK, n->loc, 0);
    eval_emit(e, stop);
    if (!eval_loop_body(e, n->loc, LOOP_RUNS, KID(n, WHILE, body))) return false;
    w->kid[0] = node_int(e->arena, n->loc, DT_BOOL, 1);
    w->kid[1] = eval_end(e, body, saved, n->loc);
    eval_emit(e, w);
    return true;
}

// One {expr} of a message; false where it has no value.
static bool message_part(Eval *e, const char *text, Buf *out)
{
    Eval saved = *e;
    Diag quiet;
    Value v;
    diag_init(&quiet, e->arena, e->lib->sources);
    Source *src = sources_add(e->lib->sources, "message", text, strlen(text));
    Node *x = src ? parse_expression(e->arena, e->lib->names, src, &quiet) : NULL;
    e->diag = &quiet;
    e->out = NULL;
    bool ok = x && eval_scalar(e, x, &v);
    if (ok) value_print(&v, out);
    int64_t steps = e->steps;
    *e = saved; // a failure may leave anything behind
    e->steps = steps;
    return ok;
}

static const char *closing_brace(const char *s)
{
    int open = 0;
    for (; *s; s++) {
        open += *s == '{';
        open -= *s == '}';
        if (!open) return s;
    }
    return NULL;
}

// The text of a message with {expr} replaced by values.
static const char *message(Eval *e, Node *n)
{
    if (!n) return "a requirement does not hold";
    Buf b;
    buf_init(&b, e->arena);
    for (const char *s = n->u.sym; *s; s++) {
        const char *end = *s == '{' ? closing_brace(s) : NULL;
        if (end && message_part(e, arena_strndup(e->arena, s + 1, (size_t)(end - s - 1)), &b))
            s = end;
        else buf_putc(&b, *s);
    }
    return buf_text(&b);
}

bool eval_demand(Eval *e, Loc loc, Value c, const char *text)
{
    Node *cond;
    if (c.kind == V_EXPR) c = value_expr(c.u.expr);
    if (c.kind == V_BOOL) return c.u.i || eval_fail(e, loc, "%s", text);
    if (!eval_small(e, loc, c) || !eval_node(e, loc, c, &cond)) return false;
    if (cond->type != DT_BOOL || cond->lanes != 1)
        return eval_fail(e, loc, "what is required is %s, not a bool", dtypes[cond->type].name);
    for (int i = 0; i < e->kernel->requirements.n; i++)
        if (node_equal(e->kernel->requirements.at[i].cond, cond)) return true;
    Requirement r = {.cond = cond, .message = arena_strdup(e->arena, text), .loc = loc};
    VEC_PUSH(e->arena, &e->kernel->requirements, r);
    return true;
}

bool eval_require(Eval *e, Node *n)
{
    Value c;
    Node *m = KID(n, REQUIRE, message);
    Stmts *saved = e->out;
    e->out = NULL;
    bool ok = eval_scalar(e, KID(n, REQUIRE, cond), &c);
    e->out = saved;
    if (!ok) return false;
    if (c.kind == V_BOOL && c.u.i) return true;
    return eval_demand(e, n->loc, c, message(e, m));
}

static bool tune(Eval *e, Node *n)
{
    for (int i = 0; i < NREST(n); i++) {
        Node *c = REST(n)[i], *first = KID(c, CHOICE, default);
        Value v = value_none();
        for (int k = 0; e->choices && k < e->choices->n; k++)
            if (e->choices->name[k] == c->u.sym) v = e->choices->value[k];
        if (v.kind == V_NONE) {
            if (NREST(first) < 1)
                return eval_fail(e, c->loc, "tune entry '%s' has no default", c->u.sym);
            if (!eval_expr(e, REST(first)[0], &v)) return false;
        }
        eval_bind(e, c->u.sym, v);
    }
    return true;
}

static bool effect(Eval *e, Node *n)
{
    Node *x = KID(n, EVAL, a);
    Value v;
    if (x->kind == N_NAME && !env_find(e->env, x->u.sym) &&
        intrinsic_find(x->u.sym, 0)) { // barrier;
        Node *call = node_new(e->arena, N_CALL, x->loc, 1);
        call->kid[0] = x;
        x = call;
    }
    return eval_expr(e, x, &v);
}

static bool scoped(Eval *e, Node *n) // role, one
{
    Value c;
    Node *s = node_new(e->arena, (NodeKind)n->kind, n->loc, (int)n->nkid);
    if (n->kind == N_ROLE &&
        (!eval_scalar(e, KID(n, ROLE, cond), &c) || !condition(e, n->loc, c, &s->kid[0])))
        return false;
    if (!arm(e, n->kid[n->nkid - 1], &s->kid[n->nkid - 1], n->loc)) return false;
    eval_emit(e, s);
    return true;
}

static bool statement(Eval *e, Node *n)
{
    Value v;
    switch (n->kind) {
    case N_SEQ: return eval_stmts(e, n);
    case N_LET: return let(e, n);
    case N_VAR: return var(e, n);
    case N_ASSIGN:
        return eval_scalar(e, KID(n, ASSIGN, value), &v) &&
               assign_to(e, KID(n, ASSIGN, place), (NodeKind)n->sub, v);
    case N_FOR: return eval_for(e, n);
    case N_IF: return if_(e, n);
    case N_WHILE: return while_(e, n);
    case N_MEMORY: return eval_memory(e, n);
    case N_LAUNCH: return eval_launch(e, n);
    case N_STAGE: return eval_stage(e, n);
    case N_TUNE: return tune(e, n);
    case N_REQUIRE: return eval_require(e, n);
    case N_ROLE:
    case N_ONE: return scoped(e, n);
    case N_EVAL: return effect(e, n);
    case N_RETURN:
        e->result = value_none();
        if (KID(n, RETURN, value) && !eval_scalar(e, KID(n, RETURN, value), &e->result))
            return false;
        e->returning = true;
        return true;
    case N_BREAK:
    case N_CONTINUE: return leave(e, n);
    default: return eval_fail(e, n->loc, "'%s' does not stand here", node_info[n->kind].spelling);
    }
}

bool eval_stmt(Eval *e, Node *n)
{
    if (!eval_step(e, n->loc)) return false;
    e->nesting++;
    bool ok = statement(e, n);
    e->nesting--;
    return ok && !e->broken;
}
