// SPDX-License-Identifier: Apache-2.0
// Expressions, types and blocks as text, with as few parentheses as the grammar allows.
#include "lang/print.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

// ---- tables

static const struct {
    uint16_t kind;
    Prec prec;
} precedences[] = {
#define BINARY(TOKEN, KIND, prec) {N_##KIND, prec},
#define COMPOUND(TOKEN, KIND)
#include "lang/operators.def"
#undef BINARY
#undef COMPOUND
    {N_NEG, PREC_UNARY},     {N_NOT, PREC_UNARY},     {N_BNOT, PREC_UNARY},
    {N_POW, PREC_POW},       {N_CALL, PREC_POSTFIX},  {N_INDEX, PREC_POSTFIX},
    {N_FIELD, PREC_POSTFIX}, {N_REDUCE, PREC_REDUCE}, {N_ELSE, PREC_ELSE},
    {N_SELECT, PREC_ANY},    {N_MAPFN, PREC_ANY},
};

static Prec prec_of(const Node *n)
{
    for (size_t i = 0; i < COUNT(precedences); i++)
        if (precedences[i].kind == n->kind) return precedences[i].prec;
    bool minus = (n->kind == N_INT && n->u.i < 0) || (n->kind == N_FLOAT && signbit(n->u.f));
    return minus ? PREC_UNARY : PREC_PRIMARY;
}

// ---- expressions

void print_list(Printer *p, Node *const *kid, int n, Prec min)
{
    for (int i = 0; i < n; i++) {
        if (i) print_text(p, ", ");
        print_expr(p, kid[i], min);
    }
}

void print_children(Printer *p, const Node *n)
{
    print_list(p, n->kid, (int)n->nkid, PREC_ANY);
}

static void string(Printer *p, const char *s)
{
    buf_putc(p->out, '"');
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '\n') print_text(p, "\\n");
        else if (c == '\t') print_text(p, "\\t");
        else if (c == '"' || c == '\\') buf_printf(p->out, "\\%c", c);
        else if (c < ' ' || c == 0x7F) buf_printf(p->out, "\\x%02x", c);
        else buf_putc(p->out, (char)c);
    }
    buf_putc(p->out, '"');
}

static void integer(Printer *p, const Node *n)
{
    uint64_t v = (uint64_t)n->u.i;
    if (n->type == DT_BOOL) {
        print_text(p, v ? "true" : "false");
    } else if (n->flags == 16 && n->u.i >= 0) {
        buf_printf(p->out, "0x%" PRIx64, v);
    } else if (n->flags == 2 && n->u.i >= 0) {
        int top = 63;
        while (top > 0 && !(v >> top & 1)) top--;
        print_text(p, "0b");
        for (; top >= 0; top--) buf_putc(p->out, v >> top & 1 ? '1' : '0');
    } else {
        buf_printf(p->out, "%" PRId64, n->u.i);
    }
}

static void spread(Printer *p, const Node *n, Prec min)
{
    const Node *pack = n->kid[KID_SPREAD_pack];
    if (pack->kind != N_TUPLE || pack->nkid) print_expr(p, pack, min);
    print_text(p, pack->kind != N_TUPLE && prec_of(pack) < PREC_UNARY ? " ..." : "...");
}

void print_range(Printer *p, const Node *n)
{
    if (n->kind == N_SPREAD) {
        spread(p, n, PREC_LOR);
    } else if (n->kind != N_RANGE) {
        print_expr(p, n, PREC_LOR);
    } else {
        print_expr(p, n->kid[KID_RANGE_lo], PREC_LOR);
        print_text(p, " .. ");
        print_expr(p, n->kid[KID_RANGE_hi], PREC_LOR);
        if (!n->kid[KID_RANGE_step]) return;
        print_text(p, " step ");
        print_expr(p, n->kid[KID_RANGE_step], PREC_LOR);
    }
}

static void binders(Printer *p, const Node *n)
{
    const int nfixed = node_info[n->kind].nfixed;
    for (uint32_t i = (uint32_t)nfixed; i < n->nkid; i++) {
        if ((int)i > nfixed) print_text(p, ", ");
        print_children(p, n->kid[i]->kid[KID_BINDER_names]);
        print_text(p, " in ");
        print_range(p, n->kid[i]->kid[KID_BINDER_range]);
    }
}

static void arg(Printer *p, const Node *n)
{
    const Node *value = n->kid[KID_ARG_value];
    if (n->u.sym[0]) {
        buf_printf(p->out, "%s = ", n->u.sym);
        print_expr(p, value, PREC_ANY);
    } else if (value->kind == N_SPREAD && value->kid[0]->kind == N_NAME) {
        buf_printf(p->out, "...%s", value->kid[0]->u.sym);
    } else {
        print_expr(p, value, PREC_ANY);
    }
}

// Positional arguments come first; ";" stands before the others, unless they are all and the first
// has a name.
static void args(Printer *p, const Node *n)
{
    buf_putc(p->out, '(');
    bool named = false;
    for (uint32_t i = 1; i < n->nkid; i++) {
        const Node *a = n->kid[i];
        bool first_named = a->kind == N_ARG && !named;
        named |= first_named;
        if (first_named && (i > 1 || !a->u.sym[0])) print_text(p, i > 1 ? "; " : ";");
        else if (i > 1) print_text(p, ", ");
        if (first_named && i == 1 && !a->u.sym[0]) buf_putc(p->out, ' ');
        if (a->kind == N_ARG) arg(p, a);
        else print_expr(p, a, PREC_ANY);
    }
    buf_putc(p->out, ')');
}

static void postfix_base(Printer *p, const Node *base, bool before_dot)
{
    bool number = base->kind == N_INT || base->kind == N_FLOAT;
    if (number && before_dot) buf_putc(p->out, '(');
    print_expr(p, base, PREC_POSTFIX);
    if (number && before_dot) buf_putc(p->out, ')');
}

static void except(Printer *p, const Node *n)
{
    print_text(p, "..");
    print_expr(p, n->kid[KID_EXCEPT_axis], PREC_LOR);
    if (!n->kid[KID_EXCEPT_with]) return;
    print_text(p, " with ");
    print_expr(p, n->kid[KID_EXCEPT_with], PREC_ANY);
}

static void at(Printer *p, const Node *n)
{
    print_expr(p, n->kid[KID_AT_pack], PREC_LOR);
    print_text(p, " @ ");
    print_expr(p, n->kid[KID_AT_axis], PREC_LOR);
    print_text(p, ": ");
    print_expr(p, n->kid[KID_AT_value], PREC_ANY);
}

static void tuple(Printer *p, const Node *n)
{
    buf_putc(p->out, '(');
    print_children(p, n);
    print_text(p, n->nkid == 1 ? ",)" : ")");
}

// An arm that is nothing but another `if` follows `else` without braces.
static void select_(Printer *p, const Node *n)
{
    const Node *b = n->kid[KID_SELECT_b],
               *value = b->kind == N_BLOCK ? b->kid[KID_BLOCK_value] : NULL;
    print_text(p, "if ");
    print_expr(p, n->kid[KID_SELECT_cond], PREC_LOR);
    buf_putc(p->out, ' ');
    print_block_expr(p, n->kid[KID_SELECT_a]);
    print_text(p, " else ");
    if (b->nkid == 1 && value && value->kind == N_SELECT) select_(p, value);
    else print_block_expr(p, b);
}

static void dtype(Printer *p, const Node *n)
{
    if (n->kind == N_CALL) {
        dtype(p, n->kid[KID_CALL_callee]);
        args(p, n);
    } else if (n->kind == N_FIELD) {
        dtype(p, n->kid[KID_FIELD_base]);
        buf_printf(p->out, ".%s", n->u.sym);
    } else {
        print_expr(p, n, PREC_POSTFIX);
    }
}

static void dim(Printer *p, const Node *n)
{
    const Node *callee = n->kind == N_CALL && n->nkid == 2 ? n->kid[KID_CALL_callee] : NULL;
    bool is_static = callee && callee->kind == N_NAME && !strcmp(callee->u.sym, "static");
    if (is_static && n->kid[1]->kind == N_NAME) buf_printf(p->out, "static %s", n->kid[1]->u.sym);
    else print_expr(p, n, PREC_ANY);
}

// The count of an mbarrier is written after the dimensions.
void print_type(Printer *p, const Node *n)
{
    const Node *element = n->kid[KID_TYPE_dtype], *count = NULL;
    if (element->kind == N_CALL && element->kid[0]->kind == N_NAME &&
        !strcmp(element->kid[0]->u.sym, "mbarrier") && n->sub != TYPE_SCALAR)
        count = element;
    dtype(p, count ? element->kid[0] : element);
    if (n->sub != TYPE_SCALAR) {
        print_text(p, n->sub == TYPE_TENSORS ? "[[" : "[");
        for (uint32_t i = 1; i < n->nkid; i++) {
            if (i > 1) print_text(p, ", ");
            dim(p, n->kid[i]);
        }
        print_text(p, n->sub == TYPE_TENSORS ? "]]" : "]");
    }
    if (count) args(p, count);
}

static void binary(Printer *p, const Node *n)
{
    Prec prec = prec_of(n);
    print_expr(p, n->kid[0], prec);
    buf_printf(p->out, " %s ", node_info[n->kind].spelling);
    print_expr(p, n->kid[1], prec + 1);
}

static void reduction(Printer *p, const Node *n)
{
    buf_printf(p->out, "%s(", n->u.sym);
    binders(p, n);
    print_text(p, ") ");
    print_expr(p, n->kid[KID_REDUCE_body], PREC_REDUCE);
}

static void fold(Printer *p, const Node *n)
{
    print_text(p, n->sub == FOLD_STATES ? "scan(" : "fold(");
    binders(p, n);
    buf_printf(p->out, "; %s = ", n->u.sym);
    print_expr(p, n->kid[KID_FOLD_init], PREC_ANY);
    print_text(p, ") ");
    print_block_expr(p, n->kid[KID_FOLD_body]);
}

static void mapping(Printer *p, const Node *n)
{
    print_text(p, "mapping(workers: ");
    print_expr(p, n->kid[KID_MAPFN_workers], PREC_ANY);
    print_text(p, "; shape: ");
    print_expr(p, n->kid[KID_MAPFN_shape], PREC_ANY);
    buf_printf(p->out, ") %s => ", n->u.sym);
    print_expr(p, n->kid[KID_MAPFN_body], PREC_ANY);
}

static void bare_expr(Printer *p, const Node *n)
{
    char number[32];
    switch (n->kind) {
    case N_INT: integer(p, n); break;
    case N_FLOAT:
        double_to_text(n->u.f, number, sizeof number);
        print_text(p, number);
        break;
    case N_STRING: string(p, n->u.sym); break;
    case N_NAME: print_text(p, n->u.sym); break;
    case N_PARAM: buf_printf(p->out, "%s?", n->u.sym); break;
    case N_TUPLE: tuple(p, n); break;
    case N_SPREAD: spread(p, n, PREC_ANY); break;
    case N_NEG:
    case N_NOT:
    case N_BNOT:
        print_text(p, node_info[n->kind].spelling);
        print_expr(p, n->kid[0], PREC_UNARY);
        break;
    case N_POW:
        print_expr(p, n->kid[0], PREC_POSTFIX);
        print_text(p, " ** ");
        print_expr(p, n->kid[1], PREC_UNARY);
        break;
    case N_ELSE:
        print_expr(p, n->kid[KID_ELSE_a], PREC_LOR);
        print_text(p, " else ");
        print_expr(p, n->kid[KID_ELSE_b], PREC_ELSE);
        break;
    case N_CALL:
        postfix_base(p, n->kid[KID_CALL_callee], false);
        args(p, n);
        break;
    case N_INDEX:
        postfix_base(p, n->kid[KID_INDEX_base], false);
        buf_putc(p->out, '[');
        print_list(p, n->kid + 1, (int)n->nkid - 1, PREC_ANY);
        buf_putc(p->out, ']');
        break;
    case N_FIELD:
        postfix_base(p, n->kid[KID_FIELD_base], true);
        buf_printf(p->out, ".%s", n->u.sym);
        break;
    case N_SPAN:
        print_expr(p, n->kid[KID_SPAN_lo], PREC_LOR);
        print_text(p, " :+ ");
        print_expr(p, n->kid[KID_SPAN_len], PREC_LOR);
        break;
    case N_RANGE: print_range(p, n); break;
    case N_EXCEPT: except(p, n); break;
    case N_AT: at(p, n); break;
    case N_SELECT: select_(p, n); break;
    case N_REDUCE: reduction(p, n); break;
    case N_FOLD: fold(p, n); break;
    case N_MAPFN: mapping(p, n); break;
    case N_BLOCK: print_block_expr(p, n); break;
    case N_TYPE: print_type(p, n); break;
    case N_ARG: arg(p, n); break;
    default: binary(p, n); break;
    }
}

void print_expr(Printer *p, const Node *n, Prec min)
{
    bool parens = prec_of(n) < min;
    if (parens) buf_putc(p->out, '(');
    bare_expr(p, n);
    if (parens) buf_putc(p->out, ')');
}

// ---- blocks

static void lines(Printer *p, Node *const *kid, int n, const Node *value)
{
    p->indent += PRINT_INDENT;
    for (int i = 0; i < n; i++) {
        print_newline(p);
        print_stmt(p, kid[i]);
    }
    if (value) {
        print_newline(p);
        print_expr(p, value, PREC_ANY);
    }
    p->indent -= PRINT_INDENT;
    print_newline(p);
}

void print_block_expr(Printer *p, const Node *n)
{
    const Node *value = n->kid[KID_BLOCK_value];
    buf_putc(p->out, '{');
    if (n->nkid > 1) {
        lines(p, n->kid + 1, (int)n->nkid - 1, value);
    } else if (value) {
        buf_putc(p->out, ' ');
        print_expr(p, value, PREC_ANY);
        buf_putc(p->out, ' ');
    }
    buf_putc(p->out, '}');
}

void print_block(Printer *p, Node *const *kid, int n)
{
    buf_putc(p->out, '{');
    if (n) lines(p, kid, n, NULL);
    buf_putc(p->out, '}');
}
