// SPDX-License-Identifier: Apache-2.0
// Nodes of very many operands become several of few, where the op says that it folds: kernels stay
// small so, whatever a model joins or adds up. Nodes of more results than their op has become one
// node for each, where there is an op of the results one by one: it has the attribute `part`.
#include "graph/specialise.h"

enum { MAX_OPERANDS = 64 };

static bool folds(const Specialiser *s, const GraphNode *n)
{
    return n->choices.n && n->noutput == 1 && n->output[0] &&
           op_info(s->to->ops, n->choices.at[0]->decl)->folds;
}

bool specialise_operands(Specialiser *s, GraphNode *n, GraphValue ***input)
{
    while (n->ninput > MAX_OPERANDS && folds(s, n)) {
        int count = (n->ninput + MAX_OPERANDS - 1) / MAX_OPERANDS;
        GraphValue **parts = NEW_ARRAY(s->scratch, GraphValue *, count);
        GraphValue named = {.name = n->output[0]->name}, *wanted = &named;
        for (int k = 0; k < count; k++) {
            GraphNode part = *n;
            part.ninput = (int)min_i64(MAX_OPERANDS, n->ninput - k * MAX_OPERANDS);
            part.output = &wanted;
            if (!specialise_node(s, &part, *input + k * MAX_OPERANDS, &parts[k])) return false;
        }
        n->ninput = count;
        *input = parts;
    }
    return true;
}

// The way to read the node result by result; NULL: there is none, or no need.
static const OpBinding *by_part(const Specialiser *s, const GraphNode *n)
{
    Sym part = intern(s->to->library->names, "part");
    if (!n->choices.n || n->noutput <= NREST(KID((Node *)n->choices.at[0]->decl, OP, results)))
        return NULL;
    for (int i = 0; i < n->choices.n; i++)
        if (op_has_attr(n->choices.at[i]->decl, part)) return n->choices.at[i];
    return NULL;
}

bool specialise_results(Specialiser *s, const GraphNode *n, GraphValue *const *input,
                        GraphValue **output)
{
    const OpBinding *binding = by_part(s, n);
    if (!binding) return specialise_node(s, n, input, output);
    Interner *names = s->to->library->names;
    Value *count = NEW(s->to->arena, Value);
    *count = value_int(n->noutput);
    for (int i = 0; i < n->noutput; i++) {
        if (!n->output[i]) continue;
        GraphNode one = *n;
        Value *part = NEW(s->to->arena, Value);
        *part = value_int(i);
        one.choices = (OpBindings){0};
        VEC_PUSH(s->scratch, &one.choices, binding);
        one.attrs = attrs_copy(s->scratch, &n->attrs);
        map_put(s->scratch, &one.attrs, intern(names, "num_outputs"), count);
        map_put(s->scratch, &one.attrs, intern(names, "part"), part);
        one.noutput = 1;
        one.output = &n->output[i];
        if (!specialise_node(s, &one, input, &output[i])) return false;
    }
    return true;
}
