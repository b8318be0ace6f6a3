#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Grouped products beside torch's: both on one GPU, one after the other, case by case.

    bench/grouped.py --tilewright build/tilewright --known FILE --commit NAME > gemm-grouped-h200.jsonl

Times are of CUDA graphs with a cold L2: torch's operands rotate over as many sets as it takes. The fastest of our
configurations is found first. Then torch is timed, ours in a process of its own, and torch again, so that none finds the
device hotter than the others; the mean of torch's two counts, of both layouts of the weights the faster one. Rows go to
groups at random, drawn by each side: with the same chance to any, or with --skew to some more than to others."""
import argparse, datetime, json, statistics, subprocess, sys, tempfile
import torch


def products(path):
    for line in open(path):
        words = line.split()
        if words and not words[0].startswith("#"):
            yield words[0], {k: v for k, v in (w.split("=") for w in words[1:])}, line


def time_torch(p, n_major, skew):
    m, n, k, groups = (int(p[x]) for x in ("m", "n", "k", "groups"))
    device, type = "cuda", torch.bfloat16
    bytes_of_all = 2 * (min(groups, m) * n * k + m * k + m * n)
    sets = max(1, min(16, -(-2 * 60 * 2**20 // bytes_of_all) + 1))
    likely = torch.arange(1, groups + 1, device=device, dtype=torch.float32) ** -skew
    ids = torch.multinomial(likely, m, replacement=True)
    ends = torch.bincount(ids, minlength=groups).cumsum(0).to(torch.int32)
    of = []
    for _ in range(sets):
        w = torch.rand(groups, n, k, device=device, dtype=type) * 2 - 1
        w = w.transpose(1, 2) if n_major else w.transpose(1, 2).contiguous()
        of.append((torch.rand(m, k, device=device, dtype=type) * 2 - 1, w))
    run = lambda: [torch._grouped_mm(x, w, offs=ends) for x, w in of]
    run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    samples = []
    for _ in range(24):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        samples.append(begin.elapsed_time(end) * 1e3 / sets)
    samples.sort()
    return statistics.median(samples), (samples[21] - samples[2]) / statistics.median(samples)


def time_both(p, skew):
    times = {}
    for layout in ("n k", "k n"):
        times[layout] = time_torch(p, layout == "n k", skew)
        torch.cuda.empty_cache()
    return times


def time_ours(o, name, line, known, log):
    """Returns what `bench gemm` prints of the product, the fastest of these configurations: its head and its row."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as f:
        f.write(line)
        f.flush()
        command = [o.tilewright, "bench", "gemm", "--products", f.name, "--known", known, "--sampled", "1", "--measured", "0",
                   "--generations", "0", "--skew", str(o.skew), "--commit", o.commit, "--json"]
        if log: command += ["--log", f"{log}-{name}"]
        r = subprocess.run(command, capture_output=True, text=True)
    if r.returncode:
        sys.exit(f"{name}: {r.stderr.strip()}")
    if r.stderr: sys.stderr.write(r.stderr)
    return [json.loads(x) for x in r.stdout.splitlines()]


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--tilewright", default="build/tilewright")
    a.add_argument("--products", default="bench/gemm_grouped.txt")
    a.add_argument("--known", required=True)
    a.add_argument("--commit", default="")
    a.add_argument("--log")
    a.add_argument("--skew", type=float, default=0, help="group i has rows in proportion to (i + 1) ** -skew")
    o = a.parse_args()
    head = None
    for name, p, line in products(o.products):
        _, found = time_ours(o, name, line, o.known, o.log)
        before = time_both(p, o.skew)
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as f:
            f.write(" ".join([line.strip()] + [f"{k}={v}" for k, v in found["config"].items()]) + "\n")
            f.flush()
            first, row = time_ours(o, name, line, f.name, None)
        if not head:
            head = first | {"date": str(datetime.date.today()), "command": "bench/grouped.py " + " ".join(sys.argv[1:]),
                            "peer": "torch " + torch.__version__,
                            "protocol": "cold L2 by rotation, CUDA graphs, medians of 24, torch before and after ours, "
                                        "which a search found before; each in a process of its own"}
            print(json.dumps(head))
        after = time_both(p, o.skew)
        mean = {x: (before[x][0] + after[x][0]) / 2 for x in before}
        layout = min(mean, key=mean.get)
        row |= {"groups": int(p["groups"]), "skew": o.skew, "peer": "torch._grouped_mm", "peer_us": mean[layout],
                "peer_layout": layout,
                "peer_before_us": before[layout][0], "peer_after_us": after[layout][0],
                "peer_spread": max(before[layout][1], after[layout][1]), "ratio": mean[layout] / row["ours_us"]}
        print(json.dumps(row), flush=True)


main()
