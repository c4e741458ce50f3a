#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the build into a folder, moves the folder, and builds a program against it in each way the
# README names.
set -uo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
n=0 bad=0
step()
{
    local what=$1
    shift
    n=$((n + 1))
    if "$@" >"$work/log" 2>&1; then
        echo "ok $n - $what"
    else
        cat "$work/log"
        echo "not ok $n - $what"
        bad=1
    fi
}
source=tests/cli/install
with_pkg_config()
{
    cc $source/main.c -o "$work/user" $(pkg-config "$@" --cflags --libs heald) &&
        LD_LIBRARY_PATH=$(pkg-config --variable=libdir heald) "$work/user"
}
with_cmake()
{
    cmake -S $source -B "$work/user-build" -DCMAKE_PREFIX_PATH="$work/there" &&
        cmake --build "$work/user-build" &&
        "$work/user-build/with_static" && "$work/user-build/with_shared"
}

step "install" cmake --install "$HEALD_BUILD" --prefix "$work/here"
mv "$work/here" "$work/there"
step "manual page" grep -q '^.TH HEALD 1' "$work/there/share/man/man1/heald.1"
step "completion" bash -c 'source "$1" && complete -p heald' - "$work/there/share/bash-completion/completions/heald"
PKG_CONFIG_PATH=$(dirname "$(find "$work/there" -name heald.pc)")
export PKG_CONFIG_PATH
step "pkg-config" with_pkg_config
step "pkg-config --static" with_pkg_config --static
step "find_package" with_cmake
exit $bad
