// SPDX-License-Identifier: Apache-2.0
// What the commands on models share: finding the model, its inputs from files or at random.
#ifndef HEALD_CLI_MODEL_JOB_H
#define HEALD_CLI_MODEL_JOB_H

#include "api/model.h"
#include "api/test_data.h"
#include "cli/cli.h"
#include "cli/image.h"

typedef struct ModelJob {
    Cli *cli;
    heald_model *model;
    const char *path; // of the .onnx file
    int ninput, noptional, noutput;
    heald_tensor **input;  // (ninput + noptional), NULL until given; optional ones come last
    heald_tensor **output; // (noutput), NULL until run
    const char **source;   // (ninput + noptional) file of an input, or NULL
    Image picture;         // the last picture given; width 0: none
    int64_t batch;         // extent of the open first axes of random inputs; 0: not given
} ModelJob;

// Loads the model of the operand: a .onnx file, or a folder with model.onnx. Exit status; call
// model_close in any case.
int model_open(Cli *c, ModelJob *j);
void model_close(ModelJob *j);

// Inputs from --input, the others random. Exit status.
int model_take_inputs(ModelJob *j);

// Inputs from a folder with input_N.pb; data is borrowed. Exit status.
int model_take_data(ModelJob *j, const char *dir, TestData *data);
// Gives inputs and outputs back.
void model_drop_tensors(ModelJob *j);

// Warns of what the narrow type of the model that has been run had no room for.
void model_warn_precision(ModelJob *j);
// "precision f16 in 12 of 14 nodes"; "precision f32"
const char *model_precision_text(ModelJob *j);

// An input, or from j->ninput on an optional one.
const heald_value_info *model_input_info(const ModelJob *j, int i);

// "f32[1, 3]"
const char *tensor_text(Arena *a, const heald_tensor *t);

#endif
