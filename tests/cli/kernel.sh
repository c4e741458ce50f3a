#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# heald kernel: build, source, run, check, bench.
set -uo pipefail
source tests/cli/support/check.bash
good=tests/cli/support/good.hd wrong=tests/cli/support/bad.hd

try "build" 0 kernel build $good
out "build names the folder in the cache" '^twice_rows \(m = 17, n = 19\): .*/operators/twice_rows/'
try "build for the interpreter" 0 kernel build $good --target interp
try "a file that is not there" 2 kernel build "$work/none.hd"
err "the file is named" 'none\.hd: No such file'
printf 'kernel broken(x: f32[n]) -> (y: f32[n]) on cpu { y[0] = ; }\n' >"$work/broken.hd"
try "a mistake in the text" 2 kernel build "$work/broken.hd"
err "it has a place" 'broken\.hd:1:57: error: '
HEALD_CC=/nonexistent/cc try "HEALD_CC that does not run" 2 kernel build $good
err "HEALD_CC and the package are named" '/nonexistent/cc.*package gcc'

try "source --stage ir" 0 kernel source $good --kernel scaled --stage ir
out "it is kernel IR" '^kernel scaled from scaled on cpu'
try "source --stage lowered" 0 kernel source $good --kernel scaled --stage lowered
try "source --stage c" 0 kernel source $good --kernel scaled
out "it is C" 'int32_t scaled_main\('
try "source --print-after" 0 kernel source $good --kernel scaled --print-after simplify
out "the pass is named" '^// after simplify$'
try "source --print-after=all" 0 kernel source $good --kernel scaled --print-after=all
# What unrolled tiles load again and again is loaded once.
try "a tile" 0 kernel source lib/kernels/conv.hd --kernel conv_cpu --stage lowered --shape n=1,c=8,o=36,cg=8,d=40x200,k=3x3
out "its loads have names" '^ +let s.*broadcast\(w_packed\['
! grep -q 'fma(.*w_packed\[' "$work/out"
verdict $? "none is repeated"
printf 'kernel alike(x: f32[n]) -> (y: f32[n]) on cpu { launch grid(n); if block.x < 3 { y[block.x] = x[block.x]; } else { y[block.x] = x[block.x]; } }\n' >"$work/alike.hd"
try "two branches that do the same" 0 kernel source "$work/alike.hd" --stage lowered
! grep -q 'if ' "$work/out"
verdict $? "become one"
try "an unknown pass" 2 kernel source $good --kernel scaled --print-after weave
err "the pass is named" 'weave'
try "an unknown stage" 2 kernel source $good --kernel scaled --stage ptx
try "a kernel for CUDA" 0 kernel source lib/kernels/cuda/copy.hd --stage cuda
out "it is CUDA C" '__global__'
try "the text of its compiler" 0 kernel source lib/kernels/cuda/copy.hd
out "it is CUDA C" '__global__'
try "a kernel for CUDA as C" 2 kernel source lib/kernels/cuda/copy.hd --stage c
err "the right stage is told" 'use --stage cuda'
try "a kernel for CUDA by the interpreter" 0 kernel check lib/kernels/cuda/copy.hd --shape s=3x5
try "several kernels" 0 kernel source $good
[ "$(grep -c -E '^int32_t (twice_rows|scaled)_main' "$work/out")" -eq 2 ]
verdict $? "both are printed"
both=examples/kernels/scan_inclusive.hd
try "a file for CPU and GPU" 0 kernel source $both
out "its CPU kernel is taken" '^int32_t scan_inclusive_cpu_main'
! grep -q '__global__' "$work/out"
verdict $? "its GPU kernel is not"
for option in '--stage cuda' '--target interp:sm_90' '--target cuda:sm_90'; do
    try "source $option" 0 kernel source $both $option
    out "$option takes its GPU kernel" '__global__'
    ! grep -q 'int32_t scan_inclusive_cpu_main' "$work/out"
    verdict $? "$option leaves its CPU kernel"
done
try "source --stage c" 0 kernel source $both --stage c --target interp:sm_90
out "a stage counts more than the target" '^int32_t scan_inclusive_cpu_main'
try "all of them" 0 kernel source $both --stage ir --target interp
[ "$(grep -c '^kernel ' "$work/out")" -eq 2 ]
verdict $? "interp takes both"
try "run of a file for both" 0 kernel run $both
cp "$work/out" "$work/cpu"
try "run by the interpreter" 0 kernel run $both --target interp --output-dir "$work/several"
out "a heading for each" '^scan_inclusive_cuda \('
[ "$(ls "$work/several")" = "$(printf 'scan_inclusive_cpu\nscan_inclusive_cuda')" ]
verdict $? "a folder for each"
try "run of a GPU's kernel by the interpreter" 0 kernel run $both --target interp:sm_80
cmp -s "$work/out" "$work/cpu"
verdict $? "it gives the same"
try "a GPU's kernel on a CPU" 2 kernel run lib/kernels/cuda/copy.hd
err "what is needed is told" 'is for GPUs: --target cuda is needed, or --target interp'
try "a CPU's kernel on a GPU" 2 kernel run $good --target cuda:sm_80
err "what is needed is told" 'is for CPUs: --target cpu is needed'
try "one that is wrong among several" 2 kernel run $good --shape n=4,m=2
err "its name is told" "no dimension 'm'"
out "the others are run" '^twice_rows \(m = 2, n = 4\)'
try "an unknown kernel" 2 kernel source $good --kernel none
err "its name is told" "no kernel 'none'"
try "a dynamic dimension" 0 kernel source $good --kernel scaled --dynamic n --stage ir
out "it stays open" 'dims? .*n'

try "--shape" 0 kernel build $good --kernel twice_rows --shape m=3,n=5
out "it is used" 'm = 3, n = 5'
try "--shape with an unknown name" 2 kernel build $good --kernel scaled --shape q=3
err "the name is told, and those there are" "no dimension 'q'; its dimensions are n"
try "--shape that cannot be read" 2 kernel build $good --shape n=many
err "it is named" "n=many"
try "--type" 0 kernel source $good --kernel twice_rows --type T=i32 --stage ir
out "it is used" 'i32\[17, 19\]'
try "an unknown type" 2 kernel source $good --kernel twice_rows --type T=f33
try "--choice" 0 kernel source $good --kernel twice_rows --choice chunk=16 --stage ir
try "an unknown choice" 2 kernel source $good --kernel twice_rows --choice lanes=16
err "it is named" "no tune entry 'lanes'"
try "--attr" 0 kernel run $good --kernel scaled --shape n=3 --attr factor=0
out "it is used" '^y: f32\[3\] -?0 -?0 -?0$'
try "an unknown attribute" 2 kernel run $good --kernel scaled --attr colour=1
err "it is named" 'colour'

try "run" 0 kernel run $good --kernel twice_rows --output-dir "$work/results"
[ -s "$work/results/y.npy" ]
verdict $? "run writes its results"
cp "$work/out" "$work/compiled"
try "run by the interpreter" 0 kernel run $good --kernel twice_rows --target interp
cmp -s "$work/out" "$work/compiled"
verdict $? "it gives the same"
try "run on a result" 0 kernel run $good --kernel twice_rows --input x="$work/results/y.npy"
try "data of another shape" 2 kernel run $good --kernel twice_rows --shape m=2 --input x="$work/results/y.npy"
err "file and shapes are told" 'y\.npy holds f32\[17, 19\], the input .x. is f32\[2, 17\]|y\.npy holds f32\[17, 19\]'
try "an unknown input" 2 kernel run $good --kernel scaled --input z="$work/results/y.npy"
touch "$work/file"
try "an output folder that cannot be" 2 kernel run $good --kernel scaled --output-dir "$work/file/results"
err "it is named" '/file: '

try "check" 0 kernel check $good
out "check counts" '^[0-9]+ passed, 0 failed$'
try "check of one shape" 0 kernel check $good --kernel scaled --shape n=40
try "check with dynamic dimensions" 0 kernel check $good --kernel twice_rows --dynamic m,n --shape m=5,n=70
# Divisions by constants in SIMD lanes: as the interpreter says, for numbers of either sign, small and beyond 32 bits.
divisors=(1 2 3 5 7 8 10 13 26 641 676 2704 65536 1000003 2147483647 4294967297)
{
    echo "kernel divisions(x: f32[n]) -> (q: i64[${#divisors[@]}, n], r: i64[${#divisors[@]}, n]) on cpu {"
    echo '    launch grid(1);'
    echo '    let lanes = device.lanes(f32);'
    echo '    for block in n / lanes { for l in spatial(lanes)(lane) {'
    echo '        let i = (block * lanes + l) * STEP - n * MOVED;'
    for d in "${!divisors[@]}"; do
        echo "        q[$d, block * lanes + l] = i / ${divisors[$d]};"
        echo "        r[$d, block * lanes + l] = i % ${divisors[$d]};"
    done
    echo '    } }'
    echo '    for j in n / lanes * lanes .. n {'
    echo '        let i = j * STEP - n * MOVED;'
    for d in "${!divisors[@]}"; do
        echo "        q[$d, j] = i / ${divisors[$d]};"
        echo "        r[$d, j] = i % ${divisors[$d]};"
    done
    echo '    }'
    echo '}'
} >"$work/divisions"
for step in 1,0 1,1 2,1 40009,20011 2147483,0 2147484,0 1073741,1073745 123456789,55555; do
    sed "s/STEP/${step%,*}/; s/MOVED/${step#*,}/" "$work/divisions" >"$work/divisions.hd"
    try "divisions, step and start $step" 0 kernel check "$work/divisions.hd" --shape n=1000
done
try "their text" 0 kernel source "$work/divisions.hd" --shape n=1000
out "beyond 32 bits, lane by lane" 'h_div_i64x'
sed "s/STEP/2/; s/MOVED/1/" "$work/divisions" >"$work/divisions.hd"
try "their text" 0 kernel source "$work/divisions.hd" --shape n=1000
out "within, by products" 'h_quotient_i64x'
try "a wrong result" 1 kernel check $wrong --kernel forgets_the_last --shape n=9
out "the element is named" 'y\[8\] is .*the op .twice. means'
try "reads outside" 1 kernel check $wrong --kernel reads_outside --shape n=9
out "they have a place" 'bad\.hd:14:[0-9]+: error: '
try "unwritten memory is read" 1 kernel check $wrong --kernel reads_unwritten --shape n=9
out "it has a place" 'bad\.hd:19:[0-9]+: error: '
try "a race" 1 kernel check $wrong --kernel races --shape n=9
out "it has a place" 'bad\.hd:24:[0-9]+: error: '
try "kernels of the library" 0 kernel check lib/kernels/copy.hd
printf 'op twice_each(x: F[s...]) -> (y: F[s...], z: F[s...]) { y[i...] = x[i...] + x[i...]; z[i...] = exp(x[i...]); }\n' >"$work/op.hd"
try "an op without a kernel" 0 kernel check "$work/op.hd"
out "each of its results is checked" '^twice_each \(s = 3x3, result z\): passed$'
try "an op where the target is a GPU" 0 kernel check "$work/op.hd" --target interp:sm_80
printf 'op last(x: F[s...]) -> (y: F[s...]) { y[i...] = x[i..., 0]; }\n' >"$work/op.hd"
try "an op that reads one axis too many" 2 kernel check "$work/op.hd"
err "it has a place" 'op\.hd:1:[0-9]+: error: '
[ "$(grep -c 'a case skipped' "$work/out")" -lt 10 ]
verdict $? "a reason is given once for cases that share it"
printf 'fn f(x) = x;\n' >"$work/op.hd"
printf 'op twice_of(x: F[n]) -> (y: F[n]) { y[i] = 2 * x[i]; }\nkernel twice_flat(x: F[n]) -> (y: F[n]) implements twice_of, thrice_of on cuda {\n    launch grid(ceil(n, 32)) block(32);\n    let i = block.x * 32 + thread;\n    y[i] = 2 * (x[i] else 0);\n}\n' >"$work/gpu.hd"
try "a GPU's kernel is compared with its op" 0 kernel check "$work/gpu.hd" --target interp:sm_80
err "an op that is not there is told" "twice_flat implements .thrice_of., which is no op"
printf 'kernel bad(x: f32[n]) -> (y: f32[n]) on cpu { launch grid(n); y[block.x] = nope; }\nkernel good(x: f32[n]) -> (y: f32[n]) on cpu { launch grid(n); y[block.x] = x[block.x]; }\n' >"$work/two.hd"
try "a kernel for which there is no case, beside another" 0 kernel check "$work/two.hd"
err "it is named" "bad was checked in no case: unknown name 'nope'"
printf 'kernel half(x: f32[n]) -> (y: f32[n]) on cpu { launch grid(n / 2); y[block.x] = x[block.x]; }\n' >"$work/half.hd"
try "results that are not written" 1 kernel check "$work/half.hd" --shape n=5
out "the first is named" 'y\[2\] is not written; 3 of 5 elements'
try "nothing to check" 0 kernel check "$work/op.hd"
err "it is told" 'no kernel, and no op'

printf 'kernel k(a: f32[n]) -> (c: f32[n]) on cpu { launch grid(1); while true { c[0] = a[0]; } }\n' >"$work/endless.hd"
try "check of a kernel that never ends" 1 kernel check "$work/endless.hd" --shape n=8 --max-steps 100000
out "it is told" 'gave up after 100000 steps: does it end\?'
try "no steps at all" 2 kernel check "$work/endless.hd" --max-steps 0
printf 'kernel k(a: f32[n]) -> (c: f32[n]) on cpu { launch grid(n - 9); c[block.x] = a[block.x]; }\n' >"$work/grid.hd"
try "fewer than no blocks" 1 kernel check "$work/grid.hd" --shape n=8
out "it is told" 'a grid has -1 blocks'
try "fewer than no blocks, compiled" 2 kernel run "$work/grid.hd" --shape n=8
err "it is told" 'a grid has -1 blocks'

try "bench" 0 kernel bench $good --kernel scaled --shape n=1000 --repeat 5
out "bench tells the time" '^  time .*median'
out "bench tells the rate" 'GFLOP/s'
out "bench tells the limit" 'limited by'
try "bench of a file for both" 0 kernel bench $both --shape m=3,n=100 --repeat 5
out "the CPU's" '^scan_inclusive_cpu'
! grep -q '^scan_inclusive_cuda' "$work/out"
verdict $? "not the GPU's"
try "bench of several" 0 kernel bench $good --repeat 5 --shape n=100
[ "$(grep -c 'limited by' "$work/out")" -eq 2 ]
verdict $? "each is timed"
HEALD_CUDA_DRIVER=$work/none.so try "bench on a GPU without a driver" 2 kernel bench $both --target cuda
err "it is told" 'no NVIDIA driver'
try "bench by the interpreter" 2 kernel bench $good --kernel scaled --target interp
try "source of what has two barriers" 0 kernel source tests/device/intrinsics.hd --kernel mbarrier_cuda --target cuda:sm_90a
[ "$(grep -c 'mbarrier.arrive.*full_[0-9]*\[0\]) + 8)' "$work/out")" -eq 2 ]
verdict $? "the second is not the first"
finish
