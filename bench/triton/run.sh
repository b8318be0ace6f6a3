#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh OUT [KERNEL...]: tunes the Triton kernels of examples/triton (gemm, grouped, attention) on this machine's GPU,
# and evaluates the choices on 60 problems each. For each kernel the folder OUT gets the store as text, the artefact and
# the evaluation, and select-triton.jsonl has all evaluations. The script needs a python3 with PyTorch and Triton 3.
# Variables:
#   TILEWRIGHT  the command (default: build/tilewright)
#   MEASURE     seconds of measuring a kernel, compiling included (default: 75)
#   EVAL        seconds of evaluating a kernel (default: 75)
#   AUTOTUNE    seconds of full autotuning of some of a kernel's problems, by autotune.py (default: 0, none)
#   COMMIT      name of the build in the results
set -eu
here=$(cd "$(dirname "$0")" && pwd)
R=$(cd "$here/../.." && pwd)
[ $# -ge 1 ] || { echo "run.sh: needs a folder for the results" >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- gemm grouped attention
tilewright=${TILEWRIGHT:-$R/build/tilewright}
status=0
for kernel; do
    description=$R/examples/triton/$kernel.json
    store=$out/$kernel.db
    began=$(date +%s)
    "$tilewright" measure "$description" --store "$store" --effort quick --budget "${MEASURE:-75}" &&
        "$tilewright" train "$description" --device recorded --store "$store" -o "$out/$kernel.select" &&
        "$tilewright" eval "$description" --store "$store" --artefact "$out/$kernel.select" --problems 60 \
            --budget "${EVAL:-75}" --commit "${COMMIT:-}" --json >"$out/eval-$kernel.jsonl" &&
        grep '"case": "summary"' "$out/eval-$kernel.jsonl" || status=1
    if [ "${AUTOTUNE:-0}" -gt 0 ] && [ -s "$out/eval-$kernel.jsonl" ]; then
        python3 "$R/examples/triton/autotune.py" "$kernel" --eval "$out/eval-$kernel.jsonl" --seconds "$AUTOTUNE" \
            >"$out/autotune-$kernel.jsonl" || status=1
        tail -1 "$out/autotune-$kernel.jsonl"
    fi
    # Measurements are kept even if a later step failed.
    [ ! -e "$store" ] || "$tilewright" export "$store" | xz -T0 >"$out/$kernel.jsonl.xz" || status=1
    echo "$kernel: $(($(date +%s) - began)) s"
done
python3 - "$out" "$@" <<'PYTHON' || status=1
import json, os, sys
out, names = sys.argv[1], sys.argv[2:]
head, rows = None, []
for name in names:
    path = os.path.join(out, f"eval-{name}.jsonl")
    lines = [json.loads(line) for line in open(path)] if os.path.exists(path) else []
    if not lines:
        continue
    if head is None:
        head = dict(lines[0], kernels=[])
        del head["family"]
    head["kernels"].append({"kernel": name, "family": lines[0]["family"], "command": lines[0]["command"]})
    rows += [dict(kernel=name, **row) for row in lines[1:]]
    path = os.path.join(out, f"autotune-{name}.jsonl")
    rows += [json.loads(line) for line in open(path)] if os.path.exists(path) else []
if head:
    with open(os.path.join(out, "select-triton.jsonl"), "w") as f:
        f.writelines(json.dumps(o) + "\n" for o in [head, *rows])
PYTHON
exit $status
