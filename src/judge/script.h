// SPDX-License-Identifier: Apache-2.0
// One kernel of a script made concrete: extents for the names in its signature, element types,
// attributes and choices, so that it can be instantiated on its own.
#ifndef HEALD_JUDGE_SCRIPT_H
#define HEALD_JUDGE_SCRIPT_H

#include "lang/instantiate.h"

enum { SCRIPT_MAX_RANK = 16, SCRIPT_EXTENT_LOG2 = 31 }; // extents are below 2^31

// What names without a given extent get.
typedef struct ScriptExtents {
    int n;
    int64_t extent[4]; // dimensions take them in turn, in order of appearance; packs, by axis
    int rank_alone;    // of a pack that is all of a tensor's shape
    int rank_beside;   // of one with other dimensions beside it
} ScriptExtents;

typedef struct ScriptOptions {
    Map shape;       // Sym -> Value *: V_INT, or a V_TUPLE of them for a pack
    Map open;        // Sym -> anything: dimensions that stay dynamic
    Map types;       // Sym -> Value *: V_DTYPE
    Map attrs;       // Sym -> Value *
    Choices choices; // tune entries that are not at their default
    ScriptExtents extents;
    bool omit_optional; // leave optional parameters out
    int result;         // of an op that stands for a kernel: which
    bool plain;         // do not give parameters in the layout that the kernel prefers
} ScriptOptions;

// Fill options from text. NULL, or what is wrong with it, in `a`.
const char *script_parse_shape(ScriptOptions *o, Arena *a, Interner *names, const char *text);
const char *script_parse_open(ScriptOptions *o, Arena *a, Interner *names, const char *text);
const char *script_parse_types(ScriptOptions *o, Arena *a, Interner *names, const char *text);

typedef struct ScriptParam {
    Sym name;
    DType type;
    int rank;
    int64_t dims[SCRIPT_MAX_RANK];
    bool output;
    const Preference *pack; // a parameter in its preferred layout: how it is made,
    int packed_from;        // and from which
} ScriptParam;

typedef struct ScriptKernel {
    const Node *decl;
    const Node *op;     // the first op it implements, or NULL
    Kernel *kernel;     // as instantiated
    Choices choices;    // all tune entries
    int nparam, ninput; // inputs of the signature come first, then packed ones, then outputs
    ScriptParam *param; // (nparam) as kernel->params
    int narg;
    int *arg;      // (narg) parameter of each argument, -1: left out, -2: a variadic one, from
                   // the next parameter on to the last input
    int64_t *dims; // (kernel->dims.n) extents of the dynamic dimensions
    const char *extents; // "m = 17, n = 19"
} ScriptKernel;

// decl may be an op that is not serial: one of its results through the template `copy`, as the
// kernel of the name of the op. NULL with diagnostics. Everything lies in `a`.
ScriptKernel *script_instantiate(Arena *a, const Library *l, const Target *host, const Node *decl,
                                 const ScriptOptions *o, Diag *d);

// What makes parameter `param`, which has `pack`: a kernel from the one to the other.
Kernel *script_packing(const ScriptKernel *k, int param, Arena *a, const Library *l,
                       const Target *host, Diag *d);

// What the kernel's op computes, as kernels through the template `copy`, or by itself where it is
// serial: one for each result. as_f64: with every f32, f16 and bf16 parameter in float64.
// Parameters are those of the script's inputs, then the result. NULL with diagnostics.
Kernel *script_meaning(const ScriptKernel *s, Arena *a, const Library *l, const Target *host,
                       const ScriptOptions *o, int result, bool as_f64, Diag *d);

#endif
