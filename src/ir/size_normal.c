// SPDX-License-Identifier: Apache-2.0
// The normal form of sizes: polynomials with integer coefficients over atoms, which are dimensions
// and what is no polynomial (quotients, minima and the like, of sizes in normal form). Products are
// ordered by degree, then by content, so that division of polynomials works (graded lexicographic
// order: Cox, Little, O'Shea, "Ideals, Varieties, and Algorithms", chapter 2).
#include "ir/size.h"

#include <string.h>

enum { MAX_TERMS = 48, MAX_DEGREE = 8 };

typedef struct Term {
    int64_t c;
    int n;
    Node *atom[MAX_DEGREE]; // in order
} Term;

typedef struct Poly {
    int n;
    bool bad; // too large for this form
    Term *t;  // (MAX_TERMS) in order, the largest first
} Poly;

static Poly poly_new(Arena *a)
{
    return (Poly){.t = NEW_ARRAY(a, Term, MAX_TERMS)};
}

// Larger terms come first: of higher degree, then with smaller atoms.
static int term_order(const Term *x, const Term *y)
{
    if (x->n != y->n) return y->n - x->n;
    for (int i = 0; i < x->n; i++) {
        int c = size_compare(x->atom[i], y->atom[i]);
        if (c) return c;
    }
    return 0;
}

static void add_term(Poly *p, const Term *t, int64_t factor)
{
    int64_t c, sum;
    int at = 0;
    if (p->bad || !mul_i64(t->c, factor, &c)) {
        p->bad = true;
        return;
    }
    while (at < p->n && term_order(&p->t[at], t) < 0) at++;
    if (at < p->n && term_order(&p->t[at], t) == 0) {
        p->bad = !add_i64(p->t[at].c, c, &sum);
        p->t[at].c = sum;
        if (sum == 0) memmove(&p->t[at], &p->t[at + 1], (size_t)(--p->n - at) * sizeof *t);
        return;
    }
    if (c == 0) return;
    if (p->n == MAX_TERMS) {
        p->bad = true;
        return;
    }
    memmove(&p->t[at + 1], &p->t[at], (size_t)(p->n++ - at) * sizeof *t);
    p->t[at] = *t;
    p->t[at].c = c;
}

static void add_poly(Poly *p, const Poly *q, int64_t factor)
{
    p->bad = p->bad || q->bad;
    for (int i = 0; i < q->n; i++) add_term(p, &q->t[i], factor);
}

static bool multiply_terms(const Term *x, const Term *y, Term *out)
{
    if (x->n + y->n > MAX_DEGREE || !mul_i64(x->c, y->c, &out->c)) return false;
    out->n = 0;
    for (int i = 0, k = 0; i < x->n || k < y->n;) {
        bool left = k == y->n || (i < x->n && size_compare(x->atom[i], y->atom[k]) <= 0);
        out->atom[out->n++] = left ? x->atom[i++] : y->atom[k++];
    }
    return true;
}

static Poly multiply(Arena *a, const Poly *x, const Poly *y)
{
    Poly p = poly_new(a);
    p.bad = x->bad || y->bad;
    for (int i = 0; i < x->n; i++)
        for (int k = 0; k < y->n && !p.bad; k++) {
            Term t;
            if (multiply_terms(&x->t[i], &y->t[k], &t)) add_term(&p, &t, 1);
            else p.bad = true;
        }
    return p;
}

static Poly constant(Arena *a, int64_t c)
{
    Poly p = poly_new(a);
    add_term(&p, &(Term){.c = c}, 1);
    return p;
}

static Poly of_atom(Arena *a, Node *n)
{
    Poly p = poly_new(a);
    add_term(&p, &(Term){.c = 1, .n = 1, .atom = {n}}, 1);
    return p;
}

static bool is_constant(const Poly *p, int64_t *c)
{
    if (p->bad || p->n > 1 || (p->n == 1 && p->t[0].n)) return false;
    *c = p->n ? p->t[0].c : 0;
    return true;
}

static Node *term_node(Arena *a, const Term *t, int64_t c)
{
    Node *n = NULL;
    for (int i = 0; i < t->n; i++) n = n ? node_binary(a, N_MUL, n, t->atom[i]) : t->atom[i];
    if (!n) return node_i64(a, c);
    return c == 1 ? n : node_binary(a, N_MUL, n, node_i64(a, c));
}

// Terms with a positive coefficient first, so that differences read as such.
static Node *poly_node(Arena *a, const Poly *p)
{
    Node *n = NULL;
    for (int negative = 0; negative < 2; negative++)
        for (int i = 0; i < p->n; i++) {
            const Term *t = &p->t[i];
            if ((t->c < 0) != negative) continue;
            if (!n) n = term_node(a, t, t->c);
            else if (negative && t->c != INT64_MIN)
                n = node_binary(a, N_SUB, n, term_node(a, t, -t->c));
            else n = node_binary(a, N_ADD, n, term_node(a, t, t->c));
        }
    return n ? n : node_i64(a, 0);
}

static void poly_range(Arena *a, const Poly *p, int64_t *lo, int64_t *hi)
{
    size_range(poly_node(a, p), lo, hi);
}

static Poly poly_of(Arena *a, Node *n);
static Node *normal(Arena *a, Node *n);

// ---- division

// out = x / y where that is a term.
static bool divide_terms(const Term *x, const Term *y, Term *out)
{
    if (x->c % y->c || (x->c == INT64_MIN && y->c == -1)) return false;
    *out = (Term){.c = x->c / y->c};
    int k = 0;
    for (int i = 0; i < x->n; i++) {
        if (k < y->n && size_compare(x->atom[i], y->atom[k]) == 0) k++;
        else out->atom[out->n++] = x->atom[i];
    }
    return k == y->n;
}

// p = quotient * q, if there is such a one.
static bool divide_exactly(Arena *a, const Poly *p, const Poly *q, Poly *quotient)
{
    Poly rest = poly_new(a);
    *quotient = poly_new(a);
    add_poly(&rest, p, 1);
    for (int step = 0; rest.n && !rest.bad && step < 4 * MAX_TERMS; step++) {
        Poly one = poly_new(a);
        Term t;
        if (!divide_terms(&rest.t[0], &q->t[0], &t)) return false;
        add_term(quotient, &t, 1);
        add_term(&one, &t, 1);
        one = multiply(a, &one, q);
        add_poly(&rest, &one, -1);
    }
    return rest.n == 0 && !rest.bad && !quotient->bad;
}

static int64_t gcd(int64_t x, int64_t y)
{
    while (y) {
        int64_t r = x % y;
        x = y;
        y = r;
    }
    return x < 0 ? -x : x;
}

// floor(p / q) of a polynomial that q's divisible terms have left, q > 0: what all coefficients
// share with q goes, and floor(floor(x / k) / q) = floor(x / (k q)).
static Node *quotient_node(Arena *a, Poly *p, int64_t q)
{
    int64_t g = q, c, k, both;
    for (int i = 0; i < p->n; i++)
        if (p->t[i].n) g = gcd(g, p->t[i].c);
    for (int i = 0; i < p->n && g > 1; i++) p->t[i].c = floor_div_i64(p->t[i].c, g);
    if (p->n && p->t[p->n - 1].c == 0) p->n--;
    q /= g;
    c = p->n && !p->t[p->n - 1].n ? p->t[p->n - 1].c : 0;
    const Node *inner = p->n && p->t[0].n == 1 && p->t[0].c == 1 ? p->t[0].atom[0] : NULL;
    if (inner && p->n == 1 + (c != 0) && inner->kind == N_DIV && inner->kid[1]->kind == N_INT) {
        k = inner->kid[1]->u.i;
        if (k > 0 && mul_i64(k, q, &both)) {
            Poly x = poly_of(a, inner->kid[0]), shift = constant(a, c);
            add_poly(&x, &shift, k);
            return normal(a, node_binary(a, N_DIV, poly_node(a, &x), node_i64(a, both)));
        }
    }
    if (q == 1) return poly_node(a, p);
    return node_binary(a, N_DIV, poly_node(a, p), node_i64(a, q));
}

// The terms of p that q divides go to *whole, divided; the rest to *rest.
static void split(Arena *a, const Poly *p, const Term *q, Poly *whole, Poly *rest)
{
    *whole = poly_new(a);
    *rest = poly_new(a);
    for (int i = 0; i < p->n; i++) {
        Term t;
        if (divide_terms(&p->t[i], q, &t)) add_term(whole, &t, 1);
        else add_term(rest, &p->t[i], 1);
    }
}

// p / q or p % q where q is a constant.
static bool by_constant(Arena *a, Poly p, int64_t q, bool remainder, Poly *out)
{
    if (q == 0 || q == INT64_MIN) return false;
    if (q < 0) {
        if (remainder) return false;
        Poly negative = poly_new(a);
        add_poly(&negative, &p, -1);
        return by_constant(a, negative, -q, false, out);
    }
    Poly whole, rest;
    int64_t lo, hi;
    split(a, &p, &(Term){.c = q}, &whole, &rest);
    Term *last = rest.n ? &rest.t[rest.n - 1] : NULL;
    if (last && !last->n) { // of the constant, what is left below q
        add_term(&whole, &(Term){.c = floor_div_i64(last->c, q)}, 1);
        last->c = floor_mod_i64(last->c, q);
        if (last->c == 0) rest.n--;
    }
    poly_range(a, &rest, &lo, &hi);
    bool below = lo >= 0 && hi < q;
    if (remainder) {
        *out = rest;
        if (!below) {
            Node *r = node_binary(a, N_MOD, poly_node(a, &rest), node_i64(a, q));
            *out = of_atom(a, r);
        }
        return true;
    }
    if (!below) {
        Node *r = quotient_node(a, &rest, q);
        Poly x = r->kind == N_DIV ? of_atom(a, r) : poly_of(a, r);
        add_poly(&whole, &x, 1);
    }
    *out = whole;
    return !whole.bad;
}

// False: it stays as it is.
static bool divide(Arena *a, const Poly *p, const Poly *q, bool remainder, Poly *out)
{
    int64_t c, lo, hi;
    if (p->bad || q->bad) return false;
    if (is_constant(q, &c)) return by_constant(a, *p, c, remainder, out);
    poly_range(a, q, &lo, &hi);
    if (lo <= 0 && hi >= 0) return false; // it may be 0
    if (divide_exactly(a, p, q, out)) {
        if (remainder) *out = poly_new(a);
        return true;
    }
    if (q->n != 1 || lo <= 0) return false;
    Poly whole, rest;
    split(a, p, &q->t[0], &whole, &rest);
    if (!whole.n) return false;
    Node *r = node_binary(a, remainder ? N_MOD : N_DIV, poly_node(a, &rest), poly_node(a, q));
    *out = of_atom(a, r);
    if (!remainder) add_poly(out, &whole, 1);
    return !out->bad;
}

// ---- the form of a tree

static Poly poly_of(Arena *a, Node *n)
{
    if (n->kind == N_INT) return constant(a, n->u.i);
    if (n->kind == N_NEG) {
        Poly p = poly_new(a), x = poly_of(a, n->kid[0]);
        add_poly(&p, &x, -1);
        return p;
    }
    if (n->kind == N_ADD || n->kind == N_SUB) {
        Poly x = poly_of(a, n->kid[0]), y = poly_of(a, n->kid[1]);
        add_poly(&x, &y, n->kind == N_ADD ? 1 : -1);
        return x;
    }
    if (n->kind == N_MUL) {
        Poly x = poly_of(a, n->kid[0]), y = poly_of(a, n->kid[1]);
        return multiply(a, &x, &y);
    }
    if (n->kind == N_DIV || n->kind == N_MOD) {
        Poly x = poly_of(a, n->kid[0]), y = poly_of(a, n->kid[1]), out;
        if (divide(a, &x, &y, n->kind == N_MOD, &out)) return out;
        Node *p = x.bad ? normal(a, n->kid[0]) : poly_node(a, &x);
        Node *q = y.bad ? normal(a, n->kid[1]) : poly_node(a, &y);
        return of_atom(a, node_binary(a, (NodeKind)n->kind, p, q));
    }
    if (n->kind == N_VARREF) {
        const Var *v = n->u.var;
        if (v->same) return poly_of(a, node_var(a, n->loc, v->same));
        return v->lo == v->hi ? constant(a, v->lo) : of_atom(a, n);
    }
    Node *m = normal(a, n);
    switch (m->kind) {
    case N_MIN:
    case N_MAX:
    case N_SELECT: return of_atom(a, m);
    default: return poly_of(a, m);
    }
}

// Bounds of x - y, which are closer where both have a part in common.
static void difference(Arena *a, Node *x, Node *y, int64_t *lo, int64_t *hi)
{
    Poly p = poly_of(a, x), q = poly_of(a, y);
    add_poly(&p, &q, -1);
    size_range(p.bad ? node_binary(a, N_SUB, x, y) : poly_node(a, &p), lo, hi);
}

static Node *truth(Arena *a, bool b)
{
    return node_int(a, 0, DT_BOOL, b);
}

// Nested minima and maxima of constants and one more as one: min(2, min(3, x)) = min(2, x).
static Node *flat(Arena *a, Node *n)
{
    Node *x = n->kid[0], *y = n->kid[1];
    if (x->kind != N_INT) x = n->kid[1], y = n->kid[0];
    if (x->kind != N_INT || y->kind != n->kind || y->kid[0]->kind != N_INT) return n;
    bool own = (x->u.i < y->kid[0]->u.i) == (n->kind == N_MIN);
    return own ? node_binary(a, (NodeKind)n->kind, x, y->kid[1]) : y;
}

static Node *normal_min_max(Arena *a, Node *n, Node *x, Node *y)
{
    int64_t lo, hi;
    difference(a, x, y, &lo, &hi);
    bool is_min = n->kind == N_MIN;
    if (lo >= 0) return is_min ? y : x;
    if (hi <= 0) return is_min ? x : y;
    return flat(a, size_compare(x, y) <= 0 ? node_binary(a, (NodeKind)n->kind, x, y)
                                           : node_binary(a, (NodeKind)n->kind, y, x));
}

// min(x, y) == y as y <= x, and max(x, y) == y as x <= y. NULL: n is no such thing.
static Node *as_bound(Arena *a, Node *x, Node *y)
{
    if (x->kind != N_MIN && x->kind != N_MAX) return NULL;
    for (int i = 0; i < 2; i++) {
        Node *other = x->kid[1 - i];
        if (!node_equal(x->kid[i], y)) continue;
        return x->kind == N_MIN ? node_binary(a, N_LE, y, other) : node_binary(a, N_LE, other, y);
    }
    return NULL;
}

static Node *normal_comparison(Arena *a, Node *n, Node *x, Node *y)
{
    Node *bound = n->kind != N_EQ || x->type == DT_BOOL ? NULL : as_bound(a, x, y);
    if (!bound && n->kind == N_EQ && x->type != DT_BOOL) bound = as_bound(a, y, x);
    if (bound) return normal(a, bound);
    int64_t lo = INT64_MIN, hi = INT64_MAX;
    if (x->type != DT_BOOL) difference(a, x, y, &lo, &hi);
    bool equal = lo == 0 && hi == 0, apart = lo > 0 || hi < 0;
    switch (n->kind) {
    case N_EQ:
    case N_NE:
        if (equal || apart) return truth(a, equal == (n->kind == N_EQ));
        break;
    case N_LT:
        if (hi < 0 || lo >= 0) return truth(a, hi < 0);
        break;
    default:
        if (hi <= 0 || lo > 0) return truth(a, hi <= 0);
        break;
    }
    return node_fold(a, node_binary(a, (NodeKind)n->kind, x, y));
}

static Node *normal(Arena *a, Node *n)
{
    Node *kid[3] = {0};
    switch (n->kind) {
    case N_INT: return n;
    case N_VARREF:
    case N_ADD:
    case N_SUB:
    case N_MUL:
    case N_DIV:
    case N_MOD:
    case N_NEG: {
        Poly p = poly_of(a, n);
        if (!p.bad) return poly_node(a, &p);
        for (uint32_t i = 0; i < n->nkid; i++) kid[i] = normal(a, n->kid[i]);
        return node_make(a, (NodeKind)n->kind, n->loc, (int)n->nkid, kid);
    }
    default: break;
    }
    for (uint32_t i = 0; i < n->nkid; i++) kid[i] = normal(a, n->kid[i]);
    switch (n->kind) {
    case N_MIN:
    case N_MAX: return normal_min_max(a, n, kid[0], kid[1]);
    case N_EQ:
    case N_NE:
    case N_LT:
    case N_LE: return normal_comparison(a, n, kid[0], kid[1]);
    default: return node_fold(a, node_make(a, (NodeKind)n->kind, n->loc, (int)n->nkid, kid));
    }
}

Node *size_copy(Arena *a, const Node *n)
{
    if (n->kind == N_INT) return node_int(a, n->loc, (DType)n->type, n->u.i);
    if (n->kind == N_VARREF) return node_var(a, n->loc, n->u.var);
    Node *kid[3];
    for (uint32_t i = 0; i < n->nkid; i++) kid[i] = size_copy(a, n->kid[i]);
    return node_make(a, (NodeKind)n->kind, n->loc, (int)n->nkid, kid);
}

Node *size_simplify(Arena *a, Node *n)
{
    enum { MAX_ROUNDS = 8 }; // what one makes simpler may let another part follow
    Arena scratch = {.nomem = a->nomem};
    Node *m = n, *before = NULL;
    int64_t lo, hi;
    for (int i = 0; i < MAX_ROUNDS && (!before || !node_equal(m, before)); i++) {
        before = m;
        m = normal(&scratch, m);
    }
    size_range(m, &lo, &hi);
    if (lo == hi && lo != INT64_MIN && lo != INT64_MAX) n = node_int(a, n->loc, (DType)n->type, lo);
    else if (!node_equal(m, n)) n = size_copy(a, m);
    arena_free(&scratch);
    return n;
}
