#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A mixture of experts' whole layer beside torch's, on one GPU in one run.

    bench/moe_layer.py --library build/libtilewright.so --commit NAME > moe-layer-h200.jsonl

Both sides begin with tokens, each token's experts sorted by expert, and weights, and end with the sum of each token's
experts. Ours are three launches: a gated product that gathers tokens, a product that scatters its weighted rows, and a sum
of neighbouring rows. Torch's are index_select, torch._grouped_mm, silu and a multiplication, torch._grouped_mm, a
multiplication by the weights, and index_add_. Sorting is of neither.

Times are of CUDA graphs with a cold L2: operands rotate over as many sets as it takes. Torch is timed before and after ours,
as the device grows hot, and the mean counts. Each product takes the fastest of a list of configurations. Results of both
are compared with a layer in f32 on some tokens."""
import argparse, itertools, json, math, statistics, sys
import torch
import head
from tilewright_gpu import Error, Gpu

MODELS = {  # Experts, experts a token, width, width of an expert.
    "e128": (128, 8, 2048, 768),
    "e32": (32, 4, 2048, 1536),
    "e8": (8, 2, 4096, 14336),
}
CASES = [("e128", t) for t in (1, 4, 16, 64, 512, 2048, 8192)] + [("e32", 4096), ("e8", 64), ("e8", 2048)]
L2, MOST_SETS, SAMPLES = 60 * 2**20, 8, 24
FIXED = "mma=2 vec=16 ks=1 kl=1 kg=1 split=0 copy=0 multicast=0 stream=0 u=64 early=1"


def route(tokens, experts, top, skew):
    """Returns the experts of each token, all different. `skew`: expert i is as likely as (i + 1) ** -skew."""
    likely = torch.arange(1, experts + 1, device="cuda", dtype=torch.float32) ** -skew
    likely = likely[torch.randperm(experts, device="cuda")]
    return torch.multinomial(likely.expand(tokens, experts), top)


class Set:
    """Operands of a layer. Gates and values lie in eights for us, one behind the other for torch."""

    def __init__(self, model, tokens, skew):
        experts, top, width, inner = model
        bf16 = dict(device="cuda", dtype=torch.bfloat16)
        self.model, self.tokens, m = model, tokens, tokens * top
        self.x = torch.randn(tokens, width, **bf16)
        gate, value = (torch.randn(experts, inner, width, **bf16) * width ** -0.5 for _ in range(2))
        self.up = torch.cat([gate, value], 1)
        eights = [w.reshape(experts, inner // 8, 8, width) for w in (gate, value)]
        self.up_in_eights = torch.stack(eights, 2).reshape(experts, 2 * inner, width).contiguous()
        self.down = torch.randn(experts, width, inner, **bf16) * inner ** -0.5
        self.ids = route(tokens, experts, top, skew)
        self.weights = torch.softmax(torch.randn(tokens, top, device="cuda"), 1)
        self.order = self.ids.flatten().argsort(stable=True)
        self.ends = torch.bincount(self.ids.flatten(), minlength=experts).cumsum(0).to(torch.int32)
        self.rows, self.places = (self.order // top).to(torch.int32), self.order.to(torch.int32)
        self.scales = self.weights.flatten()[self.order].contiguous()
        self.counters = torch.zeros(1, device="cuda", dtype=torch.int32)
        self.h, self.y = torch.empty(m, inner, **bf16), torch.empty(m, width, **bf16)
        self.out, self.rows_long = torch.empty(tokens, width, **bf16), self.rows.long()

    def torch_layer(self):
        x = self.x.index_select(0, self.rows_long)
        gate, value = torch._grouped_mm(x, self.up.transpose(1, 2), offs=self.ends).chunk(2, 1)
        y = torch._grouped_mm(torch.nn.functional.silu(gate) * value, self.down.transpose(1, 2), offs=self.ends)
        y = y * self.scales[:, None].to(y.dtype)
        return torch.zeros(self.tokens, self.model[2], device="cuda", dtype=y.dtype).index_add_(0, self.rows_long, y)

    def reference(self, token):
        sum, x, inner = 0, self.x[token].float(), self.model[3]
        for expert, weight in zip(self.ids[token].tolist(), self.weights[token]):
            up = self.up[expert].float() @ x
            sum = sum + weight * (self.down[expert].float() @ (torch.nn.functional.silu(up[:inner]) * up[inner:]))
        return sum


def error_of(sets, results):
    """Returns the largest difference from the layer in f32, by the root mean square of its elements. An element that is no
    number makes it infinite."""
    worst = 0
    for s, out in zip(sets, results):
        for token in torch.linspace(0, s.tokens - 1, min(8, s.tokens)).long().tolist():
            want = s.reference(token)
            error = ((out[token].float() - want).abs().max() / want.square().mean().sqrt()).item()
            worst = max(worst, error) if math.isfinite(error) else math.inf
    return worst


def time_of(run, sets):
    """Returns the median and the spread of the microseconds of run(set), over all sets in one graph."""
    for s in sets: run(s)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for s in sets: run(s)
    samples = []
    for _ in range(SAMPLES):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        samples.append(begin.elapsed_time(end) * 1e3 / len(sets))
    samples.sort()
    median = statistics.median(samples)
    return median, (samples[-3] - samples[2]) / median


def configurations(rows, staged):
    """Yields configurations without their stages, for groups of so many rows."""
    if rows <= 48:
        for nl, ml, persistent, pingpong in itertools.product((8, 16, 32, 64), (64, 128), (132, 264), (0, 1)):
            if nl <= max(8, 2 * rows):
                yield (f"swap=1 ms=64 ml={ml} nl={nl} ns={nl} persistent={persistent} pingpong={pingpong} staged=0 group=32 "
                       f"blocks={persistent // 132}")
    if rows >= 16:
        shapes = ((64, 64, 128, 1), (64, 64, 192, 1), (64, 64, 256, 1), (64, 128, 128, 0), (64, 128, 192, 0),
                  (64, 128, 256, 0), (128, 128, 128, 1), (128, 128, 160, 1), (128, 128, 192, 1), (128, 256, 128, 0))
        for (ms, ml, nl, pingpong), group, how in itertools.product(shapes, (8, 32), staged):
            yield f"swap=0 ms={ms} ml={ml} nl={nl} ns={nl} persistent=132 pingpong={pingpong} staged={how} group={group}"


def open_fullest(gpu, words, configuration):
    """Opens a kernel with the most stages that fit. None: the configuration is not legal with any."""
    for stages in range(16, 1, -1):
        try:
            return gpu.kernel(words, f"{FIXED} {configuration} stages={stages}")
        except Error as e:
            if "shared memory" not in str(e) and "an SM cannot hold" not in str(e): return None
    return None


def fastest(gpu, words, staged, sets, bind, rows):
    """Returns the launches of the fastest configuration, one for each set, and the configuration."""
    best = (float("inf"), None, None)
    for c in configurations(rows, staged):
        k = open_fullest(gpu, words, c)
        if not k: continue
        launches = {id(s): k.launch(**{name: t.data_ptr() for name, t in bind(s).items()}) for s in sets}
        us, _ = time_of(lambda s: launches[id(s)].run(torch.cuda.current_stream().cuda_stream), sets)
        if us < best[0]: best = (us, launches, k.configuration)
    if not best[1]: sys.exit(f"{words}: no configuration is legal")
    return best


def measure(gpu, name, tokens, skew):
    model = experts, top, width, inner = MODELS[name]
    m = tokens * top
    used = min(experts, m)
    n_sets = max(2, min(MOST_SETS, 2 * L2 // (6 * used * width * inner) + 1))
    sets = [Set(model, tokens, skew) for _ in range(n_sets)]
    rows = max(1, m // experts)
    common = f"type=bf16 tb=1 groups={experts} weights=1"
    up_us, up, up_config = fastest(
        gpu, f"gemm m={m} n={2 * inner} k={width} {common} gather=1 rows_a={tokens} gated=1 activation=silu", (2, 3), sets,
        lambda s: {"a": s.x, "b": s.up_in_eights, "c": s.h, "ends": s.ends, "rows": s.rows,
                   "counters": s.counters}, rows)
    down_us, down, down_config = fastest(
        gpu, f"gemm m={m} n={width} k={inner} {common} scatter=1", (0, 2), sets,
        lambda s: {"a": s.h, "b": s.down, "c": s.y, "ends": s.ends, "places": s.places, "factors": s.scales,
                   "counters": s.counters}, rows)
    k = gpu.kernel(f"combine type=bf16 tokens={tokens} top={top} n={width} early=1")
    sums = {id(s): k.launch(x=s.y.data_ptr(), y=s.out.data_ptr()) for s in sets}

    def ours(s):
        for launch in (up, down, sums): launch[id(s)].run(torch.cuda.current_stream().cuda_stream)

    before = time_of(Set.torch_layer, sets)
    for s in sets: s.h.fill_(float("nan")), s.y.fill_(float("nan")), s.out.fill_(float("nan"))
    mine = time_of(ours, sets)
    after = time_of(Set.torch_layer, sets)
    error, peer_error = error_of(sets, [s.out for s in sets]), error_of(sets, [s.torch_layer() for s in sets])
    peer = (before[0] + after[0]) / 2
    return {"case": f"{name}-{tokens}" + (f"-skew{skew:g}" if skew else ""), "tokens": tokens, "experts": experts,
            "top": top, "width": width, "inner": inner, "skew": skew, "config": {"up": up_config, "down": down_config},
            "ours_us": mine[0], "up_us": up_us, "down_us": down_us, "tflops": 6e-6 * m * width * inner / mine[0],
            "spread": mine[1], "error": error, "peer_error": peer_error, "correct": error < 0.08, "peer": "torch",
            "peer_us": peer, "peer_before_us": before[0], "peer_after_us": after[0],
            "peer_spread": max(before[1], after[1]), "ratio": peer / mine[0]}


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--library", dest="object", default="build/libtilewright.so")
    a.add_argument("--commit", default="")
    a.add_argument("--skew", type=float, nargs="*", default=[0, 1], help="skews of the routing (default: 0 and 1)")
    a.add_argument("--cases", help="only these, like e128-64,e8-2048")
    o = a.parse_args()
    gpu = Gpu(o.object, "cuda:0")
    print(head.line(torch.cuda.get_device_name(), o.commit, "bench/moe_layer.py " + " ".join(sys.argv[1:]),
                    peer="torch " + torch.__version__,
                    protocol=f"cold L2 by rotation, CUDA graphs, medians of {SAMPLES}, torch before and after ours"))
    torch.manual_seed(1)
    wrong = 0
    for (name, tokens), skew in itertools.product(CASES, o.skew):
        if o.cases and f"{name}-{tokens}" not in o.cases.split(","): continue
        row = measure(gpu, name, tokens, skew)
        wrong += not row["correct"]
        print(json.dumps(row), flush=True)
        torch.cuda.empty_cache()
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
