#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Models on GPUs as far as a machine without one goes: the GPU's kernels in the interpreter, and what
# is said where there is no driver.
set -uo pipefail
source tests/cli/support/check.bash
mnist=examples/models/mnist_8

try "the kernels of a GPU in the interpreter" 0 check $mnist --target interp:sm_80
out "they are right" '^1 passed, 0 failed$'
try "an architecture that does not exist" 2 check $mnist --target interp:sm_11
err "it is named" 'target interp:sm_11: an architecture that is not known'
try "a GPU that is newer than Heald" 0 check $mnist --target interp:sm_199
out "has code like those before it" '^1 passed, 0 failed$'
export HEALD_CUDA_DRIVER=/nowhere/libcuda.so.1
try "no driver" 2 check $mnist --target cuda
err "it is told" 'no NVIDIA driver'
if [ -n "${HEALD_REQUIRE_NVRTC:-}" ] || "$heald" doctor | grep -qE 'CUDA +(NVRTC|nvcc)'; then
    try "the kernels of a model for a GPU that is elsewhere" 0 inspect $mnist --target cuda:sm_90
    out "they are told" 'by conv_gemm'
    try "its kernels on a machine without it" 2 run $mnist --target cuda:sm_90
    err "it is told as well" 'no NVIDIA driver'
fi
try "the doctor for another machine's GPU" 0 doctor --target cuda:sm_90
out "it tells of this machine" "$("$heald" doctor | grep vectors | tr '()' '..')"
try "the doctor without a driver" 0 doctor
out "it tells so" 'GPU +none: no NVIDIA driver'
finish
