// SPDX-License-Identifier: Apache-2.0
// From lowered kernel IR to text, and from text to loadable code through a compiler found at run
// time, cached by content.
#ifndef HEALD_CODEGEN_CODEGEN_H
#define HEALD_CODEGEN_CODEGEN_H

#include "ir/kernel.h"

// C source of one kernel: one function a stage, `int32_t NAME_STAGE(void *const *buffers, const
// int64_t *dims, int64_t first, int64_t last, void *scratch)`
// for blocks first .. last-1. buffers: params, then workspaces. scratch: core_local memory, 64-byte
// aligned, scratch_bytes of it. Returns 0, or the number of the CHECK that
// failed. Byte-identical for equal input. lines: emit #line directives into the scripts. False with
// a diagnostic for what C cannot express.
bool codegen_c(const Kernel *k, const Sources *lines, Buf *out, Diag *d);

// Bytes of scratch that each core needs for the lowered kernel at these dims.
int64_t codegen_scratch_bytes(const Kernel *k, const int64_t *dims);

// The message and place of the CHECK that a stage function's status names; NULL if none.
const char *codegen_check_message(const Kernel *k, int32_t status, Loc *loc);

typedef struct Toolchain {
    const char *cc;      // full path; NULL: none found
    const char *version; // first line of --version
    const char *flags;   // optimisation and target flags, space separated
} Toolchain;
// HEALD_CC if that is set; otherwise finds CC, gcc, clang or cc, in this order. False with a
// message naming what was tried and the package that brings one.
bool toolchain_find(Arena *a, const Target *t, Toolchain *out, const char **why);

// Compiles C text to a shared object at `path`. NULL, or a message with the command, its output and
// the path of the kept source.
const char *toolchain_compile(Arena *a, const Toolchain *t, const char *source_path,
                              const char *object_path, char **log);

// The cache: <dir>/operators/<op>/<hash>/{source.c, lib.so, task.txt, log.txt}. `key` is the full
// text of everything that changes the result; it is stored
// as task.txt and compared on a hit. Atomic (built in a temporary folder, then renamed), shared by
// processes, least recently used out at the limit.
typedef struct Cache Cache;
Cache *cache_open(Arena *a, const char *dir, int64_t limit_bytes,
                  const char **why); // NULL with *why
typedef const char *CacheBuild(void *user, Arena *a,
                               const char *dir); // fills dir; NULL or a message
// Gives the folder of the entry, building it if absent or damaged. NULL on success.
const char *cache_get(Cache *c, Arena *a, const char *op, const char *key, CacheBuild *build,
                      void *user, const char **dir, bool *hit);
typedef struct CacheEntry {
    const char *op, *hash, *dir;
    int64_t size_bytes, used_unix_s;
    bool damaged;
} CacheEntry;
const char *cache_list(Cache *c, Arena *a, CacheEntry **entries, int *n);
const char *cache_check(Cache *c, Arena *a, int *ndamaged); // removes damaged entries
const char *cache_clear(Cache *c, Arena *a, int64_t *freed_bytes);
const char *cache_default_dir(Arena *a); // HEALD_CACHE_DIR, XDG_CACHE_HOME/heald, ~/.cache/heald

#endif
