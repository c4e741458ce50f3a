// SPDX-License-Identifier: Apache-2.0
// Inside the printer. A part that should fit its line is printed, looked at, and taken back if it
// does not.
#ifndef HEALD_LANG_PRINT_H
#define HEALD_LANG_PRINT_H

#include "base/vec.h"
#include "lang/lang.h"
#include "lang/syntax.h"

enum { PRINT_WIDTH = 100, PRINT_INDENT = 4 };

typedef struct Printer {
    Buf *out;
    int indent;
} Printer;

// ---- lines and statements (print.c)
void print_text(Printer *p, const char *s);
void print_newline(Printer *p);
void print_stmt(Printer *p, const Node *n);

// ---- expressions and blocks (print_expr.c)
void print_expr(Printer *p, const Node *n, Prec min); // in parentheses if it is looser than min
void print_list(Printer *p, Node *const *kid, int n, Prec min);
void print_children(Printer *p, const Node *n);
void print_range(Printer *p, const Node *n);
void print_type(Printer *p, const Node *n);
void print_block(Printer *p, Node *const *kid, int n);
void print_block_expr(Printer *p, const Node *n);

#endif
