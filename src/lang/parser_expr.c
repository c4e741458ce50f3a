// SPDX-License-Identifier: Apache-2.0
// Expressions, by precedence climbing over operators.def.
#include "lang/parser.h"

#include <string.h>

typedef struct Operator {
    TokenKind token;
    NodeKind kind;
    Prec prec;
} Operator;

static const Operator operators[] = {
#define BINARY(TOKEN, KIND, prec) {T_##TOKEN, N_##KIND, prec},
#define COMPOUND(TOKEN, KIND)
#include "lang/operators.def"
#undef BINARY
#undef COMPOUND
};

static const Operator *operator_of(TokenKind kind)
{
    for (size_t i = 0; i < COUNT(operators); i++)
        if (operators[i].token == kind) return &operators[i];
    return NULL;
}

static Node *make_sym(Parser *p, NodeKind kind, Loc loc, Sym sym, Node *kid)
{
    Node *n = make(p, kind, loc, kid ? 1 : 0, &kid);
    n->u.sym = sym;
    return n;
}

static Node *spread(Parser *p, Node *e)
{
    Loc loc = here(p);
    return accept(p, T_ELLIPSIS) ? MAKE(p, SPREAD, loc, e) : e;
}

// ---- lists

// expr { "," expr }, possibly empty
Node *expr_list(Parser *p, TokenKind end, Prec min)
{
    Loc loc = here(p);
    Nodes list = {0};
    if (p->tok.kind != end) {
        do push(p, &list, min == PREC_ANY ? expr(p) : binary(p, min));
        while (accept(p, T_COMMA));
    }
    return make_list(p, N_TUPLE, loc, &list);
}

// names := NAME [ "..." ] { "," NAME [ "..." ] }
Node *names_list(Parser *p)
{
    Loc loc = here(p);
    Nodes list = {0};
    do push(p, &list, spread(p, name_node(p, "a name")));
    while (accept(p, T_COMMA));
    return make_list(p, N_TUPLE, loc, &list);
}

// Whether "(" and then names "in" follow this token.
static bool binders_follow(const Parser *p)
{
    Lexer ahead = p->lexer;
    if (lexer_next(&ahead).kind != T_LPAREN) return false;
    for (;;) {
        if (lexer_next(&ahead).kind != T_NAME) return false;
        Token t = lexer_next(&ahead);
        if (t.kind == T_ELLIPSIS) t = lexer_next(&ahead);
        if (t.kind != T_COMMA) return t.kind == T_IN;
    }
}

// range := cond [ ".." cond [ "step" cond ] | "..." ]
Node *range(Parser *p)
{
    Node *lo = condition(p), *step = NULL;
    Loc loc = here(p);
    if (!accept(p, T_DOTS)) return spread(p, lo);
    Node *hi = condition(p);
    if (accept_word(p, "step")) step = condition(p);
    return MAKE(p, RANGE, loc, lo, hi, step);
}

// binders := names "in" range { "," names "in" range }
static void binders(Parser *p, Nodes *list)
{
    do {
        Node *names = names_list(p);
        Loc loc = here(p);
        expect(p, T_IN);
        Node *over = range(p);
        push(p, list, MAKE(p, BINDER, loc, names, over));
    } while (accept(p, T_COMMA));
}

// arg := NAME ("=" | ":") expr | NAME "?" | "..." NAME | expr [ "..." ]
// What passes all attributes is an unnamed argument among the named ones.
static Node *arg(Parser *p, bool named)
{
    Loc loc = here(p);
    Sym none = intern(p->names, "");
    TokenKind after = p->tok.kind == T_NAME ? peek(p).kind : T_EOF;
    if (accept(p, T_ELLIPSIS)) {
        Node *all = MAKE(p, SPREAD, loc, name_node(p, "a name"));
        return make_sym(p, N_ARG, loc, none, all);
    }
    if (after == T_ASSIGN || after == T_COLON) {
        Sym sym = name(p, "a name");
        advance(p);
        return make_sym(p, N_ARG, loc, sym, expr(p));
    }
    Node *e;
    if (after == T_QUESTION) {
        Sym sym = name(p, "a name");
        e = make(p, N_PARAM, loc, 4, (Node *[]){NULL, NULL, NULL, NULL});
        e->u.sym = sym;
        e->sub = PARAM_OPTIONAL;
        advance(p);
    } else {
        e = spread(p, expr(p));
    }
    return named ? make_sym(p, N_ARG, loc, none, e) : e;
}

// args := [ arg { ("," | ";") arg } ]     after "(", through ")"
void args(Parser *p, Nodes *list)
{
    Loc open = loc_at(p, p->prev_end - 1);
    bool named = accept(p, T_SEMICOLON), seen = false;
    if (p->tok.kind != T_RPAREN || named) {
        do {
            if (list->n) {
                named |= p->tok.kind == T_SEMICOLON;
                advance(p);
            }
            Node *a = arg(p, named);
            if (seen && a->kind != N_ARG)
                complain(p, a->loc,
                         "an unnamed argument after a named one; put a ';' between them");
            seen |= a->kind == N_ARG;
            push(p, list, a);
        } while (p->tok.kind == T_COMMA || p->tok.kind == T_SEMICOLON);
    }
    expect_closing(p, T_RPAREN, open);
}

// index := ".." cond [ "with" expr [ "..." ] ] | "..." | expr [ "..." | ":+" expr | "@" expr ":"
// expr ]
static Node *index_item(Parser *p)
{
    Loc loc = here(p);
    if (accept(p, T_DOTS)) {
        Node *axis = condition(p), *with = NULL;
        if (accept_word(p, "with")) with = spread(p, expr(p));
        return MAKE(p, EXCEPT, loc, axis, with);
    }
    if (accept(p, T_ELLIPSIS)) return MAKE(p, SPREAD, loc, make(p, N_TUPLE, loc, 0, NULL));
    Node *e = expr(p);
    loc = here(p);
    if (accept(p, T_SPAN)) {
        Node *len = expr(p);
        return MAKE(p, SPAN, loc, e, len);
    }
    if (accept(p, T_AT)) {
        Node *axis = expr(p);
        expect(p, T_COLON);
        Node *value = expr(p);
        return MAKE(p, AT, loc, e, axis, value);
    }
    return spread(p, e);
}

// indices := [ index { "," index } ]     after "[", through "]"
void index_list(Parser *p, Nodes *list)
{
    Loc open = loc_at(p, p->prev_end - 1);
    if (p->tok.kind != T_RBRACKET) {
        do push(p, list, index_item(p));
        while (accept(p, T_COMMA));
    }
    expect_closing(p, T_RBRACKET, open);
}

// ---- forms that begin with a name

// reduction := WORD "(" binders ")" product
static Node *reduction(Parser *p)
{
    Loc loc = here(p), open;
    Nodes list = {0};
    Sym word = name(p, "a name");
    open = here(p);
    expect(p, T_LPAREN);
    binders(p, &list);
    expect_closing(p, T_RPAREN, open);
    Node *body = binary(p, PREC_MUL);
    Node *n = make_rest(p, N_REDUCE, loc, 1, &body, &list);
    n->u.sym = word;
    return n;
}

// fold := "fold" "(" binders ";" NAME "=" expr ")" block_expr
static Node *fold(Parser *p)
{
    Loc loc = here(p), open;
    Nodes list = {0};
    advance(p);
    open = here(p);
    expect(p, T_LPAREN);
    binders(p, &list);
    expect(p, T_SEMICOLON);
    Sym state = name(p, "the name of the state");
    expect(p, T_ASSIGN);
    Node *init = expr(p);
    expect_closing(p, T_RPAREN, open);
    Node *body = block_expr(p);
    if (!KID(body, BLOCK, value))
        complain(p, body->loc, "the body of 'fold' has no value; it ends with the next state");
    Node *n = make_rest(p, N_FOLD, loc, 2, (Node *[]){init, body}, &list);
    n->u.sym = state;
    return n;
}

// mapping := "mapping" "(" "workers" ":" expr ";" "shape" ":" expr ")" NAME "=>" (block_expr |
// expr)
static Node *mapping(Parser *p, Loc loc, const Nodes *list)
{
    Node *workers = NULL, *shape = NULL;
    for (int i = 0; i < list->n; i++) {
        Node *a = list->at[i];
        bool is_arg = a->kind == N_ARG;
        if (is_arg && !strcmp(a->u.sym, "workers") && !workers) workers = KID(a, ARG, value);
        else if (is_arg && !strcmp(a->u.sym, "shape") && !shape) shape = KID(a, ARG, value);
        else complain(p, a->loc, "a mapping takes workers and shape, each once");
    }
    if (!workers || !shape) {
        complain(p, loc,
                 "a mapping needs workers and shape: mapping(workers: n; shape: d) w => ...");
        workers = shape = make_name(p, loc, intern(p->names, ""));
    }
    Sym w = name(p, "the name of the worker");
    expect(p, T_FAT_ARROW);
    Node *body = p->tok.kind == T_LBRACE ? block_expr(p) : expr(p);
    if (body->kind == N_BLOCK && !KID(body, BLOCK, value))
        complain(p, body->loc, "the body of the mapping has no value; it ends with the task");
    Node *n = MAKE(p, MAPFN, loc, workers, shape, body);
    n->u.sym = w;
    return n;
}

// ---- blocks with a value

static Node *seq_of(Parser *p, Node *block_or_if)
{
    if (block_or_if->kind != N_BLOCK) return block_or_if;
    return make(p, N_SEQ, block_or_if->loc, NREST(block_or_if), REST(block_or_if));
}

static bool has_value(const Node *arm)
{
    return arm->kind == N_SELECT || (arm->kind == N_BLOCK && arm->kid[KID_BLOCK_value]);
}

// if := "if" cond block_expr [ "else" (if | block_expr) ]
// Arms that all end with an expression make it a value, arms without one a statement.
Node *if_either(Parser *p)
{
    Loc loc = here(p);
    bool ok = enter(p);
    if (ok) advance(p);
    Node *cond = condition(p), *then = block_expr(p), *other = NULL;
    if (accept(p, T_ELSE)) other = p->tok.kind == T_IF ? if_either(p) : block_expr(p);
    leave(p);
    bool value = has_value(then);
    if (value && !other) complain(p, loc, "an 'if' with a value needs an 'else'");
    if (other && has_value(other) != value)
        complain(p, loc, "one arm of this 'if' has a value, another has none");
    if (!value || !other || !has_value(other)) {
        if (other) other = seq_of(p, other);
        return MAKE(p, IF, loc, cond, seq_of(p, then), other);
    }
    if (other->kind == N_SELECT) {
        Nodes none = {0};
        other = make_rest(p, N_BLOCK, other->loc, 1, &other, &none);
    }
    return MAKE(p, SELECT, loc, cond, then, other);
}

// One statement of a block into the list, or its value.
static void block_item(Parser *p, Nodes *list, Node **value)
{
    if (accept(p, T_SEMICOLON)) return;
    if (p->tok.kind == T_IF) {
        Node *n = if_either(p);
        if (n->kind == N_IF) {
            push(p, list, n);
            return;
        }
        p->given = n;
    } else if (at_statement(p)) {
        push(p, list, statement(p));
        return;
    }
    Node *e = expr(p);
    if (p->tok.kind == T_RBRACE) *value = e;
    else push(p, list, simple_statement(p, e));
}

// block_expr := "{" stmt* [ expr ] "}"
Node *block_expr(Parser *p)
{
    Loc loc = here(p);
    Nodes list = {0};
    Node *value = NULL;
    bool ok = enter(p);
    expect(p, T_LBRACE);
    while (ok && !p->panic && p->tok.kind != T_RBRACE && p->tok.kind != T_EOF &&
           !starts_declaration(p->tok.kind)) {
        block_item(p, &list, &value);
        if (p->panic) recover_statement(p);
    }
    expect_closing(p, T_RBRACE, loc);
    leave(p);
    return make_rest(p, N_BLOCK, loc, 1, &value, &list);
}

// ---- primaries

static Node *literal(Parser *p)
{
    Loc loc = here(p);
    bool is_bool = p->tok.kind == T_TRUE || p->tok.kind == T_FALSE;
    Node *n = make(p, p->tok.kind == T_FLOAT ? N_FLOAT : N_INT, loc, 0, NULL);
    if (is_bool) n = node_int(p->arena, loc, DT_BOOL, p->tok.kind == T_TRUE);
    else if (n->kind == N_FLOAT) n->u.f = p->tok.f;
    else n->u.i = p->tok.i;
    n->flags = (uint16_t)p->tok.base;
    advance(p);
    return n;
}

// "(" ")" | "(" expr ")" | "(" expr "," [ expr { "," expr } ] ")"
static Node *parenthesised(Parser *p)
{
    Loc loc = here(p);
    Nodes list = {0};
    bool comma = false;
    advance(p);
    while (p->tok.kind != T_RPAREN && !p->panic && (list.n == 0 || comma)) {
        push(p, &list, expr(p));
        comma = accept(p, T_COMMA);
    }
    expect_closing(p, T_RPAREN, loc);
    return list.n == 1 && !comma ? list.at[0] : make_list(p, N_TUPLE, loc, &list);
}

static Node *if_value(Parser *p)
{
    Node *n = if_either(p);
    if (n->kind == N_IF)
        complain(p, n->loc, "this 'if' is used as a value, but its arms have none");
    return n;
}

static Node *named(Parser *p)
{
    const char *text = p->source->text + p->tok.at;
    if (is_reduction(text, p->tok.size) && binders_follow(p)) return reduction(p);
    if (at_word(p, "fold") && binders_follow(p)) return fold(p);
    return name_node(p, "a name");
}

// primary := INT | FLOAT | STRING | "true" | "false" | NAME | parenthesised | if | reduction | fold
// | mapping
static Node *primary(Parser *p)
{
    Loc loc = here(p);
    switch (p->tok.kind) {
    case T_INT:
    case T_FLOAT:
    case T_TRUE:
    case T_FALSE: return literal(p);
    case T_STRING: return make_sym(p, N_STRING, loc, string(p), NULL);
    case T_LPAREN: return parenthesised(p);
    case T_IF: return if_value(p);
    case T_NAME: return named(p);
    default: expected(p, "an expression"); return make_name(p, loc, intern(p->names, ""));
    }
}

bool is_mapping(const Node *callee, const Nodes *list)
{
    if (callee->kind != N_NAME || strcmp(callee->u.sym, "mapping") || !list->n) return false;
    const Node *first = list->at[0];
    return first->kind == N_ARG &&
           (!strcmp(first->u.sym, "workers") || !strcmp(first->u.sym, "shape"));
}

// postfix := primary { "(" args ")" | "[" indices "]" | "." (NAME | INT) }
static Node *postfix(Parser *p)
{
    Node *n = p->given ? p->given : primary(p);
    p->given = NULL;
    for (;;) {
        Loc loc = n->kind == N_NAME ? n->loc : here(p);
        Nodes list = {0};
        if (accept(p, T_LPAREN)) {
            args(p, &list);
            if (is_mapping(n, &list)) return mapping(p, loc, &list);
            n = make_rest(p, N_CALL, loc, 1, &n, &list);
        } else if (accept(p, T_LBRACKET)) {
            index_list(p, &list);
            n = make_rest(p, N_INDEX, loc, 1, &n, &list);
        } else if (accept(p, T_DOT)) {
            loc = here(p);
            bool number = p->tok.kind == T_INT;
            Sym field = number ? intern_n(p->names, p->source->text + p->tok.at, p->tok.size)
                               : name(p, "a field's name");
            if (number) advance(p);
            n = make_sym(p, N_FIELD, loc, field, n);
        } else {
            return n;
        }
    }
}

// unary := ("-" | "!" | "~") unary | postfix [ "**" unary ]
static Node *unary(Parser *p)
{
    Loc loc = here(p);
    NodeKind kind = p->tok.kind == T_MINUS   ? N_NEG
                    : p->tok.kind == T_BANG  ? N_NOT
                    : p->tok.kind == T_TILDE ? N_BNOT
                                             : N_NONE;
    if (!enter(p)) {
        leave(p);
        return make_name(p, loc, intern(p->names, ""));
    }
    Node *n;
    if (kind != N_NONE && !p->given) {
        advance(p);
        n = unary(p);
        n = make(p, kind, loc, 1, &n);
    } else {
        n = postfix(p);
        loc = here(p);
        if (accept(p, T_POW)) {
            Node *power = unary(p);
            n = MAKE(p, POW, loc, n, power);
        }
    }
    leave(p);
    return n;
}

// binary := unary { OPERATOR unary }, operators of precedence `min` and tighter
Node *binary(Parser *p, Prec min)
{
    Node *n = unary(p);
    for (;;) {
        const Operator *o = operator_of(p->tok.kind);
        if (!o || o->prec < min) return n;
        Loc loc = here(p);
        advance(p);
        Node *right = binary(p, o->prec + 1);
        n = make(p, o->kind, loc, 2, (Node *[]){n, right});
    }
}

// cond := binary
Node *condition(Parser *p)
{
    return binary(p, PREC_LOR);
}

// expr := binary [ "else" expr ]
Node *expr(Parser *p)
{
    Node *n = binary(p, PREC_LOR);
    Loc loc = here(p);
    if (!accept(p, T_ELSE)) return n;
    if (enter(p)) {
        Node *other = expr(p);
        n = MAKE(p, ELSE, loc, n, other);
    }
    leave(p);
    return n;
}
