// SPDX-License-Identifier: Apache-2.0
// Finding a C compiler and running it on generated code.
#include "codegen/codegen.h"

#include "base/os.h"

#include <stdlib.h>
#include <string.h>

enum { COMPILE_TIMEOUT_MS = 600000 };

// Generated code relies on wrapping integers and on nothing being contracted or reassociated.
static const char base_flags[] =
    "-O3 -std=gnu11 -fwrapv -ffp-contract=off -fno-math-errno -fno-trapping-math "
    "-fno-stack-protector -fvisibility=hidden -fPIC -shared -w";

static const char *first_line(Arena *a, const char *text)
{
    return arena_strndup(a, text, strcspn(text, "\n"));
}

// A candidate is a program name, perhaps with arguments behind it, which are left out.
static bool try_compiler(Arena *a, const char *candidate, Toolchain *out)
{
    if (!candidate || !*candidate) return false;
    const char *path = find_program(a, arena_strndup(a, candidate, strcspn(candidate, " ")));
    if (!path) return false;
    ProcessResult r;
    const char *const argv[] = {path, "--version", NULL};
    if (process_run(a, argv, 10000, &r) || r.exit_status != 0) return false;
    out->cc = path;
    out->version = first_line(a, r.output);
    return true;
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

const char *toolchain_compile(Arena *a, const Toolchain *t, const char *source_path,
                              const char *object_path, char **log)
{
    VEC(const char *) argv = {0};
    VEC_PUSH(a, &argv, t->cc);
    char *state = NULL, *flags = arena_strdup(a, t->flags);
    for (char *s = strtok_r(flags, " ", &state); s; s = strtok_r(NULL, " ", &state))
        VEC_PUSH(a, &argv, s);
    const char *const rest[] = {"-o", object_path, source_path, "-lm", NULL};
    for (size_t i = 0; i < COUNT(rest); i++) VEC_PUSH(a, &argv, rest[i]);

    ProcessResult r = {0};
    const char *failed = process_run(a, argv.at, COMPILE_TIMEOUT_MS, &r);
    if (log) *log = failed ? arena_strdup(a, "") : r.output;
    if (failed) return failed;
    if (r.exit_status == 0 && path_exists(object_path)) return NULL;
    const char *how = r.timed_out ? "took too long" : r.exit_status ? "failed" : "made no file";
    return arena_printf(a, "the C compiler %s\n  command: %s\n  source: %s\n%s", how,
                        joined(a, argv.at), source_path, r.output);
}
