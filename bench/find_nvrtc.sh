# SPDX-License-Identifier: Apache-2.0
# To be sourced by the benchmarks that need NVRTC.

# NVRTC of a Python package, where the system has none.
find_nvrtc()
{
    [ -n "${HEALD_NVRTC:-}" ] && return
    ls /usr/local/cuda/lib64/libnvrtc.so* >/dev/null 2>&1 && return
    local found
    found=$(find / -name 'libnvrtc.so.1[123]*' -not -path '/proc/*' 2>/dev/null | grep -v alt | head -n 1)
    [ -n "$found" ] && export HEALD_NVRTC=$found
}
