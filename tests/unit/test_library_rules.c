// SPDX-License-Identifier: Apache-2.0
// The library's rules on small graphs: where they apply, what they leave alone, and that what they
// make computes the same, node by node through the interpreter.
#include "graph/private.h"

#include "graph/model.h"
#include "ir/interp.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

typedef struct Case {
    const char *params, *body; // of a graph with the result y; parameters called w... are constants
    const char *want;          // its ops after the rules, in order
    bool special;              // data has NaN, infinities and -0
    const char *device;        // whose templates count, as "sm_90a"; NULL: this processor
} Case;

typedef struct World {
    Arena arena;
    Sources sources;
    Diag diag;
    Library library;
    Target host, device;
    Graph *source;
} World;

enum { MAX_INPUT = 8 };

static void open_world(World *w, const Case *c)
{
    memset(w, 0, sizeof *w);
    w->sources.arena = &w->arena;
    diag_init(&w->diag, &w->arena, &w->sources);
    library_init(&w->library, &w->arena, interner_new(&w->arena), &w->sources);
    target_host(&w->host);
    w->device = w->host;
    if (c->device) assert_true(target_cuda(&w->device, c->device));
    assert_true(ops_load(&w->library, NULL, &w->diag));
    Buf text;
    buf_init(&text, &w->arena);
    buf_printf(&text, "graph g(%s) -> (y) { %s }\n", c->params, c->body);
    Source *s = sources_add(&w->sources, "case.hd", text.text, text.size);
    Node *f = parse_file(&w->arena, w->library.names, s, &w->diag);
    assert_non_null(f);
    assert_true(library_add(&w->library, f, &w->diag));
    OpTable *ops = op_table_new(&w->arena, &w->library);
    const Node *decl = map_get(&w->library.graphs, intern(w->library.names, "g"));
    w->source = graph_from_text(&w->arena, &w->library, ops, &w->host, decl, &w->diag);
}

static const char *rendered(World *w)
{
    Buf b;
    buf_init(&b, &w->arena);
    diag_render(&w->diag, &b);
    return buf_text(&b);
}

static void *some_data(World *w, const GraphValue *v, uint64_t *state, bool special)
{
    static const double odd[] = {NAN, INFINITY, -INFINITY, -0.0, 0.0};
    int64_t n = graph_value_nelem(v);
    char *data = arena_alloc(&w->arena, (size_t)n * 16 + 16);
    for (int64_t i = 0; i < n; i++) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        double x = (double)(int64_t)(*state >> 33) / 1073741824.0 - 1; // -1 .. 1
        x = dtype_is_float(v->type) ? 4 * x : floor(3 * fabs(x));
        if (v->type == DT_BOOL) x = x > 1;
        if (special && dtype_is_float(v->type) && i < (int64_t)COUNT(odd)) x = odd[i];
        dtype_store_f64(v->type, data + (size_t)i * dtype_size(v->type), x);
    }
    return data;
}

static Graph *specialised(World *w, bool rules, const void **data)
{
    int64_t dims[MAX_INPUT][GRAPH_MAX_RANK];
    const int64_t *dim_list[MAX_INPUT];
    const void *known[MAX_INPUT] = {0};
    int rank[MAX_INPUT], saved = w->library.rules.n;
    const GraphValues *in = &w->source->inputs;
    assert_true(in->n <= MAX_INPUT);
    for (int i = 0; i < in->n; i++) {
        graph_value_dims(in->at[i], dims[i]);
        dim_list[i] = dims[i];
        rank[i] = in->at[i]->rank;
        if (in->at[i]->name[0] == 'w') known[i] = data[i];
    }
    if (!rules) w->library.rules.n = 0;
    Specialisation s = {.dims = dim_list, .rank = rank, .data = known, .device = &w->device};
    Graph *g = graph_specialise(w->source, &w->arena, &s, &w->host, &w->diag);
    w->library.rules.n = saved;
    if (!g) fail_msg("%s", rendered(w));
    return g;
}

// Result o of the node from the data of its operands; at: by value id.
static void evaluate(World *w, const Graph *g, const GraphNode *node, int o, const void **at)
{
    const GraphValue *y = node->output[o];
    if (!y) return;
    Kernel *k = node_kernel(g, node, o, &w->arena, &w->host, &w->diag);
    if (!k) fail_msg("%s", rendered(w));
    void *params[MAX_INPUT + 1];
    int count = 0;
    for (int p = 0; p < node->ninput; p++) {
        bool first = node->input[p] != NULL;
        for (int q = 0; q < p && first; q++) first = node->input[q] != node->input[p];
        if (first) params[count++] = (void *)at[node->input[p]->id];
    }
    void *result = arena_alloc(&w->arena, (size_t)graph_value_bytes(y) + 16);
    params[count++] = result;
    assert_int_equal(count, k->params.n);
    if (!interp_run(k, params, NULL, &(InterpOptions){0}, &w->diag)) fail_msg("%s", rendered(w));
    at[y->id] = result;
}

// The graph's only result, in f64.
static const double *evaluated(World *w, const Graph *g, const void **data, int64_t *n)
{
    const void **at = NEW_ARRAY(&w->arena, const void *, g->values.n);
    for (int i = 0; i < g->values.n; i++) at[i] = g->values.at[i]->data;
    for (int i = 0; i < g->inputs.n; i++)
        if (!at[g->inputs.at[i]->id]) at[g->inputs.at[i]->id] = data[i];
    for (int i = 0; i < g->nodes.n; i++)
        for (int o = 0; o < g->nodes.at[i]->noutput; o++) evaluate(w, g, g->nodes.at[i], o, at);
    const GraphValue *y = g->outputs.at[0];
    *n = graph_value_nelem(y);
    double *out = NEW_ARRAY(&w->arena, double, *n);
    for (int64_t i = 0; i < *n; i++)
        out[i] = dtype_load_f64(y->type, (const char *)at[y->id] + (size_t)i * dtype_size(y->type));
    return out;
}

static void run_case(const Case *c)
{
    World w;
    open_world(&w, c);
    if (!w.source) fail_msg("%s", rendered(&w));
    const void *data[MAX_INPUT];
    uint64_t state = 11;
    for (int i = 0; i < w.source->inputs.n; i++)
        data[i] = some_data(&w, w.source->inputs.at[i], &state, c->special);
    Graph *plain = specialised(&w, false, data), *ruled = specialised(&w, true, data);
    Buf b;
    buf_init(&b, &w.arena);
    for (int i = 0; i < ruled->nodes.n; i++) {
        const GraphNode *node = ruled->nodes.at[i];
        const Value *causal = map_get(&node->attrs, intern(w.library.names, "causal"));
        buf_printf(&b, "%s%s%s", i ? " " : "", causal && causal->u.i ? "causal " : "",
                   node->op->decl->u.sym);
    }
    if (strcmp(buf_text(&b), c->want))
        fail_msg("%s\n  wanted: %s\n  have:   %s", c->body, c->want, buf_text(&b));
    int64_t n, m;
    double tolerance =
        plain->outputs.at[0]->type == DT_F16 ? 3e-2 : 1e-5; // of intermediate results
    const double *x = evaluated(&w, plain, data, &n), *y = evaluated(&w, ruled, data, &m);
    assert_int_equal(n, m);
    for (int64_t i = 0; i < n; i++) {
        bool same = (isnan(x[i]) && isnan(y[i])) || x[i] == y[i] ||
                    fabs(x[i] - y[i]) <= tolerance * (1 + fabs(x[i]));
        if (!same) fail_msg("%s: element %d is %g, was %g", c->body, (int)i, y[i], x[i]);
    }
    arena_free(&w.arena);
}

#define RUN(list) \
    for (size_t i = 0; i < COUNT(list); i++) run_case(&list[i])

#define X "x: f32[3, 8]"

static void test_activations(void **state)
{
    static const Case cases[] = {
        {X, "y = x * (0.5 * (erf(x / 1.41421356) + 1));", "gelu", false, NULL},
        {X, "y = 0.5 * ((1 + erf(0.70710678 * x)) * x);", "gelu", false, NULL},
        {X, "y = (erf(x / 1.41421356) * 0.5 + 0.5) * x;", "gelu", false, NULL},
        {X, "y = (x * 0.5) * (tanh((x ** 3 * 0.044715 + x) * 0.79788456) + 1);", "gelu", false,
         NULL},
        {X, "y = 0.5 * x * (1 + tanh(0.79788456 * (x + 0.044715 * (x * (x * x)))));", "gelu", false,
         NULL},
        {X, "y = 0.5 * (x * (1 + tanh(x * 0.79788456 * (1 + 0.044715 * x * x))));", "gelu", false,
         NULL},
        {X, "y = x * (0.5 * (1 + tanh(x * (0.79788456 + 0.03567741 * (x * x)))));", "gelu", false,
         NULL},
        {X, "y = 1 / (exp(-x) + 1);", "sigmoid", true, NULL},
        {X, "y = sigmoid(x) * x;", "swish", true, NULL},
        {X, "y = x / (1 + exp(-x));", "swish", false, NULL},
        {X, "y = x * sigmoid(1.702 * x);", "swish", true, NULL},
        {X, "y = tanh(log(exp(x) + 1)) * x;", "mish", false, NULL},
        {X, "y = x * (clip(x + 3, 0, 6) / 6);", "hard_swish", true, NULL},
        {X, "y = (x * clip(3 + x, 0, 6)) / 6;", "hard_swish", true, NULL},
        {X, "y = 0.16666667 * (clip(x + 3, 0, 6) * x);", "hard_swish", true, NULL},
        {X, "y = clip(x + 3, 0, 6) / 6;", "hard_sigmoid", true, NULL},
        {X, "y = hard_sigmoid(x; alpha = 0.16666667, beta = 0.5) * x;", "hard_swish", true, NULL},
        // near misses
        {"x: i32[9]", "y = x * clip(x + 3, 0, 6) / 6;", "add clip mul div", false, NULL},
        {"x: i32[9]", "y = clip(x + 3, 0, 6) / 6;", "add clip div", false, NULL},
        {"x: i32[9]", "y = x ** 2;", "pow", false, NULL},
        {X, "y = 0.5 * x * (1 + erf(x / 1.5));", "mul div erf add mul", true, NULL},
        {X, "y = 0.6 * x * (1 + erf(x / 1.41421356));", "mul div erf add mul", true, NULL},
        {X ", z: f32[3, 8]", "y = x * sigmoid(z);", "sigmoid mul", true, NULL},
        {X, "let s = sigmoid(x); y = x * s + s;", "sigmoid mul add", true, NULL},
        {X, "y = x * clip(x + 3, 0, 7) / 6;", "add clip mul div", true, NULL},
        {X, "y = x * clip(x - 3, 0, 6) / 6;", "sub clip mul div", true, NULL},
        {X ", w: f32[1, 1, 1]", "y = x * (w - w + 1);", "mul", true, NULL},
    };
    (void)state;
    RUN(cases);
}

static void test_identities(void **state)
{
    static const Case cases[] = {
        {X, "y = relu(x * 1);", "relu", true, NULL},
        {X, "y = relu(1 * x / 1);", "relu", true, NULL},
        {X, "y = relu(x ** 1);", "relu", true, NULL},
        {"x: i32[5]", "y = abs(x + 0);", "abs", false, NULL},
        {"x: i32[5]", "y = abs(x - 0);", "abs", false, NULL},
        {"x: i32[3, 8], w: i32[8], w2: i32[8]", "y = abs((w + x) + w2 + 5);", "add abs", true,
         NULL},
        {"x: i32[3, 8], w: i32[3, 1], w2: i32[]", "y = abs(x * w2 * (w - 1));", "mul abs", true,
         NULL},
        {"x: i32[3, 8], w: i32[8], w2: i32[3, 8]", "y = abs(x + w + w2);", "add add abs", true,
         NULL},
        {X ", w: f32[8], w2: f32[8]", "y = abs(x + w + w2);", "add add abs", true, NULL},
        {X, "y = relu(-(-x));", "relu", true, NULL},
        {X, "y = relu(relu(x));", "relu", true, NULL},
        {"x: f16[7]", "y = relu(cast(cast(x; to = f32); to = f16));", "relu", true, NULL},
        {"x: i16[7]", "y = cast(cast(x; to = i64); to = f32);", "cast", false, NULL},
        {"x: u8[7]", "y = cast(cast(x; to = f16); to = f32);", "cast", false, NULL},
        {X, "y = relu(reshape(reshape(x; shape = (2, -1)); shape = (3, 8)));", "relu", true, NULL},
        {X, "y = relu(slice(x; starts = (0, 0), ends = (100, 8)));", "relu", true, NULL},
        {X, "y = relu(pad(x; pads = (0, 0, 0, 0)));", "relu", true, NULL},
        {X, "y = relu(expand(x; shape = (1, 8)));", "relu", true, NULL},
        {X, "y = relu(concat(x; axis = 1));", "relu", true, NULL},
        {X, "y = relu(x) * relu(x) + exp(x) * exp(x + 0);", "relu mul exp add exp mul add", true,
         NULL},
        // near misses
        {X, "y = relu(x + 0);", "add relu", true, NULL},
        {X, "y = relu(x * 1.0001);", "mul relu", true, NULL},
        {"x: f32[8], w: f32[1, 1]", "y = relu(x * (w - w + 1));", "mul relu", true, NULL},
        {"x: f32[7]", "y = relu(cast(cast(x; to = f16); to = f32));", "cast cast relu", true, NULL},
        {"x: i32[7]", "y = cast(cast(x; to = f32); to = f64);", "cast cast", false, NULL},
        {"x: i8[7]", "y = cast(cast(x; to = u32); to = i64);", "cast cast", false, NULL},
        {X, "y = relu(slice(x; starts = (-1,), ends = (-100,), steps = (-1,)));", "slice relu",
         true, NULL},
        {X, "y = relu(pad(x; pads = (1, 0, -1, 0)));", "pad relu", true, NULL},
        {X, "y = relu(slice(concat(x, x; axis = 0); starts = (0,), ends = (3,)));",
         "concat slice relu", true, NULL},
    };
    (void)state;
    RUN(cases);
}

static void test_moves(void **state)
{
    static const Case cases[] = {
        {"x: f32[2, 3, 4]",
         "y = relu(transpose(transpose(x; perm = (0, 2, 1)); perm = (0, 2, 1)));", "relu", true,
         NULL},
        {"x: f32[2, 3, 4]", "y = transpose(transpose(x; perm = (1, 2, 0)); perm = (0, 2, 1));",
         "transpose", true, NULL},
        {"x: f32[2, 3, 4]", "y = transpose(transpose(x));", "reshape", true, NULL},
        {"x: f32[2, 4, 9, 1], w: f32[6, 2, 3, 1]", "y = conv(x, w; group = 2);",
         "reshape conv reshape", false, NULL},
        {"x: f32[2, 4, 9, 1], w: f32[6, 4, 3, 1], w2: f32[6]", "y = conv(x, w, w2);",
         "reshape conv reshape", false, NULL},
        {"x: f32[2, 4, 9, 1], w: f32[6, 4, 3, 1]", "y = conv(x, w; strides = (2, 1));", "conv",
         false, NULL},
        {"x: f32[2, 1, 4]", "y = relu(transpose(x; perm = (1, 0, 2)));", "reshape relu", true,
         NULL},
        {"x: f32[2, 3, 4]", "y = relu(squeeze(unsqueeze(flatten(x); axes = (0,)); axes = (0,)));",
         "reshape relu", true, NULL},
        {"x: f32[2, 3, 4]",
         "let t = transpose(x; perm = (0, 2, 1)); y = relu(transpose(t; perm = (2, 1, 0))) + "
         "relu(reshape(t; shape = (3, 4, 2)));",
         "transpose transpose relu reshape relu add", true, NULL},
        {"x: f32[5, 24]",
         "y = relu(reshape(slice(x; starts = (8,), ends = (16,), axes = (-1,)); shape = (1, 5, 2, "
         "4)));",
         "reshape slice relu", true, NULL},
        {"x: f32[6, 9]",
         "y = relu(slice(slice(x; starts = (1, 2), ends = (6, 9)); starts = (-4,), ends = (3,), "
         "axes = (1,)));",
         "slice relu", true, NULL},
        {"x: f32[5, 24]",
         "(a, b, c) = split(x; axis = -1, split = (8, 8, 8), num_outputs = 3);"
         "y = relu(reshape(a; shape = (5, 2, 4)) + reshape(c; shape = (5, 2, 4)));",
         "reshape slice slice add relu", true, NULL},
        {"x: f32[80, 3]", "y = relu(split_part(x; num_outputs = 32, part = 31));", "slice relu",
         true, NULL},
        {"x: f32[3, 80]", "y = relu(split_part(x; axis = -1, num_outputs = 33, part = 32));",
         "part_at relu", true, NULL},
        {"x: u8[3, 9000]",
         "y = cast(split_part(x; axis = 1, split = concat(fill(34, 257), (262,)), num_outputs = 35,"
         " part = 34); to = f32);",
         "part_at cast", true, NULL},
        {"x: f32[7, 3]", "(a, b) = split(x; num_outputs = 2); y = concat(relu(b), a; axis = 0);",
         "slice slice relu concat", true, NULL},
        {"x: f32[6, 8], w: f32[2, 4]", "y = relu(reshape(x; shape = (2, 3, 2, 4)) + w);",
         "add reshape relu", true, NULL},
    };
    (void)state;
    RUN(cases);
}

// Around chains of nodes that treat each element alike.
static void test_transposes(void **state)
{
    static const Case cases[] = {
        {"x: f32[2, 3, 4], w: f32[3]",
         "y = exp(transpose(transpose(x; perm = (0, 2, 1)) + w; perm = (0, 2, 1)));", "add exp",
         true, NULL},
        {"x: f32[2, 3, 4]",
         "y = transpose(clip(transpose(x; perm = (1, 0, 2)), -1, 1); perm = (0, 2, 1));",
         "transpose clip", true, NULL},
        {"x: f32[2, 3, 4], w: f32[3], w2: f32[4, 3]",
         "let t = transpose(x; perm = (0, 2, 1)); let u = (relu(t + w) * w2) / 6; "
         "y = exp(transpose(u * sigmoid(u); perm = (0, 2, 1)));",
         "add relu mul div swish exp", true, NULL},
        {"x: f32[2, 3, 4], z: f32[2, 3, 4]",
         "y = transpose(tanh(transpose(x; perm = (2, 0, 1))) + abs(transpose(z; perm = (2, 0, "
         "1))); "
         "perm = (1, 2, 0));",
         "tanh abs add", true, NULL},
        {"x: f32[2, 3, 4], z: f32[2, 3, 4]",
         "y = relu(transpose(transpose(x; perm = (0, 2, 1)) * transpose(z; perm = (0, 2, 1)) + 1; "
         "perm = (2, 0, 1)));",
         "transpose transpose mul add relu", true, NULL},
        {"x: f32[2, 3, 4], z: f32[2, 1, 3]",
         "y = exp(transpose(relu(transpose(x; perm = (0, 2, 1))) * sigmoid(z); perm = (0, 2, 1)));",
         "reshape relu sigmoid mul exp", true, NULL},
        // near misses
        {"x: f32[2, 3, 4], z: f32[2, 4, 3]",
         "y = relu(transpose(transpose(x; perm = (0, 2, 1)) + z; perm = (1, 0, 2)));",
         "transpose add transpose relu", true, NULL},
        {"x: f32[2, 3, 4]",
         "y = relu(transpose(softmax(transpose(x; perm = (0, 2, 1))); perm = (0, 2, 1)));",
         "transpose softmax transpose relu", true, NULL},
        {"x: f32[2, 3, 4]",
         "let r = relu(transpose(x; perm = (0, 2, 1))); y = transpose(r; perm = (0, 2, 1)) + "
         "reduce_max(r);",
         "transpose relu transpose reduce_max add", true, NULL},
        {"x: f32[6, 8], w: f32[3, 8]", "y = relu(reshape(x; shape = (2, 3, 8)) + w);",
         "reshape add relu", true, NULL},
        {"x: f32[6, 8], w: f32[8, 1]", "y = relu(reshape(x; shape = (6, 8, 1)) + w);",
         "add reshape relu", true, NULL},
        {"x: f32[1, 8], w: f32[8, 8]", "y = relu(reshape(x; shape = (1, 8)) + w);", "add relu",
         true, NULL},
        {"x: f32[2, 3, 4]", "y = relu(transpose(x; perm = (0, 2, 1)));", "transpose relu", true,
         NULL},
        {"x: f32[5, 24]",
         "y = relu(reshape(slice(x; starts = (7,), ends = (15,), axes = (-1,)); shape = (1, 5, 2, "
         "4)));",
         "slice reshape relu", true, NULL},
        {"x: f32[6, 9]",
         "y = relu(slice(slice(x; starts = (8,), ends = (0,), axes = (1,), steps = (-2,)); starts "
         "= (1,), ends = (3,), axes = (1,)));",
         "slice slice relu", true, NULL},
    };
    (void)state;
    RUN(cases);
}

#define MEAN(e) "reduce_mean(" e "; axes = (-1,))"

static void test_norms(void **state)
{
    static const Case cases[] = {
        {X, "let e = exp(x - reduce_max(x; axes = (1,))); y = e / reduce_sum(e; axes = (1,));",
         "softmax", false, NULL},
        {X,
         "let e = exp(x - reduce_max(x; axes = (0,))); y = (1 / reduce_sum(e; axes = (0,))) * e;",
         "softmax", false, NULL},
        {X, "let d = x - reduce_max(x; axes = (1,)); y = d - log(reduce_sum(exp(d); axes = (1,)));",
         "log_softmax", false, NULL},
        {X, "y = softmax_from(x; axis = -1);", "softmax", false, NULL},
        {X ", wg: f32[8], wb: f32[8]",
         "let d = x - " MEAN("x") "; y = d / sqrt(" MEAN("d ** 2") " + 1e-5) * wg + wb;",
         "layer_norm", false, NULL},
        {X ", wg: f32[8], wb: f32[1, 8]",
         "let d = x - " MEAN("x") "; y = wb + wg * (reciprocal(sqrt(1e-5 + " MEAN(
             "d * d") ")) * d);",
         "layer_norm", false, NULL},
        {X ", wg: f32[8], wb: f32[8]",
         "let m = " MEAN("x") "; let d = x - m; let k = reciprocal(sqrt(" MEAN(
             "d * d") " + 1e-3)) * wg; y = x * k + (wb - m * k);",
         "layer_norm", false, NULL},
        {X, "let d = x - " MEAN("x") "; y = d / sqrt(" MEAN("d * d") " + 1e-5);", "layer_norm",
         false, NULL},
        {X ", wg: f32[8]", "y = x * (1 / sqrt(" MEAN("x ** 2") " + 1e-6)) * wg;", "rms_norm", false,
         NULL},
        {X ", wg: f32[8]", "y = wg * (x / sqrt(" MEAN("x * x") " + 1e-6));", "rms_norm", false,
         NULL},
        // near misses: another axis, another operand, another reader, a scale for each row
        {X, "let e = exp(x - reduce_max(x; axes = (1,))); y = e / reduce_sum(e; axes = (0,));",
         "reduce_max sub exp reduce_sum div", false, NULL},
        {X, "let e = exp(x - reduce_max(x; axes = (1,))); y = e / reduce_sum(e; axes = (1,)) + e;",
         "reduce_max sub exp reduce_sum div add", false, NULL},
        {X,
         "let d = x - reduce_mean(x; axes = (0,)); y = d / sqrt(reduce_mean(d * d; axes = (0,)) + "
         "1e-5);",
         "reduce_mean sub mul reduce_mean add sqrt div", false, NULL},
        {X ", wg: f32[3, 1]", "y = x / sqrt(" MEAN("x * x") " + 1e-6) * wg;", "rms_norm mul", false,
         NULL},
        {X ", z: f32[3, 8]", "y = z / sqrt(" MEAN("x * x") " + 1e-6);",
         "mul reduce_mean add sqrt div", false, NULL},
    };
    (void)state;
    RUN(cases);
}

#define QKV                                                                                      \
    "x: f32[2, 5, 6], wa: f32[6, 8], wb: f32[6, 8], wc: f32[6, 4], wu: f32[8], wv: f32[8], wt: " \
    "f32[4]"
#define HEADS(e) "reshape(" e "; shape = (2, 5, -1, 4))"

static void test_products(void **state)
{
    static const Case cases[] = {
        {QKV,
         "y = concat(" HEADS("matmul(x, wa) + wu") ", " HEADS("wv + matmul(x, wb)") ", " HEADS(
             "matmul(x, wc) + wt") "; axis = 2);",
         "matmul add reshape slice slice slice concat", false, NULL},
        {QKV, "y = concat(" HEADS("matmul(x, wa)") ", " HEADS("matmul(x, wc)") "; axis = 2);",
         "matmul reshape slice slice concat", false, NULL},
        {"x: f32[6, 4], wa: f32[4, 8], wb: f32[8], z: f32[2, 3, 8]",
         "y = gelu(reshape(matmul(x, wa) + wb; shape = (2, 3, 8))) + z;",
         "matmul add gelu reshape add", false, NULL},
        {"x: f32[6, 4], wa: f32[4, 8], wb: f32[8], z: f32[2, 3, 8]",
         "y = relu(z + (reshape(matmul(x, wa); shape = (2, 3, 8)) + wb));",
         "matmul add reshape add reshape relu", false, NULL},
        // near misses: computed on at once, other operands
        {"x: f32[6, 4], wa: f32[4, 8], wb: f32[8], z: f32[5, 2, 3, 8]",
         "y = z + reshape(matmul(x, wa) + wb; shape = (2, 3, 8));", "matmul add reshape add", false,
         NULL},
        {QKV, "y = relu(matmul(x, wa)) + matmul(x, wb);", "matmul relu matmul add", false, NULL},
        {"x: f32[2, 6], z: f32[2, 6], wa: f32[6, 4], wb: f32[6, 4]",
         "y = concat(matmul(x, wa), matmul(z, wb));", "matmul matmul concat", false, NULL},
        {"x: f32[2, 6], u: f32[6, 4], v: f32[6, 4]", "y = concat(matmul(x, u), matmul(x, v));",
         "matmul matmul concat", false, NULL},
    };
    (void)state;
    RUN(cases);
}

#define HALF "q: f16[2, 4, 5, 8], k: f16[2, 4, 7, 8], v: f16[2, 4, 7, 6]"
#define SCORES "matmul(q, transpose(k; perm = (0, 1, 3, 2)))"
#define ON "sm_90a"

static void test_attention(void **state)
{
    static const Case cases[] = {
        {HALF, "y = matmul(softmax(" SCORES "), v);", "attention", false, ON},
        {HALF, "y = matmul(softmax(" SCORES " / 8), v);", "attention", false, ON},
        {HALF ", m: f16[2, 1, 1, 7]", "y = matmul(softmax(m + 0.125 * " SCORES "; axis = 3), v);",
         "attention", false, ON},
        {HALF, "y = matmul(softmax(matmul(q * 0.5, transpose(k; perm = (0, 1, 3, 2)) * 0.5)), v);",
         "attention", false, ON},
        {HALF ", c: bool[2, 1, 5, 7]",
         "y = matmul(softmax(where(c, " SCORES " * 0.125, -1e9)), v);", "where attention", false,
         ON},
        {"q: f16[2, 4, 5, 8], k: f16[2, 2, 7, 8], v: f16[2, 2, 7, 6], m: f16[5, 7]",
         "let a = reshape(expand(unsqueeze(k; axes = (2,)); shape = (2, 2, 2, 7, 8)); shape = (2, "
         "4, 7, 8));"
         "let b = reshape(expand(unsqueeze(v; axes = (2,)); shape = (2, 2, 2, 7, 6)); shape = (2, "
         "4, 7, 6));"
         "y = matmul(softmax(matmul(q, transpose(a; perm = (0, 1, 3, 2))) / 2.5 + m), b);",
         "attention", false, ON},
        {HALF, "y = onnx_attention(q, k, v);", "attention", false, ON},
        {HALF, "y = matmul(softmax(matmul(q / 4, transpose(k; perm = (0, 1, 3, 2)))), v);",
         "attention", false, ON},
        {HALF ", w: f16[5, 7]",
         "let i = reshape(range_whole(; start = 0, limit = 7, delta = 1); shape = (1, 7));"
         "let j = reshape(range_whole(; start = 2, limit = 7, delta = 1); shape = (5, 1));"
         "y = matmul(softmax(" SCORES " * 0.5 + where(greater(i, j), -1e9, w - w)), v);",
         "causal attention", false, ON},
        // near misses: another axis, a mask that makes the result larger, other readers, no
        // template
        {HALF ", c: bool[2, 1, 5, 7]", "y = matmul(softmax(where(c, " SCORES ", -50)), v);",
         "transpose matmul where softmax matmul", false, ON},
        {HALF, "y = matmul(softmax(" SCORES "; axis = 2), v);", "transpose matmul softmax matmul",
         false, ON},
        {HALF ", m: f16[3, 1, 1, 1, 1]", "y = matmul(softmax(" SCORES " + m), v);",
         "transpose matmul add softmax matmul", false, ON},
        {HALF, "let p = softmax(" SCORES "); y = matmul(p, v) + reduce_sum(p; axes = (3,));",
         "transpose matmul softmax matmul reduce_sum add", false, ON},
        {HALF, "y = matmul(softmax(" SCORES "), v);", "transpose matmul softmax matmul", false,
         NULL},
        {"q: f32[1, 2, 3, 260], k: f32[1, 2, 4, 260], v: f32[1, 2, 4, 6]",
         "y = matmul(softmax(" SCORES "), v);", "transpose matmul softmax matmul", false, ON},
        {"q: f32[2, 4, 5, 8], k: f32[2, 4, 7, 8], v: f32[2, 4, 7, 6]",
         "y = onnx_attention(q, k, v);", "transpose matmul mul softmax matmul", false, NULL},
    };
    (void)state;
    RUN(cases);
}

static void test_signals(void **state)
{
    (void)state;
    static const Case cases[] = {
        {"x: f32[2, 144, 2]", "y = dft(x);", "dft_of_each dft_of_all", false, NULL},
        {"x: f32[150, 2, 1]", "y = dft_20(x; axis = -3, onesided = true);",
         "dft_of_each dft_of_all", false, NULL},
        {"x: f64[2, 100, 2]", "y = dft(x; dft_length = 130, inverse = true);",
         "dft_of_each dft_of_all", false, NULL},
        {"x: f32[2, 200, 1]", "y = dft_20(x; dft_length = 128);", "dft_of_each dft_of_all", false,
         NULL},
        {"x: f32[2, 131, 1]", "y = dft(x);", "dft", false, NULL},
        {"x: f32[2, 64, 1]", "y = dft(x);", "dft", false, NULL},
    };
    RUN(cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_activations), cmocka_unit_test(test_identities),
        cmocka_unit_test(test_moves),       cmocka_unit_test(test_transposes),
        cmocka_unit_test(test_norms),       cmocka_unit_test(test_products),
        cmocka_unit_test(test_attention),   cmocka_unit_test(test_signals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
