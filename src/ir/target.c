// SPDX-License-Identifier: Apache-2.0
// What machines offer: this one, asked at run time, and a table of GPU architectures.
#include "ir/kernel.h"

#include "base/os.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

// ---- this machine's processor

static int host_vector_bytes(int *nregister)
{
    *nregister = 16;
#if defined(__x86_64__) || defined(__i386__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw")) {
        *nregister = 32;
        return 64;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return 32;
#elif defined(__aarch64__)
    *nregister = 32;
#endif
    return 16;
}

// The number that the first line of a small file starts with, times the unit behind it; -1 when
// absent.
static int64_t read_size(const char *path, char *word, size_t word_size)
{
    FILE *f = fopen(path, "r");
    if (!f) return -1;
    char line[64] = "";
    char *got = fgets(line, sizeof line, f);
    fclose(f);
    if (!got) return -1;
    line[strcspn(line, "\n")] = 0;
    snprintf(word, word_size, "%s", line);
    long long number;
    char unit = 0;
    if (sscanf(line, "%lld%c", &number, &unit) < 1) return -1;
    return number * (unit == 'K' ? 1024 : unit == 'M' ? 1024 * 1024 : 1);
}

// Linux lists each cache of a core with its level, type and size.
static void sysfs_caches(int64_t size[4])
{
    for (int i = 0; i < 8; i++) {
        char path[96], type[64] = "", word[64];
        const char *dir = "/sys/devices/system/cpu/cpu0/cache/index";
        snprintf(path, sizeof path, "%s%d/level", dir, i);
        int64_t level = read_size(path, word, sizeof word);
        if (level < 1 || level > 3) continue;
        snprintf(path, sizeof path, "%s%d/type", dir, i);
        read_size(path, type, sizeof type);
        if (!strcmp(type, "Instruction")) continue;
        snprintf(path, sizeof path, "%s%d/size", dir, i);
        size[level] = max_i64(size[level], read_size(path, word, sizeof word));
    }
}

static int64_t sysconf_cache(int level)
{
    long size = -1;
#ifdef _SC_LEVEL1_DCACHE_SIZE
    static const int name[] = {0, _SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE,
                               _SC_LEVEL3_CACHE_SIZE};
    size = sysconf(name[level]);
#else
    UNUSED(level);
#endif
    return size > 0 ? size : 0;
}

void target_host(Target *t)
{
    static const int64_t usual[4] = {0, 32 << 10, 512 << 10, 8 << 20}; // where nothing is known
    int64_t size[4] = {0};
    sysfs_caches(size);
    for (int level = 1; level <= 3; level++) {
        if (size[level] <= 0) size[level] = sysconf_cache(level);
        if (size[level] <= 0) size[level] = usual[level];
    }
    *t = (Target){.kind = TARGET_CPU,
                  .arch = "native",
                  .ncore = cpu_count(),
                  .max_threads = 1,
                  .l1_bytes = size[1],
                  .l2_bytes = size[2],
                  .l3_bytes = size[3]};
    t->vector_bytes = host_vector_bytes(&t->nregister);
}

// ---- GPUs

// What a block may use, by architecture (CUDA C++ Programming Guide, "Compute Capabilities");
// multiprocessors and L2 of a common large common board, which a device at hand overrides.
// clang-format off
static const struct Gpu {
    const char *arch;
    int ncore;
    int shared_kib, l1_kib, l2_mib;
} gpus[] = {
    // arch     SMs  shared of a block  L1 and shared  L2
    {"sm_75",   68,  64,                96,            6},
    {"sm_80",   108, 163,               192,           40},
    {"sm_86",   84,  99,                128,           6},
    {"sm_87",   16,  163,               192,           4},
    {"sm_89",   128, 99,                128,           72},
    {"sm_90",   132, 227,               256,           50},
    {"sm_90a",  132, 227,               256,           50},
    {"sm_100",  148, 227,               256,           126},
    {"sm_100a", 148, 227,               256,           126},
    {"sm_103",  148, 227,               256,           126},
    {"sm_103a", 148, 227,               256,           126},
    {"sm_120",  170, 99,                128,           96},
    {"sm_120a", 170, 99,                128,           96},
};
// clang-format on

bool target_cuda(Target *t, const char *arch)
{
    for (size_t i = 0; i < COUNT(gpus); i++) {
        const struct Gpu *g = &gpus[i];
        if (strcmp(g->arch, arch)) continue;
        *t = (Target){.kind = TARGET_CUDA,
                      .arch = g->arch,
                      .vector_bytes = 16,
                      .nregister = 255,
                      .ncore = g->ncore,
                      .max_threads = 1024,
                      .shared_bytes = (int64_t)g->shared_kib << 10,
                      .l1_bytes = (int64_t)g->l1_kib << 10,
                      .l2_bytes = (int64_t)g->l2_mib << 20};
        return true;
    }
    return false;
}
