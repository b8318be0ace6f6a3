#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# power.sh TILEWRIGHT OUT [DEVICE]: runs three campaigns on a GPU (default cuda:0) whose NVML counts energy, and prints what they
# say of
#   OUT/time.jsonl    a short campaign of many products: clock, power and drift
#   OUT/one.jsonl     a campaign of one product by time, and
#   OUT/energy.jsonl  one by energy: the fastest configuration and the one of least energy
# Takes four minutes.
set -eu
tilewright=$1 out=$2 device=${3:-cuda:0}
mkdir -p "$out"
rm -f "$out/time.db" "$out/one.db" "$out/energy.db"
narrow="--range m=4096:4096 --range n=4096:4096 --range k=4096:4096"

"$tilewright" measure gemm type=bf16 --device "$device" --budget 40 --reference 2 --store "$out/time.db" --json >"$out/time.json"
"$tilewright" measure gemm type=bf16 --device "$device" --budget 30 $narrow --reference 2 --store "$out/one.db" --json >"$out/one.json"
"$tilewright" measure gemm type=bf16 --device "$device" --budget 150 $narrow --minimise energy --store "$out/energy.db" --json >"$out/energy.json"
for f in time one energy; do "$tilewright" export "$out/$f.db" -o "$out/$f.jsonl"; done
python3 - "$out" <<'END'
import json, statistics, sys
out = sys.argv[1]
rows = {f: [json.loads(l) for l in open(f"{out}/{f}.jsonl")] for f in ("time", "one", "energy")}
for f in rows:
    print(f, json.load(open(f"{out}/{f}.json")))
clocks = [r["clock_mhz"] for r in rows["time"] if "clock_mhz" in r]
watts = [r["watts"] for r in rows["time"] if "watts" in r]
print(f"of {len(rows['time'])} measurements {len(clocks)} have a clock, {len(watts)} a power")
if clocks:
    print(f"clock {min(clocks):.0f} to {max(clocks):.0f} MHz; power {min(watts or [0]):.0f} to {max(watts or [0]):.0f} W")
reference = [(r["began_ns"], statistics.median(r["samples"]), r.get("clock_mhz")) for r in rows["time"] if "|reference-" in r["key"]]
for t, us, mhz in reference:
    print(f"reference at {(t - reference[0][0]) * 1e-9:6.1f} s: {us:.2f} us at {mhz} MHz")
words = lambda r: json.dumps(r["config"])
best = {}
for f, unit in (("one", "us"), ("energy", "uJ")):
    for r in rows[f]:
        if r["status"] == "right" and r["unit"] == unit and "|reference-" not in r["key"]:
            best.setdefault(f, {}).setdefault((r["problem"], words(r)), statistics.median(r["samples"]))
both = sorted(set(best["one"]) & set(best["energy"]))
print(f"{len(both)} configurations have a time and an energy")
if both:
    fast, frugal = min(both, key=best["one"].get), min(both, key=best["energy"].get)
    for name, c in (("fastest", fast), ("least energy", frugal)):
        us, uj = best["one"][c], best["energy"][c]
        print(f"{name}: {us:.1f} us, {uj:.0f} uJ, {uj / us:.0f} W: {c[1]}")
END
