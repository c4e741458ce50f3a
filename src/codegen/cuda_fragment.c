// SPDX-License-Identifier: Apache-2.0
// mma, ldmatrix and stmatrix as PTX. A thread's elements are an array that is only indexed by
// constants, so the compiler keeps it in registers, read here 32 bits at a time.
#include "codegen/cuda_emit.h"

#include "ir/fragment.h"

// Element number `at` of the run that a place names, as a register of 32 bits or of its own type.
static void element(Emit *e, Node *ref, int at, bool packed)
{
    Node *index = REST(ref)[0];
    Node *lo = KID(index, SPAN, lo);
    bool bits = packed && ref->u.buf->type == DT_F32, pairs = packed && !bits;
    buf_puts(e->out, bits ? "__float_as_uint(" : pairs ? "*(uint32_t *)&" : "");
    emit_buffer_name(e, ref->u.buf);
    buf_putc(e->out, '[');
    if (lo->kind == N_INT) {
        buf_printf(e->out, "%lld", (long long)lo->u.i + at);
    } else {
        emit_scalar(e, lo);
        buf_printf(e->out, " + %d", at);
    }
    buf_puts(e->out, bits ? "])" : "]");
}

static void operands(Emit *e, Node *ref, const char *constraint, int n, int pack, bool packed)
{
    for (int i = 0; i < n; i++) {
        buf_printf(e->out, "%s\"%s\"(", i ? ", " : "", constraint);
        element(e, ref, i * pack, packed);
        buf_putc(e->out, ')');
    }
}

static void numbers(Emit *e, int first, int n)
{
    buf_puts(e->out, "{");
    for (int i = 0; i < n; i++) buf_printf(e->out, "%s%%%d", i ? ", " : "", first + i);
    buf_puts(e->out, "}");
}

static bool is_run(Emit *e, Node *ref)
{
    if (REST(ref)[0]->kind == N_SPAN && !ref->u.buf->over) return true;
    diag_error(e->diag, ref->loc, "a fragment that no mapping loop lowered");
    return false;
}

void cuda_mma(Emit *e, Node *n)
{
    Node *c = REST(n)[0], *a = REST(n)[1], *b = REST(n)[2];
    DType ab = a->u.buf->type, sum = c->u.buf->type;
    const char *name = fragment_mma_type(ab, sum);
    Fragment fa = fragment_of(FRAGMENT_A, ab), fb = fragment_of(FRAGMENT_B, ab);
    int na = fa.ntask / fa.pack, nb = fb.ntask / fb.pack;
    bool floats = dtype_is_float(sum);
    if (!is_run(e, c) || !is_run(e, a) || !is_run(e, b)) return;
    if (floats && dtype_is_int(ab) && cuda_arch(e) < 89) {
        diag_error(e->diag, n->loc, "mma of %s needs sm_89, this kernel is for %s", name,
                   e->kernel->target.arch);
        return;
    }
    const char *kind = floats ? "f32" : "s32";
    buf_printf(e->out, "asm volatile(\"mma.sync.aligned.m16n8k%d.row.col.%s.%s.%s.%s ",
               (int)fa.shape[1], kind, name, name, kind);
    numbers(e, 0, 4);
    buf_puts(e->out, ", ");
    numbers(e, 4, na);
    buf_puts(e->out, ", ");
    numbers(e, 4 + na, nb);
    buf_puts(e->out, ", ");
    numbers(e, 0, 4);
    buf_puts(e->out, ";\" : ");
    operands(e, c, floats ? "+f" : "+r", 4, 1, false);
    buf_puts(e->out, " : ");
    operands(e, a, "r", na, fa.pack, true);
    buf_puts(e->out, ", ");
    operands(e, b, "r", nb, fb.pack, true);
    buf_putc(e->out, ')');
}

// Operand 0 is the address of stmatrix; ldmatrix has its results first, and the address behind
// them.
void cuda_matrix_rows(Emit *e, Node *n)
{
    int which = fragment_own_operand(n->u.intr);
    Node *own = n->kid[which], *shared = n->kid[1 - which], *turned = n->kid[2];
    bool store = which == 1;
    if (!is_run(e, own)) return;
    int matrices = (int)KID(REST(own)[0], SPAN, len)->u.i / 2;
    buf_printf(e->out, "asm volatile(\"%s.sync.aligned.m8n8.x%d%s.shared.b16 ",
               store ? "stmatrix" : "ldmatrix", matrices, turned->u.i ? ".trans" : "");
    if (store) buf_puts(e->out, "[%0], ");
    numbers(e, store ? 1 : 0, matrices);
    if (!store) buf_printf(e->out, ", [%%%d]", matrices);
    buf_puts(e->out, ";\" : ");
    if (!store) operands(e, own, "=r", matrices, 2, true);
    buf_puts(e->out, store ? ": " : " : ");
    cuda_shared_address(e, shared);
    if (store) {
        buf_puts(e->out, ", ");
        operands(e, own, "r", matrices, 2, true);
    }
    buf_puts(e->out, " : \"memory\")");
}
