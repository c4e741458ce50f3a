// SPDX-License-Identifier: Apache-2.0
// Nodes: the table, constructors, and everything that works the same for every kind because all
// children are in one array: rewriting, equality, hashing, asking.
#include "ir/node.h"

#include "ir/kernel.h"
#include "ir/scalar.h"

#include <string.h>

const NodeInfo node_info[N_COUNT] = {
    [N_NONE] = {.name = "NONE", .spelling = "?", .children = "()"},
#define NODE(KIND, spelling, form, class, u, sub, operands, nfixed, variadic, optional, kids)      \
    [N_##KIND] = {                                                                                 \
        #KIND,  spelling, FORM_##form, CLASS_##class, PAYLOAD_##u, SUB_##sub, OPERANDS_##operands, \
        nfixed, variadic, optional,    #kids},
#include "ir/nodes.def"
#undef NODE
};

const char *const space_name[] = {"global", "workspace", "shared", "core_local", "local"};

// ---- constructors

Node *node_new(Arena *a, NodeKind kind, Loc loc, int nkid)
{
    ASSERT(kind > N_NONE && kind < N_COUNT && nkid >= node_info[kind].nfixed);
    ASSERT(node_info[kind].variadic || nkid == node_info[kind].nfixed);
    Node *n = arena_alloc(a, sizeof(Node) + (size_t)nkid * sizeof(Node *));
    n->kind = (uint16_t)kind;
    n->loc = loc;
    n->nkid = (uint32_t)nkid;
    return n;
}

static void take_type(Node *n, const Node *from)
{
    n->type = from->type;
    n->lanes = from->lanes;
}

// Type and lanes of an expression where its operands decide them; text has none yet.
static void infer_type(Node *n)
{
    switch (node_info[n->kind].operands) {
    case OPERANDS_NUMBERS:
    case OPERANDS_INTS:
    case OPERANDS_BITS: take_type(n, n->kid[0]); return;
    case OPERANDS_BOOLS:
    case OPERANDS_ALIKE:
        take_type(n, n->kid[0]);
        if (n->type != DT_NONE) n->type = DT_BOOL;
        return;
    case OPERANDS_ONE: n->lanes = n->kid[0]->lanes; return;
    case OPERANDS_NONE: break;
    }
    switch (n->kind) {
    case N_RAMP:
    case N_BROADCAST: take_type(n, n->kid[0]); break;
    case N_SELECT: take_type(n, KID(n, SELECT, a)); break;
    case N_EXTRACT:
        take_type(n, KID(n, EXTRACT, a));
        n->lanes = n->lanes ? 1 : 0;
        break;
    default: break;
    }
}

Node *node_make(Arena *a, NodeKind kind, Loc loc, int nkid, Node *const *kid)
{
    Node *n = node_new(a, kind, loc, nkid);
    if (nkid) memcpy(n->kid, kid, (size_t)nkid * sizeof *kid);
    infer_type(n);
    return n;
}

Node *node_int(Arena *a, Loc loc, DType type, int64_t v)
{
    Node *n = node_new(a, N_INT, loc, 0);
    n->type = (uint8_t)type;
    n->lanes = type != DT_NONE;
    n->u.i = type == DT_NONE ? v : scalar_int(type, v).v.i;
    return n;
}

Node *node_i64(Arena *a, int64_t v)
{
    return node_int(a, 0, DT_I64, v);
}

Node *node_float(Arena *a, Loc loc, DType type, double v)
{
    Node *n = node_new(a, N_FLOAT, loc, 0);
    n->type = (uint8_t)type;
    n->lanes = type != DT_NONE;
    n->u.f = type == DT_NONE ? v : scalar_float(type, v).v.f;
    return n;
}

Node *node_var(Arena *a, Loc loc, Var *v)
{
    Node *n = node_new(a, N_VARREF, loc, 0);
    n->type = (uint8_t)v->type;
    n->lanes = v->lanes;
    n->u.var = v;
    return n;
}

Node *node_unary(Arena *a, NodeKind kind, Node *x)
{
    return node_make(a, kind, x->loc, 1, &x);
}

Node *node_binary(Arena *a, NodeKind kind, Node *x, Node *y)
{
    return node_make(a, kind, x->loc, 2, (Node *[]){x, y});
}

Node *node_select(Arena *a, Node *cond, Node *x, Node *y)
{
    return node_make(a, N_SELECT, cond->loc, 3, (Node *[]){cond, x, y});
}

Node *node_cast(Arena *a, DType type, Node *x)
{
    if (x->type == type) return x;
    Node *n = node_unary(a, N_CAST, x);
    n->type = (uint8_t)type;
    return n;
}

Node *node_widen(Arena *a, Node *x, int lanes)
{
    if (x->lanes == lanes) return x;
    Node *n = node_unary(a, N_BROADCAST, x);
    n->lanes = (uint16_t)lanes;
    return n;
}

static bool declares(const Node *stmt)
{
    return stmt->kind == N_DEFINE || stmt->kind == N_DECLARE || stmt->kind == N_ALLOC;
}

// A SEQ that may be spliced into the one around it: what it declares would live longer there.
static bool spliceable(const Node *stmt)
{
    if (stmt->kind != N_SEQ) return false;
    for (uint32_t i = 0; i < stmt->nkid; i++) {
        if (declares(stmt->kid[i])) return false;
    }
    return true;
}

static void append_statement(Arena *a, Node *seq, Node *stmt)
{
    if (!stmt) return;
    if (!spliceable(stmt)) {
        seq->kid[seq->nkid++] = stmt;
        return;
    }
    for (uint32_t i = 0; i < stmt->nkid; i++) append_statement(a, seq, stmt->kid[i]);
}

static int count_statements(const Node *stmt)
{
    if (!stmt) return 0;
    if (!spliceable(stmt)) return 1;
    int n = 0;
    for (uint32_t i = 0; i < stmt->nkid; i++) n += count_statements(stmt->kid[i]);
    return n;
}

Node *node_seq(Arena *a, Loc loc, int n, Node *const *stmt)
{
    if (n == 1 && stmt[0] && stmt[0]->kind == N_SEQ) return stmt[0];
    int total = 0;
    for (int i = 0; i < n; i++) total += count_statements(stmt[i]);
    Node *seq = node_new(a, N_SEQ, loc, total);
    seq->nkid = 0;
    for (int i = 0; i < n; i++) append_statement(a, seq, stmt[i]);
    return seq;
}

// ---- rewriting

Node *node_map(Arena *a, Node *n, NodeFn *f, void *user)
{
    Node *copy = NULL;
    for (uint32_t i = 0; i < n->nkid; i++) {
        Node *old = n->kid[i], *new = old ? f(user, old) : NULL;
        if (new == old) continue;
        if (!copy) copy = arena_copy(a, n, sizeof(Node) + n->nkid * sizeof(Node *));
        copy->kid[i] = new;
    }
    return copy ? copy : n;
}

typedef struct Subst {
    Arena *arena;
    const Map *values;
} Subst;

static Node *subst(void *user, Node *n)
{
    Subst *s = user;
    if (n->kind != N_VARREF) return node_map(s->arena, n, subst, s);
    Node *value = map_get(s->values, n->u.var);
    return value ? value : n;
}

Node *node_subst(Arena *a, Node *n, const Map *values)
{
    return subst(&(Subst){a, values}, n);
}

// ---- equality and hash

static bool payload_equal(const Node *a, const Node *b)
{
    switch (node_info[a->kind].payload) {
    case PAYLOAD_NONE: return true;
    case PAYLOAD_I: return a->u.i == b->u.i;
    case PAYLOAD_F: return !memcmp(&a->u.f, &b->u.f, sizeof a->u.f);
    case PAYLOAD_SYM: return a->u.sym == b->u.sym;
    case PAYLOAD_VAR: return a->u.var == b->u.var;
    case PAYLOAD_BUF: return a->u.buf == b->u.buf;
    case PAYLOAD_MAP: return a->u.map == b->u.map || mapping_equal(a->u.map, b->u.map);
    case PAYLOAD_INTR: return a->u.intr == b->u.intr;
    }
    BUG("payload of node kind %d", a->kind);
}

bool node_equal(const Node *a, const Node *b)
{
    if (a == b) return true;
    if (!a || !b || a->kind != b->kind || a->sub != b->sub || a->type != b->type ||
        a->lanes != b->lanes || a->nkid != b->nkid || !payload_equal(a, b)) {
        return false;
    }
    for (uint32_t i = 0; i < a->nkid; i++) {
        if (!node_equal(a->kid[i], b->kid[i])) return false;
    }
    return true;
}

static uint64_t hash_i64(int64_t v, uint64_t seed)
{
    return hash_bytes(&v, sizeof v, seed);
}

// By content, not by address, so that a hash is the same in every run.
static uint64_t hash_payload(const Node *n, uint64_t h)
{
    switch (node_info[n->kind].payload) {
    case PAYLOAD_NONE: return h;
    case PAYLOAD_I: return hash_i64(n->u.i, h);
    case PAYLOAD_F: return hash_bytes(&n->u.f, sizeof n->u.f, h);
    case PAYLOAD_SYM: return n->u.sym ? hash_bytes(n->u.sym, strlen(n->u.sym), h) : h;
    case PAYLOAD_VAR: return hash_i64(n->u.var->id, h);
    case PAYLOAD_BUF: return hash_i64(n->u.buf->id, h);
    case PAYLOAD_MAP: return hash_i64(n->u.map->ntask, hash_i64(n->u.map->nworker, h));
    case PAYLOAD_INTR: return hash_i64(intrinsic_id(n->u.intr), h);
    }
    BUG("payload of node kind %d", n->kind);
}

static uint64_t hash_from(const Node *n, uint64_t h)
{
    if (!n) return hash_i64(-1, h);
    h = hash_bytes((int64_t[]){n->kind, n->sub, n->type, n->lanes, n->nkid}, 5 * sizeof(int64_t),
                   h);
    h = hash_payload(n, h);
    for (uint32_t i = 0; i < n->nkid; i++) h = hash_from(n->kid[i], h);
    return h;
}

uint64_t node_hash(const Node *n)
{
    return hash_from(n, 0);
}

// ---- questions

bool node_is_const(const Node *n, int64_t v)
{
    return n->kind == N_INT && n->u.i == v;
}

static bool pure_itself(const Node *n)
{
    const NodeInfo *info = &node_info[n->kind];
    switch (n->kind) {
    case N_VARREF: return !n->u.var->mutable;
    case N_INTRIN: return strchr(n->u.intr->flags, 'P') != NULL;
    case N_LOAD:
    case N_LOAD_ELSE:
    case N_REF: return false;
    default: return info->class == CLASS_E && info->form != FORM_T;
    }
}

bool node_pure(const Node *n)
{
    if (!pure_itself(n)) return false;
    for (uint32_t i = 0; i < n->nkid; i++) {
        if (n->kid[i] && !node_pure(n->kid[i])) return false;
    }
    return true;
}

bool node_uses_var(const Node *n, const Var *v)
{
    if ((n->kind == N_VARREF || n->kind == N_SET) && n->u.var == v) return true;
    for (uint32_t i = 0; i < n->nkid; i++) {
        if (n->kid[i] && node_uses_var(n->kid[i], v)) return true;
    }
    return false;
}
