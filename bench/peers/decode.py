#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The peers of the GPU's decode benchmark: one token of a llama-shaped model on PyTorch, written plainly.

    decode.py run --shapes llama-1b,llama-8b --batches 1,8 --depths 1,1024,4096       one JSON object a line
    decode.py serve       answers lines `DO SHAPE WEIGHTS BATCH DEPTH PEER[,PEER]` until its input ends, a line each; DO is
                          prepare, which builds and compiles, or time

A step is the whole of it: embedding, every layer, final norm, head, argmax, and the token written to where the next step
reads it. Both peers run in a CUDA graph and are timed by events around each of its replays:

    cublas     F.linear, fused SDPA, q with k and v in one matrix and gate with up: what a careful program calls
    compile    the same step through torch.compile(mode="max-autotune-no-cudagraphs", fullgraph=True, dynamic=False)

WEIGHTS are native (bf16), int8 or int4, the latter two through compile alone, activations bf16: int8 with a scale a row, which
the compiler turns to bf16 within the product, and int4 with a scale and a zero for 64 columns, by the product that torchao
calls (_weight_int4pack_mm). Beside int4 the head is int8, as ours is.

DEPTH is how many positions the token attends to, its own included; the cache is exactly as long, which is the peers' best
case. Attention is either SDPA with enable_gqa, or the query heads of a key/value head as its rows, which is the same without
a mask: whichever is faster in `cublas` serves both. Weights are random; what both peers compute is compared.
"""
import argparse
import json
import os
import statistics
import sys
import time

import torch
import torch._dynamo
import torch.nn.functional as F

# As `tilewright bench --shape` knows them: layers, dim, heads, kv_heads, head_dim, ffn, vocab, tied, theta.
SHAPES = {
    "llama-1b": (16, 2048, 32, 8, 64, 8192, 128256, True, 5e5),
    "llama-3b": (28, 3072, 24, 8, 128, 8192, 128256, True, 5e5),
    "llama-8b": (32, 4096, 32, 8, 128, 14336, 128256, False, 5e5),
    "llama-tiny": (2, 64, 4, 2, 16, 160, 256, True, 1e4),
}
PEERS = ("cublas", "compile")
WEIGHTS = ("native", "int8", "int4")
GROUP = 64
EPSILON = 1e-5
POSITIONS = 8192


class Shape:
    def __init__(self, name):
        (self.layers, self.dim, self.heads, self.kv_heads, self.head_dim, self.ffn, self.vocab, self.tied,
         self.theta) = SHAPES[name]


class Weights:
    """Random, on the device; norms around 1, matrices such that variance is kept."""

    def __init__(self, s, device):
        g = torch.Generator(device).manual_seed(1)

        def matrix(rows, cols):
            return torch.empty(rows, cols, dtype=torch.bfloat16, device=device).normal_(0, cols**-0.5, generator=g)

        def norm():
            return torch.empty(s.dim, dtype=torch.bfloat16, device=device).uniform_(0.75, 1.25, generator=g)

        qkv = (s.heads + 2 * s.kv_heads) * s.head_dim
        self.embed = matrix(s.vocab, s.dim)
        self.layers = [(norm(), matrix(qkv, s.dim), matrix(s.dim, s.heads * s.head_dim), norm(), matrix(2 * s.ffn, s.dim),
                        matrix(s.dim, s.ffn)) for _ in range(s.layers)]
        self.final = norm()
        self.head = self.embed if s.tied else matrix(s.vocab, s.dim)
        angles = torch.outer(torch.arange(POSITIONS, dtype=torch.float64),
                             s.theta**(-torch.arange(0, s.head_dim, 2, dtype=torch.float64) / s.head_dim))
        self.cos = torch.cat([angles.cos()] * 2, 1).to(device, torch.float32)
        self.sin = torch.cat([angles.sin()] * 2, 1).to(device, torch.float32)

    def bytes(self):
        """That one step streams: the embedding only where it is the head."""
        every = [t for layer in self.layers for t in layer] + [self.final, self.head]
        parts = [p for t in every for p in (t if isinstance(t, tuple) else (t,)) if isinstance(p, torch.Tensor)]
        return sum(t.numel() * t.element_size() for t in parts)


def to_int8(w):
    scale = w.float().abs().amax(1, keepdim=True).clamp_min(1e-12) / 127
    return torch.round(w.float() / scale).to(torch.int8), scale.to(torch.bfloat16).view(-1)


def to_int4(w):
    """Packed for the product's kernel, in whose words a value is (q - 8) * scale + zero."""
    rows, cols = w.shape
    g = w.float().view(rows, cols // GROUP, GROUP)
    low, high = g.amin(2, keepdim=True), g.amax(2, keepdim=True)
    scale = ((high - low) / 15).clamp_min(1e-6)
    q = torch.round((g - low) / scale).clamp(0, 15).view(rows, cols).to(torch.int32)
    pairs = torch.cat([scale, low + 8 * scale], 2).transpose(0, 1).contiguous().to(torch.bfloat16)
    packed = torch.ops.aten._convert_weight_to_int4pack((q[:, ::2] << 4 | q[:, 1::2]).to(torch.uint8), 8)
    return packed, pairs, GROUP


class Quantised(Weights):
    """The same weights in few bits."""

    def __init__(self, w, kind):
        few = to_int8 if kind == "int8" else to_int4
        self.embed, self.final, self.cos, self.sin = w.embed, w.final, w.cos, w.sin
        self.layers = [tuple(t if t.dim() == 1 else few(t) for t in layer) for layer in w.layers]
        self.head = to_int8(w.head)


def linear(x, w):
    if not isinstance(w, tuple):
        return F.linear(x, w)
    if len(w) == 3:
        return torch.ops.aten._weight_int4pack_mm(x, w[0], w[2], w[1])
    return F.linear(x, w[0].to(x.dtype)) * w[1]


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    return (x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin).to(torch.bfloat16)


def step(s, grouped, w, token, position, keys, values):
    """token [batch], position [1], keys and values [batch, kv_heads, depth, head_dim] a layer; gives logits."""
    batch, group = token.shape[0], s.heads // s.kv_heads
    cos, sin = w.cos[position], w.sin[position]
    x = F.embedding(token, w.embed)
    for (norm, wqkv, wo, mlp_norm, wup, wdown), k, v in zip(w.layers, keys, values):
        y = linear(F.rms_norm(x, (s.dim,), norm, EPSILON), wqkv).view(batch, s.heads + 2 * s.kv_heads, s.head_dim)
        q = rotate(y[:, :s.heads], cos, sin)
        k[:, :, position] = rotate(y[:, s.heads:s.heads + s.kv_heads], cos, sin).unsqueeze(2)
        v[:, :, position] = y[:, s.heads + s.kv_heads:].unsqueeze(2)
        if grouped:
            a = F.scaled_dot_product_attention(q.view(batch, s.kv_heads, group, s.head_dim), k, v)
        else:
            a = F.scaled_dot_product_attention(q.unsqueeze(2), k, v, enable_gqa=True)
        x = x + linear(a.reshape(batch, s.heads * s.head_dim), wo)
        gate, up = linear(F.rms_norm(x, (s.dim,), mlp_norm, EPSILON), wup).chunk(2, -1)
        x = x + linear(F.silu(gate) * up, wdown)
    return linear(F.rms_norm(x, (s.dim,), w.final, EPSILON), w.head)


class Graph:
    """One peer's step, captured."""

    def __init__(self, s, w, batch, depth, grouped, compiled):
        device = w.embed.device
        g = torch.Generator(device).manual_seed(2)
        room = (batch, s.kv_heads, depth, s.head_dim)
        self.token = torch.arange(1, batch + 1, device=device)
        position = torch.tensor([depth - 1], device=device)
        cache = [torch.empty(room, dtype=torch.bfloat16, device=device).normal_(generator=g) for _ in range(2 * s.layers)]

        def forward(token, position, keys, values):
            logits = step(s, grouped, w, token, position, keys, values)
            return logits, logits.argmax(-1)

        if compiled:
            forward = torch.compile(forward, mode="max-autotune-no-cudagraphs", fullgraph=True, dynamic=False)

        # What the compiled step computes is held against the plain one.
        plain = step(s, grouped, w, self.token, position, cache[:s.layers], cache[s.layers:]).float() if compiled else None

        def run():
            logits, token = forward(self.token, position, cache[:s.layers], cache[s.layers:])
            self.token.copy_(token)
            return logits

        start = time.perf_counter()
        self.logits = run().float()
        torch.cuda.synchronize()
        self.seconds = time.perf_counter() - start  # of compiling, for the most part
        self.difference = ((self.logits - plain).abs().max() / plain.abs().max()).item() if compiled else 0.0
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                run()
        torch.cuda.current_stream().wait_stream(side)
        self.kept = run  # the graph reads and writes what this refers to
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            run()
        self.sample(5)

    def sample(self, n):
        """Microseconds of n replays, one by one."""
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(n + 1)]
        torch.cuda.synchronize()
        self.graph.replay()  # the first event is recorded while the device is at work
        marks[0].record()
        for mark in marks[1:]:
            self.graph.replay()
            mark.record()
        torch.cuda.synchronize()
        return [a.elapsed_time(b) * 1e3 for a, b in zip(marks, marks[1:])]


class Bench:
    def __init__(self, samples):
        self.samples, self.shapes, self.graphs = samples, {}, {}

    def model(self, name, weights="native"):
        if (name, weights) not in self.shapes:
            s = Shape(name)
            self.shapes[name, weights] = s, Weights(s, "cuda") if weights == "native" else Quantised(self.model(name)[1], weights)
        return self.shapes[name, weights]

    def graph(self, name, weights, batch, depth, peer):
        key = name, weights, batch, depth, peer
        if key in self.graphs:
            return self.graphs[key]
        s, w = self.model(name, weights)
        if peer == "cublas":
            both = [(g, Graph(s, w, batch, depth, g, False)) for g in (False, True)]
            best = min(both, key=lambda b: statistics.median(b[1].sample(20)))
            best[1].grouped = best[0]
            self.graphs[key] = best[1]
        else:
            grouped = self.graph(name, "native", batch, depth, "cublas").grouped
            self.graphs[key] = Graph(s, w, batch, depth, grouped, True)
            self.graphs[key].grouped = grouped
        return self.graphs[key]

    def prepare(self, name, weights, batch, depth, peer):
        return {"peer": peer, "first_s": round(self.graph(name, weights, batch, depth, peer).seconds, 1)}

    def measure(self, name, weights, batch, depth, peer):
        g = self.graph(name, weights, batch, depth, peer)
        s, w = self.model(name, weights)
        times = g.sample(self.samples)
        deciles = statistics.quantiles(times, n=10)
        cache = 2 * s.layers * s.kv_heads * s.head_dim * 2 * batch * depth
        median = statistics.median(times)
        row = {"shape": name, "weights": weights, "batch": batch, "depth": depth, "peer": peer, "us": round(median, 2),
               "p10_us": round(deciles[0], 2), "p90_us": round(deciles[-1], 2), "samples": len(times),
               "weight_bytes": w.bytes(), "kv_bytes": cache, "gb_s": round((w.bytes() + cache) / median / 1e3, 1),
               "attention": "grouped" if g.grouped else "gqa", "first_s": round(g.seconds, 1)}
        if peer == "compile":
            row["difference"] = float("%.2g" % g.difference)
        return row

    def forget(self):
        self.graphs.clear()
        torch.cuda.empty_cache()


def environment():
    p = torch.cuda.get_device_properties(0)
    return {"device": p.name, "sms": p.multi_processor_count, "torch": torch.__version__, "cuda": torch.version.cuda}


def serve(bench, reply):
    for line in sys.stdin:
        try:
            do, shape, weights, batch, depth, peers = line.split()
            batch, depth = int(batch), int(depth)
            if do not in ("prepare", "time") or weights not in WEIGHTS or batch < 1 or not 1 <= depth <= POSITIONS:
                raise ValueError("prepare or time, a shape, %s, a batch, a depth, peers" % ", ".join(WEIGHTS))
            if shape not in SHAPES or (weights != "native" and "cublas" in peers):
                raise ValueError("shapes are %s; int8 and int4 have compile alone" % ", ".join(SHAPES))
            answer = bench.prepare if do == "prepare" else bench.measure
            rows = [answer(shape, weights, batch, depth, p) for p in peers.split(",")]
            print(json.dumps(rows), file=reply)
        except Exception as error:  # the driver decides what a failed request means
            print(json.dumps({"error": "%s: %s" % (type(error).__name__, error)}), file=reply)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("verb", choices=["run", "serve"])
    p.add_argument("--shapes", default="llama-1b,llama-8b")
    p.add_argument("--batches", default="1,8")
    p.add_argument("--depths", default="1,1024,4096")
    p.add_argument("--peers", default=",".join(PEERS))
    p.add_argument("--weights", default="native", choices=WEIGHTS)
    p.add_argument("--samples", type=int, default=200)
    a = p.parse_args()
    for limit in ("recompile_limit", "cache_size_limit"):  # every shape, batch and depth is compiled by itself
        if hasattr(torch._dynamo.config, limit):
            setattr(torch._dynamo.config, limit, 256)
    reply = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is no answer
    bench = Bench(a.samples)
    with torch.inference_mode():
        print(json.dumps(environment()), file=reply)
        if a.verb == "serve":
            serve(bench, reply)
            return
        for shape in a.shapes.split(","):
            for batch in map(int, a.batches.split(",")):
                for depth in map(int, a.depths.split(",")):
                    for peer in a.peers.split(","):
                        print(json.dumps(bench.measure(shape, a.weights, batch, depth, peer)), file=reply)
                    bench.forget()


if __name__ == "__main__":
    main()
