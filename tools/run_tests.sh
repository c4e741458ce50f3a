#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs every test of a build and counts each single case: run_tests.sh BUILD_DIR [ctest options].
# A test that prints "ok N - name" and "not ok N - name" counts as those cases, any other as one. What
# a test tells as "# N things ..." is shown with it.
# The last line is "N passed, N failed", with ", N skipped" where something was skipped.
set -uo pipefail
build=$1
shift
log=$build/tests.log
rm -rf "$build/test-cache"   # kernels that an older build of the compiler left
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}

# ThreadSanitizer wants its shadow where some kernels put randomised mappings.
launcher=()
setarch "$(uname -m)" -R true 2>/dev/null && launcher=(setarch "$(uname -m)" -R)

"${launcher[@]}" ctest --test-dir "$build" -V -j "$(nproc)" "$@" >"$log" 2>&1

awk '
# Lines of test K start with "K: "; its result reads "i/n Test #K: name ...   Passed   0.1 sec".
/^ *[0-9]+: / {
    key = $1; sub(":", "", key); line = $0; sub(/^ *[0-9]+: ?/, "", line)
    if (line ~ /# SKIP/) {
        name = line; sub(/^.*# SKIP */, "", name)
        skips[key]++; reasons[key] = reasons[key] "  " name why[key] "\n"; why[key] = ""
    }
    else if (line ~ /^ok [0-9]+/) oks[key]++
    else if (line ~ /^not ok [0-9]+/) bads[key]++
    if (line ~ /^# [0-9]+ /) notes[key] = notes[key] "  " substr(line, 3) "\n"
    if (line ~ /^skip: /) { why[key] = ": " substr(line, 7) }
    output[key] = output[key] line "\n"
    next
}
/^ *[0-9]+\/[0-9]+ +Test +#[0-9]+: / {
    key = $0; sub(/^[^#]*#/, "", key); name = key; sub(/:.*/, "", key)
    sub(/^[0-9]+: */, "", name); sub(/ .*/, "", name)
    if ($0 ~ /\*\*\*Skipped/) {
        skips[key]++; reasons[key] = reasons[key] "  " name why[key] "\n"
    } else if ($0 ~ / Passed /) {
        if (!oks[key] && !skips[key]) oks[key] = 1
    } else if (!bads[key]) {
        bads[key] = 1
    }
    passed += oks[key]; failed += bads[key]; skipped += skips[key]
    printf "%-32s %4d passed", name, oks[key]
    if (bads[key]) printf ", %d failed", bads[key]
    if (skips[key]) printf ", %d skipped", skips[key]
    print ""
    printf "%s", notes[key]
    if (bads[key]) { result = $0; sub(/^.*\.\.\. */, "", result); print output[key] "  -> " result }
    all_reasons = all_reasons reasons[key]
    seen++
}
END {
    if (!seen) { print "no test ran"; failed++ }
    if (all_reasons != "") printf "skipped:\n%s", all_reasons
    printf "%d passed, %d failed%s\n", passed, failed, skipped ? ", " skipped " skipped" : ""
    exit failed > 0
}' "$log"
