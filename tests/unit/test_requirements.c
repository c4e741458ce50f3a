// SPDX-License-Identifier: Apache-2.0
// Attributes that make no sense are errors that name op, node and attribute, never wrong answers.
// Each line of data/bad_attributes.txt is: inputs | a call of an op on them | what is wrong.
#include "graph/graph.h"

#include "base/os.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

typedef struct Kit {
    Arena arena;
    Sources sources;
    Diag diag;
    Library library;
    Target target;
    OpTable *ops;
} Kit;

static const char *rendered(Kit *k)
{
    Buf b;
    buf_init(&b, &k->arena);
    diag_render(&k->diag, &b);
    return buf_text(&b);
}

// Of the graph that `text` declares, for its inputs' extents.
static bool specialises(Kit *k, const char *text)
{
    Arena *a = &k->arena;
    int64_t dims[8][GRAPH_MAX_RANK];
    const int64_t *list[8];
    int rank[8];
    Source *s = sources_add(&k->sources, "test.hd", text, strlen(text));
    Node *file = parse_file(a, k->library.names, s, &k->diag);
    if (!file || !library_add(&k->library, file, &k->diag)) return false;
    const Node *decl = map_get(&k->library.graphs, intern(k->library.names, "g"));
    Graph *g = graph_from_text(a, &k->library, k->ops, &k->target, decl, &k->diag);
    if (!g) return false;
    for (int i = 0; i < g->inputs.n; i++) {
        graph_value_dims(g->inputs.at[i], dims[i]);
        list[i] = dims[i];
        rank[i] = g->inputs.at[i]->rank;
    }
    Specialisation how = {.dims = list, .rank = rank};
    return graph_specialise(g, a, &how, &k->target, &k->diag) != NULL;
}

// Names for all results of an op, the first one y. Split gives two here.
static const char *results_of(Kit *k, const char *op)
{
    Buf b;
    Node *decl = map_get(&k->library.ops, intern(k->library.names, op));
    int n = !decl ? 1 : !strcmp(op, "split") ? 2 : NREST(KID(decl, OP, results));
    buf_init(&b, &k->arena);
    for (int i = 0; i < n; i++)
        buf_printf(&b, "%s%s",
                   i       ? ", y"
                   : n > 1 ? "let (y"
                           : "y",
                   i ? arena_printf(&k->arena, "%d", i) : "");
    buf_puts(&b, n > 1 ? ")" : "");
    return buf_text(&b);
}

static int check_line(Kit *k, char *line)
{
    char *call = strstr(line, " | "), *want = call ? strstr(call + 3, " | ") : NULL;
    if (!want) fail_msg("no three parts: %s", line);
    *call = *want = 0;
    call += 3;
    want += 3;
    const char *op = arena_strndup(&k->arena, call, strcspn(call, "("));
    const char *text =
        arena_printf(&k->arena, "graph g(%s) -> (y) { %s = %s; }\n", line, results_of(k, op), call);
    bool ok = specialises(k, text);
    const char *got = rendered(k);
    diag_clear(&k->diag);
    bool told = !ok && strstr(got, want) && strstr(got, arena_printf(&k->arena, "in %s(", op)) &&
                strstr(got, "note: in node '");
    if (!told) print_message("%s  wanted: %s\n  got: %s\n", text, want, got);
    return !told;
}

static void test_bad_attributes(void **state)
{
    (void)state;
    Kit k = {0};
    char *text, *save = NULL;
    size_t size;
    k.sources.arena = &k.arena;
    diag_init(&k.diag, &k.arena, &k.sources);
    library_init(&k.library, &k.arena, interner_new(&k.arena), &k.sources);
    target_host(&k.target);
    assert_true(ops_load(&k.library, NULL, &k.diag));
    k.ops = op_table_new(&k.arena, &k.library);
    assert_null(file_read(&k.arena, "tests/unit/data/bad_attributes.txt", &text, &size));
    int wrong = 0, n = 0;
    for (char *l = strtok_r(text, "\n", &save); l; l = strtok_r(NULL, "\n", &save), n++)
        wrong += check_line(&k, l);
    arena_free(&k.arena);
    assert_true(n > 100);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bad_attributes)};
    return cmocka_run_group_tests_name("requirements", tests, NULL, NULL);
}
