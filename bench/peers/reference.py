#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A reference for decoding: llama-shaped models in float32 on PyTorch, on the very weights that were timed.

    reference.py serve [--device cpu]     answers lines `RECORD ANSWERS`, a JSON object a line
    reference.py judge RECORD ANSWERS     one of them

RECORD is what bench_decode writes (bench/decode_evidence.h): how each weight is made, what each sequence was fed, where its
launches began. ANSWERS gets the logits of every position of every launch, as float32: sequence by sequence, launch by launch.
Weights are made here again from their seeds, quantised by a search of our own that takes the same steps, and every product is
a float32 one. Keys and values are rounded to the type that the cache has. Nothing of Tilewright's is run.
"""
import argparse
import json
import os
import sys
import time

import torch

# rope's stretching, as the shapes have it in Hugging Face's configs: theta, factor, low and high frequency factor, trained for.
ROPES = {
    "llama-1b": (5e5, 32.0, 1.0, 4.0, 8192),
    "llama-3b": (5e5, 32.0, 1.0, 4.0, 8192),
    "llama-8b": (5e5, 8.0, 1.0, 4.0, 8192),
    "llama-tiny": (1e4, 0.0, 0.0, 0.0, 0),
}
HEADS = {"llama-1b": (32, 8, 64), "llama-3b": (24, 8, 128), "llama-8b": (32, 8, 128), "llama-tiny": (4, 2, 16)}
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
ROWS = 1 << 25  # elements that are made and quantised at a time
QUERIES = 1024  # positions whose scores are held at a time
GROUP_LANES = 8


def shifted(z, n):
    """A logical shift to the right of 64 bits; PyTorch's keeps the sign."""
    return (z >> n) & ((1 << (64 - n)) - 1)


def signed(x):
    return x - (1 << 64) if x >= 1 << 63 else x


def make(t, first, rows, device):
    """Rows of a synthetic weight as stored: splitmix64's finisher over a Weyl sequence, a byte an element."""
    begin, count = first * t["cols"], rows * t["cols"]
    word = torch.arange(begin // 8, (begin + count + 7) // 8, dtype=torch.int64, device=device)
    z = word * signed(0x9E3779B97F4A7C15) + signed(int(t["seed"], 16))
    z = (z ^ shifted(z, 30)) * signed(0xBF58476D1CE4E5B9)
    z = (z ^ shifted(z, 27)) * signed(0x94D049BB133111EB)
    z = z ^ shifted(z, 31)
    byte = z.view(torch.int8)[begin % 8:begin % 8 + count].float()
    scale = torch.tensor(t["scale"], dtype=torch.float32, device=device)
    offset = torch.tensor(t["offset"], dtype=torch.float32, device=device)
    return (byte * (scale / 128) + (offset + scale / 256)).to(TYPES[t["type"]]).view(rows, t["cols"])


def int8(x):
    """A scale a row: the largest magnitude is 127."""
    top = x.abs().amax(1, keepdim=True)
    most = torch.full_like(top, 127.0)  # a tensor: by a number, a GPU would multiply by its inverse
    return torch.round(x * (most / top)).to(torch.int8), top / most


class Search:
    """int4 with a scale a group, each the best of some candidates: a group is a row of y, in units that make its largest
    magnitude be within [1/2, 1). Sums are taken in the same order everywhere, since what is compared is close."""

    ENDS = (-9.6, -9.0, -8.5, -8.0, -7.6, -7.2, -6.8, -6.4, 8.4, 7.9, 7.4, 7.0, 6.6, 6.2)

    def __init__(self, x):
        top = x.abs().amax(1, keepdim=True)
        self.unit = (127 - torch.frexp(top)[1].to(torch.int32) << 23).view(torch.float32)  # 2^-e, exactly
        self.y = x * self.unit
        place = torch.arange(x.shape[1], device=x.device).expand_as(x)
        first = torch.where(x.abs() == top, place, x.shape[1]).amin(1, keepdim=True)
        self.extreme = self.y.gather(1, first)
        self.scale = torch.zeros_like(top)
        self.error = torch.full_like(top, float("inf"))

    def rounded(self, inverse):
        return torch.round(self.y * inverse).clamp(-8, 7)

    @staticmethod
    def summed(x):
        lanes = x.view(x.shape[0], -1, GROUP_LANES)
        s = lanes[:, 0].clone()
        for i in range(1, lanes.shape[1]):
            s += lanes[:, i]
        s = s[:, :4] + s[:, 4:]
        return ((s[:, 0] + s[:, 2]) + (s[:, 1] + s[:, 3])).unsqueeze(1)

    def correlate(self, inverse):
        q = self.rounded(inverse)
        return self.summed(q * self.y), self.summed(q * q)

    def consider(self, scale, where=True):
        scale = (scale / self.unit).clamp(-65504, 65504).half().float() * self.unit
        safe = torch.where(scale == 0, 1.0, scale)
        d = self.y - safe * self.rounded(1.0 / safe)
        error = self.summed(d * d)
        better = (scale != 0) & (scale != self.scale) & (error < self.error) & where
        self.scale = torch.where(better, scale, self.scale)
        self.error = torch.where(better, error, self.error)

    def best(self):
        self.consider(self.extreme / -8.0)
        self.consider(self.extreme.abs() / torch.full_like(self.extreme, 7.0))
        gain = [torch.full_like(self.scale, -1.0) for _ in range(3)]
        fit = [torch.zeros_like(self.scale) for _ in range(3)]
        for end in self.ENDS:
            qy, qq = self.correlate(torch.tensor(end, dtype=torch.float32, device=self.y.device) / self.extreme)
            good = torch.where(qq > 0, qy * qy / qq, 0.0)
            scale = torch.where(qq > 0, qy / qq, 0.0)
            for k in range(3):
                more = good > gain[k]
                gain[k], good = torch.where(more, good, gain[k]), torch.where(more, gain[k], good)
                fit[k], scale = torch.where(more, scale, fit[k]), torch.where(more, fit[k], scale)
        for k in range(3):
            self.consider(fit[k])
        for _ in range(2):
            qy, qq = self.correlate(1.0 / self.scale)
            self.consider(qy / qq, qq > 0)
        return self.rounded(1.0 / self.scale).to(torch.int8), self.scale / self.unit


def int4(x, group):
    """A row's last group may be short."""
    whole = x.shape[1] // group * group
    parts = [(x[:, :whole], group)] + ([(x[:, whole:], x.shape[1] - whole)] if whole < x.shape[1] else [])
    found = [Search(p.reshape(-1, n)).best() for p, n in parts]
    return tuple(torch.cat([f[i].view(x.shape[0], -1) for f in found], 1) for i in range(2))


def frequencies(shape, half, device):
    """On the processor: powers in double precision, the rest in float32, as Hugging Face has them."""
    theta, factor, low, high, trained = ROPES[shape]
    exponent = (torch.arange(half, dtype=torch.float32) * 2 / (2 * half)).double()
    f = 1.0 / (torch.tensor(theta, dtype=torch.float64)**exponent).float()
    if factor:
        wave = 2 * torch.pi / f
        smooth = (trained / wave - low) / (high - low)
        between = (1 - smooth) * f / factor + smooth * f
        f = torch.where(wave > trained / low, f / factor, torch.where(wave < trained / high, f, between))
    return f.to(device)


def rotate(x, cos, sin):
    """x [heads, positions, dims]"""
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


def attend(q, k, v):
    """q [heads, n, dims], k and v [kv_heads, n, dims]; each position sees itself and what is before it."""
    kv_heads, n, dims = k.shape
    q = q.view(kv_heads, -1, n, dims)
    out = torch.empty_like(q)
    place = torch.arange(n, device=q.device)
    for at in range(0, n, QUERIES):
        end = min(n, at + QUERIES)
        for h in range(kv_heads):  # a head at a time: the scores of all would take gigabytes
            s = q[h, :, at:end] @ k[h, :end].T * dims**-0.5
            s.masked_fill_(place[:end] > place[at:end, None], float("-inf"))
            out[h, :, at:end] = s.softmax(-1) @ v[h, :end]
    return out.view(-1, n, dims).transpose(0, 1).reshape(n, -1)


class Reference:
    def __init__(self, device):
        self.device, self.key, self.kept = device, None, {}

    def weight(self, name, head=False):
        """Float32. What was quantised is kept for the next record of the same model. A head has at least 8 bits."""
        t, device = self.tensors[name], self.device
        kind, group = self.record["weights"], self.record["group"]
        if head and kind == "int4":
            kind, group = "int8", 0
        out = torch.empty(t["rows"], t["cols"], dtype=torch.float32, device=device)
        step = max(1, ROWS // t["cols"])
        for at in range(0, t["rows"], step):
            n = min(step, t["rows"] - at)
            x = None
            if kind != "native":
                if (name, at) not in self.kept:
                    stored = make(t, at, n, device).float()
                    self.kept[name, at] = int8(stored) if kind == "int8" else int4(stored, group)
                q, scale = self.kept[name, at]
                x = q.float() * scale.repeat_interleave(group or t["cols"], 1)[:, :t["cols"]]
            out[at:at + n] = make(t, at, n, device).float() if x is None else x
        return out

    def norm(self, x, name):
        w = make(self.tensors[name], 0, self.tensors[name]["rows"], self.device).float().view(-1)
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.record["epsilon"]) * w

    def layer(self, i, xs, angles):
        heads, kv_heads, dims = HEADS[self.record["shape"]]
        cache = TYPES[self.record["cache"]]
        w = {n: self.weight("layers.%d.%s" % (i, n)) for n in ("attn.q", "attn.k", "attn.v", "attn.o", "mlp.gate", "mlp.up",
                                                                "mlp.down")}
        for s, x in enumerate(xs):
            cos, sin = angles[0][:x.shape[0]], angles[1][:x.shape[0]]
            y = self.norm(x, "layers.%d.attn_norm" % i)
            q, k, v = ((y @ w["attn." + n].T).view(x.shape[0], -1, dims).transpose(0, 1) for n in "qkv")
            k = rotate(k, cos, sin).to(cache).float()
            x = x + attend(rotate(q, cos, sin), k, v.to(cache).float()) @ w["attn.o"].T
            y = self.norm(x, "layers.%d.mlp_norm" % i)
            xs[s] = x + (torch.nn.functional.silu(y @ w["mlp.gate"].T) * (y @ w["mlp.up"].T)) @ w["mlp.down"].T

    def answer(self, record, path):
        start = time.perf_counter()
        with open(record) as f:
            self.record = json.load(f)
        key = self.record["shape"], self.record["weights"], self.record["group"]
        if key != self.key:
            self.key, self.kept = key, {}
        self.tensors = {t["name"]: t for t in self.record["tensors"]}
        embed = make(self.tensors["embed"], 0, self.tensors["embed"]["rows"], self.device)
        tokens = [torch.tensor(s["tokens"], device=self.device) for s in self.record["sequences"]]
        xs = [embed[t].float() for t in tokens]
        del embed
        half = HEADS[self.record["shape"]][2] // 2
        place = torch.arange(max(len(t) for t in tokens), dtype=torch.float32, device=self.device)
        turn = torch.outer(place, frequencies(self.record["shape"], half, self.device))
        angles = torch.cat([turn.cos()] * 2, 1), torch.cat([turn.sin()] * 2, 1)
        layers = 1 + max(int(n.split(".")[1]) for n in self.tensors if n.startswith("layers."))
        for i in range(layers):
            self.layer(i, xs, angles)
        head = self.weight("head" if "head" in self.tensors else "embed", True)
        steps, rows = self.record["steps"], 0
        with open(path + ".new", "wb") as f:
            for x, s in zip(xs, self.record["sequences"]):
                at = torch.cat([torch.arange(b, b + steps, device=self.device) for b in s["begins"]])
                logits = (self.norm(x[at], "final_norm") @ head.T).cpu().contiguous()
                f.write(memoryview(logits.numpy()))
                rows += len(at)
        os.replace(path + ".new", path)
        return {"rows": rows, "seconds": round(time.perf_counter() - start, 2)}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("verb", choices=["serve", "judge"])
    p.add_argument("files", nargs="*")
    p.add_argument("--device", default="cuda")
    a = p.parse_intermixed_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")
    reply = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is no answer
    with torch.inference_mode():
        reference = Reference(a.device)
        if a.verb == "judge":
            print(json.dumps(reference.answer(*a.files)), file=reply)
            return
        print(json.dumps({"torch": torch.__version__}), file=reply)
        for line in sys.stdin:
            try:
                print(json.dumps(reference.answer(*line.split())), file=reply)
            except Exception as error:  # the driver decides what a failed request means
                print(json.dumps({"error": "%s: %s" % (type(error).__name__, error)}), file=reply)


if __name__ == "__main__":
    main()
