#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several sequences together beside PyTorch, for bench/results/batch-h200.jsonl.

    bench/batch.py --commit HASH [--sequences 1,8,32] [--shape llama-1b] [-p 512] [-n 128] [-r 5] > batch-h200.jsonl

Runs `tilewright bench` for each number of sequences, which compares tokens with the processor's first, and bench/peers/batch.py
(--peer FILE: what it printed before). --command PATH is the program, build/tilewright by default."""
import argparse
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def ours(a, n):
    """Returns the rows of bench, with one of prompts and tokens together."""
    run = [a.command, "bench", "--shape", a.shape, "--device", "cuda", "-p", str(a.p), "-n", str(a.n), "-r", str(a.r), "--json"]
    rows = json.loads(subprocess.run(run + (["--sequences", str(n)] if n > 1 else []), check=True, stdout=subprocess.PIPE).stdout)
    if n > 1:
        return rows
    by = {r["test"]: r for r in rows}
    both = dict(by["pp%d" % a.p])
    # One sequence's bench times the prompt to its first token, and a token after another.
    samples = [x + y for x, y in zip(by["pp%d" % a.p]["samples_s"], by["tg%d" % a.n]["samples_s"])]
    both.update(test="pp%d+tg%d" % (a.p, a.n + 1), samples_s=samples,
                tokens_per_second=statistics.mean((a.n + 1) / s for s in samples))
    both["per_sequence"] = statistics.median((a.n + 1) / s for s in samples)
    return rows + [both]


def row(a, n, r, peer):
    out = {"case": "%s, %d sequence%s, %s" % (a.shape, n, "s" * (n > 1), r["test"]), "sequences": n, "test": r["test"],
           "tokens_per_second": r["tokens_per_second"], "per_sequence": r.get("per_sequence", r["median"]), "correct": r["correct"]}
    if "worst_logit" in r:
        out["worst_logit"] = r["worst_logit"]
    out["samples_s"] = r["samples_s"]
    kind = "prompt_per_second" if r["test"] == "pp%d" % a.p else "steps_per_second" if r["test"] == "tg%d" % a.n else "tokens_per_second"
    if peer:
        out.update(peer="PyTorch in CUDA graphs, contexts %d to %d" % (a.p + 1, a.p + a.n), peer_tokens_per_second=peer[kind],
                   ratio=round(r["tokens_per_second"] / peer[kind], 3))
    return out


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--commit", default="")
    p.add_argument("--command", default="build/tilewright")
    p.add_argument("--sequences", default="1,8,32")
    p.add_argument("--shape", default="llama-1b")
    p.add_argument("--peer", default="")
    p.add_argument("-p", type=int, default=512)
    p.add_argument("-n", type=int, default=128)
    p.add_argument("-r", type=int, default=5)
    a = p.parse_args()
    run = [sys.executable, os.path.join(HERE, "peers", "batch.py"), a.shape, a.sequences, str(a.p), str(a.n)]
    text = open(a.peer).read() if a.peer else subprocess.run(run, check=True, stdout=subprocess.PIPE, text=True).stdout
    lines = [json.loads(line) for line in text.splitlines()]
    peers = {r["batch"]: r for r in lines[1:]}
    driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], stdout=subprocess.PIPE, text=True)
    date = subprocess.run(["date", "+%F"], stdout=subprocess.PIPE, text=True).stdout.strip()
    print(json.dumps({"device": lines[0]["device"], "date": date, "commit": a.commit,
                      "command": "bench/batch.py --shape %s --sequences %s -p %d -n %d -r %d" % (a.shape, a.sequences, a.p, a.n, a.r),
                      "driver": driver.stdout.strip().splitlines()[0], "torch": lines[0]["torch"]}))
    for n in map(int, a.sequences.split(",")):
        for r in ours(a, n):
            print(json.dumps(row(a, n, r, peers.get(n))), flush=True)


if __name__ == "__main__":
    main()
