// SPDX-License-Identifier: Apache-2.0
// ONNX models as text, for tests: a subset of the syntax of ONNX's own parser, to protobuf bytes.
//     <opset 18 my 1> g (float[n, 4] x) => (float[n, 4] y) { a = Relu (x)  y = my.f <k = 3> (a) }
//     <ir 3 opset 8> g (float[2] x, float[2] w = float[2] {1, 2}) => (float[2] y) { y=Add(x, w) }
//     <function my opset 18> f <k> (x) => (y) { c = Constant <value_int: int = @k> () ... }
// Attributes are numbers, "texts", [lists], typed tensors such as int64[2] {1, 2}, and graphs.
#ifndef HEALD_TESTS_ONNX_TEXT_H
#define HEALD_TESTS_ONNX_TEXT_H

#include "base/util.h"
#include "unit/onnx_bytes.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct OnnxText {
    const char *at;
} OnnxText;

static inline void ot_space(OnnxText *t)
{
    while (isspace((unsigned char)*t->at)) t->at++;
}

static inline bool ot_is(OnnxText *t, const char *what)
{
    ot_space(t);
    return !strncmp(t->at, what, strlen(what));
}

static inline bool ot_take(OnnxText *t, const char *what)
{
    if (!ot_is(t, what)) return false;
    t->at += strlen(what);
    return true;
}

static inline void ot_need(OnnxText *t, const char *what)
{
    if (!ot_take(t, what)) fail_msg("'%s' is missing at: %.60s", what, t->at);
}

static inline const char *ot_name(OnnxText *t)
{
    ot_space(t);
    const char *from = t->at;
    while (isalnum((unsigned char)*t->at) || strchr("_?", *t->at)) {
        if (!*t->at) break;
        t->at++;
    }
    return arena_strndup(&arena, from, (size_t)(t->at - from));
}

static inline double ot_number(OnnxText *t, bool *whole)
{
    ot_space(t);
    char *end;
    double v = strtod(t->at, &end);
    if (end == t->at) fail_msg("a number is missing at: %.60s", t->at);
    *whole = true;
    for (const char *c = t->at; c < end; c++) *whole = *whole && !strchr(".en", *c);
    t->at = end;
    return v;
}

static inline DType ot_type(OnnxText *t)
{
    static const struct {
        const char *name;
        DType type;
    } types[] = {{"float16", DT_F16},
                 {"float8e4m3fnuz", DT_F8E4M3FNUZ},
                 {"float8e4m3fn", DT_F8E4M3FN},
                 {"float8e5m2fnuz", DT_F8E5M2FNUZ},
                 {"float8e5m2", DT_F8E5M2},
                 {"float4e2m1", DT_F4E2M1},
                 {"float", DT_F32},
                 {"double", DT_F64},
                 {"int64", DT_I64},
                 {"int32", DT_I32},
                 {"int8", DT_I8},
                 {"uint8", DT_U8},
                 {"int4", DT_I4},
                 {"uint4", DT_U4},
                 {"int2", DT_I2},
                 {"uint2", DT_U2},
                 {"bool", DT_BOOL}};
    for (size_t i = 0; i < COUNT(types); i++)
        if (ot_take(t, types[i].name)) return types[i].type;
    fail_msg("a type is missing at: %.60s", t->at);
    return DT_NONE;
}

// float[n, 4] x, as a ValueInfoProto.
static inline Bytes ot_value(OnnxText *t, const char **name)
{
    Bytes shape = bytes(), tensor = bytes(), type = bytes(), info = bytes();
    put_int(&tensor, 1, dtypes[ot_type(t)].onnx);
    if (ot_take(t, "[")) {
        while (!ot_take(t, "]")) {
            Bytes dim = bytes();
            ot_space(t);
            if (isdigit((unsigned char)*t->at))
                put_int(&dim, 1, strtol(t->at, (char **)&t->at, 10));
            else put_text(&dim, 2, ot_name(t));
            put_message(&shape, 1, &dim);
            ot_take(t, ",");
        }
    }
    put_message(&tensor, 2, &shape);
    put_message(&type, 1, &tensor);
    put_text(&info, 1, *name = ot_name(t));
    put_message(&info, 2, &type);
    return info;
}

// int64[2] {1, 2}, as a TensorProto.
static inline Bytes ot_tensor(OnnxText *t)
{
    Bytes b = bytes(), raw = bytes();
    DType type = ot_type(t);
    bool whole;
    if (ot_take(t, "["))
        while (!ot_take(t, "]")) {
            put_int(&b, 1, (int64_t)ot_number(t, &whole));
            ot_take(t, ",");
        }
    put_int(&b, 2, dtypes[type].onnx);
    ot_need(t, "{");
    int bits = dtypes[type].bits, filled = 0;
    uint8_t shared = 0; // of elements that share a byte
    while (!ot_take(t, "}")) {
        char element[8];
        double v = ot_number(t, &whole);
        if (dtype_is_float(type)) dtype_store_f64(type, element, v);
        else dtype_store_i64(type, element, (int64_t)v);
        ot_take(t, ",");
        if (bits < 8) shared |= (uint8_t)((element[0] & ((1 << bits) - 1)) << filled);
        if (bits >= 8) buf_append(&raw.buf, element, dtype_size(type));
        else if ((filled += bits) == 8) buf_putc(&raw.buf, (char)shared), shared = 0, filled = 0;
    }
    if (filled) buf_putc(&raw.buf, (char)shared);
    put_message(&b, 9, &raw);
    return b;
}

static inline Bytes ot_graph(OnnxText *t, const char *name);

static inline void ot_number_attr(OnnxText *t, Bytes *a)
{
    bool whole;
    double v = ot_number(t, &whole);
    float f = (float)v;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (whole) put_int(a, 3, (int64_t)v);
    else put_fixed(a, 2, bits, 4);
    put_int(a, 20, whole ? ONNX_ATTR_INT : ONNX_ATTR_FLOAT);
}

static inline void ot_list_attr(OnnxText *t, Bytes *a)
{
    bool whole = true;
    while (!ot_take(t, "]")) {
        double v = ot_number(t, &whole);
        float f = (float)v;
        uint32_t bits;
        memcpy(&bits, &f, sizeof bits);
        if (whole) put_int(a, 8, (int64_t)v);
        else put_fixed(a, 7, bits, 4);
        ot_take(t, ",");
    }
    put_int(a, 20, whole ? ONNX_ATTR_INTS : ONNX_ATTR_FLOATS);
}

static inline bool ot_is_type(OnnxText *t)
{
    static const char *const names[] = {"float", "double", "int64", "int32", "int8", "uint8",
                                        "int4",  "uint4",  "int2",  "uint2", "bool"};
    for (size_t i = 0; i < COUNT(names); i++)
        if (ot_is(t, names[i])) return true;
    return false;
}

// name = value, or name: type = @name of the call.
static inline Bytes ot_attr(OnnxText *t)
{
    Bytes a = bytes();
    put_text(&a, 1, ot_name(t));
    if (ot_take(t, ":")) {
        put_int(&a, 20, ot_take(t, "int") ? ONNX_ATTR_INT : ONNX_ATTR_FLOAT);
        ot_take(t, "float");
        ot_need(t, "=");
        ot_need(t, "@");
        put_text(&a, 21, ot_name(t));
        return a;
    }
    ot_need(t, "=");
    ot_space(t);
    if (*t->at == '"') {
        const char *from = ++t->at;
        while (*t->at != '"') t->at++;
        put_data(&a, 4, from, (size_t)(t->at++ - from));
        put_int(&a, 20, ONNX_ATTR_STRING);
    } else if (ot_take(t, "[")) {
        ot_list_attr(t, &a);
    } else if (ot_is_type(t)) {
        Bytes tensor = ot_tensor(t);
        put_message(&a, 5, &tensor);
        put_int(&a, 20, ONNX_ATTR_TENSOR);
    } else if (isalpha((unsigned char)*t->at)) {
        Bytes g = ot_graph(t, ot_name(t));
        put_message(&a, 6, &g);
        put_int(&a, 20, ONNX_ATTR_GRAPH);
    } else {
        ot_number_attr(t, &a);
    }
    return a;
}

static inline void ot_names(OnnxText *t, Bytes *b, int field, const char *end)
{
    while (!ot_take(t, end)) {
        put_text(b, field, ot_take(t, "\"\"") ? "" : ot_name(t));
        ot_take(t, ",");
    }
}

static inline void ot_attrs(OnnxText *t, Bytes *node)
{
    if (!ot_take(t, "<")) return;
    while (!ot_take(t, ">")) {
        Bytes a = ot_attr(t);
        put_message(node, 5, &a);
        ot_take(t, ",");
    }
}

// { results = Op <attributes> (operands)  ... }
static inline void ot_nodes(OnnxText *t, Bytes *b, int field)
{
    ot_need(t, "{");
    while (!ot_take(t, "}")) {
        Bytes n = bytes();
        ot_names(t, &n, 2, "=");
        const char *op = ot_name(t);
        if (ot_take(t, ".")) {
            put_text(&n, 7, op);
            op = ot_name(t);
        }
        put_text(&n, 4, op);
        ot_attrs(t, &n);
        ot_need(t, "(");
        ot_names(t, &n, 1, ")");
        ot_attrs(t, &n);
        put_message(b, field, &n);
    }
}

static inline Bytes ot_graph(OnnxText *t, const char *name)
{
    Bytes g = bytes();
    put_text(&g, 2, name);
    for (int side = 0; side < 2; side++) {
        ot_need(t, side ? "=>" : "(");
        if (side) ot_need(t, "(");
        while (!ot_take(t, ")")) {
            const char *value;
            Bytes v = ot_value(t, &value);
            put_message(&g, 11 + side, &v);
            if (ot_take(t, "=")) {
                Bytes initializer = ot_tensor(t);
                put_text(&initializer, 8, value);
                put_message(&g, 5, &initializer);
            }
            ot_take(t, ",");
        }
    }
    ot_nodes(t, &g, 1);
    return g;
}

// opset 18 my 1: versions by domain; "opset" is the default one.
static inline void ot_opsets(OnnxText *t, Bytes *b, int field)
{
    while (!ot_take(t, ">")) {
        Bytes o = bytes();
        const char *domain = ot_name(t);
        bool whole;
        if (!strcmp(domain, "ir")) {
            put_int(b, 1, (int64_t)ot_number(t, &whole));
            continue;
        }
        put_text(&o, 1, strcmp(domain, "opset") ? domain : "");
        put_int(&o, 2, (int64_t)ot_number(t, &whole));
        put_message(b, field, &o);
    }
}

static inline Bytes ot_function(OnnxText *t)
{
    Bytes f = bytes();
    put_text(&f, 10, ot_name(t));
    ot_opsets(t, &f, 9);
    put_text(&f, 1, ot_name(t));
    if (ot_take(t, "<")) ot_names(t, &f, 6, ">");
    ot_need(t, "(");
    ot_names(t, &f, 4, ")");
    ot_need(t, "=>");
    ot_need(t, "(");
    ot_names(t, &f, 5, ")");
    ot_nodes(t, &f, 7);
    return f;
}

static inline Bytes onnx_from_text(const char *text)
{
    OnnxText t = {text};
    Bytes m = bytes();
    put_int(&m, 1, 9);
    ot_need(&t, "<");
    ot_opsets(&t, &m, 8);
    Bytes g = ot_graph(&t, ot_name(&t));
    put_message(&m, 7, &g);
    while (ot_take(&t, "<function")) {
        Bytes f = ot_function(&t);
        put_message(&m, 25, &f);
    }
    ot_space(&t);
    if (*t.at) fail_msg("more than a model: %.60s", t.at);
    return m;
}

#endif
