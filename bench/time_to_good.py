#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long the search for one problem takes by a model, and how near its result is to that of an exhaustive search.

    bench/time_to_good.py [--tilewright PATH] [--device cuda] [--type bf16] [--problems N] [--again K] [--commit NAME] [--problem
    WORDS]...

For each problem `tune --problem` runs twice on one device, each time with a new store: by the analytic model, within 60 s, and with
`--again 0`, which measures every legal configuration. Prints the first line of a file of results, then a row for each problem:

    us                   time of the configuration that the model's search found, a median of nine samples
    rank                 place that the model gave the configuration, from 1
    seconds              from the start of the command to its end, the artefact written
    legal                number of legal configurations
    exhaustive_us, exhaustive_seconds
                         the same of the exhaustive search
    of_exhaustive        exhaustive_us / us, at most 1
    good                 of_exhaustive is 0.95 or more, and seconds are 60 or less

and a row with the geometric mean and the least of of_exhaustive, and how many problems are good."""
import json
import math
import os
import subprocess
import sys
import tempfile
import time

import head

PROBLEMS = ["m=64 n=4096 k=4096", "m=300 n=768 k=2240", "m=267 n=4736 k=2624", "m=1120 n=2304 k=4736", "m=2048 n=2048 k=2048",
            "m=4096 n=8192 k=4096", "m=128 n=640 k=2880", "m=16384 n=512 k=8192"]


def tune(o, problem, again, budget):
    """Tunes one problem in a folder of its own. Returns the row that the command printed, and the seconds that it took."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        done = subprocess.run([o.tilewright, "tune", "gemm", "type=" + o.type, "--device", o.device, "--problem", problem,
                               "--again", str(again), "--budget", str(budget), "--store", os.path.join(folder, "one.db"), "-o",
                               os.path.join(folder, "one.select"), "--json"], stdout=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(f"time_to_good.py: tilewright ended with status {done.returncode} on {problem}")
        return json.loads(done.stdout.splitlines()[0]), time.monotonic() - began


def device_of(o):
    """Returns the name of the device that is measured."""
    said = json.loads(subprocess.run([o.tilewright, "doctor", "--json"], stdout=subprocess.PIPE, text=True).stdout)
    return said["gpus"][0]["name"] if o.device != "cpu" else said["cpu"]


def main():
    p = head.parser(device=False)
    p.add_argument("--device", default="cuda", help="the device that is tuned (default: cuda)")
    p.add_argument("--type", default="bf16")
    p.add_argument("--problems", type=int, default=len(PROBLEMS))
    p.add_argument("--problem", action="append")
    p.add_argument("--again", type=int, default=100)
    o = p.parse_args()
    print(head.line(device_of(o), o.commit, " ".join(["bench/time_to_good.py"] + sys.argv[1:]),
                    protocol="from an empty store; medians of nine samples in turn of the five fastest"), flush=True)
    shares, good, correct = [], 0, True
    for problem in o.problem or PROBLEMS[:o.problems]:
        one, seconds = tune(o, problem, o.again, 60)
        every, long = tune(o, problem, 0, 0)
        share = min(1, every["us"] / one["us"])
        row = {"case": "shape", "problem": problem, "model": one["model"], "legal": every["legal"], "measured": one["measured"],
               "rank": one["rank"], "config": one["config"], "us": one["us"], "seconds": round(seconds, 2),
               "exhaustive_config": every["config"], "exhaustive_us": every["us"], "exhaustive_seconds": round(long, 2),
               "of_exhaustive": share, "good": share >= 0.95 and seconds <= 60,
               "correct": one["correct"] and every["correct"]}
        shares.append(share)
        good += row["good"]
        correct = correct and row["correct"]
        print(json.dumps(row), flush=True)
    print(json.dumps({"case": "summary", "problems": len(shares), "good": good, "worst": min(shares),
                      "of_exhaustive": math.exp(sum(map(math.log, shares)) / len(shares)), "correct": correct}))


if __name__ == "__main__":
    main()
