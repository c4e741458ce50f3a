// SPDX-License-Identifier: Apache-2.0
// From declarations to kernel IR by partial evaluation: what is known is computed, what is not
// becomes IR, ops are inlined where a kernel loads and stores its parameters.
//
// A group of ops is described by Tensors: leaves (memory), applications of ops to tensors, and the
// anchor's results (holes) that epilogue ops read. instance_kernel then instantiates a template on
// them. The same machinery infers shapes: apply an op, look at its results.
#ifndef HEALD_LANG_INSTANTIATE_H
#define HEALD_LANG_INSTANTIATE_H

#include "lang/value.h"

typedef struct Env Env;
typedef struct OpInst OpInst;

// A tensor as the language sees it.
struct Tensor {
    Sym name;
    DType type;
    int rank;
    Value *dims;           // (rank) V_INT, or V_EXPR over dimension variables
    Buffer *buf;           // a leaf: memory of the kernel
    const Value *elements; // of a leaf: those that are known, row-major; V_NONE: not. NULL: none is
    const OpInst *producer; // or a result of an op, computed where it is loaded
    int output;
    bool shared;               // several ops read it: an element that was computed is used again
    struct Computed *computed; // private: such elements
    const Node *let;           // or an indexed let of an op's body, with
    Env *env;                  //   where it was written,
    const OpInst *owner;       //   and the op
    int *counted; // (rank) of an op's result with extents that only the run decides: by axis the
                  // result that tells the extent, -1: none. dims are bounds. NULL: no such axis
    bool is_hole; // or an anchor's result that epilogue ops read: while stored, its element is
    Value hole;   //   this
    Node *param;  // the parameter it is bound to, if that prefers a layout
    struct Tensor *packed;     // the leaf that holds it in that layout, or NULL
    struct Tensor *repacked;   // or what computes it, made at first use
    int64_t align_bytes;       // known alignment of a leaf; 0: its dtype's
    struct Epilogue *epilogue; // a kernel's result: where its elements go,
    bool *of_rows;             //   which outputs are computed from whole rows (NULL: none),
    Buffer *rows;              //   where those are read,
    bool rows_done;            //   and whether the kernel has said when
};

// An op applied: inputs and attributes bound, results typed. After the declared results come the
// extents that only the run decides, numbers of type i64.
struct OpInst {
    const Node *decl;
    Env *env;
    Tensor **results;
    int nresult;
};

// Of one kernel result. Outputs are computed from the hole at the element with the same row-major
// position, or the same index where dims are equal; or with sums, maxima and the like over the last
// axis: then when whole rows are there (c.rows, docs/language.md).
typedef struct Epilogue {
    Tensor *hole;     // has the result's type and dims; NULL: it is stored as it is in memory[0]
    Tensor **outputs; // (noutput) read the hole
    Buffer **memory;  // (noutput) where each goes
    // (noutput) NULL where it lies there by its own index; else moves of one leaf, that memory: an
    // element goes where it would be read. NULL: none does
    Tensor **place;
    int noutput;
} Epilogue;

typedef struct Instance {
    Arena *arena;
    const Library *library;
    Diag *diag;
    Kernel *kernel;
    // What must be known but depends on dimensions is taken to be what it is for their hints
    // (Var.hint), and that becomes a requirement of the kernel.
    bool guess;
    // Epilogues of whole rows are computed where the template has them (c.rows), or it does not
    // fit.
    bool rows_at_hand;
    struct Eval *eval; // private
} Instance;

// An empty kernel for `target`. The arena outlives it.
Instance *instance_new(Arena *a, const Library *l, const Target *target, Diag *d);

// A dynamic dimension of the kernel, with what is known about it (lo <= value <= hi, divisor
// divides it).
Value instance_dim(Instance *in, const char *name, int64_t lo, int64_t hi, int64_t divisor);

// A leaf: memory passed to the kernel. They become Kernel.params in order of creation; outputs
// after inputs.
Tensor *instance_input(Instance *in, const char *name, DType type, int rank, const Value *dims);
Buffer *instance_output(Instance *in, const char *name, DType type, int rank, const Value *dims);
// An output of the kernel as a tensor that is read.
Tensor *instance_memory(Instance *in, Buffer *b, int rank, const Value *dims);
Tensor *instance_hole(Instance *in, const char *name, DType type, int rank, const Value *dims);

// Applies an op. args: one for each parameter, V_TENSOR, V_NONE where left out (trailing ones may
// be missing), a V_TUPLE of tensors for a variadic one. attrs: Sym -> Value*, checked and completed
// by defaults. NULL with diagnostics at `loc` (wrong types, shapes that do not fit: they name the
// op and the shapes), with notes in the declaration.
OpInst *op_apply(Instance *in, Loc loc, const Node *op, int narg, const Value *args,
                 const Map *attrs);

// An attribute of an op that was applied, given or by default. NULL: it has none of that name.
const Value *op_attribute(const OpInst *op, Sym name);

// One way to schedule: names of tune entries and their values. Missing ones take their default.
typedef struct Choices {
    int n;
    Sym *name;
    Value *value;
} Choices;

// One element of a tensor at a known index, computed from what is known: an integer, real or bool,
// or a V_EXPR over dimensions. False, and no diagnostics, where it needs memory or a loop.
bool instance_element(Instance *in, Tensor *t, const int64_t *index, Value *out);

// Whether t, an op's result, only says where in one leaf each element lies, those outside of it
// outside: then it can be an Epilogue's place.
bool instance_places(Instance *in, Tensor *t);
// Whether t, an op's result, has rows of one leaf, or parts of them, elsewhere.
bool instance_keeps_rows(Instance *in, Tensor *t);

// Instantiates a template on inputs (one Value a parameter, as in op_apply), results (one Epilogue
// a result) and attributes. in->kernel is complete after it. False with diagnostics; when a
// schedule choice does not fit, the reason is among them.
bool instance_kernel(Instance *in, const Node *kernel, int narg, const Value *args,
                     const Map *attrs, const Epilogue *results, int nresult,
                     const Choices *choices);

// What a template's results are for these arguments, one hole each: what instance_kernel will ask
// of `results`. Leaves the kernel as it was. False with diagnostics.
bool kernel_results(Instance *in, const Node *kernel, int narg, const Value *args, const Map *attrs,
                    const Choices *choices, Tensor ***results, int *n);

// What a template would rather read a parameter as: `prefer layout panel(n)` is the result of the
// op pack_panel on it. A caller that has it in that form sets Tensor.packed to a leaf of that
// shape; otherwise reads of b.panel compute it from b.
typedef struct Preference {
    int param; // or, of a result, which
    bool is_result;
    const Node *op;     // pack_NAME
    const Node *unpack; // unpack_NAME, which undoes it; NULL: there is none
    Map attrs;          // the layout's arguments, at the op's attributes in their order
    Value worth;        // bytes that need not be moved then: V_INT, V_EXPR
} Preference;
bool kernel_preferences(Instance *in, const Node *kernel, int narg, const Value *args,
                        const Map *attrs, const Choices *choices, Preference **out, int *n);

// An op of serial form as a kernel of its own: one block that runs its body. outputs: as
// OpInst.results.
bool instance_serial(Instance *in, const Node *op, int narg, const Value *args, const Map *attrs,
                     Buffer *const *outputs, int noutput);

// All combinations of a template's tune entries up to a level (0, 1 or 2), the default one first.
// Values may use attributes and the device. False with diagnostics.
bool kernel_choices(Instance *in, const Node *kernel, int level, Choices **out, int *n);
void choices_print(const Choices *c, Buf *out); // "mr = 6, nv = 2"

// One expression with names bound to values. False with diagnostics in the instance's Diag.
bool instance_evaluate(Instance *in, Node *expr, int n, const Sym *names, const Value *values,
                       Value *out);

// One expression without tensors, such as a mapping or layout for `heald map`. V_NONE with
// diagnostics.
Value evaluate_expression(Arena *a, const Library *l, const Target *target, const Node *expr,
                          Diag *d);

#endif
