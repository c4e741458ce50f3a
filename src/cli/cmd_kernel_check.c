// SPDX-License-Identifier: Apache-2.0
// heald kernel check: what the interpreter computes is the measure for compiled code, bit by bit;
// the meaning of the op, in float64, is the measure for both.
#include "cli/kernel_job.h"
#include "ir/interp.h"
#include "judge/compare.h"
#include "judge/count.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct CheckCase {
    ScriptExtents extents;
    bool special; // NaN and infinity among the data
    bool omit;    // without optional parameters; only for kernels that have some
} CheckCase;

// Without --shape. The first dimensions of a signature change most from one case to the next.
// clang-format off
static const CheckCase check_cases[] = {
    // extents             packs: alone, beside  special  omit
    {{1, {1},              1, 0},                false,   false},
    {{1, {3},              2, 1},                false,   false},
    {{3, {17, 3, 5},       2, 0},                false,   false},
    {{3, {3, 127, 17},     3, 0},                false,   false},
    {{3, {127, 1, 17},     1, 1},                false,   false},
    {{3, {1, 17, 127},     2, 0},                false,   false},
    {{3, {0, 3, 5},        2, 0},                false,   false},
    {{3, {3, 0, 5},        2, 0},                false,   false},
    {{3, {3, 5, 0},        3, 0},                false,   false},
    {{3, {17, 3, 5},       2, 0},                true,    false},
    {{1, {3},              2, 1},                false,   true},
};
static const CheckCase given_cases[] = {
    {{4, {17, 3, 5, 13},   2, 0},                false,   false},
    {{4, {17, 3, 5, 13},   2, 0},                true,    false},
    {{4, {17, 3, 5, 13},   2, 0},                false,   true},
};
// clang-format on

typedef struct Check {
    KernelJob *job;
    Arena *arena; // of this case
    const ScriptKernel *kernel;
    const CheckCase *c;
    KernelData start; // inputs, and outputs unwritten
    KernelData want;  // after the interpreter
    bool failed, said;
    int ndone; // measures applied
} Check;

// The first complaint of a case is preceded by what the case is.
static void complain(Check *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void headline(const Check *c, const char *verdict)
{
    const ScriptKernel *k = c->kernel;
    progress_clear(c->job->cli);
    printf("%s (%s)%s%s: %s\n", k->decl->u.sym, k->extents,
           c->c->special ? " with NaN and infinity" : "",
           c->c->omit ? " without optional parameters" : "", verdict);
}

static void complain(Check *c, const char *fmt, ...)
{
    if (!c->said) headline(c, "FAILED");
    c->said = c->failed = true;
    va_list ap;
    va_start(ap, fmt);
    printf("    ");
    vprintf(fmt, ap);
    printf("\n");
    va_end(ap);
}

// "c[3, 4]" for an element in row-major order.
static const char *element(Arena *a, const ScriptParam *p, int64_t at)
{
    int64_t index[SCRIPT_MAX_RANK];
    for (int i = p->rank - 1; i >= 0; i--) {
        index[i] = at % p->dims[i];
        at /= p->dims[i];
    }
    Buf b;
    buf_init(&b, a);
    buf_printf(&b, "%s[", p->name);
    for (int i = 0; i < p->rank; i++) buf_printf(&b, "%s%lld", i ? ", " : "", (long long)index[i]);
    buf_putc(&b, ']');
    return buf_text(&b);
}

static KernelData copy_data(Check *c)
{
    KernelData d = kernel_data(c->arena, c->kernel);
    for (int i = 0; i < d.n; i++) memcpy(d.at[i], c->start.at[i], (size_t)d.bytes[i]);
    return d;
}

// Diagnostics of a run are what the check found, not errors of the command.
static void complain_diagnostics(Check *c, const char *what)
{
    Diag *d = &c->job->context->diag;
    complain(c, "%s:", what);
    Buf b;
    buf_init(&b, c->arena);
    diag_render(d, &b);
    fputs(buf_text(&b), stdout);
    diag_clear(d);
}

static void check_interpreter(Check *c)
{
    c->want = copy_data(c);
    InterpOptions o = {.check_races = true, .max_steps = c->job->max_steps};
    if (!interp_run(c->kernel->kernel, c->want.at, c->kernel->dims, &o, &c->job->context->diag))
        complain_diagnostics(c, "the interpreter reports");
    c->ndone++;
}

// Without an op to compare with: what differs where outputs begin with other bytes was not written.
static void check_written(Check *c)
{
    const ScriptKernel *k = c->kernel;
    if (k->op || c->failed) return;
    KernelData again = copy_data(c);
    for (int i = 0; i < again.n; i++)
        if (k->param[i].output) memset(again.at[i], 0, (size_t)again.bytes[i]);
    InterpOptions o = {.max_steps = c->job->max_steps};
    if (!interp_run(k->kernel, again.at, k->dims, &o, &c->job->context->diag))
        complain_diagnostics(c, "the interpreter reports");
    for (int i = 0; i < again.n && !c->failed; i++) {
        const ScriptParam *p = &k->param[i];
        int64_t size = (int64_t)dtype_size(p->type), bad = 0, first = -1;
        for (int64_t e = 0; p->output && e < again.nelem[i]; e++) {
            const char *x = (char *)again.at[i] + e * size, *y = (char *)c->want.at[i] + e * size;
            if (!memcmp(x, y, (size_t)size)) continue;
            if (first < 0) first = e;
            bad++;
        }
        if (bad)
            complain(c, "%s is not written; %lld of %lld elements are not",
                     element(c->arena, p, first), (long long)bad, (long long)again.nelem[i]);
    }
}

static heald_status check_compiled(Check *c)
{
    heald_context *ctx = c->job->context;
    const ScriptKernel *k = c->kernel;
    bool cpu = ctx->target.kind == TARGET_CPU && k->kernel->target.kind == TARGET_CPU;
    if (ctx->interpret || !cpu) return HEALD_OK;
    ScriptKernel lowered = *k;
    lowered.kernel = kernel_clone(c->arena, k->kernel);
    BuiltKernel *b;
    heald_status s = kernel_compile(c->job, &lowered, c->arena, &b);
    if (!s) s = context_device(ctx);
    if (s) return s;
    KernelData got = copy_data(c);
    s = launch_kernel(ctx->device, &b->runtime, got.at, k->dims, &ctx->error);
    kernel_release(b);
    if (s == HEALD_CHECK_FAILED) {
        complain(c, "compiled code: %s", ctx->error.text);
        return HEALD_OK;
    }
    for (int i = 0; i < got.n && !s; i++) {
        const ScriptParam *p = &k->param[i];
        int64_t first = 0;
        int64_t nbad = compare_bits(p->type, got.at[i], c->want.at[i], got.nelem[i], &first);
        if (nbad == 0) continue;
        size_t at = (size_t)first * dtype_size(p->type);
        complain(c,
                 "%s: compiled code gives %.9g, the interpreter %.9g; %lld of %lld elements differ",
                 element(c->arena, p, first), dtype_load_f64(p->type, (char *)got.at[i] + at),
                 dtype_load_f64(p->type, (char *)c->want.at[i] + at), (long long)nbad,
                 (long long)got.nelem[i]);
    }
    c->ndone++;
    return s;
}

// ---- the meaning

typedef struct Meaning {
    Kernel *kernel;
    bool as_f64;
    void **at;      // (kernel->params.n)
    int64_t *nelem; // likewise
} Meaning;

static heald_status make_meaning(Check *c, int result, Meaning *m)
{
    heald_context *ctx = c->job->context;
    const ScriptOptions *o = &c->job->options;
    int before = ctx->diag.nerror;
    m->as_f64 = true;
    m->kernel =
        script_meaning(c->kernel, c->arena, &ctx->library, &ctx->host, o, result, true, &ctx->diag);
    if (!m->kernel) { // types that are written out in the op: as they are
        if (before == 0) diag_clear(&ctx->diag);
        m->as_f64 = false;
        m->kernel = script_meaning(c->kernel, c->arena, &ctx->library, &ctx->host, o, result, false,
                                   &ctx->diag);
    }
    if (!m->kernel) return HEALD_DIAGNOSTIC;
    m->at = NEW_ARRAY(c->arena, void *, m->kernel->params.n);
    m->nelem = NEW_ARRAY(c->arena, int64_t, m->kernel->params.n);
    for (int i = 0; i < m->kernel->params.n; i++) {
        const Buffer *b = m->kernel->params.at[i];
        int64_t n = 1;
        for (int r = 0; r < b->rank; r++) n *= node_eval_dims(b->extent[r], m->kernel, NULL);
        m->nelem[i] = n;
        m->at[i] = arena_alloc(c->arena, (size_t)dtype_bytes(b->type, n));
    }
    return HEALD_OK;
}

// Computes the meaning of the inputs, or of their magnitudes.
static bool compute(Check *c, Meaning *m, bool magnitudes)
{
    for (int i = 0; i < m->kernel->params.n; i++) {
        const Buffer *b = m->kernel->params.at[i];
        if (b->output) continue;
        const ScriptParam *p = &c->kernel->param[i];
        for (int64_t k = 0; k < m->nelem[i]; k++) {
            const char *from = (char *)c->start.at[i] + (size_t)k * dtype_size(p->type);
            char *to = (char *)m->at[i] + (size_t)k * dtype_size(b->type);
            if (!dtype_is_float(p->type)) memcpy(to, from, dtype_size(p->type));
            else if (magnitudes) dtype_store_f64(b->type, to, fabs(dtype_load_f64(p->type, from)));
            else dtype_store_f64(b->type, to, dtype_load_f64(p->type, from));
        }
    }
    Diag *d = &c->job->context->diag;
    InterpOptions o = {.max_steps = c->job->max_steps};
    if (interp_run(m->kernel, m->at, NULL, &o, d)) return true;
    if (magnitudes) diag_clear(d); // only the tolerance is made of them
    else complain_diagnostics(c, "the meaning of the op cannot be computed");
    return false;
}

static double unit_roundoff(DType t)
{
    switch (t) {
    case DT_F16: return 0x1p-11;
    case DT_BF16: return 0x1p-8;
    case DT_F64: return 0x1p-53;
    default: return 0x1p-24;
    }
}

// Higham 2002, "Accuracy and Stability of Numerical Algorithms", ch. 3: a sum of n products errs by
// at most about n u times the same sum of magnitudes. What is no sum is measured at the largest
// magnitude of the result, with a few roundings more.
static double *error_bound(Check *c, Meaning *m, int out, DType type)
{
    DType acc = dtypes[type].acc;
    double u = unit_roundoff(acc == DT_NONE ? type : acc);
    double n = (double)m->nelem[out];
    double work = kernel_work(m->kernel, NULL).flops / (n > 0 ? n : 1);
    double largest = largest_magnitude(m->kernel->params.at[out]->type, m->at[out], m->nelem[out]);
    double *bound = NEW_ARRAY(c->arena, double, m->nelem[out]);
    Meaning size = *m;
    size.at = NEW_ARRAY(c->arena, void *, m->kernel->params.n);
    for (int i = 0; i < m->kernel->params.n; i++) {
        DType t = m->kernel->params.at[i]->type;
        size.at[i] = arena_alloc(c->arena, (size_t)dtype_bytes(t, m->nelem[i]));
    }
    bool known = compute(c, &size, true);
    for (int64_t i = 0; i < m->nelem[out]; i++) {
        DType t = m->kernel->params.at[out]->type;
        double s =
            known ? fabs(dtype_load_f64(t, (char *)size.at[out] + (size_t)i * dtype_size(t))) : 0;
        if (!isfinite(s)) s = 0;
        bound[i] = (work + 16) * u * (s > largest ? s : largest);
    }
    return bound;
}

static void compare_meaning(Check *c, Meaning *m, int out, int param)
{
    const ScriptParam *p = &c->kernel->param[param];
    DType want_type = m->kernel->params.at[out]->type;
    size_t want_size = dtype_size(want_type);
    bool real = dtype_is_float(p->type);
    Tolerance t = {.rtol = real ? 2 * unit_roundoff(p->type) : 0, .atol = real ? FLT_MIN : 0};
    if (real) t.extra = error_bound(c, m, out, p->type);
    for (int64_t i = 0; real && i < m->nelem[out]; i++) { // what overflows the type is infinite
        void *at = (char *)m->at[out] + (size_t)i * want_size;
        double v = dtype_load_f64(want_type, at);
        if (isinf(f64_round_to(p->type, v)))
            dtype_store_f64(want_type, at, v > 0 ? INFINITY : -INFINITY);
    }
    Difference d =
        compare_close(p->type, c->want.at[param], want_type, m->at[out], m->nelem[out], &t);
    cli_verbose(c->job->cli, "%s: largest error %.3g, relative %.3g", p->name, d.max_abs,
                d.max_rel);
    if (d.nbad == 0) return;
    complain(c, "%s is %.9g, the op '%s' means %.9g; %lld of %lld elements are too far off",
             element(c->arena, p, d.first), d.got, c->kernel->op->u.sym, d.want, (long long)d.nbad,
             (long long)m->nelem[out]);
}

static heald_status check_meaning(Check *c)
{
    if (!c->kernel->op) return HEALD_OK;
    int result = c->job->options.result;
    for (int i = 0; i < c->kernel->nparam; i++) {
        if (!c->kernel->param[i].output) continue;
        Meaning m;
        heald_status s = make_meaning(c, result, &m);
        if (s) return s;
        int out = m.kernel->params.n - 1; // a serial op gives all of its results
        if (c->kernel->op->sub == OP_SERIAL) out = i;
        if (compute(c, &m, false)) compare_meaning(c, &m, out, i);
        result++;
    }
    c->ndone++;
    return HEALD_OK;
}

// ---- cases

typedef struct Counts {
    int passed, failed, skipped;
    const char *why; // of the last one skipped
} Counts;

// Made for the extents of the options, which its op must accept too.
static ScriptKernel *instantiate_both(KernelJob *j, const Node *decl)
{
    heald_context *c = j->context;
    ScriptKernel *k = kernel_instantiate(j, decl, j->arena);
    if (!k || !k->op) return k;
    return script_meaning(k, j->arena, &c->library, &c->host, &j->options, 0, false, &c->diag)
               ? k
               : NULL;
}

// Where the extents are our choice, a kernel may not be made for them: with packs of another rank
// it may be. NULL with *why, or with diagnostics where the extents are the user's.
static ScriptKernel *instantiate(KernelJob *j, const Node *decl, const CheckCase *one,
                                 const char **why)
{
    Diag *d = &j->context->diag;
    *why = NULL;
    j->options.extents = one->extents;
    j->options.omit_optional = one->omit;
    for (;;) {
        ScriptKernel *k = instantiate_both(j, decl);
        if (k || j->options.shape.n) return k;
        if (!*why) *why = d->messages.n ? d->messages.at[0].text : "it cannot be instantiated";
        if (j->options.extents.rank_beside == 2) return NULL;
        j->options.extents.rank_beside = 2;
        diag_clear(d);
    }
}

static heald_status check_case(KernelJob *j, const Node *decl, const CheckCase *one, Counts *n)
{
    Check c = {.job = j, .arena = j->arena, .c = one};
    const char *why;
    ScriptKernel *k = instantiate(j, decl, one, &why);
    if (!k && !why) return HEALD_DIAGNOSTIC;
    if (!k) {
        progress_clear(j->cli);
        if (!n->why || strcmp(n->why, why)) printf("%s: a case skipped: %s\n", decl->u.sym, why);
        n->why = arena_strdup(j->arena, why);
        n->skipped++;
        return HEALD_OK;
    }
    c.kernel = k;
    c.start = kernel_data(c.arena, k);
    heald_status s = kernel_data_fill(j, k, &c.start, one->special);
    if (s) return s;
    check_interpreter(&c);
    check_written(&c);
    if (!c.failed) s = check_compiled(&c);
    if (!c.failed && !s) s = check_meaning(&c);
    if (s) return s;
    if (!c.failed) headline(&c, "passed");
    *(c.failed ? &n->failed : &n->passed) += 1;
    return HEALD_OK;
}

static bool has_optional(const Node *decl)
{
    const Node *params = decl->kid[decl->kind == N_OP ? KID_OP_params : KID_KERNEL_params];
    for (uint32_t i = 0; i < params->nkid; i++)
        if (params->kid[i]->sub & PARAM_OPTIONAL) return true;
    return false;
}

// A misspelt op would be no measure, silently.
static void warn_of_unknown_op(KernelJob *j, const Node *decl)
{
    const Node *clauses = decl->kind == N_KERNEL ? decl->kid[KID_KERNEL_clauses] : NULL;
    for (uint32_t i = 0; clauses && i < clauses->nkid; i++) {
        const Node *c = clauses->kid[i], *args = c->kid[KID_CLAUSE_args];
        for (uint32_t k = 0; !strcmp(c->u.sym, "implements") && k < args->nkid; k++) {
            Sym op = args->kid[k]->u.sym;
            if (!map_has(&j->context->library.ops, op))
                cli_warning(j->cli, "%s implements '%s', which is no op", decl->u.sym, op);
        }
    }
}

static heald_status check_kernel(KernelJob *j, const Node *decl, Counts *all)
{
    warn_of_unknown_op(j, decl);
    bool given = j->options.shape.n > 0;
    const CheckCase *cases = given ? given_cases : check_cases;
    int ncase = given ? (int)COUNT(given_cases) : (int)COUNT(check_cases);
    Counts n = {0};
    heald_status s = HEALD_OK;
    if (!has_optional(decl)) ncase--; // the last case is about those
    for (int i = 0; i < ncase && !s; i++) {
        progress_show(j->cli, i, ncase, decl->u.sym);
        s = check_case(j, decl, &cases[i], &n);
        progress_clear(j->cli);
        if (!s && i + 1 < ncase) diag_clear(&j->context->diag);
    }
    if (s) return s;
    if (n.skipped == ncase && j->kernels.n == 1) { // the last diagnostics are still there
        diag_note(&j->context->diag, decl->loc, "--shape and --attr say what it is made for");
        return HEALD_DIAGNOSTIC;
    }
    if (n.skipped == ncase)
        cli_warning(j->cli, "%s was checked in no case: %s; --shape and --attr say what it is for",
                    decl->u.sym, n.why);
    diag_clear(&j->context->diag);
    all->passed += n.passed;
    all->failed += n.failed;
    all->skipped += n.skipped;
    return HEALD_OK;
}

// An op that no kernel implements is checked by its meaning.
static void add_ops(KernelJob *j)
{
    for (uint32_t i = 0; i < j->file->nkid; i++) {
        const Node *n = j->file->kid[i];
        if (n->kind != N_OP || n->sub == OP_SERIAL) continue;
        if (!map_has(&j->context->library.implementers, n->u.sym))
            VEC_PUSH(j->arena, &j->kernels, n);
    }
}

static heald_status check_body(KernelJob *j)
{
    Counts n = {0};
    if (!cli_has(j->cli, OPT_KERNEL)) add_ops(j);
    if (j->kernels.n == 0)
        cli_warning(j->cli, "%s has no kernel, and no op to check by its meaning",
                    j->cli->operand[0]);
    for (int i = 0; i < j->kernels.n; i++) {
        const Node *decl = j->kernels.at[i];
        int nresult = decl->kind == N_OP ? (int)decl->kid[KID_OP_results]->nkid : 1;
        for (int r = 0; r < nresult; r++) {
            j->options.result = r;
            heald_status s = check_kernel(j, decl, &n);
            if (s) return s;
        }
    }
    printf("%d passed, %d failed", n.passed, n.failed);
    if (n.skipped) printf(", %d skipped", n.skipped);
    printf("\n");
    j->failed_check = n.failed > 0;
    return HEALD_OK;
}

int cmd_kernel_check(Cli *c)
{
    return kernel_command(c, PICK_ALL, &check_cases[0].extents, check_body);
}
