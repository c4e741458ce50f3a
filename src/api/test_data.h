// SPDX-License-Identifier: Apache-2.0
// The test data that ONNX ships beside a model: test_data_set_N/input_N.pb and output_N.pb.
#ifndef HEALD_API_TEST_DATA_H
#define HEALD_API_TEST_DATA_H

#include "frontends/tensor_file.h"
#include "graph/graph.h"

typedef struct TestData {
    HostTensor *input, *output; // by position
    int ninput, noutput;
} TestData;

// NULL on success, otherwise a message in `a` that names the file.
const char *test_data_read(Arena *a, const char *folder, TestData *out);
// Which tensor is for which of the graph's inputs, then of its defaults; NULL: none is. By position
// where there are as many as inputs; more of them tell by their names. NULL, or what is wrong.
const char *test_data_place(Arena *a, const TestData *d, const Graph *g, const HostTensor **given);
// The folders test_data_set_* of a model's folder, sorted.
const char *test_data_sets(Arena *a, const char *model_folder, char ***folders, int *n);
// "rtol" and "atol" of data.json beside a model; left as they are where it does not say.
void test_data_tolerance(Arena *a, const char *model_folder, double *rtol, double *atol);

#endif
