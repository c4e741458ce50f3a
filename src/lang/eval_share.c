// SPDX-License-Identifier: Apache-2.0
// Elements of computed tensors are computed once where they are read several times, and sums that
// do not depend on a loop stand before it. Both follow from the lists of statements that are open:
// what was emitted to one of them has run already.
#include "lang/eval.h"

#include <string.h>

static bool is_open(const Eval *e, const Stmts *where)
{
    const Stmts *s = e->out;
    while (s && s != where) s = s->parent;
    return s != NULL;
}

static bool same_thing(const Tensor *a, const Tensor *b)
{
    if (a->let || b->let) return a->let == b->let && a->owner == b->owner;
    return a->producer == b->producer && a->output == b->output;
}

// Nothing that statements change.
static bool lasting(int n, const Value *index)
{
    for (int i = 0; i < n; i++)
        if (index[i].kind != V_INT && (index[i].kind != V_EXPR || !node_pure(index[i].u.expr)))
            return false;
    return true;
}

bool share_find(const Eval *e, const Tensor *t, int n, const Value *index, Value *out)
{
    enum { LOOK_BACK = 64 };
    for (int i = e->shared.n - 1; i >= e->shared_from && i >= e->shared.n - LOOK_BACK; i--) {
        const Shared *s = &e->shared.at[i];
        if (s->guard != e->guard_leaves || s->n != n || !same_thing(s->t, t) ||
            !is_open(e, s->where))
            continue;
        bool same = true;
        for (int k = 0; same && k < n; k++) same = value_equal(&s->index[k], &index[k]);
        if (!same) continue;
        *out = s->value;
        return true;
    }
    return false;
}

static bool has_loop(const Node *n)
{
    if (n->kind == N_REDUCE || n->kind == N_FOLD) return true;
    for (uint32_t i = 0; i < n->nkid; i++)
        if (n->kid[i] && has_loop(n->kid[i])) return true;
    return false;
}

static int newest_var(const Node *n)
{
    int newest = n->kind == N_VARREF ? n->u.var->id : -1;
    for (uint32_t i = 0; i < n->nkid; i++) {
        int v = n->kid[i] ? newest_var(n->kid[i]) : -1;
        newest = v > newest ? v : newest;
    }
    return newest;
}

Stmts *share_home(const Eval *e, int n, const Value *index)
{
    int newest = -1;
    for (int i = 0; i < n; i++) {
        int v = index[i].kind == V_EXPR ? newest_var(index[i].u.expr) : -1;
        newest = v > newest ? v : newest;
    }
    Stmts *s = e->out;
    while (s->parent && !s->conditional && s->first_id > newest) s = s->parent;
    return s;
}

static void share_add(Eval *e, const Tensor *t, int n, const Value *index, Value v)
{
    Shared s = {.t = t, .n = n, .value = v, .where = e->out, .guard = e->guard_leaves};
    s.index = NEW_ARRAY(e->arena, Value, n);
    if (n) memcpy(s.index, index, (size_t)n * sizeof(Value));
    VEC_PUSH(e->arena, &e->shared, s);
}

bool share_load(Eval *e, Loc loc, Tensor *t, int n, const Value *index,
                bool (*compute)(Eval *, Loc, Tensor *, int, const Value *, Value *), Value *out)
{
    if (!e->out || !lasting(n, index) ||
        (t->let && !t->owner)) // a kernel's own let reads what changes
        return compute(e, loc, t, n, index, out);
    if (share_find(e, t, n, index, out)) return true;
    Stmts *saved = e->out;
    bool loop = t->let && has_loop(t->let);
    if (loop) e->out = share_home(e, n, index);
    bool outside = e->out != saved;
    bool ok = compute(e, loc, t, n, index, out);
    if (ok && out->kind == V_SCAN) { // kept where a loop reads it
        ok = !outside || scan_keep(e, out->u.scan);
        if (ok && scan_kept(out->u.scan)) share_add(e, t, n, index, *out);
        e->out = saved;
        return ok;
    }
    NodeKind kind = ok && out->kind == V_EXPR ? (NodeKind)out->u.expr->kind : N_NONE;
    bool cheap =
        kind == N_LOAD || kind == N_LOAD_ELSE || kind == N_NONE; // sharing these costs more
    if (ok && !cheap && (loop || !e->choosing)) {
        *out = eval_pin(e, t->name ? t->name : "v", *out);
        share_add(e, t, n, index, *out);
    }
    e->out = saved;
    return ok;
}
