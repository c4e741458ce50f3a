#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# heald cache and heald doctor.
set -uo pipefail
source tests/cli/support/check.bash
export HEALD_CACHE_DIR=$work/cache

try "list of an empty cache" 0 cache list
out "it is empty" '^0 entries'
try "something is built" 0 kernel build tests/cli/support/good.hd
try "list" 0 cache list
out "it lists the kernels" '^twice_rows .*/operators/twice_rows/'
out "it counts them" '^2 entries'
try "check" 0 cache check
out "nothing is damaged" '^0 damaged'
for library in "$work"/cache/operators/scaled/*/lib.so; do printf 'x' >>"$library"; done
try "check after damage" 0 cache check
out "it is found and removed" '^1 damaged entries removed'
try "it is built anew" 0 kernel build tests/cli/support/good.hd
try "clear" 0 cache clear
out "it tells how much" 'MiB freed'
try "list after clear" 0 cache list
out "it is empty again" '^0 entries'
touch "$work/file"
try "a cache that cannot be" 2 cache list --cache-dir "$work/file/cache"
err "its folder is named" '/file: '

try "doctor" 0 doctor
out "doctor names the compiler" '^  C  .*/'
out "doctor tells where an option comes from" '^  cache-dir .*environment.s HEALD_CACHE_DIR'
try "doctor with a flag" 0 doctor --threads 2
out "the flag is told" '^  threads +2 +given on the command line'
HEALD_CC=/nonexistent/cc try "doctor without a compiler" 1 doctor
out "it is told, with the package" 'MISSING: .*/nonexistent/cc.*package gcc'
try "doctor with a bad cache" 1 doctor --cache-dir "$work/file/cache"
out "it is told" 'UNUSABLE: .*/file: '

try "ops" 0 ops
out "ops gives signatures" '^add\('
out "ops gives ONNX names" 'ONNX: Add \('
try "one op" 0 ops add
out "its declaration" '^op add\('
try "an op that is not" 2 ops warp
err "it is named" "'warp'"
try "passes" 0 passes
out "passes gives them in order" '^lower_guards '
mkdir "$work/texts"
printf 'op warp(x: T[s...]) -> (y: T[s...]) { y[i...] = x[i...]; }\n' >"$work/texts/warp.hd"
try "--path adds to the library" 0 ops warp --path "$work/texts"
printf 'op warp(\n' >"$work/texts/warp.hd"
try "a broken text in --path" 2 ops warp --path "$work/texts"
err "the file is named" 'warp\.hd:'
finish
