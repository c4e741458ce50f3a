// SPDX-License-Identifier: Apache-2.0
// The lexer. Fixed tokens come from tokens.def; the first entry that fits is the longest.
#include "lang/lexer.h"

#include "base/util.h"
#include "lang/syntax.h"

#include <string.h>

const char *const token_spelling[T_COUNT] = {
    [T_EOF] = "end of file", [T_NAME] = "a name",     [T_INT] = "an integer",
    [T_FLOAT] = "a number",  [T_STRING] = "a string", [T_BAD] = "a character",
    [T_PANIC] = "an error",
#define PUNCT(ID, spelling) [T_##ID] = spelling,
#define KEYWORD(ID, spelling) [T_##ID] = spelling,
#include "lang/tokens.def"
#undef PUNCT
#undef KEYWORD
};

typedef struct Fixed {
    TokenKind kind;
    uint32_t size;
    const char *spelling;
} Fixed;

static const Fixed puncts[] = {
#define PUNCT(ID, spelling) {T_##ID, sizeof spelling - 1, spelling},
#define KEYWORD(ID, spelling)
#include "lang/tokens.def"
#undef PUNCT
#undef KEYWORD
};

static const Fixed keywords[] = {
#define PUNCT(ID, spelling)
#define KEYWORD(ID, spelling) {T_##ID, sizeof spelling - 1, spelling},
#include "lang/tokens.def"
#undef PUNCT
#undef KEYWORD
};

bool token_is_keyword(TokenKind kind)
{
    return kind >= keywords[0].kind && kind < T_COUNT;
}

static char look(const Lexer *l, uint32_t ahead)
{
    return l->size - l->at > ahead ? l->text[l->at + ahead] : '\0';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c);
}

static int digit_value(char c)
{
    if (is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return 99;
}

static void problem(Token *t, uint32_t at, const char *what)
{
    if (t->problem) return;
    t->problem = what;
    t->problem_at = at;
}

static void skip_blanks(Lexer *l)
{
    for (;; l->at++) {
        char c = look(l, 0);
        if (c == '/' && look(l, 1) == '/') {
            const char *from = l->text + l->at;
            const char *end = memchr(from, '\n', l->size - l->at);
            if (!end) {
                l->at = l->size;
                return;
            }
            l->at += (uint32_t)(end - from);
        } else if (c != ' ' && c != '\t' && c != '\n' && c != '\r') {
            return;
        }
    }
}

// Digits with single underscores between them.
static void digits(Lexer *l, int base)
{
    while (digit_value(look(l, 0)) < base ||
           (look(l, 0) == '_' && digit_value(look(l, 1)) < base && l->text[l->at - 1] != '_'))
        l->at++;
}

// "." digits and "e" ["+" | "-"] digits, each optional; false if neither is there.
static bool fraction(Lexer *l)
{
    uint32_t before = l->at;
    if (look(l, 0) == '.' && is_digit(look(l, 1))) {
        l->at++;
        digits(l, 10);
    }
    if (look(l, 0) == 'e' || look(l, 0) == 'E') {
        bool sign = look(l, 1) == '+' || look(l, 1) == '-';
        if (is_digit(look(l, sign ? 2 : 1))) {
            l->at += sign ? 2 : 1;
            digits(l, 10);
        }
    }
    return l->at != before;
}

static void integer_value(const Lexer *l, Token *t, uint32_t from)
{
    for (uint32_t k = from; k < l->at; k++) {
        if (l->text[k] == '_') continue;
        int64_t d = digit_value(l->text[k]);
        if (!mul_i64(t->i, t->base, &t->i) || !add_i64(t->i, d, &t->i)) {
            problem(t, t->at, "the number is larger than 9223372036854775807");
            t->i = 0;
            return;
        }
    }
}

static void float_value(const Lexer *l, Token *t)
{
    char text[FLOAT_TEXT_MAX];
    uint32_t n = 0;
    for (uint32_t k = t->at; k < l->at; k++) {
        if (l->text[k] == '_') continue;
        if (n == sizeof text - 1) {
            problem(t, t->at, "the number is too long");
            return;
        }
        text[n++] = l->text[k];
    }
    text[n] = '\0';
    if (!text_to_double(text, &t->f)) problem(t, t->at, "the number is too large");
}

static void number(Lexer *l, Token *t)
{
    t->kind = T_INT;
    t->base = 10;
    if (l->after_dot) {
        while (is_digit(look(l, 0))) l->at++;
        return;
    }
    if (look(l, 0) == '0' && (look(l, 1) == 'x' || look(l, 1) == 'b')) {
        t->base = look(l, 1) == 'x' ? 16 : 2;
        l->at += 2;
    }
    uint32_t from = l->at;
    if (digit_value(look(l, 0)) < t->base) digits(l, t->base);
    if (t->base == 10 && fraction(l)) t->kind = T_FLOAT;
    if (l->at == from || is_word(look(l, 0))) {
        problem(t, t->at, "malformed number");
        while (is_word(look(l, 0))) l->at++;
    } else if (t->kind == T_INT) {
        integer_value(l, t, from);
    } else {
        float_value(l, t);
    }
}

static void escape(Lexer *l, Token *t)
{
    uint32_t at = l->at;
    char c = look(l, 1);
    l->at++; // the backslash
    if (c == 'x' && digit_value(look(l, 1)) < 16 && digit_value(look(l, 2)) < 16) {
        if (look(l, 1) == '0' && look(l, 2) == '0') problem(t, at, "a string cannot hold \\x00");
        l->at += 3;
    } else if (c == 'n' || c == 't' || c == '\\' || c == '"') {
        l->at++;
    } else {
        problem(t, at, "unknown escape; known are \\n \\t \\\\ \\\" and \\x with two digits");
    }
}

static void string(Lexer *l, Token *t)
{
    t->kind = T_STRING;
    l->at++;
    while (look(l, 0) != '"') {
        if (l->at == l->size || look(l, 0) == '\n') {
            problem(t, t->at, "the string does not end on its line");
            return;
        }
        if (look(l, 0) == '\0') problem(t, l->at, "a string cannot hold a zero byte");
        if (look(l, 0) == '\\') escape(l, t);
        else l->at++;
    }
    l->at++;
}

static void word(Lexer *l, Token *t)
{
    t->kind = T_NAME;
    while (is_word(look(l, 0))) l->at++;
    const char *text = l->text + t->at;
    for (size_t k = 0; k < COUNT(keywords); k++) {
        const Fixed *f = &keywords[k];
        if (f->size == l->at - t->at && !memcmp(f->spelling, text, f->size)) t->kind = f->kind;
    }
}

static void punctuation(Lexer *l, Token *t)
{
    for (size_t k = 0; k < COUNT(puncts); k++) {
        const Fixed *f = &puncts[k];
        if (f->size <= l->size - l->at && !memcmp(f->spelling, l->text + l->at, f->size)) {
            t->kind = f->kind;
            l->at += f->size;
            return;
        }
    }
    t->kind = T_BAD;
    problem(t, t->at, "this character begins nothing in the language");
    // One report for a run of them, such as the bytes of one UTF-8 character.
    do l->at++;
    while ((unsigned char)look(l, 0) >= 0x80);
}

Token lexer_next(Lexer *l)
{
    skip_blanks(l);
    Token t = {.kind = T_EOF, .at = l->at};
    char c = look(l, 0);
    if (l->at == l->size) t.kind = T_EOF;
    else if (is_digit(c)) number(l, &t);
    else if (is_word(c)) word(l, &t);
    else if (c == '"') string(l, &t);
    else punctuation(l, &t);
    l->after_dot = t.kind == T_DOT;
    t.size = l->at - t.at;
    return t;
}

Sym token_string(const Lexer *l, const Token *t, Interner *names, Arena *scratch)
{
    if (t->problem) return intern(names, "");
    const char *from = l->text + t->at + 1;
    size_t size = t->size - 2, n = 0;
    if (!memchr(from, '\\', size)) return intern_n(names, from, size);
    char *text = arena_alloc(scratch, size);
    for (size_t k = 0; k < size; k++) {
        char c = from[k];
        if (c == '\\') {
            c = from[++k];
            if (c == 'n') c = '\n';
            else if (c == 't') c = '\t';
            else if (c == 'x') {
                c = (char)(digit_value(from[k + 1]) * 16 + digit_value(from[k + 2]));
                k += 2;
            }
        }
        text[n++] = c;
    }
    return intern_n(names, text, n);
}
