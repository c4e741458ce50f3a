// SPDX-License-Identifier: Apache-2.0
// What the files that read an ONNX graph share.
#ifndef HEALD_FRONTENDS_IMPORT_H
#define HEALD_FRONTENDS_IMPORT_H

#include "frontends/onnx_import.h"

// A node that calls a function of the model.
typedef struct Call {
    const OnnxNode *node;
    const char *name; // of the node, for messages
    const OnnxFunction *function;
    const struct Call *outer;
    int depth;
} Call;

typedef struct Scope { // names of a graph, then those of the graph around it
    Map values;        // Sym -> GraphValue *
    struct Scope *outer;
} Scope;

typedef struct Import {
    Arena *arena;
    const Library *library;
    OpTable *ops;
    const OnnxModel *model;
    const OnnxOpsets *opsets; // of the model, or of the function whose nodes are read
    const Call *call;         // of that function; NULL: none
    int nnode;                // so far, of all functions too
    const char *model_dir;
    Diag *diag;
    Graph *graph;
    Scope *scope;
    const GraphGuard *guard; // of the nodes that are being read
    int nunknown;
    Buf unknown; // operators and attributes that no declaration reads, one a line
} Import;

// onnx_import.c
// Notes what no declaration reads: an operator, or `what` of one.
void import_unknown(Import *im, const char *what, const char *origin, int64_t opset,
                    const char *node, const char *more);
bool import_fail(Import *im, const char *why); // a diagnostic; false
void import_define(Import *im, const char *name, GraphValue *v);
// Nodes of a graph or function, in an order in which they can run.
bool import_nodes(Import *im, const OnnxNode *node, int n);
GraphValue *import_find(Import *im, const char *name); // NULL: nothing of that name so far
// Whether the name stands for something, or for an input of a function that the call leaves out.
bool import_is_defined(const Import *im, const char *name);
// A new value for a result of a node; each name is given once in a graph.
GraphValue *import_result(Import *im, const char *node, const char *name);

// import_attr.c
bool import_constant(Import *im, const char *name, const OnnxTensor *t);
bool import_constant_node(Import *im, const OnnxNode *n);
// What an attribute says: within a function it may stand for one of the call. NULL: nothing.
const OnnxAttr *import_attr(const Import *im, const OnnxAttr *a);
const OnnxAttr *import_attr_named(const Import *im, const OnnxNode *n, const char *name);
// Attributes of n as those of the node, which has its choices; others than those and `known` (ends
// with NULL; NULL: none) are noted as unknown.
bool import_attrs(Import *im, const OnnxNode *n, GraphNode *node, const char *const *known);

// import_function.c: a call becomes the function's nodes.
bool import_call(Import *im, const OnnxNode *n, const OnnxFunction *f, const char *name);

#endif
