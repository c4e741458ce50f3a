#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Kernels on the GPU at hand against those that PyTorch calls.
#   bench/gpu_kernels.sh build                          builds build/gpu-kernels/gpu_kernels.so, which needs libc alone,
#                                                       so that it can be carried to a machine without the libraries' headers
#   bench/gpu_kernels.sh conv|matmul|rows [ARGUMENTS]   runs the script of that name in gpu_kernels/, building first if need be
set -uo pipefail
cd "$(dirname "$0")/.."
dir=${HEALD_GPU_BUILD:-build/gpu-kernels}
object=$dir/gpu_kernels.so

build()
{
    cmake -S . -B "$dir/rooms" -DCMAKE_BUILD_TYPE=Release -DHEALD_TESTS=OFF \
        -DCMAKE_POSITION_INDEPENDENT_CODE=ON >/dev/null &&
        cmake --build "$dir/rooms" -j "${JOBS:-4}" --target heald_ops heald_codegen >/dev/null &&
        ${CC:-cc} -O2 -fPIC -shared -fvisibility=hidden -std=c11 -D_POSIX_C_SOURCE=200809L \
            -D_DEFAULT_SOURCE -Isrc -Iinclude -Itests bench/gpu_kernels/kernels.c -o "$object" \
            "$dir"/rooms/libheald_{ops,codegen,passes,lang,ir,runtime,base}.a \
            -Wl,--exclude-libs,ALL -l:libxxhash.a -lm -ldl -lpthread
}

. bench/find_nvrtc.sh

what=${1:-}
[ "$what" = build ] && { mkdir -p "$dir" && build; exit; }
[ -f "bench/gpu_kernels/$what.py" ] || { sed -n '4,6s/^# *//p' "$0" >&2; exit 2; }
[ -f "$object" ] || { mkdir -p "$dir" && build; } || exit 2
find_nvrtc
export HEALD_CACHE_DIR=${HEALD_CACHE_DIR:-$dir/cache} HEALD_GPU_KERNELS=$object
exec python3 "bench/gpu_kernels/$what.py" "${@:2}"
