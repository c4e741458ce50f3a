// SPDX-License-Identifier: Apache-2.0
// The parser and the printer: every construct survives a round trip, trees are shaped as promised,
// each diagnostic is exactly as the golden files say, and libraries replace what they should.
#include "base/os.h"
#include "lang/lang.h"

#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

typedef struct Text {
    Arena arena;
    Sources sources;
    Interner *names;
    Diag diag;
} Text;

static void begin(Text *t)
{
    *t = (Text){0};
    t->sources.arena = &t->arena;
    t->names = interner_new(&t->arena);
    diag_init(&t->diag, &t->arena, &t->sources);
}

static void end(Text *t)
{
    arena_free(&t->arena);
}

static Source *source(Text *t, const char *name, const char *text)
{
    return sources_add(&t->sources, name, text, strlen(text));
}

static const char *messages(Text *t)
{
    Buf b;
    buf_init(&b, &t->arena);
    diag_render(&t->diag, &b);
    return buf_text(&b);
}

static const char *printed(Text *t, const Node *n)
{
    Buf b;
    buf_init(&b, &t->arena);
    lang_print(n, &b);
    return buf_text(&b);
}

static Node *parse(Text *t, const char *text)
{
    Node *file = parse_file(&t->arena, t->names, source(t, "a.hd", text), &t->diag);
    if (!file) fail_msg("%s", messages(t));
    return file;
}

static Node *parse_e(Text *t, const char *text)
{
    Node *e = parse_expression(&t->arena, t->names, source(t, "a.hd", text), &t->diag);
    if (!e) fail_msg("%s", messages(t));
    return e;
}

// Parse, print, parse, print: equal trees, equal texts. Returns the text.
static const char *round_trip(Text *t, const char *text)
{
    Node *first = parse(t, text);
    const char *once = printed(t, first);
    Node *second = parse(t, once);
    if (!node_equal(first, second)) fail_msg("not the same tree:\n%s", once);
    assert_string_equal(printed(t, second), once);
    return once;
}

// ---- printing

// Whole files that are printed exactly as they stand.
static const char *const as_printed[] = {
    "let a = 1;\nlet b = 0x1f;\nlet c = 0b101;\nlet d = 1.5;\nlet e = 1e-5;\nlet f = 1e20;\n",
    "let a = true;\nlet b = false;\nlet c = \"a\\n\\t\\\"\\\\\\x01\\x7f\";\nlet d = 2.0;\n",
    "op relu(x: T[s...]) -> (y: T[s...]) onnx Relu(1, 6, 13, 14) { y[i...] = max(x[i...], 0); }\n",
    "op f(x: T[n], y?: T, z: const T[], zs: T[[s...]]...; a?: int[], b: str in {\"x\", \"y\"} = "
    "\"x\")\n"
    "        -> (c: T[n, static m], d: bool) {}\n",
    "op g(x: T[s...], at: I[t...]; axis: int = 0) -> (y: T[s[..axis with t...]...])\n"
    "        onnx com.microsoft.Gather(1) with a, b bijective serial class view alias x -> y {}\n",
    "kernel k[T: f32 | f64, N: int](a: T[m, k] prefer layout panel(nr); n: int = 1) -> (c: T[m])\n"
    "        implements matmul, conv on cuda(sm_90a) alias a -> c {}\n",
    "kernel k(a: T) -> (c: T) on cpu {\n    tune {\n        a: 1;\n        b: 1 | 2, 3;\n"
    "        c: (4, 4) | | (2, 4), (8, 4);\n        d: (1 | 2) |;\n        e: (1 && 2), 3 + 4;\n   "
    " }\n}\n",
    "kernel k(a: T) -> (c: T) {\n    launch grid(m, n) block(32) cluster(2);\n    launch grid();\n"
    "    launch block(1);\n    stage one_more launch grid(1) {\n        c = a;\n    }\n    stage b "
    "{}\n}\n",
    "kernel k(a: T) -> (c: T) {\n    shared a: T[2, 3] layout ring(2) + tma over m(thread) "
    "align(16)"
    " alias b when k > 1 = 0;\n    local b: mbarrier[s](1, 2);\n    core_local c: acc(T)[m];\n"
    "    workspace d: a.leaf.type;\n    local e: mbarrier(3);\n}\n",
    "kernel k(a: T) -> (c: T) {\n    for i in 0 .. n step 2 {}\n    for i, j in map(thread) {}\n"
    "    for i... in s... {}\n    unroll for i in n {}\n    unroll(4) for i in n {}\n"
    "    parallel for i in (a else b) .. 3 {}\n    while a < b {\n        break;\n        "
    "continue;\n"
    "    }\n    return;\n    return 1;\n}\n",
    "kernel k(a: T) -> (c: T) {\n    if a {\n        b = 1;\n    } else if c {} else {\n        if "
    "d {}\n"
    "    }\n    {}\n    barrier;\n    s.next;\n    require a > 1, \"no {a}\";\n    require b;\n"
    "    role warp == 0 {\n        one {\n            f(x);\n        }\n    }\n}\n",
    "kernel k(a: T) -> (c: T) {\n    let a: T[3] = 1;\n    let (b, c) = d;\n    let (e,) = d;\n"
    "    let m[i[..axis], j] = 1;\n    var x;\n    var y: f32;\n    var z: ring(2) = 3;\n    var = "
    "3;\n"
    "    a += 1;\n    a -= 1;\n    a *= 1;\n    a /= 1;\n    a %= 1;\n    a &= 1;\n    a |= 1;\n   "
    " a ^= 1;\n"
    "    a <<= 1;\n    a >>= 1;\n    (a, b.c, d[1]) = f();\n}\n",
    "fn ceil(a, b) = (a + b - 1) / b;\n\nfn f[T: f32](x: T, n...) -> T {\n    if x > 0 {\n"
    "        return x;\n    }\n    let v = -x;\n    if v > 1 { v } else if v > 2 { 2 } else {\n"
    "        let w = v;\n        w\n    }\n}\n\nfn g() {}\n",
    "rule gelu_erf { 0.5 * x * (1 + erf(x / 1.41421356)) => gelu(x) }\n",
    "rule r { f(x, b?; ...a) when scalar(c) => let k = 1; let l = 2; g(x, k; ...a) }\n",
    "graph ffn(x: f16[s, 768], w: const f16[3072, 768]) -> (y, z: f16) {\n    y = gelu(linear(x, "
    "w));\n"
    "}\n",
};

static void test_files_print_as_written(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(as_printed); i++) {
        Text t;
        begin(&t);
        assert_string_equal(round_trip(&t, as_printed[i]), as_printed[i]);
        end(&t);
    }
}

// Expressions with the fewest parentheses, and what redundant ones are reduced to.
static const char *const expressions[][2] = {
    {"a + b - c", NULL},
    {"a - (b - c)", NULL},
    {"(a + (b * c))", "a + b * c"},
    {"(a || b) && c | d ^ e & f == g < h << i + j * k", NULL},
    {"a || (b && (c | (d ^ (e & (f == (g < (h << (i + (j * k)))))))))",
     "a || b && c | d ^ e & f == g < h << i + j * k"},
    {"-x ** 2", NULL},
    {"(-x) ** 2", NULL},
    {"x ** -y ** z", NULL},
    {"(x ** y) ** z", NULL},
    {"x ** (y ** z)", "x ** y ** z"},
    {"-(-x)", "--x"},
    {"!~-x.y[0](1)", NULL},
    {"(a + b).c", NULL},
    {"(1).x", NULL},
    {"x.0.1", NULL},
    {"(1.5)[0]", "1.5[0]"},
    {"a else b else c", NULL},
    {"(a else b) else c", NULL},
    {"(a else b) + 1", NULL},
    {"f(a else b, c)", NULL},
    {"sum(l in k) a[i, l] * b[l, j] + c", NULL},
    {"sum(l in k) (a + b)", NULL},
    {"(sum(l in k) a) * b", NULL},
    {"b * (sum(l in k) a)", NULL},
    {"sum(l in k) (sum(m in n) a) * b", NULL},
    {"sum(l in k) sum(m in n) a", NULL},
    {"-(sum(l in k) a)", NULL},
    {"max(q in cg, t... in k..., i, j in 0 .. 4 step 2) x", NULL},
    {"max(a, b)", NULL},
    {"sum(a)", NULL},
    {"min + fold + mapping", NULL},
    {"fold(l in s[axis]; best = (lowest(T), 0)) { best }.1", NULL},
    {"fold(l in s; m = 0) { if a { 1 } else { 2 } }", NULL},
    {"mapping(workers: 32; shape: (8, 4)) w => (w / 4, w % 4)", NULL},
    {"mapping(workers = 32, shape = 4) w => { w }", "mapping(workers: 32; shape: 4) w => { w }"},
    {"(mapping(workers: n; shape: d) w => w) * repeat(2)", NULL},
    {"if a { 1 } else if b { 2 } else { 3 }", NULL},
    {"(if a { 1 } else { 2 }) + 3", NULL},
    {"()", NULL},
    {"(a,)", NULL},
    {"(a, b)", NULL},
    {"((a))", "a"},
    {"x[]", NULL},
    {"x[~i...]", NULL},
    {"x[i + 1 ...]", NULL},
    {"x[..axis]", NULL},
    {"x[..axis + 1 with t...]", NULL},
    {"x[..axis with a else b ...]", NULL},
    {"x[i @ axis: l]", NULL},
    {"x[a + 1 :+ b, ...]", NULL},
    {"x[(a else b) :+ c]", NULL},
    {"x[a else b]", NULL},
    {"f()", NULL},
    {"f(x, i...; axis = 1, n)", NULL},
    {"f(a: 1, b = 2)", "f(a = 1, b = 2)"},
    {"f(x, a = 1)", "f(x; a = 1)"},
    {"f(; a)", NULL},
    {"f(; ...a)", NULL},
    {"f(...a)", "f(; ...a)"},
    {"f(x; a...)", "f(x; ...a)"},
    {"f(b?, c?)", NULL},
    {"auto_map(bm, bk; map.workers)(thread)", NULL},
    {"9223372036854775807", NULL},
    {"1_000 + 0xf_f + 0b1_1 + 1_0.5_0", "1000 + 0xff + 0b11 + 10.5"},
    {"0.1 + 1e-300 + 123456789.125 + 3.14159265358979", NULL},
    {"a<b", "a < b"},
    {"a //comment\n + b", "a + b"},
    {"var + step + with", NULL},
};

static void test_expressions_keep_needed_parentheses(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(expressions); i++) {
        Text t;
        begin(&t);
        const char *want = expressions[i][1] ? expressions[i][1] : expressions[i][0];
        Node *e = parse_e(&t, expressions[i][0]);
        assert_string_equal(printed(&t, e), want);
        assert_true(node_equal(parse_e(&t, want), e));
        end(&t);
    }
}

static void test_other_spellings_give_the_same(void **state)
{
    static const char *const pairs[][2] = {
        {"heald 1; let a = 1;", "let a = 1;\n"},
        {"fn f(x) { x }", "fn f(x) = x;\n"},
        {"op f(x: T[s[..a] with t...]) -> () { ; }", "op f(x: T[s[..a with t...]...]) -> () {}\n"},
        {"kernel k() -> () { local b: mbarrier(1)[4]; }",
         "kernel k() -> () {\n    local b: mbarrier[4](1);\n}\n"},
        {"kernel k() -> () { stage s { launch block(2) grid(1); } }",
         "kernel k() -> () {\n    stage s launch grid(1) block(2) {}\n}\n"},
        {"kernel k() -> () { tune { a: 1 || 2; } }",
         "kernel k() -> () {\n    tune {\n        a: 1 | | 2;\n    }\n}\n"},
        {"kernel k() -> () { local a: T = 1 when b layout c; }",
         "kernel k() -> () {\n    local a: T layout c when b = 1;\n}\n"},
        {"fn f() { (if a { 1 } else { 2 }); if a { 1 } else { 2 } + 3 }",
         "fn f() {\n    (if a { 1 } else { 2 });\n    (if a { 1 } else { 2 }) + 3\n}\n"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(pairs); i++) {
        Text t;
        begin(&t);
        assert_string_equal(round_trip(&t, pairs[i][0]), pairs[i][1]);
        end(&t);
    }
}

static void test_numbers_ignore_the_locale(void **state)
{
    (void)state;
    if (!setlocale(LC_NUMERIC, "de_DE.UTF-8")) skip();
    Text t;
    begin(&t);
    Node *e = parse_e(&t, "1.5");
    bool right = e->u.f == 1.5 && !strcmp(printed(&t, e), "1.5");
    setlocale(LC_NUMERIC, "C");
    assert_true(right);
    end(&t);
}

// ---- shapes of trees

static void test_trees_are_as_promised(void **state)
{
    (void)state;
    Text t;
    begin(&t);
    Node *n = parse_e(&t, "f(x; y, ...a, z = 1)");
    assert_int_equal(n->kind, N_CALL);
    assert_int_equal(NREST(n), 4);
    assert_int_equal(REST(n)[0]->kind, N_NAME);
    assert_string_equal(REST(n)[1]->u.sym, "");
    assert_int_equal(KID(REST(n)[2], ARG, value)->kind, N_SPREAD);
    assert_string_equal(REST(n)[3]->u.sym, "z");

    n = parse_e(&t, "true");
    assert_int_equal(n->kind, N_INT);
    assert_int_equal(n->type, DT_BOOL);

    Node *op =
        parse(&t, "op f(x?: T) -> (y: T) serial onnx A.B(1) with c { if x { y = 1; } }")->kid[0];
    assert_int_equal(op->sub, OP_SERIAL);
    assert_int_equal(KID(op, OP, params)->kid[0]->sub, PARAM_OPTIONAL);
    const Node *onnx = KID(KID(op, OP, clauses)->kid[1], CLAUSE, args);
    assert_string_equal(onnx->kid[0]->u.sym, "A.B");
    assert_int_equal(onnx->kid[1]->kid[0]->u.i, 1);
    assert_string_equal(onnx->kid[2]->kid[0]->u.sym, "c");
    assert_int_equal(KID(op, OP, body)->kid[0]->kind, N_IF);

    Node *loop =
        KID(parse(&t, "kernel k() -> () { unroll(4) for i in 2 {} }")->kid[0], KERNEL, body);
    assert_int_equal(loop->kid[0]->sub, LOOP_UNROLL);
    assert_int_equal(loop->kid[0]->flags, 4);
    assert_int_equal(KID(loop->kid[0], FOR, vars)->nkid, 1);
    end(&t);
}

static void test_places_are_of_operators_and_names(void **state)
{
    (void)state;
    Text t;
    begin(&t);
    Node *n = parse_e(&t, "foo(1) * bar[2]");
    assert_int_equal(sources_place(&t.sources, n->loc).col, 8);
    assert_int_equal(sources_place(&t.sources, n->kid[0]->loc).col, 1);
    assert_int_equal(sources_place(&t.sources, n->kid[1]->loc).col, 10);
    end(&t);
}

// ---- limits

static void test_nesting_is_limited(void **state)
{
    static const char *const open[] = {"(",    "-", "a else ", "f(", "x[", "if a { 1 } else ",
                                       "x ** "};
    (void)state;
    for (size_t i = 0; i < COUNT(open); i++) {
        Text t;
        begin(&t);
        Buf b;
        buf_init(&b, &t.arena);
        for (int k = 0; k < 5000; k++) buf_puts(&b, open[i]);
        Source *s = source(&t, "deep", buf_text(&b));
        assert_null(parse_expression(&t.arena, t.names, s, &t.diag));
        assert_int_equal(t.diag.nerror, 1);
        assert_non_null(strstr(messages(&t), "nested too deeply"));
        end(&t);
    }
}

static void test_expression_must_be_all(void **state)
{
    (void)state;
    Text t;
    begin(&t);
    assert_null(parse_expression(&t.arena, t.names, source(&t, "e", "a b"), &t.diag));
    assert_string_equal(messages(&t),
                        "e:1:3: error: expected the end of the expression, found 'b'\n"
                        "    1 | a b\n      |   ^\n");
    end(&t);
}

// ---- diagnostics

static void check_golden(const char *dir, const char *name)
{
    Text t;
    begin(&t);
    char *text, *want;
    size_t size;
    char *in = path_join(&t.arena, dir, name);
    char *out = arena_printf(&t.arena, "%.*s.err", (int)strlen(in) - 3, in);
    assert_null(file_read(&t.arena, in, &text, &size));
    assert_null(file_read(&t.arena, out, &want, &size));
    assert_null(parse_file(&t.arena, t.names, source(&t, name, text), &t.diag));
    assert_string_equal(messages(&t), want);
    end(&t);
}

static void test_diagnostics_are_exact(void **state)
{
    (void)state;
    Arena a = {0};
    char **names;
    int n, checked = 0;
    assert_null(dir_list(&a, "tests/golden/lang", &names, &n));
    for (int i = 0; i < n; i++) {
        if (strncmp(names[i], "parse_", 6) || strcmp(strrchr(names[i], '.'), ".hd")) continue;
        check_golden("tests/golden/lang", names[i]);
        checked++;
    }
    assert_true(checked >= 10);
    arena_free(&a);
}

// ---- documentation and editors

static char *read_text(Arena *a, const char *path)
{
    char *text;
    size_t size;
    const char *why = file_read(a, path, &text, &size);
    if (why) fail_msg("%s", why);
    return text;
}

static void test_examples_of_the_reference_parse(void **state)
{
    static const char fence[] = "\n```heald\n";
    (void)state;
    Text t;
    begin(&t);
    const char *at = read_text(&t.arena, "docs/language.md");
    int n = 0;
    while ((at = strstr(at, fence))) {
        at += strlen(fence);
        const char *stop = strstr(at, "\n```");
        assert_non_null(stop);
        round_trip(&t, arena_strndup(&t.arena, at, (size_t)(stop - at) + 1));
        n++;
    }
    assert_true(n >= 5);
    end(&t);
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool has_word(const char *text, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = text; (at = strstr(at, word)); at++)
        if ((at == text || !is_word(at[-1])) && !is_word(at[n])) return true;
    return false;
}

static void test_keywords_are_known_to_reference_and_editors(void **state)
{
    static const char *const files[] = {"docs/language.md", "tools/editors/vim/heald.vim",
                                        "tools/editors/heald.tmLanguage.json"};
    static const char *const keywords[] = {
#define PUNCT(ID, spelling)
#define KEYWORD(ID, spelling) spelling,
#include "lang/tokens.def"
#undef PUNCT
#undef KEYWORD
    };
    (void)state;
    Arena a = {0};
    for (size_t i = 0; i < COUNT(files); i++) {
        const char *text = read_text(&a, files[i]);
        for (size_t k = 0; k < COUNT(keywords); k++)
            if (!has_word(text, keywords[k])) fail_msg("%s lacks '%s'", files[i], keywords[k]);
    }
    arena_free(&a);
}

// ---- libraries

static Library library_of(Text *t, const char *const *files, int n)
{
    Library l;
    library_init(&l, &t->arena, t->names, &t->sources);
    for (int i = 0; i < n; i++)
        if (!library_add(&l, parse(t, files[i]), &t->diag)) fail_msg("%s", messages(t));
    return l;
}

static void test_later_files_replace(void **state)
{
    static const char *const files[] = {
        "op f(x: T) -> (y: T) {}\nkernel a(x: T) -> (y: T) implements f, g {}\n"
        "kernel b(x: T) -> (y: T) implements f {}\nrule r { a => b }\nlet c = 1;\nfn f(x) = x;\n",
        "kernel a(x: T) -> (y: T) implements h, f {}\nrule r { a => c }\nrule s { a => b }\nlet c "
        "= 2;\n",
    };
    (void)state;
    Text t;
    begin(&t);
    Library l = library_of(&t, files, 2);
    Sym a = intern(t.names, "a"), f = intern(t.names, "f");
    Node *kernel = map_get(&l.kernels, a);
    KernelList *of_f = map_get(&l.implementers, f);
    KernelList *of_g = map_get(&l.implementers, intern(t.names, "g"));
    KernelList *of_h = map_get(&l.implementers, intern(t.names, "h"));
    assert_int_equal(of_f->n, 2);
    assert_ptr_equal(of_f->at[0], kernel);
    assert_string_equal(of_f->at[1]->u.sym, "b");
    assert_int_equal(of_g->n, 0);
    assert_int_equal(of_h->n, 1);
    assert_ptr_equal(of_h->at[0], kernel);
    assert_int_equal(l.rules.n, 2);
    assert_string_equal(KID(l.rules.at[0], RULE, result)->u.sym, "c");
    Node *c = map_get(&l.constants, intern(t.names, "c"));
    assert_int_equal(KID(c, CONSTANT, value)->u.i, 2);
    assert_int_equal(((Node *)map_get(&l.ops, f))->kind, N_OP);
    assert_int_equal(((Node *)map_get(&l.fns, f))->kind, N_FN);
    end(&t);
}

static void test_twice_in_one_file_is_an_error(void **state)
{
    (void)state;
    Text t;
    begin(&t);
    Library l = library_of(&t, NULL, 0);
    Node *file = parse(&t, "fn f() = 1;\nlet f = 2;\nfn f() = 3;\n");
    assert_false(library_add(&l, file, &t.diag));
    assert_string_equal(messages(&t), "a.hd:3:4: error: the fn 'f' is declared twice in this file\n"
                                      "    3 | fn f() = 3;\n      |    ^\n"
                                      "a.hd:1:4: note: first here\n");
    assert_int_equal(l.fns.n, 0);
    end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_print_as_written),
        cmocka_unit_test(test_expressions_keep_needed_parentheses),
        cmocka_unit_test(test_other_spellings_give_the_same),
        cmocka_unit_test(test_numbers_ignore_the_locale),
        cmocka_unit_test(test_trees_are_as_promised),
        cmocka_unit_test(test_places_are_of_operators_and_names),
        cmocka_unit_test(test_nesting_is_limited),
        cmocka_unit_test(test_expression_must_be_all),
        cmocka_unit_test(test_diagnostics_are_exact),
        cmocka_unit_test(test_examples_of_the_reference_parse),
        cmocka_unit_test(test_keywords_are_known_to_reference_and_editors),
        cmocka_unit_test(test_later_files_replace),
        cmocka_unit_test(test_twice_in_one_file_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
