#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How soon a search by a model finds a configuration near the best of an exhaustive one, a problem at a time.

    bench/time_to_good.py [--tilewright PATH] [--device cuda] [--type bf16] [--problems N] [--again K] [--commit NAME] [--problem WORDS]...

For each problem `tune --problem` runs twice, each time in a new store: by the analytic model from nothing, within 60 s, and with
`--again 0`, which measures every legal configuration. Prints the first line of a file of results, then a line a problem:

    us, seconds, rank            the model's search: its fastest configuration, how long it took from start to artefact
    exhaustive_us, exhaustive_seconds, legal
    of_exhaustive                exhaustive_us / us, 1 at most
    good                         of_exhaustive is 0.95 or more, and seconds are 60 or less

and a line with the geometric mean, the worst share and how many are good. Both times are medians of nine samples, which the two
runs took one after the other on one device."""
import argparse
import datetime
import json
import math
import os
import subprocess
import sys
import tempfile
import time

PROBLEMS = ["m=64 n=4096 k=4096", "m=300 n=768 k=2240", "m=267 n=4736 k=2624", "m=1120 n=2304 k=4736", "m=2048 n=2048 k=2048",
            "m=4096 n=8192 k=4096", "m=128 n=640 k=2880", "m=16384 n=512 k=8192"]


def tune(o, problem, again, budget):
    """Runs the command on one problem in a folder of its own. Returns its line, and the seconds of it all."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        done = subprocess.run([o.tilewright, "tune", "gemm", "type=" + o.type, "--device", o.device, "--problem", problem, "--again",
                               str(again), "--budget", str(budget), "--store", os.path.join(folder, "one.db"), "-o",
                               os.path.join(folder, "one.select"), "--json"], stdout=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(f"time_to_good.py: tilewright ended with status {done.returncode} on {problem}")
        return json.loads(done.stdout.splitlines()[0]), time.monotonic() - began


def device_of(o):
    said = json.loads(subprocess.run([o.tilewright, "doctor", "--json"], stdout=subprocess.PIPE, text=True).stdout)
    return said["gpus"][0]["name"] if o.device != "cpu" else said["cpu"]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--tilewright", default="build/tilewright")
    p.add_argument("--device", default="cuda")
    p.add_argument("--type", default="bf16")
    p.add_argument("--problems", type=int, default=len(PROBLEMS))
    p.add_argument("--problem", action="append")
    p.add_argument("--again", type=int, default=100)
    p.add_argument("--commit", default="")
    o = p.parse_args()
    print(json.dumps({"device": device_of(o), "date": datetime.date.today().isoformat(), "commit": o.commit,
                      "command": " ".join(["bench/time_to_good.py"] + sys.argv[1:]),
                      "protocol": "from an empty store; medians of nine samples in turn of the five fastest"}), flush=True)
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
