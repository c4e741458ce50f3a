// SPDX-License-Identifier: Apache-2.0
// Declarations.
#include "lang/parser.h"

#include <string.h>

static Node *make_sym(Parser *p, NodeKind kind, Loc loc, Sym sym, int nkid, Node *const *kid)
{
    Node *n = make(p, kind, loc, nkid, kid);
    n->u.sym = sym;
    return n;
}

static Node *empty_tuple(Parser *p)
{
    return make(p, N_TUPLE, here(p), 0, NULL);
}

// ---- signatures

// param := NAME [ "?" ] ":" [ "const" ] type [ "..." ] [ "prefer" "layout" expr ]
// With bare names allowed, ":" and what follows may be missing, but for "...".
static Node *param(Parser *p, bool bare)
{
    Loc loc = here(p);
    Sym sym = name(p, "a parameter");
    int sub = accept(p, T_QUESTION) ? PARAM_OPTIONAL : 0;
    Node *t = NULL, *prefer = NULL;
    if (!bare || p->tok.kind == T_COLON) {
        expect(p, T_COLON);
        if (at_word(p, "const") && peek(p).kind == T_NAME) {
            advance(p);
            sub |= PARAM_CONST;
        }
        t = type(p);
    }
    if (accept(p, T_ELLIPSIS)) sub |= PARAM_VARIADIC;
    if (t && accept_word(p, "prefer")) {
        if (!accept_word(p, "layout")) expected(p, "'layout'");
        prefer = expr(p);
    }
    Node *n = make_sym(p, N_PARAM, loc, sym, 4, (Node *[]){t, NULL, NULL, prefer});
    n->sub = (uint8_t)sub;
    return n;
}

// attr := NAME [ "?" ] ":" type [ "in" "{" expr { "," expr } "}" ] [ "=" expr ]
static Node *attr(Parser *p)
{
    Loc loc = here(p);
    Sym sym = name(p, "an attribute");
    int sub = accept(p, T_QUESTION) ? PARAM_OPTIONAL : 0;
    expect(p, T_COLON);
    Node *t = type(p), *among = NULL, *value = NULL;
    if (accept(p, T_IN)) {
        Loc open = here(p);
        expect(p, T_LBRACE);
        among = expr_list(p, T_EOF, PREC_ANY);
        expect_closing(p, T_RBRACE, open);
    }
    if (accept(p, T_ASSIGN)) value = expr(p);
    Node *n = make_sym(p, N_PARAM, loc, sym, 4, (Node *[]){t, value, among, NULL});
    n->sub = (uint8_t)sub;
    return n;
}

// "(" [ param { "," param } ] [ ";" [ attr { "," attr } ] ] ")"; attributes only where asked for
static Node *params(Parser *p, bool bare, Node **attrs)
{
    Loc open = here(p);
    Nodes list = {0}, attr_list = {0};
    expect(p, T_LPAREN);
    if (p->tok.kind != T_RPAREN && p->tok.kind != T_SEMICOLON) {
        do push(p, &list, param(p, bare));
        while (accept(p, T_COMMA));
    }
    Loc at = here(p);
    if (attrs && accept(p, T_SEMICOLON) && p->tok.kind != T_RPAREN) {
        do push(p, &attr_list, attr(p));
        while (accept(p, T_COMMA));
    }
    expect_closing(p, T_RPAREN, open);
    if (attrs) *attrs = make_list(p, N_TUPLE, at, &attr_list);
    return make_list(p, N_TUPLE, open, &list);
}

// generics := "[" NAME ":" type { "|" type } { "," ... } "]"
static Node *generics(Parser *p)
{
    Loc open = here(p);
    Nodes list = {0};
    if (!accept(p, T_LBRACKET)) return empty_tuple(p);
    do {
        Loc loc = here(p);
        Sym sym = name(p, "a name");
        expect(p, T_COLON);
        Loc at = here(p);
        Nodes types = {0};
        do push(p, &types, type(p));
        while (accept(p, T_BAR));
        Node *tuple = make_list(p, N_TUPLE, at, &types);
        push(p, &list, make_sym(p, N_GENERIC, loc, sym, 1, &tuple));
    } while (accept(p, T_COMMA));
    expect_closing(p, T_RBRACKET, open);
    return make_list(p, N_TUPLE, open, &list);
}

// ---- clauses

// "onnx" NAME { "." NAME } [ "(" INT { "," INT } ")" ] [ "with" NAME { "," NAME } ]
static void clause_onnx(Parser *p, Nodes *list)
{
    Loc loc = here(p);
    uint32_t from = p->tok.at;
    name(p, "the name of an ONNX operator");
    while (accept(p, T_DOT)) name(p, "a name");
    Sym sym = intern_n(p->names, p->source->text + from, p->panic ? 0 : p->prev_end - from);
    push(p, list, make_sym(p, N_STRING, loc, sym, 0, NULL));
    Node *versions = empty_tuple(p), *with = empty_tuple(p);
    Loc open = here(p);
    if (accept(p, T_LPAREN)) {
        versions = expr_list(p, T_RPAREN, PREC_ANY);
        for (uint32_t i = 0; i < versions->nkid; i++)
            if (versions->kid[i]->kind != N_INT)
                complain(p, versions->kid[i]->loc, "a version is a number");
        expect_closing(p, T_RPAREN, open);
    }
    if (accept_word(p, "with")) with = names_list(p);
    push(p, list, versions);
    push(p, list, with);
}

static void clause_flag(Parser *p, Nodes *list)
{
    UNUSED(p);
    UNUSED(list);
}

static void clause_name(Parser *p, Nodes *list)
{
    push(p, list, name_node(p, "a name"));
}

// "alias" NAME "->" NAME
static void clause_alias(Parser *p, Nodes *list)
{
    push(p, list, name_node(p, "the name of an input"));
    expect(p, T_ARROW);
    push(p, list, name_node(p, "the name of an output"));
}

// "implements" NAME { "," NAME }
static void clause_names(Parser *p, Nodes *list)
{
    do push(p, list, name_node(p, "the name of an op"));
    while (accept(p, T_COMMA));
}

// "on" NAME [ "(" NAME ")" ]
static void clause_target(Parser *p, Nodes *list)
{
    push(p, list, name_node(p, "a target"));
    Loc open = here(p);
    if (!accept(p, T_LPAREN)) return;
    push(p, list, name_node(p, "an architecture"));
    expect_closing(p, T_RPAREN, open);
}

static const struct {
    const char *word;
    NodeKind of;
    void (*parse)(Parser *p, Nodes *list);
} clauses[] = {
    {"onnx", N_OP, clause_onnx},       {"bijective", N_OP, clause_flag},
    {"serial", N_OP, clause_flag},     {"class", N_OP, clause_name},
    {"alias", N_OP, clause_alias},     {"implements", N_KERNEL, clause_names},
    {"alias", N_KERNEL, clause_alias}, {"on", N_KERNEL, clause_target},
};

static Node *clause(Parser *p, NodeKind of)
{
    Loc loc = here(p);
    for (size_t k = 0; k < COUNT(clauses); k++) {
        if (clauses[k].of != of || !accept_word(p, clauses[k].word)) continue;
        Nodes list = {0};
        clauses[k].parse(p, &list);
        Node *arguments = make_list(p, N_TUPLE, loc, &list);
        return make_sym(p, N_CLAUSE, loc, intern(p->names, clauses[k].word), 1, &arguments);
    }
    expected(p, of == N_OP ? "'{', onnx, bijective, serial, class or alias"
                           : "'{', implements, on or alias");
    return make_sym(p, N_CLAUSE, loc, intern(p->names, ""), 1, (Node *[]){empty_tuple(p)});
}

// clause*, up to the body
static Node *clause_list(Parser *p, NodeKind of)
{
    Loc loc = here(p);
    Nodes list = {0};
    while (p->tok.kind != T_LBRACE && !p->panic) push(p, &list, clause(p, of));
    return make_list(p, N_TUPLE, loc, &list);
}

static bool has_clause(const Node *list, const char *word)
{
    for (uint32_t i = 0; i < list->nkid; i++)
        if (!strcmp(list->kid[i]->u.sym, word)) return true;
    return false;
}

// ---- declarations

// op := "op" NAME "(" params [ ";" attrs ] ")" "->" "(" params ")" clause* block
static Node *op(Parser *p)
{
    advance(p);
    Loc loc = here(p);
    Sym sym = name(p, "the op's name");
    Node *attrs, *ins = params(p, false, &attrs);
    expect(p, T_ARROW);
    Node *outs = params(p, false, NULL);
    Node *list = clause_list(p, N_OP), *body = block(p);
    Node *n = make_sym(p, N_OP, loc, sym, 5, (Node *[]){ins, attrs, outs, list, body});
    n->sub = has_clause(list, "serial") ? OP_SERIAL : OP_INDEX;
    return n;
}

// kernel := "kernel" NAME [ generics ] "(" params [ ";" attrs ] ")" "->" "(" params ")" clause*
// block
static Node *kernel(Parser *p)
{
    advance(p);
    Loc loc = here(p);
    Sym sym = name(p, "the kernel's name");
    Node *types = generics(p), *attrs, *ins = params(p, false, &attrs);
    expect(p, T_ARROW);
    Node *outs = params(p, false, NULL);
    Node *list = clause_list(p, N_KERNEL), *body = block(p);
    return make_sym(p, N_KERNEL, loc, sym, 6, (Node *[]){types, ins, attrs, outs, list, body});
}

// fn := "fn" NAME [ generics ] "(" params ")" [ "->" type ] (block_expr | "=" expr ";")
static Node *fn(Parser *p)
{
    advance(p);
    Loc loc = here(p);
    Sym sym = name(p, "the function's name");
    Node *types = generics(p), *ins = params(p, true, NULL);
    Node *result = accept(p, T_ARROW) ? type(p) : NULL, *body;
    Loc at = here(p);
    if (accept(p, T_ASSIGN)) {
        Node *value = expr(p);
        expect(p, T_SEMICOLON);
        body = MAKE(p, BLOCK, at, value);
    } else {
        body = block_expr(p);
    }
    return make_sym(p, N_FN, loc, sym, 4, (Node *[]){types, ins, result, body});
}

// rule := "rule" NAME "{" expr [ "when" expr ] "=>" let* expr "}"
static Node *rule(Parser *p)
{
    advance(p);
    Loc loc = here(p);
    Sym sym = name(p, "the rule's name");
    Loc open = here(p);
    expect(p, T_LBRACE);
    Node *from = expr(p), *when = accept(p, T_WHEN) ? expr(p) : NULL;
    Loc at = here(p);
    expect(p, T_FAT_ARROW);
    Nodes list = {0};
    while (p->tok.kind == T_LET) push(p, &list, let(p));
    Node *lets = make_list(p, N_SEQ, at, &list), *to = expr(p);
    expect_closing(p, T_RBRACE, open);
    return make_sym(p, N_RULE, loc, sym, 4, (Node *[]){from, when, lets, to});
}

// graph := "graph" NAME "(" params ")" "->" "(" params ")" block
static Node *graph(Parser *p)
{
    advance(p);
    Loc loc = here(p);
    Sym sym = name(p, "the graph's name");
    Node *ins = params(p, false, NULL);
    expect(p, T_ARROW);
    Node *outs = params(p, true, NULL), *body = block(p);
    return make_sym(p, N_GRAPH, loc, sym, 3, (Node *[]){ins, outs, body});
}

// "let" NAME "=" expr ";"
static Node *constant(Parser *p)
{
    advance(p);
    Loc loc = here(p);
    Sym sym = name(p, "a name");
    expect(p, T_ASSIGN);
    Node *value = expr(p);
    expect(p, T_SEMICOLON);
    return make_sym(p, N_CONSTANT, loc, sym, 1, &value);
}

// decl := op | kernel | fn | rule | graph | constant
Node *declaration(Parser *p)
{
    switch (p->tok.kind) {
    case T_OP: return op(p);
    case T_KERNEL: return kernel(p);
    case T_FN: return fn(p);
    case T_RULE: return rule(p);
    case T_GRAPH: return graph(p);
    case T_LET: return constant(p);
    default: expected(p, "op, kernel, fn, rule, graph or let"); return empty_tuple(p);
    }
}
