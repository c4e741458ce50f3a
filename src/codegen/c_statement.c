// SPDX-License-Identifier: Apache-2.0
// Statements as C, one line each, with the places of the script if asked for.
#include "codegen/emit.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

// Names keep what is legal in C of the script's name; the id makes them unique.
static void emit_name(Emit *e, const char *name, int id)
{
    for (const char *s = name ? name : ""; *s; s++)
        buf_putc(e->out, isalnum((unsigned char)*s) ? *s : '_');
    buf_printf(e->out, "_%d", id);
}

void emit_var_name(Emit *e, const Var *v)
{
    emit_name(e, v->name && isalpha((unsigned char)v->name[0]) ? v->name : "v", v->id);
}

void emit_buffer_name(Emit *e, const Buffer *b)
{
    emit_name(e, b->name && isalpha((unsigned char)b->name[0]) ? b->name : "b", b->id);
}

static void line_directive(Emit *e, Loc loc)
{
    if (!e->lines || !loc || loc == e->last_line) return;
    Place p = sources_place(e->lines, loc);
    e->last_line = loc;
    if (p.source) buf_printf(e->out, "#line %d \"%s\"\n", p.line, p.source->name);
}

void emit_start(Emit *e, const Node *n)
{
    line_directive(e, n->loc);
    buf_printf(e->out, "%*s", 4 * e->indent, "");
}

void emit_block(Emit *e, const Node *n)
{
    buf_puts(e->out, "{\n");
    e->indent++;
    if (n->kind == N_SEQ) {
        for (uint32_t i = 0; i < n->nkid; i++) emit_statement(e, n->kid[i]);
    } else {
        emit_statement(e, n);
    }
    e->indent--;
    buf_printf(e->out, "%*s}", 4 * e->indent, "");
}

static void emit_define(Emit *e, const Node *n)
{
    emit_start(e, n);
    if (n->kind == N_DEFINE) buf_puts(e->out, "const ");
    buf_puts(e->out, emit_var_type(e, n->u.var));
    buf_putc(e->out, ' ');
    emit_var_name(e, n->u.var);
    if (n->kid[0]) {
        buf_puts(e->out, " = ");
        emit_value(e, n->kid[0]);
    }
    buf_puts(e->out, ";\n");
}

static void emit_set(Emit *e, const Node *n)
{
    emit_start(e, n);
    emit_var_name(e, n->u.var);
    buf_puts(e->out, " = ");
    emit_value(e, n->kid[0]);
    buf_puts(e->out, ";\n");
}

static void encoded(Emit *e, DType t, const Node *value)
{
    if (emit_is_half(t)) {
        buf_printf(e->out, "%s(", emit_helper(e, "store", t, 1));
        emit_scalar(e, value);
        buf_putc(e->out, ')');
    } else {
        emit_scalar(e, value);
    }
}

static void emit_alloc(Emit *e, Node *n)
{
    const Buffer *b = n->u.buf;
    if (b->extent[0]->kind != N_INT || b->is_mbarrier) {
        emit_cannot(e, n, "a local buffer without a constant size");
        return;
    }
    long long size = (long long)max_i64(b->extent[0]->u.i, 1);
    emit_start(e, n);
    buf_printf(e->out, "%s ", emit_storage_type(b->type));
    emit_buffer_name(e, b);
    buf_printf(e->out, "[%lld] __attribute__((aligned(64)));\n", size);
    if (!KID(n, ALLOC, init)) return;
    emit_start(e, n);
    buf_printf(e->out, "for (int64_t i = 0; i < %lld; ++i) ", size);
    emit_buffer_name(e, b);
    buf_puts(e->out, "[i] = ");
    encoded(e, b->type, KID(n, ALLOC, init));
    buf_puts(e->out, ";\n");
}

static void emit_store(Emit *e, Node *n)
{
    emit_start(e, n);
    if (REST(n)[0]->lanes > 1 || KID(n, STORE, value)->lanes > 1) {
        emit_vector_store(e, n);
    } else {
        emit_buffer_name(e, n->u.buf);
        buf_putc(e->out, '[');
        emit_scalar(e, REST(n)[0]);
        buf_puts(e->out, "] = ");
        encoded(e, n->u.buf->type, KID(n, STORE, value));
    }
    buf_puts(e->out, ";\n");
}

static void emit_loop(Emit *e, Node *n)
{
    const char *type = emit_var_type(e, n->u.var);
    const Node *hi = KID(n, LOOP, hi);
    emit_start(e, n);
    buf_printf(e->out, "for (%s ", type);
    emit_var_name(e, n->u.var);
    buf_puts(e->out, " = ");
    emit_scalar(e, KID(n, LOOP, lo));
    if (hi->kind != N_INT) {
        buf_puts(e->out, ", end_");
        emit_var_name(e, n->u.var);
        buf_puts(e->out, " = ");
        emit_scalar(e, hi);
    }
    buf_puts(e->out, "; ");
    emit_var_name(e, n->u.var);
    buf_puts(e->out, " < ");
    if (hi->kind == N_INT) {
        emit_scalar(e, hi);
    } else {
        buf_puts(e->out, "end_");
        emit_var_name(e, n->u.var);
    }
    buf_puts(e->out, "; ++");
    emit_var_name(e, n->u.var);
    buf_puts(e->out, ") ");
    emit_block(e, KID(n, LOOP, body));
    buf_putc(e->out, '\n');
}

static void emit_if(Emit *e, Node *n)
{
    emit_start(e, n);
    buf_puts(e->out, "if (");
    emit_scalar(e, KID(n, IF, cond));
    buf_puts(e->out, ") ");
    emit_block(e, KID(n, IF, then));
    if (KID(n, IF, other)) {
        buf_puts(e->out, " else ");
        emit_block(e, KID(n, IF, other));
    }
    buf_putc(e->out, '\n');
}

static void emit_while(Emit *e, Node *n)
{
    emit_start(e, n);
    buf_puts(e->out, "while (");
    emit_scalar(e, KID(n, WHILE, cond));
    buf_puts(e->out, ") ");
    emit_block(e, KID(n, WHILE, body));
    buf_putc(e->out, '\n');
}

static void emit_check(Emit *e, Node *n)
{
    emit_start(e, n);
    buf_puts(e->out, "if (!");
    emit_scalar(e, KID(n, CHECK, cond));
    buf_printf(e->out, ") return %d;\n", ++e->nchecks);
}

static void word(Emit *e, const Node *n, const char *text)
{
    emit_start(e, n);
    buf_printf(e->out, "%s;\n", text);
}

void emit_statement(Emit *e, const Node *statement)
{
    Node *n = (Node *)statement; // KID hands out assignable children; nothing is assigned here
    if (e->dialect->statement && e->dialect->statement(e, n)) return;
    switch (n->kind) {
    case N_SEQ:
        emit_start(e, n);
        emit_block(e, n);
        buf_putc(e->out, '\n');
        break;
    case N_DEFINE:
    case N_DECLARE: emit_define(e, n); break;
    case N_SET: emit_set(e, n); break;
    case N_ALLOC: emit_alloc(e, n); break;
    case N_STORE: emit_store(e, n); break;
    case N_LOOP: emit_loop(e, n); break;
    case N_IF: emit_if(e, n); break;
    case N_WHILE: emit_while(e, n); break;
    case N_BREAK: word(e, n, "break"); break;
    case N_CONTINUE: word(e, n, "continue"); break;
    case N_ONE: emit_statement(e, KID(n, ONE, body)); break;
    case N_ROLE: // a block of one thread has one role, the one that holds
        emit_start(e, n);
        buf_puts(e->out, "if (");
        emit_scalar(e, KID(n, ROLE, cond));
        buf_puts(e->out, ") ");
        emit_block(e, KID(n, ROLE, body));
        buf_putc(e->out, '\n');
        break;
    case N_EVAL:
        emit_start(e, n);
        emit_value(e, KID(n, EVAL, a));
        buf_puts(e->out, ";\n");
        break;
    case N_CHECK: emit_check(e, n); break;
    default: emit_cannot(e, n, node_info[n->kind].name);
    }
}
