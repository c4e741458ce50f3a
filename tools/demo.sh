#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The demo: checks a digit recogniser against its wanted outputs, then enlarges a picture three times.
set -euo pipefail
cd "$(dirname "$0")/.."
heald=${HEALD:-build/release/heald}
out=build/demo

say() { printf '\n$ %s\n' "$*"; "$@"; }

say "$heald" check examples/models/mnist_8
say "$heald" run examples/models/super_resolution_10/model.onnx \
    --input input=examples/images/loom.png --output-dir "$out"
printf '\nThe picture went in with 224 x 224 pixels; the result, 672 x 672, is in %s:\n' "$out"
ls -l "$out"
