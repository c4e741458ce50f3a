// SPDX-License-Identifier: Apache-2.0
// heald kernel bench: time, rate, share of the roofline, and what limits it.
#include "cli/kernel_job.h"
#include "judge/ceiling.h"
#include "judge/count.h"
#include "judge/timing.h"

#include <stdio.h>
#include <stdlib.h>

// What the op asks for is the work; a kernel without an op is taken by its word.
static Work work_of(KernelJob *j, const ScriptKernel *k)
{
    Work own = kernel_work(k->kernel, k->dims), sum = {0};
    if (!k->op) return own;
    heald_context *c = j->context;
    int result = 0;
    for (int i = 0; i < k->nparam; i++) {
        if (!k->param[i].output) continue;
        Kernel *m = script_meaning(k, j->arena, &c->library, &c->host, &j->options, result++, false,
                                   &c->diag);
        if (!m) {
            diag_clear(&c->diag);
            return own;
        }
        sum.flops += kernel_work(m, NULL).flops;
        if (k->op->sub == OP_SERIAL) break; // gives all results at once
    }
    sum.bytes = own.bytes;
    return sum;
}

static void print_time(const char *label, double s)
{
    if (s < 1e-3) printf("%s %.2f us", label, s * 1e6);
    else printf("%s %.3f ms", label, s * 1e3);
}

static void print_result(KernelJob *j, const ScriptKernel *k, const Work *w, const Timing *t,
                         const Ceilings *c)
{
    double s = t->median_s;
    Buf choices;
    buf_init(&choices, j->arena);
    choices_print(&k->choices, &choices);
    printf("%s (%s)%s%s\n", k->decl->u.sym, k->extents, choices.size ? ", " : "",
           buf_text(&choices));
    print_time("  time       ", s);
    print_time(" median,", t->min_s);
    print_time(" least, half of them within", t->low_s);
    print_time(" ..", t->high_s);
    Device *d = j->context->device;
    const char *where = d->ops->nthread ? arena_printf(j->arena, "%d threads", d->ops->nthread(d))
                                        : cuda_info(d)->name;
    printf(" (%d samples of %d calls, %d sets of buffers, %s)\n", t->nsample, t->batch, t->nset,
           where);
    const char *fmas = d->ops->nthread ? "independent fmas reach" : "its units make at most";
    const char *streams = d->ops->nthread ? "streaming reaches" : "its memory gives at most";
    printf("  compute     %.2f GFLOP/s, %.1f %% of the %.1f that %s\n", w->flops / s * 1e-9,
           100 * w->flops / s / c->flops, c->flops * 1e-9, fmas);
    printf("  memory      %.2f GB/s, %.1f %% of the %.1f that %s\n", w->bytes / s * 1e-9,
           100 * w->bytes / s / c->bandwidth, c->bandwidth * 1e-9, streams);
    double roof = w->flops / c->flops, stream = w->bytes / c->bandwidth;
    printf("  roofline    %.1f %% of what %s allows; limited by %s\n",
           100 * ceilings_share(c, w, s), roof > stream ? "compute" : "memory",
           ceilings_limit(c, w, s));
}

// --repeat, already checked; 0: not given.
static int samples(const Cli *c)
{
    return cli_has(c, OPT_REPEAT) ? atoi(cli_text(c, OPT_REPEAT)) : 0;
}

static heald_status bench_one(KernelJob *j, const Node *decl)
{
    heald_context *c = j->context;
    ScriptKernel *k = kernel_instantiate(j, decl, j->arena);
    if (!k) return HEALD_DIAGNOSTIC;
    Work work = work_of(j, k); // before it is lowered
    KernelData d = kernel_data(j->arena, k);
    heald_status s = kernel_data_fill(j, k, &d, false);
    BuiltKernel *b;
    Builder builder;
    Ceilings ceilings;
    Timing t;
    if (!s) s = context_builder(c, &builder);
    if (!s) s = context_device(c);
    if (!s) s = kernel_compile(j, k, j->arena, &b);
    if (s) return s;
    s = ceilings_get(context_cache_dir(c, j->arena), c->names, &c->target, &builder, c->device,
                     j->arena, &ceilings, &c->diag, &c->error);
    bool gpu = c->target.kind == TARGET_CUDA;
    DType first = k->nparam ? k->param[0].type : DT_NONE;
    if (first == DT_F16 || first == DT_BF16) ceilings.flops = ceilings.narrow_flops;
    TimingOptions o = {.rotate_bytes = 2 * (gpu ? c->target.l2_bytes : c->target.l3_bytes),
                       .nsample = samples(j->cli)};
    if (!s) s = kernel_load_on(j->arena, b, c->device, &c->error);
    if (!s) s = time_kernel(c->device, &b->runtime, k->dims, d.at, d.bytes, &o, &t, &c->error);
    kernel_release(b);
    if (!s) print_result(j, k, &work, &t, &ceilings);
    return s;
}

static heald_status bench_body(KernelJob *j)
{
    if (j->context->interpret)
        return error_set(&j->context->error, HEALD_UNSUPPORTED,
                         "--target interp: the interpreter's time means nothing");
    return kernel_each(j, bench_one);
}

int cmd_kernel_bench(Cli *c)
{
    static const ScriptExtents extents = {1, {1000}, 2, 0};
    int64_t n;
    if (cli_has(c, OPT_REPEAT) && !cli_int(c, OPT_REPEAT, 1, 1000, &n)) return EXIT_ERROR;
    return kernel_command(c, PICK_TARGET, &extents, bench_body);
}
