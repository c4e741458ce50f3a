// SPDX-License-Identifier: Apache-2.0
// ONNX files as plain C structs, one for each message, members named as in ONNX. Everything lies in
// the caller's arena except tensor payloads, which stay in the file's bytes until
// onnx_tensor_decode. The bytes must outlive the structs.
#ifndef HEALD_FRONTENDS_ONNX_MODEL_H
#define HEALD_FRONTENDS_ONNX_MODEL_H

#include "base/dtype.h"
#include "base/os.h"

#define ONNX_MAX_DEPTH 100 // messages inside messages; a subgraph takes three, a sequence type two
#define ONNX_MAX_RANK 16

#define ONNX_LIST(T) \
    struct {         \
        T *at;       \
        int n;       \
    }

typedef struct OnnxSource {
    const char *name;    // as shown to the user
    const uint8_t *data; // borrowed
    size_t size;
    Arena *arena;                  // of the structs
    struct OnnxExternal *external; // files with tensor data that are mapped so far
} OnnxSource;

// Every struct starts with this.
typedef struct OnnxHead {
    OnnxSource *source;
    size_t offset, size; // the message's bytes in source->data
    uint32_t has;        // bit n: field number n was present; ask with ONNX_HAS
} OnnxHead;

// Strings are 0-terminated and never NULL: "" when absent.
typedef const char *OnnxString;
typedef struct OnnxBytes {
    const char *text; // 0-terminated; may hold zero bytes; never NULL
    size_t size;
} OnnxBytes;
typedef struct OnnxSpan {
    const uint8_t *data; // in the source; NULL when absent
    size_t size;
} OnnxSpan;

typedef ONNX_LIST(OnnxString) OnnxStrings;

typedef struct OnnxEntry {
    OnnxHead head;
    OnnxString key, value;
} OnnxEntry;

typedef struct OnnxOpsetId {
    OnnxHead head;
    OnnxString domain;
    int64_t version;
} OnnxOpsetId;

typedef ONNX_LIST(OnnxOpsetId) OnnxOpsets;

typedef struct OnnxTensor {
    OnnxHead head;
    OnnxString name;
    ONNX_LIST(int64_t) dims;
    int32_t data_type;     // TensorProto.DataType
    int32_t data_location; // 1: external_data
    OnnxSpan segment, raw_data;
    int64_t float_data, int32_data, int64_data, uint64_data, double_data; // numbers of elements
    ONNX_LIST(OnnxBytes) string_data;
    ONNX_LIST(OnnxEntry) external_data;
} OnnxTensor;

typedef struct OnnxSparseTensor {
    OnnxHead head;
    OnnxTensor *values, *indices; // NULL when absent
    ONNX_LIST(int64_t) dims;
} OnnxSparseTensor;

typedef struct OnnxDim {
    OnnxHead head;
    int64_t dim_value;    // ONNX_HAS(d, Dim, dim_value), otherwise
    OnnxString dim_param; // a symbol; "": unknown
    OnnxString denotation;
} OnnxDim;

typedef struct OnnxShape {
    OnnxHead head;
    ONNX_LIST(OnnxDim) dim;
} OnnxShape;

typedef struct OnnxTensorType {
    OnnxHead head;
    int32_t elem_type; // TensorProto.DataType
    OnnxShape *shape;  // NULL: rank unknown
} OnnxTensorType;

typedef struct OnnxSequenceType {
    OnnxHead head;
    struct OnnxType *elem_type;
} OnnxSequenceType;

typedef struct OnnxMapType {
    OnnxHead head;
    int32_t key_type;
    struct OnnxType *value_type;
} OnnxMapType;

typedef struct OnnxType { // at most one is not NULL
    OnnxHead head;
    OnnxTensorType *tensor_type, *sparse_tensor_type;
    OnnxSequenceType *sequence_type, *optional_type;
    OnnxMapType *map_type;
    OnnxSpan opaque_type;
    OnnxString denotation;
} OnnxType;

typedef struct OnnxValueInfo {
    OnnxHead head;
    OnnxString name;
    OnnxType *type;
} OnnxValueInfo;

typedef enum OnnxAttrType {
    ONNX_ATTR_UNDEFINED = 0,
    ONNX_ATTR_FLOAT = 1,
    ONNX_ATTR_INT = 2,
    ONNX_ATTR_STRING = 3,
    ONNX_ATTR_TENSOR = 4,
    ONNX_ATTR_GRAPH = 5,
    ONNX_ATTR_FLOATS = 6,
    ONNX_ATTR_INTS = 7,
    ONNX_ATTR_STRINGS = 8,
    ONNX_ATTR_TENSORS = 9,
    ONNX_ATTR_GRAPHS = 10,
    ONNX_ATTR_SPARSE_TENSOR = 11,
    ONNX_ATTR_SPARSE_TENSORS = 12,
    ONNX_ATTR_TYPE_PROTO = 13,
    ONNX_ATTR_TYPE_PROTOS = 14,
} OnnxAttrType;

typedef struct OnnxAttr {
    OnnxHead head;
    OnnxString name;
    OnnxString ref_attr_name; // in a function body: the attribute of the call that it stands for
    int32_t type;             // OnnxAttrType; where an old file leaves it out, told from the value
    float f;
    int64_t i;
    OnnxBytes s;
    OnnxTensor *t;
    struct OnnxGraph *g;
    OnnxType *tp;
    OnnxSparseTensor *sparse_tensor;
    ONNX_LIST(float) floats;
    ONNX_LIST(int64_t) ints;
    ONNX_LIST(OnnxBytes) strings;
    ONNX_LIST(OnnxTensor) tensors;
    ONNX_LIST(struct OnnxGraph) graphs;
    ONNX_LIST(OnnxType) type_protos;
    ONNX_LIST(OnnxSparseTensor) sparse_tensors;
} OnnxAttr;

typedef struct OnnxNode {
    OnnxHead head;
    OnnxString name, op_type, domain, overload;
    OnnxStrings input, output; // "": an optional one left out
    ONNX_LIST(OnnxAttr) attribute;
} OnnxNode;

typedef struct OnnxAnnotation {
    OnnxHead head;
    OnnxString tensor_name;
    ONNX_LIST(OnnxEntry) quant_parameter_tensor_names;
} OnnxAnnotation;

typedef struct OnnxGraph {
    OnnxHead head;
    OnnxString name;
    ONNX_LIST(OnnxNode) node;
    ONNX_LIST(OnnxTensor) initializer;
    ONNX_LIST(OnnxSparseTensor) sparse_initializer;
    ONNX_LIST(OnnxValueInfo) input, output, value_info;
    ONNX_LIST(OnnxAnnotation) quantization_annotation;
} OnnxGraph;

typedef struct OnnxFunction {
    OnnxHead head;
    OnnxString domain, name, overload;
    OnnxStrings input, output;
    OnnxStrings attribute;               // attributes without a default
    ONNX_LIST(OnnxAttr) attribute_proto; // with one
    ONNX_LIST(OnnxNode) node;
    ONNX_LIST(OnnxValueInfo) value_info;
    OnnxOpsets opset_import;
} OnnxFunction;

typedef struct OnnxModel {
    OnnxHead head;
    int64_t ir_version, model_version;
    OnnxString producer_name, producer_version, domain;
    OnnxOpsets opset_import;
    OnnxGraph *graph; // never NULL after onnx_model_parse
    ONNX_LIST(OnnxFunction) functions;
} OnnxModel;

enum {
#define FIELD(M, NUMBER, NAME, HOW, TYPE, SUB) ONNX_##M##_##NAME = NUMBER,
#include "frontends/onnx_fields.def"
#undef FIELD
};
#define ONNX_HAS(p, M, FIELD) (((p)->head.has >> ONNX_##M##_##FIELD & 1) != 0)

// Reads a ModelProto. NULL on success, otherwise one message in `a` with the place, and *out is
// NULL: "model.onnx: byte 1234: truncated NodeProto.input".
const char *onnx_model_parse(Arena *a, const char *name, const uint8_t *data, size_t size,
                             OnnxModel **out);
// The same for a bare TensorProto (a test's input_0.pb).
const char *onnx_tensor_parse(Arena *a, const char *name, const uint8_t *data, size_t size,
                              OnnxTensor **out);
// Unmaps the external files that onnx_tensor_decode mapped; data that pointed there is gone.
// Accepts NULL.
void onnx_model_close(OnnxModel *m);

// NULL when the node has no such attribute.
const OnnxAttr *onnx_attr(const OnnxNode *node, const char *name);
// The attribute's value, or the default where it is absent or of another type.
int64_t onnx_attr_int(const OnnxNode *node, const char *name, int64_t absent);
float onnx_attr_float(const OnnxNode *node, const char *name, float absent);
const char *onnx_attr_string(const OnnxNode *node, const char *name, const char *absent);
// False where it is absent or of another type.
bool onnx_attr_ints(const OnnxNode *node, const char *name, const int64_t **at, int *n);
bool onnx_attr_floats(const OnnxNode *node, const char *name, const float **at, int *n);

// The highest version imported for a domain; 0 when it is not imported. "" and "ai.onnx" are the
// same domain.
int64_t onnx_opset(const OnnxOpsets *imports, const char *domain);
bool onnx_same_domain(const char *a, const char *b);
// The model's own function that the node calls, or NULL.
const OnnxFunction *onnx_function(const OnnxModel *m, const OnnxNode *call);

// The elements of a tensor, row-major in host order. *data is aligned for *dtype and lies in the
// source's bytes, in a mapped external file (looked for below model_dir, NULL: refused) or in `a`.
// dims has room for ONNX_MAX_RANK.
// NULL on success, otherwise a message in `a` naming file, place and tensor.
const char *onnx_tensor_decode(Arena *a, const OnnxTensor *t, const char *model_dir, DType *dtype,
                               int64_t *dims, int *rank, const void **data);
// "FLOAT16" for 10; "?" for a number that ONNX does not know.
const char *onnx_type_name(int64_t data_type);

#endif
