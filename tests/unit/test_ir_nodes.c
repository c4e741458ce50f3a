// SPDX-License-Identifier: Apache-2.0
// The node and intrinsic tables, the constructors and what works on any tree.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/os.h"
#include "ir/kernel.h"
#include "ir/scalar.h"

#include <math.h>
#include <string.h>

static int words(const char *list)
{
    if (!strcmp(list, "()")) return 0;
    int n = 1;
    for (const char *c = list; *c; c++) n += *c == ',';
    return n;
}

static void test_node_rows(void **state)
{
    UNUSED(state);
    for (int k = N_NONE + 1; k < N_COUNT; k++) {
        const NodeInfo *info = &node_info[k];
        assert_non_null(info->name);
        assert_true(strlen(info->spelling) > 0);
        assert_int_equal(words(info->children), info->nfixed);
        assert_int_equal(info->optional >> info->nfixed, 0);
        if (info->form == FORM_T) continue;
        assert_true(info->class == CLASS_E || info->class == CLASS_S);
        for (int other = N_NONE + 1; other < k; other++) {
            assert_string_not_equal(node_info[other].name, info->name);
        }
    }
}

// docs/ir.md has a row "| NAME | (children) |" for each node of kernel IR: [optional], ... for
// more.
static void test_node_documentation(void **state)
{
    UNUSED(state);
    Arena a = {0};
    char *text;
    size_t size;
    assert_null(file_read(&a, "docs/ir.md", &text, &size));
    for (int k = N_NONE + 1; k < N_COUNT; k++) {
        const NodeInfo *info = &node_info[k];
        if (info->form == FORM_T) continue;
        Buf row;
        buf_init(&row, &a);
        buf_printf(&row, "| %s | (", info->name);
        const char *name = info->children + 1;
        for (int i = 0; i < info->nfixed; i++) {
            int length = (int)strcspn(name, ",)");
            bool optional = info->optional >> i & 1;
            buf_printf(&row, "%s%s%.*s%s", i ? ", " : "", optional ? "[" : "", length, name,
                       optional ? "]" : "");
            name += length + 2;
        }
        buf_printf(&row, "%s%s) |", info->variadic && info->nfixed ? ", " : "",
                   info->variadic ? "..." : "");
        if (!strstr(text, buf_text(&row))) fail_msg("docs/ir.md lacks %s", buf_text(&row));
    }
    arena_free(&a);
}

static void test_intrinsic_rows(void **state)
{
    UNUSED(state);
    for (int i = 0; i < INTR_COUNT; i++) {
        const Intrinsic *row = &intrinsics[i];
        size_t nargs = strlen(row->args);
        assert_int_equal(strspn(row->args, "vir*"), nargs);
        assert_true(!strcspn(row->args, "*") || strcspn(row->args, "*") + 1 >= nargs);
        assert_int_equal(strspn(row->flags, "PE"), 1);
        assert_int_equal(strlen(row->flags), 1);
        assert_true(strlen(row->type) == 1 || dtype_from_name(row->type) != DT_NONE);
        assert_true(row->type[0] != 'v' || row->type[1] || strchr(row->args, 'v'));
        // ldmatrix and stmatrix have no text: a pass splits them into rows that have
        IntrinsicId id = intrinsic_id(row);
        assert_true(row->c[0] || row->cuda[0] || id == INTR_LDMATRIX || id == INTR_STMATRIX);
        assert_true(strlen(row->meaning) > 0);
        assert_ptr_equal(intrinsic_find(row->name, (int)strcspn(row->args, "*")), row);
        assert_int_equal(intrinsic_id(row), i);
    }
    assert_null(intrinsic_find("fma", 2));
    assert_null(intrinsic_find("no_such_thing", 0));
    assert_ptr_equal(intrinsic_find("print", 7), &intrinsics[INTR_PRINT]);
    assert_ptr_equal(intrinsic_find("barrier", 2), &intrinsics[INTR_BARRIER_ID]);
}

static void test_constructors_type(void **state)
{
    UNUSED(state);
    Arena a = {0};
    Node *x = node_float(&a, 7, DT_F32, 0.1), *y = node_float(&a, 9, DT_F32, 2);
    assert_true(x->u.f == (double)0.1f);
    assert_int_equal(node_int(&a, 0, DT_U8, -1)->u.i, 255);
    Node *sum = node_binary(&a, N_ADD, x, y);
    assert_int_equal(sum->type, DT_F32);
    assert_int_equal(sum->loc, 7);
    Node *less = node_binary(&a, N_LT, x, y);
    assert_int_equal(less->type, DT_BOOL);
    assert_int_equal(node_select(&a, less, x, y)->type, DT_F32);
    assert_ptr_equal(node_cast(&a, DT_F32, x), x);
    assert_int_equal(node_cast(&a, DT_I8, x)->type, DT_I8);
    Node *wide = node_make(&a, N_BROADCAST, 0, 1, &x);
    wide->lanes = 8;
    assert_int_equal(node_unary(&a, N_NEG, wide)->lanes, 8);
    assert_int_equal(node_make(&a, N_EXTRACT, 0, 2, (Node *[]){wide, node_i64(&a, 0)})->lanes, 1);
    Node *text = node_int(&a, 0, DT_NONE, 300);
    assert_int_equal(node_binary(&a, N_EQ, text, text)->type, DT_NONE);
    arena_free(&a);
}

static void test_seq_flattens(void **state)
{
    UNUSED(state);
    Arena a = {0};
    Var v = {.name = "x", .type = DT_I64, .lanes = 1};
    Node *stop = node_new(&a, N_BREAK, 0, 0);
    Node *define = node_make(&a, N_DEFINE, 0, 1, (Node *[]){node_i64(&a, 1)});
    define->u.var = &v;
    Node *plain = node_seq(&a, 0, 2, (Node *[]){stop, stop});
    Node *scoped = node_seq(&a, 0, 2, (Node *[]){define, stop});
    Node *deep = node_seq(&a, 0, 2, (Node *[]){plain, NULL});
    Node *all = node_seq(&a, 0, 3, (Node *[]){deep, scoped, stop});
    assert_int_equal(all->nkid, 4);
    assert_ptr_equal(all->kid[2], scoped);
    assert_ptr_equal(node_seq(&a, 0, 1, &scoped), scoped);
    assert_int_equal(node_seq(&a, 0, 0, NULL)->nkid, 0);
    arena_free(&a);
}

static void test_subst_and_equality(void **state)
{
    UNUSED(state);
    Arena a = {0};
    Var x = {.name = "x", .id = 1, .type = DT_I64, .lanes = 1};
    Var y = {.name = "y", .id = 2, .type = DT_I64, .lanes = 1, .mutable = true};
    Node *rx = node_var(&a, 3, &x), *ry = node_var(&a, 4, &y), *two = node_i64(&a, 2);
    Node *left = node_binary(&a, N_MUL, rx, two), *right = node_binary(&a, N_ADD, ry, two);
    Node *whole = node_binary(&a, N_SUB, left, right);
    Map values = {0};
    assert_ptr_equal(node_subst(&a, whole, &values), whole);
    map_put(&a, &values, &x, two);
    Node *changed = node_subst(&a, whole, &values);
    assert_ptr_not_equal(changed, whole);
    assert_ptr_equal(changed->kid[1], right); // shared where nothing changed
    assert_true(node_is_const(changed->kid[0]->kid[0], 2));
    assert_int_equal(changed->loc, whole->loc);

    Node *again = node_binary(&a, N_MUL, node_var(&a, 99, &x), node_i64(&a, 2));
    assert_true(node_equal(left, again)); // places do not count
    assert_true(node_hash(left) == node_hash(again));
    assert_false(node_equal(left, right));
    assert_false(node_equal(node_int(&a, 0, DT_I32, 2), two));
    Node *zero = node_float(&a, 0, DT_F32, 0.0), *minus = node_float(&a, 0, DT_F32, -0.0);
    assert_false(node_equal(zero, minus));

    assert_true(node_pure(left));
    assert_false(node_pure(right)); // y is mutable
    assert_true(node_uses_var(whole, &y));
    assert_false(node_uses_var(changed, &x));
    arena_free(&a);
}

static void test_kernel_clone(void **state)
{
    UNUSED(state);
    Arena a = {0}, b = {0};
    Kernel k = {.arena = &a};
    Var *n = kernel_var(&k, "n", DT_I64, false);
    n->builtin = VAR_DIM;
    assert_true(n->lo > n->hi);
    VEC_PUSH(&a, &k.dims, n);
    Node *extent = node_binary(&a, N_DIV, node_var(&a, 0, n), node_i64(&a, 4));
    VEC_PUSH(&a, &k.params, kernel_buffer(&k, "x", SPACE_GLOBAL, DT_F32, 1, &extent));
    VEC_PUSH(&a, &k.stages, NEW(&a, Stage));
    Kernel *copy = kernel_clone(&b, &k);
    copy->stages.at[0]->ngrid = 2;
    VEC_PUSH(&b, &copy->params, k.params.at[0]);
    assert_int_equal(k.params.n, 1);
    assert_int_equal(copy->params.n, 2);
    assert_int_equal(k.stages.at[0]->ngrid, 0);
    assert_int_equal(node_eval_dims(k.params.at[0]->extent[0], &k, (int64_t[]){-7}), -2);
    assert_int_not_equal(n->id, k.params.at[0]->id);
    arena_free(&b);
    arena_free(&a);
}

static void test_targets(void **state)
{
    UNUSED(state);
    Target t;
    target_host(&t);
    assert_int_equal(t.kind, TARGET_CPU);
    assert_true(t.vector_bytes == 16 || t.vector_bytes == 32 || t.vector_bytes == 64);
    assert_true(t.ncore >= 1 && t.nregister >= 16 && t.max_threads == 1);
    assert_true(t.l1_bytes >= 4096 && t.l2_bytes >= t.l1_bytes);
    assert_true(target_cuda(&t, "sm_90a"));
    assert_int_equal(t.shared_bytes, 227 * 1024);
    assert_false(target_cuda(&t, "sm_1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_node_rows),      cmocka_unit_test(test_node_documentation),
        cmocka_unit_test(test_intrinsic_rows), cmocka_unit_test(test_constructors_type),
        cmocka_unit_test(test_seq_flattens),   cmocka_unit_test(test_subst_and_equality),
        cmocka_unit_test(test_kernel_clone),   cmocka_unit_test(test_targets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
