// SPDX-License-Identifier: Apache-2.0
// How an op reads its parameters, from the text of its body: each read's index is compared with the
// index on the left of the assignment. Only the text is looked at, so the answer holds for every
// shape and attribute; what the text leaves open counts as the harder case.
#include "ops/op_class.h"

#include <string.h>

typedef struct Scan {
    OpInfo *info;
    Node *params;
    Node *pattern; // INDEX on the left of the assignment, or NULL
    bool inner;    // inside a reduction, or an indexed let, whose pattern is another
    bool computes; // anything but a read
    bool costly;
    bool reducing;                // inside a reduction
    bool costly_in, costly_after; // inside one, outside of all
    bool reads;                   // an element of a parameter
} Scan;

static int param_of(const Scan *s, const Node *n)
{
    if (n->kind != N_NAME) return -1;
    for (int i = 0; i < NREST(s->params); i++)
        if (REST(s->params)[i]->u.sym == n->u.sym) return i;
    return -1;
}

static void note(Scan *s, int param, OpAccess access)
{
    OpAccess *at = &s->info->access[param];
    if (access > *at) *at = access;
    s->reads = true;
}

static bool in_pattern(const Scan *s, const Node *part)
{
    for (int i = 0; s->pattern && i < NREST(s->pattern); i++)
        if (node_equal(REST(s->pattern)[i], part)) return true;
    return false;
}

static bool is_broadcast(Node *part)
{
    return part->kind == N_SPREAD && KID(part, SPREAD, pack)->kind == N_BNOT;
}

// A name, a pack, or a pack with one axis replaced.
static bool is_plain(const Node *part)
{
    if (part->kind == N_SPREAD || part->kind == N_BNOT) return is_plain(part->kid[0]);
    return part->kind == N_NAME || part->kind == N_AT;
}

static OpAccess access_of(const Scan *s, Node *index)
{
    if (s->inner) return ACCESS_REDUCE;
    if (NREST(index) == 0) return ACCESS_BROADCAST;
    if (!s->pattern) return ACCESS_MAP;
    bool same = NREST(index) == NREST(s->pattern), part = true;
    for (int i = 0; i < NREST(index); i++) {
        same = same && node_equal(REST(index)[i], REST(s->pattern)[i]);
        part = part && in_pattern(s, REST(index)[i]);
    }
    if (same) return ACCESS_SAME;
    if (NREST(index) == 1 && NREST(s->pattern) == 1 && is_broadcast(REST(index)[0])) {
        return ACCESS_BROADCAST;
    }
    return part ? ACCESS_PART : ACCESS_MAP;
}

static bool is_cheap(const Node *callee)
{
    static const char *const cheap[] = {"max",  "min",  "abs",    "floor",  "ceil",
                                        "rint", "acc",  "select", "lowest", "highest",
                                        "rank", "size", "T",      "to"};
    for (size_t i = 0; callee->kind == N_NAME && i < COUNT(cheap); i++)
        if (!strcmp(callee->u.sym, cheap[i])) return true;
    return false;
}

// rank(x), size(x), broadcast(x, ...): calls that look at shapes only.
static bool asks_shape(const Scan *s, Node *call)
{
    static const char *const names[] = {"rank", "size", "broadcast"};
    Node *callee = KID(call, CALL, callee);
    bool asks = false;
    for (size_t i = 0; callee->kind == N_NAME && i < COUNT(names); i++)
        asks = asks || !strcmp(callee->u.sym, names[i]);
    for (int i = 0; asks && i < NREST(call); i++) asks = param_of(s, REST(call)[i]) >= 0;
    return asks;
}

static void scan(Scan *s, Node *n);

static void scan_kids(Scan *s, Node *n)
{
    for (uint32_t i = 0; i < n->nkid; i++)
        if (n->kid[i]) scan(s, n->kid[i]);
}

// A read: what stands in the index is no computation, but another read there is one at a place that
// only the run tells.
static void scan_index(Scan *s, Node *n)
{
    Node *base = KID(n, INDEX, base);
    int p = param_of(s, base);
    if (p < 0) {
        scan(s, base);
    } else {
        note(s, p, access_of(s, n));
        for (int i = 0; i < NREST(n); i++)
            if (!is_plain(REST(n)[i])) s->info->windows[p] = true;
    }
    bool computes = s->computes, costly = s->costly;
    for (int i = 0; i < NREST(n); i++) scan(s, REST(n)[i]);
    s->computes = computes;
    s->costly = costly;
}

// What comes from shapes and attributes alone is known before any element is computed.
static void scan_let(Scan *s, Node *n)
{
    bool inner = s->inner, computes = s->computes, costly = s->costly, reads = s->reads;
    bool indexed = KID(n, LET, pattern)->kind == N_INDEX;
    s->inner = s->inner || indexed;
    s->reads = false;
    scan(s, KID(n, LET, value));
    if (!indexed && !s->reads) {
        s->computes = computes;
        s->costly = costly;
    }
    s->reads = s->reads || reads;
    s->inner = inner;
}

static void scan(Scan *s, Node *n)
{
    int p;
    switch (n->kind) {
    case N_INDEX: scan_index(s, n); return;
    case N_NAME:
        p = param_of(s, n);
        if (p >= 0) { // alone: a scalar's value, or its shape
            Node *type = KID(REST(s->params)[p], PARAM, type);
            bool scalar = type && NREST(type) == 0;
            note(s, p, s->inner ? ACCESS_REDUCE : scalar ? ACCESS_BROADCAST : ACCESS_MAP);
        }
        return;
    case N_REDUCE:
    case N_FOLD: {
        bool inner = s->inner, reducing = s->reducing;
        s->inner = s->reducing = true;
        s->info->class = OPCLASS_REDUCTION;
        scan_kids(s, n);
        s->inner = inner;
        s->reducing = reducing;
        return;
    }
    case N_CALL:
        if (asks_shape(s, n)) return;
        s->computes = true;
        if (!is_cheap(KID(n, CALL, callee))) {
            s->costly = true;
            s->costly_in = s->costly_in || s->reducing;
            s->costly_after = s->costly_after || !s->inner;
        }
        scan_kids(s, n);
        return;
    case N_FIELD: // x.shape and the like read no element
        if (param_of(s, KID(n, FIELD, base)) < 0) scan_kids(s, n);
        return;
    case N_ELSE: scan_kids(s, n); return;
    case N_REQUIRE: return; // holds or not once shapes and attributes are known
    case N_LET: scan_let(s, n); return;
    case N_ASSIGN: {
        Node *place = KID(n, ASSIGN, place);
        s->pattern = place->kind == N_INDEX ? place : NULL;
        scan(s, KID(n, ASSIGN, value));
        return;
    }
    default:
        if (node_info[n->kind].class == CLASS_E && n->nkid > 0 && n->kind != N_SPREAD &&
            n->kind != N_BLOCK) {
            s->computes = true;
        }
        scan_kids(s, n);
    }
}

static bool has_clause(const Node *decl, const char *word, const char *arg)
{
    Node *clauses = KID((Node *)decl, OP, clauses);
    for (int i = 0; i < NREST(clauses); i++) {
        Node *c = REST(clauses)[i], *args = KID(c, CLAUSE, args);
        if (strcmp(c->u.sym, word)) continue;
        if (!arg || (NREST(args) && !strcmp(REST(args)[0]->u.sym, arg))) return true;
    }
    return false;
}

// Whether names of the body, other than as the base or index of a simple read, are axes or extents.
static bool names_axes(const Scan *s, Node *n, bool top)
{
    if (n->kind == N_NAME) {
        if (!top) return false;
        for (int i = 0; s->pattern && i < NREST(s->pattern); i++) {
            Node *p = REST(s->pattern)[i];
            Node *name = p->kind == N_SPREAD ? KID(p, SPREAD, pack) : p;
            if (name->kind == N_NAME && name->u.sym == n->u.sym) return true;
        }
        for (int i = 0; i < NREST(s->params); i++) {
            Node *type = KID(REST(s->params)[i], PARAM, type);
            for (int k = 0; type && k < NREST(type); k++) {
                Node *p = REST(type)[k], *name = p->kind == N_SPREAD ? KID(p, SPREAD, pack) : p;
                if (name->kind == N_NAME && name->u.sym == n->u.sym) return true;
            }
        }
        return false;
    }
    if (n->kind == N_INDEX && param_of(s, KID(n, INDEX, base)) >= 0) {
        OpAccess a = access_of(s, n);
        if (a == ACCESS_SAME || a == ACCESS_BROADCAST) return false;
    }
    for (uint32_t i = 0; i < n->nkid; i++)
        if (n->kid[i] && names_axes(s, n->kid[i], true)) return true;
    return false;
}

static bool collapses(Scan *s, Node *n)
{
    if (n->kind == N_SEQ) {
        for (uint32_t i = 0; i < n->nkid; i++)
            if (!collapses(s, n->kid[i])) return false;
        return true;
    }
    if (n->kind == N_IF) {
        return !names_axes(s, KID(n, IF, cond), true) && collapses(s, KID(n, IF, then)) &&
               (!KID(n, IF, other) || collapses(s, KID(n, IF, other)));
    }
    if (n->kind == N_REQUIRE) return true;
    if (n->kind != N_ASSIGN) return false;
    Node *place = KID(n, ASSIGN, place);
    s->pattern = place->kind == N_INDEX ? place : NULL;
    if (!s->pattern || NREST(s->pattern) != 1 || REST(s->pattern)[0]->kind != N_SPREAD)
        return false;
    return !names_axes(s, KID(n, ASSIGN, value), true);
}

// Whether the result's extents are those of a parameter, or what parameters broadcast to.
static bool extents_follow(Node *op)
{
    Node *results = KID(op, OP, results);
    for (int i = 0; i < NREST(results); i++) {
        Node *type = KID(REST(results)[i], PARAM, type);
        if (!type || NREST(type) != 1 || REST(type)[0]->kind != N_SPREAD) return false;
        Node *pack = KID(REST(type)[0], SPREAD, pack);
        if (pack->kind == N_NAME) continue;
        if (pack->kind != N_CALL || KID(pack, CALL, callee)->kind != N_NAME) return false;
        if (strcmp(KID(pack, CALL, callee)->u.sym, "broadcast")) return false;
        for (int k = 0; k < NREST(pack); k++) {
            bool of_params = false;
            Node *params = KID(op, OP, params);
            for (int p = 0; p < NREST(params); p++) {
                Node *t = KID(REST(params)[p], PARAM, type);
                Node *d = t && NREST(t) == 1 ? REST(t)[0] : NULL;
                of_params = of_params || (d && d->kind == N_SPREAD &&
                                          node_equal(KID(d, SPREAD, pack), REST(pack)[k]));
            }
            if (!of_params) return false;
        }
    }
    return true;
}

static OpClass class_of(const OpInfo *info)
{
    bool pointwise = false;
    for (int i = 0; i < info->nparam; i++) {
        if (info->access[i] == ACCESS_REDUCE) return OPCLASS_REDUCTION;
        if (info->access[i] == ACCESS_MAP) return OPCLASS_MAP;
        pointwise =
            pointwise || info->access[i] == ACCESS_SAME || info->access[i] == ACCESS_BROADCAST;
    }
    return pointwise ? OPCLASS_POINTWISE : OPCLASS_MAP;
}

void op_classify(Arena *a, const Node *decl, OpInfo *info)
{
    Node *op = (Node *)decl, *params = KID(op, OP, params);
    *info = (OpInfo){.decl = decl, .nparam = NREST(params)};
    info->access = NEW_ARRAY(a, OpAccess, info->nparam);
    info->windows = NEW_ARRAY(a, bool, info->nparam);
    info->view = has_clause(decl, "class", "view");
    info->wide = has_clause(decl, "class", "wide");
    info->folds = has_clause(decl, "class", "folds");
    info->bijective = info->view || has_clause(decl, "bijective", NULL);
    if (decl->sub == OP_SERIAL) {
        info->class = OPCLASS_SERIAL;
        for (int i = 0; i < info->nparam; i++) info->access[i] = ACCESS_REDUCE;
        return;
    }
    Scan s = {.info = info, .params = params};
    info->class = OPCLASS_MAP;
    scan(&s, KID(op, OP, body));
    if (info->class != OPCLASS_REDUCTION) info->class = class_of(info);
    info->moves = !s.computes && info->class != OPCLASS_REDUCTION;
    info->repeats = s.costly_in && s.costly_after;
    info->costly = s.costly || info->class == OPCLASS_REDUCTION;
    s.pattern = NULL;
    info->collapses =
        info->class == OPCLASS_POINTWISE && extents_follow(op) && collapses(&s, KID(op, OP, body));
}

const char *op_class_name(OpClass c)
{
    static const char *const names[] = {"pointwise", "map", "reduction", "serial"};
    return names[c];
}
