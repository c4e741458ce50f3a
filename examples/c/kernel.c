// SPDX-License-Identifier: Apache-2.0
// Compiles a kernel written in Heald's language and runs it on the program's own memory.
#include <heald.h>

#include <stdio.h>

static const char text[] =
    "kernel axpy(x: f32[n], y: f32[n]; a: f32 = 1.0) -> (z: f32[n]) on cpu {\n"
    "    launch grid(ceil(n, 1024));\n"
    "    for i in block.x * 1024 .. min(block.x * 1024 + 1024, n) { z[i] = a * x[i] + y[i]; }\n"
    "}\n";

enum { N = 5000 };
static float x[N], y[N], z[N];

static int fail(heald_context *ctx, heald_status s)
{
    fprintf(stderr, "%s\n%s\n", heald_status_name(s), heald_last_error(ctx));
    heald_context_destroy(ctx);
    return 1;
}

int main(void)
{
    heald_context *ctx;
    heald_status s = heald_context_create(HEALD_VERSION, NULL, &ctx);
    if (s) return fail(ctx, s);

    heald_kernel *axpy;
    const char *attributes[] = {"a=2.0", NULL};
    s = heald_compile(ctx, "axpy.hd", text,
                      &HEALD_COMPILE_OPTIONS(.dynamic = "n", .attributes = attributes), &axpy);
    if (s) return fail(ctx, s);

    const int64_t dims[] = {N};
    float *memory[] = {x, y, z};
    heald_tensor *params[3];
    for (int i = 0; i < N; i++) x[i] = (float)i, y[i] = 1;
    for (int i = 0; i < 3 && !s; i++)
        s = heald_tensor_from_memory(HEALD_F32, 1, dims, memory[i], NULL, NULL, &params[i]);
    if (!s) s = heald_kernel_run(ctx, axpy, params);
    if (s) return fail(ctx, s);

    int bad = 0;
    for (int i = 0; i < N; i++) bad += z[i] != 2 * (float)i + 1;
    printf("2 * %d + 1 = %g\n", N - 1, z[N - 1]);
    for (int i = 0; i < 3; i++) heald_tensor_release(params[i]);
    heald_kernel_destroy(axpy);
    heald_context_destroy(ctx);
    return bad != 0;
}
