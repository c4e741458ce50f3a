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

// A line of C is a line of the script if the directive before it and the lines since then say so.
void emit_line(Emit *e, Loc loc)
{
    Place p = e->lines ? sources_place(e->lines, loc) : (Place){0};
    if (!p.source) return;
    for (; e->counted < e->out->size; e->counted++) e->line += e->out->text[e->counted] == '\n';
    if (p.source == e->source && p.line == e->line) return;
    buf_printf(e->out, "#line %d ", p.line);
    emit_quoted(e, p.source->name);
    buf_putc(e->out, '\n');
    e->source = p.source;
    e->line = p.line;
    e->counted = e->out->size;
}

void emit_start(Emit *e, const Node *n)
{
    emit_line(e, n->loc);
    buf_printf(e->out, "%*s", 4 * e->indent, "");
}

void emit_statements(Emit *e, Node *const *s, uint32_t n)
{
    for (uint32_t i = 0, done; i < n; i += done) {
        done = e->dialect->together ? e->dialect->together(e, s + i, n - i) : 0;
        if (done) continue;
        emit_statement(e, s[i]);
        done = 1;
    }
}

void emit_block(Emit *e, const Node *n)
{
    buf_puts(e->out, "{\n");
    e->indent++;
    if (n->kind == N_SEQ) {
        emit_statements(e, n->kid, n->nkid);
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

// As memory holds it. What rounds an f32 to the type has nothing to add to that.
void emit_encoded(Emit *e, DType t, const Node *value)
{
    if (emit_is_short(t)) {
        bool rounds = value->kind == N_CAST && value->type == t && value->lanes == 1 &&
                      value->kid[0]->type == DT_F32;
        if (rounds) value = value->kid[0];
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
    if (b->extent[0]->kind != N_INT || b->is_mbarrier || b->alias) {
        emit_cannot(e, n, "a local buffer without memory of its own and a constant size");
        return;
    }
    long long size = (long long)max_i64(b->extent[0]->u.i, 1);
    emit_start(e, n);
    buf_printf(e->out, "%s %s ", e->dialect->local, emit_storage_type(b->type));
    emit_buffer_name(e, b);
    buf_printf(e->out, "[%lld];\n", size);
    if (!KID(n, ALLOC, init)) return;
    emit_start(e, n);
    buf_printf(e->out, "for (%s i = 0; i < %lld; ++i) ",
               e->dialect->narrow_indices ? "int" : "int64_t", size);
    emit_buffer_name(e, b);
    buf_puts(e->out, "[i] = ");
    emit_encoded(e, b->type, KID(n, ALLOC, init));
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
        emit_encoded(e, n->u.buf->type, KID(n, STORE, value));
    }
    buf_puts(e->out, ";\n");
}

static void emit_loop(Emit *e, Node *n)
{
    const Node *hi = KID(n, LOOP, hi);
    bool unrolled = n->sub == LOOP_UNROLL || n->sub == LOOP_UNROLL_FULL;
    if (unrolled && e->dialect->unroll) {
        emit_line(e, n->loc);
        buf_puts(e->out, e->dialect->unroll);
        if (n->flags) buf_printf(e->out, " %d", n->flags);
        buf_putc(e->out, '\n');
    }
    emit_start(e, n);
    buf_printf(e->out, "for (%s ", emit_var_type(e, n->u.var));
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

void emit_conditional(Emit *e, const Node *n, const char *word, const Node *cond, const Node *body)
{
    emit_start(e, n);
    buf_printf(e->out, "%s (", word);
    emit_scalar(e, cond);
    buf_puts(e->out, ") ");
    emit_block(e, body);
}

static void emit_if(Emit *e, Node *n)
{
    emit_conditional(e, n, "if", KID(n, IF, cond), KID(n, IF, then));
    if (!KID(n, IF, other)) return;
    buf_puts(e->out, " else ");
    emit_block(e, KID(n, IF, other));
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
    case N_IF:
        emit_if(e, n);
        buf_putc(e->out, '\n');
        break;
    case N_WHILE:
        emit_conditional(e, n, "while", KID(n, WHILE, cond), KID(n, WHILE, body));
        buf_putc(e->out, '\n');
        break;
    case N_BREAK: word(e, n, "break"); break;
    case N_CONTINUE: word(e, n, "continue"); break;
    case N_ONE: emit_statement(e, KID(n, ONE, body)); break;
    case N_ROLE: // a block of one thread has one role, the one that holds
        emit_conditional(e, n, "if", KID(n, ROLE, cond), KID(n, ROLE, body));
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
