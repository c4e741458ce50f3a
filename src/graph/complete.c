// SPDX-License-Identifier: Apache-2.0
// Attributes of ONNX that an op's declaration does not have: auto_pad becomes pads, others say
// nothing beyond the op's meaning and are dropped where they have the value that does so.
#include "graph/private.h"

#include <string.h>

typedef struct Ignorable {
    const char *name;
    int64_t value; // the one that changes nothing; ANY: all do
} Ignorable;

#define ANY INT64_MIN

static const Ignorable ignorable[] = {
    // attribute             value
    {"kernel_shape", ANY}, // of a convolution: the weight's
    {"storage_order", 0},
    {"broadcast", ANY},            // before opset 7; where it matters it is declared
    {"noop_with_empty_axes", ANY}, // see complete_axes
    {"saturate", 1},
    {"is_test", 1},
    {"spatial", 1},
    {"training_mode", 0},
    {"momentum", ANY},        // of training
    {"consumed_inputs", ANY}, // opset 1: hints for memory
    {"seed", ANY},
    {"output_height", ANY},
    {"stash_type", 1},
    {"value_type", ANY}, // beside a tensor: its element type
};

static const Value *attr(const Map *attrs, const Library *l, const char *name)
{
    return map_get(attrs, intern(l->names, name));
}

// Element i of a list attribute; `absent` without it.
static int64_t element(const Value *v, int i, int64_t absent)
{
    if (!v) return absent;
    if (v->kind == V_INT) return v->u.i;
    return v->kind == V_TUPLE && i < v->u.tuple.n ? v->u.tuple.at[i].u.i : absent;
}

// (ceil(size / stride) - 1) * stride + wide - size, which does not depend on a size that is open
// where the stride is 1.
static Node *same_total(Arena *a, const Value *size, int64_t stride, int64_t wide)
{
    Node *n = size->kind == V_INT ? node_i64(a, size->u.i) : size->u.expr, *s = node_i64(a, stride);
    Node *up = node_binary(a, N_DIV, node_binary(a, N_ADD, n, node_i64(a, stride - 1)), s);
    Node *used = node_binary(a, N_MUL, node_binary(a, N_SUB, up, node_i64(a, 1)), s);
    return node_binary(a, N_SUB, node_binary(a, N_ADD, used, node_i64(a, wide)), n);
}

// ONNX, auto_pad of Conv and the pools: SAME_UPPER makes output = ceil(input / stride), the odd
// element of padding at the end; SAME_LOWER at the beginning. Transposed convolutions: output =
// input * stride.
static bool same_pads(Arena *a, const Library *l, const GraphNode *n, GraphValue *const *input,
                      const Map *attrs, bool lower, Value *out, Diag *d)
{
    const GraphValue *x = input[0], *w = n->ninput > 1 ? input[1] : NULL;
    const Value *k = attr(attrs, l, "kernel_shape"), *strides = attr(attrs, l, "strides"),
                *dilations = attr(attrs, l, "dilations");
    int rank = x->rank - 2;
    bool transposed = !strcmp(n->origin, "ConvTranspose");
    if (rank < 1 || (!k && (!w || w->rank != x->rank))) {
        diag_error(d, 0, "auto_pad needs a kernel's shape");
        return false;
    }
    *out = value_tuple(a, 2 * rank, NULL);
    for (int i = 0; i < rank; i++) {
        int64_t stride = max_i64(element(strides, i, 1), 1);
        int64_t kernel = k ? element(k, i, 1) : w->dims[i + 2].u.i;
        int64_t wide = (kernel - 1) * element(dilations, i, 1) + 1;
        Node *total =
            transposed ? node_i64(a, wide - stride) : same_total(a, &x->dims[i + 2], stride, wide);
        total = node_binary(a, N_MAX, total, node_i64(a, 0));
        Node *less = node_binary(a, N_DIV, total, node_i64(a, 2));
        Value first = size_value(a, value_expr(lower ? node_binary(a, N_SUB, total, less) : less));
        Value last = size_value(a, value_expr(lower ? less : node_binary(a, N_SUB, total, less)));
        out->u.tuple.at[i] = first;
        out->u.tuple.at[rank + i] = last;
    }
    return true;
}

static bool complete_auto_pad(Arena *a, const Library *l, const GraphNode *n,
                              GraphValue *const *input, Map *attrs, Diag *d)
{
    Sym name = intern(l->names, "auto_pad");
    const Value *mode = map_get(attrs, name);
    if (!mode || mode->kind != V_STR) return true;
    bool upper = !strcmp(mode->u.str, "SAME_UPPER"), lower = !strcmp(mode->u.str, "SAME_LOWER");
    Value *pads = NEW(a, Value);
    *pads = value_int(0);
    if ((upper || lower) && !same_pads(a, l, n, input, attrs, lower, pads, d)) return false;
    if (upper || lower || !strcmp(mode->u.str, "VALID")) {
        if (pads->kind == V_INT) *pads = value_tuple(a, 1, pads);
        if (pads->u.tuple.n > 1) map_put(a, attrs, intern(l->names, "pads"), pads);
    }
    return true;
}

static bool may_drop(Sym name, const Value *v)
{
    if (!strcmp(name, "auto_pad")) return true;
    for (size_t i = 0; i < COUNT(ignorable); i++) {
        if (strcmp(ignorable[i].name, name)) continue;
        return ignorable[i].value == ANY || (v->kind == V_INT && v->u.i == ignorable[i].value);
    }
    return false;
}

// Whether an attribute is a type, which ONNX numbers.
static bool names_type(const Node *decl, Sym name)
{
    Node *attrs = KID((Node *)decl, OP, attrs);
    for (int i = 0; i < NREST(attrs); i++) {
        const Node *type = REST(attrs)[i]->kid[KID_PARAM_type];
        const Node *x = type ? type->kid[KID_TYPE_dtype] : NULL;
        if (REST(attrs)[i]->u.sym == name)
            return x && x->kind == N_NAME && !strcmp(x->u.sym, "dtype");
    }
    return false;
}

bool graph_knows_attr(const Graph *g, const Node *decl, const char *name, const Value *v)
{
    Sym sym = intern(g->library->names, name);
    if (!op_has_attr(decl, sym)) return may_drop(sym, v);
    return !names_type(decl, sym) || v->kind != V_INT || v->u.i == 0 ||
           dtype_from_onnx(v->u.i) != DT_NONE;
}

// Split before opset 18 says into how many parts only by its number of outputs.
static void complete_num_outputs(Arena *a, const Library *l, const Node *decl, const GraphNode *n,
                                 Map *attrs)
{
    Sym name = intern(l->names, "num_outputs");
    if (!op_has_attr(decl, name) || map_get(attrs, name)) return;
    Value *v = NEW(a, Value);
    *v = value_int(n->noutput);
    map_put(a, attrs, name, v);
}

// No axes mean all of them, which is the declaration's default, or with noop_with_empty_axes none.
static void complete_axes(Arena *a, const Library *l, const Node *decl, Map *attrs)
{
    Sym axes = intern(l->names, "axes");
    const Value *noop = map_get(attrs, intern(l->names, "noop_with_empty_axes"));
    Value *given = map_get(attrs, axes);
    bool none = !given || (given->kind == V_TUPLE && given->u.tuple.n == 0);
    if ((!noop && !given) || !none || !op_has_attr(decl, axes)) return;
    if (!given) map_put(a, attrs, axes, given = NEW(a, Value));
    *given = noop && noop->u.i ? value_tuple(a, 0, NULL) : value_none();
}

bool attrs_complete(Arena *a, const Library *l, const Node *decl, const GraphNode *n,
                    GraphValue *const *input, int ninput, Map *attrs, Diag *d)
{
    if (!op_has_attr(decl, intern(l->names, "auto_pad")) && ninput > 0 &&
        !complete_auto_pad(a, l, n, input, attrs, d)) {
        return false;
    }
    complete_num_outputs(a, l, decl, n, attrs);
    complete_axes(a, l, decl, attrs);
    Map kept = {0};
    for (int i = 0; i < attrs->n; i++) {
        Sym name = attrs->entry[i].key;
        Value *v = attrs->entry[i].value;
        if (v->kind == V_NONE) continue;
        if (v->kind == V_INT && v->u.i == 0 && names_type(decl, name)) continue; // UNDEFINED
        if (op_has_attr(decl, name)) {
            map_put(a, &kept, name, v);
        } else if (!may_drop(name, v)) {
            Buf text;
            buf_init(&text, a);
            value_print(v, &text);
            diag_error(d, 0, "attribute %s = %s of %s is not supported", name, buf_text(&text),
                       n->origin);
            return false;
        }
    }
    *attrs = kept;
    return true;
}
