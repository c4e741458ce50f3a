// SPDX-License-Identifier: Apache-2.0
// Functions of a model: a call becomes the function's nodes, between identities that carry names.
// A function sees its inputs and the attributes of the call, and nothing of the graph around it.
#include "frontends/import.h"

enum { MAX_DEPTH = 32 }; // of functions that call functions

// Inputs that the call leaves out are defined as nothing.
static bool define_inputs(Import *im, const OnnxNode *n, const OnnxFunction *f, const char *name,
                          Scope *inner)
{
    if (n->input.n > f->input.n || n->output.n > f->output.n)
        return import_fail(
            im, arena_printf(im->arena, "node '%s' calls '%s', which has %d inputs and %d outputs",
                             name, f->name, f->input.n, f->output.n));
    for (int i = 0; i < f->input.n; i++) {
        const char *given = i < n->input.n ? n->input.at[i] : "";
        GraphValue *v = *given ? import_find(im, given) : NULL;
        if (*given && !v && !import_is_defined(im, given)) {
            return import_fail(im, arena_printf(im->arena,
                                                "node '%s' (%s): nothing before it gives '%s'",
                                                name, f->name, given));
        }
        map_put(im->arena, &inner->values, intern(im->library->names, f->input.at[i]), v);
    }
    return true;
}

static bool define_outputs(Import *im, const OnnxNode *n, const OnnxFunction *f, const char *name,
                           Scope *inner)
{
    bool known;
    OpBindings identity = op_table_onnx(im->ops, "Identity", INT64_MAX, &known);
    for (int i = 0; i < n->output.n; i++) {
        if (!*n->output.at[i]) continue;
        GraphValue *v = map_get(&inner->values, intern(im->library->names, f->output.at[i]));
        if (!v)
            return import_fail(im,
                               arena_printf(im->arena, "nothing in the function '%s' gives '%s'",
                                            f->name, f->output.at[i]));
        GraphValue *out = import_result(im, name, n->output.at[i]);
        if (!out) return false;
        GraphNode *made = graph_node(im->graph, name, f->name, identity, 1, &v, 1, &out);
        made->guard = im->guard;
    }
    return true;
}

bool import_call(Import *im, const OnnxNode *n, const OnnxFunction *f, const char *name)
{
    Call call = {.node = n, .name = name, .function = f, .outer = im->call};
    call.depth = im->call ? im->call->depth + 1 : 1;
    if (call.depth > MAX_DEPTH)
        return import_fail(
            im, arena_printf(im->arena, "functions call each other more than %d deep", MAX_DEPTH));
    Scope inner = {0}, *outer = im->scope;
    const OnnxOpsets *opsets = im->opsets;
    if (!define_inputs(im, n, f, name, &inner)) return false;
    im->scope = &inner;
    im->call = &call;
    im->opsets = &f->opset_import;
    bool ok = import_nodes(im, f->node.at, f->node.n);
    im->scope = outer;
    im->call = call.outer;
    im->opsets = opsets;
    return ok && define_outputs(im, n, f, name, &inner);
}
