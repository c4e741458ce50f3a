// SPDX-License-Identifier: Apache-2.0
// Diagnostics for the user's mistakes: file:line:col: error: message, the source line, a caret,
// then notes. Nothing is printed here: messages collect in a Diag and are rendered to text.
// Invariant kept by all callers: a function that takes a Diag returns failure if and only if at
// least one error was reported.
#ifndef HEALD_BASE_DIAG_H
#define HEALD_BASE_DIAG_H

#include "base/vec.h"

typedef uint32_t Loc; // 0: nowhere; otherwise an offset into the concatenation of all sources

typedef struct Source {
    const char *name; // as shown to the user
    const char *text; // 0-terminated; borrowed
    size_t size;
    Loc base;            // Loc of text[0]; text[i] is base + i
    VEC(uint32_t) lines; // offsets of line starts, made on first use
} Source;

typedef struct Sources {
    Arena *arena;
    VEC(Source *) list;
    Loc next;
} Sources;

// NULL if the location space (4 GiB) or the file limit (64 MiB) would be exceeded.
Source *sources_add(Sources *s, const char *name, const char *text, size_t size);
typedef struct Place {
    const Source *source; // NULL: nowhere
    int line, col;        // from 1; col counts bytes
} Place;
Place sources_place(const Sources *s, Loc loc);

typedef enum Severity { SEV_NOTE, SEV_WARNING, SEV_ERROR } Severity;

typedef struct Message {
    Severity severity;
    Loc loc;
    const char *text;
} Message;

typedef struct Diag {
    Arena *arena;
    Sources *sources;
    VEC(Message) messages;
    int nerror;
    int max_errors; // further ones are counted, not kept; 0 means 20
    bool dropping;  // the message before was not kept, so neither are its notes
} Diag;

void diag_init(Diag *d, Arena *a, Sources *s);
void diag_error(Diag *d, Loc loc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void diag_warning(Diag *d, Loc loc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
// A note belongs to the message before it.
void diag_note(Diag *d, Loc loc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void diag_report(Diag *d, Severity sev, Loc loc, const char *fmt, va_list ap);
// All messages as text. Errors and warnings show their source line with a caret, notes only their
// place. A tab of the source is kept in the caret's line, a long line is cut to a window around the
// caret, control characters show as '?'.
void diag_render(const Diag *d, Buf *out);
void diag_clear(Diag *d);

#endif
