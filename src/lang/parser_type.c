// SPDX-License-Identifier: Apache-2.0
// Types: an element type and dimensions.
#include "lang/parser.h"

#include <string.h>

// dtype := NAME { "." NAME | "(" args ")" }
static Node *dtype(Parser *p)
{
    Node *n = parser_name_node(p, "a type");
    while (p->tok.kind == T_DOT || p->tok.kind == T_LPAREN) {
        Nodes list = {0};
        if (parser_accept(p, T_DOT)) {
            Loc loc = parser_here(p);
            Sym field = parser_name(p, "a field's name");
            n = parser_make(p, N_FIELD, loc, 1, &n);
            n->u.sym = field;
        } else {
            parser_advance(p);
            parse_args(p, &list);
            if (parser_is_mapping(n, &list)) parser_complain(p, n->loc, "a mapping is not a type");
            n = parser_make_rest(p, N_CALL, n->loc, 1, &n, &list);
        }
    }
    return n;
}

// dim := [ "static" ] expr [ "with" expr [ "..." ] ] [ "..." ]
// `s[..axis] with t...` says the same as `s[..axis with t...]...`; `static NAME` is a call of
// static.
static Node *dim(Parser *p)
{
    Loc loc = parser_here(p);
    if (parser_at_word(p, "static") && parser_peek(p).kind == T_NAME) {
        Node *callee = parser_name_node(p, "a name"), *d = parser_name_node(p, "a name");
        return MAKE(p, CALL, loc, callee, d);
    }
    Node *e = parse_expr(p);
    if (parser_at_word(p, "with")) {
        bool except = e->kind == N_INDEX && NREST(e) == 1 && REST(e)[0]->kind == N_EXCEPT;
        if (!except || KID(REST(e)[0], EXCEPT, with)) {
            parser_fail(p, parser_here(p),
                        "'with' must follow an index that leaves out an axis, such as s[..axis]");
            return e;
        }
        parser_advance(p);
        Loc with_loc = parser_here(p);
        Node *with = parse_expr(p), *axis = KID(REST(e)[0], EXCEPT, axis);
        loc = parser_here(p);
        parser_expect(p, T_ELLIPSIS);
        with = MAKE(p, SPREAD, with_loc, with);
        Node *both = MAKE(p, EXCEPT, REST(e)[0]->loc, axis, with);
        e = MAKE(p, INDEX, e->loc, KID(e, INDEX, base), both);
        return MAKE(p, SPREAD, loc, e);
    }
    loc = parser_here(p);
    return parser_accept(p, T_ELLIPSIS) ? MAKE(p, SPREAD, loc, e) : e;
}

static void dims(Parser *p, Nodes *list, Loc open)
{
    if (p->tok.kind != T_RBRACKET) {
        do parser_push(p, list, dim(p));
        while (parser_accept(p, T_COMMA));
    }
    parser_expect_closing(p, T_RBRACKET, open);
}

// type := dtype [ "[" dims "]" | "[" "[" dims "]" "]" ]
// The count of an mbarrier may follow its dimensions: mbarrier[stages](1) is a list of mbarrier(1).
Node *parse_type(Parser *p)
{
    Node *element = dtype(p);
    Nodes list = {0};
    int sub = TYPE_SCALAR;
    Loc open = parser_here(p);
    if (parser_accept(p, T_LBRACKET)) {
        Loc inner = parser_here(p);
        if (parser_accept(p, T_LBRACKET)) {
            dims(p, &list, inner);
            parser_expect_closing(p, T_RBRACKET, open);
            sub = TYPE_TENSORS;
        } else {
            dims(p, &list, open);
            sub = list.n ? TYPE_TENSOR : TYPE_LIST;
        }
        if (element->kind == N_NAME && !strcmp(element->u.sym, "mbarrier") &&
            parser_accept(p, T_LPAREN)) {
            Nodes count = {0};
            parse_args(p, &count);
            element = parser_make_rest(p, N_CALL, element->loc, 1, &element, &count);
        }
    }
    Node *n = parser_make_rest(p, N_TYPE, element->loc, 1, &element, &list);
    n->sub = (uint8_t)sub;
    return n;
}
