// SPDX-License-Identifier: Apache-2.0
// Constant folding: a node's meaning as a kernel, run by the interpreter. So folding computes what
// the operator means, bit for bit.
#include "graph/private.h"

#include "ir/interp.h"

#include <string.h>

// A larger result is folded only if it is no larger than what it is computed from, and not if its
// elements are only moved: kernels do that when the model is loaded.
enum { FOLD_MAX_STEPS = 1 << 27, FOLD_ALWAYS = 1 << 16 };

static bool declare_leaves(Instance *in, const GraphNode *n, Tensor **tensor)
{
    for (int i = 0; i < n->ninput; i++) {
        if (!n->input[i]) continue;
        for (int k = 0; k < i && !tensor[i]; k++)
            if (n->input[k] == n->input[i]) tensor[i] = tensor[k];
        if (!tensor[i]) tensor[i] = value_leaf(in, n->input[i], n->input[i]->name);
    }
    return true;
}

Kernel *node_kernel(const Graph *g, const GraphNode *n, int output, Arena *a, const Target *t,
                    Diag *d)
{
    Instance *in = instance_new(a, g->library, t, d);
    Tensor **tensor = NEW_ARRAY(a, Tensor *, n->ninput);
    Value *args = NEW_ARRAY(a, Value, n->ninput + 1);
    declare_leaves(in, n, tensor);
    int narg = node_args(a, n, tensor, args);
    bool serial = n->op->class == OPCLASS_SERIAL, ok;
    if (serial) {
        Buffer **memory = NEW_ARRAY(a, Buffer *, n->noutput);
        for (int i = 0; i < n->noutput; i++) {
            const GraphValue *v = n->output[i];
            memory[i] = instance_output(in, "y", v->type, v->rank, v->dims);
        }
        ok = instance_serial(in, n->op->decl, narg, args, &n->attrs, memory, n->noutput);
    } else {
        const GraphValue *v = n->output[output];
        const Node *copy = map_get(&g->library->kernels, intern(g->library->names, "copy"));
        OpInst *op = op_apply(in, 0, n->op->decl, narg, args, &n->attrs);
        Buffer *memory = instance_output(in, "y", v->type, v->rank, v->dims);
        Epilogue store = {.memory = &memory, .noutput = 1};
        if (!copy) diag_error(d, 0, "no loaded text declares the kernel 'copy'");
        ok = copy && op;
        if (ok) {
            Value x = {.kind = V_TENSOR, .u.tensor = op->results[output]};
            ok = instance_kernel(in, copy, 1, &x, NULL, &store, 1, NULL);
        }
    }
    if (!ok) node_fails(n, d);
    return ok ? in->kernel : NULL;
}

// Runs one kernel of the node. Inputs whose elements it does not read have no memory.
static bool run(Graph *g, GraphNode *n, int output, const Target *t, Arena *scratch, void **result)
{
    static const char nothing[64];
    Diag quiet;
    Sources none = {.arena = scratch};
    diag_init(&quiet, scratch, &none);
    Kernel *k = node_kernel(g, n, output, scratch, t, &quiet);
    if (!k) return false;
    void **data = NEW_ARRAY(scratch, void *, k->params.n);
    int at = 0;
    for (int i = 0; i < n->ninput; i++) {
        bool first = n->input[i] != NULL;
        for (int j = 0; j < i && first; j++) first = n->input[j] != n->input[i];
        if (first) data[at++] = (void *)(n->input[i]->data ? n->input[i]->data : nothing);
    }
    bool serial = n->op->class == OPCLASS_SERIAL;
    for (int i = serial ? 0 : output; i < (serial ? n->noutput : output + 1); i++) {
        result[i] = arena_alloc(g->arena, (size_t)graph_value_bytes(n->output[i]));
        data[at++] = result[i];
    }
    ASSERT(at == k->params.n);
    return interp_run(k, data, NULL, &(InterpOptions){.max_steps = FOLD_MAX_STEPS}, &quiet);
}

static bool worth(const GraphNode *n, int64_t limit)
{
    int64_t from = 0;
    for (int i = 0; i < n->ninput; i++)
        if (n->input[i] && n->input[i]->data) from += graph_value_nelem(n->input[i]);
    for (int i = 0; i < n->noutput; i++) {
        int64_t to = n->output[i] ? graph_value_nelem(n->output[i]) : 0;
        if (to > limit || (to > FOLD_ALWAYS && (to > from || n->op->class == OPCLASS_MAP)))
            return false;
    }
    return true;
}

bool node_fold_constant(Graph *g, GraphNode *n, const Target *t, int64_t limit)
{
    Arena scratch = {.nomem = g->arena->nomem};
    bool ok = worth(n, limit), serial = n->op->class == OPCLASS_SERIAL;
    void **result = NEW_ARRAY(&scratch, void *, n->noutput);
    for (int i = 0; ok && i < n->noutput; i++)
        if (n->output[i] && (i == 0 || !serial)) ok = run(g, n, i, t, &scratch, result);
    for (int i = 0; ok && i < n->noutput; i++)
        if (n->output[i]) n->output[i]->data = result[i];
    arena_free(&scratch);
    return ok;
}
