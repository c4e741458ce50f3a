#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The documentation shows what the command prints: every block fenced as ```heald-map [OPTIONS] in
# docs/*.md is drawn with `heald map`, and the output must be the next fenced block.
set -uo pipefail
cd "$(dirname "$0")/../.."
heald=${HEALD:-$PWD/build/dev/heald}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
n=0 bad=0

# Compares the output for the expression in $dir/expression with $dir/want; $1: its place, then options.
check()
{
    local place=$1 status=0
    shift
    n=$((n + 1))
    "$heald" map "$(cat "$dir/expression")" "$@" >"$dir/got" 2>"$dir/log" || status=1
    [ $status -eq 0 ] || head -n 5 "$dir/log"
    diff -u --label "$place" --label actual "$dir/want" "$dir/got" || status=1
    if [ $status -eq 0 ]; then echo "ok $n - $place"; else echo "not ok $n - $place"; bad=$((bad + 1)); fi
}

for doc in docs/*.md; do
    state=text line=0 options=()
    while IFS= read -r text; do
        line=$((line + 1))
        case "$state:$text" in
            text:'```heald-map'*)
                read -r -a options <<<"${text#'```heald-map'}"
                : >"$dir/expression"
                place=$doc:$line state=expression ;;
            text:'```'*)        state=other ;;
            other:'```')        state=text ;;
            expression:'```')   state=between ;;
            expression:*)       printf '%s\n' "$text" >>"$dir/expression" ;;
            between:'```'*)     : >"$dir/want"; state=want ;;
            want:'```')         check "$place" "${options[@]}"; state=text ;;
            want:*)             printf '%s\n' "$text" >>"$dir/want" ;;
        esac
    done <"$doc"
    if [ $state != text ]; then
        n=$((n + 1)) bad=$((bad + 1))
        echo "not ok $n - $doc ends inside a block"
    fi
done
if [ $n -eq 0 ]; then
    echo "skip: no documentation block"
    exit 77
fi
exit $((bad > 0))
