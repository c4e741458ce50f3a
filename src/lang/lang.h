// SPDX-License-Identifier: Apache-2.0
// The language: text to declarations, and declarations to kernel IR.
#ifndef HEALD_LANG_LANG_H
#define HEALD_LANG_LANG_H

#include "ir/kernel.h"

// Parses one source into a FILE node. NULL if and only if an error was reported.
//
// What nodes.def leaves open:
// - true and false are INT of type DT_BOOL; other numbers have no type.
// - An argument without a name after ";" is an ARG whose name is "", so is `...a`: ARG("",
//   SPREAD(NAME a)). `b?` among arguments is a PARAM with PARAM_OPTIONAL and no children.
// - `unroll for` has LOOP_UNROLL in sub; flags is the n of `unroll(n)`, 0 without.
// - `scan` is FOLD with FOLD_STATES in sub.
// - `mbarrier[s](n)` is TYPE(CALL(NAME mbarrier, n), s); `[static d]` is CALL(NAME static, NAME d).
// - `s[..a] with t...` in a type is SPREAD(INDEX(s, EXCEPT(a, SPREAD(t)))), as `s[..a with
//   t...]...` is.
// - A lone `...` among indices is SPREAD(TUPLE()): the axes that are left.
// - CLAUSE onnx has (STRING name, TUPLE versions, TUPLE names after "with"); class (NAME); alias
//   (NAME, NAME); implements NAMEs; on (NAME target, NAME architecture or nothing). In a rule or
//   op, an `if` whose arms have values is SELECT, any other IF.
Node *parse_file(Arena *a, Interner *names, const Source *source, Diag *d);
// One expression, for options and `heald map`; the source must hold nothing else.
Node *parse_expression(Arena *a, Interner *names, const Source *source, Diag *d);
// Text of a tree of form T; parsing it gives an equal tree.
void lang_print(const Node *n, Buf *out);

// All declarations by name, from several files; a later file may replace a declaration of an
// earlier one (HEALD_PATH), twice in one file is an error.
typedef struct Library {
    Arena *arena;
    Interner *names;
    Sources *sources;
    Map ops, fns, constants; // Sym -> declaration Node
    Map kernels;             // Sym -> declaration Node
    // op Sym -> VEC of KERNEL declarations (KernelList *), in order of declaration
    Map implementers;
    VEC(Node *) rules;
    Map graphs;
} Library;
typedef VEC(Node *) KernelList;

void library_init(Library *l, Arena *a, Interner *names, Sources *sources);
bool library_add(Library *l, Node *file, Diag *d);
// Once all texts are there: whether the patterns of the rules are made of ops.
bool library_check(const Library *l, Diag *d);

#endif
