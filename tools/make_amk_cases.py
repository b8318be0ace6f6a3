#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_amk_cases.py OUT [FILE...]: the schedules in AutoMegaKernel's format that the tests check.

Writes OUT/toy-*.json, two small programs of our own making that are safe: one with split attention, quantised weights,
shared pages and tasks bound to SMs, one for a batch. Each FILE, a schedule that program wrote, is copied to
OUT/FOLDER-NAME.json with only what the check reads, on few bytes."""
import json
import os
import sys

BITS = {"F32": 32, "F16": 16, "I32": 32, "I8": 8, "I4": 4, "U8": 8}


class Program:
    def __init__(self, pos, batch=1, sms=4):
        self.buffers, self.counters, self.tasks, self.ready, self.pages = [], [], [], {}, {}
        self.pos, self.batch, self.sms = pos, batch, sms

    def buffer(self, name, kind, shape, dtype="F32", space="HBM"):
        self.buffers.append({"id": len(self.buffers), "name": name, "kind": kind, "dtype": dtype,
                             "shape": list(shape), "space": space})
        return len(self.buffers) - 1

    def weight(self, name, shape, dtype="F32"):
        return self.buffer(name, "WEIGHT", shape, dtype)

    def stage(self, op, inputs, output, tasks, label, sms=None):
        """Tasks that share a counter: a list of parameters."""
        counter = len(self.counters)
        self.counters.append({"id": counter, "init": 0, "note": label})
        waits = []
        for b in inputs:
            if b in self.ready and self.ready[b] not in waits:
                waits.append(self.ready[b])
        for i, params in enumerate(tasks):
            name = label if len(tasks) == 1 else f"{label}[t{i}]"
            self.tasks.append({"id": len(self.tasks), "op": op, "inputs": inputs, "outputs": [output],
                               "out_counter": counter, "waits": [{"counter": c, "threshold": n} for c, n in waits],
                               "params": params, "sm": sms[i] if sms else None, "label": name})
        self.ready[output] = (counter, len(tasks))

    def product(self, x, weights, output, K, N, tile, label, extra=None, sms=None):
        tiles = [{"K": K, "N_tile": min(tile, N - n), "n_off": n, **(extra or {})} for n in range(0, N, tile)]
        if self.batch > 1:
            tiles = [{**t, "M_tile": self.batch} for t in tiles]
        op = "GEMM_TILE" if self.batch > 1 else "GEMV_TILE"
        self.stage(op, [x] + weights, output, tiles, label, sms and [sms[i % len(sms)] for i in range(len(tiles))])

    def write(self, path):
        sizes = {}
        for b, page in self.pages.items():
            n = BITS[self.buffers[b]["dtype"]] // 8
            for d in self.buffers[b]["shape"]:
                n *= d
            sizes[page] = max(n, sizes.get(page, 0))
        pages = None
        if self.pages:
            pages = {"buffer_to_page": {str(b): p for b, p in self.pages.items()},
                     "pages": [{"id": i, "space": "GLOBAL_SCRATCH", "nbytes": sizes[i]} for i in sorted(sizes)]}
        save(path, {"ir_version": "0.2.0", "abi_version": "0.2", "meta": {"pos": self.pos, "kv_len": self.pos + 1},
                    "target": {"num_sms": self.sms, "smem_bytes_per_block_optin": 65536}, "buffers": self.buffers,
                    "counters": self.counters, "tasks": self.tasks, "pages": pages})


def save(path, program):
    """An object or a list of objects a line: small, and yet to be read."""
    def lines(v):
        return "[\n" + ",\n".join(json.dumps(x, separators=(",", ":")) for x in v) + "]"
    with open(path, "w", encoding="ascii") as f:
        f.write("{" + ",\n".join(f'"{k}":' + (lines(v) if isinstance(v, list) else json.dumps(v, separators=(",", ":")))
                                 for k, v in program.items()) + "}\n")


def layer(p, split, quantise, bound):
    """One layer of hidden 32, 4 heads on 2 of 8, a vocabulary of 48."""
    B, H, heads, kv, hd, V, rows = p.batch, 32, 4, 2, 8, 48, 64
    token = p.buffer("token_id", "IO_INPUT", (B,), "I32")
    pos = p.buffer("pos", "IO_INPUT", (B,), "I32")
    zero = p.buffer("reshape_id0", "IO_INPUT", (B,), "I32")
    on = (lambda *sms: list(sms)) if bound else (lambda *sms: None)

    def activation(name, shape):
        return p.buffer(name, "ACTIVATION", shape)
    h0, an = activation("h0", (B, H)), activation("an", (B, H))
    p.stage("EMBED", [token, p.weight("embed", (V, H))], h0, [{"hidden": H}], "embed", on(0))
    p.stage("RMSNORM", [h0, p.weight("norm", (H,))], an, [{"eps": 1e-6, "hidden": H}], "norm", on(0))
    q, k, v = (activation(n, (B, w)) for n, w in (("q", H), ("k", kv * hd), ("v", kv * hd)))
    if quantise:
        group = 16
        p.product(an, [p.weight("wq", (H, H), "I4"), p.weight("wq.scales", (H, H // group), "F16"),
                       p.weight("wq.zeros", (H, H // group), "F16")], q, H, H, 16, "q", {"qdtype": 7, "group": group},
                  on(0, 1))
        p.product(an, [p.weight("wk", (kv * hd, H), "I8"), p.weight("wk.scales", (kv * hd, H // group), "F16")], k, H,
                  kv * hd, 16, "k", {"qdtype": 6, "group": group}, on(2))
    else:
        p.product(an, [p.weight("wq", (H, H)), p.weight("bq", (H,))], q, H, H, 16, "q", None, on(0, 1))
        p.product(an, [p.weight("wk", (kv * hd, H))], k, H, kv * hd, 16, "k", None, on(2))
    p.product(an, [p.weight("wv", (kv * hd, H))], v, H, kv * hd, 8, "v", None, on(3, 2))
    shape_q = (B, heads, hd) if B > 1 else (heads, hd)
    qs, qr = activation("q.heads", shape_q), activation("q.rope", shape_q)
    ks, kr = activation("k.heads", (B, kv, hd)), activation("k.rope", (B, kv, hd))
    p.stage("EMBED", [zero, q], qs, [{"hidden": hd}], "q.reshape", on(0))
    p.stage("ROPE", [qs, pos], qr, [{"head_dim": hd, "theta": 1e4}], "q.rope", on(0))
    p.stage("EMBED", [zero, k], ks, [{"hidden": hd}], "k.reshape", on(2))
    p.stage("ROPE", [ks, pos], kr, [{"head_dim": hd, "theta": 1e4}], "k.rope", on(2))
    cache = (B, rows, kv, hd) if B > 1 else (rows, kv, hd)
    kc, vc = p.buffer("kcache", "KV_CACHE", cache), p.buffer("vcache", "KV_CACHE", cache)
    p.stage("KV_APPEND", [kr, kc], kc, [{"pos": p.pos}], "k.append", on(2))
    p.stage("KV_APPEND", [v, vc], vc, [{"pos": p.pos}], "v.append", on(3))
    attn, length, parts = activation("attn", (B, H)), p.pos + 1, []
    sizes = {"head_dim": hd, "scale": hd ** -0.5, "n_heads": heads, "n_kv_heads": kv}
    if split > 1:
        step = -(-length // split)
        for i in range(split):
            part = activation(f"part{i}", (heads, hd + 2))
            p.stage("ATTENTION_TILE", [qr, kc, vc], part,
                    [{**sizes, "kv_start": i * step, "kv_len": min(step, length - i * step), "flags": 2}],
                    f"attention.s{i}", on(i % p.sms))
            parts.append(part)
        p.stage("ATTENTION_COMBINE", parts, attn, [{"head_dim": hd, "n_heads": heads}], "attention.merge", on(1))
    else:
        p.stage("ATTENTION_TILE", [qr, kc, vc], attn, [{**sizes, "kv_start": 0, "kv_len": length}], "attention", on(1))
    o, h1, hf = activation("o", (B, H)), activation("h1", (B, H)), activation("hf", (B, H))
    p.product(attn, [p.weight("wo", (H, H))], o, H, H, 16, "o", None, on(3, 0))
    p.stage("ADD", [h0, o], h1, [{}], "residual", on(1))
    p.stage("RMSNORM", [h1, p.weight("norm.final", (H,))], hf, [{"eps": 1e-6, "hidden": H}], "norm.final", on(1))
    logits = p.buffer("logits", "IO_OUTPUT", (B, V))
    p.product(hf, [p.weight("head", (V, H))], logits, H, V, 16, "head", None, on(0, 1, 2))
    p.stage("SAMPLE_ARGMAX", [logits], p.buffer("token", "IO_OUTPUT", (B,), "I32"), [{}], "argmax", on(0))
    if bound:
        # Normed, then projected; queries, then what is added: by then every reader of the former is done.
        p.pages = {an: 0, o: 0, q: 1, hf: 1, h0: 2}


def copy(path, out):
    with open(path, encoding="utf-8") as f:
        d = json.load(f)
    keep = {"buffers": ("id", "name", "kind", "dtype", "shape", "space"), "counters": ("id", "init", "note"),
            "tasks": ("id", "op", "inputs", "outputs", "out_counter", "waits", "params", "sm", "label")}
    slim = {"ir_version": d["ir_version"], "abi_version": d["abi_version"],
            "meta": {k: d["meta"][k] for k in ("pos", "kv_len")},
            "target": {k: d["target"][k] for k in ("num_sms", "smem_bytes_per_block_optin")}}
    for name, fields in keep.items():
        slim[name] = [{k: x[k] for k in fields} for x in d[name]]
    slim["pages"] = d["pages"]
    folder, name = os.path.split(os.path.abspath(path))
    save(os.path.join(out, f"{os.path.basename(folder)}-{name}"), slim)


def main():
    out = sys.argv[1]
    os.makedirs(out, exist_ok=True)
    p = Program(pos=32)
    layer(p, split=2, quantise=True, bound=True)
    p.write(os.path.join(out, "toy-split.json"))
    p = Program(pos=5, batch=2)
    layer(p, split=1, quantise=False, bound=False)
    p.write(os.path.join(out, "toy-batch.json"))
    for path in sys.argv[2:]:
        copy(path, out)


main()
