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

# Libraries that are not what they should be are made anew.
shape="--kernel scaled --shape n=3 --attr factor=2"
try "a kernel gives its result" 0 kernel run tests/cli/support/good.hd $shape --seed 5
cp "$work/out" "$work/right"
entry=$(echo "$work"/cache/operators/scaled/*) # one
try "another one is beside it" 0 kernel build tests/cli/support/good.hd --kernel twice_rows
other=$(echo "$work"/cache/operators/twice_rows/*)
anew() # NAME, after something was done to the entry
{
    try "$1" 0 kernel run tests/cli/support/good.hd $shape --seed 5
    cmp -s "$work/out" "$work/right"
    verdict $? "$1: the result is right"
    try "$1: check" 0 cache check
    out "$1: the entry is whole" '^0 damaged'
}
# replaced, never written in place: others may have it mapped
cut() { head -c "$2" "$1" >"$work/cut" && mv "$work/cut" "$1"; }
cut "$entry/lib.so" 100
anew "a library cut short"
cut "$entry/lib.so" 0
anew "an empty library"
cp "$other/lib.so" "$work/swapped" && mv "$work/swapped" "$entry/lib.so"
anew "another kernel's library"
for file in lib.so source.c task.txt sums.txt log.txt; do
    rm "$entry/$file"
    anew "$file is gone"
done
sed 's/O3/O2/' "$entry/task.txt" >"$work/task" && mv "$work/task" "$entry/task.txt"
anew "another byte in task.txt"
rm -r "$entry" && cp -r "$other" "$entry"
anew "another entry in its place"
rm -r "$entry" && touch "$entry"
anew "a file in its place"

# A compiler that counts how often it runs, and does what $work/behaviour says.
cat >"$work/cc" <<EOF
#!/bin/sh
case " \$* " in *" --version "*) cat "$work/version"; exit ;; esac
echo run >>"$work/runs"
for word; do case \$word in *.c) text=\$word ;; esac; done
. "$work/behaviour"
EOF
chmod +x "$work/cc"
runs() { [ "$(wc -l <"$work/runs")" -eq "$1" ]; verdict $? "$2"; }
fresh() { : >"$work/runs"; rm -rf "$HEALD_CACHE_DIR"; }
echo 'weave 1' >"$work/version"
build() { HEALD_CC=$work/cc try "$1" 2 kernel build tests/cli/support/good.hd $shape; }

fresh
echo 'echo "$text:7:3: error: no such thread"; exit 1' >"$work/behaviour"
build "a compiler that finds a mistake"
err "the compiler is blamed" '^heald: error: the C compiler failed'
err "what it said comes first" '^  .*/source.c:7:3: error: no such thread'
source=$(sed -n 's/^  source: //p' "$work/err")
[ -s "$source" ]
verdict $? "the source that is named is there"
cp "$work/err" "$work/first"
build "the same again"
runs 1 "the compiler is not asked again"
cmp -s "$work/first" "$work/err"
verdict $? "the message is the same"
[ -s "${source%/*}/log.txt" ]
verdict $? "its log is kept"
try "cache list" 0 cache list
out "it tells which entry failed" '^scaled .*does not compile'
HEALD_CC=$work/cc try "another text" 2 kernel build tests/cli/support/good.hd --kernel scaled --shape n=4
runs 2 "is tried"
echo 'weave 2' >"$work/version"
build "another version of the compiler"
runs 3 "is tried"
HEALD_CC=gcc try "another compiler" 0 kernel build tests/cli/support/good.hd $shape
try "what failed is no damage" 0 cache check
out "none is damaged" '^0 damaged'

again() # NAME: what is the world's trouble is tried again
{
    fresh
    build "$1"
    build "$1, again"
    runs 2 "$1: it is asked again"
    [ -z "$(ls "$HEALD_CACHE_DIR/operators/scaled")" ]
    verdict $? "$1: nothing is kept as a result"
}
echo 'kill -9 $$' >"$work/behaviour"
again "a compiler that is killed"
echo 'echo "cc: fatal error: Killed signal terminated program cc1"; exit 1' >"$work/behaviour"
again "a part of it that is killed"
echo 'echo "cc1: out of memory allocating 65536 bytes"; exit 1' >"$work/behaviour"
again "no memory"
echo 'echo "/tmp/cc.s: No space left on device"; exit 1' >"$work/behaviour"
again "no space"
echo 'exit 0' >"$work/behaviour"
again "a compiler that makes nothing"
err "it is told" 'made no file'
[ "$(ls "$HEALD_CACHE_DIR/tmp" | wc -l)" -eq 1 ]
verdict $? "the source of the last failure is kept, no other"

fresh # whole by its checksums, and yet no library
sed -i 's/for word;/for word; do case $word in *.so) object=$word ;; esac; done; for word;/' "$work/cc"
echo 'echo nonsense >"$object"' >"$work/behaviour"
build "a library that cannot be loaded"
err "it is told" 'cannot load .*lib.so'
echo 'exec gcc "$@"' >"$work/behaviour"
HEALD_CC=$work/cc try "once the compiler is mended" 0 kernel run tests/cli/support/good.hd $shape --seed 5
cmp -s "$work/out" "$work/right"
verdict $? "it is made anew"

# Files may not grow beyond a few blocks: neither the compiler's nor one's own. (ThreadSanitizer writes one before main.)
for blocks in 1 8; do
    fresh
    cp "$work/right" "$work/before"
    (ulimit -f $blocks && HEALD_CACHE_DIR=$work/cache "$heald" kernel run tests/cli/support/good.hd $shape --seed 5 --cache-dir "$work/cache") \
        2>&1 >/dev/null </dev/null | cat >"$work/err"
    grep -q -E 'File too large|the C compiler failed' "$work/err"
    verdict $? "files of $blocks blocks at most: it is told"
    anew "files of $blocks blocks at most"
    [ -z "$(ls "$work/cache/tmp" | grep -v '^kept-')" ]
    verdict $? "files of $blocks blocks at most: nothing is left"
done

# Killed in the middle of a compilation.
fresh
echo 'echo "$$" >"'"$work/pid"'"; sleep 100' >"$work/behaviour"
HEALD_CC=$work/cc "$heald" kernel build tests/cli/support/good.hd $shape >/dev/null 2>&1 </dev/null &
victim=$!
for _ in $(seq 200); do [ -s "$work/pid" ] && break; sleep 0.05; done
try "while it compiles" 0 cache list
[ -n "$(ls "$work/cache/tmp")" ]
verdict $? "another process leaves its work alone"
{ kill -9 $victim; wait $victim; } 2>/dev/null
kill -9 "$(cat "$work/pid")" 2>/dev/null
try "when it is dead" 0 cache list
[ -z "$(ls "$work/cache/tmp")" ]
verdict $? "another process removes its work"

try "doctor" 0 doctor
out "doctor names the compiler" '^  C  .*/'
out "doctor tells where an option comes from" '^  cache-dir .*environment.s HEALD_CACHE_DIR'
out "doctor tells that no profiler watches" '^  NVTX +no profiler watches'
try "doctor with a flag" 0 doctor --threads 2
out "the flag is told" '^  threads +2 +given on the command line'
HEALD_CC=/nonexistent/cc try "doctor without a compiler" 1 doctor
out "it is told, with the package" 'MISSING: .*/nonexistent/cc.*package gcc'
try "doctor with a bad cache" 1 doctor --cache-dir "$work/file/cache"
out "it is told" 'UNUSABLE: .*/file: '

HEALD_PATH=$work/none try "doctor with a folder of texts that is not there" 1 doctor
out "it is told" 'DOES NOT WORK: [^ ]*/none: No such file'
out "the rest is told too" '^  heald .* kernels'
mkdir "$work/broken"
echo 'op warp(' >"$work/broken/warp.hd"
try "doctor with a broken text and another GPU" 1 doctor --path "$work/broken" --target cuda:sm_1
out "the text is told" 'DOES NOT WORK: .*/broken/warp.hd:[0-9]+:[0-9]+: error: '
out "the GPU is told" 'DOES NOT WORK: .*sm_1'

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
