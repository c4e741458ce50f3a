// SPDX-License-Identifier: Apache-2.0
// The partial evaluator's private parts, shared by eval_*.c. Every function returns false with a
// diagnostic reported.
#ifndef HEALD_LANG_EVAL_H
#define HEALD_LANG_EVAL_H

#include "lang/instantiate.h"

// Scopes are a list from the innermost binding outwards; a closure is a pointer into it.
struct Env {
    Sym name;
    Value value;
    Var *var; // mutable: reads give the Var, not `value`
    Env *next;
};

typedef struct Stmts {
    VEC(Node *) list;
    struct Stmts *parent; // the list that this one will be part of
    int first_id;         // variables from here on were made inside
    bool conditional;     // it may not run although the parent does
} Stmts;

// An element that was computed.
typedef struct Shared {
    const Tensor *t;
    int n;
    Value *index;
    Value value;
    const Stmts *where;
    bool guard; // with guarded leaves
} Shared;

enum {
    EVAL_MAX_DEPTH = 250,
    EVAL_MAX_UNROLL = 4096,
    EVAL_MAX_STEPS = 2000000,
    EVAL_MAX_NESTING = 2000,  // expressions and statements within one another, through calls
    EVAL_MAX_SCAN = 32 << 10, // bytes of states that are kept in local memory
    EVAL_MAX_TREE = 10000,    // nodes of a value that the host computes
    EVAL_MAX_NOTES = 8,       // calls named in notes, the outermost ones
    EVAL_MAX_RANK = 16
};

// The innermost loop around a statement.
typedef enum LoopKind {
    LOOP_NOWHERE,
    LOOP_RUNS,     // it is in the kernel
    LOOP_NEST,     // several of them
    LOOP_MAPPED,   // so it is, but nothing may leave it
    LOOP_UNROLLED, // it runs now
} LoopKind;

typedef struct Eval {
    Instance *in;
    Arena *arena;
    const Library *lib;
    Diag *diag;
    Kernel *kernel;
    Stage *stage; // NULL outside stages
    Env *env;
    Stmts *out; // where statements go; NULL where only known values make sense
    const Choices *choices;
    int64_t block_dims[KERNEL_MAX_GRID]; // of the stage: thread.x runs over the first
    int nblock_dims;
    const OpInst *op;        // whose body is evaluated
    const Tensor *at_result; // at an element of this result
    const Value *at_index;   //   with this index
    VEC(Shared) shared;
    int shared_from; // older ones do not count here
    // arms of conditional expressions around, which statements would turn into branches
    int choosing;
    int reducing;         // reductions and folds around, of the value being computed
    bool hole_reduced;    // a hole was read in one
    const Tensor *row_of; // a row of this hole is at hand, and
    const Value *row;     //   this is its index, all but the last part
    const Stmts *team;    // statements for it that a team does together (eval_team.c)
    bool guard_leaves;    // leaves are read with a guard: the index may lie outside
    bool returning;       // a return was reached; its value is in `result`
    Value result;
    LoopKind loop;
    bool conditional;   // inside that loop, under a condition known only at run time
    NodeKind leaving;   // N_BREAK or N_CONTINUE of a loop that runs now, on the way out
    int nlane;          // loops over lanes around
    bool naming_worker; // what is evaluated is the w of map(w)
    bool broken; // a statement had nowhere to go, which was reported: nothing succeeds any more
    int depth, nesting;
    int64_t steps, max_steps;
} Eval;

extern const char eval_return_text[]; // why a return cannot be done
Sym eval_sym(Eval *e, const char *name);
bool eval_fail(Eval *e, Loc loc, const char *fmt, ...)
    __attribute__((format(printf, 3, 4))); // false
void eval_bind(Eval *e, Sym name, Value v);
Env *env_find(Env *env, Sym name);
void eval_emit(Eval *e, Node *stmt); // reported where e->out is NULL, see Eval.broken
void eval_emit_to(Eval *e, Stmts *into, Node *stmt);
bool eval_begin(Eval *e, Stmts **into, Stmts **saved,
                Loc loc); // statements go to a new list until eval_end
Node *eval_end(Eval *e, Stmts *from, Stmts *saved, Loc loc); // the SEQ
Var *eval_declare(Eval *e, Loc loc, const char *name, DType type, int lanes,
                  Node *init); // a mutable variable; init may be NULL
void eval_set(Eval *e, Loc loc, Var *v, Node *value);

// eval_value.c: arithmetic on values.
bool value_is_known(const Value *v); // int, bool or float
bool eval_node(Eval *e, Loc loc, Value v,
               Node **out); // as IR: V_INT i64, V_FLOAT f32; scalars of tensors are read
bool eval_node_as(Eval *e, Loc loc, Value v, DType type,
                  Node **out); // converted: constants in range, otherwise CAST
bool eval_index(Eval *e, Loc loc, Value v, Node **out); // i64
bool eval_int(Eval *e, Loc loc, Value v, const char *what,
              int64_t *out); // a known integer, or an error naming `what`
// A size or condition on sizes that must be known: with Instance.guess what it is for the values at
// hand, which is demanded. False, and nothing reported: there is no guess.
bool eval_guess(Eval *e, Loc loc, Value v, int64_t *out);
bool eval_binary(Eval *e, Loc loc, NodeKind op, Value a, Value b, Value *out);
bool eval_unary(Eval *e, Loc loc, NodeKind op, Value a, Value *out);
bool eval_promote(Eval *e, Loc loc, Value a, Value b, Node **x,
                  Node **y); // to a common type and lanes
bool eval_select(Eval *e, Loc loc, Value cond, Value a, Value b, Value *out);
Value eval_pin(Eval *e, const char *name,
               Value v); // an expression is computed here, once; others unchanged
// Operands are computed from left to right: `v`, made when e->out had `mark` statements, is
// computed there if what was emitted since may change what it reads.
Value eval_keep(Eval *e, int mark, Value v);
int eval_mark(const Eval *e);
DType promote_types(DType a, DType b); // DT_NONE: they do not mix

// eval_expr.c
bool eval_step(Eval *e, Loc loc); // another step: false past a limit
bool eval_expr(Eval *e, Node *n, Value *out);
bool eval_small(Eval *e, Loc loc, Value v); // where nothing can be pinned: sharing does not explode
bool eval_scalar(Eval *e, Node *n, Value *out); // like eval_expr; a tensor of rank 0 is read
bool eval_list(Eval *e, Node *const *at, int n,
               Value *out_tuple); // elements and SPREADs; ARGs are refused
bool eval_block(Eval *e, Node *block, Value *out);

// eval_reduce.c
bool eval_reduce(Eval *e, Node *n, Value *out);
bool eval_fold(Eval *e, Node *n, Value *out);
bool eval_scan(Eval *e, Node *n, Value *out); // V_SCAN; nothing is computed yet
// One state of it: computed from the first on, or read where they are kept.
bool scan_state(Eval *e, Loc loc, Scan *s, Value index, Value *out);
// Computes all states into local memory, here, and once; left as it was where they are too many or
// how many is not known. False with diagnostics.
bool scan_keep(Eval *e, Scan *s);
bool scan_kept(const Scan *s);
bool eval_range(Eval *e, Loc loc, Value v, Node **lo, Node **hi); // an extent or a range
bool eval_binders(Eval *e, Node *const *binder, int n, bool (*body)(Eval *, void *), void *user);
Node *eval_loop_open(Eval *e, Loc loc, const char *name, Node *lo, Node *hi, Var **var);

// eval_call.c
bool eval_call(Eval *e, Node *n, Value *out);
bool eval_mapping_function(Eval *e, Node *n, Value *out);
bool eval_call_fn(Eval *e, Loc loc, Node *fn, int n, const Value *args, Value *out);

// eval_tensor.c: loads and stores through hooks.
bool tensor_load(Eval *e, Loc loc, Tensor *t, int n, const Value *index, Value *out);
bool tensor_load_else(Eval *e, Loc loc, Tensor *t, int n, const Value *index, Value other,
                      Value *out);
bool tensor_store(Eval *e, Loc loc, Tensor *t, int n, const Value *index, Value v);
bool tensor_apply(Eval *e, Loc loc, Tensor *t, int n, const Value *index, Value v,
                  const Value *other, Value *out); // t's op applied to v; other: outside of t
Tensor *tensor_leaf(Tensor *t); // the operand that shares t's index map; NULL: none or several
bool tensor_value(Eval *e, Loc loc, Tensor *t, int n, const Value *index, Value v,
                  Value *out); // epilogue applied, first output not stored
bool memory_load(Eval *e, Loc loc, Buffer *b, int n, const Value *index, Value *out);
bool memory_store(Eval *e, Loc loc, Buffer *b, int n, const Value *index, Value v);
bool memory_store_guarded(Eval *e, Loc loc, Buffer *b, int n, const Value *index, Value v,
                          int guard);
bool tensor_check_rank(Eval *e, Loc loc, Sym name, int rank, int n);

// eval_place.c: where elements lie.
// Output k of a result, whose value at that index is v, to where it belongs.
bool output_store(Eval *e, Loc loc, const Epilogue *ep, int k, int n, const Value *index, Value v,
                  int guard);
// Any `bytes` of a row from a multiple of them on lie together in memory, at a multiple of them:
// t is memory, or what moves whole rows of it.
bool tensor_aligned(Eval *e, Tensor *t, int64_t bytes);
bool eval_ref(Eval *e, Node *place, Node **out); // REF for intrinsics

// eval_index.c
bool eval_indices(Eval *e, Node *index, Value base,
                  Value *out_tuple); // the rest of an INDEX node: packs, EXCEPT, AT, ~, spans
bool eval_except(Eval *e, Node *n, Value base,
                 Value *out); // the pack without, or with others in place of, some axes
// Known axes as a set over rank, which holds none at first: negative ones count from the end, none
// is named twice. V_NONE: no axes.
bool eval_axes(Eval *e, Loc loc, Value axes, int rank, bool *set);
bool eval_tuple_index(Eval *e, Loc loc, Value base, Value index,
                      Value *out); // pack[i], pack[(i, j)]; i may be known only at run time
bool pack_within(Eval *e, Loc loc, int n, const Value *index, const Value *dims,
                 Value *out); // 0 <= index < dims, folded where known
bool pack_broadcast(Eval *e, Loc loc, const Value *index, const Value *dims, int n,
                    Value *out); // 0 where an extent is 1
bool values_ravel(Eval *e, Loc loc, int n, const Value *index, const Value *dims, Value *out);
bool values_unravel(Eval *e, Loc loc, Value linear, int n, const Value *dims, Value *out);

// eval_share.c
bool share_find(const Eval *e, const Tensor *t, int n, const Value *index, Value *out);
// The outermost open list where the index is known, but none outside of a condition.
Stmts *share_home(const Eval *e, int n, const Value *index);
bool share_load(Eval *e, Loc loc, Tensor *t, int n, const Value *index,
                bool (*compute)(Eval *, Loc, Tensor *, int, const Value *, Value *), Value *out);

// eval_rows.c: epilogues that need whole rows.
bool rows_find(Eval *e, Loc loc, Tensor *t); // which outputs of result t do
bool rows_compute(Eval *e, Loc loc, Tensor *t, int n, const Value *index); // c.rows(i...)
bool rows_stage(Eval *e, Loc loc,
                Tensor *t); // a stage of their own, where the kernel has no c.rows

// eval_team.c: what is done for each element of a row, by the lanes of a core or of a warp.
bool team_begin(Eval *e, Loc loc); // from here on, in e->out
bool team_at_hand(const Eval *e);  // statements now go where the team does them together
// task: which of the partial results the element goes into; NULL: a variable of the thread.
typedef bool TeamFn(Eval *e, Value index, const Value *task, void *user);
typedef bool TeamMid(Eval *e, void *user);
// For all elements from lo to hi; `body` is emitted once or twice, `middle` (or NULL) when those
// with tasks are done, on a GPU at the end.
bool team_loop(Eval *e, Loc loc, Value lo, Value hi, TeamFn *body, TeamMid *middle, void *user);
int team_width(const Eval *e);                                   // elements at once
Buffer *team_partials(Eval *e, Loc loc, DType type, Node *init); // of a core's lanes
// All partial results as one: of a core's lanes the buffer, of a warp each thread's value.
bool team_fold(Eval *e, Loc loc, const char *how, Value part, Value *out);
bool team_once(Eval *e, Loc loc, bool (*body)(Eval *, void *), void *user); // by one of the team

// eval_stmt.c
bool eval_stmt(Eval *e, Node *n);
bool eval_stmts(Eval *e, Node *seq);
bool eval_loop_body(Eval *e, Loc loc, LoopKind kind, Node *body);
bool eval_require(Eval *e, Node *n);
bool eval_demand(Eval *e, Loc loc, Value cond,
                 const char *text); // holds now, or is checked at launch

// eval_loop.c, eval_memory.c
bool eval_for(Eval *e, Node *n);
bool eval_launch(Eval *e, Node *n);
bool eval_stage(Eval *e, Node *n);
bool eval_memory(Eval *e, Node *n);
// Whether a thread's stack has room for all that it holds at once, and a block's shared memory.
bool memory_fits(Eval *e, const Stage *s);

// eval_bind.c: parameters to arguments.
bool bind_params(Eval *e, Loc loc, const Node *decl, Node *generics, Node *params, int narg,
                 const Value *args);
bool bind_attrs(Eval *e, Loc loc, const Node *decl, Node *attrs, const Map *given);
bool bind_result_type(Eval *e, Node *param, DType *type, int *rank, Value *dims);
// The name in `name <= bound`, an extent that only the run decides; NULL: none.
Sym run_extent(const Node *dim);
// The first n of a result's type, spread; one that only the run decides counts as its bound.
bool result_extents(Eval *e, Node *type, int n, Value *out);
bool bind_index_pattern(Eval *e, Loc loc, Node *const *pattern, int n, int nindex,
                        const Value *index);
bool eval_dtype(Eval *e, Node *n, Value *out);

// The op and attributes behind `prefer layout NAME(args)` of a parameter, evaluated in the current
// scope.
bool eval_preference(Eval *e, Node *param, Preference *out);

// builtins.c
bool builtin_exists(const char *name);
bool builtin_known_math(
    const char *name); // a real function that is computed at once on known arguments
bool builtin_known_math_apply(const char *name, int n, const Value *at,
                              Value *out); // false: not all known
bool builtin_call(Eval *e, Node *call, Sym name, Value *out);
bool builtin_constant(Eval *e, Sym name, Loc loc, Value *out,
                      bool *found); // pi, inf, nan, thread, lane, dtypes...
bool builtin_field(Eval *e, Loc loc, Value base, Sym field, Value *out);

bool builtin_method(Eval *e, Node *call, Value base, Sym field,
                    Value *out); // a.apply(...), c.value(...)

void tensor_describe(const Tensor *t, Buf *out); // f32[3, n]

#endif
