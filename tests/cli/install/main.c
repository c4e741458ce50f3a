// SPDX-License-Identifier: Apache-2.0
// A user's program, built against an installed Heald: header and library agree on the version.
#include <heald.h>

int main(void)
{
    return heald_version() == HEALD_VERSION ? 0 : 1;
}
