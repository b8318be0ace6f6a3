#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ISAAC's Table 6 for an artefact: which parameters it chooses for square, skinny, deep and shallow products.

    bench/choices.py ARTEFACT [--type T] [--tilewright PATH] [--device TEXT] [--commit NAME] [--command TEXT]

Prints the first line of a file of results, then a row for each problem: the own kernel that the artefact chooses (`select --own`),
its parameters as numbers, and the predicted time. Some problems are the paper's, those that the family can compute, read as
C = A B^T with C's smaller side as m. Others are in the range that artefacts learn from.

    within    the problem is in that range; elsewhere the choice is extrapolated
    emulated  sizes of a smaller product whose last tiles are as full
    correct   the emulator found the kernel right on the product of these sizes"""
import json
import subprocess

import emulated
import head

PROBLEMS = [("LINPACK", 512, 512, 512), ("LINPACK", 2048, 2048, 2048), ("square", 4096, 4096, 4096), ("square", 8192, 8192, 8192),
            ("DeepBench", 16, 2560, 2560), ("DeepBench", 64, 2560, 2560), ("DeepBench", 128, 2560, 2560),
            ("skinny", 64, 8192, 2048), ("skinny", 16384, 384, 2048), ("ICA", 32, 32, 60000), ("ICA", 256, 256, 60000),
            ("deep", 64, 384, 8192), ("deep", 128, 512, 8192), ("deep", 512, 512, 8192), ("blocked SVD", 896, 896, 32), ("blocked SVD", 4096, 4096, 32)]
RANGE = [(64, 16384), (384, 8192), (2048, 8192)]  # Least and most m, n and k that artefacts learn from.
JOINS = {"0": "last", "1": "serial", "2": "atomic", "3": "cluster"}


def main():
    p = head.parser()
    p.add_argument("artefact")
    p.add_argument("--type", default="bf16")
    p.add_argument("--command", default="", help="the command line, for the first line")
    o = p.parse_args()
    print(head.line(o.device, o.commit, o.command))
    for name, m, n, k in PROBLEMS:
        said = json.loads(subprocess.run([o.tilewright, "select", o.artefact, f"m={m}", f"n={n}", f"k={k}", "--own", "--json"],
                                         check=True, stdout=subprocess.PIPE, text=True).stdout)
        c = dict(word.split("=") for word in said["config"].split())
        kg, swap = int(c["kg"]), c["swap"] == "1"
        rows, columns = (c["nl"], c["ml"]) if swap else (c["ml"], c["nl"])
        correct, sizes = emulated.verdict(o.tilewright, ["type=" + o.type, "tb=1"], m, n, k, said["config"])
        tiles = -(-m // int(rows)) * -(-n // int(columns))
        print(json.dumps({"case": "choice", "name": name, "m": m, "n": n, "k": k,
                          "within": all(a <= x <= b for x, (a, b) in zip((m, n, k), RANGE)), "tile": f"{rows} x {columns}",
                          "u": int(c["u"]), "stages": int(c["stages"]), "parts": kg, "join": JOINS[c["split"]] if kg > 1 else "",
                          "blocks": tiles * kg, "cluster": int(c["multicast"]), "group": int(c["group"]),
                          "staged": c["staged"] == "1", "source": said["source"], "predicted_time": said["time"],
                          "config": said["config"], "emulated": sizes, "correct": correct}), flush=True)


if __name__ == "__main__":
    main()
