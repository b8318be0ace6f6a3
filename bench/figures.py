#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The figures behind WaveTune's Figures 7, 9 and 10: speed over the default, time of a decision, and forms of its model.

    tilewright eval ... --decisions --json | bench/figures.py [--command TEXT]

Prints the first line of `eval`, with TEXT as its command, then a row for each strategy and for both oracles, three times: over all
problems, over those with an M below 1,024, and over the others.

    over_default  geometric mean of the default's time over the choice's
    of_own        geometric mean of the fastest own configuration's time over the choice's; such a share of a problem:
    low5          5 % of the problems have less
    worst         the least
    decision_ns   median time of a decision, of strategies alone"""
import argparse
import json
import math
import sys


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def row(name, of, problems, regime, decision):
    """Returns the row of a strategy over problems. None: it has no time on any. of(problem) is its time, 0: it has none. `decision`
    None: the time of a decision is unknown."""
    timed = [(p, of(p)) for p in problems if of(p) > 0 and p["of"]["default"]["us"] > 0 and p["own_oracle_us"] > 0]
    if not timed:
        return None
    own = sorted(p["own_oracle_us"] / t for p, t in timed)
    out = {"case": "figure", "strategy": name, "m": regime, "problems": len(timed),
           "over_default": mean([p["of"]["default"]["us"] / t for p, t in timed]), "of_own": mean(own), "low5": own[len(own) // 20],
           "worst": own[0], "correct": all(p["correct"] for p, _ in timed)}
    if decision:
        out["decision_ns"] = decision
    return out


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--command", default="")
    o = a.parse_args()
    lines = [json.loads(line) for line in sys.stdin]
    head, problems = lines[0], [x for x in lines[1:] if "oracle_us" in x]
    decisions = {x["strategy"]: x.get("decision_ns") for x in lines if x.get("case") == "summary"}
    head["command"] = o.command or head["command"]
    print(json.dumps(head))
    for regime, keep in (("all", lambda m: True), ("below 1024", lambda m: m < 1024), ("from 1024", lambda m: m >= 1024)):
        some = [p for p in problems if keep(p["m"])]
        rows = [row("oracle", lambda p: p["oracle_us"], some, regime, None),
                row("own oracle", lambda p: p["own_oracle_us"], some, regime, None)]
        for name in problems[0]["of"]:
            rows.append(row(name, lambda p, name=name: p["of"][name]["us"], some, regime, decisions.get(name)))
        for r in rows:
            if r:
                print(json.dumps(r))


if __name__ == "__main__":
    main()
