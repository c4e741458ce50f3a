// SPDX-License-Identifier: Apache-2.0
// Any operator of the library by its name: a graph of one line, used for shapes as they come.
#include <heald.h>

#include <math.h>
#include <stdio.h>

int main(void)
{
    static const char text[] = "graph rows(x: f32[n, m]) -> (y) { y = softmax(x, axis = 1); }\n";
    heald_context *ctx;
    heald_model *model = NULL;
    heald_status s = heald_context_create(HEALD_VERSION, NULL, &ctx);
    if (!s) s = heald_model_load_text(ctx, "rows.hd", text, NULL, &model);
    for (int64_t n = 1; n <= 3 && !s; n++) {
        const int64_t dims[] = {n, 4};
        heald_tensor *x = NULL, *y = NULL;
        s = heald_tensor_create(HEALD_F32, 2, dims, &x);
        if (!s) ((float *)heald_tensor_data(x))[1] = 1;
        if (!s) s = heald_model_run(model, &x, &y);
        if (!s) {
            const float *p = heald_tensor_data(y);
            printf("%g %g %g %g\n", p[0], p[1], p[2], p[3]);
            if (fabsf(p[0] + p[1] + p[2] + p[3] - 1) > 1e-6f) s = HEALD_INTERNAL;
        }
        heald_tensor_release(y);
        heald_tensor_release(x);
    }
    if (s) fprintf(stderr, "%s\n%s\n", heald_status_name(s), heald_last_error(ctx));
    heald_model_destroy(model);
    heald_context_destroy(ctx);
    return s != HEALD_OK;
}
