#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks that the shared library exports heald_* functions only, and at most 60 of them.
set -uo pipefail
names=$(nm -D --defined-only "$1" | awk '$2 ~ /[TDBRVW]/ { print $3 }' | grep -v -E '^_(init|fini)$')
alien=$(grep -v '^heald_' <<<"$names")
count=$(grep -c '^heald_' <<<"$names")
status=0
[ -z "$alien" ] || { printf '%s\nnot ' "$alien"; status=1; }
echo "ok 1 - only heald_ names are exported"
[ "$count" -gt 0 ] && [ "$count" -le 60 ] || { printf 'not '; status=1; }
echo "ok 2 - $count functions are exported, at most 60"
exit $status
