#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares an artefact's choices with full autotuning. For problems of an evaluation, triton.autotune searches all
configurations of a family by Triton's own protocol (25 ms to warm up and 100 ms for each), and the configuration that
it finds is timed in turn with the artefact's choice and the default.

    autotune.py gemm --eval eval-gemm.jsonl --seconds 60

EVAL is what `tilewright eval ... --json` printed. Problems are searched in its order, at least one, until the seconds
are over. Writes a row for each, with the times, and `over_select`: the choice's time over autotuning's. A last row,
"autotuning", has the means of all problems, `tune_s` being the seconds of a search. Each configuration is checked
before it is timed; a row with a wrong one has no times."""
import argparse
import json
import math
import statistics
import sys
import time

import triton

import runner
import ways
from tilewright import values_of, words_of

ROUNDS = 9  # Samples of a configuration.


def read_problems(path):
    """Returns an evaluation's rows of problems that have a choice and a right result."""
    with open(path, encoding="utf-8") as f:
        rows = [json.loads(line) for line in f]
    return [r for r in rows if r.get("correct") and "select" in r.get("of", {})]


def search(of, work, configs):
    """Lets triton.autotune find the fastest configuration of a problem. Returns it, and the seconds that it took."""
    tensors, y = of.copies[0]
    tuner = triton.autotune([ways.to_triton(c) for c in configs], key=[])(work.kernel)
    began = time.perf_counter()
    tuner[work.grid](*work.arguments(tensors, y), **work.constants())
    runner.torch.cuda.synchronize()
    return ways.from_triton(tuner.best_config), time.perf_counter() - began


def compare(of, configs):
    """Checks configurations and times them in turn. Returns the microseconds of each, and None; or, if one is wrong,
    None and its index."""
    graphs = []
    for i, c in enumerate(configs):
        launch = of.launcher(c)
        wrong, us = of.check(launch)
        if wrong:
            return None, i
        graphs.append(of.graph(launch, us))
    times = [[] for _ in configs]
    for r in range(ROUNDS + 1):
        for j in range(len(graphs)):
            i = (j + r) % len(graphs)
            times[i].append(of.sample(graphs[i]))
    return [statistics.median(t[1:]) for t in times], None


def judge(of, row, configs, axes):
    """Searches a problem. Returns its row."""
    problem = {axis: row[axis] for axis in axes}
    of.prepare(problem)
    best, seconds = search(of, of.work, configs)
    chosen = {"autotune": best, **{name: values_of(row["of"][name]["config"]) for name in ("select", "default")}}
    out = {"kernel": of.name, "case": f"autotune {row['case']}", **problem, "configs": len(configs)}
    us, wrong = compare(of, list(chosen.values()))
    if us is None:
        return dict(out, correct=False, why=f"{list(chosen)[wrong]}: {list(chosen.values())[wrong]}")
    for name, t in zip(chosen, us):
        out[f"{name}_us"] = t
    return dict(out, correct=True, tune_s=seconds, over_select=us[1] / us[0], config=words_of(best))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("kernel", choices=sorted(runner.FAMILIES))
    p.add_argument("--eval", required=True, metavar="EVAL", help="the evaluation, lines of JSON")
    p.add_argument("--seconds", type=float, default=60, help="of all searches (default 60)")
    args = p.parse_args()
    try:
        problems = read_problems(args.eval)
    except (OSError, ValueError, AttributeError) as e:
        sys.exit(f"autotune.py: {args.eval}: {e}")
    if not problems:
        sys.exit(f"autotune.py: {args.eval}: no problem with a choice")
    if not runner.torch.cuda.is_available():
        sys.exit("autotune.py: PyTorch finds no GPU")
    of, axes = runner.Runner(args.kernel), [a["name"] for a in ways.describe(args.kernel)["axes"]]
    configs = ways.configurations(args.kernel, of.environment())
    began = time.perf_counter()
    if not runner.are_cached(of.family, configs):
        runner.compile_in_parallel(args.kernel, configs, busy=lambda o: print(o["busy"], file=sys.stderr, flush=True))
    compile_s, spent, rows = time.perf_counter() - began, 0.0, []
    for i in range(len(problems)):
        if rows and spent + rows[-1].get("tune_s", 0) > args.seconds:
            break
        rows.append(judge(of, problems[i], configs, axes))
        spent += rows[-1].get("tune_s", 0)
        print(json.dumps(rows[-1]), flush=True)
    right = [r for r in rows if r["correct"]]
    if right:
        print(json.dumps({"kernel": args.kernel, "case": "autotuning", "problems": len(right), "configs": len(configs),
                          "tune_s": statistics.mean(r["tune_s"] for r in right), "compile_s": compile_s,
                          "over_select": math.exp(statistics.mean(math.log(r["over_select"]) for r in right)),
                          "correct": True}), flush=True)
    return 0 if len(right) == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
