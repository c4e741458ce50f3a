// SPDX-License-Identifier: Apache-2.0
// Statements. The table at the end says which word begins which.
#include "lang/parser.h"

#include <string.h>

// ---- names and assignments

// pattern := NAME [ "[" indices "]" ] | "(" NAME { "," NAME } [ "," ] ")"
static Node *pattern(Parser *p)
{
    Loc loc = parser_here(p);
    Nodes list = {0};
    if (parser_accept(p, T_LPAREN)) {
        while (p->tok.kind == T_NAME) {
            parser_push(p, &list, parser_name_node(p, "a name"));
            if (!parser_accept(p, T_COMMA)) break;
        }
        if (!list.n) parser_expected(p, "a name");
        parser_expect_closing(p, T_RPAREN, loc);
        return parser_make_list(p, N_TUPLE, loc, &list);
    }
    Node *n = parser_name_node(p, "a name or '('");
    if (!parser_accept(p, T_LBRACKET)) return n;
    parse_index_list(p, &list);
    return parser_make_rest(p, N_INDEX, loc, 1, &n, &list);
}

// "let" pattern [ ":" type ] "=" expr ";"
Node *parse_let(Parser *p)
{
    Loc loc = parser_here(p);
    parser_advance(p);
    Node *what = pattern(p), *t = parser_accept(p, T_COLON) ? parse_type(p) : NULL;
    parser_expect(p, T_ASSIGN);
    Node *value = parse_expr(p);
    parser_expect(p, T_SEMICOLON);
    return MAKE(p, LET, loc, what, t, value);
}

// "var" NAME [ ":" type ] [ "=" expr ] ";"
static Node *var(Parser *p)
{
    parser_advance(p);
    Loc loc = parser_here(p);
    Sym sym = parser_name(p, "a name");
    Node *t = parser_accept(p, T_COLON) ? parse_type(p) : NULL;
    Node *init = parser_accept(p, T_ASSIGN) ? parse_expr(p) : NULL;
    parser_expect(p, T_SEMICOLON);
    return parser_make_sym(p, N_VAR, loc, sym, 2, (Node *[]){t, init});
}

static bool is_place(const Node *n)
{
    if (n->kind != N_TUPLE) return n->kind == N_NAME || n->kind == N_INDEX || n->kind == N_FIELD;
    for (uint32_t i = 0; i < n->nkid; i++)
        if (n->kid[i]->kind == N_TUPLE || !is_place(n->kid[i])) return false;
    return n->nkid > 0;
}

static const struct {
    TokenKind token;
    NodeKind kind;
} assigning[] = {
    {T_ASSIGN, N_NONE},
#define BINARY(TOKEN, KIND, prec)
#define COMPOUND(TOKEN, KIND) {T_##TOKEN, N_##KIND},
#include "lang/operators.def"
#undef BINARY
#undef COMPOUND
};

// place ("=" | "+=" | ...) expr ";"  |  expr ";"
Node *parse_simple_statement(Parser *p, Node *e)
{
    Loc loc = parser_here(p);
    for (size_t i = 0; i < COUNT(assigning); i++) {
        NodeKind kind = assigning[i].kind;
        if (p->tok.kind != assigning[i].token) continue;
        if (!is_place(e) || (e->kind == N_TUPLE && kind != N_NONE))
            parser_complain(p, e->loc, "this cannot be assigned to");
        parser_advance(p);
        Node *value = parse_expr(p);
        parser_expect(p, T_SEMICOLON);
        Node *n = MAKE(p, ASSIGN, loc, e, value);
        n->sub = (uint8_t)kind;
        return n;
    }
    parser_expect(p, T_SEMICOLON);
    return MAKE(p, EVAL, e->loc, e);
}

// ---- control

// [ "unroll" [ "(" INT ")" ] | "parallel" ] "for" names "in" range block
static Node *for_loop(Parser *p)
{
    int attr = LOOP_DEFAULT, factor = 0;
    if (parser_accept(p, T_UNROLL)) {
        attr = LOOP_UNROLL;
        if (parser_accept(p, T_LPAREN)) {
            if (p->tok.kind != T_INT || p->tok.i < 1 || p->tok.i > UINT16_MAX)
                parser_expected(p, "a factor from 1 to 65535");
            else factor = (int)p->tok.i;
            parser_advance(p);
            parser_expect(p, T_RPAREN);
        }
    } else if (parser_accept(p, T_PARALLEL)) {
        attr = LOOP_PARALLEL;
    }
    Loc loc = parser_here(p);
    parser_expect(p, T_FOR);
    Node *vars = parse_names_list(p);
    parser_expect(p, T_IN);
    Node *over = parse_range(p), *body = parse_block(p);
    Node *n = MAKE(p, FOR, loc, vars, over, body);
    n->sub = (uint8_t)attr;
    n->flags = (uint16_t)factor;
    return n;
}

// "if" cond block [ "else" (if | block) ]
static Node *if_statement(Parser *p)
{
    Loc loc = parser_here(p);
    parser_advance(p);
    Node *cond = parse_condition(p), *then = parse_block(p), *other = NULL;
    if (parser_accept(p, T_ELSE)) {
        bool chain = p->tok.kind == T_IF && parser_enter(p);
        other = chain ? if_statement(p) : parse_block(p);
        if (chain) parser_leave(p);
    }
    return MAKE(p, IF, loc, cond, then, other);
}

// "while" cond block
static Node *while_loop(Parser *p)
{
    Loc loc = parser_here(p);
    parser_advance(p);
    Node *cond = parse_condition(p), *body = parse_block(p);
    return MAKE(p, WHILE, loc, cond, body);
}

// "break" ";" | "continue" ";"
static Node *jump(Parser *p)
{
    Loc loc = parser_here(p);
    NodeKind kind = p->tok.kind == T_BREAK ? N_BREAK : N_CONTINUE;
    parser_advance(p);
    parser_expect(p, T_SEMICOLON);
    return parser_make(p, kind, loc, 0, NULL);
}

// "return" [ expr ] ";"
static Node *return_statement(Parser *p)
{
    Loc loc = parser_here(p);
    parser_advance(p);
    Node *value = p->tok.kind == T_SEMICOLON ? NULL : parse_expr(p);
    parser_expect(p, T_SEMICOLON);
    return MAKE(p, RETURN, loc, value);
}

// "require" expr [ "," STRING ] ";"
static Node *require(Parser *p)
{
    Loc loc = parser_here(p);
    parser_advance(p);
    Node *cond = parse_expr(p), *message = NULL;
    if (parser_accept(p, T_COMMA)) {
        Loc at = parser_here(p);
        message = parser_make_sym(p, N_STRING, at, parser_string(p), 0, NULL);
    }
    parser_expect(p, T_SEMICOLON);
    return MAKE(p, REQUIRE, loc, cond, message);
}

// "role" cond block
static Node *role(Parser *p)
{
    Loc loc = parser_here(p);
    parser_advance(p);
    Node *cond = parse_condition(p), *body = parse_block(p);
    return MAKE(p, ROLE, loc, cond, body);
}

// "one" block
static Node *one(Parser *p)
{
    Loc loc = parser_here(p);
    parser_advance(p);
    Node *body = parse_block(p);
    return MAKE(p, ONE, loc, body);
}

// ---- launches, stages, choices, memory

// extents := ("grid" | "block" | "cluster") "(" expr { "," expr } ")"
static Node *launch_extents(Parser *p)
{
    static const char *const words[] = {"grid", "block", "cluster"};
    Loc loc = parser_here(p);
    Node *part[3] = {NULL};
    parser_advance(p);
    do {
        size_t k = 0;
        while (k < COUNT(words) && !parser_at_word(p, words[k])) k++;
        if (k == COUNT(words)) {
            parser_expected(p, "grid, block or cluster");
            break;
        }
        if (part[k]) parser_complain(p, parser_here(p), "'%s' is given twice", words[k]);
        parser_advance(p);
        Loc open = parser_here(p);
        parser_expect(p, T_LPAREN);
        part[k] = parse_expr_list(p, T_RPAREN, PREC_ANY);
        parser_expect_closing(p, T_RPAREN, open);
    } while (p->tok.kind == T_NAME);
    if (!part[0]) part[0] = parser_make(p, N_TUPLE, loc, 0, NULL);
    return parser_make(p, N_LAUNCH, loc, 3, part);
}

// "launch" extents { extents } ";"
static Node *launch(Parser *p)
{
    Node *n = launch_extents(p);
    parser_expect(p, T_SEMICOLON);
    return n;
}

// "stage" NAME [ "launch" extents { extents } ] block
static Node *stage(Parser *p)
{
    parser_advance(p);
    Loc loc = parser_here(p);
    Sym sym = parser_name(p, "the stage's name");
    Nodes list = {0};
    if (p->tok.kind == T_LAUNCH) parser_push(p, &list, launch_extents(p));
    Loc open = parser_here(p);
    parse_block_into(p, &list);
    Node *body = parser_make_list(p, N_SEQ, open, &list);
    return parser_make_sym(p, N_STAGE, loc, sym, 1, &body);
}

// choice := NAME ":" alts [ "|" [ alts ] [ "|" [ alts ] ] ] ";"       alts := expr { "," expr },
// tighter than |
static Node *choice(Parser *p)
{
    Loc loc = parser_here(p);
    Sym sym = parser_name(p, "the name of a choice");
    parser_expect(p, T_COLON);
    Node *level[3] = {NULL};
    if (p->tok.kind == T_BAR || p->tok.kind == T_OR_OR || p->tok.kind == T_SEMICOLON)
        parser_expected(p, "the default of the choice");
    for (int k = 0; k < 3; k++) {
        bool empty = p->tok.kind == T_BAR || p->tok.kind == T_OR_OR;
        level[k] = parse_expr_list(p, empty ? p->tok.kind : T_SEMICOLON, PREC_BXOR);
        if (p->tok.kind == T_OR_OR && k == 0) { // "||": nothing between the bars
            level[++k] = parser_make(p, N_TUPLE, parser_here(p), 0, NULL);
            parser_advance(p);
        } else if (!parser_accept(p, T_BAR)) {
            break;
        }
        if (k == 2)
            parser_fail(p, parser_loc_at(p, p->prev_end - 1), "a choice has at most three levels");
    }
    parser_expect(p, T_SEMICOLON);
    return parser_make_sym(p, N_CHOICE, loc, sym, 3, level);
}

// "tune" "{" choice* "}"
static Node *tune(Parser *p)
{
    Loc loc = parser_here(p);
    parser_advance(p);
    Loc open = parser_here(p);
    Nodes list = {0};
    parser_expect(p, T_LBRACE);
    while (p->tok.kind != T_RBRACE && p->tok.kind != T_EOF &&
           !token_starts_declaration(p->tok.kind) && !p->panic) {
        parser_push(p, &list, choice(p));
        if (p->panic) parser_recover(p);
    }
    parser_expect_closing(p, T_RBRACE, open);
    return parser_make_list(p, N_TUNE, loc, &list);
}

// option := "layout" expr | "over" expr | "=" expr | "align" "(" expr ")" | "alias" NAME | "when"
// expr in the order of MEMORY's children after the type
static const char *const memory_options[] = {"layout", "over", "=", "align", "alias", "when"};

static Node *memory_option(Parser *p, int k)
{
    if (memory_options[k][0] != 'a') return parse_expr(p);
    if (!strcmp(memory_options[k], "alias")) return parser_name_node(p, "a name");
    Loc open = parser_here(p);
    parser_expect(p, T_LPAREN);
    Node *n = parse_expr(p);
    parser_expect_closing(p, T_RPAREN, open);
    return n;
}

// ("shared" | "local" | "core_local" | "workspace") NAME ":" type option* ";"
static Node *memory(Parser *p)
{
    Space space = SPACE_WORKSPACE;
    while (!parser_at_word(p, space_name[space])) space++;
    parser_advance(p);
    Loc loc = parser_here(p);
    Sym sym = parser_name(p, "a name");
    parser_expect(p, T_COLON);
    Node *part[7] = {parse_type(p)};
    for (size_t k = 0; k < COUNT(memory_options);) {
        bool here_it_is = memory_options[k][0] == '=' ? p->tok.kind == T_ASSIGN
                                                      : parser_at_word(p, memory_options[k]);
        if (!here_it_is) {
            k++;
            continue;
        }
        if (part[k + 1])
            parser_complain(p, parser_here(p), "'%s' is given twice", memory_options[k]);
        parser_advance(p);
        part[k + 1] = memory_option(p, (int)k);
        k = 0;
    }
    parser_expect(p, T_SEMICOLON);
    Node *n = parser_make_sym(p, N_MEMORY, loc, sym, 7, part);
    n->sub = (uint8_t)space;
    return n;
}

// ---- blocks

// "{" stmt* "}"
void parse_block_into(Parser *p, Nodes *list)
{
    Loc open = parser_here(p);
    parser_expect(p, T_LBRACE);
    while (!p->panic && p->tok.kind != T_RBRACE && p->tok.kind != T_EOF &&
           !token_starts_declaration(p->tok.kind)) {
        if (parser_accept(p, T_SEMICOLON)) continue;
        parser_push(p, list, parse_statement(p));
        if (p->panic) parser_recover(p);
    }
    parser_expect_closing(p, T_RBRACE, open);
}

// block := "{" stmt* "}"
Node *parse_block(Parser *p)
{
    Loc loc = parser_here(p);
    Nodes list = {0};
    parse_block_into(p, &list);
    return parser_make_list(p, N_SEQ, loc, &list);
}

static const struct {
    TokenKind first;
    Node *(*parse)(Parser *p);
} statements[] = {
    {T_LET, parse_let},     {T_FOR, for_loop},    {T_UNROLL, for_loop},
    {T_PARALLEL, for_loop}, {T_IF, if_statement}, {T_WHILE, while_loop},
    {T_BREAK, jump},        {T_CONTINUE, jump},   {T_RETURN, return_statement},
    {T_LAUNCH, launch},     {T_STAGE, stage},     {T_TUNE, tune},
    {T_REQUIRE, require},   {T_ROLE, role},       {T_ONE, one},
    {T_SHARED, memory},     {T_LOCAL, memory},    {T_CORE_LOCAL, memory},
    {T_WORKSPACE, memory},
};

bool token_starts_statement(TokenKind kind)
{
    for (size_t i = 0; i < COUNT(statements); i++)
        if (statements[i].first == kind) return true;
    return false;
}

// `var` is a word like others (a variance, say); a name after it makes it a statement.
static bool at_var(const Parser *p)
{
    return parser_at_word(p, "var") && parser_peek(p).kind == T_NAME;
}

bool parser_at_statement(const Parser *p)
{
    return token_starts_statement(p->tok.kind) || p->tok.kind == T_LBRACE || at_var(p);
}

// stmt := a form of the table | var | block | simple_statement
Node *parse_statement(Parser *p)
{
    Node *n = NULL;
    if (!parser_enter(p)) {
        n = parser_make(p, N_SEQ, parser_here(p), 0, NULL);
    } else if (p->tok.kind == T_LBRACE) {
        n = parse_block(p);
    } else if (at_var(p)) {
        n = var(p);
    } else {
        for (size_t i = 0; i < COUNT(statements) && !n; i++)
            if (statements[i].first == p->tok.kind) n = statements[i].parse(p);
        if (!n) n = parse_simple_statement(p, parse_expr(p));
    }
    parser_leave(p);
    return n;
}
