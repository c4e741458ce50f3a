// SPDX-License-Identifier: Apache-2.0
// The intrinsics table and its lookup by name.
#include "ir/kernel.h"

#include <string.h>

const Intrinsic intrinsics[INTR_COUNT] = {
#define INTRINSIC(ID, name, args, type, scope, flags, arch, c, cuda, meaning) \
    {#ID, name, args, type, SCOPE_##scope, flags, arch, c, cuda, meaning},
#include "ir/intrinsics.def"
#undef INTRINSIC
};

// Whether `args` of a row takes n arguments; a trailing * takes any number.
static bool takes(const char *args, int n)
{
    size_t fixed = strcspn(args, "*");
    return args[fixed] ? (size_t)n >= fixed : (size_t)n == fixed;
}

const Intrinsic *intrinsic_find(const char *name, int nargs)
{
    for (int i = 0; i < INTR_COUNT; i++) {
        const Intrinsic *row = &intrinsics[i];
        if (!strcmp(row->name, name) && takes(row->args, nargs)) return row;
    }
    return NULL;
}
