#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# heald bench on the example models.
set -uo pipefail
source tests/cli/support/check.bash
mnist=examples/models/mnist_8 small=$work/small.hd
echo 'graph small(x: f32[n, 32], w: f32[16, 32]) -> (y) { y = softmax(linear(x, w)); }' >"$small"

try "bench" 0 bench $mnist --repeat 5
out "the latency is told" '^  latency +[0-9.]+ (us|ms) median, .*\(5 runs\)$'
out "the rate is told" '^  rate +[0-9.e+]+ items/s$'
out "the kernels are told" '^ +[0-9.]+ (us|ms) +[0-9.]+% +1 .*h_conv_'
try "bench on test data" 0 bench $mnist --data $mnist/test_data_set_0 --repeat 2
try "bench for some time" 0 bench $mnist --seconds 0.01
try "bench of batches" 0 bench "$small" --batch 1,2 --repeat 2
[ "$(grep -c -E 'batch [12]$' "$work/out")" -eq 2 ]
verdict $? "each batch is told"

try "bench --json" 0 bench $mnist --json --repeat 3 --threads 2 --profile "$work/trace.json"
cp "$work/out" "$work/one.json"
try "bench --json of batches" 0 bench "$small" --batch 1,3 --json --repeat 2
cp "$work/out" "$work/two.json"
if command -v python3 >/dev/null; then
    python3 - "$work" <<'END'
import json, sys
one, two, trace = (json.load(open(f"{sys.argv[1]}/{f}.json")) for f in ("one", "two", "trace"))
assert 0 < one["min_ms"] <= one["low_ms"] <= one["median_ms"] <= one["high_ms"] and one["runs"] == 3
assert one["threads"] == 2 and one["precision"] == "f32" and len(one["kernels"]) == 5
for k in one["kernels"]:
    assert k["time_us"] >= 0 and k["launches"] == 1 and k["name"].startswith("h_") and k["limit"]
conv = next(k for k in one["kernels"] if k["node"] == "Convolution28")
work = conv["gflops"] * 1e9 * conv["time_us"] * 1e-6
assert 28 * 28 * 8 * 25 * 2 <= work <= 28 * 28 * 8 * (25 * 2 + 3) * 1.001, work  # fmas, then bias and relu
assert [b["batch"] for b in two["batches"]] == [1, 3] and two["batch"] == 1
ratio = [sum(k["gflops"] * k["time_us"] for k in b["kernels"]) for b in two["batches"]]
assert abs(ratio[1] / ratio[0] - 3) < 0.01, ratio
events = trace["traceEvents"]
assert [e["name"] for e in events][0] == "Convolution28" and len(events) == 5
assert all(a["ts"] + a["dur"] <= b["ts"] + 1e-3 for a, b in zip(events, events[1:]))
END
    verdict $? "the JSON says what is so"
fi

cat >"$work/found.hd" <<'TEXT'
heald 1;
graph found(x: f32[n, 32]) -> (y) { y = relu(nonzero(matmul(x, transpose(x)))); }
TEXT
try "bench of several sections" 0 bench "$work/found.hd" --batch 16 --repeat 3 --json
[ "$(grep -c -E '"node": "(nonzero|matmul)", "section": 1, |"node": "relu", "section": 2, ' "$work/out")" -eq 3 ]
verdict $? "the kernels of all are told"
try "as a table" 0 bench "$work/found.hd" --batch 16 --repeat 3
out "with the number of the section" '^ +2 +[0-9.]+ us .* relu$'

# A profiler gets a range for each step of each of the five runs; one that cannot come is no error.
"${CC:-cc}" -std=c11 -shared -fPIC tests/device/fake_profiler.c -o "$work/profiler.so"
NVTX_INJECTION64_PATH=$work/profiler.so FAKE_PROFILER=print \
    try "bench under a profiler" 0 bench $mnist --repeat 2 --profile "$work/trace.json"
for ((i = 0; i < 5; i++)); do
    printf 'range %s\nend\n' Convolution28 Pooling66 Convolution110 Pooling160 Times212
done >"$work/ranges"
grep -E '^(range|end)' "$work/err" | cmp - "$work/ranges"
verdict $? "a range has its node's name"
NVTX_INJECTION64_PATH=$work/none.so try "a profiler that is not there" 0 bench $mnist --repeat 2
err "it is told" "^heald: warning: no ranges for a profiler: NVTX_INJECTION64_PATH: $work/none.so: "

try "a fixed batch" 2 bench $mnist --batch 2
err "it is told" 'has a fixed batch'
try "no batch" 2 bench "$small" --batch 1,x
err "what is wrong is told" '--batch 1,x: numbers'
try "batch and data" 2 bench "$small" --batch 2 --data $mnist/test_data_set_0
try "no such folder" 2 bench $mnist --data "$work/none"
try "the interpreter" 2 bench $mnist --target interp
err "its time means nothing" 'means nothing'
try "a trace that cannot be written" 2 bench $mnist --repeat 1 --profile "$work/none/trace.json"
finish
