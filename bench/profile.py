#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the profiler inside kernels costs, and how right it is: the rows of bench/results/profile-h200.jsonl.

    bench/profile.py --profile build/bench/profile --decode build/bench/bench_decode --commit C     on a GPU
    bench/profile.py --sass --nvdisasm nvdisasm                                                     anywhere: rows to append

The first prints the first line, the rows of bench/profile.c, and the megakernel's step with and without records in turn. The second assembles
a kernel without and with its records by ptxas, and counts what records became in the machine code of the loop."""
import json
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
    p.add_argument("--sass", action="store_true", help="count instructions instead")
    p.add_argument("--ptxas", default="ptxas", help="the assembler (default: ptxas)")
    p.add_argument("--nvdisasm", default="nvdisasm", help="the disassembler (default: nvdisasm)")
    a = p.parse_args()
    if a.sass:
        return sass(a)
    rows = run(a.profile).splitlines()
    driver = run("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader").split()[0]
    print(head.line(json.loads(rows[0])["device"], a.commit, "bench/profile.py --profile build/bench/profile --decode build/bench/bench_decode --commit " +
                    a.commit, driver=driver))
    for row in rows[1:]:
        print(row)
    megakernel(a)


sys.exit(main())
