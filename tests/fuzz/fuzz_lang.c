// SPDX-License-Identifier: Apache-2.0
// Any bytes as a file of the language. What parses must print, and the print must parse to an equal
// tree and print the same again; what does not parse must have reported an error.
#include "base/util.h"
#include "lang/lang.h"

#include <stdint.h>
#include <string.h>

enum { ARENA_LIMIT = 256 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static Node *parse(Arena *a, Interner *names, Sources *sources, const char *text, size_t size)
{
    Diag d;
    diag_init(&d, a, sources);
    Source *source = sources_add(sources, "fuzz.hd", text, size);
    if (!source) return NULL;
    Node *file = parse_file(a, names, source, &d);
    ASSERT((file != NULL) == (d.nerror == 0));
    Buf shown;
    buf_init(&shown, a);
    diag_render(&d, &shown);
    return file;
}

static void run(Arena *a, const char *text, size_t size)
{
    Interner *names = interner_new(a);
    Sources sources = {.arena = a};
    Node *first = parse(a, names, &sources, text, size);
    if (!first) return;
    Buf once, twice;
    buf_init(&once, a);
    buf_init(&twice, a);
    lang_print(first, &once);
    Node *second = parse(a, names, &sources, buf_text(&once), once.size);
    ASSERT(second && node_equal(first, second));
    lang_print(second, &twice);
    ASSERT(once.size == twice.size && !strcmp(buf_text(&once), buf_text(&twice)));

    Library library;
    Diag d;
    diag_init(&d, a, &sources);
    library_init(&library, a, names, &sources);
    ASSERT(library_add(&library, first, &d) == (d.nerror == 0));
    if (d.nerror == 0) ASSERT(library_add(&library, second, &d));
}

static void run_within(Arena *a, const uint8_t *data, size_t size)
{
    jmp_buf nomem;
    a->nomem = &nomem;
    if (setjmp(nomem)) return;
    char *text = arena_alloc(a, size + 1);
    if (size) memcpy(text, data, size);
    run(a, text, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Arena a = {.limit_bytes = ARENA_LIMIT};
    run_within(&a, data, size);
    arena_free(&a);
    return 0;
}
