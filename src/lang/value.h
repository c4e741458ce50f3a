// SPDX-License-Identifier: Apache-2.0
// What an expression of the language stands for while a template is instantiated: a value known
// now, or (V_EXPR) kernel IR that computes it when the kernel runs. Packs are tuples.
#ifndef HEALD_LANG_VALUE_H
#define HEALD_LANG_VALUE_H

#include "lang/lang.h"

typedef enum ValueKind {
    V_NONE, // absent: an optional that was not given
    V_INT,  // known integer without a type yet
    V_BOOL,
    V_FLOAT, // known real without a type yet
    V_STR,
    V_DTYPE, // an element type; lanes > 1: a vector of them
    V_TUPLE,
    V_MAPPING,
    V_TASKS, // a mapping applied to a worker
    V_LAYOUT,
    V_TENSOR,   // a parameter, an op's result, or a let with indices
    V_MEMORY,   // a Buffer of the kernel other than a parameter
    V_EXPR,     // typed kernel IR
    V_RING,     // an index that walks 0 .. n-1 and a phase that flips on wrap
    V_RANGE,    // lo .. hi, or lo :+ len
    V_SCAN,     // the states of a scan
    V_FUNCTION, // a fn declaration, a builtin, or a dtype-like constructor, by name
} ValueKind;

typedef struct Value Value;
typedef struct Tensor Tensor;
typedef struct Scan Scan; // eval_reduce.c

struct Value {
    ValueKind kind;
    Loc loc;
    union {
        int64_t i; // V_INT, V_BOOL
        double f;
        Sym str; // V_STR, V_FUNCTION
        struct {
            DType type;
            int lanes;
            int64_t arrivals;
            bool mbarrier;
        } dtype;
        struct {
            Value *at;
            int n;
        } tuple;
        const Mapping *map;
        struct {
            const Mapping *map;
            Node *worker;
        } tasks;
        const Layout *layout;
        Tensor *tensor;
        Scan *scan;
        Buffer *mem;
        Node *expr;
        struct {
            Var *index, *phase;
            int64_t n;
        } ring;
        struct {
            Value *lo, *hi, *step;
            bool span;
        } range; // span: hi is a length
    } u;
};

static inline Value value_none(void)
{
    return (Value){.kind = V_NONE};
}
static inline Value value_int(int64_t i)
{
    return (Value){.kind = V_INT, .u.i = i};
}
static inline Value value_bool(bool b)
{
    return (Value){.kind = V_BOOL, .u.i = b};
}
static inline Value value_float(double f)
{
    return (Value){.kind = V_FLOAT, .u.f = f};
}
static inline Value value_str(Sym s)
{
    return (Value){.kind = V_STR, .u.str = s};
}
static inline Value value_dtype(DType t)
{
    return (Value){.kind = V_DTYPE, .u.dtype = {t, 1, 0, false}};
}
Value value_tuple(Arena *a, int n,
                  const Value *at); // at is copied; NULL: n V_NONEs to be filled in
Value value_ints(Arena *a, int n, const int64_t *at);
Value value_expr(Node *n); // INT and bool constants of type i64 and bool become V_INT and V_BOOL

bool value_equal(const Value *a, const Value *b);
void value_print(const Value *v, Buf *out); // as the language would write it; part of cache keys
const char *value_kind_name(ValueKind k);   // "an integer", "a mapping", ... for messages

#endif
