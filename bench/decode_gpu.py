#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Decode on a GPU beside PyTorch, in one run; docs/bench.md.

    decode_gpu.py --ours build/bench/bench_decode -o decode.jsonl [--cases 1b,8b,int8,int4,batch]
                  [--compiled SHAPE:BATCH:DEPTH,...] [--commit NAME]

For every shape and depth ours is timed, then each peer, then ours again; rows hold the slower of our two medians. What is
written is the environment, then a row for each pair, as JSON lines. `bytes` are weights, and keys and values of `context`
positions of every sequence; `floor_us` is what they take at the speed of plain reads. Exit 1: a row or a peer is missing, or
ours is not correct. Needs only Python itself; the peers run on $PYTHON, which must have torch with CUDA.
"""
import argparse
import datetime
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = os.environ.get("PYTHON", sys.executable)
CASES = {  # name: shape, weights, batch, depths
    "1b": ("llama-1b", "native", 1, (1, 1024, 4096)),
    "8b": ("llama-8b", "native", 1, (1, 1024)),
    "int8": ("llama-1b", "int8", 1, (1,)),
    "int4": ("llama-1b", "int4", 1, (1,)),
    "8b-int8": ("llama-8b", "int8", 1, (1,)),
    "8b-int4": ("llama-8b", "int4", 1, (1,)),
    "batch": ("llama-1b", "native", 8, (1024,)),
}


def say(text):
    print("decode_gpu: " + text, file=sys.stderr, flush=True)


class Peers:
    """PyTorch, which stays up: what it compiles takes half a minute each."""

    def __init__(self):
        self.process = subprocess.Popen([PYTHON, os.path.join(HERE, "peers", "decode.py"), "serve"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1)
        self.environment = json.loads(self.process.stdout.readline())

    def ask(self, shape, batch, depth, peers):
        self.process.stdin.write("%s %d %d %s\n" % (shape, batch, depth, ",".join(peers)))
        rows = json.loads(self.process.stdout.readline())
        if isinstance(rows, dict):
            say("peers: " + rows["error"])
            return []
        return rows

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def ours(program, shape, weights, batch, depths, checked):
    words = [program, "--shape", shape, "--weights", weights, "--depths", ",".join(map(str, depths))]
    words += ["--batch", str(batch)] if batch > 1 else []
    words += [] if checked else ["--unchecked"]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        say("%s: exit %d %s" % (" ".join(words[1:]), done.returncode, done.stderr.strip()[-300:]))
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {row["depth"]: row for row in rows}


def pair(name, case, depth, first, second, peer):
    shape, weights, batch, _ = case
    worse = max(first, second, key=lambda r: r["ours_us"])
    row = {"case": "%s %s, batch %d, context %d" % (shape, weights, batch, depth), "config": worse["config"],
           "ours_us": worse["ours_us"], "ours_p10": worse["p10"], "ours_p90": worse["p90"],
           "ours_again_us": [first["ours_us"], second["ours_us"]], "bytes": worse["bytes"],
           "gb_per_s": worse["gb_per_s"], "ceiling_gb_per_s": worse["ceiling_gb_per_s"],
           "floor_us": round(worse["bytes"] / worse["ceiling_gb_per_s"] * 1e-3, 1), "correct": first["correct"],
           "worst_logit": first["worst_logit"]}
    if peer:
        row.update({"peer": peer["peer"], "peer_us": peer["us"], "peer_p10": peer["p10_us"], "peer_p90": peer["p90_us"],
                    "ratio": round(peer["us"] / worse["ours_us"], 3)})
    return row


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ours", default=os.path.join(HERE, "..", "build", "bench", "bench_decode"))
    p.add_argument("-o", "--output", required=True)
    p.add_argument("--cases", default=",".join(CASES))
    p.add_argument("--compiled", default="llama-1b:1:1024", help="SHAPE:BATCH:DEPTH,... that torch.compile is asked for")
    p.add_argument("--commit", default="unknown")
    a = p.parse_args()
    compiled = set(a.compiled.split(","))
    peers = Peers()
    missing = []
    rows = [dict(peers.environment, date=datetime.date.today().isoformat(), commit=a.commit,
                 command=" ".join(["bench/decode_gpu.py"] + sys.argv[1:]))]
    for name in a.cases.split(","):
        case = CASES[name]
        shape, weights, batch, depths = case
        say("%s %s, batch %d" % (shape, weights, batch))
        first = ours(a.ours, shape, weights, batch, depths, True)
        found = {}
        for depth in depths if weights == "native" else ():
            which = ["cublas"] + (["compile"] if "%s:%d:%d" % (shape, batch, depth) in compiled else [])
            found[depth] = peers.ask(shape, batch, depth, which)
            if len(found[depth]) < len(which):
                missing.append("%s, context %d: peers" % (name, depth))
        second = ours(a.ours, shape, weights, batch, depths, False)
        for depth in depths:
            if depth not in first or depth not in second:
                missing.append("%s, context %d: ours" % (name, depth))
                continue
            rows += [pair(name, case, depth, first[depth], second[depth], peer) for peer in found.get(depth) or [None]]
        with open(a.output + ".new", "w") as f:
            f.writelines(json.dumps(r) + "\n" for r in rows)
        os.replace(a.output + ".new", a.output)
    peers.close()
    for r in rows[1:]:
        say("%-44s ours %8.1f us  floor %7.1f  %s" % (r["case"], r["ours_us"], r["floor_us"],
                                                      "%s %.1f: %.2f" % (r["peer"], r["peer_us"], r["ratio"]) if "peer" in r else ""))
    wrong = [r["case"] for r in rows[1:] if r["correct"] is not True]
    for what, names in (("missing", missing), ("not correct", wrong)):
        if names:
            say(what + ": " + "; ".join(names))
    return 1 if missing or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
