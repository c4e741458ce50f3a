// SPDX-License-Identifier: Apache-2.0
// Which cases of a suite are for a tensor compiler.
#include "api/suite_case.h"

#include <string.h>

enum { ONNX_STRING = 8 };

// Operators whose values are no tensors of numbers.
static const char *const no_tensors[] = {
    "ConcatFromSequence", "ImageDecoder",    "Optional",       "OptionalGetElement",
    "OptionalHasElement", "RegexFullMatch",  "SequenceAt",     "SequenceConstruct",
    "SequenceEmpty",      "SequenceErase",   "SequenceInsert", "SequenceLength",
    "SequenceMap",        "SplitToSequence", "StringConcat",   "StringNormalizer",
    "StringSplit",        "TfIdfVectorizer",
};

static const char *type_problem(const OnnxType *t)
{
    if (!t) return NULL;
    if (t->sequence_type) return "sequences";
    if (t->optional_type) return "optional values";
    if (t->map_type) return "maps";
    if (t->sparse_tensor_type) return "sparse tensors";
    if (t->tensor_type && t->tensor_type->elem_type == ONNX_STRING) return "strings";
    return NULL;
}

static const char *node_problem(const OnnxNode *n)
{
    if (!onnx_same_domain(n->domain, "")) {
        return strstr(n->domain, "training") ? "training" : "operators of another domain";
    }
    for (size_t i = 0; i < COUNT(no_tensors); i++)
        if (!strcmp(n->op_type, no_tensors[i])) return "values that are no tensors of numbers";
    const OnnxAttr *to = onnx_attr(n, "to");
    if (to && to->i == ONNX_STRING && !strcmp(n->op_type, "Cast")) return "strings";
    return NULL;
}

static const char *graph_problem(const OnnxGraph *g)
{
    const char *why = NULL;
    for (int i = 0; i < g->input.n && !why; i++) why = type_problem(g->input.at[i].type);
    for (int i = 0; i < g->output.n && !why; i++) why = type_problem(g->output.at[i].type);
    for (int i = 0; i < g->value_info.n && !why; i++) why = type_problem(g->value_info.at[i].type);
    for (int i = 0; i < g->node.n && !why; i++) {
        const OnnxNode *n = &g->node.at[i];
        why = node_problem(n);
        for (int k = 0; k < n->attribute.n && !why; k++)
            if (n->attribute.at[k].g) why = graph_problem(n->attribute.at[k].g);
    }
    return why;
}

const char *suite_out_of_scope(const OnnxModel *m)
{
    return graph_problem(m->graph);
}

const char *suite_operator(const OnnxModel *m)
{
    const char *op = "";
    for (int i = 0; i < m->graph->node.n; i++) {
        const char *type = m->graph->node.at[i].op_type;
        if (!strcmp(type, "Constant")) continue;
        if (*op && strcmp(op, type)) return "(several)";
        op = type;
    }
    return *op ? op : "Constant";
}
