// SPDX-License-Identifier: Apache-2.0
// Constants and attributes of ONNX nodes as those of the graph's.
#include "frontends/import.h"

#include <string.h>

// ---- constants

bool import_constant(Import *im, const char *name, const OnnxTensor *t)
{
    DType type;
    int64_t dims[ONNX_MAX_RANK];
    int rank;
    const void *data;
    const char *why = onnx_tensor_decode(im->arena, t, im->model_dir, &type, dims, &rank, &data);
    if (why) return import_fail(im, why);
    static const char empty[16];
    GraphValue *v = graph_constant(im->graph, name, type, rank, dims, data ? data : empty);
    import_define(im, name, v);
    return true;
}

static void list_constant(Import *im, const char *name, DType type, int n, bool scalar,
                          const void *data)
{
    int64_t dims[] = {n};
    void *copy = arena_copy(im->arena, data, (size_t)n * dtype_size(type));
    import_define(im, name, graph_constant(im->graph, name, type, scalar ? 0 : 1, dims, copy));
}

bool import_constant_node(Import *im, const OnnxNode *n)
{
    const OnnxAttr *a = n->attribute.n == 1 ? import_attr(im, &n->attribute.at[0]) : NULL;
    if (n->output.n != 1 || !a) {
        return import_fail(
            im, arena_printf(im->arena, "node '%s': Constant needs one attribute", n->name));
    }
    const char *name = n->output.at[0];
    switch (a->type) {
    case ONNX_ATTR_TENSOR:
        if (a->t) return import_constant(im, name, a->t);
        return import_fail(im,
                           arena_printf(im->arena, "node '%s': Constant has no tensor", n->name));
    case ONNX_ATTR_FLOAT: list_constant(im, name, DT_F32, 1, true, &a->f); return true;
    case ONNX_ATTR_INT: list_constant(im, name, DT_I64, 1, true, &a->i); return true;
    case ONNX_ATTR_FLOATS:
        list_constant(im, name, DT_F32, a->floats.n, false, a->floats.at);
        return true;
    case ONNX_ATTR_INTS: list_constant(im, name, DT_I64, a->ints.n, false, a->ints.at); return true;
    default:
        return import_fail(im, arena_printf(im->arena,
                                            "node '%s': a Constant of this type is not supported",
                                            n->name));
    }
}

// ---- attributes

const OnnxAttr *import_attr(const Import *im, const OnnxAttr *a)
{
    for (const Call *c = im->call; c && *a->ref_attr_name; c = c->outer) {
        const OnnxAttr *given = onnx_attr(c->node, a->ref_attr_name);
        for (int i = 0; i < c->function->attribute_proto.n && !given; i++)
            if (!strcmp(c->function->attribute_proto.at[i].name, a->ref_attr_name))
                given = &c->function->attribute_proto.at[i];
        if (!given) return NULL;
        a = given;
    }
    return *a->ref_attr_name ? NULL : a;
}

const OnnxAttr *import_attr_named(const Import *im, const OnnxNode *n, const char *name)
{
    const OnnxAttr *a = onnx_attr(n, name);
    return a ? import_attr(im, a) : NULL;
}

typedef bool AttrFn(Import *im, const OnnxAttr *a, Value *out);

static bool attr_float(Import *im, const OnnxAttr *a, Value *out)
{
    UNUSED(im);
    *out = value_float((double)a->f);
    return true;
}

static bool attr_int(Import *im, const OnnxAttr *a, Value *out)
{
    UNUSED(im);
    *out = value_int(a->i);
    return true;
}

static bool attr_string(Import *im, const OnnxAttr *a, Value *out)
{
    *out = value_str(intern_n(im->library->names, a->s.text, a->s.size));
    return true;
}

static bool attr_floats(Import *im, const OnnxAttr *a, Value *out)
{
    *out = value_tuple(im->arena, a->floats.n, NULL);
    for (int i = 0; i < a->floats.n; i++) out->u.tuple.at[i] = value_float((double)a->floats.at[i]);
    return true;
}

static bool attr_ints(Import *im, const OnnxAttr *a, Value *out)
{
    *out = value_ints(im->arena, a->ints.n, a->ints.at);
    return true;
}

static bool attr_strings(Import *im, const OnnxAttr *a, Value *out)
{
    *out = value_tuple(im->arena, a->strings.n, NULL);
    for (int i = 0; i < a->strings.n; i++)
        out->u.tuple.at[i] =
            value_str(intern_n(im->library->names, a->strings.at[i].text, a->strings.at[i].size));
    return true;
}

// One element, such as ConstantOfShape's value: a number.
static bool attr_tensor(Import *im, const OnnxAttr *a, Value *out)
{
    DType type;
    int64_t dims[ONNX_MAX_RANK], n = 1;
    int rank;
    const void *data;
    if (!a->t || onnx_tensor_decode(im->arena, a->t, im->model_dir, &type, dims, &rank, &data)) {
        return false;
    }
    for (int i = 0; i < rank; i++) n *= dims[i];
    if (n != 1) return false;
    if (dtype_is_float(type)) *out = value_float(dtype_load_f64(type, data));
    else *out = value_int(dtype_load_i64(type, data));
    return true;
}

static AttrFn *const attr_fns[] = {
    [ONNX_ATTR_FLOAT] = attr_float,     [ONNX_ATTR_INT] = attr_int,
    [ONNX_ATTR_STRING] = attr_string,   [ONNX_ATTR_TENSOR] = attr_tensor,
    [ONNX_ATTR_FLOATS] = attr_floats,   [ONNX_ATTR_INTS] = attr_ints,
    [ONNX_ATTR_STRINGS] = attr_strings,
};

static bool knows(Import *im, const GraphNode *node, const char *name, const Value *v,
                  const char *const *also)
{
    for (; also && *also; also++)
        if (!strcmp(*also, name)) return true;
    for (int i = 0; i < node->choices.n; i++)
        if (graph_knows_attr(im->graph, node->choices.at[i]->decl, name, v)) return true;
    return false;
}

static void note_unknown(Import *im, const OnnxNode *n, const GraphNode *node, const char *name,
                         const char *more)
{
    import_unknown(im, arena_printf(im->arena, "attribute '%s' of ", name), node->origin,
                   onnx_opset(im->opsets, n->domain), node->name, more);
}

bool import_attrs(Import *im, const OnnxNode *n, GraphNode *node, const char *const *known)
{
    for (int i = 0; i < n->attribute.n; i++) {
        const OnnxAttr *a = import_attr(im, &n->attribute.at[i]);
        const char *name = n->attribute.at[i].name;
        if (!a || (a->g && node->body)) continue; // nothing, or read where the node is made
        Value v = value_none();
        AttrFn *fn = a->type >= 0 && (size_t)a->type < COUNT(attr_fns) ? attr_fns[a->type] : NULL;
        if (a->type == ONNX_ATTR_TENSOR && a->t && dtype_from_onnx(a->t->data_type) == DT_NONE)
            fn = NULL;
        if (!fn || !fn(im, a, &v)) {
            note_unknown(im, n, node, name, " (of a kind that is not supported)");
            continue;
        }
        if (!knows(im, node, name, &v, known)) {
            Buf text;
            buf_init(&text, im->arena);
            buf_puts(&text, " = ");
            value_print(&v, &text);
            note_unknown(im, n, node, name, buf_text(&text));
        }
        graph_attr(im->graph, node, name, v);
        if (a->type == ONNX_ATTR_TENSOR) {
            graph_attr(im->graph, node, arena_printf(im->arena, "%s_type", name),
                       value_dtype(dtype_from_onnx(a->t->data_type)));
        }
    }
    return true;
}
