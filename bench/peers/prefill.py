#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The peers of the GPU's prefill benchmark: a prompt of a llama-shaped model on PyTorch, to its first token.

    prefill.py llama-1b 128,512,2048 cudnn,flash,compile       one JSON object a line

A run is the whole of it: embedding, every layer, keys and values kept, the last position's final norm, head and argmax. Each
runs in a CUDA graph and is timed by events around each replay:

    cudnn, flash    F.linear and SDPA by cuDNN or FlashAttention, q, k and v in one matrix and gate with up
    compile         the same through torch.compile(mode="max-autotune-no-cudagraphs"), SDPA as PyTorch chooses
    compile-default the same through torch.compile in its default mode, which compiles in seconds

`difference` is the largest difference of a run's logits from those of `cudnn`, relative to their largest magnitude."""
import json
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import decode
from decode import EPSILON, Shape, Weights, rotate

decode.SHAPES["qwen3-0.6b"] = (28, 1024, 16, 8, 128, 3072, 151936, True, 1e6)
HEADS_NORMED = ("qwen3-0.6b",)
BACKENDS = {"cudnn": [SDPBackend.CUDNN_ATTENTION], "flash": [SDPBackend.FLASH_ATTENTION]}
MODES = {"compile": "max-autotune-no-cudagraphs", "compile-default": "default"}
ANY = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION]
SAMPLES = 15


def forward(s, normed, w, ids, keys, values):
    n = ids.shape[0]
    x = F.embedding(ids, w.embed)
    cos, sin = w.cos[:n, None], w.sin[:n, None]
    for (norm, wqkv, wo, mlp_norm, wup, wdown), k_cache, v_cache in zip(w.layers, keys, values):
        y = F.linear(F.rms_norm(x, (s.dim,), norm, EPSILON), wqkv).view(n, s.heads + 2 * s.kv_heads, s.head_dim)
        q, k, v = y.split([s.heads, s.kv_heads, s.kv_heads], 1)
        if normed:
            q, k = (F.rms_norm(t, (s.head_dim,), None, EPSILON) for t in (q, k))
        q = rotate(q, cos, sin)
        k_cache[:, :n] = rotate(k, cos, sin).transpose(0, 1)
        v_cache[:, :n] = v.transpose(0, 1)
        a = F.scaled_dot_product_attention(q.transpose(0, 1)[None], k_cache[None, :, :n], v_cache[None, :, :n],
                                           is_causal=True, enable_gqa=True)
        x = x + F.linear(a[0].transpose(0, 1).reshape(n, -1), wo)
        gate, up = F.linear(F.rms_norm(x, (s.dim,), mlp_norm, EPSILON), wup).chunk(2, -1)
        x = x + F.linear(F.silu(gate) * up, wdown)
    logits = F.linear(F.rms_norm(x[-1:], (s.dim,), w.final, EPSILON), w.head)
    return logits, logits.argmax(-1)


def timed(run):
    """Returns the milliseconds of replays of a graph of `run`, and its logits."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        logits, _ = run()
    samples = []
    for i in range(SAMPLES + 3):
        begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        if i >= 3:
            samples.append(begin.elapsed_time(end))
    return samples, logits.float().clone()


def measure(s, name, w, n, peer, base):
    """Returns a row, and the logits."""
    g = torch.Generator("cuda").manual_seed(n)
    ids = torch.randint(0, s.vocab, (n,), device="cuda", generator=g)
    room = (s.layers, s.kv_heads, n, s.head_dim)
    keys, values = (torch.zeros(room, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    run, start = forward, time.monotonic()
    if peer in MODES:
        run = torch.compile(forward, mode=MODES[peer], dynamic=False)
    with torch.inference_mode(), sdpa_kernel(BACKENDS.get(peer, ANY)):
        samples, logits = timed(lambda: run(s, name in HEADS_NORMED, w, ids, keys.unbind(0), values.unbind(0)))
    row = {"shape": name, "tokens": n, "peer": peer, "ms": round(statistics.median(samples), 4),
           "spread": round((max(samples) - min(samples)) / statistics.median(samples), 4),
           "took_s": round(time.monotonic() - start, 1)}
    if base is not None:
        row["difference"] = round(((logits - base).abs().max() / base.abs().max()).item(), 5)
    return row, logits


def main():
    name, lengths, peers = sys.argv[1:4]
    s = Shape(name)
    w = Weights(s, "cuda")
    print(json.dumps({"device": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda}), flush=True)
    for n in map(int, lengths.split(",")):
        base = None
        for peer in peers.split(","):
            if peer in MODES:
                torch._dynamo.reset()
            try:
                row, logits = measure(s, name, w, n, peer, base)
                base = logits if base is None else base
            except Exception as error:  # What a peer cannot do is a row that says so.
                row = {"shape": name, "tokens": n, "peer": peer, "error": "%s: %s" % (type(error).__name__, str(error)[:200])}
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
