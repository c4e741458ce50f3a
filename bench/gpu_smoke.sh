#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every CUDA kernel on the GPU at hand against its meaning, then again under compute-sanitizer.
#   bench/gpu_smoke.sh build    only builds, into $OUT (build/gpu): a program that needs libc alone, so
#                               that it can be carried to a machine without the libraries' headers
#   bench/gpu_smoke.sh          runs it, building first if need be; SANITIZER=0: without the sanitizer
set -uo pipefail
cd "$(dirname "$0")/.."
dir=${HEALD_GPU_BUILD:-build/gpu}
program=$dir/cuda_device

build()
{
    cmake -S . -B "$dir" -DCMAKE_BUILD_TYPE=Release -DHEALD_TESTS=OFF >/dev/null &&
        cmake --build "$dir" -j "${JOBS:-4}" --target heald_ops heald_codegen &&
        ${CC:-cc} -O2 -std=c11 -D_POSIX_C_SOURCE=200809L -D_DEFAULT_SOURCE -Isrc -Iinclude -Itests \
            tests/device/cuda_device.c -o "$program" "$dir/libheald_ops.a" "$dir/libheald_codegen.a" \
            "$dir/libheald_passes.a" "$dir/libheald_lang.a" "$dir/libheald_ir.a" \
            "$dir/libheald_runtime.a" "$dir/libheald_base.a" -l:libxxhash.a -lm -ldl -lpthread
}

. bench/find_nvrtc.sh

if [ "${1:-}" = build ]; then
    build
    exit
fi
[ -x "$program" ] || build || exit 2
find_nvrtc
export HEALD_CACHE_DIR=${HEALD_CACHE_DIR:-$dir/cache}
"$program" "$@"
status=$?
if [ $status -ne 77 ] && [ "${SANITIZER:-1}" != 0 ]; then
    sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
    if [ -z "$sanitizer" ]; then
        echo "compute-sanitizer is not here"
    else
        for tool in memcheck racecheck synccheck initcheck; do
            echo "=== $tool"
            timeout 300 "$sanitizer" --tool "$tool" --error-exitcode 99 "$program" small notime "$@" |
                grep -E 'ERROR|=========|passed|FAILED|WRONG' | tail -n 12
            [ "${PIPESTATUS[0]}" -eq 0 ] || status=1
        done
    fi
fi
exit $status
