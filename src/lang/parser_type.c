// SPDX-License-Identifier: Apache-2.0
// Types: an element type and dimensions.
#include "lang/parser.h"

#include <string.h>

// dtype := NAME { "." NAME | "(" args ")" }
static Node *dtype(Parser *p)
{
    Node *n = name_node(p, "a type");
    while (p->tok.kind == T_DOT || p->tok.kind == T_LPAREN) {
        Nodes list = {0};
        if (accept(p, T_DOT)) {
            Loc loc = here(p);
            Sym field = name(p, "a field's name");
            n = make(p, N_FIELD, loc, 1, &n);
            n->u.sym = field;
        } else {
            advance(p);
            args(p, &list);
            if (is_mapping(n, &list)) complain(p, n->loc, "a mapping is not a type");
            n = make_rest(p, N_CALL, n->loc, 1, &n, &list);
        }
    }
    return n;
}

// dim := [ "static" ] expr [ "with" expr [ "..." ] ] [ "..." ]
// `s[..axis] with t...` says the same as `s[..axis with t...]...`; `static NAME` is a call of
// static.
static Node *dim(Parser *p)
{
    Loc loc = here(p);
    if (at_word(p, "static") && peek(p).kind == T_NAME) {
        Node *callee = name_node(p, "a name"), *d = name_node(p, "a name");
        return MAKE(p, CALL, loc, callee, d);
    }
    Node *e = expr(p);
    if (at_word(p, "with")) {
        bool except = e->kind == N_INDEX && NREST(e) == 1 && REST(e)[0]->kind == N_EXCEPT;
        if (!except || KID(REST(e)[0], EXCEPT, with)) {
            fail(p, here(p),
                 "'with' must follow an index that leaves out an axis, such as s[..axis]");
            return e;
        }
        advance(p);
        Loc with_loc = here(p);
        Node *with = expr(p), *axis = KID(REST(e)[0], EXCEPT, axis);
        loc = here(p);
        expect(p, T_ELLIPSIS);
        with = MAKE(p, SPREAD, with_loc, with);
        Node *both = MAKE(p, EXCEPT, REST(e)[0]->loc, axis, with);
        e = MAKE(p, INDEX, e->loc, KID(e, INDEX, base), both);
        return MAKE(p, SPREAD, loc, e);
    }
    loc = here(p);
    return accept(p, T_ELLIPSIS) ? MAKE(p, SPREAD, loc, e) : e;
}

static void dims(Parser *p, Nodes *list, Loc open)
{
    if (p->tok.kind != T_RBRACKET) {
        do push(p, list, dim(p));
        while (accept(p, T_COMMA));
    }
    expect_closing(p, T_RBRACKET, open);
}

// type := dtype [ "[" dims "]" | "[" "[" dims "]" "]" ]
// The count of an mbarrier may follow its dimensions: mbarrier[stages](1) is a list of mbarrier(1).
Node *type(Parser *p)
{
    Node *element = dtype(p);
    Nodes list = {0};
    int sub = TYPE_SCALAR;
    Loc open = here(p);
    if (accept(p, T_LBRACKET)) {
        Loc inner = here(p);
        if (accept(p, T_LBRACKET)) {
            dims(p, &list, inner);
            expect_closing(p, T_RBRACKET, open);
            sub = TYPE_TENSORS;
        } else {
            dims(p, &list, open);
            sub = list.n ? TYPE_TENSOR : TYPE_LIST;
        }
        if (element->kind == N_NAME && !strcmp(element->u.sym, "mbarrier") && accept(p, T_LPAREN)) {
            Nodes count = {0};
            args(p, &count);
            element = make_rest(p, N_CALL, element->loc, 1, &element, &count);
        }
    }
    Node *n = make_rest(p, N_TYPE, element->loc, 1, &element, &list);
    n->sub = (uint8_t)sub;
    return n;
}
