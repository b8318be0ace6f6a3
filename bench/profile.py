#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the profiler inside kernels costs, and how right it is: the rows of bench/results/profile-h200.jsonl.

    bench/profile.py --profile build/bench/profile --decode build/bench/bench_decode --commit C     on a GPU
    bench/profile.py --edits [--model FOLDER]                                                       on a GPU: rows to append
    bench/profile.py --sass --nvdisasm nvdisasm                                                     anywhere: rows to append

The first prints the first line, the rows of bench/profile.c, and the megakernel's step with and without records in turn. The second traces products
before and after a change, and says what the trace before predicted and how much idle time has a cause; of a model, too. The third assembles
a kernel without and with its records by ptxas, and counts what records became in the machine code of the loop."""
import json
import os
import re
import subprocess
import sys
import tempfile

import head

KERNELS = {
    "ws": "type=bf16 m=2048 n=2048 k=2048 tb=1 mma=2 ml=128 nl=128 ms=64 ns=128 u=64 stages=4 vec=16",
    "ws 256 staged": "type=bf16 m=4096 n=4096 k=4096 tb=1 mma=2 ml=128 nl=256 ms=64 ns=256 u=64 stages=4 vec=16 group=8 staged=1",
    "swp-3": "type=bf16 m=2048 n=2048 k=2048 tb=1 mma=1 ml=128 nl=128 ms=64 ns=32 u=32 stages=3 vec=16",
}

# What changes, the product, the configurations before and after, and the edit that says so. None: the region's own times in both traces.
SWP = "type=bf16 m=2048 n=2048 k=2048 tb=1 mma=1 ml=128 nl=128 ms=64 ns=32 u=32 vec=16"
WS = "type=bf16 m=2048 n=2048 k=2048 tb=1 mma=2 ml=128 nl=128 ms=64 ns=128 u=64 vec=16"
WIDE = "type=bf16 m=2048 n=3072 k=2048 tb=1 mma=2 ml=128 nl=256 ms=64 ns=256 u=64 vec=16 group=8"
EDITS = [
    ("sums exchanged by lanes", WIDE + " stages=4", "staged=0", "staged=2", "store", None),
    ("three stages for two", SWP, "stages=2", "stages=3", "copies", "copies=+1"),
    ("four stages for three", SWP, "stages=3", "stages=4", "copies", "copies=+1"),
    ("four stages for three, warp-specialised", WIDE + " staged=0", "stages=3", "stages=4", "tiles.empty", "tiles.empty=+1"),
    ("five stages for four, warp-specialised", WS, "stages=4", "stages=5", "tiles.empty", "tiles.empty=+1"),
]


def run(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def machine_code(ptx, a):
    """Returns the instructions that ptxas makes of PTX."""
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/k.ptx", "w") as f:
            f.write(ptx)
        run(a.ptxas, "-arch=sm_90a", folder + "/k.ptx", "-o", folder + "/k.cubin")
        text = run(a.nvdisasm, "-c", folder + "/k.cubin")
    return [x.group(1) for x in re.finditer(r"/\*[0-9a-f]{4,}\*/\s+(.*?);", text)]


def sass(a):
    for name, words in KERNELS.items():
        kernel = ["kernel", "gemm"] + words.split()
        off = machine_code(run(a.tilewright, *kernel, "--target", "sm_90a", "--emit", "ptx"), a)
        ptx = run(a.tilewright, "trace", *kernel, "--device", "emulator:sm_90a", "--emit", "ptx")
        on = machine_code(ptx, a)
        # A record reads the 32-bit clock; anchors read 64 bits.
        readings = sum(x.startswith("CS2R.32") for x in on)
        stores = sum("STS" in x for x in on) - sum("STS" in x for x in off)
        # Words that records leave, by the PTX: each element of their stores to shared memory.
        plain = run(a.tilewright, *kernel, "--target", "sm_90a", "--emit", "ptx")
        print(json.dumps({"case": "sass", "kernel": name, "config": words, "readings": readings, "stores_with_clearing": stores,
                          "instructions_off": len(off), "instructions_on": len(on),
                          "clock_reads_in_ptx": ptx.count("%clock;") - plain.count("%clock;"), "correct": True}))


def traced(a, *words):
    return json.loads(run(a.tilewright, "trace", *words, "--device", a.device or "cuda", "--analyse", "--json"))


def mean_of(t, region):
    return next(x["mean"] for role in t["roles"] for x in role["regions"] if x["name"] == region and x["kind"] == "region")


def idle(name, t):
    """Prints how much idle time of a trace has a cause."""
    bubbles = t["analysis"]["bubbles"]
    row = {"case": "idle", "what": name, "length_ns": t["length"], "clean_ns": t["clean"], "traced_ns": t["traced"],
           "tracks_attributed": round(bubbles["tracks"]["attributed"] / bubbles["tracks"]["idle"], 4)}
    for engine, x in bubbles["engines"].items():
        row[engine + "_idle"] = round(x["idle"] / x["time"], 4)
        row[engine + "_attributed"] = round(x["attributed"] / x["idle"], 4)
    print(json.dumps({**row, "correct": True}))


def edits(a):
    for what, product, before, after, region, edit in EDITS:
        words = ["kernel", "gemm"] + product.split()
        old, new = (traced(a, *words, *x.split()) for x in (before, after))
        if edit is None:
            edit = f"{region}={mean_of(new, region) / mean_of(old, region):.4f}"
        said = traced(a, *words, *before.split(), "--what-if", edit)["predicted"]
        predicted, measured = said["after"] / said["before"], new["clean"] / old["clean"]
        print(json.dumps({"case": "edit", "what": what, "config": product, "before": before, "after": after, "edit": edit,
                          "before_ns": old["clean"], "after_ns": new["clean"], "predicted": round(predicted, 4),
                          "measured": round(measured, 4), "error": round(predicted / measured - 1, 4),
                          "overheads": [round(x["overhead"], 4) for x in (old, new)], "correct": True}))
        for name, t in ((before, old), (after, new)):
            idle(what + ", " + name, t)
    if a.model:
        idle("a step of " + os.path.basename(a.model), traced(a, a.model, "-c", "512"))


def megakernel(a):
    """Steps of a model without and with marks, by turns."""
    us = {"": [], "--trace": []}
    for _ in range(a.rounds):
        for flag, list_ in us.items():
            out = run(a.decode, "--shape", "llama-1b", "--depths", "1", "--launches", "30", *([flag] if flag else []), "--unchecked")
            row = next(json.loads(x) for x in out.splitlines() if x.startswith('{"case": "llama-1b'))
            list_.append(row["ours_us"])
    off, on = (sorted(us[k])[len(us[k]) // 2] for k in us)
    print(json.dumps({"case": "overhead", "kernel": "megakernel", "problem": "llama-1b bf16, a step at depth 1", "clean_ns": 1000 * off,
                      "traced_ns": 1000 * on, "overhead": round(on / off - 1, 4), "clean_us": us[""], "traced_us": us["--trace"],
                      "correct": True}))


def main():
    p = head.parser()
    p.add_argument("--profile", help="bench/profile, as built")
    p.add_argument("--decode", help="bench/bench_decode, as built")
    p.add_argument("--rounds", type=int, default=3, help="turns of the megakernel (default: 3)")
    p.add_argument("--edits", action="store_true", help="predict changes of kernels, and make them, instead")
    p.add_argument("--model", help="a model's folder, whose step --edits traces, too")
    p.add_argument("--sass", action="store_true", help="count instructions instead")
    p.add_argument("--ptxas", default="ptxas", help="the assembler (default: ptxas)")
    p.add_argument("--nvdisasm", default="nvdisasm", help="the disassembler (default: nvdisasm)")
    a = p.parse_args()
    if a.sass:
        return sass(a)
    if a.edits:
        return edits(a)
    rows = run(a.profile).splitlines()
    driver = run("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader").split()[0]
    print(head.line(json.loads(rows[0])["device"], a.commit, "bench/profile.py --profile build/bench/profile --decode build/bench/bench_decode --commit " +
                    a.commit, driver=driver))
    for row in rows[1:]:
        print(row)
    megakernel(a)


sys.exit(main())
