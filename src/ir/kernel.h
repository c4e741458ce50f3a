// SPDX-License-Identifier: Apache-2.0
// A kernel after instantiation: typed IR for one template, one set of facts and choices, with ops
// inlined. Passes turn one Kernel into another; the interpreter runs it at any step; codegen prints
// it.
#ifndef HEALD_IR_KERNEL_H
#define HEALD_IR_KERNEL_H

#include "ir/node.h"

struct Intrinsic {
    const char *id, *name, *args, *type;
    enum { SCOPE_NONE, SCOPE_WARP, SCOPE_ROLE, SCOPE_GRID } scope;
    const char *flags;
    int arch;
    const char *c, *cuda, *meaning;
};
typedef enum IntrinsicId {
#define INTRINSIC(ID, name, args, type, scope, flags, arch, c, cuda, meaning) INTR_##ID,
#include "ir/intrinsics.def"
#undef INTRINSIC
    INTR_COUNT
} IntrinsicId;
extern const Intrinsic intrinsics[INTR_COUNT];
static inline IntrinsicId intrinsic_id(const Intrinsic *i)
{
    return (IntrinsicId)(i - intrinsics);
}
// NULL: none; the one with that many arguments.
const Intrinsic *intrinsic_find(const char *name, int nargs);

// What a kernel is made for. Facts about the machine that templates ask for.
typedef enum TargetKind { TARGET_CPU, TARGET_CUDA } TargetKind;
typedef struct Target {
    TargetKind kind;
    const char *arch;     // "native", "x86-64-v3", "sm_80", ...
    int vector_bytes;     // CPU: SIMD register width, 16 where unknown; CUDA: 16
    int nregister;        // SIMD registers (16, 32), or 255
    int ncore;            // cores or multiprocessors
    int max_threads;      // of a block; 1 on the CPU
    int64_t shared_bytes; // of a block; 0 on the CPU
    int64_t l1_bytes, l2_bytes, l3_bytes;
    // Products of tf32 that stand for one of f32: 3, as good as f32; 1, of elements rounded to it;
    // 0: the machine has none
    int tf32;
} Target;
void target_host(Target *t);                   // this machine's CPU
bool target_cuda(Target *t, const char *arch); // false: arch unknown

enum { KERNEL_MAX_GRID = 3 };

typedef struct Stage {
    Sym name;
    int ngrid; // 0: one block
    // i64 expressions over VAR_DIM; block.x is grid[0]. On the CPU the linear block number is
    // row-major in (x, y, z)
    Node *grid[KERNEL_MAX_GRID];
    Node *cluster; // INT or NULL
    Node *block;   // threads of a block; NULL or 1 on the CPU
    Node *body;    // SEQ
    // shared and core_local buffers, in order of declaration (locals are ALLOC statements in the
    // body)
    VEC(Buffer *) memory;
    Var *builtin[VAR_CORE + 1]; // the Var of each Builtin that the body may use, or NULL
} Stage;

int64_t buffer_element_bytes(const Buffer *b);
// Where a shared buffer begins that lies behind *end bytes of others. *end: behind it.
enum { SHARED_ALIGN = 128 }; // at least
int64_t shared_begin(const Buffer *b, int64_t *end);
int64_t stage_shared_bytes(const Stage *s); // of a block

typedef struct Requirement {
    Node *cond; // over VAR_DIM vars; checked at launch
    const char *message;
    Loc loc;
} Requirement;

typedef struct Kernel {
    Arena *arena; // everything below lives here
    Sym name;     // symbol in generated code, unique by content: h_<op>_<hash>
    Sym template_name;
    Target target;
    Loc loc;
    VEC(Buffer *) params;    // global tensors, inputs then outputs (output set)
    VEC(Var *) dims;         // dynamic dimensions, passed as int64 in this order
    VEC(Buffer *) workspace; // SPACE_WORKSPACE, extents over dims
    VEC(Stage *) stages;     // run in order; all writes visible to the next
    VEC(Requirement) requirements;
    int next_id;  // for new Vars and Buffers
    bool lowered; // mappings and layouts are gone
} Kernel;

// `name` is copied; it is not unique, ids are.
Var *kernel_var(Kernel *k, const char *name, DType type, bool mutable);
Buffer *kernel_buffer(Kernel *k, const char *name, Space space, DType type, int rank,
                      Node *const *extent);
// Shallow: the same nodes, new lists; what a pass starts from.
Kernel *kernel_clone(Arena *a, const Kernel *k);
void kernel_print(const Kernel *k, Buf *out); // signature, memory, stages, bodies
// An expression over dims and constants.
int64_t node_eval_dims(const Node *n, const Kernel *k, const int64_t *dims);
// Types agree, names bound, ranks match; false with diagnostics.
bool kernel_verify(const Kernel *k, Diag *d);

#endif
