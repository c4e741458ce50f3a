// SPDX-License-Identifier: Apache-2.0
// Epilogues that read more of a result than the element being stored: sums over its last axis,
// norms. They are computed row by row when the kernel says that rows are complete (c.rows), or in a
// stage of their own; rows are read back from where they were stored.
#include "lang/eval.h"

static Value fresh(Eval *e, const char *name, DType type)
{
    return value_expr(node_var(e->arena, 0, kernel_var(e->kernel, name, type, false)));
}

// Whether output o reads the hole within a reduction: it is evaluated once, and the result thrown
// away.
static bool reads_rows(Eval *e, Loc loc, Tensor *hole, Tensor *o, bool *out)
{
    Kernel *k = e->kernel;
    int next_id = k->next_id, shared = e->shared.n;
    Stmts *saved = e->out;
    Value at[EVAL_MAX_RANK], v;
    e->out = NEW(e->arena, Stmts);
    e->hole_reduced = false;
    hole->hole = fresh(e, "v", hole->type);
    for (int i = 0; i < o->rank; i++) at[i] = fresh(e, "i", DT_I64);
    bool ok = tensor_load(e, loc, o, o->rank, at, &v);
    hole->hole = value_none();
    *out = e->hole_reduced;
    e->out = saved;
    k->next_id = next_id;
    e->shared.n = shared;
    return ok;
}

static bool leading_dims_agree(const Tensor *hole, const Tensor *o)
{
    if (hole->rank < 1 || o->rank < hole->rank - 1) return false;
    for (int i = 0; i < hole->rank - 1; i++)
        if (!value_equal(&hole->dims[i], &o->dims[i])) return false;
    return true;
}

bool rows_find(Eval *e, Loc loc, Tensor *t)
{
    const Epilogue *ep = t->epilogue;
    Tensor *hole = ep->hole;
    bool any = false, *of_rows = NEW_ARRAY(e->arena, bool, ep->noutput);
    for (int k = 0; hole && k < ep->noutput; k++) {
        if (ep->outputs[k] == hole) continue;
        if (!reads_rows(e, loc, hole, ep->outputs[k], &of_rows[k])) return false;
        any = any || of_rows[k];
        if (of_rows[k] && !leading_dims_agree(hole, ep->outputs[k]))
            return eval_fail(e, loc, "an epilogue of '%s' reduces over more than its rows",
                             t->name);
    }
    if (!any) return true;
    t->of_rows = of_rows;
    for (int k = 0; k < ep->noutput; k++)
        if (ep->outputs[k] == hole && !(ep->place && ep->place[k])) t->rows = ep->memory[k];
    if (t->rows) return true;
    Node *extent[EVAL_MAX_RANK];
    for (int i = 0; i < hole->rank; i++)
        if (!eval_index(e, loc, hole->dims[i], &extent[i])) return false;
    t->rows = kernel_buffer(e->kernel, t->name, SPACE_WORKSPACE, hole->type, hole->rank, extent);
    t->rows->loc = loc;
    VEC_PUSH(e->arena, &e->kernel->workspace, t->rows);
    return true;
}

typedef struct RowOutput {
    Loc loc;
    Tensor *o;
    const Epilogue *ep;
    int output;
    Value at[EVAL_MAX_RANK], v;
} RowOutput;

static bool store_output(Eval *e, void *user)
{
    RowOutput *r = user;
    return output_store(e, r->loc, r->ep, r->output, r->o->rank, r->at, r->v, GUARD_NONE);
}

static bool row_element(Eval *e, Value index, const Value *task, void *user)
{
    RowOutput *r = user;
    UNUSED(task);
    r->at[r->o->rank - 1] = index;
    return tensor_load(e, r->loc, r->o, r->o->rank, r->at, &r->v) && store_output(e, r);
}

// All elements of an output in the row: the team shares out the last axis, others that the row's
// index does not fix are loops.
static bool row_of(Eval *e, RowOutput *r, int n)
{
    Loc loc = r->loc;
    if (n == r->o->rank)
        return tensor_load(e, loc, r->o, n, r->at, &r->v) && team_once(e, loc, store_output, r);
    if (n == r->o->rank - 1 && e->team)
        return team_loop(e, loc, value_int(0), r->o->dims[n], row_element, NULL, r);
    Node *lo = node_int(e->arena, loc, DT_I64, 0), *hi;
    Var *v;
    Stmts *body, *saved;
    if (!eval_index(e, loc, r->o->dims[n], &hi) || !eval_begin(e, &body, &saved, loc)) return false;
    Node *loop = eval_loop_open(e, loc, "j", lo, hi, &v);
    body->first_id = v->id;
    r->at[n] = value_expr(node_var(e->arena, loc, v));
    bool ok = row_of(e, r, n + 1);
    loop->kid[2] = eval_end(e, body, saved, loc);
    eval_emit(e, loop);
    return ok;
}

static bool all_outputs(Eval *e, Loc loc, Tensor *t, int n, const Value *index)
{
    const Epilogue *ep = t->epilogue;
    Tensor saved = *ep->hole;
    int shared = e->shared.n;
    bool ok = true, guard = e->guard_leaves;
    ep->hole->is_hole = false;
    ep->hole->buf = t->rows;
    e->guard_leaves = false;
    e->row_of = ep->hole;
    e->row = index;
    ok = team_begin(e, loc);
    for (int k = 0; ok && k < ep->noutput; k++) {
        RowOutput r = {.loc = loc, .o = ep->outputs[k], .ep = ep, .output = k};
        for (int i = 0; i < n; i++) r.at[i] = index[i];
        if (t->of_rows[k]) ok = row_of(e, &r, n);
    }
    e->team = NULL;
    e->guard_leaves = guard;
    e->row_of = NULL;
    *ep->hole = saved;
    e->shared.n = shared; // they read the hole
    return ok;
}

bool rows_compute(Eval *e, Loc loc, Tensor *t, int n, const Value *index)
{
    Value in, at[EVAL_MAX_RANK];
    Node *cond;
    if (!t->epilogue) return eval_fail(e, loc, "'%s' is no result", t->name);
    if (n != t->rank - 1)
        return eval_fail(e, loc, "'rows' takes %d indices: all but the last", t->rank - 1);
    t->rows_done = true;
    if (!t->of_rows) return true;
    for (int i = 0; i < n; i++) at[i] = eval_pin(e, "i", index[i]);
    Stmts *body, *saved;
    if (!pack_within(e, loc, n, at, t->dims, &in) || !eval_begin(e, &body, &saved, loc))
        return false;
    body->conditional = true;
    bool ok = all_outputs(e, loc, t, n, at);
    Node *then = eval_end(e, body, saved, loc);
    if (!ok || (in.kind == V_BOOL && !in.u.i)) return ok;
    if (in.kind == V_BOOL) {
        eval_emit(e, then);
        return true;
    }
    if (!eval_node(e, loc, in, &cond)) return false;
    Node *s = node_new(e->arena, N_IF, loc, 3);
    s->kid[0] = cond;
    s->kid[1] = then;
    eval_emit(e, s);
    return true;
}

bool rows_stage(Eval *e, Loc loc, Tensor *t)
{
    enum { THREADS = 128, ROWS = 4 }; // on a GPU; a warp a row
    Stage *s = e->stage = NEW(e->arena, Stage);
    Stmts *body = e->out = NEW(e->arena, Stmts);
    bool cuda = e->kernel->target.kind == TARGET_CUDA;
    Value total = value_int(1), row, at;
    int n = t->rank - 1;
    s->name = eval_sym(e, "rows");
    s->block = cuda ? node_i64(e->arena, THREADS) : NULL;
    for (int i = 0; i < n; i++)
        if (!eval_binary(e, loc, N_MUL, total, t->dims[i], &total)) return false;
    Value blocks = total;
    if (cuda && (!eval_binary(e, loc, N_ADD, total, value_int(ROWS - 1), &blocks) ||
                 !eval_binary(e, loc, N_DIV, blocks, value_int(ROWS), &blocks)))
        return false;
    s->ngrid = 1;
    Value block = {.kind = V_FUNCTION, .u.str = eval_sym(e, "block")}, warp;
    bool found;
    if (!eval_index(e, loc, blocks, &s->grid[0]) ||
        !builtin_field(e, loc, block, eval_sym(e, "x"), &row))
        return false;
    if (cuda && (!builtin_constant(e, eval_sym(e, "warp"), loc, &warp, &found) ||
                 !eval_binary(e, loc, N_MUL, row, value_int(ROWS), &row) ||
                 !eval_binary(e, loc, N_ADD, row, warp, &row)))
        return false;
    bool ok =
        values_unravel(e, loc, row, n, t->dims, &at) && rows_compute(e, loc, t, n, at.u.tuple.at);
    s->body = eval_end(e, body, NULL, loc);
    VEC_PUSH(e->arena, &e->kernel->stages, s);
    e->stage = NULL;
    return ok;
}
