#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes sure that what a build needs is there: packages.sh build|test|ci. As root it installs what is
# missing; otherwise it prints the line to type and fails. A probe that succeeds means "present".
set -euo pipefail
want=${1:-build}

# for    Debian package          probe
table='
build    make                    command -v make
build    gcc                     command -v gcc
build    libc6-dev               echo "#include <stdio.h>" | gcc -E -
build    cmake                   command -v cmake
build    ninja-build             command -v ninja
build    pkg-config              command -v pkg-config
build    libsqlite3-dev          pkg-config --exists sqlite3
build    libxxhash-dev           pkg-config --exists libxxhash
build    libjansson-dev          pkg-config --exists jansson
build    zlib1g-dev              pkg-config --exists zlib
build    libpng-dev              pkg-config --exists libpng
test     libcmocka-dev           pkg-config --exists cmocka
ci       git                     command -v git
ci       clang                   command -v clang
ci       llvm                    command -v llvm-symbolizer
ci       clang-format            command -v clang-format
ci       libopenblas-dev         pkg-config --exists openblas
test     libprotobuf-c-dev       pkg-config --exists libprotobuf-c
test     protobuf-c-compiler     command -v protoc-c
'
missing=()
while read -r level package probe; do
    case "$want:$level" in
        build:build | test:build | test:test | ci:build | ci:test | ci:ci) ;;
        *) continue ;;
    esac
    bash -c "$probe" </dev/null >/dev/null 2>&1 || missing+=("$package")
done <<<"$table"
[ ${#missing[@]} -eq 0 ] && exit 0

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "Missing packages. Type this, then run the same command again:" >&2
    echo "  sudo apt-get install -y ${missing[*]}" >&2
    exit 1
fi
echo "Installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
install_all() { apt-get update -qq && apt-get install -y -qq "${missing[@]}" >/dev/null; }
install_all || { sleep 5; install_all; }
