// SPDX-License-Identifier: Apache-2.0
// Loads, or stores, of elements side by side that stand one after the other (passes/neighbours.c)
// as one access: the compiler for the GPU joins them only where it proves anew that they are
// aligned.
#include "codegen/cuda_emit.h"

enum { WIDEST = 16 };

// The load that a definition is, or the store.
static Node *access_of(Node *n)
{
    if (n->kind == N_STORE) return n;
    bool load = n->kind == N_DEFINE && n->u.var->lanes == 1 && n->kid[0]->kind == N_LOAD;
    return load ? n->kid[0] : NULL;
}

// n as base + offset.
static const Node *parted(const Node *n, int64_t *offset)
{
    bool sum = n->kind == N_ADD && n->kid[1]->kind == N_INT;
    *offset = n->kind == N_INT ? n->u.i : sum ? n->kid[1]->u.i : 0;
    return n->kind == N_INT ? NULL : sum ? n->kid[0] : n;
}

static bool follows(const Node *first, const Node *n, int64_t by)
{
    int64_t x, y;
    const Node *a = parted(REST((Node *)first)[0], &x), *b = parted(REST((Node *)n)[0], &y);
    return y == x + by && (a && b ? node_equal(a, b) : a == b);
}

static bool loads(const Node *n)
{
    bool found = n->kind == N_LOAD || n->kind == N_LOAD_ELSE || n->kind == N_INTRIN;
    for (uint32_t i = 0; i < n->nkid && !found; i++) found = n->kid[i] && loads(n->kid[i]);
    return found;
}

// How many of the statements are accesses of that kind to elements side by side.
static uint32_t length(Node *const *s, uint32_t n)
{
    Node *first = access_of(s[0]);
    if (!first || first->u.buf->type == DT_BOOL || REST(first)[0]->lanes > 1) return 0;
    uint32_t k = 0;
    for (; k < n && s[k]->kind == s[0]->kind; k++) {
        Node *access = access_of(s[k]);
        if (!access || access->u.buf != first->u.buf || REST(access)[0]->lanes > 1 ||
            !follows(first, access, k))
            break;
        if (s[k]->kind == N_STORE &&
            (KID(access, STORE, value)->lanes > 1 || loads(KID(access, STORE, value))))
            break;
    }
    return k;
}

static void address(Emit *e, Node *access)
{
    buf_putc(e->out, '&');
    emit_buffer_name(e, access->u.buf);
    buf_putc(e->out, '[');
    emit_scalar(e, REST(access)[0]);
    buf_putc(e->out, ']');
}

static void store(Emit *e, Node *const *s, int lanes, const char *type)
{
    const Buffer *b = s[0]->u.buf;
    emit_start(e, s[0]);
    buf_printf(e->out, "*(%s *)", type);
    address(e, s[0]);
    buf_printf(e->out, " = %s{{", type);
    for (int l = 0; l < lanes; l++) {
        if (l) buf_puts(e->out, ", ");
        emit_encoded(e, b->type, KID(s[l], STORE, value));
    }
    buf_puts(e->out, "}};\n");
}

// The bytes of a buffer of known extents, else -1.
static int64_t known_bytes(const Buffer *b)
{
    int64_t bytes = (int64_t)dtype_size(b->type);
    for (int i = 0; i < b->rank; i++)
        if (b->extent[i]->kind != N_INT || !mul_i64(bytes, b->extent[i]->u.i, &bytes)) return -1;
    return bytes;
}

// Whether L2 has no room to keep an input until it is read again. Beside results of its size the
// hint costs more than it gives: they want the room as well.
static bool is_large(const Emit *e, const Buffer *b)
{
    enum { FEW = 8 };
    int64_t bytes = known_bytes(b);
    if (b->output || cuda_arch(e) < 80 || bytes <= e->kernel->target.l2_bytes / 2) return false;
    for (int i = 0; i < e->kernel->params.n; i++) {
        const Buffer *p = e->kernel->params.at[i];
        if (p->output && (known_bytes(p) < 0 || known_bytes(p) > bytes / FEW)) return false;
    }
    return true;
}

// 16 bytes that leave the caches before others do, for what they then have room. Volatile, lest it
// is taken before griddepcontrol.wait.
static void load_once(Emit *e, Node *define, Node *access, const char *type)
{
    buf_printf(e->out, "%s ", type);
    emit_var_name(e, define->u.var);
    buf_puts(e->out, "_w;\n");
    emit_start(e, define);
    buf_puts(e->out,
             "asm volatile(\"{ .reg .b64 p; createpolicy.fractional.L2::evict_first.b64 p, "
             "1.0; ld.global.L1::evict_first.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], p; "
             "}\" : ");
    for (int i = 0; i < 4; i++) {
        buf_printf(e->out, "%s\"=r\"(((uint32_t *)&", i ? ", " : "");
        emit_var_name(e, define->u.var);
        buf_printf(e->out, "_w)[%d])", i);
    }
    buf_puts(e->out, " : \"l\"(__cvta_generic_to_global(");
    address(e, access);
    buf_puts(e->out, ")));\n");
}

static void load(Emit *e, Node *const *s, int lanes, const char *type)
{
    DType t = s[0]->kid[0]->u.buf->type;
    emit_start(e, s[0]);
    if (lanes * (int)dtype_size(t) == WIDEST && is_large(e, s[0]->kid[0]->u.buf)) {
        load_once(e, s[0], s[0]->kid[0], type);
    } else {
        buf_printf(e->out, "const %s ", type);
        emit_var_name(e, s[0]->u.var);
        buf_printf(e->out, "_w = *(const %s *)", type);
        address(e, s[0]->kid[0]);
        buf_puts(e->out, ";\n");
    }
    for (int l = 0; l < lanes; l++) {
        emit_start(e, s[l]);
        buf_printf(e->out, "const %s ", emit_var_type(e, s[l]->u.var));
        emit_var_name(e, s[l]->u.var);
        buf_puts(e->out, " = ");
        if (emit_is_short(t)) buf_printf(e->out, "%s(", emit_helper(e, "load", t, 1));
        emit_var_name(e, s[0]->u.var);
        buf_printf(e->out, "_w.v[%d]%s;\n", l, emit_is_short(t) ? ")" : "");
    }
}

uint32_t cuda_together(Emit *e, Node *const *s, uint32_t n)
{
    uint32_t found = length(s, n);
    if (found < 2) return 0;
    Node *access = access_of(s[0]);
    const Buffer *b = access->u.buf;
    int size = (int)dtype_size(b->type), lanes = WIDEST / size;
    while (lanes > 1 && ((uint32_t)lanes > found || !cuda_is_aligned(b, REST(access)[0], lanes)))
        lanes /= 2;
    if (lanes < 2) return 0;
    const char *type = emit_vector_type(e, emit_stored(b->type), lanes);
    if (s[0]->kind == N_STORE) store(e, s, lanes, type);
    else load(e, s, lanes, type);
    return (uint32_t)lanes;
}
