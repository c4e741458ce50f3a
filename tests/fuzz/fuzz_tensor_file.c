// SPDX-License-Identifier: Apache-2.0
// Any bytes as .npy and as .npz: an error, or tensors that can be read to their last byte.
#include "frontends/tensor_file.h"

static volatile unsigned sink;

static void touch(const HostTensor *t)
{
    for (int64_t i = 0, n = host_tensor_bytes(t); i < n; i++)
        sink += ((const unsigned char *)t->data)[i];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    jmp_buf nomem;
    Arena arena = {.limit_bytes = (size_t)64 << 20, .nomem = &nomem};
    if (!setjmp(nomem)) {
        HostTensor one, *list;
        int n;
        if (!tensor_parse_npy(&arena, "fuzz.npy", data, size, &one)) touch(&one);
        if (!tensor_parse_npz(&arena, "fuzz.npz", data, size, &list, &n)) {
            for (int i = 0; i < n; i++) touch(&list[i]);
        }
    }
    arena_free(&arena);
    return 0;
}
