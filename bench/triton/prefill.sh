#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# prefill.sh OUT: times a prefill of Qwen3-30B-A3B's shape on this machine's GPU, whose products and attention are computed
# in several ways (examples/triton/prefill.py). In turn:
#   1. artefacts of recorded measurements (recorded.sh): OUT/recorded, or the folder $RECORDED, if that has them;
#   2. all ways on a small model, which are checked in seconds; what is wrong there ends the run;
#   3. a campaign for each kernel over the problems of such prefills, in bf16: OUT/campaign;
#   4. the prefill by both folders' artefacts (ways "recorded" and "select"), rows in OUT/prefill-triton.jsonl.
# The script needs a python3 with PyTorch and Triton 3, and libtilewright-select.so beside the command.
# $TILEWRIGHT is the command (default: build/tilewright, or build-portable/tilewright). $MEASURE are the seconds of a
# campaign, compiling included (default: 60; 0: there is none, and no way "select"). $BUDGET are the seconds after which
# nothing further is begun (default: 500). $COMMIT names the build in the results. Further words are prefill.py's.
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
