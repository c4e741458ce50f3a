// SPDX-License-Identifier: Apache-2.0
// The CUDA dialect of the emitter: what numbers, small functions and conversions look like there.
#include "codegen/cuda_emit.h"

#include <math.h>
#include <string.h>

static const Helper cuda_rows[] = {
#define HELPER(name, types, split, result, parameters, body) \
    {#name, types, split, result, parameters, body},
#include "codegen/cuda_helpers.def"
#undef HELPER
};

static void number(Emit *e, DType t, double v)
{
    const char *sign = !isnan(v) && v < 0 ? "-" : "";
    if (t == DT_F64)
        buf_printf(e->out, "(%s__longlong_as_double(0x%sLL))", sign,
                   isnan(v) ? "7ff8000000000000" : "7ff0000000000000");
    else buf_printf(e->out, "(%s__uint_as_float(0x%su))", sign, isnan(v) ? "7fc00000" : "7f800000");
}

// ---- bodies: NaN wins in min and max, and -0 is before +0, as PTX has it for min and max too

static const char *minmax(const Emit *e, DType t, const char *name)
{
    if (t == DT_F64 || cuda_arch(e) < 80)
        return arena_printf(e->arena, "if (a != a || b != b) return a + b;\nreturn f%s$f(a, b);",
                            name);
    return arena_printf(e->arena,
                        "float r;\nasm(\"%s.NaN.f32 %%0, %%1, %%2;\" : \"=f\"(r) : \"f\"(a), "
                        "\"f\"(b));\nreturn r;",
                        name);
}

// The compiler moves no loads and stores over inline assembly, which would keep neighbours apart;
// so
// conversions are functions of its own library, or integers.
static const char *load_half(Emit *e, DType t)
{
    if (t == DT_BF16) return "return __uint_as_float((uint32_t)h << 16);";
    if (emit_first_time(e, "__nv_half2float"))
        buf_puts(&e->helpers, "extern \"C\" __device__ float __nv_half2float(uint16_t);\n");
    return "return __nv_half2float(h);";
}

static const char *store_half(Emit *e, DType t)
{
    if (t == DT_BF16)
        return "uint32_t u = __float_as_uint(x);\n"
               "return (uint16_t)(x != x ? u >> 16 | 0x40 : (u + 0x7FFF + (u >> 16 & 1)) >> 16);";
    if (emit_first_time(e, "__nv_float2half_rn"))
        buf_puts(&e->helpers, "extern \"C\" __device__ uint16_t __nv_float2half_rn(float);\n");
    return "return __nv_float2half_rn(x);";
}

// Rounding to odd first makes the second rounding the only one that counts (Boldo and Melquiond
// 2008).
static const char *narrow_half(DType t)
{
    if (t == DT_F16)
        return "uint16_t r;\nasm(\"cvt.rn.f16.f64 %0, %1;\" : \"=h\"(r) : \"d\"(x));\n"
               "return @{load}(r);";
    return "float f = (float)x;\nuint32_t u = __float_as_uint(f);\n"
           "if (x == x && (double)f != x && !(u & 1)) f = __uint_as_float(u + (fabs((double)f) > "
           "fabs(x) ? -1 : 1));\n"
           "return @{round}(f);";
}

static const char *body(Emit *e, const char *what, DType t)
{
    if (!strcmp(what, "@MIN")) return minmax(e, t, "min");
    if (!strcmp(what, "@MAX")) return minmax(e, t, "max");
    if (dtype_small_float(t)) return emit_small_float(e, what, t);
    if (!strcmp(what, "@HALF_LOAD")) return load_half(e, t);
    if (!strcmp(what, "@HALF_STORE")) return store_half(e, t);
    return narrow_half(t);
}

// ---- conversions

// cvt.rzi clamps to the range of the result.
static void float_to_int(Buf *out, DType from, DType to)
{
    static const struct {
        DType to;
        const char *name;
    } wide[] = {{DT_I32, "int"}, {DT_U32, "uint"}, {DT_I64, "ll"}, {DT_U64, "ull"}};
    const char *source = from == DT_F64 ? "double" : "float";
    for (size_t i = 0; i < COUNT(wide); i++) {
        if (wide[i].to != to) continue;
        buf_printf(out, "    return x != x ? 0 : __%s2%s_rz(x);\n", source, wide[i].name);
        return;
    }
    bool is_signed = dtypes[to].class == DC_INT;
    int top = (1 << (dtypes[to].bits - is_signed)) - 1, low = is_signed ? -top - 1 : 0;
    buf_printf(out, "    int v = x != x ? 0 : __%s2int_rz(x);\n", source);
    buf_printf(out, "    return (%s)(v < %d ? %d : v > %d ? %d : v);\n", dtypes[to].c, low, low,
               top, top);
}

static void int_to_f16(Emit *e, Buf *out, DType from)
{
    bool wide = dtypes[from].bits == 64, is_signed = dtypes[from].class != DC_UINT;
    buf_printf(out, "    %s v = x;\n    uint16_t r;\n",
               wide        ? dtypes[from].c
               : is_signed ? "int"
                           : "unsigned");
    buf_printf(out, "    asm(\"cvt.rn.f16.%c%d %%0, %%1;\" : \"=h\"(r) : \"%c\"(v));\n",
               is_signed ? 's' : 'u', wide ? 64 : 32, wide ? 'l' : 'r');
    buf_printf(out, "    return %s(r);\n", emit_helper(e, "load", DT_F16, 1));
}

static bool cast(Emit *e, Buf *out, DType from, DType to)
{
    bool to_int = dtype_is_int(to), from_int = dtype_is_int(from) || from == DT_BOOL;
    if (dtype_is_float(from) && to_int) float_to_int(out, from, to);
    else if (from_int && to == DT_F16) int_to_f16(e, out, from);
    else return false;
    return true;
}

static void vector_type(Emit *e, DType t, int lanes, const char *name)
{
    int64_t align = cuda_vector_align(t, lanes);
    buf_printf(&e->helpers, "struct __align__(%lld) %s {\n    %s v[%d];\n};\n", (long long)align,
               name, dtypes[t].c, lanes);
}

int64_t cuda_vector_align(DType t, int lanes)
{
    int64_t bytes = (int64_t)dtype_size(t) * lanes, align = bytes & -bytes;
    return min_i64(align, 16);
}

const Dialect dialect_cuda = {
    .name = "CUDA",
    .function = "static __device__ __forceinline__",
    .helpers = cuda_rows,
    .nhelper = COUNT(cuda_rows),
    .narrow_indices = true,
    .local = "__align__(16)",
    .unroll = "#pragma unroll",
    .number = number,
    .body = body,
    .cast = cast,
    .vector_type = vector_type,
    .vector = cuda_vector,
    .vector_store = cuda_vector_store,
    .intrinsic = cuda_intrinsic,
    .statement = cuda_statement,
    .together = cuda_together,
    .warp_mask = cuda_warp_mask,
};
