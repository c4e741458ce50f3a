#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every model at hand gives its wanted outputs: the two under examples/, and those of HEALD_MODELS, a
# folder with one folder a model (model.onnx, test_data_set_N, data.json).
set -uo pipefail
n=0 bad=0
check()
{
    n=$((n + 1))
    if output=$("$HEALD" check "$1" 2>&1); then
        echo "ok $n - check ${1##*/}"
    else
        printf '%s\nnot ok %d - check %s\n' "$output" $n "${1##*/}"
        bad=1
    fi
}
for model in examples/models/*/model.onnx; do check "${model%/model.onnx}"; done
if [ -d "${HEALD_MODELS:-}" ]; then
    for model in "$HEALD_MODELS"/*/model.onnx; do
        [ -e "$model" ] && check "${model%/model.onnx}"
    done
else
    echo "skip: HEALD_MODELS names no folder"
    echo "ok $((n + 1)) # SKIP the models of HEALD_MODELS"
fi
exit $bad
