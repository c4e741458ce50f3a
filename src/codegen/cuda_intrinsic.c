// SPDX-License-Identifier: Apache-2.0
// Intrinsics as CUDA: the text of the row, or one of the functions below that it names with @.
#include "codegen/cuda_emit.h"
#include "passes/arith.h"

#include <string.h>

static DType place_type(Node *n)
{
    return REST(n)[0]->u.buf->type;
}

// ---- atomics: the type that the hardware's function takes is cast to and back

static void atomic(Emit *e, Node *n)
{
    const char *function = n->u.intr->cuda + 1;
    DType t = place_type(n);
    bool max = !strcmp(function, "atomicMax");
    const char *as = dtypes[t].c;
    if (t == DT_I64 || t == DT_U64) as = max && t == DT_I64 ? "long long" : "unsigned long long";
    bool known = (dtype_is_int(t) && dtypes[t].bits >= 32) ||
                 (!strcmp(function, "atomicAdd") && (t == DT_F32 || t == DT_F64));
    if (!known) {
        diag_error(e->diag, n->loc, "%s is not defined on %s on a GPU", n->u.intr->name,
                   dtypes[t].name);
        return;
    }
    buf_printf(e->out, "(%s)%s((%s *)", dtypes[t].c, function, as);
    emit_place(e, REST(n)[0]);
    for (int i = 1; i < NREST(n); i++) {
        buf_printf(e->out, ", (%s)", as);
        emit_scalar(e, REST(n)[i]);
    }
    buf_putc(e->out, ')');
}

// ---- warps and barriers

void cuda_warp_mask(Emit *e)
{
    int n = e->cuda->stage.nthread, rest = n % CUDA_WARP;
    uint32_t last = (UINT32_C(1) << rest) - 1;
    if (!rest) buf_puts(e->out, "0xffffffffu");
    else if (n < CUDA_WARP) buf_printf(e->out, "0x%xu", last);
    else buf_printf(e->out, "(threadIdx.x < %d ? 0xffffffffu : 0x%xu)", n - rest, last);
}

static void role_barrier(Emit *e, Node *n)
{
    const CudaRole *r = e->cuda->role;
    if (!r->barrier) {
        buf_puts(e->out, "__syncthreads()");
        return;
    }
    if (r->size % CUDA_WARP)
        diag_error(e->diag, n->loc, "a barrier in a role of %d threads: they must be whole warps",
                   r->size);
    buf_printf(e->out, "asm volatile(\"barrier.sync %d, %d;\" ::: \"memory\")", r->barrier,
               r->size);
}

// Numbers that are known are said as such: the assembler then knows which barriers there are.
static void named_barrier(Emit *e, Node *n)
{
    Node *const *arg = REST(n);
    int nregister = 0;
    buf_puts(e->out, "asm volatile(\"barrier.sync ");
    for (int i = 0; i < 2; i++) {
        buf_puts(e->out, i ? ", " : "");
        if (arg[i]->kind == N_INT) buf_printf(e->out, "%d", (int)arg[i]->u.i);
        else buf_printf(e->out, "%%%d", nregister++);
    }
    buf_puts(e->out, ";\" :");
    for (int i = 0, k = 0; i < 2; i++) {
        if (arg[i]->kind == N_INT) continue;
        buf_puts(e->out, k++ ? ", \"r\"((int)" : ": \"r\"((int)");
        emit_scalar(e, arg[i]);
        buf_putc(e->out, ')');
    }
    buf_puts(e->out, nregister ? " : \"memory\")" : ":: \"memory\")");
}

// Blocks add up to 2^31, so that each round flips the top bit and leaves the rest at 0.
static void grid_barrier(Emit *e, Node *n)
{
    UNUSED(n);
    e->cuda->grid_barrier = true;
    if (emit_first_time(e, "h_grid_barrier"))
        buf_puts(
            &e->helpers,
            "__device__ uint32_t h_grid_arrived;\n"
            "static __device__ void h_grid_barrier()\n{\n"
            "    __syncthreads();\n"
            "    if (threadIdx.x == 0) {\n"
            "        bool first = blockIdx.x == 0 && blockIdx.y == 0 && blockIdx.z == 0;\n"
            "        uint32_t others = gridDim.x * gridDim.y * gridDim.z - 1;\n"
            "        __threadfence();\n"
            "        uint32_t old = atomicAdd(&h_grid_arrived, first ? 0x80000000u - others : 1);\n"
            "        while (!((old ^ *(volatile uint32_t *)&h_grid_arrived) & 0x80000000u)) "
            "continue;\n"
            "        __threadfence();\n    }\n"
            "    __syncthreads();\n}\n");
    buf_puts(e->out, "h_grid_barrier()");
}

// ---- asynchronous copies and mbarriers

// Places that differ by a constant share the rest, so that instructions have it as their offset.
void cuda_shared_address(Emit *e, Node *ref)
{
    int64_t constant = 0;
    Node *index = REST(ref)[0], *lo = index->kind == N_SPAN ? KID(index, SPAN, lo) : index;
    Node *rest = arith_split(e->arena, lo, &constant);
    Node *place = arena_copy(e->arena, ref, sizeof *ref + ref->nkid * sizeof(Node *));
    REST(place)[0] = rest ? rest : node_i64(e->arena, 0);
    buf_puts(e->out, "\"r\"((uint32_t)__cvta_generic_to_shared(");
    emit_place(e, place);
    buf_puts(e->out, ")");
    if (constant)
        buf_printf(e->out, " + %lld", (long long)(constant * buffer_element_bytes(ref->u.buf)));
    buf_puts(e->out, ")");
}

static void global_address(Emit *e, Node *ref)
{
    buf_puts(e->out, "\"l\"(__cvta_generic_to_global(");
    emit_place(e, ref);
    buf_puts(e->out, "))");
}

static int64_t place_elements(Node *ref)
{
    Node *index = REST(ref)[0];
    if (index->kind != N_SPAN) return 1;
    Node *len = KID(index, SPAN, len);
    return len->kind == N_INT ? len->u.i : -1;
}

static bool is_shared(Node *ref)
{
    return ref->u.buf->space == SPACE_SHARED;
}

// A copy with a cache policy. The assembler of CUDA 13.0 forgets the registers of policy and offset
// where the place in shared memory is a thread's own plus an offset that all threads share. So it
// is not to see such a sum: each lane adds 31 - (lanes above it + its number), that is 0, by xor.
static const char before_copy_once[] =
    "{ .reg .b64 p; .reg .b32 a, l; createpolicy.fractional.L2::evict_first.b64 p, 1.0; "
    "mov.u32 a, %%lanemask_gt; popc.b32 a, a; mov.u32 l, %%laneid; add.u32 a, a, l; "
    "xor.b32 a, a, 31; xor.b32 a, a, %0; ";

// Before sm_80 the thread copies at once, and nothing is pending.
static bool copies_later(const Emit *e)
{
    return cuda_arch(e) >= 80;
}

static void copy_at_once(Emit *e, Node *to, Node *from, int64_t bytes, Node *count)
{
    const char *name = arena_printf(e->arena, "h_copy_%d", (int)bytes);
    if (emit_first_time(e, name))
        buf_printf(&e->helpers,
                   "static __device__ __forceinline__ void %s(void *to, const void *from, int n)\n"
                   "{\n    struct __align__(%d) Piece {\n        uint32_t v[%d];\n    };\n"
                   "    if (n == %d) {\n        *(Piece *)to = *(const Piece *)from;\n"
                   "        return;\n    }\n    for (int i = 0; i < %d; i++)\n"
                   "        ((uint8_t *)to)[i] = i < n ? ((const uint8_t *)from)[i] : 0;\n}\n",
                   name, (int)bytes, (int)bytes / 4, (int)bytes, (int)bytes);
    buf_printf(e->out, "%s(", name);
    emit_place(e, to);
    buf_puts(e->out, ", ");
    emit_place(e, from);
    buf_puts(e->out, ", ");
    if (!count) {
        buf_printf(e->out, "%d)", (int)bytes);
        return;
    }
    buf_puts(e->out, "(int)(");
    emit_scalar(e, count);
    buf_printf(e->out, " * %d))", (int)dtype_size(to->u.buf->type));
}

static void cp_async(Emit *e, Node *n)
{
    Node *to = REST(n)[is_shared(REST(n)[0]) ? 0 : 1],
         *from = REST(n)[is_shared(REST(n)[0]) ? 1 : 0];
    int64_t bytes = place_elements(to) * (int64_t)dtype_size(to->u.buf->type);
    if (!is_shared(to) || (bytes != 4 && bytes != 8 && bytes != 16)) {
        diag_error(e->diag, n->loc,
                   "cp_async copies 4, 8 or 16 bytes from global to shared memory");
        return;
    }
    bool once = intrinsic_id(n->u.intr) == INTR_CP_ASYNC_ONCE;
    bool part = once || intrinsic_id(n->u.intr) == INTR_CP_ASYNC_PART;
    if (!copies_later(e)) {
        copy_at_once(e, to, from, bytes, part ? REST(n)[2] : NULL);
        return;
    }
    // Whole 16 bytes may bypass L1.
    buf_printf(e->out, "asm volatile(\"%scp.async.%s.shared.global%s [%s], [%%1], %lld%s%s\" :: ",
               once ? before_copy_once : "", bytes == 16 ? "cg" : "ca",
               once ? ".L2::cache_hint" : "", once ? "a" : "%0", (long long)bytes,
               part ? ", %2" : "", once ? ", p; }" : ";");
    cuda_shared_address(e, to);
    buf_puts(e->out, ", ");
    global_address(e, from);
    if (part) {
        buf_puts(e->out, ", \"r\"((uint32_t)(");
        emit_scalar(e, REST(n)[2]);
        buf_printf(e->out, " * %d))", (int)dtype_size(to->u.buf->type));
    }
    buf_puts(e->out, " : \"memory\")");
}

static void cp_async_commit(Emit *e, Node *n)
{
    UNUSED(n);
    buf_puts(e->out, copies_later(e) ? "asm volatile(\"cp.async.commit_group;\" ::: \"memory\")"
                                     : "(void)0");
}

static void cp_async_wait(Emit *e, Node *n)
{
    Node *pending = REST(n)[0];
    if (pending->kind != N_INT || pending->u.i < 0) {
        diag_error(e->diag, n->loc,
                   "cp_async_wait: how many may be pending must be known at compile time");
        return;
    }
    if (!copies_later(e)) buf_puts(e->out, "(void)0");
    else
        buf_printf(e->out, "asm volatile(\"cp.async.wait_group %lld;\" ::: \"memory\")",
                   (long long)pending->u.i);
}

static void bulk_load(Emit *e, Node *n)
{
    bool first = is_shared(REST(n)[0]);
    Node *to = REST(n)[first ? 0 : 1], *from = REST(n)[first ? 1 : 0];
    Node *span = REST(to)[0];
    buf_puts(e->out,
             "asm volatile(\"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
             "[%0], [%1], %2, [%3];\" :: ");
    cuda_shared_address(e, to);
    buf_puts(e->out, ", ");
    global_address(e, from);
    buf_puts(e->out, ", \"r\"((uint32_t)(");
    if (span->kind == N_SPAN) emit_scalar(e, KID(span, SPAN, len));
    else buf_puts(e->out, "1");
    buf_printf(e->out, " * %d)), ", (int)dtype_size(to->u.buf->type));
    cuda_shared_address(e, REST(n)[2]);
    buf_puts(e->out, " : \"memory\")");
}

static void arrive(Emit *e, Node *n)
{
    buf_puts(e->out,
             "asm volatile(\"{\\n.reg .b64 t;\\nmbarrier.arrive.shared.b64 t, [%0];\\n}\" :: ");
    cuda_shared_address(e, REST(n)[0]);
    buf_puts(e->out, " : \"memory\")");
}

static void expect(Emit *e, Node *n)
{
    buf_puts(e->out, "asm volatile(\"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\" :: ");
    cuda_shared_address(e, REST(n)[0]);
    buf_puts(e->out, ", \"r\"((uint32_t)");
    emit_scalar(e, REST(n)[1]);
    buf_puts(e->out, ") : \"memory\")");
}

static void wait_phase(Emit *e, Node *n)
{
    const char *name = cuda_arch(e) >= 90 ? "try_wait" : "test_wait";
    if (emit_first_time(e, "h_mbarrier_wait"))
        buf_printf(&e->helpers,
                   "static __device__ __forceinline__ void h_mbarrier_wait(const void *p, uint32_t "
                   "parity)\n{\n    uint32_t done;\n    do {\n"
                   "        asm volatile(\"{\\n.reg .pred p;\\n"
                   "mbarrier.%s.parity.shared.b64 p, [%%1], %%2;\\nselp.u32 %%0, 1, 0, p;\\n}\"\n"
                   "            : \"=r\"(done) : \"r\"((uint32_t)__cvta_generic_to_shared(p)), "
                   "\"r\"(parity) : \"memory\");\n    } while (!done);\n}\n",
                   name);
    buf_puts(e->out, "h_mbarrier_wait(");
    emit_place(e, REST(n)[0]);
    buf_puts(e->out, ", (uint32_t)");
    emit_scalar(e, REST(n)[1]);
    buf_puts(e->out, " & 1)");
}

// ---- print and asm

// One call for all values, so that threads do not cut each other's lines.
static void print(Emit *e, Node *n)
{
    Buf format, values;
    buf_init(&format, e->arena);
    buf_init(&values, e->arena);
    for (int i = 0; i < NREST(n); i++) {
        Node *x = REST(n)[i];
        if (i) buf_putc(&format, ' ');
        if (x->kind == N_STRING) {
            for (const char *c = x->u.sym; *c; c++) {
                if (*c == '%') buf_putc(&format, '%');
                buf_putc(&format, *c);
            }
            continue;
        }
        bool is_float = dtype_is_float((DType)x->type);
        buf_puts(&format, is_float             ? x->type == DT_F64 ? "%.17g" : "%.9g"
                          : x->type == DT_BOOL ? "%s"
                          : x->type == DT_U64  ? "%llu"
                                               : "%lld");
        buf_puts(&values, is_float ? ", (double)" : x->type == DT_BOOL ? ", (" : ", (long long)");
        Buf *out = e->out;
        e->out = &values;
        emit_scalar(e, x);
        e->out = out;
        if (x->type == DT_BOOL) buf_puts(&values, " ? \"true\" : \"false\")");
    }
    buf_putc(&format, '\n');
    buf_puts(e->out, "printf(");
    emit_quoted(e, buf_text(&format));
    buf_printf(e->out, "%s)", buf_text(&values));
}

static void assembly(Emit *e, Node *n)
{
    if (NREST(n) != 1 || REST(n)[0]->kind != N_STRING) {
        emit_cannot(e, n, "asm with operands");
        return;
    }
    buf_puts(e->out, "asm volatile(");
    emit_quoted(e, REST(n)[0]->u.sym);
    buf_puts(e->out, " ::: \"memory\")");
}

// ---- the table

typedef void EmitIntrinsic(Emit *e, Node *n);

static EmitIntrinsic *const written[INTR_COUNT] = {
    [INTR_BARRIER] = role_barrier,
    [INTR_BARRIER_ID] = named_barrier,
    [INTR_GRID_BARRIER] = grid_barrier,
    [INTR_ATOMIC_ADD] = atomic,
    [INTR_ATOMIC_MAX] = atomic,
    [INTR_ATOMIC_CAS] = atomic,
    [INTR_CP_ASYNC] = cp_async,
    [INTR_CP_ASYNC_PART] = cp_async,
    [INTR_CP_ASYNC_ONCE] = cp_async,
    [INTR_MMA] = cuda_mma,
    [INTR_LDMATRIX_ROWS] = cuda_matrix_rows,
    [INTR_STMATRIX_ROWS] = cuda_matrix_rows,
    [INTR_CP_COMMIT] = cp_async_commit,
    [INTR_CP_WAIT] = cp_async_wait,
    [INTR_BULK_LOAD] = bulk_load,
    [INTR_ARRIVE] = arrive,
    [INTR_EXPECT] = expect,
    [INTR_WAIT] = wait_phase,
    [INTR_PRINT] = print,
    [INTR_ASM] = assembly,
};

// Small integers come back from int.
static void by_text(Emit *e, Node *n)
{
    bool narrow = dtype_is_int((DType)n->type) && dtypes[n->type].bits < 32;
    if (narrow) buf_printf(e->out, "(%s)", dtypes[n->type].c);
    emit_text(e, n, n->u.intr->cuda);
}

void cuda_intrinsic(Emit *e, const Node *node)
{
    Node *n = (Node *)node;
    const Intrinsic *intr = n->u.intr;
    if (intr->arch > cuda_arch(e)) {
        diag_error(e->diag, n->loc, "%s needs sm_%d, this kernel is for %s", intr->name, intr->arch,
                   e->kernel->target.arch);
        return;
    }
    EmitIntrinsic *f = written[intrinsic_id(intr)];
    if (f) f(e, n);
    else if (strchr(intr->flags, 'P')) emit_pure_intrinsic(e, n);
    else if (intr->cuda[0] && intr->cuda[0] != '@') by_text(e, n);
    else diag_error(e->diag, n->loc, "%s does not exist on a GPU", intr->name);
}
