// SPDX-License-Identifier: Apache-2.0
// Is this kernel well formed? One walk with the scope as a set: statements, memory and the kernel
// around them here, expressions in kernel_verify_expr.c. What is reported is a mistake of whoever
// made the kernel, at the place in the text that it came from.
#include "ir/kernel_verify.h"

static void check_stmt(Verifier *v, const Node *n);

// ---- scope

static void bind(Verifier *v, const void *object, const char *name, Loc loc)
{
    if (verify_in_scope(v, object))
        diag_error(v->diag, loc, "%s is bound twice", name ? name : "_");
    map_put(v->arena, &v->bound, object, (void *)object);
    VEC_PUSH(v->arena, &v->scope, object);
}

static void leave_scope(Verifier *v, int mark)
{
    while (v->scope.n > mark) map_put(v->arena, &v->bound, VEC_POP(&v->scope), NULL);
}

// ---- memory

static void check_over(Verifier *v, const Buffer *b, bool bounded)
{
    if (!b->over && !b->over_worker) return;
    if (!b->over || !b->over_worker || b->space != SPACE_LOCAL) {
        diag_error(v->diag, b->loc, "%s: only local memory is over a mapping, of a worker",
                   b->name);
        return;
    }
    if (b->over->rank != b->rank) {
        diag_error(v->diag, b->loc, "%s of rank %d is over a mapping of rank %d", b->name, b->rank,
                   b->over->rank);
        return;
    }
    for (int i = 0; bounded && i < b->rank; i++) {
        if (node_is_const(b->extent[i], b->over->shape[i])) continue;
        diag_error(v->diag, b->loc, "%s: extent %d is not the mapping's %lld", b->name, i,
                   (long long)b->over->shape[i]);
    }
}

static void check_buffer(Verifier *v, const Buffer *b)
{
    bool constant = b->space != SPACE_GLOBAL && b->space != SPACE_WORKSPACE, known = true;
    if ((b->type == DT_NONE) != b->is_mbarrier) {
        diag_error(v->diag, b->loc, "memory %s of type %s", b->name, dtypes[b->type].name);
    }
    for (int i = 0; i < (b->flat ? 1 : b->rank); i++) {
        verify_value(v, b->extent[i]);
        verify_scalar(v, b->extent[i], b->extent[i], DT_I64, "extent");
        known = known && b->extent[i]->kind == N_INT;
    }
    if (constant && !known) diag_error(v->diag, b->loc, "extents of %s are not constant", b->name);
    if (b->layout && !b->flat && b->layout->rank != b->rank) {
        diag_error(v->diag, b->loc, "%s of rank %d has a layout of rank %d", b->name, b->rank,
                   b->layout->rank);
    }
    if (v->kernel->lowered && !b->flat && !b->is_mbarrier) {
        diag_error(v->diag, b->loc, "%s is not flat in a lowered kernel", b->name);
    }
    if (!b->flat) check_over(v, b, known);
}

// ---- statements

static void check_body(Verifier *v, const Node *body)
{
    int mark = v->scope.n;
    check_stmt(v, body);
    leave_scope(v, mark);
}

static void check_condition(Verifier *v, const Node *n, const Node *cond)
{
    verify_value(v, cond);
    verify_scalar(v, n, cond, DT_BOOL, "condition");
}

static void check_binding(Verifier *v, const Node *n)
{
    const Var *var = n->u.var;
    const Node *value = n->kid[0];
    if (value) {
        verify_value(v, value);
        if (value->type != var->type || value->lanes != var->lanes) {
            WRONG(v, n, "%s: %s of type %s gets %s", verify_name(n), var->name,
                  dtypes[var->type].name, verify_type_text(v, value));
        }
    }
    if (n->kind == N_SET) {
        if (!verify_in_scope(v, var)) WRONG(v, n, "%s is not in scope", var->name);
        if (!var->mutable) WRONG(v, n, "SET of %s, which is immutable", var->name);
        return;
    }
    if (var->mutable != (n->kind == N_DECLARE)) {
        WRONG(v, n, "%s of %s, which is %smutable", verify_name(n), var->name,
              var->mutable ? "" : "im");
    }
    bind(v, var, var->name, n->loc);
}

static void check_alloc(Verifier *v, const Node *n)
{
    const Buffer *b = n->u.buf;
    const Node *init = n->kid[0];
    if (b->space != SPACE_LOCAL && b->space != SPACE_SHARED) {
        WRONG(v, n, "ALLOC of %s memory %s", space_name[b->space], b->name);
    }
    check_buffer(v, b);
    if (init) {
        verify_value(v, init);
        verify_scalar(v, n, init, b->type, "initial value");
    }
    bind(v, b, b->name, n->loc);
}

static void check_store(Verifier *v, const Node *n)
{
    const Node *value = n->kid[0];
    verify_value(v, value);
    verify_access(v, n, value);
    if (n->u.buf->space == SPACE_GLOBAL && !n->u.buf->output) {
        WRONG(v, n, "STORE to the input %s", n->u.buf->name);
    }
}

static void check_loop(Verifier *v, const Node *n)
{
    const Var *var = n->u.var;
    verify_values(v, n->kid, 2);
    verify_scalar(v, n, n->kid[0], var->type, "start");
    verify_scalar(v, n, n->kid[1], var->type, "end");
    if (!dtype_is_int(var->type) || var->lanes != 1 || var->mutable) {
        WRONG(v, n, "LOOP: %s is no immutable integer", var->name);
    }
    int mark = v->scope.n;
    v->nloop++;
    bind(v, var, var->name, n->loc);
    check_body(v, n->kid[2]);
    v->nloop--;
    leave_scope(v, mark);
}

static void check_mapfor(Verifier *v, const Node *n)
{
    const Node *worker = n->kid[0];
    bool lanes = worker->kind == N_VARREF && worker->u.var->builtin == VAR_LANE;
    int mark = v->scope.n, nloop = v->nloop;
    if (v->kernel->lowered) WRONG(v, n, "MAPFOR in a lowered kernel");
    if (NREST(n) != n->u.map->rank) {
        WRONG(v, n, "MAPFOR: %d names for a mapping of rank %d", NREST(n), n->u.map->rank);
    }
    v->nlane += lanes;
    verify_value(v, worker);
    verify_scalar(v, n, worker, DT_I64, "worker");
    for (int i = 0; i < NREST(n); i++) {
        const Node *name = REST((Node *)n)[i];
        if (name->kind == N_VARREF && name->type == DT_I64 && !name->u.var->mutable) {
            bind(v, name->u.var, name->u.var->name, name->loc);
        } else {
            WRONG(v, name, "MAPFOR binds %s, not an i64 variable", verify_name(name));
        }
    }
    v->nloop = 0; // break and continue may not leave a mapping
    check_body(v, n->kid[1]);
    v->nloop = nloop;
    v->nlane -= lanes;
    leave_scope(v, mark);
}

static void check_while(Verifier *v, const Node *n)
{
    check_condition(v, n, n->kid[0]);
    v->nloop++;
    check_body(v, n->kid[1]);
    v->nloop--;
}

static void check_seq(Verifier *v, const Node *n)
{
    int mark = v->scope.n;
    for (uint32_t i = 0; i < n->nkid; i++) check_stmt(v, n->kid[i]);
    leave_scope(v, mark);
}

static void check_eval(Verifier *v, const Node *n)
{
    if (n->kid[0]->kind == N_INTRIN) {
        verify_expr(v, n->kid[0]); // may give nothing
    } else {
        verify_value(v, n->kid[0]);
    }
}

static void check_stmt(Verifier *v, const Node *n)
{
    if (!verify_complete(v, n)) return;
    switch (n->kind) {
    case N_SEQ: check_seq(v, n); break;
    case N_DEFINE:
    case N_DECLARE:
    case N_SET: check_binding(v, n); break;
    case N_ALLOC: check_alloc(v, n); break;
    case N_STORE: check_store(v, n); break;
    case N_LOOP: check_loop(v, n); break;
    case N_MAPFOR: check_mapfor(v, n); break;
    case N_WHILE: check_while(v, n); break;
    case N_IF:
        check_condition(v, n, n->kid[0]);
        check_body(v, n->kid[1]);
        if (n->kid[2]) check_body(v, n->kid[2]);
        break;
    case N_ROLE:
        check_condition(v, n, n->kid[0]);
        check_body(v, n->kid[1]);
        break;
    case N_ONE: check_body(v, n->kid[0]); break;
    case N_EVAL: check_eval(v, n); break;
    case N_CHECK: check_condition(v, n, n->kid[0]); break;
    case N_BREAK:
    case N_CONTINUE:
        if (!v->nloop) WRONG(v, n, "%s outside a loop", verify_name(n));
        break;
    default: WRONG(v, n, "%s where a statement is expected", verify_name(n)); break;
    }
}

// ---- the kernel

static void check_launch(Verifier *v, const Node *n, const char *what)
{
    if (!n) return;
    verify_value(v, n);
    verify_scalar(v, n, n, DT_I64, what);
}

static void check_stage(Verifier *v, const Stage *s)
{
    int mark = v->scope.n;
    if (s->ngrid < 0 || s->ngrid > KERNEL_MAX_GRID) {
        diag_error(v->diag, v->kernel->loc, "a grid of rank %d", s->ngrid);
        return;
    }
    for (int i = 0; i < s->ngrid; i++) check_launch(v, s->grid[i], "grid");
    check_launch(v, s->cluster, "cluster");
    check_launch(v, s->block, "block");
    for (int i = 0; i <= VAR_CORE; i++) {
        const Var *var = s->builtin[i];
        if (!var) continue;
        if ((int)var->builtin != i || var->type != DT_I64 || var->lanes != 1) {
            diag_error(v->diag, v->kernel->loc, "builtin %d is another variable, %s", i, var->name);
        }
        bind(v, var, var->name, var->loc);
    }
    for (int i = 0; i < s->memory.n; i++) {
        const Buffer *b = s->memory.at[i];
        if (b->space != SPACE_SHARED && b->space != SPACE_CORE_LOCAL) {
            diag_error(v->diag, b->loc, "%s memory %s of a stage", space_name[b->space], b->name);
        }
        check_buffer(v, b);
        bind(v, b, b->name, b->loc);
    }
    if (s->body && s->body->kind == N_SEQ) {
        check_stmt(v, s->body);
    } else {
        diag_error(v->diag, v->kernel->loc, "the body of a stage is %s, not SEQ",
                   verify_name(s->body));
    }
    leave_scope(v, mark);
}

static void check_globals(Verifier *v)
{
    const Kernel *k = v->kernel;
    bool outputs = false;
    for (int i = 0; i < k->params.n; i++) {
        const Buffer *b = k->params.at[i];
        if (b->space != SPACE_GLOBAL || b->param != i || (outputs && !b->output)) {
            diag_error(v->diag, b->loc, "%s is not in order as parameter %d", b->name, i);
        }
        outputs = b->output;
        check_buffer(v, b);
        bind(v, b, b->name, b->loc);
    }
    for (int i = 0; i < k->workspace.n; i++) {
        const Buffer *b = k->workspace.at[i];
        if (b->space != SPACE_WORKSPACE) {
            diag_error(v->diag, b->loc, "%s is not workspace", b->name);
        }
        check_buffer(v, b);
        bind(v, b, b->name, b->loc);
    }
}

bool kernel_verify(const Kernel *k, Diag *d)
{
    int before = d->nerror;
    Verifier v = {.arena = d->arena, .kernel = k, .diag = d};
    for (int i = 0; i < k->dims.n; i++) {
        const Var *dim = k->dims.at[i];
        if (dim->builtin != VAR_DIM || dim->type != DT_I64 || dim->mutable) {
            diag_error(d, dim->loc, "%s is no dimension", dim->name);
        }
        bind(&v, dim, dim->name, dim->loc);
    }
    check_globals(&v);
    for (int i = 0; i < k->requirements.n; i++) {
        check_condition(&v, k->requirements.at[i].cond, k->requirements.at[i].cond);
    }
    if (!k->stages.n) diag_error(d, k->loc, "the kernel has no stage");
    for (int i = 0; i < k->stages.n; i++) check_stage(&v, k->stages.at[i]);
    return d->nerror == before;
}
