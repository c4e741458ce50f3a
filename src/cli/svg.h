// SPDX-License-Identifier: Apache-2.0
// What the pictures share.
#ifndef HEALD_CLI_SVG_H
#define HEALD_CLI_SVG_H

#include "base/vec.h"

// Text with the characters that XML reserves written as entities, control characters as spaces.
void svg_escaped(Buf *out, const char *text);

#endif
