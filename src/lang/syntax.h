// SPDX-License-Identifier: Apache-2.0
// What the parser and the printer must agree on: precedences, the words of reductions, numbers as
// text.
#ifndef HEALD_LANG_SYNTAX_H
#define HEALD_LANG_SYNTAX_H

#include "ir/node.h"

// From loose to tight.
typedef enum Prec {
    PREC_ANY, // also: if, mapping(...) w => ...
    PREC_ELSE,
    PREC_LOR,
    PREC_LAND,
    PREC_BOR,
    PREC_BXOR,
    PREC_BAND,
    PREC_EQUAL,
    PREC_LESS,
    PREC_SHIFT,
    PREC_ADD,
    PREC_REDUCE, // sum(...) a * b: the body takes products, not sums
    PREC_MUL,
    PREC_UNARY,
    PREC_POW,
    PREC_POSTFIX,
    PREC_PRIMARY
} Prec;

enum { FLOAT_TEXT_MAX = 512 };

bool is_reduction(const char *text, size_t size); // sum, prod, max, min, any, all

// Decimal text, whatever the locale. text_to_double: false if too large. double_to_text: the
// shortest form that reads back as v, which is finite; at least 32 bytes.
bool text_to_double(const char *text, double *v);
void double_to_text(double v, char *out, size_t size);

#endif
