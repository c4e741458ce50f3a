// SPDX-License-Identifier: Apache-2.0
// Inside the parser: recursive descent, a function for each rule of the grammar. After an error was
// reported the token is T_PANIC, which nothing matches, so every rule returns at once (with some
// node, never NULL) up to the statement or declaration that recovers.
#ifndef HEALD_LANG_PARSER_H
#define HEALD_LANG_PARSER_H

#include "lang/lang.h"
#include "lang/lexer.h"
#include "lang/syntax.h"

enum {
    PARSER_MAX_DEPTH = 200,   // of nested parentheses, operators before operands, blocks
    PARSER_MAX_HEIGHT = 1000, // of a tree: a + b + c + ... nests to the left without recursion
    PARSER_MAX_LIST = 65535,
    PARSER_MAX_ERRORS = 20,
};

typedef VEC(Node *) Nodes;

typedef struct Parser {
    Arena *arena;
    Interner *names;
    const Source *source;
    Diag *diag;
    Lexer lexer; // after tok
    Token tok;
    Token held;        // the token at which a panic began
    uint32_t prev_end; // end of the token before tok
    int nerror, depth;
    bool panic;
    bool fatal;  // no recovering: too many errors, or too deep
    Node *given; // what the next primary expression is, when it was parsed already
} Parser;

// ---- tokens (parser.c)
void parser_advance(Parser *p);
Token parser_peek(const Parser *p); // the token after this one
bool parser_accept(Parser *p, TokenKind kind);
void parser_expect(Parser *p, TokenKind kind);
void parser_expect_closing(Parser *p, TokenKind kind, Loc open); // with a note of what it closes
bool parser_at_word(const Parser *p, const char *word);          // a contextual word, or a keyword
bool parser_token_is(const Parser *p, const Token *t, const char *word);
bool parser_accept_word(Parser *p, const char *word);
Sym parser_name(Parser *p, const char *what); // "a name", for the message; "" on error
Sym parser_string(Parser *p);
Loc parser_here(const Parser *p);
Loc parser_loc_at(const Parser *p, uint32_t offset);

// ---- errors (parser.c)
// "expected WHAT, found TOKEN" and a message of one's own panic; after a complaint parsing goes on.
void parser_expected(Parser *p, const char *what);
void parser_fail(Parser *p, Loc loc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void parser_complain(Parser *p, Loc loc, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
// One level deeper; false, and the parse is over, if that is too deep. Always paired with leave.
bool parser_enter(Parser *p);
void parser_leave(Parser *p);
void parser_recover(Parser *p);
bool token_starts_declaration(TokenKind kind);
bool token_starts_statement(TokenKind kind);

// ---- nodes (parser.c)
void parser_push(Parser *p, Nodes *list, Node *n);
Node *parser_make(Parser *p, NodeKind kind, Loc loc, int nkid, Node *const *kid);
Node *parser_make_sym(Parser *p, NodeKind kind, Loc loc, Sym sym, int nkid, Node *const *kid);
Node *parser_make_rest(Parser *p, NodeKind kind, Loc loc, int nfixed, Node *const *fixed,
                       const Nodes *rest);
#define MAKE(p, KIND, loc, ...) \
    parser_make(p, N_##KIND, loc, COUNT(((Node *[]){__VA_ARGS__})), (Node *[]){__VA_ARGS__})
Node *parser_make_list(Parser *p, NodeKind kind, Loc loc, const Nodes *list); // TUPLE, SEQ, ...
Node *parser_make_name(Parser *p, Loc loc, Sym sym);
Node *parser_name_node(Parser *p, const char *what); // name at this token

// ---- expressions (parser_expr.c)
Node *parse_expr(Parser *p);
Node *parse_condition(Parser *p); // an expression without a loose `else`
Node *parse_binary(Parser *p, Prec min);
void parse_args(Parser *p, Nodes *list);       // after "(", through ")"
void parse_index_list(Parser *p, Nodes *list); // after "[", through "]"
// A TUPLE of expressions with commas between them; empty if `end` is here, which is not taken.
Node *parse_expr_list(Parser *p, TokenKind end, Prec min);
Node *parse_names_list(Parser *p); // TUPLE of NAME and SPREAD(NAME)
Node *parse_range(Parser *p);
Node *parse_block_expr(Parser *p); // "{" stmt* [expr] "}": BLOCK
Node *parse_if_either(Parser *p);  // IF, or SELECT when the arms have values
bool parser_is_mapping(const Node *callee, const Nodes *args); // mapping(workers: ... is no call

// ---- types (parser_type.c)
Node *parse_type(Parser *p);

// ---- statements (parser_stmt.c)
Node *parse_statement(Parser *p);
Node *parse_simple_statement(Parser *p, Node *e); // what begins with e, which was parsed
bool parser_at_statement(const Parser *p);        // begins with a word of its own
Node *parse_let(Parser *p);
Node *parse_block(Parser *p); // "{" stmt* "}": SEQ
void parse_block_into(Parser *p, Nodes *list);

// ---- declarations (parser_decl.c)
Node *parse_declaration(Parser *p);

#endif
