// SPDX-License-Identifier: Apache-2.0
// Writes the rows of helpers.def that a file needs, for the types it needs, with natives.def put in
// front of loops. Dependencies are written first.
#include "codegen/emit.h"

#include <stdio.h>
#include <string.h>

static const Helper helper_rows[] = {
#define HELPER(name, types, split, result, parameters, body) \
    {#name, types, split, result, parameters, body},
#include "codegen/helpers.def"
#undef HELPER
};

static const struct Native {
    const char *name;
    DType type;
    int lanes;
    const char *condition, *text;
} native_rows[] = {
#define NATIVE(name, type, lanes, condition, text) {#name, DT_##type, lanes, condition, text},
#include "codegen/natives.def"
#undef NATIVE
};

// ---- vector types

// What a vector of t's values is made of, and what it is in memory.
DType emit_computed(DType t)
{
    if (dtype_is_int(t) && dtypes[t].bits < 8) return dtypes[t].class == DC_INT ? DT_I8 : DT_U8;
    return emit_is_short(t) ? DT_F32 : t == DT_BOOL ? DT_I32 : t;
}

DType emit_stored(DType t)
{
    if (dtypes[t].bits <= 8 && dtypes[t].class != DC_INT) return DT_U8;
    if (dtypes[t].bits < 8) return DT_I8;
    return emit_is_short(t) ? DT_U16 : t;
}

bool emit_first_time(Emit *e, const char *name)
{
    Sym s = intern(e->names, name);
    if (map_has(&e->seen, s)) return false;
    map_put(e->arena, &e->seen, s, e);
    return true;
}

const char *emit_plain_vector(Emit *e, DType t, int lanes)
{
    const char *name = arena_printf(e->arena, "%sx%d", dtypes[t].name, lanes);
    if (!emit_first_time(e, name)) return name;
    if (e->dialect->vector_type) {
        e->dialect->vector_type(e, t, lanes, name);
    } else {
        int size = (int)dtype_size(t);
        buf_printf(&e->helpers, "typedef %s %s __attribute__((vector_size(%d)));\n", dtypes[t].c,
                   name, size * lanes);
        buf_printf(&e->helpers, "typedef %s %su __attribute__((aligned(%d), may_alias));\n", name,
                   name, size);
    }
    return name;
}

const char *emit_vector_type(Emit *e, DType t, int lanes)
{
    return emit_plain_vector(e, emit_computed(t), lanes);
}

// ---- templates

static char class_letter(DType t)
{
    if (emit_is_short(t)) return 'h';
    static const char letters[] = {
        [DC_NONE] = '?', [DC_BOOL] = 'b', [DC_INT] = 'i', [DC_UINT] = 'u', [DC_FLOAT] = 'f'};
    return letters[dtypes[t].class];
}

static const Helper *find_row(const Emit *e, const char *name, DType t, int lanes)
{
    char wanted[3] = {class_letter(t), lanes > 1 ? 'v' : 's', 0};
    int own = e->dialect->nhelper;
    for (int i = 0; i < own + (int)COUNT(helper_rows); i++) {
        const Helper *h = i < own ? &e->dialect->helpers[i] : &helper_rows[i - own];
        if (!strcmp(h->name, name) && strstr(h->types, wanted)) return h;
    }
    return NULL;
}

static DType signed_like(DType t)
{
    static const DType by_log[] = {DT_I8, DT_I16, DT_I32, DT_I64};
    int log = 0;
    for (size_t size = dtype_size(emit_computed(t)); size > 1; size /= 2) log++;
    return by_log[log];
}

static void repeat(Buf *out, const char *text, size_t size, int lanes)
{
    for (int l = 0; l < lanes; l++) {
        if (l) buf_puts(out, ", ");
        buf_append(out, text, size);
    }
}

static void placeholder(Emit *e, Buf *out, char c, const char *own, DType t, int lanes)
{
    switch (c) {
    case 'F': buf_puts(out, own); break;
    case 'T': buf_puts(out, dtypes[emit_computed(t)].c); break;
    case 'V': buf_puts(out, emit_vector_type(e, t, lanes)); break;
    case 'K': buf_puts(out, emit_plain_vector(e, signed_like(t), lanes)); break;
    case 'Q': buf_printf(out, "uint%d_t", dtypes[emit_computed(t)].bits); break;
    case 'M': buf_puts(out, emit_plain_vector(e, DT_I32, lanes)); break;
    case 'X': buf_puts(out, emit_plain_vector(e, DT_I64, lanes)); break;
    case 'S': buf_puts(out, dtypes[emit_stored(t)].c); break;
    case 'W': buf_puts(out, emit_plain_vector(e, emit_stored(t), lanes)); break;
    case 'U': buf_printf(out, "%su", emit_plain_vector(e, emit_stored(t), lanes)); break;
    case 'L': buf_printf(out, "%d", lanes); break;
    case 'B': buf_printf(out, "%d", dtypes[t].bits); break;
    case 'f': buf_puts(out, t == DT_F64 ? "" : "f"); break;
    case 'I':
        for (int l = 0; l < lanes; l++) buf_printf(out, l ? ", %d" : "%d", l);
        break;
    default: BUG("placeholder $%c of a helper", c);
    }
}

// The text inside braces at s, which stands on '{'; the end is behind the closing one.
static const char *braced(const char *s, size_t *size)
{
    int depth = 0;
    const char *at = s;
    do {
        depth += (*at == '{') - (*at == '}');
        at++;
    } while (depth);
    *size = (size_t)(at - s) - 2;
    return at;
}

static void expand(Emit *e, Buf *out, const char *text, const char *own, DType t, int lanes)
{
    for (const char *s = text; *s; s++) {
        size_t size;
        if (s[0] == '$' && s[1] == 'R') {
            const char *end = braced(s + 2, &size);
            Buf inner;
            buf_init(&inner, e->arena);
            expand(e, &inner, arena_strndup(e->arena, s + 3, size), own, t, lanes);
            repeat(out, inner.text, inner.size, lanes);
            s = end - 1;
        } else if (s[0] == '$') {
            placeholder(e, out, *++s, own, t, lanes);
        } else if (s[0] == '@') {
            bool scalar = s[1] == 's';
            const char *end = braced(s + 1 + scalar, &size);
            const char *name = arena_strndup(e->arena, s + 2 + scalar, size);
            buf_puts(out, emit_helper(e, name, t, scalar ? 1 : lanes));
            s = end - 1;
        } else {
            buf_putc(out, *s);
            if (*s == '\n' && s[1] != '#') buf_puts(out, "    ");
        }
    }
}

// ---- f16 and bf16, whose layouts only differ in the widths of their fields

static const char half_load_f16[] =
    "uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, mantissa = h & 0x3FF;\n"
    "union { uint32_t u; float f; } r;\n"
    "if (exponent == 0) {\n    r.f = (float)mantissa * 0x1p-24f;\n    r.u |= sign;\n} else if "
    "(exponent == 31) {\n"
    "    r.u = sign | 0x7F800000 | mantissa << 13;\n} else {\n    r.u = sign | (exponent + 112) << "
    "23 | mantissa << 13;\n}\n"
    "return r.f;";
static const char half_load_bf16[] =
    "union { uint32_t u; float f; } r = {(uint32_t)h << 16};\nreturn r.f;";
static const char half_store_f16[] =
    "union { float f; uint32_t u; } b = {x};\n"
    "uint32_t sign = b.u >> 16 & 0x8000, magnitude = b.u & 0x7FFFFFFF;\n"
    "if (magnitude > 0x7F800000) return (uint16_t)(sign | 0x7E00 | (magnitude >> 13 & 0x3FF));\n"
    "if (magnitude >= 0x477FF000) return (uint16_t)(sign | 0x7C00);\n"
    "if (magnitude < 0x38800000) {\n"
    "    union { float f; uint32_t u; } small = {magnitude};\n"
    "    small.u = magnitude;\n    small.f += 0.5f;\n"
    "    return (uint16_t)(sign | (small.u - 0x3F000000));\n}\n"
    "return (uint16_t)(sign | ((magnitude - 0x38000000 + 0xFFF + (magnitude >> 13 & 1)) >> 13));";
static const char half_store_bf16[] =
    "union { float f; uint32_t u; } b = {x};\n"
    "if ((b.u & 0x7FFFFFFF) > 0x7F800000) return (uint16_t)(b.u >> 16 | 0x40);\n"
    "return (uint16_t)((b.u + 0x7FFF + (b.u >> 16 & 1)) >> 16);";
// Rounding to odd first makes the second rounding the only one that counts (Boldo & Melquiond
// 2008).
static const char half_narrow[] =
    "union { float f; uint32_t u; } r = {(float)x};\n"
    "if (x == x && (double)r.f != x && !(r.u & 1)) {\n"
    "    r.u += __builtin_fabs((double)r.f) > __builtin_fabs(x) ? -1 : 1;\n}\n"
    "return @{round}(r.f);";

// ---- floats of at most 8 bits

static const char *small_load(Emit *e, DType t)
{
    const SmallFloat *k = dtype_small_float(t);
    unsigned sign = 1u << (dtypes[t].bits - 1);
    Buf out;
    buf_init(&out, e->arena);
    buf_printf(&out, "uint32_t sign = (uint32_t)(h & %u) << %d, magnitude = h & %u;\n", sign,
               32 - dtypes[t].bits, sign - 1);
    buf_puts(&out, "union { uint32_t u; float f; } r;\n");
    if (k->no_minus) buf_printf(&out, "r.u = 0x7FC00000;\nif (h == %u) return r.f;\n", k->nan);
    else if (k->nan)
        buf_printf(&out, "r.u = 0x7FC00000;\nif (magnitude > %u) return r.f;\n",
                   k->infinity ? k->infinity : k->top);
    if (k->infinity)
        buf_printf(&out, "r.u = sign | 0x7F800000;\nif (magnitude == %u) return r.f;\n",
                   k->infinity);
    // A number of another bias, scaled; multiples of a power of two stay what they are.
    buf_printf(&out,
               "if (magnitude < %u) {\n    r.f = (float)magnitude * 0x1p%df;\n    r.u |= sign;\n"
               "} else {\n    r.u = sign | ((magnitude << %d) + 0x%X);\n}\nreturn r.f;",
               1u << k->nman, 1 - k->bias - k->nman, 23 - k->nman,
               (127u - (unsigned)k->bias) << 23);
    return buf_text(&out);
}

static uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

// To nearest even, and beyond the largest number to that. Adding a power of two whose last bit
// counts the smallest numbers rounds what lies below the normal ones.
static const char *small_store(Emit *e, DType t)
{
    const SmallFloat *k = dtype_small_float(t);
    uint8_t top = k->top;
    uint32_t limit = bits_of((float)dtype_load_f64(t, &top));
    int drop = 23 - k->nman, power = 24 - k->bias - k->nman;
    Buf out;
    buf_init(&out, e->arena);
    buf_printf(&out,
               "union { float f; uint32_t u; } b = {x}, small;\n"
               "uint32_t sign = b.u >> %d & %u, magnitude = b.u & 0x7FFFFFFF, code;\n"
               "if (magnitude > 0x7F800000) return %u;\n",
               32 - dtypes[t].bits, 1u << (dtypes[t].bits - 1), k->nan);
    if (k->infinity)
        buf_printf(&out, "if (magnitude == 0x7F800000) return (uint8_t)(sign | %u);\n",
                   k->infinity);
    buf_printf(&out, "if (magnitude >= 0x%X) return (uint8_t)(sign | %u);\n", limit, k->top);
    buf_printf(&out,
               "if (magnitude < 0x%X) {\n    small.u = magnitude;\n    small.f += 0x1p%df;\n"
               "    code = small.u - 0x%X;\n} else {\n"
               "    code = (magnitude - 0x%X + 0x%X + (magnitude >> %d & 1)) >> %d;\n}\n",
               (128u - (unsigned)k->bias) << 23, power, (127u + (unsigned)power) << 23,
               (127u - (unsigned)k->bias) << 23, (1u << (drop - 1)) - 1, drop, drop);
    buf_puts(&out, k->no_minus ? "return (uint8_t)(code ? sign | code : 0);"
                               : "return (uint8_t)(sign | code);");
    return buf_text(&out);
}

const char *emit_small_float(Emit *e, const char *what, DType t)
{
    if (!strcmp(what, "@HALF_LOAD")) return small_load(e, t);
    return strcmp(what, "@HALF_STORE") ? half_narrow : small_store(e, t);
}

static const char *special(Emit *e, const char *body, DType t)
{
    bool named = body[0] == '@' && body[1] >= 'A' && body[1] <= 'Z';
    if (named && e->dialect->body) return e->dialect->body(e, body, t);
    if (named && dtype_small_float(t)) return emit_small_float(e, body, t);
    if (!strcmp(body, "@HALF_LOAD")) return t == DT_F16 ? half_load_f16 : half_load_bf16;
    if (!strcmp(body, "@HALF_STORE")) return t == DT_F16 ? half_store_f16 : half_store_bf16;
    if (!strcmp(body, "@HALF_NARROW")) return half_narrow;
    return body;
}

// ---- writing a function

// Both halves of each argument by the helper for half the lanes.
static void expand_halves(Emit *e, Buf *out, const Helper *h, DType t, int lanes)
{
    const char *half = emit_helper(e, h->name, t, lanes / 2);
    const char *narrow = emit_vector_type(e, t, lanes / 2);
    const char *wide = emit_vector_type(e, t, lanes);
    int n = 1;
    for (const char *s = h->parameters; *s; s++) n += *s == ',';
    bool from_memory = strstr(h->parameters, "$W") != NULL;
    const char *source = from_memory ? emit_plain_vector(e, emit_stored(t), lanes) : wide;
    const char *source_half =
        from_memory ? emit_plain_vector(e, emit_stored(t), lanes / 2) : narrow;
    static const char *const names[] = {"a", "b", "c", "d"};
    ASSERT(n <= (int)COUNT(names));
    for (int i = 0; i < n; i++) {
        const char *last = strrchr(h->parameters, ' ') + 1;
        const char *name = n == 1 ? last : names[i];
        buf_printf(out, "    union { %s v; %s h[2]; } u%d = {%s};\n", source, source_half, i, name);
    }
    buf_printf(out, "    union { %s v; %s h[2]; } r;\n", wide, narrow);
    for (int k = 0; k < 2; k++) {
        buf_printf(out, "    r.h[%d] = %s(", k, half);
        for (int i = 0; i < n; i++) buf_printf(out, "%su%d.h[%d]", i ? ", " : "", i, k);
        buf_puts(out, ");\n");
    }
    buf_puts(out, "    return r.v;\n");
}

static const struct Native *find_native(const char *name, DType t, int lanes)
{
    for (size_t i = 0; i < COUNT(native_rows); i++) {
        const struct Native *n = &native_rows[i];
        if (n->type == t && n->lanes == lanes && !strcmp(n->name, name)) return n;
    }
    return NULL;
}

static void expand_body(Emit *e, Buf *out, const Helper *h, const char *own, DType t, int lanes)
{
    if (h->split && lanes * (int)dtype_size(emit_computed(t)) > 64) {
        expand_halves(e, out, h, t, lanes);
        return;
    }
    bool is_c = e->dialect == &dialect_c;
    const struct Native *native = is_c ? find_native(h->name, t, lanes) : NULL;
    if (native) {
        if (t == DT_F16) {
            emit_plain_vector(e, DT_I16, lanes > 1 ? lanes : 8);
            emit_plain_vector(e, DT_F32, lanes > 1 ? lanes : 4);
        }
        buf_printf(out, "#if %s\n    ", native->condition);
        expand(e, out, native->text, own, t, lanes);
        buf_puts(out, "\n#else\n");
    }
    buf_puts(out, "    ");
    expand(e, out, special(e, h->body, t), own, t, lanes);
    buf_puts(out, native ? "\n#endif\n" : "\n");
}

const char *emit_helper(Emit *e, const char *name, DType t, int lanes)
{
    const char *own = lanes > 1 ? arena_printf(e->arena, "h_%s_%sx%d", name, dtypes[t].name, lanes)
                                : arena_printf(e->arena, "h_%s_%s", name, dtypes[t].name);
    if (!emit_first_time(e, own)) return own;
    const Helper *h = find_row(e, name, t, lanes);
    if (!h) {
        diag_error(e->diag, 0, "%s is not defined on %s", name, dtypes[t].name);
        return own;
    }
    Buf text;
    buf_init(&text, e->arena);
    buf_printf(&text, "%s ", e->dialect->function);
    expand(e, &text, h->result, own, t, lanes);
    buf_printf(&text, " %s(", own);
    expand(e, &text, h->parameters, own, t, lanes);
    buf_puts(&text, ")\n{\n");
    expand_body(e, &text, h, own, t, lanes);
    buf_puts(&text, "}\n");
    buf_append(&e->helpers, text.text, text.size);
    return own;
}

// ---- conversions: pairs of types

static void float_to_int(Buf *out, DType to)
{
    bool is_signed = dtypes[to].class == DC_INT;
    int bits = dtypes[to].bits - is_signed;
    const char *c = dtypes[to].c;
    buf_printf(out, "    double v = x;\n    if (v >= 0x1p%d) return (%s)(UINT64_MAX >> %d);\n",
               bits, c, 64 - bits);
    if (is_signed)
        buf_printf(out, "    if (v <= -0x1p%d) return (%s)(-(INT64_C(1) << %d) * 2);\n", bits, c,
                   bits - 1);
    else buf_puts(out, "    if (v <= 0) return 0;\n");
    buf_printf(out, "    return v != v ? 0 : (%s)v;\n", c);
}

// Beyond 53 bits the lost ones only leave a mark, so that rounding to a narrow float happens once.
static void wide_int_to_half(Emit *e, Buf *out, DType from, DType to)
{
    buf_printf(out, "    uint64_t u = %s;\n",
               from == DT_I64 ? "x < 0 ? 0 - (uint64_t)x : (uint64_t)x" : "x");
    buf_puts(out, "    if (u >> 53) u = (u & ~UINT64_C(0x7FF)) | ((u & 0x7FF) ? 0x800 : 0);\n");
    buf_printf(out, "    return %s(%s(double)u);\n", emit_helper(e, "narrow", to, 1),
               from == DT_I64 ? "x < 0 ? -(double)u : " : "");
}

static void few_bits(Buf *out, DType to)
{
    int bits = dtypes[to].bits;
    if (dtypes[to].class == DC_UINT) buf_printf(out, "    return x & %d;\n", (1 << bits) - 1);
    else
        buf_printf(out, "    return (int8_t)((x & %d) - (x & %d) * 2);\n", (1 << bits) - 1,
                   1 << (bits - 1));
}

static void cast_body(Emit *e, Buf *out, DType from, DType to)
{
    bool from_float = dtype_is_float(from);
    if (e->dialect->cast && e->dialect->cast(e, out, from, to)) return;
    if (to == DT_BOOL) buf_puts(out, "    return x != 0;\n");
    else if (from_float && !dtype_is_float(to)) float_to_int(out, to);
    else if (emit_is_short(to) && (from == DT_I64 || from == DT_U64))
        wide_int_to_half(e, out, from, to);
    else if (emit_is_short(to) && (from == DT_F32 || emit_is_short(from)))
        buf_printf(out, "    return %s(x);\n", emit_helper(e, "round", to, 1));
    else if (emit_is_short(to))
        buf_printf(out, "    return %s((double)x);\n", emit_helper(e, "narrow", to, 1));
    else if (dtypes[to].bits < 8) few_bits(out, to);
    else buf_printf(out, "    return (%s)x;\n", emit_value_type(to));
}

static void bits_body(Emit *e, Buf *out, DType from, DType to)
{
    const char *x = "x";
    if (emit_is_short(from)) x = arena_printf(e->arena, "%s(x)", emit_helper(e, "store", from, 1));
    buf_printf(out, "    union { %s from; %s to; } u = {%s};\n", dtypes[from].c, dtypes[to].c, x);
    if (emit_is_short(to)) buf_printf(out, "    return %s(u.to);\n", emit_helper(e, "load", to, 1));
    else buf_puts(out, to == DT_BOOL ? "    return u.to != 0;\n" : "    return u.to;\n");
}

static const char *scalar_type(DType t)
{
    return t == DT_BOOL ? "int" : emit_value_type(t);
}

// Vectors convert as a whole where the compiler knows how, otherwise lane by lane.
static void vector_cast_body(Emit *e, Buf *out, const char *name, DType from, DType to, int lanes)
{
    const char *v = emit_vector_type(e, to, lanes);
    bool halves = emit_is_short(from) || emit_is_short(to);
    bool easy = !strcmp(name, "cast") && (dtype_is_float(to) || !dtype_is_float(from)) && !halves &&
                dtypes[to].bits >= 8;
    bool widened = !strcmp(name, "cast") && emit_is_short(from) && (to == DT_F32 || to == DT_F64);
    if (to == DT_BOOL && !strcmp(name, "cast")) {
        buf_printf(out, "    return __builtin_convertvector(x != 0, %s);\n", v);
    } else if (from == DT_BOOL && easy) {
        buf_printf(out, "    return __builtin_convertvector(-x, %s);\n", v);
    } else if (easy || widened) {
        buf_printf(out, "    return __builtin_convertvector(x, %s);\n", v);
    } else if (!strcmp(name, "bits") && !halves && from != DT_BOOL && to != DT_BOOL) {
        buf_printf(out, "    return (%s)x;\n", v);
    } else {
        bool from_mask = from == DT_BOOL;
        const char *one = emit_helper2(e, name, from, to, 1);
        buf_printf(
            out,
            "    %s r;\n    for (int l = 0; l < %d; ++l) r[l] = %s%s(%sx[l]%s);\n    return r;\n",
            v, lanes, to == DT_BOOL ? "-" : "", one, from_mask ? "-" : "", "");
    }
}

const char *emit_helper2(Emit *e, const char *name, DType from, DType to, int lanes)
{
    const char *own =
        arena_printf(e->arena, "h_%s_%s_%s", name, dtypes[from].name, dtypes[to].name);
    if (lanes > 1) own = arena_printf(e->arena, "%sx%d", own, lanes);
    if (!emit_first_time(e, own)) return own;
    Buf text;
    buf_init(&text, e->arena);
    const char *result = lanes > 1 ? emit_vector_type(e, to, lanes) : scalar_type(to);
    const char *argument = lanes > 1 ? emit_vector_type(e, from, lanes) : scalar_type(from);
    buf_printf(&text, "%s %s %s(%s x)\n{\n", e->dialect->function, result, own, argument);
    if (lanes > 1) vector_cast_body(e, &text, name, from, to, lanes);
    else if (!strcmp(name, "cast")) cast_body(e, &text, from, to);
    else bits_body(e, &text, from, to);
    buf_puts(&text, "}\n");
    buf_append(&e->helpers, text.text, text.size);
    return own;
}
