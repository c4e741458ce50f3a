// SPDX-License-Identifier: Apache-2.0
// Nodes of very many operands become several of few, where the op says that it folds: kernels stay
// small so, whatever a model joins or adds up.
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
