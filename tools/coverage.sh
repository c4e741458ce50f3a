#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the tests of a coverage build and prints, for each source, the share of lines that ran, the
# least covered first: coverage.sh BUILD_DIR.
set -uo pipefail
build=$(cd "$1" && pwd)
top=$(cd "$(dirname "$0")/.." && pwd)
find "$build" -name '*.gcda' -delete
"$top/tools/run_tests.sh" "$build" | tail -n 1
find "$build" -path '*heald_*.dir*' -name '*.gcda' -print0 | xargs -0 -r gcov -n -s "$top" -r 2>/dev/null |
    awk -F"[':% ]+" '
        /^File/ { file = $2 }
        /^Lines executed/ && file ~ /^src\/.*[.]c$/ {
            printf "%6.1f%% of %5d  %s\n", $3, $5, file
            lines += $5; ran += $3 * $5 / 100; file = ""
        }
        END { if (lines) printf "%6.1f%% of %5d  in all\n", 100 * ran / lines, lines }' | sort -n
