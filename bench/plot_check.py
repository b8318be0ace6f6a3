#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws how the check's time and memory grow with the schedule: plot_check.py RESULTS.jsonl OUT.svg (needs matplotlib)."""
import json
import sys

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt


def main():
    rows = [json.loads(line) for line in open(sys.argv[1])]
    first, rows = rows[0], [r for r in rows[1:] if "case" in r]
    figure, (time, memory) = plt.subplots(1, 2, figsize=(10, 4))
    for shape in sorted({r["config"]["shape"] for r in rows}):
        some = sorted((r for r in rows if r["config"]["shape"] == shape and r["config"]["tokens"] == 1),
                      key=lambda r: r["instructions"])
        n = [r["instructions"] for r in some]
        time.loglog(n, [r["ours_us"] / 1e3 for r in some], "o-", label=shape)
        memory.loglog(n, [r["peak_bytes"] / 2 ** 20 for r in some], "o-", label=shape)
        for r in some:
            time.annotate(r["config"]["workers"], (r["instructions"], r["ours_us"] / 1e3), fontsize=7,
                          textcoords="offset points", xytext=(4, -8))
    for r in rows:
        if r.get("goal_us"):
            time.plot(r["instructions"], r["goal_us"] / 1e3, "kx", label=None)
    for axes, what in ((time, "milliseconds"), (memory, "MiB at most")):
        axes.set_xlabel("instructions")
        axes.set_ylabel(what)
        axes.grid(True, which="major", alpha=0.3)
        axes.legend()
    time.set_title("one check; numbers: workers; x: goal", fontsize=9)
    memory.set_title("memory of one check", fontsize=9)
    figure.suptitle("%s, %s" % (first["device"], first["date"]), fontsize=9)
    figure.tight_layout()
    figure.savefig(sys.argv[2], metadata={"Date": None})


main()
