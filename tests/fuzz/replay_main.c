// SPDX-License-Identifier: Apache-2.0
// A plain main for a fuzz target: feeds it every file of a corpus folder, so that inputs that once
// failed stay tested without libFuzzer. Exit 77 (skipped) where there is no corpus.
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay(const char *path, size_t size)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(size ? size : 1);
    int ok = file && data && fread(data, 1, size, file) == size;
    if (ok) LLVMFuzzerTestOneInput(data, size);
    free(data);
    if (file) fclose(file);
    return ok;
}

int main(int argc, char **argv)
{
    DIR *dir = argc == 2 ? opendir(argv[1]) : NULL;
    if (!dir) {
        printf("skip: no corpus folder %s\n", argc == 2 ? argv[1] : "given");
        return 77;
    }
    int n = 0;
    for (struct dirent *e; (e = readdir(dir));) {
        char path[4096];
        struct stat st;
        snprintf(path, sizeof path, "%s/%s", argv[1], e->d_name);
        if (stat(path, &st) || !S_ISREG(st.st_mode)) continue;
        if (!replay(path, (size_t)st.st_size)) {
            printf("not ok %d - cannot read %s\n", n + 1, path);
            closedir(dir);
            return 1;
        }
        printf("ok %d - %s\n", ++n, e->d_name);
        fflush(stdout);
    }
    closedir(dir);
    if (n == 0) printf("skip: corpus folder %s is empty\n", argv[1]);
    return n ? 0 : 77;
}
