#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# attention_select.sh OUT: tunes Tilewright's causal attention (examples/attention) on this machine's GPU, and evaluates
# the choices on held-out problems. The folder OUT gets the evaluation as select-attention.jsonl, the store as text, the
# artefact and a log. A step that fails or takes too long leaves what was measured before it. The script builds nothing,
# and needs a python3 with PyTorch and Triton 3.
# Variables:
#   TILEWRIGHT          the command (default: build/tilewright)
#   TILEWRIGHT_LIBRARY  the library (default: build/libtilewright.so)
#   MEASURE, EVAL       seconds of measuring and of evaluating, compiling included (default: 90 and 160)
#   DESCRIPTION         the family (default: examples/attention/attention.json)
#   PROBLEMS            held-out problems (default: 60)
#   COMMIT              name of the build in the results
set -u
here=$(cd "$(dirname "$0")" && pwd)
R=$(cd "$here/.." && pwd)
[ $# -eq 1 ] || { echo "attention_select.sh: needs a folder for the results" >&2; exit 2; }
mkdir -p "$1" || exit 1
out=$(cd "$1" && pwd)
tilewright=${TILEWRIGHT:-$R/build/tilewright}
export TILEWRIGHT_LIBRARY="${TILEWRIGHT_LIBRARY:-$R/build/libtilewright.so}"
# ptxas compiles in parallel and leaves machine code in the cache on disk. The driver would compile at each load, since
# these kernels move registers between warps.
if [ -z "${TILEWRIGHT_PTXAS:-}" ]; then
    for p in "$(command -v ptxas)" /usr/local/cuda/bin/ptxas \
        "$(python3 2>/dev/null -c 'import os, triton; print(os.path.join(os.path.dirname(triton.__file__), "backends/nvidia/bin/ptxas"))')"; do
        [ -x "$p" ] && TILEWRIGHT_PTXAS=$p && break
    done
fi
[ -z "${TILEWRIGHT_PTXAS:-}" ] || export TILEWRIGHT_PTXAS
description=${DESCRIPTION:-$R/examples/attention/attention.json}
store=${STORE:-$(mktemp -d)/attention.db}
save() { [ ! -e "$store" ] || "$tilewright" export "$store" | xz -T0 >"$out/attention.jsonl.xz"; }
# step SECONDS WORDS...: runs a step, which is interrupted if it does not end in time. A step that fails, as after a
# fault of the device, is run again: what it measured is in the store.
step() {
    began=$(date +%s) limit=$1 tries=0
    shift
    while :; do
        left=$((limit - $(date +%s) + began)) tries=$((tries + 1))
        timeout -s INT -k 20 $((left > 1 ? left : 1)) "$@"
        status=$?
        [ $status -ne 0 ] && [ $status -lt 100 ] && [ $tries -lt 20 ] && [ $left -gt 30 ] || break
    done
    echo "$2: $(($(date +%s) - began)) s, $tries tries, status $status" >&2
    return $status
}
measure=${MEASURE:-90} eval=${EVAL:-160}
{
    echo "ptxas: ${TILEWRIGHT_PTXAS:-none, the driver compiles}"
    step $((measure + 60)) "$tilewright" measure "$description" --store "$store" --effort quick --budget "$measure"
    save
    "$tilewright" train "$description" --device recorded --store "$store" -o "$out/attention.select" &&
        step $((eval + 60)) "$tilewright" eval "$description" --store "$store" --artefact "$out/attention.select" \
            --problems "${PROBLEMS:-60}" --budget "$eval" --commit "${COMMIT:-}" --json >"$out/select-attention.jsonl"
    status=$?
    save
} 2>&1 | tee "$out/log"
grep '"case": "summary"' "$out/select-attention.jsonl"
