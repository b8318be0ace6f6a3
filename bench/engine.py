#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole models of the zoo on a GPU beside PyTorch, in one run: the time of a pass; docs/bench.md.

    bench/engine.py ZOO --tilewright build/tilewright --commit NAME -o engine.jsonl [--minutes 20]
                    [--models bert-base,gpt2] [--dtypes f16,f32] [--batches 1,4,8] [--peers graph,compile,max-autotune]
                    [--settings "own=--products own;vendor=--products vendor"] [--ahead]

ZOO has a folder a model, by tools/make_zoo.py; its --structure is enough, weights are made here. The most important models come
first, and no model is begun after --minutes. A model's peers are timed (peers/engine.py), which also computes the outputs in
f32; ours is `tilewright bench MODEL.onnx --golden CASE.npz`, which compares its outputs with those before it times. A time is
the median of 20 replays of a CUDA graph, each of which is waited for, on both sides. A row is of a model, type and batch:
`peer` is the fastest of PyTorch's ways, `ours_worst` and `peer_worst` the largest differences from f32 and `ours_rms` and
`peer_rms` the root of their mean square, of that of the outputs; it is correct if ours_rms is within 1e-2 in f16 and 1e-4 in
f32. `ceiling` is the least microseconds that the pass's operations take at the rate of the fastest product measured on an H200.
--settings times ours again with further flags, a row each. --ahead first lets the peers of all models compile side by side,
which fills PyTorch's cache; nothing is timed meanwhile, and none goes on after --minutes. The peers run on $PYTHON, which must
have torch with CUDA and transformers."""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import head
import zoo

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = os.environ.get("PYTHON", sys.executable)
ORDER = ("bert-base", "gpt2", "bert-large", "openllama-3b", "gpt2-medium", "bert-medium", "bert-small", "bert-mini", "bert-tiny",
         "llama3-8b")
ALLOWED = {"f16": 1e-2, "f32": 1e-4}
# The fastest products measured on an H200: of 16 bits in gemm-llm-h200.jsonl, of f32 by three of tf32 in gemm-f32-h200.jsonl.
FASTEST = {"f16": 770e12, "f32": 138e12}
KEPT = 20e9  # Bytes of weights that may stay for the next type; more would fill a small disk.
BEGIN = time.monotonic()


def say(text):
    print("engine: [%4.0f s] %s" % (time.monotonic() - BEGIN, text), file=sys.stderr, flush=True)


def lines_of(words, seconds):
    """Runs a program that prints JSON lines. Returns them, and the end of what it said on stderr."""
    try:
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=seconds)
        out, err = done.stdout, done.stderr
    except subprocess.TimeoutExpired as late:
        out, err = (late.stdout or b"").decode(), "took more than %d s" % seconds
    except OSError as error:
        out, err = "", str(error)
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")], err.strip()[-300:]


def peers_words(a, folder, cases, dtype):
    return [PYTHON, os.path.join(HERE, "peers", "engine.py"), folder, "--out", cases, "--dtype", dtype, "--batches", a.batches,
            "--length", str(a.length), "--peers", a.peers]


def compile_ahead(a):
    """Runs the peers of all models side by side. What they print is of no use; what they compiled is kept by PyTorch."""
    for dtype in a.dtypes.split(","):
        with tempfile.TemporaryDirectory(prefix="engine-") as cases:
            running = [subprocess.Popen(peers_words(a, os.path.join(a.zoo, name), os.path.join(cases, name), dtype),
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                       for name in a.models.split(",") if os.path.isdir(os.path.join(a.zoo, name))]
            for process in running:
                try:
                    process.wait(timeout=max(0, 60 * a.minutes - (time.monotonic() - BEGIN)))
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        say("the peers have compiled in %s" % dtype)


def peers_of(a, folder, cases, dtype):
    """Returns the environment, and the rows of each batch."""
    lines, err = lines_of(peers_words(a, folder, cases, dtype), a.seconds)
    rows = {}
    for row in lines[1:]:
        rows.setdefault(row["batch"], []).append(row)
        say("%s %s, batch %d, %s: %s" % (row["model"], dtype, row["batch"], row["peer"], row.get("ms", row.get("error"))))
    if not lines:
        say("peers: " + err)
    return lines[0] if lines else {}, rows


def ours_of(a, folder, cases, dtype, flags=()):
    """Returns our row of each batch. Weights are read once for all."""
    words = [a.tilewright, "bench", os.path.join(folder, zoo.MODEL), "--device", a.on, "--dtype", dtype, "--json", *a.flags.split(), *flags]
    batches = [int(b) for b in a.batches.split(",")]
    for batch in batches:
        words += ["--golden", os.path.join(cases, "case-%d.npz" % batch)]
    lines, err = lines_of(words, a.seconds)
    rows = dict(zip(batches, lines))
    return {batch: rows.get(batch, {"error": err or "no row"}) for batch in batches}


def row_of(spec, dtype, batch, length, ours, peers, setting=""):
    case = "%s %s, batch %d, %d tokens%s" % (spec.name, dtype, batch, length, ", " + setting if setting else "")
    floor = spec.flop(batch, length) / FASTEST[dtype] * 1e6
    row = {"case": case, "config": ours.get("config", ""), "correct": False, "ceiling": round(floor, 1),
           "ceiling_by": "operations at %.0f TFLOP/s" % (FASTEST[dtype] / 1e12)}
    if "error" in ours:
        row["error"] = ours["error"]
    else:
        row.update(ours_us=ours["us"], spread=ours["spread"], ours_worst=ours.get("worst"), ours_rms=ours.get("rms"))
        row["correct"] = ours.get("rms") is not None and ours["rms"] <= ALLOWED[dtype]
        row["tflops"] = round(spec.flop(batch, length) / ours["us"] / 1e6, 1)
    for p in peers:
        row["%s_us" % p["peer"].replace("-", "_")] = round(p["ms"] * 1e3, 1) if "ms" in p else None
        if "error" in p:
            row["%s_error" % p["peer"]] = p["error"]
    timed = [p for p in peers if "ms" in p]
    if timed:
        best = min(timed, key=lambda p: p["ms"])
        row.update(peer=best["peer"], peer_us=round(best["ms"] * 1e3, 1), peer_spread=best["spread"], peer_worst=best["worst"],
                   peer_rms=best["rms"])
        if "ours_us" in row:
            row["ratio"] = round(row["peer_us"] / row["ours_us"], 3)
    return row


def model_rows(a, name, dtype):
    folder = os.path.join(a.zoo, name)
    with open(os.path.join(folder, zoo.MANIFEST)) as f:
        spec = zoo.of_manifest(json.load(f))
    cases = tempfile.mkdtemp(prefix="engine-")
    rows = []
    try:
        environment, peers = peers_of(a, folder, cases, dtype)
        for setting in [""] + [s for s in a.settings.split(";") if s]:
            label, _, flags = setting.partition("=")
            ours = ours_of(a, folder, cases, dtype, flags.split())
            for batch in map(int, a.batches.split(",")):
                rows.append(row_of(spec, dtype, batch, a.length, ours[batch], peers.get(batch, []), label))
                say(json.dumps(rows[-1]))
    finally:
        shutil.rmtree(cases, ignore_errors=True)
        weights = os.path.join(folder, zoo.DATA)
        if os.path.exists(weights) and os.path.getsize(weights) > KEPT:
            os.remove(weights)
    return environment, rows


def write(a, environment, rows, program="bench/engine.py"):
    device = a.device or environment.get("device", "")
    more = {k: v for k, v in environment.items() if k != "device"}
    lines = [head.line(device, a.commit, " ".join([program] + sys.argv[1:]), **more)] + [json.dumps(r) for r in rows]
    text = "".join(line + "\n" for line in lines)
    if a.output == "-":
        sys.stdout.write(text)
        return
    with open(a.output + ".new", "w") as f:
        f.write(text)
    os.replace(a.output + ".new", a.output)


def main():
    p = head.parser()
    p.description, p.formatter_class = __doc__, argparse.RawDescriptionHelpFormatter
    p.add_argument("zoo")
    p.add_argument("-o", "--output", default="-", help="the file that is written (default: standard output)")
    p.add_argument("--models", default=",".join(ORDER))
    p.add_argument("--dtypes", default="f16,f32")
    p.add_argument("--batches", default="1,4,8")
    p.add_argument("--length", type=int, default=512, help="tokens")
    p.add_argument("--peers", default="graph,compile", help="of peers/engine.py")
    p.add_argument("--settings", default="", help="LABEL=FLAGS;...: ours again, with further flags")
    p.add_argument("--flags", default="--search", help="of ours (default: --search, which measures how products are computed best)")
    p.add_argument("--on", default="cuda", help="ours: the device (default: cuda)")
    p.add_argument("--ahead", action="store_true", help="the peers first compile side by side")
    p.add_argument("--minutes", type=float, default=1e9)
    p.add_argument("--seconds", type=float, default=500, help="the most that a program may take")
    a = p.parse_args()
    environment, rows = {}, []
    if a.ahead:
        compile_ahead(a)
    for dtype in a.dtypes.split(","):
        for name in a.models.split(","):
            if not os.path.isdir(os.path.join(a.zoo, name)) or time.monotonic() - BEGIN > 60 * a.minutes:
                say("%s %s: left out" % (name, dtype))
                continue
            found, more = model_rows(a, name, dtype)
            environment.update(found)
            rows += more
            if a.output != "-":
                write(a, environment, rows)
    write(a, environment, rows)
    sys.exit(0 if rows and all(r["correct"] for r in rows) else 1)


if __name__ == "__main__":
    main()
