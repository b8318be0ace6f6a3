#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models of the zoo on a processor beside onnxruntime, in one run; docs/bench.md.

    bench/onnx_cpu.py ZOO --tilewright build/tilewright --commit NAME -o onnx-cpu.jsonl
                      [--models bert-base] [--batches 1] [--length 512] [--threads 2] [--rounds 3]

Ours is `tilewright bench MODEL.onnx --device cpu --golden CASE.npz`, whose inputs and outputs are onnxruntime's. Both take turns,
--rounds times, in f32, with as many threads; each one's fastest median counts, since others may use the machine. Needs packages
onnxruntime and numpy in $PYTHON."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

import engine
import head
import zoo
import zoo_weights


IDLE_SECONDS = 0.5  # onnxruntime's threads spin for some 50 ms after a pass, longer than short models run.


def theirs(session, ids, repetitions):
    """Returns microseconds of each pass, and the outputs. Afterwards the session's threads sleep."""
    samples = []
    for i in range(repetitions + 1):
        begin = time.monotonic()
        out = session.run(None, {"input_ids": ids})
        if i:
            samples.append((time.monotonic() - begin) * 1e6)
    time.sleep(IDLE_SECONDS)
    return samples, out


def ours(a, model, case):
    words = [a.tilewright, "bench", model, "--device", "cpu", "-t", str(a.threads), "-r", str(a.repetitions), "--golden", case,
             "--json"]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return rows[0] if rows else {"error": done.stderr.strip()[-300:]}


def measure(a, name, batch):
    import onnxruntime

    folder = os.path.join(a.zoo, name)
    zoo_weights.write(folder)
    with open(os.path.join(folder, zoo.MANIFEST)) as f:
        spec = zoo.of_manifest(json.load(f))
    model = os.path.join(folder, zoo.MODEL)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = a.threads
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    ids = np.random.default_rng(batch).integers(0, spec.vocab, (batch, a.length))
    _, out = theirs(session, ids, 0)
    row = {"case": "%s f32, batch %d, %d tokens, %d layers" % (spec.name, batch, a.length, spec.layers), "correct": True}
    with tempfile.TemporaryDirectory() as top:
        case = os.path.join(top, "case.npz")
        np.savez(case, in_input_ids=ids, **{"out_%d" % i: y for i, y in enumerate(out)})
        for _ in range(a.rounds):
            samples, _ = theirs(session, ids, a.repetitions)
            middle, one = statistics.median(samples), ours(a, model, case)
            if middle < row.get("peer_us", 1e99):
                row.update(peer="onnxruntime %s" % onnxruntime.__version__, peer_us=round(middle, 1),
                           peer_spread=round((max(samples) - min(samples)) / middle, 4))
            if "error" in one:
                return dict(row, correct=False, error=one["error"])
            row["correct"] = row["correct"] and one["correct"]
            if one["us"] < row.get("ours_us", 1e99):
                row.update(ours_us=round(one["us"], 1), spread=round(one["spread"], 4), config=one.get("config", ""),
                           ours_worst=one["worst"], ours_rms=one["rms"])
    row["ratio"] = round(row["peer_us"] / row["ours_us"], 3)
    row["gflops"] = round(spec.flop(batch, a.length) / row["ours_us"] / 1e3, 1)
    return row


def main():
    p = head.parser()
    p.description, p.formatter_class = __doc__, argparse.RawDescriptionHelpFormatter
    p.add_argument("zoo")
    p.add_argument("-o", "--output", default="-", help="the file that is written (default: standard output)")
    p.add_argument("--models", default="bert-base")
    p.add_argument("--batches", default="1")
    p.add_argument("--length", type=int, default=512, help="tokens")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("-r", "--repetitions", type=int, default=5)
    a = p.parse_args()
    rows = []
    for name in a.models.split(","):
        for batch in map(int, a.batches.split(",")):
            rows.append(measure(a, name, batch))
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    engine.write(a, {"threads": a.threads}, rows, "bench/onnx_cpu.py")
    sys.exit(0 if all(r["correct"] for r in rows) else 1)


if __name__ == "__main__":
    main()
