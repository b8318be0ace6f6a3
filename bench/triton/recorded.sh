#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# recorded.sh OUT: trains gemm.select, grouped.select and attention.select in the folder OUT on recorded measurements,
# bench/data/triton-{gemm,grouped,attention}-h200.jsonl.xz. It needs no GPU and no PyTorch. $TILEWRIGHT is the command
# (default: build/tilewright).
set -eu
R=$(cd "$(dirname "$0")/../.." && pwd)
[ $# -eq 1 ] || { echo "recorded.sh: needs a folder for the artefacts" >&2; exit 2; }
tilewright=${TILEWRIGHT:-$R/build/tilewright}
mkdir -p "$1"
for kernel in gemm grouped attention; do
    store=$1/$kernel.db
    rm -f "$store"*
    xz -dc "$R/bench/data/triton-$kernel-h200.jsonl.xz" | "$tilewright" import "$store" -
    "$tilewright" train "$R/examples/triton/$kernel.json" --device recorded --store "$store" -o "$1/$kernel.select"
    rm -f "$store"*
done
