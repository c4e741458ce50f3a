// SPDX-License-Identifier: Apache-2.0
// The parser's ground: tokens, messages, recovery, making nodes, and whole files.
#include "lang/parser.h"

#include <string.h>

// ---- tokens

Loc parser_loc_at(const Parser *p, uint32_t offset)
{
    return p->source->base + offset;
}

Loc parser_here(const Parser *p)
{
    return parser_loc_at(p, p->panic ? p->held.at : p->tok.at);
}

static void next_token(Parser *p)
{
    p->prev_end = p->tok.at + p->tok.size;
    p->tok = lexer_next(&p->lexer);
}

// A token that is written wrongly is reported here, once, and then taken for what it stands for;
// but where a bad string ends is anyone's guess.
void parser_advance(Parser *p)
{
    next_token(p);
    while (p->tok.problem && !p->panic) {
        Loc loc = parser_loc_at(p, p->tok.problem_at);
        if (p->tok.kind == T_STRING) parser_fail(p, loc, "%s", p->tok.problem);
        else parser_complain(p, loc, "%s", p->tok.problem);
        if (p->tok.kind != T_BAD) break;
        next_token(p);
    }
}

Token parser_peek(const Parser *p)
{
    Lexer ahead = p->lexer;
    return lexer_next(&ahead);
}

bool parser_accept(Parser *p, TokenKind kind)
{
    if (p->tok.kind != kind) return false;
    parser_advance(p);
    return true;
}

bool parser_token_is(const Parser *p, const Token *t, const char *word)
{
    size_t n = strlen(word);
    return (t->kind == T_NAME || token_is_keyword(t->kind)) && t->size == n &&
           !memcmp(p->source->text + t->at, word, n);
}

bool parser_at_word(const Parser *p, const char *word)
{
    return parser_token_is(p, &p->tok, word);
}

bool parser_accept_word(Parser *p, const char *word)
{
    if (!parser_at_word(p, word)) return false;
    parser_advance(p);
    return true;
}

Sym parser_name(Parser *p, const char *what)
{
    if (p->tok.kind != T_NAME) {
        parser_expected(p, what);
        return intern(p->names, "");
    }
    Sym sym = intern_n(p->names, p->source->text + p->tok.at, p->tok.size);
    parser_advance(p);
    return sym;
}

Sym parser_string(Parser *p)
{
    if (p->tok.kind != T_STRING) {
        parser_expected(p, token_spelling[T_STRING]);
        return intern(p->names, "");
    }
    Sym sym = token_string(&p->lexer, &p->tok, p->names, p->arena);
    parser_advance(p);
    return sym;
}

// ---- errors

static void panic(Parser *p)
{
    p->panic = true;
    p->held = p->tok;
    p->tok.kind = T_PANIC;
}

static void vcomplain(Parser *p, Loc loc, const char *fmt, va_list ap)
{
    diag_report(p->diag, SEV_ERROR, loc, fmt, ap);
    if (++p->nerror < PARSER_MAX_ERRORS) return;
    p->fatal = true;
    panic(p);
}

void parser_complain(Parser *p, Loc loc, const char *fmt, ...)
{
    if (p->panic) return;
    va_list ap;
    va_start(ap, fmt);
    vcomplain(p, loc, fmt, ap);
    va_end(ap);
}

void parser_fail(Parser *p, Loc loc, const char *fmt, ...)
{
    if (p->panic) return;
    va_list ap;
    va_start(ap, fmt);
    vcomplain(p, loc, fmt, ap);
    va_end(ap);
    if (!p->panic) panic(p);
}

static const char *describe(Parser *p, const Token *t)
{
    const char *text = p->source->text + t->at;
    int size = t->size < 40 ? (int)t->size : 40;
    const char *more = t->size > 40 ? "..." : "";
    if (t->kind == T_EOF) return "the end of the file";
    if (t->kind == T_STRING) return "a string";
    if (token_is_keyword(t->kind)) return arena_printf(p->arena, "the keyword '%.*s'", size, text);
    return arena_printf(p->arena, "'%.*s%s'", size, text, more);
}

// Where something is missing: at the token found instead, or after the one before, if that is on
// another line.
static Loc missing_at(const Parser *p)
{
    const char *text = p->source->text;
    uint32_t from = p->prev_end, to = p->tok.at;
    return memchr(text + from, '\n', to - from) ? parser_loc_at(p, from) : parser_loc_at(p, to);
}

void parser_expected(Parser *p, const char *what)
{
    if (p->panic) return;
    parser_fail(p, parser_here(p), "expected %s, found %s", what, describe(p, &p->tok));
}

void parser_expect(Parser *p, TokenKind kind)
{
    if (parser_accept(p, kind) || p->panic) return;
    parser_fail(p, missing_at(p), "expected '%s', found %s", token_spelling[kind],
                describe(p, &p->tok));
}

void parser_expect_closing(Parser *p, TokenKind kind, Loc open)
{
    bool was = p->panic;
    parser_expect(p, kind);
    if (p->panic && !was) diag_note(p->diag, open, "to close what is opened here");
}

bool parser_enter(Parser *p)
{
    if (++p->depth <= PARSER_MAX_DEPTH) return true;
    p->fatal = true;
    parser_fail(p, parser_here(p), "nested too deeply: more than %d levels", PARSER_MAX_DEPTH);
    return false;
}

void parser_leave(Parser *p)
{
    p->depth--;
}

// ---- recovery

bool token_starts_declaration(TokenKind kind)
{
    return kind == T_OP || kind == T_KERNEL || kind == T_FN || kind == T_RULE || kind == T_GRAPH;
}

// False if there is no recovering.
static bool end_panic(Parser *p)
{
    if (p->fatal) return false;
    if (!p->panic) return true;
    p->panic = false;
    p->tok = p->held;
    return true;
}

// Goes past the end of the statement in which the panic began, or to where the next one surely
// begins. At a declaration or the end of the file the panic goes on: the braces that are missing
// there need no reports of their own.
void parser_recover(Parser *p)
{
    for (int open = 0;; parser_advance(p)) {
        if (!end_panic(p)) return;
        TokenKind kind = p->tok.kind;
        if (kind == T_EOF || token_starts_declaration(kind)) {
            panic(p);
            return;
        }
        if (kind == T_LBRACE) open++;
        if (open == 0 && (kind == T_RBRACE || token_starts_statement(kind))) return;
        if ((kind == T_SEMICOLON && open == 0) || (kind == T_RBRACE && --open == 0)) {
            parser_advance(p);
            if (!p->panic || !end_panic(p)) return;
            open = 0;
        }
    }
}

// Goes past the braces of the declaration in which the panic began, or to the next declaration.
static void recover_declaration(Parser *p)
{
    for (int open = 0;; parser_advance(p)) {
        if (!end_panic(p)) return;
        TokenKind kind = p->tok.kind;
        if (kind == T_EOF || token_starts_declaration(kind)) return;
        if (kind == T_LET && open == 0) return;
        if (kind == T_LBRACE) open++;
        if (kind == T_RBRACE && open > 0 && --open == 0) {
            parser_advance(p);
            parser_accept(p, T_SEMICOLON);
            if (!p->panic || !end_panic(p)) return;
        }
    }
}

// ---- nodes

void parser_push(Parser *p, Nodes *list, Node *n)
{
    if (list->n == PARSER_MAX_LIST)
        parser_fail(p, n->loc, "more than %d in one list", PARSER_MAX_LIST);
    else VEC_PUSH(p->arena, list, n);
}

// While parsing, `flags` of every other kind holds the height of the tree; an INT's holds its base,
// a FOR's its factor.
static int height(const Node *n)
{
    if (!n || n->kind == N_INT) return 0;
    if (n->kind != N_FOR) return n->flags;
    int most = 0;
    for (uint32_t i = 0; i < n->nkid; i++)
        if (height(n->kid[i]) > most) most = height(n->kid[i]);
    return most + 1;
}

static void set_height(Parser *p, Node *n)
{
    int most = 0;
    for (uint32_t i = 0; i < n->nkid; i++)
        if (height(n->kid[i]) > most) most = height(n->kid[i]);
    if (most >= PARSER_MAX_HEIGHT) {
        p->fatal = true;
        parser_fail(p, n->loc, "nested too deeply: more than %d operations in one another",
                    PARSER_MAX_HEIGHT);
    }
    n->flags = (uint16_t)min_i64(most + 1, PARSER_MAX_HEIGHT);
}

Node *parser_make(Parser *p, NodeKind kind, Loc loc, int nkid, Node *const *kid)
{
    Node *n = node_new(p->arena, kind, loc, nkid);
    if (nkid) memcpy(n->kid, kid, (size_t)nkid * sizeof *kid);
    set_height(p, n);
    return n;
}

Node *parser_make_sym(Parser *p, NodeKind kind, Loc loc, Sym sym, int nkid, Node *const *kid)
{
    Node *n = parser_make(p, kind, loc, nkid, kid);
    n->u.sym = sym;
    return n;
}

Node *parser_make_rest(Parser *p, NodeKind kind, Loc loc, int nfixed, Node *const *fixed,
                       const Nodes *rest)
{
    Node *n = node_new(p->arena, kind, loc, nfixed + rest->n);
    if (nfixed) memcpy(n->kid, fixed, (size_t)nfixed * sizeof *fixed);
    if (rest->n) memcpy(n->kid + nfixed, rest->at, (size_t)rest->n * sizeof *rest->at);
    set_height(p, n);
    return n;
}

Node *parser_make_list(Parser *p, NodeKind kind, Loc loc, const Nodes *list)
{
    return parser_make_rest(p, kind, loc, 0, NULL, list);
}

Node *parser_make_name(Parser *p, Loc loc, Sym sym)
{
    Node *n = parser_make(p, N_NAME, loc, 0, NULL);
    n->u.sym = sym;
    return n;
}

Node *parser_name_node(Parser *p, const char *what)
{
    Loc loc = parser_here(p);
    return parser_make_name(p, loc, parser_name(p, what));
}

// ---- files

static void parser_init(Parser *p, Arena *a, Interner *names, const Source *source, Diag *d)
{
    *p = (Parser){.arena = a, .names = names, .source = source, .diag = d};
    p->lexer = (Lexer){.text = source->text, .size = (uint32_t)source->size};
    parser_advance(p);
}

// "heald" INT ";"
static void version(Parser *p)
{
    if (!parser_at_word(p, "heald") || parser_peek(p).kind != T_INT) return;
    parser_advance(p);
    if (p->tok.i != 1)
        parser_complain(p, parser_here(p), "version %lld of the language is not known here, only 1",
                        (long long)p->tok.i);
    parser_advance(p);
    parser_expect(p, T_SEMICOLON);
}

// file := [ "heald" INT ";" ] decl*
Node *parse_file(Arena *a, Interner *names, const Source *source, Diag *d)
{
    Parser p;
    parser_init(&p, a, names, source, d);
    Nodes decls = {0};
    version(&p);
    for (;;) {
        if (p.panic) recover_declaration(&p);
        if (p.panic || p.tok.kind == T_EOF) break;
        parser_push(&p, &decls, parse_declaration(&p));
    }
    Node *file = parser_make_list(&p, N_FILE, parser_loc_at(&p, 0), &decls);
    return p.nerror ? NULL : file;
}

Node *parse_expression(Arena *a, Interner *names, const Source *source, Diag *d)
{
    Parser p;
    parser_init(&p, a, names, source, d);
    Node *e = parse_expr(&p);
    if (p.tok.kind != T_EOF) parser_expected(&p, "the end of the expression");
    return p.nerror ? NULL : e;
}
