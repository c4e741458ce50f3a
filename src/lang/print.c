// SPDX-License-Identifier: Apache-2.0
// Trees as text, laid out as one would by hand: four spaces, a statement a line, parentheses only
// where needed.
#include "lang/print.h"

#include <string.h>

// ---- lines

void print_text(Printer *p, const char *s)
{
    buf_puts(p->out, s);
}

void print_newline(Printer *p)
{
    buf_putc(p->out, '\n');
    for (int i = 0; i < p->indent; i++) buf_putc(p->out, ' ');
}

static void take_back(Printer *p, size_t size)
{
    p->out->size = size;
    if (p->out->text) p->out->text[size] = '\0';
}

// Whether what follows `from` is in one line that is not too long.
static bool fits(const Printer *p, size_t from)
{
    const Buf *b = p->out;
    if (memchr(b->text + from, '\n', b->size - from)) return false;
    size_t start = from;
    while (start > 0 && b->text[start - 1] != '\n') start--;
    return b->size - start <= PRINT_WIDTH;
}

// ---- statements

static void body(Printer *p, const Node *seq)
{
    buf_putc(p->out, ' ');
    print_block(p, seq->kid, (int)seq->nkid);
}

static void optional(Printer *p, const char *before, const Node *n, const char *after)
{
    if (!n) return;
    print_text(p, before);
    if (n->kind == N_TYPE) print_type(p, n);
    else print_expr(p, n, PREC_ANY);
    print_text(p, after);
}

static void for_loop(Printer *p, const Node *n)
{
    if (n->sub == LOOP_PARALLEL) print_text(p, "parallel ");
    else if (n->sub != LOOP_DEFAULT && n->flags) buf_printf(p->out, "unroll(%d) ", n->flags);
    else if (n->sub != LOOP_DEFAULT) print_text(p, "unroll ");
    print_text(p, "for ");
    print_children(p, n->kid[KID_FOR_vars]);
    print_text(p, " in ");
    print_range(p, n->kid[KID_FOR_range]);
    body(p, n->kid[KID_FOR_body]);
}

static void if_statement(Printer *p, const Node *n)
{
    const Node *other = n->kid[KID_IF_other];
    print_text(p, "if ");
    print_expr(p, n->kid[KID_IF_cond], PREC_LOR);
    body(p, n->kid[KID_IF_then]);
    if (!other) return;
    print_text(p, " else");
    if (other->kind != N_IF) {
        body(p, other);
        return;
    }
    buf_putc(p->out, ' ');
    if_statement(p, other);
}

static void memory(Printer *p, const Node *n)
{
    buf_printf(p->out, "%s %s: ", space_name[n->sub], n->u.sym);
    print_type(p, n->kid[KID_MEMORY_type]);
    optional(p, " layout ", n->kid[KID_MEMORY_layout], "");
    optional(p, " over ", n->kid[KID_MEMORY_over], "");
    optional(p, " align(", n->kid[KID_MEMORY_align], ")");
    optional(p, " alias ", n->kid[KID_MEMORY_alias], "");
    optional(p, " when ", n->kid[KID_MEMORY_when], "");
    optional(p, " = ", n->kid[KID_MEMORY_init], "");
    buf_putc(p->out, ';');
}

static void launch(Printer *p, const Node *n)
{
    static const char *const words[] = {" grid(", " block(", " cluster("};
    bool others = n->kid[KID_LAUNCH_block] || n->kid[KID_LAUNCH_cluster];
    print_text(p, "launch");
    for (int i = 0; i < 3; i++) {
        if (!n->kid[i] || (i == 0 && n->kid[0]->nkid == 0 && others)) continue;
        print_text(p, words[i]);
        print_children(p, n->kid[i]);
        buf_putc(p->out, ')');
    }
}

static void stage(Printer *p, const Node *n)
{
    const Node *seq = n->kid[KID_STAGE_body];
    bool launched = seq->nkid && seq->kid[0]->kind == N_LAUNCH;
    buf_printf(p->out, "stage %s ", n->u.sym);
    if (launched) {
        launch(p, seq->kid[0]);
        buf_putc(p->out, ' ');
    }
    print_block(p, seq->kid + launched, (int)seq->nkid - launched);
}

static void choice(Printer *p, const Node *n)
{
    buf_printf(p->out, "%s: ", n->u.sym);
    for (int i = 0; i < 3 && n->kid[i]; i++) {
        if (i) print_text(p, n->kid[i]->nkid ? " | " : " |");
        print_list(p, n->kid[i]->kid, (int)n->kid[i]->nkid, PREC_BXOR);
    }
    buf_putc(p->out, ';');
}

static void assign(Printer *p, const Node *n)
{
    print_expr(p, n->kid[KID_ASSIGN_place], PREC_ANY);
    buf_printf(p->out, " %s= ", n->sub ? node_info[n->sub].spelling : "");
    optional(p, "", n->kid[KID_ASSIGN_value], ";");
}

static void let(Printer *p, const Node *n)
{
    optional(p, "let ", n->kid[KID_LET_pattern], "");
    optional(p, ": ", n->kid[KID_LET_type], "");
    optional(p, " = ", n->kid[KID_LET_value], ";");
}

static void headed(Printer *p, const char *word, const Node *cond, const Node *seq)
{
    print_text(p, word);
    if (cond) print_expr(p, cond, PREC_LOR);
    body(p, seq);
}

void print_stmt(Printer *p, const Node *n)
{
    switch (n->kind) {
    case N_SEQ: print_block(p, n->kid, (int)n->nkid); break;
    case N_LET: let(p, n); break;
    case N_VAR:
        buf_printf(p->out, "var %s", n->u.sym);
        optional(p, ": ", n->kid[KID_VAR_type], "");
        optional(p, " = ", n->kid[KID_VAR_init], "");
        buf_putc(p->out, ';');
        break;
    case N_ASSIGN: assign(p, n); break;
    case N_FOR: for_loop(p, n); break;
    case N_IF: if_statement(p, n); break;
    case N_WHILE: headed(p, "while ", n->kid[KID_WHILE_cond], n->kid[KID_WHILE_body]); break;
    case N_BREAK: print_text(p, "break;"); break;
    case N_CONTINUE: print_text(p, "continue;"); break;
    case N_RETURN:
        print_text(p, "return");
        optional(p, " ", n->kid[KID_RETURN_value], "");
        buf_putc(p->out, ';');
        break;
    case N_MEMORY: memory(p, n); break;
    case N_LAUNCH:
        launch(p, n);
        buf_putc(p->out, ';');
        break;
    case N_STAGE: stage(p, n); break;
    case N_TUNE:
        print_text(p, "tune ");
        print_block(p, n->kid, (int)n->nkid);
        break;
    case N_CHOICE: choice(p, n); break;
    case N_REQUIRE:
        optional(p, "require ", n->kid[KID_REQUIRE_cond], "");
        optional(p, ", ", n->kid[KID_REQUIRE_message], "");
        buf_putc(p->out, ';');
        break;
    case N_ROLE: headed(p, "role ", n->kid[KID_ROLE_cond], n->kid[KID_ROLE_body]); break;
    case N_ONE: headed(p, "one", NULL, n->kid[KID_ONE_body]); break;
    case N_EVAL:
        print_expr(p, n->kid[KID_EVAL_a],
                   n->kid[KID_EVAL_a]->kind == N_SELECT ? PREC_ELSE : PREC_ANY);
        buf_putc(p->out, ';');
        break;
    default: BUG("no statement of the language: %s", node_info[n->kind].name);
    }
}

// ---- declarations

static void param(Printer *p, const Node *n)
{
    buf_printf(p->out, "%s%s", n->u.sym, n->sub & PARAM_OPTIONAL ? "?" : "");
    if (n->kid[KID_PARAM_type]) print_text(p, n->sub & PARAM_CONST ? ": const " : ": ");
    optional(p, "", n->kid[KID_PARAM_type], "");
    if (n->sub & PARAM_VARIADIC) print_text(p, "...");
    optional(p, " prefer layout ", n->kid[KID_PARAM_prefer], "");
    optional(p, " worth ", n->kid[KID_PARAM_worth], "");
    if (n->kid[KID_PARAM_among]) {
        print_text(p, " in {");
        print_children(p, n->kid[KID_PARAM_among]);
        buf_putc(p->out, '}');
    }
    optional(p, " = ", n->kid[KID_PARAM_default], "");
}

static void params(Printer *p, const Node *list)
{
    for (uint32_t i = 0; i < list->nkid; i++) {
        if (i) print_text(p, ", ");
        param(p, list->kid[i]);
    }
}

static void signature(Printer *p, const Node *ins, const Node *attrs)
{
    buf_putc(p->out, '(');
    params(p, ins);
    if (attrs->nkid) print_text(p, "; ");
    params(p, attrs);
    buf_putc(p->out, ')');
}

static void results(Printer *p, const Node *list)
{
    print_text(p, "-> (");
    params(p, list);
    buf_putc(p->out, ')');
}

static void clause_onnx(Printer *p, const Node *args)
{
    const Node *versions = args->kid[1], *with = args->kid[2];
    buf_printf(p->out, " %s", args->kid[0]->u.sym);
    if (versions->nkid) {
        buf_putc(p->out, '(');
        print_children(p, versions);
        buf_putc(p->out, ')');
    }
    if (!with->nkid) return;
    print_text(p, " with ");
    print_children(p, with);
}

static void clause(Printer *p, const Node *n)
{
    const Node *args = n->kid[KID_CLAUSE_args];
    print_text(p, n->u.sym);
    if (!strcmp(n->u.sym, "onnx")) {
        clause_onnx(p, args);
    } else if (!strcmp(n->u.sym, "alias")) {
        buf_printf(p->out, " %s -> %s", args->kid[0]->u.sym, args->kid[1]->u.sym);
    } else if (!strcmp(n->u.sym, "on") && args->nkid == 2) {
        buf_printf(p->out, " %s(%s)", args->kid[0]->u.sym, args->kid[1]->u.sym);
    } else if (args->nkid) {
        buf_putc(p->out, ' ');
        print_children(p, args);
    }
}

// After a blank, or on a line of its own where this one is full.
static void filled(Printer *p, void (*print)(Printer *p, const Node *n), const Node *n)
{
    size_t before = p->out->size;
    buf_putc(p->out, ' ');
    print(p, n);
    if (fits(p, before)) return;
    take_back(p, before);
    p->indent += 2 * PRINT_INDENT;
    print_newline(p);
    p->indent -= 2 * PRINT_INDENT;
    print(p, n);
}

static void clauses(Printer *p, const Node *list)
{
    for (uint32_t i = 0; i < list->nkid; i++) filled(p, clause, list->kid[i]);
}

static void generics(Printer *p, const Node *list)
{
    for (uint32_t i = 0; i < list->nkid; i++) {
        buf_printf(p->out, "%s%s: ", i ? ", " : "[", list->kid[i]->u.sym);
        const Node *types = list->kid[i]->kid[KID_GENERIC_types];
        for (uint32_t k = 0; k < types->nkid; k++) {
            if (k) print_text(p, " | ");
            print_type(p, types->kid[k]);
        }
    }
    if (list->nkid) buf_putc(p->out, ']');
}

// A single assignment stays on the line of the signature if it fits.
static void op_body(Printer *p, const Node *seq)
{
    size_t before = p->out->size;
    if (seq->nkid == 1 && seq->kid[0]->kind == N_ASSIGN) {
        print_text(p, " { ");
        print_stmt(p, seq->kid[0]);
        print_text(p, " }");
        if (fits(p, before)) return;
        take_back(p, before);
    }
    body(p, seq);
}

static void op(Printer *p, const Node *n)
{
    buf_printf(p->out, "op %s", n->u.sym);
    signature(p, n->kid[KID_OP_params], n->kid[KID_OP_attrs]);
    filled(p, results, n->kid[KID_OP_results]);
    clauses(p, n->kid[KID_OP_clauses]);
    op_body(p, n->kid[KID_OP_body]);
}

static void kernel(Printer *p, const Node *n)
{
    buf_printf(p->out, "kernel %s", n->u.sym);
    generics(p, n->kid[KID_KERNEL_generics]);
    signature(p, n->kid[KID_KERNEL_params], n->kid[KID_KERNEL_attrs]);
    filled(p, results, n->kid[KID_KERNEL_results]);
    clauses(p, n->kid[KID_KERNEL_clauses]);
    body(p, n->kid[KID_KERNEL_body]);
}

static void fn(Printer *p, const Node *n)
{
    const Node *block = n->kid[KID_FN_body], *value = block->kid[KID_BLOCK_value];
    buf_printf(p->out, "fn %s", n->u.sym);
    generics(p, n->kid[KID_FN_generics]);
    buf_putc(p->out, '(');
    params(p, n->kid[KID_FN_params]);
    buf_putc(p->out, ')');
    optional(p, " -> ", n->kid[KID_FN_result], "");
    if (value && block->nkid == 1) {
        optional(p, " = ", value, ";");
    } else {
        buf_putc(p->out, ' ');
        print_block_expr(p, block);
    }
}

static void rule_parts(Printer *p, const Node *n, bool one_line)
{
    const Node *lets = n->kid[KID_RULE_lets];
    print_expr(p, n->kid[KID_RULE_pattern], PREC_ANY);
    optional(p, " when ", n->kid[KID_RULE_when], "");
    if (one_line) buf_putc(p->out, ' ');
    else print_newline(p);
    print_text(p, "=>");
    for (uint32_t i = 0; i < lets->nkid; i++) {
        buf_putc(p->out, ' ');
        print_stmt(p, lets->kid[i]);
    }
    buf_putc(p->out, ' ');
    print_expr(p, n->kid[KID_RULE_result], PREC_ANY);
}

static void rule(Printer *p, const Node *n)
{
    buf_printf(p->out, "rule %s {", n->u.sym);
    size_t before = p->out->size;
    buf_putc(p->out, ' ');
    rule_parts(p, n, true);
    print_text(p, " }");
    if (fits(p, before)) return;
    take_back(p, before);
    p->indent += PRINT_INDENT;
    print_newline(p);
    rule_parts(p, n, false);
    p->indent -= PRINT_INDENT;
    print_newline(p);
    buf_putc(p->out, '}');
}

static void graph(Printer *p, const Node *n)
{
    buf_printf(p->out, "graph %s(", n->u.sym);
    params(p, n->kid[KID_GRAPH_params]);
    buf_putc(p->out, ')');
    filled(p, results, n->kid[KID_GRAPH_results]);
    body(p, n->kid[KID_GRAPH_body]);
}

static void constant(Printer *p, const Node *n)
{
    buf_printf(p->out, "let %s", n->u.sym);
    optional(p, " = ", n->kid[KID_CONSTANT_value], ";");
}

static void declaration(Printer *p, const Node *n)
{
    switch (n->kind) {
    case N_OP: op(p, n); break;
    case N_KERNEL: kernel(p, n); break;
    case N_FN: fn(p, n); break;
    case N_RULE: rule(p, n); break;
    case N_GRAPH: graph(p, n); break;
    case N_CONSTANT: constant(p, n); break;
    default: BUG("no declaration: %s", node_info[n->kind].name);
    }
    buf_putc(p->out, '\n');
}

// Declarations with a blank line between them, but constants in a row together.
static void file(Printer *p, const Node *n)
{
    for (uint32_t i = 0; i < n->nkid; i++) {
        bool row = i && n->kid[i]->kind == N_CONSTANT && n->kid[i - 1]->kind == N_CONSTANT;
        if (i && !row) buf_putc(p->out, '\n');
        declaration(p, n->kid[i]);
    }
}

void lang_print(const Node *n, Buf *out)
{
    Printer p = {out, 0};
    NodeClass class = node_info[n->kind].class;
    if (n->kind == N_FILE) {
        file(&p, n);
    } else if (n->kind == N_CLAUSE) {
        clause(&p, n);
    } else if (n->kind == N_PARAM) {
        param(&p, n);
    } else if (class == CLASS_D) {
        declaration(&p, n);
    } else if (class == CLASS_S || n->kind == N_CHOICE) {
        print_stmt(&p, n);
        buf_putc(out, '\n');
    } else {
        print_expr(&p, n, PREC_ANY);
    }
}
