// SPDX-License-Identifier: Apache-2.0
// The results of heald bench as text, as JSON, and as a trace.
#include "cli/bench.h"

#include <stdio.h>

Ceilings bench_ceilings(const Bench *b, bool narrow)
{
    Ceilings c = b->ceilings;
    if (narrow) c.flops = c.narrow_flops;
    return c;
}

static const char *time_text(Arena *a, double s)
{
    return s < 1e-3 ? arena_printf(a, "%.1f us", s * 1e6) : arena_printf(a, "%.3f ms", s * 1e3);
}

void bench_print(const Bench *b)
{
    Arena *a = &b->job->cli->arena;
    bool gpu = b->host_s > 0;
    printf("%s on %s%s, %s, batch %lld\n", b->job->path, b->target,
           gpu ? "" : arena_printf(a, ", %d threads", b->threads), b->how, (long long)b->batch);
    printf("  latency   %s median, %s least, half of them within %s .. %s (%d runs)\n",
           time_text(a, b->median_s), time_text(a, b->min_s), time_text(a, b->low_s),
           time_text(a, b->high_s), b->nrun);
    printf("  rate      %.4g items/s\n", (double)b->batch / b->median_s);
    printf("  memory    %.2f MB for temporary values\n", (double)b->memory_bytes * 1e-6);
    if (b->host_s > 0)
        printf("  host      %s for a call that waits for nothing\n", time_text(a, b->host_s));
    printf("  kernels   %d in %d launches; %s when they are timed one by one\n\n", b->nkernel,
           b->nlaunch, time_text(a, b->kernels_s));
    bool sections = b->nsection > 1;
    if (sections)
        printf("  Sections are numbered as 'heald inspect' shows them.\n\n%8s", "section");
    printf("%12s %6s %9s %10s %8s %9s  %-32s %s\n", "time", "share", "launches", "GFLOP/s", "GB/s",
           "roofline", "limited by", "kernel and first node");
    for (int i = 0; i < b->nkernel; i++) {
        const BenchKernel *k = &b->kernel[i];
        Ceilings c = bench_ceilings(b, k->narrow);
        double s = k->seconds > 0 ? k->seconds : 1e-9;
        Work each = {k->work.flops / k->nlaunch, k->work.bytes / k->nlaunch};
        if (sections) printf("%8d", k->section);
        printf("%12s %5.1f%% %9d %10.1f %8.1f %8.1f%%  %-32s %s  %s\n", time_text(a, k->seconds),
               b->kernels_s > 0 ? 100 * k->seconds / b->kernels_s : 0, k->nlaunch,
               k->work.flops / s * 1e-9, k->work.bytes / s * 1e-9,
               100 * ceilings_share(&c, &each, s / k->nlaunch),
               ceilings_limit(&c, &each, s / k->nlaunch),
               k->first->kernel ? k->first->kernel->name : "copy",
               cli_printable(b->job->cli, k->first->name));
    }
}

// ---- JSON

static void put_string(Buf *out, const char *s)
{
    buf_putc(out, '"');
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\') buf_putc(out, '\\');
        if (c < ' ') buf_printf(out, "\\u%04x", c);
        else buf_putc(out, (char)c);
    }
    buf_putc(out, '"');
}

static void put_rates(const Bench *b, const Work *w, bool narrow, double seconds, Buf *out)
{
    Ceilings c = bench_ceilings(b, narrow);
    double s = seconds > 0 ? seconds : 1e-9;
    buf_printf(out, "\"gflops\": %.6g, \"gbytes_per_s\": %.6g, \"roofline\": %.4g, \"limit\": ",
               w->flops / s * 1e-9, w->bytes / s * 1e-9, ceilings_share(&c, w, s));
    put_string(out, ceilings_limit(&c, w, s));
}

static void put_kernels(const Bench *b, Buf *out)
{
    buf_puts(out, "\"kernels\": [");
    for (int i = 0; i < b->nkernel; i++) {
        const BenchKernel *k = &b->kernel[i];
        Work each = {k->work.flops / k->nlaunch, k->work.bytes / k->nlaunch};
        buf_puts(out, i ? ",\n  {\"name\": " : "\n  {\"name\": ");
        put_string(out, k->first->kernel ? k->first->kernel->name : "copy");
        buf_puts(out, ", \"node\": ");
        put_string(out, k->first->name);
        if (b->nsection > 1) buf_printf(out, ", \"section\": %d", k->section);
        buf_printf(out, ", \"launches\": %d, \"time_us\": %.6g, ", k->nlaunch, k->seconds * 1e6);
        put_rates(b, &each, k->narrow, k->seconds / k->nlaunch, out);
        buf_putc(out, '}');
    }
    buf_puts(out, "]");
}

// What an object has, without its braces.
static void put_members(const Bench *b, Buf *out)
{
    buf_puts(out, "\"model\": ");
    put_string(out, b->job->path);
    buf_puts(out, ", \"target\": ");
    put_string(out, b->target);
    buf_puts(out, ", \"precision\": ");
    put_string(out, b->precision);
    buf_printf(out, ",\n \"threads\": %d, \"batch\": %lld, \"runs\": %d,\n", b->threads,
               (long long)b->batch, b->nrun);
    buf_printf(out,
               " \"median_ms\": %.6g, \"min_ms\": %.6g, \"low_ms\": %.6g, \"high_ms\": %.6g, "
               "\"items_per_s\": %.6g,\n",
               b->median_s * 1e3, b->min_s * 1e3, b->low_s * 1e3, b->high_s * 1e3,
               (double)b->batch / b->median_s);
    if (b->host_s > 0) buf_printf(out, " \"host_us\": %.4g,\n", b->host_s * 1e6);
    buf_printf(out, " \"memory_bytes\": %lld, \"kernels_ms\": %.6g,\n ", (long long)b->memory_bytes,
               b->kernels_s * 1e3);
    put_kernels(b, out);
}

void bench_json(const Bench *b, int n, Arena *a, Buf *out)
{
    buf_init(out, a);
    buf_putc(out, '{');
    put_members(b, out);
    for (int i = 0; n > 1 && i < n; i++) {
        buf_puts(out, i ? ",\n{" : ",\n\"batches\": [{");
        put_members(&b[i], out);
        buf_puts(out, i == n - 1 ? "}]" : "}");
    }
    buf_puts(out, "}\n");
}

void bench_trace(const Bench *b, int n, Arena *a, Buf *out)
{
    buf_init(out, a);
    buf_puts(out, "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [");
    const char *comma = "";
    for (int i = 0; i < n; i++) {
        double at_us = 0;
        for (int k = 0; k < b[i].nstep; k++) {
            const BenchStep *s = &b[i].step[k];
            buf_printf(out, "%s\n{\"name\": ", comma);
            put_string(out, s->step->name);
            buf_printf(out,
                       ", \"ph\": \"X\", \"pid\": %d, \"tid\": 1, \"ts\": %.3f, \"dur\": %.3f, "
                       "\"args\": {\"kernel\": ",
                       i + 1, at_us, s->seconds * 1e6);
            put_string(out, s->step->kernel ? s->step->kernel->name : "copy");
            buf_puts(out, ", ");
            put_rates(&b[i], &s->work.work, s->work.narrow, s->seconds, out);
            buf_puts(out, "}}");
            at_us += s->seconds * 1e6;
            comma = ",";
        }
    }
    buf_puts(out, "]}\n");
}
