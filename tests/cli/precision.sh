#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# --precision: what commands say of it, the tolerance of check, and what f16 has no room for.
set -uo pipefail
source tests/cli/support/check.bash

model=examples/models/mnist_8
try "check in f16" 0 check $model --precision f16
out "the tolerance is stated" '^precision f16: rtol 0.02, atol 0.02 times the largest wanted magnitude$'
try "run in f16" 0 run $model --precision f16
out "run says so" '^precision f16 in [0-9]+ of [0-9]+ nodes; '
out "outputs keep their type" '^output  [^ ]+: f32\['
try "run in f32" 0 run $model
out "run says that too" '^precision f32; '
try "inspect in bf16" 0 inspect $model --precision bf16
out "inspect says so" '^precision bf16 in '
HEALD_PRECISION=bf16 try "the environment is read" 0 check $model
out "it was bf16" '^precision bf16: rtol 0.1'
try "tf32 without tensor cores is f32" 0 check $model --precision tf32x3 --rtol 1e-4

cat >"$work/large.hd" <<'END'
graph g(x: f32[2, 3]) -> (y) { y = matmul(abs(x) + 1000, transpose(abs(x) + 1000)); }
END
try "sums beyond f16" 0 run "$work/large.hd" --precision f16
err "they are told" "warning: output 'y' has 4 elements that are not finite; f16 ends at 65504"
try "sums beyond f16 in bf16" 0 run "$work/large.hd" --precision bf16
out "bf16 has room" '^output  y: f32\[2, 2\]  [0-9.e+]+ '
cat >"$work/weights.hd" <<'END'
graph g(x: f32[2, 3]) -> (y) {
    y = matmul(x, constant_of_shape(; shape = (3, 4), value = 1e6, value_type = f32));
}
END
try "weights beyond f16" 0 run "$work/weights.hd" --precision f16
err "they are counted" 'warning: 12 elements of constants are beyond the range of f16'
finish
