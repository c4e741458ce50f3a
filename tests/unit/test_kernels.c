// SPDX-License-Identifier: Apache-2.0
// The templates of lib/kernels for the CPU. Each is run by the interpreter and as compiled C, which
// must agree in every bit, and against what its op means, computed in f64.
#include "unit/kernel_kit.h"

#include <glob.h>

#define FILES                                                                                      \
    "math ops/core ops/shape ops/onnx_math ops/onnx_nn ops/onnx_norm kernels/copy kernels/reduce " \
    "kernels/rows "                                                                                \
    "kernels/pool kernels/transpose kernels/depthwise kernels/tile kernels/matmul kernels/conv"

enum { MAX_DIMS = 6, MAX_INPUT = 4, MAX_PARAM = 8 };
enum {
    PROLOGUE = 1, // the first input comes through relu
    OUTPUTS = 2,  // two outputs: relu of the result, and the result plus another tensor
    EXACT = 4,    // no rounding at all
    CLEAN = 8,    // no NaN or infinity among the data: a sum of infinities depends on its order
};

typedef struct Case {
    const char *kernel, *op;
    const char *inputs; // "f32[m,n] - i64[3]": a letter is a dynamic extent, - an input left out
    const char *attrs, *choices;
    int flags;
    double tolerance; // relative to the larger of 1 and the value
    const char *dims; // values of the letters in order of appearance: "1,2 3,4"
} Case;

#define ROWS "1,1 1,3 3,17 2,127 3,255 2,2039 33,64 0,5 5,0"
#define BLOCKS "1,1,1 2,3,17 3,5,127 2,17,16 4,33,3 1,2,255 0,2,3 2,0,3 2,3,0"

// clang-format off
static const Case cases[] = {
    // kernel          op             inputs                       attributes             choices
    // flags       tolerance  dims
    {"softmax_cpu", "softmax", "f32[m,n]", "", "", PROLOGUE, 1e-5, ROWS},
    {"softmax_cpu", "softmax", "f64[m,n]", "", "keep=64", OUTPUTS, 1e-9, ROWS},
    {"softmax_cpu", "softmax", "f16[m,n]", "axis=1", "", 0, 1e-3, "1,1 3,17 2,127 3,64"},
    {"softmax_cpu", "softmax", "f32[a,m,n]", "axis=1", "", PROLOGUE | OUTPUTS, 1e-5, BLOCKS},
    {"log_softmax_cpu","log_softmax", "f32[m,n]", "", "", OUTPUTS, 1e-5, ROWS},
    {"log_softmax_cpu","log_softmax", "f32[a,m,n]", "axis=-3", "", 0, 1e-5, BLOCKS},
    {"log_softmax_cpu","log_softmax", "f32[m,n]", "", "keep=64", 0, 1e-5, ROWS},
    {"layer_norm_cpu", "layer_norm", "f32[m,n] f32[n] f32[n]", "", "", PROLOGUE | OUTPUTS,
     1e-4, ROWS},
    {"layer_norm_cpu", "layer_norm", "f32[m,n] f32[n] -", "", "keep=64", 0, 1e-4, ROWS},
    {"layer_norm_cpu", "layer_norm", "f32[a,m,n] f32[m,n] f32[m,n]", "axis=1", "", PROLOGUE,
     1e-4, BLOCKS},
    {"rms_norm_cpu", "rms_norm", "f32[m,n] f32[n]", "", "", 0, 1e-4, ROWS},
    {"instance_norm_cpu", "instance_norm", "f32[2,3,h,w] f32[3] f32[3]", "", "", 0, 1e-4,
     "1,1 3,5 7,33 16,16 0,4"},
    {"reduce_sum_cpu", "reduce_sum", "f32[m,n]", "axes=(1,)", "", PROLOGUE | OUTPUTS, 1e-4, ROWS},
    {"reduce_sum_cpu", "reduce_sum", "f32[m,n]", "axes=(0,);keepdims=false", "", PROLOGUE,
     1e-4, ROWS},
    {"reduce_sum_cpu", "reduce_sum", "f32[a,m,n]", "axes=(0,2)", "wide=1", 0, 1e-4, BLOCKS},
    {"reduce_sum_cpu", "reduce_sum", "f32[a,m,n]", "", "", OUTPUTS, 1e-4, BLOCKS},
    {"reduce_sum_cpu", "reduce_sum", "i32[a,m,n]", "axes=(1,);keepdims=false", "", EXACT, 0,
     BLOCKS},
    {"reduce_mean_cpu","reduce_mean", "f16[m,n]", "axes=(1,)", "", CLEAN, 2e-3, "1,1 3,17 2,127"},
    {"reduce_mean_cpu","reduce_mean", "f64[a,m,n]", "axes=(-2,)", "wide=2", PROLOGUE, 1e-9, BLOCKS},
    {"reduce_max_cpu", "reduce_max", "f32[m,n]", "axes=(1,);keepdims=false", "",
     EXACT | PROLOGUE, 0, ROWS},
    {"reduce_min_cpu", "reduce_min", "f32[a,m,n]", "axes=(0,1);keepdims=false", "", EXACT, 0,
     BLOCKS},
    {"reduce_prod_cpu","reduce_prod", "f32[m,n]", "axes=(1,)", "", CLEAN, 1e-4,
     "1,1 1,3 3,17 2,31 0,5 5,0"},
    {"reduce_l1_cpu", "reduce_l1", "f32[m,n]", "axes=(1,)", "", 0, 1e-4, ROWS},
    {"reduce_l2_cpu", "reduce_l2", "f32[m,n]", "axes=(0,)", "", 0, 1e-4, ROWS},
    {"reduce_sum_square_cpu", "reduce_sum_square", "f32[m,n]", "axes=(1,)", "", 0, 1e-4, ROWS},
    {"reduce_log_sum_cpu", "reduce_log_sum", "f32[m,n]", "axes=(1,)", "", PROLOGUE, 1e-4, ROWS},
    {"reduce_log_sum_exp_cpu", "reduce_log_sum_exp", "f32[m,n]", "axes=(1,)", "", 0, 1e-4, ROWS},
    {"reduce_log_sum_exp_cpu", "reduce_log_sum_exp", "f32[a,m,n]", "axes=(1,)", "", 0, 1e-4,
     BLOCKS},
    {"global_average_pool_cpu", "global_average_pool", "f32[2,3,h,w]", "", "", PROLOGUE, 1e-4,
     "1,1 7,7 3,33"},
    {"global_max_pool_cpu", "global_max_pool", "f32[2,3,h,w]", "", "", EXACT, 0, "1,1 7,7 3,33"},
    {"argmax_cpu", "argmax", "f32[m,n]", "axis=1", "", EXACT | PROLOGUE, 0,
     "1,1 1,3 3,17 2,127 3,255 2,2039 33,64 0,5"},
    {"argmax_cpu", "argmax", "i32[m,n]", "axis=-1;keepdims=false;select_last_index=true", "",
     EXACT, 0, "1,1 1,3 3,17 2,127 33,64"},
    {"argmin_cpu", "argmin", "f32[a,m,n]", "axis=1;keepdims=false", "", EXACT, 0,
     "1,1,1 2,3,17 3,5,127 2,17,16 0,2,3 2,3,0"},
    {"max_pool_cpu", "max_pool", "f32[1,2,h,w]",
    "kernel_shape=(3,3);strides=(2,2);pads=(1,1,1,1)", "", EXACT | PROLOGUE, 0,
     "1,1 3,3 8,17 7,127 35,40"},
    {"max_pool_cpu", "max_pool", "f32[n,2,h,w]",
    "kernel_shape=(2,3);dilations=(1,2);ceil_mode=true;strides=(1,3)", "wide=2,high=4",
     EXACT | OUTPUTS, 0, "1,2,5 2,9,70 0,4,8"},
    {"max_pool_cpu", "max_pool", "i8[1,2,h,w]", "kernel_shape=(3,3)", "", EXACT, 0, "3,3 4,130"},
    {"average_pool_cpu", "average_pool", "f32[1,2,h,w]", "kernel_shape=(3,3);pads=(1,1,1,1)",
     "", PROLOGUE | OUTPUTS, 1e-5, "1,1 3,3 8,17 7,127"},
    {"average_pool_cpu", "average_pool", "f32[1,2,h,w]",
    "kernel_shape=(3,2);strides=(2,2);pads=(1,0,1,1);count_include_pad=true;ceil_mode=true",
     "wide=2", 0, 1e-5, "2,2 8,17 7,127"},
    {"average_pool_cpu", "average_pool", "f32[1,2,w]", "kernel_shape=(4,);strides=(2,)", "", 0,
     1e-5, "4 17 200"},
    {"max_pool_cpu", "max_pool", "f32[1,1,t,h,w]", "kernel_shape=(2,2,2);strides=(2,1,1)", "",
     EXACT, 0, "2,3,4 5,4,35"},
    {"transpose_cpu", "transpose", "f32[m,n]", "", "", EXACT | PROLOGUE | OUTPUTS, 0, ROWS},
    {"transpose_cpu", "transpose", "f64[a,m,n]", "perm=(0,2,1)", "edge=16", EXACT, 0, BLOCKS},
    {"transpose_cpu", "transpose", "u8[2,c,h,w]", "perm=(0,2,3,1)", "", EXACT, 0,
     "1,1,1 3,4,5 3,7,40"},
    {"matmul_cpu", "matmul", "f32[m,k] f32[k,n]", "", "", PROLOGUE | OUTPUTS | CLEAN, 1e-4,
     "1,1,1 3,17,5 17,127,33 1,255,64 40,3,130 0,2,3 2,0,3 2,3,0"},
    {"matmul_cpu", "matmul", "f64[2,1,m,k] f64[3,k,n]", "", "mr=6,nv=1", CLEAN, 1e-9,
     "1,1,1 7,17,9 15,31,33"},
    {"matmul_cpu", "matmul", "f32[m,k] f32[k,n]", "", "mr=6", 0, 1e-4, "3,17,5 17,31,33"},
    {"conv_cpu", "conv", "f32[1,c,h,w] f32[10,c,3,3] f32[10]", "pads=(1,1,1,1)", "mr=6",
     PROLOGUE | OUTPUTS | CLEAN, 1e-4, "1,1,1 3,5,17 4,3,40"},
    {"conv_cpu", "conv", "f32[n,4,h,w] f32[6,2,3,2] -",
    "group=2;strides=(2,3);dilations=(1,2);pads=(1,2,0,1)", "mr=4", CLEAN, 1e-4,
     "1,4,5 2,9,40 0,5,5"},
    {"conv_cpu", "conv", "f64[1,2,w] f64[4,2,3] f64[4]", "", "mr=4", 0, 1e-9, "3 20 130"},
    {"depthwise_cpu", "conv", "f32[2,6,h,w] f32[6,1,3,3] f32[6]", "group=6;pads=(1,1,1,1)", "",
     PROLOGUE | OUTPUTS | CLEAN, 1e-4, "1,1 3,5 5,17 9,70"},
    {"depthwise_cpu", "conv", "f32[1,6,h,w] f32[3,2,2,3] -",
    "group=3;strides=(2,2);dilations=(2,1);pads=(1,1,1,1)", "mr=2,nv=1", CLEAN, 1e-4,
     "3,5 8,17 9,70"},
    {"depthwise_cpu", "conv", "f64[2,3,w] f64[3,1,5] f64[3]", "group=3;pads=(2,2)", "", 0,
     1e-9, "1 17 130"},
    {"depthwise_cpu", "conv", "f32[1,2,t,h,w] f32[2,1,2,2,3] -", "group=2", "mr=1", CLEAN,
     1e-4, "2,2,3 3,5,20"},
};
// clang-format on

static uint64_t state = 1;
static uint32_t random_u32(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 32);
}

typedef struct Names {
    const int64_t *known; // their extents, or NULL: dynamic
    int n;
    char name[MAX_DIMS];
    Value value[MAX_DIMS];
} Names;

static Value extent(Kit *k, Names *names, const char *s)
{
    if (*s >= '0' && *s <= '9') return value_int(atoi(s));
    for (int i = 0; i < names->n; i++)
        if (names->name[i] == *s) return names->value[i];
    assert_true(names->n < MAX_DIMS);
    int i = names->n++;
    names->name[i] = *s;
    return names->value[i] = names->known ? value_int(names->known[i])
                                          : instance_dim(k->in, (char[]){*s, 0}, 0, 1 << 20, 1);
}

// The inputs of a case; in f64 for the reference.
static int make_inputs(Kit *k, const Case *c, bool reference, const int64_t *known, Value *args)
{
    Names names = {.known = known};
    int n = 0;
    char *list = arena_printf(&k->arena, "%s", c->inputs), *rest, *inner;
    for (char *f = strtok_r(list, " ", &rest); f; f = strtok_r(NULL, " ", &rest)) {
        if (*f == '-') {
            args[n++] = value_none();
            continue;
        }
        int rank = 0;
        Value dims[MAX_DIMS];
        char *type = strtok_r(f, "[", &inner);
        for (char *d = strtok_r(NULL, ",]", &inner); d; d = strtok_r(NULL, ",]", &inner))
            dims[rank++] = extent(k, &names, d);
        DType t = reference ? DT_F64 : dtype_from_name(type);
        char name[] = {'i', (char)('0' + n), 0};
        args[n++] = kit_value(instance_input(k->in, name, t, rank, dims));
    }
    return n;
}

static const Choices *make_choices(Kit *k, const char *text)
{
    if (!*text) return NULL;
    Choices *c = NEW(&k->arena, Choices);
    c->name = NEW_ARRAY(&k->arena, Sym, 4);
    c->value = NEW_ARRAY(&k->arena, Value, 4);
    char *list = arena_printf(&k->arena, "%s", text), *rest;
    for (char *f = strtok_r(list, ",", &rest); f; f = strtok_r(NULL, ",", &rest), c->n++) {
        char *eq = strchr(f, '=');
        *eq = 0;
        c->name[c->n] = intern(k->lib.names, f);
        c->value[c->n] = value_int(atoi(eq + 1));
    }
    return c;
}

// The template of a case, or what its op means, in f64, through the copy template.
static Kit *build(const Case *c, bool reference, const int64_t *known)
{
    Kit *k = kit_new(FILES);
    Value args[MAX_INPUT];
    int n = make_inputs(k, c, reference, known, args);
    if (c->flags & PROLOGUE) args[0] = kit_value(kit_op(k, "relu", 1, args, NULL));
    Tensor *result = kit_op(k, c->op, n, args, c->attrs), *outputs[2];
    Buffer *memory[2];
    Epilogue e = {.memory = memory, .noutput = 1};
    if (c->flags & OUTPUTS) {
        Value sum[2];
        e.hole = instance_hole(k->in, "h", result->type, result->rank, result->dims);
        sum[0] = kit_value(e.hole);
        sum[1] = kit_value(instance_input(k->in, "r", result->type, result->rank, result->dims));
        outputs[0] = kit_op(k, "relu", 1, sum, NULL);
        outputs[1] = kit_op(k, "add", 2, sum, NULL);
        e.outputs = outputs;
        e.noutput = 2;
    }
    for (int i = 0; i < e.noutput; i++)
        memory[i] = instance_output(k->in, i ? "z" : "y", result->type, result->rank, result->dims);
    Value x = kit_value(result);
    if (reference) {
        kit_kernel(k, "copy", 1, &x, NULL, &e, 1, NULL);
        k->extra_flags = "-O1"; // compiled once to run briefly
    } else {
        kit_kernel(k, c->kernel, n, args, c->attrs, &e, 1, make_choices(k, c->choices));
    }
    kit_compile(k);
    return k;
}

static double element(bool special, bool ordered)
{
    static const double odd[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 1e-30};
    uint32_t r = random_u32();
    if (special && r % 50 < COUNT(odd)) return odd[r % 50];
    double v = (double)(int32_t)(random_u32() % 2001) / 500 - 2;
    return ordered ? rint(v * 2) : v; // few values, so that some are equal
}

typedef struct Data {
    void *at[MAX_PARAM];
    int64_t n[MAX_PARAM];
} Data;

static void data_new(Kit *k, const int64_t *dims, Data *d)
{
    for (int i = 0; i < k->made->params.n; i++) {
        size_t bytes = kit_bytes(k, k->made->params.at[i], dims);
        d->n[i] = (int64_t)(bytes / dtype_size(k->made->params.at[i]->type));
        d->at[i] = aligned_alloc(64, (bytes + 127) / 64 * 64);
    }
}

static void data_free(Kit *k, Data *d)
{
    for (int i = 0; i < k->made->params.n; i++) free(d->at[i]);
}

static void set_real(DType t, void *p, int64_t i, double v)
{
    char *at = (char *)p + (size_t)i * dtype_size(t);
    if (dtype_is_float(t)) dtype_store_f64(t, at, v);
    else dtype_store_i64(t, at, isfinite(v) ? (int64_t)fabs(v * 3) : 7);
}

static double get_real(DType t, const void *p, int64_t i)
{
    const char *at = (const char *)p + (size_t)i * dtype_size(t);
    return dtype_is_float(t) ? dtype_load_f64(t, at) : (double)dtype_load_i64(t, at);
}

static bool close_enough(double got, double want, double tolerance)
{
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
    if (isinf(want) || isinf(got)) return want == got;
    return fabs(got - want) <= tolerance * fmax(1, fabs(want));
}

static void fail_at(const Case *c, const char *dims, Kit *k, const char *what, int param, int64_t i,
                    double got, double want)
{
    fail_msg("%s [%s] of %s at %s, %s: %s[%lld] is %.9g, not %.9g\n%s", c->kernel, c->attrs,
             c->inputs, dims, what, k->made->params.at[param]->name, (long long)i, got, want,
             getenv("HEALD_VERBOSE") ? k->text : "");
}

static void read_dims(const char *text, int64_t *dims)
{
    int n = 0;
    for (const char *s = text; *s && *s != ' '; s++)
        if (s == text || s[-1] == ',') dims[n++] = strtoll(s, NULL, 10);
}

static void run_at(const Case *c, Kit *k, Kit *ref, const char *text, bool special)
{
    int64_t dims[MAX_DIMS] = {0};
    read_dims(text, dims);
    Data c_data, i_data, want;
    data_new(k, dims, &c_data);
    data_new(k, dims, &i_data);
    data_new(ref, dims, &want);
    for (int p = 0; p < k->made->params.n; p++) {
        DType t = k->made->params.at[p]->type;
        for (int64_t i = 0; i < c_data.n[p] && !k->made->params.at[p]->output; i++) {
            set_real(t, c_data.at[p], i, element(special, c->flags & EXACT));
            set_real(ref->made->params.at[p]->type, want.at[p], i, get_real(t, c_data.at[p], i));
        }
        memcpy(i_data.at[p], c_data.at[p], (size_t)c_data.n[p] * dtype_size(t));
    }
    kit_run_compiled(k, c_data.at, dims);
    kit_run_interpreted(k, i_data.at, dims);
    kit_run_compiled(ref, want.at, dims);
    for (int p = 0; p < k->made->params.n; p++) {
        DType t = k->made->params.at[p]->type, t64 = ref->made->params.at[p]->type;
        for (int64_t i = 0; i < c_data.n[p] && k->made->params.at[p]->output; i++) {
            size_t size = dtype_size(t);
            Scalar x = scalar_load(t, (char *)c_data.at[p] + (size_t)i * size);
            Scalar y = scalar_load(t, (char *)i_data.at[p] + (size_t)i * size);
            double got = get_real(t, c_data.at[p], i), w = get_real(t64, want.at[p], i);
            if (!scalar_bits_equal(&x, &y))
                fail_at(c, text, k, "C and the interpreter", p, i, got,
                        get_real(t, i_data.at[p], i));
            if (!close_enough(got, w, c->tolerance))
                fail_at(c, text, k, "the meaning", p, i, got, w);
        }
    }
    data_free(k, &c_data);
    data_free(k, &i_data);
    data_free(ref, &want);
}

static void run_both(const Case *c, Kit *k, Kit *ref, const char *dims)
{
    run_at(c, k, ref, dims, false);
    if (!(c->flags & CLEAN)) run_at(c, k, ref, dims, true);
}

// With dynamic extents at all sizes, then with one of the sizes known at compile time.
static void run_case(const Case *c)
{
    Kit *k = build(c, false, NULL), *ref = build(c, true, NULL);
    char *list = arena_printf(&k->arena, "%s", c->dims), *rest, *at[16];
    int n = 0;
    for (char *d = strtok_r(list, " ", &rest); d; d = strtok_r(NULL, " ", &rest)) {
        at[n++] = d;
        run_both(c, k, ref, d);
    }
    int64_t known[MAX_DIMS] = {0};
    const char *chosen = at[(c - cases) % n];
    read_dims(chosen, known);
    Kit *fixed = build(c, false, known);
    run_both(c, fixed, ref, chosen);
    kit_free(k);
    kit_free(ref);
    kit_free(fixed);
}

// Cases of the templates whose name begins with `prefix`; HEALD_CASE picks some.
static void run_cases(const char *const *prefix)
{
    for (size_t i = 0; i < COUNT(cases); i++)
        for (int p = 0; prefix[p]; p++) {
            if (strncmp(cases[i].kernel, prefix[p], strlen(prefix[p])) != 0) continue;
            if (getenv("HEALD_VERBOSE"))
                printf("# %s %s %s\n", cases[i].kernel, cases[i].attrs, cases[i].inputs);
            run_case(&cases[i]);
        }
}

#define TEST(name, ...)                                      \
    static void name(void **unused)                          \
    {                                                        \
        (void)unused;                                        \
        run_cases((const char *const[]){__VA_ARGS__, NULL}); \
    }
TEST(softmax, "softmax", "log_softmax")
TEST(norms, "layer_norm", "rms_norm", "instance_norm")
TEST(reductions, "reduce_", "global_")
TEST(places, "argm")
TEST(pools, "max_pool", "average_pool")
TEST(transposes, "transpose")
TEST(products, "matmul")
TEST(convolutions, "conv", "depthwise")

// Texts share one space of names, and a later declaration replaces an earlier one: within lib/ that
// would be an accident, seen only as a template that no longer fits.
static void names(void **unused)
{
    (void)unused;
    Kit *k = kit_new("math");
    Map seen[3] = {{0}};
    glob_t files;
    assert_int_equal(glob("lib/*.hd", 0, NULL, &files), 0);
    assert_int_equal(glob("lib/*/*.hd", GLOB_APPEND, NULL, &files), 0);
    glob("lib/*/*/*.hd", GLOB_APPEND, NULL, &files);
    for (size_t i = 0; i < files.gl_pathc; i++) {
        char *text;
        size_t size;
        assert_null(file_read(&k->arena, files.gl_pathv[i], &text, &size));
        Source *s = sources_add(&k->sources, files.gl_pathv[i], text, size);
        Node *file = parse_file(&k->arena, k->lib.names, s, &k->diag);
        if (!file) kit_fail(k, files.gl_pathv[i]);
        for (int d = 0; d < NREST(file); d++) {
            Node *n = REST(file)[d];
            int kind = n->kind == N_FN ? 0 : n->kind == N_OP ? 1 : n->kind == N_KERNEL ? 2 : -1;
            if (kind < 0) continue;
            if (map_has(&seen[kind], n->u.sym))
                fail_msg("'%s' is declared in %s and in %s", n->u.sym, files.gl_pathv[i],
                         (const char *)map_get(&seen[kind], n->u.sym));
            map_put(&k->arena, &seen[kind], n->u.sym, (void *)s->name);
        }
    }
    globfree(&files);
    kit_free(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),      cmocka_unit_test(softmax),  cmocka_unit_test(norms),
        cmocka_unit_test(reductions), cmocka_unit_test(places),   cmocka_unit_test(pools),
        cmocka_unit_test(transposes), cmocka_unit_test(products), cmocka_unit_test(convolutions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
