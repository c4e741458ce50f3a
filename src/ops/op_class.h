// SPDX-License-Identifier: Apache-2.0
// What an op's body tells about fusing it.
#ifndef HEALD_OPS_OP_CLASS_H
#define HEALD_OPS_OP_CLASS_H

#include "ops/ops.h"

void op_classify(Arena *a, const Node *decl, OpInfo *info); // fills *info

#endif
