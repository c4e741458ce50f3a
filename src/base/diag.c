// SPDX-License-Identifier: Apache-2.0
// Places and messages. Line and column are computed only when a message is shown, from a table of
// line starts made then.
#include "base/diag.h"

#include "base/util.h"

#include <string.h>

enum { FILE_LIMIT = 64 << 20, DEFAULT_MAX_ERRORS = 20, WINDOW = 90 };

Source *sources_add(Sources *s, const char *name, const char *text, size_t size)
{
    Loc base = s->next ? s->next : 1;
    if (size > FILE_LIMIT || size >= UINT32_MAX - base) return NULL;
    Source *source = NEW(s->arena, Source);
    source->name = arena_strdup(s->arena, name);
    source->text = text;
    source->size = size;
    source->base = base;
    VEC_PUSH(s->arena, &s->list, source);
    s->next = base + (Loc)size + 1; // the end of a text is a place too
    return source;
}

static Source *source_of(const Sources *s, Loc loc)
{
    int low = 0, high = s->list.n; // the last source with base <= loc is in [low - 1, high)
    while (low < high) {
        int mid = low + (high - low) / 2;
        if (s->list.at[mid]->base <= loc) low = mid + 1;
        else high = mid;
    }
    if (low == 0) return NULL;
    Source *source = s->list.at[low - 1];
    return loc - source->base <= source->size ? source : NULL;
}

static void find_lines(Arena *a, Source *source)
{
    VEC_PUSH(a, &source->lines, 0);
    for (size_t i = 0; i < source->size; i++) {
        if (source->text[i] == '\n') VEC_PUSH(a, &source->lines, (uint32_t)i + 1);
    }
}

Place sources_place(const Sources *s, Loc loc)
{
    Source *source = loc ? source_of(s, loc) : NULL;
    if (!source) return (Place){0};
    if (!source->lines.n) find_lines(s->arena, source);
    uint32_t offset = loc - source->base;
    int low = 0, high = source->lines.n;
    while (high - low > 1) {
        int mid = low + (high - low) / 2;
        if (source->lines.at[mid] <= offset) low = mid;
        else high = mid;
    }
    return (Place){source, low + 1, (int)(offset - source->lines.at[low]) + 1};
}

void diag_init(Diag *d, Arena *a, Sources *s)
{
    *d = (Diag){.arena = a, .sources = s};
}

void diag_clear(Diag *d)
{
    d->messages.n = 0;
    d->nerror = 0;
    d->dropping = false;
}

static int error_limit(const Diag *d)
{
    return d->max_errors ? d->max_errors : DEFAULT_MAX_ERRORS;
}

void diag_report(Diag *d, Severity sev, Loc loc, const char *fmt, va_list ap)
{
    if (sev == SEV_ERROR) d->nerror++;
    if (sev != SEV_NOTE) d->dropping = sev == SEV_ERROR && d->nerror > error_limit(d);
    if (d->dropping) return;
    Message m = {sev, loc, arena_vprintf(d->arena, fmt, ap)};
    VEC_PUSH(d->arena, &d->messages, m);
}

void diag_error(Diag *d, Loc loc, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    diag_report(d, SEV_ERROR, loc, fmt, ap);
    va_end(ap);
}

void diag_warning(Diag *d, Loc loc, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    diag_report(d, SEV_WARNING, loc, fmt, ap);
    va_end(ap);
}

void diag_note(Diag *d, Loc loc, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    diag_report(d, SEV_NOTE, loc, fmt, ap);
    va_end(ap);
}

static bool continues_char(char c) // the second and later bytes of a UTF-8 character
{
    return ((unsigned char)c & 0xC0) == 0x80;
}

static char shown(char c)
{
    unsigned char u = (unsigned char)c;
    return c == '\t' || (u >= 0x20 && u != 0x7F) ? c : '?';
}

// The part [*begin, *end) of a line of `size` bytes to show around byte `caret`.
static void cut_window(const char *line, int size, int caret, int *begin, int *end)
{
    *begin = 0;
    *end = size;
    if (size <= WINDOW) return;
    int first = caret - WINDOW / 2;
    if (first > size - WINDOW) first = size - WINDOW;
    if (first < 0) first = 0;
    int last = first + WINDOW;
    while (first > 0 && continues_char(line[first])) first--;
    while (last < size && continues_char(line[last])) last++;
    *begin = first;
    *end = last;
}

static void render_line(Place p, Buf *out)
{
    const Source *source = p.source;
    const char *line = source->text + source->lines.at[p.line - 1];
    const char *stop = source->text + source->size;
    const char *newline = memchr(line, '\n', (size_t)(stop - line));
    int size = (int)((newline ? newline : stop) - line);
    if (size && line[size - 1] == '\r') size--;
    int caret = p.col - 1 < size ? p.col - 1 : size;

    int begin, end;
    cut_window(line, size, caret, &begin, &end);
    buf_printf(out, "%5d | %s", p.line, begin ? "..." : "");
    for (int i = begin; i < end; i++) buf_putc(out, shown(line[i]));
    buf_printf(out, "%s\n%5s | %s", end < size ? "..." : "", "", begin ? "   " : "");
    for (int i = begin; i < caret; i++) {
        if (!continues_char(line[i])) buf_putc(out, line[i] == '\t' ? '\t' : ' ');
    }
    buf_puts(out, "^\n");
}

void diag_render(const Diag *d, Buf *out)
{
    static const char *const names[] = {
        [SEV_NOTE] = "note", [SEV_WARNING] = "warning", [SEV_ERROR] = "error"};
    for (int i = 0; i < d->messages.n; i++) {
        const Message *m = &d->messages.at[i];
        Place p = d->sources ? sources_place(d->sources, m->loc) : (Place){0};
        if (p.source) buf_printf(out, "%s:%d:%d: ", p.source->name, p.line, p.col);
        buf_printf(out, "%s: %s\n", names[m->severity], m->text);
        if (p.source && m->severity != SEV_NOTE) render_line(p, out);
    }
    int more = d->nerror - error_limit(d);
    if (more > 0) buf_printf(out, "%d more error%s not shown\n", more, more == 1 ? "" : "s");
}
