#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The time to a prompt's first token on a GPU, beside PyTorch, in one run; docs/bench.md.

    bench/prefill.py --tilewright build/tilewright --commit NAME -o prefill.jsonl
                     [--shapes llama-1b,qwen3-0.6b] [--lengths 128,512,2048,8192] [--peers cudnn,flash,compile-default]

A shape's peers are timed first (peers/prefill.py), then ours, each in a process of its own. Ours is `tilewright bench -p`:
from the call with the prompt's ids until the host has the first token's logits. It compares the last position's logits with
another way to compute them before it times anything; that is the row's verdict. A peer's time is a graph's replay on the
device alone. `floor_ms` is what the larger of two takes: operations at the fastest product ever measured on the device, and
the weights' bytes at its measured bandwidth. The peers run on $PYTHON, which must have torch with CUDA."""
import argparse
import json
import os
import subprocess
import sys
import time

import head

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = os.environ.get("PYTHON", sys.executable)
BEGIN = time.monotonic()


def say(text):
    print("prefill: [%3.0f s] %s" % (time.monotonic() - BEGIN, text), file=sys.stderr, flush=True)


def peers_of(a, shape):
    """Returns the environment, and the rows of each length."""
    words = [PYTHON, os.path.join(HERE, "peers", "prefill.py"), shape, a.lengths, a.peers]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, timeout=a.seconds)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    rows = {}
    for row in lines[1:]:
        rows.setdefault(row["tokens"], []).append(row)
        say("%s, %d tokens, %s: %s" % (shape, row["tokens"], row["peer"], row.get("ms", row.get("error"))))
    return lines[0] if lines else {}, rows


def ours_of(a, shape):
    """Returns the row of `tilewright bench` for each length, or a row with what went wrong."""
    lengths = [int(n) for n in a.lengths.split(",")]
    words = [a.tilewright, "bench", "--shape", shape, "--device", "cuda", "-p", a.lengths, "-n", "0", "-r", str(a.repetitions),
             "--json"]
    words += ["--config", a.config] if a.config else []
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=a.seconds)
    try:
        return {row["n"]: row for row in json.loads(done.stdout)}
    except (ValueError, KeyError):
        return {n: {"error": done.stderr.strip()[-300:]} for n in lengths}


def row_of(shape, n, ours, peers):
    row = {"case": "%s, %d tokens" % (shape, n), "correct": ours.get("correct") is True}
    if "error" in ours:
        row["error"] = ours["error"]
    else:
        row.update(ours_ms=round(ours["us_per_token"] * n / 1e3, 4), config=ours.get("config", ""),
                   worst_logit=ours.get("worst_logit"))
    for p in peers:
        if "ms" in p:
            row[p["peer"] + "_ms"] = p["ms"]
            row[p["peer"] + "_spread"] = p["spread"]
        else:
            row[p["peer"] + "_error"] = p["error"]
    times = {p["peer"]: p["ms"] for p in peers if "ms" in p}
    if times and "ours_ms" in row:
        row["peer"] = min(times, key=times.get)
        row["ratio"] = round(times[row["peer"]] / row["ours_ms"], 3)
    return row


def main():
    p = head.parser()
    p.description, p.formatter_class = __doc__, argparse.RawDescriptionHelpFormatter
    p.add_argument("-o", "--output", default="-", help="the file that is written (default: standard output)")
    p.add_argument("--shapes", default="llama-1b,qwen3-0.6b,llama-8b")
    p.add_argument("--lengths", default="128,512,2048,8192", help="tokens of the prompts")
    p.add_argument("--peers", default="cudnn,flash,compile-default", help="of peers/prefill.py; none: ours alone")
    p.add_argument("--repetitions", type=int, default=9)
    p.add_argument("--config", default="", help="choices of ours, a file for `bench --config`")
    p.add_argument("--seconds", type=float, default=500, help="the most that a program may take")
    a = p.parse_args()
    environment, rows = {}, []
    for shape in a.shapes.split(","):
        found, peers = peers_of(a, shape) if a.peers != "none" else ({}, {})
        environment.update(found)
        ours = ours_of(a, shape)
        for n in map(int, a.lengths.split(",")):
            rows.append(row_of(shape, n, ours.get(n, {"error": "no row"}), peers.get(n, [])))
            say(json.dumps(rows[-1]))
    device = a.device or environment.pop("device", "")
    environment.pop("device", None)
    lines = [head.line(device, a.commit, " ".join(["bench/prefill.py"] + sys.argv[1:]), **environment)]
    text = "".join(line + "\n" for line in lines + [json.dumps(r) for r in rows])
    if a.output == "-":
        sys.stdout.write(text)
    else:
        with open(a.output + ".new", "w") as f:
            f.write(text)
        os.replace(a.output + ".new", a.output)
    sys.exit(0 if all(r["correct"] for r in rows) else 1)


if __name__ == "__main__":
    main()
