#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a GPU's counters say of our products beside the vendor's: Table 3 of CURATOR's paper; docs/bench.md.

    bench/counters.py --tilewright build/tilewright --commit NAME > counters-h200.jsonl
                      [--products 512x3200x3200,512x3200x8640,512x8640x3200] [--dtype f16]

Of each product the fastest configuration is searched, launched once with right results, and read by Nsight Compute (ncu); the
vendor's is what PyTorch takes, whose result is compared with one in double precision. ncu empties caches and fixes the clock
before each launch. `memory` and `sm` are the shares of their peaks, `tensor` the share of cycles in which tensor cores work,
`stall` the share of a warp's waiting that is for them, `dram_mb` and `l2_mb` what moves. Needs ncu, and PyTorch in $PYTHON."""
import argparse
import csv
import json
import os
import subprocess
import sys

import head

PYTHON = os.environ.get("PYTHON", sys.executable)
METRICS = {"us": "gpu__time_duration.sum", "memory": "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
           "sm": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
           "tensor": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
           "dram_mb": "dram__bytes.sum", "l2_mb": "lts__t_bytes.sum",
           "math": "smsp__average_warps_issue_stalled_math_pipe_throttle_per_issue_active.ratio",
           "gmma": "smsp__average_warps_issue_stalled_gmma_per_issue_active.ratio",
           "waits": "smsp__average_warp_latency_per_inst_issued.ratio"}
TO = {"us": {"ns": 1e-3, "nsecond": 1e-3, "us": 1, "usecond": 1, "ms": 1e3, "msecond": 1e3},
      "mb": {"byte": 1e-6, "Kbyte": 1e-3, "Mbyte": 1, "Gbyte": 1e3}}
ROUNDED = {"f16": 1e-2, "bf16": 4e-2}  # A bound of roundings to the type: the largest results are five or six times the rms.
VENDOR = """
import torch, sys
m, n, k, dtype = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), {"f16": torch.float16, "bf16": torch.bfloat16}[sys.argv[4]]
a, b = (torch.rand(s, device="cuda", dtype=dtype) - 0.5 for s in ((m, k), (k, n)))
y = a @ b
want = a.double() @ b.double()
print("error", ((y.double() - want).abs().max() / want.square().mean().sqrt()).item())
"""


def number(row):
    """Returns a metric's value in us, MB or as it is; None where this ncu has no such metric."""
    try:
        value = float(row["Metric Value"].replace(",", ""))
    except (AttributeError, ValueError):
        return None
    for units in TO.values():
        if row["Metric Unit"] in units:
            return value * units[row["Metric Unit"]]
    return value


def profiled(words, kernels):
    """Runs a program under ncu. Returns counters of the first kernel whose name fits, and what the program printed."""
    done = subprocess.run(["ncu", "--csv", "--metrics", ",".join(METRICS.values()), "-k", "regex:" + kernels, "-c", "1"] + words,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
    lines = done.stdout.splitlines()
    begin = next((i for i, x in enumerate(lines) if x.startswith('"ID"')), len(lines))
    found, names = {}, {v: k for k, v in METRICS.items()}
    for row in csv.DictReader(lines[begin:]):
        if row["Metric Name"] in names:
            found["kernel"] = row["Kernel Name"]
            found[names[row["Metric Name"]]] = number(row)
    if "kernel" not in found:
        raise SystemExit("counters: ncu found no kernel: %s" % (done.stdout + done.stderr)[-600:])
    return found, "\n".join(x for x in lines[:begin] if not x.startswith("=="))


def row_of(case, by, found, correct, **more):
    waits = found.pop("waits", None)
    stalls = [found.pop(x, None) for x in ("math", "gmma")]
    row = {"case": "%s, %s" % (case, by), "by": by, "correct": correct, **more}
    row.update({k: round(v, 2) if isinstance(v, float) else v for k, v in found.items()})
    if waits and None not in stalls:
        row["stall"] = round(100 * sum(stalls) / waits, 2)
    return row


def ours(a, m, n, k):
    problem = ["m=%d" % m, "n=%d" % n, "k=%d" % k, "type=" + a.dtype]
    done = subprocess.run([a.tilewright, "bench", "gemm", *problem, "--sampled", "4000", "--measured", "96", "--generations", "2",
                           "--offspring", "32", "--deterministic", "--json"], stdout=subprocess.PIPE, text=True, timeout=120)
    configs = [json.loads(x)["config"] for x in done.stdout.splitlines() if x.startswith("{") and '"config"' in x]
    if not configs:
        raise SystemExit("counters: no configuration of %s was found" % " ".join(problem))
    words = ["%s=%s" % x for x in configs[-1].items()]
    found, printed = profiled([a.tilewright, "kernel", "gemm", *problem, *words, "--run", "--json"], "^gemm")
    verdict = [json.loads(x) for x in printed.splitlines() if x.startswith("{")]
    return row_of("%dx%dx%d %s" % (m, n, k, a.dtype), "own", found, bool(verdict) and verdict[-1].get("correct") is True,
                  config=" ".join(words))


def vendor(a, m, n, k):
    found, printed = profiled([PYTHON, "-c", VENDOR, str(m), str(n), str(k), a.dtype], "nvjet|gemm|cutlass|xmma")
    errors = [float(x.split()[1]) for x in printed.splitlines() if x.startswith("error ")]
    return row_of("%dx%dx%d %s" % (m, n, k, a.dtype), "vendor", found, bool(errors) and errors[0] < ROUNDED[a.dtype])


def main():
    p = head.parser()
    p.description, p.formatter_class = __doc__, argparse.RawDescriptionHelpFormatter
    p.add_argument("--products", default="512x3200x3200,512x3200x8640,512x8640x3200", help="MxNxK,...")
    p.add_argument("--dtype", default="f16", choices=("f16", "bf16"))
    a = p.parse_args()
    rows = []
    for text in a.products.split(","):
        m, n, k = map(int, text.split("x"))
        for row in (vendor(a, m, n, k), ours(a, m, n, k)):
            rows.append(row)
            print(json.dumps(row), file=sys.stderr, flush=True)
    print(head.line(a.device or "NVIDIA H200", a.commit, " ".join(["bench/counters.py"] + sys.argv[1:])))
    for row in rows:
        print(json.dumps(row))
    sys.exit(0 if all(r["correct"] for r in rows) else 1)


if __name__ == "__main__":
    main()
