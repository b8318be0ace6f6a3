#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attention beside cuDNN's and FlashAttention's through torch, on one GPU in one run.

    bench/attention.py --library build/libtilewright.so --commit NAME > attention-h200.jsonl

Times are of CUDA graphs with a cold L2: operands rotate over as many sets as it takes. Torch is timed before and after ours,
as the device grows hot, and the mean counts. Our configuration is found one parameter after another. The kernels that a
parameter needs for all cases are compiled at once, by processes of their own that leave them in the cache on disk.
Results of both are compared with attention in f32 on some queries. A line of JSON is printed for each case; with
--all, one for each configuration that was timed, too.

    bench/attention.py --decode --library build/libtilewright.so > attention-decode-h200.jsonl

times one query of each of some sequences, whose keys lie in pages of 16 or without pages, and ragged batches. Their
measure is the share of the bandwidth that reads have in the same run, and for ragged batches the TFLOP/s of an even one."""
import argparse, json, math, multiprocessing, statistics, sys
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
import head
from tilewright_gpu import Error, Gpu

# Batch, heads, heads of keys, length, elements of a head.
SHAPES = [(4, 32, 32, 512, 128), (4, 32, 32, 1024, 128), (4, 32, 32, 2048, 128), (2, 32, 32, 4096, 128), (1, 32, 32, 8192, 128),
          (1, 32, 32, 16384, 128), (16, 16, 16, 4096, 128), (1, 32, 8, 512, 128), (1, 32, 8, 4096, 128), (4, 16, 16, 4096, 64),
          (1, 32, 8, 4096, 64)]
MORE = [(4, 16, 16, 4096, d) for d in (80, 96, 192, 256)]
PEERS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}
L2, MOST_SETS, SAMPLES, TRIES = 60 * 2**20, 8, 24, 8
MOST_ERROR = 0.08  # By the root mean square of results.

# Queries and keys of a block, for heads of up to so many elements.
BLOCKS = {64: [(192, 128), (128, 128), (128, 176), (128, 192), (192, 112)],
          96: [(128, 128), (128, 144), (128, 112), (192, 96), (128, 160)],
          128: [(128, 128), (128, 176), (128, 160), (128, 112), (128, 144), (192, 80)],
          192: [(128, 112), (128, 96), (128, 80), (128, 128)],
          256: [(128, 80), (128, 64)]}
STEPS = [None, ("pingpong", (0, 1)), ("lazy", (0, 1)), ("band", (1, 2, 4, 8, 16)), ("persistent", (0, 132)), ("stages", (2, 3))]


def words_of(case, causal):
    batch, heads, kv_heads, n, d = case
    return f"attention type=bf16 batch={batch} heads={heads} kv_heads={kv_heads} queries={n} keys={n} head={d} causal={int(causal)}"


class Set:
    """Operands as [batch][length][heads][head], of which torch gets views."""

    def __init__(self, case):
        batch, heads, kv_heads, n, d = case
        bf16 = dict(device="cuda", dtype=torch.bfloat16)
        self.q = torch.randn(batch, n, heads, d, **bf16)
        self.k, self.v = (torch.randn(batch, n, kv_heads, d, **bf16) for _ in range(2))
        self.out = torch.full_like(self.q, float("nan"))
        # Torch's operands are contiguous in its own order, which is the one that its libraries are fastest with.
        self.theirs = [x.transpose(1, 2).contiguous() for x in (self.q, self.k, self.v)]
        self.ours = {"q": self.q, "k": self.k, "v": self.v, "out": self.out}
        self.grouped = heads != kv_heads

    def torch(self, causal):
        return F.scaled_dot_product_attention(*self.theirs, is_causal=causal, enable_gqa=self.grouped)

    def error(self, out, causal):
        """Returns the largest difference of some queries' results from those in f32, by the root mean square of these."""
        batch, n, heads, d = self.q.shape
        worst, share = 0.0, heads // self.k.shape[2]
        for i in {0, 1, n // 3, n // 2 + 1, n - 1}:
            b, h = i % batch, i % heads
            seen = i + 1 if causal else n
            s = self.k[b, :seen, h // share].float() @ self.q[b, i, h].float() / math.sqrt(d)
            want = torch.softmax(s, 0) @ self.v[b, :seen, h // share].float()
            off = ((out[b, i, h].float() - want).abs().max() / want.square().mean().sqrt()).item()
            worst = max(worst, off) if math.isfinite(off) else math.inf
        return worst


def sets_of(case):
    batch, heads, kv_heads, n, d = case
    return [Set(case) for _ in range(max(2, min(MOST_SETS, 2 * L2 // (2 * batch * n * d * (2 * heads + 2 * kv_heads)) + 1)))]


def time_of(run, sets, samples, rounds=1):
    """Returns the median and the spread of the microseconds of run(set), over `rounds` of all sets in one graph."""
    for s in sets: run(s)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for s in sets * rounds: run(s)
    times = []
    for _ in range(samples):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / (len(sets) * rounds))
    times.sort()
    median = statistics.median(times)
    return median, (times[-2] - times[1]) / median


def open_in_process(library, jobs):
    """Compiles kernels, which stay in the cache on disk."""
    gpu = Gpu(library, "cuda:0")
    for words, configuration in jobs:
        try:
            gpu.kernel(words, configuration).close()
        except Error:
            pass


def compile_all(library, jobs, processes):
    jobs = sorted(set(jobs))
    parts = [jobs[i::processes] for i in range(processes)]
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=open_in_process, args=(library, p)) for p in parts if p]
    for w in workers: w.start()
    for w in workers: w.join()


def text_of(config):
    return " ".join(f"{k}={v}" for k, v in config.items())


def candidates(case, config, step):
    """Yields the configurations that a step tries."""
    if step:
        name, values = step
        for v in values:
            if config.get(name) != v: yield dict(config, **{name: v})
        return
    for rows, columns in BLOCKS[min(d for d in BLOCKS if d >= case[4])]: yield dict(config, rows=rows, columns=columns)


def bind(k, tensors):
    """Returns a function that launches a kernel with these tensors, and scratch buffers of its own."""
    tensors = dict(tensors)
    for name, size in k.buffers().items():
        if name not in tensors: tensors[name] = torch.zeros((size + 3) // 4, device="cuda", dtype=torch.int32)
    launch = k.launch(**{name: tensors[name].data_ptr() for name in k.buffers()})
    return lambda kept=tensors: launch.run(torch.cuda.current_stream().cuda_stream)


def run_ours(gpu, words, configuration, sets):
    """Returns a function that launches a kernel with a set's buffers, or None if the configuration is not legal. A set is a
    dictionary of tensors, or has one."""
    try:
        k = gpu.kernel(words, configuration)
    except Error as e:
        if "not legal" not in str(e): print(f"{words} {configuration}: {e}", file=sys.stderr)
        return None
    launches = {id(s): bind(k, s if isinstance(s, dict) else s.ours) for s in sets}
    return lambda s: launches[id(s)]()


def tune(gpu, o, cases):
    """Finds a configuration for each case, one parameter after another."""
    best = {c: (float("inf"), dict(stages=2, overlap=1, pingpong=int(c[0][4] <= 128), lazy=0, persistent=132, band=4))
            for c in cases}
    for step in STEPS:
        trials = {c: list(candidates(c[0], best[c][1], step)) for c in cases}
        compile_all(o.object, [(words_of(*c), text_of(t)) for c in cases for t in trials[c]], o.processes)
        for c in cases:
            sets = sets_of(c[0])
            for t in trials[c]:
                run = run_ours(gpu, words_of(*c), text_of(t), sets)
                if not run: continue
                us, _ = time_of(run, sets, TRIES)
                if o.all: print(json.dumps({"words": words_of(*c), "config": text_of(t), "us": us}), flush=True)
                if us < best[c][0]: best[c] = (us, t)
            del sets
            torch.cuda.empty_cache()
    return {c: t for c, (_, t) in best.items()}


def measure(gpu, case, causal, configuration):
    batch, heads, kv_heads, n, d = case
    flops = 4 * batch * heads * n * n * d * (0.5 if causal else 1)
    sets, row = sets_of(case), {}
    ours, peers = run_ours(gpu, words_of(case, causal), configuration, sets), {}
    if not ours: sys.exit(f"{words_of(case, causal)}: no configuration is legal")

    def peer(name):
        try:
            with sdpa_kernel(PEERS[name]): return time_of(lambda s: s.torch(causal), sets, SAMPLES)[0]
        except RuntimeError as e:
            print(f"{name}: {str(e).splitlines()[0]}", file=sys.stderr)
            return None

    before = {p: peer(p) for p in PEERS}
    us, spread = time_of(ours, sets, SAMPLES)
    for p in PEERS:
        after = peer(p)
        peers[p] = (before[p] + after) / 2 if before[p] and after else None
        row[p + "_tflops"] = flops / peers[p] * 1e-6 if peers[p] else None
    error = max(s.error(s.out, causal) for s in sets)
    fastest = min((x for x in peers.values() if x), default=None)
    name = f"{'causal' if causal else 'full'}, {batch} x {heads} heads ({kv_heads} of keys) of {d}, {n} positions"
    return dict({"case": name, "kind": "attn", "B": batch, "Hq": heads, "Hk": kv_heads, "S": n, "D": d, "causal": causal,
                 "config": configuration, "us": us, "spread": spread, "tflops": flops / us * 1e-6}, **row,
                ratio=peers["cudnn"] / us if peers["cudnn"] else None, ratio_best=fastest / us if fastest else None,
                error=error, correct=error < MOST_ERROR)


def bandwidth():
    """Returns the GB/s of reads, the most of several reductions of 4 GiB: how fast they are depends on torch's kernels."""
    x = torch.ones(2**15, 2**15, device="cuda")
    ways = [lambda s: x.sum(), lambda s: x.sum(1), lambda s: x.amax(), lambda s: x.amax(1), lambda s: x.view(-1, 64).amax(0),
            lambda s: torch.linalg.vector_norm(x)]
    return max(x.numel() * 4 / time_of(w, [0], SAMPLES)[0] * 1e-3 for w in ways)


DECODE = [(1, 8192), (1, 32768), (8, 1024), (8, 8192), (16, 4096), (64, 1024), (64, 8192)]  # Sequences, keys of each.
DECODE_HEADS, DECODE_KV_HEADS, DECODE_HEAD = 32, 8, 128


def decode_words(batch, n, page):
    words = (f"attention type=bf16 batch={batch} heads={DECODE_HEADS} kv_heads={DECODE_KV_HEADS} queries=1 keys={n} "
             f"head={DECODE_HEAD} causal=1")
    return words + (f" page={page} pool={batch * n // page}" if page else "")


def decode_configurations(batch, n):
    """Yields those whose blocks are half as many as the SMs at least, and four times as many at most."""
    yield ""
    for splits in (1, 2, 3, 4, 6, 8, 12, 14, 16, 32):
        if 66 <= batch * DECODE_KV_HEADS * splits <= 528 and splits * 128 <= n:
            for blocks in ("columns=128 stages=2", "columns=64 stages=4", "columns=64 stages=2"):
                for early in (0, 1): yield f"{blocks} splits={splits} early={early}"
            for blocks in ("columns=64 stages=2", "columns=32 stages=4", "columns=48 stages=3"):
                yield f"{blocks} splits={splits} early=2"


def decode_error(t, batch, n, page):
    """Returns the largest difference of the first and the last sequence's results from those in f32, by the root mean square
    of these."""
    worst = 0.0
    for i in {0, batch - 1}:
        k, v = (t[x] for x in "kv")
        if page:
            of = t["pages"].view(batch, -1)[i].long()
            k, v = (x.view(-1, page, DECODE_KV_HEADS, DECODE_HEAD)[of].reshape(n, DECODE_KV_HEADS, DECODE_HEAD) for x in (k, v))
        else:
            k, v = k[i], v[i]
        q = t["q"][i].view(DECODE_KV_HEADS, -1, DECODE_HEAD).float()
        s = torch.einsum("hqd,khd->hqk", q, k.float()) / math.sqrt(DECODE_HEAD)
        want = torch.einsum("hqk,khd->hqd", torch.softmax(s, 2), v.float()).reshape(DECODE_HEADS, DECODE_HEAD)
        off = ((t["out"][i].float() - want).abs().max() / want.square().mean().sqrt()).item()
        worst = max(worst, off) if math.isfinite(off) else math.inf
    return worst


def decode_case(gpu, batch, n, page, peak):
    """One query of each sequence. Keys of all sets together are more than the L2 holds."""
    bf16 = dict(device="cuda", dtype=torch.bfloat16)
    moved = 2 * batch * n * DECODE_KV_HEADS * DECODE_HEAD * 2
    sets = []
    for _ in range(max(2, min(16, 2 * L2 // moved + 1))):
        t = {x: torch.randn(batch, DECODE_HEADS, DECODE_HEAD, **bf16) for x in ("q", "out")}
        for x in "kv": t[x] = torch.randn(batch, n, DECODE_KV_HEADS, DECODE_HEAD, **bf16)
        if page: t["pages"] = torch.randperm(batch * n // page, device="cuda").to(torch.int32)
        sets.append(t)
    # Graphs that last 400 us or more, so that starting one does not count.
    rounds, times = max(1, int(400e-6 * peak * 1e9 / (moved * len(sets)))), {}
    for configuration in decode_configurations(batch, n):
        run = run_ours(gpu, decode_words(batch, n, page), configuration, sets)
        if run: times[configuration] = time_of(run, sets, TRIES, rounds)[0]
    # The best of many tries is lucky: it is timed again, as the kernel's own choice is.
    best = min(times, key=times.get)
    us, own = (time_of(run_ours(gpu, decode_words(batch, n, page), c, sets), sets, SAMPLES, rounds)[0] for c in (best, ""))
    without = min((u for c, u in times.items() if "early=0" in c or not c))
    error = decode_error(sets[0], batch, n, page)
    return {"case": f"{batch} sequences, {n} keys, {f'pages of {page}' if page else 'contiguous'}", "kind": "decode",
            "batch": batch, "keys": n, "page": page, "config": best, "us": us, "gbs": moved / us * 1e-3,
            "share": moved / us * 1e-3 / peak, "us_default": own, "share_default": moved / own * 1e-3 / peak,
            "us_not_early": without, "error": error, "correct": error < MOST_ERROR}


def ragged_case(gpu, lengths):
    """Prompts of these lengths in one launch, and as many of their mean length."""
    heads, kv_heads, d = 32, 8, 128
    bf16 = dict(device="cuda", dtype=torch.bfloat16)
    times = {}
    for name, of in (("even", [sum(lengths) // len(lengths)] * len(lengths)), ("ragged", lengths)):
        rows = sum(of)
        ends = torch.tensor([0] + of).cumsum(0).to(device="cuda", dtype=torch.int32)
        t = {"q": torch.randn(rows, heads, d, **bf16), "out": torch.empty(rows, heads, d, **bf16), "starts": ends,
             "lengths": torch.tensor(of, device="cuda", dtype=torch.int32)}
        for x in "kv": t[x] = torch.randn(len(of), kv_heads, max(of), d, **bf16)
        words = (f"attention type=bf16 batch={len(of)} heads={heads} kv_heads={kv_heads} queries={rows} keys={max(of)} "
                 f"capacity={max(of)} head={d} causal=1 ragged=1")
        runs = [run_ours(gpu, words, c, [t]) for c in ("splits=1", "splits=1 pack=0", "splits=1 lazy=1", "splits=1 pack=0 lazy=1")]
        us = min(time_of(run, [t], TRIES)[0] for run in runs if run)
        times[name] = sum(2 * heads * d * x * x for x in of) / us * 1e-6
    return {"kind": "ragged", "lengths": lengths, "even_tflops": times["even"], "tflops": times["ragged"],
            "ratio": times["ragged"] / times["even"]}


def decode(gpu, o):
    peak = bandwidth()
    print(json.dumps({"kind": "reads", "gbs": peak}), flush=True)
    cases = [(batch, n, page) for batch, n in DECODE for page in (0, 16)]
    if o.cases: cases = [cases[int(i)] for i in o.cases.split(",")]
    compile_all(o.object, [(decode_words(*c), x) for c in cases for x in decode_configurations(*c[:2])], o.processes)
    for c in cases: print(json.dumps(decode_case(gpu, *c, peak)), flush=True)
    if o.cases: return
    for lengths in ([512, 1024, 2048, 4096], [100, 3000, 700, 1500, 4000, 60, 2048, 900], [128] * 15 + [8192]):
        print(json.dumps(ragged_case(gpu, lengths)), flush=True)


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--library", dest="object", default="build/libtilewright.so")
    a.add_argument("--commit", default="")
    a.add_argument("--processes", type=int, default=12, help="that compile (default: 12)")
    a.add_argument("--more", action="store_true", help="heads of 80, 96, 192 and 256, too")
    a.add_argument("--all", action="store_true", help="print every configuration that is timed")
    a.add_argument("--untuned", action="store_true", help="with the kernel's own choice of a configuration")
    a.add_argument("--decode", action="store_true", help="one query of each sequence, and ragged batches")
    a.add_argument("--cases", help="numbers of cases, like 0,3,5; without --decode the first half is causal")
    o = a.parse_args()
    gpu = Gpu(o.object, "cuda:0")
    print(head.line(torch.cuda.get_device_name(), o.commit, "bench/attention.py " + " ".join(sys.argv[1:]),
                    peer="torch " + torch.__version__ + ", cuDNN " + str(torch.backends.cudnn.version()),
                    protocol=f"cold L2 by rotation, CUDA graphs, medians of {SAMPLES}, peers before and after ours"), flush=True)
    torch.manual_seed(1)
    if o.decode: return decode(gpu, o)
    shapes = SHAPES + (MORE if o.more else [])
    cases = [(s, causal) for causal in (True, False) for s in shapes]
    if o.cases: cases = [cases[int(i)] for i in o.cases.split(",")]
    if o.untuned:
        compile_all(o.object, [(words_of(*c), "") for c in cases], o.processes)
        chosen = {c: {} for c in cases}
    else:
        chosen = tune(gpu, o, cases)
    rows = []
    for c in cases:
        rows.append(measure(gpu, *c, text_of(chosen[c])))
        print(json.dumps(rows[-1]), flush=True)
        torch.cuda.empty_cache()
    ratios = [r["ratio"] for r in rows if r["ratio"]]
    print(json.dumps({"cases": len(rows), "correct": all(r["correct"] for r in rows), "least_ratio": min(ratios, default=None),
                      "mean_ratio": math.exp(statistics.mean(map(math.log, ratios))) if ratios else None}))
    sys.exit(not all(r["correct"] for r in rows))


if __name__ == "__main__":
    main()
