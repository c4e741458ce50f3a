// SPDX-License-Identifier: Apache-2.0
// One case: the model is compiled for its inputs, run on each set of data and compared. Where the
// graph asks for the elements of inputs that shapes depend on, the report says so.
#include "api/suite_case.h"

#include "api/section.h"
#include "api/test_data.h"
#include "base/os.h"
#include "frontends/onnx_import.h"
#include "judge/compare.h"

#include <math.h>
#include <string.h>

typedef struct Case {
    heald_context *context;
    Arena *arena;
    SuiteCase *k;
    double rtol, atol;
    Graph *graph;
    TestData data;
    const HostTensor **given; // (inputs, then defaults)
    ModelSection section;
} Case;

static bool fail(Case *c, const char *why)
{
    c->k->verdict = SUITE_FAILED;
    c->k->reason = why;
    return false;
}

static bool fail_diag(Case *c)
{
    Buf text;
    buf_init(&text, c->arena);
    diag_render(&c->context->diag, &text);
    return fail(c, text.size ? buf_text(&text) : "failed without a diagnostic");
}

static const char *shape(Case *c, DType type, int rank, const int64_t *dims)
{
    char text[256];
    return arena_strdup(c->arena, shape_format(text, sizeof text, type, rank, dims));
}

// ONNX's test data keeps bf16 as its bits, in u16.
static bool is_bits(DType type, const HostTensor *t)
{
    return type == DT_BF16 && t->dtype == DT_U16;
}

// The section for what the data gives.
static bool give_inputs(Case *c)
{
    const Graph *g = c->graph;
    bool more = false;
    c->given = NEW_ARRAY(c->arena, const HostTensor *, g->inputs.n + g->defaults.n);
    const char *why = test_data_place(c->arena, &c->data, g, c->given);
    if (why) return fail(c, why);
    bool *given = NEW_ARRAY(c->arena, bool, g->defaults.n);
    for (int i = 0; i < g->defaults.n; i++) more |= given[i] = c->given[g->inputs.n + i] != NULL;
    if (!more && c->section.graph == g) return true;
    model_section_free(&c->section);
    model_section_init(&c->section, c->context,
                       more ? graph_without_defaults(g, c->arena, given) : g);
    c->section.closed = true;
    for (int i = 0; i < c->section.graph->inputs.n; i++) // the data decides: some declare another
        c->section.graph->inputs.at[i]->rank = -1;
    return true;
}

// ---- running

static bool compare(Case *c, int output, const heald_tensor *got)
{
    const HostTensor *want = &c->data.output[output];
    const char *name = c->graph->outputs.at[output]->name;
    bool bits = is_bits(got->dtype, want);
    bool same = (bits || got->dtype == want->dtype) && got->rank == want->rank;
    for (int i = 0; same && i < got->rank; i++) same = got->dims[i] == want->dims[i];
    if (!same) {
        return fail(c, arena_printf(c->arena, "output '%s' is %s, wanted %s", name,
                                    shape(c, got->dtype, got->rank, got->dims),
                                    shape(c, want->dtype, want->rank, want->dims)));
    }
    Tolerance t = {c->rtol, c->atol, NULL};
    if (!dtype_is_float(want->dtype) && !bits) t = (Tolerance){0}; // the bits were once truncated
    double loose = precisions[c->context->precision].tolerance;
    if (loose > 0 && dtype_is_float(want->dtype)) {
        t.rtol = fmax(t.rtol, loose);
        t.atol = fmax(t.atol, loose * largest_magnitude(want->dtype, want->data, got->nelem));
    }
    Difference d = compare_close(bits ? DT_U16 : got->dtype, got->data, want->dtype, want->data,
                                 got->nelem, &t);
    if (!d.nbad) return true;
    return fail(c,
                arena_printf(c->arena,
                             "output '%s' %s: %lld of %lld elements differ, element %lld is %.9g, "
                             "wanted %.9g",
                             name, shape(c, got->dtype, got->rank, got->dims), (long long)d.nbad,
                             (long long)got->nelem, (long long)d.first, d.got, d.want));
}

static heald_status make_tensors(Case *c, heald_tensor **to)
{
    heald_status s = HEALD_OK;
    const GraphValues *inputs = &c->section.graph->inputs;
    int n = c->graph->inputs.n + c->graph->defaults.n;
    for (int i = 0, at = 0; i < n && !s; i++) {
        const HostTensor *t = c->given[i];
        if (!t) continue;
        DType type = is_bits(inputs->at[at]->type, t) ? DT_BF16 : t->dtype;
        s = heald_tensor_from_memory((heald_dtype)type, t->rank, t->dims, (void *)t->data, NULL,
                                     NULL, &to[at++]);
    }
    return s ? error_set(&c->context->error, s, "an input cannot be a tensor") : s;
}

static heald_status run_model(Case *c, heald_tensor **outputs)
{
    Error *e = &c->context->error;
    heald_tensor **inputs = NEW_ARRAY(c->arena, heald_tensor *, c->section.graph->inputs.n);
    ModelInstance *in;
    heald_status s = make_tensors(c, inputs);
    if (!s) s = model_section_instance(&c->section, inputs, &in);
    if (!s) s = model_section_load(&c->section, in);
    if (s) return s;
    if (*in->note) c->k->note = arena_printf(c->arena, "specialised on %s", in->note);
    return section_run_host(&c->section.base, inputs, outputs, e);
}

static bool run_set(Case *c, const char *folder)
{
    heald_context *x = c->context;
    const char *why = test_data_read(c->arena, folder, &c->data);
    if (why) return fail(c, why);
    if (!give_inputs(c)) return false;
    if (c->data.noutput != c->graph->outputs.n) return fail(c, "another number of outputs");
    heald_tensor **outputs = NEW_ARRAY(c->arena, heald_tensor *, c->graph->outputs.n);
    diag_clear(&x->diag);
    heald_status s = run_model(c, outputs);
    if (s == HEALD_DIAGNOSTIC) return fail_diag(c);
    if (s) return fail(c, arena_strdup(c->arena, x->error.text));
    for (int i = 0; i < c->graph->outputs.n; i++)
        if (!compare(c, i, outputs[i])) return false;
    return true;
}

// ---- the case

static void run_sets(Case *c)
{
    char **sets;
    int nset;
    const char *why = test_data_sets(c->arena, c->k->path, &sets, &nset);
    if (why || nset == 0) {
        fail(c, why ? why : "there is no test_data_set");
        return;
    }
    for (int i = 0; i < nset; i++)
        if (!run_set(c, sets[i])) return;
    c->k->verdict = SUITE_PASSED;
}

void suite_case_run(heald_context *context, Arena *a, double rtol, double atol, SuiteCase *k)
{
    Case c = {.context = context, .arena = a, .k = k, .rtol = rtol, .atol = atol};
    const char *path = path_join(a, k->path, "model.onnx");
    FileMap file;
    OnnxModel *m;
    k->op = k->reason = k->note = "";
    const char *why = file_map(a, path, &file);
    if (!why) why = onnx_model_parse(a, path, file.data, file.size, &m);
    if (why) {
        fail(&c, why);
        return;
    }
    k->op = suite_operator(m);
    k->reason = suite_out_of_scope(m);
    if (k->reason) {
        k->verdict = SUITE_SKIPPED;
        return;
    }
    test_data_tolerance(a, k->path, &c.rtol, &c.atol);
    c.graph = onnx_import(a, &context->library, context_ops(context), m, k->path, &context->diag);
    if (!c.graph) {
        fail_diag(&c);
        return;
    }
    run_sets(&c);
    model_section_free(&c.section);
}
