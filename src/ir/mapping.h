// SPDX-License-Identifier: Apache-2.0
// Task mappings: who does what. A mapping f over a shape d with n workers gives each worker w in
// [0, n) an ordered list of tasks (tuples inside d). Laws, tested exhaustively on small shapes:
//   strides from ranks: s_i = product of d_j over ranks r_j > r_i (a larger rank varies faster;
//     default 0, 1, ..., row-major)
//   spatial(d): n = product(d); f(w) = [ ((w / s_i) mod d_i)_i ]
//   repeat(d):  n = 1;          f(0) = all tuples, ascending by sum t_i s_i
//   f * g:      n = n_f n_g; d = d_f d_g; f(w / n_g) outer, g(w mod n_g) inner, tasks t_f * d_g +
//     t_g; associative
//   project:    the same workers; named dimensions have shape 1 and index 0
//   custom:     a function of the worker, given by the language; here an opaque node with its
//     shape, workers and tasks a worker
// A worker outside [0, n) does nothing.
#ifndef HEALD_IR_MAPPING_H
#define HEALD_IR_MAPPING_H

#include "base/vec.h"

enum { MAPPING_MAX_RANK = 8, MAPPING_MAX_PARTS = 64 };

typedef enum MappingKind {
    MAP_SPATIAL,
    MAP_REPEAT,
    MAP_COMPOSE,
    MAP_PROJECT,
    MAP_CUSTOM
} MappingKind;

// Loop attribute of one repeat dimension.
typedef enum LoopAttr {
    LOOP_DEFAULT,
    LOOP_PLAIN,
    LOOP_UNROLL,
    LOOP_UNROLL_FULL,
    LOOP_PARALLEL
} LoopAttr;

struct Node;

typedef struct Mapping {
    MappingKind kind;
    int rank;
    int64_t shape[MAPPING_MAX_RANK];
    int64_t nworker;
    int64_t ntask;                       // tasks of each worker
    int order[MAPPING_MAX_RANK];         // ranks, for spatial and repeat
    LoopAttr attr[MAPPING_MAX_RANK];     // for repeat
    bool fixed[MAPPING_MAX_RANK];        // for project: dimensions pinned to 0
    const struct Mapping *outer, *inner; // compose: both; project: outer is the base
    struct Node *function;               // custom: tuple of index expressions
    struct Node *worker_var;             // custom: the N_VAR the expressions use
    int nparts;                          // nodes of this tree, at most MAPPING_MAX_PARTS
    // immutable, in an arena; compositions lean left, so (f * g) * h and f * (g * h) are equal
} Mapping;

// Each returns NULL with *why set to a message when the request makes no sense: rank outside 1..8,
// extent < 1, ranks no permutation, unequal ranks in a composition, sizes that overflow, more parts
// than MAPPING_MAX_PARTS. An attribute LOOP_DEFAULT becomes LOOP_UNROLL_FULL below 4 and LOOP_PLAIN
// otherwise.
const Mapping *mapping_spatial(Arena *a, int rank, const int64_t *shape, const int *order,
                               const char **why); // order NULL: row-major
const Mapping *mapping_repeat(Arena *a, int rank, const int64_t *shape, const int *order,
                              const LoopAttr *attr, const char **why);
const Mapping *mapping_compose(Arena *a, const Mapping *outer, const Mapping *inner,
                               const char **why);
const Mapping *mapping_project(Arena *a, const Mapping *m, const bool *fixed, const char **why);
const Mapping *mapping_custom(Arena *a, int rank, const int64_t *shape, int64_t nworker,
                              struct Node *worker_var, struct Node *function, const char **why);
const Mapping *mapping_auto(Arena *a, int rank, const int64_t *shape, int64_t nworker,
                            const int *order, const char **why);
// The mapping may use fewer workers than given: *used of them.
const Mapping *mapping_auto_predicated(Arena *a, int rank, const int64_t *shape, int64_t nworker,
                                       const int *order, int64_t *used, const char **why);

// Task `task` (0 .. ntask) of worker w, which must be in [0, nworker), into index[rank]. Custom
// mappings: false (ask the interpreter).
bool mapping_task(const Mapping *m, int64_t w, int64_t task, int64_t *index);
// The same, with `custom` asked for the one task of each custom part (worker in range); false if it
// says so.
typedef bool MappingCustomFn(void *user, const Mapping *custom, int64_t w, int64_t *index);
bool mapping_task_with(const Mapping *m, int64_t w, int64_t task, int64_t *index,
                       MappingCustomFn *custom, void *user);
bool mapping_equal(const Mapping *a, const Mapping *b);
void mapping_print(const Mapping *m,
                   Buf *out); // "spatial(4, 2) * repeat(2, 2)", as the language reads it

#endif
