#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# heald inspect: groups as text and as a picture.
set -uo pipefail
source tests/cli/support/check.bash
export HEALD_CACHE_DIR=$work/cache

cat >"$work/chain.hd" <<'TEXT'
heald 1;
graph chain(x: f32[4, 8], w: f32[8, 8]) -> (y) { y = relu(matmul(x, w) + 1); }
TEXT
try "text" 0 inspect "$work/chain.hd"
out "the anchor" '^ +1  matmul  matmul$'
out "what is fused" 'at the store: relu'
out "what it saves: a sum and a product of 128 bytes, each written and read" 'keeps 512 bytes from memory'
out "a total" '^precision f32; 3 nodes in 1 groups'
cat >"$work/two.hd" <<'TEXT'
heald 1;
graph two(x: f32[4, 8], w: f32[8, 8]) -> (y) { y = softmax(relu(matmul(x, w)) * 2); }
TEXT
try "two groups" 0 inspect "$work/two.hd"
out "why the first ends" 'after it:  softmax  softmax needs many elements for one of its own'
out "why the second begins" 'before it: mul  mul is computed with matmul \(matmul\)'
cat >"$work/found.hd" <<'TEXT'
heald 1;
graph found(x: f32[4, 8]) -> (y) { y = relu(nonzero(x)); }
TEXT
try "several sections" 0 inspect "$work/found.hd"
out "where the first ends" "^then 'nonzero' gets the extents that the run told"
out "what follows" "^then call, from 'relu' on: section 2$"
try "picture" 0 inspect "$work/chain.hd" --svg "$work/chain.svg"
try "a picture that cannot be written" 2 inspect "$work/chain.hd" --svg "$work/no/chain.svg"
err "its file is named" 'no/chain.svg'
try "a missing model" 2 inspect "$work/none.onnx"
err "it is named" 'none.onnx'
grep -q '<svg .*' "$work/chain.svg" && grep -q '>matmul</text>' "$work/chain.svg"
verdict $? "the picture has the anchor"
try "picture of several sections" 0 inspect "$work/found.hd" --svg "$work/found.svg"
[ "$(grep -c -E ">(nonzero|relu)</text>|>then .nonzero. gets the extents|>then call, from .relu. on" "$work/found.svg")" -eq 4 ]
verdict $? "the picture has all sections and where they begin"
[ "$(grep -c '<svg ' "$work/found.svg")" -eq 1 ] && [ "$(grep -c '</g>' "$work/found.svg")" -eq "$(grep -c '<g[ >]' "$work/found.svg")" ]
verdict $? "it is one picture"
finish
