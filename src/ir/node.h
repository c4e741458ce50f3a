// SPDX-License-Identifier: Apache-2.0
// The program as immutable trees of one Node struct. Parsed text and kernel IR share it; nodes.def
// lists every kind.
//
// What kernel IR means:
// - Integers wrap in two's complement (i64, the type of every index, is never meant to). / is floor
//   division and % has the divisor's sign for signed types; division by zero gives 0, remainder by
//   zero gives 0. Shifts: the count is taken modulo the width; >> of signed types keeps the sign.
// - Float arithmetic is IEEE in the node's type, rounded once per node, to nearest even; nodes
//   of narrower floats compute in f32 and round, small ones to their largest number where the
//   result is beyond it. Nothing is reassociated or contracted. MIN and MAX give NaN if either
//   operand is NaN, and order -0 before +0. / is IEEE; % on floats is C fmod, plus y
//   where the signs of result and y differ; a zero result has y's sign.
// - Comparisons give bool. With NaN only != is true. Bools hold 0 or 1; arithmetic is not defined
//   on them, & | ^ are.
// - Operands have equal type and lanes; result type is the operands'. `lanes` 1 is a scalar; L > 1
//   is L values, each as if alone. Conversions are explicit (CAST), except that LOAD with a vector
//   index gathers lane by lane.
// - Order: operands left to right, but only SELECT, LAND, LOR, loads and INTRINs with effects can
//   tell. SELECT evaluates one arm (with a vector condition, both, where loads in the arm of a
//   false lane do not happen).
// - LOAD and STORE take logical coordinates, one index for each axis of the buffer, in elements.
//   After `lower_layout` a buffer is flat (Buffer.flat) and has one index. Outside its extents a
//   LOAD, or STORE without GUARD_DROP, is an error; LOAD_ELSE gives `other`.
// - Reading what was never written is an error in workspace, shared, core_local and local memory.
// - LOOP evaluates lo and hi once. DEFINE, DECLARE and ALLOC last to the end of the enclosing SEQ;
//   each pass of a loop makes them new.
// - MAPFOR with worker w: for task in u.map(w) { body }, tasks in order; nothing when w is outside.
// - Worker VAR_LANE (CPU): MAPFOR means `for lane in 0 .. workers: for task in map(lane): body`;
//   iterations on different lanes must not depend on one another, so a backend may run them in
//   lockstep, task by task, as SIMD. VAR_LANE is read only inside such a body.
// - A buffer `over` a mapping is indexed by logical coordinates and holds only the owner's tasks;
//   outside lane loops the core that owns the lanes may read and write any element. Touching what
//   one does not own is an error.
#ifndef HEALD_IR_NODE_H
#define HEALD_IR_NODE_H

#include "base/diag.h"
#include "base/dtype.h"
#include "base/intern.h"
#include "base/util.h"
#include "ir/layout.h"
#include "ir/mapping.h"

typedef enum NodeKind {
    N_NONE,
#define NODE(KIND, spelling, form, class, u, sub, operands, nfixed, variadic, optional, kids) \
    N_##KIND,
#include "ir/nodes.def"
#undef NODE
    N_COUNT
} NodeKind;

typedef enum NodeForm { FORM_T, FORM_K, FORM_B } NodeForm;
typedef enum NodeClass { CLASS_E, CLASS_S, CLASS_D, CLASS_O } NodeClass;
typedef enum NodePayload {
    PAYLOAD_NONE,
    PAYLOAD_I,
    PAYLOAD_F,
    PAYLOAD_SYM,
    PAYLOAD_VAR,
    PAYLOAD_BUF,
    PAYLOAD_MAP,
    PAYLOAD_INTR
} NodePayload;
typedef enum NodeSub {
    SUB_NONE,
    SUB_TYPE,
    SUB_ASSIGN,
    SUB_LOOP,
    SUB_FOLD,
    SUB_SPACE,
    SUB_GUARD,
    SUB_OP,
    SUB_PARAM
} NodeSub;

// See nodes.def.
typedef enum NodeOperands {
    OPERANDS_NONE,
    OPERANDS_NUMBERS,
    OPERANDS_INTS,
    OPERANDS_BITS,
    OPERANDS_BOOLS,
    OPERANDS_ALIKE,
    OPERANDS_ONE
} NodeOperands;

enum { TYPE_SCALAR, TYPE_TENSOR, TYPE_LIST, TYPE_TENSORS };
enum { FOLD_LAST, FOLD_STATES }; // the last state, or all of them
enum { GUARD_NONE, GUARD_DROP };
enum { OP_INDEX, OP_SERIAL };
enum { PARAM_OPTIONAL = 1, PARAM_VARIADIC = 2, PARAM_CONST = 4 };

typedef struct NodeInfo {
    const char *name; // "ADD"
    const char *spelling;
    NodeForm form;
    NodeClass class;
    NodePayload payload;
    NodeSub sub;
    NodeOperands operands;
    int nfixed; // named children
    bool variadic;
    uint32_t optional;    // bit k: named child k may be NULL
    const char *children; // "(a, b)"
} NodeInfo;
extern const NodeInfo node_info[N_COUNT];

typedef struct Var Var;
typedef struct Buffer Buffer;
typedef struct Intrinsic Intrinsic;
typedef struct Node Node;

struct Node {
    uint16_t kind;  // NodeKind
    uint8_t sub;    // see nodes.def
    uint8_t type;   // DType of an expression, DT_NONE in text
    uint16_t lanes; // of an expression in kernel IR; 0 in text
    // free for the owner of a tree (the parser: parentheses, literal base); not compared, not
    // hashed
    uint16_t flags;
    uint32_t nkid;
    Loc loc;
    union {
        int64_t i;
        double f;
        Sym sym;
        Var *var;
        Buffer *buf;
        const Mapping *map;
        const Intrinsic *intr;
    } u;
    Node *kid[];
};

// Named children: KID(n, FOR, body) is n->kid[2]. A name that nodes.def does not give to the kind
// fails to compile; the kind itself is asserted in debug builds.
#define KIDS_0(K, ...)
#define KIDS_1(K, a) enum { KID_##K##_##a };
#define KIDS_2(K, a, b) enum { KID_##K##_##a, KID_##K##_##b };
#define KIDS_3(K, a, b, c) enum { KID_##K##_##a, KID_##K##_##b, KID_##K##_##c };
#define KIDS_4(K, a, b, c, d) enum { KID_##K##_##a, KID_##K##_##b, KID_##K##_##c, KID_##K##_##d };
#define KIDS_5(K, a, b, c, d, e) \
    enum { KID_##K##_##a, KID_##K##_##b, KID_##K##_##c, KID_##K##_##d, KID_##K##_##e };
#define KIDS_6(K, a, b, c, d, e, f) \
    enum {                          \
        KID_##K##_##a,              \
        KID_##K##_##b,              \
        KID_##K##_##c,              \
        KID_##K##_##d,              \
        KID_##K##_##e,              \
        KID_##K##_##f               \
    };
#define KIDS_7(K, a, b, c, d, e, f, g) \
    enum {                             \
        KID_##K##_##a,                 \
        KID_##K##_##b,                 \
        KID_##K##_##c,                 \
        KID_##K##_##d,                 \
        KID_##K##_##e,                 \
        KID_##K##_##f,                 \
        KID_##K##_##g                  \
    };
#define KIDS_UNPACK(...) __VA_ARGS__
#define KIDS_APPLY(macro, ...) macro(__VA_ARGS__)
#define NODE(KIND, spelling, form, class, u, sub, operands, nfixed, variadic, optional, kids) \
    KIDS_APPLY(KIDS_##nfixed, KIND, KIDS_UNPACK kids)
#include "ir/nodes.def"
#undef NODE

#define KID(n, KIND, name) (*node_kid((n), N_##KIND, KID_##KIND##_##name))
static inline Node **node_kid(Node *n, NodeKind kind, int i)
{
    ASSERT(n->kind == kind);
    return &n->kid[i];
}
#define REST(n) (&(n)->kid[node_info[(n)->kind].nfixed]) // the variadic children
#define NREST(n) ((int)(n)->nkid - node_info[(n)->kind].nfixed)

typedef enum Builtin {
    VAR_NORMAL,
    VAR_DIM,
    VAR_BLOCK_X,
    VAR_BLOCK_Y,
    VAR_BLOCK_Z,
    VAR_THREAD,
    VAR_LANE,
    VAR_CORE
} Builtin; // VAR_DIM: a dynamic dimension of the launch; VAR_THREAD is linear in the block

struct Var {
    Sym name;
    int id; // unique in its kernel
    DType type;
    uint16_t lanes;
    bool mutable;
    Builtin builtin;
    int64_t lo, hi;  // known bounds, inclusive, for integers; lo > hi: none known
    int64_t divisor; // known to divide it; 1: nothing known
    int64_t hint;    // of a dimension that is `hinted`: a value at hand, see Instance.guess
    bool hinted;
    Var *same; // of a dimension: another one, made before it, that it is known to equal; or NULL
    Loc loc;
};

typedef enum Space {
    SPACE_GLOBAL,
    SPACE_WORKSPACE,
    SPACE_SHARED,
    SPACE_CORE_LOCAL,
    SPACE_LOCAL
} Space;
extern const char *const space_name[]; // "global", "workspace", ...

struct Buffer {
    Sym name;
    int id; // unique in its kernel
    Space space;
    DType type;       // of an element; DT_NONE for mbarriers
    bool is_mbarrier; // elements are mbarriers, `arrivals` expected each
    int64_t arrivals;
    int rank;
    Node **extent;        // (rank) i64 expressions: INT, or over VAR_DIM vars
    const Layout *layout; // NULL: row-major over the extents
    // local only: whose tasks are held; NULL: private to the executing worker, whole
    const Mapping *over;
    // VARREF of VAR_THREAD or VAR_LANE, or an expression of thread such as thread % 128
    Node *over_worker;
    int64_t align_bytes; // 0: the dtype's own
    Buffer *alias;       // shares storage with, or NULL
    bool flat;           // after lower_layout: one index, extent[0] elements of storage
    bool output;         // global only: written by the kernel
    int param;           // global: index among Kernel.params; otherwise -1
    Loc loc;
};

// Constructors. Expression nodes get type and lanes from their operands where the kind decides
// them; the rest is the caller's.
Node *node_new(Arena *a, NodeKind kind, Loc loc, int nkid); // children NULL
// Type and lanes where the children decide them.
Node *node_make(Arena *a, NodeKind kind, Loc loc, int nkid, Node *const *kid);
Node *node_int(Arena *a, Loc loc, DType type, int64_t v);
// An index constant, at no place.
Node *node_i64(Arena *a, int64_t v);
Node *node_float(Arena *a, Loc loc, DType type, double v);
Node *node_var(Arena *a, Loc loc, Var *v);
Node *node_unary(Arena *a, NodeKind kind, Node *x);
// At x's place; comparisons get bool.
Node *node_binary(Arena *a, NodeKind kind, Node *x, Node *y);
Node *node_select(Arena *a, Node *cond, Node *x, Node *y);
// x itself if it has that type.
Node *node_cast(Arena *a, DType type, Node *x);
// x itself if it has so many lanes, else BROADCAST of the scalar x.
Node *node_widen(Arena *a, Node *x, int lanes);
// Flattens nested SEQs without declarations of their own; skips NULL; one SEQ alone is returned
// itself.
Node *node_seq(Arena *a, Loc loc, int n, Node *const *stmt);

// Rewriting: f is applied to each child; returns n itself if no child changed, else a copy with the
// new children.
typedef Node *NodeFn(void *user, Node *n);
Node *node_map(Arena *a, Node *n, NodeFn *f, void *user);
// Substitutes VARREFs: the value mapped to a Var (Map Var* -> Node*).
Node *node_subst(Arena *a, Node *n, const Map *values);
bool node_equal(const Node *a, const Node *b); // structure and payload; not places
uint64_t node_hash(const Node *n);
bool node_is_const(const Node *n, int64_t v); // INT of value v
// No effect, and reads nothing that statements can change.
bool node_pure(const Node *n);
bool node_uses_var(const Node *n, const Var *v);

// Folds what is known: constant operands, x + 0, x * 1, SELECT of a constant; exactly as the
// interpreter would compute it. Children are taken as folded already. Floats: only constant
// folding, never identities that change NaN, -0 or infinity.
Node *node_fold(Arena *a, Node *n);

// Bounds of an integer or bool expression (all lanes) from Var bounds; false if none follow. A
// result that may wrap has the bounds of its type.
bool node_bounds(const Node *n, int64_t *lo, int64_t *hi);
// A number known to divide it, at least 1; 2^62 for zero. Where the value may wrap, a power of two.
int64_t node_divisor(const Node *n);

// Kernel IR as text, one statement a line, two spaces a level.
void node_print(const Node *n, Buf *out);

#endif
