#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The command line itself: help, manual, completion, and mistakes in it.
set -uo pipefail
source tests/cli/support/check.bash

try "--help" 0 --help
out "--help lists the commands" '^  kernel check FILE.hd'
grep -E '^  [a-z]' "$work/out" | grep -v -E '^  -|^   ' >"$work/rows"
while read -r -a words; do
    command=()
    for word in "${words[@]}"; do [[ $word =~ ^[a-z]+$ && ${#command[@]} -lt 2 ]] && command+=("$word") || break; done
    case ${words[0]} in kernel | cache) ;; *) command=("${words[0]}") ;; esac
    try "${command[*]} --help" 0 "${command[@]}" --help
    out "${command[*]} --help says how" "^Usage: heald ${command[*]}"
done <"$work/rows"
try "kernel --help" 0 kernel --help
out "kernel --help lists its commands" '^  kernel bench'

try "--version" 0 --version
out "--version names it" '^heald [0-9]+\.[0-9]+\.[0-9]+$'

try "--man" 0 --man
out "--man is a manual page" '^\.TH HEALD 1'
out "--man tells of options" '\\-\\-output\\-dir'
if command -v groff >/dev/null; then
    "$heald" --man | groff -man -Tutf8 -ww >/dev/null 2>"$work/groff" && [ ! -s "$work/groff" ]
    verdict $? "groff has no complaint"
fi

try "--completion bash" 0 --completion bash
bash -n "$work/out"
verdict $? "the completion is a bash script"
complete_with() # words...
{
    bash -c 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _heald; echo "${COMPREPLY[*]}"' \
        - "$work/completion" "$@"
}
cp "$work/out" "$work/completion"
[[ " $(complete_with heald kern) " == *" kernel "* ]]
verdict $? "commands are completed"
[[ " $(complete_with heald kernel ch) " == *" check "* ]]
verdict $? "commands after kernel are completed"
[[ " $(complete_with heald kernel check --sh) " == *" --shape "* ]]
verdict $? "options are completed"
[[ " $(complete_with heald map --s) " == *" --svg "* && " $(complete_with heald map --s) " != *" --shape "* ]]
verdict $? "only options of the command are completed"
try "another shell" 2 --completion fish
err "another shell is named" 'fish'

try "no command" 2
try "unknown command" 2 weave
err "the unknown command is named" "unknown command 'weave'"
try "unknown subcommand" 2 kernel weave
err "the unknown subcommand is named" "unknown command 'kernel weave'"
try "unknown option" 2 map --shuttle 'spatial(2)'
err "the unknown option is named" "'--shuttle'"
try "option without its value" 2 map 'spatial(2)' --svg
err "the option without value is named" "'--svg'"
try "an operand is missing" 2 map
err "the missing operand is named" 'EXPR'
try "too many operands" 2 map 'spatial(2)' 'spatial(3)'
err "the word too many is named" "'spatial\(3\)'"
try "--target cuda" 2 ops --target cuda
err "--target cuda is told not to be there" 'cuda'
try "--target by name" 2 ops --target loom
err "an unknown target is named" "'loom'"
try "--threads wants a number" 2 ops --threads many
err "--threads names the value" '--threads many'
try "--precision f16" 0 ops --precision f16
try "an unknown --precision" 2 ops --precision f8
err "--precision names those known" "'f8'; f32, tf32x3"
try "--search-space 1" 2 ops --search-space 1
err "--search-space is told not to be there" 'search space 1'
HEALD_TARGET=loom try "the environment is read" 2 ops
HEALD_TARGET=loom try "a flag counts more than the environment" 0 ops --target interp
"$heald" ops >/dev/full 2>"$work/err"
verdict $(($? != 2)) "a full disk is an error"
finish
