// SPDX-License-Identifier: Apache-2.0
// Statements that CUDA writes differently: checks, roles, the one thread.
#include "codegen/cuda_emit.h"

#include "passes/arith.h"

// ---- which threads a role has

typedef struct AtThread {
    const Emit *emit;
    Node *thread;
} AtThread;

static Node *at_thread(void *user, Node *n)
{
    AtThread *t = user;
    Arena *a = t->emit->arena;
    if (n->kind == N_VARREF) {
        if (n->u.var->builtin == VAR_THREAD) return t->thread;
        Node *value = map_get(&t->emit->cuda->defined, n->u.var);
        return value ? at_thread(t, value) : n;
    }
    return node_fold(a, node_map(a, n, at_thread, t));
}

// False if it depends on more than the thread.
static bool find_members(Emit *e, Node *cond, CudaRole *r)
{
    const CudaRole *outer = e->cuda->role;
    r->first = -1;
    for (int i = 0; i < e->cuda->stage.nthread; i++) {
        AtThread t = {.emit = e, .thread = node_i64(e->arena, i)};
        Node *value = at_thread(&t, cond);
        if (value->kind != N_INT) return false;
        r->member[i] = value->u.i && outer->member[i];
        if (!r->member[i]) continue;
        r->size++;
        if (r->first < 0) r->first = i;
    }
    return true;
}

static void emit_role(Emit *e, Node *n)
{
    CudaRole *role = NEW(e->arena, CudaRole);
    const CudaRole *outer = e->cuda->role;
    if (!find_members(e, KID(n, ROLE, cond), role)) {
        diag_error(e->diag, n->loc, "which threads have this role must be known at compile time");
        return;
    }
    role->barrier = outer->barrier;
    if (role->size != outer->size) role->barrier = CUDA_BARRIERS - ++e->cuda->nbarrier;
    if (role->barrier < 0) {
        diag_error(e->diag, n->loc, "more roles than there are barriers, %d", CUDA_BARRIERS);
        return;
    }
    e->cuda->role = role;
    emit_conditional(e, n, "if", KID(n, ROLE, cond), KID(n, ROLE, body));
    buf_putc(e->out, '\n');
    e->cuda->role = outer;
}

static void emit_one(Emit *e, Node *n)
{
    emit_start(e, n);
    buf_printf(e->out, "if (threadIdx.x == %d) ", e->cuda->role->first);
    emit_block(e, KID(n, ONE, body));
    buf_putc(e->out, '\n');
}

// ---- the rest

// The host finds the number after the launch. Where threads wait for each other, the kernel dies,
// so that nothing hangs.
static void emit_check(Emit *e, Node *n)
{
    emit_start(e, n);
    buf_puts(e->out, "if (!");
    emit_scalar(e, KID(n, CHECK, cond));
    buf_printf(e->out, ") {\n%*s*(volatile uint32_t *)h_failed = %d;\n%*s", 4 * e->indent + 4, "",
               ++e->nchecks, 4 * e->indent + 4, "");
    buf_puts(e->out, e->cuda->may_leave ? "return;\n" : "__threadfence_system();\n");
    if (!e->cuda->may_leave) buf_printf(e->out, "%*s__trap();\n", 4 * e->indent + 4, "");
    buf_printf(e->out, "%*s}\n", 4 * e->indent, "");
}

bool cuda_statement(Emit *e, const Node *statement)
{
    Node *n = (Node *)statement;
    switch (n->kind) {
    case N_ROLE: emit_role(e, n); return true;
    case N_ONE: emit_one(e, n); return true;
    case N_CHECK: emit_check(e, n); return true;
    default: return false;
    }
}
