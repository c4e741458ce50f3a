#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs every fuzz target of a build for a while: run_fuzz.sh BUILD_DIR SECONDS. New inputs stay in the
# build tree; the committed corpus is only read. A crash leaves its input in BUILD_DIR/crashes.
set -uo pipefail
build=$1 seconds=$2
top=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$build/crashes"

fuzz()
{
    local target=$1 name corpora words=()
    name=${target##*/fuzz_}
    corpora=("$build/corpus-$name")
    mkdir -p "${corpora[0]}"
    [ -d "$top/tests/fuzz/corpus/$name" ] && corpora+=("$top/tests/fuzz/corpus/$name")
    [ -f "$top/tests/fuzz/$name.dict" ] && words=("-dict=$top/tests/fuzz/$name.dict")
    "$target" "${corpora[@]}" ${words[@]+"${words[@]}"} -max_total_time="$seconds" -timeout=20 -rss_limit_mb=3000 \
        -print_final_stats=1 -artifact_prefix="$build/crashes/$name-" >"$build/fuzz-$name.log" 2>&1
}

passed=0 failed=0
targets=()
for target in "$build"/fuzz_*; do
    [ -f "$target" ] && [ -x "$target" ] && targets+=("$target")
done
[ ${#targets[@]} -gt 0 ] || { echo "no fuzz target in $build"; failed=1; }
# As many at a time as there are cores.
width=$(nproc)
for ((i = 0; i < ${#targets[@]}; i += width)); do
    pids=()
    for target in "${targets[@]:i:width}"; do
        fuzz "$target" &
        pids+=($!)
    done
    for k in "${!pids[@]}"; do
        name=${targets[i + k]##*/fuzz_}
        if wait "${pids[k]}"; then
            runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$build/fuzz-$name.log")
            echo "fuzz_$name: ${runs:-0} runs in $seconds s"
            passed=$((passed + 1))
        else
            tail -n 30 "$build/fuzz-$name.log"
            echo "fuzz_$name: failed"
            failed=$((failed + 1))
        fi
    done
done
echo "$passed passed, $failed failed"
exit $((failed > 0))
