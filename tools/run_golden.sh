#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Golden tests: run_golden.sh [--bless] [ROOM...]. For each tests/golden/<room>/<case>.hd the suffix of
# every sibling chooses the command below and holds its exact output. --bless rewrites the expectations;
# the review is the diff. To add a test, add the .hd and an empty sibling, then bless. A line
# "// args: ..." among the first three of the .hd is passed on to the command.
set -uo pipefail
cd "$(dirname "$0")/.."
heald=${HEALD:-$PWD/build/dev/heald}
bless=
[ "${1:-}" = --bless ] && { bless=1; shift; }
rooms=("$@")
[ ${#rooms[@]} -eq 0 ] && rooms=($(cd tests/golden 2>/dev/null && ls -d -- */ 2>/dev/null))
out=$(mktemp)
trap 'rm -f "$out"' EXIT
n=0 bad=0

# Prints what the expectation $1 should hold, for the input $2; further words are the case's own.
produce()
{
    local suffix=$1 input=$2
    shift 2
    case "$suffix" in
        # suffix     command
        ir)          "$heald" kernel source "$input" --stage ir "$@" ;;
        c)           "$heald" kernel source "$input" --stage c "$@" ;;
        cu)          "$heald" kernel source "$input" --stage cuda "$@" ;;
        *.ir)        "$heald" kernel source "$input" --print-after="${suffix%.ir}" "$@" ;;
        check)       "$heald" kernel check "$input" "$@" ;;
        err)         "$heald" kernel build "$input" "$@" 2>&1 >/dev/null ;;
        fused)       "$heald" inspect "$input" "$@" ;;
        txt)         "$heald" map "$(grep -v '^//' "$input")" "$@" ;;
        *)           echo "no command for suffix .$suffix in $0"; return 2 ;;
    esac
}

report()
{
    n=$((n + 1))
    if [ "$1" -eq 0 ]; then echo "ok $n - $2"; else echo "not ok $n - $2"; bad=$((bad + 1)); fi
}

for room in "${rooms[@]%/}"; do
    for path in tests/golden/"$room"/*.hd; do
        [ -e "$path" ] || continue
        dir=${path%/*} input=${path##*/} found=
        read -r -a args <<<"$(sed -n '1,3s|^// args: *||p' "$path")"
        for want in "${path%.hd}".*; do
            [ "$want" = "$path" ] && continue
            found=1 suffix=${want##*/}
            suffix=${suffix#"${input%.hd}".}
            (cd "$dir" && produce "$suffix" "$input" "${args[@]}") >"$out" 2>"$out.log"
            status=$?
            # Diagnostics come with exit status 2, everything else with 0.
            [ "$suffix" = err ] && { [ $status -eq 2 ] && status=0 || status=1; }
            if [ -n "$bless" ] && [ $status -eq 0 ]; then
                cp "$out" "$want"
            fi
            if [ $status -ne 0 ]; then
                head -n 20 "$out.log"
            elif ! diff -u --label "$want" --label actual "$want" "$out"; then
                status=1
            fi
            report $status "$room/${want##*/}"
            rm -f "$out.log"
        done
        [ -n "$found" ] || report 1 "$room/$input has no expectation beside it"
    done
done
if [ $n -eq 0 ]; then
    echo "skip: no golden case"
    exit 77
fi
exit $((bad > 0))
