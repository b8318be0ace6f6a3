#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# attention_trace.sh OUT: traces attention of 16 x 16 heads of 128 elements and 4,096 positions on this machine's GPU, the
# case of section 6.2 of KPerfIR's paper, with its steps in each order, and lets `--improve` edit the order that
# does not overlap. The folder OUT gets a page, a summary and a file for ui.perfetto.dev of each, and trace-attention.jsonl.
# Variables:
#   TILEWRIGHT  the command (default: build/tilewright)
#   PROBLEM     words of the problem
#   TILE        words of the configuration, but for the order
#   FLAGS       further flags of `trace kernel`
#   COMMIT      name of the build in the results
set -u
here=$(cd "$(dirname "$0")" && pwd)
[ $# -eq 1 ] || { echo "attention_trace.sh: needs a folder for the results" >&2; exit 2; }
mkdir -p "$1" || exit 1
out=$(cd "$1" && pwd)
tilewright=${TILEWRIGHT:-$here/../build/tilewright}
problem=${PROBLEM:-batch=16 heads=16 queries=4096 head=128}
tile=${TILE:-rows=128 columns=128}
flags=${FLAGS:---every 33 --frames 128}
trace() { # trace NAME WORDS... : a trace of one order.
    name=$1
    shift
    # shellcheck disable=SC2086
    timeout 100 "$tilewright" trace kernel attention $problem $tile "$@" $flags --analyse --json -o "$out/$name.html" \
        >"$out/$name.json" || echo "$name failed" >&2
}
for o in 0 1; do for p in 0 1; do trace "overlap$o-pingpong$p" overlap=$o pingpong=$p; done; done
trace improved overlap=0 pingpong=0 --improve
# shellcheck disable=SC2086
for o in 0 1; do
    timeout 100 "$tilewright" trace kernel attention $problem $tile overlap=$o pingpong=$o $flags --analyse \
        -o "$out/overlap$o.pftrace" >"$out/overlap$o.txt"
done
PROBLEM="$problem" TILE="$tile" COMMIT="${COMMIT:-}" python3 - "$out" <<'PYTHON'
import datetime, json, os, sys
out = sys.argv[1]
words = dict(w.split("=") for w in os.environ["PROBLEM"].split())
n = {k: int(v) for k, v in words.items() if v.isdigit()}
flops = 4 * n.get("batch", 1) * n["heads"] * n["queries"] * n.get("keys", n["queries"]) * n["head"] / (2 if n.get("causal") else 1)
rows = []
for name in ("overlap0-pingpong0", "overlap0-pingpong1", "overlap1-pingpong0", "overlap1-pingpong1", "improved"):
    try:
        o = json.load(open(f"{out}/{name}.json"))
    except (OSError, ValueError):
        continue
    row = {"case": name, "clean_ns": o.get("clean"), "traced_ns": o.get("traced"), "correct": True, "orders": o.get("orders")}
    if o.get("clean"): row["tflops"] = flops / o["clean"] / 1e3
    for key in ("improvements", "configuration", "device"):
        if key in o: row[key] = o[key]
    rows.append(row)
head = {"device": rows[0].get("device") if rows else None, "date": datetime.date.today().isoformat(), "commit": os.environ["COMMIT"],
        "command": "bench/attention_trace.sh OUT", "problem": os.environ["PROBLEM"], "tile": os.environ["TILE"]}
with open(f"{out}/trace-attention.jsonl", "w") as f:
    for o in (head, *rows): print(json.dumps(o), file=f)
for r in rows:
    p = [f"overlap={x['overlap']} pingpong={x['pingpong']} {100 * (x['ratio'] - 1):+.1f} %" for x in (r["orders"] or {}).get("predicted", [])]
    print(r["case"], f"{(r['clean_ns'] or 0) / 1e3:.1f} us", f"{r.get('tflops', 0):.1f} TFLOP/s", "predicted:", *p, json.dumps(r.get("improvements", "")))
PYTHON
