// SPDX-License-Identifier: Apache-2.0
// Interned strings, pointer maps and the hash.
#include "base/intern.h"
#include "base/util.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void equal_text_is_equal_pointer(void **state)
{
    UNUSED(state);
    Arena a = {0};
    Interner *t = interner_new(&a);
    char copy[] = "matmul";
    Sym x = intern(t, "matmul");
    assert_ptr_equal(x, intern(t, copy));
    assert_ptr_equal(x, intern_n(t, "matmul_simt", 6));
    assert_ptr_not_equal(x, intern(t, "matmu"));
    assert_string_equal(x, "matmul");
    assert_string_equal(intern(t, ""), "");
    assert_ptr_equal(intern(t, ""), intern_n(t, NULL, 0));
    assert_ptr_not_equal(intern_n(t, "a\0b", 3), intern_n(t, "a\0c", 3));
    arena_free(&a);
}

static void many_names(void **state)
{
    UNUSED(state);
    enum { N = 20000 };
    static Sym names[N];
    Arena a = {0};
    Interner *t = interner_new(&a);
    char text[32];
    for (int i = 0; i < N; i++) {
        snprintf(text, sizeof text, "v%d", i);
        names[i] = intern(t, text);
    }
    for (int i = 0; i < N; i++) {
        snprintf(text, sizeof text, "v%d", i);
        assert_ptr_equal(intern(t, text), names[i]);
        assert_string_equal(names[i], text);
    }
    arena_free(&a);
}

static void map_keeps_insertion_order(void **state)
{
    UNUSED(state);
    enum { N = 5000 };
    static int64_t key[N], value[N];
    Arena a = {0};
    Map m = {0};
    assert_null(map_get(&m, key));
    assert_false(map_has(&m, key));
    for (int i = 0; i < N; i++) map_put(&a, &m, &key[i * 7 % N], &value[i]);
    assert_int_equal(m.n, N);
    for (int i = 0; i < N; i++) {
        assert_ptr_equal(m.entry[i].key, &key[i * 7 % N]);
        assert_ptr_equal(map_get(&m, &key[i * 7 % N]), &value[i]);
    }
    assert_false(map_has(&m, value));
    map_put(&a, &m, &key[7], &value[0]);
    assert_int_equal(m.n, N);
    assert_ptr_equal(map_get(&m, &key[7]), &value[0]);
    assert_ptr_equal(m.entry[1].value, &value[0]);
    arena_free(&a);
}

static void map_tells_null_from_absent(void **state)
{
    UNUSED(state);
    Arena a = {0};
    Map m = {0};
    int x = 0;
    map_put(&a, &m, &x, NULL);
    map_put(&a, &m, NULL, &x);
    assert_true(map_has(&m, &x));
    assert_null(map_get(&m, &x));
    assert_ptr_equal(map_get(&m, NULL), &x);
    arena_free(&a);
}

// Cache files are named by this hash, so it may not change between versions. The first value is in
// the specification's own test vectors: XXH3 of the empty input with seed 0.
static void hash_is_stable(void **state)
{
    UNUSED(state);
    assert_true(hash_bytes("", 0, 0) == UINT64_C(0x2D06800538D394C2));
    assert_true(hash_bytes("heald", 5, 0) == hash_bytes("heald", 5, 0));
    assert_true(hash_bytes("heald", 5, 0) != hash_bytes("heald", 5, 1));
    assert_true(hash_bytes("heald", 5, 0) != hash_bytes("heale", 5, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_text_is_equal_pointer),
        cmocka_unit_test(many_names),
        cmocka_unit_test(map_keeps_insertion_order),
        cmocka_unit_test(map_tells_null_from_absent),
        cmocka_unit_test(hash_is_stable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
