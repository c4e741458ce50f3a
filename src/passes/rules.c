// SPDX-License-Identifier: Apache-2.0
// Matching and building: a pattern is a tree of the text whose names are the variables, and is
// walked together with the expression.
#include "passes/rules.h"

#include <string.h>

#include "lang/lang.h"
#include "passes/arith.h"

static const struct RuleText {
    const char *pattern, *result, *when;
} rule_texts[] = {
#define R(pattern, result, when) {pattern, result, when},
#include "passes/simplify.rules"
#undef R
};

typedef struct Rule {
    Node *pattern, *result, *when; // when NULL: always
    NodeKind kind;                 // of what the pattern matches
} Rule;

struct Rules {
    Rule rule[COUNT(rule_texts)];
};

enum { MAX_BOUND_VARS = 8 };

typedef struct Match {
    Arena *arena;
    int n;
    Sym name[MAX_BOUND_VARS];
    Node *value[MAX_BOUND_VARS];
} Match;

// ---- parsing

// min and max are calls in text.
static NodeKind kind_of(const Node *text)
{
    if (text->kind != N_CALL) return (NodeKind)text->kind;
    const char *name = text->kid[0]->u.sym;
    return !strcmp(name, "min") ? N_MIN : !strcmp(name, "max") ? N_MAX : N_CALL;
}

static Node *operand(const Node *text, int i)
{
    return text->kid[i + (text->kind == N_CALL)];
}

static int noperand(const Node *text)
{
    return (int)text->nkid - (text->kind == N_CALL);
}

static Node *parse(Arena *a, Interner *names, Sources *sources, const char *text)
{
    Diag d;
    diag_init(&d, a, sources);
    Node *n =
        parse_expression(a, names, sources_add(sources, "simplify.rules", text, strlen(text)), &d);
    if (!n) BUG("simplify.rules: cannot parse '%s'", text);
    return n;
}

Rules *rules_new(Arena *a)
{
    Rules *r = NEW(a, Rules);
    Interner *names = interner_new(a);
    Sources *sources = NEW(a, Sources);
    sources->arena = a;
    for (size_t i = 0; i < COUNT(rule_texts); i++) {
        const struct RuleText *t = &rule_texts[i];
        r->rule[i].pattern = parse(a, names, sources, t->pattern);
        r->rule[i].result = parse(a, names, sources, t->result);
        if (*t->when) r->rule[i].when = parse(a, names, sources, t->when);
        r->rule[i].kind = kind_of(r->rule[i].pattern);
    }
    return r;
}

int rules_count(void)
{
    return (int)COUNT(rule_texts);
}

const char *rules_pattern(int i)
{
    return rule_texts[i].pattern;
}

// ---- matching

static Node *bound(const Match *m, Sym name)
{
    for (int i = 0; i < m->n; i++) {
        if (!strcmp(m->name[i], name)) return m->value[i];
    }
    return NULL;
}

static bool may_bind(Sym name, const Node *n)
{
    if (n->lanes != 1) return false;
    switch (name[0]) {
    case 'c': return n->kind == N_INT && n->type != DT_BOOL;
    case 'p':
    case 'q': return n->type == DT_BOOL && node_pure(n);
    default: return dtype_is_int((DType)n->type) && node_pure(n);
    }
}

static bool bind(Match *m, Sym name, Node *n)
{
    Node *old = bound(m, name);
    if (old) return node_equal(old, n);
    if (!may_bind(name, n) || m->n == MAX_BOUND_VARS) return false;
    m->name[m->n] = name;
    m->value[m->n++] = n;
    return true;
}

static bool match(Match *m, const Node *pattern, Node *n)
{
    if (pattern->kind == N_NAME) return bind(m, pattern->u.sym, n);
    if (pattern->kind == N_INT) return n->lanes == 1 && node_is_const(n, pattern->u.i);
    if ((NodeKind)n->kind != kind_of(pattern) || n->lanes != 1 || (int)n->nkid != noperand(pattern))
        return false;
    for (uint32_t i = 0; i < n->nkid; i++) {
        if (!match(m, operand(pattern, (int)i), n->kid[i])) return false;
    }
    return true;
}

// ---- building

static DType operand_type(const Match *m, const Node *text)
{
    if (text->kind == N_NAME) return (DType)bound(m, text->u.sym)->type;
    for (int i = 0; i < noperand(text); i++) {
        DType t = operand_type(m, operand(text, i));
        if (t != DT_NONE) return t;
    }
    return DT_NONE;
}

// A number takes the type of what stands beside it.
static Node *make(const Match *m, const Node *text, DType type, Loc loc)
{
    Arena *a = m->arena;
    if (text->kind == N_NAME) return bound(m, text->u.sym);
    if (text->kind == N_INT) return node_int(a, loc, type, text->u.i);
    Node *kid[3];
    DType inner = operand_type(m, text);
    for (int i = 0; i < noperand(text); i++)
        kid[i] = make(m, operand(text, i), inner == DT_NONE ? type : inner, loc);
    return node_fold(a, node_make(a, kind_of(text), loc, noperand(text), kid));
}

// ---- conditions

typedef struct Number {
    bool known;
    int64_t v;
} Number;

static bool within_type(DType t, int64_t v)
{
    if (t == DT_I64) return true;
    if (t == DT_U64) return v >= 0;
    int bits = dtypes[t].bits;
    bool is_signed = dtypes[t].class == DC_INT;
    int64_t low = is_signed ? -(INT64_C(1) << (bits - 1)) : 0;
    return v >= low && v <= low + (int64_t)((UINT64_C(1) << bits) - 1);
}

typedef struct Interval {
    int64_t lo, hi;
} Interval;

// The bounds of an expression of the rule's text, if no step of it can wrap.
static bool exact(const Match *m, const Node *text, DType t, Interval *out)
{
    if (text->kind == N_NAME) {
        const Node *n = bound(m, text->u.sym);
        return n->type != DT_U64 && node_bounds(n, &out->lo, &out->hi);
    }
    Interval x, y;
    if (noperand(text) != 2 || !exact(m, operand(text, 0), t, &x) ||
        !exact(m, operand(text, 1), t, &y))
        return false;
    bool (*op)(int64_t, int64_t, int64_t *) = text->kind == N_ADD   ? add_i64
                                              : text->kind == N_SUB ? sub_i64
                                                                    : mul_i64;
    int64_t corner[4];
    if (!op(x.lo, y.lo, &corner[0]) || !op(x.lo, y.hi, &corner[1]) || !op(x.hi, y.lo, &corner[2]) ||
        !op(x.hi, y.hi, &corner[3]))
        return false;
    *out = (Interval){corner[0], corner[0]};
    for (int i = 1; i < 4; i++) {
        out->lo = min_i64(out->lo, corner[i]);
        out->hi = max_i64(out->hi, corner[i]);
    }
    return within_type(t, out->lo) && within_type(t, out->hi);
}

static Number call_number(const Match *m, const Node *text)
{
    const char *name = text->kid[0]->u.sym;
    Interval i;
    if (!strcmp(name, "exact"))
        return (Number){true, exact(m, text->kid[1], operand_type(m, text), &i)};
    const Node *n = bound(m, text->kid[1]->u.sym);
    if (n->type == DT_U64 || !node_bounds(n, &i.lo, &i.hi)) return (Number){0};
    return (Number){true, name[0] == 'l' ? i.lo : i.hi};
}

static int64_t apply(NodeKind kind, int64_t x, int64_t y)
{
    switch (kind) {
    case N_LT: return x < y;
    case N_LE: return x <= y;
    case N_GT: return x > y;
    case N_GE: return x >= y;
    case N_EQ: return x == y;
    case N_NE: return x != y;
    case N_LAND: return x && y;
    case N_LOR: return x || y;
    case N_MOD: return y ? floor_mod_i64(x, y) : 0;
    default: BUG("operator %s in a condition of simplify.rules", node_info[kind].name);
    }
}

static Number number(const Match *m, const Node *text)
{
    if (text->kind == N_INT) return (Number){true, text->u.i};
    if (text->kind == N_NAME) return (Number){true, bound(m, text->u.sym)->u.i};
    if (text->kind == N_CALL) return call_number(m, text);
    Number x = number(m, text->kid[0]);
    if (text->kind == N_LAND && x.known && !x.v) return x;
    Number y = number(m, text->kid[1]);
    return (Number){x.known && y.known,
                    x.known && y.known ? apply((NodeKind)text->kind, x.v, y.v) : 0};
}

static bool holds(const Match *m, const Node *when)
{
    if (!when) return true;
    Number n = number(m, when);
    return n.known && n.v;
}

static bool unsigned_wide(const Match *m)
{
    for (int i = 0; i < m->n; i++) {
        if (m->value[i]->type == DT_U64) return true;
    }
    return false;
}

Node *rules_apply(const Rules *r, Arena *a, Node *n, int *which)
{
    for (size_t i = 0; i < COUNT(rule_texts); i++) {
        const Rule *rule = &r->rule[i];
        Match m = {.arena = a};
        if (rule->kind != (NodeKind)n->kind || !match(&m, rule->pattern, n)) continue;
        if (rule->when && unsigned_wide(&m)) continue; // conditions are computed in i64
        if (!holds(&m, rule->when)) continue;
        Node *result = make(&m, rule->result, (DType)n->type, n->loc);
        if (node_equal(result, n)) continue;
        if (which) *which = (int)i;
        return result;
    }
    return NULL;
}
