// SPDX-License-Identifier: Apache-2.0
// Files, processes, threads and clocks. Failures of the world come back as a message in the
// caller's arena.
#ifndef HEALD_BASE_OS_H
#define HEALD_BASE_OS_H

#include "base/vec.h"

typedef struct FileMap {
    const uint8_t *data; // NULL when size is 0
    size_t size;
    bool mapped;
} FileMap;

// Each returns NULL on success, otherwise a message in `a` that names the file ("PATH: No such file
// or directory").
const char *file_map(Arena *a, const char *path, FileMap *out);
void file_unmap(FileMap *m);
// The text is 0-terminated and in `a`.
const char *file_read(Arena *a, const char *path, char **text, size_t *size);
// Through a temporary file beside it, fsync and rename: others see the old file or the new one.
// What is neither file nor folder (a device, a pipe) is written to directly.
const char *file_write_atomic(Arena *a, const char *path, const void *data, size_t size);
// Over what is there, and without waiting for the disk: for files that only count together with
// others, which are looked at as a whole.
const char *file_write(Arena *a, const char *path, const void *data, size_t size);
const char *dir_make(Arena *a, const char *path);   // with parents; fine if it exists
const char *dir_remove(Arena *a, const char *path); // whole tree; fine if it does not exist
const char *dir_list(Arena *a, const char *path, char ***names, int *n); // sorted, without . and ..
bool path_exists(const char *path);
bool path_is_dir(const char *path);
int64_t file_size_bytes(const char *path); // -1 when absent
char *path_join(Arena *a, const char *dir, const char *name);

typedef struct ProcessResult {
    int exit_status; // of the child; 128 + signal when killed
    char *output;    // stdout and stderr, 0-terminated, in the arena, at most 1 MiB kept
    size_t output_size;
    bool timed_out;
} ProcessResult;

// Runs argv (NULL-terminated; searched in PATH) without a shell; stdin is /dev/null. timeout_ms 0:
// none; when it passes, the child and its process group are killed. A message only if it could not
// be started at all ("gcc: No such file or directory").
const char *process_run(Arena *a, const char *const *argv, int timeout_ms, ProcessResult *out);

int64_t clock_ns(void);                               // monotonic
int cpu_count(void);                                  // cores this process may use
const char *find_program(Arena *a, const char *name); // full path in PATH, or NULL

#endif
