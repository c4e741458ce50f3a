// SPDX-License-Identifier: Apache-2.0
// Loads an ONNX model and runs it: classify MODEL.onnx INPUT.pb
#include <heald.h>

#include <stdio.h>

int main(int argc, char **argv)
{
    if (argc != 3) return fprintf(stderr, "usage: classify MODEL.onnx INPUT.pb\n"), 2;
    heald_context *ctx;
    heald_model *model = NULL;
    heald_tensor *input = NULL, *output = NULL;
    heald_status s = heald_context_create(HEALD_VERSION, NULL, &ctx);
    if (!s) s = heald_model_load_onnx(ctx, argv[1], &model);
    if (!s) s = heald_tensor_read(ctx, argv[2], &input);
    if (!s) s = heald_model_run(model, &input, &output); // compiles at the first run
    if (s) {
        fprintf(stderr, "%s\n", heald_last_error(ctx));
    } else {
        const float *score = heald_tensor_data(output);
        int64_t best = 0, n = (int64_t)(heald_tensor_bytes(output) / sizeof *score);
        for (int64_t i = 1; i < n; i++)
            if (score[i] > score[best]) best = i;
        printf("class %lld of %lld, score %g\n", (long long)best, (long long)n, score[best]);
    }
    heald_tensor_release(output);
    heald_tensor_release(input);
    heald_model_destroy(model);
    heald_context_destroy(ctx);
    return s != HEALD_OK;
}
