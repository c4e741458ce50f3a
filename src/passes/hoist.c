// SPDX-License-Identifier: Apache-2.0
// Names for what is computed more than once, placed where it changes least.
#include "passes/pass.h"

bool pass_hoist(PassContext *c)
{
    UNUSED(c);
    return true;
}
