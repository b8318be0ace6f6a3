#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# perfetto.sh BUILD: has Perfetto's own schema, and its trace processor where there is one, read the traces that we write.
# $PERFETTO_PYTHON is a Python with the package perfetto (default python3), $TRACE_PROCESSOR the program
# trace_processor_shell. Skipped (77) without the package. Without the program the schema alone is the judge: the package
# would fetch the program from the network.
set -eu
build=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
python=${PERFETTO_PYTHON:-python3}
command -v "$python" >/dev/null && "$python" -c 'import perfetto.protos.perfetto.trace.perfetto_trace_pb2' 2>/dev/null || {
    echo "skipped: $python has no perfetto: pip install perfetto"
    exit 77
}
work=$build/scratch/perfetto
rm -rf "$work"
mkdir -p "$work"
"$build/tests/write_traces" "$work"
for name in small empty product large; do "$python" -B "$here/read_perfetto.py" "$work/$name.pftrace"; done

# The reader sees what is wrong: a file that is cut in a packet, and one that is cut before the last packet of 15 bytes.
head -c 2000 "$work/product.pftrace" >"$work/cut.pftrace"
head -c -15 "$work/small.pftrace" >"$work/open.pftrace"
for name in cut open; do
    ! "$python" -B "$here/read_perfetto.py" "$work/$name.pftrace" >"$work/$name.log" 2>&1 || {
        echo "$name.pftrace was read"
        exit 1
    }
done
grep -q 'assert cleared and not flows' "$work/open.log"
