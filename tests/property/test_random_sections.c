// SPDX-License-Identifier: Apache-2.0
// Random graphs with extents that the data decides, branches and loops. What they mean: all inputs
// known, everything folds and loops unroll. Compiled sections, by the interpreter and as C, must
// give the same for data of several sizes, one after another through the same model.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "api/section.h"
#include "base/util.h"
#include "runtime/memory.h"

enum { MAX_VALUES = 64, SETS = 3 };

typedef struct Made {
    GraphValue *v;
    int shape; // values of the same number have the same extents
    int cols;  // 0: one axis
} Made;

typedef struct Maker {
    Arena *arena;
    Graph *g;
    OpTable *ops;
    uint64_t seed;
    Made made[MAX_VALUES];
    int n, nshape;
    const GraphGuard *guard;
    Buf text; // one line a node
} Maker;

static int roll(Maker *m, int n)
{
    m->seed = m->seed * 6364136223846793005u + 1442695040888963407u;
    return (int)((m->seed >> 33) % (uint64_t)n);
}

static GraphValue *constant(Maker *m, DType type, int n, const int64_t *at)
{
    int64_t dims[] = {n};
    char *data = arena_alloc(m->arena, 64);
    for (int i = 0; i < n || i == 0; i++)
        dtype_store_i64(type, data + (size_t)i * dtype_size(type), at[i]);
    return graph_constant(m->g, "constant", type, n > 0, dims, data);
}

static GraphValue *number(Maker *m, DType type, int64_t v)
{
    return constant(m, type, 0, &v);
}

static GraphNode *node(Maker *m, const char *op, int nin, GraphValue **in, int nout,
                       GraphValue **out)
{
    bool known;
    for (int i = 0; i < nout; i++)
        out[i] =
            graph_value(m->g, arena_printf(m->arena, "v%d", m->g->values.n), DT_NONE, -1, NULL);
    GraphNode *n = graph_node(m->g, arena_printf(m->arena, "%s_%d", op, m->g->nodes.n), op,
                              op_table_onnx(m->ops, op, 18, &known), nin, in, nout, out);
    n->guard = m->guard;
    buf_printf(&m->text, "%s%s =", m->guard ? "  in a branch: " : "", out[0]->name);
    buf_printf(&m->text, " %s", op);
    for (int i = 0; i < nin; i++) buf_printf(&m->text, " %s", in[i] ? in[i]->name : "-");
    buf_putc(&m->text, '\n');
    return n;
}

static GraphValue *op1(Maker *m, const char *op, GraphValue *x)
{
    GraphValue *y;
    node(m, op, 1, &x, 1, &y);
    return y;
}

static GraphValue *op2(Maker *m, const char *op, GraphValue *x, GraphValue *y)
{
    GraphValue *in[] = {x, y}, *z;
    node(m, op, 2, in, 1, &z);
    return z;
}

static GraphValue *joined(Maker *m, GraphValue *x, GraphValue *y)
{
    GraphValue *in[] = {x, y}, *z;
    graph_attr(m->g, node(m, "Concat", 2, in, 1, &z), "axis", value_int(0));
    return z;
}

static GraphValue *sum(Maker *m, GraphValue *x)
{
    GraphValue *y;
    graph_attr(m->g, node(m, "ReduceSum", 1, &x, 1, &y), "keepdims", value_int(0));
    return y;
}

static void add(Maker *m, GraphValue *v, int shape, int cols)
{
    if (m->n < MAX_VALUES) m->made[m->n++] = (Made){v, shape, cols};
}

static Made any(Maker *m)
{
    return m->made[roll(m, m->n)];
}

// Of the same extents, or the same again.
static Made partner(Maker *m, Made x, bool same_cols_only)
{
    for (int i = 0; i < 8; i++) {
        Made y = any(m);
        if (same_cols_only ? y.cols == x.cols : y.shape == x.shape) return y;
    }
    return x;
}

static GraphValue *is_positive(Maker *m, GraphValue *x)
{
    return op2(m, "Greater", x, number(m, DT_F32, 0));
}

// ---- kinds of nodes

static void elementwise(Maker *m)
{
    static const char *const unary[] = {"Relu", "Neg", "Abs"}, *const binary[] = {"Add", "Sub",
                                                                                  "Max"};
    Made x = any(m), y = partner(m, x, false);
    GraphValue *v =
        roll(m, 2) ? op1(m, unary[roll(m, 3)], x.v) : op2(m, binary[roll(m, 3)], x.v, y.v);
    add(m, v, x.shape, x.cols);
}

static void compressed(Maker *m)
{
    Made x = any(m);
    GraphValue *key = x.v;
    if (x.cols) {
        GraphValue *in[] = {x.v, constant(m, DT_I64, 1, (int64_t[]){1})};
        graph_attr(m->g, node(m, "ReduceSum", 2, in, 1, &key), "keepdims", value_int(0));
    }
    GraphValue *in[] = {x.v, is_positive(m, key)}, *v;
    graph_attr(m->g, node(m, "Compress", 2, in, 1, &v), "axis", value_int(0));
    add(m, v, ++m->nshape, x.cols);
}

static void non_zero(Maker *m)
{
    Made x = any(m);
    GraphValue *at = op1(m, "Transpose", op1(m, "NonZero", x.v)), *v;
    graph_attr(m->g, node(m, "Cast", 1, &at, 1, &v), "to", value_int(1));
    add(m, v, ++m->nshape, x.cols ? 2 : 1);
}

static void unique(Maker *m)
{
    Made x = any(m);
    add(m, op1(m, "Unique", x.v), ++m->nshape, 0);
}

static void moved(Maker *m)
{
    Made x = any(m), y = partner(m, x, true);
    if (roll(m, 2)) {
        add(m, joined(m, x.v, y.v), ++m->nshape, x.cols);
        return;
    }
    GraphValue *in[] = {x.v, constant(m, DT_I64, 1, (int64_t[]){roll(m, 2)}),
                        constant(m, DT_I64, 1, (int64_t[]){3}),
                        constant(m, DT_I64, 1, (int64_t[]){0})},
               *v;
    node(m, "Slice", 4, in, 1, &v);
    add(m, v, ++m->nshape, x.cols);
}

static void branches(Maker *m)
{
    Made x = any(m), y = any(m);
    bool other = roll(m, 2);
    GraphValue *in[3] = {is_positive(m, sum(m, y.v))}, *v;
    for (int side = 0; side < 2; side++) {
        GraphGuard *guard = NEW(m->arena, GraphGuard);
        *guard = (GraphGuard){.cond = in[0], .is = !side, .outer = m->guard};
        m->guard = guard;
        in[1 + side] = op1(m, side ? "Neg" : "Relu", x.v);
        if (side && other) in[1 + side] = joined(m, in[1 + side], x.v);
        m->guard = guard->outer;
    }
    GraphNode *n = node(m, "If", 3, in, 1, &v);
    n->is_if = true;
    add(m, v, other ? ++m->nshape : x.shape, x.cols);
}

// Turns as often as a sum says, from 0 to 3 times; what is carried may grow.
static void loop(Maker *m)
{
    Made x = any(m), y = partner(m, x, roll(m, 2));
    bool grows = roll(m, 2) || x.shape != y.shape;
    GraphValue *clip[] = {sum(m, any(m).v), number(m, DT_F32, 0), number(m, DT_F32, 3)}, *count;
    GraphValue *in[3] = {NULL, NULL, x.v}, *out[2];
    GraphValue *limited;
    node(m, "Clip", 3, clip, 1, &limited);
    graph_attr(m->g, node(m, "Cast", 1, &limited, 1, &count), "to", value_int(7));
    in[0] = count;
    GraphBody *b = NEW(m->arena, GraphBody);
    GraphNodes outer = m->g->nodes;
    m->g->nodes = (GraphNodes){0};
    for (int i = 0; i < 3; i++)
        VEC_PUSH(m->arena, &b->inputs, graph_value(m->g, "carried", DT_NONE, -1, NULL));
    GraphValue *v = b->inputs.at[2], *each = sum(m, v);
    VEC_PUSH(m->arena, &b->outputs, op1(m, "Identity", b->inputs.at[1]));
    VEC_PUSH(m->arena, &b->outputs, grows ? joined(m, v, y.v) : op2(m, "Sub", y.v, v));
    VEC_PUSH(m->arena, &b->outputs, each);
    b->nodes = m->g->nodes;
    m->g->nodes = outer;
    GraphNode *n = node(m, "Loop", 3, in, 2, out);
    n->control = CONTROL_LOOP;
    n->body = b;
    add(m, out[0], grows ? ++m->nshape : x.shape, x.cols);
    add(m, out[1], ++m->nshape, 0);
}

static Graph *make(Maker *m, int nnode)
{
    static void (*const kinds[])(Maker *) = {elementwise, elementwise, compressed, non_zero,
                                             unique,      moved,       branches,   loop};
    Value rows = value_str(intern(m->g->library->names, "rows"));
    add(m, graph_input(m->g, "a", DT_F32, 1, &rows), ++m->nshape, 0);
    add(m, graph_input(m->g, "b", DT_F32, 1, &rows), m->nshape, 0);
    Value dims[] = {value_none(), value_int(2)};
    add(m, graph_input(m->g, "c", DT_F32, 2, dims), ++m->nshape, 2);
    for (int i = 0; i < nnode; i++) kinds[roll(m, (int)COUNT(kinds))](m);
    for (int i = 3; i < m->n; i++)
        if (i + 2 >= m->n || !m->made[i].v->readers.n) graph_output(m->g, m->made[i].v);
    return m->g;
}

// ---- what it means, and what is compiled

typedef struct Data {
    heald_tensor *in[3];
    const GraphValue *const *want; // the outputs; NULL: the graph forbids the data
} Data;

static void fill(Maker *m, Data *d, int set)
{
    int64_t n = 1 + roll(m, 4) + set, k = 1 + roll(m, 3), two[] = {k, 2};
    assert_int_equal(tensor_create(DT_F32, 1, &n, &d->in[0], NULL), HEALD_OK);
    assert_int_equal(tensor_create(DT_F32, 1, &n, &d->in[1], NULL), HEALD_OK);
    assert_int_equal(tensor_create(DT_F32, 2, two, &d->in[2], NULL), HEALD_OK);
    for (int i = 0; i < 3; i++)
        for (int64_t e = 0; e < d->in[i]->nelem; e++)
            ((float *)d->in[i]->data)[e] = (float)(roll(m, 7) - 3);
}

static void fold(heald_context *c, const Graph *g, Arena *a, Data *d)
{
    const int64_t *dims[3];
    const void *data[3];
    int rank[3];
    for (int i = 0; i < 3; i++) {
        dims[i] = d->in[i]->dims;
        rank[i] = d->in[i]->rank;
        data[i] = d->in[i]->data;
    }
    Specialisation s = {.dims = dims, .rank = rank, .data = data};
    diag_clear(&c->diag);
    const Graph *to = graph_specialise(g, a, &s, &c->host, &c->diag);
    for (int i = 0; to && i < to->outputs.n; i++)
        if (!to->outputs.at[i]->data) to = NULL;
    d->want = to ? (const GraphValue *const *)to->outputs.at : NULL;
}

static void compare(const Maker *m, const heald_tensor *got, const GraphValue *want)
{
    int64_t dims[GRAPH_MAX_RANK];
    graph_value_dims(want, dims);
    bool same = got->rank == want->rank && got->dtype == want->type &&
                !memcmp(got->dims, dims, (size_t)got->rank * sizeof *dims);
    for (int64_t i = 0; same && i < got->nelem; i++)
        same = ((const float *)got->data)[i] == ((const float *)want->data)[i];
    if (!same) fail_msg("'%s' differs\n%s", want->name, m->text.text);
}

typedef struct Test {
    uint64_t seed;
    int from, count;
    const char *target;
    int nrun, ncut; // sets of data that were run, graphs of more than one section
} Test;

static void try_one(heald_context *c, Arena *a, Test *t, int i)
{
    Maker m = {.arena = a, .ops = context_ops(c), .seed = t->seed + (uint64_t)i * 7919};
    buf_init(&m.text, a);
    buf_printf(&m.text, "graph %d\n", i);
    m.g = graph_new(a, &c->library, m.ops, "random");
    const Graph *g = make(&m, 3 + roll(&m, 8));
    Data data[SETS] = {0};
    ModelSection s;
    model_section_init(&s, c, g);
    for (int k = 0; k < SETS; k++) {
        fill(&m, &data[k], k);
        fold(c, g, a, &data[k]);
        if (!data[k].want) continue;
        heald_tensor **out = NEW_ARRAY(a, heald_tensor *, g->outputs.n);
        diag_clear(&c->diag);
        heald_status status = section_run_host(&s.base, data[k].in, out, &c->error);
        Buf why;
        buf_init(&why, a);
        diag_render(&c->diag, &why);
        if (status) fail_msg("%s%s\n%s", buf_text(&why), c->error.text, m.text.text);
        for (int o = 0; o < g->outputs.n; o++) compare(&m, out[o], data[k].want[o]);
        for (int o = 0; o < g->outputs.n; o++) heald_tensor_release(out[o]);
        t->nrun++;
    }
    SectionCount count = {0};
    model_section_count(&s, &count);
    t->ncut += count.nsection > 1;
    model_section_free(&s);
    for (int k = 0; k < SETS; k++)
        for (int x = 0; x < 3; x++) heald_tensor_release(data[k].in[x]);
}

static heald_status body(heald_context *c, Arena *scratch, void *user)
{
    UNUSED(scratch);
    Test *t = user;
    for (int i = t->from; i < t->from + t->count; i++) {
        Arena a = {.nomem = &c->nomem};
        try_one(c, &a, t, i);
        arena_free(&a);
    }
    return HEALD_OK;
}

static void random_sections(void **state)
{
    Test *t = *state;
    heald_context *c;
    heald_context_options o = HEALD_CONTEXT_OPTIONS(.threads = 2, .target = t->target);
    assert_int_equal(heald_context_create(HEALD_VERSION, &o, &c), HEALD_OK);
    assert_int_equal(context_call(c, body, t), HEALD_OK);
    heald_context_destroy(c);
    printf("# %s: %d graphs, %d of several sections, %d sets of data\n", t->target, t->count,
           t->ncut, t->nrun);
    assert_true(t->count < 4 || (t->nrun >= t->count * SETS / 2 && t->ncut * 3 >= t->count));
}

// --seed N --count N --first N: others than the usual ones.
int main(int argc, char **argv)
{
    Test interp = {.seed = 1, .count = 60, .target = "interp"};
    Test cpu = {.seed = 2, .count = 4, .target = "cpu"};
    for (int i = 1; i + 1 < argc; i += 2) {
        int64_t v = strtoll(argv[i + 1], NULL, 10);
        if (!strcmp(argv[i], "--seed")) interp.seed = cpu.seed = (uint64_t)v;
        if (!strcmp(argv[i], "--count")) interp.count = (int)v;
        if (!strcmp(argv[i], "--first")) interp.from = (int)v;
        if (!strcmp(argv[i], "--compiled")) cpu.count = (int)v;
    }
    const struct CMUnitTest tests[] = {
        {"interpreter", random_sections, NULL, NULL, &interp},
        {"compiled", random_sections, NULL, NULL, &cpu},
    };
    return cmocka_run_group_tests_name("random sections", tests, NULL, NULL);
}
