#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the form of tracked sources: clang-format 14, 100 columns and the licence line. With --fix it
# formats them, or only the files named after it. Tables (.def) are aligned by hand; expected outputs
# and fuzz inputs are data.
set -uo pipefail
cd "$(dirname "$0")/.."
data='^tests/(golden|fuzz/corpus)/'
status=0

# verdict NUMBER NAME WHAT_IS_WRONG
verdict()
{
    if [ -z "$3" ]; then
        echo "ok $1 - $2"
    else
        printf '%s\nnot ok %s - %s\n' "$3" "$1" "$2"
        status=1
    fi
}

tool=clang-format
command -v clang-format-14 >/dev/null && tool=clang-format-14
sources=$(git ls-files src include tests bench tools | grep -E '\.[ch]$' | grep -v -E "$data")
[ "${1:-}" = --fix ] && [ $# -gt 1 ] && sources=$(printf '%s\n' "${@:2}")
if ! $tool --version 2>/dev/null | grep -q 'version 14\.'; then
    verdict 1 "clang-format" "clang-format 14 is needed"
elif [ -z "$sources" ]; then
    verdict 1 "clang-format" "git lists no sources here"
elif [ "${1:-}" = --fix ]; then
    for file in $sources; do
        $tool "$file" | awk -f tools/wrap_comments.awk >"$file.new"
        cmp -s "$file" "$file.new" || cat "$file.new" >"$file"
        rm "$file.new"
    done
else
    unformatted=$(xargs -r $tool --dry-run -Werror <<<"$sources" 2>&1 |
        sed -n 's/^\([^:]*\):\([0-9]*\):.*error: .*/\1/p' | sort | uniq -c)
    verdict 1 "clang-format (make format mends it)" "$unformatted"
fi
# clang-format leaves comments alone, since some are tables and laws; tools/wrap_comments.awk does not.
wide=$(xargs -r awk 'length($0) > 100 { print FILENAME ":" FNR }' <<<"$sources" | head -n 20)
verdict 2 "no line is longer than 100 columns" "$wide"

unlicensed=$(git ls-files | grep -E '\.(c|h|hd|def|sh|cmake|py|awk)$|CMakeLists.txt$|^\.ci/run$|^Makefile$' |
    grep -v -E "$data" | while read -r file; do
    [ -e "$file" ] || continue
    head -n 3 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' || echo "$file"
done)
verdict 3 "every source names its licence" "$unlicensed"
exit $status
