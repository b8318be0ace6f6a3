#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# prefill.sh OUT [WORD...]: times a prefill of Qwen3-30B-A3B's shape on this machine's GPU. Its products and attention are
# computed in several ways (examples/triton/prefill.py, which also gets the words). The script
#   1. trains artefacts on recorded measurements (recorded.sh), in OUT/recorded, or takes those in the folder $RECORDED;
#   2. checks all ways on a small model, in seconds, and ends if one is wrong;
#   3. measures and trains each kernel for the problems of such prefills, in bf16, in OUT/campaign;
#   4. times the prefill with the artefacts of 1 (way "recorded") and of 3 (way "select"), in OUT/prefill-triton.jsonl.
# It needs a python3 with PyTorch and Triton 3, and libtilewright-select.so beside the command. Variables:
#   TILEWRIGHT  the command (default: build/tilewright, or build-portable/tilewright)
#   MEASURE     seconds of a kernel's campaign, compiling included (default: 60; 0: without step 3 and way "select")
#   BUDGET      seconds, from the start of the script, after which no further way is begun (default: 500)
#   COMMIT      name of the build in the results
set -eu
here=$(cd "$(dirname "$0")" && pwd)
R=$(cd "$here/../.." && pwd)
[ $# -ge 1 ] || { echo "prefill.sh: needs a folder for the results" >&2; exit 2; }
began=$(date +%s)
mkdir -p "$1/campaign"
out=$(cd "$1" && pwd)
shift
tilewright=${TILEWRIGHT:-$R/build/tilewright}
[ -x "$tilewright" ] || tilewright=$R/build-portable/tilewright
[ -x "$tilewright" ] || { echo "prefill.sh: no command: \$TILEWRIGHT names it" >&2; exit 2; }
for library in "$(dirname "$tilewright")"/libtilewright-select.so*; do
    [ ! -e "$library" ] || export TILEWRIGHT_SELECT_LIBRARY="${TILEWRIGHT_SELECT_LIBRARY:-$library}"
done
export PYTHONDONTWRITEBYTECODE=1
prefill() { python3 "$R/examples/triton/prefill.py" "$@"; }
told() { echo "prefill.sh: $(($(date +%s) - began)) s: $1" >&2; }

recorded=${RECORDED:-$out/recorded}
[ -e "$recorded/attention.select" ] || TILEWRIGHT=$tilewright "$here/recorded.sh" "$recorded"
told "artefacts of recorded measurements"

prefill --small --select recorded="$recorded" -o "$out/small.jsonl"
told "the small model is right in all ways"

set -- --select recorded="$recorded" "$@"
if [ "${MEASURE:-60}" -gt 0 ]; then
    for kernel in gemm grouped attention; do
        description=$out/campaign/$kernel.json
        store=$out/campaign/$kernel.db
        prefill --describe "$kernel" >"$description"
        "$tilewright" measure "$description" --store "$store" --effort full --budget "${MEASURE:-60}"
        # Measurements are kept even if a later step fails.
        "$tilewright" export "$store" | xz -T0 >"$out/campaign/$kernel.jsonl.xz"
        "$tilewright" train "$description" --device recorded --store "$store" -o "$out/campaign/$kernel.select"
        rm -f "$store"*
        told "campaign of $kernel"
    done
    set -- --select select="$out/campaign" --note "campaigns of ${MEASURE:-60} s a kernel, compiling included" "$@"
fi

left=$((${BUDGET:-500} - ($(date +%s) - began)))
status=0
prefill --budget "$left" --commit "${COMMIT:-}" -o "$out/prefill-triton.jsonl" "$@" || status=$?
[ ! -e "$out/prefill-triton.jsonl" ] || told "$(($(wc -l <"$out/prefill-triton.jsonl") - 1)) rows in prefill-triton.jsonl"
exit $status
