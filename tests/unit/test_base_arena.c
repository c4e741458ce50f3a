// SPDX-License-Identifier: Apache-2.0
// Arenas, vectors, text buffers, and the integer arithmetic of base/util.h.
#include "base/arena.h"
#include "base/util.h"
#include "base/vec.h"

#include <limits.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool all_zero(const void *p, size_t size)
{
    const unsigned char *bytes = p;
    for (size_t i = 0; i < size; i++) {
        if (bytes[i]) return false;
    }
    return true;
}

static void allocation_is_zeroed_aligned_and_unique(void **state)
{
    UNUSED(state);
    Arena a = {0};
    char *before = NULL;
    for (size_t size = 0; size < 5000; size = size * 3 / 2 + 1) {
        char *p = arena_alloc(&a, size);
        assert_int_equal((uintptr_t)p % 16, 0);
        assert_true(all_zero(p, size));
        memset(p, 0xFF, size);
        assert_ptr_not_equal(p, before);
        before = p;
    }
    assert_ptr_not_equal(arena_alloc(&a, 0), arena_alloc(&a, 0));
    arena_free(&a);
    assert_int_equal(a.total_bytes, 0);
    assert_non_null(arena_alloc(&a, 1));
    arena_free(&a);
}

static void strings(void **state)
{
    UNUSED(state);
    Arena a = {0};
    assert_string_equal(arena_strdup(&a, ""), "");
    assert_string_equal(arena_strdup(&a, "heald"), "heald");
    assert_string_equal(arena_strndup(&a, "heald", 3), "hea");
    assert_string_equal(arena_strndup(&a, "heald", 99), "heald");
    assert_string_equal(arena_printf(&a, "%d-%s", 7, "x"), "7-x");
    assert_int_equal(strlen(arena_printf(&a, "%10000d", 1)), 10000);
    assert_memory_equal(arena_copy(&a, "a\0b", 3), "a\0b", 3);
    char *owned = malloc(4);
    memcpy(owned, "own", 4);
    assert_string_equal(arena_take(&a, owned, 4), "own");
    arena_free(&a);
}

static void reset_goes_back_to_the_mark(void **state)
{
    UNUSED(state);
    Arena a = {0};
    char *kept = arena_strdup(&a, "kept");
    ArenaMark mark = arena_mark(&a);
    size_t held = a.total_bytes;
    unsigned char *scratch = arena_alloc(&a, 64);
    memset(scratch, 1, 64);
    for (int i = 0; i < 100; i++) arena_alloc(&a, 1000);
    assert_true(a.total_bytes > held);
    arena_reset(&a, mark);
    assert_int_equal(a.total_bytes, held);
    assert_string_equal(kept, "kept");
#ifndef NDEBUG
    for (int i = 0; i < 64; i++) assert_int_equal(scratch[i], 0xA5);
#endif
    unsigned char *again = arena_alloc(&a, 64);
    assert_ptr_equal(again, scratch);
    assert_true(all_zero(again, 64));
    assert_true(all_zero(arena_alloc(&a, 3000), 3000)); // half of it used before, half not
    arena_reset(&a, (ArenaMark){0});
    assert_null(a.block);
    arena_free(&a);
}

// Whether allocating size * n bytes jumps out of memory.
static bool jumps(Arena *a, size_t size, size_t n)
{
    jmp_buf full;
    a->nomem = &full;
    volatile bool jumped = true;
    if (!setjmp(full)) {
        arena_alloc_array(a, size, n);
        jumped = false;
    }
    a->nomem = NULL;
    return jumped;
}

static void limit(void **state)
{
    UNUSED(state);
    Arena a = {.limit_bytes = 10000};
    assert_false(jumps(&a, 1, 100));
    assert_false(jumps(&a, 1, 5000)); // a block that just fits, since doubling would pass the limit
    assert_true(jumps(&a, 1, 5000));
    assert_true(a.total_bytes <= a.limit_bytes);
    assert_false(jumps(&a, 1, 16)); // still usable
    arena_free(&a);
    assert_false(jumps(&a, 1, 9000)); // what was freed counts no more
    arena_free(&a);
}

static void hostile_sizes(void **state)
{
    UNUSED(state);
    Arena a = {0};
    assert_true(jumps(&a, SIZE_MAX, 1));
    assert_true(jumps(&a, SIZE_MAX / 2 + 1, 2)); // the product wraps to 0
    assert_true(jumps(&a, 16, SIZE_MAX / 16 - 1));
    assert_false(jumps(&a, 0, SIZE_MAX));
    arena_free(&a);
}

static void take_frees_when_memory_runs_out(void **state)
{
    UNUSED(state);
    jmp_buf full;
    Arena a = {.limit_bytes = 100, .nomem = &full};
    volatile bool jumped = true;
    char *data = calloc(1, 5000);
    if (!setjmp(full)) {
        arena_take(&a, data, 5000); // a leak here is for the address sanitizer to see
        jumped = false;
    }
    assert_true(jumped);
    assert_ptr_equal(a.nomem, &full);
    arena_free(&a);
}

static void vectors(void **state)
{
    UNUSED(state);
    Arena a = {0};
    VEC(int64_t) v = {0};
    for (int i = 0; i < 1000; i++) VEC_PUSH(&a, &v, (int64_t)i * i);
    assert_int_equal(v.n, 1000);
    for (int i = 0; i < 1000; i++) assert_int_equal(v.at[i], i * i);
    assert_int_equal(VEC_LAST(&v), 999 * 999);
    assert_int_equal(VEC_POP(&v), 999 * 999);
    assert_int_equal(v.n, 999);
    arena_free(&a);
}

static void vector_growth_never_overflows(void **state)
{
    UNUSED(state);
    jmp_buf full;
    Arena a = {.nomem = &full, .limit_bytes = 1 << 20};
    int caps[] = {INT_MAX / 2, INT_MAX / 2 + 1, INT_MAX - 1, INT_MAX};
    volatile size_t njump = 0;
    for (volatile size_t i = 0; i < COUNT(caps); i++) {
        int cap = caps[i];
        if (setjmp(full)) njump++;
        else vec_grow(&a, NULL, &cap, 0, 1u << 30);
    }
    assert_int_equal(njump, COUNT(caps));
    a.limit_bytes = 0;
    arena_free(&a);
}

static void buffers(void **state)
{
    UNUSED(state);
    Arena a = {0};
    Buf b;
    buf_init(&b, &a);
    assert_string_equal(buf_text(&b), "");
    buf_puts(&b, "");
    assert_string_equal(b.text, "");
    buf_printf(&b, "%s", "");
    for (int i = 0; i < 100; i++) buf_printf(&b, "%d,", i);
    buf_putc(&b, '!');
    buf_append(&b, "x\0y", 3);
    assert_int_equal(b.size, 10 * 2 + 90 * 3 + 1 + 3);
    assert_memory_equal(b.text, "0,1,2,", 6);
    assert_memory_equal(b.text + b.size - 7, "99,!x\0y", 8);
    buf_printf(&b, "%5000d", 1);
    assert_int_equal(b.text[b.size - 1], '1');
    assert_int_equal(b.text[b.size], 0);
    arena_free(&a);
}

static void buffer_fills_to_the_byte(void **state)
{
    UNUSED(state);
    for (int n = 0; n < 200; n++) { // printf at every distance from the end of the capacity
        Arena a = {0};
        Buf b;
        buf_init(&b, &a);
        for (int i = 0; i < n; i++) buf_putc(&b, 'a');
        buf_printf(&b, "%s", "0123456789");
        assert_int_equal(strlen(b.text), n + 10);
        assert_string_equal(b.text + n, "0123456789");
        arena_free(&a);
    }
}

static void floor_division(void **state)
{
    UNUSED(state);
    for (int64_t a = -20; a <= 20; a++) {
        for (int64_t b = -7; b <= 7; b++) {
            if (!b) continue;
            int64_t q = floor_div_i64(a, b), r = floor_mod_i64(a, b);
            assert_int_equal(q * b + r, a);
            assert_true(r == 0 || (r < 0) == (b < 0));
            assert_true(llabs(r) < llabs(b));
            if (b > 0) assert_int_equal(ceil_div_i64(a, b), -floor_div_i64(-a, b));
        }
    }
    assert_true(floor_div_i64(INT64_MIN, -1) == INT64_MIN);
    assert_true(floor_mod_i64(INT64_MIN, -1) == 0);
    assert_true(floor_div_i64(INT64_MIN, 1) == INT64_MIN);
    assert_true(floor_div_i64(INT64_MIN, INT64_MAX) == -2);
    assert_true(floor_mod_i64(INT64_MIN, INT64_MAX) == INT64_MAX - 1);
    assert_true(floor_div_i64(INT64_MAX, INT64_MIN) == -1);
    assert_true(floor_mod_i64(INT64_MAX, INT64_MIN) == -1);
    assert_true(floor_div_i64(INT64_MAX, -1) == -INT64_MAX);
    assert_true(ceil_div_i64(INT64_MAX, 2) == INT64_MAX / 2 + 1);
}

static void checked_arithmetic(void **state)
{
    UNUSED(state);
    int64_t r;
    assert_true(add_i64(INT64_MAX - 1, 1, &r) && r == INT64_MAX);
    assert_false(add_i64(INT64_MAX, 1, &r));
    assert_true(sub_i64(INT64_MIN + 1, 1, &r) && r == INT64_MIN);
    assert_false(sub_i64(INT64_MIN, 1, &r));
    assert_true(mul_i64(INT64_C(1) << 31, INT64_C(1) << 31, &r) && r == INT64_C(1) << 62);
    assert_false(mul_i64(INT64_MIN, -1, &r));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocation_is_zeroed_aligned_and_unique),
        cmocka_unit_test(strings),
        cmocka_unit_test(reset_goes_back_to_the_mark),
        cmocka_unit_test(limit),
        cmocka_unit_test(hostile_sizes),
        cmocka_unit_test(take_frees_when_memory_runs_out),
        cmocka_unit_test(vectors),
        cmocka_unit_test(vector_growth_never_overflows),
        cmocka_unit_test(buffers),
        cmocka_unit_test(buffer_fills_to_the_byte),
        cmocka_unit_test(floor_division),
        cmocka_unit_test(checked_arithmetic),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
