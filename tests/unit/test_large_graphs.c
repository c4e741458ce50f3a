// SPDX-License-Identifier: Apache-2.0
// Graphs of many thousand nodes in a row, on a stack that holds no frame for each of them. What
// takes time by their square does not end here before the time of a test is over.
#include "api/model.h"
#include "runtime/memory_plan.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { NODES = 20000, OPERANDS = 3000, PARTS = 600, VALUES = 1000000, STACK_BYTES = 1 << 20 };

static const struct Chain {
    const char *name;
    const char *step, *next; // by turns, of the value before
    const char *last;        // of the last value, or of all; what it gives is the output
    bool all;
} chains[] = {
    // name     step                            next                            last
    {"unread", "sin(%s)", "cos(%s)", "relu(x)", false},
    {"views", "reshape(%s, shape = (2, 8))", "reshape(%s, shape = (4, 4))", "%s + 1.0", false},
    {"moves", "reverse_rows(%s)", "reverse_rows(%s)", "%s", false},
    {"joined", "sin(%s)", "cos(%s)", "concat(%s; axis = 0)", true},
    {"added", "neg(%s)", "sin(%s)", "sum_all(%s)", true},
};

typedef struct Job {
    const char *text;
    heald_status status;
    heald_model *model; // until it is destroyed
    SectionCount count;
    char error[2000];
} Job;

static void write_chain(const struct Chain *c, Buf *out)
{
    buf_puts(out, "op reverse_rows(x: T[m, n]) -> (y: T[m, n]) { y[i, j] = x[m - 1 - i, j]; }\n"
                  "graph g(x: f32[4, 4]) -> (y) {\n");
    const char *before = "x";
    Buf names;
    buf_init(&names, out->arena);
    for (int i = 0; i < (c->all ? OPERANDS : NODES); i++) {
        const char *now = arena_printf(out->arena, "v%d", i);
        buf_printf(out, "  %s = ", now);
        buf_printf(out, i % 2 ? c->next : c->step, before);
        buf_puts(out, ";\n");
        buf_printf(&names, "%s%s", i ? ", " : "", now);
        before = now;
    }
    buf_puts(out, "  y = ");
    buf_printf(out, c->last, c->all ? buf_text(&names) : before);
    buf_puts(out, ";\n}\n");
}

static heald_status count_kernels(heald_context *c, Arena *scratch, void *user)
{
    (void)c, (void)scratch;
    Job *j = user;
    ModelSection *section;
    heald_status s = model_section(j->model, &section);
    if (!s) model_section_count(section, &j->count);
    return s;
}

static void *prepare(void *user)
{
    Job *j = user;
    heald_context *c;
    heald_context_options o = {.struct_size = sizeof o, .target = "interp"};
    heald_model *m = NULL;
    j->status = heald_context_create(HEALD_VERSION, &o, &c);
    if (!j->status) j->status = heald_model_load_text(c, "graph.hd", j->text, "g", &m);
    heald_tensor *x = NULL;
    if (!j->status) j->status = heald_tensor_create(HEALD_F32, 2, (int64_t[]){4, 4}, &x);
    if (!j->status) j->status = heald_model_prepare(m, &x);
    j->model = m;
    if (!j->status) j->status = context_call(c, count_kernels, j);
    strncpy(j->error, heald_last_error(c), sizeof j->error - 1);
    heald_tensor_release(x);
    heald_model_destroy(m);
    heald_context_destroy(c);
    return NULL;
}

// How many kernels that took.
static int prepare_on_small_stack(const char *name, const char *text)
{
    Job job = {.text = text};
    pthread_attr_t attr;
    pthread_t thread;
    pthread_attr_init(&attr);
    assert_int_equal(pthread_attr_setstacksize(&attr, STACK_BYTES), 0);
    assert_int_equal(pthread_create(&thread, &attr, prepare, &job), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attr);
    if (job.status) fail_msg("%s: %s", name, job.error);
    return job.count.nkernel;
}

static void test_chains(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof chains / sizeof *chains; i++) {
        Arena a = {0};
        Buf text;
        buf_init(&text, &a);
        write_chain(&chains[i], &text);
        prepare_on_small_stack(chains[i].name, buf_text(&text));
        arena_free(&a);
    }
}

// Each part knows the extents of all: what is done for one must not take time by their square.
static void test_parts(void **state)
{
    (void)state;
    Arena a = {0};
    Buf text;
    buf_init(&text, &a);
    buf_printf(&text,
               "fn extents() { concat(fill(4, 1), fill(%d, 0)) }\n"
               "graph g(x: f32[4, 4]) -> (y) {\n  y = concat(",
               PARTS - 4);
    for (int i = 0; i < PARTS; i++)
        buf_printf(&text,
                   "%ssplit_part(x; axis = 0, split = extents(), num_outputs = %d, part = %d)",
                   i ? ", " : "", PARTS, i);
    buf_puts(&text, "; axis = 0);\n}\n");
    prepare_on_small_stack("parts", buf_text(&text));
    arena_free(&a);
}

// Parts that differ in where they begin alone.
static void test_equal_parts(void **state)
{
    (void)state;
    Arena a = {0};
    Buf text;
    buf_init(&text, &a);
    buf_puts(&text, "graph g(x: f32[4, 4]) -> (y) {\n  let all = tile(x; repeats = (1, 50));\n"
                    "  y = concat(");
    for (int i = 0; i < 100; i++)
        buf_printf(&text, "%ssoftmax(split_part(all; axis = 1, num_outputs = 100, part = %d))",
                   i ? ", " : "", i);
    buf_puts(&text, "; axis = 0);\n}\n");
    assert_in_range(prepare_on_small_stack("equal parts", buf_text(&text)), 1, 8);
    arena_free(&a);
}

// A million values in a row: what looks at each pair of them takes the better part of an hour.
static void test_memory(void **state)
{
    (void)state;
    Arena a = {0};
    MemoryItem *item = NEW_ARRAY(&a, MemoryItem, VALUES);
    int64_t peak, least;
    Error e;
    for (int i = 0; i < VALUES; i++) item[i] = (MemoryItem){64, i, i + 1, -1, 0};
    assert_int_equal(memory_plan(item, VALUES, &peak, &e), HEALD_OK);
    assert_int_equal(peak, 128);
    // Each takes over from the one before it.
    for (int i = 0; i < VALUES; i++) item[i] = (MemoryItem){64, i, i, i - 1, 0};
    assert_int_equal(memory_plan(item, VALUES, &peak, &e), HEALD_OK);
    assert_int_equal(peak, 64);
    // No order that is tried needs as little as there is at once.
    for (int i = 0; i < VALUES; i++)
        item[i] = (MemoryItem){64 + i % 7 * 640, i, i + i % 5 + (i % 11 ? 0 : 30), -1, 0};
    assert_int_equal(memory_plan(item, VALUES, &peak, &e), HEALD_OK);
    assert_int_equal(memory_lower_bound(item, VALUES, &least, &e), HEALD_OK);
    assert_in_range(peak, least, least * 3 / 2);
    arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_chains), cmocka_unit_test(test_parts),
                                       cmocka_unit_test(test_equal_parts),
                                       cmocka_unit_test(test_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
