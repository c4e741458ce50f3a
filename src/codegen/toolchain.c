// SPDX-License-Identifier: Apache-2.0
// Finding a C compiler and running it on generated code.
#include "codegen/codegen.h"

#include "base/os.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { COMPILE_LIMIT_MS = 600000, VERSION_LIMIT_MS = 10000 };

// Generated code relies on wrapping integers and on nothing being contracted or reassociated.
static const char base_flags[] =
    "-O3 -std=gnu11 -fwrapv -ffp-contract=off -fno-math-errno -fno-trapping-math "
    "-fno-stack-protector -fvisibility=hidden -fPIC -shared -w";

static const char *first_line(Arena *a, const char *text)
{
    return arena_strndup(a, text, strcspn(text, "\n"));
}

typedef VEC(const char *) Words;

static void add_words(Arena *a, Words *list, const char *text)
{
    char *state = NULL, *copy = arena_strdup(a, text);
    for (char *s = strtok_r(copy, " ", &state); s; s = strtok_r(NULL, " ", &state))
        VEC_PUSH(a, list, s);
}

// What comes before the flags.
static Words compiler_words(Arena *a, const Toolchain *t)
{
    Words list = {0};
    const char *path_end = t->cc + strlen(t->cc);
    for (int i = 0; i < t->nword; i++) do
            path_end--;
        while (*path_end != ' ');
    VEC_PUSH(a, &list, arena_strndup(a, t->cc, (size_t)(path_end - t->cc)));
    add_words(a, &list, path_end);
    return list;
}

// A candidate is a program, perhaps with words behind it, as in "ccache gcc".
static bool try_compiler(Arena *a, const char *candidate, Toolchain *out)
{
    if (!candidate || !*candidate) return false;
    Toolchain t = {.cc = find_program(a, candidate)};
    if (!t.cc) {
        Words words = {0};
        add_words(a, &words, candidate);
        t.cc = words.n ? find_program(a, words.at[0]) : NULL;
        if (!t.cc) return false;
        t.nword = words.n - 1;
        for (int i = 1; i < words.n; i++) t.cc = arena_printf(a, "%s %s", t.cc, words.at[i]);
    }
    ProcessResult r;
    Words argv = compiler_words(a, &t);
    VEC_PUSH(a, &argv, "--version");
    VEC_PUSH(a, &argv, NULL);
    if (process_run(a, argv.at, VERSION_LIMIT_MS, &r) || r.exit_status != 0) return false;
    t.version = first_line(a, r.output);
    *out = t;
    return true;
}

// What the kernel says about the first processor: another machine that shares the cache may lack
// instructions that this one has.
static const char *machine_hash(Arena *a)
{
    static const char *const words[] = {"model name", "flags", "Features", "CPU part", "isa"};
    char *text;
    size_t size;
    Buf told;
    buf_init(&told, a);
    if (file_read(a, "/proc/cpuinfo", &text, &size)) return "unknown";
    for (const char *s = text; *s && *s != '\n';) {
        size_t n = strcspn(s, "\n");
        for (size_t i = 0; i < COUNT(words); i++)
            if (!strncmp(s, words[i], strlen(words[i]))) buf_append(&told, s, n);
        s += n + (s[n] == '\n');
    }
    return arena_printf(a, "%016llx",
                        (unsigned long long)hash_bytes(buf_text(&told), told.size, 0));
}

bool toolchain_find(Arena *a, const Target *t, Toolchain *out, const char **why)
{
    const char *wanted = getenv("HEALD_CC");
    const char *const candidates[] = {wanted, getenv("CC"), "gcc", "clang", "cc"};
    *out = (Toolchain){0};
    for (size_t i = 0; i < COUNT(candidates); i++) {
        if (!try_compiler(a, candidates[i], out)) {
            if (i > 0 || !wanted || !*wanted) continue;
            *why = arena_printf(a,
                                "HEALD_CC is %s, which does not run; the package gcc brings a "
                                "C compiler",
                                wanted);
            return false;
        }
        bool native = !t->arch || !strcmp(t->arch, "native");
        out->flags = arena_printf(a, "%s -march=%s", base_flags, native ? "native" : t->arch);
        out->machine = native ? machine_hash(a) : "";
        out->limit_ms = COMPILE_LIMIT_MS;
        return true;
    }
    *why =
        "no C compiler found (tried $HEALD_CC, $CC, gcc, clang and cc); the package gcc brings one";
    return false;
}

static const char *joined(Arena *a, const char *const *argv)
{
    Buf b;
    buf_init(&b, a);
    for (; *argv; argv++) buf_printf(&b, "%s%s", b.size ? " " : "", *argv);
    return buf_text(&b);
}

// Whether the text before `end` is a place: ends with ":12" or "(12)".
static bool ends_with_line(const char *text, const char *end)
{
    bool bracket = end > text && end[-1] == ')';
    if (bracket) end--;
    const char *digits = end;
    while (digits > text && isdigit((unsigned char)digits[-1])) digits--;
    return digits < end && digits > text && digits[-1] == (bracket ? '(' : ':');
}

bool toolchain_blames_text(const char *log)
{
    static const char mark[] = ": error: ";
    bool blamed = false;
    if (strstr(log, "internal compiler error") || strstr(log, "fatal error")) return false;
    for (const char *s = log; !blamed && (s = strstr(s, mark)); s++)
        blamed = ends_with_line(log, s);
    return blamed;
}

// The first line that has an error, or the first one.
static const char *main_line(Arena *a, const char *log)
{
    const char *error = strstr(log, "error: "), *line = error ? error : log;
    while (line > log && line[-1] != '\n') line--;
    return first_line(a, line);
}

const char *toolchain_compile(Arena *a, const Toolchain *t, const char *source_path,
                              const char *object_path, char **log)
{
    Words argv = compiler_words(a, t);
    add_words(a, &argv, t->flags);
    const char *const rest[] = {"-o", object_path, source_path, "-lm", NULL};
    for (size_t i = 0; i < COUNT(rest); i++) VEC_PUSH(a, &argv, rest[i]);

    ProcessResult r = {0};
    const char *failed = process_run(a, argv.at, t->limit_ms, &r);
    if (log) *log = failed ? arena_strdup(a, "") : r.output;
    if (failed) return failed;
    if (r.exit_status == 0 && path_exists(object_path)) return NULL;
    const char *how = r.timed_out ? "took too long" : r.exit_status ? "failed" : "made no file";
    const char *first = main_line(a, r.output);
    return arena_printf(a, "the C compiler %s%s%s\n  source: %s\n  command: %s\n%s", how,
                        *first ? "\n  " : "", first, source_path, joined(a, argv.at), r.output);
}
