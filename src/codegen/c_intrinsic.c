// SPDX-License-Identifier: Apache-2.0
// Intrinsics as C: what helpers.def knows by name, or the C text of the intrinsic's row.
#include "codegen/emit.h"

#include <string.h>

static void arguments(Emit *e, Node *n)
{
    for (int i = 0; i < NREST(n); i++) {
        if (i) buf_puts(e->out, ", ");
        emit_value(e, REST(n)[i]);
    }
}

void emit_place(Emit *e, Node *ref)
{
    buf_puts(e->out, "&");
    emit_buffer_name(e, ref->u.buf);
    buf_putc(e->out, '[');
    Node *index = REST(ref)[0];
    emit_scalar(e, index->kind == N_SPAN ? KID(index, SPAN, lo) : index);
    buf_putc(e->out, ']');
}

static void emit_atomic(Emit *e, Node *n)
{
    DType t = REST(n)[0]->u.buf->type;
    buf_printf(e->out, "%s(", emit_helper(e, n->u.intr->name, t, 1));
    emit_place(e, REST(n)[0]);
    for (int i = 1; i < NREST(n); i++) {
        buf_puts(e->out, ", ");
        emit_scalar(e, REST(n)[i]);
    }
    buf_putc(e->out, ')');
}

void emit_quoted(Emit *e, const char *s)
{
    buf_putc(e->out, '"');
    for (; *s; s++) {
        if (*s == '\n') buf_puts(e->out, "\\n");
        else if (*s == '"' || *s == '\\') buf_printf(e->out, "\\%c", *s);
        else buf_putc(e->out, *s);
    }
    buf_putc(e->out, '"');
}

// Text, integers and floats, each by one call, so that no format is built from the program's text.
static void emit_print(Emit *e, Node *n)
{
    Sym printf_name = intern(e->names, "printf");
    if (!map_has(&e->seen, printf_name)) {
        map_put(e->arena, &e->seen, printf_name, e);
        buf_puts(&e->helpers, "extern int printf(const char *, ...);\n");
    }
    buf_putc(e->out, '(');
    for (int i = 0; i < NREST(n); i++) {
        Node *x = REST(n)[i];
        if (i) buf_puts(e->out, "printf(\" \"), ");
        if (x->kind == N_STRING) {
            buf_puts(e->out, "printf(\"%s\", ");
            emit_quoted(e, x->u.sym);
        } else {
            bool is_float = dtype_is_float((DType)x->type);
            buf_puts(e->out,
                     is_float ? "printf(\"%.9g\", (double)" : "printf(\"%lld\", (long long)");
            emit_scalar(e, x);
        }
        buf_puts(e->out, "), ");
    }
    buf_puts(e->out, "printf(\"\\n\"))");
}

static void emit_asm(Emit *e, Node *n)
{
    buf_puts(e->out, "__asm__ volatile(");
    if (NREST(n) == 1 && REST(n)[0]->kind == N_STRING) emit_quoted(e, REST(n)[0]->u.sym);
    else emit_cannot(e, n, "asm with operands");
    buf_putc(e->out, ')');
}

void emit_text(Emit *e, Node *n, const char *text)
{
    for (const char *s = text; *s; s++) {
        if (*s != '$') {
            buf_putc(e->out, *s);
            continue;
        }
        s++;
        if (*s == 'f') buf_puts(e->out, n->type == DT_F64 ? "" : "f");
        else if (*s == 'm') e->dialect->warp_mask(e);
        else emit_value(e, REST(n)[*s - '0']);
    }
}

void emit_pure_intrinsic(Emit *e, Node *n)
{
    int lanes = NREST(n) ? REST(n)[0]->lanes : 1;
    DType t = NREST(n) ? (DType)REST(n)[0]->type : (DType)n->type;
    buf_printf(e->out, "%s(", emit_helper(e, n->u.intr->name, t, lanes));
    arguments(e, n);
    buf_putc(e->out, ')');
}

void emit_intrinsic(Emit *e, const Node *node)
{
    Node *n = (Node *)node;
    if (e->dialect->intrinsic) {
        e->dialect->intrinsic(e, n);
        return;
    }
    IntrinsicId id = intrinsic_id(n->u.intr);
    if (id == INTR_ATOMIC_ADD || id == INTR_ATOMIC_MAX || id == INTR_ATOMIC_CAS) {
        emit_atomic(e, n);
    } else if (id == INTR_PRINT) {
        emit_print(e, n);
    } else if (id == INTR_ASM) {
        emit_asm(e, n);
    } else if (id == INTR_BARRIER || id == INTR_BARRIER_ID) {
        buf_puts(e->out, "(void)0"); // a block has one thread
    } else if (strchr(n->u.intr->flags, 'P') && n->u.intr->c[0]) {
        emit_pure_intrinsic(e, n);
    } else if (n->u.intr->c[0] && n->u.intr->c[0] != '@') {
        emit_text(e, n, n->u.intr->c);
    } else {
        diag_error(e->diag, n->loc, "%s does not exist on the CPU", n->u.intr->name);
        buf_putc(e->out, '0');
    }
}
