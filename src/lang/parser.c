// SPDX-License-Identifier: Apache-2.0
// The parser's ground: tokens, messages, recovery, making nodes, and whole files.
#include "lang/parser.h"

#include <string.h>

// ---- tokens

Loc loc_at(const Parser *p, uint32_t offset)
{
    return p->source->base + offset;
}

Loc here(const Parser *p)
{
    return loc_at(p, p->panic ? p->held.at : p->tok.at);
}

static void next_token(Parser *p)
{
    p->prev_end = p->tok.at + p->tok.size;
    p->tok = lexer_next(&p->lexer);
}

// A token that is written wrongly is reported here, once, and then taken for what it stands for.
void advance(Parser *p)
{
    next_token(p);
    while (p->tok.problem) {
        complain(p, loc_at(p, p->tok.problem_at), "%s", p->tok.problem);
        if (p->panic || p->tok.kind != T_BAD) break;
        next_token(p);
    }
}

Token peek(const Parser *p)
{
    Lexer ahead = p->lexer;
    return lexer_next(&ahead);
}

bool accept(Parser *p, TokenKind kind)
{
    if (p->tok.kind != kind) return false;
    advance(p);
    return true;
}

bool token_is(const Parser *p, const Token *t, const char *word)
{
    size_t n = strlen(word);
    return (t->kind == T_NAME || token_is_keyword(t->kind)) && t->size == n &&
           !memcmp(p->source->text + t->at, word, n);
}

bool at_word(const Parser *p, const char *word)
{
    return token_is(p, &p->tok, word);
}

bool accept_word(Parser *p, const char *word)
{
    if (!at_word(p, word)) return false;
    advance(p);
    return true;
}

Sym name(Parser *p, const char *what)
{
    if (p->tok.kind != T_NAME) {
        expected(p, what);
        return intern(p->names, "");
    }
    Sym sym = intern_n(p->names, p->source->text + p->tok.at, p->tok.size);
    advance(p);
    return sym;
}

Sym string(Parser *p)
{
    if (p->tok.kind != T_STRING) {
        expected(p, token_spelling[T_STRING]);
        return intern(p->names, "");
    }
    Sym sym = token_string(&p->lexer, &p->tok, p->names, p->arena);
    advance(p);
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

void complain(Parser *p, Loc loc, const char *fmt, ...)
{
    if (p->panic) return;
    va_list ap;
    va_start(ap, fmt);
    vcomplain(p, loc, fmt, ap);
    va_end(ap);
}

void fail(Parser *p, Loc loc, const char *fmt, ...)
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
    return memchr(text + from, '\n', to - from) ? loc_at(p, from) : loc_at(p, to);
}

void expected(Parser *p, const char *what)
{
    if (p->panic) return;
    fail(p, here(p), "expected %s, found %s", what, describe(p, &p->tok));
}

void expect(Parser *p, TokenKind kind)
{
    if (accept(p, kind) || p->panic) return;
    fail(p, missing_at(p), "expected '%s', found %s", token_spelling[kind], describe(p, &p->tok));
}

void expect_closing(Parser *p, TokenKind kind, Loc open)
{
    bool was = p->panic;
    expect(p, kind);
    if (p->panic && !was) diag_note(p->diag, open, "to close what is opened here");
}

bool enter(Parser *p)
{
    if (++p->depth <= PARSER_MAX_DEPTH) return true;
    p->fatal = true;
    fail(p, here(p), "nested too deeply: more than %d levels", PARSER_MAX_DEPTH);
    return false;
}

void leave(Parser *p)
{
    p->depth--;
}

// ---- recovery

bool starts_declaration(TokenKind kind)
{
    return kind == T_OP || kind == T_KERNEL || kind == T_FN || kind == T_RULE || kind == T_GRAPH;
}

static bool end_panic(Parser *p)
{
    if (p->fatal) return false;
    p->panic = false;
    p->tok = p->held;
    return true;
}

// Goes past the end of the statement in which the panic began, or to where the next one surely
// begins.
void recover_statement(Parser *p)
{
    if (!end_panic(p)) return;
    for (int open = 0; p->tok.kind != T_EOF && !starts_declaration(p->tok.kind); advance(p)) {
        TokenKind kind = p->tok.kind;
        if (kind == T_LBRACE) open++;
        if (open == 0 && (kind == T_RBRACE || starts_statement(kind))) return;
        if ((kind == T_SEMICOLON && open == 0) || (kind == T_RBRACE && --open == 0)) {
            advance(p);
            return;
        }
    }
}

// Goes past the braces of the declaration in which the panic began, or to the next declaration.
static void recover_declaration(Parser *p)
{
    if (!end_panic(p)) return;
    for (int open = 0; p->tok.kind != T_EOF && !starts_declaration(p->tok.kind); advance(p)) {
        TokenKind kind = p->tok.kind;
        if (kind == T_LET && open == 0) return;
        if (kind == T_LBRACE) open++;
        if (kind == T_RBRACE && open > 0 && --open == 0) {
            advance(p);
            return;
        }
    }
}

// ---- nodes

void push(Parser *p, Nodes *list, Node *n)
{
    if (list->n == PARSER_MAX_LIST) fail(p, n->loc, "more than %d in one list", PARSER_MAX_LIST);
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
        fail(p, n->loc, "nested too deeply: more than %d operations in one another",
             PARSER_MAX_HEIGHT);
    }
    n->flags = (uint16_t)min_i64(most + 1, PARSER_MAX_HEIGHT);
}

Node *make(Parser *p, NodeKind kind, Loc loc, int nkid, Node *const *kid)
{
    Node *n = node_new(p->arena, kind, loc, nkid);
    if (nkid) memcpy(n->kid, kid, (size_t)nkid * sizeof *kid);
    set_height(p, n);
    return n;
}

Node *make_rest(Parser *p, NodeKind kind, Loc loc, int nfixed, Node *const *fixed,
                const Nodes *rest)
{
    Node *n = node_new(p->arena, kind, loc, nfixed + rest->n);
    if (nfixed) memcpy(n->kid, fixed, (size_t)nfixed * sizeof *fixed);
    if (rest->n) memcpy(n->kid + nfixed, rest->at, (size_t)rest->n * sizeof *rest->at);
    set_height(p, n);
    return n;
}

Node *make_list(Parser *p, NodeKind kind, Loc loc, const Nodes *list)
{
    return make_rest(p, kind, loc, 0, NULL, list);
}

Node *make_name(Parser *p, Loc loc, Sym sym)
{
    Node *n = make(p, N_NAME, loc, 0, NULL);
    n->u.sym = sym;
    return n;
}

Node *name_node(Parser *p, const char *what)
{
    Loc loc = here(p);
    return make_name(p, loc, name(p, what));
}

// ---- files

static void parser_init(Parser *p, Arena *a, Interner *names, const Source *source, Diag *d)
{
    *p = (Parser){.arena = a, .names = names, .source = source, .diag = d};
    p->lexer = (Lexer){.text = source->text, .size = (uint32_t)source->size};
    advance(p);
}

// "heald" INT ";"
static void version(Parser *p)
{
    if (!at_word(p, "heald") || peek(p).kind != T_INT) return;
    advance(p);
    if (p->tok.i != 1)
        complain(p, here(p), "version %lld of the language is not known here, only 1",
                 (long long)p->tok.i);
    advance(p);
    expect(p, T_SEMICOLON);
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
        push(&p, &decls, declaration(&p));
    }
    Node *file = make_list(&p, N_FILE, loc_at(&p, 0), &decls);
    return p.nerror ? NULL : file;
}

Node *parse_expression(Arena *a, Interner *names, const Source *source, Diag *d)
{
    Parser p;
    parser_init(&p, a, names, source, d);
    Node *e = expr(&p);
    if (p.tok.kind != T_EOF) expected(&p, "the end of the expression");
    return p.nerror ? NULL : e;
}
