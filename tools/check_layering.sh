#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks what the rooms promise: a room includes only itself and rooms before it (the order is
# HEALD_ROOMS in CMakeLists.txt), and only base/ and runtime/ call the C allocator.
set -uo pipefail
cd "$(dirname "$0")/.."
rooms=$(sed -n 's/^set(HEALD_ROOMS \(.*\))/\1/p' CMakeLists.txt)

files=$(find src \( -name '*.c' -o -name '*.h' -o -name '*.def' \) | sort)
[ -n "$files" ] || { echo "skip: no sources"; exit 77; }

upward=$(awk -v rooms="$rooms" '
BEGIN { n = split(rooms, list, " "); for (i = 1; i <= n; i++) rank[list[i]] = i }
/^[ \t]*#[ \t]*include[ \t]*"/ {
    split(FILENAME, own, "/"); split($0, quoted, "\""); split(quoted[2], to, "/")
    if (quoted[2] == "heald.h") next
    if (!(to[1] in rank)) print FILENAME ":" FNR ": \"" quoted[2] "\" is not room/file.h"
    else if (rank[to[1]] > rank[own[2]]) print FILENAME ":" FNR ": " own[2] " includes " quoted[2]
}' $files)

# Text in quotes and after // is not a call; neither is a member or a longer name.
allocating=$(grep -v -E '^src/(base|runtime)/' <<<"$files" | xargs -r awk '
{
    line = $0; gsub(/"([^"\\]|\\.)*"/, "", line); sub(/\/\/.*/, "", line)
    gsub(/\/\*.*\*\//, "", line)
    if (line ~ /^ *\*/) next
    if (line ~ /(^|[^A-Za-z0-9_.>])(malloc|calloc|realloc|free|strdup|strndup|aligned_alloc) *\(/)
        print FILENAME ":" FNR ": " $0
}')

status=0
verdict()
{
    if [ -z "$3" ]; then
        echo "ok $1 - $2"
    else
        printf '%s\nnot ok %s - %s\n' "$3" "$1" "$2"
        status=1
    fi
}
verdict 1 "rooms include downward only" "$upward"
verdict 2 "only base and runtime allocate" "$allocating"
exit $status
