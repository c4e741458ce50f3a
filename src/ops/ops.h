// SPDX-License-Identifier: Apache-2.0
// The operators that texts declare: loading them, finding them by their ONNX names, and what their
// bodies tell about fusion. Nothing here knows any one operator.
#ifndef HEALD_OPS_OPS_H
#define HEALD_OPS_OPS_H

#include "lang/lang.h"

// Adds the embedded texts, then every .hd file below the folders of `path` (separated by ':', NULL:
// none), which may replace declarations. False with diagnostics.
bool ops_load(Library *l, const char *path, Diag *d);

// How the elements of a result are computed from a parameter's.
typedef enum OpAccess {
    ACCESS_NONE,      // its elements are not read; perhaps its shape is
    ACCESS_SAME,      // at the index of the result
    ACCESS_BROADCAST, // at that index with broadcasting, ~i..., or a scalar
    ACCESS_PART,      // at some of that index's axes, as they are
    ACCESS_MAP,       // at another index
    ACCESS_REDUCE     // at many indices
} OpAccess;

typedef enum OpClass {
    OPCLASS_POINTWISE, // no read beyond ACCESS_PART, and at least one at SAME or BROADCAST
    OPCLASS_MAP,       // one element of a result needs a fixed number of elements
    OPCLASS_REDUCTION,
    OPCLASS_SERIAL
} OpClass;
const char *op_class_name(OpClass c);

typedef struct OpInfo {
    const Node *decl;
    OpClass class;
    bool view;      // `class view`: the result is the first parameter's memory with another shape
    bool wide;      // `class wide`: where f32 is to be narrower, it stays f32 here
    bool folds;     // `class folds`: of many operands it may be computed part by part
    bool bijective; // each element of the first parameter is read once
    bool collapses; // axes mean nothing to it: only i... and ~i... are used
    bool moves;     // elements are moved, not changed
    bool repeats;   // a costly function is computed in a reduction and for the result once more
    bool costly;    // an element of the result costs much more than a load, as exp does
    int nparam;
    OpAccess *access; // (nparam)
    bool *windows;    // (nparam) axes are read at computed places, as of overlapping windows
} OpInfo;

// One way to read an ONNX operator: inputs by position are parameters or attributes of `decl`.
typedef struct OpBinding {
    const Node *decl;
    int ninput;
    const Sym *input; // (ninput) names of parameters or attributes
} OpBinding;
typedef VEC(const OpBinding *) OpBindings;

// An index over the ops of a library, which must not change any more.
typedef struct OpTable OpTable;
OpTable *op_table_new(Arena *a, const Library *l);
const OpInfo *op_info(OpTable *t, const Node *decl);
bool op_has_attr(const Node *decl, Sym name);

// The declarations for an ONNX operator at an opset, in order of declaration: those of the highest
// version not above it. name: "Conv", or "com.microsoft.Gelu" outside the default domain. n is 0 if
// there is none; *known tells whether there is one for another opset.
OpBindings op_table_onnx(const OpTable *t, const char *name, int64_t opset, bool *known);
// The binding of a declaration to its own parameters, for graphs that are not from ONNX.
const OpBinding *op_binding(OpTable *t, const Node *decl);

#endif
