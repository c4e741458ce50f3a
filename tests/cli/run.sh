#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# heald run and heald check on the example models.
set -uo pipefail
source tests/cli/support/check.bash
mnist=examples/models/mnist_8 super=examples/models/super_resolution_10

try "check" 0 check $mnist
out "check tells errors" 'passed, largest error'
out "check counts" '^1 passed, 0 failed$'
try "check of a file" 0 check $mnist/model.onnx
try "check of a given folder" 0 check $mnist/model.onnx $mnist/test_data_set_0
try "check by the interpreter" 0 check $mnist --target interp
try "check with a tolerance that is too tight" 1 check $mnist --rtol 0 --atol 0
out "it fails" '^0 passed, 1 failed$'
cp -r $mnist "$work/model"
cp "$work"/model/test_data_set_0/input_0.pb "$work"/model/test_data_set_0/output_0.pb
try "another shape is wanted" 1 check "$work/model"
out "the shapes are told" 'FAILED, is f32\[1, 10\], wanted f32\[1, 1, 28, 28\]'

try "run on random data" 0 run $mnist
out "inputs are told" '^input +Input3: f32\[1, 1, 28, 28\] +random'
out "outputs are told" '^output +Plus214_Output_0: f32\[1, 10\]'
try "run on a file" 0 run $mnist --input Input3=$mnist/test_data_set_0/input_0.pb --output-dir "$work/results"
[ -s "$work/results/Plus214_Output_0.npy" ]
verdict $? "run writes its outputs"
try "run by the interpreter" 0 run $mnist --target interp --seed 3
cp "$work/out" "$work/interpreted"
try "run compiled" 0 run $mnist --seed 3
diff <(grep '^output' "$work/out") <(grep '^output' "$work/interpreted")
verdict $? "both give the same"
try "run several times" 0 run $mnist --repeat 3
out "the median is told" 'median of 3 runs'
try "quiet" 0 run $mnist --quiet
try "a picture" 0 run $super --input input=examples/images/loom.png --output-dir "$work/picture"
out "a picture comes out" 'picture/output\.png'
[ "$(od -An -tx1 -N4 "$work/picture/output.png" | tr -d ' ')" = 89504e47 ]
verdict $? "it is PNG"

# An initializer that is an input too takes another value; so do test data that name it.
try "an optional input" 0 run $mnist --seed 3 --input Parameter194=$mnist/test_data_set_0/output_0.pb
out "it is told" '^input +Parameter194: f32\[1, 10\] .*output_0\.pb'
! diff -q <(grep '^output' "$work/out") <(grep '^output' "$work/interpreted") >"$work/diff"
verdict $? "the result is another"
grep '^output' "$work/out" >"$work/given"
try "the same by the interpreter" 0 run $mnist --seed 3 --target interp --input Parameter194=$mnist/test_data_set_0/output_0.pb
diff <(grep '^output' "$work/out") "$work/given"
verdict $? "both give the same"
try "an optional input of another shape" 2 run $mnist --input Parameter194=$mnist/test_data_set_0/input_0.pb
err "both shapes are told" "input 'Parameter194' is f32\[1, 1, 28, 28\], the model wants f32\[1, 10\]"
try "inspect lists them" 0 inspect $mnist
out "with their shapes" 'optional inputs.*Parameter194 f32\[1, 10\]'
mkdir "$work/given_set"
cp $mnist/test_data_set_0/* "$work/given_set"
cp $mnist/test_data_set_0/output_0.pb "$work/given_set/input_1.pb"
try "data for an input that is none" 2 check $mnist "$work/given_set"
err "it is named" "input_1\.pb, '.*', is none of the inputs"
printf '\x42\x0cParameter194' >>"$work/given_set/input_1.pb"
printf '\x42\x06Input3' >>"$work/given_set/input_0.pb"
try "data for an optional input" 1 check $mnist "$work/given_set"
out "it changes the result" 'Plus214_Output_0 f32\[1, 10\]: FAILED'

try "no such model" 2 run "$work/none.onnx"
err "it is named" 'none\.onnx: No such file'
head -c 3000 $mnist/model.onnx >"$work/cut.onnx"
try "a truncated model" 2 run "$work/cut.onnx"
err "it is named" 'cut\.onnx: .*'
printf 'this is no model' >"$work/text.onnx"
try "no model at all" 2 run "$work/text.onnx"
err "it is named too" 'text\.onnx: '
printf '\x08\x08\x3a\x59\x0a\x14\x0a\x01x\x12\x01y\x1a\x06n_Relu\x22\x04Relu\x0a\x14\x0a\x01x\x12\x01y\x1a\x06n_Relu\x22\x04Relu' >"$work/twice.onnx"
printf '\x12\x01g\x5a\x13\x0a\x01x\x12\x0e\x0a\x0c\x08\x01\x12\x08\x0a\x02\x08\x02\x0a\x02\x08\x03\x62\x13\x0a\x01y\x12\x0e\x0a\x0c\x08\x01\x12\x08\x0a\x02\x08\x02\x0a\x02\x08\x03\x42\x04\x0a\x00\x10\x11' >>"$work/twice.onnx"
try "a value given twice" 2 run "$work/twice.onnx"
err "node and value are named" "node 'n_Relu' gives 'y', which is given already"
printf '\x08\x08\x12\x00\x3a\x3d\x0a\x0b\x0a\x01k\x12\x01y\x22\x03Neg\x12\x01g\x2a\x0d\x08\x01\x10\x01B\x01kJ\x04\x00\x00\x80\x3f\x2a\x11\x08\x02\x10\x01B\x01kJ\x08\x00\x00\x80\x3f\x00\x00\x00\x40b\x09\x0a\x01y\x12\x04\x0a\x02\x08\x01B\x04\x0a\x00\x10\x0d' >"$work/initializers.onnx"
try "two initializers of a name" 2 run "$work/initializers.onnx"
err "the name is told" "two initializers are called 'k'"
try "no such input file" 2 run $mnist --input Input3="$work/none.npy"
err "the input file is named" 'none\.npy: No such file'
try "no such input" 2 run $mnist --input image=$mnist/test_data_set_0/input_0.pb
err "inputs there are" "no input 'image'; its inputs are: Input3 and 8 optional ones"
try "an input without a file" 2 run $mnist --input Input3
try "a file of no known kind" 2 run $mnist --input Input3=README.md
err "it is named as well" 'README\.md'
try "an input of another shape" 2 run $mnist --input Input3=$super/test_data_set_0/input_0.pb
err "both shapes are told" "input 'Input3' is f32\[1, 1, 224, 224\], the model wants f32\[1, 1, 28, 28\]"
try "a picture of another size" 2 run $mnist --input Input3=examples/images/loom.png
err "it is told" '224, 224'
printf 'no picture' >"$work/bad.png"
try "no picture" 2 run $super --input input="$work/bad.png"
err "the picture is named" 'bad\.png: '
touch "$work/file"
try "an output folder that cannot be" 2 run $mnist --output-dir "$work/file/out"
err "the folder is named" '/file: '
HEALD_CC=/nonexistent/cc try "no compiler" 2 run $mnist
err "compiler and package are named" '/nonexistent/cc.*package gcc'
HEALD_CC=/bin/true try "no compiler, but a program" 2 run $mnist --cache-dir "$work/other"
err "it is told" 'the C compiler made no file'
HEALD_CC=/nonexistent/cc try "the interpreter needs none" 0 run $mnist --target interp
try "a cache that cannot be" 2 run $mnist --cache-dir "$work/file/cache"
err "the cache is named" '/file: '
mkdir "$work/alone"
cp $mnist/model.onnx "$work/alone"
try "check without data" 2 check "$work/alone"
err "the model is named" 'alone/model\.onnx: there is no test_data_set'
mkdir -p "$work/suite"
cp -r $mnist "$work/suite/digits"
try "a suite" 0 check --suite "$work/suite"
out "it counts" '^1 passed, 0 failed, 0 skipped$'
cp "$work/model/test_data_set_0/output_0.pb" "$work/suite/digits/test_data_set_0"
try "a suite with a failure" 1 check --suite "$work/suite"
out "it counts that" '^0 passed, 1 failed, 0 skipped$'
try "neither model nor suite" 2 check

printf 'rule steep_twice { tan(tan(x)) => tan(x) }\ngraph g(x: f32[2], y: f32[3]) -> (a, b) { a = tan(tan(tan(x))); b = 0.5 * y * (1 + erf(y / 1.4142135623730951)); }\n' >"$work/fires.hd"
try "run -v" 0 run "$work/fires.hd" -v
err "it tells which rules applied, and how often" '^rules that applied: gelu_[a-z_]+ 1, steep_twice 2$'
try "run without -v" 0 run "$work/fires.hd"
! grep -q rules "$work/err"
verdict $? "it does not"
printf 'graph g(x: f32[n, 4]) -> (y) { y = relu(x); }\n' >"$work/relu.hd"
try "a graph as text" 0 run "$work/relu.hd" --shape n=3
out "it is run" '^output +y: f32\[3, 4\]'
printf 'graph g(x: i64[1]) -> (y) { y = x * 0 + 1000000000001; }\n' >"$work/large.hd"
try "large integers" 0 run "$work/large.hd"
out "all digits are shown" 'i64\[1\]  1000000000001$'
printf 'graph g(x: f32[2]) -> (y, z, w) { y = relu(x); z = relu(-x); let v = z; w = x; }\n' >"$work/three.hd"
try "three results" 0 run "$work/three.hd" --output-dir "$work/three"
[ "$(ls "$work/three")" = $'w.npy\ny.npy\nz.npy' ]
verdict $? "each has a file of its name"
printf 'graph g(x: f32[2]) -> (y, y) { y = relu(x); }\n' >"$work/twice.hd"
try "a result twice" 2 run "$work/twice.hd"
err "it is told" "two results are called 'y'"
printf 'rule r { rellu(x) => x }\ngraph g(x: f32[2]) -> (y) { y = relu(x); }\n' >"$work/rule.hd"
try "a rule about no op" 2 run "$work/rule.hd"
err "it is told where" "rule\.hd:1:10: error: the rule 'r' looks for 'rellu', which is no op"
try "a dimension that is not there" 2 run "$work/relu.hd" --shape m=3
err "those that are there are told" "no open dimension 'm'; those it has: n"
try "a pack for one dimension" 2 run "$work/relu.hd" --shape n=3x4
err "it is told" "'n' is one dimension"
try "an extent that is too large" 2 run "$work/relu.hd" --shape n=99999999999
err "the limit is told" 'below 2\^31'
try "check with a folder that is not there" 2 check $mnist "$work/nowhere"
err "it is named" 'nowhere is no folder'
try "a suite without such a case" 2 check --suite "$work/suite" --only nothing_like_it
err "it is told" 'there is no case'
finish
