// SPDX-License-Identifier: Apache-2.0
// Reading test data that lies beside a model.
#include "api/test_data.h"

#include "base/os.h"

#include <stdlib.h>
#include <string.h>

static const char *read_list(Arena *a, const char *folder, const char *prefix, HostTensor **list,
                             int *n)
{
    VEC(HostTensor) found = {0};
    for (;;) {
        const char *path = path_join(a, folder, arena_printf(a, "%s_%d.pb", prefix, found.n));
        if (!path_exists(path)) break;
        HostTensor t;
        const char *why = tensor_read_pb(a, path, &t);
        if (why) return why;
        VEC_PUSH(a, &found, t);
    }
    *list = found.at;
    *n = found.n;
    return NULL;
}

const char *test_data_read(Arena *a, const char *folder, TestData *out)
{
    const char *why = read_list(a, folder, "input", &out->input, &out->ninput);
    return why ? why : read_list(a, folder, "output", &out->output, &out->noutput);
}

static int position(const Graph *g, const char *name)
{
    for (int i = 0; i < g->inputs.n; i++)
        if (!strcmp(g->inputs.at[i]->name, name)) return i;
    for (int i = 0; i < g->defaults.n; i++)
        if (!strcmp(g->defaults.at[i]->name, name)) return g->inputs.n + i;
    return -1;
}

const char *test_data_place(Arena *a, const TestData *d, const Graph *g, const HostTensor **given)
{
    int n = g->inputs.n;
    for (int i = 0; i < n + g->defaults.n; i++) given[i] = NULL;
    if (d->ninput > n + g->defaults.n) return "more data than inputs";
    for (int i = 0; i < d->ninput; i++) {
        int at = d->ninput > n ? position(g, d->input[i].name) : i;
        if (at < 0 || given[at])
            return arena_printf(a, "input_%d.pb, '%s', is none of the inputs", i, d->input[i].name);
        given[at] = &d->input[i];
    }
    for (int i = 0; i < n; i++)
        if (!given[i]) return arena_printf(a, "input '%s' has no data", g->inputs.at[i]->name);
    return NULL;
}

const char *test_data_sets(Arena *a, const char *model_folder, char ***folders, int *n)
{
    static const char prefix[] = "test_data_set_";
    char **names;
    int count;
    const char *why = dir_list(a, model_folder, &names, &count);
    if (why) return why;
    *folders = NEW_ARRAY(a, char *, count);
    *n = 0;
    for (int i = 0; i < count; i++)
        if (!strncmp(names[i], prefix, sizeof prefix - 1))
            (*folders)[(*n)++] = path_join(a, model_folder, names[i]);
    return NULL;
}

static void find_number(const char *text, const char *key, double *out)
{
    const char *at = strstr(text, key);
    if (!at) return;
    at += strlen(key);
    at += strspn(at, " \t\r\n:");
    char *end;
    double v = strtod(at, &end);
    if (end != at) *out = v;
}

void test_data_tolerance(Arena *a, const char *model_folder, double *rtol, double *atol)
{
    const char *path = path_join(a, model_folder, "data.json");
    char *text;
    size_t size;
    if (!path_exists(path) || file_read(a, path, &text, &size)) return;
    find_number(text, "\"rtol\"", rtol);
    find_number(text, "\"atol\"", atol);
}
