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
    const char *cc;      // full path, and words that go before the flags ("/usr/bin/ccache gcc");
                         // NULL: none found
    int nword;           // such words; the path may hold blanks
    const char *version; // first line of --version
    const char *flags;   // optimisation and target flags, space separated
    const char *machine; // what -march=native means here, as a hash; "" if the flags say it all
    int limit_ms;        // of one compilation
} Toolchain;
// HEALD_CC if that is set; otherwise finds CC, gcc, clang or cc, in this order. False with a
// message naming what was tried and the package that brings one.
bool toolchain_find(Arena *a, const Target *t, Toolchain *out, const char **why);

// Compiles C text to a shared object. NULL, or a message with the first error, the path of the
// source, the command and its output.
const char *toolchain_compile(Arena *a, const Toolchain *t, const char *source_path,
                              const char *object_path, char **log);
// Whether what a failed compiler said is a mistake in a line of the text, which it would find
// again, rather than trouble of its own: killed, out of memory, no space left, not installed right.
bool toolchain_blames_text(const char *log);

// The cache: <dir>/operators/<op>/<hash>/{source.c, lib.so, task.txt, log.txt}. `key` is the full
// text of everything that changes the result; it is stored as task.txt and compared on a hit.
// Atomic (built in a temporary folder, then renamed), shared by processes, least recently used out
// at the limit. Opening it removes what processes that died have left in <dir>/tmp.
typedef struct Cache Cache;
Cache *cache_open(Arena *a, const char *dir, int64_t limit_bytes,
                  const char **why); // NULL with *why

typedef enum CacheFailure {
    CACHE_FAILED,         // the world's trouble: nothing is left behind
    CACHE_FAILED_KEPT,    // the same, but what was written is worth a look: kept for a day
    CACHE_FAILED_FOR_GOOD // the entry answers with this message from now on
} CacheFailure;
// Fills dir. NULL, or a message and *failure, CACHE_FAILED until set. In the message dir is
// replaced by where things are kept.
typedef const char *CacheBuild(void *user, Arena *a, const char *dir, CacheFailure *failure);
// Gives the folder of the entry, building it if absent or damaged. NULL on success. *hit is also
// set where the message is a kept one.
const char *cache_get(Cache *c, Arena *a, const char *op, const char *key, CacheBuild *build,
                      void *user, const char **dir, bool *hit);
// Drops an entry that is whole and yet of no use, such as a library that cannot be loaded.
const char *cache_drop(Cache *c, Arena *a, const char *dir);
typedef struct CacheEntry {
    const char *op, *hash, *dir;
    int64_t size_bytes, used_unix_s;
    bool damaged, failed; // failed: keeps the message of a failure
} CacheEntry;
const char *cache_list(Cache *c, Arena *a, CacheEntry **entries, int *n);
const char *cache_check(Cache *c, Arena *a, int *ndamaged); // removes damaged entries
const char *cache_clear(Cache *c, Arena *a, int64_t *freed_bytes);
const char *cache_default_dir(Arena *a); // HEALD_CACHE_DIR, XDG_CACHE_HOME/heald, ~/.cache/heald

#endif
