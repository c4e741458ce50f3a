// SPDX-License-Identifier: Apache-2.0
// Kernel IR as text, for people and for golden tests: it depends on the tree alone. Where two
// variables or buffers of what is printed share a name, each is shown as name#id.
#include "ir/kernel.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Named {
    const char *name;
    int id;
} Named;

typedef struct Printer {
    Buf *out;
    Arena *arena;
    Map seen; // Var or Buffer -> itself
    VEC(Named) named;
    int indent;
} Printer;

// ---- names

static void note_name(Printer *p, const void *object, const char *name, int id)
{
    if (map_has(&p->seen, object)) return;
    map_put(p->arena, &p->seen, object, (void *)object);
    VEC_PUSH(p->arena, &p->named, ((Named){name ? name : "_", id}));
}

static void collect(Printer *p, const Node *n);

static void collect_buffer(Printer *p, const Buffer *b)
{
    if (map_has(&p->seen, b)) return;
    note_name(p, b, b->name, b->id);
    for (int i = 0; i < b->rank; i++) collect(p, b->extent[i]);
    collect(p, b->over_worker);
    if (b->alias) collect_buffer(p, b->alias);
}

static void collect(Printer *p, const Node *n)
{
    if (!n) return;
    NodePayload payload = node_info[n->kind].payload;
    if (payload == PAYLOAD_VAR) note_name(p, n->u.var, n->u.var->name, n->u.var->id);
    if (payload == PAYLOAD_BUF) collect_buffer(p, n->u.buf);
    for (uint32_t i = 0; i < n->nkid; i++) collect(p, n->kid[i]);
}

static int by_name(const void *a, const void *b)
{
    const Named *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : (x->id > y->id) - (x->id < y->id);
}

static void sort_names(Printer *p)
{
    if (p->named.n) qsort(p->named.at, (size_t)p->named.n, sizeof *p->named.at, by_name);
}

static void print_name(Printer *p, const char *name, int id)
{
    name = name ? name : "_";
    buf_puts(p->out, name);
    int lo = 0, hi = p->named.n; // the first entry of this name
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (strcmp(p->named.at[mid].name, name) < 0) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    if (lo + 1 < p->named.n && !strcmp(p->named.at[lo + 1].name, name))
        buf_printf(p->out, "#%d", id);
}

// ---- expressions

enum {
    BIND_NONE,
    BIND_OR,
    BIND_AND,
    BIND_COMPARE,
    BIND_BITS,
    BIND_SUM,
    BIND_PRODUCT,
    BIND_UNARY,
    BIND_ATOM
};

static int binding(const Node *n)
{
    switch (n->kind) {
    case N_SPAN: return BIND_NONE;
    case N_LOR: return BIND_OR;
    case N_LAND: return BIND_AND;
    case N_EQ:
    case N_NE:
    case N_LT:
    case N_LE: return BIND_COMPARE;
    case N_BAND:
    case N_BOR:
    case N_BXOR:
    case N_SHL:
    case N_SHR: return BIND_BITS;
    case N_ADD:
    case N_SUB: return BIND_SUM;
    case N_MUL:
    case N_DIV:
    case N_MOD: return BIND_PRODUCT;
    case N_NEG:
    case N_NOT:
    case N_BNOT:
    case N_REF: return BIND_UNARY;
    case N_LOAD_ELSE: return BIND_NONE;
    case N_INT: return n->u.i < 0 ? BIND_UNARY : BIND_ATOM;
    case N_FLOAT: return signbit(n->u.f) ? BIND_UNARY : BIND_ATOM;
    default: return BIND_ATOM;
    }
}

static void print_expr(Printer *p, const Node *n, int least);

static void print_type(Printer *p, DType type, int lanes)
{
    buf_puts(p->out, dtypes[type].name);
    if (lanes > 1) buf_printf(p->out, "x%d", lanes);
}

static void print_list(Printer *p, Node *const *kid, int n)
{
    for (int i = 0; i < n; i++) {
        if (i) buf_puts(p->out, ", ");
        print_expr(p, kid[i], BIND_NONE);
    }
}

// Whole numbers in full, others as the shortest decimal that reads back as v, with a point or an
// exponent.
static void print_float(Buf *out, DType type, double v)
{
    char text[40];
    if (isnan(v) || isinf(v)) {
        buf_puts(out, isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
        return;
    }
    snprintf(text, sizeof text, "%.0f", fabs(v) < 1e15 ? v : 0);
    for (int digits = 1; digits <= 17 && strtod(text, NULL) != v; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (f64_round_to(type, strtod(text, NULL)) == v) break;
    }
    size_t mark = strspn(text, "0123456789+-"); // the locale's point becomes ours
    if (text[mark] && text[mark] != 'e') text[mark] = '.';
    buf_puts(out, text);
    if (!text[mark]) buf_puts(out, ".0");
}

// Constants of i64, bool and f32 stand bare, others name their type.
static void print_constant(Printer *p, const Node *n)
{
    if (n->kind == N_FLOAT) {
        print_float(p->out, (DType)n->type, n->u.f);
        if (n->type != DT_F32) buf_puts(p->out, dtypes[n->type].name);
    } else if (n->type == DT_BOOL) {
        buf_puts(p->out, n->u.i ? "true" : "false");
    } else if (n->type == DT_U64) {
        buf_printf(p->out, "%" PRIu64 "u64", (uint64_t)n->u.i);
    } else {
        buf_printf(p->out, "%" PRId64, n->u.i);
        if (n->type != DT_I64) buf_puts(p->out, dtypes[n->type].name);
    }
}

static void print_string(Printer *p, const char *s)
{
    buf_putc(p->out, '"');
    for (; s && *s; s++) {
        if (*s == '\n') {
            buf_puts(p->out, "\\n");
        } else {
            if (*s == '"' || *s == '\\') buf_putc(p->out, '\\');
            buf_putc(p->out, *s);
        }
    }
    buf_putc(p->out, '"');
}

static void print_place(Printer *p, const Node *n)
{
    print_name(p, n->u.buf->name, n->u.buf->id);
    buf_putc(p->out, '[');
    print_list(p, REST(n), NREST(n));
    buf_putc(p->out, ']');
}

static void print_binary(Printer *p, const Node *n)
{
    int mine = binding(n);
    // Only chains of + and * go without parentheses, and only to the left.
    int left = mine == BIND_COMPARE || mine == BIND_BITS ? mine + 1 : mine;
    print_expr(p, n->kid[0], left);
    buf_printf(p->out, " %s ", node_info[n->kind].spelling);
    print_expr(p, n->kid[1], mine + 1);
}

// name(children), also for what has no notation of its own.
static void print_call(Printer *p, const Node *n)
{
    buf_printf(p->out, "%s(", node_info[n->kind].spelling);
    print_list(p, n->kid, (int)n->nkid);
    buf_putc(p->out, ')');
}

static void print_unbound(Printer *p, const Node *n)
{
    switch (n->kind) {
    case N_INT:
    case N_FLOAT: print_constant(p, n); break;
    case N_STRING: print_string(p, n->u.sym); break;
    case N_VARREF: print_name(p, n->u.var->name, n->u.var->id); break;
    case N_NEG:
    case N_NOT:
    case N_BNOT:
        buf_puts(p->out, node_info[n->kind].spelling);
        print_expr(p, n->kid[0], BIND_ATOM);
        break;
    case N_SELECT:
        buf_puts(p->out, "select(");
        print_list(p, n->kid, 3);
        buf_putc(p->out, ')');
        break;
    case N_CAST:
    case N_BITCAST:
        if (n->kind == N_BITCAST) buf_puts(p->out, "bits_as_");
        print_type(p, (DType)n->type, n->lanes);
        buf_putc(p->out, '(');
        print_expr(p, n->kid[0], BIND_NONE);
        buf_putc(p->out, ')');
        break;
    case N_RAMP:
        buf_puts(p->out, "ramp(");
        print_expr(p, n->kid[0], BIND_NONE);
        buf_printf(p->out, ", %" PRId64 ", %d)", n->u.i, n->lanes);
        break;
    case N_BROADCAST:
        buf_puts(p->out, "broadcast(");
        print_expr(p, n->kid[0], BIND_NONE);
        buf_printf(p->out, ", %d)", n->lanes);
        break;
    case N_LOAD: print_place(p, n); break;
    case N_LOAD_ELSE:
        print_place(p, n);
        buf_puts(p->out, " else ");
        print_expr(p, KID((Node *)n, LOAD_ELSE, other), BIND_OR);
        break;
    case N_REF:
        buf_putc(p->out, '&');
        print_place(p, n);
        break;
    case N_INTRIN:
        buf_printf(p->out, "%s(", n->u.intr->name);
        print_list(p, n->kid, (int)n->nkid);
        buf_putc(p->out, ')');
        break;
    default: print_call(p, n); break;
    }
}

// In parentheses if n binds less than `least`.
static void print_expr(Printer *p, const Node *n, int least)
{
    if (!n) {
        buf_putc(p->out, '_');
        return;
    }
    bool parens = binding(n) < least;
    bool infix = node_info[n->kind].nfixed == 2 && node_info[n->kind].class == CLASS_E &&
                 binding(n) < BIND_UNARY && n->kind != N_LOAD_ELSE;
    if (parens) buf_putc(p->out, '(');
    if (infix) {
        print_binary(p, n);
    } else {
        print_unbound(p, n);
    }
    if (parens) buf_putc(p->out, ')');
}

// ---- statements

static void print_stmt(Printer *p, const Node *n);

static void start_line(Printer *p)
{
    buf_printf(p->out, "%*s", 2 * p->indent, "");
}

// Everything after the space: "x: f32[n, 4] layout ... over ...".
static void print_buffer(Printer *p, const Buffer *b)
{
    print_name(p, b->name, b->id);
    buf_printf(p->out, ": %s[", b->is_mbarrier ? "mbarrier" : dtypes[b->type].name);
    print_list(p, b->extent, b->flat ? 1 : b->rank);
    buf_putc(p->out, ']');
    if (b->is_mbarrier) buf_printf(p->out, "(%" PRId64 ")", b->arrivals);
    if (b->flat) buf_puts(p->out, " flat");
    if (b->layout) {
        buf_puts(p->out, " layout ");
        layout_print(b->layout, p->out);
    }
    if (b->over) {
        buf_puts(p->out, " over (");
        mapping_print(b->over, p->out);
        buf_puts(p->out, ")(");
        print_expr(p, b->over_worker, BIND_NONE);
        buf_putc(p->out, ')');
    }
    if (b->align_bytes) buf_printf(p->out, " align %" PRId64, b->align_bytes);
    if (b->alias) {
        buf_puts(p->out, " alias ");
        print_name(p, b->alias->name, b->alias->id);
    }
}

static void print_body(Printer *p, const Node *body)
{
    p->indent++;
    if (body && body->kind == N_SEQ) {
        for (uint32_t i = 0; i < body->nkid; i++) print_stmt(p, body->kid[i]);
    } else if (body) {
        print_stmt(p, body);
    }
    p->indent--;
}

// " {", the body, and "}" without a line end.
static void print_block(Printer *p, const Node *body)
{
    buf_puts(p->out, " {\n");
    print_body(p, body);
    start_line(p);
    buf_putc(p->out, '}');
}

static void print_definition(Printer *p, const Node *n)
{
    const Var *v = n->u.var;
    buf_puts(p->out, n->kind == N_DEFINE ? "let " : "var ");
    print_name(p, v->name, v->id);
    buf_puts(p->out, ": ");
    print_type(p, v->type, v->lanes);
    if (!n->kid[0]) return;
    buf_puts(p->out, " = ");
    print_expr(p, n->kid[0], BIND_NONE);
}

static void print_loop(Printer *p, const Node *n)
{
    static const char *const attr[] = {"", "plain ", "unroll ", "unroll_full ", "parallel "};
    const Var *v = n->u.var;
    buf_printf(p->out, "%sfor ", n->sub < COUNT(attr) ? attr[n->sub] : "");
    print_name(p, v->name, v->id);
    buf_puts(p->out, " in ");
    print_expr(p, KID((Node *)n, LOOP, lo), BIND_OR);
    buf_puts(p->out, " .. ");
    print_expr(p, KID((Node *)n, LOOP, hi), BIND_OR);
    print_block(p, KID((Node *)n, LOOP, body));
}

static void print_mapfor(Printer *p, const Node *n)
{
    buf_puts(p->out, "for ");
    print_list(p, REST(n), NREST(n));
    buf_puts(p->out, " in (");
    mapping_print(n->u.map, p->out);
    buf_puts(p->out, ")(");
    print_expr(p, KID((Node *)n, MAPFOR, worker), BIND_NONE);
    buf_putc(p->out, ')');
    print_block(p, KID((Node *)n, MAPFOR, body));
}

static void print_if(Printer *p, const Node *n)
{
    buf_puts(p->out, "if ");
    print_expr(p, KID((Node *)n, IF, cond), BIND_NONE);
    print_block(p, KID((Node *)n, IF, then));
    const Node *other = KID((Node *)n, IF, other);
    if (!other) return;
    buf_puts(p->out, " else");
    print_block(p, other);
}

static void print_guarded(Printer *p, const char *word, const Node *cond, const Node *body)
{
    buf_puts(p->out, word);
    if (cond) {
        buf_putc(p->out, ' ');
        print_expr(p, cond, BIND_NONE);
    }
    print_block(p, body);
}

// Statements that hold others; false for the rest.
static bool print_compound(Printer *p, const Node *n)
{
    switch (n->kind) {
    case N_LOOP: print_loop(p, n); return true;
    case N_MAPFOR: print_mapfor(p, n); return true;
    case N_IF: print_if(p, n); return true;
    case N_WHILE: print_guarded(p, "while", n->kid[0], n->kid[1]); return true;
    case N_ROLE: print_guarded(p, "role", n->kid[0], n->kid[1]); return true;
    case N_ONE: print_guarded(p, "one", NULL, n->kid[0]); return true;
    case N_SEQ:
        buf_puts(p->out, "{\n");
        print_body(p, n);
        start_line(p);
        buf_putc(p->out, '}');
        return true;
    default: return false;
    }
}

static void print_simple(Printer *p, const Node *n)
{
    switch (n->kind) {
    case N_DEFINE:
    case N_DECLARE: print_definition(p, n); break;
    case N_SET:
        print_name(p, n->u.var->name, n->u.var->id);
        buf_puts(p->out, " = ");
        print_expr(p, n->kid[0], BIND_NONE);
        break;
    case N_ALLOC:
        buf_printf(p->out, "%s ", space_name[n->u.buf->space]);
        print_buffer(p, n->u.buf);
        if (!n->kid[0]) break;
        buf_puts(p->out, " = ");
        print_expr(p, n->kid[0], BIND_NONE);
        break;
    case N_STORE:
        print_place(p, n);
        buf_puts(p->out, " = ");
        print_expr(p, KID((Node *)n, STORE, value), BIND_NONE);
        if (n->sub == GUARD_DROP) buf_puts(p->out, " or drop");
        break;
    case N_BREAK: buf_puts(p->out, "break"); break;
    case N_CONTINUE: buf_puts(p->out, "continue"); break;
    case N_EVAL: print_expr(p, n->kid[0], BIND_NONE); break;
    case N_CHECK:
        buf_puts(p->out, "check ");
        print_expr(p, KID((Node *)n, CHECK, cond), BIND_NONE);
        buf_puts(p->out, ", ");
        print_string(p, n->u.sym);
        break;
    default: print_call(p, n); break;
    }
}

static void print_stmt(Printer *p, const Node *n)
{
    start_line(p);
    if (!print_compound(p, n)) {
        print_simple(p, n);
        buf_putc(p->out, ';');
    }
    buf_putc(p->out, '\n');
}

void node_print(const Node *n, Buf *out)
{
    Printer p = {.out = out, .arena = out->arena};
    collect(&p, n);
    sort_names(&p);
    if (n->kind == N_SEQ) {
        p.indent = -1;
        print_body(&p, n);
    } else if (node_info[n->kind].class == CLASS_S) {
        print_stmt(&p, n);
    } else {
        print_expr(&p, n, BIND_NONE);
    }
}

// ---- kernels

static void print_dim(Printer *p, const Var *v)
{
    start_line(p);
    buf_puts(p->out, "dim ");
    print_name(p, v->name, v->id);
    if (v->lo <= v->hi) buf_printf(p->out, " from %" PRId64 " to %" PRId64, v->lo, v->hi);
    if (v->divisor > 1) buf_printf(p->out, " divisor %" PRId64, v->divisor);
    buf_puts(p->out, ";\n");
}

static void print_memory(Printer *p, const char *word, const Buffer *b)
{
    start_line(p);
    buf_printf(p->out, "%s ", word);
    print_buffer(p, b);
    buf_puts(p->out, ";\n");
}

static void print_stage(Printer *p, const Stage *s)
{
    start_line(p);
    buf_printf(p->out, "stage %s", s->name ? s->name : "main");
    if (s->ngrid) {
        buf_puts(p->out, " grid(");
        print_list(p, s->grid, s->ngrid);
        buf_putc(p->out, ')');
    }
    const struct {
        const char *word;
        const Node *n;
    } shape[] = {{"cluster", s->cluster}, {"block", s->block}};
    for (int i = 0; i < 2; i++) {
        if (!shape[i].n) continue;
        buf_printf(p->out, " %s(", shape[i].word);
        print_expr(p, shape[i].n, BIND_NONE);
        buf_putc(p->out, ')');
    }
    buf_puts(p->out, " {\n");
    p->indent++;
    for (int i = 0; i < s->memory.n; i++) {
        print_memory(p, space_name[s->memory.at[i]->space], s->memory.at[i]);
    }
    p->indent--;
    print_body(p, s->body);
    start_line(p);
    buf_puts(p->out, "}\n");
}

static void collect_kernel(Printer *p, const Kernel *k)
{
    for (int i = 0; i < k->dims.n; i++) {
        note_name(p, k->dims.at[i], k->dims.at[i]->name, k->dims.at[i]->id);
    }
    for (int i = 0; i < k->params.n; i++) collect_buffer(p, k->params.at[i]);
    for (int i = 0; i < k->workspace.n; i++) collect_buffer(p, k->workspace.at[i]);
    for (int i = 0; i < k->requirements.n; i++) collect(p, k->requirements.at[i].cond);
    for (int i = 0; i < k->stages.n; i++) {
        const Stage *s = k->stages.at[i];
        for (int g = 0; g < s->ngrid; g++) collect(p, s->grid[g]);
        for (int m = 0; m < s->memory.n; m++) collect_buffer(p, s->memory.at[m]);
        collect(p, s->body);
    }
    sort_names(p);
}

void kernel_print(const Kernel *k, Buf *out)
{
    Printer p = {.out = out, .arena = out->arena, .indent = 1};
    collect_kernel(&p, k);
    buf_printf(out, "kernel %s", k->name ? k->name : "_");
    if (k->template_name) buf_printf(out, " from %s", k->template_name);
    buf_printf(out, " on %s", k->target.kind == TARGET_CUDA ? "cuda" : "cpu");
    if (k->target.arch) buf_printf(out, " %s", k->target.arch);
    buf_puts(out, " {\n");
    for (int i = 0; i < k->dims.n; i++) print_dim(&p, k->dims.at[i]);
    for (int i = 0; i < k->params.n; i++) {
        print_memory(&p, k->params.at[i]->output ? "output" : "input", k->params.at[i]);
    }
    for (int i = 0; i < k->workspace.n; i++) print_memory(&p, "workspace", k->workspace.at[i]);
    for (int i = 0; i < k->requirements.n; i++) {
        start_line(&p);
        buf_puts(out, "require ");
        print_expr(&p, k->requirements.at[i].cond, BIND_NONE);
        buf_puts(out, ", ");
        print_string(&p, k->requirements.at[i].message);
        buf_puts(out, ";\n");
    }
    for (int i = 0; i < k->stages.n; i++) print_stage(&p, k->stages.at[i]);
    buf_puts(out, "}\n");
}
