#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random ScheduleConfigs on a device: each must run right (`verify`) or be refused with a reason; docs/bench.md.

    check_configs.py --tilewright build/tilewright --model models/demo [--count 100] [--seed 1] [--device cuda]

The last line is a summary in JSON. Exit 1: a config ran wrong, hung, or ended without a verdict or a reason.
"""
import argparse
import collections
import json
import os
import random
import subprocess
import sys
import tempfile


# What is said of a configuration that is well formed, but for another device or model.
REFUSALS = ("do not fit", "does not run", "must be", "on a processor", "is for a context")


def draw(r):
    """Mostly values that can serve; now and then what must be refused."""
    c, m = {}, {}
    if r.random() < 0.5:
        c["workers"] = r.choice([1, 2, 3, 7, 16, 33, 64, 100, 131, 132, 200])
    if r.random() < 0.5:
        c["weights"] = r.choice(["native", "int8", "int4"])
        if r.random() < 0.5:
            c["group"] = r.choice([32, 64, 128, 48])
    if r.random() < 0.3:
        c["row_unit"] = r.choice([2, 8, 16, 32, 48, 64])
    if r.random() < 0.5:
        c["kv_splits"] = r.choice([1, 2, 3, 5, 8, 16, 40, 300])
    if r.random() < 0.3:
        c["row_blocks"] = r.choice([1, 2, 5])
    if r.random() < 0.3:
        c["down_splits"] = r.choice([1, 2, 4, 7])
    if r.random() < 0.4:
        c["kv"] = r.choice(["f32", "f16", "bf16"])
    if r.random() < 0.3:
        c["group_heads"] = r.random() < 0.5
    if r.random() < 0.5:
        m["warps"] = r.randint(1, 16)
    if r.random() < 0.5:
        m["blocks"] = r.randint(1, 8)
    if r.random() < 0.5:
        m["stages"] = r.randint(1, 32)
    if r.random() < 0.5:
        m["window"] = r.randint(1, 32)
    if r.random() < 0.5:
        m["ahead"] = r.randint(1, 32)
    if r.random() < 0.5:
        m["edges"] = r.choice(["auto", "counters", "data"])
    if m:
        c["machine"] = m
    return c


def judge(a, config, path):
    with open(path, "w") as f:
        json.dump(config, f)
    words = [a.tilewright, "verify", a.model, "--device", a.device, "--config", path, "--json"]
    try:
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=a.timeout)
    except subprocess.TimeoutExpired:
        return "hung", ""
    message = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else ""
    try:
        verdict = json.loads(done.stdout)
    except ValueError:
        verdict = {}
    if done.returncode == 0 and verdict.get("agrees") is True:
        return "right", ""
    if verdict.get("agrees") is False:
        return "wrong", done.stdout.strip()
    if "gave up" in message:
        return "hung", message
    refused = message and (done.returncode == 2 or any(s in message for s in REFUSALS))
    return ("refused", message) if refused else ("unclear", "exit %d %s" % (done.returncode, message))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--tilewright", default="build/tilewright")
    p.add_argument("--model", default="models/demo")
    p.add_argument("--device", default="cuda")
    p.add_argument("--count", type=int, default=100)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--timeout", type=float, default=120)
    a = p.parse_args()
    r = random.Random(a.seed)
    found = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        for i in range(a.count):
            config = draw(r)
            what, message = judge(a, config, os.path.join(folder, "c.json"))
            found[what] += 1
            print("%3d %-7s %s  %s" % (i, what, json.dumps(config), message), flush=True)
    print(json.dumps(dict(found, count=a.count, seed=a.seed, model=a.model, device=a.device)))
    return 1 if set(found) - {"right", "refused"} else 0


if __name__ == "__main__":
    sys.exit(main())
