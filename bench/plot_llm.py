#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws how products of language models compare with cuBLASLt: plot_llm.py RESULTS.jsonl OUT.svg (needs matplotlib)."""
import json
import sys

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "tilewright"
import matplotlib.pyplot as plt

MODELS = {"8b": "Llama 3 8B", "1b": "Llama 3.2 1B"}


def main():
    rows = [json.loads(line) for line in open(sys.argv[1])]
    first, rows = rows[0], rows[1:]
    figure, panels = plt.subplots(1, len(MODELS), figsize=(11, 4.6), sharey=True)
    for axes, (model, title) in zip(panels, MODELS.items()):
        some = [r for r in rows if r["case"].startswith(model + "-")]
        names = list(dict.fromkeys(r["case"].rsplit("-", 1)[0] for r in some))
        for name in names:
            of = sorted((r for r in some if r["case"].rsplit("-", 1)[0] == name), key=lambda r: r["m"])
            m, label = [r["m"] for r in of], "%s, %d × %d" % (name.split("-")[1], of[0]["n"], of[0]["k"])
            line, = axes.plot(m, [r["select_ratio"] for r in of], "o-", markersize=4, label=label)
            axes.plot(m, [r["ratio"] for r in of], ":", color=line.get_color())
        axes.axhline(1, color="black", linewidth=0.8)
        axes.set_xscale("log", base=2)
        axes.set_xticks(sorted({r["m"] for r in some}), [str(x) for x in sorted({r["m"] for r in some})], fontsize=8)
        axes.set_xlabel("rows (M)")
        axes.set_title(title, fontsize=10)
        axes.grid(True, alpha=0.3)
        axes.legend(fontsize=8)
    panels[0].set_ylabel("times as fast as cuBLASLt's first choice")
    figure.suptitle("bf16, %s, %s: chosen by an artefact (dotted: the fastest that was found)" %
                    (first["device"], first["date"]), fontsize=10)
    figure.tight_layout()
    figure.savefig(sys.argv[2], metadata={"Date": None})


main()
