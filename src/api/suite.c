// SPDX-License-Identifier: Apache-2.0
// A suite: its cases are found, run one process each, and counted. A child tells its verdict as
// lines of text: verdict, operator, note, then the reason.
#include "api/suite_case.h"

#include "base/jobs.h"
#include "base/os.h"

#include <stdlib.h>
#include <string.h>

enum { DEFAULT_LIMIT_MS = 60000, MAX_WORKERS = 2 };
static const int64_t case_memory_bytes = (int64_t)8 << 30;

typedef struct Suite {
    heald_context *context;
    Arena *arena; // of the cases
    const SuiteOptions *o;
    SuiteCases *cases;
    int ndone;
} Suite;

// ---- finding cases

static void add_case(Arena *a, const SuiteOptions *o, const char *path, SuiteCases *out)
{
    size_t size = strlen(path);
    while (size > 1 && path[size - 1] == '/') size--;
    const char *trimmed = arena_strndup(a, path, size), *name = trimmed;
    int slashes = 0;
    for (const char *p = trimmed + size; p > trimmed && slashes < 2; p--)
        if (p[-1] == '/' && ++slashes <= 2) name = p;
    if (slashes < 2) name = trimmed;
    if (o->only && !strstr(name, o->only)) return;
    SuiteCase k = {.path = trimmed, .name = name, .op = "", .reason = "", .note = ""};
    VEC_PUSH(a, out, k);
}

static const char *find_cases(Arena *a, const SuiteOptions *o, const char *folder, int depth,
                              SuiteCases *out)
{
    enum { MAX_DEPTH = 4 };
    if (path_exists(path_join(a, folder, "model.onnx"))) {
        add_case(a, o, folder, out);
        return NULL;
    }
    char **names;
    int n;
    const char *why = dir_list(a, folder, &names, &n);
    for (int i = 0; i < n && !why && depth < MAX_DEPTH; i++) {
        const char *path = path_join(a, folder, names[i]);
        if (path_is_dir(path)) why = find_cases(a, o, path, depth + 1, out);
    }
    return why;
}

// ---- in the child

static int run_job(void *user, int job, Buf *out)
{
    static const char letters[] = {
        [SUITE_PASSED] = 'P', [SUITE_FAILED] = 'F', [SUITE_SKIPPED] = 'S'};
    Suite *s = user;
    Arena arena = {0};
    SuiteCase k = s->cases->at[job];
    heald_context *c = s->context;
    diag_init(&c->diag, &arena, &c->sources);
    suite_case_run(c, &arena, s->o->rtol ? s->o->rtol : 1e-3, s->o->atol ? s->o->atol : 1e-7, &k);
    buf_printf(out, "%c\n%s\n%s\n%s", letters[k.verdict], k.op, k.note, k.reason);
    return 0;
}

// ---- in the parent

static char *take_line(char **text)
{
    char *line = *text, *end = strchr(line, '\n');
    *text = end ? end + 1 : line + strlen(line);
    if (end) *end = 0;
    return line;
}

static void read_result(Arena *a, const SuiteOptions *o, const JobResult *r, SuiteCase *k)
{
    char *text = arena_strdup(a, r->text);
    k->time_ns = r->time_ns;
    k->verdict = SUITE_FAILED;
    int limit_ms = o->limit_ms ? o->limit_ms : DEFAULT_LIMIT_MS;
    if (r->timed_out) {
        k->reason = arena_printf(a, "did not end within %d s", limit_ms / 1000);
    } else if (r->exit_status || !*text) {
        k->reason = r->exit_status > 128
                        ? arena_printf(a, "killed by signal %d", r->exit_status - 128)
                        : arena_printf(a, "ended with status %d", r->exit_status);
    } else {
        char verdict = *take_line(&text);
        k->verdict = verdict == 'P' ? SUITE_PASSED : verdict == 'S' ? SUITE_SKIPPED : SUITE_FAILED;
        k->op = take_line(&text);
        k->note = take_line(&text);
        k->reason = text;
    }
}

static void one_done(void *user, int job, const JobResult *r)
{
    Suite *s = user;
    SuiteCase *k = &s->cases->at[job];
    read_result(s->arena, s->o, r, k);
    s->ndone++;
    if (s->o->done) s->o->done(s->o->user, s->ndone, s->cases->n, k);
}

// Opens what the children share: they inherit it.
static heald_status prepare(heald_context *c)
{
    context_ops(c);
    Builder unused;
    return context_builder(c, &unused);
}

heald_status suite_run(heald_context *c, Arena *a, int nfolder, const char *const *folder,
                       const SuiteOptions *o, SuiteCases *out)
{
    *out = (SuiteCases){0};
    heald_status status = prepare(c);
    const char *why = NULL;
    for (int i = 0; i < nfolder && !why; i++) why = find_cases(a, o, folder[i], 0, out);
    if (status || why) return status ? status : error_set(&c->error, HEALD_IO, "%s", why);
    Suite s = {.context = c, .arena = a, .o = o, .cases = out};
    JobOptions jobs = {.nworker = o->nworker,
                       .limit_ms = o->limit_ms,
                       .done = one_done,
                       .memory_bytes = case_memory_bytes};
    if (!jobs.nworker) jobs.nworker = (int)min_i64(cpu_count(), MAX_WORKERS);
    if (!jobs.limit_ms) jobs.limit_ms = DEFAULT_LIMIT_MS;
    JobResult *results = NEW_ARRAY(a, JobResult, out->n);
    why = jobs_run(a, out->n, &jobs, run_job, &s, results);
    return why ? error_set(&c->error, HEALD_IO, "%s", why) : HEALD_OK;
}

// ---- the report

typedef struct Row {
    const char *op;
    int count[SUITE_SKIPPED + 1];
} Row;

static int by_op(const void *a, const void *b)
{
    return strcmp(((const Row *)a)->op, ((const Row *)b)->op);
}

static int rows_of(const SuiteCases *cases, Row *rows)
{
    int n = 0;
    for (int i = 0; i < cases->n; i++) {
        const SuiteCase *k = &cases->at[i];
        int at = 0;
        while (at < n && strcmp(rows[at].op, k->op)) at++;
        if (at == n) rows[n++] = (Row){.op = k->op};
        rows[at].count[k->verdict]++;
    }
    qsort(rows, (size_t)n, sizeof *rows, by_op);
    return n;
}

// The error of a diagnostic, without the lines that show its place.
static void first_line(Buf *out, const char *text)
{
    buf_append(out, text, strcspn(text, "\n"));
}

void suite_report(const SuiteCases *cases, bool reasons, Buf *out)
{
    Row *rows = NEW_ARRAY(out->arena, Row, cases->n);
    int n = rows_of(cases, rows), total[SUITE_SKIPPED + 1] = {0};
    buf_printf(out, "%-28s %6s %6s %7s\n", "operator", "passed", "failed", "skipped");
    for (int i = 0; i < n; i++) {
        const Row *r = &rows[i];
        buf_printf(out, "%-28s %6d %6d %7d\n", *r->op ? r->op : "(unknown)", r->count[SUITE_PASSED],
                   r->count[SUITE_FAILED], r->count[SUITE_SKIPPED]);
        for (int k = 0; k <= SUITE_SKIPPED; k++) total[k] += r->count[k];
    }
    for (int i = 0; i < cases->n && reasons; i++) {
        const SuiteCase *k = &cases->at[i];
        if (k->verdict == SUITE_PASSED && !*k->note) continue;
        static const char *const names[] = {"passed", "FAILED", "skipped"};
        buf_printf(out, "%s %s: ", names[k->verdict], k->name);
        if (k->verdict == SUITE_PASSED) buf_puts(out, k->note);
        else first_line(out, k->reason);
        buf_putc(out, '\n');
    }
    buf_printf(out, "%d passed, %d failed, %d skipped\n", total[SUITE_PASSED], total[SUITE_FAILED],
               total[SUITE_SKIPPED]);
}
