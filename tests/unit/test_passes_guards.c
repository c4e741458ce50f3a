// SPDX-License-Identifier: Apache-2.0
// What the prover removes: guards of extents that divide, of whole tiles of unknown extents, of the
// last chunk of a split loop; and the split of a stage into inner and edge blocks.
#include "codegen/codegen.h"
#include "codegen_kit.h"

static int count_kind(const Node *n, NodeKind kind)
{
    int count = (NodeKind)n->kind == kind;
    for (uint32_t i = 0; i < n->nkid; i++) {
        if (n->kid[i]) count += count_kind(n->kid[i], kind);
    }
    return count;
}

// y[b * tile + i] = x[...] else 0 over ceil(n, tile) blocks.
static void blocks_kernel(Kit *t, Node *n, int tile)
{
    Var *bx = kit_builtin(t, "bx", VAR_BLOCK_X), *i = kit_var(t, "i");
    Buffer *x = kit_buffer(t, "x", DT_F32, 1, &n, false),
           *y = kit_buffer(t, "y", DT_F32, 1, &n, true);
    t->stage->ngrid = 1;
    t->stage->grid[0] = bin(t, N_DIV, add(t, n, I(t, tile - 1)), I(t, tile));
    Node *at = add(t, mul(t, R(t, bx), I(t, tile)), R(t, i));
    Node *body = store(t, y, 1, &at, load_else(t, x, 1, &at, F(t, 0)), GUARD_DROP);
    t->stage->body = SEQ(t, loop(t, i, I(t, 0), I(t, tile), SEQ(t, body)));
}

static void lower(Kit *t, const char *stop_after)
{
    PassOptions o = {.verify = true, .traps = t->traps, .stop_after = stop_after};
    if (!passes_run(t->kernel, &o, &t->diag)) kit_fail_messages(t, stop_after);
}

static void expect(Kit *t, int nif, int nselect, int ncheck)
{
    const Node *body = t->stage->body;
    if (count_kind(body, N_IF) == nif && count_kind(body, N_SELECT) == nselect &&
        count_kind(body, N_CHECK) == ncheck)
        return;
    kit_fail_messages(t, "unexpected guards");
}

static void test_divides(void **state)
{
    UNUSED(state);
    Kit *t = kit_new();
    blocks_kernel(t, I(t, 4096), 64);
    lower(t, "lower_guards");
    expect(t, 0, 0, 0);
    kit_free(t);
}

static void test_traps(void **state)
{
    UNUSED(state);
    Kit *t = kit_new();
    t->traps = true;
    blocks_kernel(t, I(t, 4096), 64);
    lower(t, "lower_guards");
    expect(t, 0, 0, 4);
    kit_free(t);
}

static void test_split(void **state)
{
    UNUSED(state);
    Kit *t = kit_new();
    blocks_kernel(t, I(t, 1000), 64);
    lower(t, "lower_guards");
    expect(t, 2, 1, 0); // inner or edge; at the edge one condition each
    kit_free(t);
}

static void test_unknown_extent(void **state)
{
    UNUSED(state);
    Kit *t = kit_new();
    blocks_kernel(t, R(t, kit_dim(t, "n")), 1);
    lower(t, "lower_guards");
    expect(t, 0, 0, 0);
    kit_free(t);
}

static void test_known_divisor(void **state)
{
    UNUSED(state);
    Kit *t = kit_new();
    Var *n = kit_dim(t, "n");
    n->lo = 1;
    n->hi = 1 << 20;
    n->divisor = 64;
    blocks_kernel(t, R(t, n), 64);
    lower(t, "lower_guards");
    expect(t, 0, 0, 0);
    kit_free(t);
}

// for p in 0 .. ceil(k, 16) { for l in 0 .. min(16, k - p * 16) { y[p * 16 + l] = x[...] else 0 } }
static void test_chunks(void **state)
{
    UNUSED(state);
    Kit *t = kit_new();
    Node *k = R(t, kit_dim(t, "k"));
    Buffer *x = kit_buffer(t, "x", DT_F32, 1, &k, false),
           *y = kit_buffer(t, "y", DT_F32, 1, &k, true);
    Var *p = kit_var(t, "p"), *l = kit_var(t, "l");
    Node *start = mul(t, R(t, p), I(t, 16)), *at = add(t, start, R(t, l));
    Node *len = bin(t, N_MIN, I(t, 16), bin(t, N_SUB, k, start));
    Node *body = store(t, y, 1, &at, load_else(t, x, 1, &at, F(t, 0)), GUARD_DROP);
    Node *chunks = bin(t, N_DIV, add(t, k, I(t, 15)), I(t, 16));
    t->stage->body =
        SEQ(t, loop(t, p, I(t, 0), chunks, SEQ(t, loop(t, l, I(t, 0), len, SEQ(t, body)))));
    lower(t, "lower_guards");
    expect(t, 0, 0, 0);
    kit_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_divides),       cmocka_unit_test(test_traps),
        cmocka_unit_test(test_split),         cmocka_unit_test(test_unknown_extent),
        cmocka_unit_test(test_known_divisor), cmocka_unit_test(test_chunks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
