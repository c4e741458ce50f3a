// SPDX-License-Identifier: Apache-2.0
// The verifier accepts the sample kernel and rejects each way of breaking it, one row a way.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "unit/ir_sample.h"

#include <string.h>

static Node *number(Arena *a)
{
    return node_float(a, 0, DT_F32, 1);
}

static void run(Arena *a, Sample *s, Node *stmt)
{
    s->stage->body = node_seq(a, 0, 2, (Node *[]){s->stage->body, stmt});
}

static void evaluate(Arena *a, Sample *s, Node *n)
{
    run(a, s, node_unary(a, N_EVAL, n));
}

// ---- expressions

static void operand_types(Arena *a, Sample *s)
{
    evaluate(a, s, node_binary(a, N_ADD, node_i64(a, 1), number(a)));
}

static void result_type(Arena *a, Sample *s)
{
    Node *n = node_binary(a, N_ADD, number(a), number(a));
    n->type = DT_F64;
    evaluate(a, s, n);
}

static void bool_sum(Arena *a, Sample *s)
{
    Node *yes = node_int(a, 0, DT_BOOL, 1);
    evaluate(a, s, node_binary(a, N_ADD, yes, yes));
}

static void float_shift(Arena *a, Sample *s)
{
    evaluate(a, s, node_binary(a, N_SHL, number(a), number(a)));
}

static void int_logic(Arena *a, Sample *s)
{
    evaluate(a, s, node_unary(a, N_NOT, node_i64(a, 1)));
}

static void wide_constant(Arena *a, Sample *s)
{
    Node *n = node_int(a, 0, DT_I8, 1);
    n->u.i = 1000;
    evaluate(a, s, n);
}

static void unrounded_constant(Arena *a, Sample *s)
{
    Node *n = number(a);
    n->u.f = 0.1;
    evaluate(a, s, n);
}

static void select_condition(Arena *a, Sample *s)
{
    evaluate(a, s, node_select(a, node_i64(a, 1), number(a), number(a)));
}

static void ramp_of_ramp(Arena *a, Sample *s)
{
    Node *ramp = node_unary(a, N_RAMP, node_i64(a, 0));
    ramp->lanes = 4;
    Node *outer = node_unary(a, N_RAMP, ramp);
    evaluate(a, s, outer);
}

static void bitcast_size(Arena *a, Sample *s)
{
    Node *n = node_unary(a, N_BITCAST, number(a));
    n->type = DT_I64;
    evaluate(a, s, n);
}

static void missing_child(Arena *a, Sample *s)
{
    evaluate(a, s, node_new(a, N_ADD, 0, 2));
}

static void text_node(Arena *a, Sample *s)
{
    evaluate(a, s, node_binary(a, N_POW, number(a), number(a)));
}

static void statement_as_value(Arena *a, Sample *s)
{
    evaluate(a, s, node_new(a, N_SEQ, 0, 0));
}

static void barrier_as_value(Arena *a, Sample *s)
{
    Node *barrier = call_of(a, INTR_BARRIER, DT_NONE, 0, NULL);
    run(a, s, node_make(a, N_CHECK, 0, 1, &barrier));
}

// ---- names and memory

static void var_out_of_scope(Arena *a, Sample *s)
{
    evaluate(a, s, node_var(a, 0, s->kt)); // after its loop
}

static void bound_twice(Arena *a, Sample *s)
{
    Node *define = with_var(node_make(a, N_DEFINE, 0, 1, (Node *[]){node_i64(a, 0)}), s->i);
    s->stage->body = node_seq(a, 0, 2, (Node *[]){define, s->stage->body});
}

static void set_immutable(Arena *a, Sample *s)
{
    run(a, s, with_var(node_make(a, N_SET, 0, 1, (Node *[]){node_i64(a, 0)}), s->thread));
}

static void wrong_value(Arena *a, Sample *s)
{
    s->stage->body->kid[3] =
        with_var(node_make(a, N_SET, 0, 1, (Node *[]){node_i64(a, 0)}), s->sum);
}

static void buffer_out_of_scope(Arena *a, Sample *s)
{
    Node *zero = node_i64(a, 0);
    evaluate(a, s, access_of(a, N_LOAD, s->acc, 2, (Node *[]){zero, zero}));
}

static void rank(Arena *a, Sample *s)
{
    Node *zero = node_i64(a, 0);
    evaluate(a, s, access_of(a, N_LOAD, s->x, 1, &zero));
}

static void index_type(Arena *a, Sample *s)
{
    Node *n = number(a);
    evaluate(a, s, access_of(a, N_LOAD, s->part, 1, &n));
}

static void element_type(Arena *a, Sample *s)
{
    UNUSED(a);
    s->load->type = DT_F16;
}

static void store_lanes(Arena *a, Sample *s)
{
    Node *ramp = node_unary(a, N_RAMP, node_i64(a, 0));
    ramp->u.i = 1;
    ramp->lanes = 4;
    run(a, s, access_of(a, N_STORE, s->part, 2, (Node *[]){number(a), ramp}));
}

static void store_to_input(Arena *a, Sample *s)
{
    UNUSED(a);
    s->y->output = false;
}

static void mapping_rank(Arena *a, Sample *s)
{
    const char *why;
    s->acc->over = mapping_spatial(a, 1, (int64_t[]){32}, NULL, &why);
}

static void mapping_shape(Arena *a, Sample *s)
{
    s->acc->extent[0] = node_i64(a, 17);
}

static void dynamic_shared(Arena *a, Sample *s)
{
    s->tile->extent[0] = node_var(a, 0, s->n);
}

static void memory_space(Arena *a, Sample *s)
{
    UNUSED(a);
    s->tile->space = SPACE_LOCAL;
}

static void param_order(Arena *a, Sample *s)
{
    UNUSED(a);
    s->x->output = true;
    s->y->output = false;
}

// ---- intrinsics

static void argument_count(Arena *a, Sample *s)
{
    evaluate(a, s, call_of(a, INTR_FMA, DT_F32, 1, (Node *[]){number(a)}));
}

static void argument_types(Arena *a, Sample *s)
{
    Node *two = node_i64(a, 2);
    evaluate(a, s, call_of(a, INTR_COPYSIGN, DT_F32, 2, (Node *[]){number(a), two}));
}

static void not_a_place(Arena *a, Sample *s)
{
    evaluate(a, s, call_of(a, INTR_ATOMIC_ADD, DT_F32, 2, (Node *[]){number(a), number(a)}));
}

static void place_type(Arena *a, Sample *s)
{
    Node *zero = node_i64(a, 0), *place = access_of(a, N_REF, s->part, 1, &zero);
    evaluate(a, s, call_of(a, INTR_ATOMIC_ADD, DT_I64, 2, (Node *[]){place, zero}));
}

static void undefined_on(Arena *a, Sample *s)
{
    evaluate(a, s, call_of(a, INTR_SQRT, DT_I64, 1, (Node *[]){node_i64(a, 4)}));
}

static void intrinsic_result(Arena *a, Sample *s)
{
    evaluate(a, s, call_of(a, INTR_SQRT, DT_F64, 1, (Node *[]){number(a)}));
}

// ---- statements and the kernel

static void break_outside(Arena *a, Sample *s)
{
    run(a, s, node_new(a, N_BREAK, 0, 0));
}

static void break_in_mapping(Arena *a, Sample *s)
{
    Node **body = &KID(s->mapfor, MAPFOR, body);
    *body = node_seq(a, 0, 2, (Node *[]){*body, node_new(a, N_CONTINUE, 0, 0)});
}

static void condition_type(Arena *a, Sample *s)
{
    run(a, s, node_make(a, N_WHILE, 0, 2, (Node *[]){node_i64(a, 1), node_new(a, N_SEQ, 0, 0)}));
}

static void loop_bound(Arena *a, Sample *s)
{
    KID(s->loop, LOOP, hi) = number(a);
}

static void mapfor_names(Arena *a, Sample *s)
{
    const char *why;
    s->mapfor->u.map = mapping_repeat(a, 1, (int64_t[]){4}, NULL, NULL, &why);
}

static void lane_outside(Arena *a, Sample *s)
{
    evaluate(a, s, node_var(a, 0, builtin(s, "lane", VAR_LANE)));
}

static void lowered_mapping(Arena *a, Sample *s)
{
    UNUSED(a);
    s->k->lowered = true;
}

static void expression_as_statement(Arena *a, Sample *s)
{
    run(a, s, number(a));
}

static void grid_type(Arena *a, Sample *s)
{
    s->stage->grid[0] = number(a);
}

static void no_body(Arena *a, Sample *s)
{
    UNUSED(a);
    s->stage->body = NULL;
}

static void builtin_type(Arena *a, Sample *s)
{
    UNUSED(a);
    s->thread->builtin = VAR_CORE;
}

static void no_stage(Arena *a, Sample *s)
{
    UNUSED(a);
    s->k->stages.n = 0;
}

static void requirement_type(Arena *a, Sample *s)
{
    s->k->requirements.at[0].cond = node_i64(a, 1);
}

static void dim_kind(Arena *a, Sample *s)
{
    UNUSED(a);
    s->n->builtin = VAR_NORMAL;
}

static const struct Way {
    void (*make)(Arena *a, Sample *s);
    const char *message; // part of it
} ways[] = {
    {operand_types, "ADD: types differ (i64, f32)"},
    {result_type, "ADD of f32 has type f64"},
    {bool_sum, "ADD is not defined on bool"},
    {float_shift, "SHL is not defined on f32"},
    {int_logic, "NOT is not defined on i64"},
    {wide_constant, "INT 1000 does not fit i8"},
    {unrounded_constant, "no value of f32"},
    {select_condition, "SELECT: condition is i64"},
    {ramp_of_ramp, "RAMP of i64x4"},
    {bitcast_size, "BITCAST from f32 to i64"},
    {missing_child, "ADD lacks child 0 of (a, b)"},
    {text_node, "POW does not belong"},
    {statement_as_value, "SEQ where a value is expected"},
    {barrier_as_value, "INTRIN where a value is expected"},
    {var_out_of_scope, "kt is not in scope"},
    {bound_twice, "i is bound twice"},
    {set_immutable, "SET of thread, which is immutable"},
    {wrong_value, "sum of type f32 gets i64"},
    {buffer_out_of_scope, "memory acc is not in scope"},
    {rank, "1 indices for rank 2"},
    {index_type, "index of part is f32"},
    {element_type, "whose elements are f32"},
    {store_lanes, "in 4 lanes has type f32"},
    {store_to_input, "STORE to the input y"},
    {mapping_rank, "acc of rank 2 is over a mapping of rank 1"},
    {mapping_shape, "extent 0 is not the mapping's 16"},
    {dynamic_shared, "extents of tile are not constant"},
    {memory_space, "local memory tile of a stage"},
    {param_order, "y is not in order as parameter 1"},
    {argument_count, "fma with 1 arguments"},
    {argument_types, "types differ (f32, i64)"},
    {not_a_place, "FLOAT where a place is expected"},
    {place_type, "atomic_add: i64 at a place of f32"},
    {undefined_on, "sqrt is not defined on i64"},
    {intrinsic_result, "sqrt gives f64 here"},
    {break_outside, "BREAK outside a loop"},
    {break_in_mapping, "CONTINUE outside a loop"},
    {condition_type, "WHILE: condition is i64, not bool"},
    {loop_bound, "LOOP: end is f32, not i64"},
    {mapfor_names, "2 names for a mapping of rank 1"},
    {lane_outside, "lane read outside a loop over lanes"},
    {lowered_mapping, "MAPFOR in a lowered kernel"},
    {lowered_mapping, "x is not flat in a lowered kernel"},
    {expression_as_statement, "FLOAT where a statement is expected"},
    {grid_type, "grid is f32, not i64"},
    {no_body, "the body of a stage is nothing"},
    {builtin_type, "is another variable, thread"},
    {no_stage, "the kernel has no stage"},
    {requirement_type, "condition is i64, not bool"},
    {dim_kind, "n is no dimension"},
};

// Whether the kernel is accepted; the messages go to *text.
static bool accepted(Arena *a, const Sample *s, const char **text)
{
    Sources sources = {.arena = a};
    Diag d;
    Buf out;
    diag_init(&d, a, &sources);
    bool ok = kernel_verify(s->k, &d);
    buf_init(&out, a);
    diag_render(&d, &out);
    *text = buf_text(&out);
    assert_int_equal(ok, d.nerror == 0);
    return ok;
}

static void test_accepts(void **state)
{
    UNUSED(state);
    Arena a = {0};
    const char *text;
    Sample s = sample(&a);
    if (!accepted(&a, &s, &text)) fail_msg("%s", text);
    arena_free(&a);
}

static void test_rejects(void **state)
{
    UNUSED(state);
    for (size_t i = 0; i < COUNT(ways); i++) {
        Arena a = {0};
        const char *text;
        Sample s = sample(&a);
        ways[i].make(&a, &s);
        if (accepted(&a, &s, &text) || !strstr(text, ways[i].message)) {
            fail_msg("wanted \"%s\", got: %s", ways[i].message, text);
        }
        arena_free(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_accepts),
                                       cmocka_unit_test(test_rejects)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
