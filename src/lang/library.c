// SPDX-License-Identifier: Apache-2.0
// Declarations of many files by name. Ops, kernels, functions, constants, rules and graphs have
// each their own names.
#include "lang/lang.h"

#include <string.h>

void library_init(Library *l, Arena *a, Interner *names, Sources *sources)
{
    *l = (Library){.arena = a, .names = names, .sources = sources};
}

static Map *map_of(Library *l, const Node *decl)
{
    switch (decl->kind) {
    case N_OP: return &l->ops;
    case N_KERNEL: return &l->kernels;
    case N_FN: return &l->fns;
    case N_GRAPH: return &l->graphs;
    case N_CONSTANT: return &l->constants;
    default: return NULL; // rules are a list
    }
}

// Names declared twice in the file; true if there are none.
static bool all_differ(Arena *a, const Node *file, Diag *d)
{
    Map seen[N_COUNT] = {0};
    bool ok = true;
    for (uint32_t i = 0; i < file->nkid; i++) {
        Node *decl = file->kid[i], *before = map_get(&seen[decl->kind], decl->u.sym);
        if (before) {
            diag_error(d, decl->loc, "the %s '%s' is declared twice in this file",
                       node_info[decl->kind].spelling, decl->u.sym);
            diag_note(d, before->loc, "first here");
            ok = false;
        } else {
            map_put(a, &seen[decl->kind], decl->u.sym, decl);
        }
    }
    return ok;
}

// The names after "implements", a TUPLE; NULL without that clause.
static const Node *implemented(Node *kernel)
{
    const Node *clauses = KID(kernel, KERNEL, clauses);
    for (uint32_t i = 0; i < clauses->nkid; i++)
        if (!strcmp(clauses->kid[i]->u.sym, "implements"))
            return clauses->kid[i]->kid[KID_CLAUSE_args];
    return NULL;
}

static int index_of(const KernelList *list, const Node *kernel)
{
    for (int i = 0; i < list->n; i++)
        if (list->at[i] == kernel) return i;
    return -1;
}

static bool names_op(const Node *list, Sym op)
{
    for (uint32_t i = 0; list && i < list->nkid; i++)
        if (list->kid[i]->u.sym == op) return true;
    return false;
}

// Where it no longer implements the op, the replaced kernel goes; where it still does, the new one
// stands in its place.
static void retire(Library *l, Node *old, Node *kernel)
{
    const Node *was = implemented(old), *is = implemented(kernel);
    for (uint32_t i = 0; was && i < was->nkid; i++) {
        KernelList *list = map_get(&l->implementers, was->kid[i]->u.sym);
        int at = index_of(list, old);
        if (at < 0) continue;
        if (names_op(is, was->kid[i]->u.sym)) {
            list->at[at] = kernel;
        } else {
            memmove(list->at + at, list->at + at + 1, (size_t)(list->n - at - 1) * sizeof(Node *));
            list->n--;
        }
    }
}

static void add_kernel(Library *l, Node *kernel)
{
    Node *old = map_get(&l->kernels, kernel->u.sym);
    if (old) retire(l, old, kernel);
    const Node *ops = implemented(kernel);
    for (uint32_t i = 0; ops && i < ops->nkid; i++) {
        Sym op = ops->kid[i]->u.sym;
        KernelList *list = map_get(&l->implementers, op);
        if (!list) map_put(l->arena, &l->implementers, op, list = NEW(l->arena, KernelList));
        if (index_of(list, kernel) < 0) VEC_PUSH(l->arena, list, kernel);
    }
}

static void add_rule(Library *l, Node *rule)
{
    for (int i = 0; i < l->rules.n; i++) {
        if (l->rules.at[i]->u.sym != rule->u.sym) continue;
        l->rules.at[i] = rule;
        return;
    }
    VEC_PUSH(l->arena, &l->rules, rule);
}

bool library_add(Library *l, Node *file, Diag *d)
{
    if (!all_differ(l->arena, file, d)) return false;
    for (uint32_t i = 0; i < file->nkid; i++) {
        Node *decl = file->kid[i];
        Map *map = map_of(l, decl);
        if (decl->kind == N_KERNEL) add_kernel(l, decl);
        if (map) map_put(l->arena, map, decl->u.sym, decl);
        else add_rule(l, decl);
    }
    return true;
}

static bool pattern_of_ops(const Library *l, const Node *rule, const Node *n, Diag *d)
{
    if (n->kind == N_ARG) return true; // an attribute
    const Node *callee = n->kind == N_CALL ? n->kid[0] : NULL;
    if (callee && callee->kind == N_NAME && !map_has(&l->ops, callee->u.sym)) {
        diag_error(d, n->loc, "the rule '%s' looks for '%s', which is no op", rule->u.sym,
                   callee->u.sym);
        return false;
    }
    bool good = true;
    for (uint32_t i = callee ? 1 : 0; i < n->nkid; i++)
        if (n->kid[i]) good = pattern_of_ops(l, rule, n->kid[i], d) && good;
    return good;
}

bool library_check(const Library *l, Diag *d)
{
    bool good = true;
    for (int i = 0; i < l->rules.n; i++) {
        const Node *rule = l->rules.at[i];
        good = pattern_of_ops(l, rule, rule->kid[KID_RULE_pattern], d) && good;
    }
    return good;
}
