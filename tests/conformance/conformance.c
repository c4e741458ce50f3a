// SPDX-License-Identifier: Apache-2.0
// The ONNX test suites against expected.txt beside this file: the cases that are known to fail, one
// a line. A case that fails and is not there fails the test; so does one that is there and passes,
// so that the list can only shrink.
//   conformance [-v] [-i] [-k PART] [-w FILE] EXPECTED [FOLDER]...
// -v: reasons; -i: the interpreter; -k: only cases whose name contains PART; -w: write the failing
// cases to FILE. Ends with status 77 where the folders are not there.
#include "api/suite.h"
#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char data[] = "/usr/share/libonnx-testdata/data";
static const char *const suites[] = {"node", "simple", "pytorch-operator", "pytorch-converted"};

static bool has_line(const char *text, const char *line)
{
    size_t size = strlen(line);
    for (const char *p = text; (p = strstr(p, line)) != NULL; p += size)
        if ((p == text || p[-1] == '\n') && (p[size] == '\n' || !p[size])) return true;
    return false;
}

static void show(void *user, int done, int total, const SuiteCase *last)
{
    (void)user;
    if (isatty(2)) fprintf(stderr, "\r%d of %d %-60s", done, total, last->name);
}

// The number of cases that are not as expected.
static int judge(Arena *a, const SuiteCases *cases, const char *expected, const char *write_to)
{
    int bad = 0;
    Buf failing;
    buf_init(&failing, a);
    for (int i = 0; i < cases->n; i++) {
        const SuiteCase *k = &cases->at[i];
        bool listed = has_line(expected, k->name);
        if (k->verdict == SUITE_FAILED) buf_printf(&failing, "%s\n", k->name);
        if (listed == (k->verdict == SUITE_FAILED)) continue;
        bad++;
        printf("%s: %s\n", k->name, listed ? "is in expected.txt and does not fail" : k->reason);
    }
    if (write_to) file_write_atomic(a, write_to, buf_text(&failing), failing.size);
    return bad;
}

int main(int argc, char **argv)
{
    const char *target = "cpu", *write_to = NULL;
    SuiteOptions o = {.done = show};
    bool verbose = false;
    for (int opt; (opt = getopt(argc, argv, "vik:w:")) != -1;) {
        if (opt == 'v') verbose = true;
        else if (opt == 'i') target = "interp";
        else if (opt == 'k') o.only = optarg;
        else if (opt == 'w') write_to = optarg;
        else return 2;
    }
    if (optind >= argc) return 2;
    Arena a = {0};
    const char **folder = (const char **)argv + optind + 1;
    int n = argc - optind - 1;
    if (n == 0) {
        folder = NEW_ARRAY(&a, const char *, COUNT(suites));
        for (; n < (int)COUNT(suites); n++) folder[n] = path_join(&a, data, suites[n]);
        if (!path_exists(folder[0])) return 77;
    }
    char *expected;
    size_t size;
    const char *why = file_read(&a, argv[optind], &expected, &size);
    heald_context *c;
    heald_status s =
        heald_context_create(HEALD_VERSION,
                             &HEALD_CONTEXT_OPTIONS(.target = target, .threads = 1,
                                                    .cache_dir = getenv("HEALD_CACHE_DIR"),
                                                    .library_path = getenv("HEALD_PATH")),
                             &c);
    if (s || why) {
        printf("%s\n", why ? why : heald_last_error(c));
        return 2;
    }
    SuiteCases cases;
    s = suite_run(c, &a, n, folder, &o, &cases);
    if (s) printf("%s\n", c->error.text);
    Buf report;
    buf_init(&report, &a);
    suite_report(&cases, verbose, &report);
    int bad = judge(&a, &cases, expected, write_to);
    fputs(buf_text(&report), stdout);
    heald_context_destroy(c);
    arena_free(&a);
    return s ? 2 : bad > 0;
}
