// SPDX-License-Identifier: Apache-2.0
// heald check: a model's test data against what it computes.
#include "api/suite.h"
#include "api/test_data.h"
#include "base/os.h"
#include "cli/model_job.h"
#include "judge/compare.h"
#include "runtime/tensor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct Limits {
    double rtol, atol; // atol NAN: relative to the largest wanted magnitude
} Limits;

// A precision below f32 has a tolerance of its own, which no data.json tightens.
static bool find_limits(Cli *c, const char *folder, Limits *out)
{
    *out = (Limits){1e-3, NAN};
    test_data_tolerance(&c->arena, folder, &out->rtol, &out->atol);
    const PrecisionInfo *p = &precisions[c->context->precision];
    if (p->tolerance > 0) {
        *out = (Limits){fmax(p->tolerance, out->rtol), NAN};
        printf("precision %s: rtol %.3g, atol %.3g times the largest wanted magnitude\n", p->name,
               out->rtol, p->tolerance);
    }
    return (!cli_has(c, OPT_RTOL) || cli_double(c, OPT_RTOL, &out->rtol)) &&
           (!cli_has(c, OPT_ATOL) || cli_double(c, OPT_ATOL, &out->atol));
}

static const char *host_text(Arena *a, const HostTensor *t)
{
    char text[256];
    return arena_strdup(a, shape_format(text, sizeof text, t->dtype, t->rank, t->dims));
}

// Prints one line about output i; whether it is as wanted.
static bool check_output(ModelJob *j, int i, const HostTensor *want, const Limits *limits)
{
    Cli *c = j->cli;
    const heald_tensor *got = j->output[i];
    const char *name = cli_printable(c, heald_model_output(j->model, i)->name);
    bool same = got->dtype == want->dtype && got->rank == want->rank &&
                !memcmp(got->dims, want->dims, (size_t)got->rank * sizeof *got->dims);
    if (!same) {
        printf("    %s: FAILED, is %s, wanted %s\n", name, tensor_text(&c->arena, got),
               host_text(&c->arena, want));
        return false;
    }
    Tolerance t = {.rtol = limits->rtol, .atol = limits->atol};
    double loose = precisions[c->context->precision].tolerance;
    if (isnan(t.atol)) {
        t.atol = fmax(1e-5, loose) * largest_magnitude(want->dtype, want->data, got->nelem);
    }
    if (!dtype_is_float(want->dtype)) t = (Tolerance){0};
    Difference d = compare_close(got->dtype, got->data, want->dtype, want->data, got->nelem, &t);
    printf("    %s %s: %s, largest error %.3g, relative %.3g\n", name, tensor_text(&c->arena, got),
           d.nbad ? "FAILED" : "passed", d.max_abs, d.max_rel);
    if (d.nbad) {
        printf("        %lld of %lld elements are off by more than %.3g + %.3g |wanted|; element "
               "%lld is %.9g, wanted %.9g\n",
               (long long)d.nbad, (long long)got->nelem, t.atol, t.rtol, (long long)d.first, d.got,
               d.want);
    }
    if (d.constant) {
        cli_warning(c, "%s: output '%s' is wanted to be the same everywhere: this proves little",
                    j->path, name);
    }
    return d.nbad == 0;
}

// Runs one folder of data. EXIT_CHECK_FAILED if an output is not as wanted.
static int check_set(ModelJob *j, const char *dir, const Limits *limits)
{
    Cli *c = j->cli;
    TestData data;
    int status = model_take_data(j, dir, &data);
    if (!status && data.noutput == 0) status = cli_error(c, "%s has no outputs", dir);
    if (status) return status;
    heald_status s = heald_model_run(j->model, j->input, j->output);
    progress_clear(c);
    if (s) return cli_context_error(c);
    printf("%s\n", dir);
    model_warn_precision(j);
    bool good = true;
    for (int i = 0; i < data.noutput; i++)
        good = check_output(j, i, &data.output[i], limits) && good;
    return good ? EXIT_DONE : EXIT_CHECK_FAILED;
}

static int find_sets(ModelJob *j, const char *folder, char ***set, int *n)
{
    Cli *c = j->cli;
    *set = c->operand + 1;
    *n = c->noperand - 1;
    if (*n) return EXIT_DONE;
    const char *why = test_data_sets(&c->arena, folder, set, n);
    if (why) return cli_error(c, "%s", why);
    return *n ? EXIT_DONE : cli_error(c, "%s: there is no test_data_set_* beside it", j->path);
}

static int check_all(ModelJob *j)
{
    const char *slash = strrchr(j->path, '/');
    const char *folder =
        slash ? arena_strndup(&j->cli->arena, j->path, (size_t)(slash - j->path)) : ".";
    if (slash == j->path) folder = "/";
    char **set;
    int n, npassed = 0;
    Limits limits;
    if (find_sets(j, folder, &set, &n) || !find_limits(j->cli, folder, &limits)) return EXIT_ERROR;
    for (int i = 0; i < n; i++) {
        int status = check_set(j, set[i], &limits);
        if (status == EXIT_ERROR) return status;
        npassed += status == EXIT_DONE;
    }
    printf("%d passed, %d failed\n", npassed, n - npassed);
    return npassed == n ? EXIT_DONE : EXIT_CHECK_FAILED;
}

// ---- suites

static void show_case(void *user, int ndone, int ntotal, const SuiteCase *last)
{
    progress_show(user, ndone, ntotal, last->name);
}

typedef struct SuiteRun {
    Cli *cli;
    SuiteOptions options;
} SuiteRun;

static heald_status suite_body(heald_context *x, Arena *a, void *user)
{
    SuiteRun *run = user;
    Cli *c = run->cli;
    SuiteOptions o = run->options;
    o.nworker = x->options.threads;
    SuiteCases cases = {0};
    heald_status s =
        suite_run(x, a, c->options.all[OPT_SUITE].n, c->options.all[OPT_SUITE].at, &o, &cases);
    progress_clear(c);
    if (s) return s;
    if (cases.n == 0) {
        const char *of = o.only ? arena_printf(a, " whose name contains '%s'", o.only) : "";
        return error_set(&x->error, HEALD_NOT_FOUND,
                         "there is no case%s: a folder with model.onnx and test_data_set_*", of);
    }
    Buf out;
    buf_init(&out, a);
    suite_report(&cases, !cli_has(c, OPT_QUIET), &out);
    fputs(buf_text(&out), stdout);
    for (int i = 0; i < cases.n; i++)
        if (cases.at[i].verdict == SUITE_FAILED) return HEALD_CHECK_FAILED;
    return HEALD_OK;
}

static int check_suite(Cli *c)
{
    if (c->noperand) return cli_error(c, "--suite takes the place of MODEL");
    SuiteRun run = {c, {.only = cli_text(c, OPT_ONLY), .done = show_case, .user = c}};
    if ((cli_has(c, OPT_RTOL) && !cli_double(c, OPT_RTOL, &run.options.rtol)) ||
        (cli_has(c, OPT_ATOL) && !cli_double(c, OPT_ATOL, &run.options.atol)) || !cli_context(c))
        return EXIT_ERROR;
    heald_status s = context_call(c->context, suite_body, &run);
    if (s == HEALD_CHECK_FAILED) return EXIT_CHECK_FAILED;
    return s ? cli_context_error(c) : EXIT_DONE;
}

int cmd_check(Cli *c)
{
    if (cli_has(c, OPT_SUITE)) return check_suite(c);
    if (c->noperand == 0) return cli_error(c, "MODEL is missing; 'heald check --help' tells more");
    ModelJob j;
    int status = model_open(c, &j);
    if (!status) status = check_all(&j);
    model_close(&j);
    return status;
}
