// SPDX-License-Identifier: Apache-2.0
// Values: construction, equality and text.
#include "lang/instantiate.h"

#include <stdio.h>
#include <string.h>

Value value_tuple(Arena *a, int n, const Value *at)
{
    Value v = {.kind = V_TUPLE};
    v.u.tuple.n = n;
    v.u.tuple.at = NEW_ARRAY(a, Value, n);
    if (at && n) memcpy(v.u.tuple.at, at, (size_t)n * sizeof(Value));
    return v;
}

Value value_ints(Arena *a, int n, const int64_t *at)
{
    Value v = value_tuple(a, n, NULL);
    for (int i = 0; i < n; i++) v.u.tuple.at[i] = value_int(at[i]);
    return v;
}

Value value_expr(Node *n)
{
    if (n->kind == N_INT && n->type == DT_I64) return value_int(n->u.i);
    if (n->kind == N_INT && n->type == DT_BOOL) return value_bool(n->u.i != 0);
    return (Value){.kind = V_EXPR, .loc = n->loc, .u.expr = n};
}

bool value_equal(const Value *a, const Value *b)
{
    if (a->kind != b->kind) return false;
    switch (a->kind) {
    case V_NONE: return true;
    case V_INT:
    case V_BOOL: return a->u.i == b->u.i;
    case V_FLOAT: return memcmp(&a->u.f, &b->u.f, sizeof a->u.f) == 0;
    case V_STR:
    case V_FUNCTION: return strcmp(a->u.str, b->u.str) == 0;
    case V_DTYPE: return a->u.dtype.type == b->u.dtype.type && a->u.dtype.lanes == b->u.dtype.lanes;
    case V_TUPLE:
        if (a->u.tuple.n != b->u.tuple.n) return false;
        for (int i = 0; i < a->u.tuple.n; i++)
            if (!value_equal(&a->u.tuple.at[i], &b->u.tuple.at[i])) return false;
        return true;
    case V_MAPPING: return mapping_equal(a->u.map, b->u.map);
    case V_LAYOUT: return layout_equal(a->u.layout, b->u.layout);
    case V_EXPR: return node_equal(a->u.expr, b->u.expr);
    case V_TENSOR: return a->u.tensor == b->u.tensor;
    case V_MEMORY: return a->u.mem == b->u.mem;
    default: return false;
    }
}

static void print_float(double f, Buf *out)
{
    char text[40];
    snprintf(text, sizeof text, "%.17g", f);
    bool plain = strpbrk(text, ".en") == NULL; // e: exponent; n: nan, inf
    buf_printf(out, "%s%s", text, plain ? ".0" : "");
}

void value_print(const Value *v, Buf *out)
{
    switch (v->kind) {
    case V_NONE: buf_puts(out, "none"); break;
    case V_INT: buf_printf(out, "%lld", (long long)v->u.i); break;
    case V_BOOL: buf_puts(out, v->u.i ? "true" : "false"); break;
    case V_FLOAT: print_float(v->u.f, out); break;
    case V_STR: buf_printf(out, "\"%s\"", v->u.str); break;
    case V_FUNCTION: buf_puts(out, v->u.str); break;
    case V_DTYPE:
        buf_puts(out, v->u.dtype.mbarrier ? "mbarrier" : dtypes[v->u.dtype.type].name);
        if (v->u.dtype.lanes > 1) buf_printf(out, "x%d", v->u.dtype.lanes);
        break;
    case V_TUPLE:
        buf_putc(out, '(');
        for (int i = 0; i < v->u.tuple.n; i++) {
            buf_puts(out, i ? ", " : "");
            value_print(&v->u.tuple.at[i], out);
        }
        buf_puts(out, v->u.tuple.n == 1 ? ",)" : ")");
        break;
    case V_MAPPING: mapping_print(v->u.map, out); break;
    case V_LAYOUT: layout_print(v->u.layout, out); break;
    case V_EXPR: node_print(v->u.expr, out); break;
    case V_TENSOR: buf_puts(out, v->u.tensor->name ? v->u.tensor->name : "tensor"); break;
    case V_MEMORY: buf_puts(out, v->u.mem->name); break;
    default: buf_puts(out, value_kind_name(v->kind)); break;
    }
}

const char *value_kind_name(ValueKind k)
{
    static const char *const names[] = {
        [V_NONE] = "nothing",
        [V_INT] = "an integer",
        [V_BOOL] = "a bool",
        [V_FLOAT] = "a real number",
        [V_STR] = "a string",
        [V_DTYPE] = "a type",
        [V_TUPLE] = "a tuple",
        [V_MAPPING] = "a mapping",
        [V_TASKS] = "a mapping applied to a worker",
        [V_LAYOUT] = "a layout",
        [V_TENSOR] = "a tensor",
        [V_MEMORY] = "a buffer",
        [V_EXPR] = "a value known only when the kernel runs",
        [V_RING] = "a ring",
        [V_SCAN] = "a scan",
        [V_RANGE] = "a range",
        [V_FUNCTION] = "a function",
    };
    return names[k];
}
