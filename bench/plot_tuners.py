#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what tuners reach after how many measurements: plot_tuners.py RESULTS.jsonl OUT.svg (needs matplotlib)."""
import json
import sys

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "tilewright"
import matplotlib.pyplot as plt

NAMES = {"mlp": "network", "trees": "boosted trees", "tree": "decision tree", "near": "nearest product",
         "linear": "linear model", "bandit": "bandit (OpenTuner)", "random": "drawn"}


def main():
    rows = [json.loads(line) for line in open(sys.argv[1])]
    first = rows[0]
    figure, axes = plt.subplots(figsize=(7.5, 4.6))
    for tuner, name in NAMES.items():
        of = [r for r in rows if r.get("case") == "search" and r["tuner"] == tuner]
        axes.plot([r["measured"] for r in of], [100 * r["of_best"] for r in of], "--" if tuner in ("bandit", "random") else "-",
                  marker="o", markersize=3, label=name)
    vendor = [r for r in rows if r.get("tuner") == "cuBLASLt, first choice"]
    if vendor:
        axes.axhline(100 * vendor[0]["of_best"], color="black", linewidth=0.8, linestyle=":", label="cuBLASLt's first choice")
    axes.set_xscale("log")
    axes.set_xticks([1, 2, 5, 10, 20, 50, 100, 200], ["1", "2", "5", "10", "20", "50", "100", "200"])
    axes.set_xlabel("configurations measured for each product")
    axes.set_ylabel("% of the fastest configuration's speed")
    axes.set_ylim(bottom=50)
    axes.grid(True, alpha=0.3)
    axes.legend(fontsize=8)
    axes.set_title("OpenLlama-3B's products, f16, %s, %s" % (first["device"], first["date"]), fontsize=10)
    figure.tight_layout()
    figure.savefig(sys.argv[2], metadata={"Date": None})


main()
