// SPDX-License-Identifier: Apache-2.0
// Loads and stores through hooks. Loading a tensor that an op produces evaluates the op at that
// index, so a chain of ops becomes one expression over the leaves; storing a kernel's result runs
// its epilogue on the value first.
#include "lang/eval.h"

void tensor_describe(const Tensor *t, Buf *out)
{
    buf_printf(out, "%s[", dtypes[t->type].name);
    for (int i = 0; i < t->rank; i++) {
        buf_puts(out, i ? ", " : "");
        value_print(&t->dims[i], out);
    }
    buf_putc(out, ']');
}

bool tensor_check_rank(Eval *e, Loc loc, Sym name, int rank, int n)
{
    return n == rank || eval_fail(e, loc, "'%s' is of rank %d, the index has %d parts",
                                  name ? name : "the tensor", rank, n);
}

// Indices as i64 nodes. A span is allowed last and makes a vector: lo :+ L with known L becomes a
// RAMP.
static bool index_nodes(Eval *e, Loc loc, int n, const Value *index, Node **out, int *lanes)
{
    *lanes = 1;
    for (int i = 0; i < n; i++) {
        if (index[i].kind != V_RANGE || !index[i].u.range.span) {
            if (!eval_index(e, loc, index[i], &out[i])) return false;
            *lanes = out[i]->lanes > *lanes ? out[i]->lanes : *lanes;
            continue;
        }
        int64_t len;
        if (i != n - 1) return eval_fail(e, loc, "a span reads a vector along the last axis only");
        if (!eval_int(e, loc, *index[i].u.range.hi, "the length of a vector", &len)) return false;
        if (len < 1 || len > 64 || (len & (len - 1)))
            return eval_fail(e, loc, "a vector has 1, 2, 4 ... 64 lanes, not %lld", (long long)len);
        Node *base, *ramp = node_new(e->arena, N_RAMP, loc, 1);
        if (!eval_index(e, loc, *index[i].u.range.lo, &base)) return false;
        ramp->kid[0] = base;
        ramp->u.i = 1;
        ramp->type = DT_I64;
        ramp->lanes = (uint16_t)len;
        out[i] = len == 1 ? base : ramp;
        *lanes = (int)len;
    }
    return true;
}

static Node *access_node(Eval *e, Loc loc, NodeKind kind, Buffer *b, int n, Node *const *index,
                         int lanes, Node *first)
{
    int k = first ? 1 : 0;
    Node *a = node_new(e->arena, kind, loc, n + k);
    a->u.buf = b;
    a->type = (uint8_t)b->type;
    a->lanes = (uint16_t)lanes;
    if (first) a->kid[0] = first;
    for (int i = 0; i < n; i++) a->kid[i + k] = index[i];
    return a;
}

bool memory_load(Eval *e, Loc loc, Buffer *b, int n, const Value *index, Value *out)
{
    Node *at[EVAL_MAX_RANK];
    int lanes;
    if (!tensor_check_rank(e, loc, b->name, b->rank, n) ||
        !index_nodes(e, loc, n, index, at, &lanes))
        return false;
    if (b->is_mbarrier)
        return eval_fail(e, loc, "an mbarrier has no value: use wait, arrive or expect");
    *out = value_expr(access_node(e, loc, N_LOAD, b, n, at, lanes, NULL));
    return true;
}

bool memory_store_guarded(Eval *e, Loc loc, Buffer *b, int n, const Value *index, Value v,
                          int guard)
{
    Node *at[EVAL_MAX_RANK], *x;
    int lanes;
    if (!tensor_check_rank(e, loc, b->name, b->rank, n) ||
        !index_nodes(e, loc, n, index, at, &lanes) || !eval_node_as(e, loc, v, b->type, &x))
        return false;
    if (x->lanes != lanes && x->lanes != 1)
        return eval_fail(e, loc, "a vector of %d lanes is stored where %d elements are named",
                         x->lanes, lanes);
    Node *s = access_node(e, loc, N_STORE, b, n, at, 0, node_widen(e->arena, x, lanes));
    s->type = DT_NONE;
    s->sub = (uint8_t)guard;
    eval_emit(e, s);
    return true;
}

bool memory_store(Eval *e, Loc loc, Buffer *b, int n, const Value *index, Value v)
{
    return memory_store_guarded(e, loc, b, n, index, v, GUARD_NONE);
}

static bool leaf_load(Eval *e, Loc loc, Tensor *t, int n, const Value *index, const Value *other,
                      Value *out)
{
    Node *at[EVAL_MAX_RANK], *x = NULL;
    int lanes;
    if (!index_nodes(e, loc, n, index, at, &lanes)) return false;
    Value zero = value_int(0);
    if (!other && e->guard_leaves && n > 0) other = &zero;
    if (other) {
        if (!eval_node_as(e, loc, *other, t->type, &x)) return false;
        x = node_widen(e->arena, x, lanes);
    }
    *out = value_expr(access_node(e, loc, other ? N_LOAD_ELSE : N_LOAD, t->buf, n, at, lanes, x));
    return true;
}

static bool let_load(Eval *e, Loc loc, Tensor *t, int n, const Value *index, Value *out)
{
    Env *env = e->env;
    Node *pattern = KID((Node *)t->let, LET, pattern);
    e->env = t->env;
    bool ok = bind_index_pattern(e, loc, REST(pattern), NREST(pattern), n, index) &&
              eval_scalar(e, KID((Node *)t->let, LET, value), out);
    e->env = env;
    return ok;
}

static bool op_element(Eval *e, Loc loc, Tensor *t, int n, const Value *index, Value *out);

// An element of a leaf whose elements are known, at a known index inside.
static bool known_element(Eval *e, Loc loc, const Tensor *t, int n, const Value *index, Value *out)
{
    int64_t at = 0;
    Node *x;
    for (int i = 0; i < n; i++) {
        Value k = index[i].kind == V_EXPR ? value_expr(index[i].u.expr) : index[i];
        if (k.kind != V_INT || t->dims[i].kind != V_INT) return false;
        if (k.u.i < 0 || k.u.i >= t->dims[i].u.i) return false;
        at = at * t->dims[i].u.i + k.u.i;
    }
    if (t->elements[at].kind == V_NONE || !eval_node_as(e, loc, t->elements[at], t->type, &x))
        return false;
    *out = value_expr(x);
    return true;
}

static bool is_row_at_hand(const Eval *e, int n, const Value *index)
{
    for (int i = 0; i < n - 1; i++)
        if (!value_equal(&index[i], &e->row[i])) return false;
    return true;
}

bool tensor_load(Eval *e, Loc loc, Tensor *t, int n, const Value *index, Value *out)
{
    if (t->let) return share_load(e, loc, t, n, index, let_load, out);
    if (!tensor_check_rank(e, loc, t->name, t->rank, n)) return false;
    if (t->is_hole) {
        e->hole_reduced = e->hole_reduced || e->reducing;
        if (t->hole.kind == V_NONE)
            return eval_fail(e, loc, "'%s' is only known where it is stored", t->name);
        *out = t->hole;
        return true;
    }
    if (t->elements && known_element(e, loc, t, n, index, out)) return true;
    if (t == e->row_of && !is_row_at_hand(e, n, index))
        return eval_fail(e, loc, "an epilogue of rows reads another row");
    if (t->buf) return leaf_load(e, loc, t, n, index, NULL, out);
    if (t->producer) return share_load(e, loc, t, n, index, op_element, out);
    return eval_fail(e, loc, "'%s' is a result: it can be stored, not read", t->name);
}

// The operand that shares the tensor's index map: the tensor itself, or the only tensor of equal
// shape behind elementwise ops.
Tensor *tensor_leaf(Tensor *t)
{
    while (t && !t->buf) {
        Tensor *next = NULL;
        const Node *params = t->producer ? KID((Node *)t->producer->decl, OP, params) : NULL;
        for (int i = 0; params && i < NREST((Node *)params); i++) {
            Env *b = env_find(t->producer->env, REST((Node *)params)[i]->u.sym);
            Tensor *x = b && b->value.kind == V_TENSOR ? b->value.u.tensor : NULL;
            bool same = x && x->rank == t->rank;
            for (int k = 0; same && k < x->rank; k++) same = value_equal(&x->dims[k], &t->dims[k]);
            if (same && next) return NULL;
            next = same ? x : next;
        }
        t = next;
    }
    return t;
}

typedef struct Element {
    Loc loc;
    Tensor *t;
    int n;
    const Value *index;
    Tensor *leaf; // t's op is applied to `value` in its place
    Value value;
} Element;

static bool element_load(Eval *e, void *user, Value *out)
{
    Element *x = user;
    return tensor_load(e, x->loc, x->t, x->n, x->index, out);
}

static bool element_apply(Eval *e, void *user, Value *out)
{
    Element *x = user;
    if (x->leaf == x->t) {
        *out = x->value;
        return true;
    }
    Tensor saved = *x->leaf;
    int from = e->shared_from, shared = e->shared.n;
    x->leaf->is_hole = true;
    x->leaf->hole = x->value;
    e->shared_from = shared; // what was computed from memory is another thing
    bool ok = element_load(e, user, out);
    e->shared_from = from;
    e->shared.n = shared;
    *x->leaf = saved;
    return ok;
}

// `compute` where `in` holds, `other` elsewhere. The op is applied to whatever its guarded leaves
// give, and the result kept only inside: no branch, unless it takes statements that must not run
// outside.
static bool guarded(Eval *e, Loc loc, Value in, DType type,
                    bool (*compute)(Eval *, void *, Value *), void *user, Value other, Value *out)
{
    bool guard = e->guard_leaves, straight = true;
    Stmts *body, *saved;
    Value v;
    Node *x, *y, *c;
    if (!eval_begin(e, &body, &saved, loc)) return false;
    e->guard_leaves = body->conditional = true;
    bool ok = compute(e, user, &v);
    e->guard_leaves = guard;
    e->out = saved;
    if (!ok || !eval_node_as(e, loc, v, type, &x) || !eval_node_as(e, loc, other, type, &y) ||
        !eval_node(e, loc, in, &c))
        return false;
    for (int i = 0; i < body->list.n; i++)
        straight = straight && body->list.at[i]->kind == N_DEFINE;
    if (straight) {
        for (int i = 0; i < body->list.n; i++) eval_emit(e, body->list.at[i]);
        return eval_select(e, loc, in, (Value){.kind = V_EXPR, .u.expr = x},
                           (Value){.kind = V_EXPR, .u.expr = y}, out);
    }
    Var *var = eval_declare(e, loc, "t", type, 1, y);
    e->out = body;
    eval_set(e, loc, var, x);
    Node *s = node_new(e->arena, N_IF, loc, 3);
    s->kid[0] = c;
    s->kid[1] = eval_end(e, body, saved, loc);
    eval_emit(e, s);
    *out = value_expr(node_var(e->arena, loc, var));
    return true;
}

bool tensor_load_else(Eval *e, Loc loc, Tensor *t, int n, const Value *index, Value other,
                      Value *out)
{
    if (t->elements && n == t->rank && known_element(e, loc, t, n, index, out)) return true;
    if (t->buf && tensor_check_rank(e, loc, t->name, t->rank, n))
        return leaf_load(e, loc, t, n, index, &other, out);
    if (!t->producer) return eval_fail(e, loc, "else guards reads of parameters");
    if (!tensor_check_rank(e, loc, t->name, t->rank, n)) return false;
    Value at[EVAL_MAX_RANK], in;
    for (int i = 0; i < n; i++) at[i] = eval_pin(e, "i", index[i]);
    if (!pack_within(e, loc, n, at, t->dims, &in)) return false;
    if (in.kind == V_BOOL) {
        *out = other;
        return !in.u.i || tensor_load(e, loc, t, n, at, out);
    }
    Element x = {.loc = loc, .t = t, .n = n, .index = at};
    return guarded(e, loc, in, t->type, element_load, &x, other, out);
}

bool tensor_apply(Eval *e, Loc loc, Tensor *t, int n, const Value *index, Value v,
                  const Value *other, Value *out)
{
    Tensor *leaf = tensor_leaf(t);
    Value at[EVAL_MAX_RANK], in;
    Node *x;
    if (!leaf)
        return eval_fail(e, loc, "'%s' has no single operand that shares its index map", t->name);
    if (!eval_node_as(e, loc, v, leaf->type, &x)) return false;
    Element el = {.loc = loc, .t = t, .n = n, .index = at, .leaf = leaf};
    el.value = eval_pin(e, "v", (Value){.kind = V_EXPR, .u.expr = x});
    if (el.value.kind != V_EXPR) el.value = (Value){.kind = V_EXPR, .u.expr = x};
    for (int i = 0; i < n; i++) at[i] = eval_pin(e, "i", index[i]);
    if (!other) return element_apply(e, &el, out);
    if (!pack_within(e, loc, n, at, t->dims, &in)) return false;
    if (in.kind != V_BOOL) return guarded(e, loc, in, t->type, element_apply, &el, *other, out);
    *out = *other;
    return !in.u.i || element_apply(e, &el, out);
}

static bool same_dims(const Tensor *a, const Tensor *b)
{
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (!value_equal(&a->dims[i], &b->dims[i])) return false;
    return true;
}

static bool is_one(const Value *v)
{
    return v->kind == V_INT && v->u.i == 1;
}

// The index in o of the hole's element `at`: they have the same axes but for those of extent 1, the
// k-th of which is the k-th of o. What is outside is outside there; *inside tells it of the axes of
// extent 1 for which o has none.
static bool thin_index(Eval *e, Loc loc, const Tensor *hole, const Value *at, const Tensor *o,
                       Value *there, Value *inside)
{
    Value lost[EVAL_MAX_RANK], extent[EVAL_MAX_RANK];
    int n = 0, next = 0, next_one = 0;
    for (int k = 0; k < o->rank; k++) there[k] = value_int(0);
    for (int i = 0; i < hole->rank; i++) {
        bool one = is_one(&hole->dims[i]);
        int *k = one ? &next_one : &next;
        while (*k < o->rank && is_one(&o->dims[*k]) != one) ++*k;
        ASSERT(one || *k < o->rank);
        if (*k < o->rank) there[(*k)++] = at[i];
        else lost[n] = at[i], extent[n++] = hole->dims[i];
    }
    return pack_within(e, loc, n, lost, extent, inside);
}

// Whether a and b have the same axes but for those of extent 1.
static bool is_thin_view(const Tensor *a, const Tensor *b)
{
    int i = 0, k = 0;
    for (;; i++, k++) {
        while (i < a->rank && is_one(&a->dims[i])) i++;
        while (k < b->rank && is_one(&b->dims[k])) k++;
        if (i == a->rank || k == b->rank) return i == a->rank && k == b->rank;
        if (!value_equal(&a->dims[i], &b->dims[k])) return false;
    }
}

// The index in o, whose elements are the hole's in the same order, of the hole's element `at`; that
// it is one of the hole's is to be *inside.
static bool view_index(Eval *e, Loc loc, const Tensor *hole, const Value *at, const Tensor *o,
                       Value *there, Value *inside)
{
    Value linear, index;
    if (is_thin_view(hole, o)) return thin_index(e, loc, hole, at, o, there, inside);
    if (!values_ravel(e, loc, hole->rank, at, hole->dims, &linear) ||
        !values_unravel(e, loc, linear, o->rank, o->dims, &index))
        return false;
    for (int k = 0; k < o->rank; k++) there[k] = index.u.tuple.at[k];
    return pack_within(e, loc, hole->rank, at, hole->dims, inside);
}

// Output k of t's epilogue, whose value at an index is v, where `in` holds.
static bool store_inside(Eval *e, Loc loc, const Epilogue *ep, int k, const Value *index, Value v,
                         Value in)
{
    Stmts *body, *saved;
    Node *c;
    int n = ep->outputs[k]->rank;
    if (in.kind == V_BOOL) return !in.u.i || output_store(e, loc, ep, k, n, index, v, GUARD_DROP);
    if (!eval_node(e, loc, in, &c) || !eval_begin(e, &body, &saved, loc)) return false;
    body->conditional = true;
    bool ok = output_store(e, loc, ep, k, n, index, v, GUARD_DROP);
    Node *s = node_new(e->arena, N_IF, loc, 3);
    s->kid[0] = c;
    s->kid[1] = eval_end(e, body, saved, loc);
    eval_emit(e, s);
    return ok;
}

// Stores the epilogue's outputs for value v of the hole; with `first` set, the first one's value
// goes there instead of to memory.
static bool store_epilogue(Eval *e, Loc loc, Tensor *t, int n, const Value *index, Value v,
                           Value *first)
{
    const Epilogue *ep = t->epilogue;
    Node *x;
    if (!eval_node_as(e, loc, v, ep->hole->type, &x)) return false;
    ep->hole->hole = eval_pin(e, "v", value_expr(x));
    if (ep->hole->hole.kind != V_EXPR) ep->hole->hole = (Value){.kind = V_EXPR, .u.expr = x};
    Value at[EVAL_MAX_RANK], there[EVAL_MAX_RANK];
    for (int i = 0; i < n; i++) at[i] = eval_pin(e, "i", index[i]);
    bool guard = e->guard_leaves, ok = true;
    int shared = e->shared.n;
    e->guard_leaves = true;
    if (t->rows && t->rows->space == SPACE_WORKSPACE)
        ok = memory_store_guarded(e, loc, t->rows, n, at, ep->hole->hole, GUARD_DROP);
    for (int k = 0; ok && k < ep->noutput; k++) {
        Tensor *o = ep->outputs[k];
        if (t->of_rows && t->of_rows[k]) continue;
        Value inside = value_bool(true), *to = at;
        if (!same_dims(o, ep->hole)) {
            to = there;
            ok = view_index(e, loc, ep->hole, at, o, to, &inside);
        }
        ok = ok && tensor_load(e, loc, o, o->rank, to, &v);
        if (ok && first && first->kind == V_NONE) *first = eval_pin(e, "v", v);
        else ok = ok && store_inside(e, loc, ep, k, to, v, inside);
    }
    e->guard_leaves = guard;
    e->shared.n = shared; // they read the hole
    ep->hole->hole = value_none();
    return ok;
}

bool tensor_store(Eval *e, Loc loc, Tensor *t, int n, const Value *index, Value v)
{
    if (!t->epilogue)
        return eval_fail(e, loc, "'%s' is an input: it cannot be written",
                         t->name ? t->name : "the tensor");
    if (!tensor_check_rank(e, loc, t->name, t->rank, n)) return false;
    if (t->epilogue->hole) return store_epilogue(e, loc, t, n, index, v, NULL);
    Node *x; // a result is rounded to its type even where memory could hold more
    return eval_node_as(e, loc, v, t->type, &x) &&
           output_store(e, loc, t->epilogue, 0, n, index, (Value){.kind = V_EXPR, .u.expr = x},
                        GUARD_DROP);
}

bool tensor_value(Eval *e, Loc loc, Tensor *t, int n, const Value *index, Value v, Value *out)
{
    if (!t->epilogue) return eval_fail(e, loc, "'%s' is no result", t->name);
    *out = value_none();
    if (t->epilogue->hole)
        return store_epilogue(e, loc, t, n, index, v, out) &&
               (out->kind != V_NONE ||
                eval_fail(e, loc, "every output of '%s' needs whole rows of it: no value",
                          t->name));
    Node *x;
    if (!eval_node_as(e, loc, v, t->type, &x)) return false;
    *out = value_expr(x);
    return true;
}

// Finds the statement of an op's body that defines result `name`, following conditions, which must
// be known.
static bool element_of(Eval *e, Node *seq, Sym name, int n, const Value *index, Value *out,
                       bool *found)
{
    for (int i = 0; i < NREST(seq) && !*found; i++) {
        Node *s = REST(seq)[i];
        if (s->kind == N_ASSIGN) {
            Node *place = KID(s, ASSIGN, place);
            if (place->kind != N_INDEX || KID(place, INDEX, base)->kind != N_NAME)
                return eval_fail(e, s->loc, "an op's body assigns to its results, by index");
            if (KID(place, INDEX, base)->u.sym != name) continue;
            *found = true;
            return bind_index_pattern(e, s->loc, REST(place), NREST(place), n, index) &&
                   eval_scalar(e, KID(s, ASSIGN, value), out);
        }
        if (s->kind == N_IF) {
            Value c;
            if (!eval_scalar(e, KID(s, IF, cond), &c)) return false;
            int64_t guess;
            if (c.kind == V_EXPR && eval_guess(e, s->loc, c, &guess)) c = value_bool(guess != 0);
            if (c.kind != V_BOOL)
                return eval_fail(e, s->loc,
                                 "a condition of an op's body must be known at compile time");
            Node *arm = c.u.i ? KID(s, IF, then) : KID(s, IF, other);
            if (arm && arm->kind == N_IF) {
                Node *wrap = node_seq(e->arena, arm->loc, 1, &arm);
                arm = wrap;
            }
            if (arm && !element_of(e, arm, name, n, index, out, found)) return false;
            continue;
        }
        if (s->kind == N_REQUIRE) continue;
        // It depends on no index, and what indexed lets compute outside of loops may use it.
        Stmts *saved = e->out;
        if (saved) e->out = share_home(e, 0, NULL);
        bool ok = eval_stmt(e, s);
        e->out = saved;
        if (!ok) return false;
    }
    return true;
}

// An element of a shared tensor that stands in a variable. It may be used again while the statement
// that defines the variable is in the list that is being made: so it is in scope.
struct Computed {
    const Value *index;
    Value value;
    const Node *define;
    int at; // in that list
    bool guarded;
    struct Computed *next;
};

static bool computed_before(Eval *e, const Tensor *t, int n, const Value *index, Value *out)
{
    for (const struct Computed *c = t->computed; c && e->out; c = c->next) {
        if (c->at >= e->out->list.n || e->out->list.at[c->at] != c->define) continue;
        bool same = c->guarded == e->guard_leaves;
        for (int i = 0; same && i < n; i++) same = value_equal(&c->index[i], &index[i]);
        if (!same) continue;
        *out = c->value;
        return true;
    }
    return false;
}

static void remember(Eval *e, Tensor *t, int n, const Value *index, Value *v)
{
    int before = e->out ? e->out->list.n : 0;
    *v = eval_pin(e, "v", *v);
    if (!e->out || e->out->list.n == before) return; // as cheap as a variable anyway
    struct Computed *c = NEW(e->arena, struct Computed);
    *c = (struct Computed){.index = value_tuple(e->arena, n, index).u.tuple.at, .value = *v};
    c->at = before;
    c->define = e->out->list.at[before];
    c->guarded = e->guard_leaves;
    c->next = t->computed;
    t->computed = c;
}

static bool op_element(Eval *e, Loc loc, Tensor *t, int n, const Value *index, Value *out)
{
    const OpInst *op = t->producer, *outer = e->op;
    const Tensor *outer_result = e->at_result;
    const Value *outer_index = e->at_index;
    if (++e->depth > EVAL_MAX_DEPTH)
        return eval_fail(e, loc, "ops nest deeper than %d", EVAL_MAX_DEPTH);
    Tensor *r = op->results[t->output];
    Value at[EVAL_MAX_RANK];
    for (int i = 0; i < n; i++)
        at[i] = index[i].kind == V_RANGE ? index[i] : eval_pin(e, "i", index[i]);
    if (t->shared && computed_before(e, t, n, at, out)) {
        e->depth--;
        return true;
    }
    Env *env = e->env;
    e->env = op->env;
    e->op = op;
    e->at_result = r;
    e->at_index = at;
    bool found = false;
    bool ok =
        op->decl->sub == OP_INDEX ||
        eval_fail(e, loc, "the serial op '%s' cannot be computed at one element", op->decl->u.sym);
    ok = ok && element_of(e, KID((Node *)op->decl, OP, body), r->name, n, at, out, &found);
    if (ok && !found)
        ok = eval_fail(e, op->decl->loc, "the body of '%s' does not define '%s'", op->decl->u.sym,
                       r->name);
    e->env = env;
    e->op = outer;
    e->at_result = outer_result;
    e->at_index = outer_index;
    e->depth--;
    Node *x;
    if (!ok || !eval_node_as(e, loc, *out, r->type, &x)) return false;
    *out = (Value){.kind = V_EXPR, .loc = loc, .u.expr = x}; // rounded to the result's type
    if (t->shared) remember(e, t, n, at, out);
    return true;
}
