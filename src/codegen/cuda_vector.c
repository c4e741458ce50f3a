// SPDX-License-Identifier: Apache-2.0
// Vectors in CUDA: structs that move to and from memory at once. An operation is a helper that does
// its lanes one by one; what lanes do under a mask is written out lane by lane.
#include "codegen/cuda_emit.h"

#include "passes/vectorise.h"

#include <ctype.h>

// ---- one lane of an expression

static Node *lane_of(Arena *a, Node *n, int l);

typedef struct Lane {
    Arena *arena;
    int l;
} Lane;

static Node *visit(void *user, Node *n)
{
    Lane *lane = user;
    return lane_of(lane->arena, n, lane->l);
}

static Node *lane_of(Arena *a, Node *n, int l)
{
    if (n->lanes == 1) return n;
    Node *number = node_i64(a, l);
    switch (n->kind) {
    case N_BROADCAST: return n->kid[0];
    case N_RAMP: {
        Node *step = node_int(a, n->loc, (DType)n->type, l * n->u.i);
        return node_fold(a, node_binary(a, N_ADD, n->kid[0], step));
    }
    case N_VARREF: return node_make(a, N_EXTRACT, n->loc, 2, (Node *[]){n, number});
    default: break;
    }
    Node *scalar = node_map(a, n, visit, &(Lane){a, l});
    if (scalar == n) scalar = arena_copy(a, n, sizeof *n + n->nkid * sizeof(Node *));
    scalar->lanes = 1;
    return node_fold(a, scalar);
}

static void lane_by_lane(Emit *e, const Node *n)
{
    const char *name = arena_printf(e->arena, "h_make_%sx%d", dtypes[n->type].name, n->lanes);
    const char *type = emit_vector_type(e, (DType)n->type, n->lanes);
    if (emit_first_time(e, name)) {
        const char *element = dtypes[emit_computed((DType)n->type)].c;
        buf_printf(&e->helpers, "%s %s %s(", e->dialect->function, type, name);
        for (int l = 0; l < n->lanes; l++)
            buf_printf(&e->helpers, "%s%s v%d", l ? ", " : "", element, l);
        buf_printf(&e->helpers, ")\n{\n    %s r = {{", type);
        for (int l = 0; l < n->lanes; l++) buf_printf(&e->helpers, "%sv%d", l ? ", " : "", l);
        buf_puts(&e->helpers, "}};\n    return r;\n}\n");
    }
    buf_printf(e->out, "%s(", name);
    for (int l = 0; l < n->lanes; l++) {
        if (l) buf_puts(e->out, ", ");
        emit_scalar(e, lane_of(e->arena, (Node *)n, l));
    }
    buf_putc(e->out, ')');
}

// ---- an operation on all lanes

// The kind, the operands' type and whether each is one value for all lanes, and the result's type.
static const char *operation_name(Emit *e, const Node *n)
{
    Buf name;
    buf_init(&name, e->arena);
    buf_puts(&name, "h_");
    if (n->kind == N_INTRIN) buf_printf(&name, "%s_", n->u.intr->name);
    else
        for (const char *c = node_info[n->kind].name; *c; c++)
            buf_putc(&name, (char)tolower((unsigned char)*c));
    for (uint32_t i = 0; i < n->nkid; i++)
        buf_printf(&name, "_%s%s", dtypes[n->kid[i]->type].name, n->kid[i]->lanes > 1 ? "" : "s");
    buf_printf(&name, "_%sx%d", dtypes[n->type].name, n->lanes);
    return buf_text(&name);
}

static void define_operation(Emit *e, const Node *n, const char *name)
{
    Buf text, *out = e->out;
    const Node *outer = e->lane_of;
    const char *type = emit_vector_type(e, (DType)n->type, n->lanes);
    buf_init(&text, e->arena);
    e->out = &text;
    buf_printf(&text, "%s %s %s(", e->dialect->function, type, name);
    for (uint32_t i = 0; i < n->nkid; i++) {
        const Node *x = n->kid[i];
        const char *t = x->lanes > 1 ? emit_vector_type(e, (DType)x->type, x->lanes)
                                     : emit_value_type((DType)x->type);
        buf_printf(&text, "%s%s %c", i ? ", " : "", t, (int)('a' + i));
    }
    buf_printf(&text,
               ")\n{\n    %s r;\n#pragma unroll\n    for (int l = 0; l < %d; ++l) r.v[l] = ", type,
               n->lanes);
    Node *one = arena_copy(e->arena, n, sizeof *n + n->nkid * sizeof(Node *));
    one->lanes = 1;
    e->lane_of = n;
    emit_scalar(e, one);
    e->lane_of = outer;
    buf_puts(&text, ";\n    return r;\n}\n");
    buf_append(&e->helpers, text.text, text.size);
    e->out = out;
}

static void operation(Emit *e, const Node *n)
{
    const char *name = operation_name(e, n);
    if (emit_first_time(e, name)) define_operation(e, n, name);
    buf_printf(e->out, "%s(", name);
    for (uint32_t i = 0; i < n->nkid; i++) {
        if (i) buf_puts(e->out, ", ");
        emit_value(e, n->kid[i]);
    }
    buf_putc(e->out, ')');
}

// ---- memory

bool cuda_is_aligned(const Buffer *b, const Node *base, int lanes)
{
    int64_t align = cuda_vector_align(emit_stored(b->type), lanes);
    int64_t of_buffer = b->align_bytes;
    if (b->space == SPACE_SHARED || b->space == SPACE_LOCAL) of_buffer = max_i64(of_buffer, 16);
    if (b->space == SPACE_WORKSPACE) of_buffer = max_i64(of_buffer, 64);
    int64_t divisor = node_divisor(base), size = (int64_t)dtype_size(b->type);
    return of_buffer % align == 0 && of_buffer &&
           (divisor % align == 0 || divisor * size % align == 0);
}

static bool is_contiguous(const Node *index)
{
    return index->kind == N_RAMP && index->u.i == 1;
}

static void address(Emit *e, const Buffer *b, const Node *index)
{
    buf_putc(e->out, '&');
    emit_buffer_name(e, b);
    buf_putc(e->out, '[');
    emit_scalar(e, index);
    buf_putc(e->out, ']');
}

static bool converts(DType t)
{
    return emit_is_short(t) || t == DT_BOOL;
}

static void vector_load(Emit *e, Node *n)
{
    Node *index = REST(n)[0];
    DType t = (DType)n->type;
    bool together = is_contiguous(index);
    const char *how = !together                                            ? "gather"
                      : cuda_is_aligned(n->u.buf, index->kid[0], n->lanes) ? "geta"
                                                                           : "get";
    if (converts(t)) buf_printf(e->out, "%s(", emit_helper(e, "load", t, n->lanes));
    buf_printf(e->out, "%s(", emit_helper(e, how, t, n->lanes));
    if (together) {
        address(e, n->u.buf, index->kid[0]);
    } else {
        emit_buffer_name(e, n->u.buf);
        buf_puts(e->out, ", ");
        emit_vector(e, index);
    }
    buf_puts(e->out, converts(t) ? "))" : ")");
}

// base + l inside lo .. hi, as two scalars more for a helper.
static void lane_range(Emit *e, const Node *lo, const Node *hi)
{
    buf_puts(e->out, ", ");
    emit_scalar(e, lo);
    buf_puts(e->out, ", ");
    emit_scalar(e, hi);
}

// if mask { b[base + l] } else { other }, where the lanes of the mask follow one another.
static bool masked_load(Emit *e, Node *n)
{
    Node *mask = KID(n, SELECT, cond), *load = KID(n, SELECT, a), *lo, *hi;
    DType t = (DType)n->type;
    if (load->kind != N_LOAD || !is_contiguous(REST(load)[0]) || mask->lanes == 1 ||
        !emit_mask_range(e, mask, &lo, &hi)) {
        return false;
    }
    if (converts(t)) buf_printf(e->out, "%s(", emit_helper(e, "load", t, n->lanes));
    buf_printf(e->out, "%s(", emit_helper(e, "getr", t, n->lanes));
    address(e, load->u.buf, REST(load)[0]->kid[0]);
    lane_range(e, lo, hi);
    buf_puts(e->out, ", ");
    if (converts(t)) buf_printf(e->out, "%s(", emit_helper(e, "store", t, n->lanes));
    emit_vector(e, KID(n, SELECT, b));
    buf_puts(e->out, converts(t) ? ")))" : ")");
    return true;
}

static bool masked_store(Emit *e, Node *n)
{
    Node *index = REST(n)[0], *lo, *hi;
    const Buffer *b = n->u.buf;
    Node *mask = mask_take(&index);
    if (!mask || !is_contiguous(index) || !emit_mask_range(e, mask, &lo, &hi)) return false;
    buf_printf(e->out, "%s(", emit_helper(e, "putr", b->type, index->lanes));
    address(e, b, index->kid[0]);
    buf_puts(e->out, ", ");
    if (converts(b->type))
        buf_printf(e->out, "%s(", emit_helper(e, "store", b->type, index->lanes));
    emit_vector(e, KID(n, STORE, value));
    if (converts(b->type)) buf_putc(e->out, ')');
    lane_range(e, lo, hi);
    buf_putc(e->out, ')');
    return true;
}

void cuda_vector_store(Emit *e, const Node *statement)
{
    Node *n = (Node *)statement, *index = REST(n)[0], *value = KID(n, STORE, value);
    if (value->lanes == index->lanes && masked_store(e, n)) return;
    const Buffer *b = n->u.buf;
    int lanes = index->lanes;
    if (value->lanes != lanes) {
        emit_cannot(e, n, "a store of unequal lanes");
        return;
    }
    bool together = is_contiguous(index);
    const char *how = !together                                  ? "scatter"
                      : cuda_is_aligned(b, index->kid[0], lanes) ? "puta"
                                                                 : "put";
    buf_printf(e->out, "%s(", emit_helper(e, how, b->type, lanes));
    if (together) {
        address(e, b, index->kid[0]);
    } else {
        emit_buffer_name(e, b);
        buf_puts(e->out, ", ");
        emit_vector(e, index);
    }
    buf_puts(e->out, ", ");
    if (converts(b->type)) buf_printf(e->out, "%s(", emit_helper(e, "store", b->type, lanes));
    emit_vector(e, value);
    buf_puts(e->out, converts(b->type) ? "))" : ")");
}

// ---- all of them

static void ramp(Emit *e, const Node *n)
{
    buf_printf(e->out, "%s(", emit_helper(e, "ramp", (DType)n->type, n->lanes));
    emit_scalar(e, n->kid[0]);
    buf_printf(e->out, ", %lld)", (long long)n->u.i);
}

static void broadcast(Emit *e, const Node *n)
{
    buf_printf(e->out, "%s(", emit_helper(e, "splat", (DType)n->type, n->lanes));
    emit_scalar(e, n->kid[0]);
    buf_putc(e->out, ')');
}

static void select_lanes(Emit *e, Node *n)
{
    Node *cond = KID(n, SELECT, cond);
    if (masked_load(e, n)) return;
    if (cond->lanes > 1 && cond->kind != N_BROADCAST) {
        lane_by_lane(e, n);
        return;
    }
    buf_putc(e->out, '(');
    emit_scalar(e, cond->lanes > 1 ? cond->kid[0] : cond);
    buf_puts(e->out, " ? ");
    emit_vector(e, KID(n, SELECT, a));
    buf_puts(e->out, " : ");
    emit_vector(e, KID(n, SELECT, b));
    buf_putc(e->out, ')');
}

void cuda_vector(Emit *e, const Node *n)
{
    switch (n->kind) {
    case N_VARREF: emit_var_name(e, n->u.var); break;
    case N_RAMP: ramp(e, n); break;
    case N_BROADCAST: broadcast(e, n); break;
    case N_LOAD: vector_load(e, (Node *)n); break;
    case N_SELECT: select_lanes(e, (Node *)n); break;
    case N_INTRIN:
        if (node_pure(n) && n->nkid) operation(e, n);
        else lane_by_lane(e, n);
        break;
    default: operation(e, n);
    }
}
