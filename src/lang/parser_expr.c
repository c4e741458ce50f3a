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
    return parser_make_sym(p, kind, loc, sym, kid ? 1 : 0, &kid);
}

static Node *spread(Parser *p, Node *e)
{
    Loc loc = parser_here(p);
    return parser_accept(p, T_ELLIPSIS) ? MAKE(p, SPREAD, loc, e) : e;
}

// ---- lists

// expr { "," expr }, possibly empty
Node *parse_expr_list(Parser *p, TokenKind end, Prec min)
{
    Loc loc = parser_here(p);
    Nodes list = {0};
    if (p->tok.kind != end) {
        do parser_push(p, &list, min == PREC_ANY ? parse_expr(p) : parse_binary(p, min));
        while (parser_accept(p, T_COMMA));
    }
    return parser_make_list(p, N_TUPLE, loc, &list);
}

// names := NAME [ "..." ] { "," NAME [ "..." ] }
Node *parse_names_list(Parser *p)
{
    Loc loc = parser_here(p);
    Nodes list = {0};
    do parser_push(p, &list, spread(p, parser_name_node(p, "a name")));
    while (parser_accept(p, T_COMMA));
    return parser_make_list(p, N_TUPLE, loc, &list);
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
Node *parse_range(Parser *p)
{
    Node *lo = parse_condition(p), *step = NULL;
    Loc loc = parser_here(p);
    if (!parser_accept(p, T_DOTS)) return spread(p, lo);
    Node *hi = parse_condition(p);
    if (parser_accept_word(p, "step")) step = parse_condition(p);
    return MAKE(p, RANGE, loc, lo, hi, step);
}

// binders := names "in" range { "," names "in" range }
static void binders(Parser *p, Nodes *list)
{
    do {
        Node *names = parse_names_list(p);
        Loc loc = parser_here(p);
        parser_expect(p, T_IN);
        Node *over = parse_range(p);
        parser_push(p, list, MAKE(p, BINDER, loc, names, over));
    } while (parser_accept(p, T_COMMA));
}

// arg := NAME ("=" | ":") expr | NAME "?" | "..." NAME | expr [ "..." ]
// What passes all attributes is an unnamed argument among the named ones.
static Node *arg(Parser *p, bool named)
{
    Loc loc = parser_here(p);
    Sym none = intern(p->names, "");
    TokenKind after = p->tok.kind == T_NAME ? parser_peek(p).kind : T_EOF;
    if (parser_accept(p, T_ELLIPSIS)) {
        Node *all = MAKE(p, SPREAD, loc, parser_name_node(p, "a name"));
        return make_sym(p, N_ARG, loc, none, all);
    }
    if (after == T_ASSIGN || after == T_COLON) {
        Sym sym = parser_name(p, "a name");
        parser_advance(p);
        return make_sym(p, N_ARG, loc, sym, parse_expr(p));
    }
    Node *e;
    if (after == T_QUESTION) {
        Sym sym = parser_name(p, "a name");
        e = parser_make(p, N_PARAM, loc, 5, (Node *[5]){NULL});
        e->u.sym = sym;
        e->sub = PARAM_OPTIONAL;
        parser_advance(p);
    } else {
        e = spread(p, parse_expr(p));
    }
    return named ? make_sym(p, N_ARG, loc, none, e) : e;
}

// args := [ arg { ("," | ";") arg } ]     after "(", through ")"
void parse_args(Parser *p, Nodes *list)
{
    Loc open = parser_loc_at(p, p->prev_end - 1);
    bool named = parser_accept(p, T_SEMICOLON), seen = false;
    if (p->tok.kind != T_RPAREN || named) {
        do {
            if (list->n) {
                named |= p->tok.kind == T_SEMICOLON;
                parser_advance(p);
            }
            Node *a = arg(p, named);
            if (seen && a->kind != N_ARG)
                parser_complain(p, a->loc,
                                "an unnamed argument after a named one; put a ';' between them");
            seen |= a->kind == N_ARG;
            parser_push(p, list, a);
        } while (p->tok.kind == T_COMMA || p->tok.kind == T_SEMICOLON);
    }
    parser_expect_closing(p, T_RPAREN, open);
}

// index := ".." cond [ "with" expr [ "..." ] ] | "..."
//        | expr [ "..." | ":+" expr | ".." cond | "@" expr ":" expr ]
static Node *index_item(Parser *p)
{
    Loc loc = parser_here(p);
    if (parser_accept(p, T_DOTS)) {
        Node *axis = parse_condition(p), *with = NULL;
        if (parser_accept_word(p, "with")) with = spread(p, parse_expr(p));
        return MAKE(p, EXCEPT, loc, axis, with);
    }
    if (parser_accept(p, T_ELLIPSIS))
        return MAKE(p, SPREAD, loc, parser_make(p, N_TUPLE, loc, 0, NULL));
    Node *e = parse_expr(p);
    loc = parser_here(p);
    if (parser_accept(p, T_SPAN)) {
        Node *len = parse_expr(p);
        return MAKE(p, SPAN, loc, e, len);
    }
    if (parser_accept(p, T_DOTS)) return MAKE(p, RANGE, loc, e, parse_condition(p), NULL);
    if (parser_accept(p, T_AT)) {
        Node *axis = parse_expr(p);
        parser_expect(p, T_COLON);
        Node *value = parse_expr(p);
        return MAKE(p, AT, loc, e, axis, value);
    }
    return spread(p, e);
}

// indices := [ index { "," index } ]     after "[", through "]"
void parse_index_list(Parser *p, Nodes *list)
{
    Loc open = parser_loc_at(p, p->prev_end - 1);
    if (p->tok.kind != T_RBRACKET) {
        do parser_push(p, list, index_item(p));
        while (parser_accept(p, T_COMMA));
    }
    parser_expect_closing(p, T_RBRACKET, open);
}

// ---- forms that begin with a name

// reduction := WORD "(" binders ")" product
static Node *reduction(Parser *p)
{
    Loc loc = parser_here(p), open;
    Nodes list = {0};
    Sym word = parser_name(p, "a name");
    open = parser_here(p);
    parser_expect(p, T_LPAREN);
    binders(p, &list);
    parser_expect_closing(p, T_RPAREN, open);
    Node *body = parse_binary(p, PREC_MUL);
    Node *n = parser_make_rest(p, N_REDUCE, loc, 1, &body, &list);
    n->u.sym = word;
    return n;
}

// fold := ( "fold" | "scan" ) "(" binders ";" NAME "=" expr ")" block_expr
static Node *fold(Parser *p)
{
    bool states = parser_at_word(p, "scan");
    Loc loc = parser_here(p), open;
    Nodes list = {0};
    parser_advance(p);
    open = parser_here(p);
    parser_expect(p, T_LPAREN);
    binders(p, &list);
    parser_expect(p, T_SEMICOLON);
    Sym state = parser_name(p, "the name of the state");
    parser_expect(p, T_ASSIGN);
    Node *init = parse_expr(p);
    parser_expect_closing(p, T_RPAREN, open);
    Node *body = parse_block_expr(p);
    if (!KID(body, BLOCK, value))
        parser_complain(p, body->loc, "the body of '%s' has no value; it ends with the next state",
                        states ? "scan" : "fold");
    Node *n = parser_make_rest(p, N_FOLD, loc, 2, (Node *[]){init, body}, &list);
    n->sub = states ? FOLD_STATES : FOLD_LAST;
    n->u.sym = state;
    return n;
}

// mapping := "mapping" "(" "workers" ":" expr ";" "shape" ":" expr ")" NAME "=>" mapping_body
// mapping_body := block_expr | expr
static Node *mapping(Parser *p, Loc loc, const Nodes *list)
{
    Node *workers = NULL, *shape = NULL;
    for (int i = 0; i < list->n; i++) {
        Node *a = list->at[i];
        bool is_arg = a->kind == N_ARG;
        if (is_arg && !strcmp(a->u.sym, "workers") && !workers) workers = KID(a, ARG, value);
        else if (is_arg && !strcmp(a->u.sym, "shape") && !shape) shape = KID(a, ARG, value);
        else parser_complain(p, a->loc, "a mapping takes workers and shape, each once");
    }
    if (!workers || !shape) {
        parser_complain(
            p, loc, "a mapping needs workers and shape: mapping(workers: n; shape: d) w => ...");
        workers = shape = parser_make_name(p, loc, intern(p->names, ""));
    }
    Sym w = parser_name(p, "the name of the worker");
    parser_expect(p, T_FAT_ARROW);
    Node *body = p->tok.kind == T_LBRACE ? parse_block_expr(p) : parse_expr(p);
    if (body->kind == N_BLOCK && !KID(body, BLOCK, value))
        parser_complain(p, body->loc,
                        "the body of the mapping has no value; it ends with the task");
    Node *n = MAKE(p, MAPFN, loc, workers, shape, body);
    n->u.sym = w;
    return n;
}

// ---- blocks with a value

static Node *seq_of(Parser *p, Node *block_or_if)
{
    if (block_or_if->kind != N_BLOCK) return block_or_if;
    return parser_make(p, N_SEQ, block_or_if->loc, NREST(block_or_if), REST(block_or_if));
}

static bool has_value(const Node *arm)
{
    return arm->kind == N_SELECT || (arm->kind == N_BLOCK && arm->kid[KID_BLOCK_value]);
}

// if := "if" cond block_expr [ "else" (if | block_expr) ]
// Arms that all end with an expression make it a value, arms without one a statement.
Node *parse_if_either(Parser *p)
{
    Loc loc = parser_here(p);
    bool ok = parser_enter(p);
    if (ok) parser_advance(p);
    Node *cond = parse_condition(p), *then = parse_block_expr(p), *other = NULL;
    if (parser_accept(p, T_ELSE))
        other = p->tok.kind == T_IF ? parse_if_either(p) : parse_block_expr(p);
    parser_leave(p);
    bool value = has_value(then);
    if (value && !other) parser_complain(p, loc, "an 'if' with a value needs an 'else'");
    if (other && has_value(other) != value)
        parser_complain(p, loc, "one arm of this 'if' has a value, another has none");
    if (!value || !other || !has_value(other)) {
        if (other) other = seq_of(p, other);
        return MAKE(p, IF, loc, cond, seq_of(p, then), other);
    }
    if (other->kind == N_SELECT) {
        Nodes none = {0};
        other = parser_make_rest(p, N_BLOCK, other->loc, 1, &other, &none);
    }
    return MAKE(p, SELECT, loc, cond, then, other);
}

// One statement of a block into the list, or its value.
static void block_item(Parser *p, Nodes *list, Node **value)
{
    if (parser_accept(p, T_SEMICOLON)) return;
    if (p->tok.kind == T_IF) {
        Node *n = parse_if_either(p);
        if (n->kind == N_IF) {
            parser_push(p, list, n);
            return;
        }
        p->given = n;
    } else if (parser_at_statement(p)) {
        parser_push(p, list, parse_statement(p));
        return;
    }
    Node *e = parse_expr(p);
    if (p->tok.kind == T_RBRACE) *value = e;
    else parser_push(p, list, parse_simple_statement(p, e));
}

// block_expr := "{" stmt* [ expr ] "}"
Node *parse_block_expr(Parser *p)
{
    Loc loc = parser_here(p);
    Nodes list = {0};
    Node *value = NULL;
    bool ok = parser_enter(p);
    parser_expect(p, T_LBRACE);
    while (ok && !p->panic && p->tok.kind != T_RBRACE && p->tok.kind != T_EOF &&
           !token_starts_declaration(p->tok.kind)) {
        block_item(p, &list, &value);
        if (p->panic) parser_recover(p);
    }
    parser_expect_closing(p, T_RBRACE, loc);
    parser_leave(p);
    return parser_make_rest(p, N_BLOCK, loc, 1, &value, &list);
}

// ---- primaries

static Node *literal(Parser *p)
{
    Loc loc = parser_here(p);
    bool is_bool = p->tok.kind == T_TRUE || p->tok.kind == T_FALSE;
    Node *n = parser_make(p, p->tok.kind == T_FLOAT ? N_FLOAT : N_INT, loc, 0, NULL);
    if (is_bool) n = node_int(p->arena, loc, DT_BOOL, p->tok.kind == T_TRUE);
    else if (n->kind == N_FLOAT) n->u.f = p->tok.f;
    else n->u.i = p->tok.i;
    n->flags = (uint16_t)p->tok.base;
    parser_advance(p);
    return n;
}

// "(" ")" | "(" expr ")" | "(" expr "," [ expr { "," expr } ] ")"
static Node *parenthesised(Parser *p)
{
    Loc loc = parser_here(p);
    Nodes list = {0};
    bool comma = false;
    parser_advance(p);
    while (p->tok.kind != T_RPAREN && !p->panic && (list.n == 0 || comma)) {
        parser_push(p, &list, parse_expr(p));
        comma = parser_accept(p, T_COMMA);
    }
    parser_expect_closing(p, T_RPAREN, loc);
    return list.n == 1 && !comma ? list.at[0] : parser_make_list(p, N_TUPLE, loc, &list);
}

static Node *if_value(Parser *p)
{
    int before = p->nerror;
    Node *n = parse_if_either(p);
    if (n->kind == N_IF && p->nerror == before)
        parser_complain(p, n->loc, "this 'if' is used as a value, but its arms have none");
    return n;
}

static Node *named(Parser *p)
{
    const char *text = p->source->text + p->tok.at;
    if (is_reduction(text, p->tok.size) && binders_follow(p)) return reduction(p);
    bool folds = parser_at_word(p, "fold") || parser_at_word(p, "scan");
    if (folds && binders_follow(p)) return fold(p);
    return parser_name_node(p, "a name");
}

// The keyword names a layout too: local(2, 2).
static Node *local_layout(Parser *p)
{
    Loc loc = parser_here(p);
    parser_advance(p);
    if (p->tok.kind != T_LPAREN) parser_expected(p, "'('");
    return parser_make_name(p, loc, intern(p->names, "local"));
}

// primary := INT | FLOAT | STRING | "true" | "false" | NAME | parenthesised | if | reduction
//          | fold | mapping | "local"
static Node *primary(Parser *p)
{
    Loc loc = parser_here(p);
    switch (p->tok.kind) {
    case T_INT:
    case T_FLOAT:
    case T_TRUE:
    case T_FALSE: return literal(p);
    case T_STRING: return make_sym(p, N_STRING, loc, parser_string(p), NULL);
    case T_LPAREN: return parenthesised(p);
    case T_IF: return if_value(p);
    case T_NAME: return named(p);
    case T_LOCAL: return local_layout(p);
    default:
        parser_expected(p, "an expression");
        return parser_make_name(p, loc, intern(p->names, ""));
    }
}

bool parser_is_mapping(const Node *callee, const Nodes *list)
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
        Loc loc = n->kind == N_NAME ? n->loc : parser_here(p);
        Nodes list = {0};
        if (parser_accept(p, T_LPAREN)) {
            parse_args(p, &list);
            if (parser_is_mapping(n, &list)) return mapping(p, loc, &list);
            n = parser_make_rest(p, N_CALL, loc, 1, &n, &list);
        } else if (parser_accept(p, T_LBRACKET)) {
            parse_index_list(p, &list);
            n = parser_make_rest(p, N_INDEX, loc, 1, &n, &list);
        } else if (parser_accept(p, T_DOT)) {
            loc = parser_here(p);
            bool number = p->tok.kind == T_INT;
            Sym field = number ? intern_n(p->names, p->source->text + p->tok.at, p->tok.size)
                               : parser_name(p, "a field's name");
            if (number) parser_advance(p);
            n = make_sym(p, N_FIELD, loc, field, n);
        } else {
            return n;
        }
    }
}

// unary := ("-" | "!" | "~") unary | postfix [ "**" unary ]
static Node *unary(Parser *p)
{
    Loc loc = parser_here(p);
    NodeKind kind = p->tok.kind == T_MINUS   ? N_NEG
                    : p->tok.kind == T_BANG  ? N_NOT
                    : p->tok.kind == T_TILDE ? N_BNOT
                                             : N_NONE;
    if (!parser_enter(p)) {
        parser_leave(p);
        return parser_make_name(p, loc, intern(p->names, ""));
    }
    Node *n;
    if (kind != N_NONE && !p->given) {
        parser_advance(p);
        n = unary(p);
        n = parser_make(p, kind, loc, 1, &n);
    } else {
        n = postfix(p);
        loc = parser_here(p);
        if (parser_accept(p, T_POW)) {
            Node *power = unary(p);
            n = MAKE(p, POW, loc, n, power);
        }
    }
    parser_leave(p);
    return n;
}

// binary := unary { OPERATOR unary }, operators of precedence `min` and tighter
Node *parse_binary(Parser *p, Prec min)
{
    Node *n = unary(p);
    for (;;) {
        const Operator *o = operator_of(p->tok.kind);
        if (!o || o->prec < min) return n;
        Loc loc = parser_here(p);
        parser_advance(p);
        Node *right = parse_binary(p, o->prec + 1);
        n = parser_make(p, o->kind, loc, 2, (Node *[]){n, right});
    }
}

// cond := binary
Node *parse_condition(Parser *p)
{
    return parse_binary(p, PREC_LOR);
}

// expr := binary [ "else" expr ]
Node *parse_expr(Parser *p)
{
    Node *n = parse_binary(p, PREC_LOR);
    Loc loc = parser_here(p);
    if (!parser_accept(p, T_ELSE)) return n;
    if (parser_enter(p)) {
        Node *other = parse_expr(p);
        n = MAKE(p, ELSE, loc, n, other);
    }
    parser_leave(p);
    return n;
}
