// SPDX-License-Identifier: Apache-2.0
// What the pictures share.
#include "cli/svg.h"

void svg_escaped(Buf *out, const char *text)
{
    for (; *text; text++) {
        switch (*text) {
        case '&': buf_puts(out, "&amp;"); break;
        case '<': buf_puts(out, "&lt;"); break;
        case '>': buf_puts(out, "&gt;"); break;
        case '"': buf_puts(out, "&quot;"); break;
        default: buf_putc(out, (unsigned char)*text < 32 || *text == 127 ? ' ' : *text);
        }
    }
}
