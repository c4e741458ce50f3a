// SPDX-License-Identifier: Apache-2.0
// heald bench: how long a model takes, and where the time goes. Latency is that of whole runs; the
// kernels are timed in a few more, in which none overlaps another.
#include "base/os.h"
#include "cli/bench.h"
#include "runtime/nvtx.h"
#include "runtime/tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BATCHES = 64, MAX_RUNS = 100000, FEWEST_RUNS = 5, WARM_RUNS = 3, HOST_RUNS = 200 };

static int by_value(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

// ---- tensors where the kernels run

static heald_status to_device(heald_context *c, heald_tensor **t)
{
    heald_tensor *near;
    heald_status s = tensor_to_device(c->device, *t, &near, &c->error);
    if (s) return s;
    heald_tensor_release(*t);
    *t = near;
    return s;
}

// Whether elements of the input decide about sizes: it is looked at before each run.
static bool is_looked_at(const ModelInstance *in, int input)
{
    const Plan *p = in->compiled->plan;
    if (in->base.fixed[input]) return true;
    for (int i = 0; i < p->dims.n; i++) {
        PlanDim d = p->dims.at[i];
        if (d.input == input && d.axis >= p->values.at[p->inputs.at[input]].rank) return true;
    }
    return false;
}

// The first run gives the outputs; what is known of the values of inputs is known then.
static heald_status settle(ModelJob *j)
{
    heald_context *c = j->cli->context;
    heald_status s = heald_model_run(j->model, j->input, j->output);
    if (s || c->device->ops->host_memory) return s;
    const ModelInstance *in = model_current(j->model);
    for (int i = 0; i < j->ninput && !s; i++)
        if (!is_looked_at(in, i)) s = to_device(c, &j->input[i]);
    for (int i = 0; i < j->noutput && !s; i++) s = to_device(c, &j->output[i]);
    return s;
}

// ---- whole runs

static heald_status run_once(ModelJob *j, double *seconds)
{
    int64_t start = clock_ns();
    heald_status s = heald_model_run(j->model, j->input, j->output);
    if (!s) s = heald_context_synchronise(j->cli->context);
    *seconds = (double)(clock_ns() - start) * 1e-9;
    return s;
}

static heald_status time_runs(ModelJob *j, int64_t most, double budget_s, Bench *b)
{
    double *at = NEW_ARRAY(&j->cli->arena, double, MAX_RUNS), sum = 0;
    heald_status s = HEALD_OK;
    int n = 0;
    for (int i = 0; i < WARM_RUNS && !s; i++) s = run_once(j, &at[0]);
    while (!s && n < (most ? most : MAX_RUNS) && (most || n < FEWEST_RUNS || sum < budget_s)) {
        s = run_once(j, &at[n]);
        sum += at[n++];
    }
    if (s) return s;
    qsort(at, (size_t)n, sizeof *at, by_value);
    b->nrun = n;
    b->min_s = at[0];
    b->low_s = at[n / 4];
    b->median_s = n % 2 ? at[n / 2] : (at[n / 2 - 1] + at[n / 2]) / 2;
    b->high_s = at[3 * n / 4];
    return s;
}

static heald_status time_host(ModelJob *j, Bench *b)
{
    heald_context *c = j->cli->context;
    double at[HOST_RUNS];
    heald_status s = HEALD_OK;
    if (c->device->ops->host_memory) return s;
    for (int i = 0; i < HOST_RUNS && !s; i++) {
        int64_t start = clock_ns();
        s = heald_model_run(j->model, j->input, j->output);
        at[i] = (double)(clock_ns() - start) * 1e-9;
        if (!s && i % 10 == 9) s = heald_context_synchronise(c);
    }
    qsort(at, HOST_RUNS, sizeof *at, by_value);
    b->host_s = at[HOST_RUNS / 2];
    return s;
}

// ---- the command

static int bench_one(ModelJob *j, int64_t most, double budget_s, Bench *b)
{
    Cli *c = j->cli;
    heald_context *x = c->context;
    *b = (Bench){.job = j, .batch = 1};
    heald_status s = settle(j);
    progress_clear(c);
    if (!s) s = time_runs(j, most, budget_s, b);
    if (!s) s = time_host(j, b);
    if (!s) s = context_call(x, bench_profile, b);
    if (s) return cli_context_error(c);
    bool gpu = x->target.kind == TARGET_CUDA;
    b->target = gpu ? arena_strdup(&c->arena, cuda_info(x->device)->name) : cpu_name(&c->arena);
    b->precision = precisions[model_current(j->model)->compiled->graph->precision].name;
    b->how = model_precision_text(j);
    b->threads = x->device->ops->nthread ? x->device->ops->nthread(x->device) : 1;
    if (j->ninput && heald_tensor_rank(j->input[0]) > 0)
        b->batch = heald_tensor_dims(j->input[0])[0];
    if (b->batch < 1) b->batch = 1;
    return EXIT_DONE;
}

// The numbers of --batch; 0 alone where it is not given. -1 with the error printed.
static int take_batches(Cli *c, int64_t *out)
{
    const char *text = cli_text(c, OPT_BATCH);
    if (!text) return out[0] = 0, 1;
    int n = 0;
    for (const char *s = text; n < MAX_BATCHES; s++) {
        char *end;
        long v = strtol(s, &end, 10);
        if (end == s || v < 1 || v > 1000000 || (*end && *end != ',')) break;
        out[n++] = v;
        s = end;
        if (!*end) return n;
    }
    cli_error(c, "--batch %s: numbers from 1 to 1000000, at most %d, separated by ',', are needed",
              text, MAX_BATCHES);
    return -1;
}

static int take_inputs(ModelJob *j, int64_t batch, TestData *data)
{
    Cli *c = j->cli;
    const char *dir = cli_text(c, OPT_DATA);
    const heald_value_info *first = heald_model_input(j->model, 0);
    if (batch && dir) return cli_error(c, "--batch changes the sizes that --data gives");
    if (batch && (!first || first->rank < 1 || (first->dims[0] >= 0 && first->dims[0] != batch)))
        return cli_error(c, "%s has a fixed batch: --batch needs an open first axis", j->path);
    j->batch = batch;
    model_drop_tensors(j);
    return dir ? model_take_data(j, dir, data) : model_take_inputs(j);
}

static int report(Cli *c, const Bench *b, int n)
{
    Buf out;
    const char *path = cli_text(c, OPT_PROFILE);
    if (cli_has(c, OPT_JSON)) {
        bench_json(b, n, &c->arena, &out);
        fwrite(out.text, 1, out.size, stdout);
    }
    if (!path) return EXIT_DONE;
    bench_trace(b, n, &c->arena, &out);
    const char *why = file_write_atomic(&c->arena, path, out.text, out.size);
    return why ? cli_error(c, "%s", why) : EXIT_DONE;
}

int cmd_bench(Cli *c)
{
    int64_t batch[MAX_BATCHES], most = 0;
    double budget_s = 2;
    TestData data;
    Bench b[MAX_BATCHES];
    ModelJob j;
    if ((cli_has(c, OPT_REPEAT) && !cli_int(c, OPT_REPEAT, 1, MAX_RUNS, &most)) ||
        !cli_double(c, OPT_SECONDS, &budget_s))
        return EXIT_ERROR;
    int n = take_batches(c, batch), status = n < 0 ? EXIT_ERROR : model_open(c, &j);
    if (n < 0) return status;
    if (!status && c->context->interpret)
        status = cli_error(c, "--target interp: the interpreter's time means nothing");
    for (int i = 0; i < n && !status; i++) {
        status = take_inputs(&j, batch[i], &data);
        if (!status) status = bench_one(&j, most, budget_s, &b[i]);
        if (!status && !cli_has(c, OPT_JSON)) {
            if (i) printf("\n");
            bench_print(&b[i]);
        }
    }
    Error e = {0};
    if (!status && nvtx_open(&e)) cli_warning(c, "no ranges for a profiler: %s", e.text);
    if (!status) status = report(c, b, n);
    model_close(&j);
    return status;
}
