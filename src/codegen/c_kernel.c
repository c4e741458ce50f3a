// SPDX-License-Identifier: Apache-2.0
// A lowered kernel as a C file: a function for each stage that runs a range of blocks.
#include "codegen/emit.h"

const Dialect dialect_c = {.name = "C",
                           .function = "static inline __attribute__((always_inline))",
                           .local = "__attribute__((aligned(64)))"};

// ---- memory

static bool aliased(const Kernel *k, const Buffer *b)
{
    if (b->alias) return true;
    for (int i = 0; i < k->params.n; i++) {
        if (k->params.at[i]->alias == b) return true;
    }
    for (int i = 0; i < k->workspace.n; i++) {
        if (k->workspace.at[i]->alias == b) return true;
    }
    return false;
}

static void emit_pointer(Emit *e, const Buffer *b, int position)
{
    const char *type = emit_storage_type(b->type);
    const char *qualifier = b->space == SPACE_GLOBAL && !b->output ? "const " : "";
    emit_line(e, e->kernel->loc);
    buf_printf(e->out, "    %s%s *%sconst ", qualifier, type,
               aliased(e->kernel, b) ? "" : "restrict ");
    emit_buffer_name(e, b);
    if (b->align_bytes > (int64_t)dtype_size(b->type))
        buf_printf(e->out, " = __builtin_assume_aligned(buffers[%d], %lld);\n", position,
                   (long long)b->align_bytes);
    else buf_printf(e->out, " = buffers[%d];\n", position);
}

static void emit_scratch(Emit *e)
{
    const Stage *s = e->stage;
    if (s->memory.n) buf_puts(e->out, "    char *next = scratch;\n");
    for (int i = 0; i < s->memory.n; i++) {
        const Buffer *b = s->memory.at[i];
        emit_line(e, b->loc);
        if (b->space != SPACE_CORE_LOCAL || b->is_mbarrier) {
            diag_error(e->diag, b->loc, "%s memory does not exist on the CPU",
                       space_name[b->space]);
            continue;
        }
        const char *type = emit_storage_type(b->type);
        buf_printf(e->out, "    %s *const ", type);
        emit_buffer_name(e, b);
        if (b->alias) {
            buf_printf(e->out, " = (%s *)", type);
            emit_buffer_name(e, b->alias);
            buf_puts(e->out, ";\n");
            continue;
        }
        buf_printf(e->out, " = (%s *)__builtin_assume_aligned(next, 64);\n    next += ((", type);
        emit_scalar(e, b->extent[0]);
        buf_printf(e->out, ") * %lld + 63) / 64 * 64;\n", (long long)dtype_size(b->type));
    }
}

int64_t codegen_scratch_bytes(const Kernel *k, const int64_t *dims)
{
    int64_t most = 0;
    for (int i = 0; i < k->stages.n; i++) {
        const Stage *s = k->stages.at[i];
        int64_t sum = 0;
        for (int j = 0; j < s->memory.n; j++) {
            const Buffer *b = s->memory.at[j];
            if (b->alias || b->space != SPACE_CORE_LOCAL) continue;
            int64_t n = node_eval_dims(b->extent[0], k, dims);
            sum += (n * (int64_t)dtype_size(b->type) + 63) / 64 * 64;
        }
        most = max_i64(most, sum);
    }
    return most;
}

// ---- the stage function

static void emit_dims(Emit *e)
{
    for (int i = 0; i < e->kernel->dims.n; i++) {
        emit_line(e, e->kernel->loc);
        buf_puts(e->out, "    const int64_t ");
        emit_var_name(e, e->kernel->dims.at[i]);
        buf_printf(e->out, " = dims[%d];\n", i);
    }
}

static void emit_block_var(Emit *e, int axis)
{
    const Var *v = e->stage->builtin[VAR_BLOCK_X + axis];
    if (!v) return;
    emit_line(e, e->kernel->loc);
    buf_puts(e->out, "        const int64_t ");
    emit_var_name(e, v);
    buf_puts(e->out, " = ");
    if (axis >= e->stage->ngrid) {
        buf_puts(e->out, "0;\n");
        return;
    }
    buf_puts(e->out, "block");
    for (int i = axis + 1; i < e->stage->ngrid; i++) {
        buf_puts(e->out, " / ");
        emit_scalar(e, e->stage->grid[i]);
    }
    if (axis > 0) {
        buf_puts(e->out, " % ");
        emit_scalar(e, e->stage->grid[axis]);
    }
    buf_puts(e->out, ";\n");
}

static void emit_signature(Emit *e)
{
    buf_putc(e->out, '\n');
    emit_line(e, e->kernel->loc);
    buf_puts(e->out, "__attribute__((visibility(\"default\")))\n");
    emit_line(e, e->kernel->loc);
    buf_printf(e->out, "int32_t %s_%s(", e->kernel->name, e->stage->name);
    buf_puts(e->out, "void *const *buffers, const int64_t *dims, int64_t first, int64_t last,\n"
                     "    void *scratch)\n");
    emit_line(e, e->kernel->loc);
    buf_puts(e->out, "{\n");
    emit_line(e, e->kernel->loc);
    buf_puts(e->out, "    (void)buffers, (void)dims, (void)scratch;\n");
}

static void emit_thread_var(Emit *e)
{
    const Var *v = e->stage->builtin[VAR_THREAD];
    if (!v) return;
    emit_line(e, e->kernel->loc);
    buf_puts(e->out, "        const int64_t ");
    emit_var_name(e, v);
    buf_puts(e->out, " = 0;\n");
}

static void emit_stage(Emit *e)
{
    const Kernel *k = e->kernel;
    const Stage *s = e->stage;
    emit_signature(e);
    for (int i = 0; i < k->params.n; i++) emit_pointer(e, k->params.at[i], i);
    for (int i = 0; i < k->workspace.n; i++) emit_pointer(e, k->workspace.at[i], k->params.n + i);
    emit_dims(e);
    emit_scratch(e);
    emit_line(e, k->loc);
    buf_puts(e->out, "    for (int64_t block = first; block < last; ++block) {\n");
    for (int axis = 0; axis < KERNEL_MAX_GRID; axis++) emit_block_var(e, axis);
    emit_thread_var(e);
    e->indent = 2;
    emit_statements(e, s->body->kid, s->body->nkid);
    emit_line(e, k->loc);
    buf_puts(e->out, "    }\n");
    emit_line(e, k->loc);
    buf_puts(e->out, "    return 0;\n}\n");
}

static bool check_block(Emit *e)
{
    const Node *block = e->stage->block;
    if (!block || node_is_const(block, 1)) return true;
    diag_error(e->diag, block->loc, "a block has one thread on the CPU");
    return false;
}

static bool calls_fma(const Node *n)
{
    if (n->kind == N_INTRIN && intrinsic_id(n->u.intr) == INTR_FMA) return true;
    for (uint32_t i = 0; i < n->nkid; i++) {
        if (n->kid[i] && calls_fma(n->kid[i])) return true;
    }
    return false;
}

bool codegen_c(const Kernel *k, const Sources *lines, Buf *out, Diag *d)
{
    int before = d->nerror;
    Buf text;
    buf_init(&text, k->arena);
    Emit e = {.dialect = &dialect_c,
              .arena = k->arena,
              .kernel = k,
              .lines = lines,
              .diag = d,
              .out = &text};
    buf_init(&e.helpers, k->arena);
    e.names = interner_new(k->arena);
    for (int i = 0; i < k->stages.n; i++) e.has_fma |= calls_fma(k->stages.at[i]->body);
    for (int i = 0; i < k->stages.n; i++) {
        e.stage = k->stages.at[i];
        if (check_block(&e)) emit_stage(&e);
    }
    buf_printf(
        out, "// %s, made by Heald from the template %s. Compile with -fwrapv -ffp-contract=off.\n",
        k->name, k->template_name ? k->template_name : "?");
    buf_puts(out, "#include <stdint.h>\n");
    buf_puts(out, buf_text(&e.helpers));
    buf_puts(out, buf_text(&text));
    return d->nerror == before;
}

// ---- which CHECK a status means

static const Node *find_check(const Node *n, int *number)
{
    if (n->kind == N_CHECK && --*number == 0) return n;
    for (uint32_t i = 0; i < n->nkid; i++) {
        const Node *found = n->kid[i] ? find_check(n->kid[i], number) : NULL;
        if (found) return found;
    }
    return NULL;
}

const char *codegen_check_message(const Kernel *k, int32_t status, Loc *loc)
{
    int number = status;
    for (int i = 0; i < k->stages.n; i++) {
        const Node *check = find_check(k->stages.at[i]->body, &number);
        if (!check) continue;
        *loc = check->loc;
        return check->u.sym;
    }
    return NULL;
}
