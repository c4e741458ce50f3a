// SPDX-License-Identifier: Apache-2.0
// Declarations.
#include "lang/parser.h"

#include <string.h>

static Node *empty_tuple(Parser *p)
{
    return parser_make(p, N_TUPLE, parser_here(p), 0, NULL);
}

// ---- signatures

// param := NAME [ "?" ] ":" [ "const" ] type [ "..." ] [ "prefer" "layout" expr [ "worth" expr ] ]
typedef enum ParamForm {
    PARAM_TYPED,
    PARAM_BARE, // ":" and the type may be missing
    PARAM_OF_FN // so may they here, and "=" expr may follow
} ParamForm;

static Node *param(Parser *p, ParamForm form)
{
    Loc loc = parser_here(p);
    Sym sym = parser_name(p, "a parameter");
    int sub = parser_accept(p, T_QUESTION) ? PARAM_OPTIONAL : 0;
    Node *t = NULL, *prefer = NULL, *worth = NULL, *value = NULL;
    if (form == PARAM_TYPED || p->tok.kind == T_COLON) {
        parser_expect(p, T_COLON);
        if (parser_at_word(p, "const") && parser_peek(p).kind == T_NAME) {
            parser_advance(p);
            sub |= PARAM_CONST;
        }
        t = parse_type(p);
    }
    if (parser_accept(p, T_ELLIPSIS)) sub |= PARAM_VARIADIC;
    if (t && parser_accept_word(p, "prefer")) {
        if (!parser_accept_word(p, "layout")) parser_expected(p, "'layout'");
        prefer = parse_expr(p);
        if (parser_accept_word(p, "worth")) worth = parse_expr(p);
    }
    if (form == PARAM_OF_FN && parser_accept(p, T_ASSIGN)) value = parse_expr(p);
    Node *n = parser_make_sym(p, N_PARAM, loc, sym, 5, (Node *[]){t, value, NULL, prefer, worth});
    n->sub = (uint8_t)sub;
    return n;
}

// attr := NAME [ "?" ] ":" type [ "in" "{" expr { "," expr } "}" ] [ "=" expr ]
static Node *attr(Parser *p)
{
    Loc loc = parser_here(p);
    Sym sym = parser_name(p, "an attribute");
    int sub = parser_accept(p, T_QUESTION) ? PARAM_OPTIONAL : 0;
    parser_expect(p, T_COLON);
    Node *t = parse_type(p), *among = NULL, *value = NULL;
    if (parser_accept(p, T_IN)) {
        Loc open = parser_here(p);
        parser_expect(p, T_LBRACE);
        among = parse_expr_list(p, T_EOF, PREC_ANY);
        parser_expect_closing(p, T_RBRACE, open);
    }
    if (parser_accept(p, T_ASSIGN)) value = parse_expr(p);
    Node *n = parser_make_sym(p, N_PARAM, loc, sym, 5, (Node *[]){t, value, among, NULL, NULL});
    n->sub = (uint8_t)sub;
    return n;
}

// "(" [ param { "," param } ] [ ";" [ attr { "," attr } ] ] ")"; attributes only where asked for
static Node *params(Parser *p, ParamForm form, Node **attrs)
{
    Loc open = parser_here(p);
    Nodes list = {0}, attr_list = {0};
    parser_expect(p, T_LPAREN);
    if (p->tok.kind != T_RPAREN && p->tok.kind != T_SEMICOLON) {
        do parser_push(p, &list, param(p, form));
        while (parser_accept(p, T_COMMA));
    }
    Loc at = parser_here(p);
    if (attrs && parser_accept(p, T_SEMICOLON) && p->tok.kind != T_RPAREN) {
        do parser_push(p, &attr_list, attr(p));
        while (parser_accept(p, T_COMMA));
    }
    parser_expect_closing(p, T_RPAREN, open);
    if (attrs) *attrs = parser_make_list(p, N_TUPLE, at, &attr_list);
    return parser_make_list(p, N_TUPLE, open, &list);
}

// generics := "[" NAME ":" type { "|" type } { "," ... } "]"
static Node *generics(Parser *p)
{
    Loc open = parser_here(p);
    Nodes list = {0};
    if (!parser_accept(p, T_LBRACKET)) return empty_tuple(p);
    do {
        Loc loc = parser_here(p);
        Sym sym = parser_name(p, "a name");
        parser_expect(p, T_COLON);
        Loc at = parser_here(p);
        Nodes types = {0};
        do parser_push(p, &types, parse_type(p));
        while (parser_accept(p, T_BAR));
        Node *tuple = parser_make_list(p, N_TUPLE, at, &types);
        parser_push(p, &list, parser_make_sym(p, N_GENERIC, loc, sym, 1, &tuple));
    } while (parser_accept(p, T_COMMA));
    parser_expect_closing(p, T_RBRACKET, open);
    return parser_make_list(p, N_TUPLE, open, &list);
}

// ---- clauses

// "onnx" NAME { "." NAME } [ "(" INT { "," INT } ")" ] [ "with" NAME { "," NAME } ]
static void clause_onnx(Parser *p, Nodes *list)
{
    Loc loc = parser_here(p);
    uint32_t from = p->tok.at;
    parser_name(p, "the name of an ONNX operator");
    while (parser_accept(p, T_DOT)) parser_name(p, "a name");
    Sym sym = intern_n(p->names, p->source->text + from, p->panic ? 0 : p->prev_end - from);
    parser_push(p, list, parser_make_sym(p, N_STRING, loc, sym, 0, NULL));
    Node *versions = empty_tuple(p), *with = empty_tuple(p);
    Loc open = parser_here(p);
    if (parser_accept(p, T_LPAREN)) {
        versions = parse_expr_list(p, T_RPAREN, PREC_ANY);
        for (uint32_t i = 0; i < versions->nkid; i++)
            if (versions->kid[i]->kind != N_INT)
                parser_complain(p, versions->kid[i]->loc, "a version is a number");
        parser_expect_closing(p, T_RPAREN, open);
    }
    if (parser_accept_word(p, "with")) with = parse_names_list(p);
    parser_push(p, list, versions);
    parser_push(p, list, with);
}

static void clause_flag(Parser *p, Nodes *list)
{
    UNUSED(p);
    UNUSED(list);
}

static void clause_name(Parser *p, Nodes *list)
{
    parser_push(p, list, parser_name_node(p, "a name"));
}

// "alias" NAME "->" NAME
static void clause_alias(Parser *p, Nodes *list)
{
    parser_push(p, list, parser_name_node(p, "the name of an input"));
    parser_expect(p, T_ARROW);
    parser_push(p, list, parser_name_node(p, "the name of an output"));
}

// "implements" NAME { "," NAME }
static void clause_names(Parser *p, Nodes *list)
{
    do parser_push(p, list, parser_name_node(p, "the name of an op"));
    while (parser_accept(p, T_COMMA));
}

// "on" NAME [ "(" NAME ")" ]
static void clause_target(Parser *p, Nodes *list)
{
    parser_push(p, list, parser_name_node(p, "a target"));
    Loc open = parser_here(p);
    if (!parser_accept(p, T_LPAREN)) return;
    parser_push(p, list, parser_name_node(p, "an architecture"));
    parser_expect_closing(p, T_RPAREN, open);
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
    Loc loc = parser_here(p);
    for (size_t k = 0; k < COUNT(clauses); k++) {
        if (clauses[k].of != of || !parser_accept_word(p, clauses[k].word)) continue;
        Nodes list = {0};
        clauses[k].parse(p, &list);
        Node *arguments = parser_make_list(p, N_TUPLE, loc, &list);
        return parser_make_sym(p, N_CLAUSE, loc, intern(p->names, clauses[k].word), 1, &arguments);
    }
    parser_expected(p, of == N_OP ? "'{', onnx, bijective, serial, class or alias"
                                  : "'{', implements, on or alias");
    return parser_make_sym(p, N_CLAUSE, loc, intern(p->names, ""), 1, (Node *[]){empty_tuple(p)});
}

// clause*, up to the body
static Node *clause_list(Parser *p, NodeKind of)
{
    Loc loc = parser_here(p);
    Nodes list = {0};
    while (p->tok.kind != T_LBRACE && !p->panic) parser_push(p, &list, clause(p, of));
    return parser_make_list(p, N_TUPLE, loc, &list);
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
    parser_advance(p);
    Loc loc = parser_here(p);
    Sym sym = parser_name(p, "the op's name");
    Node *attrs, *ins = params(p, PARAM_TYPED, &attrs);
    parser_expect(p, T_ARROW);
    Node *outs = params(p, PARAM_TYPED, NULL);
    Node *list = clause_list(p, N_OP), *body = parse_block(p);
    Node *n = parser_make_sym(p, N_OP, loc, sym, 5, (Node *[]){ins, attrs, outs, list, body});
    n->sub = has_clause(list, "serial") ? OP_SERIAL : OP_INDEX;
    return n;
}

// kernel := "kernel" NAME [ generics ] "(" params [ ";" attrs ] ")" "->" "(" params ")" clause*
// block
static Node *kernel(Parser *p)
{
    parser_advance(p);
    Loc loc = parser_here(p);
    Sym sym = parser_name(p, "the kernel's name");
    Node *types = generics(p), *attrs, *ins = params(p, PARAM_TYPED, &attrs);
    parser_expect(p, T_ARROW);
    Node *outs = params(p, PARAM_TYPED, NULL);
    Node *list = clause_list(p, N_KERNEL), *body = parse_block(p);
    return parser_make_sym(p, N_KERNEL, loc, sym, 6,
                           (Node *[]){types, ins, attrs, outs, list, body});
}

// fn := "fn" NAME [ generics ] "(" params ")" [ "->" type ] (block_expr | "=" expr ";")
static Node *fn(Parser *p)
{
    parser_advance(p);
    Loc loc = parser_here(p);
    Sym sym = parser_name(p, "the function's name");
    Node *types = generics(p), *ins = params(p, PARAM_OF_FN, NULL);
    Node *result = parser_accept(p, T_ARROW) ? parse_type(p) : NULL, *body;
    Loc at = parser_here(p);
    if (parser_accept(p, T_ASSIGN)) {
        Node *value = parse_expr(p);
        parser_expect(p, T_SEMICOLON);
        body = MAKE(p, BLOCK, at, value);
    } else {
        body = parse_block_expr(p);
    }
    return parser_make_sym(p, N_FN, loc, sym, 4, (Node *[]){types, ins, result, body});
}

// rule := "rule" NAME "{" expr [ "when" expr ] "=>" let* expr "}"
static Node *rule(Parser *p)
{
    parser_advance(p);
    Loc loc = parser_here(p);
    Sym sym = parser_name(p, "the rule's name");
    Loc open = parser_here(p);
    parser_expect(p, T_LBRACE);
    Node *from = parse_expr(p), *when = parser_accept(p, T_WHEN) ? parse_expr(p) : NULL;
    Loc at = parser_here(p);
    parser_expect(p, T_FAT_ARROW);
    Nodes list = {0};
    while (p->tok.kind == T_LET) parser_push(p, &list, parse_let(p));
    Node *lets = parser_make_list(p, N_SEQ, at, &list), *to = parse_expr(p);
    parser_expect_closing(p, T_RBRACE, open);
    return parser_make_sym(p, N_RULE, loc, sym, 4, (Node *[]){from, when, lets, to});
}

// graph := "graph" NAME "(" params ")" "->" "(" params ")" block
static Node *graph(Parser *p)
{
    parser_advance(p);
    Loc loc = parser_here(p);
    Sym sym = parser_name(p, "the graph's name");
    Node *ins = params(p, PARAM_TYPED, NULL);
    parser_expect(p, T_ARROW);
    Node *outs = params(p, PARAM_BARE, NULL), *body = parse_block(p);
    return parser_make_sym(p, N_GRAPH, loc, sym, 3, (Node *[]){ins, outs, body});
}

// "let" NAME "=" expr ";"
static Node *constant(Parser *p)
{
    parser_advance(p);
    Loc loc = parser_here(p);
    Sym sym = parser_name(p, "a name");
    parser_expect(p, T_ASSIGN);
    Node *value = parse_expr(p);
    parser_expect(p, T_SEMICOLON);
    return parser_make_sym(p, N_CONSTANT, loc, sym, 1, &value);
}

// decl := op | kernel | fn | rule | graph | constant
Node *parse_declaration(Parser *p)
{
    switch (p->tok.kind) {
    case T_OP: return op(p);
    case T_KERNEL: return kernel(p);
    case T_FN: return fn(p);
    case T_RULE: return rule(p);
    case T_GRAPH: return graph(p);
    case T_LET: return constant(p);
    default: parser_expected(p, "op, kernel, fn, rule, graph or let"); return empty_tuple(p);
    }
}
