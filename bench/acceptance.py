#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ISAAC's Table 1 for the spaces of products: the share of drawn configurations that are legal, by uniform and by categorical
sampling.

    bench/acceptance.py [--tilewright PATH] [--commit NAME] [--device TEXT]

Prints the first line of a file of results, then a row for each type and target. Shares are what `tilewright kernel gemm --space`
says of a product of 2560 x 2560 x 2560: the least and the largest of five seeds. Nothing is measured on a device. `correct`: the
first legal draw of every seed is a kernel that is right in the emulator, on a smaller product."""
import json
import subprocess

import emulated
import head

TYPES, TARGETS, SEEDS = ["f32", "f64", "f16", "bf16", "tf32", "s8"], ["sm_80", "sm_90a"], 5


def main():
    o = head.parser().parse_args()
    print(head.line(o.device, o.commit, f"bench/acceptance.py --device '{o.device}' --commit {o.commit}"))
    for target in TARGETS:
        for kind in TYPES:
            said = [json.loads(subprocess.run([o.tilewright, "kernel", "gemm", "type=" + kind, "m=2560", "n=2560", "k=2560", "tb=1",
                                               "--space", "--target", target, "--seed", str(seed), "--json"], check=True,
                                              stdout=subprocess.PIPE, text=True).stdout) for seed in range(1, SEEDS + 1)]
            uniform = [s["uniform_share"] for s in said]
            categorical = [s["categorical_share"] for s in said]
            right = [emulated.verdict(o.tilewright, ["type=" + kind, "tb=1", "--target", target], 2560, 2560, 2560,
                                      s["drawn"][0])[0] for s in said]
            print(json.dumps({"case": "acceptance", "type": kind, "target": target, "points": said[0]["points"],
                              "legal": said[0]["legal"], "uniform_least": min(uniform), "uniform_most": max(uniform),
                              "categorical_least": min(categorical), "categorical_most": max(categorical),
                              "times": sum(categorical) / sum(uniform) if sum(uniform) else 0, "seeds": SEEDS,
                              "emulated": len(right), "correct": all(right)}), flush=True)


if __name__ == "__main__":
    main()
