// SPDX-License-Identifier: Apache-2.0
// Any bytes as a model and as a tensor: a parse gives a structure or an error, never both, and
// every tensor that decodes can be read to its last byte. Memory is limited, so that a small file
// with large claims shows.
#include "frontends/onnx_model.h"

#include <stdlib.h>

static volatile unsigned sink;

static void require(bool ok)
{
    if (!ok) abort();
}

// The folder of external data; a tensor of its own has none.
static const char *folder;
static OnnxModel *opened; // has mapped files

static void try_tensor(Arena *a, const OnnxTensor *t)
{
    DType dtype;
    int64_t dims[ONNX_MAX_RANK];
    int rank;
    const void *data;
    const char *error = onnx_tensor_decode(a, t, folder, &dtype, dims, &rank, &data);
    require(!error == (data != NULL));
    if (error) return;
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= dims[i];
    require((uintptr_t)data % dtype_size(dtype) == 0);
    for (int64_t i = 0, size = dtype_bytes(dtype, n); i < size; i++)
        sink += ((const unsigned char *)data)[i];
}

static void try_graph(Arena *a, const OnnxGraph *g);

static void try_attrs(Arena *a, const OnnxAttr *attr, int n)
{
    for (int i = 0; i < n; i++) {
        if (attr[i].t) try_tensor(a, attr[i].t);
        if (attr[i].g) try_graph(a, attr[i].g);
        for (int k = 0; k < attr[i].tensors.n; k++) try_tensor(a, &attr[i].tensors.at[k]);
        for (int k = 0; k < attr[i].graphs.n; k++) try_graph(a, &attr[i].graphs.at[k]);
    }
}

static void try_nodes(Arena *a, const OnnxNode *node, int n)
{
    for (int i = 0; i < n; i++) {
        sink += onnx_attr_int(&node[i], "axis", 1) != 0;
        try_attrs(a, node[i].attribute.at, node[i].attribute.n);
    }
}

static void try_graph(Arena *a, const OnnxGraph *g)
{
    for (int i = 0; i < g->initializer.n; i++) try_tensor(a, &g->initializer.at[i]);
    try_nodes(a, g->node.at, g->node.n);
}

static void try_model(Arena *a, const uint8_t *data, size_t size)
{
    OnnxModel *m;
    const char *error = onnx_model_parse(a, "fuzz.onnx", data, size, &m);
    require(!error == (m != NULL));
    if (!m) return;
    opened = m;
    require(m->graph != NULL &&
            onnx_opset(&m->opset_import, "") == onnx_opset(&m->opset_import, "ai.onnx"));
    try_graph(a, m->graph);
    for (int i = 0; i < m->functions.n; i++) {
        try_attrs(a, m->functions.at[i].attribute_proto.at, m->functions.at[i].attribute_proto.n);
        try_nodes(a, m->functions.at[i].node.at, m->functions.at[i].node.n);
    }
}

static void close_model(void)
{
    if (opened) onnx_model_close(opened);
    opened = NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    jmp_buf nomem;
    Arena arena = {.limit_bytes = (size_t)64 << 20, .nomem = &nomem};
    if (!setjmp(nomem)) {
        OnnxTensor *t;
        folder = "tests/fuzz/corpus/onnx";
        try_model(&arena, data, size);
        close_model();
        folder = NULL;
        const char *error = onnx_tensor_parse(&arena, "fuzz.pb", data, size, &t);
        require(!error == (t != NULL));
        if (t) try_tensor(&arena, t);
    }
    close_model();
    arena_free(&arena);
    return 0;
}
