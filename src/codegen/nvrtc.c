// SPDX-License-Identifier: Apache-2.0
// Compilers of CUDA C: NVRTC, loaded at run time and called in this process, or the program nvcc.
#include "codegen/cuda.h"

#include "base/os.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NVCC_TIMEOUT_MS = 600000 };

typedef struct NvrtcProgram NvrtcProgram;
typedef int NvrtcResult;

// Of NVRTC's interface, what is used here (CUDA Toolkit Documentation, "NVRTC").
#define NVRTC_FUNCTIONS(F)                                                                \
    F(Version, (int *major, int *minor))                                                  \
    F(CreateProgram, (NvrtcProgram * *p, const char *text, const char *name, int nheader, \
                      const char *const *headers, const char *const *names))              \
    F(CompileProgram, (NvrtcProgram * p, int noption, const char *const *options))        \
    F(DestroyProgram, (NvrtcProgram * *p))                                                \
    F(GetProgramLogSize, (NvrtcProgram * p, size_t * size))                               \
    F(GetProgramLog, (NvrtcProgram * p, char *log))                                       \
    F(GetCUBINSize, (NvrtcProgram * p, size_t * size))                                    \
    F(GetCUBIN, (NvrtcProgram * p, char *image))                                          \
    F(GetPTXSize, (NvrtcProgram * p, size_t * size))                                      \
    F(GetPTX, (NvrtcProgram * p, char *image))                                            \
    F(GetNumSupportedArchs, (int *n))                                                     \
    F(GetSupportedArchs, (int *arch))

struct CudaToolchain {
    const char *path, *version;
    bool is_nvcc;
    int major; // of its version
    int narch;
    int *arch; // known to the compiler
#define FIELD(name, parameters) NvrtcResult(*name) parameters;
    NVRTC_FUNCTIONS(FIELD)
#undef FIELD
};

// ---- finding one

static bool load_nvrtc(Arena *a, CudaToolchain *t, const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) return false;
    bool all = true;
#define LOAD(name, parameters) all &= (*(void **)&t->name = dlsym(library, "nvrtc" #name)) != NULL;
    NVRTC_FUNCTIONS(LOAD)
#undef LOAD
    int major, minor;
    if (!all || t->Version(&major, &minor) || t->GetNumSupportedArchs(&t->narch)) {
        dlclose(library);
        return false;
    }
    t->arch = NEW_ARRAY(a, int, t->narch);
    t->GetSupportedArchs(t->arch);
    t->path = arena_strdup(a, path);
    t->major = major;
    t->version = arena_printf(a, "NVRTC %d.%d (%s)", major, minor, path);
    return true;
}

// Newest first; the loader's path, then where NVIDIA's packages put it.
static bool search_nvrtc(Arena *a, CudaToolchain *t)
{
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2",
                                        "libnvrtc.so"};
    static const char *const dirs[] = {"", "/usr/local/cuda/lib64/", "/opt/cuda/lib64/"};
    for (size_t d = 0; d < COUNT(dirs); d++) {
        for (size_t n = 0; n < COUNT(names); n++)
            if (load_nvrtc(a, t, arena_printf(a, "%s%s", dirs[d], names[n]))) return true;
    }
    return false;
}

// What a program says when it is asked for something; NULL: it is none, or fails.
static const char *answer(Arena *a, const char *program, const char *question)
{
    ProcessResult r;
    const char *const argv[] = {program, question, NULL};
    return process_run(a, argv, 10000, &r) || r.exit_status ? NULL : r.output;
}

static bool take_nvcc(Arena *a, CudaToolchain *t, const char *path)
{
    const char *said = answer(a, path, "--version");
    const char *release = said ? strstr(said, "release ") : NULL;
    const char *known = release ? answer(a, path, "--list-gpu-arch") : NULL; // a line: compute_80
    if (!known) return false;
    release += strlen("release ");
    VEC(int) arch = {0};
    for (const char *at = known; (at = strchr(at, '_')); at++) VEC_PUSH(a, &arch, atoi(at + 1));
    t->path = path;
    t->is_nvcc = true;
    t->major = atoi(release);
    t->arch = arch.at;
    t->narch = arch.n;
    t->version = arena_printf(a, "nvcc %.*s", (int)strcspn(release, ","), release);
    return true;
}

const CudaToolchain *cuda_toolchain_find(Arena *a, const char **why)
{
    CudaToolchain *t = NEW(a, CudaToolchain);
    static const char package[] =
        "NVIDIA's package cuda-nvrtc brings one, as does Debian's libnvrtc";
    const char *named = getenv("HEALD_NVRTC");
    if (named && *named) {
        if (load_nvrtc(a, t, named) || take_nvcc(a, t, arena_strdup(a, named))) return t;
        *why = arena_printf(a, "HEALD_NVRTC=%s is no NVRTC that can be loaded, and no nvcc; %s",
                            named, package);
        return NULL;
    }
    const char *nvcc;
    if (search_nvrtc(a, t)) return t;
    if ((nvcc = find_program(a, "nvcc")) && take_nvcc(a, t, nvcc)) return t;
    *why = arena_printf(
        a, "no compiler for CUDA found (tried libnvrtc.so of versions 11 to 13 and nvcc); %s",
        package);
    return NULL;
}

const char *cuda_toolchain_version(const CudaToolchain *t)
{
    return t->version;
}

// ---- flags

// Compilers before CUDA 12 know numbers alone, and sm_90 in place of sm_90a.
CudaFlags cuda_toolchain_flags(const CudaToolchain *t, Arena *a, const char *arch)
{
    int number = cuda_arch_number(arch), best = 0;
    bool known = false;
    for (int i = 0; i < t->narch; i++) {
        known |= t->arch[i] == number;
        if (t->arch[i] <= number) best = max_i64(best, t->arch[i]);
    }
    static const char common[] =
        "--fmad=false --ftz=false --prec-div=true --prec-sqrt=true -std=c++17";
    if (known && t->major < 12) arch = arena_printf(a, "sm_%d", number);
    if (known) return (CudaFlags){arena_printf(a, "--gpu-architecture=%s %s", arch, common), false};
    return (CudaFlags){arena_printf(a, "--gpu-architecture=compute_%d %s", best, common), true};
}

// The words of the flags, behind n given ones; NULL at their end, which is not counted.
static const char **words(Arena *a, const char *const *given, int n, const char *flags, int *count)
{
    VEC(const char *) list = {0};
    char *state = NULL, *copy = arena_strdup(a, flags);
    for (int i = 0; i < n; i++) VEC_PUSH(a, &list, given[i]);
    for (char *s = strtok_r(copy, " ", &state); s; s = strtok_r(NULL, " ", &state))
        VEC_PUSH(a, &list, s);
    *count = list.n;
    VEC_PUSH(a, &list, NULL);
    return list.at;
}

// ---- compiling

static const char *failed(Arena *a, const char *who, const char *flags, const char *source_path,
                          const char *said)
{
    return arena_printf(a, "%s failed\n  flags: %s\n  source: %s\n%s", who, flags, source_path,
                        said);
}

static const char *compile_nvrtc(Arena *a, const CudaToolchain *t, const CudaFlags *flags,
                                 const char *text, const char *source_path, const char *object_path,
                                 char **log)
{
    NvrtcProgram *p = NULL;
    int noption;
    const char *figures = "--ptxas-options=-v";
    const char **options = words(a, &figures, flags->ptx ? 0 : 1, flags->text, &noption);
    if (t->CreateProgram(&p, text, "source.cu", 0, NULL, NULL)) return "NVRTC takes no program";
    NvrtcResult r = t->CompileProgram(p, noption, options);
    size_t size = 0;
    t->GetProgramLogSize(p, &size);
    *log = arena_alloc(a, size + 1);
    (*log)[0] = 0;
    if (size) t->GetProgramLog(p, *log);
    const char *why = r ? failed(a, t->version, flags->text, source_path, *log) : NULL;
    size = 0;
    if (!why && (flags->ptx ? t->GetPTXSize(p, &size) : t->GetCUBINSize(p, &size)))
        why = failed(a, t->version, flags->text, source_path, "it gives no result");
    char *image = arena_alloc(a, size + 1);
    if (!why) {
        if (flags->ptx) t->GetPTX(p, image);
        else t->GetCUBIN(p, image);
        why = file_write(a, object_path, image, size);
    }
    t->DestroyProgram(&p);
    return why;
}

static const char *compile_nvcc(Arena *a, const CudaToolchain *t, const CudaFlags *flags,
                                const char *source_path, const char *object_path, char **log)
{
    ProcessResult r = {0};
    const char *const given[] = {
        t->path, flags->ptx ? "-ptx" : "-cubin", "-Xptxas=-v", "-o", object_path, source_path};
    int n;
    const char **argv = words(a, given, COUNT(given), flags->text, &n);
    const char *why = process_run(a, argv, NVCC_TIMEOUT_MS, &r);
    *log = why ? arena_strdup(a, "") : r.output;
    if (why) return why;
    return r.exit_status ? failed(a, t->version, flags->text, source_path, r.output) : NULL;
}

const char *cuda_toolchain_compile(Arena *a, const CudaToolchain *t, const CudaFlags *flags,
                                   const char *text, const char *source_path,
                                   const char *object_path, char **log)
{
    if (t->is_nvcc) return compile_nvcc(a, t, flags, source_path, object_path, log);
    return compile_nvrtc(a, t, flags, text, source_path, object_path, log);
}

// ---- the assembler's figures, as in
//   ptxas info    : Compiling entry function 'NAME' for 'sm_80'
//   ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
//   ptxas info    : Used 24 registers, used 1 barriers, 8192 bytes smem

static int64_t number_before(const char *line, const char *end, const char *words)
{
    const char *at = strstr(line, words);
    if (!at || at >= end) return -1;
    while (at > line && at[-1] >= '0' && at[-1] <= '9') at--;
    return strtoll(at, NULL, 10);
}

bool cuda_log_figures(const char *log, const char *entry, CudaFigures *out)
{
    *out = (CudaFigures){-1, -1, -1, -1, -1};
    bool found = false, mine = false;
    size_t length = strlen(entry);
    for (const char *line = log; line && *line;
         line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        const char *end = line + strcspn(line, "\n"), *name = strstr(line, "entry function '");
        if (name && name < end) {
            name += strlen("entry function '");
            mine = !strncmp(name, entry, length) && name[length] == '\'';
            found |= mine;
        }
        if (!mine) continue;
        int64_t spilled = number_before(line, end, " bytes spill stores");
        int64_t used = number_before(line, end, " registers");
        if (spilled >= 0) {
            out->spill_store_bytes = (int)spilled;
            out->spill_load_bytes = (int)number_before(line, end, " bytes spill loads");
            out->stack_bytes = (int)number_before(line, end, " bytes stack frame");
        }
        if (used >= 0) {
            out->registers = (int)used;
            out->shared_bytes = max_i64(number_before(line, end, " bytes smem"), 0);
        }
    }
    return found;
}
