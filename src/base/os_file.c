// SPDX-License-Identifier: Apache-2.0
// Files and folders. The rule throughout: let go of descriptors first, then make the message, since
// making one may long-jump.
#include "base/os.h"

#include "base/util.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *complaint(Arena *a, const char *path, int error)
{
    return error ? arena_printf(a, "%s: %s", path, strerror(error)) : NULL;
}

// Each function below that returns int returns 0 or an errno.

static int open_for_reading(const char *path, int *fd, struct stat *st)
{
    *fd = open(path, O_RDONLY | O_CLOEXEC);
    if (*fd < 0) return errno;
    int error = fstat(*fd, st) ? errno : S_ISDIR(st->st_mode) ? EISDIR : 0;
    if (error) close(*fd);
    return error;
}

// All that can be read from fd, in memory from malloc with a 0 after it. `expected` is a guess of
// the size.
static int slurp(int fd, size_t expected, char **data, size_t *size)
{
    size_t cap = expected + 2, n = 0; // room for the 0 and for seeing the end without growing
    char *buffer = malloc(cap);
    int error = buffer ? 0 : ENOMEM;
    while (!error) {
        if (cap - n < 2) {
            char *grown = cap > SIZE_MAX / 2 ? NULL : realloc(buffer, cap * 2);
            if (!grown) {
                error = ENOMEM;
                break;
            }
            buffer = grown;
            cap *= 2;
        }
        ssize_t got = read(fd, buffer + n, cap - n - 1);
        if (got == 0) break;
        if (got > 0) n += (size_t)got;
        else if (errno != EINTR) error = errno;
    }
    if (error) {
        free(buffer);
        return error;
    }
    buffer[n] = 0;
    *data = buffer;
    *size = n;
    return 0;
}

static int map_file(const char *path, FileMap *out)
{
    int fd;
    struct stat st;
    int error = open_for_reading(path, &fd, &st);
    if (error) return error;
    if (S_ISREG(st.st_mode) && st.st_size > 0) {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        error = p == MAP_FAILED ? errno : 0;
        if (!error) *out = (FileMap){p, (size_t)st.st_size, true};
    } else { // pipes, devices, and files under /proc, whose size is not known
        char *data;
        size_t size;
        error = slurp(fd, 0, &data, &size);
        if (!error && size) *out = (FileMap){(uint8_t *)data, size, false};
        else if (!error) free(data);
    }
    close(fd);
    return error;
}

const char *file_map(Arena *a, const char *path, FileMap *out)
{
    *out = (FileMap){0};
    return complaint(a, path, map_file(path, out));
}

void file_unmap(FileMap *m)
{
    if (m->mapped) munmap((void *)m->data, m->size);
    else free((void *)m->data);
    *m = (FileMap){0};
}

const char *file_read(Arena *a, const char *path, char **text, size_t *size)
{
    int fd;
    struct stat st;
    char *data = NULL;
    *text = NULL;
    *size = 0;
    int error = open_for_reading(path, &fd, &st);
    if (!error) {
        error = slurp(fd, st.st_size > 0 ? (size_t)st.st_size : 0, &data, size);
        close(fd);
    }
    if (error) return complaint(a, path, error);
    *text = arena_take(a, data, *size + 1);
    return NULL;
}

static int write_all(int fd, const char *data, size_t size)
{
    while (size) {
        ssize_t done = write(fd, data, size);
        if (done < 0 && errno != EINTR) return errno;
        if (done < 0) continue;
        data += done;
        size -= (size_t)done;
    }
    return 0;
}

static int write_to(const char *path, int flags, const void *data, size_t size, bool sync)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC | flags, 0666);
    if (fd < 0) return errno;
    int error = write_all(fd, data, size);
    if (!error && sync && fsync(fd)) error = errno;
    if (close(fd) && !error) error = errno;
    return error;
}

// So that the rename itself survives a power cut. A file system that cannot do this is no failure
// of the write.
static void sync_folder_of(Arena *a, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *folder = !slash          ? "."
                         : slash == path ? "/"
                                         : arena_strndup(a, path, (size_t)(slash - path));
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    fsync(fd);
    close(fd);
}

const char *file_write(Arena *a, const char *path, const void *data, size_t size)
{
    return complaint(a, path, write_to(path, O_CREAT | O_TRUNC, data, size, false));
}

const char *file_write_atomic(Arena *a, const char *path, const void *data, size_t size)
{
    static atomic_uint counter; // makes names differ between the threads of one process
    struct stat st;
    if (!stat(path, &st) && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
        return complaint(a, path, write_to(path, 0, data, size, false));
    }
    for (;;) {
        const char *temporary =
            arena_printf(a, "%s.%ld.%u.tmp", path, (long)getpid(), atomic_fetch_add(&counter, 1));
        int error = write_to(temporary, O_CREAT | O_EXCL, data, size, true);
        if (error == EEXIST) continue; // left by a process that was killed and had our id
        if (!error && rename(temporary, path)) error = errno;
        if (error) {
            unlink(temporary);
            return complaint(a, path, error);
        }
        sync_folder_of(a, path);
        return NULL;
    }
}

static int make_one(const char *path)
{
    if (!mkdir(path, 0777)) return 0;
    int error = errno;
    return path_is_dir(path) ? 0 : error;
}

const char *dir_make(Arena *a, const char *path)
{
    char *part = arena_strdup(a, path);
    for (char *p = part; *p; p++) {
        if (*p != '/' || p == part) continue;
        *p = 0;
        int error = make_one(part);
        if (error) return complaint(a, part, error);
        *p = '/';
    }
    return complaint(a, path, make_one(path));
}

// Empties an open folder and closes it. Links are removed, never followed.
static int remove_inside(int fd)
{
    DIR *dir = fdopendir(fd);
    if (!dir) {
        int error = errno;
        close(fd);
        return error;
    }
    int error = 0;
    for (struct dirent *e; !error && (errno = 0, e = readdir(dir));) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        int sub = openat(fd, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (sub < 0 && errno != ENOTDIR && errno != ELOOP) error = errno;
        if (sub >= 0) error = remove_inside(sub);
        if (!error && unlinkat(fd, e->d_name, sub >= 0 ? AT_REMOVEDIR : 0)) error = errno;
        if (error == ENOENT) error = 0; // another process was faster
    }
    if (!error) error = errno;
    closedir(dir);
    return error;
}

const char *dir_remove(Arena *a, const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int error = fd < 0 ? errno : remove_inside(fd);
    if (!error && rmdir(path)) error = errno;
    return complaint(a, path, error == ENOENT ? 0 : error);
}

static int by_name(const void *x, const void *y)
{
    return strcmp(*(char *const *)x, *(char *const *)y);
}

// Reads names until the end; jumps out of memory with the folder still open.
static int read_names(Arena *a, DIR *dir, char ***names, int *n)
{
    VEC(char *) list = {0};
    for (struct dirent *e; (errno = 0, e = readdir(dir));) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        VEC_PUSH(a, &list, arena_strdup(a, e->d_name));
    }
    if (errno) return errno;
    if (list.n) qsort(list.at, (size_t)list.n, sizeof *list.at, by_name);
    *names = list.at;
    *n = list.n;
    return 0;
}

const char *dir_list(Arena *a, const char *path, char ***names, int *n)
{
    *names = NULL;
    *n = 0;
    DIR *dir = opendir(path);
    if (!dir) return complaint(a, path, errno);
    jmp_buf *outer = a->nomem, full;
    volatile int error = ENOMEM;
    volatile bool jumped = true;
    a->nomem = &full;
    if (!setjmp(full)) {
        error = read_names(a, dir, names, n);
        jumped = false;
    }
    a->nomem = outer;
    closedir(dir);
    if (jumped) arena_out_of_memory(a);
    return complaint(a, path, error);
}

bool path_exists(const char *path)
{
    struct stat st;
    return !stat(path, &st);
}

bool path_is_dir(const char *path)
{
    struct stat st;
    return !stat(path, &st) && S_ISDIR(st.st_mode);
}

int64_t file_size_bytes(const char *path)
{
    struct stat st;
    return stat(path, &st) ? -1 : (int64_t)st.st_size;
}

char *path_join(Arena *a, const char *dir, const char *name)
{
    size_t n = strlen(dir);
    if (n == 0 || name[0] == '/') return arena_strdup(a, name);
    return arena_printf(a, "%s%s%s", dir, dir[n - 1] == '/' ? "" : "/", name);
}
