#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# heald map. The drawings themselves are golden tests and those of docs/.
set -uo pipefail
source tests/cli/support/check.bash

try "a mapping" 0 map 'spatial(4, 2) * repeat(2, 2)'
out "its shape" '^shape \(8, 4\), 8 workers, 4 tasks each'
try "a function of one's own" 0 map 'mapping(workers: 32; shape: (8, 4)) w => (w % 8, w / 8)'
out "it is drawn" '^   1 +1 +9 +17 +25$'
try "a layout" 0 map 'row_major(8, 8).swizzle(1)' --element-bytes 2
out "its bank conflicts" 'no conflict'
try "a picture" 0 map 'spatial(2, 3)' --svg "$work/picture.svg"
grep -q '^<svg\|<svg ' "$work/picture.svg"
verdict $? "it is SVG"
"$heald" map 'spatial(2, 3)' | grep -q $'\033'
verdict $(($? == 0)) "no colours in a pipe"

try "a mistake in the text" 2 map 'spatial(2'
err "it has a place and a caret" '^EXPR:1:10: error: '
try "a mapping that makes no sense" 2 map 'spatial(0, 3)'
err "its place is told" '^EXPR:1:'
try "neither mapping nor layout" 2 map '1 + 2'
err "it is told what it is" 'an integer'
try "an unwritable picture" 2 map 'spatial(2)' --svg "$work/no/such/folder.svg"
err "the file is named" 'no/such/folder.svg'
finish
