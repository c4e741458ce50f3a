#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The public header: its example compiles, C and C++ accept it alone, and it is small.
set -uo pipefail
source tests/cli/support/check.bash
cc=${CC:-cc}

# The example: the first indented block of the comment on top.
{
    echo '#include <heald.h>'
    echo '#include <stdio.h>'
    echo 'static void use(void *data) { (void)data; }'
    echo 'int main(void) {'
    awk '/^\/\/     / { print substr($0, 4); inside = 1; next } inside && !/^\/\/$/ { exit } inside && /^\/\/$/ { exit }' include/heald.h
    echo 'return 0; }'
} >"$work/example.c"
grep -q heald_model_run "$work/example.c"
verdict $? "the header has an example"
$cc -std=c11 -Wall -Wextra -Werror -Iinclude -fsyntax-only "$work/example.c"
verdict $? "it compiles"
echo '#include <heald.h>' >"$work/alone.c"
$cc -std=c99 -pedantic -Wall -Wextra -Werror -Iinclude -fsyntax-only "$work/alone.c"
verdict $? "C99 accepts the header"
if command -v c++ >/dev/null; then
    cp "$work/alone.c" "$work/alone.cpp"
    c++ -Wall -Wextra -Werror -Iinclude -fsyntax-only "$work/alone.cpp"
    verdict $? "C++ accepts the header"
fi
count=$(grep -c '^HEALD_API' include/heald.h)
[ "$count" -le 60 ]
verdict $? "it declares $count functions, at most 60"
finish
