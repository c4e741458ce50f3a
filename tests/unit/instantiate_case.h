// SPDX-License-Identifier: Apache-2.0
// A `graph` of the language as a test case of the evaluator: its ops before the kernel (or serial
// op) are prologues, those after it are epilogues, names among the extents are dynamic dimensions,
// arguments named like a tune entry are schedule choices.
#ifndef HEALD_TESTS_INSTANTIATE_CASE_H
#define HEALD_TESTS_INSTANTIATE_CASE_H

#include "lang/eval.h"

#include <string.h>

enum { CASE_MAX = 8 };

typedef struct Case {
    Arena *arena;
    Library *lib;
    Diag *diag;
    Instance *in;
    Node *anchor; // the kernel or serial op called
    int narg, nresult, nchoice;
    Value args[64];
    Map attrs;
    Sym choice_name[CASE_MAX];
    Value choice[CASE_MAX];
    Tensor **result; // holes
    int noutput;
    Tensor *output[CASE_MAX];
    Buffer *memory[CASE_MAX];
} Case;

// Fixed, so that goldens do not depend on the machine.
static inline Target case_target(const Node *kernel)
{
    Target cpu = {TARGET_CPU, "x86-64-v3", 32, 16, 4, 1, 0, 32 << 10, 1 << 20, 8 << 20, false},
           cuda;
    Node *clauses = kernel->kind == N_KERNEL ? KID((Node *)kernel, KERNEL, clauses) : NULL;
    for (int i = 0; clauses && i < NREST(clauses); i++) {
        Node *c = REST(clauses)[i], *args = KID(c, CLAUSE, args);
        if (strcmp(c->u.sym, "on") != 0 || NREST(args) < 1) continue;
        Node *name = REST(args)[0], *arch = NREST(args) > 1 ? REST(args)[1] : NULL;
        if (strcmp(name->u.sym, "cuda") == 0 &&
            target_cuda(&cuda, arch && arch->kind == N_NAME ? arch->u.sym : "sm_80"))
            return cuda;
    }
    return cpu;
}

static inline Node *case_call(Node *stmt)
{
    Node *value = stmt->kind == N_LET      ? KID(stmt, LET, value)
                  : stmt->kind == N_ASSIGN ? KID(stmt, ASSIGN, value)
                                           : NULL;
    return value && value->kind == N_CALL && KID(value, CALL, callee)->kind == N_NAME ? value
                                                                                      : NULL;
}

static inline Node *case_anchor(Library *lib, Sym name)
{
    Node *n = map_get(&lib->kernels, name), *op = map_get(&lib->ops, name);
    return n ? n : op && op->sub == OP_SERIAL ? op : NULL;
}

// Free names of extents become dimensions; they are bound for what follows.
static inline void case_dims(Case *c, Node *n)
{
    Eval *e = c->in->eval;
    if (n->kind == N_NAME && !env_find(e->env, n->u.sym))
        eval_bind(e, n->u.sym, instance_dim(c->in, n->u.sym, 1, 1 << 20, 1));
    for (uint32_t i = 0; i < n->nkid; i++)
        if (n->kid[i] && n->kind != N_CALL) case_dims(c, n->kid[i]);
}

static inline bool case_input(Case *c, Node *param)
{
    Eval *e = c->in->eval;
    Node *type = KID(param, PARAM, type);
    DType t;
    int rank;
    Value dims[EVAL_MAX_RANK];
    for (int i = 0; i < NREST(type); i++) case_dims(c, REST(type)[i]);
    if (!bind_result_type(e, param, &t, &rank, dims)) return false;
    eval_bind(
        e, param->u.sym,
        (Value){.kind = V_TENSOR, .u.tensor = instance_input(c->in, param->u.sym, t, rank, dims)});
    return true;
}

static inline bool case_is_choice(const Node *anchor, Sym name)
{
    Node *body = anchor->kind == N_KERNEL ? KID((Node *)anchor, KERNEL, body) : NULL;
    for (int i = 0; body && i < NREST(body); i++)
        for (int k = 0; REST(body)[i]->kind == N_TUNE && k < NREST(REST(body)[i]); k++)
            if (REST(REST(body)[i])[k]->u.sym == name) return true;
    return false;
}

static inline bool case_args(Case *c, Node *call, Node *anchor, int *narg, Value *args, Map *attrs)
{
    Eval *e = c->in->eval;
    *narg = 0;
    for (int i = 0; i < NREST(call); i++) {
        Node *n = REST(call)[i];
        Value v = value_none();
        bool absent = n->kind == N_NAME && strcmp(n->u.sym, "none") == 0;
        if (!absent && !eval_expr(e, n->kind == N_ARG ? KID(n, ARG, value) : n, &v)) return false;
        if (n->kind != N_ARG && *narg < 64) args[(*narg)++] = v;
        else if (anchor && n->kind == N_ARG && case_is_choice(anchor, n->u.sym) &&
                 c->nchoice < CASE_MAX) {
            c->choice_name[c->nchoice] = n->u.sym;
            c->choice[c->nchoice++] = v;
        } else if (n->kind == N_ARG) {
            Value *copy = NEW(c->arena, Value);
            *copy = v;
            map_put(c->arena, attrs, n->u.sym, copy);
        }
    }
    return true;
}

static inline void case_bind(Case *c, Node *stmt, int n, Tensor *const *results)
{
    Node *p = stmt->kind == N_LET ? KID(stmt, LET, pattern) : KID(stmt, ASSIGN, place);
    for (int i = 0; i < n; i++) {
        Node *name = p->kind == N_TUPLE ? i < NREST(p) ? REST(p)[i] : NULL : i == 0 ? p : NULL;
        if (name && name->kind == N_NAME)
            eval_bind(c->in->eval, name->u.sym, (Value){.kind = V_TENSOR, .u.tensor = results[i]});
    }
}

static inline Choices case_choices(Case *c)
{
    return (Choices){c->nchoice, c->choice_name, c->choice};
}

static inline bool case_results(Case *c)
{
    Choices chosen = case_choices(c);
    if (c->anchor->kind == N_KERNEL)
        return kernel_results(c->in, c->anchor, c->narg, c->args, &c->attrs, &chosen, &c->result,
                              &c->nresult);
    OpInst *op = op_apply(c->in, c->anchor->loc, c->anchor, c->narg, c->args, &c->attrs);
    if (!op) return false;
    c->nresult = op->nresult;
    c->result = NEW_ARRAY(c->arena, Tensor *, op->nresult);
    for (int i = 0; i < op->nresult; i++) {
        Tensor *t = op->results[i];
        c->result[i] = instance_hole(c->in, t->name, t->type, t->rank, t->dims);
    }
    return true;
}

static inline bool case_stmt(Case *c, Node *stmt)
{
    Node *call = case_call(stmt);
    if (!call) return eval_fail(c->in->eval, stmt->loc, "a case calls ops and one kernel");
    Sym name = KID(call, CALL, callee)->u.sym;
    Node *anchor = case_anchor(c->lib, name), *op = map_get(&c->lib->ops, name);
    if (anchor && !c->anchor) {
        c->anchor = anchor;
        if (!case_args(c, call, anchor, &c->narg, c->args, &c->attrs) || !case_results(c))
            return false;
        case_bind(c, stmt, c->nresult, c->result);
        return true;
    }
    if (!op) return eval_fail(c->in->eval, call->loc, "no op is called '%s'", name);
    int narg;
    Value args[64];
    Map attrs = {0};
    if (!case_args(c, call, NULL, &narg, args, &attrs)) return false;
    OpInst *inst = op_apply(c->in, call->loc, op, narg, args, &attrs);
    if (inst) case_bind(c, stmt, inst->nresult, inst->results);
    return inst != NULL;
}

static inline bool case_reads(const Tensor *t, const Tensor *hole, int depth)
{
    if (t == hole) return true;
    if (!t->producer || depth > 20) return false;
    for (Env *b = t->producer->env; b; b = b->next)
        if (b->value.kind == V_TENSOR && case_reads(b->value.u.tensor, hole, depth + 1))
            return true;
    return false;
}

static inline bool case_outputs(Case *c, Node *results)
{
    Eval *e = c->in->eval;
    for (int i = 0; i < NREST(results) && i < CASE_MAX; i++) {
        Env *b = env_find(e->env, REST(results)[i]->u.sym);
        if (!b || b->value.kind != V_TENSOR)
            return eval_fail(e, REST(results)[i]->loc, "nothing is called '%s'",
                             REST(results)[i]->u.sym);
        Tensor *t = c->output[c->noutput] = b->value.u.tensor;
        c->memory[c->noutput++] =
            instance_output(c->in, REST(results)[i]->u.sym, t->type, t->rank, t->dims);
    }
    return true;
}

static inline bool case_instantiate(Case *c)
{
    Epilogue *ep = NEW_ARRAY(c->arena, Epilogue, c->nresult);
    Choices chosen = case_choices(c);
    for (int i = 0; i < c->nresult; i++) {
        ep[i].outputs = NEW_ARRAY(c->arena, Tensor *, c->noutput);
        ep[i].memory = NEW_ARRAY(c->arena, Buffer *, c->noutput);
        for (int k = 0; k < c->noutput; k++) {
            if (!case_reads(c->output[k], c->result[i], 0)) continue;
            ep[i].outputs[ep[i].noutput] = c->output[k];
            ep[i].memory[ep[i].noutput++] = c->memory[k];
        }
        bool plain = ep[i].noutput == 1 && ep[i].outputs[0] == c->result[i];
        ep[i].hole = plain ? NULL : c->result[i];
    }
    if (c->anchor->kind == N_KERNEL)
        return instance_kernel(c->in, c->anchor, c->narg, c->args, &c->attrs, ep, c->nresult,
                               &chosen);
    Buffer **outputs = NEW_ARRAY(c->arena, Buffer *, c->nresult);
    for (int i = 0; i < c->nresult; i++) {
        if (!ep[i].noutput)
            return eval_fail(c->in->eval, c->anchor->loc,
                             "every result of a serial op is an output");
        outputs[i] = ep[i].memory[0];
    }
    return instance_serial(c->in, c->anchor, c->narg, c->args, &c->attrs, outputs, c->nresult);
}

// The kernel that the graph describes, in c->in->kernel. False with diagnostics.
static inline bool case_run(Case *c, Arena *a, Library *lib, Diag *diag, Node *graph)
{
    *c = (Case){.arena = a, .lib = lib, .diag = diag};
    Node *params = KID(graph, GRAPH, params), *body = KID(graph, GRAPH, body), *anchor = NULL;
    for (int i = 0; i < NREST(body) && !anchor; i++) {
        Node *call = case_call(REST(body)[i]);
        anchor = call ? case_anchor(lib, KID(call, CALL, callee)->u.sym) : NULL;
    }
    Target target = case_target(anchor ? anchor : graph);
    c->in = instance_new(a, lib, &target, diag);
    if (!anchor) return eval_fail(c->in->eval, graph->loc, "the case calls no kernel");
    bool ok = true;
    for (int i = 0; ok && i < NREST(params); i++) ok = case_input(c, REST(params)[i]);
    for (int i = 0; ok && i < NREST(body); i++) ok = case_stmt(c, REST(body)[i]);
    ok = ok && case_outputs(c, KID(graph, GRAPH, results)) && case_instantiate(c);
    c->in->eval->env = NULL;
    return ok;
}

#endif
