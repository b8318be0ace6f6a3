#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A step of the GPU's machine with several tunings, in turn.

    bench/tunings.py --decode build/bench/bench_decode [--cases 1b,int8,...] [--turns N] [--commit NAME] TUNING TUNING...

A tuning is WARPS/BLOCKS/STAGES/WINDOW/SPLITS/EDGES/AHEAD/DOWN, where 0 is chosen and what is left out is 0. Prints the first line of a
file of results, then a row for each case, context and tuning:

    case, depth, config  as bench_decode prints them
    us                   microseconds a step: the median of the turns' medians
    of_first             us over that of the first tuning
    turns                each turn's median
    worst_logit, correct against the processor's machine, at this context, in every turn"""
import json
import statistics
import subprocess
import sys

import head

CASES = {  # shape, weights, contexts
    "1b": ("llama-1b", "native", "1,1024"),
    "int8": ("llama-1b", "int8", "1,1024"),
    "int4": ("llama-1b", "int4", "1,1024"),
    "8b": ("llama-8b", "native", "1"),
    "8b-int8": ("llama-8b", "int8", "1"),
    "8b-int4": ("llama-8b", "int4", "1"),
}


def measure(o, case):
    """Returns the rows that bench_decode prints of the case's times: every tuning, then every tuning again."""
    shape, weights, depths = CASES[case]
    words = [o.decode, "--shape", shape, "--weights", weights, "--depths", depths, "--launches", "20", "--tunings",
             ",".join(o.tuning * o.turns)]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True)
    found = [row for row in map(json.loads, done.stdout.splitlines()) if "config" in row]
    want = len(depths.split(",")) * len(o.tuning) * o.turns
    if done.returncode or len(found) != want:
        sys.exit(f"tunings.py: {case}: bench_decode ended with status {done.returncode}, after {len(found)} of {want} times")
    return found


def rows_of(o, found):
    """Returns a row for each context and tuning."""
    made = []
    for depth in sorted({row["depth"] for row in found}):
        for tuning in o.tuning:
            turns = [row for row in found if row["depth"] == depth and row["config"] == tuning]
            one = {"case": turns[0]["case"], "depth": depth, "config": tuning}
            one["us"] = round(statistics.median(row["ours_us"] for row in turns), 2)
            first = next(row["us"] for row in made + [one] if row["depth"] == depth)
            one["of_first"] = round(one["us"] / first, 4)
            one["turns"] = [row["ours_us"] for row in turns]
            one["worst_logit"] = max(row["worst_logit"] for row in turns)
            one["correct"] = all(row["correct"] is True for row in turns)
            made.append(one)
    return made


def main():
    p = head.parser(device=False)
    p.add_argument("--decode", default="build/bench/bench_decode")
    p.add_argument("--cases", default="1b,int8,8b,8b-int8")
    p.add_argument("--turns", type=int, default=2)
    p.add_argument("tuning", nargs="+")
    o = p.parse_args()
    device = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], stdout=subprocess.PIPE,
                            text=True).stdout.splitlines()[0].split(", ")
    command = f"bench/tunings.py --cases {o.cases} --turns {o.turns} " + " ".join(o.tuning)
    print(head.line(device[0], o.commit, command, driver=device[1]), flush=True)
    wrong = False
    for case in o.cases.split(","):
        for row in rows_of(o, measure(o, case)):
            wrong |= not row["correct"]
            print(json.dumps(row), flush=True)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
