// SPDX-License-Identifier: Apache-2.0
// One case of a suite, in this process.
#ifndef HEALD_API_SUITE_CASE_H
#define HEALD_API_SUITE_CASE_H

#include "api/suite.h"
#include "frontends/onnx_model.h"

// Why the model is none of a tensor compiler's business, or NULL: types that are no tensors, other
// operator sets, training.
const char *suite_out_of_scope(const OnnxModel *m);
// The operator it is about: that of its only kind of node, Constant aside; "(several)".
const char *suite_operator(const OnnxModel *m);

// Sets verdict, reason, note and op of the case at k->path.
void suite_case_run(heald_context *c, Arena *a, double rtol, double atol, SuiteCase *k);

#endif
