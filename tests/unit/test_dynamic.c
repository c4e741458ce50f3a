// SPDX-License-Identifier: Apache-2.0
// Graphs whose dimensions stay open: compiled once, run for several sizes, and compared with the
// graph compiled for each of them. What a graph forbids is said before anything runs.
#include "frontends/onnx_import.h"
#include "frontends/tensor_file.h"
#include "graph/model.h"
#include "ir/interp_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

enum { MAX_INPUTS = 8, MAX_OUTPUTS = 8 };

typedef struct Kit {
    Arena arena;
    Library library;
    Sources sources;
    Diag diag;
    OpTable *ops;
    Target target;
    Builder builder;
    Pool *pool;
    Device *device;
    Graph *graph;
    FileMap file;
    OnnxModel *onnx;
} Kit;

typedef struct Model {
    Graph *graph;
    CompiledModel *compiled;
    PlanRunner *runner;
} Model;

static const char *rendered(Kit *k)
{
    Buf b;
    buf_init(&b, &k->arena);
    diag_render(&k->diag, &b);
    return buf_text(&b);
}

static void open_kit(Kit *k, bool interpret)
{
    static Toolchain tools;
    Arena *a = &k->arena;
    const char *why = NULL;
    memset(k, 0, sizeof *k);
    k->sources.arena = a;
    diag_init(&k->diag, a, &k->sources);
    library_init(&k->library, a, interner_new(a), &k->sources);
    if (!ops_load(&k->library, NULL, &k->diag)) fail_msg("%s", rendered(k));
    target_host(&k->target);
    k->builder.interpret = interpret;
    k->builder.passes.verify = true;
    if (!interpret) {
        if (!toolchain_find(a, &k->target, &tools, &why)) skip();
        k->builder.toolchain = &tools;
        k->builder.cache = cache_open(a, cache_default_dir(a), 0, &why);
        if (!k->builder.cache) fail_msg("%s", why);
        k->pool = pool_create(2);
    }
    DeviceOptions o = {.nthread = 2};
    assert_int_equal(device_open(interpret ? &device_interp : &device_cpu, &o, &k->device, NULL),
                     HEALD_OK);
}

static void open_text(Kit *k, const char *text)
{
    Arena *a = &k->arena;
    Source *s = sources_add(&k->sources, "test.hd", text, strlen(text));
    Node *file = parse_file(a, k->library.names, s, &k->diag);
    if (!file || !library_add(&k->library, file, &k->diag)) fail_msg("%s", rendered(k));
    k->ops = op_table_new(a, &k->library);
    const Node *decl = map_get(&k->library.graphs, intern(k->library.names, "g"));
    k->graph = graph_from_text(a, &k->library, k->ops, &k->target, decl, &k->diag);
    if (!k->graph) fail_msg("%s", rendered(k));
}

static void close_kit(Kit *k)
{
    device_close(k->device);
    pool_destroy(k->pool);
    onnx_model_close(k->onnx);
    if (k->file.data) file_unmap(&k->file);
    arena_free(&k->arena);
}

// False with diagnostics. fixed: elements of inputs that are known; they stay so.
static bool make_model(Kit *k, int n, heald_tensor *const *input, const void **fixed, bool dynamic,
                       Model *m)
{
    const int64_t *dims[MAX_INPUTS];
    int rank[MAX_INPUTS];
    bool wanted[MAX_INPUTS] = {false};
    for (int i = 0; i < n; i++) dims[i] = input[i]->dims, rank[i] = input[i]->rank;
    Specialisation s = {
        .dims = dims, .rank = rank, .data = fixed, .dynamic = dynamic, .wanted = wanted};
    diag_clear(&k->diag);
    while (!(m->graph = graph_specialise(k->graph, &k->arena, &s, &k->target, &k->diag))) {
        bool more = false;
        if (getenv("HEALD_TEST_VERBOSE")) fprintf(stderr, "%s", rendered(k));
        for (int i = 0; i < n; i++) {
            if (!wanted[i] || fixed[i]) continue;
            fixed[i] = arena_copy(&k->arena, input[i]->data, (size_t)input[i]->bytes);
            more = true;
        }
        if (!more) return false;
        diag_clear(&k->diag);
    }
    CompileOptions o = {.target = k->target, .builder = k->builder, .pool = k->pool};
    Error e = {0};
    if (model_compile(m->graph, &k->arena, &o, &m->compiled, &k->diag, &e))
        fail_msg("%s%s", e.text, rendered(k));
    if (getenv("HEALD_TEST_VERBOSE")) {
        Buf b;
        buf_init(&b, &k->arena);
        graph_print(m->graph, &b);
        groups_print(&m->compiled->groups, &b);
        plan_print(m->compiled->plan, &b);
        fprintf(stderr, "%s", buf_text(&b));
    }
    if (plan_runner_create(m->compiled->plan, k->device, NULL, &m->runner, &e))
        fail_msg("%s", e.text);
    return true;
}

static void close_model(Model *m)
{
    plan_runner_destroy(m->runner);
    model_release(m->compiled);
}

// ---- inputs

typedef struct Size {
    const char *name;
    int64_t value;
} Size;

static uint64_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static void fill(heald_tensor *t, uint64_t seed)
{
    uint64_t state = seed;
    for (int64_t i = 0; i < t->nelem; i++) {
        char *p = (char *)t->data + (size_t)i * dtype_size(t->dtype);
        if (dtype_is_float(t->dtype))
            dtype_store_f64(t->dtype, p, (double)(next(&state) % 2001) / 1000.0 - 1);
        else dtype_store_i64(t->dtype, p, (int64_t)(next(&state) % 2));
    }
}

static int make_inputs(const Graph *g, const Size *sizes, heald_tensor **out)
{
    for (int i = 0; i < g->inputs.n; i++) {
        const GraphValue *v = g->inputs.at[i];
        int64_t dims[GRAPH_MAX_RANK];
        for (int r = 0; r < v->rank; r++) {
            dims[r] = v->dims[r].kind == V_INT ? v->dims[r].u.i : 0;
            for (const Size *s = sizes; v->dims[r].kind == V_STR && s->name; s++)
                if (!strcmp(s->name, v->dims[r].u.str)) dims[r] = s->value;
        }
        if (!strcmp(v->name, "image")) // nothing in the model names its axes
            dims[0] = 1, dims[2] = sizes[0].value, dims[3] = sizes[1].value;
        assert_int_equal(tensor_create((DType)v->type, v->rank, dims, &out[i], NULL), HEALD_OK);
        fill(out[i], (uint64_t)i + 7);
        if (!strcmp(v->name, "sr")) dtype_store_i64((DType)v->type, out[i]->data, 16000);
    }
    return g->inputs.n;
}

static void release(heald_tensor **list, int n)
{
    for (int i = 0; i < n; i++) heald_tensor_release(list[i]);
}

static void compare(const char *what, const heald_tensor *have, const heald_tensor *want,
                    double rtol)
{
    assert_int_equal(have->dtype, want->dtype);
    assert_int_equal(have->rank, want->rank);
    for (int i = 0; i < want->rank; i++) assert_int_equal(have->dims[i], want->dims[i]);
    if (rtol == 0) {
        if (want->bytes && memcmp(have->data, want->data, (size_t)want->bytes))
            fail_msg("%s: not the same bits", what);
        return;
    }
    double largest = 0;
    size_t size = dtype_size(want->dtype);
    for (int64_t i = 0; i < want->nelem; i++)
        largest =
            fmax(largest, fabs(dtype_load_f64(want->dtype, (char *)want->data + (size_t)i * size)));
    for (int64_t i = 0; i < want->nelem; i++) {
        double x = dtype_load_f64(want->dtype, (char *)have->data + (size_t)i * size);
        double y = dtype_load_f64(want->dtype, (char *)want->data + (size_t)i * size);
        if (!(fabs(x - y) <= rtol * (largest + fabs(y))))
            fail_msg("%s: element %lld is %g, not %g", what, (long long)i, x, y);
    }
}

// The dynamic model on these inputs against one that is made for them.
static void check_size(Kit *k, const Model *open, const char *what, heald_tensor *const *in, int n,
                       const void **fixed, double rtol)
{
    heald_tensor *have[MAX_OUTPUTS] = {0}, *want[MAX_OUTPUTS] = {0};
    Model exact;
    Error e = {0};
    if (!make_model(k, n, in, fixed, false, &exact)) fail_msg("%s: %s", what, rendered(k));
    if (plan_run_tensors(exact.runner, in, want, &e)) fail_msg("%s: %s", what, e.text);
    if (plan_run_tensors(open->runner, in, have, &e)) fail_msg("%s: %s", what, e.text);
    for (int i = 0; i < k->graph->outputs.n; i++) compare(what, have[i], want[i], rtol);
    release(have, k->graph->outputs.n);
    release(want, k->graph->outputs.n);
    close_model(&exact);
}

// ---- graphs as text

typedef struct Row {
    const char *test, *text;
    double rtol;
    Size sizes[5][5]; // of each run; the first ones are at hand when it is compiled
} Row;

#define G(inputs, body) "graph g(" inputs ") -> (y) { " body " }"

static const Row rows[] = {
    {"elementwise",
     G("x: f32[b, t, 8], z: f32[8]", "y = relu(x * 2.0 + z);"),
     0,
     {{{"b", 2}, {"t", 3}}, {{"b", 1}, {"t", 1}}, {{"b", 5}, {"t", 17}}}},
    {"matmul",
     G("x: f32[b, m, 12], w: f32[12, n]", "y = gelu(matmul(x, w));"),
     0,
     {{{"b", 2}, {"m", 3}, {"n", 4}},
      {{"b", 1}, {"m", 1}, {"n", 1}},
      {{"b", 3}, {"m", 33}, {"n", 37}}}},
    {"inner dimension",
     G("x: f32[m, k], w: f32[k, n]", "y = matmul(x, w);"),
     0,
     {{{"m", 2}, {"k", 3}, {"n", 4}},
      {{"m", 20}, {"k", 1}, {"n", 9}},
      {{"m", 3}, {"k", 65}, {"n", 40}}}},
    {"convolution",
     G("x: f32[b, 3, h, w], f: f32[5, 3, 3, 3]",
       "y = relu(conv(x, f; strides = (2, 2), pads = (1, 1, 1, 1)));"),
     0,
     {{{"b", 1}, {"h", 8}, {"w", 8}},
      {{"b", 2}, {"h", 5}, {"w", 31}},
      {{"b", 1}, {"h", 40}, {"w", 7}}}},
    {"depthwise and pool",
     G("x: f32[1, 4, h, w], f: f32[4, 1, 3, 3]",
       "y = max_pool(conv(x, f; group = 4, pads = (1, 1, 1, 1)); kernel_shape = (2, 2), strides = "
       "(2, 2), ceil_mode = true);"),
     0,
     {{{"h", 8}, {"w", 8}}, {{"h", 5}, {"w", 31}}, {{"h", 2}, {"w", 2}}}},
    {"means",
     G("x: f32[b, 4, h, w]", "y = reduce_mean(x; axes = (2, 3)) + global_average_pool(x);"),
     1e-6,
     {{{"b", 1}, {"h", 4}, {"w", 4}}, {{"b", 3}, {"h", 7}, {"w", 33}}}},
    {"softmax and reshape",
     G("x: f32[b, t, 12]", "let r = reshape(x; shape = (0, 0, 3, 4)); let s = softmax(transpose(r; "
                           "perm = (0, 2, 1, 3)));"
                           " y = reshape(transpose(s; perm = (0, 2, 1, 3)); shape = (0, -1, 12));"),
     0,
     {{{"b", 2}, {"t", 3}}, {{"b", 1}, {"t", 1}}, {{"b", 4}, {"t", 19}}}},
    {"reshape to what is left",
     G("x: f32[b, 6, t]", "y = relu(reshape(x; shape = (-1, 3)));"),
     0,
     {{{"b", 2}, {"t", 4}}, {{"b", 1}, {"t", 1}}, {{"b", 3}, {"t", 5}}}},
    {"concat and slice",
     G("x: f32[b, t], z: f32[b, u]",
       "y = slice(concat(relu(x), z); starts = (1,), ends = (1000000,), axes = (1,)) * 3.0;"),
     0,
     {{{"b", 2}, {"t", 4}, {"u", 1}},
      {{"b", 1}, {"t", 1}, {"u", 7}},
      {{"b", 3}, {"t", 20}, {"u", 33}}}},
    {"attention",
     G("q: f32[b, 2, t, 4], k: f32[b, 2, u, 4], v: f32[b, 2, u, 4], m: f32[b, 1, 1, u]",
       "y = matmul(softmax(matmul(q, transpose(k; perm = (0, 1, 3, 2))) * 0.5 + m), v);"),
     1e-6,
     {{{"b", 2}, {"t", 4}, {"u", 3}},
      {{"b", 1}, {"t", 1}, {"u", 7}},
      {{"b", 3}, {"t", 20}, {"u", 33}}}},
    {"norm over rows",
     G("x: f32[b, t, 16], s: f32[16], z: f32[16]", "y = layer_norm(x + x, s, z);"),
     1e-6,
     {{{"b", 2}, {"t", 4}}, {{"b", 1}, {"t", 1}}, {{"b", 3}, {"t", 21}}}},
    {"equal dimensions",
     G("x: f32[b, t], z: f32[c, u]", "y = exp(x + z) * z;"),
     0,
     {{{"b", 2}, {"c", 2}, {"t", 4}, {"u", 4}}, {{"b", 5}, {"c", 5}, {"t", 33}, {"u", 33}}}},
    {"padding and tiles",
     G("x: f32[b, t]", "y = tile(pad(x; pads = (0, 2, 1, 3)); repeats = (2, 1)) + 1.0;"),
     0,
     {{{"b", 2}, {"t", 4}}, {{"b", 1}, {"t", 1}}, {{"b", 3}, {"t", 21}}}},
};

static void run_row(const Row *r, bool interpret)
{
    Kit k;
    open_kit(&k, interpret);
    open_text(&k, r->text);
    Model open;
    const void *fixed[MAX_INPUTS] = {0};
    heald_tensor *in[MAX_INPUTS];
    int n = make_inputs(k.graph, r->sizes[0], in);
    if (!make_model(&k, n, in, fixed, true, &open)) fail_msg("%s", rendered(&k));
    assert_true(open.graph->dims.n > 0);
    release(in, n);
    for (int i = 0; i < 5 && r->sizes[i][0].name; i++) {
        make_inputs(k.graph, r->sizes[i], in);
        check_size(&k, &open, r->test, in, n, fixed, r->rtol);
        release(in, n);
    }
    close_model(&open);
    close_kit(&k);
}

static void interpreted(void **state)
{
    run_row(*state, true);
}

static void compiled(void **state)
{
    run_row(*state, false);
}

// ---- graphs that compute shapes, as ONNX models do

static GraphValue *onnx_node(Kit *k, const char *op, DType type, int ninput,
                             GraphValue *const *input)
{
    bool known;
    OpBindings choices = op_table_onnx(k->ops, op, 18, &known);
    assert_true(choices.n > 0);
    GraphValue *out = graph_value(k->graph, op, type, -1, NULL);
    graph_node(k->graph, op, op, choices, ninput, input, 1, &out);
    return out;
}

static GraphValue *with_attr(GraphValue *v, Kit *k, const char *name, Value attr)
{
    graph_attr(k->graph, v->producer, name, attr);
    return v;
}

#define NODE(op, type, ...)                                                                     \
    onnx_node(k, op, type, (int)(sizeof((GraphValue *[]){__VA_ARGS__}) / sizeof(GraphValue *)), \
              (GraphValue *[]){__VA_ARGS__})

static GraphValue *ints(Kit *k, int n, ...)
{
    va_list list;
    int64_t *data = NEW_ARRAY(&k->arena, int64_t, n), count = n;
    va_start(list, n);
    for (int i = 0; i < n; i++) data[i] = va_arg(list, int);
    va_end(list);
    return graph_constant(k->graph, "ints", DT_I64, 1, &count, data);
}

static GraphValue *whole(Kit *k, int v)
{
    int64_t *data = NEW(&k->arena, int64_t);
    *data = v;
    return graph_constant(k->graph, "whole", DT_I64, 0, NULL, data);
}

// reshape(x, concat(shape(x)[0:1], [-1]))
static GraphValue *flattened(Kit *k, GraphValue *x)
{
    GraphValue *first =
        NODE("Slice", DT_I64, NODE("Shape", DT_I64, x), ints(k, 1, 0), ints(k, 1, 1));
    GraphValue *to =
        with_attr(NODE("Concat", DT_I64, first, ints(k, 1, -1)), k, "axis", value_int(0));
    return NODE("Reshape", DT_F32, x, to);
}

// The shape in 32 bits, as TensorFlow has it: reshape(x, [shape[0] * shape[1], shape[2]]).
static GraphValue *in_32_bits(Kit *k, GraphValue *x)
{
    GraphValue *s =
        with_attr(NODE("Cast", DT_I32, NODE("Shape", DT_I64, x)), k, "to", value_int(6));
    GraphValue *b = NODE("Gather", DT_I32, s, ints(k, 1, 0)),
               *t = NODE("Gather", DT_I32, s, ints(k, 1, 1));
    GraphValue *n = NODE("Gather", DT_I32, s, ints(k, 1, 2));
    GraphValue *to =
        with_attr(NODE("Concat", DT_I32, NODE("Mul", DT_I32, b, t), n), k, "axis", value_int(0));
    return NODE("Reshape", DT_F32, x, with_attr(NODE("Cast", DT_I64, to), k, "to", value_int(7)));
}

// x + range(t), as positions are made.
static GraphValue *positions(Kit *k, GraphValue *x)
{
    GraphValue *t = NODE("Gather", DT_I64, NODE("Shape", DT_I64, x), whole(k, 1));
    GraphValue *r = NODE("Range", DT_I64, whole(k, 0), t, whole(k, 1));
    GraphValue *f = with_attr(NODE("Cast", DT_F32, r), k, "to", value_int(1));
    return NODE("Add", DT_F32, x, NODE("Unsqueeze", DT_F32, f, ints(k, 1, 1)));
}

// reshape(x, [prod(shape)]), where a length that is -1 would be taken from elsewhere.
static GraphValue *all_elements(Kit *k, GraphValue *x)
{
    GraphValue *s = NODE("Shape", DT_I64, x);
    GraphValue *n = with_attr(NODE("ReduceProd", DT_I64, s), k, "keepdims", value_int(1));
    GraphValue *odd = NODE("Equal", DT_BOOL, n, ints(k, 1, -1));
    return NODE("Reshape", DT_F32, x, NODE("Where", DT_I64, odd, ints(k, 1, 7), n));
}

// Twice as long, through reals.
static GraphValue *doubled(Kit *k, GraphValue *x)
{
    static const float two = 2;
    GraphValue *s =
        with_attr(NODE("Cast", DT_F32, NODE("Shape", DT_I64, x)), k, "to", value_int(1));
    GraphValue *f = graph_constant(k->graph, "two", DT_F32, 0, NULL, &two);
    GraphValue *big = NODE("Floor", DT_F32, NODE("Mul", DT_F32, s, f));
    GraphValue *part =
        NODE("Slice", DT_I64, with_attr(NODE("Cast", DT_I64, big), k, "to", value_int(7)),
             ints(k, 1, 0), ints(k, 1, 1));
    GraphValue *rest =
        NODE("Slice", DT_I64, NODE("Shape", DT_I64, x), ints(k, 1, 1), ints(k, 1, 3));
    GraphValue *to = with_attr(NODE("Concat", DT_I64, part, rest), k, "axis", value_int(0));
    GraphValue *both = with_attr(NODE("Concat", DT_F32, x, x), k, "axis", value_int(0));
    return NODE("Add", DT_F32, NODE("ConstantOfShape", DT_F32, to), both);
}

typedef struct Built {
    const char *test;
    GraphValue *(*make)(Kit *k, GraphValue *x);
} Built;

static const Built built[] = {
    {"flattened", flattened},       {"shapes in 32 bits", in_32_bits},  {"positions", positions},
    {"all elements", all_elements}, {"doubled through reals", doubled},
};

static void computed_shapes(void **state)
{
    static const Size sizes[][4] = {
        {{"b", 2}, {"t", 3}}, {{"b", 1}, {"t", 1}}, {{"b", 5}, {"t", 17}}};
    const Built *r = *state;
    Kit kit, *k = &kit;
    open_kit(k, true);
    k->ops = op_table_new(&k->arena, &k->library);
    k->graph = graph_new(&k->arena, &k->library, k->ops, r->test);
    Value dims[] = {value_str("b"), value_str("t"), value_int(4)};
    GraphValue *x = graph_input(k->graph, "x", DT_F32, 3, dims);
    graph_output(k->graph, r->make(k, x));
    Model open;
    const void *fixed[MAX_INPUTS] = {0};
    heald_tensor *in[MAX_INPUTS];
    make_inputs(k->graph, sizes[0], in);
    if (!make_model(k, 1, in, fixed, true, &open)) fail_msg("%s", rendered(k));
    assert_null(fixed[0]);
    release(in, 1);
    for (size_t i = 0; i < COUNT(sizes); i++) {
        make_inputs(k->graph, sizes[i], in);
        check_size(k, &open, r->test, in, 1, fixed, 0);
        release(in, 1);
    }
    close_model(&open);
    close_kit(k);
}

// ---- models

typedef struct ModelRow {
    const char *model;
    Size sizes[6][4]; // of each run; the first ones are at hand when it is compiled
    Size forbidden[4];
    const char *message; // what it says then, in part
} ModelRow;

static const ModelRow model_rows[] = {
    {"bert_toy_ort",
     {{{"batch", 1}, {"max_seq_len_in_batch", 8}},
      {{"batch", 3}, {"max_seq_len_in_batch", 5}},
      {{"batch", 1}, {"max_seq_len_in_batch", 1}},
      {{"batch", 2}, {"max_seq_len_in_batch", 16}}},
     {{0}},
     NULL},
    {"ppocr_mobile_v1.1_det",
     {{{"h", 64}, {"w", 64}}, {{"h", 96}, {"w", 32}}, {{"h", 160}, {"w", 224}}},
     {{0}},
     NULL},
    {"silero_vad_16k_op15",
     {{{"batch", 1}, {"sequence", 576}},
      {{"batch", 3}, {"sequence", 576}},
      {{"batch", 2}, {"sequence", 544}},
      {{"batch", 17}, {"sequence", 512}}},
     {{0}},
     NULL},
};

static bool open_onnx(Kit *k, const char *name)
{
    Arena *a = &k->arena;
    const char *root = getenv("HEALD_MODELS"), *dir = root ? path_join(a, root, name) : NULL;
    const char *path = dir ? path_join(a, dir, "model.onnx") : NULL;
    if (!path || !path_exists(path)) return false;
    const char *why = file_map(a, path, &k->file);
    if (!why) why = onnx_model_parse(a, path, k->file.data, k->file.size, &k->onnx);
    if (why) fail_msg("%s", why);
    k->ops = op_table_new(a, &k->library);
    k->graph = onnx_import(a, &k->library, k->ops, k->onnx, dir, &k->diag);
    if (!k->graph) fail_msg("%s", rendered(k));
    return true;
}

static void model(void **state)
{
    const ModelRow *r = *state;
    Kit k;
    open_kit(&k, false);
    if (!open_onnx(&k, r->model)) {
        close_kit(&k);
        skip();
    }
    Model open;
    const void *fixed[MAX_INPUTS] = {0};
    heald_tensor *in[MAX_INPUTS];
    int n = make_inputs(k.graph, r->sizes[0], in);
    if (!make_model(&k, n, in, fixed, true, &open)) fail_msg("%s", rendered(&k));
    release(in, n);
    for (int i = 0; i < 6 && r->sizes[i][0].name; i++) {
        make_inputs(k.graph, r->sizes[i], in);
        // A sigmoid far from its middle multiplies the error of what it is given.
        check_size(&k, &open, r->model, in, n, fixed, 1e-4);
        release(in, n);
    }
    close_model(&open);
    close_kit(&k);
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[2 * COUNT(rows) + COUNT(built) + COUNT(model_rows)];
    size_t n = 0;
    for (size_t i = 0; i < COUNT(rows); i++) {
        if (argc > 1 && strcmp(argv[1], rows[i].test)) continue;
        tests[n++] = (struct CMUnitTest){rows[i].test, interpreted, NULL, NULL, (void *)&rows[i]};
        tests[n++] = (struct CMUnitTest){rows[i].test, compiled, NULL, NULL, (void *)&rows[i]};
    }
    for (size_t i = 0; i < COUNT(built); i++) {
        if (argc > 1 && strcmp(argv[1], built[i].test)) continue;
        tests[n++] =
            (struct CMUnitTest){built[i].test, computed_shapes, NULL, NULL, (void *)&built[i]};
    }
    for (size_t i = 0; i < COUNT(model_rows); i++) {
        const ModelRow *r = &model_rows[i];
        if (argc > 1 && strcmp(argv[1], r->model)) continue;
        tests[n++] = (struct CMUnitTest){r->model, model, NULL, NULL, (void *)r};
    }
    return _cmocka_run_group_tests("dynamic", tests, n, NULL, NULL);
}
