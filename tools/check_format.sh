#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the form of tracked sources: clang-format 14 and the licence line. With --fix it formats
# them. Tables (.def) are aligned by hand; expected outputs and fuzz inputs are data.
set -uo pipefail
cd "$(dirname "$0")/.."
data='^tests/(golden|fuzz/corpus)/'
status=0

tool=clang-format
command -v clang-format-14 >/dev/null && tool=clang-format-14
sources=$(git ls-files src include tests bench tools | grep -E '\.[ch]$' | grep -v -E "$data")
if ! $tool --version 2>/dev/null | grep -q 'version 14\.'; then
    echo "not ok 1 - clang-format 14 is needed to check the format"
    status=1
elif [ -z "$sources" ]; then
    echo "not ok 1 - git lists no sources here"
    status=1
elif [ "${1:-}" = --fix ]; then
    xargs -r $tool -i <<<"$sources"
elif xargs -r $tool --dry-run -Werror --ferror-limit=3 <<<"$sources" 2>&1; then
    echo "ok 1 - clang-format"
else
    echo "not ok 1 - clang-format (make format mends it)"
    status=1
fi

unlicensed=$(git ls-files | grep -E '\.(c|h|hd|def|sh|cmake|py)$|CMakeLists.txt$|^\.ci/run$|^Makefile$' |
    grep -v -E "$data" | while read -r file; do
    [ -e "$file" ] || continue
    head -n 3 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' || echo "$file"
done)
if [ -z "$unlicensed" ]; then
    echo "ok 2 - every source names its licence"
else
    printf '%s\nnot ok 2 - sources without a licence line\n' "$unlicensed"
    status=1
fi
exit $status
