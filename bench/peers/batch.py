#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The peer of the benchmark of several sequences: prompts of a batch and its decode steps on PyTorch, each in a CUDA graph.

    batch.py llama-1b 1,8,32 512 128         one JSON object a line: prompts of 512 ids and 128 steps of 1, 8 and 32 sequences

The prompts of a batch are one graph: F.linear over all rows, causal SDPA of the batch by cuDNN or FlashAttention, whichever is
faster; head and argmax of each last position. A decode step is that of decode.py, at the first and at the last of the steps'
contexts; the time of all steps is that of their mean. So the peer has no host, no sampling and a cache of exactly as many
positions as a step attends to, which is its best case. `tokens_per_second` counts, of each sequence, a token of the prompt's
and one of each step."""
import json
import statistics
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import sdpa_kernel

import decode
from decode import EPSILON, Shape, Weights, rotate
from prefill import BACKENDS, timed


def forward(s, w, ids, keys, values):
    """ids [batch, n], keys and values [batch, kv_heads, n, head_dim] a layer; gives the logits of the last positions."""
    batch, n = ids.shape
    x = F.embedding(ids, w.embed)
    cos, sin = w.cos[:n, None], w.sin[:n, None]
    for (norm, wqkv, wo, mlp_norm, wup, wdown), k_cache, v_cache in zip(w.layers, keys, values):
        y = F.linear(F.rms_norm(x, (s.dim,), norm, EPSILON), wqkv).view(batch, n, s.heads + 2 * s.kv_heads, s.head_dim)
        q, k, v = y.split([s.heads, s.kv_heads, s.kv_heads], 2)
        k_cache.copy_(rotate(k, cos, sin).transpose(1, 2))
        v_cache.copy_(v.transpose(1, 2))
        a = F.scaled_dot_product_attention(rotate(q, cos, sin).transpose(1, 2), k_cache, v_cache, is_causal=True, enable_gqa=True)
        x = x + F.linear(a.transpose(1, 2).reshape(batch, n, -1), wo)
        gate, up = F.linear(F.rms_norm(x, (s.dim,), mlp_norm, EPSILON), wup).chunk(2, -1)
        x = x + F.linear(F.silu(gate) * up, wdown)
    logits = F.linear(F.rms_norm(x[:, -1], (s.dim,), w.final, EPSILON), w.head)
    return logits, logits.argmax(-1)


def prompts(s, w, batch, n):
    """Returns the milliseconds of a batch's prompts, and the name of the faster attention."""
    ids = torch.randint(0, s.vocab, (batch, n), device="cuda", generator=torch.Generator("cuda").manual_seed(n))
    room = (batch, s.kv_heads, n, s.head_dim)
    cache = [torch.zeros(room, device="cuda", dtype=torch.bfloat16) for _ in range(2 * s.layers)]
    best = None
    for name, backend in BACKENDS.items():
        with sdpa_kernel(backend):
            samples, _ = timed(lambda: forward(s, w, ids, cache[:s.layers], cache[s.layers:]))
        ms = statistics.median(samples)
        best = (ms, name) if best is None or ms < best[0] else best
    return best


def main():
    name, batches, n, steps = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    s, bench = Shape(name), decode.Bench(200)
    with torch.inference_mode():
        print(json.dumps(decode.environment()), flush=True)
        w = bench.model(name)[1]
        for batch in map(int, batches.split(",")):
            us = [bench.measure(name, "native", batch, depth, "cublas")["us"] for depth in (n + 1, n + steps)]
            bench.forget()
            ms, attention = prompts(s, w, batch, n)
            torch.cuda.empty_cache()
            step = statistics.mean(us)
            seconds = ms * 1e-3 + steps * step * 1e-6
            print(json.dumps({"shape": name, "batch": batch, "prompt": n, "steps": steps, "prompt_ms": round(ms, 3),
                              "attention": attention, "step_us": round(step, 2), "step_us_first": us[0], "step_us_last": us[1],
                              "steps_per_second": round(batch * 1e6 / step, 1), "prompt_per_second": round(batch * n * 1e3 / ms, 1),
                              "tokens_per_second": round(batch * (steps + 1) / seconds, 1)}), flush=True)


if __name__ == "__main__":
    main()
