// SPDX-License-Identifier: Apache-2.0
// Runs a model many times on tensors that stay where its kernels run, and waits once:
// stream MODEL.onnx INPUT.pb [cpu|cuda]
#include <heald.h>

#include <stdio.h>

enum { RUNS = 100 };

// A tensor like t in the memory of the kernels.
static heald_status place(heald_context *ctx, const heald_tensor *t, heald_tensor **out)
{
    heald_status s = heald_tensor_create_on_device(ctx, heald_tensor_dtype(t), heald_tensor_rank(t),
                                                   heald_tensor_dims(t), out);
    return s ? s : heald_tensor_copy(ctx, t, *out);
}

int main(int argc, char **argv)
{
    if (argc < 3) return fprintf(stderr, "usage: stream MODEL.onnx INPUT.pb [cpu|cuda]\n"), 2;
    heald_context *ctx;
    heald_model *model = NULL;
    heald_tensor *input = NULL, *output = NULL, *near_input = NULL, *near_output = NULL;
    heald_context_options o = HEALD_CONTEXT_OPTIONS(.target = argc > 3 ? argv[3] : "cpu");
    heald_status s = heald_context_create(HEALD_VERSION, &o, &ctx);
    if (!s) s = heald_model_load_onnx(ctx, argv[1], &model);
    if (!s) s = heald_tensor_read(ctx, argv[2], &input);
    if (!s) s = heald_model_run(model, &input, &output); // tells the shape of the output
    if (!s) s = place(ctx, input, &near_input);
    if (!s) s = place(ctx, output, &near_output);
    for (int i = 0; i < RUNS && !s; i++) s = heald_model_run(model, &near_input, &near_output);
    if (!s) s = heald_context_synchronise(ctx);
    if (!s) s = heald_tensor_copy(ctx, near_output, output);
    if (s) fprintf(stderr, "%s\n", heald_last_error(ctx));
    else printf("first result: %g\n", *(const float *)heald_tensor_data(output));
    heald_tensor_release(near_output);
    heald_tensor_release(near_input);
    heald_tensor_release(output);
    heald_tensor_release(input);
    heald_model_destroy(model);
    heald_context_destroy(ctx);
    return s != HEALD_OK;
}
