// SPDX-License-Identifier: Apache-2.0
// What the files of builtin functions share: their arguments and the functions themselves, one a
// row of builtins.def.
#ifndef HEALD_LANG_BUILTINS_H
#define HEALD_LANG_BUILTINS_H

#include "lang/eval.h"

typedef struct Args {
    Loc loc;
    Sym name; // of the function
    Node *call;
    int n; // positional, spread; what follows ';' unnamed too
    Value *at;
    int after; // positions from here on came after ';'
    int nnamed;
    Sym *key;
    Value *value;
    bool *taken; // (nnamed) by args_named
} Args;

typedef bool BuiltinFn(Eval *e, const Args *a, Value *out);

#define BUILTIN(name, least, most, meaning) BuiltinFn f_##name;
#include "lang/builtins.def"
#undef BUILTIN

const Value *args_named(const Args *a, const char *key); // NULL: not given
bool args_pack(Eval *e, const Args *a, int i,
               Value *out); // argument i as a pack; a tensor gives its extents
bool args_dtype(Eval *e, const Args *a, int i, DType *t);
bool call_intrinsic(Eval *e, const Args *a, Value *out);

#endif
