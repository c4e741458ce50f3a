# SPDX-License-Identifier: Apache-2.0
# For tests of the command: source it, then `try NAME STATUS WORD...` runs heald with the words, and
# `out NAME REGEX`, `err NAME REGEX` look at what it printed. `finish` gives the exit status.
heald=${HEALD:-$PWD/build/dev/heald}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HEALD_CACHE_DIR=${HEALD_CACHE_DIR:-$work/cache} TERM=dumb
unset HEALD_TARGET HEALD_DEVICE HEALD_THREADS HEALD_PRECISION HEALD_SEARCH_SPACE HEALD_PATH HEALD_CC \
    NVTX_INJECTION64_PATH
n=0 bad=0

verdict()
{
    n=$((n + 1))
    if [ "$1" -eq 0 ]; then echo "ok $n - $2"; else echo "not ok $n - $2"; bad=1; fi
}

try()
{
    local name=$1 want=$2 got=0
    shift 2
    "$heald" "$@" >"$work/out" 2>"$work/err" </dev/null || got=$?
    [ $got -eq "$want" ] || {
        echo "heald $*: exit status $got instead of $want"
        head -n 20 "$work/out" "$work/err"
    }
    verdict $((got != want)) "$name"
}

find_in()
{
    grep -q -E -e "$3" "$work/$1" && { verdict 0 "$2"; return; }
    echo "no line of $1 matches $3"
    head -n 20 "$work/$1"
    verdict 1 "$2"
}
out() { find_in out "$@"; }
err() { find_in err "$@"; }

finish() { exit $bad; }
