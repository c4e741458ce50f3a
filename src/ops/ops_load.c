// SPDX-License-Identifier: Apache-2.0
// Loading texts: the embedded ones, then those of a search path. A later text may replace what an
// earlier one declares.
#include "ops/ops.h"

#include "base/os.h"
#include "ops/embedded.h"

#include <string.h>

static bool add_text(Library *l, const char *name, const char *text, size_t size, Diag *d)
{
    Source *s = sources_add(l->sources, name, text, size);
    if (!s) {
        diag_error(d, 0, "%s: too much text", name);
        return false;
    }
    Node *file = parse_file(l->arena, l->names, s, d);
    return file && library_add(l, file, d);
}

static bool add_file(Library *l, const char *path, Diag *d)
{
    char *text;
    size_t size;
    const char *why = file_read(l->arena, path, &text, &size);
    if (why) {
        diag_error(d, 0, "%s", why);
        return false;
    }
    return add_text(l, path, text, size, d);
}

static bool is_text(const char *name)
{
    size_t n = strlen(name);
    return n > 3 && !strcmp(name + n - 3, ".hd");
}

static bool add_folder(Library *l, const char *dir, int depth, Diag *d)
{
    enum { MAX_DEPTH = 16 };
    char **names;
    int n;
    const char *why = dir_list(l->arena, dir, &names, &n);
    if (why) {
        diag_error(d, 0, "%s", why);
        return false;
    }
    for (int i = 0; i < n; i++) {
        const char *path = path_join(l->arena, dir, names[i]);
        bool ok = true;
        if (path_is_dir(path)) ok = depth == MAX_DEPTH || add_folder(l, path, depth + 1, d);
        else if (is_text(names[i])) ok = add_file(l, path, d);
        if (!ok) return false;
    }
    return true;
}

bool ops_load(Library *l, const char *path, Diag *d)
{
    for (size_t i = 0; i < embedded_texts_count; i++) {
        const EmbeddedText *t = &embedded_texts[i];
        if (!add_text(l, arena_printf(l->arena, "lib/%s", t->path), t->text, t->size, d)) {
            return false;
        }
    }
    while (path && *path) {
        size_t n = strcspn(path, ":");
        if (n && !add_folder(l, arena_strndup(l->arena, path, n), 0, d)) return false;
        path += n + (path[n] == ':');
    }
    return library_check(l, d);
}
