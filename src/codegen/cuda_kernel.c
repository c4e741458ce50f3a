// SPDX-License-Identifier: Apache-2.0
// A lowered kernel as a CUDA C file: a __global__ function for each stage.
#include "codegen/cuda_emit.h"

#include <stdlib.h>
#include <string.h>

enum {
    STATIC_SHARED_BYTES = 48 << 10, // more is dynamic, and asked for at launch
    MAX_GRID_YZ = 65535,
    WORKSPACE_ALIGN = 64 // of each, in the runtime's memory
};

int cuda_arch_number(const char *arch)
{
    return !strncmp(arch, "sm_", 3) ? atoi(arch + 3) : 0;
}

// ---- dimensions

// So much below 2^31 that a tile beyond the edge does not pass it.
enum { DIM_LIMIT = INT32_MAX - (1 << 20) };

static void narrow_blocks(const Stage *s)
{
    for (int axis = VAR_BLOCK_X; axis <= VAR_BLOCK_Z; axis++) {
        Var *v = s->builtin[axis];
        if (!v) continue;
        bool known = v->lo <= v->hi;
        v->hi = known ? min_i64(v->hi, INT32_MAX - 1) : INT32_MAX - 1;
        v->lo = known ? max_i64(v->lo, 0) : 0;
    }
}

void cuda_bound_dims(Kernel *k)
{
    for (int i = 0; i < k->stages.n; i++) narrow_blocks(k->stages.at[i]);
    for (int i = 0; i < k->dims.n; i++) {
        Var *v = k->dims.at[i];
        bool known = v->lo <= v->hi;
        if (!known || v->lo < 0) v->lo = 0;
        if (known && v->hi <= DIM_LIMIT) continue;
        v->hi = DIM_LIMIT;
        Node *limit = node_i64(k->arena, DIM_LIMIT);
        Requirement r = {.cond = node_binary(k->arena, N_LE, node_var(k->arena, k->loc, v), limit),
                         .message = arena_printf(k->arena, "a dimension is above %d", DIM_LIMIT),
                         .loc = k->loc};
        VEC_PUSH(k->arena, &k->requirements, r);
    }
}

// ---- what a stage needs

static bool uses(const Node *n, IntrinsicId id)
{
    if (n->kind == N_INTRIN && intrinsic_id(n->u.intr) == id) return true;
    for (uint32_t i = 0; i < n->nkid; i++) {
        if (n->kid[i] && uses(n->kid[i], id)) return true;
    }
    return false;
}

static bool threads_meet(const Node *n)
{
    if (n->kind == N_INTRIN &&
        (n->u.intr->scope != SCOPE_NONE || intrinsic_id(n->u.intr) == INTR_WAIT)) {
        return true;
    }
    for (uint32_t i = 0; i < n->nkid; i++) {
        if (n->kid[i] && threads_meet(n->kid[i])) return true;
    }
    return false;
}

static bool grid_fits(const Stage *s)
{
    for (int i = 1; i < s->ngrid; i++) {
        int64_t lo, hi;
        if (!node_bounds(s->grid[i], &lo, &hi) || hi > MAX_GRID_YZ) return false;
    }
    return true;
}

bool cuda_stage(const Kernel *k, const Stage *s, CudaStage *out, Diag *d)
{
    *out = (CudaStage){.nthread = 1};
    Loc loc = s->block ? s->block->loc : k->loc;
    if (s->block && s->block->kind != N_INT) {
        diag_error(d, loc, "the threads of a block must be known at compile time");
        return false;
    }
    int64_t n = s->block ? s->block->u.i : 1;
    if (n < 1 || n > CUDA_MAX_THREADS) {
        diag_error(d, loc, "a block of %lld threads; at most %d", (long long)n, CUDA_MAX_THREADS);
        return false;
    }
    for (int i = 0; i < s->memory.n; i++) {
        const Buffer *b = s->memory.at[i];
        if (b->space != SPACE_SHARED) {
            diag_error(d, b->loc, "%s memory does not exist on a GPU", space_name[b->space]);
            return false;
        }
    }
    int64_t bytes = stage_shared_bytes(s);
    if (bytes > k->target.shared_bytes) {
        diag_error(d, k->loc, "%lld bytes of shared memory; a block of %s has %lld",
                   (long long)bytes, k->target.arch, (long long)k->target.shared_bytes);
        return false;
    }
    out->nthread = (int)n;
    out->shared_bytes = bytes > STATIC_SHARED_BYTES ? bytes : 0;
    out->linear_grid = !grid_fits(s);
    out->cooperative = uses(s->body, INTR_GRID_BARRIER);
    out->overlaps = cuda_arch_number(k->target.arch) >= 90 && !out->cooperative;
    return true;
}

// ---- memory

static bool has_alias(const Kernel *k, const Buffer *b)
{
    if (b->alias) return true;
    for (int i = 0; i < k->params.n; i++)
        if (k->params.at[i]->alias == b) return true;
    for (int i = 0; i < k->workspace.n; i++)
        if (k->workspace.at[i]->alias == b) return true;
    return false;
}

static void emit_pointer(Emit *e, const Buffer *b)
{
    bool reads = b->space == SPACE_GLOBAL && !b->output;
    emit_line(e, e->kernel->loc);
    buf_printf(e->out, "    %s%s *%s", reads ? "const " : "", emit_storage_type(b->type),
               has_alias(e->kernel, b) ? "" : "__restrict__ ");
    emit_buffer_name(e, b);
}

static const char *element_type(const Buffer *b)
{
    return b->is_mbarrier ? "uint64_t" : emit_storage_type(b->type);
}

static void emit_shared(Emit *e)
{
    const Stage *s = e->stage;
    bool dynamic = e->cuda->stage.shared_bytes > 0;
    int64_t end = 0;
    if (dynamic) buf_puts(e->out, "    extern __shared__ __align__(1024) uint8_t h_shared[];\n");
    for (int i = 0; i < s->memory.n; i++) {
        const Buffer *b = s->memory.at[i];
        emit_line(e, b->loc);
        buf_puts(e->out, "    ");
        if (!b->alias && !dynamic) {
            buf_printf(e->out, "__shared__ __align__(%lld) %s ",
                       (long long)max_i64(b->align_bytes, SHARED_ALIGN), element_type(b));
            emit_buffer_name(e, b);
            buf_printf(e->out, "[%lld];\n", (long long)max_i64(b->extent[0]->u.i, 1));
            continue;
        }
        buf_printf(e->out, "%s *const ", element_type(b));
        emit_buffer_name(e, b);
        if (b->alias) {
            buf_printf(e->out, " = (%s *)", element_type(b));
            emit_buffer_name(e, b->alias);
            buf_puts(e->out, ";\n");
            continue;
        }
        buf_printf(e->out, " = (%s *)(h_shared + %lld);\n", element_type(b),
                   (long long)shared_begin(b, &end));
    }
}

static void emit_mbarriers(Emit *e)
{
    const Stage *s = e->stage;
    bool any = false;
    for (int i = 0; i < s->memory.n; i++) {
        const Buffer *b = s->memory.at[i];
        if (!b->is_mbarrier || b->alias) continue;
        any = true;
        buf_printf(e->out,
                   "    for (int i = threadIdx.x; i < %lld; i += %d) "
                   "asm volatile(\"mbarrier.init.shared.b64 [%%0], %%1;\" :: "
                   "\"r\"((uint32_t)__cvta_generic_to_shared(&",
                   (long long)b->extent[0]->u.i, e->cuda->stage.nthread);
        emit_buffer_name(e, b);
        buf_printf(e->out, "[i])), \"r\"(%lld) : \"memory\");\n", (long long)b->arrivals);
    }
    if (!any) return;
    if (cuda_arch(e) >= 90)
        buf_puts(e->out,
                 "    asm volatile(\"fence.mbarrier_init.release.cluster;\" ::: \"memory\");\n");
    buf_puts(e->out, "    __syncthreads();\n");
}

// ---- the stage function

static void emit_define(Emit *e, const Var *v)
{
    emit_line(e, e->kernel->loc);
    buf_printf(e->out, "    const %s ", emit_var_type(e, v));
    emit_var_name(e, v);
    buf_puts(e->out, " = ");
}

static void emit_block_var(Emit *e, int axis)
{
    const Stage *s = e->stage;
    const Var *v = s->builtin[VAR_BLOCK_X + axis];
    if (!v) return;
    emit_define(e, v);
    if (axis >= s->ngrid) {
        buf_puts(e->out, "0;\n");
    } else if (!e->cuda->stage.linear_grid) {
        buf_printf(e->out, "blockIdx.%c;\n", "xyz"[axis]);
    } else {
        buf_puts(e->out, "(int32_t)blockIdx.x");
        for (int i = axis + 1; i < s->ngrid; i++) {
            buf_puts(e->out, " / ");
            emit_scalar(e, s->grid[i]);
        }
        if (axis > 0) {
            buf_puts(e->out, " % ");
            emit_scalar(e, s->grid[axis]);
        }
        buf_puts(e->out, ";\n");
    }
}

// What is known of an address lets the compiler move neighbouring elements at once.
static void emit_alignment(Emit *e, const Buffer *b)
{
    int64_t align = b->align_bytes;
    if (b->space == SPACE_WORKSPACE) align = max_i64(align, WORKSPACE_ALIGN);
    if (align <= (int64_t)dtype_size(b->type)) return;
    emit_line(e, e->kernel->loc);
    buf_puts(e->out, "    ");
    emit_buffer_name(e, b);
    buf_printf(e->out, " = (%s%s *)__builtin_assume_aligned(",
               b->space == SPACE_GLOBAL && !b->output ? "const " : "", emit_storage_type(b->type));
    emit_buffer_name(e, b);
    buf_printf(e->out, ", %lld);\n", (long long)align);
}

static void emit_vars(Emit *e)
{
    const Kernel *k = e->kernel;
    for (int i = 0; i < k->params.n; i++) emit_alignment(e, k->params.at[i]);
    for (int i = 0; i < k->workspace.n; i++) emit_alignment(e, k->workspace.at[i]);
    for (int i = 0; i < k->dims.n; i++) {
        emit_define(e, k->dims.at[i]);
        buf_printf(e->out, "h_dim%d;\n", i);
    }
    for (int axis = 0; axis < KERNEL_MAX_GRID; axis++) emit_block_var(e, axis);
    if (!e->stage->builtin[VAR_THREAD]) return;
    emit_define(e, e->stage->builtin[VAR_THREAD]);
    buf_puts(e->out, "threadIdx.x;\n");
}

static void emit_signature(Emit *e, bool has_checks)
{
    const Kernel *k = e->kernel;
    const Stage *s = e->stage;
    const char *comma = "";
    buf_putc(e->out, '\n');
    emit_line(e, k->loc);
    buf_puts(e->out, "extern \"C\" __global__ void ");
    if (s->cluster && s->cluster->kind == N_INT && s->cluster->u.i > 1)
        buf_printf(e->out, "__cluster_dims__(%lld, 1, 1) ", (long long)s->cluster->u.i);
    // Asked for one block, the assembler spills nothing to make room for more.
    buf_printf(e->out, "__launch_bounds__(%d, 1)\n%s_%s(\n", e->cuda->stage.nthread, k->name,
               s->name);
    for (int i = 0; i < k->params.n + k->workspace.n; i++) {
        buf_puts(e->out, comma);
        emit_pointer(e, i < k->params.n ? k->params.at[i] : k->workspace.at[i - k->params.n]);
        comma = ",\n";
    }
    for (int i = 0; i < k->dims.n; i++) {
        buf_printf(e->out, "%s    int64_t h_dim%d", comma, i);
        comma = ",\n";
    }
    if (has_checks) buf_printf(e->out, "%s    uint32_t *h_failed", comma);
    buf_puts(e->out, ")\n{\n");
    emit_line(e, k->loc);
}

// What comes before does not depend on memory, and so may run while the kernel before this one
// ends. That the next one may start is said by the end of each block: said earlier, its blocks
// would take places that branches beside it could use (measured: 148 us for 116 us), and that the
// kernel after it spreads over unevenly where there are no branches (BERT in f16: 511 us for 440).
static void emit_wait_for_grid(Emit *e)
{
    if (e->cuda->stage.overlaps)
        buf_puts(e->out, "    asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");\n");
}

static void note_defines(Emit *e, Node *n)
{
    if (n->kind == N_DEFINE) map_put(e->arena, &e->cuda->defined, n->u.var, KID(n, DEFINE, value));
    for (uint32_t i = 0; i < n->nkid; i++)
        if (n->kid[i]) note_defines(e, n->kid[i]);
}

static void emit_stage(Emit *e, bool has_checks)
{
    const Stage *s = e->stage;
    CudaRole *all = NEW(e->arena, CudaRole);
    all->size = e->cuda->stage.nthread;
    for (int i = 0; i < all->size; i++) all->member[i] = true;
    e->cuda->role = all;
    e->cuda->defined = (Map){0};
    e->cuda->nbarrier = 0;
    e->cuda->may_leave = !threads_meet(s->body);
    note_defines(e, s->body);
    emit_signature(e, has_checks);
    emit_vars(e);
    emit_shared(e);
    emit_mbarriers(e);
    emit_wait_for_grid(e);
    e->indent = 1;
    emit_statements(e, s->body->kid, s->body->nkid);
    emit_line(e, e->kernel->loc);
    buf_puts(e->out, "}\n");
}

// NVRTC knows no names of fixed width; nvcc has them.
static void emit_types(Buf *out)
{
    buf_puts(out, "#ifdef __CUDACC_RTC__\n");
    for (int t = 1; t < DT_COUNT; t++)
        if (dtype_is_int((DType)t) && dtypes[t].bits >= 8)
            buf_printf(out, "typedef %s %s;\n", dtypes[t].cuda, dtypes[t].c);
    buf_puts(out, "#define INT32_MIN (-0x7fffffff - 1)\n"
                  "#define INT64_MIN (-0x7fffffffffffffffLL - 1)\n"
                  "#define UINT64_MAX 0xffffffffffffffffull\n"
                  "#define INT64_C(x) x##ll\n#define UINT64_C(x) x##ull\n"
                  "#else\n#include <stdint.h>\n#endif\n");
}

bool codegen_cuda(const Kernel *k, const Sources *lines, Buf *out, Diag *d)
{
    int before = d->nerror;
    Loc unused;
    Buf text;
    buf_init(&text, k->arena);
    struct CudaState state = {.arch = cuda_arch_number(k->target.arch)};
    Emit e = {.dialect = &dialect_cuda,
              .arena = k->arena,
              .kernel = k,
              .lines = lines,
              .diag = d,
              .out = &text,
              .cuda = &state};
    buf_init(&e.helpers, k->arena);
    e.names = interner_new(k->arena);
    bool has_checks = codegen_check_message(k, 1, &unused) != NULL;
    for (int i = 0; i < k->stages.n; i++) {
        e.stage = k->stages.at[i];
        if (cuda_stage(k, e.stage, &state.stage, d)) emit_stage(&e, has_checks);
    }
    buf_printf(out, "// %s, made by Heald from the template %s. Compile with --fmad=false.\n",
               k->name, k->template_name ? k->template_name : "?");
    emit_types(out);
    buf_puts(out, buf_text(&e.helpers));
    buf_puts(out, buf_text(&text));
    return d->nerror == before;
}
