// SPDX-License-Identifier: Apache-2.0
// The index over a library's ops by ONNX name and version.
#include "ops/ops.h"

#include "ops/op_class.h"

#include <string.h>

typedef struct Entry { // one ONNX clause
    OpBinding binding;
    const Node *versions;
} Entry;
typedef VEC(Entry *) Entries;

struct OpTable {
    Arena *arena;
    const Library *library;
    Map onnx;     // Sym -> Entries *
    Map infos;    // declaration -> OpInfo *
    Map bindings; // declaration -> OpBinding *
};

// Names after "with"; without them, all parameters in order.
static OpBinding make_binding(Arena *a, const Node *decl, Node *with)
{
    Node *params = KID((Node *)decl, OP, params);
    Node *list = with && NREST(with) ? with : params;
    OpBinding b = {.decl = decl, .ninput = NREST(list)};
    Sym *input = NEW_ARRAY(a, Sym, b.ninput);
    for (int i = 0; i < b.ninput; i++) input[i] = REST(list)[i]->u.sym;
    b.input = input;
    return b;
}

static void add_clauses(OpTable *t, const Node *decl)
{
    Node *clauses = KID((Node *)decl, OP, clauses);
    for (int i = 0; i < NREST(clauses); i++) {
        Node *c = REST(clauses)[i];
        if (strcmp(c->u.sym, "onnx")) continue;
        Node *args = KID(c, CLAUSE, args);
        Entry *e = NEW(t->arena, Entry);
        e->binding = make_binding(t->arena, decl, REST(args)[2]);
        e->versions = REST(args)[1];
        Sym name = REST(args)[0]->u.sym;
        Entries *list = map_get(&t->onnx, name);
        if (!list) map_put(t->arena, &t->onnx, name, list = NEW(t->arena, Entries));
        VEC_PUSH(t->arena, list, e);
    }
}

OpTable *op_table_new(Arena *a, const Library *l)
{
    OpTable *t = NEW(a, OpTable);
    t->arena = a;
    t->library = l;
    for (int i = 0; i < l->ops.n; i++) add_clauses(t, l->ops.entry[i].value);
    return t;
}

static bool lists(const Entry *e, int64_t version)
{
    for (uint32_t i = 0; i < e->versions->nkid; i++)
        if (e->versions->kid[i]->u.i == version) return true;
    return false;
}

OpBindings op_table_onnx(const OpTable *t, const char *name, int64_t opset, bool *known)
{
    const Entries *list = map_get(&t->onnx, intern(t->library->names, name));
    OpBindings out = {0};
    int64_t best = -1;
    *known = list != NULL;
    for (int i = 0; list && i < list->n; i++) {
        const Node *v = list->at[i]->versions;
        for (uint32_t k = 0; k < v->nkid; k++)
            if (v->kid[k]->u.i <= opset) best = max_i64(best, v->kid[k]->u.i);
    }
    for (int i = 0; best >= 0 && i < list->n; i++)
        if (lists(list->at[i], best)) VEC_PUSH(t->arena, &out, &list->at[i]->binding);
    return out;
}

bool op_has_attr(const Node *decl, Sym name)
{
    Node *attrs = KID((Node *)decl, OP, attrs);
    for (int i = 0; i < NREST(attrs); i++)
        if (REST(attrs)[i]->u.sym == name) return true;
    return false;
}

const OpInfo *op_info(OpTable *t, const Node *decl)
{
    OpInfo *info = map_get(&t->infos, decl);
    if (!info) {
        info = NEW(t->arena, OpInfo);
        op_classify(t->arena, decl, info);
        map_put(t->arena, &t->infos, decl, info);
    }
    return info;
}

const OpBinding *op_binding(OpTable *t, const Node *decl)
{
    OpBinding *b = map_get(&t->bindings, decl);
    if (!b) {
        b = NEW(t->arena, OpBinding);
        *b = make_binding(t->arena, decl, NULL);
        map_put(t->arena, &t->bindings, decl, b);
    }
    return b;
}
