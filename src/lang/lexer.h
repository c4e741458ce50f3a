// SPDX-License-Identifier: Apache-2.0
// Text to tokens, one at a time. A lexer is a value: a copy of it looks ahead. It reports nothing;
// a token that is written wrongly says so in `problem` and stands for a harmless one of its kind.
#ifndef HEALD_LANG_LEXER_H
#define HEALD_LANG_LEXER_H

#include "base/diag.h"
#include "base/intern.h"

typedef enum TokenKind {
    T_EOF,
    T_NAME,
    T_INT,
    T_FLOAT,
    T_STRING,
    T_BAD,   // a character that begins no token
    T_PANIC, // the parser's own: an error was reported, nothing matches
#define PUNCT(ID, spelling) T_##ID,
#define KEYWORD(ID, spelling) T_##ID,
#include "lang/tokens.def"
#undef PUNCT
#undef KEYWORD
    T_COUNT
} TokenKind;

extern const char *const token_spelling[T_COUNT]; // as written, or "name", "number", ...

typedef struct Token {
    TokenKind kind;
    uint32_t at, size;   // bytes of the text
    const char *problem; // NULL: well formed
    uint32_t problem_at;
    int base;  // of an integer: 2, 10 or 16
    int64_t i; // T_INT
    double f;  // T_FLOAT
} Token;

typedef struct Lexer {
    const char *text;
    uint32_t size, at;
    bool after_dot; // digits are then a field's number, so that x.0.1 is (x.0).1
} Lexer;

Token lexer_next(Lexer *l);
bool token_is_keyword(TokenKind kind);
// The value of a string token of that text; scratch is used if it has escapes.
Sym token_string(const Lexer *l, const Token *t, Interner *names, Arena *scratch);

#endif
