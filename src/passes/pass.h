// SPDX-License-Identifier: Apache-2.0
// What passes share: building SEQs, the loops of a mapping, names, and the run functions of
// passes.def.
#ifndef HEALD_PASSES_PASS_H
#define HEALD_PASSES_PASS_H

#include "passes/arith.h"
#include "passes/passes.h"

#define PASS(name, summary) bool pass_##name(PassContext *c);
#include "passes/passes.def"
#undef PASS

// Applies f to the body of each stage.
void pass_bodies(Kernel *k, NodeFn *f, void *user);

// Statements collected for one SEQ.
typedef struct Statements {
    Arena *arena;
    VEC(Node *) list;
} Statements;
void statements_add(Statements *s, Node *stmt);
Node *statements_seq(const Statements *s, Loc loc); // spliced where scopes allow it

Node *make_loop(Arena *a, Loc loc, Var *v, Node *lo, Node *hi, LoopAttr attr, Node *body);
Node *make_define(Arena *a, Loc loc, Var *v, Node *value);
Node *make_set(Arena *a, Loc loc, Var *v, Node *value);
Node *make_if(Arena *a, Loc loc, Node *cond, Node *then, Node *other);
Node *make_load(Arena *a, Loc loc, Buffer *b, int n, Node *const *index);
Node *make_store(Arena *a, Loc loc, Buffer *b, int n, Node *const *index, Node *value, int guard);

// A new loop variable for [0, extent), its bounds known.
Var *index_var(Kernel *k, const char *name, int64_t extent);

// The loops of one worker's tasks, outermost first, and the task's index in terms of their
// variables. Worker must be in range.
typedef struct Nest {
    Kernel *kernel;
    struct NestLoop {
        Var *var;
        int64_t extent;
        LoopAttr attr;
    } loop[MAPPING_MAX_RANK * 4];
    int nloop;
} Nest;
// False: more loops than a Nest holds.
bool nest_build(Nest *nest, const Mapping *m, Node *worker, Node **index);
Node *nest_wrap(const Nest *nest, Loc loc, Node *body);

// The other way: the worker and the position among its tasks that hold an index. False for mappings
// with projections or custom parts.
bool mapping_inverse(Arena *a, const Mapping *m, Node *const *index, Node **worker, Node **task);

// Buffers whose tasks belong to threads (owner_buffers.c). owner_access: an access or ALLOC of one,
// of the thread's plain buffer; anything else as it is. plain: Buffer -> that buffer, for all of a
// kernel; index_of: Var of a mapping loop around -> its value by the loops of the nest.
bool is_owner_buffer(const Buffer *b);
Node *owner_access(Arena *a, Map *plain, const Map *index_of, Node *n);
// The number of an element among the tasks of the thread that holds it.
Node *owner_task(Arena *a, const Mapping *m, Node *const *index);

// An mma, ldmatrix or stmatrix on such buffers, as a statement, on the threads' plain ones
// (fragments.c); anything else as it is.
Node *fragments_lower(PassContext *c, Map *plain, const Map *index_of, Node *stmt);

// Sets Var.lo, hi and divisor wherever loops, definitions and the grid tell them.
void bounds_annotate(Kernel *k);
void bounds_define(Var *v, const Node *value); // v is value

// Local buffers that are only indexed by constants become variables. After layouts are lowered.
bool registers_promote(PassContext *c);

// Folds, applies the rules, and puts constants and names in place of variables that only stand for
// them, to a fixed point.
struct Rules;
Node *simplify_tree(Kernel *k, const struct Rules *rules, Node *n);

// A copy of n with new variables for those it binds, and values (Var -> Node, added to) for others.
Node *copy_fresh(Kernel *k, Node *n, Map *values);

// Whether n holds a BREAK or CONTINUE of a loop around it.
bool leaves_loop(const Node *n);
int64_t count_nodes(const Node *n);

#endif
