#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kernel_tuner.sh BUILD: has Kernel Tuner's own simulator run on exported caches, and compares its times and its best
# configuration with the store's. $KERNEL_TUNER_PYTHON is a Python with the package kernel_tuner (default python3). The
# test is skipped if that has no such package.
set -eu
build=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
python=${KERNEL_TUNER_PYTHON:-python3}
command -v "$python" >/dev/null && "$python" -c 'import kernel_tuner' 2>/dev/null || {
    echo "$python has no kernel_tuner: pip install kernel_tuner"
    exit 77
}
PATH=$build:$PATH
work=$build/scratch/kernel_tuner
rm -rf "$work"
mkdir -p "$work"
cd "$work"

# What this processor measures.
tilewright measure gemm --device cpu type=f32 -t 1 --plan waves --range m=16:24 --range n=256:272 --range k=256:320 --store own.db >log
p=$(tilewright export own.db | sed -n '1s/.*"problem": "\([^"]*\)".*/\1/p')
tilewright export own.db --problem "$p" >own.jsonl
tilewright export own.db --problem "$p" --format kernel-tuner -o own.json
"$python" -B "$here/simulate.py" own.jsonl own.json

# What Kernel Tuner measured, imported and exported. Its simulator must find nothing to add to the exported file.
tilewright import other.db "$here/../data/kernel_tuner/cache.json"
tilewright export other.db >other.jsonl
tilewright export other.db --format kernel-tuner -o other.json
"$python" -B "$here/simulate.py" other.jsonl other.json "$here/../data/kernel_tuner/cache.json"

# Kernel Tuner's checker of T4 accepts what is written.
tilewright export other.db --format t4 -o t4.json
"$python" -B "$here/simulate.py" --schema t4.json
