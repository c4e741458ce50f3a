// SPDX-License-Identifier: Apache-2.0
// From the structs of an ONNX file to a graph of ops.
#ifndef HEALD_FRONTENDS_ONNX_IMPORT_H
#define HEALD_FRONTENDS_ONNX_IMPORT_H

#include "frontends/onnx_model.h"
#include "graph/graph.h"

// The model as a graph in `a`; the model and its bytes must outlive it, since constants point
// there. model_dir is where external data lies, or NULL. NULL with diagnostics; operators that are
// not known are one diagnostic that lists them all.
Graph *onnx_import(Arena *a, const Library *l, OpTable *ops, const OnnxModel *m,
                   const char *model_dir, Diag *d);

#endif
