#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# --debug: generated code points into the script, for a compiler's messages, for addr2line and gdb.
set -uo pipefail
source tests/cli/support/check.bash
mkdir "$work/scripts"
script="$work/scripts/a \"b\" c.hd" # a name that must be quoted
cat >"$script" <<'EOF'
heald 1;

kernel sums(x: f32[n, 64]) -> (y: f32[n, 64], z: f32[n]) on cpu {
    launch grid(n);
    core_local row: f32[64];
    for j in 64 {
        row[j] = x[block.x, j];
    }
    var sum = 0.0;

    for j in 64 {
        y[block.x, j] = row[j]
            + 1.0;
        sum = sum + row[j] * 3.0;
    }
    z[block.x] = sum;
}
EOF
line() { grep -n -F "$1" "$script" | cut -d: -f1; }

try "source" 0 kernel source "$script"
! grep -q '^#line' "$work/out"
verdict $? "no places unless they are asked for"
try "source --debug" 0 kernel source "$script" --debug
cp "$work/out" "$work/source.c"
out "the script is named" '^#line [0-9]+ ".*/a \\"b\\" c.hd"$'
gcc -Wall -Werror -Wno-unused -c -o "$work/source.o" "$work/source.c"
verdict $? "it compiles"

# A statement made wrong is reported at its line of the script.
mistake() # NAME REGEX-OF-THE-C WORDS-OF-THE-SCRIPT
{
    sed -E "s/$2/nothing \& = /" "$work/source.c" >"$work/wrong.c"
    gcc -c -o "$work/wrong.o" "$work/wrong.c" 2>"$work/err"
    err "$1" "/a \"b\" c.hd:$(line "$3"):[0-9]+: error: "
}
mistake "gcc's error in a store" '^ *(z_[0-9]+\[.*\]) = ' 'z[block.x] = sum'
mistake "gcc's error in a loop" '^ *(y_[0-9]+\[.*\]) = ' 'y[block.x, j] ='

# Every statement of the text is where the script has it: the preprocessor tells.
gcc -E "$work/source.c" >"$work/places"
awk '/^# [0-9]+ /{at=$2; next} / z_[0-9]+\[.*\] = /{print at; found=1} {at++} END{exit !found}' "$work/places" >"$work/at"
[ "$(sort -u "$work/at")" = "$(line 'z[block.x] = sum')" ]
verdict $? "the preprocessor agrees"

HEALD_CC=gcc try "build --debug" 0 kernel build "$script" --debug --shape n=3
dir=$(sed -n 's/^sums (n = 3): //p' "$work/out")
try "build" 0 kernel build "$script" --shape n=3
[ "$dir" != "$(sed -n 's/^sums (n = 3): //p' "$work/out")" ]
verdict $? "it is an entry of its own"
if command -v addr2line nm >/dev/null; then
    address=$(nm -D --defined-only "$dir/lib.so" | sed -n 's/ T h_sums_.*//p')
    addr2line -i -e "$dir/lib.so" "0x$address" >"$work/out"
    out "addr2line finds the kernel" '/a "b" c.hd:[0-9]+'
fi
cp "$script" "$work/scripts/plain.hd"
try "a plain name" 0 kernel build "$work/scripts/plain.hd" --debug --shape n=3
dir=$(sed -n 's/^sums (n = 3): //p' "$work/out")
if command -v gdb >/dev/null; then
    at=$(line 'z[block.x] = sum')
    gdb -q -batch -ex "info line plain.hd:$at" "$dir/lib.so" >"$work/out" 2>&1
    out "gdb finds the code of a line" "^Line $at of .*plain.hd.* starts at address .*h_sums"
fi
try "run --debug" 0 kernel run "$script" --debug --shape n=3 --seed 4
cp "$work/out" "$work/debug"
try "run" 0 kernel run "$script" --shape n=3 --seed 4
cmp -s "$work/out" "$work/debug"
verdict $? "the results are the same"
try "a model with --debug" 0 check examples/models/mnist_8 --debug
out "it passes" '^1 passed, 0 failed'

try "CUDA" 0 kernel source lib/kernels/cuda/copy.hd --stage cuda --debug
out "places of CUDA text" '^#line [0-9]+ "lib/kernels/cuda/copy.hd"$'
finish
